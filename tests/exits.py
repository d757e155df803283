"""Programs that leave things alive when they end, in every combination: each ends with status 0.

python tests/exits.py 300        # so many of them
"""

from __future__ import annotations

import importlib.util
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HEAD = """
import atexit, builtins, sys, threading, time
import jax, jax.numpy as jnp, numpy as np
import jaxwarp as wp

@wp.kernel
def sine(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    y[i] = wp.sin(x[i])

@wp.kernel
def slow(x: wp.array[float], y: wp.array[float]):
    i = wp.tid()
    s = x[i]
    for _ in range(20000):
        s = wp.sin(s)
    y[i] = s

def ffi(name):
    return jax.jit(lambda x: jax.ffi.ffi_call(name, jax.ShapeDtypeStruct(x.shape, x.dtype))(x))

def double(inputs, outputs, attrs, ctx):
    for _ in range(20):
        time.sleep(0.005)  # each time another thread may run, or Python end
    np.asarray(outputs[0])[...] = np.asarray(inputs[0]) * 2

a = wp.array(np.arange(24.0).reshape(4, 6), dtype=wp.float32)
v = wp.array(np.arange(8.0), dtype=float, requires_grad=True)
square = jnp.ones((300, 300))  # computed with in the background
kept = []
"""

PIECES = {
    "jax": "j = jax.dlpack.from_dlpack(a); j2 = jnp.asarray(a); j3 = wp.to_jax(v)",
    "jax_shared": "w = wp.from_jax(jnp.arange(8.0)); ws = jax.dlpack.from_dlpack(w)",
    "numpy": "n = np.from_dlpack(a); n2 = a.numpy()[1:]",
    "from_dlpack": "f = wp.from_dlpack(jnp.arange(8, dtype=jnp.float32)); g = wp.from_dlpack(np.arange(8.0))",
    "capsule": "c = a.__dlpack__(); c2 = a.__dlpack__(max_version=(1, 0))",
    "taken_capsule": "c3 = np.arange(8.0).__dlpack__(); t3 = wp.from_dlpack(c3)",
    "torch": """
import torch
t = torch.from_dlpack(a); t2 = wp.to_torch(v); t3 = torch.utils.dlpack.from_dlpack(a.__dlpack__())
""",
    "from_torch": """
import torch
u = wp.from_torch(torch.arange(8.0, requires_grad=True)); u2 = wp.from_dlpack(torch.arange(8.0))
""",
    "tape": """
y = wp.zeros(8, requires_grad=True)
tape = wp.Tape()
with tape:
    wp.launch(sine, 8, [v], [y])
tape.backward(grads={y: wp.ones(8)})
""",
    "open_tape": """
z = wp.zeros(8, requires_grad=True)
open_tape = wp.Tape()
open_tape.__enter__()
wp.launch(sine, 8, [v], [z])
""",
    "in_flight": "many = [jax.jit(wp.jax_kernel(slow))(jnp.arange(20000.0)) for _ in range(4)]",
    "dropped_in_flight": "jax.jit(wp.jax_kernel(slow))(jnp.arange(30000.0))",
    "callable": """
def twice(x: wp.array[float], y: wp.array[float]):
    t = wp.zeros(x.shape, float)
    wp.launch(sine, x.shape, [x], [t])
    wp.launch(sine, x.shape, [t], [y])
graphs = [jax.jit(wp.jax_callable(twice, graph_mode=mode)) for mode in (wp.GraphMode.WARP, wp.GraphMode.JAX)]
made = [graph(jnp.arange(8.0)) for graph in graphs]
""",
    "none": """
def look(x: wp.array[float], y: wp.array[float]):
    time.sleep(0.1)
    kept.append(x.numpy().sum())
    wp.launch(sine, x.shape[0], [x], [y])
looked = wp.jax_callable(look, graph_mode=wp.GraphMode.NONE)
results = [jax.jit(lambda x: looked((x @ x)[0]))(square + i) for i in range(3)]
""",
    "callback": """
wp.register_ffi_callback("first", double)
called = jax.jit(lambda x: ffi("first")(x @ x) @ x)
second = called(called(square))
""",
    "dropped_callback": """
wp.register_ffi_callback("second", double)
for _ in range(3):
    jax.jit(lambda x: jax.lax.fori_loop(0, 3, lambda _, y: ffi("second")(y @ y), x))(square)
""",
    "sleeping_callback": """
wp.register_ffi_callback("third", double)
threading.Thread(target=lambda: ffi("third")(square)).start()
""",
    "thread": """
def work():
    while not stop:
        out = wp.zeros(8)
        wp.launch(sine, 8, [v], [out])
        kept.append(np.from_dlpack(out))
        del kept[:-10]
stop = False
threading.Thread(target=work).start()
threading.Thread(target=lambda: (time.sleep(0.2), globals().update(stop=True))).start()
""",
    "daemon": """
def work_for_ever():
    x = wp.array(np.arange(100.0), dtype=float)
    while True:
        out = wp.zeros(100)
        wp.launch(sine, 100, [x], [out])
        np.from_dlpack(out)
threading.Thread(target=work_for_ever, daemon=True).start(); time.sleep(0.05)
""",
    "large_daemon": """
def work_much():
    x, out = wp.zeros(200000), wp.zeros(200000)
    while True:
        wp.launch(slow, 200000, [x], [out])
threading.Thread(target=work_much, daemon=True).start(); time.sleep(0.05)
""",
    "atexit": """
@atexit.register
def last():
    out = wp.zeros(200000)
    wp.launch(sine, 200000, [wp.zeros(200000)], [out])
    kept.extend([np.from_dlpack(out), jax.dlpack.from_dlpack(out)])
""",
    "late": """
builtins.k1 = np.from_dlpack(a); builtins.k2 = jax.dlpack.from_dlpack(a); sys.k3 = wp.from_dlpack(jnp.arange(3.0))
sys.k4 = jax.dlpack.from_dlpack(wp.from_jax(jnp.arange(3.0))); sys.k5 = a.__dlpack__(); builtins.k6 = a
""",
    "cycle": "ring = [np.from_dlpack(a), wp.from_dlpack(jnp.arange(3.0)), a]; ring.append(ring); del ring",
    "finalizer": """
class Late:
    def __del__(self):
        try:
            kept.append([np.from_dlpack(wp.zeros(5)), jax.dlpack.from_dlpack(a), a.__dlpack__()])
        except BaseException:  # of modules that are gone
            pass
finalized = Late(); builtins.finalized = Late()
""",
}
if importlib.util.find_spec("torch") is None:
    PIECES = {name: text for name, text in PIECES.items() if "torch" not in text}


def combination(number: int) -> tuple[str, ...]:
    """The pieces of a program: first each alone, then several, in random order."""
    names, draw = list(PIECES), random.Random(number)
    if number < len(names):
        return (names[number],)
    # Tapes do not nest.
    return tuple(sorted(draw.sample(names, draw.randint(2, 7)), key=lambda name: name == "open_tape"))


def failure(names: Sequence[str]) -> str | None:
    """What went wrong with a program of such pieces."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "tracing.py")
        path.write_text(HEAD + "\n".join(PIECES[name] for name in names) + "\nprint('the last line')\n")
        command = [sys.executable, "-X", "faulthandler", str(path)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
        except subprocess.TimeoutExpired as error:
            return f"{names} does not end: {error.stdout} {error.stderr}"
    if done.returncode == 0 and "the last line" in done.stdout:
        return None
    return f"{names} ends with {done.returncode}: {done.stdout}{done.stderr}"


def failures(programs: Sequence[Sequence[str]]) -> list[str]:
    """What went wrong with any of them."""
    with ThreadPoolExecutor(len(os.sched_getaffinity(0)) + 1) as pool:
        return [found for found in pool.map(failure, programs) if found is not None]


if __name__ == "__main__":
    number = int(sys.argv[1])
    # Where JAX may look for TPUs, its first use in a finalizer starts a thread and waits for it, for ever: JAX's own.
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    found = failures([combination(i) for i in range(number)])
    print(*found, f"{len(found)} of {number} fail", sep="\n")
    sys.exit(bool(found))
