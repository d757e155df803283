"""Python functions to IR: `read_source`, `read_parameters`, `lower`."""
