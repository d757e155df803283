"""Checks of gradients as JAX makes them: reverse sweeps are adjoints of tangents, with records of what is overwritten.

A sweep is held against the tangent, its own tangent against differences of the sweep, and a batch of sweeps against
one after the other.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import derivativekit as kit
import numpy as np
from derivativekit import Case

from jaxwarp.ir.verify import verify
from jaxwarp.passes.launches.batch import batch
from jaxwarp.vjp.derived import Derived
from jaxwarp.vjp.forward.tangent import tangent
from jaxwarp.vjp.reverse.adjoint import adjoint

Arrays = dict[int, np.ndarray]

_adjoint_of = functools.lru_cache(maxsize=2)(adjoint)
batched = functools.lru_cache(maxsize=2)(batch)


@dataclass(frozen=True)
class Sweep:
    """The adjoint of a case's tangent. Its slots name those of the tangent.

    Attributes:
        case: what it is of.
        first: the tangent.
        derived: the adjoint.
        positions: where tangents of the case's parameters are among the slots of the tangent.
    """

    case: Case
    first: Derived
    derived: Derived
    positions: dict[int, int]

    def known(self, buffers: Sequence[np.ndarray]) -> list[np.ndarray]:
        """What the tangent has at a point, with NaN for tangents."""
        of = {"primal": buffers, "final": kit.run(self.case.kernel, self.case.grid, buffers)}
        return [
            of[s.kind][s.index] if s.kind in of else np.full(buffers[s.index].shape, np.nan) for s in self.first.slots
        ]

    def at(self, buffers: Sequence[np.ndarray], cotangents: Arrays) -> list[np.ndarray]:
        """The buffers of the sweep at a point."""
        known = self.known(buffers)
        given = {self.positions[i]: c for i, c in cotangents.items() if i in self.positions}
        asked = [s.index for s in self.derived.slots if s.kind == "cotangent" and s.reads]
        incoming = {n: given.get(n, np.zeros(known[n].shape)) for n in asked}
        return kit.feed(self.derived, known, incoming, (), self.records(known))

    def records(self, known: list[np.ndarray]) -> list[np.ndarray]:
        return kit.record(self.derived, self.case.grid, known)

    def outcome(self, buffers: Sequence[np.ndarray], cotangents: Arrays) -> Arrays:
        """The gradient, of the sweep's buffers."""
        found = kit.run(self.derived.kernel, self.case.grid, buffers)
        wanted = {i: self.positions[i] for i in self.case.wanted}
        return kit.through(self.derived, kit.results(self.derived, found, "cotangent"), wanted, cotangents)


def sweep_of(case: Case) -> Sweep:
    first = kit.tangent_of(case.kernel, case.wanted, case.grid)
    positions = {s.index: n for n, s in enumerate(first.slots) if s.kind == "tangent"}
    extents = case.extents and tuple(case.extents[s.index] for s in first.slots)
    wanted = tuple(positions[i] for i in case.wanted)
    return Sweep(case, first, _adjoint_of(first.kernel, wanted, case.grid, finals=False, extents=extents), positions)


def check_gradient(case: Case) -> None:
    tangents, cotangents = kit.directions(case, 2)
    sweep = sweep_of(case)
    pulled = sweep.outcome(sweep.at(case.buffers, cotangents), cotangents)
    pushed = kit.push(case, tangents)
    forward = sum((cotangents[i] * pushed[i]).sum() for i in case.outputs if i in pushed)
    backward = sum((pulled[i] * t).sum() for i, t in tangents.items())
    scale = sum(np.abs(pulled[i] * t).sum() for i, t in tangents.items())
    np.testing.assert_allclose(forward, backward, rtol=1e-9, atol=1e-12 + 1e-12 * scale, equal_nan=False)


def check_second_order(case: Case, eps: float = 1e-6) -> None:
    """The tangent of the sweep, against differences. What it is given, records too, moves as differences of it do."""
    tangents, cotangents = kit.directions(case, 3)
    sweep = sweep_of(case)
    slots, fed = sweep.derived.slots, sweep.at(case.buffers, cotangents)
    ends = [sweep.at(kit.moved(case, tangents, e), cotangents) for e in (eps, -eps)]
    moved = {n: (b - a) / (2 * eps) for n, (b, a) in enumerate(zip(*ends, strict=True)) if a.dtype.kind == "f"}
    given = {n: t for n, t in moved.items() if slots[n].kind != "cotangent" and t.any()}
    if not given:
        return
    second = tangent(sweep.derived.kernel, tuple(given), case.grid, from_finals=False)
    run = kit.run(second.kernel, case.grid, kit.feed(second, fed, given))
    found = {slots[n].index: t for n, t in kit.results(second, run, "tangent").items()}
    high, low = (sweep.outcome(end, cotangents) for end in ends)
    for i in case.wanted:
        expected = (high[i] - low[i]) / (2 * eps)
        got = found.get(sweep.positions[i], 0.0 * expected)
        np.testing.assert_allclose(got, expected, rtol=5e-5, atol=5e-6, equal_nan=False)


def check_batch(case: Case) -> None:
    """Two sweeps at once, to the last bit."""
    sweep, (_, cotangents) = sweep_of(case), kit.directions(case, 4)
    points = [case.buffers, [0.9 * b if b.dtype.kind == "f" else b for b in case.buffers]]
    items = [sweep.at(point, cotangents) for point in points]
    expected = [kit.run(sweep.derived.kernel, case.grid, item) for item in items]
    # The cotangents are the same for both, but for those that the sweep changes.
    axes = tuple(None if s.kind == "cotangent" and not s.writes else 0 for s in sweep.derived.slots)
    made = verify(batched(sweep.derived.kernel, axes))
    both = [a if axis is None else np.stack((a, b)) for a, b, axis in zip(*items, axes, strict=True)]
    found = kit.run(made, (2, *case.grid), both)
    for n, axis in enumerate(axes):
        if axis is not None:
            np.testing.assert_array_equal(found[n], np.stack([e[n] for e in expected]))
