"""The basis of a kernel: all that its lowering reads, as a text that is equal in processes where all of it is equal.

See docs/design/0098-kernels-of-earlier-processes.md. It is the text of the kernel and of the functions that it may
call, and the values of all that these name. What a text cannot say has no basis, and its kernels are lowered anew.
"""

from __future__ import annotations

import ast
import collections.abc
import enum
import hashlib
import os
import types
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from jaxwarp.boundary import PACKAGE
from jaxwarp.builtins.language.functions import FUNCTIONS
from jaxwarp.frontend.lowering.adjoints import adjoint
from jaxwarp.frontend.lowering.frame import ReadValues
from jaxwarp.frontend.lowering.values import BARE_NAMES, PYTHON_OBJECTS, PYTHON_TYPES
from jaxwarp.frontend.text import annotations
from jaxwarp.frontend.text.constants import attribute_chain, has_changed, static_key
from jaxwarp.frontend.text.functions import WITH_FOREIGN_RULES, Func, Overload, Parameter, named
from jaxwarp.frontend.text.host_values import Missing, find, frozen
from jaxwarp.frontend.text.reads import Chain, Reads, body_reads
from jaxwarp.frontend.text.source import Definition, Source
from jaxwarp.quaternions import HostValue
from jaxwarp.types import HANDLE, NAMED, SCALARS, Absent, Aggregate, Array, Indexed, Scalar, Struct, TileType, struct_of
from jaxwarp.types.structs import NEXT, RUNS

_OURS = __name__.partition(".")[0] + "."
_EXACT = frozenset((int, bool, str, bytes, type(None)))
_IN_ORDER = frozenset((tuple, list, collections.deque))
_MAPPINGS = frozenset((dict, collections.OrderedDict))
_MARKS = {Missing: "missing", Any: "any", collections.abc.Callable: "callable", adjoint: "adjoint"}
# What makes an instance of a class more than its fields.
_SPECIAL = (HANDLE, NAMED, NEXT, RUNS)
_PLAIN_ANNOTATION = (ast.Name, ast.Attribute, ast.Subscript, ast.Tuple, ast.Constant, ast.expr_context)
_MOST_BYTES = 1 << 16  # of an array that a text names
_MOST_VALUES = 100_000  # of all texts
_MOST_NESTED = 50


class NoBasisError(Exception):
    """Something that decides about a kernel cannot be said in a text."""


class Basis:
    """Everything that decides about a kernel, besides this package.

    Attributes:
        text: all of it.
        sources: the texts of the kernel and of the functions that are part of it, in an order that is part of it.
        overloads: those of these functions.
    """

    def __init__(self, source: Source, *others: Any):
        """Find the basis of a kernel.

        Args:
            others: what decides besides its text: types, and values of Python.

        Raises:
            NoBasisError: it has none.
        """
        if WITH_FOREIGN_RULES:
            raise NoBasisError  # the digest of the package does not say what they are
        self.sources: dict[Source, int] = {}
        self.overloads: dict[Overload, int] = {}
        self._functions: dict[Func, int] = {}
        self._structs: dict[int, tuple[int, Struct]] = {}
        self._chains: dict[tuple[Source, int, str], Chain] = {}
        self._names: set[tuple[Source, str]] = set()
        self._statics: set[tuple[Source, Any]] = set()
        self._kept: list[object] = []  # alive, since others are found by their identities
        self._left, self._depth = _MOST_VALUES, 0
        self.text = repr((self._source(source), tuple(map(self._value, others))))

    def has_all(self, seen: ReadValues) -> bool:
        """Return whether all that a lowering has read is part of it."""
        if seen.is_open or not seen.functions.keys() <= self._functions.keys():
            return False
        return all(self._has(source) if source in self.sources else _is_own_text(source) for source in seen.sources)

    def _has(self, source: Source) -> bool:
        late = _late(source)
        return (
            all((source, name) in self._names for name in source.late)
            and all((source, *key) in self._chains or self._knows(host) for key, host in late)
            and all((source, key) in self._statics for key in source.statics)
        )

    def _knows(self, host: object) -> bool:
        return type(host) is Func and host in self._functions

    def has_late_values(self) -> bool:
        """Return whether a text keeps values that another lowering has asked for: who asks for what is not known."""
        return any(_late(source) or not source.late.keys().isdisjoint(source.captured) for source in self.sources)

    def later_reads(self, seen: ReadValues) -> tuple[Any, ...]:
        """Return what lowering has asked for after the definitions, and jaxwarp's functions in it, for `read_again`."""
        found = ((number, source) for source, number in self.sources.items())
        ours = [source.function for source in seen.sources if source not in self.sources]
        names = [(function.__module__, function.__qualname__) for function in ours]
        used = [number for overload, number in self.overloads.items() if overload in seen.used]
        return tuple((number, *self._later(source, seen)) for number, source in found), used, names

    def _later(self, source: Source, seen: ReadValues) -> tuple[Any, ...]:
        late = _late(source)
        chains = [self._chains[source, *key].text for key, _ in late if (source, *key) in self._chains]
        of_functions = [(self._functions[host], name) for (_, name), host in late if self._knows(host)]
        return tuple(source.late), chains, of_functions, sorted(seen.compared.get(source, ()))

    def read_again(self, later: tuple[Any, ...]) -> None:
        """Ask for what lowering would ask for, and keep it as that does.

        Rules for the functions that it has called come too late from now on.
        """
        reads, used, ours = later
        sources, functions, overloads = list(self.sources), list(self._functions), list(self.overloads)
        for number, names, chains, of_functions, compared in reads:
            source = sources[number]
            for name in names:
                source.lookup(name)
            nodes = body_reads(source.definition, source.before["static"]).chains
            for text in chains:
                attribute_chain(source, nodes[text].node)
            for function, name in of_functions:
                source.attribute(functions[function], name)
            source.compared.update(compared)
        found = [named(*names) for names in ours]
        own = [overload for function in found if isinstance(function, Func) for overload in function.overloads]
        for overload in (*(overloads[number] for number in used), *own):
            overload.rules.is_used = True

    # Texts

    def _source(self, source: Source) -> Any:
        if source in self.sources:
            return "text", self.sources[source]
        self.sources[source] = len(self.sources)
        function = source.function
        names = source.name, function.__qualname__, function.__module__
        reads = body_reads(source.definition, source.before["static"])
        return _place_and_text(source), names, tuple(self._reads(source, reads))

    def _reads(self, source: Source, reads: Reads) -> Iterator[Any]:
        """Yield what is known of the values that a text reads."""
        definition, code = source.definition, source.function.__code__
        own = definition.locals.union(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])
        is_annotated = ast.AnnAssign in definition.by_kind
        values: dict[str, Any] = {}
        for name in reads.names:
            values[name] = self._named(source, name)
            if name not in own or name in reads.evaluated:
                yield name, self._read(values[name], name in reads.bare, is_annotated)
        for chain in reads.chains.values():
            values[chain.text] = value = self._attribute(source, chain, values)
            yield chain.text, self._read(value, chain.text in reads.bare, is_annotated)
        for name in reads.operators:
            yield name, self._value(self._named(source, name))
        for static in reads.statics:
            key = static_key(static.argument, {})
            value = source.statics.get(key, Missing)
            if value is Missing:
                raise NoBasisError  # Python evaluates it when the kernel is lowered
            self._statics.add((source, key))
            yield self._value(value)

    def _named(self, source: Source, name: str) -> Any:
        """Return the value that lowering finds under a free name."""
        self._names.add((source, name))
        now = find(source.function, name)
        if name not in source.captured:
            return self._keep(frozen(now))
        value = source.captured[name]
        if has_changed(source, value, lambda: now):
            raise NoBasisError  # lowering warns
        return value

    def _attribute(self, source: Source, chain: Chain, values: dict[str, Any]) -> Any:
        """Return the value that lowering finds in an attribute."""
        host = Missing if chain.base in source.bound else values.get(chain.base, Missing)
        if host is Missing:
            return Missing
        key = id(host), chain.name
        self._chains[source, *key] = chain
        now = lambda: getattr(host, chain.name)  # noqa: E731
        if key not in source.attributes:
            try:
                return self._keep(frozen(now()))
            except Exception:  # a property may raise anything; lowering says so, if it gets there
                return Missing
        value = source.attributes[key][1]
        if has_changed(source, value, now):
            raise NoBasisError
        return value

    def _keep(self, value: Any) -> Any:
        self._kept.append(value)
        return value

    def _read(self, value: Any, is_bare: bool, is_annotated: bool) -> Any:
        try:
            found = self._value(value)
        except NoBasisError:
            # Of a settings object only the attributes count that the text names; there is an entry for each.
            if is_bare or self._left < 0:
                raise
            self._depth = 0
            return "object", type(value).__module__, type(value).__qualname__
        if is_annotated and is_bare and found[0] == "class":
            raise NoBasisError  # an annotation may ask it for more
        return found

    # Values

    def _value(self, value: Any) -> tuple[Any, ...]:
        """Return what says everything that a kernel can read of a value.

        Raises:
            NoBasisError: nothing does.
        """
        self._left -= 1
        if self._left < 0:
            raise NoBasisError
        kind = type(value)
        if kind in _EXACT:
            return kind.__name__, value
        if kind in (float, complex):
            return kind.__name__, repr(value)
        if isinstance(value, np.ndarray | np.generic):
            return self._array(value)
        if isinstance(value, enum.Enum):
            number = int(value) if isinstance(value, int) else None
            return "member", kind.__module__, kind.__qualname__, value.name, number, self._value(value.value)
        if isinstance(value, (Scalar, Aggregate, Struct, Array, Absent, TileType)):
            return self._type(value)
        if kind is Func:
            return self._func(value)
        if kind in _IN_ORDER:
            return kind.__name__, self._inside(value)
        names: Any = getattr(kind, "_fields", None)
        if issubclass(kind, tuple) and names is not None:
            return "record", kind.__qualname__, names, self._inside(value)
        if kind in _MAPPINGS:
            return kind.__name__, self._inside(value), self._inside(value.values())
        if kind is Parameter:
            parts = value.name, value.pattern, value.default, value.keyword_only, value.is_reference
            return "parameter", tuple(map(self._value, parts))
        struct = struct_of(kind)
        if struct is not None:
            return "instance", self._type(struct), tuple((n, self._value(v)) for n, v in vars(value).items())
        return self._object(value)

    def _inside(self, values: Iterable[Any]) -> tuple[Any, ...]:
        """Return what says everything of several values, which may be nested, but not for ever."""
        self._depth += 1
        if self._depth > _MOST_NESTED:
            raise NoBasisError
        found = tuple(map(self._value, values))
        self._depth -= 1
        return found

    def _array(self, value: Any) -> tuple[Any, ...]:
        kind = type(value)
        dtype = getattr(value, "type", None)
        known = kind in (np.ndarray, HostValue) or (isinstance(value, np.generic) and kind is value.dtype.type)
        if not known or value.dtype.hasobject or value.nbytes > _MOST_BYTES:
            raise NoBasisError
        of_ours = None if dtype is None else self._type(dtype)
        return kind.__name__, of_ours, value.dtype.name, value.dtype.str, value.shape, value.tobytes()

    def _type(self, t: Any) -> tuple[Any, ...]:
        kind = type(t).__name__
        match t:
            case Scalar():
                if not any(t is known for known in SCALARS):
                    raise NoBasisError
                return kind, t.name
            case Aggregate():
                if any(hasattr(value, "overloads") for value in vars(t).values()):
                    raise NoBasisError  # it has functions of a class
                names: Sequence[str] = getattr(t, "__match_args__")  # noqa: B009 - of those that are dataclasses
                return kind, tuple(self._value(getattr(t, name)) for name in names)
            case Array():
                return kind, self._value(t.dtype), self._value(t.ndim), self._value(t.axes)
            case Absent():
                return kind, self._type(t.array)
            case TileType():
                return kind, self._value(t.dtype), self._value(t.shape)
            case Struct():
                return self._struct(t)
            case _:
                raise NoBasisError

    def _struct(self, struct: Struct) -> tuple[Any, ...]:
        known = self._structs.get(id(struct))
        if known is not None:
            return "struct", known[0]
        kind = struct.kind
        self._structs[id(struct)] = len(self._structs), struct
        is_own = kind.__module__.startswith(_OURS) and named(kind.__module__, kind.__qualname__) is kind
        if not is_own and any(hasattr(kind, name) for name in _SPECIAL):
            raise NoBasisError
        fields = [(f.name, self._value(f.type), f.is_static, f.default is None) for f in struct.fields]
        if not is_own and not all(without_default for *_, without_default in fields):
            raise NoBasisError  # what makes a default is code of Python
        array = self._type(struct.array) if isinstance(struct, Indexed) else None
        return type(struct).__name__, kind.__module__, kind.__qualname__, tuple(fields), array

    def _func(self, func: Func) -> tuple[Any, ...]:
        if func in self._functions:
            return "function", self._functions[func]
        self._functions[func] = len(self._functions)
        names = func.name, func.key, func.module
        given = tuple((name, self._value(value)) for name, value in vars(func).items() if func.has_own(name))
        if is_own_func(func):
            return "own function", names, given
        return "function", names, given, tuple(map(self._overload, func.overloads))

    def _overload(self, overload: Overload) -> Any:
        if overload in self.overloads:
            return "overload", self.overloads[overload]
        self.overloads[overload] = len(self.overloads)
        rules = overload.rules
        return (
            self._source(overload.source),
            tuple(map(self._value, overload.parameters)),
            self._value(overload.returns),
            tuple(None if rule is None else self._overload(rule) for rule in (rules.grad, rules.replay)),
            rules.apply is not None,
        )

    def _object(self, value: Any) -> tuple[Any, ...]:
        """Return the name of what is known by it: a module, a class, a function of Python or of the language."""
        for mark, name in _MARKS.items():
            if value is mark:
                return ("mark", name)
        if isinstance(value, types.ModuleType):
            return "module", value.__name__
        name = getattr(value, "__qualname__", getattr(value, "__name__", None))
        module = getattr(value, "__module__", None)
        if isinstance(value, type | types.BuiltinFunctionType | types.FunctionType):
            is_found = isinstance(module, str) and isinstance(name, str) and named(module, name) is value
            is_own = is_found and isinstance(module, str) and module.startswith(_OURS)
            if isinstance(value, types.FunctionType) and not (is_own or value in PYTHON_OBJECTS):
                raise NoBasisError
            if isinstance(value, type) and (struct := struct_of(value)) is not None:
                return "class of", self._struct(struct)
            if not is_found:
                raise NoBasisError
            is_known = is_own or not isinstance(value, type) or value in PYTHON_TYPES
            return ("named" if is_known else "class"), module, name
        for table in (FUNCTIONS, BARE_NAMES):
            if isinstance(name, str) and table.get(name) is value:
                return "of the language", name
        if isinstance(value, annotations.ArrayAnnotation) and vars(annotations).get(repr(value)) is value:
            return "annotation", repr(value)
        raise NoBasisError


def _late(source: Source) -> list[tuple[tuple[int, str], Any]]:
    """Return the attributes that were asked for after the definition, with the objects that have them."""
    return [(key, host) for key, (host, _) in list(source.attributes.items())[source.before["attributes"] :]]


def is_own_func(func: Func) -> bool:
    """Return whether a function is one of this package's modules, which a digest of the package stands for."""
    if not func.module.startswith(_OURS) or named(func.module, func.key) is not func:
        return False
    rules = [rule for o in func.overloads for rule in (o.rules.grad, o.rules.replay) if rule is not None]
    return all(_is_own_text(each.source) for each in (*func.overloads, *rules))


def _is_own_text(source: Source) -> bool:
    """Return whether a function is defined in a module of this package, and holds no values of a function around it."""
    function = source.function
    is_ours = (function.__module__ or "").startswith(_OURS) and source.file.startswith(PACKAGE)
    return is_ours and not function.__code__.co_freevars and os.sep in source.file


def _place_and_text(source: Source) -> tuple[Any, ...]:
    """Return the place of a function in its file, and a digest of its lines."""
    definition = source.definition
    digest = definition.kept.get(_place_and_text)
    if digest is None:
        digest = definition.kept[_place_and_text] = _digest(definition)
    if digest == "":
        raise NoBasisError
    return source.file, definition.tree.lineno, digest


def _digest(definition: Definition) -> str:
    """Return a digest of the lines; an empty text if an annotation of a variable is more than names and their parts."""
    for node in definition.by_kind.get(ast.AnnAssign, ()):
        for part in ast.walk(node.annotation):
            is_text = isinstance(part, ast.Constant) and isinstance(part.value, str)
            if is_text or not isinstance(part, _PLAIN_ANNOTATION):
                return ""
    tree = definition.tree
    lines = definition.lines[tree.lineno - 1 : tree.end_lineno]
    return hashlib.sha256("".join(lines).encode(errors="surrogatepass")).hexdigest()
