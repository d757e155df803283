"""Quadratures whose points are particles: any number of them in an element."""

# pyright: reportInvalidTypeForm=false

from __future__ import annotations

import functools
from typing import Any

import numpy as np

import jaxwarp as wp
from jaxwarp.arrays.host_array import HostArray
from jaxwarp.boundary import boundaries
from jaxwarp.errors import KernelTypeError, KernelValueError, type_text
from jaxwarp.fem import operators
from jaxwarp.fem.domain import GeometryDomain
from jaxwarp.fem.geometry.kinds import make_kind
from jaxwarp.fem.quadrature import Quadrature, require_domain
from jaxwarp.fem.types import NULL_ELEMENT_INDEX, ElementKind, sample_type, vector
from jaxwarp.types import Scalar, element_scalar

_ROUNDING = 1e-5
"""How far outside of a cell, beside its size, a particle is still in it."""


@functools.cache
def particle_kind(scalar: Any) -> Any:
    """Points in the order of their elements; those of an element are from its offset to the next one."""

    @wp.func
    def point_count(points: Any, element: int):
        return points.offsets[element + 1] - points.offsets[element]

    @wp.func
    def point_at(points: Any, element: int, e: int, q: int):
        at = points.offsets[element] + q
        return points.coords[at], points.weights[at], points.particles[at]

    fields = {"offsets": wp.array[int], "particles": wp.array[int], "coords": wp.array[vector(3, scalar)],
              "weights": wp.array[scalar]}  # fmt: skip
    return make_kind(f"Particles_{scalar}", fields, {"point_count": point_count, "point_at": point_at})


@functools.cache
def _lookup_kernel(scalar: Any, dimension: int, has_environments: bool) -> Any:
    made, lookup, position, measure = vector(3, scalar), operators.lookup, operators.position, operators.measure

    def found_in(domain: Any, point: Any, max_dist: Any, environment: Any):
        s = lookup(domain, point, max_dist)
        if s.element_index == NULL_ELEMENT_INDEX:  # it may be beside a cell, by rounding
            s = lookup(domain, point)
        return s

    def found_in_environment(domain: Any, point: Any, max_dist: Any, environment: Any):
        s = lookup(domain, point, max_dist, environment)
        if s.element_index == NULL_ELEMENT_INDEX:
            s = lookup(domain, point, environment)
        return s

    find = wp.func(found_in_environment if has_environments else found_in)

    @wp.kernel
    def find_cells(domain: Any, positions: wp.array[Any], max_dist: scalar, environments: wp.array[int],
                   cells: wp.array[int], coords: wp.array[made]):  # fmt: skip
        """NULL_ELEMENT_INDEX for what is farther away than `max_dist`."""
        i = wp.tid()
        point = positions[i]
        environment = 0
        if environments:
            environment = environments[i]
        s = find(domain, point, max_dist, environment)
        found = s.element_index
        if found != NULL_ELEMENT_INDEX:
            size = wp.pow(measure(domain, s), scalar(wp.static(1.0 / dimension)))
            if not wp.length(position(domain, s) - point) <= max_dist + scalar(_ROUNDING) * size:
                found = NULL_ELEMENT_INDEX
        cells[i] = found
        coords[i] = s.element_coords

    return find_cells


@functools.cache
def _gather_kernel(scalar: Any) -> Any:
    made, sample, measure = vector(3, scalar), sample_type(scalar), operators.measure

    @wp.kernel
    def gather(domain: Any, order: wp.array[int], cells: wp.array[int], given: wp.array[made], width: int,
               offsets: wp.array[int], measures: wp.array[scalar], fractions: wp.array[scalar],
               coords: wp.array[made], weights: wp.array[scalar]):  # fmt: skip
        """Points in the order of their cells, and what part of the cell each is."""
        i = wp.tid()
        entry = order[i]
        cell = cells[entry]
        at = given[entry]
        weight = scalar(1.0)
        if measures:
            weight = measures[entry // width] / measure(domain, sample(cell, at))
        else:
            weight = scalar(1.0) / scalar(offsets[cell + 1] - offsets[cell])
        if fractions:
            weight *= fractions[entry]
        coords[i] = at
        weights[i] = weight

    return gather


@boundaries
class PicQuadrature(Quadrature):
    """Particles as points, as many as there are in each cell. `s.qp_index` is the number of the particle.

    Args:
        domain: cells of a geometry, or of a part of one. You may set another domain of the geometry later.
        positions: the positions of the particles; or a pair of arrays, the cell of each particle and its coordinates
            there; or three arrays of shape (particles, cells of each), the third with the particle's part in each cell.
            A cell of -1 is none.
        measures: the area or volume of each particle; None: all particles in a cell have an equal part of it.
        env_indices: the environment of each particle, of integers, if `positions` is one array. None: the first one, if
            the geometry has no other.
        requires_grad: whether the points have gradients by positions, measures and coordinates, as they have if one of
            these arrays has.
        max_dist: how far outside of the domain a particle may be; then it counts at the closest point. A particle
            farther away is in no cell.
        use_domain_element_indices: whether the cells of `positions` and of `cell_particle_offsets` have the numbers of
            the domain's part, from 0, not those of the geometry. Then you cannot set another domain.
        temporary_store: accepted, no effect.

    Raises:
        KernelTypeError, KernelValueError: the arguments are not that.
    """

    def __init__(
        self, domain: GeometryDomain, positions: Any, measures: Any = None, env_indices: Any = None,
        requires_grad: bool = False, max_dist: float = 0.0, use_domain_element_indices: bool = False,
        temporary_store: Any = None,
    ) -> None:  # fmt: skip
        del temporary_store
        self._is_fixed = False
        super().__init__(domain)
        self._is_fixed = use_domain_element_indices
        cells, coords, fractions = self._places(positions, float(max_dist), requires_grad, env_indices)
        self._count, self.has_repeated_points = cells.shape[0], cells.ndim == 2
        if measures is not None:
            self._require("measures", measures, domain.geometry.scalar_type, (self._count,))
        is_of_part = use_domain_element_indices and isinstance(positions, (tuple, list))
        self._bin(cells, coords, fractions, measures, requires_grad, is_of_part)

    def _require(self, name: str, given: Any, dtype: Any, shape: tuple[int, ...] | None) -> None:
        if not isinstance(given, HostArray):
            raise KernelTypeError(
                f"PicQuadrature: {name}: expected an array outside of JAX, got {type_text(given)}",
                hint="make it with wp.array: which cell a particle is in decides how long arrays are",
            )
        if given.dtype != dtype or (shape is not None and given.shape != shape):
            wanted = f"{dtype}" if shape is None else f"{dtype} of shape {shape}"
            raise KernelTypeError(f"PicQuadrature: {name}: expected {wanted}, got {given.dtype} of shape {given.shape}")

    def _places(self, positions: Any, max_dist: float, requires_grad: bool, environments: Any) -> tuple[Any, Any, Any]:
        """The cell of each particle, its coordinates there, and perhaps the particle's part in the cell."""
        geometry = self.domain.geometry
        scalar = geometry.scalar_type
        if not isinstance(positions, (tuple, list)):
            return *self._looked_up(positions, max_dist, requires_grad, environments), None
        if environments is not None:
            raise KernelValueError("PicQuadrature: env_indices: expected None, as the cells of particles are given")
        if len(positions) not in (2, 3):
            raise KernelValueError(
                f"PicQuadrature: positions: expected an array, a pair of arrays or three, got {len(positions)}"
            )
        cells, coords = positions[:2]
        self._require("positions[0]", cells, wp.int32, None)
        self._require("positions[1]", coords, vector(3, scalar), cells.shape)
        if cells.ndim not in (1, 2):
            raise KernelTypeError(f"PicQuadrature: positions[0]: expected 1 or 2 axes, got {cells.ndim}")
        fractions = positions[2] if len(positions) == 3 else None
        if fractions is not None:
            self._require("positions[2]", fractions, scalar, cells.shape)
        return cells, coords, fractions

    def _environments(self, given: Any, count: int) -> Any:
        """Return the environments of particles, for a kernel, or None where a geometry has one.

        Particles of no environment are in no cell.
        """
        geometry = self.domain.geometry
        if given is None:
            if geometry.environment_count() > 1:
                raise KernelValueError(
                    f"PicQuadrature: env_indices: expected the environment of each particle, from 0 to"
                    f" {geometry.environment_count() - 1}, got None"
                )
            return None
        is_integer = isinstance(given, HostArray) and isinstance(given.dtype, Scalar) and given.dtype.is_int
        if not is_integer or given.shape != (count,):
            raise KernelTypeError(
                f"PicQuadrature: env_indices: expected an array of {count} integers outside of JAX, got"
                f" {getattr(given, 'dtype', type(given).__name__)} of shape {getattr(given, 'shape', None)}"
            )
        return geometry.integers(np.clip(given.numpy(), -1, geometry.environment_count()))

    def _looked_up(self, positions: Any, max_dist: float, requires_grad: bool, environments: Any) -> tuple[Any, Any]:
        domain, geometry = self.domain, self.domain.geometry
        scalar = geometry.scalar_type
        self._require("positions", positions, vector(geometry.dimension, scalar), None)
        environments = self._environments(environments, positions.shape[0])
        kind = type(domain.arguments)
        if "lookup" not in kind.FUNCTIONS:
            raise KernelValueError(
                "PicQuadrature: domain: positions cannot be looked up in it",
                hint="pass fem.Cells(geometry), of a mesh made with build_bvh=True, or cells and coordinates",
            )
        if max_dist > 0.0 and domain.element_count() != geometry.cell_count():
            raise KernelValueError(
                f"PicQuadrature: max_dist: expected 0 on a part of a geometry, got {max_dist}",
                hint="the closest cell may be outside of the part: use the whole geometry",
            )
        needs = requires_grad or positions.requires_grad
        cells = wp.zeros(positions.shape[0], dtype=int, device=geometry.device)
        coords = wp.zeros(positions.shape[0], dtype=vector(3, scalar), device=geometry.device, requires_grad=needs)
        kernel = _lookup_kernel(scalar, domain.dimension, "environment_lookup" in type(geometry.arguments).FUNCTIONS)
        inputs = [domain.arguments, positions, max_dist, environments]
        wp.launch(kernel, positions.shape[0], inputs, [cells, coords], device=geometry.device)
        return cells, coords

    def _bin(
        self, cells: Any, coords: Any, fractions: Any, measures: Any, requires_grad: bool, is_of_part: bool
    ) -> None:
        """Orders the entries by their cells. Where particles are found in a part of a geometry, others do not count."""
        domain, geometry = self.domain, self.domain.geometry
        scalar, count = geometry.scalar_type, domain.geometry_element_count()
        width = 1 if cells.ndim == 1 else cells.shape[1]
        numbers = cells.numpy().reshape(-1)
        limit = domain.element_count() if is_of_part else count
        if numbers.size and not -1 <= numbers.min() <= numbers.max() < limit:
            raise KernelValueError(
                f"PicQuadrature: positions[0]: expected cells from -1 to {limit - 1}, got {numbers.min()} to"
                f" {numbers.max()}"
            )
        if is_of_part:
            numbers = np.append(domain.elements, np.int32(-1))[numbers]
            cells = geometry.integers(numbers)
        is_inside = np.zeros(count + 1, bool)
        is_inside[domain.elements] = True
        is_inside[-1] = False  # of cell -1
        order = np.argsort(numbers, kind="stable")
        order = order[is_inside[numbers[order]]]
        self._counts = np.bincount(numbers[order], minlength=count)
        offsets = np.concatenate([[0], np.cumsum(self._counts)])
        self._offsets, self._particles = geometry.integers(offsets), geometry.integers(order // width)
        given = [a for a in (coords, fractions, measures) if a is not None]
        needs = requires_grad or any(a.requires_grad for a in given)
        self._coords, self._weights = (
            wp.zeros(len(order), dtype=dtype, device=geometry.device, requires_grad=needs)
            for dtype in (vector(3, scalar), scalar)
        )
        flat = [a if a is None or a.ndim == 1 else a.flatten() for a in (cells, coords, fractions)]
        wp.launch(_gather_kernel(scalar), len(order),
                  [domain.arguments, geometry.integers(order), flat[0], flat[1], width, self._offsets, measures,
                   flat[2]], [self._coords, self._weights], device=geometry.device)  # fmt: skip

    @property
    def domain(self) -> GeometryDomain:
        """The domain that is integrated over. Particles elsewhere do not count."""
        return self._domain

    @domain.setter
    def domain(self, domain: GeometryDomain) -> None:
        what = "PicQuadrature: domain"
        require_domain("PicQuadrature", domain)
        if domain.element_kind is not ElementKind.CELL:
            raise KernelValueError(f"{what}: expected cells, got sides", hint="pass fem.Cells(geometry)")
        old = self.__dict__.get("_domain")
        if self._is_fixed and domain is not old:
            raise KernelValueError(f"{what}: use_domain_element_indices=True keeps the first one")
        if old is not None and domain.geometry.base is not old.geometry.base:
            raise KernelValueError(f"{what}: expected cells of the geometry that particles were found in")
        self._domain = domain

    @property
    def arguments(self) -> Any:
        kind = particle_kind(self.domain.geometry.scalar_type)
        return kind(offsets=self._offsets, particles=self._particles, coords=self._coords, weights=self._weights)

    @property
    def cell_particle_offsets(self) -> Any:
        """The number of points in cells before each cell, and then in all of them."""
        if not self._is_fixed:
            return self._offsets
        return self.domain.geometry.integers(np.append(0, np.cumsum(self._counts[self.domain.elements])))

    @property
    def cell_particle_indices(self) -> Any:
        """The particles in the order of their cells."""
        return self._particles

    def total_point_count(self) -> int:
        """Return how many particles there are, in cells or not."""
        return self._count

    def evaluation_point_count(self) -> int:
        """Return how many points the cells have. A particle that is in several cells counts in each."""
        return self._particles.shape[0]

    def active_cell_count(self) -> int:
        """Return how many cells have a particle."""
        return int((self._counts > 0).sum())

    def max_points_per_element(self) -> int:
        """Return how many points the fullest cell of the domain has."""
        return int(self._counts[self.domain.elements].max(initial=0))

    def point_numbers(self, by_evaluation: bool = False) -> np.ndarray:
        elements, offsets = self.domain.elements, self._offsets.numpy()
        at = offsets[elements][:, None] + np.arange(self.max_points_per_element())
        is_used = at < offsets[elements + 1][:, None]
        numbers = np.arange(self.evaluation_point_count()) if by_evaluation else self._particles.numpy()
        return np.where(is_used, np.append(numbers, -1)[np.where(is_used, at, -1)], -1).astype(np.int32)

    def fill_element_mask(self, mask: Any) -> None:
        """Write 1 for each cell of the geometry that has a particle, and 0 for the others."""
        count = len(self._counts)
        if not isinstance(mask, HostArray) or mask.ndim != 1 or mask.shape[0] < count:
            raise KernelTypeError(
                f"PicQuadrature.fill_element_mask: mask: expected an array outside of JAX of {count} numbers, got"
                f" {type_text(mask)} of shape {getattr(mask, 'shape', None)}"
            )
        has_some = (self._counts > 0).astype(element_scalar(mask.dtype).numpy)
        filled = wp.array(has_some, dtype=mask.dtype, device=mask.device)
        wp.copy(mask, filled, count=count)
