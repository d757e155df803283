"""benchmarks/irregular.py: what is timed means what brute force in NumPy says, whoever of the contenders is there."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "benchmarks"))

import cpu
import irregular
import irregular_cases

CASES = {case.name: case for case in irregular_cases.make_cases(small=True)}


@pytest.fixture(scope="module")
def by_hand(tmp_path_factory):
    folder = tmp_path_factory.mktemp("irregular")
    assert irregular.compile_reference(folder) == ""
    return irregular.load_reference(folder)


def rays(nodes, first, triangles, origins, directions, far):
    """By Cramer's rule, each ray with each triangle."""
    o, d = origins[:, None].astype(float), directions[:, None].astype(float)
    a, b, c = np.moveaxis(triangles[None].astype(float), 2, 0)
    p = np.cross(d, c - a)
    with np.errstate(all="ignore"):
        scale = 1 / ((b - a) * p).sum(-1)
        u, q = scale * ((o - a) * p).sum(-1), np.cross(o - a, b - a)
        v, t = scale * (d * q).sum(-1), scale * ((c - a) * q).sum(-1)
        inside = (u >= 0) & (v >= 0) & (u + v <= 1) & (t >= 0)
    return np.where(inside, t, far).min(1)


def closest(nodes, first, triangles, points, far):
    """The least over many points of each triangle, but for how finely they lie: within 0.01."""
    s = np.linspace(0, 1, 25)
    u, v = (x[np.add.outer(s, s) <= 1 + 1e-9] for x in np.meshgrid(s, s, indexing="ij"))
    a, b, c = np.moveaxis(triangles.astype(float), 1, 0)
    cloud = (a[:, None] + u[:, None] * (b - a)[:, None] + v[:, None] * (c - a)[:, None]).reshape(-1, 3)
    return np.array([np.sqrt(((cloud - p) ** 2).sum(1).min()) for p in points])


def neighbours(start, points, radius, cells):
    distance = np.linalg.norm(points[:, None].astype(float) - points, axis=2)
    return np.where(distance < radius, 1 - distance / radius, 0).sum(1)


def sparse_rows(start, columns, values, x):
    n = len(start) - 1
    dense = np.zeros((n, len(x)))
    np.add.at(dense, (np.repeat(np.arange(n), np.diff(start)), columns), values)
    return dense @ x


def trilinear(field, points, background):
    found = np.full(len(points), background)
    for i, p in enumerate(points.astype(float)):
        low = np.floor(p).astype(int)
        if (low >= 0).all() and (low + 1 < field.shape).all():
            cube = field[tuple(slice(x, x + 2) for x in low)].astype(float)
            for f in p - low:
                cube = cube[0] + (cube[1] - cube[0]) * f
            found[i] = cube
    return found


ORACLES = {f.__name__: f for f in (rays, closest, neighbours, sparse_rows, trilinear)}


@pytest.mark.parametrize("name", CASES)
def test_every_contender_is_right(by_hand, name):
    case, missing = CASES[name], set()
    runs = irregular.contenders(case, by_hand, 1, missing)
    irregular.require_right(case, runs)
    assert {cpu.REFERENCE, "jaxwarp", *(f"{width} lanes" for width in irregular.WIDTHS)} <= {*runs}
    assert {"Numba", "Warp"} <= {*runs, *missing}
    expected = ORACLES[case.kernel_name](*case.arrays, *case.scalars)
    away = np.abs(runs["jaxwarp"]() - expected)
    assert np.mean(away <= (0.01 if case.kernel_name == "closest" else 1e-4 * (1 + np.abs(expected)))) > 0.99
    if case.kernel_name == "closest":  # the nearest point is not further than any
        assert (runs["jaxwarp"]() <= expected + 1e-5).all()
    assert len(np.unique(runs["jaxwarp"]())) > case.threads // 10  # not all of them miss


def test_a_wrong_contender_is_found(by_hand):
    case = CASES["sparse_rows"]
    runs = irregular.contenders(case, by_hand, 2, set())
    wrong = dataclasses.replace(case, arrays=(*case.arrays[:3], case.arrays[3] + np.float32(0.01)))
    out = np.zeros(case.shape, np.float32)
    runs["wrong"] = irregular.by_hand(wrong, by_hand, out)
    with pytest.raises(SystemExit, match=r"sparse_rows \(wrong\) is wrong in"):
        irregular.require_right(case, runs)


def test_tree_holds_each_triangle_once():
    triangles = irregular_cases.bumpy_sphere(6)
    nodes, first, order = irregular_cases.heap(triangles)
    assert sorted(order) == list(range(len(triangles)))
    assert first[0] == 0
    assert first[-1] == len(triangles)
    leaves = len(first) - 1
    for leaf in range(leaves):
        inside, node = triangles[order[first[leaf] : first[leaf + 1]]], leaves + leaf
        while node > 1:
            box = nodes[node // 2, 6 * (node % 2) :][:6]
            assert (box[:3] <= inside.min((0, 1))).all()
            assert (inside.max((0, 1)) <= box[3:]).all()
            node //= 2
