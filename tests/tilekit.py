"""Runs kernels on tiles in all ways: the interpreter, CPU code, Python that steps, CUDA text on the host, a launch."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import hostcuda
import numpy as np
import pytest
from language import define, run

import jaxwarp as wp
from jaxwarp.passes.pipeline import prepare

NUMBERS = {
    "wp.float16": np.float16, "wp.bfloat16": wp.bfloat16.numpy, "float": np.float32, "wp.float64": np.float64,
    "wp.int8": np.int8, "wp.uint16": np.uint16, "int": np.int32, "wp.int64": np.int64, "wp.uint64": np.uint64,
}  # fmt: skip
FLOATS = [name for name in NUMBERS if "float" in name]
# Of results of some ten operations.
TOLERANCE = {"wp.float16": 4e-3, "wp.bfloat16": 4e-2, "float": 2e-6, "wp.float64": 1e-14}


def each_with(dtypes: Iterable[str], common: Sequence[Any], dtype: str, shapes: Iterable[Any]) -> list[Any]:
    """Parameters of a test: every type with the common shapes, and one type with every shape.

    Code for axes and extents has no types, so that not every pair is another case.
    """
    pairs = dict.fromkeys([*itertools.product(dtypes, common), *((dtype, s) for s in shapes)])
    return [pytest.param(d, s, id=f"{d}-{'x'.join(map(str, s)) if isinstance(s, tuple) else s}") for d, s in pairs]


def body_kernel(arguments: str, body: str, before: str = "", **names: Any) -> wp.Kernel:
    """A kernel of a text; `i` is the block."""
    lines = "".join(f"    {line}\n" for line in body.strip().splitlines())
    text = f"{before}\n@wp.kernel\ndef k({arguments}):\n    i = wp.tid()\n{lines}"
    return define(text, Any=Any, **names)["k"]


def everywhere(
    kernel: wp.Kernel, *arrays: Any, blocks: int = 1, rtol: float = 2e-6, atol: float = 0.0, on_host: bool = True
) -> list[np.ndarray]:
    """The arrays after the kernel; all ways must agree. `on_host`: CUDA text, too, which takes a compiler's time."""
    found = run(kernel, blocks, *arrays, rtol=rtol, atol=atol)
    ir = kernel.specialize()
    given = [np.array(a, dtype=p.dtype.numpy) for a, p in zip(arrays, ir.params, strict=True)]
    if on_host:
        host = [a.copy() for a in given]
        hostcuda.run_host(prepare(ir, fma=False), (blocks,), host)
        _same(found, host, rtol, atol, "CUDA text on the host")
    held = [wp.array(a, dtype=arg.annotation.dtype) for a, arg in zip(given, kernel.arguments, strict=True)]
    wp.launch_tiled(kernel, dim=blocks, inputs=held)
    _same(found, [a.numpy() for a in held], rtol, atol, "launch_tiled")
    return found


def _same(expected: Sequence[np.ndarray], got: Sequence[np.ndarray], rtol: float, atol: float, how: str) -> None:
    for number, (a, b) in enumerate(zip(expected, got, strict=True)):
        np.testing.assert_allclose(_wide(b), _wide(a), rtol=rtol, atol=atol, err_msg=f"argument {number}, {how}")


def _wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64) if array.dtype.kind not in "iub" else array


def close(got: np.ndarray, expected: Any, dtype: str) -> None:
    """Whether results are those of NumPy, in integers exactly."""
    tolerance = TOLERANCE.get(dtype, 0.0)
    np.testing.assert_allclose(_wide(got), np.asarray(expected), rtol=tolerance, atol=tolerance)
