"""Compiling says what it does when it takes long, and to whom."""

from __future__ import annotations

import io
import sys

import jax.numpy as jnp
import pytest
from waiting import wait_until

import jaxwarp as wp
from jaxwarp.codegen import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def a_terminal(monkeypatch) -> Terminal:
    """In the test itself: pytest has another stream while fixtures are made."""
    stream = Terminal()
    monkeypatch.setattr(sys, "stderr", stream)
    return stream


def test_what_takes_long_is_named_and_timed(monkeypatch):
    terminal = a_terminal(monkeypatch)
    monkeypatch.setattr(progress, "AFTER", 0.0)
    with progress.told("compiling f"):
        wait_until(terminal.getvalue, 20)
    first, last = terminal.getvalue().splitlines()
    assert first == "jaxwarp: compiling f ..."
    assert last.startswith("jaxwarp: compiling f: ")
    assert last.endswith(" s")


def test_what_is_quick_is_not(monkeypatch):
    terminal = a_terminal(monkeypatch)
    with progress.told("compiling f"):
        pass
    assert terminal.getvalue() == ""


def test_an_error_goes_through(monkeypatch):
    terminal = a_terminal(monkeypatch)
    monkeypatch.setattr(progress, "AFTER", 0.0)

    def fail():
        with progress.told("compiling f"):
            wait_until(terminal.getvalue, 20)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert len(terminal.getvalue().splitlines()) == 2


@pytest.mark.parametrize(("asked", "is_terminal", "shown"), [(None, True, True), (None, False, False),
                                                            (False, True, False), (True, False, True)])  # fmt: skip
def test_who_is_told(asked, is_terminal, shown, monkeypatch):
    stream = Terminal() if is_terminal else io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    monkeypatch.setattr(wp.config, "progress", asked)
    monkeypatch.setattr(progress, "AFTER", 0.0)
    with progress.told("compiling f"):
        if shown:
            wait_until(stream.getvalue, 20)
    assert bool(stream.getvalue()) == shown


def test_a_launch_says_so(monkeypatch):
    """The kernel is new in every process, but its machine code may be on disk: the text is made at least."""
    terminal = a_terminal(monkeypatch)
    monkeypatch.setattr(progress, "AFTER", 0.0)
    from jaxwarp.codegen import cpu

    compile_cpu = cpu.compile_cpu

    def slowly(*args, **keywords):
        wait_until(terminal.getvalue, 20)
        return compile_cpu(*args, **keywords)

    monkeypatch.setattr(cpu, "compile_cpu", slowly)

    @wp.kernel
    def only_here(x: wp.array[float], y: wp.array[float]):
        i = wp.tid()
        y[i] = x[i] * 1.2345 + 6.789

    wp.jax_kernel(only_here)(jnp.ones(3))
    assert "making CPU code of only_here ..." in terminal.getvalue()


def test_a_closed_stream_is_no_failure(monkeypatch):
    stream = Terminal()
    stream.close()
    monkeypatch.setattr(sys, "stderr", stream)
    with progress.told("compiling f"):
        pass
