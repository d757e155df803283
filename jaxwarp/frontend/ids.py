"""Meshes and the like that a kernel is given by their numbers: found in the tables of a launch. See docs/design/0054.

    rows[r, 0]              the id of the object in row r; row 0 is an object that has nothing
    rows[r, 1 + 3 k + j]    of its k-th leaf: where it starts in memory, how many elements it has, how far apart

Leaves are those of `id_leaves`.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from typing import Any

from jaxwarp.builtins.language.values import Bundle
from jaxwarp.errors import IdError
from jaxwarp.frontend.lowering.frame import Frame
from jaxwarp.frontend.lowering.values import Axis, InMemory, StructValue, View
from jaxwarp.ir import nodes as ir
from jaxwarp.types import (
    NAMED,
    Array,
    Named,
    Scalar,
    Struct,
    bool_,
    element_scalar,
    element_shape,
    id_leaves,
    int32,
    int64,
    struct_in,
)

TABLES = "ids of"
"""What the argument of a kernel is called that has the tables: no name of Python's."""

_ROW_BITS = (1 << 32) - 1


def object_named(frame: Frame, struct: Struct, number: ir.Value) -> StructValue:
    """The object of a class that an id names: its arrays, where they are; one that has nothing, if there is none.

    Raises:
        IdError: the launch has no tables, or none of this class.
    """
    tables = frame.context.ids
    named = getattr(struct.kind, NAMED, None)
    if named is None:
        raise IdError(f"a {struct!r} has no id", hint=f"annotate the argument {struct!r}, and pass it itself")
    if tables is None:
        raise IdError(
            f"a {struct!r} is chosen by a number here, which jax_kernel and derivatives do not look up",
            hint=f"pass the {struct!r} itself; launches outside of JAX and in a jax_callable take numbers",
        )
    return _Found(frame, tables, struct, named, number).struct()


class _Found:
    """The row of an id, read leaf by leaf."""

    def __init__(self, frame: Frame, tables: StructValue, struct: Struct, named: Named, number: ir.Value):
        self.frame, self.tables, self.type, self.named = frame, tables, struct, named
        self.call, self.load = frame.ops.call, frame.builder.load
        self.rows = self.field(struct.name)
        wide = frame.ops.cast_scalar(int64, number)
        low = self.call("bit_and", wide, self.constant(_ROW_BITS))
        count = frame.ops.cast_scalar(int64, frame.builder.size(self.rows, 0))
        place = self.call("select", self.call("lt", low, count), low, self.constant(0))
        found = self.load(self.rows, (place, self.constant(0)))
        self.row = self.call("live_row", place, found, wide)

    def field(self, name: str) -> ir.Param:
        index = self.tables.type.index(name)
        assert index is not None
        view = self.tables.values[index]
        assert isinstance(view, View)
        return view.param

    def constant(self, value: int) -> ir.Value:
        return self.frame.constant(value, int64)

    def entry(self, column: int) -> ir.Value:
        return self.load(self.rows, (self.row, self.constant(column)))

    def struct(self) -> StructValue:
        columns = itertools.count(1, 3)
        leaves = [tuple(self.leaf(next(columns), *one) for one in types) for types in id_leaves(self.type)]
        # What an annotation leaves open is the arrays of all types that it may have.
        return _rebuilt(self.type, iter([found[0] if len(found) == 1 else found for found in leaves]))

    def leaf(self, column: int, name: str, type_: Any) -> Any:
        """An array in memory, or a value that is read."""
        element = type_.dtype if isinstance(type_, Array) else type_
        if element is bool_:
            return self.call("ne", self.leaf(column, name, int32), self.frame.constant(0, int32))
        memory, start = self.field(element_scalar(element).name), self.entry(column)
        if not isinstance(type_, Array):
            return self.value(memory, start, type_)
        count, given = self.entry(column + 1), None
        if name in self.named.optional:
            given = self.call("ge", count, self.constant(0))
            count = self.call("max", count, self.constant(0))
        extent = self.frame.ops.cast_scalar(int32, count)
        stride = self.entry(column + 2)
        axes = [Axis(extent=extent)]
        if type_.ndim == 2:  # rows side by side: as far apart as they are long
            axes.append(Axis(extent=self.frame.ops.cast_scalar(int32, stride)))
        return View(memory, element, tuple(axes), given, InMemory(start, count, stride))

    def value(self, memory: ir.Param, start: ir.Value, dtype: Any) -> Any:
        count = math.prod(element_shape(dtype))
        parts = [self.load(memory, (self.call("add", start, self.constant(k)),)) for k in range(count)]
        return parts[0] if isinstance(dtype, Scalar) else Bundle(dtype, tuple(parts))


def _rebuilt(struct: Struct, leaves: Iterator[Any]) -> StructValue:
    """A struct of its leaves."""
    parts = [f.type if struct_in(f.type) is f.type else None for f in struct.fields]
    return StructValue(struct, tuple(next(leaves) if p is None else _rebuilt(p, leaves) for p in parts))
