"""Cases of Warp's own tests that fail here and are meant to, by reason: `warp_cases.toml`.

    python tools/warp_cases.py SUITE RESULTS...    which failing cases have no reason, and which patterns fit no case

Docs list them (`tools/compare_with_warp.py`). SUITE is a folder with the `baseline.json` of what Warp itself passes and
the `internal_cases.json` of what uses private names; RESULTS are the `results.json` of runs, of all files if patterns
matter.
"""

from __future__ import annotations

import json
import sys
import textwrap
import tomllib
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

DATA = Path(__file__).with_suffix(".toml")


def reasons() -> list[dict[str, Any]]:
    """`why`, and `cases`: names of tests, in which * stands for what differs between several."""
    return tomllib.loads(DATA.read_text())["reason"]


def listed() -> str:
    """The reasons and their cases, as a list of a page."""
    items = []
    for row in reasons():
        text = f"{row['why']}: {', '.join(f'`{name}`' for name in row['cases'])}."
        items.append(textwrap.fill(text, 120, initial_indent="- ", subsequent_indent="  ", break_on_hyphens=False))
    return "\n".join(items) + "\n"


def failing(suite: Path, results: Iterable[Path]) -> set[str]:
    """The cases that Warp passes by public names alone, and this package does not; without their device."""
    warp, private = (json.loads((suite / name).read_text()) for name in ("baseline.json", "internal_cases.json"))
    found = set()
    for result in results:
        for file in json.loads(result.read_text())["files"]:
            name = file["file"]
            for case, outcome in file["tests"].items():
                is_public = warp["tests"].get(name, {}).get(case) == "passed" and case not in private.get(name, {})
                if is_public and outcome["status"] not in ("passed", "skipped"):
                    found.add(case.split("::")[-1].removesuffix("_cpu"))
    return found


def main(options: Sequence[str]) -> int:
    """Prints what is wrong with the list."""
    suite, *results = map(Path, options)
    cases, patterns = failing(suite, results), [name for row in reasons() for name in row["cases"]]
    unlisted = sorted(case for case in cases if not any(fnmatchcase(case, pattern) for pattern in patterns))
    needless = [pattern for pattern in patterns if not any(fnmatchcase(case, pattern) for case in cases)]
    print(*(f"no reason: {case}" for case in unlisted), *(f"fits no case: {name}" for name in needless), sep="\n")
    print(f"{len(cases)} failing, {len(unlisted)} of them without a reason")
    return int(bool(unlisted))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
