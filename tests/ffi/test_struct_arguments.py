"""Structs as arguments and results of calls, under the transformations of JAX, and outside of it."""

from __future__ import annotations

import collections
import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

import jaxwarp as wp
from jaxwarp.errors import KernelTypeError, KernelValueError


@wp.struct
class Law:
    stiffness: wp.float32
    rest: wp.vec3


@wp.struct
class State:
    x: wp.array[wp.vec3]
    v: wp.array[wp.vec3]
    dt: float
    law: Law


@wp.kernel
def step(s: State):
    i = wp.tid()
    s.v[i] = s.v[i] - (s.x[i] - s.law.rest) * s.law.stiffness * s.dt
    s.x[i] = s.x[i] + s.v[i] * s.dt


@wp.kernel
def energy(s: State, out: wp.array[float]):
    i = wp.tid()
    d = s.x[i] - s.law.rest
    out[i] = 0.5 * s.law.stiffness * wp.dot(d, d) + 0.5 * wp.dot(s.v[i], s.v[i])


advance = wp.jax_kernel(step, num_outputs=1, in_out_argnames=["s"])
energies = wp.jax_kernel(energy)


def state(n: int = 4, seed: int = 0) -> State:
    rng = np.random.default_rng(seed)
    x, v = (jnp.asarray(rng.normal(size=(n, 3)), jnp.float32) for _ in range(2))
    return State(x, v, 0.1, Law(jnp.float32(2.0), jnp.asarray([0.1, 0.2, 0.3])))


@jax.jit
def advanced(s: State) -> State:
    v = s.v - (s.x - s.law.rest) * s.law.stiffness * s.dt
    return State(s.x + v * s.dt, v, s.dt, s.law)


def energies_of(s: State) -> Any:
    d = s.x - s.law.rest
    return 0.5 * s.law.stiffness * (d * d).sum(-1) + 0.5 * (s.v * s.v).sum(-1)


def loss(s: State) -> Any:
    (after,) = advance(s)
    (found,) = energies(after)
    return jnp.sum(jnp.sin(found))


@jax.jit
def loss_of(s: State) -> Any:
    return jnp.sum(jnp.sin(energies_of(advanced(s))))


def assert_close(got: Any, expected: Any, rtol: float = 1e-5) -> None:
    assert jax.tree.structure(got) == jax.tree.structure(expected)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-5), got, expected)


def test_a_struct_comes_back_as_one():
    s = state()
    for call in (advance, jax.jit(advance)):
        (after,) = call(s)
        assert type(after) is State
        assert type(after.law) is Law
        assert_close(after, advanced(s))


def test_what_a_call_does_not_update_stays_what_it_was():
    s = state()
    (after,) = advance(s)
    assert after.dt is s.dt
    assert after.law.rest is s.law.rest


def test_gradients_are_structs():
    s = jax.tree.map(jnp.asarray, state())
    for got in (jax.grad(loss)(s), jax.jit(jax.grad(loss))(s)):
        assert_close(got, jax.grad(loss_of)(s), 1e-4)
    tangent = jax.tree.map(lambda x: jnp.cos(3.0 * x), s)
    assert_close(jax.jvp(loss, (s,), (tangent,)), jax.jvp(loss_of, (s,), (tangent,)), 1e-4)
    got = jax.jvp(jax.grad(loss), (s,), (tangent,))
    assert_close(got, jax.jvp(jax.grad(loss_of), (s,), (tangent,)), 1e-3)
    assert_close(jax.vjp(advance, s)[1]([s]), jax.vjp(lambda s: [advanced(s)], s)[1]([s]), 1e-4)


@pytest.mark.parametrize(
    "axes",
    [
        0,
        State(x=0, v=0, dt=None, law=None),
        State(x=0, v=None, dt=0, law=Law(stiffness=0, rest=None)),
        State(x=1, v=2, dt=None, law=None),
    ],
    ids=repr,
)
def test_batches(axes):
    s = state()
    whole = axes if isinstance(axes, State) else State(0, 0, 0, Law(0, 0))
    law = whole.law if isinstance(whole.law, Law) else Law(None, None)
    whole = [whole.x, whole.v, whole.dt, law.stiffness, law.rest]
    leaves, structure = jax.tree.flatten(s)
    many = [
        leaf if axis is None else jnp.stack([jnp.asarray(leaf) * k for k in (1.0, 2.0, 3.0)], axis)
        for leaf, axis in zip(leaves, whole, strict=True)
    ]
    batch = jax.tree.unflatten(structure, many)
    assert_close(jax.vmap(loss, in_axes=(axes,))(batch), jax.vmap(loss_of, in_axes=(axes,))(batch), 1e-4)
    mapped, expected = (jax.vmap(jax.grad(f, argnums=0), in_axes=(axes,)) for f in (loss, loss_of))
    batch = jax.tree.map(jnp.asarray, batch)
    assert_close(mapped(batch), expected(batch), 1e-3)


def test_carried_by_scans():
    s = jax.tree.map(jnp.asarray, state())

    def run(step: Any, s: State) -> Any:
        return jax.lax.scan(lambda s, _: (step(s), s.x[0]), s, length=5)

    got, expected = (jax.jit(lambda s, f=f: run(f, s))(s) for f in (lambda s: advance(s)[0], advanced))
    assert_close(got, expected)
    grads = [jax.grad(lambda s, f=f: loss_of(run(f, s)[0]))(s) for f in (lambda s: advance(s)[0], advanced)]
    assert_close(*grads, rtol=1e-3)


def test_exported_and_read_again():
    s = jax.tree.map(jnp.asarray, state())
    n = jax.export.symbolic_shape("n")[0]
    shapes = jax.tree.map(lambda x: jax.ShapeDtypeStruct((n, 3) if x.ndim == 2 else x.shape, x.dtype), s)
    exported = jax.export.export(jax.jit(advance), disabled_checks=wp.export_checks())(shapes)
    (after,) = jax.export.deserialize(exported.serialize()).call(s)
    assert_close(after, advanced(s))


def test_sharded():
    devices = jax.devices()[:2]
    if len(devices) < 2:
        pytest.skip("needs two devices")
    mesh, s = Mesh(devices, "i"), state(6)
    specs = State(x=P("i"), v=P("i"), dt=P(), law=Law(stiffness=P(), rest=P()))
    placed = jax.tree.map(lambda x, p: jax.device_put(x, NamedSharding(mesh, p)), s, specs)
    call = jax.shard_map(lambda s: advance(s)[0], mesh=mesh, in_specs=(specs,), out_specs=specs)
    assert_close(jax.jit(call)(placed), advanced(s))


def test_donated():
    s = jax.tree.map(jnp.array, state())
    expected, pointer = jax.tree.map(jnp.array, advanced(s)), s.x.unsafe_buffer_pointer()
    after = jax.jit(lambda s: advance(s)[0], donate_argnums=0)(s)
    assert s.x.is_deleted()
    assert after.x.unsafe_buffer_pointer() == pointer
    assert_close(after, expected)


def test_outputs_that_are_structs():
    @wp.struct
    class Both:
        total: wp.array[float]
        product: wp.array[wp.vec2]

    @wp.kernel
    def k(a: wp.array[float], b: wp.array[float], n: wp.array[int], out: Both):
        i = wp.tid()
        n[i] = i
        out.total[i] = a[i] + b[i]
        out.product[i] = wp.vec2(a[i] * b[i], 1.0)

    a, b = jnp.arange(3.0), jnp.ones(3)
    for call in (wp.jax_kernel(k, num_outputs=2), jax.jit(wp.jax_kernel(k, num_outputs=2))):
        n, both = call(a, b)
        assert type(both) is Both
        np.testing.assert_array_equal(n, [0, 1, 2])
        np.testing.assert_array_equal(both.total, [1.0, 2.0, 3.0])
        np.testing.assert_array_equal(both.product, [[0.0, 1.0], [1.0, 1.0], [2.0, 1.0]])
    _, both = wp.jax_kernel(k, num_outputs=2, output_dims={"n": 5, "out": 4})(a, b)
    assert (both.total.shape, both.product.shape) == ((4,), (4, 2))
    with pytest.raises(KernelTypeError, match=r"argument 's.dt' is an output argument: expected an array, got float32"):
        wp.jax_kernel(step)


@dataclasses.dataclass
class Dataclass:
    stiffness: Any
    rest: Any
    more: str = "more"


Named = collections.namedtuple("Named", "rest stiffness")


class Module:
    """As equinox's, an object with attributes."""

    def __init__(self, stiffness: Any, rest: Any):
        self._stiffness = stiffness
        self.rest = rest

    @property
    def stiffness(self) -> Any:
        return self._stiffness


@pytest.mark.parametrize(
    "make",
    [
        Dataclass,
        lambda stiffness, rest: Named(stiffness=stiffness, rest=rest),
        Module,
        lambda stiffness, rest: {"rest": rest, "stiffness": stiffness},
    ],
)
def test_anything_with_the_fields_is_taken(make):
    s = state()
    expected = energies_of(s)
    law = make(s.law.stiffness, s.law.rest)
    np.testing.assert_allclose(energies({"x": s.x, "v": s.v, "dt": 0.1, "law": law})[0], expected, rtol=1e-5)
    arrays = {"x": s.x, "v": s.v}
    found = jax.jit(lambda arrays: energies(Dataclass3(**arrays, dt=0.1, law=law))[0])(arrays)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@dataclasses.dataclass
class Dataclass3:
    x: Any
    v: Any
    dt: Any
    law: Any


def test_gradients_of_dictionaries_are_dictionaries():
    s = jax.tree.map(jnp.asarray, state())
    tree = {"x": s.x, "v": s.v, "dt": s.dt, "law": {"rest": s.law.rest, "stiffness": s.law.stiffness}}
    found = jax.grad(lambda t: energies(t)[0].sum())(tree)
    assert_close(found["law"]["rest"], jax.grad(lambda s: energies_of(s).sum())(s).law.rest, 1e-4)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"x": jnp.ones((4, 2))}, r"kernel energy: argument 's.x': expected float32 of shape \(\?, 3\), got float32"),
        ({"dt": jnp.arange(3)}, r"kernel energy: argument 's.dt': expected float32 of shape \(\), got int32"),
        ({"law": {"rest": (1.0, 2.0, 3.0)}}, r"argument 's.law': expected struct Law, got dict without stiffness"),
        ({"law": 3.0}, r"argument 's.law': expected struct Law, got float without stiffness"),
        ({"law": None}, r"argument 's.law': expected struct Law, got None"),
    ],
)
def test_what_does_not_fit_names_the_argument_and_the_field(change, message):
    s = state()
    tree = {"x": s.x, "v": s.v, "dt": s.dt, "law": s.law} | change
    with pytest.raises(KernelTypeError, match=message) as caught:
        energies(tree)
    assert caught.value.hint


def test_arrays_of_a_struct_may_be_left_out():
    @wp.kernel
    def k(s: State, out: wp.array[float]):
        i = wp.tid()
        out[i] = s.x[i][0]
        if s.v:
            out[i] += s.v[i][0]

    s, call = state(), wp.jax_kernel(k)
    alone = State(x=s.x, law=s.law)
    for f in (call, jax.jit(call)):
        np.testing.assert_array_equal(f(s)[0], s.x[:, 0] + s.v[:, 0])
        np.testing.assert_array_equal(f(alone)[0], s.x[:, 0])
    with pytest.raises(KernelValueError, match=r"s.v is None: it has no elements"):
        energies(alone)


def test_names_are_those_of_the_signature():
    with pytest.raises(KernelTypeError, match=r"kernel energy: expected 1 input \(s\), got 2"):
        energies(state(), 1)
    with pytest.raises(KernelTypeError, match=r"no input is named 't'; the inputs are s"):
        energies(t=state())

    @wp.kernel
    def k(s: State, out: wp.array[float]):
        s.v[0] = wp.vec3()
        out[0] = s.dt

    with pytest.raises(KernelTypeError, match=r"'s.v' is an input, but the kernel writes to it") as caught:
        wp.jax_kernel(k)(state())
    assert caught.value.hint == "update it: num_outputs=2, in_out_argnames=['s']"
    assert_close(advance(s=state())[0], advanced(state()))


def test_a_struct_adds_nothing_to_the_program():
    @wp.kernel
    def apart(
        x: wp.array[wp.vec3], v: wp.array[wp.vec3], dt: float, stiffness: float, rest: wp.vec3, out: wp.array[float]
    ):
        i = wp.tid()
        d = x[i] - rest
        out[i] = 0.5 * stiffness * wp.dot(d, d) + 0.5 * wp.dot(v[i], v[i])

    s = jax.tree.map(jnp.asarray, state())
    together = jax.jit(energies).lower(s).as_text()
    separate = jax.jit(wp.jax_kernel(apart)).lower(*jax.tree.leaves(s)).as_text()
    assert together.count("stablehlo") == separate.count("stablehlo")
    assert len(jax.make_jaxpr(energies)(s).eqns) == 1


# Programs, and outside of JAX


@pytest.mark.parametrize("mode", [wp.GraphMode.JAX, wp.GraphMode.WARP, wp.GraphMode.NONE])
def test_programs(mode):
    def program(s: State, n: int, out: wp.array[float]):
        assert type(s) is State
        for _ in range(n):
            wp.launch(step, dim=len(s.x), inputs=[s])
        wp.launch(energy, dim=len(s.x), inputs=[s], outputs=[out])

    s = state()
    call = wp.jax_callable(program, num_outputs=2, in_out_argnames=["s"], graph_mode=mode, output_dims=4)
    after, out = call(s, 2)
    expected = advanced(advanced(s))
    assert type(after) is State
    assert_close(after, expected)
    np.testing.assert_allclose(out, energies_of(expected), rtol=1e-4)
    after, out = jax.jit(lambda s: call(s, 2))(s)
    np.testing.assert_allclose(out, energies_of(expected), rtol=1e-4)


def test_programs_make_structs_and_may_not_replace_arrays_of_theirs():
    def program(x: wp.array[wp.vec3], rest: wp.vec3, out: wp.array[float]):
        s = State(x=x, v=wp.zeros(len(x), dtype=wp.vec3), dt=0.5, law=Law(1.0, rest))
        wp.launch(energy, dim=len(x), inputs=[s], outputs=[out])

    x = jnp.ones((2, 3))
    (out,) = wp.jax_callable(program, output_dims=2)(x, (1.0, 1.0, 0.0))
    np.testing.assert_array_equal(out, [0.5, 0.5])

    def replaces(s: State):
        s.x = wp.zeros(len(s.x), dtype=wp.vec3)

    with pytest.raises(KernelTypeError, match=r"argument 's.x' has been replaced by another array") as caught:
        wp.jax_callable(replaces, in_out_argnames=["s"])(state())
    assert caught.value.hint == "copy into it: jaxwarp.copy(s.x, array)"


def test_gradients_of_programs():
    def program(s: State, out: wp.array[float]):
        wp.launch(step, dim=len(s.x), inputs=[s])
        wp.launch(energy, dim=len(s.x), inputs=[s], outputs=[out])

    call = wp.jax_callable(program, num_outputs=2, in_out_argnames=["s"], output_dims=4)
    s = jax.tree.map(jnp.asarray, state())
    got = jax.grad(lambda s: jnp.sum(jnp.sin(call(s)[1])))(s)
    assert_close(got, jax.grad(loss_of)(s), 1e-4)


def of_host(s: State, **options: Any) -> State:
    x, v = (wp.array(np.asarray(a), dtype=wp.vec3, **options) for a in (s.x, s.v))
    return State(x, v, s.dt, Law(float(s.law.stiffness), np.asarray(s.law.rest)))


def test_launches_outside_of_jax():
    s = state()
    h, out = of_host(s), wp.zeros(4, dtype=float)
    for _ in range(3):
        wp.launch(step, dim=4, inputs=[h])
        wp.launch(energy, dim=4, inputs=[h], outputs=[out])
    expected = advanced(advanced(advanced(s)))
    np.testing.assert_allclose(h.x.numpy(), expected.x, rtol=1e-5)
    np.testing.assert_allclose(out.numpy(), energies_of(expected), rtol=1e-4)
    step.interpret(h, dim=4)
    np.testing.assert_allclose(h.x.numpy(), advanced(expected).x, rtol=1e-5)
    with pytest.raises(KernelTypeError, match=r"kernel step: argument 's.x' is written by the kernel"):
        wp.launch(step, dim=4, inputs=[s])


def test_tapes():
    s = state()
    h, out = of_host(s, requires_grad=True), wp.zeros(4, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(step, dim=4, inputs=[h])
        wp.launch(energy, dim=4, inputs=[h], outputs=[out])
    tape.backward(grads={out: wp.array(np.ones(4, np.float32))})
    expected = jax.grad(lambda s: energies_of(advanced(s)).sum())(jax.tree.map(jnp.asarray, s))
    np.testing.assert_allclose(h.x.grad.numpy(), expected.x, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(h.v.grad.numpy(), expected.v, rtol=1e-4, atol=1e-5)


def test_adjoint_launches():
    s = state()
    h, out = of_host(s), wp.zeros(4, dtype=float)
    adjoint = State(x=wp.zeros_like(h.x), v=wp.zeros_like(h.v))
    ones = wp.array(np.ones(4, np.float32))
    wp.launch(energy, 4, inputs=[h], outputs=[out], adj_inputs=[adjoint], adj_outputs=[ones], adjoint=True)
    expected = jax.grad(lambda s: energies_of(s).sum())(jax.tree.map(jnp.asarray, s))
    np.testing.assert_allclose(adjoint.x.numpy(), expected.x, rtol=1e-5)


# Arrays of structs


@wp.struct
class Particle:
    x: wp.vec3
    mass: float
    law: Law


@wp.kernel
def pull(ps: wp.array[Particle], dt: float, out: wp.array[Particle]):
    i = wp.tid()
    p = ps[i]
    p.x = p.x - (p.x - p.law.rest) * p.law.stiffness * dt / p.mass
    p.mass += wp.sin(p.mass)
    out[i] = p


@jax.jit
def pull_of(p: Particle, dt: Any) -> Particle:
    x = p.x - (p.x - p.law.rest) * p.law.stiffness * dt / p.mass
    return Particle(x, p.mass + jnp.sin(p.mass), p.law)


pulled = wp.jax_kernel(pull)


def particles(n: int, seed: int = 1) -> Particle:
    rng = np.random.default_rng(seed)
    draw = lambda *shape: jnp.asarray(rng.uniform(0.5, 1.5, (n, *shape)), jnp.float32)  # noqa: E731
    return Particle(draw(3), draw(), Law(draw(), draw(3)))


@given(n=st.integers(1, 20), seed=st.integers(0, 99))
def test_arrays_of_structs(n, seed):
    ps = particles(n, seed)
    (got,) = pulled(ps, 0.5)
    assert_close(got, jax.vmap(pull_of, (0, None))(ps, 0.5))


def test_arrays_of_structs_under_transformations():
    ps = particles(5)

    def total(call: Any) -> Any:
        return lambda ps, dt: sum(jnp.sum(jnp.cos(leaf)) for leaf in jax.tree.leaves(call(ps, dt)))

    mine, theirs = total(lambda ps, dt: pulled(ps, dt)[0]), jax.jit(total(jax.vmap(pull_of, (0, None))))
    assert_close(jax.jit(jax.grad(mine, (0, 1)))(ps, 0.5), jax.grad(theirs, (0, 1))(ps, 0.5), 1e-4)
    tangents = (jax.tree.map(jnp.sin, ps), 1.0)
    got, expected = (jax.jvp(jax.grad(f), (ps, 0.5), tangents) for f in (mine, theirs))
    assert_close(got, expected, 1e-3)
    many = jax.tree.map(lambda x: jnp.stack([x, 2.0 * x]), ps)
    assert_close(jax.vmap(mine, (0, None))(many, 0.5), jax.vmap(theirs, (0, None))(many, 0.5), 1e-4)
    axes = Particle(x=0, mass=None, law=None)
    mixed = Particle(many.x, ps.mass, ps.law)
    assert_close(jax.vmap(mine, (axes, None))(mixed, 0.5), jax.vmap(theirs, (axes, None))(mixed, 0.5), 1e-4)


def test_arrays_of_structs_outside_of_jax():
    ps = jax.tree.map(np.asarray, particles(5))
    out = jax.tree.map(np.zeros_like, ps)
    wp.launch(pull, dim=5, inputs=[ps, 0.5], outputs=[out])
    assert_close(out, jax.vmap(pull_of, (0, None))(ps, 0.5))

    def program(out: wp.array[wp.vec3]):
        wp.zeros(3, dtype=Particle)

    with pytest.raises(KernelTypeError, match=r"struct Particle is no type of numbers") as caught:
        wp.jax_callable(program)(output_dims=3)
    assert "Particle(x=..., mass=..., law=...)" in str(caught.value.hint)


def test_fields_of_arrays_of_structs_have_one_length():
    ps = particles(5)
    ps.law.stiffness = jnp.ones(4)
    with pytest.raises(KernelValueError, match=r"ps.x has \(5,\), ps.law.stiffness \(4,\)"):
        pulled(ps, 0.5)
    with pytest.raises(KernelTypeError, match=r"'ps': expected an array of struct Particle .*, got a JAX array"):
        pulled(ps.x, 0.5)


@wp.struct
class Weighted:
    x: wp.array[float]
    weight: wp.array[float]


@wp.kernel
def halve(of: Weighted):
    i = wp.tid()
    of.x[i] *= 0.5
    if of.weight:
        of.weight[i] = 0.0


def test_no_array_stays_none():
    """An empty one in its place was there for the next kernel, which read outside of it; loops refused it as state."""
    call = wp.jax_kernel(halve, in_out_argnames=["of"], launch_dims=2)
    for weight in (None, jnp.ones(2)):
        of = Weighted(x=jnp.array([4.0, 8.0]), weight=weight)
        for (after,) in (call(of), jax.jit(call)(of)):
            assert jax.tree.structure(after) == jax.tree.structure(of)
        last, _ = jax.lax.scan(lambda of, _: (call(of)[0], None), of, None, 2)
        assert last.x.tolist() == [1.0, 2.0]
        assert last.weight is None if weight is None else not last.weight.any()
