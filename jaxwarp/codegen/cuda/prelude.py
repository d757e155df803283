"""C++ helpers that the CUDA texts of builtins call: device functions without includes.

They are also valid plain C++17 behind a shim that supplies what NVRTC has built in:
* the qualifiers `__device__` and `__forceinline__`, the intrinsics `__popc`, `__popcll`, `__clz`, `__clzll`;
* the C library's functions in the global namespace, in both precisions: `sin` and `sinf`, `fma` and `fmaf`, ...

float16 and bfloat16 are kept as `unsigned short`. Where `__CUDACC_RTC__` is not defined, their conversions are integer
code; on the device float16 uses PTX, since `__half` needs a header.
"""

from __future__ import annotations

import re

from jaxwarp.codegen.cuda.blocks.instructions import INSTRUCTIONS

_INLINE = "__device__ __forceinline__"

PRELUDE: dict[str, str] = {}


def _helper(name: str, source: str) -> None:
    PRELUDE[name] = source.strip().replace("INLINE", _INLINE) + "\n"


# The unsigned type that a signed one wraps in: at least 32 bits, so that nothing is promoted to a signed type.
_helper(
    "wide_unsigned",
    """
template <int bytes> struct wide_unsigned { typedef unsigned int type; };
template <> struct wide_unsigned<8> { typedef unsigned long long type; };
""",
)
for _name, _operator in (("wrap_add", "+"), ("wrap_sub", "-"), ("wrap_mul", "*")):
    _helper(
        _name,
        f"""
template <class T> INLINE T {_name}(T a, T b) {{
    typedef typename wide_unsigned<sizeof(T)>::type U;
    return (T)((U)a {_operator} (U)b);
}}
""",
    )
_helper(
    "wrap_neg",
    """
template <class T> INLINE T wrap_neg(T a) {
    typedef typename wide_unsigned<sizeof(T)>::type U;
    return (T)(0 - (U)a);
}
""",
)
# i % n for 0 <= i < 2 * n.
_helper(
    "wrap_around",
    "INLINE int wrap_around(int i, int n) { return (int)min_of((unsigned int)i, (unsigned int)i - (unsigned int)n); }",
)
# What threads of a warp have, exchanged and combined.
_helper(
    "sum_of",
    """
template <class T> INLINE T sum_of(T a, T b) { return wrap_add(a, b); }
INLINE float sum_of(float a, float b) { return a + b; }
INLINE double sum_of(double a, double b) { return a + b; }
""",
)
_helper(
    "from_lane",
    """
template <class T> INLINE T from_lane(T a, int distance) {
    if constexpr (sizeof(T) < 4) return (T)__shfl_xor_sync(0xffffffffu, (int)a, distance);
    else return __shfl_xor_sync(0xffffffffu, a, distance);
}
""",
)
_helper(
    "lane_value",
    """
template <class T> INLINE T lane_value(T a, int lane) {
    if constexpr (sizeof(T) < 4) return (T)__shfl_sync(0xffffffffu, (int)a, lane);
    else return __shfl_sync(0xffffffffu, a, lane);
}
""",
)
# The compiler takes it for another number at each call, and finds anew what follows from it.
_helper(
    "number_of_thread",
    """
INLINE int number_of_thread() {
#ifdef __CUDACC_RTC__
    int number;
    asm volatile("mov.u32 %0, %%tid.x;" : "=r"(number));
    return number;
#else
    return threadIdx.x;
#endif
}
""",
)
_helper(
    "total_of_warp",
    """
template <class T> INLINE T total_of_warp(T a) {
    for (int distance = 16; distance > 0; distance /= 2) a = sum_of(a, from_lane(a, distance));
    return a;
}
""",
)
# Extrema: any number is better than a NaN. Of equal ones the first comes first, by their places.
_helper(
    "is_better",
    """
template <bool largest, class T> INLINE bool is_better(T a, T b) { return !(largest ? a <= b : a >= b) && a == a; }
""",
)
_helper(
    "comes_first",
    """
template <bool largest, class T> INLINE bool comes_first(T a, int a_at, T b, int b_at) {
    return is_better<largest>(a, b) || (!is_better<largest>(b, a) && a_at < b_at);
}
""",
)
_helper("printed", "INLINE double printed(double x) { return x != x ? fabs(x) : x; }")
_helper("int_abs", "template <class T> INLINE T int_abs(T a) { return a < 0 ? wrap_neg(a) : a; }")
_helper(
    "int_div",
    """
template <class T> INLINE T int_div(T a, T b) {
    if (b == 0) return 0;
    if ((T)-1 < 0 && b == (T)-1) return wrap_neg(a);
    return (T)(a / b);
}
""",
)
_helper(
    "int_floordiv",
    """
template <class T> INLINE T int_floordiv(T a, T b) {
    const T quotient = int_div(a, b), rest = int_mod(a, b);
    return rest != 0 && (rest < 0) != (b < 0) ? (T)(quotient - 1) : quotient;
}
""",
)
_helper(
    "int_mod",
    """
template <class T> INLINE T int_mod(T a, T b) {
    if (b == 0 || ((T)-1 < 0 && b == (T)-1)) return 0;
    return (T)(a % b);
}
""",
)
_helper("sign_of", "template <class T> INLINE T sign_of(T a) { return a < 0 ? (T)-1 : (T)1; }")
_helper("min_of", "template <class T> INLINE T min_of(T a, T b) { return a < b ? a : b; }")
_helper("max_of", "template <class T> INLINE T max_of(T a, T b) { return a > b ? a : b; }")
_helper("clamp_to_unit", "template <class T> INLINE T clamp_to_unit(T x) { return x > 1 ? (T)1 : x < -1 ? (T)-1 : x; }")
_helper("is_nan", "template <class T> INLINE bool is_nan(T x) { return x != x; }")
_helper("is_finite", "template <class T> INLINE bool is_finite(T x) { return x - x == 0; }")
_helper("is_inf", "template <class T> INLINE bool is_inf(T x) { return x == x && !(x - x == 0); }")

_helper(
    "bits_of",
    """
template <class T> INLINE unsigned long long bits_of(T a) {
    return (unsigned long long)a & (~0ull >> (64 - 8 * sizeof(T)));
}
""",
)
_helper(
    "shift_left",
    """
template <class T> INLINE T shift_left(T a, T n) {
    return bits_of(n) < 8 * sizeof(T) ? (T)((typename wide_unsigned<sizeof(T)>::type)a << n) : (T)0;
}
""",
)
_helper(
    "shift_right",
    """
template <class T> INLINE T shift_right(T a, T n) {
    if (bits_of(n) < 8 * sizeof(T)) return (T)(a >> n);
    return a < 0 ? (T)-1 : (T)0;
}
""",
)
_helper(
    "count_ones",
    """
template <class T> INLINE T count_ones(T a) {
    return (T)(sizeof(T) == 8 ? __popcll(bits_of(a)) : __popc((unsigned int)bits_of(a)));
}
""",
)
_helper(
    "leading_zeros",
    """
template <class T> INLINE T leading_zeros(T a) {
    return (T)(sizeof(T) == 8 ? __clzll((long long)bits_of(a))
                              : __clz((int)bits_of(a)) - (32 - 8 * (int)sizeof(T)));
}
""",
)
_helper(
    "trailing_zeros",
    "template <class T> INLINE T trailing_zeros(T a) { return count_ones((T)(~a & wrap_sub(a, (T)1))); }",
)

_helper(
    "from_end",
    """
template <class T> INLINE T from_end(T i, T n) {
    const typename wide_unsigned<sizeof(T)>::type index = i, size = n;
    const auto sum = (typename wide_unsigned<sizeof(T)>::type)(index + size);
    return (T)(sum < index ? sum : index);
}
""",
)

_helper(
    "within",
    """
INLINE long long within(long long i, long long n) { return (unsigned long long)i < (unsigned long long)n ? i : 0; }
""",
)

_helper(
    "float_to_int",
    """
template <class I, class F> INLINE I float_to_int(F x) {
    const int digits = 8 * sizeof(I) - ((I)-1 < 0);
    const I largest = (I)(~0ull >> (64 - digits)), smallest = (I)-1 < 0 ? (I)(-largest - 1) : (I)0;
    if (x >= (F)2 * (F)(1ull << (digits - 1))) return largest;
    if (x < (F)smallest) return smallest;
    return x == x ? (I)x : (I)0;
}
""",
)
_helper(
    "bit_cast",
    """
template <class To, class From> INLINE To bit_cast(From x) {
    union { From from; To to; } both;
    both.from = x;
    return both.to;
}
""",
)
_helper(
    "float16_to_float",
    """
INLINE float float16_to_float(unsigned short h) {
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
""",
)
_helper(
    "float_to_float16",
    """
INLINE unsigned short float_to_float16(float x) {
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
""",
)
_helper(
    "bfloat16_to_float",
    "INLINE float bfloat16_to_float(unsigned short h) { return bit_cast<float>((unsigned int)h << 16); }",
)
_helper(
    "float_to_bfloat16",
    """
INLINE unsigned short float_to_bfloat16(float x) {
    const unsigned int bits = bit_cast<unsigned int>(x);
    if (x != x) return (unsigned short)((bits >> 16 & 0x8000u) | 0x7fc0u);
    return (unsigned short)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}
""",
)
# double to float so that rounding the result further equals one rounding of x: truncates, and sets the last bit if
# anything was lost (Boldo and Melquiond, 2008).
_helper(
    "round_to_odd",
    """
INLINE float round_to_odd(double x) {
    const float nearest = (float)x;
    const double size = fabs((double)nearest), exact = fabs(x);
    unsigned int bits = bit_cast<unsigned int>(nearest);
    if (size > exact) bits -= 1u;
    if (size > exact || size < exact) bits |= 1u;
    return bit_cast<float>(bits);
}
""",
)

for _name, _source in INSTRUCTIONS.items():
    _helper(_name, _source)

_WORD = re.compile(r"[A-Za-z_]\w*")


def prelude_for(text: str) -> str:
    """The sources of the helpers that `text` uses, and of those that these use, each after what it needs."""
    chosen: list[str] = []
    _add_used(text, chosen)
    return "\n".join(PRELUDE[name] for name in chosen)


def _add_used(text: str, chosen: list[str]) -> None:
    for name in sorted(set(_WORD.findall(text)) & PRELUDE.keys(), key=list(PRELUDE).index):
        if name not in chosen:
            _add_used(re.sub(rf"\b{name}\b", "", PRELUDE[name]), chosen)
            chosen.append(name)
