"""NVRTC: finding it, architectures, cubins and PTX, the cache, resources, and every way it can go wrong."""

from __future__ import annotations

import re
import subprocess
import sys
import types
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from test_cuda import ATOMICS, Simple, array, atomic_kernel

import jaxwarp as wp
from jaxwarp.codegen import cache
from jaxwarp.codegen.abi import CudaOptions
from jaxwarp.codegen.cuda import CudaCode, compile_cuda, default_archs, nvrtc, print_cuda, ptx, resources
from jaxwarp.errors import CompileError, KernelValueError, Loc
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Param
from jaxwarp.launches.image import pack_cuda_payload, unpack_cuda_payload
from jaxwarp.passes.pipeline import prepare
from jaxwarp.types import float32, int32

needs_nvrtc = pytest.mark.skipif(not nvrtc.available(), reason="NVRTC is not installed")
ARCHITECTURES = (80, 90, 100, 120)


@pytest.fixture(autouse=True)
def cache_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("JAXWARP_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.delenv("JAXWARP_CUDA_ARCHS", raising=False)
    return tmp_path / "cache"


def scale(name: str = "scale", loc: Loc | None = None) -> Kernel:
    make, x = Simple(), array("x")
    make.loc = loc
    i = make.tid(0, "i")
    make.store(x, [i], make["mul"](make.load(x, [i]), make.const(3.0, float32)))
    return make.finish(name, 1, [x])


@pytest.fixture
def code() -> CudaCode:
    return print_cuda(scale())


@needs_nvrtc
def test_version_and_architectures_are_known():
    assert nvrtc.version() >= (12, 8)
    assert set(ARCHITECTURES) <= set(nvrtc.supported_architectures())
    assert default_archs() == ARCHITECTURES


@needs_nvrtc
def test_cubins_and_ptx(code: CudaCode):
    entries = compile_cuda(code, (80, "sm_90"), ptx=("compute_80",))
    assert [(e.kind, e.arch) for e in entries] == [(1, 80), (1, 90), (2, 80)]
    assert all(e.code[:4] == b"\x7fELF" for e in entries[:2])
    assert b".entry scale(" in entries[2].code
    assert unpack_cuda_payload(pack_cuda_payload(entries)) == [*entries]


@needs_nvrtc
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_every_atomic_compiles(arch: int):
    """In one text: its functions are as many kernels."""
    texts = []
    for kind, t in ATOMICS:
        for private in (False, True):
            kernel = prepare(atomic_kernel(kind, t, private))
            mark = f"{kind}_{t.short}_{private}".lower()
            texts.append(f"namespace {mark} {{\n{print_cuda(replace(kernel, name=mark)).source}}}\n")
    compile_cuda(CudaCode("atomics", "".join(texts), (), 32, CudaOptions(), ()), (arch,))


@needs_nvrtc
def test_contraction_is_left_to_the_ir():
    make, x = Simple(), array("x")
    i = make.tid(0, "i")
    v = make.load(x, [i])
    make.store(x, [i], make["add"](make["mul"](v, v), v))
    kernel = make.finish("multiply_add", 1, [x])
    assert "fma." not in ptx(prepare(kernel, fma=False), 90)
    assert "fma.rn.f32" in ptx(prepare(kernel), 90)


@needs_nvrtc
def test_inputs_are_read_through_the_read_only_cache_and_neighbours_share_an_address():
    make, x, out = Simple(), array("x"), array("out")
    i, one = make.tid(0, "i"), make.const(1, int32)
    left, right = make.load(x, [make["sub"](i, one)]), make.load(x, [make["add"](i, one)])
    make.store(out, [i], make["add"](left, right))
    text = ptx(make.finish("neighbours", 1, [x, out]), 90)
    assert len(re.findall(r"ld\.global\.nc\.f32", text)) == 2
    assert re.search(r"\[%rd\d+\+-?\d+\]", text) is not None


@needs_nvrtc
def test_resources(code: CudaCode):
    used = resources(code, "sm_90")
    assert 0 < used.registers < 32
    assert (used.spill_stores, used.spill_loads, used.stack, used.shared) == (0, 0, 0, 0)
    assert resources(scale(), 90) == used


@needs_nvrtc
def test_resources_show_a_stack():
    make, x, k = Simple(), array("x"), array("k", int32)
    own = Param("own", float32, (64,))
    i = make.tid(0, "i")
    make.store(own, [make.load(k, [i])], make.load(x, [i]))
    make.store(x, [i], make.load(own, [i]))
    made = make.finish("stack", 1, [x, k])
    assert resources(Kernel("stack", 1, made.params, made.body, (own,)), 90).stack >= 256


@needs_nvrtc
@pytest.mark.parametrize("arch", [35, "sm_35", "90x", "", "hopper"])
def test_unknown_architecture(arch, code: CudaCode):
    known = ", ".join(f"sm_{a}" for a in nvrtc.supported_architectures())
    major, minor = nvrtc.version()
    with pytest.raises(KernelValueError) as caught:
        compile_cuda(code, (arch,))
    assert str(caught.value) == f"architecture {arch!r} is not one that NVRTC {major}.{minor} compiles for: {known}"


@needs_nvrtc
def test_architectures_from_the_environment(monkeypatch):
    monkeypatch.setenv("JAXWARP_CUDA_ARCHS", "80, sm_90")
    assert default_archs() == (80, 90)
    monkeypatch.setenv("JAXWARP_CUDA_ARCHS", "80,kepler")
    with pytest.raises(KernelValueError, match=r"^architecture .kepler. is not one"):
        default_archs()


@needs_nvrtc
def test_an_error_of_nvrtc_names_the_kernel_line_and_keeps_the_text(tmp_path):
    source = tmp_path / "user.py"
    source.write_text("@wp.kernel\ndef scale(x: wp.array[float]):\n    x[wp.tid()] *= 3.0\n")
    good = print_cuda(scale(loc=Loc(str(source), 3, 4, 3, 22, "scale")))
    bad = replace(good, source=good.source.replace("3.0f", "three"))
    with pytest.raises(CompileError) as caught:
        compile_cuda(bad, (90,))
    text = str(caught.value)
    saved = re.search(r"kept in (\S+)$", text, re.MULTILINE)[1]
    number = good.source.splitlines().index("        x[i] = x[i] * 3.0f;") + 1
    assert text.replace(saved, "FILE").replace(str(source), "user.py") == (
        "NVRTC refused the code of kernel scale for sm_90:\n"
        f'  scale.cu({number}): error: identifier "three" is undefined\n'
        "            x[i] = x[i] * three;\n"
        "                          ^\n"
        "\n"
        '  1 error detected in the compilation of "scale.cu".\n'
        "  the code is kept in FILE\n"
        "  user.py:3, in scale\n"
        "    x[wp.tid()] *= 3.0\n"
        "    ^^^^^^^^^^^^^^^^^^\n"
        "  hint: this is a fault of jaxwarp: please report it with that file"
    )
    assert Path(saved).read_text() == bad.source
    # The process and other kernels are none the worse.
    assert len(compile_cuda(good, (90,))) == 1


@needs_nvrtc
def test_compiled_code_is_kept(code: CudaCode, monkeypatch):
    first = compile_cuda(code, (80,), ptx=(80,))
    monkeypatch.setattr(nvrtc, "compile_source", lambda *_: pytest.fail("compiled again"))
    assert compile_cuda(code, (80,), ptx=(80,)) == first
    with pytest.raises(pytest.fail.Exception):
        compile_cuda(code, (90,))
    with pytest.raises(pytest.fail.Exception):
        compile_cuda(print_cuda(scale("another")), (80,))


@needs_nvrtc
def test_a_damaged_entry_is_compiled_again(code: CudaCode, cache_folder):
    first = compile_cuda(code, (80,))
    (path,) = [p for p in cache_folder.iterdir() if p.is_file()]
    data = bytearray(path.read_bytes())
    data[-10] ^= 1
    path.write_bytes(data)
    assert compile_cuda(code, (80,)) == first
    assert cache.get(path.stem) == first[0].code


@needs_nvrtc
def test_nvrtc_that_somebody_else_has_loaded():
    """JAX's plugin for CUDA loads it, without the library beside it that 13.0 does not find."""
    code = (
        "import ctypes, sys\n"
        "ctypes.CDLL(sys.argv[1])\n"
        "from jaxwarp.codegen.cuda import nvrtc\n"
        "text = 'extern \"C\" __global__ void k(float* x) { x[threadIdx.x] = 1; }'\n"
        "print(len(nvrtc.compile_source(text, 'k', ['--gpu-architecture=sm_90'], ptx=False).code) > 0)\n"
    )
    path = pytest.importorskip("cuda.pathfinder").load_nvidia_dynamic_lib("nvrtc").abs_path
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["True"], done.stderr


def not_found():
    raise RuntimeError('Failure finding\n  "libnvrtc.so"')


@pytest.mark.parametrize(
    ("bindings", "why"),
    [
        (None, "import of cuda.bindings.nvrtc halted; None in sys.modules"),  # no cuda-python
        (types.SimpleNamespace(nvrtcVersion=not_found), 'Failure finding "libnvrtc.so"'),
    ],
)
def test_without_nvrtc_the_error_says_what_to_install(bindings: Any, why: str, code: CudaCode, monkeypatch):
    caches = nvrtc._bindings, nvrtc.version, nvrtc.supported_architectures
    for cached in caches:
        cached.cache_clear()
    monkeypatch.setitem(sys.modules, "cuda.bindings.nvrtc", bindings)
    try:
        assert not nvrtc.available()
        with pytest.raises(CompileError) as caught:
            compile_cuda(code, (90,))
    finally:
        for cached in caches:
            cached.cache_clear()
    assert str(caught.value) == (
        f"compiling for CUDA needs cuda-python and NVRTC ({why}): install them with `pip install jaxwarp[cuda13]` or "
        "`pip install jaxwarp[cuda12]` (or the packages cuda-python and nvidia-cuda-nvrtc, or nvidia-cuda-nvrtc-cu12), "
        "or set CUDA_HOME to a CUDA toolkit"
    )
    # Printing needs no compiler.
    assert "x[i] * 3.0f" in print_cuda(scale()).source


@wp.kernel
def attracted(pos: wp.array[wp.vec3], mass: wp.array[float], eps: float, acc: wp.array[wp.vec3]):
    i = wp.tid()
    p = pos[i]
    a = wp.vec3(0.0, 0.0, 0.0)
    for j in range(pos.shape[0]):
        d = pos[j] - p
        inv = 1.0 / wp.sqrt(wp.dot(d, d) + eps)
        a += d * (mass[j] * inv * inv * inv)
    acc[i] = a


@needs_nvrtc
def test_a_kernel_that_would_spill_gets_registers(monkeypatch):
    code = print_cuda(prepare(attracted.specialize()))
    told = []
    compiled = nvrtc.compile_source

    def compile_source(source, *rest):
        made = compiled(source, *rest)
        told.append((re.search(r"__launch_bounds__\((.*?)\)", source)[1], "0 bytes spill loads" not in made.log))
        return made

    monkeypatch.setattr(nvrtc, "compile_source", compile_source)
    used = resources(code, 90)
    assert (used.spill_stores, used.spill_loads) == (0, 0)
    # Whether this NVRTC would spill here is its own affair; what it is told then is ours.
    assert told in ([("256", False)], [("256", True), ("256, 1", False)])
    (entry,) = compile_cuda(code, (90,))
    assert entry.code.startswith(b"\x7fELF")


@pytest.mark.parametrize("options", [CudaOptions(), CudaOptions(bounds=(256,)), CudaOptions(max_registers=32)])
def test_spills_are_left_alone_where_the_options_say_how_many_registers(options: CudaOptions, monkeypatch):
    def compile_source(source, *_):
        told.append(source)
        spilled = 0 if ", 1)" in source else 8
        return nvrtc.Compiled(b"few" if spilled else b"many", f"{spilled} bytes spill stores, 0 bytes spill loads")

    told: list[str] = []
    monkeypatch.setattr(nvrtc, "compile_source", compile_source)
    monkeypatch.setattr(nvrtc, "supported_architectures", lambda: (90,))
    monkeypatch.setattr(nvrtc, "version", lambda: (13, 0))
    (entry,) = compile_cuda(print_cuda(scale(), options=options), (90,))
    assert (entry.code, len(told)) == ((b"many", 2) if options == CudaOptions() else (b"few", 1))
