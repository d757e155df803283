"""A kernel is the function that it decorates: its text is the bytecode's, its constants are those of its definition."""

from __future__ import annotations
import __future__

import ast
import collections
import importlib
import inspect
import itertools
import linecache
import math
import os
import sys
import types
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
import pytest
from language import define, outputs

import jaxwarp as wp
from jaxwarp.errors import KernelValueError
from jaxwarp.frontend.text import definition
from jaxwarp.frontend.text.definition import find_definition, is_text_of

BODY = """import jaxwarp as wp

def make(c):
    def k(x: wp.array[float], y: wp.array[float]):
        i = wp.tid()
        first: float = 2.0
        y[i] = x[i] * c + first
    return k
"""
EDITS = {
    "an operator": ("x[i] * c", "x[i] / c"),
    "a number": ("2.0", "3.0"),
    "a number's type": ("2.0", "2  "),
    "a name": ("x[i] * c", "y[i] * c"),
    "an attribute": ("wp.tid", "wp.pid"),
    "an annotation of a variable": ("first: float", "first: wp.float64"),
    "the lines before": ("\ndef make", "\n\ndef make"),
    "all": (BODY, "\n"),
}


@pytest.fixture
def module(tmp_path, monkeypatch):
    """What imports a module of a text, and saves another text in its file."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    names = (f"edited_{n}" for n in itertools.count())
    clock = itertools.count(1_000_000_000)

    def save(name: str, text: str) -> None:
        file = tmp_path / f"{name}.py"
        file.write_text(text)
        now = next(clock)
        os.utime(file, (now, now))  # whatever the file system's resolution

    def load(text: str) -> tuple[Any, Any]:
        name = next(n for n in names if n not in sys.modules)
        save(name, text)
        importlib.invalidate_caches()
        return importlib.import_module(name), lambda text: save(name, text)

    yield load
    for name in [n for n in sys.modules if n.startswith("edited_")]:
        del sys.modules[name]


@pytest.mark.parametrize("edit", EDITS)
def test_a_file_edited_after_its_import_is_refused(module, edit):
    loaded, save = module(BODY)
    changed = BODY.replace(*EDITS[edit])
    assert changed != BODY
    save(changed)
    with pytest.raises(KernelValueError) as caught:
        wp.kernel(loaded.make(3.0))
    assert "has changed since it was imported: reload it (importlib.reload(module))" in str(caught.value)
    if edit == "an operator":
        assert str(caught.value).splitlines()[:4] == [
            "k is not what its file says now",
            f"  {loaded.__file__}:4",
            "    def k(x: wp.array[float], y: wp.array[float]):",
            "    ^^^",
        ]
        importlib.reload(loaded)
        assert outputs(wp.kernel(loaded.make(4.0)), 1, [3.0], [0.0]) == [2.75]


def test_edits_that_change_nothing_are_none(module):
    body = BODY.replace("first: float", "first")
    loaded, save = module(body)
    save(body.replace("return k", "return (k, )  # and more\n\n\ndef k(): pass").replace("* c +", "*c+"))
    assert outputs(wp.kernel(loaded.make(3.0)), 1, [3.0], [0.0]) == [11.0]


MANY = """import jaxwarp as wp

def is_one(x):
    return x is 1

""" + "".join(
    f"""
@wp.func
def f{i}(x: float):
    return x + {i}.0 if x is not None else 1.0
"""
    for i in range(30)
)


def test_a_file_is_read_and_compiled_once(module, monkeypatch, recwarn):
    """Each function by itself took most of the time in which a module of a thousand is imported."""
    parsed, alone = [], []
    monkeypatch.setattr(ast, "parse", _noting(parsed, ast.parse))
    monkeypatch.setattr(definition, "is_text_of", _noting(alone, is_text_of))
    loaded, _ = module(MANY)
    assert loaded.f29.key == "f29"
    assert (len(parsed), len(alone)) == (1, 0)
    said = [w for w in recwarn if issubclass(w.category, SyntaxWarning)]
    assert len(said) == 1  # of the import itself


def _noting(calls, function):
    def noted(*args, **kwargs):
        calls.append(args)
        return function(*args, **kwargs)

    return noted


def test_text_that_was_read_before_the_edit_serves(module):
    loaded, save = module(BODY)
    wp.kernel(loaded.make(1.0))
    save(BODY.replace("*", "/"))
    assert outputs(wp.kernel(loaded.make(3.0)), 1, [3.0], [0.0]) == [11.0]


CORPUS = (
    "argparse", "collections", "contextlib", "dataclasses", "fractions", "inspect", "json.encoder", "statistics",
    "tarfile", "typing", "jaxwarp.frontend.lowering.expressions", "kernels", "test_language_functions",
)  # fmt: skip


def functions(module: types.ModuleType) -> dict[Any, types.FunctionType]:
    """Those that a module and its classes define, without what runs as a coroutine."""
    spaces = [vars(module), *(vars(c) for c in vars(module).values() if isinstance(c, type))]
    values = [v for space in spaces for v in space.values()]
    values = [v.func if isinstance(v, wp.Kernel) else v for v in values]
    return {
        v.__code__: v
        for v in values
        if isinstance(v, types.FunctionType)
        and v.__code__.co_filename == module.__file__
        and v.__code__.co_name == v.__name__ != "<lambda>"
        and not inspect.iscoroutinefunction(v)
    }


@pytest.mark.parametrize("name", CORPUS)
def test_functions_of_all_kinds_are_found(name):
    """No false alarm: private names, closures, decorators, generators, docstrings, comprehensions, imports, ..."""
    module = importlib.import_module(name)
    found = functions(module)
    assert found
    for function in found.values():
        if "NewType" not in function.__qualname__:  # its method has a class in it, whose full name is in the code
            find_definition(function)


class _Changed(ast.NodeTransformer):
    """One change: the node number `left`, of those that can be changed."""

    def __init__(self, left: int):
        self.left = left

    def visit(self, node: ast.AST) -> ast.AST:
        self.generic_visit(node)
        changed: ast.AST | None = None
        match node:
            case ast.Constant(value=bool() | int() | float() as value):
                changed = ast.Constant(float(value) if type(value) is int else int(value))
            case ast.Name(id=name, ctx=ast.Load()):
                changed = ast.Name(name + "_", ast.Load())
            case ast.BinOp(a, op, b):
                changed = ast.BinOp(a, ast.Sub() if isinstance(op, ast.Add) else ast.Add(), b)
            case ast.Attribute(value, name, ast.Load()):
                changed = ast.Attribute(value, name + "_", ast.Load())
            case ast.Compare(a, [op], b):
                changed = ast.Compare(a, [ast.Lt() if isinstance(op, ast.Gt) else ast.Gt()], b)
            case _:
                pass
        if changed is None:
            return node
        self.left -= 1
        return ast.copy_location(changed, node) if self.left == -1 else node


def test_each_change_of_a_kernel_is_noticed():
    import kernels

    text = inspect.getsource(kernels)
    for function in [k.func for k in vars(kernels).values() if isinstance(k, wp.Kernel)][:8]:
        changes = 0
        for number in range(0, 400, 11):
            tree, _ = find_definition(function)
            tree = next(
                n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.FunctionDef) and n.lineno == tree.lineno
            )
            change = _Changed(number)
            tree.body = [change.visit(s) for s in tree.body]  # pyright: ignore[reportAttributeAccessIssue]
            if change.left >= 0:
                break
            changes += 1
            assert not is_text_of(tree, function, frozenset({"wp", "np"})), ast.unparse(tree)
        assert changes


def made(text: str, name: str = "k", **options: Any) -> Any:
    """A function of a text, compiled as told."""
    file = f"<text {name} {len(linecache.cache)}>"
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    scope: dict[str, Any] = {"wp": wp}
    exec(compile(text, file, "exec", dont_inherit=True, **options), scope)
    return scope[name]


@pytest.mark.parametrize("optimize", [0, 1, 2])
def test_every_level_of_optimization(optimize):
    """Docstrings and assertions are left out by some; files may have been compiled by a Python started otherwise."""
    find_definition(
        made('def k(a):\n    """Text."""\n    if __debug__:\n        a = 1.0\n    return a\n', optimize=optimize)
    )


def test_statements_of_a_cell_are_compiled_one_by_one():
    """As notebooks do, so that the import of the same cell is not known to the compiler."""
    text: str = "import numpy as np\nimport jaxwarp as wp\ndef k(a: wp.array[float]):\n    a[0] = float(np.sqrt(4.0))\n"
    file = "<cell by statements>"
    linecache.cache[file] = (len(text), None, [str(line) for line in text.splitlines(keepends=True)], file)
    scope: dict[str, Any] = {}
    for statement in ast.parse(text).body:
        exec(compile(ast.Module([statement], []), file, "exec", dont_inherit=True), scope)
    find_definition(scope["k"])


def test_flags_private_names_and_the_functions_own_name():
    future = __future__.annotations.compiler_flag
    find_definition(made("def k(a: x):\n    b: y = a\n    return k(b)\n", flags=future))
    find_definition(made("def f(n):\n    def k(a):\n        return k(a) + n\n    return k\nk = f(1)\n"))
    method = "class _C:\n    def f(self):\n        def k(a):\n            return __n + a.__m\n        return k\n"
    find_definition(made(method + "k = _C().f()\n"))
    find_definition(made("class A:\n    class B:\n        def k(self):\n            return self.__m\nk = A.B.k\n"))


def test_functions_that_run_and_are_traced():
    """Python specialises and instruments the code of a function while it runs."""
    function = made("def k(a):\n    t = 0\n    for i in range(a):\n        t += i\n    return t\n")
    before = sys.gettrace()
    sys.settrace(lambda *_: sys.gettrace())
    try:
        function(1000)
        find_definition(function)
    finally:
        sys.settrace(before)


# Constants


def values_of(kernel: wp.Kernel, *types: Any) -> list[float]:
    """What out[0] is for arrays of each type."""
    return [float(wp.jax_kernel(kernel)(jnp.ones(1, t))[0][0]) for t in types]


class Settings:
    gain = 5.0
    weights: ClassVar = [1.0, 2.0]

    class inner:
        depth = 3


@pytest.mark.filterwarnings("ignore:k was defined when .*, and keeps that")
def test_constants_are_those_of_the_definition():
    """Lists, arrays, attributes, closures, changed before the first and between two specialisations."""
    table, array, pairs, boxed = [1.0, 2.0], np.array([4.0, 8.0], np.float32), {"a": [16.0]}, Settings()
    boxed.offset = 32.0  # pyright: ignore[reportAttributeAccessIssue]
    module = types.ModuleType("constants")
    module.limit = 64.0  # pyright: ignore[reportAttributeAccessIssue]
    source = """
@wp.kernel
def k(x: wp.array[Any], out: wp.array[Any]):
    i = wp.tid()
    s = wp.static(float(table[0])) + array[1] + wp.static(pairs["a"][0]) + boxed.offset + module.limit
    for q in range(2):
        s += wp.static(table[q]) + wp.static(settings.weights[q]) + wp.static(float(array[q]))
    out[i] = x[i] * type(x[i])(s) * type(x[i])(settings.gain) * type(x[i])(settings.inner.depth)
"""
    names = {"table": table, "array": array, "pairs": pairs, "boxed": boxed, "module": module, "settings": Settings}
    scope = define(source, Any=Any, **names)
    expected = (1 + 8 + 16 + 32 + 64 + (1 + 2) + (1 + 2) + (4 + 8)) * 15.0
    saved = Settings.gain, list(Settings.weights)
    try:
        found = []
        for change, dtype in enumerate((jnp.float32, jnp.int32)):
            table[:] = [change - 100.0] * 2
            array[:], pairs["a"][0], boxed.offset, module.limit = change, change, change, change  # pyright: ignore
            Settings.gain, Settings.weights[:], Settings.inner.depth = 7.0 + change, [9.0, 9.0], change
            scope["table"] = [0.0, 0.0]
            found += values_of(scope["k"], dtype)
    finally:
        Settings.gain, Settings.weights[:], Settings.inner.depth = saved[0], saved[1], 3
    assert found == [expected, expected]


CHANGING = """
N, UNUSED, WEIGHT, settings = 3, 1, wp.vec2(1.0, 2.0), types.SimpleNamespace(gain=2.0, same=1.0)

@wp.func
def helper(x: float):
    return x * settings.gain * settings.same

@wp.func
def helper(x: int):
    return float(x) + WEIGHT[1]

@wp.kernel
def k(x: wp.array[Any], out: wp.array[Any]):
    out[0] = type(x[0])(helper(float(N)) + helper(N) + settings.gain)

several = []
for TIMES in (1, 2):
    @wp.kernel
    def again(x: wp.array[Any], out: wp.array[Any]):
        out[0] = x[0] * type(x[0])(TIMES)

    several.append(again)
"""


def test_a_constant_that_changes_before_the_first_use():
    """A warning for each, once, at the line of the launch; none for what has not changed, or a loop defines again."""
    scope = define(CHANGING, Any=Any, types=types)
    scope.update(N=4, UNUSED=2, WEIGHT=wp.vec2(1.0, 5.0))
    scope["settings"].gain = 7.0
    with pytest.warns(UserWarning, match="was defined when") as caught:
        found = values_of(scope["k"], jnp.float32)
    assert found == [3 * 2.0 + 3 + 2 + 2]
    assert sorted(str(w.message).split(",")[0] for w in caught) == [
        "helper was defined when WEIGHT was [1.0",
        "helper was defined when settings.gain was 2.0",
        "k was defined when N was 3",
        "k was defined when settings.gain was 2.0",
    ]
    assert "and keeps that; it is 4 by now: set it before the definition" in "".join(str(w.message) for w in caught)
    scope.update(N=5)
    assert values_of(scope["k"], jnp.int32) == found
    assert [values_of(k, jnp.float32) for k in scope["several"]] == [[1.0], [2.0]]


def test_names_without_a_value_take_their_first_and_keep_it():
    source = """
@wp.kernel
def k(x: wp.array[Any], out: wp.array[Any]):
    out[0] = type(x[0])(helper(wp.static(LATER[0]) + settings.late))

def later(values, late):
    global LATER, helper
    LATER = values
    settings.late = late
    @wp.func
    def helper(v: float):
        return v * 2.0
"""
    settings = types.SimpleNamespace()
    scope = define(source, Any=Any, settings=settings)
    scope["later"]([3.0], 10.0)
    first = values_of(scope["k"], jnp.float32)
    scope["LATER"][0], settings.late = 4.0, 20.0
    scope["later"]([5.0], 30.0)
    assert first + values_of(scope["k"], jnp.int32) == [26.0, 26.0]


def test_static_expressions_are_evaluated_once():
    """At the definition, or once for each value of the loop's variable."""
    calls: list[Any] = []

    def count(what: Any) -> float:
        calls.append(what)
        return float(len(calls))

    source = """
@wp.kernel
def k(x: wp.array[Any], out: wp.array[Any]):
    s = wp.static(count("once"))
    for q in range(2):
        s += wp.static(count(q))
    out[0] = type(x[0])(s)
"""
    kernel = define(source, Any=Any, count=count)["k"]
    assert calls == ["once"]
    assert values_of(kernel, jnp.float32, jnp.int32, jnp.float32) == [6.0, 6.0, 6.0]
    assert calls == ["once", 0, 1]


@wp.kernel
def tells_equal_tuples_apart(out: wp.array[float]):
    for k, pair in enumerate(((1, 2), (1.0, 2.0), (True, 2), (0.0, 2), (-0.0, 2))):
        out[k] = wp.static(float(str(pair[0]) == "1") + math.copysign(10.0, pair[0]))


def test_static_expressions_of_tuples_that_are_equal():
    expected = [11.0, 10.0, 10.0, 10.0, -10.0]
    np.testing.assert_array_equal(outputs(tells_equal_tuples_apart, 1, np.zeros(5, np.float32)), expected)


def test_names_bound_inside_of_static_expressions_are_not_constants():
    box = types.SimpleNamespace(value=1.0)
    others = [types.SimpleNamespace(value=2.0), types.SimpleNamespace(value=3.0)]
    source = """
@wp.kernel
def k(x: wp.array[Any], out: wp.array[Any]):
    s = float(0.0)
    for q in range(2):
        s += wp.static((lambda box: box.value)(others[q])) + wp.static(sum(box.value for box in others))
    out[0] = type(x[0])(s)
"""
    assert values_of(define(source, Any=Any, box=box, others=others)["k"], jnp.float32) == [15.0]


def test_containers_of_every_kind_are_copied():
    from jaxwarp.frontend.text.host_values import frozen

    Pair = collections.namedtuple("Pair", "a b")
    leaf = np.array([1.0])
    cycle: list[Any] = [leaf]
    cycle.append(cycle)
    values = [
        [leaf], {"a": leaf}, {"b": [leaf]}, (1, leaf), Pair(leaf, 2), collections.deque([leaf]),
        collections.OrderedDict(a=leaf), collections.defaultdict(list, a=[leaf]), cycle,
    ]  # fmt: skip
    copies = frozen(values)
    texts = repr(copies)
    assert [type(c) for c in copies] == [type(v) for v in values]
    leaf[0] = 7.0
    cycle.append(3)
    assert repr(copies) == texts
    unchanged = (1, "a", (2.0,))
    assert frozen(unchanged) is unchanged


@pytest.mark.parametrize("annotation", [np.ndarray, jnp.ndarray])
def test_arrays_of_other_libraries_as_annotations_get_a_hint(annotation):
    with pytest.raises(wp.KernelError, match="is not a type of the kernel language") as error:

        @wp.kernel
        def broken(x: annotation, out: wp.array[float]):
            out[0] = x[0]

    assert "array[float]" in error.value.hint
