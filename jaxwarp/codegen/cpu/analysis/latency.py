"""Loops whose iterations wait for each other: how long an iteration's values take to come, beside the work of computing
them.

A processor begins an iteration's operations when their operands are there. If what goes from iteration to iteration
takes 12 cycles and the operations of one register of lanes keep the units busy for 3, then four registers take as long
as one.
"""

from __future__ import annotations

from jaxwarp.codegen.cpu.analysis.speculation import is_speculatable, numbered
from jaxwarp.codegen.cpu.analysis.uniformity import Strides
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Block, Call, For, If, Value, While, walk

# Cycles until a result is there, on AMD's and Intel's processors of the last years: 1 for what is not listed. Integers
# share the names; only their products take as long.
_LATENCIES = {
    "add": 4, "sub": 4, "mul": 4, "fma": 4, "cast": 4, "floor": 4, "ceil": 4, "trunc": 4, "rint": 4,
    "div": 13, "sqrt": 16, "rsqrt": 29, "neg": 0,
}  # fmt: skip
# Cycles for which the one unit that divides is busy with a register of float32, of float64.
_DIVISIONS = {"div": (5, 7), "sqrt": (6, 9), "rsqrt": (11, 16)}
_PARTS_OF_OTHERS = ("neg", "logical_and", "logical_not")  # of a fused product, of the mask
# Operations a cycle.
_RATE = 3
# Two registers of lanes, the next best, wait if even the work of so many fits into an iteration's latency.
_REGISTERS = 2.9
# Operations of an iteration for which a processor that looks ahead some 250 of them sees four registers at once.
_FEW = 60
_TURNS = 8


def is_latency_bound(kernel: Kernel, strides: Strides, bits: int) -> bool:
    """Does a kernel spend its time in register-blocked loops of values of `bits`, and wait for their latency?"""
    loops = [op for op in walk(kernel.body) if isinstance(op, For | While)]
    found = [op for op in loops if isinstance(op, While) and not strides.has_uniform_trips(op)]
    found = [op for op in found if strides.mask_bits(op.condition.params) == bits and is_speculatable(op, strides)]
    others = [op for op in loops if op not in found]
    around = all(any(inner in found for block in op.blocks for inner in walk(block)) for op in others)
    return bool(found) and around and not kernel.locals and all(_is_latency_bound(op, strides) for op in found)


def _is_latency_bound(loop: While, strides: Strides) -> bool:
    """Does a loop that `register_blocked.py` emits run faster for four registers of lanes than for two?"""
    operations, busy = _work(loop, strides)
    return operations <= _FEW and _latency(loop, strides) > _REGISTERS * max(operations / _RATE, busy)


def _work(loop: While, strides: Strides) -> tuple[int, int]:
    """Operations of an iteration for one register, and cycles that divisions take."""
    calls = {number: op for op, number in numbered(loop).items() if not strides.is_uniform(op.result)}.values()
    divisions = [op for op in calls if op.builtin.name in _DIVISIONS]
    busy = sum(_DIVISIONS[op.builtin.name][op.result.type.bits == 64] for op in divisions)
    chosen = sum(len(op.results) for block in loop.blocks for op in walk(block) if isinstance(op, If))
    params = [p for p, r in zip(loop.condition.params, loop.results, strict=True) if r in strides.used]
    # What is left with is chosen by the mask. Iterations are counted once.
    chosen += sum(not strides.is_scalar(p) for p in params) + any(strides.is_scalar(p) for p in params)
    # The mask, and whether any lane is on.
    return sum(op.builtin.name not in _PARTS_OF_OTHERS for op in calls) + chosen + 2, busy


def _latency(loop: While, strides: Strides) -> float:
    """Cycles from iteration to iteration."""
    params = loop.condition.params
    there = [0.0] * len(params)
    mask, before = 0.0, 0.0
    for iteration in range(_TURNS):
        if iteration == _TURNS // 2:
            before = max(there)
        ready = dict(zip(params, there, strict=True))
        _arrive(loop.condition, ready, strides)
        mask = max(mask, *(ready.get(v, 0.0) for v in loop.condition.results)) + 1
        ready |= dict(zip(loop.body.params, there, strict=True))
        _arrive(loop.body, ready, strides)
        coming = [ready.get(v, 0.0) for v in loop.body.results]  # what is from outside or a number is there
        there = [
            0.0 if strides.is_scalar(param) else max(came, mask) + 1 if result in strides.used else came
            for param, came, result in zip(params, coming, loop.results, strict=True)
        ]
    return (max(there) - before) / (_TURNS - _TURNS // 2)


def _arrive(block: Block, ready: dict[Value, float], strides: Strides) -> None:
    for op in block.ops:
        if isinstance(op, Call):
            begin = max((ready.get(a, 0.0) for a in op.args), default=0.0)
            known = op.result.type.is_float or op.builtin.name == "mul"
            ready[op.result] = begin + (_LATENCIES.get(op.builtin.name, 1) if known else 1)
        elif isinstance(op, If):
            for inner in op.blocks:
                _arrive(inner, ready, strides)
            for result, *values in zip(op.results, *(b.results for b in op.blocks), strict=True):
                ready[result] = 1 + max(ready.get(v, 0.0) for v in (op.condition, *values))
