"""The passes of both targets, in order. Compiling runs these lists, and the command line prints them.

Passes are named here and nowhere else (`tests/passes/test_pipeline.py`). Besides the kernel they use a `PassContext`.
Compiling runs a list in parts, since other code asks in between: JAX whether a prepared kernel writes all of an output,
the planner of CPU code what a body for several rows would cost.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, NamedTuple

from jaxwarp.analysis.collisions import succession_of
from jaxwarp.analysis.succession import Succession
from jaxwarp.deep import with_deep_stack
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Param, Value
from jaxwarp.passes.alone import alone
from jaxwarp.passes.coarsen import coarsen
from jaxwarp.passes.contract_fma import contract_fma
from jaxwarp.passes.erase_rules import erase_rules
from jaxwarp.passes.extents import with_extents
from jaxwarp.passes.filled import are_elements, filled
from jaxwarp.passes.flatten import Flat, flatten
from jaxwarp.passes.gathered import ON_CPUS, ON_GPUS, Price, gathered
from jaxwarp.passes.hold_wide import hold_wide
from jaxwarp.passes.in_order import in_order, selected_in_order
from jaxwarp.passes.launches.tells import without_failures, without_tests
from jaxwarp.passes.simplify import simplify
from jaxwarp.passes.unrolled import unrolled
from jaxwarp.passes.widen_half import widen_half

_CACHE = 512
_NUMBERS = frozenset((int,))


@dataclass(frozen=True)
class PassContext:
    """The facts that passes may use besides the kernel.

    Attributes:
        fma: whether products and sums are contracted.
        beside: in debug mode, to which parameters checks store: tests stay then. None: outside of it.
        grid: extents of the launch. One may be None, which is not known, or symbolic; None: nothing is known.
        shapes: those of the parameters, likewise.
        zeros: positions of the parameters that hold zeros on entry.
        numbers: parameters without axes whose values are known, and these.
        price: that of additions by atomics.
        order: how threads follow each other; None: in any order.
        flat: on the CPU, the launch over fewer axes, once it is made.
        rows: how many rows of threads a thread of a coarse body does.
        differing: the values that differ between rows.
    """

    fma: bool = True
    beside: Collection[Param] | None = None
    grid: tuple[Any, ...] | None = None
    shapes: tuple[tuple[Any, ...], ...] = ()
    zeros: frozenset[int] = frozenset()
    numbers: tuple[tuple[int, int], ...] = ()
    price: Price = ON_GPUS
    order: Succession | None = None
    flat: Flat | None = None
    rows: int = 1
    differing: frozenset[Value] = frozenset()

    @property
    def is_known(self) -> bool:
        """True if the extents of the launch are numbers."""
        return self.grid is not None and _are_numbers(self.grid)

    @property
    def is_all_known(self) -> bool:
        """True if those of the parameters are numbers, too."""
        return self.is_known and _are_numbers(chain(*self.shapes))

    @property
    def is_alone(self) -> bool:
        """True if the launch is known to have one thread."""
        return self.grid is not None and self.is_known and set(self.grid) == {1}

    @property
    def threads(self) -> tuple[Any, ...]:
        """The extents of a launch of which some are known."""
        assert self.grid is not None
        return self.grid


Step = Callable[[Kernel, PassContext], "tuple[Kernel, PassContext]"]
When = Callable[[PassContext], bool]


class Pass(NamedTuple):
    """A pass in a list: its function, how that is called in a context, and in which contexts."""

    function: Callable[..., Any]
    run: Step
    when: When


def _plain(function: Callable[[Kernel], Kernel]) -> Pass:
    """A pass that needs the kernel alone."""
    return Pass(function, lambda kernel, context: (function(kernel), context), lambda _: True)


def _in_context(function: Callable[..., Any], when: When = lambda _: True) -> Callable[[Step], Pass]:
    """A pass that needs more, or does not always run."""
    return lambda run: Pass(function, run, when)


@_in_context(without_tests, lambda context: context.beside is None)
def _without_tests(kernel: Kernel, context: PassContext) -> tuple[Kernel, PassContext]:
    return without_tests(kernel), context


@_in_context(contract_fma)
def _contract_fma(kernel: Kernel, context: PassContext) -> tuple[Kernel, PassContext]:
    return contract_fma(kernel, fma=context.fma, beside=context.beside or ()), context


@_in_context(with_extents, lambda context: context.grid is not None)
def _with_extents(kernel: Kernel, context: PassContext) -> tuple[Kernel, PassContext]:
    kernel = with_extents(kernel, context.shapes)
    return kernel, replace(context, shapes=tuple(p.shape for p in kernel.params))


@_in_context(gathered, lambda context: context.is_all_known)
def _gathered(kernel: Kernel, context: PassContext) -> tuple[Kernel, PassContext]:
    made, grid = gathered(kernel, context.threads, context.zeros, context.shapes, dict(context.numbers), context.price)
    if made is kernel:
        return kernel, context
    return made, replace(context, grid=grid, shapes=tuple(p.shape for p in made.params))


@_in_context(filled, lambda context: context.grid is not None and None not in context.grid)
def _filled(kernel: Kernel, context: PassContext) -> tuple[Kernel, PassContext]:
    own = tuple(n for n in sorted(context.zeros) if are_elements(context.threads, context.shapes[n]))
    return _filled_once(kernel, own), context


@functools.lru_cache(maxsize=_CACHE)
def _filled_once(kernel: Kernel, own: tuple[int, ...]) -> Kernel:
    """One kernel for launches of all extents: code is kept by kernel."""
    return filled(kernel, own)


@_in_context(unrolled, lambda context: context.is_known)
def _unrolled(kernel: Kernel, context: PassContext) -> tuple[Kernel, PassContext]:
    return unrolled(kernel), context


def _is_mergeable(context: PassContext) -> bool:
    """Return whether there are axes to merge. Threads that follow each other do so along rows."""
    return context.order is None and len(context.threads) > 1 and context.is_all_known


@_in_context(flatten, _is_mergeable)
def _flatten(kernel: Kernel, context: PassContext) -> tuple[Kernel, PassContext]:
    flat = flatten(kernel, context.threads, context.shapes)
    return flat.kernel, replace(context, grid=flat.grid, shapes=tuple(flat.shapes(context.shapes)), flat=flat)


@_in_context(alone, lambda context: context.is_alone)
def _alone(kernel: Kernel, context: PassContext) -> tuple[Kernel, PassContext]:
    return alone(kernel), context


def _are_numbers(extents: Iterable[Any]) -> bool:
    return _NUMBERS.issuperset(map(type, extents))


@_in_context(coarsen)
def _coarsen(kernel: Kernel, context: PassContext) -> tuple[Kernel, PassContext]:
    return coarsen(kernel, context.rows, context.differing), context


FIX_ROUNDING: tuple[Pass, ...] = (
    _without_tests,
    _plain(simplify),
    _contract_fma,  # what everything rounds to is decided
)
DERIVE: tuple[Pass, ...] = (*FIX_ROUNDING, _plain(in_order))
PREPARE: tuple[Pass, ...] = (
    _plain(without_failures),  # assertions that nobody reads
    *FIX_ROUNDING,
    _plain(selected_in_order),  # operands that a derivative has to find again
    _plain(erase_rules),  # those written by hand have served
    _plain(widen_half),
    _plain(simplify),
)
# What follows knows the launch; a kernel for all extents stays as it is.
GATHER: tuple[Pass, ...] = (_gathered,)  # code for one launch alone, where there is something to gather
CLEAR: tuple[Pass, ...] = (_filled,)
MERGE: tuple[Pass, ...] = (_flatten, _alone)  # where rows are short, and where there is one thread
HOLD: tuple[Pass, ...] = (_plain(hold_wide), _plain(simplify))  # where threads of tiles run one at a time
COARSEN: tuple[Pass, ...] = (_coarsen,)  # for each number of rows that the planner considers
KNOW: tuple[Pass, ...] = (*GATHER, _with_extents, *CLEAR, _unrolled)

CPU: tuple[Pass, ...] = (*PREPARE, *GATHER, *CLEAR, *MERGE, *HOLD, *COARSEN)
CUDA: tuple[Pass, ...] = (*PREPARE, *KNOW)


class Ran(NamedTuple):
    """A pass that ran, with the kernel before and after it."""

    function: Callable[..., Any]
    before: Kernel
    after: Kernel


_watched: ContextVar[list[Ran] | None] = ContextVar("jaxwarp_passes", default=None)


@contextmanager
def watching() -> Iterator[list[Ran]]:
    """The passes that run in the block, in a list that gets longer. What is kept from before does not run."""
    ran: list[Ran] = []
    token = _watched.set(ran)
    try:
        yield ran
    finally:
        _watched.reset(token)


def is_watched() -> bool:
    """Return whether somebody wants to see the passes that run."""
    return _watched.get() is not None


@with_deep_stack
def run(passes: Sequence[Pass], kernel: Kernel, context: PassContext) -> tuple[Kernel, PassContext]:
    """The kernel after passes, and what they leave of a launch: `gathered` and `flatten` change its extents."""
    ran = _watched.get()
    for one in passes:
        if not one.when(context):
            continue
        before = kernel
        kernel, context = one.run(kernel, context)
        if ran is not None:
            ran.append(Ran(one.function, before, kernel))
    return kernel, context


def fix_rounding(kernel: Kernel, *, fma: bool = True, beside: Collection[Param] | None = None) -> Kernel:
    """The kernel as derivatives are made of it: simplified, (with `fma`) contracted; so they round as it does.

    Args:
        kernel: the kernel.
        fma: whether products and sums are contracted.
        beside: in debug mode, to which parameters checks store: tests stay, and round nothing differently.
    """
    return _fixed(kernel, fma) if beside is None else run(DERIVE, kernel, PassContext(fma, beside))[0]


@functools.lru_cache(maxsize=_CACHE)
def _fixed(kernel: Kernel, fma: bool) -> Kernel:
    """Once for a kernel: a gradient asks for it as the tangent, as the adjoint, and to find threads that meet."""
    return run(DERIVE, kernel, PassContext(fma))[0]


def prepare(kernel: Kernel, *, fma: bool = True) -> Kernel:
    """The kernel as both backends compile it."""
    return run(PREPARE, kernel, PassContext(fma))[0]


@functools.lru_cache(maxsize=_CACHE)
def prepared(kernel: Kernel, fma: bool) -> Kernel:
    """`prepare`, once for a kernel."""
    return prepare(kernel, fma=fma)


class OnCpu(NamedTuple):
    """A launch as the CPU runs it.

    Attributes:
        cleared: the kernel before axes are merged.
        grid: of that.
        kernel: what is compiled.
        context: of that.
    """

    cleared: Kernel
    grid: tuple[Any, ...]
    kernel: Kernel
    context: PassContext


def on_cpu(
    kernel: Kernel,
    grid: Sequence[Any],
    shapes: Sequence[tuple[Any, ...]],
    zeros: Collection[int],
    in_order: bool,
    numbers: tuple[tuple[int, int], ...] = (),
    is_own: bool = True,
) -> OnCpu:
    """A launch of a prepared kernel. Extents may be symbolic.

    Args:
        kernel: a prepared one.
        grid, shapes: extents of the launch and of the parameters.
        zeros: positions of the parameters that hold zeros on entry.
        in_order: whether of threads that store to one element the last one wins.
        numbers: see PassContext.
        is_own: whether the code may be for this launch alone.
    """
    context = PassContext(
        grid=tuple(grid), shapes=tuple(shapes), zeros=frozenset(zeros), numbers=numbers, price=ON_CPUS
    )
    if context.is_all_known and is_own:
        kernel, context = run(GATHER, kernel, context)
    cleared, context = run(CLEAR, kernel, context)
    grid, shapes = context.threads, context.shapes
    if in_order:
        known = [tuple(n if type(n) is int else None for n in shape) for shape in (grid, *shapes)]
        if _may_meet(cleared, tuple(n if n == 1 else None for n in known[0])):
            order = succession_of(cleared, known[0], dict(zip(cleared.params, known[1:], strict=True)))
            context = replace(context, order=order)
    return OnCpu(cleared, grid, *run(MERGE, cleared, context))


@functools.lru_cache(maxsize=_CACHE)
def _may_meet(kernel: Kernel, grid: tuple[int | None, ...]) -> bool:
    """Return whether extents have to be known to see that threads may run in any order: once for all of them."""
    return succession_of(kernel, grid) is not None


def on_gpu(
    kernel: Kernel,
    grid: tuple[int | None, ...] | None,
    shapes: tuple[tuple[int | None, ...], ...] = (),
    zeros: frozenset[int] = frozenset(),
    numbers: tuple[tuple[int, int], ...] = (),
) -> tuple[Kernel, PassContext]:
    """A launch of a prepared kernel on GPUs; `grid` None: one of any extents."""
    return run(KNOW, kernel, PassContext(grid=grid, shapes=shapes, zeros=zeros, numbers=numbers))


def coarse(kernel: Kernel, rows: int, differing: frozenset[Value]) -> Kernel:
    """The kernel whose threads do what those of several rows do; `differing`: see Context."""
    return run(COARSEN, kernel, PassContext(rows=rows, differing=differing))[0]


def held_wide(kernel: Kernel) -> Kernel:
    """The kernel with its own arrays of half precision in float32."""
    return run(HOLD, kernel, PassContext())[0]


def simplified(kernel: Kernel) -> Kernel:
    """The kernel as analyses of a launch look at it; nothing is decided about rounding."""
    return run(FIX_ROUNDING[1:2], kernel, PassContext())[0]
