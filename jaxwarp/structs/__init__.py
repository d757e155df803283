"""Structs on the host."""
