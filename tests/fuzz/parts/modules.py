"""Programs on modules whose parameters, buffers, children, hooks and class change, inside of calls and between them."""

from __future__ import annotations

from ..program import Program
from ..values import Dice

SAMPLE = 20
READS = (
    "out.append(m({t}))", "{n} = m({t})", "{n} = {t} * m.p + m.b",
    "out.append([name for name, _ in m.named_parameters()])",
    "out.append([name for name, _ in m.named_buffers()])", "out.append([name for name, _ in m.named_children()])",
    "out.append(m.p)", "out.append(m.b)", "out.append(m.extra)", "out.append(hasattr(m, '{name}'))",
    "out.append(m.training)",
    "out.append(sorted(m.state_dict()))", "out.append('{name}' in m._buffers)", "out.append(len(list(m.parameters())))",
    "out.append(m.child.bias is m._modules['child']._parameters['bias'])", "out.append(type(m.act).__name__)",
    "out.append(getattr(m, 'note', None))", "out.append(m.get_parameter('p') if hasattr(m, 'p') else None)",
    "out.append(len(m.stack))", "{n} = m.stack[{i}]({t})", "out.append(sum(p.sum() for p in m.parameters()))",
    "for layer in m.stack: {n} = layer({t})", "out.append(dict(m.named_modules()).keys() - {{''}})",
    "out.append(vars(m)['b2'])", "out.append('{name}' in vars(m)['_parameters'])",
    "out.append(list(m.__dict__.get('_buffers')))",
)
WRITES = (
    "m.b = {t} * 2", "m._buffers['b'] = {t} + 1", "m.register_buffer('b', {t} * {k})",
    "m.register_buffer('fresh', {t} + 2)",
    "m.b.add_(1)", "m.b.copy_({t}[0, 0])", "m.act = torch.nn.{act}()", "m.add_module('act', torch.nn.{act}())",
    "m._modules['act'] = torch.nn.{act}()", "m.note = {k}", "m.p = torch.nn.Parameter(torch.full((1,), {k}.0))",
    "m._parameters['p'] = torch.nn.Parameter(torch.full((1,), {k}.0))", "m.register_parameter('p', None)",
    "out.append(functional_call(m, {{'p': {t}[0, :1] * 2}}, ({t},)))",
    "out.append(functional_call(m, {{'b': {t} * 5}}, ({t},)))",
    "out.append(functional_call(m, {{'child.weight': m.child.weight * 2}}, ({t},)))",
    "out.append(functional_call(m, {{'p': {t}[0, :1], 'b': {t}}}, ({t},), strict=False))", "m.eval()", "m.train()",
    "m.child.weight = torch.nn.Parameter(torch.eye(4) * {k})", "del m.b",
    "del m.extra",
    "m.requires_grad_(False)", "m.stack.append(torch.nn.{act}())", "m.stack[{i}] = torch.nn.{act}()",
    "m.stack.pop({i})",
    "m.__dict__['_buffers'] = {{'b': {t} * 2, **m._buffers}}", "m.__class__ = Other", "m.b2 = {k}",
    "m.child = torch.nn.Identity()",
    "m.load_state_dict({{name: value * 2 for name, value in m.state_dict().items()}})", "m.extra = {t} * {k}",
    "handle = m.register_forward_hook(lambda module, args, result: result + {k})",
    "m.act.register_forward_pre_hook(lambda *_: None)",
    "parametrize.register_parametrization(m.child, 'weight', Doubled())", "m.zero_grad()", "m.child.bias = None",
    "torch.nn.init.constant_(m.child.weight, {k}.0)", "m.to(torch.float32)", "m.get_submodule('child').note = {k}",
    "vars(m)['_parameters']['p'] = torch.nn.Parameter(torch.full((1,), {k}.0))",
    "m.__dict__['_buffers']['b'] = {t} + {k}",
    "m.act.forward = lambda t: t * {k}", "m.forward = lambda t: t + {k}", "fs.graph_break()", "m.inner = m.child",
)
ERRORS = "(AttributeError, KeyError, IndexError, TypeError, ValueError, RuntimeError)"
HEAD = """import torch
from torch.func import functional_call
from torch.nn.utils import parametrize

import firesteel as fs


class Doubled(torch.nn.Module):
    def forward(self, weight):
        return weight * 2


class Model(torch.nn.Module):
    b2 = 1

    def __init__(self):
        super().__init__()
        self.p = torch.nn.Parameter(torch.full((1,), 0.5))
        self.register_buffer("b", torch.full((3, 4), 0.25))
        self.register_buffer("quiet", torch.zeros(2), persistent=False)
        self.extra = torch.ones(3, 4)
        self.b2 = 2
        self.act = torch.nn.Tanh()
        self.child = torch.nn.Linear(4, 4)
        self.stack = torch.nn.ModuleList([torch.nn.ReLU(), torch.nn.Tanh()])
        with torch.no_grad():
            self.child.weight.copy_(torch.eye(4) * 0.5)
            self.child.bias.fill_(0.125)

    def forward(self, x):
        y = self.act(self.child(x)) * (1 if self.p is None else self.p) + self.b
        return y if self.training else y * 2


class Other(Model):
    def forward(self, x):
        return super().forward(x) * 100


def make():
    m = Model()

    def fn(x):
        out = []
"""
TAIL = """        return out

    def before(index):
        x, out = torch.ones(3, 4), []
        if index == 1:
            try:
                {change}
            except (AttributeError, KeyError, IndexError, TypeError, ValueError, RuntimeError):
                pass

    def use(fn, args, kwargs):
        out = fn(*args, **kwargs)
        sums = [one.sum() for one in out if isinstance(one, torch.Tensor) and one.requires_grad]
        if sums:
            sum(sums).backward(retain_graph=True)
        names = sorted(name for name, _ in m.named_modules())
        gradients = {{name: p.grad for name, p in sorted(m.named_parameters())}}
        m.zero_grad()
        return out, names, dict(sorted(m.state_dict().items())), gradients, type(m).__name__, m.training

    def rows(first, last):
        return torch.linspace(first, last, 12).view(3, 4)

    return fn, [((rows(-2, 2.5),), {{}}), ((rows(1, -2),), {{}}), ((rows(0, 3),), {{}})], before, lambda: None, use
"""


def generate(seed: int) -> Program:
    """The program of a seed."""
    dice = Dice(seed)
    tensors = ["x"]

    def statement(texts: tuple[str, ...], number: int) -> str:
        return dice.choice(texts).format(
            t=dice.choice(tensors) if number < 90 else "x", n=f"v{number}", k=dice.between(2, 4), i=dice.between(0, 1),
            act=dice.choice(("Tanh", "ReLU", "Sigmoid", "Identity")),
            name=dice.choice(("p", "b", "fresh", "extra", "act")))

    lines = []
    for number in range(dice.between(3, 8)):
        line = statement(READS if dice.chance(0.5) else WRITES, number)
        guarded = dice.chance(0.7)
        lines += ["try:", f"    {line}", f"except {ERRORS} as error:", "    out.append(type(error).__name__)"] \
            if guarded else [line]
        if f"v{number} = " in line and not guarded and not line.startswith("for "):
            tensors.append(f"v{number}")
    lines.append(f"out.append({tensors[-1]})")
    body = "".join(f"        {line}\n" for line in lines)
    change = statement(WRITES[:-3], 90) if dice.chance(0.5) else "pass"
    return Program(seed, HEAD + body + TAIL.format(change=change))
