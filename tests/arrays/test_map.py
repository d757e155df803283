"""`map`, and operators on arrays outside of JAX."""

import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp

A = np.arange(10, dtype=np.float32)
B = np.arange(1, 11, dtype=np.float32)
OFFSET = 2.5


@wp.func
def as_vector(x: float):
    return wp.vec3(x, x + 1.0, x + 2.0)


@wp.func
def of_integers(n: int):
    return 2 * n


@wp.func
def nothing(x: float):
    pass


def plain(x, y):
    if x > y:
        return x - y
    return y * OFFSET


def pair():
    return wp.array(A, dtype=float), wp.array(B, dtype=float)


def test_functions_of_all_kinds():
    a, b = pair()
    factor = 3.0
    np.testing.assert_array_equal(wp.map(wp.add, a, b).numpy(), A + B)
    np.testing.assert_array_equal(wp.map(wp.clamp, a, 2.0, 5.0).numpy(), np.clip(A, 2.0, 5.0))
    np.testing.assert_array_equal(wp.map(lambda x: x * factor, a).numpy(), A * 3.0)
    factor = 4.0
    np.testing.assert_array_equal(wp.map(lambda x: x * factor, a).numpy(), A * 4.0)
    np.testing.assert_allclose(wp.map(plain, a, b).numpy(), B * 2.5)
    vectors = wp.map(as_vector, a)
    assert (vectors.dtype, vectors.shape) == (wp.vec3, (10,))
    np.testing.assert_array_equal(vectors.numpy(), np.stack([A, A + 1, A + 2], axis=1))
    flags = wp.map(wp.where, wp.array([True, False], dtype=bool), 1, 0)
    assert (flags.dtype, flags.list()) == (wp.int32, [1, 0])
    two = [wp.map(lambda x: x + 1.0, a), wp.map(lambda x: x - 1.0, a)]  # two on one line
    np.testing.assert_array_equal([two[0].numpy(), two[1].numpy()], [A + 1.0, A - 1.0])


def test_a_global_that_changes(monkeypatch):
    a = wp.ones(1)
    found = []
    for value in (1, 1.0, True, 2.5):
        monkeypatch.setitem(globals(), "OFFSET", value)
        found.append(wp.map(lambda x: (x, OFFSET), a)[1])
    assert [f.dtype for f in found] == [wp.int32, wp.float32, wp.bool, wp.float32]
    assert found[3].list() == [2.5]


def test_values_that_are_equal_and_not_the_same():
    a = wp.ones(1)
    inverses = [wp.map(lambda x: x / zero, a).list()[0] for zero in (0.0, -0.0)]  # noqa: B023 - called at once
    assert inverses == [np.inf, -np.inf]
    found = []
    for number in (2.0, 3.0):

        def scaled(x, *, factor=number):
            return x * factor

        found += wp.map(scaled, a).list()
    assert found == [2.0, 3.0]


def test_several_results():
    a, b = pair()
    found = wp.map(lambda x, y: (x + y, wp.int32(x)), a, b)
    assert [f.dtype for f in found] == [wp.float32, wp.int32]
    np.testing.assert_array_equal(found[0].numpy(), A + B)
    out = [wp.zeros(10), wp.zeros(10, dtype=int)]
    assert wp.map(lambda x, y: (x + y, wp.int32(x)), a, b, out=out)[1] is out[1]
    np.testing.assert_array_equal(out[1].numpy(), A)


def test_shapes_are_broadcast():
    rng = np.random.default_rng(0)
    shapes = (1, 3, 1, 4), (5, 4), (2, 3, 5, 4), (1,)
    values = [rng.normal(size=shape).astype(np.float32) for shape in shapes]
    arrays = [wp.array(v, dtype=float) for v in values]
    found = wp.map(lambda x, y, z, w: x + y * z - w, *arrays)
    x, y, z, w = values
    np.testing.assert_allclose(found.numpy(), x + y * z - w, rtol=1e-5, atol=1e-6)
    assert wp.map(wp.add, arrays[0], arrays[1]).shape == (1, 3, 5, 4)
    assert wp.map(wp.neg, wp.zeros((0, 3))).shape == (0, 3)
    np.testing.assert_array_equal((arrays[2].transpose((3, 2, 1, 0)) * 2.0).numpy(), z.T * 2)


def test_results_in_place():
    a, b = pair()
    assert wp.map(wp.clamp, a, 2.0, 5.0, out=a) is a
    np.testing.assert_array_equal(a.numpy(), np.clip(A, 2.0, 5.0))
    wp.map(wp.add, b[:9], b[1:], out=b[:9])
    np.testing.assert_array_equal(b.numpy(), [*(B[:9] + B[1:]), B[9]])


def test_operators():
    a, b = pair()
    for found, expected in (
        (+a, A), (-a, -A), (abs(-a), A), (a + b, A + B), (a - 2.0, A - 2), (2.0 - a, 2 - A), (a * b, A * B),
        (2.0 * a, 2 * A), (a / b, A / B), (2.0 / b, 2 / B), (a // b, A // B), (a % b, A % B), (a**2.0, A**2),
    ):  # fmt: skip
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-6)
    whole = wp.array([7, -7], dtype=int)
    assert ((whole / 2).dtype, (whole / 2).list()) == (wp.int32, [3, -3])
    assert ((whole & 3).list(), (whole << 1).list()) == ([3, 1], [14, -14])
    kept = a
    a += 1.0
    a *= b
    assert a is kept
    np.testing.assert_array_equal(a.numpy(), (A + 1) * B)
    vectors = wp.array([[1.0, 2.0]], dtype=wp.vec2)
    np.testing.assert_array_equal((vectors * 2.0 + wp.vec2(1.0, 1.0)).numpy(), [[3.0, 5.0]])


def test_other_libraries_keep_their_operators():
    a, _ = pair()
    assert isinstance(a + jnp.asarray(B), jnp.ndarray)
    assert isinstance(a + B, np.ndarray)
    with pytest.raises(TypeError):
        a + "text"
    assert a == a and hash(a)  # noqa: PT018 - as before: identity


def test_a_tape_records_them():
    x = wp.array([1.0, 2.0], dtype=float, requires_grad=True)
    tape = wp.Tape()
    with tape:
        y = wp.map(lambda t: wp.sin(t) * t, x)
        z = y * 3.0
        z += x
    assert z.requires_grad
    tape.backward(grads={z: wp.ones(2)})
    t = x.numpy()
    np.testing.assert_allclose(x.grad.numpy(), 3.0 * (np.cos(t) * t + np.sin(t)) + 1.0, rtol=1e-5)


def test_captured():
    a, b = pair()
    with wp.ScopedCapture() as capture:
        found = wp.map(wp.add, a, b) * 2.0
        a += 1.0
    for step in range(2):
        wp.capture_launch(capture.graph)
        np.testing.assert_array_equal(found.numpy(), (A + step + B) * 2)


def test_the_kernel():
    a, _ = pair()
    kernel = wp.map(lambda x: x + 2.0, a, return_kernel=True)
    assert isinstance(kernel, wp.Kernel)
    out = wp.zeros(20)
    wp.launch(kernel, dim=20, inputs=[wp.ones(20)], outputs=[out])
    assert out.list() == [3.0] * 20


ONES = wp.ones(3)
WRONG = {
    r"must return a value": lambda: wp.map(nothing, ONES),
    r"of_integers": lambda: wp.map(of_integers, ONES),
    r"plain": lambda: wp.map(plain, ONES),
    r"Shapes \(3,\) and \(5,\) are not broadcastable": lambda: wp.map(wp.add, ONES, wp.zeros(5)),
    r"requires at least one array": lambda: wp.map(wp.add, 1.0, 2.0),
    r"Output array shape \(2,\) does not match expected shape \(3,\)": lambda: wp.map(wp.neg, ONES, out=wp.zeros(2)),
    r"Output array dtype int32": lambda: wp.map(wp.neg, ONES, out=wp.zeros(3, dtype=int)),
    r"output arrays \(2\) does not match": lambda: wp.map(wp.neg, ONES, out=[ONES, ONES]),
    r"expected a function, got 3": lambda: wp.map(3, ONES),
    r"launch: cuda:99 cannot be used": lambda: wp.map(wp.neg, ONES, device="cuda:99"),
    r"which never changes": lambda: wp.map(wp.neg, ONES, out=wp.from_jax(jnp.zeros(3))),
    r"the text of the lambda": lambda: wp.map(eval("lambda x: x + 1.0"), ONES),
}


@pytest.mark.parametrize("text", WRONG)
def test_what_does_not_fit(text):
    with pytest.raises(wp.KernelError, match=text):
        WRONG[text]()


def test_a_file_that_has_changed(tmp_path):
    path = tmp_path / "program.py"
    path.write_text("f = lambda x: x + 1.0\n")
    scope: dict = {}
    exec(compile(path.read_text(), str(path), "exec"), scope)
    path.write_text("f = lambda x: x + 2.0\n")
    with pytest.raises(wp.KernelError, match="the text of the lambda"):
        wp.map(scope["f"], ONES)
