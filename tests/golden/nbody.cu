extern "C" __global__ void __launch_bounds__(256)
nbody(
    const float *__restrict__ position,
    const float *__restrict__ mass,
    float *__restrict__ acceleration,
    const float *__restrict__ softening,
    int position_size0,
    int thread_count)
{
    for (unsigned int thread = blockIdx.x * blockDim.x + threadIdx.x; thread < (unsigned int)thread_count;
         thread += gridDim.x * blockDim.x) {
        int i = thread;
        // p = position[i]
        float p = position[i * 3];
        float p_1 = position[i * 3 + 1];
        float p_2 = position[i * 3 + 2];
        // for j in range(len(position)):
        float a = 0.0f;
        float a_1 = 0.0f;
        float a_2 = 0.0f;
        float softening_1 = softening[0];
        for (int j = 0; j < position_size0; ++j) {
            // d = position[j] - p
            float d = position[j * 3] - p;
            float d_1 = position[j * 3 + 1] - p_1;
            float d_2 = position[j * 3 + 2] - p_2;
            // r2 = wp.dot(d, d) + softening
            float r2 = fmaf(d_2, d_2, fmaf(d, d, d_1 * d_1)) + softening_1;
            // a += d * (mass[j] / (r2 * wp.sqrt(r2)))
            float t = mass[j] / (r2 * sqrtf(r2));
            a = fmaf(d, t, a);
            a_1 = fmaf(d_1, t, a_1);
            a_2 = fmaf(d_2, t, a_2);
        }
        // acceleration[i] = a
        acceleration[i * 3] = a;
        acceleration[i * 3 + 1] = a_1;
        acceleration[i * 3 + 2] = a_2;
    }
}
