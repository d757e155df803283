"""Every public name, called with what it does not take: an error that ends at the user's line, and no crash."""

from __future__ import annotations

import os
import traceback
import types
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

import jaxwarp as wp

ODD: list[tuple[Any, ...]] = [
    (), (1,), (-1,), ("text",), (None,), ([1.0],), ({},), (object(),), (1, 2), ("text", "b"), (1, 2, 3), (1.5,) * 4,
    (wp.vec3(1, 2, 3),), (wp.vec3(1, 2, 3), 1), (wp.quat(0, 0, 0, 1), wp.vec3(1, 2, 3)), (wp.mat22(1, 2, 3, 4),),
    (wp.zeros(3),), (wp.zeros(3), "text"), (jnp.ones(2),),
]  # fmt: skip
PACKAGE = os.path.dirname(wp.__file__) + os.sep

# What acts on the whole process, or waits.
_ACTS = {"capture_begin", "capture_end", "exit"}


@wp.struct
class Pair:
    number: float
    place: wp.vec3


@wp.struct
class Scene:
    mesh: wp.Mesh
    radius: float


@wp.kernel
def nearest(scene: Scene, faces: wp.array[int]):
    query = wp.mesh_query_point(scene.mesh, wp.vec3(0.0, 0.0, 1.0), scene.radius)
    faces[wp.tid()] = query.face


@wp.kernel
def scaled(x: wp.array[float], by: float, out: wp.array[float]):
    i = wp.tid()
    out[i] = by * x[i]


@wp.func
def doubled(x: float):
    return 2.0 * x


def points():
    return np.arange(27, dtype=np.float32).reshape(9, 3) ** 2


def mesh():
    return wp.Mesh(points=wp.array(points(), dtype=wp.vec3), indices=wp.array(np.arange(9), dtype=int))


# How to make one, and what of it is called.
METHODS = {
    "array": (lambda: wp.zeros((2, 2)), "__getitem__ __setitem__ __add__ __mul__ fill_ assign reshape transpose view"
              " astype numpy list contiguous flatten to cast copy_from zero_"),
    "array of vectors": (lambda: wp.zeros(2, dtype=wp.vec3), "__getitem__ __setitem__ fill_ assign reshape view"),
    "array of structs": (lambda: wp.zeros(2, dtype=Pair), "__getitem__ __setitem__ fill_ assign reshape"),
    "Mesh": (mesh, "refit replace"),
    "Bvh": (lambda: wp.Bvh(wp.array(points(), dtype=wp.vec3), wp.array(points() + 1, dtype=wp.vec3)), "refit rebuild"),
    "HashGrid": (lambda: wp.HashGrid(4, 4, 4), "build reserve"),
    "Volume": (lambda: wp.Volume.load_from_numpy(np.zeros((4, 4, 4), np.float32)), "allocate_by_tiles"
               " allocate_by_voxels load_from_numpy load_from_nvdb feature_array rebuild save_to_nvdb"),
    "Tape": (wp.Tape, "backward zero reset gradients"),
    "kernel": (lambda: scaled, "__call__ ir source ptx resources specialize interpret"),
    "func": (lambda: doubled, "__call__"),
    "jax_kernel": (lambda: wp.jax_kernel(scaled), "__call__"),
    "vec3": (lambda: wp.vec3(1, 2, 3), "__getitem__ __setitem__ __add__ __mul__ __truediv__ __matmul__ __eq__"),
    "mat22": (lambda: wp.mat22(1, 2, 3, 4), "__getitem__ __setitem__ __add__ __mul__ __truediv__ __matmul__ __eq__"),
    "quat": (lambda: wp.quat(0, 0, 0, 1), "__getitem__ __setitem__ __add__ __mul__ __truediv__"),
    "struct": (Pair, "__eq__"),
}  # fmt: skip


def names() -> list[str]:
    found = [n for n in dir(wp) if not n.startswith("_") and n not in _ACTS]
    values = [(n, getattr(wp, n, None)) for n in found]
    errors = [n for n, v in values if isinstance(v, type) and issubclass(v, BaseException)]
    return [n for n, v in values if callable(v) and not isinstance(v, types.ModuleType) and n not in errors]


def require_users_error(what: str, call: Any, arguments: tuple[Any, ...]) -> None:
    """The call may do what is asked."""
    raised: Exception | None = None
    try:
        call(*arguments)
    except Exception as error:
        raised = error
    if raised is not None:
        frames = [f for f in traceback.extract_tb(raised.__traceback__) if f.filename.startswith(PACKAGE)]
        assert not frames, f"{what}{arguments!r}: {raised!r}, in {frames[-1]}"
        assert str(raised), f"{what}{arguments!r}: {raised!r} has no text"


@pytest.mark.parametrize("name", names())
def test_public_names(name: str, capfd: pytest.CaptureFixture[str]):
    for arguments in ODD:
        require_users_error(name, getattr(wp, name), arguments)


def test_errors_about_keywords_have_the_public_name():
    calls = {name: getattr(wp, name) for name in names()} | {"HashGrid.build": wp.HashGrid.build}
    private = []
    for name, call in calls.items():
        try:
            call(misspelt=1)
        except Exception as error:
            private += [(name, str(error))] * str(error).startswith("_")
    assert not private


@pytest.mark.parametrize("kind", METHODS)
def test_methods(kind: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    make, methods = METHODS[kind]
    for method in methods.split():
        if not hasattr(make(), method):
            continue
        for arguments in ODD:
            require_users_error(f"{kind}.{method}", getattr(make(), method), arguments)


def test_a_struct_with_a_mesh_is_made_without_it():
    scene = Scene(radius=10.0)
    assert scene.mesh is None
    with pytest.raises(TypeError, match=r"argument 'scene\.mesh': expected struct Mesh, got None"):
        wp.launch(nearest, dim=1, inputs=[scene], outputs=[wp.zeros(1, dtype=int)])
    scene.mesh = mesh()
    faces = wp.full(1, -1, dtype=int)
    wp.launch(nearest, dim=1, inputs=[scene], outputs=[faces])
    assert faces.list() == [0]
