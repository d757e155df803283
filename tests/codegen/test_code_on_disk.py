"""Code that an earlier process has made is what this one would make; what decides about code gives it another name."""

import dataclasses
import gc
import logging
import os
import re
import subprocess
import sys
import time
import types
import weakref
from collections import defaultdict
from pathlib import Path

import llvmlite
import ml_dtypes
import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp import config
from jaxwarp.arrays import launching
from jaxwarp.codegen import cache
from jaxwarp.codegen.abi import CudaOptions, LaunchCode
from jaxwarp.codegen.cpu import compile as cpu_compile
from jaxwarp.codegen.cpu.plan.target import host
from jaxwarp.codegen.cuda import nvrtc
from jaxwarp.codegen.cuda.blocks import plan as blocks_plan
from jaxwarp.ir import nodes
from jaxwarp.launches import code
from jaxwarp.launches.code import CodeKey, Gpus, code_of
from jaxwarp.launches.spec import identity_of, intern_kernel
from jaxwarp.passes import pipeline
from jaxwarp.passes.launches.versions import MOST_VERSIONS, Versions

ROOT = Path(wp.__file__).parent


@wp.kernel
def histogram(x: wp.array[float], counts: wp.array[float], n: int):
    i = wp.tid()
    for _ in range(n):
        wp.atomic_add(counts, int(x[i]) % 16, wp.sin(x[i]))


KEY = CodeKey(intern_kernel(histogram.specialize()), True, (640,), ((640,), (16,), ()))


def start_again():
    """Forget what this process has made, as a new one would not know it."""
    for kept in (code._made, code._bitcode, code._machine_code, pipeline.prepared):
        kept.cache_clear()
    code._on_disk = Versions()
    code._own = {True: Versions(), False: Versions()}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A new cache, and a process that began after the last change of the package."""
    monkeypatch.setenv("JAXWARP_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(code, "_is_kept", True)
    monkeypatch.setattr(code, "_on_disk", Versions())
    monkeypatch.setattr(cache, "IMPORTED", time.time() + 10)
    cache._own_files.cache_clear()
    start_again()
    yield tmp_path / "cache"
    cache._own_files.cache_clear()
    start_again()


@pytest.fixture
def made(folder, monkeypatch):
    """The keys of code that was made, not found."""
    keys, real = [], code._make
    monkeypatch.setattr(code, "_make", lambda key: keys.append(key) or real(key))
    return keys


def fields(found):
    return {field.name: getattr(found, field.name) for field in dataclasses.fields(LaunchCode)}


@pytest.mark.parametrize("key", [KEY, KEY._replace(outputs=(1,)), KEY._replace(numbers=((2, 3),), in_order=False)])
def test_what_is_found_is_what_would_be_made(made, key):
    first = code_of(key)
    assert first.bitcode
    assert first.prices is not None  # else copies would not be weighed below
    start_again()
    found = code_of(key)
    assert made == [key]
    assert found is not first
    assert fields(found) == fields(first) == fields(code._make(key))


@pytest.mark.skipif(not nvrtc.available(), reason="NVRTC is not installed")
def test_cuda_code_is_found(made):
    key = KEY._replace(gpus=Gpus((90,)), options=CudaOptions(block=128))
    first = code_of(key)
    start_again()
    assert fields(code_of(key)) == fields(first)
    assert len(made) == 1
    assert code_of(key._replace(gpus=Gpus((80,)))).entries[0].arch == 80
    assert len(made) == 2


@pytest.mark.skipif(not nvrtc.available(), reason="NVRTC is not installed")
def test_tiles_that_one_thread_works_on_are_made_anew_and_warn_anew(made):
    """Their memory, 128 KiB, is twice what GPUs of 7.5 have."""

    @wp.kernel
    def added(x: wp.array2d[float], y: wp.array2d[float]):
        t = wp.tile_load(x, shape=(128, 256))
        wp.tile_store(y, wp.tile_transpose(wp.tile_transpose(t) * 2.0))

    kernel = intern_kernel(added.specialize())
    key = CodeKey(kernel, True, (1,), ((128, 256),) * 2, gpus=Gpus((75,)))
    for count in (1, 2):
        blocks_plan._warned.clear()
        with pytest.warns(wp.PerformanceWarning, match="one CUDA thread does the work of a block"):
            code_of(key)
        assert len(made) == count
        start_again()


_PROCESS = """
import linecache
import sys
import jaxwarp as wp
from jaxwarp.launches.spec import identity_of, intern_kernel

kept = [object() for _ in range(int(sys.argv[1]))]  # what follows is elsewhere in memory

@wp.func_native("return 1.0f / sqrtf(x);")
def inverted(x: float) -> float: ...

@wp.kernel
def k(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = inverted(x[i])

for f in (wp.sin, wp.cos) if kept else (wp.cos, wp.sin):
    wp.map(f, wp.ones(3))
files = [file for file in linecache.cache if file.startswith("<jaxwarp map")]
print(len(files), *sorted(files), *identity_of(intern_kernel(k.specialize())))
"""


def test_generated_texts_have_one_place_in_all_processes(tmp_path):
    file = tmp_path / "process.py"
    file.write_text(_PROCESS)
    commands = [[sys.executable, str(file), count] for count in ("0", "100001")]
    first, second = (subprocess.run(c, check=True, capture_output=True, text=True).stdout for c in commands)
    assert first == second
    assert int(first.split()[0]) >= 2  # files of maps


def test_everything_that_decides_gives_another_name(folder, monkeypatch):
    scaled = intern_kernel(dataclasses.replace(KEY.kernel, name="other"))
    moved = _moved(KEY.kernel)
    assert moved.digest == KEY.kernel.digest
    changes = {
        "kernel": (scaled, moved),
        "fma": (False,),
        "grid": ((641,),),
        "shapes": (((640,), (17,), ()),),
        "outputs": ((1,),),
        "in_order": (False,),
        "gpus": (Gpus((90,)), Gpus((80,)), Gpus((90,), None, True)) if nvrtc.available() else (),
        "options": (CudaOptions(block=64),),
        "is_aligned": (False,),
        "numbers": (((2, 3),),),
    }
    assert set(changes) == set(CodeKey._fields)
    names = [code._name_on_disk(KEY)]
    for field, values in changes.items():
        names += [code._name_on_disk(KEY._replace(**{field: value})) for value in values]
        code._on_disk = Versions()
    for field in dataclasses.fields(host()):
        value = getattr(host(), field.name)
        other = dataclasses.replace(host(), **{field.name: value + type(value)(1)})
        with monkeypatch.context() as patch:
            patch.setattr(cpu_compile, "host", lambda other=other: other)
            names.append(code._name_on_disk(KEY))
    versions = ((llvmlite, "__version__"), (np, "__version__"), (ml_dtypes, "__version__"), (sys, "version"))
    for module, name in versions:
        with monkeypatch.context() as patch:
            patch.setattr(module, name, "another")
            names.append(code._name_on_disk(KEY))
    with monkeypatch.context() as patch:
        patch.setenv("JAXWARP_CPU_WIDTH", "1")
        names.append(code._name_on_disk(KEY))
    with monkeypatch.context() as patch:
        files = cache._own_files()
        patch.setattr(cache, "_own_files", lambda: files._replace(digest="another"))
        names.append(code._name_on_disk(KEY))
    assert None not in names
    assert len(set(names)) == len(names)
    assert code._name_on_disk(KEY) == names[0]


def _moved(kernel):
    """The kernel, with an operation that comes from another line."""
    first = kernel.body.ops[0]
    moved = dataclasses.replace(first, loc=dataclasses.replace(first.loc, line=first.loc.line + 1))
    body = dataclasses.replace(kernel.body, ops=(moved, *kernel.body.ops[1:]))
    return intern_kernel(dataclasses.replace(kernel, body=body))


@wp.kernel
def every_operation(x: wp.array[float], y: wp.array[int]):
    i = wp.tid()
    total = x[i]
    for j in range(x.shape[0]):
        if x[j] > 1.0:
            total += x[j]
    while total > 2.0:
        total = total * 0.5
    wp.atomic_add(y, 0, i)
    x[i] = total
    wp.printf("%d\n", i)


def test_all_of_an_operation_is_in_the_identity(monkeypatch):
    """A kernel that differs in any field of an operation is another one."""
    kernel = dataclasses.replace(every_operation.specialize())
    read = defaultdict(set)
    kinds = {type(op) for op in nodes.walk(kernel.body)}
    assert kinds >= {k for k in vars(nodes).values() if isinstance(k, type) and issubclass(k, nodes.Op)} - {
        nodes.Op,
        nodes._OneResult,
    }
    for kind in kinds:

        def look(self, name, kind=kind):
            read[kind].add(name)
            return object.__getattribute__(self, name)

        monkeypatch.setattr(kind, "__getattribute__", look, raising=False)
    identity_of(kernel)
    for kind in kinds:
        assert {field.name for field in dataclasses.fields(kind)} <= read[kind], kind


def test_nans_are_one_constant():
    """Kernels with NaNs of other bits print equally: one would get the code of the other."""
    nan = -np.nan
    assert np.signbit(nan)

    @wp.kernel
    def constant(y: wp.array[float]):
        y[wp.tid()] = nan

    (value,) = [op.value for op in nodes.walk(constant.specialize().body) if isinstance(op, nodes.Const)]
    assert np.isnan(value)
    assert not np.signbit(value)


SETTLED = {  # by the files that read them: what decides nothing about code, or is in the key
    "codegen/cache.py": {
        *("cache_kernels", "kernel_cache_dir", "JAXWARP_CACHE_DIR", "XDG_CACHE_HOME", "JAXWARP_CACHE_MB"),
    },
    "codegen/progress.py": {"log_level", "progress"},
    "codegen/cuda/compile.py": {"JAXWARP_CUDA_ARCHS"},
    "codegen/cuda/nvrtc.py": {"CUDA_HOME", "CUDA_PATH"},
    "codegen/cpu/compile.py": {"WIDTH_VARIABLE"},
    "codegen/cpu/plan/width.py": {"WIDTH_VARIABLE"},
    "codegen/cpu/plan/tasks.py": {"WIDTH_VARIABLE"},
}


def test_no_setting_decides_beside_the_key():
    """What makes code of a kernel asks neither settings nor the environment, but as said above."""
    for room in ("ir", "builtins", "analysis", "passes", "codegen", "types"):
        for path in (ROOT / room).rglob("*.py"):
            text = path.read_text()
            asked = re.findall(r"(?<![\w`])config\.(\w+)|environ(?:\.get\(|\[)\"?(\w+)", text)
            assert text.count("environ") - text.count("environment") == sum(bool(name) for _, name in asked), path
            known = SETTLED.get(str(path.relative_to(ROOT)), set())
            assert {setting or variable for setting, variable in asked} <= known, path


@pytest.mark.parametrize("damage", ["cut", "flip", "foreign"])
def test_damaged_code_is_made_again(folder, made, damage, caplog):
    first = code_of(KEY)
    (path,) = folder.glob("*.bin")
    whole = path.read_bytes()
    if damage == "foreign":
        cache.put(path.stem, b"no code")
    else:
        path.write_bytes(whole[:-9] if damage == "cut" else whole[:90] + bytes([whole[90] ^ 1]) + whole[91:])
    start_again()
    with caplog.at_level(logging.WARNING):
        again = code_of(KEY)
    assert ("cannot be read, making it again" if damage == "foreign" else "is damaged and is ignored") in caplog.text
    assert fields(again) == fields(first)
    assert made == [KEY, KEY]
    assert path.read_bytes() == whole


def test_a_folder_that_cannot_be_used(tmp_path, folder, made, monkeypatch):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("JAXWARP_CACHE_DIR", str(tmp_path / "file" / "cache"))
    for n in (1, 2):
        start_again()
        assert code_of(KEY).bitcode
        assert len(made) == n


def test_without_a_cache_nothing_is_kept(tmp_path, folder, made, monkeypatch):
    monkeypatch.setenv("JAXWARP_CACHE_DIR", "")
    assert code._name_on_disk(KEY) is None
    monkeypatch.setenv("JAXWARP_CACHE_DIR", str(folder))
    monkeypatch.setattr(config, "cache_kernels", False)
    assert code._name_on_disk(KEY) is None


def test_launches_of_many_extents_do_not_fill_the_disk(folder):
    for n in range(1, 3 * MOST_VERSIONS):
        code_of(KEY._replace(grid=(n,), shapes=((n,), (16,), ())))
    assert len(list(folder.glob("*.bin"))) == MOST_VERSIONS


@pytest.fixture
def own(monkeypatch):
    """The extents of launches for which CPU code of their own is made."""
    extents, real = [], code.on_cpu

    def on_cpu(kernel, grid, shapes, zeros, in_order, numbers, is_own):
        if is_own:
            extents.append(grid[0])
        return real(kernel, grid, shapes, zeros, in_order, numbers, is_own)

    monkeypatch.setattr(code, "on_cpu", on_cpu)
    return extents


def launches_of(kernel, sizes):
    for n in sizes:
        code_of(KEY._replace(kernel=kernel, grid=(n,), shapes=((n,), (16,), ())))


def test_code_that_is_found_counts_as_a_version(folder, own):
    """Else a later process would make eight more, and compute with other code."""
    sizes = range(1, 3 * MOST_VERSIONS)
    launches_of(KEY.kernel, sizes)
    assert own == list(sizes[:MOST_VERSIONS])
    start_again()
    launches_of(KEY.kernel, sizes)
    assert own == list(sizes[:MOST_VERSIONS])


def test_code_for_all_extents_is_not_kept_as_that_of_one_launch(folder, own, made):
    """What is one kernel once it is prepared has had its versions: a later process has not."""
    kernels = [_moved(KEY.kernel), KEY.kernel]
    with pytest.MonkeyPatch.context() as patch:
        real = code.prepared
        patch.setattr(code, "prepared", lambda kernel, fma: real(KEY.kernel, fma))
        launches_of(kernels[0], range(1, MOST_VERSIONS + 1))
        launches_of(kernels[1], [640])
    assert 640 not in own
    start_again()
    launches_of(kernels[1], [640])
    assert own[-1] == 640
    assert len(made) == MOST_VERSIONS + 2


def test_a_variable_that_changes_does_not_mislead_later_processes(folder, monkeypatch):
    """Launches of two extents share their bitcode, if nothing has changed in between."""
    other = KEY._replace(grid=(641,), shapes=((641,), (16,), ()))
    usual = code_of(other).bitcode
    start_again()
    monkeypatch.setenv("JAXWARP_CPU_WIDTH", "1")
    assert code_of(KEY).bitcode != usual
    monkeypatch.delenv("JAXWARP_CPU_WIDTH")
    assert code_of(other).bitcode == usual
    cache.clear()
    code._made.cache_clear()
    assert code_of(other).bitcode == usual


@pytest.mark.skipif(not nvrtc.available(), reason="NVRTC is not installed")
def test_architectures_are_those_of_the_variable_now(folder, monkeypatch):
    for arch in (80, 90):
        monkeypatch.setenv("JAXWARP_CUDA_ARCHS", str(arch))
        entries = code_of(KEY._replace(gpus=Gpus())).entries
        assert {entry.arch for entry in entries} == {arch}


def test_names_hold_no_kernels(folder):
    key = KEY._replace(kernel=intern_kernel(dataclasses.replace(KEY.kernel, name="freed")))
    assert code._name_on_disk(key)
    kernel = weakref.ref(key.kernel)
    del key
    gc.collect()
    assert kernel() is None


def test_passes_that_somebody_watches_run(folder):
    code_of(KEY)
    start_again()
    with pipeline.watching() as ran:
        code_of(KEY)
    assert len(ran) > 5


@wp.kernel
def taken(x: wp.array[float], index: wp.array[int], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[index[i]]


@pytest.mark.release_mode("sets the mode")
def test_failures_of_debug_mode_are_the_same(made, monkeypatch):
    monkeypatch.setattr(config, "mode", "debug")
    errors, counts = [], []
    for _ in range(2):
        start_again()
        launching.forget()
        x, y = wp.zeros(4, dtype=float), wp.zeros(4, dtype=float)
        with pytest.raises(wp.errors.KernelError) as raised:
            wp.launch(taken, 4, [x, wp.array([0, 1, 2, 9], dtype=int)], [y])
        errors.append(str(raised.value))
        counts.append(len(made))
    assert errors[0] == errors[1]
    assert "y[i] = x[index[i]]" in errors[0]
    assert counts == [1, 1]


@pytest.fixture
def package(tmp_path, monkeypatch, folder):
    """A package of two files, in place of ours."""
    base = tmp_path / "pack"
    (base / "passes").mkdir(parents=True)
    (base / "first.py").write_text("1")
    (base / "passes" / "second.py").write_text("2")
    monkeypatch.setattr(cache, "PACKAGE", str(base) + os.sep)
    return base


def own_key():
    cache._own_files.cache_clear()
    return cache.own_key("part")


def test_each_file_of_the_package_decides(package):
    keys = [own_key()]
    for change in (
        lambda: (package / "passes" / "second.py").write_text("3"),
        lambda: (package / "first.py").rename(package / "other.py"),
        lambda: (package / "third.py").write_text(""),
        (package / "third.py").unlink,
    ):
        change()
        keys.append(own_key())
    assert None not in keys
    assert len(set(keys)) == 4
    assert keys[2] == keys[4]
    (package / "__pycache__").mkdir()
    (package / "__pycache__" / "no.py").write_text("")
    assert own_key() == keys[2]


def test_files_that_changed_since_the_process_began_are_not_trusted(package, monkeypatch):
    monkeypatch.setattr(cache, "IMPORTED", time.time())
    assert own_key() is None


def test_nothing_is_put_once_a_file_has_changed(folder, package):
    name = own_key()
    cache.put_own(name, b"before")
    assert cache.get(name) == b"before"
    (package / "first.py").write_text("9")
    cache.put_own(name, b"after")
    assert cache.get(name) == b"before"
    code_of(KEY)
    assert len(list(folder.glob("*.bin"))) == 1
    (package / "first.py").unlink()
    cache.put_own(name, b"after")
    assert cache.get(name) == b"before"


def test_modules_from_elsewhere_are_not_trusted(package, monkeypatch):
    inside, outside = types.ModuleType("pack.passes.second"), types.ModuleType("pack.passes.zipped")
    inside.__file__, outside.__file__ = str(package / "passes" / "second.py"), "package.zip/pack/passes/zipped.py"
    monkeypatch.setitem(sys.modules, "pack.passes.second", inside)
    assert own_key()
    monkeypatch.setitem(sys.modules, "pack.passes.zipped", outside)
    assert own_key() is None


def test_what_makes_code_imports_nothing_beside_it():
    """Of `launches`, which launches as well, `code.py` makes it."""
    makers = [p for room in cache.MAKERS for p in (ROOT / room).rglob("*.py") if room != "launches"]
    beside = {path.stem for path in ROOT.glob("*.py")}
    for path in [*makers, ROOT / "launches" / "code.py"]:
        imported = re.findall(r"^\s*(?:from|import) jaxwarp(?:\.(\w+)| import (\w+))", path.read_text(), re.MULTILINE)
        assert {room or name for room, name in imported} <= {*cache.MAKERS, *beside}, path


PROCESS = """
import sys
import numpy as np

# An editable installation would find its own files first.
sys.meta_path[:] = [finder for finder in sys.meta_path if "editable" not in type(finder).__module__]
import jaxwarp as wp

assert wp.__file__.startswith(sys.argv[1]), wp.__file__

@wp.kernel
def tripled(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = 3.0 * x[i]

y = wp.zeros(5, dtype=float)
wp.launch(tripled, 5, [wp.array(np.ones(5, np.float32))], [y])
assert (y.numpy() == 3).all()
"""


def test_processes_share_code_until_a_pass_changes(tmp_path):
    (tmp_path / "program.py").write_text(PROCESS)
    package = tmp_path / "site" / "jaxwarp"
    package.parent.mkdir()
    subprocess.run(["cp", "-Rp", str(ROOT), str(package)], check=True)

    def log():
        settings = {"JAXWARP_LOG": "compile", "JAXWARP_CACHE_DIR": str(tmp_path / "cache")}
        environment = {**os.environ, **settings, "PYTHONPATH": str(package.parent)}
        time.sleep(cache._COARSE_SECONDS)  # a process that begins at once does not trust the files
        ran = subprocess.run(
            [sys.executable, "program.py", str(package)],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return ran.stderr

    assert "compiled tripled to LLVM bitcode" in log()
    text = log()
    assert "loaded the code of tripled from the cache" in text
    assert "LLVM bitcode" not in text
    with (package / "passes" / "simplify.py").open("a") as file:
        file.write("\n# changed\n")
    assert "compiled tripled to LLVM bitcode" in log()
