"""What can be proved of a kernel: its integers, addresses, and which threads meet where. Changes nothing."""
