"""The launches of a kernel that get code of their own, with what they know as constants.

A program of a few shapes gets code for each. One of many shapes would compile forever, so the other launches share code
for all extents.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Hashable

from jaxwarp.ir.kernel import Kernel

MOST_VERSIONS = 8


class Versions:
    """The first launches of each kernel on one target."""

    def __init__(self) -> None:
        self._seen: weakref.WeakKeyDictionary[Kernel, set[Hashable]] = weakref.WeakKeyDictionary()
        self._lock = threading.Lock()

    def has(self, kernel: Kernel, known: Hashable) -> bool:
        """Return whether a launch that knows this is one of the first of the kernel."""
        with self._lock:
            seen = self._seen.setdefault(kernel, set())
            if known not in seen and len(seen) < MOST_VERSIONS:
                seen.add(known)
            return known in seen
