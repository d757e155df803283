"""The IR's values, blocks and eleven operations; `ir/kernel.py` has the kernel around them.

The grammar, on one screen, is in docs/design/0001-ir.md: `document/pages.py` makes it of these classes.

Values are scalars. A vector or matrix of the language is a bundle of values in the frontend; an array of them is a
scalar array with component axes of static extent at the end (as in JAX), and a by-value argument is an array of rank 0,
1 or 2. Values are in static single assignment: defined once, used in their block and the blocks below it.
Types compare by structure, values, params and ops by identity. Everything is immutable.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from jaxwarp.errors import Loc
from jaxwarp.types import Scalar
from jaxwarp.unlocked import cached_property

PRINT, EXPECT, ASSERT, INSIDE = TELL_KINDS = ("print", "expect", "assert", "inside")
ATOMIC_KINDS = ("add", "min", "max", "exch", "cas", "and", "or", "xor")


@dataclass(frozen=True, eq=False, slots=True)
class Value:
    """A scalar. `name` is a hint for printers: the user's variable, if any."""

    type: Scalar
    name: str = ""


@dataclass(frozen=True, eq=False)
class Param:
    """A dense row-major array of scalars; None in `shape` is an extent known at run time."""

    name: str
    dtype: Scalar
    shape: tuple[int | None, ...]

    @property
    def rank(self) -> int:
        return len(self.shape)


@dataclass(frozen=True, eq=False)
class Builtin:
    """A pure scalar operation: one row of the table in `jaxwarp/builtins`, its only declaration.

    Attributes:
        name: unique; what printers show.
        infer: result type from argument types; raises KernelTypeError with the reason.
        ref: the meaning, on NumPy arrays of equal shape (`ref(*args)`), result cast to the inferred type.
            A row whose meaning depends on the result type (casts) takes it as keyword `dtype`.
        cuda: C++ expression with {0}, {1}, ... for arguments: one text, or one per scalar type's short name.
        llvm: emits the operation; `llvm(ops, result_type, arg_types, args)`, see `codegen/cpu/llvm/vectors.py`.
        partials: derivatives by each argument, as `partials(ops, out, *args)`; or a NoGradient with the reason.
        domain: per argument, the interval that tests draw from.
        ulp: accuracy against `ref` in units in the last place, per scalar type's short name ("*" for the rest).
        typed: the row carries its result type in Call.result (casts): `infer` is not asked.
    """

    name: str
    infer: Callable[[tuple[Scalar, ...]], Scalar]
    ref: Callable[..., Any]
    cuda: str | Mapping[str, str]
    llvm: Callable[..., str]
    partials: Any = None
    domain: tuple[tuple[float, float], ...] = ()
    ulp: Mapping[str, float] = field(default_factory=dict)
    doc: str = ""
    typed: bool = False
    commutative: bool = False


@dataclass(frozen=True, eq=False)
class Block:
    """`params` are bound on entry, `results` are handed to the owner."""

    params: tuple[Value, ...]
    ops: tuple[Op, ...]
    results: tuple[Value, ...]

    @cached_property
    def all_ops(self) -> tuple[Op, ...]:
        """The operations of this block and all blocks below it, in program order. Read some thirty times per kernel."""
        found: list[Op] = []
        pending = [iter(self.ops)]
        while pending:
            for op in pending[-1]:
                found.append(op)
                if op.blocks:
                    pending.extend(iter(inner.ops) for inner in reversed(op.blocks))
                    break
            else:
                pending.pop()
        return tuple(found)


@dataclass(frozen=True, eq=False, kw_only=True)
class Op:
    loc: Loc | None = None

    @property
    def operands(self) -> tuple[Value, ...]:
        """Values this operation reads itself (those of its blocks are not included)."""
        return ()

    @property
    def defined(self) -> tuple[Value, ...]:
        """Values this operation defines."""
        return ()

    @property
    def blocks(self) -> tuple[Block, ...]:
        return ()


@dataclass(frozen=True, eq=False)
class _OneResult(Op):
    result: Value

    @property
    def defined(self) -> tuple[Value, ...]:
        return (self.result,)


@dataclass(frozen=True, eq=False)
class Const(_OneResult):
    """A literal. There is one NaN: no text of a kernel tells the bits of several apart."""

    value: bool | int | float

    def __post_init__(self) -> None:
        if self.value != self.value:
            object.__setattr__(self, "value", math.nan)


@dataclass(frozen=True, eq=False)
class Tid(_OneResult):
    """The launch index along a grid axis, int32."""

    axis: int


@dataclass(frozen=True, eq=False)
class Size(_OneResult):
    """The extent of a parameter's axis, int32."""

    param: Param
    axis: int


@dataclass(frozen=True, eq=False)
class Call(_OneResult):
    """Pure arithmetic: a row of the open table in builtins/scalar_ops.

    Attributes:
        fixed_rounding: what it rounds to is decided: it is neither contracted into an fma, nor folded into a constant
            that machine code might not find. So are the operations that a derivative shares with the kernel it is made
            of.
    """

    builtin: Builtin
    args: tuple[Value, ...]
    fixed_rounding: bool = False

    @property
    def operands(self) -> tuple[Value, ...]:
        return self.args


@dataclass(frozen=True, eq=False)
class Load(_OneResult):
    """An element of an array."""

    param: Param
    indices: tuple[Value, ...]

    @property
    def operands(self) -> tuple[Value, ...]:
        return self.indices


@dataclass(frozen=True, eq=False)
class Store(Op):
    """Writes an element."""

    param: Param
    indices: tuple[Value, ...]
    value: Value

    @property
    def operands(self) -> tuple[Value, ...]:
        return (*self.indices, self.value)


@dataclass(frozen=True, eq=False)
class Atomic(_OneResult):
    """Updates an element; the result is the old value. `args` is (value,), or (expected, new) for "cas".

    Attributes:
        takes: whether a reverse sweep takes a cotangent that threads share: then it does not matter who gets it.
    """

    kind: str
    param: Param
    indices: tuple[Value, ...]
    args: tuple[Value, ...]
    takes: bool = False

    @property
    def operands(self) -> tuple[Value, ...]:
        return (*self.indices, *self.args)


@dataclass(frozen=True, eq=False)
class Tell(Op):
    """A message of a thread: text and values in turn, `texts[0]`, `args[0]`, `texts[1]`, ... See docs/design/0022.

    Attributes:
        kind: PRINT: written to the standard output; EXPECT: a failure, after which the thread goes on; ASSERT: one at
            which it ends; INSIDE: a failure in debug mode, where the first argument, an index, is not one of as many
            elements as the second argument says.
        texts: one more than there are values.
        formats: of each value, as C has them, without lengths ("%d", "%.9g"); "%B" is True or False.
        args: integers, bools, float32 and float64.
    """

    kind: str
    texts: tuple[str, ...]
    formats: tuple[str, ...]
    args: tuple[Value, ...]

    @property
    def operands(self) -> tuple[Value, ...]:
        return self.args

    @property
    def fails(self) -> bool:
        """Tell whether the launch fails by it, in every mode."""
        return self.kind in (EXPECT, ASSERT)


@dataclass(frozen=True, eq=False)
class If(Op):
    """Both blocks have as many results."""

    results: tuple[Value, ...]
    condition: Value
    then: Block
    orelse: Block

    @property
    def operands(self) -> tuple[Value, ...]:
        return (self.condition,)

    @property
    def defined(self) -> tuple[Value, ...]:
        return self.results

    @property
    def blocks(self) -> tuple[Block, ...]:
        return (self.then, self.orelse)


@dataclass(frozen=True, eq=False)
class For(Op):
    """Python's range, fixed on entry; the body's params are (index, *carried). A step of zero: no iteration.

    Attributes:
        over_tile: it goes over elements of a tile, and threads of a block may share that; then sums over them are in
            any order. See docs/design/0074.
    """

    results: tuple[Value, ...]
    start: Value
    stop: Value
    step: Value
    inits: tuple[Value, ...]
    body: Block
    over_tile: bool = False

    @property
    def operands(self) -> tuple[Value, ...]:
        return (self.start, self.stop, self.step, *self.inits)

    @property
    def defined(self) -> tuple[Value, ...]:
        return self.results

    @property
    def blocks(self) -> tuple[Block, ...]:
        return (self.body,)


@dataclass(frozen=True, eq=False)
class While(Op):
    """Both blocks take the carried values; the condition's one result is a bool."""

    results: tuple[Value, ...]
    inits: tuple[Value, ...]
    condition: Block
    body: Block

    @property
    def operands(self) -> tuple[Value, ...]:
        return self.inits

    @property
    def defined(self) -> tuple[Value, ...]:
        return self.results

    @property
    def blocks(self) -> tuple[Block, ...]:
        return (self.condition, self.body)


def walk(block: Block) -> Iterator[Op]:
    """Every operation of a block and of the blocks below it, in program order."""
    return iter(block.all_ops)
