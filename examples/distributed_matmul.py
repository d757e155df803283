"""A matrix product over devices: rows of `a` and of the result are spread, every device has all of `b`.

    python examples/distributed_matmul.py --devices 4
    mpirun -np 4 python examples/distributed_matmul.py

Twice: with `shard_map`, which says what each device does, and with a `sharding_rule`, from which XLA finds it out.
"""

from __future__ import annotations

import sys

import distributed
import jax
import numpy as np
from jax.sharding import NamedSharding
from jax.sharding import PartitionSpec as P

import jaxwarp as wp


@wp.kernel
def matmul(
    a: wp.array2d[float],  # M/devices x K
    b: wp.array2d[float],  # K x N
    c: wp.array2d[float],  # M/devices x N
):
    i, j = wp.tid()
    rows = a.shape[0]
    columns = b.shape[1]
    if i < rows and j < columns:
        s = wp.float32(0.0)
        for k in range(a.shape[1]):
            s += a[i, k] * b[k, j]
        c[i, j] = s


def main() -> int:
    options = distributed.parser(__doc__).parse_args()
    with distributed.running(options.devices) as mesh:
        m, k, n = 8 * mesh.size, 4, 6
        random = np.random.default_rng(0)
        host_a = random.normal(size=(m, k)).astype(np.float32)
        host_b = random.normal(size=(k, n)).astype(np.float32)
        a = distributed.distribute(NamedSharding(mesh, P("d", None)), host_a)
        b = distributed.distribute(NamedSharding(mesh, P()), host_b)

        per_shard = wp.jax_kernel(matmul, launch_dims=(m // mesh.size, n))
        mapped = jax.shard_map(
            lambda a, b: per_shard(a, b)[0], mesh=mesh, in_specs=(P("d", None), P()), out_specs=P("d", None)
        )
        by_rule = wp.jax_kernel(matmul, launch_dims=(m, n), sharding_rule="i k, k j -> i j")

        worst = 0.0
        for name, product in (("shard_map", mapped), ("sharding_rule", lambda a, b: by_rule(a, b)[0])):
            result = jax.jit(product)(a, b)
            shards = {shard.data.shape for shard in result.addressable_shards}
            distributed.say(f"{name}: {mesh.size} device(s) make {result.shape} of shards {shards}")
            worst = max(worst, float(np.abs(distributed.everywhere(result) - host_a @ host_b).max()))
        return distributed.report(worst, 1e-5)


if __name__ == "__main__":
    sys.exit(main())
