"""Type stub of the package, generated from the tables and the package: `python -m jaxwarp.document` writes it."""

# ruff: noqa
# pyright: reportSelfClsParameterName=false, reportIncompatibleMethodOverride=false
# pyright: reportIncompatibleVariableOverride=false, reportInconsistentOverload=false
# pyright: reportInvalidTypeVarUse=false

import builtins
import dataclasses
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import (
    Annotated,
    Any,
    Concatenate,
    Generic,
    Iterator,
    List,
    Literal,
    ParamSpec,
    Self,
    Tuple,
    TypeAlias,
    TypeVar,
    dataclass_transform,
)
from typing import Type as _type
from typing import overload as _overload

import jax
import numpy as np

from jaxwarp import autograd as autograd
from jaxwarp import errors as errors
from jaxwarp import geometry as geometry
from jaxwarp import optim as optim
from jaxwarp import sparse as sparse
from jaxwarp import types as types
from jaxwarp import utils as utils
from jaxwarp.arrays.create import copy as copy
from jaxwarp.arrays.element_types import dtype_from_jax as dtype_from_jax
from jaxwarp.arrays.element_types import dtype_from_numpy as dtype_from_numpy
from jaxwarp.arrays.element_types import dtype_to_jax as dtype_to_jax
from jaxwarp.arrays.element_types import dtype_to_numpy as dtype_to_numpy
from jaxwarp.arrays.interop import to_dlpack as to_dlpack
from jaxwarp.arrays.interop import to_jax as to_jax
from jaxwarp.arrays.launch import Launch as Launch
from jaxwarp.arrays.launch import launch as launch
from jaxwarp.arrays.launch import launch_tiled as launch_tiled
from jaxwarp.arrays.mapping import map as map
from jaxwarp.arrays.tapes.tape import Tape as Tape
from jaxwarp.arrays.tensors import device_from_torch as device_from_torch
from jaxwarp.arrays.tensors import device_to_torch as device_to_torch
from jaxwarp.arrays.tensors import dtype_from_torch as dtype_from_torch
from jaxwarp.arrays.tensors import dtype_to_torch as dtype_to_torch
from jaxwarp.arrays.tensors import stream_from_torch as stream_from_torch
from jaxwarp.arrays.tensors import stream_to_torch as stream_to_torch
from jaxwarp.arrays.tensors import to_torch as to_torch
from jaxwarp.builtins.language.constants import constant as constant
from jaxwarp.commands.info import print_diagnostics as print_diagnostics
from jaxwarp.config import DeterministicMode as DeterministicMode
from jaxwarp.decorators import func_grad as func_grad
from jaxwarp.decorators import func_native as func_native
from jaxwarp.decorators import func_replay as func_replay
from jaxwarp.errors import CheckError as CheckError
from jaxwarp.errors import CompileError as CompileError
from jaxwarp.errors import JaxwarpError as JaxwarpError
from jaxwarp.errors import KernelError as KernelError
from jaxwarp.errors import PerformanceWarning as PerformanceWarning
from jaxwarp.ffi.callbacks.callback import register_ffi_callback as register_ffi_callback
from jaxwarp.ffi.checkify import kernel_checks as kernel_checks
from jaxwarp.ffi.costs.program import cost_analysis as cost_analysis
from jaxwarp.ffi.export import export_checks as export_checks
from jaxwarp.ffi.programs.jax_callable import GraphMode as GraphMode
from jaxwarp.frontend.lowering.adjoints import adjoint as adjoint
from jaxwarp.frontend.text.annotations import fixedarray as fixedarray
from jaxwarp.frontend.text.functions import Func as Func
from jaxwarp.geometry.bvh import Bvh as Bvh
from jaxwarp.geometry.bvh_queries import BvhQuery as BvhQuery
from jaxwarp.geometry.bvh_queries import BvhQueryTiled as BvhQueryTiled
from jaxwarp.geometry.bvh_queries import bvh_get_group_root as bvh_get_group_root
from jaxwarp.geometry.bvh_queries import bvh_query_aabb as bvh_query_aabb
from jaxwarp.geometry.bvh_queries import bvh_query_aabb_tiled as bvh_query_aabb_tiled
from jaxwarp.geometry.bvh_queries import bvh_query_capsule as bvh_query_capsule
from jaxwarp.geometry.bvh_queries import bvh_query_next as bvh_query_next
from jaxwarp.geometry.bvh_queries import bvh_query_next_tiled as bvh_query_next_tiled
from jaxwarp.geometry.bvh_queries import bvh_query_ray as bvh_query_ray
from jaxwarp.geometry.bvh_queries import bvh_query_ray_tiled as bvh_query_ray_tiled
from jaxwarp.geometry.bvh_queries import bvh_query_sphere as bvh_query_sphere
from jaxwarp.geometry.bvh_queries import tile_bvh_query_aabb as tile_bvh_query_aabb
from jaxwarp.geometry.bvh_queries import tile_bvh_query_next as tile_bvh_query_next
from jaxwarp.geometry.bvh_queries import tile_bvh_query_ray as tile_bvh_query_ray
from jaxwarp.geometry.bvh_queries import tile_query_valid as tile_query_valid
from jaxwarp.geometry.grid_queries import HashGridQuery as HashGridQuery
from jaxwarp.geometry.grid_queries import hash_grid_offset as hash_grid_offset
from jaxwarp.geometry.grid_queries import hash_grid_point_id as hash_grid_point_id
from jaxwarp.geometry.grid_queries import hash_grid_query as hash_grid_query
from jaxwarp.geometry.grid_queries import hash_grid_query_next as hash_grid_query_next
from jaxwarp.geometry.hash_grid import HashGrid as HashGrid
from jaxwarp.geometry.mesh import Mesh as Mesh
from jaxwarp.geometry.mesh_queries import MeshQuery as MeshQuery
from jaxwarp.geometry.mesh_queries import MeshQueryAABB as MeshQueryAABB
from jaxwarp.geometry.mesh_queries import MeshQueryAABBTiled as MeshQueryAABBTiled
from jaxwarp.geometry.mesh_queries import MeshQueryPoint as MeshQueryPoint
from jaxwarp.geometry.mesh_queries import MeshQueryRay as MeshQueryRay
from jaxwarp.geometry.mesh_queries import MeshQueryRayAll as MeshQueryRayAll
from jaxwarp.geometry.mesh_queries import MeshQuerySphere as MeshQuerySphere
from jaxwarp.geometry.mesh_queries import mesh_eval_ray as mesh_eval_ray
from jaxwarp.geometry.mesh_queries import mesh_query_aabb as mesh_query_aabb
from jaxwarp.geometry.mesh_queries import mesh_query_aabb_next as mesh_query_aabb_next
from jaxwarp.geometry.mesh_queries import mesh_query_aabb_next_tiled as mesh_query_aabb_next_tiled
from jaxwarp.geometry.mesh_queries import mesh_query_aabb_tiled as mesh_query_aabb_tiled
from jaxwarp.geometry.mesh_queries import mesh_query_furthest_point_no_sign as mesh_query_furthest_point_no_sign
from jaxwarp.geometry.mesh_queries import mesh_query_next as mesh_query_next
from jaxwarp.geometry.mesh_queries import mesh_query_point as mesh_query_point
from jaxwarp.geometry.mesh_queries import mesh_query_point_no_sign as mesh_query_point_no_sign
from jaxwarp.geometry.mesh_queries import mesh_query_point_sign_normal as mesh_query_point_sign_normal
from jaxwarp.geometry.mesh_queries import mesh_query_point_sign_parity as mesh_query_point_sign_parity
from jaxwarp.geometry.mesh_queries import mesh_query_ray as mesh_query_ray
from jaxwarp.geometry.mesh_queries import mesh_query_ray_all as mesh_query_ray_all
from jaxwarp.geometry.mesh_queries import mesh_query_ray_anyhit as mesh_query_ray_anyhit
from jaxwarp.geometry.mesh_queries import mesh_query_ray_count_intersections as mesh_query_ray_count_intersections
from jaxwarp.geometry.mesh_queries import mesh_query_ray_next as mesh_query_ray_next
from jaxwarp.geometry.mesh_queries import mesh_query_sphere as mesh_query_sphere
from jaxwarp.geometry.mesh_queries import tile_mesh_query_aabb as tile_mesh_query_aabb
from jaxwarp.geometry.mesh_queries import tile_mesh_query_aabb_next as tile_mesh_query_aabb_next
from jaxwarp.geometry.mesh_values import mesh_eval_face_normal as mesh_eval_face_normal
from jaxwarp.geometry.mesh_values import mesh_eval_position as mesh_eval_position
from jaxwarp.geometry.mesh_values import mesh_eval_velocity as mesh_eval_velocity
from jaxwarp.geometry.mesh_values import mesh_get as mesh_get
from jaxwarp.geometry.mesh_values import mesh_get_bvh as mesh_get_bvh
from jaxwarp.geometry.mesh_values import mesh_get_group_root as mesh_get_group_root
from jaxwarp.geometry.mesh_values import mesh_get_index as mesh_get_index
from jaxwarp.geometry.mesh_values import mesh_get_point as mesh_get_point
from jaxwarp.geometry.mesh_values import mesh_get_velocity as mesh_get_velocity
from jaxwarp.geometry.sorting import sort_pairs as sort_pairs
from jaxwarp.geometry.steps import bvh_ascend as bvh_ascend
from jaxwarp.geometry.steps import bvh_descend as bvh_descend
from jaxwarp.geometry.surfaces.iso_surface import MarchingCubes as MarchingCubes
from jaxwarp.geometry.volumes.sampling import volume_index_to_world as volume_index_to_world
from jaxwarp.geometry.volumes.sampling import volume_index_to_world_dir as volume_index_to_world_dir
from jaxwarp.geometry.volumes.sampling import volume_lookup as volume_lookup
from jaxwarp.geometry.volumes.sampling import volume_lookup_f as volume_lookup_f
from jaxwarp.geometry.volumes.sampling import volume_lookup_i as volume_lookup_i
from jaxwarp.geometry.volumes.sampling import volume_lookup_index as volume_lookup_index
from jaxwarp.geometry.volumes.sampling import volume_lookup_v as volume_lookup_v
from jaxwarp.geometry.volumes.sampling import volume_sample as volume_sample
from jaxwarp.geometry.volumes.sampling import volume_sample_f as volume_sample_f
from jaxwarp.geometry.volumes.sampling import volume_sample_grad as volume_sample_grad
from jaxwarp.geometry.volumes.sampling import volume_sample_grad_f as volume_sample_grad_f
from jaxwarp.geometry.volumes.sampling import volume_sample_grad_index as volume_sample_grad_index
from jaxwarp.geometry.volumes.sampling import volume_sample_i as volume_sample_i
from jaxwarp.geometry.volumes.sampling import volume_sample_index as volume_sample_index
from jaxwarp.geometry.volumes.sampling import volume_sample_v as volume_sample_v
from jaxwarp.geometry.volumes.sampling import volume_store as volume_store
from jaxwarp.geometry.volumes.sampling import volume_store_f as volume_store_f
from jaxwarp.geometry.volumes.sampling import volume_store_i as volume_store_i
from jaxwarp.geometry.volumes.sampling import volume_store_v as volume_store_v
from jaxwarp.geometry.volumes.sampling import volume_voxel_count as volume_voxel_count
from jaxwarp.geometry.volumes.sampling import volume_world_to_index as volume_world_to_index
from jaxwarp.geometry.volumes.sampling import volume_world_to_index_dir as volume_world_to_index_dir
from jaxwarp.geometry.volumes.volume import Volume as Volume
from jaxwarp.geometry.winding import mesh_query_point_sign_winding_number as mesh_query_point_sign_winding_number
from jaxwarp.host.as_warp import install_as_warp as install_as_warp
from jaxwarp.host.autotune import Tuned as Tuned
from jaxwarp.host.autotune import autotune as autotune
from jaxwarp.host.block_sizes import get_suggested_block_size as get_suggested_block_size
from jaxwarp.host.capture import Graph as Graph
from jaxwarp.host.capture import ScopedCapture as ScopedCapture
from jaxwarp.host.capture import capture_begin as capture_begin
from jaxwarp.host.capture import capture_end as capture_end
from jaxwarp.host.capture import capture_if as capture_if
from jaxwarp.host.capture import capture_launch as capture_launch
from jaxwarp.host.capture import capture_while as capture_while
from jaxwarp.host.capture import is_conditional_graph_supported as is_conditional_graph_supported
from jaxwarp.host.device_attributes import get_cuda_driver_version as get_cuda_driver_version
from jaxwarp.host.device_attributes import get_cuda_supported_archs as get_cuda_supported_archs
from jaxwarp.host.device_attributes import get_cuda_toolkit_version as get_cuda_toolkit_version
from jaxwarp.host.events import Event as Event
from jaxwarp.host.events import ScopedTimer as ScopedTimer
from jaxwarp.host.events import get_event_elapsed_time as get_event_elapsed_time
from jaxwarp.host.events import record_event as record_event
from jaxwarp.host.events import synchronize_event as synchronize_event
from jaxwarp.host.events import wait_event as wait_event
from jaxwarp.host.idle import CaptureMode as CaptureMode
from jaxwarp.host.idle import can_access as can_access
from jaxwarp.host.options import get_module_options as get_module_options
from jaxwarp.host.options import set_module_options as set_module_options
from jaxwarp.host.transforms import transform_expand as transform_expand
from jaxwarp.kernel import Kernel as Kernel
from jaxwarp.kernel import init as init
from jaxwarp.kernel import overload as overload
from jaxwarp.launches.arguments.options import Mode, VmapMethod
from jaxwarp.launches.arguments.options import ModulePreloadMode as ModulePreloadMode
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
from jaxwarp.memory.gpu.pool import get_mempool_release_threshold as get_mempool_release_threshold
from jaxwarp.memory.gpu.pool import get_mempool_used_mem_current as get_mempool_used_mem_current
from jaxwarp.memory.gpu.pool import get_mempool_used_mem_high as get_mempool_used_mem_high
from jaxwarp.memory.gpu.pool import is_mempool_enabled as is_mempool_enabled
from jaxwarp.memory.gpu.pool import is_mempool_supported as is_mempool_supported
from jaxwarp.memory.gpu.pool import set_mempool_enabled as set_mempool_enabled
from jaxwarp.memory.gpu.pool import set_mempool_release_threshold as set_mempool_release_threshold
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
from jaxwarp.structs.iterate import func_next as func_next
from jaxwarp.textures.modes import TextureAddressMode as TextureAddressMode
from jaxwarp.textures.modes import TextureFilterMode as TextureFilterMode
from jaxwarp.textures.sampling import texture_sample as texture_sample
from jaxwarp.textures.texture import Texture as Texture
from jaxwarp.textures.texture import Texture1D as Texture1D
from jaxwarp.textures.texture import Texture2D as Texture2D
from jaxwarp.textures.texture import Texture3D as Texture3D

_T = TypeVar("_T")

class _Value:
    """A vector, matrix, quaternion or transform in a kernel; on the host, calling its type makes a NumPy array."""

    def __init__(self, *components: Any, **named: Any) -> None: ...
    def __getattr__(self, name: str) -> Any: ...
    def __setattr__(self, name: str, value: Any) -> None: ...
    def __getitem__(self, index: Any) -> Any: ...
    def __setitem__(self, index: Any, value: Any) -> None: ...
    def __len__(self) -> Any: ...
    def __add__(self, other: Any) -> Self: ...
    def __sub__(self, other: Any) -> Self: ...
    def __mul__(self, other: Any) -> Any: ...
    def __rmul__(self, other: Any) -> Any: ...
    def __matmul__(self, other: Any) -> Any: ...
    def __truediv__(self, other: Any) -> Any: ...
    def __rtruediv__(self, other: Any) -> Any: ...
    def __mod__(self, other: Any) -> Any: ...
    def __neg__(self) -> Self: ...
    def __pos__(self) -> Self: ...
    def __invert__(self) -> Self: ...

class array(Generic[_T]):
    """An array argument of a kernel: `array[float]`, `array(dtype=vec3, ndim=2)`; outside of kernels, of data:
    `array([1.0, 2.0], dtype=float)`."""

    def __init__(self, data: Any = ..., dtype: Any = ..., shape: Any = ..., **options: Any) -> None: ...
    # A field of a struct: a value of JAX, NumPy or ours.
    @_overload
    def __get__(self, instance: None, owner: Any = ...) -> array[_T]: ...
    @_overload
    def __get__(self, instance: object, owner: Any = ...) -> Any: ...
    def __set__(self, instance: Any, value: Any) -> None: ...
    def __array__(self, dtype: Any = ..., copy: Any = ...) -> np.ndarray: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __jax_array__(self) -> jax.Array: ...
    def __dlpack__(self, **options: Any) -> Any: ...
    def __dlpack_device__(self) -> Tuple[int, int]: ...
    def __getitem__(self, index: Any) -> Any: ...
    def __setitem__(self, index: Any, value: Any) -> None: ...
    def __len__(self) -> int: ...
    def __add__(self, other: Any) -> Any: ...
    def __radd__(self, other: Any) -> Any: ...
    def __sub__(self, other: Any) -> Any: ...
    def __rsub__(self, other: Any) -> Any: ...
    def __mul__(self, other: Any) -> Any: ...
    def __rmul__(self, other: Any) -> Any: ...
    def __truediv__(self, other: Any) -> Any: ...
    def __rtruediv__(self, other: Any) -> Any: ...
    def __floordiv__(self, other: Any) -> Any: ...
    def __rfloordiv__(self, other: Any) -> Any: ...
    def __mod__(self, other: Any) -> Any: ...
    def __rmod__(self, other: Any) -> Any: ...
    def __pow__(self, other: Any) -> Any: ...
    def __rpow__(self, other: Any) -> Any: ...
    def __and__(self, other: Any) -> Any: ...
    def __rand__(self, other: Any) -> Any: ...
    def __or__(self, other: Any) -> Any: ...
    def __ror__(self, other: Any) -> Any: ...
    def __xor__(self, other: Any) -> Any: ...
    def __rxor__(self, other: Any) -> Any: ...
    def __lshift__(self, other: Any) -> Any: ...
    def __rlshift__(self, other: Any) -> Any: ...
    def __rshift__(self, other: Any) -> Any: ...
    def __rrshift__(self, other: Any) -> Any: ...
    def __neg__(self) -> Any: ...
    def __pos__(self) -> Any: ...
    def __abs__(self) -> Any: ...
    def __invert__(self) -> Any: ...
    dtype: Any
    shape: Tuple[int, ...]
    ndim: int
    size: int
    strides: Tuple[int, ...]
    is_contiguous: builtins.bool
    ptr: Any
    device: Any
    is_writable: builtins.bool
    capacity: int
    deleter: Any
    pinned: builtins.bool
    retain_grad: builtins.bool
    requires_grad: builtins.bool
    grad: Any
    def assign(self, src: Any) -> array[_T]:
        """Gives the array the contents of another one, or of an array of the host, of the same shape and dtype."""

    def fill_(self, value: Any) -> array[_T]:
        """Sets every element to a scalar, or to a vector or matrix of the element type's shape."""

    def zero_(self) -> array[_T]:
        """Sets every element to zero."""

    def numpy(self) -> np.ndarray:
        """Return the contents as a NumPy array: a view on the CPU, a read-only copy from a GPU."""

    def list(self) -> List[Any]:
        """The elements in order: numbers of Python, or values of the element's type as kernels have them."""

    def item(self) -> Any:
        """The only element, as `list` has it."""

    def reshape(self, *extents: Any, shape: Any = ...) -> array[_T]:
        """The same memory in another shape, `(2, 3)`, `shape=(2, 3)` or `2, 3`; one extent may be -1. The array must be
        contiguous."""

    def flatten(self) -> Any:
        """The same memory with one axis. The array must be contiguous."""

    def transpose(self, axes: Any = ...) -> array[_T]:
        """The same memory with its axes in another order; None: reversed."""

    def view(self, dtype: Any) -> array[Any]:
        """The same memory with another element type: one of the same size, or scalars of the same size as components of
        the last axes, or no components."""

    def fill(self, value: Any) -> array[_T]:
        """Sets every element to a scalar, or to a vector or matrix of the element type's shape."""

    def mark_init(self) -> None:
        """Does nothing: tapes find out what is overwritten."""

    def mark_read(self) -> None:
        """Does nothing: tapes find out what is read."""

    def mark_write(self, **_: Any) -> None:
        """Does nothing: tapes find out what is written."""

    def to(self, device: Any, requires_grad: Any = ...) -> array[_T]:
        """The array on a device: itself, if it is there, else a copy, with a gradient of its own."""

    def contiguous(self) -> array[_T]:
        """The array itself if its elements lie side by side, else a copy."""

    def to_jax(self) -> jax.Array:
        """See `jaxwarp.to_jax`."""

# Warp's classes of types, which take what `Any` takes here.
Int = Any
Float = Any
Scalar = Any
# An argument that a function advances has the type that it names.
ref = Annotated[_T, "advanced"]

array1d = array
array2d = array
array3d = array
array4d = array
fabricarray = array
indexedfabricarray = array

class indexedarray(array[_T]):
    """A part of an array by arrays of indices, `indexedarray(a, [indices, None])`, or `a[indices]`; an argument of
    a kernel that takes one: `indexedarray[float]`, `indexedarray(dtype=vec3, ndim=2)`."""

    def __init__(self, data: Any = ..., indices: Any = ..., dtype: Any = ..., ndim: Any = ...) -> None: ...

indexedarray1d = indexedarray
indexedarray2d = indexedarray
indexedarray3d = indexedarray
indexedarray4d = indexedarray

int8: TypeAlias = builtins.int
int16: TypeAlias = builtins.int
int32: TypeAlias = builtins.int
int64: TypeAlias = builtins.int
uint8: TypeAlias = builtins.int
uint16: TypeAlias = builtins.int
uint32: TypeAlias = builtins.int
uint64: TypeAlias = builtins.int
float16: TypeAlias = builtins.float
bfloat16: TypeAlias = builtins.float
float32: TypeAlias = builtins.float
float64: TypeAlias = builtins.float
bool: TypeAlias = builtins.bool
class _Vec(_Value): ...
_VecT = TypeVar("_VecT", bound=_Vec)
class _Vec2(_Vec): ...
_Vec2T = TypeVar("_Vec2T", bound=_Vec2)
class _Vec3(_Vec): ...
_Vec3T = TypeVar("_Vec3T", bound=_Vec3)
class _Vec4(_Vec): ...
_Vec4T = TypeVar("_Vec4T", bound=_Vec4)
class _Vec6(_Vec): ...
_Vec6T = TypeVar("_Vec6T", bound=_Vec6)
class _Mat(_Value): ...
_MatT = TypeVar("_MatT", bound=_Mat)
class _Mat22(_Mat): ...
_Mat22T = TypeVar("_Mat22T", bound=_Mat22)
class _Mat33(_Mat): ...
_Mat33T = TypeVar("_Mat33T", bound=_Mat33)
class _Mat44(_Mat): ...
_Mat44T = TypeVar("_Mat44T", bound=_Mat44)
class _Mat66(_Mat): ...
_Mat66T = TypeVar("_Mat66T", bound=_Mat66)
class _Quat(_Vec): ...
_QuatT = TypeVar("_QuatT", bound=_Quat)
class _Transform(_Vec): ...
_TransformT = TypeVar("_TransformT", bound=_Transform)
class vec2h(_Vec2): ...
class vec2f(_Vec2): ...
class vec2d(_Vec2): ...
class vec2b(_Vec2): ...
class vec2ub(_Vec2): ...
class vec2s(_Vec2): ...
class vec2us(_Vec2): ...
class vec2i(_Vec2): ...
class vec2ui(_Vec2): ...
class vec2l(_Vec2): ...
class vec2ul(_Vec2): ...
class vec3h(_Vec3): ...
class vec3f(_Vec3): ...
class vec3d(_Vec3): ...
class vec3b(_Vec3): ...
class vec3ub(_Vec3): ...
class vec3s(_Vec3): ...
class vec3us(_Vec3): ...
class vec3i(_Vec3): ...
class vec3ui(_Vec3): ...
class vec3l(_Vec3): ...
class vec3ul(_Vec3): ...
class vec4h(_Vec4): ...
class vec4f(_Vec4): ...
class vec4d(_Vec4): ...
class vec4b(_Vec4): ...
class vec4ub(_Vec4): ...
class vec4s(_Vec4): ...
class vec4us(_Vec4): ...
class vec4i(_Vec4): ...
class vec4ui(_Vec4): ...
class vec4l(_Vec4): ...
class vec4ul(_Vec4): ...
class mat22h(_Mat22): ...
class mat22f(_Mat22): ...
class mat22d(_Mat22): ...
class mat33h(_Mat33): ...
class mat33f(_Mat33): ...
class mat33d(_Mat33): ...
class mat44h(_Mat44): ...
class mat44f(_Mat44): ...
class mat44d(_Mat44): ...
class quath(_Quat): ...
class quatf(_Quat): ...
class quatd(_Quat): ...
class transformh(_Transform): ...
class transformf(_Transform): ...
class transformd(_Transform): ...
class spatial_vectorh(_Vec6): ...
class spatial_vectorf(_Vec6): ...
class spatial_vectord(_Vec6): ...
class spatial_matrixh(_Mat66): ...
class spatial_matrixf(_Mat66): ...
class spatial_matrixd(_Mat66): ...
vec2 = vec2f
vec3 = vec3f
vec4 = vec4f
PRNGKey = vec2ui
mat22 = mat22f
mat33 = mat33f
mat44 = mat44f
quat = quatf
transform = transformf
spatial_vector = spatial_vectorf
spatial_matrix = spatial_matrixf

_P = ParamSpec("_P")
_R = TypeVar("_R")
_C = TypeVar("_C")

class _Kernel(Kernel, Generic[_P]):
    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> None: ...

class _Func(Func, Generic[_P, _R]):
    @_overload
    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R: ...
    # Checkers see one of the overloads that functions of one name are: others are not refused.
    @_overload
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

@_overload
def kernel(function: Callable[_P, Any], /) -> _Kernel[_P]:
    """Make a kernel from a Python function: `@kernel` or `@kernel(enable_backward=False, ...)`.

    The kernel takes the values of outside names when it is defined, and ignores later assignments. A name that is not
    defined yet is looked up when the kernel is first used.

    Raises:
        KernelError: the function cannot be a kernel; errors in its body come when it is specialised.
        KernelTypeError: an unknown option.
    """

@_overload
def kernel(*, enable_backward: Any = ..., module: Any = ..., module_options: Any = ..., launch_bounds: Any = ..., cluster_dim: Any = ..., grid_stride: Any = ..., max_registers: Any = ..., fast_math: Any = ..., optimization_level: Any = ..., block_dim: Any = ..., name: Any = ...) -> Callable[[Callable[_P, Any]], _Kernel[_P]]:
    """Make a kernel from a Python function: `@kernel` or `@kernel(enable_backward=False, ...)`.

    The kernel takes the values of outside names when it is defined, and ignores later assignments. A name that is not
    defined yet is looked up when the kernel is first used.

    Raises:
        KernelError: the function cannot be a kernel; errors in its body come when it is specialised.
        KernelTypeError: an unknown option.
    """

@_overload
def func(function: Callable[_P, _R], /) -> _Func[_P, _R]:
    """Make a function that kernels can call: `@func`. Each call is inlined.

    Functions of the same name in the same scope are overloads: the types of the arguments choose one.
    """

@_overload
def func(*, name: Any = ..., module: Any = ..., inline: Any = ...) -> Callable[[Callable[_P, _R]], _Func[_P, _R]]:
    """Make a function that kernels can call: `@func`. Each call is inlined.

    Functions of the same name in the same scope are overloads: the types of the arguments choose one.
    """

@_overload
@dataclass_transform(field_specifiers=(dataclasses.field,))
def struct(kind: _type[_C], /) -> _type[_C]:
    """Make a struct from a class with annotated fields: `@struct`.

    Fields are scalars, vectors, matrices, arrays and other structs. They may have defaults.
    `dataclasses.field(metadata={"static": True})` declares a field that JAX does not trace. Fields of base classes come
    first. The class gets a constructor, checks of assignments, `==` and `repr`, and is a pytree of JAX. The constructor
    takes values by position or by name. A field that you leave out has its default, or is zero; an array is then None.

    Args:
        kind: the class.
        module: accepted, no effect.

    Raises:
        KernelTypeError: an annotation is no type of the kernel language, or a default does not fit it.

    Examples:
        >>> @jaxwarp.struct
        ... class Particles:
        ...     mass: float
        ...     x: jaxwarp.array[jaxwarp.vec3]
        >>> Particles(mass=2.0).mass
        2.0
    """

@_overload
@dataclass_transform(field_specifiers=(dataclasses.field,))
def struct(*, module: Any = ...) -> Callable[[_type[_C]], _type[_C]]:
    """Make a struct from a class with annotated fields: `@struct`.

    Fields are scalars, vectors, matrices, arrays and other structs. They may have defaults.
    `dataclasses.field(metadata={"static": True})` declares a field that JAX does not trace. Fields of base classes come
    first. The class gets a constructor, checks of assignments, `==` and `repr`, and is a pytree of JAX. The constructor
    takes values by position or by name. A field that you leave out has its default, or is zero; an array is then None.

    Args:
        kind: the class.
        module: accepted, no effect.

    Raises:
        KernelTypeError: an annotation is no type of the kernel language, or a default does not fit it.

    Examples:
        >>> @jaxwarp.struct
        ... class Particles:
        ...     mass: float
        ...     x: jaxwarp.array[jaxwarp.vec3]
        >>> Particles(mass=2.0).mass
        2.0
    """

class _JaxKernel(Generic[_P]):
    """A kernel as a function of JAX values: see `jax_kernel`.
    """

    kernel: _Kernel[_P]
    __name__: str
    @_overload
    def __call__(self: _JaxKernel[[Any]], a0: Any = ..., /, *, launch_dims: Any = ..., output_dims: Any = ..., vmap_method: VmapMethod | None = ..., **inputs: Any) -> Any: ...
    @_overload
    def __call__(self: _JaxKernel[[Any, Any]], a0: Any = ..., a1: Any = ..., /, *, launch_dims: Any = ..., output_dims: Any = ..., vmap_method: VmapMethod | None = ..., **inputs: Any) -> Any: ...
    @_overload
    def __call__(self: _JaxKernel[[Any, Any, Any]], a0: Any = ..., a1: Any = ..., a2: Any = ..., /, *, launch_dims: Any = ..., output_dims: Any = ..., vmap_method: VmapMethod | None = ..., **inputs: Any) -> Any: ...
    @_overload
    def __call__(self: _JaxKernel[[Any, Any, Any, Any]], a0: Any = ..., a1: Any = ..., a2: Any = ..., a3: Any = ..., /, *, launch_dims: Any = ..., output_dims: Any = ..., vmap_method: VmapMethod | None = ..., **inputs: Any) -> Any: ...
    @_overload
    def __call__(self: _JaxKernel[[Any, Any, Any, Any, Any]], a0: Any = ..., a1: Any = ..., a2: Any = ..., a3: Any = ..., a4: Any = ..., /, *, launch_dims: Any = ..., output_dims: Any = ..., vmap_method: VmapMethod | None = ..., **inputs: Any) -> Any: ...
    @_overload
    def __call__(self: _JaxKernel[[Any, Any, Any, Any, Any, Any]], a0: Any = ..., a1: Any = ..., a2: Any = ..., a3: Any = ..., a4: Any = ..., a5: Any = ..., /, *, launch_dims: Any = ..., output_dims: Any = ..., vmap_method: VmapMethod | None = ..., **inputs: Any) -> Any: ...
    @_overload
    def __call__(self: _JaxKernel[[Any, Any, Any, Any, Any, Any, Any]], a0: Any = ..., a1: Any = ..., a2: Any = ..., a3: Any = ..., a4: Any = ..., a5: Any = ..., a6: Any = ..., /, *, launch_dims: Any = ..., output_dims: Any = ..., vmap_method: VmapMethod | None = ..., **inputs: Any) -> Any: ...
    @_overload
    def __call__(self: _JaxKernel[[Any, Any, Any, Any, Any, Any, Any, Any]], a0: Any = ..., a1: Any = ..., a2: Any = ..., a3: Any = ..., a4: Any = ..., a5: Any = ..., a6: Any = ..., a7: Any = ..., /, *, launch_dims: Any = ..., output_dims: Any = ..., vmap_method: VmapMethod | None = ..., **inputs: Any) -> Any: ...
    @_overload
    def __call__(self: _JaxKernel[[Any, Any, Any, Any, Any, Any, Any, Any, Any]], a0: Any = ..., a1: Any = ..., a2: Any = ..., a3: Any = ..., a4: Any = ..., a5: Any = ..., a6: Any = ..., a7: Any = ..., a8: Any = ..., /, *, launch_dims: Any = ..., output_dims: Any = ..., vmap_method: VmapMethod | None = ..., **inputs: Any) -> Any: ...
    @_overload
    def __call__(self: _JaxKernel[[Any, Any, Any, Any, Any, Any, Any, Any, Any, Any]], a0: Any = ..., a1: Any = ..., a2: Any = ..., a3: Any = ..., a4: Any = ..., a5: Any = ..., a6: Any = ..., a7: Any = ..., a8: Any = ..., a9: Any = ..., /, *, launch_dims: Any = ..., output_dims: Any = ..., vmap_method: VmapMethod | None = ..., **inputs: Any) -> Any: ...
    @_overload
    def __call__(self: _JaxKernel[Concatenate[Any, Any, Any, Any, Any, Any, Any, Any, Any, Any, Any, ...]], *args: Any, launch_dims: Any = ..., output_dims: Any = ..., vmap_method: VmapMethod | None = ..., **inputs: Any) -> Any: ...

class _JaxCallable(Generic[_P]):
    """A Python function that launches kernels, as a function of JAX values: see `jax_callable`.

    Attributes:
        func: the function.
        graph_mode: how its launches get into CUDA graphs.
    """

    func: Callable[_P, Any]
    graph_mode: GraphMode
    __name__: str
    @_overload
    def __call__(self: _JaxCallable[[Any]], a0: Any = ..., /, *, output_dims: Any = ..., vmap_method: VmapMethod | None = ..., **inputs: Any) -> Any: ...
    @_overload
    def __call__(self: _JaxCallable[[Any, Any]], a0: Any = ..., a1: Any = ..., /, *, output_dims: Any = ..., vmap_method: VmapMethod | None = ..., **inputs: Any) -> Any: ...
    @_overload
    def __call__(self: _JaxCallable[[Any, Any, Any]], a0: Any = ..., a1: Any = ..., a2: Any = ..., /, *, output_dims: Any = ..., vmap_method: VmapMethod | None = ..., **inputs: Any) -> Any: ...
    @_overload
    def __call__(self: _JaxCallable[[Any, Any, Any, Any]], a0: Any = ..., a1: Any = ..., a2: Any = ..., a3: Any = ..., /, *, output_dims: Any = ..., vmap_method: VmapMethod | None = ..., **inputs: Any) -> Any: ...
    @_overload
    def __call__(self: _JaxCallable[[Any, Any, Any, Any, Any]], a0: Any = ..., a1: Any = ..., a2: Any = ..., a3: Any = ..., a4: Any = ..., /, *, output_dims: Any = ..., vmap_method: VmapMethod | None = ..., **inputs: Any) -> Any: ...
    @_overload
    def __call__(self: _JaxCallable[[Any, Any, Any, Any, Any, Any]], a0: Any = ..., a1: Any = ..., a2: Any = ..., a3: Any = ..., a4: Any = ..., a5: Any = ..., /, *, output_dims: Any = ..., vmap_method: VmapMethod | None = ..., **inputs: Any) -> Any: ...
    @_overload
    def __call__(self: _JaxCallable[[Any, Any, Any, Any, Any, Any, Any]], a0: Any = ..., a1: Any = ..., a2: Any = ..., a3: Any = ..., a4: Any = ..., a5: Any = ..., a6: Any = ..., /, *, output_dims: Any = ..., vmap_method: VmapMethod | None = ..., **inputs: Any) -> Any: ...
    @_overload
    def __call__(self: _JaxCallable[[Any, Any, Any, Any, Any, Any, Any, Any]], a0: Any = ..., a1: Any = ..., a2: Any = ..., a3: Any = ..., a4: Any = ..., a5: Any = ..., a6: Any = ..., a7: Any = ..., /, *, output_dims: Any = ..., vmap_method: VmapMethod | None = ..., **inputs: Any) -> Any: ...
    @_overload
    def __call__(self: _JaxCallable[[Any, Any, Any, Any, Any, Any, Any, Any, Any]], a0: Any = ..., a1: Any = ..., a2: Any = ..., a3: Any = ..., a4: Any = ..., a5: Any = ..., a6: Any = ..., a7: Any = ..., a8: Any = ..., /, *, output_dims: Any = ..., vmap_method: VmapMethod | None = ..., **inputs: Any) -> Any: ...
    @_overload
    def __call__(self: _JaxCallable[[Any, Any, Any, Any, Any, Any, Any, Any, Any, Any]], a0: Any = ..., a1: Any = ..., a2: Any = ..., a3: Any = ..., a4: Any = ..., a5: Any = ..., a6: Any = ..., a7: Any = ..., a8: Any = ..., a9: Any = ..., /, *, output_dims: Any = ..., vmap_method: VmapMethod | None = ..., **inputs: Any) -> Any: ...
    @_overload
    def __call__(self: _JaxCallable[Concatenate[Any, Any, Any, Any, Any, Any, Any, Any, Any, Any, Any, ...]], *args: Any, output_dims: Any = ..., vmap_method: VmapMethod | None = ..., **inputs: Any) -> Any: ...

@_overload
def jax_kernel(kernel: Callable[_P, Any], num_outputs: int = ..., vmap_method: VmapMethod | None = ..., launch_dims: Any = ..., output_dims: Any = ..., in_out_argnames: Iterable[str] | None = ..., module_preload_mode: Any = ..., enable_backward: bool = ..., has_side_effect: bool = ..., block_dim: int | str | None = ..., sharding_rule: str | None = ..., mode: Mode | None = ..., named_outputs: bool = ..., outputs: str | Sequence[str] | None = ...) -> _JaxKernel[_P]:
    """Make a JAX function from a kernel.

    You pass the function the kernel's inputs, by position or by name. With `outputs="out"` it returns that output; else
    it returns a list of the outputs, as in Warp. It works under `jit`, `vmap`, `scan`, `shard_map`, `jax.export` and
    the other transformations of JAX, and outside of them. Elements of an output that the kernel does not write are
    zero.

    `@jax_kernel(outputs="out")` decorates a Python function, which becomes a kernel. `f.kernel` is that kernel.

    Args:
        kernel: made by `@kernel`, or a Python function if `outputs` is given. Its inputs come first, its outputs last.
            Default: a decorator.
        num_outputs: how many arguments are outputs; in-out arguments count among them.
        vmap_method: how `jax.vmap` maps a call. None: one launch for all items, nothing copied; "sequential" and
            "sequential_unrolled": a launch per item; "broadcast_all": unbatched arguments are repeated;
            "expand_dims" and "legacy_vectorized": as None. The results are the same.
        launch_dims: number of threads along each axis. Default: the first extents of the first array argument, as many
            as `tid()` gives indices. Arrays inside of meshes, grids and the like do not count.
        output_dims: shape of the outputs, with or without the component axes of vectors and matrices; a dictionary
            has one for each output. Default: the launch dimensions; for an output with another number of axes the
            shape of the first array argument, if that has as many.
        in_out_argnames: inputs that the kernel updates. Their new values are the first outputs.
        module_preload_mode: checked; no effect: code is compiled with the program that calls it.
        enable_backward: accepted, no effect.
        has_side_effect: launch even if no output is used.
        block_dim: CUDA threads per block; "auto": as `wp.autotune` has measured; default: the kernel's option of that
            name, or 256, or 128 where the code's registers let more threads run then.
        sharding_rule: which axes of inputs and outputs are split together, as in "i k, k j -> i j". Under `jit` over
            sharded arrays each device then launches its part; without it XLA gathers the arrays. See docs/sharding.md.
        mode: "debug" to check launches while they run, "release" not to; default: the kernel's own (`module_options`),
            or `jaxwarp.config.mode`. See docs/debugging.md.
        named_outputs: whether outputs are a named tuple, with the names that the kernel gives them, instead of a list.
        outputs: the names of the outputs, instead of `num_outputs`. One name: the call returns that array; a tuple of
            names: it returns a named tuple.

    Returns:
        A function of the kernel's inputs, which also takes `launch_dims`, `output_dims` and `vmap_method`.

    Raises:
        KernelTypeError, KernelValueError: the options do not fit the kernel.

    Examples:
        >>> @jaxwarp.jax_kernel(outputs="y")
        ... def triple(x: jaxwarp.array[float], y: jaxwarp.array[float]):
        ...     i = jaxwarp.tid()
        ...     y[i] = 3.0 * x[i]
        >>> y = triple(jax.numpy.arange(4.0))
    """

@_overload
def jax_kernel(*, num_outputs: int = ..., vmap_method: VmapMethod | None = ..., launch_dims: Any = ..., output_dims: Any = ..., in_out_argnames: Iterable[str] | None = ..., module_preload_mode: Any = ..., enable_backward: bool = ..., has_side_effect: bool = ..., block_dim: int | str | None = ..., sharding_rule: str | None = ..., mode: Mode | None = ..., named_outputs: bool = ..., outputs: str | Sequence[str]) -> Callable[[Callable[_P, Any]], _JaxKernel[_P]]:
    """Make a JAX function from a kernel.

    You pass the function the kernel's inputs, by position or by name. With `outputs="out"` it returns that output; else
    it returns a list of the outputs, as in Warp. It works under `jit`, `vmap`, `scan`, `shard_map`, `jax.export` and
    the other transformations of JAX, and outside of them. Elements of an output that the kernel does not write are
    zero.

    `@jax_kernel(outputs="out")` decorates a Python function, which becomes a kernel. `f.kernel` is that kernel.

    Args:
        kernel: made by `@kernel`, or a Python function if `outputs` is given. Its inputs come first, its outputs last.
            Default: a decorator.
        num_outputs: how many arguments are outputs; in-out arguments count among them.
        vmap_method: how `jax.vmap` maps a call. None: one launch for all items, nothing copied; "sequential" and
            "sequential_unrolled": a launch per item; "broadcast_all": unbatched arguments are repeated;
            "expand_dims" and "legacy_vectorized": as None. The results are the same.
        launch_dims: number of threads along each axis. Default: the first extents of the first array argument, as many
            as `tid()` gives indices. Arrays inside of meshes, grids and the like do not count.
        output_dims: shape of the outputs, with or without the component axes of vectors and matrices; a dictionary
            has one for each output. Default: the launch dimensions; for an output with another number of axes the
            shape of the first array argument, if that has as many.
        in_out_argnames: inputs that the kernel updates. Their new values are the first outputs.
        module_preload_mode: checked; no effect: code is compiled with the program that calls it.
        enable_backward: accepted, no effect.
        has_side_effect: launch even if no output is used.
        block_dim: CUDA threads per block; "auto": as `wp.autotune` has measured; default: the kernel's option of that
            name, or 256, or 128 where the code's registers let more threads run then.
        sharding_rule: which axes of inputs and outputs are split together, as in "i k, k j -> i j". Under `jit` over
            sharded arrays each device then launches its part; without it XLA gathers the arrays. See docs/sharding.md.
        mode: "debug" to check launches while they run, "release" not to; default: the kernel's own (`module_options`),
            or `jaxwarp.config.mode`. See docs/debugging.md.
        named_outputs: whether outputs are a named tuple, with the names that the kernel gives them, instead of a list.
        outputs: the names of the outputs, instead of `num_outputs`. One name: the call returns that array; a tuple of
            names: it returns a named tuple.

    Returns:
        A function of the kernel's inputs, which also takes `launch_dims`, `output_dims` and `vmap_method`.

    Raises:
        KernelTypeError, KernelValueError: the options do not fit the kernel.

    Examples:
        >>> @jaxwarp.jax_kernel(outputs="y")
        ... def triple(x: jaxwarp.array[float], y: jaxwarp.array[float]):
        ...     i = jaxwarp.tid()
        ...     y[i] = 3.0 * x[i]
        >>> y = triple(jax.numpy.arange(4.0))
    """

@_overload
def jax_callable(func: Callable[_P, Any], num_outputs: int = ..., graph_mode: GraphMode = ..., vmap_method: VmapMethod | None = ..., output_dims: Any = ..., in_out_argnames: Iterable[str] | None = ..., stage_in_argnames: Iterable[str] | None = ..., stage_out_argnames: Iterable[str] | None = ..., graph_cache_max: int | None = ..., module_preload_mode: Any = ..., has_side_effect: bool = ..., named_outputs: bool = ..., outputs: str | Sequence[str] | None = ...) -> _JaxCallable[_P]:
    """Make a JAX function from a Python function that launches kernels.

    Annotate the function like a kernel. JAX traces it: `launch`, `copy`, `zeros` and the like become operations of the
    compiled program. The result works with all transformations of JAX. On GPUs XLA captures its launches into CUDA
    graphs.

    Args:
        func: inputs come first, outputs last; it returns nothing.
        num_outputs: how many arguments are outputs; in-out arguments count among them.
        graph_mode: `GraphMode.JAX`: as above. `GraphMode.WARP`: the whole function is one operation, which captures and
            replays a CUDA graph of its own; functions of JAX cannot be applied to its arrays then. The staged modes of
            Warp do the same, and copy nothing. `GraphMode.NONE`: the function runs in Python whenever the program does,
            on real memory, and may use the host; it has no derivatives and cannot be exported.
        vmap_method: as in `jax_kernel`, for each launch; with `GraphMode.NONE`, "sequential" and
            "sequential_unrolled" make a call of XLA's per item, the others one for all. The results are the same.
        output_dims: shape of the outputs, or a dictionary of shapes by name. Default: that of the first array argument.
        in_out_argnames: inputs that the function updates. Their new values are the first outputs.
        graph_cache_max: with `GraphMode.WARP`, how many graphs are kept on each device for every program the function
            is compiled in: one for each set of buffers it has run with; None: all. No effect otherwise.
        stage_in_argnames: array inputs that the staged modes of Warp would copy. With `GraphMode.JAX` the function may
            write to them: what it writes is its own, and the caller's array stays. No effect in other modes.
        stage_out_argnames: array outputs that the staged modes of Warp would copy. Checked; no effect.
        module_preload_mode: checked; no effect: code is compiled with the program that calls it.
        has_side_effect: launch even if no output is used.
        named_outputs: whether outputs are a named tuple, with the names of the function's arguments, instead of a list.
        outputs: the names of the outputs, instead of `num_outputs`. One name: the call returns that array; a tuple of
            names: it returns a named tuple. `@jax_callable(outputs="out")` is a decorator.

    Returns:
        A function of the inputs, which also takes `output_dims` and `vmap_method`. Python numbers are static: the
        function may branch on them; JAX scalars are traced.

    Raises:
        KernelTypeError, KernelValueError: the options do not fit the function.
    """

@_overload
def jax_callable(*, num_outputs: int = ..., graph_mode: GraphMode = ..., vmap_method: VmapMethod | None = ..., output_dims: Any = ..., in_out_argnames: Iterable[str] | None = ..., stage_in_argnames: Iterable[str] | None = ..., stage_out_argnames: Iterable[str] | None = ..., graph_cache_max: int | None = ..., module_preload_mode: Any = ..., has_side_effect: bool = ..., named_outputs: bool = ..., outputs: str | Sequence[str]) -> Callable[[Callable[_P, Any]], _JaxCallable[_P]]:
    """Make a JAX function from a Python function that launches kernels.

    Annotate the function like a kernel. JAX traces it: `launch`, `copy`, `zeros` and the like become operations of the
    compiled program. The result works with all transformations of JAX. On GPUs XLA captures its launches into CUDA
    graphs.

    Args:
        func: inputs come first, outputs last; it returns nothing.
        num_outputs: how many arguments are outputs; in-out arguments count among them.
        graph_mode: `GraphMode.JAX`: as above. `GraphMode.WARP`: the whole function is one operation, which captures and
            replays a CUDA graph of its own; functions of JAX cannot be applied to its arrays then. The staged modes of
            Warp do the same, and copy nothing. `GraphMode.NONE`: the function runs in Python whenever the program does,
            on real memory, and may use the host; it has no derivatives and cannot be exported.
        vmap_method: as in `jax_kernel`, for each launch; with `GraphMode.NONE`, "sequential" and
            "sequential_unrolled" make a call of XLA's per item, the others one for all. The results are the same.
        output_dims: shape of the outputs, or a dictionary of shapes by name. Default: that of the first array argument.
        in_out_argnames: inputs that the function updates. Their new values are the first outputs.
        graph_cache_max: with `GraphMode.WARP`, how many graphs are kept on each device for every program the function
            is compiled in: one for each set of buffers it has run with; None: all. No effect otherwise.
        stage_in_argnames: array inputs that the staged modes of Warp would copy. With `GraphMode.JAX` the function may
            write to them: what it writes is its own, and the caller's array stays. No effect in other modes.
        stage_out_argnames: array outputs that the staged modes of Warp would copy. Checked; no effect.
        module_preload_mode: checked; no effect: code is compiled with the program that calls it.
        has_side_effect: launch even if no output is used.
        named_outputs: whether outputs are a named tuple, with the names of the function's arguments, instead of a list.
        outputs: the names of the outputs, instead of `num_outputs`. One name: the call returns that array; a tuple of
            names: it returns a named tuple. `@jax_callable(outputs="out")` is a decorator.

    Returns:
        A function of the inputs, which also takes `output_dims` and `vmap_method`. Python numbers are static: the
        function may branch on them; JAX scalars are traced.

    Raises:
        KernelTypeError, KernelValueError: the options do not fit the function.
    """

class _Config:
    """Settings of the whole process."""

    mode: Literal['release', 'debug']
    checks: Collection[str]
    max_steps: int
    max_unroll: int
    progress: builtins.bool | None
    log_level: int
    verbose: builtins.bool
    kernel_cache_dir: str | None
    cache_kernels: builtins.bool
    optimization_level: int | None
    default_grid_stride: builtins.bool
    lineinfo: builtins.bool
    compile_time_trace: Any
    cpu_compiler_flags: Any
    cuda_arch_suffix: Any
    cuda_output: Any
    deterministic: Any
    deterministic_debug: Any
    deterministic_max_records: Any
    enable_backward: Any
    enable_cpu_blocks: Any
    enable_graph_capture_module_load_by_default: Any
    enable_mathdx_fft: Any
    enable_mathdx_gemm: Any
    enable_mathdx_solver: Any
    enable_mempools_at_init: Any
    enable_tiles_in_stack_memory: Any
    enable_vector_component_overwrites: Any
    launch_array_access_mode: Any
    legacy_cpu_linker: Any
    legacy_scalar_return_types: Any
    line_directives: Any
    llvm_cuda: Any
    load_module_max_workers: Any
    print_launches: Any
    ptx_target_arch: Any
    quiet: Any
    track_memory: Any
    use_precompiled_headers: Any
    verbose_warnings: Any
    verify_autograd_array_access: Any
    verify_cuda: Any
    verify_fp: Any
    SETTINGS: Any
    OF_WARP: Any
    ENVIRONMENT: Any
    DeterministicMode: Any
    LaunchArrayAccessMode: Any

config: _Config

__version__: str
vec = types.vector
mat = types.matrix
handle = types.uint64
Function = Func
JaxModulePreloadMode = ModulePreloadMode
JaxCallableGraphMode = GraphMode
WarpCodegenError = errors.KernelError
WarpCodegenTypeError = errors.KernelTypeError
WarpCodegenValueError = errors.KernelValueError
WarpCodegenAttributeError = errors.KernelNameError
WarpCodegenKeyError = errors.KernelNameError
WarpCodegenIndexError = errors.OutOfRangeError
pi: float
half_pi: float
tau: float
e: float
log2e: float
log10e: float
ln2: float
ln10: float
phi: float
inf: float
nan: float
PI: float
HALF_PI: float
TAU: float
E: float
LOG2E: float
LOG10E: float
LN2: float
LN10: float
PHI: float
INF: float
NAN: float
LOG_DEBUG: int
LOG_INFO: int
LOG_WARNING: int
LOG_ERROR: int
TIMING_KERNEL: int
TIMING_KERNEL_BUILTIN: int
TIMING_MEMCPY: int
TIMING_MEMSET: int
TIMING_GRAPH: int
TIMING_ALL: int

def zeros(shape: Any = ..., dtype: Any = ..., device: Any = ..., requires_grad: Any = ..., *, pinned: Any = ..., retain_grad: Any = ..., ndim: Any = ..., n: Any = ...) -> array[Any]:
    """Make an array of zeros. `shape` excludes the component axes of vectors and matrices; `n=3` is `shape=3`."""

def zeros_like(src: Any, device: Any = ..., requires_grad: Any = ..., *, pinned: Any = ..., retain_grad: Any = ..., ndim: Any = ...) -> array[Any]:
    """Make an array of zeros with the shape and type of another one, and with a gradient if that has one."""

def ones(shape: Any = ..., dtype: Any = ..., device: Any = ..., requires_grad: Any = ..., *, pinned: Any = ..., retain_grad: Any = ..., ndim: Any = ..., n: Any = ...) -> array[Any]:
    """Make an array of ones. The options are those of `zeros`."""

def ones_like(src: Any, device: Any = ..., requires_grad: Any = ..., *, pinned: Any = ..., retain_grad: Any = ..., ndim: Any = ...) -> array[Any]:
    """Make an array of ones with the shape and type of another one, as `zeros_like` does."""

def full(shape: Any = ..., value: Any = ..., dtype: Any = ..., device: Any = ..., requires_grad: Any = ..., *, pinned: Any = ..., retain_grad: Any = ..., ndim: Any = ..., n: Any = ...) -> array[Any]:
    """Make an array of one value. The options are those of `zeros`."""

def full_like(src: Any, value: Any, device: Any = ..., requires_grad: Any = ..., *, pinned: Any = ..., retain_grad: Any = ..., ndim: Any = ...) -> array[Any]:
    """Make an array of one value with the shape and type of another one, as `zeros_like` does."""

def empty(shape: Any = ..., dtype: Any = ..., device: Any = ..., requires_grad: Any = ..., *, pinned: Any = ..., retain_grad: Any = ..., ndim: Any = ..., n: Any = ...) -> array[Any]:
    """Make an array of zeros: jaxwarp never returns uninitialised memory. The options are those of `zeros`."""

def empty_like(src: Any, device: Any = ..., requires_grad: Any = ..., *, pinned: Any = ..., retain_grad: Any = ..., ndim: Any = ...) -> array[Any]:
    """Make an array of zeros with the shape and type of another one, as `zeros_like` does."""

def clone(src: Any, device: Any = ..., requires_grad: Any = ..., *, pinned: Any = ..., retain_grad: Any = ..., ndim: Any = ...) -> array[Any]:
    """Make a copy of an array, with a gradient if that has one. The options are those of `zeros`."""

def from_numpy(arr: Any, dtype: Any = ..., shape: Any = ..., device: Any = ..., requires_grad: Any = ..., retain_grad: Any = ...) -> array[Any]:
    """A new array with the contents of a NumPy array."""

def from_jax(jax_array: Any, dtype: Any = ...) -> array[Any]:
    """The memory of a JAX array as an array outside of JAX, without a copy. It can be read only: JAX arrays never"""

def from_dlpack(source: Any, dtype: Any = ...) -> array[Any]:
    """The memory of an array with DLPack's interface, or of a capsule, as an array outside of JAX, without a copy."""

def from_torch(t: Any, dtype: Any = ..., requires_grad: Any = ..., grad: Any = ..., return_ctype: Any = ..., retain_grad: Any = ...) -> array[Any]:
    """The memory of a PyTorch tensor as an array outside of JAX, without a copy."""

def load_module(*args: Any, **keywords: Any) -> Any:
    """Does nothing: kernels are compiled when they are first launched, and found again by their text and types."""

def force_load(*args: Any, **keywords: Any) -> Any:
    """Does nothing: kernels are compiled when they are first launched, and found again by their text and types."""

def clear_kernel_cache(*args: Any, **keywords: Any) -> Any:
    """Does nothing: kernels are compiled when they are first launched, and found again by their text and types."""

def clear_lto_cache(*args: Any, **keywords: Any) -> Any:
    """Does nothing: kernels are compiled when they are first launched, and found again by their text and types."""

def clear_jax_callable_graph_cache(*args: Any, **keywords: Any) -> Any:
    """Does nothing: XLA keeps the graphs of its programs."""

class ScopedMempool:
    """Does nothing: outside of JAX memory is NumPy's, or of the CUDA driver's own pool, and in programs XLA's."""

    def __init__(self, *args: Any, **keywords: Any) -> None: ...
    def __enter__(self) -> Any: ...
    def __exit__(self, *args: Any) -> None: ...

def is_mempool_access_supported(*args: Any, **keywords: Any) -> Any:
    """Does nothing: the arrays of a launch are on one GPU, and copies between GPUs are the driver's."""

def is_mempool_access_enabled(*args: Any, **keywords: Any) -> Any:
    """Does nothing: the arrays of a launch are on one GPU, and copies between GPUs are the driver's."""

def set_mempool_access_enabled(*args: Any, **keywords: Any) -> Any:
    """Does nothing: the arrays of a launch are on one GPU, and copies between GPUs are the driver's."""

class ScopedMempoolAccess:
    """Does nothing: the arrays of a launch are on one GPU, and copies between GPUs are the driver's."""

    def __init__(self, *args: Any, **keywords: Any) -> None: ...
    def __enter__(self) -> Any: ...
    def __exit__(self, *args: Any) -> None: ...

def is_peer_access_supported(*args: Any, **keywords: Any) -> Any:
    """Does nothing: the arrays of a launch are on one GPU, and copies between GPUs are the driver's."""

def is_peer_access_enabled(*args: Any, **keywords: Any) -> Any:
    """Does nothing: the arrays of a launch are on one GPU, and copies between GPUs are the driver's."""

def set_peer_access_enabled(*args: Any, **keywords: Any) -> Any:
    """Does nothing: the arrays of a launch are on one GPU, and copies between GPUs are the driver's."""

class ScopedPeerAccess:
    """Does nothing: the arrays of a launch are on one GPU, and copies between GPUs are the driver's."""

    def __init__(self, *args: Any, **keywords: Any) -> None: ...
    def __enter__(self) -> Any: ...
    def __exit__(self, *args: Any) -> None: ...

def cuda_profiler_start(*args: Any, **keywords: Any) -> Any:
    """Does nothing: `jax.profiler.trace` profiles programs."""

def cuda_profiler_stop(*args: Any, **keywords: Any) -> Any:
    """Does nothing: `jax.profiler.trace` profiles programs."""

class ScopedCudaProfiler:
    """Does nothing: `jax.profiler.trace` profiles programs."""

    def __init__(self, *args: Any, **keywords: Any) -> None: ...
    def __enter__(self) -> Any: ...
    def __exit__(self, *args: Any) -> None: ...

def get_logger(*args: Any, **keywords: Any) -> Any:
    """Does nothing: the log is lines on standard error: `config.log_level`."""

def set_logger(*args: Any, **keywords: Any) -> Any:
    """Does nothing: the log is lines on standard error: `config.log_level`."""

class Logger:
    """Does nothing: the log is lines on standard error: `config.log_level`."""

    def __init__(self, *args: Any, **keywords: Any) -> None: ...
    def __enter__(self) -> Any: ...
    def __exit__(self, *args: Any) -> None: ...

class ScopedLogger:
    """Does nothing: the log is lines on standard error: `config.log_level`."""

    def __init__(self, *args: Any, **keywords: Any) -> None: ...
    def __enter__(self) -> Any: ...
    def __exit__(self, *args: Any) -> None: ...

class ScopedLogLevel:
    """Does nothing: the log is lines on standard error: `config.log_level`."""

    def __init__(self, *args: Any, **keywords: Any) -> None: ...
    def __enter__(self) -> Any: ...
    def __exit__(self, *args: Any) -> None: ...

def is_cubql_available(*args: Any, **keywords: Any) -> Any:
    """Does nothing: there is one kind of tree."""

def tid() -> Any:
    """`tid() -> int | tuple[int, ...]`

    The index of this thread. `i = tid()` is one int; `i, j = tid()` are two.
    """

def static(expression: Any) -> Any:
    """`static(expression) -> constant`

    Evaluate an expression in Python while the kernel is compiled. It may use variables of unrolled loops.
    """

def len(x: Any) -> int:
    """`len(x: Array | Vec | Mat | tuple) -> int`

    The extent of the first axis.
    """

def type(x: float | _Vec | _Mat) -> Any:
    """`type(x: Scalar | Vec | Mat) -> type`

    The type of `x`. You can call it: `type(x)(1)` is 1 in that type.
    """

def atomic_add(arr: Any, *args: Any, **keywords: Any) -> Any:
    """`atomic_add(arr: Array, i: Int, ..., value: Any) -> Any`

    Add `value` to an element, atomically. Returns the old value.
    """

def atomic_sub(arr: Any, *args: Any, **keywords: Any) -> Any:
    """`atomic_sub(arr: Array, i: Int, ..., value: Any) -> Any`

    Subtract `value` from an element, atomically. Returns the old value.
    """

def atomic_min(arr: Any, *args: Any, **keywords: Any) -> Any:
    """`atomic_min(arr: Array, i: Int, ..., value: Any) -> Any`

    Replace an element by the smaller of it and `value`, or by the number if one is NaN, atomically. Returns the old
    value.
    """

def atomic_max(arr: Any, *args: Any, **keywords: Any) -> Any:
    """`atomic_max(arr: Array, i: Int, ..., value: Any) -> Any`

    Replace an element by the larger of it and `value`, or by the number if one is NaN, atomically. Returns the old
    value.
    """

def atomic_exch(arr: Any, *args: Any, **keywords: Any) -> Any:
    """`atomic_exch(arr: Array, i: Int, ..., value: Any) -> Any`

    Replace an element by `value`, atomically. Returns the old value.
    """

def atomic_cas(arr: Any, *args: Any, **keywords: Any) -> Any:
    """`atomic_cas(arr: Array, i: Int, ..., compare: Any, value: Any) -> Any`

    Replace an element by `value` if it equals `compare`, atomically. Returns the old value.
    """

def atomic_and(arr: Any, *args: Any, **keywords: Any) -> Any:
    """`atomic_and(arr: Array, i: Int, ..., value: Any) -> Any`

    Replace an element by its bitwise and with `value`, atomically. Returns the old value.
    """

def atomic_or(arr: Any, *args: Any, **keywords: Any) -> Any:
    """`atomic_or(arr: Array, i: Int, ..., value: Any) -> Any`

    Replace an element by its bitwise or with `value`, atomically. Returns the old value.
    """

def atomic_xor(arr: Any, *args: Any, **keywords: Any) -> Any:
    """`atomic_xor(arr: Array, i: Int, ..., value: Any) -> Any`

    Replace an element by its bitwise exclusive or with `value`, atomically. Returns the old value.
    """

def grad(f: Any) -> Any:
    """`grad(f: Function) -> Function`

    The gradient of a `@func` that returns a float. `grad(f)(x, y)` is a tuple of the derivatives with respect to
    `x` and to `y`. With one argument it is the derivative itself. The derivative with respect to an integer is 0.
    """

def tile_map(op: Any, a: Any, *args: Any) -> Any:
    """`tile_map(op: Callable, a: Tile, *args: Any) -> Tile`

    Apply `op` to each element: `op(a[i], b[i], ...)`. An argument that is not a tile is the same in every call.
    """

def tile_reduce(op: Any, a: Any, axis: int = ...) -> Any:
    """`tile_reduce(op: Callable, a: Tile, axis: int = None) -> Tile`

    Combine all elements into a tile of one element: `op(op(a[0], a[1]), a[2])` and so on. With `axis`, combine
    along that axis only.
    """

def tile_sum(a: Any, axis: int = ...) -> Any:
    """`tile_sum(a: Tile, axis: int = None) -> Tile`

    The sum of all elements, as a tile of one element. With `axis`, sums along that axis.
    """

def tile_min(a: Any) -> Any:
    """`tile_min(a: Tile) -> Tile`

    The smallest element, as a tile of one element.
    """

def tile_max(a: Any) -> Any:
    """`tile_max(a: Tile) -> Tile`

    The largest element, as a tile of one element.
    """

def tile_argmin(a: Any) -> Any:
    """`tile_argmin(a: Tile) -> Tile`

    The index of the first smallest element in row-major order, as a tile of one int.
    """

def tile_argmax(a: Any) -> Any:
    """`tile_argmax(a: Tile) -> Tile`

    The index of the first largest element in row-major order, as a tile of one int.
    """

def tile_dot(a: Any, b: Any) -> Any:
    """`tile_dot(a: Tile, b: Tile) -> Tile`

    The sum of the products of corresponding elements, as a tile of one element. Vectors are multiplied by `dot`,
    matrices by `ddot`.
    """

def tile_axpy(alpha: Any, src: Any, dest: Any) -> None:
    """`tile_axpy(alpha: Any, src: Tile, dest: Tile)`

    Add `alpha * src` to `dest`, in place.
    """

def tile_scan_inclusive(a: Any) -> Any:
    """`tile_scan_inclusive(a: Tile) -> Tile`

    Running sums in row-major order: element k is the sum up to and including k.
    """

def tile_scan_exclusive(a: Any) -> Any:
    """`tile_scan_exclusive(a: Tile) -> Tile`

    Running sums in row-major order: element k is the sum before k.
    """

def tile_scan_min_inclusive(a: Any) -> Any:
    """`tile_scan_min_inclusive(a: Tile) -> Tile`

    Running minima in row-major order, each including its element.
    """

def tile_scan_max_inclusive(a: Any) -> Any:
    """`tile_scan_max_inclusive(a: Tile) -> Tile`

    Running maxima in row-major order, each including its element.
    """

def tile_zeros(shape: Any, *args: Any, **keywords: Any) -> Any:
    """`tile_zeros(shape: int | tuple[int, ...], dtype: type = float, storage: str = "register") -> Tile`

    A tile of zeros.
    """

def tile_empty(shape: Any, *args: Any, **keywords: Any) -> Any:
    """`tile_empty(shape: int | tuple[int, ...], dtype: type = float, storage: str = "register") -> Tile`

    A tile that you will fill. It is zero until then.
    """

def tile_ones(shape: Any, *args: Any, **keywords: Any) -> Any:
    """`tile_ones(shape: int | tuple[int, ...], dtype: type = float, storage: str = "register") -> Tile`

    A tile of ones.
    """

def tile_full(shape: Any, *args: Any, **keywords: Any) -> Any:
    """`tile_full(shape: int | tuple[int, ...], value: Any, dtype: type = None, storage: str = "register") -> Tile`

    A tile in which every element is `value`.
    """

def tile_from_thread(shape: Any, *args: Any, **keywords: Any) -> Any:
    """`tile_from_thread(shape: int | tuple[int, ...], value: Any, thread_idx: int, storage: str = "register") -> Tile`

    A tile in which every element is this thread's `value`. A block is one thread, so `thread_idx` must be 0.
    """

def tile_arange(*args: int, dtype: Any = ..., storage: str = ...) -> Any:
    """`tile_arange(*args: Int, dtype: type = None, storage: str = "register") -> Tile`

    A tile of `start, start + step, ...`, ending before `stop`. Pass `(stop)`, `(start, stop)` or `(start, stop,
    step)`, as constants of the kernel.
    """

def block_dim() -> int:
    """`block_dim() -> int`

    The number of threads that share a tile. It is always 1.
    """

def tile(x: Any, preserve_type: Any = ...) -> Any:
    """`tile(x: Any, preserve_type: bool = False) -> Tile`

    A tile of this thread's value, because a block is one thread. A number gives shape (1,), a vector of n
    components (n, 1), an m x n matrix (m, n, 1). With `preserve_type` the shape is always (1,).
    """

def untile(a: Any) -> Any:
    """`untile(a: Tile) -> Any`

    The value of which `tile` made the tile.
    """

def tile_randi(shape: Any, *args: Any, **keywords: Any) -> Any:
    """`tile_randi(shape: int | tuple[int, ...], rng: uint32, min: Any = None, max: Any = None, storage: str = "register") -> Tile`

    A tile of random integers, from `min` to `max - 1` if you pass these. They are drawn in order from the state
    `rng`, which does not advance.
    """

def tile_randf(shape: Any, *args: Any, **keywords: Any) -> Any:
    """`tile_randf(shape: int | tuple[int, ...], rng: uint32, min: Any = None, max: Any = None, storage: str = "register") -> Tile`

    A tile of random numbers from 0 to 1, or from `min` to `max`. They are drawn in order from the state `rng`,
    which does not advance.
    """

def tile_transpose(a: Any) -> Any:
    """`tile_transpose(a: Tile) -> Tile`

    A tile of two axes with the axes exchanged.
    """

def tile_broadcast(a: Any, *args: Any, **keywords: Any) -> Any:
    """`tile_broadcast(a: Tile, shape: tuple[int, ...]) -> Tile`

    Repeat a tile along axes where its extent is 1, and along new leading axes, by NumPy's rules.
    """

def tile_squeeze(t: Any, *args: Any, **keywords: Any) -> Any:
    """`tile_squeeze(t: Tile, axis: int | tuple[int, ...] = None) -> Tile`

    Drop axes of extent 1: those in `axis`, or all of them.
    """

def tile_reshape(t: Any, *args: Any, **keywords: Any) -> Any:
    """`tile_reshape(t: Tile, shape: tuple[int, ...]) -> Tile`

    The same elements in row-major order, in another shape. One extent may be -1.
    """

def tile_view(t: Any, *args: Any, **keywords: Any) -> Any:
    """`tile_view(t: Tile, offset: int | tuple[int, ...], shape: int | tuple[int, ...] = None) -> Tile`

    The part of a tile that begins at `offset` and has the shape `shape`. Without `shape`, `offset` has an index for
    each of the first axes, and the part has the remaining axes.
    """

def tile_slice_indexed(t: Any, *args: Any, **keywords: Any) -> Any:
    """`tile_slice_indexed(t: Tile, indices: tuple[Any, ...]) -> Tile`

    A copy of the elements `t[indices]`, where one of the indices is a tile of integers.
    """

def tile_assign(dst: Any, *args: Any, **keywords: Any) -> Any:
    """`tile_assign(dst: Tile, src: Tile, offset: int | tuple[int, ...] = None)`

    Store `src` in `dst`, from `offset` on; without `offset`, from the first element on.
    """

def tile_astype(t: Any, dtype: Any) -> Any:
    """`tile_astype(t: Tile, dtype: type) -> Tile`

    Convert each element to another type.
    """

def tile_extract(a: Any, *indices: int) -> Any:
    """`tile_extract(a: Tile, *indices: int) -> Any`

    The element `a[i, j]`. In a tile of vectors, one more index selects a component.
    """

def tile_scatter_add(a: Any, *indices_value_has_value: Any, atomic: Any = ...) -> None:
    """`tile_scatter_add(a: Tile, *indices_value_has_value: Any, atomic: bool = True)`

    Do `a[i, j] += value` if `has_value` is true. The arguments are `(a, i, j, value, has_value)`.
    """

def tile_scatter_masked(a: Any, *indices_value_has_value: Any) -> None:
    """`tile_scatter_masked(a: Tile, *indices_value_has_value: Any)`

    Do `a[i, j] = value` if `has_value` is true. The arguments are `(a, i, j, value, has_value)`.
    """

def tile_matmul(a: Any, b: Any, out: Any = ..., alpha: float = ..., beta: float = ..., precision: str = ...) -> Any:
    """`tile_matmul(a: Tile, b: Tile, out: Tile = None, alpha: Float = 1.0, beta: Float = 1.0, precision: str = "default") -> Tile`

    The product of two tiles. With `out`, do `out = alpha * a @ b + beta * out` in place; without, return `alpha * a
    @ b`. Elements that are vectors of two floats are complex numbers. Sums have the type of the result; those of
    half types are in float32. `precision="tf32"` has no effect: products of float32 stay in float32.
    """

def tile_cholesky(A: Any, fill_mode: str = ...) -> Any:
    """`tile_cholesky(A: Tile, fill_mode: str = "lower") -> Tile`

    The Cholesky factor of a symmetric positive definite A: the lower triangular L with A = L L^T. Only the lower
    triangle of A is read. With `fill_mode="upper"` it is U with A = U^T U, from the upper triangle. The other
    triangle of the result is zero. If A is not positive definite, there are NaNs in it. (Golub and Van Loan, Matrix
    Computations, 4.2.)
    """

def tile_cholesky_inplace(A: Any, fill_mode: str = ...) -> None:
    """`tile_cholesky_inplace(A: Tile, fill_mode: str = "lower")`

    Like `tile_cholesky`, but overwrite A with the factor, and its other triangle with zeros.
    """

def tile_cholesky_solve(L: Any, y: Any, fill_mode: str = ...) -> Any:
    """`tile_cholesky_solve(L: Tile, y: Tile, fill_mode: str = "lower") -> Tile`

    The solution x of A x = y, from the result of `tile_cholesky`. y has one axis, or one column for each right-hand
    side.
    """

def tile_cholesky_solve_inplace(L: Any, y: Any, fill_mode: str = ...) -> None:
    """`tile_cholesky_solve_inplace(L: Tile, y: Tile, fill_mode: str = "lower")`

    Like `tile_cholesky_solve`, but overwrite y with the solution.
    """

def tile_lower_solve(L: Any, y: Any) -> Any:
    """`tile_lower_solve(L: Tile, y: Tile) -> Tile`

    The solution x of L x = y, for a lower triangular L. y has one axis, or one column for each right-hand side.
    """

def tile_lower_solve_inplace(L: Any, y: Any) -> None:
    """`tile_lower_solve_inplace(L: Tile, y: Tile)`

    Like `tile_lower_solve`, but overwrite y with the solution.
    """

def tile_upper_solve(U: Any, z: Any) -> Any:
    """`tile_upper_solve(U: Tile, z: Tile) -> Tile`

    The solution x of U x = z, for an upper triangular U. z has one axis, or one column for each right-hand side.
    """

def tile_upper_solve_inplace(U: Any, z: Any) -> None:
    """`tile_upper_solve_inplace(U: Tile, z: Tile)`

    Like `tile_upper_solve`, but overwrite z with the solution.
    """

def tile_diag_add(a: Any, d: Any) -> Any:
    """`tile_diag_add(a: Tile, d: Tile) -> Tile`

    The tile `a` with `d` added to its diagonal.
    """

def tile_fft(inout: Any) -> None:
    """`tile_fft(inout: Tile)`

    The discrete Fourier transform along the last axis, in place. Elements are vectors (real, imaginary).
    """

def tile_ifft(inout: Any) -> None:
    """`tile_ifft(inout: Tile)`

    The inverse of `tile_fft`, in place, without the factor 1/n, as in Warp.
    """

def tile_sort(keys: Any, values: Any) -> None:
    """`tile_sort(keys: Tile, values: Tile)`

    Sort both tiles by `keys`, in row-major order and in place. The sort is stable, and NaNs come last.
    """

def tile_load(a: Any, *args: Any, **keywords: Any) -> Any:
    """`tile_load(a: Array, shape: int | tuple[int, ...], offset: int | tuple[int, ...] = None, storage: str = "register", bounds_check: bool = True, aligned: bool = False) -> Tile`

    A tile of the elements of an array from `offset` on. Elements outside the array are 0.
    """

def tile_load_indexed(a: Any, *args: Any, **keywords: Any) -> Any:
    """`tile_load_indexed(a: Array, indices: Tile, shape: int | tuple[int, ...] = None, offset: int | tuple[int, ...] = None, axis: int = 0, storage: str = "register") -> Tile`

    Like `tile_load`, but along `axis` read at `offset + indices[k]`, not at `offset + k`.
    """

def tile_store(a: Any, *args: Any, **keywords: Any) -> Any:
    """`tile_store(a: Array, t: Tile, offset: int | tuple[int, ...] = None, bounds_check: bool = True, aligned: bool = False)`

    Store a tile in an array from `offset` on. Elements outside the array are dropped.
    """

def tile_store_indexed(a: Any, *args: Any, **keywords: Any) -> Any:
    """`tile_store_indexed(a: Array, indices: Tile, t: Tile, offset: int | tuple[int, ...] = None, axis: int = 0)`

    Like `tile_store`, but along `axis` write at `offset + indices[k]`, not at `offset + k`.
    """

def tile_atomic_add(a: Any, *args: Any, **keywords: Any) -> Any:
    """`tile_atomic_add(a: Array, t: Tile, offset: int | tuple[int, ...] = None, bounds_check: bool = True) -> Tile`

    Add a tile to an array from `offset` on, atomically. Returns a tile of the old elements.
    """

def tile_atomic_add_indexed(a: Any, *args: Any, **keywords: Any) -> Any:
    """`tile_atomic_add_indexed(a: Array, indices: Tile, t: Tile, offset: int | tuple[int, ...] = None, axis: int = 0) -> Tile`

    Like `tile_atomic_add`, but along `axis` add at `offset + indices[k]`, not at `offset + k`.
    """

def tile_stack(capacity: int, dtype: Any) -> Any:
    """`tile_stack(capacity: int, dtype: type) -> TileStack`

    An empty stack for up to `capacity` values.
    """

def tile_stack_push(s: Any, value: Any, has_value: Any) -> int:
    """`tile_stack_push(s: TileStack, value: Any, has_value: bool) -> int`

    Push a value if `has_value` is true and the stack is not full. Returns its index, or -1.
    """

def tile_stack_pop(s: Any) -> Tuple[Any, int]:
    """`tile_stack_pop(s: TileStack) -> tuple[Any, int]`

    Pop the last value. Returns it and its index, or zero and -1 if the stack is empty.
    """

def tile_stack_clear(s: Any) -> None:
    """`tile_stack_clear(s: TileStack)`

    Removes all values from a stack.
    """

def tile_stack_count(s: Any) -> int:
    """`tile_stack_count(s: TileStack) -> int`

    The number of values on a stack.
    """

def expect_eq(a: Any, b: Any) -> None:
    """`expect_eq(a: Any, b: Any) -> None`

    Check that two values of one type are equal. Otherwise the launch raises CheckError, as an `assert` does, but
    the thread goes on.
    """

def expect_neq(a: Any, b: Any) -> None:
    """`expect_neq(a: Any, b: Any) -> None`

    Check that two values of one type differ. Otherwise the launch raises CheckError, as an `assert` does, but the
    thread goes on.
    """

def expect_near(a: Any, b: Any, tolerance: float = ...) -> None:
    """`expect_near(a: Any, b: Any, tolerance: Float = 1e-6) -> None`

    Check that all components of two values differ by at most `tolerance`. A NaN fails. Otherwise the launch raises
    CheckError, as an `assert` does, but the thread goes on.
    """

def print(*values: Any, sep: str = ..., end: str = ...) -> None:
    """`print(*values: Any, sep: str = " ", end: str = "\n") -> None`

    Print values in Warp's format, or an f-string. Lines of different threads never mix.
    """

def printf(fmt: str, *values: float) -> None:
    """`printf(fmt: str, *values: Scalar) -> None`

    Print values in a format of C. jaxwarp refuses a format that does not fit their types.
    """

def add(a: Any, b: Any) -> Any:
    """`add(a: Any, b: Any) -> Any`

    The operator `a + b`. The sum. Integers wrap.
    """

def sub(a: Any, b: Any) -> Any:
    """`sub(a: Any, b: Any) -> Any`

    The operator `a - b`. The difference. Integers wrap.
    """

def mul(a: Any, b: Any) -> Any:
    """`mul(a: Any, b: Any) -> Any`

    The operator `a * b`. The product. Integers wrap. The accuracy is that of products of matrices; others are
    exact.
    """

def div(a: Any, b: Any) -> Any:
    """`div(a: Any, b: Any) -> Any`

    The operator `a / b`. The quotient. Integers are rounded toward zero, as in C++; an integer divided by 0 gives
    0.
    """

def floordiv(a: Any, b: Any) -> Any:
    """`floordiv(a: Any, b: Any) -> Any`

    The operator `a // b`. floor(a / b), for integers too, as in Python; an integer divided by 0 gives 0.
    """

def mod(a: Any, b: Any) -> Any:
    """`mod(a: Any, b: Any) -> Any`

    The operator `a % b`. The remainder with the sign of the dividend, as % and fmod of C++; for integers, 0 if the
    divisor is 0.
    """

def div_approx(a: Any, b: Any) -> Any:
    """`div_approx(a: Any, b: Any) -> Any`

    The quotient `a / b` of floats. In spite of its name it is not approximate: it is the same on every device.
    """

def neg(x: _T) -> _T:
    """`neg(x: Any) -> Any`

    The operator `-x`.
    """

def pos(x: _T) -> _T:
    """`pos(x: Any) -> Any`

    The operator `+x`, which is x itself.
    """

def abs(x: _T) -> _T:
    """`abs(x: Any) -> Any`

    The absolute value, per component. The derivative at 0 is 1.
    """

def sign(x: _T) -> _T:
    """`sign(x: Any) -> Any`

    -1 if x < 0, else 1, per component.
    """

def nonzero(x: float) -> Any:
    """`nonzero(x: Scalar) -> Scalar`

    1 if x is not zero, else 0.
    """

def step(x: float) -> Any:
    """`step(x: Scalar) -> Scalar`

    1 if x < 0, else 0 (as in Warp).
    """

def frac(x: float) -> float:
    """`frac(x: Float) -> Float`

    The fraction x - trunc(x). It has the sign of x.
    """

def degrees(x: float) -> float:
    """`degrees(x: Float) -> Float`

    Convert radians to degrees.
    """

def radians(x: float) -> float:
    """`radians(x: Float) -> Float`

    Convert degrees to radians.
    """

@_overload
def min(a: _T, b: _T, *others: _T) -> _T:
    """`min(a: Any, b: Any, ...) -> Any`

    `a if a < b else b` for numbers, and per component for vectors. With more arguments, from left to right.
    `min(v)` of one vector is its smallest component; NaNs are ignored there.
    """

@_overload
def min(a: _Value) -> Any:
    """`min(a: Any, b: Any, ...) -> Any`

    `a if a < b else b` for numbers, and per component for vectors. With more arguments, from left to right.
    `min(v)` of one vector is its smallest component; NaNs are ignored there.
    """

@_overload
def max(a: _T, b: _T, *others: _T) -> _T:
    """`max(a: Any, b: Any, ...) -> Any`

    `a if a > b else b` for numbers, and per component for vectors. With more arguments, from left to right.
    `max(v)` of one vector is its largest component; NaNs are ignored there.
    """

@_overload
def max(a: _Value) -> Any:
    """`max(a: Any, b: Any, ...) -> Any`

    `a if a > b else b` for numbers, and per component for vectors. With more arguments, from left to right.
    `max(v)` of one vector is its largest component; NaNs are ignored there.
    """

def argmin(a: _VecT) -> int:
    """`argmin(a: Vec) -> uint32`

    The index of the smallest component, and the first of equal ones. A NaN is ignored. If all are NaN, the index is
    0.
    """

def argmax(a: _VecT) -> int:
    """`argmax(a: Vec) -> uint32`

    The index of the largest component, and the first of equal ones. A NaN is ignored. If all are NaN, the index is
    0.
    """

def clamp(x: _T, low: _T, high: _T) -> _T:
    """`clamp(x: Any, low: Any, high: Any) -> Any`

    x limited to the range from low to high: min(max(low, x), high). Vectors are limited per component. If x equals
    low, the derivative goes to x. If it equals high, it goes to high, as in Warp.
    """

@_overload
def where(cond: Any, value_if_true: _T, value_if_false: _T) -> _T:
    """`where(cond: bool, value_if_true: Any, value_if_false: Any) -> Any`
    `where(arr: bool, value_if_true: Any, value_if_false: Any) -> Any`

    One of two values. They can be numbers, vectors, structs, tiles (copied), parts of one array, or tuples of
    these. Both are evaluated; `a if cond else b` evaluates only the one that it needs.
    """

@_overload
def where(arr: Any, value_if_true: _T, value_if_false: _T) -> _T:
    """`where(cond: bool, value_if_true: Any, value_if_false: Any) -> Any`
    `where(arr: bool, value_if_true: Any, value_if_false: Any) -> Any`

    One of two values. They can be numbers, vectors, structs, tiles (copied), parts of one array, or tuples of
    these. Both are evaluated; `a if cond else b` evaluates only the one that it needs.
    """

def select(cond: Any, value_if_false: _T, value_if_true: _T) -> _T:
    """`select(cond: bool, value_if_false: Any, value_if_true: Any) -> Any`

    An older form of `where`, as in Warp. The two values are in the other order.
    """

def lerp(a: _T, b: _T, t: float) -> _T:
    """`lerp(a: Any, b: Any, t: Float) -> Any`

    a * (1 - t) + b * t.
    """

def smoothstep(a: float, b: float, x: float) -> float:
    """`smoothstep(a: Float, b: Float, x: Float) -> Float`

    0 for x below a, 1 for x above b, and t * t * (3 - 2 * t) between, where t = (x - a) / (b - a).
    """

def isnan(a: Any) -> builtins.bool:
    """`isnan(a: Any) -> bool`

    True if the argument is NaN. For vectors and matrices: if any component is.
    """

def isinf(a: Any) -> builtins.bool:
    """`isinf(a: Any) -> bool`

    True if the argument is infinite, of either sign. For vectors and matrices: if any component is.
    """

def isfinite(a: Any) -> builtins.bool:
    """`isfinite(a: Any) -> bool`

    True if the argument is neither infinite nor NaN. For vectors and matrices: if all components are.
    """

def bit_and(a: int, b: int) -> int:
    """`bit_and(a: Int, b: Int) -> Int`

    The operator `a & b`. The bits that are 1 in both.
    """

def bit_or(a: int, b: int) -> int:
    """`bit_or(a: Int, b: Int) -> Int`

    The operator `a | b`. The bits that are 1 in at least one.
    """

def bit_xor(a: int, b: int) -> int:
    """`bit_xor(a: Int, b: Int) -> Int`

    The operator `a ^ b`. The bits that differ.
    """

def lshift(a: int, b: int) -> int:
    """`lshift(a: Int, b: Int) -> Int`

    The operator `a << b`. a shifted left by b bits; 0 if b, read as unsigned, is the width or more.
    """

def rshift(a: int, b: int) -> int:
    """`rshift(a: Int, b: Int) -> Int`

    The operator `a >> b`. a shifted right by b bits, keeping its sign; 0 or -1 if b, read as unsigned, is the width
    or more.
    """

def invert(a: int) -> int:
    """`invert(a: Int) -> Int`

    The operator `~x`.
    """

def cast(a: float, dtype: Any) -> Any:
    """`cast(a: Scalar, dtype: type) -> Scalar`

    The bits of a, read as another type of the same size. To convert the value, call the type: `float64(x)`.
    """

def floor(x: float) -> float:
    """`floor(x: Float) -> Float`

    The largest whole number not above x.
    """

def ceil(x: float) -> float:
    """`ceil(x: Float) -> Float`

    The smallest whole number not below x.
    """

def trunc(x: float) -> float:
    """`trunc(x: Float) -> Float`

    x rounded toward zero.
    """

def round(x: float) -> float:
    """`round(x: Float) -> Float`

    The nearest whole number. Halves are rounded away from zero.
    """

def rint(x: float) -> float:
    """`rint(x: Float) -> Float`

    The nearest whole number. Halves are rounded to the even one.
    """

def sqrt(x: float) -> float:
    """`sqrt(x: Float) -> Float`

    The square root, correctly rounded.
    """

def rsqrt(x: float) -> float:
    """`rsqrt(x: Float) -> Float`

    1 / sqrt(x). The root and the quotient are each rounded.
    """

def cbrt(x: float) -> float:
    """`cbrt(x: Float) -> Float`

    The cube root. It exists for negative numbers too.
    """

def exp(x: float) -> float:
    """`exp(x: Float) -> Float`

    e to the power x.
    """

def exp2(x: float) -> float:
    """`exp2(x: Float) -> Float`

    2 to the power x.
    """

def expm1(x: float) -> float:
    """`expm1(x: Float) -> Float`

    exp(x) - 1, accurate near 0.
    """

def log(x: float) -> float:
    """`log(x: Float) -> Float`

    The natural logarithm.
    """

def log2(x: float) -> float:
    """`log2(x: Float) -> Float`

    The logarithm to base 2.
    """

def log10(x: float) -> float:
    """`log10(x: Float) -> Float`

    The logarithm to base 10.
    """

def log1p(x: float) -> float:
    """`log1p(x: Float) -> Float`

    log(1 + x), accurate near 0.
    """

def sin(x: float) -> float:
    """`sin(x: Float) -> Float`

    The sine of x radians.
    """

def cos(x: float) -> float:
    """`cos(x: Float) -> Float`

    The cosine of x radians.
    """

def tan(x: float) -> float:
    """`tan(x: Float) -> Float`

    The tangent of x radians.
    """

def asin(x: float) -> float:
    """`asin(x: Float) -> Float`

    The arc sine, in radians. Arguments beyond -1 and 1 count as -1 and 1. The derivative is 0 there and at the
    ends.
    """

def acos(x: float) -> float:
    """`acos(x: Float) -> Float`

    The arc cosine, in radians. Arguments beyond -1 and 1 count as -1 and 1. The derivative is 0 there and at the
    ends.
    """

def atan(x: float) -> float:
    """`atan(x: Float) -> Float`

    The arc tangent, in radians.
    """

def atan2(y: float, x: float) -> float:
    """`atan2(y: Float, x: Float) -> Float`

    The angle of the point (x, y) in radians; the arguments are y, x. The derivatives at the origin are 0.
    """

def hypot(x: float, y: float) -> float:
    """`hypot(x: Float, y: Float) -> Float`

    sqrt(x * x + y * y), without overflow on the way. The derivatives at the origin are 0.
    """

def sinh(x: float) -> float:
    """`sinh(x: Float) -> Float`

    The hyperbolic sine.
    """

def cosh(x: float) -> float:
    """`cosh(x: Float) -> Float`

    The hyperbolic cosine.
    """

def tanh(x: float) -> float:
    """`tanh(x: Float) -> Float`

    The hyperbolic tangent.
    """

def asinh(x: float) -> float:
    """`asinh(x: Float) -> Float`

    The inverse hyperbolic sine.
    """

def acosh(x: float) -> float:
    """`acosh(x: Float) -> Float`

    The inverse hyperbolic cosine.
    """

def atanh(x: float) -> float:
    """`atanh(x: Float) -> Float`

    The inverse hyperbolic tangent.
    """

def erf(x: float) -> float:
    """`erf(x: Float) -> Float`

    The error function.
    """

def erfc(x: float) -> float:
    """`erfc(x: Float) -> Float`

    1 - erf(x), accurate for large x.
    """

def pow(x: float, y: float) -> float:
    """`pow(x: Float, y: Float) -> Float`

    The first argument to the power of the second.
    """

def fma(a: float, b: float, c: float) -> float:
    """`fma(a: Float, b: Float, c: Float) -> Float`

    a * b + c, rounded once.
    """

def copysign(x: float, y: float) -> float:
    """`copysign(x: Float, y: Float) -> Float`

    The magnitude of the first argument with the sign of the second.
    """

def popcount(x: int) -> int:
    """`popcount(x: Int) -> Int`

    The number of bits that are 1.
    """

def clz(x: int) -> int:
    """`clz(x: Int) -> Int`

    The number of zero bits above the highest 1. For 0 it is the width.
    """

def ctz(x: int) -> int:
    """`ctz(x: Int) -> Int`

    The number of zero bits below the lowest 1. For 0 it is the width.
    """

def vector(*components: float, length: int = ..., dtype: Any = ...) -> Any:
    """`vector(*components: Scalar, length: int = ..., dtype: type = ...) -> Vec`

    A vector of the given components. With `length`, one component is repeated, and no component means zeros.
    """

def matrix(*components: float, shape: Any, dtype: Any = ...) -> Any:
    """`matrix(*components: Scalar, shape: tuple[int, int], dtype: type = ...) -> Mat`

    A matrix of the given components, row by row. One component is repeated, and no component means zeros.
    """

def identity(n: int, dtype: Any) -> Any:
    """`identity(n: int, dtype: type) -> Mat`

    The square matrix with ones on its diagonal.
    """

def matrix_from_rows(*rows: _VecT) -> Any:
    """`matrix_from_rows(*rows: Vec) -> Mat`

    The matrix with these rows.
    """

def matrix_from_cols(*columns: _VecT) -> Any:
    """`matrix_from_cols(*columns: Vec) -> Mat`

    The matrix with these columns.
    """

def dot(a: _VecT, b: _VecT) -> Any:
    """`dot(a: Vec, b: Vec) -> Scalar`

    The sum of the products of corresponding components, of vectors or quaternions.
    """

def cross(a: _Vec3T, b: _Vec3T) -> _Vec3T:
    """`cross(a: Vec3, b: Vec3) -> Vec3`

    The cross product of two vectors of 3 components. Its products are not fused with its differences, so cross(b,
    a) is exactly -cross(a, b), and cross(a, a) is 0.
    """

def length(a: _VecT) -> float:
    """`length(a: Vec) -> Float`

    The Euclidean length of a vector or quaternion. Its derivative at zero is 0.
    """

def length_sq(a: _VecT) -> Any:
    """`length_sq(a: Vec) -> Scalar`

    The square of the length: dot(a, a).
    """

def norm_l1(v: _VecT) -> float:
    """`norm_l1(v: Vec) -> Float`

    The sum of the absolute values of the components.
    """

def norm_l2(v: _VecT) -> float:
    """`norm_l2(v: Vec) -> Float`

    The Euclidean length. Its derivative at zero is 0.
    """

def norm_huber(v: _VecT, delta: float = ...) -> float:
    """`norm_huber(v: Vec, delta: Float = 1.0) -> Float`

    Half the squared length up to a length of delta, and linear beyond: delta * (length - delta / 2).
    """

def norm_pseudo_huber(v: _VecT, delta: float = ...) -> float:
    """`norm_pseudo_huber(v: Vec, delta: Float = 1.0) -> Float`

    delta * sqrt(1 + dot(v, v) / delta**2): like norm_huber, but smooth.
    """

def normalize(a: _VecT) -> _VecT:
    """`normalize(a: Vec) -> Vec`

    The vector of length 1 in the same direction. The zero vector stays zero; the zero quaternion becomes the
    identity.
    """

def smooth_normalize(v: _VecT, delta: float = ...) -> _VecT:
    """`smooth_normalize(v: Vec, delta: Float = 1.0) -> Vec`

    v / norm_pseudo_huber(v, delta).
    """

def outer(a: _VecT, b: _VecT) -> Any:
    """`outer(a: Vec, b: Vec) -> Mat`

    The matrix of the products a[i] * b[j].
    """

def skew(vec: _Vec3T) -> Any:
    """`skew(vec: Vec3) -> Mat33`

    The matrix whose product with a vector w is cross(vec, w).
    """

def cw_mul(a: Any, b: Any) -> Any:
    """`cw_mul(a: Any, b: Any) -> Any`

    The products of corresponding components of vectors or matrices.
    """

def cw_div(a: Any, b: Any) -> Any:
    """`cw_div(a: Any, b: Any) -> Any`

    The quotients of corresponding components of vectors or matrices.
    """

def transpose(a: _MatT) -> _MatT:
    """`transpose(a: Mat) -> Mat`

    Rows become columns.
    """

def determinant(a: _MatT) -> Any:
    """`determinant(a: Mat) -> Scalar`

    The determinant of a square matrix of up to 4 rows. Products are not fused with differences, so equal products
    cancel exactly. It is therefore exactly 0 for a matrix with a row or column of zeros; with 2 rows, if both
    products are equal; with 3, if the last two rows, or any two columns, are equal; with 4, if the first two or the
    last two rows are equal. For other singular matrices it is 0 up to rounding.
    """

def inverse(a: _MatT) -> _MatT:
    """`inverse(a: Mat) -> Mat`

    The inverse of a square matrix of up to 4 rows. If `determinant` is 0, all elements of the result are 0.
    """

def inverse_approx(a: _MatT) -> _MatT:
    """`inverse_approx(a: Mat) -> Mat`

    The same as `inverse`.
    """

def trace(a: _MatT) -> Any:
    """`trace(a: Mat) -> Scalar`

    The sum of the diagonal of a square matrix.
    """

def diag(vec: _VecT) -> Any:
    """`diag(vec: Vec) -> Mat`

    The matrix with vec on its diagonal and zeros elsewhere.
    """

def get_diag(mat: _MatT) -> Any:
    """`get_diag(mat: Mat) -> Vec`

    The diagonal of a square matrix.
    """

def ddot(a: _MatT, b: _MatT) -> Any:
    """`ddot(a: Mat, b: Mat) -> Scalar`

    The sum of the products of corresponding components of two matrices.
    """

def quaternion(x: float, y: float, z: float, w: float, dtype: Any = ...) -> Any:
    """`quaternion(x: Float, y: Float, z: Float, w: Float, dtype: type = ...) -> Quat`

    A quaternion of four components, or of a vector and w. Another quaternion is converted. No component means
    zeros.
    """

def quat_identity(dtype: Any = ...) -> Any:
    """`quat_identity(dtype: type = float32) -> Quat`

    The rotation that turns nothing: (0, 0, 0, 1).
    """

def quat_from_axis_angle(axis: _Vec3T, angle: float) -> Any:
    """`quat_from_axis_angle(axis: Vec3, angle: Float) -> Quat`

    The rotation by an angle in radians about a unit axis.
    """

@_overload
def quat_to_axis_angle(quat: _QuatT) -> Tuple[Any, float]:
    """`quat_to_axis_angle(quat: Quat) -> tuple[Vec3, Float]`
    `quat_to_axis_angle(quat: Quat, axis: Any, angle: Any) -> None`

    The axis and the angle, from 0 to pi, of a rotation. Pass two more variables to assign the results to them. For
    the identity the axis is zero, and derivatives are 0. Half a turn has two axes; derivatives there are those for
    w > 0.
    """

@_overload
def quat_to_axis_angle(quat: _QuatT, axis: Any, angle: Any) -> None:
    """`quat_to_axis_angle(quat: Quat) -> tuple[Vec3, Float]`
    `quat_to_axis_angle(quat: Quat, axis: Any, angle: Any) -> None`

    The axis and the angle, from 0 to pi, of a rotation. Pass two more variables to assign the results to them. For
    the identity the axis is zero, and derivatives are 0. Half a turn has two axes; derivatives there are those for
    w > 0.
    """

def quat_from_matrix(mat: _Mat33 | _Mat44) -> Any:
    """`quat_from_matrix(mat: Mat33 | Mat44) -> Quat`

    The rotation of a rotation matrix, or of the upper left part of a matrix of 4 rows. If the trace is not
    negative, w >= 0. Otherwise the component of largest magnitude is positive.
    """

def quat_inverse(quat: _QuatT) -> _QuatT:
    """`quat_inverse(quat: Quat) -> Quat`

    The conjugate. It is the inverse of a unit quaternion.
    """

def quat_rotate(quat: _QuatT, vec: _Vec3T) -> _Vec3T:
    """`quat_rotate(quat: Quat, vec: Vec3) -> Vec3`

    Rotate a vector by a unit quaternion.
    """

def quat_rotate_inv(quat: _QuatT, vec: _Vec3T) -> _Vec3T:
    """`quat_rotate_inv(quat: Quat, vec: Vec3) -> Vec3`

    Rotate a vector by the inverse of a unit quaternion.
    """

def quat_slerp(a: _QuatT, b: _QuatT, t: float) -> _QuatT:
    """`quat_slerp(a: Quat, b: Quat, t: Float) -> Quat`

    The rotation at the fraction t of the shorter way from a to b, at constant speed (spherical linear
    interpolation). It has derivatives where a and b are equal, too. Half a turn apart there are two ways, and it
    takes one of them.
    """

def quat_to_matrix(quat: _QuatT) -> Any:
    """`quat_to_matrix(quat: Quat) -> Mat33`

    The rotation matrix of a unit quaternion.
    """

def quat_rpy(roll: float, pitch: float, yaw: float) -> Any:
    """`quat_rpy(roll: Float, pitch: Float, yaw: Float) -> Quat`

    Rotate by roll about x, then by pitch about y, then by yaw about z. The axes are fixed; angles are in radians.
    """

def quat_to_rpy(q: _QuatT) -> Any:
    """`quat_to_rpy(q: Quat) -> Vec3`

    Roll, pitch and yaw of a unit quaternion: the inverse of quat_rpy. If pitch is half of pi, roll and yaw are not
    unique, and their derivatives are meaningless.
    """

def quat_twist(axis: _Vec3T, q: _QuatT) -> _QuatT:
    """`quat_twist(axis: Vec3, q: Quat) -> Quat`

    The part of a rotation that is about a unit axis. The rest is about an axis perpendicular to it. Half a turn
    about a perpendicular axis has no such part, and gives the identity.
    """

def quat_twist_angle(axis: _Vec3T, q: _QuatT) -> float:
    """`quat_twist_angle(axis: Vec3, q: Quat) -> Float`

    The absolute angle of quat_twist, from 0 to pi if w >= 0. The derivative at 0 is that for positive angles.
    """

def quat_twist_angle_signed(axis: _Vec3T, q: _QuatT) -> float:
    """`quat_twist_angle_signed(axis: Vec3, q: Quat) -> Float`

    The angle of quat_twist, from -pi to pi if w >= 0. It is positive counter-clockwise about the axis.
    """

def quat_from_euler(e: _Vec3T, i: int, j: int, k: int) -> Any:
    """`quat_from_euler(e: Vec3, i: int, j: int, k: int) -> Quat`

    Rotate by e[i] about axis i, then by e[j] about j, then by e[k] about k. The axes are fixed, numbered 0, 1 and
    2; angles are in radians.
    """

def quat_to_euler(q: _QuatT, i: int, j: int, k: int) -> Any:
    """`quat_to_euler(q: Quat, i: int, j: int, k: int) -> Vec3`

    The angles about fixed axes, ordered by axis. If i, j and k differ, it is the inverse of quat_from_euler. If i
    is k, the third angle takes the place of the axis that is not named. In gimbal lock the first angle is 0, and
    derivatives are meaningless. (Bernardes and Viollet, Quaternion to Euler angles conversion, 2022.)
    """

def transformation(p: _Vec3T, q: _QuatT, dtype: Any = ...) -> Any:
    """`transformation(p: Vec3, q: Quat, dtype: type = ...) -> Transform`

    A transform of a translation and a rotation, or of 7 components. Without a rotation, it is the identity. Another
    transform is converted. No component means zeros.
    """

def transform_identity(dtype: Any = ...) -> Any:
    """`transform_identity(dtype: type = float32) -> Transform`

    The transform that moves nothing: translation 0, rotation (0, 0, 0, 1).
    """

def transform_get_translation(xform: _TransformT) -> Any:
    """`transform_get_translation(xform: Transform) -> Vec3`

    The translation `xform.p`.
    """

def transform_get_rotation(xform: _TransformT) -> Any:
    """`transform_get_rotation(xform: Transform) -> Quat`

    The rotation `xform.q`.
    """

def transform_set_translation(xform: _TransformT, p: _Vec3T) -> None:
    """`transform_set_translation(xform: Transform, p: Vec3) -> None`

    Do `xform.p = p`.
    """

def transform_set_rotation(xform: _TransformT, q: _QuatT) -> None:
    """`transform_set_rotation(xform: Transform, q: Quat) -> None`

    Do `xform.q = q`.
    """

def transform_set_translation_copy(xform: _TransformT, p: _Vec3T) -> _TransformT:
    """`transform_set_translation_copy(xform: Transform, p: Vec3) -> Transform`

    A copy of the transform with another translation.
    """

def transform_set_rotation_copy(xform: _TransformT, q: _QuatT) -> _TransformT:
    """`transform_set_rotation_copy(xform: Transform, q: Quat) -> Transform`

    A copy of the transform with another rotation.
    """

def transform_multiply(a: _TransformT, b: _TransformT) -> _TransformT:
    """`transform_multiply(a: Transform, b: Transform) -> Transform`

    The product a * b, which moves by b and then by a.
    """

@_overload
def transform_point(xform: _Transform | _Mat44, point: _Vec3T) -> _Vec3T:
    """`transform_point(xform: Transform | Mat44, point: Vec3) -> Vec3`
    `transform_point(mat: Transform | Mat44, point: Vec3) -> Vec3`

    Rotate a point, then translate it. A matrix of 4 rows is multiplied by (point, 1).
    """

@_overload
def transform_point(mat: _Transform | _Mat44, point: _Vec3T) -> _Vec3T:
    """`transform_point(xform: Transform | Mat44, point: Vec3) -> Vec3`
    `transform_point(mat: Transform | Mat44, point: Vec3) -> Vec3`

    Rotate a point, then translate it. A matrix of 4 rows is multiplied by (point, 1).
    """

@_overload
def transform_vector(xform: _Transform | _Mat44, vec: _Vec3T) -> _Vec3T:
    """`transform_vector(xform: Transform | Mat44, vec: Vec3) -> Vec3`
    `transform_vector(mat: Transform | Mat44, vec: Vec3) -> Vec3`

    Rotate a vector, without the translation. A matrix of 4 rows is multiplied by (vec, 0).
    """

@_overload
def transform_vector(mat: _Transform | _Mat44, vec: _Vec3T) -> _Vec3T:
    """`transform_vector(xform: Transform | Mat44, vec: Vec3) -> Vec3`
    `transform_vector(mat: Transform | Mat44, vec: Vec3) -> Vec3`

    Rotate a vector, without the translation. A matrix of 4 rows is multiplied by (vec, 0).
    """

def transform_inverse(xform: _TransformT) -> _TransformT:
    """`transform_inverse(xform: Transform) -> Transform`

    The inverse of a transform whose rotation is a unit quaternion.
    """

def transform_from_matrix(mat: _Mat44T) -> Any:
    """`transform_from_matrix(mat: Mat44) -> Transform`

    The transform of a matrix: its last column is the translation, its upper left part the rotation.
    """

def transform_to_matrix(xform: _TransformT) -> Any:
    """`transform_to_matrix(xform: Transform) -> Mat44`

    The matrix that does the same to points. Its last column is the translation.
    """

def transform_compose(position: _Vec3T, rotation: _QuatT, scale: _Vec3T) -> Any:
    """`transform_compose(position: Vec3, rotation: Quat, scale: Vec3) -> Mat44`

    The matrix that scales points along the axes, rotates them, then translates them.
    """

def transform_decompose(m: _Mat44T) -> Tuple[Any, Any, Any]:
    """`transform_decompose(m: Mat44) -> tuple[Vec3, Quat, Vec3]`

    The position, rotation and scale of a matrix made by transform_compose. The scales are positive.
    """

def spatial_dot(a: _Vec6T, b: _Vec6T) -> float:
    """`spatial_dot(a: Vec6, b: Vec6) -> Float`

    The sum of the products of corresponding components. For a wrench and a twist it is the power.
    """

def spatial_cross(a: _Vec6T, b: _Vec6T) -> _Vec6T:
    """`spatial_cross(a: Vec6, b: Vec6) -> Vec6`

    The cross product of two twists (w, v) and (w', v'): (w x w', v x w' + w x v').
    """

def spatial_cross_dual(a: _Vec6T, b: _Vec6T) -> _Vec6T:
    """`spatial_cross_dual(a: Vec6, b: Vec6) -> Vec6`

    The cross product of a twist (w, v) and a wrench (t, f): (w x t + v x f, w x f).
    """

def spatial_top(svec: _Vec6T) -> Any:
    """`spatial_top(svec: Vec6) -> Vec3`

    The first three components: the angular part.
    """

def spatial_bottom(svec: _Vec6T) -> Any:
    """`spatial_bottom(svec: Vec6) -> Vec3`

    The last three components: the linear part.
    """

def spatial_adjoint(r: _Mat33T, s: _Mat33T) -> Any:
    """`spatial_adjoint(r: Mat33, s: Mat33) -> Mat66`

    The matrix of blocks [[r, 0], [s, r]]. With s = skew(p) * r it maps twists by the transform (p, r).
    """

def velocity_at_point(qd: _Vec6T, r: _Vec3T) -> _Vec3T:
    """`velocity_at_point(qd: Vec6, r: Vec3) -> Vec3`

    The linear velocity v + w x r of the point at r of a body whose twist is qd = (w, v).
    """

def transform_twist(t: _TransformT, x: _Vec6T) -> _Vec6T:
    """`transform_twist(t: Transform, x: Vec6) -> Vec6`

    Express a twist x = (w, v) in the frame that t maps to: (R w, R v + p x R w).
    """

def transform_wrench(t: _TransformT, x: _Vec6T) -> _Vec6T:
    """`transform_wrench(t: Transform, x: Vec6) -> Vec6`

    Express a wrench x = (t, f) in the frame that t maps to: (R t + p x R f, R f).
    """

@_overload
def svd2(A: _Mat22) -> Tuple[mat22, vec2, mat22]:
    """`svd2(A: mat22) -> tuple[mat22, vec2, mat22]`
    `svd2(A: mat22, U: ref[mat22], sigma: ref[vec2], V: ref[mat22]) -> None`

    The singular value decomposition A = U * diag(sigma) * transpose(V), in which U and V are rotations. The values
    sigma fall in magnitude. The second one is negative if the determinant is. The vectors of equal values are not
    unique; the derivative leaves out what would mix them.
    """

@_overload
def svd2(A: _Mat22, U: Any, sigma: Any, V: Any) -> None:
    """`svd2(A: mat22) -> tuple[mat22, vec2, mat22]`
    `svd2(A: mat22, U: ref[mat22], sigma: ref[vec2], V: ref[mat22]) -> None`

    The singular value decomposition A = U * diag(sigma) * transpose(V), in which U and V are rotations. The values
    sigma fall in magnitude. The second one is negative if the determinant is. The vectors of equal values are not
    unique; the derivative leaves out what would mix them.
    """

@_overload
def svd3(A: _Mat33) -> Tuple[mat33, vec3, mat33]:
    """`svd3(A: mat33) -> tuple[mat33, vec3, mat33]`
    `svd3(A: mat33, U: ref[mat33], sigma: ref[vec3], V: ref[mat33]) -> None`

    The singular value decomposition A = U * diag(sigma) * transpose(V), in which U and V are rotations. The values
    sigma fall in magnitude. The last one is negative if the determinant is. The vectors of equal values are not
    unique; the derivative leaves out what would mix them.
    """

@_overload
def svd3(A: _Mat33, U: Any, sigma: Any, V: Any) -> None:
    """`svd3(A: mat33) -> tuple[mat33, vec3, mat33]`
    `svd3(A: mat33, U: ref[mat33], sigma: ref[vec3], V: ref[mat33]) -> None`

    The singular value decomposition A = U * diag(sigma) * transpose(V), in which U and V are rotations. The values
    sigma fall in magnitude. The last one is negative if the determinant is. The vectors of equal values are not
    unique; the derivative leaves out what would mix them.
    """

@_overload
def qr3(A: _Mat33) -> Tuple[mat33, mat33]:
    """`qr3(A: mat33) -> tuple[mat33, mat33]`
    `qr3(A: mat33, Q: ref[mat33], R: ref[mat33]) -> None`

    The decomposition A = Q * R into a rotation Q and an upper triangular R. The first two diagonal entries of R are
    not negative. The third has the sign of the determinant.
    """

@_overload
def qr3(A: _Mat33, Q: Any, R: Any) -> None:
    """`qr3(A: mat33) -> tuple[mat33, mat33]`
    `qr3(A: mat33, Q: ref[mat33], R: ref[mat33]) -> None`

    The decomposition A = Q * R into a rotation Q and an upper triangular R. The first two diagonal entries of R are
    not negative. The third has the sign of the determinant.
    """

@_overload
def eig3(A: _Mat33) -> Tuple[mat33, vec3]:
    """`eig3(A: mat33) -> tuple[mat33, vec3]`
    `eig3(A: mat33, Q: ref[mat33], d: ref[vec3]) -> None`

    The eigenvalues d and eigenvectors of the symmetric part of A, which is Q * diag(d) * transpose(Q). Q is a
    rotation with the eigenvectors as columns, and the values fall. The vectors of equal values are not unique; the
    derivative leaves out what would mix them.
    """

@_overload
def eig3(A: _Mat33, Q: Any, d: Any) -> None:
    """`eig3(A: mat33) -> tuple[mat33, vec3]`
    `eig3(A: mat33, Q: ref[mat33], d: ref[vec3]) -> None`

    The eigenvalues d and eigenvectors of the symmetric part of A, which is Q * diag(d) * transpose(Q). Q is a
    rotation with the eigenvectors as columns, and the values fall. The vectors of equal values are not unique; the
    derivative leaves out what would mix them.
    """

def dense_gemm(m: int, n: int, p: int, t1: int, t2: int, A: Any, B: Any, C: Any) -> None:
    """`dense_gemm(m: int, n: int, p: int, t1: int, t2: int, A: array[Float], B: array[Float], C: array[Float]) -> None`

    Store the product A * B, of m rows and n columns, in C. A has m rows and p columns, B has p rows and n columns.
    If t1 is 1, A holds the transpose; if t2 is 1, B does.
    """

def dense_chol(n: int, A: Any, regularization: float, L: Any) -> None:
    """`dense_chol(n: int, A: array[Float], regularization: Float, L: array[Float]) -> None`

    Store the lower triangular L with L * transpose(L) = A + regularization * I. A is symmetric and has n rows.
    Nothing is stored above the diagonal of L.
    """

def dense_subs(n: int, L: Any, b: Any, x: Any) -> None:
    """`dense_subs(n: int, L: array[Float], b: array[Float], x: array[Float]) -> None`

    Store the solution of L * transpose(L) * x = b in x. L is lower triangular and has n rows.
    """

def dense_solve(n: int, A: Any, L: Any, b: Any, x: Any) -> None:
    """`dense_solve(n: int, A: array[Float], L: array[Float], b: array[Float], x: array[Float]) -> None`

    Store the solution of A * x = b in x, given L from dense_chol. The derivative with respect to A arrives at L,
    and through dense_chol at A.
    """

@_overload
def rand_init(seed: int) -> int:
    """`rand_init(seed: int) -> uint32`
    `rand_init(seed: int, offset: int) -> uint32`
    `rand_init(key: vec2ui, offset: int = 0) -> vec4ui`

    The state of a random number generator, from a seed or a key of JAX. `offset` selects one of its streams.
    """

@_overload
def rand_init(seed: int, offset: int) -> int:
    """`rand_init(seed: int) -> uint32`
    `rand_init(seed: int, offset: int) -> uint32`
    `rand_init(key: vec2ui, offset: int = 0) -> vec4ui`

    The state of a random number generator, from a seed or a key of JAX. `offset` selects one of its streams.
    """

@_overload
def rand_init(key: _Vec2, offset: int = ...) -> vec4ui:
    """`rand_init(seed: int) -> uint32`
    `rand_init(seed: int, offset: int) -> uint32`
    `rand_init(key: vec2ui, offset: int = 0) -> vec4ui`

    The state of a random number generator, from a seed or a key of JAX. `offset` selects one of its streams.
    """

@_overload
def randi(state: Any) -> int:
    """`randi(state: ref[State]) -> int`
    `randi(state: ref[State], low: int, high: int) -> int`

    A random int of any value. With `low` and `high`, from low to high - 1.
    """

@_overload
def randi(state: Any, low: int, high: int) -> int:
    """`randi(state: ref[State]) -> int`
    `randi(state: ref[State], low: int, high: int) -> int`

    A random int of any value. With `low` and `high`, from low to high - 1.
    """

@_overload
def randu(state: Any) -> int:
    """`randu(state: ref[State]) -> uint32`
    `randu(state: ref[State], low: uint32, high: uint32) -> uint32`

    A random uint32, from 0 to the largest one. With `low` and `high`, from low to high - 1.
    """

@_overload
def randu(state: Any, low: int, high: int) -> int:
    """`randu(state: ref[State]) -> uint32`
    `randu(state: ref[State], low: uint32, high: uint32) -> uint32`

    A random uint32, from 0 to the largest one. With `low` and `high`, from low to high - 1.
    """

@_overload
def randf(state: Any) -> float:
    """`randf(state: ref[State]) -> float`
    `randf(state: ref[State], low: float, high: float) -> float`

    A random float x with 0 <= x < 1, a multiple of 2**-24. With `low` and `high`, low + (high - low) * x.
    """

@_overload
def randf(state: Any, low: float, high: float) -> float:
    """`randf(state: ref[State]) -> float`
    `randf(state: ref[State], low: float, high: float) -> float`

    A random float x with 0 <= x < 1, a multiple of 2**-24. With `low` and `high`, low + (high - low) * x.
    """

def randn(state: Any) -> float:
    """`randn(state: ref[State]) -> float`

    A random float of the normal distribution with mean 0 and variance 1, by the method of Box and Muller.
    """

def poisson(state: Any, lam: float) -> int:
    """`poisson(state: ref[State], lam: float) -> uint32`

    A random number of the Poisson distribution with mean lam. If lam is 0 or less, it is 0.
    """

def sample_cdf(state: Any, cdf: Any) -> int:
    """`sample_cdf(state: ref[State], cdf: array[float]) -> int`

    A random index, distributed as cumulative sums say: the first whose sum in `cdf` is at least a number from
    randf.
    """

def sample_triangle(state: Any) -> vec2:
    """`sample_triangle(state: ref[State]) -> vec2`

    A random point of a triangle, as its first two barycentric coordinates.
    """

def sample_unit_ring(state: Any) -> vec2:
    """`sample_unit_ring(state: ref[State]) -> vec2`

    A random point of the circle of radius 1.
    """

def sample_unit_disk(state: Any) -> vec2:
    """`sample_unit_disk(state: ref[State]) -> vec2`

    A random point of the disk of radius 1.
    """

def sample_unit_sphere_surface(state: Any) -> vec3:
    """`sample_unit_sphere_surface(state: ref[State]) -> vec3`

    A random point of the surface of the unit sphere.
    """

def sample_unit_sphere(state: Any) -> vec3:
    """`sample_unit_sphere(state: ref[State]) -> vec3`

    A random point inside the unit sphere.
    """

def sample_unit_hemisphere_surface(state: Any) -> vec3:
    """`sample_unit_hemisphere_surface(state: ref[State]) -> vec3`

    A random point of the surface of the unit sphere with z >= 0.
    """

def sample_unit_hemisphere(state: Any) -> vec3:
    """`sample_unit_hemisphere(state: ref[State]) -> vec3`

    A random point inside the unit sphere with z >= 0.
    """

def sample_unit_square(state: Any) -> vec2:
    """`sample_unit_square(state: ref[State]) -> vec2`

    A random point of the square of side 1 with its center at 0.
    """

def sample_unit_cube(state: Any) -> vec3:
    """`sample_unit_cube(state: ref[State]) -> vec3`

    A random point of the cube of side 1 with its center at 0.
    """

def quat_between_vectors(a: Any, b: Any) -> Any:
    """`quat_between_vectors(a: Any, b: Any) -> Any`

    The rotation by the smallest angle that turns the direction of `a` into that of `b`. For equal directions, or a
    vector of length 0, it is the identity. For opposite directions it is half a turn about some axis perpendicular
    to them; Warp's result is undefined there.
    """

def erfinv(x: float) -> float:
    """`erfinv(x: float16) -> float16`
    `erfinv(x: bfloat16) -> bfloat16`
    `erfinv(x: float32) -> float32`
    `erfinv(x: float64) -> float64`

    The inverse of the error function: z with erf(z) = x. It is infinite at -1 and 1, and NaN beyond.
    """

def erfcinv(x: float) -> float:
    """`erfcinv(x: float16) -> float16`
    `erfcinv(x: bfloat16) -> bfloat16`
    `erfcinv(x: float32) -> float32`
    `erfcinv(x: float64) -> float64`

    The inverse of erfc: z with 1 - erf(z) = x, accurate for small x. It is infinite at 0 and 2, and NaN beyond.
    """

@_overload
def lower_bound(arr: Any, arr_begin: int, arr_end: int, value: float) -> int:
    """`lower_bound(arr: array[Scalar], arr_begin: int, arr_end: int, value: Scalar) -> int`
    `lower_bound(arr: array[Scalar], value: Scalar) -> int`

    The first index of an ascending array whose element is not below `value`. If all are below it, the number of
    elements. `arr_begin` and `arr_end` limit the search.
    """

@_overload
def lower_bound(arr: Any, value: float) -> int:
    """`lower_bound(arr: array[Scalar], arr_begin: int, arr_end: int, value: Scalar) -> int`
    `lower_bound(arr: array[Scalar], value: Scalar) -> int`

    The first index of an ascending array whose element is not below `value`. If all are below it, the number of
    elements. `arr_begin` and `arr_end` limit the search.
    """

def bit_count(x: Any) -> int:
    """`bit_count(x: Any) -> int`

    The number of bits of an integer that are 1, as an int. `popcount` gives it in the integer's own type.
    """

def closest_point_edge_edge(p1: Any, q1: Any, p2: Any, q2: Any, epsilon: Any) -> Any:
    """`closest_point_edge_edge(p1: Any, q1: Any, p2: Any, q2: Any, epsilon: Any) -> Any`

    The closest points of two edges, p1 + s (q1 - p1) and p2 + t (q2 - p2), and their distance d, as `vec3(s, t,
    d)`. An edge whose squared length is at most `epsilon` is treated as its first point. For parallel edges s is 0,
    unless t is at an end. There is a derivative unless d is 0, or a closest point has just reached an end.
    """

def intersect_tri_tri(v0: Any, v1: Any, v2: Any, u0: Any, u1: Any, u2: Any) -> int:
    """`intersect_tri_tri(v0: Any, v1: Any, v2: Any, u0: Any, u1: Any, u2: Any) -> int`

    1 if two triangles have a point in common, else 0. Touching borders count, as exactly as rounding allows.
    Triangles in one plane intersect if they overlap. A triangle without area is treated as an edge; two such
    triangles give 0.
    """

@_overload
def noise(state: int, x: float) -> float:
    """`noise(state: uint32, x: float) -> float`
    `noise(state: uint32, xy: vec2) -> float`
    `noise(state: uint32, xyz: vec3) -> float`
    `noise(state: uint32, xyzt: vec4) -> float`

    Perlin noise: a smooth random function of a point, 0 at integer coordinates. The state chooses the function, and
    does not advance.
    """

@_overload
def noise(state: int, xy: _Vec2) -> float:
    """`noise(state: uint32, x: float) -> float`
    `noise(state: uint32, xy: vec2) -> float`
    `noise(state: uint32, xyz: vec3) -> float`
    `noise(state: uint32, xyzt: vec4) -> float`

    Perlin noise: a smooth random function of a point, 0 at integer coordinates. The state chooses the function, and
    does not advance.
    """

@_overload
def noise(state: int, xyz: _Vec3) -> float:
    """`noise(state: uint32, x: float) -> float`
    `noise(state: uint32, xy: vec2) -> float`
    `noise(state: uint32, xyz: vec3) -> float`
    `noise(state: uint32, xyzt: vec4) -> float`

    Perlin noise: a smooth random function of a point, 0 at integer coordinates. The state chooses the function, and
    does not advance.
    """

@_overload
def noise(state: int, xyzt: _Vec4) -> float:
    """`noise(state: uint32, x: float) -> float`
    `noise(state: uint32, xy: vec2) -> float`
    `noise(state: uint32, xyz: vec3) -> float`
    `noise(state: uint32, xyzt: vec4) -> float`

    Perlin noise: a smooth random function of a point, 0 at integer coordinates. The state chooses the function, and
    does not advance.
    """

@_overload
def pnoise(state: int, x: float, px: int) -> float:
    """`pnoise(state: uint32, x: float, px: int) -> float`
    `pnoise(state: uint32, xy: vec2, px: int, py: int) -> float`
    `pnoise(state: uint32, xyz: vec3, px: int, py: int, pz: int) -> float`
    `pnoise(state: uint32, xyzt: vec4, px: int, py: int, pz: int, pt: int) -> float`

    Perlin noise with a period along each axis, given in units. It is periodic where coordinates are not negative,
    as in Warp.
    """

@_overload
def pnoise(state: int, xy: _Vec2, px: int, py: int) -> float:
    """`pnoise(state: uint32, x: float, px: int) -> float`
    `pnoise(state: uint32, xy: vec2, px: int, py: int) -> float`
    `pnoise(state: uint32, xyz: vec3, px: int, py: int, pz: int) -> float`
    `pnoise(state: uint32, xyzt: vec4, px: int, py: int, pz: int, pt: int) -> float`

    Perlin noise with a period along each axis, given in units. It is periodic where coordinates are not negative,
    as in Warp.
    """

@_overload
def pnoise(state: int, xyz: _Vec3, px: int, py: int, pz: int) -> float:
    """`pnoise(state: uint32, x: float, px: int) -> float`
    `pnoise(state: uint32, xy: vec2, px: int, py: int) -> float`
    `pnoise(state: uint32, xyz: vec3, px: int, py: int, pz: int) -> float`
    `pnoise(state: uint32, xyzt: vec4, px: int, py: int, pz: int, pt: int) -> float`

    Perlin noise with a period along each axis, given in units. It is periodic where coordinates are not negative,
    as in Warp.
    """

@_overload
def pnoise(state: int, xyzt: _Vec4, px: int, py: int, pz: int, pt: int) -> float:
    """`pnoise(state: uint32, x: float, px: int) -> float`
    `pnoise(state: uint32, xy: vec2, px: int, py: int) -> float`
    `pnoise(state: uint32, xyz: vec3, px: int, py: int, pz: int) -> float`
    `pnoise(state: uint32, xyzt: vec4, px: int, py: int, pz: int, pt: int) -> float`

    Perlin noise with a period along each axis, given in units. It is periodic where coordinates are not negative,
    as in Warp.
    """

@_overload
def curlnoise(state: int, xy: _Vec2, octaves: int = ..., lacunarity: float = ..., gain: float = ...) -> vec2:
    """`curlnoise(state: uint32, xy: vec2, octaves: uint32 = wp.uint32(1), lacunarity: float = 2.0, gain: float = 0.5) -> vec2`
    `curlnoise(state: uint32, xyz: vec3, octaves: uint32 = wp.uint32(1), lacunarity: float = 2.0, gain: float = 0.5) -> vec3`
    `curlnoise(state: uint32, xyzt: vec4, octaves: uint32 = wp.uint32(1), lacunarity: float = 2.0, gain: float = 0.5) -> vec3`

    The curl of Perlin noise: a vector field without divergence. A fourth coordinate is time. `octaves` layers of
    noise are added. Each has `lacunarity` times the frequency and `gain` times the amplitude of the one before.
    """

@_overload
def curlnoise(state: int, xyz: _Vec3, octaves: int = ..., lacunarity: float = ..., gain: float = ...) -> vec3:
    """`curlnoise(state: uint32, xy: vec2, octaves: uint32 = wp.uint32(1), lacunarity: float = 2.0, gain: float = 0.5) -> vec2`
    `curlnoise(state: uint32, xyz: vec3, octaves: uint32 = wp.uint32(1), lacunarity: float = 2.0, gain: float = 0.5) -> vec3`
    `curlnoise(state: uint32, xyzt: vec4, octaves: uint32 = wp.uint32(1), lacunarity: float = 2.0, gain: float = 0.5) -> vec3`

    The curl of Perlin noise: a vector field without divergence. A fourth coordinate is time. `octaves` layers of
    noise are added. Each has `lacunarity` times the frequency and `gain` times the amplitude of the one before.
    """

@_overload
def curlnoise(state: int, xyzt: _Vec4, octaves: int = ..., lacunarity: float = ..., gain: float = ...) -> vec3:
    """`curlnoise(state: uint32, xy: vec2, octaves: uint32 = wp.uint32(1), lacunarity: float = 2.0, gain: float = 0.5) -> vec2`
    `curlnoise(state: uint32, xyz: vec3, octaves: uint32 = wp.uint32(1), lacunarity: float = 2.0, gain: float = 0.5) -> vec3`
    `curlnoise(state: uint32, xyzt: vec4, octaves: uint32 = wp.uint32(1), lacunarity: float = 2.0, gain: float = 0.5) -> vec3`

    The curl of Perlin noise: a vector field without divergence. A fourth coordinate is time. `octaves` layers of
    noise are added. Each has `lacunarity` times the frequency and `gain` times the amplitude of the one before.
    """
