"""`install_as_warp`: programs that import Warp get jaxwarp, unchanged."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

from jaxwarp.boundary import boundary
from jaxwarp.errors import KernelValueError


@boundary
def install_as_warp() -> None:
    """Make `import warp` mean jaxwarp, in this process and for every package that it imports afterwards.

    Call it before anything imports `warp`. `warp.sparse` is then `jaxwarp.sparse`, the same module, and so on. A second
    call does nothing.

    Raises:
        KernelValueError: NVIDIA Warp has been imported already.

    Examples:
        >>> import jaxwarp
        >>> jaxwarp.install_as_warp()
        >>> import warp as wp
        >>> wp is jaxwarp
        True
    """
    there = sys.modules.get("warp")
    if there is not None and there.__name__ != "jaxwarp":
        raise KernelValueError(
            f"install_as_warp: warp has been imported already, from {getattr(there, '__file__', None)}",
            hint="call jaxwarp.install_as_warp() first, before other imports",
        )
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder(importlib.abc.MetaPathFinder):
    """Finds `warp` and its modules: those of jaxwarp by the same names, and Warp's private ones in `_src`."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        del path, target
        root, _, rest = fullname.partition(".")
        if root != "warp":
            return None
        for name in (f"jaxwarp.{rest}", f"jaxwarp._src.{rest}") if rest else ("jaxwarp",):
            found = _spec(name)
            if found is not None:
                return ModuleSpec(fullname, _Loader(name), is_package=found.submodule_search_locations is not None)
        return None


def _spec(name: str) -> ModuleSpec | None:
    try:
        return importlib.util.find_spec(name)
    except ModuleNotFoundError:  # of what it would be in
        return None


class _Loader(importlib.abc.Loader):
    """Gives the module of another name, as it is."""

    def __init__(self, name: str):
        self._name = name

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        del spec
        module = importlib.import_module(self._name)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: Any) -> None:
        module.__spec__ = self._spec  # which the import has replaced by that of the other name
