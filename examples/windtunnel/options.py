"""What programs are told, and what cannot be."""

from __future__ import annotations

import argparse
import os
from typing import NoReturn

import jax

from windtunnel import TunnelError


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one sentence, without the usage."""

    def error(self, message: str) -> NoReturn:
        raise TunnelError(message)


def require_memory(wanted: int) -> None:
    """Raises:
    TunnelError: the tunnel does not fit into the device's memory, or JAX has no device.
    """
    try:
        statistics = jax.devices()[0].memory_stats() or {}
    except RuntimeError as error:
        raise TunnelError(f"JAX finds no device to run on ({str(error).splitlines()[0]})") from None
    available = statistics.get("bytes_limit") or os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if wanted > available:
        raise TunnelError(
            f"a tunnel of this --width and --height takes {wanted / 2**30:.1f} GiB, and there are only"
            f" {available / 2**30:.1f} GiB of memory"
        )
