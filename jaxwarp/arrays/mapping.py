"""`map`: a function of the language on the elements of arrays outside of JAX, by kernels written here; operators."""

from __future__ import annotations

import ast
import functools
import hashlib
import linecache
import types
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from jaxwarp.arrays.create import clone
from jaxwarp.arrays.eager import argument_given
from jaxwarp.arrays.host_array import HostArray
from jaxwarp.arrays.indexed import IndexedArray
from jaxwarp.arrays.launch import launch
from jaxwarp.arrays.struct_array import new_array
from jaxwarp.boundary import boundary, located_call
from jaxwarp.builtins.language.function import Function
from jaxwarp.builtins.language.functions import FUNCTIONS
from jaxwarp.decorators import func
from jaxwarp.errors import KernelSyntaxError, KernelTypeError, KernelValueError, type_text
from jaxwarp.frontend.lowering.frame import Frame, lowers
from jaxwarp.frontend.lowering.intrinsics import INTRINSICS
from jaxwarp.frontend.lowering.values import Intrinsic, type_of
from jaxwarp.frontend.text.annotations import array as array_of
from jaxwarp.frontend.text.functions import Func
from jaxwarp.kernel import Kernel
from jaxwarp.launches.arguments.argument import Given
from jaxwarp.launches.arguments.bind import arguments_of, resolve_elements, specialize
from jaxwarp.launches.arguments.leaves import spread
from jaxwarp.memory.current import scope_now
from jaxwarp.memory.host_scope import HOST
from jaxwarp.quaternions import HostValue
from jaxwarp.structs.records import has_floats, memory_axes

_MAX_KNOWN = 512


class _Found(Exception):  # noqa: N818 - it is no error
    """The types of what a function returns, when it has been lowered."""


_RESULT = Intrinsic("result_of_map")


@lowers(_RESULT)
def _lower_result(frame: Frame, node: ast.Call) -> Any:
    value = frame.evaluate(node.args[0])
    values = value if isinstance(value, tuple) else (value,)
    raise _Found(tuple(type_of(v) for v in values))


class _Input(NamedTuple):
    """An argument of the mapped function: the axes of the result that index it, -1 for extent 1; None: a value."""

    axes: tuple[int, ...] | None

    @property
    def annotation(self) -> Any:
        return Any if self.axes is None else array_of(dtype=Any, ndim=max(len(self.axes), 1))

    def element(self, name: str) -> str:
        if self.axes is None:
            return name
        return f"{name}[{', '.join('0' if axis < 0 else f'i{axis}' for axis in self.axes)}]"


@located_call
def map(  # noqa: A001 - the name users know from Warp
    func: Any,
    *inputs: Any,
    out: Any = None,
    return_kernel: bool = False,
    block_dim: int | str | None = None,
    device: Any = None,
) -> Any:
    """Calls a function for each element of arrays: `map(lambda x, y: x + 2.0 * y, a, b)`.

    Args:
        func: a function of the language, one made by `@func`, or a Python function or lambda that could be one.
        inputs: its arguments: arrays, whose shapes are broadcast as NumPy does, and values. One at least is an array.
            Of indexed arrays copies are taken.
        out: the array for the results, or a list of them, one for each value that the function returns; None: new ones,
            with gradients if an input has one. It may be an input.
        return_kernel: nothing is computed: the kernel is returned, which takes the inputs and then the outputs.
        block_dim: as in `launch`.
        device: as in `launch`.

    Returns:
        The array, or a list of arrays, of the broadcast shape.

    Raises:
        KernelTypeError: the function does not take such arguments, or returns nothing; an output does not fit.
        KernelValueError: the shapes cannot be broadcast, or there is no array.
        KernelError: the function is none of the language.
    """
    if scope_now() is not HOST:
        raise KernelTypeError("map is for arrays outside of JAX", hint="write a kernel and launch it, or use jnp")
    inputs = tuple(value.contiguous() if isinstance(value, IndexedArray) else value for value in inputs)
    shape = _shape(inputs)
    takes = tuple(_input(value, len(shape)) for value in inputs)
    mapped = as_function(func)
    elements = _results(mapped, takes, inputs)
    kernel = _kernel(mapped, takes, len(shape), len(elements))
    if return_kernel:
        return kernel
    arrays = [a for a in inputs if isinstance(a, HostArray)]
    results = _outputs(out, elements, shape, arrays)
    given = [_apart(value, results) for value in inputs]
    launch(kernel, shape, given, results, device=device, block_dim=block_dim)
    return results[0] if len(elements) == 1 else results


def _shape(inputs: Sequence[Any]) -> tuple[int, ...]:
    shapes = [value.shape for value in inputs if isinstance(value, HostArray)]
    if not shapes:
        raise KernelValueError("map requires at least one array input", hint="make one with array(data)")
    try:
        return np.broadcast_shapes(*shapes)
    except ValueError:
        listed = " and ".join(str(shape) for shape in shapes)
        raise KernelValueError(
            f"Shapes {listed} are not broadcastable", hint="extents from the last axis on must be equal, or 1"
        ) from None


def _input(value: Any, ndim: int) -> _Input:
    if not isinstance(value, HostArray):
        return _Input(None)
    first = ndim - value.ndim
    return _Input(tuple(-1 if extent == 1 else first + axis for axis, extent in enumerate(value.shape)))


def _apart(value: Any, results: Sequence[HostArray]) -> Any:
    """An input, as a copy if it shares memory with a result: kernels do not write what they are given twice."""
    if isinstance(value, HostArray) and any(value.region.overlaps(result.region) for result in results):
        return clone(value)
    return value


def _outputs(out: Any, elements: Sequence[Any], shape: tuple[int, ...], inputs: Sequence[HostArray]) -> list[HostArray]:
    if out is None:
        requires_grad = any(a.requires_grad for a in inputs)
        made = [new_array("map", element, shape, inputs[0].scope) for element in elements]
        for array in made:
            array.begin(requires_grad and has_floats(array.dtype))
        return made
    given = list(out) if isinstance(out, (list, tuple)) else [out]
    if len(given) != len(elements):
        raise KernelTypeError(
            f"map: Number of provided output arrays ({len(given)}) does not match expected number of function outputs"
            f" ({len(elements)})"
        )
    for i, (array, element) in enumerate(zip(given, elements, strict=True)):
        which = f"Output array {i}" if len(given) > 1 else "Output array"
        if not isinstance(array, HostArray):
            raise KernelTypeError(f"map: {which}: expected an array outside of JAX, got {type_text(array)}")
        if array.dtype != element:
            raise KernelTypeError(f"{which} dtype {array.dtype} does not match expected dtype {element}")
        if array.shape != shape:
            raise KernelTypeError(f"{which} shape {array.shape} does not match expected shape {shape}")
    return given


# The function


def as_function(function: Any) -> Func | Function | Intrinsic:
    """Convert a function or a lambda to a function that kernels can call."""
    if isinstance(function, (Func, Function, Intrinsic)):
        return function
    if not isinstance(function, types.FunctionType):
        raise KernelTypeError(
            f"map: expected a function, got {function!r}", hint="pass a @func, a lambda, or a function of the language"
        )
    key = _identity(function)
    found = _functions.get(key) if key is not None else None
    if found is None:
        found = _lambda(function) if function.__name__ == "<lambda>" else func(function)
        if key is not None:
            if len(_functions) >= _MAX_KNOWN:
                _functions.clear()
            _functions[key] = found
    return found


_functions: dict[Any, Func] = {}


def _identity(function: types.FunctionType) -> Any:
    """Return a key for the behaviour of a function. Return None if the behaviour may change, for instance because the
    function names modules other than jaxwarp's."""
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    names = [function.__globals__[n] for n in function.__code__.co_names if n in function.__globals__]
    kept = []
    for value in (*cells, *names, *(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
        if isinstance(value, types.ModuleType):
            if value.__name__.split(".")[0] != "jaxwarp":
                return None
            kept.append(value.__name__)
        elif isinstance(value, (Func, Function, Intrinsic)):
            kept.append(value)
        elif type(value) in (bool, int, float):
            kept.append((type(value), repr(value)))  # zeros of both signs are equal
        else:
            return None
    return function.__code__, *kept


def _lambda(function: types.FunctionType) -> Func:
    """A lambda as a function with a name: its text is found where its code says."""
    code = function.__code__
    text = "".join(linecache.getlines(code.co_filename, function.__globals__))
    places = {p[:4] for p in code.co_positions() if None not in p[:4]}
    try:
        nodes = [n for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Lambda)]
    except SyntaxError:
        nodes = []
    bodies: dict[Any, ast.Lambda] = {
        (n.body.lineno, n.body.end_lineno, n.body.col_offset, n.body.end_col_offset): n for n in nodes
    }
    found = {id(bodies[p]): bodies[p] for p in places if p in bodies and _names(bodies[p]) == _arguments(code)}
    if len(found) != 1 or not _is_text_of(text, code):
        raise KernelSyntaxError(
            f"map: the text of the lambda in line {code.co_firstlineno} of {code.co_filename} was not found",
            hint="write it as a function with def and a name",
        )
    (node,) = found.values()
    cells = dict(zip(code.co_freevars, (c.cell_contents for c in function.__closure__ or ()), strict=True))
    made = f"def mapped({ast.unparse(node.args)}):\n    return {ast.unparse(node.body)}\n"
    return func(_made(made, "mapped", {**function.__globals__, **cells}))


_PARTS = ("co_code", "co_names", "co_varnames", "co_freevars", "co_cellvars")


def _is_text_of(text: str, code: types.CodeType) -> bool:
    """Return whether the lambda was compiled from this text of its file, which may have changed since."""
    waiting = [compile(text, code.co_filename, "exec", dont_inherit=True)]
    while waiting:
        made = waiting.pop()
        waiting += [c for c in made.co_consts if isinstance(c, types.CodeType)]
        if made.co_name == "<lambda>" and _signature(made) == _signature(code):
            return True
    return False


def _signature(code: types.CodeType) -> tuple[Any, ...]:
    constants = tuple((type(c), repr(c)) for c in code.co_consts)
    return (*(getattr(code, part) for part in _PARTS), constants, *code.co_positions())


def _arguments(code: types.CodeType) -> tuple[str, ...]:
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def _names(node: ast.Lambda) -> tuple[str, ...]:
    return tuple(a.arg for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs))


def _made(text: str, name: str, scope: dict[str, Any]) -> Any:
    """A Python function of this text, which can be found again."""
    file = f"<jaxwarp map {hashlib.sha256(text.encode()).hexdigest()[:16]}>"  # the same in another process
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    exec(compile(text, file, "exec", dont_inherit=True), scope)
    return scope[name]


# The kernel


def _results(mapped: Any, takes: tuple[_Input, ...], inputs: Sequence[Any]) -> tuple[Any, ...]:
    """The element types of what the function returns."""
    probe = _probe(mapped, takes).given(inputs)
    arguments = arguments_of(probe)
    place = next((value.scope for value in inputs if isinstance(value, HostArray)), HOST)
    leaves = spread(probe, inputs)
    described = tuple(argument_given(place, probe, i, value).describe() for i, value in enumerate(leaves))
    found = _result_types(probe, tuple(arguments), described)
    if not found or None in found:
        raise KernelTypeError("map: The provided function must return a value", hint="end it with return")
    return found


@functools.lru_cache(maxsize=_MAX_KNOWN)
def _result_types(probe: Kernel, arguments: tuple[Any, ...], described: tuple[Given, ...]) -> tuple[Any, ...]:
    try:
        specialize(probe, arguments, resolve_elements(arguments, described), described)
    except _Found as found:
        return found.args[0]
    return ()


def _text(name: str, takes: tuple[_Input, ...], ndim: int, outputs: Sequence[str], line: str) -> str:
    names = [f"a{n}" for n in range(len(takes))]
    indices = ", ".join(f"i{axis}" for axis in range(ndim))
    call = f"f({', '.join(take.element(n) for take, n in zip(takes, names, strict=True))})"
    start = f"    {indices} = tid()\n" if ndim else ""
    arguments = [f"{n}: t{k}" for k, n in enumerate(names)] + [f"{n}: t_out" for n in outputs]
    return f"def {name}({', '.join(arguments)}):\n{start}    {line.format(call=call)}\n"


def _scope(mapped: Any, takes: tuple[_Input, ...], ndim: int) -> dict[str, Any]:
    found: dict[str, Any] = {f"t{k}": take.annotation for k, take in enumerate(takes)}
    result = array_of(dtype=Any, ndim=max(ndim, 1))
    return {**found, "f": mapped, "tid": INTRINSICS["tid"], "result": _RESULT, "t_out": result}


@functools.lru_cache(maxsize=_MAX_KNOWN)
def _probe(mapped: Any, takes: tuple[_Input, ...]) -> Kernel:
    """A kernel that says what the function returns when it is lowered."""
    ndim = max((axis + 1 for take in takes for axis in take.axes or ()), default=0)
    return Kernel(_made(_text("probe", takes, ndim, (), "result({call})"), "probe", _scope(mapped, takes, ndim)))


@functools.lru_cache(maxsize=_MAX_KNOWN)
def _kernel(mapped: Any, takes: tuple[_Input, ...], ndim: int, count: int) -> Kernel:
    """A kernel that calls the function for each element."""
    outputs = [f"out{n}" for n in range(count)]
    indices = ", ".join(f"i{axis}" for axis in range(ndim))
    targets = ", ".join(f"{n}[{indices}]" for n in outputs)
    if count > 1:
        results = ", ".join(f"r{n}" for n in range(count))
        stores = "".join(f"\n    {n}[{indices}] = r{k}" for k, n in enumerate(outputs))
        line = f"{results} = {{call}}{stores}"
    else:
        line = f"{targets} = {{call}}"
    name = f"map_{getattr(mapped, 'name', 'function')}"
    return Kernel(_made(_text(name, takes, ndim, outputs, line), name, _scope(mapped, takes, ndim)))


# Operators

_BINARY = {
    "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "floordiv": "floordiv", "mod": "mod", "pow": "pow",
    "and": "bit_and", "or": "bit_or", "xor": "bit_xor", "lshift": "lshift", "rshift": "rshift",
}  # fmt: skip
_UNARY = {"neg": "neg", "pos": "pos", "invert": "invert", "abs": "abs"}


def _is_operand(array: HostArray | IndexedArray, value: Any) -> bool:
    """Return whether `value` is an operand of jaxwarp's operators. Arrays of other libraries are not: they have their
    own operators. Vectors and matrices like the elements are, although they are NumPy arrays outside of kernels."""
    if isinstance(value, np.ndarray) and not isinstance(value, HostValue):
        components = memory_axes(array.dtype)
        return bool(components) and value.shape == components
    return isinstance(value, (HostArray, IndexedArray, HostValue, bool, int, float, np.generic))


def _set(kind: type, name: str, method: Callable[..., Any]) -> None:
    method.__name__, method.__qualname__ = name, f"{kind.__name__}.{name}"
    setattr(kind, name, boundary(method))


def _binary(kind: type, name: str, function: Function) -> None:
    def forward(self: Any, other: Any) -> Any:
        return map(function, self, other) if _is_operand(self, other) else NotImplemented

    def backward(self: Any, other: Any) -> Any:
        return map(function, other, self) if _is_operand(self, other) else NotImplemented

    def in_place(self: Any, other: Any) -> Any:
        if not _is_operand(self, other):
            return NotImplemented
        is_whole = isinstance(self, HostArray)
        return map(function, self, other, out=self) if is_whole else self.assign(map(function, self, other))

    _set(kind, f"__{name}__", forward)
    _set(kind, f"__r{name}__", backward)
    _set(kind, f"__i{name}__", in_place)


def _unary(kind: type, name: str, function: Function) -> None:
    def method(self: Any) -> Any:
        return map(function, self)

    _set(kind, f"__{name}__", method)


for _kind in (HostArray, IndexedArray):
    for _name, _of in _BINARY.items():
        if _of in FUNCTIONS:
            _binary(_kind, _name, FUNCTIONS[_of])
    for _name, _of in _UNARY.items():
        if _of in FUNCTIONS:
            _unary(_kind, _name, FUNCTIONS[_of])
