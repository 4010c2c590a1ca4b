"""Programs with sparse matrices from outside, in coordinates (some with repeated places) and compressed rows: products
with dense ones, dense forms, parts that are read and written, questions, and what graphs do not know of, with and
without gradients, for matrices with other numbers of entries in each call.
"""

from __future__ import annotations

from ..program import Program
from ..values import Dice

SAMPLE = 8
MATRICES = ("mask(i).to_sparse()", "mask(i).to_sparse_csr()", "mask(0).to_sparse()",
            "torch.sparse_coo_tensor(torch.tensor([[0, 1, 1], [2, 0, 0]]), torch.tensor([1.0, 2.0, i]), (4, 4))",
            "torch.sparse_coo_tensor(torch.empty(2, 0).long(), torch.empty(0), (4, 4))")
LINES = ("r = s @ r", "r = torch.sparse.mm(s, r) + x", "r = s.mm(r.relu())", "r = torch.mm(s, r * 2)",
         "r = s.matmul(r)",
         "r = torch.matmul(s, r[:, :2]) @ x[:2]", "r = r + s.to_dense().sum(0)[:, None]", "r = s.to_dense() @ r",
         "r = r * s.shape[0]", "out.append((s.size(1), s.dtype, s.is_sparse, s.layout, s.dim()))", "r = r.sin() + 1",
         "out.append(isinstance(s, torch.Tensor))", "r = r / (1 + r.abs().max())", "r = s.coalesce() @ r",
         "out.append(s._values() * 2)", "s._values().mul_(1.5)", "out.append(s.crow_indices() + 1)", "r = (s * 2) @ r",
         "r = s.t() @ r", "r = torch.sparse.mm(t, r) if t is not s else r", "r = t @ (s @ r)",
         "out.append(s._indices())", "out.append(s.values() * 2)", "out.append(s.indices() + 1)", "s.values().add_(1)",
         "r = s @ r[:, 0:1] + x", "r = r.T @ s.to_dense()\nr = r.T", "s = s.detach()",
         "out.append((s @ r[:, 0]).sum())",
         "r = s @ r.double().float()", "r.add_(1)", "r = s @ x.detach()", "r = s @ r.t().contiguous().t()",
         "with torch.no_grad():\n    out.append(s @ x)", "r = torch.sparse.addmm(x, s, r)", "r = s @ r.view(4, 3)",
         "out.append(s.is_coalesced() if s.is_sparse else s.dense_dim())")


def generate(seed: int) -> Program:
    """The program of this seed."""
    dice = Dice(seed)
    lines = [line for _ in range(dice.between(2, 6)) for line in dice.choice(LINES).split("\n")]
    leaf = ".requires_grad_()" if dice.chance(0.5) else ""
    second = dice.choice(("s", "mask(2).to_sparse()", "mask(3).to_sparse_csr()"))
    source = "\n".join([
        "import torch", "", "",
        "def mask(i):", "    numbers = torch.arange(16.0).view(4, 4).sin() * (i + 1)",
        "    return numbers * (numbers > 0.2 * i)",
        "", "", "class Held:  # what is compared of calls are dense tensors", "    pass", "", "",
        "def fn(x):", "    s, t, r, out = Held.s, Held.t, x * 1, []", *(f"    {line}" for line in lines),
        "    return r, out", "", "",
        "def before(index):", f"    i = {dice.choice(((0, 1, 2, 0), (1, 1, 2, 1), (2, 0, 0, 3)))}[index]",
        f"    s = Held.s = {dice.choice(MATRICES)}", f"    Held.t = {second}", "", "",
        "def make():", f"    calls = [((torch.linspace(-1, 2, 12).view(4, 3){leaf},), {{}}) for _ in range(4)]",
        "    return fn, calls, before, lambda: [one.to_dense() for one in (Held.s, Held.t)]", "",
    ])  # fmt: skip
    return Program(seed, source)
