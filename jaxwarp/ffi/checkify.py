"""`jax.experimental.checkify` of launches: what fails is a value, on every device, under every transformation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jaxwarp import compat
from jaxwarp.errors import CheckError
from jaxwarp.ffi.debug import Reported, error_of_row, failures_raised, reporting
from jaxwarp.ffi.primitive import bind_launch, launch_p, sharded_launch_p
from jaxwarp.launches.spec import LaunchSpec
from jaxwarp.passes.checks.reports import HEAD, RecordLayout


class KernelCheck(compat.JaxException):
    """A thread of a launch in debug mode failed a check: an error category of `checkify`.

    Args:
        traceback_info: JAX's, of the place where the launch is.
        reported: what the numbers in a row of the record mean.
        row: of the record: 64-bit numbers, as pairs of 32-bit words.
    """

    def __init__(self, traceback_info: Any, reported: Reported, row: Any):
        super().__init__(traceback_info)
        self.reported, self.row = reported, row

    def tree_flatten(self) -> tuple[list[Any], Any]:
        return [self.row], (self.traceback_info, self.reported)

    @classmethod
    def tree_unflatten(cls, metadata: Any, payload: Any) -> KernelCheck:
        traceback_info, reported = metadata
        return cls(traceback_info, reported, payload[0])

    def get_effect_type(self) -> Any:
        shape = (RecordLayout(self.reported.rank).row, 2)
        return compat.ErrorEffect(KernelCheck, (jax.ShapeDtypeStruct(shape, np.uint32),))

    @property
    def error(self) -> CheckError:
        """The failure as a Python error, with the line in the kernel."""
        row = np.ascontiguousarray(self.row).view(np.int64).reshape(-1)
        return error_of_row(row.tolist(), self.reported)

    def __str__(self) -> str:
        return str(self.error)


kernel_checks = frozenset({KernelCheck})
"""For `jax.experimental.checkify.checkify(f, errors=jaxwarp.kernel_checks)`: the checks of debug mode."""


def _first(record: Any, layout: RecordLayout) -> Any:
    """The row of the first thread that failed, of a record that tells of one; its key alone if the row is lost."""
    rows = record[HEAD:].reshape(-1, layout.row, 2)
    is_first = (rows[:, 0] == record[0]).all(axis=-1)
    lost = jnp.zeros((layout.row, 2), np.uint32).at[0].set(record[0])
    return jnp.where(is_first.any(), rows[jnp.argmax(is_first)], lost)


def _check(
    primitive: Any, assert_func: Callable[..., Any], error: Any, enabled: Any, *operands: Any, launch: LaunchSpec
) -> tuple[Any, Sequence[Any]]:
    """A launch, and what its record says as an error of checkify's."""
    if launch.debug is None or launch.debug.delivery != "error" or KernelCheck not in enabled:
        return error, primitive.bind(*operands, launch=launch)
    launch = reporting(launch)
    *results, record = bind_launch(launch, operands)
    reported = Reported.of(launch)
    new = KernelCheck(compat.traceback_here(), reported, _first(record, RecordLayout(reported.rank)))
    return assert_func(error, (record[0] != 0).any(), new), results


for _primitive in (launch_p, sharded_launch_p):
    compat.set_checkify_rule(_primitive, _check)


def raising(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function outside of JAX whose launches raise what fails in them.

    Raises:
        CheckError: in debug mode, a thread has failed a check.
    """
    checked = jax.jit(compat.checkify(function, errors=kernel_checks))

    def call(*args: Any) -> Any:
        with failures_raised():
            error, results = checked(*args)
            jax.block_until_ready(results)
        found = error.get_exception()
        if isinstance(found, KernelCheck):
            raise found.error
        return results

    return call
