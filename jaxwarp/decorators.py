"""`@kernel`, `@func` and the decorators of rules: Python functions as kernels and as functions of kernels."""

from __future__ import annotations

from collections.abc import Callable
from types import FrameType
from typing import Any
from typing import overload as _typing_overload

from jaxwarp.boundary import boundary, caller
from jaxwarp.errors import KernelTypeError, type_text
from jaxwarp.frontend.derivatives.rules import register
from jaxwarp.frontend.text.functions import Func, NativeFunc, Overload
from jaxwarp.frontend.text.native_text import NotPlainError, python_of, rule_of
from jaxwarp.frontend.text.read_source import read_source
from jaxwarp.frontend.text.signature import read_parameters, read_return
from jaxwarp.kernel import KERNEL_OPTIONS, Kernel, require_options

_BARRIERS = ("WP_TILE_SYNC()", "__syncthreads()")
_FUNC_OPTIONS = ("name", "module", "inline")


@_typing_overload
def kernel(function: Callable[..., Any], /) -> Kernel: ...
@_typing_overload
def kernel(**options: Any) -> Callable[[Callable[..., Any]], Kernel]: ...
@boundary
def kernel(function: Any = None, /, **options: Any) -> Any:
    """Make a kernel from a Python function: `@kernel` or `@kernel(enable_backward=False, ...)`.

    The kernel takes the values of outside names when it is defined, and ignores later assignments. A name that is not
    defined yet is looked up when the kernel is first used.

    Raises:
        KernelError: the function cannot be a kernel; errors in its body come when it is specialised.
        KernelTypeError: an unknown option.
    """
    require_options("kernel", options, KERNEL_OPTIONS)
    scope = caller()

    @boundary
    def decorate(function: Callable[..., Any]) -> Kernel:
        return Kernel(read_source(function, "kernel", scope.f_locals), options=options)

    return decorate(function) if function is not None else decorate


@_typing_overload
def func(function: Callable[..., Any], /) -> Func: ...
@_typing_overload
def func(**options: Any) -> Callable[[Callable[..., Any]], Func]: ...
@boundary
def func(function: Any = None, /, **options: Any) -> Any:
    """Make a function that kernels can call: `@func`. Each call is inlined.

    Functions of the same name in the same scope are overloads: the types of the arguments choose one.
    """
    require_options("func", options, _FUNC_OPTIONS)
    if not isinstance(options.get("inline", True), bool | None):
        raise KernelTypeError(
            f"@func: inline must be a bool, got {options['inline']!r}",
            hint="leave it out: functions are always inlined",
        )
    scope = caller()

    @boundary
    def decorate(function: Callable[..., Any]) -> Func:
        source = read_source(function, "func", scope.f_locals)
        new = Overload(source, read_parameters(source, "func"), read_return(source))
        key = source.function.__qualname__
        earlier = scope.f_locals.get(source.name)
        if isinstance(earlier, Func) and earlier.key == key and earlier.module == function.__module__:
            return earlier.with_overload(new)
        return Func(source.name, key, function.__module__, (new,))

    return decorate(function) if function is not None else decorate


@boundary
def func_native(
    snippet: str, adj_snippet: str | None = None, replay_snippet: str | None = None
) -> Callable[[Callable[..., Any]], Func | NativeFunc]:
    """Takes Warp's functions in C++. One that computes with numbers and elements of arrays is read as a function of the
    kernel language.

    It may have declarations, assignments, `if`, `while`, `for`, `return`, and C's functions of floats. Where it has
    one text for CUDA and another one, both must be of this kind, and the other one runs. One that only waits for the
    threads of a block is nothing, as a block is one thread. A kernel that calls any other one is refused. The text of
    a derivative is read in the same way: it may add to `adj_x` of each argument x, and read `adj_ret`.

    Args:
        snippet: the text of the function in C++.
        adj_snippet: of its derivative.
        replay_snippet: of what stands for it where a derivative runs it again.

    Raises:
        KernelTypeError: a snippet is no text.
    """
    for name, text in (("snippet", snippet), ("adj_snippet", adj_snippet), ("replay_snippet", replay_snippet)):
        if not isinstance(text, str) and (text is not None or name == "snippet"):
            raise KernelTypeError(
                f"@func_native: {name}: expected a str, got {text!r}", hint="pass the function's text in C++"
            )
    is_barrier = snippet.strip(" ;\n") in _BARRIERS and not (adj_snippet or replay_snippet)
    scope = caller()

    @boundary
    def decorate(function: Callable[..., Any]) -> Func | NativeFunc:
        plain, rule = function, None
        if not is_barrier:
            try:
                if replay_snippet:
                    raise NotPlainError("a text that stands for it")
                plain = python_of(snippet, function)
                rule = rule_of(adj_snippet, function) if adj_snippet else None
            except NotPlainError as error:
                return NativeFunc(function.__name__, str(error))
        source = read_source(plain, "func", scope.f_locals)
        overload = Overload(source, read_parameters(source, "func"), read_return(source))
        made = Func(source.name, function.__qualname__, function.__module__, (overload,))
        if rule is not None:
            func_grad(made)(rule)
        return made

    return decorate


@boundary
def func_grad(forward_fn: Func) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Gives a function a derivative written by hand, which is used instead of that of its code, in both modes.

    The decorated function takes the arguments of `forward_fn`, then one cotangent for each value that it returns, and
    adds to `adjoint[x]` what each argument x gets. It must be linear in the cotangents.

    Examples:

        @wp.func_grad(f)
        def adj_f(x: float, adj_ret: float):
            wp.adjoint[x] += 2.0 * x * adj_ret

    Raises:
        KernelTypeError: `forward_fn` is no `@func`, or has no overload with these arguments.
        KernelError: the function cannot be one of the language; errors in its body come when it is used.
    """
    return _rule("func_grad", forward_fn, caller())


@boundary
def func_replay(forward_fn: Func) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Gives a function with effects another one, of its signature, to run where a derivative runs the kernel again.

    The replay may read what the function has written: it finds the arrays as the launch left them.

    Raises:
        KernelTypeError: `forward_fn` is no `@func`, or has no overload with these arguments.
        KernelError: the function cannot be one of the language; errors in its body come when it is used.
    """
    return _rule("func_replay", forward_fn, caller())


def _rule(decorator: str, forward: Any, scope: FrameType) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    if not isinstance(forward, Func):
        raise KernelTypeError(
            f"@{decorator}: expected a function made by @func, got {type_text(forward)}",
            hint=f"write @{decorator}(f) above the rule for f",
        )

    @boundary
    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        source = read_source(function, decorator, scope.f_locals)
        register(decorator, forward, Overload(source, read_parameters(source, "func"), read_return(source)))
        return function

    return decorate
