"""What a launch is refused for, and what debug mode finds: tests put into a kernel, and how they are reported."""
