"""Every kernel of the solvers and preconditioners is CUDA that NVRTC takes."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp.codegen.cuda import compile_cuda, nvrtc, print_cuda
from jaxwarp.optim import linear
from jaxwarp.optim.linear import FSAI, aslinearoperator, fsai_kernels, preconditioner
from jaxwarp.passes.pipeline import prepare

WIDTH, STEP = 8, 1
# A module for each method, beside the function of its name.
MODULES = [module for name, module in sys.modules.items() if name.startswith("jaxwarp.optim.linear.")]
KERNELS = {kernel.name: kernel for m in MODULES for kernel in vars(m).values() if isinstance(kernel, wp.Kernel)}
KERNELS["fsai_grow"] = fsai_kernels.grow_kernel(wp.float32, WIDTH, STEP)
KERNELS["fsai_fit"] = fsai_kernels.fit_kernel(wp.float32, WIDTH)


@pytest.fixture(scope="module")
def _used():
    """Has them specialised, by solving on the CPU."""
    blocks = wp.array(np.stack([2 * np.eye(2)] * 2), dtype=wp.mat22)
    sparse, b = wp.sparse.bsr_diag(blocks), wp.ones(4)
    dense = wp.array(2 * np.eye(4), dtype=wp.float32)
    for offsets in (None, wp.array([0, 2, 4], dtype=int)):
        for name in ("cg", "cr", "bicgstab", "gmres"):
            solve, inverse = getattr(linear, name), preconditioner(dense)
            solve(aslinearoperator(dense, offsets), b, wp.zeros_like(b), M=inverse, maxiter=4, check_every=0)
    for matrix in (dense, sparse, wp.full(4, 2.0)):
        matrix_grad = matrix.values if isinstance(matrix, wp.sparse.BsrMatrix) else matrix
        matrix_grad.requires_grad, right = True, wp.ones(4, requires_grad=True)
        x = wp.zeros_like(right)
        with wp.Tape() as tape:
            linear.cg(matrix, right, x)
        tape.backward(grads={x: wp.ones(4)})
    for inverse in (preconditioner(sparse, "block_jacobi_direct"), FSAI(sparse, WIDTH, reuse_pattern=True).update()):
        assert inverse is not None
        inverse.matvec(b, b, b, 1.0, 0.0)


@pytest.mark.skipif(not nvrtc.available(), reason="NVRTC is not installed")
@pytest.mark.usefixtures("_used")
@pytest.mark.parametrize("name", KERNELS)
def test_nvrtc(name):
    found = list(KERNELS[name].found.specialized.values())
    assert found, "no solver launches it"
    for kernel in found[:2]:
        (entry,) = compile_cuda(print_cuda(prepare(kernel)), (90,))
        assert entry.code.startswith(b"\x7fELF")
