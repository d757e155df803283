"""The decorators and the calls of kernels in the stub: what is made of a function keeps its parameters."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from jaxwarp.decorators import func, kernel
from jaxwarp.ffi.jax_kernel import JaxKernel, jax_kernel
from jaxwarp.ffi.programs.jax_callable import JaxCallable, jax_callable
from jaxwarp.kernel import KERNEL_OPTIONS
from jaxwarp.structs.declare import struct

# Up to so many arguments of a kernel are counted in its calls.
_COUNTED = 10

# What the stub declares itself instead of importing it.
DECLARED = ("kernel", "func", "struct", "jax_kernel", "jax_callable")

_HEAD = '''\
_P = ParamSpec("_P")
_R = TypeVar("_R")
_C = TypeVar("_C")

class _Kernel(Kernel, Generic[_P]):
    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> None: ...

class _Func(Func, Generic[_P, _R]):
    @_overload
    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R: ...
    # Checkers see one of the overloads that functions of one name are: others are not refused.
    @_overload
    def __call__(self, *args: Any, **kwargs: Any) -> Any: ...

'''


def stub_of_calls() -> str:
    """Return the decorators, and the classes of what they make."""
    options = ", ".join(f"{name}: Any = ..." for name in KERNEL_OPTIONS)
    parts = [
        _HEAD,
        _decorator("kernel", "_Kernel[_P]", f"*, {options}", kernel),
        _decorator("func", "_Func[_P, _R]", "*, name: Any = ..., module: Any = ..., inline: Any = ...", func),
        _struct(),
        _made_class(JaxKernel, "kernel: _Kernel[_P]"),
        _made_class(JaxCallable, "func: Callable[_P, Any]\n    graph_mode: GraphMode"),
        _call(jax_kernel, "_JaxKernel[_P]"),
        _call(jax_callable, "_JaxCallable[_P]"),
    ]
    return "".join(parts)


def _doc(function: Callable[..., Any]) -> str:
    lines = inspect.cleandoc(function.__doc__ or "").replace("\\", "\\\\").splitlines()
    return "\n".join([f'    """{lines[0]}', *(f"    {line}".rstrip() for line in lines[1:]), '    """'])


def _decorator(name: str, made: str, options: str, function: Callable[..., Any]) -> str:
    taken = f"Callable[_P, {'_R' if '_R' in made else 'Any'}]"
    doc = _doc(function)
    return (
        f"@_overload\ndef {name}(function: {taken}, /) -> {made}:\n{doc}\n\n"
        f"@_overload\ndef {name}({options}) -> Callable[[{taken}], {made}]:\n{doc}\n\n"
    )


def _struct() -> str:
    head, doc = "@_overload\n@dataclass_transform(field_specifiers=(dataclasses.field,))\n", _doc(struct)
    return (
        f"{head}def struct(kind: _type[_C], /) -> _type[_C]:\n{doc}\n\n"
        f"{head}def struct(*, module: Any = ...) -> Callable[[_type[_C]], _type[_C]]:\n{doc}\n\n"
    )


def _made_class(made: type, members: str) -> str:
    """The class of a call. It takes values of JAX for arrays: the number of arguments is that of the kernel at most."""
    name = f"_{made.__name__}"
    parameters = inspect.signature(made.__call__).parameters.values()
    options = "".join(f", {p.name}: {p.annotation} = ..." for p in parameters if p.kind is p.KEYWORD_ONLY)
    lines = [f"class {name}(Generic[_P]):", _doc(made), "", f"    {members}", "    __name__: str"]
    for count in range(1, _COUNTED + 2):
        known = ["Any"] * count
        taken = f"[{', '.join(known)}]" if count <= _COUNTED else f"Concatenate[{', '.join(known)}, ...]"
        names = "".join(f"a{k}: Any = ..., " for k in range(count)) + "/, *"
        if count > _COUNTED:
            names = "*args: Any"
        lines += [
            "    @_overload",
            f"    def __call__(self: {name}[{taken}], {names}{options}, **inputs: Any) -> Any: ...",
        ]
    return "\n".join(lines) + "\n\n"


def _call(function: Callable[..., Any], made: str) -> str:
    """`jax_kernel(k)`, and the decorator `@jax_kernel(outputs=...)`."""
    first, *others = inspect.signature(function).parameters.values()
    options = [f"{p.name}: {p.annotation} = ..." for p in others]
    named = [o if not o.startswith("outputs:") else "outputs: str | Sequence[str]" for o in options]
    name, doc = function.__name__, _doc(function)
    taken = "Callable[_P, Any]"
    return (
        f"@_overload\ndef {name}({first.name}: {taken}, {', '.join(options)}) -> {made}:\n{doc}\n\n"
        f"@_overload\ndef {name}(*, {', '.join(named)}) -> Callable[[{taken}], {made}]:\n{doc}\n\n"
    )
