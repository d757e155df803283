"""Settings of the whole process; assign to them. Warp's other settings may be assigned and have no effect."""

# Loops of at most so many turns, known when a kernel is lowered, are unrolled. Per kernel:
# `@kernel(module_options={"max_unroll": n})`.
max_unroll: int = 16
