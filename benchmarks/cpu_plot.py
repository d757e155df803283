"""Draws results/cpu.json: each contender's time over that of the hand-written C++, with quartiles."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("agg")
import matplotlib.pyplot as plt

RESULTS = Path(__file__).parent / "results" / "cpu.json"
# Colours that remain apart for the colour-blind (Okabe and Ito), and another shape each.
STYLES = {
    "jaxwarp": ("#0072B2", "o", 9),
    "Numba fastmath": ("#E69F00", "s", 5),
    "Numba": ("#D55E00", "^", 5),
    "jax.numpy": ("#009E73", "D", 5),
    "Warp": ("#888888", "v", 5),
}


def plot(path: str | Path) -> None:
    """Writes the picture: a panel for each number of threads, a row for each kernel."""
    results = json.loads(RESULTS.read_text())
    threads = results["threads"]
    names = list(next(iter(threads.values())))[::-1]
    size = (5.2 * len(threads), 0.27 * len(names) + 1.3)
    figure, panels = plt.subplots(1, len(threads), sharey=True, squeeze=False, figsize=size, layout="constrained")
    for panel, (count, found) in zip(panels[0], threads.items(), strict=True):
        _panel(panel, found, names)
        panel.set_title(f"{count} thread{'s' if count != '1' else ''}", fontsize=10)
    panels[0][0].set_yticks(range(len(names)), names)
    handles, labels = panels[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=len(STYLES), frameon=False, fontsize=9)
    figure.supxlabel("time, times that of hand-written C++ (median, quartiles); left is faster", fontsize=9)
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)
    print(f"wrote {path}")


def _panel(panel: Any, found: dict[str, Any], names: list[str]) -> None:
    panel.axvline(1, color="black", linewidth=0.8)
    for name, (colour, marker, size) in STYLES.items():
        rows = [(at, found[case][name]["ratio"]) for at, case in enumerate(names) if name in found.get(case, {})]
        if not rows:
            continue
        medians = [ratio[1] for _, ratio in rows]
        spread = [[m - r[0] for m, (_, r) in zip(medians, rows, strict=True)],
                  [r[2] - m for m, (_, r) in zip(medians, rows, strict=True)]]  # fmt: skip
        panel.errorbar(medians, [at for at, _ in rows], xerr=spread, fmt=marker, color=colour, markersize=size,
                       label=name, capsize=2, linewidth=1, zorder=3 if name == "jaxwarp" else 2)  # fmt: skip
    panel.set_xscale("log")
    panel.set_xticks([0.25, 0.5, 1, 2, 5, 10, 20, 50, 100], ["¼", "½", "1", "2", "5", "10", "20", "50", "100"])
    panel.minorticks_off()
    panel.grid(axis="both", color="#dddddd", linewidth=0.5)
    panel.set_axisbelow(True)
    panel.tick_params(axis="y", length=0)
    for side in ("top", "right", "left"):
        panel.spines[side].set_visible(False)
