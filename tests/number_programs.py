"""Random programs of the kernel language on numbers of every type; number_arithmetic.py has Python run them.

A program has functions that return early and call each other, a struct, vectors, arrays of a thread's own, rows passed
to functions that change them, atomics, launches of one and two axes, and variables of a few types, in loops and
branches.
"""

from __future__ import annotations

from typing import Any

import number_arithmetic
import numpy as np
from kernels_strategy import Pick, random_array

from jaxwarp.types import SCALARS, Scalar, bool_, int32

NUMBERS = tuple(t for t in SCALARS if t is not bool_)
GRIDS = ((8,), (3, 2))
COLUMNS, OWN, INPUTS, COMPONENTS = 3, 4, 8, 4


class Writer:
    """Writes one program, top down.

    Attributes:
        types: of its variables.
        dtypes: of its parameters.
        functions: their names.
    """

    functions = ("early", "nested", "change", "paired", "moved")

    def __init__(self, pick: Pick):
        self.pick = pick
        self.types = tuple(dict.fromkeys([*(pick.of(NUMBERS) for _ in range(pick.integer(1, 3))), int32]))
        self.grid = pick.of(GRIDS)
        self.here = ", ".join("ij"[: len(self.grid)])
        self.budget = 14
        self.fresh = 0
        self.names = {t: [f"x_{t.name}", f"y_{t.name}"] for t in self.types}
        self.inside = ""  # the function that is written, if it is not the kernel
        self.left = pick.of(self.types)
        self.right = pick.of(self.types)
        self.sums = pick.of([t for t in self.types if t.is_int and t.bits >= 32])
        numbers = [(t, 0) for t in (*self.types, *self.types, self.sums, bool_)]
        self.dtypes = (*numbers, (self.left, COMPONENTS))

    def arguments(self, seed: int) -> list[np.ndarray]:
        rng = np.random.default_rng(seed)
        inputs = [random_array(rng, t, (INPUTS,)) for t in self.types]
        outputs = [random_array(rng, t, (*self.grid, COLUMNS)) for t in self.types]
        return [*inputs, *outputs, np.zeros(2, self.sums.numpy), np.zeros(self.grid, bool),
                random_array(rng, self.left, (*self.grid, COMPONENTS))]  # fmt: skip

    def run(self, scope: dict[str, Any], arrays: list[np.ndarray]) -> None:
        """Has Python run the program that was defined in this scope."""
        number_arithmetic.run(scope, self.functions, self.grid, arrays, self.dtypes, self.left)

    def program(self) -> str:
        left, right = self.left.name, self.right.name
        rank = len(self.grid)
        inputs = [f"a_{t.name}: wp.array[wp.{t.name}]" for t in self.types]
        outputs = [f"out_{t.name}: wp.array(dtype=wp.{t.name}, ndim={rank + 1})" for t in self.types]
        rest = [f"sums: wp.array[wp.{self.sums.name}]", f"flags: wp.array(dtype=wp.bool, ndim={rank})"]
        rest += [f"vectors: wp.array(dtype=Vec, ndim={rank})"]
        lines = [f"Vec = wp.types.vector(length={COMPONENTS}, dtype=wp.{left})", ""]
        lines += ["@wp.struct", "class Pair:", f"    first: wp.{left}", f"    second: wp.{right}", "    third: Vec", ""]
        lines += self.function("early", f"x_{left}: wp.{left}, n: int", self.left, 4, early=True)
        lines += self.function("nested", f"x_{left}: wp.{left}, y_{right}: wp.{right}, n: int", self.right, 5)
        lines += ["@wp.func", f"def change(row: wp.array[wp.{left}], n: int, value: wp.{left}):", "    old = row[n]"]
        lines += ["    row[n] = value", "    return old", ""]
        lines += ["@wp.func", f"def paired(x: wp.{left}, y: wp.{right}):", "    made = Pair()"]
        lines += ["    made.first = x", "    made.second = y", "    made.third = Vec(x, x, x, x)"]
        lines += ["    return made", ""]
        lines += ["@wp.func", f"def moved(u: Vec, by: wp.{left}, n: int):", "    w = u * by", "    w[n] = by"]
        lines += ["    if n == 2:", "        return u - w", "    return w", ""]
        lines += ["@wp.kernel", f"def program({', '.join([*inputs, *outputs, *rest])}):", f"    {self.here} = wp.tid()"]
        lines += [f"    n = {' + '.join(self.here.split(', '))}", f"    own = wp.zeros({OWN}, dtype=wp.{left})"]
        for t in self.types:
            lines += [f"    x_{t.name} = a_{t.name}[n & 7]", f"    y_{t.name} = {self.literal(t)}"]
        lines += [f"    pair = paired(x_{left}, x_{right})", f"    v = vectors[{self.here}] * x_{left}"]
        lines += self.block(3, "    ")
        for t in self.types:
            lines += [
                f"    out_{t.name}[{self.here}, 0] = x_{t.name}",
                f"    out_{t.name}[{self.here}, 1] = y_{t.name}",
            ]
        lines += [f"    vectors[{self.here}] = v"]
        return "\n".join([*lines, f"    flags[{self.here}] = {self.condition()}"]) + "\n"

    def function(self, name: str, parameters: str, result: Scalar, budget: int, early: bool = False) -> list[str]:
        """What else it has of variables is made of literals."""
        kept = self.budget, self.names
        self.budget, self.inside = budget, name
        known = [f"x_{self.left.name}"] if early else [f"x_{self.left.name}", f"y_{self.right.name}"]
        missing = [n for t in self.types for n in self.names[t] if n not in known]
        lines = ["@wp.func", f"def {name}({parameters}):"]
        lines += [f"    {n} = {self.literal(t)}" for t in self.types for n in self.names[t] if n in missing]
        lines += [*self.block(2, "    "), f"    return {self.value(result)}", ""]
        self.budget, self.names = kept
        self.inside = ""
        return lines

    # Expressions

    def literal(self, dtype: Scalar) -> str:
        if dtype.is_float:
            return f"wp.{dtype.name}({self.pick.of(('0.0', '1.0', '-1.5', '3.0', '0.1', '100.0'))})"
        low = -9 if dtype.is_signed else 0
        return f"wp.{dtype.name}({self.pick.integer(low, 100 if self.pick.chance(20) else 9)})"

    def index(self, mask: int) -> str:
        dtype = self.pick.of([t for t in self.types if t.is_int])
        value = f"{self.value(dtype, 1)} & wp.{dtype.name}({mask})"
        return f"wp.int32({value})" if dtype is not int32 or self.pick.chance(30) else f"({value})"

    def value(self, dtype: Scalar, depth: int = 2) -> str:
        kinds = ["name", "name", "name", "literal"]
        kinds += ["binary"] * 5 + ["unary", "smaller", "choice", "where", "cast", "cast", "clamp"] if depth else []
        if not self.inside:
            kinds += [
                "input",
                *(["own", "part", "part"] if dtype is self.left else []),
                *(["pair"] if dtype in (self.left, self.right) else []),
            ]
        kinds += ["early"] if depth and dtype is self.left and self.inside != "early" else []
        kinds += ["nested"] if depth and dtype is self.right and not self.inside else []
        name, below = dtype.name, lambda: self.value(dtype, depth - 1)
        match self.pick.of(kinds):
            case "name":
                return self.pick.of(self.names[dtype])
            case "literal":
                return self.literal(dtype)
            case "input":
                return f"a_{name}[{self.index(7) if depth else 'n & 7'}]"
            case "own":
                return f"own[{self.index(OWN - 1) if depth else 'n & 3'}]"
            case "part":
                vector = self.pick.of(("v", "v", "pair.third", f"vectors[{self.here}]"))
                return f"{vector}[{self.index(COMPONENTS - 1) if depth else 'n & 3'}]" if depth else f"{vector}.x"
            case "pair":
                return "pair.first" if dtype is self.left else "pair.second"
            case "binary":
                bitwise = ("&", "|", "^", "<<", ">>")
                operator = self.pick.of(("+", "-", "*", "/", "//", "%", *(bitwise if dtype.is_int else ())))
                return f"({below()} {operator} {below()})"
            case "unary":
                signs = ("-", "wp.abs", "wp.sign")
                more = ("~", "wp.popcount") if dtype.is_int else ("wp.floor", "wp.ceil", "wp.trunc", "wp.rint")
                return f"{self.pick.of((*signs, *more))}({below()})"
            case "smaller":
                return f"wp.{self.pick.of(('min', 'max'))}({below()}, {below()})"
            case "clamp":
                return f"wp.clamp({below()}, {self.literal(dtype)}, {self.literal(dtype)})"
            case "choice":
                return f"({below()} if {self.condition()} else {below()})"
            case "where":
                return f"wp.where({self.condition()}, {below()}, {below()})"
            case "cast":
                return f"wp.{name}({self.value(self.pick.of(self.types), depth - 1)})"
            case "early":
                return f"early({below()}, {self.index(7)})"
            case _:
                return f"nested({self.value(self.left, depth - 1)}, {below()}, {self.index(7)})"

    def vector(self, depth: int = 1) -> str:
        one, two = (self.pick.of(("v", "v", "pair.third", f"vectors[{self.here}]")) for _ in range(2))
        if depth and self.pick.chance(30):
            two = self.vector(0)
        match self.pick.integer(0, 6):
            case 0:
                return f"({one} {self.pick.of('+-')} {two})"
            case 1:
                return f"({one} {self.pick.of('*/')} {self.value(self.left, 1)})"
            case 2:
                return f"wp.{self.pick.of(('min', 'max'))}({one}, {two})"
            case 3:
                return f"{self.pick.of(('-', 'wp.abs'))}({two})"
            case 4:
                return f"(({one} + {two}) if {self.condition()} else (-{one}))"
            case 5:
                return f"moved({two}, {self.value(self.left, 1)}, {self.index(COMPONENTS - 1)})"
            case _:
                return f"Vec({', '.join(self.value(self.left, 1) for _ in range(COMPONENTS))})"

    def condition(self, depth: int = 1) -> str:
        dtype = self.pick.of(self.types)
        value = lambda: self.value(dtype, 0)  # noqa: E731
        text = f"{value()} {self.pick.of(('<', '<=', '==', '!=', '>', '>='))} {value()}"
        match self.pick.integer(0, 5):
            case 0 if depth:
                return f"({text} {self.pick.of(('and', 'or'))} {self.condition(0)})"
            case 1:
                return f"(not ({text}))"
            case 2:
                return f"({value()} < {value()} <= {value()})"
            case 3:
                return f"wp.bool({value()})"
            case _:
                return f"({text})"

    # Statements

    def block(self, depth: int, indent: str) -> list[str]:
        return [line for _ in range(self.pick.integer(1, 4)) for line in self.statement(depth, indent)]

    def statement(self, depth: int, indent: str) -> list[str]:
        self.budget -= 1
        dtype = self.pick.of(self.types)
        name = self.pick.of(self.names[dtype][:2])
        kinds = ["assign", "assign", "assign", "update"]
        kinds += (
            ["return"]
            if self.inside
            else [
                "store",
                "add",
                "own",
                "row",
                "pair",
                "make",
                "atomic",
                "own atomic",
                "vector",
                "vector",
                "component",
                "component",
            ]
        )
        kinds += ["if", "if", "for", "while"] if depth and self.budget > 0 else []
        match self.pick.of(kinds):
            case "assign":
                lines = [f"{name} = {self.value(dtype)}"]
            case "update":
                operators = ("+", "-", "*", *(("//", "&", "|", "^", "<<", ">>") if dtype.is_int else ("/",)))
                lines = [f"{name} {self.pick.of(operators)}= {self.value(dtype, 1)}"]
            case "return":
                result = self.left if self.inside == "early" else self.right
                lines = [f"if {self.condition()}:", f"    return {self.value(result)}"]
            case "store":
                lines = [f"out_{dtype.name}[{self.here}, {self.pick.integer(0, 2)}] = {self.value(dtype)}"]
                lines += [f"{name} = out_{dtype.name}[{self.here}, {self.pick.integer(0, 2)}]"]
            case "add":
                lines = [
                    f"out_{dtype.name}[{self.here}, {self.index(1)}] {self.pick.of('+-*')}= {self.value(dtype, 1)}"
                ]
            case "own":
                lines = [f"own[{self.index(OWN - 1)}] {self.pick.of(('', '', '+', '-'))}= {self.value(self.left)}"]
            case "row":
                lines = [f"row = out_{self.left.name}[{self.here}]", self.changed("row", 1)]
                lines = lines if self.pick.chance(60) else [self.changed("own", OWN - 1)]
            case "pair":
                lines = [f"pair.first = {self.value(self.left)}", f"pair.second = {self.value(self.right)}"]
                lines = [self.pick.of(lines)]
            case "make":
                lines = [f"pair = paired({self.value(self.left)}, {self.value(self.right)})"]
            case "vector":
                target = self.pick.of(("v", "v", "pair.third", f"vectors[{self.here}]"))
                lines = [f"{target} {self.pick.of(('', '', '+', '-'))}= {self.vector()}"]
            case "component":
                target = self.pick.of(("v", "v", f"vectors[{self.here}]"))
                place = self.pick.of((f"[{self.index(COMPONENTS - 1)}]", f"[{self.index(COMPONENTS - 1)}]", ".x", ".y"))
                lines = [f"{target}{place} {self.pick.of(('', '', '+', '-', '*'))}= {self.value(self.left)}"]
            case "atomic":
                lines = [f"wp.atomic_add(sums, {self.index(1)}, {self.value(self.sums)})"]
            case "own atomic":
                kind = self.pick.of(("add", "min", "max", "exch", *(("xor",) if dtype.is_int else ())))
                lines = [f"{name} = wp.atomic_{kind}(out_{dtype.name}, {self.here}, 2, {self.value(dtype, 1)})"]
            case "if":
                lines = [f"if {self.condition()}:", *self.block(depth - 1, "    ")]
                for word in ("elif", "else"):
                    if self.pick.chance(40):
                        head = f"elif {self.condition()}:" if word == "elif" else "else:"
                        lines += [head, *self.block(depth - 1, "    ")]
            case "for":
                lines = self.for_(depth)
            case _:
                lines = self.while_(depth)
        return [indent + line for line in lines]

    def changed(self, array: str, mask: int) -> str:
        return f"x_{self.left.name} = change({array}, {self.index(mask)}, {self.value(self.left, 1)})"

    def leaving(self) -> list[str]:
        if not self.pick.chance(40):
            return []
        return [f"    if {self.condition()}:", f"        {self.pick.of(('break', 'continue'))}"]

    def for_(self, depth: int) -> list[str]:
        self.fresh += 1
        name, dtype = f"k{self.fresh}", self.pick.of([t for t in self.types if t.is_int])
        end = f"({self.value(dtype, 1)} & wp.{dtype.name}(3))"
        bounds = [(int32, "3"), (int32, "4, 0, -2"), (dtype, end), (dtype, f"wp.{dtype.name}(1), {end}")]
        bounds += [(dtype, f"{end}, wp.{dtype.name}(0), wp.{dtype.name}(-1)")] if dtype.is_signed else []
        kind, text = self.pick.of(bounds)
        before = self.names
        self.names = {t: [*names, name] if t is kind else names for t, names in before.items()}
        body = [*self.leaving(), *self.block(depth - 1, "    ")]
        self.names = before
        return [f"for {name} in range({text}):", *body]

    def while_(self, depth: int) -> list[str]:
        self.fresh += 1
        name = f"w{self.fresh}"
        test = f"{name} < 4 and {self.condition()}" if self.pick.chance(60) else f"{name} < 3"
        body = [f"    {name} += 1", *self.leaving(), *self.block(depth - 1, "    ")]
        return [f"{name} = 0", f"while {test}:", *body]
