"""The IR as text: for people, for goldens, and (without names and locations) for the digest of a kernel."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jaxwarp.errors import InternalError
from jaxwarp.ir.nodes import Atomic, Block, Call, Const, For, If, Load, Op, Param, Size, Store, Tell, Tid, Value, While


def printed(
    name: str, grid_rank: int, params: Sequence[Param], own: Sequence[Param], body: Block, *, named: bool = True
) -> str:
    """Readable text of a kernel, values named after the user's variables, or (not `named`) by order of definition."""
    return _Printer(named).kernel(name, grid_rank, params, own, body)


class _Printer:
    def __init__(self, named: bool):
        self.named = named
        self.names: dict[Value, str] = {}
        self.used: dict[str, int] = {}
        self.params: dict[Param, str] = {}
        self.lines: list[str] = []

    def kernel(self, name: str, grid_rank: int, params: Sequence[Param], own: Sequence[Param], body: Block) -> str:
        for i, param in enumerate((*params, *own)):
            self.params[param] = f"@{param.name}" if self.named else f"@{i}"
        listed = ", ".join(f"{self.params[p]}: {_param_type(p)}" for p in params)
        self.lines.append(f"kernel {name}[{grid_rank}]({listed}) {{")
        for local in own:
            self.line(1, f"local {self.params[local]}: {_param_type(local)}")
        self.ops(body, 1)
        self.lines.append("}")
        return "\n".join(self.lines) + "\n"

    def define(self, value: Value) -> str:
        base = value.name if self.named and value.name else ""
        if not base:
            name = f"%{len(self.names)}"
        else:
            n = self.used.get(base, 0)
            self.used[base] = n + 1
            name = f"%{base}" if n == 0 else f"%{base}.{n}"
        self.names[value] = name
        return f"{name}: {value.type.short}"

    def use(self, values: Iterable[Value]) -> str:
        return ", ".join(self.names[v] for v in values)

    def element(self, param: Param, indices: tuple[Value, ...]) -> str:
        return f"{self.params[param]}[{self.use(indices)}]"

    def ops(self, block: Block, depth: int) -> None:
        for op in block.ops:
            self.op(op, depth)

    def line(self, depth: int, text: str) -> None:
        self.lines.append("  " * depth + text)

    def block(self, block: Block, depth: int, ending: str) -> None:
        self.ops(block, depth + 1)
        if block.results:
            self.line(depth + 1, f"yield {self.use(block.results)}")
        self.line(depth, ending)

    def results(self, op: If | For | While) -> str:
        return ", ".join(self.define(v) for v in op.results) + " = " if op.results else ""

    def carried(self, params: tuple[Value, ...], inits: tuple[Value, ...]) -> str:
        return ", ".join(f"{self.define(p)} = {self.names[i]}" for p, i in zip(params, inits, strict=True))

    def op(self, op: Op, depth: int) -> None:
        match op:
            case Const():
                text = _literal_text(op.value)
                self.line(depth, f"{self.define(op.result)} = {text}")
            case Tid():
                self.line(depth, f"{self.define(op.result)} = tid {op.axis}")
            case Size():
                self.line(depth, f"{self.define(op.result)} = size {self.params[op.param]} {op.axis}")
            case Call():
                args = self.use(op.args)
                # Two kernels that differ in it alone do not compute the same; to readers it is of no interest.
                mark = "!" if op.fixed_rounding and not self.named else ""
                self.line(depth, f"{self.define(op.result)} = {op.builtin.name}{mark} {args}")
            case Load():
                element = self.element(op.param, op.indices)
                self.line(depth, f"{self.define(op.result)} = load {element}")
            case Store():
                self.line(depth, f"store {self.element(op.param, op.indices)}, {self.names[op.value]}")
            case Atomic():
                mark = "!" if op.takes and not self.named else ""
                text = f"atomic_{op.kind}{mark} {self.element(op.param, op.indices)}, {self.use(op.args)}"
                self.line(depth, f"{self.define(op.result)} = {text}")
            case Tell():
                self.line(depth, f"{op.kind} {self.told(op)}")
            case If():
                condition = self.names[op.condition]
                self.line(depth, f"{self.results(op)}if {condition} {{")
                self.block(op.then, depth, "} else {" if op.orelse.ops or op.orelse.results else "}")
                if op.orelse.ops or op.orelse.results:
                    self.block(op.orelse, depth, "}")
            case For():
                index, *carried = op.body.params
                bounds = f"{self.names[op.start]}, {self.names[op.stop]}, {self.names[op.step]}"
                mark = "!" if op.over_tile and not self.named else ""
                header = f"for{mark} {self.define(index)} in range({bounds})"
                self.line(depth, f"{header} carry({self.carried(tuple(carried), op.inits)}) {{")
                self.block(op.body, depth, "}" + self.after(op))
            case While():
                self.line(depth, f"while carry({self.carried(op.condition.params, op.inits)}) {{")
                self.block(op.condition, depth, f"}} do ({', '.join(self.define(p) for p in op.body.params)}) {{")
                self.block(op.body, depth, "}" + self.after(op))
            case _:
                raise InternalError(f"unknown operation {type(op).__name__}")

    def told(self, op: Tell) -> str:
        said = [f"{self.names[v]} {f}" for v, f in zip(op.args, op.formats, strict=True)]
        parts = [repr(op.texts[0])]
        for value, text in zip(said, op.texts[1:], strict=True):
            parts += [value, repr(text)]
        return ", ".join(parts)

    def after(self, op: For | While) -> str:
        """Results are defined after the loop's body, so that numbering follows scope."""
        return " -> " + ", ".join(self.define(v) for v in op.results) if op.results else ""


def _param_type(param: Param) -> str:
    extents = ", ".join("?" if n is None else str(n) for n in param.shape)
    return f"{param.dtype.short}[{extents}]"


def _literal_text(value: bool | int | float) -> str:
    return value.hex() if isinstance(value, float) else str(value)
