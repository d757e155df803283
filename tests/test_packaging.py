"""The wheel: one per platform for every Python, with a library that needs nothing."""

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HANDLERS = {
    "jaxwarp_cpu_instantiate",
    "jaxwarp_cpu_execute",
    "jaxwarp_cpu_sort",
    "jaxwarp_cpu_tree_order",
    "jaxwarp_cpu_tree_grouped",
    "jaxwarp_cpu_tree_boxes",
    "jaxwarp_cpu_mesh_faces",
    "jaxwarp_tree_order",
    "jaxwarp_tree_boxes",
    "jaxwarp_mesh_faces",
    "jaxwarp_print", "jaxwarp_sort",
    "jaxwarp_cuda_instantiate",
    "jaxwarp_cuda_initialize",
    "jaxwarp_cuda_execute",
    "jaxwarp_cpu_program_instantiate",
    "jaxwarp_cpu_program_execute",
    "jaxwarp_cuda_program_instantiate",
    "jaxwarp_cuda_program_initialize",
    "jaxwarp_cuda_program_execute",
    "jaxwarp_set_loader",
    "jaxwarp_take_unused",
    "jaxwarp_counter",
    "jaxwarp_python_api",
    "jaxwarp_python_close",
    "jaxwarp_call_python",
    "jaxwarp_capsule_name",
    "jaxwarp_tensor_make",
    "jaxwarp_tensor_end_capsule",
    "jaxwarp_tensor_give_back",
}


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """A wheel built from a copy of what git tracks, with the headers of the jaxlib that is installed here."""
    pytest.importorskip("scikit_build_core")
    for tool in ("git", "cmake", "c++"):
        if shutil.which(tool) is None:
            pytest.skip(f"no {tool}")
    folder = tmp_path_factory.mktemp("wheel")
    command = ["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, capture_output=True, check=False)
    if listing.returncode:
        pytest.skip("not a git checkout")
    for name in filter(None, listing.stdout.decode().split("\0")):
        if (ROOT / name).is_file():
            (folder / "source" / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / "source" / name)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps"]
    subprocess.run([*pip, "--wheel-dir", folder, folder / "source"], check=True)
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def library(wheel, tmp_path_factory):
    folder = tmp_path_factory.mktemp("library")
    with zipfile.ZipFile(wheel) as archive:
        return archive.extract("jaxwarp/native/lib/libjaxwarp.so", folder)


def test_one_wheel_for_every_python(wheel):
    name, _version, python, abi, platform = wheel.stem.split("-")
    assert (name, python, abi) == ("jaxwarp", "py3", "none")
    assert platform.startswith("linux_")


def test_the_wheel_holds_the_package_and_no_sources_of_the_library(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert "jaxwarp/ffi/launch/image.py" in names
    assert not [name for name in names if name.endswith((".cc", ".h", ".map"))]
    assert not [name for name in names if not name.startswith("jaxwarp")]


def test_the_library_is_self_contained(library):
    readelf = shutil.which("readelf") or pytest.skip("no readelf")
    dynamic = subprocess.run([readelf, "-d", library], capture_output=True, text=True, check=True).stdout
    needed = [line.split("[")[1].rstrip("]") for line in dynamic.splitlines() if "(NEEDED)" in line]
    assert {name.split(".so")[0] for name in needed} <= {"libc", "libm", "libdl", "libpthread", "ld-linux-x86-64"}


def test_the_library_exports_its_handlers_only(library):
    nm = shutil.which("nm") or pytest.skip("no nm")
    listing = subprocess.run([nm, "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    assert {line.split()[-1] for line in listing.splitlines()} == HANDLERS
