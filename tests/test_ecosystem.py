"""Kernels in programs of other libraries of JAX, where these are installed (`pip install .[ecosystem]`)."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp

sys.path.insert(0, str(Path(__file__).parents[1] / "examples"))


@pytest.fixture(autouse=True)
def as_users_have_it():
    """Libraries promote types, and warn of each other's changes."""
    with jax.numpy_dtype_promotion("standard"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def library(name: str):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip(name)


@wp.kernel
def smooth(u: wp.array[float], weight: float, out: wp.array[float]):
    i = wp.tid()
    n = u.shape[0]
    out[i] = (1.0 - weight) * u[i] + 0.5 * weight * (u[(i + 1) % n] + u[(i + n - 1) % n])


@wp.kernel
def decay(y: wp.array[float], rate: wp.array[float], dy: wp.array[float]):
    i = wp.tid()
    dy[i] = -rate[i] * y[i]


@wp.kernel
def laplace(u: wp.array[float], out: wp.array[float]):
    """With a unit added, on a ring: symmetric, positive definite."""
    i = wp.tid()
    n = u.shape[0]
    out[i] = 3.0 * u[i] - u[(i + 1) % n] - u[(i + n - 1) % n]


def ring(n: int) -> np.ndarray:
    return 3 * np.eye(n) - np.roll(np.eye(n), 1, 0) - np.roll(np.eye(n), -1, 0)


@wp.kernel
def overlaps(x: wp.array2d[float], box: float, energy: wp.array[float]):
    """The energy of soft discs of diameter 1 in a periodic box, at each disc its half."""
    i = wp.tid()
    for j in range(x.shape[0]):
        if j != i:
            across = wp.vec2(x[i, 0] - x[j, 0], x[i, 1] - x[j, 1])
            across = wp.vec2(across[0] - box * wp.round(across[0] / box), across[1] - box * wp.round(across[1] / box))
            depth = wp.max(1.0 - wp.length(across), 0.0)
            energy[i] += 0.25 * depth * depth


jax_smooth = wp.jax_kernel(smooth)


def test_optax_finds_what_a_kernel_was_called_with():
    optax = library("optax")
    u = jax.random.normal(jax.random.key(0), (64,))
    wanted = jax_smooth(u, 0.6)[0]
    optimiser = optax.adam(0.05)

    def loss(weight):
        return jnp.mean((jax_smooth(u, weight)[0] - wanted) ** 2)

    @jax.jit
    def step(_, carry):
        weight, state = carry
        change, state = optimiser.update(jax.grad(loss)(weight), state)
        return optax.apply_updates(weight, change), state

    start = jnp.float32(0.1)
    weight, _ = jax.lax.fori_loop(0, 200, step, (start, optimiser.init(start)))
    assert abs(weight - 0.6) < 1e-3


def test_equinox_has_a_kernel_in_a_module():
    equinox = library("equinox")

    class Smoother(equinox.Module):
        weight: jax.Array
        linear: equinox.nn.Linear

        def __call__(self, u):
            return self.linear(jax_smooth(u, self.weight)[0])

    model = Smoother(jnp.float32(0.5), equinox.nn.Linear(8, 2, key=jax.random.key(1)))
    batch = jax.random.normal(jax.random.key(2), (5, 8))

    @equinox.filter_jit
    @equinox.filter_value_and_grad
    def loss(model, batch):
        return jnp.sum(jax.vmap(model)(batch) ** 2)

    _, slope = loss(model, batch)
    weight = np.asarray(model.linear.weight, np.float64)
    u = np.asarray(batch, np.float64)
    around = 0.5 * (np.roll(u, -1, 1) + np.roll(u, 1, 1))
    out = (0.5 * u + 0.5 * around) @ weight.T + np.asarray(model.linear.bias)
    np.testing.assert_allclose(slope.weight, (2 * out * ((around - u) @ weight.T)).sum(), rtol=1e-4)


def test_flax_has_a_kernel_in_a_module():
    nnx = library("flax.nnx")

    class Smoother(nnx.Module):
        def __init__(self, rngs):
            self.weight = nnx.Param(jnp.float32(0.25))
            self.linear = nnx.Linear(8, 3, rngs=rngs)

        def __call__(self, u):
            return self.linear(jax.vmap(lambda row: jax_smooth(row, self.weight[...])[0])(u))

    model = Smoother(nnx.Rngs(0))
    batch = jax.random.normal(jax.random.key(3), (4, 8))
    slope = nnx.jit(nnx.grad(lambda model: model(batch).sum()))(model)
    u = np.asarray(batch, np.float64)
    change = 0.5 * (np.roll(u, -1, 1) + np.roll(u, 1, 1)) - u
    expected = (change @ np.asarray(model.linear.kernel[...], np.float64)).sum()
    np.testing.assert_allclose(slope["weight"][...], expected, rtol=1e-4)


def test_diffrax_integrates_a_kernel_and_its_gradient():
    diffrax = library("diffrax")
    field = wp.jax_kernel(decay)
    rate = jnp.asarray([0.5, 1.0, 2.0])

    @jax.jit
    def end(rate):
        term = diffrax.ODETerm(lambda t, y, rate: field(y, rate)[0])
        controller = diffrax.PIDController(rtol=1e-6, atol=1e-8)
        solution = diffrax.diffeqsolve(
            term, diffrax.Tsit5(), 0.0, 1.0, 0.1, jnp.ones(3), args=rate, stepsize_controller=controller
        )
        return solution.ys[0]

    np.testing.assert_allclose(end(rate), np.exp(-rate), rtol=1e-5)
    slope = jax.jacrev(end)(rate)
    np.testing.assert_allclose(slope, np.diag(-np.exp(-rate)), atol=1e-5)


def test_lineax_solves_with_a_kernel():
    lineax = library("lineax")
    call = wp.jax_kernel(laplace)
    b = jax.random.normal(jax.random.key(4), (32,))

    @jax.jit
    def solve(b):
        structure = jax.ShapeDtypeStruct(b.shape, b.dtype)
        operator = lineax.FunctionLinearOperator(lambda u: call(u)[0], structure, lineax.positive_semidefinite_tag)
        return lineax.linear_solve(operator, b, lineax.CG(rtol=1e-6, atol=1e-6)).value

    np.testing.assert_allclose(solve(b), np.linalg.solve(ring(32), np.asarray(b, np.float64)), atol=1e-4)
    slope = jax.grad(lambda b: solve(b)[3])(b)
    np.testing.assert_allclose(slope, np.linalg.inv(ring(32))[3], atol=1e-4)


def test_lineax_finds_the_matrix_of_a_kernel():
    lineax = library("lineax")
    call = wp.jax_kernel(laplace)
    operator = lineax.FunctionLinearOperator(lambda u: call(u)[0], jax.ShapeDtypeStruct((6,), jnp.float32))
    np.testing.assert_array_equal(operator.as_matrix(), ring(6))
    np.testing.assert_array_equal(operator.T.as_matrix(), ring(6).T)


def test_jax_md_moves_particles_by_the_energy_of_a_kernel():
    jax_md = library("jax_md")
    count, box = 24, 4.0
    call = wp.jax_kernel(overlaps, launch_dims=count, output_dims=count)
    displacement, shift = jax_md.space.periodic(box)
    x = jax.random.uniform(jax.random.key(0), (count, 2), maxval=box)

    def ours(x, **_):
        return call(x, box)[0].sum()

    def moved(energy):
        init, step = jax_md.simulate.nve(energy, shift, 1e-2)
        start = init(jax.random.key(1), x, kT=0.1)
        return jax.jit(lambda s: jax.lax.fori_loop(0, 100, lambda _, s: step(s), s))(start).position

    theirs = jax_md.energy.soft_sphere_pair(displacement, alpha=2.0)
    np.testing.assert_allclose(ours(x), theirs(x), rtol=1e-5)
    np.testing.assert_allclose(jax_md.quantity.force(ours)(x), jax_md.quantity.force(theirs)(x), atol=1e-5)
    np.testing.assert_allclose(moved(ours), moved(theirs), atol=1e-3)


def test_a_fluid_has_the_forces_of_jax_md():
    jax_md = library("jax_md")
    import lennard_jones

    fluid, box = lennard_jones.crystal(4, 0.82, 1.0)
    x = fluid.x + 0.1 * fluid.v

    def of_pair(distance, **_):
        is_pair = (distance > 0.0) & (distance < lennard_jones.CUTOFF)
        return jnp.where(is_pair, jax_md.energy.lennard_jones(jnp.where(is_pair, distance, 1.0)), 0.0)

    theirs = jax_md.smap.pair(of_pair, jax_md.space.metric(jax_md.space.periodic(box)[0]))
    near = lennard_jones.neighbors(x, box)
    assert not near.overflow
    energy, push = jax.value_and_grad(lennard_jones.potential)(x, near.indices, box)
    expected, their_push = jax.value_and_grad(theirs)(x)
    np.testing.assert_allclose(energy, expected, rtol=1e-4)
    np.testing.assert_allclose(push, their_push, atol=1e-4 * np.abs(their_push).max())


def test_jaxtyping_checks_functions_around_calls():
    jaxtyping = library("jaxtyping")
    beartype = library("beartype")

    def plain(u):
        return jax_smooth(u, 0.5)[0]

    # As decorated text would have it, which names a library that may not be there.
    plain.__annotations__ = dict.fromkeys(("u", "return"), jaxtyping.Float[jaxtyping.Array, " n"])
    checked = jaxtyping.jaxtyped(plain, typechecker=beartype.beartype)
    assert jax.jit(checked)(jnp.ones(4)).shape == (4,)
    with pytest.raises(jaxtyping.TypeCheckError):
        checked(jnp.ones((2, 2)))


def test_typed_keys_and_old_ones():
    @wp.kernel
    def draw(key: wp.PRNGKey, out: wp.array[float]):
        i = wp.tid()
        out[i] = wp.randf(wp.rand_init(key, i))

    call = wp.jax_kernel(draw, launch_dims=8)
    typed = jax.jit(lambda key: call(key)[0])(jax.random.key(7))
    np.testing.assert_array_equal(typed, call(jax.random.PRNGKey(7))[0])
    batch = jax.vmap(lambda key: call(key)[0])(jax.random.split(jax.random.key(7), 3))
    assert len({tuple(row) for row in np.asarray(batch).tolist()}) == 3


def test_jet_has_derivatives_of_higher_order():
    from jax.experimental.jet import jet

    @wp.kernel
    def sine(x: wp.array[float], y: wp.array[float]):
        i = wp.tid()
        y[i] = wp.sin(x[i])

    x = jnp.asarray([0.3, 1.1])
    one, zero = jnp.ones(2), jnp.zeros(2)
    y, (first, second, third) = jet(lambda x: wp.jax_kernel(sine)(x)[0], (x,), ((one, zero, zero),))
    for found, expected in ((y, np.sin(x)), (first, np.cos(x)), (second, -np.sin(x)), (third, -np.cos(x))):
        np.testing.assert_allclose(found, expected, rtol=1e-5)
