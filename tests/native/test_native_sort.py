"""The native sort, and where cells start: any number of threads has one result, and what does not fit is refused."""

import numpy as np
import pytest
from native.frames import EXECUTE, Refused, Runtime

from jaxwarp.native import library


class Sorter(Runtime):
    def __init__(self, copy, **options):
        super().__init__(library.find_library(), copy, **options)
        self.metadata("cpu_sort")
        self.metadata("cpu_cell_starts")

    def sort(self, keys):
        results = np.full_like(keys, 77), np.full(keys.shape, 77, np.int32)
        self.execute([keys], results)
        return results

    def execute(self, operands, results, handler="cpu_sort"):
        as_buffers = [[(str(x.dtype), x.shape, x.ctypes.data) for x in arrays] for arrays in (operands, results)]
        self.call(handler, EXECUTE, 1, {}, *as_buffers)


@pytest.mark.parametrize("pool", ["threads", "lazy", "refuse"])
@pytest.mark.parametrize("dtype", [np.uint32, np.uint64])
def test_any_number_of_threads_has_one_result(tmp_path, dtype, pool):
    sorter = Sorter(tmp_path / "copy.so", pool=pool)
    rng = np.random.default_rng(0)
    for shape in [(1,), (300_000,), (2, 140_000), (50, 1000), (3, 2, 40_000), (5, 0), (0, 5), (0,)]:
        for high in (1, 2, 200, 100_000, int(np.iinfo(dtype).max)):
            keys = rng.integers(0, high, shape, dtype)
            order = np.argsort(keys, axis=-1, kind="stable")
            for sorter.threads in (1, 3, 8):
                found, places = sorter.sort(keys)
                np.testing.assert_array_equal(places, order)
                np.testing.assert_array_equal(found, np.take_along_axis(keys, order, -1))


U32, I32 = np.zeros(4, np.uint32), np.zeros(4, np.int32)
MISFITS = [
    ([U32], [U32], "one operand and two results"),
    ([U32, U32], [U32, I32], "one operand and two results"),
    ([U32], [U32[:3], I32], "the results of a sort have its shape"),
    ([U32], [U32, I32[:3]], "the results of a sort have its shape"),
    ([U32], [U32, I32.reshape(2, 2)], "the results of a sort have its shape"),
    ([U32], [I32, I32], "the results are of another type"),
    ([U32], [U32, U32], "the results are of another type"),
    ([I32], [I32, I32], "keys of type uint32 or uint64"),
    ([U32[0:1].reshape(())], [U32[1:2].reshape(()), I32[0:1].reshape(())], "fewer than 2^31 keys"),
]


@pytest.mark.parametrize(("operands", "results", "reason"), MISFITS)
def test_buffers_that_do_not_fit_are_refused(tmp_path, operands, results, reason):
    with pytest.raises(Refused) as refused:
        Sorter(tmp_path / "copy.so").execute(operands, results)
    assert str(refused.value).startswith("jaxwarp: sort_pairs: ")
    assert reason in str(refused.value)


@pytest.mark.parametrize("dtype", [np.uint32, np.uint64])
def test_outside_of_jax(dtype):
    keys = np.random.default_rng(0).integers(0, 2**20, 10_000).astype(dtype)
    found, order = library.sort_order(keys)
    np.testing.assert_array_equal(order, np.argsort(keys, kind="stable"))
    np.testing.assert_array_equal(found, np.sort(keys))


@pytest.mark.parametrize("pool", ["threads", "lazy", "refuse"])
def test_cells_start_where_the_first_of_them_is(tmp_path, pool):
    """Items of the number of cells, or of a larger one, are in none."""
    sorter = Sorter(tmp_path / "copy.so", pool=pool)
    rng = np.random.default_rng(0)
    for shape in [(7,), (3000,), (50, 1000), (3, 2, 40), (5, 0), (0, 5), (0,)]:
        for cells in (0, 1, 30, 5000):
            items = np.sort(rng.integers(0, cells + 2, shape, np.uint32), axis=-1)
            rows = items.reshape(-1, shape[-1]) if items.size else np.zeros((np.prod(shape[:-1], dtype=int), 0))
            expected = np.array([np.searchsorted(row, np.arange(cells + 1)) for row in rows], np.int32)
            for sorter.threads in (1, 3):
                start = np.full((*shape[:-1], cells + 1), 77, np.int32)
                sorter.execute([items], [start], "cpu_cell_starts")
                np.testing.assert_array_equal(start, expected.reshape(start.shape))


START_MISFITS = [
    ([U32, U32], [I32], "one operand and one result"),
    ([U32.reshape(2, 2)], [I32], "as many rows"),
    ([U32.reshape(2, 2)], [I32.reshape(1, 4)], "as many rows"),
    ([U32], [I32[:0]], "as many rows"),
    ([U32[0:1].reshape(())], [I32[0:1].reshape(())], "as many rows"),
    ([I32], [I32], "of other types"),
    ([U32], [U32], "of other types"),
]


@pytest.mark.parametrize(("operands", "results", "reason"), START_MISFITS)
def test_starts_that_do_not_fit_are_refused(tmp_path, operands, results, reason):
    with pytest.raises(Refused) as refused:
        Sorter(tmp_path / "copy.so").execute(operands, results, "cpu_cell_starts")
    assert str(refused.value).startswith("jaxwarp: HashGrid: ")
    assert reason in str(refused.value)
