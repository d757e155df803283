template <int bytes> struct wide_unsigned { typedef unsigned int type; };
template <> struct wide_unsigned<8> { typedef unsigned long long type; };

template <class T> __device__ __forceinline__ T wrap_add(T a, T b) {
    typedef typename wide_unsigned<sizeof(T)>::type U;
    return (T)((U)a + (U)b);
}

template <class T> __device__ __forceinline__ T from_end(T i, T n) {
    const typename wide_unsigned<sizeof(T)>::type index = i, size = n;
    const auto sum = (typename wide_unsigned<sizeof(T)>::type)(index + size);
    return (T)(sum < index ? sum : index);
}

extern "C" __global__ void __launch_bounds__(256)
gather(
    const float *__restrict__ x,
    const int *__restrict__ index,
    float *__restrict__ out,
    int x_size0,
    int x_size1,
    int thread_count)
{
    for (unsigned int thread = blockIdx.x * blockDim.x + threadIdx.x; thread < (unsigned int)thread_count;
         thread += gridDim.x * blockDim.x) {
        int i = thread;
        // k = index[i]
        int k = index[i];
        // if k < 0:
        if (k < 0) {
            // k += x.shape[0]
            k = wrap_add(k, x_size0);
        }
        // out[i] = x[k, 0] - x[k, x.shape[1] - 1]
        int t = from_end(k, x_size0);
        out[i] = x[t * x_size1] - x[t * x_size1 + x_size1 - 1];
    }
}
