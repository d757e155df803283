"""The types of arguments of integrands: samples, and the marks of fields and domains."""

# pyright: reportRedeclaration=false

from __future__ import annotations

import enum
import functools
import operator
from typing import Any

import jaxwarp as wp
from jaxwarp.errors import KernelTypeError

Coords = wp.vec3
Coords_f64 = wp.vec3d
ElementIndex = wp.int32
NodeIndex = wp.int32
QuadraturePointIndex = wp.int32
OUTSIDE = -1.0e8
NULL_ELEMENT_INDEX = -1
NULL_QP_INDEX = -1
NULL_NODE_INDEX = (1 << 31) - 1
NULL_DOF = (-1, -1)


class ElementKind(enum.IntEnum):
    """The kind of a domain's elements."""

    CELL = 0
    SIDE = 1


class Field:
    """Marks an argument of an integrand that is a field: `u: fem.Field`."""

    def __call__(self, s: Any) -> Any:
        """Its value at a sample, in integrands."""
        del s
        raise KernelTypeError("a field is a mark of arguments here", hint="evaluate fields in an integrand")


class Domain:
    """Marks an argument of an integrand that is the domain: `domain: fem.Domain`."""

    def __call__(self, s: Any) -> Any:
        """The position of a sample, in integrands."""
        del s
        raise KernelTypeError("a domain is a mark of arguments here", hint="evaluate positions in an integrand")


@wp.struct
class Sample:
    """A point of an element. Of a degree of freedom: the node in the element, and which of its components."""

    element_index: int
    element_coords: wp.vec3
    qp_index: int = NULL_QP_INDEX
    qp_weight: float = 0.0
    test_dof: wp.vec2i = wp.vec2i(-1, -1)
    trial_dof: wp.vec2i = wp.vec2i(-1, -1)


@wp.struct
class Sample_f64:
    """A `Sample` of a geometry in double precision."""

    element_index: int
    element_coords: wp.vec3d
    qp_index: int = NULL_QP_INDEX
    qp_weight: wp.float64 = wp.float64(0.0)
    test_dof: wp.vec2i = wp.vec2i(-1, -1)
    trial_dof: wp.vec2i = wp.vec2i(-1, -1)


@wp.func
def make_free_sample(element_index: int, element_coords: wp.vec3):
    """A sample that is no quadrature point and belongs to no degree of freedom."""
    return Sample(element_index, element_coords)


@wp.func
def make_free_sample(element_index: int, element_coords: wp.vec3d):
    """The same in double precision."""
    return Sample_f64(element_index, element_coords)


def sample_type(scalar: Any) -> Any:
    """The class of the samples of a geometry."""
    return Sample_f64 if scalar == wp.float64 else Sample


def require_integer(what: str, value: Any) -> int:
    """A whole number.

    Raises:
        KernelTypeError: it is none.
    """
    try:
        return operator.index(value)
    except TypeError:
        raise KernelTypeError(f"{what}: expected an integer, got {value!r}") from None


@functools.cache
def vector(length: int, scalar: Any) -> Any:
    return wp.types.vector(length=length, dtype=scalar)


@functools.cache
def matrix(rows: int, columns: int, scalar: Any) -> Any:
    return wp.types.matrix(shape=(rows, columns), dtype=scalar)
