"""What programs for Warp call outside of kernels besides arrays: options, events, timers, captures, utilities."""
