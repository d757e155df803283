"""The class of kernels and what one can ask of them; `decorators.py` makes a kernel of a Python function."""

from __future__ import annotations

import ast
import bisect
import itertools
import numbers
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import FunctionType, SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar

from jaxwarp import config
from jaxwarp.boundary import boundaries, boundary, caller, warn
from jaxwarp.codegen.abi import CudaOptions, index_bits_of
from jaxwarp.cuda_options import cuda_options, extents_of
from jaxwarp.errors import KernelSyntaxError, KernelTypeError, KernelValueError, type_text
from jaxwarp.frontend.evaluate import evaluate
from jaxwarp.frontend.found import KernelFacts, found_of
from jaxwarp.frontend.kept import lowered
from jaxwarp.frontend.text.annotations import is_generic, matches, pattern_text
from jaxwarp.frontend.text.functions import Func, PickledByName
from jaxwarp.frontend.text.host_values import Missing
from jaxwarp.frontend.text.read_source import read_source
from jaxwarp.frontend.text.signature import read_parameters
from jaxwarp.frontend.text.source import Source
from jaxwarp.ir.kernel import Kernel as KernelIR
from jaxwarp.modules import MODULE_OPTIONS, Module, require_option
from jaxwarp.passes.pipeline import prepare
from jaxwarp.types import Absent, Array, Struct, as_dtype, leaves_of, meant, struct_in, struct_of, uint64
from jaxwarp.types.given import given_types, require_one_meaning, takes_structs
from jaxwarp.unlocked import cached_property

if TYPE_CHECKING:
    from jaxwarp.analysis.roofline import Roofline

# Warp's keyword arguments. `enable_backward`, `module` and `name` have no meaning here, `cluster_dim` no effect.
KERNEL_OPTIONS = (
    "enable_backward", "module", "module_options", "launch_bounds", "cluster_dim", "grid_stride", "max_registers",
    "fast_math", "optimization_level", "block_dim", "name",
)  # fmt: skip
_TARGETS = ("ir", "cuda", "cpu")
Func.evaluate = staticmethod(evaluate)
# Options that a module and `jaxwarp.config` call otherwise than `@kernel` does.
_NAMES_OF_MODULES = {"grid_stride": "default_grid_stride"}


@dataclass(frozen=True)
class Argument:
    """An argument of a kernel: its name and annotation (a type, or a pattern with `Any` in it)."""

    name: str
    annotation: Any

    @property
    def is_array(self) -> bool:
        return isinstance(self.annotation, Array)

    @property
    def is_generic(self) -> bool:
        return any(is_generic(leaf.annotation) for leaf in self.leaves)

    @property
    def leaves(self) -> tuple[Argument, ...]:
        """The arrays and numbers that it consists of: of a struct its fields, `s.x`; else itself."""
        if struct_in(self.annotation) is None:
            return (self,)
        return tuple(Argument(name, type_) for name, type_ in leaves_of(self.name, self.annotation))


class ArgumentKinds:
    """The arguments of a kernel by kind, as numbers.

    Attributes:
        arrays: those annotated as arrays.
        structs: those that are structs, with these.
        numbers: the others.
        first: of each argument, the number of its first leaf.
        records: the arrays of structs, whose leaves are several arrays: the number of each.
    """

    def __init__(self, kernel: Kernel):
        arguments = kernel.arguments
        self.arrays = [k for k, a in enumerate(arguments) if a.is_array]
        self.structs = [(k, a.annotation) for k, a in enumerate(arguments) if isinstance(a.annotation, Struct)]
        others = {*self.arrays, *(k for k, _ in self.structs)}
        self.numbers = [k for k in range(len(arguments)) if k not in others]
        self.first = [0, *itertools.accumulate(len(a.leaves) for a in arguments)]
        self.records = [k for k in self.arrays if self.first[k + 1] - self.first[k] > 1]

    def of_leaf(self, leaf: int) -> tuple[int, int | None]:
        """Return the argument that a leaf is part of, and which of its leaves, if it is a struct."""
        k = bisect.bisect_right(self.first, leaf) - 1
        return k, leaf - self.first[k] if any(k == n for n, _ in self.structs) else None


@boundaries
class Kernel(PickledByName):
    """A kernel, as `@kernel` returns it. It is compiled for the argument types of each call.

    Attributes:
        name: of the Python function.
        key: its qualified name, or that it was given. It may be set.
        arguments: in order.
        defaults: the values of arguments that calls may leave out, by name.
        leaves: what a launch is given: the arguments, those that are structs by their fields.
        structs: that the arguments, or the elements of arrays, are; None for those that are none.
        options: the keyword arguments of `@kernel`.
        module: whose options hold for it.
    """

    arguments: tuple[Argument, ...]
    leaves: tuple[Argument, ...]
    structs: tuple[Struct | None, ...]
    has_structs: bool
    takes_structs: tuple[int, ...]
    named_axes: tuple[int, ...]
    _is_by_class: bool

    _SETTABLE = ("key",)
    # Runs a kernel in Python on arrays and numbers: given by the module that knows arrays outside of JAX.
    step: ClassVar[Callable[[Kernel, Source, Sequence[Any], dict[str, Any], Any, Any], None]]

    def __init__(
        self,
        func: Callable[..., Any] | Source,
        key: str | None = None,
        module: Any = None,
        options: dict[str, Any] | None = None,
    ):
        """Make a kernel as `@kernel` does, in programs that generate kernels: `Kernel(func=f, key="f_float32")`.

        Args:
            func: the Python function.
            key: what `repr` shows. Default: its qualified name.
            module: a `Module`, or the name of one, whose options hold for the kernel. Default: the Python module.
            options: as the keyword arguments of `@kernel`.

        Raises:
            KernelError, KernelTypeError: as `@kernel`.
        """
        source = func if isinstance(func, Source) else read_source(func, "kernel", caller().f_locals)
        require_options("kernel", options or {}, KERNEL_OPTIONS)
        for option, value in ((options or {}).get("module_options") or {}).items():
            require_option(option, value)
        self._source = source
        self.name = source.name
        self.key = key or source.function.__qualname__
        self.func = source.function
        self.options = options or {}
        if self.options.get("cluster_dim") is not None:
            warn(f"kernel {source.name}: cluster_dim has no effect: launches have no clusters of blocks")
        self.__doc__ = source.function.__doc__
        self.__name__ = source.name
        self.__module__ = source.function.__module__
        self.module = self._module_of(options.get("module") if module is None and options else module)
        self.options = {"fma": bool(self.module_option("fuse_fp", True)), **self.options}
        parameters = read_parameters(source, "kernel")
        self.defaults = {p.name: p.default for p in parameters if p.default is not Missing}
        self._parameters = parameters
        self._set_arguments(tuple(Argument(p.name, p.pattern) for p in parameters))

    def _set_arguments(self, arguments: tuple[Argument, ...]) -> None:
        leaves = tuple(leaf for a in arguments for leaf in a.leaves)
        structs = [struct_in(a.annotation) for a in arguments]
        self.__dict__.pop("places", None)
        taking = tuple(k for k, a in enumerate(arguments) if takes_structs(a.annotation))
        self.__dict__.update(
            arguments=arguments,
            leaves=leaves,
            structs=tuple(structs),
            has_structs=any(struct is not None for struct in structs),
            takes_structs=taking,
            named_axes=tuple(k for k, a in enumerate(leaves) if a.is_array and a.annotation.axes),
            # Only classes decide what is given.
            _is_by_class=all(arguments[k].annotation == uint64 for k in taking),
        )

    @cached_property
    def places(self) -> ArgumentKinds:
        """Its arguments by kind."""
        return ArgumentKinds(self)

    @cached_property
    def found(self) -> KernelFacts:
        """Everything that was found out about kernels of its content."""
        limit = self.module_option("max_unroll", config.max_unroll)
        # Of a module that is told apart by a kernel's name nobody sets options.
        own = {name: value for name, value in self.options.items() if name != "module"}
        return found_of(self._source, limit, self._parameters, self.key, self.module.name, own)

    def _with(self, key: tuple[Any, ...], arguments: tuple[Argument, ...]) -> Kernel:
        """The kernel with other arguments, made once for each `key`."""
        made = self.found.given.get(key)
        if made is None:
            made = object.__new__(type(self))
            made.__dict__.update(self.__dict__)
            made.__dict__["found"] = KernelFacts(self.found.max_unroll)
            made._set_arguments(arguments)
            made = self.found.given.setdefault(key, made)
        return made

    def given(self, values: Sequence[Any]) -> Kernel:
        """The kernel for these arguments, of which outputs may be missing: one that leaves open what is given a struct,
        an array of structs, or, annotated uint64, what Warp names by a number, is one of that type."""
        if not self.takes_structs:
            return self
        if not self._is_by_class or len(values) < len(self.arguments):
            return self._for_values(values)
        classes, known = tuple([type(meant(values[k])) for k in self.takes_structs]), self.found.of_classes
        made = known.get(classes)
        if made is None:
            made = known[classes] = self._for_values(values)
        return made

    def _for_values(self, values: Sequence[Any]) -> Kernel:
        found = given_types(self.takes_structs, [a.annotation for a in self.arguments], values)
        return self.with_types(found) if any(t is not None for t in found) else self

    def with_types(self, types: tuple[Any, ...]) -> Kernel:
        """The kernel with types in place of some annotations that take structs, in order; None: as they are.

        Raises:
            KernelTypeError: one type variable would be two types.
        """
        made = self.found.given.get(types)
        if made is not None:
            return made
        arguments = list(self.arguments)
        for k, found in zip(self.takes_structs, types, strict=True):
            arguments[k] = arguments[k] if found is None else Argument(arguments[k].name, found)
        pairs = zip(self.arguments, arguments, strict=True)
        require_one_meaning(self.name, [(a.name, a.annotation, b.annotation) for a, b in pairs if a is not b])
        return self._with(types, tuple(arguments))

    def with_argument(self, name: str, type_: Any) -> Kernel:
        """The kernel with one more argument, which its text does not name."""
        return self._with((name, type_), (*self.arguments, Argument(name, type_)))

    def of_types(self, types: Sequence[Any]) -> Kernel:
        """The kernel for arguments of these types alone; itself, if none of its own is open.

        It is lowered when it is first used: what is wrong in its code for these types is an error then.

        Raises:
            KernelTypeError: the types do not fit the annotations.
        """
        self._of_structs(types)._require_types(types)
        named = tuple(t if isinstance(t, Array | Absent | Struct) else struct_of(t) or as_dtype(t) for t in types)
        if len(named) != len(self.arguments) or not (self.is_generic or any(struct_in(t) for t in named)):
            return self
        pairs = zip(self.arguments, named, strict=True)
        return self._with(("of_types", *named), tuple(Argument(a.name, t) for a, t in pairs))

    def add_overload(self, arg_types: Any) -> Kernel:
        """The kernel for arguments of these types, as `overload` gives it. This one stays generic."""
        return overload(self, arg_types)

    def __repr__(self) -> str:
        return f"<jaxwarp kernel {self.key}>"

    def __call__(self, *_args: Any, **_keywords: Any) -> Any:
        raise KernelTypeError(
            f"{self.name} is a kernel and cannot be called directly",
            hint=f"wrap it for JAX: jax_kernel({self.name})(...)",
        )

    def _module_of(self, given: Any) -> Module:
        if isinstance(given, Module):
            return given
        if given == "unique":
            return Module(f"{self.__module__}.{self.key}")
        return Module(given if isinstance(given, str) else self.__module__)

    def module_option(self, name: str, default: Any = None) -> Any:
        """An option that holds for the kernel: of `@kernel(module_options={...})`, else of its module."""
        own = self.options.get("module_options") or {}
        if not own and not MODULE_OPTIONS:  # each launch asks
            return default
        given = (own, *self._options_of_modules())
        return next((options[name] for options in given if options.get(name) is not None), default)

    def cuda_options(self, block_dim: int | str | None = None) -> CudaOptions:
        """Return the options for its CUDA code.

        Each option comes from the first of these that sets it: the call, `@kernel`, its module, `jaxwarp.config`.

        Raises:
            KernelValueError: an option has a value that cannot be, or `launch_bounds` is less than `block_dim`.
        """
        own, named = self.options, [self.options.get("module_options"), *self._options_of_modules(), vars(config)]
        said = [options for options in named if options]

        def option(name: str) -> Any:
            if (found := own.get(name)) is not None:
                return found
            name = _NAMES_OF_MODULES.get(name, name)
            for options in said:
                if (found := options.get(name)) is not None:
                    return found
            return None

        return cuda_options(self.name, option, block_dim)

    def _options_of_modules(self) -> tuple[dict[str, Any], dict[str, Any]]:
        return MODULE_OPTIONS.get(self.module.name, {}), MODULE_OPTIONS.get(self.__module__, {})

    @property
    def adj(self) -> SimpleNamespace:
        """A private name of Warp's: `adj.args` are the arguments, each with a `label` and a `type`."""
        return SimpleNamespace(args=[SimpleNamespace(label=a.name, type=a.annotation) for a in self.arguments])

    @property
    def is_generic(self) -> bool:
        """Some argument's type is not known before it is called."""
        return any(a.is_generic for a in self.leaves)

    def specialize(self, types: Sequence[Any] | None = None) -> KernelIR:
        """The IR for arguments of these types; lowered once per signature.

        Its parameters are named after the arguments. The grid has as many axes as `tid()` gives indices (one if it is
        not called): the leading axes of a launch, which may have more.

        Args:
            types: one per argument: Scalar, Vec, Mat, Array, Struct, or Absent (None is given for an array); or one per
                leaf. None for the annotations, if none is generic.

        Raises:
            KernelTypeError: the types do not fit the annotations, or the kernel is wrong for them.
        """
        meant = self if types is None else self._of_structs(types)
        if meant is not self:
            return meant.specialize(types)
        key = self._require_types(types)
        known = self.found
        found = known.specialized.get(key)
        if found is None:
            arguments = [(a.name, a.annotation) for a in self.arguments]
            found = known.specialized.setdefault(key, lowered(self._source, arguments, key, known.max_unroll))
        return found

    def _of_structs(self, types: Sequence[Any]) -> Kernel:
        """The kernel for arguments of these types, as `given` has it for values."""
        if not self.takes_structs or not isinstance(types, Sequence) or len(types) != len(self.arguments):
            return self
        given = [struct_of(types[k]) or types[k] for k in self.takes_structs]
        open_ = [struct_in(self.arguments[k].annotation) is None for k in self.takes_structs]
        found = tuple(t if o and struct_in(t) is not None else None for t, o in zip(given, open_, strict=True))
        return self.with_types(found) if any(t is not None for t in found) else self

    def _require_types(self, types: Sequence[Any] | None) -> tuple[Any, ...]:
        if types is None:
            generic = [a.name for a in self.leaves if a.is_generic]
            if generic:
                raise KernelTypeError(
                    f"{self.name} is generic in {', '.join(generic)}: the types of its arguments are needed",
                    hint=f"pass them: {self.name}.ir([...]), one for each argument",
                )
            return tuple(a.annotation for a in self.leaves)
        if not isinstance(types, Sequence):
            raise KernelTypeError(
                f"{self.name}: expected types, one for each argument, got {types!r}",
                hint=f"pass them in a list: {self.name}.ir([...])",
            )
        types = [leaf for t in types for leaf in _leaf_types(t)]
        if len(types) != len(self.leaves):
            raise KernelTypeError(
                f"{self.name}: expected {len(self.leaves)} types, got {len(types)}",
                hint=f"pass one type for each of {', '.join(a.name for a in self.arguments)}",
            )
        concrete = tuple(t if isinstance(t, Array | Absent) else as_dtype(t) for t in types)
        bound: dict[Any, Any] = {}
        for argument, found in zip(self.leaves, concrete, strict=True):
            dtype = found.array if isinstance(found, Absent) else found
            if is_generic(dtype):
                raise KernelTypeError(
                    f"{self.name}: argument {argument.name}: {pattern_text(dtype)} is generic",
                    hint="pass a type without Any in it",
                )
            if not matches(argument.annotation, dtype, bound):
                written = pattern_text(argument.annotation)
                expected = _with_meanings(written, bound)
                why = "" if expected == written else f": it is annotated {written}, as an argument before is"
                raise KernelTypeError(
                    f"{self.name}: argument {argument.name}: expected {expected}, got {dtype!r}",
                    hint=f"pass {expected}{why}",
                )
        return concrete

    def ir(self, types: Sequence[Any] | None = None) -> KernelIR:
        """The kernel as IR; `str` of it is readable."""
        return self.specialize(types)

    def interpret(self, *args: Any, dim: Any = None, threads: Any = None, **kwargs: Any) -> None:
        """Runs the kernel in Python, one thread after the other, so that debuggers step through its function.

        Values and results are those of the compiled kernel, but for products and sums that it contracts, for the
        accuracy of elementary functions, and for the order of threads. Indices are checked. `print(...)`,
        `breakpoint()` and other calls of Python's functions as statements are made, with variables as NumPy values.

        Args:
            args: the kernel's arguments, outputs too: NumPy arrays and arrays of jaxwarp, in place; numbers.
            dim: threads along each axis. Default: the leading extents of the first array, as many as `tid()` gives
                indices.
            threads: which to run: an index, a tuple of indices, or a list of these. Default: all.
            kwargs: arguments by name.

        Raises:
            KernelTypeError, KernelValueError: the arguments do not fit the kernel.
            OutOfRangeError: with the line, the thread, the array, the index and the extent.
        """
        Kernel.step(self, self._source, args, kwargs, dim, threads)

    def source(
        self, target: str = "cuda", types: Sequence[Any] | None = None, *, dim: Any = None, shapes: Any = None
    ) -> str:
        """The code made for a target: "cuda" (CUDA C++), "cpu" (LLVM IR) or "ir".

        CUDA code is that of a launch over `dim` of arrays of `shapes`, by name, if these are given, else what takes
        all extents as arguments.
        """
        if not isinstance(target, str) or target not in _TARGETS:
            raise KernelValueError(
                f"source: no target {target!r}, expected one of {', '.join(_TARGETS)}", hint='write source("cuda")'
            )
        if target == "ir":
            return str(self.specialize(types))
        if target == "cuda":
            return self._cuda_code(types, dim, shapes).source
        from jaxwarp.codegen.cpu import compile_cpu

        return compile_cpu(self._prepared(types)).text

    def _cuda_code(self, types: Sequence[Any] | None, dim: Any, shapes: Any, arch: int | str | None = None) -> Any:
        from jaxwarp.codegen.cuda import architecture, code_for, most_shared_bytes, print_cuda

        kernel, options = self._prepared(types), self.cuda_options()
        if arch is not None:
            options = replace(options, shared_bytes=most_shared_bytes((architecture(arch),), True))
        if dim is None:
            return print_cuda(kernel, options=options)
        grid, extents = extents_of(kernel, dim, shapes or {})
        return code_for(kernel, grid, extents, index_bits_of(grid, extents), options)

    def _prepared(self, types: Sequence[Any] | None) -> KernelIR:
        return prepare(self.specialize(types), fma=self.options["fma"])

    def ptx(
        self, arch: int | str = 80, types: Sequence[Any] | None = None, *, dim: Any = None, shapes: Any = None
    ) -> str:
        """The PTX that NVRTC makes for an architecture, 90 or "sm_90", of `source("cuda", ...)`. Needs no GPU.

        Raises:
            KernelValueError: NVRTC does not know the architecture.
            CompileError: there is no NVRTC.
        """
        from jaxwarp.codegen.cuda import ptx

        return ptx(self._cuda_code(types, dim, shapes, arch), arch)

    def resources(
        self, arch: int | str = 80, types: Sequence[Any] | None = None, *, dim: Any = None, shapes: Any = None
    ) -> Any:
        """Registers, spills, stack and shared memory of the machine code for an architecture. Needs no GPU.

        Raises:
            KernelValueError, CompileError: as `ptx`.
        """
        from jaxwarp.codegen.cuda import resources

        return resources(self._cuda_code(types, dim, shapes, arch), arch)

    def roofline(
        self,
        dim: Any,
        shapes: Any,
        types: Sequence[Any] | None = None,
        *,
        trips: int | None = None,
        bandwidth: float | None = None,
        peak_flops: float | None = None,
    ) -> Roofline:
        """Operations and bytes of a launch, counted from its code, and the least time that these take.

        Args:
            dim: threads along each axis.
            shapes: of the arrays, by name, without the components of vectors and matrices.
            types: of the arguments of a generic kernel, as `ir` takes them.
            trips: how often to count loops whose turns data decides. Default: their most is infinite.
            bandwidth: of memory, bytes a second.
            peak_flops: floating-point operations a second.

        Raises:
            KernelValueError: `dim` or `shapes` do not fit the kernel, or a number is not positive.
        """
        from jaxwarp.analysis.roofline import roofline

        for name, number, kind, text in (
            ("trips", trips, numbers.Integral, "a positive integer"),
            ("bandwidth", bandwidth, numbers.Real, "a positive number"),
            ("peak_flops", peak_flops, numbers.Real, "a positive number"),
        ):
            if number is not None and (not isinstance(number, kind) or isinstance(number, bool) or not number > 0):
                raise KernelValueError(
                    f"kernel {self.name}: {name}: expected {text}, got {number!r}",
                    hint="trips count turns; bandwidth is in bytes a second, peak_flops in operations a second",
                )
        kernel = self._prepared(types)
        grid, extents = extents_of(kernel, dim, shapes)
        return roofline(kernel, grid, dict(zip(kernel.params, extents, strict=True)), trips, bandwidth, peak_flops)


def _leaf_types(t: Any) -> list[Any]:
    """The types of the leaves of an argument of a type."""
    found = struct_of(t) or t
    return [leaf for _, leaf in leaves_of("", found)]


def require_options(decorator: str, options: dict[str, Any], known: Sequence[str]) -> None:
    """The options are known ones of a decorator."""
    unknown = [name for name in options if name not in known]
    if unknown:
        raise KernelTypeError(
            f"@{decorator} has no option {', '.join(unknown)}", hint=f"its options are {', '.join(known)}"
        )


@boundary
def overload(kernel: Kernel, arg_types: Any = None) -> Kernel:
    """Return a kernel that takes some types of a generic kernel only.

    You rarely need it: a call of the generic kernel compiles it for the types of the arguments. An error in the code
    for these types comes at the first use. `@overload` above `def k(x: float): ...` checks that the kernel k, defined
    before, takes them, and leaves it so.

    Args:
        kernel: with arguments annotated `Any` or by type variables.
        arg_types: a list of all types, or a dictionary of those that are open, by name. None: `kernel` as it is.

    Raises:
        KernelTypeError: the types do not fit the annotations.
    """
    if isinstance(kernel, FunctionType):
        return _declared(kernel, caller().f_locals)
    if not isinstance(kernel, Kernel):
        raise KernelTypeError(
            f"overload: expected a kernel, got {type_text(kernel)}", hint="decorate the function with @kernel"
        )
    if arg_types is None:
        return kernel
    if isinstance(arg_types, dict):
        unknown = [n for n in arg_types if n not in {a.name for a in kernel.arguments}]
        if unknown:
            raise KernelTypeError(
                f"overload: {kernel.name} has no argument {', '.join(unknown)}",
                hint=f"its arguments are {', '.join(a.name for a in kernel.arguments)}",
            )
        types = [arg_types.get(a.name, a.annotation) for a in kernel.arguments]
    elif isinstance(arg_types, Sequence):
        types = list(arg_types)
    else:
        raise KernelTypeError(
            f"overload: {kernel.name}: expected a list or a dictionary of types, got {arg_types!r}",
            hint="write overload(kernel, [array[float]]), one type for each argument",
        )
    is_open = any(t is uint64 for t in types)  # it may be a mesh, which is known when it is called
    return kernel if is_open else kernel.of_types(types)


def _with_meanings(written: str, bound: Mapping[Any, Any]) -> str:
    """An annotation as it is written, with what its type variables stand for."""
    meanings = {variable.__name__: repr(t) for variable, t in bound.items()}
    return re.sub(r"\w+", lambda name: meanings.get(name[0], name[0]), written)


def _declared(function: FunctionType, scope: Mapping[str, Any]) -> Kernel:
    """The kernel that a function without a body is named after, if it takes the types of its annotations."""
    source = read_source(function, "overload", scope)
    found = scope.get(source.name, function.__globals__.get(source.name))
    if not isinstance(found, Kernel):
        raise KernelTypeError(
            f"@overload: {source.name} is no kernel that is defined before", hint="write overload(kernel, [types])"
        )
    said = [s.value if isinstance(s, ast.Expr) else s for s in source.tree.body]
    if not all(isinstance(s, ast.Pass | ast.Constant) for s in said):
        raise KernelSyntaxError(
            f"@overload: {source.name} has a body", hint="write ... in its place: the code is the kernel's"
        )
    found.of_types([p.pattern for p in read_parameters(source, "kernel")])
    return found


@boundary
def init() -> None:
    """Does nothing: there is nothing to start. Programs written for Warp call it."""
