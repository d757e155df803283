"""The elements of a function's LLVM text."""
