"""Who keeps memory of the process alive, and which tensors of other libraries share it."""

from __future__ import annotations

import dataclasses
import sys
import weakref
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxwarp import compat
from jaxwarp.memory.region import Region, bytes_of


class TensorLibrary(ABC):
    """A library of tensors that differentiates them itself. It is imported by its users, and by who asks for a tensor.

    Attributes:
        name: as its makers write it.
        module: what is imported.
    """

    name: str
    module: str

    def is_tensor(self, value: object) -> bool:
        """Return whether a value is a tensor of this library, without importing the library."""
        found = getattr(sys.modules.get(self.module), "Tensor", None)
        return found is not None and isinstance(value, found)

    @abstractmethod
    def region(self, tensor: Any) -> Region:
        """The memory of a tensor, which stays where it is while the region's owner lives.

        Raises:
            KernelTypeError, KernelValueError: it has none on the CPU, or holds other numbers than its memory does.
        """

    @abstractmethod
    def tensor(self, region: Region) -> Any:
        """A tensor with the memory of a region, which may be written."""

    @abstractmethod
    def alias(self, tensor: Any) -> Any:
        """Another tensor with the same memory, without a gradient. Their writes are counted together."""

    @abstractmethod
    def written(self, tensor: Any) -> None:
        """Tells the library that the memory was written: derivatives that need what was there are then refused."""

    @abstractmethod
    def is_recording(self, tensor: Any) -> bool:
        """Return whether the library would record an operation on the tensor, for its derivatives."""

    @abstractmethod
    def is_inside_function(self) -> bool:
        """Return whether the library is running a user function with a derivative: it adds what that returns to
        gradients."""

    @abstractmethod
    def requires_grad(self, tensor: Any) -> bool:
        """Return whether a gradient of the tensor is wanted."""

    @abstractmethod
    def require_grad(self, tensor: Any) -> None:
        """Request a gradient of the tensor from now on."""

    @abstractmethod
    def is_leaf(self, tensor: Any) -> bool:
        """Return whether the tensor is a variable. Other tensors have no gradient that lasts."""

    @abstractmethod
    def gradient(self, tensor: Any) -> Any:
        """The gradient of a leaf, or None."""

    @abstractmethod
    def set_gradient(self, tensor: Any, gradient: Any) -> None:
        """Makes a tensor the gradient of a leaf."""

    @abstractmethod
    def zeros_like(self, tensor: Any) -> Any:
        """A new tensor for the gradient of another one, if possible with its strides."""

    @abstractmethod
    def overwrite(self, gradient: Any, contents: Any) -> None:
        """Sets the elements of a gradient to those of another one, or, for None, to zero."""


class TensorGradient:
    """The gradient of a tensor that shares its memory with the `grad` of an array. Optimisers set gradients to None, or
    let the library make new ones: then the array follows, and its memory becomes the tensor's gradient again."""

    def __init__(self, library: TensorLibrary, tensor: Any, gradient: Any):
        self._library, self._gradient = library, gradient
        self._tensor = weakref.ref(tensor)

    @property
    def is_alive(self) -> bool:
        return self._tensor() is not None

    def follow(self) -> None:
        """Takes over what the library has made of the gradient."""
        tensor, library = self._tensor(), self._library
        if tensor is None or not library.is_leaf(tensor):
            return
        found = library.gradient(tensor)
        if found is not self._gradient:
            library.overwrite(self._gradient, found)
            library.set_gradient(tensor, self._gradient)


class Owner:
    """Keeps memory alive. All regions of one piece of memory, parts of arrays for instance, have the same owner.

    Attributes:
        memory: what is kept.
        tensors: which share it, with their library; by its name and their place.
        gradients: of tensors, which are in this memory.
        is_retained: it is a gradient that `Tape.backward` keeps.
        scope: the `Scope` that the memory is of; None: memory of the host.
        work: of memory of a GPU, the streams that use it (`PendingWork`).
        made_in: of memory that was made while JAX traced a function, the trace; see `fresh`.
    """

    __slots__ = ("gradients", "is_retained", "made_in", "memory", "scope", "tensors", "work")

    def __init__(self, memory: Any, scope: Any = None, work: Any = None):
        self.memory, self.scope, self.work = memory, scope, work
        self.tensors: dict[Any, tuple[TensorLibrary, Any]] = {}
        self.gradients: list[TensorGradient] = []
        self.is_retained = False
        self.made_in: Any = None

    def add_tensor(self, library: TensorLibrary, region: Region, tensor: Any) -> None:
        """A tensor shares the memory. It must keep `memory` alone, not its owner, or both would live forever."""
        self.tensors[library.name, place_of(region)] = library, tensor

    def tensor(self, library: TensorLibrary, region: Region) -> Any:
        """The tensor of a library that is in the same place; None: there is none yet."""
        return self.tensors.get((library.name, place_of(region)), (library, None))[1]

    def written(self) -> None:
        """Something has been written to the memory."""
        for library, tensor in self.tensors.values():
            library.written(tensor)

    def follow(self) -> None:
        """The memory is a gradient, and about to be used."""
        for gradient in self.gradients:
            gradient.follow()

    def add_gradient(self, gradient: TensorGradient) -> None:
        """The memory becomes the gradient of a tensor, too."""
        self.gradients = [*(g for g in self.gradients if g.is_alive), gradient]


def owned(region: Region) -> Region:
    """The region with an `Owner`."""
    if isinstance(region.owner, Owner):
        return region
    return Region(region.address, region.dtype, region.shape, region.strides, Owner(region.owner))


def fresh(region: Region) -> Region:
    """Return the region of memory that was just made. A function that JAX traces may write to memory of its own: each
    trace makes it anew."""
    if compat.is_tracing():
        region = owned(region)
        region.owner.made_in = compat.trace_state()
    return region


def is_of_trace(region: Region | None) -> bool:
    """Return whether the function that JAX traces now has made the memory of a region."""
    made_in = getattr(None if region is None else region.owner, "made_in", None)
    return made_in is not None and made_in == compat.trace_state()


def note_written(regions: Sequence[Region | None]) -> None:
    """Note that regions have been written, so that the tensors which share them are marked as written."""
    for region in regions:
        if region is not None and isinstance(region.owner, Owner) and region.owner.tensors:
            region.owner.written()


def place_of(region: Region) -> Any:
    """Return a key that distinguishes a region from others in the same memory."""
    return region.address, region.dtype, region.shape, region.strides


def view_of(region: Region) -> np.ndarray:
    """The memory of a region as a NumPy array that keeps the memory, but not its `Owner`: a tensor of a library keeps
    the array, and the owner the tensor."""
    owner = region.owner
    bare = dataclasses.replace(region, owner=owner.memory if isinstance(owner, Owner) else owner)
    return bare.view(bytes_of(bare))


def apart_from_tensors(region: Region) -> Region:
    """Return a region of GPU memory with a new owner that has no tensors; `view_of` does the same for the host."""
    owner = region.owner
    return dataclasses.replace(region, owner=Owner(owner.memory, owner.scope, owner.work))
