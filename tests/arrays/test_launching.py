"""The steps of a launch outside of JAX are those that `arrays/launching.py` names, in order."""

from __future__ import annotations

import inspect
import re

import pytest
from counting import profiled

import jaxwarp as wp
from jaxwarp.arrays import eager, launching, recent, repeated
from jaxwarp.launches import code, native_launch, on_memory

MODULES = {m.__file__: m for m in (launching, recent, repeated, eager, code, native_launch, on_memory)}


def steps(run) -> list[str]:
    """The functions of these modules that `run` calls, in order, if the module names them."""
    seen: list[str] = []

    def note(frame, event, _):
        if event == "call" and frame.f_code.co_filename in MODULES:
            seen.append(frame.f_code.co_qualname)

    with profiled(note):
        run()
    names = written()
    return [name for name in seen if name in names]


def written() -> list[str]:
    """What the module names, in its order."""
    text = launching.__doc__ or ""
    names = [name for name in re.findall(r"`([\w.]+)`", text) if not name.endswith((".py", ".cc"))]
    return list(dict.fromkeys(names))


@pytest.mark.release_mode("in debug mode nothing is kept")
def test_a_launch_takes_the_steps_that_are_written():
    @wp.kernel
    def tripled(x: wp.array[float], y: wp.array[float]):
        i = wp.tid()
        y[i] = 3.0 * x[i]

    x, y, z = (wp.ones(7, dtype=float) for _ in range(3))
    ways = [steps(lambda out=out: wp.launch(tripled, 7, [x], [out])) for out in (y, y, z, z)]
    asked = ["run_launch", "_run_given", "asked"]
    path = [*asked, "launch_at_once", "prepared_launch", "_signature"]
    first, again, others, others_again = ([n for i, n in enumerate(way) if n not in way[:i]] for way in ways)
    assert first == [*path, "check", "_remember", "code_of", "Repeated.operands", "Repeated.run", "NativeCode.run"]
    assert again == others_again == [*asked, "Recent.run", "Repeated.run_ready"]
    assert others == [*path, "Repeated.operands", "Repeated.run", "NativeCode.run"]
    for way in (first, again):
        assert [name for name in written() if name in way] == way


def test_what_is_written_is_there():
    here = {name for module in MODULES.values() for name in vars(module)}
    names = {name.partition(".")[0] for name in written()} - {"launch", "jaxwarp_outside_alone"}
    assert names <= here
    assert inspect.isfunction(wp.launch)
