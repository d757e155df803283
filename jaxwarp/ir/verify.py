"""The check that a kernel is well formed and well typed. It runs on every new kernel, and in tests after every pass."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

import numpy as np

from jaxwarp.deep import with_deep_stack
from jaxwarp.errors import InternalError, KernelError
from jaxwarp.ir.builder import LEAST_PLAIN, MOST_PLAIN
from jaxwarp.ir.kernel import Kernel
from jaxwarp.ir.nodes import (
    ATOMIC_KINDS,
    TELL_KINDS,
    Atomic,
    Block,
    Call,
    Const,
    For,
    If,
    Load,
    Op,
    Param,
    Size,
    Store,
    Tell,
    Tid,
    Value,
    While,
)
from jaxwarp.types import Scalar, bool_, float32, float64, int32, int64


@with_deep_stack
def verify(kernel: Kernel) -> Kernel:
    """Returns the kernel; raises InternalError naming the operation that is wrong."""
    names = [p.name for p in (*kernel.params, *kernel.locals)]
    if len(set(names)) != len(names):
        raise InternalError(f"kernel {kernel.name}: parameters with one name: {names}")
    if any(n is None for p in kernel.locals for n in p.shape):
        raise InternalError(f"kernel {kernel.name}: a local array without a static shape")
    _Verifier(kernel).block(kernel.body)
    return kernel


class _Verifier:
    def __init__(self, kernel: Kernel):
        self.kernel = kernel
        self.defined: set[Value] = set()
        self.visible: set[Value] = set()

    def require(self, condition: bool, op: Op | None, what: str) -> None:
        if not condition:
            self.fail(op, what)

    def fail(self, op: Op | None, what: str) -> NoReturn:
        where = f"{type(op).__name__} at {op.loc}: " if op is not None else ""
        raise InternalError(f"kernel {self.kernel.name}: {where}{what}")

    def block(self, block: Block) -> None:
        bound = list(block.params)
        self.bind(block.params, None)
        for op in block.ops:
            for value in op.operands:
                if value not in self.visible:
                    self.fail(op, f"uses {value}, which is not defined here")
            self.op(op)
            for inner in op.blocks:
                self.block(inner)
            self.bind(op.defined, op)
            bound += op.defined
        for value in block.results:
            if value not in self.visible:
                self.fail(None, f"a block yields {value}, which is not defined in it")
        self.visible.difference_update(bound)

    def bind(self, values: Sequence[Value], op: Op | None) -> None:
        for value in values:
            if value in self.defined:
                self.fail(op, f"{value} is defined twice")
            self.defined.add(value)
            self.visible.add(value)

    def element(self, op: Op, param: Param, indices: Sequence[Value]) -> None:
        if param not in self.kernel.params and param not in self.kernel.locals:
            self.fail(op, f"{param.name} is not a parameter of this kernel")
        if len(indices) != param.rank:
            self.fail(op, f"{param.name} has rank {param.rank}, got {len(indices)} indices")
        self.require(all(i.type in (int32, int64) for i in indices), op, "indices must be i32 or i64")

    def same(self, op: Op, got: Sequence[Value], expected: Sequence[Value], what: str) -> None:
        types = [v.type.short for v in got], [v.type.short for v in expected]
        if types[0] != types[1]:
            self.fail(op, f"{what}: types {types[0]}, expected {types[1]}")

    def call(self, op: Call) -> None:
        if op.builtin.typed:
            return
        try:
            inferred = op.builtin.infer(tuple(a.type for a in op.args))
        except KernelError as error:
            raise InternalError(f"kernel {self.kernel.name}: {op.builtin.name}: {error}") from error
        if op.result.type != inferred:
            self.fail(op, f"{op.builtin.name} gives {inferred.short}")

    def atomic(self, op: Atomic) -> None:
        self.element(op, op.param, op.indices)
        self.require(op.kind in ATOMIC_KINDS, op, f"no atomic {op.kind!r}")
        bitwise = op.kind in ("and", "or", "xor")
        self.require(not (bitwise and op.param.dtype.is_float), op, f"atomic {op.kind!r} of a float")
        self.require(len(op.args) == (2 if op.kind == "cas" else 1), op, "wrong number of arguments")
        typed = all(v.type == op.param.dtype for v in (op.result, *op.args))
        self.require(typed, op, "arguments and result have the array's type")

    def while_(self, op: While) -> None:
        for values in (op.condition.params, op.body.params, op.body.results, op.results):
            self.same(op, values, op.inits, "carried values")
        test = op.condition.results
        self.require(len(test) == 1 and test[0].type is bool_, op, "the condition yields one bool")

    def tell(self, op: Tell) -> None:
        self.require(op.kind in TELL_KINDS, op, f"no {op.kind!r} is told")
        fits = len(op.texts) - 1 == len(op.formats) == len(op.args)
        self.require(fits, op, f"{len(op.texts)} texts and {len(op.formats)} formats for {len(op.args)} values")
        for text_format, value in zip(op.formats, op.args, strict=True):
            kinds = {"B": value.type is bool_, "d": value.type.is_int, "u": value.type.is_int}
            fits = kinds.get(text_format[-1], value.type.is_int or value.type in (float32, float64))
            self.require(fits, op, f"format {text_format} for {value.type.short}")

    def op(self, op: Op) -> None:
        match op:
            case Const():
                kind = bool if op.result.type is bool_ else float if op.result.type.is_float else int
                representable = type(op.value) is kind and _is_representable(op.value, op.result.type)
                if not representable:
                    self.fail(op, f"{op.value!r} is no {op.result.type.short}")
            case Tid():
                self.require(0 <= op.axis < self.kernel.grid_rank, op, f"grid axis {op.axis}")
                self.require(op.result.type is int32, op, "a thread index is i32")
            case Size():
                self.require(op.param in self.kernel.params, op, f"{op.param.name} is not a parameter")
                self.require(0 <= op.axis < op.param.rank, op, f"axis {op.axis} of {op.param.name}")
                self.require(op.result.type is int32, op, "an extent is i32")
            case Call():
                self.call(op)
            case Load():
                self.element(op, op.param, op.indices)
                self.require(op.result.type == op.param.dtype, op, "the result has the array's type")
            case Store():
                self.element(op, op.param, op.indices)
                self.require(op.value.type == op.param.dtype, op, f"stores {op.value.type} in {op.param.dtype}")
            case Atomic():
                self.atomic(op)
            case Tell():
                self.tell(op)
            case If():
                self.require(op.condition.type is bool_, op, "the condition is a bool")
                for block in op.blocks:
                    self.require(not block.params, op, "branches take no parameters")
                    self.same(op, block.results, op.results, "a branch's results")
            case For():
                self.require(op.start.type.is_int, op, "the index is an integer")
                self.same(op, (op.stop, op.step, op.body.params[0]), (op.start,) * 3, "bounds")
                self.same(op, op.body.params[1:], op.inits, "carried values")
                self.same(op, op.body.results, op.inits, "the body's results")
                self.same(op, op.results, op.inits, "results")
            case While():
                self.while_(op)
            case _:
                self.require(False, op, "unknown operation")


def _is_representable(value: bool | int | float, dtype: Scalar) -> bool:
    if dtype.is_int:
        least = -(1 << dtype.bits - 1) if dtype.is_signed else 0
        return least <= value < least + (1 << dtype.bits)
    if value == 0 or LEAST_PLAIN < abs(value) < MOST_PLAIN:
        return float(dtype.numpy.type(value)) == value
    with np.errstate(all="ignore"):
        return value != value or float(dtype.numpy.type(value)) == value
