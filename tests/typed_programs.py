"""Random programs of the kernel language on vectors and matrices, and a stand-in for `wp` in which Python runs them.

All numbers are small whole ones, of which float32 arithmetic is exact: whatever order a backend adds in, the results
are equal to the last bit. Each expression knows a bound of its components; what is assigned is clamped.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from kernels_strategy import Pick

VECTORS = {"vec2": 2, "vec3": 3, "vec4": 4}
MATRICES = {"mat22": 2, "mat33": 3}
CLAMP = 8


class Bundle:
    """A vector or matrix by Python's own numbers; mutable in place, as in the language, but never shared."""

    def __init__(self, values: Any):
        self.values = np.array(values, dtype=np.float64)

    def __getitem__(self, index: Any) -> Any:
        found = self.values[index]
        return Bundle(found) if np.ndim(found) else float(found)

    def __setitem__(self, index: Any, value: Any) -> None:
        self.values[index] = value.values if isinstance(value, Bundle) else value

    def __add__(self, other: Bundle) -> Bundle:
        return Bundle(self.values + other.values)

    def __sub__(self, other: Bundle) -> Bundle:
        return Bundle(self.values - other.values)

    def __neg__(self) -> Bundle:
        return Bundle(-self.values)

    def __mul__(self, other: Any) -> Bundle:
        return Bundle(self.values @ other.values if isinstance(other, Bundle) else self.values * other)

    def __rmul__(self, other: float) -> Bundle:
        return Bundle(other * self.values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bundle) and bool((self.values == other.values).all())

    __hash__ = None  # type: ignore[assignment]


def _component(number: int) -> property:
    return property(lambda v: v[number], lambda v, value: v.__setitem__(number, value))


for _number, _letter in enumerate("xyzw"):
    setattr(Bundle, _letter, _component(_number))


class StandIn:
    """What the programs use of `wp`."""

    def __init__(self) -> None:
        self.index = 0
        for name, length in VECTORS.items():
            setattr(self, name, lambda *a, n=length: Bundle(np.full(n, a[0]) if len(a) == 1 else a))
        for name, size in MATRICES.items():
            setattr(self, name, lambda *a, n=size: Bundle(np.reshape(a, (n, n))))
        for name, function in {
            "transpose": np.transpose, "dot": np.dot, "cross": np.cross, "outer": np.outer, "trace": np.trace,
            "cw_mul": np.multiply, "get_diag": np.diag, "diag": np.diag, "min": np.minimum, "max": np.maximum,
            "abs": np.abs, "clamp": np.clip, "length_sq": lambda v: v @ v, "ddot": lambda a, b: np.sum(a * b),
            "determinant": lambda m: round(np.linalg.det(m)),
        }.items():  # fmt: skip
            setattr(self, name, _on_values(function))

    def tid(self) -> int:
        return self.index

    def where(self, condition: Any, a: Any, b: Any) -> Any:
        return a if condition else b


def _on_values(function: Callable[..., Any]) -> Callable[..., Any]:
    def apply(*args: Any) -> Any:
        plain = [a.values if isinstance(a, Bundle) else a for a in args]
        result = function(*plain)
        return (
            Bundle(result) if np.ndim(result) else type(args[0])(result) if isinstance(args[0], int) else float(result)
        )

    return apply


class BundleArray:
    """An array of vectors for the stand-in: elements are read and written as wholes."""

    def __init__(self, array: np.ndarray):
        self.array = array

    def __getitem__(self, index: int) -> Bundle:
        return Bundle(self.array[index])

    def __setitem__(self, index: int, value: Bundle) -> None:
        self.array[index] = value.values


class Writer:
    """Writes one program, top down. `names` maps each type to the variables of that type."""

    def __init__(self, pick: Pick):
        self.pick = pick
        self.budget = 16
        self.vector = pick.of(list(VECTORS))
        self.matrix = {"vec2": "mat22", "vec3": "mat33"}.get(self.vector, pick.of(list(MATRICES)))
        self.length = VECTORS[self.vector]
        self.names: dict[str, list[str]] = {"int": ["n", "i"], "float": ["s", "t"], "v": ["u", "v"], "m": []}
        self.loops = 0

    def program(self) -> str:
        bundle = f"wp.{self.vector}"
        square = {"vec2": "mat22", "vec3": "mat33"}.get(self.vector) == self.matrix
        self.square = square
        helper = Writer(self.pick)
        helper.vector, helper.matrix, helper.length, helper.square = self.vector, self.matrix, self.length, square
        helper.names = {"int": ["n"], "float": ["s", "t"], "v": ["u", "v"], "m": []}
        helper.budget, helper.in_helper = 5, True
        lines = ["@wp.func", f"def helper(a: {bundle}, b: float, n: int):"]
        lines += ["    u = 1.0 * a", f"    v = {bundle}(b)", "    s = b", "    t = a[0]"]
        lines += helper.block(1, "    ")
        lines += ["    return u, s", "", "@wp.kernel"]
        lines += [f"def program(a: wp.array[{bundle}], x: wp.array[float], k: wp.array[int],"]
        lines += [f"            out: wp.array[{bundle}], scalars: wp.array2d[float]):"]
        lines += [
            "    i = wp.tid()",
            "    n = k[i]",
            "    s = x[i]",
            "    t = x[n & 7]",
            "    u = a[i]",
            "    v = a[n & 7]",
        ]
        lines += [f"    m = {self.constructed_matrix()[0]}"]
        self.names["m"].append("m")
        lines += self.block(3, "    ")
        lines += [
            "    out[i] = u + v",
            "    scalars[i, 0] = s",
            "    scalars[i, 1] = t",
            "    scalars[i, 2] = float(n)",
        ]
        lines += [f"    scalars[i, 3] = {self.sum_of_matrix()}"]
        return "\n".join(lines) + "\n"

    in_helper = False
    square = False

    def sum_of_matrix(self) -> str:
        size = MATRICES[self.matrix]
        return " + ".join(f"{r * size + c + 1}.0 * m[{r}, {c}]" for r in range(size) for c in range(size))

    # Expressions: (text, bound of the absolute value of the components)

    def of(self, options: Sequence[Any]) -> Any:
        return self.pick.of(options)

    def integer(self, depth: int = 2) -> tuple[str, int]:
        match self.of(("name", "constant", "sum", "and", "choice") if depth else ("name", "constant")):
            case "name":
                return self.of(self.names["int"]), 16
            case "constant":
                return str(self.pick.integer(0, 7)), 7
            case "sum":
                (a, x), (b, y) = self.integer(depth - 1), self.integer(depth - 1)
                return f"({a} {self.of('+-')} {b})", x + y
            case "and":
                (a, _), (b, _) = self.integer(depth - 1), self.integer(depth - 1)
                return f"(({a} {self.of('&|^')} {b}) & 15)", 15
            case _:
                (a, x), (b, y) = self.integer(depth - 1), self.integer(depth - 1)
                return f"({a} if {self.condition()} else {b})", max(x, y)

    def condition(self) -> str:
        text = f"{self.scalar(1)[0]} {self.of(('<', '<=', '>', '=='))} {self.scalar(1)[0]}"
        match self.pick.integer(0, 3):
            case 0:
                return f"{text} and {self.integer(1)[0]} < {self.integer(1)[0]}"
            case 1:
                return f"not ({text})"
            case _:
                return text

    def small(self, expression: Callable[[int], tuple[str, int]], depth: int) -> tuple[str, int]:
        """An expression whose products stay exact; a simpler one if this is not."""
        text, bound = expression(depth)
        return (text, bound) if bound <= 64 else expression(0)

    def scalar(self, depth: int = 2) -> tuple[str, int]:
        simple = ("name", "constant", "component")
        kinds = (*simple, "sum", "product", "dot", "min", "abs", "choice", "cast", "dynamic")
        matrix = ("determinant", "trace", "entry", "ddot") if self.names["m"] else ()
        vector = self.of(self.names["v"])
        below = lambda: self.small(self.scalar, depth - 1)  # noqa: E731
        match self.of((*kinds, *matrix) if depth else simple):
            case "name":
                return self.of(self.names["float"]), CLAMP
            case "constant":
                return f"{self.pick.integer(0, 6)}.0", 6
            case "component":
                return f"{vector}.{'xyzw'[self.pick.integer(0, self.length - 1)]}", CLAMP
            case "dynamic":
                return f"{vector}[({self.integer(1)[0]}) & 1]", CLAMP
            case "sum":
                (a, x), (b, y) = below(), below()
                return f"({a} {self.of('+-')} {b})", x + y
            case "product":
                (a, x), (b, y) = below(), below()
                return f"({a} * {b})", x * y
            case "dot":
                (a, x), (b, y) = self.small(self.bundle, depth - 1), self.small(self.bundle, depth - 1)
                return f"wp.dot({a}, {b})", 4 * x * y
            case "min":
                (a, x), (b, y) = below(), below()
                return f"wp.{self.of(('min', 'max'))}({a}, {b})", max(x, y)
            case "abs":
                a, x = below()
                return f"{self.of(('wp.abs', '-'))}({a})", x
            case "choice":
                (a, x), (b, y) = below(), below()
                return f"({a} if {self.condition()} else {b})", max(x, y)
            case "cast":
                a, x = self.integer(1)
                return f"float({a})", x
            case "determinant":
                return "wp.determinant(m)", 6 * CLAMP**3
            case "trace":
                return "wp.trace(m)", 3 * CLAMP
            case "ddot":
                return "wp.ddot(m, wp.transpose(m))", 9 * CLAMP**2
            case _:
                return f"m[{self.pick.integer(0, 1)}, ({self.integer(1)[0]}) & 1]", CLAMP

    def bundle(self, depth: int = 2) -> tuple[str, int]:
        """A vector."""
        kinds = ["name", "constructor", "sum", "scaled", "cw_mul", "min", "choice", "neg"]
        kinds += ["cross"] * (self.length == 3) + ["matvec", "get_diag"] * (self.square and bool(self.names["m"]))
        below = lambda: self.small(self.bundle, depth - 1)  # noqa: E731
        match self.of(kinds if depth else ("name", "name")):
            case "name":
                return f"(1.0 * {self.of(self.names['v'])})", CLAMP
            case "constructor":
                parts = [self.small(self.scalar, depth - 1) for _ in range(self.length)]
                return f"wp.{self.vector}({', '.join(p for p, _ in parts)})", max(b for _, b in parts)
            case "sum":
                (a, x), (b, y) = below(), below()
                return f"({a} {self.of('+-')} {b})", x + y
            case "scaled":
                (a, x), (b, y) = self.small(self.scalar, depth - 1), below()
                return f"({a} * {b})" if self.pick.chance(50) else f"({b} * {a})", x * y
            case "cw_mul":
                (a, x), (b, y) = below(), below()
                return f"wp.cw_mul({a}, {b})", x * y
            case "cross":
                (a, x), (b, y) = below(), below()
                return f"wp.cross({a}, {b})", 2 * x * y
            case "min":
                (a, x), (b, y) = below(), below()
                return f"wp.{self.of(('min', 'max'))}({a}, {b})", max(x, y)
            case "choice":
                (a, x), (b, y) = below(), below()
                form = f"({a} if {self.condition()} else {b})"
                return form if self.pick.chance(50) else f"wp.where({self.condition()}, {a}, {b})", max(x, y)
            case "matvec":
                a, x = below()
                return f"(m * {a})", 3 * CLAMP * x
            case "get_diag":
                return "wp.get_diag(m)", CLAMP
            case _:
                a, x = below()
                return f"(-{a})", x

    def constructed_matrix(self) -> tuple[str, int]:
        parts = [f"wp.clamp({self.small(self.scalar, 1)[0]}, -8.0, 8.0)" for _ in range(MATRICES[self.matrix] ** 2)]
        return f"wp.{self.matrix}({', '.join(parts)})", CLAMP

    # Statements

    def block(self, depth: int, indent: str) -> list[str]:
        lines: list[str] = []
        for _ in range(self.pick.integer(1, 4)):
            lines += self.statement(depth, indent)
        return lines

    def clamped(self, text: str) -> str:
        return f"wp.clamp({text}, wp.{self.vector}(-8.0), wp.{self.vector}(8.0))"

    def statement(self, depth: int, indent: str) -> list[str]:
        self.budget -= 1
        kinds = ["scalar", "vector", "vector", "component", "dynamic", "add", "integer"]
        kinds += [] if self.in_helper else ["helper", "matrix", "entry", "transpose", "store"]
        kinds += ["if", "if", "for"] if depth and self.budget > 0 else []
        scalar, vector = self.of(self.names["float"]), self.of(self.names["v"])
        match self.of(kinds):
            case "scalar":
                return [f"{indent}{scalar} = wp.clamp({self.scalar()[0]}, -8.0, 8.0)"]
            case "vector":
                return [f"{indent}{vector} = {self.clamped(self.bundle()[0])}"]
            case "component":
                letter = "xyzw"[self.pick.integer(0, self.length - 1)]
                return [f"{indent}{vector}.{letter} = wp.clamp({self.scalar()[0]}, -8.0, 8.0)"]
            case "dynamic":
                index = f"({self.integer(1)[0]}) & 1"
                operator = self.of(("=", "+=", "-=", "*="))
                lines = [f"{indent}{vector}[{index}] {operator} wp.clamp({self.scalar()[0]}, -8.0, 8.0)"]
                return [*lines, f"{indent}{vector} = {self.clamped(vector)}"]
            case "add":
                text, _ = self.small(self.bundle, 1)
                added = f"{indent}{vector} {self.of(('+=', '-='))} {text}"
                return [added, f"{indent}{vector} = {self.clamped(vector)}"]
            case "integer":
                return [f"{indent}n = ({self.integer()[0]}) & 15"]
            case "helper":
                given = self.clamped(self.bundle(1)[0]), self.of(self.names["float"]), f"{self.integer(1)[0]} & 7"
                call = f"helper({', '.join(given)})"
                return [f"{indent}{vector}, {scalar} = {call}", f"{indent}{vector} = {self.clamped(vector)}"]
            case "matrix":
                return [f"{indent}m = {self.constructed_matrix()[0]}"]
            case "entry":
                row, value = self.pick.integer(0, 1), self.scalar()[0]
                return [f"{indent}m[{row}, ({self.integer(1)[0]}) & 1] = wp.clamp({value}, -8.0, 8.0)"]
            case "transpose":
                return [f"{indent}m = wp.transpose(m)"]
            case "store":
                return [f"{indent}out[i] = {self.clamped(self.bundle()[0])}", f"{indent}{vector} = 1.0 * out[i]"]
            case "for":
                return self.loop(depth, indent)
            case _:
                lines = [f"{indent}if {self.condition()}:", *self.block(depth - 1, indent + "    ")]
                return (
                    [*lines, f"{indent}else:", *self.block(depth - 1, indent + "    ")]
                    if self.pick.chance(50)
                    else lines
                )

    def loop(self, depth: int, indent: str) -> list[str]:
        self.loops += 1
        index = f"k{self.loops}"
        count = self.of(("2", "3", f"({self.integer(1)[0]}) & 3"))
        self.names["int"].append(index)
        body = self.block(depth - 1, indent + "    ")
        if self.pick.chance(30):
            body = [f"{indent}    if {self.condition()}:", f"{indent}        {self.of(('break', 'continue'))}", *body]
        self.names["int"].remove(index)
        return [f"{indent}for {index} in range({count}):", *body]
