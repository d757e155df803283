"""Finds out where a cylinder stands, and how thick it is, from the wind behind it.

    python examples/wind_tunnel_inverse.py

A hidden cylinder stands in a wind tunnel. Of its flow only the velocities in a window behind it are known, at a few
moments. From a wrong guess of position and radius, gradient descent finds the cylinder whose wake agrees: the whole
simulation, hundreds of steps of one kernel, is differentiated by JAX, with `jax.checkpoint` around stretches of
`lax.scan`, so that it keeps one state per stretch and not one per step.

The obstacle is a solid fraction, smooth in its three parameters: a cell that is solid to a part s sends back that part
of the air that arrives.

Writes `wind_tunnel_inverse.png` (the true flow, the first guess, what was found, the error over the iterations) and
`wind_tunnel_inverse.gif` (the search) into --out.

Source of the obstacle: S. D. C. Walsh, H. Burwinkle, M. O. Saar, "A new partial-bounceback lattice-Boltzmann method for
fluid flow through heterogeneous media", Computers & Geosciences 35, 1186 (2009).
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from tqdm import tqdm
from windtunnel import TunnelError, lattice, render
from windtunnel.options import Parser

import jaxwarp as wp

Q = lattice.Q
EDGE = 0.7  # cells over which the obstacle's edge is smeared
LARGEST_STEP = 0.6  # cells, of a parameter in the first iterations
MARGIN = 3.0  # cells that the obstacle keeps from the walls


@wp.kernel
def step(
    f: wp.array3d[float],  # populations [9, ny, nx]
    solid: wp.array2d[float],  # solid fraction, 0 to 1
    wind: float,  # velocity at the left
    omega: float,  # relaxation rate
    g: wp.array3d[float],  # populations one step later
):
    """Streams, collides, and sends back. Joined above and below; the wind comes from the left, and leaves freely."""
    y, x = wp.tid()
    ny = f.shape[1]
    v = lattice.vec9()
    for q in range(wp.static(Q)):
        from_y = (y - wp.static(lattice.CY[q]) + ny) % ny
        from_x = wp.min(x - wp.static(lattice.CX[q]), f.shape[2] - 1)
        if from_x < 0:
            cu = 3.0 * float(wp.static(lattice.CX[q])) * wind
            v[q] = wp.static(lattice.WEIGHT[q]) * (1.0 + cu + 0.5 * cu * cu - 1.5 * wind * wind)
        else:
            v[q] = f[q, from_y, from_x]
    after = lattice.collide(v, omega)
    s = solid[y, x]
    for q in range(wp.static(Q)):
        g[q, y, x] = (1.0 - s) * after[q] + s * v[wp.static(lattice.OPPOSITE[q])]


@dataclass(frozen=True)
class Experiment:
    """A tunnel in which the wind blows past a cylinder.

    Attributes:
        ny, nx: cells across and along the wind.
        wind: its velocity, in cells a step.
        viscosity: kinematic, in lattice units.
        moments: how often the wake is looked at.
        stretch: steps between two looks.
    """

    ny: int
    nx: int
    wind: float
    viscosity: float
    moments: int
    stretch: int

    def fraction(self, cylinder: jax.Array) -> jax.Array:
        """Solid fraction `[ny, nx]` of a cylinder: its middle along and across the wind, and its radius, in cells."""
        y, x = jnp.mgrid[: self.ny, : self.nx].astype(jnp.float32)
        distance = jnp.hypot(x - cylinder[0], y - cylinder[1])
        return jax.nn.sigmoid((cylinder[2] - distance) / EDGE)

    def start(self) -> jax.Array:
        """Wind everywhere."""
        return jnp.asarray(lattice.at_rest_or_moving(np.zeros((self.ny, self.nx), bool), np.full(self.ny, self.wind)))

    def blow(self, cylinder: jax.Array) -> tuple[jax.Array, jax.Array]:
        """Lets the wind blow.

        Returns:
            The populations in the end `[9, ny, nx]`, and the velocities `[moments, ny, nx, 2]`.
        """
        solid = self.fraction(cylinder)
        omega = 1.0 / (3.0 * self.viscosity + 0.5)
        call = wp.jax_kernel(step, launch_dims=solid.shape, output_dims=(Q, *solid.shape))
        look = wp.jax_kernel(lattice.look, launch_dims=solid.shape)

        @jax.checkpoint
        def stretch(f: jax.Array, _: None) -> tuple[jax.Array, jax.Array]:
            f, _ = jax.lax.scan(lambda f, _: (call(f, solid, self.wind, omega)[0], None), f, length=self.stretch)
            return f, look(f)[0]

        return jax.lax.scan(stretch, self.start(), length=self.moments)

    def wake(self, velocities: jax.Array) -> jax.Array:
        """What is known of the velocities: those in the window behind the obstacle."""
        return velocities[:, :, self.window]

    @property
    def window(self) -> slice:
        return slice(self.nx // 2, self.nx - self.nx // 16)

    def error(self, cylinder: jax.Array, known: jax.Array) -> jax.Array:
        """Mean squared difference from the known wake, in units of the wind's velocity."""
        _, velocities = self.blow(cylinder)
        return jnp.mean(jnp.sum((self.wake(velocities) - known) ** 2, axis=-1)) / self.wind**2

    def within(self, cylinder: jax.Array) -> jax.Array:
        """The nearest cylinder that is in the tunnel, before the window."""
        radius = jnp.clip(cylinder[2], 1.0, self.ny / 4)
        room = radius + MARGIN
        x = jnp.clip(cylinder[0], room, self.window.start - room)
        return jnp.stack([x, jnp.clip(cylinder[1], room, self.ny - 1 - room), radius])


def search(
    experiment: Experiment, known: jax.Array, guess: jax.Array, iterations: int
) -> tuple[np.ndarray, np.ndarray]:
    """Adam (Kingma and Ba, arXiv:1412.6980), with steps that shrink to nothing in half a cosine.

    Returns:
        The cylinders `[iterations + 1, 3]` from the guess on, and their errors.

    Raises:
        TunnelError: the flow became unstable.
    """
    evaluate = jax.jit(jax.value_and_grad(experiment.error))

    @jax.jit
    def move(
        at: jax.Array, slope: jax.Array, mean: jax.Array, square: jax.Array, number: jax.Array
    ) -> tuple[jax.Array, jax.Array, jax.Array]:
        mean, square = 0.8 * mean + 0.2 * slope, 0.95 * square + 0.05 * slope**2
        scaled = mean / (1 - 0.8**number) / (jnp.sqrt(square / (1 - 0.95**number)) + 1e-12)
        length = LARGEST_STEP * 0.5 * (1 + jnp.cos(jnp.pi * (number - 1) / iterations))
        return experiment.within(at - length * scaled), mean, square

    at, mean, square = guess, jnp.zeros(3), jnp.zeros(3)
    tried, errors = [], []
    progress = tqdm(range(iterations + 1), unit="iteration")
    for number in progress:
        error, slope = evaluate(at, known)
        if not np.isfinite(error) or not np.isfinite(slope).all():
            raise TunnelError(f"the flow became unstable in iteration {number}; lower --reynolds or --velocity")
        tried.append(np.asarray(at))
        errors.append(float(error))
        progress.set_postfix(error=f"{float(error):.2e}")
        at, mean, square = move(at, slope, mean, square, jnp.float32(number + 1))
    return np.array(tried), np.array(errors)


class Painter:
    """Pictures of the flow past a cylinder."""

    def __init__(self, experiment: Experiment):
        self.experiment = experiment
        self.limit = experiment.wind / 4
        self.blow = jax.jit(experiment.blow)
        self.cells = jnp.zeros((experiment.ny, experiment.nx), jnp.uint8)

    def flow(self, axes: Axes, cylinder: np.ndarray, name: str) -> None:
        """Vorticity in the end; the window that is known between two lines."""
        _, velocities = self.blow(jnp.asarray(cylinder, jnp.float32))
        (curl,) = wp.jax_kernel(lattice.curl)(velocities[-1], self.cells)
        solid = np.asarray(self.experiment.fraction(jnp.asarray(cylinder, jnp.float32))) > 0.5
        axes.imshow(render.picture(np.asarray(curl), solid, self.limit), interpolation="bilinear")
        for edge in (self.experiment.window.start, self.experiment.window.stop):
            axes.axvline(edge, color="white", linestyle=":")
        x, y, radius = cylinder
        axes.set_title(f"{name}: at ({x:.2f}, {y:.2f}), radius {radius:.2f}")
        axes.axis("off")

    def summary(self, true: np.ndarray, tried: np.ndarray, errors: np.ndarray) -> Figure:
        """The true flow, the first guess and what was found, under each other, and how the error fell."""
        figure = Figure((5, 9), layout="constrained")
        *flows, curve = figure.subplots(4, height_ratios=[2, 2, 2, 1.4])
        for axes, name, cylinder in zip(
            flows, ("the truth", "first guess", "found"), (true, tried[0], tried[-1]), strict=True
        ):
            self.flow(axes, cylinder, name)
        curve.semilogy(np.maximum(errors, 1e-12))
        curve.set(xlabel="iteration", ylabel="error of the wake")
        return figure

    def frame(self, cylinder: np.ndarray, number: int) -> np.ndarray:
        """A picture of the search, `[rows, columns, 3]` uint8."""
        figure = Figure((5, 2.2), layout="constrained")
        self.flow(figure.subplots(), cylinder, f"iteration {number}")
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        return np.asarray(canvas.buffer_rgba())[..., :3]


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--width", type=int, default=192, help="cells along the wind (default %(default)s)")
    add("--height", type=int, default=72, help="cells across the wind (default %(default)s)")
    add("--true", type=float, nargs=3, metavar=("X", "Y", "R"), help="the hidden cylinder, in cells")
    add("--guess", type=float, nargs=3, metavar=("X", "Y", "R"), help="the first guess")
    add("--reynolds", type=float, default=80.0, help="velocity * diameter / viscosity (default %(default)s)")
    add("--velocity", type=float, default=0.12, help="of the wind, in cells a step (default %(default)s)")
    add("--moments", type=int, default=12, help="how often the wake is looked at (default %(default)s)")
    add("--stretch", type=int, default=50, help="steps between two looks (default %(default)s)")
    add("--iterations", type=int, default=40, help="of gradient descent (default %(default)s)")
    add("--out", type=Path, default=Path("out"), help="folder for the pictures (default %(default)s)")
    options = parser.parse_args(arguments)
    options.true = options.true or [options.width / 4, options.height * 0.46, options.height / 9]
    options.guess = options.guess or [options.width / 4 - 7, options.height * 0.46 + 7, options.height / 9 - 2.5]
    return options


def check(options: argparse.Namespace) -> Experiment:
    """Raises:
    TunnelError: a number makes no sense, or makes a flow that the method cannot compute.
    """
    for name, least in {"width": 48, "height": 24, "moments": 1, "stretch": 1, "iterations": 1}.items():
        if getattr(options, name) < least:
            raise TunnelError(f"--{name} must be at least {least}, got {getattr(options, name)}")
    if not 0 < options.velocity <= 0.2:
        raise TunnelError(f"--velocity must be above 0 and at most 0.2, got {options.velocity:g}")
    viscosity = options.velocity * 2 * options.true[2] / options.reynolds if options.reynolds > 0 else 0.0
    if not viscosity >= 0.005:
        raise TunnelError(f"--reynolds {options.reynolds:g} makes a viscosity of {viscosity:.4f}; 0.005 is the least")
    experiment = Experiment(
        options.height, options.width, options.velocity, viscosity, options.moments, options.stretch
    )
    for name in ("true", "guess"):
        given = np.array(getattr(options, name), np.float32)
        if not np.allclose(experiment.within(jnp.asarray(given)), given):
            x, y, radius = given
            raise TunnelError(
                f"--{name}: the cylinder at ({x:g}, {y:g}) of radius {radius:g} is not inside the tunnel, before the"
                f" window that begins at {experiment.window.start}, or its radius not from 1 to {options.height / 4:g}"
            )
    return experiment


def run(options: argparse.Namespace) -> tuple[np.ndarray, np.ndarray]:
    """Searches, paints, and returns the cylinders tried and their errors."""
    experiment = check(options)
    render.prepare(options.out)
    true, guess = (jnp.asarray(v, jnp.float32) for v in (options.true, options.guess))
    steps = options.moments * options.stretch
    print(f"{options.width} x {options.height} cells, {steps} steps, on {jax.devices()[0].device_kind}", flush=True)
    known = jax.jit(lambda c: experiment.wake(experiment.blow(c)[1]))(true)
    tried, errors = search(experiment, known, guess, options.iterations)
    for name, (x, y, radius) in {"truth": np.asarray(true), "guess": tried[0], "found": tried[-1]}.items():
        print(f"{name}: ({x:6.2f}, {y:6.2f}), radius {radius:5.2f}")
    painter = Painter(experiment)
    still, moving = options.out / "wind_tunnel_inverse.png", options.out / "wind_tunnel_inverse.gif"
    painter.summary(np.asarray(true), tried, errors).savefig(still)
    frames = [painter.frame(cylinder, number) for number, cylinder in enumerate(tried)]
    render.save([*frames, *frames[-1:] * 20], moving)
    print(f"wrote {still} and {moving}")
    return tried, errors


def main(arguments: list[str] | None = None) -> int:
    try:
        run(parse(arguments))
    except TunnelError as error:
        print(f"wind_tunnel_inverse: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nwind_tunnel_inverse: stopped", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
