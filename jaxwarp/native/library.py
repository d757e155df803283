"""Finds, loads and registers the native handlers of a launch."""

import atexit
import ctypes
import functools
import importlib
import os
import sys
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from jaxwarp.unlocked import address_of

TARGET = "jaxwarp_launch"
PROGRAM_TARGET = "jaxwarp_program"
SORT_TARGET = "jaxwarp_sort"
OPERATIONS = ("sort", "cell_starts", "tree_order", "tree_grouped", "tree_boxes", "mesh_faces")
"""Handlers for CPUs alone: what is `jaxwarp_sort` to XLA is `jaxwarp_cpu_sort` in the library."""

Loader = Callable[[bytes, str, str], int]
"""Makes machine code of a CPU payload: (payload, digest, symbol) -> address of the function."""

_LOADER_TYPE = ctypes.CFUNCTYPE(
    ctypes.c_void_p,  # address of the function, or null
    ctypes.c_void_p,  # payload
    ctypes.c_int64,  # its size
    ctypes.c_char_p,  # its digest, hexadecimal
    ctypes.c_char_p,  # symbol
    ctypes.c_void_p,  # where to put the text of an error
    ctypes.c_int64,  # room there
)

# Of launches outside of XLA's programs (outside.cc): the result, then the arguments.
_OUTSIDE = {
    "jaxwarp_outside_pieces": (ctypes.c_int64, ctypes.c_void_p),
    "jaxwarp_outside_alone": (ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p),
    "jaxwarp_outside_share": (ctypes.c_int, *[ctypes.c_void_p] * 3, ctypes.c_int64),
    "jaxwarp_outside_stop": (None, ctypes.c_void_p),
    "jaxwarp_updates_begin": (ctypes.c_int, ctypes.c_void_p, ctypes.c_int64),
    "jaxwarp_updates_end": (None, ctypes.c_void_p),
}

_STAGES = {"cpu": ("instantiate", "execute"), "CUDA": ("instantiate", "initialize", "execute")}


@functools.cache
def load_library() -> ctypes.CDLL:
    """The shared library, loaded once.

    Raises:
        ImportError: it has not been built, or does not fit this machine.
    """
    path = find_library()
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise ImportError(f"jaxwarp's native library {path} cannot be loaded: {error}") from error
    library.jaxwarp_set_loader.argtypes = [_LOADER_TYPE]
    library.jaxwarp_set_loader.restype = None
    library.jaxwarp_take_unused.argtypes = [ctypes.POINTER(ctypes.c_void_p), ctypes.c_int64]
    library.jaxwarp_take_unused.restype = ctypes.c_int64
    pointer, size = ctypes.c_void_p, ctypes.c_int64
    library.jaxwarp_sort.argtypes = [pointer, size, size, pointer, pointer]
    library.jaxwarp_sort.restype = ctypes.c_bool
    library.jaxwarp_sort_cells.argtypes = [pointer, size, size, pointer, size, pointer]
    library.jaxwarp_sort_cells.restype = ctypes.c_bool
    for name, (result, *arguments) in _OUTSIDE.items():
        function = getattr(library, name, None)
        if function is None:
            raise ImportError(_too_old(name))
        function.restype, function.argtypes = result, arguments
    library.jaxwarp_counter.argtypes = [ctypes.c_char_p]
    library.jaxwarp_counter.restype = ctypes.c_int64
    library.jaxwarp_python_close.argtypes = [ctypes.c_int64]
    library.jaxwarp_python_close.restype = ctypes.c_int
    library.jaxwarp_python_api((ctypes.c_void_p * len(_PYTHON_API))(*map(_address, _PYTHON_API)))
    atexit.register(_close, library)
    return library


_PYTHON_API = ("PyGILState_Check", "Py_DecRef", "Py_AddPendingCall", "PyCapsule_IsValid", "PyCapsule_GetPointer")
"""`PythonApi` in python.h."""


def _address(name: str) -> int:
    return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0


def _close(library: ctypes.CDLL) -> None:
    """Python ends: what other libraries keep of ours no longer enters it, see python.h. Waits for who is inside.

    An import under way in a daemon thread, of the code generator at a first launch, ends before: Python would stop
    the thread with the import lock in its hands, for which finalizers that import (JAX's `from_dlpack`) wait for ever.
    """
    for name, module in list(sys.modules.items()):
        if name.startswith("jaxwarp.") and getattr(module.__spec__, "_initializing", False):
            importlib.import_module(name)
    while not library.jaxwarp_python_close(100):  # in pieces, so that Ctrl-C is heard
        pass


def find_library() -> Path:
    """Return the path of the native library. Raise an ImportError that says how to build it if there is none.

    `JAXWARP_LIBRARY` names another build of it, such as one with sanitizers.
    """
    if given := os.environ.get("JAXWARP_LIBRARY"):
        return Path(given)
    name = "libjaxwarp.dylib" if sys.platform == "darwin" else "libjaxwarp.so"
    # A plain install and a build into the source tree have the library beside this file. An editable install has it in
    # site-packages, a second portion of this package; that one is then the newer of the two, so it comes first.
    here = Path(__file__).parent
    portions = [Path(folder) for folder in sys.modules["jaxwarp.native"].__path__ if Path(folder) != here]
    portions += [here, *(Path(entry) / "jaxwarp" / "native" for entry in sys.path if entry)]
    for portion in portions:
        if (portion / "lib" / name).is_file():
            return portion / "lib" / name
    raise ImportError(
        f"jaxwarp's native library ({name}) is missing. Install the package (`pip install .` in the source tree), "
        "or build the library into the source tree with `make native`."
    )


def _too_old(name: str) -> str:
    return (
        f"jaxwarp's native library {find_library()} is older than the package: it lacks {name}. Install the package"
        " anew, or build the library into the source tree with `make native`."
    )


def function_address(name: str) -> int:
    """Return the address of an exported function of the native library, for machine code that calls it."""
    return ctypes.cast(getattr(load_library(), name), ctypes.c_void_p).value or 0


def counter(name: str) -> int:
    """A number the native library keeps, for tests.

    These are: instantiations, images_loaded, executions, live_states, shared_tensors; of CUDA graphs captures,
    graph_updates, graph_launches, live_graphs.
    """
    value = load_library().jaxwarp_counter(name.encode())
    if value < 0:
        raise KeyError(name)
    return value


def sort_order(keys: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Contiguous keys of type uint32 or uint64, (n,), in ascending order, and where each was, as int32: stable.

    Raises:
        MemoryError: there is not enough.
    """
    ordered, order = np.empty_like(keys), np.empty(keys.size, np.int32)
    arrays = address_of(keys), keys.size, keys.itemsize, address_of(ordered), address_of(order)
    if not load_library().jaxwarp_sort(*arrays):
        raise MemoryError(f"no memory to sort {keys.size} keys")
    return ordered, order


def sort_cells(keys: np.ndarray, order: np.ndarray, start: np.ndarray) -> None:
    """Sets the order of contiguous keys, (n,), as `sort_order` does, and where those of each cell start, (cells + 1,).

    A key is the number of a cell, uint32, or one in the upper half of uint64; `cells` is that of no cell.

    Raises:
        MemoryError: there is not enough.
    """
    arrays = address_of(keys), keys.size, keys.itemsize, address_of(order), start.size - 1, address_of(start)
    if not load_library().jaxwarp_sort_cells(*arrays):
        raise MemoryError(f"no memory to sort {keys.size} keys")


def take_unused() -> list[int]:
    """Addresses of code that launches held and hold no more, once for each time the loader gave one out."""
    addresses = (ctypes.c_void_p * 256)()
    taken: list[int] = []
    while count := load_library().jaxwarp_take_unused(addresses, len(addresses)):
        taken += [address for address in addresses[:count] if address]
    return taken


@dataclass
class _Given:
    """A requested address, and how many times it was given out and not yet returned."""

    address: Future[int]
    times: int = 0


class LoadOnce:
    """Calls the loader once per (digest, symbol), on whichever of XLA's threads asks first; `unloader` when code that
    was given out is of use to nobody.

    The others wait here, in Python, because a lock of Python's gives up the interpreter lock while it waits: were they
    to wait in C++, a thread that holds the interpreter lock could keep the loading thread from ever getting it.
    """

    def __init__(self, loader: Loader, unloader: Callable[[int], None]):
        self.loader, self.unloader = loader, unloader
        self._lock = threading.Lock()
        self._given: dict[tuple[str, str], _Given] = {}
        self._keys: dict[int, tuple[str, str]] = {}

    def __call__(self, payload: Callable[[], bytes], digest: str, symbol: str) -> int:
        self.put_down(take_unused())
        key = digest, symbol
        with self._lock:
            given = self._given.get(key)
            is_mine = given is None
            if given is None:
                given = self._given[key] = _Given(Future())
            given.times += 1
        if is_mine:
            try:
                address = self.loader(payload(), digest, symbol)
                with self._lock:
                    self._keys[address] = key
                given.address.set_result(address)
            except BaseException as error:
                # A later program may try again: the cause (a full disk, an interrupt) may be gone by then.
                with self._lock:
                    del self._given[key]
                given.address.set_exception(error)
        return given.address.result()

    def put_down(self, addresses: Sequence[int]) -> None:
        """Each was given out once, and is put down once."""
        unused: list[int] = []
        with self._lock:
            for address in addresses:
                key = self._keys.get(address)
                if key is None:  # of another loader
                    continue
                self._given[key].times -= 1
                if self._given[key].times == 0:
                    del self._given[key], self._keys[address]
                    unused.append(address)
        for address in unused:
            self.unloader(address)


def _make_callback(load: LoadOnce) -> Any:
    def callback(payload: int, size: int, digest: bytes, symbol: bytes, error: int, capacity: int) -> int | None:
        try:
            return load(lambda: ctypes.string_at(payload, size), digest.decode(), symbol.decode())
        except BaseException as reason:  # nothing may escape into C++
            text = f"{type(reason).__name__}: {reason}".encode()[: capacity - 1]
            ctypes.memmove(error, text + b"\0", len(text) + 1)
            return None

    return _LOADER_TYPE(callback)


_registration_lock = threading.Lock()
_load: LoadOnce | None = None
_callback: Any = None  # C++ holds its address, so it lives as long as the process


def register(loader: Loader, unloader: Callable[[int], None]) -> None:
    """Registers the handlers of `jaxwarp_launch` and `jaxwarp_program` with JAX, for the CPU and for CUDA, and those
    of `OPERATIONS` for the CPU.

    A second call only replaces the two functions.

    Args:
        loader: makes machine code of a CPU payload. Its exceptions become the text of an XLA error.
        unloader: takes an address that the loader gave.
    """
    global _load, _callback
    library = load_library()
    with _registration_lock:
        if _load is not None:
            _load.loader, _load.unloader = loader, unloader
            return
        _load = LoadOnce(loader, unloader)
        _callback = _make_callback(_load)
        library.jaxwarp_set_loader(_callback)
        for platform, stages in _STAGES.items():
            for target, prefix in ((TARGET, ""), (PROGRAM_TARGET, "program_")):
                functions = {stage: getattr(library, f"jaxwarp_{platform.lower()}_{prefix}{stage}") for stage in stages}
                handlers = {stage: jax.ffi.pycapsule(function) for stage, function in functions.items()}
                jax.ffi.register_ffi_target(target, handlers, platform=platform)
        for name in OPERATIONS:
            handler = getattr(library, f"jaxwarp_cpu_{name}", None)
            if handler is None:
                raise ImportError(_too_old(name))
            jax.ffi.register_ffi_target(f"jaxwarp_{name}", jax.ffi.pycapsule(handler), platform="cpu")
