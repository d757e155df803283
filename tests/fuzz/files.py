"""Exported programs with bytes changed anywhere, which JAX reads, compiles and runs in a process of its own.

Most of such a file is JAX's and MLIR's, who read it before anything of ours runs. Whatever they do with it is counted
apart: mutants that they refuse, that end the process in their reader or compiler, that these never come to an end with
(a length in MLIR's bytecode may say four billion), and that mean another program to them. What is held here is that
ours does no harm: no process ends while the program runs, and none hangs.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np

LONGEST = 60  # seconds
THEIRS = ("reading", "compiling")  # what is done by JAX before anything of ours

Exported = tuple[bytes, Any, np.ndarray]


def exported(folder: Path) -> list[Exported]:
    """Files, with an argument and what the program makes of it."""
    os.environ["JAXWARP_CACHE_DIR"] = str(folder / "cache")
    import jax
    from fuzz.exported import CALLS
    from jax import export

    import jaxwarp as wp

    jax.config.update("jax_platforms", "cpu")
    found = []
    for call, x in CALLS:
        program = export.export(jax.jit(call), disabled_checks=wp.export_checks())(x)
        found.append((bytes(program.serialize()), np.asarray(x), np.asarray(program.call(x))))
    return found


def read_all(connection: Connection, folder: Path) -> None:
    """In a process of its own: tells what it is about to do with a file, and at last what came of it."""
    programs = exported(folder)
    connection.send("ready")
    while True:
        number, damaged = connection.recv()
        _, x, expected = programs[number]
        try:
            outcome = read(damaged, x, expected, connection.send)
        except Exception as error:
            outcome = "refused" if "jaxwarp" in str(error) else "refused by JAX"
        connection.send(("outcome", outcome))


def read(damaged: bytes, x: Any, expected: np.ndarray, tell: Callable[[str], None]) -> str:
    import jax
    from jax import export

    tell("reading")
    program = export.deserialize(bytearray(damaged))
    lowered = jax.jit(program.call).lower(x)
    tell("compiling")
    compiled = lowered.compile()
    tell("running")
    result = np.asarray(compiled(x))
    return "harmless" if np.array_equal(result, expected) else "another program"


class Reader:
    """A process that reads files, and another one when it has ended."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.start()

    def start(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, other = context.Pipe()
        self.process = context.Process(target=read_all, args=(other, self.folder), daemon=True)
        self.process.start()
        other.close()
        assert self.connection.recv() == "ready"

    def read(self, number: int, damaged: bytes) -> str:
        stage = "beginning"
        self.connection.send((number, damaged))
        try:
            while self.connection.poll(LONGEST):
                match self.connection.recv():
                    case ("outcome", outcome):
                        return outcome
                    case said:
                        stage = said
            what = "hung"
        except (EOFError, ConnectionResetError):
            what = "ended"
        self.process.kill()
        self.process.join()
        if stage not in THEIRS:
            raise AssertionError(f"the process {what} while {stage}")
        self.start()
        return f"{what} JAX {stage}"


def files(folder: Path) -> Callable[[np.random.Generator], str]:
    programs, reader = exported(folder), Reader(folder)

    def mutant(rng: np.random.Generator) -> str:
        number = int(rng.integers(len(programs)))
        damaged = bytearray(programs[number][0])
        for place in rng.choice(len(damaged), size=rng.integers(1, 4)):
            damaged[place] ^= 1 << int(rng.integers(8))
        return reader.read(number, bytes(damaged))

    return mutant
