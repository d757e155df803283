"""`cache`: the folder of compiled code."""

from __future__ import annotations

import argparse
import time
from typing import Any

from jaxwarp.codegen import cache

ACTIONS = ("size", "list", "clear")


def run(options: argparse.Namespace) -> tuple[Any, str]:
    """Says how large the cache is, lists its entries, the last used first, or deletes them."""
    found = cache.entries()
    data: dict[str, Any] = {
        "folder": None if cache.folder() is None else str(cache.folder()),
        "entries": len(found),
        "bytes": sum(entry.bytes for entry in found),
    }
    if data["folder"] is None:
        return data, "the code cache is off: its folder is set to an empty name"
    summary = f"{data['entries']} entries, {data['bytes'] / 2**20:.1f} MiB in {data['folder']}"
    if options.action == "clear":
        data["deleted"] = cache.clear()
        return data, f"deleted {data['deleted']} of {summary}"
    if options.action == "list":
        data["list"] = [{"key": e.name, "bytes": e.bytes, "last_used": e.last_used} for e in found]
        lines = [f"{e.name[:16]}  {e.bytes:>9}  {_date(e.last_used)}" for e in found]
        return data, "\n".join(["key                   bytes  last used", *lines, summary])
    return data, summary


def _date(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
