"""Functions and operators of the language on scalars, vectors and matrices, against NumPy; and their typing rules."""

from __future__ import annotations

import inspect
import math
import operator

import numpy as np
import pytest

from jaxwarp.builtins.language.constants import CONSTANTS
from jaxwarp.builtins.language.folding import fold
from jaxwarp.builtins.language.functions import FUNCTIONS
from jaxwarp.builtins.language.ops import Ops
from jaxwarp.builtins.language.scalar_functions import ROW_FUNCTIONS
from jaxwarp.builtins.language.values import Bundle
from jaxwarp.builtins.scalar_ops import ROWS
from jaxwarp.codegen.cpu import run_cpu
from jaxwarp.ir.builder import Builder
from jaxwarp.ir.interpret import interpret
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Param, Value
from jaxwarp.ir.verify import verify
from jaxwarp.passes.pipeline import prepare
from jaxwarp.types import (
    Aggregate,
    Mat,
    Quat,
    Scalar,
    Transform,
    Vec,
    bool_,
    element_scalar,
    element_shape,
    float32,
    float64,
    int32,
    int64,
    uint8,
    uint32,
)  # fmt: skip

THREADS = 24

# Operand shapes that each function is tried on: s scalar, b bool, i an axis, 2 3 4 6 vectors, M22 M33 M44 M23 M32
# matrices, Q unit quaternions, T transforms, R3 R4 matrices that turn.
FORMS: dict[str, list[str]] = {
    "add": ["s s", "3 3", "M23 M23"],
    "sub": ["s s", "3 3", "M23 M23"],
    "mul": ["s s", "3 s", "s 3", "M22 s", "s M23", "M23 M32", "M23 3", "2 M23"],
    "div": ["s s", "3 s", "s 3", "M23 s", "s M22"],
    "floordiv": ["s s"],
    "mod": ["s s", "3 3"],
    "neg": ["s", "3", "M23"],
    "pos": ["s", "3"],
    "abs": ["s", "3", "M22"],
    "sign": ["s", "3"],
    "nonzero": ["s"],
    "step": ["s"],
    "min": ["s s", "s s s", "3 3", "4", "2 2 2"],
    "max": ["s s", "s s s", "3 3", "4", "2 2 2"],
    "argmin": ["4"],
    "argmax": ["4"],
    "clamp": ["s s s", "3 3 3"],
    "where": ["b s s", "b 3 3", "b M22 M22"],
    "select": ["b s s", "b 3 3"],
    "dot": ["3 3", "4 4"],
    "cross": ["3 3"],
    "length_sq": ["3"],
    "outer": ["2 3"],
    "skew": ["3"],
    "cw_mul": ["3 3", "M23 M23"],
    "cw_div": ["3 3", "M23 M23"],
    "transpose": ["M23"],
    "determinant": ["M22", "M33", "M44"],
    "trace": ["M33"],
    "diag": ["3"],
    "get_diag": ["M33"],
    "ddot": ["M23 M23"],
    "vector": ["s s s s s"],
    "matrix_from_rows": ["3 3"],
    "matrix_from_cols": ["3 3"],
}
FLOAT_FORMS: dict[str, list[str]] = {
    **{name: [" ".join("s" * count)] for name, count in ROW_FUNCTIONS.items() if not name.startswith(("pop", "c")) or
       name in ("cos", "cosh", "cbrt", "ceil", "copysign")},
    "div_approx": ["s s", "3 s", "M22 s"],
    "frac": ["s"],
    "degrees": ["s"],
    "radians": ["s"],
    "lerp": ["s s s", "3 3 s", "M22 M22 s"],
    "smoothstep": ["s s s"],
    "isnan": ["s", "3"],
    "isinf": ["s", "M22"],
    "isfinite": ["s", "3"],
    "norm_l1": ["3"],
    "norm_l2": ["3"],
    "norm_huber": ["3", "3 s"],
    "norm_pseudo_huber": ["3", "3 s"],
    "smooth_normalize": ["3"],
    "inverse": ["M22", "M33", "M44"],
    "inverse_approx": ["M22", "M33", "M44"],
    "dot": ["3 3", "4 4", "Q Q"],
    "length": ["3", "4", "Q"],
    "length_sq": ["3", "Q"],
    "normalize": ["2", "3", "Q"],
    "mul": [*FORMS["mul"], "Q Q", "Q s", "s Q", "T T", "T s"],
    "div": [*FORMS["div"], "Q s"],
    "add": [*FORMS["add"], "Q Q", "T T"],
    "neg": [*FORMS["neg"], "Q", "T"],
    "quaternion": ["s s s s", "3 s", "Q"],
    "quat_from_axis_angle": ["3 s"],
    "quat_to_axis_angle": ["Q"],
    "quat_from_matrix": ["R3", "R4"],
    "quat_rpy": ["s s s"],
    "quat_to_rpy": ["Q"],
    "quat_inverse": ["Q"],
    "quat_rotate": ["Q 3"],
    "quat_rotate_inv": ["Q 3"],
    "quat_slerp": ["Q Q s"],
    "quat_to_matrix": ["Q"],
    "quat_twist": ["3 Q"],
    "quat_twist_angle": ["3 Q"],
    "quat_twist_angle_signed": ["3 Q"],
    "quat_from_euler": ["3 i i i"],
    "quat_to_euler": ["Q i j k", "Q i j i"],
    "transformation": ["3 Q", "3", "s s s s s s s"],
    "transform_get_translation": ["T"],
    "transform_get_rotation": ["T"],
    "transform_set_translation": ["T 3"],
    "transform_set_rotation": ["T Q"],
    "transform_set_translation_copy": ["T 3"],
    "transform_set_rotation_copy": ["T Q"],
    "transform_multiply": ["T T"],
    "transform_point": ["T 3", "M44 3"],
    "transform_vector": ["T 3", "M44 3"],
    "transform_inverse": ["T"],
    "transform_from_matrix": ["R4"],
    "transform_to_matrix": ["T"],
    "transform_compose": ["3 Q 3"],
    "transform_decompose": ["M44"],
    "transform_twist": ["T 6"],
    "transform_wrench": ["T 6"],
    "spatial_dot": ["6 6"],
    "spatial_cross": ["6 6"],
    "spatial_cross_dual": ["6 6"],
    "spatial_top": ["6"],
    "spatial_bottom": ["6"],
    "spatial_adjoint": ["M33 M33"],
    "velocity_at_point": ["6 3"],
}  # fmt: skip
INTEGER_FORMS: dict[str, list[str]] = {
    "bit_and": ["s s", "3 3"],
    "bit_or": ["s s"],
    "bit_xor": ["s s"],
    "lshift": ["s s"],
    "rshift": ["s s"],
    "invert": ["s", "3"],
    "popcount": ["s"],
    "clz": ["s"],
    "ctz": ["s"],
}
# Those with arguments that are no operands have tests of their own.
OTHERS = {"cast", "matrix", "identity", "quat_identity", "transform_identity"}


def forms(dtype: Scalar) -> list[tuple[str, str]]:
    table = FORMS | (FLOAT_FORMS if dtype.is_float else INTEGER_FORMS)
    return [(name, form) for name, listed in table.items() for form in listed]


def test_every_function_has_a_form():
    assert FORMS.keys() | FLOAT_FORMS.keys() | INTEGER_FORMS.keys() | OTHERS == FUNCTIONS.keys()


def form_type(token: str, dtype: Scalar) -> Scalar | Aggregate:
    match token:
        case "s":
            return dtype
        case "b":
            return bool_
        case "i" | "j" | "k":
            return int32
        case "Q":
            return Quat(dtype)
        case "T":
            return Transform(dtype)
        case "R3" | "R4":
            return Mat(int(token[1]), int(token[1]), dtype)
        case _ if token[0] == "M":
            return Mat(int(token[1]), int(token[2]), dtype)
        case _:
            return Vec(int(token), dtype)


def sample(rng: np.random.Generator, name: str, position: int, t: Scalar | Aggregate) -> np.ndarray:
    scalar, shape = element_scalar(t), (THREADS, *element_shape(t))
    if scalar is bool_:
        return rng.integers(0, 2, shape).astype(bool)
    if scalar.is_int:
        low = 0 if name.endswith("shift") and position else -9
        return rng.integers(low, 10, shape).astype(scalar.numpy)
    low, high = FUNCTIONS[name].domain
    if name in ROWS and ROWS[name].domain:
        low, high = ROWS[name].domain[position]
    values = rng.uniform(low, high, shape)
    if name in ("inverse", "inverse_approx", "determinant"):
        values += 4 * np.eye(shape[-1])
    if isinstance(t, Quat | Transform):
        values[:, -4:] /= np.linalg.norm(values[:, -4:], axis=-1, keepdims=True)
    if name == "quat_from_axis_angle" or "twist" in name:
        values /= np.linalg.norm(values, axis=-1, keepdims=True) if t == Vec(3, scalar) else 1.0
    if name in ("quat_from_matrix", "transform_from_matrix", "transform_decompose"):
        values[:, :3, :3] = np.linalg.qr(values[:, :3, :3])[0]
        values[:, :3, :3] *= np.linalg.det(values[:, :3, :3])[:, None, None]
        if name == "transform_decompose":
            values[:, :3, :3] *= rng.uniform(0.5, 2.0, (THREADS, 1, 3))
    if name == "clamp":
        values = values + position - 1
    if name.startswith("is"):
        values[::5] = np.nan
        values[1::5] = np.inf
    return values.astype(scalar.numpy)


class Program:
    """A kernel that applies functions to arrays, one call per pair of buffers."""

    def __init__(self) -> None:
        self.builder = Builder()
        self.ops = Ops(self.builder)
        self.i = self.builder.tid(0)
        self.params: list[Param] = []
        self.buffers: list[np.ndarray] = []

    def _param(self, t: Scalar | Aggregate, buffer: np.ndarray) -> Param:
        param = Param(f"p{len(self.params)}", element_scalar(t), (None, *element_shape(t)))
        self.params.append(param)
        self.buffers.append(buffer)
        return param

    def _places(self, t: Scalar | Aggregate) -> list[tuple[Value, ...]]:
        places = np.ndindex(*element_shape(t))
        return [(self.i, *(self.builder.const(k, int32) for k in place)) for place in places]

    def load(self, t: Scalar | Aggregate, values: np.ndarray) -> Value | Bundle:
        param = self._param(t, values)
        loaded = tuple(self.builder.load(param, place) for place in self._places(t))
        return loaded[0] if isinstance(t, Scalar) else Bundle(t, loaded)

    def store(self, value: Value | Bundle | bool | int | float, threads: int = THREADS) -> np.ndarray:
        value = self.ops.materialize(value)
        t = value.type
        buffer = np.zeros((threads, *element_shape(t)), element_scalar(t).numpy)
        param = self._param(t, buffer)
        values = value.values if isinstance(value, Bundle) else (value,)
        for place, component in zip(self._places(t), values, strict=True):
            self.builder.store(param, place, component)
        return buffer

    def finish(self) -> Kernel:
        kernel = self.builder.finish("program", 1, self.params)
        verify(kernel)
        return kernel


def host(t: Scalar | Aggregate, value: np.ndarray) -> np.ndarray:
    """A value as the host has it."""
    return t(value) if isinstance(t, Quat | Transform) else value


def _set_axes(rng: np.random.Generator, tokens: list[str], arrays: list[np.ndarray]) -> None:
    """Three axes: any, or different ones where they are asked for as i, j and k (the same letter is the same axis)."""
    if not {"j", "k"} & set(tokens):
        for k, token in enumerate(tokens):
            if token == "i":
                arrays[k] = rng.integers(0, 3, THREADS).astype(np.int32)
        return
    order = np.stack([rng.permutation(3) for _ in range(THREADS)]).astype(np.int32)
    for k, token in enumerate(tokens):
        if token in ("i", "j", "k"):
            arrays[k] = order[:, "ijk".index(token)].copy()


def build(dtype: Scalar):
    """Every form of every function at a type, and what NumPy says of it."""
    program, results = Program(), []
    for name, form in forms(dtype):
        rng = np.random.default_rng([7, *f"{name} {form}".encode()])  # so that a new function leaves others as they are
        types = [form_type(token, dtype) for token in form.split()]
        arrays = [sample(rng, name, k, t) for k, t in enumerate(types)]
        _set_axes(rng, form.split(), arrays)
        values = [program.load(t, a) for t, a in zip(types, arrays, strict=True)]
        computed = FUNCTIONS[name].expand(program.ops, *values)
        with np.errstate(all="ignore"):
            operands = [[host(t, a[k]) for t, a in zip(types, arrays, strict=True)] for k in range(THREADS)]
            rows = [FUNCTIONS[name].ref(*of_thread) for of_thread in operands]
        several = isinstance(computed, tuple)
        for part, of_part in zip(computed, zip(*rows, strict=True), strict=True) if several else [(computed, rows)]:
            results.append((name, form, program.store(part), np.stack([np.asarray(row) for row in of_part])))
    return program, results


@pytest.mark.parametrize("dtype", [float32, float64, int32, int64], ids=lambda t: t.short)
@pytest.mark.parametrize("backend", ["interpreter", "cpu", "cuda text"])
def test_functions_against_numpy(dtype, backend):
    program, results = build(dtype)
    kernel = program.finish()
    if backend == "interpreter":
        interpret(kernel, (THREADS,), program.buffers)
    elif backend == "cpu":
        run_cpu(prepare(kernel), (THREADS,), program.buffers, width=8)
    else:
        hostcuda = pytest.importorskip("hostcuda")
        hostcuda.run_host(prepare(kernel), (THREADS,), program.buffers, 32)
    for name, form, got, expected in results:
        where = f"{name}({form}) on {backend}"
        assert got.dtype == expected.dtype, where
        assert got.shape == expected.shape, where
        if not np.issubdtype(got.dtype, np.floating):
            assert (got == expected).all(), where
            continue
        wide, limit = (a.astype(np.float64) for a in (got, expected))
        components = tuple(range(1, got.ndim))
        size = np.max(np.abs(np.where(np.isfinite(limit), limit, 0)), axis=components, keepdims=True)
        if name in ROWS and not components:
            size = np.abs(limit)
        allowed = FUNCTIONS[name].ulp * np.finfo(got.dtype).eps * size
        close = (np.abs(wide - limit) <= allowed) | (wide == limit) | (np.isnan(wide) & np.isnan(limit))
        assert close.all(), f"{where}: {wide[~close][:3]}, expected {limit[~close][:3]}"


SPECIAL = (0.0, -0.0, 0.5, 1.0, -2.5, 3.0, 1e30, math.inf, -math.inf, math.nan)
# Functions of which the reference says what becomes of NaN, infinity and overflow, not only of ordinary numbers.
FOLLOWED = {name for name, f in FUNCTIONS.items() if not f.ulp or f.group == "Elementary functions"} | {
    "lerp", "smoothstep", "degrees", "radians"
}  # fmt: skip


def test_host_values_are_those_of_kernels_for_special_numbers():
    threads, program, results = 50, Program(), []
    listed = [(name, form) for name, form in forms(float32) if name in FOLLOWED and not set(form) & set("QTRijk")]
    assert {"min", "max", "clamp", "argmin", "argmax", "pow"} <= {name for name, _ in listed}
    for name, form in listed:
        rng = np.random.default_rng([*f"{name} {form}".encode()])
        types = [form_type(token, float32) for token in form.split()]
        shapes = [(threads, *element_shape(t)) for t in types]
        values = [[False, True] if t is bool_ else np.float32(SPECIAL) for t in types]
        drawn = [rng.choice(v, shape) for v, shape in zip(values, shapes, strict=True)]
        computed = FUNCTIONS[name].expand(program.ops, *map(program.load, types, drawn))
        with np.errstate(all="ignore"):
            expected = [FUNCTIONS[name].ref(*(a[k] for a in drawn)) for k in range(threads)]
        results.append((name, form, program.store(computed, threads), np.asarray(expected), drawn))
    interpret(program.finish(), (threads,), program.buffers)
    for name, form, got, expected, drawn in results:
        with np.errstate(all="ignore"):
            wide, limit = (np.asarray(v, np.float64) for v in (got, expected))
            allowed = FUNCTIONS[name].ulp * np.finfo(np.float32).eps * np.abs(limit)
            is_near = np.isfinite(limit) & (np.abs(wide - limit) <= allowed)
            same = (wide == limit) | (np.isnan(wide) & np.isnan(limit)) | is_near
        bad = np.flatnonzero(~same.reshape(threads, -1).all(axis=1))[:1]
        assert not bad.size, f"{name}({form}) of {[a[bad] for a in drawn]}: {got[bad]}, on the host {expected[bad]}"


def run_program(build_body) -> list[np.ndarray]:
    program = Program()
    outputs = [program.store(v) for v in build_body(program)]
    interpret(program.finish(), (THREADS,), program.buffers)
    return outputs


def test_special_cases_of_linear_algebra():
    def body(p: Program):
        zero = p.ops.construct(Vec(3, float32), ())
        singular = p.ops.construct(Mat(2, 2, float32), (1, 2, 2, 4))
        calls = [("normalize", zero), ("inverse", singular), ("determinant", singular)]
        return [FUNCTIONS[name].expand(p.ops, argument) for name, argument in calls]

    normalized, inverse, determinant = run_program(body)
    assert not normalized.any()
    assert not inverse.any()
    assert not determinant.any()


def test_constructors():
    f2, m23 = Vec(2, float32), Mat(2, 3, float32)

    def body(p: Program):
        def call(name, *args, **options):
            return FUNCTIONS[name].expand(p.ops, *args, **options)

        x = p.ops.cast(float32, p.i)
        return [
            p.ops.construct(f2, ()),
            p.ops.construct(f2, (x,)),
            p.ops.construct(f2, (1, 2.5)),
            p.ops.construct(Vec(2, int32), (p.ops.construct(f2, (1.9, -1.9)),)),
            p.ops.construct(m23, range(6)),
            p.ops.construct(m23, (7,)),
            call("vector", 1, 2.0, x),
            call("vector", 1, 2),
            call("vector", 5, length=3, dtype=float64),
            call("vector", length=2, dtype=int),
            call("matrix", 1.0, shape=(1, 2)),
            call("matrix", 1, 2, 3, 4, shape=(2, 2), dtype=float),
            call("matrix", shape=(2, 1), dtype=float64),
            call("identity", n=2, dtype=float64),
            call("matrix_from_cols", p.ops.construct(f2, (1, 2)), p.ops.construct(f2, (3, 4))),
            call("matrix_from_rows", p.ops.construct(f2, (1, 2)), p.ops.construct(f2, (3, 4))),
        ]

    outputs = run_program(body)
    expected = [
        np.float32([0, 0]), np.float32([3, 3]), np.float32([1, 2.5]), np.int32([1, -1]),
        np.arange(6, dtype=np.float32).reshape(2, 3), np.full((2, 3), 7, np.float32), np.float32([1, 2, 3]),
        np.int32([1, 2]), np.float64([5, 5, 5]), np.int32([0, 0]), np.float32([[1, 1]]), np.float32([[1, 2], [3, 4]]),
        np.zeros((2, 1)), np.eye(2), np.float32([[1, 3], [2, 4]]), np.float32([[1, 2], [3, 4]]),
    ]  # fmt: skip
    for got, value in zip(outputs, expected, strict=True):
        assert got.dtype == value.dtype
        assert (got[3] == value).all(), (got[3], value)


def test_bits_read_as_another_type():
    def body(p: Program):
        x = p.load(float32, np.full(THREADS, 1.5, np.float32))
        bits = FUNCTIONS["cast"].expand(p.ops, x, uint32)
        return [bits, FUNCTIONS["cast"].expand(p.ops, bits, float32)]

    bits, back = run_program(body)
    assert bits[0] == 0x3FC00000
    assert back[0] == 1.5


COMPARISONS = {name: getattr(operator, name) for name in ("lt", "le", "gt", "ge", "eq", "ne")}


def test_operators_and_conditions():
    def body(p: Program):
        ops, x = p.ops, p.ops.cast(int32, p.i)
        three = ops.construct(Vec(3, int32), (x, 1, 2))
        other = ops.construct(Vec(3, int32), (3, 1, 2))
        return [
            *(ops.compare(name, x, 3) for name in COMPARISONS),
            ops.compare("eq", three, other),
            ops.compare("ne", three, other),
            ops.condition(x),
            ops.unary("logical_not", x),
            ops.unary("bit_not", ops.compare("lt", x, 3)),
            ops.binary("bit_and", ops.compare("gt", x, 1), ops.compare("lt", x, 3)),
            ops.binary("bit_xor", ops.compare("gt", x, 1), True),
            ops.select(ops.compare("lt", x, 3), three, other),
        ]

    i = np.arange(THREADS)
    outputs = run_program(body)
    expected = [f(i, 3) for f in COMPARISONS.values()]
    expected += [i == 3, i != 3, i != 0, i == 0, i >= 3, (i > 1) & (i < 3), i <= 1]
    for got, value in zip(outputs[:-1], expected, strict=True):
        assert (got == value).all()
    assert outputs[-1][:5, 0].tolist() == [0, 1, 2, 3, 3]


def test_literals_take_the_type_they_meet():
    def body(p: Program):
        ops = p.ops
        wide = ops.cast(float64, p.i)
        assert ops.binary("add", wide, 1).type is float64
        assert ops.binary("mul", ops.cast(uint8, p.i), 255).type is uint8
        assert ops.call("sin", 1).type is float32
        assert ops.materialize(3).type is int32
        assert ops.materialize(3.0).type is float32
        assert ops.materialize(True).type is bool_
        assert ops.binary("pow", wide, 2).type is float64
        return [
            ops.binary("div", 1, wide),
            ops.cast(int64, 2**40),
            ops.cast(uint8, 300),
            ops.cast(int32, -3.7),
            ops.cast(float32, 1e40),
            *(ops.binary("pow", ops.cast(float32, p.i), e) for e in (2, 3.0, 4, 0, 0.5)),
        ]

    quotient, large, wrapped, truncated, infinite, *powers = run_program(body)
    assert [p[3] for p in powers] == [9.0, 27.0, 81.0, 1.0, np.float32(3.0) ** np.float32(0.5)]
    assert quotient[4] == 0.25
    assert large[0] == 2**40
    assert wrapped[0] == 44
    assert truncated[0] == -3
    assert infinite[0] == np.inf


def test_literals_meet_literals():
    assert fold("div", 7, -2) == -3
    assert [fold("floordiv", *pair) for pair in ((7, -2), (-7, 2), (-7, -2), (7, 0))] == [-4, -4, 3, 0]
    assert fold("mod", -7, 2) == -1
    assert fold("div", 1, 0) == 0
    assert isinstance(fold("add", 1, 2), int)
    assert fold("div", 1.0, 4) == 0.25
    assert fold("div", 1.0, 0) == math.inf
    assert fold("mod", -7.5, 2) == -1.5
    assert fold("floordiv", -7.5, 2) == -4.0
    assert fold("pow", 2, 10) == 1024
    assert fold("shl", 1, 40) == 2**40
    assert fold("bit_and", True, False) is False
    assert fold("lt", 1, 2.5) is True
    assert fold("neg", 3) == -3


def test_host_calls_compute_references():
    assert FUNCTIONS["sin"](1.0) == np.float32(math.sin(1.0))
    assert FUNCTIONS["clamp"](5, 0, 3) == 3
    assert FUNCTIONS["mul"](np.eye(2), np.array([3.0, 4.0])).tolist() == [3.0, 4.0]
    assert FUNCTIONS["dot"](np.array([1.0, 2.0]), np.array([3.0, 4.0])) == 11.0
    assert FUNCTIONS["identity"](n=2, dtype=float).dtype == np.float32


def test_constants():
    assert CONSTANTS["pi"] == CONSTANTS["PI"] == math.pi
    assert CONSTANTS["inf"] == math.inf
    assert math.isnan(CONSTANTS["NAN"])
    assert CONSTANTS["phi"] ** 2 == pytest.approx(CONSTANTS["phi"] + 1)
    assert CONSTANTS["ln2"] * CONSTANTS["log2e"] == pytest.approx(1)
    assert CONSTANTS["ln10"] * CONSTANTS["log10e"] == pytest.approx(1)


def test_signatures_name_the_parameters():
    """What the page prints is what a call binds."""
    for function in FUNCTIONS.values():
        text = function.signature
        assert text.startswith(function.name + "("), text
        parameters = list(inspect.signature(function.body).parameters.values())[1:]
        if any(p.kind is p.VAR_POSITIONAL for p in parameters):
            continue
        inside = text[len(function.name) + 1 : text.rindex(") ->")].replace("tuple[int, int]", "tuple")
        assert [p.name for p in parameters] == [part.split(":")[0].strip() for part in inside.split(",")], text
