"""Launches that are timed: a kernel, the same by hand and in JAX, on data of two sizes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import derivatives_kernels
import jax
import jax.numpy as jnp
import numpy as np
from sass import programs

import jaxwarp as wp
from gpu_report.by_hand import Place, over

Shape = tuple[int, ...]
_SCALARS = {"a": 1.7, "omega": 1.6, "c": 0.1, "eps": 0.01}
_MUCH = 1 << 20  # elements
_MOST_BLOCKS_OF_SUMS = 132 * 8  # eight for each of an H100's multiprocessors


@dataclass(frozen=True)
class Case:
    """A launch.

    Attributes:
        shapes: of the kernel's parameters by name, () of scalars; the last is the output.
        function: of JAX, from the inputs to the output.
        bytes: that have to be read and written.
        flops: where these are more than the bytes.
        twin: what it is called by hand; extents: the integers that the twin takes; place: of its launch.
        clears: whether the twin adds to its outputs.
        is_natural: whether somebody would write the function so, and it is timed.
        wrt: the inputs whose gradient it is; none: it is no gradient.
        tolerance: ||found - expected|| / ||expected|| on little data, against float64.
    """

    kernel: wp.Kernel
    shapes: dict[str, Shape]
    grid: Shape
    function: Callable[..., Any]
    bytes: int
    flops: int = 0
    twin: str = ""
    extents: dict[str, int] = field(default_factory=dict)
    place: Place | None = None
    clears: bool = False
    is_natural: bool = False
    wrt: tuple[str, ...] = ()
    tolerance: float = 2e-6

    @property
    def inputs(self) -> dict[str, Shape]:
        """By name; of a gradient the output's cotangent is one, `ct`."""
        *names, output = self.shapes
        found = {name: self.shapes[name] for name in names}
        return found | {"ct": self.shapes[output]} if self.wrt else found

    @property
    def outputs(self) -> dict[str, Shape]:
        if self.wrt:
            return {f"d{name}": self.shapes[name] for name in self.wrt}
        return dict([list(self.shapes.items())[-1]])

    @property
    def size(self) -> int:
        """Bytes of its arrays."""
        return 4 * sum(map(math.prod, [*self.inputs.values(), *self.outputs.values()]))

    @property
    def in_jax(self) -> Callable[..., tuple[Any, ...]]:
        return self._derived(self.function)

    def ours(self, block: int | None = None, **options: Any) -> Callable[..., tuple[Any, ...]]:
        """By the kernel, as a function of the inputs; `options` are those of `@wp.kernel`."""
        kernel = with_options(self.kernel, **options) if options else self.kernel
        output = list(self.shapes.values())[-1]
        call = wp.jax_kernel(kernel, launch_dims=self.grid, output_dims=output, block_dim=block)
        return self._derived(lambda *inputs: call(*inputs)[0])

    def _derived(self, function: Callable[..., Any]) -> Callable[..., tuple[Any, ...]]:
        at = [list(self.inputs).index(name) for name in self.wrt]

        def gradient(*inputs: Any) -> tuple[Any, ...]:
            def of_chosen(*chosen: Any) -> Any:
                given = list(inputs[:-1])
                for k, value in zip(at, chosen, strict=True):
                    given[k] = value
                return function(*given)

            return jax.vjp(of_chosen, *(inputs[k] for k in at))[1](inputs[-1])

        return gradient if self.wrt else lambda *inputs: (function(*inputs),)

    def data(self) -> dict[str, jax.Array]:
        """Inputs, at random."""
        return {n: _random(k, n, shape) for k, (n, shape) in enumerate(self.inputs.items())}


def with_options(kernel: wp.Kernel, **options: Any) -> wp.Kernel:
    """The same kernel with more options of `@wp.kernel`."""
    has = {name: value for name, value in kernel.options.items() if name != "fma"}  # not one of `@wp.kernel`
    return wp.Kernel(kernel.func, options={**has, **options})


def zeros(shape: Shape) -> jax.Array:
    """Memory to write to."""
    return jnp.zeros(shape) if math.prod(shape) >= _MUCH else jnp.asarray(np.zeros(shape, np.float32))


def _random(number: int, name: str, shape: Shape) -> jax.Array:
    """Much is made on the device."""
    if not shape:
        return jnp.float32(_SCALARS[name])
    if math.prod(shape) < _MUCH:
        rng = np.random.default_rng(number)
        if name == "index":
            return jnp.asarray(rng.integers(0, shape[0], shape, np.int32))
        noise = rng.standard_normal(shape, np.float32)
        return jnp.asarray(_near_rest(noise, shape) if name == "f" else noise)
    key = jax.random.key(number)
    if name == "index":
        return jax.random.randint(key, shape, 0, shape[0], jnp.int32)
    if name == "f":
        return jax.jit(lambda key: _near_rest(jax.random.normal(key, shape), shape))(key)
    return jax.random.normal(key, shape)


def _near_rest(noise: Any, shape: Shape) -> Any:
    """Populations of a lattice."""
    weight = np.array(programs.W9 if shape[0] == 9 else programs.W19, np.float32)
    return weight.reshape(-1, *[1] * (len(shape) - 1)) * (1 + 0.05 * noise)


def saxpy(n: int) -> Case:
    shapes = {"a": (), "x": (n,), "y": (n,), "out": (n,)}
    return _flat("saxpy", n, shapes, lambda a, x, y: a * x + y, 12 * n)


def vec3(n: int) -> Case:
    def function(x: Any, y: Any) -> Any:
        return jnp.cross(x / jnp.linalg.norm(x, axis=1, keepdims=True), y)

    return _flat("vec3", n, {"x": (n, 3), "y": (n, 3), "out": (n, 3)}, function, 36 * n)


def vec4(n: int) -> Case:
    return _flat("vec4", n, {"x": (n, 4), "y": (n, 4), "out": (n, 4)}, lambda x, y: x * 2 + y, 48 * n)


def gather(n: int) -> Case:
    return _flat("gather", n, {"table": (n,), "index": (n,), "out": (n,)}, lambda table, index: table[index], 12 * n)


def _flat(name: str, n: int, shapes: dict[str, Shape], function: Callable[..., Any], moved: int) -> Case:
    kernel, natural = getattr(programs, name), True
    return Case(kernel, shapes, (n,), function, moved, 0, name, {"n": n}, over((n,)), is_natural=natural)


def lattice(directions: Any, weights: Any) -> Callable[..., Any]:
    """A step of lattice Boltzmann; `directions` (q, axes), in the order of the axes."""
    c, w = np.array(directions), np.array(weights)
    q, axes = len(c), c.shape[1]

    def along(values: Any) -> Any:
        """One for each direction, to go with (q, ...)."""
        return values.reshape(q, *[1] * axes)

    def function(f: Any, omega: Any) -> Any:
        each, weight = jnp.asarray(c, f.dtype), along(jnp.asarray(w, f.dtype))
        here = np.indices(f.shape[1:])
        v = f[(along(np.arange(q)), *((here[a] - along(c[:, a])) % f.shape[1 + a] for a in range(axes)))]
        rho = v.sum(0)
        u = jnp.tensordot(each.T, v, 1) / rho
        cu = jnp.tensordot(each, u, 1)
        return v + omega * (weight * rho * (1 - 1.5 * (u * u).sum(0) + 3 * cu + 4.5 * cu * cu) - v)

    return function


def lbm2(ny: int, nx: int) -> Case:
    function = lattice(list(zip(programs.CY, programs.CX, strict=True)), programs.W9)
    shapes = {"f": (9, ny, nx), "omega": (), "g": (9, ny, nx)}
    twin = {"twin": "lbm2", "extents": {"ny": ny, "nx": nx}, "place": over((ny, nx))}
    return Case(programs.lbm2, shapes, (ny, nx), function, 72 * ny * nx, **twin)


def lbm3(nz: int, ny: int, nx: int) -> Case:
    grid, cells = (nz, ny, nx), nz * ny * nx
    function = lattice([(z, y, x) for x, y, z in programs.C19], programs.W19)
    twin = {"twin": "lbm3", "extents": dict(zip(("nz", "ny", "nx"), grid, strict=True)), "place": over(grid)}
    return Case(programs.lbm3, {"f": (19, *grid), "omega": (), "g": (19, *grid)}, grid, function, 152 * cells, **twin)


def lbm3_large(*grid: int) -> Case:
    """For more elements than 31 bits count."""
    return replace(lbm3(*grid), twin="lbm3_large")


def stencil(ni: int, nj: int, nk: int) -> Case:
    def function(u: Any, c: Any) -> Any:
        inner = u[1:-1, 1:-1, 1:-1]
        around = u[:-2, 1:-1, 1:-1] + u[2:, 1:-1, 1:-1] + u[1:-1, :-2, 1:-1] + u[1:-1, 2:, 1:-1]
        around = around + u[1:-1, 1:-1, :-2] + u[1:-1, 1:-1, 2:]
        return jnp.pad(inner + c * (around - 6 * inner), 1)

    grid = (ni, nj, nk)
    twin = {"twin": "stencil", "extents": {"ni": ni, "nj": nj, "nk": nk}, "place": over(grid, (32, 8))}
    shapes = {"u": grid, "c": (), "out": grid}
    return Case(programs.stencil, shapes, grid, function, 8 * math.prod(grid), **twin, is_natural=True)


def rowsum(rows: int, columns: int) -> Case:
    twin = {"twin": "rowsum", "extents": {"rows": rows, "cols": columns}, "place": Place((rows, 1, 1))}
    shapes = {"x": (rows, columns), "s": (rows,)}
    moved = 4 * rows * columns
    return Case(
        programs.rowsum, shapes, (rows, columns), lambda x: x.sum(1), moved, **twin, is_natural=True, tolerance=1e-4
    )


def total(n: int) -> Case:
    twin = {"twin": "total", "extents": {"n": n}, "place": _few_blocks(n // 4), "clears": True}
    # Of either sign: little is left of the sum.
    shapes = {"x": (n,), "s": (1,)}
    return Case(programs.total, shapes, (n,), lambda x: x.sum()[None], 4 * n, **twin, is_natural=True, tolerance=1e-4)


def _few_blocks(threads: int) -> Place:
    return Place((min(_MOST_BLOCKS_OF_SUMS, math.ceil(threads / 256)), 1, 1))


def nbody(n: int) -> Case:
    def function(pos: Any, mass: Any, eps: Any) -> Any:
        d = pos[None] - pos[:, None]
        return jnp.einsum("ijk,ij->ik", d, mass * ((d * d).sum(2) + eps) ** -1.5)

    shapes = {"pos": (n, 3), "mass": (n,), "eps": (), "acc": (n, 3)}
    kernel = with_options(programs.nbody, fast_math=True)
    twin = {"twin": "nbody", "extents": {"n": n}, "place": over((n,))}
    return Case(kernel, shapes, (n,), function, 28 * n, 20 * n * n, **twin, tolerance=1e-4)


def matmul(m: int, n: int, k: int) -> Case:
    def function(a: Any, b: Any) -> Any:
        return jnp.matmul(a, b, precision=jax.lax.Precision.HIGHEST)

    shapes = {"a": (m, k), "b": (k, n), "c": (m, n)}
    twin = {"twin": "matmul", "extents": {"m": m, "n": n, "k": k}, "place": over((m, n), (32, 8))}
    moved = 4 * (m * k + k * n + m * n)
    return Case(programs.matmul, shapes, (m, n), function, moved, 2 * m * n * k, **twin, is_natural=True)


def saxpy_gradient(n: int) -> Case:
    """By the number and by x."""
    twin = {"twin": "saxpy_gradient", "place": _few_blocks(n), "clears": True}
    return replace(saxpy(n), wrt=("a", "x"), bytes=12 * n, tolerance=1e-4, **twin)


def stencil_gradient(*grid: int) -> Case:
    return replace(stencil(*grid), wrt=("u",), twin="stencil_gradient")


def lbm2_gradient(ny: int, nx: int) -> Case:
    return replace(lbm2(ny, nx), wrt=("f",), bytes=108 * ny * nx, twin="lbm2_gradient", tolerance=1e-5)


def lbm3_gradient(*grid: int) -> Case:
    forward = lbm3(*grid)
    return replace(forward, wrt=("f",), bytes=forward.bytes // 2 * 3, twin="", tolerance=1e-5)


def number_gradient(n: int) -> Case:
    """By a number that all threads read."""
    shapes = {"a": (), "x": (n,), "y": (n,)}
    kernel = derivatives_kernels.shared_number
    function = lambda a, x: x / (1 + a * x * x)  # noqa: E731
    return Case(kernel, shapes, (n,), function, 8 * n, wrt=("a",), is_natural=True, tolerance=1e-4)


def weights_gradient(n: int) -> Case:
    """By 16 weights that all threads read."""

    def function(w: Any, x: Any) -> Any:
        return sum(w[k] * x[k : n + k] for k in range(16))

    shapes = {"w": (16,), "x": (n + 15,), "y": (n,)}
    kernel = derivatives_kernels.shared_weights
    return Case(kernel, shapes, (n,), function, 8 * n, wrt=("w",), is_natural=True, tolerance=1e-4)


@dataclass(frozen=True)
class Sized:
    """A case on much data, to be timed, and on little, to be compared. `of` is the case whose gradient it is."""

    make: Callable[..., Case]
    large: tuple[int, ...]
    small: tuple[int, ...]
    of: str = ""


_LITTLE = (5, 6, 7)
CASES = {
    "saxpy": Sized(saxpy, (100_000_000,), (1000,)),
    "lbm2": Sized(lbm2, (2048, 8192), (13, 21)),
    "lbm3": Sized(lbm3, (256, 256, 256), _LITTLE),
    "stencil": Sized(stencil, (512, 512, 512), _LITTLE),
    "rowsum": Sized(rowsum, (16_384, 16_384), (2, 64)),
    "total": Sized(total, (1 << 28,), (2048,)),
    "saxpy gradient": Sized(saxpy_gradient, (100_000_000,), (300,), "saxpy"),
    "lbm2 gradient": Sized(lbm2_gradient, (2048, 8192), (13, 21), "lbm2"),
    "stencil gradient": Sized(stencil_gradient, (512, 512, 512), _LITTLE, "stencil"),
    "vec3": Sized(vec3, (30_000_000,), (1000,)),
    "vec4": Sized(vec4, (25_000_000,), (1000,)),
    "gather": Sized(gather, (1 << 26,), (1000,)),
    "nbody": Sized(nbody, (65_536,), (300,)),
    "matmul": Sized(matmul, (4096, 4096, 4096), (20, 24, 32)),
    "number gradient": Sized(number_gradient, (100_000_000,), (1000,)),
    "weights gradient": Sized(weights_gradient, (100_000_000,), (1000,)),
    "lbm3 gradient": Sized(lbm3_gradient, (256, 256, 256), _LITTLE, "lbm3"),
    "lbm3 large": Sized(lbm3_large, (512, 512, 512), _LITTLE),
}
