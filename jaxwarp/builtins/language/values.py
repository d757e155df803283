"""The run-time values of the language above the IR's scalars: vectors, matrices, quaternions and transforms as bundles
of them."""

from __future__ import annotations

from dataclasses import dataclass

from jaxwarp.errors import InternalError
from jaxwarp.ir.nodes import Value
from jaxwarp.types import Aggregate, Scalar

Literal = bool | int | float


@dataclass(frozen=True, eq=False)
class Bundle:
    """A vector, matrix, quaternion or transform: its components; those of a matrix row by row."""

    type: Aggregate
    values: tuple[Value, ...]

    def __post_init__(self) -> None:
        if len(self.values) != self.type.size or any(v.type != self.type.dtype for v in self.values):
            raise InternalError(f"components of types {[v.type for v in self.values]} for {self.type}")

    @property
    def dtype(self) -> Scalar:
        return self.type.dtype

    @property
    def rows(self) -> tuple[tuple[Value, ...], ...]:
        """The components of each row; a vector is one row."""
        width = self.type.shape[-1]
        return tuple(self.values[i : i + width] for i in range(0, len(self.values), width))

    @property
    def columns(self) -> tuple[tuple[Value, ...], ...]:
        """The components of each column."""
        return tuple(zip(*self.rows, strict=True))


Operand = Value | Bundle | Literal  # what an operator or function of the language computes with


# A literal is a constant of the kernel's text: weak, it takes the type of what it meets.
LITERALS = (bool, int, float)


def describe(a: object) -> str:
    """An operand in a message: its type, or the constant."""
    match a:
        case Value() | Bundle():
            return repr(a.type)
        case bool() | int() | float():
            return f"the constant {a}"
        case Scalar() | Aggregate():
            return f"the type {a!r}"
        case _:
            return f"a {type(a).__name__}"
