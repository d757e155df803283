extern "C" __global__ void __launch_bounds__(256)
matmul(
    const float *__restrict__ a,
    const float *__restrict__ b,
    float *__restrict__ c,
    int a_size1,
    int b_size1,
    int c_size1,
    int grid_size1,
    int thread_count)
{
    for (unsigned int thread = blockIdx.x * blockDim.x + threadIdx.x; thread < (unsigned int)thread_count;
         thread += gridDim.x * blockDim.x) {
        int i = thread / grid_size1;
        int j = thread % grid_size1;
        // for k in range(a.shape[1]):
        float s = 0.0f;
        for (int k = 0; k < a_size1; ++k) {
            // s += a[i, k] * b[k, j]
            s = fmaf(a[i * a_size1 + k], b[k * b_size1 + j], s);
        }
        // c[i, j] = s
        c[i * c_size1 + j] = s;
    }
}
