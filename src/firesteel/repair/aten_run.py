"""What going through lowered graphs and going through plans have in common: sizes, views of buffers, calls of ATen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..kernels import ir


class AtenRun:
    """Buffers by name, sizes by symbol, and what reads and makes them."""

    def __init__(self, taken: Sequence[Any], inputs: Sequence[Any], constants: Mapping[str, Any],
                 symbols: Mapping[Any, tuple[Any, str, Any]]) -> None:
        """``taken``: the buffer or symbol that each input is; ``symbols``: the tensor that tells each one, "number",
        "size" or "stride", and the dimension."""
        self.symbols = symbols
        self.tensors: dict[str, Any] = {}
        self.sizes: dict[Any, Any] = {}
        for what, value in zip(taken, inputs, strict=True):
            if isinstance(what, ir.Buffer):
                self.tensors[what.name] = value
            else:
                self.sizes[what] = value
        self.tensors.update(constants)
        self.learn(list(self.tensors))

    def learn(self, names: Sequence[str]) -> None:
        """Read the symbols that some tensors tell."""
        for symbol, (name, kind, dim) in self.symbols.items():
            if name in names and kind != "number":
                tensor = self.tensors[name]
                self.sizes[symbol] = tensor.size(dim) if kind == "size" else tensor.stride(dim)

    def number(self, expr: Any) -> Any:
        """The value of a size."""
        return expr.evaluate(self.sizes) if hasattr(expr, "evaluate") else expr

    def buffer(self, name: str) -> Any:
        """The memory of a buffer."""
        return self.tensors[name]

    def tensor(self, ref: ir.BufferRef) -> Any:
        """A view of a buffer."""
        base = self.buffer(ref.buffer)
        if ref.shape is None:
            return base
        if ref.dtype is not None:
            base = base.view(ref.dtype)
        shape, strides = ([self.number(n) for n in numbers or ()] for numbers in (ref.shape, ref.strides))
        return base.as_strided(shape, strides, base.storage_offset() + self.number(ref.offset))

    def argument(self, arg: Any) -> Any:
        """An argument of a call."""
        if isinstance(arg, ir.BufferRef):
            return self.tensor(arg)
        if isinstance(arg, (list, tuple)):
            return type(arg)(self.argument(part) for part in arg)
        return self.number(arg)

    def call(self, call: ir.ExternCall) -> None:
        """Call ATen."""
        kwargs = {name: self.argument(arg) for name, arg in call.kwargs.items()}
        result = call.target(*self.argument(call.args), **kwargs)
        for name, part in zip(call.outputs, result if isinstance(result, (list, tuple)) else (result,),
                              strict=False):
            if name is not None:
                self.tensors[name] = part
                for symbol, (source, kind, dim) in self.symbols.items():
                    if source == name:
                        self.sizes[symbol] = part if kind == "number" else part.size(dim)
