"""Sparse matrices of blocks in rows, outside of JAX and as values of JAX."""

from jaxwarp.boundary import missing_in as _missing_in
from jaxwarp.sparse.copying import bsr_assign as bsr_assign
from jaxwarp.sparse.copying import bsr_compress as bsr_compress
from jaxwarp.sparse.copying import bsr_copy as bsr_copy
from jaxwarp.sparse.copying import bsr_set_transpose as bsr_set_transpose
from jaxwarp.sparse.copying import bsr_transposed as bsr_transposed
from jaxwarp.sparse.create import bsr_set_zero as bsr_set_zero
from jaxwarp.sparse.create import bsr_zeros as bsr_zeros
from jaxwarp.sparse.diagonal import bsr_diag as bsr_diag
from jaxwarp.sparse.diagonal import bsr_get_diag as bsr_get_diag
from jaxwarp.sparse.diagonal import bsr_identity as bsr_identity
from jaxwarp.sparse.diagonal import bsr_set_diag as bsr_set_diag
from jaxwarp.sparse.diagonal import bsr_set_identity as bsr_set_identity
from jaxwarp.sparse.lookup import bsr_block_index as bsr_block_index
from jaxwarp.sparse.lookup import bsr_row_index as bsr_row_index
from jaxwarp.sparse.mapping import BsrTripletMap as BsrTripletMap
from jaxwarp.sparse.mapping import bsr_set_from_mapped_values as bsr_set_from_mapped_values
from jaxwarp.sparse.matrix import BSR_STATUS_ROW_CAPACITY_EXCEEDED as BSR_STATUS_ROW_CAPACITY_EXCEEDED
from jaxwarp.sparse.matrix import BSR_STATUS_SUCCESS as BSR_STATUS_SUCCESS
from jaxwarp.sparse.matrix import bsr_matrix_t as bsr_matrix_t
from jaxwarp.sparse.operators import BsrMatrix as BsrMatrix
from jaxwarp.sparse.products import bsr_mm as bsr_mm
from jaxwarp.sparse.products import bsr_mm_work_arrays as bsr_mm_work_arrays
from jaxwarp.sparse.sums import bsr_axpy as bsr_axpy
from jaxwarp.sparse.sums import bsr_axpy_work_arrays as bsr_axpy_work_arrays
from jaxwarp.sparse.sums import bsr_scale as bsr_scale
from jaxwarp.sparse.triplets import bsr_from_triplets as bsr_from_triplets
from jaxwarp.sparse.triplets import bsr_set_from_triplets as bsr_set_from_triplets
from jaxwarp.sparse.vector_products import bsr_mv as bsr_mv

globals()["__getattr__"] = _missing_in(__name__)
