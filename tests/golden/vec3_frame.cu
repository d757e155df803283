extern "C" __global__ void __launch_bounds__(256)
vec3_frame(
    const float *__restrict__ a,
    const float *__restrict__ b,
    float *__restrict__ normal_,
    float *__restrict__ angle,
    int thread_count)
{
    for (unsigned int thread = blockIdx.x * blockDim.x + threadIdx.x; thread < (unsigned int)thread_count;
         thread += gridDim.x * blockDim.x) {
        int i = thread;
        // u = wp.normalize(a[i])
        float a_1 = a[i * 3];
        float a_2 = a[i * 3 + 1];
        float a_3 = a[i * 3 + 2];
        float t = sqrtf(fmaf(a_3, a_3, fmaf(a_1, a_1, a_2 * a_2)));
        bool t_1 = t > 0.0f;
        float t_2 = t_1 ? t : 1.0f;
        float u = t_1 ? a_1 / t_2 : 0.0f;
        float u_1 = t_1 ? a_2 / t_2 : 0.0f;
        float u_2 = t_1 ? a_3 / t_2 : 0.0f;
        // v = b[i]
        float v = b[i * 3];
        float v_1 = b[i * 3 + 1];
        float v_2 = b[i * 3 + 2];
        // n = wp.cross(u, v)
        float n = u_1 * v_2 - u_2 * v_1;
        float n_1 = u_2 * v - u * v_2;
        float n_2 = u * v_1 - u_1 * v;
        // if wp.length(n) > 1.0e-6:
        float t_3 = sqrtf(fmaf(n_2, n_2, fmaf(n, n, n_1 * n_1)));
        // if wp.length(n) > 1.0e-6:
        if (t_3 > 1e-06f) {
            // n = wp.normalize(n)
            bool t_4 = t_3 > 0.0f;
            float t_5 = t_4 ? t_3 : 1.0f;
            n = t_4 ? n / t_5 : 0.0f;
            n_1 = t_4 ? n_1 / t_5 : 0.0f;
            n_2 = t_4 ? n_2 / t_5 : 0.0f;
        }
        // normal_[i] = n
        normal_[i * 3] = n;
        normal_[i * 3 + 1] = n_1;
        normal_[i * 3 + 2] = n_2;
        // angle[i] = wp.dot(u, v) / wp.length(v)
        float t_4 = fmaf(u_2, v_2, fmaf(u, v, u_1 * v_1)) / sqrtf(fmaf(v_2, v_2, fmaf(v, v, v_1 * v_1)));
        angle[i] = t_4;
    }
}
