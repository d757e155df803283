"""A launch from JAX: what it is, how arguments become one, the primitive and its lowering."""
