"""Arrays outside of JAX: launches at once, tapes, conversions. Importing it lets kernels be stepped in Python."""

from jaxwarp.arrays.stepping import step_kernel
from jaxwarp.kernel import Kernel

Kernel.step = staticmethod(step_kernel)
