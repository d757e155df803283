"""Optimisers of arrays outside of JAX, as a `Tape` gives their gradients. In JAX, use optax."""

from jaxwarp.optim.adam import Adam as Adam
from jaxwarp.optim.sgd import SGD as SGD
