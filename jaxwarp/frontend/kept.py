"""Kernels that earlier processes have lowered: found on the disk, where all that lowering reads is as it was.

See docs/design/0098-kernels-of-earlier-processes.md.
"""

from __future__ import annotations

import copyreg
import dataclasses
import io
import logging
import pickle
from collections.abc import Sequence
from typing import Any

from jaxwarp.boundary import PACKAGE
from jaxwarp.builtins.scalar_ops import ROWS, rules
from jaxwarp.codegen import cache
from jaxwarp.deep import with_deep_stack
from jaxwarp.errors import IdError, Loc
from jaxwarp.frontend.basis import Basis, NoBasisError
from jaxwarp.frontend.lower import lower
from jaxwarp.frontend.lowering.frame import ReadValues
from jaxwarp.frontend.text.definition import uncollected
from jaxwarp.frontend.text.source import Source
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Block, Builtin, Value

logger = logging.getLogger(__name__)

# Kernels of one text that a process keeps: a program that defines them with other constants for ever would fill the
# disk.
_MOST_OF_ONE_TEXT = 32

# Rows that no text names, but lowering uses.
_RULES = rules.DETACH, rules.ATTACH, rules.GUARDED, rules.REPLAYING, rules.REPLAYING_RULED
_ROWS = ROWS | {row.name: row for row in _RULES}

_is_kept = True


def forget() -> None:
    """Lower all kernels anew, from now on: for tests that change what decides about them."""
    global _is_kept
    _is_kept = False


def lowered(source: Source, arguments: Sequence[tuple[str, Any]], types: Sequence[Any], max_unroll: int) -> Kernel:
    """Return the kernel that `lower` makes; one that an earlier process has lowered, if nothing has changed.

    Raises:
        KernelError: the kernel is wrong for the types. An `IdError` is kept, too: launches outside of JAX first ask for
            the kernel without tables of ids.
    """
    basis, name = _named(source, arguments, types, max_unroll)
    if basis is None or name is None or not _is_one_of_first(source, name):
        return lower(source, arguments, types, max_unroll)
    found = _found(name)
    if found is not None:
        made, reads = found
        basis.read_again(reads)
        return _given(made)
    seen, has_late_values = ReadValues(), basis.has_late_values()
    try:
        made = lower(source, arguments, types, max_unroll, seen=seen)
    except IdError as error:
        made = error
    basis, name_now = _named(source, arguments, types, max_unroll)
    if basis is not None and name_now == name and not has_late_values and basis.has_all(seen):
        _put(name, made, basis.later_reads(seen))
    return _given(made)


def _is_one_of_first(source: Source, name: str) -> bool:
    names = source.definition.kept.setdefault(lowered, set())
    if len(names) < _MOST_OF_ONE_TEXT:
        names.add(name)
    return name in names


def _given(made: Kernel | IdError) -> Kernel:
    if isinstance(made, IdError):
        raise made
    return made


def _named(
    source: Source, arguments: Sequence[tuple[str, Any]], types: Sequence[Any], max_unroll: int
) -> tuple[Basis | None, str | None]:
    """Return the basis of a kernel, and the name under which it is kept; None: it has none, or is not kept."""
    if not _is_kept:
        return None, None
    try:
        basis = _basis(source, arguments, types, max_unroll)
    except NoBasisError:
        return None, None
    except Exception as error:  # of what an object of the program does when it is asked for an attribute
        logger.info("%s is not looked for in the cache: %r", source.name, error)
        return None, None
    return basis, cache.own_key("lowered", PACKAGE, basis.text.encode(errors="surrogatepass"), is_whole=True)


@with_deep_stack
def _basis(source: Source, arguments: Sequence[tuple[str, Any]], types: Sequence[Any], max_unroll: int) -> Basis:
    return Basis(source, tuple(arguments), tuple(types), max_unroll)


def _found(name: str) -> Any:
    """Return what is kept under a name, and what its lowering has asked for; None: nothing is."""
    data = cache.get(name)
    if data is None:
        return None
    try:
        with uncollected():
            return _loaded(data)
    except Exception as error:
        logger.warning("a kernel from the cache cannot be read, lowering it again: %s", error)
        return None


def _put(name: str, made: Kernel | IdError, reads: Any) -> None:
    try:
        data = _pickled((made, reads))
    except (pickle.PicklingError, RecursionError):
        return
    cache.put_own(name, data, is_whole=True)


@with_deep_stack
def _loaded(data: bytes) -> Any:
    return pickle.loads(data)


@with_deep_stack
def _pickled(value: Any) -> bytes:
    file = io.BytesIO()
    pickler = pickle.Pickler(file, 5)
    pickler.dispatch_table = _REDUCTIONS
    pickler.dump(value)
    return file.getvalue()


def _of_kernel(kernel: Kernel) -> tuple[Any, ...]:
    found = {field.name: getattr(kernel, field.name) for field in dataclasses.fields(kernel)}
    return _kernel, (found, kernel.digest, kernel.digest_of_places)


def _kernel(fields: dict[str, Any], digest: str, digest_of_places: str) -> Kernel:
    made = Kernel(**fields)
    vars(made).update(digest=digest, digest_of_places=digest_of_places)  # which take a seventh of a first step
    return made


def _of_builtin(builtin: Builtin) -> tuple[Any, ...]:
    if _ROWS.get(builtin.name) is not builtin:
        raise pickle.PicklingError(builtin.name)
    return _row, (builtin.name,)


def _row(name: str) -> Builtin:
    return _ROWS[name]


def _of_block(block: Block) -> tuple[Any, ...]:
    return Block, (block.params, block.ops, block.results)


def _of_value(value: Value) -> tuple[Any, ...]:
    return Value, (value.type, value.name)


def _of_loc(loc: Loc) -> tuple[Any, ...]:
    return Loc, (loc.file, loc.line, loc.column, loc.end_line, loc.end_column, loc.function, loc.inlined_at)


def _of_error(error: IdError) -> tuple[Any, ...]:
    return IdError, (error.message, error.loc, error.hint)


_REDUCTIONS = copyreg.dispatch_table | {
    IdError: _of_error, Kernel: _of_kernel, Builtin: _of_builtin, Block: _of_block, Value: _of_value, Loc: _of_loc,
}  # fmt: skip
