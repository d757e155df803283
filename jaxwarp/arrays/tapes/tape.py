"""`Tape`: launches and copies outside of JAX, recorded, and gone through backwards. See docs/design/0013."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import Token
from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

from jaxwarp.arrays.host_array import HostArray
from jaxwarp.arrays.tapes.gpu.memory import GpuMemory
from jaxwarp.arrays.tapes.picture import Mark, PictureOptions, picture
from jaxwarp.arrays.tapes.recorded import Launched, Recording
from jaxwarp.arrays.tapes.way_back import Backward
from jaxwarp.boundary import boundaries, located_call
from jaxwarp.errors import KernelTypeError, KernelValueError, did_you_mean, type_text
from jaxwarp.memory.fork_guard import require_jax
from jaxwarp.memory.gpu.ordering import writes_to
from jaxwarp.memory.gpu.scope import GpuScope
from jaxwarp.memory.host_scope import HOST, Capturer, capturing, contents_of, copy_of, recording, scope_of
from jaxwarp.memory.region import Region
from jaxwarp.structs.instances import copied
from jaxwarp.structs.records import has_floats
from jaxwarp.types import Scalar, struct_of

REFUSED = {"loss": "it is the argument of backward(loss)"}


@boundaries
class Tape(Recording):
    """A record of launches and copies on arrays outside of JAX, from which it computes gradients.

    `with tape:` records; you may enter it several times. `tape.backward(loss)` adds the derivatives of `loss`, an array
    of one number, to the `grad` of the arrays with `requires_grad=True`. Without a loss, it starts from the `grad` of
    the arrays that the tape writes, and sets them to zero.

    Arrays that the launches only read must still have their contents when you call `backward`. Of arrays that they
    update, the tape keeps what they held.

    A capture that contains a tape records and goes backwards at each launch of the capture.
    """

    def __init__(self) -> None:
        super().__init__()
        self._after: list[Kept] = []
        self._token: Token[Any] | None = None
        self._part: Capturer | None = None  # of the capture that is being made, what is done in the `with`
        self._is_captured = False
        self.scopes: list[Mark] = []

    def __enter__(self) -> Tape:
        _require_none_recording()
        if self._is_captured or (self._ops and capturing.get() is not None):
            raise KernelValueError("Tape: it has recorded already", hint="call reset(), or make a new one")
        self._require_unchanged("Tape")
        capture = capturing.get()
        if capture is not None:
            self._part, self._is_captured = capture.part(), True
            self._part.begin()
        self._token = recording.set(self if capture is None else Expected(self))
        return self

    def __exit__(self, error: type[BaseException] | None, *_: Any) -> None:
        part, self._part = self._part, None
        self._end()
        if part is not None:
            part.end()
            if error is None:
                HOST.defers("tape", lambda: self._record(part))

    def _end(self) -> None:
        assert self._token is not None
        recording.reset(self._token)
        self._token = None
        self._after = [Kept(region, copy_of(region), writes_to(region)) for region in self._checked.values()]

    def _record(self, part: Capturer) -> None:
        """Records anew what a part of a capture does."""
        _require_none_recording()
        self._forget()
        self.scopes = []
        self._token = recording.set(self)
        try:
            part.run()
        finally:
            self._end()

    def record_func(self, backward: Callable[[], Any], arrays: Any) -> None:
        """Records a way back through what the tape does not record (`launch(..., record_tape=False)`).

        Args:
            backward: is called when `Tape.backward` comes by, with the derivatives so far in the `grad` of arrays. It
                adds what it finds, and takes no arguments.
            arrays: all whose `grad` it writes.

        Raises:
            KernelTypeError, KernelValueError: no function, or one of the arrays has no gradient.
        """
        if not callable(backward):
            raise KernelTypeError(
                f"Tape.record_func: backward: expected a function of no arguments, got {type_text(backward)}",
                hint="it reads array.grad of results, and adds to array.grad of what they are computed of",
            )
        given = list(arrays) if isinstance(arrays, Iterable) and not isinstance(arrays, HostArray) else [arrays]
        for number, array in enumerate(given):
            if not isinstance(array, HostArray):
                raise KernelTypeError(
                    f"Tape.record_func: arrays[{number}]: expected an array outside of JAX, got {type_text(array)}",
                    hint="pass a list of the arrays whose grad the function uses",
                )
            if array.grad is None:
                raise KernelValueError(
                    f"Tape.record_func: arrays[{number}]: {array.label} has no gradient",
                    hint="make it with requires_grad=True",
                )
        self.see(*given)
        if not HOST.defers("record_func", lambda: self.record_called(backward, given)):
            self.record_called(backward, given)

    def __getattr__(self, name: str) -> Any:
        if name in REFUSED:
            raise AttributeError(f"{name} of tapes is not there; {REFUSED[name]}")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def launches(self) -> list[Launched]:
        """The launches that it has recorded, in order."""
        HOST.require_settled("Tape.launches")
        return [op for op in self._ops if isinstance(op, Launched)]

    # Pictures.

    def record_scope_begin(self, scope_name: str, metadata: Mapping[str, Any] | None = None) -> None:
        """Begins a scope: what is recorded until its end is drawn in a frame with this name, by `visualize`.

        Args:
            scope_name: the name.
            metadata: kept with it, in `scopes`.
        """
        if not HOST.defers("", lambda: self.record_scope_begin(scope_name, metadata)):
            self.scopes.append(Mark(len(self._ops), str(scope_name), dict(metadata or {})))

    def record_scope_end(self, remove_scope_if_empty: bool = True) -> None:
        """Ends the scope that was begun last.

        Args:
            remove_scope_if_empty: forget the scope if nothing was recorded in it.

        Raises:
            KernelValueError: none is open.
        """
        if HOST.defers("", lambda: self.record_scope_end(remove_scope_if_empty)):
            return
        if sum(1 if mark.name is not None else -1 for mark in self.scopes) == 0:
            raise KernelValueError("Tape.record_scope_end: no scope is open", hint="call record_scope_begin first")
        last = self.scopes[-1]
        if remove_scope_if_empty and last.name is not None and last.at == len(self._ops):
            self.scopes.pop()
        else:
            self.scopes.append(Mark(len(self._ops), None, None))

    def visualize(self, filename: str | os.PathLike[str] | None = None, **options: Any) -> str:
        """Return the recording as GraphViz text. `dot -Tsvg tape.dot -o tape.svg` draws it.

        Args:
            filename: a file to which the text is also written.
            options: `simplify_graph=True`: launches of kernels that follow each other in the same order again are
                drawn once. `hide_readonly_arrays=False`: leave out arrays that nothing writes. `array_labels`: names
                of arrays. `choose_longest_node_name=True`: others have the longest name of an argument that they were,
                else the first. `ignore_graph_scopes=False`: draw no scopes. `track_inputs`, `track_outputs`: arrays
                that are shown in any case, with `track_input_names`, `track_output_names`. `graph_direction="LR"`: or
                RL, TB, BT.

        Returns:
            The text.

        Raises:
            KernelTypeError, KernelValueError: there is no such option, or it has no such value.
        """
        names = [found.name for found in fields(PictureOptions)]
        for name in options:
            if name not in names:
                raise KernelTypeError(
                    f"Tape.visualize: there is no argument {name!r}",
                    hint=did_you_mean(name, names) or f"its options are {', '.join(names)}",
                )
        text = picture(self._ops, self.scopes, list(self._arrays.values()), PictureOptions(**options))
        if filename is not None:
            Path(filename).write_text(text)
        return text

    # Gradients.

    def get_adjoint(self, a: Any) -> Any:
        """Return the derivatives with respect to an argument of a kernel: the `grad` of an array, or a copy of a struct
        with gradients in place of its arrays. Return None for an argument that has none."""
        if isinstance(a, HostArray):
            self.see(a)
            return a.grad
        if struct_of(type(a)) is None:
            return None
        made = copied(a)
        for name, part in vars(made).items():
            if isinstance(part, HostArray) or struct_of(type(part)) is not None:
                made.__dict__[name] = self.get_adjoint(part)
        return made

    @property
    def gradients(self) -> dict[Any, Any]:
        """The gradients of the arrays in recorded launches and copies that have one."""
        return {a: a.grad for a in self._arrays.values() if a.grad is not None}

    def zero(self) -> None:
        """Sets the gradients of all arrays in recorded launches and copies to zero."""
        if HOST.defers("Tape.zero", self.zero):
            return
        for grad in self.gradients.values():
            grad.zero_()

    def reset(self) -> None:
        """Forgets what was recorded, and sets the gradients to zero."""
        if self._token is not None:
            raise KernelValueError("Tape.reset: it is recording", hint="call it after the with")
        self._is_captured = False
        if HOST.defers("Tape.reset", self.reset):
            return
        self.zero()
        self.__init__()

    @located_call
    def backward(self, loss: Any = None, grads: Mapping[Any, Any] | None = None) -> None:
        """Adds derivatives to the gradients of the arrays that have one.

        Args:
            loss: an array of one number, of which the derivatives are.
            grads: the derivatives by other results, by array; they become what those have as `grad`.

        Raises:
            KernelTypeError, KernelValueError: there is nothing to differentiate, or it has changed.
            DifferentiationError: a derivative that cannot be had, with the line of the kernel.
        """
        require_jax("Tape.backward")
        HOST.require_untraced("a tape", "run backward")
        if self._token is not None:
            raise KernelValueError("Tape.backward: the tape is still recording", hint="call it after the with")
        if loss is not None:
            _require_loss(loss)
        for array in grads or ():
            if not isinstance(array, HostArray):
                raise KernelTypeError(
                    f"Tape.backward: grads: expected arrays as keys, got {type_text(array)}",
                    hint="write backward(grads={y: zeros_like(y)})",
                )
            if not has_floats(array.dtype):
                raise KernelTypeError(
                    f"Tape.backward: grads: integers have no derivatives, got {array!r}", hint="name arrays of floats"
                )
        started = dict(grads or {})
        if not HOST.defers("Tape.backward", lambda: self._back(loss, started)):
            self._back(loss, started)

    def _back(self, loss: HostArray | None, grads: Mapping[HostArray, Any]) -> None:
        if loss is not None:
            self._seed_loss(loss)
        for array, grad in grads.items():
            array.requires_grad = True
            assert array.grad is not None
            array.grad.assign(grad)
            self._arrays.setdefault(id(array), array)
        self._require_unchanged("Tape.backward")
        if self._ops:
            arrays = [leaf for array in self._arrays.values() for leaf in array.leaves]
            Backward(self._ops, arrays, self._saved).run()

    def _require_unchanged(self, what: str) -> None:
        if (region := _first_changed(self._after)) is not None:
            raise KernelValueError(
                f"{what}: the array of {region.dtype} of shape {region.shape} at {region.address:#x}, which"
                " the tape reads and overwrites, has changed since it was recorded",
                hint="record again",
            )

    def _seed_loss(self, loss: HostArray) -> None:
        is_written = any(w.overlaps(loss.region) for op in reversed(self._ops) for w in op.writes)
        if not is_written and not any(region.overlaps(loss.region) for region in self._idle):
            raise KernelValueError(
                "Tape.backward: loss: no recorded launch or copy writes it",
                hint="launch inside of with tape:, and write to it there",
            )
        assert loss.grad is not None
        loss.grad.fill_(1.0)
        self._arrays.setdefault(id(loss), loss)


class Kept(NamedTuple):
    """A region, a copy of what it held when the recording ended, and how often it was written, if that is known."""

    region: Region
    copy: Region
    writes: int | None


class Expected:
    """Stands for a tape in a capture that is being made, where nothing happens that it could record: it does so when
    that is launched."""

    def __init__(self, tape: Tape):
        self.see, self.launched_on_none = tape.see, tape.launched_on_none
        self.record_scope_begin, self.record_scope_end = tape.record_scope_begin, tape.record_scope_end

    def _refuse(self, *_: Any, **__: Any) -> None:
        raise KernelValueError(
            "Tape: what is done here cannot be recorded in a capture",
            hint="capture it without the tape, or record it outside of the capture",
        )

    record_launch = record_copy = record_constant = record_write = record_result = record_called = _refuse


def _require_none_recording() -> None:
    if recording.get() is not None:
        raise KernelValueError(
            "Tape: another tape is recording; tapes do not nest", hint="end the with of the first one before"
        )


def _require_loss(loss: Any) -> None:
    if not isinstance(loss, HostArray) or loss.size != 1 or not isinstance(loss.dtype, Scalar):
        raise KernelTypeError(
            f"Tape.backward: loss: expected an array of one number, got {loss!r}",
            hint="add up in a kernel, into zeros(1, requires_grad=True); or pass backward(grads={array: gradient})",
        )
    if not loss.dtype.is_float:
        raise KernelTypeError(
            f"Tape.backward: loss: integers have no derivatives, got {loss!r}",
            hint="add up in a kernel, into zeros(1, dtype=float, requires_grad=True)",
        )
    if loss.grad is None:
        raise KernelValueError(
            "Tape.backward: loss: expected an array with requires_grad=True",
            hint="make it with zeros(1, requires_grad=True), before it is launched on",
        )


def _first_changed(after: Sequence[Kept]) -> Region | None:
    """The first region that holds other bytes than its copy does."""
    kept = [(k.region, k.copy) for k in after if k.writes is None or k.writes != writes_to(k.region)]
    places = {scope_of(region) for region, _ in kept}
    if len(places) == 1 and isinstance(place := places.pop(), GpuScope):
        found = GpuMemory(place).differ(kept)
        return kept[int(found.argmax())][0] if found.any() else None
    return next((r for r, k in kept if contents_of(r).tobytes() != contents_of(k).tobytes()), None)
