"""Files of NanoVDB: their headers, and the codecs of what is in them."""

from __future__ import annotations

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
    if codec > 1:
        name = CODECS[codec] if codec < len(CODECS) else codec
        raise refused(f"has the codec {name}, which is not there", "write it with the codec zip or none")
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
    if at + 8 > len(data):
        raise refused("ends early: it has no size")
    packed = int(np.frombuffer(data, "<u8", 1, at)[0])
    if at + 8 + packed > len(data) or size > _MOST_EXPANSION * packed:
        raise refused("ends early: its file has not the bytes that it says")
    try:
        stream = zlib.decompressobj()
        found = stream.decompress(data[at + 8 : at + 8 + packed], max(size, 1))
    except zlib.error as error:
        raise refused(f"cannot be unpacked: {error}") from None
    if len(found) != size or stream.unconsumed_tail or not stream.eof:
        raise refused(f"does not unpack to the {size} bytes that its file says")
    return found, at + 8 + packed


def packed(grids: Sequence[bytes], codec: str) -> bytes:
    """A file with these grids.

    Raises:
        KernelValueError: there is no such codec.
    """
    if codec not in CODECS:
        raise KernelValueError(f"Volume.save_to_nvdb: codec: expected 'none' or 'zip', got {codec!r}")
    if codec == "blosc":
        raise FormatError("Volume.save_to_nvdb: codec: blosc is not there", hint="pass 'zip', or 'none'")
    number = CODECS.index(codec)
    head = np.zeros((), FILE)
    head["magic"], head["version"], head["count"], head["codec"] = FILE_MAGICS[0], VERSION, len(grids), number
    parts = [zlib.compress(g) if number else g for g in grids]
    metas = [_meta(g, len(p), number) for g, p in zip(grids, parts, strict=True)]
    sized = [(len(p).to_bytes(8, "little") if number else b"") + p for p in parts]
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
