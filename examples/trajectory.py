"""Throws a ball so that it lands in a cup after bouncing, by the derivative of a simulation with contacts.

    python examples/trajectory.py

One thread of the kernel `fly` throws one ball: it flies with drag, bounces off the floor and off a wall, and is
followed by a `while` until it has bounced `bounces` times. A step ends where the ball hits something, so how many steps
a flight takes depends on the throw; JAX differentiates the landing point through the loop and the times of impact.

From several first guesses, steps along the gradient find throws that land in the cup. Writes `trajectory.png` into
--out: first guesses in grey, the throws found in colour.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from matplotlib import colormaps
from matplotlib.figure import Figure

import jaxwarp as wp

GRAVITY = 9.81
DRAG = 0.05
WALL = 4.0
RESTITUTION = 0.8  # of the speed into a surface
FRICTION = 0.95  # of the speed along it
STEP = 0.01
START = (0.0, 1.0)
LONGEST = 1000  # steps; a throw that has not ended by then is cut off


@wp.func
def time_to_floor(x: wp.vec2, v: wp.vec2, a: wp.vec2) -> float:
    """The later root of x + v t + a t^2 / 2 = 0. A ball on the floor that rises is at the start of its flight."""
    return (wp.sqrt(v[1] * v[1] - 2.0 * a[1] * x[1]) + v[1]) / -a[1]


@wp.func
def time_to_wall(x: wp.vec2, v: wp.vec2, a: wp.vec2) -> float:
    """The earlier root of the same with WALL for 0; no wall ahead: long after the step."""
    distance = WALL - x[0]
    t = 2.0 * STEP
    if v[0] > 0.0:
        t = 2.0 * distance / (v[0] + wp.sqrt(wp.max(v[0] * v[0] + 2.0 * a[0] * distance, 1.0e-6)))
    return t


@wp.func
def move(x: wp.vec2, v: wp.vec2):
    """A step, shorter if the ball hits something: position, velocity, and whether it hit the floor."""
    a = wp.vec2(0.0, -GRAVITY) - DRAG * wp.length(v) * v
    floor = time_to_floor(x, v, a)
    wall = time_to_wall(x, v, a)
    t = wp.min(wp.min(floor, wall), STEP)
    x = x + t * v + (0.5 * t * t) * a
    v = v + t * a
    landed = floor <= wall and floor <= STEP
    if landed:
        x[1] = 0.0
        v = wp.vec2(FRICTION * v[0], -RESTITUTION * v[1])
    elif wall <= STEP:
        x[0] = WALL
        v = wp.vec2(-RESTITUTION * v[0], FRICTION * v[1])
    return x, v, landed


@wp.kernel
def fly(throw: wp.array[wp.vec2], start: wp.vec2, bounces: int, longest: int, landing: wp.array[float]):
    """Where the ball comes down after `bounces` bounces off the floor."""
    i = wp.tid()
    x = start
    v = throw[i]
    contacts, steps = 0, 0
    while contacts <= bounces and steps < longest:
        x, v, landed = move(x, v)
        if landed:
            contacts += 1
        steps += 1
    landing[i] = x[0]


@wp.kernel
def trace(throw: wp.array[wp.vec2], start: wp.vec2, bounces: int, path: wp.array2d[wp.vec2]):
    """The same flight, with every position kept. What is left of a path repeats its end."""
    i = wp.tid()
    x = start
    v = throw[i]
    contacts = 0
    for k in range(path.shape[1]):
        if contacts <= bounces:
            x, v, landed = move(x, v)
            if landed:
                contacts += 1
        path[i, k] = x


def land(throw: jax.Array, bounces: int) -> jax.Array:
    """Landing points of throws `[n, 2]`, after the bounces."""
    (landing,) = wp.jax_kernel(fly, launch_dims=throw.shape[0])(throw, jnp.array(START), bounces, LONGEST)
    return landing


def miss(throw: jax.Array, cup: float, bounces: int) -> jax.Array:
    """Half the squared distance from the cup, summed over the throws."""
    return 0.5 * jnp.sum((land(throw, bounces) - cup) ** 2)


def aim(throw: jax.Array, cup: float, bounces: int, iterations: int, largest: float = 0.1) -> jax.Array:
    """Damped Gauss-Newton, each throw for itself: the smallest change that would hit, were it all linear."""

    @jax.jit
    def improve(throw: jax.Array) -> jax.Array:
        landing, pull = jax.vjp(lambda t: land(t, bounces), throw)
        (slope,) = pull(jnp.ones_like(landing))
        change = (cup - landing)[:, None] * slope / (jnp.sum(slope**2, axis=1, keepdims=True) + 1e-3)
        length = jnp.linalg.norm(change, axis=1, keepdims=True)
        return throw + change * jnp.minimum(1.0, largest / jnp.maximum(length, 1e-9))

    for _ in range(iterations):
        throw = improve(throw)
    return throw


def guesses(number: int) -> jax.Array:
    angle = np.linspace(0.15, 1.1, number)
    return jnp.asarray(np.stack([np.cos(angle), np.sin(angle)], axis=1) * 5.0, jnp.float32)


def draw(paths: np.ndarray, first: np.ndarray, cup: float, path: Path) -> None:
    """The paths `[n, steps, 2]` in colour, over the first guesses in grey."""
    figure = Figure((9, 4.4), layout="constrained")
    axes = figure.subplots()
    for points in first:
        axes.plot(*points.T, color="lightgrey", linewidth=1)
    for number, points in enumerate(paths):
        axes.plot(*points.T, color=colormaps["viridis"](number / len(paths)))
    axes.plot([cup - 0.09, cup - 0.07, cup + 0.07, cup + 0.09], [0.2, 0, 0, 0.2], color="black", linewidth=3)
    axes.axvline(WALL, color="black", linewidth=3)
    axes.axhline(0, color="black")
    axes.set(xlabel="m", ylabel="m", ylim=(0, None), aspect="equal")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def main(arguments: list[str] | None = None) -> float:
    """Aims, draws, and returns the largest distance from the cup."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cup", type=float, default=2.2, help="where the cup stands, in metres (default %(default)s)")
    parser.add_argument("--bounces", type=int, default=2, help="before the ball lands (default %(default)s)")
    parser.add_argument("--throws", type=int, default=7, help="first guesses (default %(default)s)")
    parser.add_argument("--iterations", type=int, default=25, help="steps along the gradient (default %(default)s)")
    parser.add_argument("--out", type=Path, default=Path("out"), help="folder for the picture (default %(default)s)")
    options = parser.parse_args(arguments)
    first = guesses(options.throws)
    found = aim(first, options.cup, options.bounces, options.iterations)
    before = np.abs(np.asarray(land(first, options.bounces)) - options.cup)
    after = np.abs(np.asarray(land(found, options.bounces)) - options.cup)
    for guess, throw, was, now in zip(np.asarray(first), np.asarray(found), before, after, strict=True):
        print(f"throw {guess.round(2)} missed by {was:.3f} m; {throw.round(3)} misses by {now:.5f} m")
    follow = wp.jax_kernel(trace, launch_dims=options.throws, output_dims=(options.throws, LONGEST))
    paths = [np.asarray(follow(t, jnp.array(START), options.bounces)[0]) for t in (found, first)]
    draw(*paths, options.cup, options.out / "trajectory.png")
    print(f"wrote {options.out / 'trajectory.png'}")
    return float(after.max())


if __name__ == "__main__":
    main()
