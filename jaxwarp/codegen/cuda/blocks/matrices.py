"""Products of two matrices in shared memory, for which there are instructions and wide accesses of their own.

Of float16 and bfloat16, with sums in float32, and of float64 tensor cores have the product. A product of float32 stays
one of float32: each thread has a patch of sums, and loads what it needs for several of them at once.

Rows of the operands begin an odd number of 16 bytes apart, so that eight lanes that read 16 bytes of eight rows, or
eight times 16 bytes of one row, meet each bank of the memory once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from jaxwarp.analysis.loops.nests import Nest, Nests
from jaxwarp.codegen.cuda.blocks.products import product_in
from jaxwarp.ir.nodes import Call, Const, Load, Op, Param, Value
from jaxwarp.types import Scalar, float32, float64

WIDE = 16  # bytes of the widest access
# The least that tensor cores are given: of less, most of what they do would be for nothing.
_LEAST_ROWS, _LEAST_COLUMNS, _LEAST_DEPTH = 8, 8, 8


@dataclass(frozen=True, eq=False)
class Operand:
    """A matrix of a product: an array in shared memory, or a part of it.

    Attributes:
        is_turned: its first axis is not that of the rows of the product's matrix.
        start: the first row and column of the part, as they lie in memory.
    """

    param: Param
    is_turned: bool
    start: tuple[int, int]


@dataclass(frozen=True, eq=False)
class MatrixProduct:
    """A nest that adds a product of matrices to its sums.

    Attributes:
        left, right: the matrices.
        shape: rows, columns, and the length of what is summed over.
        is_fused: whether products are rounded only when they are added.
        in_any_order: whether the program leaves the order of the sums open.
        is_guarded: whether a product is 0 where one factor is 0, even if the other one is infinite or NaN.
    """

    left: Operand
    right: Operand
    shape: tuple[int, int, int]
    is_fused: bool
    in_any_order: bool
    is_guarded: bool

    @property
    def dtype(self) -> Scalar:
        return self.left.param.dtype

    @property
    def operands(self) -> tuple[Operand, Operand]:
        return self.left, self.right

    @property
    def tall(self) -> int:
        """Return the rows of a fragment of the sums with tensor cores; 0: they have no such product."""
        rows, columns, depth = self.shape
        least = rows >= _LEAST_ROWS and columns >= _LEAST_COLUMNS and depth >= _LEAST_DEPTH
        is_whole = not depth % self.step or all(self._ends(x) for x in self.operands)
        near = WIDE // self.dtype.bytes
        is_aligned = self.dtype is float64 or all(x.start[1] % near == 0 for x in self.operands)
        if not (least and is_whole and is_aligned and self.in_any_order):
            return 0
        return 16 if self.dtype.is_half else 8 if self.dtype is float64 else 0

    @property
    def step(self) -> int:
        """Return how far an instruction of tensor cores goes along what is summed over."""
        return 16 if self.dtype.is_half else 4

    def inner_axis(self, operand: Operand) -> int:
        """Return the axis of an operand that is summed over."""
        return int((operand is self.left) != operand.is_turned)

    def _ends(self, operand: Operand) -> bool:
        """Return whether nothing but what the padding has comes after what is summed over."""
        axis = self.inner_axis(operand)
        return operand.start[axis] + self.shape[2] == operand.param.shape[axis]

    def padded(self, operand: Operand) -> tuple[int, int]:
        """Return the rows and columns of an operand's array with zeros after what is summed over."""
        extents = [n or 0 for n in operand.param.shape]
        if self.tall and self.shape[2] % self.step:
            extents[self.inner_axis(operand)] += -self.shape[2] % self.step
        return extents[0], extents[1]


@dataclass(eq=False)
class Layout:
    """The place of a matrix in shared memory.

    Attributes:
        rows: with those that are only zeros.
        columns: the same.
        stages: how many of it there are, one after the other.
        is_zeroed: whether a block begins with zeros in it.
    """

    rows: int
    columns: int
    itemsize: int
    stages: int = 1
    is_zeroed: bool = False

    @property
    def stride(self) -> int:
        """Return the elements from a row to the next one."""
        units = -(-self.columns * self.itemsize // WIDE) | 1
        return units * WIDE // self.itemsize

    @property
    def elements(self) -> int:
        """Return the elements of one stage."""
        return self.rows * self.stride


def layout_of(param: Param, products: Iterable[MatrixProduct]) -> Layout:
    """Return the layout of a matrix that is an operand of some products."""
    extents = [n or 0 for n in param.shape]
    layout = Layout(extents[0], extents[1], param.dtype.bytes)
    for product in products:
        for operand in product.operands:
            if operand.param is param:
                rows, columns = product.padded(operand)
                layout.is_zeroed |= (rows, columns) != (extents[0], extents[1])
                layout.rows, layout.columns = max(rows, layout.rows), max(columns, layout.columns)
    return layout


def matrix_product(nest: Nest, nests: Nests) -> MatrixProduct | None:
    """Return what a nest multiplies, if it is matrices of one type with sums of the type that the sums need."""
    product = product_in(nest, nests)
    if product is None or len(product.loop.results) != 1:
        return None
    loop = product.loop
    ranges = (*nest.ranges, nests.range_of(loop))
    if any(r.step != 1 for r in ranges) or any(r.start for r in nest.ranges):
        return None
    index, carried = loop.body.params
    found = _factors(loop.body.results[0], carried, nests)
    if found is None:
        return None
    factors, used, is_fused = found
    is_guarded = any(op.builtin.name == "select" for op in used if isinstance(op, Call))
    if is_guarded and not loop.over_tile:
        return None
    loads = [_loaded(v, used, nests) for v in factors]
    if any(load is None for load in loads):
        return None
    indices = (*nest.indices, index)
    operands: list[Operand] = []
    axes: list[tuple[int, int]] = []
    for load in loads:
        assert load is not None
        terms = [_term(v, indices, used, nests) for v in load.indices]
        if len(terms) != 2 or None in terms or load.param not in nests.locals:
            return None
        (first, a), (second, b) = (t for t in terms if t is not None)
        starts = [number + (ranges[2].start if axis == 2 else 0) for axis, number in ((first, a), (second, b))]
        axes.append((first, second))
        operands.append(Operand(load.param, (first, second) in ((2, 0), (1, 2)), (starts[0], starts[1])))
    if {frozenset(pair) for pair in axes} != {frozenset((0, 2)), frozenset((1, 2))}:
        return None
    left, right = operands if 0 in axes[0] else operands[::-1]
    if any(not isinstance(op, Const) and op not in used for op in loop.body.ops):
        return None
    dtype, total = left.param.dtype, loop.results[0].type
    is_known = (dtype is total and dtype in (float32, float64)) or (dtype.is_half and total is float32)
    if right.param.dtype is not dtype or not is_known:
        return None
    shape = len(ranges[0]), len(ranges[1]), len(ranges[2])
    return MatrixProduct(left, right, shape, is_fused or is_guarded, loop.over_tile, is_guarded)


def _factors(result: Value, carried: Value, nests: Nests) -> tuple[list[Value], set[Op], bool] | None:
    """Return what is multiplied and added to what a loop carries, by which operations, and whether by one of them."""
    last = nests.defining.get(result)
    if not isinstance(last, Call):
        return None
    if last.builtin.name == "fma" and last.args[2] is carried:
        return list(last.args[:2]), {last}, True
    if last.builtin.name != "add" or carried not in last.args:
        return None
    other = nests.defining.get(last.args[0] if last.args[1] is carried else last.args[1])
    used: set[Op] = {last}
    if isinstance(other, Call) and other.builtin.name == "select":
        used |= {other, *_guard(other, nests)}
        other = nests.defining.get(other.args[2]) if len(used) > 2 else None
    if isinstance(other, Call) and other.builtin.name == "mul" and carried not in other.args:
        return list(other.args), {*used, other}, False
    return None


def _guard(chosen: Call, nests: Nests) -> set[Op]:
    """Return the test of `select(x == 0, 0, x * y)`; nothing: it is something else."""
    test, zero, product = chosen.args
    compared, made = nests.defining.get(test), nests.defining.get(product)
    if not (isinstance(compared, Call) and compared.builtin.name == "eq" and isinstance(made, Call)):
        return set()
    is_zero = [nests.constants.get(v) == 0 for v in compared.args]
    is_known = nests.constants.get(zero) == 0 and made.builtin.name == "mul" and any(is_zero)
    return {compared} if is_known and compared.args[is_zero[0]] in made.args else set()


def _loaded(value: Value, used: set[Op], nests: Nests) -> Load | None:
    """Return the load of a value, of half precision perhaps."""
    op = nests.defining.get(value)
    if isinstance(op, Call) and op.builtin.name == "cast" and op.args[0].type.is_half and op.result.type is float32:
        used.add(op)
        op = nests.defining.get(op.args[0])
    if not isinstance(op, Load):
        return None
    used.add(op)
    return op


def _term(value: Value, indices: tuple[Value, ...], used: set[Op], nests: Nests) -> tuple[int, int] | None:
    """Return which index a value is, and how much is added to it."""
    if value in indices:
        return indices.index(value), 0
    op = nests.defining.get(value)
    if isinstance(op, Call) and op.builtin.name in ("add", "sub"):
        for at, other in ((0, 1), (1, 0)) if op.builtin.name == "add" else ((0, 1),):
            number = nests.number(op.args[other])
            if op.args[at] in indices and number is not None:
                used.add(op)
                return indices.index(op.args[at]), number if op.builtin.name == "add" else -number
    return None
