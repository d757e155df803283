"""Facts about the integers of a kernel: their ranges, conditions that bound them, and iterations of loops."""
