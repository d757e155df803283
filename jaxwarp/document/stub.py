"""The type stub, `jaxwarp/__init__.pyi`."""

from __future__ import annotations

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from jaxwarp import config
from jaxwarp.arrays.create import ArrayOptions
from jaxwarp.arrays.host_array import HostArray
from jaxwarp.builtins.language.constants import CONSTANTS
from jaxwarp.builtins.language.function import Function
from jaxwarp.builtins.language.functions import FUNCTIONS
from jaxwarp.document import calls, typed
from jaxwarp.document.tables import PACKAGE, summary
from jaxwarp.frontend.lowering.intrinsics import INTRINSICS
from jaxwarp.host import idle
from jaxwarp.host.names import ERRORS, EXPORTS
from jaxwarp.library.names import COMMANDS, GEOMETRY, LIBRARY, PACKAGES, TEXTURES, signatures
from jaxwarp.types import SCALARS, bool_

# The stub. It shows type checkers what kernels write, not what the objects are: an annotation may name a class, and
# `vec3` and `array` are instances.

_STUB_HEAD = '''\
"""Type stub of the package, generated from the tables and the package: `python -m jaxwarp.document` writes it."""

# ruff: noqa
# pyright: reportSelfClsParameterName=false, reportIncompatibleMethodOverride=false
# pyright: reportIncompatibleVariableOverride=false, reportInconsistentOverload=false
# pyright: reportInvalidTypeVarUse=false

import builtins
import dataclasses
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import (
    Annotated,
    Any,
    Concatenate,
    Generic,
    Iterator,
    List,
    Literal,
    ParamSpec,
    Self,
    Tuple,
    TypeAlias,
    TypeVar,
    dataclass_transform,
)
from typing import Type as _type
from typing import overload as _overload

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
    def __add__(self, other: Any) -> Self: ...
    def __sub__(self, other: Any) -> Self: ...
    def __mul__(self, other: Any) -> Any: ...
    def __rmul__(self, other: Any) -> Any: ...
    def __matmul__(self, other: Any) -> Any: ...
    def __truediv__(self, other: Any) -> Any: ...
    def __rtruediv__(self, other: Any) -> Any: ...
    def __mod__(self, other: Any) -> Any: ...
    def __neg__(self) -> Self: ...
    def __pos__(self) -> Self: ...
    def __invert__(self) -> Self: ...

class array(Generic[_T]):
    """An array argument of a kernel: `array[float]`, `array(dtype=vec3, ndim=2)`; outside of kernels, of data:
    `array([1.0, 2.0], dtype=float)`."""

    def __init__(self, data: Any = ..., dtype: Any = ..., shape: Any = ..., **options: Any) -> None: ...
    # A field of a struct: a value of JAX, NumPy or ours.
    @_overload
    def __get__(self, instance: None, owner: Any = ...) -> array[_T]: ...
    @_overload
    def __get__(self, instance: object, owner: Any = ...) -> Any: ...
    def __set__(self, instance: Any, value: Any) -> None: ...
    def __array__(self, dtype: Any = ..., copy: Any = ...) -> np.ndarray: ...
    def __iter__(self) -> Iterator[Any]: ...
    def __jax_array__(self) -> jax.Array: ...
    def __dlpack__(self, **options: Any) -> Any: ...
    def __dlpack_device__(self) -> Tuple[int, int]: ...
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
@MEMBERS@
# Warp's classes of types, which take what `Any` takes here.
Int = Any
Float = Any
Scalar = Any
# An argument that a function advances has the type that it names.
ref = Annotated[_T, "advanced"]

array1d = array
array2d = array
array3d = array
array4d = array
fabricarray = array
indexedfabricarray = array

class indexedarray(array[_T]):
    """A part of an array by arrays of indices, `indexedarray(a, [indices, None])`, or `a[indices]`; an argument of
    a kernel that takes one: `indexedarray[float]`, `indexedarray(dtype=vec3, ndim=2)`."""

    def __init__(self, data: Any = ..., indices: Any = ..., dtype: Any = ..., ndim: Any = ...) -> None: ...

indexedarray1d = indexedarray
indexedarray2d = indexedarray
indexedarray3d = indexedarray
indexedarray4d = indexedarray

'''

# What `HostArray` has for jaxwarp itself. All else that it has without an underscore is for users.
INTERNAL = frozenset((
    "begin", "components", "in_records", "indexed", "jax_value", "label", "leaves", "mark", "name", "new_like", "owner",
    "platform", "region", "require_scope", "require_writable", "scope", "source", "token", "type", "value",
    "whole",
))  # fmt: skip
# Types as the stub names them; others are Any there. Its `bool` is the scalar type of kernels.
_TYPES = {
    **dict.fromkeys(("HostArray", "LiveArray", "MemoryArray"), "array[_T]"),
    "bool": "builtins.bool",
    **{t: t for t in ("int", "None", "np.ndarray", "jax.Array")},
    "tuple[int, ...]": "Tuple[int, ...]",
    "list[Any]": "List[Any]",
}

# Of these the type is that of an argument of a kernel; inside of `jax_callable` they make what stands for one.
_MAKE_ARRAYS = (
    "zeros", "zeros_like", "ones", "ones_like", "full", "full_like", "empty", "empty_like", "clone", "from_numpy",
    "from_jax", "from_dlpack", "from_torch",
)  # fmt: skip

_OF_CONFIG = ("SETTINGS", "OF_WARP", "ENVIRONMENT", "DeterministicMode", "LaunchArrayAccessMode")

_SHOWN_AS_CLASSES = {"array", "array1d", "array2d", "array3d", "array4d", *(t.name for t in SCALARS if t is not bool_)}
_SHOWN_AS_CLASSES |= {"Int", "Float", "Scalar", "ref", "indexedarray", "fabricarray", "indexedfabricarray"}
_SHOWN_AS_CLASSES |= {*(f"indexedarray{n}d" for n in (1, 2, 3, 4))}


def stub() -> str:
    """The type stub of the package."""
    imports, assignments = _public_statements((PACKAGE / "__init__.py").read_text())
    imports += [f"from {m.__name__} import {n} as {n}" for m, names in EXPORTS.items() for n in names]
    imports += [f"from jaxwarp import {package} as {package}" for package in PACKAGES if package != "config"]
    imports += [f"from jaxwarp.geometry.{m} import {n} as {n}" for m, names in GEOMETRY.items() for n in names]
    imports += [f"from jaxwarp.textures.{m} import {n} as {n}" for m, names in TEXTURES.items() for n in names]
    imports += ["from jaxwarp.launches.arguments.options import Mode, VmapMethod"]
    imports += [f"from jaxwarp.commands.{m} import {n} as {n}" for m, names in COMMANDS.items() for n in names]
    parts = [
        _STUB_HEAD,
        "".join(f"{line}\n" for line in sorted(imports)),
        _STUB_CLASSES.replace("@MEMBERS@", _members()),
    ]
    parts += [typed.scalars(), typed.classes(), calls.stub_of_calls()]
    parts += [_stub_config(), *(f"{line}\n" for line in assignments)]
    parts += [f"{name} = errors.{kind.__name__}\n" for name, kind in ERRORS.items()]
    parts += [f"{name}: float\n" for name in CONSTANTS]
    parts += [f"{name}: int\n" for name in (*idle.LEVELS, *idle.FILTERS)]
    parts += ["\n"]
    parts += [_stub_maker(name) for name in _MAKE_ARRAYS]
    parts += [_stub_idle(name, value) for name, value in idle.IDLE.items()]
    for name, signature, doc in _callables():
        parts.append(_stub_function(name, signature, doc))
    return "".join(parts).rstrip("\n") + "\n"


def array_members() -> dict[str, Any]:
    """Return the attributes and methods of arrays outside of JAX that users have, by name."""
    found = {name: value for kind in reversed(HostArray.__mro__) for name, value in vars(kind).items()}
    return {n: value for n, value in found.items() if not n.startswith("_") and n not in INTERNAL}


def _members() -> str:
    members = sorted(array_members().items(), key=lambda member: inspect.isfunction(member[1]))
    return "".join(_stub_member(name, value) for name, value in members).rstrip("\n") + "\n"


def _stub_member(name: str, value: Any) -> str:
    if inspect.isfunction(value):
        returns = "array[Any]" if name == "view" else _type_of(value)
        parameters = ", ".join(["self", *_parameters(value)[1:]])
        doc = (inspect.getdoc(getattr(HostArray, name)) or "").partition("\n\n")[0].replace("\n", "\n" + " " * 8)
        return f'    def {name}({parameters}) -> {returns}:\n        """{doc}"""\n\n'
    getter: Any = value.fget if isinstance(value, property) else value.func
    return f"    {name}: {_type_of(getter)}\n"


def _type_of(function: Callable[..., Any]) -> str:
    return _TYPES.get(inspect.signature(function).return_annotation, "Any")


def _parameters(function: Callable[..., Any]) -> list[str]:
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    return [
        f"{stars.get(p.kind, '')}{p.name}: Any" + ("" if p.default is inspect.Parameter.empty else " = ...")
        for p in inspect.signature(function).parameters.values()
    ]


def _public_statements(source: str) -> tuple[list[str], list[str]]:
    """The re-exports of the package's `__init__.py`, and its simple assignments."""
    imports, assignments = [], []
    for node in ast.parse(source).body:
        if isinstance(node, ast.ImportFrom):
            hidden = (*_SHOWN_AS_CLASSES, *_MAKE_ARRAYS, *calls.DECLARED, "config")
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


def _callables() -> Iterable[tuple[str, Sequence[str], str]]:
    for name, intrinsic in INTRINSICS.items():
        yield name, [intrinsic.signature or f"{name}(...)"], intrinsic.doc
    for name, function in FUNCTIONS.items():
        yield name, _forms(name, function), function.doc
    for name in (n for names in LIBRARY.values() for n in names):
        yield name, signatures(name), summary(name)


def _forms(name: str, function: Function) -> list[str]:
    """The signatures of a function: with each other name of an argument, and with places for its results."""
    forms = [function.signature]
    forms += [re.sub(rf"\b{known}:", f"{also}:", function.signature) for also, known in function.also.items()]
    if function.targets:
        inside = function.signature[len(name) + 1 : function.signature.rindex(")")]
        forms.append(f"{name}({inside}, {', '.join(f'{target}: Any' for target in function.targets)}) -> None")
    return forms


def _stub_function(name: str, forms: Sequence[str], doc: str) -> str:
    quoted = doc.replace("\\", "\\\\").replace('"""', "'''")
    shown = "\n    ".join(f"`{form}`" for form in forms)
    return typed.typed_function(name, forms, f'    """{shown}\n\n    {_wrapped(quoted)}\n    """\n')


def _stub_config() -> str:
    """The settings as attributes of an object: of a module's names pyright does not look at what is assigned."""
    types = inspect.get_annotations(sys.modules["jaxwarp.config"])
    types = {name: text.replace("bool", "builtins.bool") for name, text in types.items() if name in config.SETTINGS}
    lines = [f"{name}: {text}" for name, text in types.items()]
    lines += [f"{name}: Any" for name in (*config.OF_WARP, *_OF_CONFIG)]
    body = "".join(f"    {line}\n" for line in lines)
    return f'class _Config:\n    """Settings of the whole process."""\n\n{body}\nconfig: _Config\n\n'


def _stub_maker(name: str) -> str:
    """A function that makes an array."""
    import jaxwarp

    function = getattr(jaxwarp, name)
    texts = _parameters(function)
    if texts[-1].startswith("**"):  # by names that these options may have
        positional = inspect.signature(function).parameters
        others = [option for option in ArrayOptions._fields if option not in positional]
        others += ["n"] * ("shape" in positional)
        texts[-1:] = ["*", *(f"{option}: Any = ..." for option in others)]
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
