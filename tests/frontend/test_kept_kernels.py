"""Kernels on the disk: found by later processes if all that lowering reads is as it was, and only then."""

import dataclasses
import linecache
import os
import pickle
import subprocess
import sys
import textwrap
import time
import types
from typing import Any

import pytest

import jaxwarp as wp
from jaxwarp.codegen import cache
from jaxwarp.errors import IdError
from jaxwarp.frontend import kept
from jaxwarp.frontend.lower import lower
from jaxwarp.frontend.text import functions
from jaxwarp.ir.nodes import walk
from jaxwarp.launches.spec import identity_of
from jaxwarp.library import special
from jaxwarp.modules import MODULE_OPTIONS

NAME = "kept_kernels_of_a_program"
HEAD = """
import enum
import math
import numpy as np
import jaxwarp as wp

"""


@pytest.fixture(autouse=True)
def _kept(tmp_path, monkeypatch):
    """A new cache, and a process that began after the last change of the package."""
    monkeypatch.setenv("JAXWARP_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(kept, "_is_kept", True)
    monkeypatch.setattr(cache, "IMPORTED", time.time() + 10)
    find = cache._all_files
    find.cache_clear()
    yield
    find.cache_clear()
    MODULE_OPTIONS.pop(NAME, None)


@pytest.fixture
def lowered(monkeypatch):
    """The names of the kernels that were lowered, not found."""
    names = []
    monkeypatch.setattr(kept, "lower", lambda source, *a, **k: names.append(source.name) or lower(source, *a, **k))
    return names


@pytest.fixture
def define(monkeypatch):
    """Runs the text of a program, as a new process would, and gives its kernel `k`."""

    def run(text, name=NAME):
        text = HEAD + textwrap.dedent(text)
        module = types.ModuleType(name)
        file = f"<{name}>"
        monkeypatch.setitem(sys.modules, name, module)
        monkeypatch.setitem(linecache.cache, file, (len(text), None, text.splitlines(True), file))
        exec(compile(text, file, "exec"), vars(module))
        return module.k

    return run


def anew(kernel):
    """The kernel, lowered here and now."""
    arguments = [(a.name, a.annotation) for a in kernel.arguments]
    return lower(kernel._source, arguments, tuple(a.annotation for a in kernel.leaves), kernel.found.max_unroll)


def require_equal(found, made):
    assert str(found) == str(made)
    assert (found.digest, found.digest_of_places) == identity_of(dataclasses.replace(found))
    assert identity_of(found) == identity_of(made)  # the places, too
    assert [op.loc for op in walk(found.body)] == [op.loc for op in walk(made.body)]
    assert [(u.axes, u.loc) for u in found.sizes] == [(u.axes, u.loc) for u in made.sizes]
    assert [(u.shape, u.stores, u.moves, u.loc) for u in found.tiles] == [
        (u.shape, u.stores, u.moves, u.loc) for u in made.tiles
    ]
    assert [(u.what, u.loc, u.axis) for u in found.lanes] == [(u.what, u.loc, u.axis) for u in made.lanes]


PLAIN = """
@wp.kernel
def k(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = {body}
"""

# A program, and two values that make other kernels of it.
CHANGES = {
    "constant": ("C = {}\n" + PLAIN.format(body="x[i] * C"), "2.0", "3.0"),
    "kind": ("C = {}\n" + PLAIN.format(body="x[i] / float(C / 2)"), "3", "3.0"),
    "zero": ("C = {}\n" + PLAIN.format(body="x[i] * C"), "0.0", "-0.0"),
    "truth": ("C = {}\n" + PLAIN.format(body="x[i] if C else 0.0"), "True", "False"),
    "tuple": ("C = (1.0, {})\n" + PLAIN.format(body="x[i] * C[1]"), "2.0", "3.0"),
    "vector": ("C = wp.vec2(1.0, {})\n" + PLAIN.format(body="x[i] * C[1]"), "2.0", "3.0"),
    "numpy": ("C = np.array([1.0, {}], np.float32)\n" + PLAIN.format(body="x[i] * C[1]"), "2.0", "3.0"),
    "dtype": ("C = np.{}(2)\n" + PLAIN.format(body="x[i] * float(C / type(C)(4))"), "int32", "float32"),
    "type": ("T = wp.{}\n" + PLAIN.format(body="float(T(x[i]))"), "int32", "int64"),
    "vector type": ("T = wp.types.vector({}, float)\n" + PLAIN.format(body="wp.length(T(x[i]))"), "2", "3"),
    "attribute": ("class S:\n    gain = {}\ns = S()\n" + PLAIN.format(body="x[i] * s.gain"), "2.0", "3.0"),
    "of a class": ("class S:\n    gain = {}\n" + PLAIN.format(body="x[i] * S.gain"), "2.0", "3.0"),
    "nested": (
        "class S: pass\ns = S()\ns.t = S()\ns.t.gain = {}\n" + PLAIN.format(body="x[i] * s.t.gain"), "2.0", "3.0",
    ),
    "member": ("class E(enum.IntEnum):\n    A = {}\n" + PLAIN.format(body="x[i] * float(E.A)"), "2", "3"),
    "static": ("t = {{'a': {}}}\n" + PLAIN.format(body="x[i] * wp.static(t['a'])"), "2.0", "3.0"),
    "text": (PLAIN.format(body="x[i] * {}"), "2.0", "3.0"),
    "place": ("{}" + PLAIN.format(body="x[i]"), "", "\n"),
    "function": ("@wp.func\ndef f(a: float):\n    return a * {}\n" + PLAIN.format(body="f(x[i])"), "2.0", "3.0"),
    "constant of a function": (
        "C = {}\n@wp.func\ndef f(a: float):\n    return a * C\n" + PLAIN.format(body="f(x[i])"), "2.0", "3.0",
    ),
    "function of a function": (
        "@wp.func\ndef g(a: float):\n    return a + {}\n@wp.func\ndef f(a: float):\n    return g(a)\n"
        + PLAIN.format(body="f(x[i])"), "2.0", "3.0",
    ),
    "default": (
        "C = {}\n@wp.func\ndef f(a: float, b: float = C):\n    return a * b\n" + PLAIN.format(body="f(x[i])"),
        "2.0", "3.0",
    ),
    "alias": (
        "@wp.func\ndef f(a: float):\n    return a\n@wp.func\ndef g(a: float):\n    return 2.0 * a\nh = {}\n"
        + PLAIN.format(body="h(x[i])"), "f", "g",
    ),
    "builtin": ("h = wp.{}\n" + PLAIN.format(body="h(x[i])"), "sin", "cos"),
    "of Python": ("h = {}\n" + PLAIN.format(body="float(h(x[i], 1.0))"), "min", "max"),
    "of another class": (
        "class A:\n    f = wp.sin\nclass B:\n    f = wp.cos\nh = {}\n" + PLAIN.format(body="h.f(x[i])"), "A", "B",
    ),
    "own attribute": (
        "@wp.func\ndef f(a: float):\n    return a\n@wp.func\ndef g(a: float):\n    return 2.0 * a\n"
        "@wp.func\ndef h(a: float):\n    return a\nh.other = {}\n"
        "@wp.func\ndef call(a: float):\n    return h.other(a)\n" + PLAIN.format(body="call(x[i])"), "f", "g",
    ),
    "late": (
        PLAIN.format(body="f(x[i])") + "@wp.func\ndef f(a: float):\n    return a * {}\n", "2.0", "3.0",
    ),
    "late constant": (PLAIN.format(body="x[i] * C") + "C = {}\n", "2.0", "3.0"),
    "operator": (
        "@wp.struct\nclass S:\n    a: float\n@wp.func\ndef add(a: S, b: S):\n    return a.a + {} * b.a\n"
        "@wp.func\ndef f(a: float):\n    s = S()\n    s.a = a\n    return s + s\n" + PLAIN.format(body="f(x[i])"),
        "2.0", "3.0",
    ),
    "struct": (
        "@wp.struct\nclass S:\n    a: wp.{}\n@wp.func\ndef f(a: float):\n    s = S()\n    s.a = type(s.a)(a)\n"
        "    return float(s.a)\n" + PLAIN.format(body="f(x[i])"), "int32", "int64",
    ),
    "instance": (
        "@wp.struct\nclass S:\n    a: float\ns = S()\ns.a = {}\n" + PLAIN.format(body="x[i] * s.a"), "2.0", "3.0",
    ),
    "annotation": (
        "T = wp.{}\n@wp.func\ndef f(a: float):\n    n: T = 3\n    return a * float(n / T(2))\n"
        + PLAIN.format(body="f(x[i])"), "int32", "float32",
    ),
    "rule": (
        "@wp.func\ndef f(a: float):\n    return a * a\n{}\ndef df(a: float, r: float):\n    wp.adjoint[a] += 7.0 * r\n"
        + PLAIN.format(body="f(x[i])"), "", "@wp.func_grad(f)",
    ),
    "rule's number": (
        "C = {}\n@wp.func\ndef f(a: float):\n    return a * a\n@wp.func_grad(f)\ndef df(a: float, r: float):\n"
        "    wp.adjoint[a] += C * r\n" + PLAIN.format(body="f(x[i])"), "2.0", "3.0",
    ),
    "closure": (
        "def make(c):\n    @wp.kernel\n    def k(x: wp.array[float], y: wp.array[float]):\n"
        "        i = wp.tid()\n        y[i] = x[i] * c\n    return k\nk = make({})\n", "2.0", "3.0",
    ),
    "closure of a function": (
        "def make(c):\n    @wp.func\n    def f(a: float):\n        return a * c\n    return f\nf = make({})\n"
        + PLAIN.format(body="f(x[i])"), "2.0", "3.0",
    ),
    "list in itself": (
        "t = [{}]\nt.append(t)\n" + PLAIN.format(body="x[i] * wp.static(t[1][1][0])"), "2.0", "3.0",
    ),
    "unrolling": (
        "wp.set_module_options({{'max_unroll': {}}})\n@wp.kernel\ndef k(x: wp.array[float], y: wp.array[float]):\n"
        "    i = wp.tid()\n    for n in range(6):\n        y[i + n] = x[i]\n", "0", "8",
    ),
}  # fmt: skip

# Programs whose kernels read what no text names, or too much: they are lowered each time.
UNNAMED = {
    "deep tuple": (
        "t = {}\nfor _ in range(60):\n    t = (t,)\ndef inner(t):\n    return inner(t[0]) if type(t) is tuple else t\n"
        "@wp.kernel\ndef k(x: wp.array[float], y: wp.array[float]):\n    i = wp.tid()\n"
        "    for n in range(1):\n        y[i] = x[i] * wp.static(inner(t) + n)\n", "2.0", "3.0",
    ),
    "constant of a struct's class": (
        "@wp.struct\nclass S:\n    a: float\n    K = {}\n@wp.func\ndef f(a: float):\n    s = S()\n    return a * s.K\n"
        + PLAIN.format(body="f(x[i])"), "2.0", "3.0",
    ),
    "default of a field": (
        "@wp.struct\nclass S:\n    a: float = {}\n@wp.func\ndef f(a: float):\n    s = S()\n    return a * s.a\n"
        + PLAIN.format(body="f(x[i])"), "2.0", "3.0",
    ),
    "attribute of a variable": (
        "class S:\n    gain = {}\nclass T:\n    inner = S\n@wp.func\ndef f(a: float):\n    s = T\n"
        "    return a * s.inner.gain\n" + PLAIN.format(body="f(x[i])"), "2.0", "3.0",
    ),
    "static of an unrolled loop": (
        "t = [1.0, {}]\n@wp.kernel\ndef k(x: wp.array[float], y: wp.array[float]):\n    i = wp.tid()\n"
        "    for n in range(2):\n        y[i + n] = x[i] * wp.static(t[n])\n", "2.0", "3.0",
    ),
    "function of Python in a static": (
        "def g(n):\n    return {} * n\n@wp.kernel\ndef k(x: wp.array[float], y: wp.array[float]):\n    i = wp.tid()\n"
        "    for n in range(2):\n        y[i + n] = x[i] * wp.static(g(n))\n", "2.0", "3.0",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CHANGES)
def test_each_value_gives_another_kernel(define, lowered, case):
    text, before, after = CHANGES[case]
    first = define(text.format(before)).ir()
    found = define(text.format(before))
    require_equal(found.ir(), first)
    assert lowered == ["k"]
    require_equal(found.ir(), anew(found))
    changed = define(text.format(after))
    require_equal(changed.ir(), anew(changed))
    assert identity_of(changed.ir()) != identity_of(first)
    assert lowered == ["k", "k"]


@pytest.mark.parametrize("case", UNNAMED)
def test_what_no_text_names_is_lowered_each_time(define, lowered, case):
    text, before, after = UNNAMED[case]
    first = define(text.format(before)).ir()
    assert identity_of(define(text.format(before)).ir()) == identity_of(first)
    changed = define(text.format(after))
    require_equal(changed.ir(), anew(changed))
    assert identity_of(changed.ir()) != identity_of(first)
    assert lowered == ["k", "k", "k"]


def test_another_package_lowers_anew(define, lowered, monkeypatch):
    text = PLAIN.format(body="x[i]")
    define(text).ir()
    files = cache._all_files()
    monkeypatch.setattr(cache, "_all_files", lambda: files._replace(digest="another"))
    define(text).ir()
    assert lowered == ["k", "k"]


def test_nothing_is_kept_of_a_package_that_has_changed(define, lowered, monkeypatch):
    text = PLAIN.format(body="x[i]")
    files = cache._all_files()
    path = next(iter(files.states))
    monkeypatch.setattr(cache, "_all_files", lambda: files._replace(states={**files.states, path: (0, 0, 0, 0)}))
    define(text).ir()
    define(text).ir()
    assert lowered == ["k", "k"]


def test_types_and_files_are_part_of_the_name(define, lowered):
    text = "from typing import Any\n" + PLAIN.format(body="x[i]").replace("[float]", "[Any]")
    for dtype in (wp.float32, wp.float64, wp.float32):
        found = define(text).ir([wp.array[dtype]] * 2)
        assert found.params[0].dtype == dtype
    assert lowered == ["k", "k"]
    define(text, "another_program").ir([wp.array[float]] * 2)
    assert lowered == ["k", "k", "k"]


def test_a_damaged_kernel_is_lowered_again(define, lowered, caplog):
    text = PLAIN.format(body="x[i]")
    first = define(text).ir()
    (entry,) = cache.entries()
    cache.put(entry.name, pickle.dumps("no kernel")[:-1])
    require_equal(define(text).ir(), first)
    assert "lowering it again" in caplog.text
    require_equal(define(text).ir(), first)
    assert lowered == ["k", "k"]


def test_late_names_keep_the_value_of_the_first_kernel(define, lowered):
    """A kernel that is found keeps what a kernel that is lowered keeps."""
    text = "from typing import Any\n" + PLAIN.format(body="x[i] * x.dtype(C)").replace("[float]", "[Any]") + "C = 2.0\n"
    define(text).ir([wp.array[wp.float32]] * 2)
    again = define(text)
    again.ir([wp.array[wp.float32]] * 2)
    assert lowered == ["k"]
    vars(sys.modules[NAME])["C"] = 5.0
    assert "0x1.0000000000000p+1" in str(again.ir([wp.array[wp.float64]] * 2))


def test_rules_come_too_late_for_a_kernel_that_is_found(define, lowered):
    text = "@wp.func\ndef f(a: float):\n    return a * a\n" + PLAIN.format(body="f(x[i])")
    define(text).ir()
    define(text).ir()
    assert lowered == ["k"]
    function = vars(sys.modules[NAME])["f"]
    with pytest.raises(wp.KernelError):

        @wp.func_grad(function)
        def rule(a: float, r: float):
            wp.adjoint[a] += r


@pytest.mark.parametrize("others", ["wp.float64", "float"])
def test_rules_are_in_time_for_what_a_kernel_that_is_found_does_not_call(define, lowered, others):
    text = (
        "USED = False\n@wp.func\ndef g(a: float):\n    return a * a\n@wp.func\ndef f(a: float):\n    return a * a\n"
        "@wp.func\ndef f(a: wp.float64):\n    return a * a\n" + PLAIN.format(body="g(f(x[i])) if USED else f(x[i])")
    )
    for _ in range(2):
        define(text).ir()
        scope = vars(sys.modules[NAME])
        function, dtype = (scope["f"], wp.float64) if others == "wp.float64" else (scope["g"], float)

        @wp.func_grad(function)
        def rule(a: dtype, r: dtype):
            wp.adjoint[a] += r

    assert lowered == ["k"]


GENERIC = """
from typing import Any
@wp.func
def f(a: wp.float32):
    return a
@wp.func
def f(a: wp.float64):
    return a * wp.float64(C)
@wp.kernel
def k(x: wp.array[Any], y: wp.array[Any]):
    i = wp.tid()
    y[i] = f(x[i])
"""


def test_values_that_another_kernel_asked_for_are_not_kept(define, lowered):
    """A process that lowers the second kernel alone has asked for none of them."""
    single, double = [wp.array[wp.float32]] * 2, [wp.array[wp.float64]] * 2
    first = define(GENERIC + "C = 2.0\n")
    first.ir(double)
    first.ir(single)
    again = define(GENERIC + "C = 2.0\n")
    again.ir(single)
    assert lowered == ["k", "k", "k"]
    again = define(GENERIC + "C = 2.0\n")
    again.ir(single)
    assert lowered == ["k", "k", "k"]
    vars(sys.modules[NAME])["C"] = 5.0
    assert "0x1.4000000000000p+2" in str(again.ir(double))


def test_a_constant_that_only_another_kernel_reads_warns(define, lowered):
    single, double = [wp.array[wp.float32]] * 2, [wp.array[wp.float64]] * 2
    first = define("C = 2.0\n" + GENERIC)
    first.ir(double)
    first.ir(single)
    again = define("C = 2.0\n" + GENERIC)
    again.ir(single)
    assert lowered == ["k", "k"]
    vars(sys.modules[NAME])["C"] = 5.0
    with pytest.warns(UserWarning, match=r"f was defined when C was 2\.0"):
        again.ir(double)


def test_another_folder_of_the_package_lowers_anew(define, lowered, monkeypatch):
    """Places in its own functions are in its files."""
    text = PLAIN.format(body="x[i]")
    define(text).ir()
    monkeypatch.setattr(kept, "PACKAGE", "another folder")
    define(text).ir()
    assert lowered == ["k", "k"]


def test_a_rule_for_a_function_of_the_package_is_part_of_no_name(define, lowered, monkeypatch):
    text = PLAIN.format(body="wp.erfinv(x[i])")
    first = define(text).ir()
    function = special._erfinv
    for name, value in {"grad": function.overloads[0].rules.grad, "is_used": False}.items():
        monkeypatch.setattr(function.overloads[0].rules, name, value)

    @wp.func_grad(function)
    def rule(x: Any, r: Any):
        wp.adjoint[x] += type(x)(7.0) * r

    try:
        changed = define(text)
        require_equal(changed.ir(), anew(changed))
        assert identity_of(changed.ir()) != identity_of(first)
    finally:
        functions.WITH_FOREIGN_RULES.remove(function)
    assert lowered == ["k", "k"]


def test_a_constant_that_has_changed_warns_each_time(define, lowered):
    text = "C = 2.0\n" + PLAIN.format(body="x[i] * C")
    define(text).ir()
    later = define(text + "C = 3.0\n")
    with pytest.warns(UserWarning, match=r"k was defined when C was 2\.0"):
        later.ir()
    assert lowered == ["k", "k"]


def test_a_kernel_that_asks_for_ids_is_refused_each_time(define, lowered):
    text = (
        "@wp.kernel\ndef k(mesh: wp.uint64, x: wp.array[float], y: wp.array[float]):\n    i = wp.tid()\n"
        "    y[i] = wp.mesh_get_point(mesh, i)[0]\n"
    )
    texts = []
    for _ in range(2):
        with pytest.raises(IdError) as caught:
            define(text).ir()
        texts.append(str(caught.value))
    assert texts[0] == texts[1]
    assert f"<{NAME}>:" in texts[0]
    assert lowered == ["k"]


def test_programs_that_define_kernels_for_ever_keep_the_first(lowered, monkeypatch):
    monkeypatch.setattr(kept, "_MOST_OF_ONE_TEXT", 2)

    def make(c):
        @wp.kernel
        def k(x: wp.array[float], y: wp.array[float]):
            i = wp.tid()
            y[i] = x[i] * c

        return k

    kernels = [make(float(c)) for c in range(4)]
    for kernel in kernels:
        kernel.ir()
    assert len(cache.entries()) == 2


PROGRAM = """
import os, sys
import jaxwarp as wp
from jaxwarp.frontend import kept
made, lower = [], kept.lower
kept.lower = lambda *a, **k: made.append(a[0].name) or lower(*a, **k)

GAIN = float(os.environ["GAIN"])

@wp.func
def f(v: wp.vec3):
    return wp.normalize(v) * GAIN

@wp.kernel
def k(x: wp.array[wp.vec3], y: wp.array[wp.vec3]):
    i = wp.tid()
    for _ in range(int(x[i][0])):
        y[i] += f(x[i])

print(made if k.ir() is None else (k.ir().digest, made))
"""


def test_processes_share_kernels(tmp_path):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    root = os.path.dirname(os.path.dirname(wp.__file__))
    settings = {**os.environ, "JAXWARP_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": root}

    def run(gain):
        done = subprocess.run(
            [sys.executable, str(path)], env={**settings, "GAIN": gain}, capture_output=True, text=True, check=True
        )
        return eval(done.stdout)

    (first, made), (found, none), (other, again) = run("2"), run("2"), run("3")
    assert made == again == ["k"]
    assert none == []
    assert first == found != other
