"""Launches of our code and of its twins in the machine of `machine.py`, on arrays that are made up word by word."""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.interpreters import partial_eval
from sass import programs
from sass.disassembly import Code, code_of, compiled
from sass.machine import LOCAL, Place, Thread, float_bits
from sass.operations import OPERATIONS
from sass.twins import TWINS, parameters_of

import jaxwarp as wp
from jaxwarp.codegen.abi import NO_CUDA_OPTIONS, CudaOptions, index_bits_of
from jaxwarp.codegen.cuda import CudaCode, code_for, compile_cuda
from jaxwarp.launches.spec import OUTPUT
from jaxwarp.passes.pipeline import prepare, prepared

SCALAR = 1.7
Shapes = dict[str, tuple[int, ...]]
_BLOCK = 256
_ARRAYS, _ARRAY_BYTES = 1 << 40, 1 << 38  # where they begin, how far they are from each other


@dataclass(frozen=True)
class Case:
    """A launch of a kernel, and the thread of it to look at.

    Attributes:
        shapes: of the parameters, by name; of scalars ().
        grid: the launch; `at` is the thread.
        extents: the integers that the twin takes.
        twin_block: its threads in a block, along the last axis and the one before.
        kernel: of `programs.py`, if it has another name than the case.
        is_sum: whether threads go round, so that what counts is an element.
    """

    shapes: Shapes
    grid: tuple[int, ...]
    at: tuple[int, ...]
    extents: dict[str, int] = field(default_factory=dict)
    twin_block: tuple[int, ...] = (_BLOCK, 1)
    kernel: str = ""
    options: CudaOptions = NO_CUDA_OPTIONS
    is_sum: bool = False


@dataclass(frozen=True)
class Ran:
    """A thread that has run, and of how many elements."""

    thread: Thread
    elements: int

    @property
    def per_element(self) -> float:
        return len(self.thread.executed) / self.elements


_N, _M = 1 << 20, 1 << 24
_FLAT = {"grid": (_N,), "at": (777,), "extents": {"n": _N}}
_LATTICE = {"grid": (128, 128, 256), "at": (60, 61, 100), "extents": {"nz": 128, "ny": 128, "nx": 256}}
_VAST = {"grid": (512, 512, 512), "at": (260, 261, 300), "extents": {"nz": 512, "ny": 512, "nx": 512}}
_CUBE = {"grid": (256,) * 3, "at": (100, 101, 102), "extents": {"ni": 256, "nj": 256, "nk": 256}}
CASES = {
    "saxpy": Case({"a": (), "x": (_N,), "y": (_N,), "out": (_N,)}, **_FLAT),
    "vec3": Case({"x": (_N, 3), "y": (_N, 3), "out": (_N, 3)}, options=CudaOptions(fast_math=True), **_FLAT),
    "vec4": Case({"x": (_N, 4), "y": (_N, 4), "out": (_N, 4)}, **_FLAT),
    "gather": Case({"table": (_N,), "index": (_N,), "out": (_N,)}, **_FLAT),
    "lbm2": Case(
        {"f": (9, 1024, 2048), "omega": (), "g": (9, 1024, 2048)}, (1024, 2048), (500, 700), {"ny": 1024, "nx": 2048}
    ),
    "lbm3": Case({"f": (19, 128, 128, 256), "omega": (), "g": (19, 128, 128, 256)}, **_LATTICE),
    "lbm3_large": Case({"f": (19, 512, 512, 512), "omega": (), "g": (19, 512, 512, 512)}, kernel="lbm3", **_VAST),
    "stencil": Case({"u": (256,) * 3, "c": (), "out": (256,) * 3}, twin_block=(32, 8), **_CUBE),
    "nbody": Case(
        {"pos": (512, 3), "mass": (512,), "eps": (), "acc": (512, 3)},
        *((512,), (300,), {"n": 512}),
        options=CudaOptions(fast_math=True),
    ),
    "matmul": Case(
        {"a": (1024, 256), "b": (256, 1024), "c": (1024, 1024)},
        *((1024, 1024), (300, 301), {"m": 1024, "n": 1024, "k": 256}),
        twin_block=(32, 8),
    ),
    "total": Case({"x": (_M,), "s": (1,)}, (_M,), (777,), {"n": _M}, is_sum=True),
    "polar": Case({"a": (_N, 3, 3), "out": (_N, 3, 3)}, **_FLAT),
    "rowsum": Case({"x": (4096, 4096), "s": (4096,)}, (4096, 4096), (1, 40), {"rows": 4096, "cols": 4096}, is_sum=True),
}
# The same on arrays of 2^31 words and more, or as many threads.
_MOST, _HALF, _WIDE = (1 << 31) - 8, 1 << 30, 1 << 16
LARGE = {
    "saxpy": replace(CASES["saxpy"], shapes={"a": (), "x": (_MOST,), "y": (_MOST,), "out": (_MOST,)}, grid=(_MOST,)),
    "vec3": replace(CASES["vec3"], shapes=dict.fromkeys(("x", "y", "out"), (_HALF, 3)), grid=(_HALF,)),
    "vec4": replace(CASES["vec4"], shapes=dict.fromkeys(("x", "y", "out"), (_HALF, 4)), grid=(_HALF,)),
    "gather": replace(CASES["gather"], shapes=dict.fromkeys(("table", "index", "out"), (_MOST,)), grid=(_MOST,)),
    "lbm2": replace(
        CASES["lbm2"],
        shapes={"f": (9, 16384, 16384), "omega": (), "g": (9, 16384, 16384)},
        grid=(16384, 16384),
    ),
    "lbm3": CASES["lbm3_large"],
    "stencil": replace(
        CASES["stencil"], shapes={"u": (1500,) * 3, "c": (), "out": (1500,) * 3}, grid=(1500,) * 3, at=(700, 701, 702)
    ),
    "matmul": replace(
        CASES["matmul"], shapes={"a": (_WIDE, 256), "b": (256, _WIDE), "c": (_WIDE, _WIDE)}, grid=(_WIDE, _WIDE)
    ),
    "rowsum": replace(CASES["rowsum"], shapes={"x": (_WIDE, _WIDE), "s": (_WIDE,)}, grid=(_WIDE, _WIDE)),
}


def kernel_of(case: Case, name: str) -> Any:
    return getattr(programs, case.kernel or name)


@cache
def ours(name: str) -> tuple[CudaCode, Ran]:
    """Our code of a case, and a thread of it that has run."""
    return _ours(CASES[name], name)


@cache
def ours_large(name: str) -> tuple[CudaCode, Ran]:
    """The same of large arrays."""
    return _ours(LARGE[name], name)


def _ours(case: Case, name: str) -> tuple[CudaCode, Ran]:
    ir = prepare(kernel_of(case, name).specialize())
    shapes = [case.shapes[p.name] for p in ir.params]
    code = code_for(ir, case.grid, shapes, index_bits_of(case.grid, shapes), case.options)
    return code, run_ours(code, [p.name for p in ir.params], shapes, case.grid, case.at)


def run_ours(
    code: CudaCode, names: Sequence[str], shapes: Sequence[tuple[int, ...]], grid: Sequence[int], at: Sequence[int]
) -> Ran:
    (entry,) = compile_cuda(code, [90])
    number = np.int32 if code.index_bits == 32 else np.int64
    extents = [grid[axis] if source < 0 else shapes[source][axis] for source, axis in code.geometry]
    total = math.prod(grid)
    parameters = b"".join(struct.pack("<Q", address_of(n)) for n in range(len(names)))
    parameters += np.array([*extents, total], number).tobytes()
    flat = int(np.ravel_multi_index(tuple(at), tuple(grid)))
    blocks = min(-(-total // _BLOCK), code.most_blocks)
    flat %= blocks * _BLOCK
    place = Place((_BLOCK, 1, 1), (flat % _BLOCK, 0, 0), (flat // _BLOCK, 0, 0), (blocks, 1, 1))
    ran = run_code(code_of(entry.code), parameters, place, names, dict(zip(names, shapes, strict=True)))
    return Ran(ran, -(-total // (blocks * _BLOCK)))


@cache
def twin(name: str) -> Ran:
    """The twin of a case, run for the same thread."""
    return _twin_of(TWINS[name], CASES[name])


@cache
def gradient_twin(name: str) -> Ran:
    """The twin of a gradient, likewise."""
    case = CASES[name]
    *inputs, (_, output) = case.shapes.items()
    (first, shape), *_ = inputs
    shapes = {**dict(inputs), "ct": output, f"d{first}": shape}
    return _twin_of(TWINS[f"{name}_gradient"], replace(case, shapes=shapes))


def _twin_of(source: str, case: Case) -> Ran:
    names, parameters = list(case.shapes), b""
    for kind, word in parameters_of(source):
        if kind == "*":
            packed = struct.pack("<Q", address_of(names.index(word)))
        elif kind == "float":
            packed = struct.pack("<f", SCALAR)
        else:
            packed = struct.pack("<i", case.extents[word])
        parameters += b"\0" * (-len(parameters) % len(packed)) + packed
    place, elements = _place_of_twin(case)
    return Ran(run_code(compiled(source, ("--std=c++17",)), parameters, place, names, case.shapes), elements)


def _place_of_twin(case: Case) -> tuple[Place, int]:
    if case.is_sum:
        # One block for each row, or eight for each of an H100's multiprocessors.
        blocks = case.grid[0] if len(case.grid) == 2 else 132 * 8
        elements = math.prod(case.grid) / (blocks * _BLOCK)
        return Place((_BLOCK, 1, 1), (40, 0, 0), (1, 0, 0), (blocks, 1, 1)), round(elements)
    inner = [*reversed(case.grid), 1, 1][:3]
    at = [*reversed(case.at), 0, 0][:3]
    block = (*case.twin_block, 1)
    thread = [a % b for a, b in zip(at, block, strict=True)]
    number = [a // b for a, b in zip(at, block, strict=True)]
    return Place(block, thread, number, [-(-n // b) for n, b in zip(inner, block, strict=True)]), 1


def address_of(number: int) -> int:
    return _ARRAYS + number * _ARRAY_BYTES


def _element(number: int, at: Any) -> Any:
    """An element of the array of a number."""
    return 0.5 + (at + 17 * number) * 2654435761 % 1000 / 1000


def array_of(name: str, parameter: str) -> np.ndarray:
    """What a parameter of a case is, as an array."""
    shapes = CASES[name].shapes
    flat = np.arange(math.prod(shapes[parameter]))
    return _element(list(shapes).index(parameter), flat).reshape(shapes[parameter])


def run_code(code: Code, parameters: bytes, place: Place, names: Sequence[str], shapes: Shapes) -> Thread:
    def word(address: int) -> int:
        if address >= LOCAL:
            return 0  # shared or local memory: nobody else has been there
        number, offset = divmod(address - _ARRAYS, _ARRAY_BYTES)
        name, at = names[number], offset // 4
        count = math.prod(shapes[name])
        assert at < count, f"{name}[{at}] is not in an array of {count}"
        if name == "index":
            return at * 7919 % count
        return float_bits(_element(number, at) if shapes[name] else SCALAR)

    return Thread(code, parameters, place, word).run(OPERATIONS)


# Gradients


def _launches(jaxpr: Any) -> Any:
    for equation in jaxpr.eqns:
        if equation.primitive.name.startswith("jaxwarp_launch"):
            yield equation.params["launch"], [v.aval.shape for v in equation.invars]
        for value in equation.params.values():
            for part in value if isinstance(value, (list, tuple)) else [value]:
                inner = getattr(part, "jaxpr", part)
                if hasattr(inner, "eqns"):
                    yield from _launches(inner)


@cache
def gradient(name: str) -> list[tuple[CudaCode, Ran]]:
    """Our code of each launch that gives the gradient with respect to the first array, and a thread that has run."""
    case = CASES[name]
    inputs = {n: jax.ShapeDtypeStruct(s, np.float32) for n, s in list(case.shapes.items())[:-1]}
    (output,) = itertools.islice(reversed(case.shapes.items()), 1)
    call = wp.jax_kernel(kernel_of(case, name), launch_dims=case.grid, output_dims=output[1])

    def pulled(array: Any, *rest_and_cotangent: Any) -> Any:
        *rest, cotangent = rest_and_cotangent
        return jax.vjp(lambda a: call(a, *rest)[0], array)[1](cotangent)

    jaxpr = jax.make_jaxpr(pulled)(*inputs.values(), jax.ShapeDtypeStruct(output[1], jnp.float32)).jaxpr
    jaxpr, _ = partial_eval.dce_jaxpr(jaxpr, [True] * len(jaxpr.outvars))
    found = []
    for launch, operands in _launches(jaxpr):
        kernel = prepared(launch.kernel, launch.fma)
        buffers = [*operands, *launch.results]
        shapes = [buffers[b] for b in launch.buffers]
        zeros = [i for i, role in enumerate(launch.roles) if role == OUTPUT]
        bits = index_bits_of(launch.grid, buffers)
        code = code_for(kernel, launch.grid, shapes, bits, launch.cuda, zeros=zeros)
        names = [p.name for p in kernel.params]
        found.append((code, run_ours(code, names, shapes, code.grid, case.at)))
    return found
