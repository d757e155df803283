"""Atomics: one lane after the other, in lane order; sums at one address in one step where no old value is used.

Where the rectangle that runs owns the elements (owned.py), they are loaded, changed and stored instead: by all lanes at
once where they are adjacent.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

from jaxwarp.codegen.cpu.builder import FRAME_ALIGN, VectorBuilder, memory_type
from jaxwarp.codegen.cpu.element_sums import ElementSums
from jaxwarp.codegen.cpu.lane_sums import sum_of_lanes, sums_of_lanes
from jaxwarp.codegen.cpu.lanes import Lanes
from jaxwarp.codegen.cpu.memory import extract_lane, from_memory, load_adjacent, reverse, store_adjacent, to_memory
from jaxwarp.codegen.cpu.neighbours import Neighbours, NeighbourSum
from jaxwarp.codegen.cpu.places import Place, element_pointer, element_pointers, lane_pointers, locate
from jaxwarp.errors import InternalError
from jaxwarp.ir.nodes import Atomic, Call, Const, Op, Size, Tid
from jaxwarp.types import Scalar, bool_, float32, float64

_BITWISE = ("and", "or", "xor")
_REDUCTIONS = ("add", "min", "max", *_BITWISE)
# Sums over lanes that are made at once: more vectors would be held for long.
_MOST_SUMS = 8


def emit_atomic(lanes: Lanes, op: Atomic) -> None:
    """Emits an atomic and binds its result."""
    place = locate(lanes, op.param, op.indices)
    if lanes.width == 1:
        args = [to_memory(lanes, a, scalar=True) for a in op.args]
        old = _atomic(lanes.one, op.kind, op.param.dtype, element_pointer(lanes, place), args)
        lanes.bind(op.result, from_memory(lanes, op.param.dtype, old, scalar=True))
    elif op in lanes.frame.sums:
        lanes.frame.sums[op].gather(lanes, op, element_pointer(lanes, place))
    elif op in lanes.frame.element_sums and place.is_uniform:
        apart = functools.partial(_add_sums, lanes, [op])
        lanes.frame.element_sums[op].gather(lanes, op, element_pointer(lanes, place), apart)
    elif lanes.mask is None and lanes.width == lanes.frame.width and op in lanes.frame.neighbours:
        _gather_neighbours(lanes, op)
    elif (keep := op.result in lanes.strides.used) or not (place.is_uniform and _is_reduced(op)):
        old = _update_lanes(lanes, op, place, keep)
        if keep:
            lanes.bind(op.result, from_memory(lanes, op.param.dtype, old))
    elif op.param.dtype.is_float:
        _add_sums(lanes, [op])
    else:
        _reduce(lanes, op, place)


def _is_reduced(op: Atomic) -> bool:
    """May what all lanes add to one element be put together first?"""
    if op.param.dtype in (float32, float64):
        return op.kind == "add"
    return op.param.dtype.is_int and op.kind in _REDUCTIONS


class RowSum:
    """Partial results of an atomic, one per lane, and the address they are for; see private.py.

    They are memory of the function's frame here, which LLVM keeps in registers. The address is null until some thread
    has come by: one that none reaches may lie outside the array. `is_own`: the element is that of one row.
    """

    def __init__(self, many: VectorBuilder, op: Atomic, is_own: bool):
        self.is_own = is_own
        self.many = many
        self.function = many.function
        self.kind = op.kind
        self.dtype = op.param.dtype
        self.vector = many.type(self.dtype)
        self.identity = -0.0 if self.dtype.is_float else _identity(op.kind, self.dtype)
        self.partial = self.function.alloca(self.vector)
        self.address = self.function.alloca("ptr")

    def clear(self) -> None:
        """At the start of a row."""
        self.function.line(f"store {self.vector} {self.many.const(self.dtype, self.identity)}, ptr {self.partial}")
        self.function.line(f"store ptr null, ptr {self.address}")

    def gather(self, lanes: Lanes, op: Atomic, pointer: str) -> None:
        """In place of the atomic."""
        value = lanes.vector(op.args[0])
        if lanes.mask is not None:
            value = self.many.select(lanes.mask, self.vector, value, self.many.const(self.dtype, self.identity))
        old = self.function.inst(f"load {self.vector}, ptr {self.partial}")
        self.function.line(f"store {self.vector} {self.combine(self.many, old, value)}, ptr {self.partial}")
        self.function.line(f"store ptr {pointer}, ptr {self.address}")

    def combine(self, ops: VectorBuilder, a: str, b: str) -> str:
        return _combine(ops, self.kind, self.dtype, a, b)

    def finish(self, is_whole_row: str) -> None:
        """At the end of a row; `is_whole_row`: are all of its threads those of this call?"""
        function, one = self.function, VectorBuilder(1, self.many.function)
        pointer = function.inst(f"load ptr, ptr {self.address}")
        reached, after = function.new_label("reached"), function.new_label("gathered")
        function.line(f"br i1 {function.inst(f'icmp eq ptr {pointer}, null')}, label %{after}, label %{reached}")
        function.open(reached)
        total = sum_of_lanes(
            self.many, self.dtype, function.inst(f"load {self.vector}, ptr {self.partial}"), self.combine
        )
        if self.is_own:
            alone, shared = function.new_label("alone"), function.new_label("shared")
            function.line(f"br i1 {is_whole_row}, label %{alone}, label %{shared}")
            function.open(alone)
            type_ = one.type(self.dtype)
            old = function.inst(f"load {type_}, ptr {pointer}, align {self.dtype.bytes}")
            new = self.combine(one, old, total)
            function.line(f"store {type_} {new}, ptr {pointer}, align {self.dtype.bytes}")
            function.line(f"br label %{after}")
            function.open(shared)
        _atomic(one, self.kind, self.dtype, pointer, [total])
        function.line(f"br label %{after}")
        function.open(after)


def add_elements(sums: ElementSums) -> None:
    """At the end of the function."""
    one, dtype = VectorBuilder(1, sums.function), sums.dtype

    def combine(ops: VectorBuilder, a: str, b: str) -> str:
        return ops.inst(f"fadd {ops.type(dtype)} {a}, {b}")

    sums.finish(
        lambda vector: sum_of_lanes(sums.many, dtype, vector, combine),
        lambda pointer, total: _atomic(one, "add", dtype, pointer, [total]),
    )


def sum_neighbours(many: VectorBuilder, group: Neighbours) -> NeighbourSum:
    return NeighbourSum(many, group, _add_in_place)


def _add_in_place(ops: VectorBuilder, dtype: Scalar, old: str, value: str) -> str:
    """What an element of the rectangle's own becomes, to which several updates add together."""
    return _combine(ops, "add", dtype, old, value)


def _gather_neighbours(lanes: Lanes, op: Atomic) -> None:
    rectangle = lanes.frame.rectangle
    if rectangle is None:
        raise InternalError("updates of neighbours by no rectangle")
    places = functools.cache(lambda other: locate(lanes, other.param, other.indices))
    lanes.frame.neighbours[op].gather(
        lanes,
        op,
        pointer_to=lambda other: element_pointer(lanes, places(other)),
        is_own=functools.partial(rectangle.owns, lanes),
        otherwise=lambda other: _each_lane(lanes, other, places(other), keep=False),
    )


def lane_sum_group(lanes: Lanes, ops: Sequence[Op]) -> list[Atomic]:
    """Those of the first operations to whose floats all lanes add, which may be done at once, after all of these.

    Between them there is nothing but what computes; they are of one type, and nobody reads an old value.
    """
    group: list[Atomic] = []
    for op in ops:
        if isinstance(op, Atomic):
            is_more = _is_lane_sum(lanes, op) and op.param.dtype is (group or [op])[0].param.dtype
            if not is_more or len(group) == _MOST_SUMS:
                break
            group.append(op)
        elif not isinstance(op, (Const, Tid, Size, Call)):
            break
    return group


def _is_lane_sum(lanes: Lanes, op: Atomic) -> bool:
    return (
        lanes.width > 1
        and op.kind == "add"
        and op.param.dtype in (float32, float64)
        and op not in lanes.frame.sums
        and op.result not in lanes.strides.used
        and lanes.strides.is_uniform(*op.indices)
    )


def emit_lane_sums(lanes: Lanes, ops: Sequence[Atomic]) -> None:
    """Emits a `lane_sum_group`. If an array has few elements, see element_sums.py, they are added one by one."""
    function = lanes.function
    totals = dict.fromkeys(total for op in ops if (total := lanes.frame.element_sums.get(op)) is not None)
    if not totals:
        _add_sums(lanes, ops)
        return
    counts = [total.count for total in totals]
    some = counts[0]
    for count in counts[1:]:
        some = function.inst(f"or i64 {some}, {count}")
    is_large = function.inst(f"icmp eq i64 {some}, 0")
    together, apart, after = (function.new_label(hint) for hint in ("together", "apart", "added"))
    function.line(f"br i1 {is_large}, label %{together}, label %{apart}")
    for label, emit in ((together, _add_sums), (apart, _each_apart)):
        function.open(label)
        with lanes.region(lanes.mask):
            emit(lanes, ops)
        function.line(f"br label %{after}")
    function.open(after)


def _each_apart(lanes: Lanes, ops: Sequence[Atomic]) -> None:
    for op in ops:
        emit_atomic(lanes, op)


def _add_sums(lanes: Lanes, ops: Sequence[Atomic]) -> None:
    """All lanes add to one float, or several of a type: their sums, then one addition each.

    One lane after the other would wait for each addition, or atomic: the gradient of a product of matrices by what the
    threads of a row share took 22 times as long.
    """
    many, one, function, dtype = lanes.many, lanes.one, lanes.function, ops[0].param.dtype
    vectors, nothing = [lanes.vector(op.args[0]) for op in ops], many.const(dtype, -0.0)
    if lanes.mask is not None:
        vectors = [many.select(lanes.mask, many.type(dtype), vector, nothing) for vector in vectors]
    totals = sums_of_lanes(many, dtype, vectors, lanes.frame.machine.vector_bits)
    pointers = [element_pointer(lanes, locate(lanes, op.param, op.indices)) for op in ops]
    updates = list(zip(ops, pointers, totals, strict=True))
    rectangle = lanes.frame.rectangle
    if rectangle is None or not all(op.param in rectangle.territories for op in ops):
        for op, pointer, total in updates:
            _atomic(one, op.kind, dtype, pointer, [total])
        return
    is_own = ""
    for condition in dict.fromkeys(rectangle.owns(lanes, op) for op in ops):
        is_own = function.inst(f"and i1 {is_own}, {condition}") if is_own else condition
    own, others, after = (function.new_label(hint) for hint in ("own", "others", "updated"))
    function.line(f"br i1 {is_own}, label %{own}, label %{others}")
    function.open(own)
    for op, pointer, total in updates:
        _in_place(one, op, pointer, total)
    function.line(f"br label %{after}")
    function.open(others)
    for op, pointer, total in updates:
        _atomic(one, op.kind, dtype, pointer, [total])
    function.line(f"br label %{after}")
    function.open(after)


def _reduce(lanes: Lanes, op: Atomic, place: Place) -> None:
    """All lanes on one integer: reduce across lanes, then one atomic."""
    dtype, many = op.param.dtype, lanes.many
    vector, wide, scalar = lanes.vector(op.args[0]), many.type(dtype), memory_type(dtype)
    if lanes.mask is not None:
        vector = many.select(lanes.mask, wide, vector, many.const(dtype, _identity(op.kind, dtype)))
    sign = "s" if op.kind in ("min", "max") and dtype.is_signed else ""
    reduction = f"{sign}{_integer_name(op.kind, dtype)}.v{lanes.width}{scalar}"
    name = f"{scalar} @llvm.vector.reduce.{reduction}"
    lanes.function.declare(f"declare {name}({wide})")
    total = lanes.function.inst(f"call {name}({wide} {vector})")
    _atomic(lanes.one, op.kind, dtype, element_pointer(lanes, place), [total])


def _identity(kind: str, dtype: Scalar) -> int:
    """The operand of an integer atomic that changes nothing."""
    low = -(1 << (dtype.bits - 1)) if dtype.is_signed else 0
    high = (1 << (dtype.bits - dtype.is_signed)) - 1
    return {"min": high, "max": low, "and": -1 if dtype.is_signed else high}.get(kind, 0)


def _integer_name(kind: str, dtype: Scalar) -> str:
    """LLVM's name of an atomic on integers."""
    return "u" + kind if kind in ("min", "max") and not dtype.is_signed else kind


def _update_lanes(lanes: Lanes, op: Atomic, place: Place, keep: bool) -> str:
    """The atomics of all lanes, or what does for them. Returns the vector of old values, if it is to be kept."""
    rectangle = lanes.frame.rectangle
    if rectangle is None or op.param not in rectangle.territories or op.kind == "cas":
        return _each_lane(lanes, op, place, keep)
    is_own = rectangle.owns(lanes, op)
    is_adjacent = place.is_strided(1) or place.is_strided(-1)
    if not is_adjacent and (lanes.mask is not None or place.is_uniform):
        return _each_lane(lanes, op, place, keep, is_own)
    function = lanes.function
    own, others, after = (function.new_label(hint) for hint in ("own", "others", "updated"))
    function.line(f"br i1 {is_own}, label %{own}, label %{others}")
    arms = []
    for label, update in ((own, _at_once if is_adjacent else _one_by_one), (others, _each_lane)):
        function.open(label)
        with lanes.region(lanes.mask):
            arms.append((update(lanes, op, place, keep), function.label))
        function.line(f"br label %{after}")
    function.open(after)
    if not keep:
        return ""
    found = ", ".join(f"[ {old}, %{label} ]" for old, label in arms)
    return function.inst(f"phi {lanes.many.wide(memory_type(op.param.dtype))} {found}")


def _at_once(lanes: Lanes, op: Atomic, place: Place, keep: bool) -> str:
    """Loads adjacent elements, changes and stores them. Returns what was there."""
    del keep
    dtype, mask, value = op.param.dtype, lanes.mask, to_memory(lanes, op.args[0])
    pointer = element_pointer(lanes, place)
    is_backwards = place.is_strided(-1)
    if is_backwards:
        pointer = element_pointer(lanes, place, place.constant - lanes.width + 1)
        value = reverse(lanes, memory_type(dtype), value)
        mask = None if mask is None else reverse(lanes, "i1", mask)
    old = load_adjacent(lanes, place, pointer, mask)
    store_adjacent(lanes, place, op.param, pointer, _combine(lanes.many, op.kind, dtype, old, value), mask)
    return reverse(lanes, memory_type(dtype), old) if is_backwards else old


def _one_by_one(lanes: Lanes, op: Atomic, place: Place, keep: bool) -> str:
    """Loads, changes and stores the elements of all lanes in order: several may have the same. Returns what was there.

    Without a loop over the lanes, which would take as long as their atomics.
    """
    type_ = memory_type(op.param.dtype)
    wide, value, olds = lanes.many.wide(type_), to_memory(lanes, op.args[0]), "poison"
    for lane, pointer in enumerate(lane_pointers(lanes, place)):
        old = _in_place(lanes.one, op, pointer, extract_lane(lanes, type_, value, str(lane)))
        if keep:
            olds = lanes.function.inst(f"insertelement {wide} {olds}, {type_} {old}, i64 {lane}")
    return olds


def _in_place(one: VectorBuilder, op: Atomic, pointer: str, value: str) -> str:
    """A load and a store in place of an atomic; returns what was there."""
    type_, dtype = one.type(op.param.dtype), op.param.dtype
    old = one.inst(f"load {type_}, ptr {pointer}, align {dtype.bytes}")
    one.function.line(f"store {type_} {_combine(one, op.kind, dtype, old, value)}, ptr {pointer}, align {dtype.bytes}")
    return old


def _each_lane(lanes: Lanes, op: Atomic, place: Place, keep: bool, is_own: str = "") -> str:
    """for each lane that is on, in order: the scalar atomic. Returns the vector of old values, if it is to be kept.

    Vectors go through memory, where a lane's number can index them. `is_own`: whether a load and a store will do.
    """
    function, type_ = lanes.function, memory_type(op.param.dtype)
    pointers = None if place.is_uniform else _spill(lanes, "ptr", element_pointers(lanes, place))
    pointer = element_pointer(lanes, place) if pointers is None else ""
    scalars = {a: to_memory(lanes, a, scalar=True) for a in op.args if lanes.strides.of[a] == 0}
    spilled = {a: _spill(lanes, type_, to_memory(lanes, a)) for a in op.args if a not in scalars}
    olds = _spill(lanes, type_, "zeroinitializer") if keep else ""
    every = "-1" if lanes.mask is None else lanes.bits(lanes.mask)
    lane, close = lanes.many.lane_loop(every)
    if pointers is not None:
        pointer = _pick(lanes, "ptr", pointers, lane)
    args = [scalars[a] if a in scalars else _pick(lanes, type_, spilled[a], lane) for a in op.args]
    if is_own:
        old = _one_of_two(lanes.one, op, pointer, args, is_own)
    else:
        old = _atomic(lanes.one, op.kind, op.param.dtype, pointer, args)
    if keep:
        function.line(f"store {type_} {old}, ptr {_slot(lanes, type_, olds, lane)}")
    close()
    return function.inst(f"load {lanes.many.wide(type_)}, ptr {olds}, align {FRAME_ALIGN}") if keep else ""


def _one_of_two(one: VectorBuilder, op: Atomic, pointer: str, args: Sequence[str], is_own: str) -> str:
    """A load and a store, or the atomic; returns the old value."""
    function, dtype = one.function, op.param.dtype
    own, others, after = (function.new_label(hint) for hint in ("own", "others", "updated"))
    function.line(f"br i1 {is_own}, label %{own}, label %{others}")
    function.open(own)
    plain = _in_place(one, op, pointer, args[0])
    function.line(f"br label %{after}")
    function.open(others)
    old, end = _atomic(one, op.kind, dtype, pointer, args), function.label
    function.line(f"br label %{after}")
    function.open(after)
    return one.inst(f"phi {one.type(dtype)} [ {plain}, %{own} ], [ {old}, %{end} ]")


def _spill(lanes: Lanes, type_: str, vector: str) -> str:
    memory = lanes.function.alloca(f"[{lanes.width} x {type_}]")
    lanes.function.line(f"store {lanes.many.wide(type_)} {vector}, ptr {memory}, align {FRAME_ALIGN}")
    return memory


def _slot(lanes: Lanes, type_: str, memory: str, lane: str) -> str:
    return lanes.function.inst(f"getelementptr {type_}, ptr {memory}, i64 {lane}")


def _pick(lanes: Lanes, type_: str, memory: str, lane: str) -> str:
    return lanes.function.inst(f"load {type_}, ptr {_slot(lanes, type_, memory, lane)}")


def _atomic(one: VectorBuilder, kind: str, dtype: Scalar, pointer: str, args: Sequence[str]) -> str:
    """A scalar atomic on values as memory holds them; returns the old one."""
    type_, align = memory_type(dtype), dtype.bytes
    if kind == "cas":
        expected, new = (_bits_of(one, dtype, a) for a in args)
        return _from_bits(one, dtype, _exchange_if_equal(one, dtype, pointer, expected, new)[0])
    (value,) = args
    if kind == "exch":
        return one.inst(f"atomicrmw xchg ptr {pointer}, {type_} {value} monotonic, align {align}")
    if dtype is bool_:
        # Of bytes 0 and 1: the sum and the maximum of bools are `or`, the minimum is `and`.
        name = {"add": "or", "max": "or", "min": "and"}.get(kind, kind)
    elif dtype.is_int:
        name = _integer_name(kind, dtype)
    elif kind == "add" and not dtype.is_half:
        name = "fadd"
    elif kind in ("add", "min", "max"):
        return _update(one, kind, dtype, pointer, value)
    else:
        raise InternalError(f"atomic {kind} of {dtype}")
    return one.inst(f"atomicrmw {name} ptr {pointer}, {type_} {value} monotonic, align {align}")


def _update(one: VectorBuilder, kind: str, dtype: Scalar, pointer: str, value: str) -> str:
    """What LLVM has no atomic for: read, compute, exchange if nobody else has, else again."""
    function, bits = one.function, f"i{dtype.bits}"
    computed = float32 if dtype.is_half else dtype
    operand = one.half_to_float(dtype, value) if dtype.is_half else value
    first = one.inst(f"load atomic {bits}, ptr {pointer} monotonic, align {dtype.bytes}")
    before, loop, after = function.label, function.new_label("retry"), function.new_label("updated")
    function.line(f"br label %{loop}")
    function.open(loop)
    old = function.name()
    hole = len(function.lines)
    function.lines.append("")
    held = _from_bits(one, dtype, old)
    current = one.half_to_float(dtype, held) if dtype.is_half else held
    new = _combine(one, kind, computed, current, operand)
    stored = one.float_to_half(dtype, new) if dtype.is_half else _bits_of(one, dtype, new)
    seen, is_done = _exchange_if_equal(one, dtype, pointer, old, stored)
    function.lines[hole] = f"  {old} = phi {bits} [ {first}, %{before} ], [ {seen}, %{function.label} ]"
    function.line(f"br i1 {is_done}, label %{after}, label %{loop}")
    function.open(after)
    return _from_bits(one, dtype, old)


def _combine(ops: VectorBuilder, kind: str, dtype: Scalar, old: str, value: str) -> str:
    """What an atomic leaves. The language's min and max prefer `value` where either is NaN."""
    type_ = ops.type(dtype)
    if kind == "exch":
        return value
    if kind not in ("min", "max"):
        return ops.inst(f"{'fadd' if dtype.is_float else kind} {type_} {old}, {value}")
    if dtype.is_int:
        sign = "s" if dtype.is_signed else "u"
        return ops.intrinsic(sign + kind, dtype, [(dtype, old), (dtype, value)])
    order = "olt" if kind == "min" else "ogt"
    return ops.select(ops.inst(f"fcmp {order} {type_} {old}, {value}"), type_, old, value)


def _exchange_if_equal(one: VectorBuilder, dtype: Scalar, pointer: str, expected: str, new: str) -> tuple[str, str]:
    """Compare-and-exchange of bits: what was there, and whether it was `expected`."""
    bits = f"i{8 * dtype.bytes}"
    align = f"align {dtype.bytes}"
    pair = one.inst(f"cmpxchg ptr {pointer}, {bits} {expected}, {bits} {new} monotonic monotonic, {align}")
    seen, is_done = (one.inst(f"extractvalue {{ {bits}, i1 }} {pair}, {i}") for i in (0, 1))
    return seen, is_done


def _bits_of(one: VectorBuilder, dtype: Scalar, value: str) -> str:
    if not dtype.is_float or dtype.is_half:
        return value
    return one.inst(f"bitcast {one.type(dtype)} {value} to i{dtype.bits}")


def _from_bits(one: VectorBuilder, dtype: Scalar, bits: str) -> str:
    if not dtype.is_float or dtype.is_half:
        return bits
    return one.inst(f"bitcast i{dtype.bits} {bits} to {one.type(dtype)}")
