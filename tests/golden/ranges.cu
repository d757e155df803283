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

template <class U, class T> __device__ __forceinline__ U trips(T start, T stop, T step) {
    if (step > 0 && start < stop) return ((U)stop - (U)start - 1) / (U)step + 1;
    if (step < 0 && start > stop) return ((U)start - (U)stop - 1) / (0 - (U)step) + 1;
    return 0;
}
#define RANGE_COUNT(U, T) \
    __device__ __forceinline__ U range_count(T start, T stop, T step) { return trips<U>(start, stop, step); }
RANGE_COUNT(unsigned int, int)
RANGE_COUNT(unsigned int, unsigned int)
RANGE_COUNT(unsigned long long, long long)
RANGE_COUNT(unsigned long long, unsigned long long)
#undef RANGE_COUNT

extern "C" __global__ void __launch_bounds__(256)
ranges(
    const int *__restrict__ n,
    const int *__restrict__ step,
    int *__restrict__ total,
    int *__restrict__ parts,
    int parts_size1,
    int thread_count)
{
    for (unsigned int thread = blockIdx.x * blockDim.x + threadIdx.x; thread < (unsigned int)thread_count;
         thread += gridDim.x * blockDim.x) {
        int i = thread;
        // for k in range(n[i], -5, step):
        int n_1 = n[i];
        int step_1 = step[0];
        int s = 0;
        int k = n_1;
        for (unsigned int k_left = range_count(n_1, -5, step_1); k_left != 0; --k_left, k = wrap_add(k, step_1)) {
            // s += k * k
            s = wrap_add(s, wrap_mul(k, k));
        }
        // for j in range(0, n[i], 2):
        int a = 1;
        int b = 2;
        int j = 0;
        for (unsigned int j_left = range_count(0, n_1, 2); j_left != 0; --j_left, j = wrap_add(j, 2)) {
            // for _ in range(j, j + 3):
            int stop = wrap_add(j, 3);
            for (int v = j; v < stop; ++v) {
                // a, b = b, a + j
                int b_1 = wrap_add(a, j);
                a = b;
                b = b_1;
            }
        }
        // total[i] = s
        total[i] = s;
        // parts[i, 0] = a
        parts[i * parts_size1] = a;
        // parts[i, 1] = b
        parts[i * parts_size1 + 1] = b;
        // parts[i, k] = k + s
        parts[i * parts_size1 + 3] = wrap_add(3, s);
        parts[i * parts_size1 + 2] = wrap_add(2, s);
    }
}
