"""The cost of code on CPUs: the numbers by which lanes, rows and pieces of launches are chosen.

The unit is a cycle in which one register of lanes keeps a core busy; for one of eight lanes that is about 0.04 ns.

The measurements cover all programs of benchmarks/cpu.py, irregular.py and derivatives.py, as code of 1, 2 and 4
registers a value. They ran in turn in one process, on one thread, in CPU time, on a Xeon (Sapphire Rapids), for AVX2
and for AVX-512. Ratios in the comments are from these measurements, unless they name another processor. Work and
latency without a measurement are the values that AMD and Intel publish.
"""

from __future__ import annotations

from jaxwarp.builtins.scalar_ops import ELEMENTARY

# Work: cycles that a register of an operation keeps units busy; OPERATION (three a cycle) for what is not listed.
# Divisions have one unit. Elementary functions and powers are formulas of 30 to 100 instructions: a sine takes 12
# cycles; the sine, exponential and power of cpu.py's `elementary` take 75.
OPERATION = 1 / 3
_ELEMENTARY = [row.name for row in ELEMENTARY]
CYCLES = {
    **dict.fromkeys(_ELEMENTARY, 16), "pow": 40,
    **dict.fromkeys(("div", "floordiv", "mod", "cbrt"), 5), "sqrt": 6, "rsqrt": 11, "hypot": 11,
    **dict.fromkeys(("min_number", "max_number"), 7 * OPERATION),
}  # fmt: skip

# Latency: cycles until a result is there; 1 for what is not listed, and for integers but for their products. Of a sine:
# a loop that carries one, times a number and added, takes 38 an iteration with one register.
LATENCIES = {
    **dict.fromkeys(("add", "sub", "mul", "fma", "cast", "floor", "ceil", "trunc", "rint"), 4), "neg": 0,
    **dict.fromkeys(_ELEMENTARY, 35), "div": 13, "sqrt": 16, "rsqrt": 29, "pow": 80,
    **dict.fromkeys(("min_number", "max_number"), 8),
}  # fmt: skip
# Lanes that follow links take 0.75 to 0.9 of the time with four registers: a gather's latency is more than a load's.
LOAD_LATENCY, GATHER_LATENCY = 5, 20

# Memory, as work: a register from the nearer caches, not the first; a scalar broadcast; an address, an access and an
# insertion for each lane of a gather (two words side by side are one with AVX-512), 0.8 in rows of sparse matrices with
# AVX-512 and 1.5 with AVX2, so that more lanes gain nothing there and wait for each other; more for one of a scatter.
LOAD, BROADCAST, GATHERED_LANE, SCATTERED_LANE = 2 * OPERATION, OPERATION, 3 * OPERATION, 4 * OPERATION
# Lanes that add to one place wait for each other, ten cycles each. Particles in the order of their cells, which add to
# 27 nodes each, take 0.8 of the time with 4 lanes for 8 (AVX2); in no order, as long.
WAITING = 0.14
# A register added to memory is loaded, stored and written back. The sum over its lanes is ten operations.
ADDED, SUMMED = 3 * LOAD, 10 * OPERATION

# What a body has once, whatever it holds: a chunk's jump and addresses, a loop's counter and jump. Of streams a second
# register is worth a third of the time with AVX2, of which two are a line; elsewhere a few per cent.
CHUNK, ITERATION = 1.5, 2.0
# A value without a register: an operand in memory, mostly. The tangent of a pendulum, 9 values of 4 registers each on a
# machine of 16, takes 0.7 of the time that it takes with two each; lattice Boltzmann, 18 values, 1.2 with two for one.
SPILL = 0.3
# Without masked gathers, lanes that have left a loop still load. Where each doubling of the lanes adds this part to the
# iterations of rows of sparse matrices (12 elements each, as chance has it), 4 lanes take 0.7 of the time of 16 (AVX2).
# Loops in which each gather waits for the one before gain from every lane: links take 0.5 with 32 of the time with 8.
IDLE = 0.14
# Each register more: of a chunk, since more of a row is left over; of an operation, for its code. A stencil of 512
# columns takes 1.2 times as long with four for two, trilinear samples 1.1 times with two for one (AVX-512).
REST, SIZE = 0.45, 0.006
# Each register more of a divergent loop, all waiting for the last, as a part of an iteration. Collatz
# takes 0.8 of the time with four for two, greatest divisors, which have work enough, 1.1. With half a register fewer
# lanes wait: rows of sparse matrices, gathers mostly, take 0.87 of the time so, marching cubes 0.84 (AVX-512); but not
# lanes that follow links, 1.2 and more, whose gathers wait for each other.
DIVERGENCE, HALF = 0.025, 0.9

# Several rows: what their body may cost beside that for one. Convolutions, whose rows share only weights, would save
# 0.2 by this count, and take 1.1 to 1.2 times as long (AMD).
WORTH = 0.75
# Where sums over lanes are made, what is held, in parts of the registers that there are: some of it is operands in
# memory. Gradients of products of matrices take 5 times the product's time so (AMD).
HELD = 2.5

# Pieces of launches: 20 microseconds, half of what is worth another core, see Cut in native/cut.h. In programs that
# launch again and again (AMD), elementary functions and loops take two thirds of the time from 100 microseconds on; at
# 20 to 40 they gain or lose a quarter, depending on how soon a worker comes.
GRAIN = 500_000
# Iterations of loops whose number is not known.
TRIPS = 32
# Of an atomic 5 ns, of a load and a store in its place, lane by lane, 1.7 (AMD). Where lanes are summed first it is a
# part of that. In the work of a thread an atomic is at least so much; where it cannot be avoided it is more.
ATOMIC_ALONE, PLAIN_ALONE, SUMMED_PART, ATOMIC = 125, 42, 0.25, 8
# Of a byte of a copy that a piece fills and that is added: 0.1 ns, on copies of a megabyte (AMD).
COPIED_BYTE = 3
