template <class T> __device__ __forceinline__ T min_of(T a, T b) { return a < b ? a : b; }

template <class T> __device__ __forceinline__ T max_of(T a, T b) { return a > b ? a : b; }

extern "C" __global__ void __launch_bounds__(256)
elementary(const float *__restrict__ x, float *__restrict__ out, int thread_count)
{
    for (unsigned int thread = blockIdx.x * blockDim.x + threadIdx.x; thread < (unsigned int)thread_count;
         thread += gridDim.x * blockDim.x) {
        int i = thread;
        // v = x[i]
        float v = x[i];
        // a = wp.sin(v) * wp.cos(v) + wp.tan(0.2 * v)
        float a = fmaf(sinf(v), cosf(v), tanf(0.2f * v));
        // b = wp.exp(-v) * wp.log(1.0 + v) + wp.sqrt(v)
        float b = fmaf(expf(-v), logf(1.0f + v), sqrtf(v));
        // c = wp.atan2(v, 2.0) + wp.tanh(v) + wp.pow(v, 1.5)
        float c = atan2f(v, 2.0f) + tanhf(v) + powf(v, 1.5f);
        // out[i] = wp.max(wp.min(a, b), wp.clamp(c, 0.0, 2.0)) + wp.floor(v) - wp.abs(wp.sinh(0.5 * v))
        float t = max_of(min_of(a, b), min_of(max_of(0.0f, c), 2.0f)) + floorf(v) - fabsf(sinhf(0.5f * v));
        out[i] = t;
    }
}
