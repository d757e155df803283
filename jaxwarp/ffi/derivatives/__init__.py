"""The rules by which launches are differentiated."""
