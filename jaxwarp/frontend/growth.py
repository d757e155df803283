"""The growth of a kernel by functions and unrolled loops, which are written out, and its limit.

A function that calls the one below it twice doubles the kernel; twenty such functions make it a million times larger.
Code that is written out is counted as it is lowered. Once in a while the rest is estimated from the functions that were
lowered already, so that a kernel that would be far too large is refused before most of it is made. Code that the user
wrote has no bound.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from jaxwarp.errors import KernelTypeError
from jaxwarp.frontend.text.constants import attribute_chain
from jaxwarp.frontend.text.functions import Func, Overload
from jaxwarp.frontend.text.source import Source
from jaxwarp.ir.builder import Builder
from jaxwarp.ir.nodes import Op

# Operations that are written out. 200,000 take half a minute to lower, and their derivatives longer; with thousands of
# calls of elementary functions, LLVM's time grows faster than they do. Newton's contacts of meshes and convex shapes
# make 202,000, of which the kernel keeps 160,000.
MOST = 300_000
# After so many the whole is estimated, then whenever they have doubled.
_FIRST_ESTIMATE = 2000
# Estimates may be too large by this much: a function's size depends on what is constant in a call.
_MARGIN = 1.25


class CountingBuilder(Builder):
    """Counts the operations that are made. Those of a trial, which are thrown away, take as long."""

    count = 0

    def append(self, op: Op) -> None:
        """Append an operation, as every builder does."""
        self.count += 1
        super().append(op)


class Growth:
    """The operations that one kernel has written out so far.

    Args:
        builder: what makes the operations; one that does not count is for threads that run step by step.
    """

    def __init__(self, builder: Builder):
        self._builder = builder if isinstance(builder, CountingBuilder) else CountingBuilder()
        self._sizes: dict[Overload, int] = {}  # the least that a call of each made
        self._made = 0
        self._next_estimate = _FIRST_ESTIMATE
        self._kernel: Source | None = None  # of the call or loop that is being written out

    @contextmanager
    def writing_out(self, source: Source, overload: Overload | None = None) -> Iterator[None]:
        """Writes out a function, or a copy of a loop's body, that the text of `source` asks for.

        Raises:
            KernelTypeError: that makes the kernel too large.
        """
        before, is_first = self._builder.count, self._kernel is None
        if is_first:
            self._kernel, self._start = source, before - self._made
        self._require_small(source)
        try:
            yield
            if overload is not None:
                size = self._builder.count - before
                self._sizes[overload] = min(size, self._sizes.get(overload, size))
        finally:
            if is_first:
                self._kernel, self._made = None, self._builder.count - self._start

    def _require_small(self, source: Source) -> None:
        assert self._kernel is not None
        made = self._builder.count - self._start
        if made >= self._next_estimate:
            self._next_estimate = 2 * made
            made = max(made, int(_Estimate(self._sizes).of(self._kernel) / _MARGIN))
        if made > MOST:
            raise KernelTypeError(
                f"{self._kernel.name} is too large: calls of functions and iterations of unrolled loops are written "
                f"out, which makes {made:,} operations or more, here in {source.name}; {MOST:,} are the most",
                hint="call each function once where several calls can share its value, make a loop over range(n) of "
                "the calls, with an n that is passed, or split the kernel into several launches",
            )


class _Estimate:
    """The least that kernels and functions write out, if calls make what the calls before them have made."""

    def __init__(self, sizes: dict[Overload, int]):
        self._sizes = sizes
        self._found: dict[Source, int] = {}

    def of(self, source: Source) -> int:
        """Operations of the calls that are lowered whatever is known of conditions."""
        if source not in self._found:
            self._found[source] = 0  # while it is being found: a function that calls itself has its own error
            self._found[source] = sum(self._of_call(source, c) for c in _sure_calls(source.tree.body))
        return self._found[source]

    def _of_call(self, source: Source, call: ast.Call) -> int:
        callee = attribute_chain(source, call.func)
        if not isinstance(callee, Func):
            return 0
        return min(self._sizes[o] if o in self._sizes else self.of(o.source) for o in callee.overloads)


def _sure_calls(statements: Sequence[ast.stmt]) -> Iterator[ast.Call]:
    """The calls in statements that every thread comes by, up to where one may return."""
    for statement in statements:
        match statement:
            case ast.If(test=first) | ast.While(test=first) | ast.For(iter=first):
                yield from _calls_in(first)
                if any(isinstance(node, ast.Return) for node in ast.walk(statement)):
                    return
            case ast.Return():
                yield from _calls_in(statement)
                return
            case _:
                yield from _calls_in(statement)


def _calls_in(node: ast.AST) -> Iterator[ast.Call]:
    """The calls that evaluating an expression makes, whatever is known of conditions in it."""
    match node:
        case ast.IfExp(test=first) | ast.BoolOp(values=[first, *_]):
            yield from _calls_in(first)
        case ast.Lambda() | ast.ListComp() | ast.GeneratorExp():
            pass
        case ast.Call() if getattr(node.func, "attr", getattr(node.func, "id", "")) == "static":
            pass
        case _:
            if isinstance(node, ast.Call):
                yield node
            for child in ast.iter_child_nodes(node):
                yield from _calls_in(child)
