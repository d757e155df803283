"""Finite elements: which blocks an assembled matrix keeps."""

from typing import Any

import numpy as np
import pytest

import jaxwarp as wp
from jaxwarp import fem, sparse
from jaxwarp.errors import KernelTypeError, KernelValueError


@fem.integrand
def on_the_right(s: fem.Sample, domain: fem.Domain, u: fem.Field, v: fem.Field):
    return wp.where(domain(s)[0] > 0.5, u(s) * v(s), 0.0)


@fem.integrand
def value(s: fem.Sample, u: fem.Field):
    return u(s)


@pytest.fixture(scope="module")
def assembled() -> dict[str, Any]:
    """The options of a call, and what it makes of the same form: the places of blocks, and the matrix of numbers."""
    space = fem.make_polynomial_space(fem.Grid2D(res=wp.vec2i(2, 1)))
    fields = {"u": fem.make_trial(space), "v": fem.make_test(space)}
    found: dict[str, Any] = {}
    for name, options in (
        ("default", None), ("all", {"prune_numerical_zeros": False}), ("some", {"prune_numerical_zeros": True}),
        ("mapped", {"construction": "mapped", "capacity": "auto"}), ("rows", {"construction": "row_compress"}),
    ):  # fmt: skip
        for output in (None, sparse.bsr_zeros(6, 6, float)):
            made = fem.integrate(on_the_right, fields=fields, output=output, bsr_options=options)
            found.setdefault(name, []).append(_read(made))
    diagonal = sparse.bsr_diag(wp.ones(6, dtype=float))
    made = fem.integrate(on_the_right, fields=fields, output=diagonal, bsr_options={"topology": "masked"})
    added = sparse.bsr_diag(wp.ones(6, dtype=float))
    added = fem.integrate(on_the_right, fields=fields, output=added, add=True, bsr_options={"topology": "masked"})
    return found | {"diagonal": [_read(made)], "added": [_read(added)]}


def _read(matrix: Any) -> tuple[set[tuple[int, int]], np.ndarray]:
    n = matrix.nnz_sync()
    rows, columns = matrix.uncompress_rows().numpy()[:n], matrix.columns.numpy()[:n]
    dense = np.zeros((matrix.nrow, matrix.ncol))
    dense[rows, columns] = matrix.values.numpy()[:n]
    return {(int(i), int(j)) for i, j in zip(rows, columns, strict=True)}, dense


RIGHT = [2, 3, 4, 5]
"""The nodes of the right cell. Those of the left one are 0 to 3."""
PAIRS = {(i, j) for cell in (range(4), RIGHT) for i in cell for j in cell}


@pytest.mark.parametrize("name", ["all", "mapped"])
def test_blocks_of_zeros_are_kept(assembled: dict[str, Any], name: str):
    for places, dense in assembled[name]:
        assert places == PAIRS
        np.testing.assert_array_equal(dense, assembled["default"][0][1])


@pytest.mark.parametrize("name", ["default", "some", "rows"])
def test_blocks_of_zeros_are_left_out(assembled: dict[str, Any], name: str):
    for places, dense in assembled[name]:
        assert places == {(i, j) for i in RIGHT for j in RIGHT}
        np.testing.assert_allclose(dense.sum(), 0.5, rtol=1e-6)  # of the area of the right cell


def test_a_matrix_keeps_its_places(assembled: dict[str, Any]):
    expected = np.diag(np.diag(assembled["default"][0][1]))
    for name, extra in (("diagonal", 0.0), ("added", 1.0)):
        places, dense = assembled[name][0]
        assert places == {(i, i) for i in range(6)}
        np.testing.assert_allclose(dense, expected + extra * np.eye(6), rtol=1e-6)


def test_values_of_a_trial_function_keep_zeros():
    space = fem.make_polynomial_space(fem.Grid2D(res=wp.vec2i(2, 1)))
    fields = {"u": fem.make_trial(space)}
    for keeps in (True, False):
        matrix = sparse.bsr_zeros(6, 6, float)
        fem.interpolate(value, dest=matrix, dest_space=space, at=fem.Cells(space.geometry), fields=fields,
                        reduction="mean", bsr_options={"prune_numerical_zeros": not keeps})  # fmt: skip
        places, dense = _read(matrix)
        assert places == (PAIRS if keeps else {(i, i) for i in range(6)})
        np.testing.assert_allclose(dense, np.eye(6), rtol=1e-6)


@pytest.mark.parametrize(
    ("options", "message", "kind"),
    [
        ({"prune": False}, "expected prune_numerical_zeros, topology, .*, got prune", KernelValueError),
        ({"capacity": 3}, "capacity: expected one of auto, reuse, got 3", KernelValueError),
        ({"construction": "fast"}, "construction: expected one of triplets, .*, got 'fast'", KernelValueError),
        ({"prune_numerical_zeros": 2}, "prune_numerical_zeros: expected a bool or None, got 2", KernelTypeError),
        ({"topology": "masked"}, "topology: expected 'compact', .*, got 'masked'", KernelValueError),
        ({"topology": "none"}, "Unsupported topology policy: none", KernelValueError),
        ({"construction": "mapped", "topology": "masked"}, "topology: expected 'compact'", KernelValueError),
        ({"construction": "mapped", "prune_numerical_zeros": True}, "'mapped' needs topology", KernelValueError),
        (["mapped"], "expected a dictionary or None, got list", KernelTypeError),
    ],
)  # fmt: skip
def test_refused_options(options: Any, message: str, kind: Any):
    space = fem.make_polynomial_space(fem.Grid2D(res=wp.vec2i(1, 1)))
    fields = {"u": fem.make_trial(space), "v": fem.make_test(space)}
    with pytest.raises(kind, match=message):
        fem.integrate(on_the_right, fields=fields, bsr_options=options)
