"""Every kernel of MuJoCo Warp, compiled for the CPU: by jaxwarp, and by Warp itself. For compile.py.

    python benchmarks/compile_programs.py jaxwarp|warp

CPU seconds in a process of its own, with nothing cached; needs mujoco-warp and mujoco. The kernels are those that the
modules of the package define when they are imported, for the types of their annotations. For jaxwarp, `import warp` is
an alias. Warp compiles a module at a time, without adjoints: the package turns them off.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import importlib.metadata
import importlib.util
import json
import os
import pkgutil
import sys
import tempfile
from collections.abc import Iterator
from types import ModuleType
from typing import Any

PACKAGE = "mujoco_warp"


class _Alias(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports jaxwarp, and its submodules, under Warp's name."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        del path, target
        if name.partition(".")[0] != "warp":
            return None
        real = "jaxwarp" + name[len("warp") :]
        try:
            found = importlib.util.find_spec(real)
        except ModuleNotFoundError:
            return None
        return found and importlib.machinery.ModuleSpec(name, self, is_package=bool(found.submodule_search_locations))

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        found = importlib.import_module("jaxwarp" + spec.name[len("warp") :])
        self._spec = found.__spec__
        return found

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec


def seconds() -> float:
    """CPU time of this process and of those that it has waited for."""
    return sum(os.times()[:4])


def _modules() -> Iterator[ModuleType]:
    """The modules of the package, but its tests, and programs that need others."""
    importlib.import_module(PACKAGE)
    source = importlib.import_module(f"{PACKAGE}._src")
    for info in pkgutil.iter_modules(source.__path__, source.__name__ + "."):
        if not info.name.endswith(("_test", ".cli")):
            yield importlib.import_module(info.name)


def _kernels(kind: type) -> dict[str, Any]:
    """Its kernels by module and name, each once."""
    found = {id(k): (f"{m.__name__}.{name}", k) for m in _modules() for name, k in vars(m).items() if type(k) is kind}
    return dict(found.values())


def by_jaxwarp() -> dict[str, Any]:
    """From each kernel's text to machine code; those that are not compiled, with the first line of why."""
    sys.meta_path.insert(0, _Alias())
    from jaxwarp.codegen.cpu.compile import compile_cpu, compile_object
    from jaxwarp.codegen.cpu.plan.target import host
    from jaxwarp.errors import KernelError
    from jaxwarp.kernel import Kernel
    from jaxwarp.passes.pipeline import prepare

    costs, not_compiled = {}, {}
    for name, kernel in _kernels(Kernel).items():
        began = seconds()
        try:
            compile_object(compile_cpu(prepare(kernel.specialize())).bitcode, host())
        except KernelError as error:
            not_compiled[name] = str(error).splitlines()[0]
        costs[name] = seconds() - began
    return _summary(costs, not_compiled, len(costs))


def by_warp() -> dict[str, Any]:
    """Each module that Warp compiles, of the package's kernels and of Warp's own that come with it."""
    import warp  # pyright: ignore[reportMissingImports]

    warp.config.log_level = warp.LOG_WARNING
    warp.init()
    costs = {}
    with tempfile.TemporaryDirectory() as folder:
        warp.config.kernel_cache_dir = folder
        found = _kernels(warp.Kernel)
        for module in {kernel.module for kernel in found.values()}:
            began = seconds()
            module.load("cpu")
            costs[module.name] = seconds() - began
    return _summary(costs, {}, len(found))


def _summary(costs: dict[str, float], not_compiled: dict[str, str], kernels: int) -> dict[str, Any]:
    ordered = sorted(costs, key=costs.__getitem__, reverse=True)
    return {
        "version": importlib.metadata.version("mujoco-warp"),
        "kernels": kernels,
        "seconds": sum(costs.values()),
        "slowest": {name: costs[name] for name in ordered[:10]},
        "not_compiled": not_compiled,
    }


if __name__ == "__main__":
    print(json.dumps({"jaxwarp": by_jaxwarp, "warp": by_warp}[sys.argv[1]]()))
