"""The kernels that tapes launch on GPUs beside those of the program. They are made when this is first imported."""

from __future__ import annotations

from typing import Any

from jaxwarp.decorators import kernel
from jaxwarp.frontend.lowering.intrinsics import INTRINSICS
from jaxwarp.frontend.text.annotations import array

_tid, _atomic_max = INTRINSICS["tid"], INTRINSICS["atomic_max"]


@kernel
def add(x: array[Any], y: array[Any]) -> None:  # pyright: ignore[reportInvalidTypeForm]
    i = _tid()
    x[i] = x[i] + y[i]


@kernel
def add_if(x: array[Any], y: array[Any], found: array[int]) -> None:  # pyright: ignore[reportInvalidTypeForm]
    i = _tid()
    if found[0] != 0:
        x[i] = x[i] + y[i]


@kernel
def convert(target: array[Any], source: array[Any]) -> None:  # pyright: ignore[reportInvalidTypeForm]
    i = _tid()
    target[i] = target.dtype(source[i])


@kernel
def find(x: array[Any], place: int, found: array[int]) -> None:  # pyright: ignore[reportInvalidTypeForm]
    i = _tid()
    if x[i] != x.dtype(0.0):
        _atomic_max(found, place, 1)


@kernel
def compare(x: array[Any], y: array[Any], place: int, found: array[int]) -> None:  # pyright: ignore[reportInvalidTypeForm]
    i = _tid()
    if x[i] != y[i]:
        _atomic_max(found, place, 1)
