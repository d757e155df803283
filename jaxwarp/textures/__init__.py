"""Textures: images that kernels sample between their texels, as values of JAX and arguments of kernels."""
