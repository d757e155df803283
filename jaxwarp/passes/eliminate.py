"""Dead code elimination: what no store, no atomic and no told value depends on is not computed.

    %a = mul %x, %x        (unused)
    %s, %t = for ... carry(%p = ..., %q = ...) { ... }   ->   %s = for ... carry(%p = ...) { ... }
        (%t unused, %q feeding only itself)

    store @local[%i], %a   (a local array that is never loaded)

Liveness spreads from the effects through definitions, in one sweep over a work list: linear in the size of the kernel.
A live operation inside a region makes the operation that owns the region live, with what controls it. Loads are pure.
A loop without effects whose results nobody uses goes, even if it might not have ended.
"""

from __future__ import annotations

from dataclasses import replace

from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Block, For, If, Load, Op, Param, Store, Tell, Value, While
from jaxwarp.ir.rewrite import Rewriter, rebuild


def eliminate(kernel: Kernel) -> Kernel:
    """The kernel without what has no effect."""
    return _Eliminate(_Liveness(kernel)).kernel(kernel)


class _Liveness:
    """The operations and values that matter."""

    def __init__(self, kernel: Kernel):
        self.values: set[Value] = set()
        self.ops: set[Op] = set()
        self._definition: dict[Value, Op] = {}
        self._owner: dict[Op, Op | None] = {}
        self._needs: dict[Value, tuple[Value, ...]] = {}  # results and carried values of If, For and While
        self._own: dict[Param, list[Op]] = {p: [] for p in kernel.locals}  # writes to it; they matter if it is loaded
        self._work: list[Value] = []
        self._effects: list[Op] = []
        self._scan(kernel.body, None)
        while self._effects or self._work:
            if self._effects:
                self._reach(self._effects.pop())
                continue
            value = self._work.pop()
            self._want(self._needs.get(value, ()))
            self._reach(self._definition[value])

    def _scan(self, block: Block, owner: Op | None) -> None:
        for op in block.ops:
            self._owner[op] = owner
            self._definition.update((v, op) for v in op.defined)
            if isinstance(op, Store | Atomic):
                self._own.get(op.param, self._effects).append(op)
            elif isinstance(op, Tell):
                self._effects.append(op)
            if op.blocks:
                self._relate(op)
            for inner in op.blocks:
                self._definition.update((v, op) for v in inner.params)
                self._scan(inner, op)

    def _relate(self, op: Op) -> None:
        match op:
            case If():
                for i, result in enumerate(op.results):
                    self._needs[result] = (op.then.results[i], op.orelse.results[i])
            case For():
                for i, result in enumerate(op.results):
                    carried = (op.inits[i], op.body.results[i], result)
                    self._needs[result] = self._needs[op.body.params[i + 1]] = carried
            case While():
                for i, result in enumerate(op.results):
                    carried = (op.inits[i], op.body.results[i], result)
                    for value in (result, op.condition.params[i], op.body.params[i]):
                        self._needs[value] = carried
            case _:
                pass

    def _want(self, values: tuple[Value, ...]) -> None:
        for value in values:
            if value not in self.values:
                self.values.add(value)
                self._work.append(value)

    def _reach(self, op: Op | None) -> None:
        """Marks an operation and the owners of its region, with the values they themselves read."""
        while op is not None and op not in self.ops:
            self.ops.add(op)
            if isinstance(op, Load | Atomic):
                self._effects += self._own.pop(op.param, ())
            match op:
                case For():
                    self._want((op.start, op.stop, op.step))
                case While():
                    self._want(op.condition.results)
                case _:
                    self._want(op.operands)
            op = self._owner[op]


class _Eliminate(Rewriter):
    def __init__(self, live: _Liveness):
        super().__init__()
        self.live = live

    def kernel(self, kernel: Kernel) -> Kernel:
        kept = super().kernel(kernel)
        used = {op.param for op in self.live.ops if isinstance(op, Load | Store | Atomic)}
        return replace(kept, locals=tuple(p for p in kernel.locals if p in used))

    def op(self, op: Op) -> None:
        if op not in self.live.ops:
            return
        match op:
            case If():
                self._if(op)
            case For():
                keep = self._kept(op)
                body = self._carrying(op.body, (True, *keep), keep)
                operands = (op.start, op.stop, op.step, *_only(op.inits, keep))
                self.emit(rebuild(op, _only(op.results, keep), operands, (body,)))
            case While():
                keep = self._kept(op)
                blocks = self._carrying(op.condition, keep, (True,)), self._carrying(op.body, keep, keep)
                self.emit(rebuild(op, _only(op.results, keep), _only(op.inits, keep), blocks))
            case _:
                self.emit(op)

    def _kept(self, op: For | While) -> tuple[bool, ...]:
        return tuple(v in self.live.values for v in op.results)

    def _if(self, op: If) -> None:
        keep = tuple(v in self.live.values for v in op.results)
        blocks = [self._carrying(b, (), keep) for b in op.blocks]
        self.emit(rebuild(op, _only(op.results, keep), (op.condition,), blocks))

    def _carrying(self, block: Block, params: tuple[bool, ...], results: tuple[bool, ...]) -> Block:
        """A block with some of its parameters and results left out."""
        inner = self.block(Block(_only(block.params, params), block.ops, _only(block.results, results)))
        same = len(inner.params) == len(block.params) and len(inner.results) == len(block.results)
        return block if same and inner.ops == block.ops else inner


def _only(values: tuple[Value, ...], keep: tuple[bool, ...]) -> tuple[Value, ...]:
    return tuple(v for v, wanted in zip(values, keep, strict=True) if wanted)
