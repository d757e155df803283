"""An array spread over devices, multiplied by two: each device launches a kernel on its part.

python examples/distributed_multiply.py --devices 4
mpirun -np 4 python examples/distributed_multiply.py
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
def multiply_by_two(a_in: wp.array[float], a_out: wp.array[float]):
    index = wp.tid()
    a_out[index] = a_in[index] * 2.0


jax_multiply = wp.jax_kernel(multiply_by_two)


def main() -> int:
    options = distributed.parser(__doc__).parse_args()
    with distributed.running(options.devices) as mesh:
        say = distributed.say
        say(f"Running on {mesh.size} device(s), {jax.process_count()} process(es)")

        @jax.jit
        def multiply(a: jax.Array) -> jax.Array:
            # Inside, `part` is what one device has: 5 elements.
            return jax.shard_map(lambda part: jax_multiply(part)[0], mesh=mesh, in_specs=P("d"), out_specs=P("d"))(a)

        host = np.arange(5 * mesh.size, dtype=np.float32)
        a = distributed.distribute(NamedSharding(mesh, P("d")), host)
        say("Input array:", distributed.everywhere(a))
        result = multiply(a)
        assert result.sharding.is_equivalent_to(a.sharding, 1)
        got = distributed.everywhere(result)
        say("Output:", got)
        return distributed.report(float(np.abs(got - 2 * host).max()), 0.0)


if __name__ == "__main__":
    sys.exit(main())
