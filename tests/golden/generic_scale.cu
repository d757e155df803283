extern "C" __global__ void __launch_bounds__(256)
generic_scale(
    const double *__restrict__ x,
    const double *__restrict__ factor,
    double *__restrict__ out,
    int thread_count)
{
    for (unsigned int thread = blockIdx.x * blockDim.x + threadIdx.x; thread < (unsigned int)thread_count;
         thread += gridDim.x * blockDim.x) {
        int i = thread;
        // out[i] = x[i] * factor + x[i]
        double x_1 = x[i];
        out[i] = fma(x_1, factor[0], x_1);
    }
}
