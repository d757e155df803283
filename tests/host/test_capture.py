"""Captures, and launches that are kept."""

import jax
import numpy as np
import pytest

import jaxwarp as wp


@wp.kernel
def grow(x: wp.array[float], by: float):
    i = wp.tid()
    x[i] = x[i] * by + 1.0


@wp.kernel
def scale(x: wp.array[float], by: float, y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i] * by


@wp.kernel
def count_down(n: wp.array[int]):
    n[0] -= 1


def test_nothing_happens_while_a_capture_is_made():
    x, y = wp.ones(3), wp.zeros(3)
    with wp.ScopedCapture(device="cpu", force_module_load=False) as capture:
        wp.launch(grow, dim=3, inputs=[x, 2.0])
        wp.copy(y, x)
        y[1:].fill_(9.0)
        y[2:].assign([5.0])
    assert (x.list(), y.list()) == ([1.0] * 3, [0.0] * 3)
    assert repr(capture.graph) == "Graph(launch of grow, copy, fill, assign)"
    wp.capture_launch(capture.graph)
    assert (x.list(), y.list()) == ([3.0] * 3, [3.0, 9.0, 5.0])
    x.fill_(10.0)
    wp.capture_launch(capture.graph)
    assert (x.list(), y.list()) == ([21.0] * 3, [21.0, 9.0, 5.0])


def test_what_is_kept_is_as_it_was():
    x, values, by = wp.zeros(2), np.array([1.0, 2.0], np.float32), [2.0]
    wp.capture_begin()
    x.assign(values)
    made = wp.zeros(2)
    wp.launch(grow, dim=2, inputs=[made, by[0]])
    graph = wp.capture_end()
    values[:] = 7.0
    for _ in range(2):
        wp.capture_launch(graph)
        assert (x.list(), made.list()) == ([1.0, 2.0], [1.0, 1.0])
    assert repr(graph) == "Graph(assign, fill, launch of grow)"


def test_branches_and_loops_are_decided_at_each_launch():
    n, x = wp.array([3], dtype=int), wp.zeros(1)

    def body(by: float):
        wp.launch(grow, dim=1, inputs=[x, by])
        wp.launch(count_down, dim=1, inputs=[n])

    with wp.ScopedCapture() as capture:
        wp.capture_while(n, body, by=2.0)
        wp.capture_if(n, on_true=lambda: x.fill_(-1.0), on_false=lambda: x[:1].fill_(50.0))
    assert x.list() == [0.0]
    wp.capture_launch(capture.graph)
    assert (n.list(), x.list()) == ([0], [50.0])
    n.fill_(2)
    x.zero_()
    wp.capture_while(n, body, by=2.0)
    assert x.list() == [3.0]
    assert wp.is_conditional_graph_supported()


def test_the_lines_of_a_capture():
    """A graph says what is run step by step, and which line asked for it."""
    n, x = wp.array([1], dtype=int), wp.zeros(1)
    with wp.ScopedCapture() as capture:
        wp.launch(grow, dim=1, inputs=[x, 1.0])
        wp.capture_while(n, lambda: wp.launch(count_down, dim=1, inputs=[n]))
    first, second = capture.graph.explain().splitlines()
    line = test_the_lines_of_a_capture.__code__.co_firstlineno + 4
    assert first == f"by itself: launch of grow ({__file__}:{line})"
    assert second == f"by itself: while ({__file__}:{line + 1})"
    assert wp.Graph().explain() == "nothing"


def test_a_graph_in_a_graph():
    x = wp.zeros(2)
    with wp.ScopedCapture() as inner:
        wp.launch(grow, dim=2, inputs=[x, 1.0])
    with wp.ScopedCapture() as outer:
        wp.capture_launch(inner.graph)
        wp.capture_launch(inner.graph)
    wp.capture_launch(outer.graph)
    assert x.list() == [2.0, 2.0]


def test_a_tape_records_the_launch_of_a_capture():
    x = wp.ones(2, requires_grad=True)
    y = wp.zeros(2, requires_grad=True)
    with wp.ScopedCapture() as capture:
        wp.copy(y, x)
        wp.launch(grow, dim=2, inputs=[y, 3.0])
    tape = wp.Tape()
    with tape:
        wp.capture_launch(capture.graph)
    tape.backward(grads={y: wp.ones(2)})
    assert x.grad.list() == [3.0, 3.0]


def test_what_cannot_be_captured():
    x = wp.ones(2, requires_grad=True)
    with wp.Tape(), pytest.raises(wp.KernelError, match="a tape is recording"):
        wp.capture_begin()
    with wp.ScopedCapture() as capture:
        for read in (x.numpy, x.list, lambda: np.asarray(x), lambda: float(x[0]), lambda: wp.array(x), x.to_jax):
            with pytest.raises(wp.KernelError, match="cannot be read while a capture is made"):
                read()
        with pytest.raises(wp.KernelError, match="another capture is being made"):
            wp.capture_begin()
        with pytest.raises(wp.KernelError, match="expected 2 arguments"):
            wp.launch(grow, dim=2, inputs=[x])
        with pytest.raises(wp.KernelError, match="argument 'x'"):
            wp.launch(grow, dim=2, inputs=[wp.zeros(2, dtype=int), 1.0])
        with pytest.raises(wp.KernelError, match="expected an array of one int32"):
            wp.capture_if(x, on_true=lambda: None)
    assert repr(capture.graph) == "Graph(fill)", "that of zeros"
    with pytest.raises(wp.KernelError, match="no capture is being made"):
        wp.capture_end()
    with pytest.raises(wp.KernelError, match="expected a graph, got None"):
        wp.capture_launch(None)
    with pytest.raises(wp.KernelError, match="has no option speed"):
        wp.capture_begin(speed=3)
    with pytest.raises(wp.KernelError, match="capture_begin: cuda:99 cannot be used"):
        wp.capture_begin("cuda:99")
    with pytest.raises(wp.KernelError, match="in a function that JAX traces"):
        jax.jit(lambda: wp.capture_launch(capture.graph))()


def test_a_capture_ends_with_the_error_in_it():
    with pytest.raises(ZeroDivisionError), wp.ScopedCapture() as capture:
        raise ZeroDivisionError
    assert repr(capture.graph) == "Graph()"
    assert wp.ones(1).list() == [1.0]


def test_a_launch_that_is_kept():
    x, y = wp.ones(3), wp.zeros(3)
    command = wp.launch(grow, dim=3, inputs=[x, 2.0], record_cmd=True)
    assert isinstance(command, wp.Launch)
    assert x.list() == [1.0] * 3
    command.launch()
    command.launch()
    assert x.list() == [7.0] * 3
    command.set_param_at_index(0, y)
    command.set_param_by_name("by", 0.0)
    command.set_dim(2)
    command.launch()
    assert y.list() == [1.0, 1.0, 0.0]
    command.set_params([x, 1.0])
    with wp.ScopedCapture() as capture:
        command.launch()
    command.set_params([y, 1.0])
    wp.capture_launch(capture.graph)
    assert (x.list(), y.list()) == ([8.0, 8.0, 7.0], [1.0, 1.0, 0.0])


def test_a_launch_that_is_kept_has_values_as_they_were_given():
    @wp.struct
    class Line:
        x: wp.array[float]
        slope: float

    @wp.kernel
    def drawn(line: Line, at: wp.vec2, y: wp.array[float]):
        i = wp.tid()
        y[i] = line.slope * line.x[i] + at[0]

    line, at, dim, y = Line(), wp.vec2(1.0, 2.0), [2], wp.zeros(3)
    line.x, line.slope = wp.ones(3), 2.0
    command = wp.launch(drawn, dim, [line, at], [y], record_cmd=True)
    with wp.ScopedCapture() as capture:
        wp.launch(drawn, dim, [line, at], [y])
    line.slope, at[0], dim[0] = 5.0, 7.0, 3
    for run in (command.launch, lambda: wp.capture_launch(capture.graph)):
        y.zero_()
        run()
        assert y.list() == [3.0, 3.0, 0.0]
    command.set_dim(dim)
    command.set_param_by_name("line", line)
    line.slope, dim[0] = 0.0, 1
    line.x.fill_(2.0)  # arrays are taken as they are then
    command.launch()
    assert y.list() == [11.0] * 3


def test_an_adjoint_launch_that_is_kept():
    x, y = wp.array([2.0, 3.0], dtype=float), wp.zeros(2)
    found, other = wp.zeros(2), wp.ones(2)
    options = {"adj_inputs": [found, None], "adj_outputs": [wp.ones(2)], "adjoint": True, "record_cmd": True}
    command = wp.launch(scale, 2, [x, 4.0], [y], **options)
    command.launch()
    assert found.list() == [4.0, 4.0]
    command.set_param_at_index(0, other, adjoint=True)
    with wp.ScopedCapture() as capture:
        command.launch()
    assert other.list() == [1.0, 1.0]
    wp.capture_launch(capture.graph)
    assert other.list() == [5.0, 5.0]


def test_arguments_of_a_launch_that_are_wrong():
    command = wp.launch(grow, dim=3, inputs=[wp.ones(3), 2.0], record_cmd=True)
    with pytest.raises(wp.KernelError, match="there is no argument 2"):
        command.set_param_at_index(2, 1.0)
    with pytest.raises(wp.KernelError, match="there is no argument 'z'"):
        command.set_param_by_name("z", 1.0)
    with pytest.raises(wp.KernelError, match="expected 2 arguments, got 1"):
        command.set_params([1.0])
    with pytest.raises(wp.KernelError, match="is of no adjoint"):
        command.set_param_at_index(0, None, adjoint=True)


def test_components_are_kept_as_they_are_and_arrays_of_numpy_are_written():
    @wp.struct
    class Step:
        way: wp.vec3
        scale: float
        out: wp.array[float]

    @wp.kernel
    def run(step: Step, turn: wp.mat33):
        i = wp.tid()
        step.out[i] = step.scale * (turn * step.way)[i]

    @wp.kernel
    def run_beside(grid: wp.uint64, step: Step, turn: wp.mat33):
        i = wp.tid()
        step.out[i] = step.scale * (turn * step.way)[i] + float(wp.hash_grid_point_id(grid, 0))

    grid = wp.HashGrid(4, 4, 4)
    grid.build(wp.zeros(1, dtype=wp.vec3), 1.0)
    for kernel, before in ((run, []), (run_beside, [grid.id])):
        for turn in (np.eye(3, dtype=np.float32), wp.mat33(np.eye(3)), np.eye(3).tolist()):
            step, out = Step(), np.zeros(3, np.float32)
            step.way, step.scale, step.out = wp.vec3(1.0, 2.0, 3.0), 2.0, out
            with wp.ScopedCapture() as capture:
                wp.launch(kernel, 3, [*before, step, turn])
            step.way[0], step.scale = 9.0, 9.0
            turn[1][1] = 9.0
            wp.capture_launch(capture.graph)
            assert out.tolist() == [2.0, 4.0, 6.0]
