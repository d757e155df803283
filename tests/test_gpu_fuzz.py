"""Random kernels on a GPU give what the interpreter gives, to the last bit.

Which zero a minimum of both zeros is machine code may choose, see docs/gpus.md: zeros are equal.
"""

from __future__ import annotations

import numpy as np
import pytest
from fuzz.kernels import MAKERS, Buffers, Job, interpreted, require_same
from kernels_strategy import RandomPick

pytestmark = pytest.mark.gpu

TOGETHER = 12  # kernels of one test
KINDS = [kind for kind in MAKERS if kind != "colliding"]  # of whose stores the last one wins where one thread does all


def on_device(job: Job) -> Buffers:
    from jaxwarp.launches.code import CodeKey
    from jaxwarp.launches.on_memory import launch_on
    from jaxwarp.memory.gpu.scope import gpu_scope

    scope = gpu_scope(0)
    regions = [scope.make(b.dtype, b.shape) for b in job.arguments]
    for region, values in zip(regions, job.arguments, strict=True):
        scope.write(region, values)
    if 0 not in job.grid:  # which `launch` leaves out
        launch_on(scope, CodeKey(job.kernel, job.fma, job.grid, tuple(r.shape for r in regions)), regions)
    return [scope.read(region) for region in regions]


def unsigned_zeros(buffers: Buffers) -> Buffers:
    return [np.where(b == 0, np.zeros((), b.dtype), b) for b in buffers]


@pytest.mark.parametrize("part", range(5))
@pytest.mark.parametrize("kind", KINDS)
def test_random_kernels(kind, part):
    for number in range(part * TOGETHER, (part + 1) * TOGETHER):
        job = MAKERS[kind](RandomPick(f"gpu/{kind}/{number}"))
        expected = unsigned_zeros(interpreted(job, job.prepared))
        require_same(job, expected, unsigned_zeros(on_device(job)), f"GPU, {kind} {number}")
