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

template <class T> __device__ __forceinline__ T max_of(T a, T b) { return a > b ? a : b; }

extern "C" __global__ void __launch_bounds__(256)
collatz(const int *__restrict__ start, int *__restrict__ steps, int *__restrict__ peak, int thread_count)
{
    for (unsigned int thread = blockIdx.x * blockDim.x + threadIdx.x; thread < (unsigned int)thread_count;
         thread += gridDim.x * blockDim.x) {
        int i = thread;
        // n = start[i]
        int n = start[i];
        // while True:
        int count = 0;
        int top = n;
        bool stopped = false;
        while (!stopped) {
            // if n == 1:
            if (n == 1) {
                stopped = true;
            } else {
                // count += 1
                count = wrap_add(count, 1);
                // if n % 2 == 0:
                if (n % 2 == 0) {
                    // n = n // 2
                    n = int_floordiv(n, 2);
                    stopped = false;
                } else {
                    // n = 3 * n + 1
                    n = wrap_add(wrap_mul(3, n), 1);
                    // top = wp.max(top, n)
                    top = max_of(top, n);
                    stopped = count > 100;
                }
            }
        }
        // steps[i] = count
        steps[i] = count;
        // peak[i] = top
        peak[i] = top;
    }
}
