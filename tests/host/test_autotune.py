"""`autotune` where there is no GPU, and what was measured in programs of JAX; on GPUs: native/outside_scenarios.py."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp.codegen import tuned
from jaxwarp.codegen.abi import CudaOptions
from jaxwarp.codegen.cuda import nvrtc
from jaxwarp.codegen.cuda.compile import CUBIN, Entry
from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.ffi import lowering
from jaxwarp.host import autotune
from jaxwarp.launches.code import Gpus
from jaxwarp.memory.driver import CudaError
from jaxwarp.passes.pipeline import prepare


@wp.kernel
def halved(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = 0.5 * x[i]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A cache of its own."""
    monkeypatch.setenv("JAXWARP_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(tuned, "_known", {})
    monkeypatch.setattr(nvrtc, "version", lambda: (13, 0))
    return tmp_path


def test_the_cpu_has_no_blocks():
    x, y = wp.ones(4, dtype=float), wp.zeros(4, dtype=float)

    def timer(_run):
        raise AssertionError("it is not measured")

    assert wp.autotune(halved, 4, [x], [y], timer=timer) == wp.Tuned(256, {})
    assert y.list() == [0.0] * 4
    wp.launch(halved, 4, [x], [y], block_dim="auto")
    assert y.list() == [0.5] * 4
    call = wp.jax_kernel(halved, block_dim="auto")
    assert wp.autotune(call, inputs=[jnp.ones(4)]) == (256, {})
    np.testing.assert_array_equal(jax.jit(call)(jnp.ones(4))[0], 0.5)


@wp.kernel(block_dim="auto", launch_bounds=128)
def thirds(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i] / 3.0


def test_auto_is_an_option_of_kernels():
    assert thirds.cuda_options() == CudaOptions(128, (128,), is_tuned=True)
    assert not thirds.cuda_options(64).is_tuned
    assert "__launch_bounds__(128)" in thirds.source("cuda")


def tuning_inside(x: wp.array[float], y: wp.array[float]):
    wp.autotune(halved, 4, [x], [y])


def test_what_is_no_block_is_refused():
    x, y = wp.ones(4, dtype=float), wp.zeros(4, dtype=float)
    with pytest.raises(KernelValueError, match="block_dim: expected an integer from 1 to 1024, got 'fast'"):
        wp.launch(halved, 4, [x], [y], block_dim="fast")
    with pytest.raises(KernelTypeError, match="autotune measures launches, and here none happens at once"):
        wp.jax_callable(tuning_inside)(jnp.ones(4))
    with pytest.raises(KernelTypeError, match="has launch dimensions and outputs of its own"):
        wp.autotune(wp.jax_kernel(halved), 4, [x])
    with pytest.raises(KernelTypeError, match="kernel halved: expected 2 arguments"):
        wp.autotune(halved, 4, [x])


def block_of(call, *shapes, is_for_export=False):
    launch, operands = call.launch_for([np.zeros(shape, np.float32) for shape in shapes])
    found = lowering.call_attributes(launch, [np.shape(o) for o in operands], "cuda", is_for_export)
    return int(found["block"])


def test_programs_of_jax_have_what_was_measured(folder, monkeypatch):
    """For the GPUs of the process, if they are of one model; exported programs do not know where they will run."""
    monkeypatch.setattr("jaxwarp.codegen.cuda.compile_cuda", lambda *_, **__: (Entry(CUBIN, 90, b"made"),))
    model = ["NVIDIA H200"]
    monkeypatch.setattr(lowering, "_gpus", lambda is_for_export: Gpus((90,), model[0], is_for_export))
    auto, fixed = wp.jax_kernel(halved, block_dim="auto"), wp.jax_kernel(halved)
    assert block_of(auto, (6,)) == 256
    launch, _ = auto.launch_for([np.zeros(6, np.float32)])
    kernel = prepare(launch.kernel)
    key = tuned.key_of(kernel, (6,), [(6,), (6,)], launch.cuda, "NVIDIA H200")
    tuned.keep(key, tuned.Tuning(64, {64: 1.0, 256: 2.0}))
    assert block_of(auto, (6,)) == 64
    assert block_of(fixed, (6,)) == 256
    assert block_of(auto, (7,)) == 256
    assert block_of(auto, (6,), is_for_export=True) == 256
    model[0] = "NVIDIA B200"
    assert block_of(auto, (6,)) == 256
    model[0] = None
    assert block_of(auto, (6,)) == 256


def test_what_decides_about_code_decides_about_its_time(folder, monkeypatch):
    kernel = prepare(halved.specialize())
    options = CudaOptions()
    given = [kernel, (6,), [(6,), (6,)], options, "a"]
    keys = {tuned.key_of(*given), tuned.key_of(*given[:3], CudaOptions(fast_math=True), "a")}
    keys |= {tuned.key_of(*given[:4], "b"), tuned.key_of(kernel, (6,), [(6,), (7,)], options, "a")}
    keys |= {tuned.key_of(kernel, (5,), [(6,), (6,)], options, "a")}
    keys |= {tuned.key_of(prepare(thirds.specialize()), *given[1:])}
    monkeypatch.setattr(nvrtc, "version", lambda: (12, 9))
    keys.add(tuned.key_of(*given))
    assert len(keys) == 7
    assert tuned.key_of(*given) == tuned.key_of(*given[:3], CudaOptions(64, is_tuned=True), "a")
    assert tuned.key_of(kernel, (None,), [(6,), (6,)], options, "a") is None


def test_what_was_measured_is_kept_on_disk(folder):
    key = tuned.key_of(prepare(halved.specialize()), (6,), [(6,), (6,)], CudaOptions(), "a")
    assert tuned.tuning(key) is None
    tuned.keep(key, tuned.Tuning(64, {64: 1.5, 256: 2.0}))
    tuned._known.clear()
    assert tuned.tuning(key) == tuned.Tuning(64, {64: 1.5, 256: 2.0})
    (entry,) = folder.iterdir()
    entry.write_bytes(b"something else")
    tuned._known.clear()
    assert tuned.tuning(key) is None


def test_blocks_with_more_registers_than_there_are_are_left_out():
    launched, back = [], []

    def run(size, error):
        def launch():
            launched.append(size)
            if error:
                raise CudaError(f"cuLaunchKernelEx of 'k' failed: {error}")

        return launch

    runs = {64: run(64, ""), 1024: run(1024, "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES (too many resources requested)")}
    times = autotune._times(dict(runs), lambda launch: launch() or len(launched), lambda: back.append(len(launched)))
    assert list(times) == [64]
    assert launched == [64, 1024] + [64] * 7
    assert times[64] == 6.0  # the median
    assert len(back) == 9, "behind each launch"
    with pytest.raises(CudaError, match="ILLEGAL"):  # which says nothing of the size
        autotune._times({64: run(64, ""), 128: run(128, "CUDA_ERROR_ILLEGAL_ADDRESS")}, lambda launch: 1.0, list)
    with pytest.raises(CudaError, match="OUT_OF_RESOURCES"):
        autotune._times({1024: runs[1024]}, lambda launch: 1.0, list)
