"""Settings that must be made before the first backend of JAX starts."""

import jax

# Virtual devices for the tests of shard_map.
jax.config.update("jax_num_cpu_devices", 8)
