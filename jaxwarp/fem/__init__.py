"""Finite elements: geometries, function spaces, and the integration of forms that are written as kernels."""

import sys as _sys

from jaxwarp.boundary import boundary as _boundary
from jaxwarp.boundary import raise_for_user as _raise_for_user
from jaxwarp.errors import no_attribute as _no_attribute
from jaxwarp.fem import cache as cache
from jaxwarp.fem import linalg as linalg
from jaxwarp.fem import utils as utils
from jaxwarp.fem.cache import Temporary as Temporary
from jaxwarp.fem.cache import TemporaryStore as TemporaryStore
from jaxwarp.fem.cache import borrow_temporary as borrow_temporary
from jaxwarp.fem.cache import borrow_temporary_like as borrow_temporary_like
from jaxwarp.fem.cache import set_default_temporary_store as set_default_temporary_store
from jaxwarp.fem.calls import Integrand as Integrand
from jaxwarp.fem.calls import integrand as integrand
from jaxwarp.fem.dirichlet import normalize_dirichlet_projector as normalize_dirichlet_projector
from jaxwarp.fem.dirichlet import project_linear_system as project_linear_system
from jaxwarp.fem.dirichlet import project_system_matrix as project_system_matrix
from jaxwarp.fem.dirichlet import project_system_rhs as project_system_rhs
from jaxwarp.fem.domain import BoundarySides as BoundarySides
from jaxwarp.fem.domain import Cells as Cells
from jaxwarp.fem.domain import FrontierSides as FrontierSides
from jaxwarp.fem.domain import GeometryDomain as GeometryDomain
from jaxwarp.fem.domain import Sides as Sides
from jaxwarp.fem.domain import Subdomain as Subdomain
from jaxwarp.fem.field.fields import DiscreteField as DiscreteField
from jaxwarp.fem.field.fields import FieldLike as FieldLike
from jaxwarp.fem.field.fields import ImplicitField as ImplicitField
from jaxwarp.fem.field.fields import NonconformingField as NonconformingField
from jaxwarp.fem.field.fields import UniformField as UniformField
from jaxwarp.fem.field.fields import make_discrete_field as make_discrete_field
from jaxwarp.fem.field.fields import make_restriction as make_restriction
from jaxwarp.fem.field.fields import make_test as make_test
from jaxwarp.fem.field.fields import make_trial as make_trial
from jaxwarp.fem.geometry.geometries import DeformedGeometry as DeformedGeometry
from jaxwarp.fem.geometry.geometries import Geometry as Geometry
from jaxwarp.fem.geometry.geometries import Grid2D as Grid2D
from jaxwarp.fem.geometry.geometries import Grid3D as Grid3D
from jaxwarp.fem.geometry.geometries import Hexmesh as Hexmesh
from jaxwarp.fem.geometry.geometries import Quadmesh2D as Quadmesh2D
from jaxwarp.fem.geometry.geometries import Quadmesh3D as Quadmesh3D
from jaxwarp.fem.geometry.geometries import Tetmesh as Tetmesh
from jaxwarp.fem.geometry.geometries import Trimesh2D as Trimesh2D
from jaxwarp.fem.geometry.geometries import Trimesh3D as Trimesh3D
from jaxwarp.fem.geometry.nanogrid import Nanogrid as Nanogrid
from jaxwarp.fem.geometry.partition import ExplicitGeometryPartition as ExplicitGeometryPartition
from jaxwarp.fem.geometry.partition import GeometryPartition as GeometryPartition
from jaxwarp.fem.geometry.partition import LinearGeometryPartition as LinearGeometryPartition
from jaxwarp.fem.geometry.reference import Element as Element
from jaxwarp.fem.integration.integrate import integrate as integrate
from jaxwarp.fem.integration.interpolate import interpolate as interpolate
from jaxwarp.fem.operators import D as D
from jaxwarp.fem.operators import at_node as at_node
from jaxwarp.fem.operators import average as average
from jaxwarp.fem.operators import cells as cells
from jaxwarp.fem.operators import curl as curl
from jaxwarp.fem.operators import deformation_gradient as deformation_gradient
from jaxwarp.fem.operators import degree as degree
from jaxwarp.fem.operators import div as div
from jaxwarp.fem.operators import div_outer as div_outer
from jaxwarp.fem.operators import element_index as element_index
from jaxwarp.fem.operators import element_partition_index as element_partition_index
from jaxwarp.fem.operators import environment_index as environment_index
from jaxwarp.fem.operators import grad as grad
from jaxwarp.fem.operators import grad_average as grad_average
from jaxwarp.fem.operators import grad_jump as grad_jump
from jaxwarp.fem.operators import grad_outer as grad_outer
from jaxwarp.fem.operators import inner as inner
from jaxwarp.fem.operators import jump as jump
from jaxwarp.fem.operators import lookup as lookup
from jaxwarp.fem.operators import measure as measure
from jaxwarp.fem.operators import measure_ratio as measure_ratio
from jaxwarp.fem.operators import node_count as node_count
from jaxwarp.fem.operators import node_index as node_index
from jaxwarp.fem.operators import node_inner_weight as node_inner_weight
from jaxwarp.fem.operators import node_inner_weight_gradient as node_inner_weight_gradient
from jaxwarp.fem.operators import normal as normal
from jaxwarp.fem.operators import outer as outer
from jaxwarp.fem.operators import partition_lookup as partition_lookup
from jaxwarp.fem.operators import position as position
from jaxwarp.fem.operators import scalar_type as scalar_type
from jaxwarp.fem.operators import to_inner_cell as to_inner_cell
from jaxwarp.fem.operators import to_outer_cell as to_outer_cell
from jaxwarp.fem.particles import PicQuadrature as PicQuadrature
from jaxwarp.fem.quadrature import ExplicitQuadrature as ExplicitQuadrature
from jaxwarp.fem.quadrature import NodalQuadrature as NodalQuadrature
from jaxwarp.fem.quadrature import Quadrature as Quadrature
from jaxwarp.fem.quadrature import RegularQuadrature as RegularQuadrature
from jaxwarp.fem.space.mapper import DofMapper as DofMapper
from jaxwarp.fem.space.mapper import SkewSymmetricTensorMapper as SkewSymmetricTensorMapper
from jaxwarp.fem.space.mapper import SymmetricTensorMapper as SymmetricTensorMapper
from jaxwarp.fem.space.parts import SpacePartition as SpacePartition
from jaxwarp.fem.space.parts import SpaceRestriction as SpaceRestriction
from jaxwarp.fem.space.parts import make_space_partition as make_space_partition
from jaxwarp.fem.space.parts import make_space_restriction as make_space_restriction
from jaxwarp.fem.space.points import PointBasisSpace as PointBasisSpace
from jaxwarp.fem.space.polynomial import Polynomial as Polynomial
from jaxwarp.fem.space.shapes import ElementBasis as ElementBasis
from jaxwarp.fem.space.spaces import BasisSpace as BasisSpace
from jaxwarp.fem.space.spaces import FunctionSpace as FunctionSpace
from jaxwarp.fem.space.spaces import make_collocated_function_space as make_collocated_function_space
from jaxwarp.fem.space.spaces import make_contravariant_function_space as make_contravariant_function_space
from jaxwarp.fem.space.spaces import make_covariant_function_space as make_covariant_function_space
from jaxwarp.fem.space.spaces import make_polynomial_basis_space as make_polynomial_basis_space
from jaxwarp.fem.space.spaces import make_polynomial_space as make_polynomial_space
from jaxwarp.fem.space.topology import SpaceTopology as SpaceTopology
from jaxwarp.fem.types import NULL_ELEMENT_INDEX as NULL_ELEMENT_INDEX
from jaxwarp.fem.types import NULL_NODE_INDEX as NULL_NODE_INDEX
from jaxwarp.fem.types import NULL_QP_INDEX as NULL_QP_INDEX
from jaxwarp.fem.types import OUTSIDE as OUTSIDE
from jaxwarp.fem.types import Coords as Coords
from jaxwarp.fem.types import Coords_f64 as Coords_f64
from jaxwarp.fem.types import Domain as Domain
from jaxwarp.fem.types import ElementIndex as ElementIndex
from jaxwarp.fem.types import ElementKind as ElementKind
from jaxwarp.fem.types import Field as Field
from jaxwarp.fem.types import NodeIndex as NodeIndex
from jaxwarp.fem.types import QuadraturePointIndex as QuadraturePointIndex
from jaxwarp.fem.types import Sample as Sample
from jaxwarp.fem.types import Sample_f64 as Sample_f64
from jaxwarp.fem.types import make_free_sample as make_free_sample

_OWN_SHAPES = "shape functions are those that make_polynomial_space has"
_MISSING = {
    "AdaptiveNanogrid": "use Nanogrid, or a Hexmesh of the cells that there are",
    "CellBasedGeometryPartition": "use ExplicitGeometryPartition",
    "GeometryField": "use FieldLike, of which all fields are",
    "Operator": "integrands call those that are there, and functions made by @wp.func",
    "ShapeBasisSpace": "use make_polynomial_basis_space",
    "ShapeFunction": _OWN_SHAPES,
    "adaptive_nanogrid_from_field": "use Nanogrid",
    "adaptive_nanogrid_from_hierarchy": "use Nanogrid",
    "element_closest_point": "use lookup, which finds the closest point of all cells",
    "element_coordinates": "use lookup, which finds the cell, too",
    "make_element_based_space_topology": _OWN_SHAPES,
    "make_element_shape_function": _OWN_SHAPES,
    "node_outer_weight": "use node_inner_weight with to_outer_cell(s)",
    "node_outer_weight_gradient": "use node_inner_weight_gradient with to_outer_cell(s)",
    "node_partition_index": "a space's partition has node numbers of its own, see space_node_indices",
    "polynomial": "use fem.Polynomial",
    "to_cell_side": "integrate over sides, and use to_inner_cell(s)",
}


@_boundary
def __getattr__(name: str) -> object:
    if name in _MISSING:
        _raise_for_user(AttributeError(f"fem.{name} is not there yet; {_MISSING[name]}"))
    _raise_for_user(_no_attribute(_sys.modules[__name__], name))
