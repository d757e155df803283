"""Sums along an array, sorts, and runs of equal values, of the arrays of a traced function: by JAX."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from jaxwarp.errors import KernelTypeError
from jaxwarp.ffi.programs.traced_array import ArrayHandle
from jaxwarp.ffi.programs.tracing import program_now
from jaxwarp.types import element_shape


def scan(source: ArrayHandle, target: ArrayHandle, is_inclusive: bool) -> None:
    """See `array_scan`."""

    def compute(values: jax.Array) -> Sequence[jax.Array]:
        sums = jax.lax.cumsum(_rows(values, source), axis=0)
        if not is_inclusive:
            sums = jnp.concatenate([jnp.zeros_like(sums[:1]), sums[:-1]])
        return [sums.reshape(target.full_shape)]

    program_now().compute(compute, [source], [target])


def sort_pairs(keys: ArrayHandle, values: ArrayHandle, count: int, begin: int, end: int) -> None:
    """See `radix_sort_pairs`. Bits from `begin` to `end` decide."""

    def order(found: jax.Array) -> jax.Array:
        bits = _ordered(found)
        return _sorted([bits & bits.dtype.type(((1 << end) - 1) >> begin << begin)])

    _move(keys, values, count, order, [])


def sort_segments(
    keys: ArrayHandle, values: ArrayHandle, count: int, starts: ArrayHandle, ends: ArrayHandle | None
) -> None:
    """See `segmented_sort_pairs`."""

    def order(found: jax.Array, *bounds: jax.Array) -> jax.Array:
        first, last = bounds if ends is not None else (bounds[0][:-1], bounds[0][1:])
        return _sorted([_groups(first, last, count), _ordered(found)])

    _move(keys, values, count, order, [starts] if ends is None else [starts, ends])


def encode_runs(
    what: str,
    values: ArrayHandle,
    count: int,
    run_values: ArrayHandle,
    run_lengths: ArrayHandle,
    run_count: ArrayHandle | None,
) -> ArrayHandle:
    """See `runlength_encode`. Return `run_count`.

    Raises:
        KernelTypeError: it is None.
    """
    if run_count is None:
        raise KernelTypeError(
            f"{what}: run_count: expected an array of one int32, got None: a traced function has no numbers",
            hint="make one: zeros(1, dtype=int)",
        )

    def compute(given: jax.Array, *before: jax.Array) -> Sequence[jax.Array]:
        given = given.reshape(-1)[:count]
        found, lengths, number = (array.reshape(-1) for array in before)
        is_first = jnp.concatenate([jnp.ones(min(count, 1), bool), given[1:] != given[:-1]]).astype(np.int32)
        run, runs = jax.lax.cumsum(is_first, axis=0) - np.int32(1), is_first.sum(dtype=np.int32)
        made = jnp.zeros(count, np.int32).at[run].add(np.int32(1))
        made = jnp.where(jax.lax.iota(np.int32, count) < runs, made, lengths[:count])
        results = [found.at[run].set(given), lengths.at[:count].set(made), number.at[:1].set(runs)]
        return [r.reshape(b.shape) for r, b in zip(results, before, strict=True)]

    written = [run_values, run_lengths, run_count]
    program_now().compute(compute, [values, *written], written)
    return run_count


def _move(
    keys: ArrayHandle, values: ArrayHandle, count: int, order: Callable[..., jax.Array], more: Sequence[ArrayHandle]
) -> None:
    """Move the first keys and values to where an order of the keys has them."""

    def compute(found: jax.Array, moved: jax.Array, *others: jax.Array) -> Sequence[jax.Array]:
        rows = found.reshape(-1)
        places = order(jax.lax.stop_gradient(rows[:count]), *(o.reshape(-1) for o in others))
        results = _permuted(rows, places, count), _permuted(_rows(moved, values), places, count)
        return [results[0].reshape(found.shape), results[1].reshape(moved.shape)]

    program_now().compute(compute, [keys, values, *more], [keys, values])


def _rows(values: jax.Array, array: ArrayHandle) -> jax.Array:
    """The elements in order: the first axis is theirs, components follow."""
    return values.reshape(array.size, *element_shape(array.dtype))


def _permuted(rows: jax.Array, places: jax.Array, count: int) -> jax.Array:
    if rows.dtype == np.float64:
        # Where JAX has no doubles, its derivative of a gather makes zeros in single precision, that of a scatter none.
        targets = jnp.zeros_like(places).at[places].set(jax.lax.iota(np.int32, count), unique_indices=True)
        made = jnp.zeros_like(rows[:count]).at[targets].set(rows[:count], unique_indices=True)
    else:
        made = rows.at[places].get(mode="promise_in_bounds", unique_indices=True)
    return made if count == rows.shape[0] else jnp.concatenate([made, rows[count:]])


def _sorted(keys: Sequence[jax.Array]) -> jax.Array:
    """The stable order of keys, of which the first decides first."""
    places = jax.lax.iota(np.int32, keys[0].shape[0])
    return jax.lax.sort((*keys, places), num_keys=len(keys), is_stable=True)[-1]


def _ordered(keys: jax.Array) -> jax.Array:
    """Unsigned numbers in the order of the keys: of integers the sign bit is turned, of negative floats all bits are.

    Source: M. Herf, "Radix Tricks", 2001.
    """
    unsigned = np.dtype(f"u{keys.dtype.itemsize}")
    bits, sign = jax.lax.bitcast_convert_type(keys, unsigned), unsigned.type(1 << (8 * keys.dtype.itemsize - 1))
    match keys.dtype.kind:
        case "f":
            return jnp.where((bits & sign) != 0, ~bits, bits | sign)
        case "i":
            return bits ^ sign
        case _:
            return bits


def _groups(starts: jax.Array, ends: jax.Array, count: int) -> jax.Array:
    """The start of the segment of each place. A place in no segment is a group of its own."""
    places = jax.lax.iota(np.int32, count)
    at = jnp.where((starts < ends) & (starts >= 0), starts, count)
    first, last = (jnp.zeros(count, np.int32).at[at].max(bound, mode="drop") for bound in (starts, ends))
    return jnp.where(places < jax.lax.cummax(last), jax.lax.cummax(first), places)
