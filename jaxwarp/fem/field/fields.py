"""Fields: functions on a geometry that integrands are given."""

from __future__ import annotations

from typing import Any, ClassVar

import jax

import jaxwarp as wp
from jaxwarp.arrays.host_array import HostArray
from jaxwarp.boundary import boundaries, boundary
from jaxwarp.errors import KernelTypeError, KernelValueError, type_text
from jaxwarp.fem.calls import of_values
from jaxwarp.fem.domain import Cells, GeometryDomain, Sides
from jaxwarp.fem.field.kinds import (
    TEST,
    TRIAL,
    ImplicitFunctions,
    discrete_kind,
    function_kind,
    nonconforming_kind,
    trace_kind,
    uniform_kind,
    virtual_kind,
)
from jaxwarp.fem.geometry.geometries import DeformedGeometry
from jaxwarp.fem.space.parts import SpacePartition, SpaceRestriction, partition_of
from jaxwarp.fem.space.spaces import FunctionSpace
from jaxwarp.fem.types import ElementKind
from jaxwarp.fem.values import struct_of_values, value_type
from jaxwarp.frontend.text.functions import Func
from jaxwarp.types import element_scalar, element_shape


@boundaries
class FieldLike:
    """An object that can be passed for `u: fem.Field`. `arguments` is the struct that is passed to kernels."""

    degree: int = 0
    is_of_sides: bool | None = None  # None: of both
    geometry: Any = None  # None: of any

    @property
    def arguments(self) -> Any:
        raise NotImplementedError


class _OfDomain(FieldLike):
    """A field that is evaluated at samples of a domain."""

    def __init__(self, domain: Any) -> None:
        if not isinstance(domain, GeometryDomain):
            raise KernelTypeError(f"{type(self).__name__}: domain: expected a domain, got {type_text(domain)}")
        self.domain, self.geometry = domain, domain.geometry
        self.is_of_sides = domain.element_kind is ElementKind.SIDE


def require_on(what: str, field: FieldLike, domain: GeometryDomain) -> None:
    """A field that can be evaluated at samples of a domain.

    Raises:
        KernelValueError: it is one of other elements, or of another geometry.
    """
    is_of_sides = domain.element_kind is ElementKind.SIDE
    if field.is_of_sides not in (None, is_of_sides):
        raise KernelValueError(
            f"{what}: expected a field on {'sides' if is_of_sides else 'cells'}, as the domain is",
            hint="pass u.trace(), or a field of a domain of sides" if is_of_sides else "pass the field of the cells",
        )
    if field.geometry not in (None, domain.geometry):
        raise KernelValueError(
            f"{what}: expected a field of the geometry that the domain is of",
            hint="make its space of that, or pass fem.NonconformingField(domain, field)",
        )


@boundaries
class DiscreteField(FieldLike):
    """A field with values at the nodes of a space, in `dof_values`."""

    is_of_sides = False

    def __init__(self, space: FunctionSpace, space_partition: SpacePartition | None = None) -> None:
        self._bind(space, SpacePartition(space.topology) if space_partition is None else space_partition)
        self._dof_values = self._zeros()

    def _bind(self, space: FunctionSpace, partition: SpacePartition) -> None:
        self.space, self.geometry, self.degree = space, space.geometry, space.degree
        self.space_partition = partition

    def _zeros(self) -> Any:
        space = self.space
        return wp.zeros(self.space_partition.node_count(), dtype=space.dof_dtype, device=space.geometry.device)

    def rebind(self, space: FunctionSpace, space_partition: SpacePartition | None) -> None:
        """Makes it a field of another space with the same functions.

        Its values stay if there are as many nodes as before; else they are zero.

        Args:
            space: the other space.
            space_partition: the nodes that have values; None: all.
        """
        _require_alike("DiscreteField.rebind", self.space, space)
        self._bind(space, partition_of("DiscreteField.rebind", space, space_partition))
        if self._dof_values.shape[0] != self.space_partition.node_count():
            self._dof_values = self._zeros()

    @property
    def dof_values(self) -> Any:
        return self._dof_values

    @dof_values.setter
    def dof_values(self, values: Any) -> None:
        space, count = self.space, self.space_partition.node_count()
        if isinstance(values, jax.Array):
            expected = (count, *element_shape(space.dof_dtype))
            is_right = values.shape == expected and values.dtype == element_scalar(space.dof_dtype).numpy
            if not is_right:
                raise KernelTypeError(
                    f"dof_values: expected {element_scalar(space.dof_dtype)} of shape {expected}, got {values.dtype} of"
                    f" shape {values.shape}"
                )
        elif not (isinstance(values, HostArray) and values.dtype == space.dof_dtype and values.shape == (count,)):
            raise KernelTypeError(
                f"dof_values: expected {space.dof_dtype} of shape ({count},), outside of JAX or not,"
                f" got {type_text(values)} of {getattr(values, 'dtype', None)} of shape"
                f" {getattr(values, 'shape', ())}"
            )
        self._dof_values = values

    @property
    def dtype(self) -> Any:
        return self.space.dtype

    @property
    def dof_dtype(self) -> Any:
        return self.space.dof_dtype

    @property
    def name(self) -> str:
        return f"Field_{self.space.name}"

    @property
    def arguments(self) -> Any:
        space, geometry = self.space, self.geometry.arguments
        kind = discrete_kind(type(geometry), space.shape, space.mapper, self.space_partition.is_whole)
        return kind(dofs=self.dof_values, nodes=self.space_partition.array, coefficients=space.topology.coefficients,
                    geometry=geometry, **space.topology.orientation)  # fmt: skip

    def trace(self) -> TraceField:
        """The field on sides."""
        return TraceField(self)

    def make_deformed_geometry(self, relative: bool = True, build_bvh: bool = False) -> DeformedGeometry:
        """The geometry whose positions are the field's values, added to the old ones if `relative`."""
        return DeformedGeometry(self, relative, build_bvh)


FunctionSpace.field_type = DiscreteField


def _require_alike(what: str, old: FunctionSpace, new: Any) -> None:
    if not isinstance(new, FunctionSpace):
        raise KernelTypeError(f"{what}: space: expected a function space, got {type_text(new)}")
    if (new.shape.element, new.name, new.dof_dtype) != (old.shape.element, old.name, old.dof_dtype):
        raise KernelValueError(f"{what}: space: expected one like {old.name}, got {new.name}", hint="make a new field")


@boundaries
class TraceField(FieldLike):
    """A field of cells, on their sides."""

    is_of_sides = True

    def __init__(self, field: DiscreteField) -> None:
        self.field, self.space, self.degree = field, field.space, field.degree
        self.geometry = field.geometry

    @property
    def arguments(self) -> Any:
        inner = self.field.arguments
        return trace_kind(type(inner))(field=inner)


@boundaries
class UniformField(FieldLike):
    """A field that is the same everywhere.

    Args:
        domain: where.
        value: its value.
    """

    _SETTABLE: ClassVar[tuple[str, ...]] = ("value",)

    def __init__(self, domain: GeometryDomain, value: Any) -> None:
        scalar = domain.geometry.scalar_type
        self.domain, self.value = domain, value
        self.dtype = scalar if type(value) is float else value_type("UniformField", "value", value)

    @property
    def domain(self) -> GeometryDomain:
        """The domain. You may set another one of the same precision."""
        return self._domain

    @domain.setter
    def domain(self, domain: Any) -> None:
        old = self.__dict__.get("_domain")
        if not isinstance(domain, GeometryDomain):
            raise KernelTypeError(f"UniformField: domain: expected a domain, got {type_text(domain)}")
        scalar = domain.geometry.scalar_type
        if old is not None and scalar != old.geometry.scalar_type:
            raise KernelValueError(
                f"UniformField: domain: expected one of a geometry of {old.geometry.scalar_type}, got {scalar}",
                hint="make another UniformField",
            )
        self._domain = domain

    @property
    def arguments(self) -> Any:
        geometry = self.domain.geometry
        return uniform_kind(self.dtype, geometry.dimension, geometry.scalar_type)(value=self.value)


@boundaries
class ImplicitField(_OfDomain):
    """A field that is a function of the position, or of the index of the quadrature point.

    Args:
        domain: where.
        func: a `@wp.func` of the position, or of the index (if its first argument is an `int`), and of values by their
            names.
        values: these.
        grad_func, div_func: the gradient and the divergence of `func`, of the same arguments; None: not available. The
            gradient of a scalar is a vector, that of a vector a matrix with a row for each component.
        degree: of the polynomial that it is near to, for the order of quadratures.
    """

    _SETTABLE: ClassVar[tuple[str, ...]] = ("values",)

    def __init__(self, domain: GeometryDomain, func: Any, values: dict[str, Any] | None = None, grad_func: Any = None,
                 div_func: Any = None, degree: int = 0) -> None:  # fmt: skip
        for name, function in {"func": func, "grad_func": grad_func, "div_func": div_func}.items():
            if not isinstance(function, Func) and (function is not None or name == "func"):
                raise KernelTypeError(f"ImplicitField: {name}: expected a @wp.func, got {type_text(function)}")
        super().__init__(domain)
        self.func, self.grad_func, self.div_func, self.degree = func, grad_func, div_func, degree
        self.values = dict(values or {})
        parameters = func.overloads[-1].parameters
        if not parameters:
            raise KernelTypeError(
                "ImplicitField: func: expected a function of at least one argument",
                hint="the first one is the position, or an int: the index of the quadrature point",
            )
        self._by_index = parameters[0].pattern == wp.int32
        self._declared = {p.name: p.pattern for p in parameters}

    @property
    def EvalArg(self) -> Any:
        return type(struct_of_values("ImplicitField", self._declared, self.values))

    @property
    def arguments(self) -> Any:
        values = struct_of_values("ImplicitField", self._declared, self.values)
        geometry, names = self.geometry.arguments, tuple(self.values)
        value, gradient, divergence = (
            f and of_values(f, names) for f in (self.func, self.grad_func, self.div_func)
        )
        of = ImplicitFunctions(value, gradient, divergence, self._by_index)
        kind = function_kind(type(geometry), not self.is_of_sides, of, type(values), self.degree)
        return kind(geometry=geometry, values=values)

    def trace(self) -> ImplicitField:
        """The field on the sides of the same geometry, or of the same part of it."""
        sides = Sides(self.domain.geometry_partition)
        return ImplicitField(sides, self.func, self.values, self.grad_func, self.div_func, self.degree)

    def make_deformed_geometry(self, relative: bool = True, build_bvh: bool = False) -> DeformedGeometry:
        """The geometry whose positions are the field's values, added to the old ones if `relative`.

        Raises:
            KernelValueError: the field is one of sides, has no `grad_func`, or takes an index.
        """
        if self.is_of_sides or self.grad_func is None or self._by_index:
            raise KernelValueError(
                "ImplicitField.make_deformed_geometry: expected a field of cells and of the position, with a gradient",
                hint="ImplicitField(fem.Cells(geometry), func, grad_func=...)",
            )
        return DeformedGeometry(self, relative, build_bvh)


@boundaries
class NonconformingField(_OfDomain):
    """A field of another geometry, at the positions of a domain.

    Args:
        domain: where it is evaluated.
        field: the field of the other geometry, in which positions can be looked up.
        background: what it is outside of that geometry: a value, or a field of the domain.
    """

    def __init__(self, domain: GeometryDomain, field: DiscreteField, background: Any = 0.0) -> None:
        if not isinstance(field, DiscreteField):
            raise KernelTypeError(f"NonconformingField: field: expected a field, got {type_text(field)}")
        if not {"lookup", "environment_lookup"} & set(type(field.geometry.arguments).FUNCTIONS):
            raise KernelValueError(
                "NonconformingField: field: positions cannot be looked up in its geometry",
                hint="make the mesh with build_bvh=True",
            )
        super().__init__(domain)
        counts = {g.environment_count() for g in (field.geometry, domain.geometry)} - {1}
        if len(counts) > 1:
            raise KernelValueError(
                f"NonconformingField: field: expected as many environments as the domain has,"
                f" {domain.geometry.environment_count()}, got {field.geometry.environment_count()}"
            )
        self.field, self.degree, self.dtype = field, field.degree, field.dtype
        is_field = isinstance(background, FieldLike)
        if is_field:
            require_on("NonconformingField: background", background, domain)
        self.background = background if is_field else UniformField(domain, field.dtype(background))

    @property
    def arguments(self) -> Any:
        parts = {n: getattr(self, n).arguments for n in ("domain", "field", "background")}
        return nonconforming_kind(*(type(p) for p in parts.values()))(**parts)


@boundaries
class _VirtualField(FieldLike):
    dof_name = ""

    def __init__(self, space: FunctionSpace, restriction: SpaceRestriction) -> None:
        self._bind(space, restriction)

    def _bind(self, space: FunctionSpace, restriction: SpaceRestriction) -> None:
        domain = restriction.domain
        self.space, self.domain, self.degree, self.geometry = space, domain, space.degree, space.geometry
        self.dtype = space.dtype
        self.space_restriction, self.space_partition = restriction, restriction.space_partition
        self.is_of_sides = domain.element_kind is ElementKind.SIDE

    @property
    def arguments(self) -> Any:
        geometry, topology = self.geometry.arguments, self.space.topology
        kind = virtual_kind(type(geometry), self.space.shape, self.space.mapper, self.dof_name, not self.is_of_sides)
        return kind(nodes=topology.array, coefficients=topology.coefficients, geometry=geometry,
                    **topology.orientation)  # fmt: skip


@boundaries
class TestField(_VirtualField):
    """The test functions of a form."""

    __test__ = False  # no test of pytest
    dof_name = TEST

    def rebind(self, space: FunctionSpace, space_restriction: SpaceRestriction) -> None:
        """Makes them the test functions of another space with the same functions, in another restriction."""
        _require_alike("TestField.rebind", self.space, space)
        self._bind(space, _restricted("TestField.rebind", space, space_restriction, None, None))


@boundaries
class TrialField(_VirtualField):
    """The trial functions of a form."""

    dof_name = TRIAL

    def rebind(self, space: FunctionSpace, space_partition: SpacePartition | None, domain: GeometryDomain) -> None:
        """Makes them the trial functions of another space with the same functions, on another domain."""
        _require_alike("TrialField.rebind", self.space, space)
        self._bind(space, _restricted("TrialField.rebind", space, None, space_partition, domain))


@boundaries
class FieldRestriction:
    """The values of a field at the nodes in a domain."""

    def __init__(self, restriction: SpaceRestriction, field: DiscreteField) -> None:
        self.space_restriction, self.field = restriction, field
        self.domain, self.space = restriction.domain, field.space


def _restricted(what: str, space: Any, restriction: Any, partition: Any, domain: Any) -> SpaceRestriction:
    if not isinstance(space, FunctionSpace):
        raise KernelTypeError(f"{what}: space: expected a function space, got {type_text(space)}")
    if restriction is not None:
        partition_of(what, space, restriction.space_partition)
        return restriction
    partition = partition_of(what, space, partition)
    if domain is None:
        domain = Cells(partition.geo_partition)
    if not isinstance(domain, GeometryDomain) or domain.geometry is not space.geometry:
        raise KernelValueError(
            f"{what}: domain: expected one of the space's geometry", hint="make space and domain of one geometry"
        )
    return SpaceRestriction(partition, domain)


@boundary
def make_test(space: Any, space_restriction: Any = None, space_partition: Any = None, domain: Any = None,
              device: Any = None) -> TestField:  # fmt: skip
    """The test functions of a space on a domain.

    Args:
        space: the space.
        space_restriction, domain: where; None: all cells, of the partition's part if there is one.
        space_partition: the nodes that have a function, and their numbers in results; None: all.
        device: accepted, no effect.

    Raises:
        KernelTypeError, KernelValueError: the arguments are not that.
    """
    del device
    return TestField(space, _restricted("make_test", space, space_restriction, space_partition, domain))


@boundary
def make_trial(space: Any, space_restriction: Any = None, space_partition: Any = None, domain: Any = None,
               device: Any = None) -> TrialField:  # fmt: skip
    """The trial functions of a space on a domain; arguments as of `make_test`."""
    del device
    return TrialField(space, _restricted("make_trial", space, space_restriction, space_partition, domain))


@boundary
def make_discrete_field(space: Any, space_partition: Any = None) -> DiscreteField:
    """A field of zeros in a space.

    Args:
        space: the space.
        space_partition: the nodes that have values; None: all.
    """
    return space.make_field(space_partition)


@boundary
def make_restriction(
    field: Any, space_restriction: Any = None, domain: Any = None, device: Any = None
) -> FieldRestriction:
    """The values of a field in a domain, for `interpolate` to write.

    Args:
        field: the field.
        space_restriction, domain: where; None: all cells.
        device: accepted, no effect.
    """
    del device
    if space_restriction is None:
        space_restriction = SpaceRestriction(field.space_partition, domain or Cells(field.geometry))
    return FieldRestriction(space_restriction, field)
