"""MJX: a step of a cloth that falls on a sphere under `jit`. Its contacts are sorted by 64-bit keys."""

import jax
import mujoco
import numpy as np
from measure import Model
from mujoco import mjx

XML = """
<mujoco>
  <option timestep="0.002" solver="CG" iterations="100" ls_iterations="50" tolerance="1e-10"/>
  <worldbody>
    <geom type="sphere" size=".1" pos=".014 -.011 0"/>
    <flexcomp name="cloth" type="grid" dim="2" count="4 4 1" spacing=".06 .06 .06" mass=".1" radius=".01"
      pos="0 0 .112">
      <edge equality="true"/>
      <contact selfcollide="none"/>
    </flexcomp>
  </worldbody>
</mujoco>
"""


def build() -> Model:
    model = mujoco.MjModel.from_xml_string(XML)
    on_device = mjx.put_model(model, impl="warp")
    state = [mjx.make_data(model, impl="warp", naconmax=200, njmax=200)]
    advance = jax.jit(mjx.step)

    def step() -> None:
        state[0] = jax.block_until_ready(advance(on_device, state[0]))

    return step, lambda: np.concatenate([np.asarray(state[0].qpos), np.asarray(state[0].qvel)])
