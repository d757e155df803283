"""`ref[...]`: arguments that a function advances, wherever its calls stand."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from language import define, run

import jaxwarp as wp
from jaxwarp.errors import KernelTypeError


@wp.func
def advance(s: wp.ref[wp.uint32]):
    s = s * wp.uint32(747796405) + wp.uint32(1)
    return s  # noqa: RET504  (the caller sees both)


@wp.func
def below(s: wp.ref[wp.uint32], n: int):
    """Draws until a multiple of 5, at most n times: leaves s on every way out."""
    for i in range(n):
        if advance(s) % wp.uint32(5) == wp.uint32(0):
            return i
    s = wp.uint32(7)
    return -1


class Drawn:
    """The same in Python."""

    def __init__(self, s):
        self.s = s

    def advance(self):
        self.s = (self.s * 747796405 + 1) % 2**32
        return self.s

    def below(self, n):
        for i in range(n):
            if self.advance() % 5 == 0:
                return i
        self.s = 7
        return -1


@wp.kernel
def everywhere(n: int, out: wp.array[wp.uint32], count: wp.array[int]):
    i = wp.tid()
    s = wp.uint32(i)
    for _ in range(n):
        advance(s)
    if i > 2 and advance(s) % wp.uint32(2) == wp.uint32(0):
        advance(s)
    a = advance(s) if i % 2 == 0 else wp.uint32(0)
    while advance(s) % wp.uint32(3) != wp.uint32(0):
        count[i] += 1
    b = wp.uint32(0) < advance(s) < wp.uint32(2**31) or advance(s) == a
    out[i] = s
    advance(out[i])
    count[i] = count[i] * 100 + below(out[i], 3)
    if b:
        count[i] += 10000


def expected(i: int, n: int) -> tuple[int, int]:
    d, count = Drawn(i), 0
    for _ in range(n):
        d.advance()
    if i > 2 and d.advance() % 2 == 0:
        d.advance()
    a = d.advance() if i % 2 == 0 else 0
    while d.advance() % 3 != 0:
        count += 1
    b = 0 < d.advance() < 2**31 or d.advance() == a
    d.advance()
    return count * 100 + d.below(3) + 10000 * b, d.s


def test_a_variable_is_advanced_wherever_the_call_stands():
    _, out, count = run(everywhere, 16, 5, np.zeros(16, np.uint32), np.zeros(16, np.int32))
    assert [(int(c), int(s)) for c, s in zip(count, out, strict=True)] == [expected(i, 5) for i in range(16)]


@wp.func
def bump(v: wp.ref[float], by: float):
    v = v + by * by


@wp.func
def swap(a: wp.ref[wp.vec2], b: wp.ref[wp.vec2]):
    a, b = b, a


@wp.kernel
def components(x: wp.array[wp.vec2], by: float, out: wp.array[wp.vec2]):
    i = wp.tid()
    v, w = x[i], wp.vec2(by, 1.0)
    bump(v.x, by)
    bump(v[1], 2.0 * by)
    swap(v, w)
    out[i] = v - w
    bump(out[i][0], by)


def test_components_elements_and_derivatives():
    x = jnp.array([[1.0, 2.0], [3.0, 4.0]])
    f = wp.jax_kernel(components)
    reference = lambda x, by: jnp.stack([by - x[:, 0], 1.0 - x[:, 1] - 4 * by**2], -1)  # noqa: E731
    np.testing.assert_allclose(f(x, 1.5)[0], reference(x, 1.5))
    for wrap in (jax.jacfwd, jax.jacrev):
        got = wrap(lambda x, by: f(x, by)[0], argnums=(0, 1))(x, jnp.float32(1.5))
        want = wrap(reference, argnums=(0, 1))(x, jnp.float32(1.5))
        for a, b in zip(got, want, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6)
    second = jax.grad(jax.grad(lambda by: f(x, by)[0].sum()))(jnp.float32(1.5))
    np.testing.assert_allclose(second, -16.0)


@wp.struct
class Walker:
    rng: wp.uint32
    x: float


@wp.func
def walk(w: wp.ref[Walker], by: wp.ref[float]):
    w.x = w.x + by * wp.randf(w.rng)
    by = 2.0 * by


@wp.kernel
def walkers(a: wp.array[Walker], out: wp.array[float]):
    i = wp.tid()
    by, w = 1.0, a[i]
    walk(w, by)
    walk(a[i], by)
    walk(a[i], w.x)
    out[i] = w.x + wp.randf(a[i].rng)


def test_structs_their_fields_and_those_in_arrays():
    a = Walker(rng=jnp.arange(3, dtype="uint32"), x=jnp.zeros(3))
    after, out = wp.jax_kernel(walkers, in_out_argnames=["a"], num_outputs=2)(a)

    @wp.kernel
    def drawn(out: wp.array2d[float]):
        i = wp.tid()
        state = wp.uint32(i)
        for j in range(3):
            out[i, j] = wp.randf(state)

    r = wp.jax_kernel(drawn, launch_dims=3, output_dims=(3, 3))()[0]
    np.testing.assert_allclose(after.x, 2 * r[:, 0] + r[:, 0] * r[:, 1], rtol=1e-6)
    np.testing.assert_allclose(out, 2 * r[:, 0] + r[:, 2], rtol=1e-6)


BEFORE = """
SEED = wp.uint32(5)

@wp.struct
class P:
    x: float

@wp.func
def take(s: wp.ref[float], n: int):
    s = s + 1.0
    return s

@wp.func
def take_from(s: wp.ref[float], a: wp.array[float]):
    a[0] = 1.0
    s = 2.0

@wp.func
def two(s: wp.ref[float], t: wp.ref[float]):
    s = t

@wp.func
def both(s: wp.ref[P], t: wp.ref[float]):
    s.x = t

@wp.func
def other(s: wp.ref[float]):
    s = wp.vec2(1.0, 2.0)

@wp.func
def called(f: Callable, s: wp.ref[float]):
    for _ in range(30):
        f(s, 1)

@wp.kernel
def k(x: wp.array[float], n: int):
    i = wp.tid()
    s = x[i]
"""

WRONG = {
    "take(s + 1.0, 1)": "take advances its argument s, got float32",
    "take(1.5, 1)": "take advances its argument s, got the constant 1.5",
    "take(float(SEED), 1)": None,  # a value of its own, which nobody sees afterwards
    "take(n, 1)": "take: argument s is int32, expected float32",
    "take_from(x[i], x)": "take_from: the argument s is an element of the argument a",
    "two(s, s)": "two: the arguments s and t may be one variable, and it advances both",
    "two(x[0], x[i])": "two: the arguments s and t may be one variable, and it advances both",
    "p = P()\n    both(p, p.x)": "both: the arguments s and t may be one variable, and it advances both",
    "other(s)": "other leaves vec2[float32] in its argument s, which was float32",
    "wp.grad(take)(s, 1)": "grad(take): take advances its argument s",
    "called(take, s)": None,
    "for _ in range(30):\n        f = take\n        f(s, 1)": (
        "s is advanced in this loop by a function that has no fixed name"
    ),
}


@pytest.mark.parametrize("text", WRONG)
def test_what_cannot_be_advanced(text):
    source = "from collections.abc import Callable\n" + BEFORE + "    " + text + "\n    x[i] = s\n"
    k = define(source)["k"]
    if WRONG[text] is None:
        k.specialize()
        return
    with pytest.raises(KernelTypeError) as caught:
        k.specialize()
    assert caught.value.message == WRONG[text]


@pytest.mark.parametrize(
    ("text", "message"),
    {
        "@wp.kernel\ndef k(s: wp.ref[float]):\n    s = 1.0\n": "an argument of a kernel cannot be a ref[...]",
        "@wp.func\ndef f(s: wp.ref[float] = 1.0):\n    s = 1.0\n": "a ref[...] has no default value",
        "@wp.func\ndef f(s: wp.array[wp.ref[float]]):\n    s[0] = 1.0\n": None,
        "@wp.func\ndef f(s: wp.ref[float]):\n    s = 1.0\n\n@wp.func_replay(f)\ndef g(s: float):\n    pass\n": (
            "@func_replay(f): f advances its argument s"
        ),
    }.items(),
)
def test_where_a_ref_cannot_stand(text, message):
    with pytest.raises(KernelTypeError) as caught:
        define(text)
    assert message is None or message in caught.value.message


@wp.func
def raised(x: wp.ref[int]):
    x = x + 1
    return 10


@wp.func
def overwrites(a: wp.array[int], v: wp.ref[wp.vec2i]):
    a[0] = 100
    v = v + wp.vec2i(4, 4)
    return 2


@wp.kernel
def augments_what_the_value_changes(own: wp.array[int], out: wp.array[int]):
    x = 1
    x += raised(x)
    v = wp.vec2i(1, 2)
    v[0] += overwrites(own, v)
    out[0], out[1], out[2] = x, v[0], v[1]
    own[0] = 7
    own[0] *= overwrites(own, v)


def test_an_augmented_assignment_reads_before_its_value_is_computed():
    """As in Python: `x += f()` is `x = x + f()`."""
    own, out = run(augments_what_the_value_changes, 1, np.zeros(1, np.int32), np.zeros(3, np.int32))
    assert (own.tolist(), out.tolist()) == ([14], [11, 3, 6])
