"""`GraphMode.NONE`: what a launch in one call has found out, launches like it in later calls do not find out again."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp.arrays import launching


@wp.kernel
def scale(x: wp.array[float], factor: float, y: wp.array[float]):
    i = wp.tid()
    y[i] = factor * x[i] + y[i]


@pytest.fixture
def checks(monkeypatch) -> list[int]:
    """An element for each launch that is checked."""
    found: list[int] = []
    check = launching.check
    monkeypatch.setattr(launching, "check", lambda *given: (found.append(1), check(*given))[1])
    return found


def test_a_launch_like_one_before_is_not_checked_again(checks) -> None:
    factors = iter((2.0, 3.0, 5.0, 7.0))

    def twice(x: wp.array[float], y: wp.array[float]) -> None:
        factor = next(factors)  # Python runs in each call
        wp.launch(scale, x.shape[0], [x, factor], [y])
        wp.launch(scale, x.shape[0], [x, factor], [y])

    call = wp.jax_callable(twice, graph_mode=wp.GraphMode.NONE)
    results = [call(jnp.full(n, 2.0))[0] for n in (5, 5, 6, 5)]
    for n, factor, result in zip((5, 5, 6, 5), (2.0, 3.0, 5.0, 7.0), results, strict=True):
        np.testing.assert_array_equal(result, np.full(n, 4 * factor, np.float32))
    assert len(checks) == 2  # of five elements and of six


def test_what_differs_is_checked(checks) -> None:
    """An array twice, an input that is written, and a dim that is another one."""
    mode = {"dim": 4, "args": "xy"}

    def program(x: wp.array[float], y: wp.array[float]) -> None:
        arrays = {"x": x, "y": y}
        first, second = (arrays[name] for name in mode["args"])
        wp.launch(scale, mode["dim"], [first, 2.0], [second])

    call = jax.jit(wp.jax_callable(program, graph_mode=wp.GraphMode.NONE))
    x = jnp.arange(1.0, 5.0)
    np.testing.assert_array_equal(call(x)[0], 2 * np.arange(1.0, 5.0))
    mode["dim"] = 2
    np.testing.assert_array_equal(call(x)[0], [2, 4, 0, 0])
    assert len(checks) == 2
    mode.update(dim=4, args="yx")
    for _ in range(2):
        with pytest.raises(Exception, match="is an input and cannot be written"):
            jax.block_until_ready(call(x))
    np.testing.assert_array_equal(x, np.arange(1.0, 5.0))
    mode["args"] = "yy"
    for _ in range(2):
        np.testing.assert_array_equal(call(x)[0], np.zeros(4))
    mode["args"] = "xy"
    np.testing.assert_array_equal(call(x)[0], 2 * np.arange(1.0, 5.0))


def test_an_array_of_a_call_that_is_over_is_refused_after_launches_like_it() -> None:
    kept = []

    def keeping(x: wp.array[float], y: wp.array[float]) -> None:
        wp.launch(scale, 4, [x, 2.0], [y])
        kept.append(y)

    def late(x: wp.array[float], y: wp.array[float]) -> None:
        wp.launch(scale, 4, [x, 2.0], [kept[0]])

    x = jnp.ones(4)
    jax.block_until_ready(wp.jax_callable(keeping, graph_mode=wp.GraphMode.NONE)(x))
    with pytest.raises(Exception, match="is used after its callable has returned"):
        jax.block_until_ready(wp.jax_callable(late, graph_mode=wp.GraphMode.NONE)(x))


def test_batches_have_their_own_items() -> None:
    def program(x: wp.array[float], y: wp.array[float]) -> None:
        wp.launch(scale, 3, [x, 2.0], [y])

    call = wp.jax_callable(program, graph_mode=wp.GraphMode.NONE)
    x = jnp.arange(12.0).reshape(4, 3)
    for _ in range(2):
        np.testing.assert_array_equal(jax.vmap(lambda v: call(v)[0])(x), 2 * np.arange(12.0).reshape(4, 3))
