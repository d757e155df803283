"""Tests of surfaces on grids."""
