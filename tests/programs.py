"""Random programs of the kernel language on integers, as Python source that Python itself can run.

Only operations that mean the same in Python and in int32 arithmetic are used: sums are masked, division is left out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st
from kernels_strategy import DrawnPick, Pick

VARIABLES = ("x", "y", "z")


class _Writer:
    """Draws a program top down; `depth` bounds nesting, `budget` the number of statements."""

    def __init__(self, pick: Pick):
        self.pick = pick
        self.budget = 28
        self.fresh = 0

    def choose(self, *options: Any) -> Any:
        return self.pick.of(options)

    def expression(self, names: tuple[str, ...], depth: int = 2) -> str:
        kind = self.choose("name", "name", "constant", "sum", "xor", "load", "choice", "call") if depth else "name"
        inner = lambda: self.expression(names, depth - 1)  # noqa: E731
        match kind:
            case "name":
                return self.choose(*names)
            case "constant":
                return str(self.pick.integer(0, 9))
            case "sum":
                return f"(({inner()} {self.choose('+', '-', '*')} {inner()}) & 255)"
            case "xor":
                return f"({inner()} {self.choose('^', '|', '&')} {inner()})"
            case "load":
                return f"a[{inner()} & 7]"
            case "choice":
                return f"({inner()} if {self.condition(names, depth - 1)} else {inner()})"
            case _:
                return f"helper({inner()}, {inner()})"

    def condition(self, names: tuple[str, ...], depth: int = 2) -> str:
        kind = self.choose("compare", "compare", "chain", "and", "or", "not", "bit") if depth else "compare"
        term = lambda: self.expression(names, max(0, depth - 1))  # noqa: E731
        inner = lambda: self.condition(names, depth - 1)  # noqa: E731
        match kind:
            case "compare":
                return f"{term()} {self.choose('<', '<=', '==', '!=', '>', '>=')} {term()}"
            case "chain":
                return f"{term()} < {term()} <= {term()}"
            case "and" | "or":
                return f"({inner()} {kind} {inner()})"
            case "not":
                return f"(not {inner()})"
            case _:
                return f"({term()} & 1)"

    def block(self, names: tuple[str, ...], depth: int, leave: tuple[str, ...], indent: str) -> list[str]:
        lines: list[str] = []
        for _ in range(self.pick.integer(1, 4)):
            lines += self.statement(names, depth, leave, indent)
        return lines

    def statement(self, names: tuple[str, ...], depth: int, leave: tuple[str, ...], indent: str) -> list[str]:
        self.budget -= 1
        nested = ("if", "if", "if", "for", "for", "while") if depth and self.budget > 0 else ()
        kind = self.choose("assign", "assign", "add", "swap", "local", "store", *nested, *leave)
        variable = self.choose(*VARIABLES)
        match kind:
            case "assign":
                return [f"{indent}{variable} = {self.expression(names)}"]
            case "add":
                return [f"{indent}{variable} {self.choose('^=', '|=', '&=')} {self.expression(names)}"]
            case "swap":
                other = self.choose(*VARIABLES)
                if other == variable:
                    return [f"{indent}pass"]
                return [f"{indent}{variable}, {other} = {self.expression(names)}, {variable}"]
            case "local":
                return [f"{indent}t = {self.expression(names)}", f"{indent}{variable} = t ^ {variable}"]
            case "store":
                return [f"{indent}out[i, {self.pick.integer(3, 5)}] = {self.expression(names)}"]
            case "if":
                return self.conditional(names, depth, leave, indent)
            case "for":
                return self.for_loop(names, depth, leave, indent)
            case "while":
                return self.while_loop(names, depth, leave, indent)
            case "return":
                return [indent + self.returned(names)]
            case _:
                return [indent + kind]

    def returned(self, names: tuple[str, ...]) -> str:
        return "return"

    def conditional(self, names: tuple[str, ...], depth: int, leave: tuple[str, ...], indent: str) -> list[str]:
        lines = [f"{indent}if {self.condition(names)}:", *self.block(names, depth - 1, leave, indent + "    ")]
        if self.pick.chance(50):
            lines += [f"{indent}elif {self.condition(names)}:", *self.block(names, depth - 1, leave, indent + "    ")]
        if self.pick.chance(50):
            lines += [f"{indent}else:", *self.block(names, depth - 1, leave, indent + "    ")]
        return lines

    def for_loop(self, names: tuple[str, ...], depth: int, leave: tuple[str, ...], indent: str) -> list[str]:
        self.fresh += 1
        index = f"k{self.fresh}"
        value = self.expression(names)
        bounds = self.choose(
            "3", "1, 4", "4, 0, -2", f"{value} & 3", f"1, {value} & 7, 2", f"{value} & 7, 0, -1",
            f"0, {value} & 15, 1 + ({value} & 3)", f"{value} & 7, 2, -1 - ({value} & 3)",
        )  # fmt: skip
        inner = tuple(dict.fromkeys([*leave, "break", "continue"])) if self.pick.chance(50) else ()
        if "return" in leave and self.pick.chance(50):
            inner = (*inner, "return")
        body = self.block((*names, index), depth - 1, tuple(dict.fromkeys(inner)), indent + "    ")
        return [f"{indent}for {index} in range({bounds}):", *body]

    def while_loop(self, names: tuple[str, ...], depth: int, leave: tuple[str, ...], indent: str) -> list[str]:
        self.fresh += 1
        fuel = f"w{self.fresh}"
        inner = tuple(dict.fromkeys([*leave, "break", "continue"]))
        body = self.block((*names, fuel), depth - 1, inner, indent + "    ")
        test = self.choose("True", self.condition(names))
        if test == "True":
            stop = [f"{indent}    if {fuel} > 4:", f"{indent}        break"]
        else:
            stop, test = [], f"{fuel} < 4 and {test}"
        return [f"{indent}{fuel} = 0", f"{indent}while {test}:", f"{indent}    {fuel} += 1", *stop, *body]


class _FunctionWriter(_Writer):
    """A function of two integers: stores nothing, returns a value."""

    def expression(self, names: tuple[str, ...], depth: int = 2) -> str:
        text = super().expression(names, depth)
        return self.choose(*names) if "a[" in text or "helper(" in text else text

    def statement(self, names: tuple[str, ...], depth: int, leave: tuple[str, ...], indent: str) -> list[str]:
        lines = super().statement(names, depth, leave, indent)
        return [f"{indent}pass"] if lines[0].lstrip().startswith("out[") else lines

    def returned(self, names: tuple[str, ...]) -> str:
        return f"return {self.expression(names)}"


def program(pick: Pick) -> str:
    """Source of a function `helper` and a kernel `program(a, out)`, with `wp` for the language."""
    function = _FunctionWriter(pick)
    function.budget = 10
    kernel = _Writer(pick)
    kernel.fresh = 50
    lines = ["@wp.func", "def helper(x: int, y: int):", "    z = 1"]
    lines += function.block(VARIABLES, 2, ("return",), "    ")
    lines += [f"    return {function.expression(VARIABLES)}", "", "@wp.kernel"]
    lines += ["def program(a: wp.array[int], out: wp.array2d[int]):", "    i = wp.tid()"]
    lines += ["    x = i", "    y = a[i]", "    z = 3"]
    lines += kernel.block((*VARIABLES, "i"), 3, ("return",), "    ")
    lines += ["    out[i, 0] = x", "    out[i, 1] = y", "    out[i, 2] = z"]
    return "\n".join(lines) + "\n"


@st.composite
def programs(draw: Callable[..., Any]) -> str:
    return program(DrawnPick(draw))
