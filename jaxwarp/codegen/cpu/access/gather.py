"""Gathers and scatters: elements that lie anywhere, of each lane its own.

Machines with mask registers have instructions for them. These take as long for words of 64 bits as for words of 32, so
two words of 32 bits that lie side by side are gathered as one.

On others LLVM makes a branch of every lane of a masked one. There lanes that are off read what is in the array in any
case, see analysis/families.py: each lane has a scalar load, and none a branch. Words that lie near each other are
loaded together, see records.py. Code runs only where some lane is on, so the array is not empty.

The body for chunks of which some lanes are off runs seldom. It calls functions: less code.
"""

from __future__ import annotations

from dataclasses import replace

from jaxwarp.codegen.cpu.access.addressing import LaneAddress, element_pointers, lane_pointers, locate
from jaxwarp.codegen.cpu.access.records import Records
from jaxwarp.codegen.cpu.analysis.families import pieces
from jaxwarp.codegen.cpu.llvm.lanes import Lanes
from jaxwarp.codegen.cpu.llvm.vectors import FunctionText, VectorBuilder, memory_type
from jaxwarp.ir.nodes import Load

# Without instructions for them, a gather or scatter under a mask is a branch for every lane: much code. The body that
# runs seldom calls functions for them. Where there are instructions, those are inlined: names that start so.
HELPER_PREFIX = "lanes."


def gather(lanes: Lanes, op: Load) -> str:
    """Return what a load finds, in its memory type. Lanes that are off get any value, but never poison."""
    if lanes.is_rest:
        return _masked(lanes, locate(lanes, op.param, op.indices))
    if lanes.frame.machine.has_mask_registers:
        place = locate(lanes, op.param, op.indices)
        return _of_pair(lanes, op, place) or _masked(lanes, place)
    family = lanes.families[op]
    place = locate(lanes, op.param, op.indices, family.least)
    if lanes.frame.is_local(op.param):
        # What was never stored must not be poison.
        return kept_in_place(lanes, lanes.many.wide(memory_type(place.dtype)), _each_lane(lanes, place))
    key = family, place.pointer, place.offsets, place.step, place.constant - _flat(lanes, op)
    if key not in lanes.loaded:
        lanes.loaded[key] = Records(lanes, place, _near(lanes, op, place))
    return lanes.loaded[key].word(place.constant) or _each_lane(lanes, place)


def _of_pair(lanes: Lanes, op: Load, place: LaneAddress) -> str | None:
    """A word of 32 bits that is gathered together with its neighbour; None if its family reads no neighbour of it."""
    if place.dtype.bits != 32 or lanes.frame.is_local(op.param):
        return None
    first, length = pieces(_near(lanes, op, place), 2).get(place.constant, (0, 0))
    if not length:
        return None
    key = lanes.families[op], place.pointer, place.offsets, place.step, place.constant - _flat(lanes, op), first
    if key not in lanes.loaded:
        lanes.loaded[key] = _masked(lanes, replace(place, constant=first), "i64")
    inst, type_, width = lanes.function.inst, memory_type(place.dtype), lanes.width
    words = f"<{2 * width} x {type_}>"
    both = inst(f"bitcast {lanes.many.wide('i64')} {lanes.loaded[key]} to {words}")
    order = ", ".join(f"i32 {2 * lane + place.constant - first}" for lane in range(width))
    return inst(f"shufflevector {words} {both}, {words} poison, <{width} x i32> <{order}>")


def kept_in_place(lanes: Lanes, wide: str, loaded: str) -> str:
    """Return what a masked load found, in a form that hides the load from LLVM (version 22).

    Where code chooses, by the same mask, between the result of a masked load and another value, LLVM merges the load
    and the choice into one load. It puts that load at the choice, though the memory may have been written in between.
    """
    return lanes.function.inst(f"freeze {wide} {loaded}")


def _near(lanes: Lanes, op: Load, place: LaneAddress) -> list[int]:
    """The words of each lane that the family of a load reads, counted as `place.constant` is; those at run-time
    strides from its own are not among them."""
    of = lanes.families[op].of
    fixed = [axis for axis in range(op.param.rank) if not isinstance(lanes.frame.stride(op.param, axis), int)]
    alike = [other for other, shifts in of.items() if all(shifts[axis] == of[op][axis] for axis in fixed)]
    return sorted({place.constant - _flat(lanes, op) + _flat(lanes, other) for other in alike})


def _flat(lanes: Lanes, op: Load) -> int:
    units = [lanes.frame.stride(op.param, axis) for axis in range(op.param.rank)]
    shifts = lanes.families[op].of[op]
    return sum(shift * unit for shift, unit in zip(shifts, units, strict=True) if isinstance(unit, int))


def _each_lane(lanes: Lanes, place: LaneAddress) -> str:
    """A scalar load for each lane.

    That is what machines without mask registers do best. LLVM would take the addresses of each gather out of their
    vector anew, also where they differ by constants.
    """
    inst, type_, vector = lanes.function.inst, memory_type(place.dtype), "poison"
    for lane, at in enumerate(lane_pointers(lanes, place)):
        element = inst(f"load {type_}, ptr {at}, align {place.dtype.bytes}")
        vector = inst(f"insertelement {lanes.many.wide(type_)} {vector}, {type_} {element}, i32 {lane}")
    return vector


def _masked(lanes: Lanes, place: LaneAddress, type_: str | None = None) -> str:
    """Load, for each lane, the element at its place, as `type_` or else as the type of the place."""
    type_ = type_ or memory_type(place.dtype)
    wide, pointers, mask_type = lanes.many.wide(type_), lanes.many.wide("ptr"), lanes.many.mask_type
    name = f"{wide} @llvm.masked.gather.{suffix(lanes, type_)}.v{lanes.width}p0"
    lanes.function.declare(f"declare {name}({pointers}, i32, {mask_type}, {wide})")
    at, mask = element_pointers(lanes, place), lanes.mask_operand()

    def call(at: str, mask: str) -> str:
        return f"call {name}({pointers} {at}, i32 {place.dtype.bytes}, {mask_type} {mask}, {wide} zeroinitializer)"

    if not lanes.is_rest:
        return kept_in_place(lanes, wide, lanes.function.inst(call(at, mask)))
    name_of = suffix(lanes, type_)
    if lanes.frame.machine.has_gather:
        helper, body = f"{HELPER_PREFIX}gather.{name_of}", f"  %found = {call('%at', '%mask')}\n  ret {wide} %found"
    else:
        helper, body = f"each.gather.{name_of}", _gather_lanes(lanes, type_, place.dtype.bytes)
    lanes.function.helpers[helper] = (
        f"define internal {wide} @{helper}({pointers} %at, {mask_type} %mask) #2 {{\n{body}\n}}"
    )
    return kept_in_place(
        lanes, wide, lanes.function.inst(f"call {wide} @{helper}({pointers} {at}, {mask_type} {mask}) #2")
    )


def _gather_lanes(lanes: Lanes, type_: str, align: int) -> str:
    """The body of a function that loads from `%at` where `%mask` is set: zeros come from memory that has one."""
    builder = VectorBuilder(lanes.width)
    inst, wide = builder.inst, builder.wide(type_)
    nothing = builder.function.alloca(type_)
    builder.function.line(f"store {type_} zeroinitializer, ptr {nothing}, align {align}")
    vector = "poison"
    for lane, pointer in enumerate(_pointers_or(lanes, builder, nothing)):
        element = inst(f"load {type_}, ptr {pointer}, align {align}")
        vector = inst(f"insertelement {wide} {vector}, {type_} {element}, i32 {lane}")
    return _body(lanes, builder.function, f"ret {wide} {vector}")


def scatter(lanes: Lanes, place: LaneAddress, value: str) -> None:
    """Stores a vector, as memory holds it, in the order of lanes."""
    type_ = memory_type(place.dtype)
    wide, pointers, mask_type = lanes.many.wide(type_), lanes.many.wide("ptr"), lanes.many.mask_type
    name = f"void @llvm.masked.scatter.{suffix(lanes, type_)}.v{lanes.width}p0"
    lanes.function.declare(f"declare {name}({wide}, {pointers}, i32, {mask_type})")
    at, mask, align = element_pointers(lanes, place), lanes.mask_operand(), place.dtype.bytes

    def call(value: str, at: str, mask: str) -> str:
        return f"call {name}({wide} {value}, {pointers} {at}, i32 {align}, {mask_type} {mask})"

    if not lanes.is_rest:
        lanes.function.line(call(value, at, mask))
        return
    name_of = suffix(lanes, type_)
    if lanes.frame.machine.has_gather:
        helper, body = f"{HELPER_PREFIX}scatter.{name_of}", f"  {call('%value', '%at', '%mask')}\n  ret void"
    else:
        helper, body = f"each.scatter.{name_of}", _scatter_lanes(lanes, type_, align)
    lanes.function.helpers[helper] = (
        f"define internal void @{helper}({wide} %value, {pointers} %at, {mask_type} %mask) #2 {{\n{body}\n}}"
    )
    lanes.function.line(f"call void @{helper}({wide} {value}, {pointers} {at}, {mask_type} {mask}) #2")


def _scatter_lanes(lanes: Lanes, type_: str, align: int) -> str:
    """The body of a function that stores `%value` to `%at` where `%mask` is set, in the order of lanes; the rest is
    stored where nobody reads it."""
    builder = VectorBuilder(lanes.width)
    inst, wide = builder.inst, builder.wide(type_)
    nowhere = builder.function.alloca(type_)
    for lane, pointer in enumerate(_pointers_or(lanes, builder, nowhere)):
        element = inst(f"extractelement {wide} %value, i32 {lane}")
        builder.function.line(f"store {type_} {element}, ptr {pointer}, align {align}")
    return _body(lanes, builder.function, "ret void")


def _pointers_or(lanes: Lanes, builder: VectorBuilder, other: str) -> list[str]:
    """The pointers of `%at`, but `other` for lanes that are off in `%mask`."""
    wide = builder.wide("ptr")
    first = builder.inst(f"insertelement {wide} poison, ptr {other}, i32 0")
    others = builder.inst(f"shufflevector {wide} {first}, {wide} poison, <{lanes.width} x i32> zeroinitializer")
    chosen = builder.select("%mask", wide, "%at", others)
    return [builder.inst(f"extractelement {wide} {chosen}, i32 {lane}") for lane in range(lanes.width)]


def _body(lanes: Lanes, inner: FunctionText, end: str) -> str:
    lanes.function.declarations.update(inner.declarations)
    return "\n".join(("entry:", *inner.allocas, *inner.lines, f"  {end}"))


def suffix(lanes: Lanes, type_: str) -> str:
    """Return the suffix of the name of an intrinsic that works on all lanes."""
    return f"v{lanes.width}" + {"float": "f32", "double": "f64"}.get(type_, type_)
