"""Arithmetic on IR values for derivative rules: every row of the table as a method, Python numbers allowed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from jaxwarp.builtins.scalar_ops import ROWS
from jaxwarp.builtins.scalar_ops.protocols import PartialOps
from jaxwarp.builtins.scalar_ops.registry import NoGradient
from jaxwarp.builtins.scalar_ops.rules import GUARDED
from jaxwarp.errors import DifferentiationError, InternalError
from jaxwarp.ir.builder import Builder
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Call, Value, walk
from jaxwarp.types import Scalar

Number = bool | int | float
# By which a cotangent or tangent is multiplied; None is zero.
Factor = Value | Number | None


class Calculus(PartialOps):
    """The argument `o` of a row's `partials`: `o.mul(a, 2.0)`, `o.sin(a)`, `o.const(1.0, like)`."""

    def __init__(self, builder: Builder):
        self.builder = builder
        self._constants: dict[Value, Number] = {}

    def __getattr__(self, name: str) -> Callable[..., Value]:
        if name not in ROWS:
            raise AttributeError(name)
        builtin = ROWS[name]

        def apply(*args: Value | Number) -> Value:
            typed = next((a for a in reversed(args) if isinstance(a, Value)), None)
            if typed is None:
                raise InternalError(f"{name} of numbers only: nothing says their type")
            return self.builder.call(builtin, *(self.const(a, typed) for a in args))

        return apply

    def const(self, value: Value | Number, like: Value) -> Value:
        """A constant of the type of `like`; a value stays what it is."""
        return value if isinstance(value, Value) else self.number(value, like.type)

    def number(self, value: Number, dtype: Scalar) -> Value:
        result = self.builder.const(value, dtype)
        self._constants[result] = value
        return result

    def cast(self, value: Value, dtype: Scalar) -> Value:
        return value if value.type == dtype else self.builder.call(ROWS["cast"], value, dtype=dtype)

    def known(self, value: Value | Number | None) -> Number | None:
        """The number that a value made here is, if it is a constant."""
        if value is None or isinstance(value, Value):
            return None if value is None else self._constants.get(value)
        return value

    def plus(self, a: Value | None, b: Value | None) -> Value | None:
        """a + b, where None is zero."""
        return a if b is None else b if a is None else self.add(a, b)

    def times(self, factor: Factor, value: Value) -> Value | None:
        """factor * value; None is zero. A factor known to be 0 gives zero even where `value` is not finite."""
        number = self.known(factor)
        if factor is None or number == 0:
            return None
        if number == 1:
            return value
        return self.neg(value) if number == -1 else self.mul(self.const(factor, value), value)

    def guarded(self, incoming: Value, factor: Value) -> Value:
        """incoming * factor, zero where `incoming` is, whatever the factor is there."""
        return self.builder.call(GUARDED, incoming, factor)


def products_of(kernel: Kernel) -> dict[Value, Call]:
    """The multiplications of a kernel by their results."""
    return {op.result: op for op in walk(kernel.body) if isinstance(op, Call) and op.builtin.name == "mul"}


def square_in(op: Call, products: Mapping[Value, Call], active: Collection[Value]) -> tuple[Value, Value] | None:
    """Return c v and v for a product (c v) v, in `mul` or `fma`, where c is absent or not `active`.

    Its derivative is d(c v v) = 2 (c v) dv.
    """
    if op.builtin.name not in ("mul", "fma"):
        return None
    one, other = op.args[:2]
    if one is other:
        return one, one
    for scaled, root in (one, other), (other, one):
        inner = products.get(scaled)
        if inner is not None and root in inner.args and inner.args[inner.args[0] is root] not in active:
            return scaled, root
    return None


def partial_derivatives(o: Calculus, call: Call, out: Value, args: tuple[Value, ...]) -> tuple[Factor, ...]:
    """One factor per argument (None: no dependence). `out` and `args` are the call's values where the code goes.

    Raises:
        DifferentiationError: quoting the row's reason.
    """
    partials = call.builtin.partials
    if partials is None or isinstance(partials, NoGradient):
        reason = partials.reason if partials else "no derivative is declared for it"
        name = call.builtin.name.partition("#")[0]
        raise DifferentiationError(
            f"{name} has no derivative: {reason}",
            call.loc,
            hint="give the @func that calls it a rule, with func_grad"
            if name != "func_grad"
            else "add products of the cotangent and values that do not depend on it",
        )
    return tuple(partials(o, out, *args))
