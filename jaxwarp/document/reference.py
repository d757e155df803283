"""The reference of the site: every public name, the page that it is on, and what that page says of it."""

from __future__ import annotations

import importlib
import inspect
import re
import types
from functools import cache
from typing import Any

import jaxwarp
from jaxwarp.document.stub import array_members
from jaxwarp.document.tables import DOCS, cells
from jaxwarp.frontend.text.functions import Func
from jaxwarp.host.idle import IDLE
from jaxwarp.library.names import GEOMETRY, TEXTURES
from jaxwarp.types import Mat, Quat, Scalar, Transform, Vec


def _of(table: dict[str, tuple[str, ...]], *modules: str) -> str:
    return " ".join(name for module in modules for name in table[module])


# Public names by page, in the order they are shown. Builtins have docs/builtins.md, types a table.
PAGES = {
    "Kernels": (
        "kernel func struct Kernel Func overload func_grad func_replay func_native adjoint func_next init constant"
        " Module get_module get_module_options set_module_options"
    ),
    "Calls from JAX": (
        "jax_kernel jax_callable GraphMode ModulePreloadMode register_ffi_callback export_checks kernel_checks"
        " cost_analysis"
    ),
    "Arrays outside of JAX": (
        "array indexedarray zeros zeros_like ones ones_like full full_like empty empty_like clone copy map"
        " from_numpy from_jax to_jax from_dlpack to_dlpack from_torch to_torch dtype_from_jax dtype_to_jax"
        " dtype_from_numpy dtype_to_numpy dtype_from_torch dtype_to_torch device_from_torch device_to_torch"
        " stream_from_torch stream_to_torch"
    ),
    "Launches outside of JAX": (
        "launch launch_tiled Launch Tape Graph ScopedCapture CaptureMode capture_begin capture_end capture_launch"
        " capture_if capture_while is_conditional_graph_supported"
    ),
    "Annotations": (
        "array1d array2d array3d array4d indexedarray1d indexedarray2d indexedarray3d indexedarray4d fixedarray ref"
        " fabricarray indexedfabricarray"
    ),
    "Points and grids": _of(GEOMETRY, "hash_grid", "grid_queries", "sorting"),
    "Trees over boxes": _of(GEOMETRY, "bvh", "bvh_queries", "steps"),
    "Triangle meshes": _of(GEOMETRY, "mesh", "mesh_queries", "winding", "mesh_values", "surfaces.iso_surface"),
    "Sparse volumes": _of(GEOMETRY, "volumes.volume", "volumes.sampling"),
    "Image textures": _of(TEXTURES, "texture", "modes", "sampling"),
    "Devices and streams": (
        "Device DeviceLike ScopedDevice get_device set_device get_devices get_preferred_device get_cuda_device"
        " get_cuda_devices get_cuda_device_count is_cpu_available is_cuda_available is_device_available"
        " device_from_jax device_to_jax synchronize synchronize_device synchronize_stream Stream ScopedStream"
        " get_stream set_stream wait_stream can_access get_mempool_release_threshold set_mempool_release_threshold"
        " get_mempool_used_mem_current get_mempool_used_mem_high is_mempool_enabled set_mempool_enabled"
        " is_mempool_supported"
    ),
    "Time and tuning": (
        "autotune Tuned get_suggested_block_size Event record_event wait_event synchronize_event"
        " get_event_elapsed_time ScopedTimer print_diagnostics get_cuda_driver_version get_cuda_supported_archs"
        " get_cuda_toolkit_version install_as_warp transform_expand"
    ),
    "Errors": "JaxwarpError KernelError CompileError CheckError PerformanceWarning",
}
# The pages that show how to use what a page of the reference lists.
GUIDES = {
    "Kernels": ("language", "structs", "derivatives"),
    "Calls from JAX": ("jax_kernel", "jax_callable", "callbacks", "export"),
    "Arrays outside of JAX": ("arrays",),
    "Launches outside of JAX": ("arrays", "tiles"),
    "Annotations": ("language", "arrays"),
    "Points and grids": ("geometry", "tutorial_neighbors"),
    "Trees over boxes": ("meshes",),
    "Triangle meshes": ("meshes", "surfaces"),
    "Sparse volumes": ("volumes",),
    "Image textures": ("textures",),
    "Devices and streams": ("gpus", "arrays"),
    "Time and tuning": ("gpus", "performance"),
    "Errors": ("errors",),
}
# Packages that are a page each.
MODULES = {
    "Geometry": ("jaxwarp.geometry", ("meshes", "geometry", "surfaces")),
    "Sparse matrices": ("jaxwarp.sparse", ("sparse",)),
    "Optimisers and solvers": ("jaxwarp.optim", ("linear_solvers",)),
    "Finite elements": ("jaxwarp.fem", ("fem",)),
    "Jacobians and checks": ("jaxwarp.autograd", ("derivatives",)),
    "Utilities": ("jaxwarp.utils", ("arrays",)),
}
# Of classes whose other members are for the package's own use.
MEMBERS = {"Kernel": "ir source ptx resources roofline interpret", "Func": "", "Module": ""}
TYPES = "Types and other names"
_TYPES = (Scalar, Vec, Mat, Quat, Transform)


def public_names() -> list[str]:
    """Return the names that `jaxwarp` has for users, without its modules."""
    return [name for name in dir(jaxwarp) if name[0] != "_" and not isinstance(_value(name), types.ModuleType)]


def placed() -> dict[str, list[str]]:
    """Return the pages of the reference, and the names on each."""
    return {title: names.split() for title, names in PAGES.items()}


@cache
def elsewhere() -> frozenset[str]:
    """Return the names that other pages list: builtins, and names of Warp that do nothing."""
    return frozenset(re.findall(r"^\| `(\w+)", (DOCS / "builtins.md").read_text(), re.MULTILINE)) | frozenset(IDLE)


def others() -> list[str]:
    """Return the public names that have a line in the table of types and other names."""
    taken = {name for names in placed().values() for name in names} | elsewhere()
    return [name for name in public_names() if name not in taken]


def pages() -> dict[str, str]:
    """Return the text of every page, for MkDocs with mkdocstrings, by title."""
    made = {title: _page(title, names) for title, names in placed().items()}
    made[TYPES] = _table()
    return made | {title: _module(title, *of) for title, of in MODULES.items()}


def meaning(name: str) -> str:
    """Return what a name of the table stands for; empty if nothing is known of it."""
    value = _value(name)
    if isinstance(value, _TYPES):
        shape = getattr(value, "shape", ())
        inside = f"; in JAX an axis more for each of {shape}" if shape else ""
        return f"the type `{value}`" + inside
    if isinstance(value, int | float):
        return f"the number {value}"
    known = {id(_value(other)): other for names in placed().values() for other in names}
    if id(value) in known:
        return f"another name of `{known[id(value)]}`"
    named = getattr(value, "__module__", "") or ""
    if named.startswith("jaxwarp."):
        return (inspect.getdoc(value) or "").split("\n")[0]
    return f"`{value}`, for type checkers" if named == "typing" else ""


def _value(name: str) -> Any:
    return getattr(jaxwarp, name)


def _page(title: str, names: list[str]) -> str:
    return f"# {title}\n\n{_guide(GUIDES[title])}" + "\n".join(map(_entry, names))


def _guide(names: tuple[str, ...]) -> str:
    return f"How to use these, with examples: {', '.join(f'[{name}](../{name}.md)' for name in names)}.\n\n"


def _entry(name: str) -> str:
    value = _value(name)
    if isinstance(value, Func):
        return _overloads(name, value)
    if name == "array":
        members = ", ".join(sorted(array_members()))
        return "## array\n\n::: jaxwarp.arrays.host_array.HostArray\n    options:\n      heading_level: 3\n" + (
            f"      inherited_members: true\n      members: [{members}]\n"
        )
    path = _path(name, value)
    if name not in MEMBERS:
        return f"::: {path}\n"
    return f"::: {path}\n    options:\n      members: [{MEMBERS[name].replace(' ', ', ')}]\n"


def _path(name: str, value: Any) -> str:
    if name in vars(jaxwarp) and name not in ("kernel", "CaptureMode") and value.__class__ is not type(jaxwarp):
        in_init = re.search(rf" as {name}\b", inspect.getsource(jaxwarp))
        if in_init:
            return f"jaxwarp.{name}"
    return f"{value.__module__}.{value.__qualname__}"


def _overloads(name: str, function: Func) -> str:
    """The entry of a function of kernels: the signatures and what each docstring says."""
    parts = [f"## {name}\n\nIn kernels.\n"]
    for overload in function.overloads:
        said = inspect.cleandoc(overload.source.function.__doc__ or "")
        parts.append(f"```python\n{overload.written}\n```\n\n{said}\n")
    return "\n".join(parts)


def _table() -> str:
    rows = [cells(f"`{name}`", meaning(name)) for name in others()]
    return (
        f"# {TYPES}\n\nTypes of numbers, vectors and matrices, numbers with a name, and second names. Functions of"
        " kernels are on the page of [builtins](../builtins.md).\n\n"
        + "\n".join(["| name | meaning |", "| --- | --- |", *rows, ""])
    )


def _module(title: str, module: str, guides: tuple[str, ...]) -> str:
    options = "    options:\n      show_root_heading: false\n      members: []\n"
    entries = [_member(name, value) for name, value in members(module)]
    return f"# {title}\n\n{_guide(guides)}::: {module}\n{options}\n" + "\n".join(entries)


def members(module: str) -> list[tuple[str, Any]]:
    """Return the public functions and classes of a package, in the order of their names."""
    package = importlib.import_module(module)
    found = [(name, getattr(package, name)) for name in dir(package) if name[0] != "_"]
    return [(name, value) for name, value in found if _is_ours(value)]


def _is_ours(value: Any) -> bool:
    is_kind = inspect.isclass(value) or inspect.isfunction(value) or isinstance(value, Func)
    return is_kind and (getattr(value, "__module__", "") or "").startswith("jaxwarp.")


def _member(name: str, value: Any) -> str:
    if isinstance(value, Func):
        return _overloads(name, value)
    path = f"{value.__module__}.{value.__qualname__}"
    return f"::: {path}\n" if value.__qualname__ == name else f"## {name}\n\nAnother name of `{path}`.\n"
