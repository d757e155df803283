"""Kernels and functions are pickled by their names, as Python's functions are."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys

import jax
import jax.numpy as jnp
import pytest

import jaxwarp as wp


@wp.func
def twice(x: float):
    return 2.0 * x


@wp.func
def twice(x: int):  # noqa: F811 - an overload
    return 2 * x


@wp.kernel
def doubles(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = twice(x[i])


@wp.jax_kernel(outputs="y")
def tripled(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = 3.0 * x[i]


@wp.jax_callable(outputs="y")
def doubled(x: wp.array[float], y: wp.array[float]):
    wp.launch(doubles, x.shape, [x, y])


class Kernels:
    @wp.kernel
    def halves(x: wp.array[float], y: wp.array[float]):
        i = wp.tid()
        y[i] = 0.5 * x[i]


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_what_a_module_defines(protocol):
    if protocol >= 4:  # before, only names without a dot
        assert pickle.loads(pickle.dumps(Kernels.halves, protocol)) is Kernels.halves
    for made in (doubles, twice):
        assert pickle.loads(pickle.dumps(made, protocol)) is made
        assert copy.copy(made) is copy.deepcopy([made])[0] is made


@pytest.mark.parametrize("call", [tripled, doubled])
def test_decorated_functions(call):
    call(jnp.ones(2))
    assert pickle.loads(pickle.dumps(call)) is call
    assert copy.copy(call) is copy.deepcopy([call])[0] is call
    assert pickle.loads(pickle.dumps(tripled.kernel)) is tripled.kernel


@pytest.mark.parametrize("outputs", [None, "y", ("y",)])
def test_calls_of_kernels(outputs):
    call = wp.jax_kernel(doubles, outputs=outputs, launch_dims=1)
    expected = jax.tree.leaves(call(jnp.ones(3)))[0].tolist()
    again = pickle.loads(pickle.dumps(call))
    assert again.kernel is doubles
    assert type(again(jnp.ones(3))) is type(call(jnp.ones(3)))
    assert jax.tree.leaves(again(jnp.ones(3)))[0].tolist() == expected == [2]
    twice_over = pickle.loads(pickle.dumps(wp.jax_kernel(tripled.kernel, outputs="y")))
    assert twice_over(jnp.ones(1)).tolist() == [3]


def test_in_another_process(tmp_path):
    (tmp_path / "scene.py").write_text("""
import jaxwarp as wp
@wp.kernel
def doubles(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = 2.0 * x[i]
""")
    (tmp_path / "main.py").write_text("""
import multiprocessing
import jaxwarp as wp
from scene import doubles
def run(kernel):
    y = wp.zeros(3)
    wp.launch(kernel, 3, [wp.full(3, 4.0), y])
    return y.list()
if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(run, [doubles]))
""")
    found = subprocess.run(
        [sys.executable, tmp_path / "main.py"], capture_output=True, text=True, timeout=300, check=False
    )
    assert found.stdout == "[[8.0, 8.0, 8.0]]\n", found.stderr


def test_what_has_no_name_of_its_own():
    @wp.kernel
    def inside(x: wp.array[float]):
        x[wp.tid()] = 1.0

    @wp.func
    def helper(x: float):
        return x

    hidden = pickle.loads(pickle.dumps(doubles))
    globals()["doubles"] = None
    try:
        for made in (inside, helper, hidden):
            with pytest.raises(
                pickle.PicklingError, match=r"cannot be pickled: that is done by name, and .*test_pickling"
            ):
                pickle.dumps(made)
            assert copy.deepcopy(made) is made
    finally:
        globals()["doubles"] = hidden


def scalar_of(dtype):
    return dtype.dtype if hasattr(dtype, "with_dtype") else dtype


@pytest.mark.parametrize("dtype", [wp.bool, wp.int8, wp.uint64, wp.float16, wp.bfloat16, wp.float32, wp.vec3, wp.quatd])
def test_types_stay_the_same(dtype):
    """Code for a type that is only equal to what it is compared with was not LLVM's: floats stored as integers."""
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        found = pickle.loads(pickle.dumps(dtype, protocol))
        assert found == dtype
        for one in (found, copy.deepcopy(dtype), copy.copy(dtype)):
            assert scalar_of(one) is scalar_of(dtype)
