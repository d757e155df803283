"""Newton: boxes that fall on a plane, by the XPBD solver."""

import newton
import warp as wp
from measure import Model


def build() -> Model:
    builder = newton.ModelBuilder()
    builder.add_ground_plane()
    for i in range(4):
        body = builder.add_body(xform=wp.transform(wp.vec3(1.5 * i, 0.0, 0.6 + 0.1 * i), wp.quat_identity()))
        builder.add_shape_box(body, hx=0.5, hy=0.5, hz=0.5)
    model = builder.finalize()
    solver = newton.solvers.SolverXPBD(model)
    states = [model.state(), model.state()]
    control = model.control()

    def step() -> None:
        states[0].clear_forces()
        contacts = model.collide(states[0])
        solver.step(states[0], states[1], control, contacts, 1.0 / 240.0)
        states.reverse()
        wp.synchronize()

    return step, lambda: states[0].body_q.numpy()  # noqa: PLW0108 (states change places)
