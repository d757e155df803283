"""The checks that refuse a launch, and those of debug mode: tests put into a kernel, and how they are reported."""
