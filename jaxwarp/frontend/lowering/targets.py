"""The targets of assignments: variables, array elements, and components of both.

A target evaluates its indices once, so that `a[f(i)] += x` calls `f` once.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any

from jaxwarp.builtins.language.values import Bundle
from jaxwarp.errors import KernelSyntaxError, KernelTypeError
from jaxwarp.frontend.lowering.adjoints import names_adjoint, refused_adjoint
from jaxwarp.frontend.lowering.components import (
    component_element,
    extract,
    insert,
    named_part,
    section,
    section_values,
    sectioned,
)
from jaxwarp.frontend.lowering.expressions import absent_at, indices_of
from jaxwarp.frontend.lowering.frame import Frame
from jaxwarp.frontend.lowering.memory import (
    addresses,
    at_chosen,
    element_type,
    load_element,
    loaded,
    require_own_place,
    store_element,
    update,
)
from jaxwarp.frontend.lowering.structs import field_of, fitted, index_struct, store_struct, stored_value
from jaxwarp.frontend.lowering.tiles.storage import assign_part, indexed
from jaxwarp.frontend.lowering.values import (
    Chosen,
    ElementValue,
    NoArray,
    Slice,
    StructValue,
    StructView,
    Tile,
    View,
    describe,
)
from jaxwarp.frontend.lowering.views import index_view
from jaxwarp.ir import nodes as ir
from jaxwarp.types import Aggregate, Struct, bool_, element_scalar

# Operators whose augmented assignment to an array element is atomic, as in Warp.
ATOMIC_OPERATORS = {"add": "add", "sub": "add", "bit_and": "and", "bit_or": "or", "bit_xor": "xor"}


@dataclass(frozen=True)
class Name:
    name: str

    def peek(self, frame: Frame) -> Any:
        return frame.lookup(self.name)

    def get(self, frame: Frame) -> Any:
        return frame.lookup(self.name)

    def set(self, frame: Frame, value: Any) -> None:
        for part in value.values if isinstance(value, Bundle) else (value,):
            if isinstance(part, ir.Value):
                frame.builder.suggest_name(part, self.name)
        frame.variables[self.name] = value


@dataclass(frozen=True)
class Place:
    """An array element, a part of one, or a view; of an array of structs, a struct or a view of several."""

    place: ElementValue | View | Chosen | NoArray | StructValue | StructView | Tile

    def peek(self, _frame: Frame) -> Any:
        return self.place

    def element(self) -> ElementValue:
        assert not isinstance(self.place, StructValue)
        if not isinstance(self.place, ElementValue):
            place: Any = self.place.type if isinstance(self.place, NoArray) else self.place
            left = place.ndim
            name = self.place.name
            raise KernelTypeError(
                f"cannot assign to a part of {name}: {left} more ind{'ex' if left == 1 else 'ices'} "
                "would name an element",
                hint="write elements: an index for each axis, as in x[i, j] with i, j = tid()",
            )
        return self.place

    def get(self, frame: Frame) -> Any:
        if isinstance(self.place, StructValue):
            return loaded(frame.builder, self.place)
        return load_element(frame.builder, self.element())

    def set(self, frame: Frame, value: Any) -> None:
        if isinstance(self.place, StructValue):
            store_struct(frame, self.place, value)
            return
        if isinstance(self.place, Tile):
            assign_part(frame, self.place, value)
            return
        element = self.element()
        store_element(frame.builder, element, stored_value(frame, element, value))


@dataclass(frozen=True)
class Part:
    """A component, row or named part of a vector, matrix, quaternion or transform variable."""

    parent: Name | Part | Attribute
    indices: tuple[Any, ...]

    def peek(self, frame: Frame) -> Any:
        return self.get(frame)

    def get(self, frame: Frame) -> Any:
        return extract(frame, self.parent.get(frame), self.indices)

    def set(self, frame: Frame, value: Any) -> None:
        self.parent.set(frame, insert(frame, self.parent.get(frame), self.indices, value))


@dataclass(frozen=True)
class Section:
    """A slice of the components of a variable, of a part of one, or of an array element."""

    parent: Name | Part | Place | Attribute
    indices: tuple[Any, ...]

    def peek(self, frame: Frame) -> Any:
        return self.get(frame)

    def get(self, frame: Frame) -> Any:
        return section(frame, self.parent.get(frame), self.indices)

    def set(self, frame: Frame, value: Any) -> None:
        if isinstance(self.parent, Place):
            for element, new in self._elements(frame, value):
                store_element(frame.builder, element, new)
            return
        whole = self.parent.get(frame)
        dtype, chosen = sectioned(frame, whole.type, self.indices)
        for where, new in zip(chosen, section_values(frame, dtype, value), strict=True):
            whole = insert(frame, whole, where, new, are_tested=False)
        self.parent.set(frame, whole)

    def is_atomic(self, frame: Frame, operator: str) -> bool:
        return isinstance(self.parent, Place) and is_atomic(frame, self.parent.element(), operator)

    def accumulate(self, frame: Frame, operator: str, value: Any) -> None:
        """Accumulate into each component, as `accumulate` does."""
        for element, new in self._elements(frame, value):
            accumulate(frame, element, operator, new)

    def _elements(self, frame: Frame, value: Any) -> list[tuple[ElementValue, ir.Value]]:
        assert isinstance(self.parent, Place)
        element = self.parent.element()
        dtype, chosen = sectioned(frame, element_type(element), self.indices, are_tested=False)
        places = [component_element(frame, element, where) for where in chosen]
        return list(zip(places, section_values(frame, dtype, value), strict=True))


@dataclass(frozen=True)
class Attribute:
    """A field of a struct variable."""

    parent: Name | Attribute
    name: str

    def peek(self, frame: Frame) -> Any:
        return self.get(frame)

    def get(self, frame: Frame) -> Any:
        return field_of(self.parent.get(frame), self.name)

    def set(self, frame: Frame, value: Any) -> None:
        base = self.parent.get(frame)
        index = base.type.index(self.name)
        self.parent.set(frame, base.replaced(index, fitted(frame, base.type, base.type.fields[index], value)))


Target = Name | Place | Part | Section | Attribute


def target(frame: Frame, node: ast.expr) -> Target:
    """The target that an expression names."""
    with frame.at(node):
        if names_adjoint(frame, node):
            raise refused_adjoint()
        if isinstance(node, ast.Name):
            return Name(node.id)
        if isinstance(node, ast.Subscript):
            parent = target(frame, node.value)
            return _indexed(frame, parent, node)
        if isinstance(node, ast.Attribute):
            return _attribute(frame, target(frame, node.value), node.attr)
        raise KernelSyntaxError(
            "only variables, array elements and components can be assigned to", hint="assign to a variable first"
        )


def _indexed(frame: Frame, parent: Target, node: ast.Subscript) -> Target:
    base = parent.peek(frame)
    indices = indices_of(frame, node.slice)
    if isinstance(base, NoArray):
        return Place(absent_at(frame, base, indices))
    if isinstance(base, View | Chosen):
        return Place(index_view(frame, base, indices))
    if isinstance(base, StructView):
        return Place(index_struct(frame, base, indices))
    if isinstance(base, Tile):
        return Place(indexed(frame, base, indices))
    if any(isinstance(i, Slice) for i in indices) and isinstance(base, ElementValue | Bundle):
        if isinstance(parent, Section):
            raise KernelTypeError("a slice of a slice cannot be assigned to", hint="write one slice")
        return Section(parent, tuple(indices))
    if isinstance(base, ElementValue):
        return Place(component_element(frame, base, indices))
    if isinstance(base, Bundle) and isinstance(parent, Name | Part | Attribute):
        return Part(parent, tuple(indices))
    if isinstance(base, tuple):
        raise KernelTypeError("the elements of a tuple cannot be assigned to", hint="use a vector, or a new tuple")
    raise KernelTypeError(f"{describe(base)} has no elements that could be assigned to", hint=_hint(base))


def _hint(base: Any) -> str:
    if isinstance(base, (Aggregate, Struct)):
        return "call the type to make a value of it: v = vec3(), v = types.vector(length=5, dtype=float)"
    return "assign to elements of arrays, and to components of vectors and matrices"


def _attribute(frame: Frame, parent: Target, name: str) -> Target:
    base = parent.peek(frame)
    if isinstance(base, StructView):
        return Place(field_of(base, name))
    if isinstance(base, StructValue):
        if isinstance(parent, Place):
            return Place(field_of(base, name))
        if base.type.index(name) is None:
            field_of(base, name)
        assert isinstance(parent, Name | Attribute)
        return Attribute(parent, name)
    if isinstance(base, View):
        raise KernelTypeError(
            f"the {name} of an array cannot be assigned to",
            hint="the caller decides the shape: launch_dims and output_dims of a jax_kernel",
        )
    if isinstance(base, ElementValue):
        part = named_part(element_type(base), name)
        if part is not None:
            return Place(component_element(frame, base, [part]))
    if isinstance(base, Bundle) and isinstance(parent, Name | Part | Attribute):
        part = named_part(base.type, name)
        if part is not None:
            return Part(parent, (part,))
    raise KernelTypeError(
        f"{describe(base)} has no attribute {name} that could be assigned to",
        hint="assign to variables, to elements of arrays, and to components: v.x = 1.0, v[0] = 1.0",
    )


def is_atomic(frame: Frame, element: ElementValue, operator: str) -> bool:
    """Return whether `a[i] += x` and the like are atomic: the operator has an atomic, and others see the array."""
    scalar = element_scalar(element_type(element))
    is_own = all(view.param in frame.context.locals for view in element.views)
    if operator not in ATOMIC_OPERATORS or scalar is bool_ or is_own:
        return False
    return scalar.is_int or not operator.startswith("bit")


def accumulate(frame: Frame, element: ElementValue, operator: str, value: Any) -> None:
    """Atomically `a[i] += x` and the like."""
    stored = stored_value(frame, element, value)
    if operator == "sub":
        stored = frame.ops.unary("neg", stored)
    atomic(frame, ATOMIC_OPERATORS[operator], element, stored)


def atomic(frame: Frame, kind: str, element: ElementValue, *operands: Any) -> ir.Value | Bundle:
    """An atomic on each component of an element; returns the old value."""
    require_own_place(element)
    dtype: Any = element_type(element)
    columns = [o.values if isinstance(o, Bundle) else (o,) for o in operands]

    def act(one: ElementValue, view: View) -> tuple[ir.Value, ...]:
        own = view.param in frame.context.locals
        return tuple(
            update(frame.builder, kind, view.param, indices, parts)
            if own
            else frame.builder.atomic(kind, view.param, indices, *parts)
            for indices, *parts in zip(addresses(frame.builder, one), *columns, strict=True)
        )

    old = at_chosen(frame.builder, element, act, (element_scalar(dtype),) * len(columns[0]))
    return Bundle(dtype, old) if isinstance(operands[0], Bundle) else old[0]
