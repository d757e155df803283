"""Between which bounds an index lies, as functions of one thread index that never fall: min and max of a*t + u + c.

A stencil's indices follow the thread index: `i + 1`, `min(i + 1, n - 1)`, `2 * i + k` in a loop over k. With bounds
that do not fall, all threads from t on keep to elements from `lower(t)` on, and all up to t to those up to `upper(t)`.
Bounds of clamped indices are clamped, too, so that they are tight at the edges of an array.

Where an index wraps, some threads leave the others: of `n - 1 if t == 0 else t - 1` those go to the element n - 1,
whichever they are. Such an index is between its bounds, or between two numbers that are the same for the whole launch:

    n - 1 if t == 0 else t - 1          t - 1, or n - 1
    (t + s) % n                         t + d, or 0 ... d - 1 for d = s % n >= 0, n + d ... n - 1 for d = s % n - n < 0

(d is chosen in each launch, so that few threads leave: the smaller one of the two.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from jaxwarp.analysis.affine import Forms
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Call, Const, If, Load, Op, Size, Store, Tid, Value, walk
from jaxwarp.types import Scalar, int32

# Of a*t, of u and of c, so that their sum is far from wrapping in 32 bits. Those of t and u are tested in each launch.
LIMIT = 1 << 29
# Of one bound.
_MOST_TERMS = 8
# By how much a rotation moves threads. Rectangles are larger where it matters.
_MOST_SHIFT = 64


class Rotation(NamedTuple):
    """The remainder of t + shift by `modulus` (a value and a constant each): how far it moves t, and who leaves."""

    shift: Value | None
    shift_constant: int
    modulus: Value | None
    modulus_constant: int


class PartOf(NamedTuple):
    """A number of a rotation, the same for all threads: "by" (d above), "first" or "last" of where they wrap to."""

    rotation: Rotation
    name: str


class Term(NamedTuple):
    """scale * t + value + constant. `value` is the same for all threads of the launch, or None; scale >= 0."""

    scale: int
    value: Value | PartOf | None
    constant: int


Terms = tuple[Term, ...]
# From a number to a number, neither of which moves with the thread.
Wrapped = tuple[tuple[Term, Term], ...]


@dataclass(frozen=True)
class IndexRange:
    """min(lower) <= index <= max(upper), or the index is in a wrapped range, if nothing wraps in 32 bits.

    Attributes:
        lower, upper: the bounds.
        scale: nothing wraps if the thread index times this is at most LIMIT,
        values: and so are these, either way.
        wrapped: where else some threads may be.
    """

    lower: Terms
    upper: Terms
    scale: int = 0
    values: frozenset[Value] = frozenset()
    wrapped: Wrapped = ()

    @property
    def as_wrapped(self) -> tuple[Term, Term] | None:
        """The bounds, if they are two that do not move with the thread."""
        ends = (*self.lower, *self.upper)
        is_fixed = len(ends) == 2 and not any(t.scale for t in ends) and not self.wrapped
        return (ends[0], ends[1]) if is_fixed else None

    @property
    def together(self) -> IndexRange:
        """The same bounds widened to include the wrapped ranges, so that none is left."""
        if not self.wrapped:
            return self
        lower, upper = ((*ts, *(s[k] for s in self.wrapped)) for k, ts in enumerate((self.lower, self.upper)))
        return IndexRange(lower, upper, self.scale, self.values)

    @property
    def rotations(self) -> frozenset[Rotation]:
        ends = (*self.lower, *self.upper, *(t for ends in self.wrapped for t in ends))
        return frozenset(t.value.rotation for t in ends if isinstance(t.value, PartOf))

    @property
    def is_near(self) -> bool:
        """Do both bounds follow the thread index?"""
        return all(t.scale for t in (*self.lower, *self.upper))

    @property
    def is_thread(self) -> bool:
        """True if the index is the thread index itself."""
        return self.lower == self.upper == (Term(1, None, 0),) and not self.wrapped

    @property
    def is_known(self) -> bool:
        """True if the bounds are numbers that are known at compile time."""
        return not self.wrapped and all(t.scale == 0 and t.value is None for t in (*self.lower, *self.upper))

    @property
    def number(self) -> int | None:
        """The index, if it is known."""
        return self.lower[0].constant if self.is_known and self.lower == self.upper and len(self.lower) == 1 else None


class IndexBounds:
    """Bounds of a kernel's 32-bit integers."""

    def __init__(self, kernel: Kernel):
        self.makers = {result: op for op in walk(kernel.body) for result in op.defined}
        self.forms = Forms(kernel, [None] * kernel.grid_rank)
        self.constants = LaunchConstants(kernel)
        self._known: dict[tuple[Value, int], IndexRange | None] = {}

    def of(self, value: Value, axis: int) -> IndexRange | None:
        """Bounds of a value by the thread index along a grid axis; None if none were found."""
        key = value, axis
        if key not in self._known:
            found = self._find(value, axis) if value.type is int32 else None
            if found is not None and any(
                abs(t.constant) > LIMIT for t in (*found.together.lower, *found.together.upper)
            ):
                found = None
            self._known[key] = found
        return self._known[key]

    def _find(self, value: Value, axis: int) -> IndexRange | None:
        form = self.forms[value]
        if form is not None and all(it.axis is None for it in form.terms):
            low, high = form.range()  # of a constant, or in loops of known length
            return IndexRange((Term(0, None, low),), (Term(0, None, high),))
        if value in self.constants.makers:
            term = (Term(0, value, 0),)
            return IndexRange(term, term, 0, frozenset((value,)))
        match self.makers.get(value):
            case Tid() as op if op.axis == axis:
                return IndexRange((Term(1, None, 0),), (Term(1, None, 0),), 1)
            case Call() as op if op.builtin.name == "select":
                return self._either(op.args[1:], axis)
            case Call() as op if len(op.args) == 2:
                return self._call(op, axis)
            case If() as op:
                at = op.results.index(value)
                return self._either([block.results[at] for block in op.blocks], axis)
            case _:
                return None

    def _call(self, op: Call, axis: int) -> IndexRange | None:
        x, y = (self.of(a, axis) for a in op.args)
        if x is None or y is None:
            return None
        name = op.builtin.name
        if name in ("add", "sub") and (found := _moved(x, y, name) or (_moved(y, x, name) if name == "add" else None)):
            return found
        if name == "mod":
            return _rotated(x, y) if self._is_short(x, y) else None
        x, y = x.together, y.together
        match name:
            case "add":
                return _bounds(_sums(x.lower, y.lower), _sums(x.upper, y.upper), x, y)
            case "sub" if y.is_known:
                return _bounds(_sums(x.lower, _negated(y.upper)), _sums(x.upper, _negated(y.lower)), x, y)
            case "mul":
                return _scaled(x, y.number) if y.number is not None else _scaled(y, x.number)
            case "min":
                return _bounds((*x.lower, *y.lower), x.upper if x.is_near or not y.is_near else y.upper, x, y)
            case "max":
                return _bounds(x.lower if x.is_near or not y.is_near else y.lower, (*x.upper, *y.upper), x, y)
            case _:
                return None

    def _is_short(self, x: IndexRange, y: IndexRange) -> bool:
        """Return whether the shift of a rotation is a small number, or the modulus plus a small number.

        With an arbitrary shift, no rectangle may have elements of its own. It is then better to know that threads
        share elements.
        """
        (_, shift, constant), (_, modulus, length) = x.lower[0], y.lower[0]
        if isinstance(shift, Value):
            base, more = self.constants.split(shift)
            shift, constant = base, constant + more
        if isinstance(modulus, Value):
            base, more = self.constants.split(modulus)
            modulus, length = base, length + more
        whole = 0 if shift is None else length
        if modulus is None and shift is None and 0 <= constant < length <= 2 * constant:
            whole = length
        return shift in (None, modulus) and abs(constant - whole) <= _MOST_SHIFT

    def _either(self, values: Iterable[Value], axis: int) -> IndexRange | None:
        x, y = (self.of(v, axis) for v in values)
        if x is None or y is None:
            return None
        if x.is_near or y.is_near:
            # What does not move with the thread is where some threads go instead.
            (x, more), (y, others) = _apart(x, y), _apart(y, x)
            wrapped = tuple(dict.fromkeys((*x.wrapped, *y.wrapped, *more, *others)))
            lower, upper = (
                tuple(t for b, alone in ((x, more), (y, others)) if not alone for t in terms(b))
                for terms in (_lower, _upper)
            )
            return _bounds(lower, upper, x, y, wrapped)
        x, y = x.together, y.together
        return _bounds((*x.lower, *y.lower), (*x.upper, *y.upper), x, y)


def _lower(x: IndexRange) -> Terms:
    return x.lower


def _upper(x: IndexRange) -> Terms:
    return x.upper


def _apart(x: IndexRange, other: IndexRange) -> tuple[IndexRange, Wrapped]:
    """The bounds, or what they are where only the other ones follow the thread."""
    ends = x.as_wrapped
    return (x, (ends,)) if ends is not None and other.is_near else (x, ())


def _moved(x: IndexRange, y: IndexRange, name: str) -> IndexRange | None:
    """x + y or x - y where x has wrapped ranges and y does not move with the thread."""
    by = y.as_wrapped
    if not x.wrapped or by is None or (name == "sub" and not y.is_known):
        return None
    low, high = by if name == "add" else (Term(0, None, -by[1].constant), Term(0, None, -by[0].constant))
    wrapped: list[tuple[Term, Term]] = []
    for first, last in x.wrapped:
        ends = _sums((first,), (low,)), _sums((last,), (high,))
        if ends[0] is None or ends[1] is None:
            return None
        wrapped.append((ends[0][0], ends[1][0]))
    return _bounds(_sums(x.lower, (low,)), _sums(x.upper, (high,)), x, y, tuple(wrapped))


def _rotated(x: IndexRange, y: IndexRange) -> IndexRange | None:
    """(t + shift) % modulus."""
    modulus = y.as_wrapped
    if x.wrapped or modulus is None or y.lower != y.upper or x.lower != x.upper or len(x.lower) != 1:
        return None
    ((scale, shift, constant),) = x.lower
    value = modulus[0].value
    if scale != 1 or isinstance(shift, PartOf) or isinstance(value, PartOf):
        return None
    rotation = Rotation(shift, constant, value, modulus[0].constant)
    by, first, last = (PartOf(rotation, name) for name in ("by", "first", "last"))
    term = (Term(1, by, 0),)
    return _bounds(term, term, x, y, ((Term(0, first, 0), Term(0, last, 0)),))


def _bounds(
    lower: Iterable[Term] | None, upper: Iterable[Term] | None, x: IndexRange, y: IndexRange, wrapped: Wrapped = ()
) -> IndexRange | None:
    if lower is None or upper is None:
        return None
    least, greatest = extreme(lower, min), extreme(upper, max)
    if max(len(least), len(greatest), len(wrapped)) > _MOST_TERMS:
        return None
    return IndexRange(least, greatest, max(t.scale for t in (*least, *greatest, Term(max(x.scale, y.scale), None, 0))),
                  x.values | y.values, wrapped)  # fmt: skip


def extreme(terms: Iterable[Term], which: Callable[[int, int], int]) -> Terms:
    """Keep only the least or the greatest of terms that differ by known numbers. `which`: `min` or `max`."""
    best: dict[tuple[int, Value | PartOf | None], int] = {}
    for scale, value, constant in terms:
        best[scale, value] = which(best.get((scale, value), constant), constant)
    return tuple(Term(scale, value, constant) for (scale, value), constant in best.items())


def _sums(x: Terms, y: Terms) -> list[Term] | None:
    """The sum of two minima is the minimum of all sums. None where two values meet."""
    if any(a.value is not None and b.value is not None for a in x for b in y):
        return None
    return [Term(a.scale + b.scale, a.value or b.value, a.constant + b.constant) for a in x for b in y]


def _negated(terms: Terms) -> Terms:
    return tuple(Term(0, None, -t.constant) for t in terms)


def _scaled(x: IndexRange, factor: int | None) -> IndexRange | None:
    if factor is None or not 0 <= factor <= LIMIT or any(t.value is not None for t in (*x.lower, *x.upper)):
        return None
    lower, upper = ([Term(t.scale * factor, None, t.constant * factor) for t in ts] for ts in (x.lower, x.upper))
    return _bounds(lower, upper, x, x)


class LaunchConstants:
    """Integers made of constants, extents and scalar parameters that nothing writes: the same in the whole launch."""

    def __init__(self, kernel: Kernel):
        # A parameter may be the same memory as one that is written, if it is of the same type and shape.
        written = {op.param.dtype for op in walk(kernel.body) if isinstance(op, (Store, Atomic)) and not op.indices}
        self.makers: dict[Value, Op] = {}
        self.order: dict[Op, int] = {}
        for number, op in enumerate(walk(kernel.body)):
            if self._is_constant(op, written):
                self.makers[op.defined[0]] = op
                self.order[op] = number

    def _is_constant(self, op: Op, written: set[Scalar]) -> bool:
        match op:
            case Const() | Size():
                return True
            case Load():
                return not op.indices and op.param.dtype not in written
            case Call():
                return not op.result.type.is_float and all(a in self.makers for a in op.args)
            case _:
                return False

    def split(self, value: Value) -> tuple[Value | None, int]:
        """Another value, and a constant that makes it this one."""
        match self.makers[value]:
            case Const() as op:
                return None, int(op.value)
            case Call(args=(a, b)) as op if op.builtin.name in ("add", "sub") and a in self.makers and b in self.makers:
                base, constant = self.split(a)
                other, more = self.split(b)
                if other is None:
                    return base, constant + (more if op.builtin.name == "add" else -more)
                if base is None and op.builtin.name == "add":
                    return other, constant + more
            case _:
                pass
        return value, 0

    def number(self, value: Value) -> int:
        """Return the position in the kernel at which a value is computed."""
        return self.order[self.makers[value]]

    def needed(self, values: Iterable[Value]) -> list[Op]:
        """The operations that compute `values`, in program order."""
        found: dict[Op, None] = {}
        waiting = list(values)
        while waiting:
            op = self.makers[waiting.pop()]
            if op not in found:
                found[op] = None
                waiting.extend(op.operands)
        return sorted(found, key=self.order.__getitem__)
