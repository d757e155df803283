"""The native handlers and the code that loads them."""
