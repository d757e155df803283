"""Atomics: one lane after the other, in lane order; sums at one address in one step where no old value is used.

Where the rectangle that runs owns the elements (exclusive.py), they are loaded, changed and stored instead: by all
lanes at once where they are adjacent.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from functools import partial

from jaxwarp.codegen.cpu.access.addressing import LaneAddress, element_pointer, element_pointers, lane_pointers, locate
from jaxwarp.codegen.cpu.access.memory import (
    extract_lane,
    from_memory,
    load_adjacent,
    reverse,
    store_adjacent,
    to_memory,
)
from jaxwarp.codegen.cpu.access.record_groups import is_scattered, pointers_at, record_group, rows_of_lanes
from jaxwarp.codegen.cpu.accumulate.accumulators import Accumulators
from jaxwarp.codegen.cpu.accumulate.element_sums import ElementSums
from jaxwarp.codegen.cpu.accumulate.lane_sums import sum_of_lanes, sums_of_lanes
from jaxwarp.codegen.cpu.accumulate.row_sums import RowSum
from jaxwarp.codegen.cpu.accumulate.scalar_atomics import atomic, combine, identity_of, in_place, integer_name
from jaxwarp.codegen.cpu.llvm.lanes import Lanes
from jaxwarp.codegen.cpu.llvm.vectors import FRAME_ALIGN, VectorBuilder, memory_type
from jaxwarp.errors import InternalError
from jaxwarp.ir.nodes import Atomic, Call, Const, Op, Size, Tid
from jaxwarp.types import Scalar, float32, float64

_BITWISE = ("and", "or", "xor")
_REDUCTIONS = ("add", "min", "max", *_BITWISE)
# Sums over lanes that are made at once: more vectors would be held for long.
_MOST_SUMS = 8


class AtomicEmitter:
    """Writes the atomics of one body.

    Args:
        lanes: where values are kept.
        accumulators: where they may add, other than to memory.
    """

    def __init__(self, lanes: Lanes, accumulators: Accumulators):
        self.lanes = lanes
        self.function = lanes.function
        self.accumulators = accumulators

    def emit(self, op: Atomic) -> None:
        """Emits an atomic and binds its result."""
        lanes, place = self.lanes, locate(self.lanes, op.param, op.indices)
        sums = self.accumulators.of.get(op)
        if lanes.width == 1:
            args = [to_memory(lanes, a, scalar=True) for a in op.args]
            old = atomic(lanes.one, op.kind, op.param.dtype, element_pointer(lanes, place), args)
            lanes.bind(op.result, from_memory(lanes, op.param.dtype, old, scalar=True))
        elif sums is not None and sums.takes(lanes, op):
            sums.add(lanes, op, _Updates(self, {op: place}))
        elif (keep := op.result in lanes.strides.used) or not (place.is_uniform and _is_reduced(op)):
            old = self.update_lanes(op, place, keep)
            if keep:
                lanes.bind(op.result, from_memory(lanes, op.param.dtype, old))
        elif op.param.dtype.is_float:
            self.add_sums([op])
        else:
            _reduce(lanes, op, place)

    # Sums over lanes

    def lane_sum_group(self, ops: Iterable[Op]) -> list[Atomic]:
        """Return the first atomics to whose floats all lanes add, and that may be done at once after the last one.

        Only operations that compute lie between them. They have one type, and nothing reads their old values.
        """
        group: list[Atomic] = []
        for op in ops:
            if isinstance(op, Atomic):
                is_more = self.is_lane_sum(op) and op.param.dtype is (group or [op])[0].param.dtype
                if not is_more or len(group) == _MOST_SUMS:
                    break
                group.append(op)
            elif not isinstance(op, (Const, Tid, Size, Call)):
                break
        return group

    def is_lane_sum(self, op: Atomic) -> bool:
        return (
            self.lanes.width > 1
            and op.kind == "add"
            and op.param.dtype in (float32, float64)
            and not isinstance(self.accumulators.of.get(op), RowSum)
            and op.result not in self.lanes.strides.used
            and self.lanes.strides.is_uniform(*op.indices)
        )

    def emit_lane_sums(self, ops: Sequence[Atomic]) -> None:
        """Emits a `lane_sum_group`. If an array has few elements, see element_sums.py, they are added one by one."""
        function = self.function
        found = (self.accumulators.of.get(op) for op in ops)
        totals = dict.fromkeys(total for total in found if isinstance(total, ElementSums))
        if not totals:
            self.add_sums(ops)
            return
        counts = [total.count for total in totals]
        some = counts[0]
        for count in counts[1:]:
            some = function.inst(f"or i64 {some}, {count}")
        is_large = function.inst(f"icmp eq i64 {some}, 0")
        together, apart, after = (function.new_label(hint) for hint in ("together", "apart", "added"))
        function.line(f"br i1 {is_large}, label %{together}, label %{apart}")
        for label, emit in ((together, self.add_sums), (apart, self.each)):
            function.open(label)
            with self.lanes.region(self.lanes.mask):
                emit(ops)
            function.line(f"br label %{after}")
        function.open(after)

    def each(self, ops: Sequence[Atomic]) -> None:
        for op in ops:
            self.emit(op)

    def over_lanes(self, kind: str, dtype: Scalar, vectors: Sequence[str]) -> list[str]:
        """Combine the lanes of each vector."""
        many = self.lanes.many
        if kind == "add":
            return sums_of_lanes(many, dtype, vectors, self.lanes.frame.machine.vector_bits)
        combined = partial(_combined, kind, dtype)
        return [sum_of_lanes(many, dtype, vector, combined) for vector in vectors]

    def add_sums(self, ops: Sequence[Atomic]) -> None:
        """All lanes update one float, or several of a type: their sums (or extremes), then one update each.

        One lane after the other would wait for each addition, or atomic: the gradient of a product of matrices by what
        the threads of a row share took 22 times as long.
        """
        lanes, function, dtype = self.lanes, self.function, ops[0].param.dtype
        many, one = lanes.many, lanes.one
        vectors = [lanes.vector(op.args[0]) for op in ops]
        if lanes.mask is not None:
            nothing = many.const(dtype, identity_of(ops[0].kind, dtype))
            vectors = [many.select(lanes.mask, many.type(dtype), vector, nothing) for vector in vectors]
        totals = self.over_lanes(ops[0].kind, dtype, vectors)
        pointers = [element_pointer(lanes, locate(lanes, op.param, op.indices)) for op in ops]
        updates = list(zip(ops, pointers, totals, strict=True))
        rectangle = self.accumulators.rectangle
        if rectangle is None or not all(op.param in rectangle.keys for op in ops):
            for op, pointer, total in updates:
                atomic(one, op.kind, dtype, pointer, [total])
            return
        is_own = ""
        for condition in dict.fromkeys(rectangle.owns(lanes, op) for op in ops):
            is_own = function.inst(f"and i1 {is_own}, {condition}") if is_own else condition
        own, others, after = (function.new_label(hint) for hint in ("own", "others", "updated"))
        function.line(f"br i1 {is_own}, label %{own}, label %{others}")
        function.open(own)
        for op, pointer, total in updates:
            in_place(one, op, pointer, total)
        function.line(f"br label %{after}")
        function.open(others)
        for op, pointer, total in updates:
            atomic(one, op.kind, dtype, pointer, [total])
        function.line(f"br label %{after}")
        function.open(after)

    # Words of records

    def record_group(self, first: Atomic, ops: Iterable[Op]) -> dict[int, Atomic]:
        """Return the first atomics that add to words of the same records, by word, see record_groups.py.

        Empty where they are not added together: that takes a rectangle that may have the records to itself.
        """
        rectangle = self.accumulators.rectangle
        if rectangle is None or first.kind != "add":
            return {}
        if first.param not in rectangle.keys or not is_scattered(locate(self.lanes, first.param, first.indices)):
            return {}
        if self.lanes.mask is not None or not self.is_plain(first):
            return {}
        taken = itertools.takewhile(lambda op: not isinstance(op, Atomic) or self.is_plain(op), ops)
        group = record_group(self.lanes, first, taken)
        return {word: op for word, op in group.items() if isinstance(op, Atomic)}

    def is_plain(self, op: Atomic) -> bool:
        """Return whether the atomic is added to memory, and nothing reads its old value."""
        return op not in self.accumulators.of and op.result not in self.lanes.strides.used

    def emit_records(self, group: dict[int, Atomic]) -> None:
        """Emits a `record_group`: whole records at once, lane by lane, where nobody else has them; else atomics."""
        lanes, function, rectangle = self.lanes, self.function, self.accumulators.rectangle
        assert rectangle is not None
        is_own = ""
        for condition in dict.fromkeys(rectangle.owns(lanes, op) for op in group.values()):
            is_own = function.inst(f"and i1 {is_own}, {condition}") if is_own else condition
        own, others, after = (function.new_label(hint) for hint in ("own", "others", "updated"))
        function.line(f"br i1 {is_own}, label %{own}, label %{others}")
        for label, emit in ((own, _add_records), (others, _add_words)):
            function.open(label)
            with lanes.region(lanes.mask):
                emit(lanes, group)
            function.line(f"br label %{after}")
        function.open(after)

    def update_lanes(self, op: Atomic, place: LaneAddress, keep: bool) -> str:
        """The atomics of all lanes, or what does for them. Returns the vector of old values, if it is to be kept."""
        lanes, function, rectangle = self.lanes, self.function, self.accumulators.rectangle
        if rectangle is None or op.param not in rectangle.keys or op.kind == "cas":
            return _each_lane(lanes, op, place, keep)
        is_own = rectangle.owns(lanes, op)
        is_adjacent = place.is_strided(1) or place.is_strided(-1)
        if not is_adjacent and (lanes.mask is not None or place.is_uniform):
            return _each_lane(lanes, op, place, keep, is_own)
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


def _add_words(lanes: Lanes, group: dict[int, Atomic]) -> None:
    for op in group.values():
        _each_lane(lanes, op, locate(lanes, op.param, op.indices), keep=False)


def _add_records(lanes: Lanes, group: dict[int, Atomic]) -> None:
    """Loads, adds to and stores the words of each lane that is on, lane after lane: several may have the same."""
    function, inst, dtype = lanes.function, lanes.function.inst, group[0].param.dtype
    place = locate(lanes, group[0].param, group[0].indices)
    type_ = memory_type(dtype)
    rows = list(rows_of_lanes(lanes, group, [to_memory(lanes, group[word].args[0]) for word in range(len(group))]))

    def add(length: int, pointer: str, value: str) -> None:
        wide = type_ if length == 1 else f"<{length} x {type_}>"
        old = inst(f"load {wide}, ptr {pointer}, align {dtype.bytes}")
        new = inst(f"{'fadd' if dtype.is_float else 'add'} {wide} {old}, {value}")
        function.line(f"store {wide} {new}, ptr {pointer}, align {dtype.bytes}")

    at = [pointers_at(lanes, place, first) for first, _, _ in rows]
    for lane in range(lanes.width):
        for pointers, (_, length, values) in zip(at, rows, strict=True):
            add(length, pointers[lane], values[lane])


class _Updates:
    """The `Updates` that an accumulator falls back on. `places`: the places of atomics that are already located."""

    def __init__(self, emitter: AtomicEmitter, places: dict[Atomic, LaneAddress]):
        self.emitter = emitter
        self.lanes = emitter.lanes
        self.places = places

    def place(self, op: Atomic) -> LaneAddress:
        if op not in self.places:
            self.places[op] = locate(self.lanes, op.param, op.indices)
        return self.places[op]

    def pointer(self, op: Atomic) -> str:
        return element_pointer(self.lanes, self.place(op))

    def is_own(self, op: Atomic) -> str:
        rectangle = self.emitter.accumulators.rectangle
        if rectangle is None:
            raise InternalError("updates by no rectangle")
        return rectangle.owns(self.lanes, op)

    def at_once(self, ops: Sequence[Atomic]) -> None:
        self.emitter.add_sums(ops)

    def by_lane(self, op: Atomic) -> None:
        _each_lane(self.lanes, op, self.place(op), keep=False)


def _is_reduced(op: Atomic) -> bool:
    """May what all lanes add to one element be put together first?"""
    is_plain = op.param.dtype.is_int or op.param.dtype in (float32, float64)
    return is_plain and op.kind in _REDUCTIONS


def _combined(kind: str, dtype: Scalar, ops: VectorBuilder, a: str, b: str) -> str:
    return combine(ops, kind, dtype, a, b)


def _reduce(lanes: Lanes, op: Atomic, place: LaneAddress) -> None:
    """All lanes on one integer: reduce across lanes, then one atomic."""
    dtype, many = op.param.dtype, lanes.many
    vector, wide, scalar = lanes.vector(op.args[0]), many.type(dtype), memory_type(dtype)
    if lanes.mask is not None:
        vector = many.select(lanes.mask, wide, vector, many.const(dtype, identity_of(op.kind, dtype)))
    sign = "s" if op.kind in ("min", "max") and dtype.is_signed else ""
    reduction = f"{sign}{integer_name(op.kind, dtype)}.v{lanes.width}{scalar}"
    name = f"{scalar} @llvm.vector.reduce.{reduction}"
    lanes.function.declare(f"declare {name}({wide})")
    total = lanes.function.inst(f"call {name}({wide} {vector})")
    atomic(lanes.one, op.kind, dtype, element_pointer(lanes, place), [total])


def _at_once(lanes: Lanes, op: Atomic, place: LaneAddress, keep: bool) -> str:
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
    store_adjacent(lanes, place, op.param, pointer, combine(lanes.many, op.kind, dtype, old, value), mask)
    return reverse(lanes, memory_type(dtype), old) if is_backwards else old


def _one_by_one(lanes: Lanes, op: Atomic, place: LaneAddress, keep: bool) -> str:
    """Loads, changes and stores the elements of all lanes in order: several may have the same. Returns what was there.

    Without a loop over the lanes, which would take as long as their atomics.
    """
    type_ = memory_type(op.param.dtype)
    wide, value, olds = lanes.many.wide(type_), to_memory(lanes, op.args[0]), "poison"
    for lane, pointer in enumerate(lane_pointers(lanes, place)):
        old = in_place(lanes.one, op, pointer, extract_lane(lanes, type_, value, str(lane)))
        if keep:
            olds = lanes.function.inst(f"insertelement {wide} {olds}, {type_} {old}, i64 {lane}")
    return olds


def _each_lane(lanes: Lanes, op: Atomic, place: LaneAddress, keep: bool, is_own: str = "") -> str:
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
        old = atomic(lanes.one, op.kind, op.param.dtype, pointer, args)
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
    plain = in_place(one, op, pointer, args[0])
    function.line(f"br label %{after}")
    function.open(others)
    old, end = atomic(one, op.kind, dtype, pointer, args), function.label
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
