"""Loads and stores: the cheapest access that touches just the elements of the lanes.

Each lane has the arrays that are a thread's own for itself; their lanes are adjacent.

| elements of consecutive lanes | load | store |
|---|---|---|
| the same | scalar | scalar, of the last lane that is on |
| adjacent | vector | vector |
| adjacent, backwards | vector, reversed | reversed, vector |
| one component of adjacent groups (all lanes on) | vectors, shuffled | all components at once: shuffled, vectors |
| anything else | gather | scatter, in lane order, see gather.py |
"""

from __future__ import annotations

from collections.abc import Sequence

from jaxwarp.codegen.cpu.access.addressing import LaneAddress, element_pointer, locate
from jaxwarp.codegen.cpu.access.gather import gather, kept_in_place, scatter, suffix
from jaxwarp.codegen.cpu.access.interleaved import interleaved, load_component
from jaxwarp.codegen.cpu.analysis.components import MAX_GROUP
from jaxwarp.codegen.cpu.llvm.lanes import Lanes
from jaxwarp.codegen.cpu.llvm.vectors import memory_type
from jaxwarp.ir.nodes import Load, Param, Store, Value
from jaxwarp.types import Scalar, bool_


def emit_load(lanes: Lanes, op: Load) -> None:
    """Binds the result of a load."""
    known = lanes.frame.scalar(op.param)
    if known is not None and lanes.strides.is_scalar(op.result):
        lanes.bind(op.result, from_memory(lanes, op.result.type, known, scalar=True))
        return
    is_scalar = lanes.strides.is_scalar(op.result)
    raw = _load_scalar(lanes, op) if is_scalar else _load_vector(lanes, op)
    lanes.bind(op.result, from_memory(lanes, op.result.type, raw, is_scalar))


def _load_scalar(lanes: Lanes, op: Load) -> str:
    place = locate(lanes, op.param, op.indices)
    pointer = element_pointer(lanes, place)
    return lanes.function.inst(f"load {memory_type(place.dtype)}, ptr {pointer}, align {place.dtype.bytes}")


def _load_vector(lanes: Lanes, op: Load) -> str:
    if any(lanes.strides.of[i] is None for i in op.indices):
        return gather(lanes, op)
    place = locate(lanes, op.param, op.indices)
    if place.is_strided(1):
        if lanes.mask is not None and lanes.frame.is_local(op.param):
            # There is memory for all lanes. In those that are off, what was never stored must not be poison.
            wide = lanes.many.wide(memory_type(place.dtype))
            return kept_in_place(lanes, wide, load_adjacent(lanes, place, element_pointer(lanes, place), None))
        return load_adjacent(lanes, place, element_pointer(lanes, place), lanes.mask)
    if place.is_strided(-1):
        first = element_pointer(lanes, place, place.constant - lanes.width + 1)
        mask = None if lanes.mask is None else reverse(lanes, "i1", lanes.mask)
        return reverse(lanes, memory_type(place.dtype), load_adjacent(lanes, place, first, mask))
    group = _group(lanes, op.param, op.indices)
    if group is not None and lanes.mask is None:
        return load_component(lanes, place, *group)
    return gather(lanes, op)


def load_adjacent(lanes: Lanes, place: LaneAddress, pointer: str, mask: str | None) -> str:
    type_ = memory_type(place.dtype)
    wide = lanes.many.wide(type_)
    align = place.dtype.bytes
    if mask is None:
        return lanes.function.inst(f"load {wide}, ptr {pointer}, align {align}")
    name = f"{wide} @llvm.masked.load.{suffix(lanes, type_)}.p0"
    mask_type = lanes.many.mask_type
    lanes.function.declare(f"declare {name}(ptr, i32, {mask_type}, {wide})")
    found = lanes.function.inst(f"call {name}(ptr {pointer}, i32 {align}, {mask_type} {mask}, {wide} zeroinitializer)")
    return kept_in_place(lanes, wide, found)


def reverse(lanes: Lanes, type_: str, vector: str) -> str:
    wide = lanes.many.wide(type_)
    order = ", ".join(f"i32 {lane}" for lane in reversed(range(lanes.width)))
    return lanes.function.inst(f"shufflevector {wide} {vector}, {wide} poison, <{lanes.width} x i32> <{order}>")


def _group(lanes: Lanes, param: Param, indices: Sequence[Value]) -> tuple[int, int] | None:
    """(components, component) if consecutive lanes access one component of consecutive small groups.

    That is a[.., i, c, ..] with i linear of stride 1 and c, ... known in axes of static extent. Then the whole group of
    a lane that is on lies in the array, whichever component the lane asks for.
    """
    if lanes.frame.is_local(param):
        return None
    strides = [lanes.strides.of[i] for i in indices]
    if sorted(s != 0 for s in strides)[-2:] != [False, True] or 1 not in strides:
        return None
    size, component = 1, 0
    for axis in range(param.rank - 1, strides.index(1), -1):
        extent, index = param.shape[axis], lanes.constant(indices[axis])
        if extent is None or index is None or not 0 <= index < extent:
            return None
        component += index * size
        size *= extent
    return (size, component) if 1 < size <= MAX_GROUP else None


def emit_store(lanes: Lanes, op: Store) -> None:
    """Emits a store of its own."""
    place = locate(lanes, op.param, op.indices)
    if place.is_uniform:
        _store_scalar(lanes, place, op.value)
        return
    value = to_memory(lanes, op.value)
    if place.is_strided(1):
        store_adjacent(lanes, place, op.param, element_pointer(lanes, place), value, lanes.mask)
    elif place.is_strided(-1):
        first = element_pointer(lanes, place, place.constant - lanes.width + 1)
        mask = None if lanes.mask is None else reverse(lanes, "i1", lanes.mask)
        store_adjacent(lanes, place, op.param, first, reverse(lanes, memory_type(place.dtype), value), mask)
    else:
        scatter(lanes, place, value)


def to_memory(lanes: Lanes, value: Value, scalar: bool = False) -> str:
    """A value as memory holds it: bools take a byte."""
    operand, builder = (lanes.scalar(value), lanes.one) if scalar else (lanes.vector(value), lanes.many)
    if value.type is not bool_:
        return operand
    return builder.inst(f"zext {builder.mask_type} {operand} to {builder.wide('i8')}")


def from_memory(lanes: Lanes, dtype: Scalar, raw: str, scalar: bool = False) -> str:
    """A value read from memory, as a register holds it."""
    builder = lanes.one if scalar else lanes.many
    return (
        builder.inst(f"icmp ne {builder.wide('i8')} {raw}, {'0' if builder.width == 1 else 'zeroinitializer'}")
        if dtype is bool_
        else raw
    )


def _store_scalar(lanes: Lanes, place: LaneAddress, value: Value) -> None:
    """All lanes store to one element: any order of threads is right, and in lane order the last one stays."""
    if lanes.strides.of[value] == 0:
        scalar = lanes.scalar(value)
    else:
        scalar = extract_lane(lanes, lanes.one.type(value.type), lanes.vector(value), last_lane(lanes))
    if value.type is bool_:
        scalar = lanes.one.inst(f"zext i1 {scalar} to i8")
    type_, pointer = memory_type(place.dtype), element_pointer(lanes, place)
    lanes.function.line(f"store {type_} {scalar}, ptr {pointer}, align {place.dtype.bytes}")


def extract_lane(lanes: Lanes, type_: str, vector: str, lane: str) -> str:
    """One element of a vector; `lane` is an i64 operand."""
    return lanes.function.inst(f"extractelement {lanes.many.wide(type_)} {vector}, i64 {lane}")


def last_lane(lanes: Lanes) -> str:
    """The number of the last lane that is on, i64."""
    if lanes.mask is None:
        return str(lanes.width - 1)
    type_ = f"i{lanes.width}"
    lanes.function.declare(f"declare {type_} @llvm.ctlz.{type_}({type_}, i1)")
    bits = lanes.bits(lanes.mask)
    zeros = lanes.function.inst(f"call {type_} @llvm.ctlz.{type_}({type_} {bits}, i1 false)")
    wide = zeros if lanes.width == 64 else lanes.function.inst(f"zext {type_} {zeros} to i64")
    return lanes.function.inst(f"sub i64 {lanes.width - 1}, {wide}")


def store_adjacent(lanes: Lanes, place: LaneAddress, param: Param, pointer: str, value: str, mask: str | None) -> None:
    type_, align = memory_type(place.dtype), place.dtype.bytes
    wide = lanes.many.wide(type_)
    if mask is None and lanes.streaming.store(param, wide, [(value, pointer)], lanes.width * align):
        return
    if mask is None:
        lanes.function.line(f"store {wide} {value}, ptr {pointer}, align {align}")
        return
    if lanes.frame.is_local(param) and not lanes.frame.machine.has_mask_registers:
        # Nobody else has the elements of lanes that are off. Masked stores of AVX2 take AMD's machines 40 operations.
        before = lanes.function.inst(f"load {wide}, ptr {pointer}, align {align}")
        after = lanes.opaque(lanes.many.select(mask, wide, value, before), wide, lanes.width * place.dtype.bytes)
        lanes.function.line(f"store {wide} {after}, ptr {pointer}, align {align}")
        return
    name = f"void @llvm.masked.store.{suffix(lanes, type_)}.p0"
    mask_type = lanes.many.mask_type
    lanes.function.declare(f"declare {name}({wide}, ptr, i32, {mask_type})")
    lanes.function.line(f"call {name}({wide} {value}, ptr {pointer}, i32 {align}, {mask_type} {mask})")


def store_group(lanes: Lanes, ops: Sequence[Store]) -> list[Store]:
    """The first of `ops` that together store all components of adjacent groups, each once, in any order.

    In the order of components; empty if there are no such. The adjoint of a kernel stores the last one first.
    """
    first = ops[0]
    if lanes.mask is not None or lanes.width == 1 or first.param.rank < 2:
        return []
    group = _group(lanes, first.param, first.indices)
    if group is None or len(ops) < group[0]:
        return []
    prefix = next(axis for axis, i in enumerate(first.indices) if lanes.strides.of[i] == 1) + 1
    found: dict[int, Store] = {}
    for op in ops[: group[0]]:
        if op.param is not first.param or op.indices[:prefix] != first.indices[:prefix]:
            return []
        place = _group(lanes, op.param, op.indices)
        if place is None or place[1] in found:
            return []
        found[place[1]] = op
    return [found[component] for component in range(group[0])]


def emit_store_group(lanes: Lanes, ops: Sequence[Store]) -> None:
    """Stores all components of adjacent groups, which are in order."""
    place = locate(lanes, ops[0].param, ops[0].indices)
    align = place.dtype.bytes
    wide, size, pieces = interleaved(lanes, place, [to_memory(lanes, op.value) for op in ops])
    if not lanes.streaming.store(ops[0].param, wide, pieces, size):
        for mixed, at in pieces:
            lanes.function.line(f"store {wide} {mixed}, ptr {at}, align {align}")
