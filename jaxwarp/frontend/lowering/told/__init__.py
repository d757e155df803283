"""What a thread says: assertions, expectations, text that is printed."""
