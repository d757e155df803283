"""The layout of a grid of NanoVDB, version 32: the header, the tree, and its nodes.

Values are aligned by their type, as in C; tables and nodes are aligned to 32 bytes. The format is that of NanoVDB.h
(Museth 2021).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from jaxwarp.unlocked import cached_property

FILE_MAGICS = (0x304244566F6E614E, 0x324244566F6E614E)  # NanoVDB0, NanoVDB2
GRID_MAGICS = (0x304244566F6E614E, 0x314244566F6E614E)  # NanoVDB0, NanoVDB1
MAJOR = 32
VERSION = 32 << 21 | 3 << 10 | 3
TREE = 672  # where the tree begins, behind the header of a grid
NODES = 736  # and what follows its own header
BREADTH_FIRST, HAS_BOX = 32, 2  # flags of a grid
INDEX_CLASS = 8
NO_CHECKSUM = 0xFFFFFFFFFFFFFFFF

GRID = np.dtype(
    {
        "names": ["magic", "checksum", "version", "flags", "index", "count", "size", "name", "matf", "invmatf", "vecf",
                  "taperf", "matd", "invmatd", "vecd", "taperd", "world_box", "voxel_size", "class", "type",
                  "blind_offset", "blind_count"],
        "formats": ["<u8", "<u8", "<u4", "<u4", "<u4", "<u4", "<u8", "V256", ("<f4", 9), ("<f4", 9), ("<f4", 3), "<f4",
                    ("<f8", 9), ("<f8", 9), ("<f8", 3), "<f8", ("<f8", 6), ("<f8", 3), "<u4", "<u4", "<i8", "<u4"],
        "offsets": [0, 8, 16, 20, 24, 28, 32, 40, 296, 332, 368, 380, 384, 456, 528, 552, 560, 608, 632, 636, 640, 648],
        "itemsize": TREE,
    }
)  # fmt: skip
TREE_HEADER = np.dtype([("offsets", "<u8", 4), ("counts", "<u4", 3), ("tiles", "<u4", 3), ("voxels", "<u8")])
BLIND = np.dtype(
    [("offset", "<i8"), ("count", "<u8"), ("size", "<u4"), ("semantic", "<u4"), ("class", "<u4"), ("type", "<u4"),
     ("name", "V256")]
)  # fmt: skip
FILE = np.dtype([("magic", "<u8"), ("version", "<u4"), ("count", "<u2"), ("codec", "<u2")])
META = np.dtype(
    [("grid_size", "<u8"), ("file_size", "<u8"), ("name_key", "<u8"), ("voxels", "<u8"), ("type", "<u4"),
     ("class", "<u4"), ("world_box", "<f8", 6), ("index_box", "<i4", 6), ("voxel_size", "<f8", 3), ("name_size", "<u4"),
     ("nodes", "<u4", 4), ("tiles", "<u4", 3), ("codec", "<u2"), ("padding", "<u2"), ("version", "<u4")]
)  # fmt: skip

# The numbers of types, and what they are called; those with values have the name of a type of volumes.
TYPE_NAMES = (
    "unknown", "float", "double", "int16", "int32", "int64", "Vec3f", "Vec3d", "Mask", "Half", "uint32", "bool",
    "RGBA8", "Float4", "Float8", "Float16", "FloatN", "Vec4f", "Vec4d", "Index", "OnIndex", "IndexMask", "OnIndexMask",
    "PointIndex", "Vec3u8", "Vec3u16", "uint8",
)  # fmt: skip
VALUE_TYPES = {
    1: "float32", 2: "float64", 4: "int32", 5: "int64", 6: "vec3f", 7: "vec3d", 10: "uint32", 17: "vec4f", 18: "vec4d",
}  # fmt: skip
INDEX_TYPES = (19, 20, 21, 22)
ACTIVE_ONLY = (20, 22)
UPPER_SLOTS, LOWER_SLOTS = 32768, 4096


def _up(offset: int, to: int) -> int:
    return -(-offset // to) * to


@dataclass(frozen=True)
class GridLayout:
    """The layout of grids of one type.

    Attributes:
        number: of the type.
        scalar: of its values, and of tables.
        components: 1, or of vectors.
    """

    number: int
    scalar: np.dtype
    components: int

    @property
    def size(self) -> int:
        """The size of a value in bytes."""
        return self.scalar.itemsize * self.components

    @property
    def _mean(self) -> int:
        """The size of the mean and of the deviation of values in bytes: that of a double if values have 64 bits."""
        return self.scalar.itemsize

    def _behind_statistics(self, start: int) -> int:
        """Return where the data after minimum, maximum, mean and deviation may begin."""
        return _up(_up(start + 2 * self.size, self._mean) + 2 * self._mean, 32)

    @property
    def background(self) -> int:
        return _up(28, self.scalar.itemsize)

    @property
    def root(self) -> int:
        return self._behind_statistics(self.background + self.size)

    @property
    def tile_value(self) -> int:
        return _up(20, self.scalar.itemsize)

    @property
    def tile(self) -> int:
        return _up(self.tile_value + self.size, 32)

    @property
    def stride(self) -> int:
        """The stride of the tables of nodes, whose entries are values or children."""
        return _up(max(self.size, 8), 8)

    @cached_property
    def table(self) -> dict[int, int]:
        """The place of the table in a node, by the number of the node's slots."""
        return {slots: self._behind_statistics(32 + 2 * slots // 8) for slots in (UPPER_SLOTS, LOWER_SLOTS)}

    def node(self, slots: int) -> int:
        return self.table[slots] + slots * self.stride

    @property
    def values(self) -> int:
        """The place of the values in a leaf, or of the number of its first voxel."""
        return 80 if self.number in INDEX_TYPES else self._behind_statistics(80)

    @property
    def leaf(self) -> int:
        if self.number in INDEX_TYPES:
            return 160 if self.number > 20 else 96
        return _up(self.values + 512 * self.size, 32)


def layout_of(number: int) -> GridLayout:
    """Return the layout of a type by its number, which is one of VALUE_TYPES or INDEX_TYPES."""
    name = VALUE_TYPES.get(number, "uint64")
    if name.startswith("vec"):
        return GridLayout(number, np.dtype("<f8" if name.endswith("d") else "<f4"), int(name[3]))
    return GridLayout(number, np.dtype(name).newbyteorder("<"), 1)
