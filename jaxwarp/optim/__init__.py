"""Optimisers of arrays outside of JAX, as a `Tape` gives their gradients (in JAX, use optax); linear systems."""

from jaxwarp.boundary import boundary as _boundary
from jaxwarp.frontend.text.refused import missing as _missing
from jaxwarp.optim import linear as linear
from jaxwarp.optim.adam import Adam as Adam
from jaxwarp.optim.sgd import SGD as SGD


@_boundary
def __getattr__(name: str) -> object:
    return _missing(name, __name__)
