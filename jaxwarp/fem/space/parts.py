"""Parts of function spaces: the nodes of some cells, with numbers of their own."""

# pyright: reportInvalidTypeForm=false

from __future__ import annotations

from typing import Any

import numpy as np

import jaxwarp as wp
from jaxwarp.boundary import boundaries, boundary
from jaxwarp.errors import KernelTypeError, KernelValueError, type_text
from jaxwarp.fem.domain import Cells, GeometryDomain
from jaxwarp.fem.geometry.partition import GeometryPartition, whole
from jaxwarp.fem.space.topology import SpaceTopology
from jaxwarp.fem.types import NULL_NODE_INDEX


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


def partition_of(what: str, space: Any, partition: Any) -> SpacePartition:
    """Return the partition of a function space, or that of the whole geometry for None.

    Raises:
        KernelTypeError, KernelValueError: it is none, or of another space.
    """
    if partition is None:
        return SpacePartition(space.topology)
    if not isinstance(partition, SpacePartition):
        raise KernelTypeError(
            f"{what}: space_partition: expected what make_space_partition gives, got {type_text(partition)}"
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
            f"make_space_partition: space_topology: expected space.topology, got {type_text(space_topology)}"
        )
    if geometry_partition is None:
        return SpacePartition(space_topology, by_environment=environment_first)
    if not isinstance(geometry_partition, GeometryPartition):
        raise KernelTypeError(
            "make_space_partition: geometry_partition: expected a part of a geometry, got"
            f" {type_text(geometry_partition)}"
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
