"""The launch that reports what was found out while a derivative ran: it fails, or gives NaN where nobody is told."""

from __future__ import annotations

from jaxwarp.builtins.scalar_ops import ROWS
from jaxwarp.errors import Loc
from jaxwarp.ir.builder import Builder
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import EXPECT, Block, If, Param, Tell
from jaxwarp.types import bool_, float32, int32


def make_report(name: str, text: str, loc: Loc | None) -> Kernel:
    """Make a kernel that fails for one thread where `met` is True: `factor`, which is NaN then, is 1 else."""
    met, factor = Param("met", bool_, (1,)), Param("factor", float32, (1,))
    builder = Builder()
    builder.loc = loc
    place = (builder.const(0, int32),)
    has_met = builder.load(met, place)
    builder.append(If((), has_met, Block((), (Tell(EXPECT, (text,), (), (), loc=loc),), ()), Block((), (), ())))
    ends = builder.const(float("nan"), float32), builder.const(1.0, float32)
    builder.store(factor, place, builder.call(ROWS["select"], has_met, *ends))
    return builder.finish(name, 1, (met, factor))
