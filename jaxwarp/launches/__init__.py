"""A launch: what it is, how arguments become one, its code, and running it on memory. None of it is JAX's."""
