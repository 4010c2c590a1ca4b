"""Programs in which an operator refuses values: an index out of range, a singular matrix, too few elements.

The operator raises in some of the calls, behind changes in place of arguments (some in one memory), appends and prints,
inside or outside of ``try``, and its result is used or not. All that happened before it has happened then, once.
"""

from __future__ import annotations

from ..program import Program
from ..values import Dice

SAMPLE = 10
# Expressions that raise when ``bad`` is 1 and work when it is 0. I is ``(bad * 50).long()``, N is ``-bad.long()``.
FAILS = (
    # indices
    "torch.ones(3)[I]", "torch.ones(3)[I[None]]", "torch.ones(3).index_select(0, I[None])",
    "torch.gather(torch.ones(3), 0, I[None])", "torch.take(torch.ones(3), I[None])",
    "torch.zeros(3).scatter(0, I[None], 1.0)",
    "torch.zeros(3).scatter_(0, I[None], 1.0)", "torch.zeros(3).scatter_add(0, I[None], torch.ones(1))",
    "torch.zeros(3).scatter_reduce(0, I[None], torch.ones(1), 'sum')", "torch.zeros(3).put(I[None], torch.ones(1))",
    "torch.ones(3).index_put((I[None],), torch.ones(1))", "torch.zeros(3).index_add(0, I[None], torch.ones(1))",
    "torch.zeros(3).index_copy(0, I[None], torch.ones(1))", "torch.zeros(3).index_fill(0, I[None], 1.0)",
    "torch.zeros(3).index_reduce(0, I[None], torch.ones(1), 'mean')", "F.embedding(I[None], torch.ones(3, 2))",
    "F.embedding_bag(I[None, None], torch.ones(3, 2))", "F.one_hot(N, 3)", "F.one_hot(I, 4)",
    "F.max_unpool1d(torch.ones(1, 1, 2), I.expand(1, 1, 2), 2)",
    "F.max_unpool2d(torch.ones(1, 2, 2), I.expand(1, 2, 2), 2)",
    "torch.searchsorted(torch.arange(3.0), bad[None], sorter=torch.stack([I, I * 0 + 1, I * 0 + 2]))",
    # counts
    "torch.zeros(3).masked_scatter(bad.expand(3) > 0.5, torch.ones(1))", "torch.bincount(N[None])",
    "torch.repeat_interleave(torch.ones(2), N.expand(2) * 2 + 1)", "torch.ones(3)[bad.expand(3) < 0.5].max()",
    "torch.ones(3)[bad.expand(3) < 0.5].argmin()", "torch.ones(3)[bad.expand(3) < 0.5].amax()",
    "torch.ones(2, 3)[bad.expand(2) < 0.5].min(0).values", "torch.ones(3)[bad.expand(3) < 0.5] + torch.ones(3)",
    "(1 - bad).expand(3).nonzero()[0]", "(1 - bad).expand(3).nonzero().squeeze(1).max()",
    # losses
    "F.nll_loss(torch.zeros(1, 3), I[None])", "F.cross_entropy(torch.zeros(1, 3), I[None])",
    "F.cross_entropy(torch.zeros(1, 3, 2), I.expand(1, 2))", "F.binary_cross_entropy(bad[None] + 0.5, torch.ones(1))",
    "F.binary_cross_entropy(torch.tensor([0.5]), torch.tensor([0.5]) - bad, reduction='none')",
    "F.multi_margin_loss(torch.zeros(1, 3), I[None])", "F.multilabel_margin_loss(torch.zeros(1, 3), I.expand(1, 3))",
    # matrices
    "torch.linalg.inv(torch.eye(2) * (1 - bad))", "torch.linalg.solve(torch.eye(2) * (1 - bad), torch.ones(2))",
    "torch.linalg.cholesky(torch.eye(2) * (1 - 2 * bad))", "torch.cholesky(torch.eye(2) * (1 - 2 * bad))",
    "torch.linalg.eigh(torch.eye(3) / (1 - bad))[0]", "torch.linalg.svdvals(torch.eye(3) / (1 - bad))",
    "torch.linalg.eig(torch.eye(3) / (1 - bad))[0].real", "torch.linalg.pinv(torch.eye(2) / (1 - bad))",
    "torch.lu_solve(torch.ones(2, 1), torch.eye(2), (1 + N).expand(2).int())",
    "torch.lu_unpack(torch.eye(2), (1 + N).expand(2).int())[0]",
    # ranges
    "torch.histc(torch.ones(2) / (1 - bad))", "torch.quantile(torch.ones(3), 0.5 + bad)",
    "torch.histogram(bad.expand(2) / (1 - bad), 3).hist", "torch.quantile(torch.ones(3), 0.2 - bad * 0.4)",
    "torch.nanquantile(torch.ones(3), (0.2 - bad * 0.4).expand(2))",
    "torch.cov(torch.eye(3), aweights=torch.ones(3) - 2 * bad)",
    "torch.cov(torch.eye(3), fweights=(1 + 2 * N).expand(3))",
    # integers
    "torch.ones(2, dtype=torch.long) // (1 + N)", "torch.ones(2, dtype=torch.long) % (1 + N)",
    "torch.fmod(torch.ones(2, dtype=torch.long), 1 + N)",
    "torch.div(torch.ones(2, dtype=torch.long), 1 + N, rounding_mode='{trunc|floor}')",
    # numbers from data
    "torch.ones(3)[int(bad.item() * 5)]", "torch.ones(3).narrow(0, int(bad.item() * 5), 1)",
    "torch.ones(4).view(2, int(2 + bad.item()))", "torch.zeros(int(1 - 3 * bad.item()))",
    "torch.ones(1).expand(int(2 + bad.item()))", "torch.ones(2).expand(int(2 + bad.item()))",
    "torch.full((2,), 1 / (1 - bad.item()))", "torch.ones(3).topk(int(2 + 5 * bad.item())).values",
    "torch.full((2,), [1.0, 2.0][int(5 * bad.item())])", "torch.ones(4).split([2, int(2 + bad.item())])[0]",
    # random numbers
    "torch.bernoulli(torch.ones(2) + bad)", "torch.multinomial(torch.ones(3) - 2 * bad, 1)",
    "torch.poisson(1 - 3 * bad.expand(2))", "torch.normal(torch.zeros(2), 1 - 2 * bad.expand(2))",
    "torch.ones(3).uniform_(3 * bad.item(), to=2)", "torch.ones(3).random_(int(3 * bad.item()), 2)",
    "torch.ones(3).exponential_(1 - bad.item())", "torch.ones(3).geometric_(0.5 + bad.item())",
    "torch.ones(3).normal_(0, 1 - 2 * bad.item())", "torch.ones(3).cauchy_(0, 1 - bad.item())",
    "torch.ones(3).log_normal_(0, 1 - bad.item())", "torch.normal(0.0, 1 - 2 * bad.item(), (2,))",
    "torch.randint(int(3 * bad.item()), 2, (3,))", "torch.ones(3).uniform_(**{'from': 3 * bad.item(), 'to': 2})",
    # half-way: the first element is changed by then
    "big.index_add_(0, torch.stack([I * 0, I * 20000]), torch.ones(2))",
    "big.scatter_add_(0, torch.stack([I * 0, I * 20000]), torch.ones(2))",
    "big.index_put_((torch.stack([I * 0, I * 20000]),), torch.ones(2), accumulate=True)",
    "big.put_(torch.stack([I * 0, I * 20000]), big[:2] + 1, accumulate={False|True})",
    "big.index_reduce_(0, torch.stack([I * 0, I * 20000]), big[:2] + 1, 'prod')",
)  # fmt: skip
#: Ways to ask for the truth of a tensor, which has one when it has one element.
TRUTHS = ("assert {c}", "names.append(1 if {c} else 2)", "names.append(1 if {c} or len(names) < 9 else 2)",
          "if not {c}: names.append(3)", "y = {c} or 5", "y = {c} and 5", "while {c}: break", "names.append(not {c})",
          "if {c} and {c}: names.append(4)")
#: How the first two arguments lie in memory.
MEMORY = ("base[:4], base[2:]", "base[:3], base[3:]", "base[::2], base[1::2]", "base, base.detach()",
          "base, base.view(torch.int32)", "base.view(2, 3), base.view(2, 3).t()", "base, base.data", "base, base[:0]",
          "base, torch.ones(6)", "base, torch.ones(6)", "base[1:], torch.ones(3)")
WRITES = ("a.add_(1)", "a.mul_(2)", "b.add_(2)", "b.sub_(1)", "c.mul_(3)", "c += 1", "a[0] = 5.0", "c.zero_()",
          "a.data.add_(1)", "torch._foreach_add_([a, c], 1)", "b.copy_(b + 1)", "torch.add(c, 1, out=c)", "c.t_()",
          "c.unsqueeze_(0)", "b.clamp_(max=2)")


def statement(dice: Dice, number: int) -> str:
    """A change in place, an append, a print, or something computed."""
    return dice.weighted((
        (4, dice.choice(WRITES)),
        (2, f"names.append({number})"),
        (1, f"print('step', {number})"),
        (1, "names.append(a.sum().item())"),
        (1, "r = r * 2 + a.float().sum()"),
        (1, "names.append(a * 1)"),
    ))


def _failing(dice: Dice) -> list[str]:
    """The lines of the operator, with what is done about its error."""
    text = dice.choice(FAILS).replace("{trunc|floor}", dice.choice(("trunc", "floor")))
    text = text.replace("{False|True}", dice.choice(("False", "True")))
    use = dice.weighted(((5, text), (3, f"r = r + ({text}).sum()"), (1, f"names.append({text})"), (1, f"y = {text}")))
    if dice.chance(0.1):
        asked = dice.choice(("torch.ones(1 + int(bad.item()))", "(a > 0)", "(c > bad)"))
        use = dice.choice(TRUTHS).replace("{c}", asked)
    way = dice.weighted(((4, "plain"), (4, "except"), (1, "finally"), (1, "loop"), (1, "raise")))
    if way == "plain":
        return [use]
    if way == "loop":
        return ["for step in range(2):", f"    {statement(dice, 20)}", "    names.append(step)",
                "    if step == 1:", f"        {use}"]
    caught = dice.choice(("Exception", "(RuntimeError, IndexError)", "ArithmeticError", "IndexError"))
    if way == "finally":
        return ["try:", f"    {use}", "finally:", f"    {statement(dice, 21)}", "    names.append('end')"]
    inside = [f"    {statement(dice, 22)}"] if dice.chance(0.5) else []
    handler = [f"    names.append(type(error).__name__); {statement(dice, 23)}"]
    if way == "raise":
        handler.append("    raise KeyError('own') from error")
    return ["try:", *inside, f"    {use}", f"except {caught} as error:", *handler]


def generate(seed: int) -> Program:
    """The program of this seed."""
    dice = Dice(seed)
    lines = [statement(dice, at) for at in range(dice.between(1, 3))]
    for _ in range(dice.weighted(((4, 1), (1, 2)))):
        lines += _failing(dice)
        lines += [statement(dice, at) for at in range(10, 10 + dice.below(3))]
    memory = dice.choice(MEMORY)
    leaf = ".requires_grad_()" if dice.chance(0.2) else ""
    elements = dice.weighted(((3, 4), (1, 1 << 19)))  # as many as are kept for a call that raises, or more
    outcomes = dice.choice(((0, 1, 0), (1, 0), (0, 1, 1), (0, 0, 1), (1, 1)))
    result = dice.choice(("r", "r, a", "b", "None", "r, c * 1"))
    source = "\n".join([
        "import torch", "import torch.nn.functional as F", "", "",
        "def fn(a, b, c, w, big, bad, names):", "    I, N = (bad * 50).long(), -bad.long()", "    r = w * 2",
        *(f"    {line}" for line in lines), f"    return {result}", "", "",
        "def call(bad):", "    base = torch.arange(6.0)", f"    a, b = {memory}",
        f"    big = torch.ones({elements})",
        f"    return (a, b, torch.ones(2, 2), torch.ones(2){leaf}, big, torch.tensor(bad), []), {{}}", "", "",
        "def make():", f"    return fn, [call(float(bad)) for bad in {outcomes}], lambda index: None, lambda: {{}}", "",
    ])  # fmt: skip
    return Program(seed, source)
