"""Kernels of any size, made as text: what compile.py times, and what the tests of linear cost count."""

from __future__ import annotations

import linecache
from collections.abc import Callable
from typing import Any

import jaxwarp as wp

# Operations in branches that most lanes take together: nothing here is folded, shared or moved away.
_HEAD = [
    "@wp.kernel",
    "def generated(x: wp.array[float], n: wp.array[int], y: wp.array[float]):",
    "    i = wp.tid()",
    "    v = x[i]",
    "    k = n[i]",
]
_TAIL = ["    y[i] = v"]


module: Any = wp  # what decorates and compiles the kernels: Warp, where it is timed beside


def make(lines: list[str], functions: list[str] | None = None, real: str = "float") -> Any:
    """The kernel with these lines in its middle: `v` is a float to change, `k` an integer to look at."""
    head = [line.replace("[float]", f"[{real}]") for line in _HEAD]
    text = [*(functions or []), *head, *("    " + line for line in lines), *_TAIL]
    name = f"<generated {hash(tuple(text)):x}>"
    linecache.cache[name] = (1, None, [line + "\n" for line in text], name)
    scope: dict[str, Any] = {"wp": module, "__name__": "generated"}
    exec(compile("\n".join(text), name, "exec"), scope)
    return scope["generated"]


def _step(n: int) -> str:
    """One line of two operations."""
    return f"v = v * {1 + n % 7 / 8} + {n % 5}.5"


def straight(operations: int) -> Any:
    """Lines one after the other."""
    return make([_step(n) for n in range(operations // 2)])


def sines(statements: int) -> Any:
    """Lines of doubles with a sine each, one after the other."""
    lines = [f"v = wp.sin(v * wp.float64({1 + n % 7 / 8})) + v * wp.float64({n % 5}.5)" for n in range(statements)]
    return make(lines, real="wp.float64")


def memory(operations: int) -> Any:
    """Loads at neighbours and sums."""
    return make([f"v = v + x[i + {n % 50}]" for n in range(operations // 3)])


def loops(operations: int) -> Any:
    """Loops of three operations, one after the other."""
    lines: list[str] = []
    for n in range(operations // 8):
        lines += [f"for j{n} in range(k):", f"    v = v * 1.5 + float(j{n})"]
    return make(lines)


def branches(operations: int) -> Any:
    """Branches with a branch on the other side, one after the other."""
    lines: list[str] = []
    for n in range(operations // 12):
        lines += [f"if k > {n % 97}:"] + [f"    {_step(m)}" for m in range(n, n + 3)]
        lines += ["else:", f"    v = x[i + {n % 10}]"]
    return make(lines)


def nested(depth: int) -> Any:
    """Branches within each other, with work at every level."""
    lines = []
    for n in range(min(depth, 90)):
        indent = "    " * min(n, 90)  # CPython's parser takes at most 100 levels
        lines += [f"{indent}if k > {n}:", f"{indent}    v = wp.sqrt(v + {n}.5)"]
    return make(lines[: 2 * 90])


def elifs(arms: int) -> Any:
    """One test after the other, each with a body of its own."""
    lines = ["if k == -1:", "    v = 0.0"]
    for n in range(arms):
        lines += [f"elif k == {n}:", f"    v = wp.sqrt(v * {n}.5 + 1.0)"]
    return make(lines)


def calls(operations: int) -> Any:
    """Calls of functions that call functions."""
    functions = [
        "@wp.func",
        "def inner(a: float, b: float):",
        "    if a > b:",
        "        return a * b + 1.0",
        "    return a + b",
        "@wp.func",
        "def outer(a: float, b: float):",
        "    return inner(a, b) + inner(b, a)",
    ]
    return make([f"v = outer(v, {n % 9}.25)" for n in range(operations // 14)], functions)


def depth(levels: int) -> Any:
    """A chain of functions, each of which calls the one before it twice."""
    functions = ["@wp.func", "def f0(a: float):", "    return wp.sin(a) * 0.7 + a"]
    for n in range(levels):
        functions += ["@wp.func", f"def f{n + 1}(a: float):", f"    return f{n}(a) * 0.5 + f{n}(a + {n}.0) * 0.5"]
    return make([f"v = f{levels}(v)"], functions)


def width(statements: int) -> Any:
    """Eight calls of one function of so many statements."""
    body = [f"    a = a * {1 + n % 7 / 8} + {n % 5}.5" for n in range(statements)]
    return make(["v = wide(v)"] * 8, ["@wp.func", "def wide(a: float):", *body, "    return a"])


FAMILIES: dict[str, Callable[[int], Any]] = {
    "straight": straight,
    "sines": sines,
    "memory": memory,
    "loops": loops,
    "branches": branches,
    "nested": nested,
    "elifs": elifs,
    "calls": calls,
    "depth": depth,
    "width": width,
}
