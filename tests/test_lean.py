"""Classes whose methods are made at their first use are those of the standard library."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import subprocess
import sys
import threading
from dataclasses import field
from functools import cached_property

import pytest

from jaxwarp.lean import dataclass


def classes(decorate):
    @decorate(frozen=True)
    class Point:
        """Two numbers."""

        x: int
        y: int = 2
        note: str = field(default="", compare=False, repr=False)

        @cached_property
        def total(self):
            return self.x + self.y

    @decorate(frozen=True)
    class Named(Point):
        names: tuple[str, ...] = ()
        seen: list[int] = field(default_factory=list, compare=False)

        def __post_init__(self):
            self.seen.append(self.x)

    @decorate(frozen=True, eq=False, kw_only=True)
    class Base:
        loc: str | None = None

    @decorate(frozen=True, eq=False)
    class Leaf(Base):
        value: int

    @decorate
    class Open:
        parts: list[int] = field(default_factory=list)

    return Point, Named, Base, Leaf, Open


def told(decorate, order):
    """What instances say of themselves, made in some order of classes."""
    point, named, base, leaf, opened = classes(decorate)
    make = {
        "point": lambda: point(1, note="n"),
        "named": lambda: named(3, names=("a",)),
        "base": lambda: base(loc="l"),
        "leaf": lambda: leaf(5, loc="m"),
        "open": lambda: opened([1]),
    }
    made = {name: make[name]() for name in order}
    again = {name: make[name]() for name in reversed(order)}
    p, n, f, o = (made[k] for k in ("point", "named", "leaf", "open"))
    shown = [repr(v).replace("told.<locals>.", "").split("<locals>.")[-1] for v in made.values()]
    changed = dataclasses.replace(n, y=9)
    return [
        shown,
        [made[k] == again[k] for k in sorted(made)],
        hash(p) == hash(point(1, 2, "other")),
        p == named(1),
        p != point(2),
        {p, point(1, 2)} == {point(1)},
        p.total,
        (changed.x, changed.y, changed.names, changed.seen),
        (f.value, f.loc),
        o.parts,
        type(o).__hash__ is None,
        [x.name for x in dataclasses.fields(n)],
        named.__match_args__,
        hasattr(opened, "parts"),
        point.__doc__,
        copy.deepcopy(n) == n,
    ]


@pytest.mark.parametrize(
    "order", [("point", "named", "base", "leaf", "open"), ("leaf", "open", "named", "base", "point")], ids=str
)
def test_instances_are_as_those_of_the_standard_library(order):
    assert told(dataclass, order) == told(dataclasses.dataclass, order)


def test_wrong_arguments_are_refused_as_ever():
    point = classes(dataclass)[0]
    for _ in range(2):
        with pytest.raises(TypeError, match="missing 1 required positional argument: 'x'"):
            point()
        with pytest.raises(TypeError, match="unexpected keyword argument 'z'"):
            point(1, z=2)


@dataclass(frozen=True)
class Kept:
    a: int
    b: tuple[int, ...] = ()


def test_an_instance_that_was_not_initialised_compares():
    """As one that was pickled in another process."""
    code = (
        "import sys, pickle; sys.path[:0] = sys.argv[1:3]; import test_lean;"
        "x, y = (pickle.loads(bytes.fromhex(sys.argv[3])) for _ in range(2));"
        "assert hash(x) == hash(y) and x == y and repr(x) == 'Kept(a=1, b=(2,))', x"
    )
    folders = [str(__import__("pathlib").Path(__file__).parents[k]) for k in (0, 1)]
    data = pickle.dumps(Kept(1, (2,))).replace(b"tests.test_lean", b"test_lean")
    subprocess.run([sys.executable, "-c", code, *folders, data.hex()], check=True)


def test_threads_may_be_first_together():
    for _ in range(20):
        named = classes(dataclass)[1]
        found, start = [], threading.Barrier(4)

        def work(named=named, found=found, start=start):
            start.wait()
            found.append(named(1, names=("t",)))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 4
        assert all(x == found[0] and x.seen == [1] for x in found)


def test_importing_makes_few_classes_and_no_code_generator():
    """Half of what the import took were methods of classes that most programs do not use."""
    code = """
import dataclasses, sys
import jax
made, process = [], dataclasses._process_class
dataclasses._process_class = lambda cls, *rest: made.append(cls) or process(cls, *rest)
import jaxwarp
ours = [c.__name__ for c in made if c.__module__.startswith("jaxwarp")]
assert len(ours) <= 20, ours
found = [m for m in sys.modules if m.startswith(("llvmlite", "jaxwarp.codegen"))]
assert not [m for m in found if m != "jaxwarp.codegen"], found
import jaxwarp.codegen.cpu
assert not [m for m in sys.modules if m.startswith(("jaxwarp.codegen.cuda", "cuda"))]
"""
    folder = str(__import__("pathlib").Path(__file__).parents[1])
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
