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
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

import torch
from tests.fake.symbolic_models import OTHER_SIZES, Inputs, Subject, differences, dynamic_dims, quiet

from firesteel.fake import FakeMode
from firesteel.fake import mode as mode_module
from firesteel.shapes import ShapeEnv

MODELS = ("transformers/gpt2", "transformers/bert", "transformers/llama", "torchvision/resnet18", "local/unet")
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
    parser.add_argument("models", nargs="*", default=MODELS, help="names from tests.models.zoo")
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
