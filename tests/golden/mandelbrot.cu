template <int bytes> struct wide_unsigned { typedef unsigned int type; };
template <> struct wide_unsigned<8> { typedef unsigned long long type; };

template <class T> __device__ __forceinline__ T wrap_add(T a, T b) {
    typedef typename wide_unsigned<sizeof(T)>::type U;
    return (T)((U)a + (U)b);
}

extern "C" __global__ void __launch_bounds__(256)
mandelbrot(
    int *__restrict__ count,
    const int *__restrict__ limit,
    int count_size0,
    int count_size1,
    int grid_size1,
    int thread_count)
{
    for (unsigned int thread = blockIdx.x * blockDim.x + threadIdx.x; thread < (unsigned int)thread_count;
         thread += gridDim.x * blockDim.x) {
        int i = thread / grid_size1;
        int j = thread % grid_size1;
        // cr = -2.0 + 2.8 * float(j) / float(count.shape[1])
        float cr = -2.0f + 2.8f * (float)j / (float)count_size1;
        // ci = -1.2 + 2.4 * float(i) / float(count.shape[0])
        float ci = -1.2f + 2.4f * (float)i / (float)count_size0;
        // while n < limit and zr * zr + zi * zi <= 4.0:
        float zi = 0.0f;
        float zr = 0.0f;
        int n = 0;
        int limit_1 = limit[0];
        while (n < limit_1 && fmaf(zr, zr, zi * zi) <= 4.0f) {
            // t = zr * zr - zi * zi + cr
            float t = fmaf(zr, zr, -(zi * zi)) + cr;
            // zi = 2.0 * zr * zi + ci
            zi = fmaf(2.0f * zr, zi, ci);
            // n += 1
            n = wrap_add(n, 1);
            zr = t;
        }
        // count[i, j] = n
        count[i * count_size1 + j] = n;
    }
}
