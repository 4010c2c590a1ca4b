"""Faults in lowerings, schedules, kernels and host programs."""

from __future__ import annotations

import dataclasses
import os
import signal
from collections.abc import Callable
from typing import Any

from repair.faults import fault


def lowering(name: str, change: Callable[[Any], Any]) -> None:
    """Replace a lowering by ``change(the one there is)``."""
    from firesteel.kernels.lowering.registry import LOWERINGS

    LOWERINGS.load_first()
    LOWERINGS.load()
    LOWERINGS[name] = change(LOWERINGS[name])


def takes_the_place(name: str, other: str) -> None:
    """Lower an operator of one tensor as another one."""
    from firesteel.kernels.lowering.registry import LOWERINGS

    lowering(name, lambda _: lambda ctx, value, *rest, **more: LOWERINGS[other](ctx, value))


def raising(error: Exception) -> Callable[[Any], Any]:
    """What replaces a function by one that raises."""
    def change(_: Any) -> Any:
        def broken(*args: Any, **kwargs: Any) -> Any:
            raise error
        return broken

    return change


def rule(name: str, change: Callable[[Any], Any]) -> None:
    """Replace how an operation of the loop IR is printed as LLVM for floats."""
    from firesteel.kernels.operations import OPERATIONS

    row = OPERATIONS[name]
    forms = row.llvm
    new = type(forms)(change(forms.floats), forms.integers)
    OPERATIONS[name] = type(row)(**{**{field.name: getattr(row, field.name) for field in dataclasses.fields(row)},
                                    "llvm": new})


def times(factor: float) -> Callable[[Any], Any]:
    """A rule with its result multiplied by a constant."""
    def change(real: Any) -> Any:
        def broken(e: Any, args: Any) -> Any:
            result = real(e, args)
            return e.binary("fmul", result, e.constant(factor, result.dtype, result.lanes))
        return broken

    return change


# Lowering


@fault("lower", "gelu")
def lowering_of_gelu_raises() -> None:
    lowering("aten.gelu.default", raising(KeyError("approximate")))


@fault("lower", "tanh")
def lowering_of_tanh_is_that_of_sin() -> None:
    takes_the_place("aten.tanh.default", "aten.sin.default")


@fault("lower", "erf", "function")
def lowering_of_erf_asserts() -> None:
    lowering("aten.erf.default", raising(AssertionError("a short float")))


@fault("lower", "round", "function")
def lowering_of_round_is_that_of_ceil() -> None:
    takes_the_place("aten.round.default", "aten.ceil.default")


@fault("lower", "gelu_backward")
def gradient_of_gelu_is_the_tangent() -> None:
    from firesteel.kernels.lowering.registry import LOWERINGS

    lowering("aten.gelu_backward.default",
             lambda _: lambda ctx, grad, *rest, **more: LOWERINGS["aten.neg.default"](ctx, grad))


@fault("lower", "cumsum", "function")
def lowering_of_cumsum_crashes() -> None:
    lowering("aten.cumsum.default", lambda _: lambda *a, **k: os.kill(os.getpid(), signal.SIGSEGV))


@fault("lower", "silu", "losses")
def lowering_of_silu_hangs() -> None:
    def hang(*args: Any, **kwargs: Any) -> Any:
        while True:
            pass

    lowering("aten.silu.default", lambda _: hang)


@fault("lower", "hardswish", "losses")
def lowering_of_hardswish_is_that_of_relu() -> None:
    takes_the_place("aten.hardswish.default", "aten.relu.default")


@fault("lower", "amax|max")
def lowering_of_amax_is_amin() -> None:
    from firesteel.kernels.lowering.registry import LOWERINGS

    lowering("aten.amax.default", lambda _: LOWERINGS["aten.amin.default"])


# Scheduling


@fault("schedule", "cumsum|sum|mean|native_layer_norm|_log_softmax")
def sums_start_from_one() -> None:
    from firesteel.kernels.scheduling import nests

    real = nests.identity
    from repair.faults_in_graphs import replace_everywhere

    replace_everywhere(real, lambda kind, dtype: 1 if kind == "sum" else real(kind, dtype))


@fault("schedule", "argmax", "function")
def scheduling_of_argmax_raises() -> None:
    from firesteel.kernels.scheduling import pieces

    real = pieces.recipe_of

    def broken(group: Any, *rest: Any) -> Any:
        if any(member.computation.reduce == "argmax" for member in group.members):
            raise IndexError("no axis")
        return real(group, *rest)

    from repair.faults_in_graphs import replace_everywhere

    replace_everywhere(real, broken)


@fault("schedule", "embedding")
def reads_of_tables_are_negated() -> None:
    from firesteel.kernels.scheduling.nests import NestBuilder

    build = NestBuilder.build

    def shifted(self: Any) -> Any:
        nest = build(self)
        _shift(nest.body)
        return nest

    NestBuilder.build = shifted  # type: ignore[method-assign]


def _shift(body: list[Any]) -> None:
    """Make stores of values that are read at computed places store them negated."""
    from firesteel.kernels import ir

    for statement in body:
        if isinstance(statement, ir.Loop):
            _shift(statement.body)
        elif isinstance(statement, ir.Store) and statement.value.op == "load" and statement.value.data.indirect:
            statement.value = ir.op("neg", statement.value)


@fault("schedule", "")
def memory_is_freed_too_early() -> None:
    from firesteel.kernels.scheduling import memory

    real = memory._accesses

    def broken(step: Any) -> Any:
        reads, writes = real(step)
        return reads[1:], writes

    memory._accesses = broken


# Machine code


@fault("generate", "exp|softmax", "function")
def wrong_constant_in_exp() -> None:
    rule("exp", times(1.01))


@fault("generate", "erf", "function")
def wrong_constant_in_erf() -> None:
    rule("erf", times(0.99))


@fault("generate", "sigmoid")
def sigmoid_gives_nan() -> None:
    rule("sigmoid", times(float("nan")))


@fault("generate", "rsqrt", "function")
def rsqrt_is_sqrt() -> None:
    from firesteel.kernels.cpu.operation_rules import intrinsic

    rule("rsqrt", lambda _: intrinsic("sqrt"))


@fault("generate", "sin", "function")
def code_of_sin_is_no_llvm() -> None:
    def change(_: Any) -> Any:
        return lambda e, args: e.instruction(f"fsine {args[0].typed}", args[0].dtype, args[0].lanes)

    rule("sin", change)


@fault("generate", "sqrt", "function")
def printing_of_sqrt_raises() -> None:
    rule("sqrt", raising(TypeError("lanes")))


@fault("generate", "tanh")
def code_of_tanh_aborts() -> None:
    from firesteel.kernels.cpu import math_functions

    real = math_functions.library("tanh", "u10")

    def crashing(e: Any, args: Any) -> Any:
        for name in ("tanh", "tanhf"):
            import llvmlite.binding as llvm

            llvm.add_symbol(name, 8)  # a jump to nowhere
        return math_functions._lane_by_lane(e, "tanh", args)

    del real
    rule("tanh", lambda _: crashing)


@fault("generate", "round", "function")
def printing_of_round_hangs() -> None:
    def hang(e: Any, args: Any) -> Any:
        while True:
            pass

    rule("round", lambda _: hang)


@fault("generate", "clamp", "function")
def minima_are_maxima() -> None:
    from firesteel.kernels.operations import OPERATIONS

    rule("min", lambda _: OPERATIONS["max"].llvm.floats)


@fault("generate", "abs", "function")
def absolute_values_are_negated() -> None:
    from firesteel.kernels.cpu.operation_rules import negation

    rule("abs", lambda _: negation)


# Host programs


@fault("host", "")
def host_programs_raise() -> None:
    from firesteel.kernels.host import printer

    real = printer._HostPrinter.print

    def broken(self: Any) -> Any:
        if len(self.plan.steps) > 2:
            raise LookupError("no register")
        return real(self)

    printer._HostPrinter.print = broken  # type: ignore[method-assign]


@fault("host", "addmm|mm")
def results_of_products_are_doubled() -> None:
    from firesteel.kernels.host import printer

    real = printer.function_of

    def broken(target: Any) -> Any:
        name, function = real(target)
        if "mm" not in str(target):
            return name, function
        return name, lambda *args, **kwargs: function(*args, **kwargs).mul(2)

    printer.function_of = broken


@fault("host", "")
def results_of_host_programs_are_negated() -> None:
    from firesteel.kernels.host import printer

    real = printer.host_function

    def broken(plan: Any, *rest: Any, **more: Any) -> Any:
        host = real(plan, *rest, **more)
        run = host.run
        host.run = lambda *inputs: tuple(result.neg() if getattr(result, "ndim", 0) == 2 and result.is_floating_point()
                                         else result for result in run(*inputs))
        return host

    from repair.faults_in_graphs import replace_everywhere

    replace_everywhere(real, broken)
