"""The lowering from syntax to IR: statements, expressions, and the values they work on."""
