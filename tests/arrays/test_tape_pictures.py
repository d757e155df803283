"""`Tape.visualize`, scopes and `get_adjoint`: read back from the text."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp.errors import KernelTypeError, KernelValueError


@wp.struct
class State:
    x: wp.array[float]
    k: float


@wp.struct
class Particle:
    x: wp.vec3
    m: float


@wp.kernel
def double(x: wp.array[float], longest: wp.array[float]):
    i = wp.tid()
    longest[i] = x[i] * 2.0


@wp.kernel
def shift(s: State, out: wp.array[float]):
    i = wp.tid()
    out[i] = s.x[i] + s.k


@wp.kernel
def weigh(p: wp.array[Particle], loss: wp.array[float]):
    i = wp.tid()
    wp.atomic_add(loss, 0, p[i].m * p[i].x[0])


class Picture:
    """Nodes, edges and frames of a text."""

    def __init__(self, text: str):
        assert text.count("{") == text.count("}")
        self.text, self.nodes, self.frames, within = text, {}, {}, []
        for line in text.splitlines():
            if line.strip().startswith("subgraph"):
                within.append("")
            elif found := re.match(r' *label="(.*)"; graph', line):
                within[-1] = found[1]
            elif line.strip() == "}" and within:
                within.pop()
            elif found := re.match(r' *(\w+) \[.*?label="((?:[^"\\]|\\.)*)"', line):
                self.nodes[found[1]] = found[2]
                self.frames[found[2]] = tuple(within)
        edges = re.findall(r'^  (\w+) -> (\w+)(?: \[label="(.*)"\])?;$', text, re.MULTILINE)
        self.edges = {(self.nodes[a], self.nodes[b], label) for a, b, label in edges}


def zeros(n: int = 4, **options: Any) -> Any:
    return wp.zeros(n, dtype=float, **options)


def test_what_was_recorded(tmp_path):
    x, y, z, loss = zeros(requires_grad=True), zeros(), zeros(), zeros(1, requires_grad=True)
    p = wp.zeros(4, dtype=Particle, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(double, 4, [x], [y])
        wp.launch(shift, 4, [State(y, 1.0)], [z])
        wp.copy(x, z)
        z.fill_(1.0)
        wp.launch(weigh, 4, [p], [loss])
    tape.record_func(lambda: None, [x])
    text = tape.visualize(tmp_path / "tape.dot", array_labels={z: 'the "last"', p: "all"})
    assert (tmp_path / "tape.dot").read_text() == text
    seen = Picture(text)
    last, name = r"the \"last\"", "test_what_was_recorded.<locals>.<lambda>"
    assert seen.edges == {
        ("x", "double", "x"),
        ("double", "longest", "longest"),
        ("longest", "shift", "s.x"),
        ("shift", last, "out"),
        (last, "copy", ""),
        ("copy", "x", ""),
        ("fill", last, ""),
        ("all.x", "weigh", "p.x"),
        ("all.m", "weigh", "p.m"),
        ("loss", "weigh", "loss"),
        ("weigh", "loss", "loss"),
        ("x", name, ""),
    }
    with_gradient = {n for node, n in seen.nodes.items() if re.search(rf"{node} .*with a gradient", text)}
    assert with_gradient == {"x", "all.x", "all.m", "loss"}
    assert "tooltip=\"double, threads: (4,)\"" in text


def test_how_it_is_drawn():
    x, y, other, unused = zeros(), zeros(), zeros(), zeros()
    with wp.Tape() as tape:
        for _ in range(3):
            wp.launch(double, 4, [x], [y])
            wp.launch(shift, 4, [State(y, 1.0)], [other])
        wp.launch(double, 4, [x], [y])
    folded = Picture(tape.visualize())
    assert sorted(folded.nodes.values()) == ["double", "double", "longest", "out", "shift", "x"]
    assert folded.frames["shift"] == ("3 times",)
    assert len(Picture(tape.visualize(simplify_graph=False)).nodes) == 3 + 7
    assert Picture(tape.visualize(choose_longest_node_name=False)).edges >= {("longest", "shift", "s.x")}
    short = Picture(tape.visualize(hide_readonly_arrays=True))
    assert "x" not in short.nodes.values()
    tracked = Picture(
        tape.visualize(
            hide_readonly_arrays=True,
            track_inputs=[x],
            track_input_names=["start"],
            track_outputs=[unused, other],
            track_output_names=["nobody's"],
        )
    )
    assert sorted(tracked.nodes.values()) == ["double", "double", "longest", "nobody's", "out", "shift", "start"]
    assert "rankdir=TB;" in tape.visualize(graph_direction="TB")


def test_the_longest_of_what_repeats():
    arrays = [zeros() for _ in range(2)]
    with wp.Tape() as tape:
        for name in "aabaabaabc":  # aab three times, then c
            if name == "a":
                wp.launch(double, 4, arrays[:1], arrays[1:])
            elif name == "b":
                wp.launch(shift, 4, [State(arrays[0], 1.0)], arrays[1:])
            else:
                wp.copy(*arrays)
    seen = Picture(tape.visualize())
    assert (seen.frames["shift"], seen.frames["double"], seen.frames["copy"]) == (("3 times",), ("3 times",), ())
    assert list(seen.nodes.values()).count("double") == 2


def test_scopes(capsys):
    x, y = zeros(), zeros()
    with wp.Tape() as tape:
        with wp.ScopedTimer("step", print=False), wp.ScopedTimer("inner", active=False):
            wp.launch(double, 4, [x], [y])
        with wp.ScopedTimer("quiet", print=False, skip_tape=True):
            wp.launch(shift, 4, [State(y, 1.0)], [x])
        tape.record_scope_begin("nothing")
        tape.record_scope_end()
        tape.record_scope_begin("kept", {"type": "test"})
        tape.record_scope_end(remove_scope_if_empty=False)
        tape.record_scope_begin("open")
        wp.copy(x, y)
    assert [(m.at, m.name) for m in tape.scopes] == [
        (0, "step"),
        (0, "inner"),
        (1, None),
        (1, None),
        (2, "kept"),
        (2, None),
        (2, "open"),
    ]
    assert tape.scopes[4].metadata == {"type": "test"}
    seen = Picture(tape.visualize())
    assert (seen.frames["double"], seen.frames["shift"], seen.frames["copy"]) == (("step", "inner"), (), ("open",))
    assert 'label="kept"' in seen.text
    assert "subgraph" not in tape.visualize(ignore_graph_scopes=True)
    tape.record_scope_end()
    with pytest.raises(KernelValueError, match="record_scope_end: no scope is open"):
        tape.record_scope_end()
    tape.reset()
    assert tape.scopes == []


def test_scopes_that_repeat():
    x, y = zeros(), zeros()
    with wp.Tape() as tape:
        for _ in range(4):
            with wp.ScopedTimer("step", print=False):
                wp.launch(double, 4, [x], [y])
                wp.launch(double, 4, [y], [x])
    seen = Picture(tape.visualize())
    assert seen.frames["double"] == ("4 times", "step", "2 times")


def test_scopes_of_a_tape_in_a_capture():
    x, y = zeros(requires_grad=True), zeros(requires_grad=True)
    tape = wp.Tape()
    with wp.ScopedCapture() as capture:
        with tape, wp.ScopedTimer("step", print=False):
            wp.launch(double, 4, [x], [y])
        tape.backward(grads={y: wp.ones_like(y)})
    assert tape.scopes == []
    for _ in range(2):
        wp.capture_launch(capture.graph)
        assert [(m.at, m.name) for m in tape.scopes] == [(0, "step"), (1, None)]
        assert Picture(tape.visualize()).frames["double"] == ("step",)


def test_gradients_of_arguments():
    x, y = zeros(requires_grad=True), zeros()
    tape = wp.Tape()
    assert tape.get_adjoint(x) is x.grad
    assert tape.gradients == {x: x.grad}
    assert tape.get_adjoint(y) is None
    assert tape.get_adjoint(3.0) is None
    adjoint = tape.get_adjoint(State(x, 2.0))
    assert isinstance(adjoint, State)
    assert adjoint.x is x.grad
    assert adjoint.k == 2.0
    x.grad.fill_(1.0)
    tape.zero()
    np.testing.assert_array_equal(x.grad.numpy(), np.zeros(4))


def test_refusals():
    tape, x = wp.Tape(), zeros()
    wrong: Any = np.zeros(3)
    options: Any
    for options, error, text in (
        ({"simplify": True}, KernelTypeError, "Tape.visualize: there is no argument 'simplify'"),
        ({"graph_direction": "left"}, KernelValueError, "graph_direction: expected one of LR, RL, TB, BT, got 'left'"),
        ({"track_inputs": [wrong]}, KernelTypeError, "track_inputs: expected arrays outside of JAX, got ndarray"),
        ({"array_labels": {3: "x"}}, KernelTypeError, "array_labels: expected arrays outside of JAX, got int"),
        ({"track_outputs": [x], "track_output_names": ["a", "b"]}, KernelValueError, "expected at most 1 names"),
    ):
        with pytest.raises(error, match=text):
            tape.visualize(**options)
    assert Picture(tape.visualize()).nodes == {}
