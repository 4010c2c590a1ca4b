"""A break in a callee: what is before and behind it is compiled, however the callee is reached."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import firesteel as fs

OPERATIONS = 6
"""How many of `body` belong into graphs: sin, mul, sum and gt before the branch, cos and mul behind it."""


def body(x: torch.Tensor) -> torch.Tensor:
    x = x.sin() * 2
    if x.sum() > 100:
        x = x + 1
    return x.cos() * 3


class Plain(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return body(x)


class CallsSuper(Plain):
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return super().__call__(*args, **kwargs)


class Callback:
    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return body(x)


def hooked(register: str, hook: Callable[..., Any]) -> torch.nn.Module:
    module = Plain()
    getattr(module, register)(hook)
    return module


@contextlib.contextmanager
def region() -> Iterator[None]:
    yield


@functools.singledispatch
def by_type(x: Any) -> Any:
    raise TypeError


by_type.register(torch.Tensor)(body)

FORMS: dict[str, Callable[[torch.Tensor], Any]] = {
    "super().__call__": CallsSuper(),
    "forward hook": hooked("register_forward_hook", lambda module, inputs, output: output * 2),
    "forward pre-hook": hooked("register_forward_pre_hook", lambda module, inputs: (inputs[0] + 1,)),
    "hook that is always called": CallsSuper(),
    "partial": functools.partial(body),
    "partial of a module": functools.partial(Plain()),
    "object with __call__": Callback(),
    "no_grad": torch.no_grad()(body),
    "inference_mode": torch.inference_mode()(body),
    "autocast": torch.autocast("cpu", enabled=False)(body),
    "contextmanager as a decorator": region()(body),
    "singledispatch": by_type,
    "reduce": lambda x: functools.reduce(lambda total, item: body(total) + item, [x, x]),
    "sorted": lambda x: sorted([x, x + 1], key=lambda item: float(body(item).sum()))[0],
    "max": lambda x: max([x, x + 1], key=lambda item: float(body(item).sum())),
}
FORMS["hook that is always called"].register_forward_hook(  # type: ignore[attr-defined]
    lambda module, inputs, output: output * 2, always_call=True)


@pytest.mark.parametrize("form", FORMS)
def test_callee_is_compiled_around_its_break(form: str) -> None:
    function = FORMS[form]

    def program(x: torch.Tensor) -> torch.Tensor:
        return function(x + 1).tanh() + 1  # type: ignore[no-any-return]

    counts: list[int] = []

    def backend(gm: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        counts.append(sum(node.op in ("call_function", "call_method") for node in gm.graph.nodes))
        return gm.forward

    compiled = fs.compile(program, backend=backend)
    for x in (torch.randn(3), torch.full((3,), 1.5)):
        torch.testing.assert_close(compiled(x), program(x))
    outside = 3  # x + 1, tanh and + 1, around the callee
    assert sum(counts) >= OPERATIONS + outside


def test_exceptions_pass_through_decorators_and_hooks() -> None:
    class Fails(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if x.sum() > 0:
                raise KeyError("user's")
            return x

    seen: list[Any] = []
    module = Fails()
    module.register_forward_hook(lambda module, inputs, output: seen.append(output), always_call=True)
    guarded = torch.no_grad()(module)
    compiled = fs.compile(lambda x: guarded(x + 1) * 2)
    with pytest.raises(KeyError, match="user's"):
        compiled(torch.ones(2))
    assert torch.is_grad_enabled() and seen == [None]
    torch.testing.assert_close(compiled(-2 * torch.ones(2)), -2 * torch.ones(2))


def test_object_whose_class_changes_its_call() -> None:
    class Callee:
        def __call__(self, x: torch.Tensor) -> torch.Tensor:
            return body(x)

    callee = Callee()
    compiled = fs.compile(lambda x: callee(x) + 1, backend="eager")
    x = torch.randn(3)
    torch.testing.assert_close(compiled(x), body(x) + 1)
    Callee.__call__ = lambda self, x: body(x) * 5  # type: ignore[method-assign]
    torch.testing.assert_close(compiled(x), body(x) * 5 + 1)
