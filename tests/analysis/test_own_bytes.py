"""Arrays of a thread's own have a bound, and a launch runs whatever stack its thread has."""

from __future__ import annotations

import linecache
import threading
from dataclasses import replace

import jax
import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp.builtins.scalar_ops import ROWS
from jaxwarp.codegen.cpu import compile as compiler
from jaxwarp.codegen.cpu.compile import compile_cpu
from jaxwarp.codegen.cpu.plan import width
from jaxwarp.codegen.cuda.emit import LOCAL_BYTES, print_cuda
from jaxwarp.errors import KernelValueError
from jaxwarp.ffi.primitive import bind_launch
from jaxwarp.ir.builder import Builder
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Param
from jaxwarp.launches.spec import OUTPUT, LaunchSpec, intern_kernel
from jaxwarp.passes.pipeline import prepare
from jaxwarp.types import float64, int32

SMALL_STACK = 2**17  # the arrays are on the heap


def table(elements: int) -> Kernel:
    """Each thread fills an array of its own, as far as its ends, and sums it."""
    out, own, build = Param("out", float64, (None,)), Param("own", float64, (elements,)), Builder()
    tid = build.tid(0)
    bounds = [build.const(n, int32) for n in (0, elements, 1)]
    number = build.call(ROWS["cast"], tid, dtype=float64)

    def fill(k):
        build.store(own, [k], number)
        return []

    def add(k, total):
        return [build.call(ROWS["add"], total, build.load(own, [k]))]

    build.for_(*bounds, [], fill)
    (total,) = build.for_(*bounds, [build.const(0.0, float64)], add)
    build.store(out, [tid], total)
    return replace(build.finish("table", 1, [out]), locals=(own,))


LARGEST = width.OWN_BYTES // 8


@pytest.mark.parametrize("elements", [LARGEST // 16, LARGEST // 4, LARGEST // 2, LARGEST])
def test_large_arrays_of_a_thread_need_no_stack(elements):
    found = []

    def launch():
        with jax.enable_x64(True):
            found.extend(bind_launch(LaunchSpec(intern_kernel(table(elements)), (40,), (OUTPUT,), ((40,),)), []))

    before = threading.stack_size(SMALL_STACK)
    try:
        thread = threading.Thread(target=launch)
        thread.start()
        thread.join()
    finally:
        threading.stack_size(before)
    np.testing.assert_array_equal(found[0], np.arange(40.0) * elements)


def test_lanes_are_as_many_as_fit():
    lanes = [compile_cpu(prepare(table(elements))).width for elements in (8, LARGEST // 2, LARGEST)]
    assert lanes[0] > 2
    assert lanes[1:] == [2, 1]


def test_more_is_refused():
    with pytest.raises(
        KernelValueError, match=f"kernel table: a thread has {8 * LARGEST + 8} bytes in arrays of its own"
    ):
        compile_cpu(prepare(table(LARGEST + 1)))
    with pytest.raises(KernelValueError, match="room for"):
        compile_cpu(prepare(table(LARGEST)), width=2)
    print_cuda(prepare(table(LOCAL_BYTES // 8)))
    with pytest.raises(KernelValueError, match=f"room for {LOCAL_BYTES}"):
        print_cuda(prepare(table(LOCAL_BYTES // 8 + 1)))


@wp.kernel
def loops(x: wp.array[float], n: int, y: wp.array[float]):
    i = wp.tid()
    a = x[i]
    for _ in range(n):
        a = wp.sin(a)
    v = wp.vec4(a, a, a, a)
    for _ in range(n):
        v = wp.cw_mul(v, v)
    y[i] = v[0] + v[3]


def test_a_reverse_sweep_says_which_loop_keeps_too_much(monkeypatch):
    for module in (compiler, width):
        monkeypatch.setattr(module, "OWN_BYTES", 1024)
    call = wp.jax_kernel(loops)
    with pytest.raises(KernelValueError, match="kernel loops_jvp_vjp: a thread has") as raised:
        jax.grad(lambda x: call(x, 5)[0].sum())(np.ones(3, np.float32))
    assert raised.value.loc is not None
    assert "cw_mul" in linecache.getline(raised.value.loc.file, raised.value.loc.line)
