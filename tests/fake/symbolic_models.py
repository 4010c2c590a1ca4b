"""Models run on symbolic sizes, and every operator's result compared with eager's at other sizes."""

from __future__ import annotations

import contextlib
import gc
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from tests.models.zoo import build, prepare_torchvision
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from firesteel import torch_compat
from firesteel.fake import FakeMode
from firesteel.fake import mode as mode_module
from firesteel.shapes import ShapeEnv
from firesteel.shapes.symnode import expr_of, make_symint

OTHER_SIZES = {0: 3, 1: 24, 2: 96, 3: 80}  # by dimension: batch, sequence, height, width


def dynamic_dims(t: torch.Tensor) -> tuple[int, ...]:
    """Batch and sequence of tokens; batch, height and width of images."""
    return (0, 1) if t.ndim == 2 else (0, 2, 3)


class Subject:
    """A model and one set of inputs, to be run on fake tensors of any system."""

    def __init__(self, name: str) -> None:
        self.module, self.args, self.kwargs = build(name)
        self.module.train()
        self.state = {**dict(self.module.named_parameters()), **dict(self.module.named_buffers())}

    def inputs(self) -> list[torch.Tensor]:
        """The tensors among the arguments."""
        return [value for value in (*self.args, *self.kwargs.values()) if isinstance(value, torch.Tensor)]

    def run(self, state: dict[str, Any], convert: Callable[[torch.Tensor], Any]) -> None:
        """One forward and backward pass."""
        args = [convert(a) if isinstance(a, torch.Tensor) else a for a in self.args]
        kwargs = {k: convert(v) if isinstance(v, torch.Tensor) else v for k, v in self.kwargs.items()}
        result = torch.func.functional_call(self.module, state, tuple(args), kwargs)
        leaves = [t for t in tree_leaves(result) if isinstance(t, torch.Tensor)]
        next(t for t in leaves if t.requires_grad).sum().backward()


class Inputs:
    """Converts the tensors of a subject to fakes with one symbol for each dynamic dimension, shared by all inputs."""

    def __init__(self, mode: FakeMode, env: ShapeEnv) -> None:
        self.mode, self.env = mode, env
        self.symbols: dict[int, Any] = {}
        self._done: dict[int, Any] = {}

    def __call__(self, t: torch.Tensor) -> Any:
        if id(t) not in self._done:
            self._done[id(t)] = self._convert(t)
        return self._done[id(t)]

    def _convert(self, t: torch.Tensor) -> Any:
        sizes: list[Any] = list(t.shape)
        for dim in dynamic_dims(t):
            if dim not in self.symbols:
                self.symbols[dim] = self.env.new_symbol(t.shape[dim], f"x.size({dim})", lower=2)
            sizes[dim] = make_symint(self.env, self.symbols[dim])
        strides: list[Any] = [1]
        for size in reversed(sizes[1:]):
            strides.insert(0, strides[0] * size)
        return self.mode.from_real(t, (sizes, strides))


# ---------------------------------------------------------------------------------------------------------------------
# other sizes

_SLICES = ("aten.slice.Tensor", "aten.slice_backward.default", "aten.alias.default", "aten.detach.default")
Described = tuple[str, list[tuple[Any, ...]]]


def described(func: Any, result: Any) -> Described:
    """An operator and the layouts of its results."""
    tensors = [t for t in tree_leaves(result) if isinstance(t, torch.Tensor)]
    return str(func), [(tuple(t.shape), tuple(t.stride()), t.dtype) for t in tensors]


class RecordingMode(FakeMode):
    """Our mode with a record of every result."""

    def __init__(self) -> None:
        super().__init__()
        self.record: list[Described] = []
        self.in_python = False  # whether torch's compositions ran in their Python versions

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        result = mode_module.dispatch(self, func, args, kwargs or {})
        self.in_python = self.in_python or torch_compat.python_dispatcher_enabled()
        self.record.append(described(func, result))
        return result


class EagerRecord(TorchDispatchMode):
    """A record of every result in eager mode."""

    def __init__(self) -> None:
        super().__init__()
        self.record: list[Described] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        self.record.append(described(func, result))
        return result


def differences(subject: Subject, sizes: dict[int, int]) -> list[str]:
    """Where a symbolic run, taken at other sizes of the dynamic dimensions, differs from eager at those sizes."""
    mode, env = RecordingMode(), ShapeEnv()
    mode.shape_env = env
    convert = Inputs(mode, env)
    state = {name: mode.from_real(t) for name, t in subject.state.items()}

    def one_pass() -> None:
        mode.record = []  # a pass may be given up and tried again in another way
        subject.run(state, convert)

    mode.run(one_pass)
    values = {symbol: sizes[dim] for dim, symbol in convert.symbols.items()}
    broken = [str(guard.expr) for guard in env.guards if not guard.expr.evaluate(values)]
    if broken:
        return [f"a guard does not hold: {guard}" for guard in broken]

    def resized(t: torch.Tensor) -> torch.Tensor:
        for dim in dynamic_dims(t):
            t = t.index_select(dim, torch.arange(sizes[dim]) % t.shape[dim])
        return t.contiguous()

    inputs = {id(t): resized(t) for t in subject.inputs()}
    eager = EagerRecord()
    with eager, torch_compat.python_dispatcher() if mode.in_python else contextlib.nullcontext():
        subject.run(subject.state, lambda t: inputs[id(t)])
    found = []
    # Indexing in Python leaves out slices that it sees take all.
    ours, theirs = ([entry for entry in record if entry[0] not in _SLICES] for record in (mode.record, eager.record))
    for (name, fake), (eager_name, real) in zip(ours, theirs):
        at_sizes = [(at(shape, values), at(stride, values), dtype) for shape, stride, dtype in fake]
        if (name, at_sizes) != (eager_name, real):
            found.append(f"{name}: {at_sizes}, eager {eager_name}: {real}")
    if len(ours) != len(theirs):
        found.append(f"{len(ours)} operators, eager {len(theirs)}")
    return found


def at(numbers: tuple[Any, ...], values: dict[Any, int]) -> tuple[Any, ...]:
    """Sizes or strides with values for their symbols."""
    return tuple([expr_of(number).evaluate(values) for number in numbers])


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """No garbage collection and no warnings; transformers' models build their masks as they do in a trace."""
    prepare_torchvision()
    from transformers import masking_utils

    before = masking_utils.is_tracing
    masking_utils.is_tracing = lambda *args, **kwargs: True
    gc.collect()
    gc.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        gc.enable()
        masking_utils.is_tracing = before
