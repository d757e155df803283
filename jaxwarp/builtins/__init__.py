"""The table of builtins: scalar rows with every backend's spelling, and the functions of the language above them."""
