"""Loops over tiles as launches of their own, see codegen/cpu/plan/tasks.py: the values of the interpreter."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tilekit import body_kernel

import jaxwarp as wp
from jaxwarp.codegen.cpu import run_cpu
from jaxwarp.codegen.cpu.compile import compile_cpu
from jaxwarp.codegen.cpu.plan.target import Machine
from jaxwarp.codegen.cpu.plan.tasks import find_tasks
from jaxwarp.ir.interpret import interpret
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Load, walk
from jaxwarp.ir.verify import verify
from jaxwarp.passes.hold_wide import hold_wide
from jaxwarp.passes.pipeline import prepare

AVX2, AVX512 = Machine("", "", "+avx2"), Machine("", "", "+avx512f")
RNG = np.random.default_rng(3)
PRODUCT = """
a = wp.tile_load(x, shape=(M, K), offset=(0, i * K))
b = wp.tile_load(y, shape=(K, N), offset=(i * K, 0))
c = wp.tile_zeros(shape=(M, N), dtype={accumulated})
wp.tile_matmul(a, b, c)
wp.tile_store(z, c, offset=(i * M, 0))
"""


def prepared(arguments: str, body: str, **names: Any) -> Kernel:
    return prepare(body_kernel(arguments, body, **names).specialize())


def product(dtype: str, accumulated: str, m: int, n: int, k: int) -> Kernel:
    arrays = ", ".join(f"{name}: wp.array2d[{dtype}]" for name in "xy")
    text = PRODUCT.format(accumulated=accumulated)
    return prepared(f"{arrays}, z: wp.array2d[{accumulated}]", text, M=m, N=n, K=k)


def is_right(kernel: Kernel, blocks: int, *arrays: np.ndarray, rtol: float = 0.0, has_tasks: bool = True) -> None:
    """Code with tasks leaves the arrays as the interpreter does; to the bit, if `rtol` is 0."""
    expected = [a.copy() for a in arrays]
    interpret(kernel, (blocks,), expected)
    for machine in (AVX2, AVX512):
        tasks = find_tasks(kernel, machine)
        assert bool(tasks) == has_tasks
        for task in tasks.values():
            verify(task.kernel)
        got = [a.copy() for a in arrays]
        assert (run_cpu(kernel, (blocks,), got, machine=machine).width == 1) == has_tasks
        for right, ours in zip(expected, got, strict=True):
            np.testing.assert_allclose(ours.astype(np.float64), right.astype(np.float64), rtol=rtol, atol=0)


@pytest.mark.parametrize(("m", "n", "k"), [(16, 16, 16), (17, 13, 9), (10, 9, 64), (26, 40, 4)])
def test_products(m: int, n: int, k: int):
    """Whole groups of rows and chunks of columns, and what is left of them."""
    are_right("float", m, n, k)


def test_products_in_double_precision():
    are_right("wp.float64", 17, 13, 9)


def are_right(dtype: str, m: int, n: int, k: int) -> None:
    number = np.float32 if dtype == "float" else np.float64
    x, y = (RNG.uniform(-1, 1, shape).astype(number) for shape in ((m, 3 * k - 1), (3 * k - 1, n)))
    is_right(product(dtype, dtype, m, n, k), 3, x, y, np.zeros((3 * m, n), number))


@pytest.mark.parametrize("accumulated", ["float", "wp.float16"])
def test_products_of_half_precision(accumulated: str):
    """Tiles in float32: no rounding is left out."""
    kernel = product("wp.float16", accumulated, 12, 20, 16)
    x, y = (RNG.uniform(-1, 1, shape).astype(np.float16) for shape in ((12, 32), (32, 20)))
    z = np.zeros((24, 20), np.float32 if accumulated == "float" else np.float16)
    is_right(kernel, 2, x, y, z)


def test_tiles_of_half_precision_are_loaded_without_conversions():
    kernel = product("wp.float16", "float", 12, 20, 16)
    made = verify(hold_wide(kernel))
    assert [p.dtype.name for p in made.locals] == ["float32"] * 3
    loaded = [op for op in walk(made.body) if isinstance(op, Load) and op.param in made.locals]
    assert loaded
    assert all(op.result.type.name == "float32" for op in loaded)
    arrays = [RNG.uniform(-1, 1, s).astype(t) for s, t in (((12, 32), "e"), ((32, 20), "e"), ((24, 20), "f"))]
    expected = [a.copy() for a in arrays]
    interpret(kernel, (2,), expected)
    interpret(made, (2,), arrays)
    np.testing.assert_array_equal(arrays[2], expected[2])


def test_sums_and_what_comes_from_outside():
    """A sum over a tile, a number that it makes, and the index of the thread in a loop."""
    kernel = prepared(
        "x: wp.array2d[float], y: wp.array2d[float], s: float",
        """
        t = wp.tile_load(x, shape=(1, 200), offset=(i, 0))
        u = wp.tile_map(wp.exp, t * s)
        total = wp.tile_sum(u)
        wp.tile_store(y, u * (1.0 / total[0]) + float(i), offset=(i, 0))
        """.replace("\n        ", "\n"),
    )
    x = RNG.uniform(-1, 1, (5, 190)).astype(np.float32)
    is_right(kernel, 5, x, np.zeros((5, 200), np.float32), np.array(0.5, np.float32), rtol=2e-6)


def test_loops_of_the_user_over_tiles():
    """Indices that begin later or skip some, bools and integers from outside, two arrays that are stored to."""
    kernel = prepared(
        "x: wp.array2d[float], y: wp.array2d[float], n: int",
        """
        t = wp.tile_load(x, shape=(64, 40), offset=(0, 0))
        u = wp.tile_zeros(shape=(64, 40), dtype=float)
        v = wp.tile_zeros(shape=(64, 40), dtype=float)
        is_odd = n % 2 == 1
        for r in range(1, 62, 3):
            for c in range(2, 38):
                u[r, c] = t[r, c - 1] + t[r, c + 1] if is_odd else float(c + n)
                v[r, c] = t[r, c] * 2.0
        wp.tile_store(y, u + v, offset=(64 * i, 0))
        """.replace("\n        ", "\n"),
    )
    x = RNG.uniform(-1, 1, (64, 40)).astype(np.float32)
    for n in (3, 4):
        is_right(kernel, 2, x, np.zeros((128, 40), np.float32), np.array(n, np.int32))


def test_arrays_that_may_be_one_buffer_keep_their_order():
    kernel = prepared(
        "x: wp.array[float], y: wp.array[float]",
        """
        t = wp.tile_zeros(shape=(300,), dtype=float)
        for k in range(299):
            y[k + 1] = x[k] + t[k]
        """.replace("\n        ", "\n"),
    )
    x = np.arange(300, dtype=np.float32)
    expected = x.copy()
    interpret(kernel, (1,), [expected, expected])
    assert (expected == 0).all()
    run_cpu(kernel, (1,), [x, x], machine=AVX2)
    np.testing.assert_array_equal(x, expected)


def test_who_has_no_tasks():
    """Kernels whose work is not in such loops, that add to arrays of others, or whose width is given."""
    body = "t = wp.tile_load(x, shape=(100,), offset=(100 * i,))\nwp.tile_atomic_add(y, t, offset=(0,))"
    kernel = prepared("x: wp.array[float], y: wp.array[float]", body)
    x = RNG.uniform(-1, 1, 300).astype(np.float32)
    is_right(kernel, 3, x, np.zeros(100, np.float32), rtol=1e-5, has_tasks=False)
    small = product("float", "float", 4, 4, 4)
    x, y = (RNG.uniform(-1, 1, shape).astype(np.float32) for shape in ((4, 12), (12, 4)))
    is_right(small, 3, x, y, np.zeros((12, 4), np.float32), has_tasks=False)
    assert compile_cpu(product("float", "float", 16, 16, 16), 8, AVX2).width == 8


def test_gradients_have_tasks():
    """The reverse sweep of a product adds to arrays of a thread's own."""
    kernel = body_kernel(
        "x: wp.array2d[float], y: wp.array2d[float], z: wp.array2d[float]",
        PRODUCT.format(accumulated="float"),
        M=16,
        N=24,
        K=8,
    )
    x, y = (RNG.uniform(-1, 1, shape).astype(np.float32) for shape in ((16, 8), (8, 24)))
    held: list[Any] = [wp.array(a, dtype=float, requires_grad=True) for a in (x, y, np.zeros((16, 24), np.float32))]
    with wp.Tape() as tape:
        wp.launch_tiled(kernel, dim=1, inputs=held[:2], outputs=held[2:], block_dim=32)
    ones = np.ones((16, 24), np.float32)
    tape.backward(grads={held[2]: wp.array(ones, dtype=float)})
    np.testing.assert_allclose(held[0].grad.numpy(), ones @ y.T, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(held[1].grad.numpy(), x.T @ ones, rtol=1e-5, atol=1e-5)
