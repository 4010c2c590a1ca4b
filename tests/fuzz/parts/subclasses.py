"""Programs on tensors of the program's own classes: some are followed in Python, some are wrappers, some meet in one
operation; with modes, hooks, attributes, breaks and gradients."""

from __future__ import annotations

from ..harness import run_program
from ..program import Program
from ..snapshot import TensorFact
from ..values import Dice

SAMPLE = 12
TRIES = 20
GRADIENTS = "result[2]"
"""Where the results of programs have them."""
PYTHON = {  # how a plain tensor becomes one of a class
    "Plain": "{t}.as_subclass(Plain)", "Derived": "{t}.as_subclass(Derived)", "Handled": "{t}.as_subclass(Handled)",
    "Labelled": "label({t}.as_subclass(Labelled))", "Transparent": "{t}.as_subclass(Transparent)",
    "Operators": "{t}.as_subclass(Operators)", "Counting": "{t}.as_subclass(Counting)", "Sized": "Sized({t}, {k})",
    "Negated": "{t}.as_subclass(Negated)",
}
WRAPPERS = {
    "Two": "Two({t}, {t} * 2)", "Rounded": "Rounded({t})", "Scaled": "Scaled({t}, {k}.0)",
    "Nested": "Two(Two({t}, {t} + 1), Two({t} * 3, {t}))", "Masked": "Masked({t}, {t} > 0)",
}
COMMON = (
    "{n} = {a} + {b}", "{n} = {a} * {k}", "{n} = {k} - {a}", "{n} = torch.sin({a})", "{n} = {a}.relu()",
    "{n} = {a}.view(-1).view(3, 4)", "{n} = {a} * {b}", "{n} = {a}.exp().clamp(max=9)", "{n} = torch.tanh({a}) + {b}",
    "{n} = {a}.clone()", "{n} = {a}.t().contiguous().t()", "{n} = -{a}", "{n} = {a} / 2.5",
    "out.append({a})", "out.append(type({a}).__name__)", "out.append(isinstance({a}, torch.Tensor))",
    "out.append({a}.sum())", "out.append({a}.detach() * 2)", "{n} = {a} if {k} > 2 else {b}",
    "out.append((tuple({a}.size()), {a}.dtype))", "{n} = {a}.clone(); {n}.mul_({k}); {n} += 1",
    "with torch.no_grad(): out.append({a} * {k})", "out.append([{a}, {b}])",
    "hook({a}, {k})", "hook({a}, {k})", "fs.graph_break()", "{n} = layer({a})",
)
OF_PYTHON = (
    "{n} = torch.max({a}, {b})", "{n} = torch.where({a} > 0, {a}, {b})", "{n} = torch.cat([{a}, {b}])[1:4]",
    "out.append({a}.max(1))", "out.append(F.softmax({a}, -1))", "{n} = {a}.as_subclass(Plain)",
    "with CosineForSine(): {n} = torch.sin({a})",
    "with Scaling({k}.0) as mode: {n} = torch.relu({a}); out.append(mode.seen)",
    "with torch._C.DisableTorchFunctionSubclass(): {n} = {a} * 2", "out.append(getattr({a}, 'label', None))",
    "{n} = {a} * 1; {n}.extra = {k}; out.append({n})", "out.append(len({a}))", "out.append(torch.mean({a}))",
    "{n} = torch.stack([{a}, {b}]).sum(0)", "for row in {a}: out.append(row * {k})", "out.append({a}[0])",
    "if {a}.sum() > 0: {n} = {a} * 2", "out.append({a}.shape)", "{n} = {a}.as_subclass(torch.Tensor)",
)
OF_WRAPPERS = (
    "out.append(getattr({a}, 'a', None))", "out.append(getattr({a}, 'scale', None))", "{n} = Two({c}.sin(), {c} + {k})",
    "{n} = {c} * {a}", "out.append({a}.sum(0))", "{n} = {a} + {c}",
    "{n} = Two({c}, {c} * {k}); out.append({n}.a * 2); out.append(({n} * 2).b)",
    "{n} = Two({c} * {k}, {c}).exp(); out.append({n}.a.requires_grad)", "{n} = Scaled({c} - 1, {k}.0) * 2",
)

HEAD = """import torch
import torch.nn.functional as F
from tests.capture.subclass_classes import *
from tests.capture.subclass_programs import facts, tensors_in

import firesteel as fs


def make():
    def label(tensor):
        tensor.label = "t"
        return tensor

    def layer(tensor):
        return torch.tanh(tensor) * 0.5

    def fn(x, y, c, log):
        def hook(tensor, factor):
            if tensor.requires_grad:
                tensor.register_hook(lambda gradient: log.append(factor))
                tensor.register_hook(lambda gradient: gradient * factor)

        out = []
"""

TAIL = """        return out

    def use(fn, args, kwargs):
        Counting.calls = 0
        t, u, c = [arg.clone() for arg in args]
        x, y = {x}, {y}
        for tensor in [x, y, c][:{needing}]:
            with torch._C.DisableTorchFunctionSubclass():
                tensor.requires_grad_()
        log = []
        out = fn(x, y, c, log)
        about = [facts(out), facts([x, y, c])]
        sums = [tensor.sum() for tensor in tensors_in(out) if tensor.requires_grad]
        for one in sums:
            one.backward(retain_graph=True)
        return [*about, facts([tensor.grad for tensor in (x, y, c)]), log, Counting.calls]

    def rows(first, last):
        return torch.linspace(first, last, 12).view(3, 4)

    calls = [((rows(-2, 2.5), rows(1, -2), torch.full((3, 4), 0.5)), {{}}),
             ((rows(2, -1), rows(-3, 1), torch.ones(3, 4)), {{}})]
    return fn, calls, lambda index: None, lambda: None, use
"""


def generate(seed: int) -> Program:
    """The program of a seed: the first of several draws in which eager lays no two gradients of leaves into one memory.

    It does so with what ``stack`` or views hand to two leaves. A second backward then adds to both of them at once and
    gives wrong numbers, which compiled code does not follow.
    """
    for attempt in range(TRIES):
        program = Program(seed, _source(Dice(seed + (attempt << 40))))
        facts = [fact for call in run_program(program).calls for fact in call.facts]
        if not any(isinstance(fact, TensorFact) and path.startswith(GRADIENTS) and fact.storage != path
                   and fact.storage.startswith(GRADIENTS) for path, fact in facts):
            break
    return program


def _source(dice: Dice) -> str:
    wrappers = dice.chance(0.5)
    classes = WRAPPERS if wrappers else PYTHON
    first = dice.choice(sorted(classes))
    second = first if dice.chance(0.5) else dice.choice(sorted(classes)) if dice.chance(0.3) else ""
    made = [classes[name].format(t=tensor, k=dice.between(2, 4)) if name else tensor
            for name, tensor in ((first, "t"), (second, "u"))]
    names = ["x", "y"]
    lines = []
    for number in range(dice.between(2, 6)):
        extra = OF_WRAPPERS if wrappers else OF_PYTHON
        text = dice.choice(extra) if dice.chance(0.35) else dice.choice(COMMON)
        new = f"v{number}"
        line = text.format(n=new, a=dice.choice(names), b=dice.choice(names), c="c", k=dice.between(2, 4))
        lines.append(line)
        if f"{new} = " in line:
            if line.startswith("if "):
                lines[-1:] = [f"{new} = x", line]
            names.append(new)
    lines.append(f"out.append({names[-1]})")
    body = "".join(f"        {line}\n" for line in lines)
    return HEAD + body + TAIL.format(x=made[0], y=made[1], needing=dice.choice((0, 0, 1, 2, 3)))
