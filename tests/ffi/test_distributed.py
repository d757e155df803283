"""Programs on several devices: in one process, under a real mpirun, and out of core."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh
from PIL import Image

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
sys.path.insert(0, str(EXAMPLES))

import distributed_wind_tunnel  # noqa: E402
import out_of_core  # noqa: E402
from windtunnel import TunnelError, flow, partition  # noqa: E402

MPIRUN = shutil.which("mpirun")
needs_mpirun = pytest.mark.skipif(MPIRUN is None, reason="needs mpirun (Open MPI) on the path")

# A process that hangs is what these tests are for; a slow machine is not.
TOO_LONG = 240


def environment() -> dict[str, str]:
    path = os.pathsep.join((str(ROOT), str(EXAMPLES)))
    as_root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    return {**os.environ, **as_root, "PYTHONPATH": path, "JAX_PLATFORMS": "cpu"}


def mpirun(count: int, program: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    assert MPIRUN is not None
    command = [MPIRUN, "--oversubscribe", "--bind-to", "none", "-np", str(count), sys.executable, program, *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=TOO_LONG, check=False)


@pytest.mark.parametrize("name", ["multiply", "matmul"])
def test_one_process(name):
    command = [sys.executable, EXAMPLES / f"distributed_{name}.py", "--devices", "8"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=TOO_LONG, check=False)
    assert done.returncode == 0, done.stderr
    assert "8 device(s)" in done.stdout


@needs_mpirun
@pytest.mark.parametrize("name", ["multiply", "matmul"])
def test_two_processes(name):
    done = mpirun(2, EXAMPLES / f"distributed_{name}.py")
    assert done.returncode == 0, done.stderr
    assert "2 device(s)" in done.stdout
    assert "largest difference from NumPy" in done.stdout


@needs_mpirun
@pytest.mark.parametrize("how", ["raises", "dies"])
def test_a_process_that_fails_stops_the_others(how):
    done = mpirun(2, ROOT / "tests" / "mpi" / "failing.py", how)
    assert done.returncode != 0
    if how == "raises":
        assert "process 1 of 2 failed:" in done.stderr
        assert "ValueError: step 3 went wrong" in done.stderr
    else:  # mpirun names the one that died, unless the other one has noticed it before and said so
        is_named = "rank 1" in done.stderr and "exited on signal 9" in done.stderr
        assert is_named or "process 0 of 2 failed:" in done.stderr


def scene(ny: int = 32, nx: int = 40) -> tuple[flow.Tunnel, np.ndarray]:
    """Bodies inside, at the roof and across a cut; populations out of balance."""
    rng = np.random.default_rng(5)
    solid = np.zeros((ny, nx), bool)
    solid[8:19, 12:18] = rng.random((11, 6)) < 0.7
    solid[0, 25:30] = True
    tunnel = flow.Tunnel(solid, solid, rng.uniform(0.02, 0.1, ny), viscosity=0.02, sponge=0.2)
    start = np.asarray(tunnel.start()) * rng.uniform(0.95, 1.05, (9, ny, nx))
    return tunnel, start.astype(np.float32)


@pytest.mark.parametrize("count", [1, 2, 4, 8])
def test_strips_give_the_flow_of_one_device(count):
    tunnel, start = scene()
    expected = tunnel.advance(jnp.asarray(start), 20)
    strips = partition.Strips(tunnel, Mesh(np.array(jax.devices()[:count]), "d"))
    np.testing.assert_array_equal(strips.advance(strips.distribute(start), 10), expected)


@needs_mpirun
def test_strips_in_processes(tmp_path):
    """Drag and lift are those of one process with as many devices, to the last bit."""
    small = ["--width", "120", "--height", "48", "--steps", "100"]
    options = ["--json", tmp_path / "4", "--out", tmp_path]
    assert mpirun(4, EXAMPLES / "distributed_wind_tunnel.py", *small, *options).returncode == 0
    with Image.open(tmp_path / "distributed_wind_tunnel.png") as picture:
        assert picture.size == (900, 360)
    options = distributed_wind_tunnel.parse(small)
    tunnel = distributed_wind_tunnel.make_tunnel(options)
    _, force, _ = tunnel.observe(tunnel.advance(tunnel.start(), 100))
    drag, lift = force / (0.5 * distributed_wind_tunnel.VELOCITY**2 * 24)
    found = json.loads((tmp_path / "4").read_text())
    assert (found["devices"], found["processes"]) == (4, 4)
    assert (found["drag"], found["lift"]) == (float(drag), float(lift))
    assert found["bytes_per_step"] == found["least_bytes_per_step"] == 3 * 6 * 120 * 4


def operands(program: str) -> dict[str, list[str]]:
    """For each instruction of a compiled program, those that it reads."""
    found = {}
    for line in program.splitlines():
        match = re.match(r"\s*(?:ROOT )?%?([\w.-]+) = \(?\w+\[.*? ([\w-]+)\((.*?)\)(?:,|$)", line)
        if match:
            found[match[1]] = [match[2], *re.findall(r"%([\w.-]+)", match[3])]
    return found


def reads(graph: dict[str, list[str]], name: str) -> set[str]:
    """The opcodes of all that an instruction depends on."""
    pending, seen = list(graph[name][1:]), set()
    while pending:
        if (n := pending.pop()) in graph and n not in seen:
            seen.add(n)
            pending += graph[n][1:]
    return {graph[n][0] for n in seen}


def test_the_inside_does_not_wait_for_the_neighbours():
    """In the compiled program, the step's first large launch depends on no permutation of that step; no copies."""
    tunnel, _ = scene()
    strips = partition.Strips(tunnel, Mesh(np.array(jax.devices()[:4]), "d"))
    program = strips.program()
    graph = operands(program)
    launches = [
        n for n, (opcode, *_) in graph.items() if opcode == "custom-call" and "jaxwarp_launch" in line_of(program, n)
    ]
    waiting = [n for n in launches if "collective-permute" in reads(graph, n)]
    free = [n for n in launches if n not in waiting]
    # Two steps an iteration: the second depends on the first, so only the first step's inside is free of everything.
    assert len(launches) == 4
    assert len(free) == 1
    assert free[0].startswith("stream_inside")
    inner = [n for n in waiting if n.startswith("stream_inside")]
    # The second step's inside reads the first step's edges, and no permutation besides.
    assert len(inner) == 1
    direct = [graph[o][0] for o in graph[inner[0]][1:] if o in graph]
    assert "collective-permute" not in direct
    assert not [line for line in program.splitlines() if " copy(" in line and "f32[9," in line]
    assert distributed_wind_tunnel.bytes_moved(program, 4) == strips.least_bytes() == 3 * 6 * 40 * 4


def line_of(program: str, name: str) -> str:
    return next(line for line in program.splitlines() if re.match(rf"\s*(?:ROOT )?%?{re.escape(name)} = ", line))


def test_strips_that_cannot_be():
    tunnel, _ = scene()
    with pytest.raises(TunnelError, match="32 rows cannot be cut into 5 equal strips of two or more"):
        partition.Strips(tunnel, Mesh(np.array(jax.devices()[:5]), "d"))


class Watched(out_of_core.OutOfCore):
    """Notes how many bytes the device holds."""

    peak = 0
    others: frozenset[int] = frozenset()

    def observe(self):
        arrays = sum(size for place, size in buffers().items() if place not in self.others)
        slab = next(self.slabs())
        launch = 9 * 4 * (slab.high - slab.low) * self.nx  # its second buffer
        self.peak = max(self.peak, arrays + launch)


def buffers() -> dict[int, int]:
    """Address and size of what arrays of this process hold; several objects may stand for one buffer."""
    singles = [x for x in jax.live_arrays() if len(x.sharding.device_set) == 1 and x.nbytes]
    return {x.unsafe_buffer_pointer(): x.nbytes for x in singles}


@pytest.mark.parametrize(("steps", "per_pass"), [(10, 4), (6, 1), (5, 5)])
def test_out_of_core(steps, per_pass):
    tunnel, start = scene(ny=60)
    expected = np.asarray(tunnel.advance(jnp.asarray(start), steps // 2 * 2))
    if steps % 2:
        expected = np.asarray(
            flow.step(
                expected, tunnel.cells, tunnel._inflow, tunnel.omega, launch_dims=(60, 40), output_dims=(9, 60, 40)
            )[0]
        )
    budget = 4 * 9 * 4 * 40 * (2 * per_pass + 9)
    program = Watched(tunnel, budget, per_pass)
    assert start.nbytes > budget // 4 * 2
    assert len(list(program.slabs())) > 5
    program.others = frozenset(buffers())
    kept = start.copy()
    np.testing.assert_array_equal(program.advance(start, steps), expected)
    np.testing.assert_array_equal(start, kept)
    assert budget / 2 < program.peak <= budget


def test_a_slab_takes_two_buffers():
    """What the budget reckons with: the slab is updated in place, with one buffer more."""
    tunnel, start = scene()
    arguments = (jnp.asarray(start), tunnel.cells, tunnel._inflow, tunnel.omega)
    memory = out_of_core.advance_slab.lower(*arguments, steps=8).compile().memory_analysis()
    assert memory.alias_size_in_bytes == start.nbytes
    assert memory.temp_size_in_bytes < 1.1 * start.nbytes + 8192


def test_a_budget_without_room():
    tunnel, _ = scene()
    with pytest.raises(TunnelError, match=r"a slab of 4 steps needs .* bytes on the device, and the budget is 1000"):
        out_of_core.OutOfCore(tunnel, 1000, 4)


def test_out_of_core_program(capsys, tmp_path):
    small = ["--width", "64", "--height", "96", "--steps", "6", "--steps-per-pass", "3", "--out", str(tmp_path)]
    small += ["--budget-mib", "0.3"]
    assert out_of_core.main(small) == 0
    assert "0.2 MiB of populations in" in capsys.readouterr().out
    assert out_of_core.main([*small, "--budget-mib", "0.001"]) == 2
