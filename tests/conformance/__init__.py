"""Gradients of small kernels with known answers, for jaxwarp and for other systems of the same language."""
