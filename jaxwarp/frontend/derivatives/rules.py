"""Derivative rules written by hand: `@func_grad(f)` and `@func_replay(f)`, where f is called.

    y = f(x, z)              y = detach(f(detach(x), detach(z)))
                       ->    y = attach(y, x, g)              for each adjoint[x] += g * adj_ret
                             y = attach(y, z, h)              for each adjoint[z] += h * adj_ret

The body of the rule is lowered where f is called. For one float that f returns its cotangent is set to 1: what the rule
adds to an adjoint then is the factor. Of several the rule is transposed (`transpose.py`); where that cannot be, it is
lowered once for each, with the cotangents of the others set to 0. A factor is a value like any other, in
loops and branches too, so derivatives of any order, in both modes, follow. That is right only if the rule is linear in
its cotangents (`linear.py`); else the result gets no derivative. An array argument is treated like a value: to add to
`adjoint[a][i]` attaches the element that a load of `a[i]` gives. A rule that is `pass` says that the function's
results, and the floats that it writes to arrays, are constants.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from jaxwarp.builtins.language.values import Bundle
from jaxwarp.builtins.scalar_ops.rules import ATTACH, DETACH, REPLAYING, REPLAYING_RULED, refused
from jaxwarp.errors import DifferentiationError, KernelTypeError
from jaxwarp.frontend.derivatives.linear import Coefficients, NotLinearError, classify, detached_loads
from jaxwarp.frontend.derivatives.transpose import can_be_transposed, transposed
from jaxwarp.frontend.lowering.binding import cost
from jaxwarp.frontend.lowering.branches import execute
from jaxwarp.frontend.lowering.calls import plain_body
from jaxwarp.frontend.lowering.frame import ATTACHED, RESULT, Frame
from jaxwarp.frontend.lowering.values import NoValue, StructValue, StructView, View, describe, is_literal
from jaxwarp.frontend.text.annotations import pattern_text
from jaxwarp.frontend.text.functions import WITH_FOREIGN_RULES, Func, Overload
from jaxwarp.ir import nodes as ir
from jaxwarp.types import bool_, element_scalar


@dataclass(eq=False)
class Rule:
    """The state of one lowering of a `func_grad`: the arguments by name, and the attachments made."""

    function: str
    arguments: dict[str, Any]
    sinks: set[ir.Value] = field(default_factory=set)


def register(decorator: str, func: Func, rule: Overload) -> None:
    """Gives the overload that `rule` fits to its rule.

    Raises:
        KernelTypeError: none fits, or several; or kernels without the rule have been made already.
    """
    is_grad = decorator == "func_grad"
    patterns = [p.pattern for p in rule.parameters]
    fitting = [o for o in func.overloads if _fits(o, patterns, is_grad)]
    loc = rule.source.signature_loc
    if len(fitting) != 1:
        expected = "; ".join(o.signature() for o in func.overloads)
        what = ", then one cotangent for each value returned" if is_grad else ""
        how = f"does not fit {func.name}"
        if len(func.overloads) > 1:
            how = f"fits {'several overloads' if fitting else 'no overload'} of {func.name}"
        raise KernelTypeError(
            f"@{decorator}({func.name}): {rule.signature()} {how}",
            loc,
            hint=f"it must take the arguments of {expected}{what}",
        )
    rules = fitting[0].rules
    if fitting[0].references:
        raise KernelTypeError(
            f"@{decorator}({func.name}): {func.name} advances its argument {fitting[0].references[0].name}",
            loc,
            hint="return the new value instead, and assign it where the function is called",
        )
    if rules.is_used:
        raise KernelTypeError(
            f"@{decorator}({func.name}): a kernel that calls {func.name} was defined before this rule",
            loc,
            hint=f"define the rule right after {func.name}",
        )
    if is_grad:
        rules.grad = rule
    else:
        rules.replay = rule
    rules.apply = apply
    modules = func.module, rule.source.function.__module__
    is_ours, by_us = ((module or "").startswith("jaxwarp.") for module in modules)
    if is_ours and not by_us:
        WITH_FOREIGN_RULES.append(func)


def _fits(overload: Overload, patterns: list[Any], is_grad: bool) -> bool:
    own = [p.pattern for p in overload.parameters]
    returned = len(patterns) - len(own)
    if patterns[: len(own)] != own or returned < 0:
        return False
    return _may_return(overload, returned) if is_grad else returned == 0


def _may_return(overload: Overload, count: int) -> bool:
    """Return whether a function may return `count` values, judging by its text."""
    if isinstance(overload.returns, tuple):
        return count == len(overload.returns)
    returns = [n.value for n in ast.walk(overload.source.tree) if isinstance(n, ast.Return) and n.value is not None]
    if any(isinstance(value, ast.Tuple) for value in returns):
        return all(not isinstance(v, ast.Tuple) or len(v.elts) == count for v in returns)
    if any(isinstance(value, ast.Call) for value in returns):
        return count >= 1  # it may return what another function returns
    return count == (1 if returns else 0)


def apply(frame: Frame, node: ast.Call, func: Func, overload: Overload, variables: dict[str, Any]) -> Any:
    """A call of a function with rules; `variables` are its parameters' values."""
    rules = overload.rules
    inner = {n: _detached(frame, v) for n, v in variables.items()} if rules.grad else dict(variables)
    first_local = len(frame.context.locals)
    with frame.builder.block() as ops:
        result = _typed(frame, plain_body(frame, node, func, overload, dict(inner)))
    own = frame.context.locals[first_local:]
    written = _float_writes(ops, own) if rules.replay is None else []
    if written and rules.grad is not None and not _is_nothing(rules.grad):
        return _without_derivative(frame, node, func, overload, variables, written[0])
    if rules.replay is not None:
        result = _replayed(frame, node, (func, overload), inner, (ops, result))
    else:
        for op in detached_loads(ops, DETACH, own):
            frame.builder.append(op)
    if rules.grad is None or (result is NoValue and _is_nothing(rules.grad)):
        return result
    return _Attaching(frame, node, func, rules.grad, overload, variables).run(result)


def _is_nothing(rule: Overload) -> bool:
    """Return whether a rule is `pass`: it says that nothing moves what the function returns and writes."""
    return all(isinstance(s, ast.Pass) or _is_text(s) for s in rule.source.tree.body)


def _is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _detached(frame: Frame, value: Any) -> Any:
    """Floats as values that do not move."""
    return _through(frame, DETACH, value)


def _through(frame: Frame, row: ir.Builtin, value: Any) -> Any:
    """Floats as what a row makes of them."""
    if isinstance(value, tuple):
        return tuple(_through(frame, row, v) for v in value)
    if isinstance(value, Bundle):
        return Bundle(value.type, tuple(_through(frame, row, v) for v in value.values))
    if isinstance(value, StructValue):
        return StructValue(value.type, _through(frame, row, value.values))
    if isinstance(value, ir.Value) and value.type.is_float:
        return frame.builder.call(row, value)
    return value


def _typed(frame: Frame, result: Any) -> Any:
    if isinstance(result, tuple):
        return tuple(_typed(frame, r) for r in result)
    return frame.typed(result) if is_literal(result) else result


def _leaves(value: Any) -> list[ir.Value]:
    if isinstance(value, (tuple, StructValue)):
        return [leaf for v in (value if isinstance(value, tuple) else value.values) for leaf in _leaves(v)]
    return list(value.values) if isinstance(value, Bundle) else [value] if isinstance(value, ir.Value) else []


def _has_floats(value: Any) -> bool:
    """Return whether a value contains an array of floats."""
    match value:
        case View():
            return element_scalar(value.dtype).is_float
        case StructView():
            return any(map(_has_floats, value.views))
        case StructValue():
            return any(map(_has_floats, value.values))
        case _:
            return False


def _stand_ins(value: Any) -> Any:
    """New values of the same types."""
    return _rebuilt(value, [ir.Value(v.type, v.name) for v in _leaves(value)])


def _rebuilt(value: Any, leaves: list[ir.Value]) -> Any:
    """A value of the same form, made of the leaves in order, which are taken from the list."""
    if isinstance(value, tuple):
        return tuple(_rebuilt(v, leaves) for v in value)
    if isinstance(value, StructValue):
        return StructValue(value.type, _rebuilt(value.values, leaves))
    if isinstance(value, Bundle):
        return Bundle(value.type, tuple(leaves.pop(0) for _ in value.values))
    return leaves.pop(0) if isinstance(value, ir.Value) else value


def _writes(ops: Sequence[ir.Op], own: Sequence[ir.Param]) -> list[ir.Store | ir.Atomic]:
    block = ir.Block((), tuple(ops), ())
    return [op for op in ir.walk(block) if isinstance(op, ir.Store | ir.Atomic) and op.param not in own]


def _float_writes(ops: Sequence[ir.Op], own: Sequence[ir.Param]) -> list[ir.Store | ir.Atomic]:
    return [op for op in _writes(ops, own) if op.param.dtype.is_float]


# Results of these do not move where their arguments do.
_STEPS = ("floor", "ceil", "trunc", "round", "rint", "sign", "step")


def _counts(op: ir.Call) -> bool:
    """Return whether a call makes an integer of floats."""
    return op.result.type.is_int and any(a.type.is_float for a in op.args)


def _without_derivative(
    frame: Frame,
    node: ast.Call,
    func: Func,
    overload: Overload,
    variables: dict[str, Any],
    write: ir.Store | ir.Atomic,
) -> Any:
    """The function as it is, whose derivative is refused where one is asked for: the rule cannot say how the floats
    that it writes to an array move.

    Every float that it takes and reads is `refused(x)`. What does not move with these by the function's own text might
    do so by the rule: that is refused at once.
    """
    reason = (
        f"{func.name} has a func_grad and writes floats to {write.param.name}: the rule cannot give their derivatives"
    )
    row = refused(reason, str(write.loc))
    first_local = len(frame.context.locals)
    with frame.builder.block() as ops:
        inner = {n: _through(frame, row, v) for n, v in variables.items()}
        result = _typed(frame, plain_body(frame, node, func, overload, inner))
    for op in ir.walk(ir.Block((), tuple(ops), ())):
        if isinstance(op, ir.Call) and (op.builtin.name in _STEPS or _counts(op)):
            raise DifferentiationError(
                reason, write.loc, hint=f"return the value from {func.name}, and store it where it is called"
            )
    for op in detached_loads(ops, row, frame.context.locals[first_local:]):
        frame.builder.append(op)
    return result


def _require_values(func: Func, what: str, result: Any) -> None:
    for value in result if isinstance(result, tuple) else (result,):
        if not isinstance(value, ir.Value | Bundle):
            raise KernelTypeError(
                f"{func.name} has a {what} and returns {describe(value)}; it must return numbers",
                hint="return scalars, vectors and matrices",
            )


# Replay


def _replayed(
    frame: Frame,
    node: ast.Call,
    called: tuple[Func, Overload],
    variables: dict[str, Any],
    lowered: tuple[list[ir.Op], Any],
) -> Any:
    """`if replaying { the replay } else { the function }`; `lowered` is the function: its operations, its result."""
    (func, overload), (ops, result) = called, lowered
    rules, first_local = overload.rules, len(frame.context.locals)
    assert rules.replay is not None
    names = [p.name for p in rules.replay.parameters]
    given = dict(zip(names, variables.values(), strict=True))
    nothing = result is NoValue
    with frame.builder.block() as replay:
        again = _typed(frame, plain_body(frame, node, func, rules.replay, given))
    if not nothing:
        _require_values(func, "func_replay", result)
    types = [[v.type for v in _leaves(r)] for r in (result, again)]
    if types[0] != types[1] or nothing != (again is NoValue):
        raise KernelTypeError(
            f"the func_replay of {func.name} returns {_text(again)}, {func.name} returns {_text(result)}",
            replace(rules.replay.source.signature_loc, inlined_at=frame.loc(node)),
            hint=f"let it return what {func.name} returns",
        )
    own = frame.context.locals[first_local:]
    for op in _writes(replay, own):
        raise DifferentiationError(
            f"the func_replay of {func.name} writes to {op.param.name}: derivatives run it when they repeat the "
            "kernel, so it may only read",
            op.loc,
            hint="read the value that the function stored, and return it",
        )
    if rules.grad is not None:
        replay = detached_loads(replay, DETACH, own)
    row = REPLAYING if rules.grad is None else REPLAYING_RULED
    condition = frame.builder.call(row, frame.builder.const(False, bool_))
    leaves = () if nothing else tuple(ir.Value(v.type, v.name) for v in _leaves(result))
    blocks = [ir.Block((), tuple(o), () if nothing else tuple(_leaves(r))) for o, r in ((replay, again), (ops, result))]
    frame.builder.append(ir.If(leaves, condition, *blocks, loc=frame.builder.loc))
    return result if nothing else _rebuilt(result, list(leaves))


def _expected(attaching: _Attaching, parts: tuple[Any, ...]) -> str:
    """The parameters that a rule must have: those of the function, then a cotangent for each of `parts`."""
    own = [f"{p.name}: {pattern_text(p.pattern)}" for p in attaching.rule.parameters[: len(attaching.names)]]
    names = ["adj_ret"] if len(parts) == 1 else [f"adj_ret{k}" for k in range(len(parts))]
    return ", ".join([*own, *(f"{n}: {describe(v)}" for n, v in zip(names, parts, strict=True))])


def _text(result: Any) -> str:
    if isinstance(result, tuple):
        return f"({', '.join(map(_text, result))})"
    return "nothing" if result is NoValue else describe(result)


# Gradient


class _Attaching:
    """The results of one call, being attached to its arguments by the rule."""

    def __init__(
        self,
        frame: Frame,
        node: ast.Call,
        func: Func,
        rule: Overload,
        overload: Overload,
        variables: dict[str, Any],
    ):
        self.frame = frame
        self.node = node
        self.func = func
        self.rule = rule
        self.overload = overload
        count = len(overload.parameters)
        self.names = [p.name for p in rule.parameters[:count]]
        self.adjoints = rule.parameters[count:]
        self.arguments = {n: frame.typed(v) for n, v in zip(self.names, variables.values(), strict=True)}
        self.loc = replace(rule.source.signature_loc, inlined_at=frame.loc(node))

    def run(self, result: Any) -> Any:
        if result is NoValue:
            raise DifferentiationError(
                f"{self.func.name} has a func_grad and returns nothing: there is no cotangent that the rule could use",
                self.loc,
                hint="return the values that have derivatives, and store them where the function is called",
            )
        _require_values(self.func, "func_grad", result)
        parts = result if isinstance(result, tuple) else (result,)
        self.require_signature(parts)
        leaves = _leaves(result)
        if sum(v.type.is_float for v in leaves) > 1:
            together = self.together(parts)
            if together is not None:
                return _rebuilt(result, together)
        attached = [self.attached(parts, k) if v.type.is_float else v for k, v in enumerate(leaves)]
        return _rebuilt(result, attached)

    def require_signature(self, parts: tuple[Any, ...]) -> None:
        fits = len(parts) == len(self.adjoints)
        fits = fits and all(cost(p.pattern, v, {}) is not None for p, v in zip(self.adjoints, parts, strict=True))
        if not fits:
            raise KernelTypeError(
                f"the func_grad of {self.func.name} is {self.rule.signature()}; after the arguments of "
                f"{self.func.name} it must take a cotangent for each value returned: {', '.join(map(describe, parts))}",
                self.loc,
                hint=f"write def {self.rule.source.name}({_expected(self, parts)})",
            )

    def lowered(self, parts: tuple[Any, ...], start: ir.Value) -> tuple[list[ir.Op], list[ir.Value], Frame]:
        """The operations of the rule, the cotangents in it, and its frame; `start` is what its arguments move."""
        frame, context = self.frame, self.frame.context
        cotangents = {p.name: _stand_ins(v) for p, v in zip(self.adjoints, parts, strict=True)}
        first_local = len(context.locals)
        variables = {**self.arguments, **cotangents, ATTACHED: start}
        inner = Frame(context, self.rule.source, variables, frame.loc(self.node))
        inner.rule = Rule(self.func.name, self.arguments)
        context.ruled.append(self.overload)
        try:
            with frame.builder.block() as ops:
                execute(inner, self.rule.source.tree.body, frozenset())
        finally:
            context.ruled.pop()
        if RESULT in inner.variables:
            what = f"the func_grad of {self.func.name} returns a value; it must return nothing"
            raise KernelTypeError(what, self.loc, hint="leave return out: add to adjoint[x] instead")
        for op in _writes(ops, context.locals[first_local:]):
            raise DifferentiationError(
                f"the func_grad of {self.func.name} writes to {op.param.name}; it may only add to adjoints",
                op.loc,
                hint="write wp.adjoint[x] += ...",
            )
        return ops, [s for v in cotangents.values() for s in _leaves(v)], inner

    def together(self, parts: tuple[Any, ...]) -> list[ir.Value] | None:
        """The numbers that the results consist of, attached by one evaluation of the rule; None if that cannot be."""
        builder = self.frame.builder
        leaves = _leaves(parts)
        widest = max((v.type for v in leaves if v.type.is_float), key=lambda t: t.bits)
        ops, seeds, inner = self.lowered(parts, builder.const(0.0, widest))
        try:
            linearity = classify(ops, {s: "linear" for s in seeds if s.type.is_float}, inner.rule.sinks)
        except NotLinearError:
            return None
        if not can_be_transposed(ops, linearity, inner.rule.sinks):
            return None
        moves = transposed(builder, ops, linearity, inner.rule.sinks, seeds)
        return [self.moved(leaf, move) for leaf, move in zip(leaves, moves, strict=True)]

    def moved(self, leaf: ir.Value, move: ir.Value | None) -> ir.Value:
        if not leaf.type.is_float:
            return leaf
        builder = self.frame.builder
        fixed = builder.call(DETACH, leaf)
        return fixed if move is None else builder.call(ATTACH, fixed, move, builder.const(1.0, leaf.type))

    def attached(self, parts: tuple[Any, ...], k: int) -> ir.Value:
        """The k-th of the numbers that the results consist of, attached to the arguments."""
        frame = self.frame
        leaf = _leaves(parts)[k]
        start = frame.builder.call(DETACH, leaf)
        ops, seeds, inner = self.lowered(parts, start)
        seed = seeds[k]
        floats = [s for s in seeds if s.type.is_float]
        try:
            classify(ops, dict.fromkeys(floats, "linear"), inner.rule.sinks)
        except NotLinearError as error:
            return self.refused(leaf, error)
        only = classify(ops, {s: "linear" if s is seed else "zero" for s in floats}, inner.rule.sinks)
        numbers: dict[ir.Value, Any] = {s: float(s is seed) for s in floats}
        numbers.update((s, False if s.type is bool_ else 0) for s in seeds if not s.type.is_float)
        rewriter = Coefficients(only, numbers)
        for op in rewriter.run(ops):
            frame.builder.append(op)
        return rewriter.value(inner.variables[ATTACHED])

    def refused(self, leaf: ir.Value, error: NotLinearError) -> ir.Value:
        """The result without a derivative: the error comes where one is asked for."""
        reason = (
            f"the rule of {self.func.name} is not linear in its cotangent ({error.reason}). JAX derives gradients from "
            "tangents, and such a rule has none"
        )
        if any(_has_floats(v) for v in self.arguments.values()):
            raise DifferentiationError(
                reason, error.loc, hint="add products of the cotangent and values that do not depend on it"
            )
        builder, outer = self.frame.builder, self.frame.builder.loc
        builder.loc = error.loc
        active = [v for a in self.arguments.values() for v in _leaves(a) if v.type.is_float]
        result = builder.call(refused(reason, str(error.loc)), leaf, *active)
        builder.loc = outer
        return result
