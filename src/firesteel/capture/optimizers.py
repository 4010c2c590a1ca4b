"""Optimizers of ``torch.optim`` in captured code.

Most of their code is captured as it stands. Where eager reads the number of steps out of a tensor and computes with
Python floats, the graph computes with tensors in double precision: the same numbers, and nothing depends on data.
Optimizers that branch on such numbers take the branch-free path that torch has for CUDA graphs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch.optim import asgd, radam

from .. import torch_compat
from .call_handlers import Handler, handles
from .values.base import Value
from .values.constants import ConstantValue, NumberValue
from .values.functions import FunctionValue
from .values.sequences import ListValue, TupleValue
from .values.tensors import TensorValue

if TYPE_CHECKING:
    from .tracer import Tracer


@handles(torch_compat.optimizer_number())
def number_in_tensor(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """The number in a tensor, as a tensor of double precision."""
    value = args[0].realize()
    if not isinstance(value, TensorValue) or not value.fake.dtype.is_floating_point:
        return value
    return tx.call_torch("to", [value, tx.constant(torch.float64)], {})


def in_double_precision(update: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], at: int) -> None:
    """Call the branch-free version of an optimizer, which counts steps in tensors, with exact counts."""
    steps = args[at]
    wide = [step.double() for step in steps]
    update(*args[:at], wide, *args[at + 1:], **{**kwargs, "capturable": True})
    for step, counted in zip(steps, wide, strict=True):
        step.copy_(counted)


def _branch_free(update: Any, at: int) -> Handler:
    """`at` is the position of the step counts among the arguments."""
    def call(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        from .calls import inline

        function = tx.python_object(update)
        assert isinstance(function, FunctionValue)
        capturable = kwargs.get("capturable", ConstantValue(False))
        if len(args) != at + 1 or tx.truth(capturable) or not _together(tx, args[0], args[at]):
            return inline(tx, function, args, kwargs)
        helper = tx.python_object(in_double_precision)
        return tx.call(helper, [function, tx.make_tuple(args), tx.make_dict(kwargs), tx.constant(at)], {})

    return call


def _together(tx: Tracer, parameters: Value, steps: Value) -> bool:
    """Whether all are on one device: operations without branches need that."""
    devices = set()
    for group in (parameters.realize(), steps.realize()):
        if not isinstance(group, ListValue):
            return False
        for value in group.elements(tx):
            value = value.realize()
            devices.add(value.fake.device if isinstance(value, TensorValue) else None)
    return len(devices) == 1 and None not in devices


def _with_list_of_factors(function: Any) -> Handler:
    """``_foreach_addcdiv_(a, b, c, factors)``: a list of tensors with one number each becomes one tensor."""
    def call(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        factors = args[3].realize() if len(args) == 4 else None
        if isinstance(factors, (ListValue, TupleValue)) and \
                any(isinstance(item.realize(), TensorValue) for item in factors.elements(tx)):
            args = [*args[:3], tx.call_torch(torch.stack, [factors], {})]
        return tx.call_torch(function, args, kwargs)

    return call


def _with_learning_rate(function: Any) -> Handler:
    """A fused step takes the learning rate as a constant or as a tensor: one that changes becomes a tensor."""
    def call(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
        rate = kwargs["lr"].realize() if "lr" in kwargs else None
        if isinstance(rate, NumberValue):
            tensor = tx.call_torch(torch.scalar_tensor, [rate], {"dtype": tx.constant(torch.float64)})
            kwargs = {**kwargs, "lr": tensor}
        return tx.call_torch(function, args, kwargs)

    return call


def without_gradients(optimizer: torch.optim.Optimizer) -> None:
    """What ``zero_grad()`` comes to, without looking at the gradients there are: nothing depends on them."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            parameter.grad = None


@handles(torch.optim.Optimizer.zero_grad)
def zero_grad(tx: Tracer, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """A step that begins without gradients is the same step as one that begins with those of the step before."""
    from .calls import inline

    function = tx.python_object(torch.optim.Optimizer.zero_grad)
    assert isinstance(function, FunctionValue)
    to_none = args[1] if len(args) == 2 else kwargs.get("set_to_none", ConstantValue(True))
    if len(args) not in (1, 2) or kwargs.keys() - {"set_to_none"} or not tx.truth(to_none):
        return inline(tx, function, args, kwargs)
    return tx.call(tx.python_object(without_gradients), args[:1], {})


for _function in torch_compat.fused_optimizer_steps():
    handles(_function)(_with_learning_rate(_function))
for _function in torch_compat.products_of_lists():
    handles(_function)(_with_list_of_factors(_function))
handles(radam.radam)(_branch_free(radam.radam, 4))
handles(asgd.asgd)(_branch_free(asgd.asgd, 5))
