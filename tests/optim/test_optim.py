"""SGD and Adam against the same formulas in NumPy, and, where PyTorch is installed, against its optimisers."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.optim import SGD, Adam

DTYPES = [wp.float32, wp.float64, wp.float16, wp.bfloat16, wp.vec3, wp.mat22d]
RNG = np.random.default_rng(1)


def arrays(dtype, shape=(5,)):
    made = wp.zeros(shape, dtype=dtype)
    made.assign(RNG.standard_normal(made.numpy().shape))
    return made


def numpy_sgd(p, gradients, lr, momentum, dampening, decay, nesterov):
    past = None
    for gradient in gradients:
        step = gradient + decay * p
        if momentum:
            past = step if past is None else momentum * past + (1 - dampening) * step
            step = step + momentum * past if nesterov else past
        p = p - lr * step
    return p


def numpy_adam(p, gradients, lr, beta1, beta2, eps):
    m = v = 0.0
    for t, g in enumerate(gradients, 1):
        m, v = beta1 * m + (1 - beta1) * g, beta2 * v + (1 - beta2) * g * g
        p = p - lr * (m / (1 - beta1**t)) / (np.sqrt(v / (1 - beta2**t)) + eps)
    return p


def stepped(optimiser: Any, params, gradients):
    for g in gradients:
        optimiser.step([g])
    return np.asarray(params.numpy(), np.float64)


def tolerance(dtype):
    return {wp.float16: 2e-2, wp.bfloat16: 2e-1, wp.float64: 1e-13, wp.mat22d: 1e-13}.get(dtype, 2e-6)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize(("momentum", "dampening", "nesterov"), [(0, 0, False), (0.9, 0.2, False), (0.8, 0, True)])
def test_sgd(dtype, momentum, dampening, nesterov):
    params, gradients = arrays(dtype), [arrays(dtype) for _ in range(4)]
    options = {"lr": 0.1, "momentum": momentum, "dampening": dampening, "weight_decay": 0.05, "nesterov": nesterov}
    start, slopes = np.array(params.numpy(), np.float64), [np.array(g.numpy(), np.float64) for g in gradients]
    expected = numpy_sgd(start, slopes, 0.1, momentum, dampening, 0.05, nesterov)
    found = stepped(SGD([params], **options), params, gradients)
    np.testing.assert_allclose(found, expected, tolerance(dtype), tolerance(dtype))


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("shape", [(5,), (2, 3)])
def test_adam(dtype, shape):
    params, gradients = arrays(dtype, shape), [arrays(dtype, shape) for _ in range(4)]
    start, slopes = np.array(params.numpy(), np.float64), [np.array(g.numpy(), np.float64) for g in gradients]
    found = stepped(Adam([params], lr=0.1, betas=(0.8, 0.95), eps=1e-6), params, gradients)
    expected = numpy_adam(start, slopes, 0.1, 0.8, 0.95, 1e-6)
    np.testing.assert_allclose(found, expected, tolerance(dtype), tolerance(dtype))


@pytest.mark.parametrize("name", ["SGD", "Adam"])
def test_as_in_pytorch(name):
    torch = pytest.importorskip("torch")
    start, slopes = RNG.standard_normal(7), RNG.standard_normal((5, 7))
    options: dict[str, Any] = {"momentum": 0.9, "nesterov": True} if name == "SGD" else {}
    theirs = torch.tensor(start, requires_grad=True)
    their_optimiser = getattr(torch.optim, name)([theirs], lr=0.03, **options)
    ours = wp.array(start, dtype=wp.float64)
    our_optimiser = getattr(wp.optim, name)([ours], lr=0.03, **options)
    for slope in slopes:
        theirs.grad = torch.tensor(slope)
        their_optimiser.step()
        our_optimiser.step([wp.array(slope, dtype=wp.float64)])
    np.testing.assert_allclose(ours.numpy(), theirs.detach().numpy(), 1e-12)


def test_a_program_with_a_tape():
    """Several arrays, gradients of a tape, a state that is kept, set back and made anew."""

    @wp.kernel
    def loss(x: wp.array[float], y: wp.array[wp.vec2], out: wp.array[float]):
        i = wp.tid()
        wp.atomic_add(out, 0, (x[i] - 1.0) ** 2.0 + wp.length_sq(y[i] - wp.vec2(2.0, 3.0)))

    x, y = wp.zeros(3, dtype=float, requires_grad=True), wp.zeros(3, dtype=wp.vec2, requires_grad=True)
    optimiser = wp.optim.Adam([x, y], lr=0.1)
    for _ in range(300):
        out, tape = wp.zeros(1, dtype=float, requires_grad=True), wp.Tape()
        with tape:
            wp.launch(loss, 3, [x, y], [out])
        tape.backward(out)
        optimiser.step([x.grad, y.grad])
        tape.zero()
    np.testing.assert_allclose(x.numpy(), 1.0, atol=1e-3)
    np.testing.assert_allclose(y.numpy(), [[2.0, 3.0]] * 3, atol=1e-3)
    assert optimiser.t == 300
    kept = optimiser.m[0]
    optimiser.set_params([x, wp.zeros(4, dtype=wp.vec2)])
    assert optimiser.m[0] is kept
    assert optimiser.m[1].shape == (8,)
    optimiser.reset_internal_state()
    assert optimiser.t == 0
    assert not kept.numpy().any()


@pytest.mark.parametrize("make", [SGD, Adam])
def test_bad_input(make):
    x = wp.zeros(3, dtype=float)
    with pytest.raises(KernelTypeError, match="params: expected a list of arrays"):
        make(x)
    with pytest.raises(KernelTypeError, match=r"params\[1\]: expected an array outside of JAX, got ndarray"):
        make([x, np.zeros(3)])
    with pytest.raises(KernelTypeError, match=r"params\[0\]: expected an array of floats, got one of int32"):
        make([wp.zeros(3, dtype=int)])
    with pytest.raises(KernelValueError, match=r"params\[0\] has gaps"):
        make([wp.zeros((3, 4), dtype=float)[:, 1]])
    with pytest.raises(KernelTypeError, match="lr must be a number"):
        make([x], lr="fast")
    with pytest.raises(KernelValueError, match="there are no parameters"):
        make().step([x])
    with pytest.raises(KernelValueError, match="expected 1 gradients, got 2"):
        make([x]).step([x, x])
    with pytest.raises(KernelTypeError, match="the gradient's dtype must be the parameters', float32, got float64"):
        make([x]).step([wp.zeros(3, dtype=wp.float64)])
    with pytest.raises(KernelValueError, match=r"the gradient's shape must be the parameters', \(3,\), got \(4,\)"):
        make([x]).step([wp.zeros(4, dtype=float)])


def test_gradients_may_have_gaps():
    x, g = wp.zeros(3, dtype=float), wp.array(np.arange(6.0).reshape(3, 2), dtype=float)
    SGD([x], lr=1.0).step([g[:, 1]])
    np.testing.assert_array_equal(x.numpy(), [-1, -3, -5])


def test_names():
    assert set(itertools.islice(dir(wp.optim), 10)) >= {"Adam", "SGD"}
    assert "optim" in dir(wp)
