"""Spatial queries."""
