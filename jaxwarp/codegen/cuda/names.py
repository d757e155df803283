"""Names in the C++ text: the user's where possible, never a keyword, a function of the text or a name twice."""

from __future__ import annotations

import re
from collections.abc import Iterable

_KEYWORDS = """
alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class co_await
co_return co_yield compl concept const const_cast consteval constexpr constinit continue decltype default delete do
double dynamic_cast else enum explicit export extern false float for friend goto if inline int long mutable namespace
new noexcept not not_eq nullptr operator or or_eq private protected public register reinterpret_cast requires restrict
return short signed sizeof static static_assert static_cast struct switch template this thread_local throw true try
typedef typeid typename typeof union unsigned using virtual void volatile wchar_t while xor xor_eq
""".split()

# What the text itself or NVRTC's built-in headers declare. A kernel is extern "C": it cannot share a name with them.
_DECLARED = """
abort abs acos acosh asin asinh assert atan atan2 atanh atoi blockDim blockIdx calloc cbrt ceil clock clock64 copysign
cos cosh cospi cyl_bessel_i0 cyl_bessel_i1 div double2 double3 double4 erf erfc erfcinv erfcx erfinv exit exp exp10
exp2 expm1 fabs fdim fdivide float2 float3 float4 floor fma fmax fmin fmod free frexp gridDim hypot ilogb int2 int3
int4 isfinite isinf isnan j0 j1 jn labs ldexp lgamma llabs llmax llmin llrint llround log log10 log1p log2 logb lrint
lround main malloc max memcmp memcpy memmove memset min modf nan nearbyint nextafter norm norm3d norm4d normcdf
normcdfinv pow pown printf rand rcbrt realloc remainder remquo rhypot rint rnorm rnorm3d rnorm4d round rsqrt scalbln
scalbn signbit sin sincos sincospi sinh sinpi size_t sqrt std strlen surface tan tanh texture tgamma threadIdx trap
trunc uint2 uint3 uint4 ullmax ullmin umax umin umin warpSize y0 y1 yn
""".split()

RESERVED = frozenset([*_KEYWORDS, *_DECLARED, *(f"{name}f" for name in _DECLARED)])


def identifier(hint: str) -> str:
    """The hint as a C++ identifier of ASCII letters; leading underscores belong to the compiler."""
    ascii_text = "".join(c if c.isascii() else f"u{ord(c):x}" for c in hint)
    text = re.sub(r"\W", "_", ascii_text).lstrip("_")
    text = re.sub(r"__+", "_", text)
    return f"v{text}" if not text or text[0].isdigit() else text


def symbol(name: str) -> str:
    """The name of the kernel's function: the kernel's own unless something else has it."""
    text = identifier(name)
    return f"{text}_kernel" if text in RESERVED or text.startswith(("atomic", "cuda")) else text


class Names:
    """Names in use, by nested C++ scopes. A name is free again when its scope has closed."""

    def __init__(self, taken: Iterable[str] = ()):
        self._reserved = RESERVED | frozenset(taken)
        self._scopes: list[set[str]] = [set()]

    def open(self) -> None:
        self._scopes.append(set())

    def close(self) -> None:
        self._scopes.pop()

    def outermost(self, hint: str) -> str:
        """A name that no open scope has, for the outermost one."""
        name = self.fresh(hint)
        self._scopes[-1].discard(name)
        self._scopes[0].add(name)
        return name

    def fresh(self, hint: str) -> str:
        """A name like the hint that no open scope has."""
        base = identifier(hint or "t")
        name, n = base, 0
        while name in self._reserved or any(name in scope for scope in self._scopes):
            n += 1
            name = f"{base}_{n}"
        self._scopes[-1].add(name)
        return name
