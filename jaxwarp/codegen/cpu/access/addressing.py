"""The addresses of the elements of an access, lane by lane."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jaxwarp.codegen.cpu.llvm.lanes import Lanes
from jaxwarp.codegen.cpu.llvm.vectors import memory_type
from jaxwarp.ir.nodes import Param, Value
from jaxwarp.types import Scalar, int32


@dataclass(frozen=True)
class LaneAddress:
    """The element of lane j: `pointer[constant + j * step + offsets[j]]`.

    Attributes:
        pointer: a scalar pointer.
        constant: elements, known.
        step: elements, known, or an i64 operand.
        offsets: elements, a vector of integers of `bits`, or None.
    """

    dtype: Scalar
    pointer: str
    constant: int = 0
    step: int | str = 0
    offsets: str | None = None
    bits: int = 64

    @property
    def is_uniform(self) -> bool:
        return self.step == 0 and self.offsets is None

    def is_strided(self, step: int) -> bool:
        return self.step == step and self.offsets is None


def locate(lanes: Lanes, param: Param, indices: Sequence[Value], least: Sequence[int] | None = None) -> LaneAddress:
    """The place of an access. All scalar arithmetic is in 64 bits.

    Args:
        lanes: where values are kept.
        param: the array.
        indices: by axis.
        least: the least shifts of a family of loads. Then lanes that are off have an element, too, of those that the
            family may read: by roots that are -least.
    """
    walker = _Locator(lanes, param, least)
    for axis, index in enumerate(indices):
        walker.add(axis, index)
    return walker.place()


class _Locator:
    def __init__(self, lanes: Lanes, param: Param, least: Sequence[int] | None = None):
        self.lanes = lanes
        self.least = None if lanes.mask is None else least
        self.inst = lanes.function.inst
        self.param = param
        self.constant = 0
        self.terms: list[str] = []  # i64 operands
        self.step = 0
        self.steps: list[str] = []
        self.vectors: list[tuple[Value, int | str]] = []  # varying indices and what each counts
        self.spares: list[tuple[int, int | str]] = []  # in their place where lanes are off, and the same
        self.shifted = 0  # how far they may be from valid ones, in elements, where that is known of all

    def add(self, axis: int, index: Value) -> None:
        unit = self.lanes.frame.stride(self.param, axis)
        index, constant = self.lanes.strides.shifts.get(index, (index, 0))
        self.add_term("i64", str(constant), unit)
        stride = self.lanes.strides.of[index]
        if stride is None or (stride and self.least is not None):
            self.vectors.append((index, unit))
            spare = 0 if self.least is None else -self.least[axis]
            self.spares.append((spare, unit))
            self.shifted += max(abs(constant), abs(spare)) * (unit if isinstance(unit, int) else 0)
            return
        scalar = self.lanes.scalar(index)
        if stride < 0:
            # Counted from the last lane, see uniformity.py.
            last = self.lanes.width - 1
            scalar = self.inst(f"add i{index.type.bits} {scalar}, {last * stride}")
            self.add_term("i64", str(-last * stride), unit)
        self.add_term(f"i{index.type.bits}", scalar, unit)
        if isinstance(unit, int):
            self.step += stride * unit
        elif stride:
            self.steps.append(self.product(str(stride), unit))

    def add_term(self, type_: str, scalar: str, unit: int | str) -> None:
        if scalar.startswith("%"):
            self.terms.append(self.lanes.derive((scalar, unit), lambda: self.product(self.widen(type_, scalar), unit)))
        elif isinstance(unit, int):
            self.constant += int(scalar) * unit
        elif int(scalar):
            self.terms.append(self.product(scalar, unit))

    def widen(self, type_: str, scalar: str) -> str:
        if type_ == "i64" or scalar in self.lanes.widened:
            return self.lanes.widened.get(scalar, scalar)
        return self.lanes.derive((scalar, type_), lambda: self.inst(f"sext {type_} {scalar} to i64"))

    def product(self, scalar: str, unit: int | str) -> str:
        return scalar if unit == 1 else self.inst(f"mul i64 {scalar}, {unit}")

    def total(self, terms: Sequence[str]) -> str:
        result = terms[0]
        for term in terms[1:]:
            left, right = result, term
            result = self.lanes.derive(("sum", left, right), lambda a=left, b=right: self.inst(f"add i64 {a}, {b}"))
        return result

    def place(self) -> LaneAddress:
        pointer = self.lanes.frame.pointer(self.param)
        type_ = memory_type(self.param.dtype)
        invariants = self.lanes.function.invariants
        is_early = (lambda _: True) if invariants is None else invariants.is_early
        # What is known before the columns is added to the pointer there.
        for terms in ([t for t in self.terms if is_early(t)], [t for t in self.terms if not is_early(t)]):
            if terms:
                base, offset = pointer, self.total(terms)
                pointer = self.lanes.derive(
                    (base, offset),
                    lambda base=base, offset=offset: self.inst(f"getelementptr {type_}, ptr {base}, i64 {offset}"),
                )
        self.step += self.lanes.frame.lane_step(self.param)
        step: int | str = self.step
        if self.steps:
            step = self.total([*self.steps, *([str(self.step)] if self.step else [])])
        offsets, bits = self.offsets() if self.vectors else (None, 64)
        return LaneAddress(self.param.dtype, pointer, self.constant, step, offsets, bits)

    def offsets(self) -> tuple[str, int]:
        """The varying part. 32 bits are enough where no valid offset needs more; others may wrap, they are not used.

        An index without the constant that is added to it is as far from a valid one. With what the lanes' places differ
        by, it is an array further at most.
        """
        count = self.lanes.frame.element_count(self.param)
        if count is not None and self.lanes.frame.is_local(self.param):
            count *= self.lanes.frame.width
        (first, unit), is_single = self.vectors[0], len(self.vectors) == 1
        small = count is not None and 2 * count + self.shifted < 1 << 31
        if is_single and unit == 1 and first.type is int32:  # sums of it are not wider if lanes take small steps
            small |= not self.step or abs(self.step) * self.lanes.width + self.shifted < 1 << 30
        bits = 32 if small and self.shifted < 1 << 31 else 64
        key = "offsets", bits, *self.vectors
        result = self.lanes.derive(key, lambda: self.sum_of_vectors(bits))
        if self.least is None:
            return result, bits
        key = "in array", result, self.lanes.mask, *self.spares
        return self.lanes.derive(key, lambda: self.where_on(result, bits)), bits

    def where_on(self, offsets: str, bits: int) -> str:
        """Offsets, but those of the spare indices in lanes that are off."""
        many = self.lanes.many
        known = sum(index * unit for index, unit in self.spares if isinstance(unit, int))
        terms = [self.product(str(index), unit) for index, unit in self.spares if index and isinstance(unit, str)]
        if terms:
            spare = self.lanes.splat("i64", self.total([*terms, *([str(known)] if known else [])]))
        else:
            spare = f"splat (i{bits} {known})" if known else "zeroinitializer"
        return many.select(self.lanes.mask_operand(), many.wide(f"i{bits}"), offsets, spare)

    def sum_of_vectors(self, bits: int) -> str:
        """The sum of what each index adds. Places that share their first indices share the sum of these."""
        wide = self.lanes.many.wide(f"i{bits}")
        result = ""
        for index, unit in self.vectors:
            part = self.lanes.derive(("part", index, unit, bits), lambda i=index, u=unit: self.part_of(i, u, bits))
            if result:
                both = result, part
                part = self.lanes.derive(("sum", *both), lambda ab=both: self.inst(f"add {wide} {ab[0]}, {ab[1]}"))
            result = part
        return result

    def part_of(self, index: Value, unit: int | str, bits: int) -> str:
        """An index times what it counts."""
        wide, part = self.lanes.many.wide(f"i{bits}"), self.lanes.vector(index)
        if index.type.bits != bits:
            cast = "sext" if bits > index.type.bits else "trunc"
            part = self.inst(f"{cast} {self.lanes.many.type(index.type)} {part} to {wide}")
        if unit != 1:
            part = self.inst(f"mul {wide} {part}, {self.lanes.splat(f'i{bits}', str(unit))}")
        return part


def element_pointer(lanes: Lanes, place: LaneAddress, constant: int | None = None) -> str:
    """The scalar pointer to lane 0's element, or to the one `constant` elements from the place's pointer."""
    at = place.constant if constant is None else constant
    if at == 0:
        return place.pointer
    return lanes.function.inst(f"getelementptr {memory_type(place.dtype)}, ptr {place.pointer}, i64 {at}")


def element_pointers(lanes: Lanes, place: LaneAddress) -> str:
    """A vector of pointers, one per lane."""
    inst, many = lanes.function.inst, lanes.many
    offsets, bits = place.offsets, place.bits
    if isinstance(place.step, str) or offsets is None:
        if offsets is not None and bits == 32:
            offsets = inst(f"sext {many.wide('i32')} {offsets} to {many.wide('i64')}")
        bits = 64
    wide = many.wide(f"i{bits}")
    steps = None
    if isinstance(place.step, str):
        steps = inst(f"mul {wide} {lanes.splat('i64', place.step)}, {lanes.lane_numbers(64)}")
    elif place.step or offsets is None:
        steps = lanes.lane_numbers(bits, place.step)
    if offsets is None:
        offsets = steps
    elif steps is not None:
        offsets = inst(f"add {wide} {offsets}, {steps}")
    base = element_pointer(lanes, place)
    return inst(f"getelementptr {memory_type(place.dtype)}, ptr {base}, {wide} {offsets}")


def lane_pointers(lanes: Lanes, place: LaneAddress) -> list[str]:
    """The pointer of each lane, as scalars that are made once for places that differ by constants."""
    type_, key = memory_type(place.dtype), ("pointers", place.pointer, place.offsets, place.step)
    pointers = lanes.derive(key, lambda: _make_lane_pointers(lanes, place, type_))
    if not place.constant:
        return pointers
    return [lanes.function.inst(f"getelementptr {type_}, ptr {pointer}, i64 {place.constant}") for pointer in pointers]


def _make_lane_pointers(lanes: Lanes, place: LaneAddress, type_: str) -> list[str]:
    inst, offsets = lanes.function.inst, place.offsets
    if offsets is not None and place.bits == 32:
        offsets = inst(f"sext {lanes.many.wide('i32')} {offsets} to {lanes.many.wide('i64')}")
    pointers = []
    for lane in range(lanes.width):
        pointer = place.pointer
        if lane and place.step:
            step = inst(f"mul i64 {place.step}, {lane}") if isinstance(place.step, str) else place.step * lane
            pointer = inst(f"getelementptr {type_}, ptr {pointer}, i64 {step}")
        if offsets is not None:
            offset = inst(f"extractelement {lanes.many.wide('i64')} {offsets}, i32 {lane}")
            pointer = inst(f"getelementptr {type_}, ptr {pointer}, i64 {offset}")
        pointers.append(pointer)
    return pointers
