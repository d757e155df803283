"""Types of functions of the kernel language for the stub: of each signature that the tables have as text."""

from __future__ import annotations

import re
from collections.abc import Sequence

from jaxwarp.builtins.language.short_names import AGGREGATES
from jaxwarp.types import SCALARS, bool_
from jaxwarp.types.aggregates import Mat, Quat, Transform

_FLOATS = {s.name for s in SCALARS if "float" in s.name}
_INTS = {s.name for s in SCALARS if s is not bool_} - _FLOATS

# Numbers of the language are Python's for a checker: `float32` takes the literal 1.0, and has operators.
_ARGUMENTS = {
    **dict.fromkeys(("float", "Float", "Scalar", *_FLOATS), "float"),
    **dict.fromkeys(("int", "Int", *_INTS), "int"),
    "str": "str",
}
# Kinds of values: classes above those of the stub that kernels name, and a variable for each.
KINDS = ("Vec", "Vec2", "Vec3", "Vec4", "Vec6", "Mat", "Mat22", "Mat33", "Mat44", "Mat66", "Quat", "Transform")
# Of these the result has the type of the arguments, whatever that is.
_SAME = frozenset(("abs", "clamp", "lerp", "max", "min", "neg", "pos", "select", "sign", "where"))


def classes() -> str:
    """Return the classes of vectors, matrices, quaternions and transforms, and their kinds."""
    lines = []
    for kind in KINDS:
        base = re.sub(r"\d+", "", kind)
        above = "_Value" if kind in ("Vec", "Mat") else "_Vec" if kind in ("Quat", "Transform") else f"_{base}"
        lines += [f"class _{kind}({above}): ...", f'_{kind}T = TypeVar("_{kind}T", bound=_{kind})']
    first: dict[object, str] = {}
    for name, made in sorted(AGGREGATES.items(), key=lambda item: (item[0].islower(), len(item[0])), reverse=True):
        first.setdefault(made, name)  # `vec3f` for `vec3`: one class with two names
    for name, made in AGGREGATES.items():
        if first[made] == name:
            lines.append(f"class {name}({_kind_of(made)}): ...")
    lines += [f"{name} = {first[made]}" for name, made in AGGREGATES.items() if first[made] != name]
    return "\n".join(lines) + "\n\n"


def _kind_of(made: object) -> str:
    if isinstance(made, Quat | Transform):
        return f"_{type(made).__name__}"
    shape = getattr(made, "shape", ())
    name = f"_{'Mat' if isinstance(made, Mat) else 'Vec'}{''.join(map(str, shape))}"
    return name if name[1:] in KINDS else re.sub(r"\d+", "", name)


def scalars() -> str:
    """Return the scalar types: names of Python's numbers."""
    names = [s.name for s in SCALARS if s is not bool_]
    lines = [f"{name}: TypeAlias = {'builtins.float' if name in _FLOATS else 'builtins.int'}" for name in names]
    return "\n".join([*lines, "bool: TypeAlias = builtins.bool"]) + "\n"


def typed_function(name: str, signatures: Sequence[str], doc: str) -> str:
    """Return the function with an overload for each signature, under a docstring that has all of them."""
    heads = list(dict.fromkeys(_head(name, text) for text in signatures))
    if any("*others" in head for head in heads):
        heads.append(f"def {name}(a: _Value) -> Any:")  # the least component of a vector
    if len(heads) == 1:
        return f"{heads[0]}\n{doc}\n"
    return "".join(f"@_overload\n{head}\n{doc}\n" for head in heads)


def _head(name: str, signature: str) -> str:
    inside, _, result = signature[len(name) + 1 :].rpartition(")")
    result = result.strip().removeprefix("->").strip()
    if "..." in inside.replace("= ...", ""):
        return _open(name, inside)
    parameters, types = [], []
    for text in _split(inside):
        declared, _, default = text.partition(" = ")
        parameter, _, type_ = declared.partition(":")
        type_ = type_.strip()
        types.append(type_)
        shown = "_T" if name in _SAME and type_ == "Any" else _argument(type_)
        parameters.append(f"{parameter}: {shown}" + (" = ..." if default else ""))
    result = "_T" if name in _SAME and "_T" in " ".join(parameters) else _result(result, types)
    return f"def {name}({', '.join(parameters)}) -> {result}:"


def _open(name: str, inside: str) -> str:
    """Return the head for a signature with `...`, which any number of arguments may follow."""
    if name in _SAME:
        return f"def {name}(a: _T, b: _T, *others: _T) -> _T:"
    first = _split(inside)[0].partition(":")[0]
    return f"def {name}({first}: Any, *args: Any, **keywords: Any) -> Any:"


def _split(inside: str) -> list[str]:
    """The parameters: at commas outside of brackets."""
    parts, depth = [""], 0
    for character in inside:
        depth += (character in "[(") - (character in "])")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def _kind_named(type_: str) -> str:
    """The kind that a type of a signature is: `Vec3`, and `vec3` too; empty if none."""
    return type_ if type_ in KINDS else (_kind_of(AGGREGATES[type_])[1:] if type_ in AGGREGATES else "")


def _argument(type_: str) -> str:
    if " | " in type_:
        options = [_argument(option) for option in type_.split(" | ")]
        return "Any" if "Any" in options else " | ".join(option.removesuffix("T") for option in options)
    if kind := _kind_named(type_):
        return f"_{kind}T" if type_ in KINDS else f"_{kind}"
    return _ARGUMENTS.get(type_, "Any")


def _result(type_: str, types: Sequence[str]) -> str:
    if type_ == "None" or not type_:
        return "None"
    if type_ == "bool":
        return "builtins.bool"
    if type_ == "Scalar":
        return "Any"
    if type_ in types and type_ in KINDS:
        return f"_{type_}T"
    if type_ in AGGREGATES:
        return type_
    if type_.startswith("tuple["):
        parts = _split(type_.removeprefix("tuple[").removesuffix("]"))
        return "Any" if "..." in parts or " | " in type_ else f"Tuple[{', '.join(_result(p, types) for p in parts)}]"
    return _ARGUMENTS.get(type_, "Any")
