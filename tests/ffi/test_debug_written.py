"""Debug mode checks the program as it is written: what is optimised away, forwarded or folded is checked, too."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.checkify import checkify
from test_debug_checks import floats, ints
from test_debug_checks import said as first_said

import jaxwarp as wp
from jaxwarp.passes.checks.checked import Debug, checked
from jaxwarp.passes.pipeline import prepare


@pytest.fixture(autouse=True)
def _debug():
    before = {name: getattr(wp.config, name) for name in wp.config.SETTINGS}
    wp.config.mode = "debug"
    wp.config.checks = wp.config.CHECKS
    yield
    for name, value in before.items():
        setattr(wp.config, name, value)


def said(kernel, threads, inputs, outputs) -> Any:
    """What a launch says; None if nothing fails."""
    return first_said(kernel, threads, inputs, outputs)


@wp.struct
class Body:
    v: wp.vec3
    m: wp.mat33


@wp.func
def component(v: wp.vec3, k: int):
    return v[k] * v[0]


# Components of what is in a variable, at an index of the program: k[i]; each has an extent of 3.


@wp.kernel
def load(k: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    v = wp.vec3(1.0, 2.0, 3.0)
    y[i] = v[k[i]]


@wp.kernel
def store(k: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    v = wp.vec3(1.0, 2.0, 3.0)
    v[k[i]] = 9.0
    y[i] = v[0] + v[1] + v[2]


@wp.kernel
def update(k: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    v = wp.vec3(1.0, 2.0, 3.0)
    v[k[i]] += 9.0
    y[i] = v[0]


@wp.kernel
def row_load(k: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    m = wp.mat33(1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0)
    y[i] = m[k[i]][1]


@wp.kernel
def entry_load(k: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    m = wp.mat33(1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0)
    y[i] = m[k[i], 0]


@wp.kernel
def slice_load(k: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    m = wp.mat33(1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0)
    part = m[k[i], 0:2]
    y[i] = part[0]


@wp.kernel
def slice_store(k: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    m = wp.mat33(1.0)
    m[k[i], 0:2] = wp.vec2(5.0, 6.0)
    y[i] = m[0, 0]


@wp.kernel
def field(k: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    b = Body()
    b.v[k[i]] = 2.0
    y[i] = b.v[0]


@wp.kernel
def of_doubles(k: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    v = wp.vector(length=3, dtype=wp.float64)
    y[i] = float(v[k[i]])


@wp.kernel
def inlined(k: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    y[i] = component(wp.vec3(1.0, 2.0, 3.0), k[i])


@wp.kernel
def differentiated(k: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    y[i] = wp.grad(component)(wp.vec3(1.0, 2.0, 3.0), k[i])[0][0]


@wp.kernel
def unused(k: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    v = wp.vec3(1.0, 2.0, 3.0)
    _ = v[k[i]]
    y[i] = 1.0


@wp.kernel
def chosen(k: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    v = wp.vec3(1.0, 2.0, 3.0)
    n = k[i]
    y[i] = v[n] if n > 1 or n < 0 else 0.0


@wp.kernel
def both(k: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    v = wp.vec3(1.0, 2.0, 3.0)
    n = k[i]
    if (n > 1 or n < 0) and v[n] > 2.0:
        y[i] = 1.0


@wp.kernel
def in_condition(k: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    v = wp.vec3(1.0, 2.0, 3.0)
    n = k[i]
    while v[n] < 0.0:
        n += 1
    y[i] = 1.0


@wp.kernel
def reshaped(k: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    t = wp.tile_reshape(wp.tile_ones(shape=(2, 3), dtype=float), (3, 2))
    y[i] = t[k[i], 0]


@wp.kernel
def broadcast(k: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    t = wp.tile_broadcast(wp.tile_ones(shape=2, dtype=float), (3, 2))
    y[i] = t[k[i], 0]


@wp.kernel
def viewed(k: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    t = wp.tile_view(wp.tile_ones(shape=8, dtype=float), 1, 3)
    y[i] = t[k[i]]


# A thread's own arrays and tiles: what is stored is not loaded again, or not read at all.


@wp.kernel
def forwarded(k: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    b = wp.zeros(3, dtype=float)
    b[k[i]] = 2.0
    y[i] = b[k[i]]


@wp.kernel
def tile_forwarded(k: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    t = wp.tile_zeros(shape=(3, 3), dtype=float)
    t[k[i], 0] = 2.0
    y[i] = t[k[i], 0]


@wp.kernel
def never_read(k: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    b = wp.zeros(3, dtype=float)
    b[k[i]] += 2.0
    y[i] = 1.0


@wp.kernel
def large(k: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    b = wp.zeros(3, dtype=wp.vec4)
    b[k[i]] = wp.vec4(2.0)
    y[i] = b[k[i]][1]


@wp.kernel
def dead_load(k: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    b = wp.zeros(3, dtype=float)
    _ = b[k[i]]
    y[i] = 1.0


@wp.kernel
def part_of_array(k: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    own = wp.zeros(shape=9, dtype=float)
    for j in range(9):
        own[j] = float(j)
    part = own[2:8][1:4]
    y[i] = part[k[i]]


@wp.kernel
def stepped_part(k: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    own = wp.zeros(shape=9, dtype=float)
    part = own[7:1:-2]
    part[k[i]] += 1.0
    y[i] = part[k[i]]


@wp.func
def at(part: wp.array[float], n: int):
    return part[n]


@wp.kernel
def part_in_function(k: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    own = wp.zeros(shape=(4, 9), dtype=float)
    y[i] = at(own[1, 3:6], k[i])


@wp.kernel
def part_of_rows(k: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    own = wp.zeros(shape=(7, 2), dtype=float)
    y[i] = own[4:][k[i], 1]


@wp.kernel
def row_of_part(k: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    own = wp.zeros(shape=(7, 2), dtype=float)
    row = own[4:][k[i]]
    y[i] = row[1:][0]


KERNELS = {
    k.key: k
    for k in (
        load, store, update, row_load, entry_load, slice_load, slice_store, field, of_doubles, inlined, differentiated,
        unused, chosen, both, in_condition, reshaped, broadcast, viewed, forwarded, tile_forwarded, never_read, large,
        dead_load, part_of_array, stepped_part, part_in_function, part_of_rows,
        row_of_part,
    )
}  # fmt: skip


@pytest.mark.parametrize("name", KERNELS)
def test_every_index_is_tested(name):
    kernel, legal = KERNELS[name], ints(0, 2, -1, -3)
    y, release = wp.zeros(4, dtype=float), wp.zeros(4, dtype=float)
    assert said(kernel, 4, [legal], [y]) is None
    wp.config.mode = "release"
    wp.launch(kernel, 4, [legal], [release])
    wp.config.mode = "debug"
    np.testing.assert_array_equal(y.numpy(), release.numpy())
    for wrong in (3, -4, 2**31 - 1, -(2**31)):
        text = said(kernel, 4, [ints(0, 2, wrong, wrong)], [y])
        assert text is not None
        assert text.startswith(f"thread (2,): index {wrong} of axis 0 of ")
        assert text.endswith("is out of range; its extent is 3")


@pytest.mark.parametrize("name", [n for n in KERNELS if n != "differentiated"])
def test_the_interpreter_tests_them(name):
    y = np.zeros(1, np.float32)
    KERNELS[name].interpret(ints(-1), y, dim=1)
    with pytest.raises(wp.errors.OutOfRangeError, match=r"thread \(0,\): index 3 of axis 0 of .*; its extent is 3"):
        KERNELS[name].interpret(ints(3), y, dim=1)


@wp.kernel
def guarded(k: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    v, n = wp.vec3(1.0, 2.0, 3.0), k[i]
    y[i] = v[n] if n < 3 else 0.5
    if n < 3 and v[n] > 1.0:
        y[i] += 10.0
    if n >= 3 or v[n] > 1.0:
        y[i] += 100.0
    y[i] += (v[n] if v[n] > 1.0 else v[n - 1]) if n < 3 and n > 0 else 0.0


@wp.kernel
def guarded_row(k: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    own = wp.zeros(shape=(7, 2), dtype=float)
    for j in range(7):
        own[j, 1] = 1.0
    row = own[4:][k[i]]
    if k[i] < 3:
        y[i] = row[1]
    y[i] += float(row.shape[0])


def test_what_is_not_chosen_is_not_tested():
    y = wp.zeros(3, dtype=float)
    assert said(guarded_row, 3, [ints(0, 7, -1)], [y]) is None
    np.testing.assert_array_equal(y.numpy(), [3, 2, 3])
    y = wp.zeros(4, dtype=float)
    assert said(guarded, 4, [ints(0, 1, 7, -1)], [y]) is None
    np.testing.assert_array_equal(y.numpy(), [1, 114, 100.5, 113])
    guarded.interpret(ints(7), np.zeros(1, np.float32), dim=1)


def test_wide_indices_and_those_without_a_sign():
    for dtype, wrong in ((wp.int64, 2**40), (wp.uint8, 255), (wp.uint64, 2**40), (wp.int8, -4)):

        @wp.kernel
        def typed(k: wp.array[dtype], y: wp.array[float]):  # pyright: ignore[reportInvalidTypeForm]
            i = wp.tid()
            v = wp.vec3(1.0, 2.0, 3.0)
            v[k[i]] += 1.0
            y[i] = v[k[i]]

        index = np.array([2, 1, wrong], dtype.numpy)
        text = said(typed, 3, [index], [wp.zeros(3, dtype=float)])
        assert text == f"thread (2,): index {wrong} of axis 0 of a vec3[float32] is out of range; its extent is 3"


def test_checks_of_bounds_alone_name_components():
    y = wp.zeros(1, dtype=float)
    wp.config.checks = ("races", "nan", "integers", "steps")
    assert said(load, 1, [ints(3)], [y]) is None
    wp.config.checks = ("bounds",)
    assert "index 3" in said(load, 1, [ints(3)], [y])


# What nobody uses


@wp.kernel
def looked_up(x: wp.array[float], k: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    _ = x[k[i]]
    y[i] = 1.0


@wp.kernel
def raced(x: wp.array[float]):
    i = wp.tid()
    _ = x[(i + 1) % 4]
    x[i] = 1.0


@wp.kernel
def raced_through(k: wp.array[int], x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    _ = x[k[i]]
    x[i] = 1.0
    y[i] = 1.0


@wp.kernel
def flagged(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    x[0] = 1.0
    y[i] = x[0]


@wp.kernel
def counted(n: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    k = wp.int32(0)
    while k != n[i]:
        k += 1
    y[i] = 1.0


@wp.kernel
def ranged(n: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    s = 0.0
    for k in range(n[i]):
        s += float(k)
    y[i] = 1.0


@wp.kernel
def to_the_power(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    a = wp.sqrt(x[i])
    y[i] = wp.pow(a, 0.0)
    y[i] = a


def test_what_nobody_uses_is_checked():
    y = wp.zeros(4, dtype=float)
    text = said(looked_up, 4, [floats(1, 2, 3, 4), ints(0, 3, 4, 5)], [y])
    assert text == "thread (2,): index 4 of axis 0 of array x is out of range; its extent is 4"
    assert "race: it reads element (1,) of array x, which thread (1,) stores to" in said(raced, 4, [], [y])
    assert "race" in said(flagged, 4, [], [wp.zeros(1, dtype=float), y])
    wp.config.max_steps = 1000
    for loop in (counted, ranged):
        assert said(loop, 4, [ints(3, 1000, 5, 0)], [y]) is None
        text = said(loop, 4, [ints(3, 2000, 5, 2001)], [y])
        assert text == "thread (1,): a loop of more than 1000 iterations"


def test_a_nan_that_a_power_hides():
    """A NaN to the power of 0 is 1."""
    text = said(to_the_power, 3, [floats(1, -1, 4)], [wp.zeros(3, dtype=float)])
    assert text.startswith("thread (1,): a NaN that this thread has made in line")


@wp.kernel
def decided(a: wp.array[int], b: wp.array[int], y: wp.array[int]):
    i = wp.tid()
    n, d = a[i], b[i]
    if d != 0 and n // d > 1:
        y[i] = 1
    if d == 0 or n % d > 1:
        y[i] += 2


@wp.kernel
def decided_late(a: wp.array[int], b: wp.array[int], y: wp.array[int]):
    i = wp.tid()
    n, d = a[i], b[i]
    if n > 5 and n // d > 1:
        y[i] = 1


def test_what_a_condition_keeps_from_being_computed_is_no_failure():
    y = wp.zeros(3, dtype=int)
    assert said(decided, 3, [ints(7, 8, 9), ints(2, 0, 5)], [y]) is None
    np.testing.assert_array_equal(y.numpy(), [1, 2, 2])
    assert said(decided_late, 3, [ints(2, 8, 9), ints(0, 1, 0)], [y]) == "thread (2,): division by zero: 9 // 0"


# Through JAX


@wp.kernel
def picked(x: wp.array[wp.vec3], k: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    v = x[i]
    y[i] = v[k[i]] * v[0]


CALL = wp.jax_kernel(picked)
X, GOOD, BAD = jnp.ones((3, 3)), jnp.array([0, -1, 2]), jnp.array([0, 1, 3])
TEXT = r"thread \(2,\): index 3 of axis 0 of a vec3\[float32\] is out of range; its extent is 3"


def total(x, k):
    return CALL(x, k)[0].sum()


WAYS = {
    "jit": total,
    "gradient": jax.grad(total),
    "tangent alone": lambda x, k: jax.jvp(lambda x: total(x, k), (x,), (x,))[1],
    "result not used": lambda x, k: jnp.zeros_like(total(x, k)),
    "batch": lambda x, k: jax.vmap(total, (None, 0))(x, jnp.stack([k, k])),
}


@pytest.mark.parametrize("way", WAYS)
def test_under_transformations(way):
    function = jax.jit(WAYS[way])
    jax.block_until_ready(function(X, GOOD))
    with pytest.raises((jax.errors.JaxRuntimeError, ValueError), match=TEXT):
        jax.block_until_ready(function(X, BAD))


@pytest.mark.parametrize("function", [total, jax.grad(total)])
def test_as_a_value(function):
    run = jax.jit(checkify(function, errors=wp.kernel_checks))
    assert run(X, GOOD)[0].get() is None
    assert "index 3 of axis 0 of a vec3[float32]" in run(X, BAD)[0].get()


# Results


@wp.kernel
def forwarded_sums(x: wp.array[float], n: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    b = wp.zeros(70, dtype=float)
    s = 0.1
    for k in range(n[i]):
        b[k] = x[i] * x[k]
        s += b[k]
    y[i] = s


@wp.kernel
def product_as_index(x: wp.array[float], n: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    b = wp.zeros(70, dtype=float)
    t = x[i] * 1.1
    b[int(t)] = 5.0
    q = b[int(t)]  # a use of the product that release mode does not have
    y[i] = (t + x[n[i]]) * q


@pytest.mark.parametrize("kernel", [forwarded_sums, product_as_index])
def test_results_are_those_of_release_mode_to_the_last_bit(kernel):
    rng = np.random.default_rng(0)
    x, n = (rng.random(64) * 60).astype(np.float32), rng.integers(0, 64, 64).astype(np.int32)
    found = []
    for mode in ("debug", "release"):
        wp.config.mode = mode
        found.append(wp.zeros(64, dtype=float))
        wp.launch(kernel, 64, [x, n], [found[-1]])
    np.testing.assert_array_equal(found[0].numpy(), found[1].numpy())


def test_release_mode_has_no_tests():
    for kernel in KERNELS.values():
        ir = kernel.specialize()
        assert "inside" not in str(prepare(ir))
        wp.config.mode = "release"
        assert "failures" not in jax.jit(wp.jax_kernel(kernel, launch_dims=2, output_dims=2)).lower(GOOD[:2]).as_text()
        wp.config.mode = "debug"


def test_indices_that_are_in_range_for_certain_are_not_tested():
    @wp.kernel
    def within(x: wp.array[float], y: wp.array[float]):
        i = wp.tid()
        b = wp.zeros(70, dtype=float)
        v = wp.vec3(1.0, 2.0, 3.0)
        for k in range(70):
            b[k] = x[i]
        for k in range(i % 4):
            y[i] += b[k] + v[k]

    known = Debug(("bounds",), max_steps=1000)
    assert checked(within.specialize(), known, (8,), [(8,), (8,)]) is None
    assert checked(within.specialize(), known, (8,), [(7,), (8,)]) is not None
