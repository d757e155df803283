"""Sums along rows of threads: no atomic where the element is its row's own, and one call runs all of the row."""

from __future__ import annotations

import re

import numpy as np
import pytest
from cpukit import WIDTHS, Make, check, floats

from jaxwarp.codegen.cpu import compile_cpu
from jaxwarp.passes.pipeline import prepare
from jaxwarp.types import int32


def sum_kernel(place, grid_rank=2, dtype=int32, also=None):
    """out[place(m, i)] += a[i, j]; `also` makes a second index to add to."""
    m = Make()
    a, out = m.array(*[None] * grid_rank, dtype=dtype), m.array(None, dtype=dtype)
    tids = [m.tid(axis) for axis in range(grid_rank)]
    for index in filter(None, (place, also)):
        m.atomic("add", out, [index(m, tids[0])], m.load(a, tids))
    return m.kernel(grid_rank)


def is_plain(kernel):
    return "alone" in compile_cpu(prepare(kernel), 8).text


PLACES = {
    "i": lambda m, i: i,
    "9 - i": lambda m, i: m.op("sub", m.i(9), i),
}
SHARED = {
    "2 i + 1": lambda m, i: m.op("add", m.op("mul", i, m.i(2)), m.i(1)),  # not proved: 2 i could wrap
    "0": lambda m, i: m.i(0),
    "i // 2": lambda m, i: m.op("floordiv", i, m.i(2)),
    "i & 3": lambda m, i: m.op("bit_and", i, m.i(3)),
}


@pytest.mark.parametrize("columns", [0, 1, 7, 40], ids=str)
@pytest.mark.parametrize("name", [*PLACES, *SHARED])
def test_rows_whole_and_in_pieces(name, columns):
    place = (PLACES | SHARED)[name]
    assert is_plain(sum_kernel(place)) == (name in PLACES)
    a = np.random.default_rng(3).integers(-9, 9, (10, columns)).astype(np.int32)
    out = np.arange(20, dtype=np.int32)
    pieces = [(0, 3, 0, columns), (3, 9, 0, columns // 2), (3, 9, columns // 2, columns), (9, 10, 0, columns)]
    for tiles in (None, pieces):
        check(sum_kernel(place), a.shape, [a, out], WIDTHS, tiles)


def test_elements_of_several_rows_are_atomic():
    """out[i] of threads (i, j, k), and two sums whose elements meet."""
    assert not is_plain(sum_kernel(PLACES["i"], grid_rank=3))
    assert not is_plain(sum_kernel(PLACES["i"], also=SHARED["2 i + 1"]))
    assert is_plain(sum_kernel(PLACES["i"], also=PLACES["i"]))
    check(sum_kernel(PLACES["i"], grid_rank=3), (4, 3, 9), [floats(4, 3, 9).astype(np.int32), np.ones(4, np.int32)])
    a = floats(6, 9).astype(np.int32)
    for also in (SHARED["2 i + 1"], PLACES["i"]):
        check(sum_kernel(PLACES["i"], also=also), (6, 9), [a, np.ones(20, np.int32)])


def test_a_total_of_one_row():
    """A launch of one axis is one row, of all threads."""
    m = Make()
    a, total = m.array(None), m.array()
    m.atomic("add", total, [], m.load(a, [m.tid(0)]))
    kernel = m.kernel()
    assert is_plain(kernel)
    for tiles in (None, [(0, 1, 0, 64), (0, 1, 64, 100)]):
        check(kernel, (100,), [floats(100), np.full((), 3, np.float32)], WIDTHS, tiles)


def test_pieces_of_a_row_are_atomic():
    """What two threads do to one element at the same moment is too rare to wait for: the code is looked at."""
    text = compile_cpu(prepare(sum_kernel(PLACES["i"])), 8).text
    assert "%whole.first = icmp eq i64 %col_begin, 0" in text
    assert "%whole.last = icmp eq i64 %col_end, %g" in text
    assert "%whole = and i1 %whole.first, %whole.last" in text
    shared = re.search(r"br i1 %whole, label %alone\d+, label %(shared\d+)", text)
    assert shared is not None
    assert "atomicrmw add" in text.split(f"\n{shared[1]}:\n")[1].splitlines()[0]
