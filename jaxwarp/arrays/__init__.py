"""Arrays outside of JAX: launches at once, tapes, conversions. Importing it lets kernels be stepped in Python, and
structs go to other devices."""

from jaxwarp.arrays.moved import struct_to
from jaxwarp.arrays.stepping import step_kernel
from jaxwarp.boundary import boundary
from jaxwarp.kernel import Kernel
from jaxwarp.structs.instances import METHODS

Kernel.step = staticmethod(step_kernel)
METHODS["to"] = boundary(struct_to)
