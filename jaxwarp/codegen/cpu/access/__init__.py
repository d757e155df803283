"""Loads and stores."""
