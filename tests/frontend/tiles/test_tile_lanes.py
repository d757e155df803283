"""Kernels that name the threads of a block: a block is one thread, and who asks for more is warned."""

from __future__ import annotations

import warnings
from typing import Any

import jax
import numpy as np
import pytest

import jaxwarp as wp

N = 40


@wp.kernel
def strided(x: wp.array[float], out: wp.array[float]):
    i, lane = wp.tid()
    for k in range(lane, N, wp.block_dim()):
        wp.atomic_add(out, i, x[k])


@wp.func
def summed(x: float):
    return wp.tile_sum(wp.tile(x))


@wp.kernel
def reduced(x: wp.array[float], out: wp.array[float]):
    wp.tile_atomic_add(out, summed(x[wp.tid()]))


@wp.kernel
def shifted(x: wp.array[Any], out: wp.array[Any]):
    i = wp.tid()
    out[i] = wp.untile(wp.tile(x[i]) + wp.tile(x[i]))


@wp.kernel
def plain(x: wp.array[float], out: wp.array[float]):
    i, _lane = wp.tid()
    wp.tile_store(out, wp.tile_sum(wp.tile_load(x, shape=N)), offset=(i,))


@wp.kernel
def elements(x: wp.array2d[float], out: wp.array2d[float]):
    i, j = wp.tid()
    out[i, j] = x[i, j]


def arrays() -> tuple[wp.array, wp.array]:
    return wp.array(np.arange(N, dtype=np.float32)), wp.zeros(N, dtype=float)


def said_by(run: Any) -> list[str]:
    """What is said of lanes, and of which lines, where Python says each thing once."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("default")
        run()
        run()
    assert all(w.filename.endswith("test_tile_lanes.py") for w in found)
    return [str(w.message).split(" has no effect on ")[1].split(":")[0] for w in found]


def test_a_launch_that_asks_for_threads_warns_once_for_each_line_that_names_them() -> None:
    x, out = arrays()
    assert said_by(lambda: wp.launch_tiled(strided, dim=2, inputs=[x, out], block_dim=32)) == [
        "block_dim()", "the last index of tid()",
    ]  # fmt: skip
    assert said_by(lambda: wp.launch(reduced, N, [x, out], block_dim=64)) == ["tile(x)"]
    assert said_by(lambda: wp.launch_tiled(reduced, dim=N, inputs=[x, out], block_dim=64)) == ["tile(x)"]
    generic = said_by(lambda: wp.launch_tiled(shifted, dim=N, inputs=[x, out], block_dim=8))
    assert sorted(generic) == ["tile(x)", "untile(a)"]
    with pytest.warns(UserWarning, match="kernel reduced: block_dim=128 has no effect on tile"):
        jax.jit(wp.jax_kernel(reduced, launch_dims=N, output_dims=1, block_dim=128))(np.ones(N, np.float32))


def test_what_is_right_for_any_number_of_threads_is_right_without_a_warning() -> None:
    x, out = arrays()
    wp.launch_tiled(strided, dim=2, inputs=[x, out])
    assert out.numpy()[:3].tolist() == [N * (N - 1) / 2, N * (N - 1) / 2, 0.0]
    out.zero_()
    wp.launch(reduced, N, [x, out])
    assert out.numpy()[0] == N * (N - 1) / 2
    wp.launch_tiled(strided, dim=1, inputs=[x, out], block_dim=1)
    wp.launch_tiled(plain, dim=3, inputs=[x, out], block_dim=64)
    assert out.numpy()[:3].tolist() == [N * (N - 1) / 2] * 3


def test_the_last_index_is_a_lane_in_launches_of_blocks_alone() -> None:
    x, out = wp.array(np.ones((4, 3), np.float32)), wp.zeros((4, 3), dtype=float)
    wp.launch(elements, (4, 3), [x, out], block_dim=64)
    wp.launch_tiled(elements, dim=(4, 3), inputs=[x, out], block_dim=64)
    assert out.numpy().min() == 1.0
    with pytest.warns(UserWarning, match="the last index of tid"):
        wp.launch_tiled(elements, dim=4, inputs=[x, out], block_dim=64)
