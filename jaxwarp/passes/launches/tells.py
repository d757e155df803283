"""The removal of reports of threads (`Tell`), or, for failed assertions, their conversion to control flow.

    if %bad { assert "..." }                if %bad { <said> %y0 = 0 } else { %y1 = load @x[%i] ... }
    %y = load @x[%i]                 ->
    ...

    for ... {                               %alive = for ... carry(%a = true) {
        if %bad { assert "..." }     ->         if %a { if %bad { <said> yield false } else { ... yield true } }
        ...                                     else { yield %a }
    }                                       }
    rest                                    if %alive { rest }

A thread that fails does nothing more, whatever it would have done. Every pass, derivative and backend knows this
control flow already.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace

from jaxwarp.deep import with_deep_stack
from jaxwarp.ir.builder import Builder
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import ASSERT, INSIDE, PRINT, Block, For, If, Op, Tell, Value, While, walk
from jaxwarp.ir.rewrite import Rewriter, rebuild
from jaxwarp.types import bool_

_CACHE = 512

Say = Callable[[Builder, Tell], None]
"""Appends what stands for a failure; the values of the operation are those of the new kernel."""


def prints(kernel: Kernel) -> bool:
    """Return whether threads of the kernel may print."""
    return any(op.kind == PRINT for op in _tells(kernel))


def may_fail(kernel: Kernel) -> bool:
    """Return whether there are assertions or expectations in the kernel."""
    return any(op.fails for op in _tells(kernel))


def says(kernel: Kernel) -> bool:
    """Return whether threads may print or fail, which are effects of a launch besides its results."""
    return any(op.kind != INSIDE for op in _tells(kernel))


@functools.lru_cache(maxsize=_CACHE)
def _tells(kernel: Kernel) -> tuple[Tell, ...]:
    """Return the reports of a kernel, found once for all its launches."""
    return tuple(op for op in walk(kernel.body) if isinstance(op, Tell))


def silent(kernel: Kernel) -> Kernel:
    """The kernel whose threads say nothing. One that fails an assertion ends there."""
    kernel = without_tests(kernel)
    return without_failures(_Silent().kernel(kernel)) if prints(kernel) else without_failures(kernel)


class _Silent(Rewriter):
    def kernel(self, kernel: Kernel) -> Kernel:
        return replace(super().kernel(kernel), sizes=kernel.sizes)

    def op(self, op: Op) -> None:
        if not (isinstance(op, Tell) and op.kind == PRINT):
            self.copy(op)


def without_tests(kernel: Kernel) -> Kernel:
    """The kernel as it is outside of debug mode: nobody asks whether an index is inside."""
    tested = any(map(_is_test, _tells(kernel)))
    return _WithoutTests().kernel(kernel) if tested else kernel


def _is_test(op: Op) -> bool:
    return isinstance(op, Tell) and op.kind == INSIDE


class _WithoutTests(_Silent):
    def op(self, op: Op) -> None:
        if _is_test(op):
            return
        if not isinstance(op, If) or op.results:
            self.copy(op)
            return
        then, orelse = (self.block(block) for block in op.blocks)
        if then.ops or orelse.ops or not any(_is_test(inner) for block in op.blocks for inner in block.all_ops):
            self.emit(rebuild(op, (), self.all(op.operands), (then, orelse)))


def without_failures(kernel: Kernel) -> Kernel:
    """The kernel where nobody is told what fails. A thread that fails an assertion ends there."""
    return failures_as(kernel, lambda _b, _op: None)


@with_deep_stack
def failures_as(kernel: Kernel, say: Say, *, ends: bool = True) -> Kernel:
    """The kernel with `say` where a thread fails. At an assertion that is the last that it does, if `ends`."""
    return _Fail(kernel, say, ends).kernel(kernel) if may_fail(kernel) else kernel


class _Fail(Rewriter):
    def __init__(self, kernel: Kernel, say: Say, ends: bool):
        super().__init__()
        self.b = Builder(self.scopes)
        self.say = say
        self.ending: set[Op] = set()
        if ends:
            self._find_ending(kernel.body)

    def _find_ending(self, block: Block) -> bool:
        """Find the operations in which a thread may end; return whether one is in the block."""
        found = False
        for op in block.ops:
            inside = [self._find_ending(inner) for inner in op.blocks]
            if any(inside) or (isinstance(op, Tell) and op.kind == ASSERT):
                self.ending.add(op)
                found = True
        return found

    def kernel(self, kernel: Kernel) -> Kernel:
        self.scopes.append([])
        values, _ = self.run(kernel.body.ops, kernel.body.results)
        body = Block((), tuple(self.scopes.pop()), tuple(values))
        return replace(kernel, body=body)

    def op(self, op: Op) -> None:
        if isinstance(op, Tell) and op.fails:
            self.b.loc = op.loc
            self.say(self.b, Tell(op.kind, op.texts, op.formats, self.all(op.args), loc=op.loc))
        else:
            self.copy(op)

    def run(self, ops: Sequence[Op], results: Sequence[Value]) -> tuple[list[Value], Value]:
        """Appends operations; the values of `results` after them, and whether the thread goes on."""
        for k, op in enumerate(ops):
            if op not in self.ending:
                self.op(op)
                continue
            if isinstance(op, Tell):
                self.op(op)
                return self.nothing(results)
            if isinstance(op, If) and (fails := [_ends(block) for block in op.blocks]).count(True) == 1:
                return self.chosen(op, fails[1], ops[k + 1 :], results)
            alive = self.region(op)
            return self.guarded(op, alive, lambda k=k: self.run(ops[k + 1 :], results), results)
        return list(self.all(results)), self.b.const(True, bool_)

    def nothing(self, results: Sequence[Value]) -> tuple[list[Value], Value]:
        """Return what a thread that has ended yields: zeros, and False."""
        return [self.b.const(0, v.type) for v in results], self.b.const(False, bool_)

    def guarded(
        self,
        op: Op,
        condition: Value,
        rest: Callable[[], tuple[list[Value], Value]],
        results: Sequence[Value],
        orelse: Callable[[], tuple[list[Value], Value]] | None = None,
    ) -> tuple[list[Value], Value]:
        """`rest` of the threads for which the condition holds."""
        *values, alive = self.either(op, condition, rest, orelse or (lambda: self.nothing(results)))
        return values, alive

    def either(
        self,
        op: Op,
        condition: Value,
        then: Callable[[], tuple[list[Value], Value]],
        orelse: Callable[[], tuple[list[Value], Value]],
    ) -> tuple[Value, ...]:
        self.b.loc = op.loc

        def flat(part: Callable[[], tuple[list[Value], Value]]) -> list[Value]:
            values, alive = part()
            return [*values, alive]

        return self.b.if_(condition, lambda: flat(then), lambda: flat(orelse))

    def chosen(self, op: If, is_then: bool, rest: Sequence[Op], results: Sequence[Value]) -> tuple[list[Value], Value]:
        """An `if` of which one branch ends the thread: what comes after it goes into the other one."""
        live, dead = (op.then, op.orelse) if is_then else (op.orelse, op.then)

        def going_on() -> tuple[list[Value], Value]:
            inner = [*live.ops, *rest]
            # The results of the `if` are those of this branch.
            self.joined(op.results, live.results)
            return self.run(inner, results)

        def ending() -> tuple[list[Value], Value]:
            self.run(dead.ops, ())
            return self.nothing(results)

        parts = (going_on, ending) if is_then else (ending, going_on)
        *values, alive = self.either(op, self.value(op.condition), *parts)
        return values, alive

    def joined(self, names: Sequence[Value], values: Sequence[Value]) -> None:
        """Let `names` stand for what `values` will stand for."""
        self.values.update(zip(names, values, strict=True))

    def value(self, value: Value) -> Value:
        """Follows chains: a result of a branch may itself be replaced."""
        while (found := self.values.get(value)) is not None and found is not value:
            value = found
        return value

    def region(self, op: Op) -> Value:
        """An operation in which a thread may end; whether it goes on."""
        match op:
            case If():
                parts = [lambda block=block: self.run(block.ops, block.results) for block in op.blocks]
                *values, alive = self.either(op, self.value(op.condition), *parts)
            case For():
                *values, alive = self.for_(op)
            case While():
                *values, alive = self.while_(op)
            case _:
                raise AssertionError(op)
        self.values.update(zip(op.defined, values, strict=True))
        return alive

    def for_(self, op: For) -> tuple[Value, ...]:
        self.b.loc = op.loc
        inits = [*self.all(op.inits), self.b.const(True, bool_)]

        def body(*params: Value) -> Sequence[Value]:
            *bound, alive = params
            self.values.update(zip(op.body.params, bound, strict=True))
            return self.either(op, alive, lambda: self.run(op.body.ops, op.body.results), lambda: (bound[1:], alive))

        names = [v.name for v in op.body.params]
        start, stop, step = self.all((op.start, op.stop, op.step))
        return self.b.for_(start, stop, step, inits, body, names)

    def while_(self, op: While) -> tuple[Value, ...]:
        """The condition is tested in the body, where a thread may end in it: a carried bool says that it holds."""
        self.b.loc = op.loc
        true = self.b.const(True, bool_)
        inits = [*self.all(op.inits), true, true]

        def condition(*params: Value) -> Value:
            return params[-2]

        def body(*params: Value) -> Sequence[Value]:
            *bound, _, alive = params
            self.values.update(zip(op.condition.params, bound, strict=True))
            (more,), alive = self.run(op.condition.ops, op.condition.results)

            def step() -> tuple[list[Value], Value]:
                self.values.update(zip(op.body.params, bound, strict=True))
                after, going_on = self.run(op.body.ops, op.body.results)
                return [*after, going_on], going_on

            false = self.b.const(False, bool_)
            return self.either(op, more, step, lambda: ([*bound, false], alive))

        *values, _, alive = self.b.while_(inits, condition, body, [v.name for v in op.body.params])
        return (*values, alive)


def _ends(block: Block) -> bool:
    """Return whether every thread that enters the block ends in it."""
    return bool(block.ops) and isinstance(last := block.ops[-1], Tell) and last.kind == ASSERT
