"""A cache of made objects that holds what others hold, and the last ones used."""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Made = TypeVar("Made")


class Interned(Generic[Key, Made]):
    """`make(key)`, the same object for equal keys for as long as somebody holds it; `keep` are held here."""

    def __init__(self, make: Callable[[Key], Made], keep: int):
        self._make, self._keep = make, keep
        self._alive: weakref.WeakValueDictionary[Key, Made] = weakref.WeakValueDictionary()
        self._recent: OrderedDict[Key, Made] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._alive)

    def __call__(self, key: Key) -> Made:
        with self._lock:
            made = self._alive.get(key)
            if made is None:
                made = self._alive[key] = self._make(key)
            self._recent[key] = made
            self._recent.move_to_end(key)
            excess = max(0, len(self._recent) - self._keep)
            dropped = [self._recent.popitem(last=False) for _ in range(excess)]
        del dropped  # without the lock: a program that ends may run code of others
        return made
