"""Passes: functions from kernels to kernels, one file each; `pipeline` has their order."""
