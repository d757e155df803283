"""Native trees: any number of threads has one result, and buffers that do not fit are refused."""

import numpy as np
import pytest
from native.frames import EXECUTE, Refused, Runtime

from jaxwarp.native import library, trees

HANDLERS = ("cpu_tree_order", "cpu_tree_grouped", "cpu_tree_boxes", "cpu_mesh_faces")


class Trees(Runtime):
    def __init__(self, copy, **options):
        super().__init__(library.find_library(), copy, **options)
        for handler in HANDLERS:
            self.metadata(handler)

    def run(self, handler, operands, results):
        as_buffers = [[(str(x.dtype), x.shape, x.ctypes.data) for x in arrays] for arrays in (operands, results)]
        self.call(handler, EXECUTE, 1, {}, *as_buffers)
        return results


def rows_of(count, n):
    rng = np.random.default_rng(n)
    lower = rng.normal(size=(count, n, 3)).astype(np.float32)
    upper = lower + rng.uniform(0, 0.1, lower.shape).astype(np.float32)
    lower[:, n // 2] = np.nan
    return lower, upper, rng.integers(0, 5, (count, n)).astype(np.int32)


@pytest.mark.parametrize("pool", ["threads", "lazy", "refuse"])
def test_any_number_of_threads_has_one_result(tmp_path, pool):
    made = Trees(tmp_path / "copy.so", pool=pool)
    for count, n in ((1, 20_000), (3, 9000), (40, 1000), (2, 1)):
        lower, upper, groups = rows_of(count, n)
        expected = [trees.order_items(lo, up, g) for lo, up, g in zip(lower, upper, groups, strict=True)]
        first = np.stack([e[1] for e in expected])
        leaves = first.shape[1] - 1
        boxes = [trees.box_items(lo, up, *e[:2]) for lo, up, e in zip(lower, upper, expected, strict=True)]
        for made.threads in (1, 3, 8):
            order, *found = made.run(
                "cpu_tree_grouped",
                [lower, upper, groups],
                [np.full((count, m), 7, np.int32) for m in (n, leaves + 1, n, n)],
            )
            for k, one in enumerate((order, *found)):
                np.testing.assert_array_equal(one, [e[k] for e in expected])
            (plain,) = made.run("cpu_tree_order", [lower, upper], [np.full((count, n), 7, np.int32)])
            np.testing.assert_array_equal(
                plain, [trees.order_items(lo, up)[0] for lo, up in zip(lower, upper, strict=True)]
            )
            words = np.full((count, leaves, 8), 7, np.uint32)
            grid = np.full((count, 2, 3), 7, np.float32)
            for k, one in enumerate(made.run("cpu_tree_boxes", [lower, upper, order, first], [words, grid])):
                np.testing.assert_array_equal(one, [b[k] for b in boxes])


def test_faces_of_rows(tmp_path):
    made = Trees(tmp_path / "copy.so", pool="threads")
    rng = np.random.default_rng(0)
    points = rng.normal(size=(2, 500, 3)).astype(np.float32)
    points[0, 3] = np.nan
    indices = rng.integers(-1, 501, (2, 9000, 3)).astype(np.int32)
    order = np.stack([rng.permutation(9000).astype(np.int32) for _ in range(2)])
    there = ((indices >= 0) & (indices < 500)).all(-1)
    expected = np.stack([p[np.clip(f, 0, 499)] for p, f in zip(points, indices, strict=True)])
    expected[~there] = np.nan
    for made.threads in (1, 3):
        results = [np.full((2, 9000, *s), 7, np.float32) for s in ((3, 3), (3,), (3,))]
        corners, lowers, uppers = made.run("cpu_mesh_faces", [points, indices, order], results)
        np.testing.assert_array_equal(corners, np.take_along_axis(expected, order[..., None, None], 1))
        np.testing.assert_array_equal(lowers, expected.min(2))
        np.testing.assert_array_equal(uppers, expected.max(2))


F, N, W = np.zeros((4, 3), np.float32), np.zeros(4, np.int32), np.zeros((2, 8), np.uint32)
XYZ, GRID, FIRST = np.zeros(3, np.float32), np.zeros((2, 3), np.float32), np.zeros(3, np.int32)
MISFITS = [
    ("cpu_tree_order", [F], [N], "expected 2 operands and 1 results"),
    ("cpu_tree_order", [F, F[:3]], [N], "buffer 1 has another shape"),
    ("cpu_tree_order", [F, F], [N[:3]], "buffer 2 has another shape"),
    ("cpu_tree_order", [F, F], [F[:, 0].copy()], "buffer 2 has another shape or type"),
    ("cpu_tree_order", [XYZ, XYZ], [N], "buffer 0 has another shape"),
    ("cpu_tree_grouped", [F, F, N], [N, N, N, N], "buffer 4 has another shape"),
    ("cpu_tree_boxes", [F, F, N, N], [W, GRID], "a power of two of leaves"),
    ("cpu_tree_boxes", [F, F, N, FIRST], [W[:1], GRID], "buffer 4 has another shape"),
    ("cpu_mesh_faces", [F, N, N], [F, F, F], "buffer 1 has another shape"),
]


@pytest.mark.parametrize(("handler", "operands", "results", "reason"), MISFITS)
def test_buffers_that_do_not_fit_are_refused(tmp_path, handler, operands, results, reason):
    with pytest.raises(Refused) as refused:
        Trees(tmp_path / "copy.so").run(handler, operands, results)
    assert str(refused.value).startswith("jaxwarp: tree: ")
    assert reason in str(refused.value)
