"""Functions in C++ as functions of the kernel language: of numbers and of elements of arrays, without other threads.

The text is C's: declarations, assignments, `if`, `while`, `for`, `return`, and calls of C's functions of numbers, and
`a[i]` of an argument that is annotated as an array with one axis. Where
`__CUDA_ARCH__` chooses between two texts, both must be of this kind; the one for hosts is what is run.
"""

from __future__ import annotations

import hashlib
import importlib
import inspect
import linecache
import re
import sys
import types
from collections.abc import Callable, Sequence
from typing import Any

from jaxwarp.types import Array, Scalar, bool_, float32, float64, int32, int64, uint32, uint64

_TOKEN = re.compile(
    r"\s*(?:(?P<float>(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][+-]?\d+)?[fF]?)|(?P<int>0[xX][\da-fA-F]+|\d+)(?P<suffix>[uUlL]*)"
    r"|(?P<name>[A-Za-z_]\w*)|(?P<op><<=|>>=|\+\+|--|&&|\|\||<<|>>|[<>=!]=|[-+*/%&|^]=|[-+*/%&|^~!<>=?:;,(){}[\]]))"
)
_SPACE = re.compile(r"//[^\n]*|/\*.*?\*/|^[ \t]*#[ \t]*pragma[^\n]*", re.S | re.M)
_CHOICE = re.compile(r"^[ \t]*#[ \t]*(if|ifdef|ifndef|else|endif)\b[ \t]*(.*?)[ \t]*$", re.M)
_IS_CUDA = re.compile(r"defined\s*\(?\s*__CUDA_ARCH__\s*\)?|__CUDA_ARCH__")

# Types of C, and functions: those of floats by their names in the language.
_TYPES = {
    "bool": bool_, "int": int32, "unsigned": uint32, "float": float32, "double": float64, "auto": None,
    "int32_t": int32, "uint32_t": uint32, "int64_t": int64, "uint64_t": uint64,
}  # fmt: skip
_EXACT = (bool_, int32, uint32, int64, uint64, float32, float64)  # C computes with others in wider types
_WIDE = {"int": int64, "unsigned": uint64}
_OF_FLOATS = (
    *("sqrt", "exp", "log", "log2", "log10", "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh"),
    *("tanh", "pow", "floor", "ceil", "trunc", "rint", "erf", "erfc", "cbrt", "fabs"),
)
_CALLS = {name: f"_c.{name}({{}})" if name == "fabs" else f"_wp.{name}({{}})" for name in _OF_FLOATS}
_OF_FLOAT32 = {f"{name}f": text for name, text in _CALLS.items()}  # which take other numbers as float32
_CALLS |= _OF_FLOAT32
_CALLS["__frsqrt_rn"] = "(_float32(1.0) / _wp.sqrt({}))"
_CALLS |= dict.fromkeys(("nextafterf", "__builtin_nextafterf"), "_c.nextafterf({})")
for _suffix, _type in (("", "_uint32"), ("ll", "_uint64")):
    for _names, _text in (
        (("__popc", "__builtin_popcount"), "_wp.popcount({}({{}}))"),
        (("__clz", "__builtin_clz"), "_wp.clz({}({{}}))"),
        (("__builtin_ctz",), "_wp.ctz({}({{}}))"),
        (("__ffs", "__builtin_ffs"), "_c.find_first_set({}({{}}))"),
    ):
        _CALLS |= {name + _suffix: f"_int32({_text.format(_type)})" for name in _names}
# How strongly operators bind, and what they are in Python.
_BINARY = {
    "||": (1, "or"), "&&": (2, "and"), "|": (3, "|"), "^": (4, "^"), "&": (5, "&"), "==": (6, "=="), "!=": (6, "!="),
    "<": (7, "<"), ">": (7, ">"), "<=": (7, "<="), ">=": (7, ">="), "<<": (8, "<<"), ">>": (8, ">>"), "+": (9, "+"),
    "-": (9, "-"), "*": (10, "*"), "/": (10, "/"), "%": (10, "%"),
}  # fmt: skip
_COMPARED = {"==": "equal", "!=": "unequal", "<": "less", ">": "greater", "<=": "up_to", ">=": "at_least"}
_LITERAL, _INT32_MAX = re.compile(r"[\d\s()+*/%-]+"), 2**31 - 1  # of plain integers alone


class NotPlainError(Exception):
    """The text has something that is not of this kind."""


def python_of(text: str, function: Any) -> Callable[..., Any]:
    """Return a function of Python with the parameters of `function` and what C++ text does.

    Raises:
        NotPlainError: the text is not of this kind.
    """
    return _made(text, function, function.__name__, _parameters(function), {})


def rule_of(text: str, function: Any) -> Callable[..., Any]:
    """Return the rule for the derivative of `function`, as `func_grad` takes it, that C++ text is.

    The text may add to `adj_x` of an argument x, and read `adj_ret`, the cotangent of what is returned.

    Raises:
        NotPlainError: the text is not of this kind, or what the function returns has no annotation.
    """
    types_of = _parameters(function)
    if "return" not in function.__annotations__:
        raise NotPlainError("a rule for its derivative, but no annotation of what it returns")
    adjoints = {f"adj_{name}": name for name in types_of}
    if adjoints.keys() & {*types_of, "adj_ret"}:
        raise NotPlainError("arguments of the names of their adjoints")
    types_of["adj_ret"] = function.__annotations__["return"]
    return _made(text, function, f"adj_{function.__name__}", types_of, adjoints)


def _parameters(function: Any) -> dict[str, Any]:
    """Return the annotations of a function's parameters, in order; `Parameter.empty` where there is none.

    Raises:
        NotPlainError: `function` is none of Python, or takes what the text cannot be about.
    """
    if not isinstance(function, types.FunctionType):
        raise NotPlainError("no function")
    code, annotations = function.__code__, function.__annotations__
    return {
        name: _resolved(annotations.get(name, inspect.Parameter.empty), function)
        for name in code.co_varnames[: code.co_argcount]
    }


def _resolved(annotation: Any, function: types.FunctionType) -> Any:
    """Return an annotation, which may be text. Refuse types with which C computes in another one, and of other arrays.

    Raises:
        NotPlainError: the type is none that the text can be about.
    """
    if isinstance(annotation, str):
        try:
            annotation = eval(annotation, function.__globals__)
        except (NameError, AttributeError, SyntaxError, TypeError):
            return annotation
    is_array = isinstance(annotation, Array)
    scalar = annotation.dtype if is_array else annotation
    if (is_array and (annotation.ndim != 1 or scalar not in _EXACT)) or (
        isinstance(scalar, Scalar) and scalar not in _EXACT
    ):
        raise NotPlainError(repr(annotation))
    return annotation


def _made(
    text: str, function: Any, name: str, parameters: dict[str, Any], adjoints: dict[str, str]
) -> Callable[..., Any]:
    """Return a function of these parameters; that of a rule returns nothing."""
    arrays = [p for p, t in parameters.items() if isinstance(t, Array)]
    bodies = [_Text(chosen, parameters, arrays, adjoints).body() for chosen in _choices(_SPACE.sub(" ", text))]
    annotations = {p: t for p, t in parameters.items() if t is not inspect.Parameter.empty}
    if not adjoints and "return" in function.__annotations__:
        annotations["return"] = function.__annotations__["return"]
    scope: dict[str, Any] = {**function.__globals__, **{f"_type_{p}": t for p, t in annotations.items()}}
    scope |= {f"_{t.name}": t for t in (bool_, int32, int64, uint32, uint64, float32, float64)}
    scope |= {"_wp": sys.modules["jaxwarp"], "__name__": function.__module__}
    if any("_c." in line for line in bodies[-1]):
        scope["_c"] = importlib.import_module("jaxwarp.library.of_c")
    written = {p: t if isinstance(t, str) else f"_type_{p}" for p, t in annotations.items()}
    head = ", ".join(f"{p}: {written[p]}" if p in written else p for p in parameters)
    returned = f" -> {written['return']}" if "return" in written else ""
    lines = [f"def {name}({head}){returned}:", *bodies[-1]]
    digest = hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]  # another process names it so, too
    file = f"<C++ of {function.__qualname__} {digest}{' adj' if adjoints else ''}>"
    linecache.cache[file] = (sum(map(len, lines)), None, [line + "\n" for line in lines], file)
    exec(compile("\n".join(lines) + "\n", file, "exec"), scope)
    made = scope[name]
    if not adjoints:
        made.__defaults__, made.__doc__ = function.__defaults__, function.__doc__
    return made


def _choices(text: str) -> list[str]:
    """Return the text with CUDA's parts, if it chooses, then that with the host's."""
    if "#" not in text:
        return [text]
    texts, place, cuda = {True: "", False: ""}, 0, None
    for found in _CHOICE.finditer(text):
        for target in texts if cuda is None else (cuda,):
            texts[target] += text[place : found.start()]
        place, (word, condition) = found.end(), found.groups()
        if word == "endif" and cuda is not None:
            cuda = None
        elif word == "else" and cuda is not None:
            cuda = not cuda
        elif word in ("if", "ifdef", "ifndef") and cuda is None and _IS_CUDA.fullmatch(condition):
            cuda = word != "ifndef"
        else:
            raise NotPlainError(f"#{word} {condition}")
    if cuda is not None:
        raise NotPlainError("#if without #endif")
    return [texts[target] + text[place:] for target in (True, False)]


class _Text:
    """The reader of one text: statements as lines of Python, expressions as text of Python."""

    def __init__(self, text: str, names: dict[str, Any], arrays: Sequence[str], adjoints: dict[str, str]):
        self.names, self.arrays, self.adjoints, self.place = dict(names), arrays, adjoints, 0
        self.tokens: list[tuple[str, str]] = []
        at, text = 0, text.rstrip()
        while at < len(text):
            found = _TOKEN.match(text, at)
            if found is None:
                raise NotPlainError(text[at:].split()[0])
            kind = str(found.lastgroup)
            kind = "int" if kind == "suffix" else kind
            suffix = (found["suffix"] or "").lower() if kind == "int" else ""
            self.tokens.append((kind, found[kind] + (f" {suffix}" if suffix else "")))
            at = found.end()

    def peek(self, ahead: int = 0) -> str:
        place = self.place + ahead
        return self.tokens[place][1] if place < len(self.tokens) else ""

    def take(self, expected: str | None = None) -> str:
        found = self.peek()
        if not found or (expected is not None and found != expected):
            raise NotPlainError(found or "the end")
        self.place += 1
        return found

    def body(self) -> list[str]:
        lines: list[str] = []
        while self.place < len(self.tokens):
            lines += self.statement("    ")
        return lines or ["    pass"]

    def statement(self, indent: str) -> list[str]:
        word = self.peek()
        if word == "{":
            self.take()
            lines: list[str] = []
            while self.peek() != "}":
                lines += self.statement(indent)
            self.take("}")
            return lines or [f"{indent}pass"]
        if word == "if":
            return self.conditional(indent)
        if word in ("while", "for"):
            return self.loop(indent)
        if word == ";":
            self.take()
            return [f"{indent}pass"]
        if word == "return":
            self.take()
            line = "return" if self.peek() == ";" else f"return {self.expression()}"
        else:
            line = self.change()
        self.take(";")
        return [indent + line]

    def conditional(self, indent: str) -> list[str]:
        self.take("if")
        lines = [f"{indent}if {self.condition()}:", *self.statement(indent + "    ")]
        if self.peek() == "else":
            self.take()
            lines += [f"{indent}else:", *self.statement(indent + "    ")]
        return lines

    def condition(self) -> str:
        self.take("(")
        found = self.expression()
        self.take(")")
        return found

    def loop(self, indent: str) -> list[str]:
        """`for (a; b; c) d` is `a; while (b) { d; c; }`: there is no `continue` here."""
        if self.take() == "while":
            return [f"{indent}while {self.condition()}:", *self.statement(indent + "    ")]
        self.take("(")
        first = self.change()
        self.take(";")
        condition = self.expression()
        self.take(";")
        step = self.change()
        self.take(")")
        body = self.statement(indent + "    ")
        return [f"{indent}{first}", f"{indent}while {condition}:", *body, f"{indent}    {step}"]

    def type_here(self) -> tuple[bool, Any]:
        """Read a type, if there is one: whether there is, and which."""
        words: list[str] = []
        while self.peek() in _TYPES or self.peek() in ("const", "long", "wp"):
            words.append(self.take())
        plain = [w for w in words if w not in ("const", "long")]
        if not words or (len(plain) > 1 and plain != ["unsigned", "int"]):
            if words:
                raise NotPlainError(" ".join(words))
            return False, None
        if words.count("long") == 2:
            return True, _WIDE.get(plain[0] if plain else "int")
        if "long" in words or not plain or plain[0] not in _TYPES:
            raise NotPlainError(" ".join(words))
        return True, _TYPES[plain[0]]

    def change(self) -> str:
        """Read a declaration or an assignment."""
        is_new, t = self.type_here()
        if self.peek() in ("++", "--"):
            operator = self.take()
            return f"{self.known(self.take())} {operator[0]}= 1"
        name = self.take()
        if is_new:
            self.new(name, t)
            self.take("=")
            value = self.expression()
            return f"{name} = {value}" if t is None else f"{name} = _{t.name}({value})"
        name = self.element(name)
        operator = self.take()
        if name in self.adjoints and operator in ("+=", "-="):
            return f"_wp.adjoint[{self.adjoints[name]}] += {operator[0]}({self.expression()})"
        if name in self.adjoints:
            raise NotPlainError(f"{name} {operator}")
        if operator in ("++", "--"):
            return f"{name} {operator[0]}= 1"
        if operator not in ("=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>="):
            raise NotPlainError(name)
        value = self.expression()
        if operator == "=" and name in self.names:  # a variable keeps its type
            t = self.names[name]
            value = f"{f'_{t.name}' if isinstance(t, Scalar) else f'type({name})'}({value})"
        return f"{name} {operator} {value}"

    def new(self, name: str, t: Scalar | None) -> None:
        if not name.isidentifier() or name in {*self.names, *self.adjoints} or name.startswith("_"):
            raise NotPlainError(name)
        self.names[name] = t

    def known(self, name: str) -> str:
        if name not in self.names:
            raise NotPlainError(name)
        return name

    def element(self, name: str) -> str:
        """Read the index that follows the name of an array. Other names stand for numbers."""
        if name in self.arrays and not self.adjoints:
            self.take("[")
            index = self.expression()
            self.take("]")
            return f"{name}[{index}]"
        return name if name in self.adjoints else self.known(name)

    def expression(self) -> str:
        condition = self.binary(1)
        if self.peek() != "?":
            return condition
        self.take()
        yes = self.expression()
        self.take(":")
        return f"({yes} if {condition} else {self.expression()})"

    def binary(self, least: int) -> str:
        left = self.unary()
        while (row := _BINARY.get(self.peek())) is not None and row[0] >= least:
            operator = self.take()
            left = _joined(left, operator, row[1], self.binary(row[0] + 1))
        return left

    def unary(self) -> str:
        word = self.peek()
        if word in ("-", "~", "+"):
            self.take()
            operand = self.unary()
            if word == "~" or (operand.isdigit() and int(operand) > _INT32_MAX):
                operand = _typed(operand)
            return f"_c.complement({operand})" if word == "~" else f"({word}{operand})"
        if word == "!":
            self.take()
            return f"(not {self.unary()})"
        if word == "(":
            self.take()
            is_cast, t = self.type_here()
            if is_cast:
                self.take(")")
                if t is None:
                    raise NotPlainError("a cast")
                return f"_{t.name}({self.unary()})"
            found = self.expression()
            self.take(")")
            return f"({found})"
        return self.atom()

    def atom(self) -> str:
        kind = self.tokens[self.place][0] if self.place < len(self.tokens) else ""
        text = self.take()
        if kind == "float":
            return f"_float32({text[:-1]})" if text[-1] in "fF" else f"_float64({text})"
        if kind == "int":
            return _integer(*text.partition(" ")[::2])
        if text in ("true", "false"):
            return text.capitalize()
        if text == "INFINITY":
            return "_float32(_wp.inf)"
        if text in ("static_cast", "reinterpret_cast"):
            return self.cast(is_bits=text == "reinterpret_cast")
        if kind == "name" and self.peek() == "(" and text in _CALLS:
            self.take("(")
            given = [self.expression()]
            while self.peek() == ",":
                self.take()
                given.append(self.expression())
            self.take(")")
            if text in _OF_FLOAT32:
                given = [f"_float32({g})" for g in given]
            return _CALLS[text].format(", ".join(given))
        if text in self.adjoints:
            raise NotPlainError(text)
        return self.element(text)

    def cast(self, is_bits: bool) -> str:
        """Read what follows the name of a cast; that of bits is one to a reference: `reinterpret_cast<int&>(x)`."""
        self.take("<")
        _, t = self.type_here()
        if t is None:
            raise NotPlainError("a cast")
        if is_bits:
            self.take("&")
        self.take(">")
        value = self.condition()
        return f"_wp.cast({value}, _{t.name})" if is_bits else f"_{t.name}({value})"


def _joined(left: str, operator: str, in_python: str, right: str) -> str:
    """Return the text of a binary operation. C compares numbers in the type that it adds them in."""
    if operator in _COMPARED and not _LITERAL.fullmatch(left) and not _LITERAL.fullmatch(right):
        return f"_c.{_COMPARED[operator]}({left}, {right})"
    if operator == "<<" and _LITERAL.fullmatch(left):  # has the type of what is shifted
        left, right = (_typed(left) if left.isdigit() else f"_int32({left})"), f"_int32({right})"
    elif left.isdigit() and right.isdigit() and max(int(left), int(right)) > _INT32_MAX:
        left, right = _typed(left), _typed(right)
    return f"({left} {in_python} {right})"


def _typed(text: str) -> str:
    """Return an integer literal with its own type; other text as it is."""
    if not text.isdigit():
        return text
    return f"_{'int32' if int(text) <= _INT32_MAX else 'uint32'}({text})"


def _integer(digits: str, suffix: str) -> str:
    """Return a literal. A plain one takes the type of what it meets, as C's does, which is promoted to it."""
    if len(digits) > 1 and digits[0] == "0" and digits[1] not in "xX":
        raise NotPlainError(digits)
    number = str(int(digits, 0))
    if not suffix and int(number) > (2**32 - 1 if digits[1:2] in ("x", "X") else _INT32_MAX):
        return f"_{'int64' if int(number) < 2**63 else 'uint64'}({number})"
    if suffix == "u" and int(number) > 2**32 - 1:
        suffix = "ull"
    if not suffix:
        return number
    t = {"u": "uint32", "ll": "int64", "ull": "uint64", "llu": "uint64"}.get(suffix)
    if t is None:
        raise NotPlainError(digits + suffix)
    return f"_{t}({number})"
