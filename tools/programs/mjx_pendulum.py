"""MJX: a step of a double pendulum under `jit`, with the kernels of MuJoCo Warp."""

import jax
import mujoco
import numpy as np
from measure import Model
from mujoco import mjx
from mujoco_warp_pendulum import XML


def build() -> Model:
    model = mujoco.MjModel.from_xml_string(XML)
    data = mujoco.MjData(model)
    data.qpos[:] = [0.5, 0.3]
    mujoco.mj_forward(model, data)
    on_device = mjx.put_model(model, impl="warp")
    state = [mjx.put_data(model, data, impl="warp")]
    advance = jax.jit(mjx.step)

    def step() -> None:
        state[0] = jax.block_until_ready(advance(on_device, state[0]))

    return step, lambda: np.concatenate([np.asarray(state[0].qpos), np.asarray(state[0].qvel)])
