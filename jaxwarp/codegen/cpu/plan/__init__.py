"""What the code of a kernel is to be: for which machine, how wide, which bodies, where atomics add."""
