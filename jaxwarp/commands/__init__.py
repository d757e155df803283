"""The command line, `python -m jaxwarp`: a module for each command."""
