"""Random kernels: verified IR with every construct, whose results are fully determined.

Determined: no thread sees what another writes, except through atomics whose order does not show. A kernel has

    inputs        read anywhere (indices kept in range), written nowhere
    outputs       each thread stores to, loads from and updates elements of its own
    accumulators  integer arrays that all threads update with one commutative operation, whose old value is not used
    locals        arrays of each thread's own, stored to in full before anything else

and only operations that are exact. `kernels()` is the Hypothesis strategy; `random_case(seed)` draws from the same
generator without Hypothesis, for volume.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from jaxwarp.builtins.scalar_ops import ROWS
from jaxwarp.errors import KernelError
from jaxwarp.ir.builder import Builder
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Builtin, Param, Value
from jaxwarp.ir.verify import verify
from jaxwarp.types import SCALARS, Scalar, bool_, int32, int64

INTEGERS = tuple(t for t in SCALARS if t.is_int)
FLOATS = tuple(t for t in SCALARS if t.is_float)
GRID_EXTENTS = (3, 1, 2, 5, 7, 8, 9, 16, 17, 31, 33, 64, 65, 0)
ORDER_FREE = ("add", "min", "max", "and", "or", "xor")
MAX_THREADS = 300


@dataclass(frozen=True)
class Case:
    """A kernel and a launch of it."""

    kernel: Kernel
    grid: tuple[int, ...]
    shapes: tuple[tuple[int, ...], ...]
    seed: int

    def buffers(self) -> list[np.ndarray]:
        """Fresh arguments, the same each time."""
        rng = np.random.default_rng(self.seed)
        return [random_array(rng, p.dtype, s) for p, s in zip(self.kernel.params, self.shapes, strict=True)]

    def with_kernel(self, kernel: Kernel) -> Case:
        return replace(self, kernel=kernel)

    def __repr__(self) -> str:
        return f"Case(grid={self.grid}, shapes={self.shapes}, seed={self.seed})\n{self.kernel}"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """Hypothesis would print the dataclasses, all the way down."""
        printer.text(repr(self))


def random_array(rng: np.random.Generator, dtype: Scalar, shape: tuple[int, ...]) -> np.ndarray:
    """Mostly small values, some from the whole range, some special."""
    if dtype is bool_:
        return rng.integers(0, 2, shape).astype(bool)
    special = np.array(special_values(dtype), dtype.numpy)
    small = np.rint(rng.normal(0, 5, shape) * 4) / 4 if dtype.is_float else rng.integers(-9, 10, shape)
    with np.errstate(all="ignore"):
        small = np.asarray(small).astype(dtype.numpy)
        wild = rng.integers(0, 2**32, shape, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        wild = rng.normal(0, 1, shape).astype(dtype.numpy) if dtype.is_float else wild.astype(dtype.numpy)
    special = np.concatenate([special[:3], special[:3], special])
    which = rng.integers(0, 10, shape)
    chosen = np.where(which < 6, small, np.where(which < 8, wild, special[rng.integers(0, len(special), shape)]))
    return np.ascontiguousarray(chosen.astype(dtype.numpy)).reshape(shape)


def special_values(dtype: Scalar) -> tuple[Any, ...]:
    """Constants worth trying, simplest first; each representable."""
    if dtype is bool_:
        return (False, True)
    if dtype.is_int:
        info = np.iinfo(dtype.numpy)
        near = [0, 1, 2, 3, 5, 7, 8, dtype.bits - 1, dtype.bits, int(info.max), int(info.max) - 1, int(info.min)]
        return tuple(near + ([-1, -2, -3, int(info.min) + 1] if dtype.is_signed else [1 << (dtype.bits - 1)]))
    exact = [0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 3.0, -2.5, 4.0, 0.125, 100.0, math.inf, -math.inf, math.nan]
    if not dtype.is_half:
        tiny = np.finfo(dtype.numpy).smallest_subnormal
        exact += [float(np.finfo(dtype.numpy).max), float(tiny), 2.0**31, -(2.0**63), 2.0**64]
    return tuple(exact)


class Pick:
    """Where choices come from; lower numbers and earlier options are the simpler ones."""

    def integer(self, low: int, high: int) -> int:
        raise NotImplementedError

    def of(self, options: Sequence[Any]) -> Any:
        return options[self.integer(0, len(options) - 1)]

    def chance(self, percent: int) -> bool:
        return self.integer(0, 99) >= 100 - percent


class RandomPick(Pick):
    def __init__(self, seed: int | str):
        self.random = random.Random(seed)

    def integer(self, low: int, high: int) -> int:
        return self.random.randint(low, high)


class DrawnPick(Pick):
    def __init__(self, draw: Any):
        self.draw = draw

    def integer(self, low: int, high: int) -> int:
        return self.draw(st.integers(low, high))


def _exact_rows() -> dict[Scalar, list[tuple[Builtin, tuple[Scalar, ...]]]]:
    """Rows whose results are exact, by result type, with the argument types that give it."""
    found: dict[Scalar, list[tuple[Builtin, tuple[Scalar, ...]]]] = {t: [] for t in SCALARS}
    for row in ROWS.values():
        if row.typed or any(ulp > 0 for ulp in row.ulp.values()):
            continue
        for count in (1, 2, 3):
            firsts = [(t,) * count for t in SCALARS]
            if count == 3:
                firsts += [(bool_, t, t) for t in SCALARS]
            for types in dict.fromkeys(firsts):
                try:
                    found[row.infer(types)].append((row, types))
                except KernelError:
                    continue
    return found


EXACT_ROWS = _exact_rows()


@dataclass(frozen=True)
class Array:
    """A parameter, its extents in this launch, and how indices into it are made."""

    param: Param
    shape: tuple[int, ...]
    tid_axes: tuple[int, ...] = ()  # outputs: which grid axis runs along each leading axis
    kind: str = ""  # accumulators: the one operation used


class Maker:
    """Builds one kernel. `budget` bounds the number of statements."""

    fewest_accumulators = 0

    def __init__(self, pick: Pick, budget: int = 24, types: Sequence[Scalar] = SCALARS, local_arrays: bool = True):
        self.pick = pick
        self.budget = budget
        self.local_arrays = local_arrays
        # A few types in each kernel, so that values meet values of their own type and not only casts.
        few = [pick.of(types) for _ in range(pick.integer(1, 4))]
        self.types = [t for t in SCALARS if t in (bool_, int32, *few)]
        self.builder = Builder()
        self.pools: list[list[Value]] = [[]]
        # Elements touched before, so that they are touched again; as visible as the values.
        self.places: list[list[tuple[Array, list[Value]]]] = [[]]
        self.names = map("p{}".format, itertools.count())

    def case(self) -> Case:
        pick = self.pick
        self.grid = self.make_grid()
        self.inputs = [self.make_input() for _ in range(pick.integer(1, 3))]
        self.outputs = [self.make_output() for _ in range(pick.integer(1, 3))]
        self.accumulators = [self.make_accumulator() for _ in range(pick.integer(self.fewest_accumulators, 2))]
        self.locals = [self.make_local() for _ in range(pick.integer(0, self.local_arrays))]
        self.tids = [self.builder.tid(axis, f"t{axis}") for axis in range(len(self.grid))]
        self.pools[-1] += self.tids
        for array in self.locals:
            self.fill(array)
        self.statements(0)
        for array in self.outputs:
            self.store(array)
        arrays = self.inputs + self.outputs + self.accumulators + self.kept()
        kernel = self.builder.finish("random", len(self.grid), [a.param for a in arrays])
        kernel = replace(kernel, locals=tuple(a.param for a in self.locals))
        return Case(verify(kernel), self.grid, tuple(a.shape for a in arrays), pick.integer(0, 2**16))

    # The launch

    def make_grid(self) -> tuple[int, ...]:
        grid: list[int] = []
        for _ in range(self.pick.integer(1, 3)):
            extent = self.pick.of(GRID_EXTENTS)
            if math.prod(grid) * extent <= MAX_THREADS:
                grid.append(extent)
        return tuple(grid) or (3,)

    def make_param(self, dtype: Scalar, shape: tuple[int, ...]) -> Param:
        known = tuple(n if self.pick.chance(40) else None for n in shape)
        return Param(next(self.names), dtype, known)

    def make_input(self) -> Array:
        shape = tuple(self.pick.integer(1, 6) for _ in range(self.pick.integer(0, 3)))
        return Array(self.make_param(self.pick.of(self.types), shape), shape)

    def make_output(self) -> Array:
        axes = list(range(len(self.grid)))
        if self.pick.chance(25):
            axes.reverse()
        components = tuple(self.pick.integer(1, 4) for _ in range(self.pick.integer(0, 2)))
        shape = (*(self.grid[a] for a in axes), *components)
        return Array(self.make_param(self.pick.of(self.types), shape), shape, tuple(axes))

    def make_accumulator(self) -> Array:
        integers = [t for t in self.types if t.is_int and t.bits >= 32] or [int32]
        shape = tuple(self.pick.integer(1, 4) for _ in range(self.pick.integer(0, 2)))
        kind = self.pick.of(ORDER_FREE)
        floats = [t for t in self.types if t.is_float and kind in ("min", "max")]
        return Array(self.make_param(self.pick.of(floats or integers), shape), shape, kind=kind)

    def make_local(self) -> Array:
        shape = tuple(self.pick.integer(1, 4) for _ in range(self.pick.integer(0, 2)))
        return Array(Param(next(self.names), self.pick.of(self.types), shape), shape)

    def fill(self, array: Array) -> None:
        value = self.value(array.param.dtype)
        for index in np.ndindex(*array.shape):
            self.builder.store(array.param, [self.builder.const(i, int32) for i in index], value)

    def kept(self) -> list[Array]:
        """Outputs that keep the latest values of each type, so that nothing of a kernel is without effect."""
        arrays = []
        for dtype in self.types:
            values = [v for v in self.pools[0] if v.type is dtype][-6:]
            if values:
                shape = (*self.grid, len(values))
                array = Array(Param(next(self.names), dtype, (None,) * len(shape)), shape)
                arrays.append(array)
            for number, value in enumerate(values):
                self.builder.store(array.param, [*self.tids, self.builder.const(number, int32)], value)
        return arrays

    # Values

    def constant(self, dtype: Scalar) -> Value:
        options = special_values(dtype)
        return self.builder.const(self.pick.of(options[:4] if self.pick.chance(50) else options), dtype)

    def visible(self, dtype: Scalar) -> list[Value]:
        return [v for pool in self.pools for v in pool if v.type is dtype]

    def value(self, dtype: Scalar) -> Value:
        """Some value of a type: one there is, a cast of one there is, or a constant."""
        there = self.visible(dtype)
        choice = self.pick.integer(0, 9)
        if there and choice < 7:
            return self.pick.of(there[::-1])
        others = [v for pool in self.pools for v in pool if v.type is not dtype]
        if others and choice < 9:
            return self.builder.call(ROWS["cast"], self.pick.of(others[::-1]), dtype=dtype)
        return self.constant(dtype)

    def without_nan(self, value: Value) -> Value:
        """What looks at the representation must not see a NaN: its sign and payload are nobody's."""
        if not value.type.is_float:
            return value
        is_nan = self.builder.call(ROWS["isnan"], value)
        return self.builder.call(ROWS["select"], is_nan, self.builder.const(0.0, value.type), value)

    def computed(self, dtype: Scalar) -> Value:
        build = self.builder
        same_size = [t for t in self.types if t.bits == dtype.bits and t is not dtype]
        if same_size and self.pick.chance(6):
            return build.call(ROWS["bitcast"], self.without_nan(self.value(self.pick.of(same_size))), dtype=dtype)
        rows = EXACT_ROWS[dtype]
        if dtype is not bool_ and self.pick.chance(50):
            rows = [
                (row, types) for row, types in rows if row.name in ("add", "sub", "mul", "div", "neg", "min", "max")
            ]
        row, types = self.pick.of(rows)
        args = [self.value(t) for t in types]
        if self.pick.chance(25):
            # What identities look for: 0, 1, -1, -0 as an operand, or one operand twice.
            at = self.pick.integer(0, len(types) - 1)
            args[at] = args[-1] if types[at] is types[-1] and self.pick.chance(30) else self.constant(types[at])
        if row.name == "copysign":
            args[1] = self.without_nan(args[1])
        if row.name == "from_end":  # of a number of elements
            args[1] = build.call(ROWS["max"], args[1], build.const(0, types[1]))
        return build.call(row, *args)

    def index(self, param: Param, axis: int, extent: int) -> Value:
        """Any value, brought into range."""
        build, dtype = self.builder, self.pick.of((int32, int32, int64))
        if self.pick.chance(25):
            return build.const(self.pick.integer(0, extent - 1), dtype)
        size = build.size(param, axis)
        if dtype is int64:
            size = build.call(ROWS["cast"], size, dtype=int64)
        rest = build.call(ROWS["mod"], self.value(dtype), size)
        if self.pick.chance(30):
            return build.call(ROWS["from_end"], rest, size)
        negative = build.call(ROWS["lt"], rest, build.const(0, dtype))
        return build.call(ROWS["select"], negative, build.call(ROWS["add"], rest, size), rest)

    def indices(self, array: Array) -> list[Value]:
        again = [indices for places in self.places for known, indices in places if known is array]
        if again and self.pick.chance(60):
            return self.pick.of(again[::-1])
        indices = self.new_indices(array)
        self.places[-1].append((array, indices))
        return indices

    def new_indices(self, array: Array) -> list[Value]:
        own = [self.own_index(array, axis) for axis in range(len(array.tid_axes))]
        rest = range(len(own), len(array.shape))
        return own + [self.index(array.param, axis, array.shape[axis]) for axis in rest]

    def own_index(self, array: Array, axis: int) -> Value:
        """One to one in the thread's index, the same in every access of a kernel."""
        build, tid = self.builder, self.tids[array.tid_axes[axis]]
        if len(array.shape) % 2:
            return tid
        last = build.call(ROWS["sub"], build.size(array.param, axis), build.const(1, int32))
        return build.call(ROWS["sub"], last, tid)

    # Statements

    def statements(self, depth: int) -> None:
        for _ in range(self.pick.integer(1, 6) if depth else self.pick.integer(3, 24)):
            if self.budget <= 0:
                return
            self.budget -= 1
            self.statement(depth)

    def statement(self, depth: int) -> None:
        choice = self.pick.integer(0, 99)
        if choice < 45:
            floats = [t for t in self.types if t.is_float]
            dtype = self.pick.of(floats if floats and self.pick.chance(40) else self.types)
            for _ in range(self.pick.integer(1, 4)):
                self.pools[-1].append(self.computed(dtype))
        elif choice < 52:
            self.load(self.pick.of(self.inputs))
        elif choice < 60:
            self.load(self.pick.of(self.outputs + self.locals))
        elif choice < 70:
            self.store(self.pick.of(self.outputs + self.locals))
        elif choice < 76:
            self.atomic()
        elif choice < 80:
            self.revisit()
        elif depth < 3:
            (self.if_, self.for_, self.while_)[self.pick.integer(0, 2)](depth)

    def load(self, array: Array) -> None:
        self.pools[-1].append(self.builder.load(array.param, self.indices(array)))

    def store(self, array: Array) -> None:
        self.builder.store(array.param, self.indices(array), self.value(array.param.dtype))

    def atomic(self) -> None:
        if self.accumulators and self.pick.chance(60):
            self.update()
            return
        owned = [a for a in self.outputs + self.locals if a.param.dtype is not bool_]
        if not owned:
            return
        array = self.pick.of(owned)
        dtype = array.param.dtype
        kind = self.pick.of(("add", "min", "max", "exch", "cas") + (("and", "or", "xor") if dtype.is_int else ()))
        indices = self.indices(array)
        args = [self.value(dtype) for _ in range(2 if kind == "cas" else 1)]
        if kind == "cas":
            # It compares representations. Often the element holds what is expected.
            self.builder.store(array.param, indices, self.without_nan(self.builder.load(array.param, indices)))
            args[0] = self.without_nan(args[0])
            if self.pick.chance(50):
                self.builder.store(array.param, indices, args[0])
        self.pools[-1].append(self.builder.atomic(kind, array.param, indices, *args))

    def update(self) -> None:
        array = self.pick.of(self.accumulators)
        self.builder.atomic(array.kind, array.param, self.indices(array), self.value(array.param.dtype))

    def revisit(self) -> None:
        """One element before and after a store that may or may not happen, perhaps to this element."""
        array = self.pick.of(self.outputs + self.locals)
        indices = self.indices(array)
        before = self.builder.load(array.param, indices)
        other = indices if self.pick.chance(60) else self.indices(array)
        value = self.value(array.param.dtype)

        def store(*_: Value) -> tuple[()]:
            self.builder.store(array.param, other, value)
            return ()

        match self.pick.integer(0, 2):
            case 0:
                store()
            case 1:
                self.builder.if_(self.value(bool_), store)
            case _:
                self.builder.for_(*self.bounds(int32), [], store)
        self.pools[-1] += [before, self.builder.load(array.param, indices)]

    def region(self, params: Sequence[Value], depth: int, yields: Sequence[Scalar]) -> list[Value]:
        self.pools.append(list(params))
        self.places.append([])
        self.statements(depth + 1)
        results = [self.value(t) for t in yields]
        self.places.pop()
        self.pools.pop()
        return results

    def some_types(self) -> list[Scalar]:
        return [self.pick.of(self.types) for _ in range(self.pick.integer(0, 3))]

    def if_(self, depth: int) -> None:
        types = self.some_types()
        branches = [lambda: self.region((), depth, types)] * 2
        known = self.visible(bool_)
        if known and self.pick.chance(25):
            condition = self.conjunction(known)
        else:
            condition = self.pick.of(known[::-1]) if known and self.pick.chance(40) else self.computed(bool_)
        if condition not in known:
            self.pools[-1].append(condition)
        self.pools[-1] += self.builder.if_(condition, *branches)

    def conjunction(self, known: Sequence[Value]) -> Value:
        """Of few bools, which may be in it more than once, and be known from a branch around."""
        few = [self.pick.of(known[::-1]) for _ in range(2)]
        found = self.pick.of(few)
        for _ in range(self.pick.integer(1, 4)):
            other = self.pick.of(few)
            other = self.builder.call(ROWS["logical_not"], other) if self.pick.chance(20) else other
            found = self.builder.call(ROWS[self.pick.of(("logical_and", "logical_or"))], found, other)
        return found

    def for_(self, depth: int) -> None:
        types, dtype = self.some_types(), self.pick.of(INTEGERS)
        bounds = self.bounds(dtype)
        inits = [self.value(t) for t in types]
        self.pools[-1] += self.builder.for_(*bounds, inits, lambda *carried: self.region(carried, depth, types))

    def bounds(self, dtype: Scalar) -> tuple[Value, Value, Value]:
        """At most five iterations; with constant ends, also at the edges of the type."""
        build, info = self.builder, np.iinfo(dtype.numpy)
        low, high = int(info.min), int(info.max)
        if self.pick.chance(50):
            options = [(0, 3, 1), (0, 1, 1), (2, 2, 1), (1, 6, 2), (0, 3, 0), (high - 3, high, 1), (high - 5, high, 3)]
            options += [(high - 1, high, high), (low, low + 2, 1)]
            if dtype.is_signed:
                options += [
                    (3, 0, -1),
                    (5, -2, -3),
                    (low + 3, low, -1),
                    (high, low, low),
                    (low, high, high),
                    (1, 3, -1),
                ]
            start, stop, step = self.pick.of(options)
            return build.const(start, dtype), build.const(stop, dtype), build.const(step, dtype)
        four = build.const(4, dtype)
        start, stop = (build.call(ROWS["mod"], self.value(dtype), four) for _ in range(2))
        steps = (1, 2, -1, -2, 0) if dtype.is_signed else (1, 2, 0)
        step = build.const(self.pick.of(steps), dtype)
        if self.pick.chance(30):
            step = build.call(ROWS["select"], self.value(bool_), step, build.const(1, dtype))
        return start, stop, step

    def while_(self, depth: int) -> None:
        build, types = self.builder, self.some_types()
        start = build.const(0, int32)
        limit = build.call(ROWS["mod"], self.value(int32), build.const(5, int32))
        inits = [start, *(self.value(t) for t in types)]

        def condition(count: Value, *carried: Value) -> Value:
            (going_on,) = self.region((count, *carried), depth + 1, [bool_])
            below = build.call(ROWS["lt"], count, limit)
            return build.call(ROWS["logical_and"], below, going_on) if self.pick.chance(60) else below

        def body(count: Value, *carried: Value) -> list[Value]:
            results = self.region((count, *carried), depth, types)
            return [build.call(ROWS["add"], count, build.const(1, int32)), *results]

        self.pools[-1] += build.while_(inits, condition, body)


def random_case(seed: int, **options: Any) -> Case:
    """The same generator on Python's random numbers."""
    return Maker(RandomPick(seed), **options).case()


@st.composite
def kernels(draw: Any, **options: Any) -> Case:
    """Cases with kernels of up to `budget` statements on `types`."""
    return Maker(DrawnPick(draw), **options).case()


def same_values(a: np.ndarray, b: np.ndarray) -> bool:
    """Equal to the last bit, except that all NaNs are one."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if SCALARS_BY_NUMPY[a.dtype].is_float:
        with np.errstate(all="ignore"):  # converting a signalling NaN
            nan = np.isnan(a.astype(np.float64)), np.isnan(b.astype(np.float64))
        bits = np.dtype(f"u{a.dtype.itemsize}")
        return bool(np.array_equal(*nan) and np.array_equal(a[~nan[0]].view(bits), b[~nan[1]].view(bits)))
    return bool(np.array_equal(a, b))


SCALARS_BY_NUMPY = {t.numpy: t for t in SCALARS}


def assert_same(case: Case, expected: Sequence[np.ndarray], got: Sequence[np.ndarray], what: str) -> None:
    """Compares all buffers of a launch; the message is a complete report."""
    for param, a, b in zip(case.kernel.params, expected, got, strict=True):
        if not same_values(a, b):
            with np.errstate(all="ignore"):
                differs = np.argwhere(~((a == b) | ((a != a) & (b != b)))) if a.shape else [()]
            at = tuple(int(i) for i in differs[0]) if len(differs) else "(sign of zero)"
            values = f"{a[at]!r} and {b[at]!r}" if len(differs) else f"\n{a}\n{b}"
            raise AssertionError(f"{what}: {param.name} differs at {at}: {values}\n{case}")
