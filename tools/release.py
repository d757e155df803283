"""What a release needs to know of this checkout: `.github/workflows/release.yml` runs it.

    python tools/release.py check refs/tags/v0.1.0   # fails if the places that say the version do not agree
    python tools/release.py notes                    # the version's part of CHANGELOG.md
    python tools/release.py readme                   # the README's program
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def version(root: Path = ROOT) -> str:
    """Return the version, which pyproject.toml alone decides."""
    return tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]


def notes(root: Path = ROOT) -> str:
    """Return the part of the changelog about the version."""
    parts = re.split(r"^## ", (root / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    found = [part for part in parts if part.split(maxsplit=1)[:1] == [version(root)]]
    if len(found) != 1:
        raise SystemExit(f"CHANGELOG.md has {len(found)} parts about {version(root)}; expected one")
    return found[0].partition("\n")[2].strip() + "\n"


def problems(ref: str, root: Path = ROOT) -> list[str]:
    """Return what keeps the commit from being released as the tag `ref` says; a ref that is no tag needs less."""
    own, changes = version(root), (root / "CHANGELOG.md").read_text()
    cited = re.search(r"^version: (.+)$", (root / "CITATION.cff").read_text(), re.MULTILINE)
    found = [] if cited is not None and cited[1] == own else [f"CITATION.cff does not say version {own}"]
    if ref.startswith("refs/tags/"):
        if ref != f"refs/tags/v{own}":
            found.append(f"pyproject.toml has version {own}: its tag is v{own}, not {ref.removeprefix('refs/tags/')}")
        if not re.search(rf"^## {re.escape(own)} \(\d{{4}}-\d\d-\d\d\)$", changes, re.MULTILINE):
            found.append(f"CHANGELOG.md has no heading '## {own} (YYYY-MM-DD)'")
        left = sorted(path.name for path in (root / "changes").glob("*.*.md"))
        found += [f"changes/ still has {', '.join(left)}: run towncrier build"] if left else []
    return found


def readme(root: Path = ROOT) -> str:
    """Return the program of the README, with its comments of what it prints as checks."""
    (text,) = re.findall(r"^```python\n(.*?)^```$", (root / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    return re.sub(r"^print\((.*)\)  # (.*)$", r"assert str(\1) == '\2', \1", text, flags=re.MULTILINE)


def main(arguments: list[str]) -> None:
    command, *rest = arguments
    if command == "check":
        found = problems(*rest)
        sys.exit("\n".join(found) or 0)
    print({"notes": notes, "readme": readme}[command](), end="")


if __name__ == "__main__":
    main(sys.argv[1:])
