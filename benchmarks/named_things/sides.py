"""Runs one program plain and compiled, on either side, and compares."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from .registry import Thing


@dataclass
class Verdict:
    """What came of one program on one side."""

    right: bool
    one_graph: bool
    note: str = ""

    @property
    def word(self) -> str:
        return ("one graph" if self.one_graph else "breaks") + ("" if self.right else ", WRONG")


class Firesteel:
    """What programs that compile something themselves get of firesteel."""

    def __init__(self, fullgraph: bool) -> None:
        self.fullgraph = fullgraph

    def __call__(self, function: Any, **kwargs: Any) -> Any:
        import firesteel as fs
        if "backend" not in kwargs and "mode" not in kwargs:
            kwargs["tier"] = "wait"
        return fs.compile(function, fullgraph=self.fullgraph, **kwargs)

    def __getattr__(self, name: str) -> Any:
        import firesteel as fs
        own = None if name == "config" else getattr(fs, name, None)
        return own or getattr(Torch(self.fullgraph), name)  # torch's own names are understood


class Torch:
    """The same of torch.compile."""

    def __init__(self, fullgraph: bool) -> None:
        self.fullgraph = fullgraph

    def __call__(self, function: Any, **kwargs: Any) -> Any:
        if "mode" not in kwargs and "options" not in kwargs:
            kwargs.setdefault("backend", "aot_eager")
        return torch.compile(function, fullgraph=self.fullgraph, **kwargs)

    def __getattr__(self, name: str) -> Any:
        import torch._dynamo as dynamo
        if name == "config":
            return torch.compiler.config.patch
        if name == "reset":
            return dynamo.reset
        if name == "mark_unbacked":
            return dynamo.decorators.mark_unbacked
        return getattr(torch.compiler, name, None) or getattr(dynamo, name)


class Plain:
    """Compiles nothing."""

    def __call__(self, function: Any, **kwargs: Any) -> Any:
        return function

    def __getattr__(self, name: str) -> Any:
        if name in ("config", "set_stance", "error_on_graph_break"):
            return lambda *args, **kwargs: contextlib.nullcontext()
        if name in ("allow_in_graph", "nonstrict_trace", "assume_constant_result"):
            return lambda function: function
        return lambda *args, **kwargs: None


SIDES: dict[str, Any] = {"firesteel": Firesteel, "torch": Torch}


def measure(thing: Thing, side: str) -> Verdict:
    """Run a program plain, compiled, and compiled with ``fullgraph=True``."""
    arguments = [thing.arguments, thing.arguments, thing.again or thing.arguments]
    expected = [facts(thing, Plain(), None, make) for make in arguments]
    note = ""
    outcomes = []
    for fullgraph in (True, False):
        compiler = SIDES[side](fullgraph)
        compiler.reset()
        try:
            if thing.around:
                found = [facts(thing, compiler, None, make) for make in arguments]
            else:
                compiled = compiler(thing.function)
                found = [facts(thing, compiler, compiled, make) for make in arguments]
            outcome = agree(expected, found)
            if not outcome:
                note = note or f"expected {brief(expected, found)}"
        except Exception as error:
            outcome, note = False, note or _reason(error)
        outcomes.append(outcome)
        if outcome:  # what is one graph needs no second try
            break
    return Verdict(outcomes[-1], outcomes[0], " ".join(note.split())[:400])


def brief(expected: Any, found: Any) -> str:
    """The first of several calls that differs."""
    for one, other in zip(expected, found, strict=True):
        if not agree(one, other):
            return f"{str(one)[:180]} and found {str(other)[:180]}"
    return ""


def _reason(error: Exception) -> str:
    why = getattr(error, "reason", None)
    line = (getattr(error, "frames", None) or [None])[-1]
    return f"{why} | {getattr(line, 'source', '')}" if why else f"{type(error).__name__}: {str(error)[:300]}"


def facts(thing: Thing, compiler: Any, compiled: Callable[..., Any] | None, make: Callable[[], Any]) -> Any:
    """Results or the error, arguments afterwards, gradients."""
    random.seed(3)
    np.random.seed(3)
    torch.manual_seed(3)
    args = make()
    torch.manual_seed(4)
    try:
        if thing.around:
            result = thing.function(compiler, *args)
        else:
            result = (compiled or thing.function)(*args)
    except Exception as error:
        if type(error).__module__.startswith(("torch._dynamo", "firesteel", "torch._inductor")):
            raise
        return [type(error).__name__, str(error) if type(error) is not RuntimeError else ""]
    about = [described(result)]
    if thing.train:
        total: Any = 0
        for tensor in tensors_in(result):
            if tensor.requires_grad:
                total = total + (tensor.values() if tensor.is_nested else tensor).sum()
        try:
            total.backward()
        except Exception as error:
            return [*about, type(error).__name__, str(error)]
    about.append(described([arg for arg in args if not isinstance(arg, nn.Module)]))
    leaves = [leaf for arg in args for leaf in (arg.parameters() if isinstance(arg, nn.Module) else tensors_in(arg))]
    about.append([described(leaf.grad) for leaf in leaves if leaf.is_leaf])
    return about


def described(value: Any) -> Any:
    """A value as something that can be compared."""
    if isinstance(value, torch.Tensor):
        return _of_tensor(value)
    if isinstance(value, (list, tuple, set, frozenset)) or type(value).__name__ == "deque":
        return [type(value).__name__, [described(item) for item in value]]
    if isinstance(value, dict):
        return [type(value).__name__, {key: described(item) for key, item in value.items()}]
    if isinstance(value, np.ndarray):
        return ["array", str(value.dtype), torch.from_numpy(np.ascontiguousarray(value)).clone()]
    if isinstance(value, (np.generic, float)):
        return [type(value).__name__, torch.tensor(float(value))]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [type(value).__name__, {f.name: described(getattr(value, f.name)) for f in dataclasses.fields(value)}]
    if isinstance(value, (int, str, bytes, type(None), torch.dtype, torch.device)):
        return copy.copy(value)
    return type(value).__name__


def _of_tensor(value: torch.Tensor) -> Any:
    about: list[Any] = [type(value).__name__, str(value.dtype), str(value.layout), value.requires_grad]
    attributes = {key: described(item) for key, item in vars(value).items() if key in ("label", "extra", "steps")}
    if value.is_nested:
        parts = [part.detach().clone() for part in value.detach().unbind()]
        return [*about, parts, attributes]
    if hasattr(value, "__tensor_flatten__"):
        return [*about, [described(getattr(value, name)) for name in value.__tensor_flatten__()[0]], attributes]
    plain = value.detach()
    with torch._C.DisableTorchFunctionSubclass():
        plain = plain.to_dense() if plain.layout is not torch.strided else plain
        plain = plain.dequantize() if plain.is_quantized else plain
        return [*about, list(value.shape), torch.Tensor.as_subclass(plain, torch.Tensor).clone(), attributes]


def agree(one: Any, other: Any) -> bool:
    """Whether two results are the same, numbers within what kernels may differ by."""
    if isinstance(one, torch.Tensor):
        return isinstance(other, torch.Tensor) and one.shape == other.shape and torch.allclose(
            one, other, rtol=1e-4, atol=1e-5, equal_nan=True)
    if isinstance(one, list):
        return isinstance(other, list) and len(one) == len(other) and all(map(agree, one, other))
    if isinstance(one, dict):
        return isinstance(other, dict) and list(one) == list(other) and all(agree(one[key], other[key]) for key in one)
    return bool(type(one) is type(other) and one == other)


def tensors_in(value: Any) -> list[torch.Tensor]:
    """Tensors of nested containers."""
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in tensors_in(item)]
    if isinstance(value, dict):
        return tensors_in(list(value.values()))
    return []
