"""The operations of solvers on vectors outside of JAX: kernels on scalars, with the sums that they take on the way.

A system may consist of several, one after another: groups, each with sums, steps and an end of its own. Then `groups`
has the group of each scalar, -1 for those of none, and a separate kernel takes the sums, with a thread for each group.
Without groups, `groups` is None, and kernels add to the one sum as they go. Sums and factors are float32 (float64 for
float64), also where the vectors are float16.
"""

from __future__ import annotations

from typing import Any

import jaxwarp as wp
from jaxwarp.arrays import create
from jaxwarp.arrays.host_array import HostArray
from jaxwarp.types import element_scalar


@wp.func
def group_of(groups: wp.array[int], i: int) -> int:
    group = 0
    if groups:
        group = groups[i]
    return group


@wp.func
def quotient(a: Any, b: Any) -> Any:
    """0 where there is none: a solver goes nowhere then, and tells its residual."""
    found = type(a)(0.0)
    if b != type(a)(0.0):
        found = a / b
    if not wp.isfinite(found):
        found = type(a)(0.0)
    return found


@wp.func
def times(factor: Any, value: Any) -> Any:
    """0 where the factor is 0, also of what has overflowed."""
    return wp.where(factor == type(factor)(0.0), factor, factor * type(factor)(value))


@wp.kernel(enable_backward=False)
def _group_numbers(offsets: wp.array[int], groups: wp.array[int]):
    i = wp.tid()
    last = offsets.shape[0] - 1
    groups[i] = -1
    if i >= offsets[0] and i < offsets[last]:
        groups[i] = wp.lower_bound(offsets, i + 1) - 1


@wp.kernel(enable_backward=False)
def _dot(a: wp.array[wp.Float], b: wp.array[wp.Float], out: wp.array[wp.Float]):
    i = wp.tid()
    wp.atomic_add(out, 0, out.dtype(a[i]) * out.dtype(b[i]))


@wp.kernel(enable_backward=False)
def _group_dot(a: wp.array[wp.Float], b: wp.array[wp.Float], offsets: wp.array[int], out: wp.array[wp.Float]):
    g = wp.tid()
    total = out.dtype(0.0)
    for i in range(wp.max(offsets[g], 0), wp.min(offsets[g + 1], a.shape[0])):
        total += out.dtype(a[i]) * out.dtype(b[i])
    out[g] = total


@wp.kernel(enable_backward=False)
def _square(a: wp.array[wp.Float], out: wp.array[wp.Float]):
    i = wp.tid()
    wp.atomic_add(out, 0, out.dtype(a[i]) * out.dtype(a[i]))


@wp.kernel(enable_backward=False)
def _group_square(a: wp.array[wp.Float], offsets: wp.array[int], out: wp.array[wp.Float]):
    g = wp.tid()
    total = out.dtype(0.0)
    for i in range(wp.max(offsets[g], 0), wp.min(offsets[g + 1], a.shape[0])):
        total += out.dtype(a[i]) * out.dtype(a[i])
    out[g] = total


@wp.kernel(enable_backward=False)
def step(
    factor: wp.array[wp.Float],
    along: wp.array[wp.Float],
    change: wp.array[wp.Float],
    groups: wp.array[int],
    x: wp.array[wp.Float],
    r: wp.array[wp.Float],
    square: wp.array[wp.Float],
) -> None:
    """`x += factor along` (None: `r`), `r -= factor change`; `square += r.r`, without groups."""
    i = wp.tid()
    g = group_of(groups, i)
    if g >= 0:
        if along:
            x[i] = x.dtype(factor.dtype(x[i]) + times(factor[g], along[i]))
        else:
            x[i] = x.dtype(factor.dtype(x[i]) + times(factor[g], r[i]))
        new = r.dtype(factor.dtype(r[i]) - times(factor[g], change[i]))
        r[i] = new
        if not groups:
            wp.atomic_add(square, 0, factor.dtype(new) * factor.dtype(new))


@wp.kernel(enable_backward=False)
def scaled_sum(z: wp.array[wp.Float], factor: wp.array[wp.Float], groups: wp.array[int], p: wp.array[wp.Float]) -> None:
    """`p = z + factor p`."""
    i = wp.tid()
    g = group_of(groups, i)
    if g >= 0:
        p[i] = p.dtype(factor.dtype(z[i]) + times(factor[g], p[i]))


class Vectors:
    """The vectors of a system: their type and number of scalars, the groups, and where they are."""

    def __init__(self, like: HostArray, scalar: Any, offsets: HostArray | None):
        self.like, self.scalar, self.device, self.offsets = like, scalar, like.device, offsets
        self.sums = wp.float64 if scalar == wp.float64 else wp.float32
        self.size = flat(like).shape[0]
        self.count = 1 if offsets is None else offsets.shape[0] - 1
        self.groups: Any = None
        if offsets is not None:
            self.groups = wp.empty(self.size, dtype=int, device=self.device)
            self.launch(_group_numbers, [offsets, self.groups])

    def new(self) -> HostArray:
        """A vector of zeros."""
        return create.zeros(self.like.shape, dtype=self.like.dtype, device=self.device)

    def numbers(self, count: int) -> HostArray:
        """So many rows of a number for each group: zeros."""
        return create.zeros((count, self.count), dtype=self.sums, device=self.device)

    def launch(self, kernel: Any, arguments: list[Any]) -> None:
        """Launches a kernel with a thread for each scalar."""
        wp.launch(kernel, self.size, arguments, device=self.device)

    def launch_groups(self, kernel: Any, arguments: list[Any]) -> None:
        """Launches a kernel with a thread for each group."""
        wp.launch(kernel, self.count, arguments, device=self.device)

    def add_dot(self, a: HostArray, b: HostArray, out: HostArray) -> None:
        """`out`, which is zero, becomes `a.b`."""
        same = a is b
        if self.offsets is None:
            self.launch(_square if same else _dot, [a, out] if same else [a, b, out])
        elif same:
            self.launch_groups(_group_square, [a, self.offsets, out])
        else:
            self.launch_groups(_group_dot, [a, b, self.offsets, out])

    def step(self, factor: HostArray, along: HostArray, change: HostArray, x: Any, r: Any, square: HostArray) -> None:
        """`x += factor along`, `r -= factor change`, and `square`, which is zero, becomes `r.r`."""
        self.launch(step, [factor, None if along is r else along, change, self.groups, x, r, square])
        if self.offsets is not None:
            self.add_dot(r, r, square)


def flat(array: HostArray) -> HostArray:
    """The scalars of a contiguous array, in a row."""
    row, scalar = array if array.ndim == 1 else array.flatten(), element_scalar(array.dtype)
    return row if row.dtype == scalar else row.view(scalar).flatten()
