"""The state of a lowering, and the dispatch from syntax to the functions that lower it.

`Context` belongs to one kernel, `Frame` to one function being lowered: the kernel's own or an inlined one.
The other modules register a function per kind of syntax node with `@expression` and `@statement`, and one per
function of the language that is no expression of its arguments' values with `@lowers`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, ClassVar, NoReturn, TypeVar

import numpy as np

from jaxwarp.builtins.language.ops import Ops
from jaxwarp.builtins.language.values import Bundle
from jaxwarp.errors import InternalError, KernelError, KernelNameError, KernelTypeError, Loc, did_you_mean
from jaxwarp.frontend.from_end import FromEnd
from jaxwarp.frontend.growth import CountingBuilder, Growth
from jaxwarp.frontend.lowering.memory import loaded
from jaxwarp.frontend.lowering.values import (  # fmt: skip
    BARE_NAMES,
    Chosen,
    ElementValue,
    Host,
    Intrinsic,
    NoArray,
    NoValue,
    StructValue,
    StructView,
    Tile,
    Undefined,
    View,
    capture,
    describe,
    host_constant,
    is_literal,
    is_object,
    type_of,
)
from jaxwarp.frontend.text.constants import compare
from jaxwarp.frontend.text.functions import Func, Overload
from jaxwarp.frontend.text.host_values import Missing, find
from jaxwarp.frontend.text.refused import refusal
from jaxwarp.frontend.text.source import Source
from jaxwarp.ir import nodes as ir
from jaxwarp.ir.builder import Builder
from jaxwarp.ir.kernel import LaneUse, SizeUse
from jaxwarp.quaternions import HostValue
from jaxwarp.types import Aggregate, Array, Scalar, Struct, StructField, element_scalar, int32, int64, struct_of

# Variables with names that Python cannot have: they go through branches and loops like any other.
BREAK, CONTINUE, RETURN, RESULT = "$break", "$continue", "$return", "$result"
EXITS = (BREAK, CONTINUE, RETURN)
# Known to be true where one of them is, whichever it is: both sides of a condition are left.
LEFT = "$left"
# The result that a derivative rule is attaching to the arguments (rules.py).
ATTACHED = "$attached"
# What printers call them.
SHOWN = {BREAK: "stopped", CONTINUE: "skipped", RETURN: "returned", RESULT: "result", ATTACHED: "attached"}

RETURN_HINT = "end the function with return, or call it on a line of its own"

Handler = TypeVar("Handler", bound=Callable[..., Any])
_EXPRESSIONS: dict[type, Callable[..., Any]] = {}
_STATEMENTS: dict[type, Callable[..., Any]] = {}
_INTRINSICS: dict[str, Callable[[Frame, ast.Call], Any]] = {}


def expression(*nodes: type) -> Callable[[Handler], Handler]:
    """Registers `f(frame, node) -> value` for kinds of expressions."""

    def register(function: Handler) -> Handler:
        _EXPRESSIONS.update(dict.fromkeys(nodes, function))
        return function

    return register


def statement(*nodes: type) -> Callable[[Handler], Handler]:
    """Registers `f(frame, node)` for kinds of statements."""

    def register(function: Handler) -> Handler:
        _STATEMENTS.update(dict.fromkeys(nodes, function))
        return function

    return register


def lowers(intrinsic: Intrinsic) -> Callable[[Handler], Handler]:
    """Registers `f(frame, node) -> value` for the unevaluated calls of a function of the language."""

    def register(function: Handler) -> Handler:
        _INTRINSICS[intrinsic.name] = function
        return function

    return register


class _At:
    """While it is open, operations belong to a place in the source; an error that has no place gets it."""

    __slots__ = ("builder", "loc", "outer")

    def __init__(self, builder: Builder, loc: Loc):
        self.builder = builder
        self.loc = loc

    def __enter__(self) -> None:
        self.outer = self.builder.loc
        self.builder.loc = self.loc

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, KernelError) and error.loc is None:
            error.loc = self.loc
        self.builder.loc = self.outer


@dataclass(frozen=True, eq=False)
class Window:
    """A part of a parameter that a tile is loaded from or stored to."""

    param: ir.Param
    starts: tuple[tuple[ir.Value, ...], ...]  # what is added up to where it begins, for each axis
    shape: tuple[int, ...]
    stores: bool
    loc: Loc | None


@dataclass(eq=False)
class ReadValues:
    """Everything that a lowering has read of the world of Python.

    Attributes:
        sources: the texts of the functions that were lowered.
        functions: those of which it has read attributes that programs gave them.
        used: the overloads that were called: rules for them come too late from then on.
        compared: the names and attributes, by the text that has them, whose values were compared with those at the
            definition.
        is_open: whether it has read a value that no text names: an attribute of what is in a variable, say.
    """

    sources: dict[Source, None] = field(default_factory=dict)
    functions: dict[Func, None] = field(default_factory=dict)
    used: dict[Overload, None] = field(default_factory=dict)
    compared: dict[Source, set[str]] = field(default_factory=dict)
    is_open: bool = False


@dataclass(eq=False)
class Context:
    """The state that all functions inlined into one kernel share."""

    builder: Builder = field(default_factory=CountingBuilder)
    max_unroll: int = 16
    # How often the statement being lowered is there because of the unrolled loops around it.
    unrolled: int = 1
    tid: tuple[int, Loc] | None = None
    known: dict[ir.Value, bool | int | float] = field(default_factory=dict)
    stack: list[Overload] = field(default_factory=list)
    # True if a condition or loop is around the call that led into the package's own functions; None: none led there.
    is_entered_nested: bool | None = None
    # Overloads whose derivative rule is being lowered.
    ruled: list[Overload] = field(default_factory=list)
    # Indices that count from the end if they are negative, by the values that stand for them.
    from_end: dict[ir.Value, FromEnd] = field(default_factory=dict)
    # Arrays of each thread's own.
    locals: list[ir.Param] = field(default_factory=list)
    # Where the size of a parameter is asked for.
    sizes: list[SizeUse] = field(default_factory=list)
    # Parts of parameters that are loaded or stored as tiles.
    windows: list[Window] = field(default_factory=list)
    # Where threads of a block are named.
    lanes: list[LaneUse] = field(default_factory=list)
    params: tuple[ir.Param, ...] = ()
    # Where ids are looked up; None: the launch has no tables.
    ids: StructValue | None = None
    # Types of variables where paths of run-time control flow meet, by the place of the `if` or loop (stepping.py); by
    # that of the signature, values of those that are read though some path does not set them. None: nobody asks.
    joined: dict[Loc, dict[str, Any]] | None = None
    # Numbers of arrays, by which the launch chooses one.
    numbers: dict[ir.Param, int] = field(default_factory=dict)
    # The variable that the statement being lowered assigns to, after which an array it makes is named.
    assigned: str = ""
    seen: ReadValues = field(default_factory=ReadValues)

    def __post_init__(self) -> None:
        self.ops = Ops(self.builder)
        self.growth = Growth(self.builder)


@dataclass(eq=False)
class Frame:
    """One function being lowered.

    Attributes:
        variables: local names and their values here and now.
        inlined_at: the call that brought this function into the kernel; None for the kernel itself.
        returns: the pattern of the return annotation, `Missing` if there is none.
    """

    context: Context
    source: Source
    variables: dict[str, Any]
    inlined_at: Loc | None = None
    returns: Any = Missing

    def __post_init__(self) -> None:
        self.builder = self.context.builder
        self.ops = self.context.ops
        self.context.seen.sources[self.source] = None
        self._locs: dict[ast.AST, Loc] = {}
        self.given = tuple(self.variables.values())  # what the caller has, too
        self.rule: Any = None  # the state of a derivative rule (rules.py), in its own frame
        self.liveness = self.source.liveness
        self.live: frozenset[str] = frozenset()  # names read after the statement being lowered
        # Variables that had a literal before the loop being lowered, and so its default type in it.
        self.literal_starts: dict[str, Any] = {}
        self.assumed: dict[ir.Value, bool] = {}  # what the conditions around are here
        self.exit_live: frozenset[str] = frozenset()  # names read after a break or continue of the innermost loop
        self.kept: frozenset[str] = frozenset()  # names that the caller reads in the end: references

    @property
    def is_kernel(self) -> bool:
        return self.inlined_at is None

    @property
    def is_library(self) -> bool:
        """True if the function belongs to this package; the functions of this package use no negative indices."""
        return (self.source.function.__module__ or "").startswith("jaxwarp.")

    # Dispatch

    def place(self, node: ast.expr) -> Any:
        """The value of an expression; an array element is not loaded yet (see `values.Element`)."""
        with self.at(node):
            handler = _EXPRESSIONS.get(type(node))
            if handler is None:
                raise refusal(node)
            return handler(self, node)

    def evaluate(self, node: ast.expr) -> Any:
        """The value of an expression."""
        value = self.place(node)
        if isinstance(value, (ElementValue, StructValue)):
            with self.at(node):
                return loaded(self.builder, value)
        return value

    def apply(self, intrinsic: Intrinsic, node: ast.Call) -> Any:
        """The value of a call of an intrinsic."""
        return _INTRINSICS[intrinsic.name](self, node)

    def perform(self, node: ast.stmt, live: frozenset[str]) -> None:
        """Lowers one statement. Blocks of them: `branches.execute`."""
        with self.at(node):
            handler = _STATEMENTS.get(type(node))
            if handler is None:
                raise refusal(node)
            self.live = live
            handler(self, node)

    def at(self, node: ast.AST) -> _At:
        """Operations made and errors raised inside belong to `node`, unless to something more exact."""
        return _At(self.builder, self.loc(node))

    def loc(self, node: ast.AST) -> Loc:
        found = self._locs.get(node)
        if found is None:
            found = self._locs[node] = self.source.loc(node, self.inlined_at)
        return found

    require: ClassVar[Callable[..., None]]
    """Fails where a condition does not hold: `(frame, condition, message)`. told/failures.py gives it."""

    @contextmanager
    def assuming(self, test: bool | ir.Value, holds: bool = True) -> Iterator[None]:
        """Assume that a condition holds (or does not) in the code lowered meanwhile, and so what it negates."""
        outer, facts = self.assumed, {test: holds} if isinstance(test, ir.Value) else {}
        last = self.builder.here[-1] if facts and self.builder.here else None
        if isinstance(last, ir.Call) and last.result is test and last.builtin.name == "logical_not":
            facts[last.args[0]] = not holds
        self.assumed = {**outer, **facts}
        try:
            yield
        finally:
            self.assumed = outer

    # Names

    def lookup(self, name: str) -> Any:
        """The value of a name, in Python's order: local, closure, global, builtin."""
        if name in self.variables:
            value = self.variables[name]
            if isinstance(value, Undefined):
                is_known = value.test is not None and self.assumed.get(value.test) is value.truth
                if is_known or value.is_checked:
                    if not is_known:
                        Frame.require(self, self.is_set(value), f"{name} is not defined here: {value.reason}")
                    if self.context.joined is not None and self.is_kernel:
                        self.context.joined.setdefault(self.source.signature_loc, {})[name] = value.value
                    return value.value
                raise KernelNameError(
                    f"{name} is not defined here: {value.reason}",
                    hint=f"assign a value to {name} first, on every path that leads here",
                )
            return value
        if name in self.source.locals:
            outside = self.source.lookup(name)
            hint = f"assign a value to {name} first"
            if outside is not Missing:
                hint = f"the function assigns to {name}, so it is a local variable; use another name for it"
            raise KernelNameError(f"{name} is used before it is assigned", hint=hint)
        value = self.source.lookup(name)
        self.compare(name, value, lambda: find(self.source.function, name))
        if value is Missing:
            value = BARE_NAMES.get(name, Missing)
        if value is Missing:
            names = [*self.variables, *self.source.free_names(), *BARE_NAMES]
            other = "assign it before, pass it as an argument, or define it before the kernel"
            hint = did_you_mean(name, names) or other
            raise KernelNameError(f"name {name} is not defined", hint=hint)
        return self.adopt(value)

    def compare(self, name: str, value: Any, now: Callable[[], Any]) -> None:
        """Warns if a value is another one by now than when the function was defined, the first time."""
        compare(self.source, name, value, now)
        if name in self.source.compared:
            self.context.seen.compared.setdefault(self.source, set()).add(name)

    def is_set(self, value: Undefined) -> ir.Value:
        """Return the condition, evaluated in the launch, that a variable has its value."""
        assert value.test is not None
        return value.test if value.truth else self.ops.call("logical_not", value.test)

    def adopt(self, value: Any) -> Any:
        """A host value as a value of this kernel: NumPy scalars, small arrays and structs become typed constants."""
        return self._constants(capture(value))

    def _constants(self, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(self._constants(v) for v in value)
        struct = struct_of(type(value.value)) if isinstance(value, Host) else None
        if struct is not None:
            held = vars(value.value)
            return StructValue(struct, tuple(self._field(struct, f, held[f.name]) for f in struct.fields))
        constant = host_constant(value.value) if isinstance(value, Host) else None
        if constant is None:
            return value
        dtype, array = constant
        scalar = element_scalar(dtype)
        values = tuple(self.constant(v.item(), scalar) for v in array.reshape(-1))
        return values[0] if isinstance(dtype, Scalar) else Bundle(dtype, values)

    def _field(self, struct: Struct, field: StructField, value: Any) -> Any:
        """A field of a struct that the kernel's text names."""
        if isinstance(field.type, Array):
            return NoArray(field.type, field.name) if value is None else Host(value)
        if not isinstance(field.type, Struct) and not is_literal(value):
            value = np.asarray(value)[()]
        t = field.type
        if isinstance(t, Aggregate) and (np.shape(value), np.asarray(value).dtype) == (t.shape, t.dtype.numpy):
            value = HostValue.of(t, value)
        found = self.adopt(value)
        if type_of(found) != field.type and not is_literal(found):
            raise KernelTypeError(
                f"the field {field.name} of {struct!r} is {field.type!r}, and the constant has {describe(found)} there",
                hint="pass the struct as an argument",
            )
        return self.typed(found, field.type) if is_literal(found) else found

    # Values

    def constant(self, value: bool | int | float, dtype: Scalar) -> ir.Value:
        """A typed constant whose value the frontend still knows."""
        result = self.builder.const(value, dtype)
        self.context.known[result] = wrapped(value, dtype)
        return result

    def known(self, value: Any) -> bool | int | float | None:
        """The value of a literal or of a constant, if it is one."""
        if is_literal(value):
            return value
        return self.context.known.get(value) if isinstance(value, ir.Value) else None

    def typed(self, value: Any, dtype: Any = None) -> Any:
        """A literal as a constant of `dtype`, or of its default type; other values must have `dtype` already."""
        if not is_literal(value):
            return value if dtype is None else self.ops.materialize(value, dtype)
        result = self.ops.materialize(value, dtype)
        if isinstance(result, ir.Value):
            self.context.known[result] = value  # it fits, or that was an error
        return result

    def value(self, node: ast.expr, what: str) -> Any:
        """Evaluates to a scalar, vector, matrix or literal."""
        return self.as_value(self.evaluate(node), node, what)

    def as_value(self, value: Any, node: ast.expr, what: str) -> Any:
        """Return the value of an expression; refuse anything but a scalar, vector, matrix or literal."""
        if not (isinstance(value, (ir.Value, Bundle)) or is_literal(value)):
            with self.at(node):
                raise KernelTypeError(f"{what}: expected a value, got {describe(value)}", hint=value_hint(value))
        return value

    def index(self, value: Any, what: str) -> ir.Value:
        """An integer as an index: int32, or int64 where it may not fit."""
        if isinstance(value, bool) or not (isinstance(value, (int, ir.Value))):
            raise KernelTypeError(
                f"{what} must be an integer, got {describe(value)}",
                hint="write an integer, or convert a value with int(...)",
            )
        if isinstance(value, int):
            return self.constant(value, int32 if -(2**31) <= value < 2**31 else int64)
        if not value.type.is_int:
            raise KernelTypeError(f"{what} must be an integer, got {value.type}", hint="convert it with int(...)")
        if value.type in (int32, int64):
            return value
        return self.ops.cast_scalar(int32 if value.type.bits < 32 else int64, value)

    def from_end(
        self, written: Any, position: ir.Value, count: Callable[[], ir.Value], param: ir.Param | None = None
    ) -> ir.Value:
        """An index of `count` elements, which counts from the end if it is negative; see frontend/from_end.py.

        Args:
            written: the index as the kernel has it.
            position: the same as int32 or int64.
            count: makes the number of elements.
            param: the array, where the elements are those of one.
        """
        is_natural = self.known(written) is not None or not written.type.is_signed
        if is_natural or self.is_library or position in self.context.from_end:
            return position
        here = self.builder.here
        before, size = len(here), count()
        if size.type != position.type:
            size = self.ops.cast_scalar(position.type, size)
        result = self.ops.call("from_end", position, size)
        self.context.from_end[result] = FromEnd(position, param, tuple(here[before:]))
        return result

    def test(self, node: ast.expr) -> bool | ir.Value:
        """Evaluates a condition."""
        value = self.evaluate(node)
        with self.at(node):
            return self.condition(value)

    def condition(self, value: Any) -> bool | ir.Value:
        """A value as the test of `if`, `while`, `and`, `or`, `not`: a bool, known or not."""
        known = self.known(value)
        if known is not None:
            # 1e-50 is not zero, but zero as a float32.
            return bool(value.type.numpy.type(known) if isinstance(value, ir.Value) else known)
        if is_object(value):
            return True
        if isinstance(value, NoArray):
            return False
        if isinstance(value, View | Chosen):
            return True if value.given is None else value.given
        if not isinstance(value, (ir.Value, Bundle)):
            raise KernelTypeError(
                f"a condition must be a bool or a number, got {describe(value)}",
                hint="test a number; `if a:` with an array tests that one was passed",
            )
        return self.ops.condition(value)


def value_hint(value: Any) -> str:
    """Return a hint at what to write where a number, vector or matrix is needed."""
    match value:
        case View() | Chosen():
            return f"kernels compute with elements: {value.name}[{', '.join('ijkl'[: value.ndim])}]"
        case NoArray():
            return absent_hint(value)
        case StructValue():
            return "kernels compute with its fields: s.x"
        case StructView():
            return f"kernels compute with fields of its elements: {value.name}[i].x"
        case Scalar() | Aggregate() | Struct():
            return "call the type to make a value of it: float(x), vec3(x, y, z)"
        case Host(value=ModuleType() as module):
            return f"name a member of the module, such as {module.__name__}.PI"
        case Host():
            return "constants are numbers, vectors, matrices and tuples of them; pass arrays as arguments"
        case tuple():
            return "take an element of it: t[0]"
        case Tile():
            return "compute with its elements: t[i, j], or tile_map(f, t)"
        case type() if issubclass(value, NoValue):
            return RETURN_HINT
        case _:
            return "call it, and compute with what it returns"


def called_name(node: ast.expr) -> str:
    """Return the name by which a call calls its function."""
    return ast.unparse(node.func) if isinstance(node, ast.Call) else "the function"


def absent_hint(value: NoArray) -> str:
    """Return a hint at what to do where an array is needed, and there is none."""
    if value.hint:
        return value.hint
    if not value.name:
        return "write a number: None is for array arguments that are left out"
    return f"pass an array, or test for it first: if {value.name}:"


def start_hint(name: str, start: Any, value: Any) -> str | None:
    """Return a hint at what to write where a loop makes `value` of a variable that starts with a literal."""
    if not (isinstance(start, (bool, int, float)) and isinstance(value, ir.Value)):
        return None
    return f"start with {name} = {value.type}({float(start) if value.type.is_float else start})"


def wrapped(value: bool | int | float, dtype: Scalar) -> bool | int | float:
    """Return an integer as it is after wrapping to an integer type; for other types return the number unchanged."""
    if not dtype.is_int:
        return value
    low = int(value) & ((1 << dtype.bits) - 1)
    return low - (1 << dtype.bits) if dtype.is_signed and low >> (dtype.bits - 1) else low


def unreachable(what: Any) -> NoReturn:
    raise InternalError(f"the frontend has no case for {what!r}")
