"""Private names of Warp's that programs use: values beside the public names that say the same."""

from __future__ import annotations

import ctypes
import enum
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import jaxwarp as wp


@pytest.fixture
def core():
    return wp._src.context.runtime.core


def test_types():
    assert wp._src.types.warp_type_to_np_dtype[wp.float64] is np.float64
    assert wp._src.types.type_length(wp.mat33) == 9
    assert wp._src.types.type_scalar_type(wp.vec3d) == wp.float64
    assert wp._src.types.type_size_in_bytes(wp.vec3) == 12
    assert wp.context.Device is wp.Device
    from jaxwarp._src.types import Any as any_type
    from jaxwarp._src.types import Int

    assert (any_type, Int) == (Any, wp.Int)


def test_functions_of_the_language():
    functions = wp._src.context.builtin_functions
    assert all(
        n in functions for n in ("sin", "inverse", "tid", "atomic_add", "tile_matmul", "mesh_query_point", "randf")
    )
    assert not any(n in functions for n in ("launch", "vec3", "tile_matmul_transpose_update"))
    assert functions["sin"] is wp.sin
    assert "quat_slerp" in list(functions)


def test_utils():
    a, b = wp.array([1, 2, 3], dtype=int), wp.zeros(3, dtype=int)
    wp._src.utils.array_scan(a, b, inclusive=False)
    assert b.list() == [0, 1, 3]


def test_what_programs_ask_of_the_machine(core):
    """The answers are what public names say: no memory of other GPUs, tiles without MathDx, errors that are raised."""
    assert wp._src.utils.check_p2p() is wp.is_peer_access_supported("cpu", "cpu")
    assert not core.wp_is_mathdx_enabled()
    core.wp_set_error_output_enabled(core.wp_is_error_output_enabled())
    with pytest.raises(NotImplementedError, match="they are raised"):
        core.wp_set_error_output_enabled(True)


def test_cache_folder(monkeypatch, tmp_path):
    from jaxwarp._src.thirdparty.appdirs import user_cache_dir

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    if sys.platform != "darwin":
        assert user_cache_dir("program", "somebody") == str(tmp_path / "program")


def test_builtins_on_values(core):
    a = wp.transform((1.0, 2.0, 3.0), wp.quat_from_axis_angle(wp.vec3(0.0, 0.0, 1.0), 0.5))
    product, inverse, point, q = wp.transform(), wp.transform(), wp.vec3(), wp.quat()
    multiply, invert = core.wp_builtin_mul_transformf_transformf, core.wp_builtin_transform_inverse_transformf
    multiply(a, a, ctypes.byref(product))
    invert(a, ctypes.byref(inverse))
    core.wp_builtin_transform_point_transformf_vec3f(a, wp.vec3(1.0, 0.0, 0.0), ctypes.byref(point))
    core.wp_builtin_quat_from_matrix_mat44f(wp.mat44(np.eye(4)), ctypes.byref(q))
    assert product == a * a
    assert inverse == wp.transform_inverse(a)
    assert point == wp.transform_point(a, wp.vec3(1.0, 0.0, 0.0))
    assert q.tolist() == [0.0, 0.0, 0.0, 1.0]


def test_results_in_other_memory(core):
    rows, length = np.zeros((2, 7), np.float32), ctypes.c_float()
    core.wp_builtin_transform_inverse_transformf(
        wp.transform((1.0, 0.0, 0.0), wp.quat_identity()), ctypes.byref(wp.transform.from_buffer(rows[1]))
    )
    core.wp_builtin_length_vec3f(wp.vec3(3.0, 4.0, 0.0), ctypes.byref(length))
    assert rows.tolist() == [[0.0] * 7, [-1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0]]
    assert length.value == 5.0
    with pytest.raises(TypeError):
        ctypes.byref(np.zeros(3))


def test_inner_products_of_memory(core):
    a, b = wp.array(np.arange(6.0).reshape(2, 3), dtype=wp.vec3), wp.ones(2, dtype=wp.vec3)
    out = wp.zeros(3)
    core.wp_array_inner_float_host(a.ptr, b.ptr, out.ptr + 4, 2, 12, 12, 3)
    assert out.list() == [0.0, 15.0, 0.0]


def test_what_is_not_here(core):
    for read in (
        lambda: wp._src.codegen.Adjoint,
        wp._src.context.ModuleHasher,
        lambda: list(wp._src.types.something),
        lambda: bool(wp._src.utils.something),
        lambda: core.wp_mesh_create_host,
        lambda: core.wp_builtin_nothing_like_it_vec3f,
    ):
        with pytest.raises(AttributeError, match=r"does not have|is not here"):
            read()
    from jaxwarp._src.utils import find_cuda  # programs import what they may never use

    assert repr(find_cuda) == "<warp._src.utils.find_cuda, which jaxwarp does not have>"
    with pytest.raises(AttributeError, match="find_cuda is a private name of Warp's"):

        class Derived(find_cuda):
            pass


def test_tables_of_types():
    found = wp._src.types
    assert found.np_dtype_to_warp_type[np.dtype("int8")] is found.np_dtype_to_warp_type[np.int8] is wp.int8
    assert set(found.scalar_types) == {*found.int_types, *found.float_types}
    assert (len(found.int_types), len(found.float_types), found.scalar_and_bool_types[-1]) == (8, 4, wp.bool)


def test_arguments_of_a_kernel():
    @wp.kernel
    def kernel(x: wp.array2d(dtype=Any), n: int):
        x[0, 0] = x[0, 0]

    labels = [(a.label, isinstance(a.type, wp.array)) for a in kernel.adj.args]
    assert labels == [("x", True), ("n", False)]
    assert (kernel.adj.args[0].type.dtype, kernel.adj.args[0].type.ndim) == (Any, 2)


def test_keys_and_names_of_modules_can_be_set():
    @wp.kernel(module="unique")
    def kernel(x: wp.array[int]):
        x[0] = 1

    kernel.key, kernel.module.name = "made_for_int", "made"
    x = wp.zeros(1, dtype=int)
    wp.launch(kernel, 1, [x])
    assert (str(kernel), kernel.module.name, x.list()) == ("<jaxwarp kernel made_for_int>", "made", [1])


class Shape(enum.IntEnum):
    SPHERE = 3


class Index:
    def __index__(self):
        return 5


def test_enumerations_as_integers():
    @wp.kernel
    def kernel(a: int, b: int, x: wp.array[int]):
        x[0] = a * 10 + b

    x = wp.zeros(1, dtype=int)
    for _ in range(2):
        wp.launch(kernel, 1, [Shape.SPHERE, Index(), x])
        assert x.list() == [35]
    assert wp.jax_kernel(kernel, launch_dims=1)(Shape.SPHERE, Index())[0].tolist() == [35]


def test_reading_no_private_name_costs_nothing():
    code = "import sys, jaxwarp; assert 'jaxwarp._src' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=100)
