"""Runs numbered trials in processes of their own, and keeps what they find.

A trial is made of its kind, the seed and its number, and nothing else. One that raises or dies is a finding: it is
written down in a folder, with what it was about, and the next process goes on after it. So a long run may be cut into
ranges of numbers, and a finding is seen again by running its number alone. What was tried is kept in the folder, too:
runs of all ranges count together.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

MOST_FINDINGS = 20
TRIED = "tried.jsonl"  # a line for each process, once it has ended
LONGEST = 600  # seconds that a trial may take, with what it prepares for those after it


class Journal:
    """The trial that is tried, and what came of those before it, in a file that outlives the process."""

    def __init__(self, path: Path):
        self.path = path
        self.outcomes: collections.Counter[str] = collections.Counter()

    def begin(self, number: int) -> None:
        self.number = number
        self.note("")
        signal.alarm(LONGEST)

    def note(self, text: str) -> None:
        """Keeps what the trial is about."""
        self.path.write_text(json.dumps([self.number, text, self.outcomes]))

    def read(self) -> tuple[int, str, dict[str, int]] | None:
        return tuple(json.loads(self.path.read_text())) if self.path.exists() else None


Trial = Callable[[int], str]
"""Tries a number; what came of it in a word or two."""

Kind = Callable[[Path, int, Journal], Trial]
"""A folder for its files, the seed, where trials note what they are about."""


def work(kind: Kind, seed: int, numbers: Sequence[int], journal: Journal) -> None:
    """In a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        trial = kind(Path(folder), seed, journal)
        for number in numbers:
            journal.begin(number)
            journal.outcomes[trial(number)] += 1
    signal.alarm(0)
    print(json.dumps(journal.outcomes))


@dataclass(frozen=True)
class Tried:
    """Numbers that one process after the other has tried to the end."""

    kind: str
    seed: int
    begin: int
    end: int
    findings: int
    outcomes: dict[str, int]


def totals(keep: Path) -> str:
    """What runs into this folder have tried, a line for each kind. Ranges count once."""
    path = keep / TRIED
    lines = [Tried(**json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []
    seen: dict[tuple[str, int], set[int]] = collections.defaultdict(set)
    counts: dict[str, collections.Counter[str]] = collections.defaultdict(collections.Counter)
    for line in lines:
        numbers = range(line.begin, line.end)
        if seen[line.kind, line.seed].isdisjoint(numbers):
            seen[line.kind, line.seed].update(numbers)
            counts[line.kind].update({"tried": len(numbers), "findings": line.findings, **line.outcomes})
    return "\n".join(
        f"in all, {kind}: {', '.join(f'{n} {name}' for name, n in c.items())}" for kind, c in counts.items()
    )


class Campaign:
    """The trials of one kind, by a script that runs `main`."""

    def __init__(self, kind: str, seed: int, keep: Path, script: str):
        self.kind = kind
        self.seed = seed
        self.keep = keep
        self.script = script
        self.findings = 0
        self.outcomes: collections.Counter[str] = collections.Counter()
        self.started = time.monotonic()

    def run(self, first: int, count: int, chunk: int) -> None:
        """Tries the numbers from `first` on, so many to a process, and tells how it goes."""
        self.keep.mkdir(parents=True, exist_ok=True)
        for begin in range(first, first + count, chunk):
            end = min(begin + chunk, first + count)
            found, before = self.findings, self.outcomes.copy()
            self.run_range(begin, end)
            self.tell(first, end)
            line = Tried(self.kind, self.seed, begin, end, self.findings - found, dict(self.outcomes - before))
            with (self.keep / TRIED).open("a") as file:
                print(json.dumps(vars(line)), file=file)

    def run_range(self, begin: int, end: int) -> None:
        journal = Journal(self.keep / f"{self.kind}-{self.seed}-{begin}.at")
        while begin < end:
            journal.path.unlink(missing_ok=True)
            done = self.process(begin, end, journal)
            if done.returncode == 0:
                self.outcomes.update(json.loads(done.stdout.splitlines()[-1]))
                break
            tried = journal.read()
            if tried is None:
                raise SystemExit(done.stderr)
            number, about, outcomes = tried
            self.outcomes.update(outcomes)
            self.write_down(number, about, done)
            begin = number + 1
        journal.path.unlink(missing_ok=True)

    def process(self, begin: int, end: int, journal: Journal) -> subprocess.CompletedProcess[str]:
        with tempfile.TemporaryDirectory() as folder:
            asked = [self.script, "--seed", self.seed, "--work", self.kind, begin, end, journal.path]
            environment = os.environ | {"TMPDIR": folder, "JAXWARP_CACHE_DIR": "", "JAX_PLATFORMS": "cpu"}
            command = [sys.executable, *map(str, asked)]
            # What JAX says of a damaged file is not all text.
            return subprocess.run(
                command, capture_output=True, text=True, errors="replace", check=False, env=environment
            )

    def write_down(self, number: int, about: str, done: subprocess.CompletedProcess[str]) -> None:
        self.findings += 1
        path = self.keep / f"{self.kind}-{self.seed}-{number}.txt"
        path.write_text(f"{self.kind}, seed {self.seed}, number {number}: status {done.returncode}\n\n{about}\n\n"
                        f"{done.stderr[-20_000:]}")  # fmt: skip
        print(f"FOUND: {path}", flush=True)
        if self.findings >= MOST_FINDINGS:
            raise SystemExit(f"{self.findings} findings in {self.keep}; the last one is number {number}")

    def tell(self, first: int, end: int) -> None:
        outcomes = ", ".join(f"{name} {count}" for name, count in sorted(self.outcomes.items()))
        seconds = time.monotonic() - self.started
        print(f"{self.kind}: seed {self.seed}, {first} to {end - 1}: {end - first} tried, {self.findings} findings, "
              f"{seconds:.0f} s ({outcomes})", flush=True)  # fmt: skip


def arguments(description: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0, help="the number to begin with")
    parser.add_argument("--keep", type=Path, default=Path("build/fuzz"), help="where findings are written down")
    parser.add_argument("--work", nargs=4, help=argparse.SUPPRESS)
    return parser


def run_all(
    options: argparse.Namespace, script: str, kinds: Mapping[str, Kind], plan: Iterable[tuple[str, int, int]]
) -> None:
    """The end of a script's `main`: does the plan, or what a process of such a run does.

    Args:
        plan: kinds, how many of each, and how many to a process.
    """
    if options.work:
        kind, begin, end, journal = options.work
        return work(kinds[kind], options.seed, range(int(begin), int(end)), Journal(Path(journal)))
    findings = 0
    for kind, count, chunk in plan:
        campaign = Campaign(kind, options.seed, options.keep, script)
        campaign.run(options.first, count, chunk)
        findings += campaign.findings
    print(totals(options.keep))
    if findings:
        raise SystemExit(f"{findings} findings in {options.keep}")
    return None
