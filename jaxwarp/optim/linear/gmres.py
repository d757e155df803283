"""`GMRES`: restarted generalised minimal residuals, for matrices that need not be symmetric.

Y. Saad, M. H. Schultz, "GMRES: a generalized minimal residual algorithm for solving nonsymmetric linear systems", SIAM
J. Sci. Stat. Comput. 7, 1986; the basis by classical Gram-Schmidt, whose products are independent of each other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jaxwarp as wp
from jaxwarp.arrays.host_array import HostArray
from jaxwarp.boundary import boundaries
from jaxwarp.errors import KernelValueError
from jaxwarp.host.checks import require_count
from jaxwarp.optim.linear.operators import LinearOperator
from jaxwarp.optim.linear.state import Iterate, LinearSolverState
from jaxwarp.optim.linear.vectors import flat, group_of, quotient
from jaxwarp.types import float16, float64

# Of what has been made orthogonal, less than this part is rounding: the basis spans all that the matrix leads to.
_ROUNDING = {float16: 8 * 2.0**-10, float64: 8 * 2.0**-52}


@wp.kernel(enable_backward=False)
def _products(v: wp.array2d[wp.Float], w: wp.array[wp.Float], column: wp.array2d[wp.Float]):
    k, i = wp.tid()
    wp.atomic_add(column, k, 0, column.dtype(v[k, i]) * column.dtype(w[i]))


@wp.kernel(enable_backward=False)
def _group_products(
    v: wp.array2d[wp.Float], w: wp.array[wp.Float], offsets: wp.array[int], column: wp.array2d[wp.Float]
):
    k, g = wp.tid()
    total = column.dtype(0.0)
    for i in range(wp.max(offsets[g], 0), wp.min(offsets[g + 1], w.shape[0])):
        total += column.dtype(v[k, i]) * column.dtype(w[i])
    column[k, g] = total


@wp.kernel(enable_backward=False)
def _project(
    v: wp.array2d[wp.Float],
    column: wp.array2d[wp.Float],
    count: int,
    groups: wp.array[int],
    w: wp.array[wp.Float],
    square: wp.array[wp.Float],
):
    """`w -= sum of column[k] v[k]`; `square += w.w`, without groups."""
    i = wp.tid()
    g = group_of(groups, i)
    if g >= 0:
        total = column.dtype(w[i])
        for k in range(count):
            total -= column[k, g] * column.dtype(v[k, i])
        rounded = w.dtype(total)
        w[i] = rounded
        if not groups:
            wp.atomic_add(square, 0, column.dtype(rounded) * column.dtype(rounded))


@wp.kernel(enable_backward=False)
def _norm(
    column: wp.array2d[wp.Float], count: int, rounding: wp.Float, square: wp.array[wp.Float], norm: wp.array[wp.Float]
):
    """The norm of what is left, 0 if that is rounding: the next element of the column."""
    g = wp.tid()
    left = square[g]
    before = left
    for k in range(count):
        before += column[k, g] * column[k, g]
    norm[g] = wp.where(left <= rounding * rounding * before, square.dtype(0.0), wp.sqrt(left))
    column[count, g] = norm[g]
    square[g] = square.dtype(0.0)


@wp.kernel(enable_backward=False)
def _root(square: wp.array[wp.Float], norm: wp.array[wp.Float]):
    g = wp.tid()
    norm[g] = wp.sqrt(square[g])
    square[g] = square.dtype(0.0)


@wp.kernel(enable_backward=False)
def _normalise(w: wp.array[wp.Float], norm: wp.array[wp.Float], groups: wp.array[int], v: wp.array[wp.Float]):
    i = wp.tid()
    g = group_of(groups, i)
    if g >= 0:
        v[i] = v.dtype(quotient(norm.dtype(w[i]), norm[g]))


@wp.kernel(enable_backward=False)
def _least_squares(
    beta: wp.array[wp.Float],
    tiny: wp.Float,
    columns: wp.array3d[wp.Float],
    right: wp.array2d[wp.Float],
    y: wp.array2d[wp.Float],
):
    """The `y` for which `|beta e_0 - H y|` is least, by rotations; 0 for what the basis does not have.

    `columns[j]` is the column j of H, of a row more, for each group.
    """
    g = wp.tid()
    count = columns.shape[0]
    zero = beta.dtype(0.0)
    largest = zero
    for j in range(count):
        for k in range(j + 2):
            largest = wp.max(largest, wp.abs(columns[j, k, g]))
    right[0, g] = beta[g]
    rank = 0
    for i in range(count):
        a = quotient(columns[i, i, g], largest)
        b = quotient(columns[i, i + 1, g], largest)
        length = wp.sqrt(a * a + b * b)
        if not (length > tiny):
            break
        c = a / length
        s = b / length
        for j in range(i, count):
            upper = columns[j, i, g]
            lower = columns[j, i + 1, g]
            columns[j, i, g] = c * upper + s * lower
            columns[j, i + 1, g] = c * lower - s * upper
        right[i + 1, g] = -s * right[i, g]
        right[i, g] = c * right[i, g]
        rank = i + 1
    for j in range(count):
        y[j, g] = zero
    for back in range(rank):
        i = rank - 1 - back
        total = right[i, g]
        for j in range(i + 1, rank):
            total -= columns[j, i, g] * y[j, g]
        y[i, g] = quotient(total, columns[i, i, g])


@wp.kernel(enable_backward=False)
def _combine(
    v: wp.array2d[wp.Float], y: wp.array2d[wp.Float], kept: wp.Float, groups: wp.array[int], x: wp.array[wp.Float]
):
    """`x = kept x + sum of y[k] v[k]`."""
    i = wp.tid()
    g = group_of(groups, i)
    if g >= 0:
        total = kept * y.dtype(x[i])
        for k in range(y.shape[0]):
            total += y[k, g] * y.dtype(v[k, i])
        x[i] = x.dtype(total)


@wp.kernel(enable_backward=False)
def _add(change: wp.array[wp.Float], groups: wp.array[int], x: wp.array[wp.Float]):
    i = wp.tid()
    if group_of(groups, i) >= 0:
        x[i] = x[i] + change[i]


def require_restart(what: str, restart: Any) -> int:
    """The size of the basis.

    Raises:
        KernelTypeError, KernelValueError: it is no positive integer.
    """
    found = require_count(what, "restart", restart)
    if not found:
        raise KernelValueError(f"{what}: restart must be positive, got {restart!r}")
    return found


@boundaries
class GMRES(LinearSolverState):
    """A solver by generalised minimal residuals, for any matrix. `LinearSolverState` lists the other arguments.

    Args:
        restart: the number of vectors in the basis. When it is full, the solver checks the residual, and starts again
            from the current solution.
        is_left_preconditioner: multiply by `M` from the left, not from the right.
    """

    name = "gmres"

    def __init__(
        self,
        A: Any,
        b: Any,
        x: Any,
        tol: float | None = None,
        atol: float | None = None,
        restart: int = 31,
        maxiter: float | None = 0,
        M: Any = None,
        callback: Callable[..., Any] | None = None,
        check_every: int = 31,
        use_cuda_graph: bool = True,
        is_left_preconditioner: bool = False,
    ):
        self._restart, self._is_left = require_restart(self.name, restart), bool(is_left_preconditioner)
        super().__init__(A, b, x, tol, atol, maxiter, M, callback, check_every, use_cuda_graph)

    def _options(self) -> dict[str, Any]:
        return {"restart": self._restart}

    def _allocate(self) -> None:
        vectors, count = self._vectors, min(self._restart, self._maxiter)
        self._count = count
        self._r, self._w = vectors.new(), vectors.new()
        shape = (count + 1, *self._b.shape)
        self._basis = wp.zeros(shape, dtype=self._b.dtype, device=self._b.device)
        self._columns = wp.zeros((count, count + 1, vectors.count), dtype=vectors.sums, device=self._b.device)
        self._parts = [self._basis[j] for j in range(count + 1)]
        self._rows = [flat(part) for part in self._parts]
        self._column = [self._columns[j] for j in range(count)]
        self._right, self._y = (vectors.numbers(count + 1), vectors.numbers(count))
        self._all = vectors.numbers(5)

    def _start(self, A: LinearOperator, b: HostArray, x: HostArray, M: LinearOperator | None) -> Iterate:
        vectors, count = self._vectors, self._count
        square, left, norm, beta, limit = (self._all[i] for i in range(5))
        row_x, r, w = flat(x), flat(self._r), flat(self._w)
        whole = self._basis.view(vectors.scalar).reshape((count + 1, vectors.size))
        rounding = vectors.sums(_ROUNDING.get(vectors.scalar, 8 * 2.0**-23))
        one, zero, groups = vectors.sums(1.0), vectors.sums(0.0), vectors.groups
        from_left, from_right = (M, None) if self._is_left else (None, M)

        def multiply(source: HostArray, between: HostArray) -> None:
            """`w` is the matrix with its preconditioner, times the vector."""
            if from_right is not None:
                from_right.matvec(source, between, between, alpha=1.0, beta=0.0)
            target = self._w if from_left is None else between
            A.matvec(source if from_right is None else between, target, target, alpha=1.0, beta=0.0)
            if from_left is not None:
                from_left.matvec(between, self._w, self._w, alpha=1.0, beta=0.0)

        def normalise(row: HostArray, j: int) -> None:
            vectors.launch(_normalise, [row, norm, groups, self._rows[j]])

        def extend(j: int) -> None:
            """The next vector of the basis."""
            multiply(self._parts[j], self._parts[j + 1])
            column = self._column[j]
            if groups is None:
                wp.launch(_products, (j + 1, vectors.size), [whole, w, column], device=vectors.device)
            else:
                arguments = [whole, w, vectors.offsets, column]
                wp.launch(_group_products, (j + 1, vectors.count), arguments, device=vectors.device)
            vectors.launch(_project, [whole, column, j + 1, groups, w, left])
            if groups is not None:
                vectors.add_dot(w, w, left)
            vectors.launch_groups(_norm, [column, j + 1, rounding, left, norm])
            normalise(w, j + 1)

        def update_residual() -> None:
            square.zero_()
            self._residual(A, b, x, self._r)
            vectors.add_dot(r, r, square)

        def cycle() -> None:
            self._columns.zero_()
            self._w.zero_()
            start = r
            if from_left is not None:
                from_left.matvec(self._r, self._w, self._w, alpha=1.0, beta=0.0)
                start = w
            left.zero_()
            vectors.add_dot(start, start, left)
            vectors.launch_groups(_root, [left, norm])
            beta.assign(norm)
            normalise(start, 0)
            for j in range(count):
                extend(j)
            vectors.launch_groups(_least_squares, [beta, rounding, self._columns, self._right, self._y])
            if from_right is None:
                vectors.launch(_combine, [whole, self._y, one, groups, row_x])
            else:
                vectors.launch(_combine, [whole, self._y, zero, groups, w])
                from_right.matvec(self._w, self._r, self._r, alpha=1.0, beta=0.0)
                vectors.launch(_add, [r, groups, row_x])
            update_residual()

        self._all.zero_()
        self._basis.zero_()
        self._set_limit(b, square, limit)
        update_residual()
        return Iterate(cycle, square, limit, count)
