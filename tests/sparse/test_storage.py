"""Rows with a capacity, masks, maps of triplets, what is told of a matrix, and what is refused."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sparsekit import dense, random_triplets

import jaxwarp as wp
from jaxwarp import sparse


def padded(t, capacity=6):
    """A matrix whose rows have a capacity."""
    made = sparse.bsr_zeros(t.nrow, t.ncol, t.element, row_capacity=capacity)
    sparse.bsr_set_from_triplets(made, *t.outside(), topology="padded")
    return made


@pytest.mark.parametrize("block", [None, (2, 3)])
def test_rows_with_a_capacity_are_read_everywhere(block):
    t = random_triplets(nrow=5, ncol=5, block=block)
    a = padded(t)
    assert a.status_sync() == sparse.BSR_STATUS_SUCCESS
    np.testing.assert_array_equal(a.offsets.numpy(), np.arange(0, 31, 6))
    np.testing.assert_array_equal(dense(a), t.dense)
    rows = a.uncompress_rows().numpy().reshape(5, 6)
    np.testing.assert_array_equal((rows >= 0).sum(1), a.row_counts.numpy())
    assert set(np.unique(rows)) <= {-1, 0, 1, 2, 3, 4}
    x = wp.ones(t.dense.shape[1], dtype=float)
    np.testing.assert_array_equal((a @ x).numpy().ravel(), t.dense.sum(1))
    y = wp.ones(t.dense.shape[0], dtype=float)
    np.testing.assert_array_equal((y @ a).numpy().ravel(), t.dense.sum(0))
    np.testing.assert_array_equal(sparse.bsr_get_diag(a).numpy(), sparse.bsr_get_diag(t.matrix).numpy())
    for made in (sparse.bsr_copy(a), sparse.bsr_copy(a, topology="padded"), a + a - a):
        np.testing.assert_array_equal(dense(made), t.dense)
    transposed = sparse.bsr_transposed(a)
    np.testing.assert_array_equal(dense(transposed), t.dense.T)
    np.testing.assert_array_equal(dense(a @ transposed), t.dense @ t.dense.T)
    np.testing.assert_array_equal(dense(transposed @ a), t.dense.T @ t.dense)
    value = jax.tree.map(jnp.asarray, a)
    np.testing.assert_array_equal(jax.jit(lambda a: a @ jnp.ones(a.shape[1]))(value), t.dense.sum(1))


@pytest.mark.parametrize("shape", [(2, 6), (4, 3), (8, 12), (1, 12), (8, 3)])
def test_a_copy_in_other_blocks_keeps_capacity(shape):
    t = random_triplets(nrow=6, ncol=4, block=(4, 6))
    made = sparse.bsr_copy(padded(t), block_shape=shape, topology="padded")
    assert made.status_message() == "success"
    np.testing.assert_array_equal(dense(made), t.dense)
    down, across = max(shape[0] // 4, 1), max(6 // shape[1], 1)
    np.testing.assert_array_equal(np.diff(made.offsets.numpy()), 6 * down * across)


def test_results_in_rows_with_a_capacity():
    t, u = random_triplets(nrow=5, ncol=5, block=(2, 2)), random_triplets(9, nrow=5, ncol=5, block=(2, 2))
    a, b = t.dense, u.dense
    for operation, expected in (
        (lambda z: sparse.bsr_assign(z, t.matrix, topology="padded"), a),
        (lambda z: sparse.bsr_set_transpose(z, t.matrix, topology="padded"), a.T),
        (lambda z: sparse.bsr_axpy(t.matrix, z, 2.0, 3.0, topology="padded"), 2 * a + 3 * b),
        (lambda z: sparse.bsr_mm(t.matrix, z, z, 2.0, 3.0, topology="padded"), 2 * a @ b + 3 * b),
    ):
        z = padded(u)
        operation(z)
        np.testing.assert_array_equal(z.offsets.numpy(), np.arange(0, 31, 6))
        np.testing.assert_array_equal(dense(z), expected)
        assert z.status_message() == "success"


def test_a_row_without_room_is_empty_and_told():
    t = random_triplets(nrow=5, ncol=5, count=30)
    counts = np.diff(t.matrix.offsets.numpy())
    a = padded(t, capacity=int(counts.max()) - 1)
    assert a.status_sync() == sparse.BSR_STATUS_ROW_CAPACITY_EXCEEDED
    assert a.status_message() == "row capacity exceeded"
    np.testing.assert_array_equal(a.row_counts.numpy(), np.where(counts == counts.max(), 0, counts))
    np.testing.assert_array_equal(dense(a), t.dense * (counts < counts.max())[:, None])
    a.clear_status()
    assert a.status_sync() == sparse.BSR_STATUS_SUCCESS


def test_a_capacity_for_each_row():
    capacity = np.array([2, 0, 3, 1], np.int32)
    a = sparse.bsr_zeros(4, 6, wp.mat22, row_capacity=wp.array(capacity))
    assert (a.nnz, a.values.shape[0]) == (6, 6)
    np.testing.assert_array_equal(a.offsets.numpy(), [0, 2, 2, 5, 6])
    sparse.bsr_set_zero(a, 6, 6, topology="padded")
    np.testing.assert_array_equal(a.offsets.numpy(), [0, 2, 2, 5, 6, 6, 6])
    sparse.bsr_set_zero(a, topology="padded", row_capacity=1, nnz_capacity=9)
    assert (a.nnz, a.columns.shape[0]) == (6, 9)
    sparse.bsr_set_zero(a)
    assert (a.nnz_sync(), a.row_counts) == (0, None)


# Masks and maps


def test_triplets_into_blocks_that_are_there():
    t, u = random_triplets(count=12, block=(2, 3)), random_triplets(3, count=40, block=(2, 3))
    a = t.matrix
    before = a.columns.numpy().copy()
    sparse.bsr_set_from_triplets(a, *u.outside(), topology="masked")
    np.testing.assert_array_equal(a.columns.numpy(), before)
    kept = np.zeros((7, 5), bool)
    offsets = a.offsets.numpy()
    for row in range(7):
        kept[row, before[offsets[row] : offsets[row + 1]]] = True
    np.testing.assert_array_equal(dense(a), u.dense * np.kron(kept, np.ones((2, 3))))


def test_how_many_triplets_there_are():
    t = random_triplets(count=30)
    for topology, made in (("compact", sparse.bsr_zeros(7, 5, float)), ("padded", padded(t))):
        sparse.bsr_set_from_triplets(made, *t.outside(), count=wp.array([11], dtype=int), topology=topology)
        few = t._replace(rows=t.rows[:11], columns=t.columns[:11], values=t.values[:11])
        np.testing.assert_array_equal(dense(made), few.dense)


@pytest.mark.parametrize("block", [None, (2, 3), (9, 8)])
@pytest.mark.parametrize("reduction", ["gather", "atomic"])
def test_maps_fill_a_matrix_again(block, reduction):
    t = random_triplets(count=30, block=block)
    rows, columns, _ = t.outside()
    a = sparse.bsr_zeros(7, 5, t.element)
    mapping = sparse.BsrTripletMap(capacity=8)
    assert sparse.bsr_set_from_triplets(a, rows, columns, prune_numerical_zeros=False, build_mapping=mapping) is mapping
    assert (mapping.triplet_count, mapping.capacity) == (30, 30)
    for seed in (1, 2):
        other = t._replace(values=random_triplets(seed, count=30, block=block).values)
        values = other.outside(requires_grad=True)[2]
        a.values.requires_grad = True
        with wp.Tape() as tape:
            sparse.bsr_set_from_mapped_values(a, mapping, values, reduction)
        np.testing.assert_array_equal(dense(a), other.dense)
        tape.backward(grads={a.values: wp.full(a.values.shape, 1, dtype=a.dtype) if block is None else ones_like(a)})
        inside = (t.rows >= 0) & (t.rows < 7) & (t.columns >= 0) & (t.columns < 5)
        np.testing.assert_array_equal(values.grad.numpy().reshape(30, -1).all(1), inside)
    with pytest.raises(wp.KernelError, match="expected the matrix that it was built for"):
        sparse.bsr_set_from_mapped_values(t.matrix, mapping, values)


def test_a_map_is_of_the_blocks_that_it_was_built_for():
    t, u = random_triplets(1), random_triplets(2)
    a = sparse.bsr_zeros(7, 5, float)
    mapping = sparse.bsr_set_from_triplets(a, *t.outside(), prune_numerical_zeros=False, build_mapping=True)
    sparse.bsr_set_from_triplets(a, *u.outside(), prune_numerical_zeros=False)  # in the same arrays
    for reduction in ("gather", "atomic"):
        with pytest.raises(wp.KernelError, match="expected the matrix that it was built for"):
            sparse.bsr_set_from_mapped_values(a, mapping, t.outside()[2], reduction)
    np.testing.assert_array_equal(dense(a), u.dense)


@pytest.mark.parametrize("reduction", ["gather", "atomic", "masked"])
def test_values_of_a_matrix_into_its_own_blocks(reduction):
    a = sparse.bsr_zeros(2, 2, float)
    given = (wp.array([0, 0, 1], dtype=int), wp.array([0, 1, 1], dtype=int), wp.array([1.0, 2.0, 3.0], dtype=float))
    mapping = sparse.bsr_set_from_triplets(a, *given, prune_numerical_zeros=False, build_mapping=True)
    if reduction == "masked":
        sparse.bsr_set_from_triplets(a, *given[:2], a.values, topology="masked")
    else:
        sparse.bsr_set_from_mapped_values(a, mapping, a.values, reduction)
    np.testing.assert_array_equal(dense(a), [[1, 2], [0, 3]])


def ones_like(a):
    return wp.array(np.ones((a.values.shape[0], *a.block_shape), np.float32), dtype=a.dtype)


# What is told of a matrix


def test_what_is_told():
    a = random_triplets(block=(2, 3)).matrix
    assert (a.shape, a.block_shape, a.block_size, a.nrow, a.ncol) == ((14, 15), (2, 3), 6, 7, 5)
    assert (a.scalar_type, a.dtype) == (wp.float32, wp.types.matrix((2, 3), wp.float32))
    assert a.scalar_values.shape == (20, 2, 3)
    assert (a.device.alias if hasattr(a.device, "alias") else str(a.device)) == "cpu"
    assert isinstance(a, sparse.BsrMatrix)
    assert a.nnz == 20
    assert a.nnz_sync() == a.nnz == a.offsets.numpy()[-1]


def test_others_change_a_matrix():
    a = sparse.bsr_zeros(3, 4, float)
    a.notify_nnz_changed(10)
    assert (a.nnz, a.columns.shape[0], a.nnz_sync()) == (10, 10, 0)
    a.offsets.assign(np.array([0, 2, 3, 6], np.int32))
    a.notify_nnz_changed()
    assert a.nnz == 6
    with pytest.raises(wp.KernelError, match="nnz_capacity: expected at least nnz, 6, got 3"):
        a.notify_nnz_changed(6, 3)


def test_a_capture_makes_the_same_again():
    t = random_triplets(nrow=5, ncol=5)
    rows, columns, values = t.outside()
    x, y = wp.ones(5, dtype=float), wp.zeros(5, dtype=float)
    with wp.ScopedCapture() as capture:
        a = sparse.bsr_from_triplets(5, 5, rows, columns, values)
        square = sparse.bsr_mm(a, a, max_new_nnz=25)
        sparse.bsr_mv(square, x, y)
    for factor in (1.0, 2.0):
        values.assign(t.values * factor)
        wp.capture_launch(capture.graph)
        np.testing.assert_array_equal(y.numpy(), (t.dense @ t.dense * factor**2).sum(1))


# What is refused

A = random_triplets(nrow=3, ncol=4, block=(2, 2))
ROWS = wp.zeros(3, dtype=int)
VALUES = wp.zeros(3, dtype=wp.mat22)


OF_INT = sparse.bsr_identity(3, int)


def with_values(a, values):
    a.values = values
    return a


def product_with_work_of(size, other):
    work, (a, b) = sparse.bsr_mm_work_arrays(), (sparse.bsr_identity(n, float) for n in (size, other))
    sparse.bsr_mm(a, a, work_arrays=work)
    return sparse.bsr_mm(b, b, work_arrays=work, reuse_topology=True)


def wide():
    """Its places fit in 32 bits, those of its numbers do not."""
    place = wp.array([0], dtype=int), wp.array([2**30 - 1], dtype=int)
    return sparse.bsr_from_triplets(1, 2**30, *place, wp.ones(1, dtype=wp.mat33))


@pytest.mark.parametrize(
    ("message", "call"),
    {
        "BsrMatrix block type must be either warp matrix or scalar; got vec": lambda: sparse.bsr_zeros(2, 2, wp.vec3),
        "bsr_zeros: rows_of_blocks must be nonnegative": lambda: sparse.bsr_zeros(-1, 2, float),
        "bsr_zeros: topology: expected 'compact' or 'padded', got 'loose'": lambda: sparse.bsr_zeros(
            1, 2, float, topology="loose"
        ),
        "bsr_zeros: row_capacity: expected int32 of shape (2,)": lambda: sparse.bsr_zeros(
            2, 2, float, row_capacity=wp.zeros(3, dtype=int)
        ),
        "arrays with one axis and the same length, got shapes (3,) and (2,)": lambda: sparse.bsr_from_triplets(
            3, 3, ROWS, ROWS[:2], VALUES
        ),
        "values: expected 3 of shape (2, 2), as many as rows, got an array of shape (2, 2, 2)": lambda: (
            sparse.bsr_from_triplets(3, 3, ROWS, ROWS, VALUES[:2])
        ),
        "bsr_from_triplets: got float32 and float32: Rows and columns arrays must be of type int32": lambda: (
            sparse.bsr_from_triplets(3, 3, wp.zeros(3), wp.zeros(3), VALUES)
        ),
        "bsr_set_from_triplets: values: expected numbers of float32, got float64": lambda: sparse.bsr_set_from_triplets(
            A.matrix, ROWS, ROWS, wp.zeros(3, dtype=wp.mat22d)
        ),
        "bsr_set_from_triplets: topology: Unsupported topology policy: loose": lambda: sparse.bsr_set_from_triplets(
            A.matrix, ROWS, ROWS, VALUES, topology="loose"
        ),
        "bsr_set_from_triplets: build_mapping requires prune_numerical_zeros=False": lambda: (
            sparse.bsr_set_from_triplets(A.matrix, ROWS, ROWS, VALUES, build_mapping=True)
        ),
        "bsr_set_from_triplets: the matrix is a value of JAX, which never changes": lambda: (
            sparse.bsr_set_from_triplets(A.value, ROWS, ROWS, VALUES)
        ),
        "bsr_axpy: Matrices must have the same number of rows and columns, got (3, 4) and (4, 3)": lambda: (
            sparse.bsr_axpy(A.matrix, sparse.bsr_transposed(A.matrix))
        ),
        "bsr_axpy: Matrices must have the same block type": lambda: sparse.bsr_axpy(
            A.matrix, sparse.bsr_zeros(3, 4, wp.mat33)
        ),
        "bsr_axpy: y: expected a matrix with topology='masked', got None": lambda: sparse.bsr_axpy(
            A.matrix, topology="masked"
        ),
        "bsr_mm: Incompatible number of rows/columns for matrix multiplication, got (3, 4) times (3, 4)": lambda: (
            sparse.bsr_mm(A.matrix, A.matrix)
        ),
        "bsr_mm: Incompatible block sizes for matrix multiplication, got (2, 2) times (3, 3)": lambda: sparse.bsr_mm(
            A.matrix, sparse.bsr_zeros(4, 4, wp.mat33)
        ),
        "bsr_mm: y: expected a matrix of float32, as x is, got one of float64": lambda: sparse.bsr_mm(
            A.matrix, sparse.bsr_zeros(4, 4, wp.mat22d)
        ),
        "bsr_mm: work_arrays: expected those of a call before": lambda: sparse.bsr_mm(
            A.matrix, sparse.bsr_zeros(4, 4, wp.mat22), reuse_topology=True
        ),
        "block shapes; block rows must evenly divide one another, got 3 and 2": lambda: sparse.bsr_copy(
            A.matrix, block_shape=(3, 2)
        ),
        "(4, 2) does not evenly divide the source matrix of total size (6, 8)": lambda: sparse.bsr_copy(
            A.matrix, block_shape=(4, 2)
        ),
        "bsr_set_transpose: Destination block shape must be (3, 2), got (2, 3)": lambda: sparse.bsr_set_transpose(
            *[sparse.bsr_zeros(2, 2, wp.types.matrix((2, 3), float))] * 2
        ),
        "bsr_diag: rows_of_blocks and/or cols_of_blocks must be provided": lambda: sparse.bsr_diag(1.0),
        "BsrMatrix: values: expected an array of mat2x2[float32], got one of float32": lambda: setattr(
            A.matrix, "values", wp.zeros(3)
        ),
        "bsr_scale: alpha: expected a number, got 'x'": lambda: sparse.bsr_scale(A.matrix, "x"),
        "bsr_axpy: beta: expected a number, got [1]": lambda: sparse.bsr_axpy(A.matrix, A.matrix, beta=[1]),
        "bsr_scale: alpha: expected a number of int32, as the matrix is, got 0.5": lambda: sparse.bsr_scale(
            OF_INT, 0.5
        ),
        "*: factor: expected a number of int32, as the matrix is, got 0.5": lambda: OF_INT / 2,
        "bsr_axpy: beta: expected a number of int32, as the matrix is, got 10000000000": lambda: sparse.bsr_axpy(
            OF_INT, OF_INT, beta=10**10
        ),
        "bsr_mv: alpha: expected a number of int32, as the matrix is, got nan": lambda: sparse.bsr_mv(
            OF_INT, wp.zeros(3, dtype=int), alpha=np.nan
        ),
        "bsr_from_triplets: rows: expected numbers of int32, got int64 that do not fit": lambda: (
            sparse.bsr_from_triplets(3, 3, np.array([2**32]), np.array([0]), np.float32([1]))
        ),
        "bsr_from_triplets: rows: expected an array, got None": lambda: sparse.bsr_from_triplets(
            3, 3, None, ROWS, VALUES
        ),
        "bsr_from_triplets: values: expected numbers, none of them complex, got complex64": lambda: (
            sparse.bsr_from_triplets(3, 3, [0], [0], jnp.ones(1, jnp.complex64))
        ),
        "bsr_set_from_triplets: count: expected an array of one int32, got 1": lambda: sparse.bsr_set_from_triplets(
            A.matrix, ROWS, ROWS, VALUES, count=1
        ),
        "bsr_copy: expected a scalar type and two extents, got None, 3": lambda: sparse.bsr_copy(
            A.matrix, block_shape=3
        ),
        "bsr_scale: alpha: expected a number, got": lambda: sparse.bsr_scale(A.value, jnp.complex64(1j)),
        "BsrMatrix block type must be either warp matrix or scalar; got None": lambda: sparse.bsr_zeros(2, 2, None),
        "bsr_diag: cols_of_blocks must be nonnegative": lambda: sparse.bsr_diag(jnp.ones(3), 3, -1),
        "bsr_zeros: row_capacity: expected numbers that are not negative, less than 2^31 in all, got the least -99 and"
        " the sum 1": lambda: sparse.bsr_zeros(2, 2, float, row_capacity=wp.array([100, -99], dtype=int)),
        "bsr_zeros: row_capacity: expected less than 2^31 in all, got 4295032832": lambda: sparse.bsr_zeros(
            2**16, 2, float, row_capacity=2**16 + 1
        ),
        "bsr_mm: work_arrays: expected those of a product (4, 4) times (4, 4), got ones of (3, 3) times": lambda: (
            product_with_work_of(3, 4)
        ),
        "less than 2^31 rows and columns of numbers, where blocks are looked up, got 3221225472": lambda: (
            sparse.bsr_axpy(wide(), wide(), topology="masked")
        ),
        "bsr_mv: A: expected values of at least 3 elements, with nrow=3 and nnz=3, got shape (1,)": lambda: (
            with_values(sparse.bsr_identity(3, float), wp.ones(1, dtype=float)) @ wp.ones(3, dtype=float)
        ),
        "bsr_mv: A: expected offsets of at least 8 elements, with nrow=7 and nnz=20, got shape (2, 8)": lambda: (
            jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), random_triplets().value) @ jnp.ones(5)
        ),
        "bsr_mm: alpha: expected a number, got None": lambda: sparse.bsr_mm(A.matrix, A.matrix, alpha=None),
        "BsrMatrix: the type of its blocks is not told": sparse.BsrMatrix,
    }.items(),
    ids=lambda x: x.split(":")[0] if isinstance(x, str) else "",
)
def test_errors(message, call):
    with pytest.raises(wp.KernelError) as caught:
        call()
    assert message in caught.value.message


@pytest.mark.parametrize("diagonal", [wp.ones(5, dtype=wp.float64), wp.ones(2), np.eye(2, dtype=np.float32), "x"])
def test_a_diagonal_that_is_refused_changes_nothing(diagonal):
    t = random_triplets()
    a = t.matrix
    with pytest.raises(wp.KernelError):
        sparse.bsr_set_diag(a, diagonal, rows_of_blocks=9)
    with pytest.raises(wp.KernelError):
        sparse.bsr_set_diag(a, 1.0, rows_of_blocks=9, cols_of_blocks=-1)
    np.testing.assert_array_equal(dense(a), t.dense)


def test_what_jax_traces_is_not_known():
    with pytest.raises(wp.KernelError, match=r"the number of blocks is known when the program runs"):
        jax.jit(lambda a: a.nnz_sync())(A.value)
