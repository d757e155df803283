"""The machine that code is made for."""

from __future__ import annotations

import contextlib
import functools
from dataclasses import dataclass
from pathlib import Path

import llvmlite.binding as llvm

<<<<<<< HEAD
=======
from jaxwarp.codegen.cpu.builder import require_width
from jaxwarp.codegen.cpu.latency import wait_in_parts
from jaxwarp.codegen.cpu.pressure import busy_blocks, register_pressure
from jaxwarp.codegen.cpu.uniformity import Strides, find_strides
from jaxwarp.errors import InternalError, KernelValueError
from jaxwarp.ir.nodes import Atomic, Call, For, Kernel, Load, Param, While, walk

WIDTH_VARIABLE = "JAXWARP_CPU_WIDTH"

# Operations beyond which a kernel is long.
_LONG = 200

>>>>>>> 0c72862 (CPU: gradients of products of matrices do several rows at once; narrower bodies share sums of elements)
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
        """How many there are. (64-bit Arm has 32 as well.)"""
        return 32 if self.has_mask_registers or self.triple.startswith("aarch64") else 16

    @property
    def streaming_bytes(self) -> int:
        """Arrays that together are larger than this are as good as not in the caches."""
        return self.cache_bytes // 2

    @property
    def has_mask_registers(self) -> bool:
        """Are masks of one bit a lane what its vector instructions take?"""
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
<<<<<<< HEAD
=======


def choose_width(kernel: Kernel, machine: Machine | None = None) -> int:
    """Lanes for a kernel: two registers a value, so that two operations are in flight.

    Four in loops and sums that hold next to nothing, which would wait for the latency of the few operations they have,
    and where all loops are emitted in parts, see `parts.py`, and wait.
    One where two registers a value, or a component of vectors, which are shuffled apart, would not fit the machine's;
    and for long kernels: they have parallel work enough. Where loops sum over lanes, twice as much may be held: a sum
    takes as long for two registers as for one. Of kernels that keep states of loops in arrays of their own,
    the innermost loops count, and a few values may be in memory as well.

    The environment variable JAXWARP_CPU_WIDTH overrides the choice.
    """
    given = os.environ.get(WIDTH_VARIABLE)
    if given:
        try:
            return require_width(int(given))
        except (ValueError, InternalError):
            raise KernelValueError(f"{WIDTH_VARIABLE} must be 1, 2, 4, 8, 16, 32 or 64, got {given!r}") from None
    machine = machine or host()
    lanes = machine.vector_bits // 32
    strides = find_strides(kernel, lanes)
    results = [op.result for block in busy_blocks(kernel) for op in walk(block) if isinstance(op, (Call, Load))]
    # One scalar serves all lanes of a uniform value.
    results = [v.type for v in results if not strides.is_uniform(v)]
    is_wide = 2 * sum(t.bits == 64 for t in results) > len(results)
    held = max(register_pressure(kernel, strides), sum(c for p in kernel.params if (c := _components(p)) > 1))
    room = machine.vector_registers * (3 if kernel.locals else 2) // 2
    fits = len(results) <= _LONG and (1 if _sums_in_loops(kernel, strides) else 2) * held <= room
    waits = any(isinstance(op, (For, While, Atomic)) for op in walk(kernel.body))
    is_light = 8 * held <= room and waits
    if len(results) <= _LONG and 4 * held <= 3 * room and not machine.has_mask_registers:
        is_light |= wait_in_parts(kernel, strides, 64 if is_wide else 32)
    return lanes * (4 if is_light else 2 if fits else 1) // (2 if is_wide else 1)


def _sums_in_loops(kernel: Kernel, strides: Strides) -> bool:
    """Are there floats to which all lanes add, one after the other?"""
    loops = (op for op in walk(kernel.body) if isinstance(op, (For, While)))
    inner = (op for loop in loops for block in loop.blocks for op in walk(block))
    return any(
        isinstance(op, Atomic) and op.kind == "add" and op.param.dtype.is_float and strides.is_uniform(*op.indices)
        for op in inner
    )


def _components(param: Param) -> int:
    """Elements per entry of an array of vectors or matrices: the product of the static extents at the end."""
    static = itertools.takewhile(lambda n: n is not None, reversed(param.shape))
    return math.prod(n or 0 for n in static) if None in param.shape else 1
>>>>>>> 0c72862 (CPU: gradients of products of matrices do several rows at once; narrower bodies share sums of elements)
