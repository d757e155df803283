"""Structs that are launched again and again: what was found out about them is used while it holds, and no longer."""

from __future__ import annotations

import gc
import random
import threading
import weakref

import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp.arrays import held, launching
from jaxwarp.errors import CheckError, KernelTypeError
from jaxwarp.unlocked import address_of
from tests.geometry.brute import sphere


@wp.struct
class Inner:
    v: wp.vec3
    x: wp.array[float]


@wp.struct
class Outer:
    scale: float
    inner: Inner
    y: wp.array[float]


@wp.kernel
def mixed(s: Outer, out: wp.array[float]):
    i = wp.tid()
    out[i] = s.scale * s.inner.x[i] + s.inner.v[1] + 100.0 * s.y[0] + 10000.0 * float(s.inner.x.shape[0])


@wp.kernel
def written(s: Outer, by: float):
    i = wp.tid()
    s.y[i] = by * s.inner.x[i]


N = 6


def made(x=None, y=None):
    x = wp.array(np.arange(N), dtype=float) if x is None else x
    y = wp.ones(N) if y is None else y
    return Outer(scale=2.0, inner=Inner(v=wp.vec3(1.0, 7.0, 3.0), x=x), y=y)


def numbers(array):
    return np.asarray(array.numpy() if hasattr(array, "numpy") else array, np.float64)


def expected(s):
    x = numbers(s.inner.x)
    return s.scale * x[:4] + s.inner.v[1] + 100.0 * numbers(s.y)[0] + 10000.0 * len(x)


def require(s):
    """A launch gives what NumPy does."""
    out = wp.zeros(4)
    wp.launch(mixed, 4, [s, out])
    np.testing.assert_allclose(out.numpy(), expected(s), rtol=1e-6)


@pytest.fixture
def looks(monkeypatch):
    """The structs that were looked at."""
    seen = []
    real = held._gather
    monkeypatch.setattr(held, "_gather", lambda *args: seen.append(args[1]) or real(*args))
    return seen


def test_a_struct_that_stays_as_it_is_is_looked_at_once(looks):
    s = made()
    for k in range(4):
        s.inner.x.fill_(float(k))
        s.y.assign(np.full(N, 0.5 * k))
        require(s)
    assert looks.count(s) == 1
    s.scale = 3.0
    require(s)
    assert looks.count(s) == 1
    s.y = wp.zeros(N)
    require(s)
    assert looks.count(s) == 2


VIEW = np.arange(24, dtype=np.float32)
CHANGES = {
    "a number": lambda s: setattr(s, "scale", s.scale + 1.5),
    "of another type": lambda s: setattr(s, "scale", np.float32(4.0)),
    "an integer": lambda s: vars(s).update(scale=3),
    "a component": lambda s: s.inner.v.__setitem__(1, s.inner.v[1] + 1.0),
    "a vector": lambda s: setattr(s.inner, "v", wp.vec3(0.0, -2.0, 0.0)),
    "contents": lambda s: numbers(s.inner.x) is not None and wp.copy(s.inner.x, wp.full(len(s.inner.x), 0.25)),
    "an array": lambda s: setattr(s.inner, "x", wp.array(np.arange(N) ** 2, dtype=float)),
    "another extent": lambda s: setattr(s.inner, "x", wp.full(N + 3, 2.5)),
    "one of NumPy": lambda s: setattr(s.inner, "x", np.linspace(0, 1, N + 1, dtype=np.float32)),
    "a view of NumPy": lambda s: setattr(s.inner, "x", VIEW[3:12]),
    "a strided one": lambda s: setattr(s.inner, "x", wp.array(np.arange(20), dtype=float)[::2]),
    "a struct": lambda s: setattr(s, "inner", Inner(v=wp.vec3(5.0), x=wp.full(N, 9.0))),
    "behind its back": lambda s: vars(s.inner).update(x=wp.full(N, -1.0)),
    "another y": lambda s: setattr(s, "y", wp.full(N, 3.0)),
    "nothing": lambda s: None,
}


@pytest.mark.parametrize("change", CHANGES)
def test_what_changes_is_seen(change):
    s = made()
    for _ in range(3):
        require(s)
        require(s)
        CHANGES[change](s)
        require(s)


@pytest.mark.parametrize("seed", range(4))
def test_any_changes_in_any_order(seed):
    """With garbage in between: arrays and structs that are free leave their addresses and numbers to others."""
    draw, structs = random.Random(seed), [made() for _ in range(3)]
    for _ in range(150):
        k = draw.randrange(len(structs))
        CHANGES[draw.choice(list(CHANGES))](structs[k])
        if draw.random() < 0.2:
            structs[k] = made(wp.full(draw.choice((N, N + 2)), draw.random()))
        require(structs[draw.randrange(len(structs))])


def test_structs_at_the_same_place_are_told_apart():
    for k in range(50):
        require(made(wp.full(N, float(k)), wp.full(N, k / 2)))


def test_an_array_of_numpy_that_moves_is_found():
    x = np.arange(N, dtype=np.float32)
    s = made(x)
    require(s)
    for n in (50_000, 100_000, N):
        x.resize(n, refcheck=False)
        x[:] = n
        require(s)
    places, kept = set(), []
    for k in range(20):
        x.resize(100_000 * k + 50_000, refcheck=False)
        kept.append(np.ones(20_000, np.float32))  # where it was, perhaps
        x.resize(N, refcheck=False)
        x[:] = k
        places.add(address_of(x))
        require(s)
    assert len(places) > 1


def test_a_vector_of_numpy_is_read_each_time():
    """In the kernel's type it is taken as it is, in another one as a copy."""
    for dtype in (np.float32, np.float64):
        s = made()
        v = vars(s.inner)["v"] = np.array([1.0, 2.0, 3.0], dtype)
        for value in (5.0, 5.0, -3.0):
            v[1] = value
            require(s)


# NumPy 2.5 warns of it, and still does it.
@pytest.mark.filterwarnings("ignore:Setting the (shape|dtype):DeprecationWarning")
def test_an_array_of_numpy_of_another_kind_is_refused_as_the_first_time():
    for x in (np.arange(N, dtype=np.float32), VIEW[:N]):
        s = made(x.view())
        require(s)
        s.inner.x.shape = (2, N // 2)
        with pytest.raises(KernelTypeError, match=r"'s\.inner\.x'"):
            require(s)
        s.inner.x.shape = (N,)
        require(s)
        s.inner.x.dtype = np.int32
        with pytest.raises(KernelTypeError, match="int32"):
            require(s)


def test_what_became_read_only_is_not_written():
    for array in (np.zeros(N, np.float32), wp.zeros(N)):
        s = made(y=array)
        wp.launch(written, N, [s, 2.0])
        np.testing.assert_array_equal(numbers(array), 2.0 * np.arange(N))
        if isinstance(array, np.ndarray):
            array.setflags(write=False)
        else:
            array.is_writable = False
        with pytest.raises(KernelTypeError, match="read-only"):
            wp.launch(written, N, [s, 3.0])
        np.testing.assert_array_equal(numbers(array), 2.0 * np.arange(N))


def test_memory_that_is_shared_is_refused_in_every_launch():
    s = made()
    out = wp.zeros(N)
    wp.launch(mixed, 4, [s, out])
    for _ in range(2):
        with pytest.raises(KernelTypeError, match="shares memory"):
            wp.launch(mixed, 4, [s, s.inner.x[1:]])
        with pytest.raises(KernelTypeError, match="shares memory"):
            wp.launch(mixed, 4, [s, s.y[2:]])
    wp.launch(mixed, 4, [s, out])


@wp.kernel
def two(a: Outer, b: Outer, out: wp.array[float]):
    i = wp.tid()
    out[i] = a.inner.x[i] - b.inner.x[i] + a.inner.v[0] + b.scale


def test_one_struct_for_two_arguments():
    a, b, out = made(), made(wp.full(N, 5.0)), wp.zeros(N)
    for first, second in ((a, a), (a, b), (b, a), (b, b), (a, a)):
        wp.launch(two, N, [first, second, out])
        np.testing.assert_allclose(out.numpy(), numbers(first.inner.x) - numbers(second.inner.x) + 3.0)


@wp.kernel
def element(s: Outer, at: int, out: wp.array[float]):
    out[0] = s.inner.x[at]


def test_the_mode_is_that_of_the_launch(monkeypatch):
    s, out = made(), wp.zeros(1)
    wp.launch(element, 1, [s, 2, out])
    monkeypatch.setattr(wp.config, "mode", "debug")
    wp.launch(element, 1, [s, 3, out])
    assert out.list() == [3]
    with pytest.raises(CheckError, match="index 60"):
        wp.launch(element, 1, [s, 60, out])


def test_a_tape_has_the_values_of_the_launch():
    s = made(wp.array(np.arange(1, N + 1), dtype=float, requires_grad=True))
    outs = [wp.zeros(4, requires_grad=True) for _ in range(3)]
    with wp.Tape() as tape:
        for k, out in enumerate(outs):
            wp.launch(mixed, 4, [s, out])
            s.inner.v[1] = float(k)
            if k == 1:
                s.scale = 10.0
    for out in outs:
        out.grad.fill_(1.0)
    tape.backward()
    np.testing.assert_allclose(s.inner.x.grad.numpy(), [14.0] * 4 + [0.0] * (N - 4))


def test_a_struct_ends_with_its_last_name():
    s = made()
    require(s)
    seen, x = weakref.ref(s), weakref.ref(s.inner.x)
    number = id(s)
    gc.disable()
    try:
        del s
        assert seen() is None
        assert x() is None
        assert number not in held._found
    finally:
        gc.enable()


def test_threads_launch_one_struct():
    s, wrong = made(), []

    def work():
        for _ in range(200):
            out = wp.zeros(4)
            wp.launch(mixed, 4, [s, out])
            if out.numpy()[0] not in (7.0 + 100.0 + 10000.0 * N, 8.0 + 100.0 + 10000.0 * N):
                wrong.append(out.numpy())

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for k in range(200):
        s.inner.v = wp.vec3(0.0, 7.0 + k % 2, 0.0)
    for thread in threads:
        thread.join()
    assert wrong == []


# Meshes


@wp.kernel
def heights(mesh: wp.uint64, x: wp.array[wp.vec3], out: wp.array[float]):
    i = wp.tid()
    out[i] = wp.mesh_query_ray(mesh, x[i], wp.vec3(0.0, 0.0, -1.0), 100.0).t


P, F = sphere(2, 0.0)


def height(mesh):
    x, out = wp.array([[0.01, 0.02, 9.0]], dtype=wp.vec3), wp.zeros(1)
    wp.launch(heights, 1, [mesh.id, x, out])
    return out.list()[0]


@pytest.mark.parametrize("is_ours", [True, False])
def test_a_mesh_that_is_refitted_or_gets_other_points(is_ours):
    points = wp.array(P, dtype=wp.vec3) if is_ours else P.copy()
    mesh = wp.Mesh(points, wp.array(F.reshape(-1), dtype=int) if is_ours else F)
    one = height(mesh)
    assert height(mesh) == one == pytest.approx(9.0 - P[:, 2].max(), abs=0.1)
    for factor in (2.0, 3.0):
        if isinstance(points, np.ndarray):
            points[...] = np.float32(factor) * P
        else:
            points.assign(np.float32(factor) * P)
        assert mesh.refit() is mesh
        assert height(mesh) == height(wp.Mesh(np.float32(factor) * P, F)) < one
    mesh.points = wp.array(P, dtype=wp.vec3)
    assert height(mesh) == one
    assert height(mesh.refit(np.float32(2.0) * P)) == height(wp.Mesh(np.float32(2.0) * P, F))
    assert height(mesh) == one


def test_a_mesh_is_looked_at_once_per_version(looks):
    mesh = wp.Mesh(wp.array(P, dtype=wp.vec3), wp.array(F.reshape(-1), dtype=int))
    for _ in range(3):
        height(mesh)
    assert sum(part is mesh for part in looks) == 1
    mesh.refit()
    for _ in range(3):
        height(mesh)
    assert sum(part is mesh for part in looks) == 2


@pytest.mark.release_mode("debug mode reports ids of nothing")
def test_meshes_and_numbers_for_one_argument():
    mesh, other = wp.Mesh(P, F), wp.Mesh(np.float32(2) * P, F)
    found = [height(m) for m in (mesh, other, mesh, other)]
    assert found[:2] == found[2:]
    assert found[0] > found[1]
    for _ in range(2):  # 7 names none
        out = wp.ones(1)
        wp.launch(heights, 1, [7, wp.zeros(1, dtype=wp.vec3), out])
        assert out.list() == [0]


def test_a_grid_that_is_built_again():
    grid = wp.HashGrid(8, 8, 8)
    out = wp.zeros(1)
    for count in (1, 5, 3):
        points = wp.array(np.full((count, 3), 0.5), dtype=wp.vec3)
        grid.build(points, 0.25)
        for _ in range(2):
            wp.launch(neighbours, 1, [grid.id, out])
            assert out.list() == [count]


@wp.kernel
def neighbours(grid: wp.uint64, out: wp.array[float]):
    count = wp.float32(0.0)
    for _k in wp.hash_grid_query(grid, wp.vec3(0.5, 0.5, 0.5), 0.1):
        count += 1.0
    out[0] = count


def test_all_that_is_known_may_be_forgotten():
    s = made()
    require(s)
    launching.forget()
    require(s)
    s.inner.x = wp.full(N, 4.0)
    require(s)


@wp.struct
class Numbers:
    a: float
    n: int
    b: float
    inner: Inner


@wp.kernel
def told(s: Numbers, out: wp.array[float]):
    out[0], out[1], out[2], out[3] = s.a, float(s.n), s.b, s.inner.v[0]


def test_numbers_that_are_assigned_are_seen_without_looking_at_the_struct(looks):
    s, out = Numbers(a=1.0, n=2, b=3.0, inner=Inner(v=wp.vec3(4.0, 0.0, 0.0), x=wp.ones(N))), wp.zeros(4)
    wp.launch(told, 1, [s, out])
    before = len(looks)
    for a, n, b in ((5.0, 2, 3.0), (5.5, 300, 1e9), (-0.0, 0, 7.25)):
        s.a, s.n, s.b = a, n, b
        wp.launch(told, 1, [s, out])
        assert out.list() == [a, n, b, 4.0]
    assert len(looks) == before
    number = 2.5
    s.a = s.b = number  # one object
    s.n = True
    wp.launch(told, 1, [s, out])
    s.b = 6.5
    wp.launch(told, 1, [s, out])
    assert out.list() == [2.5, 1.0, 6.5, 4.0]
