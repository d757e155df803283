"""Kernels beside what is written by hand and in JAX: the ceiling of a copy, cases, options."""

from __future__ import annotations

import ctypes
import functools
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import measure
import numpy as np

from gpu_report import warp_code
from gpu_report.by_hand import OnGpu, OnHost, compiled, over, used
from gpu_report.cases import CASES, Case, Sized, zeros
from gpu_report.sections import Row, Setup, read, reason, tried
from jaxwarp.codegen.cuda import nvrtc
from jaxwarp.codegen.cuda.occupancy import registers_of

ROUNDS, ROUND_SECONDS, MOST_LAUNCHES = 9, 0.01, 50
By = OnGpu | OnHost


def copies(setup: Setup) -> Iterator[Row]:
    """Bytes a second of a copy: what a kernel can have."""
    hand = by_hand(setup)
    for size in (4096,) if setup.is_small else (1 << 30, 1 << 33):
        yield from tried({"bytes": size}, functools.partial(_copies, setup, hand, size))


def _copies(setup: Setup, hand: By, size: int) -> Iterator[Row]:
    n = size // 8
    x, y = jax.random.normal(jax.random.key(0), (n,)), zeros((n,))
    jax.block_until_ready((x, y))
    arguments = {"x": x, "y": y, "n": n}
    place = over((n // 4,))
    calls = {
        "float4 by hand": _waited(hand, lambda: hand.launch("copy", place, arguments)),
        "jax.numpy": _by_jax(jnp.copy, {"x": x}).call,
    }
    for name, seconds in timed(setup, calls).items():
        yield {
            "bytes": size,
            "by": name,
            "us": 1e6 * seconds.median,
            "gigabytes_per_second": size / seconds.median / 1e9,
        }
    if not np.array_equal(y[-1000:], x[-1000:]):
        raise AssertionError("the copy by hand is not one")


def kernels(setup: Setup) -> Iterator[Row]:
    """Every case: time, part of a copy, registers, error against float64."""
    hand, forward = by_hand(setup), {}
    ceiling = max((r.get("gigabytes_per_second", 0.0) for r in read(setup, "copy")["rows"]), default=0.0)
    for name, sized in CASES.items():
        if setup.only and name not in setup.only:
            continue
        for row in tried({"kernel": name}, functools.partial(_compared, setup, hand, sized)):
            found = {"kernel": name, **row}
            if ceiling and "gigabytes_per_second" in row:
                found["of_copy"] = row["gigabytes_per_second"] / ceiling
            if row.get("by") == "jaxwarp" and "us" in row:
                forward[name] = row["us"]
                if sized.of in forward:
                    found["of_forward"] = row["us"] / forward[sized.of]
            yield found


def _compared(setup: Setup, hand: By, sized: Sized) -> Iterator[Row]:
    """Right on little data first; then timed on much."""
    case = sized.make(*sized.small)
    inputs = case.data()
    ready = _ready(case, hand, inputs)
    errors = _errors(case, inputs, ready)
    if not setup.is_small:
        case = sized.make(*sized.large)
        _require_memory(case)
        inputs = case.data()
        ready = _ready(case, hand, inputs, [by for by, error in errors.items() if not isinstance(error, str)])
    rows: dict[str, Row] = {by: {"by": by, **_resources(case, by, hand)} for by in errors}
    for by, error in errors.items():
        rows[by].update({"failed": error} if isinstance(error, str) else {"error": error})
        if isinstance(why := ready.get(by), str):
            rows[by]["failed"] = why
    right = {by: each for by, each in ready.items() if "failed" not in rows[by] and not isinstance(each, str)}
    if {"jaxwarp", "by hand"} <= right.keys() and not setup.is_small:
        rows["jaxwarp"]["from_by_hand"] = _difference(right["jaxwarp"].result(), right["by hand"].result())
    for by, seconds in timed(setup, {by: each.call for by, each in right.items()}).items():
        rows[by].update(_rates(case, seconds.median))
    yield from rows.values()


def _rates(case: Case, seconds: float) -> Row:
    found = {"us": 1e6 * seconds, "gigabytes_per_second": case.bytes / seconds / 1e9}
    if case.flops:
        found["teraflops"] = case.flops / seconds / 1e12
    return {**found, "billion_threads_per_second": math.prod(case.grid) / seconds / 1e9}


Call = Callable[[int], Any]  # so many times in a row, and waits for the last


@dataclass(frozen=True)
class Ready:
    """A contender that can be timed, and what it computes."""

    call: Call
    result: Callable[[], Sequence[Any]]


def _ready(
    case: Case, hand: By, inputs: Mapping[str, jax.Array], names: Sequence[str] | None = None
) -> dict[str, Ready | str]:
    """Who does the case, of `names`, or why not."""
    makers = {"jaxwarp": lambda: _by_jax(case.ours(), inputs)}
    if case.twin:
        makers["by hand"] = lambda: _by_twin(case, hand, inputs)
    if isinstance(hand, OnGpu) and not case.wrt and (code := warp_code.code_of(case.kernel.name, hand.architecture)):
        makers["Warp"] = lambda: _by_warp(code, case, hand, inputs)
    if case.is_natural:
        makers["jax.numpy"] = lambda: _by_jax(case.in_jax, inputs)
    found: dict[str, Ready | str] = {}
    for by in makers if names is None else names:
        try:
            found[by] = makers[by]()
        except Exception as error:
            found[by] = reason(error)
    return found


def _by_jax(function: Callable[..., Any], inputs: Mapping[str, jax.Array]) -> Ready:
    operands = list(inputs.values())
    program = jax.jit(function).lower(*operands).compile()
    return Ready(_waited_jax(program, operands), lambda: program(*operands))


def _by_twin(case: Case, hand: By, inputs: Mapping[str, jax.Array]) -> Ready:
    outputs = {name: zeros(shape) for name, shape in case.outputs.items()}
    jax.block_until_ready((inputs, outputs))
    arguments = {**inputs, **outputs, **case.extents}

    def launch() -> None:
        if case.clears:
            for array in outputs.values():
                hand.clear(array)
        hand.launch(case.twin, case.place, arguments)

    return _written(hand, launch, tuple(outputs.values()))


def _by_warp(code: warp_code.WarpCode, case: Case, hand: OnGpu, inputs: Mapping[str, jax.Array]) -> Ready:
    ((name, shape),) = case.outputs.items()
    output = zeros(shape)
    jax.block_until_ready((inputs, output))
    values = {n: x.unsafe_buffer_pointer() if x.ndim else float(x) for n, x in {**inputs, name: output}.items()}
    parameters = warp_code.parameters(case.kernel, case.grid, case.shapes, values)
    kernel, place = hand.load(*code), over((math.prod(case.grid),))

    def launch() -> None:
        if case.kernel.name in warp_code.ADDING:
            hand.clear(output)
        addresses = (ctypes.c_void_p * len(parameters))(*map(ctypes.addressof, parameters))
        hand.launch_loaded(kernel, place, ctypes.addressof(addresses))

    return _written(hand, launch, (output,))


def _written(hand: By, launch: Callable[[], None], outputs: Sequence[Any]) -> Ready:
    """A launch that writes arrays in place."""

    def result() -> Sequence[Any]:
        launch()
        hand.wait()
        return outputs

    return Ready(_waited(hand, launch), result)


def _waited_jax(program: Callable[..., Any], operands: Sequence[jax.Array]) -> Call:
    def run(count: int) -> None:
        result = None
        for _ in range(count):
            result = program(*operands)
        jax.block_until_ready(result)

    return run


def _waited(hand: By, launch: Callable[[], None]) -> Call:
    def run(count: int) -> None:
        for _ in range(count):
            launch()
        hand.wait()

    return run


def timed(setup: Setup, calls: Mapping[str, Call]) -> dict[str, measure.Figure]:
    """Seconds of one, each. On little data once: that it runs is all that is asked."""
    if setup.is_small:
        return {name: measure.figure([_seconds(call)]) for name, call in calls.items()}
    counts = {name: _count(call) for name, call in calls.items()}
    contenders = [measure.Contender(n, functools.partial(call, counts[n]), counts[n]) for n, call in calls.items()]
    return measure.interleave(contenders, ROUNDS)


def _count(call: Call) -> int:
    call(1)
    return max(1, min(MOST_LAUNCHES, round(ROUND_SECONDS / _seconds(call))))


def _seconds(call: Call) -> float:
    began = time.perf_counter()
    call(1)
    return time.perf_counter() - began


def _errors(case: Case, inputs: Mapping[str, jax.Array], ready: Mapping[str, Ready | str]) -> dict[str, float | str]:
    """Of each contender, against float64 on the host; of what is wrong or fails, how."""
    with jax.enable_x64(True), jax.default_device(jax.devices("cpu")[0]):
        wide = [jnp.asarray(np.asarray(x, np.float64 if x.dtype == np.float32 else None)) for x in inputs.values()]
        # It runs once.
        program = jax.jit(case.in_jax).lower(*wide).compile({"xla_backend_optimization_level": 0})
        expected = program(*wide)
    return {by: each if isinstance(each, str) else _checked(case, each, expected) for by, each in ready.items()}


def _checked(case: Case, ready: Ready, expected: Sequence[Any]) -> float | str:
    try:
        error = max(map(_error, ready.result(), expected))
    except Exception as failure:
        return reason(failure)
    return error if error <= case.tolerance else f"wrong: relative error {error:.2g}, not {case.tolerance:.0e} at most"


def _error(found: Any, expected: Any) -> float:
    wide = np.asarray(expected)
    error = np.linalg.norm(np.ravel(np.asarray(found, np.float64) - wide)) / np.linalg.norm(np.ravel(wide))
    return float(error) if np.isfinite(error) else math.inf


@jax.jit
def _relative(found: Any, expected: Any) -> Any:
    return jnp.sqrt(jnp.sum((found - expected) ** 2) / jnp.sum(expected**2))


def _difference(found: Sequence[Any], expected: Sequence[Any]) -> float:
    """Between two on much data, on the device."""
    return max(float(_relative(f, e)) for f, e in zip(found, expected, strict=True))


def _resources(case: Case, by: str, hand: By) -> Row:
    """Registers and spills; those of a gradient's launches are not asked for."""
    if not nvrtc.available() or by == "jax.numpy" or (by == "jaxwarp" and case.wrt):
        return {}
    if by == "Warp":
        code = warp_code.code_of(case.kernel.name, hand.architecture)
        return {"registers": registers_of(code.code)} if code else {}
    if by == "by hand":
        return used(compiled(case.twin, hand.architecture).log)
    arrays = {p.name: case.shapes[p.name][: p.shape.count(None)] for p in case.kernel.specialize().params if p.rank}
    found = case.kernel.resources(hand.architecture, dim=case.grid, shapes=arrays)
    return {"registers": found.registers, "spilled": found.spill_stores + found.spill_loads}


def _require_memory(case: Case) -> None:
    limit = (jax.devices()[0].memory_stats() or {}).get("bytes_limit", 0)
    # Inputs, outputs of two contenders, and those of the next launch.
    if limit and 2 * case.size > limit:
        raise MemoryError(f"{case.size / 1e9:.0f} GB of arrays are too much for a device of {limit / 1e9:.0f} GB")


SWEPT = ("saxpy", "lbm3", "stencil", "nbody", "rowsum")
BLOCKS = (64, 128, 256, 512, 1024)
_MOST_THREADS_OF_A_MULTIPROCESSOR = 2048


def sweep(setup: Setup) -> Iterator[Row]:
    """Block sizes and launch bounds."""
    for name in setup.only or SWEPT:
        sized = CASES[name]
        case = sized.make(*(sized.small if setup.is_small else sized.large))
        inputs = case.data()
        for block, bounds in [(64, None), (256, (256, 1))] if setup.is_small else _configurations():
            head = {"kernel": name, "block": block, "launch_bounds": bounds}
            yield from tried(head, functools.partial(_swept, setup, case, inputs, head))


def _configurations() -> Iterator[tuple[int, tuple[int, ...] | None]]:
    for block in BLOCKS:
        yield block, None  # as (block,)
        for least in (1, 4):
            if block * least <= _MOST_THREADS_OF_A_MULTIPROCESSOR:
                yield block, (block, least)


def _swept(setup: Setup, case: Case, inputs: Mapping[str, jax.Array], head: Row) -> Iterator[Row]:
    options = {} if head["launch_bounds"] is None else {"launch_bounds": head["launch_bounds"]}
    ready = _by_jax(case.ours(head["block"], **options), inputs)
    found = timed(setup, {"us": ready.call})
    yield {**head, "us": 1e6 * found["us"].median}


def by_hand(setup: Setup) -> By:
    return OnHost() if setup.is_dry else OnGpu()
