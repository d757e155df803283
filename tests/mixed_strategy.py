"""Random sweeps over rows, arrays of the thread's own and tiles that they change, as texts in the kernel language.

    a, b    in-out: rows of a thread;   c: in-out, a matrix of a thread
    x       input, which scalars start with
    at      integers: elements of rows, counted from either end;   count: 0 to 3, ends of loops
    out     what scalars and own arrays leave, besides

Arrays are short, and an element that was accessed is likely to be accessed again by another index: one that counts from
the end, runs backwards, wraps around, or was found in data. What an iteration reads goes through something nonlinear
before a later one overwrites it. Some rows are copies of others where `min` and `max` compare them, so that both
operands are one function, which has one derivative. `mixed_reference.py` runs the same text on arrays of NumPy.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from derivativekit import Case
from kernels_strategy import Pick, RandomPick
from language import define

from jaxwarp.ir.verify import verify
from jaxwarp.passes.pipeline import fix_rounding
from jaxwarp.types import float64

THREADS, PLACES, SIDE = 2, 12, 2
HEAD = """
@wp.kernel
def k(x: wp.array[F], at: wp.array[int], count: wp.array[int], a: wp.array2d[F], b: wp.array2d[F], c: wp.array3d[F],
      out: wp.array2d[F]):
    i = wp.tid()
    s = x[0]
    r = x[1]
"""
# Slopes near 1, of what does not grow: neither do derivatives vanish, nor do differences of them.
FORMULAS = (
    "wp.sin({0} * {1})",
    "wp.sin({0} + {1} * {2})",
    "{0} + F(0.3) * wp.sin({1})",
    "{0} * wp.cos({1})",
    "wp.tanh({0} * {1} + F(0.6))",
    "F(0.8) * {0} - F(0.4) * wp.cos({1}) * wp.cos({1})",
    "{0} * wp.cos({1}) + F(0.4) * {2}",
    "wp.max({0}, F(0.7) * {1}) * wp.cos({2})",
    "wp.min({0}, {1}) * wp.cos({2}) + F(0.2)",
)


@dataclass(frozen=True)
class Array:
    """An array as a text accesses it: its extents, and how the text names them."""

    name: str
    extents: tuple[int, ...]
    texts: tuple[str, ...]
    is_row: bool = False

    def element(self, indices: Sequence[str]) -> str:
        return f"{self.name}[{', '.join((*('i',) * self.is_row, *indices))}]"


@dataclass(frozen=True)
class Index:
    """An integer of a text, and between which numbers it is."""

    text: str
    low: int
    high: int


# Start, stop and step of a loop, and between which numbers its variable is.
Range = tuple[str, str, int, int, int]


class Writer:
    """Writes one kernel. `budget` bounds the number of its statements."""

    def __init__(self, pick: Pick):
        self.pick = pick
        self.lines: list[str] = []
        self.depth = 1
        self.names = 0
        self.budget = pick.of((2, 3, 3, 4, 5))
        self.variables: list[Index] = []
        self.seen: list[tuple[Array, list[str], list[Index]]] = []
        n = pick.of((4, 5, 6))
        m, is_literal = pick.of((n, n, 4, 7)), pick.chance(35)
        self.rows = [self.row("a", n, is_literal), self.row("b", m, is_literal)]
        self.matrix = Array("c", (SIDE, SIDE + 1), (f"{SIDE}", f"{SIDE + 1}" if is_literal else "c.shape[2]"), True)
        self.arrays = [*self.rows, self.rows[0]]
        self.own: list[Array] = []
        self.scalars = ["s", "r"]

    def row(self, name: str, extent: int, is_literal: bool) -> Array:
        return Array(name, (extent,), (str(extent) if is_literal else f"{name}.shape[1]",), True)

    def source(self) -> str:
        for _ in range(self.pick.integer(0, 2)):
            self.make()
        if self.pick.chance(25):
            self.arrays += [self.matrix] * 2
        while self.budget > 0:
            if self.pick.chance(20):
                self.statement()
            self.loop()
        self.leave()
        return HEAD + textwrap.indent("\n".join(self.lines), "    ")

    def leave(self) -> None:
        """Stores what scalars and arrays of the thread's own hold in the end."""
        self.line("out[i, 0] = s * r")
        for array in self.own:
            target, count = self.pick.of(self.rows), min(array.extents[0], 4)
            read = array.element(["q"] if len(array.extents) == 1 else ["q", self.pick.of(("0", "-1"))])
            self.line(f"for q in range({count}):")
            self.line(f"    {target.element(['q'])} += F(0.7) * {read}")

    # Texts

    def line(self, text: str) -> None:
        self.lines.append("    " * (self.depth - 1) + text)

    def name(self, kind: str) -> str:
        self.names += 1
        return f"{kind}{self.names}"

    def inside(self, head: str, body: Callable[[], object], variable: Index | None = None) -> None:
        """A block, in which what is made inside is visible."""
        scalars, seen, arrays = list(self.scalars), list(self.seen), list(self.arrays)
        self.line(head)
        self.depth += 1
        if variable is not None:
            self.variables.append(variable)
        before = len(self.lines)
        body()
        if len(self.lines) == before:
            self.line("s = s + F(0.1)")
        self.depth -= 1
        if variable is not None:
            self.variables.pop()
        self.scalars, self.arrays = scalars, arrays
        self.seen = seen + [entry for entry in self.seen[len(seen):] if self.is_visible(entry)]

    def is_visible(self, entry: tuple[Array, list[str], list[Index]]) -> bool:
        """Have its variables not ended?"""
        return all(v in self.variables for v in entry[2])

    # Elements

    def place(self, array: Array) -> list[str]:
        """Indices of an element: often those of one that was accessed before, in this array or another."""
        known = [entry for entry in self.seen if fits(entry[0], array)]
        if known and self.pick.chance(35):
            return self.pick.of(known[::-1][:3])[1]
        indices = [self.index(n, text) for n, text in zip(array.extents, array.texts, strict=True)]
        used = [v for v in self.variables if any(is_in(v.text, text) for text in indices)]
        self.seen.append((array, indices, used))
        return indices

    def index(self, extent: int, text: str) -> str:
        is_from_end = self.pick.chance(50)
        for attempt in range(30):
            found = self.try_index(extent, text)
            if -extent <= found.low and found.high < extent and (found.low < 0 or not is_from_end or attempt > 20):
                return found.text
        return self.pick.of(("-1", "0"))

    def try_index(self, extent: int, text: str) -> Index:
        """An integer that may be in range."""
        pick, choice = self.pick, self.pick.integer(0, 99)
        shift = pick.of((0, -1, -1, 1, -2, 2, -3))
        if not self.variables or choice < 6:
            number = pick.of((-1, 0, -2, 1, 2, -extent, extent - 1))
            return Index(str(number), number, number)
        k = self.variables[-1] if pick.chance(75) else pick.of(self.variables)
        if choice < 45:
            return Index(plus(k.text, shift), k.low + shift, k.high + shift)
        if choice < 60:
            return Index(f"{shift} - {k.text}", shift - k.high, shift - k.low)
        if choice < 68:
            return Index(f"{text} - 1 - {k.text}", extent - 1 - k.high, extent - 1 - k.low)
        if choice < 76:
            return Index(f"{plus(k.text, shift)} - {text}", k.low + shift - extent, k.high + shift - extent)
        if choice < 84:
            if k.low + abs(shift) < 0:
                return Index("0", 0, 0)
            return Index(f"({plus(k.text, abs(shift))}) % {text}", 0, min(extent - 1, k.high + abs(shift)))
        if choice < 92 and len(self.variables) > 1:
            other = pick.of(self.variables)
            if pick.chance(50):
                return Index(f"{k.text} - {other.text}", k.low - other.high, k.high - other.low)
            low, high = k.low + other.low, k.high + other.high
            return Index(f"{k.text} + {plus(other.text, shift)}", low + shift, high + shift)
        if choice < 96:
            return Index(f"{plus(k.text, shift)} - count[0]", k.low + shift - 3, k.high + shift)
        if k.low < 0 or k.high >= PLACES:
            return Index("-1", -1, -1)
        return Index(f"at[{k.text}]", -4, 3)

    def array(self) -> Array:
        return self.pick.of(self.arrays[::-1][:4])

    def element(self, array: Array | None = None) -> str:
        array = array or self.array()
        return array.element(self.place(array))

    def operand(self) -> str:
        return self.element() if self.pick.chance(70) else self.pick.of(self.scalars[::-1][:3])

    def value(self, *given: str) -> str:
        formula = self.pick.of(FORMULAS)
        operands = [*given, *(self.operand() for _ in range(3 - len(given)))]
        return formula.format(*operands)

    # Statements

    def statements(self) -> None:
        for _ in range(self.pick.of((1, 1, 2, 2, 3))):
            self.statement()

    def statement(self) -> None:
        self.budget -= 1
        choice = self.pick.integer(0, 99)
        if choice < 30:
            self.in_place()
        elif choice < 42:
            self.line(f"{self.element()} = {self.value()}")
        elif choice < 49:
            self.local()
        elif choice < 56:
            self.swap()
        elif choice < 61:
            self.equal()
        elif choice < 66:
            self.line(f"{self.element()} {self.pick.of(('+=', '-='))} {self.value()}")
        elif choice < 71:
            self.scalar()
        elif choice < 73:
            self.make()
        elif choice < 80:
            self.if_()
        elif choice < 88:
            self.tile()
        elif len(self.variables) < self.pick.of((2, 2, 3)):
            self.loop()

    def in_place(self) -> None:
        """An element that is made of itself and another one, often a neighbour."""
        array = self.array()
        if self.variables and self.pick.chance(50):
            element, other = self.neighbours(array)
        else:
            element = self.element(array)
            other = self.element(array if self.pick.chance(70) else None)
        self.line(f"{element} = {self.value(*self.pick.of(((element, other), (other, element), (other, other))))}")

    def neighbours(self, array: Array) -> tuple[str, str]:
        """Two elements that are the same one in different iterations of a loop."""
        k, (*outer, extent), (*_, text) = self.pick.of(self.variables[::-1][:2]), array.extents, array.texts
        before = [self.index(n, t) for n, t in zip(outer, array.texts, strict=False)]
        options = [(k.text, k.low, k.high), (f"{text} - 1 - {k.text}", extent - 1 - k.high, extent - 1 - k.low)]
        moving, low, high = options[self.pick.chance(20)]
        shifts = [n for n in (0, -1, 1, -2, 2) if -extent <= low + n and high + n < extent]
        if len(shifts) < 2:
            return self.element(array), self.element(array)
        first = self.pick.of(shifts[:2])
        second = self.pick.of([n for n in shifts if n != first])
        return array.element([*before, plus(moving, first)]), array.element([*before, plus(moving, second)])

    def local(self) -> None:
        """A value that is read before its element is overwritten, and used after that."""
        name, array = self.name("v"), self.array()
        place = self.place(array)
        self.line(f"{name} = {self.pick.of(('wp.sin({0})', '{0}', '{0} * wp.cos({0})')).format(array.element(place))}")
        if self.pick.chance(60):
            self.line(f"{array.element(place)} = {self.value(name)}")
        self.scalars.append(name)

    def swap(self) -> None:
        first, second, name = self.element(), self.element(), self.name("v")
        self.line(f"{name} = {first}")
        self.line(f"{first} = {second}" if self.pick.chance(60) else f"{first} = {second} * wp.cos({name})")
        self.line(f"{second} = {name}")

    def equal(self) -> None:
        """A copy of a row, and the lesser or greater of both: one function, with the derivative of either, once."""
        source, copy = self.pick.of((self.rows, self.rows[::-1]))
        count, is_alike = min(source.extents[0], copy.extents[0]), source.extents == copy.extents
        q, place = self.name("q"), self.pick.of(("{}", "{} - 1", "-1 - {}")) if is_alike else "{}"
        operands = [array.element([place.format(q)]) for array in self.pick.of(((source, copy), (copy, source)))]
        self.line(f"for {q} in range({count}):")
        self.line(f"    {copy.element([q])} = {source.element([q])}")
        self.line(f"for {q} in range({count}):")
        self.line(f"    s = wp.sin(wp.{self.pick.of(('min', 'max'))}({', '.join(operands)}) + F(0.5) * s)")

    def scalar(self) -> None:
        name = self.pick.of(("s", "r"))
        self.line(f"{name} = {self.value(name)}")

    def if_(self) -> None:
        if self.variables and self.pick.chance(70):
            k = self.pick.of(self.variables[::-1])
            test = self.pick.of(("{} > 2", "{} < 2", "{} % 2 == 0", "{} == 1", "{} != 0", "{} < count[0]"))
            test = test.format(k.text)
        else:
            test = f"{self.operand()} < F(0.4)"
        self.inside(f"if {test}:", self.statements)
        if self.pick.chance(35):
            self.inside("else:", self.statements)

    def loop(self) -> None:
        self.budget -= 1
        start, stop, step, low, high = self.range()
        variable = Index(self.name("k"), low, high)
        if self.pick.chance(12):
            self.while_(start, stop, step, variable)
        else:
            self.inside(f"for {variable.text} in range({start}, {stop}, {step}):", self.body, variable)

    def range(self) -> Range:
        """Over an array, most often; inside of another loop also over few, or as far as that one has come."""
        array = self.array()
        n, text = array.extents[-1], array.texts[-1]
        if not self.variables or self.pick.chance(40):
            return self.pick.of((
                ("0", text, 1, 0, n - 1),
                ("0", text, 1, 0, n - 1),
                ("1", text, 1, 1, n - 1),
                ("0", f"{text} - 1", 1, 0, n - 2),
                (f"{text} - 1", "-1", -1, 0, n - 1),
                (f"{text} - 1", "0", -1, 1, n - 1),
                (f"{text} - 2", "0", -1, 1, n - 2),
                ("0", text, 2, 0, n - 1),
                (f"-{text}", "0", 1, -n, -1),
                ("-2", f"{text} - 2", 1, -2, n - 3),
                ("0", "wp.min(count[0], 3)", 1, 0, 2),
                ("0", "4", 1, 0, 3),
            ))  # fmt: skip
        k = self.variables[-1]
        few = [("0", "3", 1, 0, 2), ("2", "-1", -1, 0, 2), ("0", "2", 1, 0, 1), ("0", "count[1]", 1, 0, 2)]
        moving = [("0", k.text, 1, 0, k.high - 1), (k.text, "-1", -1, 0, k.high)]
        return self.pick.of(few + moving * (k.low >= 0 and k.high > 0))

    def body(self) -> None:
        self.statements()
        if self.pick.chance(6):
            self.inside(f"if {self.operand()} > F(1.1):", lambda: self.line("break"))
            self.statement()

    def while_(self, start: str, stop: str, step: int, variable: Index) -> None:
        test = f"{variable.text} {'<' if step > 0 else '>'} {stop}"
        if self.pick.chance(40):
            test += f" and {self.pick.of(('s', 'r'))} < F(1.4)"
        self.line(f"{variable.text} = {start}")

        def body() -> None:
            self.statements()
            self.line(f"{variable.text} = {plus(variable.text, step)}")

        self.inside(f"while {test}:", body, variable)

    # What a thread has for itself

    def make(self) -> None:
        """An array of the thread's own, or a tile, made of a row."""
        source, name, extent = self.pick.of(self.rows), self.name("t"), self.pick.of((4, 9, 9, 17))
        if self.pick.chance(30):
            made = Array(name, (SIDE, SIDE), (str(SIDE),) * 2)
            self.line(f"{name} = wp.tile_load(c[i], shape=({SIDE}, {SIDE}), offset=(0, {self.pick.integer(0, 1)}))")
        elif self.pick.chance(30):
            made = Array(name, (4,), ("4",))
            self.line(f"{name} = wp.tile_load({source.name}[i], shape=4, offset={self.pick.integer(-1, 1)})")
        else:
            made = Array(name, (extent,), (str(extent),))
            self.line(f"{name} = wp.zeros({extent}, F)")
            self.line(f"for q in range({extent}):")
            read = source.element([f"q % {source.texts[0]}"])
            self.line(f"    {name}[{self.pick.of(('q', 'q', '-1 - q', f'q - {extent}'))}] = {read} * F(0.9)")
        self.own += [made] * (self.depth == 1)
        self.arrays += [made] * 2

    def tile(self) -> None:
        """A tile of part of a row or matrix, changed as a whole, and stored there or nearby."""
        name, offset = self.name("u"), self.pick.of(("0", "1", "-1"))
        if self.variables and self.pick.chance(60):
            offset = plus(self.variables[-1].text, self.pick.integer(-1, 1))
        if self.pick.chance(40):
            self.line(f"{name} = wp.tile_load(c[i], shape=({SIDE}, {SIDE}), offset=(0, {self.pick.of(('0', '1'))}))")
            self.line(f"{name}p = wp.tile_map(wp.sin, {name})")
            self.line(f"wp.tile_matmul({name}, {self.pick.of((name, name + 'p'))}, {name}p)")
            self.line(f"wp.tile_store(c[i], wp.tile_map(wp.tanh, {name}p), offset=(0, {self.pick.of(('0', '1'))}))")
            self.line(f"{self.element()} = wp.sin({name}p[{self.pick.integer(0, SIDE - 1)}, -1])")
            return
        source, target = self.pick.of(self.rows), self.pick.of(self.rows)
        self.line(f"{name} = wp.tile_load({source.name}[i], shape=3, offset={offset})")
        if self.pick.chance(50):
            self.line(f"{name}[-1] = {self.value(f'{name}[0]', f'{name}[-2]')}")
        made = self.pick.of((name, f"{name} * wp.tile_map(wp.sin, {name})", f"wp.tile_map(wp.sin, {name})"))
        self.line(f"wp.tile_store({target.name}[i], {made}, offset={offset})")
        if self.pick.chance(40):
            self.line(f"{target.element(self.place(target))} = wp.sin(wp.tile_sum({name})[0])")


def plus(text: str, number: int) -> str:
    return text if not number else f"{text} {'+' if number > 0 else '-'} {abs(number)}"


def is_in(name: str, text: str) -> bool:
    """Is a variable part of a text? Their names are letters and numbers."""
    return name in text.replace("[", " ").replace("]", " ").replace("(", " ").replace(")", " ").split()


def fits(known: Array, array: Array) -> bool:
    """Are indices of one array in the range of another?"""
    is_long = all(n >= m for n, m in zip(array.extents, known.extents, strict=False))
    return len(known.extents) == len(array.extents) and is_long


@dataclass(frozen=True)
class MixedCase(Case):
    """Attributes:
        source: the text that the kernel is made of.
    """

    source: str = ""


def written(pick: Pick) -> MixedCase:
    writer = Writer(pick)
    source = writer.source()
    kernel = fix_rounding(verify(define(source, F=float64)["k"].specialize()), fma=pick.chance(50))
    rng = np.random.default_rng(pick.integer(0, 2**16))
    shapes = [(THREADS, row.extents[0]) for row in writer.rows]
    shapes += [(THREADS, *writer.matrix.extents), (THREADS, 1)]
    floats = [rng.uniform(0.2, 1.3, shape) * rng.choice((1.0, 1.0, -1.0), shape) for shape in shapes]
    at, count = rng.integers(-4, 4, PLACES, dtype=np.int32), rng.integers(0, 4, 2, dtype=np.int32)
    buffers = [rng.uniform(0.2, 1.3, 2), at, count, *floats]
    extents = tuple(b.shape for b in buffers) if pick.chance(50) else None
    return MixedCase("mixed", kernel, (THREADS,), buffers, (0, 3, 4, 5), (3, 4, 5, 6), extents, source)


def random_case(seed: int) -> MixedCase:
    return written(RandomPick(seed))
