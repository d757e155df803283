"""What XLA makes of programs for an H200.

Run as `programs.py FOLDER`; prints the traceback of every one as JSON, empty for those that hold. FOLDER is what
`target.environment` was given.
"""

import ctypes
import functools
import json
import sys
import traceback

import jax
import jax.numpy as jnp
from sass import programs as lattices
from xla import target

import jaxwarp as wp

SIDE = 64
LATTICE = (9, SIDE, SIDE)
ELEMENTS = 9 * SIDE * SIDE
SINGLE = {"xla_gpu_graph_min_graph_size": 1}


@wp.kernel
def step(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i] + 1.0


@wp.kernel
def increment(x: wp.array[float]):
    i = wp.tid()
    x[i] = x[i] + 1.0


stepped = wp.jax_kernel(step)
incremented = wp.jax_kernel(increment, in_out_argnames=["x"])
streamed = wp.jax_kernel(lattices.lbm2, launch_dims=(SIDE, SIDE), output_dims=LATTICE)


def no_driver(h200):
    """Code is made, and attributes are decoded, on machines that have none."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return
    raise AssertionError("there is a driver: this proves less here")


def twenty_launches(h200):
    """They are one graph."""

    def twenty(x):
        for _ in range(20):
            (x,) = stepped(x)
        return x

    made = h200.compile(twenty, h200.array(1000))
    assert made.inside("kCommandBuffer") == [["kCustomCall"] * 20]
    assert made.count("kCustomCall") == 20
    assert made.moves(1000) == []


def four_launches(h200):
    """They are not, unless XLA is asked."""

    def four(x):
        for _ in range(4):
            (x,) = stepped(x)
        return x

    assert h200.compile(four, h200.array(1000)).count("kCommandBuffer") == 0
    assert h200.compile(four, h200.array(1000), **SINGLE).inside("kCommandBuffer") == [["kCustomCall"] * 4]


@functools.partial(jax.jit, donate_argnums=0)
def one_per_iteration(x):
    return jax.lax.fori_loop(0, 100, lambda _, x: incremented(x)[0], x)


def one_launch_per_iteration(h200):
    """In place: nothing is copied. It is captured where XLA is asked."""
    made = h200.compile(one_per_iteration, h200.array(1000))
    assert made.moves(1000) == []
    assert made.count("kCommandBuffer") == 0
    assert made.memory.alias_size_in_bytes == 4000
    made = h200.compile(one_per_iteration, h200.array(1000), **SINGLE)
    assert any("kCustomCall" in found for found in made.inside("kCommandBuffer"))
    assert made.moves(1000) == []


def loops_in_graphs(h200):
    """Where XLA is asked for that the loop is in a graph, not only its body."""
    captured = "FUSION,CUSTOM_CALL,WHILE"
    made = h200.compile(one_per_iteration, h200.array(1000), **SINGLE, xla_gpu_enable_command_buffer=captured)
    assert made.thunks[0][1] == "kCommandBuffer"
    assert "kWhile" in made.inside("kCommandBuffer")[0]


def two_launches_per_iteration(h200):
    """There and back between two buffers: nothing is copied."""

    @functools.partial(jax.jit, donate_argnums=0)
    def two_per_iteration(f, omega):
        def body(_, f):
            for _ in range(2):
                (f,) = streamed(f, omega)
            return f

        return jax.lax.fori_loop(0, 50, body, f)

    given = h200.array(*LATTICE), h200.array()
    made = h200.compile(two_per_iteration, *given)
    assert made.moves(ELEMENTS) == []
    assert made.count("kCommandBuffer") == 0
    assert made.memory.alias_size_in_bytes == 4 * ELEMENTS
    assert made.memory.temp_size_in_bytes < 1.1 * 4 * ELEMENTS + 8192
    made = h200.compile(two_per_iteration, *given, **SINGLE)
    assert any(found.count("kCustomCall") == 2 for found in made.inside("kCommandBuffer"))


def out_of_place_loops_are_copied(h200):
    """What docs/performance.md says: one step an iteration that writes a new array."""

    @functools.partial(jax.jit, donate_argnums=0)
    def copied(x):
        return jax.lax.fori_loop(0, 100, lambda _, x: stepped(x)[0], x)

    assert h200.compile(copied, h200.array(1000)).moves(1000) != []


def ten_launches_per_iteration(h200):
    """`unroll=10` of `scan`: a graph for each turn, nothing is copied."""

    @functools.partial(jax.jit, donate_argnums=0)
    def unrolled(x):
        return jax.lax.scan(lambda x, _: (stepped(x)[0], None), x, None, length=100, unroll=10)[0]

    made = h200.compile(unrolled, h200.array(1000))
    assert any(found.count("kCustomCall") == 10 for found in made.inside("kCommandBuffer"))
    assert made.moves(1000) == []


def gradients_of_lattices(h200):
    """They add no transposes; of a loop, what is kept for the way back is written where it stays."""

    def energy(f, omega):
        for _ in range(6):
            (f,) = streamed(f, omega)
        return jnp.sum(f * f)

    made = h200.compile(jax.grad(energy), h200.array(*LATTICE), h200.array())
    assert made.moves(ELEMENTS) == []
    assert made.count("kCustomCall") >= 12

    def long(f, omega):
        f, _ = jax.lax.scan(lambda f, _: (streamed(f, omega)[0], None), f, None, length=10)
        return jnp.sum(f * f)

    made = h200.compile(jax.grad(long), h200.array(*LATTICE), h200.array())
    assert [kind for _, kind in made.moves(ELEMENTS) if kind == "transpose"] == []


def batches(h200):
    """`vmap` is one launch; arguments stay as they are, whatever their axis of items."""
    for axis, shape in ((0, (4, *LATTICE)), (1, (9, 4, SIDE, SIDE)), (3, (9, SIDE, SIDE, 4))):

        def batched(f, omega, axis=axis):
            return jax.vmap(lambda f: streamed(f, omega)[0], in_axes=axis)(f)

        made = h200.compile(batched, h200.array(*shape), h200.array())
        assert made.count("kCustomCall") == 1
        assert made.moves(ELEMENTS) == []


def wind_tunnel(h200):
    """The example's loop: nothing is copied, the populations stay in their buffers."""
    from windtunnel import flow

    ny, nx = 66, 200
    size = 4 * 9 * ny * nx
    made = h200.compile(
        flow.advance,
        h200.array(9, ny, nx),
        h200.array(ny, nx, dtype="uint8"),
        h200.array(ny),
        h200.array(nx),
        h200.array(dtype="int32"),
    )
    assert made.moves(9 * ny * nx) == []
    assert made.memory.alias_size_in_bytes == size
    assert made.memory.temp_size_in_bytes < 1.1 * size + 8192


def functions_of_launches(h200):
    """`jax_callable`: XLA's graph of all launches, or one operation."""

    def steps(f: wp.array3d[float], omega: float, out: wp.array3d[float]):
        a, b = wp.clone(f), wp.empty_like(f)
        for _ in range(10):
            wp.launch(lattices.lbm2, (SIDE, SIDE), [a, omega, b])
            a, b = b, a
        wp.copy(out, a)

    def of(mode):
        call = wp.jax_callable(steps, graph_mode=mode, output_dims=LATTICE)

        def program(f, omega):
            return call(f, omega)[0]

        return h200.compile(program, h200.array(*LATTICE), h200.array())

    made = of(wp.GraphMode.JAX)
    assert [found.count("kCustomCall") for found in made.inside("kCommandBuffer")] == [10]
    assert of(wp.GraphMode.WARP).count("kCustomCall") == 1


PROGRAMS = [
    no_driver,
    twenty_launches,
    four_launches,
    one_launch_per_iteration,
    loops_in_graphs,
    two_launches_per_iteration,
    out_of_place_loops_are_copied,
    ten_launches_per_iteration,
    gradients_of_lattices,
    batches,
    wind_tunnel,
    functions_of_launches,
]


def outcome(program, h200):
    """The traceback of one that does not hold, or nothing."""
    try:
        program(h200)
    except BaseException:
        return traceback.format_exc()
    return ""


if __name__ == "__main__":
    compiler = target.H200(sys.argv[1])
    print(json.dumps({p.__name__: outcome(p, compiler) for p in PROGRAMS}))
