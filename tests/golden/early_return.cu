extern "C" __global__ void __launch_bounds__(256)
early_return(const float *__restrict__ x, float *__restrict__ out, int thread_count)
{
    for (unsigned int thread = blockIdx.x * blockDim.x + threadIdx.x; thread < (unsigned int)thread_count;
         thread += gridDim.x * blockDim.x) {
        int i = thread;
        // v = x[i]
        float v = x[i];
        // if v < -1.0:
        if (v < -1.0f) {
            // out[i] = -1.0
            out[i] = -1.0f;
        } else {
            // if v > 1.0:
            if (v > 1.0f) {
                // out[i] = 1.0
                out[i] = 1.0f;
            } else {
                // elif v > 0.5:
                v = v > 0.5f ? v * v : v + 3.0f;
                // out[i] = v
                out[i] = v;
            }
        }
    }
}
