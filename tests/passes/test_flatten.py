"""Launches over short rows run over their elements where that is the same, and as they are where it is not."""

from __future__ import annotations

import random

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from language import define

import jaxwarp as wp
from jaxwarp.codegen.abi import MERGED
from jaxwarp.codegen.cpu import run_cpu
from jaxwarp.ffi.lowering import call_attributes
from jaxwarp.ffi.primitive import launch_p
from jaxwarp.ir.interpret import interpret
from jaxwarp.ir.verify import verify
from jaxwarp.launches.code import CodeKey, code_of
from jaxwarp.passes import pipeline
from jaxwarp.passes.pipeline import prepared

RNG = np.random.default_rng(0)


@wp.kernel
def twice(x: wp.array2d[float], o: wp.array2d[float]):
    i, j = wp.tid()
    o[i, j] = 2.0 * x[i, j] + 1.0


@wp.kernel
def weighted(x: wp.array3d[float], w: wp.array[float], s: float, o: wp.array3d[float]):
    i, j, k = wp.tid()
    total = float(0.0)  # noqa: UP018  (a variable of loops)
    for n in range(w.shape[0]):
        total += w[n] * x[i, j, k]
    if x[i, j, k] > 0.5:
        total = total * s
    o[i, j, k] = total


@wp.kernel
def update(x: wp.array2d[float], y: wp.array2d[float]):
    i, j = wp.tid()
    y[i, j] = y[i, j] * 0.5 + x[i, j]


@wp.kernel
def adding(x: wp.array2d[float], total: wp.array[float]):
    i, j = wp.tid()
    wp.atomic_add(total, 0, x[i, j])


@wp.kernel
def rows(x: wp.array2d[float], total: wp.array[float]):
    i, j = wp.tid()
    wp.atomic_add(total, i, x[i, j])


@wp.kernel
def transposed(x: wp.array2d[float], o: wp.array2d[float]):
    i, j = wp.tid()
    o[j, i] = x[i, j]


@wp.kernel
def numbered(x: wp.array2d[float], o: wp.array2d[float]):
    i, j = wp.tid()
    o[i, j] = x[i, j] + float(j)


@wp.kernel
def sized(x: wp.array2d[float], o: wp.array2d[float]):
    i, j = wp.tid()
    o[i, j] = x[i, j] * float(x.shape[1])


@wp.kernel
def carried(x: wp.array2d[float], o: wp.array2d[float]):
    i, j = wp.tid()
    k = j
    if x[i, j] > 0.5:
        k = 0
    o[i, j] = x[i, k]


@wp.kernel
def vectors(x: wp.array2d[wp.vec3], o: wp.array2d[wp.vec3]):
    i, j = wp.tid()
    o[i, j] = 2.0 * x[i, j]


@wp.kernel
def diagonal(x: wp.array3d[float], o: wp.array2d[float]):
    i, j = wp.tid()
    o[i, j] = x[i, j, j]


def ranks(call, *args):
    """The ranks of the grids of the launches in the program."""
    text = jax.jit(call).lower(*args).as_text()
    return [line.split("grid = dense<")[1].split("tensor<")[1].split("x")[0] for line in text.splitlines()
            if "@jaxwarp_launch" in line]  # fmt: skip


def floats(*shape):
    return RNG.uniform(0, 1, shape).astype(np.float32)


@pytest.mark.parametrize("shape", [(1000, 3), (7, 1), (2, 63), (1, 3), (0, 3), (5, 0), (1, 1), (50, 64)], ids=str)
def test_elements(shape):
    x = floats(*shape)
    call = lambda x: wp.jax_kernel(twice)(x)[0]  # noqa: E731
    np.testing.assert_array_equal(call(x), 2 * x + 1)
    short = shape[0] > 1 and 0 < shape[1] < 64
    assert ranks(call, x) == ["1" if short else "2"]


def test_three_axes_become_one():
    x, w = floats(20, 4, 3), np.array([0.5, 0.25, 1.0], np.float32)
    call = lambda x, w, s: wp.jax_kernel(weighted)(x, w, s)[0]  # noqa: E731
    want = np.where(x > 0.5, x * 1.75 * 3, x * 1.75)
    np.testing.assert_allclose(call(x, w, jnp.float32(3)), want, rtol=1e-6)
    assert ranks(call, x, w, jnp.float32(3)) == ["1"]
    batch = jax.vmap(call, in_axes=(0, None, 0))(np.stack([x, 1 - x]), w, np.array([3, 0.5], np.float32))
    np.testing.assert_allclose(batch[0], want, rtol=1e-6)
    gradient = jax.grad(lambda x: call(x, w, jnp.float32(3)).sum())(x)
    np.testing.assert_allclose(gradient, np.where(x > 0.5, 1.75 * 3, 1.75), rtol=1e-6)


def test_updated_in_place():
    """Over the donated buffer itself, of which XLA makes no copy."""
    x, y = floats(300, 3), floats(300, 3)
    call = wp.jax_kernel(update, in_out_argnames=["y"])
    np.testing.assert_array_equal(call(x, y)[0], y * np.float32(0.5) + x)
    assert ranks(lambda x, y: call(x, y)[0], x, y) == ["1"]
    copied = jax.jit(lambda x, y: call(x, y)[0], donate_argnums=1).lower(x, y).compile().as_text()
    assert "copy(" not in copied


def test_sums_of_all():
    x = np.round(floats(300, 3) * 64)
    call = wp.jax_kernel(adding, output_dims=1)
    assert call(x)[0] == x.sum()
    assert ranks(lambda x: call(x)[0], x) == ["1"]


def test_vectors_have_their_components():
    x = floats(40, 3, 3)
    call = lambda x: wp.jax_kernel(vectors)(x)[0]  # noqa: E731
    np.testing.assert_array_equal(call(x), 2 * x)
    assert ranks(call, x) == ["1"]


@pytest.mark.parametrize(
    ("kernel", "want", "dims", "rank"),
    [
        # Sums of rows, and places in memory that are a row's or a column's: lanes would gather.
        (rows, lambda x: np.round(x * 64).sum(1) / 64, 30, "2"),
        (transposed, lambda x: x.T, (3, 30), "2"),
        (carried, lambda x: np.where(x > 0.5, x[:, :1], x), (30, 3), "2"),
        # Values.
        (numbered, lambda x: x + np.arange(3, dtype=np.float32), (30, 3), "1"),
        (sized, lambda x: x * 3, (30, 3), "1"),
    ],
    ids=["rows", "transposed", "carried", "numbered", "sized"],
)
def test_indices_that_say_something_else(kernel, want, dims, rank):
    x = np.round(floats(30, 3) * 64) / 64
    call = wp.jax_kernel(kernel, launch_dims=(30, 3), output_dims=dims)
    np.testing.assert_array_equal(call(x)[0], want(x))
    assert ranks(lambda x: call(x)[0], x) == [rank]


def test_arrays_wider_than_the_launch():
    """Rows of five of which threads take three, and a thread index that is used twice."""
    x = floats(30, 5)
    call = wp.jax_kernel(twice, launch_dims=(30, 3), output_dims=(30, 3))
    np.testing.assert_array_equal(call(x)[0], 2 * x[:, :3] + 1)
    assert ranks(lambda x: call(x)[0], x) == ["2"]
    y = floats(30, 3, 3)
    call = wp.jax_kernel(diagonal, launch_dims=(30, 3), output_dims=(30, 3))
    np.testing.assert_array_equal(call(y)[0], np.einsum("ijj->ij", y))
    assert ranks(lambda y: call(y)[0], y) == ["2"]


def test_the_launch_itself_stays_as_it_is():
    """Only its lowering changes: what transformations see has both axes."""
    (equation,) = [e for e in jax.make_jaxpr(wp.jax_kernel(twice))(floats(30, 3)).eqns if e.primitive is launch_p]
    assert equation.params["launch"].grid == (30, 3)


@pytest.mark.parametrize("kernel", [twice, update, numbered, sized], ids=lambda k: k.key)
@pytest.mark.parametrize("columns", [1, 3, 8, 16])
def test_jitted_or_not_it_is_the_same_code(kernel, columns):
    shape = (40, columns)
    roles = wp.jax_kernel(kernel, in_out_argnames=["y"] if kernel is update else None)
    x = floats(*shape)
    (equation,) = [
        e for e in jax.make_jaxpr(roles)(*[x] * (2 if kernel is update else 1)).eqns if e.primitive is launch_p
    ]
    launch = equation.params["launch"]
    attributes = call_attributes(launch, [shape] * len(launch.operand_params), "cpu")
    eager = code_of(CodeKey(kernel.specialize(), True, shape, (shape, shape)))
    assert eager.bitcode in attributes["image"]
    assert list(attributes["grid"]) == list(eager.grid)
    assert len(eager.grid) == 1


def test_extents_of_merged_axes():
    """Of an array whose second and third axis are one, the code asks for their product."""

    @wp.kernel
    def last(x: wp.array4d[float], o: wp.array4d[float]):
        b, i, j = wp.tid()
        for n in range(x.shape[3]):
            o[b, i, j, n] = 2.0 * x[b, i, j, n]

    made = code_of(CodeKey(last.specialize(), True, (5, 7, 3), ((5, 7, 3, 2),) * 2))
    assert made.grid == (105,)
    assert made.shapes == ((105, 2), (105, 2))
    shapes = ((5, 9, 3, 2),) * 2
    partly = code_of(CodeKey(last.specialize(), True, (5, 7, 3), shapes))
    assert partly.grid == (5, 21)
    assert (0, 1 + MERGED) in partly.geometry
    assert partly.integers(shapes)[partly.geometry.index((0, 1 + MERGED))] == 27
    x, o = floats(5, 9, 3, 2), wp.zeros((5, 9, 3, 2), dtype=float)
    wp.launch(last, dim=(5, 7, 3), inputs=[wp.array(x)], outputs=[o])
    want = np.where((np.arange(9) < 7)[:, None, None], 2 * x, 0)
    np.testing.assert_array_equal(o.numpy(), want)
    call = wp.jax_kernel(last, launch_dims=(5, 7, 3), output_dims=(5, 9, 3, 2))
    np.testing.assert_array_equal(call(x)[0], want)


# fmt: off
READS = (
    "x[i, j]", "x[(i + 1) % x.shape[0], j]", "x[i, (j + 1) % x.shape[1]]", "x[wp.min(i + 1, x.shape[0] - 1), j]",
    "float(j)", "float(i)", "w[j]", "s[i]", "flat[i * COLUMNS + j]", "flat[j * ROWS + i]", "x[i, 0]",
    "float(i * COLUMNS + j)", "x[i, j - 1]",
    "float(x.shape[0] - x.shape[1])", "wide[i, j + 1]", "float((i * COLUMNS + j) % 5)", "float((i * 3 + j) // 4)",
)
TESTS = ("j > 0", "i + j < COLUMNS", "x[i, j] > 0.5", "i % 2 == 0", "w[j] > 0.5")
STORES = ("o[i, j] = ", "o[i, j] += ", "p[i * COLUMNS + j] = ", "q[j, i] = ")
HEADER = """
@wp.kernel
def k(x: wp.array2d[float], wide: wp.array2d[float], w: wp.array[float], s: wp.array[float], flat: wp.array[float],
      o: wp.array2d[float], p: wp.array[float], q: wp.array2d[float], total: wp.array[int]):
    i, j = wp.tid()
    v = float(0.0)
"""
# fmt: on


def random_kernel(rng: random.Random, rows: int, columns: int) -> str:
    """Statements of values, stores and sums; `x` of the launch's extents, `wide` of others."""
    lines = [HEADER.strip()]
    for _ in range(rng.randint(2, 5)):
        read = rng.choice(READS)
        match rng.randint(0, 4):
            case 0:
                lines += [f"    if {rng.choice(TESTS)}:", f"        v = v * 0.5 + {read}"]
            case 1:
                trips = rng.choice(("3", "x.shape[1]", "j + 1"))
                lines += [f"    for n in range({trips}):", f"        v += {read} * float(n)"]
            case 2:
                lines += [f"    {rng.choice(STORES)}v - {read}"]
            case 3:
                lines += [f"    wp.atomic_add(total, {rng.choice(('0', 'j', 'i'))}, int({read} * 4.0))"]
            case 4:
                lines += [f"    v += {read}"]
    lines += [f"    {rng.choice(STORES)}v"]
    return "\n".join(lines).replace("COLUMNS", str(columns)).replace("ROWS", str(rows))


@pytest.mark.parametrize("seed", range(40))
def test_random_kernels(seed):
    rng = random.Random(seed)
    rows, columns = rng.choice((2, 5, 17, 40)), rng.choice((1, 1, 2, 3, 4, 7, 16))
    source = random_kernel(rng, rows, columns)
    kernel = prepared(define(source)["k"].specialize(), True)
    shapes = [(rows, columns), (rows, columns + 1), (columns,), (rows,), (rows * columns,), (rows, columns),
              (rows * columns,), (columns, rows), (max(rows, columns),)]  # fmt: skip
    make = np.random.default_rng(seed).uniform
    arrays = [make(0, 1, shape).astype(p.dtype.numpy) for shape, p in zip(shapes, kernel.params, strict=True)]
    want = [a.copy() for a in arrays]
    interpret(kernel, (rows, columns), want)
    _, _, made, context = pipeline.on_cpu(kernel, (rows, columns), shapes, (), False)
    grid = context.threads
    verify(made)
    assert columns > 1 or len(grid) == 1
    again, on_cpu = [a.copy() for a in arrays], [a.copy() for a in arrays]
    merged = lambda arrays: [a.reshape(s) for a, s in zip(arrays, context.shapes, strict=True)]  # noqa: E731
    interpret(made, grid, merged(again))
    run_cpu(made, grid, merged(on_cpu), rng.choice((None, 8)))
    for expected, *found, param in zip(want, again, on_cpu, kernel.params, strict=True):
        for got in found:
            np.testing.assert_array_equal(got, expected, err_msg=f"{param.name}\n{source}")
