"""What the site has beside the files of docs/: a hook of MkDocs (mkdocs.yml). `make docs` builds it.

Pages are made of the examples (the gallery's text, its picture, the code), of the modules of the package, of public
names (`jaxwarp/document/reference.py`; their docstrings, by mkdocstrings), and of what docs/ points to outside of
itself. Links between them are the files' own: a link that leaves docs/ is turned into one to the page of that file.
"""

from __future__ import annotations

import ast
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

from jaxwarp.document import reference
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
def on_config(config: Any) -> Any:
    """Navigation of what is made here."""
    sections = {title: pages for entry in config.nav for title, pages in entry.items()}
    sections["Gallery"] += ["gallery.md", *(f"examples/{path.stem}.md" for path in examples())]
    sections["Reference"] += [f"api/{slug(title)}.md" for title in reference.pages()]
    pages = sorted(path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs/design").glob("*.md"))
    sections["Design"] += ["modules.md", *OUTSIDE.values(), {"Decisions": pages}]
    return config


def on_files(files: Files, config: Any) -> Files:
    made = {f"examples/{path.stem}.md": example_page(path) for path in examples()}
    made |= {page: rewritten((ROOT / source).read_text(), source, page) for source, page in OUTSIDE.items()}
    made |= {f"api/{slug(title)}.md": text for title, text in reference.pages().items()}
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
