"""Reverse mode: adjoints, loops and their checkpoints, residuals."""
