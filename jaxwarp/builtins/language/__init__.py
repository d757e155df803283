"""The functions, operators, constants and short names that kernels' text uses, made of scalar operations."""
