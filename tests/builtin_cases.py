"""Kernels that apply every row of the table, their inputs, and comparison in units in the last place."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from jaxwarp.builtins.scalar_ops import ROWS, ulp
from jaxwarp.errors import KernelTypeError
from jaxwarp.ir.builder import Builder
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Builtin, Param, Value
from jaxwarp.types import SCALARS, Scalar, bool_

COUNT = 512


@dataclass(frozen=True)
class Case:
    """A row at its operand types. `inputs` are the operands, `expected` its reference of them."""

    row: Builtin
    result: Scalar
    types: tuple[Scalar, ...]
    inputs: tuple[np.ndarray, ...]
    expected: np.ndarray

    def __repr__(self) -> str:
        return f"{self.row.name}({', '.join(t.short for t in self.types)}) -> {self.result.short}"


def signatures(dtype: Scalar) -> list[tuple[Builtin, Scalar, tuple[Scalar, ...]]]:
    """Every row that takes `dtype`: with its result type and operand types."""
    found = []
    for row in ROWS.values():
        if row.name == "cast":
            found += [(row, target, (dtype,)) for target in SCALARS]
        elif row.name == "bitcast":
            found += [(row, t, (dtype,)) for t in SCALARS if t.bits == dtype.bits and bool_ not in (t, dtype)]
        else:
            for types in [(dtype,) * n for n in (1, 2, 3)] + [(bool_, dtype, dtype)]:
                try:
                    found.append((row, row.infer(types), types))
                    break
                except KernelTypeError:
                    pass
    return found


def specials(dtype: Scalar) -> np.ndarray:
    """Values where rules change: zeros, ones, halves, limits, infinities, NaN."""
    if dtype is bool_:
        return np.array([False, True])
    if dtype.is_int:
        limits = np.iinfo(dtype.numpy)
        near = [0, 1, 2, 3, 7, dtype.bits - 1, dtype.bits, dtype.bits + 1]
        values = {*near, *(-v for v in near), limits.max, limits.max - 1, limits.min, limits.min + 1, limits.max // 2}
        return np.array(sorted(v for v in values if limits.min <= v <= limits.max), dtype.numpy)
    finite = [0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 0.1, 127.5, 255.0, 256.0, 32768.0, 65504.0, 65520.0]
    large = [2.0**31, 2.0**32, 2.0**63, 2.0**64, 2.0**23 + 1, 2.0**52 + 1, 1e30]
    info = np.finfo(dtype.numpy) if dtype.name != "bfloat16" else np.finfo(np.float32)
    tiny = [float(info.tiny), float(info.tiny) / 8, float(info.max)]
    values = [*finite, *large, *tiny, np.inf]
    with np.errstate(all="ignore"):
        return np.array([*values, *(-v for v in values), np.nan]).astype(dtype.numpy)


def draw(rng: np.random.Generator, row: Builtin, dtype: Scalar, position: int) -> np.ndarray:
    """Values of a row's domain."""
    if dtype is bool_:
        return rng.integers(0, 2, COUNT).astype(bool)
    if dtype.is_int:
        limits = np.iinfo(dtype.numpy)
        wide = rng.integers(limits.min, limits.max, COUNT, dtype.numpy, endpoint=True)
        small = rng.integers(max(limits.min, -9), 10, COUNT).astype(dtype.numpy)
        return np.where(rng.random(COUNT) < 0.5, wide, small)
    low, high = row.domain[position] if row.domain else (-100.0, 100.0)
    values = rng.uniform(low, high, COUNT)
    if row.name in ("cast", "bitcast"):
        values = values * 2.0 ** rng.integers(-30, 70, COUNT)
    with np.errstate(all="ignore"):
        return values.astype(dtype.numpy)


def make_inputs(rng: np.random.Generator, row: Builtin, types: tuple[Scalar, ...]) -> tuple[np.ndarray, ...]:
    """Random values of the domain, then special ones against each other."""
    edges = [specials(t) for t in types]
    grids = [g.ravel() for g in np.meshgrid(*edges, indexing="ij")]
    if grids[0].size > COUNT:
        picked = rng.choice(grids[0].size, COUNT, replace=False)
        grids = [g[picked] for g in grids]
    padding = [rng.choice(e, COUNT - grids[0].size) for e in edges]
    return tuple(
        np.concatenate([draw(rng, row, t, i), g, p])
        for i, (t, g, p) in enumerate(zip(types, grids, padding, strict=True))
    )


def make_cases(dtype: Scalar) -> list[Case]:
    rng = np.random.default_rng([ord(c) for c in dtype.short])
    cases = []
    for row, result, types in signatures(dtype):
        inputs = make_inputs(rng, row, types)
        options = {"dtype": result.numpy} if row.typed else {}
        expected = row.ref(*inputs, **options)
        assert expected.dtype == result.numpy, f"{row.name}: the reference gives {expected.dtype}, not {result}"
        cases.append(Case(row, result, types, inputs, expected))
    return cases


def make_kernel(dtype: Scalar, cases: list[Case]) -> tuple[Kernel, list[np.ndarray], dict[Scalar, list[Case]]]:
    """One kernel that applies all cases; its buffers; and which cases each result buffer holds, in order.

    Operands are rows of one buffer per type, results rows of one buffer per result type.
    """
    builder = Builder()
    sources: dict[Scalar, list[np.ndarray]] = {}
    places = []
    for case in cases:
        place = []
        for t, values in zip(case.types, case.inputs, strict=True):
            rows = sources.setdefault(t, [])
            place.append((t, len(rows)))
            rows.append(values)
        places.append(place)
    targets: dict[Scalar, list[Case]] = {}
    for case in cases:
        targets.setdefault(case.result, []).append(case)
    reads = {t: Param(f"in_{t.short}", t, (len(rows), None)) for t, rows in sources.items()}
    writes = {t: Param(f"out_{t.short}", t, (len(rows), None)) for t, rows in targets.items()}
    i = builder.tid(0)
    for case, place in zip(cases, places, strict=True):
        args: list[Value] = []
        for t, k in place:
            args.append(builder.load(reads[t], (builder.const(k, i.type), i)))
        result = builder.call(case.row, *args, dtype=case.result if case.row.typed else None)
        at = builder.const(targets[case.result].index(case), i.type)
        builder.store(writes[case.result], (at, i), result)
    kernel = builder.finish(f"rows_{dtype.short}", 1, [*reads.values(), *writes.values()])
    total = 2 * COUNT
    buffers = [np.stack(sources[t]) for t in reads]
    buffers += [np.zeros((len(rows), total), t.numpy) for t, rows in targets.items()]
    return kernel, buffers, targets


def ordered(values: np.ndarray) -> np.ndarray:
    """Floats as integers in the same order, neighbours one apart; both zeros are 0."""
    bits = values.view(np.dtype(f"i{values.dtype.itemsize}")).astype(object)
    least = -(1 << (8 * values.dtype.itemsize - 1))
    return np.where(bits < 0, least - bits, bits)


def distance(got: np.ndarray, expected: np.ndarray) -> np.ndarray:
    """Units in the last place between floats, 0 for equal NaNs; infinity where only one is a NaN."""
    nan = np.isnan(got) | np.isnan(expected)
    both = np.isnan(got) & np.isnan(expected)
    apart = np.abs(
        ordered(np.where(nan, 0, got).astype(got.dtype)) - ordered(np.where(nan, 0, expected).astype(got.dtype))
    )
    return np.where(both, 0.0, np.where(nan, np.inf, apart.astype(np.float64)))


def worst(case: Case, got: np.ndarray) -> tuple[float, int]:
    """The largest error of a result, and where. Rows that state 0 must match to the bit, NaN payloads aside."""
    if not case.result.is_float:
        wrong = np.where(got == case.expected, 0.0, np.inf)
    else:
        wrong = distance(got, case.expected)
        if case.row.name == "bitcast":
            bits = np.dtype(f"u{got.dtype.itemsize}")
            wrong = np.where(got.view(bits) == case.expected.view(bits), 0.0, np.inf)
        elif ulp(case.row, case.result) == 0:
            sign = np.signbit(got.astype(np.float64)) != np.signbit(case.expected.astype(np.float64))
            wrong = np.where(sign & ~np.isnan(got), np.inf, wrong)
    at = int(np.argmax(wrong))
    return float(wrong[at]), at


def check(cases: list[Case], results: np.ndarray, backend: str) -> list[str]:
    """Complaints about results outside the stated accuracy."""
    complaints = []
    for case, got in zip(cases, results, strict=True):
        error, at = worst(case, got)
        if error > ulp(case.row, case.result):
            operands = ", ".join(repr(a[at].item()) for a in case.inputs)
            complaints.append(
                f"{backend}: {case!r} at ({operands}): {got[at]!r}, expected {case.expected[at]!r}: {error} ulp"
            )
    return complaints
