"""Surfaces of fields outside of JAX, by the classes that programs of Warp use."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import jax

import jaxwarp as wp
from jaxwarp import compat
from jaxwarp.arrays.host_array import HostArray
from jaxwarp.boundary import boundary, guarded
from jaxwarp.errors import KernelTypeError, KernelValueError, type_text
from jaxwarp.geometry.surfaces import marching_cubes, surface_nets
from jaxwarp.geometry.surfaces.cases import CORNERS, EDGES, triangle_table
from jaxwarp.geometry.surfaces.extraction import Method, extract_outside
from jaxwarp.geometry.surfaces.surface import require_field


@guarded
class IsoSurfaceBase(ABC):
    """Extracts surfaces of fields of one shape, outside of JAX, into arrays of as many vertices and faces as there are.

    In JAX: `geometry.marching_cubes`, `geometry.surface_nets`. A `Tape` follows the vertices, by the field; faces are
    counterclockwise as seen from where the field is above the threshold.

    Args:
        nx, ny, nz: numbers of nodes.
        lower, upper: where the first and the last node are; by default at their indices.

    Attributes:
        verts: array of `vec3`, after `surface`.
        indices: array of int32, the vertices of all faces.
    """

    _SETTABLE: ClassVar[tuple[str, ...]] = ("nx", "ny", "nz", "lower", "upper",)
    _HINTS: ClassVar[dict[str, str]] = dict.fromkeys(("verts", "indices"), "surface(field) sets them")

    def __init__(self, nx: int, ny: int, nz: int, *, lower: Any = None, upper: Any = None) -> None:
        self.nx, self.ny, self.nz = nx, ny, nz
        self.lower, self.upper = lower, upper
        self.verts: Any = None
        self.indices: Any = None

    def resize(self, nx: int, ny: int, nz: int) -> None:
        """Fields have another shape from now on."""
        self.nx, self.ny, self.nz = nx, ny, nz

    @boundary
    def surface(self, field: Any, threshold: float = 0.0) -> None:
        """Sets `verts` and `indices` to the surface where the field is `threshold`.

        Raises:
            KernelTypeError, KernelValueError: the field is no array of float32, of this shape.
        """
        nodes, given = (self.nx, self.ny, self.nz), getattr(field, "shape", None)
        if given is not None and tuple(given) != nodes:
            raise KernelValueError(
                f"{type(self).__name__}.surface: field: expected the shape {nodes}, got {tuple(given)}",
                hint="call resize first",
            )
        self.verts, self.indices = self._extract(field, threshold)

    @abstractmethod
    def _extract(self, field: Any, threshold: float) -> tuple[Any, Any]: ...


def _extracted(where: str, method: Method, field: Any, threshold: Any, corners: tuple[Any, Any]) -> tuple[Any, Any]:
    if compat.is_tracing() or isinstance(field, jax.Array):
        raise KernelTypeError(
            f"{where}: in JAX arrays have a size that does not depend on values",
            hint="call geometry.marching_cubes(field, threshold, size=...), or surface_nets",
        )
    if not isinstance(field, HostArray):
        raise KernelTypeError(
            f"{where}: field: expected an array of float32, got {type_text(field)}",
            hint="wp.array(field, dtype=float)",
        )
    require_field(where, field)
    ends = [[0.0] * 3, [float(n - 1) for n in field.shape]]
    bounds = [wp.vec3(*(end if given is None else given)) for given, end in zip(corners, ends, strict=True)]
    return extract_outside(method, field, float(threshold), bounds)


class IsoSurfaceMarchingCubes(IsoSurfaceBase):
    """Surfaces by marching cubes, outside of JAX, for programs of Warp; `wp.MarchingCubes` is the same.

    Args:
        nx, ny, nz, lower, upper: as of `IsoSurfaceBase`.
        domain_bounds_lower_corner, domain_bounds_upper_corner: older names of `lower` and `upper`.

    Attributes:
        CUBE_CORNER_OFFSETS, EDGE_TO_CORNERS: the corners of a cell, and those of its edges.
        CASE_TO_TRI_RANGE, TRI_LOCAL_INDICES: where each case's triangles begin, and on which edges their corners are.
            Bit n of a case says whether corner n is above or at the threshold.
    """

    CUBE_CORNER_OFFSETS: ClassVar = CORNERS
    EDGE_TO_CORNERS: ClassVar = EDGES
    CASE_TO_TRI_RANGE: ClassVar = triangle_table()[0]
    TRI_LOCAL_INDICES: ClassVar = triangle_table()[1]

    @boundary
    def __init__(
        self,
        nx: int,
        ny: int,
        nz: int,
        lower: Any = None,
        upper: Any = None,
        *,
        domain_bounds_lower_corner: Any = None,
        domain_bounds_upper_corner: Any = None,
    ) -> None:
        for name, one, other in (("lower", lower, domain_bounds_lower_corner),
                                 ("upper", upper, domain_bounds_upper_corner)):  # fmt: skip
            if one is not None and other is not None:
                raise KernelTypeError(
                    f"IsoSurfaceMarchingCubes: {name} and domain_bounds_{name}_corner are the same", hint="pass one"
                )
        low = domain_bounds_lower_corner if lower is None else lower
        super().__init__(nx, ny, nz, lower=low, upper=domain_bounds_upper_corner if upper is None else upper)

    @property
    def domain_bounds_lower_corner(self) -> Any:
        """The older name of `lower`."""
        return self.lower

    @domain_bounds_lower_corner.setter
    def domain_bounds_lower_corner(self, value: Any) -> None:
        self.lower = value

    @property
    def domain_bounds_upper_corner(self) -> Any:
        """The older name of `upper`."""
        return self.upper

    @domain_bounds_upper_corner.setter
    def domain_bounds_upper_corner(self, value: Any) -> None:
        self.upper = value

    def _extract(self, field: Any, threshold: float) -> tuple[Any, Any]:
        return self.extract(field, threshold, lower=self.lower, upper=self.upper)

    @classmethod
    @boundary
    def extract(cls, field: Any, threshold: float = 0.0, *, lower: Any = None, upper: Any = None) -> tuple[Any, Any]:
        """`verts, indices` of the surface where the field, an array of float32 outside of JAX, is `threshold`."""
        points, faces = _extracted(f"{cls.__name__}.extract", marching_cubes.METHOD, field, threshold, (lower, upper))
        return points, wp.array(faces.reshape(-1), dtype=int, device=points.device)

    @staticmethod
    def extract_surface_marching_cubes(
        field: Any,
        threshold: float = 0.0,
        domain_bounds_lower_corner: Any = None,
        domain_bounds_upper_corner: Any = None,
    ) -> tuple[Any, Any]:
        """The older name of `extract`."""
        return IsoSurfaceMarchingCubes.extract(
            field, threshold, lower=domain_bounds_lower_corner, upper=domain_bounds_upper_corner
        )


class IsoSurfaceNets(IsoSurfaceBase):
    """Surfaces by surface nets, outside of JAX, for programs of Warp.

    Args:
        nx, ny, nz, lower, upper: as of `IsoSurfaceBase`.
        topology: "triangle" or "quad": what `indices` are of.
    """

    _SETTABLE: ClassVar[tuple[str, ...]] = ("nx", "ny", "nz", "lower", "upper", "topology",)

    @boundary
    def __init__(
        self, nx: int, ny: int, nz: int, *, lower: Any = None, upper: Any = None, topology: str = "triangle"
    ) -> None:
        _require_topology(topology)
        super().__init__(nx, ny, nz, lower=lower, upper=upper)
        self.topology = topology

    def _extract(self, field: Any, threshold: float) -> tuple[Any, Any]:
        return self.extract(field, threshold, lower=self.lower, upper=self.upper, topology=self.topology)

    @classmethod
    @boundary
    def extract(
        cls, field: Any, threshold: float = 0.0, *, lower: Any = None, upper: Any = None, topology: str = "triangle"
    ) -> tuple[Any, Any]:
        """`verts, indices` of the surface where the field, an array of float32 outside of JAX, is `threshold`."""
        _require_topology(topology)
        points, quads = _extracted(f"{cls.__name__}.extract", surface_nets.METHOD, field, threshold, (lower, upper))
        faces = quads if topology == "quad" else surface_nets.cut_quads(points.numpy(), quads)
        return points, wp.array(faces.reshape(-1), dtype=int, device=points.device)


def _require_topology(topology: Any) -> None:
    if topology not in ("triangle", "quad"):
        raise KernelValueError(f"IsoSurfaceNets: topology: expected 'triangle' or 'quad', got {topology!r}")


MarchingCubes = IsoSurfaceMarchingCubes
