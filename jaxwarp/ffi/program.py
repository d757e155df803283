"""What a function under `jax_callable` may call: launch, copy, zeros and so on, while the function is traced."""

from __future__ import annotations

import contextvars
import dataclasses
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxwarp.errors import KernelError, KernelTypeError, Loc
from jaxwarp.ffi.arguments import (
    Argument,
    Given,
    as_jax_value,
    describe,
    make_converter,
    require_enabled,
    resolve_element,
)
from jaxwarp.ffi.dims import normalize_dims
from jaxwarp.ffi.guard import in_callback
from jaxwarp.ffi.handles import ArrayHandle, filled
from jaxwarp.ffi.immediate import clone_now, copy_now, launch_now, make_now, type_of
from jaxwarp.ffi.launch import IN_OUT, INPUT, OUTPUT, Launch, fit_grid, intern_kernel
from jaxwarp.ffi.primitive import bind_launch
from jaxwarp.ffi.scope import Scope
from jaxwarp.frontend.local_arrays import ZEROS
from jaxwarp.frontend.values import PYTHON_OBJECTS
from jaxwarp.passes.effects import analyze
from jaxwarp.types import Array, as_dtype, element_shape, float32

_NOT_THE_USERS = tuple(os.path.dirname(f) + os.sep for f in (os.path.dirname(__file__), jax.__file__))


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


def _scope() -> Scope | None:
    """The call whose function is running on real memory, if one is."""
    current = _current.get()
    return current if isinstance(current, Scope) else None


def require_scope(name: str) -> Scope:
    """The call whose function is running on real memory.

    Raises:
        KernelTypeError: none is.
    """
    scope = _scope()
    if scope is None:
        raise KernelTypeError(f"{name} works inside a callback, or a function under jax_callable with GraphMode.NONE")
    return scope


def _in_program(function: Callable[..., Any]) -> Callable[..., Any]:
    """Only inside a `jax_callable` or a callback; an error gets the line there that called."""

    @wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        if _current.get() is None:
            raise KernelTypeError(
                f"{function.__name__}() works inside a function under jax_callable",
                hint="arrays of jaxwarp are JAX arrays: make them with jax.numpy, and launch a kernel with"
                " jax_kernel(kernel)(...)",
            )
        try:
            return function(*args, **kwargs)
        except KernelError as error:
            raise located(error, sys._getframe(1)) from None

    return checked


def located(error: KernelError, frame: Any) -> KernelError:
    """The error with the caller's line at the end of its chain of places."""
    while frame is not None and frame.f_code.co_filename.startswith(_NOT_THE_USERS):
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


@_in_program
def launch(
    kernel: Any,
    dim: Any,
    inputs: Sequence[Any] = (),
    outputs: Sequence[Any] = (),
    *,
    device: Any = None,
    stream: Any = None,
    block_dim: int | None = None,
) -> None:
    """Launches a kernel on arrays of the program; those that it writes stand for their new contents afterwards.

    In a callback, and under `GraphMode.NONE`, the kernel runs at once; NumPy arrays are arguments there, too.

    Args:
        kernel: made by `@kernel`.
        dim: threads along each axis: an integer, or a tuple or list.
        inputs: the kernel's first arguments: arrays of the program, JAX values, Python numbers.
        outputs: its other arguments. Which arguments a kernel writes is found in the kernel, not here.
        device: accepted, no effect: JAX places the program.
        stream: accepted, no effect.
        block_dim: CUDA threads per block.

    Raises:
        KernelTypeError, KernelValueError: the arguments do not fit the kernel.
    """
    del device, stream
    if not hasattr(kernel, "specialize"):
        raise KernelTypeError(f"launch: expected a kernel, got {kernel!r}", hint="decorate it with @jaxwarp.kernel")
    given = [*_as_list(inputs), *_as_list(outputs)]
    arguments = [Argument(kernel.name, a.name, a.annotation, INPUT) for a in kernel.arguments]
    if len(given) != len(arguments):
        listed = ", ".join(a.name for a in arguments)
        raise KernelTypeError(f"kernel {kernel.name}: expected {len(arguments)} arguments ({listed}), got {len(given)}")
    program = _current.get()
    if not isinstance(program, Program):
        launch_now(require_scope("launch"), kernel, dim, given, block_dim)
        return
    values = [g if isinstance(g, ArrayHandle) else as_jax_value(g) for g in given]
    described = [v.describe() if isinstance(v, ArrayHandle) else describe(v) for v in values]
    elements = [resolve_element(a, d) for a, d in zip(arguments, described, strict=True)]
    for argument, element in zip(arguments, elements, strict=True):
        require_enabled(argument, element)
    converters = [make_converter(a, e, d) for a, e, d in zip(arguments, elements, described, strict=True)]
    types = [Array(e, a.ndim) if a.is_array else e for a, e in zip(arguments, elements, strict=True)]
    ir, grid = fit_grid(kernel.specialize(tuple(types)), normalize_dims(dim, f"kernel {kernel.name}: dim"))
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
        intern_kernel(ir), grid, tuple(roles), shapes, program.vmap_method, block, fma, program.has_side_effect
    )
    program.launch(made, operands, [g for g, role in zip(given, roles, strict=True) if role != INPUT])


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
            same = i != j and isinstance(other, ArrayHandle) and other.root is given[i].root if role != INPUT else False
            if same:
                raise KernelTypeError(
                    f"{arguments[i].where} and argument '{arguments[j].name}' are the same array, and the kernel writes"
                    " to it",
                    hint="pass a clone(...) as one of them",
                )
    return roles


def _made(name: str, shape: Any, dtype: Any, value: Any) -> Any:
    scope = _scope()
    if scope is not None:
        return make_now(scope, name, shape, dtype, value)
    element = as_dtype(dtype)
    extents = normalize_dims(shape, f"{name}: shape")
    return _program().filled(name, Array(element, len(extents)), (*extents, *element_shape(element)), value)


def _program() -> Program:
    """The program that is being traced; `_in_program` has seen to it that there is one."""
    program = _current.get()
    assert isinstance(program, Program)
    return program


def _like(src: Any, name: str) -> tuple[Any, Any]:
    return (src.shape, src.dtype) if _scope() is None else type_of(src, name)


@_in_program
def zeros(shape: Any, dtype: Any = float32, **_: Any) -> Any:
    """A new array of zeros. `shape` does not have the component axes of vectors and matrices."""
    return _made("zeros", shape, dtype, 0)


# In a kernel, an array of the thread's own.
PYTHON_OBJECTS[zeros] = ZEROS


@_in_program
def empty(shape: Any, dtype: Any = float32, **_: Any) -> Any:
    """A new array. It holds zeros: nothing is ever uninitialised."""
    return _made("empty", shape, dtype, 0)


@_in_program
def full(shape: Any, value: Any, dtype: Any = float32, **_: Any) -> Any:
    """A new array of one value."""
    return _made("full", shape, dtype, value)


@_in_program
def zeros_like(src: Any, **_: Any) -> Any:
    """A new array of zeros with the shape and type of another one."""
    return _made("zeros_like", *_like(src, "zeros_like"), 0)


@_in_program
def empty_like(src: Any, **_: Any) -> Any:
    """A new array with the shape and type of another one. It holds zeros."""
    return _made("empty_like", *_like(src, "empty_like"), 0)


@_in_program
def full_like(src: Any, value: Any, **_: Any) -> Any:
    """A new array of one value, with the shape and type of another one."""
    return _made("full_like", *_like(src, "full_like"), value)


@_in_program
def clone(src: Any, **_: Any) -> Any:
    """A new array with the contents of another one."""
    scope = _scope()
    if scope is not None:
        return clone_now(scope, src)
    return _program().clone(src)


@_in_program
def copy(dest: Any, src: Any, dest_offset: int = 0, src_offset: int = 0, count: int = 0, **_: Any) -> None:
    """Copies elements of `src` to `dest`: all of them, or `count` from offsets into arrays with one axis."""
    scope = _scope()
    if scope is not None:
        copy_now(scope, dest, src, (dest_offset, src_offset), count)
        return
    if not (dest_offset or src_offset or count):
        dest.assign(src)
        return
    source = src if isinstance(src, ArrayHandle) else jnp.asarray(src)
    count = count or int(source.shape[0]) - src_offset
    if dest.ndim != 1:
        raise KernelTypeError(f"copy: offsets need an array with 1 axis, '{dest.name}' has {dest.ndim}")
    if (
        min(dest_offset, src_offset, count) < 0
        or src_offset + count > source.shape[0]
        or dest_offset + count > len(dest)
    ):
        raise KernelTypeError(
            f"copy: {count} elements from {src_offset} of {source.shape[0]} do not fit {dest_offset} of {len(dest)}"
        )
    dest[dest_offset : dest_offset + count].assign(source[src_offset : src_offset + count])
