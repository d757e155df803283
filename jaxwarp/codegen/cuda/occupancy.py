"""Occupancy: the number of threads of some machine code that fit on a multiprocessor, and the best block size.

A block is on a multiprocessor as a whole, so registers that do not suffice for a whole block stay unused. For code with
96 registers there is room for 20 warps, which are five blocks of 128 threads but only two of 256.

Source: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"; the CUDA Occupancy Calculator.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from jaxwarp.codegen.abi import SHARED_BYTES, STATIC_SHARED_BYTES
from jaxwarp.codegen.cuda.emit import CudaCode

_WARP = 32
_REGISTERS = 65_536  # of a multiprocessor
_REGISTERS_AT_ONCE = 256  # given to a warp
_WARPS_AT_ONCE = 4  # a multiprocessor is four, each with a quarter of the registers
# Of those that hold no more threads the largest one: what blocks do before and after their work is done less often.
_SIZES = (256, 128)
LEAST_BLOCK = min(_SIZES)
_BLOCKS = (32, 64, 128, 256, 512, 1024)
# By how much more threads have to be, to be worth smaller blocks.
_WORTH = 1.1


@dataclass(frozen=True)
class OccupancyLimits:
    """The most warps and blocks that a multiprocessor holds, and the most shared memory of a block, in KiB."""

    warps: int
    blocks: int
    shared: int


_LIMITS = {
    75: OccupancyLimits(32, 16, 64),
    80: OccupancyLimits(64, 32, 163),
    86: OccupancyLimits(48, 16, 99),
    87: OccupancyLimits(48, 16, 163),
    89: OccupancyLimits(48, 24, 99),
    90: OccupancyLimits(64, 32, 227),
    100: OccupancyLimits(64, 32, 227),
    103: OccupancyLimits(64, 32, 227),
    120: OccupancyLimits(48, 24, 99),
    121: OccupancyLimits(48, 24, 99),
}


def most_shared_bytes(archs: Collection[int], are_all: bool) -> int:
    """The most shared memory that a block may have on every GPU that code for some architectures runs on.

    Args:
        archs: of the code.
        are_all: whether it runs on these alone; else also on newer ones, which may have less.
    """
    newer = [] if are_all else [arch for arch in _LIMITS if arch > min(archs)]
    return min(_shared_bytes(arch) for arch in (*archs, *newer))


def _shared_bytes(arch: int) -> int:
    limits = _LIMITS.get(arch)
    return limits.shared * 1024 if limits else SHARED_BYTES if arch > min(_LIMITS) else STATIC_SHARED_BYTES


def choose_block(code: CudaCode, binaries: Sequence[tuple[int, bytes]]) -> int:
    """Threads per block of launches of a text whose machine code is this: architectures, and a cubin for each.

    What somebody said, or what the text is made for, if it sums over blocks. The default if architectures differ, or
    one is not in the table.
    """
    block = code.options.block
    if not code.options.is_free or not code.takes_any_block:
        return block
    chosen = {best_block(registers_of(binary), arch, block) for arch, binary in binaries}
    return chosen.pop() if len(chosen) == 1 else block


def best_block(registers: int | None, arch: int, default: int) -> int:
    """The block size for code that uses no shared memory; `default` where something is not known."""
    limits = _LIMITS.get(arch)
    if registers is None or limits is None:
        return default
    best = default
    for size in _SIZES:
        if size < best and warps_of(registers, size, limits) >= _WORTH * warps_of(registers, best, limits):
            best = size
    return best


def fullest_block(registers: int, arch: int) -> tuple[int, int]:
    """The largest of the block sizes with which a multiprocessor holds most threads, and how many blocks these are."""
    limits = _LIMITS.get(arch, _LIMITS[max(known for known in _LIMITS if known <= max(arch, min(_LIMITS)))])
    block = max(_BLOCKS, key=lambda size: (warps_of(registers, size, limits), size))
    return block, warps_of(registers, block, limits) * _WARP // block


def warps_of(registers: int, block: int, limits: OccupancyLimits) -> int:
    """Return the number of warps that a multiprocessor holds, in blocks of this size."""
    each = -(-max(1, registers) * _WARP // _REGISTERS_AT_ONCE) * _REGISTERS_AT_ONCE
    room = min(limits.warps, _REGISTERS // each // _WARPS_AT_ONCE * _WARPS_AT_ONCE)
    warps = -(-block // _WARP)
    return min(limits.blocks, room // warps) * warps


# Of ELF for 64 bits: where the section headers are, how long and how many; a header; an attribute of .nv.info, one
# whose value follows it, and the number of the one for registers (EIATTR_REGCOUNT), which has a symbol before it.
_HEADERS_AT, _HEADERS = 40, 58
_SECTION = struct.Struct("<IIQQQQIIQQ")
_ATTRIBUTE = struct.Struct("<BBH")
_SIZED, _REGISTER_COUNT = 4, 0x2F


def registers_of(binary: bytes) -> int | None:
    """The registers of a thread of the kernels in a cubin, the most of them; None: it is PTX, or says nothing."""
    try:
        counts = list(_register_counts(binary)) if binary.startswith(b"\x7fELF") else []
    except (struct.error, IndexError, ValueError):
        return None
    return max(counts, default=None)


def _register_counts(binary: bytes) -> list[int]:
    (at,) = struct.unpack_from("<Q", binary, _HEADERS_AT)
    size, count, names = struct.unpack_from("<HHH", binary, _HEADERS)
    headers = [_SECTION.unpack_from(binary, at + size * n) for n in range(count)]
    texts = headers[names][4]
    found: list[int] = []
    for name, _, _, _, begin, length, *_ in headers:
        if binary[texts + name : binary.index(b"\0", texts + name)] == b".nv.info":
            found += _in_attributes(binary[begin : begin + length])
    return found


def _in_attributes(data: bytes) -> list[int]:
    found: list[int] = []
    at = 0
    while at < len(data):
        form, kind, size = _ATTRIBUTE.unpack_from(data, at)
        at += _ATTRIBUTE.size
        if form == _SIZED:
            if kind == _REGISTER_COUNT:
                found.append(struct.unpack_from("<II", data, at)[1])
            at += size
    return found
