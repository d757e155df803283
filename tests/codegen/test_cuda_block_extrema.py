"""Derivatives of sums and extrema of tiles by a block of CUDA threads, on the host."""

from __future__ import annotations

from dataclasses import replace

import hostcuda
import numpy as np
import pytest
from tilekit import body_kernel

from jaxwarp.codegen.cuda import print_cuda
from jaxwarp.codegen.cuda.blocks import plan as planning
from jaxwarp.ir.interpret import interpret
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import For, Op
from jaxwarp.ir.rewrite import Rewriter
from jaxwarp.passes.pipeline import fix_rounding, prepare
from jaxwarp.vjp.forward.tangent import tangent
from jaxwarp.vjp.reverse.adjoint import adjoint
from jaxwarp.vjp.winners import hold_selection

BODIES = {
    "sum": """
t = wp.tile_load(x, shape=({n},))
y[0] = wp.tile_sum(t * t)[0]
wp.tile_store(y, wp.tile_sum(wp.tile_map(wp.sin, t)), offset=(1,))
""",
    "extremum": """
t = wp.tile_reshape(wp.tile_load(x, shape=({n} * 3,)), ({n}, 3))
wp.tile_store(y, wp.tile_max(t * t) * wp.tile_min(t))
wp.tile_store(y, wp.tile_max(wp.tile_load(x, shape=(1,), offset=(3,))), offset=(1,))
""",
    "softmax": """
t = wp.tile_load(x, shape=({n},), offset=(2,))
e = wp.tile_map(wp.exp, t - wp.tile_broadcast(wp.tile_max(t), shape=({n},)))
wp.tile_store(y, e / wp.tile_broadcast(wp.tile_sum(e), shape=({n},)))
""",
    "layers": """
t = wp.tile_load(x, shape=({n},))
for k in range(3):
    c = t - wp.tile_broadcast(wp.tile_sum(t) / float({n}), shape=({n},))
    v = wp.tile_sum(c * c) / float({n}) + wp.tile_ones(shape=1, dtype=float)
    t = c / wp.tile_broadcast(wp.tile_map(wp.sqrt, v), shape=({n},))
    top = wp.tile_max(t)
    t = t * 2.0 - wp.tile_broadcast(top * top, shape=({n},))
wp.tile_store(y, t)
""",
}
DERIVE = {"reverse": adjoint, "forward": tangent}


class _Plain(Rewriter):
    """Loops that nobody knows to be over tiles."""

    def op(self, op: Op) -> None:
        self.copy(replace(op, over_tile=False) if isinstance(op, For) else op)


def derived(name: str, n: int, way: str, marked: bool = True) -> Kernel:
    kernel = body_kernel("x: wp.array[float], y: wp.array[float]", BODIES[name].replace("{n}", str(n))).specialize()
    kernel = fix_rounding(kernel if marked else _Plain().kernel(kernel), fma=False)
    return replace(prepare(DERIVE[way](kernel, range(2), (1,)).kernel, fma=False), name=f"{name}_{n}_{way}")


def arrays(kernel: Kernel, special: bool) -> list[np.ndarray]:
    """Numbers, with extremes that come twice; perhaps with NaN and infinity."""
    rng = np.random.default_rng(9)
    found: list[np.ndarray] = []
    for param in kernel.params:
        numbers = np.round(rng.standard_normal(220 if param.name.startswith("x") else 70), 1).astype(np.float32)
        if special and param.name == "x":
            numbers[[0, 2, 9]] = np.nan
            numbers[11] = np.inf
        found.append(numbers)
    return found


@pytest.mark.parametrize("way", DERIVE)
def test_a_block_has_the_derivatives_of_one_thread(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("LEAST_ELEMENTS", 1), ("WORTH", 0), ("EACH", 1)):
        monkeypatch.setattr(planning, name, value)
    kernels = [derived(name, n, way) for name in BODIES for n in (2, 33, 65)]
    codes = [print_cuda(kernel) for kernel in kernels]
    assert {64, 128, 256} <= {code.threads for n, code in enumerate(codes) if n % 3} <= {32, 64, 128, 256}
    hostcuda.compile_host(list(zip(kernels, codes, strict=True)), "-O0")
    for kernel, code in zip(kernels, codes, strict=True):
        expected, got = arrays(kernel, special=False), arrays(kernel, special=False)
        interpret(kernel, (1,), expected)
        hostcuda.run_code(kernel, code, (1,), got)
        for a, b in zip(got, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5, err_msg=f"{kernel.name}\n{code.source}")


@pytest.mark.parametrize("special", [False, True])
def test_the_reverse_of_an_extremum_goes_to_its_first_place(special: bool) -> None:
    """The same numbers as by all states of the loop, also where none is larger than the first, or some are NaN."""
    for name in ("extremum", "softmax", "layers"):
        new, old = derived(name, 7, "reverse"), derived(name, 7, "reverse", marked=False)
        assert len(new.locals) < len(old.locals)
        got, expected = arrays(new, special), arrays(old, special)
        interpret(new, (1,), got)
        interpret(old, (1,), expected)
        for a, b in zip(got, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-6)


def test_the_operand_of_an_atomic_maximum_is_found_again() -> None:
    """A block rounds a sum in one way, whether it looks for the maximum or for the thread that has it."""
    body = "t = wp.tile_load(x[i], shape=(256,))\nwp.atomic_max(y, 0, wp.tile_sum(t * t)[0])"
    kernel = body_kernel("x: wp.array2d[float], y: wp.array[float]", body).specialize()
    held = hold_selection(fix_rounding(kernel), (0, 1), (4,), {}, {})
    assert held is not None
    largest, finder = prepare(kernel), prepare(held.finder.kernel)
    hostcuda.prepare_host([largest, finder], (32,))
    for seed in range(8):
        x = np.random.default_rng(seed).standard_normal((4, 256)).astype(np.float32)
        y = np.full(1, -1.0, np.float32)
        hostcuda.run_host(largest, (4,), [x, y])
        winner = np.zeros(1, np.int32)
        values = {"winner": [winner], "primal": [x, np.full(1, -1.0, np.float32)], "final": [x, y]}
        slots = [(s.kind, 0 if s.kind == "winner" else s.index) for s in held.finder.slots]
        hostcuda.run_host(finder, (4,), [values[kind][index] for kind, index in slots])
        assert winner == np.argmax((x * x).astype(np.float64).sum(1)) + 1
