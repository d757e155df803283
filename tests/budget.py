"""A plugin: which tests are slow, and that no other one becomes slow.

`slow.txt` lists the tests that took over LISTED seconds of processor time, child processes included, or their
function where all its tests did. They get the marker `slow`, and `make test` leaves them out, but for those that are
marked `quick`: nothing else finds what they find. The summary names a test that is not listed and takes over
REPORTED seconds; over FAILED seconds it fails. The first test that needs what others need too (a compiled helper, a
library that is imported) pays for it, and a busy machine makes processor time longer, so the last limit is far from
the others. To write the list anew, on a quiet machine:

    make test-all TESTS=--measure=build/costs
    python tests/budget.py build/costs
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

LISTED, REPORTED, FAILED = 0.5, 2.0, 60.0
LIST = Path(__file__).with_name("slow.txt")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--measure", metavar="FOLDER", type=Path, help="write what each test costs into this folder")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    slow = set(LIST.read_text().splitlines()) if LIST.exists() else set()
    for item in items:
        listed = item.nodeid in slow or function(item.nodeid) in slow
        if listed and item.get_closest_marker("quick") is None:
            item.add_marker("slow")


def function(nodeid: str) -> str:
    """Return the test function of a test, without its parameters."""
    return nodeid.partition("[")[0]


def processor_time() -> float:
    """Return the processor time of this process and of the processes that it waited for, in seconds."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + children.ru_utime + children.ru_stime


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Write what a test costs, the fixtures that it is the first to use included."""
    began = processor_time()
    result = yield
    if folder := item.config.getoption("--measure"):
        folder.mkdir(parents=True, exist_ok=True)
        worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
        with (folder / f"{worker}.jsonl").open("a") as file:
            file.write(json.dumps([item.nodeid, processor_time() - began]) + "\n")
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    began = processor_time()
    result = yield
    seconds = processor_time() - began
    if not any(item.get_closest_marker(name) for name in ("slow", "quick")) and seconds > REPORTED:
        item.user_properties.append(("over_budget", seconds))
        if seconds > FAILED and not item.config.getoption("--measure"):
            pytest.fail(f"took {seconds:.1f} s of processor time: make it cheaper, or list it in tests/slow.txt")
    return result


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    over = [
        (seconds, report.nodeid)
        for report in terminalreporter.getreports("passed")
        for name, seconds in report.user_properties
        if name == "over_budget"
    ]
    if over:
        terminalreporter.section(f"over {REPORTED:g} s of processor time, and not in tests/slow.txt")
        for seconds, nodeid in sorted(over, reverse=True):
            terminalreporter.write_line(f"{seconds:6.1f} s  {nodeid}")


def write(folder: Path) -> None:
    """Write the list from what was measured in a run of all tests."""
    lines = [line for file in sorted(folder.glob("*.jsonl")) for line in file.read_text().splitlines()]
    costs: dict[str, float] = dict(json.loads(line) for line in lines)
    slow = {nodeid for nodeid, seconds in costs.items() if seconds > LISTED}
    partly = {function(nodeid) for nodeid in costs if nodeid not in slow}
    names = {nodeid if function(nodeid) in partly else function(nodeid) for nodeid in slow}
    LIST.write_text("".join(f"{name}\n" for name in sorted(names)))
    share = sum(costs[nodeid] for nodeid in slow)
    print(f"{len(slow)} of {len(costs)} tests are slow, which took {share:.0f} of {sum(costs.values()):.0f} s")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
