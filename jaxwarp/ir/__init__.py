"""The intermediate representation: nodes, builder, printer, verifier, interpreter. `nodes.py` is where to start."""
