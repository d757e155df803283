"""The bytes that arrays of a thread's own take: on the CPU of its stack or the heap, on GPUs of local memory."""

from __future__ import annotations

import math
from collections import Counter

from jaxwarp.errors import KernelValueError, Loc
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Param, Store, walk


def own_bytes(kernel: Kernel) -> int:
    """Bytes of the arrays that each thread has to itself."""
    return sum(map(_bytes, kernel.locals))


def require_own_bytes(kernel: Kernel, limit: int) -> None:
    """Refuses a kernel whose threads have more than `limit` bytes to themselves.

    Raises:
        KernelValueError: with the line that takes most of it.
    """
    size = own_bytes(kernel)
    if size <= limit:
        return
    where: dict[Param, Loc | None] = {}
    for op in walk(kernel.body):
        if isinstance(op, Store):
            where.setdefault(op.param, op.loc)
    by_line: Counter[Loc | None] = Counter()
    for param in kernel.locals:
        by_line[where.get(param)] += _bytes(param)
    (line, most), *_ = by_line.most_common(1)
    raise KernelValueError(
        f"kernel {kernel.name}: a thread has {size} bytes in arrays of its own, {most} of them for this line; there is"
        f" room for {limit}",
        line,
        hint="arrays of a thread's own are those it makes and, in a reverse sweep, the states that each loop keeps of"
        " what it carries: carry less, or divide the loops among several kernels",
    )


def _bytes(param: Param) -> int:
    return math.prod(n or 0 for n in param.shape) * param.dtype.bytes
