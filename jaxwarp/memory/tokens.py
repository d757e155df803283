"""Tokens of arrays: what tells them apart, as far as launches on them differ."""

from __future__ import annotations

from typing import Any, NamedTuple

from jaxwarp.memory.region import Region


class InRecords(NamedTuple):
    """An array that is a field of records.

    Attributes:
        region: the words of its type of all records.
        place: how many of them a record has, and which is its first one.
        bytes: of a record, its first one and the one after its last.
    """

    region: Region
    place: tuple[int, int]
    bytes: tuple[int, int]

    def is_apart_from(self, other: InRecords) -> bool:
        """Return whether the two fields have no byte in common, provided that they belong to the same records."""
        is_alike = self.region.shape[:-1] == other.region.shape[:-1] and self.region.nbytes == other.region.nbytes
        return is_alike and (self.bytes[1] <= other.bytes[0] or other.bytes[1] <= self.bytes[0])


class ArrayMark:
    """Stands for one array as it is: an array that comes later has another one, also in the same place."""


class Alike:
    """Stands for all that is equal to something: to compare it takes no time."""


def alike(what: tuple[Any, ...]) -> Alike:
    """The same object for all that is equal."""
    if len(_alike) >= _MOST_ALIKE:
        _alike.clear()  # launches with what comes then are looked at again
    return _alike.setdefault(what, Alike())


_MOST_ALIKE = 4096
_alike: dict[tuple[Any, ...], Alike] = {}
