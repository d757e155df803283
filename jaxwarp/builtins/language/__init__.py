"""What kernels' text calls: functions, operators, constants and short names, made of scalar operations."""
