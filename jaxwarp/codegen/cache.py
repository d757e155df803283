"""Compiled code on disk, shared by processes.

A folder of files named after their keys. A key is a hash of everything the code depends on, so entries never go stale;
they are only pruned, the longest unused first. A file that is damaged, or not ours, counts as absent and is replaced.
Nothing here raises: where a disk cannot be used, code is compiled again.

    JAXWARP_CACHE_DIR   the folder (default: jaxwarp in the user's cache folder); empty: no cache; also a setting
    JAXWARP_CACHE_MB    its size after pruning (default 512)
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from jaxwarp import config

logger = logging.getLogger(__name__)

_MAGIC = b"JAXWARP-CACHE-1\n"
_DIGEST_BYTES = 32
_SUFFIX = ".bin"
_TEMPORARY = ".tmp"

# Pruning lists the whole folder: done by one in this many writes of a process, and by its first.
_WRITES_PER_PRUNE = 64
# A temporary file this old was left by a process that died.
_ABANDONED_SECONDS = 3600.0

_writes = 0


def key(*parts: str | bytes) -> str:
    """A name for what is made from `parts`: different for any two different sequences of parts."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def folder() -> Path | None:
    """Return the folder that holds the cache entries, or None if caching is off."""
    if not config.cache_kernels:
        return None
    given = os.environ.get("JAXWARP_CACHE_DIR") if config.kernel_cache_dir is None else config.kernel_cache_dir
    if given is not None:
        return Path(given) if given else None
    if sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "jaxwarp"


def get(name: str) -> bytes | None:
    """The bytes put under a key, or None."""
    path = _path(name)
    if path is None:
        return None
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        logger.info("the code cache entry %s cannot be read: %s", path, error)
        return None
    body = data[len(_MAGIC) + _DIGEST_BYTES :]
    if data[: len(_MAGIC)] != _MAGIC or data[len(_MAGIC) : len(_MAGIC) + _DIGEST_BYTES] != _checksum(name, body):
        logger.warning("the code cache entry %s is damaged and is ignored", path)
        return None
    # Pruning goes by the time of the last use.
    with contextlib.suppress(OSError):
        os.utime(path)
    return body


def put(name: str, data: bytes) -> None:
    """Keeps bytes under a key. Readers see the whole entry or none of it."""
    global _writes
    path = _path(name)
    if path is None:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _write_atomically(path, _MAGIC + _checksum(name, data) + data)
        if _writes % _WRITES_PER_PRUNE == 0:
            _prune(path.parent)
        _writes += 1
    except OSError as error:
        logger.info("the code cache %s cannot be written: %s", path.parent, error)


def _path(name: str) -> Path | None:
    base = _folder()
    return None if base is None else base / (name + _SUFFIX)


def _folder() -> Path | None:
    try:
        return folder()
    except (OSError, RuntimeError):  # no home folder
        return None


def _checksum(name: str, body: bytes) -> bytes:
    """Over the key too, so that an entry moved to another name is not taken for it."""
    return hashlib.sha256(name.encode() + b"\0" + body).digest()


def _write_atomically(path: Path, data: bytes) -> None:
    handle, temporary = tempfile.mkstemp(suffix=_TEMPORARY, dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def _prune(base: Path) -> None:
    """Deletes the entries unused for longest until three quarters of the size allowed are left, if it is exceeded."""
    try:
        limit = int(float(os.environ.get("JAXWARP_CACHE_MB", "512")) * 2**20)
    except ValueError:
        limit = 512 * 2**20
    found = _entries(base)
    total = sum(entry.bytes for entry in found)
    if total <= limit:
        return
    for entry in reversed(found):
        with contextlib.suppress(OSError):
            os.unlink(base / (entry.name + _SUFFIX))
        total -= entry.bytes
        if total <= limit * 3 // 4:
            break


class CacheEntry(NamedTuple):
    """An entry: its key, its size, and when it was last used, in seconds since 1970."""

    name: str
    bytes: int
    last_used: float


def entries() -> list[CacheEntry]:
    """Return the entries of the cache, the most recently used first."""
    base = _folder()
    return [] if base is None or not base.is_dir() else _entries(base)


def _entries(base: Path) -> list[CacheEntry]:
    """The entries in a folder, the last used first. Temporary files that were abandoned are deleted."""
    found = []
    for item in os.scandir(base):
        with contextlib.suppress(OSError):  # another process may have deleted it
            status = item.stat()
            if item.name.endswith(_SUFFIX):
                found.append(CacheEntry(item.name.removesuffix(_SUFFIX), status.st_size, status.st_mtime))
            elif item.name.endswith(_TEMPORARY) and time.time() - status.st_mtime > _ABANDONED_SECONDS:
                os.unlink(item.path)
    return sorted(found, key=lambda entry: -entry.last_used)


def clear() -> int:
    """Deletes what is kept. What processes have loaded stays with them.

    Returns:
        How many entries were deleted.
    """
    deleted = 0
    for entry in entries():
        path = _path(entry.name)
        with contextlib.suppress(OSError):
            if path is not None:
                path.unlink()
                deleted += 1
    return deleted
