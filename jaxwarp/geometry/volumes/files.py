"""Files of NanoVDB: their headers, and the codecs of what is in them."""

from __future__ import annotations

import importlib
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from jaxwarp.errors import FormatError, KernelValueError
from jaxwarp.geometry.volumes.layout import FILE, FILE_MAGICS, GRID, MAJOR, META, TREE, TREE_HEADER, VERSION
from jaxwarp.geometry.volumes.read import refused

CODECS = ("none", "zip", "blosc")
_MOST_EXPANSION = 1100  # of zlib: no stream has more bytes for each of its own


def unpacked(data: bytes) -> np.ndarray:
    """The grids of a file, one after the other, as bytes.

    Raises:
        FormatError: the file is none, is damaged, or has a codec that is not there.
    """
    if len(data) < FILE.itemsize:
        raise refused(f"is not there: a file of {len(data)} bytes has no header")
    header = np.frombuffer(data, FILE, 1)[0]
    if int(header["magic"]) not in FILE_MAGICS:
        raise refused("is not there: the file does not begin as one of NanoVDB does", "load .nvdb files")
    if int(header["version"]) >> 21 != MAJOR:
        raise refused(f"is in a file of version {int(header['version']) >> 21}, expected {MAJOR}")
    codec = int(header["codec"])
    if codec >= len(CODECS):
        raise refused(f"has the codec {codec}, which is not there", "write it with the codec zip, blosc or none")
    metas, at = _metas(data, int(header["count"]))
    parts = []
    for meta in metas:
        part, at = _part(data, at, meta, codec)
        parts.append(part)
    joined = b"".join(parts)
    return np.frombuffer(joined, np.uint8).copy()


def _metas(data: bytes, count: int) -> tuple[list[Any], int]:
    found, at = [], FILE.itemsize
    for _ in range(count):
        if at + META.itemsize > len(data):
            raise refused("ends early: its file has not the headers that it says")
        meta = np.frombuffer(data, META, 1, at)[0]
        found.append(meta)
        at += META.itemsize + int(meta["name_size"])
    return found, at


def _part(data: bytes, at: int, meta: Any, codec: int) -> tuple[bytes, int]:
    """A grid's bytes, and where they end."""
    size = int(meta["grid_size"])
    if codec == 0:
        if at + size > len(data):
            raise refused(f"ends early: expected {size} bytes, got {max(0, len(data) - at)}")
        return data[at : at + size], at + size
    found = b""
    while not found or len(found) < size:  # blosc has chunks of 2 GB at most
        if at + 8 > len(data):
            raise refused("ends early: it has no size")
        length = int(np.frombuffer(data, "<u8", 1, at)[0])
        at += 8
        if at + length > len(data):
            raise refused("ends early: its file has not the bytes that it says")
        found += (_unzipped if codec == 1 else _unblosced)(data[at : at + length], size - len(found))
        at += length
    return found, at


def _unzipped(data: bytes, size: int) -> bytes:
    if size > _MOST_EXPANSION * len(data):
        raise refused("ends early: its file has not the bytes that it says")
    try:
        stream = zlib.decompressobj()
        found = stream.decompress(data, max(size, 1))
    except zlib.error as error:
        raise refused(f"cannot be unpacked: {error}") from None
    if len(found) != size or stream.unconsumed_tail or not stream.eof:
        raise refused(f"does not unpack to the {size} bytes that its file says")
    return found


def _unblosced(data: bytes, size: int) -> bytes:
    """One chunk, of at most so many bytes. Its head says how many it has, unpacked and packed."""
    said = [int(n) for n in np.frombuffer(data[4:16].ljust(12, b"\0"), "<u4")]
    if not 0 < said[0] <= size or said[2] != len(data):
        raise refused(f"does not unpack to the {size} bytes that its file says")
    blosc = _blosc("read")
    try:
        return blosc.decompress(data)
    except (blosc.blosc_extension.error, ValueError) as error:
        raise refused(f"cannot be unpacked: {error}") from None


def _blosc(what: str) -> Any:
    try:
        return importlib.import_module("blosc")
    except ImportError:
        raise FormatError(
            f"Volume: the codec blosc cannot be {what}: the package `blosc` is not installed",
            hint="pip install blosc; or take the codec zip, or none",
        ) from None


def _chunks(grid: bytes, codec: int) -> list[bytes]:
    """Return the compressed chunks that a file has of a grid."""
    if codec == 1:
        return [zlib.compress(grid)]
    blosc = _blosc("written")
    most = blosc.MAX_BUFFERSIZE
    return [blosc.compress(grid[at : at + most], 4) for at in range(0, len(grid), most)]


def packed(grids: Sequence[bytes], codec: str) -> bytes:
    """A file with these grids.

    Raises:
        KernelValueError: there is no such codec.
        FormatError: it is blosc, which is not installed.
    """
    if codec not in CODECS:
        raise KernelValueError(f"Volume.save_to_nvdb: codec: expected 'none', 'zip' or 'blosc', got {codec!r}")
    number = CODECS.index(codec)
    head = np.zeros((), FILE)
    head["magic"], head["version"], head["count"], head["codec"] = FILE_MAGICS[0], VERSION, len(grids), number
    parts = [_chunks(g, number) if number else [g] for g in grids]
    metas = [_meta(g, sum(map(len, p)), number) for g, p in zip(grids, parts, strict=True)]
    sized = [(len(c).to_bytes(8, "little") if number else b"") + c for p in parts for c in p]
    return b"".join([head.tobytes(), *metas, *sized])


def _meta(grid: bytes, size: int, codec: int) -> bytes:
    header = np.frombuffer(grid, GRID, 1)[0]
    tree = np.frombuffer(grid, TREE_HEADER, 1, TREE)[0]
    name = header["name"].tobytes().partition(b"\0")[0] + b"\0"
    meta = np.zeros((), META)
    meta["grid_size"], meta["file_size"], meta["voxels"] = len(grid), size, tree["voxels"]
    for key in ("type", "class", "world_box", "voxel_size"):
        meta[key] = header[key]
    meta["nodes"][:3], meta["nodes"][3], meta["tiles"] = tree["counts"], 1, tree["tiles"]
    meta["name_size"], meta["codec"], meta["version"] = len(name), codec, VERSION
    return meta.tobytes() + name
