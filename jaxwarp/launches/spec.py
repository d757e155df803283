"""A launch: the static parameters of the primitive, compared by content."""

from __future__ import annotations

import dataclasses
import functools
import threading
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jaxwarp.analysis.effects import analyze
from jaxwarp.analysis.shardable import Factors, Split, Whole, find_splits
from jaxwarp.codegen.abi import NO_CUDA_OPTIONS, CudaOptions
from jaxwarp.deep import with_deep_stack
from jaxwarp.errors import InternalError
from jaxwarp.ir.kernel import Kernel
from jaxwarp.passes.checks.checked import Debug
from jaxwarp.passes.launches.tells import prints
from jaxwarp.passes.pipeline import simplified
from jaxwarp.unlocked import cached_property
from jaxwarp.vjp.derived import Slot

Dim = Any
"""An extent: an int, or a symbolic dimension of `jax.export`."""

INPUT, IN_OUT, OUTPUT = "input", "in-out", "output"

_kernels: weakref.WeakValueDictionary[tuple[str, str], Kernel] = weakref.WeakValueDictionary()
_kernels_lock = threading.Lock()


@with_deep_stack
def intern_kernel(kernel: Kernel) -> Kernel:
    """The one kernel object with this content, so that launches of equal kernels compare equal.

    Kernels of other lines are others: what is said of one must name its own.
    """
    with _kernels_lock:
        return _kernels.setdefault(identity_of(kernel), kernel)


def identity_of(kernel: Kernel) -> tuple[str, str]:
    """Return digests of what a kernel does, and of where: kernels that agree in them are one."""
    return kernel.digest, kernel.digest_of_places


@dataclass(frozen=True)
class TangentOf:
    """A launch that pushes tangents through another one; `slots` says what each of its parameters is."""

    launch: LaunchSpec
    slots: tuple[Slot, ...]


@dataclass(frozen=True)
class TransposeOf:
    """A launch that is the transpose of another one in its `linear` operands, given with their shapes."""

    launch: LaunchSpec
    slots: tuple[Slot, ...]
    linear: tuple[tuple[int, tuple[Dim, ...]], ...]


@dataclass(frozen=True)
class BatchOf:
    """A launch that does the work of `size` others. The batch axes are those of operands (or None) and results."""

    launch: LaunchSpec
    dims: tuple[int | None, ...]
    result_dims: tuple[int, ...]
    size: int


@dataclass(frozen=True)
class LaunchSpec:
    """A launch, apart from its operands.

    Operands are the input and in-out parameters, results the in-out and output parameters, both in parameter order.

    Attributes:
        kernel: from `intern_kernel`; its grid rank is the length of `grid`.
        grid: launch extents.
        roles: INPUT, IN_OUT or OUTPUT for each parameter.
        results: shapes of the results.
        vmap_method: how `vmap` maps the launch; None: as one launch with a grid axis more.
        cuda: what decides about its CUDA code besides the kernel.
        fma: whether products and sums may be contracted.
        has_side_effect: whether the launch is kept when its results are not used.
        origin: for derivatives, what the launch was made from; see `second_order.py`.
        factors: of each axis of each parameter, where XLA may partition the launch (`sharding_rule`); None: it may not.
        debug: in debug mode, what is checked.
        in_order: whether of threads that store to one element the last one wins. Launches that we make need not ask:
            theirs do not meet, or it does not matter.
        unrepeatable: whether it records what depends on the order of threads: launched again, it may find another
            order than the rest of the program has, so `jax.checkpoint` is not to do that.
        numbers: parameters that a traced program gives a constant, and these, where they decide to which elements the
            launch adds (`bind_launch`). Code for them has fewer atomics.
    """

    kernel: Kernel
    grid: tuple[Dim, ...]
    roles: tuple[str, ...]
    results: tuple[tuple[Dim, ...], ...]
    vmap_method: str | None = None
    cuda: CudaOptions = NO_CUDA_OPTIONS
    fma: bool = True
    has_side_effect: bool = False
    origin: TangentOf | TransposeOf | BatchOf | None = None
    factors: Factors | None = None
    debug: Debug | None = None
    in_order: bool = True
    unrepeatable: bool = False
    numbers: tuple[tuple[int, int], ...] = ()

    def __post_init__(self) -> None:
        if len(self.grid) != self.kernel.grid_rank or len(self.roles) != len(self.kernel.params):
            raise InternalError(f"a launch of {self.name} with grid {self.grid} and roles {self.roles}")

    @property
    def name(self) -> str:
        return self.kernel.name

    @property
    def is_effect(self) -> bool:
        """Tell whether JAX is told that the launch does more than give its results."""
        return self.has_side_effect or (self.debug is not None and self.debug.is_kept and bool(self.debug.checks))

    @cached_property
    def is_wide(self) -> bool:
        """Tell whether a parameter has a 64-bit type: its rules then run where JAX has such types."""
        return any(p.dtype.bits == 64 for p in self.kernel.params)

    @cached_property
    def operand_params(self) -> tuple[int, ...]:
        """The parameters that are operands."""
        return tuple(i for i, role in enumerate(self.roles) if role != OUTPUT)

    @cached_property
    def result_params(self) -> tuple[int, ...]:
        """The parameters that are results."""
        return tuple(i for i, role in enumerate(self.roles) if role != INPUT)

    @cached_property
    def buffers(self) -> tuple[int, ...]:
        """The buffer of each parameter: operands are numbered first, then results."""
        operands = len(self.operand_params)
        return tuple(
            self.operand_params.index(i) if role == INPUT else operands + self.result_params.index(i)
            for i, role in enumerate(self.roles)
        )

    @cached_property
    def aliases(self) -> dict[int, int]:
        """Operand number to result number of the in-out parameters."""
        in_outs = [i for i, role in enumerate(self.roles) if role == IN_OUT]
        return {self.operand_params.index(i): self.result_params.index(i) for i in in_outs}

    @cached_property
    def splits(self) -> dict[str, Split | Whole]:
        """The outcome for each factor when operands are sharded along it: the launch is cut, or stays whole."""
        found = dict(_splits(self.kernel, self.factors or ()))
        results = dict(zip(self.result_params, self.results, strict=True))
        for name, outcome in found.items():
            if not isinstance(outcome, Split):
                continue
            threads = self.grid[outcome.axis]
            # Of operands the extents are not known here: see partition.choose_axes.
            axes = [(i, axis) for i in results for axis, f in enumerate((self.factors or ())[i]) if f == name]
            extents = [results[i][axis] for i, axis in axes]
            if any(n is not threads and n != threads for n in extents):
                found[name] = Whole(f"it has {extents[0]} elements, and the launch {threads} threads")
        return found

    def __repr__(self) -> str:
        """Return the text for a printed jaxpr."""
        return f"{self.name}[{', '.join(map(str, self.grid))}]"

    def replace(self, **changes: Any) -> LaunchSpec:
        """Return the launch with changes. Numbers are those of operands: they are found again when it is bound."""
        return dataclasses.replace(self, **{"numbers": (), **changes})


@functools.lru_cache(maxsize=1024)
def _splits(kernel: Kernel, factors: Factors) -> tuple[tuple[str, Split | Whole], ...]:
    return tuple(find_splits(simplified(kernel), factors).items()) if factors else ()


def fit_grid(kernel: Kernel, extents: Sequence[Dim]) -> tuple[Kernel, tuple[Dim, ...]]:
    """Matches a kernel and launch extents.

    The thread index has the leading axes of the launch. Fewer extents than indices: the rest are 1. More: every thread
    of the leading axes runs once for each point of the others (as in Warp), unless running it once does the same.
    """
    rank = max(kernel.grid_rank, 1)
    grid = (*extents, *[1] * (rank - len(extents)))
    if len(grid) > rank and all(is_static(n) and n > 0 for n in grid[rank:]) and is_idempotent(kernel):
        grid = grid[:rank]
    if len(grid) > kernel.grid_rank:
        kernel = dataclasses.replace(kernel, grid_rank=len(grid))
    return kernel, grid


def is_idempotent(kernel: Kernel) -> bool:
    """Does a thread that runs several times leave what it leaves the first time? It reads nothing that it writes."""
    if prints(kernel):
        return False
    effects = analyze(kernel)
    return not any(effects[p].accumulates or (effects[p].writes and effects[p].reads) for p in kernel.params)


def is_static(dim: Dim) -> bool:
    """Return whether an extent is a number."""
    return isinstance(dim, (int, np.integer))
