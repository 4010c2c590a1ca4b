"""Programs with sizes that data decides on: what a mask selects, nonzero, unique, bincount, repeat_interleave, which
meets tensors of fixed sizes, is cut, reshaped, reduced and read, in calls that select none, one, some or all.

Strides that step nowhere, of dimensions of size 1 and of tensors without elements, are not compared where graphs are
compiled: eager's depend on whether a size is 0 or 1, and a graph is made for all sizes."""

from __future__ import annotations

from ..program import Program
from ..values import Dice

SAMPLE = 10
VECTORS = ("x[m]", "torch.masked_select(x, m)", "torch.nonzero(m)[:, 0].float()", "torch.where(m)[0] * 1.5",
           "torch.unique(z).float()", "torch.bincount(z).float()", "torch.repeat_interleave(x, z)", "w[m].sum(1)",
           "x[torch.nonzero(x > 2)[:, 0]]", "m.nonzero().squeeze(1).float()", "x[m & (x > 1)]", "x[~m] * 2",
           "torch.unique_consecutive(z).double()", "torch.cat([x[m], y])", "x[m].clone()", "w[m][:, 0]",
           "x[z[m]]", "x[:z[0].item()]", "torch.arange(z.sum().item()).float()", "m.float().nonzero().reshape(-1) / 2")
MATRICES = ("w[m]", "torch.nonzero(w > {k})", "w[:, m]", "w[m].t()", "torch.argwhere(w[m] > {k})", "x[m].unsqueeze(1)",
            "x[m].unsqueeze(0)", "w[m] * w[m].sum(1, keepdim=True)", "w[m][:, m]", "torch.stack([x[m], x[m] + {k}])",
            "x[m].reshape(-1, 1).expand(-1, 2)")
ON_VECTORS = ("{v} + y", "y * {v}", "{v} + x", "{v}[{i}:] + y", "{v}[:{k}] - y", "{v}.view({k}, -1)",
              "{v}.reshape(-1, {k})", "{v}.unflatten(0, (-1, {k}))", "{v}.sum()", "{v}.mean()", "{v}.max()",
              "{v}.amin(0)", "{v}.softmax(0)", "{v}.cumsum(0)", "{v}.sort()[0]", "{v}.topk({k})[0]", "{v}[{i}]",
              "{v}[-1]", "{v}.item()", "float({v})", "bool({v})", "{v}.numel() * 2", "{v}.shape[0] + {k}",
              "{v} @ y.to({v})", "torch.dot({v}, y.to({v}))", "torch.stack([{v}, y.to({v})])", "torch.cat([{v}, y])",
              "{v}.flip(0)", "{v}.roll({i})", "{v}.chunk({k})[0]", "{v}.split({k})[-1]", "{v}.expand({k}, -1) + 1",
              "{v}.repeat({k})", "{v}.view(1)", "{v}.squeeze() * 2", "{v}.std()", "{v}.argmax()", "{v}.unfold(0, 2, 1)",
              "{v}[:, None] * y", "{v}[:, None] + {v}", "F.pad({v}, (1, {i})) * 2", "{v}.clamp(max=2).relu()",
              "torch.where({v} > 1, {v}, {v} * 2)", "{v}.new_zeros({v}.shape) + 1", "torch.zeros({v}.shape[0] * 2 - 1)",
              "{v}[{v} > 1]", "F.layer_norm({v}, ({k},))", "{v}.add_(1)", "torch.outer({v}, y.to({v}))",
              "torch.diff({v})", "{v}.unsqueeze_(0)", "{v}.unsqueeze_(-1) + w", "{v}.narrow(0, {i}, 1) * 3",
              "{v}.prod() + y",
              "torch.zeros(4).index_fill(0, z[m], 2.0)",
              "torch.zeros(4).scatter_add(0, z[m], x[m])", "torch.zeros(4).index_add(0, z[m], {v})",
              "torch.zeros(4).index_copy(0, z[:{k}], {v})", "x.masked_scatter(m, {v})", "x.index_put((m,), {v})")
ON_MATRICES = ("{v} + w", "{v} * y", "{v}.sum(0)", "{v}.sum(1)", "{v}.t() @ {v}", "{v} @ w", "{v}.mean(0) + y",
               "{v}.softmax(-1)", "{v}.reshape(-1) + 1", "{v}.view(-1, {k})", "{v}[0]", "{v}[:, {i}]", "{v}.amax(1)",
               "{v}.transpose(0, 1) * 2", "{v}.permute(1, 0) + y", "F.linear({v}.float(), w)", "{v}[{i}:, 1:] * 2",
               "{v}.flatten()[:{k}]", "{v}.cumsum(1)", "{v}.unsqueeze(0) * w", "{v}.expand(2, -1, -1) + 1",
               "F.layer_norm({v}.float(), (4,))", "torch.cat([{v}, w.to({v})])", "{v}.max(0)[1]", "{v}.sum()",
               "torch.bmm({v}.float()[None], w[None])", "{v}.numel()", "{v}.std(0)", "{v}.argmin(1)",
               "{v}.t_() * 2", "{v}.transpose_(0, 1) + y", "{v}.squeeze_()", "{v}.unsqueeze_(1) * w",
               "{v}.t_().t_() + w")

HEAD = """import torch
import torch.nn.functional as F


def fn(x, y, m, z, w):
    out = []
"""


def generate(seed: int) -> Program:
    """The program of a seed."""
    dice = Dice(seed)
    lines = []
    names: list[tuple[str, bool]] = []
    for number in range(dice.between(1, 2)):
        vector = dice.chance(0.7)
        text = _filled(dice, dice.choice(VECTORS if vector else MATRICES))
        lines.append(f"v{number} = {text}")
        names.append((f"v{number}", vector))
    for _ in range(dice.between(1, 3)):
        name, vector = dice.choice(names)
        lines.append(f"out.append({_filled(dice, dice.choice(ON_VECTORS if vector else ON_MATRICES), name)})")
    if dice.chance(0.2):
        lines.append(f"out.append({names[-1][0]})")
    grad = dice.chance(0.3)
    calls = []
    masks = dice.sample(((1, 0, 1, 0), (1, 0, 0, 0), (1, 1, 1, 0), (0, 0, 0, 0), (1, 1, 1, 1), (0, 1, 1, 0)), 4)
    for mask in masks:
        numbers = [dice.below(4) for _ in range(4)]
        length = dice.choice((1, 2, 2, 4))
        x = "torch.arange(1.0, 5.0)" + (".requires_grad_()" if grad else "")
        calls.append(f"        (({x}, torch.ones({length}) * 3, torch.tensor({list(mask)}).bool(), "
                     f"torch.tensor({numbers}), torch.arange(16.0).reshape(4, 4) / 4), {{}}),\n")
    return Program(seed, HEAD + "".join(f"    {line}\n" for line in lines) + "    return out\n\n\ndef make():\n"
                   "    calls = [\n" + "".join(calls) + "    ]\n    return fn, calls, lambda index: None, lambda: {}\n")


def _filled(dice: Dice, text: str, name: str = "") -> str:
    return text.format(v=name, k=dice.between(1, 3), i=dice.below(3))
