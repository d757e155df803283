"""Names that programs written for Warp use outside of kernels and that are not here, and what to do instead.

Rows are only read for names that do not exist: one that is added needs no change here.
"""

from __future__ import annotations

_OUTSIDE = "compute it outside of the kernel, and pass the result as an argument"
_PROCESSES = "share memory between processes with multiprocessing.shared_memory, and array(values, copy=False)"
_MEMORY = "memory is NumPy's outside of JAX and XLA's inside: JAX's XLA_PYTHON_CLIENT_ALLOCATOR chooses its allocator"
_BUILD = "kernels are compiled when they are first launched, and their code is kept; kernel.source() shows it"
_EXPORT = "write a jitted function with jax.export: kernels are part of it"
_GRAPHICS = "draw outside: array.numpy() is what matplotlib, USD or OpenGL take"
_PADDLE = "share Paddle's tensors by DLPack: from_dlpack(tensor), paddle.utils.dlpack.from_dlpack(array)"
_FABRIC = "copy Fabric's data to an array: array(data, dtype=...)"
_ADDRESS = "kernels know no addresses: pass the array, or the index of an element"
_DENSE = "use jnp.linalg outside of the kernel, or write the loops as a @func"
_TYPING = "annotate with a type: vec3, mat33, array[float], or Any"
_ERROR = "catch jaxwarp.KernelError: every error of a kernel is one"

# Name, or how names begin (with *) -> what to do instead.
HOST_NAMES: dict[str, str] = {
    "Allocator": _MEMORY,
    "CudaManagedAllocator": _MEMORY,
    "MemoryKind": _MEMORY,
    "ScopedAllocator": _MEMORY,
    "ScopedMemoryTracker": _MEMORY,
    "print_memory_report": _MEMORY,
    "get_device_allocator": _MEMORY,
    "set_device_allocator": _MEMORY,
    "set_cuda_allocator": _MEMORY,
    "Bvh*": _OUTSIDE,
    "HashGrid*": "sort points by cell outside: jnp.argsort, or utils.radix_sort_pairs, and search their cells' ranges",
    "Mesh*": _OUTSIDE,
    "TextureResourceFlags": _GRAPHICS,
    "GLTextureResource": _GRAPHICS,
    "RegisteredGLBuffer": _GRAPHICS,
    "render": _GRAPHICS,
    "fem": "import jaxwarp.fem first: it is read when it is imported",
    "geometry": _OUTSIDE,
    "capture_save": _EXPORT,
    "capture_load*": _EXPORT,
    "map": "write a kernel, or use jnp on the JAX array",
    "utils": "use the functions of NumPy or jnp",
    "unot": "write not x",
    "capture_debug_dot_print": "print(graph) lists what was captured",
    "WarpDeterminismError": _ERROR,
    "ModuleBuildOptions": _BUILD,
    "compile_aot_module": _EXPORT,
    "load_aot_module": _EXPORT,
    "build_experimental": _BUILD,
    "get_cpu_kernel_cache_key": _BUILD,
    "get_cuda_kernel_properties": "kernel.resources(arch=...) lists registers and memory of the compiled kernel",
    "get_cuda_max_cluster_dim": _BUILD,
    "map_cuda_device": "JAX numbers the devices: jax.devices('cuda')",
    "unmap_cuda_device": "JAX numbers the devices: jax.devices('cuda')",
    "event_from_ipc_handle": _PROCESSES,
    "from_ipc_handle": _PROCESSES,
    "from_ptr": "write array(ptr=address, shape=..., dtype=...)",
    "from_paddle": _PADDLE,
    "to_paddle": _PADDLE,
    "device_from_paddle": _PADDLE,
    "device_to_paddle": _PADDLE,
    "dtype_from_paddle": _PADDLE,
    "dtype_to_paddle": _PADDLE,
    "stream_from_paddle": _PADDLE,
    "fabricarrayarray": _FABRIC,
    "indexedfabricarrayarray": _FABRIC,
    "FabricArray": _FABRIC,
    "IndexedFabricArray": _FABRIC,
    "timing_*": "measure with ScopedTimer, or jax.profiler.trace",
    "TimingResult": "measure with ScopedTimer, or jax.profiler.trace",
    "address": _ADDRESS,
    "address_of": _ADDRESS,
    "ref": _ADDRESS,
    "indexref": _ADDRESS,
    "load": "read the element: a[i]",
    "store": "write the element: a[i] = x",
    "array_store": "write the element: a[i] = x",
    "index": "write the element: a[i]",
    "view": "write a part of the array: a[i]",
    "dense_*": _DENSE,
    "velocity_at_point": "write it with vectors: cross(omega, p) + v",
    "Function": "functions for kernels are made by @func",
    "over": "threads do not work on tiles here; write the loop over elements",
    "Tile": "annotate with tile[float, 16, 16]",
    "TileStack": "annotate with Any: it is what tile_stack makes",
    "utils.AllocatorRmm": _MEMORY,
    **dict.fromkeys(
        ("Array", "Capacity", "Cols", "DType", "DTypeFloat", "DTypeScalar", "Float", "Int", "Length",
         "Matrix", "NDim", "Quaternion", "Rows", "Scalar", "Shape", "Transformation", "Vector"),
        _TYPING,
    ),
}  # fmt: skip


def on_the_host(name: str) -> str | None:
    """Return what to do instead of a name of Warp's that is missing here; None if programs do not use the name."""
    if name in HOST_NAMES:
        return HOST_NAMES[name]
    starts = (row for row in HOST_NAMES if row.endswith("*") and name.startswith(row[:-1]))
    return next((HOST_NAMES[row] for row in starts), None)
