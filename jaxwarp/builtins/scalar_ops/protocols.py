"""The interfaces that formulas of rows are written with: LLVM text of lanes, and derivatives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from jaxwarp.ir.nodes import Value
from jaxwarp.types import Scalar

Number = bool | int | float


class TextOps(Protocol):
    """Writes LLVM text for all lanes at once; operands and results are names. `codegen/cpu/llvm/vectors.py` has it."""

    width: int

    def type(self, dtype: Scalar) -> str: ...

    def const(self, dtype: Scalar, value: Number) -> str: ...

    def stored(self, dtype: Scalar, value: float) -> str: ...

    def inst(self, text: str) -> str: ...

    def intrinsic(
        self,
        base: str,
        result: Scalar,
        operands: Sequence[tuple[Scalar, str]],
        immediates: Sequence[str] = (),
        overloads: Sequence[Scalar] = (),
    ) -> str: ...

    def libm(self, name: str, dtype: Scalar, operands: Sequence[str]) -> str: ...

    def libm_where(self, condition: str, name: str, dtype: Scalar, operands: Sequence[str], other: str) -> str: ...

    def cold(
        self,
        condition: str,
        dtype: Scalar,
        name: str,
        operands: Sequence[str],
        formula: Callable[[TextOps, Sequence[str]], str],
        other: str,
    ) -> str: ...

    def half_to_float(self, dtype: Scalar, operand: str) -> str: ...

    def float_to_half(self, dtype: Scalar, operand: str, source: Scalar = ...) -> str: ...


class PartialOps(Protocol):
    """Builds derivatives: has every row by name, for values and numbers. `vjp/calculus.py` has it."""

    def __getattr__(self, name: str) -> Callable[..., Value]: ...

    def const(self, value: Value | Number, like: Value) -> Value: ...
