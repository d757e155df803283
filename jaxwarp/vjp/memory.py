"""What the reverse sweep may assume about arrays: whose elements are whose, and which loads it can do again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxwarp.errors import DifferentiationError
from jaxwarp.ir.nodes import Atomic, Block, Kernel, Load, Op, Param, Store, Value, walk
from jaxwarp.passes.affine import Forms

Access = Load | Store | Atomic
# An index as it can be compared: its affine form, or the value itself.
Position = tuple[Any, ...]
Key = tuple[Position, ...]


class Addresses:
    """Comparable addresses of a kernel's accesses."""

    def __init__(self, kernel: Kernel):
        self.forms = Forms(kernel, [None] * kernel.grid_rank)
        self.rank = kernel.grid_rank

    def key(self, op: Access) -> Key:
        return tuple(self._position(v) for v in op.indices)

    def _position(self, value: Value) -> Position:
        form = self.forms[value]
        if form is None:
            return ("value", value)
        return ("form", frozenset(form.terms.items()), form.constant)

    def owned_axes(self, value: Value) -> set[int]:
        """The grid axes that the index tells apart: {a} if it is c * tid(a) + constant."""
        form = self.forms[value]
        if form is None or len(form.terms) != 1:
            return set()
        ((iterator, _),) = form.terms.items()
        return set() if iterator.axis is None else {iterator.axis}


def are_disjoint(a: Key, b: Key) -> bool:
    """Do the addresses provably differ, in every thread and iteration?"""
    return any(p[0] == q[0] == "form" and p[1] == q[1] and p[2] != q[2] for p, q in zip(a, b, strict=True))


class Ownership:
    """Which arrays are partitioned among the threads: no element is touched by two of them."""

    def __init__(self, kernel: Kernel):
        self.addresses = Addresses(kernel)
        self.locals = frozenset(kernel.locals)
        self.accesses: dict[Param, list[Access]] = {}
        for op in walk(kernel.body):
            if isinstance(op, (Load, Store, Atomic)):
                self.accesses.setdefault(op.param, []).append(op)

    def is_private(self, param: Param) -> bool:
        """True if some axes of the array are indexed alike by all accesses, and tell all threads apart."""
        if param in self.locals:
            return True
        accesses = self.accesses.get(param, [])
        keys = [self.addresses.key(op) for op in accesses]
        owned: set[int] = set()
        for axis in range(param.rank):
            if len({key[axis] for key in keys}) == 1:
                owned |= self.addresses.owned_axes(accesses[0].indices[axis])
        return bool(accesses) and owned == set(range(self.addresses.rank))


def require_replayable(kernel: Kernel) -> None:
    """Every load must see the array as it was on entry, so that the reverse sweep can do it again.

    Raises:
        DifferentiationError: a load of an array that the kernel writes, where that cannot be shown.
    """
    ownership = Ownership(kernel)
    for param, accesses in ownership.accesses.items():
        loads = [op for op in accesses if isinstance(op, Load)]
        if len(loads) in (0, len(accesses)):
            continue
        if not ownership.is_private(param):
            raise DifferentiationError(
                f"the kernel reads {param.name} and writes it, and a thread may read what another one writes; "
                "the derivative of that is not defined",
                loads[0].loc,
                hint="read from an input and write to an output",
            )
        if param in ownership.locals:
            raise DifferentiationError(
                "the reverse derivative of a reverse derivative through a loop is not available",
                loads[0].loc,
                hint="differentiate forward first: jax.jacfwd(jax.grad(f)), jax.jvp(jax.grad(f), ...), jax.hessian(f)",
            )
        late = _load_after_write(kernel.body.ops, param, ownership.addresses)
        if late is not None:
            raise DifferentiationError(
                f"{param.name} is read here after it may have been overwritten, at an address that changes in a loop "
                "or depends on data; the reverse sweep would need the overwritten value",
                late.loc,
                hint="carry the value in a local variable, or write to another output",
            )


def _load_after_write(ops: Sequence[Op], param: Param, addresses: Addresses) -> Load | None:
    """The first load of `param` that a write to it may precede, in the order of execution."""
    order: list[tuple[Access, tuple[Block, ...]]] = []

    def collect(ops: Sequence[Op], loops: tuple[Block, ...]) -> None:
        for op in ops:
            if isinstance(op, (Load, Store, Atomic)) and op.param is param:
                order.append((op, loops))
            for block in op.blocks:
                # Values that a loop carries go round: what stands later may run earlier.
                inner = (*loops, block) if block.params or type(op).__name__ in ("For", "While") else loops
                collect(block.ops, inner)

    collect(ops, ())
    for at, (op, loops) in enumerate(order):
        if not isinstance(op, Load):
            continue
        for other_at, (other, other_loops) in enumerate(order):
            if isinstance(other, Load) or are_disjoint(addresses.key(op), addresses.key(other)):
                continue
            shared_loop = any(block in other_loops for block in loops)
            if other_at < at or shared_loop:
                return op
    return None
