"""What compiling costs, counted rather than timed: sizes that grow with the kernel, work that is not done twice."""

import hashlib
import re
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp.codegen.cpu import compile as cpu_compile
from jaxwarp.codegen.cpu import compile_cpu, load_bitcode, run_cpu
from jaxwarp.codegen.cpu import run as cpu_run
from jaxwarp.ffi.lowering import call_attributes
from jaxwarp.ffi.primitive import launch_p
from jaxwarp.frontend.text.liveness import NameLiveness
from jaxwarp.ir.interpret import interpret
from jaxwarp.ir.nodes import walk
from jaxwarp.passes.pipeline import prepare

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "benchmarks"))

import compile_kernels as generated

# A size, to be doubled twice.
SIZES = {
    "straight": 150,
    "sines": 80,
    "memory": 150,
    "loops": 100,
    "branches": 120,
    "nested": 20,
    "elifs": 24,
    "calls": 120,
}
every_family = pytest.mark.parametrize("family", SIZES)


def lines(text):
    return len(text.splitlines())


def is_linear(small, middle, large):
    """Counts at sizes n, 2 n and 4 n: is the second growth at most twice the first, but for a little?"""
    return 0 < large - middle <= 1.15 * 2 * (middle - small)


@every_family
def test_code_grows_with_the_kernel(family):
    """Operations, after the passes too, and LLVM instructions."""
    counts = []
    for size in (SIZES[family] * n for n in (1, 2, 4)):
        ir = generated.FAMILIES[family](size).ir()
        kernel = prepare(ir)
        counts.append([*(sum(1 for _ in walk(k.body)) for k in (ir, kernel)), lines(compile_cpu(kernel, 8).text)])
    assert all(is_linear(*found) for found in zip(*counts, strict=True)), counts


def calls_made(family, size):
    """Python calls of the whole way from a kernel's text to bitcode."""
    kernel, count = generated.FAMILIES[family](size), 0

    def note(*_):
        nonlocal count
        count += 1

    sys.setprofile(note)
    try:
        compile_cpu(prepare(kernel.ir()), 8)
    finally:
        sys.setprofile(None)
    return count


@every_family
def test_work_grows_with_the_kernel(family):
    """Function calls of the frontend, the passes and the emission."""
    size = SIZES[family] // 2
    calls_made(family, size)  # caches fill
    counts = [calls_made(family, size * n) for n in (1, 2, 4)]
    assert is_linear(*counts), counts


def test_two_hundred_elifs():
    """Half of them are half the code."""
    half, whole = (lines(compile_cpu(prepare(generated.elifs(n).ir()), 8).text) for n in (100, 200))
    assert whole < 2.05 * half


def test_liveness_visits_each_statement_once(monkeypatch):
    """For a straight line of n statements, n questions about what a statement overwrites, not n squared."""
    asked = []
    original = NameLiveness.uses
    monkeypatch.setattr(NameLiveness, "uses", lambda self, node: asked.append(node) or original(self, node))
    generated.straight(2000).ir()
    assert len(asked) < 20 * 1000


def test_twenty_thousand_operations():
    """A kernel of 20,000 operations is lowered, and its code is no more than its operations, twice (with a mask)."""
    kernel = generated.straight(10_000).ir()
    assert sum(1 for _ in walk(kernel.body)) >= 20_000
    prepared = prepare(kernel)
    operations = sum(1 for _ in walk(prepared.body))
    assert lines(compile_cpu(prepared, 8).text) < 2 * operations + 100


def test_conditions_of_deep_branches_are_sealed():
    """LLVM's time for a chain of conditions is quadratic: every fourth level cuts it. Shallow code has no such cut."""
    texts = [compile_cpu(prepare(generated.elifs(n).ir()), 8).text for n in (2, 40, 80)]
    shallow, deep, deeper = (text.count("call <8 x float> @llvm.arithmetic.fence") for text in texts)
    assert shallow == 0
    assert deeper - deep >= 2 * 40 / 4  # the last arms are no branches: all lanes compute them
    x, n = np.linspace(0, 1, 61, dtype=np.float32), np.arange(-5, 56, dtype=np.int32)
    buffers = [[x.copy(), n.copy(), np.zeros(61, np.float32)] for _ in range(2)]
    kernel = prepare(generated.elifs(40).ir())
    interpret(kernel, (61,), buffers[0])
    for width in (8, 16):
        run_cpu(kernel, (61,), buffers[1], width)
        assert np.array_equal(buffers[0][2], buffers[1][2])


def test_many_loops_leave_out_the_passes_over_loops(monkeypatch):
    """And mean the same."""
    kernel = prepare(generated.loops(200).ir())
    results = []
    for limit in (0, 10_000):
        monkeypatch.setattr(cpu_compile, "_MANY_LOOPS", limit)
        monkeypatch.setenv("JAXWARP_CACHE_DIR", "")
        code = compile_cpu(kernel, 8)
        x, n = np.linspace(0, 1, 21, dtype=np.float32), np.arange(21, dtype=np.int32) % 4
        buffers = [x, n, np.zeros(21, np.float32)]
        made = cpu_compile.compile_object(code.bitcode, cpu_compile.host())
        address = cpu_compile._linker().link(made, code.symbol)
        assert address
        run_cpu(kernel, (21,), buffers, 8)
        results.append((made, buffers[2]))
    assert results[0][0] != results[1][0]
    assert np.array_equal(results[0][1], results[1][1])


@every_family
def test_code_of_large_kernels_is_not_optimised(family, monkeypatch):
    """And means the same, to the last bit."""
    kernel = prepare(generated.FAMILIES[family](SIZES[family] // 4).ir())
    monkeypatch.setenv("JAXWARP_CACHE_DIR", "")
    n, real = np.arange(21, dtype=np.int32) % 4, kernel.params[0].dtype.numpy
    for width in (1, 8, 16):
        payload = compile_cpu(kernel, width).bitcode
        made, results = [], []
        for limit in (len(payload), len(payload) + 1):
            monkeypatch.setattr(cpu_compile, "_LARGE", limit)
            made.append(cpu_compile.compile_object(payload, cpu_compile.host()))
            buffers = [np.linspace(0, 1, 64, dtype=real), n, np.zeros(21, real)]
            run_cpu(kernel, (21,), buffers, width)
            results.append(buffers[2])
        assert made[0] != made[1]
        assert np.array_equal(*results)


@wp.kernel
def triad(a: wp.array[float], b: wp.array[float], c: wp.array[float]):
    i = wp.tid()
    c[i] = a[i] + 3.0 * b[i]


@wp.kernel
def cross(a: wp.array[wp.vec3], b: wp.array[wp.vec3], out: wp.array[wp.vec3]):
    i = wp.tid()
    out[i] = wp.cross(wp.normalize(a[i]), b[i])


@wp.kernel
def waves(x: wp.array[float], y: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    out[i] = wp.sin(x[i]) * wp.exp(-y[i]) + wp.pow(x[i], y[i]) + wp.sqrt(x[i])


@wp.kernel
def shifted(f: wp.array3d[float], n: int, out: wp.array3d[float]):
    k, i, j = wp.tid()
    up, down = i - 1, i + 1
    if i == 0:
        up = f.shape[1] - 1
    if i == f.shape[1] - 1:
        down = 0
    scale = wp.float32(n) * 0.5
    if n > 3:
        scale = wp.float32(n) * 0.25
    east = wp.min(j + 1, f.shape[2] - 1)
    out[k, i, j] = scale * f[k, up, j] + f[k, down, east] - f[f.shape[0] - 1 - k, f.shape[1] - 1 - i, j]


# LLVM lines, and bytes of machine code for x86-64-v3: some above what there is now, far below a second copy of it.
@pytest.mark.parametrize(
    ("kernel", "text", "machine"),
    [(triad, 110, 1400), (cross, 420, 4200), (waves, 640, 14_500), (shifted, 245, 2600)],
    ids=["triad", "cross", "waves", "shifted"],
)
def test_code_of_small_kernels_stays_small(kernel, text, machine):
    import cpushapes

    cpushapes.initialize()
    shape = cpushapes.MACHINES["v3"]  # this machine may be shaped for otherwise
    code = compile_cpu(prepare(kernel.ir()), 16, shape)
    assert lines(code.text) <= text
    assert len(cpu_compile.compile_object(code.bitcode, shape)) <= machine


@wp.kernel
def turning(a: wp.array[wp.vec3], b: wp.array[wp.vec3], times: int, out: wp.array[wp.vec3]):
    i = wp.tid()
    axis, v = a[i], b[i]
    for _ in range(times):
        v = wp.cross(axis, 2.0 * v)
    out[i] = v


@pytest.mark.parametrize(("machine", "prefix"), [("v3", "each"), ("v4", "lanes")])
def test_gathers_of_the_rest_are_one_function_each(machine, prefix):
    """In the body for what is left of a row: three components of two arrays read, of one written; one copy of each.

    Without instructions for them, that is a load or a store for each lane, none of which is skipped.
    """
    import cpushapes

    text = compile_cpu(prepare(turning.ir()), 16, cpushapes.MACHINES[machine]).text
    helpers = re.findall(rf"^define internal .*?@{prefix}\..*?^}}", text, re.MULTILINE | re.DOTALL)
    assert len(helpers) == 2
    assert [len(re.findall(r" load float,", h)) for h in helpers] == ([8, 0] if prefix == "each" else [0, 0])
    assert len(re.findall(rf"call .*@{prefix}\.gather", text)) == 6
    assert len(re.findall(rf"call .*@{prefix}\.scatter", text)) == 3
    assert f"@{prefix}" not in text.split("chunk:")[1].split("rest:")[0]


def blocks(text):
    """The lines of the launch function's basic blocks, by label."""
    body = text.split("define void @jaxwarp_")[1].split("\n}")[0]
    found, label = {}, ""
    for line in body.splitlines()[1:]:
        if line.endswith(":"):
            label = line[:-1]
        else:
            found.setdefault(label, []).append(line)
    return found


def test_what_a_row_has_in_common_is_computed_once():
    """Addresses up to the column are made before the row, for both bodies; no branch is left that a row decides."""
    found = blocks(compile_cpu(prepare(shifted.ir()), 8).text)
    assert not [label for label in found if label.startswith(("then", "else", "join"))]
    for label, lines in found.items():
        text = "\n".join(lines)
        if label in ("entry", "row"):
            assert len(re.findall("mul i64", text)) > 1
        elif label not in ("rows", "past", "end"):
            assert "mul i64" not in text
            assert len(re.findall(r"getelementptr float, ptr %p\d", text)) == 0
    # Nothing twice, and nothing in front of its operands.
    early = [line.strip().split(" = ") for label in ("entry", "row") for line in found[label] if " = " in line]
    assert len({text for _, text in early}) == len(early)
    known = {"%buffers", "%geometry", "%row_begin", "%row_end", "%col_begin", "%col_end"}
    for label in ("entry", "rows", "row"):
        for name, text in (line.strip().split(" = ") for line in found[label] if " = " in line):
            assert " phi " in f" {text}" or set(re.findall(r"%[\w.]+", text)) <= known, text
            known.add(name)


@pytest.mark.parametrize("width", [1, 2, 8, 16])
@pytest.mark.parametrize("grid", [(2, 3, 70), (1, 1, 1), (3, 1, 16), (2, 5, 17), (0, 4, 4), (4, 2, 0)])
def test_rows_mean_the_same(width, grid):
    """Whole launches, and rectangles of rows and columns of them."""
    kernel = prepare(shifted.ir())
    for n in (3, 4):
        f = np.random.default_rng(1).uniform(-1, 1, grid).astype(np.float32)
        buffers = [[f.copy(), np.array(n, np.int32), np.zeros(grid, np.float32)] for _ in range(3)]
        interpret(kernel, grid, buffers[0])
        run_cpu(kernel, grid, buffers[1], width)
        rows, columns = grid[0] * grid[1], grid[2]
        tiles = [
            (r, r2, c, c2)
            for r, r2 in ((0, rows // 2), (rows // 2, rows))
            for c, c2 in ((0, columns // 3), (columns // 3, columns))
        ]
        run_cpu(kernel, grid, buffers[2], width, tiles)
        assert np.array_equal(buffers[0][2], buffers[1][2])
        assert np.array_equal(buffers[0][2], buffers[2][2])


def test_columns_are_counted_where_llvm_does_not_look():
    """It looks for other addresses otherwise, for a third of the time that a stencil takes."""
    assert compile_cpu(prepare(shifted.ir()), 8).text.count('asm ""') == 1
    assert "asm" not in compile_cpu(prepare(shifted.ir()), 1).text


@wp.kernel
def around(x: wp.array[float], y: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    out[i] = x[(i + 1) % x.shape[0]] + y[i]


@wp.kernel
def summed(x: wp.array[float], y: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    s = float(0.0)  # noqa: UP018
    for k in range(y.shape[0]):
        s += x[i] * y[k]
    out[i] = s


@pytest.mark.parametrize(
    ("kernel", "is_plain"), [(triad, True), (waves, True), (cross, True), (around, True), (summed, False)], ids=str
)
def test_code_without_loops_is_simplified_once(kernel, is_plain, monkeypatch):
    """Not by all of LLVM's passes, which find nothing else to do. It means the same."""
    monkeypatch.setenv("JAXWARP_CACHE_DIR", "")
    asked = []
    every = cpu_compile.llvm.PassBuilder.getFunctionPassManager
    monkeypatch.setattr(
        cpu_compile.llvm.PassBuilder, "getFunctionPassManager", lambda self: asked.append(self) or every(self)
    )
    ir = prepare(kernel.ir())
    arrays = [
        np.random.default_rng(n).uniform(0.1, 2, (101, 3)[: p.rank]).astype(np.float32) for n, p in enumerate(ir.params)
    ]
    results = []
    for looped in (cpu_compile._LOOPED, ("",)):
        monkeypatch.setattr(cpu_compile, "_LOOPED", looped)
        cpu_run._recent.clear()  # which hold what is loaded
        cpu_run._loaded.clear()
        buffers = [a.copy() for a in arrays]
        run_cpu(ir, (101,), buffers, 16)
        results.append((buffers[-1], len(asked)))
    assert [n for _, n in results] == [0 if is_plain else 1, 1 if is_plain else 2]
    assert np.array_equal(results[0][0], results[1][0])


@wp.kernel
def scaled(a: wp.array[wp.vec3], out: wp.array[wp.vec3]):
    i = wp.tid()
    out[i] = 2.0 * a[i]


def test_no_vector_of_odd_length_leaves_its_block():
    """LLVM would pass it on element by element: the pieces of a store that may be streamed are powers of two."""
    import cpushapes

    for machine, pieces in (("v3", ["4"] * 12), ("v4", ["16"] * 3)):
        text = compile_cpu(prepare(scaled.ir()), 16, cpushapes.MACHINES[machine]).text
        stores = re.findall(r"store <(\d+) x float>.*?(nontemporal.*)?$", text, re.MULTILINE)
        assert [n for n, hint in stores if hint] == pieces
        assert [n for n, hint in stores if not hint] == pieces


def test_the_rest_is_as_narrow_as_a_register():
    """Where the other body has two vectors, or four, for each value."""
    import cpushapes

    for width, machine, rest in ((32, "v3", 8), (8, "v3", 8), (4, "v3", 4), (32, "v4", 16)):
        text = compile_cpu(prepare(turning.ir()), width, cpushapes.MACHINES[machine]).text
        chunk, partial = (text.split(f"\n{label}:")[1] for label in ("chunk", "partial"))
        assert f"fmul <{width} x float>" in chunk.split("rest:")[0]
        assert set(re.findall(r"fmul <(\d+) x", partial)) == {str(rest)}


def test_code_found_on_disk_is_not_compiled(tmp_path, monkeypatch):
    """Neither read as bitcode nor optimised: the file is linked as it is."""
    monkeypatch.setenv("JAXWARP_CACHE_DIR", str(tmp_path))
    code = compile_cpu(prepare(triad.ir()))
    digest = hashlib.sha256(code.bitcode).hexdigest()
    load_bitcode(code.bitcode, digest, code.symbol)

    def forbidden(*_args, **_options):
        raise AssertionError("LLVM was asked for code that is on disk")

    for name in ("create_pass_builder", "create_pipeline_tuning_options", "parse_bitcode", "parse_assembly"):
        monkeypatch.setattr(cpu_compile.llvm, name, forbidden)
    assert load_bitcode(code.bitcode, digest, code.symbol)
    with pytest.raises(AssertionError, match="LLVM was asked"):
        load_bitcode(code.bitcode, "0" * 64, code.symbol)


@wp.kernel
def guarded(a: wp.array2d[float], b: wp.array2d[float], c: wp.array2d[float]):
    i, j = wp.tid()
    if i < c.shape[0] and j < c.shape[1]:
        s = float(0.0)  # noqa: UP018
        for k in range(a.shape[1]):
            s += a[i, k] * b[k, j]
        c[i, j] = s


@wp.kernel
def returning(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    if i >= x.shape[0]:
        return
    if x[i] > 0.0:
        y[i] = x[i]
    else:
        y[i] = -2.0 * x[i]


def cleared(call, *shapes):
    """Numbers of the outputs that a launch clears first."""
    arrays = [jnp.zeros(shape) for shape in shapes]
    (equation,) = [e for e in jax.make_jaxpr(call)(*arrays).jaxpr.eqns if e.primitive is launch_p]
    return call_attributes(equation.params["launch"], list(shapes), "cpu")["zero"].tolist()


@pytest.mark.parametrize(("dims", "expected"), [((5, 7), []), ((8, 16), []), ((5, 6), [2]), ((4, 16), [2])])
def test_outputs_behind_bounds_guards_are_not_cleared(dims, expected):
    """Nor wrong: where the launch is too small, the rest is zero."""
    call = wp.jax_kernel(guarded, launch_dims=dims, output_dims=(5, 7))
    assert cleared(call, (5, 3), (3, 7)) == expected
    a, b = (
        jnp.asarray(np.random.default_rng(k).integers(-4, 4, s), jnp.float32) for k, s in enumerate([(5, 3), (3, 7)])
    )
    wanted = np.zeros((5, 7), np.float32)
    rows, columns = min(dims[0], 5), min(dims[1], 7)
    wanted[:rows, :columns] = (np.asarray(a) @ np.asarray(b))[:rows, :columns]
    assert np.array_equal(call(a, b)[0], wanted)


@pytest.mark.parametrize(
    ("dims", "size", "expected"), [(64, 64, []), (100, 64, []), (63, 64, [1]), (64, 65, [1]), (100, 101, [1])]
)
def test_outputs_after_an_early_return_are_not_cleared(dims, size, expected):
    """The guard is the input's extent: 64."""
    call = wp.jax_kernel(returning, launch_dims=dims, output_dims=size)
    assert cleared(call, (64,)) == expected
    x = np.arange(64, dtype=np.float32) - 30
    wanted = np.zeros(size, np.float32)
    wanted[: min(dims, 64)] = np.where(x > 0, x, -2 * x)[: min(dims, 64)]
    assert np.array_equal(call(jnp.asarray(x))[0], wanted)
