"""What checks of derivatives share: kernels with launches, their derivatives by the interpreter, four checks.

The tangent is held against central differences of the kernel; the adjoint against the tangent, by
<ct, J t> = <J^T ct, t>; the adjoint of the tangent against the adjoint (how JAX transposes); the tangent of the adjoint
against central differences of the adjoint (second order).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from jaxwarp.errors import DifferentiationError
from jaxwarp.ir.interpret import interpret
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.verify import verify
from jaxwarp.passes.launches.tells import without_tests
from jaxwarp.vjp.derived import Derived
from jaxwarp.vjp.forward.tangent import tangent
from jaxwarp.vjp.reverse.adjoint import Assumed, adjoint

# Checks of one case ask for the same derivatives. Kernels are one if they are the same object.
verified = functools.lru_cache(maxsize=16)(verify)
tangent_of = functools.lru_cache(maxsize=4)(tangent)
adjoint_of = functools.lru_cache(maxsize=4)(adjoint)


@dataclass(frozen=True)
class Case:
    """A kernel, a launch of it, what is differentiated by what; `extents`: those that are known before it runs."""

    name: str
    kernel: Kernel
    grid: tuple[int, ...]
    buffers: list[np.ndarray]
    wanted: tuple[int, ...]
    outputs: tuple[int, ...]
    extents: tuple[tuple[int, ...], ...] | None = None

    def __post_init__(self) -> None:
        # As `fix_rounding` makes what derivatives are made of.
        object.__setattr__(self, "kernel", without_tests(self.kernel))


def run(kernel: Kernel, grid: tuple[int, ...], buffers: Sequence[np.ndarray]) -> list[np.ndarray]:
    copies = [np.array(b) for b in buffers]
    interpret(verified(kernel), grid, copies, max_steps=100_000)
    return copies


def feed(
    derived: Derived,
    primals: Sequence[np.ndarray],
    moved: dict[int, np.ndarray],
    finals: Sequence[np.ndarray] = (),
    residuals: Sequence[np.ndarray] = (),
) -> list[np.ndarray]:
    """Buffers of a derivative kernel: `moved` are tangents or cotangents, zero where none is given."""
    sources = {"primal": primals, "final": finals}
    written = iter(residuals)
    return [
        np.array(
            next(written)
            if s.kind == "residual"
            else sources[s.kind][s.index]
            if s.kind in sources
            else moved.get(s.index, np.zeros(primals[s.index].shape))
        )
        for s in derived.slots
    ]


def record(derived: Derived, grid: tuple[int, ...], primals: Sequence[np.ndarray]) -> list[np.ndarray]:
    """What a derivative reads of the run that recorded it, as a launch makes it."""
    residual_launch = derived.residual_launch
    if residual_launch is None:
        return []
    made = []
    for _, shape in residual_launch.shapes(grid, [b.shape for b in primals]):
        if not isinstance(shape, tuple):
            raise DifferentiationError("the iterations of a loop are not known; a launch refuses this too")
        made.append(np.full(shape, np.nan))
    buffers = [primals[i] for i in residual_launch.params] + made
    return run(residual_launch.kernel, grid, buffers)[len(residual_launch.params) :]


def results(derived: Derived, buffers: Sequence[np.ndarray], kind: str) -> dict[int, np.ndarray]:
    return {s.index: b for s, b in zip(derived.slots, buffers, strict=True) if s.kind == kind and s.writes}


def difference(f: Callable[[float], dict[int, np.ndarray]], eps: float = 1e-6) -> dict[int, np.ndarray]:
    high, low = f(eps), f(-eps)
    return {i: (high[i] - low[i]) / (2 * eps) for i in high}


def directions(case: Case, seed: int) -> tuple[dict[int, np.ndarray], dict[int, np.ndarray]]:
    rng = np.random.default_rng(seed)
    tangents = {i: rng.standard_normal(case.buffers[i].shape) for i in case.wanted}
    cotangents = {i: rng.standard_normal(case.buffers[i].shape) for i in case.outputs}
    return tangents, cotangents


def moved(case: Case, tangents: dict[int, np.ndarray], eps: float) -> list[np.ndarray]:
    return [b + eps * tangents[i] if i in tangents else b for i, b in enumerate(case.buffers)]


def push(case: Case, tangents: dict[int, np.ndarray]) -> dict[int, np.ndarray]:
    derived = tangent_of(case.kernel, case.wanted, case.grid)
    finals = run(case.kernel, case.grid, case.buffers)
    found = results(derived, run(derived.kernel, case.grid, feed(derived, case.buffers, tangents, finals)), "tangent")
    return {i: t for i, t in tangents.items() if i in case.outputs} | found


def pull(
    case: Case, buffers: Sequence[np.ndarray], cotangents: dict[int, np.ndarray], with_grid: bool = True
) -> dict[int, np.ndarray]:
    derived = adjoint_of(case.kernel, case.wanted, case.grid if with_grid else None)
    incoming = {s.index: cotangents[s.index] for s in derived.slots if s.kind == "cotangent" and s.reads}
    finals = run(case.kernel, case.grid, buffers)
    fed = feed(derived, buffers, incoming, finals, record(derived, case.grid, buffers))
    found = results(derived, run(derived.kernel, case.grid, fed), "cotangent")
    return through(derived, found, {i: i for i in case.wanted}, cotangents)


def through(
    derived: Derived, found: dict[int, np.ndarray], positions: dict[int, int], cotangents: dict[int, np.ndarray]
) -> dict[int, np.ndarray]:
    """Cotangents of the wanted parameters; what the kernel does not write of an in-out argument goes through."""
    written = {s.index for s in derived.slots if s.kind == "cotangent" and s.reads}
    passed = {i: cotangents[i] for i, p in positions.items() if i in cotangents and p not in written}
    return {i: found.get(p, 0.0) + passed.get(i, 0.0) for i, p in positions.items()}


def check_tangent(case: Case, eps: float = 1e-6) -> None:
    tangents, _ = directions(case, 0)
    pushed = push(case, tangents)
    expected = difference(lambda e: dict(enumerate(run(case.kernel, case.grid, moved(case, tangents, e)))), eps)
    for i in case.outputs:
        got = pushed.get(i, np.zeros(case.buffers[i].shape))
        np.testing.assert_allclose(got, expected[i], rtol=2e-5, atol=1e-6)


def check_adjoint(case: Case) -> None:
    tangents, cotangents = directions(case, 1)
    pushed, pulled = push(case, tangents), pull(case, case.buffers, cotangents)
    forward = sum((cotangents[i] * pushed[i]).sum() for i in case.outputs if i in pushed)
    backward = sum((pulled[i] * t).sum() for i, t in tangents.items())
    scale = sum(np.abs(pulled[i] * t).sum() for i, t in tangents.items())
    np.testing.assert_allclose(forward, backward, rtol=1e-9, atol=1e-12 + 1e-12 * scale, equal_nan=False)


def check_adjoint_of_tangent(case: Case, with_grid: bool = False, as_written: bool = False) -> None:
    """`as_written`: no index counts from the end, as a launch finds out where nothing else will do."""
    _, cotangents = directions(case, 2)
    first = tangent_of(case.kernel, case.wanted, case.grid)
    positions = {s.index: n for n, s in enumerate(first.slots) if s.kind == "tangent"}
    wanted = [positions[i] for i in case.wanted]
    second = adjoint(first.kernel, wanted, case.grid, finals=False, assumed=Assumed(as_written))
    finals = run(case.kernel, case.grid, case.buffers)
    known = {"primal": case.buffers, "final": finals}
    inner = [known[s.kind][s.index] if s.kind in known else np.full(case.buffers[s.index].shape, np.nan)
             for s in first.slots]  # fmt: skip
    incoming = {positions[i]: c for i, c in cotangents.items() if i in positions}
    incoming = {s.index: incoming.get(s.index, np.zeros(inner[s.index].shape))
                for s in second.slots if s.kind == "cotangent" and s.reads}  # fmt: skip
    buffers = feed(second, inner, incoming, (), record(second, case.grid, inner))
    found = results(second, run(second.kernel, case.grid, buffers), "cotangent")
    got = through(second, found, dict(zip(case.wanted, wanted, strict=True)), cotangents)
    if second.residual_launch is not None:
        # The adjoint of the kernel itself is refused.
        tangents, _ = directions(case, 2)
        pushed = push(case, tangents)
        forward = sum((cotangents[i] * pushed[i]).sum() for i in case.outputs if i in pushed)
        scale = sum(np.abs(got[i] * t).sum() for i, t in tangents.items())
        backward = sum((got[i] * t).sum() for i, t in tangents.items())
        np.testing.assert_allclose(forward, backward, rtol=1e-9, atol=1e-12 + 1e-12 * scale, equal_nan=False)
        return
    expected = pull(case, case.buffers, cotangents, with_grid)
    for i in case.wanted:
        np.testing.assert_allclose(got[i], expected[i], rtol=1e-9, atol=1e-12)


def check_tangent_of_adjoint(case: Case, eps: float = 1e-6) -> None:
    tangents, cotangents = directions(case, 3)
    first = adjoint_of(case.kernel, case.wanted, case.grid)
    primal = {s.index: n for n, s in enumerate(first.slots) if s.kind == "primal"}
    # Integers have no tangents.
    final = {
        s.index: n for n, s in enumerate(first.slots) if s.kind == "final" and case.buffers[s.index].dtype.kind == "f"
    }
    recorded = record(first, case.grid, case.buffers)
    residual = [n for n, s in enumerate(first.slots) if s.kind == "residual"]
    active = {k: n for k, n in enumerate(residual) if recorded[k].dtype.kind == "f"}
    wanted = [*(primal[i] for i in case.wanted if i in primal), *final.values(), *active.values()]
    if not wanted:
        return  # the adjoint does not depend on the inputs
    second = tangent(first.kernel, wanted, case.grid, from_finals=False)
    incoming = {s.index: cotangents[s.index] for s in first.slots if s.kind == "cotangent" and s.reads}
    inner = feed(first, case.buffers, incoming, run(case.kernel, case.grid, case.buffers), recorded)
    tangents_in = {primal[i]: t for i, t in tangents.items() if i in primal}
    if active:
        moved_records = difference(lambda e: dict(enumerate(record(first, case.grid, moved(case, tangents, e)))), eps)
        tangents_in |= {n: moved_records[k] for k, n in active.items()}
    if final:
        tangents_in |= {n: push(case, tangents)[i] for i, n in final.items()}
    pushed = results(second, run(second.kernel, case.grid, feed(second, inner, tangents_in)), "tangent")
    expected = difference(lambda e: pull(case, moved(case, tangents, e), cotangents), eps)
    for n, slot in enumerate(first.slots):
        if slot.kind == "cotangent" and slot.index in case.wanted:
            got = pushed.get(n, np.zeros(expected[slot.index].shape))
            np.testing.assert_allclose(got, expected[slot.index], rtol=5e-5, atol=5e-6, equal_nan=False)
