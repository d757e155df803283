"""`dataclass` that costs little to import: the methods of a class are made when it is first used.

The standard library compiles six small functions for each frozen dataclass, half a millisecond of them: half of what
importing this package took, for classes of which a program uses few. Here a class gets functions that make the real
ones when one of them is called; two of the six are never made. What `frozen=True` says is checked by the type checker
alone, so instances are made faster too. Imports nothing of ours.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

__all__ = ["dataclass"]

_lock = threading.RLock()
_postponed: dict[type, Callable[[], None]] = {}
_METHODS = ("__init__", "__repr__", "__eq__", "__hash__")

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls: type | None = None, /, **options: Any) -> Any:
        """`dataclasses.dataclass`."""

        def decorate(cls: type) -> type:
            own = vars(cls)
            if options.get("slots"):  # the result is another class
                return dataclasses.dataclass(cls, **_plain(options))
            # One that has what would be made says how it wants to be made.
            if "__annotations__" not in own or any(m in own for m in _METHODS):
                return dataclasses.dataclass(cls, **options)
            _postpone(cls, options)
            return cls

        return decorate if cls is None else decorate(cls)


def _plain(options: dict[str, Any]) -> dict[str, Any]:
    """The options of a class that may be changed, but is compared and hashed as before."""
    frozen, eq = options.get("frozen", False), options.get("eq", True)
    return {**options, "frozen": False, "unsafe_hash": frozen and eq, "repr": False}


def _postpone(cls: Any, options: dict[str, Any]) -> None:
    own = {k: v for k, v in vars(cls).items() if k not in ("__dict__", "__weakref__")}

    def complete() -> None:
        with _lock:
            if cls in _postponed:
                _complete(cls, own, _plain(options))
                del _postponed[cls]

    def initialise(self: Any, *args: Any, **given: Any) -> None:
        complete()
        cls.__init__(self, *args, **given)

    def equals(self: Any, other: object) -> Any:
        complete()
        return cls.__eq__(self, other)

    def hashed(self: Any) -> int:
        complete()
        return cls.__hash__(self)

    made: dict[str, Any] = {"__init__": initialise}
    if options.get("repr", True):
        made["__repr__"] = _repr
    if options.get("eq", True):
        made |= {"__eq__": equals, "__hash__": hashed}
    for name, method in made.items():
        setattr(cls, name, method)
    _postponed[cls] = complete


def _complete(cls: type, own: dict[str, Any], options: dict[str, Any]) -> None:
    """Gives a class what the standard library gives its twin; at any time it has either that or what makes it."""
    for base in reversed(cls.__mro__[1:]):
        _postponed.get(base, _nothing)()
    # Without a docstring, one would be made of the signature.
    twin = type(cls)(cls.__name__, cls.__bases__, {"__doc__": "", **own, "__qualname__": cls.__qualname__})
    dataclasses.dataclass(twin, **options)
    for name in own:
        if name not in vars(twin):
            delattr(cls, name)  # the default of a field that is made by a function
    for name, value in vars(twin).items():
        if name not in _UNTOUCHED and (name not in own or own[name] is not value):
            setattr(cls, name, value)


def _nothing() -> None:
    pass


_UNTOUCHED = ("__dict__", "__weakref__", "__doc__", "__module__", "__qualname__")


def _repr(self: Any) -> str:
    fields = [f for f in dataclasses.fields(self) if f.repr]
    return f"{type(self).__qualname__}({', '.join(f'{f.name}={getattr(self, f.name)!r}' for f in fields)})"
