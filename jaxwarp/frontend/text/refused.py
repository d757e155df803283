"""The parts of Python that are not in the kernel language, and what to write instead."""

from __future__ import annotations

import ast
import sys
from typing import NoReturn

from jaxwarp.boundary import raise_for_user
from jaxwarp.errors import KernelSyntaxError, no_attribute
from jaxwarp.frontend.text.host_names import on_the_host

_COMPREHENSION = "write a for loop over range(...)"
_FUNCTION = "define it outside of the kernel as a @func and call it"
_CONTAINER = "use a vector or matrix type for components known at compile time, or an array argument"
_NO_EXCEPTIONS = "kernels have no exceptions; test conditions with if"

# Node kind -> (its name, what to write instead). Kinds that are missing here are supported or never reach a body.
REFUSED: dict[str, tuple[str, str]] = {
    "FunctionDef": ("a nested function", _FUNCTION),
    "AsyncFunctionDef": ("async def", _FUNCTION),
    "ClassDef": ("a class", "define it outside of the kernel"),
    "Lambda": ("lambda", _FUNCTION),
    "Delete": ("del", "leave it out: variables end with the kernel"),
    "With": ("with", "write the statements without it: kernels have no context managers"),
    "AsyncWith": ("async with", "write the statements without it: kernels have no context managers"),
    "AsyncFor": ("async for", "use for"),
    "Match": ("match", "use if, elif and else"),
    "Raise": ("raise", _NO_EXCEPTIONS),
    "Try": ("try", _NO_EXCEPTIONS),
    "TryStar": ("try", _NO_EXCEPTIONS),
    "Import": ("import", "import modules outside of the kernel"),
    "ImportFrom": ("import", "import modules outside of the kernel"),
    "Global": ("global", "kernels cannot assign to global names; write to an output array"),
    "Nonlocal": ("nonlocal", "kernels cannot assign to names outside; write to an output array"),
    "TypeAlias": ("a type alias", "define it outside of the kernel"),
    "NamedExpr": (":= inside an expression", "assign to the variable on a line of its own"),
    "Dict": ("a dictionary", _CONTAINER),
    "Set": ("a set", _CONTAINER),
    "List": ("a list", "write a tuple, or a vector of numbers; many numbers are an array argument"),
    "ListComp": ("a list comprehension", _COMPREHENSION),
    "SetComp": ("a set comprehension", _COMPREHENSION),
    "DictComp": ("a dictionary comprehension", _COMPREHENSION),
    "GeneratorExp": ("a generator", _COMPREHENSION),
    "Await": ("await", "call the function without await"),
    "Yield": ("yield", "write results to an output array"),
    "YieldFrom": ("yield from", "write results to an output array"),
    "FormattedValue": ("an f-string", 'text can only be printed: print(f"...")'),
    "JoinedStr": ("an f-string", 'text can only be printed: print(f"...")'),
    "TemplateStr": ("a template string", 'text can only be printed: print(f"...")'),
    "Interpolation": ("a template string", 'text can only be printed: print(f"...")'),
    "Starred": ("* outside of a call", "name the elements one by one"),
    "Slice": ("a slice", "slices are for arrays: a[start:stop]"),
}


# Functions of Warp that kernels here do not have -> what to do instead.
UNAVAILABLE = {
    "breakpoint": "run the kernel with kernel.interpret(...), in which breakpoint() works",
    "launch": "kernels cannot launch kernels; make the code a @func and call it",
}

# Functions of Python -> what to write instead.
OF_PYTHON = {
    "isinstance": "compare types: if type(x) == float32:",
    "sum": "add the values up in a loop",
    "sorted": "sort before the launch, or a tile: tile_sort(t)",
    "range": "write it in a loop: for i in range(n):",
    "enumerate": "write for i in range(n):, and read the elements with i",
    "zip": "write for i in range(n):, and read the elements of each with i",
    "reversed": "count down: for i in range(n - 1, -1, -1):",
    "any": "write a or b, or test in a loop",
    "all": "write a and b, or test in a loop",
}

# Names of NumPy for functions that have another name here.
NAMES_OF_NUMPY = {
    "minimum": "min",
    "maximum": "max",
    "fmin": "min",
    "fmax": "max",
    "clip": "clamp",
    "absolute": "abs",
    "fabs": "abs",
    "power": "pow",
    "norm": "length",
    "inv": "inverse",
    "det": "determinant",
    "arcsin": "asin",
    "arccos": "acos",
    "arctan": "atan",
    "arctan2": "atan2",
}

_ELSEWHERE = "compute it outside of the kernel, and pass the result as an argument"

# The same, of families of functions by how their names begin.
FAMILIES = {
    "mesh": _ELSEWHERE,
    "bvh": _ELSEWHERE,
    "hash_grid": _ELSEWHERE,
}


def of_warp(name: str) -> str | None:
    """Return what to do instead of a function of Warp that is missing here; None if Warp has none like it."""
    if name in UNAVAILABLE:
        return UNAVAILABLE[name]
    families = (hint for start, hint in FAMILIES.items() if name == start or name.startswith(start))
    return next(families, None) or on_the_host(name)


def by_numpy(name: str) -> str:
    """Return the name here of a function of NumPy or JAX."""
    return NAMES_OF_NUMPY.get(name, name)


def missing(name: str, package: str = "jaxwarp") -> NoReturn:
    """A name that a package does not have, `jaxwarp.name`: what to do about those of Warp."""
    module, prefix = sys.modules[package], package.removeprefix("jaxwarp").removeprefix(".")
    qualified = f"{prefix}.{name}" if prefix else name
    hint = of_warp(qualified)
    if hint is None:
        raise_for_user(no_attribute(module, name))
    # Without a name Python proposes no other one; with an object it does not add the name.
    raise_for_user(AttributeError(f"wp.{qualified} is not there yet; {hint}", obj=module))


def refusal(node: ast.AST) -> KernelSyntaxError:
    """The error for a construct that is not part of the language; the caller adds the location."""
    kind = type(node).__name__
    name, hint = REFUSED.get(kind, (kind, "see the kernel language's reference"))
    return KernelSyntaxError(f"{name} is not part of the kernel language", hint=hint)
