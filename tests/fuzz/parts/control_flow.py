"""Programs of operators that own graphs (cond, map, scan, associative_scan, while_loop): over any dimension of views of
every kind, with sizes that vary from call to call, with closures, nested, with gradients.

Every value has the rank of the first argument. Whatever the branches take, the result depends on every argument:
whether an argument that a branch does not use has no gradient or one of zeros is the affair of the operator.
"""

from __future__ import annotations

from ..program import Program
from ..values import Dice

SAMPLE = 8

HEADER = """
import torch
import torch.nn.functional as F
import firesteel as fs


def tensor(shape, seed, requires_grad):
    # Gradients of loops grow with every turn, and their roundings with them: in double precision those are not seen.
    numbers = torch.arange(1, 1 + int(torch.tensor(shape).prod()), dtype=DTYPE)
    # No two alike, and no sums of zero: which of two equal numbers is the larger is decided by their roundings.
    made = (numbers * (seed + 0.7)).sin().reshape(shape) + 0.1
    return made.requires_grad_(requires_grad)


def use(fn, args, kwargs):
    results = fn(*args, **kwargs)
    leaves = [arg for arg in args if arg.requires_grad]
    found = torch.autograd.grad(results[0], leaves) if leaves else ()
    return [known(result.detach()) for result in results], [by_rows(gradient) for gradient in found]


def by_rows(tensor):
    return tensor.clone(memory_format=torch.contiguous_format)


def known(tensor):
    # The stride of a dimension of size 1 says nothing, and how a loop comes by it is its own affair; so is the order of
    # strides of what comes out of its backward.
    return by_rows(tensor) if 1 in tensor.shape else tensor
"""


class _Writer:
    """Writes the statements of one function; `values` are names of tensors of rank 3 and their symbolic shapes."""

    def __init__(self, dice: Dice) -> None:
        self.dice = dice
        self.body: list[str] = []
        self.values: dict[str, str] = {"x": "abc", "y": "abc"}
        self.count = 0

    def name(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def view(self, name: str) -> tuple[str, str]:
        """An expression of the same rank that may lie in memory in another way, and its shape."""
        shape = self.values[name]
        order = self.dice.sample(range(3), 3)
        turned = "".join(shape[at] for at in order)
        permuted = f"{name}.permute({', '.join(map(str, order))})"
        return self.dice.choice((
            (name, shape), (name, shape), (permuted, turned), (permuted, turned),
            (f"{name}.transpose(0, 1)", shape[1::-1] + shape[2]),
            (f"{name}.flip({self.dice.below(3)})", shape), (f"F.pad({name}, (1, 2))[..., 1:-2]", shape),
            (f"{name}.unsqueeze(1).expand(-1, 2, -1, -1)[:, 1]", shape), (f"{name} * 1", shape),
            (f"{name}.repeat(1, 1, 2)[..., ::2][..., :{name}.shape[2]]", shape),
        ))

    def expression(self, names: list[str]) -> str:
        """A formula of tensors of one shape."""
        a, b = self.dice.choice(names), self.dice.choice(names)
        return self.dice.choice((
            f"{a} + {b}", f"{a} * {b} * 0.5", f"{a}.sin()", f"{a}.cos() * n", f"{a} - {a}.mean(-1, keepdim=True)",
            f"torch.where({b} > 0, {a}, {b} * 0.1)", f"{a}.relu() + {b}", f"{a} * w", f"{a} + k", f"{a}.softmax(-1)",
            f"{a}.flip(0) + {b}", f"{a}.cumsum(0) * 0.1", f"{a} * ({b}.shape[0] * 0.1)", f"{a}.t().t() * 2 + {b}",
            f"{a}.transpose(0, -1).contiguous().transpose(0, -1) - {b}", f"torch.maximum({a}, {b})",
        ))

    def lines(self, names: list[str], indent: str) -> list[str]:
        made = []
        for _ in range(self.dice.between(1, 3)):
            name = self.name()
            made.append(f"{indent}{name} = {self.expression(names)}")
            names.append(name)
        return made

    def function(self, arguments: list[str], result: str) -> str:
        """A function of tensors of one shape, written into the body; `result` may use {0}, the last value."""
        name = f"f{self.name()}"
        names = list(arguments)
        made = self.lines(names, "        ")
        self.body += [f"    def {name}({', '.join(arguments)}):", *made, f"        return {result.format(names[-1])}"]
        return name

    def map(self) -> None:
        view, shape = self.view(self.dice.choice(list(self.values)))
        body = self.function(["r"], "{0} * 1.0")
        self.give(f"fs.map({body}, {view})", shape)

    def scan(self) -> None:
        name = self.dice.choice(list(self.values))
        view, shape = self.view(name)
        dim, kept = self.dice.below(3), self.name()
        self.body.append(f"    {kept} = {view}")
        init = self.dice.choice((f"{kept}.sum({dim}) * 0.1", f"{kept}.select({dim}, 0) * 0.5",
                                 f"torch.zeros_like({kept}.select({dim}, 0))", f"{kept}.select({dim}, 0)"))
        body = self.function(["c", "r"], "{0} * 0.25 + c * 0.5 + r * 0.5, c * r + {0}")
        last, rows = self.name(), self.name()
        self.body.append(f"    {last}, {rows} = fs.scan({body}, {init}, {kept}, dim={dim}, "
                         f"reverse={self.dice.chance(0.3)})")
        self.values[rows] = shape
        self.give(f"{rows} + {last}.unsqueeze({dim})", shape)

    def associative(self) -> None:
        view, shape = self.view(self.dice.choice(list(self.values)))
        mode = self.dice.choice(("pointwise", "generic"))
        dim, reverse = self.dice.below(3), self.dice.chance(0.3)
        how = f"dim={dim}, reverse={reverse}, combine_mode={mode!r}"
        if self.dice.chance(0.4):
            kept, one, two = self.name(), self.name(), self.name()
            self.body.append(f"    {kept} = {view}")
            self.body.append(f"    {one}, {two} = fs.associative_scan(lambda l, r: (l[0] * r[0], l[1] * r[0] + r[1]), "
                             f"({kept}.sigmoid(), {kept}), {how})")
            self.give(f"{one} * {two}", shape)
        else:
            rule = self.dice.choice(("a + b", "a * b", "torch.maximum(a, b)", "torch.minimum(a, b)"))
            self.give(f"fs.associative_scan(lambda a, b: {rule}, {view}, {how})", shape)

    def cond(self) -> None:
        view, shape = self.view(self.dice.choice(list(self.values)))
        other = self.dice.choice([name for name, its in self.values.items()])
        end = self.dice.choice(("({0} + m * 0.5).contiguous()", "{0} * 1.0 + m * 0.0", "({0} + m).sin()"))
        first, second = self.function(["m"], end), self.function(["m"], end)
        # Not 0: what is less its mean sums up to rounding errors.
        test = self.dice.choice((f"{other}.sum() > {self.dice.choice(('0.03', '0.5', '-1'))}", f"{other}.shape[0] > 2",
                                 f"{other}.max() > 0.5", "flag"))
        self.give(f"fs.cond({test}, {first}, {second}, ({view},))", shape)

    def loop(self) -> None:
        view, shape = self.view(self.dice.choice(list(self.values)))
        body = self.function(["m"], "{0}.tanh() + m * 0.5")
        result = self.name()
        turns = self.dice.between(0, 3)
        test = self.dice.choice((f"i < {turns}", "i < n", f"i + m.mean() * 0 < {turns}"))
        self.body.append(f"    _, {result} = fs.while_loop(lambda i, m: {test}, lambda i, m: (i + 1, {body}(m)), "
                         f"(torch.zeros(()), {view} * 1.0))")
        self.values[result] = shape

    def plain(self) -> None:
        name = self.dice.choice(list(self.values))
        self.give(self.expression([name]), self.values[name])

    def give(self, expression: str, shape: str) -> None:
        name = self.name()
        self.body.append(f"    {name} = {expression}")
        self.values[name] = shape


def generate(seed: int) -> Program:
    """A program of one to three such operators, called with a few sizes."""
    dice = Dice(seed)
    writer = _Writer(dice)
    for _ in range(dice.between(1, 3)):
        getattr(writer, dice.choice(("map", "scan", "scan", "associative", "associative", "cond", "loop", "plain")))()
    names = list(writer.values)
    results = ", ".join(dict.fromkeys((names[-1], dice.choice(names), f"{names[-1]}.sum()")))
    needs = dice.chance(0.7)
    lines = [HEADER, f"\nDTYPE = torch.float{64 if needs else 32}\n\n", "def make():", "    k = 0.5",
             "    def fn(x, y, w, n=2, flag=True):",
             *("    " + line for line in writer.body),
             f"        return {names[-1]}.sum() + (x * 0).sum() + (y * 0).sum() + (w * 0).sum(), {results}",
             "    calls = []"]
    for call in range(dice.between(3, 4)):
        shape = tuple(dice.choice((1, 2, 3, 4, 5, 7)) if call else dice.choice((2, 3, 4, 5)) for _ in range(3))
        if call and dice.chance(0.4):
            given = f"*calls[{call - 1}][0]"
        else:
            given = (f"tensor({shape}, 1, {needs}), tensor({shape}, 2, {needs and dice.chance(0.7)}), "
                     f"tensor((1,), 3, {needs and dice.chance(0.7)})")
        more = dice.choice(("", "", "'n': 3", "'flag': False"))
        lines.append(f"    calls.append((({given},), {{{more}}}))")
    lines += ["    return fn, calls, lambda index: None, dict, use"]
    return Program(seed, "\n".join(lines) + "\n")
