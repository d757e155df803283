"""Operations that a function under `jax_callable` may call while it is traced: launch, copy, zeros and so on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary

import jax
import numpy as np

from jaxwarp import compat
from jaxwarp.analysis.effects import analyze
from jaxwarp.boundary import located
from jaxwarp.errors import KernelError, KernelTypeError, type_text
from jaxwarp.ffi.primitive import bind_launch
from jaxwarp.ffi.programs.control import over_arrays, repeated
from jaxwarp.ffi.programs.python_call import PythonCall, bind_call
from jaxwarp.ffi.programs.traced_array import ArrayHandle, filled
from jaxwarp.kernel import Kernel
from jaxwarp.launches.arguments.argument import (
    CallParameter,
    Given,
    as_jax_value,
    describe_for,
    is_wide,
    with_absent,
)
from jaxwarp.launches.arguments.bind import (
    LaunchOptions,
    arguments_of,
    bind,
    make_converters,
    resolve_elements,
    specialize,
)
from jaxwarp.launches.arguments.dims import normalize_dims
from jaxwarp.launches.spec import OUTPUT, LaunchSpec, is_static
from jaxwarp.memory.current import current
from jaxwarp.memory.host_scope import HOST
from jaxwarp.memory.live_array import MemoryArray
from jaxwarp.memory.tensor_owner import place_of
from jaxwarp.passes.launches.same_memory import same_memory, with_one_for
from jaxwarp.types import Array, Element, element_scalar, element_shape


@dataclass(frozen=True)
class Program:
    """The call that is being traced: its name, options that hold for all its launches, and what it does with arrays.

    This one makes every launch an operation of JAX, as it comes.
    """

    name: str
    vmap_method: str | None
    has_side_effect: bool
    # Launches of it that may fail: they assert, or there is debug mode.
    failing: list[LaunchSpec] = field(default_factory=list[LaunchSpec])
    # Its arrays that somebody still has, by their ids: loops carry them.
    arrays: WeakValueDictionary[int, ArrayHandle] = field(default_factory=WeakValueDictionary[int, ArrayHandle])

    def _named(self, name: str, type_: Array, value: Any, is_writable: bool = True) -> ArrayHandle:
        made = ArrayHandle(name, type_, value, is_writable)
        self.arrays[id(made)] = made
        return made

    def array(self, name: str, type_: Array, value: Any, is_writable: bool) -> ArrayHandle:
        """An argument of the call."""
        return self._named(name, type_, value, is_writable)

    def output(self, name: str, type_: Array, shape: tuple[Any, ...]) -> ArrayHandle:
        """An output, which starts as zeros. `shape` has the component axes."""
        return self.filled(name, type_, shape, 0)

    def filled(self, name: str, type_: Array, shape: tuple[Any, ...], value: Any) -> ArrayHandle:
        """A new array of one value."""
        return self._named(name, type_, filled(shape, type_.dtype, value, name))

    def clone(self, source: ArrayHandle) -> ArrayHandle:
        """A new array with the contents of another one."""
        return self._named(f"clone of {source.name}", source.type, source.held)

    def launch(self, launch: LaunchSpec, operands: Sequence[Any], written: Sequence[ArrayHandle]) -> None:
        """Launches on arrays and JAX values; `written` are the arrays of the results."""
        values = [o.held if isinstance(o, ArrayHandle) else o for o in operands]
        # A NumPy array may change before the program is compiled.
        _replace(written, bind_launch(launch, [v.copy() if isinstance(v, np.ndarray) else v for v in values]))

    def compute(
        self, function: Callable[..., Sequence[Any]], operands: Sequence[ArrayHandle], written: Sequence[ArrayHandle]
    ) -> None:
        """Write to arrays what a function of JAX makes of the values of operands."""
        with compat.with_x64_if(any(is_wide(array.dtype) for array in (*operands, *written))):
            results = function(*(array.held for array in operands))
        _replace(written, results)

    def call(self, call: PythonCall, operands: Sequence[Any], written: Sequence[ArrayHandle]) -> None:
        """Makes a launch in Python when the program runs, on arrays and JAX values."""
        _replace(written, bind_call(call, [o.held if isinstance(o, ArrayHandle) else o for o in operands]))

    def repeat(self, condition: ArrayHandle, body: Callable[[], object], max_iterations: int | None) -> None:
        """Run a body as long as an array of one number is not zero."""
        self._control(
            lambda holds, steps, start: repeated(holds, steps[0], start, max_iterations), condition, [body]
        )  # fmt: skip

    def choose(self, condition: ArrayHandle, on_true: Callable[[], object], on_false: Callable[[], object]) -> None:
        """Run one of two bodies."""
        self._control(
            lambda holds, steps, start: jax.lax.cond(holds(start), *steps, tuple(start)), condition, [on_true, on_false]
        )

    def _control(self, control: Any, condition: ArrayHandle, bodies: Sequence[Callable[[], object]]) -> None:
        known = list(self.arrays.values())
        arrays = [a for a in known if a.is_writable and a.is_here]
        others = [a.held for a in known if not a.is_writable and a.is_here]
        over_arrays(control, arrays, others, condition, bodies)

    def results(self, arrays: Sequence[ArrayHandle]) -> list[Any]:
        """At the end: what these arrays hold."""
        return [a.held for a in arrays]

    def misuse(self) -> KernelTypeError:
        """Build the error for a function of JAX that is called with an array of the program."""
        return KernelTypeError(
            "this operator, method or function of JAX does not take an array of a jax_callable",
            hint="use the array's value: array.value",
        )

    def explain(self, error: Exception) -> KernelError | None:
        """A clear error where JAX refuses an array of the program; None for any other error."""
        if isinstance(error, KernelError) or not any(sign in str(error) for sign in _SIGNS_OF_MISUSE):
            return None
        traceback = error.__traceback__
        while traceback is not None and traceback.tb_next is not None:
            traceback = traceback.tb_next
        clear = self.misuse()
        if "not supported between instances" in str(error):
            clear.hint = "to branch on it write capture_if; or look at values with graph_mode=GraphMode.NONE"
        if len(str(error)) < _SHORT:
            clear.message += f": {error}"
        return located(clear, None if traceback is None else traceback.tb_frame)


def _replace(written: Sequence[ArrayHandle], results: Sequence[Any]) -> None:
    for handle, result in zip(written, results, strict=True):
        handle.replace(result)


# In messages of Python and JAX. A type of ours that stands for a dtype is what jnp.zeros_like finds.
_SIGNS_OF_MISUSE = ("__jax_array__", "ArrayHandle", "'_View'", "RecordedArray", "as a data type", "to a NumPy dtype")
_SHORT = 100  # JAX's own messages about arrays are essays


@contextmanager
def tracing(program: Program) -> Iterator[None]:
    """Launches in the `with` belong to `program`."""
    token = current.set(program)
    try:
        yield
    finally:
        current.reset(token)


def launch_traced(
    program: Program, kernel: Kernel, dim: Any, given: Sequence[Any], block_dim: int | str | None
) -> None:
    """Makes a launch an operation of a program."""
    extents = normalize_dims(dim, f"kernel {kernel.name}: dim")
    if any(is_static(n) and n == 0 for n in extents):
        return  # no thread needs what the kernel does
    arguments = arguments_of(kernel)
    _refuse_host_arrays(arguments, given)
    values = [
        g if isinstance(g, ArrayHandle) else as_jax_value(g, a.where) for a, g in zip(arguments, given, strict=True)
    ]
    pairs = zip(arguments, values, strict=True)
    described = [_described(argument, value) for argument, value in pairs]
    described = with_absent(arguments, described)
    elements = resolve_elements(arguments, described)
    converters = make_converters(arguments, elements, described)
    options = LaunchOptions(program.vmap_method, kernel.cuda_options(block_dim), program.has_side_effect)
    shapes = [d.shape for d in described]
    specialized = specialize(kernel, arguments, elements, described)
    same = same_memory(specialized, [_place(v) for v in values])
    launch = bind(kernel, with_one_for(specialized, same), extents, shapes, options)
    program.failing.extend([launch] if launch.debug is not None else [])
    written = written_arrays(launch, arguments, given, same)
    # XLA would copy an array that is an in-out operand and another operand as well.
    values = [_empty(values[i], element) if i in same else values[i] for i, element in enumerate(elements)]
    operands = [
        value if convert is None else _converted(convert, element, value)
        for value, convert, element, role in zip(values, converters, elements, launch.roles, strict=True)
        if role != OUTPUT
    ]
    program.launch(launch, operands, written)


def _described(argument: CallParameter, value: Any) -> Given:
    if isinstance(value, ArrayHandle):
        return value.describe()
    with compat.with_x64_if(is_wide(argument.element)):
        return describe_for(argument, value)


def _converted(convert: Callable[[Any], Any], element: Element, value: Any) -> Any:
    """An operand. What the program itself holds may have 64-bit types even if JAX has none."""
    with compat.with_x64_if(is_wide(element)):
        return convert(value.held if isinstance(value, ArrayHandle) else value)


def _place(value: Any) -> tuple[int, Any] | None:
    """Return a key that tells an array of the program from others; None: there is no such key."""
    if not isinstance(value, ArrayHandle):
        return None
    if value.place is not None:
        return id(value.root), place_of(value.place)
    return (id(value), None) if value.root is value else None


def _empty(array: ArrayHandle, element: Element) -> np.ndarray:
    """An operand for a parameter that nothing uses."""
    return np.zeros((0,) * array.ndim + element_shape(element), element_scalar(element).numpy)


def _refuse_host_arrays(arguments: Sequence[CallParameter], given: Sequence[Any]) -> None:
    for argument, value in zip(arguments, given, strict=True):
        if isinstance(value, MemoryArray) and value.scope is HOST:
            raise KernelTypeError(
                f"{argument.where} is an array outside of JAX, and the function is traced: it would be read once",
                hint="pass it to the jax_callable as an argument: jaxwarp.to_jax(array)",
            )


def written_arrays(
    launch: LaunchSpec, arguments: Sequence[CallParameter], given: Sequence[Any], same: Mapping[int, int]
) -> list[ArrayHandle]:
    """Return the arrays of the results. `same` has the parameters for which another one stands.

    Raises:
        KernelTypeError: one is no array of the program, may not be written, or overlaps another argument.
    """
    effects, params, written = analyze(launch.kernel), launch.kernel.params, []
    for i in launch.result_params:
        handle, argument = given[i], arguments[i]
        if not isinstance(handle, ArrayHandle):
            raise KernelTypeError(
                f"{argument.where} is written by the kernel: expected an array of the program, got"
                f" {type_text(handle)}",
                effects[params[i]].first_write,
                hint="make one with zeros(...), or pass an output",
            )
        handle.require_writable(f"written by kernel {argument.kernel}")
        written.append(handle)
    for i, handle in zip(launch.result_params, written, strict=True):
        for j, other in enumerate(given):
            if i != j and j not in same and isinstance(other, ArrayHandle) and share(handle, other):
                raise KernelTypeError(
                    f"{arguments[i].where} and argument '{arguments[j].name}' are the same array, or parts of one that"
                    " overlap, and the kernel writes to it",
                    hint="pass a clone(...) as one of them",
                )
    return written


def share(written: ArrayHandle, other: ArrayHandle) -> bool:
    """Return whether two arrays of a program are one, or parts of one that may have elements in common."""
    if written.root is not other.root:
        return False
    place, other_place = written.place, other.place
    return place is None or other_place is None or place.overlaps(other_place)


def program_now() -> Program:
    """The program that is being traced; `scope_now` has said that there is one."""
    program = current.get()
    assert isinstance(program, Program)
    return program
