"""Errors that point at the user's line. Imports nothing of ours."""

from __future__ import annotations

import difflib
import linecache
from collections.abc import Iterable
from dataclasses import dataclass
from types import ModuleType


@dataclass(frozen=True, init=False)
class Loc:
    """A span of the user's source.

    `line` and `end_line` count from 1, `column` and `end_column` from 0. `inlined_at` is the call
    that brought this line into the kernel when it belongs to a `@func`.
    """

    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    function: str = ""
    inlined_at: Loc | None = None

    def __init__(
        self, file: str, line: int, column: int, end_line: int, end_column: int, function: str = "",
        inlined_at: Loc | None = None,
    ):  # fmt: skip
        # In one step: a frozen class sets each attribute by a call.
        self.__dict__.update(
            file=file, line=line, column=column, end_line=end_line, end_column=end_column, function=function,
            inlined_at=inlined_at,
        )  # fmt: skip

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    def excerpt(self) -> str:
        """`file:line`, the source line and a caret under the span; then the chain of calls."""
        lines = [f"  {self}" + (f", in {self.function}" if self.function else "")]
        source = linecache.getline(self.file, self.line).rstrip("\n")
        if source:
            stripped = source.lstrip()
            indent = len(source) - len(stripped)
            end = self.end_column if self.end_line == self.line else len(source)
            start = max(self.column, indent)
            lines.append("    " + stripped)
            lines.append("    " + " " * (start - indent) + "^" * max(1, min(end, len(source)) - start))
        if self.inlined_at is not None:
            lines.append("  called from")
            lines.append(self.inlined_at.excerpt())
        return "\n".join(lines)


class JaxwarpError(Exception):
    """Base of every error that jaxwarp raises."""


class KernelError(JaxwarpError, RuntimeError):
    """A kernel, or a call of one, that cannot be accepted. A RuntimeError, as programs for Warp expect.

    Args:
        message: one sentence: what is wrong, what was expected, what was given.
        loc: where in the user's source, if it is a line of a kernel.
        hint: what to write instead.
    """

    def __init__(self, message: str, loc: Loc | None = None, hint: str | None = None):
        self.message = message
        self.loc = loc
        self.hint = hint
        super().__init__(message)

    def __str__(self) -> str:
        parts = [self.message]
        if self.loc is not None:
            parts.append(self.loc.excerpt())
        if self.hint:
            parts.append(f"  hint: {self.hint}")
        return "\n".join(parts)


class KernelSyntaxError(KernelError, SyntaxError):
    """A Python construct that is not part of the kernel language."""

    __str__ = KernelError.__str__


class KernelNameError(KernelError, NameError):
    """A name that is not defined, or not usable in a kernel."""


class KernelTypeError(KernelError, TypeError):
    """Types that do not fit: of operands, of arguments, of a call from JAX."""


class IdError(KernelTypeError):
    """A kernel that looks up an object by its number, where a launch cannot."""


class KernelAttributeError(KernelTypeError, AttributeError):
    """An attribute that cannot be assigned."""


class KernelValueError(KernelError, ValueError):
    """A value that cannot be used: a shape, a count, an option."""


class ArrayError(KernelError):
    """Arrays that do not fit a function of `jaxwarp.utils`: their types, sizes or layout."""


class FormatError(KernelError):
    """A file, or a grid in memory, that is not what it should be, or has what is not there yet."""


class OutOfRangeError(KernelError, IndexError):
    """An index outside its array: certain before the launch, or met by the interpreter."""

    @classmethod
    def at(
        cls,
        kernel: str,
        thread: tuple[int, ...],
        index: int,
        axis: int,
        array: str,
        extent: int,
        loc: Loc | None = None,
        hint: str | None = None,
    ) -> OutOfRangeError:
        """Build the error of a thread of a launch, at an access of an array."""
        where = f"index {index} of axis {axis} of array {array} is out of range; its extent is {extent}"
        return cls(f"{kernel}: thread {thread}: {where}", loc, hint)


class DifferentiationError(KernelError, NotImplementedError):
    """A derivative that does not exist or cannot be guaranteed: the message says why, the location where."""


class CompileError(KernelError):
    """A compiler of a backend refused the code made for a kernel."""


class CheckError(KernelError):
    """A thread of a kernel that runs in debug mode failed a check: the message names it, the location is the line."""

    def __str__(self) -> str:
        if self.loc is None:
            return self.message
        if "\n" in self.message:  # it comes through XLA, and has its place already
            return f"{self.message}\n  called from\n{self.loc.excerpt()}"
        return located_text(self.message, self.loc)


def located_text(message: str, loc: Loc) -> str:
    """`file:line, in function: message`, then the source line and a caret, then the chain of calls."""
    where = f"{loc}, in {loc.function}" if loc.function else str(loc)
    return "\n".join([f"{where}: {message}", *loc.excerpt().split("\n")[1:]])


class PerformanceWarning(UserWarning):
    """A warning that a program is correct but costs more than it has to."""


class InternalError(JaxwarpError, RuntimeError):
    """A fault of jaxwarp itself; please report it."""


def no_attribute(module: ModuleType, name: str) -> AttributeError:
    """The error for a name that a module of ours does not have, with the nearest one that it has."""
    text = f"module {module.__name__!r} has no attribute {name!r}"
    near = None if name.startswith("_") else did_you_mean(name, dir(module))
    # Without a name Python proposes no other one.
    return AttributeError(f"{text}; {near}", obj=module) if near else AttributeError(text, name=name, obj=module)


# Classes of JAX and ours whose names no user has typed.
_CALLED = {
    "ArrayImpl": "a JAX array",
    "HostArray": "an array outside of JAX",
    "ArrayHandle": "an array of a jax_callable",
    "_View": "an array of a jax_callable",
    "RecordedArray": "an array of a jax_callable",
}


def type_text(value: object) -> str:
    """Return how errors name the type of a value."""
    name = type(value).__name__
    return "a traced JAX value" if name.endswith("Tracer") else _CALLED.get(name, name)


def object_text(value: object) -> str:
    """Return how errors name a value of Python that a kernel cannot use."""
    name = type_text(value)
    return name if name.startswith(("a ", "an ")) else f"a Python object of type {name}"


def did_you_mean(given: object, names: Iterable[object]) -> str | None:
    """A hint for a name that is not there: the nearest one that is; None if none is near."""
    public = [n for n in names if isinstance(n, str) and not n.startswith(("_", "$"))]
    close = difflib.get_close_matches(given, public, n=1, cutoff=0.7) if isinstance(given, str) else []
    return f"did you mean {close[0]}?" if close else None
