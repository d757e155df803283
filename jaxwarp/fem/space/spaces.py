"""Function spaces: shape functions, how nodes are shared, and the type of values."""

# pyright: reportInvalidTypeForm=false

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

import jaxwarp as wp
from jaxwarp.boundary import boundaries, boundary
from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.fem.domain import Cells, GeometryDomain
from jaxwarp.fem.geometry.geometries import Geometry
from jaxwarp.fem.geometry.partition import GeometryPartition, whole
from jaxwarp.fem.geometry.reference import to_sample, vertex_weights
from jaxwarp.fem.space.mapper import DofMapper, identity
from jaxwarp.fem.space.polynomial import Polynomial, element_quadrature
from jaxwarp.fem.space.shapes import ElementBasis, ShapeFunctions, make_shape
from jaxwarp.fem.space.vectors import VECTOR_BASES, VectorShapeFunctions, make_vector_shape
from jaxwarp.fem.types import NULL_NODE_INDEX, ElementKind, vector
from jaxwarp.types import Array, Scalar, as_dtype, element_scalar


@boundaries
class SpaceTopology:
    """The nodes of cells, and which of them are shared."""

    def __init__(self, geometry: Geometry, shape: ShapeFunctions, discontinuous: bool) -> None:
        self.geometry, self.shape = geometry, shape
        self.is_discontinuous = discontinuous or shape.degree == 0
        self._array: Any = None
        self._signs: Any = None

    @property
    def _numbered(self) -> tuple[np.ndarray, int]:
        cells, found = self._made
        if cells is not self.geometry.cells and not self.is_discontinuous:
            raise KernelValueError(
                "the indices of a mesh have changed since nodes of a space were numbered by them",
                hint="make the space anew, and its fields",
            )
        return found

    @functools.cached_property
    def _made(self) -> tuple[Any, tuple[np.ndarray, int]]:
        """The cells, and the nodes of each."""
        return self.geometry.cells, self._numbers()

    def _numbers(self) -> tuple[np.ndarray, int]:
        count, per_cell = self.geometry.cell_count(), len(self.shape.nodes)
        if self.is_discontinuous:
            return np.arange(count * per_cell, dtype=np.int32).reshape(count, per_cell), count * per_cell
        return self.geometry.number_nodes(self.shape.nodes)

    @property
    def table(self) -> np.ndarray:
        """The number of each node of each cell."""
        return self._numbered[0]

    def node_count(self) -> int:
        return self._numbered[1]

    @property
    def MAX_NODES_PER_ELEMENT(self) -> int:
        """The number of nodes of a cell."""
        return len(self.shape.nodes)

    @property
    def array(self) -> Any:
        """The table, for kernels."""
        table = self.table  # which is refused where it is out of date
        if self._array is None:
            self._array = self.geometry.integers(table)
        return self._array

    @property
    def orientation(self) -> dict[str, Any]:
        """The signs of the nodes of each cell, for kinds of vector elements, which have them."""
        shape, geometry, table = self.shape, self.geometry, self.table
        if not isinstance(shape, VectorShapeFunctions):
            return {}
        if self._signs is None:
            found = shape.signs(geometry.cells, table)
            self._signs = wp.array(found, dtype=geometry.scalar_type, device=geometry.device)
        return {"signs": self._signs}

    @functools.cached_property
    def coefficients(self) -> Any:
        return wp.array(self.shape.coefficients, dtype=self.geometry.scalar_type, device=self.geometry.device)

    def rebuild(self, device: Any = None, temporary_store: Any = None) -> None:
        """Numbers the nodes anew where the cells of the geometry have changed. Fields have to be made anew, then."""
        del device, temporary_store
        self.__dict__.pop("_made", None)
        self._array = self._signs = None

    def element_nodes(self, domain: GeometryDomain) -> np.ndarray:
        """The nodes of each element of a domain; on sides those of the inner cell, then those of the outer one.

        At the boundary, where there is no outer cell, -1.
        """
        if domain.element_kind is ElementKind.CELL:
            return self.table[domain.elements]
        inner, outer = self.geometry.sides.cells[domain.elements].T
        return np.concatenate([self.table[inner], np.where((inner == outer)[:, None], -1, self.table[outer])], 1)

    def nodal_arrays(self, domain: GeometryDomain) -> tuple[Any, Any, np.ndarray]:
        """The coordinates of nodes in the elements of a domain, weights there, and which of them there are.

        All are of shape (elements or 1, points).
        """
        points, weights, _ = self.nodal_points(domain)
        scalar, device = self.geometry.scalar_type, self.geometry.device
        return (wp.array(points, dtype=vector(3, scalar), device=device),
                wp.array(weights, dtype=scalar, device=device), weights > 0.0)  # fmt: skip

    def nodal_points(self, domain: GeometryDomain) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The coordinates of nodes in the elements of a domain, weights there, and the nodes' numbers in elements.

        All are of shape (elements or 1, points). Those of weight 0 are not in a side, and have no coordinates.
        """
        shape = self.shape
        if domain.element_kind is ElementKind.CELL:
            points = to_sample(shape.element, shape.nodes)[None]
            return points, shape.cell_weights()[None], np.arange(len(shape.nodes))[None]
        sides = self.geometry.sides
        width = sides.corners.shape[1] // 2
        kinds, which = np.unique(sides.corners[domain.elements, :width], axis=0, return_inverse=True)
        made = [self._side_points(corners) for corners in kinds]
        if not made:
            empty = np.zeros((0, len(shape.nodes)))
            return np.zeros((*empty.shape, 3)), empty, np.zeros(empty.shape, int)
        points, weights = (np.stack([m[k] for m in made])[which.reshape(-1)] for k in range(2))
        return points, weights, np.broadcast_to(np.arange(len(shape.nodes)), weights.shape)

    def _side_points(self, corners: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the points and weights of the side that has these corners of the inner cell."""
        shape, side = self.shape, self.shape.element.side
        vertices = np.array(shape.element.value.vertices, float)[corners]
        along, weights = element_quadrature(side, 2 * shape.degree, None)
        if shape.degree == 0:
            center = np.array(side.value.vertices, float).mean(0, keepdims=True)
            return to_sample(side, center), np.ones(1)
        axes = np.stack([vertices[list(side.value.vertices).index(tuple(int(i == d) for i in range(side.dimension)))]
                         - vertices[0] for d in range(side.dimension)])  # fmt: skip
        local = (shape.nodes - vertices[0]) @ np.linalg.pinv(axes)
        is_inside = np.abs(local @ axes + vertices[0] - shape.nodes).max(1) < 1e-9
        if shape.basis is ElementBasis.NONCONFORMING_POLYNOMIAL and not shape.element.value.is_simplex:
            is_inside[:] = False  # a corner of its simplex touches a side
        if shape.is_vector:
            found = np.full(len(is_inside), 1.0 / is_inside.sum())
        else:
            found = shape.node_weights(vertex_weights(side, along) @ vertices, weights)
        return to_sample(side, np.where(is_inside[:, None], local, 0.0)), np.where(is_inside, found, 0.0)


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


@wp.struct
class NodeIndexArg:
    """The numbers in a partition of the space's nodes."""

    numbers: wp.array[int]


@wp.func
def _number_of_node(index: NodeIndexArg, node: int):
    return index.numbers[node]


def _used(table: np.ndarray) -> np.ndarray:
    found = np.unique(table)
    return found[found >= 0]


@boundaries
class SpacePartition:
    """The nodes of a part of a geometry, which have numbers of their own.

    Without a part they are all nodes, with the numbers of the space.

    Args:
        topology: of the space.
        geo_partition: the part.
        with_halo: whether cells beyond the sides at the part's end have their nodes in it.
        by_environment: whether the nodes of the part's cells are in the order of their environments, and only they are
            nodes of the partition.
    """

    def __init__(
        self, topology: SpaceTopology, geo_partition: Any = None, with_halo: bool = True, by_environment: bool = False
    ) -> None:
        self._by_environment = by_environment
        self.space_topology = topology
        self.geo_partition = whole(topology.geometry) if geo_partition is None else geo_partition
        self.is_whole = geo_partition is None and not by_environment
        self._with_halo = with_halo
        self._made: tuple[Any, np.ndarray, int] | None = None

    @property
    def _nodes(self) -> tuple[np.ndarray, int]:
        """The space's numbers of the nodes in the part, and how many of them are of its cells."""
        topology, cells = self.space_topology, self.geo_partition.cells
        table = topology.table
        if self.is_whole:
            count = topology.node_count()
            return np.arange(count, dtype=np.int32), count
        if self._made is None or self._made[0] is not table:
            own = _used(table[cells])
            if self._by_environment:
                own = own[np.argsort(self._environments(own), kind="stable")]
            found = own
            if self._with_halo and not self._by_environment:  # those of cells beyond the sides at the part's end
                beside = _used(table[self.geo_partition.outer_cells])
                found = np.concatenate([own, np.setdiff1d(beside, own)])
            self._made = table, found.astype(np.int32), len(own)
        return self._made[1], self._made[2]

    def node_count(self) -> int:
        return len(self._nodes[0])

    def owned_node_count(self) -> int:
        """Return how many nodes the part's cells have. They come first."""
        return self._nodes[1]

    def _environments(self, nodes: np.ndarray) -> np.ndarray:
        """Return the environments of nodes of the space that cells have."""
        table = self.space_topology.table
        found = np.full(self.space_topology.node_count() + 1, -1)
        found[table] = self.space_topology.geometry.cell_environments()[:, None]
        return found[nodes]

    @property
    def env_offsets(self) -> Any:
        """The number of nodes in environments before each environment, and then in all of them.

        None: the partition was not made with `environment_first`.
        """
        if not self._by_environment:
            return None
        geometry = self.space_topology.geometry
        found = self._environments(self._nodes[0])
        return geometry.integers(np.searchsorted(found, np.arange(geometry.environment_count() + 1)))

    def space_node_indices(self) -> Any:
        """Return the space's numbers of the nodes."""
        return self.space_topology.geometry.integers(self._nodes[0])

    def numbered(self, nodes: np.ndarray) -> np.ndarray:
        """Return the numbers here of nodes of the space; -1 for nodes that are not in the part."""
        if self.is_whole:
            return nodes
        found = np.full(self.space_topology.node_count() + 1, -1, np.int32)
        chosen = self._nodes[0]
        found[chosen] = np.arange(len(chosen))
        return found[nodes]  # of -1 it is the last, -1

    @property
    def array(self) -> Any:
        """The number of each node of each cell, for kernels."""
        table = self.space_topology.table
        if self.is_whole:
            return self.space_topology.array
        known, found = self.__dict__.get("_array", (None, None))
        if known is not table:
            found = self.space_topology.geometry.integers(self.numbered(table))
            self._array = table, found
        return found

    @property
    def name(self) -> str:
        return f"{type(self).__name__}_{self.geo_partition.name}"

    @property
    def PartitionArg(self) -> Any:
        """The struct of `partition_arg_value`, to annotate an argument of a kernel."""
        return NodeIndexArg

    @property
    def partition_node_index(self) -> Any:
        """The function `(partition_arg, node)`: the number here of a node of the space, or NULL_NODE_INDEX."""
        return _number_of_node

    def partition_arg_value(self, device: Any = None) -> Any:
        """Return the numbers of the space's nodes, for a kernel; `device` has no effect."""
        del device
        topology = self.space_topology
        found = self.numbered(np.arange(topology.node_count(), dtype=np.int32))
        return NodeIndexArg(topology.geometry.integers(np.where(found < 0, NULL_NODE_INDEX, found)))

    def rebuild(self, device: Any = None, temporary_store: Any = None) -> None:
        """Numbers the nodes anew where the cells of the part have changed."""
        del device, temporary_store
        self._made = None
        self.__dict__.pop("_array", None)


@boundaries
class SpaceRestriction:
    """The nodes of a space that are in a domain."""

    def __init__(self, partition: SpacePartition, domain: GeometryDomain) -> None:
        self.space_topology, self.domain = partition.space_topology, domain
        self.space_partition = partition

    def element_nodes(self) -> np.ndarray:
        """Return the numbers in the partition of the nodes of each element; -1 for nodes outside of it."""
        return self.space_partition.numbered(self.space_topology.element_nodes(self.domain))

    def node_count(self) -> int:
        found = self.element_nodes()
        return len(np.unique(found[found >= 0]))


def partition_of(what: str, space: FunctionSpace, partition: Any) -> SpacePartition:
    """Return the partition, or that of the whole geometry for None.

    Raises:
        KernelTypeError, KernelValueError: it is none, or of another space.
    """
    if partition is None:
        return SpacePartition(space.topology)
    if not isinstance(partition, SpacePartition):
        raise KernelTypeError(
            f"{what}: space_partition: expected what make_space_partition gives, got {type(partition).__name__}"
        )
    mine, other = space.topology, partition.space_topology
    if other is not mine and (other.geometry is not mine.geometry or not np.array_equal(other.table, mine.table)):
        raise KernelValueError(f"{what}: space_partition: expected one of the space's nodes")
    return partition


@boundary
def make_space_partition(
    space_topology: Any,
    geometry_partition: Any = None,
    with_halo: bool = True,
    max_node_count: int = -1,
    environment_first: bool = False,
    *,
    device: Any = None,
    temporary_store: Any = None,
) -> SpacePartition:
    """The nodes of a space that are in a part of its geometry.

    Args:
        space_topology: of the space.
        geometry_partition: the part; None: all of it.
        with_halo: whether cells beyond the sides at the part's end have their nodes in it, too, behind the others.
        environment_first: whether the nodes are in the order of their environments: `env_offsets` of the partition says
            where each begins. Nodes that no cell of the part has are none, then.
        max_node_count, device, temporary_store: accepted, no effect.

    Raises:
        KernelTypeError, KernelValueError: the arguments are not that.
    """
    del max_node_count, device, temporary_store
    if not isinstance(space_topology, SpaceTopology):
        raise KernelTypeError(
            f"make_space_partition: space_topology: expected space.topology, got {type(space_topology).__name__}"
        )
    if geometry_partition is None:
        return SpacePartition(space_topology, by_environment=environment_first)
    if not isinstance(geometry_partition, GeometryPartition):
        raise KernelTypeError(
            "make_space_partition: geometry_partition: expected a part of a geometry, got"
            f" {type(geometry_partition).__name__}"
        )
    if geometry_partition.geometry is not space_topology.geometry:
        raise KernelValueError("make_space_partition: geometry_partition: expected a part of the space's geometry")
    if geometry_partition.is_whole:
        return SpacePartition(space_topology, by_environment=environment_first)
    if environment_first and with_halo:
        raise KernelValueError(
            "make_space_partition: with_halo: expected False with environment_first=True in a part of a geometry"
        )
    return SpacePartition(space_topology, geometry_partition, with_halo, environment_first)


@boundary
def make_space_restriction(
    space_partition: Any = None, domain: Any = None, space_topology: Any = None, device: Any = None,
    temporary_store: Any = None,
) -> SpaceRestriction:  # fmt: skip
    """The nodes of a space in a domain.

    Args:
        space_partition, space_topology: one of them.
        domain: None: all cells, of the partition's part.
        device, temporary_store: accepted, no effect.
    """
    del device, temporary_store
    if isinstance(space_partition, SpacePartition):
        partition = space_partition
    elif isinstance(space_topology, SpaceTopology):
        partition = SpacePartition(space_topology)
    else:
        raise KernelTypeError("make_space_restriction: expected space_partition, or space_topology=space.topology")
    return SpaceRestriction(partition, domain if domain is not None else Cells(partition.geo_partition))


@boundary
def make_polynomial_basis_space(
    geo: Any,
    degree: int = 1,
    element_basis: ElementBasis | None = None,
    discontinuous: bool = False,
    family: Polynomial | None = None,
) -> BasisSpace:
    """Polynomials on each cell of a geometry.

    Args:
        geo: the geometry.
        degree: 0 to 3; of `RAVIART_THOMAS` and `NEDELEC_FIRST_KIND` 1.
        element_basis: which polynomials; None: Lagrange's.
        discontinuous: whether cells share no nodes; so it is of degree 0 and of `NONCONFORMING_POLYNOMIAL`.
        family: where nodes are along an axis of squares and cubes.

    Raises:
        KernelTypeError, KernelValueError: there is no such space.
    """
    if not isinstance(geo, Geometry):
        raise KernelTypeError(f"make_polynomial_basis_space: geo: expected a geometry, got {type(geo).__name__}")
    make: Any = make_vector_shape if element_basis in VECTOR_BASES else make_shape
    shape = make(geo.element, degree, element_basis, family)
    return BasisSpace(geo, shape, discontinuous or shape.basis is ElementBasis.NONCONFORMING_POLYNOMIAL)


@boundary
def make_collocated_function_space(
    basis_space: BasisSpace, dtype: Any = None, dof_mapper: DofMapper | None = None
) -> FunctionSpace:
    """Functions with values of a type at the nodes of a basis.

    Args:
        basis_space: the shape functions.
        dtype: a scalar, vector or matrix type of the geometry's precision; None: its scalar type.
        dof_mapper: how values are stored; it says the type then.

    Raises:
        KernelTypeError: values of the type cannot be.
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
    """Vector fields with a flux through each side, continuous across it, as `make_polynomial_space` makes them.

    Args:
        basis_space: of `RAVIART_THOMAS`.
    """
    return _mapped_space("make_contravariant_function_space", basis_space, ElementBasis.RAVIART_THOMAS)


@boundary
def make_covariant_function_space(basis_space: Any) -> FunctionSpace:
    """Vector fields with a circulation along each edge, continuous there, as `make_polynomial_space` makes them.

    Args:
        basis_space: of `NEDELEC_FIRST_KIND`.
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
    """Functions that are polynomials in each cell; arguments as of `make_polynomial_basis_space` and
    `make_collocated_function_space`.

    Fields of `RAVIART_THOMAS` have the flux through each side, along `fem.normal`; those of `NEDELEC_FIRST_KIND` the
    circulation along each edge, from the vertex with the lower number. Their values are vectors, `dof_values` numbers.
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
