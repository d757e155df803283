"""The reports of a thread: assertions, expectations, text that is printed."""
