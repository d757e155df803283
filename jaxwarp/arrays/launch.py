"""`launch`: at once on memory, or as an operation of the program that is traced."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jaxwarp.arrays.eager import launch_now
from jaxwarp.arrays.launch_cache import launch_outside
from jaxwarp.arrays.pullback import reverse_launch
from jaxwarp.boundary import located_call
from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.ffi.programs.tracing import launch_traced, program_now
from jaxwarp.kernel import Kernel
from jaxwarp.memory.current import scope_now
from jaxwarp.memory.devices import require_cpu
from jaxwarp.memory.host_scope import HOST


@located_call
def launch(  # noqa: PLR0913 - the signature users know from Warp
    kernel: Kernel,
    dim: Any,
    inputs: Sequence[Any] = (),
    outputs: Sequence[Any] = (),
    adj_inputs: Sequence[Any] = (),
    adj_outputs: Sequence[Any] = (),
    device: Any = None,
    stream: Any = None,
    adjoint: bool = False,
    record_tape: bool = True,
    record_cmd: bool = False,
    max_blocks: int = 0,
    block_dim: int | None = None,
) -> None:
    """Launches a kernel.

    Outside of JAX, in a callback, and under `GraphMode.NONE` it runs at once, on arrays of jaxwarp and NumPy, in place.
    In a traced function of a `jax_callable`, the arrays it writes stand for their new contents afterwards.

    Args:
        kernel: made by `@kernel`.
        dim: threads along each axis: an integer, or a tuple or list.
        inputs: the kernel's first arguments: arrays, Python numbers; of the program, in a `jax_callable`.
        outputs: its other arguments. Which arguments a kernel writes is found in the kernel, not here.
        adj_inputs: with `adjoint`, outside of JAX: arrays to which the derivatives by the inputs are added, or None.
        adj_outputs: with `adjoint`: the derivatives by the outputs.
        device: outside of JAX, the device, "cpu"; elsewhere accepted, no effect: JAX places the program.
        stream: accepted, no effect.
        adjoint: run the adjoint of the kernel, not the kernel.
        record_tape: whether an active `Tape` records the launch.
        record_cmd: not there: must be False.
        max_blocks: accepted, no effect.
        block_dim: CUDA threads per block.

    Raises:
        KernelTypeError, KernelValueError: the arguments do not fit the kernel.
        DifferentiationError: with `adjoint`, the derivative cannot be had.
    """
    del stream, max_blocks
    if not isinstance(kernel, Kernel):
        raise KernelTypeError(f"launch: expected a kernel, got {kernel!r}", hint="decorate it with @jaxwarp.kernel")
    if record_cmd:
        raise KernelValueError("launch: record_cmd is not there", hint="call launch again: what it needs is kept")
    given = [*_as_list(inputs), *_as_list(outputs)]
    if len(given) != len(kernel.arguments):
        count, listed = len(kernel.arguments), ", ".join(a.name for a in kernel.arguments)
        raise KernelTypeError(
            f"kernel {kernel.name}: expected {count} arguments ({listed}), got {len(given)}",
            hint="launch takes all of them, the arrays that are written too: inputs=[...], outputs=[...]",
        )
    scope = scope_now()
    if adjoint or adj_inputs or adj_outputs:
        _require_host("launch with adjoint")
        if adjoint:
            reverse_launch(kernel, dim, given, _adjoints(kernel, given, inputs, adj_inputs, adj_outputs))
            return
    if scope is not None:
        if scope is HOST:
            require_cpu(device, "launch")
            launch_outside(kernel, dim, given, block_dim, record_tape)
        else:
            launch_now(scope, kernel, dim, given, block_dim)
        return
    launch_traced(program_now(), kernel, dim, given, block_dim)


def _adjoints(kernel: Kernel, given: Sequence[Any], inputs: Any, adj_inputs: Any, adj_outputs: Any) -> list[Any]:
    """One for each argument, or None."""
    count = len(_as_list(inputs))
    ins, outs = _as_list(adj_inputs), _as_list(adj_outputs)
    for name, found, most in (("adj_inputs", ins, count), ("adj_outputs", outs, len(given) - count)):
        if len(found) > most:
            raise KernelTypeError(
                f"kernel {kernel.name}: {name}: expected at most {most} arrays, got {len(found)}",
                hint="pass one for each input or output, or None",
            )
    return [*ins, *[None] * (count - len(ins)), *outs]


def _require_host(what: str) -> None:
    if scope_now() is not HOST:
        raise KernelTypeError(f"{what} is for arrays outside of JAX", hint="use jax.grad, or jax.vjp, of the program")


def _as_list(values: Any) -> list[Any]:
    return list(values) if isinstance(values, (list, tuple)) else [values]
