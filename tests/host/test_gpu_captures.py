"""Captures with loops and branches on a real GPU: one graph of the driver, with the results of the CPU."""

import numpy as np
import pytest
from native import conditional_scenarios as scenarios

import jaxwarp as wp
from jaxwarp.memory.driver import Driver

pytestmark = pytest.mark.gpu


@pytest.fixture
def called(monkeypatch):
    """The names of what is asked of the driver."""
    names, call = [], Driver.call

    def noted(self, name, *arguments, what=""):
        names.append(name)
        return call(self, name, *arguments, what=what)

    monkeypatch.setattr(Driver, "call", noted)
    return names


def queued(names):
    """What is left without making a context current."""
    return [name for name in names if not name.startswith("Ctx")]


@pytest.mark.parametrize("step", scenarios.STEPS)
def test_loops_and_branches(step, called):
    program, graph = scenarios.captured(step)
    other = scenarios.Program("cpu")
    for k in (0, 1, 2, 5, 0, 3):
        for one in (program, other):
            one.start(k)
        wp.synchronize()
        called.clear()
        wp.capture_launch(graph)
        names = queued(called)
        getattr(other, step)()
        for found, expected in zip(program.results(), other.results(), strict=True):
            np.testing.assert_array_equal(found, expected, err_msg=f"{step}, {k}")
    assert names == ["GraphLaunch"]


def test_graphs_as_bodies():
    program, other = scenarios.Program("cuda:0"), scenarios.Program("cpu")
    with wp.ScopedCapture("cuda:0") as body:
        program.step(0.5)
    with wp.ScopedCapture("cuda:0") as capture:
        wp.capture_while(program.n, body.graph)
        wp.capture_if(program.n, None, body.graph)
    for k in (3, 1, 4):
        program.start(k), other.start(k)
        wp.capture_launch(capture.graph)
        other.loop()
        other.step(0.5)
        np.testing.assert_array_equal(program.x.numpy(), other.x.numpy())


def test_a_loop_of_many_rounds_is_one_call(called):
    program = scenarios.Program("cuda:0")
    with wp.ScopedCapture("cuda:0") as capture:
        program.loop()
    for _ in range(3):
        program.n.fill_(20_000)
        called.clear()
        wp.capture_launch(capture.graph)
        names = queued(called)
        assert program.n.list() == [0]
        np.testing.assert_array_equal(program.x.numpy(), np.full(5, 2.0, np.float32))
    assert names == ["GraphLaunch"]


def test_structures_in_a_loop(called):
    """They are rebuilt in a body, by sorts whose memory is the graph's."""
    found = scenarios.structures_in_a_loop("cuda:0", is_captured=True)
    assert queued(called[-1:]) == ["GraphLaunch"]
    for one, other in zip(found(), scenarios.structures_in_a_loop("cuda:0", is_captured=False)(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_older_drivers(monkeypatch):
    """A driver of CUDA 12.3 has no such nodes: the host decides. One of 12.4 has one body a node."""
    call = Driver.call
    for version in (12030, 12040):
        monkeypatch.setattr(
            Driver,
            "call",
            lambda self, name, *given, what="", version=version: (
                version if name == "DriverGetVersion" else call(self, name, *given, what=what)
            ),
        )
        program, graph = scenarios.captured("branches")
        other = scenarios.Program("cpu")
        for k in (1, 2, 3):
            program.start(k), other.start(k)
            wp.capture_launch(graph)
            other.branches()
            for found, expected in zip(program.results(), other.results(), strict=True):
                np.testing.assert_array_equal(found, expected)
