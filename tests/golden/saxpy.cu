extern "C" __global__ void __launch_bounds__(256)
saxpy(
    const float *__restrict__ a,
    const float *__restrict__ x,
    const float *__restrict__ y,
    float *__restrict__ out,
    int thread_count)
{
    for (unsigned int thread = blockIdx.x * blockDim.x + threadIdx.x; thread < (unsigned int)thread_count;
         thread += gridDim.x * blockDim.x) {
        int i = thread;
        // out[i] = a * x[i] + y[i]
        out[i] = fmaf(a[0], x[i], y[i]);
    }
}
