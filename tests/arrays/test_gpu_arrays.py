"""Arrays outside of JAX on a real GPU: what runs on the pretended driver, with the results of the CPU."""

import jax.numpy as jnp
import numpy as np
import pytest
from native import outside_scenarios as scenarios
from native import structure_scenarios as structures

import jaxwarp as wp

pytestmark = pytest.mark.gpu


class NoLog:
    """A real driver keeps none."""

    def log(self):
        return []


@pytest.mark.parametrize("name", ["records", "sums", "scans", "sorts", "runs"])
def test_again(name):
    getattr(scenarios, name)(NoLog())


@pytest.mark.parametrize("scenario", structures.BY_DEVICE, ids=lambda scenario: scenario.__name__)
def test_structures(scenario):
    structures.as_on_the_cpu(scenario, "cuda:0")


def test_tapes():
    for got, expected in zip(scenarios.gradients("cuda:0"), scenarios.gradients("cpu"), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-5)
    (got, *_), (expected, *_) = (scenarios.on_one_device(device) for device in ("cuda:0", "cpu"))
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


def test_streams_wait_for_each_other():
    x, y = wp.full(1 << 20, 2.0, device="cuda:0"), wp.zeros(1 << 20, dtype=float, device="cuda:0")
    streams = [wp.Stream("cuda:0") for _ in range(3)]
    for k in range(60):
        wp.launch(scenarios.saxpy, x.size, [x, y, 1.0], stream=streams[k % 3])
    assert (y.numpy() == 120.0).all()


def test_captures_are_replayed():
    x, y = wp.ones(1000, dtype=float, device="cuda:0"), wp.zeros(1000, dtype=float, device="cuda:0")
    with wp.ScopedCapture("cuda:0") as capture:
        for _ in range(10):
            wp.launch(scenarios.saxpy, 1000, [x, y, 2.0])
    for _ in range(5):
        wp.capture_launch(capture.graph)
    assert (y.numpy() == 100.0).all()


def test_tensors_of_torch():
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("PyTorch has no GPU")
    t = torch.arange(6.0, device="cuda", requires_grad=True)
    x, y = wp.from_torch(t), wp.zeros(6, dtype=float, device="cuda:0", requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(scenarios.saxpy, 6, [x, y, 3.0])
    y.grad.fill_(1.0)
    tape.backward()
    assert t.grad.tolist() == [3.0] * 6
    assert wp.to_torch(y).tolist() == [0.0, 3.0, 6.0, 9.0, 12.0, 15.0]


def test_arrays_of_jax():
    x = jnp.arange(6.0)
    given, made = wp.from_jax(x), wp.zeros(6, dtype=float, device="cuda:0")
    assert given.device == "cuda:0"
    wp.launch(scenarios.doubled, 6, [given], [made])
    found = wp.to_jax(made)
    made.fill_(0.0)
    assert found.devices() == x.devices()
    np.testing.assert_array_equal(found, 2 * np.arange(6))
