"""Jacobians of launches on arrays outside of JAX, and checks of derivatives against differences. In JAX, use
`jax.jacobian` and `jax.test_util.check_grads`."""

from jaxwarp.autograd.check import gradcheck as gradcheck
from jaxwarp.autograd.check import gradcheck_tape as gradcheck_tape
from jaxwarp.autograd.jacobians import jacobian as jacobian
from jaxwarp.autograd.jacobians import jacobian_fd as jacobian_fd
from jaxwarp.autograd.plot import jacobian_plot as jacobian_plot
from jaxwarp.boundary import missing_in as _missing_in

globals()["__getattr__"] = _missing_in(__name__)
