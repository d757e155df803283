"""What a GPU makes of this package, in one command of at most eight minutes: `make gpu-report` (docs/gpus.md).

Sections run one after the other, each in a process of its own, so that one that fails, hangs or breaks the device
leaves the others as they are. Rows are kept as JSON as they come. In a dry run all of it runs without a GPU, on little
data: JAX on the CPU, and what is written by hand as C++ on the host.
"""
