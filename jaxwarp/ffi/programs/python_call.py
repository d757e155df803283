"""`GraphMode.NONE`: a call of a Python function on real memory, as an operation of a JAX program, with its rules."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import secrets
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.interpreters import ad, batching, mlir

from jaxwarp import compat
from jaxwarp.compat import Primitive
from jaxwarp.errors import KernelError, KernelTypeError, KernelValueError, type_text
from jaxwarp.ffi.callbacks import call_frame as xla
from jaxwarp.ffi.callbacks.handler import CallbackTarget
from jaxwarp.ffi.derivatives.rules import is_active
from jaxwarp.launches.spec import IN_OUT, INPUT, OUTPUT, Dim
from jaxwarp.memory.live_array import LiveArray
from jaxwarp.memory.region import Region, dense_region
from jaxwarp.memory.scope import Scope
from jaxwarp.types import Array, Element, element_scalar

TARGET = "jaxwarp_python"


class Static:
    """A Python number, compared as a program that has it must: 1 is not True, 0.0 is not -0.0, NaN is NaN."""

    def __init__(self, value: Any):
        self.value = value
        self._key = type(value), repr(value) if isinstance(value, float) else value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Static) and other._key == self._key

    def __hash__(self) -> int:
        return hash(self._key)


@dataclass(frozen=True)
class PythonParameter:
    """An argument of the function.

    Attributes:
        name: its name.
        role: INPUT, IN_OUT or OUTPUT.
        type: of an array, or of what is passed by value.
        shape: in JAX, of one item of a batch.
        static: a Python number that is part of the program.
        is_batched: for each axis of the batch, whether the operand has it.
    """

    name: str
    role: str
    type: Array | Element
    shape: tuple[Dim, ...] = ()
    static: Static | None = None
    is_batched: tuple[bool, ...] = ()


@dataclass(frozen=True)
class Kind:
    """The kind of a call, as its user sees it.

    Attributes:
        title: what errors call it.
        no_derivative: what to say where a derivative is asked for.
        no_export: the same, of an export.
    """

    title: str
    no_derivative: Callable[[], KernelError]
    no_export: Callable[[], KernelError]


class _Function:
    """A function that is compared by identity: it may be a method of an object that has no hash."""

    def __init__(self, call: Callable[..., None]):
        self.call = call

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Function) and other.call is self.call

    def __hash__(self) -> int:
        return id(self.call)


@dataclass(frozen=True)
class PythonCall:
    """A call, apart from its operands.

    The operands are all inputs that are not static, in order. The results are the in-outs and the outputs.
    """

    func: _Function
    name: str
    parameters: tuple[PythonParameter, ...]
    vmap_method: str | None
    has_side_effect: bool
    kind: Kind = field(compare=False)
    batch: tuple[int, ...] = ()

    @property
    def operands(self) -> list[PythonParameter]:
        return [p for p in self.parameters if p.role != OUTPUT and p.static is None]

    @property
    def results(self) -> list[PythonParameter]:
        return [p for p in self.parameters if p.role != INPUT]

    @property
    def is_wide(self) -> bool:
        """Tell whether an argument has a 64-bit type: its rules then run where JAX has such types."""
        return any(p.static is None and _dtype(p).itemsize == 8 for p in self.parameters)

    @property
    def aliases(self) -> dict[int, int]:
        """Operand number to result number of the in-out arguments."""
        numbers = {p.name: n for n, p in enumerate(self.results)}
        return {n: numbers[p.name] for n, p in enumerate(self.operands) if p.role == IN_OUT}

    def __repr__(self) -> str:
        return self.name


call_p = Primitive(TARGET)
call_p.multiple_results = True


def make_call(
    func: Callable[..., None],
    name: str,
    parameters: Sequence[PythonParameter],
    vmap_method: str | None,
    has_side_effect: bool,
    kind: Kind | None = None,
) -> PythonCall:
    """A call of `func`, without a batch; None: a callable with GraphMode.NONE."""
    kind = kind or Kind(
        f"callable {name}", functools.partial(_no_derivative, name), functools.partial(_no_export, name)
    )
    return PythonCall(_Function(func), name, tuple(parameters), vmap_method, has_side_effect, kind)


def bind_call(call: PythonCall, operands: Sequence[Any]) -> list[Any]:
    """Calls the function where the program runs."""
    with jax.named_scope(call.name), compat.with_x64_if(call.is_wide):
        return list(call_p.bind(*compat.unify_varying(operands), call=call))


_typed = compat.with_types_of("call")


@functools.lru_cache(maxsize=64)
def _compiled(call: PythonCall) -> Callable[..., list[Any]]:
    return compat.jit_primitive(lambda *operands: call_p.bind(*operands, call=call))


def _call_impl(*operands: Any, call: PythonCall) -> list[Any]:
    with jax.disable_jit(False):
        return _compiled(call)(*operands)


def _call_abstract(*operands: Any, call: PythonCall) -> tuple[list[Any], set[Any]]:
    results = [compat.output_aval(operands, (*call.batch, *p.shape), _dtype(p)) for p in call.results]
    return results, {compat.SIDE_EFFECT} if call.has_side_effect else set()


def _dtype(parameter: PythonParameter) -> np.dtype:
    type_ = parameter.type
    return element_scalar(type_.dtype if isinstance(type_, Array) else type_).numpy


# Calls by their key in a program. A program keeps its calls alive, so what is not found here is not this process's.
_calls: weakref.WeakValueDictionary[str, _Kept] = weakref.WeakValueDictionary()
_process, _numbers = secrets.token_hex(8), itertools.count(1)


class _Kept:
    """A call for as long as a compiled program lives that makes it.

    All executions have buffers of the same types and shapes, those of the program. What follows from these is kept.
    """

    def __init__(self, call: PythonCall):
        self.call = call
        self.operands, self.results = call.operands, call.results
        self.key = f"{_process}-{next(_numbers)}"
        self.zero = functools.cache(lambda dtype: np.zeros((), dtype))
        self._layouts: tuple[list[Region], list[Region]] | None = None
        _calls[self.key] = self

    def regions(self, frame: xla.CallFrame) -> tuple[list[Region], list[Region]]:
        """The operands and the results of an execution."""
        if self._layouts is None:
            # Behind the results there may be one for XLA alone (`compat.never_all_of_a_body`).
            found = _regions(frame.args, "operand"), _regions(frame.rets, "result")[: len(self.results)]
            self._layouts = found
            return found
        given, made = self._layouts
        return (
            [layout.moved(at, None) for layout, at in zip(given, xla.addresses(frame.args), strict=True)],
            [layout.moved(at, None) for layout, at in zip(made, xla.addresses(frame.rets), strict=False)],
        )

    def __call__(self, *_: Any) -> Any:
        raise AssertionError("XLA keeps this object, and calls the function through its target")


def _call_lower(ctx: mlir.LoweringRuleContext, *operands: Any, **params: Any) -> Sequence[Any]:
    call: PythonCall = params["call"]
    if compat.is_for_export(ctx):
        raise call.kind.no_export()
    _register()
    kept = _Kept(call)
    compat.keep_with_program(ctx, kept)
    count, ctx = len(ctx.avals_out or ()), compat.never_all_of_a_body(ctx)
    rule = jax.ffi.ffi_lowering(TARGET, operand_output_aliases=call.aliases, has_side_effect=call.has_side_effect)
    return rule(ctx, *operands, key=kept.key)[:count]


def _call_batch(
    operands: Sequence[Any], dims: Sequence[int | None], *, call: PythonCall
) -> tuple[list[Any], list[int]]:
    """One call of XLA's, in which the function is called for each item; what is not batched is not copied."""
    size = next(x.shape[d] for x, d in zip(operands, dims, strict=True) if d is not None)
    moved = [x if d is None else jnp.moveaxis(x, d, 0) for x, d in zip(operands, dims, strict=True)]
    if call.vmap_method in ("sequential", "sequential_unrolled"):
        return _batch_sequential(moved, dims, call)
    # An in-out argument's result differs from item to item, so each needs its own start.
    changed, is_batched = [], {}
    for parameter, x, d in zip(call.operands, moved, dims, strict=True):
        repeat = d is None and (parameter.role == IN_OUT or call.vmap_method == "broadcast_all")
        changed.append(jnp.broadcast_to(x, (size, *x.shape)) if repeat else x)
        is_batched[parameter.name] = (d is not None or repeat, *parameter.is_batched)
    parameters = tuple(
        dataclasses.replace(p, is_batched=is_batched.get(p.name, (True, *p.is_batched))) for p in call.parameters
    )
    batched = dataclasses.replace(call, parameters=parameters, batch=(size, *call.batch))
    results = bind_call(batched, changed)
    return results, [0] * len(results)


def _batch_sequential(
    operands: Sequence[Any], dims: Sequence[int | None], call: PythonCall
) -> tuple[list[Any], list[int]]:
    batched = tuple(x for x, d in zip(operands, dims, strict=True) if d is not None)

    def item(_: None, parts: tuple[Any, ...]) -> tuple[None, list[Any]]:
        values = iter(parts)
        return None, bind_call(call, [x if d is None else next(values) for x, d in zip(operands, dims, strict=True)])

    _, results = jax.lax.scan(item, None, batched, unroll=call.vmap_method == "sequential_unrolled")
    return results, [0] * len(results)


def _no_export(name: str) -> KernelError:
    return KernelValueError(
        f"callable {name} has GraphMode.NONE and cannot be exported: its Python function lives in this process",
        hint="export it with GraphMode.JAX, which makes its launches part of the program",
    )


def _no_derivative(name: str) -> KernelError:
    return KernelTypeError(
        f"callable {name} has GraphMode.NONE and no derivative: what a Python function does with real memory is"
        " not known",
        hint="use GraphMode.JAX, whose launches have derivatives, or give the call a rule with jax.custom_vjp",
    )


def _call_jvp(primals: Sequence[Any], tangents: Sequence[Any], *, call: PythonCall) -> tuple[list[Any], list[Any]]:
    if any(is_active(t) for t in tangents):
        raise call.kind.no_derivative()
    results = bind_call(call, primals)
    return results, [ad.Zero(jax.typeof(r).to_tangent_aval()) for r in results]


def _call_transpose(cotangents: Sequence[Any], *operands: Any, call: PythonCall) -> list[Any]:
    del cotangents, operands
    raise call.kind.no_derivative()


def _run(frame: xla.CallFrame, scope: Scope) -> None:
    """One execution: the function is called for each item of the batch."""
    key = xla.attributes(frame.attrs)["key"]
    kept = _calls.get(key)
    if kept is None:
        raise KernelValueError(
            "this program calls a Python function of another process",
            hint="programs with GraphMode.NONE cannot be stored; compile them where they run",
        )
    call = kept.call
    scope.title = call.kind.title
    given, made = kept.regions(frame)
    whole: dict[str, Any] = {p.name: _operand(scope, p, r) for p, r in zip(kept.operands, given, strict=True)}
    for parameter, region in zip(kept.results, made, strict=True):
        whole[parameter.name] = region  # of an in-out argument the same memory as the operand
        if parameter.role == OUTPUT:
            scope.fill(region, kept.zero(region.dtype))
    for index in np.ndindex(*call.batch) if call.batch else ((),):
        returned = call.func.call(*[_argument(scope, p, whole.get(p.name), index) for p in call.parameters])
        require_nothing(call.name, returned)


def require_nothing(name: str, returned: Any) -> None:
    """The function writes to its outputs and returns nothing."""
    if returned is not None:
        raise KernelTypeError(
            f"callable {name}: expected a function that returns nothing, it returned {type_text(returned)}",
            hint="write to the output arguments",
        )


def _regions(buffers: Any, kind: str) -> list[Region]:
    return [dense_region(address, dtype, shape) for dtype, shape, address in xla.buffers(buffers, kind)]


def _operand(scope: Scope, parameter: PythonParameter, region: Region) -> Any:
    return region if isinstance(parameter.type, Array) else scope.read(region)


def _argument(scope: Scope, parameter: PythonParameter, whole: Any, index: tuple[int, ...]) -> Any:
    """Return what the function gets for one item of the batch: an array, a number or a vector."""
    if parameter.static is not None:
        return parameter.static.value
    own = tuple(i for i, is_batched in zip(index, parameter.is_batched, strict=True) if is_batched) if index else ()
    if not isinstance(parameter.type, Array):
        return whole[own]
    return LiveArray(scope, parameter.name, parameter.type, whole.part(own) if own else whole, parameter.role != INPUT)


_target = CallbackTarget(TARGET, "callable", _run, is_graph_compatible=False)
_lock = threading.Lock()
_is_registered = False


def _register() -> None:
    global _is_registered
    with _lock:
        if not _is_registered:
            _target.register()
            _is_registered = True


call_p.def_impl(_typed(_call_impl))
call_p.def_effectful_abstract_eval(_call_abstract)
for _platform in ("cpu", "cuda"):
    mlir.register_lowering(call_p, _typed(_call_lower), platform=_platform)
batching.primitive_batchers[call_p] = _typed(_call_batch)
ad.primitive_jvps[call_p] = _typed(_call_jvp)
ad.primitive_transposes[call_p] = _call_transpose
