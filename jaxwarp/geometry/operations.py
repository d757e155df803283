"""Operations that are native code on CPUs, and JAX's own elsewhere, with the same result to the bit."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.core
import jax.numpy as jnp
import numpy as np
from jax.interpreters import batching, mlir

from jaxwarp import compat
from jaxwarp.compat import Primitive
from jaxwarp.errors import KernelTypeError, KernelValueError

Results = Callable[..., Sequence[tuple[tuple[Any, ...], Any]]]


def operation(target: str, results: Results, by_jax: Callable[..., Sequence[Any]]) -> Callable[..., list[Any]]:
    """A function of arrays, whose leading axes are those of a batch, without a derivative.

    Args:
        target: the name of the native handler, which takes rows of a batch.
        results: shapes and types of the results, of the abstract values of the operands.
        by_jax: does it where there is no handler, with leading axes.

    Named arguments of the function are sizes of results, which `results` and `by_jax` are told.
    """
    primitive = Primitive(target)
    primitive.multiple_results = True

    def call(*operands: Any, **sizes: int) -> list[Any]:
        return primitive.bind(*compat.unify_varying([jnp.asarray(x) for x in operands]), **sizes)

    def abstract(*operands: Any, **sizes: int) -> list[Any]:
        return [compat.output_aval(operands, shape, dtype) for shape, dtype in results(*operands, **sizes)]

    def batch(operands: Sequence[Any], dims: Sequence[Any], **sizes: int) -> tuple[list[Any], list[int]]:
        size = next(x.shape[d] for x, d in zip(operands, dims, strict=True) if d is not None)
        moved = [_to_front(x, d, size) for x, d in zip(operands, dims, strict=True)]
        found = call(*moved, **sizes)
        return found, [0] * len(found)

    def lower_cpu(context: mlir.LoweringRuleContext, *operands: Any, **_sizes: int) -> Sequence[Any]:
        return jax.ffi.ffi_lowering(target)(context, *operands)

    def run(*operands: Any, **sizes: int) -> list[Any]:
        with jax.disable_jit(False):
            return compiled(**sizes)(*operands)

    @functools.cache
    def compiled(**sizes: int) -> Callable[..., list[Any]]:
        def bind(*operands: Any) -> list[Any]:
            return primitive.bind(*operands, **sizes)

        return compat.jit_primitive(bind)

    primitive.def_impl(run)
    primitive.def_abstract_eval(abstract)
    mlir.register_lowering(primitive, mlir.lower_fun(by_jax, multiple_results=True))
    mlir.register_lowering(primitive, lower_cpu, platform="cpu")
    batching.primitive_batchers[primitive] = batch
    return call


def _to_front(x: Any, dim: int | None, size: int) -> Any:
    if dim is None:
        return jnp.broadcast_to(x, (size, *x.shape))
    return jnp.moveaxis(x, dim, 0)


def is_on_host(*values: Any) -> bool:
    """Return whether NumPy can read all values as they are: none is traced, or in the memory of a GPU."""
    return all(isinstance(v, np.ndarray) or _is_on_cpu(v) for v in values)


def _is_on_cpu(value: Any) -> bool:
    if isinstance(value, jax.core.Tracer) or not isinstance(value, jax.Array):
        return False
    return value.is_fully_addressable and all(device.platform == "cpu" for device in value.devices())


def like(given: Any, made: Any) -> Any:
    """An array of NumPy as one of JAX, if `given` is one."""
    return jnp.asarray(made) if isinstance(given, jax.Array) else made


def as_float32(what: str, value: Any) -> jax.Array:
    """Numbers as an array of float32.

    Raises:
        KernelTypeError: there are none.
    """
    try:
        return jnp.asarray(value).astype(jnp.float32)
    except (TypeError, ValueError):
        raise KernelTypeError(f"{what}: expected a number, got {value!r}") from None


def as_number(what: str, value: Any) -> jax.Array:
    """One number, as an array of float32.

    Raises:
        KernelTypeError, KernelValueError: there is none, or there are several.
    """
    found = as_float32(what, value)
    if found.ndim:
        raise KernelValueError(f"{what}: expected one number, got the shape {found.shape}", hint="several: jax.vmap")
    return found


def detached(value: Any) -> Any:
    """The value without a derivative."""
    return jax.lax.stop_gradient(value) if isinstance(value, jax.Array) else value
