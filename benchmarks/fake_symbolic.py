"""Fake execution with symbolic sizes: microseconds per operator over the forward and backward pass of models.

Every operator that reaches the dispatcher is timed, once, while a model runs on fake tensors: with plain sizes, with
symbols for batch and sequence (or image size), the same again when the environment has seen all of it, and with torch's
own FakeTensorMode and ShapeEnv.

python -m benchmarks.fake_symbolic                  # GPT-2, BERT, Llama, ResNet-18, U-Net
python -m benchmarks.fake_symbolic --slowest 10     # with the operators that take the longest
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import statistics
import time
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from benchmarks.models import build, prepare_torchvision
from firesteel import torch_compat
from firesteel.fake import FakeMode
from firesteel.fake import mode as mode_module
from firesteel.shapes import ShapeEnv
from firesteel.shapes.symnode import expr_of, make_symint

MODELS = ("transformers/gpt2", "transformers/bert", "transformers/llama", "torchvision/resnet18", "local/unet")
OTHER_SIZES = {0: 3, 1: 24, 2: 96, 3: 80}  # by dimension: batch, sequence, height, width
BUDGET = 100.0  # microseconds, the median over GPT-2's operators

Times = list[tuple[str, float]]


class Clock:
    """Times of the outermost operator calls, with their names."""

    def __init__(self) -> None:
        self.times: Times = []
        self._depth = 0

    def run(self, func: Any, call: Callable[[], Any]) -> Any:
        self._depth += 1
        start = time.perf_counter()
        try:
            return call()
        finally:
            took = time.perf_counter() - start
            self._depth -= 1
            if self._depth == 0:
                self.times.append((str(func), took * 1e6))


class TimedMode(FakeMode):
    """Our mode with a clock around every operator."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.clock = clock

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None) -> Any:
        return self.clock.run(func, lambda: mode_module.dispatch(self, func, args, kwargs or {}))


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


def run_ours(subject: Subject, symbolic: bool, passes: int) -> tuple[list[Times], list[str]]:
    """Times of some passes in one environment, and the guards left at the end."""
    clock, env = Clock(), ShapeEnv()
    mode = TimedMode(clock)
    mode.shape_env = env
    convert = Inputs(mode, env) if symbolic else mode.from_real
    state = {name: mode.from_real(t) for name, t in subject.state.items()}
    results = []

    def one_pass() -> None:
        clock.times = []
        subject.run(state, convert)

    for _ in range(passes):
        mode.run(one_pass)
        results.append(clock.times)
    return results, [str(guard.expr) for guard in env.guards]


def run_torch(subject: Subject, symbolic: bool) -> Times:
    """The same with torch's FakeTensorMode."""
    from torch._dispatch.python import enable_python_dispatcher
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import DimDynamic, StatelessSymbolicContext
    from torch.fx.experimental.symbolic_shapes import ShapeEnv as TorchShapeEnv

    clock = Clock()

    class Timed(FakeTensorMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            return clock.run(func, lambda: super(Timed, self).__torch_dispatch__(func, types, args, kwargs))

    mode = Timed(shape_env=TorchShapeEnv() if symbolic else None, static_shapes=not symbolic)

    def convert(t: torch.Tensor) -> Any:
        if not symbolic:
            return mode.from_tensor(t)
        dynamic = dynamic_dims(t)
        kinds = [DimDynamic.DYNAMIC if i in dynamic else DimDynamic.STATIC for i in range(t.ndim)]
        return mode.from_tensor(t, symbolic_context=StatelessSymbolicContext(dynamic_sizes=kinds))

    state = {name: mode.from_tensor(t, static_shapes=True) for name, t in subject.state.items()}
    with mode, enable_python_dispatcher() if symbolic else contextlib.nullcontext():
        subject.run(state, convert)
    return clock.times


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


def line(name: str, times: Times) -> str:
    """One row of the table."""
    values = sorted(took for _, took in times)
    p90 = values[int(0.9 * len(values))]
    numbers = (statistics.median(values), statistics.mean(values), p90, values[-1])
    return f"  {name:32}{len(values):6}" + "".join(f"{number:10.1f}" for number in numbers)


def slowest(times: Times, count: int) -> Iterator[str]:
    """The operators with the largest median."""
    by_name: dict[str, list[float]] = defaultdict(list)
    for name, took in times:
        by_name[name].append(took)
    ranked = sorted(by_name.items(), key=lambda item: -statistics.median(item[1]))[:count]
    for name, took in ranked:
        yield f"      {name:56}{len(took):4}{statistics.median(took):10.1f}{max(took):10.1f}"


def measure(name: str, reference: bool, count: int) -> float:
    """Print the rows of a model; return the median of the first symbolic pass."""
    subject = Subject(name)
    with quiet():
        run_ours(subject, True, 1)  # what is looked up once per process is not what we measure
        plain = run_ours(subject, False, 1)[0][0]
        (first, again), guards = run_ours(subject, True, 2)
        print(f"{name}: {len(guards)} guards {', '.join(guards)}")
        print(line("plain sizes", plain))
        print(line("symbols", first))
        print("\n".join(slowest(first, count)), end="\n" if count else "")
        print(line("symbols, seen before", again))
        if reference:
            for symbolic in (False, True):
                label = "FakeTensorMode, " + ("symbols" if symbolic else "plain sizes")
                try:
                    run_torch(subject, symbolic)
                    # It also answers questions about tensors (their device, their sizes) by way of operators.
                    names = {name for name, _ in first}
                    print(line(label, [entry for entry in run_torch(subject, symbolic) if entry[0] in names]))
                except Exception as error:
                    print(f"  {label:32}fails: {type(error).__name__} {str(error).splitlines()[0][:90]}")
    return statistics.median([took for _, took in first])


def main() -> None:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=MODELS, help="names from benchmarks.models")
    parser.add_argument("--no-torch", action="store_true", help="without torch's FakeTensorMode beside")
    parser.add_argument("--other-sizes", action="store_true", help="compare with eager at other sizes instead")
    parser.add_argument("--slowest", type=int, default=0, help="how many slow operators to name")
    options = parser.parse_args()
    if options.other_sizes:
        with quiet():
            found = [text for name in options.models for text in differences(Subject(name), OTHER_SIZES)]
        raise SystemExit("\n".join(found) or 0)
    print(f"{'':34}{'calls':>6}{'median':>10}{'mean':>10}{'p90':>10}{'max':>10}   us per operator")
    medians = {name: measure(name, not options.no_torch, options.slowest) for name in options.models}
    if "transformers/gpt2" in medians and medians["transformers/gpt2"] > BUDGET:
        raise SystemExit(f"the median over GPT-2's operators is above {BUDGET} us")


if __name__ == "__main__":
    main()
