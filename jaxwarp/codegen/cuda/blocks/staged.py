"""The text of products of matrices, and of loops whose loads run ahead of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from jaxwarp.analysis.loops.nests import Nest, is_pure
from jaxwarp.codegen.cuda.blocks.matrices import WIDE, Layout, MatrixProduct, Operand
from jaxwarp.codegen.cuda.blocks.pipelines import Pipeline
from jaxwarp.codegen.cuda.blocks.printer import BlockPrinter
from jaxwarp.codegen.cuda.blocks.products import Product
from jaxwarp.codegen.cuda.blocks.scans import ScanPrinter
from jaxwarp.codegen.cuda.blocks.spread import Fragments, lanes
from jaxwarp.codegen.cuda.expression import CPP_TYPES, PRIMARY, Expr, combine
from jaxwarp.codegen.cuda.statements import TextLine
from jaxwarp.ir.nodes import Block, Const, For, Load, Op, Param, Store, Value
from jaxwarp.types import float64

# Steps along what is summed over for which a thread has its rows' elements in registers, of a patch.
_STEPS = {4: (2, 1), 8: (2, 1)}


class StagedPrinter(ScanPrinter):
    """Prints what `ScanPrinter` does, and matrices in shared memory with their layouts."""

    _stage = ""  # of the tiles of the open pipeline that code outside of copies is about; a text
    _tiles: tuple[Param, ...] = ()
    _copied: Load | None = None  # what the store at hand has from an array, without a thread that waits for it
    _is_ahead = False

    def arrays(self) -> list[str]:
        first = f"{self.layout.thread} == blockIdx.x"
        zeros: list[str] = []
        for param, layout in self.plan.places.layouts.items():
            if layout.is_zeroed:
                count, name, turn = layout.elements * layout.stages, self.layout.params[param], "at_zero"
                steps = f"int {turn} = {self.lane}; {turn} < {count}; {turn} += {self.plan.threads}"
                zeros.append(f"if ({first}) for ({steps}) {name}[{turn}] = 0;")
        return [*super().arrays(), *zeros]

    def element(self, param: Param, indices: Sequence[Value]) -> Expr:
        layout = self.plan.places.layouts.get(param)
        if layout is None:
            return super().element(param, indices)
        row, column = (self.use(i) for i in indices)
        text = f"{self.stage_of(param)}({row.text}) * {layout.stride} + {column.text}"
        return combine(f"{self.layout.params[param]}[{text}]", PRIMARY, (row, column))

    def stage_of(self, param: Param) -> str:
        """The place of the first element of a matrix, and a plus, unless it is 0."""
        if param not in self._tiles:
            return ""
        return f"{self._stage} * {self.plan.places.layouts[param].elements} + "

    # Loops that run ahead

    def for_(self, op: For) -> None:
        pipeline = self.plan.pipelines.get(op) if self._nest is None else None
        nest = self.plan.nests.found.get(op) if self._is_ahead else None
        if pipeline is not None:
            self.pipeline(pipeline)
        elif nest is not None and self._nest is None:
            self.copy(nest)
        else:
            super().for_(op)

    def pipeline(self, pipeline: Pipeline) -> None:
        """The first rounds only load; then each loads the tiles of a later iteration, and does the rest of its own."""
        op = pipeline.loop
        index, *params = op.body.params
        stages = self.plan.places.layouts[pipeline.tiles[0]].stages
        bounds = [
            self.use_atom(v, hint, op.loc) for v, hint in ((op.start, "start"), (op.stop, "stop"), (op.step, "step"))
        ]
        carried = self.carried_locals(op, params, bounds)
        before = self.locals.occupants()
        outer = self._stage, self._tiles
        self._tiles = (*self._tiles, *pipeline.tiles)
        self.locals.open()
        names = self.locals.names
        here, stage = names.fresh(index.name or "k"), names.fresh("stage")
        ahead, into = names.fresh(f"next_{here}"), names.fresh("into")
        left, lead = names.fresh("left"), names.fresh("lead")
        unsigned = "unsigned long long" if index.type.bits == 64 else "unsigned int"
        start, stop, step = (b.text for b in bounds)
        cpp_type = CPP_TYPES[index.type.short]
        self.line(f"{unsigned} {left} = range_count({start}, {stop}, {step});", op.loc)
        self.line(f"{cpp_type} {here} = {start};")
        self.line(f"int {stage} = 0, {lead} = 0;")
        self.line(f"while ({left} != 0) {{", op.loc)
        self.depth += 1
        self.line(f"wait_for_copies<{stages - 2}>();")
        self.line("__syncthreads();")
        self.line(f"if ({left} > {lead}) {{")
        self.depth += 1
        self.line(f"const {cpp_type} {ahead} = wrap_add({here}, ({cpp_type}){lead} * {step});")
        self.line(f"const int {into} = ({stage} + {lead}) % {stages};")
        self.exprs[index], self._stage, self._is_ahead = Expr(ahead), into, True
        self.locals.open()
        self.block(Block((), pipeline.ahead, ()), (), self.live.read_from_outside(op))
        self.locals.close()
        self._is_ahead = False
        self.depth -= 1
        self.line("}")
        self.line("commit_copies();")
        self.line(f"if ({lead} < {stages - 1}) {{")
        self.lines.append(TextLine(self.depth + 1, f"++{lead};", None))
        self.lines.append(TextLine(self.depth + 1, "continue;", None))
        self.line("}")
        self.depth -= 1
        self.exprs[index], self._stage = Expr(here), stage
        body = Block(op.body.params, pipeline.rest, op.body.results)
        rest = For(op.results, op.start, op.stop, op.step, op.inits, body, op.over_tile, loc=op.loc)
        self.loop_body(rest, params, carried, tuple(self.live.read_from_outside(op)))
        self.depth += 1
        self.line(f"--{left}, {here} = wrap_add({here}, {step}), {stage} = {stage} + 1 < {stages} ? {stage} + 1 : 0;")
        self.depth -= 1
        self.line("}")
        self.locals.close()
        self._stage, self._tiles = outer
        self.locals.restore(before)
        self.end_loop(op, carried)

    # Copies

    def copy(self, nest: Nest) -> None:
        """A nest that fills a tile, by accesses as wide as the addresses are multiples of."""
        self.flush()
        source = self._source(nest)
        widths = self._widths(nest) if source else []
        if source is not None and widths:
            load, store = source
            with self.scope():
                addresses = [self.address(nest, load, row, "0") for row in ("0", "1")]
                places = [self.locals.names.fresh(n) for n in ("first_row", "second_row")]
                pointer = f"const {CPP_TYPES[load.param.dtype.short]} *const"
                for place, address in zip(places, addresses, strict=True):
                    self.line(f"{pointer} {place} = {address};", nest.loops[0].loc)
                for number, width in enumerate(widths):
                    test = f"if (are_aligned<{width}>({', '.join(places)})) {{"
                    self.line(f"}} else {test}" if number else test)
                    self.depth += 1
                    self.wide_copy(nest, load, store.param, width)
                    self.depth -= 1
                self.line("} else {")
                self.depth += 1
                self.narrow_copy(nest)
                self.depth -= 1
                self.line("}")
        else:
            self.narrow_copy(nest)

    @contextmanager
    def scope(self) -> Iterator[None]:
        before = self.locals.occupants()
        self.line("{")
        self.depth += 1
        self.locals.open()
        yield
        self.locals.close()
        self.depth -= 1
        self.line("}")
        self.locals.restore(before)

    def narrow_copy(self, nest: Nest) -> None:
        # What the sums are in has no room for many addresses.
        self.unrolled = 0
        with self.each(nest):
            self.iteration(nest, ())
        self.unrolled = BlockPrinter.unrolled

    def wide_copy(self, nest: Nest, load: Load, tile: Param, width: int) -> None:
        rows, columns = map(len, nest.ranges)
        each = width // tile.dtype.bytes
        across, threads = columns // each, self.plan.threads
        count = rows * across
        names = self.locals.names
        self.locals.open()
        turn, at, row, column = (names.fresh(n) for n in ("turn", "at", "row", "column"))
        turns = -(-count // threads)
        self.line("#pragma unroll 2")
        self.line(f"for (int {turn} = 0; {turn} < {turns}; ++{turn}) {{")
        self.depth += 1
        self.line(f"const int {at} = {self.lane} + {turn} * {threads};")
        if count % threads:
            self.line(f"if ({at} < {count}) {{")
            self.depth += 1
        self.line(f"const int {row} = {at} / {across}, {column} = {at} % {across} * {each};")
        address = self.address(nest, load, row, column)
        stride = self.plan.places.layouts[tile].stride
        place = f"{self.stage_of(tile)}{row} * {stride} + {column}"
        self.line(f"copy_async<{width}>({self.layout.params[tile]}, {place}, {address});", load.loc)
        for _ in range(2 if count % threads else 1):
            self.depth -= 1
            self.line("}")
        self.locals.close()

    def address(self, nest: Nest, load: Load, row: str, column: str) -> str:
        """The address of what a nest loads in an iteration."""
        for index, text in zip(nest.indices, (row, column), strict=True):
            cpp_type = CPP_TYPES[index.type.short]
            self.exprs[index] = Expr(text if cpp_type == "int" else f"({cpp_type}){text}")
        outer, self.folding = self.folding, True
        for loop in nest.loops:
            for op in loop.body.ops:
                if is_pure(op) and op is not load:
                    self.op(op)
        self.folding = outer
        return f"&{self.element(load.param, load.indices).text}"

    def _source(self, nest: Nest) -> tuple[Load, Store] | None:
        """Return what a nest copies, if rows and columns of an array become those of a tile."""
        if len(nest.loops) != 2 or self.plan.places.spans[nest].box != (0, 1):
            return None
        ops = [op for loop in nest.loops for op in loop.body.ops if op not in nest.loops and not isinstance(op, Const)]
        loads = [op for op in ops if isinstance(op, Load)]
        store = ops[-1]
        if len(loads) != 1 or not isinstance(store, Store) or store.value is not loads[0].result:
            return None
        if not all(map(is_pure, ops[:-1])) or any(self.uses[v] != 1 for op in ops for v in op.defined):
            return None
        *outer, last = [self._along(index, nest) for index in loads[0].indices]
        known = last == 1 and sorted(n for n in outer if n is not None) in ([0], [-1] * (len(outer) - 1) + [0])
        return (loads[0], store) if known else None

    def _along(self, index: Value, nest: Nest) -> int | None:
        """Return the loop whose index is in a value, alone or in a sum with a fixed one; -1: it is fixed itself."""
        nests = self.plan.nests
        if index in nest.indices:
            return nest.indices.index(index)
        if not nests.of_value(index, nest):
            return -1
        inside = {v for loop in nest.loops for op in loop.body.ops for v in op.defined}
        term = nests.term(index, nest.indices, inside)
        is_sum = term is not None and isinstance(term[1], tuple) and term[1][:1] == ("add",) and term[1][2:3] == ((),)
        return nest.indices.index(term[0]) if term is not None and is_sum else None

    def _widths(self, nest: Nest) -> list[int]:
        """Return the bytes of accesses that rows are whole numbers of, more than an element's."""
        store = next(op for op in nest.loops[-1].body.ops if isinstance(op, Store))
        itemsize = store.param.dtype.bytes
        return [w for w in (WIDE, 4) if w > itemsize and len(nest.ranges[1]) * itemsize % w == 0]

    def op(self, op: Op) -> None:
        if self._is_ahead and self._nest is not None and isinstance(op, Store) and op.param in self._tiles:
            load = self.plan.nests.defining.get(op.value)
            if isinstance(load, Load) and op.value in self.pending and op.param.dtype.bytes in (4, 8):
                self.narrow(op)
                return
        super().op(op)

    def narrow(self, op: Store) -> None:
        """A store of one element that comes from an array."""
        source = self.use(op.value)
        row, column = (self.use(i) for i in op.indices)
        stride = self.plan.places.layouts[op.param].stride
        place = f"{self.stage_of(op.param)}({row.text}) * {stride} + {column.text}"
        name = self.layout.params[op.param]
        self.line(f"copy_async<{op.param.dtype.bytes}>({name}, {place}, &{source.text});", op.loc)

    # Products

    def sums(self, nest: Nest, product: Product, before: tuple[Op, ...], sums: Sequence[tuple[str, Value]]) -> None:
        found = self.plan.places.matrices.get(nest)
        if found is None:
            super().sums(nest, product, before, sums)
            return
        ((name, _),) = sums
        self.flush()
        self.line(self.product_text(nest, found, name), product.loop.loc)
        if found.is_guarded:
            # A product of 0 and a number that is not finite is NaN; else tests change nothing.
            self.line(f"if (is_any_nan<{self.plan.places.mapping(nest).count}>({name})) {{", product.loop.loc)
            self.depth += 1
            self.begin(nest, product, before, sums)
            super().sums(nest, product, before, sums)
            self.depth -= 1
            self.line("}")

    def product_text(self, nest: Nest, found: MatrixProduct, sums: str) -> str:
        mapping, (rows, columns, depth) = self.plan.places.mapping(nest), found.shape
        layouts = self.plan.places.layouts
        left, right = (layouts[x.param] for x in found.operands)
        places = ", ".join(f"{self.layout.params[x.param]}, {self._begin(x, layouts)}" for x in found.operands)
        turned = [_bool(x.is_turned) for x in found.operands]
        if isinstance(mapping, Fragments):
            down, across = mapping.grid
            deep = -(-depth // found.step) * found.step
            inside = mapping.covered == (rows, columns) and (across % 2 == 0 or found.dtype is float64)
            values = "" if found.dtype is float64 else f"{found.dtype.name}_values, "
            kind = "double" if found.dtype is float64 else "half"
            shape = f"{values}{down}, {across}, {_bool(inside)}, {rows}, {columns}, {deep}"
            strides = f"{left.stride}, {turned[0]}, {right.stride}, {turned[1]}"
            row, column = mapping.corner(self.lane)
            return f"add_{kind}_product<{shape}, {strides}>({sums}, {places}, {row}, {column});"
        down, across = lanes(self.plan.threads)
        tall, wide = mapping.patch
        near = mapping.columns_together
        step = next(n for n in _STEPS[found.dtype.bytes] if depth % n == 0)
        aligned = [_bool(x.start[1] % (WIDE // found.dtype.bytes) == 0) for x in found.operands]
        shape = f"{tall}, {wide}, {down}, {across}, {near}, {step}, {rows}, {columns}, {depth}"
        sides = f"{left.stride}, {turned[0]}, {aligned[0]}, {right.stride}, {turned[1]}, {aligned[1]}"
        where = f"{self.lane} / {across}, {self.lane} % {across}" + (f" * {near}" if near > 1 else "")
        return f"add_patch_product<{_bool(found.is_fused)}, {shape}, {sides}>({sums}, {places}, {where});"

    def _begin(self, operand: Operand, layouts: dict[Param, Layout]) -> str:
        layout = layouts[operand.param]
        return f"{self.stage_of(operand.param)}{operand.start[0] * layout.stride + operand.start[1]}"


def _bool(value: bool) -> str:
    return "true" if value else "false"
