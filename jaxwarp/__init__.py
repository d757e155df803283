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
from jaxwarp.builtins.constants import CONSTANTS as _CONSTANTS
from jaxwarp.builtins.constants import constant as constant
from jaxwarp.builtins.functions import FUNCTIONS as _FUNCTIONS
from jaxwarp.errors import CompileError as CompileError
from jaxwarp.errors import JaxwarpError as JaxwarpError
from jaxwarp.errors import KernelError as KernelError
from jaxwarp.ffi import GraphMode as GraphMode
from jaxwarp.ffi import ModulePreloadMode as ModulePreloadMode
from jaxwarp.ffi import export_checks as export_checks
from jaxwarp.ffi import jax_callable as jax_callable
from jaxwarp.ffi import jax_kernel as jax_kernel
from jaxwarp.ffi import register_ffi_callback as register_ffi_callback
from jaxwarp.ffi.program import clone as clone
from jaxwarp.ffi.program import copy as copy
from jaxwarp.ffi.program import empty as empty
from jaxwarp.ffi.program import empty_like as empty_like
from jaxwarp.ffi.program import full as full
from jaxwarp.ffi.program import full_like as full_like
from jaxwarp.ffi.program import launch as launch
from jaxwarp.ffi.program import zeros as zeros
from jaxwarp.ffi.program import zeros_like as zeros_like
from jaxwarp.ffi.streams import Device as Device
from jaxwarp.ffi.streams import ScopedStream as ScopedStream
from jaxwarp.ffi.streams import Stream as Stream
from jaxwarp.ffi.streams import device_from_jax as device_from_jax
from jaxwarp.frontend.adjoints import adjoint as adjoint
from jaxwarp.frontend.annotations import array as array
from jaxwarp.frontend.annotations import array1d as array1d
from jaxwarp.frontend.annotations import array2d as array2d
from jaxwarp.frontend.annotations import array3d as array3d
from jaxwarp.frontend.annotations import array4d as array4d
from jaxwarp.frontend.functions import Func as Func
from jaxwarp.frontend.intrinsics import INTRINSICS as _INTRINSICS
from jaxwarp.kernel import Kernel as Kernel
from jaxwarp.kernel import func as func
from jaxwarp.kernel import func_grad as func_grad
from jaxwarp.kernel import func_replay as func_replay
from jaxwarp.kernel import init as init
from jaxwarp.kernel import kernel as kernel
from jaxwarp.kernel import overload as overload
from jaxwarp.short_names import MATRICES as _MATRICES
from jaxwarp.short_names import VECTORS as _VECTORS
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
JaxModulePreloadMode, JaxCallableGraphMode = ModulePreloadMode, GraphMode

# Builtin functions, constants and short type names come from their tables: jaxwarp.sin, jaxwarp.PI, jaxwarp.vec3.
globals().update(_FUNCTIONS | _INTRINSICS | _CONSTANTS | _VECTORS | _MATRICES)
