"""Launches on real memory, at once: of the host (`native_launch.py`), or of a GPU."""

from __future__ import annotations

import ctypes
import functools
import math
import threading
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxwarp.codegen.abi import PACK_BYTES, LaunchCode
from jaxwarp.launches.code import CodeKey, Gpus, code_of, settled
from jaxwarp.launches.native_launch import NativeCode
from jaxwarp.memory.cuda_scope import CudaScope
from jaxwarp.memory.driver import CudaError, Driver
from jaxwarp.memory.host_scope import HOST
from jaxwarp.memory.region import Region
from jaxwarp.memory.scope import Scope
from jaxwarp.unlocked import address_of

_MOST_LAUNCHES = 512
_MOST_STREAMS = 64  # whose configuration of a launch is kept


def launch_on(scope: Scope, key: CodeKey, operands: Sequence[Any]) -> None:
    """Run a launch in the memory of a scope, on dense regions, and NumPy values for what is passed by value."""
    code = _kept(*_at(scope, key, not isinstance(scope, CudaScope) or are_aligned(operands)))
    if isinstance(code, NativeCode):
        places = [o if isinstance(o, Region) else np.ascontiguousarray(o) for o in operands]
        # Of a call of XLA's, other threads are XLA's.
        code.run([o.address if isinstance(o, Region) else address_of(o) for o in places], is_divided=scope is HOST)
        return
    assert isinstance(scope, CudaScope)
    regions = [(i in code.written, o) for i, o in enumerate(operands) if isinstance(o, Region)]
    scope.uses([o for is_written, o in regions if not is_written], [o for is_written, o in regions if is_written])
    addresses, kept = scope.addresses(operands)
    code.run(scope, addresses)
    del kept  # memory that the launch uses is given back behind it


def are_aligned(operands: Sequence[Any]) -> bool:
    """Return whether all regions begin where CUDA code may read `PACK_BYTES` at once. Values are put where it may."""
    return all(o.address % PACK_BYTES == 0 for o in operands if isinstance(o, Region))


def loaded_on(scope: Scope, key: CodeKey, is_aligned: bool = True) -> Any:
    """Return the code of a launch, loaded where the scope has its memory: a `NativeCode` or a `CudaLaunch`.

    It is loaded once for as long as somebody holds it: with the last one its machine code on the CPU is unloaded.
    """
    return _loaded_on(*_at(scope, key, is_aligned))


def _at(scope: Scope, key: CodeKey, is_aligned: bool) -> tuple[Driver | None, CodeKey]:
    """Return the driver that loads the code, if any, and the key for the device."""
    if not isinstance(scope, CudaScope):
        return None, settled(key)
    driver = scope.ready()  # which finds out about the device
    gpus = Gpus((scope.architecture,), scope.model() if key.options.is_tuned else None)
    return driver, settled(key._replace(gpus=gpus, is_aligned=is_aligned))


def _loaded_on(driver: Driver | None, key: CodeKey) -> NativeCode | CudaLaunch:
    made = _loaded.get((driver, key))
    if made is None:
        code = code_of(key)
        made = NativeCode(code, key.shapes) if driver is None else CudaLaunch(driver, code, key)
        _loaded[driver, key] = made
    return made


_loaded: weakref.WeakValueDictionary[Any, NativeCode | CudaLaunch] = weakref.WeakValueDictionary()
_kept = functools.lru_cache(maxsize=_MOST_LAUNCHES)(_loaded_on)  # which nobody else holds from one call to the next


class _Parameters:
    """The arguments of a kernel as the driver takes them: numbers, and the address of each.

    Attributes:
        places: the addresses of arrays, which come first.
        address: of what the driver takes.
    """

    __slots__ = ("_memory", "address", "places")

    def __init__(self, arrays: int, numbers: Sequence[int]):
        count = arrays + len(numbers)
        # Of each number the driver reads as many bytes as its type has: the lowest, which come first.
        self._memory = (ctypes.c_uint64 * (2 * count))()
        first = ctypes.addressof(self._memory)
        self._memory[arrays:] = [*numbers, *range(first, first + 8 * count, 8)]
        self.places = (ctypes.c_uint64 * arrays).from_buffer(self._memory)
        self.address = first + 8 * count


class CudaLaunch:
    """The code of a launch on GPUs, loaded, for dense arrays of the shapes that it was made for.

    Attributes:
        written: the numbers of the arguments that it changes.
        cleared: the numbers of those that have to hold zeros.
    """

    def __init__(self, driver: Driver, code: LaunchCode, key: CodeKey):
        self._function = _load(driver, code.entries[0].code, code.symbol)
        self._shared_bytes = code.shared_bytes
        threads = math.prod(code.grid)
        # Of launches that are under way, each has its own.
        self._parameters: list[_Parameters] = []
        self._layout = len(key.shapes), (*code.integers(key.shapes), threads)
        self._block = code.block
        self._blocks = min(-(-threads // self._block), code.max_blocks)
        self._what = f" of '{key.kernel.name}'"
        self._configs: dict[int | None, Any] = {}  # by stream
        self.cleared = code.cleared
        self.written = frozenset(i for i, array in enumerate(code.arrays) if array.is_written)

    def run(self, scope: CudaScope, addresses: Sequence[int]) -> None:
        """Queues it on the stream of the scope."""
        try:
            parameters = self._parameters.pop()
        except IndexError:
            parameters = _Parameters(*self._layout)
        parameters.places[:] = addresses
        self.run_on(scope, parameters)
        self._parameters.append(parameters)  # the driver has copied them

    def parameters(self, addresses: Sequence[int]) -> _Parameters:
        """Return what the driver takes for these addresses, for `run_on`."""
        made = _Parameters(*self._layout)
        made.places[:] = addresses
        return made

    def run_on(self, scope: CudaScope, parameters: _Parameters) -> bool:
        """Queue it on the stream of the scope, with these parameters. Return True."""
        made, stream = scope.ready(), scope.stream
        if self._shared_bytes:
            _permit(made, self._function, scope.device_ordinal, self._shared_bytes)
        config = self._configs.get(stream) or self._configured(made, stream)
        made.call("LaunchKernelEx", config, self._function, parameters.address, 0, what=self._what)
        return True

    def _configured(self, made: Driver, stream: int | None) -> Any:
        config = made.types.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = self._blocks, 1, 1
        config.blockDimX, config.blockDimY, config.blockDimZ = self._block, 1, 1
        config.sharedMemBytes = self._shared_bytes
        config.hStream = stream
        if len(self._configs) >= _MOST_STREAMS:
            self._configs.clear()
        self._configs[stream] = config
        return config


def _library(made: Driver, binary: bytes) -> Any:
    try:
        return made.call("LibraryLoadData", binary, [], [], 0, [], [], 0)
    except CudaError as error:
        from jaxwarp.codegen.cuda import nvrtc

        raise CudaError(f"{error}{nvrtc.misfit()}") from None


_kernels: dict[tuple[bytes, str], int] = {}  # libraries stay for the life of the process, as the handlers' do
_kernels_lock = threading.Lock()


def _load(made: Driver, binary: bytes, symbol: str) -> int:
    with _kernels_lock:
        kernel = _kernels.get((binary, symbol))
        if kernel is None:
            library = _library(made, binary)
            kernel = int(made.call("LibraryGetKernel", library, symbol.encode(), what=f" of '{symbol}'"))
            _kernels[binary, symbol] = kernel
        return kernel


_permitted: set[tuple[int, int]] = set()  # kernels and numbers of devices


def _permit(made: Driver, kernel: int, ordinal: int, shared_bytes: int) -> None:
    """Let blocks of a kernel have more dynamic shared memory on a device than every kernel may have."""
    if (kernel, ordinal) not in _permitted:
        attribute = made.types.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        handle, device = made.types.CUkernel(kernel), made.call("DeviceGet", ordinal)
        made.call("KernelSetAttribute", attribute, shared_bytes, handle, device)
        _permitted.add((kernel, ordinal))
