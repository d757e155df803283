"""Random programs of the kernel language that access arrays anywhere, in range and out of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from kernels_strategy import DrawnPick, Pick
from programs import VARIABLES, _Writer

ARRAYS = (("p", 1), ("q", 2), ("own", 1))


class _StrayWriter(_Writer):
    """`data`: indices and conditions may depend on what arrays hold, and on a number passed by value."""

    def __init__(self, pick: Pick, data: bool):
        super().__init__(pick)
        self.data = data
        self.budget = 14

    def expression(self, names: tuple[str, ...], depth: int = 2) -> str:
        known = ("name", "name", "constant", "extent", "sum", "sum", "divide", "clamp", "choice")
        kind = self.choose(*known, *(("load", "passed") if self.data else ())) if depth else "name"
        inner = lambda: self.expression(names, depth - 1)  # noqa: E731
        match kind:
            case "name":
                return self.choose(*names)
            case "constant":
                return str(self.pick.integer(-2, 6))
            case "extent":
                return self.choose("p.shape[0]", "q.shape[0]", "q.shape[1]", "len(p)")
            case "sum":
                return f"({inner()} {self.choose('+', '-', '^')} {inner()})"
            case "divide":
                return f"({inner()} {self.choose('//', '%', '&')} {self.pick.integer(1, 5)})"
            case "clamp":
                return f"wp.{self.choose('min', 'max')}({inner()}, {inner()})"
            case "choice":
                return f"({inner()} if {self.condition(names, depth - 1)} else {inner()})"
            case "load":
                return f"d[{inner()} & 7]"
            case _:
                return "m"

    def place(self, names: tuple[str, ...], extent: str) -> str:
        """An index, more often inside than not."""
        value = self.expression(names)
        return self.choose(
            value, f"wp.clamp({value}, 0, {extent} - 1)", f"({value} & 1023) % {extent}", f"wp.abs({value}) % {extent}",
            f"wp.min({value} & 15, {extent} - 1)",
        )  # fmt: skip

    def access(self, names: tuple[str, ...], indent: str) -> list[str]:
        array, rank = self.choose(*ARRAYS)
        places = [self.place(names, f"{array}.shape[{axis}]") for axis in range(rank)]
        element = f"{array}[{', '.join(places)}]"
        forms = [f"{element} = i", f"s += {element}", f"wp.atomic_max({array}, {', '.join(places)}, i)"]
        forms += [f"s ^= touch({array}, {places[0]})"] if rank == 1 else []
        return [indent + self.choose(*forms)]

    def statement(self, names: tuple[str, ...], depth: int, leave: tuple[str, ...], indent: str) -> list[str]:
        if self.pick.integer(0, 3) == 0:
            self.budget -= 1
            return self.access(names, indent)
        return super().statement(names, depth, leave, indent)


@st.composite
def stray_programs(draw: Callable[..., Any], rank: int, data: bool) -> str:
    """Source of a kernel `program(p, q, d, m, out)`, with `wp` for the language."""
    writer = _StrayWriter(DrawnPick(draw), data)
    lines = ["@wp.func", "def touch(a: wp.array[int], k: int):", "    return a[k]", "", "@wp.kernel"]
    lines += ["def program(p: wp.array[int], q: wp.array2d[int], d: wp.array[int], m: int, out: wp.array2d[int]):"]
    lines += ["    i = wp.tid()", "    y = i"] if rank == 1 else ["    i, y = wp.tid()"]
    lines += ["    own = wp.zeros(4, dtype=int)", "    x = i", "    z = 3", "    s = 0"]
    lines += writer.block((*VARIABLES, "i"), 2, ("return",), "    ")
    lines += writer.access((*VARIABLES, "i"), "    ")
    return "\n".join([*lines, "    out[i & 3, 0] = s"]) + "\n"
