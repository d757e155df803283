"""The steps of a launch outside of JAX are those that `arrays/launching.py` names, in order."""

from __future__ import annotations

import inspect
import re

import numpy as np
import pytest
from counting import profiled

import jaxwarp as wp
from jaxwarp.arrays import eager, launching, recent, repeated
from jaxwarp.launches import code, native_launch, on_memory

MODULES = {m.__file__: m for m in (launching, recent, repeated, eager, code, native_launch, on_memory)}


def steps(run) -> list[str]:
    """The functions of these modules that `run` calls, in order, if the module names them."""
    seen: list[str] = []

    def note(frame, event, _):
        if event == "call" and frame.f_code.co_filename in MODULES:
            seen.append(frame.f_code.co_qualname)

    with profiled(note):
        run()
    names = written()
    return [name for name in seen if name in names]


def written() -> list[str]:
    """What the module names, in its order."""
    text = launching.__doc__ or ""
    names = [name for name in re.findall(r"`([\w.]+)`", text) if not name.endswith((".py", ".cc"))]
    return list(dict.fromkeys(names))


@pytest.mark.release_mode("in debug mode nothing is kept")
def test_a_launch_takes_the_steps_that_are_written():
    @wp.kernel
    def tripled(x: wp.array[float], y: wp.array[float]):
        i = wp.tid()
        y[i] = 3.0 * x[i]

    x, y, z = (wp.ones(7, dtype=float) for _ in range(3))
    ways = [steps(lambda out=out: wp.launch(tripled, 7, [x], [out])) for out in (y, y, z, z)]
    asked = ["run_launch", "_run_given", "asked"]
    path = [*asked, "launch_at_once", "prepared_launch", "_signature"]
    first, again, others, others_again = ([n for i, n in enumerate(way) if n not in way[:i]] for way in ways)
    assert first == [*path, "check", "_remember", "code_of", "Repeated.operands", "Repeated.run", "NativeCode.run"]
    assert again == others_again == [*asked, "Recent.run", "Repeated.run_ready"]
    assert others == [*path, "Repeated.operands", "Repeated.run", "NativeCode.run"]
    for way in (first, again):
        assert [name for name in written() if name in way] == way


def test_what_is_written_is_there():
    here = {name for module in MODULES.values() for name in vars(module)}
    names = {name.partition(".")[0] for name in written()} - {"launch", "jaxwarp_outside_alone"}
    assert names <= here
    assert inspect.isfunction(wp.launch)


@wp.kernel
def asserted(x: wp.array[float], least: float, y: wp.array[float]):
    i = wp.tid()
    assert x[i] >= least, "too small"
    y[i] = x[i] * 2.0


@wp.kernel
def perhaps(x: wp.array[float], weights: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    if weights:
        y[i] = x[i] * weights[i]
    else:
        y[i] = x[i]


@pytest.mark.release_mode("in debug mode nothing is kept")
def test_assertions_are_looked_at_in_every_launch_and_arguments_once(monkeypatch):
    checks, real = [], launching.check
    monkeypatch.setattr(launching, "check", lambda *given: checks.append(given[1].name) or real(*given))
    x, y = wp.array(np.arange(5, dtype=np.float32)), wp.zeros(5, dtype=float)
    for least in (0.0, -1.0, -2.0):
        wp.launch(asserted, 5, [x, least, y])
    np.testing.assert_array_equal(y.numpy(), 2 * x.numpy())
    for _ in range(2):
        with pytest.raises(wp.CheckError, match=r"thread \(0,\).*too small"):
            wp.launch(asserted, 5, [x, 0.5, y])
    x.numpy()[:3] = 7.0
    with pytest.raises(wp.CheckError, match=r"thread \(3,\).*too small"):
        wp.launch(asserted, 5, [x, 3.5, y])
    wp.launch(asserted, 5, [x, 3.0, y])
    np.testing.assert_array_equal(y.numpy(), 2 * x.numpy())
    # Overlapping memory and gradients as of any launch.
    with pytest.raises(wp.KernelError, match="shares memory"):
        wp.launch(asserted, 4, [x[:4], 0.0, x[1:]])
    assert checks == ["asserted", "asserted"]
    a = wp.array(np.ones(5, np.float32), requires_grad=True)
    b = wp.zeros(5, dtype=float, requires_grad=True)
    for _ in range(2):
        a.grad.zero_()
        with wp.Tape() as tape:
            wp.launch(asserted, 5, [a, 0.0, b])
        tape.backward(grads={b: wp.ones(5, dtype=float)})
        np.testing.assert_array_equal(a.grad.numpy(), np.full(5, 2.0))


@pytest.mark.release_mode("in debug mode nothing is kept")
def test_a_kernel_with_an_array_that_may_be_absent_is_looked_at_once(monkeypatch):
    checks, real = [], launching.check
    monkeypatch.setattr(launching, "check", lambda *given: checks.append(given[1].name) or real(*given))
    x, y = wp.ones(3, dtype=float), wp.zeros(3, dtype=float)
    for weights in (None, x, None, x, None):
        wp.launch(perhaps, 3, [x, weights, y])
    np.testing.assert_array_equal(y.numpy(), np.ones(3))
    assert len(checks) == 2
