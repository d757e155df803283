"""`printf` of a device. A call is one piece, whatever other threads print."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from jaxwarp.ir.nodes import Tell

# CUDA's printf takes no more.
_MOST_VALUES = 32


def print_calls(op: Tell, values: Sequence[str]) -> list[str]:
    """The statements that print what a thread says: one, unless there are too many values; then it ends at a line."""
    return [_call(*part) for part in _parts(op, values)]


def _parts(op: Tell, values: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Formats, as C has them, and values."""
    text, given = _quoted(op.texts[0]), list[str]()
    cut: tuple[str, list[str]] | None = None  # up to the end of the last line
    for text_format, value, after in zip(op.formats, values, op.texts[1:], strict=True):
        if len(given) == _MOST_VALUES:
            head, said = (text, given) if cut is None else cut
            yield head, said
            text, given, cut = text[len(head) :], given[len(said) :], None
        shown, argument = _argument(text_format, value)
        text, given = text + shown, [*given, argument]
        line, newline, _ = after.rpartition("\n")
        if newline:
            cut = text + _quoted(line + newline), list(given)
        text += _quoted(after)
    yield text, given


def _argument(text_format: str, value: str) -> tuple[str, str]:
    start, kind = text_format[:-1], text_format[-1]
    match kind:
        case "B":
            return f"{start}s", f'({value}) ? "True" : "False"'
        case "c":
            return text_format, f"(int)({value})"
        case "d":
            return f"{start}lld", f"(long long)({value})"
        case "u" | "x" | "X" | "o":
            return f"{start}ll{kind}", f"(unsigned long long)({value})"
        case _:
            return text_format, f"printed({value})"


def _call(text: str, values: Sequence[str]) -> str:
    return "printf(" + ", ".join([f'"{text}"', *values]) + ");"


def _quoted(text: str) -> str:
    """Text in a format of C's."""
    is_plain = [32 <= b < 127 and chr(b) not in '"\\?' for b in text.encode()]
    made = (chr(b) if plain else f"\\{b:03o}" for b, plain in zip(text.encode(), is_plain, strict=True))
    return "".join(made).replace("%", "%%")
