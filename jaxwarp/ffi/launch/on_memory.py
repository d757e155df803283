"""Launches on real memory, at once: of the host (`native_launch.py`), or of a GPU."""

from __future__ import annotations

import ctypes
import functools
import math
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxwarp.analysis.effects import analyze
from jaxwarp.codegen.abi import PACK_BYTES, CudaOptions, index_bits_of
from jaxwarp.codegen.tuned import with_block
from jaxwarp.ffi.launch.native_launch import code_of
from jaxwarp.ir.kernel import Kernel
from jaxwarp.memory.cuda_scope import CudaScope
from jaxwarp.memory.driver import CudaError, Driver
from jaxwarp.memory.host_scope import HOST
from jaxwarp.memory.region import Region
from jaxwarp.memory.scope import Scope
from jaxwarp.passes.pipeline import prepared
from jaxwarp.unlocked import address_of

_MOST_LAUNCHES = 512
_MOST_STREAMS = 64  # whose configuration of a launch is kept


def launch_on(
    scope: Scope, kernel: Kernel, grid: Sequence[int], operands: Sequence[Any], fma: bool, cuda: CudaOptions
) -> None:
    """Runs a kernel in the memory of a scope, on dense regions, and NumPy values for what is passed by value."""
    if isinstance(scope, CudaScope):
        launch_cuda(scope, kernel, grid, operands, fma, cuda)
        return
    code = _code_of(kernel, fma, tuple(grid), tuple(tuple(o.shape) for o in operands))
    places = [o if isinstance(o, Region) else np.ascontiguousarray(o) for o in operands]
    # Of a call of XLA's, other threads are XLA's.
    code.run([o.address if isinstance(o, Region) else address_of(o) for o in places], is_divided=scope is HOST)


_code_of = functools.lru_cache(maxsize=256)(code_of)  # which nobody else holds from one call to the next


def launch_cuda(
    scope: CudaScope, kernel: Kernel, grid: Sequence[int], operands: Sequence[Any], fma: bool, cuda: CudaOptions
) -> None:
    """Queues a kernel on the stream of a call, or of the process."""
    shapes = tuple([tuple(o.shape) if isinstance(o, Region) else np.shape(o) for o in operands])
    # What is passed by value is put where it is aligned.
    is_aligned = all(o.address % PACK_BYTES == 0 for o in operands if isinstance(o, Region))
    made = scope.ready()  # which finds out about the device
    key = made, scope.architecture, kernel, tuple(grid), shapes, fma, cuda, is_aligned
    launch = _launches.get(key)
    if launch is None or cuda.is_tuned:  # there may be another block by now
        if len(_launches) >= _MOST_LAUNCHES:
            _launches.clear()
        launch = _launches[key] = CudaLaunch(scope, kernel, grid, shapes, fma, cuda, is_aligned)
    regions = [(i in launch.written, o) for i, o in enumerate(operands) if isinstance(o, Region)]
    scope.uses([o for is_written, o in regions if not is_written], [o for is_written, o in regions if is_written])
    addresses, kept = scope.addresses(operands)
    launch.run(scope, addresses)
    del kept  # memory that the launch uses is given back behind it


_launches: dict[Any, CudaLaunch] = {}  # late ones; code is the same on all devices of an architecture


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
    """A launch of a kernel on dense arrays of known shapes in the memory of a GPU.

    Attributes:
        written: the numbers of the arguments that it changes.
    """

    def __init__(
        self,
        scope: CudaScope,
        kernel: Kernel,
        grid: Sequence[int],
        shapes: Sequence[Sequence[int]],
        fma: bool,
        cuda: CudaOptions,
        is_aligned: bool,
    ):
        from jaxwarp.codegen.cuda import choose_block, code_for  # which are slow to import

        made, ready = scope.ready(), prepared(kernel, fma)
        cuda = with_block(cuda, ready, grid, shapes, scope.model()) if cuda.is_tuned else cuda
        code = code_for(ready, grid, shapes, index_bits_of(grid, shapes), cuda, is_aligned)
        binary = _binary(code, scope.architecture)
        self._function = _load(made, binary, code.symbol)
        threads = math.prod(code.grid or grid)
        extents = [grid[axis] if source < 0 else shapes[source][axis] for source, axis in code.geometry]
        # Of launches that are under way, each has its own.
        self._parameters: list[_Parameters] = []
        self._layout = len(shapes), (*extents, threads)
        self._block = choose_block(code, [(scope.architecture, binary)])
        self._blocks = min(-(-threads // self._block), code.most_blocks)
        self._what = f" of '{kernel.name}'"
        self._configs: dict[int | None, Any] = {}  # by stream
        self.written = _written(ready)

    def run(self, scope: CudaScope, addresses: Sequence[int]) -> None:
        """Queues it on the stream of the scope."""
        made, stream = scope.ready(), scope.stream
        config = self._configs.get(stream) or self._configured(made, stream)
        try:
            parameters = self._parameters.pop()
        except IndexError:
            parameters = _Parameters(*self._layout)
        parameters.places[:] = addresses
        made.call("LaunchKernelEx", config, self._function, parameters.address, 0, what=self._what)
        self._parameters.append(parameters)  # the driver has copied them

    def _configured(self, made: Driver, stream: int | None) -> Any:
        config = made.types.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = self._blocks, 1, 1
        config.blockDimX, config.blockDimY, config.blockDimZ = self._block, 1, 1
        config.hStream = stream
        if len(self._configs) >= _MOST_STREAMS:
            self._configs.clear()
        self._configs[stream] = config
        return config


@functools.lru_cache(maxsize=512)
def _written(kernel: Kernel) -> frozenset[int]:
    """The numbers of the parameters that a kernel changes."""
    effects = analyze(kernel)
    return frozenset(i for i, param in enumerate(kernel.params) if effects[param].modifies)


@functools.lru_cache(maxsize=256)
def _binary(code: Any, architecture: int) -> bytes:
    """Machine code for an architecture, or PTX."""
    from jaxwarp.codegen.cuda import compile_cuda, nvrtc

    known = nvrtc.supported_architectures()
    # A device newer than NVRTC compiles PTX itself.
    older = max((a for a in known if a <= architecture), default=architecture)
    exact = architecture in known
    (entry,) = compile_cuda(code, (architecture,) if exact else (), ptx=() if exact else (older,))
    return entry.code


def _loaded(made: Driver, binary: bytes) -> Any:
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
            library = _loaded(made, binary)
            kernel = int(made.call("LibraryGetKernel", library, symbol.encode(), what=f" of '{symbol}'"))
            _kernels[binary, symbol] = kernel
        return kernel
