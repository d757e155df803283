"""Calls of tasks, see plan/tasks.py: functions of the module that get what a launch gets."""

from __future__ import annotations

from dataclasses import dataclass

from jaxwarp.codegen.abi import GRID, Geometry
from jaxwarp.codegen.cpu.access.memory import from_memory, to_memory
from jaxwarp.codegen.cpu.llvm.lanes import Lanes
from jaxwarp.codegen.cpu.llvm.vectors import memory_type
from jaxwarp.codegen.cpu.plan.tasks import Task, counts
from jaxwarp.ir.nodes import Value


@dataclass(frozen=True, eq=False)
class TaskCode:
    """The function of a task: its name, and the run-time integers that it reads."""

    task: Task
    symbol: str
    geometry: Geometry


def emit_task_call(lanes: Lanes, code: TaskCode) -> None:
    """Calls the function of a task, which works on all of a loop, and binds the results of the loop."""
    function, frame, task = lanes.function, lanes.frame, code.task
    totals = [_slot(lanes, before) for before, _ in task.sums]
    pointers = [frame.pointer(param) for param in task.arrays]
    pointers += [_slot(lanes, value) for value in task.numbers]
    buffers = _array(lanes, "ptr", [*pointers, *totals])
    geometry = _array(lanes, "i64", [_entry(lanes, task, source, axis) for source, axis in code.geometry])
    rows, columns = counts(task.extents)
    function.line(
        f"call void @{code.symbol}(ptr {buffers}, ptr {geometry}, i64 0, i64 {rows}, i64 0, i64 {columns}) #2"
    )
    for (_, result), total in zip(task.sums, totals, strict=True):
        type_ = memory_type(result.type)
        raw = function.inst(f"load {type_}, ptr {total}, align {result.type.bytes}")
        lanes.bind(result, from_memory(lanes, result.type, raw, scalar=True))


def _slot(lanes: Lanes, value: Value) -> str:
    """Memory that holds a value."""
    type_ = memory_type(value.type)
    slot = lanes.function.alloca(type_)
    lanes.function.line(f"store {type_} {to_memory(lanes, value, scalar=True)}, ptr {slot}, align {value.type.bytes}")
    return slot


def _array(lanes: Lanes, type_: str, entries: list[str]) -> str:
    """Memory that holds operands."""
    if not entries:
        return "null"
    function = lanes.function
    array = function.alloca(f"[{len(entries)} x {type_}]")
    for number, entry in enumerate(entries):
        at = function.inst(f"getelementptr {type_}, ptr {array}, i64 {number}")
        function.line(f"store {type_} {entry}, ptr {at}, align 8")
    return array


def _entry(lanes: Lanes, task: Task, source: int, axis: int) -> str:
    if source == GRID:
        return str(task.extents[axis])
    if source < 0:
        return "0"  # no copies
    return str(lanes.frame.extent(task.kernel.params[source], axis))
