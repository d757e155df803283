"""Arrays outside of JAX from tensors of other libraries, and back: the memory is shared, and so are gradients."""

from __future__ import annotations

import dataclasses
from typing import Any

from jaxwarp.arrays.host_array import HostArray, require_float
from jaxwarp.arrays.interop import wrapped
from jaxwarp.boundary import located_call
from jaxwarp.errors import KernelError, KernelTypeError, KernelValueError, type_text
from jaxwarp.memory.current import require_outside
from jaxwarp.memory.devices import CPU, Device
from jaxwarp.memory.gpu.scope import region_of_tensor
from jaxwarp.memory.gpu.streams import Stream, get_stream
from jaxwarp.memory.tensor_owner import TensorGradient, TensorLibrary
from jaxwarp.memory.torch import TORCH, scalars, torch
from jaxwarp.types import Array, Scalar, Struct, as_dtype, element_shape


def _from_tensor(library: TensorLibrary, tensor: Any, dtype: Any, requires_grad: bool | None, grad: Any) -> HostArray:
    where = f"from_{library.module}"
    if not library.is_tensor(tensor):
        raise KernelTypeError(
            f"{where}: expected a {library.name} tensor, got {type_text(tensor)}",
            hint="for other data use array(data)",
        )
    require_outside(where)
    array = _array(library, where, tensor, dtype)
    wants = library.requires_grad(tensor) if requires_grad is None else bool(requires_grad)
    if library.is_tensor(grad):
        array.grad = _array(library, f"{where}: grad", grad, dtype)
    elif grad is not None:
        array.grad = grad
    elif wants:
        require_float(array.dtype, f"{where}: requires_grad")
        array._grad = _gradient_of(library, tensor, array, dtype)
    return array


def _array(library: TensorLibrary, where: str, tensor: Any, dtype: Any) -> HostArray:
    try:
        region = region_of_tensor(library, tensor)
    except KernelError as error:
        raise _named(where, error) from None
    array = wrapped(where, region, dtype, is_writable=not region.repeats)
    if array.ndim:
        return array
    # Launches need an axis.
    components = element_shape(array.dtype)
    single = dataclasses.replace(region, shape=(1, *components), strides=(region.dtype.itemsize, *region.strides))
    return HostArray(where, Array(array.dtype, 1), single, array.is_writable)


def _named(where: str, error: KernelError) -> KernelError:
    """Errors say what was called."""
    error.message = f"{where}: {error.message}"
    return error


def _gradient_of(library: TensorLibrary, tensor: Any, array: HostArray, dtype: Any) -> HostArray:
    """The gradient of an array with a tensor's memory: the tensor's, which is made if need be.

    Where the library is going to add what a function of the user's returns to that, or the tensor has none that lasts,
    the array has its own.
    """
    if library.is_inside_function() or not library.is_leaf(tensor):
        return array.new_like()
    gradient = library.gradient(tensor)
    if gradient is None:
        gradient = library.zeros_like(tensor)
        library.set_gradient(tensor, gradient)
    made = _array(library, f"from_{library.module}: the tensor's gradient", gradient, dtype)
    made.owner.add_gradient(TensorGradient(library, tensor, gradient))
    return made


def _to_tensor(library: TensorLibrary, array: Any, requires_grad: bool | None) -> Any:
    where = f"to_{library.module}"
    if not isinstance(array, HostArray):
        raise KernelTypeError(
            f"{where}: expected an array outside of JAX, got {type_text(array)}", hint="make one with array(data)"
        )
    if isinstance(array.dtype, Struct):
        raise KernelTypeError(
            f"{where}: {array.label}: tensors have no structs", hint="pass the array of a field: array.field(name)"
        )
    array.scope.require_untraced(array.label, f"made a {library.name} tensor")
    tensor = _shared(library, where, array)
    is_inside = library.is_inside_function()
    if not (array.requires_grad and not is_inside if requires_grad is None else requires_grad):
        return tensor
    require_float(array.dtype, f"{where}: requires_grad")
    library.require_grad(tensor)
    if array.grad is not None and not is_inside:
        gradient = _shared(library, where, array.grad)
        library.set_gradient(tensor, gradient)
        array.grad.owner.add_gradient(TensorGradient(library, tensor, gradient))
    return tensor


def _shared(library: TensorLibrary, where: str, array: HostArray) -> Any:
    if not array.is_writable:
        kind = "the memory of a JAX array, which never changes" if array.jax_value is not None else "read-only"
        raise KernelTypeError(
            f"{where}: {array.label} is {kind}, and tensors can always be written", hint="pass jaxwarp.clone(array)"
        )
    region, owner = array.region, array.owner
    known = owner.tensor(library, region)
    if known is None:
        try:
            known = library.tensor(region)
        except KernelError as error:
            raise _named(where, error) from None
        owner.add_tensor(library, region, known)
    return library.alias(known)


# PyTorch.


@located_call
def from_torch(
    t: Any,
    dtype: Any = None,
    requires_grad: bool | None = None,
    grad: Any = None,
    return_ctype: bool = False,
    retain_grad: bool = False,
) -> Any:
    """The memory of a PyTorch tensor as an array outside of JAX, without a copy.

    What launches write to it PyTorch sees, and counts as a change in place: where its own derivatives need what was
    there, `backward` refuses. A tensor without axes becomes an array of one element.

    Args:
        t: a dense tensor on the CPU, or on a GPU of CUDA.
        dtype: an element type whose components are the tensor's last axes; None: a scalar type. Integers may be seen
            with a sign or without, and bools as 8-bit integers.
        requires_grad: whether the array has a gradient; None: if the tensor has. It is `t.grad`, which is made if it is
            None, and found again when an optimiser has set it to None. In functions of `torch.autograd.Function` and in
            custom operators, where PyTorch adds to `t.grad` itself, and of tensors that PyTorch has computed, it is an
            array of its own.
        grad: an array, or a tensor, that is the gradient.
        return_ctype: the result is only for launches. There, a tensor without elements stands for an array of any
            number of axes: it is None, which kernels may ask for its extents, all 0. Other tensors are arrays as ever.
        retain_grad: as the array's attribute.

    Raises:
        KernelTypeError, KernelValueError: it is no such tensor, or does not fit `dtype`.
    """
    made = _from_tensor(TORCH, t, dtype, requires_grad, grad)
    if return_ctype and made.size == 0:
        return None
    if retain_grad:
        made.retain_grad = True
    return made


@located_call
def to_torch(a: Any, requires_grad: bool | None = None) -> Any:
    """A PyTorch tensor with the memory of an array outside of JAX; components are its last axes.

    Args:
        a: an array that may be written.
        requires_grad: whether the tensor requires a gradient; None: if the array has one, but not in functions of
            `torch.autograd.Function` and in custom operators. The array's `grad` becomes the tensor's.

    Raises:
        KernelTypeError, KernelValueError: it is no such array; PyTorch has no tensors of its type or its strides, or is
            not installed.
    """
    torch()
    return _to_tensor(TORCH, a, requires_grad)


@located_call
def dtype_from_torch(torch_dtype: Any) -> Scalar:
    """The element type that a type of PyTorch is.

    Raises:
        KernelTypeError: kernels have no such type.
    """
    found = scalars().get(torch_dtype) if isinstance(torch_dtype, torch().dtype) else None
    if found is None:
        raise KernelTypeError(
            f"dtype_from_torch: expected a type of the kernel language, got {torch_dtype!r}",
            hint="convert the tensor: tensor.to(torch.float32)",
        )
    return found


@located_call
def dtype_to_torch(warp_dtype: Any) -> Any:
    """The type of PyTorch, such as `torch.float32`, that an element type is.

    Raises:
        KernelTypeError: it is no scalar type.
    """
    element = as_dtype(warp_dtype)
    found = next((dtype for dtype, scalar in scalars().items() if scalar == element), None)
    if found is None:
        raise KernelTypeError(
            f"dtype_to_torch: expected a scalar type, got {warp_dtype!r}; tensors have axes instead",
            hint="write its scalar type: float32 for vec3",
        )
    return found


@located_call
def device_from_torch(torch_device: Any) -> Device:
    """The device that a device of PyTorch, or its name, is.

    Raises:
        KernelTypeError: it is neither a CPU nor a CUDA device.
    """
    try:
        device = torch().device(torch_device)
    except (RuntimeError, TypeError, ValueError) as error:
        raise KernelTypeError(
            f"device_from_torch: expected a device, got {torch_device!r}: {error}", hint='write "cpu"'
        ) from None
    if device.type not in ("cpu", "cuda"):
        raise KernelTypeError(
            f"device_from_torch: expected a CPU or CUDA device, got {device}", hint='move the tensor: tensor.to("cpu")'
        )
    return CPU if device.type == "cpu" else Device(f"cuda:{device.index or 0}")


@located_call
def device_to_torch(warp_device: Any = None) -> str:
    """The name in PyTorch of a device; None: the CPU.

    Raises:
        KernelTypeError: it is no device.
    """
    name = "cpu" if warp_device is None else str(warp_device) if isinstance(warp_device, (str, Device)) else ""
    kind, _, number = name.partition(":")
    if name != "cpu" and not (kind == "cuda" and (number.isdigit() or name == "cuda")):
        raise KernelTypeError(
            f'device_to_torch: expected a device, such as "cpu" or "cuda:0", got {warp_device!r}', hint='write "cpu"'
        )
    return "cuda:0" if name == "cuda" else name


@located_call
def stream_from_torch(stream_or_device: Any = None) -> Stream:
    """A CUDA stream of PyTorch's, or the current one of a device.

    Raises:
        KernelTypeError, KernelValueError: it is no stream; PyTorch has no CUDA device here.
    """
    stream = stream_or_device
    if not hasattr(stream, "cuda_stream"):
        if not torch().cuda.is_available():
            raise KernelValueError(
                f"stream_from_torch: PyTorch has no CUDA device here; got {stream!r}",
                hint="on the CPU there is nothing to pass",
            )
        stream = torch().cuda.current_stream(stream)
    device = None if getattr(stream, "device", None) is None else device_from_torch(stream.device)
    return Stream(device, cuda_stream=int(stream.cuda_stream))


@located_call
def stream_to_torch(stream_or_device: Any = None) -> Any:
    """A CUDA stream, or of a device the one that is chosen there, as PyTorch's.

    Raises:
        KernelTypeError, KernelValueError: it is no stream; PyTorch has no CUDA device here.
    """
    is_device = stream_or_device is None or isinstance(stream_or_device, (str, Device))
    stream = get_stream(stream_or_device) if is_device else stream_or_device
    if not isinstance(stream, Stream):
        raise KernelTypeError(
            f"stream_to_torch: expected a Stream, got {stream!r}; the CPU has none",
            hint="on the CPU there is nothing to pass",
        )
    if not torch().cuda.is_available():
        raise KernelValueError(
            "stream_to_torch: PyTorch has no CUDA device here", hint="on the CPU there is nothing to pass"
        )
    return torch().cuda.ExternalStream(stream.cuda_stream, device=None if stream.device is None else str(stream.device))
