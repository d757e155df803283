"""The costs of launches in the programs that they are part of: warnings, and what JAX asks."""
