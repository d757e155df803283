"""Variables that only some path sets: read where that is known, or found when the kernel runs, or refused."""

# ruff: noqa: UP018, RUF046  (kernels are written for their own sake)

import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp


@wp.kernel
def correlated(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    is_large = x[i] > 0.5
    if is_large:
        a = 2.0 * x[i]
        v = wp.vec3(1.0, x[i], 0.0)
    elif x[i] > 0.2:
        a = 100.0
    s = 0.0
    for k in range(3):
        if is_large:
            s += a * v[1] + float(k)
    if not is_large:
        s = -x[i]
    else:
        s += v[0]
    y[i] = s


def reference(x):
    return np.where(x > 0.5, 6.0 * x * x + 3.0 + 1.0, -x)


X = np.linspace(0.0, 1.0, 11, dtype=np.float32)


def test_the_condition_is_asked_again():
    y = wp.zeros(len(X))
    wp.launch(correlated, len(X), [X, y])
    np.testing.assert_allclose(y.numpy(), reference(X), rtol=1e-6)
    stepped = np.zeros_like(X)
    correlated.interpret(X, stepped)
    np.testing.assert_allclose(stepped, reference(X), rtol=1e-6)


def test_its_derivative():
    def loss(x):
        return wp.jax_kernel(correlated)(x)[0].sum()

    found = jax.grad(loss)(jnp.asarray(X))
    np.testing.assert_allclose(found, np.where(X > 0.5, 12.0 * X, -1.0), rtol=1e-5)


def test_another_condition_is_checked():
    @wp.kernel
    def otherwise(x: wp.array[float], y: wp.array[float]):
        c = x[0] > 0.5
        if c:
            a = 1.0
        if not c:
            y[0] = a

    @wp.kernel
    def changed(x: wp.array[float], y: wp.array[float]):
        c = x[0] > 0.5
        if c:
            a = 1.0
        c = x[0] > 0.7
        if c:
            y[0] = a

    @wp.kernel
    def in_two_cases(x: wp.array[float], y: wp.array[float]):
        c = x[0] > 0.5
        d = x[0] > 0.7
        if c:
            a = 1.0
        if d:  # noqa: SIM102
            if x[0] > 0.9:
                a = 2.0
        if c:
            y[0] = a

    y = wp.zeros(1)
    wp.launch(otherwise, 1, [wp.ones(1), y])
    assert y.list() == [0.0]
    with pytest.raises(wp.CheckError, match="a is not defined here: it is assigned only if the condition"):
        wp.launch(otherwise, 1, [wp.zeros(1), y])
    for kernel, x, expected in ((changed, 0.6, 0.0), (changed, 0.8, 1.0), (in_two_cases, 0.6, 1.0),
                                (in_two_cases, 1.0, 2.0), (in_two_cases, 0.1, 0.0)):  # fmt: skip
        y = wp.zeros(1)
        wp.launch(kernel, 1, [wp.full(1, x), y])
        assert y.list() == [expected]


def test_a_second_set_under_the_same_condition():
    @wp.kernel
    def twice(x: wp.array[float], y: wp.array[float]):
        i = wp.tid()
        c = x[i] > 0.5
        if c:
            a = 1.0
        if c:
            a = a + x[i]
        if c:
            y[i] = a

    y = wp.zeros(2)
    wp.launch(twice, 2, [wp.array([0.0, 2.0], dtype=float), y])
    assert y.list() == [0.0, 3.0]


@wp.kernel
def choices(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    if x[i] > 0.5:
        a = x[i]
    elif x[i] < -0.5:
        a = -x[i]
    if wp.abs(x[i]) > 0.6:
        y[i] = a


def test_one_of_several_branches_sets_it():
    y = wp.zeros(3)
    wp.launch(choices, 3, [wp.array([1.0, -2.0, 0.1], dtype=float), y])
    assert y.list() == [1.0, 2.0, 0.0]
    found = jax.grad(lambda x: wp.jax_kernel(choices)(x)[0].sum())(jnp.array([1.0, -2.0, 0.1], jnp.float32))
    np.testing.assert_array_equal(found, [1.0, -1.0, 0.0])
    with pytest.raises(wp.CheckError, match=r"thread \(1,\): a is not defined here"):
        wp.launch(unset, 2, [wp.array([1.0, 0.1], dtype=float), wp.zeros(2)])


@wp.kernel
def unset(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    if x[i] > 0.5:
        a = x[i]
    y[i] = a


@wp.kernel
def earlier(first: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    previous = int(-1)
    s = float(0.0)
    for j in range(20):
        c = j // 2
        if c != previous and j >= first[i]:
            previous = c
            a = float(c) * 10.0
            v = wp.vec2(1.0, float(c))
        if j >= 2:
            for _ in range(j):
                if j == 3:
                    s += a + v[1]
    y[i] = s


def test_an_earlier_iteration_has_set_it():
    y = wp.zeros(2)
    wp.launch(earlier, 2, [wp.array([0, 2], dtype=int), y])
    assert y.list() == [33.0, 33.0]
    with pytest.raises(wp.CheckError, match=r"thread \(0,\): (a|v) is not defined here"):
        wp.launch(earlier, 2, [wp.array([4, 0], dtype=int), y])


def in_python(kernel, *args):
    """Run the text of a kernel as Python does, for its first thread."""
    names = {"wp": types.SimpleNamespace(tid=lambda: 0)}
    types.FunctionType(kernel.func.__code__, {**kernel.func.__globals__, **names})(*args)


@wp.kernel
def left_early(c: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    n = int(0)
    while True:
        n += 1
        if n > 1:
            break
        if c[i] > 0:
            e = -1.5
    y[i] = e


@wp.kernel
def passed_over(c: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    for k in range(y.shape[0]):
        if k == c[i]:
            continue
        if k > 0:
            e = float(k)
    y[i] = e


@wp.kernel
def set_deeper(c: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    if c[i] > 1:
        e = 5.0
    for k in range(y.shape[0]):
        if c[i] > k:
            e = 1.0
        for _ in range(c[i]):
            e = 2.0
    y[i] = e


@wp.kernel
def in_a_loop_or_not(c: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    if c[i] > 0:
        for _ in range(c[i]):
            e = 1.0
    elif c[i] < 0:
        e = 2.0
    y[i] = e


@pytest.mark.parametrize("kernel", [left_early, passed_over, set_deeper, in_a_loop_or_not], ids=lambda k: k.name)
def test_what_paths_that_leave_a_loop_have_set(kernel):
    """As Python has it, where reading a variable without a value is an error."""
    failed = 0
    for c in range(-2, 5):
        expected, y = np.zeros(3, np.float32), wp.zeros(3)
        try:
            in_python(kernel, [c], expected)
        except UnboundLocalError:
            failed += 1
            with pytest.raises(wp.CheckError, match=r"thread \(0,\): e is not defined here"):
                wp.launch(kernel, 1, [wp.array([c], dtype=int), y])
        else:
            wp.launch(kernel, 1, [wp.array([c], dtype=int), y])
            np.testing.assert_array_equal(y.numpy(), expected)
    assert failed < 7
    assert failed > 0 or kernel is passed_over


@wp.kernel
def set_by_an_inner_loop(c: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    if c[i] > 0:
        d = 5.0
    for k in range(c[i]):
        if c[i] > k + 1:
            d = 1.0
            y[i] = d
        for _ in range(c[i]):
            d = 2.0
    if c[i] > 0:
        y[i] = d


def test_a_value_from_before_an_inner_loop_is_handed_on():
    for c in range(4):
        expected, y = np.zeros(1, np.float32), wp.zeros(1)
        in_python(set_by_an_inner_loop, [c], expected)
        wp.launch(set_by_an_inner_loop, 1, [wp.array([c], dtype=int), y])
        assert y.list() == expected.tolist()


@wp.kernel
def searched(rows: wp.array[int], y: wp.array[float]):
    p = int(rows[3])
    for k in range(y.shape[0]):
        while p >= 0:
            s = rows[p]
            if s <= k:
                break
            p -= 1
        if p >= 0 and s == k:
            y[k] = float(s)


@wp.kernel
def summed(c: wp.array[int], y: wp.array[float]):
    n = c[0]
    if n > 0:
        total = float(0.0)
    for k in range(n):
        if k == 1:
            continue
        if k >= 0:
            y[1] = 1.0
            if n > 0:
                total += float(k)
    if n > 0:
        y[0] = total


@pytest.mark.parametrize(
    ("kernel", "given"),
    [(searched, [1, 0, 3, 2]), (searched, [0, 0, 1, 2]), (searched, [0, 0, 1, -1]), (summed, [4]), (summed, [0])],
)
def test_variables_of_nested_loops(kernel, given):
    expected, y = np.zeros(3, np.float32), wp.zeros(3)
    in_python(kernel, given, expected)
    wp.launch(kernel, 1, [wp.array(given, dtype=int), y])
    np.testing.assert_array_equal(y.numpy(), expected)


def test_derivatives_of_what_a_loop_may_set():
    @wp.kernel
    def last(x: wp.array[float], n: int, y: wp.array[float]):
        for k in range(n):
            if x[k] < 0.0:
                break
            found = x[k] * x[k]
        if n > 1:
            y[0] = found

    call = wp.jax_kernel(last, launch_dims=1, output_dims=1)
    x = jnp.array([1.0, 2.0, -1.0])
    for n, expected in ((0, [0, 0, 0]), (2, [0, 4, 0]), (3, [0, 4, 0])):
        assert jax.grad(lambda x, n=n: call(x, n)[0][0])(x).tolist() == expected


def test_a_tile_of_an_earlier_iteration():
    @wp.kernel
    def rows(a: wp.array2d[float], n: wp.array[int], y: wp.array2d[float]):
        previous = int(-1)
        for j in range(n[0]):
            c = j // 2
            if c != previous:
                previous = c
                row = wp.tile_load(a[c], shape=4)
            wp.tile_store(y[j], row * float(j))

    a = np.arange(12, dtype=np.float32).reshape(3, 4)
    y = wp.zeros((6, 4))
    wp.launch_tiled(rows, dim=1, inputs=[wp.array(a), wp.array([6], dtype=int), y], block_dim=32)
    np.testing.assert_array_equal(y.numpy(), a[np.arange(6) // 2] * np.arange(6, dtype=np.float32)[:, None])


@wp.kernel
def last(n: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    for k in range(n[i]):
        if k == 3:
            break
    y[i] = float(k)


def test_the_variable_of_a_loop_after_it():
    y = wp.zeros(3)
    wp.launch(last, 3, [wp.array([1, 2, 9], dtype=int), y])
    assert y.list() == [0.0, 1.0, 3.0]
    with pytest.raises(wp.CheckError, match=r"thread \(1,\): k is not defined here: the loop in line \d+ has made no"):
        wp.launch(last, 3, [wp.array([1, 0, 9], dtype=int), y])


def test_it_is_not_asked_for_where_nobody_reads_it():
    @wp.kernel
    def unread(n: wp.array[int], y: wp.array[float]):
        i = wp.tid()
        for k in range(n[i]):  # noqa: B007
            y[i] += 1.0
        if n[i] > 0:
            y[i] += float(k)

    y = wp.zeros(2)
    wp.launch(unread, 2, [wp.array([0, 3], dtype=int), y])
    assert y.list() == [0.0, 5.0]


def test_the_variable_of_several_loops():
    @wp.kernel
    def of_the_last_that_ran(n: wp.array2d[int], y: wp.array[float]):
        i = wp.tid()
        for k in range(n[i, 0]):  # noqa: B007
            y[i] += 1.0
        for k in range(n[i, 1]):
            if k == 3:
                break
        for k in range(10, n[i, 2]):  # noqa: B007
            y[i] += 1.0
        y[i] = float(k)

    y = wp.zeros(4)
    wp.launch(of_the_last_that_ran, 4, [wp.array([[3, 0, 0], [3, 9, 0], [1, 2, 15], [0, 2, 0]], dtype=int), y])
    assert y.list() == [2.0, 3.0, 14.0, 1.0]
    with pytest.raises(wp.CheckError, match="k is not defined here"):
        wp.launch(of_the_last_that_ran, 1, [wp.zeros((1, 3), dtype=int), y])


def test_a_conditional_expression_asks_again():
    @wp.kernel
    def chosen(x: wp.array[float], y: wp.array[float]):
        i = wp.tid()
        c = x[i] > 0.5
        if c:
            a = x[i]
        y[i] = 2.0 * a if c else -1.0
        if c and a > 1.5:
            y[i] += 10.0
        if not c or a < 1.5:
            y[i] += 100.0

    y = wp.zeros(3)
    wp.launch(chosen, 3, [wp.array([0.0, 1.0, 2.0], dtype=float), y])
    assert y.list() == [99.0, 102.0, 14.0]


def test_python_evaluates_the_side_that_is_chosen():
    """`interpret` lowers both: of what the thread has not set there was an error."""

    @wp.kernel
    def chosen(n: wp.array[int], y: wp.array[float]):
        i = wp.tid()
        for k in range(n[i]):  # noqa: B007
            y[i] += 1.0
        c = n[i] > 1
        if c:
            v = wp.vec3(1.0, y[i], 2.0)
        y[i] = float(k) if n[i] > 0 else -1.0
        y[i] += v[1] if c else 100.0
        if n[i] > 2 and k > 1:
            y[i] += 10.0

    y, n = np.zeros(3, np.float32), np.array([3, 0, 1], np.int32)
    chosen.interpret(n, y)
    assert y.tolist() == [15.0, 99.0, 100.0]
    launched = wp.zeros(3)
    wp.launch(chosen, 3, [wp.array(n), launched])
    assert launched.list() == y.tolist()
    with pytest.raises(wp.CheckError, match=r"thread \(1,\): k is not defined here"):
        last.interpret(n, y)
