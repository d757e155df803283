"""The text of the messages of `Tell`."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from jaxwarp.ir.nodes import Tell


def said(op: Tell, values: Sequence[Any]) -> str:
    """The text of a thread, whose arguments have these values."""
    shown = [formatted(f, v) for f, v in zip(op.formats, values, strict=True)]
    return "".join(part for pair in zip(op.texts, [*shown, ""], strict=True) for part in pair)


def formatted(text_format: str, value: Any) -> str:
    """A number as C's printf writes it; a NaN has no sign."""
    match text_format[-1]:
        case "B":
            return "True" if value else "False"
        case "c":
            return (text_format[:-1] + "s") % bytes([int(value) & 0xFF]).decode(errors="replace")
        case "e" | "E" | "f" | "F" | "g" | "G":
            if not math.isfinite(value):
                width = re.sub(r"^(%[-+ #]*)0", r"\1", text_format)  # zeros are for numbers
                return width % (abs(value) if math.isnan(value) else value)
            return text_format % value
        case _:
            return text_format % int(value)
