"""The source distribution, and the wheel built from it: one per platform for every Python, with a library that needs
nothing but what JAX needs."""

import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

import jaxwarp

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
    "jaxwarp_mesh_refit",
    "jaxwarp_print",
    "jaxwarp_cpu_cell_starts",
    "jaxwarp_sort",
    "jaxwarp_sort_cells",
    "jaxwarp_outside_pieces",
    "jaxwarp_outside_alone",
    "jaxwarp_outside_share",
    "jaxwarp_outside_stop",
    "jaxwarp_updates_begin",
    "jaxwarp_updates_end",
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
def source(tmp_path_factory):
    """A copy of what git tracks."""
    pytest.importorskip("scikit_build_core")
    if shutil.which("git") is None:
        pytest.skip("no git")
    folder = tmp_path_factory.mktemp("source")
    command = ["git", "-C", ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listing = subprocess.run(command, capture_output=True, check=False)
    if listing.returncode:
        pytest.skip("not a git checkout")
    for name in filter(None, listing.stdout.decode().split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, folder / name)
    return folder


@pytest.fixture(scope="module")
def distribution(source, tmp_path_factory):
    """The source distribution."""
    folder = tmp_path_factory.mktemp("distribution")
    program = f"from scikit_build_core.build import build_sdist; build_sdist({str(folder)!r})"
    subprocess.run([sys.executable, "-c", program], cwd=source, check=True)
    (path,) = folder.glob("*.tar.gz")
    return path


@pytest.fixture(scope="module")
def wheel(distribution, tmp_path_factory):
    """A wheel built from the source distribution, with the headers of the jaxlib that is installed here.

    Nothing here runs the library: its files are compiled as one, without optimisation. `make wheels` makes faster code.
    """
    for tool in ("cmake", "c++"):
        if shutil.which(tool) is None:
            pytest.skip(f"no {tool}")
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps"]
    # A batch size of 0 is all files in one.
    options = ("CMAKE_UNITY_BUILD=ON", "CMAKE_UNITY_BUILD_BATCH_SIZE=0", "CMAKE_CXX_FLAGS_RELEASE=-O0")
    quickly = [f"--config-settings=cmake.define.{option}" for option in options]
    subprocess.run([*pip, *quickly, "--wheel-dir", folder, distribution], check=True)
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def library(wheel, tmp_path_factory):
    folder = tmp_path_factory.mktemp("library")
    with zipfile.ZipFile(wheel) as archive:
        return archive.extract("jaxwarp/native/lib/libjaxwarp.so", folder)


def test_the_version_is_the_same_everywhere():
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert jaxwarp.__version__ == version
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    newest = next(line for line in (ROOT / "CHANGELOG.md").read_text().splitlines() if line.startswith("## "))
    assert newest.split()[1] == version


def test_the_source_distribution_has_what_a_build_needs_and_nothing_else(distribution, source):
    with tarfile.open(distribution) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    package = {path.relative_to(source).as_posix() for path in (source / "jaxwarp").rglob("*") if path.is_file()}
    assert names == package | {"CMakeLists.txt", "LICENSE", "PKG-INFO", "README.md", "pyproject.toml"}
    assert {Path(name).suffix for name in package} == {".py", ".pyi", ".cc", ".h", ".map", ".typed"}


def test_one_wheel_for_every_python(wheel):
    name, _version, python, abi, platform = wheel.stem.split("-")
    assert (name, python, abi) == ("jaxwarp", "py3", "none")
    assert platform.startswith("linux_")


def test_the_tag_says_which_glibc_the_library_needs(wheel, library, tmp_path, monkeypatch):
    """As `make wheels` names it. What the library asks for is read here by other means."""
    pytest.importorskip("auditwheel")
    readelf = shutil.which("readelf") or pytest.skip("no readelf")
    monkeypatch.syspath_prepend(ROOT / "tools")
    import wheels

    if shutil.which("patchelf", path=wheels.PATH) is None:
        pytest.skip("no patchelf")
    asked = subprocess.run([readelf, "-VW", library], capture_output=True, text=True, check=True).stdout
    newest = max(tuple(map(int, version)) for version in re.findall(r"Name: GLIBC_(\d+)\.(\d+)", asked))
    (tag,) = re.findall(r"-manylinux_(\d+)_(\d+)_", wheels.tagged(wheel, tmp_path).name)
    said = tuple(map(int, tag))
    assert said >= newest
    if newest >= (2, 34):  # from there on each version has a name
        assert said == newest


def test_the_wheel_holds_the_package_and_no_sources_of_the_library(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert "jaxwarp/launches/image.py" in names
    assert [name for name in names if name.endswith(".so")] == ["jaxwarp/native/lib/libjaxwarp.so"]
    assert not [name for name in names if name.endswith((".cc", ".h", ".map"))]
    assert not [name for name in names if not name.startswith("jaxwarp")]


def test_the_library_is_self_contained(library):
    readelf = shutil.which("readelf") or pytest.skip("no readelf")
    dynamic = subprocess.run([readelf, "-d", library], capture_output=True, text=True, check=True).stdout
    needed = [line.split("[")[1].rstrip("]") for line in dynamic.splitlines() if "(NEEDED)" in line]
    assert {name.split(".so")[0] for name in needed} <= {
        *("libc", "libm", "libdl", "libpthread", "ld-linux-x86-64", "ld-linux-aarch64"),
        "libgcc_s",  # jaxlib's
    }


def test_the_library_exports_its_handlers_only(library):
    nm = shutil.which("nm") or pytest.skip("no nm")
    listing = subprocess.run([nm, "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    assert {line.split()[-1] for line in listing.splitlines()} == HANDLERS
