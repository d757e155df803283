"""Values of vector types in the memory of others, their truth, and arrays of structs without elements."""

import numpy as np
import pytest

import jaxwarp as wp


def test_a_value_in_memory():
    memory = np.zeros(9, np.float32)
    t = wp.transform.from_buffer(memory, 8)
    t[3] = 2.0
    assert memory.tolist() == [0.0] * 5 + [2.0] + [0.0] * 3
    copied = wp.vec3.from_buffer_copy(memory, 12)
    memory[:] = 1.0
    assert copied.tolist() == [0.0, 0.0, 2.0]
    assert isinstance(copied, wp.vec3)
    with pytest.raises(wp.KernelError, match="12 bytes from byte 28 on do not fit"):
        wp.vec3.from_buffer(memory, 28)
    with pytest.raises(wp.KernelError, match="read-only"):
        wp.vec2.from_buffer(bytes(8))
    with pytest.raises(wp.KernelError, match="without gaps"):
        wp.vec2.from_buffer_copy(memory[::2])


def test_several_values_in_memory():
    memory = np.arange(9, dtype=np.int32)
    first, second = (wp.vec2i * 2).from_buffer_copy(memory, 4)
    places = (wp.vec2i * 3).from_buffer(memory, 12)
    places[2][1] = 70
    memory[1] = -1
    assert (first.tolist(), second.tolist(), memory[8]) == ([1, 2], [3, 4], 70)
    assert [p.tolist() for p in places] == [[3, 4], [5, 6], [7, 70]]
    assert all(isinstance(v, wp.vec2i) for v in (first, second, *places))
    assert (wp.mat22 * 0).from_buffer_copy(b"") == []
    with pytest.raises(wp.KernelError, match=r"\* 5\)\.from_buffer_copy: 40 bytes from byte 0 on do not fit"):
        (wp.vec2i * 5).from_buffer_copy(memory)
    with pytest.raises(wp.KernelError, match="read-only"):
        (wp.vec2i * 1).from_buffer(bytes(8))
    for count in (-1, 2.0):
        with pytest.raises(wp.KernelError, match="expected a number of values"):
            wp.vec3 * count


def test_values_are_true():
    assert all(map(bool, (wp.vec3(), wp.mat33(), wp.quat(), wp.transform())))
    assert any(row for row in wp.mat33())


@wp.struct
class Cloud:
    points: wp.array[wp.vec3]
    weight: float


@wp.kernel
def total(clouds: wp.array[Cloud], count: int, out: wp.array[float]):
    for k in range(count):
        out[0] += clouds[k].weight * clouds[k].points[0][0]


def test_an_array_of_structs_with_arrays_that_has_no_elements():
    for clouds in (wp.array([], dtype=Cloud), wp.zeros(0, dtype=Cloud)):
        assert clouds.shape == (0,)
        out = wp.zeros(1)
        wp.launch(total, 1, [clouds, 0, out])
        assert out.list() == [0.0]
    with pytest.raises(wp.KernelError, match="cannot be in memory"):
        wp.zeros(1, dtype=Cloud)


@wp.struct
class Painted:
    image: wp.Texture2D
    slots: wp.array2d[wp.uint32]
    scale: float


@wp.kernel
def widths(things: wp.array[Painted], count: int, out: wp.array[float]):
    for k in range(count):
        out[0] += things[k].scale * float(things[k].image.width) + float(things[k].slots[0, 0])


def test_an_array_of_structs_with_textures_that_has_no_elements():
    # A texture leaves open what its texels are.
    out = wp.ones(1)
    wp.launch(widths, 1, [wp.zeros(0, dtype=Painted), 0, out])
    assert out.list() == [1.0]


def test_the_number_of_axes_of_a_new_array():
    assert wp.empty((2, 3), ndim=2).shape == (2, 3)
    with pytest.raises(wp.KernelError, match="has 2 axes, and ndim is 1"):
        wp.zeros((2, 3), ndim=1)


def test_settings_of_warp_start_as_its_enumerations():
    # A library checks the class of the value, and passes it on.
    assert isinstance(wp.config.deterministic, wp.DeterministicMode)
    assert isinstance(wp.get_module_options()["deterministic"], wp.DeterministicMode)
    assert isinstance(wp.config.launch_array_access_mode, wp.config.LaunchArrayAccessMode)


def test_deterministic_sums_are_refused():
    wp.config.deterministic = wp.DeterministicMode.NOT_GUARANTEED

    @wp.kernel(module_options={"deterministic": wp.DeterministicMode.NOT_GUARANTEED})
    def accepted(x: wp.array[float]):
        x[0] = 1.0

    with pytest.raises(wp.KernelError, match="deterministic"):
        wp.config.deterministic = wp.DeterministicMode.RUN_TO_RUN
    with pytest.raises(wp.KernelError, match="deterministic"):
        wp.set_module_options({"deterministic": wp.DeterministicMode.GPU_TO_GPU})
    with pytest.raises(wp.KernelError, match="deterministic"):
        wp.kernel(module_options={"deterministic": wp.DeterministicMode.RUN_TO_RUN})(accepted.func)
