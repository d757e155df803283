"""The text of a kernel whose blocks work for one thread of the launch each.

All threads run the code outside of nests alike; one of them stores, prints and does atomics. Nests are divided.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from jaxwarp.analysis.integers.ranges import all_of
from jaxwarp.analysis.loops.folds import LARGEST, SUM
from jaxwarp.analysis.loops.nests import Nest
from jaxwarp.codegen.cuda.blocks.barriers import exchanges
from jaxwarp.codegen.cuda.blocks.places import Span, copied_arrays, elements
from jaxwarp.codegen.cuda.blocks.plan import BlockPlan
from jaxwarp.codegen.cuda.blocks.products import Product, product_in
from jaxwarp.codegen.cuda.blocks.spread import WARP
from jaxwarp.codegen.cuda.control import ControlPrinter
from jaxwarp.codegen.cuda.expression import CPP_TYPES, Expr, literal
from jaxwarp.codegen.cuda.functions import Functions
from jaxwarp.codegen.cuda.layout import ParameterLayout
from jaxwarp.codegen.cuda.locals import Local
from jaxwarp.codegen.cuda.names import Names, identifier
from jaxwarp.codegen.cuda.prints import print_calls
from jaxwarp.codegen.cuda.sums.reductions import ReductionPlan
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Block, Call, For, Load, Op, Param, Store, Tell, Value
from jaxwarp.types import Scalar, int32

# How a value takes in another warp's: statements, from the name of the first and the text of the second.
Step = Callable[[str, str], list[str]]


# Elements of a thread whose loop has no jumps, if no array in registers needs that. The gradient of a product of tiles
# of 64 x 64 x 16 compiles in 1.3 s then, else in 24.
_UNROLLED = 8


class BlockPrinter(ControlPrinter):
    """Prints a kernel by a plan.

    Attributes:
        unrolled: the most elements of a thread whose loop has no jumps; arrays in registers need that.
    """

    unrolled = 64

    def __init__(
        self,
        kernel: Kernel,
        names: Names,
        layout: ParameterLayout,
        plan: BlockPlan,
        functions: Functions,
        comments: bool,
    ):
        super().__init__(kernel, names, layout, ReductionPlan(), functions, comments)
        for param in plan.places.padded:
            layout.set_strides(param, (*param.shape[1:-1], (param.shape[-1] or 0) + 1))
        self.plan = plan
        self.lane = "(int)threadIdx.x"
        self._is_largest = "false"
        self._nest: Nest | None = None
        self._turn = ""
        self._inlined: dict[For, Sequence[Local]] = {}
        self._scratch: dict[tuple[str, int], str] = {}

    def arrays(self) -> list[str]:
        """Declarations of the arrays of the kernel's own, after all else is printed."""
        places, names = self.plan.places, self.layout.params
        shared = [f"alignas(16) __shared__ {_type(p)} {names[p]}[{places.allocated(p)}];" for p in places.shared]
        if self.plan.dynamic_bytes:
            shared = self._dynamic()
        scratch = [
            f"alignas(16) __shared__ {cpp_type} {name}[{self.plan.threads // WARP}];"
            for (cpp_type, _), name in self._scratch.items()
        ]
        copied = [f"{_type(p)} {names[p]}[{max(1, elements(p))}];" for p in copied_arrays(self.layout.kernel, places)]
        registers = [
            f"{_type(p)} {names[p]}[{places.mappings[shape].count * each}];"
            for p, (shape, each) in places.registers.items()
        ]
        return [*shared, *scratch, *copied, *registers]

    def _dynamic(self) -> list[str]:
        """Declarations of the arrays that lie in shared memory which the launch gives: parts of one array."""
        places, names = self.plan.places, self.layout.params
        memory = self.layout.names.outermost("shared_memory")
        lines, at = [f"extern __shared__ __align__(16) unsigned char {memory}[];"], 0
        for param in places.shared:
            array = f"{_type(param)} (&{names[param]})[{places.allocated(param)}]"
            lines.append(f"{array} = *({array.replace('&' + names[param], '*')})({memory} + {at});")
            at += places.bytes_of(param)
        return lines

    # Code that all threads run alike

    def op(self, op: Op) -> None:
        if op in self.plan.barriers:
            self.flush()
            self.line("__syncthreads();")
        if self._nest is None:
            match op:
                case Load() if op.param in self.plan.places.registers:
                    self.fetched(op)
                    return
                case Load() if op in self.plan.places.told:
                    self.told(op, self.element(op.param, op.indices).text)
                    return
                case Store() if self.is_seen(op.param):
                    target = self.element(op.param, op.indices)
                    value = self.use(op.value)
                    self.flush(loading=op.param)
                    self.alone(f"{target.text} = {value.text};", op)
                    return
                case Atomic() if self.is_seen(op.param):
                    target = self.element(op.param, op.indices)
                    args = [self.use(a).text for a in op.args]
                    self.flush(loading=op.param)
                    text = self.atomics.call(op.kind, op.param.dtype, f"&{target.text}", args)
                    if op in self.plan.places.told:
                        self.told(op, text)
                    else:
                        self.alone(f"{text};", op)
                    return
                case Tell():
                    for text in print_calls(op, [self.use(a).text for a in op.args]):
                        self.alone(text, op)
                    return
                case _:
                    pass
        super().op(op)

    def is_seen(self, param: Param) -> bool:
        """Return whether an array is the same for all threads of a block."""
        return param not in self.private or param in self.plan.places.shared

    def alone(self, text: str, op: Op) -> None:
        self.line(f"if ({self.lane} == 0) {text}", op.loc)

    def is_expression(self, block: Block, largest: int) -> bool:
        registers, told = self.plan.places.registers, self.plan.places.told
        special = (
            op in self.plan.barriers
            or op in told
            or (self._nest is None and isinstance(op, Load) and op.param in registers)
            for op in block.ops
        )
        return not any(special) and super().is_expression(block, largest)

    def fetched(self, op: Load) -> None:
        """Loads an element that a thread has in a register, for all of them."""
        shape, each = self.plan.places.registers[op.param]
        numbers = [self.plan.nests.number(i) or 0 for i in op.indices]
        axes = [n or 0 for n in op.param.shape[: op.param.rank - _component_rank(op.param, each)]]
        at = [i for i, n in zip(numbers, axes, strict=False) if n > 1]
        lane, turn = self.plan.places.mappings[shape].owner(at)
        held = f"{self.layout.params[op.param]}[{turn * each + _component(op.param, each, numbers)}]"
        local = self.locals.declare(op.result, op.result.name or op.param.name)
        if not exchanges(op, self.plan.nests, self.plan.places):
            self.line(f"{local.cpp_type} {local.name} = lane_value({held}, {lane});", op.loc)
        else:
            memory = self.scratch(local.cpp_type)
            self.line(f"if ({self.lane} == {lane}) {memory}[0] = {held};", op.loc)
            self.line("__syncthreads();")
            self.line(f"{local.cpp_type} {local.name} = {memory}[0];", op.loc)
        self.occupy(local, op.result)

    def told(self, op: Load | Atomic, text: str) -> None:
        """Give all threads what the first one finds."""
        local = self.locals.declare(op.result, op.result.name or op.param.name)
        if exchanges(op, self.plan.nests, self.plan.places):
            memory = self.scratch(local.cpp_type)
            self.alone(f"{memory}[0] = {text};", op)
            self.line("__syncthreads();")
            self.line(f"{local.cpp_type} {local.name} = {memory}[0];", op.loc)
        else:
            self.line(f"{local.cpp_type} {local.name};")
            self.alone(f"{local.name} = {text};", op)
            self.line(f"{local.name} = lane_value({local.name}, 0);", op.loc)
        self.occupy(local, op.result)

    def scratch(self, cpp_type: str, number: int = 0) -> str:
        """The name of memory with an element for each warp."""
        key = cpp_type, number
        if key not in self._scratch:
            self._scratch[key] = self.layout.names.outermost(f"of_warps_{identifier(cpp_type)}")
        return self._scratch[key]

    # Nests

    def for_(self, op: For) -> None:
        if op in self._inlined:
            self.flush()
            targets = self._inlined[op]
            for local, param in zip(targets, op.body.params[1:], strict=False):
                self.occupy(local, param)
            wanted = targets or [None] * len(op.results)
            self.block(op.body, wanted, self.live.read_from_outside(op))
            for local, result in zip(targets, op.results, strict=False):
                self.occupy(local, result)
            return
        nest = self.plan.nests.found.get(op) if self._nest is None else None
        if nest is None:
            super().for_(op)
            return
        self.flush()
        product = product_in(nest, self.plan.nests)
        if nest.fold is not None:
            self.fold(nest)
        elif product is not None and self.plan.places.mapping(nest).count > 1:
            self.product(nest, product)
        else:
            with self.each(nest):
                self.iteration(nest, ())

    def iteration(self, nest: Nest, carried: Sequence[Local]) -> None:
        """The body of a nest for one element."""
        first = nest.loops[0]
        self._inlined = dict.fromkeys(nest.loops[1:], carried)
        for local, param in zip(carried, first.body.params[1:], strict=False):
            self.occupy(local, param)
        self.block(first.body, carried or [None] * len(first.results), self.live.read_from_outside(first))

    @contextmanager
    def each_open(self, nest: Nest) -> Iterator[str]:
        """Loops over the iterations that a thread has: lanes share the last loop, groups of them the one before."""
        before, depth = self.locals.occupants(), self.depth
        threads = WARP if nest.is_of_each_warp else self.plan.threads
        bounds = [[self.use_atom(v, "bound", x.loc) for v in (x.start, x.stop)] for x in nest.loops]
        self.locals.open()
        lanes = [(1, "0")] * (len(nest.loops) - 2)
        across = threads if len(nest.loops) == 1 else _across(self.plan.nests.most_trips(nest.loops[-1]))
        if len(nest.loops) > 1:
            lanes.append((threads // across, f"{self.lane} / {across}"))
        lanes.append((across, f"{self.lane} % {across}" if across < self.plan.threads else self.lane))
        for loop, (start, stop), (count, lane) in zip(nest.loops, bounds, lanes, strict=True):
            index = loop.body.params[0]
            cpp_type, step = CPP_TYPES[index.type.short], self.plan.nests.number(loop.step) or 0
            name = self.locals.names.fresh(index.name or "k")
            if self.is_far_from_limits(loop, step * count):
                first = start.text if lane == "0" else f"{start.text} + {lane}" + (f" * {step}" if step != 1 else "")
                header = f"for ({cpp_type} {name} = {first}; {name} < {stop.text}; {name} += {step * count}) {{"
                self.line(header, loop.loc)
                self.depth += 1
            else:
                turn = self.locals.names.fresh("trip")
                trips = f"range_count({start.text}, {stop.text}, ({cpp_type}){step})"
                self.line(f"for (unsigned long long {turn} = {lane}; {turn} < {trips}; {turn} += {count}) {{", loop.loc)
                self.depth += 1
                moved = f"wrap_mul(({cpp_type}){turn}, ({cpp_type}){step})"
                self.line(f"const {cpp_type} {name} = wrap_add({start.text}, {moved});")
            self.exprs[index] = Expr(name, reads=frozenset([name]))
        self._nest = nest
        yield ""
        self._nest, self._inlined = None, {}
        while self.depth > depth:
            self.depth -= 1
            self.line("}")
        self.locals.close()
        self.locals.restore(before)

    def is_far_from_limits(self, loop: For, by: int) -> bool:
        facts, (_, largest) = self.operators.facts, all_of(loop.start.type)
        return by > 0 and max(facts[loop.start][1], facts[loop.stop][1]) + by <= largest

    @contextmanager
    def each(self, nest: Nest) -> Iterator[str]:
        """A loop over the elements that a thread has; the place of an element in the order of the nest."""
        if nest.is_open:
            with self.each_open(nest) as place:
                yield place
            return
        span, mapping = self.plan.places.spans[nest], self.plan.places.mapping(nest)
        before, lane = self.locals.occupants(), self.lane
        is_divided = len(span.shape) > 1 and not mapping.patch
        if is_divided and _UNROLLED < mapping.count <= self.unrolled and nest not in self.plan.places.in_turn:
            # Else the indices of all elements are in registers from one nest to the next.
            lane = self.locals.names.fresh("lane")
            self.line(f"const int {lane} = number_of_thread();")
        self.locals.open()
        names, depth = self.locals.names, self.depth
        self._turn = "0"
        if mapping.count > 1:
            self._turn = names.fresh("turn")
            # Else jumps cost nothing, and each copy of the loop time to compile.
            is_in_registers = nest not in self.plan.places.in_turn
            least = self.unrolled if is_in_registers else min(self.unrolled, _UNROLLED)
            self.line("#pragma unroll" if mapping.count <= least else "#pragma unroll 4")
            turn = self._turn
            self.line(f"for (int {turn} = 0; {turn} < {mapping.count}; ++{turn}) {{", nest.loops[0].loc)
        else:
            self.line("{", nest.loops[0].loc)
        self.depth += 1
        flat = names.fresh("at")
        if not mapping.patch:
            step = f" + {self._turn} * {mapping.threads}" if mapping.count > 1 else ""
            if mapping.in_rows:
                step = f" * {mapping.count} + {self._turn}"
            self.line(f"const int {flat} = {lane}{step};")
        indices = mapping.indices(lane, self._turn, flat)
        tests = self.bind(
            nest, indices, [] if mapping.is_even or mapping.patch else [f"{flat} < {math.prod(span.shape)}"]
        )
        place = flat if self.is_in_order(nest) else _place(span, indices)
        if tests:
            self.line(f"if ({' && '.join(tests)}) {{")
            self.depth += 1
        self._nest = nest
        yield place
        self._nest, self._turn, self._inlined = None, "", {}
        while self.depth > depth:
            self.depth -= 1
            self.line("}")
        self.locals.close()
        self.locals.restore(before)

    def is_in_order(self, nest: Nest) -> bool:
        """Return whether a thread comes to its elements in the order of the nest."""
        loops = [loop for loop in self.plan.places.spans[nest].box if loop >= 0]
        return not self.plan.places.mapping(nest).patch and loops == sorted(loops)

    def bind(self, nest: Nest, texts: Sequence[str], tests: list[str]) -> list[str]:
        """Give the indices of loops their values. Return the conditions under which an element is one of the nest's."""
        span, mapping = self.plan.places.spans[nest], self.plan.places.mapping(nest)
        shape = span.shape
        for axis, (loop, text) in enumerate(zip(span.box, texts, strict=True)):
            name = self.locals.names.fresh((loop >= 0 and nest.indices[loop].name) or "k")
            cpp_type = CPP_TYPES[nest.indices[loop].type.short] if loop >= 0 else "int"
            if mapping.patch and shape[axis] != mapping.covered[axis]:
                tests.append(f"{text} < {shape[axis]}")
            if span.is_own:
                numbers = nest.ranges[loop]
                wide = f"({cpp_type})({text})" if cpp_type != "int" else text
                scaled = f"({wide}) * {numbers.step}" if numbers.step != 1 else wide
                self.line(
                    f"const {cpp_type} {name} = {scaled} + {numbers.start};"
                    if numbers.start
                    else f"const {cpp_type} {name} = {scaled};"
                )
            else:
                self.line(f"const {cpp_type} {name} = {text};")
            if loop < 0:
                tests.append(f"{name} == {-1 - loop}")
                continue
            self.exprs[nest.indices[loop]] = Expr(name, reads=frozenset([name]))
            numbers = nest.ranges[loop]
            if not span.is_own and numbers.start > 0:
                tests.append(f"{name} >= {numbers.start}")
            if not span.is_own and numbers.stop < shape[axis]:
                tests.append(f"{name} < {numbers.stop}")
        return tests

    def element(self, param: Param, indices: Sequence[Value]) -> Expr:
        if param not in self.plan.places.registers:
            return super().element(param, indices)
        _, each = self.plan.places.registers[param]
        index = self._turn
        if each > 1:
            number = _component(param, each, [self.plan.nests.number(i) or 0 for i in indices])
            index = f"{index} * {each} + {number}"
        return Expr(f"{self.layout.params[param]}[{index}]", reads=frozenset([self._turn]))

    # Folds

    def fold(self, nest: Nest) -> None:
        first = nest.loops[0]
        assert nest.fold is not None
        inits = [self.use_atom(v, "start", first.loc) for v in first.inits]
        if nest.fold.kind == SUM:
            totals = [
                self.start(p, r, nothing_of(r.type)) for p, r in zip(first.body.params[1:], first.results, strict=True)
            ]
            with self.each(nest):
                self.iteration(nest, totals)
            for local in totals:
                self.line(f"{local.name} = total_of_warp({local.name});")
                local.occupant = None
            if exchanges(first, self.plan.nests, self.plan.places):
                self.combine(totals, lambda local, memory: [f"{local} = sum_of({local}, {memory});"])
            for local, init, result in zip(totals, inits, first.results, strict=True):
                self.line(f"{local.name} = sum_of({init.text}, {local.name});", first.loc)
                self.occupy(local, result)
            return
        self.extremum(nest, inits)

    def start(self, param: Value, result: Value, text: str) -> Local:
        local = self.locals.declare(Value(result.type, result.name or param.name))
        local.occupant = param
        self.line(f"{local.cpp_type} {local.name} = {text};")
        return local

    def combine(self, values: Sequence[Local], step: Step | None) -> None:
        """Each thread combines what the warps have, in order."""
        warps = self.plan.threads // WARP
        memory = [self.scratch(local.cpp_type, n) for n, local in enumerate(values)]
        sets = " ".join(f"{m}[{self.lane} / {WARP}] = {v.name};" for m, v in zip(memory, values, strict=True))
        self.line(f"if ({self.lane} % {WARP} == 0) {{ {sets} }}")
        self.line("__syncthreads();")
        for m, v in zip(memory, values, strict=True):
            self.line(f"{v.name} = {m}[0];")
        turn = self.locals.names.fresh("warp")
        self.line(f"for (int {turn} = 1; {turn} < {warps}; ++{turn}) {{")
        self.depth += 1
        for text in self.steps(values, [f"{m}[{turn}]" for m in memory], step):
            self.line(text)
        self.depth -= 1
        self.line("}")

    def steps(self, values: Sequence[Local], others: Sequence[str], step: Step | None) -> list[str]:
        if step is None:
            return self.takes(values, others)
        return [text for v, o in zip(values, others, strict=True) for text in step(v.name, o)]

    def takes(self, values: Sequence[Local], others: Sequence[str], in_order: bool = False) -> list[str]:
        """Take another extremum, (value, where in the nest, ...), if it is better, or as good and comes first."""
        best, at, *_ = values
        test = f"is_better<{self._is_largest}>({others[0]}, {best.name})"
        if not in_order:
            test = f"comes_first<{self._is_largest}>({others[0]}, {others[1]}, {best.name}, {at.name})"
        moves = " ".join(f"{v.name} = {o};" for v, o in zip(values, others, strict=True))
        return [f"if ({test}) {{ {moves} }}"]

    def extremum(self, nest: Nest, inits: Sequence[Expr]) -> None:
        first, last = nest.loops[0], nest.loops[-1]
        assert nest.fold is not None
        self._is_largest = "true" if nest.fold.kind == LARGEST else "false"
        results = first.results
        chosen = [self.plan.nests.defining[r] for r in last.body.results]
        news = [op.args[1] for op in chosen if isinstance(op, Call)]
        best = self.start(last.body.params[1], results[0], inits[0].text)
        at = self.start(Value(int32), Value(int32, "place"), "-1")
        rest = [self.start(p, r, i.text) for p, r, i in zip(last.body.params[2:], results[1:], inits[1:], strict=True)]
        values = [best, at, *rest]
        dependent = _dependent(last.body)
        ops = tuple(op for op in last.body.ops if not dependent.intersection(op.defined))
        inner = For(last.results, last.start, last.stop, last.step, last.inits, Block(last.body.params, ops, ()))
        with self.each(nest) as place:
            found = [self.locals.declare(Value(v.type, "new")) for v in news]
            for local in found:
                self.line(f"{local.cpp_type} {local.name};")
            outer = without_last(nest)
            again = self.live.read_from_outside(first)
            self.block(Block((), (*outer, *inner.body.ops), tuple(news)), found, again)
            others = [found[0].name, place, *(x.name for x in found[1:])]
            for text in self.takes(values, others, self.is_in_order(nest)):
                self.line(text)
        distance = self.locals.names.fresh("distance")
        self.line(f"for (int {distance} = {WARP // 2}; {distance} > 0; {distance} /= 2) {{")
        self.depth += 1
        self.locals.open()
        others = []
        for v in values:
            other = self.locals.names.fresh(f"other_{v.base}")
            self.line(f"const {v.cpp_type} {other} = from_lane({v.name}, {distance});")
            others.append(other)
        for text in self.takes(values, others):
            self.line(text)
        self.locals.close()
        self.depth -= 1
        self.line("}")
        if exchanges(first, self.plan.nests, self.plan.places):
            self.combine(values, None)
        at.occupant = None
        for local, result in zip([best, *rest], results, strict=True):
            self.occupy(local, result)

    # Products

    def product(self, nest: Nest, product: Product) -> None:
        mapping, loop = self.plan.places.mapping(nest), product.loop
        first, last = nest.loops
        cut = first.body.ops.index(last)
        before, after = (*first.body.ops[:cut], *product.before), (*product.after, *first.body.ops[cut + 1 :])
        again = self.live.read_from_outside(first)
        own = self.plan.places.registers
        matrices = self.plan.places.matrices.get(nest)
        is_fresh = matrices is not None and matrices.is_guarded  # the sums may be made once more
        if product.adds_to is not None and own.get(product.adds_to, (0, 0))[1] == 1 and not is_fresh:
            self.sums(nest, product, before, [(self.layout.params[product.adds_to], loop.body.params[1])])
            return
        sums: list[tuple[str, Value]] = []
        for param, result in zip(loop.body.params[1:], loop.results, strict=True):
            name = self.locals.names.fresh(result.name or param.name or "sum")
            self.line(f"{CPP_TYPES[param.type.short]} {name}[{mapping.count}];", loop.loc)
            sums.append((name, param))
        self.begin(nest, product, before, sums)
        self.sums(nest, product, before, sums)
        with self.each(nest):
            for local, result in zip(self.held_sums(sums), loop.results, strict=True):
                self.occupy(local, result)
            self.block(Block((), (*before, *after), ()), (), again)

    def begin(
        self, nest: Nest, product: Product, before: tuple[Op, ...], sums: Sequence[tuple[str, Value]]
    ) -> None:
        """Give sums the values that they begin with."""
        again = self.live.read_from_outside(nest.loops[0])
        with self.each(nest):
            self.block(Block((), before, product.loop.inits), self.held_sums(sums), again)

    def sums(self, nest: Nest, product: Product, before: tuple[Op, ...], sums: Sequence[tuple[str, Value]]) -> None:
        """The loop of a product, for all elements that a thread has."""
        loop, again = product.loop, self.live.read_from_outside(nest.loops[0])
        numbers = self.plan.nests.range_of(loop)
        self.locals.open()
        index, counter = self.locals.names.fresh(loop.body.params[0].name or "k"), self.locals.names.fresh("step")
        cpp_type = CPP_TYPES[loop.body.params[0].type.short]
        self.line("#pragma unroll 4" if len(numbers) > 16 else "#pragma unroll")
        self.line(f"for (int {counter} = 0; {counter} < {len(numbers)}; ++{counter}) {{", loop.loc)
        self.depth += 1
        self.line(f"const {cpp_type} {index} = ({cpp_type}){counter} * {numbers.step} + {numbers.start};")
        self.exprs[loop.body.params[0]] = Expr(index, reads=frozenset([index]))
        with self.each(nest):
            held = self.held_sums(sums)
            for local, (_, param) in zip(held, sums, strict=True):
                self.occupy(local, param)
            self.block(Block((), (*before, *loop.body.ops), loop.body.results), held, again | set(loop.body.params))
        self.depth -= 1
        self.line("}")
        self.locals.close()

    def held_sums(self, sums: Sequence[tuple[str, Value]]) -> list[Local]:
        return [Local(f"{name}[{self._turn}]", name, CPP_TYPES[v.type.short]) for name, v in sums]


def _across(trips: int) -> int:
    """Return how many threads of a warp share the last of some loops."""
    across = 1
    while across < min(trips, WARP):
        across *= 2
    return across


def _place(span: Span, indices: Sequence[str]) -> str:
    """The place of an element in the order of a nest, by the positions along the axes of what it covers."""
    axes = sorted((axis for axis, loop in enumerate(span.box) if loop >= 0), key=lambda axis: span.box[axis])
    return functools.reduce(lambda text, axis: f"(({text}) * {span.shape[axis]} + ({indices[axis]}))", axes, "0")


def _type(param: Param) -> str:
    return CPP_TYPES[param.dtype.short]


def nothing_of(dtype: Scalar) -> str:
    """Return what changes no sum: -0.0 of floats."""
    return literal(-0.0 if dtype.is_float else 0, dtype).text


def _component_rank(param: Param, each: int) -> int:
    rank, size = 0, 1
    while size < each:
        rank += 1
        size *= param.shape[-rank] or 1
    return rank


def _component(param: Param, each: int, numbers: Sequence[int]) -> int:
    """The number of a component in an element."""
    rank, found = _component_rank(param, each), 0
    for extent, number in zip(param.shape[param.rank - rank :], numbers[param.rank - rank :], strict=True):
        found = found * (extent or 1) + number
    return found


def _dependent(body: Block) -> set[Value]:
    """The values that what a loop carries decides about."""
    found = set(body.params[1:])
    for op in body.ops:
        if found.intersection(op.operands):
            found.update(op.defined)
    return found


def without_last(nest: Nest) -> list[Op]:
    return [op for loop in nest.loops[:-1] for op in loop.body.ops if op not in nest.loops]
