"""Programs with sizes that data decides on: what a mask selects, nonzero, unique, bincount, repeat_interleave, packed
sequences, which meets tensors of fixed sizes, is cut, reshaped, reduced and read, and decides on branches as a flag, in
calls that select none, one, some or all.

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

# Whether anything was selected, and other questions about a size.
QUESTIONS = ("{v}.numel() == 0", "{v}.shape[0] > 0", "len({v}) == 0", "{v}.numel()", "{v}.size(0) < 1",
             "not {v}.shape[0]", "{v}.shape[0] == {k}", "{v}.shape[0] != x.shape[0]", "{v}.shape[0] >= {k}",
             "{v}.shape[0] > 0 and {v}.shape[0] < {k} + 2", "{v}.numel() > 100", "{v}.nelement() != 0",
             "guard_or_false({v}.shape[0] == 0)", "guard_or_true({v}.shape[0] > {i})",
             "guard_size_oblivious({v}.shape[0] == 1)")
STATED = ("torch._check({v}.shape[0] >= {i})", "torch._check({v}.shape[0] <= x.shape[0])",
          "torch._check({v}.shape[0] != 0)", "torch._check({v}.numel() == {k}, lambda: 'so many')",
          "torch._check_is_size({v}.shape[0])", "torch.sym_constrain_range_for_size({v}.shape[0], min=0, max={k} + 2)")
# Lengths, in falling order or not, and what is packed.
LENGTHS = ("(z % 4 + 1).sort(descending=True)[0]", "z % 4 + 1", "m.long() * 3 + 1", "torch.tensor([4, {k}, {k}, 1])",
           "z.sort(descending=True)[0]", "[4, 3, {k}, 1]")
PACKED = ("w.unsqueeze(-1)", "w.view(4, 4, 1) * 2", "torch.stack([w, w + 1], -1)", "w.t().unsqueeze(-1)")
ON_PACKED = ("out.append({p}.data)", "out.append({p}.batch_sizes)", "out.extend(rnn.pad_packed_sequence({p}))",
             "out.extend(rnn.pad_packed_sequence({p}, batch_first=True, padding_value=-1.0))",
             "out.extend(rnn.pad_packed_sequence({p}, batch_first=True, total_length={k} + 2))",
             "out.append(rnn.pad_packed_sequence({p}._replace(data={p}.data * 2))[0].sum(0))",
             "out.append({p}.data.shape[0] + {k})", "out.append(rnn.unpack_sequence({p})[0])",
             "out.append({p}.data.sum())", "out.append({p}.batch_sizes[0].item())",
             "out.append({p}.to(torch.float64).data)")

HEAD = """import torch
import torch.nn.functional as F
from torch.fx.experimental.symbolic_shapes import guard_or_false, guard_or_true, guard_size_oblivious
from torch.nn.utils import rnn


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
        if dice.chance(0.1):
            lines.append(_filled(dice, dice.choice(STATED), name))
        used = [f"out.append({_filled(dice, dice.choice(ON_VECTORS if vector else ON_MATRICES), name)})"
                for _ in range(2)]
        lines.extend(_branch(dice, name, used) if dice.chance(0.35) else used[:1])
    if dice.chance(0.25):
        lines.extend(_packed(dice))
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


def _branch(dice: Dice, name: str, used: list[str]) -> list[str]:
    """A branch on a size, in a loop at times; one way may do nothing, or go on with the next round."""
    head = f"if {_filled(dice, dice.choice(QUESTIONS), name)}:"
    shape = dice.below(4)
    if shape == 0:
        return [head, f"    {used[0]}"]
    if shape == 1:
        return [head, f"    {used[0]}", "else:", f"    {used[1]}"]
    if shape == 2:
        return [f"for bound in range({dice.between(1, 3)}):", f"    {name} = {name}[{name}.shape[0] * 0:]",
                f"    {head}", "        continue", f"    {used[0]}"]
    return [head, f"    return {used[0].removeprefix('out.append')}", used[1]]


def _packed(dice: Dice) -> list[str]:
    """Sequences that are packed, and what becomes of them."""
    flags = f"batch_first={dice.chance(0.6)}, enforce_sorted={dice.chance(0.4)}"
    lengths, padded = (_filled(dice, dice.choice(texts)) for texts in (LENGTHS, PACKED))
    lines = [f"p = rnn.pack_padded_sequence({padded}, {lengths}, {flags})"]
    return [*lines, *(_filled(dice, dice.choice(ON_PACKED)) for _ in range(dice.between(1, 2)))]


def _filled(dice: Dice, text: str, name: str = "") -> str:
    return text.format(v=name, p="p", k=dice.between(1, 3), i=dice.below(3))
