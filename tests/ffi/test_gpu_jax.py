"""Launches on a GPU: the tests of calls and transformations again, and what only a GPU shows."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import test_graph_modes
import test_jax_kernel
import test_transforms

import jaxwarp as wp
from jaxwarp import GraphMode, jax_callable, jax_kernel
from jaxwarp.native import library

pytestmark = pytest.mark.gpu

# Tests without parameters that are as true of a GPU as of a CPU.
AGAIN = [
    *(getattr(test_jax_kernel, name) for name in (
        "test_one_output_is_a_sequence_too", "test_several_outputs", "test_kernel_without_inputs",
        "test_launch_dims_per_call_override_those_of_the_function", "test_output_dims_by_name_differ",
        "test_vector_and_matrix_arrays_in_either_convention",
        "test_in_out_argument_starts_from_its_value_and_leaves_the_callers_alone",
        "test_in_out_arguments_come_first_among_the_outputs", "test_what_the_kernel_does_not_write_is_zero",
        "test_traced_scalars", "test_scalars_of_other_types", "test_wp_values_by_value",
        "test_more_launch_axes_than_indices_repeat_threads", "test_fewer_launch_axes_than_indices",
        "test_arrays_of_rank_five", "test_empty_launch_clears_outputs", "test_same_array_for_several_arguments",
    )),
    *(getattr(test_transforms, name) for name in (
        "test_nested_vmap_of_a_lookup", "test_scan_while_cond_checkpoint", "test_vmapped_control_flow",
        "test_in_out_arguments_are_updated_in_place", "test_a_value_that_is_used_again_is_not_overwritten",
        "test_calls_from_many_threads", "test_pairs_of_transformations",
    )),
    *(getattr(test_graph_modes, name) for name in (
        "test_in_out_arguments_and_accumulation", "test_parts_of_arrays_copies_and_fills", "test_copy_of_a_range",
        "test_made_arrays_of_vectors", "test_values_from_outside", "test_static_numbers_choose_the_program",
        "test_only_what_is_read_is_cleared_and_copied", "test_calls_from_many_threads",
        "test_derivatives_and_batches_of_parts_and_of_in_out_arguments",
    )),
]  # fmt: skip


@pytest.mark.parametrize("test", AGAIN, ids=lambda t: t.__name__)
def test_again(test):
    test()


@pytest.mark.parametrize("case", test_transforms.CASES)
def test_vmap_over_any_axis(case):
    test_transforms.test_vmap_over_any_axis_with_any_argument_unbatched(case)


@wp.kernel
def step(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = x[i] + 1.0


@pytest.mark.parametrize("block", [None, 1, 33, 1024])
@pytest.mark.parametrize("n", [1, 31, 1025, 3_000_001])
def test_sizes_and_blocks(block, n):
    (y,) = jax_kernel(step, block_dim=block)(jnp.zeros(n))
    np.testing.assert_array_equal(y, np.ones(n))


def test_many_launches_in_one_program():
    """Long enough for XLA to record it as a CUDA graph."""
    call = jax_kernel(step)

    @jax.jit
    def program(x):
        for _ in range(20):
            (x,) = call(x)
        return jax.lax.fori_loop(0, 100, lambda _, c: call(c)[0], x)

    for n in (10, 1000):
        for _ in range(3):
            np.testing.assert_array_equal(program(jnp.zeros(n)), np.full(n, 120))


def executions(compiled, n: int, runs: int) -> int:
    """How often XLA enters our handler: once a launch and run, but for launches that it replays in a CUDA graph."""
    before = library.counter("executions")
    for _ in range(runs):
        jax.block_until_ready(compiled(jnp.zeros(n)))
    return library.counter("executions") - before


def test_xla_captures_launches():
    def program(x):
        for _ in range(20):
            (x,) = jax_kernel(step)(x)
        return x

    lowered = jax.jit(program).lower(jnp.zeros(1000))
    runs = 50
    # A graph is recorded again where XLA gives the program other buffers.
    assert executions(lowered.compile(), 1000, runs) < 20 * runs // 2
    few = jax.jit(jax_kernel(step)).lower(jnp.zeros(1000))
    assert executions(few.compile(), 1000, runs) == runs
    assert executions(few.compile(compiler_options={"xla_gpu_graph_min_graph_size": 1}), 1000, runs) < runs // 2
    for n in (1, 2, 3):  # the first run of a command buffer is a rehearsal
        np.testing.assert_array_equal(lowered.compile()(jnp.full(1000, float(n))), np.full(1000, n + 20))


def steps(x: wp.array[float], n: int, out: wp.array[float]):
    here, there = wp.clone(x), wp.empty_like(x)
    for _ in range(n):
        wp.launch(step, x.shape, [here], [there])
        here, there = there, here
    wp.copy(out, here)


def graph_numbers():
    return np.array([library.counter(n) for n in ("captures", "graph_launches")])


def test_a_graph_of_our_own_is_replayed():
    call = jax_callable(steps, graph_mode=GraphMode.WARP)
    compiled = (
        jax.jit(lambda x: jax.lax.fori_loop(0, 100, lambda _, c: call(c, 10)[0], x)).lower(jnp.zeros(1000)).compile()
    )
    before = graph_numbers()
    for n in (1, 2):
        np.testing.assert_array_equal(compiled(jnp.full(1000, float(n))), np.full(1000, n + 1000))
    captures, launches = graph_numbers() - before
    assert launches == 200
    assert 1 <= captures <= 8  # a loop has its buffers in the same few places


def test_a_bounded_number_of_graphs():
    live = library.counter("live_graphs")
    call = jax_callable(steps, graph_mode=GraphMode.WARP, graph_cache_max=2)
    kept = []
    for n in range(6):
        kept.append(call(jnp.full(1000, float(n)), 3)[0])  # its buffer is not free for the next one
    for n, x in enumerate(kept):
        np.testing.assert_array_equal(x, np.full(1000, n + 3))
    assert library.counter("live_graphs") <= live + 2


@pytest.mark.skipif("jax.device_count() < 2", reason="needs two GPUs")
def test_every_device():
    for device in jax.devices():
        x = jax.device_put(np.zeros(100, np.float32), device)
        (y,) = jax_kernel(step)(x)
        assert y.devices() == {device}
        np.testing.assert_array_equal(y, 1)
    mesh = jax.sharding.Mesh(np.array(jax.devices()), "d")
    spec = jax.sharding.PartitionSpec("d")
    mapped = jax.jit(jax.shard_map(lambda x: jax_kernel(step)(x)[0], mesh=mesh, in_specs=spec, out_specs=spec))
    np.testing.assert_array_equal(mapped(jnp.zeros(10 * len(jax.devices()))), 1)
