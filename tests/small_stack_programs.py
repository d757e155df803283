"""A launch whose threads have large arrays of their own, in a thread with a small stack: a process of its own.

    python small_stack_programs.py [KiB of the thread's stack, 0: the system's]
"""

from __future__ import annotations

import sys
import threading

import jax
import jax.numpy as jnp
import numpy as np

import jaxwarp as wp

SIZE = 65000  # 254 KiB: a kernel's own arrays may have 256 KiB
THREADS = 2000


@wp.kernel
def squares(a: wp.array[float], o: wp.array[float]):
    i = wp.tid()
    own = wp.zeros(shape=SIZE, dtype=float)
    for k in range(SIZE):
        own[k] = a[i] * float(k)
    o[i] = own[i] * own[i]


@wp.kernel
def tiled(a: wp.array2d[float], o: wp.array2d[float]):
    i = wp.tid()
    tile = wp.tile_load(a, shape=(64, 64), offset=(64 * i, 0))
    wp.tile_store(o, wp.tile_transpose(tile), offset=(64 * i, 0))


def total(x: jax.Array) -> jax.Array:
    return wp.jax_kernel(squares)(x)[0].sum()


def eager() -> None:
    found = wp.jax_kernel(squares)(jnp.ones(THREADS))[0]
    np.testing.assert_array_equal(found, np.arange(THREADS, dtype=np.float32) ** 2)


def jitted() -> None:
    np.testing.assert_allclose(jax.jit(total)(jnp.ones(9)), 204.0)


def gradients() -> None:
    np.testing.assert_allclose(jax.jit(jax.grad(total))(jnp.ones(9)), 2.0 * np.arange(9) ** 2)


def launched() -> None:
    a, o = wp.ones(THREADS, dtype=float), wp.zeros(THREADS, dtype=float)
    wp.launch(squares, dim=THREADS, inputs=[a], outputs=[o])
    np.testing.assert_array_equal(o.numpy(), np.arange(THREADS, dtype=np.float32) ** 2)


def taped() -> None:
    a, o = wp.ones(9, dtype=float, requires_grad=True), wp.zeros(9, dtype=float, requires_grad=True)
    with wp.Tape() as tape:
        wp.launch(squares, dim=9, inputs=[a], outputs=[o])
    tape.backward(grads={o: wp.ones(9, dtype=float)})
    np.testing.assert_allclose(a.grad.numpy(), 2.0 * np.arange(9) ** 2)


def tiles() -> None:
    x = np.arange(64 * 64 * 3, dtype=np.float32).reshape(-1, 64)
    a, o = wp.from_numpy(x), wp.zeros(x.shape, dtype=float)
    wp.launch_tiled(tiled, dim=3, inputs=[a], outputs=[o], block_dim=32)
    np.testing.assert_array_equal(o.numpy(), x.reshape(3, 64, 64).transpose(0, 2, 1).reshape(-1, 64))


def main() -> None:
    done: list[str] = []

    def work() -> None:
        for step in (jitted, gradients, eager, launched, taped, tiles):
            step()
            done.append(step.__name__)

    threading.stack_size(1024 * int(sys.argv[1]))
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    print(*done)


if __name__ == "__main__":
    main()
