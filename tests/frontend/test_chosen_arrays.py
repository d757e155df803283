"""Parts of several arrays, of which the launch chooses one: swapped in loops, or by a condition."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp


@wp.kernel
def swapped(p: wp.array2d[float], q: wp.array2d[float], counts: wp.array[int], y: wp.array2d[float]):
    i = wp.tid()
    a = p[i]
    b = q[i]
    for k in range(counts[i]):
        b[k % 2] = a[0] * 2.0 + float(k)
        a[1] += 0.5
        t = a
        a = b
        b = t
    y[i, 0] = a[0]
    y[i, 1] = b[1]
    y[i, 2] = float(a.shape[0])


def swapped_by_numpy(p, q, counts, y):
    for i, count in enumerate(counts):
        a, b = p[i], q[i]
        for k in range(count):
            b[k % 2] = a[0] * 2 + k
            a[1] += 0.5
            a, b = b, a
        y[i] = a[0], b[1], len(a)


def inputs():
    p = np.arange(10, dtype=np.float32).reshape(5, 2)
    return p, -p, np.array([0, 1, 2, 3, 7], np.int32), np.zeros((5, 3), np.float32)


def test_rows_of_two_arrays_are_swapped_in_a_loop():
    expected = inputs()
    swapped_by_numpy(*expected)
    found = [wp.array(a) for a in inputs()]
    wp.launch(swapped, 5, found)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_array_equal(a.numpy(), b)


@wp.kernel
def left_early(p: wp.array[float], q: wp.array[float], r: wp.array[float], most: float, y: wp.array[float]):
    i = wp.tid()
    a = p[i:]
    b = q
    k = 0
    while k < 6:
        k += 1
        if a[0] > most:
            break
        if k == 3:
            b = r
            continue
        a[0] += 1.0
        t = a
        a = b
        b = t
    y[i] = a[0] + 100.0 * b[0] + 1000.0 * float(a.shape[0])


@pytest.mark.parametrize("most", [-1.0, 2.0, 50.0])
def test_loops_that_are_left_early(most):
    p, q, r = (np.array(v, np.float32) for v in ([1, 2], [3, 4, 5], [6, 7, 8, 9]))
    y = np.zeros(1, np.float32)
    found = [wp.array(a) for a in (p, q, r)]
    result = wp.zeros(1)
    wp.launch(left_early, 1, [*found, most, result])
    a, b, k = p[0:], q, 0
    while k < 6:
        k += 1
        if a[0] > most:
            break
        if k == 3:
            b = r
            continue
        a[0] += 1
        a, b = b, a
    y[0] = a[0] + 100 * b[0] + 1000 * len(a)
    np.testing.assert_array_equal(result.numpy(), y)
    for one, expected in zip(found, (p, q, r), strict=True):
        np.testing.assert_array_equal(one.numpy(), expected)


@wp.func
def moved(a: wp.array[wp.vec2], b: wp.array[wp.vec2], is_first: bool):
    c = a if is_first else b
    d = wp.where(is_first, b, a)
    c[0] = d[1] + c[1]
    c[1].x = 7.0
    wp.atomic_add(d, 0, wp.vec2(1.0, 2.0))
    return c[0][0] + 10.0 * float(d.size)


@wp.kernel
def by_condition(a: wp.array[wp.vec2], b: wp.array[wp.vec2], flags: wp.array[bool], y: wp.array[float]):
    for k in range(flags.shape[0]):
        y[k] = moved(a, b, flags[k])


def test_conditions_choose_arrays():
    a, b = np.array([[1, 2], [3, 4]], np.float32), np.array([[5, 6], [7, 8], [9, 10]], np.float32)
    flags, y = [True, False, True], np.zeros(3, np.float32)
    found = [wp.array(v, dtype=wp.vec2) for v in (a, b)]
    result = wp.zeros(3)
    wp.launch(by_condition, 1, [*found, np.array(flags), result])
    for k, flag in enumerate(flags):
        c, d = (a, b) if flag else (b, a)
        c[0] = d[1] + c[1]
        c[1, 0] = 7
        d[0] += np.array([1, 2])
        y[k] = c[0, 0] + 10 * len(d)
    np.testing.assert_array_equal(result.numpy(), y)
    for one, expected in zip(found, (a, b), strict=True):
        np.testing.assert_array_equal(one.numpy(), expected)


@wp.kernel
def squared(a: wp.array[float], b: wp.array[float], n: int, y: wp.array[float]):
    c, d = a, b
    for _ in range(n):
        t = c
        c = d
        d = t
    y[0] = c[0] * c[1] + d[0]


@pytest.mark.parametrize("n", [2, 3])
def test_derivatives_go_to_the_array_that_is_chosen(n):
    call = wp.jax_kernel(squared, launch_dims=1, output_dims=1)
    a, b = jnp.array([2.0, 3.0]), jnp.array([5.0, 7.0])
    found = jax.grad(lambda a, b: call(a, b, n)[0][0], argnums=(0, 1))(a, b)
    first = lambda c, d: c[0] * c[1] + d[0]  # noqa: E731
    expected = jax.grad(lambda a, b: first(a, b) if n % 2 == 0 else first(b, a), argnums=(0, 1))(a, b)
    np.testing.assert_array_equal(found, expected)


@wp.kernel
def perhaps(a: wp.array[float], b: wp.array[float], kind: int, y: wp.array[float]):
    c = None
    if kind == 1:
        c = a
    elif kind == 2:
        c = b
    y[1] = float(c.shape[0])
    if c:
        y[0] = c[0]
    if kind > 2:
        y[0] = c[0]


def test_one_of_several_arrays_or_none():
    found = []
    for kind in range(3):
        y = wp.zeros(2)
        wp.launch(perhaps, 1, [np.float32([3.0, 1.0]), np.float32([4.0]), kind, y])
        found.append(y.numpy().tolist())
    assert found == [[0, 0], [3, 2], [4, 1]]
    with pytest.raises(wp.CheckError, match="the array is None here"):
        wp.launch(perhaps, 1, [np.float32([3.0]), np.float32([4.0]), 3, wp.zeros(2)])


@wp.struct
class Pair:
    a: wp.array[float]
    b: wp.array[float]
    n: int


@wp.kernel
def of_structs(s: Pair, c: wp.array[float], y: wp.array[float]):
    for _ in range(s.n):
        t = s.a
        s.a = s.b
        s.b = c
        t[0] += 10.0
    y[0] = s.a[0] + 100.0 * s.b[0]


@pytest.mark.parametrize("n", range(4))
def test_arrays_of_a_struct(n):
    s, c, y = Pair(), wp.array([3.0], dtype=float), wp.zeros(1)
    s.a, s.b, s.n = wp.array([1.0], dtype=float), wp.array([2.0], dtype=float), n
    wp.launch(of_structs, 1, [s, c, y])
    a, b, c = np.array([1.0]), np.array([2.0]), np.array([3.0])
    for _ in range(n):
        a[0] += 10
        a, b = b, c
    assert y.list() == [a[0] + 100 * b[0]]


def test_arrays_of_other_types_are_not_chosen_from():
    @wp.kernel
    def wrong(a: wp.array[float], b: wp.array[int], n: int, y: wp.array[float]):
        c = a
        if n > 0:
            c = b
        y[0] = float(c[0])

    with pytest.raises(wp.KernelError, match=r"c is the array b \(array\[int32, 1\]\) if the cond.* the array a "):
        wp.launch(wrong, 1, [np.zeros(1, np.float32), np.zeros(1, np.int32), 1, wp.zeros(1)])


@wp.kernel
def of_its_own(x: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    a = wp.zeros(3, float)
    a[0] = x[i]
    b = wp.zeros(3, float)
    b[0] = 10.0 * x[i]
    b[1] = 7.0
    if x[i] > 0.0:
        a = b
    a[1] = a[1] + 2.0 * x[i]
    out[i] = a[0] + a[1] + b[1]


def test_arrays_of_a_thread_are_chosen_and_written():
    x = np.array([-1.0, 2.0, -3.0, 4.0], np.float32)
    f = wp.jax_kernel(of_its_own)
    np.testing.assert_array_equal(f(x)[0], np.where(x > 0, 14 * x + 14, 3 * x + 7))
    np.testing.assert_array_equal(jax.grad(lambda x: f(x)[0].sum())(x), np.where(x > 0, 14, 3))
