"""All functions of the language that are made of values alone, by name.

Thread indices, array access, atomics and `static` belong to the frontend.
"""

from __future__ import annotations

from jaxwarp.builtins.language.angles import ANGLE_FUNCTIONS
from jaxwarp.builtins.language.constructors import CONSTRUCTORS
from jaxwarp.builtins.language.function import Function
from jaxwarp.builtins.language.linalg import LINALG_FUNCTIONS
from jaxwarp.builtins.language.rotations import QUATERNION_FUNCTIONS
from jaxwarp.builtins.language.scalar_functions import SCALAR_FUNCTIONS
from jaxwarp.builtins.language.transforms import TRANSFORM_FUNCTIONS

FUNCTIONS: dict[str, Function] = {
    f.name: f
    for f in (
        *SCALAR_FUNCTIONS,
        *CONSTRUCTORS,
        *LINALG_FUNCTIONS,
        *QUATERNION_FUNCTIONS,
        *ANGLE_FUNCTIONS,
        *TRANSFORM_FUNCTIONS,
    )
}
