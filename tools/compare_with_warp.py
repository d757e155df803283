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
    Undefined(_DIVISIONS, ("7", "0"), "int32", "A zero divisor. Here 0."),
    Undefined(_DIVISIONS, (_LEAST, "-1"), "int32", "The quotient does not fit. Here it wraps, and the remainder is 0."),
    Undefined(_SHIFTS, ("-7", "32"), "int32", "A shift by the width or more. Here all bits are shifted out."),
    Undefined(
        _SHIFTS, ("-7", "-1"), "int32", "A negative count. Read as unsigned here: all bits are shifted out."
    ),
    Undefined(_CASTS, ("nan",), "float32", "A cast of NaN to an integer. Here 0."),
    Undefined(_CASTS, ("1e+20",), "float32", "A cast out of range. Here the nearest limit."),
    Undefined(_CASTS, ("-1e+20",), "float32", "A cast out of range. Here the nearest limit."),
)

_EXTREMES = (
    "wp.min(a, b)", "wp.max(a, b)", "wp.clamp(a, b, c)", "wp.min(wp.vec3(a, b, c), wp.vec3(b, c, a))[0]",
)  # fmt: skip
_ARCS = ("wp.asin(a)", "wp.acos(a)")
_INVERSE = "wp.inverse(wp.mat22(a, b, c, a))[0, 0]"
_DROPPED = (
    "Warp drops NaN; here `min(a, b)` is `a if a < b else b`, one instruction for many threads, `max` likewise: NaN in"
    " `a` gives `b`, one in `b` stays. `clamp(x, a, b)` is `min(max(a, x), b)`."
)
_ZERO = "The sign of zero, by the same rule: of equal arguments the second is taken."
_SMALLER_ZERO = "Of the components of one vector -0.0 is less than 0.0; in Warp the machine chooses."
_ANGLE = "Warp's clamp of the argument turns NaN into -1. A NaN must not become an angle."
# By expression and by what the difference is about: "nan" (an argument is), "zero" (the sign of one), "value".
REASONS: dict[tuple[str, str], str] = {
    **{(expression, "nan"): _DROPPED for expression in _EXTREMES},
    **{(expression, "zero"): _ZERO for expression in _EXTREMES},
    **{(f"wp.{name}(wp.vec3(a, b, c))", "zero"): _SMALLER_ZERO for name in ("min", "max")},
    **{(expression, "nan"): _ANGLE for expression in _ARCS},
    ("-a", "zero"): "The negation is IEEE's, which turns the sign of zero.",
    ("a // b", "value"): "Half types are computed in float32. Warp rounds the quotient before it takes the floor, which"
    " is then 0 for a quotient that is negative and tiny.",
    ("wp.smoothstep(a, b, c)", "value"): "Where the edges are equal it is 0/0, clamped: as `clamp` of NaN.",
    ("wp.smoothstep(a, b, c)", "nan"): "As `clamp` of NaN: Warp's gives the lower bound, ours the upper one.",
    (_INVERSE, "nan"): "Warp takes a matrix whose determinant is NaN for a singular one. Here NaN stays.",
    (_INVERSE, "value"): "The determinant is NaN (infinity less infinity): likewise.",
    ("wp.lerp(a, b, c)", "value"): "Of `a * (1 - t) + b * t` one product is contracted into a fused multiply-add, and"
    " does not overflow by itself.",
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

This page is generated by `tools/compare_with_warp.py`, which runs {count} expressions of one type each here and in
NVIDIA Warp 1.19 (CPU): operators and functions of scalars, and what is made of them for vectors and matrices.

Types are integers of 8, 32 and 64 bits, signed and not, and float16, float32 and float64. Arguments are ordinary
numbers, zeros of both signs, the least and largest numbers, infinities and NaN, in all pairs. Results are the same
where this page does not say otherwise: floats up to rounding, integers to the bit. A row is the first of its kind; the
last number says how many there are. Not compared: atomics, functions of bits, and derivatives.

| expression | type | for | Warp | jaxwarp | why | cases |
| --- | --- | --- | --- | --- | --- | --- |
"""
_TAIL = """
## What C++ leaves undefined

Warp's functions are C++, so these depend on the compiler and the processor there. They are not run. Here they are
defined, and the same on every device.

| expression | type | for | jaxwarp | why |
| --- | --- | --- | --- | --- |
"""
_LANGUAGE = """\

## The language

What kernels of Warp may do and kernels here may not, or do otherwise. This part is written by hand.

- **A variable that only some path sets**, `if c: x = 1.0`, then `x`: a thread that has taken another path fails as by
  an `assert`; Warp reads what happens to be there. Likewise for what an earlier iteration has set under a condition,
  and for what a loop sets that may make no iteration.
- **None for an array** is an argument like any other. A thread that comes to an element of it fails as by an `assert`,
  and a kernel in which every thread does is refused before the launch; Warp reads address 0. An empty array is true
  here: one is given.
- **Native snippets** (`func_native`): C++ text that computes with numbers alone is read as a function of the language
  (declarations, assignments, `if`, loops, `return`, C's functions of floats). Where CUDA has a text of its own, it must
  be of this kind too; the other one runs. Any other text, and **`address_of`**, has no meaning for vector code, for the
  interpreter, or for a derivative: a kernel that calls it is refused, but for one that only waits for the threads of a
  block. Write the function as a `@func`; foreign code is called by `register_ffi_callback`.
- **Slices** of vectors and matrices have constant bounds: how long they are is part of
  the type.
- **Parts of parts**: `m[0].y = 9.0` and `t.p.x += 1.0` change the matrix and the transform. In Warp they change a copy,
  and nothing else. The derivative of `v.y *= v[0]` by `v.y` is `v[0]`; Warp's is another number.
- **`range(...)`** stands in a `for` loop only; Warp also assigns it to a variable.
- **Functions as operators**: a `@func` called `add` is `+` where the language has no sum of the operands, of structs
  say. In Warp it is `+` wherever its arguments fit, of floats too, so that `add` itself cannot add.
- **Scalars outside of kernels** are NumPy's, and of 32 bits from functions Python's: `wp.int32(2) ** wp.int32(3)` is 8,
  where Warp raises a TypeError.
- **`assert`** acts in release mode too, and raises `CheckError` with the thread and the line; Warp compiles it in
  debug mode only, and aborts the process. **`expect_eq`, `expect_neq`, `expect_near`** raise so too, after the launch;
  Warp prints and goes on. A NaN is near nothing; Warp takes it for near. They compare structs; integers are not near.
- **`print`** takes several values, tuples, structs and f-strings; an array is refused, where Warp prints that it
  cannot. Integers of a vector are written as they are, where Warp makes floats of them. Derivatives print nothing;
  Warp prints adjoints. `printf` refuses formats that do not fit; Warp's are C's, undefined then.
- **Atomics** on integers of 8 and 16 bits exist, and `atomic_min`, `atomic_max` on float16; Warp refuses them.
- **`lower_bound`** of what is above all elements is their number; Warp's is the last index.
- **`a.shape`** in a kernel has as many extents as the array has axes; Warp's has four, of which the rest are 0.
- **Gradients of integers** do not exist: `requires_grad=True` has no effect on an array of them. Warp keeps zeros.
- **Private names**: `wp._src` and `wp.context` have those that several programs use: `_src.types`, `_src.utils`,
  `_src.thirdparty.appdirs.user_cache_dir`, `context.runtime.core.wp_builtin_*` and `wp_array_inner_*`; of
  `Kernel.adj` there is `args`. Others are Warp's own machinery (`context.ModuleHasher`, `codegen`, `builtin_functions`,
  the rest of its C library) and raise an AttributeError. `context.user_modules` is empty, and `context.runtime` is
  never None. The first use of a `wp_builtin_*` makes `ctypes.byref` take vectors and matrices.
- **The derivative of `a % b` by b** is the quotient, negated, wherever it is defined; Warp's is 0.
- **A module** is a name for options; there is nothing to build, load or hash, so `Module.hash_module` and the like are
  not there. The error of a wrong kernel is a `KernelError` (a `TypeError`, `ValueError`, ... by its
  kind), with texts of its own.
- **Structs** are passed to JAX as pytrees, where an array of structs is a struct of arrays. Outside of JAX it is
  records in memory, as in Warp, but for structs with fields that are arrays, which are refused. See structs.md.
- **`svd2`, `svd3`**: the signs of vectors are not Warp's everywhere; the product is. **`eig3`** takes the symmetric
  part and sorts the values. Where values are equal, derivatives are finite: those of the part that is defined.
- **`dense_*`** have derivatives where their sizes are constants; that of `dense_solve` goes by L, not by A.
- **`closest_point_edge_edge`**: where edges are parallel to within rounding, s is 0 before it is cut. The distance's
  derivatives are those of the least distance at all angles, in every order; Warp damps them where edges are nearly
  parallel. **`intersect_tri_tri`** takes for 0 what is no more than rounding beside the triangles' size; Warp takes
  what is less than 1e-6, whatever their size.
- **Meshes** have derivatives by their vertices, where Warp's are silently 0. Outside of JAX `mesh.id` is a number that
  names nothing once the mesh is freed; in JAX it is the mesh. All kinds of trees that Warp names are one. Where closest
  points of two faces are equally far, another face may be named than in
  Warp. A ray through an edge or a vertex hits, and crosses one of the faces there, so that counts are even or odd as
  they must be. On the border of an open mesh, `mesh_query_ray_count_intersections` may count none.
- **`mesh_query_point`**: the sign is by whether rays leave more often than they enter, where Warp asks only for the
  first face.
- **What queries give**: `sign` of rays is 1 or -1, and all results are 0 where nothing is found. Winding numbers of a
  mesh that was not made for them are refused, where Warp counts crossings instead.
- **Surfaces** of `IsoSurfaceMarchingCubes` have Warp's vertices; cells may be cut into other triangles, as many.
  `IsoSurfaceNets` cuts quads by their shorter diagonal, and does not part vertices at ambiguous sides that two cells
  share. Nodes that are NaN make holes. Older names of arguments are taken without a warning.
- **`swept_volume_sdf`** takes one mesh and its poses; Warp's an array of numbers of meshes. **`delaunay_edge_flip`**
  leaves edges whose four points are on a circle within rounding, and in JAX returns the triangles.
- **Tiles**: a block is one thread, on GPUs too, so `block_dim()` is 1 and `launch_tiled` adds an axis of one; values of
  other threads of a block are refused. `tile_sort` is stable, with NaNs last. Tiles of bfloat16 and of complex numbers
  have products. Work in place has derivatives. `t @ u` is refused: Warp multiplies element by element. Of overloads by
  the shape of a tile the closest is taken, not the first.
- **`numpy()`** of an array on a GPU is a copy that cannot be written, since nobody would see what is written: pass a
  changed copy to `assign`. Waiting for a device while a capture is made waits for what was queued before; Warp raises.
- **Deterministic sums**: `config.deterministic` and the option of a module accept `NOT_GUARANTEED` alone.
- **Textures** are arrays, on GPUs too: no handles of CUDA, interpolation in float32. A coordinate that
  is NaN gives NaN, or 0 in a border, and so does an infinite one that wraps. Texels have derivatives, too.

## Of Warp's own tests

Of those that use public names alone, these fail, and are meant to, besides those that use what is listed above. `*`
stands for what differs between several.

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
