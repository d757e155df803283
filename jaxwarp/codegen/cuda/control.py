"""Control flow: `if`, `for`, `while` in C++ from the IR's structured operations.

What a region carries or yields lives in C++ locals that its blocks assign. A local of the enclosing code is taken over
where the value in it is needed no more, so that `acc = acc + x` in a Python loop is `acc = acc + x` in C++.
"""

from __future__ import annotations

from collections.abc import Sequence

from jaxwarp.analysis.integers.ranges import all_of
from jaxwarp.codegen.cuda.expression import CPP_TYPES, Expr, binary, conditional, negate
from jaxwarp.codegen.cuda.locals import Local
from jaxwarp.codegen.cuda.names import identifier
from jaxwarp.codegen.cuda.statements import StatementPrinter, TextLine
from jaxwarp.errors import Loc
from jaxwarp.ir.nodes import Block, Call, Const, For, If, Load, Op, Size, Tid, Value, While
from jaxwarp.types import bool_

# A conditional expression or a loop's condition with more operations than this is written as statements.
_LARGEST_BRANCH = 3
_LARGEST_CONDITION = 10


class ControlPrinter(StatementPrinter):
    def op(self, op: Op) -> None:
        match op:
            case If():
                self.if_(op)
            case For():
                self.for_(op)
            case While():
                self.while_(op)
            case _:
                super().op(op)

    # Blocks as expressions

    def is_expression(self, block: Block, largest: int) -> bool:
        """Return whether a block with one result is short, has no effects, and uses each value it computes once."""
        size = 0
        for op in block.ops:
            match op:
                case Const() | Size() | Tid():
                    continue
                case Call() | Load():
                    size += 1
                case If(results=[_]):
                    size += 1
                    if not all(self.is_expression(b, largest) for b in op.blocks):
                        return False
                case _:
                    return False
            if any(self.uses[v] != 1 for v in op.defined):
                return False
        return size <= largest

    def expression(self, block: Block) -> Expr:
        """A block for which `is_expression` holds, as one expression."""
        outer, self.folding = self.folding, True
        for op in block.ops:
            self.op(op)
        self.folding = outer
        return self.use(block.results[0])

    def if_expression(self, op: If) -> Expr:
        condition = self.use(op.condition)
        then, orelse = self.expression(op.then), self.expression(op.orelse)
        if orelse.text == "false":
            return binary("&&", condition, then)
        if then.text == "true":
            return binary("||", condition, orelse)
        return conditional(condition, then, orelse)

    def is_if_expression(self, op: If) -> bool:
        if len(op.results) != 1:
            return False
        if self.folding:
            return True
        (result,) = op.results
        updates = any(self.held(b.results[0]) in self.locals.named(result) for b in op.blocks)
        largest = _LARGEST_CONDITION if result.type is bool_ else _LARGEST_BRANCH
        return not updates and all(self.is_expression(b, largest) for b in op.blocks)

    def held(self, value: Value) -> Local | None:
        """The local that holds a value of the enclosing blocks."""
        return self.locals.holding(value) if value in self.exprs else None

    # If

    def if_(self, op: If) -> None:
        if self.is_if_expression(op):
            self.define(op.results[0], self.if_expression(op), op.loc)
            return
        condition = self.use(op.condition)
        self.flush()
        plain_else = all(isinstance(inner, Const) for inner in op.orelse.ops)
        for inner in op.orelse.ops if plain_else else ():
            self.op(inner)
        targets: list[Local | None] = []
        else_targets: list[Local | None] = []
        for number, result in enumerate(op.results):
            target = self.result_local(op, number, targets) if self.uses[result] else None
            targets.append(target)
            else_targets.append(target)
            if target is None and self.uses[result]:
                otherwise = op.orelse.results[number]
                start = f" = {self.exprs[otherwise].text}" if plain_else else ""
                targets[-1] = target = self.locals.declare(result)
                self.line(f"{target.cpp_type} {target.name}{start};", op.loc)
                target.occupant = None
                else_targets[-1] = None if plain_else else target
        before = self.locals.occupants()
        then_lines = self.nested(op.then, targets)
        self.locals.restore(before)
        else_lines = self.nested(op.orelse, else_targets)
        self.locals.restore(before)
        self.print_if(condition, then_lines, else_lines, op.loc)
        for result, target in zip(op.results, targets, strict=True):
            if target is not None:
                self.occupy(target, result)

    def result_local(self, op: If, number: int, taken: Sequence[Local | None]) -> Local | None:
        """A local of the enclosing code for a result: where it is wanted, where a branch finds it, or by name."""
        result = op.results[number]
        candidates = [self.wanted[result]] if result in self.wanted else []
        for block in (op.orelse, op.then):
            local = self.held(block.results[number])
            if local is not None and local.base == identifier(result.name or local.base):
                candidates.append(local)
        candidates += self.locals.named(result)
        return next((c for c in candidates if c not in taken and self.locals.is_free(c, result)), None)

    def nested(self, block: Block, targets: Sequence[Local | None]) -> list[TextLine]:
        """The lines of a branch."""
        outer, self.lines = self.lines, []
        self.locals.open()
        self.depth += 1
        self.block(block, targets)
        self.depth -= 1
        self.locals.close()
        lines, self.lines = self.lines, outer
        return lines

    def print_if(self, condition: Expr, then: list[TextLine], orelse: list[TextLine], loc: Loc | None) -> None:
        if not then and not orelse:
            return
        if not then:
            condition, then, orelse = negate(condition), orelse, []
        self.line(f"if ({condition.text}) {{", loc)
        self.lines += then
        if orelse and self.is_single_if(orelse):
            first, *rest = [line._replace(depth=line.depth - 1) for line in orelse]
            self.lines += [first._replace(text="} else " + first.text), *rest]
            return
        if orelse:
            self.line("} else {")
            self.lines += orelse
        self.line("}")

    def is_single_if(self, lines: list[TextLine]) -> bool:
        """Return whether the lines are one `if` statement, with all its branches."""
        first, *rest = lines
        inner = self.depth + 1
        return first.text.startswith("if (") and all(
            line.depth > inner or line.text.startswith("} else") or (line.text == "}" and line is lines[-1])
            for line in rest
        )

    # Loops

    def carried_locals(self, op: For | While, params: Sequence[Value], bounds: Sequence[Expr]) -> list[Local]:
        """Puts the initial values where the loop carries them."""
        read_inside = self.live.read_from_outside(op)
        bound_reads = frozenset().union(*(b.reads for b in bounds))
        chosen: list[Local] = []
        moves: list[tuple[Local, Expr]] = []
        for init, param, result in zip(op.inits, params, op.results, strict=True):
            named = Value(result.type, result.name or param.name)
            candidates = [self.wanted[result]] if result in self.wanted else []
            local = self.held(init)
            if local is not None and local.base == identifier(named.name or local.base):
                candidates.insert(0, local)
            candidates += self.locals.named(named)
            free = [
                c
                for c in candidates
                if c not in chosen and c.name not in bound_reads and self.locals.is_free(c, named, read_inside)
            ]
            expr = self.use(init)
            if free:
                chosen.append(free[0])
                moves.append((free[0], expr))
            else:
                chosen.append(self.declare(named, expr, op.loc))
        self.flush()
        self.move(moves, op.loc)
        return chosen

    def loop_body(
        self, op: For | While, params: Sequence[Value], carried: Sequence[Local], again: Sequence[Value]
    ) -> None:
        for local, param in zip(carried, params, strict=True):
            self.occupy(local, param)
        self.depth += 1
        self.block(op.body, carried, self.live.read_from_outside(op) | set(again))
        self.depth -= 1

    def end_loop(self, op: For | While, carried: Sequence[Local]) -> None:
        for local, result in zip(carried, op.results, strict=True):
            self.occupy(local, result)

    def for_(self, op: For) -> None:
        index, *params = op.body.params
        plain = self.plain_step(op)
        start = self.use(op.start) if plain else self.use_atom(op.start, "start", op.loc)
        stop = self.use_atom(op.stop, "stop", op.loc)
        step = self.use_atom(op.step, "step", op.loc)
        carried = self.carried_locals(op, params, (start, stop, step))
        before = self.locals.occupants()
        cpp_type = CPP_TYPES[index.type.short]
        if plain:
            self.locals.open()
            name = self.locals.names.fresh(index.name or "k")
            compare, advance = plain
            condition, advance = f"{name} {compare} {stop.text}", advance.format(name)
            self.line(f"for ({cpp_type} {name} = {start.text}; {condition}; {advance}) {{", op.loc)
        else:
            # The number of trips is fixed on entry, and the index may not pass the type's limits.
            name = self.locals.names.fresh(index.name or "k")
            self.locals.open()
            left = self.locals.names.fresh(f"{name}_left")
            count_type = "unsigned long long" if index.type.bits == 64 else "unsigned int"
            count = f"range_count({start.text}, {stop.text}, {step.text})"
            advance = f"--{left}, {name} = wrap_add({name}, {step.text})"
            self.line(f"{cpp_type} {name} = {start.text};", op.loc)
            self.line(f"for ({count_type} {left} = {count}; {left} != 0; {advance}) {{", op.loc)
        self.exprs[index] = Expr(name)
        self.loop_body(op, params, carried, (op.stop, op.step))
        self.line("}")
        self.locals.close()
        self.locals.restore(before)
        self.end_loop(op, carried)

    def plain_step(self, op: For) -> tuple[str, str] | None:
        """The comparison and the advance of a loop that a plain C++ `for` runs without overflow of its index."""
        (by, same), stop = self.operators.facts[op.step], self.operators.facts[op.stop]
        smallest, largest = all_of(op.start.type)
        if by > 0 and by == same and stop[1] + by - 1 <= largest:
            return "<", "++{0}" if by == 1 else f"{{0}} += {by}"
        if by < 0 and by == same and stop[0] + by + 1 >= smallest:
            return ">", "--{0}" if by == -1 else f"{{0}} -= {-by}"
        return None

    def while_(self, op: While) -> None:
        carried = self.carried_locals(op, op.body.params, ())
        before = self.locals.occupants()
        self.locals.open()
        for local, param in zip(carried, op.condition.params, strict=True):
            self.occupy(local, param)
        if self.is_expression(op.condition, _LARGEST_CONDITION):
            self.line(f"while ({self.expression(op.condition).text}) {{", op.loc)
        else:
            self.line("while (true) {", op.loc)
            self.depth += 1
            self.condition_block(op, carried)
            self.depth -= 1
        self.loop_body(op, op.body.params, carried, ())
        self.line("}")
        self.locals.close()
        self.locals.restore(before)
        self.end_loop(op, carried)

    def condition_block(self, op: While, carried: Sequence[Local]) -> None:
        """A condition that is more than an expression; the body reads what the loop carries after it."""
        self.locals.protect(carried)
        (result,) = op.condition.results
        outer, self.pending = self.pending, {}
        self.live.enter(op.condition, self.live.read_from_outside(op))
        for at, inner in enumerate(op.condition.ops):
            self.live.move_to(at)
            self.op(inner)
        self.line(f"if ({negate(self.use(result)).text}) break;", op.loc)
        self.live.leave()
        self.pending = outer
        self.locals.unprotect(carried)
