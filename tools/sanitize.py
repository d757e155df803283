"""Builds the native library with sanitizers, and runs its tests and a thousand concurrent calls on those builds.

`make sanitize`. Python and XLA are not built so. What they do wrong, or what the thread sanitizer cannot see them do
right, is not reported: interceptors that they call are ignored, leaks are not looked for.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import importlib.util
import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NATIVE = ROOT / "jaxwarp" / "native"
FLAGS = ("-std=c++17", "-g1", "-O1", "-fno-omit-frame-pointer", "-fPIC", "-shared", "-fvisibility=hidden")
CALLS = "1000"
# Scenarios about Python: what they call of the library other native tests call too. They compile for most of the time.
OF_PYTHON = (
    "every_failure_is_told_and_leaks_nothing",
    "failures_of_graphs",
    "failures_of_nodes",
    "nothing_is_left",
    "optimisers",
    "structures",
    "tuning",
)


@dataclass(frozen=True)
class Sanitizer:
    """How to build with it, what a process must load before all else, and its settings."""

    name: str
    flags: tuple[str, ...]
    runtimes: tuple[str, ...]
    options: dict[str, str]


SANITIZERS = (
    Sanitizer(
        "address",
        ("-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"),
        ("libasan.so", "libubsan.so"),
        {"ASAN_OPTIONS": "detect_leaks=0:exitcode=66", "UBSAN_OPTIONS": "print_stacktrace=1"},
    ),
    Sanitizer(
        "thread",
        ("-fsanitize=thread",),
        ("libtsan.so",),
        {"TSAN_OPTIONS": "ignore_noninstrumented_modules=1:exitcode=66:report_signal_unsafe=0:die_after_fork=0"},
    ),
)


def build(sanitizer: Sanitizer, folder: Path) -> Path:
    """The library, with the C++ runtime shared: the sanitizer watches its exceptions and its `new`."""
    library = folder / f"libjaxwarp-{sanitizer.name}.so"
    spec = importlib.util.find_spec("jaxlib")
    assert spec is not None
    assert spec.submodule_search_locations
    include = Path(spec.submodule_search_locations[0]) / "include"
    # As one file: the headers are read once.
    whole = folder / f"{sanitizer.name}.cc"
    whole.write_text("".join(f'#include "{path}"\n' for path in sorted(NATIVE.glob("*.cc"))))
    command = [compiler(), *FLAGS, *sanitizer.flags, "-isystem", include, whole, "-ldl"]
    subprocess.run([*command, f"-Wl,--version-script={NATIVE / 'exports.map'}", "-o", library], check=True)
    return library


def compiler() -> str:
    return os.environ.get("CXX") or "g++"


def environment(sanitizer: Sanitizer, library: Path) -> dict[str, str]:
    runtimes = [
        subprocess.run([compiler(), f"-print-file-name={name}"], capture_output=True, text=True, check=True).stdout
        for name in (*sanitizer.runtimes, "libstdc++.so.6")
    ]
    return {
        **os.environ,
        **sanitizer.options,
        "JAXWARP_LIBRARY": str(library),
        "JAXWARP_CACHE_DIR": str(library.parent / f"cache-{sanitizer.name}"),
        "LD_PRELOAD": " ".join(runtime.strip() for runtime in runtimes),
        "JAX_PLATFORMS": "cpu",
        "PJRT_NPROC": "4",
        "LD_LIBRARY_PATH": os.pathsep.join(compilers_of_cuda()),
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")]),
    }


def compilers_of_cuda() -> list[str]:
    """Where NVRTC's parts lie. It looks for them beside itself, but the sanitizers open them in its place."""
    spec = importlib.util.find_spec("nvidia")
    folders = list(spec.submodule_search_locations or ()) if spec else []
    return sorted({str(path.parent) for folder in folders for path in Path(folder).rglob("libnvrtc-builtins.so*")})


def programs() -> list[tuple[str, list[str]]]:
    tests = [str(path) for path in sorted((ROOT / "tests" / "native").glob("test_*.py"))]
    assert tests, "pytest without files would run all tests"
    scenario = "tests/native/test_native_outside.py::test_gpus_outside_of_jax"
    left_out = [f"--deselect={scenario}[{name}]" for name in OF_PYTHON]
    return [
        ("native tests", ["-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--capture=sys", *left_out, *tests]),
        (f"{CALLS} calls", [str(ROOT / "tests" / "sanitize" / "concurrent_calls.py"), CALLS]),
    ]


def check(sanitizer: Sanitizer, folder: Path) -> list[str]:
    """What failed, with its output; prints how long each took."""
    started = time.monotonic()
    variables = environment(sanitizer, build(sanitizer, folder))
    print(f"{sanitizer.name}: built in {time.monotonic() - started:.0f} s", flush=True)
    failed = []
    for name, arguments in programs():
        started = time.monotonic()
        # At fixed addresses: the thread sanitizer of older compilers needs them where the kernel shuffles widely.
        command = [*(["setarch", "-R"] if shutil.which("setarch") else []), sys.executable, *arguments]
        done = subprocess.run(
            command, env=variables, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        print(f"{sanitizer.name}: {name}: status {done.returncode}, {time.monotonic() - started:.0f} s", flush=True)
        if done.returncode:
            failed.append(f"== {sanitizer.name}: {name}\n{done.stdout}")
    return failed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", default=[s.name for s in SANITIZERS], help="address, thread")
    names = parser.parse_args().names
    folder = ROOT / "build" / "sanitize"
    folder.mkdir(parents=True, exist_ok=True)
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        found = pool.map(lambda sanitizer: check(sanitizer, folder), [s for s in SANITIZERS if s.name in names])
    failures = [text for texts in found for text in texts]
    if failures:
        raise SystemExit("\n".join(failures))


if __name__ == "__main__":
    main()
