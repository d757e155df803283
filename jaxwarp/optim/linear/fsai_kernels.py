"""Kernels of `FSAI`: a thread for each row of the factor, which is independent of all others."""

# pyright: reportInvalidTypeForm=false

import functools
from typing import Any

import jaxwarp as wp
from jaxwarp.optim.linear.operators import one_of
from jaxwarp.sparse.lookup import bsr_block_index, row_end


@wp.func
def _entry(
    offsets: wp.array[int],
    row_counts: wp.array[int],
    columns: wp.array[int],
    values: wp.array3d[wp.Float],
    row: int,
    column: int,
) -> Any:
    """A number of the matrix, of blocks of `size` rows."""
    size = values.shape[1]
    found = values.dtype(0.0)
    block = bsr_block_index(row // size, column // size, offsets, columns, row_counts)
    if block >= 0:
        found = values[block, row % size, column % size]
    return found


@wp.kernel(enable_backward=False)
def scale_rows(
    offsets: wp.array[int],
    row_counts: wp.array[int],
    columns: wp.array[int],
    values: wp.array3d[wp.Float],
    scale: wp.array[wp.Float],
    status: wp.array[int],
    place: int,
) -> None:
    """The inverse roots of the diagonal, 0 and counted where there is none."""
    i = wp.tid()
    number = scale.dtype(_entry(offsets, row_counts, columns, values, i, i))
    scale[i] = scale.dtype(0.0)
    if number > scale.dtype(0.0) and wp.isfinite(number):
        scale[i] = scale.dtype(1.0) / wp.sqrt(number)
    else:
        wp.atomic_add(status, place, 1)


@wp.kernel(enable_backward=False)
def compare(a: wp.array[int], b: wp.array[int], status: wp.array[int]) -> None:
    i = wp.tid()
    if a[i] != b[i]:
        wp.atomic_add(status, 0, 1)


@wp.func
def _border(
    offsets: wp.array[int],
    row_counts: wp.array[int],
    columns: wp.array[int],
    values: wp.array3d[wp.Float],
    scale: wp.array[wp.Float],
    support: wp.array[int],
    size: int,
    column: int,
    factor: wp.array2d[wp.Float],
) -> Any:
    """Writes another row of the Cholesky factor of the scaled matrix on the support; returns the pivot."""
    pivot = scale.dtype(1.0)
    for p in range(size):
        number = scale.dtype(_entry(offsets, row_counts, columns, values, column, support[p]))
        total = number * scale[column] * scale[support[p]]
        for q in range(p):
            total -= factor[p, q] * factor[size, q]
        total = total / factor[p, p]
        factor[size, p] = total
        pivot -= total * total
    return pivot


@wp.func
def _accept(
    pivot: Any, column: int, size: int, support: wp.array[int], factor: wp.array2d[wp.Float], half: wp.array[wp.Float]
) -> None:
    """Takes the row, with its part of the solution of `L half = e_0`."""
    root = wp.sqrt(pivot)
    total = type(pivot)(0.0)
    if size == 0:
        total = type(pivot)(1.0)
    for p in range(size):
        total -= factor[size, p] * half[p]
    support[size] = column
    factor[size, size] = root
    half[size] = total / root


@wp.func
def _finish(size: int, factor: wp.array2d[wp.Float], half: wp.array[wp.Float], found: wp.array[wp.Float]) -> None:
    """`L^T found = half`."""
    for back in range(size):
        p = size - 1 - back
        total = half[p]
        for q in range(p + 1, size):
            total -= factor[q, p] * found[q]
        found[p] = total / factor[p, p]


@wp.func
def _has(numbers: wp.array[int], count: int, number: int) -> bool:
    found = False
    for q in range(count):
        found = found or numbers[q] == number
    return found


@wp.func
def _offer(column: int, score: Any, count: int, candidates: wp.array[int], scores: wp.array[wp.Float]) -> int:
    """Puts a column behind those of better scores, or the same and before it, if there is room; how many there are."""
    rank = 0
    for q in range(count):
        if scores[q] > score or (scores[q] == score and candidates[q] < column):
            rank = q + 1
    if rank == candidates.shape[0]:
        return count
    now = wp.min(count + 1, candidates.shape[0])
    for back in range(now - 1 - rank):
        q = now - 1 - back
        candidates[q] = candidates[q - 1]
        scores[q] = scores[q - 1]
    candidates[rank] = column
    scores[rank] = score
    return now


@wp.func
def _search(
    offsets: wp.array[int],
    row_counts: wp.array[int],
    columns: wp.array[int],
    values: wp.array3d[wp.Float],
    scale: wp.array[wp.Float],
    support: wp.array[int],
    size: int,
    row: wp.array[wp.Float],
    candidates: wp.array[int],
    scores: wp.array[wp.Float],
) -> int:
    """The columns beside the support, before its first, where the row's residual is largest; how many there are."""
    count = 0
    for p in range(size):
        block_row = support[p] // values.shape[1]
        for e in range(offsets[block_row], row_end(offsets, row_counts, block_row)):
            for k in range(values.shape[2]):
                c = columns[e] * values.shape[2] + k
                if c < support[0] and not _has(support, size, c) and not _has(candidates, count, c):
                    score = scale.dtype(0.0)
                    for q in range(size):
                        entry = scale.dtype(_entry(offsets, row_counts, columns, values, c, support[q]))
                        score += entry * scale[c] * scale[support[q]] * row[q]
                    if wp.abs(score) > scale.dtype(0.0):
                        count = _offer(c, wp.abs(score), count, candidates, scores)
    return count


@functools.cache
def grow_kernel(number: Any, width: int, step: int) -> Any:
    """Chooses the supports of rows, of numbers of a type: at most `width` columns, `step` at once."""

    @wp.kernel(enable_backward=False)
    def fsai_grow(
        offsets: wp.array[int],
        row_counts: wp.array[int],
        columns: wp.array[int],
        values: wp.array3d[wp.Float],
        scale: wp.array[number],
        tolerance: number,
        floor: number,
        chosen: wp.array2d[int],
        truncated: wp.array[int],
    ):
        i = wp.tid()
        support = wp.zeros(shape=width, dtype=int)
        factor = wp.zeros(shape=(width, width), dtype=number)
        half = wp.zeros(shape=width, dtype=number)
        row = wp.zeros(shape=width, dtype=number)
        candidates = wp.zeros(shape=step, dtype=int)
        scores = wp.zeros(shape=step, dtype=number)
        size = 1
        _accept(number(1.0), i, 0, support, factor, half)
        row[0] = number(1.0)
        goes_on = True
        while goes_on and size < width:
            count = _search(offsets, row_counts, columns, values, scale, support, size, row, candidates, scores)
            before = row[0]
            goes_on = count > 0
            for q in range(count):
                if goes_on and size < width:
                    c = candidates[q]
                    pivot = _border(offsets, row_counts, columns, values, scale, support, size, c, factor)
                    if pivot > floor and wp.isfinite(pivot):
                        _accept(pivot, c, size, support, factor, half)
                        size += 1
                    else:
                        wp.atomic_add(truncated, 1, 1)
                        goes_on = False
            _finish(size, factor, half, row)
            if tolerance > number(0.0) and number(1.0) - before / row[0] <= tolerance:
                goes_on = False
        for p in range(width):
            chosen[i, p] = wp.where(p < size, support[p], -1)

    return fsai_grow


@functools.cache
def fit_kernel(number: Any, width: int) -> Any:
    """Computes rows on their supports: `z / sqrt(z_0)` with `A[S, S] z = e_0`, in the order of choice."""

    @wp.kernel(enable_backward=False)
    def fsai_fit(
        offsets: wp.array[int],
        row_counts: wp.array[int],
        columns: wp.array[int],
        values: wp.array3d[wp.Float],
        scale: wp.array[number],
        floor: number,
        regularizes: bool,
        chosen: wp.array2d[int],
        fitted: wp.array2d[wp.Float],
        status: wp.array[int],
    ):
        i = wp.tid()
        support = wp.zeros(shape=width, dtype=int)
        factor = wp.zeros(shape=(width, width), dtype=number)
        half = wp.zeros(shape=width, dtype=number)
        row = wp.zeros(shape=width, dtype=number)
        size = 1
        is_valid = True
        is_raised = False
        _accept(number(1.0), i, 0, support, factor, half)
        for p in range(1, width):
            c = chosen[i, p]
            if c >= 0:
                pivot = _border(offsets, row_counts, columns, values, scale, support, size, c, factor)
                if not wp.isfinite(pivot):
                    is_valid = False
                    pivot = number(1.0)
                if pivot <= floor:
                    is_raised = True
                    pivot = floor
                _accept(pivot, c, size, support, factor, half)
                size += 1
        _finish(size, factor, half, row)
        root = wp.sqrt(row[0])
        for p in range(size):
            value = fitted.dtype(row[p] / root * scale[support[p]])
            is_valid = is_valid and wp.isfinite(value) and (p > 0 or value > fitted.dtype(0.0))
        if is_valid and (regularizes or not is_raised):
            for p in range(size):
                fitted[i, p] = fitted.dtype(row[p] / root * scale[support[p]])
            if is_raised:
                wp.atomic_add(status, 3, 1)
        else:
            wp.atomic_add(status, 2, 1)
            for p in range(size):
                fitted[i, p] = fitted.dtype(0.0)
            own = fitted.dtype(scale[i])
            fitted[i, 0] = wp.where(own > fitted.dtype(0.0) and wp.isfinite(own), own, fitted.dtype(1.0))

    return fsai_fit


@wp.kernel(enable_backward=False)
def commit(
    fitted: wp.array2d[wp.Float],
    status: wp.array[int],
    regularizes: bool,
    places: wp.array2d[int],
    places_across: wp.array2d[int],
    values: wp.array[wp.Float],
    across: wp.array[wp.Float],
) -> None:
    """Writes the rows to the factor and its transpose, unless the update is refused."""
    i, p = wp.tid()
    is_accepted = status[0] == 0 and (regularizes or (status[1] == 0 and status[2] == 0))
    if is_accepted and places[i, p] >= 0:
        values[places[i, p]] = fitted[i, p]
        across[places_across[i, p]] = fitted[i, p]


@wp.kernel(enable_backward=False)
def multiply(
    offsets: wp.array[int],
    columns: wp.array[int],
    values: wp.array[wp.Float],
    x: wp.array[wp.Float],
    alpha: wp.Float,
    beta: wp.Float,
    y: wp.array[wp.Float],
    z: wp.array[wp.Float],
) -> None:
    """`z = alpha A x + beta y`; `y` may be None for `z`."""
    row = wp.tid()
    total = type(alpha)(0.0)
    if alpha != type(alpha)(0.0):
        for e in range(offsets[row], offsets[row + 1]):
            total += type(alpha)(values[e]) * type(alpha)(x[columns[e]])
        total = alpha * total
    if beta != type(alpha)(0.0):
        total += beta * type(alpha)(one_of(y, z, row))
    z[row] = z.dtype(total)
