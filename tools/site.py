"""What the site has beside the files of docs/: a hook of MkDocs (mkdocs.yml). `make docs` builds it.

Pages are made of the examples (the gallery's text, its picture, the code), of the modules of the package, of public
names (their docstrings, by mkdocstrings), and of what docs/ points to outside of itself. Links between them are the
files' own: a link that leaves docs/ is turned into one to the page of that file. A public name without a place in `API`
is on the page More.
"""

from __future__ import annotations

import ast
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

from jaxwarp.document.pages import module_map

ROOT = Path(__file__).resolve().parent.parent
LINK = re.compile(r"(\]\()(?!https?:|#)([^)#\s]+)((?:#[^)]*)?\))")
CODE = re.compile(r"(^```.*?^```$|`[^`\n]+`)", re.MULTILINE | re.DOTALL)
# Files outside of docs/ that are pages, and where.
OUTSIDE = {
    "CHANGELOG.md": "design/changelog.md",
    "changes/README.md": "design/changes.md",
    "CONTRIBUTING.md": "design/contributing.md",
    "benchmarks/cpu_code.md": "benchmarks/cpu_code.md",
    "benchmarks/derivatives.md": "benchmarks/derivatives.md",
}
# Public names by page, in the order they are shown. Builtins have docs/builtins.md.
API = {
    "Kernels": (
        "kernel func struct Kernel Func overload func_grad func_replay adjoint func_next init constant Module "
        "get_module"
    ),
    "Calls from JAX": (
        "jax_kernel jax_callable GraphMode ModulePreloadMode register_ffi_callback export_checks kernel_checks "
        "cost_analysis"
    ),
    "Arrays outside of JAX": (
        "launch Launch Tape map zeros zeros_like ones ones_like full full_like empty empty_like clone copy "
        "from_numpy from_jax to_jax from_dlpack to_dlpack from_torch to_torch dtype_from_jax dtype_to_jax "
        "dtype_from_numpy dtype_to_numpy dtype_from_torch dtype_to_torch device_from_torch device_to_torch "
        "stream_from_torch stream_to_torch"
    ),
    "Annotations": (
        "array array1d array2d array3d array4d indexedarray indexedarray1d indexedarray2d indexedarray3d "
        "indexedarray4d fixedarray ref"
    ),
    "Devices and streams": (
        "Device ScopedDevice get_device set_device get_devices get_preferred_device get_cuda_device "
        "get_cuda_devices get_cuda_device_count is_cpu_available is_cuda_available is_device_available "
        "device_from_jax device_to_jax synchronize synchronize_device synchronize_stream Stream ScopedStream "
        "get_stream set_stream wait_stream"
    ),
    "Errors": (
        "JaxwarpError KernelError CompileError CheckError PerformanceWarning"
    ),
}
# Of classes whose other members are for the package's own use.
MEMBERS = {"Kernel": "ir source ptx resources roofline interpret", "Func": "", "Module": ""}
MODULES = {"Geometry": "jaxwarp.geometry", "Optimisers": "jaxwarp.optim", "Utilities": "jaxwarp.utils"}


def on_config(config: Any) -> Any:
    """Navigation of what is made here."""
    sections = {title: pages for entry in config.nav for title, pages in entry.items()}
    sections["Gallery"] += ["gallery.md", *(f"examples/{path.stem}.md" for path in examples())]
    sections["Reference"] += [f"api/{slug(title)}.md" for title in (*public_names(), *MODULES)]
    pages = sorted(path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs/design").glob("*.md"))
    sections["Design"] += ["modules.md", *OUTSIDE.values(), {"Decisions": pages}]
    return config


def on_files(files: Files, config: Any) -> Files:
    made = {f"examples/{path.stem}.md": example_page(path) for path in examples()}
    made |= {page: rewritten((ROOT / source).read_text(), source, page) for source, page in OUTSIDE.items()}
    made |= {f"api/{slug(title)}.md": api_page(title, names) for title, names in public_names().items()}
    made |= {f"api/{slug(title)}.md": module_page(title, module) for title, module in MODULES.items()}
    made["modules.md"] = module_map()
    for name, text in made.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Links as MkDocs wants them, for pages that are files of docs/."""
    name = page.file.src_uri
    return rewritten(markdown, f"docs/{name}", name) if (ROOT / "docs" / name).is_file() else markdown


def examples() -> list[Path]:
    return [p for p in sorted((ROOT / "examples").glob("*.py")) if not p.stem.startswith("_")]


def slug(title: str) -> str:
    return title.lower().replace(" ", "_")


def rewritten(text: str, source: str, page: str) -> str:
    """The text of a file of the project with its links as those of a page of the site."""

    def link(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(posixpath.dirname(source), match[2]))
        at = place(target)
        if at is None:
            raise PluginError(f"{source} points to {target}, which is no page of the site")
        return match[1] + posixpath.relpath(at, posixpath.dirname(page) or ".") + match[3]

    # In tables of GitHub bars are escaped in code, too; here a backslash in code is one.
    return "".join(
        part.replace(r"\|", "|") if n % 2 else LINK.sub(link, part) for n, part in enumerate(CODE.split(text))
    )


def place(target: str) -> str | None:
    """Where a file of the project is in the site."""
    if target in OUTSIDE:
        return OUTSIDE[target]
    if target.startswith("docs/"):
        return target.removeprefix("docs/")
    if target == "README.md":
        return "index.md"
    if re.fullmatch(r"examples/\w+\.py", target):
        return target.removesuffix(".py") + ".md"
    return None


def example_page(path: Path) -> str:
    """The gallery's section about an example, else its docstring; and its code."""
    code = path.read_text()
    name = f"examples/{path.name}"
    about = gallery().get(name)
    if about is None:
        first, _, rest = (ast.get_docstring(ast.parse(code)) or "").partition("\n")
        about = f"# {path.stem.replace('_', ' ').capitalize()}\n\n{first}\n\n{escaped(rest)}\n"
    return f"---\nhide: [toc]\n---\n{about}\n`{name}`:\n\n```python\n{code}```\n"


def escaped(text: str) -> str:
    return re.sub(r"^(?=[*_])", r"\\", text, flags=re.MULTILINE)


def gallery() -> dict[str, str]:
    """The sections of the gallery by the examples that they point to first, as pages."""
    found = {}
    for section in re.split(r"^## ", (ROOT / "docs/gallery.md").read_text(), flags=re.MULTILINE)[1:]:
        for target in re.findall(r"\]\(\.\./(examples/\w+\.py)\)", section):
            found.setdefault(target, rewritten(f"# {section.strip()}\n", "docs/gallery.md", target))
    return found


def api_page(title: str, names: list[str]) -> str:
    return f"# {title}\n\n" + "\n".join(map(entry, names))


def entry(name: str) -> str:
    """The documentation of a public name, with the members that users call."""
    # A submodule of the same name hides the decorator.
    path = "jaxwarp.decorators.kernel" if name == "kernel" else f"jaxwarp.{name}"
    if name not in MEMBERS:
        return f"::: {path}\n"
    return f"::: {path}\n    options:\n      members: [{MEMBERS[name].replace(' ', ', ')}]\n"


def module_page(title: str, module: str) -> str:
    return f"# {title}\n\n::: {module}\n    options:\n      show_root_heading: false\n      heading_level: 2\n"


def public_names() -> dict[str, list[str]]:
    """Every public function and class by page; those without a place in `API` are on one of their own."""
    tree = ast.parse((ROOT / "jaxwarp/__init__.py").read_text())
    elsewhere = ("jaxwarp", "jaxwarp.types")  # modules, which have pages, and types of numbers
    imports = [n for n in tree.body if isinstance(n, ast.ImportFrom) and n.module not in elsewhere]
    public = {a.asname for n in imports for a in n.names if a.asname == a.name}
    pages = {title: names.split() for title, names in API.items()}
    placed = {name for names in pages.values() for name in names}
    if placed - public:
        raise PluginError(f"tools/site.py: API has names that are not there: {placed - public}")
    return pages | ({"More": sorted(public - placed)} if public - placed else {})
