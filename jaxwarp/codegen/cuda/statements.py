"""Straight-line code: expressions folded into the statements that use them, locals, loads, stores, atomics.

A pure value that is used once and has no name of the user's is not a statement: its expression waits (`pending`) for
its use. It is put in a local of its own before anything that would change what it reads: a store to an array it loads
from, an assignment to a local in it, or control flow.
"""

from __future__ import annotations

import linecache
import re
from collections.abc import Sequence
from typing import NamedTuple

from jaxwarp.codegen.cuda.atomics import AtomicHelpers
from jaxwarp.codegen.cuda.expression import (
    CPP_TYPES,
    PRIMARY,
    Expr,
    apply_template,
    binary,
    cast,
    combine,
    literal,
    placeholder_counts,
    unary,
)
from jaxwarp.codegen.cuda.functions import Functions
from jaxwarp.codegen.cuda.layout import ParameterLayout
from jaxwarp.codegen.cuda.liveness import Liveness
from jaxwarp.codegen.cuda.locals import Local, Locals
from jaxwarp.codegen.cuda.names import Names
from jaxwarp.codegen.cuda.operators import Operators
from jaxwarp.codegen.cuda.packs import Access, Pack, integers_of, packs_of
from jaxwarp.codegen.cuda.prints import print_calls
from jaxwarp.codegen.cuda.sums.reductions import ReductionPlan, Reductions
from jaxwarp.errors import InternalError, Loc
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Block, Call, Const, Load, Op, Param, Size, Store, Tell, Tid, Value
from jaxwarp.ir.rows import count_uses
from jaxwarp.types import int32

# Longer expressions are given a local: they are hard to read.
_LONGEST_EXPRESSION = 72
_ATOM = re.compile(r"-?[\w.]+")


class TextLine(NamedTuple):
    """A line of the text: its nesting, and the kernel line it comes from."""

    depth: int
    text: str
    loc: Loc | None


class StatementPrinter:
    """Prints operations without blocks. `control.py` adds those with."""

    def __init__(
        self,
        kernel: Kernel,
        names: Names,
        layout: ParameterLayout,
        plan: ReductionPlan,
        functions: Functions,
        comments: bool,
    ):
        self.layout = layout
        self.functions = functions
        self.uses = count_uses(kernel)
        self.operators = Operators(kernel, layout.grid)
        self.live = Liveness()
        self.locals = Locals(names, self.live)
        self.atomics = AtomicHelpers()
        self.reductions = Reductions(plan, layout, names, self.atomics)
        self.private = frozenset(kernel.locals)
        self.lines: list[TextLine] = []
        self.depth = 2
        self.exprs: dict[Value, Expr] = {}
        self.pending: dict[Value, Expr] = {}
        self.wanted: dict[Value, Local] = {}  # where the results of the open block are to end up
        self.hints: dict[Value, str] = {}  # names for values without one
        self.folding = False
        self.constants = integers_of(kernel.body)
        self.packs: dict[Op, Pack] = {}
        self.words: dict[Pack | Op, Expr] = {}  # of packs that are under way
        self._comments = comments
        self._commented: tuple[str, int] | None = None

    def line(self, text: str, loc: Loc | None = None) -> None:
        if self._comments and loc is not None and (loc.file, loc.line) != self._commented:
            self._commented = (loc.file, loc.line)
            source = linecache.getline(loc.file, loc.line).strip()
            if source:
                self.lines.append(TextLine(self.depth, f"// {source}".rstrip("\\"), loc))
        self.lines.append(TextLine(self.depth, text, loc))

    def arrays(self) -> list[str]:
        """Declarations of the arrays of the kernel's own, after all else is printed."""
        return self.layout.private_arrays()

    # Values

    def use(self, value: Value) -> Expr:
        """The expression of a value at its use; an expression that waited for this moves here."""
        waiting = self.pending.pop(value, None)
        found = waiting if waiting is not None else self.exprs.get(value)
        if found is None:
            raise InternalError(f"the CUDA printer met {value} before its definition")
        return found

    def use_atom(self, value: Value, hint: str = "", loc: Loc | None = None) -> Expr:
        """Return a name or a literal, for places that read the text more than once. Otherwise the same as `use`."""
        expr = self.use(value)
        if _ATOM.fullmatch(expr.text):
            return expr
        known = self.exprs.get(value)
        local = self.declare(value, expr, loc, hint)
        if known is not None:
            # A literal: it is used again where this block's local is not in scope.
            self.exprs[value] = known
        return local.expr

    def define(self, value: Value, expr: Expr, loc: Loc | None, hint: str = "") -> None:
        """Gives a value its expression: waiting for the only use, or in a local, named `hint` for want of a name."""
        if self.uses[value] == 0:
            return
        if hint:
            self.hints[value] = hint
        short = len(expr.text) <= _LONGEST_EXPRESSION
        if self.folding or (self.uses[value] == 1 and short and not value.name):
            self.pending[value] = expr
        else:
            self.put(value, expr, loc)

    def put(self, value: Value, expr: Expr, loc: Loc | None) -> None:
        """Puts a value in a local: the one it is wanted in, one of its name that is free, or a new one."""
        candidates = [self.wanted[value]] if value in self.wanted else []
        for local in (*candidates, *self.locals.named(value)):
            if self.locals.is_free(local, value):
                self.assign(local, value, expr, loc)
                return
        self.declare(value, expr, loc)

    def declare(self, value: Value, expr: Expr, loc: Loc | None, hint: str = "") -> Local:
        local = self.locals.declare(value, value.name or self.hints.get(value, hint))
        self.line(f"{local.cpp_type} {local.name} = {expr.text};", loc)
        self.exprs[value] = local.expr
        return local

    def assign(self, local: Local, value: Value, expr: Expr, loc: Loc | None) -> None:
        self.flush(reading=local)
        if expr.text != local.name:
            self.line(f"{local.name} = {expr.text};", loc)
        self.occupy(local, value)

    def occupy(self, local: Local, value: Value) -> None:
        local.occupant = value
        self.exprs[value] = local.expr

    def flush(self, reading: Local | None = None, loading: Param | None = None) -> None:
        """Puts waiting expressions in locals: all, those that read a local, or those that load from an array.

        The locals are new: an expression already taken out for the statement at hand may read any other.
        """
        for value, expr in list(self.pending.items()):
            everything = reading is None and loading is None
            if everything or (reading is not None and reading.name in expr.reads) or loading in expr.loads:
                del self.pending[value]
                self.declare(value, expr, None)

    # Operations

    def op(self, op: Op) -> None:
        match op:
            case Const():
                self.exprs[op.result] = literal(op.value, op.result.type)
            case Tid():
                pass  # declared at the top of the thread loop
            case Size():
                size = self.layout.size(op.param, op.axis)
                self.exprs[op.result] = size if self.layout.index is int32 else cast("int", size)
            case Call():
                self.define(op.result, self.call(op), op.loc)
            case Load() if op in self.packs:
                self.packed_load(op, self.packs[op])
            case Store() if op in self.packs:
                self.packed_store(op, self.packs[op])
            case Load():
                self.define(op.result, self.load(op), op.loc, op.param.name)
            case Store():
                target = self.element(op.param, op.indices)
                value = self.use(op.value)
                self.flush(loading=op.param)
                self.line(f"{target.text} = {value.text};", op.loc)
            case Atomic():
                self.atomic(op)
            case Tell():
                for text in print_calls(op, [self.use(a).text for a in op.args]):
                    self.line(text, op.loc)
            case _:
                raise InternalError(f"the CUDA printer does not know {type(op).__name__}")

    def call(self, op: Call) -> Expr:
        wrapped = self.operators.wrapped(op)
        if wrapped is not None:
            below, extent = wrapped
            index = binary("-", self.use(op.args[0]), literal(below, int32)) if below else self.use(op.args[0])
            return apply_template("wrap_around({0}, {1})", (index, literal(extent, int32)))
        operator = self.operators.operator(op)
        if operator is not None:
            return binary(operator, *(self.use(a) for a in op.args))
        if op.builtin.name == "bit_not" and op.result.type.bits >= 32:
            return unary("~", self.use(op.args[0]))
        template = self.functions.template(op.builtin, op.result.type, [a.type for a in op.args])
        template = template.replace("{type}", CPP_TYPES[op.result.type.short])
        counts = placeholder_counts(template)
        # In the order of the arguments, so that what is put in locals stays in program order.
        args = [
            self.use(a) if counts.get(slot, 0) <= 1 or self.folding else self.use_atom(a, loc=op.loc)
            for slot, a in enumerate(op.args)
        ]
        return apply_template(template, args)

    def element(self, param: Param, indices: Sequence[Value]) -> Expr:
        offset = self.layout.offset(param, [self.use(i) for i in indices])
        return combine(f"{self.layout.params[param]}[{offset.text}]", PRIMARY, (offset,))

    def load(self, op: Load) -> Expr:
        element = self.element(op.param, op.indices)
        return Expr(element.text, PRIMARY, element.reads, element.loads | {op.param})

    def packed_load(self, op: Load, pack: Pack) -> None:
        if op is pack.first:
            name = self.locals.names.fresh(f"{op.param.name}_words")
            self.line(f"const {pack.cpp_type} {name} = *(const {pack.cpp_type} *)&{self.first_word(pack)};", op.loc)
            self.words[pack] = Expr(name)
        self.exprs[op.result] = Expr(f"{self.words[pack].text}.{pack.part(op)}")

    def packed_store(self, op: Store, pack: Pack) -> None:
        value = self.use(op.value)
        if not _ATOM.fullmatch(value.text) or (op is not pack.last and value.reads):
            name = self.locals.names.fresh(f"{op.param.name}_{pack.part(op)}")
            self.line(f"const {CPP_TYPES[op.param.dtype.short]} {name} = {value.text};", op.loc)
            value = Expr(name)
        self.words[op] = value
        if op is pack.last:
            self.flush(loading=op.param)
            words = ", ".join(self.words[one].text for one in pack.ops)
            self.line(f"*({pack.cpp_type} *)&{self.first_word(pack)} = {{{words}}};", op.loc)

    def first_word(self, pack: Pack) -> str:
        """The element that a pack begins with; constants in its index may not have been met yet."""
        access: Access = pack.ops[0]
        known = [self.constants.get(i) for i in access.indices]
        places = zip(access.indices, known, strict=True)
        indices = [self.use(i) if number is None else literal(number, int32) for i, number in places]
        return f"{self.layout.params[access.param]}[{self.layout.offset(access.param, indices).text}]"

    def atomic(self, op: Atomic) -> None:
        offset = self.layout.offset(op.param, [self.use(i) for i in op.indices])
        args = [self.use(a) for a in op.args]
        self.flush(loading=op.param)
        gathered = self.reductions.statement(op, offset.text, args[0].text)
        if gathered is not None:
            self.line(gathered, op.loc)
            return
        element = combine(f"{self.layout.params[op.param]}[{offset.text}]", PRIMARY, (offset,))
        call = self.atomics.private_call if op.param in self.private else self.atomics.call
        text = call(op.kind, op.param.dtype, f"&{element.text}", [a.text for a in args])
        if self.uses[op.result] == 0:
            self.line(f"{text};", op.loc)
        else:
            self.put(op.result, combine(text, PRIMARY, (element, *args)), op.loc)

    # Blocks

    def block(self, block: Block, targets: Sequence[Local | None], again: frozenset[Value] = frozenset()) -> None:
        """Prints a block's operations and moves its results to `targets`. `again`: what a next iteration reads."""
        outer = self.pending, self.wanted
        defined = {value for op in block.ops for value in op.defined}
        wishes = zip(block.results, targets, strict=True)
        self.pending, self.wanted = {}, {}
        if self.layout.is_aligned:
            self.packs.update(packs_of(block, self.layout.kernel.params, self.constants))
        for value, target in wishes:
            if target is not None and value in defined:
                self.wanted.setdefault(value, target)
        self.live.enter(block, again)
        for at, op in enumerate(block.ops):
            self.live.move_to(at)
            self.op(op)
        self.live.move_to(len(block.ops))
        moves = [
            (target, self.use(value))
            for value, target in zip(block.results, targets, strict=True)
            if target is not None
        ]
        self.move(moves, None)
        self.live.leave()
        self.pending, self.wanted = outer

    def move(self, moves: Sequence[tuple[Local, Expr]], loc: Loc | None) -> None:
        """Assigns to several locals at once: the right-hand sides read what was there before."""
        left = [(local, expr) for local, expr in moves if expr.text != local.name]
        while left:
            for at, (local, expr) in enumerate(left):
                others = left[:at] + left[at + 1 :]
                if not any(local.name in other.reads for _, other in others):
                    self.line(f"{local.name} = {expr.text};", loc)
                    left = others
                    break
            else:
                # Every target is still read by another: a cycle. Compute one new value aside.
                at = next(n for n, (_, expr) in enumerate(left) if expr.reads)
                local, expr = left[at]
                aside = self.locals.names.fresh(f"next_{local.base}")
                self.line(f"{local.cpp_type} {aside} = {expr.text};", loc)
                left[at] = (local, Expr(aside))
