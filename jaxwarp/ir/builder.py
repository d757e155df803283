"""Builds IR, one operation at a time, in the block that is open."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from jaxwarp.errors import InternalError, Loc
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import (
    Atomic,
    Block,
    Builtin,
    Call,
    Const,
    For,
    If,
    Load,
    Op,
    Param,
    Size,
    Store,
    Tid,
    Value,
    While,
)
from jaxwarp.types import Scalar, bool_, int32


class Builder:
    """Appends operations to the innermost open block. `loc` is stamped on each of them, `over_tile` on loops.

    Args:
        blocks: the blocks that are open, if somebody else opens and closes them too (a `Rewriter`: its `scopes`).
    """

    def __init__(self, blocks: list[list[Op]] | None = None) -> None:
        self.loc: Loc | None = None
        self.over_tile = False
        self._open: list[list[Op]] = [[]] if blocks is None else blocks

    @contextmanager
    def block(self) -> Iterator[list[Op]]:
        """Opens a block; operations go to it until the `with` ends. Yields the list they are put in."""
        self._open.append([])
        try:
            yield self._open[-1]
        finally:
            self._open.pop()

    @property
    def here(self) -> list[Op]:
        """The operations of the innermost open block, so far."""
        return self._open[-1]

    @property
    def is_nested(self) -> bool:
        """True in a branch or a loop: a thread may not come here."""
        return len(self._open) > 1

    def append(self, op: Op) -> None:
        self._open[-1].append(op)

    def const(self, value: bool | int | float, dtype: Scalar, name: str = "") -> Value:
        result = Value(dtype, name)
        self.append(Const(result, _literal(value, dtype), loc=self.loc))
        return result

    def tid(self, axis: int, name: str = "") -> Value:
        result = Value(int32, name)
        self.append(Tid(result, axis, loc=self.loc))
        return result

    def size(self, param: Param, axis: int, name: str = "") -> Value:
        """The extent of an axis: a constant where the parameter's shape knows it."""
        known = param.shape[axis]
        if known is not None:
            return self.const(known, int32, name)
        result = Value(int32, name)
        self.append(Size(result, param, axis, loc=self.loc))
        return result

    def call(
        self,
        builtin: Builtin,
        *args: Value,
        dtype: Scalar | None = None,
        name: str = "",
        fixed_rounding: bool = False,
    ) -> Value:
        """Applies a builtin. `dtype` is the result type of rows that do not infer it (casts)."""
        if builtin.typed != (dtype is not None):
            raise InternalError(f"builtin {builtin.name}: result type {dtype} given, typed={builtin.typed}")
        result = Value(dtype or builtin.infer(tuple(a.type for a in args)), name)
        self.append(Call(result, builtin, args, fixed_rounding, loc=self.loc))
        return result

    def load(self, param: Param, indices: Sequence[Value], name: str = "") -> Value:
        result = Value(param.dtype, name)
        self.append(Load(result, param, tuple(indices), loc=self.loc))
        return result

    def store(self, param: Param, indices: Sequence[Value], value: Value) -> None:
        self.append(Store(param, tuple(indices), value, loc=self.loc))

    def atomic(
        self, kind: str, param: Param, indices: Sequence[Value], *args: Value, takes: bool = False
    ) -> Value:
        result = Value(param.dtype)
        self.append(Atomic(result, kind, param, tuple(indices), args, takes, loc=self.loc))
        return result

    def if_(
        self,
        condition: Value,
        then: Callable[[], Sequence[Value]],
        orelse: Callable[[], Sequence[Value]] = tuple,
        names: Sequence[str] = (),
    ) -> tuple[Value, ...]:
        """Each branch is built by a function that returns the values it yields."""
        loc, blocks = self.loc, []
        for branch in (then, orelse):
            with self.block() as ops:
                values = tuple(branch())
                blocks.append(Block((), tuple(ops), values))
        self.loc = loc
        results = _fresh([v.type for v in blocks[0].results], names)
        self.append(If(results, condition, *blocks, loc=loc))
        return results

    def for_(
        self,
        start: Value,
        stop: Value,
        step: Value,
        inits: Sequence[Value],
        body: Callable[..., Sequence[Value]],
        names: Sequence[str] = (),
        over_tile: bool | None = None,
    ) -> tuple[Value, ...]:
        """`body(index, *carried)` returns the carried values of the next iteration; names[0] is the index."""
        loc = self.loc
        params = (Value(start.type, names[0] if names else ""), *_fresh([v.type for v in inits], names[1:]))
        with self.block() as ops:
            values = tuple(body(*params))
            block = Block(params, tuple(ops), values)
        self.loc = loc
        results = _fresh([v.type for v in inits], names[1:])
        mark = self.over_tile if over_tile is None else over_tile
        self.append(For(results, start, stop, step, tuple(inits), block, mark, loc=loc))
        return results

    def while_(
        self,
        inits: Sequence[Value],
        condition: Callable[..., Value],
        body: Callable[..., Sequence[Value]],
        names: Sequence[str] = (),
    ) -> tuple[Value, ...]:
        """`condition(*carried)` returns a bool, `body(*carried)` the carried values of the next iteration."""
        loc, types = self.loc, [v.type for v in inits]
        params = _fresh(types, names)
        with self.block() as ops:
            test = condition(*params)
            before = Block(params, tuple(ops), (test,))
        params = _fresh(types, names)
        with self.block() as ops:
            values = tuple(body(*params))
            block = Block(params, tuple(ops), values)
        self.loc = loc
        results = _fresh(types, names)
        self.append(While(results, tuple(inits), before, block, loc=loc))
        return results

    def suggest_name(self, value: Value, name: str) -> None:
        """Names a value that has no name yet after the user's variable. Names do not count in a kernel's identity."""
        if not value.name:
            object.__setattr__(value, "name", name)

    def finish(self, name: str, grid_rank: int, params: Sequence[Param]) -> Kernel:
        (ops,) = self._open
        return Kernel(name, grid_rank, tuple(params), Block((), tuple(ops), ()))


def _fresh(types: Sequence[Scalar], names: Sequence[str]) -> tuple[Value, ...]:
    padded = [*names, *[""] * len(types)]
    return tuple(Value(t, n) for t, n in zip(types, padded, strict=False))


LEAST_PLAIN, MOST_PLAIN = 1e-4, 6e4  # what no type of floats rounds to zero or infinity


def _literal(value: bool | int | float, dtype: Scalar) -> bool | int | float:
    """The value as the type holds it: rounded to a float's precision, wrapped to an integer's width."""
    if dtype is bool_:
        return bool(value)
    if dtype.is_float:
        if value == 0 or LEAST_PLAIN < abs(value) < MOST_PLAIN:
            return float(dtype.numpy.type(value))
        with np.errstate(all="ignore"):  # which takes ten times as long
            return float(dtype.numpy.type(value))
    wrapped = int(value) & ((1 << dtype.bits) - 1)
    return wrapped - (1 << dtype.bits) if dtype.is_signed and wrapped >> (dtype.bits - 1) else wrapped
