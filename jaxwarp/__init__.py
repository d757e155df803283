"""Kernels written in Python, run inside jax.jit: on the CPU and on CUDA.

import jaxwarp as wp

@wp.kernel
def saxpy(a: float, x: wp.array[float], y: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    out[i] = a * x[i] + y[i]

jax_saxpy = wp.jax_kernel(saxpy)
"""

from jaxwarp import config as config
from jaxwarp import errors as errors
from jaxwarp import types as types
from jaxwarp import utils as utils
from jaxwarp.arrays.create import clone as clone
from jaxwarp.arrays.create import copy as copy
from jaxwarp.arrays.create import empty as empty
from jaxwarp.arrays.create import empty_like as empty_like
from jaxwarp.arrays.create import full as full
from jaxwarp.arrays.create import full_like as full_like
from jaxwarp.arrays.create import ones as ones
from jaxwarp.arrays.create import ones_like as ones_like
from jaxwarp.arrays.create import zeros as zeros
from jaxwarp.arrays.create import zeros_like as zeros_like
from jaxwarp.arrays.element_types import dtype_from_jax as dtype_from_jax
from jaxwarp.arrays.element_types import dtype_from_numpy as dtype_from_numpy
from jaxwarp.arrays.element_types import dtype_to_jax as dtype_to_jax
from jaxwarp.arrays.element_types import dtype_to_numpy as dtype_to_numpy
from jaxwarp.arrays.from_data import from_numpy as from_numpy
from jaxwarp.arrays.indexed import indexedarray as indexedarray
from jaxwarp.arrays.indexed import indexedarray1d as indexedarray1d
from jaxwarp.arrays.indexed import indexedarray2d as indexedarray2d
from jaxwarp.arrays.indexed import indexedarray3d as indexedarray3d
from jaxwarp.arrays.indexed import indexedarray4d as indexedarray4d
from jaxwarp.arrays.interop import from_dlpack as from_dlpack
from jaxwarp.arrays.interop import from_jax as from_jax
from jaxwarp.arrays.interop import to_dlpack as to_dlpack
from jaxwarp.arrays.interop import to_jax as to_jax
from jaxwarp.arrays.launch import Launch as Launch
from jaxwarp.arrays.launch import launch as launch
from jaxwarp.arrays.launch import launch_tiled as launch_tiled
from jaxwarp.arrays.mapping import map as map  # noqa: A004
from jaxwarp.arrays.tapes.tape import Tape as Tape
from jaxwarp.arrays.tensors import device_from_torch as device_from_torch
from jaxwarp.arrays.tensors import device_to_torch as device_to_torch
from jaxwarp.arrays.tensors import dtype_from_torch as dtype_from_torch
from jaxwarp.arrays.tensors import dtype_to_torch as dtype_to_torch
from jaxwarp.arrays.tensors import from_torch as from_torch
from jaxwarp.arrays.tensors import stream_from_torch as stream_from_torch
from jaxwarp.arrays.tensors import stream_to_torch as stream_to_torch
from jaxwarp.arrays.tensors import to_torch as to_torch
from jaxwarp.builtins.language.constants import CONSTANTS as _CONSTANTS
from jaxwarp.builtins.language.constants import constant as constant
from jaxwarp.builtins.language.functions import FUNCTIONS as _FUNCTIONS
from jaxwarp.builtins.language.short_names import AGGREGATES as _AGGREGATES
from jaxwarp.decorators import func as func
from jaxwarp.decorators import func_grad as func_grad
from jaxwarp.decorators import func_native as func_native
from jaxwarp.decorators import func_replay as func_replay
from jaxwarp.decorators import kernel as kernel
from jaxwarp.errors import CheckError as CheckError
from jaxwarp.errors import CompileError as CompileError
from jaxwarp.errors import JaxwarpError as JaxwarpError
from jaxwarp.errors import KernelError as KernelError
from jaxwarp.errors import PerformanceWarning as PerformanceWarning
from jaxwarp.ffi.callbacks.callback import register_ffi_callback as register_ffi_callback
from jaxwarp.ffi.checkify import kernel_checks as kernel_checks
from jaxwarp.ffi.costs.program import cost_analysis as cost_analysis
from jaxwarp.ffi.export import export_checks as export_checks
from jaxwarp.ffi.jax_kernel import jax_kernel as jax_kernel
from jaxwarp.ffi.programs.jax_callable import GraphMode as GraphMode
from jaxwarp.ffi.programs.jax_callable import jax_callable as jax_callable
from jaxwarp.frontend.lowering.adjoints import adjoint as adjoint
from jaxwarp.frontend.lowering.intrinsics import INTRINSICS as _INTRINSICS
from jaxwarp.frontend.text.annotations import array as array
from jaxwarp.frontend.text.annotations import array1d as array1d
from jaxwarp.frontend.text.annotations import array2d as array2d
from jaxwarp.frontend.text.annotations import array3d as array3d
from jaxwarp.frontend.text.annotations import array4d as array4d
from jaxwarp.frontend.text.annotations import fabricarray as fabricarray
from jaxwarp.frontend.text.annotations import fixedarray as fixedarray
from jaxwarp.frontend.text.annotations import indexedfabricarray as indexedfabricarray
from jaxwarp.frontend.text.annotations import ref as ref
from jaxwarp.frontend.text.functions import Func as Func
from jaxwarp.host.names import NAMES as _HOST_NAMES
from jaxwarp.kernel import Kernel as Kernel
from jaxwarp.kernel import init as init
from jaxwarp.kernel import overload as overload
from jaxwarp.launches.arguments.options import ModulePreloadMode as ModulePreloadMode
from jaxwarp.library.names import find as _find
from jaxwarp.library.names import listed as _listed
from jaxwarp.memory.devices import Device as Device
from jaxwarp.memory.devices import DeviceLike as DeviceLike
from jaxwarp.memory.devices import ScopedDevice as ScopedDevice
from jaxwarp.memory.devices import device_from_jax as device_from_jax
from jaxwarp.memory.devices import device_to_jax as device_to_jax
from jaxwarp.memory.devices import get_cuda_device as get_cuda_device
from jaxwarp.memory.devices import get_cuda_device_count as get_cuda_device_count
from jaxwarp.memory.devices import get_cuda_devices as get_cuda_devices
from jaxwarp.memory.devices import get_device as get_device
from jaxwarp.memory.devices import get_devices as get_devices
from jaxwarp.memory.devices import get_preferred_device as get_preferred_device
from jaxwarp.memory.devices import is_cpu_available as is_cpu_available
from jaxwarp.memory.devices import is_cuda_available as is_cuda_available
from jaxwarp.memory.devices import is_device_available as is_device_available
from jaxwarp.memory.devices import set_device as set_device
from jaxwarp.memory.gpu.streams import ScopedStream as ScopedStream
from jaxwarp.memory.gpu.streams import Stream as Stream
from jaxwarp.memory.gpu.streams import get_stream as get_stream
from jaxwarp.memory.gpu.streams import set_stream as set_stream
from jaxwarp.memory.gpu.streams import synchronize as synchronize
from jaxwarp.memory.gpu.streams import synchronize_device as synchronize_device
from jaxwarp.memory.gpu.streams import synchronize_stream as synchronize_stream
from jaxwarp.memory.gpu.streams import wait_stream as wait_stream
from jaxwarp.modules import Module as Module
from jaxwarp.modules import get_module as get_module
from jaxwarp.structs.declare import struct as struct
from jaxwarp.structs.iterate import func_next as func_next
from jaxwarp.types import Float as Float
from jaxwarp.types import Int as Int
from jaxwarp.types import bfloat16 as bfloat16
from jaxwarp.types import float16 as float16
from jaxwarp.types import float32 as float32
from jaxwarp.types import float64 as float64
from jaxwarp.types import int8 as int8
from jaxwarp.types import int16 as int16
from jaxwarp.types import int32 as int32
from jaxwarp.types import int64 as int64
from jaxwarp.types import uint8 as uint8
from jaxwarp.types import uint16 as uint16
from jaxwarp.types import uint32 as uint32
from jaxwarp.types import uint64 as uint64

__version__ = "0.1.0"

bool = types.bool_  # noqa: A001  (its name in kernels)
vec, mat = types.vector, types.matrix
handle = types.uint64
Scalar, Function = types.Number, Func
JaxModulePreloadMode, JaxCallableGraphMode = ModulePreloadMode, GraphMode

# Builtin functions, constants and short type names come from their tables: jaxwarp.sin, jaxwarp.PI, jaxwarp.vec3.
# Functions of the library are read when they are named; `_find` says what is not there.
globals().update(_FUNCTIONS | _INTRINSICS | _CONSTANTS | _AGGREGATES | _HOST_NAMES)
globals().update({"__getattr__": _find, "__dir__": _listed})
