extern "C" __global__ void __launch_bounds__(256)
functions(const float *__restrict__ x, float *__restrict__ a, float *__restrict__ b, int thread_count)
{
    for (unsigned int thread = blockIdx.x * blockDim.x + threadIdx.x; thread < (unsigned int)thread_count;
         thread += gridDim.x * blockDim.x) {
        int i = thread;
        // whole, part = _split(x[i])
        float x_1 = x[i];
        // whole = wp.floor(x)
        float whole = floorf(x_1);
        // return whole, x - whole
        float part = x_1 - whole;
        // if x < low:
        float result = whole < -1.0f ? -1.0f : whole > 2.0f ? 2.0f : whole;
        // a[i] = _limited(whole, high=2.0)
        a[i] = result;
        // b[i] = _limited(part * 4.0 - 2.0) + (1.0 if i % 3 == 0 else -1.0)
        float t = fmaf(part, 4.0f, -2.0f);
        // if x < low:
        result = t < -1.0f ? -1.0f : t > 1.0f ? 1.0f : t;
        // b[i] = _limited(part * 4.0 - 2.0) + (1.0 if i % 3 == 0 else -1.0)
        b[i] = result + (i % 3 == 0 ? 1.0f : -1.0f);
    }
}
