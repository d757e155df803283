// What NVRTC has built in, for compiling the text of a kernel as plain C++ and running its threads one after another.
// The threads of a block whose text waits for each other (barriers, shuffles) take turns, each on a stack of its own.
#pragma once
#include "fibers.h"

#define __global__
#define __device__
#define __shared__ static
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(threads)

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
