"""Programs that outlive the process: jax.export, the persistent compilation cache, damaged code images."""

import hashlib
import os
import struct
import subprocess
import sys
import textwrap
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export

import jaxwarp as wp
from jaxwarp import jax_kernel
from jaxwarp.codegen.cuda import nvrtc
from jaxwarp.errors import KernelValueError
from jaxwarp.ffi import lowering
from jaxwarp.launches.code import _targets
from jaxwarp.launches.image import CUDA, unpack_cuda_payload, unpack_image

needs_nvrtc = pytest.mark.skipif(not nvrtc.available(), reason="NVRTC is not installed")


@wp.kernel
def axpy(s: float, x: wp.array[float], y: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    out[i] = s * x[i] + y[i]


@wp.kernel
def spread(x: wp.array[float], out: wp.array2d[float]):
    i, j = wp.tid()
    out[i, j] = x[i] * float(out.shape[1]) + float(j)


@wp.kernel
def increment(state: wp.array[float]):
    i = wp.tid()
    state[i] = state[i] + 1.0


call = jax_kernel(axpy)


def exported(function, *args, **kwargs):
    return export.export(jax.jit(function), disabled_checks=wp.export_checks(), **kwargs)(*args)


def run(program, *args, env=None, timeout=120):
    """The output of a fresh Python that runs a program with jaxwarp imported."""
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", **(env or {})}
    command = [sys.executable, "-c", textwrap.dedent(program), *map(str, args)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False, env=environment)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_a_program_needs_its_checks_disabled_to_be_exported():
    with pytest.raises(ValueError, match="jaxwarp_launch"):
        export.export(jax.jit(call))(1.0, jnp.ones(3), jnp.ones(3))


def test_round_trip_in_this_process():
    program = exported(call, jnp.float32(0), jnp.ones(5), jnp.ones(5))
    x = jnp.arange(5.0)
    (out,) = export.deserialize(program.serialize()).call(jnp.float32(2), x, x)
    np.testing.assert_array_equal(out, 3 * x)


def test_a_fresh_process_runs_an_exported_program(tmp_path):
    """It imports jaxwarp, and knows nothing of the kernel."""

    def function(s, x):
        y = jax.vmap(call, (0, None, 0))(s, x[0], x)[0]
        return jax.lax.fori_loop(0, 3, lambda _, c: jax_kernel(increment, in_out_argnames=["state"])(c)[0], y.ravel())

    s, x = jnp.array([1.0, 2.0, 3.0]), jnp.arange(12.0).reshape(3, 4)
    (tmp_path / "program").write_bytes(exported(function, s, x).serialize())
    output = run(
        """
        import sys
        import jax.numpy as jnp
        from jax import export
        import jaxwarp
        program = export.deserialize(open(sys.argv[1], "rb").read())
        print(*program.call(jnp.array([1.0, 2.0, 3.0]), jnp.arange(12.0).reshape(3, 4)))
        """,
        tmp_path / "program",
    )
    np.testing.assert_array_equal([float(v) for v in output.split()], function(s, x))


@pytest.mark.release_mode("a launch that is checked is an effect of JAX, which has to know it to read the program")
def test_without_jaxwarp_the_program_is_refused_cleanly(tmp_path):
    (tmp_path / "program").write_bytes(exported(call, jnp.float32(0), jnp.ones(3), jnp.ones(3)).serialize())
    output = run(
        """
        import sys
        import jax.numpy as jnp
        from jax import export
        program = export.deserialize(open(sys.argv[1], "rb").read())
        try:
            program.call(jnp.float32(2), jnp.ones(3), jnp.ones(3))
        except Exception as error:
            print(type(error).__name__, "jaxwarp_launch" in str(error))
        """,
        tmp_path / "program",
    )
    assert output.split()[-1] == "True"


def test_symbolic_shapes(tmp_path):
    n, m = export.symbolic_shape("n, m")
    f32 = jnp.float32

    def function(s, x, y):
        return call(s, x, x)[0], jax.vmap(call, (None, None, 0))(s, x, y)[0]

    program = exported(
        function, jax.ShapeDtypeStruct((), f32), jax.ShapeDtypeStruct((n,), f32), jax.ShapeDtypeStruct((m, n), f32)
    )
    for sizes in ((3, 2), (5, 1), (1000, 7)):
        x, y = jnp.arange(float(sizes[0])), jnp.ones((sizes[1], sizes[0]))
        first, second = export.deserialize(program.serialize()).call(f32(2), x, y)
        np.testing.assert_array_equal(first, 3 * x)
        np.testing.assert_array_equal(second, 2 * x + y)


def test_symbolic_launch_dims_come_from_outputs_too():
    n, m = export.symbolic_shape("n, m")
    struct_ = jax.ShapeDtypeStruct

    def function(x, like):
        return jax_kernel(spread)(x, launch_dims=(x.shape[0], 2 * like.shape[0]))[0]

    program = exported(function, struct_((n,), jnp.float32), struct_((m,), jnp.float32))
    got = program.call(jnp.arange(3.0), jnp.ones(2))
    np.testing.assert_array_equal(got, jnp.arange(3.0)[:, None] * 4 + jnp.arange(4.0))


def test_a_launch_extent_that_no_buffer_has_is_refused():
    (n,) = export.symbolic_shape("n")

    def function(x):
        return jax_kernel(axpy, launch_dims=x.shape[0] - 1, output_dims=x.shape[0])(1.0, x, x)[0]

    with pytest.raises(KernelValueError) as caught:
        exported(function, jax.ShapeDtypeStruct((n,), jnp.float32))
    assert str(caught.value) == (
        "kernel axpy: the symbolic launch extent n - 1 of axis 0 is no extent of an argument or an output; "
        "their shapes are (), (n,), (n,), (n,)\n"
        "  hint: pass an array that has this extent, or give an output it with output_dims"
    )


def test_symbols_of_several_programs_do_not_mix():
    for _ in range(2):
        (n,) = export.symbolic_shape("n")
        shape = jax.ShapeDtypeStruct((n,), jnp.float32)
        program = exported(lambda x: call(1.0, x, x)[0], shape)
        np.testing.assert_array_equal(program.call(jnp.ones(3)), 2)


@needs_nvrtc
def test_export_for_both_platforms_without_a_gpu():
    program = exported(call, jnp.float32(0), jnp.ones(4), jnp.ones(4), platforms=("cpu", "cuda"))
    text = program.mlir_module()
    assert text.count("stablehlo.custom_call @jaxwarp_launch") == 2
    np.testing.assert_array_equal(program.call(jnp.float32(2), jnp.ones(4), jnp.ones(4))[0], 3)
    assert export.deserialize(program.serialize()).platforms == ("cpu", "cuda")


@needs_nvrtc
def test_cuda_images_serve_the_common_architectures():
    from jaxwarp.ffi.lowering import call_attributes
    from jaxwarp.launches.arguments.options import CallOptions

    plan = call._make_plan((1.0, np.ones(4, np.float32), np.ones(4, np.float32)), CallOptions())
    attributes = call_attributes(plan.launch, [(), (4,), (4,)], "cuda")
    kind, payload = unpack_image(attributes["image"])
    assert kind == CUDA
    entries = unpack_cuda_payload(payload)
    assert {80, 90, 100, 120} <= {e.arch for e in entries}
    assert {e.kind for e in entries} == {1, 2}
    assert attributes["index_bits"] == 32
    assert attributes["block"] == 256
    large = plan.launch.replace(grid=(2**30,), results=((2**30,),))
    assert call_attributes(large, [(), (2**30,), (2**30,)], "cuda")["index_bits"] == 64


@needs_nvrtc
def test_a_jitted_program_has_machine_code_for_the_present_device_only(monkeypatch):
    """PTX takes a third of the time of the compiler, and only devices newer than it need PTX."""
    newest = nvrtc.supported_architectures()[-1]

    def targets(capability: str, is_for_export: bool):
        device = types.SimpleNamespace(compute_capability=capability, device_kind="one")
        monkeypatch.setattr(jax, "local_devices", lambda backend: [device, device])
        return _targets(lowering._gpus(is_for_export))

    assert targets("9.0", False) == ((90,), ())
    assert targets("9.0", True) == ((90,), (90,))
    assert targets("99.0", False) == ((), (newest,))


CACHED = """
    import sys, jax, jax.numpy as jnp
    import jaxwarp as wp
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    hits = []
    jax.monitoring.register_event_listener(lambda event, **_: hits.append(event))

    @wp.kernel
    def triple(x: wp.array[float], out: wp.array[float]):
        i = wp.tid()
        out[i] = 3.0 * x[i]

    @jax.jit
    def program(x):
        return wp.jax_kernel(triple)(x)[0]

    x = jnp.asarray(__import__("numpy").arange(4.0, dtype="float32"))
    hits.clear()
    assert program(x).tolist() == [0, 3, 6, 9]
    print(sum(e == "/jax/compilation_cache/cache_hits" for e in hits))
"""


def test_the_persistent_compilation_cache_hits_across_processes(tmp_path):
    source = tmp_path / "tracing.py"
    source.write_text(textwrap.dedent(CACHED))
    environment = {**os.environ, "JAX_PLATFORMS": "cpu", "JAX_COMPILATION_CACHE_DIR": str(tmp_path / "cache")}
    counts = []
    for _ in range(2):
        result = subprocess.run(
            [sys.executable, source], capture_output=True, text=True, timeout=120, check=False, env=environment
        )
        assert result.returncode == 0, result.stderr
        counts.append(int(result.stdout))
    assert counts == [0, 1]


def damaged(image, how):
    payload = image[56:]
    match how:
        case "altered":
            return image[:-1] + bytes([image[-1] ^ 1])
        case "truncated":
            return image[:-10]
        case "empty":
            return b""
        case "another format":
            return image[:8] + struct.pack("<I", 99) + image[12:]
        case "another kind":
            return image[:12] + struct.pack("<I", 2) + image[16:]
        case "not bitcode":
            garbage = b"\x00" * len(payload)
            return image[:24] + hashlib.sha256(garbage).digest() + garbage
        case _:
            raise AssertionError(how)


@pytest.mark.parametrize("how", ["altered", "truncated", "empty", "another format", "another kind", "not bitcode"])
def test_a_damaged_image_is_refused(how, monkeypatch):
    from jaxwarp.ffi import lowering

    x = jnp.ones(4)
    real = lowering._image
    monkeypatch.setattr(lowering, "_image", lambda *code: damaged(real(*code), how))
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"image|bitcode"):
        jax.block_until_ready(jax.jit(lambda x: call(1.0, x, x)[0] + 1.0)(x))
    monkeypatch.undo()
    np.testing.assert_array_equal(jax.jit(lambda x: call(1.0, x, x)[0] + 2.0)(x), 4)


def test_a_damaged_extent_is_refused():
    """One that is as good as any other, but beyond the arrays: an exported file has it as eight bytes."""
    x = jnp.ones(12345)
    whole = exported(call, jnp.float32(0), x, x).serialize()
    extent = struct.pack("<q", 12345)
    assert extent in whole
    damaged = export.deserialize(whole.replace(extent, struct.pack("<q", 12345 << 20)))
    with pytest.raises(jax.errors.JaxRuntimeError, match="attributes of the call are damaged"):
        jax.block_until_ready(damaged.call(jnp.float32(0), x, x))


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda p: wp.Mesh(p, np.zeros((1, 3), np.int32)), "Mesh: points"),
        (lambda p: wp.Mesh(np.eye(3, dtype=np.float32), p.astype("int32")), "Mesh: indices"),
        (lambda p: wp.Bvh(p, p), "Bvh: lowers"),
        (wp.Texture2D, "Texture2D: data"),
    ],
)
def test_what_depends_on_sizes_has_known_ones(make, name):
    (n,) = export.symbolic_shape("n")
    given = jax.ShapeDtypeStruct((n, 3), np.float32)
    with pytest.raises(KernelValueError, match=rf"{name}: expected extents that are numbers, got the shape \(n, 3\)"):
        export.export(jax.jit(make), disabled_checks=wp.export_checks())(given)
