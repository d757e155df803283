"""Arrays outside of JAX that share memory with tensors of PyTorch, and gradients. PyTorch says what is right."""

from __future__ import annotations

import gc
import subprocess
import sys
import types
import weakref
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp.errors import KernelError, KernelTypeError, KernelValueError

torch = pytest.importorskip("torch", reason="needs PyTorch (make test TORCH=2.13.0)")


@wp.kernel
def saxpy(x: wp.array(dtype=float), y: wp.array(dtype=float), a: float):
    i = wp.tid()
    y[i] = a * x[i] + y[i]


@wp.kernel
def squares(x: wp.array2d[float], total: wp.array[float]):
    i, j = wp.tid()
    wp.atomic_add(total, 0, x[i, j] ** 2.0)


@wp.kernel
def lengths(v: wp.array[wp.vec3], out: wp.array[float]):
    i = wp.tid()
    out[i] = wp.dot(v[i], v[i])


@wp.kernel
def double(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = 2.0 * x[i]


DTYPES = [torch.bool, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8, torch.uint16, torch.uint32]
DTYPES += [torch.uint64, torch.float16, torch.bfloat16, torch.float32, torch.float64]


# Memory


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_every_type_shares_memory_both_ways(dtype):
    scalar = wp.dtype_from_torch(dtype)
    assert wp.dtype_to_torch(scalar) == dtype
    tensor = torch.tensor([0, 1, 1, 3]).to(dtype)
    array = wp.from_torch(tensor)
    assert (array.dtype, array.shape, array.ptr) == (scalar, (4,), tensor.data_ptr())
    assert array.numpy().astype(float).tolist() == tensor.double().tolist()
    array[0] = array[1]
    assert tensor[0] == 1
    tensor[1] = 0
    assert array.numpy().astype(float).tolist() == tensor.double().tolist()
    back = wp.to_torch(array)
    assert (back.dtype, back.data_ptr()) == (dtype, tensor.data_ptr())
    made = wp.full((2, 3), 1, dtype=scalar)
    shared = wp.to_torch(made)
    assert (shared.dtype, tuple(shared.shape), shared.data_ptr()) == (dtype, (2, 3), made.ptr)
    shared[1, 2] = 0
    assert made.numpy().astype(float).tolist() == [[1, 1, 1], [1, 1, 0]]


def test_strides_components_and_single_numbers():
    tensor = torch.arange(24.0).reshape(4, 6)
    for part in (tensor.T, tensor[::2, 1::2], tensor[1:, 3:], tensor[:0], tensor.unfold(1, 2, 2)):
        array = wp.from_torch(part)
        assert array.shape == tuple(part.shape)
        np.testing.assert_array_equal(array.numpy(), part.numpy())
        assert torch.equal(wp.to_torch(array), part)
    vectors = wp.from_torch(tensor.reshape(8, 3), dtype=wp.vec3)
    assert (vectors.shape, vectors.dtype) == ((8,), wp.vec3)
    assert wp.to_torch(vectors).shape == (8, 3)
    assert wp.from_torch(tensor.reshape(6, 2, 2), dtype=wp.mat22).shape == (6,)
    across = torch.arange(6.0).reshape(3, 2).T  # components that are not side by side
    out = torch.zeros(2)
    wp.launch(lengths, 2, [wp.from_torch(across, dtype=wp.vec3), out])
    assert out.tolist() == [0 + 4 + 16, 1 + 9 + 25]
    for single, dtype, shape in ((torch.tensor(2.0), None, (1,)), (torch.ones(3), wp.vec3, (1,))):
        array = wp.from_torch(single, dtype=dtype)
        assert array.shape == shape
        array.fill_(7.0)
        assert single.reshape(-1)[0] == 7.0
    with pytest.raises(KernelTypeError, match=r"from_torch: expected float32 of shape \(..., 3\) for vec3"):
        wp.from_torch(torch.ones(2, 2), dtype=wp.vec3)
    with pytest.raises(KernelTypeError, match="from_torch: expected float32, got float64"):
        wp.from_torch(torch.ones(2, dtype=torch.float64), dtype=float)


def test_tensors_of_integers_are_seen_without_a_sign():
    tensor = torch.tensor([-1, 2])
    array = wp.from_torch(tensor, wp.uint64)
    assert array.list() == [2**64 - 1, 2]
    version = tensor._version
    array.fill_(7)
    assert tensor.tolist() == [7, 7]
    assert tensor._version > version
    assert wp.to_torch(array).dtype == torch.uint64
    assert wp.from_torch(torch.tensor([True, False]), wp.uint8).list() == [1, 0]


@wp.kernel
def twice_and_squared(x: wp.array[float], also: bool, y: wp.array[float], squares: wp.array3d[float]):
    i = wp.tid()
    y[i] = 2.0 * x[i] + float(squares.shape[2])
    if also:
        squares[i, 0, 0] = x[i] * x[i]


def test_tensors_without_elements_stand_for_arrays_of_any_rank():
    x, y = torch.arange(3.0), torch.zeros(3)
    nothing = wp.from_torch(torch.empty(0), return_ctype=True)
    source, target = (wp.from_torch(t, return_ctype=True) for t in (x, y))
    wp.launch(twice_and_squared, 3, [source, False], [target, nothing])
    assert y.tolist() == [0.0, 2.0, 4.0]
    with pytest.raises(KernelError, match=r"squares is None.*this thread uses one"):
        wp.launch(twice_and_squared, 3, [x, True], [y, nothing])
    with pytest.raises(KernelTypeError, match="squares"):
        wp.launch(twice_and_squared, 3, [x, False], [y, wp.from_torch(torch.empty(0))])


def test_launches_copies_and_dlpack_take_tensors():
    for x, y in (
        (torch.arange(4.0), torch.ones(4)),
        (torch.arange(8.0)[::2] / 2, torch.ones(4, 2)[:, 1]),
        (torch.arange(4.0, requires_grad=True).detach(), torch.ones(4)),
    ):
        for a in (2.0, torch.tensor(2.0), torch.tensor(2.0)):  # a tensor without axes is a number
            wp.launch(saxpy, dim=4, inputs=[x, y, a], device="cpu")
        assert y.tolist() == [1.0, 7.0, 13.0, 19.0]
    tensor, array = torch.zeros(3), wp.array([1.0, 2.0, 3.0], dtype=float)
    wp.copy(tensor, array)
    assert tensor.tolist() == [1, 2, 3]
    array.assign(torch.full((3,), 5.0))
    assert array.list() == [5, 5, 5]
    assert wp.array(torch.ones(2)).list() == [1, 1]
    assert wp.array(torch.ones(2, dtype=torch.bfloat16)).dtype == wp.bfloat16
    shared = wp.from_dlpack(tensor)
    shared.fill_(8.0)
    assert tensor.tolist() == [8, 8, 8]
    assert torch.from_dlpack(shared).data_ptr() == tensor.data_ptr()


def test_memory_lives_as_long_as_somebody_uses_it():
    tensor = torch.arange(1000.0)
    array = wp.from_torch(tensor)
    with pytest.raises(RuntimeError, match="not resizable"):
        tensor.resize_(100_000)  # it would move
    tensor.data = torch.zeros(1)
    assert array.numpy()[-1] == 999.0
    array = wp.full(1000, 3.0)
    owner = weakref.ref(array.owner.memory)
    tensor, again = wp.to_torch(array), wp.to_torch(array[10:])
    del array
    gc.collect()
    assert (tensor[-1], again[0]) == (3.0, 3.0)
    del tensor, again
    gc.collect()
    assert owner() is None


@pytest.mark.filterwarnings("ignore")  # those of PyTorch, about what is experimental
@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: [1.0], "expected a PyTorch tensor, got list"),
        (lambda: torch.ones(2, device="meta"), "expected a tensor with memory of its own"),
        (lambda: torch.eye(2).to_sparse(), "the tensor has the layout torch.sparse_coo"),
        (lambda: torch.tensor([1 + 2j]).conj().imag, "the tensor is a negative that has not been computed"),
        (lambda: torch.tensor([1 + 2j]), "expected a tensor of a type of the kernel language, got one of torch.compl"),
        (lambda: torch.ones(2).to(torch.float8_e5m2), "expected a tensor of a type of the kernel language, got one"),
    ],
)
def test_tensors_that_cannot_be_shared(make, message):
    tensor = make()
    with pytest.raises(KernelTypeError, match=f"from_torch: {message}") as caught:
        wp.from_torch(tensor)
    assert "test_torch.py" in str(caught.value)
    if isinstance(tensor, torch.Tensor):
        with pytest.raises(KernelError, match=f"kernel saxpy: argument 'x': {message}"):
            wp.launch(saxpy, 1, [tensor, torch.zeros(1), 1.0])
        with pytest.raises(KernelError, match=message):
            wp.from_dlpack(tensor)


@pytest.mark.filterwarnings("ignore:`torch.jit.script` is deprecated")  # PyTorch's own doing
def test_tensors_that_are_transformed():
    def launched(x):
        wp.launch(double, 3, [x, torch.zeros(3)])
        return x

    with pytest.raises(KernelTypeError, match="argument 'x': expected a tensor with memory of its own"):
        torch.vmap(launched)(torch.ones(2, 3))
    forward = torch.autograd.forward_ad
    with forward.dual_level(), pytest.raises(KernelTypeError, match="carries a tangent"):
        launched(forward.make_dual(torch.ones(3), torch.ones(3)))


def test_elements_in_one_place_are_not_written():
    wide = torch.zeros(1).expand(4)
    for target in (wide, np.lib.stride_tricks.as_strided(np.zeros(3, np.float32), (4,), (2,))):
        with pytest.raises(KernelTypeError, match=r"'y' is written by the kernel, and several of its elements are in"):
            wp.launch(saxpy, 4, [torch.ones(4), target, 1.0])
    out = torch.zeros(4)
    wp.launch(saxpy, 4, [wide + 1.0, out, 2.0])  # they may be read
    assert out.tolist() == [2, 2, 2, 2]
    array = wp.from_torch(wide)
    with pytest.raises(KernelTypeError, match="read-only"):
        array.fill_(1.0)
    tape = wp.Tape()
    with tape, pytest.raises(KernelTypeError, match="argument 'x': several of its elements are in one place"):
        wp.launch(double, 4, [array, out])


def test_what_tensors_cannot_be():
    array = wp.zeros(4)
    with pytest.raises(KernelValueError, match="to_torch: PyTorch has no tensors with negative strides"):
        wp.to_torch(array[::-1])
    with pytest.raises(KernelTypeError, match="to_torch: expected an array outside of JAX, got ndarray"):
        wp.to_torch(np.zeros(3))
    with pytest.raises(KernelTypeError, match="expected a scalar type, got vec3"):
        wp.dtype_to_torch(wp.vec3)
    with pytest.raises(KernelTypeError, match=r"got torch\.complex64"):
        wp.dtype_from_torch(torch.complex64)


def test_values_of_jax_do_not_change():
    values = jnp.arange(3.0)
    shared = wp.from_jax(values)
    with pytest.raises(KernelTypeError, match="memory of a JAX array, which never changes") as caught:
        wp.to_torch(shared)
    assert caught.value.hint == "pass jaxwarp.clone(array)"
    for take in (torch.from_dlpack, torch.as_tensor):
        with pytest.raises(BufferError, match="is read-only, which tensors of the library that asks cannot be"):
            take(shared)
    wp.to_torch(wp.clone(shared)).fill_(9.0)
    assert values.tolist() == [0, 1, 2]


def test_names_of_devices_and_streams():
    assert wp.device_from_torch(torch.device("cpu")) == wp.device_from_torch("cpu") == "cpu"
    assert wp.device_from_torch("cuda:1") == "cuda:1"
    assert wp.device_from_torch(torch.device("cuda")) == "cuda:0"
    assert wp.device_to_torch(wp.get_device()) == wp.device_to_torch() == "cpu"
    assert torch.device(wp.device_to_torch("cuda:1")) == torch.device("cuda", 1)
    assert wp.device_to_torch("cuda") == "cuda:0"
    for wrong in ("meta", "nonsense"):
        with pytest.raises(KernelTypeError, match="device_from_torch: expected a"):
            wp.device_from_torch(wrong)
        with pytest.raises(KernelTypeError, match="device_to_torch: expected a"):
            wp.device_to_torch(wrong)
    stream = wp.stream_from_torch(types.SimpleNamespace(cuda_stream=64, device=torch.device("cuda:1")))
    assert (stream.cuda_stream, stream.device) == (64, "cuda:1")
    with pytest.raises(KernelTypeError, match="stream_to_torch: expected a Stream"):
        wp.stream_to_torch(3)
    if not torch.cuda.is_available():
        for call in (lambda: wp.stream_from_torch("cuda:0"), lambda: wp.stream_to_torch(stream)):
            with pytest.raises(KernelValueError, match="PyTorch has no CUDA device here"):
                call()


# Gradients


def test_gradients_are_shared_with_an_optimiser_that_clears_them():
    x = torch.randn(5, 2, generator=torch.Generator().manual_seed(1)).requires_grad_()
    expected = x.detach().clone().requires_grad_()
    total = wp.zeros(1, dtype=float, requires_grad=True)
    array = wp.from_torch(x)
    assert array.requires_grad
    assert array.grad.ptr == x.grad.data_ptr()
    part = array[1:3].grad  # of the same memory
    tape = wp.Tape()
    with tape:
        wp.launch(squares, (5, 2), [array, total])
    optimisers = [torch.optim.Adam([v], lr=0.1) for v in (x, expected)]
    for iteration in range(4):
        optimisers[0].zero_grad(set_to_none=iteration % 2 == 0)
        optimisers[1].zero_grad()
        if iteration == 3:  # PyTorch adds to the same gradient
            (3.0 * x).sum().backward()
            (3.0 * expected).sum().backward()
        total.grad.zero_()
        tape.backward(total)
        (expected**2).sum().backward()
        torch.testing.assert_close(x.grad, expected.grad)
        assert torch.equal(wp.to_torch(part), x.grad[1:3])
        for optimiser in optimisers:
            optimiser.step()
    torch.testing.assert_close(x, expected)
    x.grad = None
    assert not array.grad.numpy().any()
    x.grad = torch.full((5, 2), 4.0)
    assert array.grad.numpy().tolist() == [[4.0, 4.0]] * 5


def test_gradients_of_arrays_are_those_of_tensors():
    array = wp.array(np.arange(6.0).reshape(3, 2), dtype=float, requires_grad=True)
    total = wp.zeros(1, dtype=float, requires_grad=True)
    tensor = wp.to_torch(array)
    assert tensor.requires_grad
    assert tensor.grad.data_ptr() == array.grad.ptr
    optimiser = torch.optim.SGD([tensor], lr=0.25)
    tape = wp.Tape()
    with tape:
        wp.launch(squares, (3, 2), [array, total])
    for iteration in (1, 2):
        optimiser.zero_grad()
        assert tensor.grad is None
        tape.backward(total)
        optimiser.step()  # x - 0.25 * 2 x
        np.testing.assert_allclose(array.numpy(), np.arange(6.0).reshape(3, 2) * 0.5**iteration)
    assert not wp.to_torch(array, requires_grad=False).requires_grad
    with pytest.raises(KernelTypeError, match="to_torch: requires_grad: expected an element type of floats"):
        wp.to_torch(wp.zeros(2, dtype=int), requires_grad=True)
    with pytest.raises(KernelTypeError, match="from_torch: requires_grad: expected an element type of floats"):
        wp.from_torch(torch.ones(2, dtype=torch.int32), requires_grad=True)


def test_gradients_that_are_given():
    x, gradient = torch.ones(4), torch.zeros(4)
    array = wp.from_torch(x, grad=gradient)
    array.grad.fill_(2.0)
    assert gradient.tolist() == [2, 2, 2, 2]
    assert x.grad is None
    assert wp.from_torch(x, grad=wp.zeros(4)).requires_grad
    assert not wp.from_torch(x.requires_grad_(), requires_grad=False).requires_grad
    assert x.grad is None
    computed = wp.from_torch(x * 2.0)  # has no gradient that lasts: an array's own
    assert computed.grad.list() == [0, 0, 0, 0]
    with pytest.raises(KernelTypeError, match=r"grad: expected an array of float32 of shape \(4,\)"):
        wp.from_torch(x, grad=torch.zeros(3))


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.x, ctx.y = wp.from_torch(x), wp.zeros(len(x), requires_grad=True)
        wp.launch(double, len(x), [ctx.x], [ctx.y])
        return wp.to_torch(ctx.y)

    @staticmethod
    def backward(ctx, adj_y):
        ctx.y.grad = wp.from_torch(adj_y)
        wp.launch(double, len(adj_y), [ctx.x], [ctx.y], adj_inputs=[ctx.x.grad], adj_outputs=[ctx.y.grad], adjoint=True)
        return wp.to_torch(ctx.x.grad)


@torch.library.custom_op("jaxwarp_test::doubled", mutates_args=())
def doubled(x: torch.Tensor) -> torch.Tensor:
    out = torch.empty_like(x)
    wp.launch(double, len(x), [x, out])
    return out


@doubled.register_fake
def _(x):
    return torch.empty_like(x)


doubled.register_autograd(lambda ctx, adj: doubled(adj), setup_context=lambda ctx, inputs, output: None)


@pytest.mark.parametrize("function", [Doubled.apply, doubled], ids=["Function", "custom_op"])
def test_functions_with_derivatives(function):
    """PyTorch adds what `backward` returns, once."""
    x = torch.arange(3.0, requires_grad=True)
    weights = torch.tensor([1.0, 2.0, 3.0])
    for iteration in (1, 2):
        y = function(x)
        assert y.tolist() == [0, 2, 4]
        (y * weights).sum().backward()
        assert x.grad.tolist() == [2.0 * iteration, 4.0 * iteration, 6.0 * iteration]
    y = function(x * x)
    y.sum().backward()  # an adjoint whose elements are in one place
    assert x.grad.tolist() == [4.0, 8.0 + 4.0, 12.0 + 8.0]


def test_pytorch_refuses_derivatives_by_what_launches_have_overwritten():
    weight = torch.ones(3, requires_grad=True)
    for write in (
        lambda x, a: wp.launch(double, 3, [torch.ones(3), a]),
        lambda x, a: wp.launch(double, 3, [torch.ones(3), x]),
        lambda x, a: wp.launch(double, 2, [torch.ones(2), a[::2]]),
        lambda x, a: a.fill_(1.0),
        lambda x, a: a[1:].assign(np.ones(2, np.float32)),
        lambda x, a: wp.copy(x, wp.zeros(3)),
        lambda x, a: wp.launch(double, 3, [wp.ones(3), wp.ones(3)], adj_inputs=[a, wp.ones(3)], adjoint=True),
    ):
        tensor, array = torch.full((3,), 3.0), wp.full(3, 3.0)
        for x, a in ((tensor, wp.from_torch(tensor)), (wp.to_torch(array), array)):
            y = (weight * x).sum()
            write(x, a)
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                y.backward()
            y = (weight * x).sum()
            wp.launch(double, 3, [a, wp.zeros(3)])
            y.backward()  # it was only read


def test_launches_on_what_pytorch_records_are_refused():
    x = torch.ones(3, requires_grad=True)
    for inputs in ([x, torch.zeros(3)], [torch.zeros(3), x], [x * 2.0, torch.zeros(3)]):
        with pytest.raises(KernelTypeError, match="the tensor requires a gradient, and PyTorch") as caught:
            wp.launch(double, 3, inputs)
        assert caught.value.hint == "pass jaxwarp.from_torch(tensor), for a Tape, or tensor.detach()"
    with torch.no_grad():
        wp.launch(double, 3, [torch.ones(3), x])
    assert x.tolist() == [2, 2, 2]


def test_a_gradient_of_jax_is_not_used_up():
    x, y = wp.ones(3, requires_grad=True), wp.zeros(3, requires_grad=True)
    seeds = jnp.ones(3)
    tape = wp.Tape()
    with tape:
        wp.launch(double, 3, [x, y])
    y.grad = wp.from_jax(seeds)
    with pytest.raises(KernelTypeError, match=r"the gradient of array of float32 of shape \(3,\) is read-only"):
        tape.backward()
    assert seeds.tolist() == [1, 1, 1]
    y.grad = wp.zeros(3)
    tape.backward(grads={y: wp.from_torch(torch.ones(1).expand(3))})
    assert x.grad.list() == [2, 2, 2]


# Processes


def _run(path: Path, code: str) -> subprocess.CompletedProcess:
    path.write_text(code)
    return subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=300, check=False)


def test_pytorch_is_imported_by_who_asks(tmp_path):
    found = _run(
        tmp_path / "asks.py",
        """
import sys
import numpy as np
import jaxwarp as wp
a = wp.array(np.ones(3))
wp.copy(wp.zeros(3, dtype=wp.float64), a)
try:
    wp.from_torch(a)
except TypeError as error:
    print(error.message)
assert "torch" not in sys.modules
sys.modules["torch"] = None  # as if it were not installed
try:
    wp.to_torch(a)
except ValueError as error:
    print(error.message.split(":")[0], "/", error.hint)
""",
    )
    assert found.stdout.splitlines() == [
        "from_torch: expected a PyTorch tensor, got an array outside of JAX",
        "PyTorch cannot be imported / pip install torch",
    ], found.stderr


def test_tensors_may_outlive_python(tmp_path):
    """PyTorch ends tensors when Python is half gone, and calls who lent them their memory."""
    found = _run(
        tmp_path / "outlives.py",
        """
import torch
import jaxwarp as wp
@wp.kernel
def square(x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid()
    y[i] = x[i] * x[i]
a = wp.array([1.0, 2.0, 3.0], dtype=float, requires_grad=True)
b = wp.zeros(3, dtype=float, requires_grad=True)
t = torch.from_dlpack(a)
tape = wp.Tape()
with tape:
    wp.launch(square, 3, [a, b])
def backward():  # keeps the module, and so do its globals the function: they end last
    tape.backward()
backward()
print("end", end="")
""",
    )
    assert (found.returncode, found.stdout, found.stderr) == (0, "end", "")
