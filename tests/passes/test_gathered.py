"""Sums around a thread's own element, gathered: the same sums, by the interpreter."""

from __future__ import annotations

from typing import Any

import hostcuda
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import jaxwarp as wp
from jaxwarp.analysis.effects import analyze
from jaxwarp.analysis.scatter.lines import ThreadLines
from jaxwarp.analysis.thread_values import ThreadValues
from jaxwarp.builtins.scalar_ops import ROWS
from jaxwarp.codegen.abi import NO_CUDA_OPTIONS
from jaxwarp.codegen.cuda import code_for, nvrtc
from jaxwarp.ir.builder import Builder
from jaxwarp.ir.interpret import interpret
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Param, Value, walk
from jaxwarp.ir.verify import verify
from jaxwarp.launches.spec import OUTPUT
from jaxwarp.passes import gathered as pass_
from jaxwarp.passes.extents import with_extents
from jaxwarp.passes.gathered import gathered
from jaxwarp.passes.pipeline import prepare, prepared
from jaxwarp.passes.simplify import simplify
from jaxwarp.types import bool_, float32, int32

needs_nvrtc = pytest.mark.skipif(not nvrtc.available(), reason="needs NVRTC")


@pytest.fixture(autouse=True)
def always(monkeypatch):
    """Whatever it costs."""
    monkeypatch.setattr(pass_, "_is_worth_it", lambda *_: True)


def atomics(kernel: Kernel) -> int:
    return sum(isinstance(op, Atomic) for op in walk(kernel.body))


def arrays_for(kernel: Kernel, seed: int = 0) -> list[np.ndarray]:
    """Small whole numbers, whose sums are exact in any order."""
    rng = np.random.default_rng(seed)
    return [rng.integers(-8, 9, tuple(n or 0 for n in p.shape)).astype(p.dtype.numpy) for p in kernel.params]


def agree(kernel: Kernel, grid: tuple[int, ...], zeros: tuple[int, ...] = ()) -> tuple[Kernel, tuple[int, ...]]:
    """The gathered kernel, which leaves what the kernel leaves."""
    verify(kernel)
    made, threads = gathered(kernel, grid, zeros)
    verify(made)
    expected = arrays_for(kernel)
    for i in zeros:
        expected[i][...] = 0
    found = [a.copy() for a in expected]
    interpret(kernel, grid, expected)
    interpret(made, threads, found)
    for param, a, b in zip(kernel.params, expected, found, strict=True):
        np.testing.assert_array_equal(a, b, err_msg=param.name)
    return made, threads


# Random kernels


class Drawn:
    """A kernel whose threads add around them, under guards."""

    def __init__(self, draw: Any):
        self.draw = draw
        rank = draw(st.integers(1, 3))
        self.grid = tuple(draw(st.integers(1, 6)) for _ in range(rank))
        self.b = Builder()
        order = draw(st.permutations(range(rank)))
        self.axes: list[int | None] = [axis for axis in order if self.grid[axis] > 1 or draw(st.booleans())]
        if draw(st.booleans()):
            self.axes.insert(draw(st.integers(0, len(self.axes))), None)
        shape = tuple(3 if a is None else max(1, self.grid[a] + draw(st.integers(-1, 3))) for a in self.axes)
        self.x = Param("x", float32, shape)
        self.w = Param("w", float32, self.grid)
        self.c = Param("c", float32, ())
        self.out = Param("out", float32, self.grid)
        self.tids = [self.b.tid(axis) for axis in range(rank)]
        for _ in range(draw(st.integers(1, 4))):
            self.guarded(draw(st.integers(0, 2)))
        if draw(st.booleans()):
            self.b.store(self.out, self.tids, self.b.load(self.w, self.tids))
        self.kernel = simplify(self.b.finish("around", rank, (self.x, self.w, self.c, self.out)))

    def call(self, name: str, *args: Value) -> Value:
        return self.b.call(ROWS[name], *args)

    def number(self, value: int) -> Value:
        return self.b.const(value, int32)

    def guarded(self, depth: int) -> None:
        if not depth:
            self.add()
            return
        condition = self.condition()
        if self.draw(st.booleans()):
            self.b.if_(condition, lambda: self.guarded(depth - 1) or ())
        else:
            self.b.if_(condition, lambda: (), lambda: self.guarded(depth - 1) or ())

    def condition(self) -> Value:
        match self.draw(st.integers(0, 6)):
            case 0 | 1 | 2 | 3:
                axis = self.draw(st.integers(0, len(self.grid) - 1))
                name = self.draw(st.sampled_from(("lt", "le", "gt", "ge", "eq", "ne")))
                return self.call(name, self.moved(axis), self.number(self.draw(st.integers(-1, 6))))
            case 4:
                return self.call("gt", self.b.load(self.w, self.tids), self.b.const(0.0, float32))
            case 5:
                return self.call(
                    self.draw(st.sampled_from(("logical_and", "logical_or"))), self.condition(), self.condition()
                )
            case _:
                first, no = self.condition(), self.b.const(self.draw(st.booleans()), bool_)
                return self.b.if_(first, lambda: [self.condition()], lambda: [no])[0]

    def moved(self, axis: int) -> Value:
        by = self.draw(st.integers(-2, 2))
        return self.call("add", self.tids[axis], self.number(by)) if by else self.tids[axis]

    def index(self, axis: int | None, extent: int) -> Value:
        if axis is None:
            return self.number(self.draw(st.integers(0, extent - 1)))
        n, at = self.number(extent), self.moved(axis)
        match self.draw(st.integers(0, 9)):
            case 0:
                return self.call("mod", self.call("add", at, n), n)
            case 6:
                return self.call("from_end", at, n)
            case 7:
                return self.call("abs", at)
            case 8:
                name = self.draw(st.sampled_from(("div", "floordiv")))
                by = self.number(self.draw(st.integers(1, 4)))
                return self.call("sub", at, self.call("mul", by, self.call(name, at, by)))
            case 9:
                bits = self.draw(st.integers(0, 3))
                name, other = self.draw(st.sampled_from((("bit_and", 2**bits - 1), ("shl", bits), ("shr", bits))))
                return self.call(name, at, self.number(other))
            case 1:
                return self.call("min", self.call("max", at, self.number(0)), self.number(extent - 1))
            case 2:
                over = self.call("sub", at, n)
                return self.call("select", self.call("ge", at, n), over, at)
            case _:
                return at

    def add(self) -> None:
        """Guarded by what keeps it in the array, which is most often more than it takes."""
        indices = [self.index(axis, extent or 0) for axis, extent in zip(self.axes, self.x.shape, strict=True)]
        inside = self.b.const(True, bool_)
        for index, extent in zip(indices, self.x.shape, strict=True):
            inside = self.call("logical_and", inside, self.call("ge", index, self.number(0)))
            inside = self.call("logical_and", inside, self.call("lt", index, self.number(extent or 0)))

        def there() -> tuple[Value, ...]:
            value = self.b.load(self.w, self.tids)
            if self.draw(st.booleans()):
                value = self.call("mul", value, self.b.load(self.c, ()))
            self.b.atomic("add", self.x, indices, value)
            return ()

        self.b.if_(inside, there)


@st.composite
def drawn(draw: Any) -> Drawn:
    return Drawn(draw)


@settings(max_examples=150, deadline=None)
@given(drawn(), st.booleans())
def test_random_kernels_leave_the_same(case: Drawn, is_zero: bool):
    agree(case.kernel, case.grid, (0,) if is_zero else ())


@settings(max_examples=100, deadline=None)
@given(drawn())
def test_lines_are_what_threads_compute(case: Drawn):
    values = ThreadValues(case.kernel, case.grid)
    lines = ThreadLines(case.kernel, case.grid)
    for op in walk(case.kernel.body):
        for value in op.defined:
            line = lines.of(value)
            if line is None:
                continue
            found = np.concatenate([[p.at(t) for t in range(p.first, p.last + 1)] for p in line.pieces])
            shape = [len(found) if axis == line.axis else 1 for axis in range(len(case.grid))]
            known = values.of(value)
            assert known is not None
            numbers, found = np.broadcast_arrays(known, found.reshape(shape))
            np.testing.assert_array_equal(found, numbers)


# Kernels that users write, and what their gradients launch


@wp.kernel
def seven(u: wp.array3d[float], c: float, out: wp.array3d[float]):
    i, j, k = wp.tid()
    if i > 0 and j > 0 and k > 0 and i < u.shape[0] - 1 and j < u.shape[1] - 1 and k < u.shape[2] - 1:
        around = u[i - 1, j, k] + u[i + 1, j, k] + u[i, j - 1, k] + u[i, j + 1, k] + u[i, j, k - 1] + u[i, j, k + 1]
        out[i, j, k] = u[i, j, k] + c * (around - 6.0 * u[i, j, k])


@wp.kernel
def inner(u: wp.array2d[float], out: wp.array2d[float]):
    i, j = wp.tid()
    out[i, j] = u[i, j + 1] - 3.0 * u[i + 1, j + 1] + u[i + 2, j + 1] + u[i + 1, j] * u[i + 1, j + 2]


@wp.kernel
def around(u: wp.array2d[float], v: wp.array2d[float], out: wp.array2d[float]):
    i, j = wp.tid()
    n, m = u.shape[0], u.shape[1]
    east, west = (j + 1) % m, (j - 1 + m) % m
    out[i, j] = u[(i + 1) % n, j] * v[i, j] + u[i, east] + u[i, west] * v[i, west]


@wp.kernel
def clamped(u: wp.array[float], w: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    n = u.shape[0]
    out[i] = w[i] * (u[wp.max(i - 1, 0)] - u[wp.min(i + 1, n - 1)]) * u[i]


@wp.kernel
def sided(u: wp.array[float], w: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    s = u[i]
    if i > 0:
        s += w[i] * u[i - 1]
    if i < u.shape[0] - 1 and w[i] > 0.0:
        s += u[i + 1]
    out[i] = s


@wp.kernel
def vectors(u: wp.array2d[wp.vec3], out: wp.array2d[wp.vec3]):
    i, j = wp.tid()
    if j > 0 and j < u.shape[1] - 1:
        out[i, j] = wp.cross(u[i, j - 1], u[i, j + 1])


STENCILS = {
    "seven": (seven, {"u": (5, 6, 7), "c": ()}, (5, 6, 7), (5, 6, 7)),
    "inner": (inner, {"u": (6, 9)}, (4, 7), (4, 7)),
    "part": (inner, {"u": (6, 9)}, (3, 2), (4, 7)),
    "around": (around, {"u": (4, 6), "v": (4, 6)}, (4, 6), (4, 6)),
    "clamped": (clamped, {"u": (8,), "w": (8,)}, (8,), (8,)),
    "sided": (sided, {"u": (8,), "w": (8,)}, (8,), (8,)),
    "vectors": (vectors, {"u": (4, 7, 3)}, (4, 7), (4, 7, 3)),
}


def launches_of(function: Any, *arguments: Any) -> list[tuple[Kernel, tuple[int, ...], tuple[int, ...]]]:
    """The launches of a program: the kernel with its extents, the grid, and what holds zeros."""
    found = []

    def visit(jaxpr: Any) -> None:
        for equation in jaxpr.eqns:
            if equation.primitive.name.startswith("jaxwarp_launch"):
                launch = equation.params["launch"]
                buffers = [*(v.aval.shape for v in equation.invars), *launch.results]
                kernel = with_extents(prepared(launch.kernel, launch.fma), [buffers[b] for b in launch.buffers])
                zeros = tuple(i for i, role in enumerate(launch.roles) if role == OUTPUT)
                found.append((kernel, launch.grid, zeros))
            for value in equation.params.values():
                for part in value if isinstance(value, (list, tuple)) else [value]:
                    inside = getattr(part, "jaxpr", part)
                    if hasattr(inside, "eqns"):
                        visit(inside)

    visit(jax.make_jaxpr(function)(*arguments).jaxpr)
    return found


def loss_of(name: str) -> tuple[Any, list[jax.ShapeDtypeStruct]]:
    kernel, inputs, grid, output = STENCILS[name]
    call = wp.jax_kernel(kernel, launch_dims=grid, output_dims=output)
    shapes = [jax.ShapeDtypeStruct(s, jnp.float32) for s in inputs.values()]
    return lambda *a: jnp.sum(call(*a)[0] ** 2), shapes


@pytest.mark.parametrize("name", STENCILS)
def test_gradients_of_stencils_have_no_atomics(name: str):
    loss, shapes = loss_of(name)
    seen = 0
    for kernel, grid, zeros in launches_of(jax.grad(loss), *shapes):
        seen += atomics(kernel)
        made, _ = agree(kernel, grid, zeros)
        assert not atomics(made)
        agree(kernel, grid)  # in what is there
    assert seen > 1


@pytest.mark.parametrize("name", STENCILS)
def test_second_derivatives(name: str):
    loss, shapes = loss_of(name)

    def product(*arguments: Any) -> Any:
        return jax.jvp(jax.grad(loss), arguments, arguments)

    def twice(*arguments: Any) -> Any:
        return jax.grad(lambda *a: jnp.sum(jax.grad(loss)(*a) ** 2))(*arguments)

    for function in (product, twice):
        launched = launches_of(function, *shapes)
        assert any(atomics(kernel) for kernel, *_ in launched)
        for kernel, grid, zeros in launched:
            agree(kernel, grid, zeros)


def test_an_array_is_written_in_full():
    """So that nobody has to clear it."""
    loss, shapes = loss_of("inner")
    *_, (kernel, grid, zeros) = launches_of(jax.grad(loss), *shapes)
    made, threads = agree(kernel, grid, zeros)
    assert threads == (6, 9)
    (cotangent,) = (made.params[i] for i in zeros)
    assert analyze(made).covers(cotangent, threads, (6, 9))
    assert not analyze(kernel).covers(cotangent, grid, (6, 9))


# What stays as it is


@wp.kernel
def by_data(u: wp.array[float], at: wp.array[int], out: wp.array[float]):
    i = wp.tid()
    wp.atomic_add(out, at[i], u[i])


@wp.kernel
def of_itself(u: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    u[i] = 2.0 * u[i]
    wp.atomic_add(out, wp.max(i - 1, 0), u[i])


@wp.kernel
def read_again(u: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    wp.atomic_add(out, wp.max(i - 1, 0), u[i])
    u[i] = out[0]


@wp.kernel
def strided(u: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    wp.atomic_add(out, 2 * i % out.shape[0], u[i])


@wp.kernel
def old_value(u: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    u[i] = wp.atomic_add(out, wp.max(i - 1, 0), 1.0)


@wp.kernel
def in_a_loop(u: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    for k in range(out.shape[0] - i):
        wp.atomic_add(out, i + k, u[i])


UNLIKE = [by_data, of_itself, read_again, strided, old_value, in_a_loop]


@pytest.mark.parametrize("kernel", UNLIKE, ids=lambda k: k.name)
def test_what_is_not_around_a_thread_or_not_its_neighbours_to_know(kernel: Any):
    prepared_kernel = prepare(kernel.specialize())
    made = with_extents(prepared_kernel, [(12,) for _ in prepared_kernel.params])
    assert gathered(made, (12,)) == (made, (12,))


@wp.kernel
def dear(u: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    value = wp.sin(u[i]) * wp.exp(u[i]) + wp.log(u[i]) * wp.tanh(u[i])
    for k in range(-4, 5):
        wp.atomic_add(out, wp.clamp(i + k, 0, out.shape[0] - 1), value)


def test_dear_values_are_computed_once(monkeypatch):
    kernel = prepare(dear.specialize())
    made = with_extents(kernel, [(100,), (100,)])
    assert not atomics(gathered(made, (100,))[0])
    monkeypatch.undo()
    assert gathered(made, (100,)) == (made, (100,))


# Launches


@needs_nvrtc
def test_the_launch_has_a_thread_for_each_element_and_clears_nothing():
    loss, shapes = loss_of("inner")
    traced = jax.jit(jax.grad(loss)).trace(*shapes)
    text = traced.lower(lowering_platforms=("cuda",)).as_text()
    assert "dense<[6, 9]> : tensor<2xi64>" in text
    assert text.count("zero = dense<[]> : tensor<0xi64>") or "zero = dense<> : tensor<0xi64>" in text


@pytest.mark.parametrize("name", STENCILS)
def test_the_text_of_gradients(name: str):
    """On the host, through all that a launch goes through."""
    loss, shapes = loss_of(name)
    for kernel, grid, zeros in launches_of(jax.grad(loss), *shapes):
        expected = arrays_for(kernel)
        for i in zeros:
            expected[i][...] = 0
        found = [a.copy() for a in expected]
        interpret(kernel, grid, expected)
        code = code_for(kernel, grid, [a.shape for a in found], 32, NO_CUDA_OPTIONS, zeros=zeros)
        assert "atomic" not in code.source
        hostcuda.run_code(kernel, code, grid, found)
        for a, b in zip(expected, found, strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-5)
