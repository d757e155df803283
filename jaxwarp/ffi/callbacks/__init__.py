"""Python functions that XLA calls while a program runs."""
