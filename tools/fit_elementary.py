"""Fits the polynomials of the elementary functions and writes jaxwarp/builtins/scalar_ops/coefficients.py.

    python tools/fit_elementary.py        (needs mpmath)

Each is the minimax polynomial, in the stated weight, of a function on an interval, by Remez's exchange algorithm in
60 digits, then rounded. The printed error is that of the rounded polynomial, as a power of two.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np

mp.mp.dps = 60
TARGET = Path(__file__).parents[1] / "jaxwarp/builtins/scalar_ops/coefficients.py"
Real = Any
Function = Callable[[Real], Real]


@dataclass(frozen=True)
class Fit:
    """sum of c[i] z**i ~ function(z) on low ... high; |error| * weight(z) is made small. `counts`: of f32, f64.

    There is no z**i for the i that are `without`, and the c that follow belong to higher ones.
    """

    name: str
    doc: str
    function: Function
    weight: Function
    low: Real
    high: Real
    counts: dict[str, int]
    without: tuple[int, ...] = ()

    def powers(self, count: int) -> list[int]:
        return [i for i in range(count + len(self.without)) if i not in self.without]

    def polynomial(self, coefficients: list[Real], z: Real) -> Real:
        return sum((c * z**i for i, c in zip(self.powers(len(coefficients)), coefficients, strict=True)), mp.mpf(0))


def remez(fit: Fit, count: int) -> list[Real]:
    """Coefficients of the minimax polynomial with `count` of them."""
    middle, half = (fit.low + fit.high) / 2, (fit.high - fit.low) / 2
    points = [middle - half * mp.cos(mp.pi * (i + mp.mpf(1) / 2) / (count + 1)) for i in range(count + 1)]
    grid = [middle - half * mp.cos(mp.pi * i / (40 * count)) for i in range(40 * count + 1)]
    values = [(fit.function(z), fit.weight(z)) for z in grid]
    coefficients: list[Real] = []
    for _ in range(12):
        rows = [[z**i for i in fit.powers(count)] + [(-1) ** k / fit.weight(z)] for k, z in enumerate(points)]
        solved = mp.lu_solve(mp.matrix(rows), mp.matrix([fit.function(z) for z in points]))
        coefficients = list(solved)[:count]
        errors = [(fit.polynomial(coefficients, z) - f) * w for z, (f, w) in zip(grid, values, strict=True)]
        points = extremes(grid, errors, count + 1)
        if max(map(abs, errors)) < abs(solved[count]) * mp.mpf("1.001"):
            break
    return coefficients


def extremes(grid: list[Real], errors: list[Real], count: int) -> list[Real]:
    """`count` points where the error is largest in runs of one sign."""
    runs: list[int] = []
    for i, error in enumerate(errors):
        if runs and (errors[runs[-1]] > 0) == (error > 0):
            if abs(error) > abs(errors[runs[-1]]):
                runs[-1] = i
        else:
            runs.append(i)
    while len(runs) > count:
        runs.pop(0 if abs(errors[runs[0]]) < abs(errors[runs[-1]]) else -1)
    if len(runs) < count:
        raise SystemExit("the exchange lost points: fewer coefficients, or more digits")
    return [grid[i] for i in runs]


def series(function: Function, order: int) -> Function:
    """Of a function with removable singularities at 0: more digits near them."""

    def evaluate(z: Real) -> Real:
        with mp.workdps(60 + 25 * order):
            return function(z if abs(z) > mp.mpf(10) ** -20 else mp.mpf(10) ** -20)

    return evaluate


def _atanh_part(z: Real) -> Real:
    s = mp.sqrt(z)
    return (2 * mp.atanh(s) / s - 2) / z


def _exp_part(r: Real) -> Real:
    with mp.workdps(110):
        r = r if abs(r) > mp.mpf(10) ** -20 else mp.mpf(10) ** -20
        return (mp.exp(r) - 1 - r) / r**2


def _root(function: Function) -> Function:
    return lambda z: (function(mp.sqrt(z)) / mp.sqrt(z) - 1) / z


ERFC_MIDDLE = 4


def _erfc_part(q: Real) -> Real:
    x = ERFC_MIDDLE * (1 + q) / (1 - q)
    return (1 + 2 * x) * mp.exp(x * x) * mp.erfc(x)


LN2 = mp.log(2)
FIRST_TERM, THIRD_TERM = (mp.mpf(float(2 / k / LN2)) for k in (1, 3))
LOG_END = ((mp.sqrt(2) - 1) / (mp.sqrt(2) + 1)) ** 2 * mp.mpf("1.001")
SIN_END = (mp.pi / 4) ** 2 * mp.mpf("1.001")
FITS = (
    Fit("EXP", "(exp(r) - 1 - r) / r**2 on |r| <= log(2) / 2", _exp_part, lambda r: r * r + mp.mpf("1e-9"),
        -LN2 * mp.mpf("0.501"), LN2 * mp.mpf("0.501"), {"f32": 5, "f64": 10}),
    Fit("EXPM1", "the same, weighted for expm1", _exp_part, lambda r: abs(r) + mp.mpf("1e-9"),
        -LN2 * mp.mpf("0.501"), LN2 * mp.mpf("0.501"), {"f32": 5, "f64": 11}),
    Fit("EXP2", "(2**r - 1) / r on |r| <= 1/2",
        series(lambda r: (mp.power(2, r) - 1) / r, 2), lambda r: abs(r) + mp.mpf("1e-9"),
        mp.mpf("-0.501"), mp.mpf("0.501"), {"f32": 6, "f64": 11}),
    Fit("LOG", "(2 atanh(s) / s - 2) / z in z = s**2, |s| <= (sqrt(2) - 1) / (sqrt(2) + 1)",
        series(_atanh_part, 2), lambda z: z / 2 + mp.mpf("1e-9"), mp.mpf(0), LOG_END, {"f32": 4, "f64": 7}),
    Fit("LOG2", "the same divided by log(2)", series(lambda z: _atanh_part(z) / LN2, 2),
        lambda z: z / 2 + mp.mpf("1e-9"), mp.mpf(0), LOG_END, {"f32": 4}),
    Fit("LOG2_TAIL", "2 atanh(s) / (s log(2)) less the first floats of TWO_LOG2_E and of TWO_THIRDS_LOG2_E times z",
        series(lambda z: (_atanh_part(z) * z + 2) / LN2 - FIRST_TERM - THIRD_TERM * z, 3), lambda _: 1 / FIRST_TERM,
        mp.mpf(0), LOG_END, {"f64": 8}, without=(1,)),
    Fit("SIN", "(sin(r) / r - 1) / z in z = r**2, |r| <= pi / 4", series(_root(mp.sin), 2),
        lambda z: z + mp.mpf("1e-9"), mp.mpf(0), SIN_END, {"f32": 3, "f64": 6}),
    Fit("COS", "(cos(r) - 1 + z / 2) / z**2 in z = r**2, |r| <= pi / 4",
        series(lambda z: (mp.cos(mp.sqrt(z)) - 1 + z / 2) / z**2, 3), lambda z: z**2 + mp.mpf("1e-12"),
        mp.mpf(0), SIN_END, {"f32": 3, "f64": 6}),
    Fit("ATAN", "(atan(t) / t - 1) / z in z = t**2, |t| <= tan(pi / 8)", series(_root(mp.atan), 2),
        lambda z: z + mp.mpf("1e-9"), mp.mpf(0), (mp.sqrt(2) - 1) ** 2 * mp.mpf("1.001"), {"f32": 5, "f64": 11}),
    Fit("CBRT", "the cube root of 1 + f, sqrt(1/2) <= 1 + f <= sqrt(2), to start from", lambda f: mp.cbrt(1 + f),
        lambda f: 1 / mp.cbrt(1 + f), mp.sqrt(2) / 2 - 1, mp.sqrt(2) - 1, {"f32": 4, "f64": 4}),
    Fit("ERF", "erf(x) / x - 1 in z = x**2, |x| <= 1", series(lambda z: mp.erf(mp.sqrt(z)) / mp.sqrt(z) - 1, 2),
        lambda z: mp.sqrt(z) / mp.erf(mp.sqrt(z)) if z > 0 else mp.sqrt(mp.pi) / 2, mp.mpf(0), mp.mpf("1.001"),
        {"f32": 7, "f64": 13}),
    Fit("ERFC", f"(1 + 2 x) exp(x**2) erfc(x) in (x - {ERFC_MIDDLE}) / (x + {ERFC_MIDDLE}), 0 <= x <= 28", _erfc_part,
        lambda q: 1 / _erfc_part(q), mp.mpf(-1), mp.mpf(28 - ERFC_MIDDLE) / (28 + ERFC_MIDDLE),
        {"f32": 12, "f64": 23}),
    Fit("ASIN", "(asin(t) / t - 1) / z in z = t**2, |t| <= 1/2", series(_root(mp.asin), 2),
        lambda z: z + mp.mpf("1e-9"), mp.mpf(0), mp.mpf("0.2501"), {"f32": 5, "f64": 12}),
)  # fmt: skip

# A number as a sum of floats: the first `bits` bits (0: as many as fit), then what is left, and so on.
PARTS = (
    ("LN2", "log(2)", mp.log(2), 2, 0),
    ("LN2_SHORT", "log(2); times an exponent the first is exact", mp.log(2), 2, {"f32": 15, "f64": 41}),
    ("LOG10_2_SHORT", "log10(2); times an exponent the first is exact", mp.log10(2), 2, {"f32": 15, "f64": 41}),
    ("TWO_LOG2_E", "2 / log(2)", 2 / mp.log(2), 2, 0),
    ("LOG2_E", "1 / log(2)", 1 / mp.log(2), 2, 0),
    ("LOG10_E", "1 / log(10)", 1 / mp.log(10), 2, 0),
    ("TWO_THIRDS_LOG2_E", "2 / (3 log(2))", 2 / (3 * mp.log(2)), 2, 0),
    ("HALF_PI", "pi / 2", mp.pi / 2, 3, 0),
    ("QUARTER_PI", "pi / 4", mp.pi / 4, 2, 0),
)


def parts(value: Real, count: int, kind: str, bits: int) -> list[float]:
    found = []
    for i in range(count):
        if bits and i == 0:
            unit = mp.mpf(2) ** (mp.floor(mp.log(value, 2)) + 1 - bits)
            part = float(mp.nint(value / unit) * unit)
        else:
            part = rounded(value, kind)
        found.append(part)
        value -= mp.mpf(part)
    return found


def rounded(c: Real, kind: str) -> float:
    return float(np.float32(float(c))) if kind == "f32" else float(c)


def error(fit: Fit, coefficients: list[float]) -> float:
    points = [fit.low + (fit.high - fit.low) * i / 500 for i in range(501)]
    exact = [mp.mpf(c) for c in coefficients]
    worst = max(abs((fit.polynomial(exact, z) - fit.function(z)) * fit.weight(z)) for z in points)
    return float(mp.log(worst, 2))


def main() -> None:
    lines = [
        '"""Polynomials of the elementary functions, lowest power first. Written by tools/fit_elementary.py."""',
        "",
        "from __future__ import annotations",
        "",
    ]
    for fit in FITS:
        lines += [f"# {fit.doc}.", f"{fit.name} = {{"]
        for kind, count in fit.counts.items():
            numbers = [rounded(c, kind) for c in remez(fit, count)]
            bits = error(fit, numbers)
            print(f"{fit.name:10} {kind}  {count:2} coefficients, error 2**{bits:.1f}")
            lines += [f'    "{kind}": (  # error 2**{bits:.1f}', *(f"        {n!r}," for n in numbers), "    ),"]
        lines += ["}", ""]
    for name, doc, value, count, bits in PARTS:
        lines += [f"# {doc}.", f"{name} = {{"]
        for kind in ("f32", "f64"):
            numbers = parts(mp.mpf(value), count, kind, bits[kind] if isinstance(bits, dict) else bits)
            lines += [f'    "{kind}": ({", ".join(map(repr, numbers))}),']
        lines += ["}", ""]
    TARGET.write_text("\n".join(lines))


if __name__ == "__main__":
    main()
