extern "C" __global__ void __launch_bounds__(256)
heat_3d(
    const float *__restrict__ u,
    float *__restrict__ out,
    const float *__restrict__ k,
    int u_size0,
    int u_size1,
    int u_size2,
    int out_size1,
    int out_size2,
    int grid_size1,
    int grid_size2,
    int thread_count)
{
    const int u_stride0 = u_size1 * u_size2;
    const int out_stride0 = out_size1 * out_size2;
    for (unsigned int thread = blockIdx.x * blockDim.x + threadIdx.x; thread < (unsigned int)thread_count;
         thread += gridDim.x * blockDim.x) {
        int i = thread / grid_size2 / grid_size1;
        int j = thread / grid_size2 % grid_size1;
        int m = thread % grid_size2;
        // c = u[i, j, m]
        float c = u[i * u_stride0 + j * u_size2 + m];
        // if i == 0 or j == 0 or m == 0 or i == u.shape[0] - 1 or j == u.shape[1] - 1 or m == u.shape[2] - 1:
        bool t = i == 0 || j == 0 || m == 0 || i == u_size0 - 1 || j == u_size1 - 1 || m == u_size2 - 1;
        float k_1 = k[0];
        // if i == 0 or j == 0 or m == 0 or i == u.shape[0] - 1 or j == u.shape[1] - 1 or m == u.shape[2] - 1:
        if (t) {
            // out[i, j, m] = c
            out[i * out_stride0 + j * out_size2 + m] = c;
        } else {
            // s = u[i - 1, j, m] + u[i + 1, j, m] + u[i, j - 1, m] + u[i, j + 1, m] + u[i, j, m - 1] + u[i, j, m + 1]
            float t_1 = u[(i - 1) * u_stride0 + j * u_size2 + m] + u[(i + 1) * u_stride0 + j * u_size2 + m];
            float t_2 = t_1 + u[i * u_stride0 + (j - 1) * u_size2 + m] + u[i * u_stride0 + (j + 1) * u_size2 + m];
            float s = t_2 + u[i * u_stride0 + j * u_size2 + m - 1] + u[i * u_stride0 + j * u_size2 + m + 1];
            // out[i, j, m] = c + k * (s - 6.0 * c)
            out[i * out_stride0 + j * out_size2 + m] = fmaf(k_1, fmaf(-6.0f, c, s), c);
        }
    }
}
