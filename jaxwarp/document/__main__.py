"""Writes what is generated from tables and classes: `docs/builtins.md`, `docs/config.md`, the grammar of the IR in
`docs/design/0001-ir.md`, the tables of `docs/from_warp.md`, and the type stub `jaxwarp/__init__.pyi`.

Run `python -m jaxwarp.document` in a checkout after a change of a builtin, a setting, an operation of the IR or a
public name. With `--modules` it prints the map of all modules, a page that only the site has.
"""

from __future__ import annotations

import sys
from pathlib import Path

from jaxwarp.document.builtins import reference
from jaxwarp.document.pages import FROM_WARP, IR_PAGE, from_warp, ir_page, module_map, settings
from jaxwarp.document.stub import stub
from jaxwarp.document.tables import DOCS, PACKAGE

GENERATED = {
    DOCS / "builtins.md": reference,
    DOCS / "config.md": settings,
    IR_PAGE: ir_page,
    FROM_WARP: from_warp,
    PACKAGE / "__init__.pyi": stub,
}


def main(arguments: list[str]) -> int:
    """Writes the files; with `--check`, only says which are out of date; with `--modules`, prints the modules."""
    if "--modules" in arguments:
        print(module_map())
        return 0
    outdated = [path for path, make in GENERATED.items() if _differs(path, make())]
    for path in outdated:
        if "--check" in arguments:
            print(f"{path} is out of date: run python -m jaxwarp.document")
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_text(GENERATED[path]())
            print(f"wrote {path}")
    return 1 if outdated and "--check" in arguments else 0


def _differs(path: Path, text: str) -> bool:
    return not path.exists() or path.read_text() != text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
