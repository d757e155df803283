"""New arrays and copies, by their names in Warp: what they are depends on where they are asked for.

In a traced function of a `jax_callable` they are arrays of the program; in a callback and under `GraphMode.NONE` memory
of the call; else memory of the process, see `host_array.py`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp

from jaxwarp.arrays.copies import clone_now, copy_now, make_now, type_of
from jaxwarp.arrays.host_array import HostArray, type_of_value
from jaxwarp.arrays.indexed import IndexedArray
from jaxwarp.boundary import located_call
from jaxwarp.errors import KernelTypeError, KernelValueError, did_you_mean
from jaxwarp.ffi.programs.traced_array import ArrayHandle
from jaxwarp.ffi.programs.tracing import program_now
from jaxwarp.frontend.lowering.local_arrays import ZEROS
from jaxwarp.frontend.lowering.values import PYTHON_OBJECTS
from jaxwarp.launches.arguments.dims import normalize_dims
from jaxwarp.memory.current import scope_now
from jaxwarp.memory.gpu.pinned import host_memory
from jaxwarp.memory.gpu.scope import place_of_device
from jaxwarp.memory.gpu.streams import ScopedStream, Stream
from jaxwarp.memory.host_scope import HOST
from jaxwarp.memory.scope import Scope
from jaxwarp.types import Array, as_dtype, element_shape, float32


class ArrayOptions(NamedTuple):
    """Options of new arrays outside of JAX. They have no effect elsewhere."""

    device: Any = None
    requires_grad: bool | None = False
    pinned: Any = None
    retain_grad: Any = False
    ndim: int | None = None

    def place(self, scope: Scope | None, name: str) -> Scope | None:
        """Return the memory in which an array is made. Outside of JAX it is that of the chosen device."""
        if scope is not HOST:
            return scope
        found = place_of_device(self.device, name)
        return host_memory(self.pinned) if found is HOST else found

    def like(self, src: Any) -> ArrayOptions:
        """Return the options with the device, the memory and the gradient of the array `src`, where none were given."""
        if not isinstance(src, (HostArray, IndexedArray)):
            return self
        device = src.device if self.device is None else self.device
        requires_grad = src.requires_grad if self.requires_grad is None else self.requires_grad
        pinned = src.pinned if self.pinned is None and isinstance(src, HostArray) else self.pinned
        return ArrayOptions(device, requires_grad, pinned, self.retain_grad, self.ndim)

    def checked(self, shape: Any, name: str) -> tuple[Any, ...]:
        """The extents, of which there are as many as the call says there are.

        Raises:
            KernelValueError: there are not.
        """
        extents = normalize_dims(shape, f"{name}: shape")
        if self.ndim is not None and self.ndim != len(extents):
            raise KernelValueError(
                f"{name}: the shape {shape} has {len(extents)} axes, and ndim is {self.ndim}", hint="leave ndim out"
            )
        return extents

    def applied(self, array: Any) -> Any:
        """The array, with its gradient."""
        if isinstance(array, HostArray):
            if self.requires_grad:
                array.begin(True)
            if self.retain_grad:
                array.retain_grad = True
        return array


def _options(name: str, device: Any, requires_grad: bool | None, others: dict[str, Any]) -> ArrayOptions:
    """The options of a call.

    Raises:
        KernelTypeError: there is none of that name.
    """
    for unknown in others:
        if unknown not in ArrayOptions._fields:
            raise KernelTypeError(
                f"{name}: there is no argument {unknown!r}",
                hint=did_you_mean(unknown, ("shape", "dtype", "value", *ArrayOptions._fields))
                or f"its options are {', '.join(ArrayOptions._fields)}",
            )
    return ArrayOptions(device, requires_grad, **others)


def _shape(name: str, shape: Any, options: dict[str, Any]) -> Any:
    """Return the shape of a call, which takes `n=`, the extent of one axis, out of `options`; Warp has both names.

    Raises:
        KernelTypeError: neither was given.
    """
    count = options.pop("n", None)
    if (shape is None) == (count is None):
        problem = "the shape is missing" if shape is None else "shape and n say the same"
        raise KernelTypeError(f"{name}: {problem}", hint=f"write {name}(10) or {name}((3, 4))")
    return count if shape is None else shape


def _made(name: str, shape: Any, dtype: Any, value: Any, options: ArrayOptions) -> Any:
    scope = options.place(scope_now(), name)
    if scope is not None:
        made = make_now(scope, name, shape if options.ndim is None else options.checked(shape, name), dtype, value)
        return options.applied(made)
    element = as_dtype(dtype)
    extents = options.checked(shape, name)
    return program_now().filled(name, Array(element, len(extents)), (*extents, *element_shape(element)), value)


def _like(src: Any, name: str) -> tuple[Any, Any]:
    if isinstance(src, IndexedArray):
        return src.shape, src.dtype
    return (src.shape, src.dtype) if scope_now() is None else type_of(src, name)


@located_call
def zeros(
    shape: Any = None, dtype: Any = float32, device: Any = None, requires_grad: bool = False, **options: Any
) -> Any:
    """Make an array of zeros. `shape` excludes the component axes of vectors and matrices; `n=3` is `shape=3`.

    Outside of JAX: `device`, where it is ("cpu"); `requires_grad`, whether it has a gradient, for a `Tape`.
    """
    return _made("zeros", _shape("zeros", shape, options), dtype, 0, _options("zeros", device, requires_grad, options))


# In a kernel, an array of the thread's own.
PYTHON_OBJECTS[zeros] = ZEROS


@located_call
def ones(
    shape: Any = None, dtype: Any = float32, device: Any = None, requires_grad: bool = False, **options: Any
) -> Any:
    """Make an array of ones. The options are those of `zeros`."""
    return _made("ones", _shape("ones", shape, options), dtype, 1, _options("ones", device, requires_grad, options))


@located_call
def empty(
    shape: Any = None, dtype: Any = float32, device: Any = None, requires_grad: bool = False, **options: Any
) -> Any:
    """Make an array of zeros: jaxwarp never returns uninitialised memory. The options are those of `zeros`."""
    return _made("empty", _shape("empty", shape, options), dtype, 0, _options("empty", device, requires_grad, options))


@located_call
def full(
    shape: Any = None,
    value: Any = 0,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **options: Any,
) -> Any:
    """Make an array of one value. The options are those of `zeros`.

    Without `dtype` it is one of float32; outside of JAX of the value's type: int32, float32, a vector or matrix.
    """
    element = float32 if dtype is None else dtype
    if dtype is None and scope_now() is HOST:
        element = type_of_value(value)
    shape = _shape("full", shape, options)
    return _made("full", shape, element, value, _options("full", device, requires_grad, options))


def _made_like(name: str, src: Any, value: Any, options: ArrayOptions) -> Any:
    return _made(name, *_like(src, name), value, options.like(src))


@located_call
def zeros_like(src: Any, device: Any = None, requires_grad: bool | None = None, **options: Any) -> Any:
    """Make an array of zeros with the shape and type of another one, and with a gradient if that has one.

    Options as of `zeros`.
    """
    return _made_like("zeros_like", src, 0, _options("zeros_like", device, requires_grad, options))


@located_call
def ones_like(src: Any, device: Any = None, requires_grad: bool | None = None, **options: Any) -> Any:
    """Make an array of ones with the shape and type of another one, as `zeros_like` does."""
    return _made_like("ones_like", src, 1, _options("ones_like", device, requires_grad, options))


@located_call
def empty_like(src: Any, device: Any = None, requires_grad: bool | None = None, **options: Any) -> Any:
    """Make an array of zeros with the shape and type of another one, as `zeros_like` does."""
    return _made_like("empty_like", src, 0, _options("empty_like", device, requires_grad, options))


@located_call
def full_like(src: Any, value: Any, device: Any = None, requires_grad: bool | None = None, **options: Any) -> Any:
    """Make an array of one value with the shape and type of another one, as `zeros_like` does."""
    return _made_like("full_like", src, value, _options("full_like", device, requires_grad, options))


@located_call
def clone(src: Any, device: Any = None, requires_grad: bool | None = None, **options: Any) -> Any:
    """Make a copy of an array, with a gradient if that has one. The options are those of `zeros`."""
    scope = scope_now()
    src = src.contiguous() if isinstance(src, IndexedArray) else src
    if scope is not None:
        found = _options("clone", device, requires_grad, options).like(src)
        place = found.place(scope, "clone")
        assert place is not None
        return found.applied(clone_now(place, src))
    return program_now().clone(src)


@located_call
def copy(dest: Any, src: Any, dest_offset: int = 0, src_offset: int = 0, count: int = 0, stream: Any = None) -> None:
    """Copies elements of `src` to `dest`: all of them, or `count` from offsets into arrays with one axis.

    Outside of JAX, contiguous arrays of any shapes are copied in their order in memory, on `stream` if that is a stream
    of a GPU; elsewhere it has no effect.
    """
    scope = scope_now()
    if isinstance(stream, Stream) and scope is HOST:
        with ScopedStream(stream, sync_enter=False):
            copy.__wrapped__(dest, src, dest_offset, src_offset, count)  # pyright: ignore[reportFunctionMemberAccess]
        return
    src = src.contiguous() if isinstance(src, IndexedArray) else src
    if isinstance(dest, IndexedArray):
        if dest_offset or src_offset or count:
            raise KernelTypeError(
                "copy: offsets and counts are of elements in their order in memory, which no indexed array has",
                hint="copy from and to contiguous()",
            )
        dest.assign(src)
        return
    if scope is not None:
        copy_now(scope, dest, src, (dest_offset, src_offset), count)
        return
    if isinstance(dest, HostArray) or isinstance(src, HostArray):
        raise KernelTypeError(
            "copy: an array outside of JAX cannot be read or written in a function that is traced",
            hint="pass it to the jax_callable as an argument: jaxwarp.to_jax(array)",
        )
    if not (dest_offset or src_offset or count):
        dest.assign(src)
        return
    source = src if isinstance(src, ArrayHandle) else jnp.asarray(src)
    count = count or int(source.shape[0]) - src_offset
    if dest.ndim != 1:
        raise KernelTypeError(
            f"copy: offsets need an array with 1 axis, '{dest.name}' has {dest.ndim}",
            hint="copy parts: copy(dest[1:3], src[0:2])",
        )
    if (
        min(dest_offset, src_offset, count) < 0
        or src_offset + count > source.shape[0]
        or dest_offset + count > len(dest)
    ):
        raise KernelTypeError(
            f"copy: {count} elements from {src_offset} of {source.shape[0]} do not fit {dest_offset} of {len(dest)}",
            hint="pass a smaller count, or smaller offsets",
        )
    dest[dest_offset : dest_offset + count].assign(source[src_offset : src_offset + count])
