"""Products of tiles by tensor cores and patches, and loads that run ahead: on a host that sees races; machine code.

NumPy in float64 says what products are. Products of half precision are exact in float32, sums are in any order.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

import hostcuda
import numpy as np
import pytest
from sass.disassembly import available, code_of
from tilekit import NUMBERS, body_kernel

from jaxwarp.codegen.cuda import CudaCode, compile_cuda, nvrtc, print_cuda, resources
from jaxwarp.codegen.cuda.blocks import plan as planning
from jaxwarp.codegen.cuda.blocks.spread import in_fragments
from jaxwarp.ir.kernel import Kernel
from jaxwarp.passes.pipeline import prepare

needs_nvrtc = pytest.mark.skipif(not nvrtc.available(), reason="needs NVRTC")
needs_nvdisasm = pytest.mark.skipif(not available(), reason="needs NVRTC and nvdisasm")

# Blocks of c = a b, scaled and shifted.
LOOP = """
total = wp.tile_zeros(shape=({m}, {n}), dtype={sum})
for k in range((a.shape[1] + {k} - 1) // {k}):
    left = wp.tile_load(a, shape=({m}, {k}), offset=(i * {m}, k * {k}))
    right = wp.tile_load(b, shape=({k}, {n}), offset=(k * {k}, 0))
    wp.tile_matmul(left, right, total)
wp.tile_store(c, total * {sum}(2.0) + wp.tile_ones(shape=({m}, {n}), dtype={sum}), offset=(i * {m}, 0))
"""
# The same of matrices that lie turned.
TURNED = """
total = wp.tile_ones(shape=({m}, {n}), dtype={sum})
left = wp.tile_transpose(wp.tile_load(a, shape=({k}, {m}), offset=(0, i * {m})))
right = wp.tile_transpose(wp.tile_load(b, shape=({n}, {k})))
wp.tile_matmul(left, right, total, alpha=2.0)
wp.tile_store(c, total, offset=(i * {m}, 0))
"""
CASES = [
    ("wp.float16", 32, 16, 16), ("wp.float16", 20, 9, 12), ("wp.bfloat16", 16, 24, 40), ("float", 16, 16, 8),
    ("float", 18, 7, 5), ("wp.float64", 16, 8, 8), ("wp.float64", 9, 10, 10),
]  # fmt: skip


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks also for tiles that are too small to be worth them."""
    monkeypatch.setattr(planning, "LEAST_ELEMENTS", 1)
    monkeypatch.setattr(planning, "WORTH", 0)


def made(text: str, dtype: str, m: int, n: int, k: int, name: str = "product") -> Kernel:
    total = dtype if dtype == "wp.float64" else "float"
    body = text.format(m=m, n=n, k=k, sum=total)
    arguments = f"a: wp.array2d[{dtype}], b: wp.array2d[{dtype}], c: wp.array2d[{total}]"
    kernel = prepare(body_kernel(arguments, body).specialize(), fma=n % 2 == 0)
    return replace(kernel, name=f"{name}_{dtype[-2:]}_{m}_{n}_{k}")


def numbers(dtype: str, *shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(NUMBERS[dtype])


def checked(kernel: Kernel, code: CudaCode, dtype: str, inner: int, is_turned: bool = False) -> None:
    """Three blocks' work by one, and not all of the last one's rows, compared with NumPy."""
    _, m, n, _ = kernel.name.rsplit("_", 3)
    rows, columns = 3 * int(m) - 3, int(n)
    a, b = numbers(dtype, rows, inner), numbers(dtype, inner, columns, seed=1)
    c = np.zeros((rows, columns), kernel.params[2].dtype.numpy)
    expected = 2.0 * (a.astype(np.float64) @ b.astype(np.float64)) + 1.0
    given = [np.ascontiguousarray(x.T) if is_turned else x for x in (a, b)]
    hostcuda.run_code(kernel, code, (3,), [*given, c], threads=code.threads)
    tolerance = 1e-12 if dtype == "wp.float64" else 2e-5
    np.testing.assert_allclose(c, expected, rtol=tolerance, atol=tolerance, err_msg=code.source)


def test_products_of_loops_that_load_ahead(always: None) -> None:
    """Whole tiles and parts of tiles; rows at multiples of 16 bytes, of 4 and of 2; fewer rounds than stages."""
    kernels = [made(LOOP, *case) for case in CASES]
    codes = [print_cuda(kernel) for kernel in kernels]
    assert all("wait_for_copies<1>" in code.source for code in codes)
    hostcuda.compile_host(list(zip(kernels, codes, strict=True)), "-O0")
    for (dtype, _, _, k), kernel, code in zip(CASES, kernels, codes, strict=True):
        for inner in (4 * k, 2 * k - 1, k + 2, 1):
            checked(kernel, code, dtype, inner)


def test_products_of_matrices_that_lie_turned(always: None) -> None:
    kernels = [made(TURNED, *case, name="turned") for case in CASES]
    codes = [print_cuda(kernel) for kernel in kernels]
    hostcuda.compile_host(list(zip(kernels, codes, strict=True)), "-O0")
    for (dtype, _, _, k), kernel, code in zip(CASES, kernels, codes, strict=True):
        assert re.search(r"add_(half|patch|double)_product<", code.source)
        checked(kernel, code, dtype, k, is_turned=True)


def test_gpus_without_the_instructions(always: None) -> None:
    """Before compute capability 7.5 there is no ldmatrix, before 8.0 no such product and no copy that runs ahead."""
    for arch in (700, 750):
        for dtype in ("wp.float16", "wp.float64"):
            if arch == 750 and dtype == "wp.float64":
                continue
            kernel = made(LOOP, dtype, 16, 8, 16)
            code = print_cuda(kernel)
            # Here that is a copy which is done at once, and ldmatrix is the shim's.
            text = code.source.replace("__CUDA_ARCH__ < 750", f"{arch} < 750").replace("defined(__CUDA_ARCH__)", "1")
            text = text.replace("__CUDA_ARCH__ < 800", f"{arch} < 800")
            text = text.replace("memory[at + n] = from[n];", "memory.store(at + n, from[n]);")
            checked(kernel, replace(code, source=text), dtype, 40)


@pytest.mark.parametrize(
    "part", ["__syncthreads();", "wait_for_copies<1>();", "commit_copies();"], ids=["barrier", "wait", "commit"]
)
def test_nothing_that_orders_copies_can_be_left_out(always: None, part: str) -> None:
    kernel = made(LOOP, "wp.float16", 16, 8, 16)
    code = print_cuda(kernel)
    head, kernel_text = code.source.split('extern "C"')
    assert kernel_text.count(part) == 1
    faulty = replace(code, source=head + 'extern "C"' + kernel_text.replace(part, "", 1))
    with pytest.raises(AssertionError, match="a race in shared memory"):
        checked(kernel, faulty, "wp.float16", 64)


def test_each_barrier_around_padding_is_needed(always: None) -> None:
    """Zeros that come after what is summed over, of matrices that no loop loads ahead."""
    kernel = made(TURNED, "wp.float16", 16, 9, 12, name="turned")
    code = print_cuda(kernel)
    pieces = code.source.split("__syncthreads();")
    assert "] = 0;" in code.source
    assert len(pieces) > 2
    for without in range(1, len(pieces)):
        joined = "__syncthreads();".join(pieces[:without]) + "__syncthreads();".join(["", *pieces[without:]])[16:]
        with pytest.raises(AssertionError, match="a race in shared memory"):
            checked(kernel, replace(code, source=joined), "wp.float16", 12, is_turned=True)


STAYS = {
    "stored": LOOP + "wp.tile_store(a, wp.tile_astype(total, {half}), offset=(i * {m}, 0))",
    "carried": """
total = wp.tile_zeros(shape=({m}, {n}), dtype={sum})
at = int(0)
for k in range(a.shape[1] // {k}):
    at = (at * 3 + 1) % 5
    left = wp.tile_load(a, shape=({m}, {k}), offset=(i * {m}, at * {k}))
    right = wp.tile_load(b, shape=({k}, {n}), offset=(at * {k}, 0))
    wp.tile_matmul(left, right, total)
wp.tile_store(c, total, offset=(i * {m}, 0))
""",
    "read after": """
total = wp.tile_zeros(shape=({m}, {n}), dtype={sum})
left = wp.tile_zeros(shape=({m}, {k}), dtype={half})
right = wp.tile_zeros(shape=({k}, {n}), dtype={half})
for k in range(a.shape[1] // {k}):
    wp.tile_assign(left, wp.tile_load(a, shape=({m}, {k}), offset=(i * {m}, k * {k})))
    wp.tile_assign(right, wp.tile_load(b, shape=({k}, {n}), offset=(k * {k}, 0)))
    wp.tile_matmul(left, right, total)
wp.tile_store(c, total + wp.tile_broadcast(wp.tile_astype(left[3:4, 2:3] + right[3:4, 2:3], {sum}), shape=({m}, {n})))
""",
}


@pytest.mark.parametrize("name", STAYS)
def test_what_may_not_run_ahead(always: None, name: str) -> None:
    """An array that the kernel stores to, places that iterations decide about, tiles that are read after the loop."""
    text = STAYS[name].replace("{half}", "wp.float16")
    source = print_cuda(made(text, "wp.float16", 16, 8, 16)).source
    # One of the two tiles may run ahead where only the other one may not.
    tiles = re.findall(r"copy_async<\d+>\((\w+),", source)
    assert ("copy_async" in source) == (name == "stored")
    assert not any(tile.startswith("left") for tile in tiles)


def test_what_follows_a_product_moves_nothing() -> None:
    """The sums lie where tensor cores leave them: scale, bias and relu are in registers."""
    source = print_cuda(made(LOOP, "wp.float16", 64, 64, 32)).source
    shared = re.findall(r"__shared__ [\w ]+ (\w+)\[", source)
    assert sorted(shared) == ["left", "right"]


@pytest.mark.parametrize(("shape", "threads", "tall"), [((64, 64), 128, 16), ((65, 33), 64, 16), ((24, 24), 64, 8)])
def test_elements_of_fragments(shape: tuple[int, int], threads: int, tall: int) -> None:
    mapping = in_fragments(shape, threads, tall)
    seen = {}
    for lane in range(threads):
        for turn in range(mapping.count):
            texts = [text.replace("/", "//") for text in mapping.indices("lane", "turn", "")]
            row, column = (eval(text, {"lane": lane, "turn": turn}) for text in texts)
            seen[row, column] = (lane, turn)
            assert mapping.owner((row, column)) == (lane, turn)
    assert len(seen) == mapping.covered[0] * mapping.covered[1] == threads * mapping.count
    assert mapping.covered >= shape


# Type, extents; the most registers, the bytes of shared memory, and how many instructions of some kinds there are.
GOLDEN = [
    ("float", 64, 64, 16, 128, 28416, {"FFMA": 128}),
    ("float", 128, 64, 16, 128, 43776, {"FFMA": 128}),
    ("wp.float16", 64, 64, 32, 96, 29184, {"HMMA": 16, "LDSM": 8}),
    ("wp.bfloat16", 128, 64, 32, 128, 44544, {"HMMA": 16, "LDSM": 8}),
    ("wp.float64", 64, 64, 16, 128, 35328, {"DMMA": 64}),
]


@needs_nvdisasm
@pytest.mark.parametrize(("dtype", "m", "n", "k", "registers", "shared", "counts"), GOLDEN)
def test_machine_code(dtype: str, m: int, n: int, k: int, registers: int, shared: int, counts: dict[str, int]) -> None:
    code = print_cuda(made(LOOP, dtype, m, n, k))
    found = resources(code, 90)
    assert (found.spill_stores, found.spill_loads, found.stack, found.shared) == (0, 0, 0, shared)
    assert found.registers <= registers
    (entry,) = compile_cuda(code, (90,))
    made_of = Counter(one.opcode.split(".")[0] for one in code_of(entry.code).instructions)
    assert {name: made_of[name] for name in counts} == counts
    assert made_of["LDGSTS"] > 0


@needs_nvrtc
def test_all_architectures_compile() -> None:
    known = nvrtc.supported_architectures()
    code = print_cuda(made(LOOP, "wp.float16", 16, 16, 16))
    assert code.threads > 1
    assert compile_cuda(code, [known[0], 80])
