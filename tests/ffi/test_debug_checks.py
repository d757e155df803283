"""What debug mode looks for beside indices: programs that are wrong, and programs that are right."""

import collections

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.checkify import checkify
from language import define

import jaxwarp as wp
from jaxwarp.analysis.integers.facts import Facts
from jaxwarp.passes.checks.checked import Debug, checked


@pytest.fixture(autouse=True)
def _debug():
    before = {name: getattr(wp.config, name) for name in wp.config.SETTINGS}
    wp.config.mode = "debug"
    wp.config.checks = wp.config.CHECKS
    yield
    for name, value in before.items():
        setattr(wp.config, name, value)


def said(kernel, threads, inputs, outputs):
    """What a launch says, without file and excerpt; None if nothing fails."""
    try:
        wp.launch(kernel, threads, inputs, outputs)
    except wp.errors.CheckError as error:
        return error.message
    return None


def ints(*values):
    return np.array(values, np.int32)


def floats(*values):
    return np.array(values, np.float32)


# Integers


@wp.kernel
def k_div(a: wp.array[int], b: wp.array[int], y: wp.array[int]):
    i = wp.tid()
    y[i] = a[i] / b[i]


@wp.kernel
def k_floordiv(a: wp.array[int], b: wp.array[int], y: wp.array[int]):
    i = wp.tid()
    y[i] = a[i] // b[i]


@wp.kernel
def k_mod(a: wp.array[int], b: wp.array[int], y: wp.array[int]):
    i = wp.tid()
    y[i] = a[i] % b[i]


@wp.kernel
def k_shl(a: wp.array[int], b: wp.array[int], y: wp.array[int]):
    i = wp.tid()
    y[i] = a[i] << b[i]


@wp.kernel
def k_shr(a: wp.array[int], b: wp.array[int], y: wp.array[int]):
    i = wp.tid()
    y[i] = a[i] >> b[i]


@wp.kernel
def k_narrow(a: wp.array[int], b: wp.array[int], y: wp.array[int]):
    i = wp.tid()
    y[i] = wp.int32(wp.int8(a[i])) + b[i]


INTEGERS = {
    "div": (k_div, (7, -6, 5), (2, 0, 1), "thread (1,): division by zero: -6 / 0"),
    "floordiv": (k_floordiv, (7, -6, 5), (2, 3, 0), "thread (2,): division by zero: 5 // 0"),
    "mod": (k_mod, (7, -6, 5), (0, 0, 1), "thread (0,): division by zero: 7 % 0"),
    "shl": (k_shl, (1, 1, 1), (31, 32, 0), "thread (1,): shift out of range: 1 << 32, of 32 bits"),
    "shr": (k_shr, (1, 1, 1), (31, 0, -1), "thread (2,): shift out of range: 1 >> -1, of 32 bits"),
    "narrow": (k_narrow, (127, -128, 128), (0, 0, 0), "thread (2,): conversion of 128 to int8, which does not hold it"),
}


@pytest.mark.parametrize("name", INTEGERS)
def test_integers(name):
    kernel, a, b, expected = INTEGERS[name]
    found, released = wp.zeros(3, dtype=int), wp.zeros(3, dtype=int)
    assert said(kernel, 3, [ints(*a), ints(*b)], [found]) == expected
    wp.config.mode = "release"
    wp.launch(kernel, 3, [ints(*a), ints(*b)], [released])
    np.testing.assert_array_equal(found.numpy(), released.numpy(), "the value is that of the language")
    wp.config.mode = "debug"
    wp.config.checks = ("bounds", "races", "nan", "steps")
    assert said(kernel, 3, [ints(*a), ints(*b)], [found]) is None


@wp.kernel
def guarded(a: wp.array[int], b: wp.array[int], y: wp.array[int]):
    i = wp.tid()
    for k in range(a[i]):
        y[i] += k + 100 // b[i]  # moved out of the loop, which does not run where b is 0
    if b[i] != 0:
        y[i] += 10 % b[i]


def test_a_division_that_is_not_reached_is_no_failure():
    y = wp.zeros(3, dtype=int)
    assert said(guarded, 3, [ints(2, 0, 1), ints(5, 0, 2)], [y]) is None
    np.testing.assert_array_equal(y.numpy(), [41, 0, 50])


@wp.func
def divided(a: int, b: int):
    return (a // b + 1 if b != 0 else 0, a >> b if b >= 0 and b < 32 else -1)


@wp.kernel
def sides(a: wp.array[int], b: wp.array[int], x: wp.array[float], y: wp.array2d[int]):
    i = wp.tid()
    n, d, f = a[i], b[i], x[i]
    y[i, 0], y[i, 1] = divided(n, d)
    y[i, 2] = (0 if d == 0 else n % d) if n > 0 else -n
    y[i, 3] = int(f) if wp.abs(f) < 1000.0 else -1


def test_what_the_other_side_of_a_choice_would_do_is_no_failure():
    y = wp.zeros((4, 4), dtype=int)
    x = np.array([1.5, 1e20, -1e20, 2.0], np.float32)
    assert said(sides, 4, [ints(7, 8, 9, 0), ints(0, 2, -2, 40), x], [y]) is None
    np.testing.assert_array_equal(y.numpy(), [[0, 7, 0, 1], [5, 2, 0, -1], [-4, -1, 1, -1], [1, -1, 0, 2]])


@wp.kernel
def wrongly_chosen(a: wp.array[int], b: wp.array[int], y: wp.array[int]):
    i = wp.tid()
    n, d = a[i], b[i]
    q = n // d if d == 0 else 1
    r = n % d
    y[i] = q + (r if d > 5 else 0) + r


def test_what_the_side_that_is_chosen_does_is_one():
    y = wp.zeros(2, dtype=int)
    assert said(wrongly_chosen, 2, [ints(7, 8), ints(2, 0)], [y]) == "thread (1,): division by zero: 8 // 0"

    @wp.kernel
    def used_twice(a: wp.array[int], b: wp.array[int], y: wp.array[int]):
        i = wp.tid()
        n, d = a[i], b[i]
        r = n % d
        y[i] = (r if d > 5 else 0) + r

    assert said(used_twice, 2, [ints(7, 8), ints(2, 0)], [y]) == "thread (1,): division by zero: 8 % 0"


@wp.kernel
def to_int(x: wp.array[float], y: wp.array[int]):
    i = wp.tid()
    y[i] = int(x[i])


@wp.kernel
def to_uint(x: wp.array[wp.float64], y: wp.array[wp.uint8]):
    i = wp.tid()
    y[i] = wp.uint8(x[i])


@pytest.mark.parametrize("value", [2.0**31, -(2.0**31) - 512.0, np.nan, np.inf, -np.inf])
def test_floats_that_an_integer_does_not_hold(value):
    y = wp.zeros(3, dtype=int)
    expected = "thread (2,): conversion of a float32 to int32, which does not hold it"
    assert said(to_int, 3, [floats(2.0**31 - 128, -(2.0**31), value)], [y]) == expected


@pytest.mark.parametrize(("value", "is_held"), [(255.9, True), (256.0, False), (-0.9, True), (-1.0, False)])
def test_floats_at_the_ends_of_a_small_integer(value, is_held):
    y = wp.zeros(1, dtype=wp.uint8)
    assert (said(to_uint, 1, [np.array([value])], [y]) is None) == is_held


# NaN


@wp.kernel
def root(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    z = wp.sqrt(x[i])
    y[i] = z + 1.0


@wp.kernel
def chosen(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    z = x[i] / x[i]
    y[i] = wp.where(x[i] == 0.0, 1.0, z)


@wp.kernel
def summed(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    wp.atomic_add(y, i % 2, wp.log(x[i]))


def test_a_nan_is_told_where_it_is_stored_and_where_it_was_made():
    y = wp.zeros(4, dtype=float)
    line = root.func.__code__.co_firstlineno + 3
    text = f"thread (2,): a NaN that this thread has made in line {line} is stored to element (2,) of array y"
    assert said(root, 4, [floats(4, np.nan, -1, 9)], [y]) == text
    np.testing.assert_array_equal(y.numpy(), [3, np.nan, np.nan, 4])
    assert said(root, 2, [floats(4, np.nan)], [y]) is None, "a NaN that is given"
    text = said(summed, 4, [floats(1, 2, 3, -1)], [y])
    assert text.startswith("thread (3,): a NaN")
    assert text.endswith("is added to element (1,) of array y")


def test_a_nan_that_is_not_used_is_no_failure():
    y = wp.zeros(3, dtype=float)
    assert said(chosen, 3, [floats(0, 2, 3)], [y]) is None
    np.testing.assert_array_equal(y.numpy(), [1, 1, 1])


def test_a_nan_of_a_derivative():
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"a NaN that this thread has made .* cotangent of array x"):
        jax.block_until_ready(jax.jit(jax.grad(lambda x: (0.0 * wp.jax_kernel(root)(x)[0]).sum()))(jnp.zeros(3)))
    jax.block_until_ready(jax.jit(jax.grad(lambda x: (0.0 * wp.jax_kernel(root)(x)[0]).sum()))(jnp.ones(3)))


@wp.kernel
def multiplied(x: wp.array[float], index: wp.array[int], a: wp.array[float]):
    i = wp.tid()
    a[index[i]] = a[index[i]] * x[i]


def test_an_index_from_the_end_of_what_a_derivative_needs():
    call = wp.jax_kernel(multiplied, in_out_argnames=["a"])
    gradient = jax.jit(jax.grad(lambda x, index: (jnp.arange(3.0) * call(x, index, jnp.ones(3))[0]).sum()))
    for index in ([2, 0, 1], [2, -3, 1]):
        np.testing.assert_array_equal(gradient(jnp.ones(3), jnp.array(index)), [2, 0, 1])
    # JAX raises one or the other.
    with pytest.raises((jax.errors.JaxRuntimeError, ValueError), match="race: it reads element"):
        jax.block_until_ready(gradient(jnp.ones(3), jnp.array([2, -3, 0])))


# Steps


@wp.kernel
def locked(lock: wp.array[int], y: wp.array[int]):
    i = wp.tid()
    while wp.atomic_cas(lock, 0, 0, 1) != 0:
        pass
    y[i] = i


@wp.kernel
def counted(n: wp.array[int], y: wp.array[int]):
    i = wp.tid()
    k = wp.int32(0)
    while k != n[i]:
        k += 1
    y[i] = k


@wp.kernel
def ranged(n: wp.array[int], y: wp.array[int]):
    i = wp.tid()
    for k in range(0, n[i], 2):
        y[i] += k


def test_loops_end():
    wp.config.max_steps = 1000
    text = ": a loop of more than 1000 iterations"
    y = wp.zeros(16, dtype=int)
    assert text in said(locked, 16, [wp.zeros(1, dtype=int)], [y])
    y = wp.zeros(3, dtype=int)
    assert said(counted, 3, [ints(5, -1, 7)], [y]) == "thread (1,)" + text
    np.testing.assert_array_equal(y.numpy(), [5, 1000, 7])
    assert said(counted, 3, [ints(5, 1000, 7)], [y]) is None
    y = wp.zeros(3, dtype=int)
    assert said(ranged, 3, [ints(4, 1, 2001)], [y]) == "thread (2,)" + text
    np.testing.assert_array_equal(y.numpy(), [2, 0, 0], "a range that is too long is not run")
    assert said(ranged, 3, [ints(2000, 1, -5)], [y]) is None


def test_other_threads_do_not_wait_for_long_either():
    """A hundred thousand threads, each of which would run to the limit."""
    wp.config.max_steps = 100_000
    n = 100_000
    y = wp.zeros(n, dtype=int)
    assert "iterations" in said(counted, n, [np.full(n, -1, np.int32)], [y])
    assert np.median(y.numpy()) < 2048


# Races


@wp.kernel
def halved(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i / 2] = x[i]


@wp.kernel
def neighbours(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i]
    if i > 0:
        y[i] = y[i] + y[i - 1]


@wp.kernel
def updated_and_read(x: wp.array[float], y: wp.array[float], z: wp.array[float]):
    i = wp.tid()
    wp.atomic_add(y, 0, x[i])
    z[i] = y[1] + y[i / 4]


@wp.kernel
def scattered(index: wp.array[int], x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[index[i]] = x[i]


@wp.kernel
def columns(x: wp.array2d[float], y: wp.array2d[float]):
    i, j = wp.tid()
    y[j, 0] = x[i, j]


def line(kernel, after):
    return kernel.func.__code__.co_firstlineno + 1 + after


def test_two_threads_that_store_to_one_element():
    y = wp.zeros(4, dtype=float)
    text = "thread (2,): race: it stores to element (1,) of array y, which thread (3,) stores to in line"
    assert said(halved, 4, [floats(1, 1, 2, 3)], [y]) == f"{text} {line(halved, 2)}"
    wp.config.checks = ("bounds",)
    assert said(halved, 4, [floats(1, 1, 2, 3)], [y]) is None


def test_stores_of_one_value_are_told_apart():
    y = wp.zeros(4, dtype=float)
    assert said(halved, 4, [floats(1, 1, 2, 2)], [y]) is None
    wp.config.checks = ("equal_stores",)
    text = "thread (0,): stores of one value: it stores to element (0,) of array y, which thread (1,) stores to in line"
    assert said(halved, 4, [floats(1, 1, 2, 3)], [y]) == f"{text} {line(halved, 2)}"
    for dtype in (wp.float64, wp.int64, wp.float16, wp.int8):

        @wp.kernel
        def typed(x: wp.array[dtype], y: wp.array[dtype]):
            y[0] = x[wp.tid()]

        wp.config.checks = ("races",)
        same, other = np.full(3, 2, dtype.numpy), np.array([2, 2, -3], dtype.numpy)
        assert said(typed, 3, [same], [wp.zeros(1, dtype=dtype)]) is None
        assert "race" in said(typed, 3, [other], [wp.zeros(1, dtype=dtype)])


def test_a_store_and_a_load():
    y = wp.zeros(4, dtype=float)
    text = "thread (0,): race: it stores to element (0,) of array y, which thread (1,) reads in line"
    assert said(neighbours, 4, [floats(1, 2, 3, 4)], [y]) == f"{text} {line(neighbours, 4)}"


def test_an_atomic_and_a_load():
    y, z = wp.zeros(2, dtype=float), wp.zeros(4, dtype=float)
    text = "thread (0,): race: it updates element (0,) of array y, which thread (3,) reads in line"
    assert said(updated_and_read, 4, [floats(1, 2, 3, 4)], [y, z]) == f"{text} {line(updated_and_read, 3)}"


def test_by_indices_that_are_data():
    x, y = floats(*range(8)), wp.zeros(8, dtype=float)
    assert said(scattered, 8, [ints(*range(7, -1, -1)), x], [y]) is None
    text = said(scattered, 8, [ints(0, 5, 2, 3, 4, 5, 3, 7), x], [y])
    assert text.startswith("thread (1,): race: it stores to element (5,) of array y, which thread (5,)")
    y = wp.zeros((3, 1), dtype=float)
    text = said(columns, (2, 3), [np.arange(6, dtype=np.float32).reshape(2, 3)], [y])
    assert text.startswith("thread (0, 0): race: it stores to element (0, 0) of array y, which thread (1, 0)")


def test_races_are_the_same_on_many_cores():
    index = np.arange(400_000, dtype=np.int32)
    index[399_999], index[200_000] = 123_456, 100_000
    some = wp.jax_kernel(scattered, launch_dims=index.size, output_dims=index.size)
    for _ in range(3):
        with pytest.raises(wp.errors.CheckError, match=r"thread \(100000,\): race: .* which thread \(200000,\)"):
            some(jnp.array(index), jnp.arange(400_000.0))


@wp.kernel
def right(x: wp.array2d[float], y: wp.array2d[float], total: wp.array[float], flag: wp.array[int]):
    i, j = wp.tid()
    y[i, j] = x[i, j]
    y[i, j] = y[i, j] + x[0, j]
    wp.atomic_add(total, 0, y[i, j])
    wp.atomic_max(total, 1, y[i, j])
    if x[i, j] > 3.0:
        flag[0] = 1


def test_right_programs_have_no_races():
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    outputs = wp.zeros((3, 4), dtype=float), wp.zeros(2, dtype=float), wp.zeros(1, dtype=int)
    assert said(right, (3, 4), [x], list(outputs)) is None
    np.testing.assert_array_equal(outputs[0].numpy(), x + x[0])
    np.testing.assert_allclose(outputs[1].numpy(), [(x + x[0]).sum(), 14])


def test_races_under_transformations():
    call, bad = wp.jax_kernel(halved), jnp.array([[1.0, 1, 2, 2], [1, 1, 2, 3]])
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"thread \(2,\): race: it stores to element \(1,\)"):
        jax.block_until_ready(jax.jit(call)(bad[1]))
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"batch index \(1,\), thread \(2,\): race: .* \(1,\) of"):
        jax.block_until_ready(jax.jit(jax.vmap(call))(bad))
    error, _ = jax.jit(jax.vmap(checkify(call, errors=wp.kernel_checks)))(bad)
    assert "at mapped index 1" in error.get()
    assert "thread (2,): race" in error.get()
    assert "at mapped index 0" not in error.get()
    error, _ = checkify(jax.vmap(call), errors=wp.kernel_checks)(bad)
    assert "batch index (1,), thread (2,): race: it stores to element (1,) of array y, which thread (3,)" in error.get()


def test_the_first_failure_of_a_thread_is_told():
    @wp.kernel
    def twice(index: wp.array[int], x: wp.array[int], y: wp.array[int]):
        i = wp.tid()
        y[i] = 10 // x[index[i]]

    text = said(twice, 2, [ints(0, 9), ints(1, 2)], [wp.zeros(2, dtype=int)])
    assert text == "thread (1,): index 9 of axis 0 of array x is out of range; its extent is 2"


def test_work_on_values_of_branches_inside_each_other_is_bounded(monkeypatch):
    """Each condition was assumed on both sides of all those after it."""
    chain = "\n".join(f"    k = k + 1 if k < x[{j}] else k - x[{j}]" for j in range(20))
    head = "@wp.kernel\ndef chain(x: wp.array[int], y: wp.array[int]):\n    i = wp.tid()\n    k = i\n"
    counted = collections.Counter()
    computed = Facts._made_of

    def counting(self, *args):
        counted["values"] += 1
        return computed(self, *args)

    monkeypatch.setattr(Facts, "_made_of", counting)
    kernel = define(f"{head}{chain}\n    y[k] = i\n")["chain"].ir()
    assert checked(kernel, Debug(("bounds",), 1000), (8,), [(20,), (8,)]) is not None
    assert 20 < counted["values"] < 50_000
