"""The reverse of a small launch without a program of XLA's: the same operations, found by tracing, in native code.

To enter a compiled program costs some 50 microseconds, many times what a small launch takes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import numpy as np

from jaxwarp import compat
from jaxwarp.arrays.shadow import is_float
from jaxwarp.ffi.launch.derivatives.zeros import Values, mark_p
from jaxwarp.ffi.launch.native_launch import code_of
from jaxwarp.ffi.launch.primitive import launch_p
from jaxwarp.ffi.launch.spec import INPUT, OUTPUT, Launch
from jaxwarp.unlocked import address_of

Arrays = Sequence[np.ndarray]
Step = Callable[[Arrays], Arrays]

_KEPT = 512
_pulls: dict[Any, NativePull | None] = {}


def native_pull(
    make: Callable[[Launch, tuple[int, ...]], Any],
    launch: Launch,
    wanted: tuple[int, ...],
    operands: Mapping[int, np.ndarray],
    cotangents: Mapping[int, np.ndarray],
) -> NativePull | None:
    """The function `make(launch, wanted)` of operands and cotangents like these, if all it does is known here.

    None for launches that are worth several cores, too: XLA's programs have code for these that needs fewer atomics;
    and in debug mode, where launches that nobody reads are checked.
    """
    if launch.debug is not None:
        return None
    key = launch, wanted, tuple(cotangents), tuple(x.shape for x in operands.values())
    if key not in _pulls:
        if len(_pulls) >= _KEPT:
            _pulls.clear()
        try:
            _pulls[key] = NativePull(make(launch, wanted), operands, cotangents)
        except _UnknownError:
            _pulls[key] = None
    return _pulls[key]


class _UnknownError(Exception):
    """An operation that is left to XLA."""


class NativePull:
    """A function of operands and cotangents as a list of steps."""

    def __init__(self, function: Any, operands: Mapping[int, np.ndarray], cotangents: Mapping[int, np.ndarray]):
        with compat.with_x64(), jax.default_device(jax.local_devices(backend="cpu")[0]):
            traced, made = jax.make_jaxpr(function, return_shape=True)(dict(operands), dict(cotangents))
        jaxpr = _inside(traced)
        if jaxpr.effects or any(hasattr(x, "val") for x in jaxpr.outvars):
            raise _UnknownError
        self._inputs = jaxpr.invars
        self._keys, self._results = sorted(made), jaxpr.outvars
        needed, steps = set(jaxpr.outvars), []
        for eqn in reversed(jaxpr.eqns):
            if needed.isdisjoint(eqn.outvars):
                continue
            needed |= {x for x in eqn.invars if not hasattr(x, "val")}
            steps.append((_step(eqn), eqn.invars, eqn.outvars))
        self._steps = steps[::-1]

    def __call__(self, operands: Mapping[int, np.ndarray], cotangents: Mapping[int, np.ndarray]) -> Values:
        given = [*(operands[i] for i in sorted(operands)), *(cotangents[i] for i in sorted(cotangents))]
        known = dict(zip(self._inputs, given, strict=True))
        with np.errstate(all="ignore"):  # as in XLA's programs
            for step, inputs, outputs in self._steps:
                found = step([np.asarray(x.val, x.aval.dtype) if hasattr(x, "val") else known[x] for x in inputs])
                known.update(zip(outputs, found, strict=True))
        return {i: known[x] for i, x in zip(self._keys, self._results, strict=True)}


def _inside(traced: Any) -> Any:
    """The operations of a traced function: of the compiled function that is all there is in it."""
    jaxpr = traced.jaxpr
    if len(jaxpr.eqns) == 1 and "jaxpr" in jaxpr.eqns[0].params and not traced.consts:
        (eqn,) = jaxpr.eqns
        inner = eqn.params["jaxpr"]
        if eqn.invars == jaxpr.invars and eqn.outvars == jaxpr.outvars and not inner.consts:
            return inner.jaxpr
    raise _UnknownError


def _step(eqn: Any) -> Step:
    params = eqn.params
    match eqn.primitive.name:
        case launch_p.name:
            return _launched(params["launch"], [x.aval.shape for x in eqn.invars])
        case mark_p.name:
            return lambda arrays: arrays
        case "convert_element_type" if is_float(eqn.invars[0].aval.dtype) and is_float(params["new_dtype"]):
            return lambda arrays: [arrays[0].astype(params["new_dtype"])]
        case "add" | "add_any":
            return lambda arrays: [np.add(*arrays)]
        case "broadcast_in_dim" if not eqn.invars[0].aval.shape:
            return lambda arrays: [np.full(params["shape"], arrays[0])]
        case _:
            raise _UnknownError


def _launched(launch: Launch, shapes: Sequence[tuple[int, ...]]) -> Step:
    if launch.debug is not None or launch.factors is not None or 0 in launch.grid:
        raise _UnknownError
    given = dict(zip(launch.operand_params, shapes, strict=True))
    made = dict(zip(launch.result_params, launch.results, strict=True))
    every = tuple(tuple(given[i] if i in given else made[i]) for i in range(len(launch.roles)))
    code = code_of(launch.kernel, launch.fma, launch.grid, every, launch.in_order)
    if not code.is_whole:
        raise _UnknownError
    dtypes = [param.dtype.numpy for param in launch.kernel.params]

    def run(operands: Arrays) -> Arrays:
        left, arrays = iter(operands), []
        for i, role in enumerate(launch.roles):
            if role == OUTPUT:
                arrays.append(np.zeros(every[i], dtypes[i]))
                continue
            operand = next(left)
            flags = operand.flags
            arrays.append(operand if role == INPUT and flags.c_contiguous and flags.aligned else operand.copy())
        code.run([address_of(array) for array in arrays])
        return [arrays[i] for i in launch.result_params]

    return run
