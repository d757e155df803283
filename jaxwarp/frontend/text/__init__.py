"""The text of a kernel: how it is found and read, its names, annotations and signature."""
