"""A second version of the code for chunks inside the domain, where conditions on the thread index do not vary.

A wrap `(i + 1) % n`, a clamp `min(i + 1, n - 1)`, a test `i == 0` or `i < n` gives all lanes of most chunks the same
answer, or an even step. In a version of the body that assumes so, the index of a stencil's neighbour is linear, and its
load a plain vector load; whether a chunk may run that version is a few scalar operations at its start:

| operation on a (linear) and b, integers | assumed | if, for the first and the last lane, |
|---|---|---|
| a < b and the like | uniform | the answer is the same |
| a == b, a != b | uniform | a - b has the same sign and is not 0 |
| a % b | steps like a | a >= 0 and b > 0, and a // b is the same |
| a // b | uniform | likewise |
| from_end(a, b), b uniform | steps like a | a >= 0 |
| min(a, b), max(a, b) | steps like the operand that steps | that operand is the result |

A test that chooses between an index that steps and one that does not is assumed to choose the one that steps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from jaxwarp.codegen.cpu.analysis.uniformity import Stride, Strides, find_strides
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Call, Const, If, Load, Op, Param, Size, Store, Tid, Value, walk
from jaxwarp.types import int32

ORDERED = ("lt", "le", "gt", "ge")
EQUAL = ("eq", "ne")
QUOTIENT = ("mod", "div", "floordiv")
_EXTREME = ("min", "max")

# A chunk's tests must stay cheap beside its work.
_MAX_TESTS = 16


# Assumptions can rest on others (a clamp is a minimum of a maximum), in chains up to this long.
_ROUNDS = 4


@dataclass
class Interior:
    """The assumptions under which chunks run the second version of the code, and their tests.

    Attributes:
        strides: of all values, under the assumptions.
        tests: the operations whose behaviour is tested.
        assumed: strides of their results.
        choices: those of them that are known, not just uniform.
        slice: the operations that compute their operands, in program order.
    """

    strides: Strides
    tests: list[Call] = field(default_factory=list)
    assumed: dict[Value, Stride] = field(default_factory=dict)
    choices: dict[Value, bool] = field(default_factory=dict)
    slice: list[Op] = field(default_factory=list)


def find_interior(kernel: Kernel, width: int, strides: Strides) -> Interior | None:
    """The assumptions that make values of a kernel uniform or linear; None if there are none.

    Args:
        kernel: the kernel.
        width: lanes.
        strides: of its values, without assumptions.
    """
    interior, sources = Interior(strides), _Sources(kernel)
    for _ in range(_ROUNDS):
        before = len(interior.tests)
        for op in walk(kernel.body):
            if isinstance(op, Call) and interior.strides.of[op.result] is None and len(interior.tests) < _MAX_TESTS:
                stride = _assumed_stride(op, interior.strides, width)
                if stride is not None and sources.note(op):
                    interior.tests.append(op)
                    interior.assumed[op.result] = stride
        if len(interior.tests) == before:
            break
        interior.choices.update(_choices(kernel, interior.strides, interior.assumed))
        interior.strides = find_strides(kernel, width, interior.assumed, interior.choices)
    interior.slice = sources.needed()
    return interior if interior.tests else None


def _assumed_stride(op: Call, strides: Strides, width: int) -> Stride:
    """The stride that the result is assumed to have, or None where there is nothing to assume."""
    if len(op.args) != 2 or any(a.type is not int32 for a in op.args):
        return None
    first, second = (strides.of[a] for a in op.args)
    if first is None or second is None:
        return None
    name = op.builtin.name
    if name in ORDERED or name in EQUAL:
        return 0
    if name in QUOTIENT and first > 0 and second == 0:
        divisor = strides.constants.get(op.args[1])
        if divisor is not None and divisor < 2 * first * width:  # which most chunks reach a multiple of
            return None
        return first if name == "mod" else 0
    if name == "from_end" and second == 0:
        return first
    if name in _EXTREME and (first == 0) != (second == 0):
        return first or second
    return None


class _Sources:
    """The values that the start of a chunk can compute: scalars of thread indices, extents, constants, parameters."""

    def __init__(self, kernel: Kernel):
        written = {op.param for op in walk(kernel.body) if isinstance(op, (Store, Atomic))}
        self.order = {op: n for n, op in enumerate(walk(kernel.body))}
        simple = [op for op in self.order if self.is_simple(op, written)]
        self.makers = {result: op for op in simple for result in op.defined}
        self.found: dict[Op, None] = {}

    @staticmethod
    def is_simple(op: Op, written: set[Param]) -> bool:
        if isinstance(op, Call):
            return not op.result.type.is_float and not any(a.type.is_float for a in op.args)
        # A parameter of rank 0 has its one element, so reading it early is safe; and nobody may have changed it.
        is_scalar = isinstance(op, Load) and not op.indices and op.param not in written
        return isinstance(op, (Const, Tid, Size)) or is_scalar

    def note(self, op: Call) -> bool:
        """Adds what the operands of `op` need, if all of it can be computed."""
        needed: dict[Op, None] = {}
        waiting = list(op.args)
        while waiting:
            maker = self.makers.get(waiting.pop())
            if maker is None:
                return False
            if maker not in needed:
                needed[maker] = None
                waiting.extend(maker.operands)
        self.found.update(needed)
        return True

    def needed(self) -> list[Op]:
        return sorted(self.found, key=self.order.__getitem__)


def _choices(kernel: Kernel, strides: Strides, assumed: dict[Value, Stride]) -> Iterator[tuple[Value, bool]]:
    """The tests that choose between an integer that steps and one that does not."""
    for op in walk(kernel.body):
        if isinstance(op, Call) and op.builtin.name == "select":
            condition, pairs = op.args[0], [(op.args[1], op.args[2])]
        elif isinstance(op, If):
            condition, pairs = op.condition, list(zip(op.then.results, op.orelse.results, strict=True))
        else:
            continue
        if condition in assumed:
            for yes, no in pairs:
                steps = strides.of[yes], strides.of[no]
                if None not in steps and steps[0] != steps[1] and yes.type.is_int:
                    yield condition, steps[0] != 0
