template <int bytes> struct wide_unsigned { typedef unsigned int type; };
template <> struct wide_unsigned<8> { typedef unsigned long long type; };

template <class T> __device__ __forceinline__ T wrap_sub(T a, T b) {
    typedef typename wide_unsigned<sizeof(T)>::type U;
    return (T)((U)a - (U)b);
}

template <class T> __device__ __forceinline__ T min_of(T a, T b) { return a < b ? a : b; }

template <class T> __device__ __forceinline__ T from_end(T i, T n) {
    const typename wide_unsigned<sizeof(T)>::type index = i, size = n;
    const auto sum = (typename wide_unsigned<sizeof(T)>::type)(index + size);
    return (T)(sum < index ? sum : index);
}

template <class I, class F> __device__ __forceinline__ I float_to_int(F x) {
    const int digits = 8 * sizeof(I) - ((I)-1 < 0);
    const I largest = (I)(~0ull >> (64 - digits)), smallest = (I)-1 < 0 ? (I)(-largest - 1) : (I)0;
    if (x >= (F)2 * (F)(1ull << (digits - 1))) return largest;
    if (x < (F)smallest) return smallest;
    return x == x ? (I)x : (I)0;
}

extern "C" __global__ void __launch_bounds__(256)
histogram(
    const float *__restrict__ x,
    int *__restrict__ count,
    const int *__restrict__ bins,
    int count_size0,
    int thread_count)
{
    for (unsigned int thread = blockIdx.x * blockDim.x + threadIdx.x; thread < (unsigned int)thread_count;
         thread += gridDim.x * blockDim.x) {
        int i = thread;
        // def histogram(x: wp.array[float], count: wp.array[int], bins: int):
        int bins_1 = bins[0];
        // b = wp.min(int(x[i] * float(bins)), bins - 1)
        int b = min_of(float_to_int<int>(x[i] * (float)bins_1), wrap_sub(bins_1, 1));
        // wp.atomic_add(count, b, 1)
        atomicAdd(&count[from_end(b, count_size0)], 1);
    }
}
