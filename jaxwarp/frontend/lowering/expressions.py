"""Expressions: constants, names, comparisons, attributes, subscripts. Calls: calls.py; operators: operators.py."""

from __future__ import annotations

import ast
import enum
import math
import types
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from jaxwarp.builtins.language.functions import FUNCTIONS
from jaxwarp.builtins.language.values import Bundle
from jaxwarp.errors import (
    KernelNameError,
    KernelSyntaxError,
    KernelTypeError,
    KernelValueError,
    did_you_mean,
    object_text,
)
from jaxwarp.frontend.lowering.adjoints import adjoint, refused_adjoint
from jaxwarp.frontend.lowering.components import component_element, extract, known_slice, named_part, section
from jaxwarp.frontend.lowering.frame import Frame, absent_hint, expression
from jaxwarp.frontend.lowering.memory import element_type, load_element
from jaxwarp.frontend.lowering.merge import MismatchError, type_hint, type_text, unify
from jaxwarp.frontend.lowering.short_circuit import Side, append, append_both, aside, branch, joined_condition
from jaxwarp.frontend.lowering.structs import field_of, index_struct, outline
from jaxwarp.frontend.lowering.tiles.storage import copied, indexed, is_shared, joined
from jaxwarp.frontend.lowering.values import (
    Chosen,
    ElementAddress,
    ElementValue,
    Host,
    NoArray,
    Prototype,
    Shape,
    Slice,
    StructValue,
    StructView,
    Tile,
    View,
    describe,
    is_literal,
    is_object,
    type_of,
)
from jaxwarp.frontend.lowering.views import chosen_number, extent, index_view, shape_item, shape_of
from jaxwarp.frontend.text.constants import attribute_chain
from jaxwarp.frontend.text.functions import Func
from jaxwarp.frontend.text.refused import UNAVAILABLE, by_numpy, of_warp
from jaxwarp.ir import nodes as ir
from jaxwarp.ir.kernel import SizeUse
from jaxwarp.types import Aggregate, Array, Quat, Scalar, Struct, Transform, Vec, int32

_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne",
}  # fmt: skip
_REFUSED_COMPARISONS = {
    ast.Is: ("is", "compare numbers with ==; `is` is for arrays: a is None"),
    ast.IsNot: ("is not", "compare numbers with !=; `is not` is for arrays: a is not None"),
    ast.In: ("in", "compare with each element"), ast.NotIn: ("not in", "compare with each element"),
}  # fmt: skip

# Integer operators whose exact result, wrapped, is the result in any integer type.
_FOLDED = frozenset(("add", "sub", "mul", "div", "floordiv", "mod", "neg", *_COMPARISONS.values()))


_LITERAL_HINTS = {
    "text": "kernels compute with numbers; print takes text and f-strings, static(...) what Python looks up by a text",
    "a complex number": "use a vector of two components",
    "...": "write the numbers",
}


@expression(ast.Constant)
def _constant(_frame: Frame, node: ast.Constant) -> Any:
    value = node.value
    if isinstance(value, (bool, int, float)):
        return value
    if value is None:
        return NoArray()
    kind = {str: "text", bytes: "text", complex: "a complex number", type(...): "..."}[type(value)]
    hint = _LITERAL_HINTS[kind]
    raise KernelSyntaxError(f"{kind} is not part of the kernel language", hint=hint)


@expression(ast.Name)
def _name(frame: Frame, node: ast.Name) -> Any:
    return frame.lookup(node.id)


@expression(ast.Tuple)
def _tuple(frame: Frame, node: ast.Tuple) -> Any:
    return tuple(frame.evaluate(element) for element in node.elts)


def folded(frame: Frame, name: str, operands: Sequence[Any], apply: Callable[..., Any]) -> Any:
    """Applies an operator; its result stays a known constant if all integer operands are.

    So `q + 1` in an unrolled loop is a constant index, and `if q == 0` is decided while lowering.
    """
    result = apply(*operands)
    known = [frame.known(v) for v in operands] if name in _FOLDED else [None]
    if isinstance(result, ir.Value) and not result.type.is_float and all(isinstance(k, int) for k in known):
        value = apply(*known)
        if is_literal(value) and not isinstance(value, float):
            return frame.constant(value, result.type)
    return result


@expression(ast.Compare)
def _compare(frame: Frame, node: ast.Compare) -> Any:
    """`a < b < c` is `a < b and b < c`, with b evaluated once."""
    known = _identity(frame, node)
    if known is not None:
        return known
    for operator in node.ops:
        if type(operator) in _REFUSED_COMPARISONS:
            text, hint = _REFUSED_COMPARISONS[type(operator)]
            raise KernelSyntaxError(f"the operator `{text}` is not part of the kernel language", hint=hint)
    left = _comparand(frame, node.left)
    return _chain(frame, left, list(zip(node.ops, node.comparators, strict=True)))


def _identity(frame: Frame, node: ast.Compare) -> bool | ir.Value | None:
    """`a is None`, `type(x) is not float`. None: it is another comparison."""
    match node:
        case ast.Compare(ops=[ast.Is() | ast.IsNot() as operator], comparators=[comparator]):
            left, right = frame.evaluate(node.left), frame.evaluate(comparator)
            is_type = isinstance(left, Scalar | Aggregate) and isinstance(right, Scalar | Aggregate)
            if not is_type and not isinstance(right, NoArray):
                return None
            if isinstance(left, View | Chosen) and left.given is not None:
                return left.given if isinstance(operator, ast.IsNot) else frame.ops.call("logical_not", left.given)
            return (left == right if is_type else isinstance(left, NoArray)) is isinstance(operator, ast.Is)
        case _:
            return None


def _comparand(frame: Frame, node: ast.expr) -> Any:
    """Return what is compared: a value, a type, or an object that stands where Warp has a number."""
    value = frame.evaluate(node)
    is_plain = isinstance(value, Scalar | Aggregate) or is_object(value)
    return value if is_plain else frame.as_value(value, node, "a comparison")


def _with_none(frame: Frame, left: Any, right: Any, name: str) -> bool:
    """`mesh != wp.uint64(0)`: an object is none that 0 names."""
    numbers = [1 if is_object(v) else frame.known(v) for v in (left, right)]
    if numbers not in ([0, 1], [1, 0]):
        raise KernelTypeError(
            f"{name}: cannot compare {describe(left)} and {describe(right)}",
            hint="an object is compared to 0, which is none; in launches outside of JAX ids are numbers",
        )
    return {"eq": False, "ne": True, "lt": numbers == [0, 1], "le": numbers == [0, 1]}.get(name, numbers == [1, 0])


def _same_type(left: Any, right: Any, name: str) -> bool:
    """`type(x) == float32`: known when the kernel is lowered."""
    left, right = (v.type if isinstance(v, Prototype) else v for v in (left, right))
    if name not in ("eq", "ne") or not all(isinstance(v, Scalar | Aggregate) for v in (left, right)):
        raise KernelTypeError(
            f"{name}: cannot compare {describe(left)} and {describe(right)}",
            hint="types are compared with == and != to types: type(x) == float",
        )
    return (left == right) is (name == "eq")


def _chain(frame: Frame, left: Any, rest: list[tuple[ast.cmpop, ast.expr]]) -> Any:
    (operator, node), *others = rest
    right = _comparand(frame, node)
    name = _COMPARISONS[type(operator)]
    if isinstance(left, Scalar | Aggregate) or isinstance(right, Scalar | Aggregate):
        test: Any = _same_type(left, right, name)
    elif is_object(left) or is_object(right):
        test = _with_none(frame, left, right, name)
    else:
        test = folded(frame, name, (left, right), lambda a, b: frame.ops.compare(name, a, b))
    if not others:
        return test
    return joined_condition(frame, frame.condition(test), lambda: frame.condition(_chain(frame, right, others)), "and")


@expression(ast.BoolOp)
def _bool_operation(frame: Frame, node: ast.BoolOp) -> Any:
    kind = "and" if isinstance(node.op, ast.And) else "or"

    def from_operand(k: int) -> Any:
        test = frame.test(node.values[k])
        if k == len(node.values) - 1:
            return test
        return joined_condition(frame, test, lambda: from_operand(k + 1), kind)

    return from_operand(0)


@expression(ast.IfExp)
def _if_expression(frame: Frame, node: ast.IfExp) -> Any:
    test = frame.test(node.test)
    if isinstance(test, bool):
        return _own(frame, frame.evaluate(node.body if test else node.orelse))
    with frame.assuming(test):
        then = aside(frame, lambda: frame.evaluate(node.body))
    with frame.assuming(test, False):
        orelse = aside(frame, lambda: frame.evaluate(node.orelse))
    return chosen(frame, "the sides of a conditional expression", test, then, orelse)


def chosen(frame: Frame, what: str, test: bool | ir.Value, then: Side, orelse: Side) -> Any:
    """The value of the side that a condition chooses; where it is a tile, a copy.

    Raises:
        KernelTypeError: the sides have different types.
    """
    a, b = joined(frame, [then.value, orelse.value], [then.ops, orelse.ops])
    try:
        merged = unify(frame, a, b)
    except MismatchError:
        raise KernelTypeError(
            f"{what} are {type_text(a)} and {type_text(b)}", hint=type_hint(a, b, "convert one of them")
        ) from None
    if isinstance(test, bool):
        append(frame, (then if test else orelse).ops)
        return _own(frame, a if test else b)
    if then.is_cheap and orelse.is_cheap:
        append_both(frame, test, then, orelse)
        pairs = zip(merged.left, merged.right, strict=True)
        return _own(frame, merged.rebuild([frame.ops.call("select", test, x, y) for x, y in pairs]))
    return branch(frame, test, then, orelse, merged)


def _own(frame: Frame, value: Any) -> Any:
    """A copy of a tile that a variable has, too."""
    return copied(frame, value) if isinstance(value, Tile) and is_shared(frame, "", value) else value


# Subscripts and attributes


def indices_of(frame: Frame, node: ast.expr) -> list[Any]:
    """The values of an index: one or, separated by commas, several; slices as `Slice`."""
    nodes = node.elts if isinstance(node, ast.Tuple) else [node]
    indices: list[Any] = []
    for n in nodes:
        if not isinstance(n, ast.Slice):
            value = frame.evaluate(n)
            indices.extend(value if isinstance(value, tuple) else [value])
            continue
        indices.append(Slice(*(None if b is None else frame.value(b, "a slice") for b in (n.lower, n.upper, n.step))))
    return indices


@expression(ast.Subscript)
def _subscript(frame: Frame, node: ast.Subscript) -> Any:
    base = frame.place(node.value)
    indices = indices_of(frame, node.slice)
    if isinstance(base, NoArray):
        return absent_at(frame, base, indices)
    if isinstance(base, View | Chosen):
        return index_view(frame, base, indices)
    if isinstance(base, StructView):
        return index_struct(frame, base, indices)
    if isinstance(base, Tile):
        return indexed(frame, base, indices)
    is_part = any(isinstance(i, Slice) for i in indices)
    if isinstance(base, ElementValue) and is_part:
        base = load_element(frame.builder, base)
    if isinstance(base, ElementValue):
        return component_element(frame, base, indices)
    if isinstance(base, Bundle):
        return section(frame, base, indices) if is_part else extract(frame, base, indices)
    if is_part and isinstance(base, tuple) and len(indices) == 1:
        return base[known_slice(frame, indices[0], "a tuple")]
    if is_part:
        raise KernelTypeError(
            f"{describe(base)} has no slices", hint="slices are for arrays, vectors, matrices and tuples"
        )
    if isinstance(base, Shape) and len(indices) == 1:
        return shape_item(frame, base.view, indices[0])
    if isinstance(base, tuple) and len(indices) == 1:
        return _tuple_item(frame, base, indices[0])
    if isinstance(base, Host) and base.value is adjoint:
        raise refused_adjoint()
    if isinstance(base, Host) and len(indices) == 1 and hasattr(base.value, "__getitem__"):
        raise KernelTypeError(
            f"{describe(base)} cannot be indexed in a kernel",
            hint="pass it to the kernel: add an argument w: array[float]"
            if object_text(base.value) in _ARRAYS
            else "use a tuple or a vector of constants, static(...) with a constant index, or an array argument",
        )
    raise KernelTypeError(f"{describe(base)} cannot be indexed", hint="index arrays, vectors, matrices and tuples")


def _tuple_item(frame: Frame, base: tuple[Any, ...], index: Any) -> Any:
    known = frame.known(index)
    if not isinstance(known, int) or isinstance(known, bool):
        raise KernelTypeError(
            f"the index of a tuple must be a constant integer, got {describe(index)}",
            hint="use a vector, or an array argument, for a run-time index",
        )
    if not -len(base) <= known < len(base):
        raise KernelValueError(
            f"index {known} is out of range for {describe(base)}",
            hint=f"indices go from 0 to {len(base) - 1}, or from -{len(base)} to -1",
        )
    return base[known]


@expression(ast.Attribute)
def _attribute(frame: Frame, node: ast.Attribute) -> Any:
    base = frame.place(node.value)
    if is_literal(base):
        member = attribute_chain(frame.source, node.value)  # of an enumeration, which stands for its value
        base = Host(member) if isinstance(member, enum.Enum) else base
    found = _value_attribute(frame, base, node.attr)
    if found is not None:
        return found
    if isinstance(base, Struct) and hasattr(base.kind, node.attr):
        return _of_class(frame, base, node.attr)
    if isinstance(base, Func) and base.has_own(node.attr):
        frame.context.seen.functions[base] = None
        return frame.adopt(frame.source.attribute(base, node.attr))
    if isinstance(base, Host):
        return _host_attribute(frame, base.value, node)
    raise KernelNameError(f"{describe(base)} has no attribute {node.attr}", hint=_attribute_hint(base, node.attr))


def _value_attribute(frame: Frame, base: Any, name: str) -> Any:
    match base:
        case NoArray(type=Array() as kind):
            sizes = {"shape": (0,) * kind.ndim, "ndim": kind.ndim, "dtype": kind.dtype, "size": 0}
            return sizes.get(name)
        case View() | Chosen():
            size = {"shape": lambda: Shape(base), "ndim": lambda: base.ndim, "dtype": lambda: base.dtype}
            size["size"] = lambda: _product(frame, base)
            if isinstance(base, View) and base.param in frame.context.locals:
                size["ptr"] = lambda: ElementAddress(base)
            return size[name]() if name in size else None
        case Tile():
            sizes = {"shape": base.shape, "ndim": base.ndim, "dtype": base.dtype, "size": math.prod(base.shape)}
            return sizes.get(name)
        case ElementValue():
            dtype = element_type(base)
            part = named_part(dtype, name)
            return component_element(frame, base, [part]) if part is not None else _type_attribute(dtype, name)
        case Bundle():
            part = named_part(base.type, name)
            return extract(frame, base, [part]) if part is not None else _type_attribute(base.type, name)
        case ir.Value() | bool() | int() | float():
            return type_of(base) if name == "dtype" else None
        case Scalar():
            return _type_attribute(base, name)
        case Aggregate():
            function = vars(base).get(name)  # of a class that has it as its base
            if not isinstance(function, Func):
                return _type_attribute(base, name)
            frame.context.seen.is_open = True
            return frame.adopt(function)
        case StructValue(type=struct):
            of_class = struct.index(name) is None and name in struct.members
            return _of_class(frame, struct, name) if of_class else field_of(base, name)
        case StructView():
            found = base.dtype if name == "dtype" else _value_attribute(frame, outline(frame, base), name)
            return field_of(base, name) if found is None else found
        case _:
            return None


def _of_class(frame: Frame, struct: Struct, name: str) -> Any:
    """A constant or a function of a struct's class."""
    frame.context.seen.is_open = True
    return frame.adopt(frame.source.attribute(struct.kind, name))


def _type_attribute(dtype: Any, name: str) -> Any:
    if isinstance(dtype, Scalar):
        return dtype if name == "dtype" else None
    names = {"dtype": "dtype", "shape": "shape", "length": "length", "rows": "rows", "columns": "columns"}
    return getattr(dtype, names[name], None) if name in names and isinstance(dtype, Aggregate) else None


def _product(frame: Frame, view: View | Chosen) -> Any:
    if isinstance(view, Chosen):
        return chosen_number(frame, view, lambda one: _product(frame, one))
    result, *others = (extent(frame, view, axis) for axis in view.free)
    if others and view.param in frame.context.params:
        frame.context.sizes.append(SizeUse(view.param, view.free, frame.builder.loc))
    for value in others:
        result = frame.ops.call("mul", result, value)
    return result


_ARRAYS = "a JAX array", "an array outside of JAX"

_ARRAY_METHODS = {
    "at": "write a[i] = x, or a[i] += x to add",
    "T": "swap the indices: a[j, i]",
    **dict.fromkeys(("sum", "mean", "prod", "min", "max", "dot"), "kernels compute with elements: loop over them"),
}

def _attribute_hint(base: Any, name: str) -> str | None:
    if isinstance(base, View | Chosen):
        instead = _ARRAY_METHODS.get(name, "arrays have shape, ndim, size and dtype")
        return did_you_mean(name, ("shape", "ndim", "size", "dtype")) or instead
    # A slip of the finger: other names are rather properties that there are not.
    function = did_you_mean(name, [known for known in FUNCTIONS if abs(len(known) - len(name)) < 2])
    if function is not None:
        return f"{function} functions are called: sin(x)"
    t = element_type(base) if isinstance(base, ElementValue) else base.type if isinstance(base, Bundle) else None
    if isinstance(t, Vec):
        return "vectors have the components x, y, z, w and dtype, length, shape; several make a vector: vec2(v.x, v.y)"
    if isinstance(t, Quat | Transform):
        listed = ", ".join(t.parts)
        return f"quaternions have x, y, z, w, transforms p and q: here {listed}; and dtype, shape"
    if isinstance(t, Aggregate):
        return "matrices have components m[i, j], and dtype, shape; functions are called: transpose(m)"
    return "numbers have no attributes; functions are called: sin(x)"


def _host_attribute(frame: Frame, host: Any, node: ast.Attribute) -> Any:
    name = node.attr
    is_module = isinstance(host, types.ModuleType)
    is_ours = is_module and host.__name__.split(".")[0] == "jaxwarp"
    if is_ours and name in UNAVAILABLE:
        raise KernelNameError(f"{name} is not available in jaxwarp kernels", hint=UNAVAILABLE[name])
    try:
        value = frame.source.attribute(host, name)
    except AttributeError:
        hint = of_warp(name) if is_ours else None
        if hint is not None:
            raise KernelNameError(f"{name} is not available in jaxwarp kernels", hint=hint) from None
        what = f"module {host.__name__}" if is_module else object_text(host)
        if is_ours and by_numpy(name) != name:
            raise KernelNameError(f"{what} has no attribute {name}", hint=f"write {by_numpy(name)}") from None
        listed = "docs/builtins.md lists all functions" if is_ours else "define it before the kernel"
        raise KernelNameError(f"{what} has no attribute {name}", hint=did_you_mean(name, dir(host)) or listed) from None
    if attribute_chain(frame.source, node.value) is not host:
        frame.context.seen.is_open = True
    frame.compare(ast.unparse(node), value, lambda: getattr(host, name, None))
    return frame.adopt(value)


def absent_at(frame: Frame, value: NoArray, indices: Sequence[Any]) -> NoArray | ElementValue:
    """`a[i, j]` of an array for which None is given; a thread fails that comes to an element of it.

    Raises:
        KernelValueError: every thread comes here, or nothing says what the elements would be. Where a mesh, a volume
            and the like was made without what a function of the package asks for, it is the call that counts: the
            conditions and loops of the function itself do not ask whether it is there.
    """
    what = f"{value.name or 'the array'} is None: it has no elements"
    is_nested = frame.builder.is_nested
    if value.hint and frame.context.is_entered_nested is not None:
        is_nested = frame.context.is_entered_nested
    if value.type is None or isinstance(value.type.dtype, Struct) or not is_nested:
        raise KernelValueError(what, hint=absent_hint(value))
    left = value.type.ndim - sum(not isinstance(i, Slice) for i in indices)
    if left < 0:
        raise KernelTypeError(f"{value.name} has {value.type.ndim} axes, got {len(indices)} indices")
    if left:
        return replace(value, type=Array(value.type.dtype, left))
    text = f"{what}, and this thread uses one"
    Frame.require(frame, False, f"{text}: {value.hint}" if value.hint else text)
    return ElementValue(Chosen(value.type.dtype, 0, frame.constant(0, int32), (), (), name=value.name))


def parts_of_value(frame: Frame, value: Any) -> Any:
    """Return what `*value` and `a, b = value` take apart as a tuple: extents, components, rows; others as they are."""
    if isinstance(value, Bundle):
        return tuple(extract(frame, value, [k]) for k in range(value.type.shape[0]))
    return shape_tuple(frame, value)


def shape_tuple(frame: Frame, value: Any) -> Any:
    """A shape as a tuple of extents; other values as they are."""
    return shape_of(frame, value.view) if isinstance(value, Shape) else value
