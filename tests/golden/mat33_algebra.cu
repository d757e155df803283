extern "C" __global__ void __launch_bounds__(256)
mat33_algebra(
    const float *__restrict__ m,
    const float *__restrict__ v,
    float *__restrict__ square,
    float *__restrict__ image,
    float *__restrict__ volume,
    int thread_count)
{
    for (unsigned int thread = blockIdx.x * blockDim.x + threadIdx.x; thread < (unsigned int)thread_count;
         thread += gridDim.x * blockDim.x) {
        int i = thread;
        // a = m[i]
        float a = m[i * 9];
        float a_1 = m[i * 9 + 1];
        float a_2 = m[i * 9 + 2];
        float a_3 = m[i * 9 + 3];
        float a_4 = m[i * 9 + 4];
        float a_5 = m[i * 9 + 5];
        float a_6 = m[i * 9 + 6];
        float a_7 = m[i * 9 + 7];
        float a_8 = m[i * 9 + 8];
        // square[i] = a * a + wp.transpose(a) - wp.outer(v[i], v[i])
        float t = a_1 * a_3;
        float t_1 = a_2 * a_6;
        float t_2 = a_5 * a_6;
        float t_3 = a_5 * a_7;
        float t_4 = a_7 * a_3;
        float v_1 = v[i * 3];
        float v_2 = v[i * 3 + 1];
        float v_3 = v[i * 3 + 2];
        float t_5 = v_1 * v_2;
        float t_6 = v_1 * v_3;
        float t_7 = v_2 * v_3;
        square[i * 9] = fmaf(-v_1, v_1, fmaf(a, a, t) + t_1 + a);
        square[i * 9 + 1] = fmaf(a_2, a_7, fmaf(a, a_1, a_1 * a_4)) + a_3 - t_5;
        square[i * 9 + 2] = fmaf(a_2, a_8, fmaf(a, a_2, a_1 * a_5)) + a_6 - t_6;
        square[i * 9 + 3] = fmaf(a_3, a, a_4 * a_3) + t_2 + a_1 - t_5;
        square[i * 9 + 4] = fmaf(-v_2, v_2, fmaf(a_4, a_4, t) + t_3 + a_4);
        square[i * 9 + 5] = fmaf(a_5, a_8, fmaf(a_3, a_2, a_4 * a_5)) + a_7 - t_7;
        square[i * 9 + 6] = fmaf(a_8, a_6, fmaf(a_6, a, t_4)) + a_2 - t_6;
        square[i * 9 + 7] = fmaf(a_8, a_7, fmaf(a_6, a_1, a_7 * a_4)) + a_5 - t_7;
        square[i * 9 + 8] = fmaf(-v_3, v_3, fmaf(a_8, a_8, t_1 + t_3) + a_8);
        // image[i] = a * v[i]
        image[i * 3] = fmaf(a_2, v_3, fmaf(a, v_1, a_1 * v_2));
        image[i * 3 + 1] = fmaf(a_5, v_3, fmaf(a_3, v_1, a_4 * v_2));
        image[i * 3 + 2] = fmaf(a_8, v_3, fmaf(a_6, v_1, a_7 * v_2));
        // volume[i] = wp.determinant(a) + wp.trace(a)
        float t_8 = a * (a_4 * a_8 - t_3) - a_1 * (a_3 * a_8 - t_2) + a_2 * (t_4 - a_4 * a_6);
        volume[i] = t_8 + (a + a_4 + a_8);
    }
}
