"""What is generated: pages, tables and the type stub; `python -m jaxwarp.document` writes it."""
