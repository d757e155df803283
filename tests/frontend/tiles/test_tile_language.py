"""Tiles in the language: names, copies and changes in place, loops, branches, functions, tuples."""

from __future__ import annotations

import numpy as np
import pytest
from language import run
from tilekit import body_kernel, everywhere

from jaxwarp.errors import KernelError, KernelTypeError, KernelValueError

A = np.random.default_rng(5).random((3, 3)).astype(np.float32)
FUNCTIONS = """
@wp.func
def doubled(t: Any):
    t *= 2.0
    return t

@wp.func
def raised(t: Any):
    t += wp.tile_ones(shape=(3, 3), dtype=float)

@wp.func
def itself(t: Any):
    return t

@wp.func
def turned(t: Any):
    return wp.tile_transpose(t)

@wp.func
def chosen(t: wp.tile[float, 3, 3], n: int):
    if n == 0:
        return t
    elif n == 1:
        t = t * 3.0
    else:
        return wp.tile_view(wp.tile_transpose(t), offset=(0, 0), shape=(3, 3))
    return t * 5.0

@wp.func
def searched(t: wp.tile(dtype=Any, shape=(3, 3)), n: int):
    for q in range(n):
        if q == 2:
            return t * 7.0
        t = t + t
    return t

@wp.func
def size(t: wp.tile[float, 3, 3]):
    return 9.0

@wp.func
def size(t: wp.tile[float, 2, 3]):
    return 6.0

@wp.func
def pair(t: Any):
    return t * 2.0, wp.tile_transpose(t)
"""


def after(body: str, blocks: int = 1, on_host: bool = False) -> np.ndarray:
    """`out` after a kernel on t = A and one = 1, for each block; each body runs as all ways of `everywhere`."""
    k = body_kernel(
        "a: wp.array2d[float], out: wp.array3d[float]",
        "t = wp.tile_load(a, shape=(3, 3))\none = wp.tile_ones(shape=(3, 3), dtype=float)\n" + body,
        FUNCTIONS,
    )
    out = everywhere(k, A, np.zeros((blocks, 3, 3)), blocks=blocks, on_host=on_host)[1]
    return out[0] if blocks == 1 else out


STORE = "\nwp.tile_store(out[i], t)"


@pytest.mark.parametrize("change", ["u += one", "u -= one", "u[0, 0] = 5.0", "u *= 2.0", "raised(u)", "u[1] = u[0]"])
@pytest.mark.parametrize("name", ["u = t", "u = itself(t)", "u: Any = t", "u = v = t"])
def test_a_name_for_a_tile_is_a_copy(name, change):
    np.testing.assert_array_equal(after(f"{name}\n{change}{STORE}"), A)


def test_names_of_one_assignment_are_tiles_of_their_own():
    body = "u = v = t * 2.0\nu += one\nwp.tile_store(out[i], v)"
    np.testing.assert_array_equal(after(body), A * 2)


@pytest.mark.parametrize(
    ("view", "place"),
    [
        ("wp.tile_transpose(t)", np.s_[:]),
        ("turned(t)", np.s_[:]),
        ("t[1]", np.s_[1]),
        ("wp.tile_view(t, offset=(1, 1), shape=(2, 2))", np.s_[1:, 1:]),
        ("wp.tile_reshape(t, shape=(9,))", np.s_[:]),
        ("t[1:]", np.s_[1:]),
        ("t[:, 1]", np.s_[:, 1]),
        ("t[i - 1, ::2]", np.s_[2, ::2]),
        ("t[::-1, -2:][1:3, 1]", np.s_[1::-1, 2]),
        ("wp.tile_view(wp.tile_transpose(wp.tile_view(t, offset=(0, 1), shape=(3, 2))), offset=(1,))", np.s_[:, 2]),
    ],
)
def test_other_operators_make_a_new_tile(view, place):
    """As in Warp: += shows in what is seen through a view, *= does not."""
    for loop in ("", "for _q in range(1):\n    ", "for _q in range(i + 1):\n    "):
        np.testing.assert_array_equal(after(f"v = {view}\n{loop}v *= 2.0{STORE}"), A)
        np.testing.assert_array_equal(after(f"v = {view}\n{loop}t *= 2.0\n{loop}v += v{STORE}"), 2 * A)
    changed = A.copy()
    changed[place] *= 2
    np.testing.assert_array_equal(after(f"v = {view}\nv += v{STORE}"), changed)


def test_a_function_changes_what_it_is_given():
    np.testing.assert_array_equal(after(f"raised(t){STORE}", on_host=True), A + 1)
    np.testing.assert_array_equal(after(f"u = doubled(t){STORE}"), A)
    np.testing.assert_array_equal(after("u = doubled(t)\nwp.tile_store(out[i], u)"), 2 * A)


def test_what_a_function_returns_on_several_paths():
    body = "u = chosen(t, i)\nu += one\nwp.tile_store(out[i], u + t)"
    out = after(body, 3, on_host=True)
    np.testing.assert_allclose(out, [2 * A + 1, 16 * A + 1, A.T + 1 + A], rtol=1e-6)
    out = after("wp.tile_store(out[i], searched(t, i))", 5)
    np.testing.assert_allclose(out, [A, 2 * A, 4 * A, 28 * A, 28 * A], rtol=1e-6)


def test_overloads_by_shape():
    body = "u = wp.tile_view(t, offset=(1, 0), shape=(2, 3))\nwp.tile_store(out[i], one * size(t) + one / size(u))"
    np.testing.assert_allclose(after(body), np.full((3, 3), 9 + 1 / 6), rtol=1e-6)


def test_tuples_of_tiles():
    body = "u, v = pair(t)\np = (u, v)\nu, v = v, u\nq = p[0]\nq[1, 1] = 0.0\nwp.tile_store(out[i], u + v)"
    expected = A.T + 2 * A
    expected[1, 1] = A[1, 1]
    np.testing.assert_allclose(after(body), expected, rtol=1e-6)


CONTROL = {
    "while": "while wp.tile_sum(t)[0] > 1.0:\n    t = t * 0.5",
    "while with exits": """n = i
while True:
    n += 1
    if n > 6:
        break
    if n % 2 == 0:
        continue
    t = t * 2.0""",
    "nested": """for q in range(i + 3):
    for r in range(q):
        t = t + wp.tile_transpose(t)
        if r == 1:
            break
    t = t * 0.5""",
    "unrolled": "for q in range(3):\n    t = t * 2.0\n    if a[0, 0] > float(i) - 1.0:\n        break\n    t = t + one",
    "return in a loop": """for q in range(6):
    t = t * 2.0
    if q == i:
        wp.tile_store(out[i], t)
        return""",
    "exchange": "u = t * 3.0\nfor q in range(i + 2):\n    t, u = u, t\n    t += one\nt -= u",
    "exchange, unrolled": "u = t * 3.0\nfor q in range(3):\n    t, u = u, t\n    t += one\nt -= u",
    "turn": "for q in range(i + 2):\n    t = wp.tile_transpose(t)\n    t[0, 1] += 1.0",
    "previous": "x = t\nfor q in range(i + 2):\n    x = t\n    t += one\nt = t * x",
    "branches": """if i == 0:
    u = t * 2.0
elif i == 1:
    u = wp.tile_transpose(t)
else:
    u = t
u += one
t = u * t""",
    "early": "if i == 0:\n    wp.tile_store(out[i], t)\n    return\nelif i == 1:\n    t = t - one\nt += one",
    "a test in a branch": "u = t\nif i > 0:\n    if t[0, 0] > t[0, 1]:\n        u = one\n    u = u + t\nt = u",
}


def reference(name: str, i: int) -> np.ndarray:
    t, one = A.astype(np.float64), np.ones((3, 3))
    match name:
        case "while":
            while t.sum() > 1:
                t = t * 0.5
        case "while with exits":
            t = t * 2.0 ** len([n for n in range(i + 1, 7) if n % 2])
        case "nested":
            for q in range(i + 3):
                for _ in range(min(q, 2)):
                    t = t + t.T
                t = t * 0.5
        case "unrolled":
            t = t * 2 if t[0, 0] > i - 1 else ((t * 2 + 1) * 2 + 1) * 2 + 1
        case "return in a loop":
            t = t * 2.0 ** (i + 1)
        case "exchange" | "exchange, unrolled":
            u = 3 * t
            for _ in range(i + 2 if name == "exchange" else 3):
                t, u = u + 1, t
            t = t - u
        case "turn":
            for _ in range(i + 2):
                t = t.T.copy()
                t[0, 1] += 1
        case "previous":
            t = (t + i + 2) * (t + i + 1)
        case "branches":
            t = ([2 * t, t.T, t][min(i, 2)] + one) * t
        case "early":
            t = [t, t, t + 1][min(i, 2)]
        case "a test in a branch":
            t = t if i == 0 else 2 * t if t[0, 0] <= t[0, 1] else t + 1
        case _:
            raise AssertionError(name)
    return t


@pytest.mark.parametrize("name", CONTROL)
def test_control_flow(name):
    out = after(CONTROL[name] + STORE, 4, on_host=name in ("nested", "branches"))
    for i in range(4):
        np.testing.assert_allclose(out[i], reference(name, i), rtol=1e-5, err_msg=f"block {i}")


def test_a_view_that_a_branch_or_a_loop_chooses_is_a_copy():
    """In the compiled kernel as in Python that steps."""
    row = "wp.tile_view(t, offset=({}, 0), shape=(1, 3))"
    ones = "v += wp.tile_ones(shape=(1, 3), dtype=float)"
    branch = f"v = {row.format(0)}\nif i == 0:\n    v = {row.format(1)}\n{ones}\nwp.tile_store(out[i], t)"
    np.testing.assert_array_equal(after(branch), A)
    loop = f"v = {row.format(0)}\nfor q in range(i + 2):\n    v = {row.format('q')}\n{ones}\nwp.tile_store(out[i], t)"
    np.testing.assert_array_equal(after(loop), A)


def test_views_made_in_a_loop_change_the_tile():
    body = "for q in range(i + 3):\n    v = wp.tile_view(t, offset=(q, 0), shape=(1, 3))\n    v += v" + STORE
    np.testing.assert_array_equal(after(body), 2 * A)


def test_operands_that_overlap_what_is_changed():
    np.testing.assert_allclose(after(f"t += wp.tile_transpose(t){STORE}"), A + A.T)
    np.testing.assert_allclose(after(f"v = wp.tile_transpose(t)\nv -= t{STORE}"), (A.T - A).T)
    np.testing.assert_allclose(after(f"t += t[1, 1]{STORE}"), A + A[1, 1])
    np.testing.assert_allclose(after(f"t *= t[0, 0]{STORE}"), A * A[0, 0])
    np.testing.assert_allclose(after(f"t[0] = t[0] + t[1]\nt[1] += t[0]{STORE}"), [A[0] + A[1], A[0] + 2 * A[1], A[2]])
    shifted = A.copy()
    shifted[1:, 1:] = A[:2, :2]
    part = "wp.tile_view(t, offset=(0, 0), shape=(2, 2))"
    np.testing.assert_allclose(after(f"wp.tile_assign(t, {part}, offset=(1, 1)){STORE}"), shifted)
    np.testing.assert_allclose(after(f"wp.tile_matmul(t, wp.tile_transpose(t), t){STORE}"), A @ A.T + A, rtol=1e-6)
    exchanged = "x = t[0, 0]\nt[0, 0] = t[1, 1]\nt[1, 1] = x"
    assert after(exchanged + STORE)[1, 1] == A[0, 0]


BROADCAST = "b = wp.tile_transpose(wp.tile_broadcast(t[0], shape=(3, 3)))\n"


@pytest.mark.parametrize(
    "change", ["b += one", "wp.tile_assign(b, one)", "wp.tile_matmul(one, one, b)", "b[0] = one[0]", "raised(b)"]
)
def test_a_broadcast_tile_is_not_changed_as_a_whole(change):
    with pytest.raises(KernelTypeError, match="is broadcast: several of its elements are one"):
        after(f"{BROADCAST}{change}{STORE}")
    expected = A.copy()
    expected[0, 2] = 9
    np.testing.assert_array_equal(after(f"{BROADCAST}b[2, 0] = 9.0{STORE}"), expected)


EXTREME = [2**31 - 1, 2**31 - 3, -(2**31), -5, -4, -1, 18, 20]


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("offset", EXTREME)
def test_offsets_that_are_nearly_too_large_for_an_integer(offset, known):
    at = str(offset) if known else "at[0]"
    k = body_kernel(
        "a: wp.array[float], at: wp.array[int], out: wp.array[float], stored: wp.array[float]",
        f"t = wp.tile_load(a, shape=4, offset={at})\nwp.tile_store(out, t)\n"
        f"wp.tile_store(stored, wp.tile_ones(shape=4, dtype=float), offset={at})",
    )
    a = np.arange(1, 21, dtype=np.float32)
    inside = np.array([offset + j if 0 <= offset + j < 20 else -1 for j in range(4)])
    _, _, out, stored = everywhere(k, a, [offset], np.ones(4), np.zeros(20), on_host=not known and offset > 20)
    np.testing.assert_array_equal(out, np.where(inside < 0, 0, a[inside]))
    assert np.flatnonzero(stored).tolist() == inside[inside >= 0].tolist()


TYPED = [("wp.int8", 3), ("wp.uint8", 254), ("wp.uint32", 2**32 - 2), ("wp.int64", 2**32)]


@pytest.mark.parametrize(("dtype", "at"), TYPED)
def test_offsets_of_other_integer_types(dtype, at):
    k = body_kernel(
        f"a: wp.array[float], at: wp.array(dtype={dtype}), out: wp.array[float]",
        "wp.tile_store(out, wp.tile_load(a, shape=4, offset=at[0]))",
    )
    a = np.arange(1, 21, dtype=np.float32)
    expected = a[3:7] if at == 3 else np.zeros(4)
    np.testing.assert_array_equal(everywhere(k, a, [at], np.ones(4))[2], expected)


def test_negative_indices_at_run_time():
    body = "j = -1 - i\nt[j, j + 1 - 1] = 7.0\nt[j][0] += 1.0\nu = t[j - 1]\nu[0] = 2.0" + STORE
    expected = np.stack([A, A])
    for i in range(2):
        expected[i, -1 - i, -1 - i] = 7
        expected[i, -1 - i, 0] += 1
        expected[i, -2 - i, 0] = 2
    np.testing.assert_array_equal(after(body, 2), expected)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ("t[1:] = t[:2]", np.stack([A[0], A[0], A[1]])),
        ("t[::-1] = t", A[::-1]),
        ("t[:, 0] = t[2, :7]", np.column_stack([A[2], A[:, 1:]])),
        ("t[-9:, 1:2] += t[:, 2:]", np.column_stack([A[:, 0], A[:, 1] + A[:, 2], A[:, 2]])),
        ("t[0:2][1][2:] = one[0, :1]", np.array([A[0], [*A[1, :2], 1], A[2]])),
        (
            "t[1:, 1:] = wp.tile_matmul(t[:2, :2], t[1:, ::2])",
            np.block([[A[:1]], [A[1:, :1], A[:2, :2] @ A[1:, ::2]]]),
        ),
    ],
)
def test_slices(change, expected):
    np.testing.assert_allclose(after(change + STORE, on_host=True), expected, rtol=1e-6)


CHOICES = {
    "v = wp.where(i == 0, t, one)": lambda i: [A, np.ones((3, 3))][i],
    "v = t if i == 0 else one": lambda i: [A, np.ones((3, 3))][i],
    "v = t * 2.0 if i == 0 else wp.tile_transpose(t)": lambda i: [2 * A, A.T][i],
    "v = t if i == 0 else t": lambda _: A,
    "v = t if t.ndim == 2 else one": lambda _: A,
    "v = wp.where(t.ndim == 2, t, one)": lambda _: A,
    "v = (t if i == 0 else one) if i < 1 else wp.where(value_if_false=one, value_if_true=t, cond=i < 1)":
        lambda i: [A, np.ones((3, 3))][i],
    "v, w = (t, one) if i == 0 else (one, t)\nv = v + w * 2.0": lambda i: [A + 2, 1 + 2 * A][i],
    "if i == 0:\n    p = (t, (one, 1.0))\nelse:\n    p = (one, (t, 2.0))\nv = p[0] + p[1][0] * p[1][1]":
        lambda i: [A + 1, 1 + 2 * A][i],
}  # fmt: skip


@pytest.mark.parametrize("choice", CHOICES)
def test_tiles_that_conditions_choose_are_copies(choice):
    """What is chosen, and that the tiles it was chosen of stay as they are."""
    out = after(f"{choice}\nwp.tile_store(out[i], v)", 2, on_host=True)
    np.testing.assert_allclose(out, [CHOICES[choice](i) for i in range(2)], rtol=1e-6)
    out = after(f"{choice}\nv += v\nwp.tile_store(out[i], t + one)", 2)
    np.testing.assert_array_equal(out, [A + 1, A + 1])


REFUSED = {
    "t = t @ one": "@ of two tiles: its meaning is not clear",
    "t = t > one": "a comparison: expected a value, got tile.*tile_map",
    "if t:\n    t = one": "a condition must be a bool or a number, got tile",
    "t = t[i:]": "the bounds of a slice of a tile must be constant integers, got int32.*the shape of a tile",
    "t = t[:, 2:1]": "a slice of tile.* has no elements: its axis has the extent 3",
    "t = t[::0]": "Slice step cannot be zero",
    "t = t[0:1, 0:1, 0]": "has 2 axes, got 3 indices",
    "t[0:2] = 1.0": "a part of the tile is tile.*got the constant 1.0",
    "t[one, 1:]": "beside a tile of indices there is only :",
    "t = t if i else one[1:]": "the sides of a conditional expression are tile.* and tile",
    "t = wp.where(i > 0, t, a)": "where: the values are tile.* and the array a",
    "t = wp.where(i > 0, t)": "where: missing a required argument: 'value_if_false'",
    "t = wp.sin(t)": "sin: argument 1 is tile.*tile_map",
    "t[3, 0] = 1.0": "index 3 is out of range: this axis of the tile has the extent 3",
    "t[0, -4] = 1.0": "index -4 is out of range",
    "t = wp.tile_view(t, offset=(1, 1), shape=(3, 3))": "3 elements from 1 on are not in an axis of extent 3",
    "t = t + wp.tile_ones(shape=(3, 2), dtype=float)": "add: tiles of different shapes",
    "t = t + 1.5 * wp.vec2(1.0, 2.0)": "add",
    "t += wp.tile_ones(shape=(3, 3), dtype=int)": "float32.*int32",
    "t[0] = wp.tile_ones(shape=2, dtype=float)": "a part of the tile is",
    "if i == 0:\n    t = wp.tile_ones(shape=(2, 3), dtype=float)": "t is tile.*if the condition is true",
    "for q in range(i):\n    t = wp.tile_ones(shape=(2, 3), dtype=float)": "tile",
    "x = float(t)": "expected scalars, got tile",
    "t = t[0.5]": "index",
}


@pytest.mark.parametrize("body", REFUSED)
def test_refused(body):
    with pytest.raises((KernelTypeError, KernelValueError), match=f"(?s){REFUSED[body]}") as caught:
        after(body + STORE)
    first = body.splitlines()[0].split(" = ")[0].split("(")[0]
    assert isinstance(caught.value, KernelError)
    assert first[:3] in str(caught.value)


def test_two_kernels_of_one_text():
    first, second = (
        body_kernel("out: wp.array[float]", "wp.tile_store(out, wp.tile_full(shape=3, value=W, dtype=float))", W=w)
        for w in (2.0, 5.0)
    )
    assert run(first, 1, np.zeros(3))[0].tolist() == [2] * 3
    assert run(second, 1, np.zeros(3))[0].tolist() == [5] * 3


def test_names_like_those_of_arrays_that_tiles_lie_in():
    k = body_kernel(
        "tile: wp.array[float], t_2: wp.array[float], out: wp.array[float]",
        """
t = wp.tile_load(tile, shape=3)
t = t + wp.tile_load(t_2, shape=3)
tile_3 = t * 2.0
t = tile_3 + t
wp.tile_store(out, t * tile_3)
""",
    )
    x, y = np.array([1, 2, 3], np.float32), np.array([2, 3, 4], np.float32)
    np.testing.assert_array_equal(everywhere(k, x, y, np.zeros(3), on_host=True)[2], 6 * (x + y) ** 2)
