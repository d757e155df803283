"""One array for several arguments: what is written by one name is read by the other, as in Warp."""

import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp


@wp.kernel
def scaled(x: wp.array[float], by: float, y: wp.array[float]):
    i = wp.tid()
    y[i] = by * x[i]
    y[i] = x[i] + y[i]


@wp.kernel
def total_to_first(x: wp.array2d[float], y: wp.array2d[float]):
    row = wp.tid()
    found = 0.0
    for k in range(x.shape[1]):
        found += x[row, k]
        y[row, 0] = found
        found += 0.0 * x[row, 0]
    y[row, 1] = x[row, 0]


@wp.kernel
def summed(x: wp.array[float], y: wp.array[float], z: wp.array[float], i: int):
    wp.atomic_add(z, i % 2, x[i] * y[i])


@wp.struct
class Pair:
    a: wp.array[float]
    b: wp.array[float]


@wp.kernel
def of_struct(pair: Pair):
    i = wp.tid()
    pair.a[i] = 2.0 * pair.b[i]
    pair.b[i] = pair.b[i] + pair.a[i]


def array(values, **options):
    return wp.array(values, dtype=float, **options)


def test_input_and_output():
    x, y = array([1.0, 2.0]), wp.zeros(2)
    for _ in range(2):  # the second time it is like one before
        wp.launch(scaled, 2, [x, 3.0], [y])
        np.testing.assert_array_equal(y.numpy(), 4.0 * x.numpy())
        before = x.numpy().copy()
        wp.launch(scaled, 2, [x, 3.0], [x])
        np.testing.assert_array_equal(x.numpy(), 6.0 * before)


def test_what_was_written_is_read():
    x = array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    expected = x.numpy().copy()
    for row in expected:
        found = 0.0
        for k in range(3):
            found += row[k]
            row[0] = found
        row[1] = row[0]
    wp.launch(total_to_first, 2, [x], [x])
    np.testing.assert_array_equal(x.numpy(), expected)


def test_other_views_of_the_same_memory():
    x = array([1.0, 2.0, 3.0, 4.0])
    wp.launch(scaled, 2, [x[1:3], 1.0], [x[1:3]])
    assert x.list() == [1.0, 4.0, 6.0, 4.0]
    wp.launch(scaled, 2, [x[::2], 1.0], [x[::2]])
    assert x.list() == [2.0, 4.0, 12.0, 4.0]
    values = np.array([1.0, 2.0], np.float32)
    wp.launch(scaled, 2, [values, 1.0], [values])
    assert values.tolist() == [2.0, 4.0]
    with pytest.raises(wp.KernelError, match="shares memory with argument 'x'"):
        wp.launch(scaled, 2, [x[:2], 1.0], [x[1:3]])
    with pytest.raises(wp.KernelError, match="shares memory with argument 'x'"):
        wp.launch(total_to_first, 1, [x.reshape((1, 4))], [x.reshape((2, 2))])


@pytest.mark.parametrize("kind", ["numpy", "of struct", "view of numpy"])
def test_then_others(kind):
    """Arrays of NumPy, which have no address in what tells launches apart."""
    x, y = np.array([1.0, 2.0], np.float32), np.zeros(2, np.float32)

    def run(one, other):
        if kind == "of struct":
            pair = Pair()
            pair.a, pair.b = one, other
            wp.launch(of_struct, 2, [pair])
        else:
            wp.launch(scaled, 2, [other, 1.0], [wp.array(one, copy=False) if kind == "view of numpy" else one])

    for one, other in ((x, x), (x, y), (y, x), (y, y), (y, x)):
        expected = {"x": x.copy(), "y": y.copy()}
        a, b = (expected["x" if array is x else "y"] for array in (one, other))
        if kind == "of struct":
            a[:] = 2.0 * b
            b += a
        else:
            a[:] = b
            a += b
        run(one, other)
        np.testing.assert_array_equal(x, expected["x"])
        np.testing.assert_array_equal(y, expected["y"])


@pytest.mark.parametrize("which", ["xyx", "xyy", "xxy", "xxx", "xyz"])
def test_several(which):
    made = {name: array([1.0, 2.0, 3.0]) for name in "xyz"}
    expected = {name: a.numpy().copy() for name, a in made.items()}
    for i in range(3):
        x, y, z = (expected[name] for name in which)
        z[i % 2] += x[i] * y[i]
    for i in range(3):  # one thread after the other
        wp.launch(summed, 1, [*(made[name] for name in which), i])
    for name, a in made.items():
        np.testing.assert_array_equal(a.numpy(), expected[name])


def test_fields_of_structs():
    pair = Pair()
    pair.a = pair.b = array([1.0, 2.0])
    wp.launch(of_struct, 2, [pair])
    assert pair.a.list() == [4.0, 8.0]
    pair.b = array([1.0, 2.0])
    wp.launch(of_struct, 2, [pair])
    assert (pair.a.list(), pair.b.list()) == ([2.0, 4.0], [3.0, 6.0])


def test_tapes():
    x = array([1.0, 2.0], requires_grad=True)
    tape = wp.Tape()
    with tape:
        wp.launch(scaled, 2, [x, 3.0], [x])
        wp.launch(scaled, 2, [x, 0.5], [x])
    np.testing.assert_array_equal(x.numpy(), [6.0, 12.0])  # times 6, times 1
    tape.backward(grads={x: array([1.0, 10.0])})
    np.testing.assert_array_equal(x.grad.numpy(), [6.0, 60.0])


def test_captures():
    x = array([1.0, 2.0])
    with wp.ScopedCapture() as capture:
        wp.launch(scaled, 2, [x, 1.0], [x])
    for times in (2.0, 4.0):
        wp.capture_launch(capture.graph)
        assert x.list() == [times, 2 * times]


def test_debug_mode(monkeypatch):
    x = array([1.0, 2.0])
    monkeypatch.setattr(wp.config, "mode", "debug")
    wp.launch(scaled, 2, [x, 1.0], [x])
    assert x.list() == [2.0, 4.0]


def test_types_decide():
    x = array([1.0, 2.0])

    @wp.kernel
    def bits(x: wp.array[float], y: wp.array[wp.int32]):
        y[wp.tid()] = int(x[0])

    with pytest.raises(wp.KernelError, match="shares memory with argument 'x'"):
        wp.launch(bits, 2, [x, x.view(wp.int32)])


def test_values_of_jax_are_one_array_each():
    step = wp.jax_kernel(scaled)
    (y,) = step(jnp.ones(2), 3.0)
    assert y.tolist() == [4.0, 4.0]
