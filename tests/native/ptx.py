"""What a small PTX text does, one thread of it, on the memory of the host."""

import ctypes
import re

_TYPES = {"u32": ctypes.c_uint32, "b32": ctypes.c_uint32, "u64": ctypes.c_uint64, "b64": ctypes.c_uint64}
_COMPARISONS = {"eq": lambda a, b: a == b, "ne": lambda a, b: a != b, "lt": lambda a, b: a < b}


def _entry(text):
    """The parameters of the kernel, each with its type, and its statements."""
    found = re.search(r"\.visible \.entry \w+ \((.*?)\)\s*\{(.*)\}", text, re.DOTALL)
    parameters = re.findall(r"\.param \.(\w+) (\w+)", found[1])
    lines = [line.strip().rstrip(";") for line in found[2].splitlines()]
    return [(name, _TYPES[kind]) for kind, name in parameters], [line for line in lines if line]


def given(text, parameters):
    """The arguments of a launch, which the driver has the addresses of."""
    return {name: kind.from_address(parameters[i]).value for i, (name, kind) in enumerate(_entry(text)[0])}


def run(text, arguments, functions):
    """Runs it. `functions` are those of the device, by name."""
    _, lines = _entry(text)
    values, passed = {}, {}
    labels = {line[:-1]: i for i, line in enumerate(lines) if line.endswith(":")}
    at = 0

    def value(name):
        return values[name] if name.startswith("%") else int(name)

    while True:
        line, at = lines[at], at + 1
        if line.startswith(".") or line.endswith(":"):
            continue  # a declaration, a label
        guard = re.match(r"@(%\w+) ", line)
        if guard is not None:
            if not values[guard[1]]:
                continue
            line = line[guard.end() :]
        code, *operands = re.split(r"[\s,]+", re.sub(r"[\[\]()]", "", line))
        match code.split("."):
            case "ld", "param", _:
                values[operands[0]] = arguments[operands[1]]
            case "ld", "global", kind:
                values[operands[0]] = _TYPES[kind].from_address(value(operands[1])).value
            case "st", "global", kind:
                _TYPES[kind].from_address(value(operands[0])).value = value(operands[1])
            case "st", "param", _:
                passed[operands[0]] = value(operands[1])
            case ("cvta", *_) | ("cvt", "u64", "u32"):
                values[operands[0]] = value(operands[1])
            case "mad", "lo", "u64":
                a, b, c = map(value, operands[1:])
                values[operands[0]] = (a * b + c) % 2**64
            case "setp", how, _:
                values[operands[0]] = _COMPARISONS[how](value(operands[1]), value(operands[2]))
            case "setp", how, "and", _:
                values[operands[0]] = _COMPARISONS[how](value(operands[1]), value(operands[2])) and value(operands[3])
            case "selp", _:
                values[operands[0]] = value(operands[1] if value(operands[3]) else operands[2])
            case "bra", *_:
                at = labels[operands[0]]
            case "call", "uni":
                functions[operands[0]](*(passed[name] for name in operands[1:]))
            case ["ret"]:
                return
            case _:
                raise AssertionError(f"no such instruction: {line}")
