"""`bench`: how long a jitted launch of a kernel takes, beside a copy of as many bytes."""

from __future__ import annotations

import argparse
import math
import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxwarp.analysis.effects import analyze
from jaxwarp.commands.kernels import find, given, shape_of
from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.ffi.jax_kernel import jax_kernel
from jaxwarp.ir.kernel import Kernel as KernelIR
from jaxwarp.kernel import Kernel


def run(options: argparse.Namespace) -> tuple[Any, str]:
    """Times a kernel on made-up arguments: floats from 0 to 1, integers from 0 to the extent of an array.

    Arrays that the kernel writes are donated and given to the next launch. Bytes are those of the arrays, each counted
    once where it is read and once where it is written, so a kernel that reads an element several times moves more.
    """
    kernel, types = find(options.kernel, options.types)
    ir = kernel.specialize(types)
    arguments = _arguments(kernel, ir, options)
    written = [name for name, param in zip(arguments, ir.params, strict=True) if analyze(ir)[param].modifies]
    if not written:
        raise KernelValueError(f"kernel {kernel.name} writes no array", hint="there is nothing to time")
    call = jax_kernel(kernel, num_outputs=len(written), in_out_argnames=written, launch_dims=options.dim)
    seconds = _times(call, arguments, written, options.rounds)
    moved = sum(_bytes(arguments[name], analyze(ir)[p]) for name, p in zip(arguments, ir.params, strict=True))
    threads = math.prod(options.dim or _first_extents(arguments, ir)[: ir.grid_rank])
    copied = _copy_seconds(moved, options.rounds)
    middle = statistics.median(seconds)
    data = {
        "kernel": kernel.name,
        "device": str(jax.devices()[0]),
        "threads": threads,
        "seconds": middle,
        "fastest": min(seconds),
        "bytes": moved,
        "copy_seconds": copied,
    }
    return data, (
        f"{kernel.name}, {threads} threads on {data['device']}: median {_time(middle)}, fastest {_time(min(seconds))}\n"
        f"{threads / middle / 1e6:.4g} million threads a second, {moved / middle / 1e9:.3g} GB/s\n"
        f"a copy that reads and writes as many bytes: {_time(copied)}, {moved / copied / 1e9:.3g} GB/s"
    )


def _arguments(kernel: Kernel, ir: KernelIR, options: argparse.Namespace) -> dict[str, Any]:
    if kernel.has_structs:
        raise KernelTypeError(
            f"kernel {kernel.name} takes a struct, which bench cannot make",
            hint="time a kernel with separate arguments",
        )
    shapes, values = given(kernel, "--shape", options.shape), given(kernel, "--value", options.value)
    made: dict[str, Any] = {}
    random = np.random.default_rng(0)
    for argument, param in zip(kernel.leaves, ir.params, strict=True):
        name, dtype = argument.name, param.dtype.numpy
        components = tuple(n for n in param.shape if n is not None)
        if argument.is_array:
            rank = param.rank - len(components)
            extents = shape_of(name, shapes[name]) if name in shapes else _extents(options.size, rank)
            made[name] = _random(random, (*extents, *components), dtype)
        else:
            made[name] = np.full(components, _number(name, values.get(name, "1")), dtype)
    return made


def _first_extents(arguments: dict[str, Any], ir: KernelIR) -> tuple[int, ...]:
    """The shape of the first array, without the axes of its components: what a launch takes by default."""
    ranks = [param.shape.count(None) for param in ir.params]
    return next(np.shape(a)[:rank] for a, rank in zip(arguments.values(), ranks, strict=True) if rank)


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise KernelValueError(f"--value {name}={text}: expected a number", hint=f"write --value {name}=0.5") from None


def _extents(size: int, rank: int) -> tuple[int, ...]:
    return (max(1, round(size ** (1 / rank))),) * rank


def _random(random: np.random.Generator, shape: tuple[int, ...], dtype: np.dtype) -> Any:
    if dtype.kind in "biu":
        most = 2 if dtype.kind == "b" else min(shape[0], np.iinfo(dtype).max)
        return jnp.asarray(random.integers(0, most, shape).astype(dtype))
    return jnp.asarray(random.random(shape).astype(dtype))


def _bytes(value: Any, access: Any) -> int:
    if not np.ndim(value):
        return 0
    updates = access.accumulates
    return value.nbytes * ((access.reads or updates) + (access.writes or updates))


def _times(call: Callable[..., Any], arguments: dict[str, Any], written: Sequence[str], rounds: int) -> list[float]:
    """Seconds of each round: a number of launches that takes long enough to be timed."""
    kept = {name: value for name, value in arguments.items() if name not in written}
    step = jax.jit(lambda state, kept: call(**state, **kept), donate_argnums=0)
    state = {name: arguments[name] for name in written}

    def launches(count: int) -> float:
        nonlocal state
        begin = time.perf_counter()
        for _ in range(count):
            state = dict(zip(written, step(state, kept), strict=True))
        jax.block_until_ready(state)
        return (time.perf_counter() - begin) / count

    launches(1)
    count = max(1, round(0.02 / max(launches(1), 1e-6)))
    return [launches(count) for _ in range(rounds)]


def _copy_seconds(moved: int, rounds: int) -> float:
    """Return the seconds JAX takes to copy an array, where reads and writes add up to `moved` bytes."""
    source = jnp.ones(max(1, moved // 8), jnp.float32)
    copy = jax.jit(lambda x: x + 1.0, donate_argnums=0)
    source = jax.block_until_ready(copy(source))
    seconds = []
    for _ in range(rounds):
        begin = time.perf_counter()
        source = jax.block_until_ready(copy(source))
        seconds.append(time.perf_counter() - begin)
    return statistics.median(seconds)


def _time(seconds: float) -> str:
    for unit, scale in (("s", 1.0), ("ms", 1e3), ("us", 1e6)):
        if seconds * scale >= 1:
            return f"{seconds * scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"
