"""The way back of a tape in the memory of a GPU."""
