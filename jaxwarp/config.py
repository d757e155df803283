"""Settings of the whole process: assign to them, `jaxwarp.config.max_unroll = 8`. docs/config.md lists them.

A setting is a row of `SETTINGS`; a name without one, and a value that its row does not accept, are errors. Warp's other
settings are rows of `OF_WARP`: programs written for Warp assign to them, and nothing happens.
"""

from __future__ import annotations

import difflib
import enum
import os
import sys
import types
from collections.abc import Callable, Collection
from typing import Any, Literal, NamedTuple

from jaxwarp.boundary import boundary, raise_for_user, show_all
from jaxwarp.errors import KernelNameError, KernelTypeError, KernelValueError


class Setting(NamedTuple):
    """A setting.

    Attributes:
        default: its value at the start.
        accepts: its values: types, a range, `Several` names, or the values themselves.
        doc: what it does.
        apply: called with a value that is assigned.
    """

    default: Any
    accepts: tuple[Any, ...]
    doc: str = ""
    apply: Callable[[Any], None] | None = None

    def does_accept(self, value: object) -> bool:
        """Return whether the setting may have this value. True is not a number, and 1 is not True."""
        return any(_fits(value, accepted) for accepted in self.accepts)

    @property
    def expected(self) -> str:
        """The accepted values, as messages and the documentation describe them."""
        return " or ".join(map(_text, self.accepts))


class LaunchArrayAccessMode(enum.IntEnum):
    """Values of Warp's `launch_array_access_mode`, without effect: arrays outside of JAX are on the CPU."""

    RELAXED = 0
    CHECKED = 1
    STRICT = 2


class DeterministicMode(enum.IntEnum):
    """Values of Warp's `deterministic`. Only the first is accepted: the order of sums by float atomics is not fixed."""

    NOT_GUARANTEED = 0
    RUN_TO_RUN = 1
    GPU_TO_GPU = 2


class Several(NamedTuple):
    """The values of a setting that is a collection of some of these names."""

    names: tuple[str, ...]


def _fits(value: object, accepted: object) -> bool:
    if isinstance(accepted, Several):
        return isinstance(value, _COLLECTIONS) and all(isinstance(n, str) and n in accepted.names for n in value)
    if isinstance(accepted, type):
        return isinstance(value, accepted) and (accepted is bool or not isinstance(value, bool))
    if isinstance(accepted, range):
        return isinstance(value, int) and not isinstance(value, bool) and value in accepted
    return type(value) is type(accepted) and value == accepted


def _text(accepted: Any) -> str:
    if isinstance(accepted, Several):
        return f"a tuple of some of {', '.join(map(repr, accepted.names))}"
    if isinstance(accepted, type):
        return {bool: "True or False", int: "an integer", str: "a string"}[accepted]
    if not isinstance(accepted, range):
        return repr(accepted)
    if len(accepted) == 1:
        return str(accepted[0])
    return f"an integer from {accepted.start}" + (f" to {accepted[-1]}" if accepted.stop < _MANY else "")


def _type(accepted: Any) -> type:
    if isinstance(accepted, Several):
        return tuple
    return accepted if isinstance(accepted, type) else int if isinstance(accepted, range) else type(accepted)


_MANY = 2**31
_COLLECTIONS = (tuple, list, set, frozenset)

# What debug mode looks for, unless `checks` says otherwise; and what else it may look for.
CHECKS = ("bounds", "races", "nan", "integers", "steps")
_MORE_CHECKS = ("equal_stores",)

SETTINGS = {
    "mode": Setting(
        os.environ.get("JAXWARP_MODE", "release"),
        ("release", "debug"),
        "`'debug'`: launches are checked while they run, see [debugging](debugging.md). The environment variable"
        " `JAXWARP_MODE` sets the default.",
    ),
    "checks": Setting(CHECKS, (Several((*CHECKS, *_MORE_CHECKS)),), "What debug mode looks for."),
    "max_steps": Setting(
        10_000_000,
        (range(1, 2**62),),
        "With the check `steps`: a loop of more iterations, in one thread, is a failure and is given up.",
    ),
    "max_unroll": Setting(
        16,
        (range(_MANY),),
        "Loops of at most so many iterations, known when a kernel is lowered, are unrolled. Per kernel:"
        ' `@kernel(module_options={"max_unroll": n})`.',
    ),
    "progress": Setting(
        None,
        (bool, None),
        "Compiling that takes longer than two seconds says so on standard error. None: if that is a terminal.",
    ),
    "verbose": Setting(
        False,
        (bool,),
        "Tracebacks of errors have the frames of jaxwarp and of JAX (it sets JAX's `jax_traceback_filtering`), not only"
        " the user's.",
        show_all,
    ),
}

OF_WARP = {
    "cache_kernels": Setting(True, (bool,)),
    "compile_time_trace": Setting(False, (bool,)),
    "cpu_compiler_flags": Setting(None, (str, None)),
    "cuda_arch_suffix": Setting(None, (None, "a", "f")),
    "cuda_output": Setting(None, (None, "ptx", "cubin")),
    "default_grid_stride": Setting(True, (bool,)),
    "deterministic": Setting(0, (range(1),)),
    "deterministic_debug": Setting(False, (bool,)),
    "deterministic_max_records": Setting(0, (range(_MANY),)),
    "enable_backward": Setting(True, (bool,)),
    "enable_cpu_blocks": Setting(False, (bool,)),
    "enable_graph_capture_module_load_by_default": Setting(True, (bool,)),
    "enable_mathdx_fft": Setting(True, (bool,)),
    "enable_mathdx_gemm": Setting(True, (bool,)),
    "enable_mathdx_solver": Setting(True, (bool,)),
    "enable_mempools_at_init": Setting(True, (bool,)),
    "enable_tiles_in_stack_memory": Setting(True, (bool, None)),
    "enable_vector_component_overwrites": Setting(False, (bool,)),
    "kernel_cache_dir": Setting(None, (str, None)),
    "launch_array_access_mode": Setting(0, (int,)),
    "legacy_cpu_linker": Setting(False, (bool,)),
    "legacy_scalar_return_types": Setting(False, (bool,)),
    "line_directives": Setting(True, (bool,)),
    "lineinfo": Setting(False, (bool,)),
    "llvm_cuda": Setting(False, (bool,)),
    "load_module_max_workers": Setting(0, (range(_MANY), None)),
    "log_level": Setting(20, (int,)),
    "optimization_level": Setting(None, (range(4), None)),
    "print_launches": Setting(False, (bool,)),
    "ptx_target_arch": Setting(None, (range(_MANY), None)),
    "quiet": Setting(False, (bool,)),
    "track_memory": Setting(False, (bool,)),
    "use_precompiled_headers": Setting(True, (bool,)),
    "verbose_warnings": Setting(False, (bool,)),
    "verify_autograd_array_access": Setting(False, (bool,)),
    "verify_cuda": Setting(False, (bool,)),
    "verify_fp": Setting(False, (bool,)),
}

mode: Literal["release", "debug"]
checks: Collection[str]
max_steps: int
max_unroll: int
progress: bool | None
verbose: bool


def require(name: str, value: object) -> Setting:
    """The setting of this name, which may have this value.

    Raises:
        KernelNameError: there is no such setting.
        KernelTypeError, KernelValueError: it does not accept the value.
    """
    setting = SETTINGS.get(name) or OF_WARP.get(name)
    if setting is None:
        raise KernelNameError(_unknown(name), hint=_near(name))
    if not setting.does_accept(value):
        is_value = type(value) in map(_type, setting.accepts)
        error = KernelValueError if is_value else KernelTypeError
        near = difflib.get_close_matches(str(value), [a for a in setting.accepts if isinstance(a, str)], n=1)
        hint = f"did you mean {near[0]!r}?" if near else f"the default is jaxwarp.config.{name} = {setting.default!r}"
        raise error(f"config.{name}: expected {setting.expected}, got {value!r}", hint=hint)
    return setting


def _unknown(name: str) -> str:
    return f"config has no setting {name!r}"


def _near(name: str) -> str:
    if name == "version":
        return "the version is jaxwarp.__version__"
    names = [*SETTINGS, *OF_WARP]
    near = difflib.get_close_matches(name, names, n=3) or [n for n in names if name and name in n][:3]
    return f"did you mean {' or '.join(near)}?" if near else f"the settings are {', '.join(SETTINGS)}, and Warp's"


@boundary
def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise_for_user(AttributeError(name))
    raise_for_user(AttributeError(f"{_unknown(name)}; {_near(name)}"))


class _Settings(types.ModuleType):
    """The module itself, which checks what is assigned to it."""

    @boundary
    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("__"):  # those are Python's own, as importlib.reload sets them
            apply = require(name, value).apply
            if apply is not None:
                apply(value)
        super().__setattr__(name, value)
        for listener in _listeners:
            listener()

    @boundary
    def __delattr__(self, name: str) -> None:
        raise KernelNameError(f"config.{name}: settings cannot be deleted", hint="assign the default value")


# Called when a setting has changed. A module that is loaded again keeps them.
_listeners: list[Callable[[], None]] = globals().get("_listeners", [])


def when_changed(listener: Callable[[], None]) -> None:
    """Calls `listener` whenever a setting has changed, and now."""
    _listeners.append(listener)
    listener()


globals().update({name: setting.default for name, setting in (SETTINGS | OF_WARP).items()})
sys.modules[__name__].__class__ = _Settings
require("mode", SETTINGS["mode"].default)
for _listener in _listeners:
    _listener()
