"""Linear systems of equations: iterative solvers, the operators that they take, and preconditioners."""

from jaxwarp.boundary import boundary as _boundary
from jaxwarp.frontend.text.refused import missing as _missing
from jaxwarp.optim.linear.bicgstab import BiCGSTAB as BiCGSTAB
from jaxwarp.optim.linear.conjugate import CG as CG
from jaxwarp.optim.linear.conjugate import CR as CR
from jaxwarp.optim.linear.fsai import FSAI as FSAI
from jaxwarp.optim.linear.gmres import GMRES as GMRES
from jaxwarp.optim.linear.operators import LinearOperator as LinearOperator
from jaxwarp.optim.linear.operators import aslinearoperator as aslinearoperator
from jaxwarp.optim.linear.preconditioners import preconditioner as preconditioner
from jaxwarp.optim.linear.solve import bicgstab as bicgstab
from jaxwarp.optim.linear.solve import cg as cg
from jaxwarp.optim.linear.solve import cr as cr
from jaxwarp.optim.linear.solve import gmres as gmres
from jaxwarp.optim.linear.state import LinearSolverState as LinearSolverState
from jaxwarp.optim.linear.values import Solution as Solution


@_boundary
def __getattr__(name: str) -> object:
    return _missing(name, __name__)
