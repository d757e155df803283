"""Function spaces: shape functions, how nodes are shared, and the type of values."""

# pyright: reportInvalidTypeForm=false

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any, ClassVar

import jaxwarp as wp
from jaxwarp.boundary import boundaries, boundary
from jaxwarp.errors import KernelTypeError, KernelValueError, type_text
from jaxwarp.fem.domain import Cells
from jaxwarp.fem.geometry.geometries import Geometry
from jaxwarp.fem.space.mapper import DofMapper, identity
from jaxwarp.fem.space.parts import partition_of
from jaxwarp.fem.space.polynomial import Polynomial
from jaxwarp.fem.space.shapes import ElementBasis, ShapeFunctions, make_shape
from jaxwarp.fem.space.topology import SpaceTopology
from jaxwarp.fem.space.vectors import VECTOR_BASES, make_vector_shape
from jaxwarp.fem.types import vector
from jaxwarp.types import Array, Scalar, as_dtype, element_scalar


@boundaries
class BasisSpace:
    """Shape functions on a geometry."""

    def __init__(self, geometry: Geometry, shape: ShapeFunctions, discontinuous: bool) -> None:
        self.geometry, self.shape = geometry, shape
        self.topology = SpaceTopology(geometry, shape, discontinuous)

    @property
    def degree(self) -> int:
        return self.shape.degree

    def node_count(self) -> int:
        return self.topology.node_count()

    def node_positions(self, out: Any = None) -> Any:
        """The positions of the nodes."""
        geometry = self.geometry
        made = (
            wp.zeros(self.node_count(), dtype=_positions_of(geometry), device=geometry.device) if out is None else out
        )
        points, _, _ = self.topology.nodal_arrays(Cells(geometry))
        inputs = [geometry.arguments, self.topology.array, points, int(points.shape[0] != 1)]
        kernel = _position_kernel(type(geometry.arguments))
        wp.launch(kernel, self.topology.table.shape, inputs, [made], device=geometry.device)
        return made


@boundaries
class FunctionSpace:
    """Functions with values of a type, stored at nodes as `dof_dtype`."""

    field_type: ClassVar[Any]
    """The class of fields. field/fields.py gives it."""

    def __init__(self, basis: BasisSpace, mapper: DofMapper) -> None:
        self.basis, self.mapper = basis, mapper
        self.dtype, self.dof_dtype = mapper.dtype, mapper.dof_dtype

    @property
    def dof_mapper(self) -> DofMapper:
        return self.mapper

    @property
    def geometry(self) -> Geometry:
        return self.basis.geometry

    @property
    def topology(self) -> SpaceTopology:
        return self.basis.topology

    @property
    def shape(self) -> ShapeFunctions:
        return self.basis.shape

    @property
    def degree(self) -> int:
        return self.shape.degree

    @property
    def dimension(self) -> int:
        return self.geometry.dimension

    @property
    def name(self) -> str:
        return f"{self.shape.basis.value}{self.degree}_{self.dtype}"

    @property
    def VALUE_DOF_COUNT(self) -> int:
        return 1 if isinstance(self.dof_dtype, Scalar) else self.dof_dtype.size

    def node_count(self) -> int:
        """Return how many nodes all cells have."""
        return self.topology.node_count()

    def make_field(self, space_partition: Any = None) -> Any:
        """A field of zeros in the space, or at the nodes of a partition of it; then it is zero at other nodes."""
        return FunctionSpace.field_type(self, partition_of("make_field", self, space_partition))

    def node_positions(self, out: Any = None) -> Any:
        """The positions of the nodes."""
        return self.basis.node_positions(out)


def _positions_of(geometry: Geometry) -> Any:
    return vector(geometry.dimension, geometry.scalar_type)


@functools.cache
def _position_kernel(kind: Any) -> Any:
    place = kind.FUNCTIONS["position"]
    at = wp.types.vector(length=kind.DIMENSION, dtype=kind.SCALAR)
    local, coords = kind.FUNCTIONS["local"], vector(3, kind.SCALAR)

    @wp.kernel(enable_backward=False)
    def positions(geometry: kind, nodes: wp.array2d[int], points: wp.array2d[coords], stride: int, out: wp.array[at]):
        cell, k = wp.tid()
        node = nodes[cell, k]
        if node >= 0:
            out[node] = place(geometry, cell, local(points[cell * stride, k]))

    return positions


@boundary
def make_polynomial_basis_space(
    geo: Any,
    degree: int = 1,
    element_basis: ElementBasis | None = None,
    discontinuous: bool = False,
    family: Polynomial | None = None,
) -> BasisSpace:
    """Make shape functions that are polynomials on each cell of a geometry.

    Args:
        geo: the geometry.
        degree: the degree, 0 to 3. For `RAVIART_THOMAS` and `NEDELEC_FIRST_KIND` it is 1.
        element_basis: the kind of polynomials. None: Lagrange's. `BSPLINE`, on grids only, has degree 1 to 3, and a
            node at each vertex; from degree 2 on, also at the vertices of one more cell around the grid. What a field
            stores at these nodes are coefficients, and not its values there.
        discontinuous: if True, cells share no nodes. This always holds for degree 0 and `NONCONFORMING_POLYNOMIAL`.
        family: the places of nodes along an axis of squares and cubes.

    Raises:
        KernelTypeError, KernelValueError: the geometry has no such space.
    """
    if not isinstance(geo, Geometry):
        raise KernelTypeError(f"make_polynomial_basis_space: geo: expected a geometry, got {type_text(geo)}")
    make: Any = make_vector_shape if element_basis in VECTOR_BASES else make_shape
    shape = make(geo.element, degree, element_basis, family)
    if shape.basis is ElementBasis.BSPLINE and discontinuous:
        raise KernelValueError(
            "make_polynomial_basis_space: discontinuous: expected False, as cells share the nodes of B-splines",
            hint="use LAGRANGE",
        )
    return BasisSpace(geo, shape, discontinuous or shape.basis is ElementBasis.NONCONFORMING_POLYNOMIAL)


@boundary
def make_collocated_function_space(
    basis_space: BasisSpace, dtype: Any = None, dof_mapper: DofMapper | None = None
) -> FunctionSpace:
    """Make a function space with a value of a type at each node of a basis.

    Args:
        basis_space: the shape functions.
        dtype: a scalar, vector or matrix type with the geometry's precision. None: the geometry's scalar type.
        dof_mapper: the way in which values are stored. It also determines the type.

    Raises:
        KernelTypeError: the type does not have the geometry's precision.
    """
    if basis_space.shape.is_vector:
        raise KernelValueError(
            "make_collocated_function_space: basis_space: expected functions that are numbers, got"
            f" {basis_space.shape.basis.name}",
            hint="use make_contravariant_function_space, make_covariant_function_space or make_polynomial_space",
        )
    scalar = basis_space.geometry.scalar_type
    mapper = dof_mapper if dof_mapper is not None else identity(as_dtype(dtype) if dtype is not None else scalar)
    if isinstance(mapper.dtype, Array) or element_scalar(mapper.dtype) != scalar:
        raise KernelTypeError(
            f"make_collocated_function_space: dtype: expected values of {scalar}, as the geometry's, got {mapper.dtype}"
        )
    return FunctionSpace(basis_space, mapper)


def _mapped_space(what: str, basis_space: Any, basis: ElementBasis) -> FunctionSpace:
    if not isinstance(basis_space, BasisSpace) or basis_space.shape.basis is not basis:
        given = basis_space.shape.basis.name if isinstance(basis_space, BasisSpace) else type(basis_space).__name__
        raise KernelTypeError(f"{what}: basis_space: expected one of {basis.name}, got {given}")
    geometry = basis_space.geometry
    number = identity(geometry.scalar_type)
    return FunctionSpace(basis_space, replace(number, dtype=_positions_of(geometry)))


@boundary
def make_contravariant_function_space(basis_space: Any) -> FunctionSpace:
    """Make a space of vector fields with a flux through each side, which is continuous across the side.

    `make_polynomial_space` makes the same space.

    Args:
        basis_space: shape functions of `RAVIART_THOMAS`.
    """
    return _mapped_space("make_contravariant_function_space", basis_space, ElementBasis.RAVIART_THOMAS)


@boundary
def make_covariant_function_space(basis_space: Any) -> FunctionSpace:
    """Make a space of vector fields with a circulation along each edge, which is continuous at the edge.

    `make_polynomial_space` makes the same space.

    Args:
        basis_space: shape functions of `NEDELEC_FIRST_KIND`.
    """
    return _mapped_space("make_covariant_function_space", basis_space, ElementBasis.NEDELEC_FIRST_KIND)


@boundary
def make_polynomial_space(
    geo: Any,
    dtype: Any = None,
    dof_mapper: DofMapper | None = None,
    degree: int = 1,
    element_basis: ElementBasis | None = None,
    discontinuous: bool = False,
    family: Polynomial | None = None,
) -> FunctionSpace:
    """Make a space of functions that are polynomials in each cell.

    `make_polynomial_basis_space` and `make_collocated_function_space` describe the arguments.

    A field of `RAVIART_THOMAS` stores the flux through each side, along `fem.normal`. A field of `NEDELEC_FIRST_KIND`
    stores the circulation along each edge, from the vertex with the lower number. The values of both are vectors, and
    `dof_values` are numbers.
    """
    basis = make_polynomial_basis_space(geo, degree, element_basis, discontinuous, family)
    if basis.shape.is_vector:
        expected = _positions_of(basis.geometry)
        if dof_mapper is not None or (dtype is not None and as_dtype(dtype) != expected):
            raise KernelTypeError(
                f"make_polynomial_space: dtype: expected {expected} and no dof_mapper, as"
                f" {basis.shape.basis.name} has such vectors, got {dtype} and {dof_mapper}"
            )
        is_flux = basis.shape.basis is ElementBasis.RAVIART_THOMAS
        return (make_contravariant_function_space if is_flux else make_covariant_function_space)(basis)
    return make_collocated_function_space(basis, dtype, dof_mapper)
