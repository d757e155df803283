"""Random kernels, random gradients, and mutants of what comes from outside. `make fuzz` runs it.

    PYTHONPATH=.:tests python tests/fuzz/run.py --kernels 100000 --gradients 10000 --mutants 100000 --seed 0

The rest of a run that was cut off is had with `--first`, the number to go on with; runs into one folder count together,
and without counts it prints what they have tried. What it finds is in the folder, to
be made a test with a name; `--first NUMBER --kernels 1 --kinds KIND` shows it again (a share of one is one).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

from fuzz import campaign, gradients, kernels, mutations

FAMILIES = {"mutants": mutations, "gradients": gradients, "kernels": kernels}
KINDS = {name: kind for family in FAMILIES.values() for name, kind in family.KINDS.items()}


def main() -> None:
    parser = campaign.arguments(__doc__)
    for family in FAMILIES:
        parser.add_argument(f"--{family}", type=int, default=0, help="how many")
    parser.add_argument("--kinds", nargs="+", default=list(KINDS), choices=list(KINDS))
    options = parser.parse_args()
    campaign.run_all(options, __file__, KINDS, plan(options))


def plan(options: argparse.Namespace) -> Iterator[tuple[str, int, int]]:
    """Kinds, how many of each, and how many to a process."""
    for name, family in FAMILIES.items():
        shares = {kind: share for kind, share in family.SHARES.items() if kind in options.kinds}
        for kind, share in shares.items():
            count = -(-getattr(options, name) * share // sum(shares.values()))
            if count:
                yield kind, count, family.CHUNK


if __name__ == "__main__":
    main()
