"""Plans for the code of a kernel: its machine, its width, its bodies, and the places where atomics add."""
