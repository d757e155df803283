"""Volumes, textures and surfaces outside of JAX, on any device: what they are there is what they are on the CPU."""

import tempfile
from pathlib import Path

import numpy as np

import jaxwarp as wp


@wp.kernel
def paint(volume: wp.uint64, voxels: wp.array(dtype=wp.vec3i)):
    i = wp.tid()
    at = voxels[i]
    wp.volume_store(volume, at[0], at[1], at[2], float(i) + 1.0)


@wp.kernel
def measure(volume: wp.uint64, places: wp.array(dtype=wp.vec3), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = wp.volume_sample(volume, wp.volume_world_to_index(volume, places[i]), wp.Volume.LINEAR, dtype=float)


@wp.kernel
def paint_vectors(volume: wp.uint64, voxels: wp.array(dtype=wp.vec3i)):
    i = wp.tid()
    at = voxels[i]
    wp.volume_store(volume, at[0], at[1], at[2], wp.vec3(float(i) + 1.0))


@wp.kernel
def number(volume: wp.uint64, voxels: wp.array(dtype=wp.vec3i), out: wp.array(dtype=int)):
    i = wp.tid()
    at = voxels[i]
    out[i] = wp.volume_lookup_index(volume, at[0], at[1], at[2])


@wp.kernel
def look(image: wp.Texture2D, places: wp.array(dtype=wp.vec2), out: wp.array(dtype=wp.vec2)):
    i = wp.tid()
    out[i] = wp.texture_sample(image, places[i], dtype=wp.vec2, lod=0.5)


@wp.kernel
def look_at_one(image: wp.Texture2D, places: wp.array(dtype=wp.vec2), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = wp.texture_sample(image, places[i], dtype=float)


@wp.kernel
def ball(places: wp.array(dtype=wp.vec3), radius: wp.array(dtype=float), out: wp.array(dtype=float)):
    i = wp.tid()
    out[i] = wp.length(places[i] - wp.vec3(3.5)) - radius[0]


def dense_volumes(device):
    """What kernels write is seen by later launches, by the host and in files."""
    rng = np.random.default_rng(2)
    values = rng.random((9, 8, 8)).astype(np.float32)
    volume = wp.Volume.load_from_numpy(values, voxel_size=0.5, bg_value=2.0, device=device)
    voxels = wp.array([[3, 4, 5], [8, 7, 7]], dtype=wp.vec3i, device=device)
    places = wp.array(rng.random((20, 3)) * 5.0, dtype=wp.vec3, device=device, requires_grad=True)
    out = wp.zeros(20, dtype=float, device=device, requires_grad=True)
    wp.launch(paint, 2, [volume.id, voxels])
    with wp.Tape() as tape:
        wp.launch(measure, 20, [volume.id, places], [out])
    out.grad.fill_(1.0)
    tape.backward()
    assert volume.bricks[0, 3, 4, 5] == 1.0
    assert volume.background == 2.0
    other = volume.replace(background=3.0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "grid.nvdb"
        volume.save_to_nvdb(path)
        again = wp.Volume.load_from_nvdb(path.read_bytes(), device=device)
    np.testing.assert_array_equal(again.bricks, volume.bricks)
    for made in (volume, other, again, wp.Volume(volume.array()), volume.get_tiles()):
        assert made.device == device
    return [out, places.grad, volume.bricks, other.background, volume.get_tiles(), volume.get_voxels()]


def volumes_that_change(device):
    """Volumes of points are rebuilt in place, in captures too."""
    points = wp.array([[0, 0, 0], [30, 0, 0], [300, 300, 300]], dtype=wp.vec3i, device=device)
    voxels = wp.array([[3, 4, 5], [31, 7, 7]], dtype=wp.vec3i, device=device)
    status = wp.zeros(1, dtype=wp.uint32, device=device)
    options = {"device": device, "rebuildable": True, "status": status}
    tiles = wp.Volume.allocate_by_tiles(points, 1.0, (1.0, 2.0, 3.0), max_tiles=3, **options)
    wp.launch(paint_vectors, 2, [tiles.id, voxels])
    before, found = tiles.bricks[:, 3, 4, 5], wp.zeros(2, dtype=int, device=device)
    index = wp.Volume.allocate_by_voxels(points, 1.0, **options)
    with wp.ScopedCapture(device) as capture:
        index.rebuild(voxels, status)
        wp.launch(number, 2, [index.id, voxels], [found])
    wp.capture_launch(capture.graph)
    voxels.assign(points[:2])
    wp.capture_launch(capture.graph)
    tiles.rebuild(wp.array([[8 * i, 0, 0] for i in range(4)], dtype=wp.vec3i, device=device), status)
    assert status.list() == [wp.Volume.REBUILD_LEAF_CAPACITY_EXCEEDED | wp.Volume.REBUILD_VOXEL_CAPACITY_EXCEEDED]
    assert tiles.device == index.device == device
    held = wp.zeros(4, dtype=wp.vec3i, device=device)
    assert tiles.get_tiles(out=held) is held
    return [before, tiles.bricks, found, index.get_voxels(), held]


def textures(device):
    """Images of bytes with mip levels, and of floats, which a tape goes back to."""
    rng = np.random.default_rng(3)
    places = wp.array(rng.random((9, 2)), dtype=wp.vec2, device=device)
    bytes_ = wp.Texture2D(rng.integers(0, 255, (6, 8, 2)).astype(np.uint8), num_mip_levels=3, device=device)
    out = wp.zeros(9, dtype=wp.vec2, device=device)
    wp.launch(look, 9, [bytes_, places], [out])
    data = wp.array(rng.random((4, 4)).astype(np.float32), device=device, requires_grad=True)
    one = wp.zeros(9, dtype=float, device=device, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(look_at_one, 9, [wp.Texture2D(data, device=device), places], [one])
    one.grad.fill_(1.0)
    tape.backward()
    assert bytes_.device == bytes_.replace(np.zeros((6, 8, 2), np.uint8)).device == device
    return [out, np.asarray(bytes_.data), one, data.grad]


def texture_copies(device):
    """Textures take texels of arrays and textures anywhere, and give them; launches see the last ones."""
    rng = np.random.default_rng(4)
    values = rng.random((6, 8, 2)).astype(np.float32)
    here, places = wp.array(values, dtype=wp.vec2, device=device), wp.array([[0.3, 0.6]], dtype=wp.vec2, device=device)
    texture = wp.Texture2D(width=8, height=6, num_channels=2, dtype=float, device=device)
    found = []
    for source in (here, values, here.to("cpu"), wp.Texture2D(values), wp.Texture2D(here, device=device)):
        texture.copy_from(np.zeros_like(values))
        texture.copy_from(source)
        out = wp.zeros(1, dtype=wp.vec2, device=device)
        wp.launch(look, 1, [texture, places], [out])
        found.append(out)
        on_host, there, vectors = np.zeros_like(values), wp.Texture2D(np.zeros_like(values)), wp.zeros_like(here)
        for target in (on_host, there, vectors):
            texture.copy_to(target)
        np.testing.assert_array_equal([on_host, there.data, vectors.numpy()], [values] * 3)
    return found


def surfaces(device):
    """Surfaces of arrays and of functions, and of what a mesh passes through."""
    x = np.stack(np.meshgrid(*[np.arange(8.0)] * 3, indexing="ij"), -1)
    values = (np.linalg.norm(x - 3.5, axis=-1) - 2.2).astype(np.float32)
    field = wp.array(values, device=device, requires_grad=True)
    radius = wp.array([2.2], dtype=float, device=device, requires_grad=True)

    def measured(places):
        out = wp.zeros(len(places), dtype=float, device=device, requires_grad=True)
        wp.launch(ball, len(places), [places, radius], [out])
        return out

    found = []
    for made, given in (
        (lambda: wp.MarchingCubes.extract(field), field),
        (lambda: wp.geometry.IsoSurfaceNets.extract(field), field),
        (lambda: wp.geometry.sparse_marching_cubes(measured, 8, 8, 8, device=device), radius),
    ):
        with wp.Tape() as tape:
            points, indices = made()
        points.grad.fill_(1.0)
        tape.backward()
        assert points.device == indices.device == device
        found += [points, indices, given.grad.numpy().copy()]
        tape.zero()
    cells, _ = wp.geometry.lipschitz_octree(measured, (0.0, 0.0, 0.0), 8.0, 3, device=device)
    corners = cells.numpy()[:, None] + np.array(wp.MarchingCubes.CUBE_CORNER_OFFSETS)
    at_corners = measured(wp.array(corners.reshape(-1, 3), dtype=wp.vec3, device=device))
    found += [cells, *wp.geometry.sparse_marching_cubes_from_cells(cells, at_corners.reshape((len(cells), 8)))]
    places = wp.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1]], dtype=wp.vec3, device=device)
    faces = wp.array([0, 2, 1, 0, 1, 3, 0, 3, 2, 1, 2, 3], dtype=int, device=device)
    mesh, poses = wp.Mesh(places, faces, support_winding_number=True), np.zeros((1, 3, 7), np.float32)
    poses[0, :, 0], poses[..., 6] = [0, 1, 2], 1
    found += wp.geometry.swept_volume_mesh([mesh], wp.array(poses, dtype=wp.transform, device=device), 0.4)
    assert {made.device for made in found if isinstance(made, wp.array)} == {wp.get_device(device)}
    return found


BY_DEVICE = [dense_volumes, volumes_that_change, textures, texture_copies, surfaces]


def as_on_the_cpu(scenario, device):
    """What a scenario gives on a device is what it gives on the CPU."""
    for one, other in zip(scenario(device), scenario("cpu"), strict=True):
        got, expected = (x.numpy() if isinstance(x, wp.array) else np.asarray(x) for x in (one, other))
        assert got.any()
        np.testing.assert_allclose(got, expected, rtol=1e-4, atol=1e-5)
