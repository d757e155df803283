"""The text of scans: loops over a tile that use, in each iteration, what those before it have combined.

    for k carry(s) { s + x[k]; store y[k], s }
    ->  each thread: the sum of its elements, which follow each other
        shuffles, and a few words of shared memory: the sum of what the threads before it have
        each thread: its elements once more, from that sum on, with all that the loop does
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from jaxwarp.analysis.integers.ranges import all_of
from jaxwarp.analysis.loops.folds import LARGEST, SUM
from jaxwarp.analysis.loops.nests import Nest
from jaxwarp.codegen.cuda.blocks.barriers import exchanges
from jaxwarp.codegen.cuda.blocks.printer import BlockPrinter, nothing_of, without_last
from jaxwarp.codegen.cuda.blocks.spread import WARP
from jaxwarp.codegen.cuda.expression import literal
from jaxwarp.codegen.cuda.locals import Local
from jaxwarp.ir.nodes import Block
from jaxwarp.types import Scalar


class ScanPrinter(BlockPrinter):
    """Prints what `BlockPrinter` does, and scans."""

    def fold(self, nest: Nest) -> None:
        if nest.is_scan:
            self.scan(nest)
        else:
            super().fold(nest)

    def scan(self, nest: Nest) -> None:
        """Each thread combines elements that follow each other, then what those before it have, then does the rest."""
        first, last, fold = nest.loops[0], nest.loops[-1], nest.fold
        assert fold is not None
        self._is_largest = "true" if fold.kind == LARGEST else "false"
        inits = [self.use_atom(v, "start", first.loc) for v in first.inits]
        nothing = [nothing_of(r.type) if fold.kind == SUM else literal(0, r.type).text for r in first.results]
        if fold.kind != SUM:
            nothing[0] = _no_extremum(first.results[0].type, fold.kind == LARGEST)
        params = last.body.params[1:]
        own = [self.start(p, r, text) for p, r, text in zip(params, first.results, nothing, strict=True)]
        again = self.live.read_from_outside(first) | set(last.body.params)
        with self.each(nest):
            for local, param in zip(own, params, strict=True):
                self.occupy(local, param)
            self.block(Block((), (*without_last(nest), *fold.running), last.body.results), own, again)
        names = self.locals.names
        lane = f"{self.lane} % {WARP}"
        distance = names.fresh("distance")
        self.line(f"for (int {distance} = 1; {distance} < {WARP}; {distance} *= 2) {{")
        self.depth += 1
        self.locals.open()
        others = [names.fresh(f"before_{v.base}") for v in own]
        for other, v in zip(others, own, strict=True):
            self.line(f"const {v.cpp_type} {other} = lane_value({v.name}, max_of({lane} - {distance}, 0));")
        self.line(f"if ({lane} >= {distance}) {{ {self.after(fold.kind, own, others)} }}")
        self.locals.close()
        self.depth -= 1
        self.line("}")
        carried = list(zip(first.body.params[1:], first.results, nothing, strict=True))
        before, whole = ([self.start(*one) for one in carried] for _ in range(2))
        for v, total, mine in zip(before, whole, own, strict=True):
            self.line(f"{v.name} = lane_value({mine.name}, max_of({lane} - 1, 0));")
            self.line(f"{total.name} = lane_value({mine.name}, {WARP - 1});")
        clear = " ".join(f"{v.name} = {text};" for v, text in zip(before, nothing, strict=True))
        self.line(f"if ({lane} == 0) {{ {clear} }}")
        if exchanges(first, self.plan.nests, self.plan.places):
            self.of_warps(fold.kind, before, whole)
        for found in (before, whole):
            self.line(self.after(fold.kind, found, [init.text for init in inits]), first.loc)
        for v in (*own, *whole):
            v.occupant = None
        with self.each(nest):
            self.iteration(nest, before)
        for local, result in zip(whole, first.results, strict=True):
            self.occupy(local, result)
        for v in before:
            v.occupant = None

    def of_warps(self, kind: str, before: Sequence[Local], whole: Sequence[Local]) -> None:
        """Put what the warps before this one have first, and combine all that the warps have."""
        names, warps = self.locals.names, self.plan.threads // WARP
        memory = [self.scratch(v.cpp_type, n) for n, v in enumerate(whole)]
        sets = " ".join(f"{m}[{self.lane} / {WARP}] = {v.name};" for m, v in zip(memory, whole, strict=True))
        self.line(f"if ({self.lane} % {WARP} == 0) {{ {sets} }}")
        self.line("__syncthreads();")
        turn = names.fresh("warp")
        for v, m in zip(whole, memory, strict=True):
            self.line(f"{v.name} = {m}[{warps - 1}];")
        self.line(f"for (int {turn} = {warps - 1}; {turn}-- > 0;) {{")
        self.depth += 1
        others = [f"{m}[{turn}]" for m in memory]
        self.line(f"if ({turn} < {self.lane} / {WARP}) {{ {self.after(kind, before, others)} }}")
        self.line(self.after(kind, whole, others))
        self.depth -= 1
        self.line("}")

    def after(self, kind: str, values: Sequence[Local], others: Sequence[str]) -> str:
        """Combine values with others that come before them."""
        if kind == SUM:
            return " ".join(f"{v.name} = sum_of({o}, {v.name});" for v, o in zip(values, others, strict=True))
        moves = " ".join(f"{v.name} = {o};" for v, o in zip(values, others, strict=True))
        return f"if (!is_better<{self._is_largest}>({values[0].name}, {others[0]})) {{ {moves} }}"


def _no_extremum(dtype: Scalar, is_largest: bool) -> str:
    """Return what every number replaces, or is not better than."""
    if dtype.is_float:
        return literal(math.nan, dtype).text
    least, most = all_of(dtype)
    return literal(least if is_largest else most, dtype).text
