"""Atomics that need not be atomic: at elements no other thread touches; sums that a row of threads gathers first.

Private elements. Where every access that changes an array is at one and the same index, which differs from thread to
thread, an atomic is

    old = a[i];  a[i] = old + value

which vector code does for all lanes at once. Loads elsewhere are allowed: they see the old or the new element, as they
would beside an atomic.

Row sums. Where an array is only ever updated by atomics of one kind whose old values nobody reads, and the address
depends on nothing that differs within a row of threads, lanes combine their values in a vector of partial results,
which are combined with each other, and with memory, once, at the end of the row. The order of additions of floats is
then not that of the threads (it never was, of threads in parallel); all else has the same result in every order. Where
the element is of that row only, and one call of the function runs all of the row, that need not be atomic either: an
atomic lets no load of the next row begin before it is done.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence

from jaxwarp.analysis.effects import analyze
from jaxwarp.builtins.scalar_ops import row_of_atomic
from jaxwarp.codegen.cpu.analysis.uniformity import Strides
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Call, Const, Load, Op, Param, Size, Store, Tid, Value, walk
from jaxwarp.ir.rewrite import Rewriter
from jaxwarp.types import Scalar, bool_, float32, float64

MOST_ELEMENTS = 64
# Of the stack, for all arrays of a kernel.
MOST_BYTES = 1 << 16

_KINDS = ("add", "min", "max", "and", "or", "xor")


# Each has registers and, after the row, branches: LLVM takes 12 s for 1,024 of them, 0.3 s for as many plain atomics.
_MOST_SUMS = 64


def _is_plain(dtype: Scalar) -> bool:
    """Does the atomic compute what the row of the table does?"""
    return dtype is not bool_ and not dtype.is_half


def make_private(kernel: Kernel) -> Kernel:
    """The kernel with atomics on private elements as loads and stores."""
    effects = analyze(kernel)
    unknown = [None] * kernel.grid_rank
    private: set[Param] = set()
    for param in kernel.params:
        access = effects[param]
        if not access.atomics or not _is_plain(param.dtype) or any(a.kind not in _KINDS for a in access.atomics):
            continue
        constants = _constants(kernel)
        places = {_place(op, constants) for op in (*access.atomics, *access.stores)}
        if len(places) == 1 and effects.injective(access.atomics[0], unknown):
            private.add(param)
    return _MakePrivate(private).kernel(kernel) if private else kernel


def _constants(kernel: Kernel) -> dict[Value, object]:
    return {op.result: op.value for op in walk(kernel.body) if isinstance(op, Const)}


def _place(op: Atomic | Store, constants: dict[Value, object]) -> tuple[object, ...]:
    """Return a key of the accessed element. Accesses of one array with equal keys access the same element."""
    return tuple(("constant", constants[i]) if i in constants else i for i in op.indices)


class _MakePrivate(Rewriter):
    def __init__(self, private: set[Param]):
        super().__init__()
        self.private = private

    def op(self, op: Op) -> None:
        if not isinstance(op, Atomic) or op.param not in self.private:
            self.copy(op)
            return
        self.emit(Load(op.result, op.param, op.indices, loc=op.loc))
        new = self.call(row_of_atomic(op.kind, op.param.dtype), op.result, *op.args, loc=op.loc)
        self.emit(Store(op.param, op.indices, new, loc=op.loc))


def row_sums(kernel: Kernel, used: frozenset[Value] | set[Value]) -> Sequence[Atomic]:
    """The atomics whose values a row of threads may gather. `used`: the values that something reads."""
    effects = analyze(kernel)
    same = _same_in_a_row(kernel)
    found: dict[Param, list[Atomic]] = defaultdict(list)
    for param in kernel.params:
        access = effects[param]
        if access.loads or access.stores or len({a.kind for a in access.atomics}) != 1:
            continue
        for op in access.atomics:
            if op.result not in used and _gathers(op) and all(i in same for i in op.indices):
                found[param].append(op)
    sums = [op for ops in found.values() for op in ops]
    return sums if len(sums) <= _MOST_SUMS else []


def own_rows(kernel: Kernel, ops: Sequence[Atomic]) -> set[Atomic]:
    """Return the atomics of `row_sums` whose element belongs to one row of threads: no other row updates it."""
    effects, constants = analyze(kernel), _constants(kernel)
    rows = [None] * (kernel.grid_rank - 1) + [1]
    found: set[Atomic] = set()
    for op in ops:
        places = {_place(other, constants) for other in effects[op.param].atomics}
        if len(places) == 1 and effects.injective(op, rows):
            found.add(op)
    return found


def _gathers(op: Atomic) -> bool:
    return _is_plain(op.param.dtype) and op.kind in _KINDS


def _same_in_a_row(kernel: Kernel) -> set[Value]:
    """Values computed from constants, sizes and the outer thread indices only."""
    same: set[Value] = set()
    for op in walk(kernel.body):
        match op:
            case Const() | Size():
                same.add(op.result)
            case Tid() if op.axis < kernel.grid_rank - 1:
                same.add(op.result)
            case Call() if all(a in same for a in op.args):
                same.add(op.result)
            case _:
                pass
    return same


def summed_arrays(
    kernel: Kernel, strides: Strides, gathered: Collection[Atomic], width: int
) -> dict[Param, set[Atomic]]:
    """The arrays that this is for, with the atomics whose lanes all address one element.

    Args:
        gathered: atomics that a row sums already.
    """
    effects = analyze(kernel)
    found: dict[Param, set[Atomic]] = {}
    room = MOST_BYTES
    for param in kernel.params:
        access = effects[param]
        if param.dtype not in (float32, float64) or access.loads or access.stores:
            continue
        if any(op.kind != "add" for op in access.atomics) or any(
            n is not None and n > MOST_ELEMENTS for n in param.shape
        ):
            continue
        fitting = {
            op
            for op in access.atomics
            if op not in gathered and op.result not in strides.used and all(strides.of[i] == 0 for i in op.indices)
        }
        size = MOST_ELEMENTS * width * param.dtype.bytes
        if fitting and size <= room:
            room -= size
            found[param] = fitting
    return found
