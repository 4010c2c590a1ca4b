"""Modules against their exported programs: as a module, unflattened, saved and loaded, decomposed, with parts replaced.

The plain run calls the module. The run that is compared exports it with the arguments of its first call and calls what
comes of the program; buffers are compared after each call. Names collide, arguments and results are nested, modules are
shared, called twice or by a longer path, change buffers and read those of others.
"""

from __future__ import annotations

from ..program import Program
from ..values import Dice

HEAD = '''import collections
import dataclasses
import os
import tempfile

import torch
from torch import nn
from torch.utils import _pytree

import firesteel as fs

Pair = collections.namedtuple("Pair", "first second")


@dataclasses.dataclass
class Box:
    left: torch.Tensor
    right: torch.Tensor


if Box not in _pytree.SUPPORTED_NODES:
    _pytree.register_dataclass(Box)

OUTSIDE = torch.linspace(0.5, 2.0, 4)


class Scale(nn.Module):
    """Takes constants and keywords."""

    def forward(self, x, k=2, *, shift=0.5, mode="mul"):
        return x * k + shift if mode == "mul" else x + k - shift


class Count(nn.Module):
    """Changes a buffer."""

    def __init__(self):
        super().__init__()
        self.register_buffer("n", torch.zeros(4))
        self.register_buffer("hidden", torch.ones(()), persistent=False)

    def forward(self, x):
        self.n.add_(1)
        self.hidden.mul_(1.5)
        return x + self.n * self.hidden


class Replace(nn.Module):
    """Gives a buffer another value."""

    def __init__(self):
        super().__init__()
        self.register_buffer("n", torch.zeros(4))

    def forward(self, x):
        self.n = self.n + x.mean()
        return x - self.n


class Choose(nn.Module):
    """Has two ways, one with a parameter."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.linspace(-1.0, 1.0, 4))

    def forward(self, x):
        return fs.cond(x.sum() > 0, lambda x: x * self.w, lambda x: x - 1, (x,))


class Lifted(nn.Module):
    """Uses tensors that are neither parameters nor buffers."""

    def __init__(self):
        super().__init__()
        self.held = torch.linspace(1.0, 4.0, 4)

    def forward(self, x):
        return x * self.held + OUTSIDE


class Nest(nn.Module):
    """Takes and returns containers."""

    def forward(self, pair, rest=None):
        first, second = pair["a"], pair["b"]
        total = first + second if rest is None else first + second * rest[0]
        return {"sum": total, "pair": Pair(first - second, second * 2)}


class Size(nn.Module):
    """Reads a size."""

    def forward(self, x):
        return x + x.shape[0]


class Other(nn.Module):
    """Takes the place of a part: the first tensor comes back changed."""

    def __init__(self):
        super().__init__()
        self.register_buffer("n", torch.full((4,), 3.0))
        self.inner = nn.Linear(4, 4)

    def forward(self, x, *args, **kwargs):
        number = sum(arg for arg in (*args, *kwargs.values()) if isinstance(arg, (int, float)))
        return x * 3 - number + self.n


def linear(seed):
    torch.manual_seed(seed)
    return nn.Linear(4, 4)

'''

KINDS = ("linear", "linear", "Scale", "Count", "Replace", "Choose", "Lifted", "Nest", "Size", "norm", "act", "sequence")
NAMES = ("x", "x_0", "x_1", "p_a_weight", "b_a_n", "c_lifted_tensor_0", "add", "mul", "output", "input", "torch",
         "other", "others", "args", "kwargs", "a_weight", "device", "linear", "p_a_w", "inf")
KEYWORDS = ("class", "lambda", "a-b", "a.b", "a_b", "x.0", "sum", "None", "torch", "k", "x_0_", "list", "0", "é")


class _Writer:
    def __init__(self, dice: Dice) -> None:
        self.dice = dice
        self.classes: list[str] = []
        self.parts: dict[str, dict[str, str]] = {}
        """By the names of blocks: the kinds of submodules that they call, but of those with two names."""

    def part(self, depth: int) -> tuple[str, str]:
        """The kind of a submodule and the expression that makes it."""
        dice = self.dice
        if depth and dice.chance(0.4):
            name = self.block(depth - 1)
            return name, f"{name}()"
        kind = dice.choice(KINDS)
        made = {
            "linear": f"linear({dice.below(5)})",
            "norm": "nn.BatchNorm1d(4)" if dice.chance(0.3) else "nn.LayerNorm(4)",
            "act": dice.choice(("nn.GELU()", "nn.ReLU()", "nn.Identity()", "nn.Dropout(0.0)")),
            "sequence": f"nn.Sequential(linear({dice.below(5)}), nn.Tanh(), Count())",
        }
        return kind, made.get(kind, f"{kind}()")

    def block(self, depth: int) -> str:
        """Write a class with submodules; its name."""
        dice = self.dice
        parts = {name: self.part(depth) for name in "abc"[: dice.between(1, 3)]}
        name = f"Block{len(self.classes)}"
        lines = [f"class {name}(nn.Module):", "    def __init__(self):", "        super().__init__()"]
        for attribute, (_, made) in parts.items():
            lines.append(f"        self.{attribute} = {made}")
        kinds = {attribute: kind for attribute, (kind, _) in parts.items()}
        called = set()
        shared = ""
        if dice.chance(0.25):
            shared = dice.choice(list(kinds))
            lines.append(f"        self.z = self.{shared}")
            kinds["z"] = kinds[shared]
        tensors = [attribute for attribute, kind in kinds.items() if kind in ("Count", "Replace")]
        lines += ["", "    def forward(self, x):"]
        for _ in range(dice.between(1, 4)):
            attribute = dice.choice(list(kinds))
            called.add(attribute)
            lines.append("        " + self.statement(attribute, kinds[attribute]))
            if tensors and dice.chance(0.4):
                lines.append(f"        x = x + self.{dice.choice(tensors)}.n")
        lines.append("        return x")
        self.parts[name] = {part: kinds[part] for part in sorted(called) if part not in (shared, "z")}
        self.classes.append("\n".join(lines))
        return name

    def statement(self, attribute: str, kind: str) -> str:
        """A statement that calls a submodule."""
        dice = self.dice
        if kind == "Scale":
            given = dice.choice(("", ", 3", ", k=-1", ", 2, shift=1.5", ", mode='add'", ", 0.25, mode='add', shift=2"))
            return f"x = self.{attribute}(x{given})"
        if kind == "Nest":
            rest = dice.choice(("", ", None", ", rest=[x, x]", ", (OUTSIDE, 2)"))
            taken = dice.choice(("['sum']", "['pair'].first", "['pair'][1]"))
            return f"x = self.{attribute}({{'a': x, 'b': x + 1}}{rest}){taken}"
        if kind == "sequence" and dice.chance(0.4):
            return dice.choice((f"x = self.{attribute}[0](x)", f"x = self.{attribute}[2](x) + self.{attribute}[2].n"))
        again = f"self.{attribute}(x)"
        return dice.choice((f"x = {again}", f"x = {again} + 1", f"x = self.{attribute}({again})",
                            f"x = x.relu() + {again}", f"x = {again} * x"))

    def root(self) -> str:
        """Write the outermost module; the text of its calls."""
        dice = self.dice
        block = self.block(2)
        kinds = {"a": self.part(1), "body": (block, f"{block}()")}
        lines = ["class Net(nn.Module):", "    def __init__(self):", "        super().__init__()"]
        lines += [f"        self.{name} = {made}" for name, (_, made) in kinds.items()]
        names = dice.sample(NAMES, dice.between(1, 3))
        names.sort(key=lambda name: name != "x")  # the body's own variable
        first, rest = names[0], names[1:]
        free = [keyword for keyword in KEYWORDS if keyword not in names]
        keywords = dice.sample(free, dice.between(1, 3)) if dice.chance(0.3) else []
        stars = ", **keywords" if keywords else ""
        forms = {name: dice.choice(("tensor", "tensor", "list", "dict", "pair", "box", "number")) for name in rest}
        lines += ["", f"    def forward(self, {', '.join(names)}{stars}):", f"        x = {first} * 1"]
        lines += [f"        x = x + {_read(name, forms[name])}" for name in rest]
        if keywords:
            lines.append("        for value in keywords.values():\n            x = x * 0.5 + value")
        order = ["a", "body"] if dice.chance(0.5) else ["body", "a"]
        for attribute in order:
            lines.append("        " + self.statement(attribute, kinds[attribute][0]))
        lines.append(f"        return {dice.choice(RESULTS).format(first=first)}")
        self.classes.append("\n".join(lines))
        return self.calls([first, *rest], forms, keywords, kinds)

    def calls(self, names: list[str], forms: dict[str, str], keywords: list[str],
              kinds: dict[str, tuple[str, str]]) -> str:
        dice = self.dice
        dynamic = dice.choice(("no", "no", "dim", "more"))
        named = dice.chance(0.15)
        texts = []
        for call in range(dice.between(2, 3)):
            rows = 3 + (2 * call if dynamic != "no" else 0)
            tensor = f"torch.linspace(-{call + 1}.0, {dice.between(1, 4)}.0, {rows * 4}).reshape({rows}, 4)"
            args = [tensor, *(_argument(forms[name]) for name in names[1:])]
            given = f"Args{len(args)}({', '.join(args)})" if named else f"({', '.join(args)},)"
            more = ", ".join(f"{key!r}: torch.full((4,), {dice.between(1, 9)}.0)" for key in keywords)
            texts.append(f"({given}, {{{more}}})")
        shapes = {"no": "None", "dim": "shapes_of(args, kwargs)", "more": "examples(args, kwargs)"}[dynamic]
        inside = self.inside("body", kinds["body"][0])
        preserved = [name for name in ("a", "body") if dice.chance(0.5)] + [
            name for name in inside if dice.chance(0.25)]
        # values between two calls that a buffer is given anew go by a way that a replacement does not see
        swappable = [name for name in preserved if (inside.get(name) or kinds[name][0]) in SWAPPABLE
                     and inside.get(name) != "Replace"]
        form = dice.choice(("module", "unflatten", "unflatten", "load", "load unflatten", "decompose", "compile"))
        replaced = dice.choice(swappable) if swappable and "unflatten" in form and dice.chance(0.6) else None
        lines = [f"Args{count} = collections.namedtuple('Args{count}', {[f'arg{i}' for i in range(count)]!r})"
                 for count in range(1, 4)]
        return "\n".join([*lines, "", "", "CALLS = [" + ",\n         ".join(texts) + "]", TAIL.format(
            shapes=shapes, preserved=tuple(preserved), form=form, replaced=replaced or "", strict=dice.chance(0.5),
            training=dice.chance(0.7), names=names)])

    def inside(self, path: str, kind: str) -> dict[str, str]:
        """The submodules of a block, however deep, and their kinds."""
        found = {}
        for name, part in self.parts.get(kind, {}).items():
            found[f"{path}.{name}"] = part
            found.update(self.inside(f"{path}.{name}", part))
        return found


SWAPPABLE = ("linear", "Scale", "Count", "Replace", "Choose", "Lifted", "Size", "norm")
"""Parts that `Other` may take the place of."""

RESULTS = ("x", "x", "(x, x + 1)", "{{'y': x, 'z': [x * 2]}}", "Pair(x, {first} + 0)", "[x, {first}, None, 3]",
           "Box(x, x - 1)", "(x, {first})")


def _read(name: str, form: str) -> str:
    """An expression of an argument's tensors."""
    return {"list": f"{name}[0] + {name}[1]", "dict": f"{name}['u'] + {name}['v']", "box": f"{name}.left",
            "pair": f"{name}.first * {name}.second"}.get(form, name)


def _argument(form: str) -> str:
    one, other = "torch.ones(4)", "torch.linspace(0.0, 1.0, 4)"
    return {"list": f"[{one}, {other}]", "dict": f"{{'v': {one}, 'u': {other}}}", "pair": f"Pair({one}, {other})",
            "box": f"Box({one}, {other})", "number": "2.5"}.get(form, one)


TAIL = '''NAMES = {names!r}


def shapes_of(args, kwargs):
    first = {{0: fs.export.Dim.DYNAMIC}}
    rest = {{name: _pytree.tree_map(lambda leaf: None, value) for name, value in zip(NAMES[1:], args[1:])}}
    shapes = {{NAMES[0]: first, **rest}}
    if kwargs:
        shapes["keywords"] = {{key: None for key in kwargs}}
    return shapes


def examples(args, kwargs):
    more = fs.export.AdditionalInputs()
    for args, kwargs in CALLS[1:]:
        more.add(tuple(args), kwargs)
    return more


def exported(net, args, kwargs):
    program = fs.export.export(net, args, kwargs, dynamic_shapes={shapes}, strict={strict},
                               preserve_module_call_signature={preserved})
    form = {form!r}
    if "load" in form:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "program.fs")
            fs.export.save(program, path)
            program = fs.export.load(path)
    if form == "decompose":
        program = program.run_decompositions()
    made = fs.export.unflatten(program) if "unflatten" in form else program.module()
    return made


def replace(net):
    if {replaced!r}:
        torch.manual_seed(7)
        path, _, name = {replaced!r}.rpartition(".")
        setattr(net.get_submodule(path), name, Other())
    return net


def make():
    state = {{}}
    torch.manual_seed(0)
    net = Net().train({training}).requires_grad_(False)

    def plain(*args, **kwargs):
        return net(*args, **kwargs)

    def use(function, args, kwargs):
        if not state:
            if function is plain:
                state["run"] = replace(net)
            else:
                state["run"] = state["module"] = replace(exported(net, args, kwargs))
                if {form!r} == "compile":
                    state["run"] = fs.compile(state["module"], backend="eager")
        return state["run"](*args, **kwargs)

    def observe():
        module = state.get("module", net)
        return {{name: buffer.clone() for name, buffer in sorted(module.named_buffers(remove_duplicate=False))
                if name.endswith((".n", "running_mean", "hidden")) and "@" not in name}}

    return plain, CALLS, lambda index: None, observe, use
'''


def generate(seed: int) -> Program:
    """A module with submodules, its calls, and what is made of its exported program."""
    writer = _Writer(Dice(seed))
    calls = writer.root()
    return Program(seed, HEAD + "\n\n" + "\n\n\n".join(writer.classes) + "\n\n\n" + calls)
