"""Atomics at addresses that many threads share: which are combined, of how many threads, and the text for that."""
