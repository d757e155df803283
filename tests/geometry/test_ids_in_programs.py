"""Objects that kernels of a `jax_callable` find by their ids, when its program runs. See docs/design/0064."""

from __future__ import annotations

import gc
import threading
import weakref

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.sharding import Mesh as Devices
from jax.sharding import PartitionSpec

import jaxwarp as wp
from jaxwarp.arrays.ids.tables import tables_at
from jaxwarp.errors import DifferentiationError, KernelError
from jaxwarp.memory.host_scope import HOST
from tests.geometry.test_ids import Scene, Shape, down, ids_of, of_array, of_struct, one_of_two, or_none, plane

MODES = [wp.GraphMode.JAX, wp.GraphMode.WARP, wp.GraphMode.NONE]
TRACED = MODES[:2]


def planes(*heights):
    return [plane(float(z)) for z in heights or (0, 1, 2)]


def numbers(meshes):
    return np.array([0 if m is None else m.id for m in meshes], np.uint64)


def zeros(count):
    return jnp.zeros(count, jnp.float32)


def look(ids: wp.array[wp.uint64], o: wp.array[float]):
    wp.launch(of_array, o.shape, [ids], [o])


@wp.kernel
def rays(ids: wp.array[wp.uint64], x: wp.array[wp.vec3], o: wp.array[float]):
    i = wp.tid()
    o[i] += wp.mesh_query_ray(ids[i], x[i], wp.vec3(0.0, 0.0, -1.0), 100.0).t


@wp.kernel
def doubled(x: wp.array[wp.vec3], y: wp.array[wp.vec3]):
    i = wp.tid()
    y[i] = 2.0 * x[i]


def cast(ids: wp.array[wp.uint64], x: wp.array[wp.vec3], o: wp.array[float]):
    y = wp.zeros_like(x)
    wp.launch(doubled, x.shape, [x], [y])
    wp.launch(rays, x.shape, [ids, wp.clone(y)], [o])
    wp.launch(rays, x.shape, [ids, x], [o])


X = np.array([[0, 0, 5], [0.5, 0, 6], [0, 0.5, 7]], np.float32)


@pytest.fixture(autouse=True)
def x64():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("jit", [False, True])
def test_ids_are_arguments(mode, jit):
    meshes = planes()
    call = wp.jax_callable(look, graph_mode=mode)
    call = jax.jit(call) if jit else call
    np.testing.assert_array_equal(call(numbers(meshes))[0], [10, 9, 8])
    np.testing.assert_array_equal(call(numbers(meshes[::-1]))[0], [8, 9, 10])
    call = wp.jax_callable(cast, graph_mode=mode)
    call = jax.jit(call) if jit else call
    # 2 z - h and z - h
    np.testing.assert_allclose(call(numbers(meshes), X)[0], 3 * X[:, 2] - [0, 2, 4])


@pytest.mark.parametrize("mode", TRACED)
@pytest.mark.parametrize("wide", [False, True])
def test_ids_that_the_function_has_already(mode, wide):
    """Numbers, what `mesh.id` returns, and arrays outside of JAX; 64-bit types of JAX are not needed."""
    meshes = planes()
    array, first = ids_of(*meshes), int(meshes[0].id)

    def of_arrays(x: wp.array[float], o: wp.array[float]):
        wp.launch(of_array, 3, [array], [o])

    def of_numbers(x: wp.array[float], o: wp.array[float]):
        wp.launch(one_of_two, 3, [first, meshes[2].id], [o])

    def of_arguments(a: wp.uint64, b: wp.uint64, o: wp.array[float]):
        wp.launch(one_of_two, 3, [a, b], [o])

    with jax.enable_x64(wide):
        call = jax.jit(wp.jax_callable(of_arrays, graph_mode=mode))
        np.testing.assert_array_equal(call(zeros(3))[0], [10, 9, 8])
        array.assign(np.array([0, meshes[2].id, 0], np.uint64))
        # Read when the program runs, as the meshes are.
        np.testing.assert_array_equal(call(zeros(3))[0], [0, 8, 0])
        call = jax.jit(wp.jax_callable(of_numbers, graph_mode=mode))
        np.testing.assert_array_equal(call(zeros(3))[0], [10, 8, 10])
        call = wp.jax_callable(of_arguments, graph_mode=mode, output_dims=3)
        np.testing.assert_array_equal(call(first, int(meshes[1].id))[0], [10, 9, 10])


@pytest.mark.parametrize("mode", TRACED)
def test_one_mesh_outside_of_jax_by_its_id(mode):
    """A kernel that could take it as a value: its arrays are none of the program."""
    mesh = plane(1.0)

    def program(x: wp.array[float], o: wp.array[float]):
        wp.launch(or_none, 1, [mesh.id], [o])

    call = jax.jit(wp.jax_callable(program, graph_mode=mode))
    np.testing.assert_array_equal(call(zeros(1))[0], [9])
    mesh.points = plane(4.0).points
    np.testing.assert_array_equal(call(zeros(1))[0], [6])
    with wp.Tape():  # the kernel still takes meshes as values elsewhere
        wp.launch(or_none, 1, [mesh.id], [wp.zeros(1, dtype=float)])


@pytest.mark.parametrize("mode", TRACED)
def test_ids_in_structs(mode):
    meshes = planes()
    scene = Scene(Shape(int(meshes[2].id), 2.0), ids_of(*meshes[:2]))

    def program(x: wp.array[float], o: wp.array[float]):
        wp.launch(of_struct, 3, [scene], [o])

    call = jax.jit(wp.jax_callable(program, graph_mode=mode))
    np.testing.assert_array_equal(call(zeros(3))[0], [16, 20, 18])


@pytest.mark.release_mode("debug mode reports ids of nothing")
@pytest.mark.parametrize("mode", TRACED)
def test_objects_are_those_of_when_the_program_runs(mode):
    meshes, traces = planes(), []

    @jax.jit
    def f(ids):
        traces.append(1)
        return wp.jax_callable(look, graph_mode=mode)(ids)[0]

    ids = numbers(meshes)
    np.testing.assert_array_equal(f(ids), [10, 9, 8])
    more = planes(*range(3, 60))  # more than the tables of then have room for
    np.testing.assert_array_equal(f(numbers(more[:3])), [7, 6, 5])
    meshes[0].points = plane(4.0).points
    np.testing.assert_array_equal(f(ids), [6, 9, 8])
    meshes[0].points.assign(plane(5.0).points.numpy())
    meshes[0].refit()
    np.testing.assert_array_equal(f(ids), [5, 9, 8])
    del meshes[1]
    gc.collect()
    np.testing.assert_array_equal(f(ids), [5, 0, 8])
    again = plane(6.0)  # in its row
    np.testing.assert_array_equal(f(ids), [5, 0, 8])
    np.testing.assert_array_equal(f(numbers([again, None, again])), [4, 0, 4])
    assert len(traces) == 1


@pytest.mark.parametrize("mode", TRACED)
def test_a_program_keeps_what_an_id_names(mode):
    """What `mesh.id` returns keeps its mesh alive, in a program too; a number does not."""
    meshes = planes()
    objects = [weakref.ref(mesh) for mesh in meshes]

    def compiled(given):
        def program(x: wp.array[float], o: wp.array[float]):
            wp.launch(or_none, 1, given.pop(), [o])

        return jax.jit(wp.jax_callable(program, graph_mode=mode)).lower(zeros(1)).compile()

    calls = [compiled([[meshes[0].id]]), compiled([[int(meshes[1].id)]])]
    del meshes
    gc.collect()
    assert [ref() is not None for ref in objects] == [True, False, False]
    np.testing.assert_array_equal(calls[0](zeros(1))[0], [10])


@pytest.mark.parametrize("mode", TRACED)
@pytest.mark.parametrize("method", [None, "sequential", "expand_dims", "broadcast_all"])
def test_vmap(mode, method):
    meshes = planes()
    call = wp.jax_callable(cast, graph_mode=mode, vmap_method=method)
    ids = np.stack([numbers(meshes), numbers(meshes[::-1])])
    x = np.stack([X, X + np.float32([0, 0, 1])])
    heights = np.array([[0, 1, 2], [2, 1, 0]])
    both = jax.jit(jax.vmap(lambda i, x: call(i, x)[0]))(ids, x)
    np.testing.assert_allclose(both, 3 * x[..., 2] - 2 * heights)
    of_ids = jax.vmap(lambda i: call(i, X)[0])(ids)
    np.testing.assert_allclose(of_ids, 3 * X[:, 2] - 2 * heights)
    of_x = jax.vmap(lambda x: call(ids[0], x)[0], in_axes=1, out_axes=1)(np.swapaxes(x, 0, 1))
    np.testing.assert_allclose(of_x, (3 * x[..., 2] - 2 * heights[0]).T)
    twice = jax.vmap(jax.vmap(lambda i, x: call(i, x)[0], in_axes=(None, 0)), in_axes=(0, None))(ids, x)
    np.testing.assert_allclose(twice, 3 * x[None, ..., 2] - 2 * heights[:, None])


@pytest.mark.parametrize("mode", TRACED)
def test_loops_and_branches(mode):
    meshes, call = planes(), wp.jax_callable(look, graph_mode=mode)
    ids = np.stack([numbers(meshes), numbers(meshes[::-1])])
    total, each = jax.jit(lambda i: jax.lax.scan(lambda c, i: (c + call(i)[0], call(i)[0]), zeros(3), i))(ids)
    np.testing.assert_array_equal(each, [[10, 9, 8], [8, 9, 10]])
    np.testing.assert_array_equal(total, [18, 18, 18])
    branch = jax.jit(lambda p, i: jax.lax.cond(p, lambda i: call(i)[0], lambda i: zeros(3), i))
    np.testing.assert_array_equal([branch(True, ids[0]), branch(False, ids[0])], [[10, 9, 8], [0, 0, 0]])


@pytest.mark.parametrize("mode", TRACED)
@pytest.mark.parametrize("check_vma", [True, False])
def test_several_devices(mode, check_vma):
    count = len(jax.devices())
    meshes, call = planes(*range(count)), wp.jax_callable(look, graph_mode=mode)
    spec = PartitionSpec("d")
    devices = Devices(np.array(jax.devices()), ("d",))
    f = jax.shard_map(lambda i: call(i)[0], mesh=devices, in_specs=spec, out_specs=spec, check_vma=check_vma)
    ids = numbers([m for m in meshes for _ in range(2)])
    want = 10.0 - np.repeat(np.arange(count), 2)
    np.testing.assert_array_equal(jax.jit(f)(ids), want)
    placed = jax.device_put(ids, jax.sharding.NamedSharding(devices, spec))
    np.testing.assert_array_equal(jax.jit(lambda i: call(i)[0])(placed), want)


@pytest.mark.parametrize("mode", TRACED)
def test_derivatives_are_refused_with_the_line(mode):
    meshes, call = planes(), wp.jax_callable(cast, graph_mode=mode)
    ids = numbers(meshes)
    f = lambda x: call(ids, x)[0].sum()  # noqa: E731
    for run in (jax.grad(f), lambda x: jax.jvp(f, (x,), (x,)), jax.hessian(f)):
        with pytest.raises(DifferentiationError, match="kernel rays finds objects by their ids, and has no") as caught:
            run(X)
        assert "wp.mesh_query_ray(ids[i], x[i]" in str(caught.value)
    g = jax.grad(lambda x: (call(ids, jax.lax.stop_gradient(x))[0] * x[:, 0]).sum())(X)
    np.testing.assert_allclose(g[:, 0], 3 * X[:, 2] - [0, 2, 4])


@pytest.mark.parametrize("mode", TRACED)
def test_export_is_refused_with_the_line(mode):
    call = jax.jit(lambda i: wp.jax_callable(look, graph_mode=mode)(i)[0])
    with pytest.raises(KernelError, match="which name objects of this process, and cannot be exported") as caught:
        jax.export.export(call, disabled_checks=[jax.export.DisabledSafetyCheck.custom_call("jaxwarp_python")])(
            jax.ShapeDtypeStruct((3,), np.uint64)
        )
    assert "wp.mesh_query_ray(mesh, " in str(caught.value)


@pytest.mark.parametrize("mode", TRACED)
def test_debug_mode_names_the_line(mode, monkeypatch):
    mesh = plane(1.0)
    monkeypatch.setattr(wp.config, "mode", "debug")
    call = wp.jax_callable(look, graph_mode=mode)
    np.testing.assert_array_equal(call(numbers([mesh, mesh]))[0], [9, 9])
    with pytest.raises(KernelError, match=r"in down: thread \(1,\): id 0 names no Mesh that is alive"):
        call(numbers([mesh, None]))


@pytest.mark.parametrize("mode", TRACED)
def test_traced_meshes_are_chosen_at_run_time(mode):
    def chosen(m: wp.Mesh, n: wp.Mesh, o: wp.array[float]):
        wp.launch(one_of_two, 3, [m, n], [o])

    call = wp.jax_callable(chosen, graph_mode=mode, output_dims=3)
    np.testing.assert_array_equal(call(plane(0.0).id, plane(1.0).id)[0], [10, 9, 10])


@pytest.mark.parametrize("mode", TRACED)
def test_what_is_wrong_has_its_line(mode):
    """What the kernel writes is an array of the program."""
    mesh, out = plane(0.0), wp.zeros(3, dtype=float)

    def elsewhere(a: wp.array[wp.uint64], o: wp.array[float]):
        wp.launch(of_array, 3, [a], [out])

    with pytest.raises(KernelError, match="argument 'o' is written by the kernel: expected an array of the program"):
        wp.jax_callable(elsewhere, graph_mode=mode)(numbers([mesh] * 3))


@wp.kernel
def both(mesh: wp.uint64, other: wp.Mesh, o: wp.array[float]):
    i = wp.tid()
    o[i] = down(mesh) + 100.0 * wp.mesh_query_ray(other, wp.vec3(0.0, 0.0, 10.0), wp.vec3(0.0, 0.0, -1.0), 100.0).t


@pytest.mark.parametrize("mode", TRACED)
def test_an_id_beside_a_mesh_of_the_program(mode):
    mesh = plane(1.0)

    def program(m: wp.Mesh, o: wp.array[float]):
        wp.launch(both, 2, [int(mesh.id), m], [o])

    value = wp.Mesh(jnp.asarray(plane(3.0).points.numpy()), jnp.asarray([[0, 1, 2]], jnp.int32))
    call = jax.jit(wp.jax_callable(program, graph_mode=mode, output_dims=2))
    np.testing.assert_array_equal(call(value)[0], [709, 709])


def test_arrays_stay_while_a_launch_reads_them():
    """Python may change objects while a program runs: the launch goes on with what there was."""
    mesh = plane(1.0)
    ids = ids_of(mesh)
    tables = tables_at(HOST)
    with tables.used(in_call=True) as value:
        rows, kept = value.Mesh.numpy().copy(), [weakref.ref(mesh.points), weakref.ref(mesh.bvh.nodes)]
        addresses = mesh.corners.ctypes.data
        mesh.points.assign(plane(2.0).points.numpy())
        mesh.refit()
        assert mesh.corners.ctypes.data != addresses  # not in place
        mesh.points = plane(3.0).points
        o = wp.zeros(1, dtype=float)
        wp.launch(of_array, 1, [ids], [o])
        assert o.numpy() == [7]
        gc.collect()
        np.testing.assert_array_equal(value.Mesh.numpy(), rows)
        assert all(ref() is not None for ref in kept)
    del value
    gc.collect()
    assert kept[0]() is None


def test_what_changes_before_a_launch_of_a_running_program():
    has_begun, may_go_on, mesh = threading.Event(), threading.Event(), plane(1.0)
    ids, found = ids_of(mesh), []

    def wait(o: wp.array[float]):
        has_begun.set()
        assert may_go_on.wait(60)

    def program(o: wp.array[float]):
        wp.launch(of_array, 1, [ids], [o])

    first = wp.jax_callable(wait, graph_mode=wp.GraphMode.NONE, in_out_argnames=["o"])
    second = wp.jax_callable(program, in_out_argnames=["o"])
    f = jax.jit(lambda x: second(first(x)[0])[0])
    thread = threading.Thread(target=lambda: found.append(np.asarray(f(zeros(1)))))
    thread.start()
    assert has_begun.wait(60)
    mesh.points = plane(3.0).points
    gc.collect()
    may_go_on.set()
    thread.join()
    np.testing.assert_array_equal(found, [[7]])


def test_nobody_waits_for_what_may_never_come(monkeypatch):
    """An array that JAX is still computing: launches outside wait for it, one in a program must not."""
    mesh, waited = plane(1.0), []
    ids, call = numbers([mesh]), wp.jax_callable(look)
    np.testing.assert_array_equal(call(ids)[0], [9])
    mesh.velocities = jnp.zeros((3, 3), jnp.float32)
    is_free, wait = [], jax.block_until_ready

    def waits(array):
        if array is mesh.velocities:
            lock = tables_at(HOST)._lock
            take = lambda: is_free.append(lock.acquire(timeout=10) and lock.release() is None)  # noqa: E731
            thread = threading.Thread(target=take)
            thread.start()
            thread.join()
            waited.append(array)
        return wait(array)

    monkeypatch.setattr(type(mesh.velocities), "is_ready", lambda array: bool(waited))
    monkeypatch.setattr(jax, "block_until_ready", waits)
    with pytest.raises((jax.errors.JaxRuntimeError, ValueError), match="has an array that JAX has not computed yet"):
        wait(call(ids))
    assert not waited
    o = wp.zeros(1, dtype=float)
    wp.launch(of_array, 1, [ids], [o])
    assert o.numpy() == [9]
    assert is_free == [True]
    np.testing.assert_array_equal(call(ids)[0], [9])
