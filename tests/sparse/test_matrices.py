"""Copies, transposes, sums and products of matrices: as dense ones are, on both faces."""

from __future__ import annotations

import copy
import pickle

import hypothesis
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.sparse
from hypothesis import strategies as st
from jax.test_util import check_grads
from sparsekit import SHAPES, dense, numpy, random_triplets, triplets

import jaxwarp as wp
from jaxwarp import sparse

FACES = ["matrix", "value"]


def like(t, seed):
    """Another matrix of the size and type."""
    return random_triplets(seed, t.nrow, t.ncol, len(t.rows) + 3, t.values.shape[1:] or None, t.values.dtype)


def right_of(t, seed=5, ncol=4):
    """A matrix that can be multiplied from the right."""
    r, c = t.block
    block = (c, r) if t.values.ndim == 3 else None
    return random_triplets(seed, t.ncol, ncol, len(t.rows), block, t.values.dtype)


# Copies


@hypothesis.given(triplets())
@hypothesis.settings(max_examples=15, deadline=None)
def test_transposes(t):
    with jax.enable_x64(True):
        for a in t.both:
            np.testing.assert_array_equal(dense(sparse.bsr_transposed(a)), t.dense.T)
            np.testing.assert_array_equal(dense((2.0 * a).transpose() @ identity(a)), 2 * t.dense.T)


def identity(a):
    """The identity that `a.transpose()` is multiplied with."""
    count, size = a.nrow, a.block_shape[0]
    block = wp.types.matrix((size, size), a.scalar_type) if a.dtype != a.scalar_type else a.scalar_type
    made = sparse.bsr_identity(count, block)
    return made if isinstance(a.values, wp.array) else jax.tree.map(jnp.asarray, made)


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("shape", [(1, 1), (2, 2), (2, 6), (4, 3), (8, 6), (4, 12), (1, 24)])
def test_blocks_of_another_shape(face, shape):
    t = random_triplets(nrow=6, ncol=8, count=12, block=(4, 6))
    a = getattr(t, face)
    made = sparse.bsr_copy(2.0 * a, block_shape=shape)
    assert made.block_shape == shape
    np.testing.assert_array_equal(dense(made), 2 * t.dense)


@pytest.mark.parametrize("face", FACES)
def test_another_scalar_type(face):
    t = random_triplets(block=(2, 3))
    with jax.enable_x64(True):
        made = sparse.bsr_copy(getattr(t, face), scalar_type=wp.float64)
        assert made.scalar_type == wp.float64
        np.testing.assert_array_equal(dense(made), t.dense)


def test_a_masked_copy_keeps_its_blocks():
    t = random_triplets(nrow=8, ncol=8, count=30, block=(1, 2))
    diagonal = sparse.bsr_diag(rows_of_blocks=4, block_type=wp.types.matrix((2, 4), wp.float32))
    sparse.bsr_assign(diagonal, t.matrix, topology="masked")
    kept = np.kron(np.eye(4), np.ones((2, 4)))
    np.testing.assert_array_equal(dense(diagonal), t.dense * kept)
    np.testing.assert_array_equal(diagonal.columns.numpy(), np.arange(4))


def test_what_structure_only_is():
    t = random_triplets(count=30)
    made = sparse.bsr_copy(t.matrix, structure_only=True)
    whole = t.matrix
    assert made.nnz_sync() == whole.nnz_sync()
    np.testing.assert_array_equal(made.offsets.numpy(), whole.offsets.numpy())
    assert made.values.shape[0] >= made.nnz


def unsorted(seed=0, face="matrix", row_counts=None):
    """A matrix with columns in any order, twice and outside, and what it is."""
    rng = np.random.default_rng(seed)
    offsets = np.array([0, 5, 5, 9, 12], np.int32)
    columns = rng.integers(-1, 6, 12).astype(np.int32)
    values = rng.integers(-2, 3, (12, 2, 2)).astype(np.float32)
    whole = np.zeros((8, 10))
    for row in range(4):
        end = offsets[row + 1] if row_counts is None else offsets[row] + row_counts[row]
        for b in range(offsets[row], end):
            if 0 <= columns[b] < 5:
                whole[2 * row : 2 * row + 2, 2 * columns[b] : 2 * columns[b] + 2] += values[b]
    made = sparse.bsr_zeros(4, 5, wp.mat22)
    made.offsets, made.columns = wp.array(offsets), wp.array(columns)
    assert made.nnz_sync() == 12
    made.values = wp.array(values, dtype=wp.mat22, requires_grad=True)
    made.row_counts = None if row_counts is None else wp.array(np.array(row_counts, np.int32))
    return made if face == "matrix" else jax.tree.map(jnp.asarray, made), whole


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("row_counts", [None, [3, 0, 4, 1]])
@pytest.mark.parametrize("prune", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_compression(face, row_counts, prune, seed):
    a, whole = unsorted(seed, face, row_counts)
    made = sparse.bsr_compress(a, prune_numerical_zeros=prune)
    assert (made is a) == (face == "matrix")
    assert made.row_counts is None
    np.testing.assert_array_equal(dense(made), whole)


def test_a_compression_that_keeps_capacity():
    a, whole = unsorted(row_counts=[3, 0, 4, 1])
    sparse.bsr_compress(a, topology="padded")
    np.testing.assert_array_equal(a.offsets.numpy(), [0, 5, 5, 9, 12])
    np.testing.assert_array_equal(dense(a), whole)
    assert a.status_message() == "success"


def test_a_compression_of_the_structure():
    a, _ = unsorted()
    before = a.values.numpy().copy()
    sparse.bsr_compress(a, structure_only=True)
    np.testing.assert_array_equal(a.values.numpy(), before)
    assert a.nnz_sync() == len({(r, c) for r, c in zip(*structure(unsorted()[0]), strict=True) if 0 <= c < 5})


def structure(a):
    return a.uncompress_rows().numpy(), a.columns.numpy()


# Sums


@hypothesis.given(triplets(), st.sampled_from([0.0, 1.0, -2.0]), st.sampled_from([0.0, 1.0, 3.0]))
@hypothesis.settings(max_examples=25, deadline=None)
def test_sums(t, alpha, beta):
    u = like(t, seed=9)
    with jax.enable_x64(True):
        for x, y in zip(t.both, u.both, strict=True):
            found = sparse.bsr_axpy(x, y, alpha, beta)
            assert (found is y) == isinstance(y.values, wp.array)
            np.testing.assert_array_equal(dense(found), alpha * t.dense + beta * u.dense)
            np.testing.assert_array_equal(dense(x), t.dense)


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("shape", SHAPES)
def test_operators(face, shape):
    t = random_triplets(block=shape)
    u = like(t, seed=9)
    x, y = getattr(t, face), getattr(u, face)
    a, b = t.dense, u.dense
    for found, expected in (
        (x + y, a + b),
        (x - y, a - b),
        (2.0 * x + y, 2 * a + b),
        (y - x * 2.0, b - 2 * a),
        (x / 2.0 - 3.0 * y, a / 2 - 3 * b),
        (-x - y, -a - b),
    ):
        np.testing.assert_array_equal(dense(found), expected)
    np.testing.assert_array_equal(dense(x), a)
    np.testing.assert_array_equal(dense(y), b)
    x += y
    np.testing.assert_array_equal(dense(x), a + b)
    x -= 2.0 * y
    np.testing.assert_array_equal(dense(x), a - b)
    x *= 3.0
    np.testing.assert_array_equal(dense(x), 3 * (a - b))


def test_sums_with_itself():
    t = random_triplets()
    x = t.matrix
    sparse.bsr_axpy(x, x, 2.0, 3.0)
    np.testing.assert_array_equal(dense(x), 5 * t.dense)
    x += x * 2.0
    np.testing.assert_array_equal(dense(x), 15 * t.dense)


@pytest.mark.parametrize("face", FACES)
def test_a_masked_sum(face):
    t = random_triplets(count=30, block=(2, 3))
    u = like(t, seed=9)
    mask = np.kron(blocks(u), np.ones((2, 3)))
    found = sparse.bsr_axpy(getattr(t, face), getattr(u, face), 2.0, -1.0, topology="masked")
    np.testing.assert_array_equal(dense(found), 2 * t.dense * mask - u.dense)


def blocks(t):
    """Where a matrix of the triplets has blocks."""
    found = np.zeros((t.nrow, t.ncol), bool)
    for row, column, value in zip(t.rows, t.columns, t.values, strict=True):
        if 0 <= row < t.nrow and 0 <= column < t.ncol and np.any(value):
            found[row, column] = True
    return found


# Products


@hypothesis.given(triplets(), st.sampled_from([1.0, -2.0, 0.0]), st.sampled_from([0.0, 3.0]))
@hypothesis.settings(max_examples=25, deadline=None)
def test_products(t, alpha, beta):
    u = right_of(t)
    r = t.block[0]
    w = random_triplets(8, t.nrow, 4, 9, (r, r) if t.values.ndim == 3 else None, t.values.dtype)
    with jax.enable_x64(True):
        for x, y, z in zip(t.both, u.both, w.both, strict=True):
            np.testing.assert_array_equal(dense(x @ y), t.dense @ u.dense)
            found = sparse.bsr_mm(x, y, z, alpha, beta)
            assert (found is z) == isinstance(z.values, wp.array)
            np.testing.assert_array_equal(dense(found), alpha * t.dense @ u.dense + beta * w.dense)


@pytest.mark.parametrize("face", FACES)
@pytest.mark.parametrize("shapes", [((9, 8), (8, 2)), ((2, 30), (30, 3)), ((1, 3), (3, 1)), ((3, 1), (1, 3))])
def test_products_of_other_blocks(face, shapes):
    t = random_triplets(1, 4, 5, 12, shapes[0])
    u = random_triplets(2, 5, 3, 9, shapes[1])
    found = getattr(t, face) @ getattr(u, face)
    np.testing.assert_array_equal(dense(found), t.dense @ u.dense)
    assert found.nnz_sync() == np.count_nonzero(blocks(t).astype(int) @ blocks(u).astype(int))


@pytest.mark.parametrize("face", FACES)
def test_the_blocks_of_a_product_are_those_of_scipy(face):
    t, u = (random_triplets(seed, *size, 200) for seed, size in ((3, (40, 30)), (4, (30, 50))))
    t, u = (x._replace(values=np.abs(x.values)) for x in (t, u))  # SciPy leaves out what cancels
    found = getattr(t, face) @ getattr(u, face)
    expected = scipy.sparse.csr_matrix(t.dense) @ scipy.sparse.csr_matrix(u.dense)
    expected.sort_indices()
    count = found.nnz_sync()
    np.testing.assert_array_equal(numpy(found.offsets), expected.indptr)
    np.testing.assert_array_equal(numpy(found.columns)[:count], expected.indices)
    np.testing.assert_array_equal(numpy(found.values)[:count], expected.data)


def test_products_into_a_factor():
    t, u = random_triplets(nrow=6, ncol=6), random_triplets(7, nrow=6, ncol=6)
    x, y = t.matrix, u.matrix
    sparse.bsr_mm(x, y, y, 2.0, 3.0)
    np.testing.assert_array_equal(dense(y), 2 * t.dense @ u.dense + 3 * u.dense)
    sparse.bsr_mm(x, x, x, 2.0, -1.0)
    np.testing.assert_array_equal(dense(x), 2 * t.dense @ t.dense - t.dense)
    y = u.matrix
    y @= u.matrix
    np.testing.assert_array_equal(dense(y), u.dense @ u.dense)


@pytest.mark.parametrize("face", FACES)
def test_a_masked_product(face):
    t = random_triplets(nrow=6, ncol=5, count=20, block=(2, 3))
    u = right_of(t, ncol=6)
    z = sparse.bsr_diag(rows_of_blocks=6, block_type=wp.mat22)
    z = z if face == "matrix" else jax.tree.map(jnp.asarray, z)
    found = sparse.bsr_mm(getattr(t, face), getattr(u, face), z, topology="masked")
    np.testing.assert_array_equal(dense(found), t.dense @ u.dense * np.kron(np.eye(6), np.ones((2, 2))))


def test_a_product_whose_blocks_are_known():
    t = random_triplets(nrow=6, ncol=5, count=20)
    u = right_of(t)
    work = sparse.bsr_mm_work_arrays()
    x, y, z = t.matrix, u.matrix, sparse.bsr_zeros(6, 4, wp.float32)
    sparse.bsr_mm(x, y, z, work_arrays=work)
    columns = z.columns.numpy().copy()
    sparse.bsr_scale(x, 3.0)
    for _ in range(3):
        sparse.bsr_mm(x, y, z, work_arrays=work, reuse_topology=True)
        np.testing.assert_array_equal(dense(z), 3 * t.dense @ u.dense)
        np.testing.assert_array_equal(z.columns.numpy(), columns)
        sparse.bsr_set_zero(z)
        z.columns.zero_()


def test_traced_products_have_room_or_tell():
    t = random_triplets(nrow=6, ncol=5, count=20)
    u = right_of(t)
    count = (t.value @ u.value).nnz_sync()
    for room in (count, count + 7):
        found = jax.jit(lambda x, y, room=room: sparse.bsr_mm(x, y, max_new_nnz=room))(t.value, u.value)
        assert found.nnz == room
        np.testing.assert_array_equal(dense(found), t.dense @ u.dense)
    short = jax.jit(lambda x, y: sparse.bsr_mm(x, y, max_new_nnz=count - 1))(t.value, u.value)
    assert np.isnan(short.values).all()
    assert numpy(short.offsets)[-1] == count - 1
    with pytest.raises(wp.KernelError, match=r"bsr_mm: max_new_nnz: expected room for a block at least, got 0"):
        jax.jit(lambda x, y: sparse.bsr_mm(x, y, max_new_nnz=0))(t.value, u.value)
    with pytest.raises(wp.KernelError, match=r"not known in a capture, or when JAX traces it"):
        jax.jit(sparse.bsr_mm)(t.value, u.value)
    with pytest.raises(wp.KernelError, match=f"the number of blocks, {count}, has exceeded {count - 1}"):
        sparse.bsr_mm(t.matrix, u.matrix, max_new_nnz=count - 1)


@pytest.mark.parametrize("room", [1, 2])
def test_derivatives_of_a_product_without_room_are_nan(room):
    def sums(values):
        a = sparse.bsr_from_triplets(2, 2, np.int32([0, 0, 1]), np.int32([0, 1, 1]), values)
        work = sparse.bsr_mm_work_arrays()
        first = sparse.bsr_mm(a, a, work_arrays=work, max_new_nnz=room)
        again = sparse.bsr_mm(2.0 * a, a, work_arrays=work, reuse_topology=True)
        return first.values.sum(), again.values.sum()

    values = jnp.array([1.0, 2.0, 3.0])
    assert np.isnan(jax.jit(sums)(values)).all() == (room > 0)  # without a block there is no number
    assert np.isnan(jax.tree.leaves(jax.jit(jax.jacrev(sums))(values))).all()
    assert np.isnan(jax.tree.leaves(jax.jit(jax.jacfwd(sums))(values))).all() == (room > 0)


@pytest.mark.parametrize("face", FACES)
def test_a_factor_of_zero_takes_what_is_not_finite_away(face):
    t = random_triplets(nrow=5, ncol=5, count=20)
    endless = t._replace(values=np.where(t.values > 0, np.float32(np.inf), t.values))
    operations = {
        "sum": lambda x, y: sparse.bsr_axpy(x, y, alpha=0.0),
        "copy": lambda x, y: sparse.bsr_axpy(x, alpha=0.0),
        "sum of none": lambda x, y: sparse.bsr_axpy(x, y, alpha=0.0, beta=0.0),
        "masked": lambda x, y: sparse.bsr_axpy(y, x, alpha=0.0, beta=0.0, topology="masked"),
        "product": lambda x, y: sparse.bsr_mm(x, y, alpha=0),
        "product and sum": lambda x, y: sparse.bsr_mm(x, y, y, alpha=0.0, beta=np.float32(3)),
        "scale": lambda x, y: sparse.bsr_scale(x, 0),
        "transpose": lambda x, y: sparse.bsr_transposed(0.0 * x),
    }
    for name, operation in operations.items():
        expected = {"sum": 1, "product and sum": 3}.get(name, 0) * t.dense
        found = operation(getattr(endless, face), getattr(t, face))
        np.testing.assert_array_equal(dense(found), expected, name)


def test_blocks_of_zeros_have_gradients():
    rows, columns, x = np.int32([0, 1, 1]), np.int32([1, 0, 1]), np.float32([3, 5])

    def of(values):
        a = sparse.bsr_compress(sparse.bsr_from_triplets(2, 2, rows, columns, values))
        return (a @ x).sum()

    values = jnp.array([0.0, 2.0, 0.0])
    np.testing.assert_array_equal(jax.grad(of)(values), x[columns])
    np.testing.assert_array_equal(jax.jvp(of, (values,), (jnp.array([1.0, 0.0, 1.0]),))[1], 10)
    ours = wp.array(values, dtype=float, requires_grad=True)
    a = sparse.bsr_zeros(2, 2, float)
    with wp.Tape() as tape:
        sparse.bsr_set_from_triplets(a, wp.array(rows), wp.array(columns), ours)
        y = sparse.bsr_compress(a) @ wp.array(x)
    tape.backward(grads={y: wp.ones(2, dtype=float)})
    np.testing.assert_array_equal(ours.grad.numpy(), x[columns])
    of_zeros = wp.array(rows), wp.array(columns), wp.array(np.float32([0, 2, 0]))
    assert sparse.bsr_from_triplets(2, 2, *of_zeros).nnz_sync() == 1, "without derivatives they are left out"


# Transformations and derivatives


def test_programs_of_jax():
    t = random_triplets(nrow=5, ncol=5, count=12, block=(2, 2))
    u = like(t, seed=9)

    @jax.jit
    def program(rows, columns, values, other):
        a = sparse.bsr_from_triplets(5, 5, rows, columns, values)
        a = sparse.bsr_axpy(a, other, 2.0, 1.0)
        a = sparse.bsr_compress(sparse.bsr_transposed(a) * 0.5)
        return sparse.bsr_mm(a, a, max_new_nnz=25), sparse.bsr_get_diag(a), sparse.bsr_copy(a, block_shape=(1, 2))

    square, diagonal, copied = program(t.rows, t.columns, t.values, u.value)
    a = 0.5 * (2 * t.dense + u.dense).T
    np.testing.assert_array_equal(dense(square), a @ a)
    np.testing.assert_array_equal(dense(copied), a)
    np.testing.assert_array_equal(diagonal, [a[i : i + 2, i : i + 2] for i in range(0, 10, 2)])


def with_values(a, values):
    return jax.tree.unflatten(jax.tree.structure(a), [*jax.tree.leaves(a)[:-1], values])


DIFFERENTIATED = {
    "sum": lambda x, y: 2.0 * x - y,
    "product": lambda x, y: sparse.bsr_mm(x, y, x, 2.0, 3.0, max_new_nnz=60),
    "masked product": lambda x, y: sparse.bsr_mm(x, y, x, 2.0, 3.0, topology="masked"),
    "transpose": lambda x, _: sparse.bsr_transposed(x),
    "copy": lambda x, _: sparse.bsr_copy(x * 2.0, block_shape=(1, 1)),
    "compression": lambda x, _: sparse.bsr_compress(x),
}


@pytest.mark.parametrize("name", DIFFERENTIATED)
def test_derivatives(name):
    t = random_triplets(nrow=5, ncol=5, count=12, block=(2, 2), dtype=np.float64)
    with jax.enable_x64(True):
        x, y = t.value, like(t, seed=9).value

        def result(x_values, y_values):
            return DIFFERENTIATED[name](with_values(x, x_values), with_values(y, y_values)).values

        check_grads(jax.jit(result), (x.values, y.values), order=2)


@pytest.mark.parametrize("name", DIFFERENTIATED)
def test_tapes_give_the_gradients_of_jax(name):
    """Of a weighted sum of what the result has at each place."""
    t = random_triplets(nrow=5, ncol=5, count=12, block=(2, 2))
    u = like(t, seed=9)
    x, y = t.matrix, u.matrix
    x.values.requires_grad = y.values.requires_grad = True
    weights = np.arange(10.0, dtype=np.float32)
    with wp.Tape() as tape:
        found = DIFFERENTIATED[name](sparse.bsr_copy(x), sparse.bsr_copy(y))
        found = found if isinstance(found, sparse.BsrMatrix) else found.eval()
        product = found @ wp.array(weights)
    shape = (-1, *found.block_shape[:1]) if found.block_shape[0] > 1 else -1
    tape.backward(grads={product: wp.array(weights[::-1].reshape(shape).copy(), dtype=product.dtype)})

    def loss(x_values, y_values):
        a = DIFFERENTIATED[name](with_values(t.value, x_values), with_values(u.value, y_values))
        return (a @ weights) @ weights[::-1]

    by_x, by_y = jax.jit(jax.grad(loss, argnums=(0, 1)))(t.value.values, u.value.values)
    np.testing.assert_allclose(x.values.grad.numpy(), by_x, rtol=1e-6)
    np.testing.assert_allclose(y.values.grad.numpy(), by_y, rtol=1e-6)


# Structs


def test_matrices_are_arguments_of_kernels():
    t = random_triplets(block=(3, 3))

    @wp.kernel
    def at(a: sparse.BsrMatrix[wp.mat33], out: wp.array2d[float]):
        i, j = wp.tid()
        block = sparse.bsr_block_index(i // 3, j // 3, a.offsets, a.columns, a.row_counts)
        if block >= 0 and sparse.bsr_row_index(a.offsets, a.nrow, block, a.row_counts) == i // 3:
            out[i, j] = a.values[block][i % 3, j % 3]

    out = wp.zeros(t.dense.shape)
    wp.launch(at, t.dense.shape, [t.matrix], [out])
    np.testing.assert_array_equal(out.numpy(), t.dense)
    (found,) = jax.jit(wp.jax_kernel(at, launch_dims=t.dense.shape, output_dims=t.dense.shape))(t.value)
    np.testing.assert_array_equal(found, t.dense)


def test_copies_of_the_object():
    t = random_triplets(block=(2, 3))
    a = t.matrix
    other = copy.deepcopy(a)
    sparse.bsr_scale(other, 2.0)
    np.testing.assert_array_equal(dense(a), t.dense)
    np.testing.assert_array_equal(dense(other), 2 * t.dense)
    value = t.value
    np.testing.assert_array_equal(dense(pickle.loads(pickle.dumps(value))), t.dense)
    assert type(value) is sparse.bsr_matrix_t(wp.types.matrix((2, 3), wp.float32))
