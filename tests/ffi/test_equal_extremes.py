"""atomic_min and atomic_max in JAX: NaN is left out, and of equal operands both modes of derivatives choose the last.

The reference is written in JAX: the operands of an element in the order of threads, of which it picks one.
"""

import hostcuda
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp import jax_kernel
from jaxwarp.codegen.cpu import run_cpu
from jaxwarp.ir.interpret import interpret
from jaxwarp.passes.pipeline import fix_rounding, prepare
from jaxwarp.vjp.forward.tangent import tangent
from jaxwarp.vjp.winners import hold_selection

NAN, INF = float("nan"), float("inf")
INDEX = np.array([0, 1, 0, 1, 1, 0], np.int32)
TIES = [[1.0, 5.0, 2.0, 5.0, 5.0, 2.0], [0.0] * 6, [2.0, -2.0, 2.0, -2.0, 2.0, -2.0], [NAN, 3.0, 3.0, NAN, 3.0, NAN],
        [0.0, -0.0, -0.0, 0.0, -0.0, 0.0], [1.0, 2.0, 3.0, 4.0, 5.0, 6.0], [-1.0, -1.0] + [NAN] * 4]  # fmt: skip


@wp.kernel
def at_one(x: wp.array[float], index: wp.array[int], y: wp.array[float]):
    wp.atomic_max(y, 0, x[wp.tid()])


@wp.kernel
def segments(x: wp.array[float], index: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    wp.atomic_min(y, index[i], x[i] * x[i])


@wp.kernel
def several_of_a_thread(x: wp.array[float], index: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    wp.atomic_max(y, index[i], x[i] * x[i])
    for k in range(3):
        wp.atomic_max(y, 0, x[k] * x[i])
    if x[i] > 0.0:
        wp.atomic_max(y, index[i], x[i] * 2.0)


@wp.kernel
def of_its_own(x: wp.array[float], index: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    own = wp.zeros(shape=2, dtype=float)
    own[index[i]] = y[i]
    for k in range(6):
        wp.atomic_min(own, index[i], x[k] * x[k])
    y[i] = own[index[i]]


@wp.kernel
def elements_of_threads(x: wp.array[float], index: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    for k in range(6):
        wp.atomic_max(y, i, x[k] * x[i])


KERNELS = [at_one, segments, several_of_a_thread, of_its_own, elements_of_threads]


def operands_of(kernel, x, e):
    """Of an element, in the order of threads."""
    square, mine = x * x, [i for i in range(6) if INDEX[i] == e]
    if kernel is at_one:
        return x if e == 0 else x[:0]
    if kernel is segments:
        return square[np.array(mine, int)]
    if kernel is of_its_own:
        return square
    if kernel is elements_of_threads:
        return x * x[e]
    each = jnp.stack([square, x[0] * x, x[1] * x, x[2] * x, jnp.where(x > 0.0, x * 2.0, NAN)], 1)
    is_mine, is_first = np.isin(np.arange(6), mine), np.full(6, e == 0)
    return each[np.stack([is_mine, is_first, is_first, is_first, is_mine], 1)]


def reference(kernel, x, y):
    is_min = kernel in (segments, of_its_own)

    def element(e):
        values = operands_of(kernel, x, e)
        key = jnp.where(jnp.isnan(values), -INF, -values if is_min else values)
        if not len(values):
            return y[e]
        before = jnp.where(jnp.isnan(y[e]), -INF, -y[e] if is_min else y[e])
        last = len(values) - 1 - jnp.argmax(key[::-1])
        return jnp.where(jnp.isnan(values[last]) | (key[last] < before), y[e], values[last])

    return jnp.stack([element(e) for e in range(len(y))])


def call(kernel):
    return lambda x, y: jax_kernel(kernel, in_out_argnames="y", launch_dims=6)(x, INDEX, y)[0]


def same(a, b):
    np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
def test_both_modes_choose_the_last_of_equal_operands(kernel):
    ours, right = call(kernel), lambda x, y: reference(kernel, x, y)
    count = 6 if kernel in (of_its_own, elements_of_threads) else 2
    both = (0, 1)
    mixed = jax.jit(lambda x, y: (ours(x, y), jax.jacfwd(ours, both)(x, y), jax.jacrev(ours, both)(x, y)))
    expected = jax.jit(lambda x, y: (right(x, y), jax.jacfwd(right, both)(x, y)))
    for operands in TIES:
        for start in (-1.0, 0.0, 4.0, NAN):
            x, y = jnp.array(operands), jnp.full(count, start)
            value, forward, reverse = mixed(x, y)
            same(value, expected(x, y)[0])
            for a, b, c in zip(forward, reverse, expected(x, y)[1], strict=True):
                same(jnp.nan_to_num(a), jnp.nan_to_num(b))
                same(jnp.nan_to_num(a), jnp.nan_to_num(c))


@pytest.mark.parametrize("kernel", KERNELS, ids=lambda k: k.name)
def test_second_order_and_batches(kernel):
    ours, right = call(kernel), lambda x, y: reference(kernel, x, y)
    count = 6 if kernel in (of_its_own, elements_of_threads) else 2
    batch, before = jnp.array([t for t in TIES if not np.isnan(t).any()]), jnp.full(count, 1.0)

    def loss(f):
        return lambda x: (f(x, before) ** 3).sum()

    @jax.jit
    def theirs(batch):
        return jax.vmap(jax.hessian(loss(right)))(batch), jax.jacfwd(jax.vmap(right, (0, None)))(batch, before)

    hessians, jacobian = theirs(batch)
    for order in (jax.jacfwd, jax.jacrev):
        same(jax.jit(jax.vmap(order(jax.grad(loss(ours)))))(batch), hessians)
    same(jax.jit(jax.jacrev(jax.vmap(ours, (0, None))))(batch, before), jacobian)


def test_vectors_choose_for_each_component():
    @wp.kernel
    def corners(p: wp.array[wp.vec2], low: wp.array[wp.vec2]):
        wp.atomic_min(low, 0, p[wp.tid()])

    def low(p):
        return jax_kernel(corners, in_out_argnames="low")(p, jnp.full((1, 2), INF))[0]

    p = jnp.array([[1.0, NAN], [0.0, 2.0], [-0.0, 2.0], [NAN, 3.0]])
    same(low(p), [[0.0, 2.0]])
    assert np.signbit(low(p)).tolist() == [[True, False]]
    selected = np.zeros((1, 2, 4, 2))
    selected[0, 0, 2, 0] = selected[0, 1, 2, 1] = 1.0
    same(jax.jacfwd(low)(p), selected)
    same(jax.jacrev(low)(p), selected)


def test_many_threads_choose_one():
    """Several chunks on several cores: one operand has the cotangent, always the same."""
    n = 1 << 16
    x = jnp.zeros(n).at[jnp.array([5, n // 2, n - 7])].set(1.0)
    value = lambda x: call_of_many(x)[0]  # noqa: E731
    for _ in range(10):
        gradient = jax.grad(value)(x)
        assert np.flatnonzero(gradient).tolist() == [n - 7]
        assert float(jax.jvp(value, (x,), (jnp.arange(n, dtype=float),))[1]) == n - 7


@wp.kernel
def highest(x: wp.array[float], y: wp.array[float]):
    wp.atomic_max(y, 0, x[wp.tid()])


def call_of_many(x):
    return jax_kernel(highest, output_dims=1)(x)[0]


def test_replayed_functions_choose_too():
    """The value is known after the launch only, and so is who has it."""

    @wp.func
    def ticket(count: wp.array[int], slot: wp.array[int], i: int) -> int:
        slot[i] = wp.atomic_add(count, 0, 1)
        return slot[i]

    @wp.func_replay(ticket)
    def again(count: wp.array[int], slot: wp.array[int], i: int) -> int:
        return slot[i]

    @wp.kernel
    def best(x: wp.array[float], count: wp.array[int], slot: wp.array[int], y: wp.array[float]):
        i = wp.tid()
        wp.atomic_max(y, 0, x[i] + 0.0 * float(ticket(count, slot, i)))

    def value(x):
        made = jax_kernel(best, 3, output_dims={"count": 1, "slot": 6, "y": 1})(x)
        return made[2][0]

    x = jnp.array([1.0, 5.0, 2.0, 5.0, 5.0, 2.0])
    same(jax.grad(value)(x), [0, 0, 0, 0, 1, 0])
    same(jax.jacfwd(value)(x), [0, 0, 0, 0, 1, 0])


@pytest.mark.parametrize("seed", range(3))
def test_a_nan_does_not_make_an_element_forget(seed):
    """Whatever the order, and outside of JAX, too."""
    x = np.arange(40, dtype=np.float32)
    x[[5, 7]] = NAN
    x = np.random.default_rng(seed).permutation(x)
    for start in (-1.0, NAN):
        y = wp.full(1, start, dtype=float)
        wp.launch(highest, 40, [wp.array(x)], [y])
        assert y.list() == [39.0]


@wp.kernel
def of_components(v: wp.array[wp.vec3], low: wp.array[float], place: wp.array[int]):
    i = wp.tid()
    low[i] = wp.min(v[i])
    place[i] = int(wp.argmin(v[i]))


def test_the_smallest_component_has_the_derivative():
    """Of equal ones the last, as of `wp.min(a, b)`; a NaN never."""
    call = lambda v: jax_kernel(of_components, 2)(v)[0]  # noqa: E731
    v = jnp.array([[NAN, 2.0, 3.0], [2.0, NAN, 2.0], [4.0, 1.0, NAN], [NAN, NAN, 1.0], [0.0, -0.0, 0.0]])
    same(call(v), [2.0, 2.0, 1.0, 1.0, 0.0])
    same(jax_kernel(of_components, 2)(v)[1], [1, 0, 1, 2, 0])
    moved = [[0, 1, 0], [0, 0, 1], [0, 1, 0], [0, 0, 1], [0, 0, 1]]
    for derivative in (jax.jacfwd, jax.jacrev):
        same(np.einsum("iij->ij", np.asarray(derivative(call)(v))), moved)


@wp.kernel
def of_new_memory(x: wp.array[float], low: wp.array[float]):
    i = wp.tid()
    own = wp.zeros(shape=1, dtype=float)
    wp.atomic_min(own, 0, x[i])
    low[i] = own[0]


def test_an_operand_comes_before_equal_contents():
    """Also where these are a constant."""
    call = lambda x: jax_kernel(of_new_memory)(x)[0]  # noqa: E731
    x = jnp.array([0.0, -0.0, -1.0, 1.0, NAN])
    for derivative in (jax.jacfwd, jax.jacrev):
        same(jnp.diag(derivative(call)(x)), [1, 1, 1, 0, 0])


@pytest.mark.parametrize("kernel", [at_one, segments, several_of_a_thread], ids=lambda k: k.name)
def test_every_device_finds_the_same_operands(kernel):
    """The finder and the tangent of what it leaves: CPU code in pieces, CUDA text in blocks of several sizes."""
    fixed = fix_rounding(kernel.specialize(), fma=True)
    held = hold_selection(fixed, (0, 2), (6,), {}, {})
    assert held is not None
    moved = tangent(held.kernel, (0, 2), (6,))
    finder, pushed = prepare(held.finder.kernel), prepare(moved.kernel)
    hostcuda.prepare_host([finder, pushed], (32,))
    ways = [lambda k, b, w=w, t=t: run_cpu(k, (6,), b, w, t) for w, t in ((1, None), (8, None), (4, HALVES))]
    ways += [lambda k, b, n=n, t=t: hostcuda.run_host(k, (6,), b, 32, t, n) for n, t in ((1, None), (2, 4), (32, None))]
    for operands in TIES:
        x, y = np.array(operands, np.float32), np.full(2, -1.0, np.float32)
        final = [x, INDEX, y.copy()]
        interpret(prepare(fixed), (6,), final)
        first = None
        for way in (lambda k, b: interpret(k, (6,), b), *ways):
            winners = np.zeros(2, np.int32)
            values = {"primal": [x, INDEX, y], "final": [x, INDEX, final[2]]}
            way(finder, [winners if s.kind == "winner" else values[s.kind][s.index] for s in held.finder.slots])
            tangents = [np.arange(1, 7, dtype=np.float32), INDEX, np.zeros(2, np.float32)]
            values = {"primal": [x, INDEX, y.copy(), winners, final[2]], "tangent": tangents}
            way(pushed, [values[s.kind][s.index] for s in moved.slots])
            first = first or (winners, tangents[2])
            same(winners, first[0])
            same(tangents[2], first[1])


HALVES = [(0, 1, 3, 6), (0, 1, 0, 3)]
