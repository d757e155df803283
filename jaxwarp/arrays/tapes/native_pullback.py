"""The reverse of a launch without a program of XLA's: the same operations, found by tracing, in native code.

To enter a compiled program costs some 50 microseconds, many times what a small launch takes.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import jax
import numpy as np

from jaxwarp import compat
from jaxwarp.arrays.tapes.shadow import is_float
from jaxwarp.compat import Var
from jaxwarp.ffi.launch.code import key_of_call
from jaxwarp.ffi.launch.derivatives.zeros import mark_p
from jaxwarp.ffi.launch.native_launch import NativeCode
from jaxwarp.ffi.launch.on_memory import loaded_on
from jaxwarp.ffi.launch.primitive import launch_p
from jaxwarp.ffi.launch.spec import IN_OUT, INPUT, LaunchSpec
from jaxwarp.memory.host_scope import HOST
from jaxwarp.unlocked import address_of

Shapes = tuple[tuple[int, ...], ...]

_MOST_BYTES = 1 << 20  # of results that are kept for the next time


def native_pull(
    function: Callable[[LaunchSpec, tuple[int, ...]], Any],
    launch: LaunchSpec,
    wanted: tuple[int, ...],
    given: tuple[int, ...],
    shapes: Shapes,
    make: Callable[[PullbackSteps], Any],
) -> Any:
    """Return the result of `make` for the steps of `function(launch, wanted)`, which take the operands and the
    cotangents of the results `given`. Return None if some operation is unknown. `shapes` are those of the launch's
    parameters.

    Return None in debug mode, too: it also checks launches whose results nobody reads.
    """
    if launch.debug is not None:
        return None
    try:
        return make(PullbackSteps(function(launch, wanted), launch, given, shapes))
    except UnknownError:
        return None


class UnknownError(Exception):
    """An operation that is left to XLA."""


class PullbackSteps:
    """A function of operands and cotangents as a list of steps.

    Values have numbers: first the inputs, then those that steps make.

    Attributes:
        inputs: how many inputs there are.
        types: of all values: their shapes and dtypes.
        constants: values that are known, by their numbers.
        steps: what is done, in order.
        results: the operands that have a cotangent, and the numbers of these.
    """

    def __init__(self, function: Any, launch: LaunchSpec, given: Sequence[int], shapes: Shapes):
        def like(numbers: Sequence[int]) -> dict[int, Any]:
            return {i: jax.ShapeDtypeStruct(shapes[i], launch.kernel.params[i].dtype.numpy) for i in numbers}

        with compat.with_x64(), jax.default_device(jax.local_devices(backend="cpu")[0]):
            traced, made = jax.make_jaxpr(function, return_shape=True)(like(launch.operand_params), like(given))
        jaxpr = _inside(traced)
        if jaxpr.effects or any(hasattr(x, "val") for x in jaxpr.outvars):
            raise UnknownError
        self.inputs = len(jaxpr.invars)
        self._numbers: dict[Any, int] = {x: i for i, x in enumerate(jaxpr.invars)}
        self.types: list[Any] = [x.aval for x in jaxpr.invars]
        needed, kept = set(jaxpr.outvars), []
        for eqn in reversed(jaxpr.eqns):
            if not needed.isdisjoint(eqn.outvars):
                needed |= {x for x in eqn.invars if not hasattr(x, "val")}
                kept.append(eqn)
        self.constants: list[tuple[int, Any]] = []
        self.steps = [step for eqn in kept[::-1] for step in self._steps(eqn)]
        self.results = [(i, self._result(x)) for i, x in zip(sorted(made), jaxpr.outvars, strict=True)]

    def _make(self, aval: Any) -> int:
        """The number of a new value."""
        self.types.append(aval)
        return len(self.types) - 1

    def _number(self, x: Any) -> int:
        if not hasattr(x, "val"):
            return self._numbers[x]
        self.constants.append((self._make(x.aval), x.val))
        return self.constants[-1][0]

    def _result(self, x: Var) -> int:
        """The number of a result, which is no input."""
        number = self._numbers[x]
        if number >= self.inputs:
            return number
        made = self._make(x.aval)
        self.steps.append(Computed("copy", (number,), made))
        return made

    def _steps(self, eqn: Any) -> list[LaunchStep | Computed]:
        """Return the steps of an operation."""
        params, given = eqn.params, [self._number(x) for x in eqn.invars]
        if eqn.primitive.name == mark_p.name:
            self._numbers[eqn.outvars[0]] = given[0]
            return []
        made = [self._make(x.aval) for x in eqn.outvars]
        self._numbers.update(zip(eqn.outvars, made, strict=True))
        match eqn.primitive.name:
            case launch_p.name:
                return [LaunchStep(params["launch"], given, made, self.types)]
            case "convert_element_type" if is_float(eqn.invars[0].aval.dtype) and is_float(params["new_dtype"]):
                return [Computed("convert", given, made[0])]
            case "add" | "add_any":
                return [Computed("add", given, made[0])]
            case "broadcast_in_dim" if not eqn.invars[0].aval.shape:
                return [Computed("copy", given, made[0])]
            case _:
                raise UnknownError


class Computed(NamedTuple):
    """A step that is no launch.

    Attributes:
        kind: "copy", also of a number to all elements; "convert", to another type; "add".
        given: the numbers of what it reads.
        made: the number of what it makes.
    """

    kind: Literal["copy", "convert", "add"]
    given: Sequence[int]
    made: int


class LaunchStep:
    """A step that is a launch.

    Attributes:
        launch: what it is.
        made: the numbers of what it makes.
        places: those of its arguments.
        shapes: of these.
        copied: where what it updates comes from, and where it goes.
        key: what decides about its code, on the CPU.
    """

    def __init__(self, launch: LaunchSpec, given: Sequence[int], made: Sequence[int], types: Sequence[Any]):
        if launch.debug is not None or launch.factors is not None or 0 in launch.grid:
            raise UnknownError
        self.launch, self.made = launch, made
        inputs, outputs = iter(given), iter(made)
        self.places: list[int] = []
        self.copied: list[tuple[int, int]] = []
        for role in launch.roles:
            source = next(inputs) if role in (INPUT, IN_OUT) else -1
            self.places.append(source if role == INPUT else next(outputs))
            self.copied += [(source, self.places[-1])] if role == IN_OUT else []
        self.shapes = tuple(tuple(types[place].shape) for place in self.places)
        self.key = key_of_call(launch, self.shapes)


class NativePull:
    """Steps in native code."""

    def __init__(self, steps: PullbackSteps):
        self.inputs, self.types, self.constants = steps.inputs, steps.types, steps.constants
        self.results = steps.results
        self.steps = [_HostLaunch(s) if isinstance(s, LaunchStep) else _HostStep(s) for s in steps.steps]
        self._idle: list[_Run] = []

    def run(self, addresses: Sequence[int]) -> _Run:
        """The cotangents that there are of operands, by their numbers: the `results` of what is returned.

        Args:
            addresses: of the operands, then of the cotangents: arrays that are dense and aligned. They are only read.
        """
        try:
            run = self._idle.pop()
        except IndexError:  # each thread that is here has one
            run = _Run(self)
        run(addresses)
        return run

    def release(self, run: _Run) -> None:
        """The results have been used."""
        if run.bytes <= _MOST_BYTES:
            self._idle.append(run)


def _converted(target: np.ndarray, source: np.ndarray) -> None:
    with np.errstate(all="ignore"):  # as in XLA's programs
        np.copyto(target, source, casting="unsafe")


def _added(target: np.ndarray, one: np.ndarray, other: np.ndarray) -> None:
    with np.errstate(all="ignore"):
        np.add(one, other, out=target)


_FUNCTIONS: dict[str, Callable[..., None]] = {"copy": np.copyto, "convert": _converted, "add": _added}


class _HostStep:
    """A step of NumPy's: `function(target, *sources)`."""

    def __init__(self, step: Computed):
        self.function, self.given, self.made = _FUNCTIONS[step.kind], step.given, step.made

    def bound(self, run: _Run) -> Callable[[], None]:
        target = run.arrays[self.made]

        def step() -> None:
            self.function(target, *map(run.array, self.given))

        return step


class _HostLaunch:
    """A launch in native code."""

    def __init__(self, step: LaunchStep):
        self.places, self.copied = step.places, step.copied
        self.code: NativeCode = loaded_on(HOST, step.key)
        self.cleared = [step.places[i] for i in self.code.cleared]

    def bound(self, run: _Run) -> Callable[[], None]:
        call, addresses = self.code.call, run.addresses
        pointers = self.code.pointers(addresses[place] for place in self.places)
        place = ctypes.addressof(pointers)
        inputs = [(k, number) for k, number in enumerate(self.places) if number < run.inputs]
        copied = [(source, run.addresses[target], run.arrays[target].nbytes) for source, target in self.copied]
        cleared = [run.arrays[number] for number in self.cleared]

        def step() -> None:
            for k, number in inputs:
                pointers[k] = addresses[number]
            for source, target, size in copied:
                ctypes.memmove(target, addresses[source], size)
            for array in cleared:
                array.fill(0)
            call(place)

        return step


class _Run:
    """Memory for what the steps of a pull make; for one thread.

    Attributes:
        addresses: of all values.
        arrays: those that steps make.
        results: the cotangents that there are of operands, by their numbers.
        bytes: how much memory it is.
    """

    def __init__(self, pull: NativePull):
        self.inputs, self._types = pull.inputs, pull.types
        made = [np.empty(t.shape, t.dtype) for t in pull.types[pull.inputs :]]
        self.bytes = sum(array.nbytes for array in made)
        self.arrays: list[Any] = [None] * pull.inputs + made
        self.addresses = [0] * pull.inputs + [address_of(array) for array in made]
        for number, value in pull.constants:
            self.arrays[number][...] = value
        self.results = {i: self.arrays[number] for i, number in pull.results}
        self._steps = [step.bound(self) for step in pull.steps]

    def __call__(self, addresses: Sequence[int]) -> None:
        self.addresses[: self.inputs] = addresses
        for step in self._steps:
            step()

    def array(self, number: int) -> np.ndarray:
        """A value as an array."""
        found = self.arrays[number]
        if found is not None:
            return found
        aval = self._types[number]
        size = math.prod(aval.shape) * aval.dtype.itemsize
        return np.ndarray(aval.shape, aval.dtype, (ctypes.c_char * size).from_address(self.addresses[number]))


def _inside(traced: Any) -> Any:
    """The operations of a traced function: of the compiled function that is all there is in it."""
    jaxpr = traced.jaxpr
    if len(jaxpr.eqns) == 1 and "jaxpr" in jaxpr.eqns[0].params and not traced.consts:
        (eqn,) = jaxpr.eqns
        inner = eqn.params["jaxpr"]
        if eqn.invars == jaxpr.invars and eqn.outvars == jaxpr.outvars and not inner.consts:
            return inner.jaxpr
    raise UnknownError
