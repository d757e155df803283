"""The C++ locals in scope and the IR value that each one holds now."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from jaxwarp.codegen.cuda.expression import CPP_TYPES, Expr
from jaxwarp.codegen.cuda.liveness import Liveness
from jaxwarp.codegen.cuda.names import Names, identifier
from jaxwarp.ir.nodes import Value


@dataclass(eq=False)
class Local:
    """A C++ variable.

    Attributes:
        base: the name asked for; `name` has a number where that was taken.
        occupant: the value in it; None: nothing that is needed.
    """

    name: str
    base: str
    cpp_type: str
    occupant: Value | None = None

    @property
    def expr(self) -> Expr:
        return Expr(self.name, reads=frozenset([self.name]))


class Locals:
    """Declares locals, and finds ones that a new value may take over because what they hold is no longer read."""

    def __init__(self, names: Names, live: Liveness):
        self.names = names
        self.live = live
        self._scopes: list[list[Local]] = [[]]
        self._protected: list[Local] = []

    def open(self) -> None:
        self.names.open()
        self._scopes.append([])

    def close(self) -> None:
        self.names.close()
        self._scopes.pop()

    def declare(self, value: Value, hint: str = "") -> Local:
        base = identifier(hint or value.name or "t")
        local = Local(self.names.fresh(base), base, CPP_TYPES[value.type.short], value)
        self._scopes[-1].append(local)
        return local

    def occupants(self) -> list[tuple[Local, Value | None]]:
        """Return the occupant of every local, for `restore` to use before the other branch, or after a loop."""
        return [(local, local.occupant) for scope in self._scopes for local in scope]

    def restore(self, occupants: Iterable[tuple[Local, Value | None]]) -> None:
        for local, occupant in occupants:
            local.occupant = occupant

    def protect(self, locals_: Sequence[Local]) -> None:
        """These keep what they hold until `unprotect`."""
        self._protected.extend(locals_)

    def unprotect(self, locals_: Sequence[Local]) -> None:
        for local in locals_:
            self._protected.remove(local)

    def holding(self, value: Value) -> Local | None:
        """The local that holds a value."""
        return next((x for scope in reversed(self._scopes) for x in scope if x.occupant is value), None)

    def named(self, value: Value) -> list[Local]:
        """Locals made for the user's variable that the value is named after, innermost first."""
        if not value.name:
            return []
        base = identifier(value.name)
        return [x for scope in reversed(self._scopes) for x in reversed(scope) if x.base == base]

    def is_free(self, local: Local, value: Value, still_read: frozenset[Value] = frozenset()) -> bool:
        """Return whether a local may get the value.

        Its type must fit, and its occupant must not be read later or be in `still_read`.
        """
        if local in self._protected or local.cpp_type != CPP_TYPES[value.type.short]:
            return False
        held = local.occupant
        return held is None or not (self.live.is_live(held) or held in still_read)
