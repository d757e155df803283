"""Settings of the whole process: assign to them, `jaxwarp.config.max_unroll = 8`. docs/config.md lists them.

A setting is a row of `SETTINGS`; a name without one, and a value that its row does not accept, are errors. Warp's other
settings are rows of `OF_WARP`: programs written for Warp assign to them. One that asks for what does not happen warns.
`ENVIRONMENT` has the environment variables.
"""

from __future__ import annotations

import difflib
import enum
import os
import sys
import types
from collections.abc import Callable, Collection
from typing import Any, Literal, NamedTuple

from jaxwarp.boundary import boundary, raise_for_user, show_all, warn
from jaxwarp.errors import KernelNameError, KernelTypeError, KernelValueError


class Setting(NamedTuple):
    """A setting.

    Attributes:
        default: its value at the start.
        accepts: its values: types, a range, `Several` names, or the values themselves.
        doc: what it does.
        apply: called with a value that is assigned.
        is_idle: whether a value other than the default asks for what does not happen. Assigning it warns.
    """

    default: Any
    accepts: tuple[Any, ...]
    doc: str = ""
    apply: Callable[[Any], None] | None = None
    is_idle: bool = False

    def does_accept(self, value: object) -> bool:
        """Return whether the setting may have this value. True is not a number, and 1 is not True."""
        return any(_fits(value, accepted) for accepted in self.accepts)

    @property
    def expected(self) -> str:
        """The accepted values, as messages and the documentation describe them."""
        return " or ".join(map(_text, self.accepts))


class _Named(enum.IntEnum):
    """An enumeration whose values show as programs write them."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}.{self.name}"


class LaunchArrayAccessMode(_Named):
    """Values of Warp's `launch_array_access_mode`, without effect: arrays outside of JAX are on the CPU."""

    RELAXED = 0
    CHECKED = 1
    STRICT = 2


class DeterministicMode(_Named):
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

# Of the log: Warp's LOG_DEBUG, and its default, LOG_INFO.
_LOGGED, _QUIET = 10, 20

ENVIRONMENT = {
    "JAXWARP_MODE": "The default of the setting `mode`: `release` or `debug`.",
    "JAXWARP_LOG": "`compile` logs compilations on standard error, as `log_level = 10` does.",
    "JAXWARP_CACHE_DIR": "The folder of the code cache. Empty: no cache. Default: `~/.cache/jaxwarp`.",
    "JAXWARP_CACHE_MB": "The size that the code cache is pruned to, in MiB. Default: 512.",
    "JAXWARP_CUDA_ARCHS": 'Architectures that programs for other machines are compiled for: `"80,90"`.',
    "JAXWARP_CPU_WIDTH": "How many threads a CPU vector holds, instead of jaxwarp's own choice: 1 to 64.",
    "JAXWARP_LIBRARY": "The path of the native library, instead of the one in the package.",
    "XDG_CACHE_HOME": "The parent of the code cache's default folder, instead of `~/.cache`.",
    "PJRT_NPROC": "How many threads XLA uses on the CPU. jaxwarp's launches use as many.",
    "NVDISASM": "The path of `nvdisasm`, for `jaxwarp show --target sass`.",
}

SETTINGS = {
    "mode": Setting(
        os.environ.get("JAXWARP_MODE", "release"),
        ("release", "debug"),
        "`'debug'` [checks launches](debugging.md) while they run.",
    ),
    "checks": Setting(CHECKS, (Several((*CHECKS, *_MORE_CHECKS)),), "What debug mode looks for."),
    "max_steps": Setting(
        10_000_000,
        (range(1, 2**62),),
        "In debug mode with the check `steps`: a loop with more iterations in one thread fails.",
    ),
    "max_unroll": Setting(
        16,
        (range(_MANY),),
        'Unrolls loops of up to this many constant iterations. Per kernel: `module_options={"max_unroll": n}`.',
    ),
    "progress": Setting(
        None,
        (bool, None),
        "Reports compilations of over two seconds on standard error. None: if that is a terminal.",
    ),
    "log_level": Setting(
        _LOGGED if os.environ.get("JAXWARP_LOG") else _QUIET,
        (int,),
        "10 (`LOG_DEBUG`) or less logs each compilation on standard error.",
    ),
    "verbose": Setting(
        False,
        (bool,),
        "Keeps the frames of jaxwarp and JAX in tracebacks. Also sets JAX's `jax_traceback_filtering`.",
        show_all,
    ),
    "kernel_cache_dir": Setting(
        None, (str, None), "The folder of the code cache. None: `JAXWARP_CACHE_DIR`, or `~/.cache/jaxwarp`."
    ),
    "cache_kernels": Setting(True, (bool,), "False: code is neither read from the code cache nor written to it."),
    "optimization_level": Setting(
        None, (range(4), None), "How much NVRTC optimises. None: 3. Per kernel: `@kernel(optimization_level=n)`."
    ),
    "default_grid_stride": Setting(
        True, (bool,), "CUDA threads loop when a launch exceeds the grid. Per kernel: `@kernel(grid_stride=...)`."
    ),
    "lineinfo": Setting(False, (bool,), "CUDA code has line numbers, for NVIDIA's profilers."),
}

_PLAIN = "Code for the CPU is made with LLVM in the process."
_MATHDX = "Tiles do not use cuBLASDx and its relatives."
_ORDER = "The order of float atomics is not fixed."

OF_WARP = {
    "compile_time_trace": Setting(False, (bool,), "`JAXWARP_LOG=compile` has the times.", is_idle=True),
    "cpu_compiler_flags": Setting(None, (str, None), _PLAIN, is_idle=True),
    "cuda_arch_suffix": Setting(None, (None, "a", "f"), "Code is for the plain architecture.", is_idle=True),
    "cuda_output": Setting(None, (None, "ptx", "cubin"), "Programs have machine code for the GPUs they run on."),
    "deterministic": Setting(DeterministicMode.NOT_GUARANTEED, (DeterministicMode.NOT_GUARANTEED, range(1)), _ORDER),
    "deterministic_debug": Setting(False, (bool,), _ORDER, is_idle=True),
    "deterministic_max_records": Setting(0, (range(_MANY),), _ORDER, is_idle=True),
    "enable_backward": Setting(True, (bool,), "Derivatives are compiled when a program asks for them."),
    "enable_cpu_blocks": Setting(False, (bool,), "A block on the CPU is one thread.", is_idle=True),
    "enable_graph_capture_module_load_by_default": Setting(True, (bool,), "No modules are loaded."),
    "enable_mathdx_fft": Setting(True, (bool,), _MATHDX),
    "enable_mathdx_gemm": Setting(True, (bool,), _MATHDX),
    "enable_mathdx_solver": Setting(True, (bool,), _MATHDX),
    "enable_mempools_at_init": Setting(True, (bool,), "Memory on GPUs is JAX's, or from the driver's pool."),
    "enable_tiles_in_stack_memory": Setting(True, (bool, None), "The compiler decides where tiles are."),
    "enable_vector_component_overwrites": Setting(False, (bool,), "Components can always be assigned."),
    "launch_array_access_mode": Setting(LaunchArrayAccessMode.RELAXED, (int,), "Arrays of another device are refused."),
    "legacy_cpu_linker": Setting(False, (bool,), _PLAIN),
    "legacy_scalar_return_types": Setting(False, (bool,), "Results have Warp's newer types.", is_idle=True),
    "line_directives": Setting(True, (bool,), "`lineinfo` adds line numbers."),
    "llvm_cuda": Setting(False, (bool,), "CUDA code is compiled by NVRTC.", is_idle=True),
    "load_module_max_workers": Setting(0, (range(_MANY), None), "No modules are loaded."),
    "print_launches": Setting(False, (bool,), "`jax.profiler.trace` shows launches.", is_idle=True),
    "ptx_target_arch": Setting(
        None, (range(_MANY), None), "The environment variable `JAXWARP_CUDA_ARCHS` chooses.", is_idle=True
    ),
    "quiet": Setting(False, (bool,), "jaxwarp prints nothing at its start."),
    "track_memory": Setting(False, (bool,), "`jax.profiler.device_memory_profile` shows memory.", is_idle=True),
    "use_precompiled_headers": Setting(True, (bool,), "There are no headers."),
    "verbose_warnings": Setting(False, (bool,), "Warnings always have the line of the program."),
    "verify_autograd_array_access": Setting(False, (bool,), "`wp.Tape` always checks overwritten arrays."),
    "verify_cuda": Setting(False, (bool,), "Errors of the CUDA driver are always raised."),
    "verify_fp": Setting(False, (bool,), 'Debug mode finds NaN: `config.mode = "debug"`.', is_idle=True),
}

mode: Literal["release", "debug"]
checks: Collection[str]
max_steps: int
max_unroll: int
progress: bool | None
log_level: int
verbose: bool
kernel_cache_dir: str | None
cache_kernels: bool
optimization_level: int | None
default_grid_stride: bool
lineinfo: bool


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
            setting = require(name, value)
            if setting.apply is not None:
                setting.apply(value)
            if setting.is_idle and value != setting.default:
                warn(f"config.{name} = {value!r} has no effect. {setting.doc.replace('`', '')}")
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
if os.environ.get("JAXWARP_LOG", "") not in ("", "compile"):
    raise KernelValueError(
        f"JAXWARP_LOG: expected 'compile', got {os.environ['JAXWARP_LOG']!r}", hint="leave it out to log nothing"
    )
for _listener in _listeners:
    _listener()
