"""Loads and stores of neighbouring words as one: `x[i]` of an array of vec4 is one access of 128 bits, not four of 32.

    x[i * 4], x[i * 4 + 1], ..., x[i * 4 + 3]       const float4 x_1 = *(const float4 *)&x[i * 4];  x_1.x, ..., x_1.w

The words of a pack are at constant places of one row, all are accessed in one block of code, and nothing in between
touches the array in another way. Arrays begin at multiples of 16 bytes where the launch says so, and rows are packs.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from jaxwarp.codegen.abi import PACK_BYTES
from jaxwarp.ir.nodes import Atomic, Block, Const, Load, Op, Param, Store, Value, walk

_TYPES = {"f32": "float", "i32": "int", "u32": "uint", "f64": "double", "i64": "longlong", "u64": "ulonglong"}
PARTS = "xyzw"

Access = Load | Store


@dataclass(frozen=True, eq=False)
class Pack:
    """Accesses that are one.

    Attributes:
        ops: those of its words, in the order of these.
        first, last: of them, in the order of the program.
        cpp_type: of the whole, as `float4`.
    """

    ops: tuple[Access, ...]
    first: Access
    last: Access
    cpp_type: str

    def part(self, op: Access) -> str:
        return PARTS[self.ops.index(op)]


def packs_of(block: Block, arrays: Collection[Param], constants: Mapping[Value, int]) -> dict[Op, Pack]:
    """The packs of a block, by their accesses. `constants`: the values of integers that are known."""
    found: dict[Op, Pack] = {}
    position = {op: n for n, op in enumerate(block.ops)}
    for kind in (Load, Store):
        accesses = [op for op in block.ops if isinstance(op, kind) and op.param in arrays]
        for ops in _rows(accesses, constants):
            first, last = min(ops, key=position.__getitem__), max(ops, key=position.__getitem__)
            between = block.ops[position[first] : position[last]]
            if not any(op not in ops and _disturbs(op, first) for op in between):
                pack = Pack(ops, first, last, f"{_TYPES[first.param.dtype.short]}{len(ops)}")
                found.update((op, pack) for op in ops)
    return found


def integers_of(block: Block) -> dict[Value, int]:
    """The values of a kernel's integer constants."""
    return {op.result: int(op.value) for op in walk(block) if isinstance(op, Const) and op.result.type.is_int}


def _rows(accesses: Sequence[Access], constants: Mapping[Value, int]) -> Iterator[tuple[Access, ...]]:
    """Yield the accesses whose words fill 16 bytes, or 8, once each."""
    found: dict[tuple[object, ...], list[tuple[int, Access]]] = defaultdict(list)
    for op in accesses:
        leading, place, length = _place(op, constants)
        words = _words(op.param, length)
        if words > 1:
            found[op.param, leading, place // words, words].append((place % words, op))
    for (*_, words), row in found.items():
        if sorted(n for n, _ in row) == list(range(cast(int, words))):
            yield tuple(op for _, op in sorted(row, key=lambda entry: entry[0]))


def _words(param: Param, length: int) -> int:
    """Return the number of words that make one access, in rows of `length` words."""
    size = param.dtype.bytes
    if param.dtype.short not in _TYPES or not length:
        return 1
    return next((n // size for n in (PACK_BYTES, PACK_BYTES // 2) if length * size % n == 0), 1)


def _place(op: Access, constants: Mapping[Value, int]) -> tuple[tuple[Value, ...], int, int]:
    """The indices before those that are constant, the place in what these go over, and its length."""
    rank, place, length = len(op.indices), 0, 1
    while rank:
        index, extent = constants.get(op.indices[rank - 1]), op.param.shape[rank - 1]
        if index is None or extent is None or not 0 <= index < extent:
            break
        rank, place, length = rank - 1, place + index * length, length * extent
    return op.indices[:rank], place, length


def _disturbs(op: Op, access: Access) -> bool:
    """Return whether an operation between the accesses of a pack prevents it: it writes the array, or reads stores."""
    kinds = (Load, Store, Atomic) if isinstance(access, Store) else (Store, Atomic)
    inside = (op, *(inner for block in op.blocks for inner in walk(block)))
    return any(isinstance(one, kinds) and one.param is access.param for one in inside)
