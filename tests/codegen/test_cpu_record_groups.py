"""CPU code: words of one record, of each lane its own, are written together."""

from __future__ import annotations

import re

import numpy as np
import pytest
from cpukit import Make

import jaxwarp as wp
from jaxwarp.codegen.cpu import compile_cpu, run_cpu
from jaxwarp.codegen.cpu.control import blocks
from jaxwarp.codegen.cpu.plan.target import Machine
from jaxwarp.codegen.cpu.plan.width import choose_width
from jaxwarp.ir.interpret import interpret
from jaxwarp.passes.pipeline import prepare
from jaxwarp.types import int32

AVX2, AVX512 = Machine("", "", "+avx2"), Machine("", "", "+avx2,+avx512f")
SHAPES = (2, AVX2), (8, AVX2), (16, AVX512)
N, NODES = 37, 9

vec5 = wp.types.vector(length=5, dtype=wp.float32)
vec3d = wp.types.vector(length=3, dtype=wp.float64)
vec2i = wp.types.vector(length=2, dtype=wp.int32)


@wp.kernel
def add_to_nodes(
    at: wp.array[int], x: wp.array[wp.vec4], fives: wp.array[vec5], doubles: wp.array[vec3d], pairs: wp.array[vec2i]
):
    i = wp.tid()
    node = at[i]
    wp.atomic_add(fives, node, vec5(x[i][0], x[i][1], x[i][2], x[i][3], 1.0))
    wp.atomic_add(doubles, node, vec3d(wp.float64(x[i][0]), wp.float64(2.0), wp.float64(x[i][2])))
    wp.atomic_add(pairs, node, vec2i(i, 1))


@wp.kernel
def add_under_a_mask(at: wp.array[int], x: wp.array[wp.vec4], fives: wp.array[vec5]):
    i = wp.tid()
    if x[i][0] > 4.0:
        wp.atomic_add(fives, at[i], vec5(x[i][0], x[i][1], x[i][2], x[i][3], 1.0))


@wp.kernel
def store_to_records(to: wp.array[int], x: wp.array[wp.vec4], fives: wp.array[vec5], doubles: wp.array[vec3d]):
    i = wp.tid()
    fives[to[i]] = vec5(x[i][3], x[i][2], x[i][1], x[i][0], float(i))
    doubles[to[i]] = vec3d(wp.float64(x[i][1]), wp.float64(3.0), wp.float64(i))


@wp.kernel
def store_with_gaps(to: wp.array[int], x: wp.array[wp.vec4], flat: wp.array[float]):
    """Words 1, 0 and 2 side by side, then 4 alone, which must leave word 3 as it is."""
    i = wp.tid()
    base = 6 * i
    flat[base + 1] = x[i][0]
    flat[base] = x[i][1]
    flat[base + 2] = x[i][2]
    flat[base + 4] = x[i][3]


@pytest.fixture(scope="module")
def given():
    random = np.random.default_rng(3)
    # Whole numbers, whose sums are exact in every order.
    x = random.integers(-8, 9, (N, 4)).astype(np.float32)
    return random.integers(0, NODES, N).astype(np.int32), random.permutation(N).astype(np.int32), x


def outputs(kernel, extent: int) -> list[np.ndarray]:
    shapes = [tuple(n or extent for n in p.shape) for p in kernel.params[2:]]
    return [np.full(s, 7, p.dtype.numpy) for s, p in zip(shapes, kernel.params[2:], strict=True)]


def check(kernel, inputs, extent: int, tiles=None) -> None:
    expected = outputs(kernel, extent)
    interpret(kernel, (N,), [*inputs, *expected])
    for width, machine in SHAPES:
        got = outputs(kernel, extent)
        run_cpu(kernel, (N,), [*inputs, *got], width, tiles, machine)
        for want, have in zip(expected, got, strict=True):
            np.testing.assert_array_equal(have, want, f"{kernel.name}, {width} lanes, {machine.features}")


def test_additions_are_those_of_the_interpreter(given) -> None:
    at, _, x = given
    check(prepare(add_to_nodes.ir()), (at, x), NODES)
    check(prepare(add_under_a_mask.ir()), (at, x), NODES)


def test_additions_by_pieces_of_a_launch_are_atomic_and_right(given) -> None:
    at, _, x = given
    check(prepare(add_to_nodes.ir()), (at, x), NODES, tiles=[(0, 1, 0, 16), (0, 1, 16, N)])


def test_stores_are_those_of_the_interpreter(given) -> None:
    _, to, x = given
    check(prepare(store_to_records.ir()), (to, x), N)
    check(prepare(store_with_gaps.ir()), (to, x), 6 * N)


def test_many_lanes_with_one_node(given) -> None:
    _, _, x = given
    check(prepare(add_to_nodes.ir()), (np.full(N, 2, np.int32), x), NODES)


def eight_lanes(kernel) -> str:
    """The text for chunks of eight threads."""
    text = compile_cpu(prepare(kernel.ir()), 8, AVX2).text
    return text.split("\nchunk:")[1].split("\nrest:")[0]


def count(pattern: str, text: str) -> int:
    return len(re.findall(pattern, text))


def test_records_are_written_in_quarters() -> None:
    """Of five words of eight lanes each, four are one store a lane, and the last one another."""
    text = eight_lanes(store_to_records)
    assert count(r"store <4 x float> %\S+, ptr", text) == 8
    assert count(r"store float %\S+, ptr", text) == 8
    assert count(r"store <2 x double> %\S+, ptr", text) == 8
    assert count(r"store double %\S+, ptr", text) == 8
    assert "masked.scatter" not in text


def test_own_records_are_added_to_in_quarters() -> None:
    text = eight_lanes(add_to_nodes)
    assert count(r"fadd <4 x float>", text) == 8
    assert count(r"fadd <2 x double>", text) == 8
    assert count(r"add <2 x i32> %\S+, %\S+\n  store <2 x i32>", text) == 8


@wp.kernel
def add_to_a_grid(at: wp.array2d[int], x: wp.array[float], out: wp.array3d[float]):
    i = wp.tid()
    a = at[i, 0]
    b = at[i, 1]
    c = at[i, 2]
    wp.atomic_add(out, a, b, c, x[i])
    wp.atomic_add(out, a, b, c + 1, x[i])
    wp.atomic_add(out, a, b + 1, c, x[i])
    wp.atomic_add(out, a, b + 1, c + 1, x[i])


def test_places_share_the_products_of_their_indices() -> None:
    """Four places of a grid: the row of planes, and two rows, are multiplied by their strides once each."""
    text = eight_lanes(add_to_a_grid)
    assert count(r"mul <8 x i64>", text) == 3


@wp.kernel
def rows(
    start: wp.array[int], columns: wp.array[int], values: wp.array[float], x: wp.array[float], out: wp.array[float]
):
    i = wp.tid()
    total = 0.0
    for k in range(start[i], start[i + 1]):
        total += values[k] * x[columns[k]]
    out[i] = total


def test_what_is_gathered_or_added_lane_by_lane_has_few_lanes() -> None:
    assert choose_width(prepare(rows.ir()), AVX2) == 4
    assert choose_width(prepare(add_to_a_grid.ir()), AVX2) == 4


@pytest.mark.parametrize("adds", [False, True])
def test_only_what_a_group_needs_is_looked_at(adds, monkeypatch) -> None:
    """A block of twice as many writes takes twice as long to emit."""
    seen = []

    def looked_at(ops, at):
        for op in ops[at:]:
            seen.append(op)
            yield op

    monkeypatch.setattr(blocks, "_from", looked_at)

    def count_for(writes: int) -> int:
        m = Make()
        at, out = m.array(None, dtype=int32), m.array(None)
        place = m.load(at, [m.tid(0)])
        for k in range(writes):
            index = m.op("add", place, m.i(2 * k))
            if adds:
                m.atomic("add", out, [index], m.f(1.0))
            else:
                m.store(out, [index], m.f(1.0))
        seen.clear()
        compile_cpu(prepare(m.kernel()), 8, AVX2)
        return len(seen)

    assert 0 < count_for(60) < 3 * count_for(30)
