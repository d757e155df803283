"""Random programs of launches, copies and fills on parts of arrays, and what NumPy makes of them.

A program is run on arrays in place, and by `jax_callable` in each of its modes; it is differentiated by a tape and by
JAX. All that it does is polynomial: NumPy's own run on complex numbers has the exact derivatives.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from kernels_strategy import Pick

import jaxwarp as wp

EXTENT = 6
INPUTS, IN_OUT, OUTPUTS = ("a", "b"), ("c",), ("d", "e")
ARGUMENTS = (*INPUTS, *IN_OUT, *OUTPUTS)


@wp.kernel
def scaled(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = 0.5 * x[i]


@wp.kernel
def accumulated(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = 0.5 * y[i] + x[i] * x[i]


@wp.kernel
def multiplied(x: wp.array[float], z: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i] * z[i]


@wp.kernel
def in_part(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    if i % 2 == 0:
        y[i] = x[i]


@wp.kernel
def shifted(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[(i + 1) % x.shape[0]]


@wp.kernel
def summed(x: wp.array[float], y: wp.array[float]):
    wp.atomic_add(y, 0, x[wp.tid()])


@wp.kernel
def last(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[1] = x[i] * x[i]


@wp.kernel
def turned(y: wp.array[float], z: wp.array[float]):
    i = wp.tid()
    old = y[i]
    y[i] = 0.6 * old - 0.8 * z[i]
    z[i] = 0.8 * old + 0.6 * z[i]


@wp.kernel
def extremes(x: wp.array[float], y: wp.array[float], z: wp.array[float]):
    i = wp.tid()
    value = x[i] * x[i] * (1.0 + 0.37 * float(i))
    wp.atomic_max(y, 0, value)
    wp.atomic_min(z, 1, value)


@wp.kernel
def looped(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    s = x[i]
    for k in range(i % 3):
        if k == 1:
            s = 0.5 * s * y[i]
        else:
            s += y[i] * x[i]
    y[i] = s


@wp.kernel
def in_order(x: wp.array[float], y: wp.array[float]):
    for k in range(1, x.shape[0]):
        y[k] = 0.5 * y[k] * y[k - 1] + x[k]


def _extremes(x: Any, y: Any, z: Any) -> None:
    values = x * x * (1.0 + 0.37 * np.arange(len(x)))
    high, low = values[np.argmax(values.real)], values[np.argmin(values.real)]
    y[0] = y[0] if y[0].real > high.real else high
    z[1] = z[1] if z[1].real < low.real else low


def _looped(x: Any, y: Any) -> None:
    for i in range(len(x)):
        s = x[i] + y[i] * x[i] if i % 3 else x[i]
        y[i] = 0.5 * s * y[i] if i % 3 == 2 else s


def _in_order(x: Any, y: Any) -> None:
    for k in range(1, len(x)):
        y[k] = 0.5 * y[k] * y[k - 1] + x[k]


def _summed(x: Any, y: Any) -> None:
    y[0] += x.sum()


def _last(x: Any, y: Any) -> None:
    y[1] = x[-1] ** 2


def _in_part(x: Any, y: Any) -> None:
    y[::2] = x[::2]


def _turned(y: Any, z: Any) -> None:
    y[...], z[...] = 0.6 * y - 0.8 * z, 0.8 * y + 0.6 * z


def _to(formula: Callable[..., Any]) -> Callable[..., None]:
    def write(*given: Any) -> None:
        given[-1][...] = formula(*given)

    return write


KERNELS: dict[str, tuple[wp.Kernel, Callable[..., None], int]] = {
    "scaled": (scaled, _to(lambda x, y: 0.5 * x), 1),
    "accumulated": (accumulated, _to(lambda x, y: 0.5 * y + x * x), 1),
    "multiplied": (multiplied, _to(lambda x, z, y: x * z), 2),
    "in_part": (in_part, _in_part, 1),
    "shifted": (shifted, _to(lambda x, y: np.roll(x, -1)), 1),
    "summed": (summed, _summed, 1),
    "last": (last, _last, 1),
    "turned": (turned, _turned, 0),
    "extremes": (extremes, _extremes, 1),
    "looped": (looped, _looped, 1),
    "in_order": (in_order, _in_order, 1),
}
"""Kernels, what they are to NumPy, and how many arguments they only read."""

PARTS: dict[str, tuple[int, Callable[[Any], Any], frozenset[int]]] = {
    "[:]": (6, lambda x: x, frozenset(range(6))),
    "[0:3]": (3, lambda x: x[0:3], frozenset((0, 1, 2))),
    "[3:6]": (3, lambda x: x[3:6], frozenset((3, 4, 5))),
    "[1:4]": (3, lambda x: x[1:4], frozenset((1, 2, 3))),
    "[::2]": (3, lambda x: x[::2], frozenset((0, 2, 4))),
    "[1::2]": (3, lambda x: x[1::2], frozenset((1, 3, 5))),
    ".reshape((2, 3))[1]": (3, lambda x: x.reshape((2, 3))[1], frozenset((3, 4, 5))),
    ".reshape((3, 2))[2]": (2, lambda x: x.reshape((3, 2))[2], frozenset((4, 5))),
    "[2:4]": (2, lambda x: x[2:4], frozenset((2, 3))),
    "[::3]": (2, lambda x: x[::3], frozenset((0, 3))),
    ".reshape((2, 3))[:, 1]": (2, lambda x: x.reshape((2, 3))[:, 1], frozenset((1, 4))),
    "[::-1]": (6, lambda x: x[::-1], frozenset(range(6))),
    "[4:1:-1]": (3, lambda x: x[4:1:-1], frozenset((2, 3, 4))),
    "[::-2]": (3, lambda x: x[::-2], frozenset((1, 3, 5))),
    ".reshape((2, 3)).transpose()[2]": (2, lambda x: x.reshape((2, 3)).transpose()[2], frozenset((2, 5))),
    ".reshape((3, 2))[::-1, 0]": (3, lambda x: x.reshape((3, 2))[::-1, 0], frozenset((0, 2, 4))),
}
"""Their extents, how they are taken, and where they are."""

SIDE_BY_SIDE = ("[:]", "[0:3]", "[3:6]", "[1:4]", "[2:4]")
"""Parts that callables take in every mode."""

SLICES = tuple(part for part in PARTS if "reshape" not in part)
"""Parts that callables take, but for GraphMode.WARP."""


@dataclass(frozen=True)
class Step:
    """What is done, and to which parts of which arrays; the last is written, or all of them."""

    kind: str
    operands: tuple[tuple[str, str], ...]
    number: float = 0.0

    def __str__(self) -> str:
        parts = ", ".join(name + part for name, part in self.operands)
        return f"{self.kind}({parts}, {self.number})"


def program(pick: Pick, parts: Collection[str]) -> list[Step]:
    known = list(ARGUMENTS)
    steps = []
    for number in range(pick.integer(2, 8)):
        steps.append(step(pick, known, f"t{number}", parts))
        known += [f"t{number}"] if steps[-1].kind in ("zeros", "clone") else []
    return [*steps, Step("scaled", ((pick.of(known[:3] + known[5:]), "[:]"), ("d", "[:]")))]


def step(pick: Pick, known: Sequence[str], fresh: str, taken: Collection[str]) -> Step:
    written = [name for name in known if name not in INPUTS]
    kind = pick.of((*KERNELS, *KERNELS, "copy", "assign", "fill", "zeros", "clone"))
    if kind in ("zeros", "clone"):
        return Step(kind, ((pick.of(known), "[:]"), (fresh, "[:]")))
    extent = pick.of((6, 3, 3, 2))
    parts = [part for part in taken if PARTS[part][0] == extent]
    if kind == "fill":
        return Step(kind, ((pick.of(written), pick.of(parts)),), pick.of((0.0, 0.5)))
    reads = KERNELS[kind][2] if kind in KERNELS else 1
    writes = 2 if kind in ("turned", "extremes") else 1
    while True:
        names = [pick.of(known) for _ in range(reads)] + [pick.of(written) for _ in range(writes)]
        operands = [(name, pick.of(parts)) for name in names]
        if are_apart(operands, writes):
            return Step(kind, tuple(operands))


def are_apart(operands: Sequence[tuple[str, str]], writes: int) -> bool:
    """Whether what is written shares no memory with what else there is."""
    places = [{(name, k) for k in PARTS[part][2]} for name, part in operands]
    others = [(n, m) for n in range(len(places)) for m in range(len(places) - writes, len(places)) if n != m]
    return all(places[n].isdisjoint(places[m]) for n, m in others)


def in_numpy(steps: Sequence[Step], arrays: dict[str, np.ndarray]) -> None:
    for one in steps:
        if one.kind in ("zeros", "clone"):
            (source, _), (fresh, _) = one.operands
            arrays[fresh] = np.zeros_like(arrays[source]) if one.kind == "zeros" else arrays[source].copy()
            continue
        given = [PARTS[part][1](arrays[name]) for name, part in one.operands]
        if one.kind in KERNELS:
            KERNELS[one.kind][1](*given)
        else:
            given[-1][...] = one.number if one.kind == "fill" else given[0]


def as_launches(steps: Sequence[Step], arrays: dict[str, Any], **options: Any) -> None:
    """`options`: of arrays that are made."""
    for one in steps:
        if one.kind in ("zeros", "clone"):
            (source, _), (fresh, _) = one.operands
            make = wp.zeros_like if one.kind == "zeros" else wp.clone
            arrays[fresh] = make(arrays[source], **options)
            continue
        given = [PARTS[part][1](arrays[name]) for name, part in one.operands]
        match one.kind:
            case "copy":
                wp.copy(given[1], given[0])
            case "assign":
                given[1].assign(given[0])
            case "fill":
                given[0].fill_(one.number)
            case name:
                kernel, _, reads = KERNELS[name]
                wp.launch(kernel, 1 if kernel is in_order else given[-1].shape, given[:reads], given[reads:])


def start(seed: int) -> dict[str, np.ndarray]:
    """Outputs of callables begin as zeros, and so do they here."""
    rng = np.random.default_rng(seed)
    values = {name: rng.uniform(-1, 1, EXTENT) for name in (*INPUTS, *IN_OUT)}
    return values | {name: np.zeros(EXTENT) for name in OUTPUTS}


def results(steps: Sequence[Step], values: dict[str, np.ndarray]) -> np.ndarray:
    """What NumPy makes of the in-out argument and of the outputs, one row each."""
    arrays = {name: v.copy() for name, v in values.items()}
    in_numpy(steps, arrays)
    return np.stack([arrays[name] for name in (*IN_OUT, *OUTPUTS)])


def gradients(steps: Sequence[Step], values: dict[str, np.ndarray], weights: np.ndarray) -> dict[str, np.ndarray]:
    """Of the weighted sum of all results, by a complex step."""
    found = {}
    for name in (*INPUTS, *IN_OUT):
        found[name] = np.zeros(EXTENT)
        for k in range(EXTENT):
            moved = {n: v.astype(np.complex128) for n, v in values.items()}
            moved[name][k] += 1e-30j
            found[name][k] = (results(steps, moved) * weights).sum().imag / 1e-30
    return found


def on_arrays(steps: Sequence[Step], values: dict[str, np.ndarray]) -> np.ndarray:
    arrays = {name: wp.array(v, dtype=float) for name, v in values.items()}
    as_launches(steps, arrays)
    return np.stack([arrays[name].numpy() for name in (*IN_OUT, *OUTPUTS)])


def in_capture(steps: Sequence[Step], values: dict[str, np.ndarray]) -> np.ndarray:
    """As `on_arrays`, when all of it has been captured."""
    arrays = {name: wp.array(v, dtype=float) for name, v in values.items()}
    with wp.ScopedCapture() as capture:
        as_launches(steps, arrays)
    wp.capture_launch(capture.graph)
    return np.stack([arrays[name].numpy() for name in (*IN_OUT, *OUTPUTS)])


def on_tape(steps: Sequence[Step], values: dict[str, np.ndarray], weights: np.ndarray) -> dict[str, np.ndarray]:
    """Of what is never written; the gradients of the others are those of their last values."""
    arrays = {name: wp.array(v, dtype=float, requires_grad=True) for name, v in values.items()}
    with wp.Tape() as tape:
        as_launches(steps, arrays, requires_grad=True)
    for _ in range(2):  # the second time as the first
        tape.zero()
        seeds = zip((*IN_OUT, *OUTPUTS), weights, strict=True)
        tape.backward(grads={arrays[name]: wp.array(w, dtype=float) for name, w in seeds})
    return {name: arrays[name].grad.numpy() for name in INPUTS}


def callable_of(steps: Sequence[Step], mode: wp.GraphMode) -> Callable[..., Any]:
    def launches(
        a: wp.array[float], b: wp.array[float], c: wp.array[float], d: wp.array[float], e: wp.array[float]
    ) -> None:
        as_launches(steps, {"a": a, "b": b, "c": c, "d": d, "e": e})

    return wp.jax_callable(launches, num_outputs=3, in_out_argnames=list(IN_OUT), output_dims=EXTENT, graph_mode=mode)


def check(pick: Pick) -> list[Step]:
    """Of three programs one is run on arrays only, and one by callables that are not one operation besides."""
    parts, modes = pick.of((
        (SIDE_BY_SIDE, (wp.GraphMode.JAX, wp.GraphMode.WARP)),
        (SLICES, (wp.GraphMode.JAX,)),
        (tuple(PARTS), ()),
    ))  # fmt: skip
    steps = program(pick, parts)
    seed = pick.integer(0, 2**16)
    values, weights = start(seed), np.random.default_rng(seed + 1).uniform(-1, 1, (3, EXTENT))
    expected, slopes = results(steps, values), gradients(steps, values, weights)
    text = "\n".join(map(str, steps))
    same(on_arrays(steps, values), expected, f"arrays\n{text}")
    same(in_capture(steps, values), expected, f"a capture\n{text}")
    for name, slope in on_tape(steps, values, weights).items():
        same(slope, slopes[name], f"the tape's gradient by {name}\n{text}")
    given = [jnp.array(values[name], jnp.float32) for name in (*INPUTS, *IN_OUT)]
    if modes:
        same(np.stack(callable_of(steps, wp.GraphMode.NONE)(*given)), expected, f"GraphMode.NONE\n{text}")
    for mode in modes:
        call = callable_of(steps, mode)
        same(np.stack(call(*given)), expected, f"{mode.name}\n{text}")
        items = [jnp.stack([g, g[::-1]]) for g in given]
        other = {name: v[::-1] for name, v in values.items()}
        same(
            np.stack(jax.vmap(call)(*items), 1),
            np.stack([expected, results(steps, other)]),
            f"vmap, {mode.name}\n{text}",
        )
        found = jax.grad(lambda *x, call=call: (jnp.stack(call(*x)) * weights).sum(), (0, 1, 2))(*given)
        for name, slope in zip((*INPUTS, *IN_OUT), found, strict=True):
            same(np.asarray(slope), slopes[name], f"{mode.name}: gradient by {name}\n{text}")
    return steps


def same(found: np.ndarray, expected: np.ndarray, what: str) -> None:
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5, err_msg=what)
