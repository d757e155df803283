"""Every public attribute of every public class is assigned with its effect, or refused with a hint."""

from __future__ import annotations

import dataclasses
import enum
import importlib
import inspect
from collections.abc import Iterator
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp import boundary, fem, sparse
from jaxwarp.errors import KernelAttributeError, KernelTypeError, KernelValueError
from jaxwarp.types import HANDLE, STRUCT

MODULES = """
jaxwarp jaxwarp.autograd jaxwarp.fem jaxwarp.geometry jaxwarp.jax_experimental jaxwarp.optim jaxwarp.optim.linear
jaxwarp.sparse jaxwarp.types jaxwarp.utils
""".split()
# Of objects that public functions give.
RESULTS = """
arrays.host_array.HostArray arrays.struct_array.StructArray arrays.indexed.IndexedArray memory.live_array.LiveArray
memory.live_array.MemoryArray ffi.callbacks.buffers.Buffer ffi.callbacks.callback.ExecutionContext
ffi.programs.traced_array.ArrayHandle ffi.programs.capture.RecordedArray ffi.jax_kernel.JaxKernel
ffi.programs.jax_callable.JaxCallable quaternions.HostValue fem.field.fields.TestField fem.field.fields.TrialField
fem.field.fields.TraceField fem.field.fields.FieldRestriction frontend.text.functions.Overload host.capture.Graph
""".split()


def public_classes() -> Iterator[type]:
    for module in MODULES:
        found = importlib.import_module(module)
        for name in dir(found):
            value = None if name.startswith("_") else getattr(found, name)
            if inspect.isclass(value) and value.__module__.startswith("jaxwarp"):
                yield value
    for path in RESULTS:
        module, _, name = path.rpartition(".")
        yield getattr(importlib.import_module(f"jaxwarp.{module}"), name)


def is_data(kind: type) -> bool:
    """Enumerations, errors, marks without attributes, and structs whose fields are what a user says they are."""
    is_struct = hasattr(kind, STRUCT) and not hasattr(kind, HANDLE)
    return issubclass(kind, (enum.Enum, BaseException)) or is_struct or not boundary._attributes(kind)


CLASSES = sorted({kind for kind in public_classes() if not is_data(kind)}, key=lambda k: f"{k.__module__}.{k.__name__}")


def blank(kind: type) -> Any:
    """An instance, made by no constructor: what is refused is refused whatever it holds."""
    if issubclass(kind, np.ndarray):
        return kind((3,), np.float32)
    if issubclass(kind, int):
        return int.__new__(kind)
    return tuple.__new__(kind, range(20)) if issubclass(kind, tuple) else object.__new__(kind)


def settable(kind: type) -> set[str]:
    return {name for name in boundary._attributes(kind) if boundary._can_be_set(kind, name)}


def test_there_are_classes():
    assert len(CLASSES) > 80


@pytest.mark.parametrize("kind", CLASSES, ids=lambda k: f"{k.__module__.removeprefix('jaxwarp.')}.{k.__name__}")
def test_what_has_no_effect_is_refused(kind):
    given = None if inspect.isabstract(kind) else blank(kind)
    for name in () if given is None else boundary._attributes(kind) - settable(kind):
        with pytest.raises(KernelAttributeError, match=f"{name} cannot be set") as caught:
            setattr(given, name, None)
        assert caught.value.hint
        assert caught.traceback[-1].path.name == "test_assignments.py"
    assert all(any((base.__name__, name) in EFFECTS for base in kind.__mro__) for name in settable(kind))


# What is assigned, and what is to be seen then. Each is called with a new instance.


def array() -> Any:
    return wp.array(np.arange(6, dtype=np.float32), dtype=float, requires_grad=True)


def grid() -> Any:
    return fem.Grid2D(wp.vec2i(2, 2))


def mesh() -> Any:
    return wp.Mesh(np.eye(3, dtype=np.float32), np.arange(3, dtype=np.int32))


def moved(Optimiser: Any, name: str, value: Any) -> Any:
    x = wp.ones(1, dtype=float)
    made = Optimiser([x], lr=0.5, **({"momentum": 0.5, "dampening": 0.25} if Optimiser is wp.optim.SGD else {}))
    setattr(made, name, value)
    made.step([wp.ones(1, dtype=float)])
    made.step([wp.full(1, 3.0, dtype=float)])
    return x.numpy()[0]


def changes(Optimiser: Any, name: str, value: Any) -> bool:
    return moved(Optimiser, name, value) != moved(Optimiser, "note", None)


def _gradient_is_seen() -> bool:
    a, grad = array(), wp.ones(6, dtype=float)
    a.grad = grad
    return a.grad is grad


def _requires_grad_is_seen() -> bool:
    a = array()
    a.requires_grad = False
    return a.grad is None


def _retained_is_seen() -> bool:
    a = array()
    a.retain_grad = True
    return a[2:].retain_grad


def _locked() -> bool:
    a = array()
    a.is_writable = False
    with pytest.raises(KernelTypeError, match="read-only"):
        a.zero_()
    a.is_writable = True
    return a.zero_().numpy().sum() == 0


def _points_move() -> bool:
    m = mesh()
    m.points = np.eye(3, dtype=np.float32) + 5
    ray = np.array([[5, 5.5, 9]], np.float32), np.array([[0, 0, -1]], np.float32)
    return bool(np.isfinite(wp.geometry.cast_rays(m, *map(jnp.asarray, ray)).t[0]))


def _velocities_are_seen() -> bool:
    m = mesh()
    m.velocities = v = np.ones((3, 3), np.float32)
    return m.velocities is v


def _matrix(name: str, value: Any) -> Any:
    places = wp.array([0, 1], dtype=int)
    A = sparse.bsr_from_triplets(2, 2, places, places, wp.array([1.0, 2.0], dtype=float))
    setattr(A, name, value)
    return sparse.bsr_mv(A, wp.array([1.0, 1.0], dtype=float)).numpy()


def _refusal(name: str, value: Any) -> str:
    with pytest.raises(KernelValueError) as caught:
        _matrix(name, value)
    return caught.value.message


def _surface(name: str, value: Any) -> Any:
    field = np.fromfunction(lambda i, j, k: i - 0.5 + 0 * (j + k), (3, 3, 3)).astype(np.float32)
    made = wp.geometry.IsoSurfaceNets(3, 3, 3)
    setattr(made, name, value)
    try:
        made.surface(wp.array(field), 0.0)
    except KernelValueError as error:
        return error.message
    return made.verts.numpy().tolist(), made.indices.numpy().tolist()


def _corner(name: str) -> bool:
    made = wp.MarchingCubes(3, 3, 3)
    setattr(made, f"domain_bounds_{name}_corner", value := wp.vec3(9.0, 9.0, 9.0))
    return getattr(made, name) is value


def _timed(name: str, value: Any, capsys: Any) -> tuple[str, dict[str, Any]]:
    found: dict[str, Any] = {}
    timer = wp.ScopedTimer("t", dict=found)
    setattr(timer, name, value)
    capsys.readouterr()
    with wp.Tape() as tape, timer:
        wp.copy(wp.zeros(1, dtype=float), wp.ones(1, dtype=float))
    return capsys.readouterr().out, {**found, "marks": len(tape.scopes)}


def _uniform_elsewhere() -> bool:
    made = grid()
    field = fem.UniformField(fem.Cells(made), 2.0)
    field.domain = fem.BoundarySides(made)
    sides = fem.RegularQuadrature(fem.BoundarySides(made), 1)
    return fem.integrate(_integrand, quadrature=sides, fields={"u": field}) == 8.0  # around a square


def _uniform() -> bool:
    field = fem.UniformField(fem.Cells(grid()), 2.0)
    field.value = 3.0
    return fem.integrate(_integrand, quadrature=fem.RegularQuadrature(field.domain, 1), fields={"u": field}) == 3.0


@fem.integrand
def _integrand(s: fem.Sample, u: fem.Field):
    return u(s)


@wp.func
def _scaled(x: wp.vec2, k: float):
    return k


def _implicit() -> bool:
    field = fem.ImplicitField(fem.Cells(grid()), _scaled, values={"k": 2.0})
    field.values = {"k": 3.0}
    return fem.integrate(_integrand, quadrature=fem.RegularQuadrature(field.domain, 1), fields={"u": field}) == 3.0


@wp.func
def _flat(distance: float, point: int, height: float):
    return height


def _kernel_values() -> bool:
    at = fem.PicQuadrature(fem.Cells(grid()), wp.array([[0.3, 0.4]], dtype=wp.vec2))
    space = fem.PointBasisSpace(at, kernel_func=_flat, kernel_values={"height": 2.0})
    field = fem.make_collocated_function_space(space, dtype=float).make_field()
    field.dof_values.fill_(1.0)
    before = fem.integrate(_integrand, quadrature=at, fields={"u": field})
    space.kernel_values = {"height": 6.0}
    return np.isclose(fem.integrate(_integrand, quadrature=at, fields={"u": field}), 3.0 * before) and before != 0.0


def _dofs() -> bool:
    space = fem.make_polynomial_space(grid(), degree=1)
    field = space.make_field()
    field.dof_values = wp.full(space.node_count(), 3.0, dtype=float)
    quadrature = fem.RegularQuadrature(fem.Cells(space.geometry), 1)
    return fem.integrate(_integrand, quadrature=quadrature, fields={"u": field}) == 3.0


def _positions() -> bool:
    places = np.array([[0, 0], [1, 0], [0, 1]], np.float32)
    made = fem.Trimesh2D(wp.array([[0, 1, 2]], dtype=int), wp.array(places, dtype=wp.vec2))
    made.positions = wp.array(2 * places, dtype=wp.vec2)
    quadrature = fem.RegularQuadrature(fem.Cells(made), 1)
    one = fem.UniformField(quadrature.domain, 1.0)
    return fem.integrate(_integrand, quadrature=quadrature, fields={"u": one}) == 2.0


def _particles() -> bool:
    whole = fem.Cells(grid())
    x = wp.array([[0.25, 0.25], [0.75, 0.25], [0.75, 0.3]], dtype=wp.vec2)
    quadrature = fem.PicQuadrature(whole, x, wp.ones(3, dtype=float))
    quadrature.domain = fem.Subdomain(whole, element_indices=wp.array([2], dtype=int))
    one = fem.UniformField(whole, 1.0)
    return fem.integrate(_integrand, quadrature=quadrature, fields={"u": one}) == 2.0


def _said(x: float):
    """What it does."""
    return x


def _does_nothing(x: wp.array[float]):
    pass


def _named(what: Any, name: str) -> Any:
    setattr(what, name, "named")
    return what


EFFECTS: dict[tuple[str, str], Any] = {
    ("HostArray", "grad"): _gradient_is_seen,
    ("HostArray", "requires_grad"): _requires_grad_is_seen,
    ("HostArray", "retain_grad"): _retained_is_seen,
    ("HostArray", "is_writable"): _locked,
    ("Mesh", "points"): _points_move,
    ("Mesh", "velocities"): _velocities_are_seen,
    ("UniformField", "value"): _uniform,
    ("UniformField", "domain"): _uniform_elsewhere,
    ("PicQuadrature", "domain"): _particles,
    ("ImplicitField", "values"): _implicit,
    ("PointBasisSpace", "kernel_values"): _kernel_values,
    ("DiscreteField", "dof_values"): _dofs,
    ("VertexMesh", "positions"): _positions,
    ("Func", "key"): lambda: "named" in repr(_named(wp.func(_said), "key")),
    ("Func", "doc"): lambda: inspect.getdoc(_named(wp.func(_said), "doc")) == "named",
    ("Integrand", "key"): lambda: "named" in repr(_named(fem.integrand(_said), "key")),
    ("Integrand", "doc"): lambda: inspect.getdoc(_named(fem.integrand(_said), "doc")) == "named",
    ("Kernel", "key"): lambda: "named" in repr(_named(wp.kernel(_does_nothing), "key")),
    ("Module", "name"): lambda: _named(wp.Module("other"), "name") == wp.Module("named"),
    **{("Adam", n): lambda n=n, v=v: changes(wp.optim.Adam, n, v)
       for n, v in {"lr": 0.1, "eps": 2.0, "beta1": 0.1, "beta2": 0.1, "t": 7}.items()},
    **{("SGD", n): lambda n=n, v=v: changes(wp.optim.SGD, n, v)
       for n, v in {"lr": 0.1, "momentum": 0.9, "dampening": 0.5, "weight_decay": 0.5, "nesterov": True,
                    "t": 7}.items()},
    **{("IsoSurfaceBase", n): lambda n=n, v=v: _surface(n, v) != _surface("note", None)
       for n, v in {"nx": 4, "ny": 4, "nz": 4, "lower": wp.vec3(-1.0), "upper": wp.vec3(7.0)}.items()},
    ("IsoSurfaceNets", "topology"): lambda: _surface("topology", "quad") != _surface("note", None),
    **{("IsoSurfaceMarchingCubes", f"domain_bounds_{n}_corner"): lambda n=n: _corner(n) for n in ("lower", "upper")},
    ("BsrMatrix", "values"): lambda: _matrix("values", wp.array([3.0, 4.0], dtype=float)).tolist() == [3, 4],
    ("BsrMatrix", "columns"): lambda: _matrix("columns", wp.array([-1, 1], dtype=int)).tolist() == [0, 2],
    ("BsrMatrix", "offsets"): lambda: _matrix("offsets", wp.array([0, 1, 1], dtype=int)).tolist() == [1, 0],
    ("BsrMatrix", "row_counts"): lambda: _matrix("row_counts", wp.array([1, 0], dtype=int)).tolist() == [1, 0],
    ("BsrMatrix", "nnz"): lambda: _refusal("nnz", 3).startswith("bsr_mv: A: expected columns of at least 3 elements"),
    ("BsrMatrix", "nrow"): lambda: _refusal("nrow", 3).startswith("bsr_mv: A: expected offsets of at least 4 elements"),
    ("BsrMatrix", "ncol"): lambda: "Incompatible 'x'" in _refusal("ncol", 3),
}  # fmt: skip
_TIMER = {"name": "other", "active": False, "print": False, "extra_msg": "more", "dict": {}, "skip_tape": True,
          "detailed": True}  # fmt: skip
EFFECTS |= {("ScopedTimer", name): None for name in _TIMER}


@pytest.mark.parametrize("where", [k for k, f in EFFECTS.items() if f is not None], ids=".".join)
def test_what_is_assigned_has_its_effect(where):
    assert EFFECTS[where]()


@pytest.mark.parametrize("name", _TIMER)
def test_timers(name, capsys):
    def masked(found):
        text, kept = found
        counts = {k: v if k == "marks" else len(v) for k, v in kept.items()}
        return [word for word in text.split() if not word[0].isdigit()], counts

    usual = masked(_timed("note", 1, capsys))
    assert masked(_timed(name, _TIMER[name], capsys)) != usual


def test_every_attribute_that_instances_have_is_known():
    """The names are found in the text of methods; here are instances, which know theirs."""
    x = wp.array(np.ones((2, 3)), dtype=float)
    given = [x, grid(), mesh(), wp.Tape(), wp.get_device("cpu"), wp.HashGrid(2, 2, 2), wp.optim.Adam([x]),
             wp.MarchingCubes(3, 3, 3), fem.UniformField(fem.Cells(grid()), 2.0), wp.ScopedTimer("t"), wp.Module("m"),
             wp.vec3(), fem.RegularQuadrature(fem.Cells(grid()), 2), fem.make_polynomial_space(grid()),
             wp.optim.linear.LinearOperator((2, 2), float, "cpu", print)]  # fmt: skip
    for one in given:
        names = {name for name in getattr(one, "__dict__", {}) if not name.startswith("_")}
        assert names <= boundary._attributes(type(one)), type(one)


def test_arrays_say_what_to_write_instead():
    """`a.shape = (3, 4)` changed the attribute alone, so that later reads and writes were of other elements."""
    a = wp.array(np.arange(12.0).reshape(2, 6), dtype=float)
    for name, hint in (("shape", r"a.reshape\(\(3, 4\)\)"), ("strides", "strides="), ("ndim", "reshape"),
                       ("dtype", "view"), ("device", r"a.to\(device\)")):  # fmt: skip
        with pytest.raises(AttributeError, match=rf"array: {name} cannot be set\n  hint: .*{hint}"):
            setattr(a, name, (3, 4))
    assert a.shape == (2, 6)
    assert a.numpy()[1, 5] == 11
    a.note = "a program's own"
    assert a.note == "a program's own"


def test_memory_of_others_stays_read_only():
    constant = wp.from_jax(jnp.ones(3))
    with pytest.raises(KernelTypeError, match="clone"):
        constant.is_writable = True


def test_vectors_have_the_parts_of_their_type():
    v = wp.vec3(1.0, 2.0, 3.0)
    v.x = 4.0
    assert v.tolist() == [4, 2, 3]
    with pytest.raises(KernelAttributeError, match=r"'vec3f' .* no attribute 'w'\n  hint: its parts are x, y, z"):
        v.w = 1.0
    with pytest.raises(KernelAttributeError, match="shape cannot be set"):
        v.shape = (3, 1)
    v.colour = "red"
    assert v.colour == "red"
    assert v.tolist() == [4, 2, 3]


def test_programs_that_inherit_keep_their_own_attributes():
    class Mine(wp.Tape):
        limit = 3

        def __init__(self):
            super().__init__()
            self.count = 0

    mine = Mine()
    mine.count += 1
    mine.limit = 4
    assert (mine.count, mine.limit) == (1, 4)
    with pytest.raises(KernelAttributeError, match="scopes cannot be set"):
        mine.scopes = []


def test_structs_of_programs_are_assigned():
    @wp.struct
    class Law:
        stiffness: float

    law = Law(1.0)
    law.stiffness = 2.0
    assert law == dataclasses.replace(law, stiffness=2.0)

