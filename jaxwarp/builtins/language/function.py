"""Functions of the language. A call in a kernel expands into rows; each function has a NumPy reference."""

from __future__ import annotations

import ast
import functools
import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jaxwarp.boundary import boundary
from jaxwarp.builtins.language.ops import Ops
from jaxwarp.builtins.language.shown import OfInstances, parsed
from jaxwarp.builtins.language.values import Bundle, describe
from jaxwarp.errors import KernelError, KernelTypeError, type_text
from jaxwarp.quaternions import HostValue, number
from jaxwarp.types import SCALAR_BY_DTYPE, Mat, Quat, Scalar, Vec

Interval = tuple[float, float]


@dataclass(frozen=True, eq=False)
class Function:
    """A builtin function as users call it.

    Called from Python, it computes its reference on host values.

    Attributes:
        group: heading of the reference page.
        signature: as the reference page prints it.
        body: what `expand` calls: `body(ops, *args, **kwargs)` on operands of the language.
        ref: the same on host values, written independently: NumPy scalars (or arrays of rank 0), vectors as arrays of
            rank 1, matrices as arrays of rank 2.
        domain: the interval that tests draw components from.
        ulp: accuracy against `ref`, in units in the last place of the result's largest component.
        writes: places of arguments that a call assigns the results to, if it has as many; such a call has no value.
        reads: how many arguments the body takes then, from the first on.
        targets: names of arguments that only such a call has, behind those of the signature.
        also: other names of arguments, that Warp's overloads have, and those of the signature.
    """

    name: str
    group: str
    signature: str
    doc: str
    body: Callable[..., Any]
    ref: Callable[..., Any]
    domain: Interval = (-2.0, 2.0)
    ulp: float = 0.0
    writes: tuple[int, ...] = ()
    reads: int = 0
    targets: tuple[str, ...] = ()
    also: Mapping[str, str] = field(default_factory=dict)
    _parameters: inspect.Signature = field(init=False, repr=False)
    # How many arguments by position fit, whatever they are; binding them takes as long as a short body.
    _counts: tuple[float, float] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        signature = inspect.signature(self.body)
        object.__setattr__(self, "_parameters", signature)
        object.__setattr__(self, "_counts", _counts_of(signature))

    @property
    def __name__(self) -> str:
        return self.name

    __doc__ = OfInstances(lambda self: f"{self.signature}\n\n{self.doc}", __doc__)  # pyright: ignore
    __signature__ = OfInstances(lambda self: parsed(self.signature))

    def expand(self, ops: Ops, *args: Any, **kwargs: Any) -> Any:
        """Appends the operations of a call; returns its value.

        Raises:
            KernelTypeError: the arguments do not fit.
        """
        try:
            args, kwargs = self.by_place(args, kwargs)
            if kwargs or not self._counts[0] <= len(args) + 1 <= self._counts[1]:
                self._require_names(kwargs)
                self._parameters.bind(ops, *args, **kwargs)
        except TypeError as error:
            raise KernelTypeError(f"{self.name}: {error}", hint=f"the signature is {self.signature}") from None
        if empty := next((a for a in args if isinstance(a, Bundle) and not a.values), None):
            raise KernelTypeError(f"{self.name}: {empty.type} has no components", hint="it can only be compared")
        try:
            return self.body(ops, *args, **kwargs)
        except KernelError as error:
            error.hint = error.hint or f"the signature is {self.signature}"
            raise

    @boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        try:
            args, kwargs = self.by_place(args, kwargs)
            is_assigning = self.assigns(len(args)) and not kwargs
            taken = args[: self.reads] if is_assigning else args
            self._require_shapes(taken)
            with np.errstate(all="ignore"):
                result = self.ref(*(_host(a) for a in taken), **{k: _host(v) for k, v in kwargs.items()})
        except (TypeError, ValueError, IndexError, AttributeError) as error:
            is_of_python = "() " in str(error)  # it names what computes the function, not the function
            text = self._misfit(args, kwargs) if is_of_python else ""
            raise KernelTypeError(f"{self.name}: {text or error}", hint=f"the signature is {self.signature}") from None
        except (KeyError, StopIteration):  # by the types of the arguments nothing is found
            given = ", ".join(map(_kind, (*args, *kwargs.values())))
            text = f"{self.name}: no function of these arguments: ({given})"
            raise KernelTypeError(text, hint=f"the signature is {self.signature}") from None
        if is_assigning:
            self._assign([args[place] for place in self.writes], result)
            return None
        is_of_numpy = any(isinstance(a, np.ndarray) and not isinstance(a, HostValue) for a in args)
        is_typed = any(isinstance(a, HostValue) for a in args) or not is_of_numpy
        return _typed(result) if is_typed else _plain(result)

    def _misfit(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
        """Return how the number or the names of arguments differ from the signature; empty if they do not."""
        try:
            self._require_names(kwargs)
            parsed(self.signature).bind(*args, **kwargs)
        except TypeError as error:
            return str(error)
        except AttributeError:  # the signature leaves out arguments
            pass
        return ""

    def _require_names(self, kwargs: dict[str, Any]) -> None:
        """Raises for a name that no argument has: what is missing then is of less interest."""
        parameters = self._parameters.parameters
        taken = {*parameters, *self.also, *_names_in(self.signature), *self.targets}
        is_open = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
        if unknown := [] if is_open else [name for name in kwargs if name not in taken]:
            raise TypeError(f"got an unexpected keyword argument {unknown[0]!r}")

    def renamed(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        """Arguments by the names of the signature."""
        if not self.also:
            return kwargs
        # What is given by both names stays under the other one too, which nothing takes.
        return {name if (known := self.also.get(name, name)) in kwargs else known: v for name, v in kwargs.items()}

    def by_place(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a call, by position where the signature names them; the body may call them otherwise."""
        if not kwargs or any(p.kind is p.VAR_KEYWORD for p in self._parameters.parameters.values()):
            return args, kwargs
        parameters, left = self._parameters.parameters, dict(self.renamed(kwargs))
        for name in (*_names_in(self.signature), *self.targets)[len(args) :]:
            if name not in left or (name in parameters and parameters[name].kind is inspect.Parameter.KEYWORD_ONLY):
                break
            args = (*args, left.pop(name))
        return args, left

    def _require_shapes(self, args: tuple[Any, ...]) -> None:
        """Raises if a value outside of kernels has other components than the signature says."""
        for place, name, annotation, shapes in _shapes_in(self.signature):
            given = np.shape(args[place]) if place < len(args) else None
            if given is not None and all(given[-len(shape) :] != shape for shape in shapes):
                raise TypeError(f"argument {name}: expected {annotation}, got {_kind(args[place])}")

    def _assign(self, targets: list[Any], results: Any) -> None:
        """Assign the results of a call outside of kernels to its targets. Refuse numbers, which cannot change."""
        for target, result in zip(targets, (results,) if len(targets) == 1 else results, strict=True):
            if not isinstance(target, np.ndarray) or not target.flags.writeable:
                raise KernelTypeError(
                    f"{self.name}: expected a value to assign to, got {type_text(target)}",
                    hint="outside of kernels take what it returns, or pass a vector or an array of NumPy",
                )
            target[...] = result

    def __repr__(self) -> str:
        return f"<jaxwarp function {self.name}>"

    @property
    def written_names(self) -> tuple[str, ...]:
        """The names of arguments that a call assigns to."""
        names = (*_names_in(self.signature), *self.targets)
        return tuple(names[place] for place in self.writes)

    def assigns(self, count: int) -> bool:
        """Return whether a call with `count` arguments assigns to some of them."""
        return bool(self.writes) and count == max(self.reads, 1 + max(self.writes))


_SHAPES = {"Vec3": (3,), "Quat": (4,), "Vec6": (6,), "Transform": (7,), "Mat33": (3, 3), "Mat44": (4, 4)}


@functools.cache
def _shapes_in(signature: str) -> tuple[tuple[int, str, str, tuple[tuple[int, ...], ...]], ...]:
    """The arguments that have some components: place, name, what the signature says they are, and the shapes."""
    try:
        arguments = [(p.name, str(p.annotation)) for p in parsed(signature).parameters.values()]
    except AttributeError:
        return ()
    shapes = [tuple(_SHAPES[kind] for kind in text.split(" | ") if kind in _SHAPES) for _, text in arguments]
    return tuple((n, *one, shapes[n]) for n, one in enumerate(arguments) if shapes[n])


def _kind(value: Any) -> str:
    """A value outside of kernels in a message."""
    if isinstance(value, HostValue) and value.type is not None:
        return repr(value.type)
    return f"{type(value).__name__} of shape {np.shape(value)}" if np.shape(value) else type(value).__name__


@functools.cache
def _counts_of(signature: inspect.Signature) -> tuple[float, float]:
    """Return how many arguments by position a function takes, at least and at most."""
    kinds = [p.kind for p in signature.parameters.values()]
    by_place = [p for p in signature.parameters.values() if p.kind <= inspect.Parameter.POSITIONAL_OR_KEYWORD]
    named = [p for p in signature.parameters.values() if p.kind is inspect.Parameter.KEYWORD_ONLY]
    least = sum(p.default is inspect.Parameter.empty for p in by_place)
    most = math.inf if inspect.Parameter.VAR_POSITIONAL in kinds else len(by_place)
    return (math.inf if any(p.default is inspect.Parameter.empty for p in named) else least), most


@functools.cache
def _names_in(signature: str) -> tuple[str, ...]:
    """The names of the arguments that a signature has by position."""
    arguments = ast.parse(f"def {signature.replace(', ...)', ')')}: ...").body[0]
    assert isinstance(arguments, ast.FunctionDef)
    return tuple(a.arg for a in arguments.args.args)


def _host(a: Any) -> Any:
    """A Python number as the language types it."""
    if isinstance(a, (bool, np.generic, list)):
        return np.asarray(a)
    if isinstance(a, int):
        return np.asarray(a, np.int32 if -(2**31) <= a < 2**31 else np.int64)
    if isinstance(a, float):
        return np.asarray(a, np.float32)
    return a


def _plain(result: Any) -> Any:
    is_value = isinstance(result, HostValue) and result.type is not None  # parts of a quaternion are none
    return result[()] if isinstance(result, np.ndarray) and not is_value else result


def _typed(result: Any) -> Any:
    """Convert a function's result to values of the language, including vectors and matrices."""
    if isinstance(result, tuple):
        return tuple(_typed(r) for r in result)
    is_value = isinstance(result, np.ndarray) and getattr(result, "type", None) is None and result.ndim in (1, 2)
    if not is_value or result.dtype not in SCALAR_BY_DTYPE:
        return number(_plain(result))
    dtype = SCALAR_BY_DTYPE[result.dtype]
    return HostValue.of(Vec(*result.shape, dtype) if result.ndim == 1 else Mat(*result.shape, dtype), result)


class FunctionTable:
    """Collects the functions of a file."""

    def __init__(self, group: str):
        self.group = group
        self.functions: list[Function] = []

    def add(
        self,
        signature: str,
        ref: Callable[..., Any],
        *,
        domain: Interval = (-2.0, 2.0),
        ulp: float = 0.0,
        doc: str = "",
        **options: Any,
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Declares a function: a decorator of its body, whose docstring is the doc line if none is given. `options` are
        other fields of `Function`."""

        def declare(body: Callable[..., Any]) -> Callable[..., Any]:
            name = signature.split("(", 1)[0]
            line = doc or " ".join((body.__doc__ or "").split())
            self.functions.append(Function(name, self.group, signature, line, body, ref, domain, ulp, **options))
            return body

        return declare


def require_vec(name: str, *args: Any) -> list[Bundle]:
    """Vectors, all of one type.

    Raises:
        KernelTypeError: they are not.
    """
    return _require(name, "vector", Vec, args)


def require_row(name: str, *args: Any) -> list[Bundle]:
    """Vectors or quaternions, all of one type.

    Raises:
        KernelTypeError: they are not.
    """
    return _require(name, "vector", Quat if any(_is_quat(a) for a in args) else Vec, args)


def _is_quat(a: Any) -> bool:
    return isinstance(a, Bundle) and isinstance(a.type, Quat)


def require_mat(name: str, *args: Any) -> list[Bundle]:
    """Matrices, all of one type.

    Raises:
        KernelTypeError: they are not.
    """
    return _require(name, "matrix", Mat, args)


def _require(name: str, what: str, kind: type, args: tuple[Any, ...]) -> list[Bundle]:
    found = [a for a in args if isinstance(a, Bundle) and isinstance(a.type, kind)]
    if len(found) != len(args) or any(a.type != found[0].type for a in found):
        plural = {"vector": "vectors", "matrix": "matrices"}[what]
        expected = f"a {what}" if len(args) == 1 else f"{plural} of one type"
        raise KernelTypeError(f"{name}: expected {expected}, got {' and '.join(describe(a) for a in args)}")
    return found


def require_float(name: str, dtype: Scalar) -> None:
    """Raises unless components are floats."""
    if not dtype.is_float:
        raise KernelTypeError(f"{name}: components must be floats, got {dtype}")
