"""The machine that code is made for."""

from __future__ import annotations

import contextlib
import functools
from dataclasses import dataclass
from pathlib import Path

import llvmlite.binding as llvm

# Of the last cache, where nothing is known of it.
_CACHE_BYTES = 32 << 20


@dataclass(frozen=True)
class Machine:
    """A CPU as LLVM names it, and the size of its last cache."""

    triple: str
    cpu: str
    features: str
    cache_bytes: int = _CACHE_BYTES

    def target_machine(self, optimisation: int = 3) -> llvm.TargetMachine:
        """A code generator of position-independent objects."""
        target = llvm.Target.from_triple(self.triple)
        return target.create_target_machine(
            cpu=self.cpu, features=self.features, opt=optimisation, reloc="pic", codemodel="small"
        )

    @property
    def has_gather(self) -> bool:
        """Gathers and scatters under a mask are single instructions, and LLVM uses them."""
        return "+avx512f" in self.features.split(",") or self.cpu == "x86-64-v4"

    @property
    def vector_bits(self) -> int:
        """The width of the vector registers."""
        enabled = set(self.features.split(","))
        if "+avx512f" in enabled:
            return 512
        return 256 if "+avx2" in enabled or "+avx" in enabled else 128

    @property
    def vector_registers(self) -> int:
        """The number of vector registers. (64-bit Arm has 32 as well.)"""
        return 32 if self.has_mask_registers or self.triple.startswith("aarch64") else 16

    @property
    def streaming_bytes(self) -> int:
        """Arrays that together are larger than this are as good as not in the caches."""
        return self.cache_bytes // 2

    @property
    def has_mask_registers(self) -> bool:
        """True if vector instructions take masks of one bit a lane."""
        return self.vector_bits == 512


@functools.cache
def host() -> Machine:
    """The machine this process runs on."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features().flatten()
    return Machine(llvm.get_process_triple(), llvm.get_host_cpu_name(), features, _cache_bytes())


def _cache_bytes() -> int:
    """The largest cache of the first core, as Linux has it."""
    sizes = [_CACHE_BYTES]
    with contextlib.suppress(OSError, ValueError):
        found = Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")
        sizes = [int(file.read_text().strip().removesuffix("K")) << 10 for file in found] or sizes
    return max(sizes)
