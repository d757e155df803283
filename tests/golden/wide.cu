template <int bytes> struct wide_unsigned { typedef unsigned int type; };
template <> struct wide_unsigned<8> { typedef unsigned long long type; };

template <class T> __device__ __forceinline__ T wrap_add(T a, T b) {
    typedef typename wide_unsigned<sizeof(T)>::type U;
    return (T)((U)a + (U)b);
}

template <class T> __device__ __forceinline__ T wrap_neg(T a) {
    typedef typename wide_unsigned<sizeof(T)>::type U;
    return (T)(0 - (U)a);
}

template <class T> __device__ __forceinline__ T int_div(T a, T b) {
    if (b == 0) return 0;
    if ((T)-1 < 0 && b == (T)-1) return wrap_neg(a);
    return (T)(a / b);
}

template <class T> __device__ __forceinline__ T int_mod(T a, T b) {
    if (b == 0 || ((T)-1 < 0 && b == (T)-1)) return 0;
    return (T)(a % b);
}

template <class T> __device__ __forceinline__ T int_floordiv(T a, T b) {
    const T quotient = int_div(a, b), rest = int_mod(a, b);
    return rest != 0 && (rest < 0) != (b < 0) ? (T)(quotient - 1) : quotient;
}

template <class T> __device__ __forceinline__ unsigned long long bits_of(T a) {
    return (unsigned long long)a & (~0ull >> (64 - 8 * sizeof(T)));
}

template <class T> __device__ __forceinline__ T shift_left(T a, T n) {
    return bits_of(n) < 8 * sizeof(T) ? (T)((typename wide_unsigned<sizeof(T)>::type)a << n) : (T)0;
}

template <class I, class F> __device__ __forceinline__ I float_to_int(F x) {
    const int digits = 8 * sizeof(I) - ((I)-1 < 0);
    const I largest = (I)(~0ull >> (64 - digits)), smallest = (I)-1 < 0 ? (I)(-largest - 1) : (I)0;
    if (x >= (F)2 * (F)(1ull << (digits - 1))) return largest;
    if (x < (F)smallest) return smallest;
    return x == x ? (I)x : (I)0;
}

extern "C" __global__ void __launch_bounds__(256)
wide(
    const double *__restrict__ x,
    const long long *__restrict__ n,
    double *__restrict__ y,
    long long *__restrict__ m,
    int thread_count)
{
    for (unsigned int thread = blockIdx.x * blockDim.x + threadIdx.x; thread < (unsigned int)thread_count;
         thread += gridDim.x * blockDim.x) {
        int i = thread;
        // y[i] = wp.sqrt(wp.abs(x[i])) + wp.float64(n[i] % wp.int64(1000)) * wp.float64(0.25)
        double x_1 = x[i];
        long long n_1 = n[i];
        y[i] = fma((double)(n_1 % 1000LL), 0.25, sqrt(fabs(x_1)));
        // m[i] = (n[i] << wp.int64(3)) // wp.int64(7) + wp.int64(x[i])
        long long t = wrap_add(int_floordiv(shift_left(n_1, 3LL), 7LL), float_to_int<long long>(x_1));
        m[i] = t;
    }
}
