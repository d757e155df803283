"""Arrays of a thread's own become values: one for each element, carried through branches and loops.

    store @a[1], %x                     a1 = %x
    %v = load @a[%i]             ->     %v = select(%i == 0, a0, select(%i == 1, a1, a2))
    store @a[%i], %y                    a0 = select(%i == 0, %y, a0);  a1 = ...;  a2 = ...

The reverse sweep can bring back what a loop carries, but not what is overwritten in memory. After this there is nothing
left in memory of these arrays; others: reverse/own_memory.py. Elements at constant indices cost nothing; an index that
is not known costs a choice for each element that it may name, and a loop that the array goes through keeps all elements
in each of its checkpoints.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from jaxwarp.builtins.scalar_ops import ROWS
from jaxwarp.errors import DifferentiationError
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Block, Const, For, If, Load, Op, Param, Store, Value, While, walk
from jaxwarp.ir.rewrite import Rewriter, rebuild
from jaxwarp.types import bool_, int64

# Numbers in an array that is accessed at indices which are not constant; and where all are.
LIMIT, CONSTANT_LIMIT = 64, 256
# Up to so many the choices cost less than memory. A product of 4 by 4 tiles is reversed in twice the time as values, of
# 8 by 8 ones in 28 times.
FEW = 8

Elements = dict[Param, list[Value]]


def best_as_values(kernel: Kernel) -> set[Param]:
    """The arrays of a kernel's own that are values at once, not only if they have no derivative in memory."""
    tests = [x for op in walk(kernel.body) if isinstance(op, While) for x in walk(op.condition)]
    tested = {op.param for op in tests if isinstance(op, Store)}
    few = {p for p in kernel.locals if p in tested or _size(p) <= FEW or not _varying(kernel, p)}
    return {p for p in few if may_be_values(kernel, p)}


def may_be_values(kernel: Kernel, param: Param) -> bool:
    """Return whether an array is small enough to be turned into values."""
    return _size(param) <= (LIMIT if _varying(kernel, param) else CONSTANT_LIMIT)


def arrays_as_values(kernel: Kernel, arrays: Collection[Param] | None = None) -> Kernel:
    """The kernel with arrays of its own as values. What these hold before the first store is not defined.

    Args:
        kernel: the kernel.
        arrays: some of its arrays; None: all.

    Raises:
        DifferentiationError: an array is too large, or is written in the condition of a `while` and used elsewhere.
    """
    own = tuple(p for p in kernel.locals if arrays is None or p in arrays)
    if not own:
        return kernel
    rewriter = _Values(kernel, own)
    return replace(kernel, body=rewriter.whole(kernel.body), locals=tuple(p for p in kernel.locals if p not in own))


class _Values(Rewriter):
    def __init__(self, kernel: Kernel, own: tuple[Param, ...]):
        super().__init__()
        self.own = own
        self.constants = _constants(kernel)
        self.elements: Elements = {}
        for param in self.own:
            self._require_small(kernel, param)
        for op in walk(kernel.body):
            if isinstance(op, While):
                self._require_apart(kernel, op)

    def _require_small(self, kernel: Kernel, param: Param) -> None:
        if may_be_values(kernel, param):
            return
        varying = _varying(kernel, param)
        if varying:
            what = f"of {LIMIT} numbers, or of {CONSTANT_LIMIT} that are accessed at constant indices only"
        else:
            what = f"of {CONSTANT_LIMIT} numbers"
        raise DifferentiationError(
            f"{param.name} is an array of {_size(param)} numbers of a thread; grad in a kernel goes through arrays "
            f"{what}, at most",
            (varying or [op for op in walk(kernel.body) if _accesses(op, param)])[0].loc,
            hint="use a smaller array; derivatives of launches (jax.grad, jax.jvp) have no limit",
        )

    def _require_apart(self, kernel: Kernel, loop: While) -> None:
        inside = list(walk(loop.condition))
        for op in inside:
            if isinstance(op, Store) and op.param in self.own:
                elsewhere = [x for x in walk(kernel.body) if _accesses(x, op.param) and x not in inside]
                if elsewhere:
                    raise DifferentiationError(
                        f"the condition of a while loop writes to {op.param.name}; the derivative of that is not "
                        "available",
                        op.loc,
                        hint="write in the body of the loop",
                    )

    def whole(self, body: Block) -> Block:
        self.scopes.append([])
        for param in self.own:
            zero = self._const(0.0 if param.dtype.is_float else param.dtype is not bool_ and 0, param)
            self.elements[param] = [zero] * _size(param)
        for op in body.ops:
            self.op(op)
        return Block(body.params, tuple(self.scopes.pop()), self.all(body.results))

    def _const(self, value: bool | int | float, like: Param | Value) -> Value:
        dtype = like.dtype if isinstance(like, Param) else like.type
        result = Value(dtype)
        self.emit(Const(result, value))
        return result

    # Accesses

    def op(self, op: Op) -> None:
        match op:
            case Load() if op.param in self.own:
                places = list(self.places(op))
                elements = self.elements[op.param]
                value = elements[places[-1][0]]
                for k, test in reversed(places[:-1]):
                    assert test is not None
                    value = self.call(ROWS["select"], test, elements[k], value, loc=op.loc)
                self.values[op.result] = value
            case Store() if op.param in self.own:
                elements, stored = self.elements[op.param], self.value(op.value)
                for k, test in list(self.places(op)):
                    if test is None:
                        elements[k] = stored
                    else:
                        elements[k] = self.call(ROWS["select"], test, stored, elements[k], loc=op.loc)
            case If():
                self.if_(op)
            case For() | While():
                self.loop(op)
            case _:
                self.copy(op)

    def places(self, op: Load | Store) -> Iterator[tuple[int, Value | None]]:
        """The elements that an access may mean, and the test whether it does: None if there is but one."""
        shape = [n or 0 for n in op.param.shape]
        known = [self.constants.get(i) for i in op.indices]
        flat = self.flat([(self.value(i), n) for i, n, k in zip(op.indices, shape, known, strict=True) if k is None])
        choices = [range(n) if k is None else [int(k)] for n, k in zip(shape, known, strict=True)]
        for count, where in enumerate(itertools.product(*choices)):
            k = 0
            for i, n in zip(where, shape, strict=True):
                k = k * n + i
            test = None
            if flat is not None:
                test = self.call(ROWS["eq"], flat, self._const(count, flat), loc=op.loc)
            if k < _size(op.param):
                yield k, test

    def flat(self, indices: Sequence[tuple[Value, int]]) -> Value | None:
        """The indices that are not constant as one: row-major."""
        if len(indices) < 2:
            return indices[0][0] if indices else None
        total: Value | None = None
        for index, extent in indices:
            wide = index if index.type == int64 else self.call(ROWS["cast"], index, dtype=int64)
            if total is None:
                total = wide
            else:
                total = self.call(ROWS["add"], self.call(ROWS["mul"], total, self._const(extent, wide)), wide)
        return total

    # Regions

    def region(self, block: Block, elements: Elements) -> tuple[Block, Elements]:
        """A block that starts with these elements, without results for them; and the elements at its end."""
        outer, self.elements = self.elements, {p: list(v) for p, v in elements.items()}
        self.scopes.append([])
        for op in block.ops:
            self.op(op)
        new = Block(block.params, tuple(self.scopes.pop()), self.all(block.results))
        after, self.elements = self.elements, outer
        return new, after

    def if_(self, op: If) -> None:
        sides = [self.region(b, self.elements) for b in op.blocks]
        (then, a), (orelse, b) = sides
        differing = [(p, k) for p in self.own for k, (x, y) in enumerate(zip(a[p], b[p], strict=True)) if x is not y]
        results = tuple(Value(p.dtype, p.name) for p, _ in differing)
        blocks = [
            Block((), block.ops, (*block.results, *(after[p][k] for p, k in differing)))
            for block, after in ((then, a), (orelse, b))
        ]
        self.emit(If((*op.results, *results), self.value(op.condition), *blocks, loc=op.loc))
        self.elements = {p: list(v) for p, v in a.items()}
        for (p, k), value in zip(differing, results, strict=True):
            self.elements[p][k] = value

    def loop(self, op: For | While) -> None:
        places = [(p, k) for p in _written(op.body, self.own) for k in range(_size(p))]
        inits = tuple(self.elements[p][k] for p, k in places)
        blocks = []
        for block in op.blocks:
            params = tuple(Value(p.dtype, p.name) for p, _ in places)
            inside = {p: list(v) for p, v in self.elements.items()}
            for (p, k), value in zip(places, params, strict=True):
                inside[p][k] = value
            new, after = self.region(block, inside)
            yields = () if block is not op.body else tuple(after[p][k] for p, k in places)
            blocks.append(Block((*block.params, *params), new.ops, (*new.results, *yields)))
        results = tuple(Value(p.dtype, p.name) for p, _ in places)
        self.emit(rebuild(op, (*op.results, *results), (*self.all(op.operands), *inits), blocks))
        for (p, k), value in zip(places, results, strict=True):
            self.elements[p][k] = value


def _varying(kernel: Kernel, param: Param) -> list[Op]:
    """The accesses at indices that are not constant."""
    accesses, constants = (op for op in walk(kernel.body) if _accesses(op, param)), _constants(kernel)
    return [op for op in accesses if not all(i in constants for i in op.operands[: param.rank])]


def _constants(kernel: Kernel) -> dict[Value, bool | int | float]:
    return {op.result: op.value for op in walk(kernel.body) if isinstance(op, Const)}


def _size(param: Param) -> int:
    return math.prod(n or 0 for n in param.shape)


def _accesses(op: Op, param: Param) -> bool:
    return isinstance(op, Load | Store | Atomic) and op.param is param


def _written(block: Block, own: Collection[Param]) -> list[Param]:
    written = {op.param for op in walk(block) if isinstance(op, Store)}
    return [p for p in own if p in written]
