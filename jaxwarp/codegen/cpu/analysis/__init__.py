"""What is known of a kernel: nothing here decides or writes code."""
