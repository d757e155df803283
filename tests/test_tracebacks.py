"""A traceback ends at the user's line: no frame of the package or of JAX, wherever the error came up."""

from __future__ import annotations

import traceback

import jax
import pytest
from language import define

import jaxwarp as wp
from jaxwarp import boundary

# What all cases use. Names with a line that is wrong are marked in the cases themselves: "# here".
COMMON = """
import functools, jax, jax.numpy as jnp, numpy as np
from jax.experimental import checkify

@wp.kernel
def scale(x: wp.array[float], s: float, y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i] * s

@wp.kernel
def shift(a: wp.array[float]):
    i = wp.tid()
    a[i] = 0.5 * a[i + 1]

@wp.kernel
def wrong(x: wp.array[float], y: wp.array[float]):
    y[wp.tid()] = x[0] * wp.int64(2)

f = wp.jax_kernel(scale)
moved = wp.jax_kernel(shift, in_out_argnames=["a"], launch_dims=3)
x = jnp.arange(4.0)
"""

CASES = {
    "eager call": "f(jnp.arange(4), 2.0)  # here",
    "a wrong count": "f(x)  # here",
    "a kernel that is wrong, at its call": "wp.jax_kernel(wrong)(x)  # here",
    "a kernel that is wrong, at its definition": "@wp.kernel  # here\ndef k(x):\n    pass",
    "options of a kernel": "@wp.kernel(fast=True)  # here\ndef k(x: float):\n    pass",
    "a function that is wrong": "@wp.func  # here\ndef g(*x):\n    return x",
    "a rule for nothing": "@wp.func_grad(3)  # here\ndef g(x: float):\n    pass",
    "options": "wp.jax_kernel(scale, num_outputs=9)  # here",
    "an option that is not there": "wp.jax_kernel(scale, outputs=9)  # here",
    "called directly": "scale(x, 2.0)  # here",
    "ir of a kernel": "wrong.ir()  # here",
    "jit": "@jax.jit\ndef g(x):\n    return f(x, 'a')  # here\ng(x)",
    "jit of the function": "jax.jit(f)(jnp.arange(4), 2.0)  # here",
    "vmap": "jax.vmap(lambda x: f(x, 2.0))(x)  # here",
    "grad": "jax.grad(lambda x: f(x.astype(int), 2.0)[0].sum())(x)  # here",
    "no derivative, eager": "jax.grad(lambda a: moved(a)[0].sum())(x)  # here",
    "no derivative, jit": "jax.jit(jax.grad(lambda a: moved(a)[0].sum()))(x)  # here",
    "no derivative, jvp": "jax.jvp(lambda a: moved(a)[0], (x,), (x,))  # here",
    "no derivative, vjp of jit": "jax.vjp(jax.jit(lambda a: moved(a)[0]), x)[1](x)  # here",
    "no derivative, linearize": "jax.linearize(lambda a: moved(a)[0], x)[1](x)  # here",
    "no derivative, jacrev": "jax.jacrev(lambda a: moved(a)[0])(x)  # here",
    "scan": "jax.lax.scan(lambda c, _: (f(c, c)[0], None), x, None, length=3)  # here",
    "fori_loop": "def body(i, c):\n    return f(c, 2.0, 3.0)[0]  # here\njax.lax.fori_loop(0, 3, body, x)",
    "jit in vmap": "def g(x):\n    return f(x)  # here\njax.vmap(jax.jit(lambda x: jax.checkpoint(g)(x)))(x[None])",
    "shape of a result": "jax.eval_shape(f, x, x)  # here",
    "jaxpr": "jax.make_jaxpr(f)(x, x)  # here",
    "checkify": "checkify.checkify(lambda x: f(x, x))(x)  # here",
    "partial": "jax.jit(functools.partial(f, z=2.0))(x)  # here",
    "launch": "wp.launch(scale, dim=4, inputs=[np.ones(4), 2.0])  # here",
    "launch of what is none": "wp.launch(f, dim=4)  # here",
    "launch without arguments": "wp.launch()  # here",
    "arrays": "wp.zeros(-1)  # here",
    "array of text": "wp.array(['a'], dtype=float)  # here",
    "part of an array": "wp.zeros(3)[7]  # here",
    "assignment": "a = wp.zeros(3)\na.assign(np.ones(4))  # here",
    "an item assigned": "a = wp.zeros(3)\na[0:2] = np.ones(4)  # here",
    "reshape": "wp.zeros(3).reshape(2)  # here",
    "gradient of another shape": "wp.zeros(3).grad = wp.zeros(4)  # here",
    "from_numpy": "wp.from_numpy(np.array(['a']))  # here",
    "to_jax": "wp.to_jax(3)  # here",
    "device": "wp.set_device('cuda:99')  # here",
    "a function of the language, in Python": "wp.dot(wp.vec3(1.0), wp.vec2(1.0))  # here",
    "an intrinsic, in Python": "wp.tid()  # here",
    "operands of two types, in Python": "wp.vec3(1.0) + wp.vec2(1.0)  # here",
    "a component that is not there, in Python": "wp.vec3(1.0)[3]  # here",
    "an attribute that is not there, in Python": "wp.vec3(1.0).q  # here",
    "a function of the library, in Python": "wp.rand_init('a')  # here",
    "a name that is not there": "wp.zeroes(3)  # here",
    "a name that is not there, in a module": "wp.optim.Addam  # here",
    "a setting that is not there": "wp.config.mod  # here",
    "an attribute of an array that is not there": "wp.zeros(3).nothing  # here",
    "a vector": "wp.vec3(1.0, 2.0)  # here",
    "a type": "wp.types.vector(-1, float)  # here",
    "a setting": "wp.config.mod = 1  # here",
    "tape": "a = wp.zeros(3)\nt = wp.Tape()\nwith t:\n    pass\nt.backward(a)  # here",
    "tape in a tape": "with wp.Tape():\n    with wp.Tape():  # here\n        pass",
    "launch on a tape": "with wp.Tape():\n    wp.launch(scale, dim=4, inputs=[wp.zeros(4), 2.0])  # here",
    "callable": "def g(x: wp.array[float], y: wp.array[float]):\n"
    "    wp.launch(scale, dim=4, inputs=[x, 2.0])  # here\nwp.jax_callable(g)(x)",
    "jit of a callable": "def g(x: wp.array[float], y: wp.array[float]):\n"
    "    wp.launch(scale, dim=4, inputs=[x, 2.0], outputs=[x])  # here\njax.jit(wp.jax_callable(g))(x)",
    "function of JAX in a callable": "def g(x: wp.array[float], y: wp.array[float]):\n"
    "    y.assign(jnp.dot(x.value, 'a'))  # here\nwp.jax_callable(g)(x)",
    "an own error in a callable": "def g(x: wp.array[float], y: wp.array[float]):\n"
    "    raise ValueError('mine')  # here\nwp.jax_callable(g)(x)",
    "call of a callable": "def g(x: wp.array[float], y: wp.array[float]):\n    pass\nwp.jax_callable(g)(x, x)  # here",
    "comparison in a callable": "def g(x: wp.array[float], y: wp.array[float]):\n"
    "    if x == y:  # here\n        pass\nwp.jax_callable(g)(x)",
    "callable that is none": "wp.jax_callable(scale)  # here",
    "callback": "wp.register_ffi_callback('', print)  # here",
    "callback that fails": "def g(x: wp.array[float], y: wp.array[float]):\n"
    "    wp.launch(scale, dim=4, inputs=[x, 2.0])\n"
    "wp.jax_callable(g, graph_mode=wp.GraphMode.NONE)(x)[0].block_until_ready()  # here",
    "static": "@wp.kernel\ndef k(y: wp.array[float]):\n    y[0] = wp.static(1 / 0)\n"
    "wp.jax_kernel(k)(launch_dims=1)  # here",
}  # fmt: skip

# What fails in these has frames of JAX, whatever it is.
NOT_FILTERED_BY_JAX = {"no derivative, jacrev", "function of JAX in a callable"}


def error_of(source: str) -> tuple[Exception, str]:
    """The error of a program, and the name of its file."""
    try:
        define(COMMON + source)
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        file = next(f.filename for f in frames if f.filename.startswith("<test source"))
        return error, file
    pytest.fail("no error")


def frames_of(error: BaseException) -> list[str]:
    """The files of all frames that are printed: of the error, and of those that led to it."""
    found = []
    led: BaseException | None = error
    while led is not None:
        found += [f.filename for f in traceback.extract_tb(led.__traceback__)]
        led = led.__cause__ or (None if led.__suppress_context__ else led.__context__)
    return found


@pytest.mark.parametrize("case", CASES)
def test_the_last_line_is_the_users(case):
    error, file = error_of(CASES[case])
    last = traceback.extract_tb(error.__traceback__)[-1]
    assert (last.filename, "# here" in last.line) == (file, True), "".join(traceback.format_exception(error))
    for name in frames_of(error) if case not in NOT_FILTERED_BY_JAX else ():
        assert boundary.is_users(name), "".join(traceback.format_exception(error))


@pytest.mark.parametrize("case", ["eager call", "jit", "no derivative, jit", "launch"])
@pytest.mark.parametrize("switch", ["ours", "JAX's"])
def test_all_frames_can_be_had(case, switch):
    try:
        if switch == "ours":
            wp.config.verbose = True
        else:
            jax.config.update("jax_traceback_filtering", "off")
        error, _ = error_of(CASES[case])
    finally:
        wp.config.verbose = False
        jax.config.update("jax_traceback_filtering", "auto")
    assert any(f.startswith(boundary.PACKAGE) for f in frames_of(error))
    assert "jax" not in case or any("site-packages/jax/" in f for f in frames_of(error))


def test_verbose_leaves_jaxs_switch_as_it_was():
    jax.config.update("jax_traceback_filtering", "remove_frames")
    try:
        wp.config.verbose = True
        wp.config.verbose = True
        assert jax.config.jax_traceback_filtering == "off"
        wp.config.verbose = False
        assert jax.config.jax_traceback_filtering == "remove_frames"
    finally:
        jax.config.update("jax_traceback_filtering", "auto")


def test_an_error_that_was_handled_before_is_still_told():
    error, _ = error_of("try:\n    1 / 0\nexcept ZeroDivisionError:\n    f(x)")
    assert isinstance(error.__context__, ZeroDivisionError)
    assert not error.__suppress_context__


def test_a_fault_of_ours_keeps_its_frames(monkeypatch):
    monkeypatch.setattr(wp.Kernel, "specialize", lambda self, types=None: types.nothing)
    monkeypatch.setattr("jaxwarp.launches.arguments.bind.fit_grid", lambda *_: 1 / 0)
    error, _ = error_of("f(x[:3], 2.0)")
    assert isinstance(error, AttributeError)

    @boundary.boundary
    def entry():
        raise wp.errors.InternalError("ours")

    with pytest.raises(wp.errors.InternalError) as caught:
        entry()
    assert any(f.startswith(boundary.PACKAGE) for f in frames_of(caught.value))
