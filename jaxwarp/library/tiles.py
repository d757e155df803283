"""The computations of functions on tiles. Tiles and arrays of a thread's own are indexed alike.

Each element of a result is stored once, so that derivatives find in it what they need.
"""

# Any: a tile. Names are those of the formulas.
# pyright: reportIndexIssue=false, reportArgumentType=false, reportCallIssue=false, reportOperatorIssue=false
# pyright: reportAttributeAccessIssue=false, reportGeneralTypeIssues=false
# ruff: noqa: N803, ANN201

from __future__ import annotations

from typing import Any

import jaxwarp as wp


@wp.func
def product_of(a: Any, b: Any, out: Any, alpha: Any):
    """out = alpha a b; sums have the type of alpha."""
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            total = type(alpha)(0.0)
            for k in range(a.shape[1]):
                total += type(alpha)(a[i, k]) * type(alpha)(b[k, j])
            out[i, j] = out.dtype(alpha * total)


@wp.func
def product_or_zero(factor: Any, value: Any):
    """A product that is 0 where the factor is 0, even of a value that is infinite or NaN."""
    return wp.where(factor == type(factor)(0.0), factor, factor * value)


@wp.func_grad(product_or_zero)
def adj_product_or_zero(factor: Any, value: Any, adj_ret: Any):
    # Not that of the code: at 0 it moves with the factor.
    wp.adjoint[factor] += adj_ret * value
    wp.adjoint[value] += adj_ret * factor


@wp.func
def product_added(a: Any, b: Any, out: Any, alpha: Any, beta: Any):
    """out = alpha a b + beta out, which has no part in it where beta is 0."""
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            total = type(alpha)(0.0)
            for k in range(a.shape[1]):
                total += type(alpha)(a[i, k]) * type(alpha)(b[k, j])
            before = product_or_zero(beta, type(alpha)(out[i, j]))
            out[i, j] = out.dtype(alpha * total + before)


@wp.func
def complex_sum(a: Any, b: Any, i: int, j: int, one: Any):
    """Real and imaginary part of (a b)[i, j]."""
    real, imaginary = type(one)(0.0), type(one)(0.0)
    for k in range(a.shape[1]):
        x, y = a[i, k], b[k, j]
        real += type(one)(x[0]) * type(one)(y[0]) - type(one)(x[1]) * type(one)(y[1])
        imaginary += type(one)(x[0]) * type(one)(y[1]) + type(one)(x[1]) * type(one)(y[0])
    return real, imaginary


@wp.func
def complex_product_of(a: Any, b: Any, out: Any, alpha: Any):
    """out = alpha a b of tiles of (re, im)."""
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            real, imaginary = complex_sum(a, b, i, j, alpha)
            out[i, j] = out.dtype(out.dtype.dtype(alpha * real), out.dtype.dtype(alpha * imaginary))


@wp.func
def complex_product_added(a: Any, b: Any, out: Any, alpha: Any, beta: Any):
    """out = alpha a b + beta out of tiles of (re, im)."""
    for i in range(a.shape[0]):
        for j in range(b.shape[1]):
            real, imaginary = complex_sum(a, b, i, j, alpha)
            real, imaginary = alpha * real, alpha * imaginary
            before = out[i, j]
            real += product_or_zero(beta, type(alpha)(before[0]))
            imaginary += product_or_zero(beta, type(alpha)(before[1]))
            out[i, j] = out.dtype(out.dtype.dtype(real), out.dtype.dtype(imaginary))


@wp.func
def cholesky(A: Any, L: Any):
    """The lower triangle of L, A = L L^T, by columns.

    Source: G. Golub, C. Van Loan, Matrix Computations, 4.2.
    """
    n = A.shape[0]
    for j in range(n):
        square = A[j, j]
        for k in range(j):
            square -= L[j, k] * L[j, k]
        root = wp.sqrt(square)
        L[j, j] = root
        for i in range(j + 1, n):
            value = A[i, j]
            for k in range(j):
                value -= L[i, k] * L[j, k]
            L[i, j] = value / root


@wp.func
def solved_forward(L: Any, y: Any, x: Any):
    """L x = y for each column, of a lower triangular L."""
    for c in range(y.shape[1]):
        for i in range(L.shape[0]):
            value = y[i, c]
            for j in range(i):
                value -= L[i, j] * x[j, c]
            x[i, c] = value / L[i, i]


@wp.func
def solved_backward(U: Any, y: Any, x: Any):
    """U x = y for each column, of an upper triangular U."""
    n = U.shape[0]
    for c in range(y.shape[1]):
        for r in range(n):
            i = n - 1 - r
            value = y[i, c]
            for j in range(i + 1, n):
                value -= U[i, j] * x[j, c]
            x[i, c] = value / U[i, i]


@wp.func
def turned(z: Any, angle: Any):
    """z exp(i angle)."""
    c, s = wp.cos(angle), wp.sin(angle)
    return type(z)(z[0] * c - z[1] * s, z[0] * s + z[1] * c)


@wp.func
def fourier_stage(x: Any, out: Any, count: int, stride: int, turn: Any):
    """A stage of the Fourier transform of rows, of `count` butterflies at `stride`; `turn` is 2 pi or -2 pi.

    Source: T. Stockham, High-speed convolution and correlation, AFIPS 1966.
    """
    for r in range(x.shape[0]):
        for p in range(count):
            angle = turn * type(turn)(p) / type(turn)(2 * count)
            for q in range(stride):
                a, b = x[r, q + stride * p], x[r, q + stride * (p + count)]
                out[r, q + stride * 2 * p] = a + b
                out[r, q + stride * (2 * p + 1)] = turned(a - b, angle)


@wp.func
def fourier_sums(x: Any, out: Any, turn: Any):
    """The Fourier transform of rows of any length, by its definition."""
    n = x.shape[1]
    for r in range(x.shape[0]):
        for f in range(n):
            total = x[r, 0]
            for t in range(1, n):
                total += turned(x[r, t], turn * type(turn)((f * t) % n) / type(turn)(n))
            out[r, f] = total


@wp.func
def ordered_bits(x: Any, largest: Any):
    """An integer in the order of floats; NaNs come last."""
    number = type(largest)(0)
    if x != type(x)(0.0):  # -0, too, is 0
        number = wp.cast(x, type(largest))
        if number < type(largest)(0):
            number = number ^ largest
    if x != x:
        number = largest
    return number


@wp.func_grad(ordered_bits)
def adj_ordered_bits(x: Any, largest: Any, adj_ret: Any):  # noqa: ARG001
    wp.adjoint[x] += type(x)(0.0)  # which key comes first moves with nothing


@wp.func
def ordered_keys(keys: Any, wide: Any, bits: Any, largest: Any):
    for k in range(len(keys)):
        bits[k] = ordered_bits(type(wide)(keys[k]), largest)


@wp.func
def sorted_parts(keys: Any, into_keys: Any, into_order: Any, part: Any, places: Any, largest: Any):
    """The first runs of a sort: parts of a few keys, stable, in registers. `part` and `places` are vectors for them."""
    n = len(keys)
    for p in range((n + len(part) - 1) // len(part)):
        for k in range(len(part)):
            at = p * len(part) + k
            places[wp.static(k)] = at
            part[k] = largest
            if at < n:
                part[k] = keys[at]
        for i in range(1, len(part)):
            for j in range(i):  # element i goes down past larger ones
                below, above = wp.static(i - 1 - j), wp.static(i - j)
                low, high = part[below], part[above]
                first, second = places[below], places[above]
                goes_down = high < low
                part[below], part[above] = wp.where(goes_down, high, low), wp.where(goes_down, low, high)
                places[below], places[above] = wp.where(goes_down, second, first), wp.where(goes_down, first, second)
        for k in range(len(part)):
            at = p * len(part) + k
            if at < n:
                into_keys[at] = part[wp.static(k)]
                into_order[at] = places[k]


@wp.func
def merged_runs(keys: Any, order: Any, into_keys: Any, into_order: Any, width: int, part: int, trips: int):
    """A pass of merge sort: pairs of sorted runs of `width` become one, in parts that need nothing of each other.

    A part, which divides a pair of runs, finds where it begins in `trips` steps. Keys are integers.

    Source: O. Green, R. McColl, D. Bader, GPU merge path: a GPU merging algorithm, ICS 2012.
    """
    n = len(keys)
    for p in range((n + part - 1) // part):
        start = p * part // (2 * width) * (2 * width)
        middle, stop = wp.min(start + width, n), wp.min(start + 2 * width, n)
        before = p * part - start
        least, most = wp.max(before - (stop - middle), 0), wp.min(before, middle - start)
        for _ in range(trips):
            half = (least + most) // 2
            if least < most:
                if keys[middle + before - 1 - half] < keys[start + half]:
                    most = half
                else:
                    least = half + 1
        left, right = start + least, middle + before - least
        for k in range(part):
            if p * part + k < n:
                takes_left = right >= stop
                if left < middle and right < stop:
                    takes_left = not (keys[right] < keys[left])
                source = right
                if takes_left:
                    source = left
                    left += 1
                else:
                    right += 1
                into_keys[p * part + k] = keys[source]
                into_order[p * part + k] = order[source]


@wp.func
def taken_in_order(t: Any, order: Any, out: Any):
    """The elements of a tile in an order."""
    for k in range(len(order)):
        out[k] = t[order[k]]


@wp.func
def drawn_randi(t: Any, rng: Any):
    state = rng
    wp.randi(state)  # as Warp, whose tiles begin with the second number
    for i in range(len(t)):
        t[i] = wp.randi(state)


@wp.func
def drawn_randi_bounded(t: Any, rng: Any, low: int, high: int):
    state = rng
    wp.randi(state)
    for i in range(len(t)):
        t[i] = wp.randi(state, low, high)


@wp.func
def drawn_randf(t: Any, rng: Any):
    state = rng
    wp.randi(state)  # as Warp, whose tiles begin with the second number
    for i in range(len(t)):
        t[i] = wp.randf(state)


@wp.func
def drawn_randf_bounded(t: Any, rng: Any, low: float, high: float):
    state = rng
    wp.randi(state)
    for i in range(len(t)):
        t[i] = wp.randf(state, low, high)
