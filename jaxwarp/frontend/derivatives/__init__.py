"""Derivatives in the language: `grad(f)`, and rules written by hand."""
