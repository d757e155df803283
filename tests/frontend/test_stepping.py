"""`kernel.interpret`: Python runs the kernel's function, with the kernel's arithmetic; debuggers step through it."""

from __future__ import annotations

import io
import pdb
import re
import sys
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp.errors import KernelNameError, KernelTypeError, KernelValueError, OutOfRangeError

SEEN: list[Any] = []


@wp.func
def clipped(a: wp.array[float], i: int):
    if i >= len(a):
        return a[len(a) - 1]
    return a[i]


@wp.kernel
def walk(x: wp.array[float], count: int, v: wp.array[wp.vec2], y: wp.array[float]):
    i = wp.tid()
    total = float(0.0)  # noqa: UP018
    power = 1
    for j in range(count):
        if j == 3:
            break
        total += x[i] * float(j)
        power = power * 3
    SEEN.append((i, total, power))
    part = v[i]
    part.x = total
    v[i] = 2.0 * part
    y[i] += clipped(x, i + 1) + float(power / 2)


def arguments():
    return [np.arange(4, dtype=np.float32), 7, np.ones((4, 2), np.float32), np.zeros(4, np.float32)]


@pytest.fixture(autouse=True)
def _nothing_seen():
    SEEN.clear()


def test_calls_of_python_are_made_and_see_the_variables():
    """Which are NumPy's scalars, of the kernel's types; the arrays are changed in place."""
    x, count, v, y = arguments()
    walk.interpret(x, count, v, y)
    assert [(i, 3.0 * i, 27) for i in range(4)] == SEEN
    assert [type(value) for value in SEEN[0]] == [np.int32, np.float32, np.int32]
    np.testing.assert_array_equal(y, [14, 15, 16, 16])
    np.testing.assert_array_equal(v, [[6 * i, 2] for i in range(4)])


@pytest.mark.parametrize(("threads", "expected"), [(2, [2]), ((1,), [1]), ([3, (0,)], [3, 0]), (None, [0, 1, 2, 3])])
def test_threads_are_chosen(threads, expected):
    walk.interpret(*arguments(), threads=threads)
    assert [i for i, *_ in SEEN] == expected


@pytest.mark.parametrize("threads", [4, -1, (0, 0), "all", [1, 1.0]])
def test_no_such_thread(threads):
    with pytest.raises(KernelValueError, match=r"is no thread of a launch of \(4,\)"):
        walk.interpret(*arguments(), threads=threads)


@wp.kernel
def transposed(a: wp.array2d[float], b: wp.array2d[float]):
    i, j = wp.tid()
    SEEN.append((int(i), int(j)))
    b[j, i] = a[i, j]


def test_launches_of_two_axes():
    a, b = np.arange(6, dtype=np.float32).reshape(2, 3), wp.zeros((3, 2), dtype=float)
    transposed.interpret(a, b=b)
    np.testing.assert_array_equal(b.numpy(), a.T)
    SEEN.clear()
    transposed.interpret(a, b, dim=(2, 2), threads=(1, 1))
    assert SEEN == [(1, 1)]


def test_an_index_out_of_range_has_its_line_and_thread():
    x, count, v, _ = arguments()
    with pytest.raises(OutOfRangeError, match=r"walk: thread \(3,\): index 3 of axis 0 of array y is out") as caught:
        walk.interpret(x, count, v, np.zeros(3, np.float32))
    assert "y[i] += clipped(x, i + 1)" in str(caught.value)
    assert [i for i, *_ in SEEN] == [0, 1, 2, 3]


@wp.func
def beyond(a: wp.array[float], i: int):
    return a[i + 10]


@wp.kernel
def calls_beyond(a: wp.array[float]):
    a[0] = beyond(a, wp.tid())


def test_an_error_in_a_function_names_its_caller():
    with pytest.raises(OutOfRangeError, match=r"in beyond(.|\n)*called from(.|\n)*in calls_beyond"):
        calls_beyond.interpret(np.zeros(2, np.float32))


def stepped(kernel, commands, *args):
    """What pdb prints for commands, from the first `debugger.set_trace()` on."""
    out = io.StringIO()
    debugger.__init__(stdin=io.StringIO("\n".join(commands) + "\n"), stdout=out, readrc=False, nosigint=True)
    debugger.use_rawinput = False
    kernel.interpret(*args)
    return out.getvalue()


debugger = pdb.Pdb(stdin=io.StringIO(), stdout=io.StringIO(), readrc=False, nosigint=True)


@wp.kernel
def debugged(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    debugger.set_trace()
    total = 10.0
    for k in range(2):
        if k == 1:
            total += x[i]
    row = wp.vec2(total, 1.0)
    y[i] = total + row.y


def test_pdb_steps_through_the_lines_of_the_function():
    x, y = np.array([0.5, 1.5], np.float32), np.zeros(2, np.float32)
    stops_at_call = int(sys.version_info >= (3, 13))  # from 3.13 on set_trace() stops at its own line first
    commands = [*["n"] * (8 + stops_at_call), "p total, row.tolist(), x.tolist()", "c", "p i", "c"]
    text = stepped(debugged, commands, x, y)
    first = debugged.func.__code__.co_firstlineno
    lines = [int(n) - first for n in re.findall(r"test_stepping\.py\((\d+)\)debugged", text)]
    # From the line after the call: the loop, twice through its body, then what follows.
    assert lines[stops_at_call:][:9] == [4, 5, 6, 5, 6, 7, 5, 8, 9]
    assert "-> y[i] = total + row.y\n(Pdb) (np.float32(10.5), [10.5, 1.0], [0.5, 1.5])" in text
    assert "np.int32(1)" in text
    np.testing.assert_array_equal(y, [11.5, 12.5])


@wp.kernel
def mixed(a: wp.array[wp.float64], flags: wp.array[int], out: wp.array[wp.float64]):
    i = wp.tid()
    if flags[i] > 0:  # noqa: SIM108
        x = a[i]
    else:
        x = 3
    out[i] = x / wp.float64(2.0)
    n = 2147483647
    while flags[i] == 0 and n > 0:
        n = n + 1
    if flags[i] > 0:
        n = 1
    out[i] += wp.float64(n / 2)


def test_literals_take_the_type_that_the_variable_has():
    """3 is a float64 after the condition; n an int32 in the loop, where it wraps."""
    a, out = np.array([5.0, 5.0]), np.zeros(2)
    mixed.interpret(a, np.array([1, 0], np.int32), out)
    np.testing.assert_array_equal(out, [2.5, 1.5 - 2**30])


def test_what_is_refused():
    x, count, v, y = arguments()
    with pytest.raises(KernelTypeError, match=r"'y' is written by the kernel: .* got a JAX array"):
        walk.interpret(x, count, v, jnp.asarray(y))
    y.flags.writeable = False
    with pytest.raises(KernelTypeError, match="expected an array that may be written"):
        walk.interpret(x, count, v, y)
    with pytest.raises(KernelTypeError, match="argument 'x': expected float32 of shape"):
        walk.interpret(x.astype(float), count, v, arguments()[3])
    with pytest.raises(KernelTypeError):
        walk.interpret(x, count, v)

    @wp.kernel
    def without_array(n: int):
        SEEN.append(n)

    with pytest.raises(KernelTypeError, match="no array input to take the launch dimensions from"):
        without_array.interpret(3)
    without_array.interpret(3, dim=2)
    assert SEEN == [3, 3]


def test_a_value_of_python_is_none_of_the_kernels():
    """What Python's functions return cannot be computed with."""

    @wp.kernel
    def reads(a: wp.array[float]):
        a[0] = input()

    with pytest.raises((KernelTypeError, KernelNameError), match="input"):
        reads.interpret(np.zeros(1, np.float32))


@wp.kernel
def parts(x: wp.array[float], y: wp.array[float]):
    head, back, none = x[:2], x[3:0:-2], x[2:0]
    SEEN.append((head, back, none))
    y[0] = head[0] + back[0]


def test_parts_of_arrays():
    y = np.zeros(1, np.float32)
    parts.interpret(np.arange(4, dtype=np.float32), y, dim=1)
    assert y[0] == 3.0
    assert [list(part) for part in SEEN[0]] == [[0.0, 1.0], [3.0, 1.0], []]
