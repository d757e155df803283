"""The shape of the code: which module may import which, and how long files and functions may be."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import jaxwarp

ROOT = Path(jaxwarp.__file__).parent
MAX_FILE_LINES = 600
MAX_FUNCTION_LINES = 100
MAX_MODULES = 20  # in a folder

# A module may import from its own layer and from those before it; within one layer, cycles are excluded too.
LAYERS = (
    ("errors", "conversions", "quaternions", "types", "boundary", "config", "deep", "unlocked", "compat"),
    ("ir",),
    ("builtins",),
    ("analysis",),
    ("passes",),
    ("vjp", "codegen"),
    ("frontend",),
    ("modules",),
    ("cuda_options",),
    ("structs",),
    ("kernel",),
    ("decorators",),
    ("native",),
    ("memory",),
    ("launches",),
    ("ffi",),
    ("arrays",),
    ("host",),
    ("utils",),
    ("autograd",),
)
# Of the modules at the bottom these know each other; `vjp` and `codegen` do not.
NEIGHBOURS = {
    ("types", "boundary"),
    ("types", "errors"),
    ("types", "quaternions"),
    ("types", "conversions"),
    ("quaternions", "conversions"),
    ("conversions", "errors"),
    ("quaternions", "boundary"),
    ("quaternions", "errors"),
    ("boundary", "errors"),
    ("config", "boundary"),
    ("config", "errors"),
    ("compat", "boundary"),
}
# Folders beside the line are libraries on the whole package; of them this one may be built on.
LIBRARIES = {("optim", "sparse")}
WITHOUT_JAX = (
    *("errors", "quaternions", "types", "deep", "unlocked", "ir", "builtins", "analysis", "passes", "vjp", "codegen"),
    "frontend",
)


def modules() -> dict[str, Path]:
    """Dotted name, below the package, of every source file."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


def imported(path: Path) -> Iterator[str]:
    """Full names of the modules a file imports, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Import():
                yield from (alias.name for alias in node.names)
            case ast.ImportFrom(level=0, module=str() as module):
                for alias in node.names:
                    full = f"{module}.{alias.name}"
                    inside = full.removeprefix("jaxwarp.") if full.startswith("jaxwarp.") else ""
                    yield full if inside in MODULES else module
            case ast.ImportFrom():
                raise AssertionError(f"{path}:{node.lineno}: relative imports hide what is imported")
            case _:
                pass


def ours(path: Path) -> set[str]:
    names = {name for name in imported(path) if name == "jaxwarp" or name.startswith("jaxwarp.")}
    return {name.removeprefix("jaxwarp").removeprefix(".") for name in names}


def layer(module: str) -> int | None:
    """The number of a module's layer; None for the package itself and for modules beside the line."""
    head = module.split(".", maxsplit=1)[0]
    return next((n for n, heads in enumerate(LAYERS) if head in heads), None)


@pytest.mark.parametrize("module", [m for m in MODULES if layer(m) is not None])
def test_imports_go_one_way(module):
    # Late imports count as well.
    head = module.split(".")[0]
    for target in ours(MODULES[module]):
        if (head, target.split(".")[0]) in LIBRARIES:
            continue
        there = layer(target)
        assert there is not None, f"{module} imports {target or 'jaxwarp'}, which belongs to no lower layer"
        assert there <= layer(module), f"{module} imports {target}, which is above it"
        other = target.split(".")[0]
        if there == layer(module) and other != head:
            assert (head, other) in NEIGHBOURS, f"{module} imports its neighbour {target}"


def test_no_import_rings():
    """Imports inside of functions and for type checkers count as well."""
    edges = {m: {t for t in ours(path) if t in MODULES and t != m} for m, path in MODULES.items()}
    for module in MODULES:
        # A package's __init__ imports its modules, which is no dependency of theirs on it.
        edges[module] = {t for t in edges[module] if t and not module.startswith(f"{t}.")}
    done: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, " -> ".join((*path[path.index(module) :], module))
        if module not in done:
            for target in sorted(edges[module]):
                visit(target, (*path, module))
            done.add(module)

    for module in MODULES:
        visit(module, ())


@pytest.mark.parametrize("module", [m for m in MODULES if m.split(".")[0] in WITHOUT_JAX])
def test_only_the_upper_layers_know_jax(module):
    assert not {name for name in imported(MODULES[module]) if name.split(".")[0] in ("jax", "jaxlib")}


def test_the_compiler_loads_without_jax():
    """From text to code of both backends, in a process where importing JAX fails."""
    heads = [head for head in WITHOUT_JAX if (ROOT / head).exists() or (ROOT / f"{head}.py").exists()]
    code = (
        "import sys, types\n"
        "sys.modules['jax'] = sys.modules['jaxlib'] = None\n"
        "package = types.ModuleType('jaxwarp')\n"
        f"package.__path__ = [{str(ROOT)!r}]\n"
        "sys.modules['jaxwarp'] = package\n"
        "import importlib\n"
        f"for name in {heads!r}: importlib.import_module('jaxwarp.' + name)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def map_of_folders() -> list[list[list[str]]]:
    """The names that each row of CONTRIBUTING.md's two tables begins with."""
    text = (ROOT.parent / "CONTRIBUTING.md").read_text()
    tables = re.findall(r"^\| Folder .*\n\|[-|]+\|\n((?:\|.*\n)+)", text, re.MULTILINE)
    return [[re.findall(r"`(\w+)`", row.split("|")[1]) for row in table.splitlines()] for table in tables]


def test_the_map_has_every_folder_in_its_place():
    """CONTRIBUTING.md says what each folder and module of the package holds, in the order of LAYERS."""
    line, beside = map_of_folders()
    found = [name for row in line for name in row]
    assert sorted(found) == sorted(name for names in LAYERS for name in names), "LAYERS and the map differ"
    places = [layer(name) for name in found]
    assert places == sorted(places, key=lambda n: n or 0), "the map is in another order than LAYERS"
    heads = {module.split(".")[0] for module in MODULES} - {"", "__main__"}
    missing = heads - {*found, *(name for row in beside for name in row)}
    assert not missing, f"CONTRIBUTING.md's map lacks {missing}"
    assert {name for row in beside for name in row} == {head for head in heads if layer(head) is None}


def test_public_classes_have_names_of_their_own():
    """`Kernel` is what users have, and the value of the IR that it becomes."""
    names = [
        node.name
        for path in MODULES.values()
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]
    assert {name for name in names if names.count(name) > 1} == {"Kernel"}


def test_folders_are_small():
    counts: dict[str, int] = {}
    for path in MODULES.values():
        folder = str(path.parent.relative_to(ROOT))
        counts[folder] = counts.get(folder, 0) + 1
    assert {folder: n for folder, n in counts.items() if n > MAX_MODULES} == {}


def test_files_are_short():
    lengths = {str(p.relative_to(ROOT)): len(p.read_text().splitlines()) for p in MODULES.values()}
    assert {name: n for name, n in lengths.items() if n > MAX_FILE_LINES} == {}


def test_functions_are_short():
    too_long = {}
    for path in MODULES.values():
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > MAX_FUNCTION_LINES:
                    too_long[f"{path.relative_to(ROOT)}:{node.name}"] = length
    assert too_long == {}


@pytest.mark.parametrize("module", MODULES)
def test_modules_say_what_they_are(module):
    assert ast.get_docstring(ast.parse(MODULES[module].read_text())), f"{module} has no docstring"


def test_public_names_only_in_the_package_itself():
    text = MODULES[""].read_text()
    assert len(text.splitlines()) < 150
    assert not [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef | ast.ClassDef)]
