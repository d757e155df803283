"""`Tape`: launches and copies outside of JAX, recorded, and gone through backwards. See docs/design/0013."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import Token
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from jaxwarp.arrays.eager import Checked, run_like
from jaxwarp.arrays.host_array import HostArray
from jaxwarp.arrays.pullback import pull_back
from jaxwarp.arrays.shadow import Shadow, is_float
from jaxwarp.boundary import boundaries, located_call
from jaxwarp.errors import KernelTypeError, KernelValueError
from jaxwarp.ffi.launch.spec import INPUT, OUTPUT, Launch
from jaxwarp.memory.fork_guard import require_jax
from jaxwarp.memory.host_scope import HOST, capturing, recording
from jaxwarp.memory.region import Region, Spans
from jaxwarp.memory.scope import view_of
from jaxwarp.memory.tensor_owner import note_written
from jaxwarp.types import Scalar

Key = tuple[Any, ...]


@dataclass(frozen=True)
class _Launched:
    """A launch: `regions` of its array arguments, None for values."""

    launch: Launch
    checked: Checked
    regions: tuple[Region | None, ...]

    @cached_property
    def reads(self) -> list[Region]:
        return [r for i in self.launch.operand_params if (r := self.regions[i]) is not None]

    @cached_property
    def writes(self) -> list[Region]:
        return [r for i in self.launch.result_params if (r := self.regions[i]) is not None]


@dataclass(frozen=True)
class _Copied:
    target: Region
    source: Region

    @property
    def reads(self) -> list[Region]:
        return [self.source]

    @property
    def writes(self) -> list[Region]:
        return [self.target]


@dataclass(frozen=True)
class _Constant:
    """New contents that depend on no array."""

    target: Region
    values: np.ndarray

    @property
    def reads(self) -> list[Region]:
        return []

    @property
    def writes(self) -> list[Region]:
        return [self.target]


def _key(region: Region) -> Key:
    return region.address, region.shape, region.strides, region.dtype


@boundaries
class Tape:
    """Records launches and copies on arrays outside of JAX, for derivatives.

    `with tape:` records; `tape.backward(loss)` adds the derivatives of `loss`, a single number, to the `grad` of the
    arrays that have one (`requires_grad=True`). Without a loss, the derivatives to start from are in the `grad` of
    arrays that the tape writes; those are used up.

    What the tape only reads is taken as it is when `backward` is called; what it updates starts from what it held when
    it was recorded.
    """

    def __init__(self) -> None:
        self._ops: list[_Launched | _Copied | _Constant] = []
        self._arrays: dict[int, HostArray] = {}
        self._saved: list[tuple[Region, np.ndarray]] = []  # what was overwritten, in order
        self._settled: set[Key] = set()  # saved, or made by the tape
        self._read = Spans()
        self._checked: dict[Key, Region] = {}  # to hold at `backward` what they held at the end
        self._after: list[tuple[Region, np.ndarray]] = []
        self._token: Token[Any] | None = None

    def __enter__(self) -> Tape:
        if recording.get() is not None:
            raise KernelValueError(
                "Tape: another tape is recording; tapes do not nest", hint="end the with of the first one before"
            )
        if self._ops:
            raise KernelValueError("Tape: it has recorded already", hint="call reset(), or make a new one")
        if capturing.get() is not None:
            raise KernelValueError(
                "Tape: a capture is being made, which keeps launches and does not run them",
                hint="launch the capture in the with of the tape: capture_launch(graph)",
            )
        self._token = recording.set(self)
        return self

    def __exit__(self, *_: Any) -> None:
        assert self._token is not None
        recording.reset(self._token)
        self._after = [(region, _contents(region)) for region in self._checked.values()]

    # What is recorded, before it happens.

    def see(self, *arrays: Any) -> None:
        """What is launched on, copied or filled: derivatives are added to the gradients of those that have one."""
        found = [array if array.whole is None else array.whole for array in arrays if isinstance(array, HostArray)]
        self._arrays.update((id(array), array) for array in found)

    def record_launch(self, checked: Checked) -> None:
        """A launch."""
        plan, launch = checked.plan, checked.launch
        if 0 in launch.grid:
            return
        for argument, value in zip(plan.arguments, checked.values, strict=True):
            if value.region is not None and value.region.repeats and is_float(value.region.dtype):
                raise KernelTypeError(
                    f"{argument.where}: several of its elements are in one place (strides {value.region.strides}), and"
                    " a tape is recording, which tells elements apart by their place",
                    hint="pass a copy that is contiguous",
                )
        values = [
            value
            if value.region is not None
            else value.with_value(np.array(value.value if convert is None else convert(value.value)))
            for value, convert in zip(checked.values, plan.converters, strict=True)
        ]
        done = _Launched(
            launch, checked._replace(values=values), tuple(value.region for value in values)
        )  # numbers are kept as they are now: a caller's array of one may change
        self.see(*(value.array for value in values))
        for i in launch.result_params:
            region = done.regions[i]
            assert region is not None
            self._overwritten(region, *plan.overwritten[i])
        for region in done.reads:
            self._read.add(region)
        self._ops.append(done)

    def record_copy(self, target: Region, source: Region) -> None:
        """A copy."""
        self._read.add(source)  # first: they may overlap
        self._overwritten(target)
        self._ops.append(_Copied(target, source))

    def record_constant(self, target: Region, values: np.ndarray) -> None:
        """Contents that depend on no array."""
        self._overwritten(target)
        self._ops.append(_Constant(target, values))

    def record_write(self, target: Region) -> None:
        """A launch that is not recorded is going to write to `target`."""
        self._overwritten(target)

    def record_result(self, target: Region) -> None:
        """What a launch that is not recorded has left in `target`."""
        self._ops.append(_Constant(target, _contents(target)))

    def _overwritten(self, region: Region, is_updated: bool = False, is_needed: bool = False) -> None:
        """Saves what a region holds, unless the tape has made that, or nobody asks for it.

        `is_updated`: some of it stays, or is added to; `is_needed`: it decides what is written.
        """
        key = _key(region)
        if key in self._settled:
            return
        self._settled.add(key)
        is_needed = is_needed or self._read.overlap(region)
        if is_updated or is_needed:
            self._saved.append((region, _contents(region)))
        if is_needed:
            self._checked[key] = region

    def record_func(self, backward: Any, arrays: Any) -> None:
        """Not there: derivatives by hand are rules of functions."""
        del backward, arrays
        raise KernelValueError("Tape.record_func is not there", hint="give a @func a rule with func_grad")

    # Gradients.

    @property
    def gradients(self) -> dict[HostArray, HostArray]:
        """The gradients of the arrays in recorded launches and copies that have one."""
        return {a: a.grad for a in self._arrays.values() if a.grad is not None}

    def zero(self) -> None:
        """Sets the gradients of all arrays in recorded launches and copies to zero."""
        for grad in self.gradients.values():
            grad.zero_()

    def reset(self) -> None:
        """Forgets what was recorded, and sets the gradients to zero."""
        if recording.get() is self:
            raise KernelValueError("Tape.reset: it is recording", hint="call it after the with")
        self.zero()
        self.__init__()

    @located_call
    def backward(self, loss: HostArray | None = None, grads: Mapping[HostArray, Any] | None = None) -> None:
        """Adds derivatives to the gradients of the arrays that have one.

        Args:
            loss: an array of one number, of which the derivatives are.
            grads: the derivatives by other results, by array; they become what those have as `grad`.

        Raises:
            KernelTypeError, KernelValueError: there is nothing to differentiate, or it has changed.
            DifferentiationError: a derivative that cannot be had, with the line of the kernel.
        """
        require_jax("Tape.backward")
        HOST.require_settled("Tape.backward")
        HOST.require_untraced("a tape", "run backward")
        if recording.get() is self:
            raise KernelValueError("Tape.backward: the tape is still recording", hint="call it after the with")
        if loss is not None:
            self._seed_loss(loss)
        for array, grad in (grads or {}).items():
            if not isinstance(array, HostArray):
                raise KernelTypeError(
                    f"Tape.backward: grads: expected arrays as keys, got {type(array).__name__}",
                    hint="write backward(grads={y: zeros_like(y)})",
                )
            array.requires_grad = True
            assert array.grad is not None
            array.grad.assign(grad)
            self._arrays.setdefault(id(array), array)
        for region, contents in self._after:
            if region.view(HOST.lease("", region)).tobytes() != contents.tobytes():
                raise KernelValueError(
                    f"Tape.backward: the array of {region.dtype} of shape {region.shape} at {region.address:#x}, which"
                    " the tape reads and overwrites, has changed since it was recorded",
                    hint="record again",
                )
        if self._ops:
            arrays = [leaf for array in self._arrays.values() for leaf in array.leaves]
            _Backward(self._ops, arrays, self._saved).run()

    def _seed_loss(self, loss: HostArray) -> None:
        if not isinstance(loss, HostArray) or loss.size != 1 or not isinstance(loss.dtype, Scalar):
            raise KernelTypeError(
                f"Tape.backward: loss: expected an array of one number, got {loss!r}",
                hint="add up in a kernel, into zeros(1, requires_grad=True); or pass backward(grads={array: gradient})",
            )
        if loss.grad is None:
            raise KernelValueError(
                "Tape.backward: loss: expected an array with requires_grad=True",
                hint="make it with zeros(1, requires_grad=True), before it is launched on",
            )
        if not any(w.overlaps(loss.region) for op in self._ops for w in op.writes):
            raise KernelValueError(
                "Tape.backward: loss: no recorded launch or copy writes it",
                hint="launch inside of with tape:, and write to it there",
            )
        loss.grad.fill_(1.0)
        self._arrays.setdefault(id(loss), loss)


def _contents(region: Region) -> np.ndarray:
    return region.view(HOST.lease("", region)).copy()


class _Step:
    """An operation, and the numbers of the blocks of memory of what it reads and writes, also of floats alone."""

    def __init__(self, op: _Launched | _Copied | _Constant, memory: Shadow):
        self.op = op
        self.reads = [memory.block(r) for r in op.reads]
        self.writes = [memory.block(r) for r in op.writes]
        self.float_reads = [b for r, b in zip(op.reads, self.reads, strict=True) if is_float(r.dtype)]
        self.float_writes = [b for r, b in zip(op.writes, self.writes, strict=True) if is_float(r.dtype)]


class _Backward:
    """One run: the recording again, in private memory, then the way back."""

    def __init__(
        self,
        ops: Sequence[_Launched | _Copied | _Constant],
        arrays: Sequence[HostArray],
        saved: Sequence[tuple[Region, np.ndarray]],
    ):
        self.ops = ops
        found = [(a, grad) for a in arrays if (grad := a.grad) is not None]
        self.pairs = list({(_key(a.region), _key(grad.region)): (a, grad) for a, grad in found}.values())
        regions = [r for op in ops for r in (*op.reads, *op.writes)] + [a.region for a in arrays]
        written = [r for op in ops for r in op.writes]
        self.values = Shadow(regions, written)
        for region, contents in reversed(saved):  # what was there first comes last
            self.values.view(region)[...] = contents
        self.cotangents = Shadow(regions, regions, is_zero=True)
        self.cotangents.require_one_type()
        self.steps = [_Step(op, self.values) for op in ops]

    def run(self) -> None:
        self._collect()
        # By block of memory: does it depend on an array with a gradient? Does the result depend on it? Where it does
        # not, a cotangent is zero whatever the slopes are.
        moving = {self.cotangents.block(a.region) for a, _ in self.pairs}
        for step in self.steps:
            if not moving.isdisjoint(step.float_reads):
                moving.update(step.float_writes)
        operands = self._replay(moving)
        asked = {self.cotangents.block(a.region) for a, _ in self.pairs if self.cotangents.view(a.region).any()}
        for step, values in zip(reversed(self.steps), reversed(operands), strict=True):
            self._back(step, values, moving, asked)
        for array, grad in self.pairs:
            view_of(grad.region)[...] = self.cotangents.view(array.region)
            note_written([grad.region])

    def _collect(self) -> None:
        """Cotangents start from the gradients that are there."""
        for array, grad in self.pairs:
            if not grad.is_writable:
                raise KernelTypeError(
                    f"Tape.backward: the gradient of {array.label} is read-only, and written",
                    hint="give the array jaxwarp.clone(gradient), or pass backward(grads={array: gradient})",
                )
        found = _shared([(array.region, grad.region) for array, grad in self.pairs], 0)
        if found is not None:
            one, other = (self.pairs[i][0].label for i in found)
            raise KernelValueError(
                f"Tape.backward: {one} and {other} share memory, and their gradients do not",
                hint="set requires_grad where the array is made; parts of it then have parts of its gradient",
            )
        found = _shared([(array.region, grad.region) for array, grad in self.pairs], 1)
        if found is not None:
            one, other = (self.pairs[i][0].label for i in found)
            raise KernelValueError(
                f"Tape.backward: the gradients of {one} and {other} share memory, they do not",
                hint="give each a gradient of its own",
            )
        for array, grad in self.pairs:
            self.cotangents.view(array.region)[...] = view_of(grad.region)

    def _replay(self, moving: set[int]) -> list[Any]:
        """Runs the recording again. The operands of every launch that matters, as they were."""
        kept: list[Any] = []
        needed = self._needed_later()
        for step, is_needed in zip(self.steps, needed, strict=True):
            values: dict[int, np.ndarray] = {}
            match step.op:
                case _Launched() as op:
                    if not moving.isdisjoint(step.float_reads):
                        values = self._operands(op)
                    if is_needed and not run_like(op.checked, self.values.address):
                        op.checked.run_in(self.values.at)
                case _Copied() as op:
                    if is_needed:
                        self.values.view(op.target)[...] = self.values.view(op.source).copy()  # they may overlap
                case _Constant() as op:
                    if is_needed:
                        self.values.view(op.target)[...] = op.values
            kept.append(values)
        return kept

    def _needed_later(self) -> list[bool]:
        """For each operation, whether a later one reads what it writes."""
        needed, read = [], set[int]()
        for step in reversed(self.steps):
            needed.append(not read.isdisjoint(step.writes))
            read.update(step.reads)
        return needed[::-1]

    def _operands(self, op: _Launched) -> dict[int, np.ndarray]:
        values = {}
        for i in op.launch.operand_params:
            region = op.regions[i]
            values[i] = op.checked.values[i].value if region is None else self.values.snapshot(region)
        return values

    def _back(self, step: _Step, values: Any, moving: set[int], asked: set[int]) -> None:
        cotangents = self.cotangents
        match step.op:
            case _Constant() as op:
                cotangents.clear(op.target, asked)
            case _Copied() as op:
                moved, is_asked = cotangents.view(op.target).copy(), not asked.isdisjoint(step.writes)
                cotangents.clear(op.target, asked)
                if is_float(op.source.dtype) and is_asked:
                    cotangents.view(op.source)[...] += moved
                    asked.update(step.reads)
            case _Launched() as op:
                if values:
                    self._back_launch(step, op, values, moving, asked)
                else:  # of nothing that has a gradient
                    for i in op.launch.result_params:
                        if op.launch.roles[i] == OUTPUT and (region := op.regions[i]) is not None:
                            cotangents.clear(region, asked)

    def _back_launch(
        self, step: _Step, op: _Launched, values: dict[int, np.ndarray], moving: set[int], asked: set[int]
    ) -> None:
        if asked.isdisjoint(step.float_writes):
            return
        cotangents, regions, launch = self.cotangents, op.regions, op.launch
        reads, writes = step.float_reads, step.float_writes
        results = {i: r for i in launch.result_params if (r := regions[i]) is not None and is_float(r.dtype)}
        floats = [i for i in launch.operand_params if (r := regions[i]) is not None and is_float(r.dtype)]
        wanted = tuple(i for i, block in zip(floats, reads, strict=True) if block in moving)
        given = zip(results.items(), writes, strict=True)
        incoming = {i: cotangents.view(r).copy() for (i, r), block in given if block in asked}
        found = pull_back(launch, wanted, values, incoming)
        for i, region in results.items():
            if launch.roles[i] == OUTPUT or (i in wanted and i not in found):
                cotangents.clear(region, asked)
            elif i in found:
                cotangents.view(region)[...] = found[i]
        asked.update(block for i, block in zip(floats, reads, strict=True) if i in found)
        for i in found:
            if launch.roles[i] == INPUT:
                region = regions[i]
                assert region is not None
                cotangents.view(region)[...] += found[i]


def _shared(pairs: Sequence[tuple[Region, Region]], which: int) -> tuple[int, int] | None:
    """Two pairs of an array's region and its gradient's whose `which` regions overlap, where the other two need not lie
    to each other as these do; None: there are none.

    Regions are gone through by where they begin. Those that are as far from their gradients as from each other's, and
    laid out like them, are of one kind, and may overlap. Of those of other kinds only the one that reaches farthest
    matters; it is of one of two kinds, whichever this one is of.
    """
    kinds = [(g.address - a.address) if a.strides == g.strides else (i,) for i, (a, g) in enumerate(pairs)]
    farthest: dict[Any, tuple[int, int]] = {}  # of at most two kinds: how far, which pair
    for i in sorted(range(len(pairs)), key=lambda i: pairs[i][which].span):
        low, high = pairs[i][which].span
        if low == high:
            continue
        for kind, (reach, other) in farthest.items():
            if kind != kinds[i] and low < reach:
                return i, other
        farthest[kinds[i]] = max((high, i), farthest.get(kinds[i], (high, i)))
        if len(farthest) > 2:
            del farthest[min(farthest, key=lambda kind: farthest[kind])]
    return None
