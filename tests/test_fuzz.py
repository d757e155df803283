"""A little of `make fuzz`, and that it keeps what it finds."""

import re
import subprocess
import sys

import fuzzed

FAULTY = """
import os, signal
from fuzz import campaign

def faulty(folder, seed, journal):
    def trial(number):
        journal.note(f"about number {number} of {seed}")
        assert number != 12, "wrong"
        if number == 14:
            os.kill(os.getpid(), signal.SIGSEGV)
        return "even" if number % 2 == 0 else "odd"
    return trial

options = campaign.arguments("").parse_args()
campaign.run_all(options, __file__, {"faulty": faulty}, [("faulty", 10 if options.first else 2, 4)])
"""


def test_random_kernels_and_gradients(tmp_path):
    """Another seed on another day would do as well."""
    said = fuzzed.run(tmp_path, "--kernels", 12, "--gradients", 4, "--kinds", "random", "affine", "smooth", "mixed")
    tried = {kind: int(count) for kind, count in re.findall(r"(\w+): .*: (\d+) tried, 0 findings", said)}
    assert tried == {"random": 9, "affine": 3, "smooth": 3, "mixed": 2}
    assert [p.name for p in tmp_path.iterdir()] == ["tried.jsonl"]


def run_faulty(folder, first):
    script = folder / "faulty.py"
    script.write_text(FAULTY)
    command = [sys.executable, script, "--seed", "3", "--first", str(first), "--keep", folder / "kept"]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=fuzzed.ENVIRONMENT)


def test_what_is_found_is_kept_and_the_rest_is_tried(tmp_path):
    keep = tmp_path / "kept"
    done = run_faulty(tmp_path, 10)
    assert done.returncode == 1
    assert f"2 findings in {keep}" in done.stderr
    assert "faulty: seed 3, 10 to 19: 10 tried, 2 findings" in done.stdout
    assert "(even 3, odd 5)" in done.stdout
    raised, died = (keep / f"faulty-3-{number}.txt" for number in (12, 14))
    assert sorted(keep.glob("faulty*")) == [raised, died]
    assert "about number 12 of 3" in raised.read_text()
    assert "AssertionError: wrong" in raised.read_text()
    assert "status -11" in died.read_text()
    assert "about number 14 of 3" in died.read_text()


def test_runs_count_together(tmp_path):
    """Numbers that are tried twice count once."""
    for first, together in ((10, "10 tried, 2 findings, 3 even, 5 odd"), (0, "12 tried, 2 findings, 4 even, 6 odd")):
        for _ in range(2):
            assert f"in all, faulty: {together}\n" in run_faulty(tmp_path, first).stdout
