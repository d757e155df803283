"""Code images and the seal of attributes, which a launch carries (formats in docs/design/0002-launch-abi.md)."""

import hashlib
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from jaxwarp.codegen.abi import CUBIN, PTX, Entry

MAGIC = b"JAXWARP\0"
FORMAT = 1
CPU = 1
CUDA = 2

_HEADER = struct.Struct("<8sIIQ32s")
_COUNT = struct.Struct("<II")
_ENTRY = struct.Struct("<IIQQ")


def pack_image(kind: int, payload: bytes) -> bytes:
    """An image of `kind` (CPU or CUDA) around `payload`."""
    if kind not in (CPU, CUDA):
        raise ValueError(f"an image is of kind {CPU} (CPU) or {CUDA} (CUDA), not {kind}")
    return _HEADER.pack(MAGIC, FORMAT, kind, len(payload), hashlib.sha256(payload).digest()) + payload


def unpack_image(image: bytes) -> tuple[int, bytes]:
    """The kind and the payload of an image, after every check its header allows.

    Raises:
        ValueError: the image is damaged, or of another format.
    """
    if len(image) < _HEADER.size:
        raise ValueError("the code image is damaged (shorter than its header)")
    magic, form, kind, length, digest = _HEADER.unpack_from(image)
    payload = image[_HEADER.size :]
    if magic != MAGIC:
        raise ValueError("the code image is damaged (it does not start with the mark of a jaxwarp image)")
    if form != FORMAT:
        raise ValueError(f"the code image has format {form}, this version of jaxwarp reads format {FORMAT}")
    if kind not in (CPU, CUDA):
        raise ValueError(f"the code image is of unknown kind {kind}")
    if length != len(payload):
        raise ValueError("the code image is damaged (length mismatch)")
    if digest != hashlib.sha256(payload).digest():
        raise ValueError("the code image is damaged (digest mismatch)")
    return kind, payload


def pack_cuda_payload(entries: Sequence[Entry]) -> bytes:
    """The payload of a CUDA image: every form of the kernel there is."""
    if not entries:
        raise ValueError("a CUDA image needs at least one entry")
    offset = _COUNT.size + len(entries) * _ENTRY.size
    table = _COUNT.pack(len(entries), 0)
    for entry in entries:
        if entry.kind not in (CUBIN, PTX):
            raise ValueError(f"a CUDA entry is of kind {CUBIN} (cubin) or {PTX} (PTX), not {entry.kind}")
        table += _ENTRY.pack(entry.kind, entry.arch, offset, len(entry.code))
        offset += len(entry.code)
    return table + b"".join(entry.code for entry in entries)


def unpack_cuda_payload(payload: bytes) -> list[Entry]:
    """The entries of a CUDA payload.

    Raises:
        ValueError: the payload's table does not fit the payload.
    """
    try:
        count, _ = _COUNT.unpack_from(payload)
        rows = [_ENTRY.unpack_from(payload, _COUNT.size + i * _ENTRY.size) for i in range(count)]
    except struct.error as error:
        raise ValueError("the CUDA payload is shorter than its table") from error
    if any(offset + length > len(payload) for _, _, offset, length in rows):
        raise ValueError("an entry of the CUDA payload lies outside it")
    return [Entry(kind, arch, payload[offset : offset + length]) for kind, arch, offset, length in rows]


def sealed(attributes: Mapping[str, Any]) -> dict[str, Any]:
    """The attributes of a call, with a digest of them all: the handler refuses what a damaged file makes of them."""
    return {**attributes, "seal": seal(attributes)}


def seal(attributes: Mapping[str, Any]) -> str:
    """The digest of names and values, in the order of names. Of an image its header counts, which has its digest."""
    names = sorted((name for name in attributes if name != "seal"), key=str.encode)
    text = b"".join(_sized(name.encode()) + _value(attributes[name]) for name in names)
    return hashlib.sha256(text).hexdigest()


def _sized(part: bytes) -> bytes:
    return struct.pack("<Q", len(part)) + part


def _value(value: Any) -> bytes:
    """A letter for the kind and the bytes; nothing of kinds that no launch has."""
    if isinstance(value, str | bytes):
        text = value.encode() if isinstance(value, str) else value
        return b"s" + _sized(text[: _HEADER.size] if text.startswith(MAGIC) else text)
    array = np.asarray(value)
    if array.size and array.dtype.kind not in "iu":
        return b""
    return (b"a" if array.ndim else b"i") + _sized(array.astype("<i8").tobytes())
