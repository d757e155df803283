"""Random kernels: the interpreter, CPU code at two widths and CUDA text run on the host have one answer.

random     IR of every construct and type, whose results are fully determined
affine     sums over neighbours, rows, columns and components, as numerical programs have them
colliding  the same as `random` with arrays that threads store to at any place: the last one wins
language   programs in the kernel language on vectors, matrices, structs and numbers, which Python itself can run
numbers    programs on numbers of every type, with the arithmetic of docs/language.md

Compilers take most of the time, so that texts are compiled together. Of five such groups one has code as users get it;
the others are compiled with little optimisation, which takes half the time: what is tried is the code that compilers
are given. A third of the kernels are run in debug mode besides, and a third in batches; of programs a twelfth
is stepped through.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import affine_strategy
import colliding_strategy
import flow_programs
import hostcuda
import number_programs
import numpy as np
import programs
import test_properties as properties
from cpukit import SHAPES
from frontend import test_typed_programs as typed
from fuzz.campaign import Journal, Trial
from kernels_strategy import Case, Maker, Pick, RandomPick, same_values
from language import define, run_python
from typed_programs import VECTORS, Writer

import jaxwarp as wp
from jaxwarp.codegen.cpu import compile as cpu_compiler
from jaxwarp.codegen.cpu import compile_cpu, launch
from jaxwarp.codegen.cuda import CudaCode, print_cuda
from jaxwarp.ir.interpret import interpret
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.verify import verify
from jaxwarp.passes.checks.checked import Debug, checked
from jaxwarp.passes.checks.reports import first_row
from jaxwarp.passes.pipeline import on_cpu as passes_on_cpu
from jaxwarp.passes.pipeline import prepare

BUDGETS = (4, 6, 6, 8, 8, 10, 10, 14, 24)
WIDTHS = (1, 2, 4, 4, 8, 8, 16, 32)
MAX_STEPS = 200_000
TOGETHER = 50  # texts that are compiled at once
AS_SHIPPED = cpu_compiler._OPTIMISATION
# With less LLVM 20 ends the process now and then, where it would copy a mask of lanes. Users have no such code.
LITTLE = 1
THREADS = 8  # of programs in the language

Buffers = list[np.ndarray]


@dataclass(frozen=True)
class Job:
    """A launch, what its buffers are to be, and how it is run besides.

    Attributes:
        source: what it is made of.
        kernel: as it was made.
        prepared: as backends compile it.
        fma: whether that is contracted.
        arguments: of the launch, which stay as they are.
        expected: what Python makes of them; None: nothing is known.
        in_order: whether the threads of CPU code follow each other where they meet.
        contracts: whether it may round otherwise where products are contracted.
        case: for batches of launches.
        step: Python runs the kernel, as `Kernel.interpret` does.
    """

    source: str
    kernel: Kernel
    prepared: Kernel
    fma: bool
    grid: tuple[int, ...]
    arguments: Buffers
    widths: tuple[int, ...]
    index_bits: int
    cuda_threads: int | None = None
    expected: Buffers | None = None
    in_order: bool = False
    contracts: bool = True
    case: Case | None = None
    step: Callable[..., None] | None = None
    cuda: CudaCode = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "cuda", print_cuda(self.prepared, self.index_bits))

    def buffers(self) -> Buffers:
        return [b.copy() for b in self.arguments]


def job_of(case: Case, pick: Pick, in_order: bool) -> Job:
    fma = pick.chance(50)
    prepared = verify(prepare(case.kernel, fma=fma))
    # Where threads meet, CUDA's are one for each element, so that they come in order.
    threads = None if in_order else pick.of((None, 1, 4, 12, 64))
    return Job(repr(case), case.kernel, prepared, fma, case.grid, case.buffers(), widths(pick), pick.of((32, 64)),
               threads, in_order=in_order, case=case)  # fmt: skip


def widths(pick: Pick) -> tuple[int, int]:
    first = pick.of(WIDTHS)
    return first, pick.of([w for w in WIDTHS if w != first])


def random_job(pick: Pick) -> Job:
    return job_of(Maker(pick, budget=pick.of(BUDGETS)).case(), pick, in_order=False)


def affine_job(pick: Pick) -> Job:
    return job_of(affine_strategy.Maker(pick).case(), pick, in_order=False)


def colliding_job(pick: Pick) -> Job:
    return job_of(colliding_strategy.Maker(pick, budget=pick.of(BUDGETS)).case(), pick, in_order=True)


def language_job(pick: Pick) -> Job:
    made = pick.of((flow_job, flow_job, typed_job, integer_job))(pick)
    # Small whole numbers, of which all arithmetic is exact.
    return program_job(made, (len(made[-1][0]),), pick, contracts=False)


def numbers_job(pick: Pick) -> Job:
    writer = number_programs.Writer(pick)
    source = writer.program()
    scope = define(source)
    seed = pick.integer(0, 2**16)
    expected = writer.arguments(seed)
    writer.run(scope, expected)
    return program_job((source, scope["program"], writer.arguments(seed), expected), writer.grid, pick)


Program = tuple[str, wp.Kernel, Buffers, Buffers]


def program_job(made: Program, grid: tuple[int, ...], pick: Pick, contracts: bool = True) -> Job:
    source, kernel, arguments, expected = made
    ir = verify(kernel.specialize())
    return Job(source, ir, verify(prepare(ir)), True, grid, arguments, widths(pick), pick.of((32, 64)),
               expected=expected, contracts=contracts, step=kernel.interpret)  # fmt: skip


def flow_job(pick: Pick) -> Program:
    program, expected = flow_programs.written(pick)
    source = flow_programs.of_kernel(program)
    return source, define(source)["program"], flow_programs.arguments(), expected


def typed_job(pick: Pick) -> Program:
    writer = Writer(pick)
    source = writer.program()
    scope = define(source)
    expected = typed.arguments(VECTORS[writer.vector])
    typed.run_in_python(scope, expected)
    return source, scope["program"], typed.arguments(VECTORS[writer.vector]), expected


def integer_job(pick: Pick) -> Program:
    source = programs.program(pick)
    scope = define(source)
    a = np.array([pick.integer(0, 10) for _ in range(THREADS)], np.int32)
    out = np.zeros((THREADS, 6), np.int32)
    run_python(scope, "program", THREADS, a.tolist(), out)
    return source, scope["program"], [a, np.zeros_like(out)], [a, out]


# Ways to run a job


def interpreted(job: Job, kernel: Kernel) -> Buffers:
    buffers = job.buffers()
    interpret(kernel, job.grid, buffers, max_steps=MAX_STEPS)
    return buffers


def on_cpu(job: Job, width: int, pick: Pick) -> Buffers:
    buffers = job.buffers()
    _, _, kernel, context = passes_on_cpu(job.prepared, job.grid, [b.shape for b in buffers], (), job.in_order)
    code = compile_cpu(verify(kernel), width, SHAPES[width], succession=context.order)
    seen = [b.reshape(shape) for b, shape in zip(buffers, context.shapes, strict=True)]
    launch(code, kernel, context.threads, seen, tiles(context.threads, width, pick))
    return buffers


def tiles(grid: Sequence[int], width: int, pick: Pick) -> list[tuple[int, int, int, int]]:
    """The whole launch, or pieces in any order; columns are cut where vectors end."""
    rows, columns = math.prod(grid[:-1]), grid[-1]
    if pick.chance(50) or not rows * columns:
        return [(0, rows, 0, columns)]
    row = sorted({0, rows, pick.integer(0, rows)})
    column = sorted({0, columns, min(64 * pick.integer(0, 2), columns)})
    pieces = [(*r, *c) for r in itertools.pairwise(row) for c in itertools.pairwise(column)]
    return pieces[::-1] if pick.chance(50) else pieces


def stepped(job: Job, step: Callable[..., None]) -> Buffers:
    buffers = job.buffers()
    step(*buffers, dim=job.grid)
    return buffers


def as_cuda(job: Job) -> Buffers:
    buffers = job.buffers()
    hostcuda.run_code(job.prepared, job.cuda, job.grid, buffers, job.cuda_threads)
    return buffers


def in_debug_mode(job: Job) -> Buffers:
    """The kernels are right, but for integer division by zero and the like, and NaN."""
    buffers = job.buffers()
    asked = ("bounds", "steps") if job.in_order else ("bounds", "races", "equal_stores", "steps")
    found = checked(job.kernel, Debug(asked, MAX_STEPS), job.grid, [b.shape for b in buffers], fma=False)
    if found is None:
        return interpreted(job, job.kernel)
    marks = [np.zeros((*buffers[scan.array].shape, scan.fields), np.int64) for scan in found.scans]
    records = [np.zeros(found.layout.size, np.int64) for _ in range(1 + len(marks))]
    interpret(verify(found.kernel), job.grid, [*buffers, *marks, records[0]], max_steps=10 * MAX_STEPS)
    for scan, marked, record in zip(found.scans, marks, records[1:], strict=True):
        interpret(verify(scan.kernel), marked.shape[:-1], [marked, record], max_steps=10 * MAX_STEPS)
    for record in records:
        row = first_row(record.tolist(), found.layout.row)
        assert row is None, f"a false alarm: {row} of {found.reports}"
    return buffers


def tried(job: Job, number: int, pick: Pick) -> str:
    plain = interpreted(job, job.kernel)
    if job.expected is not None:
        require_same(job, job.expected, plain, "Python", exact=False)
    require_same(job, plain, interpreted(job, uncontracted(job)), "prepare")
    if number % 3 == 0:
        require_same(job, plain, in_debug_mode(job), "debug mode")
    if number % 12 == 1 and job.step is not None:
        require_same(job, plain, stepped(job, job.step), "stepping")
    if number % 3 == 1 and job.case is not None:
        properties.check_batch(job.case, pick.integer(1, 3), lambda param: pick.integer(-1, param.rank))
    contracted = interpreted(job, job.prepared) if job.fma else plain
    if not job.contracts:
        require_same(job, plain, contracted, "contraction")
    for width in job.widths:
        require_same(job, contracted, on_cpu(job, width, pick), f"CPU code, width {width}")
    require_same(job, contracted, as_cuda(job), f"CUDA text, {job.index_bits} bits, {job.cuda_threads} threads")
    return "agree"


def uncontracted(job: Job) -> Kernel:
    return verify(prepare(job.kernel, fma=False)) if job.fma else job.prepared


def require_same(job: Job, expected: Buffers, got: Buffers, what: str, exact: bool = True) -> None:
    for param, a, b in zip(job.kernel.params, expected, got, strict=True):
        if not (same_values(a, b) if exact else np.array_equal(a, b, equal_nan=True)):
            where = [tuple(at) for at in np.argwhere(a != b)[:3].tolist()]
            values = ", ".join(f"{a[at]!r} and {b[at]!r} at {at}" for at in where)
            raise AssertionError(f"{what}: {param.name} differs: {values}\n{job.prepared}")


def trials(make: Callable[[Pick], Job]) -> Callable[[Path, int, Journal], Trial]:
    """Of one generator. CUDA texts are compiled for some numbers together."""

    def kind(_: Path, seed: int, journal: Journal) -> Trial:
        ready: dict[int, Job] = {}

        def made(number: int) -> Job:
            return make(RandomPick(f"{seed}/{number}"))

        def prepare_from(number: int) -> None:
            ready.clear()
            group = number // TOGETHER
            cpu_compiler._OPTIMISATION = LITTLE if group % 5 else AS_SHIPPED
            for n in range(number, (group + 1) * TOGETHER):
                # What fails here fails again in its iteration.
                attempt(lambda n=n: ready.update({n: made(n)}))
            texts = {job.cuda.source: (job.prepared, job.cuda) for job in ready.values()}
            attempt(lambda: hostcuda.compile_host(list(texts.values()), "-O0" if group % 5 else hostcuda.OPTIMISED))

        def trial(number: int) -> str:
            if number not in ready:
                prepare_from(number)
            job = ready[number] if number in ready else made(number)
            journal.note(job.source)
            return tried(job, number, RandomPick(f"{seed}/{number}/run"))

        return trial

    return kind


def attempt(action: Callable[[], Any]) -> None:
    try:
        action()
    except Exception:
        return


MAKERS = {
    "random": random_job, "affine": affine_job, "colliding": colliding_job, "language": language_job,
    "numbers": numbers_job,
}  # fmt: skip
KINDS = {kind: trials(make) for kind, make in MAKERS.items()}
SHARES = {"random": 45, "affine": 15, "colliding": 10, "language": 10, "numbers": 20}
CHUNK = 500  # code that a process has loaded stays there
