"""Function spaces: shape functions, nodes, and types of values."""
