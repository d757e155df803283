"""`register_ffi_callback`: Python functions that XLA calls, on its buffers."""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
import threading
from ctypes import CFUNCTYPE, c_void_p, cast

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from native import frames

import jaxwarp as wp
from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.ffi.callbacks import callback as module
from jaxwarp.native.library import counter, find_library

X = np.arange(6, dtype=np.float32)


@wp.kernel
def scale(a: wp.array[float], s: float, out: wp.array[float]):
    i = wp.tid()
    out[i] = a[i] * s


@wp.kernel
def scale_vec(a: wp.array[wp.vec2], s: float, out: wp.array[wp.vec2]):
    i = wp.tid()
    out[i] = a[i] * s


@wp.kernel
def double_up(a: wp.array[wp.float64], out: wp.array[wp.float64]):
    i = wp.tid()
    out[i] = a[i] + a[i]


def copy_over(inputs, outputs, attrs, ctx):
    np.copyto(outputs[0].numpy(), inputs[0].numpy())


def call(name, func, out, *args, **attrs):
    wp.register_ffi_callback(name, func)
    return jax.ffi.ffi_call(name, out)(*args, **attrs)


def like(x):
    return jax.ShapeDtypeStruct(x.shape, x.dtype)


def message(name, func, out=None, *args, **attrs):
    """The text of the error that JAX raises for a callback."""
    with pytest.raises(jax.errors.JaxRuntimeError) as caught:
        jax.block_until_ready(call(name, func, out or like(X), *(args or (X,)), **attrs))
    return str(caught.value)


def test_documented_program():
    def program(inputs, outputs, attrs, ctx):
        a, b = inputs
        wp.launch(scale, dim=a.shape, inputs=[a, attrs["scale"]], outputs=[outputs[0]])
        wp.launch(scale_vec, dim=b.shape[0], inputs=[b, attrs["scale"]], outputs=outputs[1])

    b = X.reshape(3, 2)
    wp.register_ffi_callback("documented", program)
    run = jax.jit(lambda a, b: jax.ffi.ffi_call("documented", [like(X), like(b)])(a, b, scale=2.0))
    for _ in range(3):
        c, d = run(X, b)
        np.testing.assert_array_equal(c, 2 * X)
        np.testing.assert_array_equal(d, 2 * b)


def test_warp_spelling():
    from jaxwarp.jax_experimental import register_ffi_callback

    assert register_ffi_callback is wp.register_ffi_callback


DTYPES = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "bfloat16",
          "float32", "float64", "complex64", "float8_e4m3fn", "float8_e5m2"]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (3, 2)])
def test_types(dtype, shape):
    seen = []

    def inspect(inputs, outputs, attrs, ctx):
        for buffer in (inputs[0], outputs[0]):
            view = np.asarray(buffer)
            assert view.ctypes.data == buffer.ptr
            assert view.dtype == buffer.dtype
            assert view.strides == buffer.strides
            assert view.flags.writeable == (buffer is outputs[0])
            assert len(buffer) == shape[0] if shape else buffer.ndim == 0
        seen.append((str(inputs[0].dtype), inputs[0].shape, inputs[0].ndim, inputs[0].size))
        copy_over(inputs, outputs, attrs, ctx)

    with jax.enable_x64(True):
        x = jnp.asarray(np.arange(int(np.prod(shape))).reshape(shape) % 2, dtype)
        y = call(f"types_{dtype}_{len(shape)}", inspect, like(x), x)
        assert y.dtype == x.dtype
        assert seen == [(dtype, shape, len(shape), x.size)]
        assert np.asarray(x).tobytes() == np.asarray(y).tobytes()


def test_dlpack_both_ways():
    def inspect(inputs, outputs, attrs, ctx):
        assert inputs[0].__dlpack_device__() == (1, 0)
        view = np.from_dlpack(outputs[0])
        view[:] = np.asarray(inputs[0]) + 1
        assert view.ctypes.data == outputs[0].ptr

    np.testing.assert_array_equal(call("dlpack", inspect, like(X), X), X + 1)


def test_attributes_and_context():
    seen = []

    def inspect(inputs, outputs, attrs, ctx):
        seen.append((attrs, ctx))
        copy_over(inputs, outputs, attrs, ctx)

    array = np.array([1.5, 2.5], np.float32)
    attributes = {"i": 3, "f": 2.5, "b": True, "n": np.int32(-7), "text": "grüße", "a": array}
    attributes["nested"] = {"x": 1, "y": "deep"}
    call("attributes", inspect, like(X), X, **attributes).block_until_ready()
    ((attrs, ctx),) = seen
    given = attrs.pop("a")
    assert given.dtype == np.float32
    np.testing.assert_array_equal(given, array)
    del attributes["a"]
    assert attrs == attributes
    assert [type(attrs[name]) for name in "ifbn"] == [int, float, bool, int]
    assert (ctx.platform, ctx.device_ordinal, ctx.stream) == ("cpu", 0, None)


def test_64_bit_data_without_x64():
    """What a callback launches on does not go through JAX."""

    def program(inputs, outputs, attrs, ctx):
        work = np.full(6, 1e-300)
        wp.launch(double_up, 6, inputs=[work.copy()], outputs=[work])
        np.copyto(outputs[0].numpy(), work * 1e300)

    np.testing.assert_array_equal(call("doubles", program, like(X), X), np.full(6, 2.0, np.float32))


def test_empty_launch():
    def program(inputs, outputs, attrs, ctx):
        view = np.asarray(inputs[0])
        assert (view.shape, view.dtype, inputs[0].size) == ((0, 2), np.float32, 0)
        wp.launch(scale, dim=0, inputs=[np.zeros(0, np.float32), 2.0], outputs=outputs)
        outputs[0].numpy()[:] = 5

    assert call("empty", program, like(X), np.zeros((0, 2), np.float32)).tolist() == [5.0] * 6


def test_exceptions_arrive_with_type_text_and_line():
    class Odd(Exception):
        def __str__(self):
            raise ValueError

    def fails(inputs, outputs, attrs, ctx):
        raise {"v": ValueError("no\0 such ü"), "k": KeyboardInterrupt(), "o": Odd()}[attrs["kind"]]

    line = fails.__code__.co_firstlineno + 1
    text = message("fails", fails, kind="v")
    assert "callback fails: ValueError: no? such ü\n" in text
    assert f"test_callbacks.py:{line}, in fails" in text
    assert "callback fails: KeyboardInterrupt" in message("fails", fails, kind="k")
    assert "callback fails: Odd\n" in message("fails", fails, kind="o")
    # The program still runs afterwards.
    np.testing.assert_array_equal(call("fails", copy_over, like(X), X), X)


def test_errors_of_launches():
    def wrong(inputs, outputs, attrs, ctx):
        a, out = inputs[0], outputs[0]
        match attrs["case"]:
            case "dtype":
                wp.launch(scale, 6, inputs=[np.arange(6), 2.0], outputs=[out])
            case "input":
                wp.launch(scale, 6, inputs=[out, 2.0], outputs=[a])
            case "overlap":
                wp.launch(scale, 6, inputs=[np.asarray(out)[::-1], 2.0], outputs=[out])
            case "list":
                wp.launch(scale, 6, inputs=[a, 2.0], outputs=[[0.0] * 6])
            case "readonly":
                wp.launch(scale, 6, inputs=[out, 2.0], outputs=[np.asarray(a)])
            case "copy":
                wp.copy(a, out)
            case "type":
                wp.zeros_like(np.zeros(3, complex))

    written = "kernel scale: argument 'out' is written by the kernel"
    expected = {
        "dtype": "kernel scale: argument 'a': expected float32 of shape (?,), got int64 of shape (6,)",
        "input": f"{written}, but it is input 0, an input of the callback",
        "overlap": f"{written}, and shares memory with argument 'a'",
        "list": "kernel scale: argument 'out': expected float32 of shape (?,), got list",
        "readonly": f"{written}, but it is a read-only array",
        "copy": "input 0 is an input and cannot be written",
        "type": "zeros_like: expected an array of a type of the kernel language, got array([",
    }
    for case, text in expected.items():
        got = message("wrong", wrong, case=case)
        assert f"callback wrong: KernelTypeError: {text}" in got
        assert "test_callbacks.py:" in got


def test_arrays_may_be_strided():
    def program(inputs, outputs, attrs, ctx):
        wp.launch(scale, 3, inputs=[np.arange(12, dtype=np.float32)[::4], 1.0], outputs=[np.asarray(outputs[0])[::2]])
        wp.launch(scale, 3, inputs=[inputs[0][::-2], 1.0], outputs=[outputs[0][1::2]])

    np.testing.assert_array_equal(call("strided", program, like(X), X), [0, 5, 4, 3, 8, 1])


def test_new_arrays_copies_and_fills():
    def program(inputs, outputs, attrs, ctx):
        a, (out, second) = inputs[0], outputs
        work = wp.zeros_like(a)
        wp.launch(scale, a.shape, inputs=[a, 2.0], outputs=[work])
        wp.copy(out, work, dest_offset=1, count=5)
        out[0:1].fill_(9)
        second.zero_()
        second[1:3] = wp.full(2, wp.vec2(1.0, 2.0), wp.vec2)
        host = np.zeros(6, np.float32)
        wp.copy(host, wp.clone(out))
        wp.copy(second[0], host[:2])

    c, d = call("arrays", program, [like(X), like(X.reshape(3, 2))], X)
    assert c.tolist() == [9, 0, 2, 4, 6, 8]
    assert d.tolist() == [[9, 0], [1, 2], [1, 2]]


def test_subnormal_numbers_are_not_flushed():
    def program(inputs, outputs, attrs, ctx):
        wp.launch(scale, 6, inputs=[inputs[0], 0.5], outputs=outputs)
        outputs[0].numpy()[3:] = inputs[0].numpy()[3:] * np.float32(0.5)

    small = np.full(6, 1.5e-38, np.float32)
    got = call("subnormal", program, like(X), small)
    assert got.view(jnp.int32).tolist() == (small * np.float32(0.5)).view(np.int32).tolist()


@pytest.mark.parametrize("dtype", ["bool", "int16", "uint8", "float16", "bfloat16", "float32", "complex64",
                                   "float8_e4m3fn"])  # fmt: skip
def test_dlpack_of_any_type(dtype):
    """Read back from the capsule itself: NumPy has no bfloat16."""

    def inspect(inputs, outputs, attrs, ctx):
        for versioned in (False, True):
            capsule = outputs[0][:, 1:].__dlpack__(max_version=(1, 0) if versioned else None)
            managed = frames.dlpack(capsule, versioned)
            tensor = managed.tensor
            assert (tensor.device_type, tensor.device_id, tensor.lanes, tensor.byte_offset) == (1, 0, 1, 0)
            assert (tensor.code, tensor.bits) == frames.DLPACK_TYPES[dtype]
            assert [tensor.shape[i] for i in range(tensor.ndim)] == [3, 1]
            assert [tensor.strides[i] for i in range(tensor.ndim)] == [2, 1]
            assert tensor.data == outputs[0].ptr + outputs[0].dtype.itemsize
        assert frames.dlpack(inputs[0].__dlpack__(max_version=(1, 1)), True).flags == 1
        with pytest.raises(BufferError, match="input 0: is read-only, which this version of DLPack cannot say"):
            inputs[0].__dlpack__()
        copied = frames.dlpack(inputs[0].__dlpack__(max_version=(1, 0), copy=True), True)
        assert (copied.flags, copied.tensor.data != inputs[0].ptr) == (2, True)
        with pytest.raises(BufferError, match=r"input 0: is on DLPack device \(1, 0\), not \(2, 0\)"):
            inputs[0].__dlpack__(dl_device=(2, 0))
        del capsule, managed, tensor
        copy_over(inputs, outputs, attrs, ctx)

    x = jnp.asarray(np.ones((3, 2)), dtype)
    before = counter("shared_tensors")
    call(f"dlpack_{dtype}", inspect, like(x), x).block_until_ready()
    assert counter("shared_tensors") == before


def test_a_view_that_outlives_the_callback():
    kept = []
    assert "callback outlives: KernelValueError: a view of input 0 outlives the callback" in message(
        "outlives", lambda inputs, *_: kept.append(inputs[0].numpy()[2:])
    )


def test_buffers_end_with_the_call():
    kept = []

    def keep(inputs, outputs, attrs, ctx):
        copy_over(inputs, outputs, attrs, ctx)
        kept.extend(inputs)

    call("keep", keep, like(X), X).block_until_ready()
    for use in (np.asarray, len, lambda b: b.shape, lambda b: b.ptr, lambda b: b.__dlpack__()):
        with pytest.raises(KernelValueError, match=r"^input 0 is used after its callback has returned\n"):
            use(kept[0])


def test_a_name_registered_again_has_the_new_function():
    def plus(n):
        def func(inputs, outputs, attrs, ctx):
            np.add(inputs[0], np.float32(n), out=outputs[0].numpy())

        return func

    wp.register_ffi_callback("again", plus(1))
    run = jax.jit(jax.ffi.ffi_call("again", like(X)))
    np.testing.assert_array_equal(run(X), X + 1)
    wp.register_ffi_callback("again", plus(2))
    np.testing.assert_array_equal(run(X), X + 2)


def test_refused_registrations():
    def refused(error, *args, **kwargs):
        with pytest.raises(error) as caught:
            wp.register_ffi_callback(*args, **kwargs)
        assert caught.value.hint
        return str(caught.value)

    start = "register_ffi_callback"
    assert refused(KernelTypeError, 3, copy_over).startswith(f"{start}: name: expected a string, got 3\n")
    assert refused(KernelTypeError, "f", 3).startswith(f"{start} f: expected a Python function, got 3\n")
    for name in ("", "jaxwarp_launch"):
        expected = f"{start}: name: {name!r} cannot be used; choose another one"
        assert refused(KernelValueError, name, copy_over).startswith(expected + "\n")
    wp.register_ffi_callback("graphs", copy_over)
    assert refused(KernelValueError, "graphs", copy_over, graph_compatible=False) == (
        f"{start} graphs: graph_compatible: the name is registered with True, which cannot be changed\n"
        "  hint: register the function under another name"
    )


def test_a_name_of_somebody_else():
    jax.devices()  # once a backend runs, registrations are checked at once
    wp.register_ffi_callback("mine", copy_over)
    handler = module._entries["mine"].target.handlers["cpu"]
    jax.ffi.register_ffi_target("theirs", jax.ffi.pycapsule(handler), platform="cpu")
    with pytest.raises(KernelValueError, match=r"^register_ffi_callback theirs: XLA refuses the name: "):
        wp.register_ffi_callback("theirs", copy_over)
    assert "theirs" not in module._entries


def test_each_device_has_its_number():
    seen = []

    def program(inputs, outputs, attrs, ctx):
        seen.append(ctx.device_ordinal)
        copy_over(inputs, outputs, attrs, ctx)

    wp.register_ffi_callback("devices", program)
    devices = jax.devices()
    run = jax.jit(jax.ffi.ffi_call("devices", like(X)))
    for device in devices:
        np.testing.assert_array_equal(run(jax.device_put(X, device)), X)
    assert seen == list(range(len(devices)))


def test_after_a_callback_arrays_are_outside_of_jax_again():
    call("inside", copy_over, like(X), X).block_until_ready()
    made = wp.zeros(6)
    wp.launch(scale, 6, inputs=[X, 2.0], outputs=[made])
    np.testing.assert_array_equal(made.numpy(), 2 * X)


def test_many_threads_one_failing():
    def program(inputs, outputs, attrs, ctx):
        if np.asarray(inputs[0])[0] == 3:
            raise ValueError("thread three")
        wp.launch(scale, 6, inputs=[inputs[0], 2.0], outputs=outputs)

    wp.register_ffi_callback("threads", program)
    run = jax.jit(jax.ffi.ffi_call("threads", like(X)))
    outcomes = {}

    def work(n):
        try:
            for _ in range(20):
                outcomes[n] = np.asarray(run(X + n))
        except Exception as error:
            outcomes[n] = error

    threads = [threading.Thread(target=work, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert "ValueError: thread three" in str(outcomes.pop(3))
    assert len(outcomes) == 5
    for n, y in outcomes.items():
        np.testing.assert_array_equal(y, 2 * (X + n))


def test_in_loops_and_under_vmap():
    def program(inputs, outputs, attrs, ctx):
        wp.launch(scale, 6, inputs=[inputs[0], 2.0], outputs=outputs)

    wp.register_ffi_callback("mapped", program)
    double = jax.ffi.ffi_call("mapped", like(X), vmap_method="sequential")
    rows = np.stack([X, X + 1, X + 2])
    np.testing.assert_array_equal(jax.vmap(double)(rows), 2 * rows)
    np.testing.assert_array_equal(jax.lax.fori_loop(0, 10, lambda i, x: double(x), jnp.asarray(X)), 1024 * X)


def test_calls_leave_nothing_behind():
    wp.register_ffi_callback("leaves", copy_over)
    run = jax.jit(lambda x: jax.ffi.ffi_call("leaves", like(X))(x, k=1, a=np.ones(3)))

    def objects():
        for _ in range(200):
            run(X).block_until_ready()
        gc.collect()
        return len(gc.get_objects())

    objects()
    before = objects()
    assert objects() - before < 100
    entries = len(module._entries)
    for _ in range(50):
        wp.register_ffi_callback("leaves", lambda *args: None)
    assert len(module._entries) == entries


def test_a_process_that_ends_early():
    code = (
        "import jax, numpy as np, jaxwarp as wp, time\n"
        "def slow(i, o, a, c): time.sleep(0.3); o[0].numpy()[:] = 1\n"
        "wp.register_ffi_callback('slow', slow)\n"
        "x = np.ones(4, np.float32)\n"
        "y = jax.jit(jax.ffi.ffi_call('slow', jax.ShapeDtypeStruct(x.shape, x.dtype)))(x)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


# Frames built by hand: what XLA does on CUDA, where there is none.


@pytest.fixture
def xla(tmp_path):
    """XLA around the handlers of callbacks."""

    class Runtime(frames.Runtime):
        def handler(self, name):
            target, platform = name.split()
            address = cast(module._entries[target].target.handlers[platform], c_void_p).value
            return lambda frame: CFUNCTYPE(c_void_p, c_void_p)(address)(cast(frame, c_void_p))

    return Runtime(find_library(), tmp_path / "copy.so")


@pytest.mark.parametrize("is_compatible", [True, False])
def test_metadata(xla, is_compatible):
    name = f"metadata_{is_compatible}"
    wp.register_ffi_callback(name, copy_over, graph_compatible=is_compatible)
    assert xla.metadata(f"{name} CUDA").traits == is_compatible
    answer = xla.metadata(f"{name} cpu")
    assert (answer.traits, answer.state_type) == (0, 0)
    assert answer.version.struct_size == ctypes.sizeof(frames.Version)


def test_on_cuda(xla):
    seen = []

    def program(inputs, outputs, attrs, ctx):
        seen.append((ctx, attrs, inputs[0].__cuda_array_interface__, outputs[0].__cuda_array_interface__))
        assert not hasattr(inputs[0], "__array_interface__")

    wp.register_ffi_callback("on_cuda", program)
    xla.device = 3
    buffers = {"operands": [("float32", (6,), 0x1000)], "results": [("bool", (2, 3), 0x2000)]}
    execute = "on_cuda CUDA", frames.EXECUTE, 1
    xla.call(*execute, {"n": 0, "data": b"\xff\x00", "list": [1, 2]}, **buffers)
    ((ctx, attrs, a, b),) = seen
    assert (ctx.platform, ctx.device_ordinal, ctx.stream) == ("cuda", 3, frames.STREAM)
    common = {"strides": None, "version": 3, "stream": frames.STREAM}
    assert a == {"shape": (6,), "typestr": "<f4", "data": (0x1000, True), **common}
    assert b == {"shape": (2, 3), "typestr": "|b1", "data": (0x2000, False), **common}
    assert attrs["data"] == b"\xff\x00"
    assert attrs["list"].tolist() == [1, 2]
    assert xla.errors == {}


def test_other_stages_and_unknown_types(xla, monkeypatch):
    calls = []
    wp.register_ffi_callback("stages", lambda *args: calls.append(args))
    xla.call("stages cpu", frames.INITIALIZE, 1)
    assert calls == []
    xla.call("stages cpu", frames.EXECUTE, 1)
    assert len(calls) == 1
    monkeypatch.setitem(frames.BYTES_OF, "int4", (21, 1))
    with pytest.raises(frames.Refused, match="input 0: a callback cannot have XLA's element type number 21"):
        xla.call("stages cpu", frames.EXECUTE, 1, operands=[("int4", (2,), 0x1000)])


def test_results_that_are_returned_and_not_written():
    """As for jax.pure_callback: the outputs would hold anything."""
    wp.register_ffi_callback("returns_results", lambda inputs, outputs, attrs, ctx: np.sort(inputs[0].numpy()).copy())
    call = jax.ffi.ffi_call("returns_results", jax.ShapeDtypeStruct((3,), np.float32))
    with pytest.raises(Exception, match="expected a function that returns nothing, it returned ndarray"):
        jax.block_until_ready(call(np.ones(3, np.float32)))
