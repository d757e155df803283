"""Domains: what is integrated over."""

# pyright: reportRedeclaration=false, reportInvalidTypeForm=false

from __future__ import annotations

import functools
from typing import Any

import numpy as np

import jaxwarp as wp
from jaxwarp.boundary import boundaries
from jaxwarp.errors import KernelTypeError, KernelValueError, type_text
from jaxwarp.fem import operators
from jaxwarp.fem.calls import constant, part
from jaxwarp.fem.geometry.geometries import Geometry
from jaxwarp.fem.geometry.kinds import make_kind
from jaxwarp.fem.geometry.partition import (
    ElementIndexArg,
    GeometryPartition,
    chosen_by_mask,
    numbers_of,
    of_sides_now,
    whole,
)
from jaxwarp.fem.geometry.places import of_cells, of_sides
from jaxwarp.fem.geometry.reference import Element
from jaxwarp.fem.types import NULL_ELEMENT_INDEX, ElementKind, Sample, Sample_f64


@boundaries
class GeometryDomain:
    """Some cells, or sides, of a geometry: `elements` are their numbers there."""

    element_kind: ElementKind
    elements: Any

    def __init__(self, geometry: Any) -> None:
        if not isinstance(geometry, (Geometry, GeometryPartition)):
            raise KernelTypeError(f"{type(self).__name__}: geometry: expected a geometry, got {geometry!r}")
        self.geometry_partition = whole(geometry) if isinstance(geometry, Geometry) else geometry
        self.geometry: Any = self.geometry_partition.geometry

    @property
    def dimension(self) -> int:
        return self.reference_element().dimension

    @property
    def name(self) -> str:
        return type(self).__name__

    def element_count(self) -> int:
        return len(self.elements)

    def geometry_element_count(self) -> int:
        cells = self.element_kind is ElementKind.CELL
        return self.geometry.cell_count() if cells else self.geometry.side_count()

    def reference_element(self) -> Element:
        element = self.geometry.element
        return element if self.element_kind is ElementKind.CELL else element.side

    @property
    def element_array(self) -> Any:
        elements = self.elements
        known, found = self.__dict__.get("_element_array", (None, None))
        if known is not elements:
            found = self.geometry.integers(elements)
            self._element_array = elements, found
        return found

    @property
    def has_outer_cells(self) -> bool:
        """True if there are sides between cells."""
        if self.element_kind is ElementKind.CELL:
            return False
        inner, outer = self.geometry.sides.cells[self.elements].T
        return bool((inner != outer).any())

    def same_elements(self, other: GeometryDomain) -> bool:
        """Return whether another domain has the same elements of the same geometry, even if it is another object."""
        return self is other or (
            self.geometry is other.geometry
            and self.element_kind is other.element_kind
            and np.array_equal(self.elements, other.elements)
        )

    @property
    def arguments(self) -> Any:
        geometry = self.geometry.arguments
        return self.DomainArg(geometry=geometry, index=ElementIndexArg(self.element_array))

    @property
    def ElementArg(self) -> Any:
        """The struct of `element_arg_value`, to annotate an argument of a kernel."""
        return type(self.geometry.arguments)

    @property
    def ElementIndexArg(self) -> Any:
        """The struct of `element_index_arg_value`, to annotate an argument of a kernel."""
        return ElementIndexArg

    @property
    def DomainArg(self) -> Any:
        """The struct that functions of the domain take: `DomainArg(element_arg, element_index_arg)` in a kernel."""
        return domain_kind(self.ElementArg, self.element_kind is ElementKind.CELL)

    def element_arg_value(self, device: Any = None) -> Any:
        """Return the geometry, for a kernel; `device` has no effect."""
        del device
        return self.geometry.arguments

    def element_index_arg_value(self, device: Any = None) -> Any:
        """Return the numbers of the elements, for a kernel; `device` has no effect."""
        del device
        return ElementIndexArg(self.element_array)


@boundaries
class Cells(GeometryDomain):
    """The cells of a geometry, or of a part of one."""

    element_kind = ElementKind.CELL

    @property
    def elements(self) -> np.ndarray:
        return self.geometry_partition.cells

    @property
    def element_partition_lookup(self) -> Any:
        """The function `(domain_arg, position)` or `(domain_arg, position, max_dist)`: `fem.partition_lookup`.

        The last argument may be the number of an environment. It has to be given where there are several.
        """
        return self._function("partition_lookup")

    @property
    def element_coordinates(self) -> Any:
        """The function `(element_arg, cell, position)`: coordinates in the cell, also of a position outside of it."""
        return self._function("element_coordinates")

    @property
    def element_index(self) -> Any:
        """The function `(element_index_arg, place)`: the cell at a place in the part."""
        return self.geometry_partition.cell_index

    @property
    def element_partition_index(self) -> Any:
        """The function `(element_index_arg, cell)`: the place of a cell in the part, or -1."""
        return self.geometry_partition.partition_cell_index

    def _function(self, name: str) -> Any:
        found = self.DomainArg.FUNCTIONS.get(name)
        if found is None:
            raise KernelTypeError(
                f"Cells.{name}: expected cells of a grid, got those of {type(self.geometry).__name__}",
                hint=_NEEDS_GRID[name],
            )
        return found


@boundaries
class Sides(GeometryDomain):
    """The sides of a geometry: those between two cells and those at the boundary."""

    element_kind = ElementKind.SIDE

    @property
    def elements(self) -> np.ndarray:
        return self.geometry_partition.sides


@boundaries
class BoundarySides(GeometryDomain):
    """The sides with one cell."""

    element_kind = ElementKind.SIDE

    @of_sides_now
    def elements(self) -> np.ndarray:
        return np.intersect1d(self.geometry_partition.sides, self.geometry.sides.boundary)


@boundaries
class FrontierSides(GeometryDomain):
    """The sides between the cells of a part of a geometry and other ones."""

    element_kind = ElementKind.SIDE

    @of_sides_now
    def elements(self) -> np.ndarray:
        is_inside = np.zeros(self.geometry.cell_count(), bool)
        is_inside[self.geometry_partition.cells] = True
        of_sides = is_inside[self.geometry.sides.cells]
        return np.flatnonzero(of_sides[:, 0] != of_sides[:, 1]).astype(np.int32)


@boundaries
class Subdomain(GeometryDomain):
    """Some elements of a domain.

    Args:
        domain: the domain.
        element_mask: an array that is not zero for those that are meant, in the order of the domain.
        element_indices: or their numbers in the domain.
    """

    def __init__(self, domain: GeometryDomain, element_mask: Any = None, element_indices: Any = None,
                 temporary_store: Any = None) -> None:  # fmt: skip
        del temporary_store
        if (element_mask is None) == (element_indices is None):
            raise KernelValueError("Subdomain: expected one of element_mask and element_indices")
        if not isinstance(domain, GeometryDomain):
            raise KernelTypeError(f"Subdomain: domain: expected a domain, got {type_text(domain)}")
        super().__init__(domain.geometry_partition)
        self.element_kind = domain.element_kind
        count = domain.element_count()
        if element_mask is not None:
            chosen = chosen_by_mask("Subdomain: element_mask", element_mask, count)
        else:
            chosen = _numbers_in("Subdomain: element_indices", element_indices, count)
        self._elements = domain.elements[chosen]
        self._sides = None if self.element_kind is ElementKind.CELL else self.geometry.sides

    @property
    def elements(self) -> np.ndarray:
        now = self.geometry.sides if self._sides is not None else None
        if now is not self._sides:
            if not same_sides(self._sides, now, self._elements):
                raise KernelValueError(
                    "Subdomain: the indices of the mesh have changed since its sides were chosen by their numbers",
                    hint="make the subdomain anew",
                )
            self._sides = now
        return self._elements


def _numbers_in(what: str, given: Any, count: int) -> np.ndarray:
    found = numbers_of(what, given)
    if found.ndim != 1 or found.dtype.kind not in "iu":
        raise KernelTypeError(f"{what}: expected a row of integers, got {found.dtype} of shape {found.shape}")
    if found.size and not 0 <= found.min() <= found.max() < count:
        raise KernelValueError(f"{what}: expected numbers from 0 to {count - 1}, got {found.min()} to {found.max()}")
    return found


def same_sides(old: Any, new: Any, numbers: np.ndarray) -> bool:
    """Return whether sides of these numbers are still where they were, in the same cells."""
    if numbers.size and numbers.max() >= len(new.cells):
        return False
    return all(
        np.array_equal(getattr(old, n)[numbers], getattr(new, n)[numbers]) for n in ("cells", "corners", "vertices")
    )


_NEEDS_BVH = {"lookup": "make the mesh with build_bvh=True; on sides, look up in fem.cells(domain)"}


_NEEDS_GRID = {
    "partition_lookup": "use lookup, which finds the closest point of all cells",
    "element_coordinates": "use lookup, which finds the coordinates, too",
}


@functools.cache
def domain_kind(geometry: Any, is_cells: bool) -> Any:
    """The struct of domains of a kind of geometry."""
    places = of_cells(geometry) if is_cells else of_sides(geometry)
    names = ("position", "normal", "deformation_gradient", "measure", "measure_ratio", "inner_cell", "outer_cell")
    functions = {n: _of_geometry(places[n]) for n in names if n in places}

    @wp.func
    def element_index(domain: Any, index: int):
        return domain.index.elements[index]

    functions |= {
        "scalar_type": constant(geometry.SCALAR), "element_index": element_index,
        "environment_index": _environment(geometry, is_cells), "geometry": part("geometry"),
    }  # fmt: skip
    name = f"{'Cells' if is_cells else 'Sides'}_{geometry.__name__}"
    if is_cells:
        functions |= _lookups(geometry, places["position"])
        functions["element_partition_index"] = _partition_index
    fields = {"geometry": geometry, "index": ElementIndexArg}
    made = make_kind(name, fields, functions, HINTS=_NEEDS_BVH | _NEEDS_GRID, __call__=operators.position)
    if not is_cells:
        functions["cells"] = _cells_of_sides(domain_kind(geometry, True))
    else:
        functions["cells"] = _same
    return made


@wp.func
def _partition_index(domain: Any, cell: int):
    return GeometryPartition.partition_cell_index(domain.index, cell)


@wp.func
def _same(domain: Any):
    return domain


def _cells_of_sides(kind: Any) -> Any:
    @wp.func
    def cells(domain: Any):
        return kind(domain.geometry, domain.index)

    return cells


def _of_geometry(function: Any) -> Any:
    @wp.func
    def of_domain(domain: Any, s: Any):
        return function(domain.geometry, s)

    return of_domain


def _environment(geometry: Any, is_cells: bool) -> Any:
    function = geometry.FUNCTIONS.get("environment")

    @wp.func
    def first(domain: Any, s: Any):
        return 0

    @wp.func
    def of_cell(domain: Any, s: Any):
        return function(domain.geometry, s.element_index)

    @wp.func
    def of_side(domain: Any, s: Any):
        if s.element_index < 0:
            return -1
        return function(domain.geometry, domain.geometry.side_cells[s.element_index, 0])

    return first if function is None else of_cell if is_cells else of_side


def _lookups(geometry: Any, position: Any) -> dict[str, Any]:
    """Return the functions that find cells."""
    found, scalar = geometry.FUNCTIONS, geometry.SCALAR
    near = found.get("lookup_near")
    if "environment_lookup" in found:
        is_one = "lookup" in found
        return {
            "lookup": _lookup_of_grid(found["environment_lookup"], found["environment"], position, scalar, is_one),
            "partition_lookup": _lookup_in(found["lookup_in"], scalar, is_one),
            "element_coordinates": found["coordinates"],
        }
    if "lookup" not in found:
        return {}
    if near is None:
        return {"lookup": _lookup(found["lookup"], position, scalar)}
    return {
        "lookup": _lookup_near(found["lookup"], near, position, scalar),
        "partition_lookup": _lookup_in(found["lookup_in"], scalar, is_one=True),
        "element_coordinates": found["coordinates"],
    }


def _lookup_of_grid(function: Any, environment_of: Any, position_of: Any, scalar: Any, is_one: bool) -> Any:
    """Make the lookup in an environment; `is_one`: it may be left out."""

    @wp.func
    def near(domain: Any, position: Any, max_dist: scalar, environment: int):
        found = function(domain.geometry, position, environment)
        if wp.length(position_of(domain.geometry, found) - position) > max_dist:
            found.element_index = NULL_ELEMENT_INDEX
        return found

    @wp.func
    def lookup(domain: Any, position: Any, guess: Sample):
        return function(domain.geometry, position, environment_of(domain.geometry, guess.element_index))

    @wp.func
    def lookup(domain: Any, position: Any, guess: Sample_f64):
        return function(domain.geometry, position, environment_of(domain.geometry, guess.element_index))

    @wp.func
    def lookup(domain: Any, position: Any, environment: int):
        return function(domain.geometry, position, environment)

    @wp.func
    def lookup(domain: Any, position: Any, max_dist: scalar, environment: int):
        return near(domain, position, max_dist, environment)

    if is_one:

        @wp.func
        def lookup(domain: Any, position: Any):
            return function(domain.geometry, position, 0)

        @wp.func
        def lookup(domain: Any, position: Any, max_dist: scalar):
            return near(domain, position, max_dist, 0)

    return lookup


def _lookup(function: Any, position_of: Any, scalar: Any) -> Any:
    @wp.func
    def lookup(domain: Any, position: Any):
        return function(domain.geometry, position)

    @wp.func
    def lookup(domain: Any, position: Any, guess: Sample):
        return function(domain.geometry, position)

    @wp.func
    def lookup(domain: Any, position: Any, guess: Sample_f64):
        return function(domain.geometry, position)

    @wp.func
    def lookup(domain: Any, position: Any, max_dist: scalar):
        found = function(domain.geometry, position)
        if wp.length(position_of(domain.geometry, found) - position) > max_dist:
            found.element_index = NULL_ELEMENT_INDEX
        return found

    return lookup


def _lookup_in(function: Any, scalar: Any, is_one: bool) -> Any:
    @wp.func
    def lookup(domain: Any, position: Any, environment: int):
        return function(domain.geometry, domain.index.elements, position, scalar(0.0), environment)

    @wp.func
    def lookup(domain: Any, position: Any, max_dist: scalar, environment: int):
        return function(domain.geometry, domain.index.elements, position, max_dist, environment)

    if is_one:

        @wp.func
        def lookup(domain: Any, position: Any):
            return function(domain.geometry, domain.index.elements, position, scalar(0.0), 0)

        @wp.func
        def lookup(domain: Any, position: Any, max_dist: scalar):
            return function(domain.geometry, domain.index.elements, position, max_dist, 0)

    return lookup


def _lookup_near(function: Any, near: Any, position_of: Any, scalar: Any) -> Any:
    """Make the same of a geometry that searches for cells up to a distance only: that of the guess, which is in one."""

    @wp.func
    def from_guess(domain: Any, position: Any, guess: Any):
        distance = wp.length(position_of(domain.geometry, guess) - position)
        return near(domain.geometry, position, distance * scalar(1.001))  # rounding must not hide the guess's own cell

    @wp.func
    def lookup(domain: Any, position: Any):
        return function(domain.geometry, position)

    @wp.func
    def lookup(domain: Any, position: Any, guess: Sample):
        return from_guess(domain, position, guess)

    @wp.func
    def lookup(domain: Any, position: Any, guess: Sample_f64):
        return from_guess(domain, position, guess)

    @wp.func
    def lookup(domain: Any, position: Any, max_dist: scalar):
        return near(domain.geometry, position, max_dist)

    return lookup
