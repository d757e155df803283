// What NVRTC has built in, for compiling the text of a kernel as plain C++ and running its threads one after another.
// The threads of a block whose text waits for each other (barriers, shuffles) take turns, each on a stack of its own.
#pragma once
#include "fibers.h"

#define __global__
#define __device__
#define __shared__ static
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)

#define PACKS(name, T) \
    struct alignas(2 * sizeof(T)) name##2 { T x, y; }; \
    struct alignas(sizeof(T) == 4 ? 16 : 8) name##4 { T x, y, z, w; };
PACKS(float, float) PACKS(int, int) PACKS(uint, unsigned int)
PACKS(double, double) PACKS(longlong, long long) PACKS(ulonglong, unsigned long long)

static inline void __syncthreads() { fibers::wait_for_block(); }
// Each place where it is written is one instruction: threads that are there at the same time are together.
#define __activemask() fibers::together(__COUNTER__)

template <class T> static inline T __shfl_down_sync(unsigned int mask, T value, unsigned int distance) {
    return fibers::from_lane(mask, value, threadIdx.x % 32 + distance);
}
template <class T> static inline T __shfl_sync(unsigned int mask, T value, unsigned int lane) {
    return fibers::from_lane(mask, value, lane % 32);
}
template <class T> static inline T __shfl_xor_sync(unsigned int mask, T value, unsigned int lanes) {
    return fibers::from_lane(mask, value, threadIdx.x % 32 ^ lanes);
}
static inline int __all_sync(unsigned int mask, bool yes) { return fibers::votes(mask, yes) == mask; }

// Instructions of PTX, as its manual has them. A warp does one together: what its lanes have is exchanged.
template <int bytes, class M, class T> static inline void cp_async(M &memory, int at, const T *from) {
    static_assert(bytes == 4 || bytes == 8 || bytes == 16, "cp.async copies so many bytes");
    if ((unsigned long long)from % bytes || (unsigned long long)&memory.values[at] % bytes) fibers::fail("copies from or to an address that is not aligned");
    for (int n = 0; n < bytes / (int)sizeof(T); ++n) memory.begin(at + n, from[n]);
}
static inline void cp_async_commit_group() { fibers::commit_group(); }
static inline void cp_async_wait_group(int left) { fibers::wait_group(left); }

// Lanes 8 n to 8 n + 7 say where the rows of matrix n are.
template <class M> static inline void ldmatrix_x4(unsigned int (&to)[4], M &memory, int at, bool turned) {
    const unsigned int lane = threadIdx.x % 32;
    unsigned long long halves[2] = {};
    if ((unsigned long long)&memory.values[at] % 16) fibers::fail("loads a row of a matrix that is not aligned");
    for (int n = 0; n < 8; ++n) halves[n / 4] |= (unsigned long long)memory.load(at + n) << n % 4 * 16;
    unsigned short rows[32][8];
    for (int half = 0; half < 2; ++half) {
        fibers::offer(0xffffffffu, halves[half]);
        for (int from = 0; from < 32; ++from)
            for (int n = 0; n < 4; ++n)
                rows[from][half * 4 + n] = (unsigned short)(fibers::threads[fibers::current].seen[from] >> n * 16);
    }
    for (int n = 0; n < 4; ++n) {
        unsigned short both[2];
        for (int e = 0; e < 2; ++e) {
            const unsigned int row = lane / 4, column = lane % 4 * 2 + e;
            both[e] = turned ? rows[n * 8 + column][row] : rows[n * 8 + row][column];
        }
        to[n] = both[0] | (unsigned int)both[1] << 16;
    }
}

template <bool is_bfloat16> static inline float half_value(unsigned short bits) {
    if (is_bfloat16) {
        const unsigned int wide = (unsigned int)bits << 16;
        float x;
        __builtin_memcpy(&x, &wide, 4);
        return x;
    }
    const float sign = bits >> 15 ? -1.0f : 1.0f;
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    if (exponent == 31) return fraction ? __builtin_nanf("") : sign * __builtin_inff();
    return sign * (exponent ? __builtin_ldexpf(1024 + fraction, exponent - 25) : __builtin_ldexpf(fraction, -24));
}

// a: rows lane / 4 and 8 more, at k = lane % 4 * 2 and 8 more; b: k likewise, column lane / 4. Sums in an order of their own.
template <bool is_bfloat16> static inline void mma_m16n8k16(float *c, const unsigned int *a, const unsigned int *b) {
    const unsigned int lane = threadIdx.x % 32;
    const unsigned int mine[6] = {a[0], a[1], a[2], a[3], b[0], b[1]};
    float left[16][16], right[16][8];
    for (int word = 0; word < 6; ++word) {
        fibers::offer(0xffffffffu, mine[word]);
        for (int from = 0; from < 32; ++from)
            for (int e = 0; e < 2; ++e) {
                const unsigned short bits = (unsigned short)(fibers::threads[fibers::current].seen[from] >> e * 16);
                const float value = half_value<is_bfloat16>(bits);
                if (word < 4) left[from / 4 + word % 2 * 8][from % 4 * 2 + e + word / 2 * 8] = value;
                else right[from % 4 * 2 + e + (word - 4) * 8][from / 4] = value;
            }
    }
    for (int e = 0; e < 4; ++e) {
        const unsigned int row = lane / 4 + e / 2 * 8, column = lane % 4 * 2 + e % 2;
        double sum = 0;
        for (int k = 15; k >= 0; --k) sum += (double)left[row][k] * right[k][column];
        c[e] = (float)(c[e] + sum);
    }
}
static inline void mma_m8n8k4(double *c, double a, double b) {
    const unsigned int lane = threadIdx.x % 32;
    double values[2][32];
    for (int side = 0; side < 2; ++side) {
        unsigned long long bits;
        __builtin_memcpy(&bits, side ? &b : &a, 8);
        fibers::offer(0xffffffffu, bits);
        __builtin_memcpy(values[side], fibers::threads[fibers::current].seen, sizeof(values[side]));
    }
    for (int e = 0; e < 2; ++e)
        for (int k = 0; k < 4; ++k) c[e] += values[0][lane / 4 * 4 + k] * values[1][(lane % 4 * 2 + e) * 4 + k];
}

#define FOR_BOTH_PRECISIONS(DECLARE) \
    DECLARE(sqrt) DECLARE(cbrt) DECLARE(exp) DECLARE(exp2) DECLARE(expm1) DECLARE(log) DECLARE(log2) DECLARE(log10) \
    DECLARE(log1p) DECLARE(sin) DECLARE(cos) DECLARE(tan) DECLARE(asin) DECLARE(acos) DECLARE(atan) DECLARE(sinh) \
    DECLARE(cosh) DECLARE(tanh) DECLARE(asinh) DECLARE(acosh) DECLARE(atanh) DECLARE(erf) DECLARE(erfc) \
    DECLARE(floor) DECLARE(ceil) DECLARE(trunc) DECLARE(round) DECLARE(rint) DECLARE(fabs)
#define DECLARE_UNARY(name) double name(double); float name##f(float);
extern "C" {
FOR_BOTH_PRECISIONS(DECLARE_UNARY)
double pow(double, double); float powf(float, float);
double fmod(double, double); float fmodf(float, float);
double atan2(double, double); float atan2f(float, float);
double hypot(double, double); float hypotf(float, float);
double copysign(double, double); float copysignf(float, float);
double fma(double, double, double); float fmaf(float, float, float);
}

// As PTX has them: a NaN is left out, and -0.0 is less than 0.0 (C says nothing of zeros).
#define EXTREME(name, T, order) \
    static inline T name(T a, T b) { \
        return a != a ? b : b != b ? a : a == b ? ((1 / a) order (1 / b) ? a : b) : a order b ? a : b; }
EXTREME(ptx_minf, float, <) EXTREME(ptx_maxf, float, >)
EXTREME(ptx_min, double, <) EXTREME(ptx_max, double, >)
#define fminf ptx_minf
#define fmaxf ptx_maxf
#define fmin ptx_min
#define fmax ptx_max

static inline float __int_as_float(int bits) { float x; __builtin_memcpy(&x, &bits, 4); return x; }
static inline double __longlong_as_double(long long bits) { double x; __builtin_memcpy(&x, &bits, 8); return x; }
static inline int __popc(unsigned int x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __clz(int x) { return x ? __builtin_clz((unsigned int)x) : 32; }
static inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }

// One overload per type that CUDA has, so that a text which relies on another does not compile here either.
#define ATOMIC(name, T, update) \
    static inline T name(T *address, T value) { const T old = *address; *address = (update); return old; }
#define ATOMIC_INTEGERS(T) \
    ATOMIC(atomicAdd, T, old + value) ATOMIC(atomicExch, T, value) ATOMIC(atomicAnd, T, old & value) \
    ATOMIC(atomicOr, T, old | value) ATOMIC(atomicXor, T, old ^ value)
#define ATOMIC_ORDERED(T) \
    ATOMIC(atomicMin, T, old < value ? old : value) ATOMIC(atomicMax, T, old > value ? old : value)
#define ATOMIC_CAS(T) \
    static inline T atomicCAS(T *address, T expected, T value) { \
        const T old = *address; if (old == expected) *address = value; return old; }
ATOMIC_INTEGERS(int)
ATOMIC_INTEGERS(unsigned int)
ATOMIC_INTEGERS(unsigned long long)
ATOMIC_ORDERED(int)
ATOMIC_ORDERED(unsigned int)
ATOMIC_ORDERED(long long)
ATOMIC_ORDERED(unsigned long long)
ATOMIC_CAS(unsigned short)
ATOMIC_CAS(int)
ATOMIC_CAS(unsigned int)
ATOMIC_CAS(unsigned long long)
ATOMIC(atomicAdd, float, old + value)
ATOMIC(atomicAdd, double, old + value)
ATOMIC(atomicExch, float, value)
