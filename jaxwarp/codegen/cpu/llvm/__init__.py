"""What the text of a function is made of."""
