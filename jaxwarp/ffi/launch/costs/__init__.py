"""What launches cost in the programs that they are part of: warnings, and what JAX asks."""
