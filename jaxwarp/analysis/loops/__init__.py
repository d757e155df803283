"""Loops whose iterations are independent, or combine what they have."""
