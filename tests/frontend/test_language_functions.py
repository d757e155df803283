"""`@func`, captured names, `static`, and the places a kernel can be defined in."""

# ruff: noqa: B023, F811, UP018  (kernels are written for their own sake)

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from language import define, outputs

import jaxwarp as wp
from jaxwarp import sin as sine
from jaxwarp.errors import KernelError, KernelSyntaxError, KernelTypeError, KernelValueError


@wp.func
def polar(v: wp.vec2):
    """Length and angle."""
    return wp.length(v), wp.atan2(v[1], v[0])


@wp.func
def scaled(x: float, by: float = 2.0, *, offset: float = 0.0) -> float:
    return x * by + offset


@wp.func
def scaled(x: int, by: int = 3):
    return x * by


@wp.func
def scaled(x: wp.vec2):
    return x * 4.0


@wp.func
def clipped(x: Any, limit: Any):
    if x > limit:
        return limit
    if x < -limit:
        return -limit
    return x


@wp.func
def search(a: wp.array[int], wanted: int):
    for k in range(len(a)):
        if a[k] == wanted:
            return k
    return -1


@wp.func
def apply(f: Callable, x: float):
    return f(f(x))


@wp.func
def set_row(row: wp.array[float], value: float):
    for k in range(len(row)):
        if k == 2:
            return
        row[k] = value


@wp.kernel
def calls(a: wp.array[int], out: wp.array2d[float]):
    i = wp.tid()
    r, angle = polar(wp.vec2(3.0, 4.0))
    out[i, 0] = r + 0.0 * angle
    out[i, 1] = scaled(1.5) + scaled(x=1.0, offset=1.0, by=0.5)
    out[i, 2] = float(scaled(i)) + scaled(wp.vec2(1.0, 2.0)).y
    out[i, 3] = clipped(float(i), 1.5) + float(clipped(-i, 2))
    out[i, 4] = float(search(a, i + 5))
    out[i, 5] = apply(scaled, 1.0) + apply(wp.sqrt, 16.0) + sine(0.0)
    set_row(out[i], 9.0)


def test_calls_of_functions():
    out = outputs(calls, 4, [7, 5, 6, 5], np.zeros((4, 6)))
    expected = [[9, 9, 3 * i + 8, min(i, 1.5) + max(-i, -2), [1, 2, 0, -1][i], 6] for i in range(4)]
    np.testing.assert_allclose(out, expected, rtol=1e-6)


def test_vectors_and_rows_are_taken_apart_by_a_star():
    @wp.func
    def weighted(x: float, y: float, z: float):
        return x + 10.0 * y + 100.0 * z

    @wp.kernel
    def taken(a: wp.vec2, m: wp.mat33, out: wp.array[float]):
        rows = wp.mat33(*m[2], *m[1], *m[0])
        out[0] = weighted(*rows[0])
        out[1] = weighted(1.0, *a)
        out[2] = wp.trace(wp.matrix_from_rows(*m) @ rows)

    m = np.arange(1.0, 10.0, dtype=np.float32).reshape(3, 3)
    out = outputs(taken, 1, [2.0, 3.0], m, np.zeros(3))
    np.testing.assert_allclose(out, [987.0, 321.0, np.trace(m @ m[::-1])])


def test_functions_can_be_called_on_the_host():
    assert polar(wp.vec2(3.0, 4.0))[0] == 5.0
    assert polar.__doc__ == "Length and angle."


@wp.func
def nested_return(a: wp.array[float], i: int):
    for j in range(3, 40):
        for k in range(j):
            if a[i] < float(j * k):
                return j, wp.vec2(float(k), a[i])
        if j > 20:
            return j, wp.vec2(0.0)
    return 0, wp.vec2(-1.0)


@wp.kernel
def returns_from_loops(a: wp.array[float], out: wp.array2d[float]):
    i = wp.tid()
    j, v = nested_return(a, i)
    out[i, 0] = float(j)
    out[i, 1] = v.x
    out[i, 2] = v.y


def test_values_returned_from_nested_loops():
    def plain(x):
        for j in range(3, 40):
            for k in range(j):
                if x < j * k:
                    return j, k, x
            if j > 20:
                return j, 0, 0
        return 0, -1, -1

    a = np.array([0.0, 17.0, 100.0, 1e6], np.float32)
    out = outputs(returns_from_loops, 4, a, np.zeros((4, 3)))
    np.testing.assert_array_equal(out, [plain(x) for x in a])


@wp.func
def returned_in_a_later_iteration(x: int):
    """What its variables and its index are first decides which branch is taken then, and in no other iteration."""
    z = 1
    for _ in range(4):
        if z & 1:
            z = x
            x += 2
        else:
            return x
    for k in range(4):
        if k == 0:
            x += 1
        else:
            for j in range(3, 0, -2):
                if j < 3 and x % 4 == k:
                    return 10 * x + k
    z = 2
    while x < 1000:
        if z == 3:
            return x
        x, z = x + 1, 3
    return 0


@wp.kernel
def returns_later(out: wp.array[int]):
    i = wp.tid()
    out[i] = returned_in_a_later_iteration(i)


def test_values_that_only_a_later_iteration_returns():
    expected = [returned_in_a_later_iteration(i) for i in range(12)]
    np.testing.assert_array_equal(outputs(returns_later, 12, np.zeros(12, np.int32)), expected)


@wp.func
def marked(out: wp.array2d[int], i: int, k: int):
    out[i, k] += 1
    return 0


@wp.kernel
def marks(out: wp.array2d[int]):
    i = wp.tid()
    out[i, 2] = marked(out, i, 0) if i > 2 else marked(out, i, 1)


def test_sides_of_one_value_have_effects_of_their_own():
    expected = [[i > 2, i <= 2, 0] for i in range(6)]
    np.testing.assert_array_equal(outputs(marks, 6, np.zeros((6, 3), np.int32)), expected)


@wp.func
def found_in_an_array(n: int):
    for k in range(n):
        own = wp.zeros(2500, dtype=int)
        own[k] = n
        if own[3] > 0:
            return k
    return -1


@wp.kernel
def finds(out: wp.array[int]):
    i = wp.tid()
    out[i] = found_in_an_array(i)


def test_an_array_in_a_loop_that_returns_is_there_once():
    """10 kB of 16."""
    assert [p.name for p in finds.specialize().locals] == ["own"]
    np.testing.assert_array_equal(outputs(finds, 6, np.zeros(6, np.int32)), [-1, -1, -1, -1, 3, 3])


def make_power(n):
    @wp.func
    def power(x: float):
        result = float(1.0)
        for _ in range(n):
            result *= x
        return result

    @wp.kernel
    def kernel(a: wp.array[float], out: wp.array[float]):
        i = wp.tid()
        out[i] = power(a[i]) + wp.static(float(n) * 100.0)

    return kernel


def test_kernels_of_a_factory_capture_their_own_values():
    kernels = [make_power(n) for n in (2, 3)]
    for n, kernel in zip((2, 3), kernels, strict=True):
        np.testing.assert_array_equal(outputs(kernel, 2, [2.0, 3.0], np.zeros(2)), [2**n + n * 100, 3**n + n * 100])


LOOP_KERNELS = []
for function in (wp.sin, wp.cos):

    @wp.kernel
    def in_a_loop(a: wp.array[float]):
        a[wp.tid()] = function(0.0)

    LOOP_KERNELS.append(in_a_loop)


def test_kernels_defined_in_a_loop_keep_the_values_of_their_iteration():
    assert [outputs(k, 1, [9.0])[0] for k in LOOP_KERNELS] == [0.0, 1.0]


def test_static_sees_globals_closures_and_unrolled_variables():
    weights = [0.5, 0.25, 0.125]

    @wp.kernel
    def kernel(a: wp.array[float]):
        for k in range(3):
            a[k] = wp.static(weights[k] + sum(w for w in weights)) + wp.static(wp.vec3(1.0, 2.0, 3.0))[k]
        a[3] = wp.static(wp.sin if len(weights) == 3 else wp.cos)(0.0)
        a[4] = wp.static(wp.vec2)(7.0).y

    np.testing.assert_array_equal(outputs(kernel, 1, np.ones(5)), [2.375, 3.125, 4.0, 0.0, 7.0])


def test_static_is_the_identity_on_the_host():
    assert wp.static(2.5) == 2.5


def test_annotations_as_text_see_the_scope_of_the_definition():
    source = """
from __future__ import annotations
def make(dtype):
    vector = wp.types.vector(2, dtype)
    @wp.kernel
    def kernel(a: wp.array[vector], s: dtype):
        a[0] = a[0] * s
    return kernel
"""
    make = define(source)["make"]
    np.testing.assert_array_equal(outputs_of(make(wp.float64), [[1, 2]], 3), [[3, 6]])
    np.testing.assert_array_equal(outputs_of(make(wp.int32), [[1, 2]], 3), [[3, 6]])


def outputs_of(kernel, array, scalar):
    from language import run

    return run(kernel, 1, array, scalar)[0]


class Model:
    gain = 3.0

    @wp.func
    def respond(x: float):
        return x * 2.0


def test_names_found_through_classes_and_instances():
    model = Model()
    model.offset = 1.0

    @wp.kernel
    def kernel(a: wp.array[float]):
        a[0] = Model.respond(a[0]) * model.gain + model.offset

    assert outputs(kernel, 1, [2.0])[0] == 13.0


def test_positions_are_right_in_indented_source_with_wide_characters():
    source = '''
if True:
    def make():
        """A kernel in a function.
  Its docstring is indented less.
        """
        @wp.kernel
        def kernel(a: wp.array[float]):
            # ünïcode
            größe = "ä"
        return kernel
'''
    with pytest.raises(KernelSyntaxError) as caught:
        define(source)["make"]().specialize()
    assert caught.value.loc.line == 10
    assert str(caught.value).splitlines()[2:4] == ['    größe = "ä"', "            ^^^"]


def test_cells_with_lines_that_are_not_python():
    """Notebooks register what was typed, magics included."""
    text = "%time\n@wp.kernel\ndef kernel(a: wp.array[float]):\n    a[0] = 4.0\n\nkernel\n"
    code = "\n" + text.split("\n", 1)[1]
    file = "<ipython-input-test>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    scope = {"wp": wp}
    exec(compile(code, file, "exec"), scope)
    assert outputs(scope["kernel"], 1, [0.0])[0] == 4.0


def test_source_that_cannot_be_found():
    scope = {"wp": wp}
    with pytest.raises(KernelValueError) as caught:
        # Not "<string>": since Python 3.13 that name has the text of `python -c`, which is how test workers start.
        exec(compile("@wp.kernel\ndef lost(a: wp.array[float]):\n    a[0] = 1.0\n", "<nowhere>", "exec"), scope)
    assert str(caught.value) == (
        "the source of lost is not available (<nowhere>)\n"
        "  hint: define it in a file or a notebook cell; for source made by a program, register the text before exec: "
        "linecache.cache[name] = (len(text), None, text.splitlines(True), name), compiled under that name"
    )


def test_what_is_no_function():
    with pytest.raises(KernelSyntaxError, match="@kernel cannot be applied to a lambda"):
        wp.kernel(lambda a: None)
    with pytest.raises(KernelTypeError, match="@func expects a Python function, got int"):
        wp.func(3)
    with pytest.raises(KernelSyntaxError, match="@kernel cannot be applied to async def"):
        define("@wp.kernel\nasync def k(a: wp.array[float]):\n    pass\n")


def test_warps_keyword_arguments_are_accepted():
    source = """
@wp.func(module="m")
def f(x: float):
    return x

@wp.kernel(enable_backward=False, module="unique", launch_bounds=256)
def k(a: wp.array[float]):
    a[0] = f(2.0)
"""
    assert outputs(define(source)["k"], 1, [0.0])[0] == 2.0
    with pytest.raises(TypeError, match="@kernel has no option speed\n  hint: its options are enable_backward, "):
        wp.kernel(speed=3)


def test_a_kernel_object():
    kernel = define('@wp.kernel\ndef named(a: wp.array[float], n: int):\n    """Does little."""\n    a[n] = 1.0\n')[
        "named"
    ]
    assert (kernel.name, kernel.key, kernel.__doc__) == ("named", "named", "Does little.")
    assert [(a.name, repr(a.annotation)) for a in kernel.arguments] == [("a", "array[float32, 1]"), ("n", "int32")]
    assert kernel.source("ir").startswith("kernel named[1](@a: f32[?], @n: i32[]) {")
    assert "named" in kernel.source("cpu")
    assert "__global__" in kernel.source("cuda")
    with pytest.raises(KernelValueError, match="source: no target 'metal', expected one of ir, cuda, cpu"):
        kernel.source("metal")
    with pytest.raises(KernelTypeError, match="named is a kernel and cannot be called directly"):
        kernel([1.0], 0)
    with pytest.raises(KernelTypeError, match="named: expected 2 types, got 1"):
        kernel.specialize([wp.int32])


def test_overload_takes_what_stands_for_a_mesh():
    """Which type a uint64 is, is known when the kernel is called."""

    @wp.kernel
    def kernel(grid: wp.uint64, x: Any, out: wp.array[int]):
        out[0] = wp.hash_grid_point_id(grid, 0) + int(x)

    assert wp.overload(kernel, [wp.uint64, wp.float32, wp.array[int]]) is kernel
    grid, out = wp.HashGrid(4, 4, 4), wp.zeros(1, dtype=int)
    grid.build(wp.array([[0.5, 0.5, 0.5]], dtype=wp.vec3), 1.0)
    wp.launch(kernel, 1, inputs=[grid.id, 2.0, out])
    assert out.numpy().tolist() == [2]


def test_overload_names_the_types_of_a_generic_kernel():
    kernel = define("from typing import Any\n@wp.kernel\ndef k(x: Any, a: wp.array[Any]):\n    a[0] = x\n")["k"]
    named = wp.overload(kernel, {"x": float, "a": wp.array[float]})
    assert kernel.add_overload([float, wp.array[float]]) is named
    assert wp.overload(named, [float, wp.array[float]]) is named
    assert (kernel.is_generic, named.is_generic) == (True, False)
    with pytest.raises(KernelTypeError, match="expected 2 types, got 1"):
        wp.overload(kernel, [float])
    with pytest.raises(KernelTypeError, match="overload: k has no argument b"):
        wp.overload(kernel, {"b": float})


def test_overload_is_lowered_when_it_is_first_used():
    kernel = define("from typing import Any\n@wp.kernel\ndef k(x: Any, a: wp.array[Any]):\n    a[0] = x\n")["k"]
    named = wp.overload(kernel, [float, wp.array[int]])
    with pytest.raises(KernelTypeError, match="a holds int32, got float32") as caught:
        wp.launch(named, 1, inputs=[1.0, wp.zeros(1, dtype=int)])
    assert "a[0] = x" in str(caught.value)


def test_overload_is_a_decorator():
    start = "from typing import Any\n@wp.kernel\ndef k(x: Any, a: wp.array[Any]):\n    a[0] = x + x\n@wp.overload\n"
    kernel = define(start + "def k(x: float, a: wp.array[float]):\n    'floats'\n    ...\n")["k"]
    assert kernel.is_generic
    for dtype in (float, wp.int32):
        out = wp.zeros(1, dtype=dtype)
        wp.launch(kernel, 1, inputs=[dtype(3), out])
        assert out.list() == [6]
    for text, message in (
        ("def k(x: int): ...", "k: expected 2 types, got 1"),
        ("def other(x: float): ...", "@overload: other is no kernel that is defined before"),
        ("def k(x: float, a: wp.array[float]):\n    a[0] = x\n", "@overload: k has a body"),
        ("def k(x, a: wp.array[float]): ...", "k: argument x has no annotation"),
    ):
        with pytest.raises(KernelError, match=message):
            define(start + text)


def test_overload_gives_a_kernel_of_these_types_alone():
    code = "from typing import Any\n@wp.kernel\ndef k(x: wp.array[Any], y: wp.array[Any]):\n    y[0] = x[0] + x[0]\n"
    kernel = define(code)["k"]
    named = wp.overload(kernel, [wp.array[wp.vec3], wp.array[wp.vec3]])
    ones = np.ones((1, 3), np.float32)
    np.testing.assert_array_equal(wp.jax_kernel(named, output_dims=1)(ones)[0], 2 * ones)
    out = np.zeros_like(ones)
    wp.launch(named, 1, [ones, out])
    np.testing.assert_array_equal(out, 2 * ones)
    with pytest.raises(KernelTypeError, match=r"'x': expected float32 of shape \(\?, 3\), got float64 of shape \(1,\)"):
        wp.launch(named, 1, [np.ones(1), np.zeros(1)])
    wide = np.zeros(1)
    wp.launch(kernel, 1, [np.ones(1), wide])  # which is generic still
    assert wide.tolist() == [2.0]


def test_tid_of_several_axes():
    kernel = define(
        "@wp.kernel\ndef k(a: wp.array3d[int]):\n    i, j, l = wp.tid()\n    a[i, j, l] = i * 100 + j * 10 + l\n"
    )
    assert kernel["k"].specialize().grid_rank == 3
    expected = np.add.outer(np.add.outer(np.arange(2) * 100, np.arange(3) * 10), np.arange(4))
    np.testing.assert_array_equal(outputs(kernel["k"], (2, 3, 4), np.zeros((2, 3, 4))), expected)


def test_functions_of_the_frontend_on_the_host():
    for call in (wp.tid, lambda: wp.atomic_add(np.zeros(3), 0, 1.0)):
        with pytest.raises(KernelError, match=r"\(\) can only be called inside a kernel"):
            call()


def test_many_threads_can_specialise_one_kernel():
    from concurrent.futures import ThreadPoolExecutor

    kernel = make_power(5)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: kernel.specialize(), range(16)))
    assert all(k is found[0] for k in found)


def test_array_annotations():
    from jaxwarp.types import Array

    assert wp.array[float] == wp.array(dtype=float) == wp.array1d[wp.float32] == Array(wp.float32, 1)
    assert wp.array2d[wp.vec3] == wp.array(dtype=wp.vec3, ndim=2) == Array(wp.vec3, 2)
    with pytest.raises(KernelTypeError, match=r"array\(...\): expected data, or dtype="):
        wp.array()
    with pytest.raises(KernelValueError, match=r"array\(...\): ndim must be a positive integer, got 0"):
        wp.array(dtype=float, ndim=0)
    with pytest.raises(KernelValueError, match=r"array2d\(...\): ndim is 2, got 3"):
        wp.array2d(dtype=float, ndim=3)


def test_functions_and_kernels_can_be_renamed():
    function_code = "@wp.func\ndef f(x: float):\n    return x + 1.0\n"
    program = define(function_code + "@wp.kernel\ndef k(a: wp.array[float]):\n    a[0] = f(a[0])\n")
    function, kernel = program["f"], program["k"]
    for made in (function, kernel):
        made.__name__, made.__qualname__, made.key, made.__doc__ = "other", "other", "other", "Text."
    out = wp.zeros(1)
    wp.launch(kernel, 1, [out])
    assert (function.__name__, function.key, function.__doc__) == ("other", "other", "Text.")
    assert (kernel.key, out.list()) == ("other", [1.0])
    with pytest.raises(AttributeError, match="overloads cannot be set"):
        function.overloads = ()


def test_attributes_of_functions():
    program = define(
        "@wp.func\ndef f(x: float):\n    return x + 1.0\n"
        "@wp.func\ndef g(x: float):\n    return 10.0 * x\n"
        "f.other, f.factor = g, 3.0\n"
        "@wp.func\ndef both(x: float, h: wp.Function):\n    return h(x) + h.other(x) * h.factor\n"
        "@wp.kernel\ndef k(a: wp.array[float]):\n    a[0] = both(a[0], f)\n"
        "@wp.kernel\ndef wrong(a: wp.array[float]):\n    a[0] = f.overloads\n"
    )
    out = wp.ones(1)
    wp.launch(program["k"], 1, [out])
    assert out.list() == [32.0]
    with pytest.raises(KernelError, match="the function f has no attribute overloads"):
        wp.launch(program["wrong"], 1, [out])
    program["f"].doc = "Text."
    assert (program["f"].doc, program["f"].__doc__) == ("Text.", "Text.")


def test_functions_renamed_before_they_are_decorated():
    def made(factor):
        def template(a: wp.array[float]):
            a[0] = a[0] * wp.static(factor)

        template.__name__ = template.__qualname__ = f"times_{int(factor)}"
        return wp.kernel(template)

    out = wp.ones(1)
    for factor in (2.0, 3.0):
        wp.launch(made(factor), 1, [out])
    assert (out.list(), made(4.0).name) == ([6.0], "times_4")
