"""The plan of a launch function, made before its text is written: its bodies, and the places where atomics add."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from jaxwarp.codegen.cpu.analysis.components import is_component
from jaxwarp.codegen.cpu.analysis.interior import Interior, find_interior
from jaxwarp.codegen.cpu.analysis.neighbours import Neighbours, find_neighbours
from jaxwarp.codegen.cpu.analysis.streamed import streamed
from jaxwarp.codegen.cpu.analysis.uniformity import Strides, find_strides
from jaxwarp.codegen.cpu.plan.coarsening import Coarse, choose_coarse
from jaxwarp.codegen.cpu.plan.cost import price_of
from jaxwarp.codegen.cpu.plan.exclusive import Exclusive, find_exclusive
from jaxwarp.codegen.cpu.plan.privatization import make_private, own_rows, row_sums, summed_arrays
from jaxwarp.codegen.cpu.plan.target import Machine
from jaxwarp.codegen.cpu.plan.width import register_lanes
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, For, Load, Param, Store, While, walk

# Of vector registers: instructions then take constants from memory.
_FEW_REGISTERS = 16


@dataclass(frozen=True)
class Plan:
    """The plan for the code of a kernel.

    Attributes:
        kernel: with atomics on elements of a thread's own as loads and stores.
        width: lanes.
        machine: what the code is shaped for.
        strides: of the kernel's values.
        streamed: arrays that may be stored past the caches.
        row_sums: atomics whose values a row of threads gathers.
        own_rows: those of them whose element is that of one row.
        element_sums: arrays of few elements that lanes add to together, and these atomics.
        exclusive: the arrays with atomics that a rectangle can do without.
        neighbours: additions that the body for full chunks makes together.
        interior: the version of the body for chunks inside of the domain.
        coarse: the body for several rows.
        rest_width, rest_strides: lanes of the body for chunks of which some lanes are off, and its values.
        has_stored_constants: whether literals are read from memory.
        extents: of the launch, where they are known.
    """

    kernel: Kernel
    width: int
    machine: Machine
    strides: Strides
    streamed: Set[Param]
    row_sums: Sequence[Atomic]
    own_rows: Set[Atomic]
    element_sums: Mapping[Param, Set[Atomic]]
    exclusive: Exclusive | None
    neighbours: Sequence[Neighbours]
    interior: Interior | None
    coarse: Coarse | None
    rest_width: int
    rest_strides: Strides
    has_stored_constants: bool
    extents: tuple[int, ...] | None = None

    def is_even(self, axis: int, count: int) -> bool:
        """Return whether a known extent is a multiple of a number."""
        return self.extents is not None and self.extents[axis] % count == 0


def make_plan(
    kernel: Kernel, width: int, machine: Machine, is_in_order: bool, extents: tuple[int, ...] | None = None
) -> Plan:
    """The plan for a prepared kernel.

    Args:
        kernel: the kernel.
        width: lanes.
        machine: what to shape the code for.
        is_in_order: whether threads follow each other.
        extents: of the launch, where they are known.
    """
    if width == 1:
        strides = find_strides(kernel, width)
        return Plan(kernel, width, machine, strides, set(), (), set(), {}, None, (), None, None, width, strides, False)
    kernel = make_private(kernel)
    strides = find_strides(kernel, width)
    rows = row_sums(kernel, strides.used)
    own = own_rows(kernel, rows)
    elements = summed_arrays(kernel, strides, rows, width)
    summed = [op for ops in elements.values() for op in ops]
    exclusive = find_exclusive(kernel, rows, summed, strides.used)
    interior = find_interior(kernel, width, strides)
    near: Sequence[Neighbours] = ()
    if exclusive is not None:
        inside = strides if interior is None else interior.strides
        near = find_neighbours(kernel, inside, width, exclusive.keys)
    # Where threads follow each other, rows do, too; and what runs alone may be a part of the launch.
    can_join = interior is None and not is_in_order and not rows and not near
    coarse = _rows_together(kernel, strides, width, machine, exclusive, extents) if can_join else None
    rest = _rest(kernel, strides, width, machine, bool(rows))
    # In loops constants stay in registers where there is room.
    has_loops = any(isinstance(op, (For, While)) for op in walk(kernel.body))
    return Plan(
        kernel=kernel,
        width=width,
        machine=machine,
        strides=strides,
        streamed=streamed(kernel),
        row_sums=rows,
        own_rows=own,
        element_sums=elements,
        exclusive=exclusive,
        neighbours=near,
        interior=interior,
        coarse=coarse,
        rest_width=rest[0],
        rest_strides=rest[1],
        has_stored_constants=machine.vector_registers <= _FEW_REGISTERS and not has_loops,
        extents=extents,
    )


def _rows_together(
    kernel: Kernel,
    strides: Strides,
    width: int,
    machine: Machine,
    exclusive: Exclusive | None,
    extents: tuple[int, ...] | None,
) -> Coarse | None:
    """The body for several rows. What it adds is to floats that all lanes share, or that the rectangle may own."""
    if exclusive is None and any(isinstance(op, Atomic) for op in walk(kernel.body)):
        return None  # of these each lane's addition would be an atomic
    rows = extents[-2] if extents is not None and len(extents) > 1 else None
    return choose_coarse(kernel, strides, width, machine, rows)


def _rest(kernel: Kernel, strides: Strides, width: int, machine: Machine, keeps_sums: bool) -> tuple[int, Strides]:
    """Lanes and strides of the masked body. Partial sums of rows are as wide as the unmasked one."""
    if keeps_sums:
        return width, strides
    if not machine.has_gather and _is_taken_apart(kernel, strides):
        return 1, find_strides(kernel, 1)
    return min(width, register_lanes(kernel, machine)), strides


def _is_taken_apart(kernel: Kernel, strides: Strides) -> bool:
    """Return whether the work is mostly accesses to components of arrays of vectors, without loops or atomics."""
    ops = list(walk(kernel.body))
    if kernel.locals or any(isinstance(op, (Atomic, For, While)) for op in ops):
        return False
    apart = sum(price_of(op) for op in ops if isinstance(op, (Load, Store)) and is_component(strides, op))
    return 5 * apart >= sum(map(price_of, ops))
