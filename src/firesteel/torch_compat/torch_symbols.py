"""A world of torch's own fake tensors and symbols, for backends that trace with them."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch


class TorchSymbols:
    """One environment of symbols, and the fake tensors with them."""

    def __init__(self) -> None:
        from torch._subclasses.fake_tensor import FakeTensorMode
        from torch.fx.experimental.symbolic_shapes import ShapeEnv

        self.env = ShapeEnv()
        self.mode = FakeTensorMode(shape_env=self.env, allow_non_fake_inputs=True)

    def symbol(self, name: str, hint: int) -> Any:
        """A number with a value in the call at hand."""
        from torch.fx.experimental.symbolic_shapes import DimDynamic

        source = sys.modules["torch._dynamo.source"].ConstantSource(name)
        known = self.env.create_symbol(hint, source, DimDynamic.DYNAMIC, positive=None,
                                       do_not_specialize_zero_one=True)
        return self.env.create_symintnode(known, hint=hint, source=source)

    def tensor(self, size: Sequence[Any], stride: Sequence[Any], dtype: torch.dtype, device: torch.device,
               requires_grad: bool) -> torch.Tensor:
        """A fake tensor of torch's."""
        with self.mode, torch.enable_grad():
            return torch.empty_strided(size, stride, dtype=dtype, device=device, requires_grad=requires_grad)

    @contextlib.contextmanager
    def tracing(self) -> Iterator[None]:
        """What asks for the mode of the trace under way gets this one."""
        guards: Any = torch._guards
        with guards.tracing(guards.TracingContext(self.mode)):
            yield

    def conditions(self, examples: Sequence[Any]) -> Callable[[Sequence[Any]], bool] | None:
        """Whether what was relied on in the trace holds for inputs of the graph; None if it does for all."""
        code = self.env.produce_guards_expression(examples, ignore_static=False) if self.env.guards else None
        if not code:
            return None
        env = self.env

        return lambda inputs: bool(env.evaluate_guards_expression(code, inputs))
