"""Generators of pages, tables and the type stub; `python -m jaxwarp.document` writes them."""
