"""Arrays outside of JAX, and what has some, are pickled with what they hold."""

import copy
import pickle

import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp import sparse

POINTS = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], np.float32)
FACES = np.array([0, 2, 1, 0, 1, 3, 0, 3, 2, 1, 2, 3], np.int32)


@wp.struct
class Ball:
    center: wp.vec3
    radius: float


@wp.struct
class Scene:
    heights: wp.array[float]
    gravity: wp.vec3


def pickled(value):
    return pickle.loads(pickle.dumps(value))


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([1.5, 2.0], float),
        ([1, 2, 3], wp.int8),
        ([0.5], wp.float16),
        ([0.5], wp.bfloat16),
        ([True, False], wp.bool),
        (np.arange(12.0).reshape(2, 2, 3), wp.vec3),
        (np.arange(8.0).reshape(1, 2, 4), wp.mat22),
        (np.arange(4.0).reshape(1, 4), wp.quat),
        (np.arange(10.0).reshape(2, 5), wp.types.vector(5, wp.float64)),
        (np.zeros((0, 3)), wp.vec3),
    ],
)
def test_contents_and_types(values, dtype):
    array = wp.array(np.array(values), dtype=dtype)
    found = pickled(array)
    assert (found.dtype, found.shape, found.device) == (array.dtype, array.shape, array.device)
    np.testing.assert_array_equal(found.numpy(), array.numpy())
    assert found.is_writable
    found.fill_(0)
    np.testing.assert_array_equal(array.numpy(), wp.array(np.array(values), dtype=dtype).numpy())


def test_gradients_and_parts():
    whole = wp.array(np.arange(6.0).reshape(3, 2), dtype=float, requires_grad=True)
    whole.grad.assign(10.0 * whole.numpy())
    for part in (whole, whole[1], whole[:, 1], whole[::2]):
        found = pickled(part)
        np.testing.assert_array_equal(found.numpy(), part.numpy())
        np.testing.assert_array_equal(found.grad.numpy(), part.grad.numpy())
    assert pickled(wp.ones(2)).grad is None
    one, other = pickled((whole, whole))
    assert one is other, "one array stays one"


def test_indexed_arrays():
    part = wp.indexedarray(wp.array([1.0, 2.0, 3.0], dtype=float), wp.array([2, 0], dtype=int))
    for found in (pickled(part), copy.deepcopy(part)):
        assert type(found) is type(part)
        assert found.list() == [3.0, 1.0]
        found.fill_(7.0)
        assert found.data.list() == [7.0, 2.0, 7.0]
    assert part.list() == [3.0, 1.0]


def test_what_became_of_it_is_launched_on():
    @wp.kernel
    def double(x: wp.array[float]):
        x[wp.tid()] *= 2.0

    x = pickled(wp.array([1.0, 2.0], dtype=float))
    wp.launch(double, 2, [x])
    assert x.list() == [2.0, 4.0]


def test_memory_of_jax_becomes_ones_own():
    values = jnp.arange(3.0)
    found = pickled(wp.from_jax(values))
    found.fill_(7.0)
    assert (found.list(), values.tolist()) == ([7.0] * 3, [0.0, 1.0, 2.0])


def test_structs_of_arrays_and_arrays_of_structs():
    scene = Scene()
    scene.heights, scene.gravity = wp.array([1.0, 2.0], dtype=float), wp.vec3(0.0, -9.8, 0.0)
    found = pickled(scene)
    assert isinstance(found, Scene)
    assert (found.heights.list(), list(found.gravity)) == ([1.0, 2.0], list(scene.gravity))

    balls = wp.zeros(2, dtype=Ball, requires_grad=True)
    balls.field("radius").assign([1.0, 2.0])
    found = pickled(balls)
    assert found.dtype == balls.dtype
    np.testing.assert_array_equal(found.numpy(), balls.numpy())
    np.testing.assert_array_equal(found.grad.numpy(), balls.grad.numpy())
    assert found.field("radius").list() == [1.0, 2.0]


def test_meshes_grids_volumes_and_matrices():
    @wp.kernel
    def asked(mesh: wp.uint64, hits: wp.array[float]):
        query = wp.mesh_query_point(mesh, wp.vec3(2.0, 0.1, 0.1), 10.0)
        if query.result:
            hits[0] = wp.length(wp.mesh_eval_position(mesh, query.face, query.u, query.v) - wp.vec3(2.0, 0.1, 0.1))

    mesh = wp.Mesh(points=wp.array(POINTS, dtype=wp.vec3), indices=wp.array(FACES, dtype=int))
    hits = [wp.zeros(1), wp.zeros(1)]
    for one, hit in zip((mesh, pickled(mesh)), hits, strict=True):
        wp.launch(asked, 1, [one.id, hit])
    assert hits[0].list() == hits[1].list() != [0.0]

    grid = wp.HashGrid(4, 4, 4)
    grid.build(wp.array(POINTS, dtype=wp.vec3), 0.5)
    assert isinstance(pickled(grid), wp.HashGrid)
    values = np.arange(512, dtype=np.float32).reshape(8, 8, 8)
    volume = pickled(wp.Volume.load_from_numpy(values))
    assert volume.get_voxel_count() == 512
    matrix = pickled(2.0 * sparse.bsr_identity(3, float))
    np.testing.assert_array_equal((matrix @ wp.array([1.0, 2.0, 3.0], dtype=float)).numpy(), [2.0, 4.0, 6.0])


def test_shallow_copies_share_memory():
    x = wp.ones(2)
    copy.copy(x).fill_(3.0)
    assert x.list() == [3.0, 3.0]


def test_nothing_is_read_in_a_capture():
    x = wp.ones(2)
    with wp.ScopedCapture(), pytest.raises(wp.KernelError, match="cannot be read while a capture is made"):
        pickle.dumps(x)
