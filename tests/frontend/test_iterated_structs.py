"""`for x in s` of a struct that says how it advances (`func_next`), and `while next_item(s, x)`."""

# ruff: noqa: F841, RUF046, UP018  (a reference is read by the caller; int() makes a variable of a constant)

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from language import define

import jaxwarp as wp
from jaxwarp.errors import KernelError, KernelTypeError


@wp.struct
class Chain:
    """The links of a list in an array, from `at` on."""

    after: wp.array[int]
    at: int


@wp.func_next(Chain)
@wp.func
def next_link(chain: wp.ref[Chain], item: wp.ref[int]) -> bool:
    item = chain.at
    if item >= 0:
        chain.at = chain.after[item]
    return item >= 0


@wp.struct
class Corners:
    """The corners of a box: items are vectors."""

    size: wp.vec3
    k: int


@wp.func_next(Corners)
@wp.func
def next_corner(c: wp.ref[Corners], item: wp.ref[wp.vec3], most: int = 8) -> bool:
    if c.k >= most:
        return False
    item = wp.cw_mul(c.size, wp.vec3(float(c.k & 1), float((c.k >> 1) & 1), float(c.k >> 2)))
    c.k += 1
    return True


# Four lists: 0 -> 3 -> 1, 2, 4 -> 5, nothing
AFTER = np.array([3, -1, -1, 1, 5, -1], np.int32)
HEADS = np.array([0, 2, 4, -1], np.int32)


def links(head):
    while head >= 0:
        yield head
        head = AFTER[head]


@wp.kernel
def add_up(after: wp.array[int], heads: wp.array[int], out: wp.array[int]):
    i = wp.tid()
    for k in Chain(after, heads[i]):
        out[i] += 10 * k + 1


@wp.kernel
def by_hand(after: wp.array[int], heads: wp.array[int], out: wp.array[int]):
    i = wp.tid()
    chain = Chain(after, heads[i])
    k = int(0)
    while next_link(chain, k):
        out[i] += 10 * k + 1


@pytest.mark.parametrize("kernel", [add_up, by_hand])
def test_a_loop_goes_over_all_items(kernel):
    expected = [sum(10 * k + 1 for k in links(h)) for h in HEADS]
    (out,) = wp.jax_kernel(kernel, in_out_argnames=["out"])(AFTER, HEADS, jnp.zeros(4, jnp.int32), launch_dims=4)
    assert out.tolist() == expected
    stepped = np.zeros(4, np.int32)
    kernel.interpret(AFTER, HEADS, stepped, dim=4)
    assert stepped.tolist() == expected


@wp.kernel
def pairs(after: wp.array[int], heads: wp.array[int], out: wp.array[int]):
    i = wp.tid()
    chain = Chain(after, heads[i])
    for a in chain:
        for b in chain:
            if b == a:
                continue
            for c in chain:
                if c == b:
                    break
                out[i] += 100 * a + 10 * b + c


def test_loops_inside_each_other_over_one_struct_are_independent():
    expected = []
    for h in HEADS:
        total, every = 0, list(links(h))
        for a in every:
            for b in every:
                if b == a:
                    continue
                for c in every:
                    if c == b:
                        break
                    total += 100 * a + 10 * b + c
        expected.append(total)
    (out,) = wp.jax_kernel(pairs, in_out_argnames=["out"])(AFTER, HEADS, jnp.zeros(4, jnp.int32), launch_dims=4)
    assert out.tolist() == expected
    stepped = np.zeros(4, np.int32)
    pairs.interpret(AFTER, HEADS, stepped, dim=4)
    assert stepped.tolist() == expected


@wp.func
def first_above(chain: Chain, least: int):
    for k in chain:
        if k > least:
            return k
    return -1


@wp.kernel
def found(after: wp.array[int], heads: wp.array[int], least: int, out: wp.array[int]):
    i = wp.tid()
    if i % 2 == 0:
        out[i] = first_above(Chain(after, heads[i]), least)
    else:
        out[i] = -2


def test_a_function_may_return_from_the_loop():
    (out,) = wp.jax_kernel(found, output_dims=4)(AFTER, HEADS, 1, launch_dims=4)
    assert out.tolist() == [3, -2, 4, -2]


@wp.kernel
def farthest(sizes: wp.array[wp.vec3], point: wp.vec3, out: wp.array[float]):
    i = wp.tid()
    for corner in Corners(sizes[i], 0):
        out[i] += wp.length_sq(corner - point)


def test_items_are_vectors_and_derivatives_go_through():
    sizes = jnp.array([[1.0, 2.0, 3.0], [0.5, 0.25, 4.0]])
    call = wp.jax_kernel(farthest, in_out_argnames=["out"])

    def ours(sizes, point):
        return call(sizes, point, jnp.zeros(2))[0].sum()

    @jax.jit
    def plain(sizes, point):
        unit = jnp.array([[k & 1, k >> 1 & 1, k >> 2] for k in range(8)], jnp.float32)
        return ((sizes[:, None] * unit - point) ** 2).sum()

    point = jnp.array([0.3, 0.2, 0.1])
    np.testing.assert_allclose(ours(sizes, point), plain(sizes, point), rtol=1e-6)
    for a, b in zip(jax.grad(ours, (0, 1))(sizes, point), jax.grad(plain, (0, 1))(sizes, point), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)
    tangents = (jnp.ones_like(sizes), jnp.ones_like(point))
    np.testing.assert_allclose(
        jax.jvp(ours, (sizes, point), tangents)[1], jax.jvp(plain, (sizes, point), tangents)[1], rtol=1e-5
    )


@wp.struct
class Blocks:
    """Numbers in blocks: the items from `ends[k]` up to `ends[k + 1]`, from block `at` on, each times three."""

    ends: wp.array[int]
    at: int
    place: int


@wp.func
def next_block(blocks: wp.ref[Blocks], run: wp.ref[wp.vec2i]) -> bool:
    if blocks.at + 1 >= len(blocks.ends):
        return False
    run = wp.vec2i(blocks.ends[blocks.at], blocks.ends[blocks.at + 1])
    blocks.at += 2
    return True


@wp.func
def item_of(blocks: Blocks, place: int) -> int:
    return 3 * place


@wp.func_next(Blocks, runs=(next_block, item_of))
@wp.func
def next_number(blocks: wp.ref[Blocks], item: wp.ref[int]) -> bool:
    run = wp.vec2i(0, 0)
    found = bool(True)
    if blocks.place < 0:
        found = next_block(blocks, run)
        blocks.place = run[0] if found else -1
    while found and blocks.place >= blocks.ends[blocks.at - 1]:
        found = next_block(blocks, run)
        blocks.place = run[0]
    if found:
        item = 3 * blocks.place
        blocks.place += 1
    return found


@wp.func
def first_beyond(blocks: Blocks, least: int):
    for k in blocks:
        if k > least:
            return k
    return -1


@wp.kernel
def all_ways(ends: wp.array[int], out: wp.array2d[int]):
    i = wp.tid()
    blocks = Blocks(ends, i, -1)
    for k in blocks:
        out[i, 0] += 100 * out[i, 0] + k
    k = int(0)
    by_hand = Blocks(ends, i, -1)
    while next_number(by_hand, k):
        out[i, 1] += 100 * out[i, 1] + k
    for k in blocks:
        if k > 20:
            break
        out[i, 2] += k
    for k in blocks:
        if k % 2 == 0:
            continue
        for m in blocks:
            out[i, 3] += k * m
    out[i, 4] = first_beyond(blocks, 10)


def test_a_struct_may_advance_by_runs():
    ends = np.array([0, 2, 2, 5, 6, 6, 7, 12], np.int32)
    expected = np.zeros((7, 5), np.int32)
    for i in range(7):
        items = [3 * p for at in range(i, 7, 2) for p in range(ends[at], ends[at + 1])]
        for k in items:
            expected[i, :2] += np.int32(100) * expected[i, :2] + np.int32(k)
        expected[i, 2] = sum(itertools.takewhile(lambda k: k <= 20, items))
        expected[i, 3] = sum(k * m for k in items if k % 2 for m in items)
        expected[i, 4] = next((k for k in items if k > 10), -1)
    with np.errstate(over="ignore"):
        (out,) = wp.jax_kernel(all_ways, in_out_argnames=["out"])(ends, jnp.zeros((7, 5), jnp.int32), launch_dims=7)
    np.testing.assert_array_equal(out, expected)
    stepped = np.zeros((7, 5), np.int32)
    all_ways.interpret(ends, stepped, dim=7)
    np.testing.assert_array_equal(stepped, expected)


@wp.struct
class Still:
    x: float


def test_what_cannot_advance_is_refused():
    scope = define(
        """
@wp.kernel
def k(y: wp.array[float]):
    for i in Still(1.0):
        y[0] = 1.0
""",
        Still=Still,
    )
    with pytest.raises(KernelError, match="got Still") as caught:
        scope["k"].ir()
    assert caught.value.hint == "say how it advances: @func_next(Still) above a @func"


def test_reversed_and_zip_of_a_struct_are_refused():
    for text, message in (("reversed", "reversed: Chain goes forward only"), ("enumerate", "known before the kernel")):
        scope = define(
            f"""
@wp.kernel
def k(after: wp.array[int], y: wp.array[float]):
    for i in {text}(Chain(after, 0)):
        y[0] = 1.0
""",
            Chain=Chain,
        )
        with pytest.raises(KernelTypeError, match=message):
            scope["k"].ir()


def test_functions_of_another_signature_are_refused():
    @wp.func
    def without_references(s: Still, x: int) -> bool:
        return False

    @wp.func
    def of_another(s: wp.ref[Chain], x: wp.ref[int]) -> bool:
        return False

    @wp.func
    def of_no_type(s: wp.ref[Still], x: wp.ref[Any]) -> bool:
        return False

    @wp.func
    def of_more(s: wp.ref[Still], x: wp.ref[int], y: float) -> bool:
        return False

    @wp.func
    def answering(s: wp.ref[Still], x: wp.ref[int]) -> int:
        return 0

    for function in (without_references, of_another, of_no_type, of_more, answering):
        with pytest.raises(KernelTypeError, match="cannot advance Still: its signature is"):
            wp.func_next(Still)(function)
    with pytest.raises(KernelTypeError, match="expected a function made by @func, got function"):
        wp.func_next(Still)(lambda s, x: False)
    with pytest.raises(KernelTypeError, match="expected a struct"):
        wp.func_next(int)
