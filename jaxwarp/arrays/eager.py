"""Launches while a Python function runs on real memory: they happen at once."""

from __future__ import annotations

import functools
from collections.abc import Sequence, Set
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxwarp.analysis.effects import Access, analyze
from jaxwarp.arrays.host_array import HostArray
from jaxwarp.arrays.ids.tables import place_of as memory_of
from jaxwarp.arrays.ids.tables import tables_at
from jaxwarp.codegen.abi import CudaOptions
from jaxwarp.errors import KernelError, KernelTypeError, Loc
from jaxwarp.ffi.debug import launch_in
from jaxwarp.ir.kernel import Kernel as KernelIR
from jaxwarp.kernel import Argument, Kernel
from jaxwarp.launches.arguments.argument import KEY, CallParameter, Given, describe, is_key, with_absent
from jaxwarp.launches.arguments.bind import (
    LaunchOptions,
    arguments_of,
    bind,
    make_converters,
    resolve_elements,
    specialize,
)
from jaxwarp.launches.arguments.converters import Convert, Plain, number_of_c, plain_numbers
from jaxwarp.launches.arguments.dims import normalize_dims
from jaxwarp.launches.code import key_of
from jaxwarp.launches.modes import debug_now, mode_of
from jaxwarp.launches.native_launch import NativeCode, updating
from jaxwarp.launches.on_memory import loaded_on
from jaxwarp.launches.spec import IN_OUT, INPUT, OUTPUT, LaunchSpec, intern_kernel
from jaxwarp.memory.host_scope import HOST
from jaxwarp.memory.live_array import LiveArray, MemoryArray
from jaxwarp.memory.region import Region, dense_region
from jaxwarp.memory.scope import Scope
from jaxwarp.memory.tensor_owner import note_written, place_of
from jaxwarp.memory.tokens import InRecords
from jaxwarp.passes.checks.checked import Debug
from jaxwarp.passes.launches.in_records import Place, in_records
from jaxwarp.passes.launches.same_memory import same_memory, with_one_for
from jaxwarp.structs.indexed import indexed_of
from jaxwarp.types import ENDLESS, Array, element_scalar
from jaxwarp.unlocked import cached_property

_BUFFER = "buffer"  # the kind of an array in memory
_MAX_PLANS = 512  # of a kernel


class PlacedValue(NamedTuple):
    """An argument of a launch: where it is, if it is an array of this call's memory, else a value of the host."""

    value: Any
    array: MemoryArray | None = None
    region: Region | None = None
    is_writable: bool = False

    @property
    def in_records(self) -> InRecords | None:
        """The records of which the array is a field, if its elements have gaps between them."""
        array, region = self.array, self.region
        if region is None or region.is_dense or not isinstance(array, HostArray) or region is not array.region:
            return None  # none, or a tape has moved it
        return array.in_records

    def describe(self) -> Given:
        """Describe the value as the function `describe` does, but keep 64-bit data as they are: they do not go through
        JAX."""
        if self.region is not None:
            element = self.array.dtype if isinstance(self.array, LiveArray) else None
            return Given(_BUFFER, self.region.shape, self.region.dtype, element=element)
        if isinstance(self.value, (np.ndarray, np.generic)):
            return Given(type(self.value).__name__, self.value.shape, self.value.dtype, is_host=self.value.ndim == 0)
        return replace(describe(self.value), is_eager=True)


class CheckedLaunch(NamedTuple):
    """A launch whose arguments fit."""

    plan: LaunchPlan
    values: Sequence[PlacedValue]
    scope: Scope

    @property
    def launch(self) -> LaunchSpec:
        """The launch without its values."""
        return self.plan.launch


def launch_now(scope: Scope, kernel: Kernel, dim: Any, given: Sequence[Any], block_dim: int | str | None) -> None:
    """Runs a kernel on arrays of the call, arrays of other libraries in the same memory, and numbers.

    Raises:
        KernelTypeError, KernelValueError: the arguments do not fit the kernel.
    """
    run_checked(scope, check(scope, kernel, dim, given, block_dim))


def check(scope: Scope, kernel: Kernel, dim: Any, given: Sequence[Any], block_dim: int | str | None) -> CheckedLaunch:
    """All checks of a launch.

    Raises:
        KernelTypeError, KernelValueError: the arguments do not fit the kernel.
    """
    values = [argument_given(scope, kernel, i, g) for i, g in enumerate(given)]
    extents = normalize_dims(dim, f"kernel {kernel.name}: dim")
    cuda = kernel.cuda_options(block_dim)
    described = tuple(v.describe() for v in values)
    plan = _plan(kernel, described, extents, cuda, debug_now(mode_of(kernel)), places_given_twice(values))
    _require_writable(scope, plan, values)
    return CheckedLaunch(plan, values, scope)


def places_given_twice(values: Sequence[PlacedValue]) -> tuple[int | None, ...]:
    """Return a number for each array that is given to several arguments, and None for the others. Return an empty tuple
    if there are no such arrays."""
    places = [None if value.region is None or not value.region.size else place_of(value.region) for value in values]
    known = [place for place in places if place is not None]
    if len(set(known)) == len(known):
        return ()
    return tuple(None if place is None or places.count(place) == 1 else places.index(place) for place in places)


def checked_like(scope: Scope, plan: LaunchPlan, given: Sequence[Any]) -> CheckedLaunch:
    """A launch outside of JAX like one that was checked."""
    return CheckedLaunch(
        plan, [_given(scope, g, a.annotation) for a, g in zip(plan.arguments, given, strict=True)], scope
    )


def _given(scope: Scope, value: Any, annotation: Any) -> PlacedValue:
    if isinstance(value, HostArray) and scope.platform != "cpu" and not scope.is_outside:
        value = value.numpy()
    if isinstance(value, MemoryArray):
        value.require_scope(scope)
        return PlacedValue(value, value, value.region, value.is_writable)
    if isinstance(value, np.ndarray) and not isinstance(annotation, Array):  # the components of one value
        return PlacedValue(value)
    if isinstance(value, jax.Array) and is_key(value.dtype):
        value = _bits(value, annotation)
    if (found := scope.find(value)) is None:
        return PlacedValue(np.asarray(value) if isinstance(value, jax.Array) else value)
    region, is_writable = found
    if not region.shape:  # a tensor that is a number
        return PlacedValue(scope.read(region)[()], None, None, is_writable)
    return PlacedValue(value, None, region, is_writable)


def _bits(keys: jax.Array, annotation: Any) -> jax.Array:
    """Return the bits of JAX keys, for an argument that is annotated as a key."""
    element = annotation.dtype if isinstance(annotation, Array) else annotation
    if element != KEY:
        raise KernelTypeError(
            f"expected {annotation!r}, got {keys.dtype} of shape {keys.shape}",
            hint="annotate the argument PRNGKey, or pass its bits: jax.random.key_data(key)",
        )
    return jax.random.key_data(keys)


def argument_given(scope: Scope, kernel: Kernel, index: int, given: Any) -> PlacedValue:
    """Return an argument together with its place in memory."""
    try:
        return _given(scope, given, kernel.leaves[index].annotation)
    except KernelError as error:
        error.message = f"kernel {kernel.name}: argument '{kernel.leaves[index].name}': {error.message}"
        raise


def run_checked(scope: Scope, checked: CheckedLaunch) -> None:
    """The launch itself.

    Raises:
        CheckError: in debug mode, a thread has failed a check.
    """
    plan = checked.plan
    if 0 in plan.launch.grid:
        return
    copied = copied_arguments(checked)
    with updating([region for i in copied & plan.written.keys() if (region := checked.values[i].region) is not None]):
        launch, operands, staged = placed(scope, checked, copied)
        failure = launch_in(scope, launch, operands)
        for region, temporary in staged:
            scope.move(region, temporary)
    note_written([checked.values[i].region for i in plan.written])
    if failure is not None:
        raise failure


class Placed(NamedTuple):
    """A launch on dense memory: `staged` are written arrays with gaps, each with the copy that is launched on."""

    launch: LaunchSpec
    operands: list[Any]
    staged: list[tuple[Region, Region]]


def copied_arguments(checked: CheckedLaunch) -> Set[int]:
    """The arguments that a launch is given copies of: kernels take dense arrays.

    Where one is copied back, so is all that the kernel updates by atomics: the launch has the memory of both to itself,
    and while it has, it may not wait for more.
    """
    plan = checked.plan
    found = {
        i
        for i, value in enumerate(checked.values)
        if not (value.region is None or value.region.is_plain or i in plan.untouched)
        and (i in plan.added_to or plan.launch.debug is not None or value.in_records is None)
    }
    return found if found.isdisjoint(plan.written) else found | plan.added_to


def placed(scope: Scope, checked: CheckedLaunch, copied: Set[int]) -> Placed:
    """The operands of a launch, of which some arrays are copied."""
    plan = checked.plan
    operands: list[Any] = []
    staged: list[tuple[Region, Region]] = []
    records: list[tuple[int, Place]] = []
    for index, (value, convert) in enumerate(zip(checked.values, plan.converters, strict=True)):
        region = value.region
        if region is None:
            operands.append(_host_operand(scope, plan.arguments[index], value.value, convert))
        elif index in copied:
            operands.append(scope.make(region.dtype, region.shape))
            if plan.launch.roles[index] != OUTPUT or plan.launch.debug is not None:
                scope.move(operands[-1], region)
            staged += [(region, operands[-1])] if index in plan.written else []
        elif region.is_plain:
            operands.append(region)
        elif index in plan.untouched:  # of which only the shape is asked for
            operands.append(dense_region(region.address, region.dtype, region.shape, region.owner))
        else:
            found = value.in_records
            assert found is not None
            operands.append(found.region)
            records.append((index, found.place))
    return Placed(on_records(plan.launch, tuple(records)) if records else plan.launch, operands, staged)


@functools.lru_cache(maxsize=512)
def on_records(launch: LaunchSpec, records: tuple[tuple[int, Place], ...]) -> LaunchSpec:
    """The launch on the words of records."""
    return launch.replace(kernel=intern_kernel(in_records(launch.kernel, dict(records))), origin=None)


@dataclass(frozen=True, eq=False)
class LaunchPlan:
    """The plan that every launch with one signature follows.

    Attributes:
        kernel: the kernel that is launched.
        launch: the launch, with the shapes of the arguments.
        arguments: the arguments of the kernel.
        shapes: the shapes of the arguments.
        converters: the function that makes an operand of each value, or None.
        written: for each argument that the kernel writes, the place in the source of the first write.
        overwritten: for each of these, whether some of its old contents stay or are added to, and whether the written
            values depend on the old contents.
        untouched: arguments that the kernel neither reads nor writes, such as some fields of structs.
        added_to: arguments with atomics. The code may accumulate into copies of these and add each copy as a whole.
        endless: arguments that stand for all memory, in which a kernel finds objects by their ids.
        same: for arguments in the same memory as another one, by their numbers, the number of the one that replaces
            them.
        fit: what of it does not depend on extents.
    """

    kernel: Kernel
    launch: LaunchSpec
    arguments: tuple[CallParameter, ...]
    shapes: tuple[tuple[int, ...], ...]
    converters: tuple[Convert | None, ...]
    written: dict[int, Loc | None]
    overwritten: dict[int, tuple[bool, bool]]
    untouched: frozenset[int]
    added_to: frozenset[int]
    endless: frozenset[int]
    same: dict[int, int]
    fit: Fit

    @cached_property
    def code(self) -> NativeCode:
        """The native code of the launch on the CPU, for dense arrays."""
        return loaded_on(HOST, key_of(self.launch, self.shapes))

    @cached_property
    def floats(self) -> tuple[tuple[int, bool], ...]:
        """The arguments that may have derivatives, and whether the kernel only reads them."""
        params, roles = self.launch.kernel.params, self.launch.roles
        return tuple((i, roles[i] == INPUT) for i, param in enumerate(params) if param.dtype.is_float)

    @cached_property
    def lost(self) -> int | None:
        """An argument whose contents the kernel overwrites, and its reverse needs."""
        return next((i for i, (_, is_needed) in self.overwritten.items() if is_needed), None)

    @cached_property
    def pulls(self) -> dict[Any, Any]:
        """The results of `tapes.pull.pull_of` so far."""
        return {}

    def by_value(self, index: int, value: Any) -> np.ndarray:
        """Return the operand for an argument that is passed by value: a copy."""
        convert = self.converters[index]
        return np.array(value if convert is None else convert(value))


def _plan(
    kernel: Kernel,
    described: tuple[Given, ...],
    extents: tuple[int, ...],
    cuda: CudaOptions,
    debug: Debug | None,
    places: tuple[int | None, ...] = (),
) -> LaunchPlan:
    """The plan of such launches, made once. `debug` is what `bind` finds; here it tells plans apart. `places` are those
    of arrays that are given twice."""
    key = described, extents, cuda, debug, places
    plan = kernel.found.plans.get(key)
    if plan is None:
        if len(kernel.found.plans) >= _MAX_PLANS:
            kernel.found.plans.clear()
        plan = kernel.found.plans[key] = _make_plan(kernel, described, extents, cuda, places)
    return plan


def _make_plan(
    kernel: Kernel,
    described: tuple[Given, ...],
    extents: tuple[int, ...],
    cuda: CudaOptions,
    places: tuple[int | None, ...],
) -> LaunchPlan:
    fit = _fit(kernel, described, places)
    given = [d.shape for d in (described if fit.is_whole else with_absent(fit.arguments, described))]
    launch = bind(kernel, fit.kernel, extents, given, LaunchOptions(cuda=cuda))
    # What is passed by value has a type of known shape.
    shapes = (shape or param.shape for shape, param in zip(given, launch.kernel.params, strict=True))
    known = tuple(tuple(n for n in s if n is not None) for s in shapes)
    endless = frozenset(i for i, shape in enumerate(known) if ENDLESS in shape)
    uses = _uses(launch.kernel, launch.roles)
    return LaunchPlan(
        kernel, launch, fit.arguments, known, fit.converters, uses.written, uses.overwritten, uses.untouched,
        uses.added_to, endless, fit.same, fit,
    )  # fmt: skip


class Fit(NamedTuple):
    """A fit of arguments to a kernel, whatever their extents, see `LaunchPlan`.

    Attributes:
        kernel: for the types of the arguments.
        is_whole: whether no argument is None in place of an array.
        by_value: the functions that make operands of arguments that are no arrays; None for the others.
        numbers: for each argument, the numbers of Python that need no such function, and their type of `ctypes`.
    """

    arguments: tuple[CallParameter, ...]
    converters: tuple[Convert | None, ...]
    kernel: KernelIR
    same: dict[int, int]
    is_whole: bool
    by_value: tuple[Convert | None, ...]
    numbers: tuple[tuple[Plain, Any], ...]


def _fit(kernel: Kernel, described: tuple[Given, ...], places: tuple[int | None, ...]) -> Fit:
    """Return how arguments fit a kernel, found once for all extents."""
    key = places, tuple(map(_without_extents, kernel.leaves, described))
    fit = kernel.found.fits.get(key)
    if fit is None:
        if len(kernel.found.fits) >= _MAX_PLANS:
            kernel.found.fits.clear()
        fit = kernel.found.fits[key] = _make_fit(kernel, described, places)
    return fit


def _without_extents(argument: Argument, given: Given) -> Any:
    """Return what decides how an argument fits: of an array in memory all but its extents, which are to be int32."""
    shape = given.shape
    if given.kind != _BUFFER or shape is None or not isinstance(argument.annotation, Array):
        return given
    components = shape[argument.annotation.ndim :]
    return len(shape), components, given.dtype, given.element, max(shape, default=0) < 2**31 or shape


def _make_fit(kernel: Kernel, described: tuple[Given, ...], places: tuple[int | None, ...]) -> Fit:
    arguments = arguments_of(kernel)
    absent = with_absent(arguments, described)
    elements = resolve_elements(arguments, absent)
    try:
        converters = make_converters(arguments, elements, absent)
    except KernelTypeError as error:
        error.hint = _result_hint(kernel, arguments, elements, absent) or error.hint
        raise
    specialized = specialize(kernel, arguments, elements, absent)
    same = same_memory(specialized, places)
    is_whole = not any(given.is_absent for given in absent)
    numbers = tuple((plain_numbers(p.dtype), None if p.rank else number_of_c(p.dtype)) for p in specialized.params)
    by_value = tuple(
        None if argument.is_array else convert or (lambda value: value)
        for argument, convert in zip(arguments, converters, strict=True)
    )
    return Fit(arguments, converters, with_one_for(specialized, same), same, is_whole, by_value, numbers)


class _Uses(NamedTuple):
    """The uses that a kernel makes of its arguments, see `LaunchPlan`."""

    written: dict[int, Loc | None]
    overwritten: dict[int, tuple[bool, bool]]
    untouched: frozenset[int]
    added_to: frozenset[int]


@functools.lru_cache(maxsize=_MAX_PLANS)
def _uses(kernel: KernelIR, roles: tuple[str, ...]) -> _Uses:
    effects = [analyze(kernel)[param] for param in kernel.params]
    written = {i: effects[i].first_write for i, role in enumerate(roles) if role != INPUT}
    updated = {i for i in written if roles[i] == IN_OUT}
    return _Uses(
        written,
        {i: (i in updated, i in updated and _decides(effects[i])) for i in written},
        frozenset(i for i, found in enumerate(effects) if not (found.reads or found.modifies)),
        frozenset(i for i, found in enumerate(effects) if found.atomics),
    )


def _decides(access: Access) -> bool:
    """Return whether the values that are written depend on the old contents of an argument."""
    return bool(access.loads) or any(a.kind not in ("add", "sub") for a in access.atomics)


def _result_hint(
    kernel: Kernel, arguments: Sequence[CallParameter], elements: Sequence[Any], described: Sequence[Given]
) -> str | None:
    """The hint where what has another type is an array that the kernel writes to: a converted copy is of no use."""
    if kernel.is_generic:
        return None
    ir = kernel.specialize()
    effects = analyze(ir)
    for param, argument, element, given in zip(ir.params, arguments, elements, described, strict=True):
        scalar = element_scalar(element)
        if argument.is_array and given.shape is not None and given.dtype != scalar.numpy:
            is_written = effects[param].modifies
            return f"the kernel writes to it: make it with zeros(shape, dtype={scalar})" if is_written else None
    return None


def _host_operand(scope: Scope, argument: CallParameter, value: Any, convert: Convert | None) -> Any:
    """A value of the host: in the call's memory where it is an array, as it is where it is passed by value."""
    values = np.asarray(value if convert is None else convert(value))
    if not argument.is_array:
        return values
    region = scope.make(values.dtype, values.shape)
    scope.put(region, values)
    return region


def _require_writable(scope: Scope, plan: LaunchPlan, values: Sequence[PlacedValue]) -> None:
    """Check that the kernel writes only to writable memory, and that no other array it uses overlaps that memory."""
    arguments, unseen = plan.arguments, plan.untouched | plan.endless
    used = [(i, value.region) for i, value in enumerate(values) if value.region is not None and i not in unseen]
    for i, line in plan.written.items():
        where, region = f"{arguments[i].where} is written by the kernel", values[i].region
        if region is None:
            kind, memory = type(values[i].value).__name__, _memory_of(scope)
            raise KernelTypeError(
                f"{where}: expected an array in the memory {memory}, got {kind}",
                line,
                hint="pass an array of jaxwarp, zeros(shape, dtype=...), or of NumPy, and read it after the launch",
            )
        array = values[i].array
        scope.require_untraced(arguments[i].where if array is None else array.label, "written by the kernel", region)
        if not values[i].is_writable:
            if isinstance(array, LiveArray) and not isinstance(array, HostArray):
                array.require_writable(f"written by kernel {arguments[i].kernel}")
            raise _read_only(where, line, array, values[i].value)
        if region.repeats:
            raise KernelTypeError(
                f"{where}, and several of its elements are in one place (strides {region.strides})",
                line,
                hint="write to a copy, array.contiguous(), where each element has a place of its own",
            )
        if plan.endless and tables_at(memory_of(scope)).meets(*region.span):
            raise KernelTypeError(
                f"{where}, and shares memory with an object that the kernel may find by its id",
                line,
                hint="write to a copy, and give that to the object afterwards",
            )
        for j, other in used:
            if i != j and region.overlaps(other):
                raise KernelTypeError(
                    f"{where}, and shares memory with argument '{arguments[j].name}'", line, hint="pass a copy as one"
                )


def _memory_of(scope: Scope) -> str:
    if not scope.is_outside:
        return "of the call"
    return "of the host" if scope is HOST else f"of cuda:{scope.device_ordinal}"


def _read_only(where: str, line: Loc | None, array: MemoryArray | None, value: Any) -> KernelTypeError:
    """Return the error for an argument that a kernel writes but that may not be written."""
    hint = "write to an output, or to a copy"
    match array:
        case HostArray():
            what = "the memory of a JAX array, which never changes" if array.jax_value is not None else "read-only"
            hint = "pass jaxwarp.clone(array), which is a copy"
        case None if indexed_of(value) is not None:
            what, hint = "an indexed array", "annotate it indexedarray[...], or pass a copy: clone(array)"
        case None:
            what = "a JAX array, which never changes" if isinstance(value, jax.Array) else "a read-only array"
        case _:
            what = f"{array.label}, an input of the callback"
    return KernelTypeError(f"{where}, but it is {what}", line, hint=hint)
