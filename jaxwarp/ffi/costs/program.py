"""The costs of a compiled program, launches included.

XLA asks nobody about custom calls: its `cost_analysis` of a program counts each as -1 operation and -1 byte. So a
launch carries its counts as attributes, which XLA passes on and does not read. We find them in the program that XLA
made: launches that it dropped are not counted.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Any

from jax.interpreters.mlir import ir

from jaxwarp.analysis.roofline import roofline
from jaxwarp.boundary import boundary
from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.ir.kernel import Kernel
from jaxwarp.launches.spec import Dim, LaunchSpec, is_static
from jaxwarp.passes.pipeline import prepared

_NAME = "jaxwarp_cost"
_LAUNCH = re.compile(r'^.* custom-call\(.*custom_call_target="jaxwarp_launch".*$', re.MULTILINE)
_COST = re.compile(rf'{_NAME}="([^"]*)"')


def tell(made: Sequence[Any], launch: LaunchSpec, shapes: Sequence[tuple[Dim, ...]]) -> None:
    """Writes what a launch costs into its operation.

    Args:
        made: results of the operation.
        launch: the launch.
        shapes: of its operands.
    """
    buffers = [*shapes, *launch.results]
    if not made or not all(is_static(n) for shape in (launch.grid, *buffers) for n in shape):
        return
    known = tuple(tuple(map(int, buffers[b])) for b in launch.buffers)
    text = _cost(prepared(launch.kernel, launch.fma), tuple(map(int, launch.grid)), known)
    operation = made[0].owner
    operation.attributes["mhlo.frontend_attributes"] = ir.DictAttr.get({_NAME: ir.StringAttr.get(text)})


@functools.lru_cache(maxsize=512)
def _cost(kernel: Kernel, grid: tuple[int, ...], shapes: tuple[tuple[int, ...], ...]) -> str:
    found = roofline(kernel, grid, dict(zip(kernel.params, shapes, strict=True)))
    return " ".join(repr(float(n)) for n in (*found.flops, *found.functions, found.bytes))


@boundary
def cost_analysis(program: Any) -> dict[str, float]:
    """Return XLA's cost analysis of a compiled program, with the costs of kernels added.

    The body of a loop counts once, however often it runs, as in XLA's own analysis.

    Args:
        program: a compiled function, `jax.jit(f).lower(x).compile()`.

    Returns:
        Its "flops", "transcendentals" (calls of elementary functions) and "bytes accessed". Where threads of a launch
        may differ it is the most, infinite where data decides the iterations of a loop; "flops at least" and
        "transcendentals at least" are the least. Bytes of a launch count each array once. "launches": how many there
        are.

    Raises:
        KernelTypeError: it is no compiled function.
        KernelValueError: a launch is of unknown cost: in debug mode, or of symbolic shapes.

    Examples:
        >>> program = jax.jit(step).lower(state).compile()
        >>> jaxwarp.cost_analysis(program)["flops"]
    """
    if not (hasattr(program, "cost_analysis") and hasattr(program, "as_text") and hasattr(program, "memory_analysis")):
        raise KernelTypeError(
            f"cost_analysis: expected a compiled function, got {program!r}",
            hint="write cost_analysis(jax.jit(f).lower(x).compile())",
        )
    counts = [_told(line) for line in _LAUNCH.findall(program.as_text())]
    least_flops, flops, least_functions, functions, moved = map(sum, zip(*counts, (0.0,) * 5, strict=True))
    given = program.cost_analysis() or {}
    own_flops, own_moved = (given.get(name, 0.0) + len(counts) for name in ("flops", "bytes accessed"))
    own_functions = given.get("transcendentals", 0.0)
    return {
        "flops": own_flops + flops,
        "flops at least": own_flops + least_flops,
        "transcendentals": own_functions + functions,
        "transcendentals at least": own_functions + least_functions,
        "bytes accessed": own_moved + moved,
        "launches": float(len(counts)),
    }


def _told(line: str) -> list[float]:
    found = _COST.search(line)
    if found is None:
        raise KernelValueError(
            "cost_analysis: the program has a launch of unknown cost",
            hint="compile it in release mode, for known shapes",
        )
    return [float(n) for n in found.group(1).split()]
