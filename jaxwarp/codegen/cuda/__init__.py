"""CUDA C++ from the IR, compiled by NVRTC."""
