"""Launches of traced functions that find objects by their ids: made in Python when the program runs, with the tables of
then. See docs/design/0064."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxwarp.arrays.eager import PlacedValue, launch_now
from jaxwarp.arrays.ids.tables import as_numbers, objects_in, place_of, tables_at, tables_type
from jaxwarp.errors import DifferentiationError, IdError, KernelError, KernelValueError, Loc
from jaxwarp.ffi.programs.python_call import Kind, PythonParameter, make_call
from jaxwarp.ffi.programs.traced_array import ArrayHandle
from jaxwarp.ffi.programs.tracing import Program, written_arrays
from jaxwarp.frontend.ids import TABLES
from jaxwarp.kernel import Kernel
from jaxwarp.launches.arguments.argument import CallParameter, Given, as_jax_value, describe_for, with_absent
from jaxwarp.launches.arguments.bind import (
    LaunchOptions,
    arguments_of,
    bind,
    make_converters,
    resolve_elements,
    specialize,
)
from jaxwarp.launches.arguments.dims import normalize_dims
from jaxwarp.launches.arguments.leaves import spread
from jaxwarp.launches.spec import IN_OUT, INPUT
from jaxwarp.memory.current import scope_now
from jaxwarp.memory.gpu.ordering import note
from jaxwarp.memory.gpu.scope import GpuScope
from jaxwarp.memory.host_scope import HOST
from jaxwarp.memory.live_array import MemoryArray
from jaxwarp.memory.region import Region
from jaxwarp.memory.scope import Scope
from jaxwarp.types import Array


def looks_up(kernel: Kernel, values: Sequence[Any]) -> bool:
    """Tell whether a kernel looks objects up by numbers, where it is given these arguments."""
    leaves, arguments = [_settled(v) for v in spread(kernel, values)], arguments_of(kernel)
    try:
        described = with_absent(arguments, [_describe(a, v) for a, v in zip(arguments, leaves, strict=True)])
        specialize(kernel, arguments, resolve_elements(arguments, described), described)
    except IdError:
        return True
    except KernelError:
        return False
    return False


def launch_late(
    program: Program, kernel: Kernel, dim: Any, params: Sequence[Any], block_dim: Any, refused: KernelError
) -> None:
    """Make a launch that finds objects by their ids an operation of a program.

    Args:
        refused: what was wrong with the launch on values of JAX; it has the line.

    Raises:
        KernelTypeError, KernelValueError: the arguments do not fit the kernel.
    """
    numbers, objects = as_numbers(kernel, params), objects_in(kernel, params)
    kernel = kernel.given(numbers)
    numbered = kernel.with_argument(TABLES, tables_type())
    tables, _ = tables_at(HOST).now()
    given = [_settled(v) for v in spread(kernel, numbers)]
    arguments = arguments_of(numbered)
    leaves = spread(numbered, [*numbers, tables])
    leaves[: len(given)] = given
    described = with_absent(arguments, [_describe(a, v) for a, v in zip(arguments, leaves, strict=True)])
    elements = resolve_elements(arguments, described)
    converters = make_converters(arguments, elements, described)
    options = LaunchOptions(program.vmap_method, kernel.cuda_options(block_dim), program.has_side_effect)
    extents, shapes = normalize_dims(dim, f"kernel {kernel.name}: dim"), [d.shape for d in described]
    launch = bind(numbered, specialize(numbered, arguments, elements, described), extents, shapes, options)
    program.failing.extend([launch] if launch.debug is not None else [])
    written = written_arrays(launch, arguments, leaves, {})
    parameters, operands = [], []
    for i, (argument, value) in enumerate(zip(arguments[: len(given)], given, strict=True)):
        if not _is_traced(value):
            continue
        convert, element = converters[i], elements[i]
        operands.append(value if convert is None or isinstance(value, ArrayHandle) else convert(value))
        given[i] = _Operand(len(parameters))
        type_ = Array(element, argument.ndim) if argument.is_array else element
        role = IN_OUT if i in launch.result_params else INPUT
        parameters.append(PythonParameter(f"{i} {argument.name}", role, type_, tuple(shapes[i] or ())))
    late = _Late(numbered, extents, given, block_dim, objects)
    kind = Kind(
        f"kernel {kernel.name}",
        partial(_no_derivative, kernel.name, refused.loc),
        partial(_no_export, kernel.name, refused.loc),
    )
    call = make_call(late, kernel.name, parameters, options.vmap_method, launch.has_side_effect, kind)
    program.call(call, operands, written)


class _Operand(NamedTuple):
    """Stands for an argument that is an operand of the program."""

    number: int


class _Late:
    """A launch whose arguments are partly operands of the program. It keeps the objects whose ids it is given."""

    def __init__(self, kernel: Kernel, dim: Any, given: Sequence[Any], block_dim: Any, objects: Sequence[Any]):
        self._objects = objects
        self._kernel, self._dim, self._given, self._block_dim = kernel, dim, given, block_dim

    def __call__(self, *operands: Any) -> None:
        scope = scope_now()
        assert scope is not None
        own = [operands[g.number] if isinstance(g, _Operand) else g for g in self._given]
        with tables_in(scope) as tables:
            launch_now(scope, self._kernel, self._dim, [*own, *tables], self._block_dim)


@contextmanager
def tables_in(scope: Scope) -> Iterator[list[Any]]:
    """Yield the arguments in which a launch in a call finds objects."""
    place = place_of(scope)
    tables = tables_at(place)
    with tables.used(in_call=True) as value:
        arrays = [array._region for array in vars(value).values()]
        if not isinstance(place, GpuScope):
            yield list(vars(value).values())
            return
        # On the stream of XLA's: after what is queued on the objects, and before what will be.
        queue = place.foreign_queue(scope.stream or 0)
        with queue.used():
            note(queue, [*tables.regions, *arrays], [])
            yield [_Lent(array) for array in arrays]


class _Lent:
    """An array of the process on a GPU, as a call on that GPU takes it: nobody has to wait for it."""

    def __init__(self, region: Region):
        self.__cuda_array_interface__ = {
            "data": (region.address, True),
            "shape": region.shape,
            "strides": None,
            "typestr": region.dtype.str,
            "version": 3,
        }
        self._owner = region.owner


def _is_traced(value: Any) -> bool:
    return isinstance(value, (ArrayHandle, jax.Array))


def _settled(value: Any) -> Any:
    """An argument as it is now; arrays outside of JAX are read when the program runs, as the objects are."""
    if isinstance(value, (ArrayHandle, MemoryArray)):
        return value
    value = as_jax_value(value)
    return value.copy() if isinstance(value, np.ndarray) else value


def _describe(argument: CallParameter, value: Any) -> Given:
    if isinstance(value, ArrayHandle):
        return value.describe()
    if isinstance(value, jax.Array):
        return describe_for(argument, value)
    # 64-bit data that do not go through JAX are that.
    return PlacedValue(value, value, value.region).describe() if isinstance(value, MemoryArray) else _plain(value)


def _plain(value: Any) -> Given:
    return PlacedValue(value).describe()


def _no_derivative(name: str, line: Loc | None) -> DifferentiationError:
    return DifferentiationError(
        f"kernel {name} finds objects by their ids, and has no derivative in a program of JAX",
        line,
        hint="pass each object as an argument of its own, or give the call a rule with jax.custom_vjp",
    )


def _no_export(name: str, line: Loc | None) -> KernelValueError:
    return KernelValueError(
        f"kernel {name} finds objects by their ids, which name objects of this process, and cannot be exported",
        line,
        hint="pass each object as an argument of its own",
    )

