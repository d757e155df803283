"""XLA's compiler for an H200, where there is none: what it makes of a program.

It needs the CUDA plugin of JAX, and no driver. `make cuda-plugin` puts that of jaxlib's version, from 0.10 on, into a
folder of its own: other programs would look for GPUs if it was in the environment. Another folder is named by the
environment variable JAXWARP_CUDA_PLUGIN.
"""

import importlib.metadata
import importlib.util
import os
import re
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
_KINDS = re.compile(r"^( *)\d+: (k\w+)", re.MULTILINE)


def plugin():
    """The folder to be put on the path: None if the plugin is not there, or is for another JAX; "" if it is there."""
    if importlib.util.find_spec("jax_cuda13_plugin"):
        return ""
    folder = Path(os.environ.get("JAXWARP_CUDA_PLUGIN", ROOT / "build" / "cuda-plugin"))
    names = ("jax-cuda13-pjrt", "jax-cuda13-plugin")
    found = {d.name: d.version for d in importlib.metadata.distributions(path=[str(folder)])}
    wanted = importlib.metadata.version("jaxlib")
    # The plugin of 0.9 finds no handlers of custom calls where there is no device.
    is_new = tuple(map(int, wanted.split(".")[:2])) >= (0, 10)
    return str(folder) if is_new and all(found.get(name) == wanted for name in names) else None


def environment(folder):
    """That of a process that compiles for the H200; what XLA says of programs is in `folder`."""
    path = os.pathsep.join([plugin(), str(ROOT), str(ROOT / "tests"), str(ROOT / "examples")]).lstrip(os.pathsep)
    return os.environ | {
        "PYTHONPATH": path,
        "JAX_PLATFORMS": "cpu",  # of arrays
        "JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1",
        "JAXWARP_CUDA_ARCHS": "90",
        "XLA_FLAGS": f"--xla_dump_to={folder} --xla_dump_hlo_as_text",
    }


class H200:
    """The compiler.

    Args:
        folder: the one of `environment`.
    """

    def __init__(self, folder):
        import jax
        from jax.experimental import topologies

        target = (HERE / "h200.txtpb").read_text()
        found = topologies.get_topology_desc(
            platform="cuda", topology_name="h200", topology="1x1x1", target_config=target
        )
        mesh = jax.sharding.Mesh(found.devices, "d")
        self._sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())
        self._folder = Path(folder)

    def array(self, *shape, dtype="float32"):
        """An argument."""
        import jax
        import numpy as np

        return jax.ShapeDtypeStruct(shape, np.dtype(dtype), sharding=self._sharding)

    def compile(self, function, *arguments, **options):
        """What it makes of a function, a jitted one or not."""
        import jax

        before = set(self._folder.iterdir())
        jitted = function if hasattr(function, "lower") else jax.jit(function)
        compiled = jitted.lower(*arguments).compile(compiler_options=options or None)
        new = {f.name.partition(".thunk_sequence")[2]: f for f in set(self._folder.iterdir()) - before}
        # There are two where graphs were made.
        return Made(compiled, (new.get("_after_thunk_passes.txt") or new[".txt"]).read_text())


class Made:
    """A compiled program.

    Attributes:
        thunks: the kinds of its operations, in order, each with its depth: what is in a loop or a graph is deeper.
        memory: what XLA says of its buffers.
    """

    def __init__(self, compiled, thunks):
        self._text = compiled.as_text()
        self.memory = compiled.memory_analysis()
        self.thunks = [(len(indent) // 4, kind) for indent, kind in _KINDS.findall(thunks)]

    def count(self, kind):
        """How many operations are of a kind."""
        return sum(kind == found for _, found in self.thunks)

    def inside(self, kind):
        """What is directly in the operations of a kind, for each of them."""
        found = []
        for at, (depth, outer) in enumerate(self.thunks):
            if outer == kind:
                rest = self.thunks[at + 1 :]
                end = next((i for i, (d, _) in enumerate(rest) if d <= depth), len(rest))
                found.append([k for d, k in rest[:end] if d == depth + 1])
        return found

    def moves(self, elements):
        """The copies and transposes of arrays of at least so many elements, as XLA writes them."""
        found = re.findall(r"= \w+\[([\d,]*)\]\S* (copy|transpose|copy-start)\(", self._text)
        return [(shape, kind) for shape, kind in found if _product(shape) >= elements]


def _product(shape):
    count = 1
    for extent in shape.split(","):
        count *= int(extent or 1)
    return count
