"""The subject of differentiation: a launch, or a Python function that launches. A run's writes are undone."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from jaxwarp.arrays.host_array import HostArray
from jaxwarp.arrays.indexed import IndexedArray
from jaxwarp.arrays.launch import launch
from jaxwarp.arrays.launching import launch_again
from jaxwarp.arrays.struct_array import StructArray
from jaxwarp.arrays.tapes.recorded import Launched
from jaxwarp.arrays.tapes.tape import Tape
from jaxwarp.errors import KernelTypeError, KernelValueError, did_you_mean, type_text
from jaxwarp.kernel import Kernel
from jaxwarp.memory.host_scope import HOST, scope_of
from jaxwarp.memory.region import Region
from jaxwarp.memory.tensor_owner import note_written

Pair = tuple[int, int]
"""The numbers of an input and of an output."""


class Run(Tape):
    """A tape that keeps whatever is overwritten, and can give it back."""

    def _overwritten(self, region: Region, is_updated: bool = False, is_needed: bool = False) -> None:
        del is_updated
        super()._overwritten(region, True, is_needed)

    def undo(self) -> None:
        """Gives arrays what they held before."""
        for region, kept in reversed(self._saved):
            scope_of(region).bring(region, kept)
        note_written([region for region, _ in self._saved])


class Subject(NamedTuple):
    """The launch or function that is differentiated.

    Attributes:
        what: the function of this package that was called, for errors.
        name: of the kernel or function.
        inputs: its arguments.
        input_names: their names.
        outputs: what it writes; None: what `call` returns.
        output_names: their names; None: they are numbered.
        call: runs it.
        is_restored: whether what a run writes is undone after it.
    """

    what: str
    name: str
    inputs: Sequence[Any]
    input_names: Sequence[str]
    outputs: Sequence[Any] | None
    output_names: Sequence[str] | None
    call: Callable[[], Any]
    is_restored: bool

    def run(self) -> tuple[Run, list[Any]]:
        """Runs it: what was recorded, and the outputs."""
        HOST.require_untraced(self.what, "called")
        HOST.require_settled(self.what)
        run = Run()
        try:
            with run:
                found = self.call()
        except BaseException:
            self.undo(run)
            raise
        found = found if self.outputs is None else self.outputs
        return run, list(found) if isinstance(found, (list, tuple)) else [found]

    def undo(self, run: Run) -> None:
        """Gives arrays what they held before a run, if that is wanted."""
        if self.is_restored:
            run.undo()

    def names_of(self, outputs: Sequence[Any]) -> list[str]:
        """The names of outputs."""
        return list(self.output_names or [f"output_{j}" for j in range(len(outputs))])

    def pairs(self, outputs: Sequence[Any], mask: Sequence[tuple[Any, Any]] | None) -> list[Pair]:
        """The inputs and outputs that are asked for and have gradients.

        Args:
            mask: which are asked for, by numbers or names; None: all.

        Raises:
            KernelTypeError, KernelValueError: the mask names what is not there; an array has no Jacobian.
        """
        names = self.names_of(outputs)
        for pair in mask or ():
            if not isinstance(pair, (tuple, list)) or len(pair) != 2:
                raise KernelTypeError(
                    f"{self.what}: input_output_mask: expected pairs, got {pair!r}",
                    hint="write pairs of an input and an output: [(0, 0)]",
                )
        asked = {(self._number(i, self.input_names), self._number(j, names)) for i, j in mask or ()}
        ins = [i for i, given in enumerate(self.inputs) if self._is_active(given)]
        outs = [j for j, found in enumerate(outputs) if self._is_active(found)]
        return [(i, j) for i in ins for j in outs if not asked or (i, j) in asked]

    def _number(self, given: Any, names: Sequence[str]) -> int:
        if given in names:
            return list(names).index(given)
        if isinstance(given, int) and 0 <= given < len(names):
            return given
        raise KernelValueError(
            f"{self.what}: input_output_mask: {self.name} has no {given!r}",
            hint=did_you_mean(given, names) or f"write pairs of an input and an output; these are {', '.join(names)}",
        )

    def _is_active(self, given: Any) -> bool:
        if isinstance(given, (StructArray, IndexedArray)) and given.requires_grad:
            raise KernelTypeError(
                f"{self.what}: {given!r} has requires_grad=True, and Jacobians are by arrays of numbers",
                hint="pass the array of a field, or the array that is indexed; or set requires_grad=False to hold it",
            )
        return isinstance(given, HostArray) and given.requires_grad


def require_pairs(subject: Subject, pairs: Sequence[Pair]) -> None:
    """Refuse a call in which there is nothing to differentiate.

    Raises:
        KernelValueError: no array has a gradient.
    """
    if not pairs:
        raise KernelValueError(
            f"{subject.what}: of {subject.name} no input and output that are asked for are arrays of floats with"
            " requires_grad=True",
            hint="make both with requires_grad=True: zeros(n, dtype=float, requires_grad=True)",
        )


def subject_of(
    what: str,
    function: Any,
    dim: Any,
    inputs: Sequence[Any] | None,
    outputs: Sequence[Any] | None,
    device: Any,
    block_dim: int | str | None,
    restore_inputs: bool,
) -> Subject:
    """Return what a call differentiates. Writes of launches are always undone.

    Raises:
        KernelTypeError, KernelValueError: arguments are missing.
    """
    if inputs is None:
        raise KernelValueError(f"{what}: there are no inputs", hint="pass inputs=[...]")
    for kind, given in (("inputs", inputs), ("outputs", outputs)):
        if given is not None and not isinstance(given, (list, tuple)):
            raise KernelTypeError(
                f"{what}: {kind}: expected a list of arguments, got {type_text(given)}", hint=f"{kind}=[...]"
            )
    if isinstance(function, Kernel):
        if not outputs:
            raise KernelValueError(
                f"{what}: kernel {function.name}: there are no outputs", hint="pass outputs=[...], after the inputs"
            )
        if dim is None:
            raise KernelTypeError(f"{what}: kernel {function.name}: there is no dim", hint="pass dim, as for launch")
        names = [argument.name for argument in function.arguments]
        call = partial(launch, function, dim, inputs, outputs, device=device, block_dim=block_dim)
        count = len(inputs)
        return Subject(what, function.key, inputs, names[:count], outputs, names[count:], call, True)
    if not callable(function):
        raise KernelTypeError(
            f"{what}: expected a kernel or a function, got {type_text(function)}",
            hint="pass a kernel, with dim, or a Python function of arrays that launches, and returns arrays",
        )
    name = getattr(function, "__name__", type(function).__name__)
    names = _parameters(function, len(inputs))
    return Subject(what, name, inputs, names, None, None, partial(function, *inputs), restore_inputs)


def _parameters(function: Callable[..., Any], count: int) -> list[str]:
    """The names of the arguments of a Python function; numbers for those that have none."""
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        found = ()
    names = [p.name for p in found if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return [names[i] if i < len(names) else f"input_{i}" for i in range(count)]


def subject_of_recorded(what: str, op: Launched) -> Subject:
    """A launch that a tape has recorded: its inputs are the arrays that it reads, its outputs those that it writes."""
    arguments, launch, checked = op.plan.arguments, op.launch, op.checked
    ins = [i for i in launch.operand_params if op.regions[i] is not None]
    outs = [i for i in launch.result_params if op.regions[i] is not None]
    read, written = ([checked.values[i].array for i in of] for of in (ins, outs))
    names, others = ([arguments[i].name for i in of] for of in (ins, outs))
    return Subject(what, op.plan.kernel.key, read, names, written, others, partial(launch_again, checked), True)
