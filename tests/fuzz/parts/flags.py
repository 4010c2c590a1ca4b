"""Programs that branch on flags of tensors (``mask.any()``, ``x.sum() == 0``), which go one way in some calls and the
other in others: behind changes in place of arguments, prints, appends and random numbers, inside of ``try``, of loops
and of functions that are called, with ways that return, raise and write. All of it is eager's, whatever is assumed.
"""

from __future__ import annotations

from ..program import Program
from ..values import Dice
from .late_errors import MEMORY, statement

SAMPLE = 12
# What is asked; ``bad`` is 1 in some of the calls and 0 in the others.
FLAGS = (
    "(bad > 0.5).any()", "not (bad > 0.5).any()", "(c * 0 + bad > 0.5).all()", "(bad > 0.5).any().item()",
    "bad.sum() == 0", "bad != 0", "bool((bad > 0.5).any())", "torch.equal(bad, bad * 0)",
    "torch.isnan(bad / bad).any()", "torch.isfinite(1 / bad).all()", "(bad.expand(3) == 1).any()",
    "torch.logical_or(bad > 0.5, (c > 1e9).any())", "(a > 1e9).any() or (bad > 0.5).any()",
    "(c == c).all() and not bad.bool().any()", "bad.long().item() == 1", "(bad * 5000).long().item() > 900",
    "torch.ones(int(bad.item()) * 300 + 1).shape[0] <= 4096", "(a > 2).any()", "(b.float().sum() > 5).any()",
    "(torch.rand(2) + bad > 1.3).any()", "asked(bad)", "asked(bad + a.sum() * 0)", "(w > 10 - 20 * bad).any()",
    "(r.detach() + 30 * bad > 20).all()", "any([(bad > 0.5).any(), (c > 1e9).any()])", "(c < 2 * bad).sum() > 0",
    "(c < 2 * bad).sum().item() >= 1", "all((t < 1e9).all() for t in (a, b, bad))", "3 in [bad * 3, c.sum()]",
    "torch.count_nonzero(bad) < 1", "torch.allclose(bad, bad * 0)", "(bad > 0.5).numpy().any()",
    "bad.nonzero().shape[0] == 0", "bad.sum() > 0", "bad", "bad.item() > 0.5", "int(bad.item())", "c[0].item() > 1",
    "[0, 3][bad.long()]", "len(range(int(bad.item()) * 2))", "c.tolist()[1] < 5", "f'{bad.item():.0f}' == '1'",
    "{0: 0, 1: 2}[int(bad)]", "k", "k.item() > 2", "[0, 1, 0, 2][k]", "len(range(k.item() - 1))",
    "counted[0] > k.item()",
)  # fmt: skip
RANDOM = ("r = r + torch.rand(2)", "r = F.dropout(r, 0.5)", "names.append(torch.randn(2))",
          "r = r + torch.randn(r.shape, generator=g)", "names.append(torch.randint(2, 9, (3,), generator=g))",
          "b.float().uniform_(-1, 2, generator=g)", "names.append(torch.randperm(4, generator=g)[k % 4])",
          "g.manual_seed(7); r = r * torch.normal(1.0, 2.0, (2,), generator=g)", "c.normal_(generator=g)",
          "h = torch.Generator().manual_seed(3); r = r + torch.rand(2, generator=h)",
          "r = r + torch.multinomial(torch.ones(4), 2, generator=g)",
          "names.append(torch.rand(2, generator=g).mul_(2))", "names.append(torch.multinomial(c.abs() + 1, 1))",
          "r = r + torch.multinomial(torch.ones(3, 2) - bad / 2, 1)[:2, 0]", "r = r + torch.empty(2).exponential_(3)")

CHOSEN = ("r = r * max(a.sum(), c.sum())", "names.append(min([a.amax(), b.sum(), c.amin() * bad]))",
          "names.append(max(k, counted[0]))", "r = r.detach() + max(a[0], a[1])",
          "counted[0] = min(k * 1, counted.sum())", "least = min(a.sum(), b.sum(), bad * 3); least += 1; r = r + least",
          "names.extend([max(bad, bad * 2) is bad])",
          "most = max(c[0] * 2, bad); c.add_(1); r = r * most", "names.append(max(r.sum(), c.sum()))",
          "names.append(max(a.abs().sum(), 0))", "part = c * 2; names.extend([part, max(part[0], c[1])])")
READ = ("torch.tensor({})", "torch.tensor({}) * 1.5", "torch.ones(()) * {}", "torch.full((), {}) / 2",
        "torch.tensor([{}])", "torch.tensor(a.shape[0]) / {}", "-torch.tensor({})", "torch.tensor({}).half()",
        "torch.zeros(1) + {}",
        "torch.tensor({}).bool()", "torch.tensor({}).double()", "bad * {}", "k * {}")
NUMBERS = ("2.7", "-0.5", "0", "3", "True", "float('nan')", "float('inf')", "2**40 + 1", "1e-9", "-7", "0.0", "2.0")
READS = ("int({})", "float({})", "bool({})", "{}.item()", "({}).__int__()", "({}).__float__()", "({}).__bool__()",
         "({}).is_nonzero()", "round(float({}))", "math.floor({})", "math.trunc({})", "({}).tolist()", "complex({})",
         "operator.index({})", "(a + int({})).dtype", "(b * float({}))", "a[:int({}) % 2 + 1]", "int({}) // 2",
         "float({}) // 2", "not {}", "[5, 6, 7][int({}) % 3]", "list(range(int({}) % 4))", "'%d %.2f' % (({},) * 2)",
         "({}) and 3", "3 if {} else 4", "type(int({})), type(float({}))", "divmod(int({}), 2)", "abs({})", "round({})")
WRITES = ("k += 1", "counted[0] += 1", "k.copy_(c[0])", "bad.view(1)[0] = 1 - bad.item()")


def _line(dice: Dice, number: int) -> str:
    if dice.chance(0.06):
        return dice.choice(WRITES)
    if dice.chance(0.12):
        return dice.choice(CHOSEN)
    if dice.chance(0.12):
        tensor = dice.choice(READ).format(dice.choice(NUMBERS))
        return f"names.append(read(lambda: {dice.choice(READS).replace('{}', f'({tensor})')}))"
    return dice.choice(RANDOM) if dice.chance(0.15) else statement(dice, number)


def _way(dice: Dice, indent: str, number: int) -> list[str]:
    """The lines of one way."""
    lines = [f"{indent}{_line(dice, number + at)}" for at in range(dice.between(1, 2))]
    end = dice.weighted(((6, ""), (2, "r = r @ torch.eye(2)"), (1, "mask = None"), (1, "return r * 3"),
                         (1, "raise ValueError(f'way of {bad} and {c}')"), (1, "return b"),
                         (1, "r = r.double().float()")))
    return [*lines, f"{indent}{end}"] if end else lines


def _branch(dice: Dice, number: int) -> list[str]:
    """An ``if``, with what is around it."""
    flag = dice.choice(FLAGS)
    lines = [f"if {flag}:", *_way(dice, "    ", number)]
    if dice.chance(0.6):
        lines += ["else:", *_way(dice, "    ", number + 3)]
    way = dice.weighted(((5, "plain"), (2, "try"), (2, "for"), (1, "break"), (1, "while"), (1, "kept")))
    if way == "try":
        return ["try:", *(f"    {line}" for line in lines), "except ValueError as error:",
                f"    {statement(dice, number + 6)}", *dice.choice(((), ("    names.append(str(error))",)))]
    if way == "for":
        return ["for step in range(2):", *(f"    {line}" for line in lines)]
    if way == "break":
        return ["for step in range(3):", f"    {statement(dice, number)}", f"    if {flag}:", "        break"]
    if way == "while":
        return ["turns = 0", f"while {flag} and turns < 2:", f"    {statement(dice, number)}", "    turns += 1"]
    if way == "kept":
        return [f"flag = {flag}", *(line.replace(f"if {flag}:", "if flag:") for line in lines), statement(dice, number),
                "if flag:", f"    {statement(dice, number + 1)}"]
    return lines


def generate(seed: int) -> Program:
    """The program of this seed."""
    dice = Dice(seed)
    lines = [_line(dice, at) for at in range(dice.between(0, 3))]
    for at in range(dice.weighted(((4, 1), (3, 2), (1, 3)))):
        lines += _branch(dice, 10 * (at + 1))
        lines += [_line(dice, 10 * (at + 1) + 8) for _ in range(dice.below(2))]
    memory = dice.choice(MEMORY)
    leaf = ".requires_grad_()" if dice.chance(0.3) else ""
    number = dice.weighted(((4, "torch.tensor(int(2 * bad)), torch.tensor([2]), []"),
                            (1, "torch.tensor(1), torch.tensor([int(bad)]), []")))
    if dice.chance(0.3):
        number = "*(lambda t: (t[0], t))(torch.tensor([int(2 * bad), 1])), []"
    outcomes = dice.choice(((0, 0, 1, 0, 1, 1, 0), (1, 0, 0, 0, 1), (0, 1, 1, 1, 0), (1, 1, 0, 1, 0, 0, 1), (0, 0, 0)))
    result = dice.choice(("r", "r, a", "b", "mask", "r, c * 1", "r, mask, names",
                          "r, torch.rand(1, generator=g)"))
    source = "\n".join([
        "import math", "import operator", "import torch", "import torch.nn.functional as F", "", "",
        "def read(number):", "    try:", "        return number()", "    except Exception as error:",
        "        return type(error), str(error)", "", "",
        "def asked(t):", "    if (t > 0.5).any():", "        return True", "    return False", "", "",
        "def fn(a, b, c, w, bad, k, counted, names, g):", "    r = w * 2", "    mask = c > 0",
        *(f"    {line}" for line in lines), f"    return {result}", "", "",
        "def call(bad):", "    torch.manual_seed(3)", "    base = torch.arange(6.0)", f"    a, b = {memory}",
        f"    more = ({number}, torch.Generator())",
        f"    return (a, b, torch.ones(2, 2), torch.ones(2){leaf}, torch.tensor(bad), *more), {{}}", "", "",
        "def make():", f"    return fn, [call(float(bad)) for bad in {outcomes}], lambda index: None, lambda: {{}}", "",
    ])  # fmt: skip
    return Program(seed, source)
