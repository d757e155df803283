"""A wind tunnel: two-dimensional flow past an obstacle that you draw.

    python examples/wind_tunnel.py --obstacle drawing.png

Dark pixels of the picture are solid (light ones with --invert); its outline is scaled to --length cells. Writes
`vorticity.png` and `vorticity.gif` into --out: warm where the air turns counter-clockwise, cold where clockwise.

The air is a lattice Boltzmann fluid (D2Q9) whose whole step is one kernel, `collide_and_stream` in
windtunnel/lattice.py; the time loop is `lax.fori_loop` inside `jax.jit`. Runs on whatever device JAX has.

Limits: the wind is below 0.2 cells a step (the method needs it slow against sound, 0.58), and the viscosity
velocity * length / reynolds above 0.001: below, a cell is too coarse for the smallest eddies. A flow that becomes
unstable all the same is noticed and reported. It is two-dimensional: real eddies of that size would break up.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from pathlib import Path

import jax
import numpy as np
from tqdm import tqdm
from windtunnel import TunnelError, obstacle, render
from windtunnel.flow import Tunnel
from windtunnel.options import Parser, require_memory

HIGHEST_VELOCITY = 0.2
LOWEST_VISCOSITY = 0.001
UNSTABLE_SPEED = 0.5  # nearly sound; air at 0.2 does not reach it around any obstacle
BYTES_PER_CELL = 2 * 9 * 4 + 40  # two sets of populations; pictures, speeds, kinds of cells
SPONGE = 0.08


def parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--obstacle", type=Path, default=Path(__file__).parent / "data" / "naca.png", help="an image file")
    add("--invert", action="store_true", help="light pixels are solid, not dark ones")
    add("--width", type=int, default=600, help="cells along the wind (default %(default)s)")
    add("--height", type=int, default=240, help="cells across the wind (default %(default)s)")
    add("--length", type=int, help="cells along the obstacle's longer side (default: a fifth of the width)")
    add("--reynolds", type=float, default=3000.0, help="velocity * length / viscosity (default %(default)s)")
    add("--velocity", type=float, default=0.1, help="of the wind, in cells a step (default %(default)s)")
    add("--steps", type=int, default=7500, help="time steps (default %(default)s)")
    add("--frames", type=int, default=100, help="pictures in the GIF (default %(default)s)")
    add("--out", type=Path, default=Path("out"), help="folder for the pictures (default %(default)s)")
    add("--quick", action="store_true", help="other defaults: 320 x 128 cells, 4000 steps, 20 frames")
    options = parser.parse_args(arguments)
    if options.quick:
        parser.set_defaults(width=320, height=128, steps=4000, frames=20)
        options = parser.parse_args(arguments)
    if options.length is None:
        options.length = max(1, options.width // 5)
    return options


def check(options: argparse.Namespace) -> None:
    """Raises:
    TunnelError: a number makes no sense, or makes a flow that the method cannot compute.
    """
    for name, least in {"width": 1, "height": 1, "length": 1, "steps": 2, "frames": 1}.items():
        if getattr(options, name) < least:
            raise TunnelError(f"--{name} must be at least {least}, got {getattr(options, name)}")
    for name in ("reynolds", "velocity"):
        if not getattr(options, name) > 0 or not np.isfinite(getattr(options, name)):
            raise TunnelError(f"--{name} must be a number above zero, got {getattr(options, name):g}")
    if options.velocity > HIGHEST_VELOCITY:
        raise TunnelError(
            f"--velocity {options.velocity:g} is too near the lattice's speed of sound, 0.58, for the flow to be that"
            f" of air in a wind tunnel; use at most {HIGHEST_VELOCITY:g}"
        )
    viscosity = options.velocity * options.length / options.reynolds
    if viscosity < LOWEST_VISCOSITY:
        highest = options.velocity * options.length / LOWEST_VISCOSITY
        raise TunnelError(
            f"--reynolds {options.reynolds:g} is unstable with an obstacle of {options.length} cells: its eddies are"
            f" smaller than a cell; use at most {highest:.0f}, or a larger --length"
        )
    require_memory(options.width * options.height * (BYTES_PER_CELL + options.frames))


def blow(tunnel: Tunnel, options: argparse.Namespace) -> tuple[list[np.ndarray], np.ndarray, float]:
    """Lets the wind blow.

    Returns:
        The frames, the force at each of them `[frames, 2]`, and the seconds spent in time steps.

    Raises:
        TunnelError: the flow became unstable.
    """
    count = min(options.frames, max(1, options.steps // 2))
    marks = np.rint(np.linspace(0, options.steps, count + 1) / 2).astype(int) * 2  # two steps an iteration
    limit = 16.0 * options.velocity / options.length  # shear layers shine, eddies are in the middle of the scale
    f = tunnel.advance(tunnel.start(), 0).block_until_ready()  # compiles
    frames, force, seconds = [], [], 0.0
    with tqdm(total=int(marks[-1]), unit="step") as progress:
        for before, mark in itertools.pairwise(marks):
            began = time.perf_counter()
            f = tunnel.advance(f, int(mark - before)).block_until_ready()
            seconds += time.perf_counter() - began
            vorticity, push, fastest = tunnel.observe(f)
            if not fastest < UNSTABLE_SPEED:
                raise TunnelError(
                    f"the flow became unstable before step {mark}; lower --reynolds or --velocity, or raise --length"
                )
            frames.append(render.picture(vorticity, tunnel.body, limit))
            force.append(push)
            progress.update(int(mark - before))
    return frames, np.array(force), seconds


def run(options: argparse.Namespace) -> None:
    check(options)
    render.prepare(options.out)
    solidity = obstacle.load(options.obstacle, invert=options.invert)
    body = obstacle.place(solidity, options.length, options.width, options.height)
    viscosity = options.velocity * options.length / options.reynolds
    tunnel = Tunnel(body, body, np.full(options.height, options.velocity), viscosity, SPONGE)
    device = jax.devices()[0]
    print(f"{options.obstacle.name}: {options.length} cells long in a tunnel of {options.width} x {options.height},")
    print(f"Reynolds number {options.reynolds:g}, {options.steps} steps on {device.device_kind}", flush=True)

    frames, force, seconds = blow(tunnel, options)

    still, moving = options.out / "vorticity.png", options.out / "vorticity.gif"
    render.save(frames[-1:], still)
    render.save(frames, moving)
    drag, lift = force[len(force) // 2 :].mean(axis=0) / (0.5 * options.velocity**2 * options.length)
    print(f"drag coefficient {drag:.3f}, lift coefficient {lift:.3f} (mean of the second half)")
    updates = options.steps // 2 * 2 * body.size
    print(f"{updates / seconds / 1e6:.0f} million lattice updates a second, {seconds:.1f} s in time steps")
    print(f"wrote {still} and {moving}")


def main(arguments: list[str] | None = None) -> int:
    try:
        run(parse(arguments))
    except TunnelError as error:
        print(f"wind_tunnel: {error}", file=sys.stderr)
        return 2
    except jax.errors.JaxRuntimeError as error:
        if "RESOURCE_EXHAUSTED" not in str(error):
            raise
        print("wind_tunnel: the device has not enough memory; lower --width and --height", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("\nwind_tunnel: stopped", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
