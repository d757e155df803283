"""Fields, and test and trial functions, on the host and in kernels."""
