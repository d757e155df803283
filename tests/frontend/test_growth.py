"""Kernels that functions and unrolled loops make too large are refused, with the line, before most of them is made."""

import sys

import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp.errors import KernelTypeError
from jaxwarp.frontend import growth
from jaxwarp.passes.pipeline import prepare


@wp.func
def base(x: float):
    return wp.sin(x) * 0.7 + x


def doubling(inner, shift):
    @wp.func
    def level(x: float):
        return inner(x) * 0.5 + inner(x + shift) * 0.5

    return level


def doubling_behind_a_test(inner, shift):
    @wp.func
    def level(x: float):
        y = x
        if x > shift:
            y = inner(x) * 0.5 + inner(x + shift) * 0.5
        return y

    return level


def choosing(inner, _):
    """Its text calls the one below three times; one of them is left."""

    @wp.func
    def level(x: float):
        if type(x) == wp.float32:  # noqa: E721
            return inner(x) * 0.5
        return inner(x) + inner(x) * 2.0

    return level


def chain(depth, level=doubling):
    top = base
    for d in range(depth):
        top = level(top, float(d))

    @wp.kernel
    def k(x: wp.array[float], o: wp.array[float]):
        i = wp.tid()
        o[i] = top(x[i])

    return k


def work(kernel):
    """Python calls until a kernel is refused."""
    count = 0

    def note(*_):
        nonlocal count
        count += 1

    sys.setprofile(note)
    try:
        with pytest.raises(KernelTypeError, match="too large"):
            kernel.ir()
    finally:
        sys.setprofile(None)
    return count


def test_functions_of_functions_are_refused_at_once():
    """Sixty levels, 2 ** 60 calls, after little more work than sixteen."""
    work(chain(16))
    few, many = work(chain(16)), work(chain(60))
    assert many < 3 * few


def test_the_error_names_the_line_the_calls_and_what_to_do():
    with pytest.raises(KernelTypeError) as caught:
        chain(20).ir()
    text = str(caught.value)
    assert "k is too large" in text
    assert "300,000 are the most" in text
    assert "return inner(x) * 0.5 + inner(x + shift) * 0.5" in text
    assert "o[i] = top(x[i])" in text
    assert text.count("called from") > 5
    assert "hint: call each function once" in text
    made = int(text.split("which makes ")[1].partition(" ")[0].replace(",", ""))
    assert made > 300_000


def test_what_no_estimate_sees_is_counted(monkeypatch):
    """Calls under a condition may not be lowered at all, so they are no part of estimates."""
    monkeypatch.setattr(growth, "MOST", 3000)
    with pytest.raises(KernelTypeError, match="too large"):
        chain(30, doubling_behind_a_test).ir()


def test_calls_that_are_left_out_do_not_count():
    kernel = chain(40, choosing).ir()
    assert len(kernel.body.all_ops) < 500


def test_unrolled_loops_are_counted(monkeypatch):
    monkeypatch.setattr(growth, "MOST", 20_000)

    @wp.kernel
    def k(x: wp.array[float], o: wp.array[float]):
        i = wp.tid()
        v = x[i]
        for a in range(wp.static(500)):
            for b in range(wp.static(500)):
                v = v * wp.static(float(a)) + wp.static(float(b))
        o[i] = v

    with pytest.raises(KernelTypeError, match="unrolled loops") as caught:
        k.ir()
    assert "k is too large" in str(caught.value)


def test_what_is_written_has_no_bound(monkeypatch):
    """Statements of the kernel's own, and a function that is called in few places."""
    monkeypatch.setattr(growth, "MOST", 40)
    from test_costs import generated

    assert len(generated.straight(2000).ir().body.all_ops) >= 2000
    with pytest.raises(KernelTypeError, match="too large"):
        generated.calls(400).ir()


def test_shallow_chains_compile():
    kernel = chain(5)
    x = np.linspace(-1, 1, 33, dtype=np.float32)

    def reference(x, depth):
        if depth == 0:
            return np.sin(x) * 0.7 + x
        return reference(x, depth - 1) * 0.5 + reference(x + depth - 1, depth - 1) * 0.5

    (out,) = wp.jax_kernel(kernel)(x)
    assert np.allclose(out, reference(x.astype(np.float64), 5), atol=1e-5)
    assert prepare(kernel.ir())
