"""Values that decide something: which way a thread takes, which element it is at, which side of a choice it has.

If such a value is rounded in another way, the results may be others altogether. All other values only enter smooth
functions, and what comes of them is rounded in another way, too.
"""

from __future__ import annotations

from collections.abc import Iterable

from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Call, For, If, Load, Op, Param, Store, Value, While, walk

_SMOOTH = frozenset(
    "acos acosh add asin asinh atan atan2 atanh cbrt cos cosh div erf erfc exp exp2 expm1 fma hypot log log10 log1p"
    " log2 mul neg pow rsqrt sin sinh sqrt sub tan tanh".split()
)


def deciding_values(kernel: Kernel) -> set[Value]:
    """Return the values from which a decision follows, also through memory; those in doubt, too."""
    found = _Deciding()
    ops = list(walk(kernel.body))[::-1]
    while found.grows:
        found.grows = False
        for op in ops:
            found.op(op)
    return found.values


class _Deciding:
    def __init__(self) -> None:
        self.values: set[Value] = set()
        self.params: set[Param] = set()
        self.grows = True

    def add(self, values: Iterable[Value]) -> None:
        before = len(self.values)
        self.values.update(values)
        self.grows |= len(self.values) > before

    def meets(self, param: Param) -> None:
        self.grows |= param not in self.params
        self.params.add(param)

    def op(self, op: Op) -> None:
        match op:
            case Call():
                self.call(op)
            case Load():
                self.add(op.indices)
                if op.result in self.values:
                    self.meets(op.param)
            case Store():
                self.add((*op.indices, op.value) if op.param in self.params else op.indices)
            case Atomic():
                if op.result in self.values:
                    self.meets(op.param)
                self.add((*op.indices, *op.args) if op.param in self.params or op.kind != "add" else op.indices)
            case If():
                self.add([op.condition])
                for block in op.blocks:
                    self.join(op.results, block.results)
            case For():
                self.add([op.start, op.stop, op.step])
                self.join(op.results, op.body.results)
                self.join(op.body.params[1:], op.body.results)
                self.join(op.body.params[1:], op.inits)
                self.join(op.results, op.inits)
            case While():
                self.add(op.condition.results)
                for params in (op.results, op.condition.params, op.body.params):
                    self.join(params, op.body.results)
                    self.join(params, op.inits)
            case _:
                pass

    def call(self, op: Call) -> None:
        name = op.builtin.name
        if name == "select":
            self.add(op.args if op.result in self.values else op.args[:1])
        elif op.result in self.values or not (name in _SMOOTH or name == "cast") or not op.result.type.is_float:
            self.add(op.args)

    def join(self, values: Iterable[Value], sources: Iterable[Value]) -> None:
        """Add the sources of values that are known to decide."""
        self.add(source for value, source in zip(values, sources, strict=True) if value in self.values)
