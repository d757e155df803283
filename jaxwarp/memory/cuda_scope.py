"""A call of a Python function on the memory of a GPU: everything is asked of the driver, on the stream of the call."""

from __future__ import annotations

import itertools
import math
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import jax
import numpy as np

from jaxwarp.errors import KernelValueError
from jaxwarp.memory.driver import CudaError, Driver, driver
from jaxwarp.memory.region import Region, dense_region
from jaxwarp.memory.scope import Scope
from jaxwarp.memory.strided import copies, fills
from jaxwarp.unlocked import address_of

_ALIGNMENT = 16  # of allocations, whose sizes are multiples of it: atomics on bytes work on the word around them
_SLOTS_BYTES = 2**16


class _Lease:
    """Held by who uses memory of the call; on a GPU there are no bytes to hold."""

    def __init__(self, owner: Any):
        self.owner = owner


class CudaScope(Scope):
    """A call that is running, in the memory of a GPU.

    The driver is first used when it is needed, and then the device's primary context, which JAX uses too, is current
    until the call ends.
    """

    platform = "cuda"

    def __init__(self, what: str, device_ordinal: int, stream: int):
        super().__init__(what, device_ordinal)
        self.stream = stream
        self._driver: Driver | None = None
        self._device: Any = None
        self.architecture = 0
        self._allocated: list[tuple[int, int | None]] = []  # address, stream
        self._used: list[Any] = []  # arrays of other libraries, which queued work may still read

    def ready(self) -> Driver:
        if self._driver is None:
            made = driver()
            self._device = made.call("DeviceGet", self.device_ordinal)
            self.architecture = made.architecture(self._device)
            context = made.call("DevicePrimaryCtxRetain", self._device)
            try:
                made.call("CtxPushCurrent", context)
            except CudaError:
                made.call("DevicePrimaryCtxRelease", self._device)
                raise
            self._driver = made
        return self._driver

    def model(self) -> str:
        """Return the manufacturer's name for the device, which is also JAX's `device_kind`."""
        self.ready()
        return driver().name(self._device)

    def close(self) -> None:
        super().close()
        if self._driver is None:
            return
        errors: list[CudaError] = []
        steps: list[tuple[Any, ...]] = [("MemFreeAsync", address, stream) for address, stream in self._allocated]
        steps += [("CtxPopCurrent",), ("DevicePrimaryCtxRelease", self._device)]
        for step in steps:
            try:
                self._driver.call(*step)
            except CudaError as error:  # what comes after it is still to be given back
                errors.append(error)
        self._allocated.clear()
        self._driver = None
        if errors:
            raise errors[0]

    @contextmanager
    def on_stream(self, stream: int) -> Iterator[None]:
        """Work in the `with` belongs on another stream; each waits for the other."""
        previous = self.stream
        if stream == previous:
            yield
            return
        self.synchronize()
        self.stream = stream
        try:
            yield
            self.synchronize()
        finally:
            self.stream = previous

    def _is_capturing(self) -> bool:
        made = self.ready()
        status = made.call("StreamIsCapturing", self.stream)
        return status != made.types.CUstreamCaptureStatus.CU_STREAM_CAPTURE_STATUS_NONE

    def can_wait(self) -> bool:
        """Return whether the host may wait: it may not while XLA captures the call into a graph."""
        return not self._is_capturing()

    def synchronize(self) -> None:
        """Waits for the work of the call's stream."""
        if self._is_capturing():
            raise _refuse_capture("the host cannot wait for numbers")
        self.ready().call("StreamSynchronize", self.stream)

    def lease(self, name: str, region: Region) -> Any:
        memory = _Lease(region.owner)
        self._leases.append((name, weakref.ref(memory)))
        return memory

    def hand_over(self, stream: Any, region: Region) -> None:
        """Somebody reads memory of the call on `stream`, as DLPack counts streams: what is queued must come first."""
        del region
        if stream == -1 or {1: 0, None: 0}.get(stream, stream) == self.stream:
            return
        self.synchronize()

    def _allocate(self, nbytes: int) -> int:
        if self._is_capturing():
            raise _refuse_capture("no arrays can be made")
        size = padded(nbytes)
        address = int(self.ready().call("MemAllocAsync", size, self.stream, what=f" of {size} bytes"))
        self._allocated.append((address, self.stream))
        return address

    def new(self, dtype: np.dtype, shape: Sequence[int]) -> Region:
        """New memory, which holds anything."""
        nbytes = math.prod(shape) * dtype.itemsize
        return dense_region(self._allocate(nbytes) if nbytes else 0, dtype, shape)

    def uses(self, reads: Sequence[Region], writes: Sequence[Region]) -> None:
        """Something is about to be queued that reads and writes these: all memory of a call is on its stream."""

    def make(self, dtype: np.dtype, shape: Sequence[int]) -> Region:
        region = self.new(dtype, shape)
        self.set(region, np.zeros((), dtype))
        return region

    def numpy(self, name: str, region: Region, is_writable: bool) -> np.ndarray:
        """A copy, read-only: what would be written to it would be lost."""
        del name, is_writable
        array = self.read(region)
        array.flags.writeable = False
        return array

    def read(self, region: Region) -> np.ndarray:
        array = np.empty(region.shape, region.dtype)
        if array.size:
            dense = self.dense(region)
            self.uses([dense], [])
            self.ready().call("MemcpyDtoHAsync", address_of(array), dense.address, region.nbytes, self.stream)
            self.synchronize()
        return array

    def dense(self, region: Region) -> Region:
        if region.is_dense:
            return region
        dense = self.new(region.dtype, region.shape)
        self.duplicate(dense, region)
        return dense

    def write(self, target: Region, values: np.ndarray) -> None:
        if target.size == 0:
            return
        host = np.ascontiguousarray(values)
        dense = target if target.is_dense else self.new(target.dtype, target.shape)
        self.uses([], [dense])
        # The host's memory may go when this returns, so it waits.
        self.ready().call("MemcpyHtoDAsync", dense.address, address_of(host), target.nbytes, self.stream)
        self.synchronize()
        if dense is not target:
            self.duplicate(target, dense)

    def fill(self, target: Region, value: np.ndarray) -> None:
        self.set(target, value)

    def set(self, target: Region, value: np.ndarray) -> None:
        """Set the elements of memory that the scope owns to `value`, whose axes are the last ones of `target`."""
        self.uses([], [target])
        for part in fills(target, value):
            bits = 8 * part.unit
            if part.height == 1:
                self.ready().call(f"MemsetD{bits}Async", part.address, part.value, part.width, self.stream)
            else:
                self._require_rows("filled")
                self.ready().call(
                    f"MemsetD2D{bits}Async", part.address, part.pitch, part.value, part.width, part.height, self.stream
                )

    def set_bytes(self, address: int, values: bytes) -> None:
        """Sets what is at an address, by fills: they take the values along. Up to the next word it is set, too."""
        made, stream = self.ready(), self.stream
        for word, alike in itertools.groupby(memoryview(values + b"\0" * (-len(values) % 4)).cast("I")):
            count = len(list(alike))
            made.call("MemsetD32Async", address, word, count, stream)
            address += 4 * count

    def copy(self, target: Region, source: Region) -> None:
        self.duplicate(target, source)

    def duplicate(self, target: Region, source: Region) -> None:
        """Copy between regions of this GPU's memory, of one shape and dtype, which may overlap."""
        if target.overlaps(source):
            apart = self.new(source.dtype, source.shape)
            self.duplicate(apart, source)
            source = apart
        self.uses([source], [target])
        for part in copies(target, source):
            if part.height == 1:
                self.ready().call("MemcpyDtoDAsync", part.target, part.source, part.width, self.stream)
                continue
            self._require_rows("copied")
            types = self.ready().types
            described = types.CUDA_MEMCPY2D()
            described.srcMemoryType = described.dstMemoryType = types.CUmemorytype.CU_MEMORYTYPE_DEVICE
            described.srcDevice, described.srcPitch = part.source, part.source_pitch
            described.dstDevice, described.dstPitch = part.target, part.target_pitch
            described.WidthInBytes, described.Height = part.width, part.height
            self.ready().call("Memcpy2DAsync", described, self.stream)

    def _require_rows(self, what: str) -> None:
        """XLA updates its graphs, and copies and fills of several rows cannot be updated: the driver says so, late."""
        if self._is_capturing():
            raise _refuse_capture(f"parts of arrays that have gaps cannot be {what}")

    def find(self, value: Any) -> tuple[Region, bool] | None:
        """An array of another library for CUDA."""
        interface = None if isinstance(value, jax.Array) else getattr(value, "__cuda_array_interface__", None)
        if interface is None:
            return None
        dtype, shape = np.dtype(interface["typestr"]), tuple(interface["shape"])
        address, is_read_only = interface["data"]
        producer = interface.get("stream")
        if producer is not None and {1: 0}.get(producer, producer) != self.stream:
            self.ready().call("StreamSynchronize", producer)
        region = dense_region(address, dtype, shape, value)
        if interface.get("strides") is not None:
            region = Region(address, dtype, shape, tuple(interface["strides"]), value)
        self._used.append(value)
        return region, not is_read_only

    def addresses(self, operands: Sequence[Any]) -> tuple[list[int], Any]:
        """Return the address of each operand, and an object that keeps them alive until the launch is queued. Fills put
        values that are passed by value into memory: a fill carries its value along, even into a CUDA graph."""
        values = {i: np.asarray(o) for i, o in enumerate(operands) if not isinstance(o, Region)}
        places: dict[int, int] = {}
        kept = None
        if values and self._is_capturing():
            places = {i: _slots.find(self.device_ordinal, value) for i, value in values.items()}
        elif values:
            _slots.prepare(self.ready(), self.device_ordinal)
            kept = self.new(np.dtype(np.uint8), (sum(padded(v.nbytes) for v in values.values()),))
            at = kept.address
            for i, value in values.items():
                places[i] = at
                at += padded(value.nbytes)
        for i, value in values.items():
            self.set_bytes(places[i], value.tobytes())
        return [o.address if isinstance(o, Region) else places[i] for i, o in enumerate(operands)], kept


class _Slots:
    """Memory for what is passed by value to kernels that are captured: a graph may not allocate, and may run at any
    time. A value has its place for the life of the process; there is a little room for each device."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._free: dict[int, tuple[int, int]] = {}  # by device: from here to there
        self._places: dict[tuple[int, bytes], int] = {}

    def prepare(self, made: Driver, device: int) -> None:
        """Makes the room, while nothing is captured; a program runs once before XLA captures it."""
        with self._lock:
            if device not in self._free:
                address = int(made.call("MemAlloc", _SLOTS_BYTES))
                self._free[device] = address, address + _SLOTS_BYTES

    def find(self, device: int, value: np.ndarray) -> int:
        """The place of a value."""
        with self._lock:
            key = device, value.tobytes()
            start, end = self._free.get(device, (0, 0))
            if key not in self._places:
                if start + padded(value.nbytes) > end:
                    raise _refuse_capture("more values are passed to kernels than there is room for")
                self._places[key] = start
                self._free[device] = start + padded(value.nbytes), end
            return self._places[key]


_slots = _Slots()


def padded(nbytes: int) -> int:
    return -(-nbytes // _ALIGNMENT) * _ALIGNMENT


def _refuse_capture(what: str) -> KernelValueError:
    return KernelValueError(
        f"XLA captures this call into a CUDA graph, in which {what}",
        hint="register the function with graph_compatible=False, or use GraphMode.NONE, which is not captured",
    )
