"""The private names of Warp that several programs use, `warp._src...`: what they give here.

Nobody should write them: they exist so that programs for Warp run unchanged. This module has all of them. `wp._src`,
`wp._src.types` and `wp.context` are read when they are first named. A name of Warp's own machinery (of its code
generation, hashes, modules) can be imported, as programs do with names that they seldom need; using it is refused.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import sys
from collections.abc import Iterator, Mapping
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import jaxwarp
from jaxwarp import types
from jaxwarp.boundary import boundary, raise_for_user
from jaxwarp.builtins.language.function import Function
from jaxwarp.frontend.lowering.values import Intrinsic
from jaxwarp.frontend.text.functions import Func
from jaxwarp.quaternions import HostValue


def user_cache_dir(
    appname: str | None = None, appauthor: Any = None, version: str | None = None, opinion: bool = True
) -> str:
    """Return the folder in which a program of this user keeps what it can make anew.

    Args:
        appname: the program; None: the folder of all programs.
        appauthor: of no effect outside of Windows.
        version: a folder in that of the program.
        opinion: of no effect outside of Windows.
    """
    del appauthor, opinion
    if sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return str(base.joinpath(*(part for part in (appname, appname and version) if part)))


def type_length(dtype: Any) -> int:
    """Return the number of scalars in a type."""
    return types.type_size(dtype)


def type_scalar_type(dtype: Any) -> Any:
    """Return the scalar that a type is made of."""
    return types.element_scalar(types.as_dtype(dtype))


def check_p2p() -> bool:
    """Return False: no GPU reads the memory of another one (`is_peer_access_supported`)."""
    return False


def _set_error_output(is_enabled: Any) -> None:
    """Accept that native code prints no errors: they are raised."""
    if is_enabled:
        said = "wp_set_error_output_enabled: expected False, since native code prints no errors: they are raised"
        raise_for_user(NotImplementedError(said))


# What programs ask Warp's library of C functions before they use a part of it.
_ANSWERS = {
    "wp_is_mathdx_enabled": lambda: 0,  # tiles do without NVIDIA's MathDx
    "wp_is_error_output_enabled": lambda: 0,
    "wp_set_error_output_enabled": _set_error_output,
}


class _Functions:
    """Warp's library of C functions, of which programs call three kinds.

    `wp_builtin_NAME_TYPES(a, b, result)` calls a function of the language on values; `wp_array_inner_float_host` is
    `utils.array_inner` of memory by its addresses; `wp_is_mathdx_enabled` and so on say what the library has.
    """

    def __getattr__(self, name: str) -> Any:
        if name in _ANSWERS:
            function = _ANSWERS[name]
        elif name.startswith("wp_builtin_"):
            function = _builtin(name.removeprefix("wp_builtin_"))
        elif name.startswith("wp_array_inner_"):
            function = _inner(*name.removeprefix("wp_array_inner_").partition("_")[::2])
        else:
            function = None
        if function is None:
            raise_for_user(AttributeError(f"runtime.core.{name} is a function of Warp's library, which is not here"))
        self.__dict__[name] = function
        return function


def _builtin(name: str) -> Any:
    """Return what calls a function of the language, `transform_point_transformf_vec3f`; None: there is none."""
    words = name.split("_")
    names = ("_".join(words[:count]) for count in range(len(words), 0, -1))
    found = next((n for n in names if n in vars(jaxwarp) or n in dir(jaxwarp)), None)
    if found is None:
        return None
    function = getattr(jaxwarp, found)
    _extend_byref()

    @boundary
    def call(*arguments: Any) -> None:
        *values, result = arguments
        memory = getattr(result, "_obj", result)
        memory = getattr(memory, "contents", memory)
        given = function(*values)
        if isinstance(given, np.ndarray):
            np.frombuffer(memory, given.dtype)[:] = given.reshape(-1)
        else:
            memory.value = given

    return call


def _extend_byref() -> None:
    """Make `ctypes.byref` take vectors and matrices outside of kernels, which in Warp are arrays of ctypes."""
    ctypes.byref = _byref


_byref_of_ctypes = ctypes.byref


def _byref(value: Any, offset: int = 0) -> Any:
    if isinstance(value, HostValue):
        value = (ctypes.c_char * value.nbytes).from_buffer(value.data)
    return _byref_of_ctypes(value, offset)


def _inner(scalar: str, place: str) -> Any:
    """Return the inner product of memory by its addresses; None: there is none of this scalar in this place."""
    dtype = {"float": types.float32, "double": types.float64}.get(scalar)
    device = {"host": "cpu", "device": None}.get(place, "")
    if dtype is None or device == "":
        return None

    @boundary
    def inner(a: int, b: int, result: int, count: int, stride_a: int, stride_b: int, length: int) -> None:
        element = dtype if length == 1 else types.vector(length, dtype)
        given = [
            jaxwarp.array(ptr=address, shape=(count,), strides=(stride,), dtype=element, device=device)
            for address, stride in ((a, stride_a), (b, stride_b))
        ]
        out = jaxwarp.array(ptr=result, shape=(1,), dtype=dtype, device=device)
        jaxwarp.utils.array_inner(*given, out=out)

    return inner


class _Runtime:
    """The state of Warp's runtime: here its functions."""

    core = _Functions()


class _Refused:
    """A private name of Warp's that has no meaning here: it can be imported, but not used."""

    def __init__(self, name: str):
        self._name = name

    def __repr__(self) -> str:
        return f"<{self._name}, which jaxwarp does not have>"

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise_for_user(AttributeError(f"{self._name} is a private name of Warp's, which jaxwarp does not have"))

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return self._refuse()

    __call__ = __getitem__ = __iter__ = __len__ = __bool__ = __contains__ = __mro_entries__ = _refuse


class _BuiltinFunctions(Mapping[str, Any]):
    """The functions that kernels call, by name. Programs look for those of later versions, to do without them."""

    def __getitem__(self, name: str) -> Any:
        found = getattr(jaxwarp, name, None)
        if not isinstance(found, (Function, Intrinsic, Func)):
            raise KeyError(name)
        return found

    def __iter__(self) -> Iterator[str]:
        return (name for name in dir(jaxwarp) if name in self)

    def __len__(self) -> int:
        return sum(1 for _ in self)


_INTEGERS = tuple(t for t in types.SCALARS if t.kind in ("int", "uint"))
_FLOATS = tuple(t for t in types.SCALARS if t.is_float)

# By module: names that stand for others, values, and where further names are looked for.
_NAMES: dict[str, dict[str, Any]] = {
    "types": {
        "Any": Any,
        "warp_type_to_np_dtype": {t: np.dtype(t.numpy).type for t in types.SCALARS},
        "np_dtype_to_warp_type": {key: t for t in types.SCALARS for key in (np.dtype(t.numpy).type, np.dtype(t.numpy))},
        "int_types": _INTEGERS,
        "float_types": _FLOATS,
        "scalar_types": (*_INTEGERS, *_FLOATS),
        "scalar_and_bool_types": (*_INTEGERS, *_FLOATS, types.bool_),
        "type_length": type_length,
        "type_scalar_type": type_scalar_type,
    },
    "context": {
        "runtime": _Runtime(),
        "user_modules": {},
        "builtin_functions": _BuiltinFunctions(),
    },
    "utils": {"check_p2p": check_p2p},
    "thirdparty": {},
    "thirdparty.appdirs": {"user_cache_dir": user_cache_dir},
}
_FURTHER = {"types": ("jaxwarp.types", "jaxwarp"), "context": ("jaxwarp",), "utils": ("jaxwarp.utils",)}


class _Private(ModuleType):
    """A private module of Warp's."""

    def __init__(self, name: str):
        super().__init__(f"{__name__}.{name}", f"Names of Warp's private module {name}.")
        self.__path__ = []
        self.__spec__ = ModuleSpec(self.__name__, None, is_package=True)
        self.__dict__.update(_NAMES[name], _further=_FURTHER.get(name, ()))

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("_"):
            for module in self.__dict__["_further"]:
                found = getattr(importlib.import_module(module), name, None)
                if found is not None:
                    return found
        if name.startswith("__") and name.endswith("__"):
            raise AttributeError(name)
        return _Refused(f"{self.__name__.replace('jaxwarp', 'warp', 1)}.{name}")


for _name in _NAMES:
    _made = sys.modules[f"{__name__}.{_name}"] = _Private(_name)
    if "." in _name:
        setattr(sys.modules[f"{__name__}.{_name.rpartition('.')[0]}"], _name.rpartition(".")[2], _made)
    else:
        globals()[_name] = _made


def __getattr__(name: str) -> Any:
    if name.startswith("__") and name.endswith("__"):
        raise AttributeError(name)
    return _Refused(f"warp._src.{name}")
