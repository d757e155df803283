"""Random gradients, in float64 at generic points: tangents against finite differences, adjoints against tangents.

    smooth      IR of every construct that has derivatives
    recurrence  rows that are read and overwritten at places that move with loops
    own         the same of arrays of a thread's own, none of which is made values
    mixed       sweeps in the kernel language that change rows, own arrays and tiles, by indices from the end, too
    stored      launches whose threads store to one element, under stacks of transformations, against `jnp`
    launches    launches, copies and fills on parts of arrays: in place, on a tape, and by callables of each mode

Of the first four, the derivatives of first and second order are made and checked by the interpreter, and each tenth is
run as CPU code, too, most of it compiled with little optimisation as kernels.py has it. What has no derivative that is
right is refused, which is counted. Programs of `mixed` are also run by Python. Their gradients are made as JAX makes
them, of the tangent; each has a value, a gradient, a second derivative and a batch to check.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from pathlib import Path

import derivative_strategy
import derivativekit as kit
import mixed_reference
import mixed_strategy
import numpy as np
import own_array_strategy
import recurrence_strategy
import sweepkit
from derivativekit import Case
from fuzz import kernels
from fuzz.campaign import Journal, Trial
from kernels_strategy import Pick, RandomPick

from jaxwarp.codegen.cpu import CpuCode, compile_cpu, launch
from jaxwarp.codegen.cpu import compile as cpu_compiler
from jaxwarp.errors import DifferentiationError
from jaxwarp.ir.interpret import interpret
from jaxwarp.ir.kernel import Kernel
from jaxwarp.passes.pipeline import prepare
from jaxwarp.vjp import own_arrays

CHECKS: dict[str, Callable[..., None]] = {
    "tangent": kit.check_tangent,
    "adjoint": kit.check_adjoint,
    "adjoint of tangent": kit.check_adjoint_of_tangent,
    "tangent of adjoint": kit.check_tangent_of_adjoint,
}
MIXED: dict[str, Callable[..., None]] = {
    "values and tangent": mixed_reference.check,
    "gradient": sweepkit.check_gradient,
    "second order": sweepkit.check_second_order,
    "batch": sweepkit.check_batch,
}
FORWARD = ("tangent", "values and tangent")
DIFFERENCES = ("tangent", "tangent of adjoint", "values and tangent", "second order")
STEPS = (1e-6, 3e-8, 1e-5, 1e-9)


def tried(case: Case, checks: Mapping[str, Callable[..., None]]) -> str:
    refused = {name for name, check in checks.items() if not is_right(name, check, case)}
    assert refused.isdisjoint(FORWARD), "forward mode needs nothing that these kernels do not have"
    return "some refused" if refused else "right"


def is_right(name: str, check: Callable[..., None], case: Case) -> bool:
    """Whether the derivative was given; it is right if so."""
    steps = [(step,) for step in STEPS] if name in DIFFERENCES else [()]
    for number, step in enumerate(steps):
        try:
            check(case, *step)
        except DifferentiationError:
            return False
        except AssertionError:
            # A branch may be taken differently a little way off, and then a smaller step is right.
            if number + 1 == len(steps):
                raise
        else:
            return True
    raise AssertionError("unreachable")


def run_both_ways(kernel: Kernel, grid: tuple[int, ...], buffers: list[np.ndarray]) -> list[np.ndarray]:
    """As `derivativekit.run`, and as CPU code."""
    copies, compiled = ([np.array(b) for b in buffers] for _ in range(2))
    interpret(kit.verified(kernel), grid, copies, max_steps=100_000)
    prepared, code = compiled_of(kernel)
    launch(code, prepared, grid, compiled)
    for param, a, b in zip(kernel.params, copies, compiled, strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-8, atol=1e-10, err_msg=f"CPU code: {param.name}\n{prepared}")
    return copies


@functools.lru_cache(maxsize=16)
def compiled_of(kernel: Kernel) -> tuple[Kernel, CpuCode]:
    prepared = prepare(kernel, fma=False)
    return prepared, compile_cpu(prepared, width=4)


def trials(
    make: Callable[[Pick], Case],
    limit: int = own_arrays.LIMIT,
    checks: Mapping[str, Callable[..., None]] = CHECKS,
) -> Callable[[Path, int, Journal], Trial]:
    """Trials of such cases; `limit`: the size up to which arrays of a thread's own become values."""

    def kind(_: Path, seed: int, journal: Journal) -> Trial:
        interpreted = kit.run

        def trial(number: int) -> str:
            case = make(RandomPick(f"{seed}/{number}"))
            text = case.source if isinstance(case, mixed_strategy.MixedCase) else case.kernel
            journal.note(f"{text}\n{case.buffers}")
            own_arrays.LIMIT = limit
            kit.run = run_both_ways if number % 10 == 0 else interpreted
            cpu_compiler._OPTIMISATION = kernels.LITTLE if number % 50 else kernels.AS_SHIPPED
            return tried(case, checks)

        return trial

    return kind


def stored(_: Path, seed: int, journal: Journal) -> Trial:
    import jax

    jax.config.update("jax_num_cpu_devices", 8)
    from ffi import test_colliding_stores as colliding

    def trial(number: int) -> str:
        rng = np.random.default_rng([seed, number])
        name = list(colliding.STACKS)[rng.integers(len(colliding.STACKS))]
        at, does = rng.integers(0, 3, (2, 2, 4), dtype=np.int32)
        x = rng.uniform(0.2, 0.9, 4).astype(np.float32)
        journal.note(f"{name}: x = {x!r}, at = {at!r}, does = {does!r}")
        found, expected = (colliding._stacked(name, is_kernel)(x, at, does) for is_kernel in (True, False))
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
        return "right"

    return trial


def launches(_: Path, seed: int, journal: Journal) -> Trial:
    import launch_programs

    def trial(number: int) -> str:
        launch_programs.check(RandomPick(f"{seed}/{number}"))
        return "right"

    return trial


KINDS = {
    "smooth": trials(lambda pick: derivative_strategy.Maker(pick, pick.of((8, 14, 22, 30))).case()),
    "recurrence": trials(lambda pick: recurrence_strategy.Maker(pick).case()),
    "own": trials(lambda pick: own_array_strategy.Maker(pick).case(), limit=0),
    "mixed": trials(mixed_strategy.written, limit=16, checks=MIXED),
    "stored": stored,
    "launches": launches,
}
SHARES = {"smooth": 38, "recurrence": 17, "own": 10, "mixed": 15, "stored": 12, "launches": 8}
CHUNK = 500
