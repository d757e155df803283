"""The kernel that a command is about, and the types that are wanted of it."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jaxwarp
from jaxwarp.errors import JaxwarpError, KernelNameError, KernelTypeError, KernelValueError
from jaxwarp.frontend.text.annotations import resolve
from jaxwarp.kernel import Kernel


def find(name: str, annotations: str | None) -> tuple[Kernel, list[Any] | None]:
    """The kernel that FILE:KERNEL names, and the types that annotations name; None for its own.

    Raises:
        KernelNameError: there is no such file, module or kernel.
        KernelTypeError: the annotations are none.
        JaxwarpError: the file cannot be run.
    """
    where, _, attribute = name.rpartition(":")
    module = _load(where or attribute)
    found: Any = module
    for part in attribute.split(".") if where else ():
        found = getattr(found, part, None)
    found = getattr(found, "kernel", found)  # of a function that jax_kernel has decorated
    if not isinstance(found, Kernel):
        kernels = [k for k, value in vars(module).items() if isinstance(value, Kernel)]
        hint = f"it has {', '.join(kernels)}" if kernels else "it has none at the level of the module"
        raise KernelNameError(f"{name}: expected a kernel, as in {where or name}:NAME", hint=hint)
    if annotations is None and found.is_generic:
        raise KernelTypeError(
            f"{name} is generic: the types of its arguments are needed", hint='write --types "array[float], float"'
        )
    return found, None if annotations is None else _types(annotations, module)


def _load(where: str) -> types.ModuleType:
    path = Path(where)
    is_file = path.suffix == ".py"
    if is_file and not path.is_file():
        raise KernelNameError(f"{where}: there is no such file", hint="write FILE.py:KERNEL")
    # What it imports is looked for beside it, as if it were run.
    sys.path.insert(0, str(path.resolve().parent) if is_file else "")
    try:
        if not is_file:
            return importlib.import_module(where)
        spec = importlib.util.spec_from_file_location(path.stem, path)
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules[path.stem] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    except ModuleNotFoundError as error:
        if is_file or error.name != where.partition(".")[0]:
            raise JaxwarpError(f"{where} cannot be imported: {error}") from error
        raise KernelNameError(f"{where}: there is no such module", hint="write FILE.py:KERNEL") from None
    except Exception as error:
        raise JaxwarpError(f"{where} cannot be run: {type(error).__name__}: {error}") from error


def _types(text: str, module: types.ModuleType) -> list[Any]:
    """Types as annotations write them, with the names of the module and of jaxwarp."""
    names = {**vars(jaxwarp), "bool": bool, "int": int, "float": float, "wp": jaxwarp, **vars(module)}
    try:
        return [resolve(annotation) for annotation in eval(f"({text.rstrip(', ')},)", names)]
    except Exception as error:
        raise KernelTypeError(f"--types: {error}", hint='write --types "array[float], float"') from error


def given(kernel: Kernel, option: str, texts: Sequence[str]) -> dict[str, str]:
    """Return what an option `NAME=VALUE` says, by argument.

    Raises:
        KernelNameError: the kernel has no such argument.
    """
    found = {name: value for name, _, value in (text.partition("=") for text in texts)}
    names = [argument.name for argument in kernel.arguments]
    for name, value in found.items():
        if name not in names or not value:
            raise KernelNameError(
                f"{option} {name}={value}: kernel {kernel.name} has no such argument",
                hint=f"write {option} NAME=...; its arguments are {', '.join(names)}",
            )
    return found


def shape_of(name: str, text: str) -> tuple[int, ...]:
    """Return the extents that `--shape` gives.

    Raises:
        KernelValueError: they are no positive integers.
    """
    extents = [int(part) if part.strip().isdecimal() else 0 for part in text.split(",")]
    if 0 in extents:
        raise KernelValueError(
            f"--shape {name}={text}: expected positive integers",
            hint=f"write one for each axis: --shape {name}=512,512",
        )
    return tuple(extents)
