"""Tapes in captures: whenever that is launched they record anew and go backwards, as the same steps do at once."""

import numpy as np
import pytest

import jaxwarp as wp

TARGET = 3.0


@wp.kernel
def miss(x: wp.array[float], loss: wp.array[float]):
    wp.atomic_add(loss, 0, (x[wp.tid()] - TARGET) ** 2.0)


@wp.kernel
def square(x: wp.array[float]):
    i = wp.tid()
    x[i] = x[i] * x[i]


@wp.kernel
def copy_to(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i]


@wp.kernel
def count_down(n: wp.array[int]):
    n[0] -= 1


def with_gradient(values):
    return wp.array(values, dtype=float, requires_grad=True)


@pytest.mark.parametrize("make", [wp.optim.Adam, lambda params, lr: wp.optim.SGD(params, lr, momentum=0.9)])
def test_a_captured_loop_of_training_steps(make):
    def trained(is_captured):
        x, loss, tape = with_gradient([1.0, 2.0, 5.0]), with_gradient([0.0]), wp.Tape()
        optimizer = make([x], lr=0.1)

        def step():
            loss.zero_()
            with tape:
                wp.launch(miss, dim=3, inputs=[x], outputs=[loss])
            tape.backward(loss)
            optimizer.step([x.grad])
            tape.zero()

        if is_captured:
            with wp.ScopedCapture() as capture:
                step()
            assert (optimizer.t, x.list()) == (0, [1.0, 2.0, 5.0])
        for _ in range(20):
            if is_captured:
                wp.capture_launch(capture.graph)
            else:
                step()
                tape.reset()
        assert optimizer.t == 20
        assert x.grad.list() == [0.0, 0.0, 0.0]
        return x.list(), loss.list()

    assert trained(True) == trained(False)


OPTIMISERS = pytest.mark.parametrize("kind", [wp.optim.Adam, lambda params, lr: wp.optim.SGD(params, lr, momentum=0.9)])


@OPTIMISERS
@pytest.mark.parametrize("is_new", [True, False])
def test_optimisers_that_begin_anew(kind, is_new):
    """Whenever a capture is launched: one that is made in it, and one that forgets its steps."""

    def trained(is_captured):
        x, slopes = wp.array([1.0], dtype=float), [wp.array([0.5], dtype=float)]
        optimizer = kind([x], lr=0.1)
        optimizer.step(slopes)

        def step():
            nonlocal optimizer
            if is_new:
                optimizer = kind([x], lr=0.1)
            else:
                optimizer.reset_internal_state()
            optimizer.step(slopes)
            optimizer.step(slopes)

        if is_captured:
            with wp.ScopedCapture() as capture:
                step()
            assert optimizer.t == (0 if is_new else 1)
        for _ in range(3):
            if is_captured:
                wp.capture_launch(capture.graph)
            else:
                step()
        return optimizer.t, x.list()

    assert trained(True) == trained(False)


@OPTIMISERS
def test_parameters_of_captured_steps_are_those_of_their_time(kind):
    x, y, slope = wp.array([1.0], dtype=float), wp.array([1.0], dtype=float), wp.array([0.5], dtype=float)
    slopes, optimizer = [slope], kind([x], lr=0.1)
    with wp.ScopedCapture() as capture:
        optimizer.step(slopes)
        with pytest.raises(wp.KernelError, match="set_params: a capture is being made"):
            optimizer.set_params([y])
    slopes.clear()
    optimizer.set_params([y])
    wp.capture_launch(capture.graph)
    assert (x.list()[0] < 1.0, y.list()) == (True, [1.0])


@pytest.mark.parametrize("made", ["zeros", "array", "clone", "map"])
def test_gradients_of_arrays_that_are_made_in_a_capture(made):
    """They begin as zeros whenever it is launched, as what the array holds begins anew."""
    x, tape = with_gradient([1.0, 2.0]), wp.Tape()
    with wp.ScopedCapture() as capture:
        match made:
            case "zeros":
                total = wp.zeros(1, requires_grad=True)
            case "array":
                total = with_gradient([0.0])
            case "clone":
                total = wp.clone(wp.zeros(1), requires_grad=True)
            case _:
                total = -wp.zeros(1, requires_grad=True)
        loss = wp.zeros(1, requires_grad=True)
        with tape:
            wp.launch(miss, dim=2, inputs=[x], outputs=[total])
            wp.launch(miss, dim=1, inputs=[total], outputs=[loss])
        tape.backward(loss)
    for times in (1, 2, 3):
        wp.capture_launch(capture.graph)
        assert (total.list(), loss.list()) == ([5.0], [4.0])
        assert total.grad.list() == [4.0]
        assert x.grad.list() == [times * 4.0 * 2 * (1.0 - TARGET), times * 4.0 * 2 * (2.0 - TARGET)]


def test_adjoints_are_of_the_numbers_of_their_time():
    @wp.kernel
    def scaled(by: wp.vec2, x: wp.array[float], y: wp.array[float]):
        y[wp.tid()] = by[1] * x[wp.tid()]

    x, y, by = with_gradient([1.0]), with_gradient([0.0]), wp.vec2(2.0, 3.0)
    y.grad.fill_(1.0)
    with wp.ScopedCapture() as capture:
        wp.launch(scaled, 1, [by, x], [y], adjoint=True)
    by[1] = 100.0
    wp.capture_launch(capture.graph)
    assert x.grad.list() == [3.0]


def test_ways_forward_and_back_in_graphs_of_their_own():
    x, y, tape = with_gradient([1.0, 2.0]), with_gradient([0.0, 0.0]), wp.Tape()
    with wp.ScopedCapture() as forward, tape:
        wp.launch(copy_to, dim=2, inputs=[x, y])
        wp.launch(square, dim=2, inputs=[y])
    with wp.ScopedCapture() as backward:
        tape.backward(grads={y: wp.ones(2)})
    with wp.ScopedCapture() as zero:
        tape.zero()
    for values in ([1.0, 2.0], [5.0, -1.0]):
        x.assign(values)
        wp.capture_launch(forward.graph)
        assert y.list() == [v * v for v in values]
        assert [launch.plan.launch.kernel.name for launch in tape.launches] == ["copy_to", "square"]
        for times in (1, 2):
            wp.capture_launch(backward.graph)
            assert x.grad.list() == [times * 2 * v for v in values]
        wp.capture_launch(zero.graph)
        assert x.grad.list() == [0.0, 0.0]


def test_what_is_overwritten_is_that_of_each_launch():
    x = with_gradient([3.0])
    tape = wp.Tape()
    with wp.ScopedCapture() as capture:
        with tape:
            wp.launch(square, dim=1, inputs=[x])
        tape.backward(grads={x: np.ones(1, np.float32)})
    for value in (3.0, 9.0, 81.0):
        wp.capture_launch(capture.graph)
        assert (x.list(), x.grad.list()) == ([value * value], [2 * value])


def test_gradients_are_known_before_the_first_launch():
    x, y = with_gradient([1.0]), with_gradient([0.0])
    x.grad.fill_(7.0)
    tape = wp.Tape()
    with wp.ScopedCapture(), tape:
        wp.launch(copy_to, dim=1, inputs=[x, y])
    assert set(tape.gradients) == {x, y}
    tape.zero()
    assert x.grad.list() == [0.0]


def test_a_way_back_by_hand():
    x, y, tape = with_gradient([2.0]), with_gradient([0.0]), wp.Tape()

    def back():
        x.grad.assign(x.grad.numpy() + 10.0 * y.grad.numpy())

    with wp.ScopedCapture() as capture:
        with tape:
            wp.launch(copy_to, dim=1, inputs=[x, y], record_tape=False)
            tape.record_func(back, [x, y])
        tape.backward(grads={y: wp.ones(1)})
    for times in (1, 2):
        wp.capture_launch(capture.graph)
        assert x.grad.list() == [10.0 * times]


def test_a_tape_in_a_captured_loop():
    x, n, tape = with_gradient([1.0]), wp.array([3], dtype=int), wp.Tape()
    loss = with_gradient([0.0])

    def body():
        loss.zero_()
        with tape:
            wp.launch(miss, dim=1, inputs=[x], outputs=[loss])
        tape.backward(loss)
        wp.launch(count_down, dim=1, inputs=[n])

    with wp.ScopedCapture() as capture:
        wp.capture_while(n, body)
    wp.capture_launch(capture.graph)
    assert x.grad.list() == [3 * 2 * (1.0 - TARGET)]


def test_copies_of_arrays_are_recorded():
    x, y, tape = with_gradient([2.0]), with_gradient([0.0]), wp.Tape()
    with wp.ScopedCapture() as capture:
        with tape:
            held = wp.clone(x)
            wp.launch(copy_to, dim=1, inputs=[held, y])
        tape.backward(grads={y: wp.ones(1)})
    wp.capture_launch(capture.graph)
    assert (y.list(), x.grad.list()) == ([2.0], [1.0])


def test_a_failure_leaves_no_tape_recording():
    x, y, tape = with_gradient([1.0]), with_gradient([0.0]), wp.Tape()
    with wp.ScopedCapture() as capture, tape:
        wp.launch(copy_to, dim=1, inputs=[x, y])
    with wp.Tape(), pytest.raises(wp.KernelError, match="another tape is recording"):
        wp.capture_launch(capture.graph)
    with pytest.raises(wp.KernelError, match="expected 2 arguments"), wp.ScopedCapture() as capture, wp.Tape():
        wp.launch(copy_to, dim=1, inputs=[x])
    assert repr(capture.graph) == "Graph()"
    with wp.Tape() as other:  # nothing is being captured or recorded
        wp.launch(copy_to, dim=1, inputs=[x, y])
    assert len(other.launches) == 1


def test_what_a_captured_tape_refuses():
    x, y, tape = with_gradient([1.0]), with_gradient([0.0]), wp.Tape()
    with wp.ScopedCapture() as capture:
        with tape:
            with pytest.raises(wp.KernelError, match="another tape is recording"), wp.Tape():
                pass
            with pytest.raises(wp.KernelError, match="begun outside of the with of a tape"):
                wp.capture_end()
            for use in (tape.backward, tape.reset):
                with pytest.raises(wp.KernelError, match="recording"):
                    use()
            with pytest.raises(wp.KernelError, match="contents cannot be read"):
                x.numpy()
            wp.launch(copy_to, dim=1, inputs=[x, y])
        with pytest.raises(wp.KernelError, match="it has recorded already"), tape:
            pass
        with pytest.raises(wp.KernelError, match=r"Tape.launches: contents cannot be read"):
            _ = tape.launches
        with pytest.raises(wp.KernelError, match="loss: expected an array of one number"):
            tape.backward(wp.ones(2, requires_grad=True))
        tape.backward(with_gradient([1.0]))
    with pytest.raises(wp.KernelError, match="no recorded launch or copy writes it"):
        wp.capture_launch(capture.graph)
    with pytest.raises(wp.KernelError, match="it has recorded already"), tape:
        pass
    tape.reset()
    with tape:
        wp.launch(copy_to, dim=1, inputs=[x, y])


def test_a_solver_is_refused_rather_than_recorded_by_halves():
    A, b, x = wp.array([2.0, 4.0], dtype=float), with_gradient([1.0, 1.0]), with_gradient([0.0, 0.0])
    with wp.ScopedCapture(), wp.Tape(), pytest.raises(wp.KernelError, match="cannot be recorded in a capture"):
        wp.optim.linear.cg(A, b, x, check_every=0)
