"""Loops and branches in captures of a GPU that is not there: one graph of the driver, which does what the host does."""

import gc

import numpy as np
import pytest
from native.tree_scenarios import mesh_on

import jaxwarp as wp
from jaxwarp.memory.gpu import by_value

DEVICE = "cuda:0"


@wp.kernel
def grow(x: wp.array(dtype=float), by: float):
    i = wp.tid()
    x[i] = x[i] * by + 1.0


@wp.kernel
def count_down(n: wp.array(dtype=int)):
    n[0] -= 1


@wp.kernel
def set_to(n: wp.array(dtype=int), value: int):
    n[0] = value


@wp.kernel
def is_odd(n: wp.array(dtype=int), odd: wp.array(dtype=int)):
    odd[0] = n[0] % 2


@wp.kernel
def add_up(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = y[i] + x[i]


@wp.kernel
def shift(x: wp.array(dtype=wp.vec3), by: wp.vec3, m: wp.mat22):
    i = wp.tid()
    x[i] = x[i] + by * m[1, 0]


@wp.kernel
def move(x: wp.array(dtype=wp.vec3)):
    i = wp.tid()
    x[i] = 0.9 * x[i]


@wp.kernel
def count_near(grid: wp.HashGrid, x: wp.array(dtype=wp.vec3), near: wp.array(dtype=float)):
    i = wp.tid()
    count = 0.0
    for j in wp.hash_grid_query(grid, x[i], 0.3):
        if wp.length(x[j] - x[i]) < 0.3:
            count += 1.0
    near[i] = count


@wp.kernel
def nearest(mesh: wp.Mesh, x: wp.array(dtype=wp.vec3), distances: wp.array(dtype=float)):
    i = wp.tid()
    at = wp.vec3(2.0) - x[i]
    query = wp.mesh_query_point_no_sign(mesh, at, 100.0)
    distances[i] = wp.length(wp.mesh_eval_position(mesh, query.face, query.u, query.v) - at)


def structures_in_a_loop(device, is_captured):
    """Runs a loop that moves points, rebuilds a grid of them, refits a mesh of them and searches both. Return a
    function for the results."""
    mesh = mesh_on(device)
    x, size, n = mesh.points, mesh.points.size, wp.zeros(1, dtype=int, device=device)
    near, distances = (wp.zeros(size, dtype=float, device=device) for _ in range(2))
    grid = wp.HashGrid(4, 4, 4, device=device)
    grid.build(x, 0.3)

    def body():
        wp.launch(move, size, [x], device=device)
        grid.build(x, 0.3)
        mesh.refit()
        wp.launch(count_near, size, [grid, x], [near], device=device)
        wp.launch(nearest, size, [mesh, x], [distances], device=device)
        wp.launch(count_down, 1, [n], device=device)

    if is_captured:
        with wp.ScopedCapture(device) as capture:
            wp.capture_while(n, body)
    for k in (2, 1, 3):
        n.fill_(k)
        if is_captured:
            wp.capture_launch(capture.graph)
        else:
            wp.capture_while(n, body)
    return lambda: [a.numpy() for a in (x, near, distances, n)]


class Program:
    """Arrays on a device, and steps on them, which do the same whether they are captured or not."""

    def __init__(self, device):
        self.device = device
        self.n, self.outer, self.odd = (wp.zeros(1, dtype=int, device=device) for _ in range(3))
        self.x, self.y = (wp.zeros(5, dtype=float, device=device) for _ in range(2))
        self.places = wp.zeros(3, dtype=wp.vec3, device=device)

    def step(self, by):
        wp.launch(grow, 5, [self.x, by], device=self.device)
        wp.launch(count_down, 1, [self.n], device=self.device)

    def loop(self):
        wp.capture_while(self.n, self.step, by=0.5)

    def branches(self):
        wp.launch(is_odd, 1, [self.n, self.odd], device=self.device)
        wp.capture_if(self.odd, lambda: self.step(2.0), lambda: self.x.fill_(3.0))
        wp.capture_if(self.odd, on_true=lambda: wp.copy(self.y, self.x))
        wp.capture_if(self.odd, on_false=lambda: self.y[1:3].fill_(9.0))
        # The first body changes the number.
        wp.capture_if(self.odd, self.odd.zero_, lambda: self.odd.fill_(5))
        wp.capture_if(self.odd, lambda: None, None)

    def nested(self):
        """A loop in a loop, with branches, and a copy of part of an array."""

        def inner():
            self.step(by=0.25)
            wp.launch(is_odd, 1, [self.n, self.odd], device=self.device)
            wp.capture_if(self.odd, lambda: wp.launch(add_up, 5, [self.x, self.y], device=self.device))

        def outer():
            wp.launch(set_to, 1, [self.n, 3], device=self.device)
            wp.capture_while(self.n, inner)
            wp.copy(self.y, self.x, 0, 2, 3)
            wp.launch(count_down, 1, [self.outer], device=self.device)

        wp.capture_while(self.outer, outer)

    def bounded(self):
        """Loops that end before their condition does."""

        def outer():
            wp.launch(set_to, 1, [self.n, 100], device=self.device)
            wp.capture_while(self.n, self.step, by=0.5, max_iterations=4)
            wp.launch(count_down, 1, [self.outer], device=self.device)

        wp.capture_while(self.outer, outer, max_iterations=2)
        wp.capture_while(self.n, self.step, by=0.5, max_iterations=0)

    def with_memory(self):
        """Arrays that are made in the capture, in bodies too, parts with gaps, and values."""
        total = wp.zeros(5, dtype=float, device=self.device)
        copied = wp.clone(self.x)

        def body():
            part = wp.zeros(5, dtype=float, device=self.device)
            wp.launch(add_up, 5, [self.x, part], device=self.device)
            wp.launch(add_up, 3, [part[::2], total[:3]], device=self.device)
            wp.launch(shift, 3, [self.places, wp.vec3(1.0, 2.0, 3.0), wp.mat22(0.0, 0.0, 2.0, 0.0)], device=self.device)
            self.step(by=0.5)

        wp.capture_while(self.n, body)
        wp.launch(add_up, 5, [total, copied], device=self.device)
        wp.copy(self.y, copied)

    def start(self, k):
        self.n.fill_(k)
        self.outer.fill_(k % 4)
        self.odd.fill_(k % 2)
        self.x.assign(np.arange(5.0) + k)
        self.y.fill_(float(k))
        self.places.zero_()

    def results(self):
        return [a.numpy() for a in (self.n, self.outer, self.odd, self.x, self.y, self.places)]


STEPS = ("loop", "branches", "nested", "bounded", "with_memory")


def captured(step, device=DEVICE):
    program = Program(device)
    with wp.ScopedCapture(device) as capture:
        getattr(program, step)()
    return program, capture.graph


def calls(gpus, run):
    """What is asked of the driver."""
    gpus.log()
    run()
    return gpus.log()


def assert_as_at_once(gpus, step, graph, program):
    """Launch it often, and compare with the same steps on the CPU, at once."""
    other = Program("cpu")
    for k in (0, 1, 2, 5, 0, 3):
        for one in (program, other):
            one.start(k)
        wp.synchronize()
        log = calls(gpus, lambda: wp.capture_launch(graph))
        getattr(other, step)()
        for found, expected in zip(program.results(), other.results(), strict=True):
            np.testing.assert_array_equal(found, expected, err_msg=f"{step}, {k}")
        assert not [line for line in gpus.log() if line.isupper()]
    assert [line.split()[0] for line in log] == ["graph"], log


def loops_and_branches_are_nodes(gpus):
    """Each program is one call of the driver, whatever the numbers are."""
    for step in STEPS:
        program, graph = captured(step)
        assert graph.explain().startswith("a graph of cuda:0: "), graph.explain()
        assert "\n" not in graph.explain()
        assert_as_at_once(gpus, step, graph, program)


def nodes_that_the_driver_has(gpus):
    """CUDA 12.4 has one body a node, 12.8 two; before, the host decides, and bodies are graphs."""
    made = {}
    try:
        for version in (12030, 12040, 12080):
            gpus.driver.fake_version(version)
            program, graph = captured("branches")
            program.start(1)
            wp.capture_launch(graph)
            log = calls(gpus, lambda graph=graph: wp.capture_launch(graph))
            made[version] = [line for line in log if line.startswith("if")]
            if version >= 12040:
                assert_as_at_once(gpus, "branches", graph, program)
        assert made[12030] == []
        assert made[12040] == ["if of 1"] * 7
        assert made[12080] == [f"if of {bodies}" for bodies in (2, 1, 1, 2, 1)]
        gpus.driver.fake_version(12030)
        program, graph = captured("loop")
        assert "by itself: while (" in graph.explain()
        for k in (5, 4, 3):
            program.start(k)
            log = calls(gpus, lambda: wp.capture_launch(graph))
            assert program.n.list() == [0]
        assert [line.split()[0] for line in log if line.startswith("graph")] == ["graph"] * 3
    finally:
        gpus.driver.fake_version(13000)


def graphs_as_bodies(gpus):
    """A body may be a graph that was captured before, and a graph may be part of another one."""
    program, other = Program(DEVICE), Program("cpu")
    with wp.ScopedCapture(DEVICE) as body:
        program.step(0.5)
    with wp.ScopedCapture(DEVICE) as capture:
        wp.capture_launch(body.graph)
        wp.capture_while(program.n, body.graph)
        wp.capture_if(program.n, body.graph, body.graph)
    for k in (3, 1, 4):
        program.start(k), other.start(k)
        wp.synchronize()
        log = calls(gpus, lambda: wp.capture_launch(capture.graph))
        other.step(0.5)
        other.loop()
        other.step(0.5)
        np.testing.assert_array_equal(program.x.numpy(), other.x.numpy())
        assert program.n.list() == [-1]
    assert [line.split()[0] for line in log] == ["graph"]
    program.start(3)
    wp.capture_while(program.n, body.graph)  # outside of a capture it is what it was
    assert program.n.list() == [0]


def memory_of_graphs(gpus):
    """What is made in a capture belongs to its graph: nobody else gets it, and it is given back with the graph."""
    gc.collect()
    wp.synchronize()
    program, graph = captured("with_memory")
    for k in (2, 3):  # it is recorded, and keeps memory for copies
        program.start(k)
        wp.capture_launch(graph)
    gc.collect()
    others = [wp.full(5, 7.0, dtype=float, device=DEVICE) for _ in range(200)]
    held = gpus.held()[0]
    for k in (1, 4):
        program.start(k)
        wp.capture_launch(graph)
    assert all(other.list() == [7.0] * 5 for other in others)
    assert gpus.held()[0] == held
    # Values stay what they were, though later launches have others.
    for k in range(2 * by_value._MOST):
        wp.launch(grow, 5, [program.x, float(k)])
    program.start(3)
    other = Program("cpu")
    other.start(3)
    wp.capture_launch(graph)
    other.with_memory()
    np.testing.assert_array_equal(program.y.numpy(), other.y.numpy())
    del others
    gc.collect()
    wp.synchronize()
    before = gpus.held()[0]
    del graph
    gc.collect()
    wp.synchronize()
    assert gpus.held()[0] < before


def bodies_that_never_ran(gpus):
    """The code of a body is loaded when it is recorded, if it was not before; its values are not those of the graph
    alone: launches outside of it find them set."""

    @wp.kernel
    def fresh(x: wp.array(dtype=float), by: wp.vec3):
        i = wp.tid()
        x[i] = by[i]

    program, n = Program(DEVICE), wp.zeros(1, dtype=int, device=DEVICE)

    def body():
        wp.launch(fresh, 3, [program.x, wp.vec3(1.0, 2.0, 3.0)])
        wp.launch(count_down, 1, [n])

    with wp.ScopedCapture(DEVICE) as capture:
        wp.capture_while(n, body)
    for _ in range(3):
        log = calls(gpus, lambda: wp.capture_launch(capture.graph))
    assert [line.split()[0] for line in log] == ["graph"]
    wp.launch(fresh, 3, [program.y, wp.vec3(1.0, 2.0, 3.0)])
    assert program.y.list() == [1.0, 2.0, 3.0, 0.0, 0.0]
    assert program.x.list() == [0.0] * 5
    n.fill_(1)
    wp.capture_launch(capture.graph)
    assert program.x.list() == [1.0, 2.0, 3.0, 0.0, 0.0]


def structures_are_rebuilt_in_loops(gpus):
    """A grid that is built and a mesh that is refitted in a body are part of the one graph."""
    found = structures_in_a_loop(DEVICE, is_captured=True)
    assert gpus.log()[-1].startswith("graph")
    for one, other in zip(found(), structures_in_a_loop(DEVICE, is_captured=False)(), strict=True):
        np.testing.assert_array_equal(one, other)


def what_divides_a_capture(gpus):
    """Work of the host divides a capture; what is before and behind it are graphs, and the text says which line it is.
    A loop with such work is run by the host."""
    program, on_cpu = Program(DEVICE), wp.zeros(5, dtype=float, device="cpu")
    with wp.ScopedCapture(DEVICE) as capture:
        program.loop()
        wp.copy(on_cpu, program.x)
        program.step(2.0)
    lines = capture.graph.explain().splitlines()
    assert lines[0] == "a graph of cuda:0: while"
    assert lines[1].startswith("by itself: copy (")
    assert "conditional_scenarios.py:" in lines[1]
    assert lines[2] == "a graph of cuda:0: launch of grow, launch of count_down"
    for k in (3, 2, 4):
        program.start(k)
        wp.synchronize()
        log = calls(gpus, lambda: wp.capture_launch(capture.graph))
        assert program.n.list() == [-1]
        np.testing.assert_array_equal(program.x.numpy(), on_cpu.numpy() * 2 + 1)
    assert [line.split()[0] for line in log] == ["graph", "DtoH", "synchronize", "graph"]

    def body():
        program.step(0.5)
        wp.copy(on_cpu, program.x)

    with wp.ScopedCapture(DEVICE) as capture:
        wp.capture_while(program.n, body)
    assert capture.graph.explain().startswith("by itself: while (")
    for _ in range(3):
        program.start(3)
        wp.capture_launch(capture.graph)
        assert program.n.list() == [0]
        np.testing.assert_array_equal(program.x.numpy(), on_cpu.numpy())


def conditions_elsewhere_are_refused(gpus):
    """With the line that asked."""
    program, other = Program(DEVICE), wp.ones(1, dtype=int, device="cuda:1")
    for device in (DEVICE, None):
        for flag in (other, wp.ones(1, dtype=int, device="cpu")):
            with wp.ScopedCapture(device):
                where = "where the (capture|work of the body) is"
                expected = rf"expected an array on cuda:0, {where}, got one on {flag.device}"
                with pytest.raises(wp.KernelError, match=f"capture_while: condition: {expected}") as caught:
                    wp.capture_while(flag, program.step, by=1.0)
                assert "wp.capture_while(flag" in str(caught.value)
                with pytest.raises(wp.KernelError, match=f"capture_if: condition: {expected}"):
                    wp.capture_if(flag, lambda: program.step(1.0))
    for given in (program.x, program.n.numpy(), 3, wp.zeros(2, dtype=int, device=DEVICE)):
        with wp.ScopedCapture(DEVICE), pytest.raises(wp.KernelError, match="expected an array of one int32"):
            wp.capture_while(given, program.step, by=1.0)
    with wp.ScopedCapture(DEVICE):
        with pytest.raises(wp.KernelError, match="capture_while: expected a function or a graph, got None"):
            wp.capture_while(program.n, None)
        with pytest.raises(wp.KernelError, match="cannot be read while a capture is made") as caught:
            wp.capture_while(program.n, program.n.numpy)
        assert "capture_while(program.n, program.n.numpy)" in str(caught.value)


def failures_of_nodes(gpus):
    """They are told, leave nothing, and the work can be done again."""
    for function in (
        "cuGraphConditionalHandleCreate", "cuGraphAddNode", "cuStreamUpdateCaptureDependencies",
        "cuStreamBeginCaptureToGraph", "cuStreamGetCaptureInfo",
    ):  # fmt: skip
        program, graph = captured("nested")
        program.start(3)
        wp.capture_launch(graph)
        gc.collect()
        held, graphs_before = gpus.held(), gpus.driver.fake_graphs()
        gpus.fail(function)
        with pytest.raises(wp.errors.JaxwarpError, match=f"{function} failed"):
            wp.capture_launch(graph)
        gpus.fail()
        gc.collect()
        wp.synchronize()
        assert (gpus.held(), gpus.driver.fake_graphs()) == (held, graphs_before), function
        for _ in range(2):
            program.start(3)
            wp.capture_launch(graph)
        assert program.outer.list() == [0]


SCENARIOS = [
    loops_and_branches_are_nodes,
    nodes_that_the_driver_has,
    graphs_as_bodies,
    memory_of_graphs,
    bodies_that_never_ran,
    structures_are_rebuilt_in_loops,
    what_divides_a_capture,
    conditions_elsewhere_are_refused,
    failures_of_nodes,
]
