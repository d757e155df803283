"""A section in its process: `python -m gpu_report.child NAME MODULE:FUNCTION SETUP`, the last as JSON."""

from __future__ import annotations

import importlib
import json
import sys
import traceback

from gpu_report.sections import Row, Setup, keep, path_of, reason, shown


def main(name: str, function: str, given: str) -> int:
    fields = json.loads(given)
    setup = Setup(**{**fields, "only": tuple(fields["only"])})
    rows: list[Row] = []

    def save(status: str) -> None:
        keep(path_of(setup, name), {"section": name, "status": status, "rows": rows})

    save("running")
    try:
        module, attribute = function.split(":")
        for row in getattr(importlib.import_module(module), attribute)(setup):
            rows.append(row)
            save("running")
            print("  " + "  ".join(f"{key} {shown(value)}" for key, value in row.items()), flush=True)
    except Exception as error:
        traceback.print_exc()
        save(f"failed: {reason(error)}")
        return 1
    save("done")
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
