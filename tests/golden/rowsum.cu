extern "C" __global__ void __launch_bounds__(256)
rowsum(
    const int *__restrict__ x,
    int *__restrict__ total,
    int *__restrict__ largest,
    int x_size1,
    int grid_size1,
    int thread_count)
{
    for (unsigned int thread = blockIdx.x * blockDim.x + threadIdx.x; thread < (unsigned int)thread_count;
         thread += gridDim.x * blockDim.x) {
        int i = thread / grid_size1;
        int j = thread % grid_size1;
        // wp.atomic_add(total, i, x[i, j])
        int x_1 = x[i * x_size1 + j];
        atomicAdd(&total[i], x_1);
        // wp.atomic_max(largest, i, x[i, j])
        atomicMax(&largest[i], x_1);
    }
}
