"""Mutated attributes, images, cache entries and exported programs: each is refused, or does no harm.

Attributes are sealed anew after the mutation, so that the checks behind the seal are what is tried. Their launches run
a kernel that does nothing, on arrays between canaries: what the handler itself clears, copies and fills stays inside.
Exported programs are changed where they hold what is ours (code, attributes, seal); files.py changes them anywhere.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from fuzz.campaign import Journal, Trial
from fuzz.files import exported, files

EDGES = [0, 1, 2, 3, -1, -2, -3, 7, 64, 255, 2**31 - 1, 2**31, 2**32, 2**62, 2**63 - 1, -(2**63)]
Mutant = Callable[[np.random.Generator], str]


def number(rng: np.random.Generator, old: int) -> int:
    choices = [*EDGES, old + 1, old - 1, int(rng.integers(-(2**63), 2**63))]
    return int(np.clip(choices[rng.integers(len(choices))], -(2**63), 2**63 - 1))


def bytes_of(rng: np.random.Generator, old: bytes) -> bytes:
    """Some bytes changed, a piece cut out, or one put in."""
    data, at = bytearray(old), int(rng.integers(len(old) + 1))
    match rng.integers(4):
        case 0:
            del data[at : at + int(rng.integers(1, 40))]
        case 1:
            data[at:at] = rng.bytes(int(rng.integers(1, 20)))
        case _:
            for place in rng.integers(len(data), size=rng.integers(1, 5)) if data else ():
                data[place] = rng.integers(256)
    return bytes(data)


def value(rng: np.random.Generator, old: Any) -> Any:
    if rng.integers(20) == 0:
        return [b"", 1, [], 1.5, [1.5], None][rng.integers(6)]
    if isinstance(old, bytes):
        return bytes_of(rng, old)
    if isinstance(old, int):
        return number(rng, old)
    new = list(old)
    at = int(rng.integers(len(new) + 1))
    match rng.integers(5):
        case 0:
            new.insert(at, number(rng, 0))
        case 1:
            del new[at : at + 1]
        case 2:
            rng.shuffle(new)
        case _:
            if new:
                new[at % len(new)] = number(rng, new[at % len(new)])
    return new


def attributes_of(rng: np.random.Generator, old: dict[str, Any]) -> dict[str, Any]:
    new = dict(old)
    for name in rng.choice(sorted(old), size=rng.integers(1, 4), replace=False):
        new[str(name)] = value(rng, new[str(name)])
    return {name: v for name, v in new.items() if v is not None}


class Guarded:
    """Arrays between canaries."""

    def __init__(self, *shapes: tuple[int, ...]):
        self.memory = [np.full(4096 + 4 * int(np.prod(shape)), 0xA5, np.uint8) for shape in shapes]
        self.arrays = [m[2048:-2048].view(np.int32).reshape(s) for m, s in zip(self.memory, shapes, strict=True)]

    def require(self) -> None:
        for memory in self.memory:
            if not ((memory[:2048] == 0xA5).all() and (memory[-2048:] == 0xA5).all()):
                raise AssertionError("the handler wrote beyond an array")


def cpu_runtime(folder: Path) -> Any:
    import ctypes

    from native.test_native_cpu import NATIVE, Cpu

    class Idle(Cpu):
        """Whatever it is asked to load is the kernel that does nothing."""

        def _load(self, *_: Any) -> int | None:
            return ctypes.cast(self.kernels.nothing, ctypes.c_void_p).value

    library = folder / "kernels.so"
    subprocess.run(["cc", "-O2", "-shared", "-fPIC", NATIVE / "kernels.c", "-o", library], check=True)
    return Idle(ctypes.CDLL(str(library)), folder / "copy.so", threads=3, pool="refuse")


def tried(action: Callable[[], None]) -> str:
    from native.frames import Refused

    try:
        action()
    except Refused as refused:
        if not str(refused).startswith("jaxwarp: "):
            raise AssertionError(str(refused)) from None
        return "refused"
    return "harmless"


def launches(folder: Path) -> Mutant:
    from native.test_native_cpu import attributes

    cpu = cpu_runtime(folder)
    optional = {"alone": 1, "pieces": 16, "together": 1}
    copies = {"copies": 2, "scratch": 2, "copied": [1], "costs": [1 << 40, 1 << 60, 0], "geometry": [-1, 1, -2, 0]}
    seeds = [attributes(grain=1) | optional, attributes(grain=1, buffers=[0, 1], ranks=[2, 2]) | optional | copies]

    def mutant(rng: np.random.Generator) -> str:
        guarded = Guarded((3, 64), (3, 64), (3, 1024))

        def run() -> None:
            cpu.instantiate(**attributes_of(rng, seeds[rng.integers(2)]))
            cpu.execute(results=guarded.arrays)

        outcome = tried(run)
        guarded.require()
        return outcome

    return mutant


def programs(folder: Path) -> Mutant:
    from native import graph_scenarios as graphs
    from native.frames import EXECUTE, INSTANTIATE
    from native.test_native_cpu import attributes

    cpu = cpu_runtime(folder)
    cpu.metadata("cpu_program_instantiate")
    own = {
        f"kernel0_{n}": v
        for n, v in attributes(grain=1, ranks=[1], grid=[-1], grid_from=[0, 0], geometry=[-1, 0]).items()
    }
    code = own.pop("kernel0_image")
    ops = [2, 1, 0, 2, 0, 0, 1, 1, 1, 1, 2, 2, 4, 0x3F800000, 3, 2, 2, 3, 3]
    whole = {
        "name": b"steps",
        "kernels": 1,
        "views": graphs.VIEWS,
        "ops": ops,
        "image0": code,
        "kernel0_image": 0,
    } | own

    def mutant(rng: np.random.Generator) -> str:
        guarded = Guarded((6,), (6,), (6,))

        def run() -> None:
            cpu.call("cpu_program_instantiate", INSTANTIATE, 1, attributes_of(rng, whole))
            described = [("int32", x.shape, x.ctypes.data) for x in guarded.arrays]
            cpu.call("cpu_program_execute", EXECUTE, 1, {}, described[:1], described[1:])

        outcome = tried(run)
        guarded.require()
        return outcome

    return mutant


def images(folder: Path) -> Mutant:
    from jaxwarp.launches import image

    cpu = cpu_runtime(folder)
    whole = image.pack_image(image.CPU, bytes(range(256)))
    cuda = image.pack_cuda_payload([image.Entry(image.CUBIN, 90, b"code"), image.Entry(image.PTX, 80, b"ptx")])

    def mutant(rng: np.random.Generator) -> str:
        with contextlib.suppress(ValueError):
            image.unpack_cuda_payload(bytes_of(rng, cuda))
        damaged = bytes_of(rng, whole)
        outcome = tried(lambda: cpu.instantiate(image=damaged))
        if (outcome == "harmless") != (damaged == whole):
            raise AssertionError("a damaged image was taken")
        return outcome

    return mutant


def cached(folder: Path) -> Mutant:
    import logging

    from jaxwarp.codegen import cache

    logging.disable()
    os.environ["JAXWARP_CACHE_DIR"] = str(folder / "cache")
    name, body = "a" * 64, bytes(range(256)) * 3
    cache.put(name, body)
    (path,) = (folder / "cache").glob("*.bin")
    whole = path.read_bytes()

    def mutant(rng: np.random.Generator) -> str:
        damaged = bytes_of(rng, whole)
        path.write_bytes(damaged)
        found = cache.get(name)
        if found not in (None, body) or (found is None) != (damaged != whole):
            raise AssertionError("a damaged entry was taken")
        return "refused" if found is None else "harmless"

    return mutant


def exports(folder: Path) -> Mutant:
    from jax import export

    found = exported(folder)

    def mutant(rng: np.random.Generator) -> str:
        whole, x, expected = found[rng.integers(len(found))]
        damaged = bytearray(whole)
        for place in rng.choice(ours(whole), size=rng.integers(1, 4)):
            damaged[place] ^= 1 << int(rng.integers(8))
        try:
            result = np.asarray(export.deserialize(bytearray(damaged)).call(x))
        except Exception as error:
            return "refused" if "jaxwarp" in str(error) else f"refused by {type(error).__name__}"
        np.testing.assert_array_equal(result, expected)
        return "harmless"

    return mutant


def ours(whole: bytes) -> np.ndarray:
    """Where an exported program holds an image, with its header, or extents that only its launches have."""
    from fuzz.exported import EXTENT

    from jaxwarp.launches import image

    places: list[int] = []
    for mark in (image.MAGIC, EXTENT.to_bytes(8, "little")):
        at = whole.find(mark)
        while at >= 0:
            # The length of what follows the header of an image stands before its digest.
            payload = int.from_bytes(whole[at + 16 : at + 24], "little") if mark == image.MAGIC else 0
            places += range(at, at + (56 + payload if payload else 8))
            at = whole.find(mark, at + 1)
    assert len(places) > 1000
    return np.array(places)


def trials(kind: str, make: Callable[[Path], Mutant]) -> Callable[[Path, int, Journal], Trial]:
    def seeded(folder: Path, seed: int, _: Journal) -> Trial:
        mutant = make(folder)
        return lambda number: mutant(np.random.default_rng([seed, list(SHARES).index(kind), number]))

    return seeded


MAKERS = {"launch": launches, "program": programs, "image": images, "cache": cached, "export": exports, "file": files}
KINDS = {kind: trials(kind, make) for kind, make in MAKERS.items()}
# How many of each in a hundred.
SHARES = {"launch": 40, "program": 30, "image": 15, "cache": 13, "export": 1, "file": 1}
CHUNK = 20_000
