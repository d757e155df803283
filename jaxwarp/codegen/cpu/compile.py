"""The CPU compiler: from a kernel to bitcode, and from bitcode to a function of this process.

Lowering a program makes bitcode, which is tied to no machine. Loading the program makes machine code for the CPU that
it runs on, and keeps that on disk; see docs/design/0002-launch-abi.md.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import itertools
import logging
import os
import sys
import threading
from collections import deque
from dataclasses import dataclass

import llvmlite
import llvmlite.binding as llvm

from jaxwarp.analysis.own_bytes import require_own_bytes
from jaxwarp.analysis.succession import Succession
from jaxwarp.codegen import cache
from jaxwarp.codegen.abi import Cut, Geometry
from jaxwarp.codegen.cpu.access.gather import HELPER_PREFIX
from jaxwarp.codegen.cpu.control.function import emit_function
from jaxwarp.codegen.cpu.llvm.loops import LOOP_HEADERS
from jaxwarp.codegen.cpu.plan.cost import choose_cut
from jaxwarp.codegen.cpu.plan.plan import Plan
from jaxwarp.codegen.cpu.plan.target import Machine, host
from jaxwarp.codegen.cpu.plan.tasks import find_tasks
from jaxwarp.codegen.cpu.plan.width import OWN_BYTES, WIDTH_VARIABLE, choose_width
from jaxwarp.codegen.progress import CodeOrigin, logged, told
from jaxwarp.codegen.provided import PROVIDED
from jaxwarp.deep import with_deep_stack
from jaxwarp.errors import CompileError, InternalError
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic
from jaxwarp.passes.pipeline import held_wide

logger = logging.getLogger(__name__)

# Raise it when machine code made from equal bitcode would differ.
_PIPELINE = "5"
# Of the code generator. Operations are simplified, shared and moved already, see passes/, so that what is left to do is
# done by LLVM's first level: measured, no kernel runs faster for the second one, which takes twice as long (and half as
# long again for passes over modules), and some run slower for how it mixes their loads and arithmetic.
_OPTIMISATION = 2
_SIMPLIFICATION = 1
# From this many bytes of bitcode on (some 15,000 instructions) the code generator does not optimise. It looks at all
# uses of a value in a block for each of them: that takes 18 of 28 s for 41,000 instructions, without it 3 of 15. Code
# of this length then takes up to 1.2 times as long to run.
_LARGE = 1 << 18

# LLVM looks at all loops of the function for each change to one of them. For code of more loops than this, the passes
# over loops are left out. A loop takes this much bitcode, at least.
_MANY_LOOPS = 128

# Blocks that begin loops of the kernel's own: what such code computes anew in each iteration LLVM has to move out. The
# rest needs no more than its operations simplified, once, which takes a third of the time: measured, that code is as
# fast. What does not change in the rows and columns of a launch is moved already, see hoisting.py.
_LOOPED = LOOP_HEADERS

# The functions of the C library that code may call: those of builtins, and those LLVM may make of their intrinsics.
# fmt: off
_LIBM = (
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "copysign", "cos", "cosh", "erf",
    "erfc", "exp", "exp10", "exp2", "expm1", "fabs", "floor", "fma", "fmax", "fmin", "fmod", "frexp", "ldexp", "lgamma",
    "log", "log10", "log1p", "log2", "modf", "nearbyint", "pow", "remainder", "rint", "round", "roundeven", "sin",
    "sinh", "sqrt", "tan", "tanh", "tgamma", "trunc",
)
# fmt: on
_MEMORY = ("memcpy", "memmove", "memset", "aligned_alloc", "free", "abort")


# Threads of a pool, more than there are.
NEVER_SPLIT = 1 << 30


@dataclass(frozen=True)
class CpuCode:
    """A kernel for the CPU, see docs/design/0002-launch-abi.md.

    Attributes:
        symbol: the function's name.
        text: its LLVM text.
        bitcode: the payload of the code image.
        geometry: the run-time integers it gets.
        width: lanes.
        cut: how launches may be cut.
        contended: atomics that only a call does without that runs the whole launch, or has copies of their arrays.
        summed: those of them that every call does without where their array has few elements.
    """

    symbol: str
    text: str
    bitcode: bytes
    geometry: Geometry
    width: int
    cut: Cut
    contended: frozenset[Atomic]
    summed: frozenset[Atomic]


@with_deep_stack
def compile_cpu(
    kernel: Kernel,
    width: int | None = None,
    machine: Machine | None = None,
    *,
    succession: Succession | None = None,
) -> CpuCode:
    """Code for a kernel that `passes.pipeline.prepare` has prepared.

    Args:
        kernel: the kernel.
        width: threads per vector, a power of two up to 64; 1 gives scalar code that LLVM does not optimise, to debug
            and to compare with. By default what suits the kernel and the machine.
        machine: what to shape the code for, by default this machine. It runs on every other, more slowly perhaps.
        succession: how threads follow each other; None: in any order, at the same time.

    Raises:
        KernelValueError: the arrays of a thread's own are too large for a stack.
    """
    machine = machine or host()
    tasks = find_tasks(kernel, machine) if width is None and succession is None else {}
    if tasks and any(p.dtype.is_half for p in kernel.locals):
        kernel = held_wide(kernel)
        tasks = find_tasks(kernel, machine)
    lanes = 1 if tasks else choose_width(kernel, machine) if width is None else width
    require_own_bytes(kernel, OWN_BYTES // lanes)
    code = emit_function(kernel, lanes, machine, succession, tasks)
    bitcode = _assemble(code.text, kernel.name)
    cut, contended, summed = _cut(kernel, code.plan, succession)
    return CpuCode(code.symbol, code.text, bitcode, code.geometry, lanes, cut, contended, summed)


def _cut(
    kernel: Kernel, plan: Plan, succession: Succession | None
) -> tuple[Cut, frozenset[Atomic], frozenset[Atomic]]:
    """Return the ways in which launches may be cut, and the atomics that decide about it, see `CpuCode`."""
    rows = 1 if plan.coarse is None else plan.coarse.rows
    exclusive = None if succession is not None else plan.exclusive
    if exclusive is None:
        unsplit, pieces = choose_cut(kernel, (), (), False)
        is_apart = succession is None or succession.apart is not None
        return Cut(unsplit if is_apart else NEVER_SPLIT, pieces, rows), frozenset(), frozenset()
    unsplit, pieces = choose_cut(kernel, exclusive.contended, exclusive.summed, exclusive.is_divided)
    copied = tuple(i for i, param in enumerate(kernel.params) if param in exclusive.copied)
    return Cut(unsplit, pieces, rows, copied), exclusive.contended, exclusive.summed


def _assemble(text: str, name: str) -> bytes:
    try:
        with llvm.create_context() as context, llvm.parse_assembly(text, context) as module:
            module.verify()
            return module.as_bitcode()
    except RuntimeError as error:
        raise InternalError(f"kernel {name}: LLVM does not accept the code made for it: {error}") from error


def compile_object(payload: bytes, machine: Machine, assembly: bool = False) -> bytes:
    """Machine code of bitcode, as a relocatable object file or (to read) as text.

    Raises:
        CompileError: the payload is no bitcode that this LLVM can read.
    """
    with contextlib.ExitStack() as owned:
        context = owned.enter_context(llvm.create_context())
        try:
            module = owned.enter_context(llvm.parse_bitcode(payload, context))
        except RuntimeError as error:
            raise CompileError(f"the CPU code of a kernel cannot be read by LLVM {_llvm_version()}: {error}") from None
        generator = owned.enter_context(machine.target_machine(_OPTIMISATION if len(payload) < _LARGE else 0))
        module.triple = machine.triple
        module.data_layout = str(generator.target_data)
        options = owned.enter_context(llvm.create_pipeline_tuning_options(speed_level=_SIMPLIFICATION))
        # Lanes are vectorised already. The vectorisers would only look for work.
        options.loop_vectorization = False
        options.slp_vectorization = False
        builder = owned.enter_context(llvm.create_pass_builder(generator, options))
        _place_helpers(module, machine, builder)
        passes = owned.enter_context(_passes(module, builder))
        for function in module.functions:
            if not function.is_declaration:
                passes.run(function, builder)
        if assembly:
            generator.set_asm_verbosity(True)  # for the names of blocks
        return generator.emit_assembly(module).encode() if assembly else generator.emit_object(module)


def _passes(module: llvm.ModuleRef, builder: llvm.PassBuilder) -> llvm.FunctionPassManager:
    names = [block.name for function in module.functions for block in function.blocks]
    loops = sum(name.startswith(LOOP_HEADERS) for name in names)
    if loops <= _MANY_LOOPS and any(name.startswith(_LOOPED) for name in names):
        passes = builder.getFunctionPassManager()
        passes.add_loop_unroll_pass()
        return passes
    passes = llvm.create_new_function_pass_manager()
    passes.add_simplify_cfg_pass()
    passes.add_sroa_pass()
    passes.add_instruction_combine_pass()
    passes.add_simplify_cfg_pass()
    passes.add_dead_code_elimination_pass()
    return passes


def _place_helpers(module: llvm.ModuleRef, machine: Machine, builder: llvm.PassBuilder) -> None:
    """Puts helpers where they are called if that takes no more code than the call."""
    helpers = [f for f in module.functions if f.name.startswith(HELPER_PREFIX)]
    if not helpers or not machine.has_gather:
        return
    for helper in helpers:
        helper.add_function_attribute("alwaysinline")
    with llvm.create_new_module_pass_manager() as inline:
        inline.add_always_inliner_pass()
        inline.add_global_dead_code_eliminate_pass()
        inline.run(module, builder)


def _llvm_version() -> str:
    return ".".join(str(n) for n in llvm.llvm_version_info)


def load_bitcode(payload: bytes, digest: str, symbol: str) -> int:
    """The address of a function of a CPU payload, in machine code for this CPU. Thread-safe.

    It stays loaded until `unload` is called with it.

    Args:
        payload: bitcode.
        digest: SHA-256 of it, hexadecimal.
        symbol: the function.

    Raises:
        CompileError: LLVM cannot read the payload, or it has no such function.
    """
    machine = host()
    name = cache.key("cpu", _PIPELINE, digest, llvmlite.__version__, _llvm_version(), *_identity(machine))
    with logged(f"{symbol} for the CPU") as origin:
        return _load(payload, symbol, name, origin)


def _load(payload: bytes, symbol: str, name: str, origin: CodeOrigin) -> int:
    """The address of a function of machine code from the cache, where it has the key `name`, or compiled now."""
    code = cache.get(name)
    if code is not None:
        try:
            address = _linker().link(code, symbol)
        except RuntimeError as error:
            logger.warning("machine code from the cache cannot be linked, compiling again: %s", error)
        else:
            origin.is_cached = True
            return address
    with told(f"compiling {symbol} for the CPU"):
        code = compile_object(payload, host())
    try:
        address = _linker().link(code, symbol)
    except RuntimeError as error:
        raise CompileError(f"the CPU code of a kernel cannot be linked: {error}") from None
    cache.put(name, code)
    return address


def bind_pointer(function: int, second: int) -> int:
    """The address of a function of one pointer that returns what `function` makes of that pointer and `second`.

    It stays loaded.
    """
    text = f"""
define ptr @bound(ptr %first) {{
  %made = tail call ptr inttoptr (i64 {function} to ptr)(ptr %first, ptr inttoptr (i64 {second} to ptr))
  ret ptr %made
}}
"""
    return _linker().link(compile_object(_assemble(text, "bound"), host()), "bound")


def unload(address: int) -> None:
    """Frees the code that `load_bitcode` gave this address of. Nobody may run it any more."""
    _linker().unload(address)


def put_down(address: int) -> None:
    """Unload code later, before other code is loaded. For finalizers, which run whoever holds whatever lock."""
    _unused.append(address)


_unused: deque[int] = deque()


def target_key() -> tuple[str, ...]:
    """Return what decides about the bitcode that this process makes of a kernel, besides the kernel and jaxwarp."""
    return repr(host()), os.environ.get(WIDTH_VARIABLE, ""), llvmlite.__version__, _llvm_version()


def _identity(machine: Machine) -> tuple[str, ...]:
    return machine.triple, machine.cpu, machine.features, str(_OPTIMISATION), str(_SIMPLIFICATION)


class _Linker:
    """Puts object files into this process."""

    def __init__(self) -> None:
        self._jit = llvm.create_lljit_compiler(host().target_machine(), use_jit_link=True)
        self._lock = threading.Lock()
        self._names = (f"kernel{n}" for n in itertools.count())
        self._loaded: dict[int, llvm.ResourceTracker] = {}  # as long as they live, so does the code

    def link(self, code: bytes, symbol: str) -> int:
        with self._lock:
            while _unused:
                self._loaded.pop(_unused.popleft())
            library = llvm.JITLibraryBuilder().add_object_img(code).export_symbol(symbol)
            # LLVM never forgets the names of a library. The object file ends each that it refers to by a zero.
            for name, address in (_library_functions() | PROVIDED).items():
                if name.encode() + b"\0" in code:
                    library.import_symbol(name, address)
            loaded = library.link(self._jit, next(self._names))
            address = loaded[symbol]
            self._loaded[address] = loaded
            return address

    def unload(self, address: int) -> None:
        with self._lock:
            del self._loaded[address]


_made_linker = functools.cache(_Linker)
_making = threading.RLock()


def _linker() -> _Linker:
    """The only one: code of a second one would be freed with it, while it runs."""
    with _making:  # `cache` makes one for each of the threads that ask first
        return _made_linker()


@functools.cache
def _library_functions() -> dict[str, int]:
    """Addresses of the C library's functions. The process itself need not have linked the mathematical ones."""
    process = ctypes.CDLL(None)
    # On macOS the C library, which every process has, contains them.
    mathematics = process if sys.platform == "darwin" else ctypes.CDLL("libm.so.6")
    names = [(mathematics, name + suffix) for name in _LIBM for suffix in ("", "f")]
    found = {}
    for library, name in [*names, *((process, name) for name in _MEMORY)]:
        if hasattr(library, name):
            found[name] = ctypes.cast(library[name], ctypes.c_void_p).value or 0
    return found
