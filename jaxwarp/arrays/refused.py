"""Attributes of Warp's arrays that arrays outside of JAX do not have, with what to write instead."""

from __future__ import annotations

_CODE = "launches take the array itself"
_CPU = "arrays outside of JAX are in ordinary memory of the host"

REFUSED = {
    "cptr": _CODE,
    "ctype": _CODE,
    "vars": _CODE,
    "ipc_handle": "processes share no arrays; use multiprocessing.shared_memory and array(values, copy=False)",
    "is_transposed": "ask for is_contiguous, or compare strides",
    "memory_kind": _CPU,
    "deleter": "it is called when no array has the memory any more; nobody needs to see it",
}
