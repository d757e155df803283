"""Python functions on the memory of a GPU: what they ask of a driver whose memory is the host's, and what comes out.

Run as `python_scenarios.py FOLDER_FOR_COPIES`, with the driver of fake_memory.c found as libcuda.so.1. Prints the
traceback of every scenario as JSON, empty for those that hold.
"""

import ctypes
import json
import sys
import traceback
from ctypes import CFUNCTYPE, POINTER, c_int32, c_int64, c_uint, c_uint64, c_void_p, cast
from pathlib import Path

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from ffi import test_graph_none
from ffi.test_graph_none import X, accumulate, average, none, scale
from native import frames

import jaxwarp as wp
from jaxwarp.codegen.abi import index_bits_of
from jaxwarp.codegen.cpu import run_cpu
from jaxwarp.codegen.cuda import code_for
from jaxwarp.codegen.cuda.sums.reductions import MOST_BLOCKS
from jaxwarp.ffi import debug
from jaxwarp.ffi.callbacks import callback
from jaxwarp.ffi.programs import python_call
from jaxwarp.launches import on_memory
from jaxwarp.memory import cuda_scope
from jaxwarp.memory.region import Region
from jaxwarp.native.library import find_library
from jaxwarp.passes.pipeline import prepared

STREAM = f"stream {frames.STREAM:x}"
frames.BYTES_OF |= {"bfloat16": (16, 2), "float16": (10, 2), "uint8": (6, 1), "int16": (3, 2), "complex64": (15, 8)}


class Gpu(frames.Runtime):
    """XLA around the handlers, and the driver's log."""

    def __init__(self, folder):
        super().__init__(find_library(), folder / "copy.so")
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.driver.fake_log.restype = ctypes.c_char_p
        self.hook = CFUNCTYPE(None, c_void_p, c_uint, c_uint, POINTER(c_void_p))(self._launched)
        self.driver.fake_launched(self.hook)
        self.pending, self.failed = [], []
        original = debug.launch_on

        def launch(scope, key, operands):
            self.pending.append((key, operands))
            original(scope, key, operands)

        debug.launch_on = launch

    def _launched(self, _, blocks, threads, parameters):
        """Runs the CPU's code of a kernel, on what the driver was given for it; all of it is checked."""
        try:
            key, operands = self.pending.pop()
            kernel, grid, fma, cuda = key.kernel, key.grid, key.fma, key.options
            shapes = [o.shape if isinstance(o, Region) else np.shape(o) for o in operands]
            code = code_for(prepared(kernel, fma), grid, shapes, index_bits_of(grid, shapes), cuda)
            values = [grid[axis] if source < 0 else shapes[source][axis] for source, axis in code.geometry]
            number = c_int32 if code.index_bits == 32 else c_int64
            given = [cast(parameters[len(shapes) + i], POINTER(number))[0] for i in range(len(values) + 1)]
            total = int(np.prod(grid))
            assert given == [*values, total], (given, values, total)
            assert (blocks, threads) == (min(-(-total // cuda.block), code.most_blocks), cuda.block)
            buffers = []
            for i, (shape, param) in enumerate(zip(shapes, kernel.params, strict=True)):
                address = cast(parameters[i], POINTER(c_uint64))[0]
                size = int(np.prod(shape)) * param.dtype.numpy.itemsize
                memory = (ctypes.c_char * size).from_address(address)
                buffers.append(np.frombuffer(memory, param.dtype.numpy).reshape(shape))
            run_cpu(prepared(kernel, fma), grid, buffers)
        except BaseException:
            self.failed.append(traceback.format_exc())

    def handler(self, name):
        target = python_call._target if name == python_call.TARGET else callback._entries[name].target
        address = cast(target.handlers["CUDA"], c_void_p).value
        return lambda frame: CFUNCTYPE(c_void_p, c_void_p)(address)(cast(frame, c_void_p))

    def log(self):
        """The calls since the last look."""
        text = self.driver.fake_log().decode()
        self.driver.fake_forget()
        return text.splitlines()

    def execute(self, name, inputs, outputs, aliases=(), **attributes):
        """One execution; everything that was taken has been given back afterwards."""
        describe = lambda a: (a.dtype.name, a.shape, a.ctypes.data)  # noqa: E731
        operands, results = [describe(a) for a in inputs], [describe(a) for a in outputs]
        for source, target in aliases:
            operands[source] = results[target]
        try:
            self.call(name, frames.EXECUTE, 1, attributes, operands, results)
        finally:
            self.pending.clear()
            assert self.driver.fake_held() == 0, self.log()
            assert not self.errors
        assert not self.failed, self.failed.pop()

    def run(self, func, inputs, outputs, **attributes):
        """A callback; the calls, without those that make and load code."""
        wp.register_ffi_callback("scenario", func)
        self.log()
        self.execute("scenario", inputs, outputs, **attributes)
        return [line for line in self.log() if not line.startswith(("load", "kernel", "room"))]

    def refusal(self, func, inputs=(X,), outputs=(), **attributes):
        try:
            self.run(func, inputs, outputs, **attributes)
        except frames.Refused as refused:
            self.log()
            return str(refused)
        raise AssertionError("not refused")

    def call_none(self, function, args, options):
        """A call with GraphMode.NONE; its results."""
        arrays = [a for a in args if not isinstance(a, (int, float))]

        def program(*arrays):
            given = iter(arrays)
            return none(function, **options)(*(a if isinstance(a, (int, float)) else next(given) for a in args))

        equations = jax.make_jaxpr(program)(*arrays).eqns
        (call,) = [e.params["call"] for e in equations if "call" in e.params and e.primitive is python_call.call_p]
        kept = python_call._Kept(call)
        inputs = [np.array(a) for a in arrays]
        numbers = {p.name: n for n, p in enumerate(call.operands)}
        outputs = []
        for p in call.results:
            made = np.frombuffer(b"\xa5" * int(np.prod(p.shape)) * 4, np.float32).reshape(p.shape).copy()
            outputs.append(inputs[numbers[p.name]].copy() if p.role == python_call.IN_OUT else made)
        self.log()
        self.execute(python_call.TARGET, inputs, outputs, call.aliases.items(), key=kept.key.encode())
        return outputs


def launches(gpu):
    out = np.zeros(6, np.float32)

    def program(inputs, outputs, attrs, ctx):
        assert (ctx.platform, ctx.stream, ctx.device_ordinal) == ("cuda", frames.STREAM, 2)
        wp.launch(scale, 6, inputs=[inputs[0], attrs["s"]], outputs=outputs)
        wp.launch(average, 6, inputs=[outputs[0]], outputs=[wp.zeros(6)], block_dim=64)

    gpu.device = 2
    wp.register_ffi_callback("scenario", program)
    gpu.log()
    gpu.execute("scenario", [X], [out], s=2.5)
    first, second = gpu.log(), gpu.run(program, [X], [out], s=2.5)
    expected = [
        "retain 102",
        "load ELF",
        "kernel scale",
        "room 65536",
        f"alloc 16 {STREAM}",
        f"set32 40200000 x 1 {STREAM}",
        f"launch 1001 grid 1 block 256 {STREAM}",
        f"alloc 32 {STREAM}",
        f"set8 0 x 24 {STREAM}",
        "load ELF",
        "kernel average",
        f"launch 1002 grid 1 block 64 {STREAM}",
        f"free {STREAM}",
        f"free {STREAM}",
        "release 102",
    ]
    assert first == expected, first
    assert second == [line for line in expected if not line.startswith(("load", "kernel", "room"))], second
    np.testing.assert_array_equal(out, 2.5 * X)


@wp.kernel
def add_up(x: wp.array[float], total: wp.array[float]):
    wp.atomic_add(total, 0, x[wp.tid()])


def sums_have_their_blocks_go_round(gpu):
    """A block of a sum adds once at its end: there are no more of them than a GPU needs."""
    ones, total = np.ones(64 * MOST_BLOCKS + 1, np.float32), np.zeros(1, np.float32)

    def program(inputs, outputs, attrs, ctx):
        wp.launch(add_up, ones.size, inputs=inputs, outputs=outputs, block_dim=64)

    lines = gpu.run(program, [ones], [total])
    assert [line for line in lines if f"grid {MOST_BLOCKS} block 64" in line], lines
    assert total == ones.size


def programs_have_the_results_of_graph_mode_jax(gpu):
    for name, (function, args, options) in test_graph_none.PROGRAMS.items():
        expected = wp.jax_callable(function, **options)(*args)
        got = gpu.call_none(function, args, options)
        for a, b in zip(expected, got, strict=True):
            np.testing.assert_array_equal(a, b, err_msg=name)
        assert name == "empty" or gpu.log()


def no_temporary_outlives_a_call(gpu):
    """The stream, and the order, of one call with GraphMode.NONE."""

    def program(a: wp.array[float], s: float, out: wp.array[float]):
        assert isinstance(s, np.float32)
        if a.numpy()[1] == 1 and s == 2:
            wp.clone(a)
        wp.launch(scale, 6, [a, s], [out])

    (out,) = gpu.call_none(program, (X, jnp.float32(2)), {})
    np.testing.assert_array_equal(out, 2 * X)
    lines = [line for line in gpu.log() if not line.startswith(("load", "kernel", "launch", "room"))]
    synchronize = f"synchronize {frames.STREAM:x}"
    assert lines == [
        "retain 100",
        f"DtoH 4 {STREAM}",
        synchronize,
        f"set8 0 x 24 {STREAM}",
        f"DtoH 24 {STREAM}",
        synchronize,
        f"alloc 32 {STREAM}",
        f"set8 0 x 24 {STREAM}",
        f"DtoD 24 {STREAM}",
        f"alloc 16 {STREAM}",
        f"set32 40000000 x 1 {STREAM}",
        f"free {STREAM}",
        f"free {STREAM}",
        "release 100",
    ], lines


def values_by_value(gpu):
    @wp.kernel
    def many(i: wp.int8, v: wp.vec3, m: wp.mat22, d: wp.float64, b: wp.bool, out: wp.array[wp.float64]):
        k = wp.tid()
        if b:
            out[k] = wp.float64(v[k] + m[1, k]) + d + wp.float64(i)

    out = np.zeros(2)

    def program(inputs, outputs, attrs, ctx):
        m = np.array([[1, 2], [3, 4]], np.float32)
        wp.launch(many, 2, inputs=[-3, wp.vec3(1.0, 2.0, 3.0), m, 1e-300, True], outputs=outputs)

    lines = gpu.run(program, [], [out])
    np.testing.assert_array_equal(out, [1.0, 3.0])
    low, high = np.frombuffer(np.float64(1e-300).tobytes(), np.uint32)
    assert lines == [
        "retain 100",
        f"alloc 80 {STREAM}",
        f"set32 fd x 1 {STREAM}",
        f"set32 3f800000 x 1 {STREAM}",
        f"set32 40000000 x 1 {STREAM}",
        f"set32 40400000 x 1 {STREAM}",
        *(f"set32 {bits} x 1 {STREAM}" for bits in ("3f800000", "40000000", "40400000", "40800000")),
        f"set32 {int(low):x} x 1 {STREAM}",
        f"set32 {int(high):x} x 1 {STREAM}",
        f"set32 1 x 1 {STREAM}",
        f"launch {lines[-3].split()[1]} grid 1 block 256 {STREAM}",
        f"free {STREAM}",
        "release 100",
    ], lines


def fills_and_copies(gpu):
    def check(func, expected, calls, start=None):
        out = np.zeros((4, 6), np.float32) if start is None else start.copy()
        lines = gpu.run(lambda inputs, outputs, attrs, ctx: func(outputs[0]), [], [out])
        np.testing.assert_array_equal(out, expected)
        assert lines == ["retain 100", *(f"{c} {STREAM}" for c in calls), "release 100"], lines

    base = np.arange(24, dtype=np.float32).reshape(4, 6)

    def reference(change, start=None):
        out = np.zeros((4, 6), np.float32) if start is None else start.copy()
        change(out)
        return out

    def part(index, value):
        def change(out):
            out[index] = value

        return lambda out: out[index].fill_(value), reference(change)

    one = "3f800000"
    check(*part(slice(None), 1.0), [f"set32 {one} x 24"])
    check(*part(slice(1, 3), 1.0), [f"set32 {one} x 12"])
    check(*part((slice(None), 2), 1.0), [f"set32 {one} x 1 x 4 pitch 24"])
    check(*part((slice(1, 3), slice(1, 4)), 1.0), [f"set32 {one} x 3 x 2 pitch 24"])
    check(*part((slice(None, None, 2), slice(None, None, -3)), 1.0), [f"set32 {one} x 1 x 2 pitch 12"] * 2)
    check(*part((slice(None), slice(1, 2)), 0.0), ["set32 0 x 1 x 4 pitch 24"])
    check(*part((3, 5), 1.0), [f"set32 {one} x 1"])
    assert gpu.run(lambda i, o, a, c: o[0][3, 5:5].fill_(1), [], [base.copy()]) == []

    def moved(target, source):
        def change(out):
            out[target] = base[source]

        out = np.zeros((4, 6), np.float32)
        lines = gpu.run(lambda i, o, a, c: wp.copy(o[0][target], i[0][source]), [base], [out])
        np.testing.assert_array_equal(out, reference(change))
        return [line.removesuffix(f" {STREAM}") for line in lines[1:-1]]

    everything = slice(None)
    assert moved(everything, everything) == ["DtoD 96"]
    assert moved(slice(2, 4), slice(2)) == ["DtoD 48"]
    assert moved((everything, slice(2)), (everything, slice(3, 5))) == ["2D 8 x 4 pitches 24 24"]
    assert moved((everything, 0), (1, slice(4))) == ["2D 4 x 4 pitches 24 4"]
    assert moved((0, slice(4)), (everything, 5)) == ["2D 4 x 4 pitches 4 24"]
    assert moved((0, slice(4)), (slice(None, None, -1), 5)) == ["DtoD 4"] * 4
    assert moved(slice(None, None, -1), slice(None, None, -1)) == ["DtoD 96"]
    assert moved(slice(None, None, 2), slice(2)) == ["2D 24 x 2 pitches 48 24"]
    assert moved((slice(None, None, 2), slice(None, None, 3)), (slice(2), slice(2))) == ["2D 4 x 2 pitches 12 4"] * 2

    def shift(out):
        out[1:] = out[:-1].copy() if isinstance(out, np.ndarray) else out[:-1]

    check(shift, reference(shift, base), ["alloc 80", "DtoD 72", "DtoD 72", "free"], base)


def fills_of_every_type(gpu):
    for dtype, value, calls in [
        (wp.bool, True, ["set8 1 x 3"]),
        (wp.int8, -1, ["set8 ff x 3"]),
        (wp.int16, 258, ["set16 102 x 3"]),
        (wp.float16, 1.5, ["set16 3e00 x 3"]),
        (wp.bfloat16, 1.5, ["set16 3fc0 x 3"]),
        (wp.int64, -1, ["set8 ff x 24"]),
        (wp.int64, 2**33, ["set32 0 x 1 x 3 pitch 8", "set32 2 x 1 x 3 pitch 8"]),
        (wp.float64, 1.0, ["set32 0 x 1 x 3 pitch 8", "set32 3ff00000 x 1 x 3 pitch 8"]),
        (wp.uint64, 2**32 + 1, ["set32 1 x 6"]),
        (
            wp.vec3,
            wp.vec3(1.0, 2.0, 2.0),
            [f"set32 {b} x 1 x 3 pitch 12" for b in ("3f800000", "40000000", "40000000")],
        ),
        (wp.vec3, 2.0, ["set32 40000000 x 9"]),
    ]:
        found = []

        def program(inputs, outputs, attrs, ctx, dtype=dtype, value=value, found=found):
            found.append(wp.full(3, value, dtype).numpy())

        lines = gpu.run(program, [], [])
        scalar = dtype if hasattr(dtype, "numpy") else wp.float32
        assert found[0].dtype == scalar.numpy
        np.testing.assert_array_equal(found[0], np.broadcast_to(np.asarray(value, scalar.numpy), found[0].shape))
        assert lines[2].startswith("set8 0 x ")
        assert [line.removesuffix(f" {STREAM}") for line in lines[3:-4]] == calls, (dtype, lines)


def arrays_of_the_host(gpu):
    out, seen = np.zeros(6, np.float32), []

    def program(inputs, outputs, attrs, ctx):
        host = outputs[0].numpy()
        assert not host.flags.writeable
        outputs[0].assign(np.arange(6.0)[::-1])
        seen.append(np.asarray(outputs[0])[1:])
        outputs[0][::2] = inputs[0][3:].numpy()
        wp.launch(accumulate, 6, [np.ones(6, np.float32)], [outputs[0]])
        assert not hasattr(outputs[0], "__array_interface__")

    lines = gpu.run(program, [X], [out])
    wait = f"synchronize {frames.STREAM:x}"
    assert [line.removesuffix(f" {STREAM}") for line in lines if not line.startswith("launch")] == [
        "retain 100", "DtoH 24", wait, "HtoD 24", wait, "DtoH 24", wait, "DtoH 12", wait, "alloc 16", "HtoD 12", wait,
        "2D 4 x 3 pitches 8 4", "alloc 32", "set8 0 x 24", "HtoD 24", wait, "free", "free", "release 100",
    ], lines  # fmt: skip
    assert seen[0].tolist() == [4, 3, 2, 1, 0]
    assert out.tolist() == [9, 4, 4, 2, 5, 0]
    text = gpu.refusal(lambda i, o, a, c: wp.launch(scale, 6, [i[0], 2.0], [np.zeros(6, np.float32)]))
    assert "argument 'out' is written by the kernel: expected an array in the memory of the call, got ndarray" in text


def interfaces(gpu):
    half = np.zeros((2, 3), ml_dtypes.bfloat16)

    def program(inputs, outputs, attrs, ctx):
        x, b, out = inputs[0], inputs[1], outputs[0]
        wait = f"synchronize {frames.STREAM:x}"
        part = out[1:, ::2]
        assert part.__cuda_array_interface__ == {
            "shape": (1, 2), "typestr": "<f4", "data": (out.ptr + 12, False), "strides": (12, 8), "version": 3,
            "stream": frames.STREAM,
        }  # fmt: skip
        assert x.__cuda_array_interface__["data"] == (x.ptr, True)
        assert x.__cuda_array_interface__["strides"] is None
        with pytest.raises(AttributeError, match="input 1: __cuda_array_interface__ has no name for bfloat16; use"):
            b.__cuda_array_interface__  # noqa: B018
        assert x.__dlpack_device__() == (2, 1)
        gpu.log()
        for stream, waits in ((frames.STREAM, []), (-1, []), (7, [wait]), (None, [wait]), (1, [wait])):
            managed = frames.dlpack(b.__dlpack__(stream=stream, max_version=(1, 0)), True)
            assert [line for line in gpu.log() if not line.startswith("retain")] == waits, stream
            tensor = managed.tensor
            assert (managed.major, managed.flags) == (1, 1)
            assert (tensor.device_type, tensor.device_id, tensor.code, tensor.bits) == (2, 1, 4, 16)
            assert tensor.data == b.ptr
        assert frames.dlpack(part.__dlpack__(stream=-1), False).tensor.strides[1] == 2
        for options, text in (
            ({"copy": True}, "input 0: a copy of memory of a GPU is for the library that reads it to make"),
            ({"dl_device": (1, 0)}, "input 0: is on DLPack device (2, 1), not (1, 0)"),
        ):
            with pytest.raises(BufferError) as caught:
                x.__dlpack__(stream=-1, max_version=(1, 0), **options)
            assert str(caught.value) == text
        assert b.numpy().dtype == b.dtype == ml_dtypes.bfloat16

    gpu.device = 1
    gpu.run(program, [X, half], [np.zeros((2, 3), np.float32)])
    kept = []
    text = gpu.refusal(lambda i, o, a, c: kept.append(i[0].__dlpack__(stream=-1, max_version=(1, 0))))
    assert "a view of input 0 outlives the callback" in text


class Foreign:
    """An array of another library for CUDA."""

    def __init__(self, array, stream):
        self.array = array
        address = array.ctypes.data, not array.flags.writeable
        self.__cuda_array_interface__ = {
            "shape": array.shape, "typestr": array.dtype.str, "data": address, "strides": array.strides, "version": 3,
            "stream": stream,
        }  # fmt: skip


def arrays_of_other_libraries(gpu):
    other, out = np.arange(12, dtype=np.float32)[::2], np.zeros(6, np.float32)
    for stream, waits in ((None, []), (frames.STREAM, []), (7, ["synchronize 7"]), (1, ["synchronize 1"])):
        work = np.zeros(6, np.float32)

        def program(inputs, outputs, attrs, ctx, stream=stream, work=work):
            wp.launch(average, 6, [Foreign(other, stream)], [Foreign(work, None)])
            outputs[0].assign(Foreign(work, None))

        lines = gpu.run(program, [], [out])
        assert [line for line in lines if line.startswith("synchronize")] == waits
        expected = 0.5 * other + 0.25 * (np.roll(other, 1) + np.roll(other, -1))
        np.testing.assert_array_equal(out, expected)
    work.flags.writeable = False
    text = gpu.refusal(lambda i, o, a, c: wp.launch(scale, 6, [i[0], 2.0], [Foreign(work, None)]))
    assert "argument 'out' is written by the kernel, but it is a read-only array" in text


def documented_program(gpu):
    """The example of the interoperability page, with the device and the stream by their names in Warp."""
    b, c, d = X.reshape(3, 2).copy(), np.zeros(6, np.float32), np.zeros((3, 2), np.float32)

    @wp.kernel
    def scale_vec(a: wp.array[wp.vec2], s: float, output: wp.array[wp.vec2]):
        tid = wp.tid()
        output[tid] = a[tid] * s

    class JaxDevice:
        platform, local_hardware_id = "gpu", 0

    def warp_func(inputs, outputs, attrs, ctx):
        a, b = inputs
        s = attrs["scale"]
        c, d = outputs
        cuda_scope = wp.device_from_jax(JaxDevice())
        stream = wp.Stream(cuda_scope, cuda_stream=ctx.stream)
        with wp.ScopedStream(stream):
            wp.launch(scale, dim=a.shape, inputs=[a, s], outputs=[c])
            wp.launch(scale_vec, dim=b.shape[0], inputs=[b, s], outputs=[d])

    lines = gpu.run(warp_func, [X, b], [c, d], scale=2.0)
    np.testing.assert_array_equal(c, 2 * X)
    np.testing.assert_array_equal(d, 2 * b)
    assert not [line for line in lines if line.startswith("synchronize")]


def another_stream(gpu):
    out = np.zeros(6, np.float32)

    def program(inputs, outputs, attrs, ctx):
        outputs[0].fill_(1)
        with wp.ScopedStream(wp.Stream("cuda:0", cuda_stream=0x77)):
            wp.zeros(6)
            outputs[0].fill_(2)
        outputs[0].fill_(3)

    assert gpu.run(program, [], [out]) == [
        "retain 100",
        f"set32 3f800000 x 6 {STREAM}",
        f"synchronize {frames.STREAM:x}",
        "alloc 32 stream 77",
        "set8 0 x 24 stream 77",
        "set32 40000000 x 6 stream 77",
        "synchronize 77",
        f"set32 40400000 x 6 {STREAM}",
        "free stream 77",
        "release 100",
    ]

    def elsewhere(inputs, outputs, attrs, ctx):
        with wp.ScopedStream(wp.Stream("cuda:3", cuda_stream=0x77)):
            pass

    assert "is of another device than the call, which runs on cuda:0" in gpu.refusal(elsewhere)


def streams_of_other_libraries(gpu):
    """By CUDA's stream protocol, directly and through a Stream."""

    class Theirs:
        version = 0

        def __cuda_stream__(self):
            return self.version, 0x77

    def program(inputs, outputs, attrs, ctx):
        stream = Theirs()
        for given in (stream, wp.Stream(cuda_stream=stream), wp.Stream(cuda_stream=wp.Stream(cuda_stream=0x77))):
            with wp.ScopedStream(given) as used:
                outputs[0].fill_(1)
            assert used.__cuda_stream__() == (0, 0x77)

    out = np.zeros(6, np.float32)
    assert gpu.run(program, [], [out]).count("set32 3f800000 x 6 stream 77") == 3

    def newer(inputs, outputs, attrs, ctx):
        stream = Theirs()
        stream.version = 7
        with wp.ScopedStream(stream):
            pass

    assert "cuda_stream: expected the address of a CUDA stream" in gpu.refusal(newer)


def every_failure_is_told_and_leaks_nothing(gpu):
    out = np.zeros((2, 6), np.float32)

    def program(inputs, outputs, attrs, ctx):
        work = wp.full(6, 2.0)
        wp.launch(scale, 6, [work, attrs["s"]], [outputs[0][0]])
        outputs[0][:, 1].fill_(1)
        wp.full(2, 258, wp.int16)[::2].fill_(1)
        wp.full(4, 7, wp.int16).fill_(1)
        wp.full(4, True, wp.bool)[::2].fill_(False)
        wp.copy(outputs[0][:, 2], work[:2])
        wp.copy(outputs[0][1], work)
        work.assign(np.ones(6))
        work.numpy()

    for function in (
        "cuDeviceGet", "cuDeviceGetAttribute", "cuStreamIsCapturing", "cuMemAlloc",
        "cuDevicePrimaryCtxRetain", "cuCtxPushCurrent", "cuMemAllocAsync",
        "cuMemsetD8Async", "cuMemsetD32Async", "cuLibraryLoadData", "cuLibraryGetKernel", "cuLaunchKernelEx",
        "cuMemsetD2D32Async", "cuMemsetD16Async", "cuMemsetD2D8Async", "cuMemcpy2DAsync", "cuMemcpyDtoDAsync",
        "cuMemcpyHtoDAsync", "cuStreamSynchronize", "cuMemcpyDtoHAsync", "cuMemFreeAsync", "cuCtxPopCurrent",
        "cuDevicePrimaryCtxRelease",
    ):  # fmt: skip
        if function in ("cuLibraryLoadData", "cuLibraryGetKernel"):
            on_memory._kernels.clear()
            on_memory._kept.cache_clear()
            on_memory._loaded.clear()
        cuda_scope._slots.__init__()
        gpu.driver.fake_fail(function.encode())
        text = gpu.refusal(program, [], [out], s=2.0)
        assert text.startswith(f"callback scenario: CudaError: {function}"), text
        assert "failed: CUDA_ERROR_UNKNOWN (unknown error)" in text, text
    gpu.driver.fake_fail(b"")
    gpu.run(program, [], [out], s=2.0)

    def fails(inputs, outputs, attrs, ctx):
        wp.zeros(6)
        raise ValueError("the user's")

    assert "callback scenario: ValueError: the user's" in gpu.refusal(fails)
    gpu.driver.fake_fail(b"cuMemFreeAsync")  # the first error is told
    assert "callback scenario: ValueError: the user's" in gpu.refusal(fails)
    gpu.driver.fake_fail(b"")


def while_xla_captures(gpu):
    """No memory is made, and nobody waits; what is passed by value has a place of its own."""
    out = np.zeros(6, np.float32)

    def program(inputs, outputs, attrs, ctx):
        wp.launch(scale, 6, [inputs[0], attrs["s"]], [outputs[0]])
        wp.launch(scale, 3, [inputs[0][3:], 3.0], [outputs[0][:3]])
        outputs[0][4:].fill_(1)
        wp.copy(outputs[0][:3], inputs[0][:3])

    gpu.run(program, [X], [out], s=2.0)  # as XLA does before it captures
    expected = out.copy()
    gpu.driver.fake_capture(c_uint64(frames.STREAM))
    for _ in range(2):
        out[:] = 0
        lines = gpu.run(program, [X], [out], s=2.0)
        np.testing.assert_array_equal(out, expected)
        kinds = " ".join(line.split()[0] for line in lines)
        assert kinds == "retain set32 launch set32 launch set32 DtoD release", lines
    places = dict(cuda_scope._slots._places)
    assert len(places) == 2
    for what, func in {
        "no arrays can be made": lambda i, o, a, c: wp.zeros(3),
        "the host cannot wait for numbers": lambda i, o, a, c: i[0].numpy(),
        "parts of arrays that have gaps cannot be copied": lambda i, o, a, c: wp.copy(o[0][::2], i[0][:3]),
        "parts of arrays that have gaps cannot be filled": lambda i, o, a, c: o[0][::2].fill_(1),
    }.items():
        text = gpu.refusal(func, [X], [out])
        assert f"KernelValueError: XLA captures this call into a CUDA graph, in which {what}\n" in text
        assert "graph_compatible=False" in text
    while cuda_scope._slots._free[0][0] < cuda_scope._slots._free[0][1]:
        cuda_scope._slots.find(0, np.array([len(cuda_scope._slots._places), -1]))
    one_more = lambda i, o, a, c: wp.launch(scale, 6, [i[0], 5.0], o)  # noqa: E731
    assert "in which more values are passed to kernels than there is room for" in gpu.refusal(one_more, [X], [out])
    assert places.items() <= cuda_scope._slots._places.items()
    gpu.driver.fake_capture(c_uint64(0))
    gpu.run(program, [X], [out], s=2.0)


def use_after_the_call(gpu):
    kept = []
    gpu.run(lambda i, o, a, c: kept.extend([i[0], wp.zeros(3)]), [X], [])
    for array, name in zip(kept, ("input 0", "array 'zeros'"), strict=True):
        for use in (np.asarray, lambda a: a.fill_(1), lambda a: a.__cuda_array_interface__, lambda a: a.__dlpack__()):
            with pytest.raises(wp.errors.KernelValueError, match=f"^{name} is used after its callback has returned"):
                use(array)
    assert gpu.log() == []


SCENARIOS = [
    launches,
    sums_have_their_blocks_go_round,
    programs_have_the_results_of_graph_mode_jax,
    no_temporary_outlives_a_call,
    values_by_value,
    fills_and_copies,
    fills_of_every_type,
    arrays_of_the_host,
    interfaces,
    arrays_of_other_libraries,
    documented_program,
    another_stream,
    streams_of_other_libraries,
    every_failure_is_told_and_leaks_nothing,
    while_xla_captures,
    use_after_the_call,
]


def outcome(scenario, gpu):
    """The traceback of a scenario that fails, or nothing."""
    gpu.device = 0
    gpu.driver.fake_fail(b"")
    gpu.driver.fake_capture(c_uint64(0))
    try:
        scenario(gpu)
    except BaseException:
        return traceback.format_exc()
    return ""


if __name__ == "__main__":
    made = Gpu(Path(sys.argv[1]))
    print(json.dumps({s.__name__: outcome(s, made) for s in SCENARIOS}))
