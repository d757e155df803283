"""Prints what each system makes of the cases: right, refused or WRONG.

    python -m tests.conformance.run

A system that is not installed is left out. Another one joins with a function in SYSTEMS that takes a case and returns
the gradient, or raises RefusedError.
"""

from __future__ import annotations

import collections
import importlib.util
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

CASES = Path(__file__).with_name("cases.py")
TOLERANCE = 1e-8


class RefusedError(Exception):
    """The system says that it cannot give this gradient."""


def jaxwarp_loss(case: Any, **options: Any) -> Callable[[Any], Any]:
    """The weighted sum of the results by what the gradient is of, with further options of `jax_kernel`."""
    import jax.numpy as jnp

    import jaxwarp

    call = jaxwarp.jax_kernel(
        case.kernel,
        num_outputs=len(case.outputs) + len(case.in_outs),
        in_out_argnames=list(case.in_outs),
        launch_dims=case.dims,
        output_dims={n: _dims(case, n) for n in case.outputs} or None,
        **options,
    )
    inputs = [n for n in case.arguments if n not in case.outputs]
    results = [n for n in case.arguments if n in case.outputs or n in case.in_outs]

    def loss(x: Any) -> Any:
        found = call(*(x if n == case.by else case.arguments[n] for n in inputs))
        return jnp.sum(jnp.asarray(case.weights) * found[results.index(case.of)])

    return loss


def jaxwarp_gradient(case: Any) -> np.ndarray:
    import jax
    import jax.numpy as jnp

    from jaxwarp.errors import DifferentiationError

    with jax.enable_x64(True):
        try:
            return np.asarray(jax.grad(jaxwarp_loss(case))(jnp.asarray(case.arguments[case.by], jnp.float64)))
        except DifferentiationError as error:
            raise RefusedError(error.message) from None


def _dims(case: Any, name: str) -> tuple[int, ...]:
    """Extents of an output as an array of what its elements are: vectors have theirs to themselves."""
    annotation = next(a.annotation for a in case.kernel.arguments if a.name == name)
    return case.arguments[name].shape[: annotation.ndim]


def warp_gradient(case: Any) -> np.ndarray:
    import warp

    parameters = {a.label: a.type for a in case.kernel.adj.args}
    arrays: dict[str, Any] = {}
    for name, value in case.arguments.items():
        if isinstance(value, np.ndarray) or name == case.by:
            dtype = getattr(parameters[name], "dtype", None)
            if dtype is None:
                raise RefusedError("a scalar argument has no gradient")
            is_float = np.asarray(value).dtype.kind == "f"
            arrays[name] = warp.array(value, dtype=dtype, requires_grad=is_float, device="cpu")
    first = next(iter(arrays.values()))
    tape = warp.Tape()
    with tape:
        inputs = [arrays.get(n, v) for n, v in case.arguments.items()]
        warp.launch(case.kernel, case.dims or first.shape, inputs=inputs, device="cpu")
    weights = warp.array(case.weights, dtype=arrays[case.of].dtype, device="cpu")
    tape.backward(grads={arrays[case.of]: weights})
    return arrays[case.by].grad.numpy()


SYSTEMS: dict[str, tuple[str, Callable[[Any], np.ndarray]]] = {
    "jaxwarp": ("jaxwarp", jaxwarp_gradient),
    "Warp": ("warp", warp_gradient),
}


def load(module: str) -> Mapping[str, Any]:
    """The cases with kernels of a system: the file, with its name in the import."""
    text = CASES.read_text().replace("import jaxwarp as wp", f"import {module} as wp")
    # The systems look for a kernel's source in a file, so it stays while the process runs.
    path = Path(tempfile.mkdtemp()) / f"conformance_{module}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = loaded
    spec.loader.exec_module(loaded)
    return loaded.CASES


def verdict(gradient: Callable[[Any], np.ndarray], case: Any) -> str:
    """right, refused or WRONG."""
    try:
        found = np.asarray(gradient(case))
    except RefusedError:
        return "refused"
    is_right = found.size == case.expected.size and np.allclose(
        found.reshape(case.expected.shape), case.expected, rtol=TOLERANCE, atol=TOLERANCE
    )
    return "right" if is_right else "WRONG"


def main() -> int:
    """Prints the table; the status tells whether jaxwarp was wrong anywhere."""
    systems = {n: (load(m), f) for n, (m, f) in SYSTEMS.items() if importlib.util.find_spec(m) is not None}
    counts: dict[str, collections.Counter[str]] = {n: collections.Counter() for n in systems}
    print(f"{'':42}" + "".join(f"{n:>10}" for n in systems))
    for name in next(iter(systems.values()))[0]:
        row = {n: verdict(f, cases[name]) for n, (cases, f) in systems.items()}
        for system, word in row.items():
            counts[system][word] += 1
        print(f"{name:42}" + "".join(f"{word:>10}" for word in row.values()))
    for word in ("right", "refused", "WRONG"):
        print(f"{word:42}" + "".join(f"{counts[n][word]:>10}" for n in systems))
    return int(counts["jaxwarp"]["WRONG"] > 0) if "jaxwarp" in counts else 0


if __name__ == "__main__":
    sys.exit(main())
