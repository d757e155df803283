"""What is proved of a kernel for all extents is not proved again for each of them."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp.analysis import effects
from jaxwarp.analysis.collisions import succession_of
from jaxwarp.analysis.coverage import Coverage
from jaxwarp.arrays import launching
from jaxwarp.codegen.cpu.plan import cost
from jaxwarp.passes import pipeline
from jaxwarp.passes.checks import out_of_range, reach


@wp.struct
class Points:
    x: wp.array[wp.vec3]
    scale: float


@wp.kernel
def gather(p: Points, idx: wp.array[int], off: wp.array[int], out: wp.array[wp.vec3]):
    i = wp.tid()
    total = wp.vec3()
    for j in range(off[i], off[i + 1]):
        total += p.x[idx[j]] * p.scale
    out[i] = total


def launched(count):
    p = Points()
    p.x, p.scale = wp.array(np.arange(3 * count, dtype=np.float32).reshape(count, 3), dtype=wp.vec3), 2.0
    idx = wp.array(np.arange(2 * count, dtype=np.int32) % count)
    off = wp.array(np.arange(count + 1, dtype=np.int32) * 2)
    out = wp.zeros(count, dtype=wp.vec3)
    wp.launch(gather, dim=count, inputs=[p, idx, off], outputs=[out])
    x = p.x.numpy()
    first = np.arange(count) * 2
    np.testing.assert_array_equal(out.numpy(), 2 * (x[first % count] + x[(first + 1) % count]))


def test_a_launch_at_new_extents_proves_nothing_again(monkeypatch):
    launched(20)

    def refuse(*_, **__):
        raise AssertionError("it is known from the first launch")

    monkeypatch.setattr(effects, "Coverage", refuse)
    monkeypatch.setattr(pipeline, "succession_of", refuse)
    monkeypatch.setattr(cost.WorkSum, "block", refuse)
    monkeypatch.setattr(out_of_range, "_Search", refuse)
    for count in (21, 34, 1000):
        launched(count)


@wp.kernel
def own(a: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = a[i]


@wp.kernel
def guarded(a: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    if i < y.shape[0]:
        y[i] = 1.0


@wp.kernel
def rows(a: wp.array2d[float], y: wp.array2d[float]):
    i, j = wp.tid()
    y[j, i] = a[i, j]


@wp.kernel
def merged(a: wp.array[float], y: wp.array[float]):
    i, j = wp.tid()
    y[i * a.shape[0] + j] = 1.0


@wp.kernel
def backwards(a: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[y.shape[0] - 1 - i] = 1.0


@wp.kernel
def one(a: wp.array[float], y: wp.array[float]):
    y[0] = a[0]


KERNELS = (own, guarded, rows, merged, backwards, one)


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_extents_of_one_pattern_are_covered_alike(kernel):
    """Of numbers the proof finds all that it finds of names, and `covers` finds what it did of numbers alone."""
    ir = kernel.specialize()
    a, y = ir.params
    asked = found = 0
    for numbers in itertools.product((1, 2, 3, 6, 7), repeat=ir.grid_rank + y.rank):
        grid, shape = numbers[: ir.grid_rank], numbers[ir.grid_rank :]
        shapes = {a: (3,) * a.rank, y: shape}
        expected = Coverage(ir, grid, shapes).covers(y, shape)
        is_alike = effects._is_covered_alike(ir, y, *effects._named(grid, shapes))
        assert expected or not is_alike, (grid, shape)
        assert effects.analyze(ir).covers(y, grid, shape, {a: shapes[a]}) == expected, (grid, shape)
        asked, found = asked + 1, found + expected
    assert 0 < found < asked


def test_symbolic_and_unknown_extents_get_no_names():
    ir = own.specialize()
    _, y = ir.params
    assert effects._named((None,), {y: (None,)}) is None
    assert not effects.analyze(ir).covers(y, (None,), (None,))
    assert effects.analyze(ir).covers(y, ("n",), ("n",))


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
def test_threads_in_any_order_for_all_extents_are_so_for_each(kernel):
    ir = pipeline.prepared(kernel.specialize(), True)
    for grid in itertools.product((1, 2, 5), repeat=ir.grid_rank):
        shapes = {p: (5,) * p.rank for p in ir.params}
        if not pipeline._may_meet(ir, tuple(n if n == 1 else None for n in grid)):
            assert succession_of(ir, grid, shapes) is None


@wp.kernel
def all_pairs(x: wp.array[float], n: wp.array2d[int], y: wp.array[float]):
    i = wp.tid()
    total = 0.0
    for j in range(wp.max(x.shape[0] - 1, 4)):
        total += wp.sin(x[j])
    y[i] = total


def test_the_grain_depends_on_extents_of_loops_alone():
    ir = pipeline.prepared(all_pairs.specialize(), True)
    x, n, y = ir.params
    assert cost._looped(ir) == ((x, 0),)
    grains = []
    for count in (3, 50, 4000):
        extents = {x: (count,), n: (count, 7), y: (count,)}
        work = cost.WorkSum(extents).block(ir.body)
        grains.append(cost.choose_grain(ir, extents))
        assert grains[-1] == max(cost._MIN_GRAIN, min(cost._MAX_GRAIN, int(cost.prices.GRAIN / (1 + work))))
    assert len(set(grains)) > 1


@wp.kernel
def around(x: wp.array[float], v: wp.array[wp.vec3], n: wp.array[int], y: wp.array2d[float]):
    i, j = wp.tid()
    y[i, j + 1] = x[i + 2] + x[-3] + x[y.shape[1] - 2] + v[j][2]
    x[x.shape[0] - 1] = 2.0
    if n[i] > 0:  # of data: nothing in it is certain
        y[i, j] = x[j + 1000]
    if j == 0:
        y[1 + i, 0] = x[2 + (i - 1)]
    for k in range(n[0]):
        y[i, k] = 1.0


@wp.kernel
def ends(x: wp.array[float], y: wp.array[float]):
    y[0] = x[-3]
    y[y.shape[0] - 2] = x[x.shape[0] - 4]


@wp.kernel
def carried(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    k = wp.int32(0)
    while k < 3:
        k += 2
    y[i] = x[k]


@pytest.mark.parametrize("kernel", [*KERNELS, around, ends, carried], ids=lambda kernel: kernel.name)
def test_where_indices_of_all_extents_are_inside_a_search_finds_nothing(kernel):
    ir = kernel.specialize()
    axes = [(p, axis) for p in ir.params for axis, n in enumerate(p.shape) if n is None]
    told, strays = [], []
    rng = np.random.default_rng(0)
    for _ in range(150):
        known = dict(zip(axes, rng.integers(0, 8, len(axes)).tolist(), strict=True))
        shapes = tuple(tuple(known.get((p, a), n) for a, n in enumerate(p.shape)) for p in ir.params)
        grid = tuple(rng.integers(1, 5, ir.grid_rank).tolist())
        told.append(reach.is_inside(ir, grid, shapes))
        strays.append(out_of_range._first.__wrapped__(ir, grid, shapes))
        assert strays[-1] is None or not told[-1], (grid, shapes)
    assert any(strays) == (kernel is not guarded)
    if kernel in (own, rows):
        assert told == [stray is None for stray in strays]
    assert any(told) == (kernel not in (merged, backwards, carried))


def test_unknown_extents_decide_nothing():
    ir = own.specialize()
    assert reach.is_inside(ir, (5,), ((None,), (5,)))
    assert not reach.is_inside(ir, (5,), ((None,), (4,)))
    assert not reach.is_inside(ir, (2**31 + 1,), ((2**40,), (2**40,)))  # indices have 32 bits


def test_of_too_many_launches_the_oldest_is_forgotten(monkeypatch):
    launching.forget()
    checks = []
    check = launching.check
    monkeypatch.setattr(launching, "check", lambda *args: checks.append(args) or check(*args))
    monkeypatch.setattr(launching, "_MAX_KNOWN", 4)

    def launch(kernel, count):
        checks.clear()
        wp.launch(kernel, dim=count, inputs=[wp.ones(count)], outputs=[wp.zeros(count)])
        return len(checks)

    assert [launch(own, n) for n in (3, 4, 5)] == [1, 1, 1]
    assert [launch(guarded, n) for n in (3, 4)] == [1, 1]
    assert [launch(own, n) for n in (4, 5)] == [0, 0]
    assert [launch(guarded, n) for n in (3, 4)] == [0, 0]
    assert len(own.found.launches) == len(own.found.plans) == 2
    assert launch(own, 3) == 1  # and forgets the launch with 4
    assert [launch(own, n) for n in (5, 3, 4)] == [0, 0, 1]
