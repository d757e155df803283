"""What nobody uses has no part in a derivative: where its slope is infinite, it makes no NaN that JAX would not make.

Each program is run with launches and with JAX's own operations in their place. At zero the root has an infinite slope.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp.types import float64 as F

X = np.array([0.0, 1.0, 4.0])
MODES = {
    "grad": jax.grad,
    "jit": lambda f: jax.jit(jax.grad(f)),
    "forward": jax.jacfwd,
    "reverse over reverse": lambda f: jax.jacrev(jax.grad(f)),
    "forward over reverse": lambda f: jax.jacfwd(jax.grad(jax.checkpoint(f))),
    "reverse over forward": lambda f: jax.jacrev(jax.jacfwd(jax.jit(f))),
}
THIRD = {
    "reverse": lambda f: jax.jacrev(jax.jacrev(jax.grad(f))),
    "mixed": lambda f: jax.jit(jax.jacrev(jax.jacfwd(jax.grad(f)))),
}


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


@wp.kernel
def both(x: wp.array[F], square: wp.array[F], root: wp.array[F]):
    i = wp.tid()
    square[i] = x[i] * x[i] * x[i]
    root[i] = wp.sqrt(x[i])


@wp.kernel
def each(x: wp.array[F], y: wp.array[F], square: wp.array[F], root: wp.array[F]):
    i = wp.tid()
    square[i] = x[i] * x[i] * x[i]
    root[i] = wp.sqrt(y[i])


@wp.kernel
def read_back(x: wp.array[F], square: wp.array[F], kept: wp.array[F]):
    """What is kept in the end is not what was read."""
    i = wp.tid()
    kept[i] = x[i] * x[i]
    square[i] = kept[i] * x[i]
    kept[i] = wp.sqrt(x[i])


@wp.kernel
def looped(x: wp.array[F], root: wp.array2d[F], square: wp.array[F]):
    """Every other element is left as it is."""
    i = wp.tid()
    v = x[i]
    for k in range(2):
        v = v * x[i]
        root[i, k] = root[i, k] * wp.sqrt(x[i])
        if k == 1:
            root[i, 0] = root[i, 1] * x[i]
    square[i] = v


@wp.kernel
def replaced(x: wp.array[F], a: wp.array[F], y: wp.array[F]):
    i = wp.tid()
    y[i] = wp.sqrt(a[i])
    a[i] = x[i] * x[i] * x[i]


def program(x: wp.array[F], square: wp.array[F], root: wp.array[F]):
    wp.launch(both, dim=x.shape, inputs=[x], outputs=[square, root])


LAUNCHES = {
    "kernel": wp.jax_kernel(both, num_outputs=2),
    "callable": wp.jax_callable(program, num_outputs=2),
    "graph": wp.jax_callable(program, num_outputs=2, graph_mode=wp.GraphMode.WARP),
}
call_each = wp.jax_kernel(each, num_outputs=2)
call_read_back = wp.jax_kernel(read_back, num_outputs=2)
call_looped = wp.jax_kernel(looped, num_outputs=2, in_out_argnames=["root"], launch_dims=3, output_dims={"square": 3})
call_replaced = wp.jax_kernel(replaced, num_outputs=2, in_out_argnames=["a"])


def both_by_jax(x):
    return x * x * x, jnp.sqrt(x)


def each_by_jax(x, y):
    return x * x * x, jnp.sqrt(y)


def looped_by_jax(x, root):
    s = jnp.sqrt(x)[:, None]
    root = root * s
    return root.at[:, 0].set(root[:, 1] * x), x * x * x


def one(both, each):
    return lambda x: both(x)[0].sum()


def chained(both, each):
    """The second launch's root is not used, so the first one's is not either."""

    def f(x):
        square, root = both(x)
        return each(square, root)[0].sum()

    return f


def half_used(both, each):
    """The root is used where a square is not."""

    def f(x):
        square, root = both(x)
        _, again = both(square + 1.0)
        return (again * jax.lax.stop_gradient(root)).sum()

    return f


def scanned(both, each):
    def f(x):
        def step(v, _):
            square, root = both(v)
            return square, root

        return jax.lax.scan(step, x, length=2)[0].sum()

    return f


def mapped(both, each):
    return lambda x: jax.vmap(both)(jnp.stack([x, x + 1.0]))[0].sum()


def inner_gradient(both, each):
    """Of a gradient by two arguments one is used."""

    def f(x):
        by_x, _ = jax.grad(lambda x, y: sum(r.sum() for r in each(x, y)), (0, 1))(x, x)
        return by_x.sum()

    return f


def inner_gradients_apart(both, each):
    """Both are used, one after an infinite slope that has no part in the other."""

    def f(x):
        root = both(x)[1]
        by_x, _ = jax.grad(lambda x, y: sum(r.sum() for r in each(x, y)), (0, 1))(x, root + 1.0)
        return by_x.sum()

    return f


PROGRAMS = (one, chained, half_used, scanned, mapped, inner_gradient, inner_gradients_apart)


def check(found, expected):
    """Where JAX has a number, that number."""
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        known = ~np.isnan(b)
        np.testing.assert_allclose(np.asarray(a)[known], np.asarray(b)[known], rtol=1e-12)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_programs_give_what_jax_gives(program, mode):
    derive = MODES[mode]
    expected = derive(program(both_by_jax, each_by_jax))(X)
    assert not np.isnan(expected).all()
    check(derive(program(LAUNCHES["kernel"], call_each))(X), expected)


@pytest.mark.parametrize("mode", THIRD)
def test_third_derivatives(mode):
    derive = THIRD[mode]
    check(derive(one(LAUNCHES["kernel"], call_each))(X), derive(one(both_by_jax, each_by_jax))(X))


@pytest.mark.parametrize("mode", ["grad", "forward", "reverse over reverse"])
@pytest.mark.parametrize("kind", ["callable", "graph"])
def test_callables(kind, mode):
    derive = MODES[mode]
    check(derive(chained(LAUNCHES[kind], call_each))(X), derive(chained(both_by_jax, each_by_jax))(X))


@pytest.mark.parametrize("kind", LAUNCHES)
def test_values_beside_a_loss(kind):
    def loss(both):
        def f(x):
            square, root = both(x)
            return square.sum(), root

        return f

    found, expected = (jax.grad(loss(f), has_aux=True)(X) for f in (LAUNCHES[kind], both_by_jax))
    check(found, expected)
    found, expected = (
        jax.vmap(jax.jit(jax.value_and_grad(loss(f), has_aux=True)))(np.stack([X, X]))
        for f in (LAUNCHES[kind], both_by_jax)
    )
    check(found, expected)


@pytest.mark.parametrize("mode", MODES)
def test_a_result_that_the_kernel_reads_back(mode):
    found = MODES[mode](lambda x: call_read_back(x)[0].sum())(X)
    check(found, MODES[mode](lambda x: (x * x * x).sum())(X))


@pytest.mark.parametrize("mode", MODES)
def test_an_array_that_is_updated_and_left(mode):
    """By the array, too: zeros, not NaN."""
    root = np.ones((3, 2))
    found, expected = (MODES[mode](lambda x, f=f: f(x, root)[1].sum())(X) for f in (call_looped, looped_by_jax))
    check(found, expected)
    found = jax.grad(lambda root: call_looped(X, root)[1].sum())(root)
    np.testing.assert_array_equal(found, 0.0)


@pytest.mark.parametrize("mode", MODES)
def test_what_an_array_held_before_does_not_move(mode):
    """Forward: where no tangent comes in, there is none of what is loaded before the first store."""
    a = np.zeros(3)
    found = MODES[mode](lambda x: sum(r.sum() for r in call_replaced(x, a)))(X)
    check(found, MODES[mode](lambda x: (x * x * x).sum())(X))


@wp.kernel
def half(x: wp.array[F], y: wp.array[F]):
    i = wp.tid()
    y[i] = F(0.5) * x[i]


def two(x: wp.array[F], y: wp.array[F], a: wp.array[F], b: wp.array[F]):
    wp.launch(half, dim=x.shape, inputs=[x], outputs=[a])
    wp.launch(half, dim=y.shape, inputs=[y], outputs=[b])


@pytest.mark.parametrize("mode", ["JAX", "WARP"])
def test_what_a_callable_does_not_move(mode):
    call = wp.jax_callable(two, num_outputs=2, graph_mode=wp.GraphMode[mode])
    a, moved = jax.jvp(lambda x: sum(jnp.sqrt(r) for r in call(x, np.zeros(3))), (X + 2.0,), (np.ones(3),))
    np.testing.assert_allclose(moved, 0.25 / a, rtol=1e-12)


def test_gradients_by_what_nothing_depends_on_are_not_launched():
    """A symbolic zero stays one: there is no reverse sweep of `each` for y."""

    def f(x, y):
        square, _ = call_each(x, y)
        return square.sum()

    text = str(jax.make_jaxpr(jax.grad(f, 1))(X, X))
    assert "each_jvp_vjp" not in text
    assert "each_jvp_vjp" in str(jax.make_jaxpr(jax.grad(f, 0))(X, X))


def test_tapes():
    x = wp.array(X, requires_grad=True)
    square, root = wp.zeros(3, dtype=F, requires_grad=True), wp.zeros(3, dtype=F, requires_grad=True)
    again, unused = wp.zeros(3, dtype=F, requires_grad=True), wp.zeros(3, dtype=F)
    tape = wp.Tape()
    with tape:
        wp.launch(both, dim=3, inputs=[x], outputs=[square, root])
        wp.launch(each, dim=3, inputs=[square, root], outputs=[again, unused])
    tape.backward(grads={again: wp.array(np.ones(3))})
    np.testing.assert_allclose(x.grad.numpy(), 9 * X**8)


def test_tapes_that_use_an_array_again():
    """What was overwritten has no cotangent, whatever the array had later."""
    x = wp.array(X, requires_grad=True)
    square, root = wp.zeros(3, dtype=F, requires_grad=True), wp.zeros(3, dtype=F, requires_grad=True)
    tape = wp.Tape()
    with tape:
        wp.launch(both, dim=3, inputs=[x], outputs=[root, square])  # exchanged: both are overwritten
        wp.launch(both, dim=3, inputs=[x], outputs=[square, root])
    tape.backward(grads={square: wp.array(np.ones(3))})
    np.testing.assert_allclose(x.grad.numpy(), 3 * X**2)


def test_launches_with_adjoints():
    x = wp.array(X, requires_grad=True)
    square, root = wp.zeros(3, dtype=F, requires_grad=True), wp.zeros(3, dtype=F)
    square.grad.fill_(1.0)
    for adjoint_of_root in (None, wp.zeros(3, dtype=F)):
        x.grad.zero_()
        wp.launch(
            both, dim=3, inputs=[x], outputs=[square, root],
            adj_inputs=[x.grad], adj_outputs=[square.grad, adjoint_of_root], adjoint=True,
        )  # fmt: skip
        np.testing.assert_allclose(x.grad.numpy(), 3 * X**2)
