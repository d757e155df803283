"""PyTorch, as `Owner`s know it. It is never imported here before somebody else has, or asks for a tensor."""

from __future__ import annotations

import functools
import importlib
from typing import Any

import numpy as np

from jaxwarp.errors import KernelTypeError, KernelValueError, type_text
from jaxwarp.memory.live_array import MemoryArray
from jaxwarp.memory.region import Region
from jaxwarp.memory.tensor_owner import Owner, TensorLibrary, apart_from_tensors, view_of
from jaxwarp.types import SCALARS, Scalar, bfloat16


@functools.cache
def torch() -> Any:
    """PyTorch.

    Raises:
        KernelValueError: it is not installed.
    """
    try:
        return importlib.import_module("torch")
    except ImportError as error:
        raise KernelValueError(f"PyTorch cannot be imported: {error}", hint="pip install torch") from None


@functools.cache
def scalars() -> dict[Any, Scalar]:
    """Element types by PyTorch's dtypes."""
    named = {getattr(torch(), str(scalar), None): scalar for scalar in SCALARS}
    return {dtype: scalar for dtype, scalar in named.items() if dtype is not None}


class _Torch(TensorLibrary):
    name = "PyTorch"
    module = "torch"

    def region(self, tensor: Any) -> Region:
        scalar = scalars().get(tensor.dtype)
        if scalar is None:
            raise KernelTypeError(
                f"expected a tensor of a type of the kernel language, got one of {tensor.dtype}",
                hint="torch.view_as_real(tensor) has real and imaginary parts" if tensor.is_complex() else None,
            )
        try:
            plain = tensor.detach()
            # NumPy's view, and not the bare address: while there is one, PyTorch does not move what the tensor holds.
            # It refuses tensors whose memory is not what they stand for.
            array = (plain.view(torch().int16) if scalar is bfloat16 else plain).numpy()
        except (RuntimeError, TypeError) as error:
            raise _unshared(tensor, error) from None
        forward = torch().autograd.forward_ad
        if getattr(forward, "_current_level", -1) >= 0 and forward.unpack_dual(tensor).tangent is not None:
            raise KernelTypeError(
                "the tensor carries a tangent of PyTorch's forward mode, which a launch would lose",
                hint="launch in the forward function of a torch.autograd.Function with a jvp, or pass tensor.detach()",
            )
        if scalar is bfloat16:
            array = array.view(bfloat16.numpy)
        owner = Owner(array)
        region = Region(plain.data_ptr(), array.dtype, array.shape, array.strides, owner)
        owner.add_tensor(self, region, plain)
        return region

    def tensor(self, region: Region) -> Any:
        if any(stride < 0 for stride in region.strides):
            raise KernelValueError(
                "PyTorch has no tensors with negative strides", hint="pass array.contiguous(), a copy"
            )
        if any(stride % region.dtype.itemsize for stride in region.strides):
            raise KernelValueError(
                f"PyTorch has no tensors with strides of parts of an element, {region.strides} bytes",
                hint="pass array.contiguous(), a copy",
            )
        if region.owner.scope is not None:
            return self._tensor_on_gpu(MemoryArray(region.owner.scope, "array", apart_from_tensors(region), True))
        array = view_of(region)
        with torch().inference_mode(False):
            if region.dtype == bfloat16.numpy:
                return torch().from_numpy(array.view(np.int16)).view(torch().bfloat16)
            return torch().from_numpy(array)

    def _tensor_on_gpu(self, array: MemoryArray) -> Any:
        with torch().inference_mode(False):
            return torch().from_dlpack(array)

    def alias(self, tensor: Any) -> Any:
        return tensor.detach()

    def written(self, tensor: Any) -> None:
        torch().autograd.graph.increment_version(tensor)

    def is_recording(self, tensor: Any) -> bool:
        return tensor.requires_grad and torch().is_grad_enabled()

    def is_inside_function(self) -> bool:
        # Forward mode is off in torch.autograd.Function.forward and in custom operators, and on in torch.no_grad().
        known = torch()._C
        is_forward = not getattr(known, "_is_fwd_grad_enabled", lambda: True)()
        return is_forward or getattr(known, "_current_graph_task_id", lambda: -1)() != -1

    def requires_grad(self, tensor: Any) -> bool:
        return tensor.requires_grad

    def require_grad(self, tensor: Any) -> None:
        tensor.requires_grad_(True)

    def is_leaf(self, tensor: Any) -> bool:
        return tensor.is_leaf

    def gradient(self, tensor: Any) -> Any:
        return tensor.grad

    def set_gradient(self, tensor: Any, gradient: Any) -> None:
        tensor.grad = gradient

    def zeros_like(self, tensor: Any) -> Any:
        return torch().zeros_like(tensor.detach())

    def overwrite(self, gradient: Any, contents: Any) -> None:
        with torch().no_grad():
            if contents is None:
                gradient.zero_()
            elif contents.layout is not torch().strided:
                gradient.copy_(contents.to_dense())
            elif contents.data_ptr() != gradient.data_ptr() or contents.stride() != gradient.stride():
                gradient.copy_(contents)


TORCH = _Torch()


def _unshared(tensor: Any, error: Exception) -> KernelTypeError:
    """Why the memory of a tensor cannot be shared."""
    if tensor.device.type not in ("cpu", "meta"):
        return KernelTypeError(
            f"expected a tensor on the CPU, as the other arrays are, got one on {tensor.device}",
            hint="pass tensor.cpu(), a copy",
        )
    checks = (
        (tensor.layout is not torch().strided, f"has the layout {tensor.layout}", "pass tensor.to_dense(), a copy"),
        (tensor.is_conj(), "is a conjugate that has not been computed", "pass tensor.resolve_conj()"),
        (tensor.is_neg(), "is a negative that has not been computed", "pass tensor.resolve_neg()"),
    )
    for applies, what, hint in checks:
        if applies:
            return KernelTypeError(f"the tensor {what}: its numbers are not those in its memory", hint=hint)
    return KernelTypeError(
        f"expected a tensor with memory of its own, got {type_text(tensor)}: {str(error).splitlines()[0]}",
        hint="in functions that PyTorch traces or transforms, launch in a torch.library.custom_op",
    )
