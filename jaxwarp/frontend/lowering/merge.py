"""One value from two: what a variable holds after the branches of a condition, or the iterations of a loop.

A value is taken apart into its scalars (*leaves*); literals among them become constants of the type they must have.
Static parts (types, functions, array views) must be the same on every path.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from jaxwarp.builtins.language.values import Bundle
from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.frontend.lowering.frame import Frame
from jaxwarp.frontend.lowering.values import (
    Axis,
    Chosen,
    InMemory,
    NoArray,
    StructValue,
    StructView,
    View,
    describe,
    is_dynamic,
    is_literal,
    type_of,
)
from jaxwarp.frontend.lowering.views import extent
from jaxwarp.ir import nodes as ir
from jaxwarp.types import Aggregate, Scalar, Struct, bool_, float32, int32

Rebuild = Callable[[Sequence[ir.Value]], Any]
Paths = frozenset[tuple[str, ...]]
"""Parts of a struct, by the names of fields that lead to them."""


class MismatchError(Exception):
    """The two values cannot be one variable.

    `fields` names the part of a struct that is the reason, and `pair` what the two have there.
    """

    def __init__(self, fields: str = "", pair: tuple[Any, Any] | None = None):
        self.fields = fields
        self.pair = pair


def same(a: Any, b: Any) -> bool:
    """Known to be one value on both paths."""
    if a is b:
        return True
    if is_literal(a) and is_literal(b):
        return type(a) is type(b) and repr(a) == repr(b)  # 0.0 is not -0.0
    if isinstance(a, tuple) and isinstance(b, tuple):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    if isinstance(a, Bundle) and isinstance(b, Bundle):
        return a.type == b.type and all(x is y for x, y in zip(a.values, b.values, strict=True))
    if isinstance(a, StructValue) and isinstance(b, StructValue):
        return a.type == b.type and same(a.values, b.values)
    if isinstance(a, StructView) and isinstance(b, StructView):
        return a.type == b.type and same(a.views, b.views)
    if isinstance(a, (Scalar, Aggregate, Struct)):
        return a == b
    if isinstance(a, NoArray) and isinstance(b, NoArray):
        return a.type == b.type
    return False


@dataclass(frozen=True)
class Merged:
    """Leaves of both values, pairwise of one type, and how to build the value from one leaf of each pair."""

    left: tuple[ir.Value, ...]
    right: tuple[ir.Value, ...]
    rebuild: Rebuild


def unify(frame: Frame, a: Any, b: Any) -> Merged:
    """Brings two values to one type.

    Raises:
        MismatchError: they have none in common.
    """
    if same(a, b):
        return Merged((), (), lambda _: a)
    if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
        return _join([unify(frame, x, y) for x, y in zip(a, b, strict=True)])
    if isinstance(a, StructValue) and isinstance(b, StructValue) and a.type == b.type:
        merged = _join([_field(k, unify, frame, x, y) for k, x, y in _fields(a, b)])
        return Merged(merged.left, merged.right, lambda leaves: StructValue(a.type, merged.rebuild(leaves)))
    if isinstance(a, StructView) and isinstance(b, StructView) and a.type == b.type:
        merged = _join([unify(frame, x, y) for x, y in zip(a.views, b.views, strict=True)])
        return Merged(merged.left, merged.right, lambda leaves: StructView(a.dtype, a.ndim, merged.rebuild(leaves)))
    if (arrays := _arrays_alike(frame, a, b)) is not None:
        one, other = arrays
        merged = _join([unify(frame, x, y) for x, y in zip(_parts(one), _parts(other), strict=True)])
        return Merged(merged.left, merged.right, lambda leaves: _with_parts(one, merged.rebuild(leaves)))
    if not (is_dynamic(a) and is_dynamic(b)):
        raise MismatchError
    dtype = _common_type(a, b)
    left, right = typed(frame, a, dtype), typed(frame, b, dtype)
    leaves, rebuild = _split(left)
    return Merged(leaves, _split(right)[0], rebuild)


def _arrays_alike(frame: Frame, a: Any, b: Any) -> tuple[View, View] | tuple[Chosen, Chosen] | None:
    """Two arrays, or one and None, as values that differ in nothing but what may differ at run time."""
    return _views_of_one(frame, a, b) or _parts_of_several(frame, a, b)


def _views_of_one(frame: Frame, a: Any, b: Any) -> tuple[View, View] | None:
    """Two parts of one array, or one and None, as parts of it that say whether they are there."""
    if isinstance(a, NoArray) and isinstance(b, View) and a.type in (None, b.type):
        a = zeros_like(frame, replace(b, given=frame.builder.const(False, bool_)))
    elif isinstance(b, NoArray) and isinstance(a, View) and b.type in (None, a.type):
        b = zeros_like(frame, replace(a, given=frame.builder.const(False, bool_)))
    if not (isinstance(a, View) and isinstance(b, View) and a.param is b.param and a.dtype == b.dtype):
        return None
    a, b = _alike(frame, a, b), _alike(frame, b, a)
    if a.given is not None or b.given is not None:
        a, b = (v if v.given is not None else replace(v, given=frame.builder.const(True, bool_)) for v in (a, b))
    return a, b


def _parts_of_several(frame: Frame, a: Any, b: Any) -> tuple[Chosen, Chosen] | None:
    """Parts of several arrays of one type, or one and None, as choices from the same arrays."""
    kinds = View | Chosen | NoArray
    if not (isinstance(a, kinds) and isinstance(b, kinds)) or (isinstance(a, NoArray) and isinstance(b, NoArray)):
        return None
    if a.type != b.type and not any(isinstance(v, NoArray) and v.type is None for v in (a, b)):
        return None
    found = {view.param: view for value in (b, a) for view in _views(value)}
    if any(v.within is not None or any(axis.through is not None for axis in v.axes) for v in found.values()):
        return None
    params = list(dict.fromkeys(view.param for value in (a, b) for view in _views(value)))
    left, right = ({view.param: view for view in _views(value)} for value in (a, b))
    pairs = [_as_alike(frame, left.get(p), right.get(p)) for p in params]
    which = [value.which if isinstance(value, Chosen) else _number(frame, value, params) for value in (a, b)]
    given = [_is_given(frame, value, other) for value, other in ((a, b), (b, a))]
    dtype, ndim = found[params[0]].dtype, found[params[0]].ndim
    name, numbers = " or ".join(p.name for p in params), tuple(number_of(frame, p) for p in params)
    first, second = (
        Chosen(dtype, ndim, number, tuple(pair[k] for pair in pairs), numbers, there, name)
        for k, (number, there) in enumerate(zip(which, given, strict=True))
    )
    return first, second


def _views(value: View | Chosen | NoArray) -> tuple[View, ...]:
    """The parts of arrays that a value may be, which do not say whether there is one."""
    match value:
        case View():
            return (replace(value, given=None),)
        case Chosen():
            return value.views
        case NoArray():
            return ()


def _as_alike(frame: Frame, a: View | None, b: View | None) -> tuple[View, View]:
    """Two parts of one array with the same things that may differ; where one is missing, any part."""
    if a is None or b is None:
        there = a if a is not None else b
        filler = zeros_like(frame, there)
        assert there is not None
        return (there, filler) if a is not None else (filler, there)
    return _alike(frame, a, b), _alike(frame, b, a)


def _number(frame: Frame, value: View | NoArray, params: list[ir.Param]) -> ir.Value:
    """The number of the array that a value is a part of; of None, that of any."""
    (param, *_) = [view.param for view in _views(value)] or params
    return frame.builder.const(number_of(frame, param), int32)


def number_of(frame: Frame, param: ir.Param) -> int:
    """The number of an array among those that are chosen from in the kernel."""
    numbers = frame.context.numbers
    return numbers.setdefault(param, len(numbers))


def _is_given(frame: Frame, value: Any, other: Any) -> ir.Value | None:
    """The condition that a value is an array and not None; None: both values are."""
    if all(not isinstance(v, NoArray) and v.given is None for v in (value, other)):
        return None
    given = None if isinstance(value, NoArray) else value.given
    return frame.builder.const(not isinstance(value, NoArray), bool_) if given is None else given


def _alike(frame: Frame, view: View, other: View) -> View:
    """A view that says of its axes what the other one does: where they begin, how long they are, by which step."""
    axes = list(view.axes)
    for k, (axis, there) in enumerate(zip(view.axes, other.axes, strict=True)):
        if axis.index is None and there.index is None and axis.through is None:
            offset, step = (
                frame.builder.const(default, found.type) if own is None and found is not None else own
                for default, own, found in ((0, axis.offset, there.offset), (1, axis.step, there.step))
            )
            length = extent(frame, view, k) if axis.extent is None and there.extent is not None else axis.extent
            axes[k] = replace(axis, offset=offset, extent=length, step=step)
    return replace(view, axes=tuple(axes))


def _fields(a: StructValue, b: StructValue) -> list[tuple[str, Any, Any]]:
    return [(f.name, x, y) for f, x, y in zip(a.type.fields, a.values, b.values, strict=True)]


def _field(name: str, match: Callable[..., Any], frame: Frame, a: Any, b: Any) -> Any:
    """Matches a field; an error knows its name."""
    try:
        return match(frame, a, b)
    except MismatchError as error:
        raise MismatchError(f".{name}{error.fields}", error.pair or (a, b)) from None


def _join(parts: list[Merged]) -> Merged:
    counts = [len(p.left) for p in parts]

    def rebuild(leaves: Sequence[ir.Value]) -> Any:
        remaining = iter(leaves)
        return tuple(p.rebuild([next(remaining) for _ in range(n)]) for p, n in zip(parts, counts, strict=True))

    left = tuple(v for p in parts for v in p.left)
    right = tuple(v for p in parts for v in p.right)
    return Merged(left, right, rebuild)


def _parts(view: View | Chosen) -> tuple[Any, ...]:
    """Return the parts that can differ between two views of the same arrays at run time; None: an axis lacks it."""
    if isinstance(view, Chosen):
        return (view.which, view.given, *map(_parts, view.views))
    place = view.within.parts if view.within is not None else ()
    return (*place, *(part for axis in view.axes for part in axis.parts), view.given)


def _with_parts(view: Any, parts: Sequence[Any]) -> Any:
    if isinstance(view, Chosen):
        which, given, *own = parts
        views = tuple(_with_parts(v, p) for v, p in zip(view.views, own, strict=True))
        return replace(view, which=which, given=given, views=views)
    place = len(view.within.parts) if view.within is not None else 0
    within = InMemory(*parts[:place]) if place else None
    *parts, given = parts[place:]
    count = len(parts) // len(view.axes)
    axes = tuple(Axis(*parts[k : k + count]) for k in range(0, len(parts), count))
    return View(view.param, view.dtype, axes, given, within)


def _common_type(a: Any, b: Any) -> Any:
    if is_literal(a) and is_literal(b):
        types = type_of(a), type_of(b)
        if types[0] != types[1] and bool_ in types:
            raise MismatchError
        return types[0] if types[0] == types[1] else float32
    if is_literal(a):
        a, b = b, a
    if not is_literal(b) and a.type != b.type:
        raise MismatchError
    return a.type


def typed(frame: Frame, value: Any, dtype: Any) -> Any:
    """A value as `dtype`, which only a literal may have to adopt.

    Raises:
        MismatchError: the value has another type, or is a literal that `dtype` cannot hold.
    """
    if not is_literal(value):
        if type_of(value) != dtype:
            raise MismatchError
        return value
    if not isinstance(dtype, Scalar) or isinstance(value, bool) != (dtype is bool_):
        raise MismatchError
    try:
        return frame.typed(value, dtype)
    except (KernelTypeError, KernelValueError) as error:
        raise MismatchError from error


def zeros_like(frame: Frame, value: Any) -> Any:
    """Some value of the same type: stands where no path reads it."""
    if isinstance(value, View | Chosen):
        return _with_parts(value, zeros_like(frame, _parts(value)))
    if isinstance(value, tuple):
        return tuple(zeros_like(frame, v) for v in value)
    if isinstance(value, StructValue):
        return StructValue(value.type, zeros_like(frame, value.values))
    if isinstance(value, StructView):
        return StructView(value.dtype, value.ndim, zeros_like(frame, value.views))
    if isinstance(value, Bundle):
        return Bundle(value.type, tuple(frame.builder.const(0, v.type) for v in value.values))
    if isinstance(value, ir.Value):
        return frame.builder.const(0, value.type)
    return value


def nothing_like(frame: Frame, value: Any) -> Any:
    """The result of a path that returns nothing: zero of the type of `value`."""
    if isinstance(value, tuple):
        return tuple(nothing_like(frame, v) for v in value)
    return type(value)(0) if is_literal(value) else zeros_like(frame, value)


@dataclass(frozen=True)
class Carried:
    """A variable that a loop hands from iteration to iteration: its value on entry, with literals typed."""

    name: str
    entry: Any
    leaves: tuple[ir.Value, ...]
    rebuild: Rebuild

    paths: Paths | None

    @classmethod
    def of(cls, frame: Frame, name: str, value: Any, paths: Paths | None = None) -> Carried:
        """`paths`: the parts of a struct that the loop may change; the others stay as they are. None: all of it."""
        entry = _typed_entry(frame, value)
        leaves, rebuild = _split(entry, paths)
        return cls(name, entry, leaves, rebuild, paths)

    def collect(self, frame: Frame, value: Any) -> tuple[ir.Value, ...]:
        """The leaves of the variable's value at the end of an iteration.

        Raises:
            MismatchError: its type is not that on entry.
        """
        return _matching(frame, self.entry, value, self.paths)


def _typed_entry(frame: Frame, value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(_typed_entry(frame, v) for v in value)
    return frame.typed(value)


def _inner(paths: Paths | None, name: str) -> Paths | None:
    """The parts of a field that may change."""
    if paths is None or any(p[:1] == (name,) and len(p) == 1 for p in paths):
        return None
    return frozenset(p[1:] for p in paths if p[0] == name)


def taken_apart(value: Any) -> tuple[tuple[ir.Value, ...], Rebuild]:
    """The leaves of a value, and how to build it from others of their types."""
    return _split(value)


def _split(value: Any, paths: Paths | None = None) -> tuple[tuple[ir.Value, ...], Rebuild]:
    if paths is not None and not paths:
        return (), lambda _: value
    if isinstance(value, StructValue):
        parts = [_split(v, _inner(paths, f.name)) for f, v in zip(value.type.fields, value.values, strict=True)]
        joined = _join([Merged(leaves, leaves, rebuild) for leaves, rebuild in parts])
        return joined.left, lambda leaves: StructValue(value.type, joined.rebuild(leaves))
    if isinstance(value, StructView):
        leaves, rebuild = _split(value.views)
        return leaves, lambda values: StructView(value.dtype, value.ndim, rebuild(values))
    if isinstance(value, ir.Value):
        return (value,), lambda leaves: leaves[0]
    if isinstance(value, Bundle):
        return value.values, lambda leaves: Bundle(value.type, tuple(leaves))
    if isinstance(value, tuple):
        parts = [_split(v) for v in value]
        joined = _join([Merged(leaves, leaves, rebuild) for leaves, rebuild in parts])
        return joined.left, joined.rebuild
    if isinstance(value, View | Chosen):
        leaves, rebuild = _split(_parts(value))
        return leaves, lambda values: _with_parts(value, rebuild(values))
    return (), lambda _: value


def _matching(frame: Frame, entry: Any, value: Any, paths: Paths | None = None) -> tuple[ir.Value, ...]:
    if paths is not None and not paths:
        if not same(entry, value):
            what = "a field of a struct is changed in this loop by a function that has no fixed name"
            raise KernelTypeError(what, hint="name the function, or assign to the field in the loop")
        return ()
    if isinstance(entry, StructValue) and isinstance(value, StructValue) and entry.type == value.type:
        found: list[ir.Value] = []
        for name, e, x in _fields(entry, value):
            inner = _inner(paths, name)
            found += _field(name, partial(_matching, paths=inner), frame, e, x)
        return tuple(found)
    if isinstance(entry, StructView) and isinstance(value, StructView) and entry.type == value.type:
        return _matching(frame, entry.views, value.views)
    if isinstance(entry, tuple) and isinstance(value, tuple) and len(entry) == len(value):
        return tuple(v for e, x in zip(entry, value, strict=True) for v in _matching(frame, e, x))
    if isinstance(entry, (ir.Value, Bundle)) and is_dynamic(value):
        return _split(typed(frame, value, entry.type))[0]
    if isinstance(entry, View) and isinstance(value, View) and (entry.param, entry.dtype) == (value.param, value.dtype):
        return _matching(frame, _parts(entry), _parts(value))
    if same(entry, value):
        return ()
    if isinstance(entry, View | Chosen) and (arrays := _arrays_alike(frame, entry, value)) is not None:
        one, other = arrays
        if structure(one) == structure(entry):
            return _split(other)[0]
    raise MismatchError


def structure(value: Any) -> Any:
    """Return what is known of arrays in a value before the launch: which they may be, and what of them may differ."""
    match value:
        case View() | Chosen():
            arrays = value.numbers if isinstance(value, Chosen) else (value.param,)
            return type(value), arrays, tuple(map(structure, _parts(value)))
        case tuple():
            return tuple(map(structure, value))
        case StructValue(values=parts) | StructView(views=parts):
            return tuple(map(structure, parts))
        case NoArray():
            return NoArray
        case _:
            return value is None


def holds_array(value: Any) -> bool:
    """Return whether a value is an array, or has one in it: what an iteration puts in its place may be another one."""
    match value:
        case View() | Chosen() | NoArray() | StructView():
            return True
        case tuple():
            return any(map(holds_array, value))
        case StructValue(values=parts):
            return any(map(holds_array, parts))
        case _:
            return False


def type_hint(a: Any, b: Any, repair: str) -> str:
    """Return a hint at what to do about a variable that would have to be both `a` and `b`."""
    if is_dynamic(a) and is_dynamic(b):
        return repair
    return "use two names: a variable has values of one type, or arrays of one type"


def type_text(value: Any) -> str:
    """The type of a value in a message about a variable that changes it."""
    if isinstance(value, StructView):
        return f"the array {value.name}"
    if isinstance(value, Chosen):
        return f"a part of {value.name} ({describe(value)})"
    if isinstance(value, View):
        what = "a part of" if value.ndim < len(value.axes) else "the array"
        return f"{what} {value.param.name} ({describe(value)})"
    if isinstance(value, tuple):
        return f"a tuple ({', '.join(map(type_text, value))})"
    return repr(type_of(value)) if is_dynamic(value) else describe(value)
