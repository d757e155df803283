"""Components of vectors and matrices, by constant or run-time index, and parts that have a name: `v.x`, `t.p`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from jaxwarp.builtins.language.values import Bundle
from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.frontend.lowering.frame import Frame
from jaxwarp.frontend.lowering.memory import element_type
from jaxwarp.frontend.lowering.values import ElementValue, Slice, describe
from jaxwarp.ir import nodes as ir
from jaxwarp.types import Aggregate, Mat, NamedPart, Scalar, Vec, int32


def named_part(dtype: Any, name: str) -> int | NamedPart | None:
    """Return what `.x` or `.p` means: the index of a component, or a part of several of them; None for other names."""
    if not isinstance(dtype, Aggregate):
        return None
    part = dtype.parts.get(name)
    if part is None and isinstance(dtype, Vec) and len(name) == 1 and name in "xyzw":
        raise KernelTypeError(
            f"{dtype} has {dtype.length} components, there is no .{name}",
            hint=f"its components are {', '.join(dtype.parts)}",
        )
    return part if part is None or isinstance(part.dtype, Aggregate) else part.start


def position(frame: Frame, index: Any, axis: int, dtype: Aggregate, *, is_tested: bool = True) -> int | ir.Value:
    """A component index, which counts from the end if it is negative.

    A constant is checked. Debug mode tests others, if `is_tested`: those of an array's element are indices of the
    array. Among these are constants that unrolling makes, in code that a condition may skip.
    """
    known, count = frame.known(index), dtype.shape[axis]
    is_skipped = isinstance(index, ir.Value) and isinstance(known, int) and known >= count and frame.builder.is_nested
    if known is None or is_skipped:
        found = frame.index(index, f"an index of {dtype!r}")
        found = frame.from_end(index, found, lambda: frame.constant(count, int32))
        if is_tested:
            test_inside(frame, found, frame.constant(count, found.type), f"axis {axis} of a {dtype!r}")
        return found
    if not isinstance(known, int) or isinstance(known, bool):
        raise KernelTypeError(
            f"an index of {dtype!r} must be an integer, got {describe(index)}",
            hint="write an integer, or convert a value with int(...)",
        )
    if not -count <= known < count:
        raise KernelValueError(
            f"index {known} is out of range for {dtype!r}",
            hint=f"indices go from 0 to {count - 1}, or from -{count} to -1",
        )
    return known % count


def test_inside(frame: Frame, index: ir.Value, extent: ir.Value, what: str) -> None:
    """Says where an index is not below an extent of its type; only debug mode and the interpreter look."""
    if frame.context.ruled:  # a derivative: its function is tested
        return
    texts = ("index ", f" of {what} is out of range; its extent is ", "")
    frame.builder.append(ir.Tell(ir.INSIDE, texts, ("%d", "%d"), (index, extent), loc=frame.builder.loc))


def positions(
    frame: Frame, dtype: Scalar | Aggregate, indices: Sequence[Any], *, are_tested: bool = True
) -> tuple[int | ir.Value, ...]:
    """Component indices of a type."""
    if isinstance(dtype, Scalar):
        raise KernelTypeError(f"{dtype!r} has no components", hint="leave the index out")
    if len(indices) > len(dtype.shape):
        count = len(dtype.shape)
        raise KernelTypeError(
            f"{dtype!r} has {count} ax{'is' if count == 1 else 'es'}, "
            f"got {len(indices)} ind{'ex' if len(indices) == 1 else 'ices'}",
            hint="leave out what is too many",
        )
    return tuple(position(frame, i, axis, dtype, is_tested=are_tested) for axis, i in enumerate(indices))


def component_element(frame: Frame, element: ElementValue, indices: Sequence[Any]) -> ElementValue:
    """A component, a row, or a part with a name, of an array element in memory."""
    start = element.part.start if element.part else 0
    if indices and isinstance(indices[0], NamedPart):
        part = indices[0]
        return ElementValue(element.view, element.component, NamedPart(part.dtype, start + part.start))
    chosen = positions(frame, element_type(element), indices, are_tested=False)
    values = [frame.index(frame.ops.binary("add", i, start) if start else i, "an index") for i in chosen]
    return ElementValue(element.view, (*element.component, *values))


def extract(frame: Frame, value: Bundle, indices: Sequence[Any], *, are_tested: bool = True) -> ir.Value | Bundle:
    """`v[i]`, `m[i, j]`, `m[i]`."""
    dtype = value.type
    if isinstance(indices[0], NamedPart):
        part = indices[0]
        return Bundle(part.dtype, value.values[part.start : part.start + part.size])
    chosen = positions(frame, dtype, indices, are_tested=are_tested)
    if not isinstance(dtype, Mat):
        return _pick(frame, chosen[0], value.values)
    rows = [Bundle(Vec(dtype.columns, dtype.dtype), row) for row in value.rows]
    row = _pick(frame, chosen[0], rows)
    return row if len(chosen) == 1 else _pick(frame, chosen[1], row.values)


def insert(frame: Frame, value: Bundle, indices: Sequence[Any], part: Any, *, are_tested: bool = True) -> Bundle:
    """The bundle with one component, one row, or one part with a name, replaced."""
    dtype = value.type
    if isinstance(indices[0], NamedPart):
        place = indices[0]
        new = _fitting(frame, part, place.dtype, dtype)
        return Bundle(dtype, (*value.values[: place.start], *new.values, *value.values[place.start + place.size :]))
    chosen = positions(frame, dtype, indices, are_tested=are_tested)
    if isinstance(dtype, Mat) and len(chosen) == 1:
        row = _fitting(frame, part, Vec(dtype.columns, dtype.dtype), dtype)
        return _replace(frame, value, chosen, lambda column: row.values[column])
    new = _fitting(frame, part, dtype.dtype, dtype)
    return _replace(frame, value, chosen, lambda _: new)


def known_slice(
    frame: Frame, index: Slice, what: str, because: str = "the length of a slice is part of its type"
) -> slice:
    """A slice whose bounds are known before the kernel runs.

    Raises:
        KernelTypeError: they are not.
    """
    bounds = [frame.known(b) if b is not None else None for b in (index.start, index.stop, index.step)]
    for given, known in zip((index.start, index.stop, index.step), bounds, strict=True):
        if given is not None and (not isinstance(known, int) or isinstance(known, bool)):
            raise KernelTypeError(
                f"the bounds of a slice of {what} must be constant integers, got {describe(given)}",
                hint=f"{because}: write numbers, or loop over the {'elements' if what == 'a tile' else 'components'}",
            )
    if bounds[2] == 0:
        raise KernelValueError("Slice step cannot be zero", hint="leave it out")
    return slice(*bounds)


def sectioned(
    frame: Frame, dtype: Scalar | Aggregate, indices: Sequence[Any], *, are_tested: bool = True
) -> tuple[Aggregate, list[tuple[Any, ...]]]:
    """The type of `v[1:3]`, `m[0:2, 1]`, `m[:, ::-1]`, and the indices of its components, in order."""
    if isinstance(dtype, Scalar) or len(indices) > len(dtype.shape):
        positions(frame, dtype, indices)  # says what is wrong
    assert isinstance(dtype, Aggregate)
    axes: list[Sequence[Any]] = []
    shape: list[int] = []
    left_out = [Slice(None, None)] * (len(dtype.shape) - len(indices))
    for axis, (count, index) in enumerate(zip(dtype.shape, [*indices, *left_out], strict=True)):
        if not isinstance(index, Slice):
            axes.append((position(frame, index, axis, dtype, is_tested=are_tested),))
            continue
        axes.append(range(count)[known_slice(frame, index, repr(dtype))])
        shape.append(len(axes[-1]))
    made = Vec(shape[0], dtype.dtype) if len(shape) == 1 else Mat(shape[0], shape[1], dtype.dtype)
    return made, list(itertools.product(*axes))


def section(frame: Frame, value: Bundle, indices: Sequence[Any]) -> Bundle:
    """The components in a slice, as a vector or matrix."""
    dtype, chosen = sectioned(frame, value.type, indices)
    return Bundle(dtype, tuple(extract(frame, value, at, are_tested=False) for at in chosen))  # pyright: ignore


def section_values(frame: Frame, dtype: Aggregate, value: Any) -> Sequence[ir.Value]:
    """The components of what is assigned to a slice of this type; a number is assigned to all of them."""
    if not isinstance(value, Bundle):
        return (_fitting(frame, value, dtype.dtype, dtype),) * dtype.size
    if value.type.shape != dtype.shape or value.dtype != dtype.dtype:
        raise KernelTypeError(
            f"the slice has the type {dtype!r}, got {describe(value)}", hint=f"assign a {dtype!r}, or a {dtype.dtype!r}"
        )
    return value.values


def _fitting(frame: Frame, part: Any, dtype: Scalar | Aggregate, whole: Aggregate) -> Any:
    try:
        return frame.typed(part, dtype)
    except KernelTypeError as error:
        what = "component" if isinstance(dtype, Scalar) else "row" if isinstance(whole, Mat) else "part"
        raise KernelTypeError(
            f"a {what} of {whole!r} is {dtype!r}, got {describe(part)}",
            hint=error.hint,
        ) from None


def _pick(frame: Frame, index: int | ir.Value, choices: Sequence[Any]) -> Any:
    """One of the choices: a chain of selects for a run-time index."""
    if isinstance(index, int):
        return choices[index]
    result = choices[-1]
    for k in range(len(choices) - 2, -1, -1):
        result = frame.ops.select(frame.ops.compare("eq", index, k), choices[k], result)
    return result


def _replace(frame: Frame, value: Bundle, chosen: Sequence[int | ir.Value], new: Callable[[int], ir.Value]) -> Bundle:
    """Replaces the components at the chosen indices; `new` gives the value for a column."""
    dtype, ops = value.type, frame.ops
    tests: dict[tuple[int, int], Any] = {}

    def holds(axis: int, index: int | ir.Value, k: int) -> Any:
        if isinstance(index, int):
            return index == k
        if (axis, k) not in tests:
            tests[axis, k] = ops.compare("eq", index, k)
        return tests[axis, k]

    values = []
    width = dtype.shape[-1]
    for n, old in enumerate(value.values):
        row, column = divmod(n, width)
        where = (row, column) if isinstance(dtype, Mat) else (column,)
        conditions = [holds(a, i, where[a]) for a, i in enumerate(chosen)]
        if any(c is False for c in conditions):
            values.append(old)
            continue
        runtime = [c for c in conditions if c is not True]
        result = new(column)
        for condition in reversed(runtime):
            result = ops.select(condition, result, old)
        values.append(result)
    return Bundle(dtype, tuple(values))
