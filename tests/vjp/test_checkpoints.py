"""Reversed loops: where states are kept, how often iterations are run again, what comes out."""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp.ir import interpret as interpreter
from jaxwarp.ir.builder import Builder
from jaxwarp.ir.interpret import interpret
from jaxwarp.ir.nodes import For, Param, While, walk
from jaxwarp.passes.pipeline import prepare
from jaxwarp.types import int64
from jaxwarp.vjp.calculus import Calculus
from jaxwarp.vjp.reverse import checkpoints
from jaxwarp.vjp.reverse.adjoint import adjoint
from jaxwarp.vjp.reverse.checkpoint_slots import CheckpointSlots, SlotLayout

FEW, MANY = checkpoints.LAYOUTS[8], checkpoints.LAYOUTS[None]
SMALL = [
    SlotLayout(0, 1, 0, 0),
    SlotLayout(1, 1, 0, 2),
    SlotLayout(1, 2, 1, 1),
    SlotLayout(2, 4, 2, 3),
    SlotLayout(2, 1, 3, 0),
]


def sample_places(layout: SlotLayout, asked: np.ndarray) -> np.ndarray:
    """For rows (number, last): the slot of `number`, its nearest state, the stride, by the code that kernels get."""
    rows, out = Param("rows", int64, (None, 2)), Param("out", int64, (None, 3))
    builder = Builder()
    places = CheckpointSlots(Calculus(builder), layout)
    i = builder.tid(0)
    number, last = (builder.load(rows, [i, builder.const(c, i.type)]) for c in (0, 1))
    stride = places.stride(last)
    for c, value in enumerate((places.slot(number, stride), places.nearest(number, stride), stride)):
        builder.store(out, [i, builder.const(c, i.type)], value)
    found = np.zeros((len(asked), 3), np.int64)
    interpret(builder.finish("places", 1, [rows, out]), (len(asked),), [np.asarray(asked, np.int64), found])
    return found


class Walk:
    """The schedule, played with numbers for states: each state asked for must be there."""

    def __init__(self, layout: SlotLayout, trips: int):
        self.layout, self.trips = layout, trips
        self.kept: dict[int, int] = {}
        self.runs = 0
        self.last = (trips - 1) >> layout.fine

    def play(self) -> int:
        """How many iterations are run, before they are reversed."""
        numbers = np.arange(self.last + 1)
        grown = sample_places(self.layout, np.stack([numbers, numbers], 1))
        final = sample_places(self.layout, np.stack([numbers, np.full_like(numbers, self.last)], 1))
        self.runs = self.trips
        for number in range(self.last + 1):
            self.keep(grown[number, 0], number)
        for number in range(self.last - 1, -1, -1):
            begin = int(final[number, 1])
            assert 0 <= begin <= number
            assert self.kept.get(int(final[begin, 0])) == begin, (number, begin)
            for again in range(begin, number + 1):
                self.keep(final[again, 0], again)
            self.runs += (number + 1 - begin << self.layout.fine) - 1
        return self.runs

    def keep(self, slot: int, number: int) -> None:
        assert 0 <= slot < self.layout.slots
        self.kept[int(slot)] = number


def bound(layout: SlotLayout, trips: int) -> float:
    """Runs of each iteration that docs/design/0005-derivatives.md promises."""
    stride = max(0, math.ceil(math.log2(max(trips, 1))) - layout.fine - layout.coarse)
    if trips <= layout.segment:
        return 1
    group = min(stride, layout.group)
    single = min(stride - group, layout.levels)
    skipped = stride - group - single
    return 2 + (1 - 2.0**-group) + single / 2 + (2**skipped - 1) / 2


@pytest.mark.parametrize("layout", [*SMALL, FEW, MANY], ids=str)
def test_every_state_is_there(layout):
    sizes = [*range(70), 127, 128, 129, 255, 256, 257, 500, 1000, 1023, 1024, 1025, 3000]
    for trips in sizes if layout.levels else sizes[:-5]:
        runs = Walk(layout, trips).play()
        assert runs <= bound(layout, trips) * trips, (trips, runs)


@pytest.mark.parametrize("trips", [4096, 5000, 32768, 100_000])
def test_many_segments(trips):
    """What is promised of loops of many iterations."""
    runs = Walk(FEW, trips).play()
    assert runs <= bound(FEW, trips) * trips
    assert bound(FEW, trips) <= 3 + 0.5 * math.ceil(math.log2(trips / 4096))


def test_huge_numbers():
    """At the ends of the longest loops there are, slots are in their arrays, and runs begin before what they are for"""
    rng = np.random.default_rng(3)
    for layout in (FEW, MANY):
        for bits in range(1, 63 - layout.fine):
            last = (1 << bits) + int(rng.integers(0, 1 << bits))
            near = np.unique(np.clip(last - np.arange(40), 0, None))
            spread = rng.integers(0, last + 1, 40)
            for numbers in (near, spread):
                found = sample_places(layout, np.stack([numbers, np.full_like(numbers, last)], 1))
                assert (found[:, 0] >= 0).all()
                assert (found[:, 0] < layout.slots).all()
                assert (found[:, 1] >= 0).all()
                assert (found[:, 1] <= numbers).all()
                begun = sample_places(layout, np.stack([found[:, 1], np.full_like(numbers, last)], 1))
                assert (begun[:, 0] < layout.unkept).all()  # where a run begins, the state is kept
                stride = int(found[0, 2])
                assert last >> stride < 1 << layout.coarse
                kept = layout.group + layout.levels
                most = 1 << stride if stride <= kept else 1 << min(stride, 62)
                assert (numbers - found[:, 1] < most).all()


@wp.kernel
def pendulum(x: wp.array[wp.float64], n: int, y: wp.array[wp.float64]):
    i = wp.tid()
    v = x[i]
    w = wp.float64(0.3)
    h = wp.float64(1.0) / wp.float64(n)
    for _ in range(n):
        w -= h * wp.sin(v) + h * wp.float64(0.1) * w * w
        v += h * w
    y[i] = v + w


@wp.kernel
def squared(x: wp.array[wp.float64], n: int, y: wp.array[wp.float64]):
    """What the loop leaves is used by what does not enter linearly."""
    i = wp.tid()
    v = x[i]
    for _ in range(n):
        v += wp.sin(v) / wp.float64(n)
    y[i] = v * v


@wp.kernel
def until(x: wp.array[wp.float64], n: wp.array[int], y: wp.array[wp.float64]):
    i = wp.tid()
    v = x[i]
    k = 0
    while k < n[i] and v < 1.0e6:
        v += wp.sin(v) / (1.0 + wp.float64(k))
        k += 1
    y[i] = v


@wp.kernel
def ragged(x: wp.array[wp.float64], n: wp.array[int], y: wp.array[wp.float64]):
    i = wp.tid()
    v = x[i]
    for k in range(n[i], 0, -1):
        v += wp.sin(v) / wp.float64(k)
    y[i] = v


@wp.kernel
def fixed(x: wp.array[wp.float64], y: wp.array[wp.float64]):
    i = wp.tid()
    v = x[i]
    for _ in range(50):
        v += 0.1 * wp.sin(v)
    y[i] = v


@wp.kernel
def decay(x: wp.array[wp.float64], n: int, y: wp.array[wp.float64]):
    """Linear in what is carried."""
    i = wp.tid()
    v = x[i]
    for k in range(n):
        v = 0.9 * v + wp.float64(k) * x[i]
    y[i] = v


def count_sines(monkeypatch, kernel, buffers) -> int:
    """Sines that the reverse sweep takes, of all threads: the body run, not reversed."""
    taken = 0
    original = interpreter.apply_builtin

    def counting(call, args):
        nonlocal taken
        taken += len(args[0]) if call.builtin.name == "sin" else 0
        return original(call, args)

    derived = adjoint(kernel.ir(), [0])
    threads = len(buffers[0])
    sources = [buffers[s.index] if s.kind == "primal" else np.ones(threads) for s in derived.slots]
    with monkeypatch.context() as patch:
        patch.setattr(interpreter, "apply_builtin", counting)
        interpret(prepare(derived.kernel), (threads,), [np.array(b) for b in sources])
    return taken


@pytest.mark.parametrize("kernel", [until, ragged], ids=lambda k: k.name)
def test_runs_are_counted(kernel, monkeypatch):
    """As many iterations are run as the schedule says, by the kernel that is made."""
    trips = [0, 1, 2, 31, 32, 33, 100, 511, 512, 513, 1024, 1100]
    x, y = np.full(len(trips), 0.7), np.zeros(len(trips))
    taken = count_sines(monkeypatch, kernel, [x, np.array(trips, np.int32), y])
    # Where the loop is first run when it is reversed, the last iteration is not.
    layout = checkpoints.LAYOUTS[8 if kernel is ragged else 16]
    assert taken == sum(max(0, Walk(layout, n).play() - (kernel is ragged)) for n in trips)


@pytest.mark.parametrize("iterations", [5, 700])
def test_the_first_run_keeps_states(iterations, monkeypatch):
    """It is not run anew for them, if what the loop leaves is used."""
    taken = count_sines(monkeypatch, squared, [np.array([0.7]), np.full((), iterations, np.int32), np.zeros(1)])
    assert taken == Walk(FEW, iterations).play()


def test_few_known_iterations_are_run_once(monkeypatch):
    assert count_sines(monkeypatch, fixed, [np.array([0.7]), np.zeros(1)]) == 49


def test_linear_loops_keep_nothing():
    kernel = prepare(adjoint(decay.ir(), [0]).kernel)
    assert not kernel.locals
    assert sum(isinstance(op, For | While) for op in walk(kernel.body)) == 1


@pytest.mark.parametrize("iterations", [1, 2, 31, 32, 33, 64, 511, 512, 513, 1024, 1025, 4097, 20000])
def test_any_number_of_iterations(iterations):
    with jax.enable_x64(True):
        x = jnp.linspace(0.5, 2.0, 37)
        call = lambda x: wp.jax_kernel(pendulum)(x, iterations)[0]  # noqa: E731
        slope = jax.jvp(call, (x,), (jnp.ones(37),))[1]
        np.testing.assert_allclose(jax.grad(lambda x: call(x).sum())(x), slope, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("kernel", [until, ragged], ids=lambda k: k.name)
@pytest.mark.parametrize("threads", [1, 7, 16, 61])
def test_threads_that_end_apart(kernel, threads):
    """Numbers of iterations from 0 up, mixed within a vector; vectors with lanes off; all short, all long."""
    rng = np.random.default_rng(threads)
    with jax.enable_x64(True):
        for highest in (3, 40, 700, 3000):
            n = jnp.asarray(rng.integers(0, highest, threads), jnp.int32)
            x = jnp.linspace(0.5, 2.0, threads)
            call = lambda x, n=n: wp.jax_kernel(kernel)(x, n)[0]  # noqa: E731
            slope = jax.jvp(call, (x,), (jnp.ones(threads),))[1]
            (gradient,) = jax.vjp(call, x)[1](jnp.ones(threads))
            np.testing.assert_allclose(gradient, slope, rtol=1e-9, atol=1e-11)
