"""Notebooks of some examples, in examples/notebooks: a script's own text in cells, run at a small size.

`make notebooks`. `tests/test_notebooks.py` holds the cells to the scripts.
"""

from __future__ import annotations

import ast
import itertools
import os
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "examples" / "notebooks"
# The arguments of each: less than the script's own take seconds.
ARGUMENTS = {
    "figure_eight": ("--steps", "600"),
    "heat_design": ("--size", "32", "--steps", "40"),
    "ising": ("--size", "128", "--sweeps", "600"),
    "ray_marching": ("--height", "160"),
    "waves": ("--rows", "96"),
}
_DEFINITIONS = (ast.FunctionDef, ast.ClassDef)


def main() -> None:
    OUT.mkdir(exist_ok=True)
    for name in ARGUMENTS:
        (OUT / f"{name}.ipynb").write_text(executed(name))
        print(f"wrote {(OUT / name).relative_to(ROOT)}.ipynb", flush=True)


def cells(name: str) -> list[tuple[str, str]]:
    """(kind, text) of each: the script's docstring, its parts, a call."""
    text = (ROOT / "examples" / f"{name}.py").read_text()
    docstring, *body = ast.parse(text).body
    title, _, rest = ast.literal_eval(docstring.value).partition("\n")
    call = f"from IPython import display\n\nmain({list(ARGUMENTS[name])})\ndisplay.Image('out/{name}.png')"
    code = [*parts(text.splitlines(), body), call.replace("'", '"')]
    return [("markdown", f"# {title}\n\n{rest.strip()}"), *(("code", part) for part in code)]


def parts(lines: list[str], body: list[ast.stmt]) -> list[str]:
    """A function or class each, or what stands between them; less the call of `main` at the end."""
    groups = [list(g) for _, g in itertools.groupby(body, lambda n: n if isinstance(n, _DEFINITIONS) else None)]
    starts = [first_line(lines, group[0]) for group in groups]
    return ["\n".join(lines[a:b]).strip() for a, b in itertools.pairwise(starts)]


def first_line(lines: list[str], node: ast.stmt) -> int:
    """Its number from 0, with decorators and comments above."""
    line = min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))]) - 1
    while lines[line - 1].startswith("#"):
        line -= 1
    return line


def executed(name: str) -> str:
    """The notebook as a file, with what it prints and draws."""
    import nbformat
    from nbclient import NotebookClient

    made = nbformat.v4.new_notebook(metadata={"kernelspec": {"name": "python3", "display_name": "Python 3"}})
    for number, (kind, text) in enumerate(cells(name)):
        new = nbformat.v4.new_markdown_cell if kind == "markdown" else nbformat.v4.new_code_cell
        made.cells.append(new(text, id=f"part-{number}"))
    os.environ |= {"PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")]), "TQDM_DISABLE": "1"}
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(made, timeout=600, record_timing=False, resources={"metadata": {"path": folder}})
        client.execute()
    del made.metadata["language_info"]  # of the Python that it ran on
    return nbformat.writes(made) + "\n"


if __name__ == "__main__":
    main()
