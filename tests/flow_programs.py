"""Random programs of the kernel language in which what variables are at first decides what happens later.

Variables of every kind start as literals, and decide branches, conditions, exits from loops in loops and results of
functions. Functions call each other, return early, advance references, write to arrays and have defaults; structs and
vectors are changed in parts; loops go over ranges and elements; some variables are first set in branches and loops.

Python runs the same text with a stand-in for `wp`. In it references are cells: `&r1` is a variable that is handed over,
`r1` its value. All numbers are small multiples of a half, of which arithmetic is exact, or are masked.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import typed_programs
from kernels_strategy import Pick
from typed_programs import Bundle

THREADS, INTEGERS, REALS = 8, 13, 6
MOST_CALLS = 3000  # of functions, of a thread
ANNOTATIONS = {"int": "int", "float": "float", "bool": "bool", "vector": "wp.vec2", "struct": "S"}
STARTS = {
    "int": ("0", "1", "2"), "float": ("0.0", "1.0", "-0.5"), "bool": ("True", "False"),
    "vector": ("wp.vec2(0.0)", "wp.vec2(1.0, 2.0)"), "struct": ("S()", "S(1, 2.0)"),
}  # fmt: skip
VARIABLES = {"int": ("x", "y", "z"), "float": ("f", "g"), "bool": ("p", "q"), "vector": ("v",), "struct": ("s",)}
Names = dict[str, tuple[str, ...]]
"""Variables of each kind."""


@dataclass(frozen=True)
class Function:
    """What calls must know of a function: its parameters are those with a place, with a default, and by name only."""

    name: str
    kinds: tuple[str, ...]
    result: tuple[str, ...]
    own: bool
    reference: bool
    default: bool
    named: bool


class Writer:
    """Writes one program, top down."""

    def __init__(self, pick: Pick):
        self.pick = pick
        self.functions: list[Function] = []
        self.fresh = 0
        self.budget = 0
        self.result: tuple[str, ...] = ()
        self.in_kernel = False
        self.names: Names = {}
        self.targets: Names = {}

    def program(self) -> str:
        """Source of a kernel `program(a, out, real)`, with marks at what is handed over by reference."""
        lines = ["from typing import Any", "", "@wp.struct", "class S:"]
        lines += ["    n: int", "    f: float", "    v: wp.vec2", ""]
        for number in range(self.pick.integer(1, 3)):
            lines += self.function(f"f{number}")
        lines += ["@wp.kernel", "def program(a: wp.array[int], out: wp.array2d[int], real: wp.array2d[float]):"]
        lines += ["    i = wp.tid()", "    own = wp.zeros(4, dtype=int)"]
        lines += ["    &r1 = wp.int32(1)", "    &r2 = wp.int32(0)"]
        known = {"x": "i", "y": "a[i]", "g": "float(i)", "q": "i > 3"}
        lines += self.started(known)
        self.in_kernel, self.budget = True, 16
        self.begin(("r1", "r2"), ("i",))
        lines += self.loops("    ")
        lines += [f"    {line}" for function in self.functions for line in self.called(function)]
        integers = ["x", "y", "z", "r1", "r2", "s.n", "int(p)", "int(q)", *(f"own[{k}]" for k in range(4))]
        reals = ["f", "g", "v.x", "v.y", "s.f", "s.v.x + 2.0 * s.v.y"]
        lines += [f"    out[i, {k}] = {value}" for k, value in enumerate(integers)]
        lines += [f"    real[i, {k}] = {value}" for k, value in enumerate(reals)]
        return "\n".join(lines) + "\n"

    def function(self, name: str) -> list[str]:
        pick, chance = self.pick, self.pick.chance
        kinds = tuple(pick.of(tuple(ANNOTATIONS)) for _ in range(pick.integer(1, 3)))
        result = pick.of([*((kind,) for kind in ANNOTATIONS), ("int",), ("int", "float"), ("int", "bool", "vector")])
        made = Function(name, kinds, result, chance(50), chance(40), chance(40), chance(30))
        known, parameters = dict[str, str](), ["a: wp.array[int]"]
        parameters += ["own: wp.array[int]"] * made.own + ["&r1: wp.ref[int]"] * made.reference
        for number, kind in enumerate(kinds):
            annotation = ANNOTATIONS[kind] if chance(75) else "Any"
            parameters.append(f"u{number}: {annotation}")
            if (variable := pick.of(VARIABLES[kind])) not in known:
                # What is handed over is the caller's, in Python.
                known[variable] = self.copied(kind, f"u{number}")
        parameters += ["k: int = 2"] * made.default + ["*, b: bool = True"] * made.named
        lines = ["@wp.func", f"def {name}({', '.join(parameters)}):"]
        lines += [] if made.own else ["    own = wp.zeros(4, dtype=int)"]
        lines += self.started(known)
        self.result, self.budget = result, 12
        self.begin(("r1",) * made.reference, ("k",) * made.default, ("b",) * made.named)
        names, targets = self.names, self.targets
        if chance(25):
            # Of note is what it does, not what it returns.
            body = ["    r1 += 1"] * made.reference + ["    own[y & 3] += 1", f"    {self.returned(known=True)}"]
        else:
            body = [*self.block(1, (), "    "), *self.loops("    "), f"    {self.returned()}"]
        self.names, self.targets = names, targets
        lines += [*body, ""]
        self.functions.append(made)
        return lines

    def copied(self, kind: str, name: str) -> str:
        return {"vector": f"1.0 * {name}", "struct": f"S({name}.n, {name}.f, 1.0 * {name}.v)"}.get(kind, name)

    def started(self, known: dict[str, str]) -> list[str]:
        """Of literals, but for those that are known."""
        names = [(kind, name) for kind in VARIABLES for name in VARIABLES[kind]]
        return [f"    {name} = {known.get(name) or self.pick.of(STARTS[kind])}" for kind, name in names]

    def begin(self, references: tuple[str, ...], integers: tuple[str, ...], booleans: tuple[str, ...] = ()) -> None:
        """Variables that are there at first; numbers and flags may only be read."""
        self.targets = VARIABLES | {"int": VARIABLES["int"] + references, "reference": references}
        self.names = self.targets | {"int": self.targets["int"] + integers, "bool": self.targets["bool"] + booleans}

    # Expressions

    def value(self, kind: str, depth: int | None = None) -> str:
        if depth is None:
            depth = self.pick.integer(1, 2) if self.pick.chance(60) else 1
        if depth and (fitting := self.fitting(kind)) and self.pick.chance(20):
            return self.call(self.pick.of(fitting), depth - 1)
        if depth and self.pick.chance(10):
            return f"({self.value(kind, depth - 1)} if {self.condition(depth - 1)} else {self.value(kind, depth - 1)})"
        return {
            "int": self.integer, "float": self.real, "bool": self.boolean, "vector": self.vector, "struct": self.struct,
        }[kind](depth)  # fmt: skip

    def name(self, kind: str) -> str:
        return self.pick.of(self.names[kind])

    def integer(self, depth: int) -> str:
        inner = lambda: self.value("int", depth - 1)  # noqa: E731
        kinds = ("sum", "bits", "load", "own", "field", "component") if depth else ()
        match self.pick.of(("name", "name", "name", "constant", *kinds)):
            case "name":
                return self.name("int")
            case "constant":
                return str(self.pick.of((0, 1, 2, 3, self.pick.integer(-2, 9))))
            case "sum":
                return f"(({inner()} {self.pick.of('+-*')} {inner()}) & 255)"
            case "bits":
                return f"({inner()} {self.pick.of('^|&')} {inner()})"
            case "load":
                return f"a[{inner()} & 7]"
            case "own":
                return f"own[{inner()} & 3]"
            case "field":
                return f"{self.name('struct')}.n"
            case _:
                return f"int({self.name('vector')}[{inner()} & 1])"

    def real(self, depth: int) -> str:
        inner = lambda: self.value("float", depth - 1)  # noqa: E731
        kinds = ("sum", "cast", "least", "negative", "component", "dynamic", "field") if depth else ()
        match self.pick.of(("name", "name", "name", "constant", *kinds)):
            case "name":
                return self.name("float")
            case "constant":
                return self.pick.of(("0.0", "0.5", "1.0", "3.0", "-1.5"))
            case "sum":
                return f"({inner()} {self.pick.of('+-')} {inner()})"
            case "cast":
                return f"float({self.value('int', depth - 1)})"
            case "least":
                return f"wp.{self.pick.of(('min', 'max'))}({inner()}, {inner()})"
            case "negative":
                return f"(-{inner()})"
            case "component":
                return f"{self.name('vector')}.{self.pick.of('xy')}"
            case "dynamic":
                return f"{self.name('vector')}[{self.value('int', depth - 1)} & 1]"
            case _:
                return f"{self.name('struct')}.{self.pick.of(('f', 'v.x', 'v.y'))}"

    def boolean(self, depth: int) -> str:
        inner = lambda: self.value("bool", depth - 1)  # noqa: E731
        number = self.pick.of(("int", "int", "float"))
        term = lambda: self.value(number, max(depth - 1, 0))  # noqa: E731
        kinds = ("compare", "chain", "joined", "joined", "not", "constant") if depth else ()
        match self.pick.of(("name", "compare", *kinds)):
            case "name":
                return self.name("bool")
            case "compare":
                return f"({term()} {self.pick.of(('<', '<=', '==', '!=', '>', '>='))} {term()})"
            case "chain":
                return f"({term()} {self.pick.of(('<', '!='))} {term()} <= {term()})"
            case "joined":
                return f"({inner()} {self.pick.of(('and', 'or'))} {inner()})"
            case "not":
                return f"(not {inner()})"
            case _:
                return self.pick.of(("True", "False"))

    def condition(self, depth: int | None = None) -> str:
        """Often of a variable alone, and of what it may have been at first."""
        number = self.name("int")
        match self.pick.integer(0, 5):
            case 0:
                return self.pick.of((number, f"({number} & 1)", self.name("float"), f"(not {number})"))
            case 1:
                return f"({number} {self.pick.of(('==', '==', '!=', '<', '>='))} {self.pick.integer(0, 4)})"
            case 2:
                return self.name("bool")
            case _:
                return self.value("bool", depth)

    def vector(self, depth: int) -> str:
        inner = lambda kind: self.value(kind, max(depth - 1, 0))  # noqa: E731
        match self.pick.of(("name", "made", *(("sum", "field") if depth else ()))):
            case "name":
                return f"(1.0 * {self.name('vector')})"
            case "made":
                return f"wp.vec2({inner('float')}, {inner('float')})"
            case "sum":
                return f"({inner('vector')} {self.pick.of('+-')} {inner('vector')})"
            case _:
                return f"(1.0 * {self.name('struct')}.v)"

    def struct(self, depth: int) -> str:
        number = self.value("int", max(depth - 1, 0))
        if self.pick.chance(30):
            return self.copied("struct", self.name("struct"))
        if self.pick.chance(50):
            return f"S({number}, v={self.limited('vector', max(depth - 1, 0))})"
        return f"S({number}, {self.clamped(self.value('float', max(depth - 1, 0)))})"

    def clamped(self, text: str) -> str:
        return f"wp.clamp({text}, -64.0, 64.0)"

    def limited(self, kind: str, depth: int | None = None) -> str:
        """A value that may be assigned: what is computed of it again and again stays small."""
        text = self.value(kind, depth)
        if kind == "vector":
            return f"wp.clamp({text}, wp.vec2(-64.0), wp.vec2(64.0))"
        return self.clamped(text) if kind == "float" else text

    def fitting(self, kind: str) -> list[Function]:
        """Functions that return a value of a kind, and that can be called here."""
        return [f for f in self.functions if f.result == (kind,) and (self.targets["reference"] or not f.reference)]

    def call(self, function: Function, depth: int) -> str:
        references = self.targets["reference"]
        arguments = ["a"] + ["own"] * function.own
        arguments += [f"&{self.pick.of(references)}"] if function.reference else []
        arguments += [self.value(kind, depth) for kind in function.kinds]
        if function.default and self.pick.chance(60):
            arguments.append(self.pick.of(("", "k=")) + self.value("int", depth))
        if function.named and self.pick.chance(60):
            arguments.append(f"b={self.value('bool', depth)}")
        return f"{function.name}({', '.join(arguments)})"

    # Statements

    def loops(self, indent: str) -> list[str]:
        """Two of them, and what is there between them."""
        lines: list[str] = []
        for _ in range(2):
            lines += [self.for_loop, self.while_loop][self.pick.chance(40)](3, ("return",))
            lines += self.statement(1, ("return",))
        return [indent + line for line in lines]

    def block(self, depth: int, leave: tuple[str, ...], indent: str) -> list[str]:
        """What it sets first is not there after it."""
        names, targets = self.names, self.targets
        lines = [indent + line for _ in range(self.pick.integer(1, 3)) for line in self.statement(depth, leave)]
        if leave and self.pick.chance(15):
            lines.append(indent + self.left(leave))
        self.names, self.targets = names, targets
        return lines

    def know(self, kind: str, name: str, is_target: bool = True) -> None:
        self.names = self.names | {kind: (*self.names[kind], name)}
        if is_target:
            self.targets = self.targets | {kind: (*self.targets[kind], name)}

    def new(self, letter: str) -> str:
        self.fresh += 1
        return f"{letter}{self.fresh}"

    def statement(self, depth: int, leave: tuple[str, ...]) -> list[str]:
        self.budget -= 1
        kinds = ("assign", "assign", "state", "state", "state", "update", "update")
        kinds = (*kinds, "swap", "local", "part", "own", "call")
        if leave and self.pick.chance(20):
            kinds = ("leave",)
        elif depth and self.budget > 0 and self.pick.chance(45):
            kinds = ("if", "if", "for", "for", "while", "both")
        match self.pick.of(kinds):
            case "assign":
                kind = self.pick.of(tuple(ANNOTATIONS))
                return [f"{self.pick.of(self.targets[kind])} = {self.limited(kind)}"]
            case "update":
                if self.pick.chance(30):
                    return [f"{self.pick.of(self.targets['float'])} {self.pick.of('+-')}= 0.5"]
                parts = [*[f"own[{self.name('int')} & 3]"] * 3, f"{self.name('struct')}.n"]
                number = self.pick.of((*parts, *self.targets["int"], *self.targets["reference"]))
                fitting = self.fitting("int")
                value = self.call(self.pick.of(fitting), 0) if fitting and self.pick.chance(60) else self.value("int")
                if advanced := re.search(r"&(r\d)", value):
                    number = advanced[1]
                return [f"{number} {self.pick.of('^|&')}= {value}"]
            case "state":
                if self.pick.chance(30):
                    flag = self.pick.of(self.targets["bool"])
                    return [f"{flag} = {self.pick.of(('True', 'False', f'not {flag}'))}"]
                number, becomes = self.pick.of(self.targets["int"]), self.pick.of(("= 1", "= 2", "= 3", "+= 1"))
                return [f"{number} {becomes}" if self.pick.chance(70) else f"{number} = {self.name('int')}"]
            case "swap":
                one, two = self.pick.of(self.targets["int"]), self.pick.of(self.targets["int"])
                return [f"{one}, {two} = {self.value('int')}, {one}"] if one != two else ["pass"]
            case "local":
                kind, name = self.pick.of(("int", "float", "bool")), self.new("t")
                lines = [f"{name} = {self.limited(kind)}"]
                self.know(kind, name)
                return lines
            case "part":
                return [self.part()]
            case "own":
                is_own = self.pick.chance(70) or not self.in_kernel
                place = f"own[{self.value('int', 1)} & 3]" if is_own else "out[i, 12]"
                return [f"{place} {self.pick.of(('=', '=', '^=', '|='))} {self.value('int')} & 255"]
            case "call":
                return self.called(self.pick.of(self.functions)) if self.functions else ["pass"]
            case "both":
                return self.set_in_both(depth, leave)
            case "if":
                return self.conditional(depth, leave)
            case "for":
                return self.for_loop(depth, leave)
            case "while":
                return self.while_loop(depth, leave)
            case _:
                variable = self.pick.of((*self.targets["int"], *self.targets["bool"]))
                state = variable if variable in self.targets["bool"] else f"{variable} == {self.pick.integer(0, 3)}"
                return [f"if {state if self.pick.chance(60) else self.condition(1)}:", f"    {self.left(leave)}"]

    def left(self, leave: tuple[str, ...]) -> str:
        way = self.pick.of(leave)
        return self.returned() if way == "return" else way

    def part(self) -> str:
        """Sets a component or a field."""
        vector = self.pick.of((*self.targets["vector"], f"{self.pick.of(self.targets['struct'])}.v"))
        struct = self.pick.of(self.targets["struct"])
        match self.pick.integer(0, 3):
            case 0:
                return f"{vector}.{self.pick.of('xy')} = {self.limited('float')}"
            case 1:
                becomes = f"= {self.limited('float')}" if self.pick.chance(60) else "-= 0.5"
                return f"{vector}[{self.value('int', 1)} & 1] {becomes}"
            case 2:
                return f"{struct}.v = {self.limited('vector')}"
            case _:
                kind, field = self.pick.of((("int", "n"), ("float", "f")))
                return f"{struct}.{field} = {self.limited(kind)}"

    def called(self, function: Function) -> list[str]:
        """What a function returns, several values or one."""
        if function.reference and not self.targets["reference"]:
            return ["pass"]
        value = self.call(function, 1)
        if len(function.result) == 1 and self.pick.chance(40):
            value = f"{value} if {self.condition()} else {self.call(function, 1)}"
        return [f"{', '.join(self.pick.of(self.targets[kind]) for kind in function.result)} = {value}"]

    def returned(self, known: bool = False) -> str:
        if self.in_kernel:
            return "return"
        if known or self.pick.chance(30):
            return f"return {', '.join(STARTS[kind][0] for kind in self.result)}"
        return f"return {', '.join(self.limited(kind) for kind in self.result)}"

    def conditional(self, depth: int, leave: tuple[str, ...]) -> list[str]:
        lines = [f"if {self.condition()}:", *self.block(depth - 1, leave, "    ")]
        if self.pick.chance(50):
            lines += [f"elif {self.condition()}:", *self.block(depth - 1, leave, "    ")]
        if self.pick.chance(50):
            lines += ["else:", *self.block(depth - 1, leave, "    ")]
        return lines

    def set_in_both(self, depth: int, leave: tuple[str, ...]) -> list[str]:
        """A variable that either side of a condition sets first."""
        kind, name = self.pick.of(("int", "float", "bool", "vector")), self.new("t")
        lines = [f"if {self.condition()}:", *self.block(depth - 1, leave, "    "), f"    {name} = {self.limited(kind)}"]
        lines += ["else:", *self.block(depth - 1, leave, "    "), f"    {name} = {self.limited(kind)}"]
        self.know(kind, name)
        return lines

    def loop(
        self, depth: int, leave: tuple[str, ...], head: list[str], known: list[tuple[str, str]], runs: bool
    ) -> list[str]:
        """A body after its first lines; what these set is there after a loop that makes an iteration."""
        if runs and self.pick.chance(30):
            known = [*known, ("int", self.new("t"))]
            head = [*head, f"    {known[-1][1]} = {self.value('int', 1)}"]
        names, targets = self.names, self.targets
        for kind, name in known:
            self.know(kind, name)
        body = self.block(depth - 1, leave, "    ")
        if not runs:
            self.names, self.targets = names, targets
        return [*head, *body]

    def inner(self, leave: tuple[str, ...]) -> tuple[str, ...]:
        """How the body of a loop may be left."""
        own = self.pick.of(((), ("break",), ("continue",), ("break", "continue")))
        return (*own, *(("return",) if "return" in leave and self.pick.chance(80) else ()))

    def for_loop(self, depth: int, leave: tuple[str, ...]) -> list[str]:
        index, value = self.new("k"), self.value("int")
        leave, known, runs = self.inner(leave), [("int", index)], True
        kind = self.pick.of(("known", "known", "computed", "computed", "computed", "elements", "numbered", "vector"))
        match kind:
            case "known":
                longer = ("20", "9, -9, -1") if depth == 1 else ("2",)
                bounds = self.pick.of(("3", "1", "1, 4", "4, 0, -2", *longer))
                head = f"for {index} in range({bounds}):"
            case "computed":
                bounds = self.pick.of((
                    f"{value} & 3", f"1, {value} & 7, 2", f"{value} & 7, 0, -1", f"{value} & 3, 4",
                    f"0, {value} & 7, 1 + ({self.name('int')} & 3)", f"{value} & 7, 2, -1 - ({self.name('int')} & 3)",
                ))  # fmt: skip
                over, runs = f"range({bounds})", False
                head = f"for {index} in {f'reversed({over})' if self.pick.chance(15) else over}:"
            case "vector":
                known = [("float", index)]
                head = f"for {index} in {self.value('vector', 1)}:"
            case _:
                elements = [self.value("int", 1) for _ in range(self.pick.integer(1, 3))]
                over = f"({', '.join(elements)},)"
                number = self.new("k")
                head = f"for {index} in {over}:"
                if kind == "numbered":
                    head = f"for {number}, {index} in enumerate({over}):"
                    known.append(("int", number))
        return self.loop(depth, leave, [head], known, runs)

    def while_loop(self, depth: int, leave: tuple[str, ...]) -> list[str]:
        fuel = self.new("w")
        self.know("int", fuel, is_target=False)
        leave = self.inner(leave)
        if self.pick.chance(50):
            head = ["while True:", f"    {fuel} += 1", f"    if {fuel} > {self.pick.integer(1, 5)}:", "        break"]
        else:
            test = (f"{fuel} < 4", self.condition())
            head = [f"while {' and '.join(test if self.pick.chance(70) else test[::-1])}:", f"    {fuel} += 1"]
        return [f"{fuel} = 0", *self.loop(depth, leave, head, [], False)]


# What Python makes of them


class TooLong(Exception):
    """A program that calls functions so often that nobody would wait for it."""


class Cell:
    """An integer that functions advance."""

    def __init__(self, value: int):
        self.value = value


class Record:
    """The struct of the programs."""

    def __init__(self, n: int = 0, f: float = 0.0, v: Bundle | None = None):
        self.n, self.f, self.v = n, f, v or Bundle([0.0, 0.0])


class StandIn(typed_programs.StandIn):
    """What the programs use of `wp`."""

    int32 = Cell
    calls = 0

    def kernel(self, function: Callable[..., None]) -> Callable[..., None]:
        return function

    def func(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any, **kwargs: Any) -> Any:
            self.calls += 1
            if self.calls > MOST_CALLS:
                raise TooLong
            return function(*args, **kwargs)

        return counted

    def struct(self, _: type) -> type:
        return Record

    def zeros(self, count: int, dtype: type) -> list[Any]:
        return [dtype(0)] * count


def of_kernel(program: str) -> str:
    """The text as the kernel language has it."""
    return re.sub(r"&(r\d)", r"\1", program)


def run_in_python(program: str, arrays: list[np.ndarray]) -> None:
    """Raises:
    TooLong: it takes too many calls.
    """
    text = re.sub(r"(?<![&\w.])(r\d)\b", r"\1.value", program).replace("&r", "r")
    stand_in = StandIn()
    scope: dict[str, Any] = {"wp": stand_in}
    exec(compile(f"from __future__ import annotations\n{text}", "<a program in Python>", "exec"), scope)
    a, out, real = arrays
    for stand_in.index in range(THREADS):
        stand_in.calls = 0
        scope["program"](a.tolist(), out, real)


def arguments() -> list[np.ndarray]:
    a = np.arange(3, 3 + THREADS, dtype=np.int32) * 7 % 11
    return [a, np.zeros((THREADS, INTEGERS), np.int32), np.zeros((THREADS, REALS), np.float32)]


def written(pick: Pick) -> tuple[str, list[np.ndarray]]:
    """A program, and what Python makes of its arguments."""
    while True:
        program, arrays = Writer(pick).program(), arguments()
        try:
            run_in_python(program, arrays)
        except TooLong:
            continue
        return program, arrays
