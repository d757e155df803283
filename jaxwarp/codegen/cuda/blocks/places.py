"""Places of the arrays of a thread's own, when a block of threads works for it.

* A copy with each thread: what only code stores to that all threads run alike.
* Registers: what is only met element by element, always by the thread that has the element.
* Shared memory: the rest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from jaxwarp.analysis.nests import Nest, Nests
from jaxwarp.codegen.cuda.blocks.products import product_in
from jaxwarp.codegen.cuda.blocks.spread import Mapping, patched
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Load, Param, Store, Value, walk

_MOST_COPIED = 256  # elements of an array that each thread has a copy of, in local memory
_MOST_EACH = 64  # registers for one tile

Box = tuple[int, ...]
"""For each axis of a shape the number of the loop that goes along it, or -1 - i, where it is always at i."""


@dataclass(eq=False)
class Span:
    """The shape that a nest goes over, all or a part of it.

    Attributes:
        is_own: it is that of the nest's ranges; else the indices of elements are those of the loops.
    """

    shape: tuple[int, ...]
    box: Box
    is_own: bool = False


@dataclass(eq=False)
class Places:
    """The places of arrays.

    Attributes:
        threads: of a block.
        registers: the shape of the elements of those that lie in registers, and how many numbers each element is.
        shared: those in shared memory.
        spans: what the nests go over.
        mappings: of shapes, which thread has which elements.
    """

    threads: int
    registers: dict[Param, tuple[tuple[int, ...], int]] = field(default_factory=dict)
    shared: list[Param] = field(default_factory=list)
    spans: dict[Nest, Span] = field(default_factory=dict)
    mappings: dict[tuple[int, ...], Mapping] = field(default_factory=dict)

    @property
    def shared_bytes(self) -> int:
        return sum(-(-elements(p) * p.dtype.bytes // 16) * 16 for p in self.shared)

    def mapping(self, nest: Nest) -> Mapping:
        return self.mappings[self.spans[nest].shape]


Access = Load | Store | Atomic


def elements(param: Param) -> int:
    return math.prod(n or 0 for n in param.shape)


def place_arrays(kernel: Kernel, nests: Nests, threads: int) -> Places | None:
    """Return where the arrays of a kernel lie; None: there are atomics on one of them that threads would share."""
    accesses: dict[Param, list[Access]] = {p: [] for p in kernel.locals}
    for op in walk(kernel.body):
        if isinstance(op, (Load, Store, Atomic)) and op.param in accesses:
            accesses[op.param].append(op)
    places = Places(threads)
    patterns: dict[Param, dict[Nest, Span]] = {}
    for param, found in accesses.items():
        if _is_copied(param, found, nests):
            continue
        if any(isinstance(op, Atomic) for op in found):
            return None
        pattern = _pattern(param, found, nests)
        if pattern is None:
            places.shared.append(param)
        else:
            patterns[param] = pattern
    _agree(places, patterns)
    for nest in nests.found.values():
        own = Span(tuple(map(len, nest.ranges)), tuple(range(len(nest.ranges))), is_own=True)
        places.spans.setdefault(nest, own)
    products = {places.spans[nest].shape for nest in nests.found.values() if _is_product(nest, places, nests)}
    for span in places.spans.values():
        shape = span.shape
        places.mappings[shape] = patched(shape, threads) if shape in products else Mapping(shape, threads)
    _limit(places)
    return places


def _is_product(nest: Nest, places: Places, nests: Nests) -> bool:
    span = places.spans[nest]
    return len(span.shape) == 2 and span.box == (0, 1) and product_in(nest, nests) is not None


def _is_copied(param: Param, found: list[Access], nests: Nests) -> bool:
    stores = [op for op in found if not isinstance(op, Load)]
    return elements(param) <= _MOST_COPIED and all(op not in nests.of for op in stores)


def _pattern(param: Param, found: list[Access], nests: Nests) -> dict[Nest, Span] | None:
    """Return what the nests that meet an array would go over, if each met the element of its own indices alone."""
    count = _components(param, found, nests)
    extents = [n or 0 for n in param.shape[: param.rank - count]]
    axes = [axis for axis, n in enumerate(extents) if n > 1]
    if not axes:
        return None
    pattern: dict[Nest, Span] = {}
    for op in found:
        nest = nests.of.get(op)
        if nest is None:
            known = all(nests.number(i) is not None for i in op.indices)
            if not known or not isinstance(op, Load):
                return None
            continue
        box = tuple(_along(op.indices[axis], nest, nests) for axis in axes)
        loops = [at for at in box if at is not None and at >= 0]
        if None in box or sorted(loops) != list(range(len(nest.loops))):
            return None
        span = Span(tuple(extents[axis] for axis in axes), tuple(at for at in box if at is not None))
        other = pattern.setdefault(nest, span)
        if other.box != span.box:
            return None
    return pattern


def _along(index: Value, nest: Nest, nests: Nests) -> int | None:
    if index in nest.indices:
        number = nest.indices.index(index)
        return number if nest.ranges[number].step == 1 else None
    number = nests.number(index)
    return -1 - number if number is not None else None


def _components(param: Param, found: list[Access], nests: Nests) -> int:
    """Return how many of the last axes are of vectors and matrices: short, and always at known places."""
    count = 0
    for axis in range(param.rank - 1, 0, -1):
        extent = param.shape[axis] or 0
        if extent == 1 or extent > 16 or any(nests.number(op.indices[axis]) is None for op in found):
            break
        if {nests.number(op.indices[axis]) for op in found} != set(range(extent)):
            break
        count += 1
    return count


def _agree(places: Places, patterns: dict[Param, dict[Nest, Span]]) -> None:
    """Choose what each nest goes over; arrays for which that is something else are in shared memory."""
    for param, pattern in patterns.items():
        fits = all(
            (known := places.spans.get(nest)) is None or (known.shape, known.box) == (new.shape, new.box)
            for nest, new in pattern.items()
        )
        if not fits:
            places.shared.append(param)
            continue
        for nest, new in pattern.items():
            places.spans.setdefault(nest, new)
        shape = next(iter(pattern.values())).shape if pattern else (elements(param),)
        places.registers[param] = (shape, elements(param) // math.prod(shape))


def _limit(places: Places) -> None:
    for param, (shape, each) in list(places.registers.items()):
        mapping = places.mappings.get(shape)
        if mapping is None or mapping.count * each * max(1, param.dtype.bytes // 4) > _MOST_EACH:
            del places.registers[param]
            places.shared.append(param)


def copied_arrays(kernel: Kernel, places: Places) -> list[Param]:
    return [p for p in kernel.locals if p not in places.registers and p not in places.shared]
