"""Random programs: `generate(seed)` writes one, always the same for the same seed.

A program is Python source that defines `make()`, which returns four things, all fresh:

- `fn`: the function under test, a closure over external state that also reads and writes module globals,
- `calls`: a list of `(args, kwargs)` to call it with, in order (some share objects),
- `before(index)`: changes external state ahead of a call, so that what a compiled entry relied on no longer holds,
- `observe()`: the external state as a dict.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass

from .definitions import DEFINITIONS
from .program import Program
from .statements import TENSORS
from .values import BATCH, BOOL, FOUR, INT, MATRIX, STR, THREE, Dice, Type, Variable, tensor
from .writer import Writer

IMPORTS = """\
import collections, contextlib, copy, dataclasses, enum, functools, io, itertools, math, operator, random, re, typing
import firesteel as fs
import torch
import torch.nn.functional as F
TOTAL = 0
"""
VECTOR = tensor((FOUR,))


@dataclass(frozen=True)
class External:
    """State that lives outside the function: how it starts and how it may change between calls."""

    name: str
    type: Type
    start: str
    changes: tuple[str, ...]
    needs: tuple[str, ...] = ()
    writable: bool = False
    # Rebinding a closure variable takes `nonlocal`.
    rebound: bool = False


EXTERNALS = (
    External("history", Type("list", INT), "[3, 1, 2]", ("history.append(8)", "history[0] = 6")),
    External("table", Type("dict", INT), "{'b': 2, 'a': 5}", ("table['a'] += 1", "table['new'] = 0")),
    External("counter", INT, "4", ("counter += 2", "counter = -1"), rebound=True),
    External("label", STR, "'start'", ("label = 'changed'",), rebound=True),
    External("enabled", BOOL, "True", ("enabled = False",), rebound=True),
    External("buffer", VECTOR, "torch.zeros(4)", ("buffer.add_(1.0)",), writable=True),
    External(
        "weight",
        tensor((FOUR, FOUR)),
        "torch.randn(4, 4, requires_grad=True)",
        ("weight.requires_grad_(False)",),
    ),
    External("bank", Type("list", VECTOR), "[torch.ones(4), torch.randn(4)]", ("bank.append(torch.randn(4))",)),
    External(
        "store",
        Type("dict", tensor((THREE, FOUR))),
        "{'a': torch.randn(3, 4), 'b': torch.ones(3, 4)}",
        ("store['a'] = torch.zeros(3, 4)", "store['c'] = store['b']"),
    ),
    External("pending", Type("deque", INT), "collections.deque([2, 9])", ("pending.append(1)",)),
    External("box", Type("obj", name="Box"), "Box(3)", ("box.value = -2", "box.scale = 3"), ("Box",)),
    External("child", Type("obj", name="Child"), "Child(2)", ("child.limit = 9", "Parent.limit = 1"), ("Child",)),
    External("gauge", Type("obj", name="Gauge"), "Gauge(2)", ("gauge.level = 7", "Gauge.level.high = 4"), ("Gauge",)),
    External(
        "registry",
        Type("obj", name="Registry"),
        "Registry(b=2)",
        ("registry['b'] = 0", "registry['z'] = 1"),
        ("Registry",),
    ),
    External(
        "net", Type("obj", name="Net"), "Net(dropout=0.25)", ("net.eval()", "net.calls = 10", "net.extra = 1"), ("Net",)
    ),
)


@dataclass(frozen=True)
class Owner:
    """What kind of callable the program's function is. `head` makes a method of an object called `owner`."""

    head: tuple[str, ...]
    method: str
    first: tuple[str, ...]
    callable: str

    @property
    def owned(self) -> bool:
        return bool(self.head)

    def written(self, signature: str, body: list[str]) -> list[str]:
        """The lines that define `fn`."""
        if not self.owned:
            return [f"def fn({signature}):", *("    " + line for line in body)]
        start = next((i for i, line in enumerate(body) if not line.startswith(("nonlocal ", "global "))), len(body))
        lines = [*body[:start], *self.first, *body[start:]]
        method = [f"    def {self.method}(self, {signature}):", *("        " + line for line in lines)]
        return [*self.head, *method, "owner = Owner()", f"fn = {self.callable}"]


OWNERS = (
    Owner((), "", (), ""),
    Owner(
        (
            "class Owner:",
            "    rate = 2",
            "    def __init__(self):",
            "        self.count = 0",
            "        self.seen = []",
        ),
        "run",
        ("self.count += self.rate", "self.seen.append(n)"),
        "owner.run",
    ),
    Owner(
        ("class Owner:", "    def __init__(self):", "        self.last = None", "        self.count = 0"),
        "__call__",
        ("self.count, self.last = self.count + 1, x",),
        "owner",
    ),
    Owner(
        (
            "class Owner(torch.nn.Module):",
            "    def __init__(self):",
            "        super().__init__()",
            "        self.gain = torch.nn.Parameter(torch.full((4,), 0.5))",
            "        self.register_buffer('count', torch.zeros(()))",
            "        self.inner = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh())",
            "        self.calls = 0",
        ),
        "forward",
        ("self.count += 1", "self.calls += 1", "x = self.inner(x) * self.gain if self.training else x * self.gain"),
        "owner",
    ),
)


def generate(seed: int) -> Program:
    """The program of this seed.

    >>> generate(7) == generate(7)
    True
    """
    dice = Dice(seed)
    writer = Writer(dice, budget=dice.between(8, 22))
    externals = sorted(dice.sample(EXTERNALS, dice.between(2, 6)), key=lambda external: external.name)
    for external in externals:
        for name in external.needs:
            writer.use(name)
        # A closure variable is assignable because `fn` declares the rebound ones nonlocal.
        variable = Variable(external.name, external.type, external.rebound, external.writable, external=True)
        writer.declare(variable)
    parameters, signature = _parameters(dice)
    for parameter in parameters:
        writer.declare(parameter)
    uses_global = dice.chance(0.3)
    if uses_global:
        writer.declare(Variable("TOTAL", INT, external=True))
    for _ in range(2):  # so that no program is without tensors
        writer.statement(TENSORS)
    while writer.budget > 0:
        writer.statement()
    body = [*writer.lines, f"return {writer.result()}"]
    return Program(seed, _assemble(dice, writer.used, externals, signature, uses_global, body, parameters))


def _parameters(dice: Dice) -> tuple[list[Variable], str]:
    """The function's parameters; the first is always `x` of shape (B, 4), which sizes are read from."""
    parameters = [Variable("x", MATRIX, writable=dice.chance(0.5))]
    # `x` itself keeps its shape when assigned, so its first size stays B.
    other = dice.weighted([(3, MATRIX), (2, tensor((BATCH, THREE))), (2, VECTOR), (1, tensor((BATCH,)))])
    parameters.append(Variable("y", other))
    parameters.append(Variable("n", INT))
    signature = "x, y, n"
    if dice.chance(0.3):
        parameters.append(Variable("items", Type("list", INT), assignable=False))
        signature += ", items"
    elif dice.chance(0.3):
        parameters.append(Variable("pool", Type("list", other), assignable=False))
        signature += ", pool"
    if dice.chance(0.2):
        parameters.append(Variable("rest", Type("tuple", INT), assignable=False))
        signature += ", *rest"
    else:
        signature += ", *" if dice.chance(0.5) else ""
    if "*" in signature:
        parameters.append(Variable("flag", BOOL))
        signature += ", flag=False"
    else:
        parameters.append(Variable("flag", BOOL))
        signature += ", flag=True"
    return parameters, signature


def _argument(dice: Dice, parameter: Variable, batch: int) -> str:
    """Source of an argument that fits the parameter."""

    def tensor_of(type: Type) -> str:
        shape = ", ".join(str(dim.batch * batch + dim.const) for dim in type.shape)
        return f"torch.randn({shape})"

    if parameter.type.kind == "tensor":
        text = tensor_of(parameter.type)
        if not parameter.writable and dice.chance(0.2):
            return text[:-1] + ", requires_grad=True)"
        return text
    if parameter.name == "n":
        return str(dice.between(0, 9))
    if parameter.name == "items":
        return str([dice.between(-2, 9) for _ in range(dice.between(2, 4))])
    if parameter.name == "pool":
        assert parameter.type.item is not None
        return "[" + ", ".join(tensor_of(parameter.type.item) for _ in range(2)) + "]"
    return f"{dice.between(0, 9)}, {dice.between(0, 9)}"


def _calls(dice: Dice, parameters: list[Variable]) -> list[str]:
    lines = ["calls = []"]
    batch = dice.between(2, 4)
    vary = dice.chance(0.35)
    for index in range(dice.between(1, 3)):
        if index and dice.chance(0.3):
            lines.append(f"calls.append(calls[{dice.below(index)}])")
            continue
        if index and vary:
            batch = dice.between(2, 5)
        positional = [_argument(dice, parameter, batch) for parameter in parameters if parameter.name != "flag"]
        keywords = dice.choice(["{}", "{}", "{'flag': True}", "{'flag': False}"])
        if index and dice.chance(0.1) and parameters[1].type == MATRIX:
            positional[1] = "calls[0][0][0]" if not vary else positional[1]
        lines.append(f"calls.append((({', '.join(positional)}), {keywords}))")
    return lines


def _assemble(
    dice: Dice,
    used: list[str],
    externals: list[External],
    signature: str,
    uses_global: bool,
    body: list[str],
    parameters: list[Variable],
) -> str:
    lines = ["def make():"]
    inner = [f"{external.name} = {external.start}" for external in externals]
    rebound = [external.name for external in externals if external.rebound]
    declarations = [f"nonlocal {', '.join(rebound)}"] if rebound else []
    if uses_global:
        declarations.append("global TOTAL")
    owner = dice.weighted(list(zip((6.0, 1.0, 1.0, 1.0), OWNERS, strict=True)))
    inner += owner.written(signature, [*declarations, *body])
    inner += _calls(dice, parameters)
    inner.append("def before(index):")
    if rebound:
        inner.append(f"    nonlocal {', '.join(rebound)}")
    inner.append("    pass")
    for index in (1, 2):
        if externals and dice.chance(0.4):
            change = dice.choice(dice.choice(externals).changes)
            inner += [f"    if index == {index}:", f"        {change}"]
    inner.append("def observe():")
    observed = [external.name for external in externals] + (["owner"] if owner.owned else [])
    inner.append("    return {" + ", ".join(f"'{name}': {name}" for name in observed) + "}")
    inner.append("return fn, calls, before, observe")
    lines += ["    " + line for line in inner]
    # Templates put every expression in parentheses; going through the syntax tree leaves the needed ones.
    definitions = "\n".join(DEFINITIONS[name].source for name in used)
    return f"{IMPORTS}{definitions}\n\n{ast.unparse(ast.parse(chr(10).join(lines)))}\n"
