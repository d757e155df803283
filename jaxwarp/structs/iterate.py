"""`@func_next(S)`: what makes `for x in s` of a struct."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jaxwarp.boundary import boundary
from jaxwarp.errors import KernelTypeError, type_text
from jaxwarp.frontend.text.annotations import is_generic, pattern_text
from jaxwarp.frontend.text.functions import Func, Overload
from jaxwarp.frontend.text.host_values import Missing
from jaxwarp.types import NEXT, RUNS, Aggregate, Scalar, Struct, bool_, struct_of


@boundary
def func_next(kind: Any, runs: tuple[Func, Func] | None = None) -> Callable[[Func], Func]:
    """Says how a struct advances, so that kernels can go over it: `for x in s`.

    The decorated function takes `(state: ref[S], item: ref[T])`. It sets both and returns True, or returns False where
    there is nothing more. A loop has a copy of the struct, so loops inside each other, over one struct too, are
    independent. Further arguments need defaults. The function can be called by its name: `while next_item(s, item):`.

    Args:
        kind: the class of the struct.
        runs: where items are found in runs, two functions that loops use in place of the decorated one, unless `break`
            leaves them: `(state: ref[S], run: ref[vec2i]) -> bool` sets the first place of the next run and the one
            after its last, `(state: S, place: int)` gives the item at a place. The items and their order are the same.

    Raises:
        KernelTypeError: `kind` is no struct, or the function has another signature.

    Examples:

        @wp.struct
        class Chain:
            next: wp.array[int]
            at: int

        @wp.func_next(Chain)
        @wp.func
        def next_link(chain: wp.ref[Chain], item: wp.ref[int]) -> bool:
            item = chain.at
            if item >= 0:
                chain.at = chain.next[item]
            return item >= 0
    """
    struct = struct_of(kind)
    if struct is None:
        raise KernelTypeError(f"@func_next: expected a struct, got {kind!r}", hint="write @func_next(S), S a @struct")

    @boundary
    def decorate(function: Func) -> Func:
        if not isinstance(function, Func):
            raise KernelTypeError(
                f"@func_next: expected a function made by @func, got {type_text(function)}",
                hint="write @func_next(S) above @func",
            )
        if not any(_steps(overload, struct) for overload in function.overloads):
            signatures = "; ".join(o.signature() for o in function.overloads)
            raise KernelTypeError(
                f"@func_next: {function.name} cannot advance {struct!r}: its signature is {signatures}",
                hint=f"write def {function.name}(state: ref[{struct!r}], item: ref[int]) -> bool",
            )
        setattr(struct.kind, NEXT, function)
        setattr(struct.kind, RUNS, runs)
        return function

    return decorate


def _steps(overload: Overload, struct: Struct) -> bool:
    """Return whether an overload takes the struct and an item, both references, and returns a bool."""
    first, second, *others = (*overload.parameters, None, None)
    if first is None or second is None or not (first.is_reference and second.is_reference):
        return False
    has_item = isinstance(second.pattern, Scalar | Aggregate) and not is_generic(second.pattern)
    are_left_out = all(p is None or p.default is not Missing for p in others)
    answers = overload.returns is Missing or pattern_text(overload.returns) == pattern_text(bool_)
    return first.pattern == struct and has_item and are_left_out and answers
