"""Finds a controller for a two-link arm by gradients through MuJoCo Warp's own time step.

    pip install mujoco mujoco-mjx mujoco-warp matplotlib optax jaxwarp
    python examples/mujoco_control.py

MJX runs MuJoCo Warp's kernels in JAX (`impl='warp'`). `jaxwarp.install_as_warp()` makes these kernels jaxwarp's, and so
JAX differentiates the step: kinematics, inertia, actuators, damping and the integrator, as they are in MuJoCo Warp.

An arm of two links hangs from a hinge, and a controller is to hold it upright: torques are linear in the error of the
angles and in the velocities, and the gains are what is looked for. Each iteration simulates many arms from starts of
their own (`jax.vmap`, over a `jax.lax.scan` of steps), and moves the gains along the gradient of the mean cost.

Prints the cost, the time of an iteration, and how far the gradient is from that of MJX's implementation in JAX.
"""

from __future__ import annotations

import argparse
import functools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from matplotlib.figure import Figure

import jaxwarp

ARM = """
<mujoco>
  <option timestep="0.02" integrator="implicitfast" iterations="1" ls_iterations="1">
    <flag contact="disable" constraint="disable"/>
  </option>
  <default><joint type="hinge" axis="0 1 0" damping="0.2" armature="0.02"/><geom type="capsule" size="0.04"/></default>
  <worldbody>
    <body pos="0 0 1">
      <joint name="shoulder"/><geom fromto="0 0 0 0 0 0.5"/>
      <body pos="0 0 0.5"><joint name="elbow"/><geom fromto="0 0 0 0 0 0.4"/></body>
    </body>
  </worldbody>
  <actuator><motor joint="shoulder"/><motor joint="elbow"/></actuator>
</mujoco>
"""
Step = Callable[[Any, Any], Any]
Gains = jax.Array


def load(impl: str) -> tuple[Any, Any, Step]:
    """Return MJX's model, data and step.

    Args:
        impl: "warp" or "jax".

    Raises:
        SystemExit: MuJoCo is not installed.
    """
    jaxwarp.install_as_warp()  # before anything imports Warp
    try:
        import mujoco
        from mujoco import mjx
        from mujoco.mjx.warp import forward
    except ImportError as error:
        raise SystemExit(f"this example needs MuJoCo: pip install mujoco mujoco-mjx mujoco-warp ({error})") from None
    model = mujoco.MjModel.from_xml_string(ARM)
    data = mujoco.MjData(model)
    # MJX wraps its functions in `custom_vmap`, which has no reverse mode; `fun` is the function without that.
    step = forward.step.fun if impl == "warp" else mjx.step
    m, d = mjx.put_model(model, impl=impl), mjx.put_data(model, data, impl=impl)
    if impl == "warp":
        m = m.tree_replace({"opt._impl.graph_conditional": False})  # as many iterations of the solver as the model says
    return m, d, step


def move(gains: Gains, start: jax.Array, steps: int, world: tuple[Any, Any, Step]) -> tuple[jax.Array, jax.Array]:
    """Return the angles of one arm after each step, steps by 2, and what each step costs.

    Args:
        gains: of angles, then of velocities: 2 by 4.
        start: the angles at first.
        steps: of the simulation.
        world: model, data and step.
    """
    model, data, step = world

    def advance(data: Any, _: None) -> tuple[Any, tuple[jax.Array, jax.Array]]:
        state = jnp.concatenate([data.qpos, data.qvel])
        data = step(model, data.replace(ctrl=-gains @ state))
        cost = jnp.sum(data.qpos**2) + 0.01 * jnp.sum(data.qvel**2) + 1e-4 * jnp.sum(data.ctrl**2)
        return data, (data.qpos, cost)

    return jax.lax.scan(advance, data.replace(qpos=start), None, length=steps)[1]


def cost_of(gains: Gains, starts: jax.Array, steps: int, world: tuple[Any, Any, Step]) -> jax.Array:
    """Return the mean cost of arms that start at these angles, worlds by 2, with a controller of these gains."""
    return jax.vmap(lambda start: move(gains, start, steps, world)[1].mean())(starts).mean()


def train(world: tuple[Any, Any, Step], starts: jax.Array, steps: int, iterations: int) -> dict[str, Any]:
    """Look for gains by Adam: these, the costs, the first gradient, and seconds for an iteration."""
    slope = jax.jit(jax.value_and_grad(functools.partial(cost_of, starts=starts, steps=steps, world=world)))
    gains = jnp.zeros((2, 4))
    began = time.perf_counter()
    first = jax.block_until_ready(slope(gains))[1]
    compiled = time.perf_counter() - began
    costs: list[float] = []
    optimizer = optax.adam(1.0)
    state = optimizer.init(gains)
    began = time.perf_counter()
    for _ in range(iterations):
        cost, moved = slope(gains)
        updates, state = optimizer.update(moved, state)
        gains = optax.apply_updates(gains, updates)
        costs.append(float(cost))
    seconds = (time.perf_counter() - began) / iterations
    return {"gains": gains, "costs": costs, "first": first, "seconds": seconds, "compiled": compiled}


def draw(found: dict[str, dict[str, Any]], angles: dict[str, np.ndarray], file: Path) -> None:
    """The costs, and one arm at every second step, the later the darker."""
    figure = Figure((9, 3.2), layout="constrained")
    costs, *views = figure.subplots(1, 1 + len(angles))
    for impl, style in (("warp", "-"), ("jax", ":")):
        costs.plot(found[impl]["costs"], style, label=f"impl={impl!r}")
    costs.set(xlabel="iteration", ylabel="cost", ylim=0)
    costs.legend()
    for axes, (title, q) in zip(views, angles.items(), strict=True):
        turned = np.cumsum(q[::2], axis=1)  # from upright, of both links
        joints = np.cumsum([[0.5], [0.4]] * np.stack([np.sin(turned), np.cos(turned)], axis=-1), axis=1)
        joints = np.concatenate([np.zeros_like(joints[:, :1]), joints], axis=1)
        for k, arm in enumerate(joints):
            axes.plot(*arm.T, "o-", color="tab:blue", alpha=(k + 1) / len(joints), markersize=3)
        axes.set(title=title, xlim=(-1, 1), ylim=(-1, 1), aspect="equal")
        axes.axis("off")
    file.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(file)


def main(worlds: int = 64, steps: int = 50, iterations: int = 200, picture: Path | None = None) -> dict[str, Any]:
    """Train with both implementations."""
    starts = jax.random.uniform(jax.random.key(0), (worlds, 2), minval=-0.6, maxval=0.6)
    worlds_of = {impl: load(impl) for impl in ("warp", "jax")}
    found = {impl: train(world, starts, steps, iterations) for impl, world in worlds_of.items()}
    for impl, result in found.items():
        print(
            f"{impl:4}: cost {result['costs'][0]:.3f} -> {result['costs'][-1]:.3f}, "
            f"{1e3 * result['seconds']:.1f} ms an iteration, {result['compiled']:.0f} s to compile"
        )
    ours, theirs = (found[impl]["first"] for impl in ("warp", "jax"))
    print(f"gradients differ by {float(jnp.linalg.norm(ours - theirs) / jnp.linalg.norm(theirs)):.1e}")
    if picture is not None:
        run = jax.jit(functools.partial(move, start=jnp.array([0.5, 0.3]), steps=steps, world=worlds_of["warp"]))
        gains = {"without control": jnp.zeros((2, 4)), "with the gains found": found["warp"]["gains"]}
        draw(found, {title: np.asarray(run(g)[0]) for title, g in gains.items()}, picture)
    return found


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--worlds", type=int, default=64)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--iterations", type=int, default=200)
    parser.add_argument("--picture", type=Path, metavar="FILE", help="draw the costs and an arm into this file")
    main(**vars(parser.parse_args()))
