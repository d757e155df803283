"""CUDA C++ written by hand on the memory of JAX arrays: launched by the driver, or in a dry run as C++ on the host."""

from __future__ import annotations

import ctypes
import functools
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import hostcuda
import jax
from sass.twins import TWINS, parameters_of

from jaxwarp.codegen.cuda import nvrtc
from jaxwarp.memory.driver import driver

_KERNEL = 'extern "C" __global__ void __launch_bounds__(256) '
SOURCES = {
    **TWINS,
    "copy": f"""
{_KERNEL}copy(const float4 *__restrict__ x, float4 *__restrict__ y, int n) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n / 4) y[i] = x[i];
}}
""",
    "increment": f"""
{_KERNEL}increment(const float *__restrict__ x, float *__restrict__ y, int n) {{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] + 1.0f;
}}
""",
}
_TYPES = {"*": ctypes.c_void_p, "float": ctypes.c_float, "int": ctypes.c_int}
_WITHOUT_A_GPU = 90


@dataclass(frozen=True)
class Place:
    """Blocks of a launch, and threads of a block, by axis: x, y, z."""

    blocks: tuple[int, int, int]
    block: tuple[int, int, int] = (256, 1, 1)


def over(grid: Sequence[int], block: Sequence[int] = (256,)) -> Place:
    """A thread for each element of a grid, whose last axis is x."""
    threads = [*block, 1, 1][:3]
    extents = [*reversed(grid), 1, 1][:3]
    return Place(tuple(math.ceil(n / b) for n, b in zip(extents, threads, strict=True)), tuple(threads))


@functools.cache
def compiled(name: str, architecture: int) -> nvrtc.Compiled:
    options = [f"--gpu-architecture=sm_{architecture}", "--std=c++17", "--ptxas-options=-v"]
    return nvrtc.compile_source(SOURCES[name], f"{name}.cu", options, False)


def used(log: str) -> dict[str, int]:
    """What ptxas reports: registers of a thread, bytes that it spills."""
    registers, *_ = re.findall(r"Used (\d+) registers", log)
    return {"registers": int(registers), "spilled": sum(map(int, re.findall(r"(\d+) bytes spill", log)))}


class OnGpu:
    """The first GPU."""

    def __init__(self) -> None:
        self._driver = driver()
        device = self._driver.call("DeviceGet", 0)
        self.architecture = self._driver.architecture(device)
        # The context that JAX has, too. The calls are those that the package makes.
        self._driver.call("CtxPushCurrent", self._driver.call("DevicePrimaryCtxRetain", device))
        self._stream = self._driver.call("StreamCreateWithPriority", 0, 0)
        self._kernels: dict[str, Any] = {}
        self._configs: dict[Place, Any] = {}

    def launch(self, name: str, place: Place, arguments: Mapping[str, Any]) -> None:
        """Queues it. `arguments` are arrays of JAX and numbers, by parameter; arrays are written in place."""
        if name not in self._kernels:
            self._kernels[name] = self.load(compiled(name, self.architecture).code, name)
        self.launch_loaded(self._kernels[name], place, _packed(name, arguments))

    def load(self, code: bytes, symbol: str) -> Any:
        """The kernel of a cubin."""
        library = self._driver.call("LibraryLoadData", code, [], [], 0, [], [], 0)
        return self._driver.call("LibraryGetKernel", library, symbol.encode())

    def launch_loaded(self, kernel: Any, place: Place, parameters: Any) -> None:
        """Queues it. `parameters` are values and their types, or the address of addresses of values."""
        if place not in self._configs:
            self._configs[place] = self._config(place)
        # A kernel is taken for a function by its number, as the package does.
        self._driver.call("LaunchKernelEx", self._configs[place], int(kernel), parameters, 0)

    def _config(self, place: Place) -> Any:
        config = self._driver.types.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = place.blocks
        config.blockDimX, config.blockDimY, config.blockDimZ = place.block
        config.hStream = self._stream
        return config

    def clear(self, array: jax.Array) -> None:
        self._driver.call("MemsetD8Async", array.unsafe_buffer_pointer(), 0, array.nbytes, self._stream)

    def wait(self) -> None:
        self._driver.call("StreamSynchronize", self._stream)


class OnHost:
    """The text as C++ on the host, one thread after another: it shows that texts, arguments and places are right."""

    architecture = _WITHOUT_A_GPU

    def launch(self, name: str, place: Place, arguments: Mapping[str, Any]) -> None:
        values, types = _packed(name, arguments)
        kept = [kind(value) for kind, value in zip(types, values, strict=True)]
        pointers = (ctypes.c_void_p * len(kept))(*(ctypes.addressof(k) for k in kept))
        blocks, block = ((ctypes.c_uint * 3)(*extents) for extents in (place.blocks, place.block))
        getattr(_host_library(), f"launch_{name}")(pointers, blocks, block)

    def clear(self, array: jax.Array) -> None:
        ctypes.memset(array.unsafe_buffer_pointer(), 0, array.nbytes)

    def wait(self) -> None:
        pass


def _packed(name: str, arguments: Mapping[str, Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Values and types, in the order of the parameters."""
    parameters = parameters_of(SOURCES[name])
    read = {"*": lambda x: x.unsafe_buffer_pointer(), "float": float, "int": int}
    values = tuple(read[kind](arguments[word]) for kind, word in parameters)
    return values, tuple(_TYPES[kind] for kind, _ in parameters)


# What the shim has not, for code made of kernels needs none of it.
_PRELUDE = """
struct float3 { float x, y, z; };
static inline float3 make_float3(float x, float y, float z) { return {x, y, z}; }
static inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
// A parameter, from where its value is.
struct Argument {
    void *at;
    template <class T> operator T() const { return *(T *)at; }
};
"""


@functools.cache
def _host_library() -> ctypes.CDLL:
    return hostcuda.load_unit(_PRELUDE + "".join(_host_unit(name) for name in SOURCES))


def _host_unit(name: str) -> str:
    """A text, and a function that runs blocks and threads of it. Threads that wait for others are fibers."""
    source = SOURCES[name]
    arguments = ", ".join(f"Argument{{parameters[{i}]}}" for i in range(len(parameters_of(source))))
    one = f"{name}({arguments});"
    if "__syncthreads()" in source:
        block = f"""
            auto thread = [&] {{ {one} }};
            fibers::run_block(block[0], [](void *it) {{ (*(decltype(thread) *)it)(); }}, &thread);"""
    else:
        block = f"""
            for (threadIdx.z = 0; threadIdx.z < block[2]; ++threadIdx.z)
            for (threadIdx.y = 0; threadIdx.y < block[1]; ++threadIdx.y)
            for (threadIdx.x = 0; threadIdx.x < block[0]; ++threadIdx.x) {one}"""
    return f"""
{source}
extern "C" void launch_{name}(void **parameters, const unsigned int *blocks, const unsigned int *block) {{
    gridDim = {{blocks[0], blocks[1], blocks[2]}};
    blockDim = {{block[0], block[1], block[2]}};
    for (blockIdx.z = 0; blockIdx.z < blocks[2]; ++blockIdx.z)
    for (blockIdx.y = 0; blockIdx.y < blocks[1]; ++blockIdx.y)
    for (blockIdx.x = 0; blockIdx.x < blocks[0]; ++blockIdx.x) {{{block}
    }}
}}
"""
