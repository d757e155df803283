"""Compiled code on disk, shared by processes.

A folder of files named after their keys. A key is a hash of everything the code depends on, so entries never go stale;
they are only pruned, the longest unused first. Entries of `own_key` depend on jaxwarp's own files, too, see
docs/design/0092-code-of-earlier-processes.md. A file that is damaged, or not ours, counts as absent and is replaced.
Nothing here raises: where a disk cannot be used, code is compiled again.

    JAXWARP_CACHE_DIR   the folder (default: jaxwarp in the user's cache folder); empty: no cache; also a setting
    JAXWARP_CACHE_MB    its size after pruning (default 512)
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import logging
import os
import sys
import tempfile
import time
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import NamedTuple

import ml_dtypes
import numpy as np

from jaxwarp import config
from jaxwarp.boundary import IMPORTED, PACKAGE

logger = logging.getLogger(__name__)

_MAGIC = b"JAXWARP-CACHE-1\n"
_DIGEST_BYTES = 32
_SUFFIX = ".bin"
_TEMPORARY = ".tmp"

# Pruning lists the whole folder: done by one in this many writes of a process, and by its first.
_WRITES_PER_PRUNE = 64
# A temporary file this old was left by a process that died.
_ABANDONED_SECONDS = 3600.0

# A file that changed so shortly before the process read it counts as changed: clocks of file systems are coarse.
_COARSE_SECONDS = 2.0

# The folders of the package that make code of a kernel. They import each other and the modules beside them.
MAKERS = ("types", "ir", "builtins", "analysis", "passes", "codegen", "launches")

_writes = 0


def key(*parts: str | bytes) -> str:
    """A name for what is made from `parts`: different for any two different sequences of parts."""
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.hexdigest()


def own_key(*parts: str | bytes, is_whole: bool = False) -> str | None:
    """Return a name for what jaxwarp, as it is, makes from `parts`; None: nothing of it may be kept.

    The name depends on the Python files that make code of a kernel, and on the packages that compute constants.

    Args:
        is_whole: it depends on all Python files of the package.
    """
    if _folder() is None or (files := _files(is_whole)) is None:
        return None
    return key(files.digest, sys.version, np.__version__, ml_dtypes.__version__, *parts)


def put_own(name: str, data: bytes, is_whole: bool = False) -> None:
    """Keep bytes under a key of `own_key`, unless this process may run other code of jaxwarp than the key says."""
    files = _files(is_whole)
    if files is not None and files.are_unchanged():
        put(name, data)


class _OwnFiles(NamedTuple):
    """Python files of this package, as they were when this process began.

    Attributes:
        digest: of their names and contents.
        states: by their paths, what changes when somebody writes to them.
        rooms: the folders that they are in; None: all of them.
    """

    digest: str
    states: dict[str, tuple[int, ...]]
    rooms: Collection[str] | None = MAKERS

    def are_unchanged(self) -> bool:
        """Return whether the files are as they were, and modules were read from them."""
        ours = PACKAGE.rstrip(os.sep).rpartition(os.sep)[2]
        rooms = tuple(f"{ours}.{room}." for room in self.rooms) if self.rooms is not None else f"{ours}."
        modules = [(f"{name}.", module) for name, module in list(sys.modules.items())]
        made = f"{ours}._src."  # whose modules have no files
        loaded = [module for name, module in modules if name.startswith(rooms) and not name.startswith(made)]
        try:
            return all(getattr(module, "__file__", None) in self.states for module in loaded) and all(
                _state(os.stat(path)) == state for path, state in self.states.items()
            )
        except OSError:
            return False


def _files(is_whole: bool) -> _OwnFiles | None:
    return _all_files() if is_whole else _own_files()


@functools.cache
def _own_files() -> _OwnFiles | None:
    return _files_in(MAKERS)


@functools.cache
def _all_files() -> _OwnFiles | None:
    return _files_in(None)


def _files_in(rooms: Collection[str] | None) -> _OwnFiles | None:
    """Return the files; None if they may have changed since this process began, or are not there."""
    states: dict[str, tuple[int, ...]] = {}
    digest = hashlib.sha256()
    try:
        for path in sorted(_python_files(PACKAGE, rooms)):
            status = os.stat(path)
            if status.st_ctime > IMPORTED - _COARSE_SECONDS:
                return None
            states[path] = _state(status)
            content = Path(path).read_bytes()
            digest.update(f"{path.removeprefix(PACKAGE)}\0{len(content)}\0".encode())
            digest.update(content)
    except OSError:
        return None
    files = _OwnFiles(digest.hexdigest(), states, rooms)
    return files if files.are_unchanged() else None


def _python_files(base: str, rooms: Collection[str] | None = None) -> Iterator[str]:
    """Yield the Python files in a folder and below it, or below some of its folders."""
    with os.scandir(base) as found:
        for item in found:
            if item.name.endswith(".py"):
                yield item.path
            elif item.is_dir() and item.name != "__pycache__" and (rooms is None or item.name in rooms):
                yield from _python_files(item.path)


def _state(status: os.stat_result) -> tuple[int, ...]:
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino


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
