"""How often small programs are compiled, by firesteel and by torch.compile (backend="eager").

    python -m benchmarks.compilation_counts
    python -m benchmarks.compilation_counts --only layers --reasons

A compilation is one captured frame or continuation: an entry of firesteel's, a frame that torch.compile counts as
compiled, which it does for those with operators only. Results are compared with the plain run's.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch._dynamo
import torch.nn.functional as F
from tests.whole_programs.program import Compile
from torch import nn

from benchmarks import report

Calls = list[Callable[[], Any]]
CASES: dict[str, Callable[[Compile], Calls]] = {}


def case(build: Callable[[Compile], Calls]) -> Callable[[Compile], Calls]:
    """Register a program by the name of its builder."""
    CASES[build.__name__] = build
    return build


class Layer(nn.Module):
    """A layer with a break in its middle."""

    def __init__(self, broken: bool = True) -> None:
        super().__init__()
        self.inner, self.broken = nn.Linear(8, 8), broken

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.inner(x)
        if self.broken:
            torch._dynamo.graph_break()
        return F.relu(x)


@case
def layers_with_breaks(compile: Compile) -> Calls:
    """Four equal layers, called in a loop, with a break in each."""
    layers = nn.ModuleList([Layer() for _ in range(4)])

    @compile
    def run(x: torch.Tensor) -> torch.Tensor:
        for layer in layers:
            x = layer(x)
        return x

    return [lambda: run(torch.ones(2, 8))] * 3


@case
def layers_one_by_one(compile: Compile) -> Calls:
    """A compiled function that is called with each of four equal layers."""
    layers = [Layer(False) for _ in range(4)]
    run = compile(lambda layer, x: layer(x) * 2)
    return [lambda layer=layer: run(layer, torch.ones(2, 8)) for layer in layers] * 2


@case
def layers_compiled_each(compile: Compile) -> Calls:
    """Each of four equal layers is compiled for itself, as FSDP's guides do."""
    layers = [compile(Layer(False)) for _ in range(4)]
    return [lambda layer=layer: layer(torch.ones(2, 8)) for layer in layers] * 2


@case
def methods_of_layers(compile: Compile) -> Calls:
    """The forward of a class is compiled, for all its instances."""

    class Small(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Linear(8, 8)

        @compile
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return F.relu(self.inner(x))

    layers = [Small() for _ in range(4)]
    return [lambda layer=layer: layer(torch.ones(2, 8)) for layer in layers] * 2


@case
def two_models(compile: Compile) -> Calls:
    """One training function for two models of one class."""
    models = [nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 1)) for _ in range(2)]

    @compile
    def loss(model: nn.Module, x: torch.Tensor) -> torch.Tensor:
        return model(x).square().mean()

    return [lambda model=model: loss(model, torch.ones(2, 8)) for model in models] * 2


@case
def training_flags(compile: Compile) -> Calls:
    """train() and eval() in turn, of a model without dropout or batch norm."""
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.LayerNorm(8), nn.Linear(8, 1))
    compiled = compile(model)

    def train() -> Any:
        model.train()
        return compiled(torch.ones(2, 8))

    def evaluate() -> Any:
        model.eval()
        return compiled(torch.ones(2, 8))

    return [train, evaluate] * 3


@case
def training_flags_dropout(compile: Compile) -> Calls:
    """The same with dropout, which needs two."""
    model = nn.Sequential(nn.Linear(8, 8), nn.Dropout(0.0), nn.Linear(8, 1))
    compiled = compile(model)

    def call(training: bool) -> Any:
        model.train(training)
        return compiled(torch.ones(2, 8))

    return [lambda: call(True), lambda: call(False)] * 3


@case
def gradients_there_or_not(compile: Compile) -> Calls:
    """Backward inside, with gradients set to None in every other step."""
    model = nn.Linear(8, 1)

    @compile
    def step(x: torch.Tensor) -> torch.Tensor:
        loss = model(x).square().mean()
        loss.backward()
        return loss.detach()

    def call(clear: bool) -> Any:
        if clear:
            model.zero_grad()
        result = step(torch.ones(2, 8))
        return result, [p.grad.clone() for p in model.parameters()]

    return [lambda: call(True), lambda: call(False)] * 3


@case
def whole_step(compile: Compile) -> Calls:
    """A training step with Adam, whose state is empty at first."""
    model = nn.Linear(8, 1)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)

    @compile
    def step(x: torch.Tensor) -> torch.Tensor:
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return [lambda: step(torch.ones(2, 8))] * 6


@case
def list_lengths(compile: Compile) -> Calls:
    """A list that grows from call to call, of which the last item is read."""
    history: list[torch.Tensor] = [torch.ones(4)]

    @compile
    def step(x: torch.Tensor) -> torch.Tensor:
        return x + history[0]

    def call() -> Any:
        result = step(torch.ones(4))
        history.append(result)
        return result

    return [call] * 6


@case
def list_appended(compile: Compile) -> Calls:
    """Results are appended to a list by compiled code."""
    history: list[torch.Tensor] = []

    @compile
    def step(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        history.append(y)
        return y

    return [lambda: step(torch.ones(4))] * 6


@case
def dict_grows(compile: Compile) -> Calls:
    """A dictionary with more and more keys, of which one is read."""
    table: dict[str, Any] = {"scale": torch.ones(4)}

    @compile
    def step(x: torch.Tensor) -> torch.Tensor:
        return x * table["scale"]

    def call() -> Any:
        result = step(torch.ones(4))
        table[f"key{len(table)}"] = result
        return result

    return [call] * 6


@case
def hooks_on_layers(compile: Compile) -> Calls:
    """Forward hooks on each of four layers, in a loop with breaks."""
    layers = nn.ModuleList([Layer() for _ in range(4)])
    seen: dict[str, Any] = {}
    for number, layer in enumerate(layers):
        layer.register_forward_hook(lambda module, args, out, number=number: seen.__setitem__("last", out.detach()))

    @compile
    def run(x: torch.Tensor) -> torch.Tensor:
        for layer in layers:
            x = layer(x)
        return x

    return [lambda: run(torch.ones(2, 8))] * 3


@case
def hooks_of_different_ids(compile: Compile) -> Calls:
    """A hook that is removed and registered again, before each call."""
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
    compiled = compile(model)

    def hook(module: nn.Module, args: Any, out: torch.Tensor) -> torch.Tensor:
        return out * 2

    def call() -> Any:
        handle = model[1].register_forward_hook(hook)
        try:
            return compiled(torch.ones(2, 8))
        finally:
            handle.remove()

    return [call] * 6


@case
def counters(compile: Compile) -> Calls:
    """A number on a module that counts its calls."""

    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner, self.calls = nn.Linear(8, 8), 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            return self.inner(x)

    compiled = compile(Counting())
    return [lambda: compiled(torch.ones(2, 8))] * 6


@case
def layer_numbers(compile: Compile) -> Calls:
    """Layers that know their number, as those of language models do, with breaks."""

    class Numbered(nn.Module):
        def __init__(self, number: int) -> None:
            super().__init__()
            self.inner, self.number = nn.Linear(8, 8), number

        def forward(self, x: torch.Tensor, cache: list[Any]) -> torch.Tensor:
            x = self.inner(x)
            torch._dynamo.graph_break()
            cache[self.number] = x
            return F.relu(x)

    layers = nn.ModuleList([Numbered(number) for number in range(4)])

    @compile
    def run(x: torch.Tensor) -> torch.Tensor:
        cache = [None] * 4
        for layer in layers:
            x = layer(x, cache)
        return x

    return [lambda: run(torch.ones(2, 8))] * 3


@case
def batch_sizes(compile: Compile) -> Calls:
    """Batches of eight different sizes."""
    model = nn.Linear(8, 1)
    compiled = compile(model)
    return [lambda size=size: compiled(torch.ones(size, 8)) for size in (4, 7, 3, 9, 12, 5, 6, 2)]


@case
def modes_of_gradients(compile: Compile) -> Calls:
    """With gradients and without in turn, which needs two."""
    compiled = compile(nn.Linear(8, 1))

    def without() -> Any:
        with torch.no_grad():
            return compiled(torch.ones(2, 8))

    return [lambda: compiled(torch.ones(2, 8)), without] * 3


def count_firesteel(build: Callable[[Compile], Calls], reasons: list[str]) -> tuple[list[Any], list[Any]]:
    """What was compiled, and the results."""
    import firesteel as fs
    from firesteel.events import LISTENERS

    fs.reset()
    compiled: list[Any] = []

    def listen(kind: str, unit: Any, what: Any) -> None:
        if kind == "compiled":
            compiled.append(what)
            reasons.append(f"compiled {unit.name}")
        else:
            reasons.append(f"{kind} {unit.name}: {what}")

    LISTENERS.append(listen)
    try:
        torch.manual_seed(0)
        results = [call() for call in build(fs.compile)]
    finally:
        LISTENERS.remove(listen)
    return compiled, results


def count_torch(name: str) -> int | None:
    """Compilations by torch.compile, in a process that has no other compiler; None where it fails."""
    command = [sys.executable, "-m", "benchmarks.compilation_counts", "--torch", name]
    done = subprocess.run(command, cwd=Path(__file__).resolve().parent.parent, capture_output=True, text=True,
                          check=False)
    return int(done.stdout.splitlines()[-1]) if done.returncode == 0 else None


def count_torch_here(name: str) -> int:
    """The same, in this process."""
    from torch._dynamo.utils import counters as numbers

    torch.manual_seed(0)
    for call in CASES[name](lambda function: torch.compile(function, backend="eager")):
        call()
    return int(numbers["frames"]["ok"])


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="programs whose names contain this")
    parser.add_argument("--torch", help=argparse.SUPPRESS)
    parser.add_argument("--reasons", action="store_true", help="print what was compiled and why")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.torch:
        print(count_torch_here(options.torch))
        return 0
    rows = []
    more = []
    for name, build in CASES.items():
        if options.only not in name:
            continue
        torch.manual_seed(0)
        plain = [call() for call in build(lambda function: function)]
        reasons: list[str] = []
        ours, results = count_firesteel(build, reasons)
        torch.testing.assert_close(results, plain, msg=lambda text, name=name: f"{name}: {text}")
        theirs = count_torch(name)
        graphs = sum(entry.graph is not None and any(node.op.startswith("call") for node in
                                                     entry.graph.module.graph.nodes) for entry in ours)
        rows.append((name, len(plain), len(ours), graphs, theirs))
        if theirs is not None and graphs > theirs:
            more.append(name)
        if options.reasons:
            print(name, *reasons, sep="\n    ")
    report.print_table("compilations", ["program", "calls", "firesteel", "with operators", "torch.compile"], rows)
    print(f"more than torch.compile: {', '.join(more) or 'none'}")
    return 1 if more else 0


if __name__ == "__main__":
    sys.exit(main())
