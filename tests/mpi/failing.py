"""For test_distributed.py: one process fails in the way that is asked for, while the others wait for it."""

import os
import signal
import sys

import distributed
import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec as P

with distributed.running() as mesh:
    total = jax.jit(jax.shard_map(lambda x: jax.lax.psum(x, "d"), mesh=mesh, in_specs=P(), out_specs=P()))
    for step in range(1000):
        if step == 3 and jax.process_index() == 1:
            if sys.argv[1] == "raises":
                raise ValueError("step 3 went wrong")
            if sys.argv[1] == "dies":
                os.kill(os.getpid(), signal.SIGKILL)
        jax.block_until_ready(total(jnp.float32(step)))
