"""Files of NanoVDB: written and read again, read by Warp and written by others, and damaged."""

# pyright: reportArgumentType=false, reportOptionalSubscript=false

from __future__ import annotations

import contextlib
import importlib.util
import sys
from pathlib import Path
from typing import Any

import hypothesis
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import strategies as st

import jaxwarp as wp
from jaxwarp.errors import ArrayError, FormatError, KernelTypeError, KernelValueError
from jaxwarp.geometry.volumes import nanovdb
from jaxwarp.geometry.volumes.layout import GRID, TREE, TYPE_NAMES

needs_blosc = pytest.mark.skipif(importlib.util.find_spec("blosc") is None, reason="needs pip install blosc")

BACKGROUNDS: dict[str, Any] = {
    "float32": 0.5,
    "float64": wp.float64(0.5),
    "int32": 3,
    "int64": wp.int64(1 << 40),
    "uint32": wp.uint32(7),
    "vec3f": (1.0, 2.0, 3.0),
    "vec3d": wp.vec3d(1.0, 2.0, 3.0),
    "vec4f": (1.0, 2.0, 3.0, 4.0),
    "vec4d": wp.vec4d(1.0, 2.0, 3.0, 4.0),
}
TILES = np.array([[0, 0, 0], [-8, 16, 5000], [-4096, 8, 0], [0, 0, 8], [120, -128, 0]], np.int32)


def some_volume(name: str) -> Any:
    volume = wp.Volume.allocate_by_tiles(TILES, (0.1, 0.2, 0.5), BACKGROUNDS[name], translation=(1.0, 2.0, 3.0))
    random = np.random.default_rng(0).uniform(0, 100, volume.bricks.shape)
    return volume.replace(bricks=random.astype(volume.bricks.dtype))


def assert_same(a: Any, b: Any) -> None:
    for field in ("tiles", "index", "scalars", "vec3s", "vec4s", "matrix", "inverse", "translation"):
        one, other = vars(a)[field], vars(b)[field]
        if field == "index" and len(a.tiles) == 0:
            continue
        assert (one is None) == (other is None)
        if one is not None:
            np.testing.assert_array_equal(one, other)
    assert (a.tile_count, a.voxel_count) == (b.tile_count, b.voxel_count)


@pytest.mark.parametrize("codec", ["none", "zip", pytest.param("blosc", marks=needs_blosc)])
@pytest.mark.parametrize("name", BACKGROUNDS)
def test_values_come_back(tmp_path, name, codec):
    volume = some_volume(name)
    assert volume.background.shape == volume.values.shape[1:]
    filled = wp.Volume.allocate([0] * 3, [9] * 3, 1.0, BACKGROUNDS[name])
    assert filled.values.flags.c_contiguous
    assert_same(filled, wp.Volume(filled.array()))
    path = volume.save_to_nvdb(tmp_path / "a.nvdb", codec=codec)
    with path.open("rb") as file:
        again = wp.Volume.load_from_nvdb(file)
    assert_same(volume, again)
    assert again.dtype == volume.dtype
    np.testing.assert_array_equal(again.background, volume.background)
    np.testing.assert_array_equal(again.array().numpy(), volume.array().numpy())
    assert_same(volume, wp.Volume(volume.array()))


def test_indices_come_back(tmp_path):
    random = np.random.default_rng(1)
    for volume in (
        wp.Volume.allocate_by_voxels(random.integers(-300, 300, (500, 3)).astype(np.int32), 0.5),
        wp.Volume.allocate_by_tiles(TILES, 1.0, None),
        wp.Volume.allocate_by_voxels(np.zeros((0, 3), np.int32), 0.5),
        wp.Volume.allocate_by_voxels(jnp.asarray(TILES), 0.5),
    ):
        again = wp.Volume.load_from_nvdb(volume.save_to_nvdb(tmp_path / "a.nvdb").read_bytes())
        assert again.is_index
        assert again.get_grid_info().type_str == "OnIndex"
        assert_same(volume, again)


def assets() -> list[Path]:
    found = importlib.util.find_spec("warp")
    folders = list(found.submodule_search_locations or ()) if found is not None else []
    return sorted(
        p for f in folders for p in [*Path(f).glob("tests/assets/*.nvdb"), *Path(f).glob("examples/assets/*.nvdb")]
    )


SOURCES: list[Any] = [*assets(), "float32", "int32", "vec3f", "index"]
"""Files of Warp, where they are, and the types of others that are written here."""


def data_of(source: Any) -> bytes:
    return source.read_bytes() if isinstance(source, Path) else file_of(source)


def name_of(source: Any) -> str:
    return source.stem if isinstance(source, Path) else f"written here: {source}"


@pytest.fixture(scope="module")
def warp() -> Any:
    pytest.importorskip("warp")
    from tests.geometry.volumes import warp_kernels

    return warp_kernels


@wp.kernel
def look_up(volume: wp.Volume, ijk: wp.array[wp.vec3i], out: wp.array[Any], index: wp.array[int]):
    n = wp.tid()
    p = ijk[n]
    out[n] = wp.volume_lookup(volume, p[0], p[1], p[2], dtype=out.dtype)
    index[n] = wp.volume_lookup_index(volume, p[0], p[1], p[2])


@wp.kernel
def sample(volume: wp.Volume, places: wp.array[wp.vec3], mode: int, out: wp.array[Any]):
    n = wp.tid()
    out[n] = wp.volume_sample(volume, places[n], mode, dtype=out.dtype)


@wp.kernel
def find_numbers(volume: wp.Volume, ijk: wp.array[wp.vec3i], index: wp.array[int]):
    n = wp.tid()
    index[n] = wp.volume_lookup_index(volume, ijk[n][0], ijk[n][1], ijk[n][2])


def numbers_of(volume: Any, ijk: np.ndarray) -> np.ndarray:
    index = wp.zeros(len(ijk), dtype=int)
    wp.launch(find_numbers, len(ijk), inputs=[volume, wp.array(ijk, dtype=wp.vec3i)], outputs=[index])
    return index.numpy()


def looked_up(volume: Any, name: str, ijk: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    out = wp.zeros(len(ijk), dtype=getattr(wp, name))
    index = wp.zeros(len(ijk), dtype=int)
    wp.launch(look_up, len(ijk), inputs=[volume, wp.array(ijk, dtype=wp.vec3i)], outputs=[out, index])
    return out.numpy(), index.numpy()


def around(volume: Any) -> np.ndarray:
    """Voxels of a volume, voxels next to them, and others."""
    random = np.random.default_rng(3)
    voxels = volume.get_voxels().numpy()
    some = voxels[random.integers(0, len(voxels), 3000)]
    low, high = voxels.min(0), voxels.max(0)
    anywhere = random.integers(low - 200, high + 200, (3000, 3))
    inside = random.integers(low, high + 1, (3000, 3))
    far = random.integers(-(2**31), 2**31, (500, 3))
    return np.concatenate([some, some + random.integers(-9, 10, some.shape), anywhere, inside, far]).astype(np.int32)


@pytest.mark.parametrize("source", SOURCES, ids=name_of)
def test_lookups_of_files_are_those_of_warp(warp, source):
    data = data_of(source)
    ours, theirs = wp.Volume.load_from_nvdb(data), warp.load(data)
    np.testing.assert_array_equal(ours.get_tiles().numpy(), theirs.get_tiles().numpy())
    np.testing.assert_array_equal(ours.get_voxels().numpy(), theirs.get_voxels().numpy())
    np.testing.assert_allclose(ours.get_voxel_size(), theirs.get_voxel_size())
    info, expected = ours.get_grid_info(), theirs.get_grid_info()
    assert info[:5] == expected[:5]
    np.testing.assert_array_equal(np.asarray(info.transform_matrix), np.array(expected.transform_matrix).reshape(3, 3))
    name = {"float": "float32", "int32": "int32", "Vec3f": "vec3f", "OnIndex": "float32"}[info.type_str]
    ijk = around(ours)
    if ours.is_index:
        np.testing.assert_array_equal(numbers_of(ours, ijk), warp.values(theirs, name, ijk)[1])
        return
    value, index = looked_up(ours, name, ijk)
    expected_value, expected_index = warp.values(theirs, name, ijk)
    np.testing.assert_array_equal(value, expected_value)
    np.testing.assert_array_equal(index, expected_index)
    places = (ijk[:9000] + np.random.default_rng(4).uniform(-1, 1, (9000, 3))).astype(np.float32)
    for mode in (0, 1) if name != "int32" else ():
        out = wp.zeros(len(places), dtype=getattr(wp, name))
        wp.launch(sample, len(places), inputs=[ours, wp.array(places, dtype=wp.vec3), mode], outputs=[out])
        expected_value = warp.samples(theirs, name, places, mode)
        scale = np.abs(expected_value).max()
        np.testing.assert_allclose(out.numpy(), expected_value, atol=(2e-6 if mode else 0.0) * scale)


@pytest.mark.parametrize("source", SOURCES, ids=name_of)
@pytest.mark.parametrize("codec", ["none", "zip", pytest.param("blosc", marks=needs_blosc)])
def test_warp_reads_what_is_written(warp, tmp_path, source, codec):
    given = data_of(source)
    ours = wp.Volume.load_from_nvdb(given)
    data = ours.save_to_nvdb(tmp_path / "a.nvdb", codec).read_bytes()
    theirs, original = warp.load(data), warp.load(given)
    np.testing.assert_array_equal(theirs.get_voxels().numpy(), original.get_voxels().numpy())
    assert theirs.get_active_stats() == original.get_active_stats() == tuple(ours.get_active_stats())
    assert theirs.get_feature_array_count() == original.get_feature_array_count() == ours.get_feature_array_count()
    assert_same(wp.Volume.load_from_nvdb(data), ours)
    name = {"float": "float32", "int32": "int32", "Vec3f": "vec3f"}.get(ours.get_grid_info().type_str)
    if name is not None:
        ijk = around(ours)
        for found, expected in zip(warp.values(theirs, name, ijk), warp.values(original, name, ijk), strict=True):
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", ["float32", "int32", "vec3f", "float64", "vec4d"])
def test_warp_reads_volumes_that_are_made_here(warp, tmp_path, name):
    volume = some_volume(name)
    theirs = warp.load(volume.save_to_nvdb(tmp_path / "a.nvdb", "zip").read_bytes())
    np.testing.assert_array_equal(theirs.get_tiles().numpy(), volume.get_tiles().numpy())
    ijk = around(volume)
    for found, expected in zip(looked_up(volume, name, ijk), warp.values(theirs, name, ijk), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_grids_that_follow(warp, tmp_path):
    del warp
    (path,) = (p for p in assets() if p.stem == "test_index_grid")
    first = wp.Volume.load_from_nvdb(path.read_bytes())
    second = first.load_next_grid()
    assert second.load_next_grid() is None
    assert [v.get_grid_info()[2:4] for v in (first, second)] == [(0, 2), (1, 2)]
    assert first.feature_array(0, dtype=wp.uint64).numpy()[:4].tolist() == [3, first.get_voxel_count(), 2, 3]
    again = wp.Volume.load_from_nvdb(first.save_to_nvdb(tmp_path / "a.nvdb").read_bytes())
    assert_same(again.load_next_grid(), second)
    with pytest.raises(ArrayError, match="not the first"):
        second.save_to_nvdb(tmp_path / "b.nvdb")
    with pytest.raises(ArrayError, match="below 1"):
        first.feature_array(1)


# Damaged files


def file_of(name: str = "float32", codec: str = "none") -> bytes:
    made = some_volume(name) if name != "index" else wp.Volume.allocate_by_voxels(TILES, 1.0)
    return nanovdb.file_of(made, codec)


FILES = {
    ("float32", "none"): file_of(),
    ("float32", "zip"): file_of(codec="zip"),
    ("vec3f", "zip"): file_of("vec3f", "zip"),
    ("index", "none"): file_of("index"),
}
START = 16 + 176 + 1  # of the grid in a file without codec


def altered(offset: int, dtype: str, value: Any) -> bytes:
    data = bytearray(FILES["float32", "none"])
    data[offset : offset + np.dtype(dtype).itemsize] = np.array(value, dtype).tobytes()
    return bytes(data)


def at(field: str) -> int:
    return START + GRID.fields[field][1]


FAULTS = {
    "does not begin as one of NanoVDB": b"GIF89a" * 10,
    "has no header": b"Nano",
    "of version 31": altered(8, "<u4", 31 << 21),
    "codec 9": altered(14, "<u2", 9),
    "has not the headers": altered(12, "<u2", 60000),
    "begin as one does": altered(START, "<u8", 1),
    "values of type Half, which is not there yet": altered(at("type"), "<u4", TYPE_NAMES.index("Half")),
    "values of type 99": altered(at("type"), "<u4", 99),
    "ends early: expected": FILES["float32", "none"][:-1],
    "breadth first": altered(at("flags"), "<u4", 0),
    "nodes outside": altered(START + TREE + 32, "<u4", 1 << 31),
    "tiles of the root outside": altered(START + 736 + 24, "<u4", 1 << 31),
    "name that does not end": altered(at("name"), "S256", "a" * 256),
    "metadata outside": altered(at("blind_count"), "<u4", 1 << 30),
}


@pytest.mark.parametrize("message", FAULTS)
def test_faults_are_named(message):
    with pytest.raises(FormatError, match=message) as caught:
        wp.Volume.load_from_nvdb(FAULTS[message])
    assert caught.value.hint or "is not there" in caught.value.message


@needs_blosc
def test_damaged_blosc():
    """Each byte of the head of a chunk, and many of it, changed: values, or a refusal; never another exception."""
    good = file_of(codec="blosc")
    size = len(good) - START - 8
    assert len(good) < len(FILES["float32", "none"])
    for at in [*range(24), *range(24, size, 97)]:
        bad = bytearray(good)
        bad[START + at] ^= 0xFF
        with contextlib.suppress(FormatError):
            wp.Volume.load_from_nvdb(bytes(bad))
    with pytest.raises(FormatError, match="ends early"):
        wp.Volume.load_from_nvdb(good[:-1])


def test_files_with_blosc_where_it_is_not_installed(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "blosc", None)
    with pytest.raises(FormatError, match="cannot be written: the package `blosc` is not installed") as caught:
        some_volume("float32").save_to_nvdb(tmp_path / "a", codec="blosc")
    assert "pip install blosc" in caught.value.hint
    data = bytearray(file_of(codec="zip"))
    data[14] = 2
    with pytest.raises(FormatError, match=r"codec blosc cannot be read|does not unpack"):
        wp.Volume.load_from_nvdb(bytes(data))


def test_what_is_no_file(tmp_path):
    with pytest.raises(KernelTypeError, match="expected bytes or an open file, got str"):
        wp.Volume.load_from_nvdb("a.nvdb")
    with pytest.raises(KernelValueError, match="codec: expected 'none', 'zip' or 'blosc', got 'lz4'"):
        some_volume("float32").save_to_nvdb(tmp_path / "a", codec="lz4")
    with pytest.raises(FormatError, match="ends early"):
        wp.Volume(np.zeros(10, np.uint8))


INTERESTING = st.sampled_from([0, 1, 2, 7, 255, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1])


def read_or_refuse(data: bytes) -> None:
    try:
        volume = wp.Volume.load_from_nvdb(data)
    except FormatError:
        return
    # What is read can be used: all numbers are within the arrays.
    values = volume.values
    assert volume.table.max() < 1 << 31
    if values is not None and volume.entries is None:
        assert volume.table.max(initial=0) * 512 < len(values)
    volume.get_voxels()


@hypothesis.settings(max_examples=150, deadline=None)
@hypothesis.given(st.sampled_from(list(FILES)), st.data())
def test_damaged_files_are_errors_or_volumes(which, data):
    file = bytearray(FILES[which])
    kind = data.draw(st.sampled_from(["cut", "byte", "word", "header", "swap"]))
    if kind == "cut":
        file = file[: data.draw(st.integers(0, len(file)))]
    elif kind == "swap":
        a, b = (data.draw(st.integers(0, len(file) - 64)) for _ in range(2))
        file[a : a + 64], file[b : b + 64] = file[b : b + 64], file[a : a + 64]
    else:
        last = len(file) if kind == "byte" else min(len(file), 3000 if kind == "word" else START + 900)
        for _ in range(data.draw(st.integers(1, 4))):
            width = 1 if kind == "byte" else data.draw(st.sampled_from([2, 4, 8]))
            place = data.draw(st.integers(0, last - width))
            value = data.draw(INTERESTING | st.integers(0, 2**64 - 1)) % (1 << 8 * width)
            file[place : place + width] = value.to_bytes(width, "little")
    read_or_refuse(bytes(file))
