__device__ inline int add_of_i32(int old, int value)
{
    return (int)((unsigned int)old + (unsigned int)value);
}

__device__ inline int lanes_add_i32(int value, unsigned int lanes)
{
    const unsigned int everyone = lanes < 32u ? (1u << lanes) - 1u : 0xffffffffu;
    for (unsigned int distance = 16; distance != 0; distance /= 2) {
        const int other = (int)__shfl_down_sync(everyone, value, distance);
        if (threadIdx.x % 32u + distance < lanes) value = add_of_i32(value, other);
    }
    return value;
}

__device__ inline void warp_add_i32(int *address, int value)
{
    if (__activemask() == 0xffffffffu) {
        const unsigned long long first = __shfl_sync(0xffffffffu, (unsigned long long)address, 0);
        if (__all_sync(0xffffffffu, first == (unsigned long long)address)) {
            value = lanes_add_i32(value, 32);
            if (threadIdx.x % 32u == 0) atomicAdd(address, value);
            return;
        }
    }
    atomicAdd(address, value);
}

__device__ inline int max_of_i32(int old, int value)
{
    return old > value ? old : value;
}

__device__ inline int lanes_max_i32(int value, unsigned int lanes)
{
    const unsigned int everyone = lanes < 32u ? (1u << lanes) - 1u : 0xffffffffu;
    for (unsigned int distance = 16; distance != 0; distance /= 2) {
        const int other = (int)__shfl_down_sync(everyone, value, distance);
        if (threadIdx.x % 32u + distance < lanes) value = max_of_i32(value, other);
    }
    return value;
}

__device__ inline void warp_max_i32(int *address, int value)
{
    if (__activemask() == 0xffffffffu) {
        const unsigned long long first = __shfl_sync(0xffffffffu, (unsigned long long)address, 0);
        if (__all_sync(0xffffffffu, first == (unsigned long long)address)) {
            value = lanes_max_i32(value, 32);
            if (threadIdx.x % 32u == 0) atomicMax(address, value);
            return;
        }
    }
    atomicMax(address, value);
}

extern "C" __global__ void __launch_bounds__(256)
rowsum(
    const int *__restrict__ x,
    int *__restrict__ total,
    int *__restrict__ largest,
    int x_size1,
    int total_size0,
    int largest_size0,
    int grid_size1,
    int thread_count)
{
    __shared__ int total_part[256];
    const bool total_is_small = total_size0 <= 256;
    if (total_is_small)
        for (unsigned int element = threadIdx.x; element < total_size0; element += blockDim.x)
            total_part[element] = 0;
    __shared__ int largest_part[256];
    const bool largest_is_small = largest_size0 <= 256;
    if (largest_is_small)
        for (unsigned int element = threadIdx.x; element < largest_size0; element += blockDim.x)
            largest_part[element] = -2147483647 - 1;
    __syncthreads();
    for (unsigned int thread = blockIdx.x * blockDim.x + threadIdx.x; thread < (unsigned int)thread_count;
         thread += gridDim.x * blockDim.x) {
        int i = thread / grid_size1;
        int j = thread % grid_size1;
        // wp.atomic_add(total, i, x[i, j])
        int x_1 = x[i * x_size1 + j];
        warp_add_i32(&(total_is_small ? total_part : total)[i], x_1);
        // wp.atomic_max(largest, i, x[i, j])
        warp_max_i32(&(largest_is_small ? largest_part : largest)[i], x_1);
    }
    __syncthreads();
    if (total_is_small)
        for (unsigned int element = threadIdx.x; element < total_size0; element += blockDim.x)
            if (total_part[element] != 0) atomicAdd(&total[element], total_part[element]);
    if (largest_is_small)
        for (unsigned int element = threadIdx.x; element < largest_size0; element += blockDim.x)
            if (largest_part[element] != -2147483647 - 1) atomicMax(&largest[element], largest_part[element]);
}
