"""The two code generators, `cpu` and `cuda`, and the cache of what they make."""
