"""Runs one of Warp's example programs, on Warp or here, and keeps what it computes: `warp_program.py NAME PACKAGE OUT
[--graphs]`.

`warp_program.py PACKAGE OUT` runs those with finite elements; `warp_program.py --record` does on Warp, for the tests.

The programs are read from the wheel of Warp that is installed. For jaxwarp nothing in them changes but the imports:
`import warp` becomes `import jaxwarp`, and what is no part of the language (the renderer, helpers of Warp's tests) is
an empty module. Their `Example`s are made and stepped as their last lines do.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.util
import io
import json
import re
import runpy
import sys
import traceback
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

Results = dict[str, Any]


def example(steps: int, *names: str, method: str = "step", **options: Any) -> Callable[[Any], Results]:
    """Makes the `Example` of a program, steps it, and gives its arrays of these names."""

    def run(program: Any) -> Results:
        with program.wp.ScopedDevice("cpu"):
            made = program.Example(**options)
            for _ in range(steps):
                getattr(made, method)()
        found = {name: getattr(made, name) for name in names}
        return {n: v.detach().numpy() if hasattr(v, "detach") else v.numpy() for n, v in found.items()}

    return run


def printed(call: Callable[[Any], object]) -> Callable[[Any], Results]:
    """Gives the numbers that a program prints."""

    def run(program: Any) -> Results:
        with contextlib.redirect_stdout(io.StringIO()) as text:
            call(program)
        numbers = re.findall(r"(?<![\w.])-?\d+\.?\d*(?:e[-+]?\d+)?", text.getvalue())
        assert numbers
        return {"printed": np.array([float(n) for n in numbers])}

    return run


def script(*arguments: str) -> Callable[[Any], Results]:
    """Runs a program as a script, which compares what it computes with NumPy, and gives the numbers that it prints."""

    def run(program: Any) -> object:
        before, sys.argv = sys.argv, [program.__file__, *arguments]
        try:
            return runpy.run_path(program.__file__, run_name="__main__")
        finally:
            sys.argv = before

    return printed(run)


def cloth(program: Any) -> Results:
    """A square of 8 by 8 particles with springs between neighbours, one corner of it held."""
    side = 8
    points = np.array([(x, 0.0, y) for y in range(side) for x in range(side)], np.float32)
    pairs = [(i, i + 1) for i in range(side * side) if (i + 1) % side]
    pairs += [(i, i + side) for i in range(side * (side - 1))]
    count = len(pairs)
    weights = np.ones(side * side, np.float32)
    weights[0] = 0.0
    made = types.SimpleNamespace(
        positions=points, inv_masses=weights, num_particles=side * side, num_springs=count,
        spring_indices=np.array(pairs, np.int32).flatten(), spring_lengths=np.full(count, 0.9, np.float32),
        spring_stiffness=np.full(count, 100.0, np.float32), spring_damping=np.full(count, 0.5, np.float32),
    )  # fmt: skip
    return {"positions": np.array(program.WpIntegrator(made, "cpu").simulate(1.0 / 60.0, 32))}


def diffray(program: Any) -> Results:
    """Turns a mesh until its picture is that of another one, as the program does.

    How far it gets is not compared: where no edges pass, our gradient is that of finite differences, and Warp's is not.
    """
    losses = []
    with program.wp.ScopedDevice("cpu"):
        wanted = program.Example(height=32)
        wanted.ray_cast()
        made = program.Example(height=32, train_iters=6, rot_array=[0.0, 0.25881905, 0.0, 0.96592583])
        made.optimizer.lr = 1e-4
        program.wp.copy(made.target_pixels, wanted.pixels)
        for _ in range(6):
            made.step()
            difference = made.pixels.numpy() - wanted.pixels.numpy()
            losses.append((np.sqrt(1.0 + difference**2) - 1.0).sum())
    return {"target": wanted.pixels.numpy(), "loss": np.array(losses[:1]), "fell": np.array([losses[-1] < losses[0]])}


def isosurface(program: Any) -> Results:
    """The vertices, and what the triangles enclose: cells may be cut into other triangles."""
    with program.wp.ScopedDevice("cpu"):
        made = program.Example(stage_path=None)
        made.step()
    points, faces = made.iso.verts.numpy(), made.iso.indices.numpy().reshape(-1, 3)
    a, b, c = (points[faces[:, k]].astype(np.float64) for k in range(3))
    area = np.linalg.norm(np.cross(b - a, c - a), axis=1).sum() / 2
    return {"verts": points, "count": np.array([len(faces)]), "area": np.array([area]),
            "volume": np.array([np.einsum("ij,ij->", a, np.cross(b, c)) / 6])}  # fmt: skip


def checkpointed(program: Any) -> Results:
    """Six steps in segments, of which the loss and its derivative by the first velocities are taken."""
    with program.wp.ScopedDevice("cpu"):
        made = program.Example(sim_steps=6, pressure_iterations=4)
        made.forward()
        made.backward()
    return {"loss": made.loss.numpy(), "gradient": made.vx_arrays[0].grad.numpy()}


def mcgp(program: Any) -> Results:
    """Walks on spheres in a slice of a coarse mesh."""
    with program.wp.ScopedDevice("cpu"):
        made = program.Example(program.SEED, height=16, slices=3, sphere_resolution=8)
        made.render(1)
    return {"pixels": made.pixels.numpy()}


def launches(program: Any) -> Results:
    """It measures; what it says is that all kinds of arguments can be launched."""
    return {"devices": np.array([str(device) for device in program.devices])}


# The share of numbers that may differ more: of rays and particles that just hit a surface on one, and just miss it on
# the other; of particles that have met others, where sums are in another order.
EDGES = {
    "core/example_raymarch": 0.002,
    "core/example_mesh": 0.01,
    "core/example_sph": 0.01,
    "core/example_dem": 0.002,
    "core/example_nvdb": 0.001,
}

# Program -> what to do with it, and the relative error that is allowed of its results.
PROGRAMS: dict[str, tuple[Callable[[Any], Results], float]] = {
    "core/example_fluid": (example(2, "rho0", "u0"), 1e-3),
    "core/example_fdtd_3d": (example(12, "e_x", "h_y"), 1e-3),
    "core/example_graph_capture": (example(2, "pixel_values"), 1e-4),
    "core/example_wave": (example(2, "sim_verts", stage_path=None), 1e-4),
    "core/example_raymarch": (example(1, "pixels", method="render", height=64, width=128), 1e-3),
    "core/example_spin_lock": (printed(lambda program: program.test_spinlock("cpu")), 0.0),
    "core/example_torch": (example(5, "xy", headless=True), 1e-4),
    "interop/example_jax_callable": (printed(lambda program: program.main()), 0.0),
    "interop/example_jax_kernel": (printed(lambda program: program.main()), 1e-6),
    "benchmarks/benchmark_cloth_warp": (cloth, 1e-4),
    "benchmarks/benchmark_jax_ffi_graph": (printed(lambda p: p.example1(p.JaxCallableGraphMode.JAX)), 0.0),
    "benchmarks/benchmark_launches": (launches, 0.0),
    "core/example_raycast": (example(1, "pixels", method="render", height=64, width=64), 1e-3),
    "core/example_mesh": (example(120, "positions", "velocities", stage_path=None), 1e-3),
    "core/example_sph": (example(1, "x", "v", stage_path=None), 1e-3),
    "core/example_nvdb": (example(100, "positions", "velocities", stage_path=None), 1e-3),
    "core/example_dem": (example(1, "x", "v", stage_path=None), 1e-3),
    "optim/example_diffray": (diffray, 1e-3),
    "optim/example_particle_repulsion": (example(1, "positions"), 1e-3),
    "optim/example_fluid_checkpoint": (checkpointed, 1e-3),
    "optim/example_fluid_checkpoint_custom_backward": (checkpointed, 1e-3),
    "optim/example_navier_stokes_perturbation": (
        example(1, "loss", "delta_omega", spin_up_steps=2, lead_steps=2),
        1e-3,
    ),
    "core/example_fft_poisson_navier_stokes_2d": (example(2, "omega_curr", "psi"), 1e-3),
    "core/example_mesh_intersect": (example(1, "array_result", stage_path=None), 0.0),
    "core/example_sample_mesh": (example(2, "points", stage_path=None), 1e-4),
    "geometry/example_isosurface": (isosurface, 1e-3),
    "tile/example_tile_matmul": (script("--device", "cpu"), 1e-4),
    "tile/example_tile_cholesky": (script("--device", "cpu"), 1e-4),
    "tile/example_tile_block_cholesky": (script("--device", "cpu", "-N", "3"), 1e-3),
    "tile/example_tile_mcgp": (mcgp, 1e-3),
    "tile/example_tile_nbody": (example(2, "pos_array_0", "vel_array", headless=True, num_bodies=256), 1e-3),
}


# Programs that capture what a tape records.
GRAPHS = tuple(name for name in PROGRAMS if name.startswith("optim/") and name != "optim/example_particle_repulsion")


def fields(steps: int, *names: str, **options: Any) -> Callable[[Any], Results]:
    """Steps an `Example` with finite elements, and gives what tells its fields apart: for each, how many values there
    are, their mean, root mean square and largest magnitude, which do not depend on the order of nodes."""

    def run(program: Any) -> Results:
        with program.wp.ScopedDevice("cpu"):
            made = program.Example(**options)
            for _ in range(steps):
                made.step()
        values = {n: getattr(made, n).dof_values.numpy().astype(np.float64) for n in names}
        return {n: np.array([v.size, v.mean(), np.sqrt((v**2).mean()), abs(v).max()]) for n, v in values.items()}

    return run


def particles(steps: int, **options: Any) -> Callable[[Any], Results]:
    """Steps an `Example` of a fluid of particles: their positions and velocities, which are in a given order."""

    def run(program: Any) -> Results:
        with program.wp.ScopedDevice("cpu"):
            made = program.Example(**options)
            for _ in range(steps):
                made.step()
        state = made.state_0
        found = {"q": state.particle_q.numpy(), "qd": state.particle_qd.numpy()}
        chosen = np.cos(np.arange(len(found["q"])))
        return {n: np.array([*v.mean(0), *(chosen @ v), abs(v).max()]) for n, v in found.items()}

    return run


def cantilever(program: Any) -> Results:
    """The compliance of a beam, its volume, and their derivatives by the density of each cell."""
    options = types.SimpleNamespace(device="cpu", nx=8, ny=4, nz=2, headless=True, max_evals=1)
    with program.wp.ScopedDevice("cpu"):
        made = program.Example(options)
        found = made.evaluate(made.initial_x)
    values = [np.asarray(v, np.float64).reshape(-1) for v in found]
    return {f"value {n}": np.array([v @ np.cos(np.arange(v.size)), v.sum()]) for n, v in enumerate(values)}


# Compared with what Warp computed when `warp_program.py --record` ran: Warp compiles each of them for 5 to 20 seconds.
FEM_PROGRAMS: dict[str, Callable[[Any], Results]] = {
    "fem/example_diffusion": fields(1, "_scalar_field", resolution=8, quiet=True, fp64=True),
    "fem/example_diffusion mesh=tri": fields(1, "_scalar_field", resolution=8, quiet=True, fp64=True, mesh="tri"),
    "fem/example_diffusion_3d": fields(1, "_scalar_field", resolution=4, quiet=True),
    "fem/example_deformed_geometry": fields(1, "_scalar_field", resolution=8, quiet=True, mesh="quad",
                                            serendipity=True),
    "fem/example_stokes": fields(1, "_u_field", "_p_field", resolution=6, quiet=True),
    "fem/example_convection_diffusion": fields(3, "_phi_field", resolution=10, quiet=True),
    "fem/example_convection_diffusion_dg": fields(3, "_phi_field", resolution=10, quiet=True),
    "fem/example_burgers": fields(3, "velocity_field", resolution=10, quiet=True),
    "fem/example_navier_stokes": fields(2, "_u_field", resolution=6, quiet=True),
    "fem/example_navier_stokes mesh=quad": fields(2, "_u_field", resolution=6, quiet=True, mesh="quad"),
    "fem/example_taylor_green": fields(1, "_u_field", "_p_field", resolution=6, quiet=True),
    "fem/example_shallow_water": fields(2, "state_field", resolution=8, quiet=True),
    "fem/example_kelvin_helmholtz": fields(2, "state_field", resolution=8),
    "fem/example_mixed_elasticity": fields(1, "_u_field", resolution=4, quiet=True),
    "fem/example_distortion_energy": fields(1, "_u_field", resolution=4, quiet=True),
    "fem/example_nonconforming_contact": fields(1, "_u1_field", "_u2_field", resolution=4),
    "fem/example_darcy_ls_optimization": fields(2, "_p_field", "_level_set_field", resolution=6, quiet=True),
    "fem/example_elastic_shape_optimization": fields(1, "_u_field", resolution=5, quiet=True),
    "fem/example_cantilever_topology_optimization": cantilever,
    "fem/example_stokes_transfer": fields(1, "_u_field", "_p_field", resolution=12, quiet=True),
    "fem/example_apic_fluid": particles(2, voxel_size=2.0, quiet=True, stage_path=None),
    "fem/example_diffusion_3d mesh=nano": fields(1, "_scalar_field", resolution=4, quiet=True, mesh="nano"),
}  # fmt: skip
RECORDED = Path(__file__).with_name("fem") / "programs.json"


def bumpy_sphere() -> tuple[np.ndarray, np.ndarray]:
    """Points and corners of the faces of a closed mesh, as large as the rabbit of Warp's examples."""
    rows, columns = 24, 48
    polar, around = np.meshgrid(
        np.pi * np.arange(1, rows) / rows, 2 * np.pi * np.arange(columns) / columns, indexing="ij"
    )
    radius = 0.6 + 0.05 * np.sin(5 * polar) * np.cos(4 * around)
    ring = radius[..., None] * np.stack(
        [np.sin(polar) * np.cos(around), np.cos(polar), np.sin(polar) * np.sin(around)], axis=-1
    )
    points = np.concatenate([[[0, 0.6, 0]], ring.reshape(-1, 3), [[0, -0.6, 0]]])
    points[:, 1] += 0.8
    place = 1 + np.arange((rows - 1) * columns).reshape(rows - 1, columns)
    a, b = place[:-1], place[1:]
    across = np.roll(a, -1, 1), np.roll(b, -1, 1)
    last = len(points) - 1
    caps = [np.stack([0 * place[0], np.roll(place[0], -1), place[0]], -1),
            np.stack([last + 0 * place[-1], place[-1], np.roll(place[-1], -1)], -1)]  # fmt: skip
    sides = [np.stack([a, across[0], b], -1), np.stack([across[0], across[1], b], -1)]
    faces = np.concatenate([f.reshape(-1, 3) for f in (*caps, *sides)])
    return points.astype(np.float32), faces.astype(np.int32).flatten()


def stand_ins(package: str) -> dict[str, types.ModuleType]:
    """Modules that programs import and that are no part of the language: the renderer, Warp's pictures and meshes, and
    the library that reads these, which gives the same mesh for every file."""
    points, corners = bumpy_sphere()
    prim = types.SimpleNamespace(
        GetPointsAttr=lambda: types.SimpleNamespace(Get=lambda: points),
        GetFaceVertexIndicesAttr=lambda: types.SimpleNamespace(Get=lambda: corners),
    )
    reader: Any = types.ModuleType("pxr")
    stage = types.SimpleNamespace(GetPrimAtPath=lambda _: prim)
    reader.Usd = types.SimpleNamespace(Stage=types.SimpleNamespace(Open=lambda _: stage))
    reader.UsdGeom = types.SimpleNamespace(Mesh=lambda found: found)
    examples: Any = types.ModuleType(f"{package}.examples")
    examples.get_asset_directory = lambda: str(warp_folder() / "examples" / "assets")
    if package == "warp":
        return {"pxr": reader}
    importlib.import_module(package).examples = examples
    examples.__path__ = []
    examples.fem = types.ModuleType(f"{package}.examples.fem")
    examples.fem.__path__ = []
    render: Any = types.ModuleType(f"{package}.render")
    render.UsdRenderer = None
    return {"pxr": reader, examples.__name__: examples, examples.fem.__name__: examples.fem, render.__name__: render}


class Shared(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds what programs import of other ones, `examples.fem.utils`, and gives it the imports of a package."""

    def __init__(self, package: str, folder: Path):
        self.package, self.folder = package, folder

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> Any:
        name = fullname.removeprefix(f"{self.package}.examples.").replace(".", "/")
        text = source_of(name) if fullname.startswith(f"{self.package}.examples.fem.") else None
        if text is None:
            return None
        copy = self.folder / f"{name.replace('/', '_')}_shared.py"
        copy.write_text(for_package(text, self.package))
        return importlib.util.spec_from_file_location(fullname, copy)


def warp_folder() -> Path:
    """Of the wheel of Warp that is installed, or one that is not there."""
    found = importlib.util.find_spec("warp")
    folders = found.submodule_search_locations if found is not None else None
    return Path(folders[0]) if folders else Path("warp is not installed")


def source_of(name: str) -> str | None:
    """The text of a program, from the wheel of Warp that is installed; None: there is none."""
    path = warp_folder() / "examples" / f"{name}.py"
    return path.read_text() if path.exists() else None


def for_package(text: str, package: str, has_graphs: bool = False) -> str:
    """The program with its imports of a package, and without the loops at its end that only measure.

    `has_graphs`: it captures its steps on a CPU, as it does on GPUs; Warp's has no part in that.
    """
    text = text.replace("num_launches = 100000", "num_launches = 10").split("\n# run all\n")[0]
    text = text.replace("from warp.tests.unittest_utils import *", "import numpy as np")
    if package == "warp":
        return text
    if has_graphs:
        text = text.replace("use_cuda_graph = wp.get_device().is_cuda", "use_cuda_graph = True")
    text = re.sub(r"^import warp\.(examples|optim)$", "import jaxwarp as warp", text, flags=re.MULTILINE)
    text = re.sub(r"^(\s*)import warp as wp$", rf"\1import {package} as wp", text, flags=re.MULTILINE)
    return re.sub(r"^(\s*)(import|from) warp\b", rf"\1\2 {package}", text, flags=re.MULTILINE)


def load(name: str, package: str, path: Path, has_graphs: bool = False) -> Any:
    """The program as a module, with its imports of a package; `path` is where its text is written."""
    sys.modules.update(stand_ins(package))
    if package != "warp":
        sys.meta_path.append(Shared(package, path.parent))
    text = source_of(name)
    assert text is not None
    path.write_text(for_package(text, package, has_graphs))
    spec = importlib.util.spec_from_file_location(path.stem.replace(".", "_"), path)
    assert spec is not None
    assert spec.loader is not None
    program = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = program
    importlib.import_module(package).config.log_level = 30  # of the warnings: Warp prints what it compiles
    spec.loader.exec_module(program)
    return program


def main(name: str, package: str, out: str, *options: str) -> None:
    """Runs the program, and writes its results."""
    program = load(name, package, Path(out).with_suffix(".py"), has_graphs="--graphs" in options)
    np.savez(out, **PROGRAMS[name][0](program))


def with_elements(package: str, out: str) -> None:
    """Runs the programs with finite elements, and writes the results of all, or why a program has none."""
    found: dict[str, Any] = {}
    for name, run in FEM_PROGRAMS.items():
        try:
            results = run(load(name.split()[0], package, Path(out).with_suffix(".py")))
            found[name] = {n: [float(f"{x:.8g}") for x in v] for n, v in results.items()}
        except Exception as error:
            if package == "warp":
                raise
            found[name] = "".join(traceback.format_exception(error))
    Path(out).write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    if sys.argv[1:] == ["--record"]:
        with_elements("warp", str(RECORDED))
        RECORDED.with_suffix(".py").unlink()
    elif len(sys.argv) == 3:
        with_elements(*sys.argv[1:])
    else:
        main(*sys.argv[1:])
