"""The values of one body of code: scalars for what is uniform or linear, vectors for the rest, and the mask.

Two rules keep switched-off lanes harmless. Code runs only where at least one lane is on, so a scalar load needs no
mask. And no lane ever holds poison: masked loads and skipped branches leave zeros.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from jaxwarp.codegen.cpu.analysis.families import Family
from jaxwarp.codegen.cpu.analysis.uniformity import Stride, Strides
from jaxwarp.codegen.cpu.llvm.arguments import FunctionFrame
from jaxwarp.codegen.cpu.llvm.streaming import Streaming
from jaxwarp.codegen.cpu.llvm.vectors import VectorBuilder, scalar_type
from jaxwarp.errors import InternalError
from jaxwarp.ir.nodes import Load, Value
from jaxwarp.types import Scalar, bool_

_SEALED_DEPTH = 4
Derived = TypeVar("Derived")


class Lanes:
    """Operands of the IR's values in the code written so far.

    Attributes:
        width: how many there are: those of the launch function, or fewer.
        one, many: builders of scalar and of vector operations.
        streaming: of stores.
        loaded: what is known of entries of arrays of vectors; nothing once something may have been stored.
        natural: indices of open loops from which no index that counts from the end is made, here.
        families: of the loads of the blocks that are open, see families.py.
        widened: i64 operands that equal scalars of other types.
        mask: the lanes that are on, or None when all are.
        is_rest: whether this is the body for chunks of which some lanes are off, which runs seldom.
    """

    def __init__(
        self, frame: FunctionFrame, streaming: Streaming, strides: Strides, mask: str | None, width: int | None = None
    ):
        self.frame = frame
        self.streaming = streaming
        self.function = function = streaming.function
        self.width = width = width or frame.width
        self.strides = strides
        self.mask = mask
        self.is_rest = mask is not None
        self.one = VectorBuilder(1, function)
        self.many = VectorBuilder(width, function)
        self.widened: dict[str, str] = {}
        self.loaded: dict[Any, Any] = {}
        self.natural: set[Value] = set()
        self.families: dict[Load, Family] = {}
        self._scalars: dict[Value, str] = {}
        self._vectors: dict[Value, str] = {}
        # Values derived on demand, valid in the region that is open and those in it.
        self._derived: dict[Hashable, Any] = {}
        self._added: list[list[Hashable]] = [[]]

    def bind(self, value: Value, operand: str) -> None:
        """Gives a value its operand: a scalar (of lane 0) where its stride is known, else a vector."""
        (self._vectors if self.strides.of[value] is None else self._scalars)[value] = operand

    def bind_as(self, value: Value, other: Value) -> None:
        """`value` is another name of `other`, which may be held more cheaply."""
        self.bind(value, self.held(other, self.strides.of[value]))

    def held(self, value: Value, stride: Stride) -> str:
        """`value` as something of `stride` is held."""
        return self.vector(value) if stride is None else self.scalar(value)

    def scalar(self, value: Value) -> str:
        """Lane 0's value, which with the stride says them all."""
        return self._scalars[value]

    def constant(self, value: Value) -> int | None:
        """An integer that is known; None of what is not, or is computed only later."""
        operand = self._scalars.get(value, "%")
        return None if operand.startswith("%") else int(operand)

    def vector(self, value: Value) -> str:
        """One element per lane."""
        held = self._vectors.get(value)
        if held is not None:
            return held
        stride = self.strides.of[value]
        if stride is None:
            raise InternalError(f"{value} varies but has no vector")
        scalar = self._scalars[value]
        return self.derive(value, lambda: self.spread(value.type, scalar, stride))

    def held_type(self, value: Value) -> str:
        """The LLVM type of what a value is held as."""
        return (self.one if self.strides.is_scalar(value) else self.many).type(value.type)

    def held_as(self, values: Sequence[Value], targets: Sequence[Value]) -> list[str]:
        """`values` in the form in which `targets` are held."""
        return [self.held(v, self.strides.of[t]) for v, t in zip(values, targets, strict=True)]

    def bind_alike(self, values: Sequence[Value], others: Sequence[Value]) -> None:
        for value, other in zip(values, others, strict=True):
            self.bind_as(value, other)

    def bind_all(self, values: Sequence[Value], operands: Sequence[str]) -> None:
        for value, operand in zip(values, operands, strict=True):
            self.bind(value, operand)

    def spread(self, dtype: Scalar, scalar: str, stride: int = 0) -> str:
        """The vector of scalar + lane * stride."""
        if self.width == 1:
            return scalar
        result = self.splat(scalar_type(dtype), scalar)
        if stride:
            result = self.function.inst(
                f"add {self.many.type(dtype)} {result}, {self.lane_numbers(dtype.bits, stride)}"
            )
        return result

    def splat(self, llvm_type: str, scalar: str) -> str:
        """A scalar in every lane."""
        if self.width == 1:
            return scalar
        if not scalar.startswith("%"):
            return f"splat ({llvm_type} {scalar})"
        vector = self.many.wide(llvm_type)
        first = self.function.inst(f"insertelement {vector} poison, {llvm_type} {scalar}, i32 0")
        zeros = f"<{self.width} x i32> zeroinitializer"
        return self.function.inst(f"shufflevector {vector} {first}, {vector} poison, {zeros}")

    def lane_numbers(self, bits: int, stride: int = 1) -> str:
        """A literal: 0, stride, 2 * stride, ... in integers of `bits`."""
        return _lane_numbers(self.width, bits, stride)

    def derive(self, key: Hashable, make: Callable[[], Derived]) -> Derived:
        """`make()`, remembered as long as the region that is open."""
        found = self._derived.get(key)
        if found is None:
            found = self._derived[key] = make()
            self._added[-1].append(key)
        return found

    def seal(self, mask: str) -> str:
        """The mask, made anew every few regions deep.

        LLVM compares each condition with those that its mask is made of, and these again with all others, in time that
        grows with the square of their number, or worse. It does not look through a fence, which costs an instruction.
        """
        if self.width == 1 or len(self._added) % _SEALED_DEPTH:
            return mask
        integers, floats = self.many.wide("i32"), self.many.wide("float")
        name = f"{floats} @llvm.arithmetic.fence.v{self.width}f32"
        self.function.declare(f"declare {name}({floats})")
        inst = self.function.inst
        wide = inst(f"sext {self.many.mask_type} {mask} to {integers}")
        wide = inst(f"call {name}({floats} {inst(f'bitcast {integers} {wide} to {floats}')})")
        return inst(f"icmp slt {integers} {inst(f'bitcast {floats} {wide} to {integers}')}, zeroinitializer")

    def opaque(self, vector: str, type_: str, size: int) -> str:
        """A vector of `size` bytes, whose making LLVM will not see: a fence, which is no instruction."""
        if size % 4:
            return vector
        floats, inst = f"<{size // 4} x float>", self.function.inst
        name = f"{floats} @llvm.arithmetic.fence.v{size // 4}f32"
        self.function.declare(f"declare {name}({floats})")
        hidden = inst(f"call {name}({floats} {inst(f'bitcast {type_} {vector} to {floats}')})")
        return inst(f"bitcast {floats} {hidden} to {type_}")

    @contextmanager
    def region(self, mask: str | None) -> Iterator[None]:
        """A region that may be skipped, under its own mask."""
        outer, self.mask = self.mask, mask
        self._added.append([])
        self.loaded.clear()
        try:
            yield
        finally:
            self.mask = outer
            self.loaded.clear()
            for key in self._added.pop():
                del self._derived[key]

    def part(self, width: int) -> VectorBuilder:
        """The builder of operations on some of the lanes."""
        return VectorBuilder(width, self.function)

    # Masks

    def mask_operand(self) -> str:
        """The mask, written out also when all lanes are on."""
        return self.mask or self.many.const(bool_, True)

    def both(self, mask: str | None, condition: str) -> str:
        """mask and condition. A select, since an `and` would let a garbage condition of a lane that is off through."""
        if mask is None:
            return condition
        return self.many.select(mask, self.many.mask_type, condition, self.many.const(bool_, False))

    def negate(self, condition: str) -> str:
        return self.function.inst(f"xor {self.many.mask_type} {condition}, {self.many.const(bool_, True)}")

    def bits(self, mask: str) -> str:
        """The mask as an integer of one bit per lane."""
        return self.function.inst(f"bitcast {self.many.mask_type} {mask} to i{self.width}")

    def any(self, mask: str) -> str:
        return self.function.inst(f"icmp ne i{self.width} {self.bits(mask)}, 0")


@functools.cache
def _lane_numbers(width: int, bits: int, stride: int) -> str:
    wrap = 1 << bits
    return "<" + ", ".join(f"i{bits} {lane * stride % wrap}" for lane in range(width)) + ">"
