"""The reverse of a launch as launches, sums and conversions, which are found by tracing it once.

To enter a compiled program costs some 50 microseconds, many times what a small launch takes.
"""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import jax

from jaxwarp import compat
from jaxwarp.analysis.effects import analyze
from jaxwarp.arrays.tapes.blocks import is_float
from jaxwarp.ffi.derivatives.zeros import mark_p
from jaxwarp.ffi.primitive import launch_p
from jaxwarp.ir.kernel import Kernel
from jaxwarp.launches.code import key_of_call
from jaxwarp.launches.spec import IN_OUT, INPUT, OUTPUT, LaunchSpec, TransposeOf, intern_kernel
from jaxwarp.passes.launches.adding import adding

Shapes = tuple[tuple[int, ...], ...]


class UnknownError(Exception):
    """An operation that is left to XLA."""


class Computed(NamedTuple):
    """A step that is no launch.

    Attributes:
        kind: "convert", to another type, or "add".
        given: the numbers of what it reads.
        made: the number of what it makes.
    """

    kind: Literal["convert", "add"]
    given: Sequence[int]
    made: int

    @property
    def reads(self) -> Sequence[int]:
        """The numbers of the values whose contents decide about the result."""
        return self.given


class LaunchStep:
    """A step that is a launch.

    Attributes:
        launch: what it is.
        made: the numbers of what it makes.
        places: those of its arguments.
        copied: where what it updates comes from, and where it goes.
        summed: of what it makes, that of which it does no more than add to the elements, by place of the argument.
        same: what it makes that is what it was given, and the number of that.
        reads: the numbers of the values whose contents decide about the results.
    """

    def __init__(self, launch: LaunchSpec, given: Sequence[int], made: Sequence[int], types: Sequence[Any]):
        if launch.debug is not None or launch.factors is not None or 0 in launch.grid:
            raise UnknownError
        self.launch, self.made = launch, made
        self.places: list[int] = []
        self.copied: list[tuple[int, int]] = []
        self.summed: dict[int, int] = {}
        self.same: dict[int, int] = {}
        self.reads: list[int] = []
        inputs, outputs, effects = iter(given), iter(made), analyze(launch.kernel)
        for param, role in zip(launch.kernel.params, launch.roles, strict=True):
            access = effects[param]
            source = next(inputs) if role in (INPUT, IN_OUT) else -1
            target = next(outputs) if role in (OUTPUT, IN_OUT) else -1
            if role == IN_OUT and not access.modifies:
                self.same[target] = source
            elif role == IN_OUT:
                self.copied.append((source, target))
            elif role == OUTPUT and _is_sum(launch, len(self.places)):
                self.summed[target] = len(self.places)
            if access.loads or (role == IN_OUT and access.modifies):
                self.reads.append(source)
            self.places.append(source if role == INPUT or target in self.same else target)
        self.shapes = tuple(tuple(types[place].shape) for place in self.places)

    def key(self, added_to: set[int]) -> Any:
        """Return what decides about its code; values with the numbers `added_to` start from what is there."""
        added = tuple(place for number, place in self.summed.items() if number in added_to)
        launch = self.launch.replace(kernel=_adding(self.launch.kernel, added), origin=None) if added else self.launch
        key = key_of_call(launch, self.shapes)
        return key._replace(outputs=tuple(i for i in key.outputs if i not in added))


def _is_sum(launch: LaunchSpec, place: int) -> bool:
    """Return whether an argument of a reverse is the cotangent of what the launch that it reverses only reads: it is
    only added to."""
    origin = launch.origin
    if not isinstance(origin, TransposeOf) or origin.slots[place].kind != "cotangent":
        return False
    kernel = origin.launch.kernel
    return not analyze(kernel)[kernel.params[origin.slots[place].index]].modifies


@functools.lru_cache(maxsize=256)
def _adding(kernel: Kernel, places: tuple[int, ...]) -> Kernel:
    return intern_kernel(adding(kernel, places))


class PullbackSteps:
    """A function of operands and cotangents as a list of steps.

    Values have numbers: first the inputs, then those that steps make.

    Args:
        function: what is traced.
        launch: the launch that it reverses.
        given: the results of the launch that have a cotangent.
        shapes: of the launch's parameters.

    Attributes:
        inputs: how many inputs there are.
        types: of all values: their shapes and dtypes.
        constants: values that are known, by their numbers.
        steps: what is done, in order.
        results: the operands that have a cotangent, and the numbers of these.
        uses: how often each value is used, as a result, too.

    Raises:
        UnknownError: an operation that no step does.
    """

    def __init__(self, function: Any, launch: LaunchSpec, given: Sequence[int], shapes: Shapes):
        with compat.with_x64(), jax.default_device(jax.local_devices(backend="cpu")[0]):
            traced, made = jax.make_jaxpr(function, return_shape=True)(*abstract(launch, given, shapes))
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
        self.constants: dict[int, Any] = {}
        self.steps = [step for eqn in kept[::-1] for step in self._steps(eqn)]
        self.results = [(i, self._numbers[x]) for i, x in zip(sorted(made), jaxpr.outvars, strict=True)]
        self.uses = Counter(number for _, number in self.results)
        for step in self.steps:
            self.uses.update(step.given if isinstance(step, Computed) else [*step.places, *(s for s, _ in step.copied)])

    def _make(self, aval: Any) -> int:
        """The number of a new value."""
        self.types.append(aval)
        return len(self.types) - 1

    def _number(self, x: Any) -> int:
        if not hasattr(x, "val"):
            return self._numbers[x]
        number = self._make(x.aval)
        self.constants[number] = x.val
        return number

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
                step = LaunchStep(params["launch"], given, made, self.types)
                self._numbers.update((x, step.same.get(n, n)) for x, n in zip(eqn.outvars, made, strict=True))
                return [step]
            case "convert_element_type" if is_float(eqn.invars[0].aval.dtype) and is_float(params["new_dtype"]):
                return [Computed("convert", given, made[0])]
            case "add" | "add_any" if all(x.aval.shape == eqn.outvars[0].aval.shape for x in eqn.invars):
                return [Computed("add", given, made[0])]
            case "broadcast_in_dim" if not eqn.invars[0].aval.shape and given[0] in self.constants:
                self.constants[made[0]] = self.constants[given[0]]
                return []
            case _:
                raise UnknownError


def abstract(launch: LaunchSpec, given: Sequence[int], shapes: Shapes) -> list[dict[int, Any]]:
    """Return what stands for the operands of a launch and the cotangents of its results `given`."""

    def like(numbers: Sequence[int]) -> dict[int, Any]:
        return {i: jax.ShapeDtypeStruct(shapes[i], launch.kernel.params[i].dtype.numpy) for i in numbers}

    return [like(launch.operand_params), like(given)]


def _inside(traced: Any) -> Any:
    """The operations of a traced function: of the compiled function that is all there is in it."""
    jaxpr = traced.jaxpr
    if len(jaxpr.eqns) == 1 and "jaxpr" in jaxpr.eqns[0].params and not traced.consts:
        (eqn,) = jaxpr.eqns
        inner = eqn.params["jaxpr"]
        if eqn.invars == jaxpr.invars and eqn.outvars == jaxpr.outvars and not inner.consts:
            return inner.jaxpr
    raise UnknownError
