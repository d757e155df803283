"""Arrays of structs outside of JAX, records in memory: NumPy's structured arrays and Warp's layout are right."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp.errors import KernelError, KernelTypeError, KernelValueError


@wp.struct
class Inner:
    h: wp.float16
    q: wp.quat


@wp.struct
class Record:
    a: float
    v: wp.vec3
    k: int
    inner: Inner
    flag: wp.bool
    m: wp.mat22


@wp.struct
class Pair:
    x: float
    y: float = 2.0


@wp.struct
class Holder:
    n: int
    x: wp.array[float]


@wp.kernel
def advance(src: wp.array[Record], out: wp.array[Record]):
    i = wp.tid()
    s = src[i]
    s.a = s.a * 2.0
    s.v = s.v * s.a
    s.inner.q[0] = float(s.k)
    out[i] = s
    out[i].k = i


@wp.kernel
def grow(x: wp.array2d[Record]):
    i, j = wp.tid()
    x[i, j].a += x[i, j].v[1] * float(i)
    x[i, j].k = j


@wp.kernel
def loss_of(x: wp.array[Record], loss: wp.array[float]):
    i = wp.tid()
    s = x[i]
    wp.atomic_add(loss, 0, s.a * s.a * 2.0 + wp.dot(s.v, s.v) * float(s.k))


def record(n: float = 1.0) -> Any:
    q = wp.quat(0.0, 0.0, 0.0, 1.0)
    return Record(n + 0.5, (n, 2.0, 3.0), 7, Inner(2.0, q), True, [[1.0, 2.0], [3.0, n]])


def advanced(given: np.ndarray) -> np.ndarray:
    """What `advance` makes."""
    out = given.copy()
    out["a"] = given["a"] * 2
    out["v"] = given["v"] * out["a"][:, None]
    out["inner"]["q"][:, 0] = given["k"]
    out["k"] = np.arange(len(given))
    return out


def test_the_layout_is_that_of_warp():
    warp = pytest.importorskip("warp", reason="the comparison needs warp-lang")
    for names in (
        ["float32", "vec3d", "int8"], ["int8", "float64", "int16"], ["bool", "mat22h", "int64", "uint8"],
        ["vec2b", "quatf", "float16", "spatial_matrix"], ["transformd", "int8"], ["uint16", "vec4", "int32", "vec3ub"],
    ):  # fmt: skip
        found = []
        for package in (wp, warp):
            inner = type("Inside", (), {"__annotations__": {"a": package.int8, "b": package.vec2d}})
            fields = {f"f{i}": getattr(package, name) for i, name in enumerate(names)}
            nested = {"first": package.int16, "inner": package.struct(inner), **fields}
            found.append(np.dtype(package.struct(type("S", (), {"__annotations__": nested})).numpy_dtype()))
        assert found[0] == found[1]


def test_new_arrays():
    zeros = wp.zeros((2, 3), dtype=Record)
    assert (zeros.shape, zeros.dtype, zeros.ndim, zeros.size) == ((2, 3), Record, 2, 6)
    assert zeros.strides == (3 * Record.numpy_dtype().itemsize, Record.numpy_dtype().itemsize)
    assert zeros.numpy().dtype == Record.numpy_dtype()
    assert zeros.numpy().tobytes() == bytes(zeros.numpy().nbytes)
    assert isinstance(zeros, wp.array)
    for made in (
        wp.empty(2, dtype=Record),
        wp.zeros_like(zeros[0]),
        wp.empty_like(zeros[0]),
        wp.array(shape=3, dtype=Record),
    ):
        assert made.dtype == Record
        assert not made.numpy()["a"].any()
    for full in (
        wp.full(4, record(), dtype=Record),
        wp.full((2, 2), record()),
        wp.full_like(wp.zeros(4, dtype=Record), record()),
    ):
        assert [s == record() for s in full.list()] == [True] * 4


def test_instances_go_in_and_out():
    given = [record(), record(2.0), Record()]
    array = wp.array(given, dtype=Record)
    assert array.list() == given
    assert wp.array(given).dtype == Record
    assert array[1].item() == given[1]
    assert (array[1].shape, array[0:2].shape) == ((), (2,))
    array[0] = given[1]
    assert array.list() == [given[1], given[1], given[2]]
    array[1:].fill_(record(5.0))
    array[0:1].zero_()
    assert array.list() == [Record(inner=Inner(q=np.zeros(4))), record(5.0), record(5.0)]
    rows = wp.array([[Pair(1.0), Pair(2.0)], [Pair(3.0), Pair(4.0)]], dtype=Pair)
    assert rows.shape == (2, 2)
    np.testing.assert_array_equal(rows.numpy()["x"], [[1, 2], [3, 4]])
    np.testing.assert_array_equal(wp.array([(1.0, 2.0), (3.0, 4.0)], dtype=Pair).numpy()["y"], [2, 4])
    assert wp.array([], dtype=Pair).shape == (0,)


def test_records_of_numpy():
    values: Any = np.zeros(5, Record.numpy_dtype())
    values["a"], values["k"] = np.arange(5), np.arange(5) * 2
    values["v"][:, 1] = 3.0
    array = wp.from_numpy(values, Record)
    np.testing.assert_array_equal(array.numpy(), values)
    shared = wp.array(values, dtype=Record, copy=False)
    shared.fill_(record())
    assert values["a"].tolist() == [1.5] * 5
    assert array.numpy()["a"].tolist() == [0, 1, 2, 3, 4]
    expected = np.zeros(3, Record.numpy_dtype())
    expected.fill(record().numpy_value())
    np.testing.assert_array_equal(wp.full(3, record()).numpy(), expected)
    assert wp.array(values, dtype=Record, shape=(5, 1)).shape == (5, 1)


def test_fields_are_views():
    array = wp.zeros(4, dtype=Record)
    array.field("v").fill_((1.0, 2.0, 3.0))
    array.field("inner").field("h").assign(np.arange(4, dtype=np.float16))
    assert array.numpy()["v"].tolist() == [[1, 2, 3]] * 4
    assert array.numpy()["inner"]["h"].tolist() == [0, 1, 2, 3]
    assert array[1:3].field("v").dtype == wp.vec3
    with pytest.raises(KernelTypeError, match="struct Record has no field vv"):
        array.field("vv")


def test_copies_and_shapes():
    array = wp.array([record(float(i)) for i in range(6)], dtype=Record)
    values = array.numpy().copy()
    for made in (wp.clone(array), array[::-1].contiguous()[::-1], array.reshape(2, 3).flatten(), array.view(Record)):
        np.testing.assert_array_equal(made.numpy(), values)
    np.testing.assert_array_equal(array.reshape((2, 3)).transpose().numpy(), values.reshape(2, 3).T)
    assert array[::2].contiguous().strides == array.strides
    target = wp.zeros(8, dtype=Record)
    wp.copy(target, array, dest_offset=1, src_offset=2, count=3)
    np.testing.assert_array_equal(target.numpy()[1:4], values[2:5])
    assert not target.numpy()["a"][[0, 4, 5, 6, 7]].any()
    other = wp.zeros(6, dtype=Record)
    wp.copy(other, array)
    other.assign(values[::-1])
    np.testing.assert_array_equal(other.numpy(), values[::-1])


def test_launches():
    array = wp.array([record(float(i)) for i in range(20)], dtype=Record)
    values = array.numpy().copy()
    out = wp.zeros(20, dtype=Record)
    wp.launch(advance, dim=20, inputs=[array], outputs=[out])
    np.testing.assert_array_equal(out.numpy(), advanced(values))
    np.testing.assert_array_equal(array.numpy(), values)
    # Parts, arrays of NumPy, and what has gaps or another layout.
    twice = wp.zeros(20, dtype=Record)
    wp.launch(advance, dim=10, inputs=[array[::2]], outputs=[twice[1::2]])
    np.testing.assert_array_equal(twice.numpy()[1::2], advanced(values[::2]))
    assert not twice.numpy()["k"][::2].any()
    packed = np.zeros(20, np.dtype(Record.numpy_dtype().descr))
    wp.launch(advance, dim=20, inputs=[values], outputs=[packed])
    assert packed["inner"]["q"].tolist() == out.numpy()["inner"]["q"].tolist()


def test_launches_in_place():
    for shape in ((3, 4), (1, 1), (17, 5)):
        array = wp.full(shape, record(3.0))
        array.field("v").assign(np.random.default_rng(1).random((*shape, 3), np.float32))
        expected = array.numpy().copy()
        expected["a"] += expected["v"][..., 1] * np.arange(shape[0], dtype=np.float32)[:, None]
        expected["k"] = np.arange(shape[1])
        wp.launch(grow, dim=shape, inputs=[array])
        np.testing.assert_array_equal(array.numpy(), expected)


def test_what_a_kernel_does_not_touch_is_left_alone():
    """Fields, and the bytes between them."""

    @wp.kernel
    def only_x(p: wp.array[Pair], out: wp.array[Record]):
        i = wp.tid()
        out[i].a = p[i].x

    out = wp.full(4, record())
    raw = np.frombuffer(out.numpy().data, np.uint8)
    raw[...] |= 0x40
    before = raw.copy().reshape(4, -1)
    wp.launch(only_x, dim=4, inputs=[wp.full(4, Pair(9.0))], outputs=[out])
    after = raw.reshape(4, -1)
    assert out.numpy()["a"].tolist() == [9.0] * 4
    np.testing.assert_array_equal(after[:, 4:], before[:, 4:])


def test_arrays_of_structs_inside_of_structs():
    @wp.struct
    class Outer:
        pairs: wp.array[Pair]
        scale: float

    @wp.kernel
    def sums(o: Outer, out: wp.array[float]):
        i = wp.tid()
        out[i] = (o.pairs[i].x + o.pairs[i].y) * o.scale

    out = wp.zeros(3)
    wp.launch(
        sums, dim=3, inputs=[Outer(wp.array([Pair(1.0), Pair(2.0, 5.0), Pair()], dtype=Pair), 10.0)], outputs=[out]
    )
    assert out.list() == [30.0, 70.0, 20.0]


# Derivatives


@wp.func
def scaled_pair(p: Pair, by: float):
    return Pair(p.x * by, p.y + by)


def test_mapped_by_functions_of_structs():
    pairs = wp.array([Pair(1.0), Pair(3.0, 4.0)], dtype=Pair, requires_grad=True)
    with wp.Tape() as tape:
        made = wp.map(scaled_pair, pairs, wp.array([2.0, 5.0], dtype=float))
        total = wp.map(lambda p, q: p.x * p.y + q.x, made, Pair(7.0))
    assert made.dtype == Pair
    assert made.list() == [Pair(2.0, 4.0), Pair(15.0, 9.0)]
    assert total.list() == [2.0 * 4.0 + 7.0, 15.0 * 9.0 + 7.0]
    tape.backward(grads={total: wp.ones(2)})
    assert pairs.grad.list() == [Pair(4.0 * 2.0, 2.0), Pair(9.0 * 5.0, 15.0)]


def test_tape():
    array = wp.array([record(float(i)) for i in range(3)], dtype=Record, requires_grad=True)
    middle = wp.zeros(3, dtype=Record, requires_grad=True)
    loss = wp.zeros(1, dtype=float, requires_grad=True)
    tape = wp.Tape()
    with tape:
        wp.launch(advance, dim=3, inputs=[array], outputs=[middle])
        copied = wp.clone(middle)
        wp.launch(loss_of, dim=3, inputs=[copied], outputs=[loss])
    tape.backward(loss)

    def value(s: Any) -> Any:
        a = s.a * 2
        v = s.v * a[:, None]
        return (a * a * 2 + (v * v).sum(1) * jnp.arange(3.0, dtype=jnp.float32)).sum()

    expected = jax.grad(value, allow_int=True)(wp.to_jax(array))
    assert array.grad is not None
    found = array.grad.numpy()
    assert found.dtype == Record.numpy_dtype()
    np.testing.assert_allclose(found["a"], expected.a, rtol=1e-6)
    np.testing.assert_allclose(found["v"], expected.v, rtol=1e-6)
    assert not found["k"].any()
    assert not found["inner"]["q"].any()
    gradients: Any = tape.gradients
    assert gradients[array] is array.grad
    tape.zero()
    assert not array.grad.numpy()["a"].any()


def test_tape_sees_fills_and_assignments():
    array = wp.full(2, Pair(3.0), requires_grad=True)
    loss = wp.zeros(1, dtype=float, requires_grad=True)

    @wp.kernel
    def product(p: wp.array[Pair], loss: wp.array[float]):
        i = wp.tid()
        wp.atomic_add(loss, 0, p[i].x * p[i].y)

    tape = wp.Tape()
    with tape:
        work = wp.clone(array)
        work[1:].fill_(Pair(5.0))
        wp.launch(product, dim=2, inputs=[work], outputs=[loss])
    tape.backward(loss)
    assert loss.list() == [3.0 * 2.0 + 5.0 * 2.0]
    assert array.grad is not None
    assert array.grad.list() == [Pair(2.0, 3.0), Pair(0.0, 0.0)]
    assert array[1:].grad.numpy()["x"].tolist() == [0.0]
    with pytest.raises(KernelTypeError, match="loss: expected an array of one number"):
        tape.backward(array[:1])


def test_gradients_of_fields_are_parts():
    array = wp.zeros(2, dtype=Record, requires_grad=True)
    assert array.field("v").grad.numpy().base is not None
    array.field("v").grad.fill_(1.0)
    assert array.grad.numpy()["v"].tolist() == [[1, 1, 1]] * 2
    assert array.field("k").grad.list() == [0, 0]
    assert not wp.zeros(2, dtype=Record).requires_grad
    integers = wp.struct(type("Integers", (), {"__annotations__": {"n": int}}))
    assert wp.zeros(2, dtype=integers, requires_grad=True).grad.field("n").list() == [0, 0]


def test_captures():
    array, out = wp.full(3, record()), wp.zeros(3, dtype=Record)
    with wp.ScopedCapture() as capture:
        wp.launch(advance, dim=3, inputs=[array], outputs=[out])
        array.fill_(record(2.0))
    assert not out.numpy()["a"].any()
    wp.capture_launch(capture.graph)
    wp.capture_launch(capture.graph)
    np.testing.assert_array_equal(out.numpy(), advanced(wp.full(3, record(2.0)).numpy()))


# JAX and others


def test_jax_has_a_struct_of_arrays():
    array = wp.array([record(float(i)) for i in range(3)], dtype=Record)
    values = wp.to_jax(array)
    assert isinstance(values, Record)
    assert isinstance(values.v, jax.Array)
    np.testing.assert_array_equal(values.v, array.numpy()["v"])
    back = wp.from_jax(values, dtype=Record)
    np.testing.assert_array_equal(back.numpy(), array.numpy())
    back.zero_()
    assert values.v[0, 1] == 2.0
    (out,) = wp.jax_kernel(advance)(array)
    np.testing.assert_array_equal(out.v, advanced(array.numpy())["v"])
    assert jax.jit(lambda s: s.v.sum())(array) == array.numpy()["v"].sum()


def test_refusals():
    array = wp.full(3, record())
    torch = pytest.importorskip("torch")
    del torch
    for refused, text in (
        (lambda: np.from_dlpack(array), "DLPack has no structs"),
        (lambda: wp.to_dlpack(array), "DLPack has no structs"),
        (lambda: wp.to_torch(array), "tensors have no structs"),
        (lambda: jnp.asarray(array), "there it is a struct of arrays"),
        (lambda: array.view(float), "its memory holds structs"),
        (lambda: array + array, "add: argument 1 is Record"),
        (lambda: array.fill_(3.0), "expected a value of struct Record, got float"),
        (lambda: wp.array([1, 2], dtype=Record), "expected a value of struct Record, got int"),
        (
            lambda: wp.array(np.zeros(3), dtype=Record),
            r"expected an array of Record.numpy_dtype\(\), got one of float64",
        ),
        (lambda: array.assign(wp.zeros(3)), "expected records of a, v, k, inner, flag, m of shape"),
        (lambda: wp.zeros(3).assign(array), "expected float32 of shape"),
        (lambda: wp.launch(advance, 3, [wp.zeros(3), array]), "expected an array of struct Record with 1 axis"),
        (lambda: wp.launch(advance, 3, [wp.zeros(3, dtype=Pair), array]), "'src': .* got an array of Pair without a"),
        (lambda: wp.launch(advance, 2, [array[:2], array[1:]]), "shares memory with argument"),
        (lambda: wp.launch(grow, (3, 1), [array]), "'x.a'"),
        (lambda: wp.zeros(3, dtype=Holder), "its field x is an array"),
        (Holder.numpy_dtype, "its field x is an array"),
        (lambda: wp.array([Pair(), record()], dtype=Pair), "expected a value of struct Pair, got Record"),
        (lambda: wp.array([(1.0, 2.0, 3.0)], dtype=Pair), "expected a value of struct Pair, got a tuple of 3"),
        (lambda: wp.array([(1.0, "two")], dtype=Pair), "field y: expected float32, got str"),
        (lambda: wp.array([(1.0, None)], dtype=Pair), "field y: expected float32, got NoneType"),
    ):
        with pytest.raises(KernelError, match=text):
            refused()
    with pytest.raises(KernelValueError, match="equal rows"):
        wp.array([[Pair()], [Pair(), Pair()]], dtype=Pair)


def test_read_only_records():
    values = np.zeros(3, Pair.numpy_dtype())
    values.flags.writeable = False
    array = wp.array(values, dtype=Pair, copy=False)
    with pytest.raises(KernelTypeError, match="read-only"):
        array.fill_(Pair())

    @wp.kernel
    def set_x(p: wp.array[Pair]):
        p[wp.tid()].x = 1.0

    with pytest.raises(KernelTypeError, match="read-only"):
        wp.launch(set_x, dim=3, inputs=[array])


def test_a_launch_that_is_like_none_before_does_not_look_up_settings():
    """Settings that do not exist were searched for by likeness, which took milliseconds."""
    from jaxwarp import config

    array, out = wp.full(3, record())[::2], wp.zeros(2, dtype=Record)
    wp.launch(advance, dim=2, inputs=[array], outputs=[out])
    searched = []
    original = config._near
    config.__dict__["_near"] = lambda name: searched.append(name) or original(name)
    try:
        wp.launch(advance, dim=2, inputs=[array], outputs=[out])
    finally:
        config.__dict__["_near"] = original
    assert not searched
