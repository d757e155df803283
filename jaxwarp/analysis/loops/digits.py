"""Loops whose iterations have elements of their own since an index has theirs as digits: row * 32 + column, 2 * k + 1.

Where `a[i]` and `a[i']` are one element, the sums of digits are equal. If each digit counts more than all below it
together, the digits are equal, too: it is one iteration. Indices of loops inside are digits like others. A pair
`x // 32, x % 32` of indices counts like x.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

from jaxwarp.analysis.affine import Form, Forms, Iterator
from jaxwarp.ir.nodes import Atomic, Call, Load, Op, Store, Value

_Places = dict[object, Form]
"""What is known of where an access is, by axis or pair of axes."""


def are_of_one_iteration(
    accesses: Sequence[Load | Store | Atomic],
    indices: Sequence[Value],
    inner: Sequence[Value],
    forms: Forms,
    defining: Mapping[Value, Op],
) -> bool:
    """Return whether accesses of an array are at one element only in one iteration of some loops.

    Args:
        accesses: all of the array.
        indices: those of the loops.
        inner: those of the loops inside of them.
        forms: of the kernel's integers.
        defining: the operations that define values.
    """
    own = [forms[v] for v in indices]
    varying = {it for v in inner if (form := forms[v]) is not None for it in form.terms}
    if any(form is None for form in own) or any(forms[v] is None for v in inner):
        return False
    wanted = {it for form in own if form is not None for it in form.terms}
    places = [_places(op, forms, defining) for op in accesses]
    found = set[Iterator]()
    for axis, first in places[0].items():
        here = [p[axis] for p in places if axis in p]
        if len(here) < len(places) or any(form.terms != first.terms for form in here):
            continue
        digits = {it: count for it, count in first.terms.items() if it in wanted or it in varying}
        if _are_apart(digits, {f.constant for f in here}):
            found |= wanted.intersection(digits)
    return found == wanted


def _are_apart(terms: Mapping[Iterator, int], starts: set[int]) -> bool:
    """Return whether each digit counts more than those below it together; a start is one of them."""
    digits = [(abs(count), abs(count) * it.last) for it, count in terms.items()]
    if len(starts) > 1:
        ordered = sorted(starts)
        digits.append((min(b - a for a, b in itertools.pairwise(ordered)), ordered[-1] - ordered[0]))
    below = 0
    for unit, span in sorted(digits):
        if unit <= below:
            return False
        below += span
    return True


def _places(op: Load | Store | Atomic, forms: Forms, defining: Mapping[Value, Op]) -> _Places:
    found: _Places = {axis: form for axis, v in enumerate(op.indices) if (form := forms[v]) is not None}
    parts = [_unwrapped(defining.get(v), defining) for v in op.indices]
    for axis, part in enumerate(parts):
        for other, rest in enumerate(parts):
            whole = _whole(part, rest, forms)
            if whole is not None:
                found[axis, other] = whole
    return found


def _unwrapped(op: Op | None, defining: Mapping[Value, Op]) -> Op | None:
    """Return what makes an index, without the test for one that counts from the end."""
    return defining.get(op.args[0]) if isinstance(op, Call) and op.builtin.name == "from_end" else op


def _whole(part: Op | None, rest: Op | None, forms: Forms) -> Form | None:
    """Return the number x of `x // n` and `x % n`, if it is not negative."""
    if not (isinstance(part, Call) and isinstance(rest, Call)):
        return None
    if (part.builtin.name, rest.builtin.name) != ("floordiv", "mod"):
        return None
    (x, n), (y, m) = ((forms[v] for v in call.args) for call in (part, rest))
    if x is None or y is None or n is None or m is None or x.range()[0] < 0:
        return None
    is_same = (x.constant, x.terms) == (y.constant, y.terms) and (n.constant, n.terms) == (m.constant, m.terms)
    return x if is_same and not n.terms and n.constant > 0 else None
