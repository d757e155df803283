"""A kernel as CUDA C++ text, in the form that docs/design/0002-launch-abi.md names."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from jaxwarp.analysis.own_bytes import require_own_bytes
from jaxwarp.builtins.scalar_ops import cuda_template
from jaxwarp.codegen.abi import NO_CUDA_OPTIONS, CudaOptions, Geometry
from jaxwarp.codegen.cuda.blocks.loop import BlockLoop
from jaxwarp.codegen.cuda.blocks.plan import plan_block
from jaxwarp.codegen.cuda.blocks.staged import StagedPrinter
from jaxwarp.codegen.cuda.control import ControlPrinter
from jaxwarp.codegen.cuda.expression import Expr
from jaxwarp.codegen.cuda.functions import Functions
from jaxwarp.codegen.cuda.layout import Grid, ParameterLayout
from jaxwarp.codegen.cuda.loops import ANY_NUMBER, GridLoop, loop_for
from jaxwarp.codegen.cuda.names import Names, symbol
from jaxwarp.codegen.cuda.prelude import PRELUDE, prelude_for
from jaxwarp.codegen.cuda.statements import TextLine
from jaxwarp.codegen.cuda.sums.reductions import ReductionPlan, plan_reductions
from jaxwarp.deep import with_deep_stack
from jaxwarp.errors import KernelValueError, Loc
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Call, Tid, walk
from jaxwarp.ir.rows import count_uses

_LINE_LENGTH = 120
LOCAL_BYTES = 512 * 1024  # of a thread's local memory, on every GPU

# How often a range runs, without overflow; 0 for a step of 0.
_RANGE_COUNT = """
template <class U, class T> __device__ __forceinline__ U trips(T start, T stop, T step) {
    if (step > 0 && start < stop) return ((U)stop - (U)start - 1) / (U)step + 1;
    if (step < 0 && start > stop) return ((U)start - (U)stop - 1) / (0 - (U)step) + 1;
    return 0;
}
#define RANGE_COUNT(U, T) \\
    __device__ __forceinline__ U range_count(T start, T stop, T step) { return trips<U>(start, stop, step); }
RANGE_COUNT(unsigned int, int)
RANGE_COUNT(unsigned int, unsigned int)
RANGE_COUNT(unsigned long long, long long)
RANGE_COUNT(unsigned long long, unsigned long long)
#undef RANGE_COUNT
"""


@dataclass(frozen=True, eq=False)
class CudaCode:
    """The text of a kernel and how to call it.

    Attributes:
        symbol: the function in the text.
        source: CUDA C++ without includes.
        geometry: the integers it takes after the pointers, as in 0002; the number of threads follows them.
        index_bits: the width of these.
        options: what it was made for.
        lines: for each line of the source, the user's line it comes from.
        most_blocks: a launch of more threads than so many blocks hold has them go round.
        kernel: what the text says.
        grid: the launch that it is for, if it is known; not always the one that was asked for.
        takes_any_block: whether blocks may be smaller than those it is made for.
        threads: of CUDA for each thread of the launch; more than one are a block, see docs/design/0074.
        shared_bytes: the dynamic shared memory of a block.
    """

    symbol: str
    source: str
    geometry: Geometry
    index_bits: int
    options: CudaOptions
    lines: tuple[Loc | None, ...]
    most_blocks: int = ANY_NUMBER
    kernel: Kernel | None = None
    grid: tuple[int, ...] = ()
    takes_any_block: bool = False
    threads: int = 1
    shared_bytes: int = 0


@with_deep_stack
def print_cuda(
    kernel: Kernel,
    index_bits: int = 32,
    options: CudaOptions = NO_CUDA_OPTIONS,
    comments: bool = False,
    grid: Grid | None = None,
    is_aligned: bool = False,
) -> CudaCode:
    """The CUDA C++ text of a kernel that `passes.pipeline.prepare` has been over.

    Args:
        kernel: what to print.
        index_bits: 32 where every array has fewer than 2**31 elements and the launch fewer threads, else 64.
        options: the block it will be launched with, and what else decides about the text.
        comments: with the user's lines as comments.
        grid: extents of the launch that are known.
        is_aligned: whether every array begins at a multiple of 16 bytes.

    Raises:
        KernelValueError: `index_bits` cannot be, or the arrays of a thread's own are too large.
    """
    if index_bits not in (32, 64):
        raise KernelValueError(f"index_bits must be 32 or 64, got {index_bits}")
    require_own_bytes(kernel, LOCAL_BYTES)
    name = symbol(kernel.name)
    functions = Functions(kernel, options.fast_math)
    names = Names({name, "trips", "range_count", *PRELUDE, *functions.names, *_called(kernel)})
    block = plan_block(kernel, options.shared_bytes)
    kernel = block.kernel if block else kernel
    plan = ReductionPlan() if block else plan_reductions(kernel, count_uses(kernel), grid or ())
    is_once = not options.grid_stride and plan.is_empty and not block
    layout = ParameterLayout(kernel, names, index_bits, plan.shared, grid, is_aligned and not block, is_once)
    if block:
        options = replace(options, block=block.threads, bounds=())
        loop: GridLoop = BlockLoop(layout, block.threads)
        printer: ControlPrinter = StagedPrinter(kernel, names, layout, block, functions, comments)
    else:
        printer = ControlPrinter(kernel, names, layout, plan, functions, comments)
        loop = loop_for(kernel, plan, layout, printer.reductions, options.block, is_once)
    before = [*(TextLine(1, text, None) for text in (*layout.hoisted, *printer.reductions.before())), *loop.before()]
    _print_thread(printer, kernel, loop)
    after = [*loop.after(), *(TextLine(1, text, None) for text in printer.reductions.after())]
    body = [*before, *printer.lines, *after]
    head = _signature(name, layout.signature(), block.bounds if block else options.bounds or (options.block,))
    lines = [*(TextLine(0, text, None) for text in head), *body, TextLine(0, "}", None)]
    text = "\n".join("    " * line.depth + line.text for line in lines) + "\n"
    helpers = _helpers(text, functions.text(), printer.atomics.text())
    count = helpers.count("\n")
    return CudaCode(
        name,
        helpers + text,
        layout.geometry,
        index_bits,
        options,
        (None,) * count + tuple(line.loc for line in lines),
        loop.most_blocks or (ANY_NUMBER if plan.is_empty else plan.most_blocks),
        kernel,
        tuple(n for n in grid or () if n is not None) if None not in (grid or ()) else (),
        plan.is_empty and not block,
        block.threads if block else 1,
        block.dynamic_bytes if block else 0,
    )


def _print_thread(printer: ControlPrinter, kernel: Kernel, loop: GridLoop) -> None:
    """The body of the loop over threads."""
    printer.depth = loop.depth
    indices: dict[int, str] = {}
    for op in walk(kernel.body):
        if isinstance(op, Tid) and printer.uses[op.result]:
            if op.axis not in indices:
                name = printer.locals.names.fresh(op.result.name or f"tid{op.axis}")
                indices[op.axis] = name
                printer.line(f"int {name} = {loop.index(op.axis).text};")
            printer.exprs[op.result] = Expr(indices[op.axis])
    at = len(printer.lines)
    printer.block(kernel.body, ())
    printer.lines[at:at] = [TextLine(printer.depth, text, None) for text in printer.arrays()]


def _called(kernel: Kernel) -> set[str]:
    """Identifiers in the texts of the builtins used: no local may hide them."""
    calls = [op for op in walk(kernel.body) if isinstance(op, Call)]
    texts = {cuda_template(c.builtin, c.result.type, [a.type for a in c.args]) for c in calls}
    return set(re.findall(r"[A-Za-z_]\w*", " ".join(texts))) - {"type"}


def _helpers(text: str, functions: str, atomics: str) -> str:
    parts = [prelude_for(text + functions + atomics), functions]
    if "range_count(" in text:
        parts.append(_RANGE_COUNT.lstrip())
    parts.append(atomics)
    return "".join(part + "\n" for part in parts if part)


def _signature(name: str, parameters: str, bounds: tuple[int, ...]) -> list[str]:
    first = f'extern "C" __global__ void __launch_bounds__({", ".join(map(str, bounds))})'
    line = f"{name}({parameters})"
    if len(line) <= _LINE_LENGTH:
        return [first, line, "{"]
    listed = parameters.split(", ")
    return [first, f"{name}(", *(f"    {p}," for p in listed[:-1]), f"    {listed[-1]})", "{"]
