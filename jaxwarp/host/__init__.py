"""Functions that Warp programs call outside of kernels, arrays aside: options, events, timers, captures, utilities."""
