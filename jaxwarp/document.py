"""Writes what is generated from tables and classes: `docs/builtins.md`, `docs/config.md`, `docs/modules.md`, the
grammar of the IR in `docs/design/0001-ir.md`, the tables of `docs/from_warp.md`, and the type stub
`jaxwarp/__init__.pyi`.

Run `python -m jaxwarp.document` in a checkout after a change of a builtin, a setting, an operation of the IR, a module
or a public name.
"""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

from jaxwarp import config
from jaxwarp.builtins.language.constants import CONSTANTS
from jaxwarp.builtins.language.functions import FUNCTIONS
from jaxwarp.builtins.language.short_names import AGGREGATES
from jaxwarp.builtins.scalar_ops import FAMILIES, ROWS, NoGradient, ulp
from jaxwarp.errors import KernelTypeError
from jaxwarp.frontend.lowering.intrinsics import INTRINSICS
from jaxwarp.frontend.text.host_names import HOST_NAMES
from jaxwarp.frontend.text.refused import FAMILIES as MISSING_FAMILIES
from jaxwarp.frontend.text.refused import UNAVAILABLE
from jaxwarp.host import idle
from jaxwarp.host.names import ERRORS, EXPORTS
from jaxwarp.ir import nodes
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Block, Builtin, Op, Param, Value
from jaxwarp.library.names import GEOMETRY, LIBRARY, find, signatures
from jaxwarp.types import SCALARS, Scalar, bool_, float32, float64

PACKAGE = Path(__file__).parent
REFERENCE = PACKAGE.parent / "docs" / "builtins.md"
SETTINGS = PACKAGE.parent / "docs" / "config.md"
MODULES = PACKAGE.parent / "docs" / "modules.md"
IR_PAGE = PACKAGE.parent / "docs" / "design" / "0001-ir.md"
FROM_WARP = PACKAGE.parent / "docs" / "from_warp.md"
STUB = PACKAGE / "__init__.pyi"

_ORDER = ("Threads, arrays and compile time", "Arithmetic", "Comparison and logic", "Choosing and interpolating",
          "Rounding", "Elementary functions", "Bits", "Constructors", "Vectors", "Matrices",
          "Quaternions", "Transforms", "Spatial vectors")  # fmt: skip

_PREFACE = """\
# Builtin functions

This page is generated from the tables in `jaxwarp/builtins`; `python -m jaxwarp.document` writes it.

In signatures, `Float` is a value of one of the float types, `Int` of one of the integer types, `Scalar` of either,
`Vec` and `Mat` are vectors and matrices of scalars (`Vec3`, `Mat44`: of that size, of floats), `Quat` and `Transform`
quaternions and transforms, and `Any` is any of these. Operands have the same scalar type;
nothing is converted by itself, except that a literal takes the type of what it meets. float16 and bfloat16 are computed
in float32 and rounded after every operation.

Accuracy is the largest error that is allowed, in units in the last place of float32 and float64 (of the largest
component where the result is a vector or matrix), measured against a reference in higher precision; "exact" results are
the same on every backend, to the bit. Half types are at most 1 off where the others are not exact.
Functions marked "exact" that are made of several operations may differ by the contraction of products into fma.
"""

_OPERATORS = """\
## Operators

| operator | on | meaning |
| --- | --- | --- |
| `a + b`, `a - b` | numbers; vectors, matrices, quaternions or transforms of one type | integers wrap |
| `a * b` | numbers; one of the others and a number | per component |
| `a * b` | quaternions; transforms | the product: the motion b, and then a |
| `a * b`, `a @ b` | matrices; a matrix and a vector | the product; a vector on the left is a row |
| `a / b` | numbers; one of the others and a number | of integers toward zero, as in C++; by zero gives 0 |
| `a // b` | numbers | floor(a / b); of integers by zero gives 0 |
| `a % b` | numbers; vectors of one type | the sign of a, as C++ `%` and fmod; by zero gives 0 |
| `a ** b` | floats | a power; exponents 2, 3 and 4 in the text are products |
| `-a`, `+a` | numbers and the others | |
| `a < b`, `<=`, `>`, `>=` | numbers | false where one is NaN |
| `a == b`, `!=` | numbers, bools; others of one type | of all components |
| `a & b`, `\\|`, `^`, `~a` | integers, bools | |
| `a << n`, `a >> n` | integers of one type | 0 (-1 for `>>` of a negative) beyond the width |
| `a and b`, `or`, `not a` | bools, numbers | `and` and `or` evaluate the right side if needed only |
"""


def reference() -> str:
    """The reference page."""
    sections = [_PREFACE, _OPERATORS]
    for group in _ORDER:
        rows = _intrinsic_lines() if group == _ORDER[0] else _function_lines(group)
        sections.append(
            f"## {group}\n\n| function | gives | accuracy |\n| --- | --- | --- |\n" + "\n".join(rows) + "\n"
        )
    sections += [_library_section(module) for module in LIBRARY]
    sections.append(_constant_section())
    sections.append(_row_section())
    return "\n".join(sections)


def _cells(*texts: str) -> str:
    return "| " + " | ".join(text.replace("|", "\\|") for text in texts) + " |"


def _intrinsic_lines() -> list[str]:
    return [_cells(f"`{i.signature or i.name}`", i.doc, "") for i in INTRINSICS.values()]


def _function_lines(group: str) -> list[str]:
    lines = []
    for function in FUNCTIONS.values():
        if function.group == group:
            row = ROWS.get(function.name)
            accuracy = _accuracy(row) if row is not None and row.domain else _ulps(function.ulp, function.ulp)
            lines.append(_cells(f"`{function.signature}`", function.doc, accuracy))
    return lines


_SECTIONS = {
    "decompositions": (
        "Decompositions",
        "`mat33` and the like are of any float type here. With variables for the results, these are assigned to.",
    ),
    "dense": (
        "Dense matrices",
        "Of any size, row by row in arrays of one axis; one thread does all of it. Derivatives exist where the sizes "
        "are constants of the kernel.",
    ),
    "random": (
        "Random numbers",
        "[random.md](random.md) has more. A `State` is a variable of type uint32 (of a seed) or vec4ui (of a key of "
        "JAX), which each call advances.",
    ),
    "special": ("Inverses of the error functions", "In all float types; to a few units of the last place."),
    "search": ("Searches", "Of ascending arrays; and what is counted in integers."),
    "proximity": ("Edges and triangles", "Of any float type."),
    "noise": (
        "Noise",
        "Smooth random functions ([random.md](random.md#noise)). The state chooses one; it is not advanced.",
    ),
}


def _library_section(module: str) -> str:
    title, said = _SECTIONS[module]
    rows = [_cells("<br>".join(f"`{s}`" for s in signatures(n)), _said(n)) for n in LIBRARY[module]]
    return f"## {title}\n\n{said}\n\n| function | gives |\n| --- | --- |\n" + "\n".join(rows) + "\n"


def _said(name: str) -> str:
    return " ".join(find(name).__doc__.split())


def _ulps(single: float, double: float) -> str:
    if single == double == 0:
        return "exact"
    return f"{single:g}" if single == double else f"{single:g}, {double:g}"


def _accuracy(row: Builtin) -> str:
    return _ulps(ulp(row, float32), ulp(row, float64))


def _constant_section() -> str:
    lines = [_cells(f"`{n}`, `{n.upper()}`", repr(v)) for n, v in CONSTANTS.items() if n.islower()]
    return "## Constants\n\n| name | value |\n| --- | --- |\n" + "\n".join(lines) + "\n"


def _row_section() -> str:
    parts = [
        "## Core operations\n\nWhat a kernel is made of when it is printed (`kernel.source()`): operators and functions"
        " become these, on scalars.\n\n| operation | types | meaning | accuracy | derivative |\n"
        "| --- | --- | --- | --- | --- |"
    ]
    for family in FAMILIES.values():
        for row in family:
            derivative = f"none: {row.partials.reason}" if isinstance(row.partials, NoGradient) else "yes"
            parts.append(_cells(f"`{row.name}`", accepted_types(row), row.doc, _accuracy(row), derivative))
    return "\n".join(parts) + "\n"


def accepted_types(row: Builtin) -> str:
    """The types that a row takes, in words."""
    if row.typed:
        return "any to any" if row.name == "cast" else "of equal size"
    accepted = [t for t in SCALARS if _accepts(row, t)]
    words = []
    if float32 in accepted:
        words.append("floats")
    if any(t.is_int for t in accepted):
        words.append("integers")
    if bool_ in accepted:
        words.append("bool")
    return ", ".join(words)


def _accepts(row: Builtin, dtype: Scalar) -> bool:
    for types in ((dtype,), (dtype,) * 2, (dtype,) * 3, (bool_, dtype, dtype)):
        try:
            row.infer(types)
        except KernelTypeError:
            continue
        return True
    return False


# The stub. It shows type checkers what kernels write, not what the objects are: an annotation may name a class, and
# `vec3` and `array` are instances.

_STUB_HEAD = '''\
"""Type stub of the package, generated from the tables and the package: `python -m jaxwarp.document` writes it."""

# ruff: noqa
# pyright: reportSelfClsParameterName=false

from typing import Annotated, Any, Generic, List, Tuple, TypeVar

import jax
import numpy as np

'''

_STUB_CLASSES = '''
_T = TypeVar("_T")

class _Value:
    """A vector, matrix, quaternion or transform in a kernel; on the host, calling its type makes a NumPy array."""

    def __init__(self, *components: Any, **named: Any) -> None: ...
    def __getattr__(self, name: str) -> Any: ...
    def __setattr__(self, name: str, value: Any) -> None: ...
    def __getitem__(self, index: Any) -> Any: ...
    def __setitem__(self, index: Any, value: Any) -> None: ...
    def __len__(self) -> Any: ...
    def __add__(self, other: Any) -> Any: ...
    def __sub__(self, other: Any) -> Any: ...
    def __mul__(self, other: Any) -> Any: ...
    def __rmul__(self, other: Any) -> Any: ...
    def __matmul__(self, other: Any) -> Any: ...
    def __truediv__(self, other: Any) -> Any: ...
    def __rtruediv__(self, other: Any) -> Any: ...
    def __mod__(self, other: Any) -> Any: ...
    def __neg__(self) -> Any: ...
    def __pos__(self) -> Any: ...
    def __invert__(self) -> Any: ...

class array(Generic[_T]):
    """An array argument of a kernel: `array[float]`, `array(dtype=vec3, ndim=2)`; outside of kernels, of data:
    `array([1.0, 2.0], dtype=float)`."""

    def __init__(self, data: Any = ..., dtype: Any = ..., shape: Any = ..., **options: Any) -> None: ...
    def __getattr__(self, name: str) -> Any: ...
    def __setattr__(self, name: str, value: Any) -> None: ...
    def __array__(self, dtype: Any = ..., copy: Any = ...) -> np.ndarray: ...
    shape: Tuple[int, ...]
    ndim: int
    dtype: Any
    size: int
    def numpy(self) -> np.ndarray: ...
    def list(self) -> List[Any]: ...
    def item(self) -> Any: ...
    def to_jax(self) -> jax.Array: ...
    def assign(self, source: Any) -> array[_T]: ...
    def fill_(self, value: Any) -> array[_T]: ...
    def zero_(self) -> array[_T]: ...
    def reshape(self, *shape: Any) -> array[_T]: ...
    def flatten(self) -> array[_T]: ...
    def transpose(self, axes: Any = ...) -> array[_T]: ...
    def contiguous(self) -> array[_T]: ...
    def to(self, device: Any, requires_grad: Any = ...) -> array[_T]: ...
    def view(self, dtype: Any) -> array[Any]: ...
    def __getitem__(self, index: Any) -> Any: ...
    def __setitem__(self, index: Any, value: Any) -> None: ...
    def __len__(self) -> int: ...
    def __add__(self, other: Any) -> Any: ...
    def __radd__(self, other: Any) -> Any: ...
    def __sub__(self, other: Any) -> Any: ...
    def __rsub__(self, other: Any) -> Any: ...
    def __mul__(self, other: Any) -> Any: ...
    def __rmul__(self, other: Any) -> Any: ...
    def __truediv__(self, other: Any) -> Any: ...
    def __rtruediv__(self, other: Any) -> Any: ...
    def __floordiv__(self, other: Any) -> Any: ...
    def __rfloordiv__(self, other: Any) -> Any: ...
    def __mod__(self, other: Any) -> Any: ...
    def __rmod__(self, other: Any) -> Any: ...
    def __pow__(self, other: Any) -> Any: ...
    def __rpow__(self, other: Any) -> Any: ...
    def __and__(self, other: Any) -> Any: ...
    def __rand__(self, other: Any) -> Any: ...
    def __or__(self, other: Any) -> Any: ...
    def __ror__(self, other: Any) -> Any: ...
    def __xor__(self, other: Any) -> Any: ...
    def __rxor__(self, other: Any) -> Any: ...
    def __lshift__(self, other: Any) -> Any: ...
    def __rlshift__(self, other: Any) -> Any: ...
    def __rshift__(self, other: Any) -> Any: ...
    def __rrshift__(self, other: Any) -> Any: ...
    def __neg__(self) -> Any: ...
    def __pos__(self) -> Any: ...
    def __abs__(self) -> Any: ...
    def __invert__(self) -> Any: ...

# Warp's classes of types, which take what `Any` takes here.
Int = Any
Float = Any
Scalar = Any
# An argument that a function advances has the type that it names.
ref = Annotated[_T, "advanced"]

class array1d(array[_T]): ...
class array2d(array[_T]): ...
class array3d(array[_T]): ...
class array4d(array[_T]): ...

class indexedarray(array[_T]):
    """A part of an array by arrays of indices, `indexedarray(a, [indices, None])`, or `a[indices]`; an argument of
    a kernel that takes one: `indexedarray[float]`, `indexedarray(dtype=vec3, ndim=2)`."""

    def __init__(self, data: Any = ..., indices: Any = ..., dtype: Any = ..., ndim: Any = ...) -> None: ...

class indexedarray1d(indexedarray[_T]): ...
class indexedarray2d(indexedarray[_T]): ...
class indexedarray3d(indexedarray[_T]): ...
class indexedarray4d(indexedarray[_T]): ...

class _Scalar:
    """A scalar type; in a kernel, calling it converts."""

    name: str
    kind: str
    bits: Any
    numpy: Any
    def __new__(cls, value: Any = ...) -> Any: ...

'''

# Of these the type is that of an argument of a kernel; inside of `jax_callable` they make what stands for one.
_MAKE_ARRAYS = (
    "zeros", "zeros_like", "ones", "ones_like", "full", "full_like", "empty", "empty_like", "clone", "from_numpy",
    "from_jax", "from_dlpack", "from_torch",
)  # fmt: skip

_SHOWN_AS_CLASSES = {"array", "array1d", "array2d", "array3d", "array4d", *(t.name for t in SCALARS if t is not bool_)}
_SHOWN_AS_CLASSES |= {"Int", "Float", "Scalar", "ref", "indexedarray", *(f"indexedarray{n}d" for n in (1, 2, 3, 4))}


def stub() -> str:
    """The type stub of the package."""
    imports, assignments = _public_statements((PACKAGE / "__init__.py").read_text())
    imports += [f"from {m.__name__} import {n} as {n}" for m, names in EXPORTS.items() for n in names]
    imports += [f"from jaxwarp import {package} as {package}" for package in ("autograd", "geometry", "optim")]
    imports += [f"from jaxwarp.geometry.{m} import {n} as {n}" for m, names in GEOMETRY.items() for n in names]
    parts = [_STUB_HEAD, "".join(f"{line}\n" for line in sorted(imports)), _STUB_CLASSES]
    scalars = [t.name for t in SCALARS if t is not bool_]
    parts += [f"class {name}(_Scalar): ...\n" for name in [*scalars, "bool"]]
    parts += [*(f"class {name}(_Value): ...\n" for name in AGGREGATES), "\n"]
    parts += [f"{line}\n" for line in assignments]
    parts += [f"{name} = errors.{kind.__name__}\n" for name, kind in ERRORS.items()]
    parts += [f"{name}: float\n" for name in CONSTANTS]
    parts += [f"{name}: int\n" for name in idle.LEVELS]
    parts += ["\n"]
    parts += [_stub_maker(name) for name in _MAKE_ARRAYS]
    parts += [_stub_idle(name, value) for name, value in idle.IDLE.items()]
    for name, signature, doc in _callables():
        parts.append(_stub_function(name, signature, doc))
    return "".join(parts).rstrip("\n") + "\n"


def _public_statements(source: str) -> tuple[list[str], list[str]]:
    """The re-exports of the package's `__init__.py`, and its simple assignments."""
    imports, assignments = [], []
    for node in ast.parse(source).body:
        if isinstance(node, ast.ImportFrom):
            hidden = (*_SHOWN_AS_CLASSES, *_MAKE_ARRAYS)
            names = [a for a in node.names if a.asname == a.name and a.name not in hidden]
            imports += [f"from {node.module} import {a.name} as {a.name}" for a in names]
        elif isinstance(node, ast.Assign) and all(isinstance(t, (ast.Name, ast.Tuple)) for t in node.targets):
            text = ast.unparse(node)
            if text.startswith("__version__"):
                assignments.append("__version__: str")
            elif not text.startswith("bool"):
                assignments += _single_assignments(node)
    return imports, assignments


def _single_assignments(node: ast.Assign) -> list[str]:
    target = node.targets[0]
    if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
        pairs = zip(target.elts, node.value.elts, strict=True)
        texts = [(ast.unparse(t), ast.unparse(v)) for t, v in pairs]
        return [f"{name} = {value}" for name, value in texts if name not in _SHOWN_AS_CLASSES]
    return [ast.unparse(node)]


def _callables() -> Iterable[tuple[str, str, str]]:
    for name, intrinsic in INTRINSICS.items():
        yield name, intrinsic.signature or f"{name}(...)", intrinsic.doc
    for name, function in FUNCTIONS.items():
        yield name, function.signature, function.doc
    for name in (n for names in LIBRARY.values() for n in names):
        several = signatures(name)
        shown = several[0] if len(several) == 1 else f"{name}(...)"
        yield name, shown, _said(name) if len(several) == 1 else f"{_said(name)} Overloads: {', '.join(several)}."


def _stub_function(name: str, signature: str, doc: str) -> str:
    inside = signature[len(name) + 1 : signature.rindex(")")]
    if "..." in inside.replace("= ...", ""):
        parameters = "*args: Any, **keywords: Any"
    else:
        parameters = re.sub(r": (?:\w+\[[^\]]*\]|[^,=]+?)(?= =|,|$)", ": Any", inside)
        parameters = ", ".join(p if ":" in p else f"{p}: Any" for p in parameters.split(", ") if p)
    quoted = doc.replace("\\", "\\\\").replace('"""', "'''")
    return f'def {name}({parameters}) -> Any:\n    """`{signature}`\n\n    {_wrapped(quoted)}\n    """\n\n'


def _stub_maker(name: str) -> str:
    """A function that makes an array."""
    import jaxwarp

    function = getattr(jaxwarp, name)
    starred = {inspect.Parameter.VAR_KEYWORD: "**"}
    texts = [
        f"{starred.get(p.kind, '')}{p.name}: Any" + ("" if p.default is inspect.Parameter.empty else " = ...")
        for p in inspect.signature(function).parameters.values()
    ]
    doc = inspect.cleandoc(function.__doc__).splitlines()[0]
    return f'def {name}({", ".join(texts)}) -> array[Any]:\n    """{doc}"""\n\n'


def _stub_idle(name: str, value: Any) -> str:
    if isinstance(value, type):
        rest = "def __init__(self, *args: Any, **keywords: Any) -> None: ...\n"
        rest += "    def __enter__(self) -> Any: ...\n    def __exit__(self, *args: Any) -> None: ...\n"
        return f'class {name}:\n    """{value.__doc__}"""\n\n    {rest}\n'
    return f'def {name}(*args: Any, **keywords: Any) -> Any:\n    """{value.__doc__}"""\n\n'


def _wrapped(text: str) -> str:
    return "\n    ".join(textwrap.wrap(text, 112))


_SETTINGS_PREFACE = """\
# Settings

This page is generated from the table in `jaxwarp/config.py`; `python -m jaxwarp.document` writes it.

Settings hold for the whole process. Assign to them: `jaxwarp.config.max_unroll = 8`. A name that is no setting, and a
value that it does not accept, are errors.
"""

_SETTINGS_OF_WARP = """\
## Settings of Warp

Programs written for Warp may assign to these. They are checked, and have no effect.
"""


_MAP_PREFACE = """\
# Modules

What each module holds, in its own words; [0018](design/0018-rooms.md) says how the folders depend on each other. This
page is generated from the docstrings; `python -m jaxwarp.document` writes it.
"""


def settings() -> str:
    """The page of settings."""
    rows = [f"| `{name}` | {row.expected} | `{row.default!r}` | {row.doc} |" for name, row in config.SETTINGS.items()]
    idle = [f"| `{name}` | {row.expected} | `{row.default!r}` |" for name, row in config.OF_WARP.items()]
    table = ["| setting | values | default | meaning |", "| --- | --- | --- | --- |", *rows]
    beside = ["| setting | values | default |", "| --- | --- | --- |", *idle]
    return "\n".join([_SETTINGS_PREFACE, *table, "", _SETTINGS_OF_WARP, *beside, ""])


_TABLE_START, _TABLE_END = "<!-- {}: made by python -m jaxwarp.document -->\n", "<!-- end -->"


def from_warp() -> str:
    """The page for those who come from Warp, with the tables of names that do nothing and of names that are missing."""
    text = FROM_WARP.read_text()
    for title, made in (("idle", idle_table()), ("missing", missing_table())):
        start = _TABLE_START.format(title)
        before, rest = text.split(start)
        text = before + start + made + rest[rest.index(_TABLE_END) :]
    return text


def idle_table() -> str:
    """Names that do nothing, with one reason together."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for name, row in idle.ROWS.items():
        reasons.setdefault((row.why, _shown(row.gives)), []).append(f"`{name}`")
    rows = [_cells(", ".join(names), f"`{gives}`", why) for (why, gives), names in reasons.items()]
    return "\n".join(["| name | gives | because |", "| --- | --- | --- |", *rows, ""])


def _shown(gives: Any) -> str:
    return repr(list(gives) if isinstance(gives, tuple) else gives)


def missing_table() -> str:
    """Names of Warp that are missing, those with one alternative together; families of names end in `*`."""
    import jaxwarp

    known = {**UNAVAILABLE, **{f"{start}*": hint for start, hint in MISSING_FAMILIES.items()}, **HOST_NAMES}
    alternatives: dict[str, list[str]] = {}
    for name, hint in known.items():
        if not any(there == name or (name[-1] == "*" and there.startswith(name[:-1])) for there in dir(jaxwarp)):
            alternatives.setdefault(hint, []).append(f"`{name}`")
    rows = [_cells(", ".join(sorted(names)), hint) for hint, names in alternatives.items()]
    return "\n".join(["| name | what to do instead |", "| --- | --- |", *sorted(rows), ""])


_FENCE = "```"


def ir_page() -> str:
    """The page of the IR, with the grammar that its classes have now between the first fences."""
    before, _, after = IR_PAGE.read_text().split(_FENCE, 2)
    return f"{before}{_FENCE}\n{grammar()}{_FENCE}{after}"


def grammar() -> str:
    """The IR's classes: their fields and what their docstrings say first. `X*` are any number, `X?` may be missing."""
    classes = [c for c in vars(nodes).values() if isinstance(c, type) and issubclass(c, Op)]
    made = [c for c in classes if c is not Op and not c.__name__.startswith("_")]
    rows = [_production(c, c.__name__.lower() + " = ") for c in (Kernel, Param, Block, Value)]
    rows += [_production(c, "op = " if c is made[0] else "   | ") for c in made]
    return "\n".join(rows) + "\n"


def _production(cls: type, start: str) -> str:
    listed = ", ".join(f"{f.name}: {_of_grammar(str(f.type))}" for f in fields(cls) if f.name not in ("loc", "sizes"))
    said = " ".join((cls.__doc__ or "").split("\n\n")[0].split())
    return f"{start}{cls.__name__}({listed})\n" + textwrap.indent(textwrap.fill(said, 108), " " * 8)


def _of_grammar(annotation: str) -> str:
    many = re.sub(r"tuple\[([^,\]]*), \.\.\.\]", r"\1*", annotation)
    return re.sub(r"^(\w+) \| None$", r"\1?", many).replace("int | None*", "int?*")


def module_map() -> str:
    """A table of the modules of each folder, with the first sentences of their docstrings."""
    lines = [_MAP_PREFACE]
    for folder in sorted({path.parent for path in PACKAGE.rglob("*.py")}):
        said = _first_sentence(folder / "__init__.py")
        rows = [
            _cells(f"`{path.name}`", _first_sentence(path))
            for path in sorted(folder.glob("*.py"))
            if path.name != "__init__.py"
        ]
        if rows:
            name = folder.relative_to(PACKAGE.parent).as_posix()
            lines += [f"## {name}", "", said, "", "| module | holds |", "| --- | --- |", *rows, ""]
    return "\n".join(lines)


def _first_sentence(path: Path) -> str:
    said = " ".join((ast.get_docstring(ast.parse(path.read_text())) or "").split("\n\n")[0].split())
    return re.split(r"(?<=[\w)`]\.) (?=[A-Z`])", said, maxsplit=1)[0] if len(said) > 130 else said


GENERATED = {
    REFERENCE: reference, SETTINGS: settings, IR_PAGE: ir_page, MODULES: module_map, FROM_WARP: from_warp, STUB: stub,
}  # fmt: skip


def main(arguments: list[str]) -> int:
    """Writes the files; with `--check`, only says which are out of date."""
    outdated = [path for path, make in GENERATED.items() if _differs(path, make())]
    for path in outdated:
        if "--check" in arguments:
            print(f"{path} is out of date: run python -m jaxwarp.document")
        else:
            path.parent.mkdir(exist_ok=True)
            path.write_text(GENERATED[path]())
            print(f"wrote {path}")
    return 1 if outdated and "--check" in arguments else 0


def _differs(path: Path, text: str) -> bool:
    return not path.exists() or path.read_text() != text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
