"""The recording of a tape as GraphViz text: arrays, the operations that read and write them, and scopes.

Scopes form a tree over the operations. A sequence that repeats directly within a scope is drawn once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from jaxwarp.arrays.host_array import HostArray
from jaxwarp.arrays.tapes.recorded import Copied, Launched, Operation, PullbackCall
from jaxwarp.errors import KernelTypeError, KernelValueError, did_you_mean, type_text
from jaxwarp.memory.region import Region
from jaxwarp.types import leaves_of

DIRECTIONS = ("LR", "RL", "TB", "BT")
_SHOWN = 'style="rounded,filled",fillcolor="{}22",color="{}"'
_SCOPE, _REPEATED = "#76B900", "#0072B9"
_TRACKED, _WITH_GRADIENT, _PLAIN = "#F0B000", "#76B900", "lightgray"


class Mark(NamedTuple):
    """The beginning of a scope, or the end of one: then `name` is None.

    Attributes:
        at: how many operations were recorded before.
    """

    at: int
    name: str | None
    metadata: Mapping[str, Any] | None


@dataclass
class _Scope:
    """Operations, by their numbers, and scopes in it; `times`: how often they follow themselves."""

    name: str = ""
    items: list[int | _Scope] = field(default_factory=list)
    times: int = 1


@dataclass
class _Shown:
    """An array of the picture.

    Attributes:
        names: those of the arguments that it was, in order.
        label: given by the user.
    """

    region: Region
    names: list[str] = field(default_factory=list)
    label: str | None = None
    has_gradient: bool = False
    is_written: bool = False
    is_tracked: bool = False


@dataclass
class PictureOptions:
    """Options of a tape's picture; see `Tape.visualize`."""

    simplify_graph: bool = True
    hide_readonly_arrays: bool = False
    array_labels: Mapping[HostArray, str] | None = None
    choose_longest_node_name: bool = True
    ignore_graph_scopes: bool = False
    track_inputs: Sequence[HostArray] | None = None
    track_outputs: Sequence[HostArray] | None = None
    track_input_names: Sequence[str] | None = None
    track_output_names: Sequence[str] | None = None
    graph_direction: str = "LR"

    def __post_init__(self) -> None:
        if self.graph_direction not in DIRECTIONS:
            raise KernelValueError(
                f"Tape.visualize: graph_direction: expected one of {', '.join(DIRECTIONS)}, got"
                f" {self.graph_direction!r}",
                hint=did_you_mean(str(self.graph_direction), DIRECTIONS) or "write LR: from left to right",
            )

    def named(self) -> Iterator[tuple[HostArray, str | None, bool]]:
        """Arrays with the names that the user gives them, and whether they are tracked."""
        for array, label in (self.array_labels or {}).items():
            yield _require_array("array_labels", array), str(label), False
        for what in ("input", "output"):
            arrays, names = getattr(self, f"track_{what}s") or (), getattr(self, f"track_{what}_names") or ()
            if len(names) > len(arrays):
                raise KernelValueError(
                    f"Tape.visualize: track_{what}_names: expected at most {len(arrays)} names, one for each array of"
                    f" track_{what}s, got {len(names)}",
                    hint=f"pass as many arrays in track_{what}s",
                )
            for number, array in enumerate(arrays):
                label = str(names[number]) if number < len(names) else None
                yield _require_array(f"track_{what}s", array), label, True


def _require_array(where: str, array: Any) -> HostArray:
    if not isinstance(array, HostArray):
        raise KernelTypeError(
            f"Tape.visualize: {where}: expected arrays outside of JAX, got {type_text(array)}",
            hint="pass arrays that were launched on",
        )
    return array


def picture(
    ops: Sequence[Operation], marks: Sequence[Mark], known: Sequence[HostArray], options: PictureOptions
) -> str:
    """The text of a tape's picture. `known`: arrays of which some may have gradients."""
    root = _tree(len(ops), () if options.ignore_graph_scopes else marks)
    if options.simplify_graph:
        _fold(root, ops)
    arrays = _arrays(ops, known, options)
    drawing = _Drawing(ops, arrays, options)
    drawing.scope(root, "  ")
    head = f'digraph tape {{\n  rankdir={options.graph_direction};\n  node [fontname="sans-serif"];\n'
    return "".join([head, *(f"{line}\n" for line in drawing.lines), *drawing.edges, "}\n"])


# Scopes and what is repeated


def _tree(count: int, marks: Sequence[Mark]) -> _Scope:
    """Operations in their scopes; those that are still open end behind the last one."""
    root = _Scope()
    open_scopes, next_op = [root], 0
    for mark in (*marks, Mark(count, None, None)):
        open_scopes[-1].items.extend(range(next_op, mark.at))
        next_op = mark.at
        if mark.name is not None:
            made = _Scope(mark.name)
            open_scopes[-1].items.append(made)
            open_scopes.append(made)
        elif len(open_scopes) > 1:
            open_scopes.pop()
    return root


def _fold(scope: _Scope, ops: Sequence[Operation]) -> None:
    """abcabcab -> [abc, 2 times] ab, in each scope: of what follows itself the longest run, in the shortest parts."""
    for item in scope.items:
        if isinstance(item, _Scope):
            _fold(item, ops)
    keys, numbers = [], {}
    for item in scope.items:  # numbers are compared faster
        keys.append(numbers.setdefault(_key(item, ops), len(numbers)))
    folded, at = [], 0
    while at < len(keys):
        length, times = _longest_run(keys, at)
        part = scope.items[at : at + length]
        folded += part if times == 1 else [_Scope(f"{times} times", part, times)]
        at += length * times
    scope.items = folded


def _longest_run(keys: Sequence[int], at: int) -> tuple[int, int]:
    """Return, for the longest run of repeats at `at`, the length of the part that repeats and how often it occurs."""
    best = (1, 1)
    for length in range(1, (len(keys) - at) // 2 + 1):
        times = 1
        while keys[at : at + length] == keys[at + times * length : at + (times + 1) * length]:
            times += 1
        if times > 1 and times * length > best[0] * best[1]:
            best = (length, times)
    return best


def _key(item: int | _Scope, ops: Sequence[Operation]) -> Any:
    """Equal of what is drawn in the same way."""
    if isinstance(item, _Scope):
        return item.name, tuple(_key(part, ops) for part in item.items)
    op = ops[item]
    return (
        id(op.plan.kernel)
        if isinstance(op, Launched)
        else id(op.function)
        if isinstance(op, PullbackCall)
        else type(op)
    )


# Arrays


def _arrays(ops: Sequence[Operation], known: Sequence[HostArray], options: PictureOptions) -> dict[int, _Shown]:
    """The arrays of a tape by their addresses."""
    found: dict[int, _Shown] = {}

    def seen(region: Region) -> _Shown:
        return found.setdefault(region.address, _Shown(region))

    for op in ops:
        for region, name, _, is_written in _touched(op):
            shown = seen(region)
            shown.names += [name] * bool(name)
            shown.is_written |= is_written
    for array in known:
        for leaf in array.leaves:
            if leaf.grad is not None and leaf.region.address in found:
                found[leaf.region.address].has_gradient = True
    for array, label, is_tracked in options.named():
        for leaf, (name, _) in zip(array.leaves, leaves_of(label or "", array.type), strict=True):
            shown = seen(leaf.region)
            shown.is_tracked |= is_tracked
            if label is not None:
                shown.label = name
    if options.hide_readonly_arrays:
        return {k: a for k, a in found.items() if a.is_written or a.is_tracked}
    return found


def _touched(op: Operation) -> Iterator[tuple[Region, str, bool, bool]]:
    """Regions of an operation, the names that it has for them, and whether it reads and writes them."""
    match op:
        case Launched():
            reads, writes = set(op.plan.launch.operand_params), set(op.plan.launch.result_params)
            for i, region in enumerate(op.regions):
                if region is not None:
                    yield region, op.plan.arguments[i].name, i in reads, i in writes
        case PullbackCall():
            for arrays, is_written in ((op.inputs, False), (op.results, True)):
                for name, array in arrays.items():
                    yield array.region, name, not is_written, is_written
            named = {id(array) for array in (*op.inputs.values(), *op.results.values())}
            yield from ((array.region, "", True, False) for array in op.arrays if id(array) not in named)
        case _:
            yield from ((region, "", True, False) for region in op.reads)
            yield from ((region, "", False, True) for region in op.writes)


# Text


class _Drawing:
    """Lines of the picture: nodes in their scopes, then edges."""

    def __init__(self, ops: Sequence[Operation], arrays: Mapping[int, _Shown], options: PictureOptions):
        self._ops, self._arrays, self._options = ops, arrays, options
        self._drawn: set[int] = set()
        self._clusters = 0
        self.lines: list[str] = []
        self.edges: list[str] = []

    def scope(self, scope: _Scope, indent: str) -> None:
        """Draw the contents of a scope. At the outermost level, also draw the tracked arrays."""
        for item in scope.items:
            if isinstance(item, _Scope):
                self._cluster(item, indent)
            else:
                self._op(item, indent)
        if indent == "  ":
            for address, shown in self._arrays.items():
                if shown.is_tracked:
                    self._array(address, indent)

    def _cluster(self, scope: _Scope, indent: str) -> None:
        colour = _REPEATED if scope.times > 1 else _SCOPE
        self.lines.append(f"{indent}subgraph cluster{self._clusters} {{")
        self._clusters += 1
        self.lines.append(f"{indent}  label={_text(scope.name)}; graph [{_SHOWN.format(colour, colour)}];")
        self.scope(scope, indent + "  ")
        self.lines.append(f"{indent}}}")

    def _op(self, number: int, indent: str) -> None:
        op = self._ops[number]
        for region, name, is_read, is_written in _touched(op):
            if region.address in self._arrays:
                self._array(region.address, indent)
                label = f" [label={_text(name)}]" if name else ""
                self.edges += [f"  a{region.address:x} -> op{number}{label};\n"] * is_read
                self.edges += [f"  op{number} -> a{region.address:x}{label};\n"] * is_written
        label, tooltip = _described(op)
        self.lines.append(f"{indent}op{number} [shape=box,label={_text(label)},tooltip={_text(tooltip)}];")

    def _array(self, address: int, indent: str) -> None:
        if address in self._drawn:
            return
        self._drawn.add(address)
        shown = self._arrays[address]
        region = shown.region
        names = sorted(shown.names, key=len, reverse=True) if self._options.choose_longest_node_name else shown.names
        label = shown.label or next(iter(names), f"{region.dtype}{list(region.shape)}")
        colour = _TRACKED if shown.is_tracked else _WITH_GRADIENT if shown.has_gradient else _PLAIN
        tooltip = f"{region.dtype} of shape {region.shape} at {address:#x}"
        tooltip += ", with a gradient" if shown.has_gradient else ""
        self.lines.append(
            f'{indent}a{address:x} [label={_text(label)},style=filled,fillcolor="{colour}",tooltip={_text(tooltip)}];'
        )


def _described(op: Operation) -> tuple[str, str]:
    """Return the name of an operation, and a longer description."""
    match op:
        case Launched():
            return op.plan.kernel.name, f"{op.plan.kernel.name}, threads: {op.plan.launch.grid}"
        case Copied():
            return "copy", "copy"
        case PullbackCall():
            name = getattr(op.function, "__qualname__", type(op.function).__name__)
            return name, f"recorded with record_func: {name}"
        case _:
            return "fill", "contents that depend on no array"


def _text(text: str) -> str:
    """A string of GraphViz."""
    return '"' + re.sub(r'([\\"])', r"\\\1", text).replace("\n", " ") + '"'
