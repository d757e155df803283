"""Places of the arrays of a thread's own, when a block of threads works for it.

* A copy with each thread: what only code stores to that all threads run alike, and all load alike.
* Registers: what is only met element by element, always by the thread that has the element.
* Shared memory: the rest.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from jaxwarp.analysis.loops.nests import Nest, Nests
from jaxwarp.codegen.cuda.blocks.matrices import Layout, MatrixProduct, layout_of, matrix_product
from jaxwarp.codegen.cuda.blocks.products import product_in
from jaxwarp.codegen.cuda.blocks.spread import Fragments, Mapping, in_fragments, patched
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Load, Op, Param, Store, Value, walk
from jaxwarp.ir.rows import count_uses

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
        padded: those of them whose rows have one more element: threads of a warp that are at one column of many rows
            meet other banks.
        spans: what the nests go over.
        mappings: of shapes, which thread has which elements.
        in_turn: the mappings of nests that meet no array in registers: neighbours have neighbouring elements.
        matrices: what the nests multiply that are products of matrices in shared memory.
        layouts: of the arrays in shared memory that are matrices of products.
        told: the operations that one thread does for all: what they find may be another thing for each.
    """

    threads: int
    registers: dict[Param, tuple[tuple[int, ...], int]] = field(default_factory=dict)
    shared: list[Param] = field(default_factory=list)
    padded: set[Param] = field(default_factory=set[Param])
    spans: dict[Nest, Span] = field(default_factory=dict)
    mappings: dict[tuple[int, ...], Mapping] = field(default_factory=dict)
    in_turn: dict[Nest, Mapping] = field(default_factory=dict)
    matrices: dict[Nest, MatrixProduct] = field(default_factory=dict)
    layouts: dict[Param, Layout] = field(default_factory=dict)
    told: set[Op] = field(default_factory=set[Op])

    @property
    def shared_bytes(self) -> int:
        return sum(map(self.bytes_of, self.shared))

    def bytes_of(self, param: Param) -> int:
        """Return the bytes that an array takes in shared memory, of which others begin at multiples of 16."""
        return -(-self.allocated(param) * param.dtype.bytes // 16) * 16

    def allocated(self, param: Param) -> int:
        """Return the elements that an array takes in shared memory, with what is between its rows."""
        layout = self.layouts.get(param)
        if layout is not None:
            return layout.elements * layout.stages
        count = elements(param)
        return count + count // (param.shape[-1] or 1) if param in self.padded else count

    def mapping(self, nest: Nest) -> Mapping:
        return self.in_turn.get(nest) or self.mappings[self.spans[nest].shape]


Access = Load | Store | Atomic


def elements(param: Param) -> int:
    return math.prod(n or 0 for n in param.shape)


def place_arrays(kernel: Kernel, nests: Nests, threads: int) -> Places | None:
    """Return where the arrays of a kernel lie; None: there are atomics on one of them that threads would share."""
    accesses: dict[Param, list[Access]] = {p: [] for p in kernel.locals}
    for op in walk(kernel.body):
        if isinstance(op, (Load, Store, Atomic)) and op.param in accesses:
            accesses[op.param].append(op)
    places = Places(threads, told=_told(kernel, nests))
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
    closed = [nest for nest in nests.found.values() if not nest.is_open]
    for nest in closed:
        own = Span(tuple(map(len, nest.ranges)), tuple(range(len(nest.ranges))), is_own=True)
        places.spans.setdefault(nest, own)
    _multiply(places, nests)
    _limit(places)
    places.padded.update(p for p in places.shared if _goes_down(p, accesses[p], places, nests))
    for nest, span in places.spans.items():
        ops = list(walk(nest.loops[0].body))
        meets = any(isinstance(op, (Load, Store)) and op.param in places.registers for op in ops)
        if not meets and not _is_product(nest, places, nests):
            places.in_turn[nest] = Mapping(span.shape, threads, in_rows=nest.is_scan)
    return places


def _told(kernel: Kernel, nests: Nests) -> set[Op]:
    """Return the loads of what other blocks may change, and the atomics whose results are read, outside of nests.

    Threads that saw different values could part ways.
    """
    ops, used = list(walk(kernel.body)), count_uses(kernel)
    stored = {op.param for op in ops if isinstance(op, (Store, Atomic)) and op.param in kernel.params}
    outside = [op for op in ops if isinstance(op, (Load, Atomic)) and op.param in stored and op not in nests.of]
    return {op for op in outside if isinstance(op, Load) or used[op.result]}


def _multiply(places: Places, nests: Nests) -> None:
    """Choose the mappings of shapes: those of the results of products have theirs."""
    products: dict[tuple[int, ...], list[MatrixProduct | None]] = {}
    for nest in places.spans:
        if _is_product(nest, places, nests):
            found = matrix_product(nest, nests)
            shape = places.spans[nest].shape
            if found is None or any(x.param not in places.shared for x in found.operands) or found.shape[:2] != shape:
                found = None
            else:
                places.matrices[nest] = found
            products.setdefault(shape, []).append(found)
    for span in places.spans.values():
        shape = span.shape
        places.mappings[shape] = _mapping(shape, places.threads, products.get(shape, []))
    for nest, found in list(places.matrices.items()):
        if found.dtype.is_half and not isinstance(places.mappings[places.spans[nest].shape], Fragments):
            del places.matrices[nest]
    for found in places.matrices.values():
        for operand in found.operands:
            places.layouts[operand.param] = layout_of(operand.param, places.matrices.values())


def _mapping(shape: tuple[int, ...], threads: int, products: list[MatrixProduct | None]) -> Mapping:
    if not products:
        return Mapping(shape, threads)
    kinds = {found.tall if found else 0 for found in products}
    if len(kinds) == 1 and 0 not in kinds:
        return in_fragments(shape, threads, kinds.pop())
    # Neighbours that read rows of what is turned read neighbouring ones, from different banks.
    is_turned = all(found is not None and found.right.is_turned for found in products)
    return patched(shape, threads, int(is_turned))


def _goes_down(param: Param, found: list[Access], places: Places, nests: Nests) -> bool:
    """Return whether neighbouring threads are in neighbouring rows of an array, in one column, and share banks."""
    if param.rank < 2 or (param.shape[-1] or 1) % 2 or param.dtype.bytes < 4:
        return False
    nested = [(op, nests.of[op]) for op in found if op in nests.of]
    if any(product_in(nest, nests) is not None for _, nest in nested):
        return False
    for op, nest in nested:
        last = len(nest.loops) - 1 if nest.is_open else places.spans[nest].box[-1]
        if last >= 0:
            depends = [nests.term(i, [nest.indices[last]], nests.varying) is not None for i in op.indices]
            if any(depends[:-1]) and not depends[-1]:
                return True
    return False


def _is_product(nest: Nest, places: Places, nests: Nests) -> bool:
    span = places.spans[nest]
    return len(span.shape) == 2 and span.box == (0, 1) and product_in(nest, nests) is not None


def _is_copied(param: Param, found: list[Access], nests: Nests) -> bool:
    if elements(param) > _MOST_COPIED or any(op in nests.of for op in found if not isinstance(op, Load)):
        return False
    return not any(nests.of_value(i, nests.of[op]) for op in found if op in nests.of for i in op.indices)


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
        if nest.is_open or nest.is_scan:
            return None
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
