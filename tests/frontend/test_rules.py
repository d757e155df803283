"""Derivative rules written by hand. Rules that are the true derivative are held against finite differences, in all
modes and second order; rules that are not, against JAX's `custom_jvp` of the same formula."""

# ruff: noqa: SIM108  (branches of kernels)

from __future__ import annotations

import re
from typing import Any

import derivativekit as kit
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from derivativekit import Case
from language import define, outputs, run

import jaxwarp as wp
from jaxwarp.errors import DifferentiationError
from jaxwarp.passes.pipeline import prepare

D = wp.float64
N = 4
RNG = np.random.default_rng(7)


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def random(*shape: int) -> np.ndarray:
    return RNG.uniform(0.4, 1.6, shape)


# True derivatives, in every form that rules can have


@wp.func
def cubed(x: wp.float64):
    return x * x * x


@wp.func_grad(cubed)
def adj_cubed(x: wp.float64, adj_ret: wp.float64):
    wp.adjoint[x] += D(3.0) * x * x * adj_ret


@wp.func
def cubed(x: wp.float64, y: wp.float64):
    return x * x * x * y, wp.sin(y)


@wp.func_grad(cubed)
def adj_cubed_two(x: wp.float64, y: wp.float64, a: wp.float64, b: wp.float64):
    slope = D(3.0) * x * x * y
    wp.adjoint[x] += slope * a
    wp.adjoint[y] -= -(x * x * x) * a - wp.cos(y) * b


@wp.func
def cubed(v: wp.vec3d):
    return v[0] * v[1] * v[2]


@wp.func_grad(cubed)
def adj_cubed_vector(v: wp.vec3d, adj_ret: wp.float64):
    wp.adjoint[v][0] += v[1] * v[2] * adj_ret
    wp.adjoint[v].y += v[0] * v[2] * adj_ret
    k = 2
    wp.adjoint[v][k] += v[0] * v[1] * adj_ret


@wp.kernel
def overloads(x: wp.array[wp.float64], v: wp.array[wp.vec3d], out: wp.array[wp.float64]):
    i = wp.tid()
    a, b = cubed(x[i], x[i] * v[i][0])
    out[i] = cubed(x[i]) * a + b * cubed(v[i])


@wp.func
def rotated(m: wp.mat22d, v: wp.vec2d):
    return m * v, wp.trace(m)


@wp.func_grad(rotated)
def adj_rotated(m: wp.mat22d, v: wp.vec2d, adj: wp.vec2d, adj_trace: wp.float64):
    wp.adjoint[m] += wp.outer(adj, v)
    for k in range(2):
        wp.adjoint[m][k, k] += adj_trace
    wp.adjoint[v] += wp.transpose(m) * adj


@wp.kernel
def matrices(m: wp.array[wp.mat22d], v: wp.array[wp.vec2d], out: wp.array[wp.float64]):
    i = wp.tid()
    u, t = rotated(m[i], v[i])
    w, s = rotated(m[i], u)
    out[i] = w[0] * w[1] + t * s


@wp.func
def power(x: Any, n: int):
    result = type(x)(1.0)
    for _ in range(n):
        result = result * x
    return result


@wp.func_grad(power)
def adj_power(x: Any, n: int, adj_ret: Any):
    """In a loop, with a branch and an early return."""
    if n == 0:
        return
    total = adj_ret * type(x)(0.0)
    for k in range(n):
        term = adj_ret
        for j in range(n):
            if j == k:
                continue
            term = term * x
        total += term
    wp.adjoint[x] += total


@wp.kernel
def generic_in_a_loop(x: wp.array[wp.float64], n: wp.array[int], out: wp.array[wp.float64]):
    i = wp.tid()
    v = x[i]
    for k in range(n[i]):
        if k % 2 == 0:
            v = power(v, k) * D(0.7) + D(0.2)
        else:
            v = wp.sin(v) + D(float(power(wp.float32(v), 0)))
    out[i] = v


@wp.func
def weighted(a: wp.array[wp.float64], b: wp.array2d[wp.float64], i: int):
    total = D(0.0)
    for j in range(b.shape[1]):
        total += a[j] * b[i, j] * b[i, j]
    return total


@wp.func_grad(weighted)
def adj_weighted(a: wp.array[wp.float64], b: wp.array2d[wp.float64], i: int, adj_ret: wp.float64):
    for j in range(b.shape[1]):
        wp.adjoint[a][j] += b[i, j] * b[i, j] * adj_ret
        wp.atomic_add(wp.adjoint[b], i, j, D(2.0) * a[j] * b[i, j] * adj_ret)


@wp.kernel
def arrays(a: wp.array[wp.float64], b: wp.array2d[wp.float64], out: wp.array[wp.float64]):
    i = wp.tid()
    out[i] = weighted(a, b, i) * a[i]


@wp.func
def outer_function(x: wp.float64):
    return cubed(x) * D(2.0) + cubed(x * x)


@wp.kernel
def nested(x: wp.array[wp.float64], out: wp.array[wp.float64]):
    i = wp.tid()
    v = x[i]
    while v < D(3.0):
        v = v + outer_function(v) * D(0.1)
    out[i] = v + wp.grad(outer_function)(x[i])


@wp.func
def sigmoid(x: wp.float64):
    return D(1.0) / (D(1.0) + wp.exp(-x))


@wp.func_grad(sigmoid)
def adj_sigmoid(x: wp.float64, adj: wp.float64):
    wp.adjoint[x] += adj * sigmoid(x) * (D(1.0) - sigmoid(x))


@wp.kernel
def calls_itself(x: wp.array[wp.float64], out: wp.array[wp.float64]):
    i = wp.tid()
    out[i] = sigmoid(x[i] * sigmoid(x[i])) * wp.grad(sigmoid)(x[i])


CASES = {
    "overloads": (overloads, (random(N), random(N, 3), np.zeros(N)), (0, 1)),
    "matrices": (matrices, (random(N, 2, 2), random(N, 2), np.zeros(N)), (0, 1)),
    "generic_in_a_loop": (generic_in_a_loop, (random(N), np.array([0, 1, 3, 6], np.int32), np.zeros(N)), (0,)),
    "arrays": (arrays, (random(N), random(N, 3), np.zeros(N)), (0, 1)),
    "nested": (nested, (random(N), np.zeros(N)), (0,)),
    "calls_itself": (calls_itself, (random(N), np.zeros(N)), (0,)),
}


def make(name: str) -> Case:
    kernel, buffers, wanted = CASES[name]
    return Case(name, kernel.specialize(), (N,), list(buffers), wanted, (len(buffers) - 1,))


@pytest.mark.parametrize("name", CASES)
def test_a_true_rule_in_all_modes(name):
    case = make(name)
    kit.check_tangent(case)
    kit.check_adjoint(case)
    kit.check_adjoint_of_tangent(case)
    kit.check_tangent_of_adjoint(case)


@pytest.mark.parametrize("name", CASES)
def test_machine_code_is_that_of_the_function(name):
    """Nothing of a rule is left in it, and CPU code agrees with the interpreter."""
    kernel, buffers, _ = CASES[name]
    run(kernel, N, *buffers)
    text = str(prepare(kernel.specialize()))
    assert "attach" not in text
    assert "detach" not in text


# Rules that are not the derivative of the code


@wp.func
def stepped(x: wp.float64, s: wp.float64):
    return wp.floor(x * D(4.0)) * s, wp.cast(x, wp.int64)


@wp.func_grad(stepped)
def adj_stepped(x: wp.float64, s: wp.float64, adj_ret: wp.float64, adj_bits: wp.int64):
    """The slope of what was rounded, and twice the true slope in s, of one sign only."""
    wp.adjoint[x] += D(4.0) * s * adj_ret
    if s > D(1.0):
        wp.adjoint[s] += D(2.0) * x * x * adj_ret


@wp.kernel
def staircase(x: wp.array[wp.float64], s: wp.array[wp.float64], out: wp.array[wp.float64]):
    i = wp.tid()
    y, _bits = stepped(wp.sin(x[i]), s[i])
    out[i] = y * y


@jax.custom_jvp
def reference_stepped(x, s):
    return jnp.floor(x * 4.0) * s


@reference_stepped.defjvp
def _(primals, tangents):
    (x, s), (dx, ds) = primals, tangents
    return reference_stepped(x, s), 4.0 * s * dx + jnp.where(s > 1.0, 2.0 * x * x, 0.0) * ds


X, S = np.linspace(-1.2, 1.3, 5), np.linspace(0.3, 1.9, 5)
TRANSFORMS = {
    "grad": lambda f: jax.grad(lambda x, s: f(x, s).sum(), (0, 1))(X, S),
    "jvp": lambda f: jax.jvp(f, (X, S), (S, X)),
    "hessian": lambda f: jax.hessian(lambda x, s: f(x, s).sum(), (0, 1))(X, S),
    "forward over forward": lambda f: jax.jacfwd(jax.jacfwd(f, (0, 1)), (0, 1))(X, S),
    "reverse over reverse": lambda f: jax.jacrev(jax.grad(lambda x, s: f(x, s).sum(), (0, 1)), (0, 1))(X, S),
    "vmap": lambda f: jax.vmap(jax.grad(lambda x, s: f(x, s).sum(), (0, 1)), (0, None))(np.stack([X, 2 * X]), S),
    "jit": lambda f: jax.jit(jax.grad(lambda x, s: f(x, s).sum(), (0, 1)))(X, S),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_a_rule_of_ones_own_against_jax(name):
    call = wp.jax_kernel(staircase)
    got = TRANSFORMS[name](lambda x, s: call(x, s)[0])
    expected = TRANSFORMS[name](lambda x, s: reference_stepped(jnp.sin(x), s) ** 2)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12), got, expected)


@wp.func
def untouched(x: wp.float64, y: wp.float64):
    return x / y


@wp.func_grad(untouched)
def adj_untouched(x: wp.float64, y: wp.float64, adj_ret: wp.float64):
    wp.adjoint[x] += adj_ret


@wp.func
def both(x: wp.float64):
    return x * D(3.0), D(1.0) / x


@wp.func_grad(both)
def adj_both(x: wp.float64, a: wp.float64, b: wp.float64):
    """At zero the second factor is infinite, which must not reach what only the first depends on."""
    wp.adjoint[x] += D(3.0) * a - b / (x * x)


def test_what_a_rule_leaves_out_does_not_move():
    @wp.kernel
    def k(x: wp.array[wp.float64], y: wp.array[wp.float64], out: wp.array[wp.float64], first: wp.array[wp.float64]):
        i = wp.tid()
        out[i] = untouched(x[i], y[i])
        a, _b = both(x[i])
        first[i] = a

    call = wp.jax_kernel(k, num_outputs=2)
    x = jnp.array([0.0, 1.0])
    by_x, by_y = jax.grad(lambda x, y: sum(o.sum() for o in call(x, y)), (0, 1))(x, jnp.array([2.0, 4.0]))
    assert by_x.tolist() == [4.0, 4.0]
    assert by_y.tolist() == [0.0, 0.0]


def test_rules_of_single_and_half_precision():
    @wp.func
    def f(x: Any):
        return x * x

    @wp.func_grad(f)
    def adj_f(x: Any, adj_ret: Any):
        wp.adjoint[x] += adj_ret * x * type(x)(3.0)

    @wp.kernel
    def k(x: wp.array[Any], out: wp.array[Any]):
        i = wp.tid()
        out[i] = f(x[i])

    for dtype in (np.float32, np.float16):
        x = jnp.array([0.5, 2.0], dtype)
        got = jax.grad(lambda x: wp.jax_kernel(k)(x)[0].sum())(x)
        assert got.dtype == dtype
        assert got.tolist() == [1.5, 6.0]


def test_a_rule_gets_what_a_caller_passes_by_name_and_default():
    @wp.func
    def f(x: wp.float64, scale: wp.float64 = 3.0):  # pyright: ignore[reportArgumentType]
        return x * scale

    @wp.func_grad(f)
    def adj_f(x: wp.float64, scale: wp.float64, adj_ret: wp.float64):
        wp.adjoint[x] += D(10.0) * scale * adj_ret

    @wp.kernel
    def k(x: wp.array[wp.float64], out: wp.array[wp.float64]):
        i = wp.tid()
        out[i] = f(x[i]) + f(scale=D(2.0), x=x[i])

    assert jax.grad(lambda x: wp.jax_kernel(k)(x)[0].sum())(jnp.ones(2)).tolist() == [50.0, 50.0]


# What a rule cannot be


def rule_error(body: str) -> str:
    """What the gradient of a function with a rule says; the kernel itself works."""
    scope = define(
        "@wp.func\ndef f(x: wp.float64):\n    return x\n\n"
        f"@wp.func_grad(f)\ndef adj_f(x: wp.float64, adj: wp.float64):\n    {body}\n\n"
        "@wp.kernel\ndef k(x: wp.array[wp.float64], out: wp.array[wp.float64]):\n"
        "    i = wp.tid()\n    out[i] = f(x[i])\n"
    )
    assert outputs(scope["k"], 2, np.ones(2), np.zeros(2)).tolist() == [1.0, 1.0]
    with pytest.raises(DifferentiationError) as caught:
        jax.grad(lambda x: wp.jax_kernel(scope["k"])(x)[0].sum())(jnp.ones(2))
    return str(caught.value)


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("wp.adjoint[x] += wp.clamp(adj, wp.float64(-1.0), wp.float64(1.0))", "min of it|max of it"),
        ("wp.adjoint[x] += adj * adj", "a product of two values that depend on it"),
        ("wp.adjoint[x] += adj + x", "a value that does not depend on it is added"),
        ("wp.adjoint[x] += x", "what is added to the adjoint does not depend on it"),
        ("wp.adjoint[x] += x / adj", "div of it"),
        ("if adj > x:\n        wp.adjoint[x] += adj", "gt of it"),
        ("wp.adjoint[x] += wp.where(x > adj, adj, adj)", "gt of it"),
        ("t = x\n    if x > wp.float64(0.0):\n        t = adj\n    wp.adjoint[x] += t", "one path gives a value"),
        ("t = x\n    for k in range(100):\n        t = adj\n    wp.adjoint[x] += t", "one path gives a value"),
        ("wp.adjoint[x] += wp.float64(int(adj))", "cast of it"),
        ("for k in range(int(adj)):\n        wp.adjoint[x] += adj", "cast of it"),
    ],
)
def test_a_rule_that_is_not_linear(body, reason):
    text = rule_error(body)
    assert "not linear in its cotangent" in text
    assert re.search(reason, text), text
    assert any(line.strip() in text for line in body.splitlines())


# Replay


@wp.func
def next_place(counter: wp.array[int], places: wp.array[int], tid: int):
    place = wp.atomic_add(counter, 0, 1)
    places[tid] = place
    return place


@wp.func_replay(next_place)
def replay_next_place(counter: wp.array[int], places: wp.array[int], tid: int):
    return places[tid]


@wp.kernel
def compact(x: wp.array[wp.float64], counter: wp.array[int], places: wp.array[int], out: wp.array[wp.float64]):
    i = wp.tid()
    if x[i] > D(0.0):
        out[next_place(counter, places, i)] = x[i] * x[i]


def call_compact(x):
    dims = {"counter": 1, "places": x.shape[0], "out": x.shape[0]}
    return wp.jax_kernel(compact, num_outputs=3, output_dims=dims)(x)


@jax.jit
def expected_compact(places, x):
    """The same in JAX, with the places that the launch came upon."""
    return jnp.zeros_like(x).at[jnp.where(x > 0, places, len(x))].set(x * x, mode="drop")


@pytest.mark.parametrize("n", [7, 300_000])
def test_a_counter_is_replayed(n):
    x = jax.random.normal(jax.random.key(0), (n,), jnp.float64)
    weights = jax.random.normal(jax.random.key(1), (n,), jnp.float64)

    def loss(x):
        _, places, out = call_compact(x)
        return out @ weights, (places, out)

    (_, (places, out)), gradient = jax.jit(jax.value_and_grad(loss, has_aux=True))(x)
    np.testing.assert_array_equal(out, expected_compact(places, x))
    expected = jax.grad(lambda x: expected_compact(places, x) @ weights)(x)
    np.testing.assert_array_equal(gradient, expected)
    (_, places, out), (_, _, moved) = jax.jvp(call_compact, (x,), (weights,))
    np.testing.assert_array_equal(moved, jax.jvp(lambda x: expected_compact(places, x), (x,), (weights,))[1])


def test_second_derivatives_and_vmap_of_a_replay():
    x = jnp.array([0.5, -1.0, 2.0, 3.0])

    def loss(x):
        return (call_compact(x)[2] ** 2).sum()

    np.testing.assert_allclose(jax.jit(jax.hessian(loss))(x), np.diag(np.where(x > 0, 12 * x * x, 0.0)))
    both = jnp.stack([x, -x])
    np.testing.assert_allclose(jax.vmap(jax.grad(loss))(both), jnp.where(both > 0, 4 * both**3, 0.0))


def test_the_replay_is_what_derivatives_run():
    """Final contents are read, not those on entry: the array starts as zeros, and out[0] gets one of the values."""
    x = jnp.array([1.0, 2.0, 3.0])
    gradient = jax.grad(lambda x: call_compact(x)[2] @ jnp.array([1.0, 10.0, 100.0]))(x)
    places = call_compact(x)[1]
    np.testing.assert_allclose(gradient, 2 * x * np.array([1.0, 10.0, 100.0])[places])


def test_a_replay_with_a_rule():
    """The function draws a number from an array by a counter, and counts how often; it returns a float."""

    @wp.func
    def drawn(counter: wp.array[int], taken: wp.array[int], values: wp.array[wp.float64], x: wp.float64, tid: int):
        place = wp.atomic_add(counter, 0, 1)
        taken[tid] = place
        return values[place] * x

    @wp.func_replay(drawn)
    def replay_drawn(
        counter: wp.array[int], taken: wp.array[int], values: wp.array[wp.float64], x: wp.float64, tid: int
    ):
        return values[taken[tid]] * x

    # The place is not known to the rule: it is found by the replay of another call.
    @wp.func_grad(drawn)
    def adj_drawn(
        counter: wp.array[int],
        taken: wp.array[int],
        values: wp.array[wp.float64],
        x: wp.float64,
        tid: int,
        adj: wp.float64,
    ):
        wp.adjoint[x] += D(7.0) * adj

    @wp.kernel
    def k(
        values: wp.array[wp.float64],
        x: wp.array[wp.float64],
        counter: wp.array[int],
        taken: wp.array[int],
        out: wp.array[wp.float64],
    ):
        i = wp.tid()
        y = drawn(counter, taken, values, x[i], i)
        out[i] = y * y

    call = wp.jax_kernel(k, num_outputs=3, launch_dims=3, output_dims={"counter": 1, "taken": 3, "out": 3})
    values, x = jnp.array([2.0, 3.0, 5.0]), jnp.array([1.0, 2.0, 3.0])
    taken = call(values, x)[1]
    by_values, by_x = jax.grad(lambda v, x: call(v, x)[2].sum(), (0, 1))(values, x)
    np.testing.assert_allclose(by_x, 2 * values[taken] * x * 7.0)
    np.testing.assert_allclose(by_values, 0.0)


REFUSED_REPLAYS = {
    "a float result": ("float(old)", "tag[i]", "float(place)", "how they move is not known"),
    "an atomic": ("old", "counter[0]", "float(place)", "updated by an atomic"),
    "one element of all": ("old", "tag[0]", "float(place)", "written more than once"),
    "the counter read": ("old", "tag[i]", "float(counter[0])", "is read here, and written by a function"),
    "overwritten later": ("old", "tag[i]", "float(place)\n    tag[i] = 1", "written more than once"),
}


@pytest.mark.parametrize("name", REFUSED_REPLAYS)
def test_replays_that_cannot_stand_for_the_function(name):
    result, read, use, reason = REFUSED_REPLAYS[name]
    store = read if read.startswith("tag") else "tag[i]"
    typed = "float(" + read + ")" if result.startswith("float") else read
    scope = define(
        "@wp.func\ndef f(counter: wp.array[int], tag: wp.array[int], i: int):\n"
        f"    old = wp.atomic_add(counter, 0, 1)\n    {store} = old\n    return {result}\n\n"
        "@wp.func_replay(f)\ndef replay_f(counter: wp.array[int], tag: wp.array[int], i: int):\n"
        f"    return {typed}\n\n"
        "@wp.kernel\ndef k(x: wp.array[float], counter: wp.array[int], tag: wp.array[int], out: wp.array[float]):\n"
        f"    i = wp.tid()\n    place = f(counter, tag, i)\n    out[i] = x[i] * {use}\n"
    )
    call = wp.jax_kernel(scope["k"], num_outputs=3, launch_dims=4, output_dims={"counter": 1, "tag": 4, "out": 4})
    x = jnp.ones(4, jnp.float32)
    call(x)
    with pytest.raises(DifferentiationError, match=reason):
        jax.grad(lambda x: call(x)[2].sum())(x)


ORDERS = {
    "an index": "out[old] = x[i]",
    "a factor": "out[i] = x[i] * wp.float64(float(old))",
    "a condition": "if old % 2 == 0:\n        out[i] = x[i]",
    "a bound": "v = x[i]\n    for _ in range(old):\n        v = wp.sin(v)\n    out[i] = v",
    "through memory": "tag[i] = old\n    out[tag[i]] = x[i]",
    "an index of a load": "out[i] = x[old]",
    "an element that is cleared": "if old == 1:\n        out[i] = 0.0\n    else:\n        out[i] = x[0]",
}


@pytest.mark.parametrize("name", ORDERS)
def test_what_depends_on_the_order_of_threads_is_recorded(name):
    """Without a replay: against the same kernel, given what the counter has handed out."""
    text = (
        "@wp.kernel\ndef k(x: wp.array[wp.float64], given: wp.array[int], counter: wp.array[int], tag: wp.array[int], "
        "seen: wp.array[int], out: wp.array[wp.float64]):\n    i = wp.tid()\n    old = {old}\n    seen[i] = old\n"
        f"    {ORDERS[name]}\n"
    )
    dims = {"counter": 1, "tag": 4, "seen": 4, "out": 4}
    recorded, replayed = (
        wp.jax_kernel(define(text.format(old=old))["k"], num_outputs=4, launch_dims=4, output_dims=dims)
        for old in ("wp.atomic_add(counter, 0, 1)", "given[i]")
    )
    x, w, none = jnp.array([0.3, -0.7, 1.1, 2.0]), jnp.array([1.0, 10.0, 100.0, 1000.0]), jnp.zeros(4, jnp.int32)

    def loss(x, w):
        *_, seen, out = recorded(x, none)
        return out @ w + (out * out) @ w, seen

    (by_x, seen), (moved, along) = jax.grad(loss, has_aux=True)(x, w), jax.jvp(lambda x: loss(x, w), (x,), (x,))[1]
    assert sorted(seen.tolist()) == [0, 1, 2, 3]

    def expected(x, seen):
        out = replayed(x, seen)[3]
        return out @ w + (out * out) @ w

    np.testing.assert_allclose(by_x, jax.grad(expected)(x, seen), rtol=1e-12)
    _, again = loss(x, w)
    if np.array_equal(seen, again):  # as it is on one core
        np.testing.assert_allclose(moved, jax.grad(expected)(x, seen) @ x, rtol=1e-12)
    assert along.dtype == jax.dtypes.float0


def test_an_order_that_does_not_touch_what_moves():
    @wp.kernel
    def k(x: wp.array[wp.float64], counter: wp.array[int], hits: wp.array[int], out: wp.array[wp.float64]):
        i = wp.tid()
        if x[i] > D(0.0):
            hits[wp.atomic_add(counter, 0, 1)] = i
        out[i] = x[i] * x[i]

    dims = {"counter": 1, "hits": 3, "out": 3}
    call = wp.jax_kernel(k, num_outputs=3, launch_dims=3, output_dims=dims)
    assert jax.grad(lambda x: call(x)[2].sum())(jnp.array([1.0, -2.0, 3.0])).tolist() == [2.0, -4.0, 6.0]


@wp.func
def several(x: D, v: wp.vec2d, k: int):
    return x * v[0] * v[1], v / x, k


@wp.func_grad(several)
def adj_several(x: D, v: wp.vec2d, k: int, adj_a: D, adj_w: wp.vec2d, adj_k: int):
    zero = D(0.0)
    s = -(adj_w[0] * v[0] + adj_w[1] * v[1]) / (x * x)
    if v[0] < v[1]:
        if k > 1:
            wp.adjoint[x] += s
        else:
            t = wp.where(k == 1, s, zero) - wp.where(k != 1, -s, zero)
            wp.adjoint[x] += t
        wp.adjoint[x] += D(wp.float32(0.0)) * adj_a + adj_a * v[0] * v[1]
    else:
        wp.adjoint[x] += s + adj_a * v[0] * v[1]
    wp.adjoint[v] += wp.vec2d(adj_a * x * v[1], adj_a * x * v[0]) + adj_w * (D(1.0) / x)


def test_a_rule_of_several_results_is_transposed():
    def kernel_of(f):
        @wp.kernel
        def kernel(x: wp.array[D], v: wp.array[wp.vec2d], a: wp.array[D], w: wp.array[wp.vec2d]):
            i = wp.tid()
            p, q, _k = f(x[i] * x[i], x[i] * v[i], i)
            a[i] = p
            w[i] = q * p

        return wp.jax_kernel(kernel, num_outputs=2)

    @wp.func
    def plain(x: D, v: wp.vec2d, k: int):
        return x * v[0] * v[1], v / x, k

    x, v, t, u = random(N), random(N, 2), random(N), random(N, 2)
    results = []
    for f in (several, plain):
        run = kernel_of(f)

        def loss(x, v, run=run):
            a, w = run(x, v)
            return jnp.sum(a * jnp.arange(1.0, N + 1.0)) + jnp.sum(w * w)

        first, second = jax.grad(loss, (0, 1)), jax.jit(jax.hessian(loss, (0, 1)))
        results.append((jax.jvp(loss, (x, v), (t, u)), first(x, v), second(x, v)))
    for ours, theirs in zip(*map(jax.tree.leaves, results), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)


@wp.func
def half_of(n: int, a: wp.array[float], out: wp.array[float]):
    for i in range(n):
        out[i] = 0.5 * a[i]


@wp.func_grad(half_of)
def adj_half_of(n: int, a: wp.array[float], out: wp.array[float]):
    """Half is taken to be constant."""


@wp.func
def twice_of(s: float, a: wp.array[float], out: wp.array[float]):
    out[0] = s * a[0]


@wp.func_grad(twice_of)
def adj_twice_of(s: float, a: wp.array[float], out: wp.array[float]):
    if not wp.adjoint[a]:
        return
    wp.adjoint[a][0] += 2.0 * wp.adjoint[out][0]


def test_a_rule_that_is_pass_says_that_what_is_written_is_constant():
    @wp.kernel
    def kernel(a: wp.array[float], half: wp.array[float], y: wp.array[float]):
        half_of(2, a, half)
        y[0] = a[0] * half[0]

    a, half, y = (wp.array(v, dtype=float, requires_grad=True) for v in ([3.0, 4.0], [0.0, 0.0], [0.0]))
    with wp.Tape() as tape:
        wp.launch(kernel, 1, [a, half, y])
    tape.backward(grads={y: wp.ones(1)})
    assert (half.list(), y.list(), a.grad.list()) == ([1.5, 2.0], [4.5], [1.5, 0.0])


def test_a_rule_for_written_floats_is_refused_where_a_derivative_is_asked_for():
    @wp.kernel
    def kernel(s: float, a: wp.array[float], out: wp.array[float]):
        twice_of(s, a, out)

    a, out = wp.array([3.0], dtype=float, requires_grad=True), wp.zeros(1, requires_grad=True)
    wp.launch(kernel, 1, [2.0, a, out])
    assert out.list() == [6.0]
    with wp.Tape() as tape:
        wp.launch(kernel, 1, [2.0, a, out])
    with pytest.raises(DifferentiationError, match="twice_of has a func_grad and writes floats to out"):
        tape.backward(grads={out: wp.ones(1)})
    f = wp.jax_kernel(kernel, output_dims=1)
    for by in (0, 1):
        with pytest.raises(DifferentiationError, match="twice_of has a func_grad and writes floats to out"):
            jax.grad(lambda s, a: f(s, a)[0][0], by)(jnp.float32(2.0), jnp.ones(1, jnp.float32))
