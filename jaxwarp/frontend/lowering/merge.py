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
from jaxwarp.types import Aggregate, Scalar, Struct, bool_, float32

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
    if (views := _views_of_one(frame, a, b)) is not None:
        view, other = views
        merged = _join([unify(frame, x, y) for x, y in zip(_parts(view), _parts(other), strict=True)])
        return Merged(merged.left, merged.right, lambda leaves: _with_parts(view, merged.rebuild(leaves)))
    if not (is_dynamic(a) and is_dynamic(b)):
        raise MismatchError
    dtype = _common_type(a, b)
    left, right = typed(frame, a, dtype), typed(frame, b, dtype)
    leaves, rebuild = _split(left)
    return Merged(leaves, _split(right)[0], rebuild)


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


def _parts(view: View) -> tuple[ir.Value | View | None, ...]:
    """Return the parts that can differ between two views of one array at run time; None: an axis lacks the part."""
    place = view.within.parts if view.within is not None else ()
    return (*place, *(part for axis in view.axes for part in axis.parts), view.given)


def _with_parts(view: View, parts: Sequence[Any]) -> View:
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
    if isinstance(value, View):
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
    if isinstance(value, View):
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
    raise MismatchError


def type_hint(a: Any, b: Any, repair: str) -> str:
    """Return a hint at what to do about a variable that would have to be both `a` and `b`."""
    if is_dynamic(a) and is_dynamic(b):
        return repair
    return "only values of one type, and parts of one array, can be chosen while the kernel runs"


def type_text(value: Any) -> str:
    """The type of a value in a message about a variable that changes it."""
    if isinstance(value, StructView):
        return f"the array {value.name}"
    if isinstance(value, View):
        return f"a part of {value.param.name}" if value.ndim < len(value.axes) else f"the array {value.param.name}"
    return repr(type_of(value)) if is_dynamic(value) else describe(value)
