"""The single path to a launch from a kernel, the known facts about its arguments, and the number of threads.

`jax_kernel`, `jax_callable`, `launch` on memory, callbacks and tapes all use it. They differ in how they learn the
shapes, and in whether roles are declared (`jax_kernel`) or found in the kernel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from jaxwarp.analysis.effects import Effects, analyze
from jaxwarp.analysis.sizes import require_sizes_fit
from jaxwarp.codegen.abi import NO_CUDA_OPTIONS, CudaOptions
from jaxwarp.errors import KernelValueError
from jaxwarp.frontend.text.jaxtyping import extent_of
from jaxwarp.ir.kernel import Kernel as KernelIR
from jaxwarp.ir.nodes import Param
from jaxwarp.kernel import Kernel
from jaxwarp.launches.arguments.argument import CallParameter, Given
from jaxwarp.launches.arguments.converters import Convert, make_converter
from jaxwarp.launches.arguments.dims import format_shape
from jaxwarp.launches.arguments.generics import resolve_element
from jaxwarp.launches.arguments.symbolic import dims_at, require_for_sizes
from jaxwarp.launches.lanes import warn_of_lanes
from jaxwarp.launches.modes import debug_for, mode_of
from jaxwarp.launches.spec import IN_OUT, INPUT, OUTPUT, Dim, LaunchSpec, fit_grid, intern_kernel, is_static
from jaxwarp.passes.checks.out_of_range import require_in_range
from jaxwarp.passes.launches.tells import says, without_failures, without_tests
from jaxwarp.types import Absent, Array, Element

Shape = tuple[Dim, ...] | None
"""Of an argument; None: it has none."""


@dataclass(frozen=True)
class LaunchOptions:
    """The options that a caller gives for a launch, apart from its arguments.

    Attributes:
        vmap_method: see `LaunchSpec`.
        cuda: of `Kernel.cuda_options`.
        has_side_effect: see `LaunchSpec`.
        mode: None: what the kernel says, or the process.
        dim_name: what errors call the launch dimensions.
    """

    vmap_method: str | None = None
    cuda: CudaOptions = NO_CUDA_OPTIONS
    has_side_effect: bool = False
    mode: str | None = None
    dim_name: str = "dim=..."


def arguments_of(kernel: Kernel) -> tuple[CallParameter, ...]:
    """The leaves of the arguments of a kernel whose roles are found in it."""
    return tuple(CallParameter(kernel.name, a.name, a.annotation, INPUT) for a in kernel.leaves)


def resolve_elements(arguments: Sequence[CallParameter], given: Sequence[Given]) -> list[Element]:
    """The element type of each argument."""
    return [resolve_element(a, g) for a, g in zip(arguments, given, strict=True)]


def make_converters(
    arguments: Sequence[CallParameter], elements: Sequence[Element], given: Sequence[Given]
) -> tuple[Convert | None, ...]:
    """Return, for each value, the function that makes an operand of it, or None if the value already is one.

    Raises:
        KernelTypeError, KernelValueError: what is given does not fit.
    """
    return tuple(make_converter(a, e, g) for a, e, g in zip(arguments, elements, given, strict=True))


def types_of(arguments: Sequence[CallParameter], elements: Sequence[Element], given: Sequence[Given]) -> list[Any]:
    """The types of arguments of these element types. Of those that are outputs nothing is given."""
    types: list[Any] = [Array(e, a.ndim) if a.is_array else e for a, e in zip(arguments, elements, strict=True)]
    for i, found in enumerate(given):
        if found.is_absent:
            types[i] = Absent(types[i])
    return types


def specialize(
    kernel: Kernel, arguments: Sequence[CallParameter], elements: Sequence[Element], given: Sequence[Given]
) -> KernelIR:
    """The kernel for what is given."""
    return kernel.specialize(types_of(arguments, elements, given))


def bind(
    kernel: Kernel,
    specialized: KernelIR,
    extents: Sequence[Dim],
    shapes: Sequence[Shape],
    options: LaunchOptions,
    roles: Sequence[str] | None = None,
) -> LaunchSpec:
    """The launch of a kernel.

    Args:
        kernel: the kernel, for its options.
        specialized: it, for the types of the arguments.
        extents: of the launch.
        shapes: of the arguments, component axes included.
        options: what else the caller says.
        roles: of the arguments; None: as the kernel uses them, where what it writes in full is an output.

    Raises:
        KernelTypeError, KernelValueError: too many elements for indices, or an index that is provably out of range.
    """
    _require_one_shape(kernel, shapes)
    _require_named_axes(kernel, shapes, roles)
    fitted, grid = fit_grid(specialized, extents)
    if options.cuda.is_asked:
        warn_of_lanes(specialized, options.cuda.block)
    require_sizes_fit(specialized, shapes)
    _require_in_range(without_failures(specialized), grid, shapes, options.dim_name)
    debug = debug_for(fitted, mode_of(kernel) if options.mode is None else options.mode)
    if debug is None or "bounds" not in debug.checks:
        fitted = without_tests(fitted)
    found = tuple(roles_in(analyze(fitted), grid, shapes) if roles is None else roles)
    return LaunchSpec(
        intern_kernel(fitted),
        grid,
        found,
        tuple(tuple(shape or ()) for shape, role in zip(shapes, found, strict=True) if role != INPUT),
        options.vmap_method,
        options.cuda,
        kernel.options.get("fma", True),
        options.has_side_effect or says(fitted),
        debug=debug,
    )


def _require_in_range(kernel: KernelIR, grid: Sequence[Dim], shapes: Sequence[Shape], fewer: str) -> None:
    """Refuse a launch that is certain to leave an array."""
    dims = [n for shape in shapes for n in shape or ()]
    if all(map(is_static, (*grid, *dims))):
        return require_in_range(kernel, grid, shapes, fewer)

    def require(values: Mapping[str, int]) -> None:
        known = [None if shape is None else dims_at(shape, values) for shape in shapes]
        require_in_range(kernel, dims_at(grid, values), known, fewer)

    return require_for_sizes(require, grid, dims)


def _require_one_shape(kernel: Kernel, shapes: Sequence[Shape]) -> None:
    """The fields of an array of structs are arrays of as many elements."""
    for k in kernel.places.records:
        argument, first = kernel.arguments[k], kernel.places.first
        leaves, found = argument.leaves, shapes[first[k] : first[k + 1]]
        extents = [(shape or ())[: argument.annotation.ndim] for shape in found]
        for leaf, extent in zip(leaves, extents, strict=True):
            if extent != extents[0]:
                raise KernelValueError(
                    f"kernel {kernel.name}: argument '{argument.name}': the fields of an array of structs have one"
                    f" shape, but {leaves[0].name} has {format_shape(extents[0])}, {leaf.name} {format_shape(extent)}",
                    hint="pass arrays with the same leading axes",
                )


def _require_named_axes(kernel: Kernel, shapes: Sequence[Shape], roles: Sequence[str] | None) -> None:
    """Axes that annotations of jaxtyping name have one extent, those with a number that, those with "n+1" that of n."""
    axes = [
        (place, number, axis, extent)
        for place in kernel.named_axes
        for number, (axis, extent) in enumerate(
            zip(kernel.leaves[place].annotation.axes, shapes[place] or (), strict=True)
        )
        if axis is not None
    ]
    first: dict[str, tuple[Dim, str]] = {}
    for place, _, axis, extent in axes:
        if isinstance(axis, str) and axis.isidentifier():
            first.setdefault(axis, (extent, kernel.leaves[place].name))
    known = {name: extent for name, (extent, _) in first.items()}
    for place, number, axis, extent in axes:
        wanted = axis if isinstance(axis, int) else extent_of(axis, known)
        if wanted is None or extent == wanted:
            continue
        like = f" of argument '{first[axis][1]}'" if axis in first else ""
        like = "" if isinstance(axis, int) else f", as '{axis}'{like}"
        is_output = roles is not None and roles[place] == OUTPUT
        raise KernelValueError(
            f"kernel {kernel.name}: argument '{kernel.leaves[place].name}': expected {wanted} elements along axis"
            f" {number}{like}; got {extent}",
            hint="say what shape it has: output_dims=..." if is_output else None,
        )


def roles_in(effects: Effects, grid: Sequence[Dim], shapes: Sequence[Shape]) -> list[str]:
    """Return what a kernel does with each argument: read it, overwrite all of it, or update it."""
    known = {param: tuple(shape or ()) for param, shape in zip(effects.kernel.params, shapes, strict=True)}

    def role(param: Param) -> str:
        if not effects[param].modifies:
            return INPUT
        return OUTPUT if effects.covers(param, grid, known[param], known) else IN_OUT

    return [role(param) for param in known]
