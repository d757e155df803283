"""The boundary at which users enter: a traceback shows their lines, and none of ours or JAX's.

Public functions are decorated with `@boundary`, and the methods of public classes with `@boundaries`. An error that
leaves them loses the frames of this package and of JAX, so its traceback ends at the user's line. The text of a
kernel's error has the rest. All frames stay with `jaxwarp.config.verbose = True`, and with JAX's own switch,
`jax_traceback_filtering="off"`. A fault of ours keeps its frames: a report needs them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import dis
import functools
import importlib
import inspect
import os
import sys
import time
import types
import warnings
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any, NoReturn, TypeVar

from jaxwarp.errors import InternalError, JaxwarpError, KernelAttributeError, KernelError, Loc, no_attribute

Function = TypeVar("Function", bound=Callable[..., Any])
Class = TypeVar("Class", bound=type)

PACKAGE = os.path.dirname(__file__) + os.sep
# When this process read the package, to the second: no module of ours has been read for longer.
IMPORTED = time.time()

# What only hands on to NumPy what users give: an error there is NumPy's, of the user's call.
_HANDS_ON = (__file__, PACKAGE + "quaternions.py")

# Of the standard library, what stands between a user's frame and one of ours or JAX's.
_OURS = __name__.partition(".")[0] + "."
_BETWEEN = (contextlib.__file__, functools.__file__)
_SPECIAL = (
    "__init__", "__call__", "__enter__", "__exit__", "__getitem__", "__setitem__", "__len__", "__iter__", "__float__",
    "__int__", "__bool__", "__eq__", "__ne__", "__getattr__", "__setattr__", "__add__", "__sub__", "__mul__",
    "__rmul__", "__imul__", "__matmul__", "__truediv__", "__rtruediv__", "__itruediv__", "__mod__",
    "__array_ufunc__",
)  # fmt: skip


def boundary(function: Function, tell: Callable[[Exception], None] | None = None) -> Function:
    """The function, as users call it: errors show their lines only. `tell` sees an error before it leaves."""

    @functools.wraps(function)
    def entered(*args: Any, **kwargs: Any) -> Any:
        __tracebackhide__ = True
        try:
            return function(*args, **kwargs)
        except Exception as error:
            if tell is not None:
                tell(error)
            strip(error)
            raise  # bare: this frame is not added again

    return entered  # pyright: ignore


def called(name: str) -> Callable[[Function], Function]:
    """Give a function the name by which users call it: Python's own errors about its arguments begin with that."""

    def renamed(function: Function) -> Function:
        function.__qualname__ = name
        return function

    return renamed


def boundaries(kind: Class) -> Class:
    """The class, with a boundary around each public method that it defines, and around what sets its properties; and
    `guarded`."""
    for name, value in list(vars(kind).items()):
        if isinstance(value, types.FunctionType) and (name in _SPECIAL or not name.startswith("_")):
            setattr(kind, name, boundary(value))
        elif isinstance(value, property) and value.fset is not None:
            setattr(kind, name, value.setter(boundary(value.fset)))
        elif isinstance(value, property) and name == "value" and value.fget is not None:
            setattr(kind, name, value.getter(boundary(value.fget)))
    return guarded(kind)


def guarded(kind: Class) -> Class:
    """The class, whose public attributes users cannot assign, so that no assignment is without an effect.

    They can assign to properties that have a setter, to the names in the class's `_SETTABLE`, and to attributes of
    their own. Its `_HINTS` say by name what to do in place of an assignment, `_HINT` of all others, `_CALLED`
    what errors call it.
    """
    any_kind: Any = kind
    plain = any_kind.__setattr__
    if getattr(plain, "is_guard", False):
        return kind  # inherited; it looks at the instance's own class

    @functools.wraps(plain)
    def assign(self: Any, name: str, value: Any) -> None:
        try:
            if not name.startswith("_") and not _is_ours(sys._getframe(1)):
                _require_settable(type(self), name)
            plain(self, name, value)
        except Exception as error:
            strip(error)
            raise

    assign.__dict__["is_guard"] = True
    any_kind.__setattr__ = assign
    return kind


def _is_ours(frame: FrameType) -> bool:
    name = frame.f_globals.get("__name__", "")
    return name.startswith(_OURS) or name == _OURS[:-1]


def _require_settable(kind: type, name: str) -> None:
    """
    Raises:
        KernelAttributeError: it is an attribute of ours that cannot be assigned.
    """
    known = _attributes(kind)
    if name not in known or _can_be_set(kind, name):
        return
    called = getattr(kind, "_CALLED", kind.__name__)
    hint = getattr(kind, "_HINTS", {}).get(name) or getattr(kind, "_HINT", None)
    if hint is None:
        settable = sorted(n for n in known if _can_be_set(kind, n))
        others = f"; what can be assigned: {', '.join(settable)}" if settable else ""
        hint = f"make another {called}{others}"
    raise KernelAttributeError(f"{called}: {name} cannot be set", hint=hint)


def _can_be_set(kind: type, name: str) -> bool:
    found = inspect.getattr_static(kind, name, None)
    return name in getattr(kind, "_SETTABLE", ()) or (isinstance(found, property) and found.fset is not None)


@functools.lru_cache(maxsize=512)
def _attributes(kind: type) -> frozenset[str]:
    """The public attributes that a class of ours gives its instances: its members, and what its methods store."""
    found: set[str] = set()
    for base in kind.__mro__:
        if base.__module__.partition(".")[0] in (_OURS[:-1], "numpy", "builtins"):
            found |= vars(base).keys() | inspect.get_annotations(base).keys()
            methods = [inspect.unwrap(member) for member in vars(base).values() if callable(member)]
            code = (dis.get_instructions(f) for f in methods if isinstance(f, types.FunctionType))
            found |= {i.argval for instructions in code for i in instructions if i.opname == "STORE_ATTR"}
    return frozenset(name for name in found if not name.startswith("_"))


def raise_for_user(error: Exception) -> NoReturn:
    """Raises an error of Python's own that is the user's: it is no fault of ours."""
    raise error.with_traceback(None)


def missing_in(module: str) -> Callable[[str], NoReturn]:
    """The `__getattr__` of a module, which names the nearest attribute that it has. Type checkers need not see it."""

    def __getattr__(name: str) -> NoReturn:  # noqa: N807 - what modules call it
        raise_for_user(no_attribute(sys.modules[module], name))

    return boundary(__getattr__)


def read_later(package: str, name: str, modules: Mapping[str, str]) -> Any:
    """Return `package.name`, from the module that is imported for it; the package has it from then on.

    So a package defines kernels, and imports what takes long, when somebody names what needs it (PEP 562).
    """
    value = vars(sys.modules[package])[name] = getattr(importlib.import_module(modules[name]), name)
    return value


def call_for_user(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Calls what is the user's, or a constructor: arguments that do not fit it are no fault of ours."""
    try:
        return function(*args, **kwargs)
    except TypeError as error:
        if error.__traceback__ is not None and error.__traceback__.tb_next is None:
            raise_for_user(error)
        raise


def strip(error: BaseException) -> None:
    """Takes the frames that are not the user's out of the traceback of an error, and of those that led to it."""
    if _State.shows_all or _is_fault(error) or _switch() == "off":
        return
    error.__traceback__ = _users(error.__traceback__)
    led = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if led is None or not isinstance(error, JaxwarpError) or _is_of_jax(led):
        return
    kept = _users(led.__traceback__)
    if kept is None:  # it happened in our code: this error says what it means
        error.__cause__, error.__suppress_context__ = None, True
    else:
        strip(led)


def located_call(function: Function) -> Function:
    """A boundary where an error gets the user's line that called."""
    return boundary(function, _tell_caller)


def _tell_caller(error: Exception) -> None:
    if isinstance(error, KernelError):
        located(error, sys._getframe(2))


def located(error: KernelError, frame: FrameType | None) -> KernelError:
    """The error with the caller's line at the end of its chain of places."""
    while frame is not None and not is_users(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None:
        return error
    positions = list(frame.f_code.co_positions())[frame.f_lasti // 2]
    line, end_line, column, end_column = (p or 0 for p in positions)
    here = Loc(frame.f_code.co_filename, line or frame.f_lineno, column, end_line, end_column, frame.f_code.co_name)
    error.loc = here if error.loc is None else _append(error.loc, here)
    return error


def _append(loc: Loc, last: Loc) -> Loc:
    outer = last if loc.inlined_at is None else _append(loc.inlined_at, last)
    return dataclasses.replace(loc, inlined_at=outer)


def caller(depth: int = 1) -> types.FrameType:
    """The frame that called the function that asks (`depth` frames above it), boundaries apart."""
    frame = sys._getframe(1)
    while depth:
        assert frame.f_back is not None
        frame = frame.f_back
        depth -= frame.f_code.co_filename != __file__
    return frame


def is_users(file: str) -> bool:
    """Return whether the code of a file is the user's, neither ours nor JAX's."""
    return not file.startswith(_hidden())


def _frame_of_user() -> types.FrameType:
    frame = sys._getframe(1)
    while frame.f_back is not None and not is_users(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def line_of_user() -> str:
    """Return the file and the number of the user's line that is running."""
    frame = _frame_of_user()
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


def warn(text: str, category: type[Warning] = UserWarning) -> None:
    """A warning at the user's line."""
    frame = _frame_of_user()
    warnings.warn_explicit(text, category, frame.f_code.co_filename, frame.f_lineno)


class _State:
    shows_all = False
    of_jax = "auto"  # JAX's switch, before ours was turned on


def show_all(wanted: bool) -> None:
    """Leaves tracebacks as they are, those that JAX would filter too; or filters them again."""
    import jax

    if wanted and not _State.shows_all:
        _State.of_jax = _switch()
    if wanted != _State.shows_all:
        jax.config.update("jax_traceback_filtering", "off" if wanted else _State.of_jax)
    _State.shows_all = wanted


def _switch() -> str:
    import jax

    settings: Any = jax.config
    return settings.jax_traceback_filtering


@functools.cache
def _hidden() -> tuple[str, ...]:
    import jax
    import jaxlib

    return (PACKAGE, *(os.path.dirname(module.__file__ or "") + os.sep for module in (jax, jaxlib)), *_BETWEEN)


def _is_fault(error: BaseException) -> bool:
    """Return whether an error is our fault: a built-in error raised by our code, except for a wrong call of it."""
    if type(error).__module__ != "builtins":
        return isinstance(error, InternalError)
    last = error.__traceback__
    while last is not None and last.tb_next is not None:
        last = last.tb_next
    file = "" if last is None else last.tb_frame.f_code.co_filename
    return file.startswith(PACKAGE) and file not in _HANDS_ON


def _users(traceback: types.TracebackType | None) -> types.TracebackType | None:
    """The user's frames of a traceback."""
    frames: list[types.TracebackType] = []
    while traceback is not None:
        if is_users(traceback.tb_frame.f_code.co_filename):
            frames.append(traceback)
        traceback = traceback.tb_next
    kept = None
    for frame in reversed(frames):
        kept = types.TracebackType(kept, frame.tb_frame, frame.tb_lasti, frame.tb_lineno)
    return kept


def _is_of_jax(error: BaseException) -> bool:
    return type(error).__module__.partition(".")[0] in ("jax", "jaxlib")
