template <class To, class From> __device__ __forceinline__ To bit_cast(From x) {
    union { From from; To to; } both;
    both.from = x;
    return both.to;
}

__device__ __forceinline__ float float16_to_float(unsigned short h) {
#ifdef __CUDACC_RTC__
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h));
    return x;
#else
    const unsigned int sign = (h & 0x8000u) << 16, magnitude = h & 0x7fffu;
    unsigned int bits = (magnitude << 13) + (magnitude >= 0x7c00u ? 0x70000000u : 0x38000000u);
    if (magnitude < 0x0400u) bits = bit_cast<unsigned int>((float)magnitude * 5.9604644775390625e-8f);
    return bit_cast<float>(bits | sign);
#endif
}

__device__ __forceinline__ unsigned short float_to_float16(float x) {
#ifdef __CUDACC_RTC__
    unsigned short h;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(h) : "f"(x));
    return h;
#else
    const unsigned int bits = bit_cast<unsigned int>(x), sign = (bits >> 16) & 0x8000u;
    const unsigned int magnitude = bits & 0x7fffffffu;
    unsigned int half;
    if (magnitude > 0x7f800000u) half = 0x7e00u;
    else if (magnitude >= 0x47800000u) half = 0x7c00u;
    else if (magnitude < 0x38800000u) half = bit_cast<unsigned int>(bit_cast<float>(magnitude) + 0.5f) - 0x3f000000u;
    else half = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
    return (unsigned short)(half | sign);
#endif
}

__device__ __forceinline__ float bfloat16_to_float(unsigned short h) { return bit_cast<float>((unsigned int)h << 16); }

__device__ __forceinline__ unsigned short float_to_bfloat16(float x) {
    const unsigned int bits = bit_cast<unsigned int>(x);
    if (x != x) return (unsigned short)((bits >> 16 & 0x8000u) | 0x7fc0u);
    return (unsigned short)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

extern "C" __global__ void __launch_bounds__(256)
halves(
    const unsigned short *__restrict__ a,
    const unsigned short *__restrict__ b,
    unsigned short *__restrict__ c,
    unsigned short *__restrict__ d,
    int thread_count)
{
    for (unsigned int thread = blockIdx.x * blockDim.x + threadIdx.x; thread < (unsigned int)thread_count;
         thread += gridDim.x * blockDim.x) {
        int i = thread;
        // c[i] = a[i] * a[i] + wp.float16(b[i])
        float t = float16_to_float(a[i]);
        unsigned short b_1 = b[i];
        float t_1 = float16_to_float(float_to_float16(t * t)) + float16_to_float(float_to_float16(bfloat16_to_float(b_1)));
        c[i] = float_to_float16(t_1);
        // d[i] = wp.bfloat16(float(a[i]) * 3.0) - b[i]
        unsigned short t_2 = float_to_bfloat16(bfloat16_to_float(float_to_bfloat16(t * 3.0f)) - bfloat16_to_float(b_1));
        d[i] = t_2;
    }
}
