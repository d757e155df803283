"""The definition of what a kernel does, against which every backend, pass and derivative is tested.

It is plain NumPy. All threads run in lockstep, which is one of the orders a launch may have: a value is an array with
one element per thread, and each region runs on the threads that enter it. Where several threads touch one element, they
do it in thread order (row-major over the grid). In an array that is only stored to, each element keeps the last store
of the last thread that stores to it, whatever statements and loop iterations these stores belong to.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from jaxwarp.errors import CheckError, InternalError, KernelError, KernelTypeError, Loc, OutOfRangeError
from jaxwarp.ir.extremes import extreme
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import (
    INSIDE,
    Atomic,
    Block,
    Call,
    Const,
    For,
    If,
    Load,
    Op,
    Param,
    Size,
    Store,
    Tell,
    Tid,
    Value,
    While,
    walk,
)
from jaxwarp.ir.texts import said
from jaxwarp.types import Scalar, float32


class StepLimitError(KernelError):
    """A loop ran longer than the caller of the interpreter allows."""


def interpret(
    kernel: Kernel,
    grid: Sequence[int],
    buffers: Sequence[np.ndarray],
    max_steps: int | None = None,
    one_by_one: bool = False,
) -> None:
    """Launches `kernel` on host arrays, in place.

    Args:
        kernel: a verified kernel.
        grid: launch extents, `kernel.grid_rank` of them.
        buffers: one array per parameter, in parameter order.
        max_steps: how many loop iterations the launch may run before it is given up; None: any number.
        one_by_one: whether each thread ends before the next begins. Threads in lockstep never end that wait for others.

    Raises:
        OutOfRangeError: with the thread, the array, the index and the extent.
        CheckError: an assertion failed.
        StepLimitError: more than `max_steps` iterations.
        KernelTypeError: grid or buffers do not fit the kernel.
    """
    _require_fit(kernel, grid, buffers)
    if math.prod(grid):
        with np.errstate(all="ignore"):
            _Machine(kernel, tuple(grid), buffers, max_steps).run(one_by_one)


def counted_from_end(kernel: Kernel) -> set[Value]:
    """Indices that are written as negative constants: the extent less a number."""
    made = {v: op for op in walk(kernel.body) if isinstance(op, Size | Const) for v in op.defined}
    calls = [op for op in walk(kernel.body) if isinstance(op, Call) and op.builtin.name == "sub"]
    return {c.result for c in calls if isinstance(made.get(c.args[0]), Size) and isinstance(made.get(c.args[1]), Const)}


def _require_fit(kernel: Kernel, grid: Sequence[int], buffers: Sequence[np.ndarray]) -> None:
    if len(grid) != kernel.grid_rank:
        raise KernelTypeError(f"{kernel.name}: expected a grid of {kernel.grid_rank} extents, got {tuple(grid)}")
    if len(buffers) != len(kernel.params):
        raise KernelTypeError(f"{kernel.name}: expected {len(kernel.params)} buffers, got {len(buffers)}")
    for param, buffer in zip(kernel.params, buffers, strict=True):
        fits = len(buffer.shape) == param.rank and all(
            known is None or known == extent for known, extent in zip(param.shape, buffer.shape, strict=True)
        )
        if buffer.dtype != param.dtype.numpy or not fits:
            expected = f"{param.dtype} of shape {param.shape}"
            got = f"{buffer.dtype} of shape {buffer.shape}"
            raise KernelTypeError(f"{kernel.name}: buffer {param.name}: expected {expected}, got {got}")


class _Frame:
    """The values of one region for the threads that are in it.

    `selected` holds the positions of these threads among the parent's; None: all of them.
    """

    def __init__(self, threads: np.ndarray, parent: _Frame | None = None, selected: np.ndarray | None = None):
        self.threads = threads
        self.parent = parent
        self.selected = selected
        self.values: dict[Value, np.ndarray] = {}

    def enter(self, selected: np.ndarray) -> _Frame:
        if len(selected) == len(self.threads):
            return _Frame(self.threads, self, None)
        return _Frame(self.threads[selected], self, selected)

    def __getitem__(self, value: Value) -> np.ndarray:
        found = self.values.get(value)
        if found is None:
            if self.parent is None:
                raise InternalError(f"the interpreter met {value} before its definition")
            found = self.parent[value]
            if self.selected is not None:
                found = found[self.selected]
            self.values[value] = found
        return found

    def bind(self, values: Sequence[Value], arrays: Sequence[np.ndarray]) -> None:
        self.values.update(zip(values, arrays, strict=True))


class _Machine:
    def __init__(self, kernel: Kernel, grid: tuple[int, ...], buffers: Sequence[np.ndarray], max_steps: int | None):
        self.kernel = kernel
        self.grid = grid
        # An array of rank 0 is seen as one of rank 1, so that one form of indexing serves all.
        self.memory = {p: b if p.rank else b.reshape(1) for p, b in zip(kernel.params, buffers, strict=True)}
        threads = math.prod(grid)
        self.memory |= {p: _undefined(threads, p) for p in kernel.locals}
        self.locals = frozenset(kernel.locals)
        self.steps_left = max_steps
        # Of arrays that are only stored to, the thread that stored last to each element.
        self.last = {p: np.full(self.memory[p].shape, -1, np.int64) for p in _stored_only(kernel)}

    def run(self, one_by_one: bool) -> None:
        threads = np.arange(math.prod(self.grid))
        for group in np.split(threads, len(threads)) if one_by_one else [threads]:
            self.block(self.kernel.body, _Frame(group))

    def block(self, block: Block, frame: _Frame) -> list[np.ndarray]:
        for op in block.ops:
            self.op(op, frame)
        return [frame[v] for v in block.results]

    def op(self, op: Op, frame: _Frame) -> None:
        match op:
            case Call():
                frame.values[op.result] = apply_builtin(op, [frame[v] for v in op.args])
            case Load():
                frame.values[op.result] = self.memory[op.param][self.element(op, op.param, op.indices, frame)]
            case Store():
                self.store(op, frame)
            case Const():
                frame.values[op.result] = np.full(len(frame.threads), op.value, op.result.type.numpy)
            case Tid():
                axis = np.unravel_index(frame.threads, self.grid)[op.axis]
                frame.values[op.result] = axis.astype(np.int32)
            case Size():
                extent = self.memory[op.param].shape[op.axis]
                frame.values[op.result] = np.full(len(frame.threads), extent, np.int32)
            case Atomic():
                frame.values[op.result] = self.atomic(op, frame)
            case Tell():
                self.tell(op, frame)
            case If():
                self.if_(op, frame)
            case For():
                self.for_(op, frame)
            case While():
                self.while_(op, frame)
            case _:
                raise InternalError(f"the interpreter does not know {type(op).__name__}")

    def store(self, op: Store, frame: _Frame) -> None:
        """NumPy assigns repeated elements in order: the last thread's value stays."""
        element, value, last = self.element(op, op.param, op.indices, frame), frame[op.value], self.last.get(op.param)
        if last is not None:
            is_later = frame.threads >= last[element]
            element, value = tuple(index[is_later] for index in element), value[is_later]
            last[element] = frame.threads[is_later]
        self.memory[op.param][element] = value

    def tell(self, op: Tell, frame: _Frame) -> None:
        """Prints in thread order, or fails by the first thread that comes here."""
        args = [frame[v] for v in op.args]
        texts = [said(op, [a[i] for a in args]) for i in range(len(frame.threads))]
        if op.kind == INSIDE:
            outside = np.flatnonzero((args[0] < 0) | (args[0] >= args[1]))
            if len(outside):
                text = f"{self.kernel.name}: {self.thread(frame, outside[0])}: {texts[outside[0]]}"
                raise OutOfRangeError(text, op.loc)
        elif not op.fails:
            sys.stdout.write("".join(texts))
        elif texts:
            raise CheckError(f"{self.thread(frame, 0)}: {texts[0]}", op.loc)

    def thread(self, frame: _Frame, at: int) -> str:
        """Return the name that errors give to one of the threads of a frame."""
        return f"thread {tuple(int(i) for i in np.unravel_index(frame.threads[at], self.grid))}"

    def if_(self, op: If, frame: _Frame) -> None:
        condition = frame[op.condition]
        merged = _blank(op.results, len(frame.threads))
        for side, block in ((True, op.then), (False, op.orelse)):
            entering = np.flatnonzero(condition == side)
            if len(entering):
                _merge(merged, entering, self.block(block, frame.enter(entering)))
        frame.bind(op.results, merged)

    def for_(self, op: For, frame: _Frame) -> None:
        start, stop, step = frame[op.start], frame[op.stop], frame[op.step]
        trips = trip_counts(start, stop, step)
        index = start
        carried = [frame[v].copy() for v in op.inits]
        done = 0
        while len(running := np.flatnonzero(trips > done)):
            self.count_step(op.loc)
            inner = frame.enter(running)
            inner.bind(op.body.params, [a[running] for a in (index, *carried)])
            _merge(carried, running, self.block(op.body, inner))
            index = index + step
            done += 1
        frame.bind(op.results, carried)

    def while_(self, op: While, frame: _Frame) -> None:
        carried = [frame[v].copy() for v in op.inits]
        running = np.arange(len(frame.threads))
        while True:
            test = frame.enter(running)
            test.bind(op.condition.params, [a[running] for a in carried])
            (going_on,) = self.block(op.condition, test)
            running = running[going_on]
            if not len(running):
                break
            self.count_step(op.loc)
            inner = frame.enter(running)
            inner.bind(op.body.params, [a[running] for a in carried])
            _merge(carried, running, self.block(op.body, inner))
        frame.bind(op.results, carried)

    def count_step(self, loc: Loc | None) -> None:
        if self.steps_left is not None:
            if self.steps_left == 0:
                raise StepLimitError(f"{self.kernel.name}: the loop did not end within the steps allowed", loc)
            self.steps_left -= 1

    def element(self, op: Op, param: Param, indices: Sequence[Value], frame: _Frame) -> tuple[np.ndarray, ...]:
        own = (frame.threads,) if param in self.locals else ()
        if not indices:
            return own or (np.zeros(len(frame.threads), np.intp),)
        arrays = tuple(frame[v] for v in indices)
        shape = self.memory[param].shape[len(own) :]
        for axis, (index, extent) in enumerate(zip(arrays, shape, strict=True)):
            outside = (index < 0) | (index >= extent)
            if np.count_nonzero(outside):  # in a third of the time that `any` takes
                at = int(np.flatnonzero(outside)[0])
                thread = tuple(int(i) for i in np.unravel_index(frame.threads[at], self.grid))
                written = int(index[at]) - extent * (indices[axis] in counted_from_end(self.kernel))
                raise OutOfRangeError.at(self.kernel.name, thread, written, axis, param.name, extent, loc=op.loc)
        return (*own, *arrays)

    def atomic(self, op: Atomic, frame: _Frame) -> np.ndarray:
        """Run an atomic, and return the old values.

        Round k runs the k-th thread at each element, so that each thread sees what the earlier ones left.
        """
        memory = self.memory[op.param]
        element = self.element(op, op.param, op.indices, frame)
        args = [frame[v] for v in op.args]
        old = np.empty(len(frame.threads), memory.dtype)
        occurrence = _occurrences(np.ravel_multi_index(element, memory.shape))
        for number in range(occurrence.max() + 1):
            now = np.flatnonzero(occurrence == number)
            at = tuple(index[now] for index in element)
            old[now] = memory[at]
            memory[at] = atomic_result(op.kind, memory[at], [a[now] for a in args])
        return old


class LaneMachine(_Machine):
    """One thread, whose operations come one by one: `execute` does the next one.

    Args:
        kernel: gives the name that errors have.
        grid: launch extents.
        memory: the arrays of the parameters, which need not be those of `kernel`.
        thread: its number, row by row.
    """

    def __init__(self, kernel: Kernel, grid: tuple[int, ...], memory: Mapping[Param, np.ndarray], thread: int):
        super().__init__(replace(kernel, params=(), locals=()), grid, (), None)
        self.memory = {p: b if p.rank else b.reshape(1) for p, b in memory.items()}
        self._frame = _Frame(np.array([thread]))

    def execute(self, op: Op) -> None:
        """Does an operation on what earlier ones have left."""
        for inner in (op, *(found for block in op.blocks for found in block.all_ops)):
            if isinstance(inner, Load | Store) and inner.param not in self.memory:  # an array of the thread's own
                self.memory[inner.param] = _undefined(1, inner.param)[0]
        with np.errstate(all="ignore"):
            self.op(op, self._frame)

    def value(self, value: Value) -> np.generic:
        """Return the number that was computed for an IR value."""
        return self._frame[value][0]

    def array(self, param: Param) -> np.ndarray:
        """The contents of an array."""
        return self.memory[param]


def apply_builtin(call: Call, args: Sequence[np.ndarray]) -> np.ndarray:
    """One builtin on arrays of its argument types. Half precision is computed in float32 and rounded."""
    dtype = call.result.type
    if call.builtin.typed:
        result = call.builtin.ref(*args, dtype=dtype.numpy)
    else:
        args = [a.astype(float32.numpy) if v.type.is_half else a for a, v in zip(args, call.args, strict=True)]
        result = call.builtin.ref(*args)
    return np.asarray(result).astype(dtype.numpy, copy=False)


def evaluate(call: Call, args: Sequence[bool | int | float]) -> bool | int | float:
    """One builtin on Python values, as the interpreter would; the result as a Python value."""
    arrays = [np.full(1, a, v.type.numpy) for a, v in zip(args, call.args, strict=True)]
    with np.errstate(all="ignore"):
        return python_value(apply_builtin(call, arrays)[0], call.result.type)


def python_value(value: np.generic, dtype: Scalar) -> bool | int | float:
    """A NumPy scalar as a `Const` holds it."""
    return float(value) if dtype.is_float else int(value) if dtype.is_int else bool(value)


def trip_counts(start: np.ndarray, stop: np.ndarray, step: np.ndarray) -> np.ndarray:
    """Return the number of iterations of `range(start, stop, step)`, or 0 where step is 0, without overflow."""
    wide = np.int64 if start.dtype.itemsize <= 4 else object
    start, stop, step = (a.astype(wide) for a in (start, stop, step))
    safe = np.where(step == 0, 1, step)
    return np.where(step == 0, 0, np.maximum(-((start - stop) // safe), 0))


def atomic_result(kind: str, old: np.ndarray, args: Sequence[np.ndarray]) -> np.ndarray:
    """Return what an atomic leaves in memory. `cas` compares representations, so that a NaN equals itself."""
    if kind == "cas":
        expected, new = args
        bits = np.dtype(f"u{old.dtype.itemsize}")
        return np.where(old.view(bits) == expected.view(bits), new, old)
    (value,) = args
    match kind:
        case "add":
            return old + value
        case "min" | "max":
            return extreme(kind, old, value)
        case "exch":
            return value
        case "and":
            return old & value
        case "or":
            return old | value
        case "xor":
            return old ^ value
        case _:
            raise InternalError(f"the interpreter does not know atomic {kind!r}")


def _stored_only(kernel: Kernel) -> set[Param]:
    accesses = [op for op in walk(kernel.body) if isinstance(op, (Load, Store, Atomic))]
    otherwise = {op.param for op in accesses if not isinstance(op, Store)}
    return ({op.param for op in accesses} - otherwise).intersection(kernel.params)


def _undefined(threads: int, param: Param) -> np.ndarray:
    """A local array that nobody may read before writing: its contents are made to be noticed."""
    extents = [n for n in param.shape if n is not None]
    memory = np.empty((threads, *extents), param.dtype.numpy)
    memory[...] = np.nan if param.dtype.is_float else 0x55
    return memory


def _occurrences(keys: np.ndarray) -> np.ndarray:
    """Count, for each position, how often its key occurs before it."""
    order = np.argsort(keys, kind="stable")
    ranked = keys[order]
    first = np.searchsorted(ranked, ranked, side="left")
    counts = np.empty(len(keys), np.intp)
    counts[order] = np.arange(len(keys)) - first
    return counts


def _blank(values: Sequence[Value], count: int) -> list[np.ndarray]:
    return [np.zeros(count, v.type.numpy) for v in values]


def _merge(into: Sequence[np.ndarray], at: np.ndarray, arrays: Sequence[np.ndarray]) -> None:
    for target, source in zip(into, arrays, strict=True):
        target[at] = source
