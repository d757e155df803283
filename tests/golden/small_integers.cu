template <int bytes> struct wide_unsigned { typedef unsigned int type; };
template <> struct wide_unsigned<8> { typedef unsigned long long type; };

template <class T> __device__ __forceinline__ T wrap_add(T a, T b) {
    typedef typename wide_unsigned<sizeof(T)>::type U;
    return (T)((U)a + (U)b);
}

template <class T> __device__ __forceinline__ T wrap_mul(T a, T b) {
    typedef typename wide_unsigned<sizeof(T)>::type U;
    return (T)((U)a * (U)b);
}

template <class T> __device__ __forceinline__ unsigned long long bits_of(T a) {
    return (unsigned long long)a & (~0ull >> (64 - 8 * sizeof(T)));
}

template <class T> __device__ __forceinline__ T shift_right(T a, T n) {
    if (bits_of(n) < 8 * sizeof(T)) return (T)(a >> n);
    return a < 0 ? (T)-1 : (T)0;
}

extern "C" __global__ void __launch_bounds__(256)
small_integers(
    const signed char *__restrict__ a,
    const unsigned char *__restrict__ b,
    const bool *__restrict__ mask,
    signed char *__restrict__ c,
    unsigned char *__restrict__ d,
    bool *__restrict__ flag,
    int thread_count)
{
    for (unsigned int thread = blockIdx.x * blockDim.x + threadIdx.x; thread < (unsigned int)thread_count;
         thread += gridDim.x * blockDim.x) {
        int i = thread;
        // c[i] = a[i] * a[i] + wp.int8(b[i])
        signed char a_1 = a[i];
        unsigned char b_1 = b[i];
        c[i] = wrap_add(wrap_mul(a_1, a_1), (signed char)b_1);
        // d[i] = (b[i] >> wp.uint8(2)) ^ wp.uint8(a[i])
        d[i] = (unsigned char)(shift_right(b_1, (unsigned char)2) ^ (unsigned char)a_1);
        // flag[i] = mask[i] and a[i] > wp.int8(0) or not mask[i] and b[i] < wp.uint8(9)
        bool mask_1 = mask[i];
        flag[i] = (mask_1 && a_1 > (signed char)0) || (!mask_1 && b_1 < (unsigned char)9);
    }
}
