"""`GraphMode.WARP`: what a function under `jax_callable` does is written down, and becomes one operation of JAX."""

from __future__ import annotations

import dataclasses
import math
import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import jax
import numpy as np

from jaxwarp import compat
from jaxwarp.boundary import boundaries, located
from jaxwarp.errors import KernelTypeError
from jaxwarp.ffi.programs.captured import (
    BufferView,
    CallOp,
    CapturedProgram,
    ComputeOp,
    CopyOp,
    FillOp,
    IfOp,
    LaunchOp,
    LoopOp,
    Op,
    OutputSlot,
    Shape,
    views_of,
)
from jaxwarp.ffi.programs.graph import bind_graph
from jaxwarp.ffi.programs.python_call import PythonCall
from jaxwarp.ffi.programs.traced_array import ArrayHandle, as_value_in_trees, filled
from jaxwarp.ffi.programs.tracing import Program
from jaxwarp.launches.arguments.argument import Given
from jaxwarp.launches.spec import OUTPUT, LaunchSpec, is_static
from jaxwarp.memory.indexing import require_index
from jaxwarp.memory.region import Region, dense_region
from jaxwarp.types import Array, Element, element_scalar, element_shape

_OPERAND, _RESULT, _SCRATCH = range(3)


def _no_value(what: str) -> KernelTypeError:
    return KernelTypeError(
        f"{what} has no value under GraphMode.WARP: functions of JAX cannot be part of its graph",
        hint="use GraphMode.JAX, or compute it before the callable and pass it as an argument",
    )


@boundaries
class RecordedArray(ArrayHandle):
    """An array of a program that is being recorded: a contiguous part of a buffer."""

    def __init__(self, recorder: CallableRecorder, name: str, type_: Array, view: BufferView, is_writable: bool):
        self.name, self.type, self.view, self.is_writable = name, type_, view, is_writable
        self.recorder = recorder
        self._root: ArrayHandle = self
        self._made_in = compat.trace_state()

    @property
    def value(self) -> NoReturn:
        raise located(_no_value(f"array '{self.name}'"), sys._getframe(1))

    @property
    def held(self) -> NoReturn:
        raise located(_no_value(f"array '{self.name}'"), sys._getframe(1))

    @property
    def root(self) -> ArrayHandle:
        return self._root

    @property
    def full_shape(self) -> Shape:
        return self.view.shape

    @property
    def place(self) -> Region | None:
        is_known = all(map(is_static, (self.view.offset, *self.view.shape)))
        return dense_region(1 + self.view.offset, np.dtype(np.int8), self.view.shape) if is_known else None

    def describe(self) -> Given:
        return Given("handle", self.view.shape, self.view.dtype, element=self.type.dtype)

    def store(self, source: Any) -> None:
        self.require_writable("written")
        self.recorder.copy(self.view, self.recorder.own(source) if isinstance(source, RecordedArray) else source)

    def fill_(self, value: Any) -> ArrayHandle:
        self.require_writable("written")
        self.recorder.fill(self.view, self.dtype, value, f"array '{self.name}'")
        return self

    def __getitem__(self, index: Any) -> ArrayHandle:
        where = f"array '{self.name}'"
        part, offset = _part(where, self.full_shape, require_index(where, self.shape, index))
        is_whole = self.view.is_whole and part == self.view.shape
        view = dataclasses.replace(self.view, offset=self.view.offset + offset, shape=part, is_whole=is_whole)
        type_ = Array(self.dtype, len(part) - (len(self.full_shape) - self.ndim))
        made = RecordedArray(self.recorder, f"{self.name}[...]", type_, view, self.is_writable)
        made._root = self.root
        return made

    def _placed(self, type_: Array, full_shape: Shape) -> ArrayHandle:
        made = RecordedArray(
            self.recorder, self.name, type_, dataclasses.replace(self.view, shape=full_shape, is_whole=False),
            self.is_writable,
        )  # fmt: skip
        made._root = self.root
        return made

    def __setitem__(self, index: Any, value: Any) -> None:
        self[index].assign(value)


as_value_in_trees(RecordedArray)


def _part(where: str, full_shape: Shape, index: tuple[Any, ...]) -> tuple[Shape, int]:
    """Shape and offset of a part that is contiguous."""
    if not all(map(is_static, full_shape)):
        raise KernelTypeError(
            f"{where}: parts of an array of symbolic extents need GraphMode.JAX", hint="leave graph_mode out"
        )
    # Before an axis that is not whole, there may be one item only.
    offset, extents, is_contiguous = 0, [], True
    for axis, extent in enumerate(full_shape):
        stride = math.prod(full_shape[axis + 1 :])
        given = index[axis] if axis < len(index) else slice(None)
        if not isinstance(given, slice):
            is_contiguous &= extent == 1 or math.prod(extents) == 1
            offset += (int(given) % extent) * stride
            continue
        start, _, step = given.indices(extent)
        count = len(range(*given.indices(extent)))
        is_contiguous &= count <= 1 or step == 1
        is_contiguous &= count == extent or math.prod(extents) == 1
        offset += start * stride if count else 0
        extents.append(count)
    if not is_contiguous and math.prod(extents):
        raise KernelTypeError(
            f"{where}: this part is not contiguous, which GraphMode.WARP needs",
            hint="take parts by integers of the leading axes and one slice behind them, or use GraphMode.JAX",
        )
    return tuple(extents), offset


class CallableRecorder(Program):
    """Writes down launches, copies and fills. Buffers are numbered as they come, by kind and place only at the end."""

    def __init__(self, base: Program, graph_cache_max: int):
        super().__init__(base.name, base.vmap_method, base.has_side_effect)
        self._graph_cache_max = graph_cache_max
        self._kinds: list[int] = []
        self._views: list[BufferView] = []
        self._ops: list[Op] = []
        self._values: list[Any] = []  # of the operands
        self._aliases: list[tuple[int, int]] = []
        self._captured: dict[Any, BufferView] = {}

    def _buffer(self, kind: int, shape: Shape, dtype: Any) -> BufferView:
        view = BufferView(len(self._kinds), 0, tuple(shape), np.dtype(dtype), is_whole=True)
        self._kinds.append(kind)
        self._views.append(view)
        return view

    def _operand(self, value: Any) -> BufferView:
        self._values.append(value)
        return self._buffer(_OPERAND, value.shape, value.dtype)

    def _capture(self, value: Any) -> BufferView:
        """The view of a JAX value or NumPy array that comes from outside."""
        if isinstance(value, np.ndarray):
            return self._operand(value.copy())  # it may change before the program is made
        key = (type(value), value.tobytes()) if isinstance(value, np.generic) else id(value)
        view = self._captured.get(key)
        if view is None:
            view = self._captured[key] = self._operand(value)
        return view

    def array(self, name: str, type_: Array, value: Any, is_writable: bool) -> ArrayHandle:
        view = self._operand(value)
        if is_writable:
            operand, view = view.buffer, self._buffer(_RESULT, view.shape, view.dtype)
            self._aliases.append((operand, view.buffer))
        return RecordedArray(self, name, type_, view, is_writable)

    def output(self, name: str, type_: Array, shape: Shape) -> ArrayHandle:
        return self._new(_RESULT, name, type_, shape, 0)

    def filled(self, name: str, type_: Array, shape: Shape, value: Any) -> ArrayHandle:
        return self._new(_SCRATCH, name, type_, shape, value)

    def _new(self, kind: int, name: str, type_: Array, shape: Shape, value: Any) -> ArrayHandle:
        view = self._buffer(kind, shape, element_scalar(type_.dtype).numpy)
        self.fill(view, type_.dtype, value, name)
        return RecordedArray(self, name, type_, view, is_writable=True)

    def clone(self, source: ArrayHandle) -> ArrayHandle:
        assert isinstance(source, RecordedArray)
        view = self._buffer(_SCRATCH, source.view.shape, source.view.dtype)
        self.copy(view, self.own(source))
        return RecordedArray(self, f"clone of {source.name}", source.type, view, is_writable=True)

    def own(self, array: RecordedArray) -> BufferView:
        """The view of an array of this call: buffers of another one have numbers that mean others here."""
        if array.recorder is not self:
            raise KernelTypeError(f"array '{array.name}' belongs to another call", hint="pass it as an argument")
        return array.view

    def fill(self, to: BufferView, element: Element, value: Any, where: str) -> None:
        scalar = _as_pattern(value, element)
        if scalar is not None:
            self._ops.append(FillOp(to, scalar))
        else:
            self.copy(to, filled(to.shape, element, value, where))

    def copy(self, to: BufferView, source: BufferView | Any) -> None:
        """Copies a view, or a value from outside."""
        if not isinstance(source, BufferView):
            source = self._capture(source)
        if to == source:
            return
        if to.buffer == source.buffer and not _are_apart(to, source):
            between = self._buffer(_SCRATCH, source.shape, source.dtype)
            self._ops.append(CopyOp(between, source))
            source = between
        self._ops.append(CopyOp(to, source))

    def launch(self, launch: LaunchSpec, operands: Sequence[Any], written: Sequence[ArrayHandle]) -> None:
        self._ops.append(LaunchOp(launch, *self._views_of(operands, written)))

    def call(self, call: PythonCall, operands: Sequence[Any], written: Sequence[ArrayHandle]) -> None:
        self._ops.append(CallOp(call, *self._views_of(operands, written)))

    def compute(
        self, function: Callable[..., Sequence[Any]], operands: Sequence[ArrayHandle], written: Sequence[ArrayHandle]
    ) -> None:
        self._ops.append(ComputeOp(function, *self._views_of(operands, written)))

    def repeat(self, condition: ArrayHandle, body: Callable[[], object], max_iterations: int | None) -> None:
        assert isinstance(condition, RecordedArray)
        self._ops.append(LoopOp(self.own(condition), self._recorded(body), max_iterations))

    def choose(self, condition: ArrayHandle, on_true: Callable[[], object], on_false: Callable[[], object]) -> None:
        assert isinstance(condition, RecordedArray)
        self._ops.append(IfOp(self.own(condition), (self._recorded(on_true), self._recorded(on_false))))

    def _recorded(self, body: Callable[[], object]) -> tuple[Op, ...]:
        """Return the operations of a body."""
        before, self._ops = self._ops, []
        try:
            body()
            return tuple(self._ops)
        finally:
            self._ops = before

    def _views_of(
        self, operands: Sequence[Any], written: Sequence[ArrayHandle]
    ) -> tuple[tuple[BufferView, ...], tuple[BufferView, ...]]:
        read = tuple(self.own(o) if isinstance(o, RecordedArray) else self._capture(o) for o in operands)
        return read, tuple(self.own(w) for w in written if isinstance(w, RecordedArray))

    def results(self, arrays: Sequence[ArrayHandle]) -> list[Any]:
        del arrays  # they are the results, in this order
        recording = self._recording()
        return bind_graph(recording, self._values)

    def misuse(self) -> KernelTypeError:
        return _no_value("an array")

    def _recording(self) -> CapturedProgram:
        order = sorted(range(len(self._kinds)), key=lambda buffer: self._kinds[buffer])
        number = {buffer: n for n, buffer in enumerate(order)}
        slots = {
            kind: tuple(OutputSlot(v.shape, v.dtype) for v in self._views if self._kinds[v.buffer] == kind)
            for kind in (_OPERAND, _RESULT, _SCRATCH)
        }
        operands = len(slots[_OPERAND])

        def placed(view: BufferView) -> BufferView:
            return dataclasses.replace(view, buffer=number[view.buffer])

        return CapturedProgram(
            self.name,
            operands,
            slots[_RESULT],
            slots[_SCRATCH],
            tuple((number[a], number[b] - operands) for a, b in self._aliases),
            tuple(_with_views(op, placed) for op in self._needed()),
            self.has_side_effect,
            self._graph_cache_max,
        )

    def _needed(self) -> list[Op]:
        """The operations without fills and copies that are written over before anybody reads them."""
        dead = {buffer for buffer, kind in enumerate(self._kinds) if kind == _SCRATCH}
        needed: list[Op] = []
        for op in reversed(self._ops):
            match op:
                case LaunchOp():
                    outputs = [i for i in op.launch.result_params if op.launch.roles[i] == OUTPUT]
                    written = dict(zip(op.launch.result_params, op.results, strict=True))
                    dead |= {written[i].buffer for i in outputs if written[i].is_whole}
                    dead -= {v.buffer for v in op.operands}
                case CallOp() | ComputeOp() | LoopOp() | IfOp():
                    reads, writes = views_of(op)
                    # What a body overwrites may stay as it is: the body may not run.
                    is_body = isinstance(op, LoopOp | IfOp)
                    dead -= {v.buffer for v in ([*reads, *writes] if is_body else reads)}
                case CopyOp() | FillOp():
                    if op.to.buffer in dead:
                        continue
                    if op.to.is_whole:
                        dead.add(op.to.buffer)
                    if isinstance(op, CopyOp):
                        dead.discard(op.source.buffer)
            needed.append(op)
        return needed[::-1]


def _with_views(op: Op, placed: Callable[[BufferView], BufferView]) -> Op:
    match op:
        case LaunchOp():
            return LaunchOp(op.launch, tuple(map(placed, op.operands)), tuple(map(placed, op.results)))
        case CallOp():
            return CallOp(op.call, tuple(map(placed, op.operands)), tuple(map(placed, op.results)))
        case ComputeOp():
            return ComputeOp(op.function, tuple(map(placed, op.operands)), tuple(map(placed, op.results)))
        case CopyOp():
            return CopyOp(placed(op.to), placed(op.source))
        case FillOp():
            return FillOp(placed(op.to), op.scalar)
        case LoopOp():
            return LoopOp(placed(op.condition), _all_with_views(op.body, placed), op.max_iterations)
        case IfOp():
            on_true, on_false = op.bodies
            bodies = _all_with_views(on_true, placed), _all_with_views(on_false, placed)
            return IfOp(placed(op.condition), bodies)


def _all_with_views(ops: Sequence[Op], placed: Callable[[BufferView], BufferView]) -> tuple[Op, ...]:
    return tuple(_with_views(op, placed) for op in ops)


def _are_apart(a: BufferView, b: BufferView) -> bool:
    """Parts of one buffer, whose extents are therefore numbers."""
    if a.is_whole or b.is_whole:
        return False
    return a.offset + math.prod(a.shape) <= b.offset or b.offset + math.prod(b.shape) <= a.offset


def _as_pattern(value: Any, element: Element) -> bytes | None:
    """The bytes of the scalar that a fill with `value` repeats; None where it is better left to JAX.

    That is: values that JAX computes, components that differ, conversions that are not exact, 8 bytes whose halves
    differ.
    """
    if isinstance(value, (ArrayHandle, jax.Array)):
        return None
    try:
        given = np.asarray(value)
    except (TypeError, ValueError):
        return None
    scalar = element_scalar(element)
    if given.dtype.kind not in "biuf" or given.shape not in ((), element_shape(element)) or not given.size:
        return None
    with np.errstate(all="ignore"):
        held = given.astype(jax.dtypes.canonicalize_dtype(given.dtype))
        made = held.astype(scalar.numpy)
        is_float = given.dtype.kind == "f" and scalar.is_float
        if not is_float and not (made.astype(np.float64) == given.astype(np.float64)).all():
            return None
    parts = {part.tobytes() for part in made.reshape(-1)}
    if len(parts) != 1:
        return None
    (pattern,) = parts
    return pattern if len(pattern) <= 4 or pattern[:4] == pattern[4:] else None
