"""MuJoCo Warp: a double pendulum in sixteen worlds that start at other angles."""

import mujoco
import mujoco_warp
import numpy as np
import warp as wp
from measure import Model

XML = """
<mujoco>
  <option timestep="0.002"/>
  <worldbody>
    <body>
      <joint type="hinge" axis="0 1 0"/>
      <geom type="capsule" fromto="0 0 0 0 0 -1" size="0.05"/>
      <body pos="0 0 -1">
        <joint type="hinge" axis="0 1 0"/>
        <geom type="capsule" fromto="0 0 0 0 0 -1" size="0.05"/>
      </body>
    </body>
  </worldbody>
</mujoco>
"""
WORLDS = 16


def build() -> Model:
    model = mujoco.MjModel.from_xml_string(XML)
    data = mujoco.MjData(model)
    on_device = mujoco_warp.put_model(model)
    worlds = mujoco_warp.put_data(model, data, nworld=WORLDS)
    angles = np.linspace(-1.0, 1.0, WORLDS)[:, None] * np.array([1.0, 0.5])
    worlds.qpos.assign(angles.astype(np.float32))

    def step() -> None:
        mujoco_warp.step(on_device, worlds)
        wp.synchronize()

    return step, lambda: np.concatenate([worlds.qpos.numpy(), worlds.qvel.numpy()], axis=1)
