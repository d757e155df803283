"""Functions of the language that are written in it: read when a program first names one of them."""
