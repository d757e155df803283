template <int bytes> struct wide_unsigned { typedef unsigned int type; };
template <> struct wide_unsigned<8> { typedef unsigned long long type; };

template <class T> __device__ __forceinline__ T wrap_add(T a, T b) {
    typedef typename wide_unsigned<sizeof(T)>::type U;
    return (T)((U)a + (U)b);
}

template <class T> __device__ __forceinline__ T int_mod(T a, T b) {
    if (b == 0 || ((T)-1 < 0 && b == (T)-1)) return 0;
    return (T)(a % b);
}

extern "C" __global__ void __launch_bounds__(256)
lbm_d2q9(
    const float *__restrict__ f,
    float *__restrict__ out,
    const float *__restrict__ omega,
    int f_size1,
    int f_size2,
    int out_size1,
    int out_size2,
    int grid_size1,
    int thread_count)
{
    const int f_stride0 = f_size1 * f_size2;
    const int out_stride0 = out_size1 * out_size2;
    for (unsigned int thread = blockIdx.x * blockDim.x + threadIdx.x; thread < (unsigned int)thread_count;
         thread += gridDim.x * blockDim.x) {
        int y = thread / grid_size1;
        int x = thread % grid_size1;
        // def lbm_d2q9(f: wp.array3d[float], out: wp.array3d[float], omega: float):
        float omega_1 = omega[0];
        // xm = (x - 1 + nx) % nx
        int xm = int_mod(wrap_add(x - 1, f_size2), f_size2);
        // xp = (x + 1) % nx
        int xp = int_mod(x + 1, f_size2);
        // ym = (y - 1 + ny) % ny
        int ym = int_mod(wrap_add(y - 1, f_size1), f_size1);
        // yp = (y + 1) % ny
        int yp = int_mod(y + 1, f_size1);
        // f0 = f[0, y, x]
        float f0 = f[y * f_size2 + x];
        // f1 = f[1, y, xm]
        float f1 = f[f_stride0 + y * f_size2 + xm];
        // f2 = f[2, ym, x]
        float f2 = f[2 * f_stride0 + ym * f_size2 + x];
        // f3 = f[3, y, xp]
        float f3 = f[3 * f_stride0 + y * f_size2 + xp];
        // f4 = f[4, yp, x]
        float f4 = f[4 * f_stride0 + yp * f_size2 + x];
        // f5 = f[5, ym, xm]
        float f5 = f[5 * f_stride0 + ym * f_size2 + xm];
        // f6 = f[6, ym, xp]
        float f6 = f[6 * f_stride0 + ym * f_size2 + xp];
        // f7 = f[7, yp, xp]
        float f7 = f[7 * f_stride0 + yp * f_size2 + xp];
        // f8 = f[8, yp, xm]
        float f8 = f[8 * f_stride0 + yp * f_size2 + xm];
        // rho = f0 + f1 + f2 + f3 + f4 + f5 + f6 + f7 + f8
        float rho = f0 + f1 + f2 + f3 + f4 + f5 + f6 + f7 + f8;
        // ux = (f1 + f5 + f8 - f3 - f6 - f7) / rho
        float ux = (f1 + f5 + f8 - f3 - f6 - f7) / rho;
        // uy = (f2 + f5 + f6 - f4 - f7 - f8) / rho
        float uy = (f2 + f5 + f6 - f4 - f7 - f8) / rho;
        // usq = 1.5 * (ux * ux + uy * uy)
        float usq = 1.5f * fmaf(ux, ux, uy * uy);
        // d = ux + uy
        float d = ux + uy;
        // e = ux - uy
        float e = ux - uy;
        // w1 = rho / 9.0
        float w1 = rho / 9.0f;
        // w2 = rho / 36.0
        float w2 = rho / 36.0f;
        // out[0, y, x] = f0 + omega * (4.0 * w1 * (1.0 - usq) - f0)
        out[y * out_size2 + x] = fmaf(omega_1, fmaf(4.0f * w1, 1.0f - usq, -f0), f0);
        // out[1, y, x] = f1 + omega * (w1 * (1.0 + 3.0 * ux + 4.5 * ux * ux - usq) - f1)
        float t = 3.0f * ux;
        float t_1 = 4.5f * ux * ux;
        out[out_stride0 + y * out_size2 + x] = fmaf(omega_1, fmaf(w1, 1.0f + t + t_1 - usq, -f1), f1);
        // out[2, y, x] = f2 + omega * (w1 * (1.0 + 3.0 * uy + 4.5 * uy * uy - usq) - f2)
        float t_2 = 3.0f * uy;
        float t_3 = 4.5f * uy * uy;
        out[2 * out_stride0 + y * out_size2 + x] = fmaf(omega_1, fmaf(w1, 1.0f + t_2 + t_3 - usq, -f2), f2);
        // out[3, y, x] = f3 + omega * (w1 * (1.0 - 3.0 * ux + 4.5 * ux * ux - usq) - f3)
        out[3 * out_stride0 + y * out_size2 + x] = fmaf(omega_1, fmaf(w1, 1.0f - t + t_1 - usq, -f3), f3);
        // out[4, y, x] = f4 + omega * (w1 * (1.0 - 3.0 * uy + 4.5 * uy * uy - usq) - f4)
        out[4 * out_stride0 + y * out_size2 + x] = fmaf(omega_1, fmaf(w1, 1.0f - t_2 + t_3 - usq, -f4), f4);
        // out[5, y, x] = f5 + omega * (w2 * (1.0 + 3.0 * d + 4.5 * d * d - usq) - f5)
        float t_4 = 3.0f * d;
        float t_5 = 4.5f * d * d;
        out[5 * out_stride0 + y * out_size2 + x] = fmaf(omega_1, fmaf(w2, 1.0f + t_4 + t_5 - usq, -f5), f5);
        // out[6, y, x] = f6 + omega * (w2 * (1.0 - 3.0 * e + 4.5 * e * e - usq) - f6)
        float t_6 = 3.0f * e;
        float t_7 = 4.5f * e * e;
        out[6 * out_stride0 + y * out_size2 + x] = fmaf(omega_1, fmaf(w2, 1.0f - t_6 + t_7 - usq, -f6), f6);
        // out[7, y, x] = f7 + omega * (w2 * (1.0 - 3.0 * d + 4.5 * d * d - usq) - f7)
        out[7 * out_stride0 + y * out_size2 + x] = fmaf(omega_1, fmaf(w2, 1.0f - t_4 + t_5 - usq, -f7), f7);
        // out[8, y, x] = f8 + omega * (w2 * (1.0 + 3.0 * e + 4.5 * e * e - usq) - f8)
        out[8 * out_stride0 + y * out_size2 + x] = fmaf(omega_1, fmaf(w2, 1.0f + t_6 + t_7 - usq, -f8), f8);
    }
}
