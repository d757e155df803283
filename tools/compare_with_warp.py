"""Runs expressions of the language here and in NVIDIA Warp (CPU), and writes where they differ.

    python tools/compare_with_warp.py            writes docs/warp_differences.md; needs warp-lang
    python tools/compare_with_warp.py --check    only says whether it is up to date

Every difference needs a reason in `REASONS`; one without is an error. What C++ leaves undefined is not run in Warp:
`UNDEFINED` says what, and what it gives here.
"""

from __future__ import annotations

import itertools
import linecache
import math
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
import warp_cases

PAGE = Path(__file__).parents[1] / "docs" / "warp_differences.md"
INTEGERS = ("int8", "uint8", "int32", "uint32", "int64", "uint64")
FLOATS = ("float16", "float32", "float64")

BINARY = ("a + b", "a - b", "a * b", "wp.min(a, b)", "wp.max(a, b)")
ON_BOTH = (
    *BINARY, "-a", "wp.abs(a)", "wp.sign(a)", "wp.step(a)", "wp.nonzero(a)", "wp.clamp(a, b, c)",
    "wp.where(a < b, a, b)", "wp.where(a <= b, a, b)", "wp.where(a == b, a, c)", "wp.where(a != b, a, c)",
)  # fmt: skip
ON_INTEGERS = ("a / b", "a // b", "a % b", "a & b", "a | b", "a ^ b", "~a", "a << b", "a >> b")
ON_FLOATS = (
    "a / b", "a // b", "a % b", "wp.sqrt(a)", "wp.cbrt(a)", "wp.exp(a)", "wp.log(a)", "wp.log2(a)", "wp.log10(a)",
    "wp.pow(a, b)", "a ** b", "wp.sin(a)", "wp.cos(a)", "wp.tan(a)", "wp.asin(a)", "wp.acos(a)", "wp.atan(a)",
    "wp.atan2(a, b)", "wp.sinh(a)", "wp.cosh(a)", "wp.tanh(a)", "wp.degrees(a)", "wp.radians(a)", "wp.round(a)",
    "wp.rint(a)", "wp.trunc(a)", "wp.floor(a)", "wp.ceil(a)", "wp.frac(a)", "wp.lerp(a, b, c)",
    "wp.smoothstep(a, b, c)",
)  # fmt: skip
# Of float32 and float64.
ON_WIDE_FLOATS = ("wp.erf(a)", "wp.erfc(a)")
# Of float32: a scalar of the result stands for all of it.
ON_VECTORS = (
    "wp.normalize(wp.vec3(a, b, c))[0]", "wp.length(wp.vec3(a, b, c))", "wp.length_sq(wp.vec3(a, b, c))",
    "wp.dot(wp.vec3(a, b, c), wp.vec3(b, c, a))", "wp.cross(wp.vec3(a, b, c), wp.vec3(b, c, a))[0]",
    "wp.min(wp.vec3(a, b, c))", "wp.max(wp.vec3(a, b, c))", "wp.min(wp.vec3(a, b, c), wp.vec3(b, c, a))[0]",
    "(wp.vec3(a, b, c) / a)[1]", "wp.determinant(wp.mat22(a, b, c, a))", "wp.inverse(wp.mat22(a, b, c, a))[0, 0]",
    "wp.inverse(wp.mat33(a, b, c, b, c, a, c, a, b))[0, 0]", "wp.trace(wp.mat22(a, b, c, a))",
    "wp.cw_div(wp.vec3(a, b, c), wp.vec3(b, c, a))[0]", "(wp.mat22(a, b, c, a) * wp.vec2(a, b))[0]",
)  # fmt: skip

VALUES: dict[str, tuple[float, ...]] = {
    "int": (0, 1, -1, 2, -2, 3, 7, -7),
    "float": (0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, -0.0, 3.0, -7.0, 100.0, math.inf, -math.inf, math.nan),
}
_AT_LIMITS = ("least", "most", "tiny")  # of the type, after the others


@dataclass(frozen=True)
class Case:
    """An expression of a, b, c, each of one type."""

    expression: str
    dtype: str

    @property
    def is_float(self) -> bool:
        return self.dtype.startswith("float")

    @property
    def names(self) -> list[str]:
        return [n for n in "abc" if n in set(_words(self.expression))]


@dataclass(frozen=True)
class Undefined:
    """What is not run in Warp."""

    expressions: tuple[str, ...]
    arguments: tuple[str, ...]
    dtype: str
    reason: str


_DIVISIONS = ("a / b", "a // b", "a % b")
_SHIFTS = ("a << b", "a >> b")
_CASTS = ("wp.float32(wp.int32(a))", "wp.float32(wp.uint8(a))")
_LEAST = "-2147483648"
UNDEFINED = (
    Undefined(_DIVISIONS, ("7", "0"), "int32", "The divisor is 0. jaxwarp gives 0."),
    Undefined(_DIVISIONS, (_LEAST, "-1"), "int32", "The quotient does not fit. jaxwarp wraps it; the remainder is 0."),
    Undefined(_SHIFTS, ("-7", "32"), "int32", "The count is the width or more. jaxwarp shifts all bits out."),
    Undefined(_SHIFTS, ("-7", "-1"), "int32", "The count is negative. jaxwarp shifts all bits out."),
    Undefined(_CASTS, ("nan",), "float32", "NaN is cast to an integer. jaxwarp gives 0."),
    Undefined(_CASTS, ("1e+20",), "float32", "The value is out of range. jaxwarp gives the nearest limit."),
    Undefined(_CASTS, ("-1e+20",), "float32", "The value is out of range. jaxwarp gives the nearest limit."),
)

_EXTREMES = (
    "wp.min(a, b)", "wp.max(a, b)", "wp.clamp(a, b, c)", "wp.min(wp.vec3(a, b, c), wp.vec3(b, c, a))[0]",
)  # fmt: skip
_ARCS = ("wp.asin(a)", "wp.acos(a)")
_INVERSE = "wp.inverse(wp.mat22(a, b, c, a))[0, 0]"
_DROPPED = (
    "Warp ignores a NaN. jaxwarp computes `min(a, b)` as `a if a < b else b`, a single instruction on CPUs: if either"
    " is NaN, the result is `b`. `max` is alike, and `clamp(x, a, b)` is `min(max(a, x), b)`."
)
_ZERO = "Only the sign of zero differs. By the same rule, jaxwarp takes the second of two equal arguments."
_SMALLER_ZERO = "In jaxwarp -0.0 is less than 0.0 among the components of one vector. In Warp the processor decides."
_ANGLE = "Warp clamps the argument, and so turns NaN into -1. In jaxwarp NaN stays NaN."
# By expression and by what the difference is about: "nan" (an argument is), "zero" (the sign of one), "value".
REASONS: dict[tuple[str, str], str] = {
    **{(expression, "nan"): _DROPPED for expression in _EXTREMES},
    **{(expression, "zero"): _ZERO for expression in _EXTREMES},
    **{(f"wp.{name}(wp.vec3(a, b, c))", "zero"): _SMALLER_ZERO for name in ("min", "max")},
    **{(expression, "nan"): _ANGLE for expression in _ARCS},
    ("-a", "zero"): "jaxwarp negates as IEEE 754 says, which changes the sign of zero.",
    ("a // b", "value"): "jaxwarp computes half types in float32. Warp rounds the quotient before it takes the floor: a"
    " tiny negative quotient becomes 0.",
    ("wp.smoothstep(a, b, c)", "value"): "If the edges are equal, the fraction is 0/0 (NaN). `clamp` of NaN differs.",
    ("wp.smoothstep(a, b, c)", "nan"): "`clamp` of NaN differs: Warp's gives the lower bound, jaxwarp's the upper one.",
    (_INVERSE, "nan"): "If the determinant is NaN, Warp returns the zeros of a singular matrix. jaxwarp returns NaN.",
    (_INVERSE, "value"): "The determinant is infinity minus infinity, which is NaN. Then the row above applies.",
    ("wp.lerp(a, b, c)", "value"): "jaxwarp fuses one product of `a * (1 - t) + b * t` with the sum. A fused product"
    " does not overflow on its own.",
}


def _words(expression: str) -> list[str]:
    return "".join(c if c.isalnum() or c in "_." else " " for c in expression).split()


def cases() -> list[Case]:
    """All that is compared."""
    integers = [(e, t) for t in INTEGERS for e in (*ON_BOTH, *ON_INTEGERS)]
    floats = [(e, t) for t in FLOATS for e in (*ON_BOTH, *ON_FLOATS)]
    wide = [(e, t) for t in FLOATS[1:] for e in ON_WIDE_FLOATS]
    return [Case(e, t) for e, t in [*integers, *floats, *wide, *((e, "float32") for e in ON_VECTORS)]]


def values(dtype: str) -> np.ndarray:
    """Ordinary ones first, then those at the edges."""
    kind = np.dtype(dtype)
    if kind.kind == "f":
        limits = np.finfo(kind)
        return np.array([*VALUES["float"], limits.max, limits.smallest_subnormal], kind)
    limits = np.iinfo(kind)
    return np.array([v for v in (*VALUES["int"], limits.min, limits.max) if limits.min <= v <= limits.max], kind)


def arguments(dtype: str) -> list[np.ndarray]:
    """a, b, c: all pairs, c in turn."""
    found = values(dtype)
    pairs = list(itertools.product(range(len(found)), repeat=2))
    third = [(i + 2 * j) % len(found) for i, j in pairs]
    return [found[list(index)] for index in (*zip(*pairs, strict=True), third)]


def is_undefined(case: Case, args: Sequence[Any]) -> bool:
    """What C++ does not define."""
    if case.is_float or case.expression not in ("a / b", "a // b", "a % b", "a << b", "a >> b"):
        return False
    a, b = (int(v) for v in args[:2])
    if case.expression in ("a << b", "a >> b"):
        return not 0 <= b < np.iinfo(case.dtype).bits
    return b == 0 or (b == -1 and a == np.iinfo(case.dtype).min)


def groups() -> Iterator[tuple[list[Case], list[np.ndarray]]]:
    """Expressions of one type that are defined for the same arguments, and these."""
    parts = (("a / b", "a // b", "a % b"), ("a << b", "a >> b"))
    for dtype in (*INTEGERS, *FLOATS):
        left = [case for case in cases() if case.dtype == dtype]
        for part in () if dtype in FLOATS else parts:
            chosen = [case for case in left if case.expression in part]
            left = [case for case in left if case not in chosen]
            yield chosen, _defined(chosen, arguments(dtype))
        yield left, arguments(dtype)


def _defined(group: Sequence[Case], args: list[np.ndarray]) -> list[np.ndarray]:
    keep = [i for i, row in enumerate(zip(*args, strict=True)) if not any(is_undefined(c, row) for c in group)]
    return [a[keep] for a in args]


def make(language: Any, group: Sequence[Case], number: int) -> Any:
    """A kernel that computes the expressions of one type."""
    dtype = group[0].dtype
    array = f"wp.array(dtype=wp.{dtype})"
    lines = [f"def compare_{dtype}_{number}(x: {array}, y: {array}, z: {array}, out: wp.array2d(dtype=wp.{dtype})):"]
    lines += ["    i = wp.tid()", "    a = x[i]", "    b = y[i]", "    c = z[i]"]
    lines += [f"    out[i, {k}] = {case.expression}" for k, case in enumerate(group)]
    text = "\n".join(lines) + "\n"
    file = f"<{language.__name__} {dtype} {number}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    scope: dict[str, Any] = {"wp": language}
    exec(compile(text, file, "exec", dont_inherit=True), scope)
    return scope[f"compare_{dtype}_{number}"]


def ours(group: Sequence[Case], args: Sequence[np.ndarray], number: int = 0) -> np.ndarray:
    """A row per tuple of arguments, a column per expression."""
    import jaxwarp

    out = np.zeros((len(args[0]), len(group)), group[0].dtype)
    jaxwarp.launch(jaxwarp.kernel(make(jaxwarp, group, number)), dim=len(out), inputs=[*args, out])
    return out


def warps(group: Sequence[Case], args: Sequence[np.ndarray], number: int = 0) -> np.ndarray:
    """Likewise of Warp; 0 where it is not run."""
    import warp

    function = make(warp, group, number)
    kernel = warp.kernel(function, enable_backward=False)
    out = np.zeros((len(args[0]), len(group)), group[0].dtype)
    arrays = [warp.array(a, dtype=getattr(warp, group[0].dtype), device="cpu") for a in args]
    result = warp.array(out, dtype=getattr(warp, group[0].dtype), device="cpu")
    warp.launch(kernel, dim=len(out), inputs=[*arrays, result], device="cpu")
    return result.numpy()


_TOLERANCE = {"float16": 2e-3, "float32": 1e-4, "float64": 1e-12}


def kind(value: Any) -> str:
    """What must be alike: of floats not the digits."""
    number = float(value)
    if math.isnan(number):
        return "nan"
    if math.isinf(number) or number == 0:
        return repr(number)
    return "a number"


def differ(a: Any, b: Any) -> bool:
    """Beyond what accuracy allows."""
    if not isinstance(a, np.floating):
        return bool(a != b)
    if kind(a) != "a number" or kind(b) != "a number":
        small = 4 * float(np.finfo(a.dtype).tiny)
        if kind(a) != kind(b) and "nan" not in (kind(a), kind(b)) and abs(float(a)) < small and abs(float(b)) < small:
            return kind(a) != "a number" and kind(b) != "a number"  # zeros of two signs, no underflow
        return kind(a) != kind(b)
    return abs(float(a) - float(b)) > _TOLERANCE[str(a.dtype)] * max(abs(float(a)), abs(float(b)))


@dataclass(frozen=True)
class Difference:
    """The first of those of an expression that are of one kind."""

    case: Case
    arguments: tuple[str, ...]
    warp: str
    ours: str
    count: int


def about(case: Case, given: Sequence[str], warp: str, ours: str) -> str:
    """What a difference is about: a key of `REASONS`."""
    if case.is_float and "nan" in given:
        return "nan"
    return "zero" if case.is_float and {warp, ours} == {"0.0", "-0.0"} else "value"


def differences() -> list[Difference]:
    """All of them, in the order of the expressions."""
    found: dict[tuple[str, str, str], list[tuple[Case, tuple[str, ...], str, str]]] = {}
    for number, (group, args) in enumerate(groups()):
        left, right = warps(group, args, number), ours(group, args, number)
        for (row, column), a in np.ndenumerate(left):
            b, case = right[row, column], group[column]
            if differ(a, b):
                item = case, tuple(text(args["abc".index(n)][row]) for n in case.names), text(a), text(b)
                found.setdefault((case.expression, about(*item), "float" * case.is_float), []).append(item)
    order = {case.expression: i for i, case in enumerate(cases())}
    return [
        Difference(*_simplest(found[key]), len(found[key])) for key in sorted(found, key=lambda k: (order[k[0]], *k))
    ]


def _simplest(items: list[tuple[Case, tuple[str, ...], str, str]]) -> tuple[Case, tuple[str, ...], str, str]:
    """Of the commonest type, else the first."""
    common = [item for item in items if item[0].dtype in ("int32", "float32")]
    return (common or items)[0]


def text(value: Any) -> str:
    return repr(value.item())


_HEAD = """\
# Differences from Warp

Use this page if a program gives other results with jaxwarp than with NVIDIA Warp 1.19. It lists values that differ,
results that C++ leaves undefined, and what kernels may do in only one of the two.

## Values

The script `tools/compare_with_warp.py` runs {count} expressions in both, on the CPU, and writes this table. They are
operators and functions of scalars, and of vectors and matrices made of scalars. An expression without a row gives the
same in both: integers to the bit, floats up to rounding.

The types are integers of 8, 32 and 64 bits, signed and unsigned, and float16, float32 and float64. The arguments are
ordinary numbers, both zeros, the least and largest numbers, infinities and NaN, in all pairs. A row shows the first
case of its kind, and the last column counts the cases. The script does not compare atomics, `popcount` and similar
functions of bits, or derivatives.

| expression | type | for | Warp | jaxwarp | why | cases |
| --- | --- | --- | --- | --- | --- | --- |
"""
_TAIL = """
## What C++ leaves undefined

Warp's functions are C++, so these results depend on the compiler and the processor in Warp. The script does not run
Warp for them. jaxwarp defines them, and they are the same on every device.

| expression | type | for | jaxwarp | why |
| --- | --- | --- | --- | --- |
"""
_LANGUAGE = """\

## The language

This part lists what kernels may do in only one of the two, or do differently. It is written by hand.

**Variables and calls.**

- **A variable that only some paths set**, as in `if c: x = 1.0` before a use of `x`: a thread on another path raises
  `CheckError`, as a failed `assert` does. Warp reads uninitialised memory. The same holds for a variable that only a
  loop sets, if the loop runs no iteration.
- **None for an array**: a thread that uses an element of it raises `CheckError`. If every thread does, jaxwarp refuses
  the launch. Warp reads address 0. An empty array counts as given: `if a:` is true.
- **Native snippets** (`func_native`): jaxwarp translates simple C++. It may contain declarations, assignments, `if`,
  loops, `return`, C's functions of floats, numbers of 32 and 64 bits, and elements `a[i]` of arrays with one axis.
  Text for CUDA, if a snippet has it, must be of this kind too, but is not used. jaxwarp refuses a kernel that calls
  any other text, or **`address_of`**. It accepts snippets that only wait for the threads of a block. Instead, write a
  `@func` or use `register_ffi_callback`.
- **Derivatives of native snippets**: an `adj_snippet` may add to `adj_x`, for a number `x`, and read `adj_ret`.
  Without one, jaxwarp differentiates the snippet; Warp's derivative is 0.
- **Slices** of vectors and matrices have constant bounds, because the length of a slice is part of its type.
- **Parts of parts**: `m[0].y = 9.0` and `t.p.x += 1.0` change the matrix and the transform. Warp changes a copy, which
  is lost. The derivative of `v.y *= v[0]` with respect to `v.y` is `v[0]`; Warp's is another number.
- **`range(...)`** can only be used in a `for` loop. In Warp you can also assign it to a variable.
- **Functions as operators**: a `@func` named `add` defines `+` only for operands that have no `+`, such as structs. In
  Warp it replaces `+` for all arguments that fit, floats included, so `add` itself cannot add.
- **`assert`** also works in release mode, and raises `CheckError` with the thread and the line. In Warp it works in
  debug mode only, and aborts the process.
- **`expect_eq`, `expect_neq`, `expect_near`** raise `CheckError` after the launch; Warp prints. They also compare
  structs. `expect_near` fails for a NaN, which passes in Warp, and does not take integers.
- **`print`** takes several values, tuples, structs and f-strings. It refuses arrays; Warp prints a placeholder.
  It writes the integers of a vector as integers; Warp writes floats. Derivatives print nothing; Warp prints adjoints.
  `printf` refuses formats that do not fit; in Warp these are undefined, as in C.
- **`a.shape`** in a kernel has as many extents as the array has axes. Warp's has four, and unused ones are 0.
- **Structs** are pytrees in JAX, and an array of structs is a struct of arrays. Outside of JAX arrays of structs are
  records in memory, as in Warp, but such structs cannot have array fields ([structs](structs.md#outside-of-jax)).

**Types and values.**

- **Scalars outside of kernels** are NumPy's. Functions return Python's numbers for 32-bit types. `wp.int32(2) **
  wp.int32(3)` is 8; Warp raises a TypeError.
- **Atomics** exist for integers of 8 and 16 bits, and `atomic_min` and `atomic_max` for float16. Warp refuses them.
- **`lower_bound`** of a value above all elements is the number of elements. Warp returns the last index.
- **Deterministic sums**: `config.deterministic`, and the same option of a module, accept only `NOT_GUARANTEED`.
- **`numpy()`** of an array on a GPU returns a read-only copy. To change the array, pass a changed copy to `assign`.
- **Waiting for a device** during a capture waits for the work queued before the capture; Warp raises an error.

**Derivatives and linear algebra.**

- **`a % b`**: the derivative with respect to b is the negated quotient, wherever it is defined. Warp's is 0.
- **`svd2`, `svd3`**: the signs of vectors may differ from Warp's; the product is the same. **`eig3`** uses the
  symmetric part of the matrix and sorts the values. If values are equal, derivatives are finite: they leave out the
  part that is not defined.
- **`dense_*`** have derivatives if their sizes are constants. `dense_solve` is differentiated with respect to L, and
  not to A.

**Geometry.**

- **`closest_point_edge_edge`**: for edges that are parallel up to rounding, s is 0 before it is clamped. The
  derivatives of the distance are right at all angles and to every order. Warp damps them for nearly parallel edges.
- **`intersect_tri_tri`** treats a number as 0 if it could be a rounding error at the triangles' size. Warp does so
  below 1e-6, whatever the size.
- **Meshes** have derivatives with respect to their vertices; Warp's are silently 0. Outside of JAX, a query with
  the id of a freed mesh finds nothing, and raises `CheckError` in debug mode. All the kinds of trees that Warp has
  names for are one kind. If two faces are equally close, jaxwarp may return another one than Warp.
- **Rays at edges**: a ray through an edge or a vertex crosses exactly one of the faces that meet there. Counts of
  crossings are therefore even outside and odd inside. On the border of an open mesh,
  `mesh_query_ray_count_intersections` may count none.
- **`hash_grid_query`** may visit a few more points than in Warp. It searches slightly further, so that rounding loses
  none. Compare distances yourself, as in Warp.
- **`mesh_query_point`**: the sign says whether rays leave the mesh more often than they enter it. Warp looks at the
  first face only.
- **Results of queries**: the `sign` of a ray is 1 or -1, and all results are 0 if nothing is found. A query of winding
  numbers is refused for a mesh that was made without them; Warp counts crossings instead.
- **Surfaces**: `IsoSurfaceMarchingCubes` has Warp's vertices. It may cut a cell into other triangles, but into as many.
  `IsoSurfaceNets` cuts quads along their shorter diagonal, and does not split vertices at ambiguous sides that two
  cells share. A NaN node makes a hole. Older argument names are accepted without a warning.
- **`swept_volume_sdf`** takes one mesh and its poses; Warp's takes an array of mesh ids. **`delaunay_edge_flip`**
  leaves edges whose four points are on a circle within rounding, and in JAX it returns the triangles.

**Tiles, textures and names.**

- **Tiles**: a block is one thread of the launch, so `block_dim()` is 1, and `launch_tiled` adds an axis of extent 1.
  jaxwarp refuses code that needs values of other threads of the block. It warns if a launch asks for several threads
  per block and the kernel depends on them ([tiles](tiles.md#launch-outside-of-jax)). `t @ u` is refused; Warp
  multiplies element by element. `precision="tf32"` has no effect: products of float32 tiles stay in float32.
- **Functions of tiles**: `tile_sort` is stable, and puts NaNs last. Tiles of bfloat16 and of complex numbers have
  products. Changes in place have derivatives. Among overloads for tiles of several shapes, jaxwarp calls the closest.
- **Textures** are arrays, on GPUs too: there are no CUDA handles, and kernels interpolate in float32. A coordinate
  that is NaN gives NaN, or 0 with `BORDER`. So does an infinite one if it wraps. Texels have derivatives too.
- **A module** is a name for options. There is nothing to build, load or hash, so `Module.hash_module` and similar
  methods do not exist.
- **Errors**: an error in a kernel is a `KernelError`, which is also a `TypeError`, a `ValueError` or another exception
  of Python. Its text differs from Warp's.
- **Private names**: `wp._src` and `wp.context` have the names that several programs use: `_src.types`, `_src.utils`,
  `_src.thirdparty.appdirs.user_cache_dir`, `context.runtime.core.wp_builtin_*` and `wp_array_inner_*`, and
  `Kernel.adj.args`. Others (`context.ModuleHasher`, `codegen`, `builtin_functions`, the rest of the C library) raise an
  AttributeError. `context.user_modules` is empty, and `context.runtime` is never None. After the first use of a
  `wp_builtin_*`, `ctypes.byref` takes vectors and matrices.

## Of Warp's own tests

These of Warp's tests use public names only, and fail on jaxwarp on purpose. Tests that fail because of a difference
listed above are left out. `*` stands for any text.

"""


def page(found: Sequence[Difference]) -> str:
    """The page of these differences.

    Raises:
        KeyError: one has no reason.
    """
    lines = [
        _row(_code(d.case.expression), d.case.dtype, ", ".join(d.arguments), d.warp, d.ours,
             REASONS[d.case.expression, about(d.case, d.arguments, d.warp, d.ours)], str(d.count))
        for d in found
    ]  # fmt: skip
    undefined = [
        _row(_code(e), u.dtype, ", ".join(u.arguments), text(result(e, u.dtype, u.arguments)), u.reason)
        for u in UNDEFINED
        for e in u.expressions
    ]
    tables = _HEAD.format(count=len(cases())) + "".join(lines) + _TAIL + "".join(undefined)
    return tables + _LANGUAGE + warp_cases.listed()


def _code(expression: str) -> str:
    return f"`{expression.replace('wp.', '')}`"


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |\n"


def result(expression: str, dtype: str, given: Sequence[str]) -> Any:
    """What an expression is here, for arguments as the page has them."""
    args = [np.array([float(v) if dtype in FLOATS else int(v)], dtype) for v in given]
    return ours([Case(expression, dtype)], [*args, *([args[0]] * (3 - len(args)))])[0, 0]


def main(options: Sequence[str]) -> int:
    """Writes the page, or says whether it is up to date."""
    import warp

    setattr(warp.config, "quiet", True)  # noqa: B010  (checkers do not see it)
    new = page(differences())
    if "--check" in options:
        return int(new != PAGE.read_text())
    PAGE.write_text(new)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
