"""Machine code of kernels that are to be vector code: what their main body has, and has not, on AVX2 and AVX-512."""

import cpushapes
import pytest
from cpushapes import MACHINES, main_body
from kernels import KERNELS

import jaxwarp as wp
from jaxwarp.codegen.cpu import compile_cpu
from jaxwarp.passes.pipeline import prepare
from jaxwarp.vjp.reverse.adjoint import adjoint


@wp.kernel
def stencil(x: wp.array2d[float], y: wp.array2d[float]):
    i, j = wp.tid()
    up, down = wp.max(i - 1, 0), wp.min(i + 1, x.shape[0] - 1)
    left, right = wp.max(j - 1, 0), wp.min(j + 1, x.shape[1] - 1)
    v = x[i, j]
    y[i, j] = v + 0.1 * (x[up, j] + x[down, j] + x[i, left] + x[i, right] - 4.0 * v) + 0.1 * v * v


REGISTER = {"v3": "%ymm", "v4": "%zmm"}
LANES = {"v3": 8, "v4": 16}  # of float32 in a register

GATHER = r"v?p?(gather|scatter)\w+"
# One lane at a time: reading elements into lanes, taking lanes apart.
LANE_BY_LANE = r"v?p(insr|extr)[bwdq]"

both = pytest.mark.parametrize("level", list(REGISTER))


@pytest.fixture(scope="module", autouse=True)
def _all_targets():
    cpushapes.initialize()


@pytest.fixture(scope="module")
def body():
    made = {}

    def get(name, level):
        if (name, level) not in made:
            made[name, level] = main_body(prepare(KERNELS[name].ir), MACHINES[level])
        return made[name, level]

    return get


@both
@pytest.mark.parametrize("name", ["saxpy", "vec3_frame", "lbm_d2q9", "nbody", "rowsum", "mandelbrot", "matmul"])
def test_no_gather_no_call_no_single_lanes(body, level, name):
    code = body(name, level)
    assert code.count(GATHER) == 0
    assert code.count("call.*") == 0
    assert code.count(LANE_BY_LANE) == 0
    assert code.width // LANES[level] in (1, 2, 4)


@both
def test_saxpy(body, level):
    """x[i], y[i] loaded, the result stored past the caches or not, two registers each; else the step of the loop."""
    code = body("saxpy", level)
    # One operand of each product and sum is read from memory by the instruction itself.
    assert code.vectors(REGISTER[level]) == 8
    assert code.count("vfmadd.*") == 2
    assert code.count("vmovntps") == 2
    assert len(code.names()) <= 16


@both
def test_vec3(body, level):
    """Three components of two arrays in, three of one and one number out; as many registers each as there is room."""
    code = body("vec3_frame", level)
    registers = code.width // LANES[level]
    assert registers == {"v3": 1, "v4": 2}[level]
    assert code.vectors(REGISTER[level]) >= registers * (3 + 3 + 3 + 1)
    assert code.count("vsqrt.*") >= registers
    assert code.count("vsqrtss") == 0


@both
def test_lattice_boltzmann(body, level):
    """Nine neighbours in, wrapped around the edges, nine values out: adjacent in the interior."""
    code = body("lbm_d2q9", level)
    assert code.vectors(REGISTER[level]) >= code.width // LANES[level] * 18
    assert code.count("vmovss") == 0
    assert code.count("v?vdivss") == 0


@both
def test_nbody(body, level):
    """In the loop: another body's position and mass, the same for all lanes, in registers of eight or sixteen."""
    code = body("nbody", level)
    (names,) = ([name for name, _ in block] for _, block in code.blocks if any(n == "vsqrtps" for n, _ in block))
    assert names.count("vbroadcastss") >= 4
    assert sum(n.startswith(("vfmadd", "vfnmadd")) for n in names) >= 2 * 5
    assert not any(n.endswith("ss") and n != "vbroadcastss" for n in names)


@both
def test_row_sum(body, level):
    """An integer sum and maximum along rows: loads and adds in four registers, atomics once a row."""
    code = body("rowsum", level)
    assert code.count("lock") == 0
    assert code.count("vpaddd") == 4
    assert code.count("vpmaxsd") == 4
    assert code.vectors(REGISTER[level]) >= 4
    assert len(code.names()) <= 20


@both
def test_mandelbrot(body, level):
    """The loop's arithmetic is that of whole registers; the counter of all lanes is one number."""
    code = body("mandelbrot", level)
    loop = [name for label, block in code.blocks if label.startswith(("while", "body")) for name, _ in block]
    assert any(n.startswith("vfmadd") for n in loop)
    assert not any(n.endswith("ss") and n != "vbroadcastss" for n in loop)


@both
def test_matmul(body, level):
    """In the loop: an element of a, broadcast, times two registers of a row of b."""
    code = body("matmul", level)
    loop = [block for label, block in code.blocks if label.startswith("body")]
    names = [name for block in loop for name, _ in block]
    assert names.count("vbroadcastss") >= 1
    fused = [operands for block in loop for name, operands in block if name.startswith("vfmadd")]
    assert fused
    assert all(REGISTER[level] in operands and "(" in operands for operands in fused)
    assert not any(n.endswith("ss") and n != "vbroadcastss" for n in names)


@both
def test_gather_is_one_on_avx512_and_unmasked_loads_on_avx2(body, level):
    """x[index[i]] of two columns: what the machine has for it, without a branch for a lane and without a call."""
    code = body("gather", level)
    assert code.count("call.*") == 0
    stores = ("stream", "cache", "stored")
    assert [label for label, _ in code.blocks if not label.startswith(stores)] in (["chunk"], ["chunk", "following"])
    if level == "v4":
        assert code.count(r"vp?gather\w+") == 8  # two columns, two registers, in halves of eight 64-bit addresses
        assert code.count(LANE_BY_LANE) == 0
    else:
        wanted = ("vmovss", "vinsertps")
        loads = sum("(%r" in operands for _, block in code.blocks for name, operands in block if name in wanted)
        assert loads == code.width * 2


@both
def test_elementary_functions_call_only_where_seldom(body, level):
    """Polynomials for all lanes; the C library only for few arguments (beyond 131072), in blocks of their own."""
    code = body("elementary", level)
    calls = {label for label, block in code.blocks for name, _ in block if name.startswith("call")}
    assert len(calls) >= 3  # sin, cos, tan
    assert all(label.startswith(("lane", "cold")) for label in calls)
    assert code.count("vfmadd.*") > 60
    assert code.count(GATHER) == 0


@wp.kernel
def powers(x: wp.array[wp.float64], y: wp.array[wp.float64], out: wp.array[wp.float64]):
    i = wp.tid()
    out[i] = wp.pow(x[i], y[i])


@wp.kernel
def repeated_powers(x: wp.array[wp.float64], y: wp.array[wp.float64], out: wp.array[wp.float64]):
    i = wp.tid()
    s = wp.float64(0.0)
    for k in range(y.shape[0]):
        s += wp.pow(x[i], y[k])
    out[i] = s


@wp.kernel
def sines(x: wp.array[wp.float64], out: wp.array[wp.float64]):
    i = wp.tid()
    out[i] = wp.sin(x[i])


@wp.kernel
def iterations(x: wp.array[wp.float64], out: wp.array[wp.float64]):
    i = wp.tid()
    out[i] = wp.sin(x[i]) + wp.cos(x[i])


def test_powers_of_float64_take_constants_from_memory():
    """40 products, fused or not, a vector; of constants, few wait in registers."""
    code = main_body(prepare(powers.specialize()), MACHINES["v3"])
    vectors = code.width // 4
    assert code.count(r"vf?n?m(add|sub|ul)\d*pd") <= 44 * vectors
    assert code.count(r"vdivpd") == vectors
    assert code.count(r"v(p?broadcast|movap)\w+", "chunk", "mostly") <= 22 * vectors
    from_memory = [o for _, block in code.blocks for name, o in block if "%rip" in o and "broadcast" not in name]
    assert len(from_memory) >= 20 * vectors


@pytest.mark.parametrize("kernel", [powers, repeated_powers])
@pytest.mark.parametrize("level", list(MACHINES))
def test_constants_are_variables_only_where_registers_are_few(kernel, level):
    """And there are no loops, in which what is in registers stays there."""
    for width in (None, 1):
        text = compile_cpu(prepare(kernel.specialize()), width, machine=MACHINES[level]).text
        assert ("private global" in text) == (kernel is powers and level in ("v2", "v3") and width is None)


@both
def test_sine_and_cosine_of_one_angle_share_their_polynomials(level):
    one, two = (
        main_body(prepare(kernel.specialize()), MACHINES[level]).count("vf.*pd") for kernel in (sines, iterations)
    )
    assert two <= 1.1 * one


@both
def test_the_adjoint_of_a_stencil_adds_vectors(level):
    """Sums above and below, loaded and stored in two registers each, and one for the three neighbours of a row.

    Atomics only where a piece has neighbours.
    """
    code = main_body(prepare(adjoint(stencil.specialize(), [0]).kernel), MACHINES[level])
    own = [[name for name, _ in block] for label, block in code.blocks if label.startswith("own")]
    assert len(own) == 2
    for names in own:
        assert names.count("vaddps") == code.width // LANES[level] == 2
        assert names.count("vmovups") == 2
        assert len(names) <= 8  # a jump, and what was kept in memory meanwhile
    row = [[name for name, _ in block] for label, block in code.blocks if label.startswith("continued")]
    assert sum(names.count("vmovups") for names in row) == 2  # stores
    assert sum(map(len, row)) <= 40
    labels = ("inside", "own", "updated", "together", "continued", "summed")
    assert code.count("lock|call.*", *labels) == 0
    assert len(code.names(*labels)) <= 5 * 30
