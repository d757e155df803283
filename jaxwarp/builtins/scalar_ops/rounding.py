"""Rows that round floats to whole numbers."""

# ruff: noqa: ARG005  (the columns of a row have fixed signatures)

from __future__ import annotations

from typing import Any

import numpy as np

from jaxwarp.builtins.scalar_ops.registry import FLOAT, emit_intrinsic, row, same


def _round_ref(x: np.ndarray) -> np.ndarray:
    whole = np.trunc(x)
    # NaN and infinity have no fraction to look at, and keep themselves.
    away = np.abs(x - whole) >= 0.5
    return np.copysign(np.abs(whole) + away.astype(x.dtype), x)


def _rounding(name: str, ref: Any, intrinsic: str, doc: str) -> Any:
    return row(
        name,
        same(name, 1, FLOAT),
        ref=ref,
        ulp={"*": 0.0},
        cuda={"f32": f"{name}f({{0}})", "f64": f"{name}({{0}})"},
        llvm=emit_intrinsic(intrinsic),
        partials=lambda o, out, x: (o.const(0.0, x),),
        doc=doc,
    )


ROUNDING = (
    _rounding("floor", np.floor, "floor", "The largest whole number not above x."),
    _rounding("ceil", np.ceil, "ceil", "The smallest whole number not below x."),
    _rounding("trunc", np.trunc, "trunc", "x rounded toward zero."),
    _rounding("round", _round_ref, "round", "The nearest whole number. Halves are rounded away from zero."),
    _rounding("rint", np.rint, "rint", "The nearest whole number. Halves are rounded to the even one."),
)
