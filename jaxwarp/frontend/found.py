"""Knowledge of kernels of one content: their IR, and what launches of them are.

A program may make a kernel anew in each step, by a factory. Kernels of equal content share a `KernelFacts` for as long
as one of them lives. Content that was made a second time is kept from then on, with that of the last others: the kernel
before may have ended already.
"""

from __future__ import annotations

import threading
import weakref
from collections import OrderedDict
from typing import Any

from jaxwarp.errors import Loc
from jaxwarp.frontend.text.content import Content, content_of
from jaxwarp.frontend.text.source import Source

_MOST_KEPT = 256  # contents that were made again, of which nobody may have a kernel now
_MOST_MADE = 4096  # of which it is known that they were made once


class KernelFacts:
    """Everything that was found out about a kernel.

    Attributes:
        content: of the kernel that it was found out about; None: it is not shared.
        max_unroll: how many iterations a loop may have that is unrolled.
        specialized: IR by the types of arguments.
        given: kernels for types of arguments that this one leaves open.
        of_classes: the same, by classes alone.
        fits, plans, launches: what launches outside of JAX found out, by what is alike. They end with this.
        recent: launches by the very arrays that they are on.
        looks_up: whether launches outside of JAX look objects up by their ids; None: there was none yet.
        looks_up_at: the line.
    """

    __slots__ = (
        *("__weakref__", "content", "fits", "given", "launches", "looks_up", "looks_up_at", "max_unroll", "of_classes"),
        *("plans", "recent", "specialized"),
    )

    def __init__(self, max_unroll: int, content: Content | None = None):
        self.content, self.max_unroll = content, max_unroll
        self.specialized: dict[tuple[Any, ...], Any] = {}
        self.given: dict[tuple[Any, ...], Any] = {}
        self.of_classes: dict[tuple[type, ...], Any] = {}
        self.fits: dict[Any, Any] = {}
        self.plans: dict[Any, Any] = {}
        self.launches: dict[Any, Any] = {}
        self.recent: dict[Any, Any] = {}
        self.looks_up: bool | None = None
        self.looks_up_at: Loc | None = None


def found_of(source: Source, max_unroll: int, *others: Any) -> KernelFacts:
    """Return what was found out about kernels with this text.

    Args:
        others: what decides about the kernel besides its text: its parameters and options.
    """
    content = content_of(source, max_unroll, *others)
    if content is None:
        return KernelFacts(max_unroll)
    with _lock:
        known = _alive.get(content.key)
    if known is None or known.content is None or not known.content.is_as_found():
        known = KernelFacts(max_unroll, content)
    content.mark_used()
    with _lock:
        _alive[content.key] = known
        dropped = _keep(hash(content.key), known)
    del dropped  # without the lock: what ends may run code of others
    return known


def _keep(number: int, found: KernelFacts) -> list[Any]:
    """Keeps what was made before, and returns what is given up for it."""
    if number not in _made:
        _made[number] = None
        return [_made.popitem(last=False) for _ in range(len(_made) - _MOST_MADE)]
    _made.move_to_end(number)
    _kept[number] = found
    _kept.move_to_end(number)
    return [_kept.popitem(last=False) for _ in range(len(_kept) - _MOST_KEPT)]


_alive: weakref.WeakValueDictionary[Any, KernelFacts] = weakref.WeakValueDictionary()
_kept: OrderedDict[int, KernelFacts] = OrderedDict()
_made: OrderedDict[int, None] = OrderedDict()  # hashes: two that are equal by chance are kept once too early
_lock = threading.RLock()
