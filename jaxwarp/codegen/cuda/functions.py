"""Elementary functions as functions of the text, in kernels that call many of them.

NVRTC writes out each of CUDA's own where it is called: 6 ms for a sine of doubles, 38 ms for one of floats. A function
that is not written out takes 1 ms a call to compile, and the call itself some ten cycles.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set

from jaxwarp.builtins.scalar_ops import ELEMENTARY, ROWS, cuda_template
from jaxwarp.codegen.cuda.expression import CPP_TYPES
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Builtin, Call, walk
from jaxwarp.types import Scalar, float32

# Of long functions that a kernel may call before they become functions. With sines of floats these take 2.5 s.
MOST = 64

# Those that are no instruction of the machine's, nor nearly so.
_LONG = frozenset({*ELEMENTARY, ROWS["pow"]} - {ROWS["sqrt"], ROWS["rsqrt"]})


class Functions:
    """The functions that a kernel's text has, and the text of those that were called.

    Args:
        kernel: what is printed.
        fast_math: whether those of floats are single instructions, see `CudaOptions`.
    """

    def __init__(self, kernel: Kernel, fast_math: bool):
        self._shared = _shared(kernel, fast_math)
        self._texts: dict[str, None] = {}
        self.names = frozenset(_name(builtin) for builtin, _ in self._shared)

    def template(self, builtin: Builtin, result: Scalar, types: Sequence[Scalar]) -> str:
        """The C++ expression of a call, with {0}, {1}, ... for its arguments."""
        template = cuda_template(builtin, result, types)
        if (builtin, result) not in self._shared:
            return template
        type_, name = CPP_TYPES[result.short], _name(builtin)
        parameters = [f"x{i}" for i in range(len(types))]
        listed = ", ".join(f"{type_} {x}" for x in parameters)
        body = template.format(*parameters)
        self._texts[f"static __device__ __noinline__ {type_} {name}({listed}) {{ return {body}; }}\n"] = None
        return f"{name}({', '.join(f'{{{i}}}' for i in range(len(types)))})"

    def text(self) -> str:
        """Return the text that goes before the kernel."""
        return "".join(self._texts)


def _shared(kernel: Kernel, fast_math: bool) -> Set[tuple[Builtin, Scalar]]:
    """The builtins, with the type of their operands and result, that are functions."""
    uses = Counter(
        (op.builtin, op.result.type)
        for op in walk(kernel.body)
        if isinstance(op, Call) and op.builtin in _LONG and not (fast_math and op.result.type is float32)
    )
    return {key for key, count in uses.items() if count > 1} if uses.total() > MOST else frozenset()


def _name(builtin: Builtin) -> str:
    return f"{builtin.name}_of"
