"""Analyses of a kernel for the CPU. Nothing here makes decisions or writes code."""
