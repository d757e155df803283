"""Jacobians of launches and of functions that launch, and checks of derivatives against differences."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp.autograd import gradcheck, gradcheck_tape, jacobian, jacobian_fd, jacobian_plot
from jaxwarp.errors import DifferentiationError, KernelTypeError, KernelValueError

# A kernel's first argument is often called x, and so is what tests make.
X = np.array([1.0, 2.0, -0.5, 3.0], np.float32)


@wp.kernel
def mixed(a: wp.array[float], b: wp.array[wp.vec3], plane: wp.array[wp.vec2], turn: wp.array[wp.quat]):
    i = wp.tid()
    plane[i] = wp.vec2(a[i] * wp.length(b[i]), -a[i] * wp.dot(b[i], wp.vec3(0.1, 1.0, -0.1)))
    turn[i] = wp.normalize(wp.quat(a[i], b[i][0], b[i][1], b[i][2]))


@wp.kernel
def square(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i] * x[i]


@wp.kernel
def grow(x: wp.array[float]):
    i = wp.tid()
    x[i] = x[i] * x[i] + 1.0


@wp.kernel
def total(x: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    wp.atomic_add(out, 0, x[i] * x[i] * float(i + 1))


@wp.kernel
def run_on(x: wp.array[float], state: wp.array[float], out: wp.array[float]):
    i = wp.tid()
    state[i] = state[i] * x[i]
    out[i] = wp.sin(state[i])


@wp.func
def wrong(x: float):
    return x * x


@wp.func_grad(wrong)
def adj_wrong(x: float, adj: float):
    wp.adjoint[x] += 3.0 * x * adj


@wp.kernel
def wrong_square(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = wrong(x[i])


@wp.kernel
def neighbours(x: wp.array[float]):
    i = wp.tid()
    x[i] = x[i] * x[(i + 1) % 4]


def variable(values=X, dtype=float):
    return wp.array(values, dtype=dtype, requires_grad=True)


def out_for(x):
    return wp.zeros(x.shape, dtype=x.dtype, requires_grad=True)


def mixed_arguments():
    a = variable([2.0, -1.0])
    b = variable([(3.0, 1.0, 2.0), (-4.0, -1.0, 0.5)], wp.vec3)
    outs = [wp.zeros(2, dtype=t, requires_grad=True) for t in (wp.vec2, wp.quat)]
    return [a, b], outs


def test_jacobians_of_a_kernel_are_those_of_jax():
    inputs, outputs = mixed_arguments()
    found = jacobian(mixed, 2, inputs, outputs)
    run = wp.jax_kernel(mixed, num_outputs=2, launch_dims=2)
    expected = jax.jacobian(run, argnums=(0, 1))(*(jnp.asarray(x.numpy()) for x in inputs))
    assert sorted(found) == [(0, 0), (0, 1), (1, 0), (1, 1)]
    for (i, j), matrix in found.items():
        shape = (outputs[j].numpy().size, *inputs[i].numpy().shape)
        assert (matrix.dtype, matrix.shape) == (inputs[i].dtype, shape[:2])
        np.testing.assert_allclose(matrix.numpy(), np.reshape(expected[j][i], shape), rtol=1e-5, atol=1e-6)
    for pair, matrix in jacobian_fd(mixed, 2, inputs, outputs, eps=1e-2).items():
        assert matrix.dtype == found[pair].dtype
        np.testing.assert_allclose(matrix.numpy(), found[pair].numpy(), rtol=2e-3, atol=2e-3)


def test_nothing_changes():
    x, y = variable(), out_for(variable())
    x.grad.fill_(5.0)
    y.grad.fill_(7.0)
    y.fill_(-1.0)
    for found in (jacobian(square, 4, [x], [y]), jacobian_fd(square, 4, [x], [y])):
        np.testing.assert_allclose(found[0, 0].numpy(), np.diag(2 * X), atol=2e-3)
    assert (x.list(), y.list(), x.grad.list(), y.grad.list()) == (X.tolist(), [-1.0] * 4, [5.0] * 4, [7.0] * 4)


def test_functions_may_overwrite_their_inputs():
    x = variable()

    def twice(x):
        wp.launch(grow, 4, [x])
        wp.launch(grow, 4, [x])
        return x

    inner = X * X + 1
    expected = np.diag(4 * X * inner)
    np.testing.assert_allclose(jacobian(twice, inputs=[x])[0, 0].numpy(), expected, rtol=1e-5)
    np.testing.assert_allclose(jacobian_fd(twice, inputs=[x], eps=1e-3)[0, 0].numpy(), expected, rtol=5e-3, atol=0.1)
    assert gradcheck(twice, inputs=[x], eps=1e-3, atol=0.1, show_summary=False)
    assert x.list() == X.tolist()
    jacobian(twice, inputs=[x], restore_inputs=False)
    np.testing.assert_allclose(x.numpy(), inner * inner + 1)


def test_what_a_function_adds_to_elsewhere_is_undone_between_runs():
    x, loss, kept = variable(), wp.array([10.0], dtype=float, requires_grad=True), np.zeros(4, np.float32)

    def add(x):
        wp.launch(total, 4, [x], [loss])
        wp.launch(square, 4, [x], [kept])
        return loss

    expected = [2 * X * [1, 2, 3, 4]]
    np.testing.assert_allclose(jacobian(add, inputs=[x])[0, 0].numpy(), expected, rtol=1e-6)
    np.testing.assert_allclose(jacobian_fd(add, inputs=[x], eps=1e-2)[0, 0].numpy(), expected, rtol=5e-3, atol=5e-3)
    assert loss.list() == [10.0]
    assert not kept.any()


def test_inputs_that_a_kernel_updates():
    x, state, out = variable(X / 2), variable([1.0, 0.5, 2.0, -1.0]), wp.zeros(4, dtype=float, requires_grad=True)
    start = state.numpy().copy()
    found, near = jacobian(run_on, 4, [x, state], [out]), jacobian_fd(run_on, 4, [x, state], [out], eps=1e-2)
    slope = np.cos(start * X / 2)
    np.testing.assert_allclose(found[0, 0].numpy(), np.diag(slope * start), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(found[1, 0].numpy(), np.diag(slope * X / 2), rtol=1e-5, atol=1e-6)
    for pair, matrix in near.items():
        np.testing.assert_allclose(matrix.numpy(), found[pair].numpy(), atol=2e-3)
    np.testing.assert_array_equal(state.numpy(), start)


def test_the_identity_and_parts():
    x = variable()
    np.testing.assert_array_equal(jacobian(lambda x: x, inputs=[x])[0, 0].numpy(), np.eye(4))
    np.testing.assert_array_equal(jacobian(lambda x: [x[1:3]], inputs=[x])[0, 0].numpy(), np.eye(4)[1:3])
    columns = variable(np.arange(8.0).reshape(4, 2))
    y = wp.zeros(4, dtype=float, requires_grad=True)
    part = columns[:, 1]
    for found in (jacobian(square, 4, [part], [y]), jacobian_fd(square, 4, [part], [y], eps=1e-2)):
        np.testing.assert_allclose(found[0, 0].numpy(), np.diag([2.0, 6.0, 10.0, 14.0]), atol=2e-3)


def test_element_types():
    @wp.kernel
    def traced(m: wp.array[wp.mat22d], out: wp.array[wp.float32]):
        i = wp.tid()
        out[i] = wp.float32(wp.determinant(m[i]))

    m = wp.array(np.arange(8.0).reshape(2, 2, 2), dtype=wp.mat22d, requires_grad=True)
    out = wp.zeros(2, dtype=wp.float32, requires_grad=True)
    found, near = (f(traced, 2, [m], [out])[0, 0] for f in (jacobian, jacobian_fd))
    assert found.dtype == near.dtype == wp.mat22d
    expected = np.zeros((2, 2, 2, 2))
    expected[0, 0], expected[1, 1] = [[3, -2], [-1, 0]], [[7, -6], [-5, 4]]
    np.testing.assert_allclose(found.numpy(), expected)
    np.testing.assert_allclose(near.numpy(), expected, atol=2e-2)
    assert gradcheck(traced, 2, [m], [out], atol=2e-2, show_summary=False)


def test_differences_are_of_what_the_numbers_became():
    """A step that rounding makes a tenth longer is no error of a tenth."""
    x, y = wp.array([1000.0], dtype=float, requires_grad=True), wp.zeros(1, dtype=wp.float64, requires_grad=True)

    @wp.kernel
    def widened(x: wp.array[float], y: wp.array[wp.float64]):
        y[0] = wp.float64(3.0) * wp.float64(x[0])

    np.testing.assert_allclose(jacobian_fd(widened, 1, [x], [y])[0, 0].numpy(), [[3.0]], rtol=1e-6)
    with pytest.raises(KernelValueError, match=r"jacobian_fd: eps: 1000.0 plus 1e-06 is rounded to 1000.0"):
        jacobian_fd(widened, 1, [x], [y], eps=1e-6)


def test_parts_of_jacobians():
    inputs, outputs = mixed_arguments()
    found = jacobian(mixed, 2, inputs, outputs, input_output_mask=[("b", "plane"), (0, 1)], max_outputs_per_var=3)
    assert sorted(found) == [(0, 1), (1, 0)]
    for matrix in found.values():
        assert np.isfinite(matrix.numpy()[:3]).all()
        assert np.isnan(matrix.numpy()[3:]).all()
    (near,) = jacobian_fd(mixed, 2, inputs, outputs, [("b", "plane")], max_inputs_per_var=4).values()
    known = near.numpy().reshape(4, 6)
    assert np.isfinite(known[:, :4]).all()
    assert np.isnan(known[:, 4:]).all()
    y = out_for(inputs[0])

    def pair(first, other):
        wp.launch(square, 2, [first], [y])
        return y, other

    assert list(jacobian(pair, inputs=inputs, input_output_mask=[("first", "output_0")])) == [(0, 0)]
    held = wp.array(X, dtype=float)
    assert list(jacobian(run_on, 4, [held, variable()], [out_for(held)])) == [(1, 0)]


def test_checks():
    inputs, outputs = mixed_arguments()
    assert gradcheck(mixed, 2, inputs, outputs, show_summary=False)
    x = variable()
    options = {"raise_exception": False, "show_summary": False}
    assert not gradcheck(wrong_square, 4, [x], [out_for(x)], **options)
    with pytest.raises(KernelValueError, match=r"gradcheck: wrong_square: d y / d x at \(3, 3\) is 9.000e\+00"):
        gradcheck(wrong_square, 4, [x], [out_for(x)], show_summary=False)
    assert not gradcheck(wrong_square, 4, [x], [out_for(x)], max_inputs_per_var=1, rtol=0.1, **options)
    assert gradcheck(wrong_square, 4, [x], [out_for(x)], rtol=0.6, **options)

    @wp.kernel
    def root(x: wp.array[float], y: wp.array[float]):
        i = wp.tid()
        y[i] = wp.sqrt(x[i])

    for matter in ([1.0, -1.0], [0.0, 1.0]):  # NaN, and infinity beside NaN
        v = variable(matter)
        assert not gradcheck(root, 2, [v], [out_for(v)], **options)


def test_what_a_check_says(capsys):
    x = variable()
    gradcheck(square, 4, [x], [out_for(x)])
    head, row, verdict = capsys.readouterr().out.splitlines()
    assert head.split()[:3] == ["input", "output", "largest"]
    assert row.split()[:2] == ["x", "y"]
    assert row.endswith("passed")
    assert verdict == "gradcheck of square passed"
    gradcheck(wrong_square, 4, [x], [out_for(x)], raise_exception=False)
    assert capsys.readouterr().out.splitlines()[-1] == "gradcheck of wrong_square failed"


def test_tapes():
    x, y, z = variable(), out_for(variable()), out_for(variable())
    with wp.Tape() as tape:
        wp.launch(square, 4, [x], [y])
        wp.copy(z, y)
        wp.launch(run_on, 4, [y], [z, wp.zeros(4, dtype=float)])
        wp.launch(wrong_square, 4, [y], [z])
        wp.launch(square, 4, [wp.zeros(4, dtype=float)], [wp.zeros(4, dtype=float)])  # nothing to check
    assert len(tape.launches) == 4
    held = x.list(), y.list(), z.list()
    options = {"show_summary": False, "eps": 1e-2, "atol": 2e-2}
    with pytest.raises(KernelValueError, match="gradcheck_tape: wrong_square: d y / d x"):
        gradcheck_tape(tape, **options)
    assert not gradcheck_tape(tape, raise_exception=False, **options)
    assert gradcheck_tape(tape, blacklist_kernels=["wrong_square"], **options)
    assert gradcheck_tape(tape, whitelist_kernels={"square", "run_on"}, **options)
    assert not gradcheck_tape(tape, whitelist_kernels=["wrong_square"], raise_exception=False, **options)
    assert not gradcheck_tape(tape, skip_to_launch_index=2, raise_exception=False, **options)
    assert gradcheck_tape(tape, reverse_launches=True, skip_to_launch_index=2, **options)
    masks = {"wrong_square": [("x", "nothing")]}
    with pytest.raises(KernelValueError, match="input_output_mask: wrong_square has no 'nothing'"):
        gradcheck_tape(tape, input_output_masks=masks, **options)
    assert (x.list(), y.list(), z.list()) == held
    tape.backward(grads={z: wp.ones(4, dtype=float)})
    np.testing.assert_allclose(x.grad.numpy(), 3 * X**2 * 2 * X)
    with pytest.raises(KernelTypeError, match="expected a Tape, got list"):
        gradcheck_tape([])


def test_tapes_follow_the_elements_that_were_launched_on():
    """Updated arrays are inputs and outputs, in both."""
    x, out = variable(), wp.zeros(1, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(grow, 4, [x])
        wp.launch(total, 4, [x], [out])
    assert gradcheck_tape(tape, show_summary=False, eps=1e-2, atol=0.3)
    with wp.Tape() as tape:
        wp.launch(neighbours, 4, [x])
    with pytest.raises(DifferentiationError, match="the kernel reads x and writes it"):
        gradcheck_tape(tape)


def test_inputs_come_back_where_something_is_refused():
    x = variable()

    def refused(x):
        wp.launch(neighbours, 4, [x])
        return x

    def stops(x):
        wp.launch(grow, 4, [x])
        raise RuntimeError("enough")

    def grown(x):
        wp.launch(grow, 4, [x])
        return x

    with pytest.raises(DifferentiationError, match="the kernel reads x and writes it"):
        jacobian(refused, inputs=[x])
    assert x.list() == X.tolist()
    for f in (jacobian, jacobian_fd, gradcheck):
        with pytest.raises(RuntimeError, match="enough"):
            f(stops, inputs=[x])
        assert x.list() == X.tolist()
        with pytest.raises(KernelValueError, match=r"input_output_mask: grown has no 'output_O'\n  hint: did you"):
            f(grown, inputs=[x], input_output_mask=[("x", "output_O")])
        assert x.list() == X.tolist()
    assert x.grad.list() == [0.0] * 4


def test_differences_of_what_has_no_derivative():
    x = variable()

    def shifted(x):
        wp.launch(neighbours, 4, [x])
        return x

    assert not jacobian_fd(shifted, inputs=[wp.array(np.zeros(4), dtype=float, requires_grad=True)])[0, 0].numpy().any()
    assert jacobian_fd(shifted, inputs=[x])[0, 0].shape == (4, 4)


@pytest.mark.parametrize("function", [jacobian, jacobian_fd, gradcheck])
def test_bad_input(function):
    what, x = function.__name__, variable()
    y = out_for(x)
    with pytest.raises(KernelValueError, match=f"{what}: of square no input and output .* requires_grad=True"):
        function(square, 4, [wp.array(X, dtype=float)], [y])
    with pytest.raises(KernelValueError, match="of square no input and output"):
        function(square, 4, [x], [wp.zeros(4, dtype=float)])
    with pytest.raises(KernelValueError, match=f"{what}: kernel square: there are no outputs"):
        function(square, 4, [x, y])
    with pytest.raises(KernelTypeError, match=f"{what}: kernel square: there is no dim"):
        function(square, None, [x], [y])
    with pytest.raises(KernelValueError, match=f"{what}: there are no inputs"):
        function(square, 4)
    with pytest.raises(KernelTypeError, match=f"{what}: expected a kernel or a function, got int"):
        function(3, 4, [x], [y])
    with pytest.raises(KernelValueError, match="square has no 2"):
        function(square, 4, [x], [y], input_output_mask=[(2, 0)])
    with pytest.raises(KernelTypeError, match=r"indexedarray.* has requires_grad=True, and Jacobians are"):
        function(lambda part: y, inputs=[x[wp.array([0, 1], dtype=int)]])
    with pytest.raises(KernelValueError, match="another tape is recording"), wp.Tape():
        function(square, 4, [x], [y])
    with pytest.raises(KernelValueError, match=f"{what}.*while a capture is made"), wp.ScopedCapture():
        function(square, 4, [x], [y])
    with pytest.raises(KernelTypeError, match=f"{what} cannot be called in a function that JAX traces"):
        jax.jit(lambda: function(square, 4, [x], [y]))()


def test_memory_of_jax_is_not_moved():
    x = wp.from_jax(jnp.asarray(X))
    x.requires_grad = True
    y = out_for(x)
    np.testing.assert_allclose(jacobian(square, 4, [x], [y])[0, 0].numpy(), np.diag(2 * X))
    with pytest.raises(KernelTypeError, match="memory of a JAX array, which never changes, and cannot be moved by jac"):
        jacobian_fd(square, 4, [x], [y])


def test_outputs_keep_their_shape():
    x = variable()
    with pytest.raises(KernelValueError, match="gave an output of 4 numbers, then 2"):
        jacobian_fd(lambda x: x[: 4 if x.list() == X.tolist() else 2], inputs=[x])


def test_matplotlib_is_asked_for(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    x = variable()
    with pytest.raises(ImportError, match="not installed: pip install matplotlib"):
        jacobian(square, 4, [x], [out_for(x)], plot_jacobians=True)


def test_pictures():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg", force=True)
    import matplotlib.pyplot as plt

    inputs, outputs = mixed_arguments()
    found = jacobian(mixed, 2, inputs, outputs, [("b", "plane"), ("a", "turn")])
    figure = jacobian_plot(found, mixed, inputs, show_plot=False)
    assert figure.get_suptitle() == "mixed kernel Jacobian"
    axes = figure.axes[:4]
    assert [a.axison for a in axes] == [False, True, True, False]
    assert [(a.get_xlabel(), a.get_ylabel()) for a in axes if a.axison] == [("b", "plane"), ("a", "turn")]
    assert axes[0].get_gridspec().get_width_ratios() == [2, 6]
    assert axes[0].get_gridspec().get_height_ratios() == [4, 8]
    np.testing.assert_allclose(axes[1].images[0].get_array(), found[1, 0].numpy().reshape(4, 6))
    figure = jacobian_plot(found, mixed, inputs, False, scale_colors_per_submatrix=True, title="all", log_scale=True)
    assert (len(figure.axes), figure.get_suptitle()) == (6, "all")
    assert jacobian_plot({}, mixed, inputs) is None
    shown = []
    plt.show, show = lambda: shown.append(plt.gcf().get_suptitle()), plt.show
    try:
        x = variable()
        jacobian_fd(lambda x: x, inputs=[x], plot_jacobians=True)
        gradcheck(square, 4, [x], [out_for(x)], plot_relative_error=True, plot_absolute_error=True, show_summary=False)
    finally:
        plt.show = show
        plt.close("all")
    errors = [f"square kernel Jacobian {kind} error" for kind in ("relative", "absolute")]
    assert shown == ["<lambda> kernel Jacobian", *errors]


def test_pictures_of_what_is_not_there():
    with pytest.raises(KernelTypeError, match="jacobian_plot: expected a kernel, got function"):
        jacobian_plot({}, lambda x: x)
    with pytest.raises(KernelValueError, match="jacobian_plot: inputs must be provided"):
        jacobian_plot({}, square)
    with pytest.raises(KernelValueError, match="kernel square has no input 0 and output 1"):
        jacobian_plot({(0, 1): variable()}, square, [variable()])


def test_names():
    assert "autograd" in dir(wp)
    assert wp.autograd.gradcheck is gradcheck


def test_gradients_that_are_retained_are_no_jacobians():
    def grown(x):
        made = wp.zeros(4, dtype=float, requires_grad=True)
        wp.launch(grow, 4, [x])
        wp.launch(square, 4, [x, made])
        return made

    x = wp.array(X, dtype=float, requires_grad=True, retain_grad=True)
    found = jacobian(grown, inputs=[x])[0, 0].numpy()
    np.testing.assert_allclose(found, np.diag(4 * X * (X**2 + 1)), rtol=1e-6)
    assert x.retain_grad
    assert gradcheck(grown, inputs=[x], eps=1e-2, show_summary=False)


def test_arrays_without_elements_are_checked():
    x, y = (wp.zeros(0, dtype=float, requires_grad=True) for _ in range(2))
    assert gradcheck(square, 0, [x], [y], show_summary=False)
    one = wp.zeros(1, dtype=float, requires_grad=True)
    assert gradcheck(square, 0, [one], [y], show_summary=False)


@pytest.mark.parametrize(
    ("message", "given"),
    {
        "inputs: expected a list of arguments, got an array outside of JAX": {"inputs": wp.zeros(4, dtype=float)},
        "outputs: expected a list of arguments, got an array outside of JAX": {"outputs": wp.zeros(4, dtype=float)},
        "input_output_mask: expected pairs, got 0": {"input_output_mask": [0]},
        "eps: expected a positive finite number, got inf": {"eps": np.inf},
        "eps: expected a positive finite number, got '1'": {"eps": "1"},
    }.items(),
)
def test_arguments_that_cannot_be(message, given):
    inputs, outputs = [wp.array(X, dtype=float, requires_grad=True)], [wp.zeros(4, dtype=float, requires_grad=True)]
    with pytest.raises((KernelTypeError, KernelValueError), match=message):
        jacobian_fd(square, 4, **{"inputs": inputs, "outputs": outputs, **given})
