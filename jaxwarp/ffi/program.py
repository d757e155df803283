"""What a function under `jax_callable` may call: launch, copy, zeros and so on, while the function is traced."""

from __future__ import annotations

import contextvars
import dataclasses
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from jaxwarp.analysis.effects import analyze
from jaxwarp.analysis.sizes import require_sizes_fit
from jaxwarp.boundary import boundary, is_users
from jaxwarp.errors import KernelError, KernelTypeError, KernelValueError, Loc
from jaxwarp.ffi.arguments import (
    Argument,
    Given,
    as_jax_value,
    describe,
    make_converter,
    require_enabled,
    resolve_element,
)
from jaxwarp.ffi.debug import debug_now, mode_of
from jaxwarp.ffi.devices import require_cpu
from jaxwarp.ffi.dims import normalize_dims
from jaxwarp.ffi.guard import in_callback
from jaxwarp.ffi.handles import ArrayHandle, filled
from jaxwarp.ffi.host import HOST, HostArray
from jaxwarp.ffi.immediate import launch_now
from jaxwarp.ffi.launch import IN_OUT, INPUT, OUTPUT, Launch, fit_grid, intern_kernel
from jaxwarp.ffi.primitive import bind_launch
from jaxwarp.ffi.quick import launch_outside
from jaxwarp.ffi.reverse import reverse_launch
from jaxwarp.ffi.scope import Scope
from jaxwarp.passes.checks.out_of_range import require_in_range
from jaxwarp.types import Array


@dataclass(frozen=True)
class Program:
    """The call that is being traced: its name, options that hold for all its launches, and what it does with arrays.

    This one makes every launch an operation of JAX, as it comes.
    """

    name: str
    vmap_method: str | None
    has_side_effect: bool

    def array(self, name: str, type_: Array, value: Any, is_writable: bool) -> ArrayHandle:
        """An argument of the call."""
        return ArrayHandle(name, type_, value, is_writable)

    def output(self, name: str, type_: Array, shape: tuple[Any, ...]) -> ArrayHandle:
        """An output, which starts as zeros. `shape` has the component axes."""
        return self.filled(name, type_, shape, 0)

    def filled(self, name: str, type_: Array, shape: tuple[Any, ...], value: Any) -> ArrayHandle:
        """A new array of one value."""
        return ArrayHandle(name, type_, filled(shape, type_.dtype, value, name), is_writable=True)

    def clone(self, source: ArrayHandle) -> ArrayHandle:
        """A new array with the contents of another one."""
        return ArrayHandle(f"clone of {source.name}", source.type, source.value, is_writable=True)

    def launch(self, launch: Launch, operands: Sequence[Any], written: Sequence[ArrayHandle]) -> None:
        """Launches on arrays and JAX values; `written` are the arrays of the results."""
        values = [o.value if isinstance(o, ArrayHandle) else o for o in operands]
        # A NumPy array may change before the program is compiled.
        results = bind_launch(launch, [v.copy() if isinstance(v, np.ndarray) else v for v in values])
        for handle, result in zip(written, results, strict=True):
            handle.replace(result)

    def results(self, arrays: Sequence[ArrayHandle]) -> list[Any]:
        """At the end: what these arrays hold."""
        return [a.value for a in arrays]

    def misuse(self) -> KernelTypeError:
        """What to say where a function of JAX is called with an array of the program."""
        return KernelTypeError(
            "this operator, method or function of JAX does not take an array of a jax_callable",
            hint="use the array's value: array.value",
        )

    def explain(self, error: Exception) -> KernelError | None:
        """A clear error where JAX refuses an array of the program; None for any other error."""
        if isinstance(error, KernelError) or not any(sign in str(error) for sign in _SIGNS_OF_MISUSE):
            return None
        traceback = error.__traceback__
        while traceback is not None and traceback.tb_next is not None:
            traceback = traceback.tb_next
        clear = self.misuse()
        if len(str(error)) < _SHORT:
            clear.message += f": {error}"
        return located(clear, None if traceback is None else traceback.tb_frame)


# In messages of Python and JAX. A type of ours that stands for a dtype is what jnp.zeros_like finds.
_SIGNS_OF_MISUSE = ("__jax_array__", "ArrayHandle", "'_View'", "RecordedArray", "as a data type")
_SHORT = 100  # JAX's own messages about arrays are essays

_current: contextvars.ContextVar[Program | Scope | None] = contextvars.ContextVar("jaxwarp_program", default=None)


@contextmanager
def tracing(program: Program) -> Iterator[None]:
    """Launches in the `with` belong to `program`."""
    token = _current.set(program)
    try:
        yield
    finally:
        _current.reset(token)


@contextmanager
def executing(scope: Scope) -> Iterator[None]:
    """What the `with` asks for happens at once, in the memory of a call that is running."""
    token, waiting = _current.set(scope), in_callback.set(True)
    try:
        yield
    finally:
        in_callback.reset(waiting)
        _current.reset(token)


def scope_now() -> Scope | None:
    """Where things happen at once: the call whose function is running on real memory, or the process, outside of all
    calls. None: in a function of a `jax_callable` that is traced."""
    current = _current.get()
    if current is None:
        return HOST
    return current if isinstance(current, Scope) else None


def require_scope(name: str) -> Scope:
    """The call whose function is running on real memory.

    Raises:
        KernelTypeError: none is.
    """
    scope = _current.get()
    if not isinstance(scope, Scope):
        raise KernelTypeError(
            f"{name} works inside a callback, or a function under jax_callable with GraphMode.NONE",
            hint="call it in the function that you register or pass to jax_callable",
        )
    return scope


def located_call(function: Callable[..., Any]) -> Callable[..., Any]:
    """A boundary where an error gets the user's line that called."""
    return boundary(function, _tell_caller)


def _tell_caller(error: Exception) -> None:
    if isinstance(error, KernelError):
        located(error, sys._getframe(2))


def located(error: KernelError, frame: Any) -> KernelError:
    """The error with the caller's line at the end of its chain of places."""
    while frame is not None and not is_users(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None:
        return error
    positions = list(frame.f_code.co_positions())[frame.f_lasti // 2]
    line, end_line, column, end_column = (p or 0 for p in positions)
    here = Loc(frame.f_code.co_filename, line or frame.f_lineno, column, end_line, end_column, frame.f_code.co_name)
    error.loc = here if error.loc is None else _append(error.loc, here)
    return error


def _append(loc: Loc, last: Loc) -> Loc:
    outer = last if loc.inlined_at is None else _append(loc.inlined_at, last)
    return dataclasses.replace(loc, inlined_at=outer)


@located_call
def launch(  # noqa: PLR0913 - the signature users know from Warp
    kernel: Any,
    dim: Any,
    inputs: Sequence[Any] = (),
    outputs: Sequence[Any] = (),
    adj_inputs: Sequence[Any] = (),
    adj_outputs: Sequence[Any] = (),
    device: Any = None,
    stream: Any = None,
    adjoint: bool = False,
    record_tape: bool = True,
    record_cmd: bool = False,
    max_blocks: int = 0,
    block_dim: int | None = None,
) -> None:
    """Launches a kernel.

    Outside of JAX, in a callback, and under `GraphMode.NONE` it runs at once, on arrays of jaxwarp and NumPy, in place.
    In a traced function of a `jax_callable`, the arrays it writes stand for their new contents afterwards.

    Args:
        kernel: made by `@kernel`.
        dim: threads along each axis: an integer, or a tuple or list.
        inputs: the kernel's first arguments: arrays, Python numbers; of the program, in a `jax_callable`.
        outputs: its other arguments. Which arguments a kernel writes is found in the kernel, not here.
        adj_inputs: with `adjoint`, outside of JAX: arrays to which the derivatives by the inputs are added, or None.
        adj_outputs: with `adjoint`: the derivatives by the outputs.
        device: outside of JAX, the device, "cpu"; elsewhere accepted, no effect: JAX places the program.
        stream: accepted, no effect.
        adjoint: run the adjoint of the kernel, not the kernel.
        record_tape: whether an active `Tape` records the launch.
        record_cmd: not there: must be False.
        max_blocks: accepted, no effect.
        block_dim: CUDA threads per block.

    Raises:
        KernelTypeError, KernelValueError: the arguments do not fit the kernel.
        DifferentiationError: with `adjoint`, the derivative cannot be had.
    """
    del stream, max_blocks
    if not hasattr(kernel, "specialize"):
        raise KernelTypeError(f"launch: expected a kernel, got {kernel!r}", hint="decorate it with @jaxwarp.kernel")
    if record_cmd:
        raise KernelValueError("launch: record_cmd is not there", hint="call launch again: what it needs is kept")
    given = [*_as_list(inputs), *_as_list(outputs)]
    if len(given) != len(kernel.arguments):
        count, listed = len(kernel.arguments), ", ".join(a.name for a in kernel.arguments)
        raise KernelTypeError(
            f"kernel {kernel.name}: expected {count} arguments ({listed}), got {len(given)}",
            hint="launch takes all of them, the arrays that are written too: inputs=[...], outputs=[...]",
        )
    scope = scope_now()
    if adjoint or adj_inputs or adj_outputs:
        _require_host("launch with adjoint")
        if adjoint:
            reverse_launch(kernel, dim, given, _adjoints(kernel, given, inputs, adj_inputs, adj_outputs))
            return
    if scope is not None:
        if scope is HOST:
            require_cpu(device, "launch")
            launch_outside(kernel, dim, given, block_dim, record_tape)
        else:
            launch_now(scope, kernel, dim, given, block_dim)
        return
    _launch_traced(program_now(), kernel, dim, given, block_dim)


def _launch_traced(program: Program, kernel: Any, dim: Any, given: Sequence[Any], block_dim: int | None) -> None:
    """Makes a launch an operation of a program."""
    arguments = [Argument(kernel.name, a.name, a.annotation, INPUT) for a in kernel.arguments]
    _refuse_host_arrays(arguments, given)
    values = [g if isinstance(g, ArrayHandle) else as_jax_value(g) for g in given]
    described = [v.describe() if isinstance(v, ArrayHandle) else describe(v) for v in values]
    elements = [resolve_element(a, d) for a, d in zip(arguments, described, strict=True)]
    for argument, element in zip(arguments, elements, strict=True):
        require_enabled(argument, element)
    converters = [make_converter(a, e, d) for a, e, d in zip(arguments, elements, described, strict=True)]
    types = [Array(e, a.ndim) if a.is_array else e for a, e in zip(arguments, elements, strict=True)]
    specialized = kernel.specialize(tuple(types))
    ir, grid = fit_grid(specialized, normalize_dims(dim, f"kernel {kernel.name}: dim"))
    require_sizes_fit(specialized, [d.shape for d in described])
    require_in_range(specialized, grid, [d.shape for d in described], "dim=...")
    roles = _roles(ir, grid, arguments, given, described)
    operands = [
        value if convert is None else convert(value.value if isinstance(value, ArrayHandle) else value)
        for value, convert, role in zip(values, converters, roles, strict=True)
        if role != OUTPUT
    ]
    shapes = tuple(tuple(d.shape or ()) for d, role in zip(described, roles, strict=True) if role != INPUT)
    block = block_dim if block_dim is not None else kernel.options.get("block_dim")
    fma = kernel.options.get("fma", True)
    made = Launch(
        intern_kernel(ir), grid, tuple(roles), shapes, program.vmap_method, block, fma, program.has_side_effect,
        debug=debug_now(mode_of(kernel)),
    )  # fmt: skip
    program.launch(made, operands, [g for g, role in zip(given, roles, strict=True) if role != INPUT])


def _adjoints(kernel: Any, given: Sequence[Any], inputs: Any, adj_inputs: Any, adj_outputs: Any) -> list[Any]:
    """One for each argument, or None."""
    count = len(_as_list(inputs))
    ins, outs = _as_list(adj_inputs), _as_list(adj_outputs)
    for name, found, most in (("adj_inputs", ins, count), ("adj_outputs", outs, len(given) - count)):
        if len(found) > most:
            raise KernelTypeError(
                f"kernel {kernel.name}: {name}: expected at most {most} arrays, got {len(found)}",
                hint="pass one for each input or output, or None",
            )
    return [*ins, *[None] * (count - len(ins)), *outs]


def _require_host(what: str) -> None:
    if scope_now() is not HOST:
        raise KernelTypeError(f"{what} is for arrays outside of JAX", hint="use jax.grad, or jax.vjp, of the program")


def _refuse_host_arrays(arguments: Sequence[Argument], given: Sequence[Any]) -> None:
    for argument, value in zip(arguments, given, strict=True):
        if isinstance(value, HostArray):
            raise KernelTypeError(
                f"{argument.where} is an array outside of JAX, and the function is traced: it would be read once",
                hint="pass it to the jax_callable as an argument: jaxwarp.to_jax(array)",
            )


def _as_list(values: Any) -> list[Any]:
    return list(values) if isinstance(values, (list, tuple)) else [values]


def _roles(
    ir: Any, grid: Sequence[Any], arguments: Sequence[Argument], given: Sequence[Any], described: Sequence[Given]
) -> list[str]:
    """Read only; written in full, so that what was there does not matter; or updated."""
    effects = analyze(ir)
    shapes = {param: value.shape or () for param, value in zip(ir.params, described, strict=True)}
    roles = []
    for param, argument, handle, value in zip(ir.params, arguments, given, described, strict=True):
        if not effects[param].modifies:
            roles.append(INPUT)
            continue
        if not isinstance(handle, ArrayHandle):
            raise KernelTypeError(
                f"{argument.where} is written by the kernel: expected an array of the program, got"
                f" {type(handle).__name__}",
                effects[param].first_write,
                hint="make one with zeros(...), or pass an output",
            )
        handle.require_writable(f"written by kernel {argument.kernel}")
        roles.append(OUTPUT if effects.covers(param, grid, value.shape or (), shapes) else IN_OUT)
    for i, role in enumerate(roles):
        for j, other in enumerate(given):
            if i != j and role != INPUT and isinstance(other, ArrayHandle) and _share(given[i], other):
                raise KernelTypeError(
                    f"{arguments[i].where} and argument '{arguments[j].name}' are the same array, or parts of one that"
                    " overlap, and the kernel writes to it",
                    hint="pass a clone(...) as one of them",
                )
    return roles


def _share(written: ArrayHandle, other: ArrayHandle) -> bool:
    """Whether two arrays of a program are one, or parts of one that may have elements in common."""
    if written.root is not other.root:
        return False
    place, other_place = written.place, other.place
    return place is None or other_place is None or place.overlaps(other_place)


def program_now() -> Program:
    """The program that is being traced; `scope_now` has said that there is one."""
    program = _current.get()
    assert isinstance(program, Program)
    return program
