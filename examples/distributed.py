"""Start-up of the `distributed_*.py` programs: on the devices of one process, or one process per device.

    python examples/distributed_multiply.py --devices 4
    mpirun -np 4 python examples/distributed_multiply.py

Nothing here is about kernels: `jax.distributed` connects the processes, gloo (CPU) or NCCL (GPU) carries the data.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import traceback
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils
from jax.sharding import Mesh

START_SECONDS = 60  # for all processes to arrive
SILENCE_SECONDS = 10  # a process not heard of for so long is taken for dead


def parser(description: str | None) -> argparse.ArgumentParser:
    """With the option that all these programs have."""
    made = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--devices", type=int, help="virtual CPU devices, where this is the only process")
    return made


def process_count() -> int:
    """How many processes Open MPI started."""
    return int(os.environ.get("OMPI_COMM_WORLD_SIZE", "1"))


def coordinator() -> str | None:
    """Where process 0 is; None where JAX finds it itself (Open MPI 4, or JAX_COORDINATOR_ADDRESS).

    Open MPI 5 does not tell its processes the address of the first host.
    """
    if os.environ.get("JAX_COORDINATOR_ADDRESS") or os.environ.get("OMPI_MCA_orte_hnp_uri"):  # noqa: SIM112
        return None
    if os.environ.get("OMPI_COMM_WORLD_LOCAL_SIZE") != os.environ.get("OMPI_COMM_WORLD_SIZE"):
        raise SystemExit(
            "the processes are on several hosts, and which is the first is not known:"
            " set JAX_COORDINATOR_ADDRESS=HOST:PORT (mpirun -x JAX_COORDINATOR_ADDRESS=...)"
        )
    job = os.environ.get("PMIX_NAMESPACE", "")
    return f"localhost:{49152 + zlib.crc32(job.encode()) % 12288}"


def connect() -> None:
    """Connects the processes. One device each: of a GPU machine, the one with the process's number on its host."""
    local = int(os.environ.get("OMPI_COMM_WORLD_LOCAL_RANK", "0"))
    jax.distributed.initialize(
        coordinator_address=coordinator(),
        num_processes=process_count(),
        process_id=int(os.environ["OMPI_COMM_WORLD_RANK"]),
        local_device_ids=None if os.environ.get("JAX_PLATFORMS") == "cpu" else [local],
        initialization_timeout=START_SECONDS,
        heartbeat_timeout_seconds=SILENCE_SECONDS,
    )


@contextlib.contextmanager
def running(devices: int | None = None) -> Iterator[Mesh]:
    """A mesh with one axis "d" over all devices of all processes.

    A process that fails in the `with` says why and leaves at once. It must not leave as Python does: JAX would wait for
    the other processes, which wait for this one. mpirun then stops them; without it they notice the silence.
    """
    if process_count() > 1:
        if devices is not None:
            raise SystemExit("--devices is for one process; under mpirun every process has one device")
        connect()
    elif devices is not None:
        jax.config.update("jax_num_cpu_devices", devices)
        jax.config.update("jax_platforms", "cpu")
    try:
        yield Mesh(np.array(jax.devices()), "d")
    except BaseException as error:
        if process_count() == 1:
            raise
        text = "".join(traceback.format_exception(error))
        sys.stderr.write(f"process {jax.process_index()} of {process_count()} failed:\n{text}")
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(error.code if isinstance(error, SystemExit) and isinstance(error.code, int) else 1)


def say(*words: Any) -> None:
    """Prints, once for all processes."""
    if jax.process_index() == 0:
        print(*words, flush=True)


def everywhere(array: jax.Array) -> np.ndarray:
    """The whole of a distributed array, in every process."""
    return np.asarray(multihost_utils.process_allgather(array, tiled=True))


def distribute(sharding: jax.sharding.Sharding, array: np.ndarray) -> jax.Array:
    """Each device gets its part of an array that every process has."""
    return jax.make_array_from_callback(array.shape, sharding, lambda index: array[index])


def report(difference: float, limit: float, say: Callable[..., None] = say) -> int:
    """The exit status: 0 if the result is right."""
    say(f"largest difference from NumPy {difference:.1e}")
    return 0 if difference <= limit else 1
