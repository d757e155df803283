"""`jax_callable`: a Python function that launches several kernels, as a function of JAX values."""

from __future__ import annotations

import enum
import functools
import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any
from typing import overload as _typing_overload

import jax
import jax.core
import jax.numpy as jnp

from jaxwarp.boundary import boundary, guarded, warn
from jaxwarp.compat import is_tracing, is_x64_enabled
from jaxwarp.errors import KernelTypeError, KernelValueError, PerformanceWarning, did_you_mean
from jaxwarp.ffi.checkify import raising
from jaxwarp.ffi.programs.capture import CallableRecorder
from jaxwarp.ffi.programs.declared import DeclaredFunction
from jaxwarp.ffi.programs.python_call import PythonParameter, Static, bind_call, make_call, require_nothing
from jaxwarp.ffi.programs.traced_array import ArrayHandle
from jaxwarp.ffi.programs.tracing import Program, tracing
from jaxwarp.frontend.text.functions import named
from jaxwarp.kernel import Kernel
from jaxwarp.launches.arguments.argument import (
    CallParameter,
    as_jax_value,
    describe,
    describe_for,
    require_enabled,
    signature_token,
)
from jaxwarp.launches.arguments.converters import make_converter
from jaxwarp.launches.arguments.dims import ByName, freeze_dims, output_shape
from jaxwarp.launches.arguments.generics import is_generic, resolve_element
from jaxwarp.launches.arguments.leaves import Packing, count_outputs, form_of_results
from jaxwarp.launches.arguments.options import (
    CallOptions,
    ModulePreloadMode,
    VmapMethod,
    require_preload_mode,
    require_vmap_method,
)
from jaxwarp.launches.arguments.roles import assign_roles, bind_names, call_signature
from jaxwarp.launches.modes import debug_now
from jaxwarp.launches.spec import IN_OUT, INPUT, OUTPUT
from jaxwarp.memory.convert import for_jax
from jaxwarp.memory.fork_guard import require_jax
from jaxwarp.types import Array, leaves_in_handles
from jaxwarp.unlocked import cached_property

_MAX_COMPILED = 256
_DEFAULT_GRAPHS, _ALL_GRAPHS = 32, 2**62


class GraphMode(enum.IntEnum):
    """The way in which the launches of a callable get into CUDA graphs.

    The staged modes of Warp copy arrays to buffers with fixed addresses. Here they are `WARP`: graphs follow arrays.
    """

    NONE = 0
    JAX = 1
    WARP = 2
    WARP_STAGED = 3
    WARP_STAGED_EX = 4


@_typing_overload
def jax_callable(
    func: Callable[..., None],
    num_outputs: int = 1,
    graph_mode: GraphMode = GraphMode.JAX,
    vmap_method: VmapMethod | None = None,
    output_dims: Any = None,
    in_out_argnames: Iterable[str] | None = None,
    stage_in_argnames: Iterable[str] | None = None,
    stage_out_argnames: Iterable[str] | None = None,
    graph_cache_max: int | None = _DEFAULT_GRAPHS,
    module_preload_mode: Any = ModulePreloadMode.CURRENT_DEVICE,
    has_side_effect: bool = False,
    named_outputs: bool = False,
    outputs: str | Sequence[str] | None = None,
) -> JaxCallable: ...
@_typing_overload
def jax_callable(
    func: None = None, *, outputs: str | Sequence[str], **options: Any
) -> Callable[[Callable[..., None]], JaxCallable]: ...
@boundary
def jax_callable(  # noqa: PLR0913  # pyright: ignore[reportInconsistentOverload]
    func: Callable[..., None] | None = None,
    num_outputs: int = 1,
    graph_mode: GraphMode = GraphMode.JAX,
    vmap_method: VmapMethod | None = None,
    output_dims: Any = None,
    in_out_argnames: Iterable[str] | None = None,
    stage_in_argnames: Iterable[str] | None = None,
    stage_out_argnames: Iterable[str] | None = None,
    graph_cache_max: int | None = _DEFAULT_GRAPHS,
    module_preload_mode: Any = ModulePreloadMode.CURRENT_DEVICE,
    has_side_effect: bool = False,
    named_outputs: bool = False,
    outputs: str | Sequence[str] | None = None,
) -> Any:
    """Make a JAX function from a Python function that launches kernels.

    Annotate the function like a kernel. JAX traces it: `launch`, `copy`, `zeros` and the like become operations of the
    compiled program. The result works with all transformations of JAX. On GPUs XLA captures its launches into CUDA
    graphs.

    Args:
        func: inputs come first, outputs last; it returns nothing.
        num_outputs: how many arguments are outputs; in-out arguments count among them.
        graph_mode: `GraphMode.JAX`: as above. `GraphMode.WARP`: the whole function is one operation, which captures and
            replays a CUDA graph of its own; functions of JAX cannot be applied to its arrays then. The staged modes of
            Warp do the same, and copy nothing. `GraphMode.NONE`: the function runs in Python whenever the program does,
            on real memory, and may use the host; it has no derivatives and cannot be exported.
        vmap_method: as in `jax_kernel`, for each launch; with `GraphMode.NONE`, "sequential" and
            "sequential_unrolled" make a call of XLA's per item, the others one for all. The results are the same.
        output_dims: shape of the outputs, or a dictionary of shapes by name. Default: that of the first array argument.
        in_out_argnames: inputs that the function updates. Their new values are the first outputs.
        graph_cache_max: with `GraphMode.WARP`, how many graphs are kept on each device for every program the function
            is compiled in: one for each set of buffers it has run with; None: all. No effect otherwise.
        stage_in_argnames: array inputs that the staged modes of Warp would copy. With `GraphMode.JAX` the function may
            write to them: what it writes is its own, and the caller's array stays. No effect in other modes.
        stage_out_argnames: array outputs that the staged modes of Warp would copy. Checked; no effect.
        module_preload_mode: checked; no effect: code is compiled with the program that calls it.
        has_side_effect: launch even if no output is used.
        named_outputs: whether outputs are a named tuple, with the names of the function's arguments, instead of a list.
        outputs: the names of the outputs, instead of `num_outputs`. One name: the call returns that array; a tuple of
            names: it returns a named tuple. `@jax_callable(outputs="out")` is a decorator.

    Returns:
        A function of the inputs, which also takes `output_dims` and `vmap_method`. Python numbers are static: the
        function may branch on them; JAX scalars are traced.

    Raises:
        KernelTypeError, KernelValueError: the options do not fit the function.
    """
    given = dict(locals())
    if func is None and outputs is not None:
        del given["func"]
        return lambda function: jax_callable(function, **given)
    given.pop("func", None)
    if not callable(func) or isinstance(func, Kernel):
        hint = "use jax_kernel for a kernel" if isinstance(func, Kernel) else None
        raise KernelTypeError(f"jax_callable: expected a Python function, got {func!r}", hint=hint)
    graph_mode = _require_graph_mode(func, graph_mode)
    graphs = _require_cache_max(func, graph_cache_max)
    function = DeclaredFunction(func)
    num_outputs = count_outputs(f"callable {function.name}", num_outputs, outputs)
    arguments = assign_roles(function, num_outputs, in_out_argnames, by_name=outputs is not None)
    require_preload_mode(f"callable {function.name}", module_preload_mode)
    inputs = [a for a in arguments if a.role != OUTPUT]
    staged = _require_staged(function.name, "stage_in_argnames", stage_in_argnames, inputs)
    _require_staged(function.name, "stage_out_argnames", stage_out_argnames, [a for a in arguments if a.role != INPUT])
    defaults = CallOptions(None, freeze_dims(output_dims, f"callable {function.name}: output_dims"), vmap_method)
    results = form_of_results(f"callable {function.name}", arguments, outputs, named_outputs)

    def made(function: DeclaredFunction, arguments: Sequence[CallParameter]) -> JaxCallable:
        found = JaxCallable(function, arguments, defaults, bool(has_side_effect), graph_mode, graphs, results)
        found.staged = staged
        return found

    call = made(function, arguments)
    if function.takes_structs:
        in_outs = list(dict.fromkeys(a.declared for a in arguments if a.role == IN_OUT))
        call.remade = lambda function: made(function, assign_roles(function, num_outputs, in_outs))
    call.options = given
    return call


def _require_graph_mode(func: Callable[..., None], mode: Any) -> GraphMode:
    name = getattr(func, "__name__", repr(func))
    try:
        mode = GraphMode(mode)
    except ValueError:
        listed = ", ".join(f"GraphMode.{m.name}" for m in GraphMode)
        raise KernelValueError(
            f"callable {name}: graph_mode: expected one of {listed}, got {mode!r}",
            hint="leave it out: GraphMode.JAX suits most functions",
        ) from None
    return mode


def _require_staged(
    name: str, option: str, given: Iterable[str] | None, arguments: Sequence[CallParameter]
) -> frozenset[str]:
    """Return the names of array arguments on one side that Warp would copy; they are copied in none of our modes."""
    listed = [given] if isinstance(given, str) else list(given or ())
    possible = [a.name for a in arguments if a.is_array]
    for entry in listed:
        if entry not in possible:
            side, found = "input" if option == "stage_in_argnames" else "output", ", ".join(possible) or "none"
            raise KernelValueError(
                f"callable {name}: {option}: no array {side} is named {entry!r}; they are {found}",
                hint="leave it out: nothing is staged in these modes",
            )
    return frozenset(listed)


def _require_cache_max(func: Callable[..., None], graph_cache_max: Any) -> int:
    if graph_cache_max is None:
        return _ALL_GRAPHS
    if isinstance(graph_cache_max, bool) or not isinstance(graph_cache_max, int) or graph_cache_max < 1:
        name = getattr(func, "__name__", repr(func))
        raise KernelValueError(
            f"callable {name}: graph_cache_max: expected an integer of at least 1, got {graph_cache_max!r}",
            hint=f"leave it out ({_DEFAULT_GRAPHS} graphs), or write None to keep all",
        )
    return min(graph_cache_max, _ALL_GRAPHS)


class _Compiled:
    """A compiled function of arrays.

    Attributes:
        plain: as XLA runs it.
        failing: whether a launch of it may fail; nothing before it has been traced.
    """

    def __init__(self, plain: Callable[..., list[Any]], failing: list[bool]):
        self.plain, self.failing = plain, failing

    @cached_property
    def _raising(self) -> Callable[..., list[Any]]:
        return raising(self.plain)

    def outside(self, *operands: Any) -> Callable[..., list[Any]]:
        """The function that raises what fails in it, for operands like these."""
        if not self.failing:
            jax.eval_shape(self.plain, *operands)
        return self._raising if any(self.failing) else self.plain


@guarded
class JaxCallable:
    """A Python function that launches kernels, as a function of JAX values: see `jax_callable`.

    Attributes:
        func: the function.
        graph_mode: how its launches get into CUDA graphs.
    """

    def __init__(
        self,
        function: DeclaredFunction,
        arguments: Sequence[CallParameter],
        defaults: CallOptions,
        has_side_effect: bool,
        graph_mode: GraphMode,
        graphs: int,
        results: Callable[[Iterable[Any]], Any] | None = None,
    ):
        self.func = func = function.func
        self.__name__ = self.__qualname__ = getattr(func, "__name__", "function")
        self.__doc__ = func.__doc__
        self.__module__ = getattr(func, "__module__", __name__)
        self.options: dict[str, Any] = {}  # that `jax_callable` was given
        self._arguments = arguments
        self._inputs = [a for a in arguments if a.role != OUTPUT]
        self._declared = function
        self._packing = packing = Packing.of(function.arguments, arguments)
        self._results = results
        self._defaults = defaults
        self._has_side_effect = has_side_effect
        self.graph_mode = graph_mode
        self._graphs = graphs  # how many to keep under GraphMode.WARP
        self._function = func if packing is None else _of_leaves(func, packing)
        self._compiled: dict[Any, _Compiled] = {}
        # Of a function that leaves open what may be a struct: the same call, of the function that takes structs there.
        self.remade: Callable[[DeclaredFunction], JaxCallable] | None = None
        self.staged: frozenset[str] = frozenset()  # inputs that the function may write to, for itself
        self._others: dict[tuple[Any, ...], JaxCallable] = {}
        self._require_options(defaults)

    def __repr__(self) -> str:
        return f"<jax_callable {self.__name__}>"

    def __reduce__(self) -> str | tuple[Any, ...]:
        """A decorated function by its name, as functions are; another call by its function and options."""
        key = getattr(self.func, "__qualname__", "")
        if named(self.__module__, key) is self:
            return key
        return functools.partial(jax_callable, **self.options), (self.func,)

    @property
    def __signature__(self) -> inspect.Signature:
        """The inputs of the function, and the options of a call."""
        types = {n: p.annotation for n, p in inspect.signature(self.func).parameters.items()}
        return call_signature(type(self).__call__, self._arguments, types, {})

    @boundary
    def __call__(
        self, *args: Any, output_dims: Any = None, vmap_method: VmapMethod | None = None, **kwargs: Any
    ) -> Any:
        """Runs the function on its inputs and returns its outputs: a list, or as `outputs` has it.

        Raises:
            CheckError: in debug mode, outside of JAX, a thread has failed a check.
        """
        values = bind_names(self._arguments, args, kwargs, {}, ("output_dims", "vmap_method"))
        other = self._taking(values)
        if other is not None:
            return other(*values, output_dims=output_dims, vmap_method=vmap_method)
        leaves = values if self._packing is None else self._packing.spread(values)
        found = self._call(leaves, output_dims, vmap_method)
        found = found if self._packing is None else self._packing.gathered(leaves, found)
        return found if self._results is None else self._results(found)

    def _taking(self, values: Sequence[Any]) -> JaxCallable | None:
        """The call that takes the structs among these values where the function leaves open what comes; None: this."""
        if self.remade is None:
            return None
        types = self._declared.given(values)
        if all(t is None for t in types):
            return None
        made = self._others.get(types)
        return made or self._others.setdefault(types, self.remade(self._declared.with_types(types)))

    def _call(self, values: list[Any], output_dims: Any, vmap_method: str | None) -> list[Any]:
        """The call, given leaves; the leaves of the results."""
        output_dims = freeze_dims(output_dims, f"callable {self.__name__}: output_dims")
        options = CallOptions(None, output_dims, vmap_method).over(self._defaults)
        self._require_options(options)
        values = [for_jax(as_jax_value(v, a.where), a.where) for a, v in zip(self._inputs, values, strict=True)]
        is_static = [_is_static(a, v) for a, v in zip(self._inputs, values, strict=True)]
        dynamic = [v for v, static in zip(values, is_static, strict=True) if not static]
        fixed = tuple(Static(v) for v, static in zip(values, is_static, strict=True) if static)
        tokens = tuple(signature_token(v) for v in dynamic)
        if None in tokens or not options.is_hashable or any(isinstance(v, jax.core.Tracer) for v in dynamic):
            require_jax(f"callable {self.__name__}", is_traced=True)
            return self._trace(values, options)
        require_jax(f"callable {self.__name__}")
        key = (tuple(is_static), fixed, tokens, options, is_x64_enabled(), debug_now())
        compiled = self._compiled.get(key)
        if compiled is None:
            if len(self._compiled) >= _MAX_COMPILED:
                fixed_before = [key[1] for key in list(self._compiled) if key[0] == tuple(is_static)]
                self._compiled.clear()
                self._warn_of_numbers(is_static, fixed_before)
            compiled = self._compiled[key] = self._compile(values, is_static, options)
        return list((compiled.plain if is_tracing() else compiled.outside(*dynamic))(*dynamic))

    def _warn_of_numbers(self, is_static: list[bool], fixed: list[tuple[Static, ...]]) -> None:
        """Warn that the call compiled many programs, if most have Python numbers that no other one has."""
        static = [a.name for a, is_one in zip(self._inputs, is_static, strict=True) if is_one]
        columns = zip(*fixed, strict=True)
        names = [name for name, values in zip(static, columns, strict=False) if len(set(values)) > 1]
        if names and len(set(fixed)) > _MAX_COMPILED // 2:
            warn(
                f"callable {self.__name__} was compiled {_MAX_COMPILED} times: each value of the Python numbers"
                f" {', '.join(names)} compiles a program; hint: pass jax.numpy.float32(x) for a number that changes"
                " often and that the function does not branch on",
                PerformanceWarning,
            )

    def _compile(self, values: list[Any], is_static: list[bool], options: CallOptions) -> _Compiled:
        """A compiled function of the arguments that are not static."""
        failing: list[bool] = []
        static = [v if s else None for v, s in zip(values, is_static, strict=True)]

        def call(*dynamic: Any) -> list[Any]:
            given = iter(dynamic)
            full = [v if s else next(given) for v, s in zip(static, is_static, strict=True)]
            return self._trace(full, options, failing.append)

        call.__name__ = call.__qualname__ = self.__name__
        return _Compiled(jax.jit(call), failing)

    def _trace(
        self, values: Sequence[Any], options: CallOptions, note: Callable[[bool], None] = lambda _: None
    ) -> list[Any]:
        """Runs the Python function on handles; the outputs are what the handles stand for at its end.

        `note` is told whether a launch may fail.
        """
        program = Program(self.__name__, options.vmap_method, self._has_side_effect)
        if self.graph_mode >= GraphMode.WARP:
            program = CallableRecorder(program, self._graphs)
        bound = [self._input(program, a, v) for a, v in zip(self._inputs, values, strict=True)]
        inside = {n for a in self._declared.arguments for n in leaves_in_handles(a.name, a.annotation)}
        arrays = [b for b in bound if isinstance(b, ArrayHandle) and b.name not in inside]
        outputs = [a for a in self._arguments if a.role == OUTPUT]
        for argument, value in zip(self._inputs, bound, strict=True):
            _require_shape(argument, value, options.output_dims)
        shapes = [self._output_shape(a, arrays, options.output_dims) for a in outputs]
        if self.graph_mode == GraphMode.NONE:
            note(debug_now() is not None)
            return self._bind_call(bound, shapes, options)
        bound += [
            program.output(a.name, Array(a.element, a.ndim), shape) for a, shape in zip(outputs, shapes, strict=True)
        ]
        with tracing(program), jax.named_scope(self.__name__):
            try:
                returned = self._function(*bound)
            except (AttributeError, TypeError, ValueError) as error:
                clear = program.explain(error)
                if clear is None:
                    raise
                raise clear from None
        require_nothing(self.__name__, returned)
        note(bool(program.failing))
        changed = [b for a, b in zip(self._arguments, bound, strict=True) if a.role != INPUT]
        return _with_absent(changed, program.results([b for b in changed if b is not None]))

    def _bind_call(self, bound: Sequence[Any], shapes: Sequence[Any], options: CallOptions) -> list[Any]:
        """The Python function itself as an operation of the program."""
        parameters: list[PythonParameter] = []
        operands: list[Any] = []
        for argument, value in zip(self._inputs, bound, strict=True):
            if _is_static(argument, value):
                parameters.append(PythonParameter(argument.name, INPUT, argument.element, static=Static(value)))
                continue
            type_ = value.type if isinstance(value, ArrayHandle) else resolve_element(argument, describe(value))
            operands.append(value.value if isinstance(value, ArrayHandle) else jnp.asarray(value))
            parameters.append(PythonParameter(argument.name, argument.role, type_, operands[-1].shape))
        for argument, shape in zip(self._arguments[len(self._inputs) :], shapes, strict=True):
            type_ = Array(argument.element, argument.ndim)
            parameters.append(PythonParameter(argument.name, OUTPUT, type_, shape))
        call = make_call(self._function, self.__name__, parameters, options.vmap_method, self._has_side_effect)
        changed = [b for a, b in zip(self._inputs, bound, strict=True) if a.role != INPUT]
        return _with_absent([*changed, *shapes], bind_call(call, operands))

    def _input(self, program: Program, argument: CallParameter, value: Any) -> Any:
        if value is None and argument.is_array:
            return None
        given = describe_for(argument, value)
        element = resolve_element(argument, given)
        if not _is_static(argument, value):  # as a number of Python it is of any size
            require_enabled(argument.where, element)
        convert = make_converter(argument, element, given)
        if not argument.is_array:
            # A Python number stays one, so that the function may branch on it.
            return value if _is_static(argument, value) else value if convert is None else convert(value)
        array = jnp.asarray(value if convert is None else convert(value))
        made = program.array(argument.name, Array(element, argument.ndim), array, argument.role == IN_OUT)
        made.is_staged = argument.name in self.staged and self.graph_mode == GraphMode.JAX
        return made

    def _output_shape(self, argument: CallParameter, arrays: Sequence[ArrayHandle], dims: Any) -> tuple[Any, ...]:
        where = f"{argument.where}: output_dims"
        if is_generic(argument.element):
            raise KernelTypeError(
                f"{argument.where} is an output and generic: expected a type with a dtype",
                hint=f"write {argument.name}: array[float]",
            )
        require_enabled(argument.where, argument.element)
        wanted = dict(dims.items).get(argument.declared) if isinstance(dims, ByName) else dims
        if wanted is None:
            if not arrays:
                raise KernelTypeError(
                    f"{where}: there is no array input to take the shape from", hint="pass output_dims"
                )
            wanted = arrays[0].shape
        return output_shape(argument.ndim, argument.element, wanted, where)

    def _require_options(self, options: CallOptions) -> None:
        where = f"callable {self.__name__}"
        require_vmap_method(where, options.vmap_method)
        if isinstance(options.output_dims, ByName):
            outputs = list(dict.fromkeys(a.declared for a in self._arguments if a.role != INPUT))
            for name, _ in options.output_dims.items:
                if name not in outputs:
                    raise KernelValueError(
                        f"{where}: output_dims: no output is named {name!r}; the outputs are {', '.join(outputs)}",
                        hint=did_you_mean(name, outputs)
                        or f"write output_dims={{{next(iter(outputs), name)!r}: (n,)}}",
                    )


def _require_shape(argument: CallParameter, value: Any, dims: Any) -> None:
    """Check what a call says of the shape of an in-out argument, which is that of its input."""
    wanted = dict(dims.items).get(argument.declared) if isinstance(dims, ByName) else None
    if argument.role != IN_OUT or wanted is None or not isinstance(value, ArrayHandle):
        return
    where = f"{argument.where}: output_dims"
    if output_shape(argument.ndim, value.dtype, wanted, where) != value.full_shape:
        raise KernelValueError(
            f"{where}: an in-out argument has the shape of its input, {value.full_shape}, got {wanted!r}",
            hint="leave it out of output_dims",
        )


def _of_leaves(func: Callable[..., None], packing: Packing) -> Callable[..., None]:
    """A function with structs among its arguments, as one of their leaves."""

    @functools.wraps(func)
    def call(*leaves: Any) -> Any:
        arguments = packing.packed(leaves)
        returned = func(*arguments)
        packing.require_same(arguments, leaves)
        return returned

    return call


def _is_static(argument: CallParameter, value: Any) -> bool:
    return value is None if argument.is_array else isinstance(value, (bool, int, float))


def _with_absent(changed: Sequence[Any], results: Sequence[Any]) -> list[Any]:
    """The results, with None for what was to be changed and is not there."""
    made = iter(results)
    return [None if c is None else next(made) for c in changed]
