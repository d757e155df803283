template <int bytes> struct wide_unsigned { typedef unsigned int type; };
template <> struct wide_unsigned<8> { typedef unsigned long long type; };

template <class T> __device__ __forceinline__ T from_end(T i, T n) {
    const typename wide_unsigned<sizeof(T)>::type index = i, size = n;
    const auto sum = (typename wide_unsigned<sizeof(T)>::type)(index + size);
    return (T)(sum < index ? sum : index);
}

extern "C" __global__ void __launch_bounds__(256)
component_by_index(
    const float *__restrict__ x,
    const int *__restrict__ which,
    float *__restrict__ out,
    int thread_count)
{
    for (unsigned int thread = blockIdx.x * blockDim.x + threadIdx.x; thread < (unsigned int)thread_count;
         thread += gridDim.x * blockDim.x) {
        int i = thread;
        // v = x[i]
        float v = x[i * 4];
        float v_1 = x[i * 4 + 1];
        float v_2 = x[i * 4 + 2];
        float v_3 = x[i * 4 + 3];
        // k = which[i]
        int k = which[i];
        // v[k] = v[k] * 2.0 + v[0]
        int t = from_end(k, 4);
        bool t_1 = t == 2;
        bool t_2 = t == 1;
        bool t_3 = t == 0;
        float t_4 = fmaf(t_3 ? v : t_2 ? v_1 : t_1 ? v_2 : v_3, 2.0f, v);
        v = t_3 ? t_4 : v;
        v_1 = t_2 ? t_4 : v_1;
        v_2 = t_1 ? t_4 : v_2;
        v_3 = t == 3 ? t_4 : v_3;
        // v[3] += 1.0
        v_3 = v_3 + 1.0f;
        // out[i] = v
        out[i * 4] = v;
        out[i * 4 + 1] = v_1;
        out[i * 4 + 2] = v_2;
        out[i * 4 + 3] = v_3;
    }
}
