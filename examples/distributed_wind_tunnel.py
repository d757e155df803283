"""The wind tunnel on several devices: horizontal strips, halos that travel while the inside is computed.

    python examples/distributed_wind_tunnel.py --devices 4
    mpirun -np 4 python examples/distributed_wind_tunnel.py

The flow is that of wind_tunnel.py to the last bit, on any number of devices; windtunnel/partition.py says how. Prints
drag and lift, the speed, and how many bytes cross the cuts in a step. Writes `distributed_wind_tunnel.png`: the eddies,
and where the strips meet; --json FILE writes what was measured.
"""

from __future__ import annotations

import json
import math
import re
import sys
import time
from pathlib import Path
from typing import Any

import distributed
import jax
import jax.numpy as jnp
import numpy as np
from windtunnel import TunnelError, obstacle, render
from windtunnel.flow import Tunnel
from windtunnel.partition import Strips

OBSTACLE = Path(__file__).parent / "data" / "naca.png"
VELOCITY = 0.1
BYTES = {"f32": 4, "f64": 8, "u8": 1, "s32": 4}


def parse(arguments: list[str] | None) -> Any:
    parser = distributed.parser(__doc__)
    add = parser.add_argument
    add("--obstacle", type=Path, default=OBSTACLE, help="an image file")
    add("--width", type=int, default=320, help="cells along the wind (default %(default)s)")
    add("--height", type=int, default=128, help="cells across, a multiple of the devices (default %(default)s)")
    add("--reynolds", type=float, default=300.0, help="velocity * length / viscosity (default %(default)s)")
    add("--steps", type=int, default=2000, help="time steps, even (default %(default)s)")
    add("--repeats", type=int, default=1, help="how often the steps are timed; the fastest counts")
    add("--json", type=Path, help="file for the measurements")
    add("--out", type=Path, default=Path("out"), help="folder for the picture (default %(default)s)")
    return parser.parse_args(arguments)


def bytes_moved(program: str, devices: int) -> int:
    """Bytes that cross between devices in a step, by the compiled program. A turn of its loop is two steps.

    Raises:
        ValueError: the program communicates in some other way than by permutation.
    """
    others = re.findall(r" ((?:all|reduce)-[a-z-]+|collective-broadcast)\(", program)
    if others:
        raise ValueError(f"the program has {others[0]}")
    total = 0
    for line in program.splitlines():
        found = re.search(r"= \(?(\w+)\[([\d,]*)\].* collective-permute(?:-start)?\(.*_pairs=\{(.*?)\}\}", line)
        if found:
            dtype, extents, pairs = found.groups()
            size = BYTES[dtype] * math.prod(int(n) for n in extents.split(",") if n)
            total += size * (pairs.count("{") if devices > 1 else 0)
    return total // 2


def make_tunnel(options: Any) -> Tunnel:
    length = max(1, options.width // 5)
    body = obstacle.place(obstacle.load(options.obstacle), length, options.width, options.height)
    viscosity = VELOCITY * length / options.reynolds
    return Tunnel(body, body, np.full(options.height, VELOCITY), viscosity, sponge=0.08)


def measure(strips: Strips, steps: int, repeats: int) -> tuple[np.ndarray, float]:
    """The populations after the steps, and the seconds that they took."""
    jax.block_until_ready(strips.advance(strips.start(), 0))  # compiles
    seconds = math.inf
    for _ in range(repeats):
        f = jax.block_until_ready(strips.start())
        began = time.perf_counter()
        f = jax.block_until_ready(strips.advance(f, steps // 2))
        seconds = min(seconds, time.perf_counter() - began)
    return distributed.everywhere(f), seconds


def run(options: Any) -> int:
    if options.steps < 2 or options.steps % 2:
        raise TunnelError(f"--steps must be an even number, got {options.steps}")
    say = distributed.say
    with distributed.running(options.devices) as mesh:
        tunnel = make_tunnel(options)
        strips = Strips(tunnel, mesh)
        say(f"{options.width} x {options.height} cells on {mesh.size} device(s), {jax.process_count()} process(es)")
        moved, least = bytes_moved(strips.program(), mesh.size), strips.least_bytes()
        f, seconds = measure(strips, options.steps, options.repeats)
        length = max(1, options.width // 5)
        vorticity, force, fastest = tunnel.observe(jnp.asarray(f))
        if not np.isfinite(fastest):
            raise TunnelError("the flow became unstable; lower --reynolds")
        drag, lift = force / (0.5 * VELOCITY**2 * length)
        rate = options.steps * tunnel.solid.size / seconds / 1e6
        say(f"drag coefficient {drag:.4f}, lift coefficient {lift:.4f} after {options.steps} steps")
        say(f"{rate:.1f} million lattice updates a second")
        say(f"{moved} bytes cross the cuts in a step; the lattice's links need {least}")
        if jax.process_index() == 0:
            cuts = [options.height // mesh.size * n for n in range(1, mesh.size)]
            render.cut(vorticity, tunnel.body, cuts, options.out / "distributed_wind_tunnel.png")
        if options.json and jax.process_index() == 0:
            found = {"devices": mesh.size, "processes": jax.process_count(), "width": options.width}
            found |= {"height": options.height, "steps": options.steps, "seconds": seconds}
            found |= {"mlups": rate, "bytes_per_step": moved, "least_bytes_per_step": least}
            options.json.write_text(json.dumps(found | {"drag": float(drag), "lift": float(lift)}))
    return 0


def main(arguments: list[str] | None = None) -> int:
    try:
        return run(parse(arguments))
    except TunnelError as error:
        print(f"distributed_wind_tunnel: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
