"""What the pages say of NaN, infinities and zeros of both signs, of every builtin that compares: in all triples.

The formulas on the right are Python's. Interpreter, CPU code, and CUDA text on the host agree with them to the bit.
"""

import itertools
import math

import hostcuda
import numpy as np
import pytest
from cpukit import SHAPES
from kernels_strategy import same_values

import jaxwarp as wp
from jaxwarp.codegen.cpu import run_cpu
from jaxwarp.ir.interpret import interpret
from jaxwarp.passes.pipeline import prepare
from jaxwarp.types import float32, float64

NAN, INF = float("nan"), float("inf")
SPECIAL = (NAN, -NAN, 0.0, -0.0, 1.0, -2.5, INF, -INF)
TRIPLES = list(itertools.product(SPECIAL, repeat=3))


def lesser(a, b):
    return a if a < b else b


def greater(a, b):
    return a if a > b else b


def extreme(sign, numbers):
    """Of the components of one vector: NaN is left out, -0.0 is less than 0.0."""
    found = sorted((sign * x for x in numbers if x == x), key=lambda x: (x, math.copysign(1.0, x)))
    return sign * found[0] if found else NAN


def place(sign, numbers):
    """The first of equal ones, zeros being equal."""
    found = [sign * x for x in numbers if x == x]
    return next(i for i, x in enumerate(numbers) if sign * x == min(found)) if found else 0


def python_step(a):
    return 1.0 if a < 0.0 else 0.0


EXPECTED = [
    lambda a, b, c: lesser(a, b), lambda a, b, c: greater(a, b), lambda a, b, c: lesser(lesser(a, b), c),
    lambda a, b, c: lesser(greater(b, a), c), lambda a, b, c: -1.0 if a < 0.0 else 1.0, lambda a, b, c: python_step(a),
    lambda a, b, c: 1.0 if a != 0.0 else 0.0, lambda a, b, c: extreme(1, (a, b, c)),
    lambda a, b, c: extreme(-1, (a, b, c)), lambda a, b, c: place(1, (a, b, c)), lambda a, b, c: place(-1, (a, b, c)),
    lambda a, b, c: lesser(a, b), lambda a, b, c: lesser(b, c),
    lambda a, b, c: sum(2.0**k for k, yes in enumerate((a < b, a <= b, a > b, a >= b, a == b, a != b)) if yes),
    lambda a, b, c: sum(2.0**k for k, yes in enumerate((a != a, abs(a) == INF, abs(a) < INF)) if yes),
    lambda a, b, c: math.copysign(a, b), lambda a, b, c: abs(a),
    lambda a, b, c: float((a, b, c) == (c, b, a) and a == a and b == b), lambda a, b, c: a if a < b else c,
]  # fmt: skip


@wp.func
def bit(condition: bool, value: float) -> float:
    return wp.where(condition, value, 0.0)


def of(t):
    vec3 = wp.types.vector(length=3, dtype=t)

    @wp.kernel
    def special_operands(x: wp.array2d[t], out: wp.array2d[t]):
        i = wp.tid()
        a, b, c = x[i, 0], x[i, 1], x[i, 2]
        v = vec3(a, b, c)
        pairs = wp.min(v, vec3(b, c, a))
        out[i, 0] = wp.min(a, b)
        out[i, 1] = wp.max(a, b)
        out[i, 2] = wp.min(a, b, c)
        out[i, 3] = wp.clamp(a, b, c)
        out[i, 4] = wp.sign(a)
        out[i, 5] = wp.step(a)
        out[i, 6] = wp.nonzero(a)
        out[i, 7] = wp.min(v)
        out[i, 8] = wp.max(v)
        out[i, 9] = t(wp.argmin(v))
        out[i, 10] = t(wp.argmax(v))
        out[i, 11] = pairs[0]
        out[i, 12] = pairs[1]
        order = bit(a < b, 1.0) + bit(a <= b, 2.0) + bit(a > b, 4.0) + bit(a >= b, 8.0)
        out[i, 13] = t(order + bit(a == b, 16.0) + bit(a != b, 32.0))
        out[i, 14] = t(bit(wp.isnan(a), 1.0) + bit(wp.isinf(a), 2.0) + bit(wp.isfinite(a), 4.0))
        out[i, 15] = wp.copysign(a, b)
        out[i, 16] = wp.abs(a)
        out[i, 17] = t(bit(v == vec3(c, b, a), 1.0))
        out[i, 18] = wp.where(a < b, a, c)

    return prepare(special_operands.specialize())


@pytest.mark.parametrize("t", [wp.float16, wp.bfloat16, float32, float64], ids=str)
def test_all_triples(t):
    kernel = of(t)
    x = np.array(TRIPLES).astype(t.numpy)
    expected = np.array([[float(f(*row)) for f in EXPECTED] for row in TRIPLES]).astype(t.numpy)
    hostcuda.prepare_host([kernel], (32,))
    runs = {"interpreter": lambda buffers: interpret(kernel, (len(x),), buffers)}
    runs["CUDA"] = lambda buffers: hostcuda.run_host(kernel, (len(x),), buffers)
    for width in (1, 8, 16):
        runs[f"CPU {width}"] = lambda buffers, w=width: run_cpu(kernel, (len(x),), buffers, w, None, SHAPES[w])
    for name, run in runs.items():
        out = np.zeros_like(expected)
        run([x.copy(), out])
        for column in range(len(EXPECTED)):
            wrong = [i for i in range(len(x)) if not same_values(out[i, column], expected[i, column])]
            assert not wrong, (name, column, TRIPLES[wrong[0]], out[wrong[0], column], expected[wrong[0], column])
