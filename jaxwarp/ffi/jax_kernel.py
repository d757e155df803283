"""`jax_kernel`: a kernel as a function of JAX values."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from typing import overload as _typing_overload

import jax
import jax.core
import jax.numpy as jnp

from jaxwarp.boundary import boundary, caller, guarded
from jaxwarp.codegen.abi import CudaOptions
from jaxwarp.compat import ArrayImpl, is_tracing, is_x64_enabled
from jaxwarp.errors import KernelTypeError, KernelValueError, did_you_mean
from jaxwarp.ffi.debug import reporting, require_no_failure
from jaxwarp.ffi.primitive import bind_launch, compiled_launch
from jaxwarp.frontend.text.functions import named
from jaxwarp.frontend.text.read_source import read_source
from jaxwarp.ir.kernel import Kernel as KernelIR
from jaxwarp.kernel import Kernel
from jaxwarp.launches.arguments.argument import (
    CallParameter,
    Given,
    as_jax_value,
    describe_for,
    require_enabled,
    signature_token,
    with_absent,
)
from jaxwarp.launches.arguments.bind import LaunchOptions, bind, specialize
from jaxwarp.launches.arguments.converters import Convert, eager_converter, make_converter
from jaxwarp.launches.arguments.default_dims import First, default_extents, require_no_tiles
from jaxwarp.launches.arguments.dims import (
    ByName,
    freeze_dims,
    normalize_dims,
    output_shape,
    require_int32_extents,
)
from jaxwarp.launches.arguments.generics import fill_generic, is_generic, resolve_element
from jaxwarp.launches.arguments.leaves import Packing, count_outputs, form_of_results
from jaxwarp.launches.arguments.options import (
    CallOptions,
    Mode,
    ModulePreloadMode,
    VmapMethod,
    require_preload_mode,
    require_vmap_method,
)
from jaxwarp.launches.arguments.roles import (
    assign_roles,
    bind_names,
    call_signature,
    outputs_text,
    require_inputs_unchanged,
    roles_of_written,
    updating_options,
    written_last,
)
from jaxwarp.launches.modes import debug_now, mode_of, require_mode
from jaxwarp.launches.sharding import ShardingRule, fit_factors, parse_rule, require_splits
from jaxwarp.launches.spec import IN_OUT, INPUT, OUTPUT, Dim, LaunchSpec
from jaxwarp.memory.fork_guard import require_jax
from jaxwarp.passes.launches.tells import prints
from jaxwarp.types import Element, leaves_in_handles
from jaxwarp.unlocked import cached_property

# Signatures remembered per function. Beyond it all are forgotten, and found again when they come.
_MAX_PLANS = 512
_CALL_OPTIONS = ("launch_dims", "output_dims", "vmap_method")


@dataclass(frozen=True)
class _Plan:
    """The plan that all calls with one signature share: how to make operands from the arguments, and the launch.

    `eager` makes operands for the compiled launch. `kept` lists, in order, a place among the results and the operand
    that is returned there. These operands are the arrays of an updated struct that the kernel does not write.
    """

    launch: LaunchSpec
    converters: tuple[Convert | None, ...]
    eager: tuple[Convert | None, ...]
    kept: tuple[tuple[int, int], ...] = ()

    def with_kept(self, results: Sequence[Any], operands: Sequence[Any]) -> list[Any]:
        """All results."""
        made = list(results)
        for place, operand in self.kept:
            made.insert(place, jnp.asarray(operands[operand]))
        return made

    @cached_property
    def compiled(self) -> Callable[..., list[Any]]:
        if self.launch.debug is None:
            return compiled_launch(self.launch)
        launch = reporting(self.launch)
        compiled, traced = compiled_launch(launch), compiled_launch(self.launch)

        def call(*operands: Any) -> list[Any]:
            if is_tracing():
                return traced(*operands)
            *results, record = compiled(*operands)
            require_no_failure(launch, record)
            return results

        return call


def _converted(values: Sequence[Any], converters: Sequence[Convert | None]) -> list[Any]:
    return [v if c is None else c(v) for c, v in zip(converters, values, strict=True)]


@_typing_overload
def jax_kernel(
    kernel: Kernel | Callable[..., None],
    num_outputs: int = 1,
    vmap_method: VmapMethod | None = None,
    launch_dims: Any = None,
    output_dims: Any = None,
    in_out_argnames: Iterable[str] | None = None,
    module_preload_mode: Any = ModulePreloadMode.CURRENT_DEVICE,
    enable_backward: bool = False,
    has_side_effect: bool = False,
    block_dim: int | str | None = None,
    sharding_rule: str | None = None,
    mode: Mode | None = None,
    named_outputs: bool = False,
    outputs: str | Sequence[str] | None = None,
) -> JaxKernel: ...
@_typing_overload
def jax_kernel(
    kernel: None = None, *, outputs: str | Sequence[str], **options: Any
) -> Callable[[Kernel | Callable[..., None]], JaxKernel]: ...
@boundary
def jax_kernel(  # noqa: PLR0913  # pyright: ignore[reportInconsistentOverload]
    kernel: Any = None,
    num_outputs: int = 1,
    vmap_method: VmapMethod | None = None,
    launch_dims: Any = None,
    output_dims: Any = None,
    in_out_argnames: Iterable[str] | None = None,
    module_preload_mode: Any = ModulePreloadMode.CURRENT_DEVICE,
    enable_backward: bool = False,
    has_side_effect: bool = False,
    block_dim: int | str | None = None,
    sharding_rule: str | None = None,
    mode: Mode | None = None,
    named_outputs: bool = False,
    outputs: str | Sequence[str] | None = None,
) -> Any:
    """Make a JAX function from a kernel.

    You pass the function the kernel's inputs, by position or by name. With `outputs="out"` it returns that output; else
    it returns a list of the outputs, as in Warp. It works under `jit`, `vmap`, `scan`, `shard_map`, `jax.export` and
    the other transformations of JAX, and outside of them. Elements of an output that the kernel does not write are
    zero.

    `@jax_kernel(outputs="out")` decorates a Python function, which becomes a kernel. `f.kernel` is that kernel.

    Args:
        kernel: made by `@kernel`, or a Python function if `outputs` is given. Its inputs come first, its outputs last.
            Default: a decorator.
        num_outputs: how many arguments are outputs; in-out arguments count among them.
        vmap_method: how `jax.vmap` maps a call. None: one launch for all items, nothing copied; "sequential" and
            "sequential_unrolled": a launch per item; "broadcast_all": unbatched arguments are repeated;
            "expand_dims" and "legacy_vectorized": as None. The results are the same.
        launch_dims: number of threads along each axis. Default: the first extents of the first array argument, as many
            as `tid()` gives indices. Arrays inside of meshes, grids and the like do not count.
        output_dims: shape of the outputs, with or without the component axes of vectors and matrices; a dictionary
            has one for each output. Default: the launch dimensions; for an output with another number of axes the
            shape of the first array argument, if that has as many.
        in_out_argnames: inputs that the kernel updates. Their new values are the first outputs.
        module_preload_mode: checked; no effect: code is compiled with the program that calls it.
        enable_backward: accepted, no effect.
        has_side_effect: launch even if no output is used.
        block_dim: CUDA threads per block; "auto": as `wp.autotune` has measured; default: the kernel's option of that
            name, or 256, or 128 where the code's registers let more threads run then.
        sharding_rule: which axes of inputs and outputs are split together, as in "i k, k j -> i j". Under `jit` over
            sharded arrays each device then launches its part; without it XLA gathers the arrays. See docs/sharding.md.
        mode: "debug" to check launches while they run, "release" not to; default: the kernel's own (`module_options`),
            or `jaxwarp.config.mode`. See docs/debugging.md.
        named_outputs: whether outputs are a named tuple, with the names that the kernel gives them, instead of a list.
        outputs: the names of the outputs, instead of `num_outputs`. One name: the call returns that array; a tuple of
            names: it returns a named tuple.

    Returns:
        A function of the kernel's inputs, which also takes `launch_dims`, `output_dims` and `vmap_method`.

    Raises:
        KernelTypeError, KernelValueError: the options do not fit the kernel.

    Examples:
        >>> @jaxwarp.jax_kernel(outputs="y")
        ... def triple(x: jaxwarp.array[float], y: jaxwarp.array[float]):
        ...     i = jaxwarp.tid()
        ...     y[i] = 3.0 * x[i]
        >>> y = triple(jax.numpy.arange(4.0))
    """
    given, scope = dict(locals()), caller().f_locals
    if kernel is None and outputs is not None:
        del given["kernel"]
        return lambda function: jax_kernel(_kernel(function, outputs, scope), **given)
    kernel = _kernel(kernel, outputs, scope)
    given.pop("kernel", None)
    num_outputs = count_outputs(f"kernel {kernel.name}", num_outputs, outputs)
    require_preload_mode(f"kernel {kernel.name}", module_preload_mode)
    where = f"kernel {kernel.name}"
    frozen = freeze_dims(launch_dims, f"{where}: launch_dims"), freeze_dims(output_dims, f"{where}: output_dims")
    defaults = CallOptions(*frozen, vmap_method)
    arguments = _roles(kernel, num_outputs, in_out_argnames, by_name=outputs is not None)
    cuda = kernel.cuda_options(block_dim)
    if sharding_rule is not None and has_side_effect:
        raise KernelValueError(
            f"kernel {kernel.name}: sharding_rule and has_side_effect do not go together: XLA drops partitioned"
            " launches whose results are not used",
            hint="launch it under jax.shard_map",
        )
    rule = None if sharding_rule is None else parse_rule(kernel.name, sharding_rule, arguments)
    mode = require_mode(f"kernel {kernel.name}", mode_of(kernel) if mode is None else mode)
    results = form_of_results(f"kernel {kernel.name}", arguments, outputs, named_outputs)

    def made(kernel: Kernel, arguments: Sequence[CallParameter]) -> JaxKernel:
        call = JaxKernel(kernel, arguments, defaults, bool(has_side_effect), cuda, rule, mode, results)
        call.options = given
        return call

    call = made(kernel, arguments)
    if kernel.takes_structs:
        in_outs = list(dict.fromkeys(a.declared for a in arguments if a.role == IN_OUT))
        call.remade = lambda kernel: made(kernel, assign_roles(kernel, num_outputs, in_outs))
    return call


def _kernel(given: Any, outputs: object, scope: Mapping[str, Any]) -> Kernel:
    """The kernel, which may be given as a Python function if its outputs are named."""
    if isinstance(given, Kernel):
        return given
    if not inspect.isfunction(given):
        of_jax = isinstance(given, JaxKernel)
        hint = "pass its attribute kernel" if of_jax else "decorate it with @jaxwarp.kernel"
        raise KernelTypeError(f"jax_kernel: expected a kernel, got {given!r}", hint=hint)
    if outputs is None:
        last = list(inspect.signature(given).parameters)[-1:] or ["out"]
        raise KernelTypeError(
            f"jax_kernel: expected a kernel, got the Python function {given.__name__}",
            hint=f"decorate it with @jaxwarp.kernel, or name its outputs: @jaxwarp.jax_kernel(outputs={last[0]!r})",
        )
    return Kernel(read_source(given, "kernel", scope))


def _roles(
    kernel: Kernel, num_outputs: int, in_out_argnames: Iterable[str] | None, *, by_name: bool
) -> list[CallParameter]:
    try:
        return assign_roles(kernel, num_outputs, in_out_argnames, by_name=by_name)
    except (KernelTypeError, KernelValueError) as error:
        if in_out_argnames is None and not kernel.is_generic:
            arguments = [CallParameter(kernel.name, a.name, a.annotation, INPUT) for a in kernel.leaves]
            options = updating_options(kernel.specialize(), arguments, by_name=by_name)
            error.hint = f"the kernel updates its input: {options}" if options else error.hint
        raise


@guarded
class JaxKernel:
    """A kernel as a function of JAX values: see `jax_kernel`."""

    def __init__(
        self,
        kernel: Kernel,
        arguments: Sequence[CallParameter],
        defaults: CallOptions,
        has_side_effect: bool,
        cuda: CudaOptions,
        rule: ShardingRule | None = None,
        mode: str | None = None,
        results: Callable[[Iterable[Any]], Any] | None = None,
    ):
        self.kernel = kernel
        self.__name__ = self.__qualname__ = kernel.name
        self.__module__ = kernel.__module__
        self.__doc__ = getattr(kernel, "__doc__", None)
        self._arguments = arguments
        self._inputs = [a for a in arguments if a.role != OUTPUT]
        self._packing = Packing.of([(a.name, a.annotation) for a in kernel.arguments], arguments)
        self._input_count = len({a.declared for a in self._inputs})
        self._defaults = defaults
        self._has_side_effect = has_side_effect
        self._cuda = cuda
        self._rule = rule
        self._mode = mode
        self._results = results
        self._plans: dict[Any, _Plan] = {}
        # Of a kernel that leaves open what may be a struct: the same call, of the kernel that takes structs there.
        self.remade: Callable[[Kernel], JaxKernel] | None = None
        self._others: dict[Kernel, JaxKernel] = {}
        self.options: dict[str, Any] = {}  # that `jax_kernel` was given
        self._require_options(defaults)

    def __repr__(self) -> str:
        return f"<jax_kernel {self.__name__}>"

    def __reduce__(self) -> str | tuple[Any, ...]:
        """A decorated function by its name, as functions are; another call by its kernel and options."""
        if named(self.kernel.__module__, self.kernel.key) is self:
            return self.kernel.key
        return partial(jax_kernel, **self.options), (self.kernel,)

    @property
    def __signature__(self) -> inspect.Signature:
        """The inputs of the kernel, and the options of a call."""
        types = {a.name: a.annotation for a in self.kernel.arguments}
        return call_signature(type(self).__call__, self._arguments, types, self.kernel.defaults)

    @boundary
    def __call__(
        self,
        *args: Any,
        launch_dims: Any = None,
        output_dims: Any = None,
        vmap_method: VmapMethod | None = None,
        **kwargs: Any,
    ) -> Any:
        """Launches the kernel on its inputs and returns its outputs: a list, or as `outputs` has it.

        Raises:
            CheckError: in debug mode, outside of JAX, a thread has failed a check.
        """
        if kwargs or len(args) != self._input_count:
            args = self._bound(args, kwargs)
        if self.remade is not None and (kernel := self.kernel.given(args)) is not self.kernel:
            other = self._others.get(kernel) or self._others.setdefault(kernel, self.remade(kernel))
            return other(*args, launch_dims=launch_dims, output_dims=output_dims, vmap_method=vmap_method)
        leaves = args if self._packing is None else tuple(self._packing.spread(args))
        found = self._call(leaves, launch_dims, output_dims, vmap_method)
        found = found if self._packing is None else self._packing.gathered(leaves, found)
        return found if self._results is None else self._results(found)

    def _call(self, args: tuple[Any, ...], launch_dims: Any, output_dims: Any, vmap_method: str | None) -> list[Any]:
        """The call, given leaves; the leaves of the results."""
        if launch_dims is None and output_dims is None and vmap_method is None:
            options = self._defaults
        else:
            launch_dims = freeze_dims(launch_dims, f"kernel {self.__name__}: launch_dims")
            output_dims = freeze_dims(output_dims, f"kernel {self.__name__}: output_dims")
            options = CallOptions(launch_dims, output_dims, vmap_method).over(self._defaults)
        signature = [signature_token(value) for value in args]
        if None in signature or not options.is_hashable:
            args = self._jax_values(args)
            return self._bind(self._make_plan(args, options), args)
        key = (*signature, options, is_x64_enabled(), debug_now(self._mode))
        plan = self._plans.get(key)
        if plan is None:
            plan = self._make_plan(args, options)
            if len(self._plans) >= _MAX_PLANS:
                self._plans.clear()
            self._plans[key] = plan
        return self._bind(plan, args)

    def launch_for(self, args: Sequence[Any]) -> tuple[LaunchSpec, list[Any]]:
        """The launch that a call makes, and its operands; nothing is launched.

        Raises:
            KernelTypeError, KernelValueError: as a call.
        """
        if len(args) != self._input_count:
            args = self._bound(args, {})
        if self.remade is not None and (kernel := self.kernel.given(args)) is not self.kernel:
            return self.remade(kernel).launch_for(args)
        leaves = args if self._packing is None else self._packing.spread(args)
        values = self._jax_values(leaves)
        plan = self._make_plan(values, self._defaults)
        return plan.launch, _converted(values, plan.converters)

    def _jax_values(self, leaves: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(as_jax_value(value, a.where) for a, value in zip(self._inputs, leaves, strict=True))

    def _bound(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
        """The inputs in order. Where they are too few, the number of outputs may be what is wrong."""
        try:
            return tuple(bind_names(self._arguments, args, kwargs, self.kernel.defaults, _CALL_OPTIONS))
        except KernelTypeError as error:
            given = len(args) + len(kwargs)
            if not set(kwargs) <= {a.declared for a in self._arguments}:  # it is a name that is wrong
                raise
            error.hint = self._forgotten_outputs(given) or self._forgotten_updates(given, error.hint) or error.hint
            raise

    def _forgotten_outputs(self, given: int) -> str | None:
        """The hint if a call has the inputs that the kernel has once all that it writes last are outputs."""
        in_outs = len([a for a in self._arguments if a.role == IN_OUT])
        if any(is_generic(a.element) for a in self._arguments) or in_outs or self._packing is not None:
            return None
        count = written_last(self.kernel.specialize(), self._arguments)
        outputs = len(self._arguments) - len(self._inputs)
        if count <= outputs or given != len(self._arguments) - count:
            return None
        names = [a.name for a in self._arguments[-count:]]
        options = outputs_text(names, by_name=self._by_name)
        return f"the kernel writes to {', '.join(names)}: {self._with(options)}"

    def _with(self, options: str | None) -> str:
        """The call with other options in a hint; a decorator's options alone."""
        return str(options) if self._by_name else f"jax_kernel({self.__name__}, {options})"

    @property
    def _by_name(self) -> bool:
        return self.options.get("outputs") is not None

    def _forgotten_updates(self, given: int, hint: str | None) -> str | None:
        """The hint if a call has the inputs that the kernel has once all that it updates are inputs, too. Where it only
        adds, that is one of two ways out; `hint` is the other."""
        if self.kernel.is_generic:
            return None
        kernel = self.kernel.specialize()
        options = updating_options(kernel, self._arguments, given, by_name=self._by_name)
        way = self._with(options)
        if options is None or updating_options(kernel, self._arguments) is not None:
            return options and f"the kernel updates its input: {way}"
        return f"{hint}; or pass an array to add to: {way}"

    def _bind(self, plan: _Plan, args: Sequence[Any]) -> list[Any]:
        for value in args:
            if type(value) is not ArrayImpl and isinstance(value, jax.core.Tracer):
                require_jax(f"kernel {self.__name__}", is_traced=True)
                operands = _converted(args, plan.converters)
                return plan.with_kept(bind_launch(plan.launch, operands), operands)
        require_jax(f"kernel {self.__name__}")
        operands = _converted(args, plan.eager)
        return plan.with_kept(plan.compiled(*operands), operands)

    def _make_plan(self, args: Sequence[Any], options: CallOptions) -> _Plan:
        """Everything that does not depend on the values of the arguments; all checks of a call are below here."""
        self._require_options(options)
        described = [describe_for(argument, value) for argument, value in zip(self._inputs, args, strict=True)]
        given = with_absent(self._inputs, described)
        elements = self._resolve_elements(given)
        for argument, element in zip(self._arguments, elements, strict=True):
            require_enabled(argument.where, element)
        converters = tuple(map(make_converter, self._inputs, elements, given))
        specialized = specialize(self.kernel, self._arguments, elements, given)
        require_inputs_unchanged(specialized, self._arguments, by_name=self._by_name)
        extents = self._launch_extents(specialized, given, options)
        results = self._result_shapes(specialized, given, elements, extents, options)
        outputs = len(self._arguments) - len(given)
        shapes = [*(value.shape for value in given), *results[len(results) - outputs :]]
        how = LaunchOptions(options.vmap_method, self._cuda, self._has_side_effect, self._mode, "launch_dims=...")
        roles, kept = roles_of_written(specialized, self._arguments)
        launch = bind(self.kernel, specialized, extents, shapes, how, roles)
        eager = tuple(map(eager_converter, self._inputs, elements, given, converters))
        return _Plan(self._with_rule(launch, given, elements), converters, eager, kept)

    def _with_rule(self, launch: LaunchSpec, given: Sequence[Given], elements: Sequence[Element]) -> LaunchSpec:
        if self._rule is None:
            return launch
        if prints(launch.kernel):
            raise KernelValueError(
                f"kernel {self.__name__}: it prints, and has a sharding_rule: XLA drops partitioned launches whose"
                " results are not used",
                hint="leave one of them out, or use shard_map",
            )
        launch = launch.replace(has_side_effect=False)
        results = dict(zip(launch.result_params, launch.results, strict=True))
        shapes = [results.get(i, given[i].shape if i < len(given) else None) for i in range(len(launch.roles))]
        launch = launch.replace(factors=fit_factors(self._rule, self._arguments, elements, shapes))
        require_splits(launch, self._rule)
        return launch

    def _require_options(self, options: CallOptions) -> None:
        require_vmap_method(f"kernel {self.__name__}", options.vmap_method)
        if isinstance(options.output_dims, ByName):
            self._require_names(options.output_dims)

    def _require_names(self, dims: ByName) -> None:
        where = f"kernel {self.__name__}: output_dims"
        outputs = dict.fromkeys(a.declared for a in self._arguments if a.role == OUTPUT)
        in_outs = [a.declared for a in self._arguments if a.role == IN_OUT]
        for name, _ in dims.items:
            if name in in_outs:
                raise KernelValueError(
                    f"{where}: '{name}' is an in-out argument; it keeps the shape it comes with",
                    hint=f"leave {name!r} out of output_dims",
                )
            if name not in outputs:
                raise KernelValueError(
                    f"{where}: no output is named {name!r}; the outputs are {', '.join(outputs)}",
                    hint=did_you_mean(name, outputs) or f"write output_dims={{{next(iter(outputs), name)!r}: (n,)}}",
                )
        missing = [name for name in outputs if name not in dict(dims.items)]
        if missing:
            raise KernelValueError(
                f"{where}: no dimensions for output '{missing[0]}'",
                hint=f"write output_dims={{..., {missing[0]!r}: (n,)}}",
            )

    def _resolve_elements(self, given: Sequence[Given]) -> list[Element]:
        """Element types of all arguments.

        A generic output has the type of the first input with the same type variable, else of the first generic one
        that is no field of a struct.
        """
        inputs: list[Element] = [resolve_element(a, g) for a, g in zip(self._inputs, given, strict=True)]
        pairs = zip(self._inputs, inputs, strict=True)
        generic = [(a, e) for a, e in pairs if is_generic(a.element) and "." not in a.name]
        outputs: list[Element] = []
        for argument in self._arguments[len(inputs) :]:
            like = [a.meaning(e) for a, e in generic if a.variable is argument.variable] or [e for _, e in generic]
            if not is_generic(argument.element):
                outputs.append(argument.element)
            elif like:
                outputs.append(fill_generic(argument.element, like[0]))
            else:
                raise KernelTypeError(
                    f"{argument.where} is generic, and no input tells its type",
                    hint="annotate it with a type, such as array[float]",
                )
        return inputs + outputs

    def _launch_extents(self, kernel: KernelIR, given: Sequence[Given], options: CallOptions) -> tuple[Dim, ...]:
        if options.launch_dims is not None:
            return normalize_dims(options.launch_dims, f"kernel {self.__name__}: launch_dims")
        return default_extents(kernel, self._first_array(given), "launch_dims")

    def _first_array(self, given: Sequence[Given]) -> First | None:
        inside = {n for a in self.kernel.arguments for n in leaves_in_handles(a.name, a.annotation)}
        for argument, value in zip(self._inputs, given, strict=True):
            if argument.is_array and value.shape is not None and not value.is_absent and argument.name not in inside:
                return argument.name, tuple(value.shape[: argument.ndim])
        return None

    def _result_shapes(
        self,
        kernel: KernelIR,
        given: Sequence[Given],
        elements: Sequence[Element],
        extents: tuple[Dim, ...],
        options: CallOptions,
    ) -> tuple[tuple[Dim, ...], ...]:
        shapes = []
        first = self._first_array(given)
        for index, (argument, element) in enumerate(zip(self._arguments, elements, strict=True)):
            if argument.role == IN_OUT:
                shapes.append(tuple(given[index].shape or ()))
            elif argument.role == OUTPUT:
                if options.output_dims is None:
                    require_no_tiles(kernel, kernel.params[index])
                like = (extents, first[1] if first else ())
                shapes.append(self._output_shape(argument, element, like, options.output_dims))
        return tuple(shapes)

    def _output_shape(
        self, argument: CallParameter, element: Element, like: Sequence[tuple[Dim, ...]], dims: object
    ) -> tuple[Dim, ...]:
        """Return the shape that `dims` give, else the first shape of `like` with as many axes as the output."""
        where = f"kernel {self.__name__}: output '{argument.name}'"
        extents = next((shape for shape in like if len(shape) == argument.ndim), None)
        if dims is None and extents is None:
            axes = "1 axis" if argument.ndim == 1 else f"{argument.ndim} axes"
            raise KernelValueError(
                f"{where} has {axes}, but its shape is by default that of the launch, {like[0]}",
                hint="pass output_dims=..., or launch_dims=...",
            )
        dims = extents if dims is None else dict(dims.items)[argument.declared] if isinstance(dims, ByName) else dims
        shape = output_shape(argument.ndim, element, dims, f"{where}: output_dims")
        require_int32_extents(shape, where)
        return shape
