"""`autotune`: measures which block size is the fastest. See docs/design/0037-autotuning.md."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import numpy as np

from jaxwarp.arrays import launching
from jaxwarp.arrays.eager import copied_arguments, placed
from jaxwarp.arrays.launch import launch as make_launch
from jaxwarp.boundary import boundary, guarded
from jaxwarp.codegen import tuned
from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.ffi.jax_kernel import JaxKernel
from jaxwarp.kernel import Kernel
from jaxwarp.launches.code import key_of
from jaxwarp.launches.on_memory import CudaLaunch, are_aligned, loaded_on
from jaxwarp.launches.spec import OUTPUT, LaunchSpec
from jaxwarp.memory.current import scope_now
from jaxwarp.memory.devices import get_device
from jaxwarp.memory.driver import CudaError
from jaxwarp.memory.gpu.events import Event
from jaxwarp.memory.gpu.scope import GpuScope, device_of, gpu_scope, place_of_device
from jaxwarp.memory.host_scope import HOST, capturing
from jaxwarp.memory.region import Region
from jaxwarp.passes.pipeline import prepared

BLOCK_DIMS = (64, 128, 256, 512, 1024)
Timer = Callable[[Callable[[], None]], float]

_ROUNDS = 7  # of which the median counts
_WORTH = 0.98  # of the time of the block that is the default: more is noise
# More than the caches of a GPU; and work that takes longer than the host needs to queue a launch.
_FLUSHED_BYTES = 2**27


@guarded
class Tuned(NamedTuple):
    """The result of `autotune`.

    Attributes:
        block_dim: the fastest number of threads of a block.
        times: the seconds of one launch by block size; empty where nothing is measured.
    """

    block_dim: int
    times: dict[int, float]


@boundary
def autotune(
    kernel: Kernel | JaxKernel,
    dim: Any = None,
    inputs: Sequence[Any] = (),
    outputs: Sequence[Any] = (),
    *,
    device: Any = None,
    block_dims: Iterable[int] = BLOCK_DIMS,
    refresh: bool = False,
    timer: Timer | None = None,
) -> Tuned:
    """Measure a launch on a GPU with several block sizes. Launches with `block_dim="auto"` then use the fastest.

    The result is stored, also for later processes, by the model of the GPU, the kernel, the types and extents of its
    arguments, its options, and the version of NVRTC. The arguments keep their contents. On the CPU, which has no
    blocks, and in debug mode nothing is measured.

    Args:
        kernel: made by `@kernel`; or the function that `jax_kernel` makes.
        dim: threads along each axis, as for `launch`; of a `jax_kernel` its own.
        inputs: the arguments, with data like those of real launches: how long a launch takes may depend on them.
        outputs: of a kernel, the other arguments; of a `jax_kernel` none.
        device: the GPU; None: where the arrays are, or the device that is chosen.
        block_dims: what is tried, without those that `launch_bounds` excludes.
        refresh: measure again what was measured before.
        timer: takes a function that launches once, and returns how long that took. Default: events of CUDA, with
            caches that hold nothing of the arguments.

    Raises:
        KernelTypeError, KernelValueError: the arguments do not fit the kernel, or no block size can be tried.
    """
    _require_now()
    if isinstance(kernel, JaxKernel):
        job = _job_of_jax(kernel, dim, inputs, outputs, device)
    else:
        job = _job(make_launch(kernel, dim, inputs, outputs, device=device, record_cmd=True))
    if not isinstance(job, _Job):
        return Tuned(job.cuda.block, {})
    return job.tuned(_sizes(job.launch, block_dims), refresh, timer)


def _require_now() -> None:
    if scope_now() is not HOST or capturing.get() is not None:
        raise KernelTypeError(
            "autotune measures launches, and here none happens at once",
            hint="call it before the program, outside of JAX and of captures",
        )
    HOST.require_untraced("autotune", "used")


def _sizes(launch: LaunchSpec, block_dims: Iterable[int]) -> list[int]:
    given = list(block_dims)
    for n in given:
        if not isinstance(n, (int, np.integer)) or isinstance(n, bool) or not 1 <= n <= 1024:
            raise KernelValueError(
                f"autotune: block_dims: expected integers from 1 to 1024, got {n!r}", hint=f"leave it out: {BLOCK_DIMS}"
            )
    most = launch.cuda.bounds[0] if launch.cuda.bounds else 1024
    found = sorted({int(n) for n in given if n <= most})
    if not found:
        raise KernelValueError(
            f"autotune: kernel {launch.name}: block_dims: none of {given} is at most {most}",
            hint="raise launch_bounds, or try smaller blocks",
        )
    return found


class _Job:
    """A launch on memory of a GPU that may be done again and again.

    Args:
        operands: dense regions, and NumPy's values; what of these is written is put back.
    """

    def __init__(self, scope: GpuScope, launch: LaunchSpec, operands: Sequence[Any]):
        self._scope, self.launch, self._operands = scope, launch, operands

    def tuned(self, sizes: Sequence[int], refresh: bool, timer: Timer | None) -> Tuned:
        """Return what was measured before, or measure it now."""
        launch, shapes = self.launch, [np.shape(o) if not isinstance(o, Region) else o.shape for o in self._operands]
        kernel = prepared(launch.kernel, launch.fma)
        key = tuned.key_of(kernel, launch.grid, shapes, launch.cuda, self._scope.model())
        assert key is not None, "the extents of arrays are known"
        found = None if refresh else tuned.tuning(key)
        if found is None or not found.times.keys() >= set(sizes):
            times = self._measured(sizes, shapes, timer)
            found = tuned.Tuning(_choice(times, launch.cuda.block), times)
            tuned.keep(key, found)
            launching.forget()
        return Tuned(found.block, dict(found.times))

    def _measured(
        self, sizes: Sequence[int], shapes: Sequence[tuple[int, ...]], timer: Timer | None
    ) -> dict[int, float]:
        scope, launch = self._scope, self.launch
        is_aligned, key = are_aligned(self._operands), key_of(launch, tuple(map(tuple, shapes)))

        def made(size: int) -> CudaLaunch:
            cuda = replace(launch.cuda, block=size, is_tuned=False, is_free=False)
            return loaded_on(scope, key._replace(options=cuda), is_aligned)

        codes = {size: made(size) for size in sizes}
        changed = codes[sizes[0]].written
        written = [o for i, o in enumerate(self._operands) if isinstance(o, Region) and i in changed]
        reads = [o for i, o in enumerate(self._operands) if isinstance(o, Region) and i not in changed]
        with scope.entered(), _put_back(scope, written) as put_back:
            scope.uses(reads, written)
            addresses, kept = scope.addresses(self._operands)
            found = _times(
                {size: lambda code=code: code.run(scope, addresses) for size, code in codes.items()},
                timer or _Clock(scope).seconds,
                put_back,
            )
            scope.synchronize()
            del kept
        return found


def _times(runs: dict[int, Callable[[], None]], timer: Timer, put_back: Callable[[], None]) -> dict[int, float]:
    """Medians, of rounds in which each has its turn: a GPU that gets slower does so for all."""
    for size in list(runs):
        try:
            runs[size]()  # code is loaded now
        except CudaError as error:
            if "LAUNCH_OUT_OF_RESOURCES" not in str(error) or len(runs) == 1:
                raise
            del runs[size]  # more registers than a block of this size can have
        put_back()
    found: dict[int, list[float]] = {size: [] for size in runs}
    for _ in range(_ROUNDS):
        for size, run in runs.items():
            found[size].append(float(timer(run)))
            put_back()
    return {size: float(np.median(times)) for size, times in found.items()}


def _choice(times: dict[int, float], default: int) -> int:
    best = min(times, key=lambda size: times[size])
    return default if default in times and times[best] >= _WORTH * times[default] else best


@contextmanager
def _put_back(scope: GpuScope, written: Sequence[Region]) -> Iterator[Callable[[], None]]:
    """Yield a function that restores the present contents of regions. They are restored at the end, too."""
    copies = [scope.duplicated(region) for region in written]

    def put_back() -> None:
        for region, copy in zip(written, copies, strict=True):
            scope.move(region, copy)

    try:
        yield put_back
    finally:
        put_back()


class _Clock:
    """Events of CUDA around a launch, which follows work that empties the caches.

    The host queues all of it while that work goes on, so that its own time does not count.
    """

    def __init__(self, scope: GpuScope):
        self._scope = scope
        device = device_of(scope)
        self._start, self._end = Event(device, enable_timing=True), Event(device, enable_timing=True)
        self._flushed = scope.make(np.dtype(np.uint8), (_FLUSHED_BYTES,))

    def seconds(self, run: Callable[[], None]) -> float:
        """Return how many seconds a launch takes."""
        self._scope.set(self._flushed, np.zeros((), np.uint8))
        self._start.record()
        run()
        self._end.record()
        self._end.synchronize()
        return self._start.milliseconds_to(self._end) / 1e3


def _job(command: Any) -> _Job | LaunchSpec:
    """Return the job of a launch outside of JAX; where nothing is measured, what would be launched."""
    checked = command.checked()
    scope = checked.scope
    if not isinstance(scope, GpuScope) or checked.launch.debug is not None or 0 in checked.launch.grid:
        return checked.launch
    found = placed(scope, checked, copied_arguments(checked))
    return _Job(scope, found.launch, found.operands)


def _job_of_jax(
    call: JaxKernel, dim: Any, inputs: Sequence[Any], outputs: Sequence[Any], device: Any
) -> _Job | LaunchSpec:
    """Return the job of a call under JAX, on copies of its arguments; where nothing is measured, the launch."""
    if dim is not None or len(outputs):
        raise KernelTypeError(
            f"autotune: {call!r} has launch dimensions and outputs of its own", hint="pass inputs only"
        )
    launch, values = call.launch_for(tuple(inputs))
    scope = _place(values, device)
    if scope is None or launch.debug is not None or 0 in launch.grid:
        return launch
    given, results = iter(values), dict(zip(launch.result_params, launch.results, strict=True))
    operands: list[Any] = []
    for i, param in enumerate(launch.kernel.params):
        if launch.roles[i] == OUTPUT:
            operands.append(scope.make(param.dtype.numpy, results[i]))
        elif None in param.shape:
            operands.append(_copied(scope, next(given)))
        else:
            operands.append(np.asarray(next(given)))
    return _Job(scope, launch, operands)


def _place(values: Sequence[Any], device: Any) -> GpuScope | None:
    """Return the GPU to measure on; None: the device is no GPU."""
    if device is None:
        on_gpus = [d for v in values if isinstance(v, jax.Array) for d in v.devices() if d.platform == "gpu"]
        if on_gpus:
            return gpu_scope(on_gpus[0].local_hardware_id or 0)
        device = get_device()
    found = place_of_device(device, "autotune")
    return found if isinstance(found, GpuScope) else None


def _copied(scope: GpuScope, value: Any) -> Region:
    found = scope.find(value)
    if found is not None:
        return scope.duplicated(found[0])
    values = np.ascontiguousarray(value)
    made = scope.make(values.dtype, values.shape)
    scope.put(made, values)
    return made
