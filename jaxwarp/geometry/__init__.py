"""Spatial queries: acceleration structures as values of JAX, and what searches them."""
