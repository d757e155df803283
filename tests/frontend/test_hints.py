"""Hints are followed: the wrong program says what to write, and what it says works.

`hints.txt` holds kernels: the wrong one, its message, its hint, and the one that follows the hint. `CALLS` are calls.
"""

from __future__ import annotations

import builtins
import re
from pathlib import Path

import jax.numpy as jnp
import pytest
from language import define

import jaxwarp as wp
from jaxwarp.errors import KernelError

FILE = Path(__file__).parents[1] / "hints.txt"


def read_kernels() -> dict[str, tuple[str, str, str, str]]:
    blocks = re.split(r"^===== (.*)\n", FILE.read_text(), flags=re.MULTILINE)[1:]
    form = re.compile(r"(.*?)^----- (.*?)\n----- (.*?)\n(.*)", re.DOTALL | re.MULTILINE)
    return {name: form.fullmatch(body).groups() for name, body in zip(blocks[::2], blocks[1::2], strict=True)}


KERNELS = read_kernels()


def run_kernel(source: str) -> None:
    """Defines the kernel k and launches it, as JAX does."""
    scope = define(source.replace("def k(", "@wp.kernel\ndef k("))
    k = scope["k"]
    given = {"x": jnp.ones((3,) * k.arguments[0].annotation.ndim), "s": 2.0}
    inputs = [given[a.name] for a in k.arguments[:-1]]
    (y,) = wp.jax_kernel(k, launch_dims=2, output_dims=3)(*inputs)
    y.block_until_ready()


@pytest.mark.parametrize("name", KERNELS)
def test_hint_of_a_kernel(name):
    wrong, message, hint, right = KERNELS[name]
    with pytest.raises(KernelError) as caught:
        run_kernel(wrong)
    assert (caught.value.message, caught.value.hint) == (message, hint)
    run_kernel(right)


COMMON = """
import jax, jax.numpy as jnp, numpy as np
from jaxwarp import sparse

@wp.kernel
def scale(x: wp.array[float], s: float, y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i] * s

@wp.kernel
def both(x: wp.array[float], y: wp.array[float], z: wp.array[float]):
    i = wp.tid()
    y[i] = 2.0 * x[i]
    z[i] = 3.0 * x[i]

@wp.kernel
def rise(a: wp.array[float]):
    i = wp.tid()
    a[i] = a[i] + 1.0

@wp.kernel
def bump(a: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    a[i] = a[i] + 1.0
    y[i] = a[i]

@wp.kernel
def bits(key: wp.array[wp.uint32], y: wp.array[float]):
    y[wp.tid()] = float(key[0])

@wp.kernel
def move(p: wp.array[wp.vec3], y: wp.array[wp.vec3]):
    i = wp.tid()
    y[i] = p[i]

@wp.kernel
def stretch(a: wp.array[float], s: float):
    i = wp.tid()
    a[i] = a[i] * s

@wp.kernel
def stir(a: wp.array[float], x: wp.array[float]):
    i = wp.tid()
    a[i] = a[i] + x[i]

@wp.kernel
def gather(x: wp.array[float], a: wp.array[float]):
    i = wp.tid()
    a[i] += x[i]

f = wp.jax_kernel(scale)
x = jnp.arange(4.0)
four = wp.zeros(4, dtype=float)
folded = wp.array(ptr=four.ptr, shape=4, strides=(0,), dtype=float)
"""

# name -> (wrong call, part of the message, the hint, the call that follows it)
CALLS = {
    "integers for floats": (
        "f(jnp.arange(4), 2.0)", "expected float32 of shape (?,), got int32",
        "convert it: jax.numpy.asarray(x, 'float32')", "f(jax.numpy.asarray(jnp.arange(4), 'float32'), 2.0)"),
    "an array of jaxwarp of integers": (
        "f(wp.zeros(4, dtype=int), 2.0)", "expected float32 of shape (?,), got int32",
        "convert it: jax.numpy.asarray(x, 'float32')", "f(jax.numpy.asarray(wp.zeros(4, dtype=int), 'float32'), 2.0)"),
    "a list": ("f([1.0, 2.0], 2.0)", "got list", "make an array of it: jax.numpy.asarray(x, 'float32')",
               "f(jax.numpy.asarray([1.0, 2.0], 'float32'), 2.0)"),
    "a scalar of JAX of another type": (
        "f(x, jnp.int32(2))", "argument 's': expected float32 of shape (), got int32",
        "convert it: jax.numpy.asarray(s, 'float32')", "f(x, jax.numpy.asarray(jnp.int32(2), 'float32'))"),
    "an array for a number": ("f(x, jnp.ones(1))", "expected float32 of shape (), got float32 of shape (1,)",
                              "pass a number, or one element: s[0]", "f(x, jnp.ones(1)[0])"),
    "a number for an array": ("f(1.0, 2.0)", "argument 'x': expected float32 of shape (?,), got float",
                              "make an array of it: jax.numpy.full(shape, x, 'float32')",
                              "f(jax.numpy.full((4,), 1.0, 'float32'), 2.0)"),
    "a missing input": ("f(x)", "expected 2 inputs (x, s), got 1", "s is missing", "f(x, 2.0)"),
    "an input too many": ("f(x, 2.0, x)", "expected 2 inputs (x, s), got 3",
                          "leave out y: outputs are returned; output_dims says their shape",
                          "f(x, 2.0, output_dims=4)"),
    "an output by name": ("f(x, 2.0, y=x)", "'y' is an output, not an input",
                          "leave it out: outputs are returned; output_dims says their shape, in_out_argnames which are"
                          " updated", "f(x, 2.0, output_dims=x.shape)"),
    "a name that is not there": ("f(X=x, s=2.0)", "no input is named 'X'",
                                 "pass the inputs by position, or by these names", "f(x=x, s=2.0)"),
    "a forgotten update of an output": (
        "wp.jax_kernel(rise)(x)", "expected 0 inputs, got 1",
        "the kernel updates its input: jax_kernel(rise, num_outputs=1, in_out_argnames=['a'])",
        "wp.jax_kernel(rise, num_outputs=1, in_out_argnames=['a'])(x)"),
    "a kernel that only updates, without outputs": (
        "wp.jax_kernel(rise, num_outputs=0)(x)", "num_outputs: expected 1 to 1, got 0",
        "the kernel updates its input: num_outputs=1, in_out_argnames=['a']",
        "wp.jax_kernel(rise, num_outputs=1, in_out_argnames=['a'])(x)"),
    "an update before a number": (
        "wp.jax_kernel(stretch)(x, 2.0)", "argument 's' is an output argument: expected an array, got float32",
        "the kernel updates its input: num_outputs=1, in_out_argnames=['a']",
        "wp.jax_kernel(stretch, num_outputs=1, in_out_argnames=['a'])(x, 2.0)"),
    "an update before an input": (
        "wp.jax_kernel(stir)(x, x)", "expected 1 input (a), got 2",
        "the kernel updates its input: jax_kernel(stir, num_outputs=1, in_out_argnames=['a'])",
        "wp.jax_kernel(stir, num_outputs=1, in_out_argnames=['a'])(x, x)"),
    "an update of the first, without the second": (
        "wp.jax_kernel(stir)(x)", "argument 'a' is an input, but the kernel writes to it",
        "update it: num_outputs=1, in_out_argnames=['a']",
        "wp.jax_kernel(stir, num_outputs=1, in_out_argnames=['a'])(x, x)"),
    "sums in an array that is given": (
        "wp.jax_kernel(gather)(x, x)", "expected 1 input (x), got 2",
        "leave out a: outputs are returned; output_dims says their shape; or pass an array to add to: "
        "jax_kernel(gather, num_outputs=1, in_out_argnames=['a'])",
        "wp.jax_kernel(gather, num_outputs=1, in_out_argnames=['a'])(x, x)"),
    "elements in one place": (
        "wp.launch(rise, 4, [folded])",
        "argument 'a' is written by the kernel, and several of its elements are in one place (strides (0,))",
        "write to a copy, array.contiguous(), where each element has a place of its own",
        "wp.launch(rise, 4, [folded.contiguous()])"),
    "a matrix of no blocks": (
        "wp.types.as_dtype(sparse.BsrMatrix)",
        "<class 'jaxwarp.sparse.matrix.BsrMatrix'> is not a type of the kernel language",
        "say what its blocks are: BsrMatrix[float], BsrMatrix[wp.mat33]", "wp.types.as_dtype(sparse.BsrMatrix[float])"),
    "a mode that is not there": ("wp.jax_kernel(scale, mode='dbg')", "mode: expected 'release' or 'debug', got 'dbg'",
                                 "leave it out: jaxwarp.config.mode decides", "wp.jax_kernel(scale)"),
    "a mesh of numbers": (
        "wp.Mesh(wp.zeros((3, 3)), wp.array([0, 1, 2], dtype=int))",
        "Mesh: points: expected an array of vec3, got one of float32, of shape (3, 3)",
        "make it with dtype=vec3: array(points, dtype=vec3)",
        "wp.Mesh(wp.array(wp.zeros((3, 3)), dtype=wp.vec3), wp.array([0, 1, 2], dtype=int))"),
    "a forgotten output": ("wp.jax_kernel(both)(x)", "expected 2 inputs (x, y), got 1",
                           "the kernel writes to y, z: jax_kernel(both, num_outputs=2)",
                           "wp.jax_kernel(both, num_outputs=2)(x)"),
    "a forgotten output, given": (
        "wp.jax_kernel(both)(x, x)", "argument 'y' is an input, but the kernel writes to it",
        "make it an output: num_outputs=2; or pass it and update it: num_outputs=2, in_out_argnames=['y']",
        "wp.jax_kernel(both, num_outputs=2)(x) + wp.jax_kernel(both, num_outputs=2, in_out_argnames=['y'])(x, x)"),
    "a forgotten output, of named ones": (
        "wp.jax_kernel(both, outputs='z')(x)", "expected 2 inputs (x, y), got 1",
        "the kernel writes to y, z: outputs=('y', 'z')",
        "wp.jax_kernel(both, outputs=('y', 'z'))(x)"),
    "a forgotten output of named ones, given": (
        "wp.jax_kernel(both, outputs='z')(x, x)", "argument 'y' is an input, but the kernel writes to it",
        "make it an output: outputs=('y', 'z'); or pass it and update it: outputs=('y', 'z'), in_out_argnames=['y']",
        "wp.jax_kernel(both, outputs=('y', 'z'))(x).y"
        " + wp.jax_kernel(both, outputs=('y', 'z'), in_out_argnames=['y'])(x, x).y"),
    "a forgotten update, of named outputs": (
        "wp.jax_kernel(rise, outputs='a')(x)", "expected 0 inputs, got 1",
        "the kernel updates its input: outputs='a', in_out_argnames=['a']",
        "wp.jax_kernel(rise, outputs='a', in_out_argnames=['a'])(x)"),
    "a named output that is a number": (
        "wp.jax_kernel(scale, outputs=('s', 'y'))", "argument 's' is an output argument",
        "outputs are arrays, and the last arguments: outputs='y'", "wp.jax_kernel(scale, outputs='y')"),
    "a misspelled option of a call": ("f(x, 2.0, launch_dim=4)", "no input is named 'launch_dim'",
                                      "did you mean launch_dims?", "f(x, 2.0, launch_dims=4)"),
    "a forgotten update": ("wp.jax_kernel(bump)(x)", "argument 'a' is an input, but the kernel writes to it",
                           "update it: num_outputs=2, in_out_argnames=['a']",
                           "wp.jax_kernel(bump, num_outputs=2, in_out_argnames=['a'])(x)"),
    "an axis too many": ("f(jnp.ones((2, 4)), 2.0)", "got float32 of shape (2, 4)",
                         "map over its first axis with jax.vmap, or annotate the argument array(dtype=..., ndim=2) and"
                         " index it with 2 indices", "jax.vmap(f, (0, None))(jnp.ones((2, 4)), 2.0)"),
    "an axis too few": ("f(jnp.float32(1), 2.0)", "got float32 of shape ()", "give it 1 axis: x.reshape(...)",
                        "f(jnp.float32(1).reshape(1), 2.0)"),
    "components": ("wp.jax_kernel(move)(jnp.ones((4, 2)))", "expected float32 of shape (?, 3)",
                   "the last axes are the components: (3,)", "wp.jax_kernel(move)(jnp.ones((4, 3)))"),
    "a complex array": ("f(x.astype(complex), 2.0)", "got complex64",
                        "pass its parts: x.real.astype('float32'), x.imag.astype('float32')",
                        "f(x.astype(complex).real.astype('float32'), 2.0)"),
    "a random key": ("f(jax.random.key(0), 2.0)", "got key<fry>",
                     "annotate the argument wp.PRNGKey, or pass its bits: jax.random.key_data(x), for array[wp.uint32]",
                     "wp.jax_kernel(bits)(jax.random.key_data(jax.random.key(0)))"),
    "text": ("f(x, 'a')", "got str", "pass a number, or a scalar of JAX", "f(x, 2.0)"),
    "a tree": ("f({'x': x}, 2.0)", "got dict", "pass arrays one by one, each as an argument of its own", "f(x, 2.0)"),
    "a kernel called": ("scale(x, 2.0)", "is a kernel and cannot be called directly",
                        "wrap it for JAX: jax_kernel(scale)(...)", "wp.jax_kernel(scale)(x, 2.0)"),
    "no kernel": ("wp.jax_kernel(len)", "expected a kernel", "decorate it with @jaxwarp.kernel",
                  "wp.jax_kernel(scale)"),
    "outputs that are numbers": ("wp.jax_kernel(scale, num_outputs=3)", "argument 's' is an output argument",
                                 "outputs are arrays, and the last arguments: num_outputs=1 at most",
                                 "wp.jax_kernel(scale, num_outputs=1)"),
    "too many outputs": ("wp.jax_kernel(scale, num_outputs=9)", "num_outputs: expected 1 to 3, got 9",
                         "the outputs are the last arguments, which the kernel writes: count them",
                         "wp.jax_kernel(scale, num_outputs=1)"),
    "a number updated": ("wp.jax_kernel(scale, 2, in_out_argnames=['s'])", "argument 's' is an in-out argument",
                         "leave 's' out of in_out_argnames: numbers are passed by value", "wp.jax_kernel(scale)"),
    "an update that is not there": ("wp.jax_kernel(bump, 2, in_out_argnames=['q'])", "no argument is named 'q'",
                                    "write in_out_argnames=['a'], say",
                                    "wp.jax_kernel(bump, 2, in_out_argnames=['a'])"),
    "traced dimensions": ("jax.jit(lambda n: f(x, 2.0, launch_dims=n))(4)", "launch_dims: expected an integer",
                          "dimensions are part of the program: make them static_argnames of jax.jit",
                          "jax.jit(lambda n: f(x, 2.0, launch_dims=n), static_argnames='n')(n=4)"),
    "float dimensions": ("f(x, 2.0, launch_dims=4.0)", "launch_dims: expected an integer",
                         "write a number, (n, m) or [n, m]; int(...) makes one of a float",
                         "f(x, 2.0, launch_dims=int(4.0))"),
    "negative dimensions": ("f(x, 2.0, launch_dims=-1)", "Extents must be non-negative, got -1",
                            "write numbers from 0 on",
                            "f(x, 2.0, launch_dims=1, output_dims=4)"),
    "dimensions of another output": ("f(x, 2.0, output_dims={'z': 4})", "no output is named 'z'",
                                     "write output_dims={'y': (n,)}", "f(x, 2.0, output_dims={'y': (4,)})"),
    "a way to map that is none": ("wp.jax_kernel(scale, vmap_method='sequentail')", "vmap_method: expected one of",
                                  "did you mean sequential?", "wp.jax_kernel(scale, vmap_method='sequential')"),
    "launch: another type": (
        "wp.launch(scale, 4, [wp.zeros(4, dtype=int), 2.0, wp.zeros(4)])", "expected float32 of shape (?,), got int32",
        "convert it: jaxwarp.array(x, dtype=float32)",
        "wp.launch(scale, 4, [wp.array(wp.zeros(4, dtype=int), dtype=wp.float32), 2.0, wp.zeros(4)])"),
    "a list of a launch": (
        "wp.launch(scale, 2, [[1.0, 2.0], 2.0, wp.zeros(2)])", "expected float32 of shape (?,), got list",
        "make an array of it: jaxwarp.array(x, dtype=float32)",
        "wp.launch(scale, 2, [wp.array([1.0, 2.0], dtype=wp.float32), 2.0, wp.zeros(2)])"),
    "a number of a launch for an array": (
        "wp.launch(scale, 2, [1.0, 2.0, wp.zeros(2)])", "expected float32 of shape (?,), got float",
        "make an array of it: jaxwarp.full(shape, x, dtype=float32)",
        "wp.launch(scale, 2, [wp.full(2, 1.0, dtype=wp.float32), 2.0, wp.zeros(2)])"),
    "launch: another type, NumPy": (
        "wp.launch(scale, 4, [np.zeros(4), 2.0, wp.zeros(4)])", "expected float32 of shape (?,), got float64",
        "convert it: jaxwarp.array(x, dtype=float32)",
        "wp.launch(scale, 4, [wp.array(np.zeros(4), dtype=wp.float32), 2.0, wp.zeros(4)])"),
    "launch: another type of an output": (
        "wp.launch(scale, 4, [wp.zeros(4), 2.0], [wp.zeros(4, dtype=int)])", "argument 'y': expected float32",
        "the kernel writes to it: make it with zeros(shape, dtype=float32)",
        "wp.launch(scale, 4, [wp.zeros(4), 2.0], [wp.zeros(4, dtype=wp.float32)])"),
    "launch: another type of an output of NumPy": (
        "wp.launch(scale, 4, [wp.zeros(4), 2.0, np.zeros(4)])", "argument 'y': expected float32",
        "the kernel writes to it: make it with zeros(shape, dtype=float32)",
        "wp.launch(scale, 4, [wp.zeros(4), 2.0, wp.zeros(4, dtype=wp.float32)])"),
    "launch: outputs forgotten": (
        "wp.launch(scale, 4, [wp.zeros(4), 2.0])", "expected 3 arguments (x, s, y), got 2",
        "launch takes all of them, the arrays that are written too: inputs=[...], outputs=[...]",
        "wp.launch(scale, 4, inputs=[wp.zeros(4), 2.0], outputs=[wp.zeros(4)])"),
    "launch: an array of JAX written": (
        "wp.launch(scale, 4, [x, 2.0, x])", "argument 'y' is written by the kernel, but it is a JAX array",
        "write to an output, or to a copy", "wp.launch(scale, 4, [x, 2.0, wp.array(x)])"),
    "launch: an axis too many": (
        "wp.launch(scale, 4, [wp.zeros((4, 4)), 2.0, wp.zeros(4)])", "got float32 of shape (4, 4)",
        "pass a part of it, or annotate the argument array(dtype=..., ndim=2) and index it with 2 indices",
        "wp.launch(scale, 4, [wp.zeros((4, 4))[0], 2.0, wp.zeros(4)])"),
    "launch: the result of jax_kernel": ("wp.launch(f, 4, [x])", "launch: expected a kernel",
                                         "pass its attribute kernel",
                                         "wp.launch(f.kernel, 4, [x, 2.0, wp.zeros(4)])"),
    "assignment of another shape": ("wp.zeros(4).assign(np.ones(5, np.float32))", "expected float32 of shape (4,)",
                                    "convert the source, or assign to a part: array[:n].assign(src)",
                                    "wp.zeros(5)[:3].assign(np.ones(3, np.float32))"),
    "an index out of range": ("wp.zeros(3)[7]", "index 7 is out of range, the extent is 3",
                              "indices go from 0 to 2, or from -3 to -1", "wp.zeros(3)[2], wp.zeros(3)[-3]"),
    "reshaped": ("wp.zeros(6).reshape(4)", "cannot reshape array of shape (6,) (size 6) into shape (4,) (size 4)",
                 "the number of elements must stay",
                 "wp.zeros(6).reshape((2, 3))"),
    "a loss without a gradient": ("t = wp.Tape()\nt.backward(wp.zeros(1))", "expected an array with requires_grad=True",
                                  "make it with zeros(1, requires_grad=True), before it is launched on",
                                  "a = wp.zeros(1, requires_grad=True)\nt = wp.Tape()\nwith t:\n"
                                  "    wp.launch(scale, 1, [wp.ones(1), 2.0, a])\nt.backward(a)"),
    "a CUDA device": ("wp.set_device('gpu')", 'expected the device "cpu"',
                      'write "cpu", or leave the device out; CUDA has no device here', "wp.set_device('cpu')"),
    "a device of JAX": ("wp.zeros(3, device=jax.devices('cpu')[0])", "expected a device, such as", 'write "cpu"',
                        "wp.zeros(3, device='cpu')"),
    "threads by Warp's name": ("f(x, 2.0, dim=4)", "no input is named 'dim'", "did you mean launch_dims?",
                               "f(x, 2.0, launch_dims=4)"),
    "a branch on a value in a callable": (
        "def g(n: wp.array[float], y: wp.array[float]):\n    if n[0] > 0.0:\n        wp.copy(y, n)\n"
        "wp.jax_callable(g)(x)", "does not take an array of a jax_callable",
        "to branch on it write capture_if; or look at values with graph_mode=GraphMode.NONE",
        "def g(n: wp.array[float], y: wp.array[float]):\n    if float(n[0]) > 0.0:\n        wp.copy(y, n)\n"
        "wp.jax_callable(g, graph_mode=wp.GraphMode.NONE)(x)"),
    "a matrix for a vector": (
        "A = sparse.bsr_diag(jnp.ones(4))\nA @ jnp.ones((4, 3))", "expected 4 numbers, got an array of shape (4, 3)",
        "map over the columns: jax.vmap(lambda x: A @ x, 1, 1)(X)",
        "A = sparse.bsr_diag(jnp.ones(4))\njax.vmap(lambda x: A @ x, 1, 1)(jnp.ones((4, 3)))"),
    "a list of structs": (
        "@wp.struct\nclass P:\n    a: float\n@wp.kernel\n"
        "def k(ps: wp.array[P], y: wp.array[float]):\n    y[wp.tid()] = ps[wp.tid()].a\n"
        "wp.jax_kernel(k)([P(1.0), P(2.0)])", "expected an array of struct P with 1 axis, got a list",
        "stack its structs: jax.tree.map(lambda *a: jax.numpy.stack(a), *ps)",
        "@wp.struct\nclass P:\n    a: float\n@wp.kernel\n"
        "def k(ps: wp.array[P], y: wp.array[float]):\n    y[wp.tid()] = ps[wp.tid()].a\nps = [P(1.0), P(2.0)]\n"
        "wp.jax_kernel(k)(jax.tree.map(lambda *a: jax.numpy.stack(a), *ps))"),
    "a field of another type": (
        "@wp.struct\nclass Q:\n    a: wp.array[float]\nQ(jnp.ones(3, int))", "expected an array[float32, 1], got int32",
        "convert it: astype('float32')",
        "@wp.struct\nclass Q:\n    a: wp.array[float]\nQ(jnp.ones(3, int).astype('float32'))"),
    "an element type that is none": ("wp.zeros(3, dtype='real')", "'real' is not a type of the kernel language",
                                     "write float, int, bool, vec3, float64 or another type of jaxwarp",
                                     "wp.zeros(3, dtype=float)"),
    "rows of several lengths": ("wp.array([[1.0], [1.0, 2.0]], dtype=float)", "expected numbers in equal rows",
                                "make all rows of one length, and all items numbers",
                                "wp.array([[1.0, 0.0], [1.0, 2.0]], dtype=float)"),
    "a function in Python": ("wp.dot(1.0)", "dot: ", "the signature is dot(a: Vec, b: Vec) -> Scalar",
                             "wp.dot(wp.vec3(1.0), wp.vec3(1.0))"),
    "tid in Python": ("wp.tid()", "tid() can only be called inside a kernel", "call it in a @kernel or @func",
                      "wp.jax_kernel(scale)(x, 2.0)"),
    "a callable of a kernel": ("wp.jax_callable(scale)", "expected a Python function",
                               "use jax_kernel for a kernel", "wp.jax_kernel(scale)"),
    "another type in a callable": (
        "def g(n: wp.array[int], y: wp.array[float]):\n    wp.launch(scale, 4, [n, 2.0, y])\n"
        "wp.jax_callable(g)(jnp.arange(4))", "argument 'x': expected float32 of shape (?,), got int32",
        "convert its value, x.value.astype('float32'), or make it with dtype=float32",
        "def g(n: wp.array[int], y: wp.array[float]):\n    wp.launch(scale, 4, [n.value.astype('float32'), 2.0, y])\n"
        "wp.jax_callable(g)(jnp.arange(4))"),
    "an input written in a callable": (
        "def g(n: wp.array[float], y: wp.array[float]):\n    n.zero_()\nwp.jax_callable(g)(x)",
        "array 'n' is an input and cannot be written",
        "name it in in_out_argnames=['n'], or write to a clone",
        "def g(n: wp.array[float], y: wp.array[float]):\n    n.zero_()\n"
        "wp.jax_callable(g, num_outputs=2, in_out_argnames=['n'])(x)"),
    "a setting that is not there": ("wp.config.mod = 'debug'", "config has no setting 'mod'", "did you mean mode?",
                                    "wp.config.mode = 'release'"),
}  # fmt: skip


@pytest.mark.parametrize("name", CALLS)
def test_hint_of_a_call(name):
    wrong, message, hint, right = CALLS[name]
    with pytest.raises(KernelError) as caught:
        define(COMMON + wrong)
    assert message in caught.value.message
    assert caught.value.hint == hint
    define(COMMON + right)


PAGE = (Path(__file__).parents[2] / "docs" / "errors.md").read_text()


def test_common_errors_on_the_page_are_said():
    """Each row has the message and the hint of a case above."""
    rows = re.findall(r"^\| `(.*)` \| (.*) \|$", PAGE.split("## Common errors")[1], re.MULTILINE)
    said = {(message, hint) for _, message, hint, _ in [*KERNELS.values(), *CALLS.values()]}
    assert len(rows) > 15
    assert set(rows) <= said


def test_classes_on_the_page_are_all_there():
    rows = re.findall(r"^\| `(\w+)` \| `(\w+)` \|", PAGE, re.MULTILINE)
    classes = [c for c in vars(wp.errors).values() if isinstance(c, type) and issubclass(c, wp.errors.JaxwarpError)]
    named = {c.__name__ for c in classes} - {"JaxwarpError", "KernelError"}
    assert {name for name, _ in rows} == named
    for name, other in rows:
        assert issubclass(getattr(wp.errors, name), getattr(builtins, other))


def test_text_on_the_page_is_what_its_program_says():
    source, text = re.search(r"```python\n(.*?)^```\n.*?```text\n(.*?)```", PAGE, re.DOTALL | re.MULTILINE).groups()
    scope = define(source.split("\ntry:")[0])
    with pytest.raises(KernelError) as caught:
        scope["scale"](jnp.ones(4))
    assert re.sub(r"<test source \d+>", "example.py", str(caught.value)) + "\n" == text


def test_names_of_warp_that_are_not_there():
    with pytest.raises(AttributeError, match=r"^wp\.mesh_adjacency is not there yet; compute it outside"):
        wp.mesh_adjacency  # noqa: B018
    with pytest.raises(AttributeError, match=r"^module 'jaxwarp' has no attribute 'nothing_like_it'$"):
        wp.nothing_like_it  # noqa: B018


def test_every_error_of_a_kernel_has_a_hint():
    """Those of errors.txt."""
    from test_errors import CASES

    assert [name for name, (_, text) in CASES.items() if "  hint: " not in text] == []
