"""One call of a Python function on XLA's memory: what moves data until it ends, on the CPU."""

from __future__ import annotations

import ctypes
import gc
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxwarp import compat
from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.memory.region import Region, array_region, bytes_of


def inside_traced(label: str, what: str) -> KernelTypeError:
    """Return the error for a function that JAX traces and that has an effect outside of itself."""
    return KernelTypeError(
        f"{label} cannot be {what} in a function that JAX traces inside of the one that has the array (the body of a"
        " loop, a branch, jit, vmap): that runs once, when it is traced",
        hint="use Python's for and if, or let the traced function return a value and assign it to the array outside",
    )


class Scope:
    """A call that is running, in the memory of the host.

    Args:
        what: "callback" or "callable", for messages.
        device_ordinal: the number of the device in this process.
    """

    platform = "cpu"
    is_outside = False  # of all calls: memory of the process
    stream: int | None = None

    def __init__(self, what: str, device_ordinal: int):
        self.what, self.device_ordinal = what, device_ordinal
        self.title = ""  # of the call, for its errors
        self._is_open = True
        self._made_in = compat.trace_state()
        self._leases: list[tuple[str, weakref.ref[Any]]] = []

    def require_open(self, name: str) -> None:
        """Memory of a call is somebody else's after it."""
        if not self._is_open:
            raise KernelValueError(
                f"{name} is used after its {self.what} has returned",
                hint="its memory lasts as long as the call; keep a copy: np.array(...)",
            )

    def is_here(self) -> bool:
        """Return whether it is open, and no function is traced by JAX inside of it."""
        return self._is_open and self._made_in == compat.trace_state()

    def require_untraced(self, label: str, what: str, region: Region | None = None) -> None:
        """A function that JAX traces during the call has no part in it. `region` is what would be written."""
        del region
        if self._made_in != compat.trace_state():
            raise inside_traced(label, what)

    def require_settled(self, what: str) -> None:
        """Check that the memory to be read is up to date."""

    def settled_on(self, region: Region) -> int | None:
        """The stream on which what happens to a region has been queued."""
        del region
        return self.stream

    def exposed(self, region: Region) -> None:
        """Called before somebody gets the address of a region."""

    def can_wait(self) -> bool:
        """Return whether the host may wait for the work that it launches."""
        return True

    def close(self) -> None:
        """The call is over."""
        self._is_open = False

    def require_no_views(self) -> None:
        """Called when the function has returned: a NumPy view that lives on would show memory that is XLA's again.

        Raises:
            KernelValueError: there is one.
        """
        if self._kept() is not None:
            gc.collect()  # it may be part of a cycle that nobody can reach
        kept = self._kept()
        if kept is not None:
            raise KernelValueError(
                f"a view of {kept} outlives the {self.what}, and the memory that it shows does not",
                hint="keep a copy: np.array(...)",
            )

    def _kept(self) -> str | None:
        return next((name for name, lease in self._leases if lease() is not None), None)

    def lease(self, name: str, region: Region) -> Any:
        """The bytes of `region.span` for somebody who may keep them: whether they did is found out at the end."""
        memory = bytes_of(region)
        if region.owner is None:
            self._leases.append((name, weakref.ref(memory)))
        return memory

    def numpy(self, name: str, region: Region, is_writable: bool) -> np.ndarray:
        """The region as a NumPy array: a view, where the host can see the memory."""
        self.require_settled(name)
        array = region.view(self.lease(name, region))
        array.flags.writeable = is_writable
        return array

    def read(self, region: Region) -> np.ndarray:
        """A copy of the region's contents."""
        return view_of(region).copy()

    def make(self, dtype: np.dtype, shape: Sequence[int]) -> Region:
        """New memory that holds zeros."""
        return array_region(np.zeros(tuple(shape), dtype))

    def fill(self, target: Region, value: np.ndarray) -> None:
        """Sets the elements to `value`, whose axes are the last ones of `target`."""
        if target.is_dense and not value.tobytes().strip(b"\0"):
            ctypes.memset(target.address, 0, target.nbytes)
            return
        one = value.ravel()[:1]
        if value.dtype.names is None and one.tobytes() * value.size == value.tobytes():  # many times as fast as rows
            target.here.fill(one[0])
        else:
            target.here[...] = value

    def copy(self, target: Region, source: Region) -> None:
        """Copies between regions of one shape and dtype, which may overlap."""
        values = source.here
        # NumPy sees to overlaps, but not of one axis with different strides.
        target.here[...] = values.copy() if target.overlaps(source) else values

    def move(self, target: Region, source: Region) -> None:
        """A copy that is part of something else, a launch, say."""
        self.copy(target, source)

    def write(self, target: Region, values: np.ndarray) -> None:
        """Copies an array of the host to a region of its shape and dtype."""
        self.copy(target, array_region(values))

    def put(self, target: Region, values: np.ndarray) -> None:
        """Copy an array of the host as `write` does, but as a part of another operation."""
        self.write(target, values)

    def find(self, value: Any) -> tuple[Region, bool] | None:
        """Return the region of an array that is not a jaxwarp object, and whether it may be written. Return None if
        `value` is not such an array."""
        if isinstance(value, np.ndarray) and value.ndim:
            return array_region(value), bool(value.flags.writeable)
        return None


def view_of(region: Region) -> np.ndarray:
    """The memory of the host itself."""
    return region.here
