"""The commands of `jaxwarp`, which is also `python -m jaxwarp`, their options, and what they answer to the shell.

The exit status is 0, or 1 where a command failed, or 2 where it was called wrongly. With `--json` what a command found
is one JSON object on the standard output; without it, lines of text. Errors are lines on the standard error.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jaxwarp
from jaxwarp.commands import bench, info, show, stages, stored
from jaxwarp.errors import JaxwarpError


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command.

    Args:
        arguments: as of the shell, without the program's name. Default: those of the process.

    Returns:
        The exit status.
    """
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        data, text = options.run(options)
    except (JaxwarpError, OSError, ImportError) as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 1
    try:
        print(json.dumps(data, indent=2) if options.json else text, flush=True)
    except BrokenPipeError:  # who reads has seen enough, as in `... | head`
        sys.stdout = None
    return 0


def _parser() -> argparse.ArgumentParser:
    name = "jaxwarp" if Path(sys.argv[0]).name == "jaxwarp" else "python -m jaxwarp"
    parser = argparse.ArgumentParser(name, description="Kernels in Python for JAX.")
    parser.add_argument("--version", action="version", version=f"jaxwarp {jaxwarp.__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    def command(name: str, run: Callable[[argparse.Namespace], tuple[Any, str]], does: str) -> argparse.ArgumentParser:
        made = commands.add_parser(name, help=does, description=does[0].upper() + does[1:] + ".")
        made.add_argument("--json", action="store_true", help="print a JSON object")
        made.set_defaults(run=run)
        return made

    command("info", info.run, "versions, devices, tools and the code cache: what is here, and how to get what is not")
    cache = command("cache", stored.run, "the compiled code that is kept on disk")
    cache.add_argument("action", nargs="?", default="size", choices=stored.ACTIONS, help="default: size")
    command("stages", stages.run, "what a kernel goes through from Python text to machine code, in order")
    shown = _of_kernel(command("show", show.run, "the code that is made of a kernel"))
    shown.add_argument("--target", default="ir", choices=show.TARGETS, help="default: ir")
    shown.add_argument("--arch", default="90", help="of ptx and sass: 90 for sm_90, which is the default")
    shown.add_argument("--stages", action="store_true", help="the passes that ran, on the CPU or for GPUs, in order")
    shown.add_argument("--shape", action="append", default=[], metavar="NAME=N,N", help="with --stages: of an array")
    shown.add_argument("--dim", type=_counts, metavar="N,N", help="with --stages: threads; default: not known")
    compiled = _of_kernel(command("compile", show.run_compile, "compiles a kernel, and says what that takes"))
    compiled.add_argument("--arch", help="GPUs, 80,90 for sm_80 and sm_90, or all; default: this machine's CPU")
    timed = _of_kernel(command("bench", bench.run, "how fast a kernel runs, jitted, on the default device of JAX"))
    timed.add_argument("--size", type=_count, default=1_000_000, help="elements of an array, about; default: 1000000")
    timed.add_argument("--shape", action="append", default=[], metavar="NAME=N,N", help="the shape of an array")
    timed.add_argument("--value", action="append", default=[], metavar="NAME=V", help="a number; default: 1")
    timed.add_argument("--dim", type=_counts, metavar="N,N", help="threads; default: the shape of the first array")
    timed.add_argument("--rounds", type=_count, default=20, help="of which the median is taken; default: 20")
    return parser


def _of_kernel(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    parser.add_argument("kernel", metavar="FILE:KERNEL", help="a kernel of a Python file, or of a module by its name")
    parser.add_argument("--types", help='of the arguments of a generic kernel: "array[float], float"')
    return parser


def _count(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected a positive integer, got {text}")
    return value


def _counts(text: str) -> tuple[int, ...]:
    return tuple(_count(part) for part in text.split(","))
