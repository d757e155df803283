"""Surfaces where a field on a grid has a given value."""
