"""Elements that a thread reads and writes again and again become local variables.

    for k in range(n) {                       v = load a[i]
      v = load a[i]                           for k in range(n) carry(v) {
      store a[i], v * v            ->           yield v * v
    }                                         }
                                              store a[i], v

After this a load of the array is one of its contents on entry, which the reverse sweep can do again, and a value that
would be overwritten in memory is a carried value, which loops know how to bring back. Only arrays are touched whose
accesses have addresses that are provably the same or provably different; a load is moved only to where the same
element is certainly accessed anyway, so that no index is used that the kernel would not have used.
"""

from __future__ import annotations

from collections.abc import Sequence

from jaxwarp.analysis.addresses import Key, are_disjoint, ownership_of
from jaxwarp.analysis.dependence import Dependence
from jaxwarp.analysis.thread_values import Shapes
from jaxwarp.builtins.scalar_ops import ROWS
from jaxwarp.ir.builder import Builder
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import Atomic, Block, Call, For, If, Load, Op, Param, Store, Value, While, walk
from jaxwarp.ir.rewrite import Rewriter, rebuild
from jaxwarp.passes.simplify import simplify
from jaxwarp.vjp.activity import used_values

Element = tuple[Param, Key]
Held = dict[Element, Value]
Places = dict[Element, tuple[Value, ...]]  # indices of an element, visible where it is written back


def promote_memory(
    kernel: Kernel,
    grid: Sequence[int | None] | None = None,
    shapes: Shapes | None = None,
    as_written: bool = False,
) -> Kernel:
    """The same kernel, with fewer loads of what it has stored itself. Conditions of `while` have no effects.

    With `as_written`, no index of an array of floats counts from the end.
    """
    promotion = _Promotion(kernel, grid, shapes, as_written)
    if not promotion.candidates:
        return kernel
    body, _ = promotion.block(kernel.body, {}, set())
    return simplify(Kernel(kernel.name, kernel.grid_rank, kernel.params, body, kernel.locals))


class _Promotion:
    def __init__(self, kernel: Kernel, grid: Sequence[int | None] | None, shapes: Shapes | None, as_written: bool):
        self.ownership = ownership_of(kernel, grid, shapes)
        self.addresses = self.ownership.addresses
        self.used = used_values(kernel)
        self.dependence = Dependence(kernel, self.addresses.grid, shapes, as_written)
        self.values: dict[Value, Value] = {}
        accesses: dict[Param, list[Op]] = {}
        for op in walk(kernel.body):
            if isinstance(op, (Load, Store, Atomic)):
                accesses.setdefault(op.param, []).append(op)
        self.candidates = {p for p, ops in accesses.items() if self._is_candidate(ops)}

    def _is_candidate(self, ops: Sequence[Op]) -> bool:
        kinds = {type(op) for op in ops}
        if Load not in kinds or len(kinds) == 1 or any(isinstance(op, Atomic) and not self._is_plain(op) for op in ops):
            return False
        keys = [self.addresses.key(op) for op in ops]  # pyright: ignore[reportArgumentType]
        pairs = [(i, j) for i in range(len(ops)) for j in range(i) if keys[i] != keys[j]]
        return all(are_disjoint(keys[i], keys[j]) or self.dependence.differ_now(ops[i], ops[j]) for i, j in pairs)  # pyright: ignore[reportArgumentType]

    def _is_plain(self, op: Atomic) -> bool:
        """Return whether an atomic is a plain `a[i] = a[i] + v` (written `a[i] += v`) that affects no other thread."""
        return op.kind == "add" and op.result not in self.used and self.ownership.is_private(op.param)

    def element(self, op: Op) -> Element | None:
        if isinstance(op, (Load, Store, Atomic)) and op.param in self.candidates:
            return op.param, self.addresses.key(op)
        return None

    def touched(self, op: Op) -> dict[Element, Op]:
        """The candidates' elements that an operation and its blocks access, with one access each."""
        found: dict[Element, Op] = {}
        for inner in (op, *(x for b in op.blocks for x in walk(b))):
            element = self.element(inner)
            if element is not None:
                found.setdefault(element, inner)
        return found

    def certain(self, block: Block) -> dict[Element, Op]:
        """Elements that every run of the block accesses, by an access that stands in it directly."""
        return {e: op for op in reversed(block.ops) if (e := self.element(op)) is not None}

    def use(self, value: Value) -> Value:
        return self.values.get(value, value)

    def block(self, block: Block, held: Held, visible: set[Value]) -> tuple[Block, Held]:
        """Rewrites a block. `held` are elements whose contents are in values on entry; returned as they are at the end.

        Elements that the block takes up itself it also writes back.
        """
        current = dict(held)
        visible = visible | set(block.params)
        certain = self.certain(block)
        places: Places = {}
        dirty: dict[Element, None] = {}
        ops: list[Op] = []
        for op in block.ops:
            element = self.element(op)
            if element is not None:
                places.setdefault(element, tuple(self.use(i) for i in op.indices))  # pyright: ignore
                if isinstance(op, Load):
                    if element not in current:
                        ops.append(self.again(op))
                        current[element] = op.result
                    else:
                        self.values[op.result] = current[element]
                else:
                    assert isinstance(op, (Store, Atomic))
                    if isinstance(op, Store):
                        current[element] = self.use(op.value)
                    else:
                        if element not in current:
                            ops.append(self.take_up(element, op, current, places))
                        sum_ = Value(element[0].dtype)
                        # Fixed: memory rounds the product that is added, too.
                        args = (current[element], self.use(op.args[0]))
                        ops.append(Call(sum_, ROWS["add"], args, fixed_rounding=True, loc=op.loc))
                        current[element] = sum_
                    dirty[element] = None
            elif op.blocks and (touched := self.touched(op)):
                # The condition of a `while` runs at least once.
                sure = certain | self.certain(op.condition) if isinstance(op, While) else certain
                for e in touched:
                    if e not in current and e in sure and set(sure[e].indices) <= visible:  # pyright: ignore
                        ops.append(self.take_up(e, sure[e], current, places))
                ops += self.region(op, touched, current, dirty, visible)
            else:
                ops.append(self.again(op))
            visible |= set(op.defined)
        ops += [Store(e[0], places[e], current[e]) for e in dirty if e not in held]
        results = tuple(self.use(v) for v in block.results)
        return Block(block.params, tuple(ops), results), {e: current[e] for e in held}

    def again(self, op: Op) -> Op:
        blocks = tuple(self.plain(b) for b in op.blocks)
        return rebuild(op, op.defined, [self.use(v) for v in op.operands], blocks)

    def plain(self, block: Block) -> Block:
        ops = tuple(self.again(op) for op in block.ops)
        return Block(block.params, ops, tuple(self.use(v) for v in block.results))

    def take_up(self, element: Element, access: Op, current: Held, places: Places) -> Load:
        """A load of an element that the block is about to access in any case."""
        indices = tuple(self.use(i) for i in access.indices)  # pyright: ignore
        places.setdefault(element, indices)
        load = Load(Value(element[0].dtype, element[0].name), element[0], indices, loc=access.loc)
        current[element] = load.result
        return load

    def region(
        self, op: Op, touched: dict[Element, Op], current: Held, dirty: dict[Element, None], visible: set[Value]
    ) -> list[Op]:
        """A branch or a loop that accesses candidates: elements held here go in and come out as values."""
        inside = [e for e in touched if e in current]
        written = {self.element(x) for b in op.blocks for x in walk(b) if isinstance(x, (Store, Atomic))}
        if isinstance(op, If):
            new: list[Op] = [self.branches(op, inside, current, visible)]
        else:
            assert isinstance(op, (For, While))
            guarded = self.guarded(op, touched, current, visible)
            new = guarded if guarded is not None else [self.loop(op, inside, current, visible)]
        dirty.update((e, None) for e in inside if e in written)
        return new

    def branches(self, op: If, inside: list[Element], current: Held, visible: set[Value]) -> If:
        blocks = []
        for block in op.blocks:
            new, after = self.block(block, {e: current[e] for e in inside}, visible)
            blocks.append(Block(new.params, new.ops, (*new.results, *(after[e] for e in inside))))
        results = tuple(Value(e[0].dtype, e[0].name) for e in inside)
        current.update(zip(inside, results, strict=True))
        return If((*op.results, *results), self.use(op.condition), *blocks, loc=op.loc)

    def loop(self, op: For | While, inside: list[Element], current: Held, visible: set[Value]) -> For | While:
        inits = (*(self.use(v) for v in op.inits), *(current[e] for e in inside))
        results = tuple(Value(e[0].dtype, e[0].name) for e in inside)
        blocks = []
        for block in op.blocks:
            carried = {e: Value(e[0].dtype, e[0].name) for e in inside}
            params = Block((*block.params, *carried.values()), block.ops, block.results)
            new, after = self.block(params, carried, visible)
            is_test = isinstance(op, While) and block is op.condition
            extra = () if is_test else tuple(after[e] for e in inside)
            blocks.append(Block(new.params, new.ops, (*new.results, *extra)))
        current.update(zip(inside, results, strict=True))
        defined = (*op.results, *results)
        if isinstance(op, For):
            start, stop, step = (self.use(v) for v in (op.start, op.stop, op.step))
            return For(defined, start, stop, step, inits, blocks[0], loc=op.loc)
        return While(defined, inits, blocks[0], blocks[1], loc=op.loc)

    def guarded(
        self, op: For | While, touched: dict[Element, Op], current: Held, visible: set[Value]
    ) -> list[Op] | None:
        """`if the loop runs at all { take up what its body certainly accesses; the loop }`."""
        certain = self.certain(op.body)
        fresh = [e for e in touched if e not in current and e in certain
                 and set(certain[e].indices) <= visible]  # pyright: ignore  # fmt: skip
        if not fresh or (isinstance(op, While) and any(self.touched(x) for x in op.condition.ops)):
            return None
        held = [e for e in touched if e in current]
        inner = {e: current[e] for e in held}
        ops, runs = self.runs(op)
        places: Places = {}
        then: list[Op] = [self.take_up(e, certain[e], inner, places) for e in fresh]
        values = tuple(Value(v.type, v.name) for v in op.results)
        dirty: dict[Element, None] = {}
        then += self.region(rebuild(op, values, op.operands, op.blocks), touched, inner, dirty, visible)
        then += [Store(e[0], places[e], inner[e], loc=op.loc) for e in fresh if e in dirty]
        after = tuple(Value(e[0].dtype, e[0].name) for e in held)
        then_block = Block((), tuple(then), (*values, *(inner[e] for e in held)))
        else_block = Block((), (), (*(self.use(v) for v in op.inits), *(current[e] for e in held)))
        current.update(zip(held, after, strict=True))
        return [*ops, If((*op.results, *after), runs, then_block, else_block, loc=op.loc)]

    def runs(self, op: For | While) -> tuple[list[Op], Value]:
        """Code that tells whether the loop runs at least once."""
        if isinstance(op, While):
            copy = Rewriter(fresh=True)
            copy.values.update(self.values)
            copy.values.update(zip(op.condition.params, (self.use(v) for v in op.inits), strict=True))
            copied = copy.block(Block((), op.condition.ops, op.condition.results))
            return list(copied.ops), copied.results[0]
        builder = Builder()
        builder.loc = op.loc
        start, stop, step = (self.use(v) for v in (op.start, op.stop, op.step))
        with builder.block() as ops:
            zero = builder.const(0, step.type)
            up = builder.call(ROWS["logical_and"], builder.call(ROWS["gt"], step, zero),
                              builder.call(ROWS["lt"], start, stop))  # fmt: skip
            down = builder.call(ROWS["logical_and"], builder.call(ROWS["lt"], step, zero),
                                builder.call(ROWS["gt"], start, stop))  # fmt: skip
            result = builder.call(ROWS["logical_or"], up, down)
        return ops, result
