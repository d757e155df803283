"""CPU code: what is in it: the shape of loops, what it needs of a process and of a machine, what it is made from."""

import re
import struct
from dataclasses import replace

import llvmlite.binding as llvm
import numpy as np
import pytest
from cpukit import Make, check, floats

import jaxwarp as wp
from jaxwarp.builtins.scalar_ops import ROWS
from jaxwarp.codegen.cpu import choose_grain, compile_cpu, load_bitcode, run_cpu
from jaxwarp.codegen.cpu.analysis.pressure import register_pressure
from jaxwarp.codegen.cpu.analysis.streamed import streamed
from jaxwarp.codegen.cpu.compile import _LIBM, _MEMORY, compile_object
from jaxwarp.codegen.cpu.llvm.vectors import VectorBuilder
from jaxwarp.codegen.cpu.plan.target import Machine, host
from jaxwarp.codegen.cpu.plan.width import choose_width
from jaxwarp.codegen.cpu.run import launch
from jaxwarp.errors import CompileError, KernelError, KernelTypeError, KernelValueError
from jaxwarp.passes.pipeline import prepare
from jaxwarp.types import SCALARS, bool_, float16, float32, float64, int32

# The three levels of x86-64 that Linux distributions build for, and 64-bit Arm.
MACHINES = [
    Machine("x86_64-unknown-linux-gnu", "x86-64-v2", ""),
    Machine("x86_64-unknown-linux-gnu", "x86-64-v3", ""),
    Machine("x86_64-unknown-linux-gnu", "x86-64-v4", ""),
    Machine("aarch64-unknown-linux-gnu", "generic", ""),
]
AVX512 = MACHINES[2]
# The same as code generation sees them.
AVX2_SHAPE = Machine("x86_64-unknown-linux-gnu", "x86-64-v3", "+avx2")
AVX512_SHAPE = Machine("x86_64-unknown-linux-gnu", "x86-64-v4", "+avx512f,+avx2")


@pytest.fixture(scope="module", autouse=True)
def _all_targets():
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


def saxpy():
    m = Make()
    a, x, y = m.array(), m.array(None), m.array(None)
    i = m.tid(0)
    m.store(y, [i], m.op("add", m.op("mul", m.load(a, []), m.load(x, [i])), m.load(y, [i])))
    return prepare(m.kernel())


def every_row():
    """Each builtin on each type it takes, each cast, each atomic, gathered, scattered and adjacent."""
    m = Make()
    i = m.tid(0)
    arrays = {t: m.array(None, 3, dtype=t) for t in SCALARS}
    values = {t: m.load(a, [i, m.i(0)]) for t, a in arrays.items()}
    results = {t: [] for t in SCALARS}
    # Half types are widened first, so their rows are those of float32.
    own = [t for t in SCALARS if not t.is_half]
    for row in ROWS.values():
        for types in [(t,) * n for t in own for n in (1, 2, 3)] + [(bool_, t, t) for t in own]:
            if not row.typed:
                try:
                    target = row.infer(types)
                except KernelError:
                    continue
                results[target].append(m.call(row, *(values[t] for t in types)))
    for source, target in ((s, t) for s in SCALARS for t in SCALARS):
        results[target].append(m.cast(values[source], target))
    for dtype, found in results.items():
        total = found[0]
        for value in found[1:]:
            total = m.op("select", m.op("eq", total, value), total, value)
        m.store(arrays[dtype], [i, m.cast(values[int32], int32)], total)
        for kind in ("add", "min", "max", "exch"):
            m.atomic(kind, arrays[dtype], [i, m.i(1)], total)
        m.atomic("cas", arrays[dtype], [i, m.i(2)], total, values[dtype])
    return prepare(m.kernel())


def undefined_symbols(elf: bytes) -> set[str]:
    """Names in the symbol table of a 64-bit little-endian ELF object that it does not define."""
    (sections_at,) = struct.unpack_from("<Q", elf, 0x28)
    size, count = struct.unpack_from("<HH", elf, 0x3A)
    sections = [struct.unpack_from("<IIQQQQIIQQ", elf, sections_at + n * size) for n in range(count)]
    names = set()
    for _, kind, _, _, at, length, link, _, _, entry in sections:
        if kind == 2:  # a symbol table
            strings = sections[link][4]
            for symbol in range(at + entry, at + length, entry):
                name, _, _, section = struct.unpack_from("<IBBH", elf, symbol)
                if section == 0:
                    names.add(elf[strings + name : elf.index(b"\0", strings + name)].decode())
    return names


@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: m.cpu + m.triple[:3])
@pytest.mark.parametrize("width", [1, 4])
def test_code_for_every_machine_needs_only_the_c_library(machine, width):
    code = compile_cpu(every_row(), width)
    needed = undefined_symbols(compile_object(code.bitcode, machine))
    provided = {name + suffix for name in _LIBM for suffix in ("", "f")} | set(_MEMORY)
    assert needed <= provided
    assert "sinf" in needed


def test_bitcode_is_tied_to_no_machine():
    text = str(llvm.parse_bitcode(compile_cpu(saxpy(), 8).bitcode))
    assert "target triple" not in text
    assert "target-cpu" not in text
    assert "target-features" not in text


def test_equal_kernels_make_equal_bitcode():
    first, second = compile_cpu(saxpy()), compile_cpu(saxpy())
    assert first == second
    assert first.text == second.text


def assembly(kernel, width=32, machine=AVX512, shape=AVX512_SHAPE):
    """The instructions of a kernel, by basic block."""
    code = compile_object(compile_cpu(kernel, width, shape).bitcode, machine, assembly=True).decode()
    blocks = re.split(r"^\.L\w+:.*$", code, flags=re.MULTILINE)
    return [re.findall(r"^\t([a-z]\w+)(.*)$", block, flags=re.MULTILINE) for block in blocks]


def full_body(code):
    """The LLVM text that runs where all lanes are on."""
    return code.text.split("chunk:")[1].split("rest:")[0]


def inner_loop(blocks, mark):
    """The instructions of the block with most of those whose name starts with `mark`."""
    return max(blocks, key=lambda block: sum(name.startswith(mark) for name, _ in block))


def test_saxpy_is_vector_code():
    loop = inner_loop(assembly(saxpy()), "vfmadd")
    names = [name for name, _ in loop]
    assert sum(n.startswith("vfmadd") for n in names) == 2
    assert names.count("vmovups") == 4  # two loads and two stores; the other operands are in memory
    assert all("%zmm" in arguments for name, arguments in loop if name == "vmovups")
    assert len(loop) <= 14
    assert not any("gather" in n or "scatter" in n or n == "call" for n in names)


def test_stencil_reads_vectors():
    """u[i, j] + u[i-1, j] + u[i, j+1] + ...: five vector loads a vector, whatever the row length."""
    m = Make()
    u, out = m.array(None, None), m.array(None, None)
    i, j = m.op("add", m.tid(0), m.i(1)), m.op("add", m.tid(1), m.i(1))
    total = m.load(u, [i, j])
    for di, dj in ((-1, 0), (1, 0), (0, -1), (0, 1)):
        total = m.op("add", total, m.load(u, [m.op("add", i, m.i(di)), m.op("add", j, m.i(dj))]))
    m.store(out, [i, j], total)
    code = compile_cpu(prepare(m.kernel(2)), 32)
    assert "gather" not in code.text
    assert "scatter" not in code.text
    check(m.kernel(2), (3, 45), [floats(5, 47), np.zeros((5, 47), np.float32)], (1, 32))


def test_vector_arrays_walked_in_order_are_not_gathered():
    m = Make()
    a, out = m.array(None, 3), m.array(None, 3)
    i = m.tid(0)
    values = [m.load(a, [i, m.i(c)]) for c in range(3)]
    for c in range(3):
        m.store(out, [i, m.i(c)], m.op("add", values[c], values[(c + 1) % 3]))
    for machine, store, count in ((AVX2_SHAPE, "store <4 x float>", 12), (AVX512_SHAPE, "store <16 x float>", 3)):
        full = full_body(compile_cpu(prepare(m.kernel()), 16, machine))
        assert "gather" not in full
        assert "scatter" not in full
        assert full.count(store) == 2 * count  # half of them run: past the caches, or not


def test_inner_loop_over_a_shared_table_stays_scalar():
    """for k in range(n): total += f(x[i], table[k]): one scalar load and a broadcast, no mask, one branch."""
    m = Make()
    x, table, out = m.array(None), m.array(None), m.array(None)
    i = m.tid(0)
    value = m.load(x, [i])

    def body(k, total):
        d = m.op("sub", m.load(table, [k]), value)
        return (m.op("add", total, m.op("mul", d, d)),)

    (total,) = m.for_(m.i(0), m.size(table, 0), m.i(1), [m.f(0.0)], body)
    m.store(out, [i], total)
    full = full_body(compile_cpu(prepare(m.kernel()), 16))
    assert "gather" not in full
    assert "select <16" not in full
    assert "load float" in full
    # One iteration at a time: several vectors are in flight already, and more would not fit the registers.
    loop = inner_loop(assembly(prepare(m.kernel()), 32), "vfmadd")
    assert sum(name.startswith("vfmadd") for name, _ in loop) == 2
    assert not any("%rsp" in arguments for _, arguments in loop)


def test_linear_counter_in_a_divergent_loop_stays_scalar():
    """Active lanes agree on how many iterations they have run."""
    m = Make()
    x, out = m.array(None), m.array(None, dtype=int32)
    i = m.tid(0)
    start = m.load(x, [i])

    def condition(n, v):
        return m.op("logical_and", m.op("lt", v, m.f(4.0)), m.op("lt", n, m.i(100)))

    results = m.while_([m.i(0), start], condition, lambda n, v: (m.op("add", n, m.i(1)), m.op("mul", v, v)))
    m.store(out, [i], results[0])
    loop = full_body(compile_cpu(prepare(m.kernel()), 16)).split("\ndone")[0]
    # Only the scalar counter is added to.
    assert "add i32" in loop
    assert not re.search(r"add <16 x i32>", loop)
    check(m.kernel(), (40,), [floats(40), np.zeros(40, np.int32)], (1, 16))


def escapes():
    """How many steps of v = v * v until v >= 4: each lane leaves when it likes."""
    m = Make()
    x, out = m.array(None), m.array(None, dtype=int32)
    i = m.tid(0)

    def condition(n, v):
        return m.op("logical_and", m.op("lt", v, m.f(4.0)), m.op("lt", n, m.i(100)))

    results = m.while_([m.i(0), m.load(x, [i])], condition, lambda n, v: (m.op("add", n, m.i(1)), m.op("mul", v, v)))
    m.store(out, [i], results[0])
    return m.kernel()


def test_loop_that_lanes_leave_one_by_one_has_no_packed_masks():
    """Without mask registers: compare, keep those that were on, test signs, count. No packing, no unpacking."""
    machine = MACHINES[1]
    blocks = assembly(prepare(escapes()), 16, machine, AVX2_SHAPE)
    everything = [name for block in blocks for name, _ in block]
    assert everything.count("vpsubd") == 2 + 1  # two registers, and the one of the body for the rest
    assert not any(name.startswith(("vblend", "vpblend")) for name in everything)
    names = [name for name, _ in inner_loop(blocks, "vcmpltps")]
    assert names.count("vcmpltps") == 2
    assert sum(name in ("vmovmskps", "vtestps") for name in names) == 1
    assert not any(name.startswith(("vpack", "vpmov", "vpunpck", "vpextr", "vextract")) for name in names)
    assert len(names) <= 28
    # With them, they are used.
    loop = inner_loop(assembly(prepare(escapes()), 32), "vcmpltps")
    assert any("%k" in arguments for _, arguments in loop)
    assert not any(name.startswith(("vpack", "vpmov")) for name, _ in loop)


def test_neighbours_in_a_table_share_their_addresses():
    """t[k] and t[k + 1] without gathers in the machine: every address is taken out of its vector once."""
    m = Make()
    index, table, out = m.array(None, dtype=int32), m.array(None, dtype=float64), m.array(None, dtype=float64)
    i = m.tid(0)
    k = m.load(index, [i])
    m.store(out, [i], m.op("add", m.load(table, [k]), m.load(table, [m.op("add", k, m.i(1))])))
    loop = inner_loop(assembly(prepare(m.kernel()), 8, MACHINES[1], AVX2_SHAPE), "vmov")
    names = [name for name, _ in loop]
    assert sum(name in ("vmovq", "vpextrq") for name in names) == 8
    # Both at once, of each lane.
    rows = ("vmovupd", "vmovups", "vinsertf128")
    assert sum(n in rows and bool(re.search(r"\(%r\w+,\s*%r\w+,\s*8\)", a)) for n, a in loop) == 8
    assert "vgather" not in "".join(names)
    full = full_body(compile_cpu(prepare(m.kernel()), 8, AVX512_SHAPE))
    assert full.count("masked.gather") == 2


def scaled(dtype=float32, components=0):
    """out[i] = 2 * x[i], of numbers or of vectors."""
    m = Make()
    static = (components,) if components else ()
    x, out = m.array(None, *static, dtype=dtype), m.array(None, *static, dtype=dtype)
    i = m.tid(0)
    places = [[i, m.i(c)] for c in range(components)] or [[i]]
    values = [m.load(x, at) for at in places]
    for at, value in zip(places, values, strict=True):
        m.store(out, at, m.op("mul", value, m.f(2.0, dtype)))
    return m.kernel()


@pytest.mark.parametrize(("dtype", "components", "stores"), [(float32, 0, 1), (float64, 0, 2), (float32, 3, 3)])
def test_large_outputs_are_streamed(dtype, components, stores):
    """Past the caches if they are too small for the arrays of the launch; else, and at odd addresses, as usual."""
    kernel = prepare(scaled(dtype, components))
    blocks = assembly(kernel, 16)
    assert [len([n for n, _ in b if n.startswith("vmovntp")]) for b in blocks if "vmovntp" in str(b)] == [stores]
    assert any(name in ("mfence", "lock") for block in blocks for name, _ in block)
    small = compile_cpu(kernel, 16, replace(AVX512_SHAPE, cache_bytes=1 << 20))
    size, bytes_each = (components or 1), dtype.bytes
    threads = (1 << 20) // (2 * size * bytes_each)
    memory = np.full((threads + 100) * size * bytes_each, 7, np.uint8)
    begin = -memory.ctypes.data % 64
    for offset in (begin, begin + bytes_each):  # lines, and what is not
        for count in (threads, threads + 70):  # what fits, and what does not
            shape = (count, components) if components else (count,)
            x = np.random.default_rng(count).standard_normal(shape).astype(dtype.numpy)
            out = memory[offset : offset + x.nbytes].view(dtype.numpy).reshape(shape)
            launch(small, kernel, (count,), [x, out])
            np.testing.assert_array_equal(out, 2 * x)
            assert (memory[offset + x.nbytes :] == 7).all()
            memory[:] = 7


def test_what_is_read_or_written_again_is_not_streamed():
    m = Make()
    x, read, summed, again, half = m.array(None), m.array(None), m.array(None), m.array(None), m.array(None)
    i = m.tid(0)
    value = m.op("add", m.load(x, [i]), m.load(read, [i]))
    m.store(read, [i], value)
    m.atomic("add", summed, [i], value)

    def body(k, *_):
        m.store(again, [i], m.op("mul", value, m.cast(k, float32)))
        return ()

    m.for_(m.i(0), m.i(3), m.i(1), [], body)
    m.store(half, [i], value)
    kernel = prepare(m.kernel())
    assert {p.name for p in streamed(kernel)} == {half.name}
    assert compile_cpu(kernel, 16, AVX2_SHAPE).text.count("!nontemporal") == 1
    # Half a line at a time: never.
    assert "!nontemporal" not in compile_cpu(kernel, 8, AVX2_SHAPE).text


def test_registers_limit_the_width():
    """A kernel that holds many values at once gets one register each; what it loads late does not count."""

    def total(count, at_once):
        m = Make()
        x, out = m.array(None, None), m.array(None)
        i = m.tid(0)
        loads = [m.load(x, [m.i(n), i]) for n in range(count)]
        roots = [m.op("sqrt", v) for v in loads] if at_once else []
        result = m.op("mul", loads[0], loads[0])
        for n in range(count):
            result = m.op("add", result, roots[n] if at_once else m.op("sqrt", loads[n]))
        for root in roots:
            result = m.op("mul", result, root)
        m.store(out, [i], result)
        return prepare(m.kernel())

    assert register_pressure(total(12, True)) >= 12
    assert register_pressure(total(12, False)) <= 4
    for count, at_once, avx2, avx512 in ((12, False, 16, 32), (12, True, 8, 32), (24, True, 8, 16)):
        kernel = total(count, at_once)
        assert choose_width(kernel, AVX2_SHAPE) == avx2
        assert choose_width(kernel, AVX512_SHAPE) == avx512


def test_light_loops_have_four_vectors_in_flight():
    assert choose_width(prepare(escapes()), AVX2_SHAPE) == 32
    assert choose_width(prepare(escapes()), AVX512_SHAPE) == 64
    assert choose_width(saxpy(), AVX2_SHAPE) == 16


@wp.kernel
def near(start: wp.array[int], x: wp.array[wp.vec3], r: float, out: wp.array[float]):
    i = wp.tid()
    total = float(0.0)  # noqa: UP018
    for k in range(start[i], start[i + 1]):
        d = wp.length(x[k] - x[i])
        if d < r:
            total += 1.0 - d / r
    out[i] = total


def test_loops_that_gather_have_one_vector_in_flight():
    """More lanes gather no faster, and wait for the one that has most to do."""
    assert choose_width(prepare(near.specialize()), AVX2_SHAPE) == 8
    assert choose_width(prepare(near.specialize()), AVX512_SHAPE) == 16


@wp.kernel
def remainders(start: wp.array[int], x: wp.array[int], r: int, out: wp.array[int]):
    i = wp.tid()
    total = int(0)  # noqa: UP018, RUF046
    for k in range(start[i], start[i + 1]):
        if x[k] < r:
            total += r % x[k]
    out[i] = total


@pytest.mark.parametrize("shape", [AVX2_SHAPE, AVX512_SHAPE], ids=["v3", "v4"])
def test_a_division_of_floats_is_no_branch(shape):
    """Lanes that are off divide, too. Branches would be foreseen wrongly as often as all lanes are off."""
    for kernel, has_branch in ((near, False), (remainders, True)):
        text = compile_cpu(prepare(kernel.specialize()), 8, shape).text
        body = text[text.index("\nchunk:") : text.index("\nrest:")]
        assert bool(re.search(r"^on\d*:", body, re.M)) == has_branch


def test_components_of_vectors_are_held_at_once():
    for components, avx2, avx512 in ((2, 16, 32), (4, 16, 32)):
        assert choose_width(prepare(scaled(float32, components)), AVX2_SHAPE) == avx2
        assert choose_width(prepare(scaled(float32, components)), AVX512_SHAPE) == avx512
    m = Make()
    a, b, out = (m.array(None, 3) for _ in range(3))
    i = m.tid(0)
    values = [m.op("mul", m.load(a, [i, m.i(c)]), m.load(b, [i, m.i(c)])) for c in range(3)]
    for c, value in enumerate(values):
        m.store(out, [i, m.i(c)], value)
    assert choose_width(prepare(m.kernel()), AVX2_SHAPE) == 8
    assert choose_width(prepare(m.kernel()), AVX512_SHAPE) == 32


def test_values_carried_by_a_loop_live_as_long_as_it():
    m = Make()
    x, out = m.array(None), m.array(None)
    i = m.tid(0)
    outside = [m.op("add", m.load(x, [i]), m.f(float(n))) for n in range(6)]

    def body(k, *sums):
        return [m.op("add", s, m.op("mul", o, s)) for s, o in zip(sums, outside, strict=True)]

    for total in m.for_(m.i(0), m.i(10), m.i(1), outside, body):
        m.store(out, [i], total)
    assert 12 <= register_pressure(m.kernel()) <= 14


def test_geometry_names_what_is_used():
    """Extents that are static or not needed are not passed; outer grid extents are, where rows are taken apart."""
    m = Make()
    m.array(None, None)
    a, b = m.array(None, None, 3), m.array(None, 4)
    i, j, k = m.tid(0), m.tid(1), m.tid(2)
    m.store(a, [i, j, m.i(0)], m.load(b, [k, m.i(1)]))
    assert set(compile_cpu(m.kernel(3), 8).geometry) == {(-1, 1), (1, 1)}
    assert compile_cpu(saxpy()).geometry == ()


def test_width_follows_machine_kernel_and_environment(monkeypatch):
    m = Make()
    x = m.array(None, dtype=float64)
    m.store(x, [m.tid(0)], m.op("mul", m.load(x, [m.tid(0)]), m.f(2.0, float64)))
    double = m.kernel()
    for features, bits in (("+avx2,+avx512f", 512), ("+avx,+avx2", 256), ("+sse4.2", 128), ("+neon", 128)):
        machine = Machine("", "", features)
        assert choose_width(saxpy(), machine) == bits // 16
        assert choose_width(double, machine) == bits // 32
    monkeypatch.setenv("JAXWARP_CPU_WIDTH", "4")
    assert compile_cpu(saxpy()).width == 4
    assert compile_cpu(saxpy(), 8).width == 8
    for wrong in ("3", "many", "128"):
        monkeypatch.setenv("JAXWARP_CPU_WIDTH", wrong)
        with pytest.raises(KernelValueError, match=f"JAXWARP_CPU_WIDTH must be 1, 2, 4, .* got '{wrong}'"):
            compile_cpu(saxpy())


def test_grain_follows_the_work_of_a_thread():
    """A launch is split sooner the more a thread does; a loop counts as often as it runs, if that is known."""

    def summing(stop):
        m = Make()
        x, n, out = m.array(None), m.array(dtype=int32), m.array(None)
        last = m.op("sub", m.size(x, 0), m.i(1)) if stop == "size" else m.load(n, []) if stop == "n" else m.i(stop)
        (total,) = m.for_(m.i(0), last, m.i(2), [m.f(0.0)], lambda k, t: (m.op("add", t, m.load(x, [k])),))
        m.store(out, [m.tid(0)], m.op("exp", total))
        return m.kernel(), x

    def grain(stop, *extent):
        kernel, x = summing(stop)
        return choose_grain(kernel, {x: extent} if extent else None)

    assert grain(20) > grain(2000) > grain(200_000) == 16
    assert grain("size", 1000) == pytest.approx(grain(999), rel=0.05)
    assert grain("size", "symbolic") == grain("size") == pytest.approx(grain(64), rel=0.05)
    assert grain("n", 1000) == pytest.approx(grain(64), rel=0.05)
    assert grain(-5) == pytest.approx(grain("size", 0), rel=0.1)
    assert grain(-5) > 1.5 * grain(20)
    assert choose_grain(saxpy()) > 50_000
    assert grain_of_squares(200) == 16  # sizes multiplied by themselves grow without end
    m = Make()
    x = m.array(None)
    i = m.tid(0)
    m.store(x, [i], m.op("pow", m.load(x, [i]), m.op("sin", m.load(x, [i]))))
    assert choose_grain(saxpy()) > 5 * choose_grain(m.kernel())


def grain_of_squares(count):
    """A loop so many times as an extent that is squared again and again, in loops of as many iterations in each
    other."""
    m = Make()
    x = m.array(None)
    n = m.size(x, 0)
    for _ in range(count):
        n = m.op("mul", n, n)

    def nest(depth):
        def body(_k):
            if depth:
                m.for_(m.i(0), m.i(2**31 - 1), m.i(1), [], nest(depth - 1))
            m.store(x, [m.tid(0)], m.f(1.0))
            return ()

        return body

    m.for_(m.i(0), n, m.i(1), [], nest(40))
    m.for_(m.i(0), m.i(0), m.i(1), [], nest(40))
    return choose_grain(m.kernel(), {x: (1000,)})


def test_bitcode_that_cannot_be_read_is_an_error():
    with pytest.raises(CompileError, match="the CPU code of a kernel cannot be read by LLVM"):
        load_bitcode(b"not bitcode", "0" * 64, "f")


def test_symbol_that_is_missing_is_an_error():
    with pytest.raises(CompileError, match="the CPU code of a kernel cannot be linked"):
        load_bitcode(compile_cpu(saxpy(), 8).bitcode, "1" * 64, "no_such_function")


def test_buffers_that_do_not_fit_are_refused():
    x = floats(8)
    with pytest.raises(KernelTypeError, match="expected 1 grid extents and 3 buffers, got 1 and 2"):
        run_cpu(saxpy(), (8,), [x, x])
    with pytest.raises(KernelTypeError, match=r"buffer p0: expected contiguous float32 of shape \(\), got float32"):
        run_cpu(saxpy(), (8,), [x, x, x])
    with pytest.raises(KernelTypeError, match="buffer p1: expected contiguous float32"):
        run_cpu(saxpy(), (4,), [np.float32(1).reshape(()), x[::2], x[:4]])


def test_kernel_names_that_llvm_would_not_take():
    m = Make()
    a = m.array(None)
    m.store(a, [m.tid(0)], m.f(1.0))
    kernel = m.finish("<lambda>é.x", 1, m.params)
    code = run_cpu(kernel, (5,), [x := np.zeros(5, np.float32)])
    assert code.symbol.isascii()
    assert code.symbol.isidentifier()
    assert x.all()


def test_many_operations_compile():
    """A long kernel: nothing in the generator recurses over operations or revisits them."""
    m = Make()
    x = m.array(None)
    i = m.tid(0)
    value = m.load(x, [i])
    for step in range(4000):
        value = m.op("add" if step % 3 else "mul", value, m.f(float(step % 7)))
    m.store(x, [i], value)
    assert len(compile_cpu(m.kernel(), 8).text.splitlines()) < 2 * 4000 + 200


HALVES = [t for t in SCALARS if t.is_half]


@pytest.mark.parametrize("half", HALVES, ids=str)
@pytest.mark.parametrize("width", [1, 16])
def test_every_half_value_widens_exactly(half, width):
    m = Make()
    x, out = m.array(None, dtype=half), m.array(None)
    i = m.tid(0)
    m.store(out, [i], m.cast(m.load(x, [i]), float32))
    data = np.arange(1 << 16, dtype=np.uint16).view(half.numpy)
    got = np.zeros(1 << 16, np.float32)
    run_cpu(m.kernel(), (1 << 16,), [data, got], width)
    with np.errstate(invalid="ignore"):
        expected = data.astype(np.float32)
    assert np.array_equal(got.view(np.uint32)[~np.isnan(expected)], expected.view(np.uint32)[~np.isnan(expected)])
    assert np.isnan(got[np.isnan(expected)]).all()


@pytest.mark.parametrize("half", HALVES, ids=str)
def test_floats_round_to_half_once_and_to_even(half):
    """Every half value, the midpoints to the next, their neighbours in float32 and float64, and random bits."""
    every = np.arange(1 << 16, dtype=np.uint16).view(half.numpy).astype(np.float32)
    every = np.sort(every[np.isfinite(every)])
    middle = ((every[1:].astype(np.float64) + every[:-1]) / 2).astype(np.float64)
    near = np.concatenate([middle, np.nextafter(middle, np.inf), np.nextafter(middle, -np.inf)])
    singles = np.concatenate([middle, every]).astype(np.float32)
    singles = np.concatenate([singles, np.nextafter(singles, np.float32(np.inf)), np.nextafter(singles, np.float32(0))])
    random_bits = np.random.default_rng(0).integers(0, 1 << 32, 20000, dtype=np.uint64).astype(np.uint32)
    singles = np.concatenate([singles, random_bits.view(np.float32), np.float32([np.inf, -np.inf, np.nan, 1e38])])
    for source, data in ((float32, singles), (float64, near)):
        m = Make()
        x, out = m.array(None, dtype=source), m.array(None, dtype=half)
        i = m.tid(0)
        m.store(out, [i], m.cast(m.load(x, [i]), half))
        got = np.zeros(len(data), half.numpy)
        run_cpu(m.kernel(), (len(data),), [data, got], 16)
        expected = nearest_half(data, half, every)
        nan = np.isnan(data)
        assert np.isnan(got[nan].astype(np.float32)).all()
        assert np.array_equal(got.view(np.uint16)[~nan], expected.view(np.uint16)[~nan])


def nearest_half(data, half, every):
    """The nearest value by search among all of them, without any conversion; ties go to the even one."""
    with np.errstate(invalid="ignore"):  # NaNs that signal
        wide = data.astype(np.float64)
    above = np.clip(np.searchsorted(every, np.where(np.isnan(wide), 0, wide)), 1, len(every) - 1)
    low, high = every[above - 1].astype(np.float64), every[above].astype(np.float64)
    is_low_even = every[above - 1].astype(half.numpy).view(np.uint16) % 2 == 0
    take_low = (wide - low < high - wide) | ((wide - low == high - wide) & is_low_even)
    result = np.where(take_low, every[above - 1], every[above])
    # Past the largest value by half a step or more: infinity.
    limit = float(every[-1]) + (float(every[-1]) - float(every[-2])) / 2
    result = np.where(np.abs(wide) >= limit, np.copysign(np.inf, wide), result)
    result = np.where(result == 0, np.copysign(0.0, wide), result)
    return result.astype(np.float32).astype(half.numpy)


def test_half_helpers_are_what_rows_are_given():
    ops = VectorBuilder(4)
    assert ops.type(float16) == "<4 x i16>"
    assert ops.const(float16, 1.0) == "splat (i16 15360)"
    assert ops.half_to_float(float16, "%x").startswith("%")


def test_host_is_one_of_a_kind():
    assert host() is host()
    assert host().vector_bits in (128, 256, 512)
