"""What a kernel's text is: found, read, its names, annotations and signature."""
