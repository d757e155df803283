"""Graphs that captures make: steps, of which those on one GPU become graphs of the driver. See docs/design/0078."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator, Sequence
from contextvars import Token
from operator import is_
from typing import Any, NamedTuple

from jaxwarp import config
from jaxwarp.arrays.host_array import HostArray
from jaxwarp.boundary import guarded, line_of_user
from jaxwarp.memory.gpu.conditions import has_conditions, record_if, record_while
from jaxwarp.memory.gpu.graphs import DriverGraph
from jaxwarp.memory.gpu.scope import GpuScope, device_of
from jaxwarp.memory.host_scope import HOST, Outside, capturing, recording
from jaxwarp.memory.tensor_owner import note_written
from jaxwarp.types import struct_of


class _Step(NamedTuple):
    what: str
    run: Callable[[], object]
    place: Outside | None
    objects: Sequence[Any]
    line: str


@guarded
class Graph:
    """The work that a capture has recorded, in order. `capture_launch(graph)` runs it.

    Work of one GPU becomes a CUDA graph of the driver at the second launch. The first one loads code. Work of the host
    or of several devices divides it: `print(graph.explain())` says where.
    """

    def __init__(self, place: Outside | None = None, is_part: bool = False) -> None:
        self.is_part = is_part  # of another one
        self.place = place  # of the device that the capture is for, if one was named
        self._steps: list[_Step] = []
        self._token: Token[Any] | None = None
        self._piece: _Piece | None = None

    def __repr__(self) -> str:
        return f"Graph({', '.join(step.what for step in self._steps if step.what)})"

    def explain(self) -> str:
        """Return a text with a line for each part: the graphs of the driver, and what is run step by step between them,
        with the line of the program that asked for it."""
        return "\n".join(line for piece in self._whole().ends() for line in piece.described()) or "nothing"

    def add(
        self, what: str, run: Callable[[], object], place: Outside | None = None, objects: Sequence[Any] = ()
    ) -> None:
        """Keeps something to be done; `what` names it, `place` is where all of its work is, on arrays of `objects`."""
        self._steps.append(_Step(what, run, place, objects, line_of_user()))

    def part(self) -> Graph:
        """A graph for some of what is captured, which is kept as one."""
        return Graph(self.place, is_part=True)

    def run(self) -> None:
        """Does all of it, or keeps it in the capture that is being made."""
        capture = capturing.get()
        if capture is not None:
            for step in self._steps:
                capture.add(step.what, step.run, step.place, step.objects)
        elif recording.get() is not None or config.mode == "debug":
            self.run_steps()
        else:
            self._whole().run()

    def run_steps(self) -> None:
        """Does all of it, step by step."""
        for step in self._steps:
            step.run()

    def queue(self) -> None:
        """Queues all of it on the stream of a GPU that is being recorded."""
        _queue(self._steps)

    def _whole(self) -> _Piece:
        if self._piece is None:
            self._piece = _Piece(self._steps).cut()
        return self._piece

    def places(self) -> set[Outside | None]:
        """The memory in which its work is; None: of the host, or of several devices."""
        return {step.place for step in self._steps if step.what}

    def objects(self) -> list[Any]:
        """The meshes, trees and grids that it uses."""
        return [value for step in self._steps for value in step.objects]

    def begin(self) -> None:
        """Start to record work in this graph instead of running it."""
        self._token = capturing.set(self)

    def end(self) -> None:
        """Things happen again, or are kept where they were before."""
        assert self._token is not None
        capturing.reset(self._token)
        self._token = None


def _queue(steps: Sequence[_Step]) -> None:
    for step in steps:
        if step.what:  # others are for tapes
            step.run()


class _Piece:
    """Steps that follow each other: a graph of the driver, if all of their work is on one GPU.

    Attributes:
        parts: what it was divided into.
    """

    def __init__(self, steps: Sequence[_Step], place: GpuScope | None = None):
        self.steps, self._place = steps, place
        self.parts: list[_Piece] | None = None
        self._lock = threading.Lock()
        self._launches = 0
        self._as_one: DriverGraph | None = None
        self._seen: list[Any] = []

    def cut(self) -> _Piece:
        """Divides it between steps of different places."""
        named = [step for step in self.steps if step.what]
        groups = [(place, list(steps)) for place, steps in itertools.groupby(named, lambda step: step.place)]
        parts = [_Piece(steps, place if isinstance(place, GpuScope) else None) for place, steps in groups]
        self.parts = parts
        return self

    def run(self) -> None:
        if self.parts is None and not self._run_as_one() and self.parts is None:
            _queue(self.steps)
        elif self.parts is not None:
            for part in self.parts:
                part.run()

    def _run_as_one(self) -> bool:
        """Launches the graph of the driver, if there can be one."""
        place = self._place
        if place is None:
            return False
        with self._lock:
            self._launches += 1
            if self._as_one is not None and not _are_same(self._seen, self._fields()):
                self._as_one, self._launches = None, 1  # meshes have other arrays than when it was recorded
            if self._launches == 2:
                self._record(place)
            as_one = self._as_one
        if as_one is None:
            return False
        as_one.launch(place.queue)
        note_written(as_one.writes)
        return True

    def _record(self, place: GpuScope) -> None:
        done = 0

        def work() -> None:
            nonlocal done
            for step in self.steps:
                step.run()
                done += 1

        self._as_one, self._seen = place.recorded(work), self._fields()
        if self._as_one is not None:
            return
        self._place = None
        if done < len(self.steps):  # that one has a part of the host's
            before, (refused, *after) = self.steps[:done], self.steps[done:]
            if isinstance(refused.run, Conditional):
                refused.run.is_by_host = True
            parts = [_Piece(before, place), _Piece([refused]), _Piece(after, place)]
            self.parts = [part for part in parts if part.steps]

    def _fields(self) -> list[Any]:
        """Return what the meshes, trees and grids that it uses consist of."""
        return [leaf for step in self.steps for value in step.objects for leaf in _fields_of(value)]

    def ends(self) -> Iterator[_Piece]:
        """Yield the pieces that are not divided, in order."""
        if self.parts is None:
            yield self
        else:
            for part in self.parts:
                yield from part.ends()

    def described(self) -> list[str]:
        if self._place is not None:
            return [f"a graph of {device_of(self._place)}: {', '.join(step.what for step in self.steps)}"]
        return [f"by itself: {step.what} ({step.line})" for step in self.steps]


def _fields_of(value: Any) -> Iterator[Any]:
    for held in vars(value).values():
        if struct_of(type(held)) is None:
            yield held
        else:
            yield from _fields_of(held)


def _are_same(one: list[Any], other: list[Any]) -> bool:
    return len(one) == len(other) and all(map(is_, one, other))


class Conditional:
    """A step that looks at a number when it runs.

    Args:
        flag: an array of one number.
        bodies: what it chooses from.

    Attributes:
        place: the GPU whose graphs can have it; None: the host looks at the number.
        is_by_host: whether the host looks at it in all launches: bodies are then graphs of their own.
    """

    def __init__(self, flag: HostArray, bodies: Sequence[Graph | None]):
        self.flag, self.bodies = flag, [body for body in bodies if body is not None]
        self.place = self._only_place()
        self.is_by_host = self.place is None

    def _only_place(self) -> GpuScope | None:
        place = self.flag.scope
        is_there = set().union(*(body.places() for body in self.bodies)) <= {place}
        return place if isinstance(place, GpuScope) and is_there and has_conditions(place) else None

    def keep(self, what: str) -> None:
        """Gives it to the capture that is being made."""
        objects = [value for body in self.bodies for value in body.objects()]
        HOST.defers(what, self, self.place, objects)

    def __call__(self) -> None:
        if self.place is not None and self.place.is_recorded:
            self.record(self.place)
        else:
            self.decide()

    def record(self, place: GpuScope) -> None:
        """Add it to the graph that is being recorded."""
        raise NotImplementedError

    def decide(self) -> None:
        """Look at the number, and run what it says."""
        raise NotImplementedError

    def holds(self) -> bool:
        return bool(self.flag.list()[0])

    def run(self, body: Graph) -> None:
        # Once it is part of a larger graph, graphs of its bodies are of no use.
        body.run() if self.is_by_host else body.run_steps()


class CapturedLoop(Conditional):
    """Work that is repeated as long as a number is not zero, at most `most` times."""

    def __init__(self, flag: HostArray, body: Graph, most: int | None):
        super().__init__(flag, [body])
        self._body, self._most = body, most

    def record(self, place: GpuScope) -> None:
        record_while(place, self.flag.region, self._body.queue, self._most)

    def decide(self) -> None:
        for _ in rounds(self._most):
            if not self.holds():
                break
            self.run(self._body)


class CapturedBranch(Conditional):
    """Work that is done if a number is not zero, and work that is done if it is."""

    def __init__(self, flag: HostArray, on_true: Graph | None, on_false: Graph | None):
        super().__init__(flag, [on_true, on_false])
        self._on_true, self._on_false = on_true, on_false

    def record(self, place: GpuScope) -> None:
        queued = [None if body is None else body.queue for body in (self._on_true, self._on_false)]
        record_if(place, self.flag.region, *queued)

    def decide(self) -> None:
        body = self._on_true if self.holds() else self._on_false
        if body is not None:
            self.run(body)


def rounds(most: int | None) -> Iterator[int]:
    """The rounds of a loop."""
    return iter(itertools.count() if most is None else range(most))
