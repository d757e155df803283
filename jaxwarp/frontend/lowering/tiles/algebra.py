"""Linear algebra, transforms and sorting of tiles: checked here, computed by `jaxwarp/library/tiles.py`."""

from __future__ import annotations

import ast
import math
from typing import Any

from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.frontend.lowering.frame import Frame
from jaxwarp.frontend.lowering.tiles.arguments import in_library, require_tile, text_or, tile_function
from jaxwarp.frontend.lowering.tiles.elements import load, overlap, reshaped, seen_as
from jaxwarp.frontend.lowering.tiles.making import zero
from jaxwarp.frontend.lowering.tiles.shapes import transposed
from jaxwarp.frontend.lowering.tiles.storage import allocate, assign_tile, copied, filled, require_distinct_elements
from jaxwarp.frontend.lowering.values import NoArray, NoValue, Tile, is_dynamic
from jaxwarp.types import Scalar, Vec, float32, float64, int32, int64, vector

_PRECISIONS = ("default", "tf32")
_FIRST_RUNS = 8  # keys that a thread sorts in registers
_PART_OF_SORT = 16  # elements that a thread of a block merges one after the other


def _require_floats(what: str, tile: Tile) -> Tile:
    if not (isinstance(tile.dtype, Scalar) and tile.dtype.is_float):
        raise KernelTypeError(f"{what} must be a tile of floats, got {tile.type!r}", hint="tile_astype(t, float)")
    return tile


def _is_complex(dtype: Any) -> bool:
    return isinstance(dtype, Vec) and dtype.length == 2 and dtype.dtype.is_float


# Products


@tile_function(
    "tile_matmul(a: Tile, b: Tile, out: Tile = None, alpha: Float = 1.0, beta: Float = 1.0,"
    ' precision: str = "default") -> Tile',
    "The product of two tiles. With `out`, do `out = alpha * a @ b + beta * out` in place; without, return"
    " `alpha * a @ b`. Elements that are vectors of two floats are complex numbers. Sums have the type of the result;"
    ' those of half types are in float32. `precision="tf32"` has no effect: products of float32 stay in float32.',
)
def _matmul(
    frame: Frame, node: ast.Call, a: Any, b: Any, out: Any, alpha: Any, beta: Any, precision: Any
) -> Tile | type[NoValue]:
    first, second = require_tile("tile_matmul: a", a, 2), require_tile("tile_matmul: b", b, 2)
    has_out = not (out is None or isinstance(out, NoArray))
    if precision not in _PRECISIONS:
        raise KernelValueError(
            f"tile_matmul: precision must be one of {', '.join(map(repr, _PRECISIONS))}, got {text_or(precision)}",
            hint="leave it out: products are computed in the type of the tiles",
        )
    for name, value in (("alpha", alpha), ("beta", beta)):
        if not is_dynamic(value):
            raise KernelTypeError(f"tile_matmul: {name} must be a number, got {text_or(value)}", hint="write 1.0")
    target = require_tile("tile_matmul: out", out, 2) if has_out else None
    tiles = [first, second, *([target] if target else [])]
    complex_ones = [t for t in tiles if _is_complex(t.dtype)]
    if complex_ones and len(complex_ones) < len(tiles):
        raise KernelTypeError("tile_matmul: some tiles are complex, others are not", hint="make all tiles of vec2")
    if not complex_ones:
        for name, tile in zip(("a", "b", "out"), tiles, strict=False):
            _require_floats(f"tile_matmul: {name}", tile)
    if precision == "tf32" and any(t.dtype is not tiles[0].dtype or _bits(t) != 32 for t in tiles):
        raise KernelTypeError("tile_matmul: precision tf32 is for tiles of float32", hint="leave it out")
    rows, inner, columns = first.shape[0], first.shape[1], second.shape[1]
    if second.shape[0] != inner or (target is not None and target.shape != (rows, columns)):
        listed = " and ".join(repr(t.type) for t in tiles)
        raise KernelValueError(
            f"tile_matmul: shapes do not fit: {listed}", hint="a is (m, k), b is (k, n), and out is (m, n)"
        )
    if target is None and first.dtype != second.dtype:
        raise KernelTypeError(
            f"tile_matmul: a holds {first.dtype!r}, b {second.dtype!r}: the result has no type",
            hint="pass a tile for the result: tile_matmul(a, b, out)",
        )
    result = allocate(frame, first.dtype, (rows, columns)) if target is None else require_distinct_elements(target)
    first, second = (copied(frame, t) if target is not None and overlap(t, target) else t for t in (first, second))
    kind = "complex_product" if complex_ones else "product"
    scale = [_float(frame, v, result) for v in (alpha, beta)]
    if target is None:
        in_library(frame, node, f"{kind}_of", first, second, result, scale[0])
        return result
    in_library(frame, node, f"{kind}_added", first, second, result, *scale)
    return NoValue


def _bits(tile: Tile) -> int:
    return tile.dtype.bits if isinstance(tile.dtype, Scalar) else tile.dtype.dtype.bits


def _float(frame: Frame, value: Any, tile: Tile) -> Any:
    """A factor in the type of the numbers of a tile, in float32 of half ones."""
    scalar = tile.dtype if isinstance(tile.dtype, Scalar) else tile.dtype.dtype
    scalar = float32 if scalar.bits < 32 else scalar
    return frame.ops.cast_scalar(scalar, value)


# Triangular systems


def _upper(name: str, fill_mode: Any) -> bool:
    if fill_mode not in ("lower", "upper"):
        raise KernelValueError(
            f'{name}: fill_mode must be "lower" or "upper", got {text_or(fill_mode)}', hint='write fill_mode="lower"'
        )
    return fill_mode == "upper"


def _square(name: str, what: str, value: Any) -> Tile:
    tile = _require_floats(f"{name}: {what}", require_tile(f"{name}: {what}", value, 2))
    if tile.shape[0] != tile.shape[1]:
        raise KernelValueError(f"{name}: {what} must be square, got {tile.type!r}", hint="a tile of shape (n, n)")
    return tile


def _sides(name: str, what: str, matrix: Tile, value: Any) -> Tile:
    """Right-hand sides as columns of a tile of two axes."""
    tile = require_tile(f"{name}: {what}", value)
    if tile.ndim > 2 or tile.shape[0] != matrix.shape[0] or tile.dtype != matrix.dtype:
        raise KernelValueError(
            f"{name}: {what} must be a tile of {matrix.shape[0]} or (..., k) of {matrix.dtype!r}, got {tile.type!r}",
            hint="right-hand sides are columns",
        )
    if tile.ndim == 2:
        return tile
    return seen_as(tile, (tile.shape[0], 1), lambda frame, at: tile.place(frame, at[:1]))


@tile_function(
    'tile_cholesky(A: Tile, fill_mode: str = "lower") -> Tile',
    "The Cholesky factor of a symmetric positive definite A: the lower triangular L with A = L L^T. Only the lower"
    ' triangle of A is read. With `fill_mode="upper"` it is U with A = U^T U, from the upper triangle. The other'
    " triangle of the result is zero. If A is not positive definite, there are NaNs in it. (Golub and Van Loan, Matrix"
    " Computations, 4.2.)",
)
def _cholesky(frame: Frame, node: ast.Call, A: Any, fill_mode: Any, name: str = "tile_cholesky") -> Tile:  # noqa: N803 - Warp's
    matrix, upper = _square(name, "A", A), _upper(name, fill_mode)
    result = filled(frame, matrix.shape, lambda _: zero(frame, matrix.dtype), matrix.dtype)
    in_library(frame, node, "cholesky", *((transposed(t) if upper else t) for t in (matrix, result)))
    return result


@tile_function(
    'tile_cholesky_inplace(A: Tile, fill_mode: str = "lower")',
    "Like `tile_cholesky`, but overwrite A with the factor, and its other triangle with zeros.",
)
def _cholesky_inplace(frame: Frame, node: ast.Call, A: Any, fill_mode: Any) -> type[NoValue]:  # noqa: N803
    result = _cholesky(frame, node, A, fill_mode, "tile_cholesky_inplace")
    assign_tile(frame, A, result)
    return NoValue


@tile_function(
    'tile_cholesky_solve(L: Tile, y: Tile, fill_mode: str = "lower") -> Tile',
    "The solution x of A x = y, from the result of `tile_cholesky`. y has one axis, or one column for each right-hand "
    "side.",
)
def _cholesky_solve(
    frame: Frame,
    node: ast.Call,
    L: Any,  # noqa: N803
    y: Any,
    fill_mode: Any,
    name: str = "tile_cholesky_solve",
) -> Tile:
    matrix, upper = _square(name, "L", L), _upper(name, fill_mode)
    lower = transposed(matrix) if upper else matrix
    between = _solved(frame, node, "forward", lower, _sides(name, "y", matrix, y))
    return _as_given(_solved(frame, node, "backward", transposed(lower), between), y)


@tile_function(
    'tile_cholesky_solve_inplace(L: Tile, y: Tile, fill_mode: str = "lower")',
    "Like `tile_cholesky_solve`, but overwrite y with the solution.",
)
def _cholesky_solve_inplace(frame: Frame, node: ast.Call, L: Any, y: Any, fill_mode: Any) -> type[NoValue]:  # noqa: N803
    assign_tile(frame, y, _cholesky_solve(frame, node, L, y, fill_mode, "tile_cholesky_solve_inplace"))
    return NoValue


@tile_function(
    "tile_lower_solve(L: Tile, y: Tile) -> Tile",
    "The solution x of L x = y, for a lower triangular L. y has one axis, or one column for each right-hand side.",
)
def _lower_solve(frame: Frame, node: ast.Call, L: Any, y: Any, name: str = "tile_lower_solve") -> Tile:  # noqa: N803
    matrix = _square(name, "L", L)
    return _as_given(_solved(frame, node, "forward", matrix, _sides(name, "y", matrix, y)), y)


@tile_function(
    "tile_lower_solve_inplace(L: Tile, y: Tile)", "Like `tile_lower_solve`, but overwrite y with the solution."
)
def _lower_solve_inplace(frame: Frame, node: ast.Call, L: Any, y: Any) -> type[NoValue]:  # noqa: N803
    assign_tile(frame, y, _lower_solve(frame, node, L, y, "tile_lower_solve_inplace"))
    return NoValue


@tile_function(
    "tile_upper_solve(U: Tile, z: Tile) -> Tile",
    "The solution x of U x = z, for an upper triangular U. z has one axis, or one column for each right-hand side.",
)
def _upper_solve(frame: Frame, node: ast.Call, U: Any, z: Any, name: str = "tile_upper_solve") -> Tile:  # noqa: N803
    matrix = _square(name, "U", U)
    return _as_given(_solved(frame, node, "backward", matrix, _sides(name, "z", matrix, z)), z)


@tile_function(
    "tile_upper_solve_inplace(U: Tile, z: Tile)", "Like `tile_upper_solve`, but overwrite z with the solution."
)
def _upper_solve_inplace(frame: Frame, node: ast.Call, U: Any, z: Any) -> type[NoValue]:  # noqa: N803
    assign_tile(frame, z, _upper_solve(frame, node, U, z, "tile_upper_solve_inplace"))
    return NoValue


def _solved(frame: Frame, node: ast.Call, direction: str, matrix: Tile, sides: Tile) -> Tile:
    result = allocate(frame, sides.dtype, sides.shape)
    in_library(frame, node, f"solved_{direction}", matrix, sides, result)
    return result


def _as_given(result: Tile, given: Tile) -> Tile:
    """The columns as the right-hand sides were given."""
    if given.ndim == 2:
        return result
    zero_column = lambda frame, at: (*at, frame.constant(0, int32))  # noqa: E731
    return Tile(result.storage, result.shape[:1], lambda frame, at: result.place(frame, zero_column(frame, at)))


@tile_function("tile_diag_add(a: Tile, d: Tile) -> Tile", "The tile `a` with `d` added to its diagonal.")
def _diag_add(frame: Frame, _node: ast.Call, a: Any, d: Any) -> Tile:
    matrix, diagonal = _square("tile_diag_add", "a", a), require_tile("tile_diag_add: d", d, 1)
    if diagonal.shape[0] != matrix.shape[0] or diagonal.dtype != matrix.dtype:
        raise KernelValueError(
            f"tile_diag_add: {diagonal.type!r} is no diagonal of {matrix.type!r}", hint="d has an element for each row"
        )

    def value_at(at: Any) -> Any:
        value = load(frame, matrix, at)
        on = frame.ops.compare("eq", *at)
        return frame.ops.select(on, frame.ops.binary("add", value, load(frame, diagonal, at[:1])), value)

    return filled(frame, matrix.shape, value_at, matrix.dtype)


# Transforms and sorting


@tile_function(
    "tile_fft(inout: Tile)",
    "The discrete Fourier transform along the last axis, in place. Elements are vectors (real, imaginary).",
)
def _fft(frame: Frame, node: ast.Call, inout: Any) -> type[NoValue]:
    return _transformed(frame, node, "tile_fft", inout, -1.0)


@tile_function("tile_ifft(inout: Tile)", "The inverse of `tile_fft`, in place, without the factor 1/n, as in Warp.")
def _ifft(frame: Frame, node: ast.Call, inout: Any) -> type[NoValue]:
    return _transformed(frame, node, "tile_ifft", inout, 1.0)


def _transformed(frame: Frame, node: ast.Call, name: str, inout: Any, sign: float) -> type[NoValue]:
    tile = require_tile(f"{name}: inout", inout)
    if not _is_complex(tile.dtype) or _bits(tile) < 32:
        raise KernelTypeError(
            f"{name}: inout must be a tile of vec2f or vec2d, got {tile.type!r}",
            hint="a complex number is a vector (re, im), a signal is a row",
        )
    rows = tile if tile.ndim == 2 else reshaped(tile, (math.prod(tile.shape[:-1]), tile.shape[-1]))
    turn, count = frame.constant(2.0 * math.pi * sign, tile.dtype.dtype), rows.shape[1]
    result = allocate(frame, tile.dtype, rows.shape)
    if count & (count - 1):
        in_library(frame, node, "fourier_sums", rows, result, turn)
        assign_tile(frame, rows, result)
        return NoValue
    half, stride, source, target = count // 2, 1, rows, result
    while half:
        in_library(frame, node, "fourier_stage", source, target, half, stride, turn)
        half, stride, source, target = half // 2, stride * 2, target, source
    assign_tile(frame, rows, source)
    return NoValue


def _flat(tile: Tile) -> Tile:
    return tile if tile.ndim == 1 else reshaped(tile, (math.prod(tile.shape),))


def _largest(t: Scalar) -> int:
    return 1 if t.kind == "bool" else 2 ** (t.bits - t.is_signed) - 1


@tile_function(
    "tile_sort(keys: Tile, values: Tile)",
    "Sort both tiles by `keys`, in row-major order and in place. The sort is stable, and NaNs come last.",
)
def _sort(frame: Frame, node: ast.Call, keys: Any, values: Any) -> type[NoValue]:
    first, second = (_flat(require_tile(f"tile_sort: {n}", t)) for n, t in (("keys", keys), ("values", values)))
    if not isinstance(first.dtype, Scalar):
        raise KernelTypeError(f"tile_sort: keys must be numbers, got {first.type!r}", hint="sort by a component")
    if first.shape != second.shape:
        raise KernelValueError(
            f"tile_sort: {first.shape[0]} keys and {second.shape[0]} values", hint="each key has a value"
        )
    source, bits, builder = first, first.dtype, frame.builder
    if first.dtype.is_float:
        bits, wide = (int64, float64) if first.dtype is float64 else (int32, float32)
        source = allocate(frame, bits, first.shape)
        largest = builder.const(_largest(bits), bits)
        in_library(frame, node, "ordered_keys", first, builder.const(0.0, wide), source, largest)
    order, to_order = (allocate(frame, int32, first.shape) for _ in range(2))
    runs, spare = (allocate(frame, bits, first.shape) for _ in range(2))
    width = min(_FIRST_RUNS, first.shape[0])
    part, places = (zero(frame, vector(width, t)) for t in (bits, int32))
    in_library(frame, node, "sorted_parts", source, runs, order, part, places, builder.const(_largest(bits), bits))
    source, to = runs, spare
    while width < first.shape[0]:
        part = min(2 * width, _PART_OF_SORT)
        trips = width.bit_length() if part < 2 * width else 0
        in_library(frame, node, "merged_runs", source, order, to, to_order, width, part, trips)
        source, to = to, source
        order, to_order, width = to_order, order, 2 * width
    sorted_tiles = (first,) if overlap(first, second) else (first, second)
    results = [allocate(frame, t.dtype, t.shape) for t in sorted_tiles]
    for t, result in zip(sorted_tiles, results, strict=True):
        in_library(frame, node, "taken_in_order", t, order, result)
    for t, result in zip(sorted_tiles, results, strict=True):
        assign_tile(frame, t, result)
    return NoValue
