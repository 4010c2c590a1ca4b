"""Faults that are put into firesteel one by one, to see whether they are found and made small.

A fault changes something in the running process, when `firesteel.repair.checking` is imported; `FAULTS` says for each
in which stage it is, by which operator it shows, and in which program.
"""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "INJECTED_FAULT"
"""The environment variable that names the fault of a process."""


@dataclass(frozen=True)
class Fault:
    """A fault: ``stages`` and ``operators`` are what may be named."""

    name: str
    stages: tuple[str, ...]
    operators: tuple[str, ...]
    program: str
    apply: Callable[[], None]


FAULTS: dict[str, Fault] = {}


def fault(stage: str, operator: str, program: str = "network") -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Register a fault; several stages or operators are parted by bars."""
    def add(apply: Callable[[], None]) -> Callable[[], None]:
        name = apply.__name__
        assert name not in FAULTS, name
        FAULTS[name] = Fault(name, tuple(stage.split("|")), tuple(operator.split("|")), program, apply)
        return apply

    return add


def apply_named() -> None:
    """Apply the fault that the environment names, if it names one."""
    name = os.environ.get(VARIABLE)
    if name:
        load()
        FAULTS[name].apply()


def load() -> None:
    """All faults."""
    from repair import faults_in_capture, faults_in_graphs, faults_in_kernels

    del faults_in_capture, faults_in_graphs, faults_in_kernels


HOOK = '''
"""Applies a fault when the module that checks programs is imported."""
import importlib.abc, importlib.machinery, sys

class Finder(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name != "firesteel.repair.checking":
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        execute = spec.loader.exec_module
        def exec_module(module):
            execute(module)
            sys.path.append({tests!r})
            from repair.faults import apply_named
            apply_named()
        spec.loader.exec_module = exec_module
        return spec

sys.meta_path.insert(0, Finder())
'''


def hooked_environment(name: str, folder: Path) -> dict[str, str]:
    """The environment of processes that have a fault; ``folder`` gets the file that puts it there."""
    (folder / "sitecustomize.py").write_text(HOOK.format(tests=str(Path(__file__).resolve().parent.parent)))
    path = [str(folder), *[part for part in sys.path if part.endswith("src")]]
    return {**os.environ, VARIABLE: name, "PYTHONPATH": os.pathsep.join(path), "OMP_NUM_THREADS": "1"}


PROGRAMS: dict[str, str] = {}


def program(name: str, text: str) -> None:
    """A program in which faults show."""
    PROGRAMS[name] = textwrap.dedent(text).lstrip()


program("network", """
    import torch
    import torch.nn.functional as F

    import firesteel as fs


    class Block(torch.nn.Module):
        def __init__(self, width):
            super().__init__()
            self.norm = torch.nn.LayerNorm(width)
            self.up = torch.nn.Linear(width, 2 * width)
            self.down = torch.nn.Linear(2 * width, width)

        def forward(self, x):
            hidden = F.gelu(self.up(self.norm(x)))
            return x + self.down(hidden)


    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = torch.nn.Embedding(20, 16)
            self.first = Block(16)
            self.second = Block(16)
            self.head = torch.nn.Linear(16, 5)

        def forward(self, tokens):
            x = self.embed(tokens)
            x = self.second(self.first(x)) * 0.5
            gate = torch.sigmoid(x.mean(1, keepdim=True))
            x = torch.tanh(x * gate) + x.relu()
            return F.log_softmax(self.head(x), -1).amax(1)


    torch.manual_seed(0)
    net = Net()
    tokens = torch.randint(0, 20, (4, 7))
    fs.check(net)(tokens)
""")

program("function", """
    import torch

    import firesteel as fs


    def f(x, y, index):
        a = torch.exp(x * 0.5) + torch.rsqrt(y.abs() + 1)
        b = torch.where(a > 1, a.sin(), torch.sqrt(y.abs()))
        c = torch.cat([a, b], 1)
        d = c.t().contiguous().cumsum(0)[index]
        e = torch.nn.functional.pad(d, (1, 2)).clamp(-2, 2)
        m = torch.matmul(e, torch.ones(e.shape[1], 3)) / e.shape[0]
        n = torch.relu(m) - m.std(0, keepdim=True) - 1.7 * e[:, 2:5]
        return n.softmax(1), e.argmax(1), torch.erf(n).prod(1), n.sign() + (n * 3).round()


    torch.manual_seed(0)
    fs.check(f)(torch.randn(4, 6), torch.randn(4, 6), torch.tensor([3, 0, 5, 5]))
""")

program("losses", """
    import torch
    import torch.nn.functional as F

    import firesteel as fs


    class Loss(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = torch.nn.Conv2d(3, 4, 3, padding=1, padding_mode="reflect")
            self.bn = torch.nn.BatchNorm2d(4)
            self.out = torch.nn.Linear(4, 5)

        def forward(self, image, target, label):
            x = F.max_pool2d(F.silu(self.bn(self.conv(image))), 2)
            x = F.hardswish(self.out(x.mean((2, 3))))
            near = F.smooth_l1_loss(x, target)
            far = F.mse_loss(torch.softmax(x, 1), target.sigmoid())
            return near + far + F.cross_entropy(x, label) + F.binary_cross_entropy(x.sigmoid(), target.sigmoid())


    torch.manual_seed(0)
    loss = Loss()
    fs.check(loss)(torch.randn(2, 3, 8, 8), torch.randn(2, 5), torch.tensor([1, 4]))
""")

program("images", """
    import torch
    import torch.nn.functional as F

    import firesteel as fs


    def f(image, labels):
        big = F.interpolate(image, scale_factor=2, mode="bilinear")
        padded = F.pad(big, (1, 1, 2, 2), mode="replicate")
        columns = F.unfold(padded.sigmoid(), 3)
        margin = F.soft_margin_loss(columns.mean(1), labels)
        apart = torch.dist(columns[0], columns[1]) + torch.trace(columns[0])
        return margin + apart, F.avg_pool2d(padded, 2).tanh()


    torch.manual_seed(0)
    fs.check(f)(torch.randn(2, 3, 4, 4), torch.ones(2, 80))
""")

program("python", """
    import functools
    import itertools
    import math

    import torch

    import firesteel as fs

    WEIGHTS = {"low": 0.5, "high": 2.0}


    class Scaler:
        def __init__(self, factor):
            self.factor = factor
            self.seen = []

        def __call__(self, x):
            self.seen.append(len(self.seen))
            return x * self.factor


    def combine(values):
        return functools.reduce(lambda a, b: a - b, values)


    def f(x, scaler, names=("low", "high")):
        parts = []
        for at, name in enumerate(names):
            parts.append(scaler(x) * WEIGHTS[name] + at)
        total = combine(parts)
        for value in itertools.accumulate([1, 2, 3]):
            total = total + value
        if not names:
            total = total * 0
        low, *rest = parts
        options = {**WEIGHTS, "extra": math.floor(2.7)}
        total = total + sum(options.values()) + 7 // 2
        text = f"{len(rest)}:{x.dim()}"
        try:
            total = total / WEIGHTS["missing"]
        except KeyError:
            total = -total
        return total + low.mean(), text, [part.shape[0] for part in parts][::-1]


    torch.manual_seed(0)
    fs.check(f)(torch.randn(3, 4), Scaler(1.5))
""")

program("state", """
    import torch
    import torch.nn.functional as F

    import firesteel as fs

    SCALE = 2.0
    TABLE = {"a": 1.0, "b": 3.0}


    class Config:
        def __init__(self):
            self.power = 2
            self.act = "tanh"
            self.bias = None


    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.lin = torch.nn.Linear(4, 4)
            self.drop = torch.nn.Dropout(0.0)
            self.gain = 1.5
            self.steps = [1, 2]
            self.config = Config()
            self.use_bias = True

        def forward(self, x, k=3, mode="sum"):
            x = self.lin(x) * self.gain * SCALE
            for step in self.steps:
                x = x + step
            x = x ** self.config.power
            x = torch.tanh(x) if self.config.act == "tanh" else torch.relu(x)
            if self.config.bias is not None:
                x = x + self.config.bias
            x = x - 1 if self.use_bias else x
            x = x * 2 if self.training else x
            x = x * TABLE["a"] + k
            return x.sum(-1) if mode == "sum" else x.mean(-1)


    torch.manual_seed(0)
    net = Net()
    fs.check(net)(torch.randn(3, 4), 3, "sum")
""")
