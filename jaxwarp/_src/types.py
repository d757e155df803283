"""`warp._src.types`."""

from jaxwarp.types import SCALARS

warp_type_to_np_dtype = {scalar: scalar.numpy.type for scalar in SCALARS}
"""The NumPy type of each scalar type."""
