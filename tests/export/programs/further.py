"""More programs across the kinds, from what models and libraries do."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from .inputs import Batch, Box, Point
from .operators import ATEN, OPS
from .record import ints, program, rand

KIND = "further"


@program(KIND, rand(3, 4), 2, True, "mean", shapes=lambda D: ({0: D("n")}, D.DYNAMIC, None, None),
         further=[(rand(5, 4), 3, True, "mean")], refuses=[(rand(5, 4), 3, False, "mean")])
def number_beside_constants(self: Any, x: Any, k: Any, keep: Any, how: Any) -> Any:
    return getattr(x, how)(0, keepdim=keep) * k, {"k": k, "keep": keep, "how": how}


@program(KIND, rand(2, 3), 4, shapes=lambda D: (None, D.DYNAMIC), further=[(rand(2, 3), 6)])
class NumberThroughModules(nn.Module):
    """A number goes through calls of modules, as keyword and positional."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.ModuleList([_Repeats(), _Repeats()])

    def forward(self, x: Any, n: Any) -> Any:
        for part in self.inner:
            x = part(x, times=n)
        return x.sum(), n * 2


class _Repeats(nn.Module):
    def forward(self, x: Any, *, times: Any) -> Any:
        return torch.cat([x, x.new_zeros(times, x.shape[1])])


@program(KIND, rand(4), 3, shapes=lambda D: (None, D.DYNAMIC), further=[(rand(4), 5), (rand(4), 2)])
def number_in_cond(self: Any, x: Any, n: Any) -> Any:
    return torch.cond(x.sum() > 0, lambda x: x * n, lambda x: x - n, (x,))


@program(KIND, rand(4), torch.tensor(3), 2, shapes=lambda D: (None, None, D.DYNAMIC),
         further=[(rand(4), torch.tensor(2), 4)])
def number_and_data(self: Any, x: Any, n: Any, k: Any) -> Any:
    m = n.item()
    torch._check(m >= 1)
    return torch.ones(m, k).sum() + x, m * k


@program(KIND, rand(4, 6), 3, shapes=lambda D: ({0: D.DYNAMIC}, D.DYNAMIC), further=[(rand(7, 6), 5)])
class NumberWritesBuffer(nn.Module):
    """A number goes into a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros((), dtype=torch.long))

    def forward(self, x: Any, n: Any) -> Any:
        self.total += n
        self.total.add_(x.shape[0])
        return x * self.total


@program(KIND, (rand(2), (3, [4, rand(2)])), shapes=lambda D: ((None, (D.DYNAMIC, [D.AUTO, None])),),
         further=[((rand(2), (5, [6, rand(2)])),)])
def numbers_deep_inside(self: Any, t: Any) -> Any:
    x, (a, (b, y)) = t
    return x * a + y * b, (a + b, [b])


@program(KIND, rand(2), {"sizes": (3, 4), "x": rand(3)}, shapes=lambda D: (None, {"sizes": (D.DYNAMIC, D.DYNAMIC),
                                                                                   "x": {0: D.AUTO}}),
         further=[(rand(2), {"sizes": (5, 6), "x": rand(4)}), (rand(2), {"x": rand(4), "sizes": (2, 2)})])
def numbers_and_sizes_in_dicts(self: Any, x: Any, d: Any) -> Any:
    h, w = d["sizes"]
    return torch.zeros(h, w) + x.sum(), d["x"] * h, h * w


@program(KIND, Point(rand(3), {"k": 2}), shapes=lambda D: (Point(None, {"k": D.DYNAMIC}),),
         further=[(Point(rand(3), {"k": 7}),)])
def number_in_dict_in_named_tuple(self: Any, p: Any) -> Any:
    return p.x * p.y["k"]


@program(KIND, rand(6), 2, shapes=lambda D: ({0: D.AUTO}, D.AUTO), further=[(rand(8), 4), (rand(9), 3)],
         refuses=[(rand(9), 4)])
def number_divides_size(self: Any, x: Any, n: Any) -> Any:
    torch._check(x.shape[0] % n == 0)
    return x.view(n, -1).sum(1)


@program(KIND, rand(5), rand(5), further=[(rand(5), rand(5, seed=1))], after=lambda api, p: p.run_decompositions())
def results_that_are_inputs(self: Any, x: Any, y: Any) -> Any:
    y.mul_(2)
    return x, y, x + y, [x, {"y": y}]


@program(KIND, rand(2, 5), further=[(rand(2, 5, seed=1),)], after=lambda api, p: p.run_decompositions())
def view_of_input_changed(self: Any, x: Any) -> Any:
    x[0].add_(1)
    x.view(-1)[3:6] = 0
    y = x.t()
    y[1] *= 2
    return y.sum(0)


@program(KIND, rand(2, 5), further=[(rand(2, 5, seed=1),)])
def views_of_views_changed(self: Any, x: Any) -> Any:
    y = x.clone()
    a = y[:, 1:]
    b = a.transpose(0, 1)
    b[0].zero_()
    c = a.chunk(2, dim=1)
    c[1].fill_(3.0)
    return y, a, b


@program(KIND, rand(3), further=[(rand(3, seed=1),), (rand(3),)], after=lambda api, p: p.run_decompositions())
class BuffersOfBuffers(nn.Module):
    """A buffer that is a view of another one's contents; swapped values."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("a", torch.arange(3.0))
        self.register_buffer("b", torch.ones(3))

    def forward(self, x: Any) -> Any:
        self.a, self.b = self.b + x, self.a * 2
        return self.a - self.b


@program(KIND, rand(3), further=[(rand(3, seed=1),), (rand(3),)])
class ConditionalBuffer(nn.Module):
    """A buffer changes by torch.where."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("best", torch.full((3,), -1e9))

    def forward(self, x: Any) -> Any:
        better = x > self.best
        self.best.copy_(torch.where(better, x, self.best))
        return better, self.best.clone()


@program(KIND, rand(2, 3, 4), shapes=lambda D: ({0: D("b"), 1: D("s")},), further=[(rand(3, 5, 4),)],
         after=lambda api, p: p.run_decompositions())
def einsum_decomposed(self: Any, x: Any) -> Any:
    return torch.einsum("bsd,btd->bst", x, x), torch.einsum("bsd->bd", x), torch.tensordot(x, x[0], (
        [2], [1]))


@program(KIND, rand(2, 4, 6), shapes=lambda D: ({0: D("b"), 1: D("t")},), further=[(rand(3, 7, 6),)])
class PreNormBlock(nn.Module):
    """RMS norm, gated layers, residuals, a mask from positions."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(6)
        self.gate, self.up, self.down = (nn.Linear(6, 8, bias=False), nn.Linear(6, 8, bias=False),
                                         nn.Linear(8, 6, bias=False))
        self.attention = nn.MultiheadAttention(6, 2, batch_first=True)

    def forward(self, x: Any) -> Any:
        t = x.size(1)
        mask = torch.ones(t, t, device=x.device).triu(1).bool()
        h = self.norm(x)
        x = x + self.attention(h, h, h, attn_mask=mask, need_weights=False)[0]
        h = self.norm(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


@program(KIND, rand(2, 3, 8, 8), shapes=lambda D: ({0: D("b")},), further=[(rand(3, 3, 8, 8),)],
         after=lambda api, p: p.run_decompositions())
class Residual(nn.Module):
    """A block of a residual network in evaluation mode, decomposed."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 3, 3, padding=1, bias=False), nn.Conv2d(3, 3, 1)
        self.n = nn.BatchNorm2d(3)

    def forward(self, x: Any) -> Any:
        return F.relu(self.n(self.a(x)) + self.b(x), inplace=True)


@program(KIND, rand(2, 3, 8, 8), further=[(rand(2, 3, 8, 8, seed=1),)], train=True, gradients=True)
class ResidualTrained(Residual):
    """The same in training mode, with gradients and running statistics."""


@program(KIND, rand(2, 7, 3), shapes=lambda D: ({0: D("b"), 1: D("t", min=2)},), further=[(rand(3, 5, 3),)])
class LstmOfAnyLength(nn.Module):
    """Batch and length vary; the state is an input of the layer."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = nn.LSTM(3, 4, 2, batch_first=True, bidirectional=True)

    def forward(self, x: Any) -> Any:
        zeros = x.new_zeros(4, x.shape[0], 4)
        y, (h, c) = self.rnn(x, (zeros, zeros))
        return y[:, -1], h.mean(0), c


@program(KIND, rand(2, 3), further=[(rand(2, 3, seed=1),)])
class Parametrised(nn.Module):
    """Orthogonal and spectral norms are computed in every call."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.utils.parametrizations.spectral_norm(nn.Linear(3, 3))

    def forward(self, x: Any) -> Any:
        return self.a(x)


@program(KIND, Batch(rand(2, 3), None, [rand(3), rand(3)]), shapes=lambda D: None,
         further=[(Batch(rand(2, 3, seed=1), None, [rand(3), rand(3)]),)])
def dataclass_with_lists(self: Any, batch: Any) -> Any:
    return Batch(batch.x + sum(batch.extra), batch.mask, batch.extra[::-1])


@program(KIND, rand(3), further=[(rand(3, seed=1),)])
def registered_class_as_result(self: Any, x: Any) -> Any:
    return Box(x + 1, "inches"), [Box(x, "feet")]


@program(KIND, ints(3, 4), ints(3, 4, high=2).bool(), shapes=lambda D: (lambda b: ({0: b}, {0: b}))(D("b")),
         further=[(ints(5, 4), ints(5, 4, high=2).bool())])
class MaskedMean(nn.Module):
    """Embeddings, masks, means: a sentence encoder."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(10, 4, padding_idx=0)

    def forward(self, ids: Any, mask: Any) -> Any:
        x = self.embed(ids).masked_fill(~mask[..., None], 0.0)
        return F.normalize(x.sum(1) / mask.sum(1, keepdim=True).clamp(min=1), dim=-1)


@program(KIND, rand(4, 3), further=[(rand(4, 3, seed=1),)], after=lambda api, p: p.run_decompositions(
    {ATEN.add.Tensor: lambda a, b, alpha=1: ATEN.sub.Tensor(a, -b if alpha == 1 else -b * alpha)}))
def own_decomposition_of_add(self: Any, x: Any) -> Any:
    return x + x * 2


@program(KIND, rand(4, 3), rand(3), further=[(rand(4, 3, seed=1), rand(3))],
         after=lambda api, p: p.run_decompositions())
class MutatingOperatorInLoop(nn.Module):
    """A custom operator that writes, called several times, on a buffer, a view and an input."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(2, 3))

    def forward(self, x: Any, y: Any) -> Any:
        for row in x:
            OPS.add_into(row, self.total[0])
            OPS.add_into(self.total[0], y)
        return self.total.sum() + y


@program(KIND, rand(4), further=[(rand(4, seed=1),)], after=lambda api, p: p.run_decompositions(
    {OPS.scale.default: lambda x, factor: x * factor, OPS.composed.default: lambda x, a=2.0: x.sin() * a + x.cos()}))
def two_custom_operators_in_table(self: Any, x: Any) -> Any:
    return OPS.scale(OPS.composed(x, 3.0), 2.0)


@program(KIND, rand(4, 3), further=[(rand(4, 3, seed=1),)], exporter="draft_export", saves=False,
         shapes=lambda D: ({0: D("n")},))
def draft_of_a_constant_size(self: Any, x: Any) -> Any:
    return x + torch.ones(4, 1)


@program(KIND, rand(4, 3), further=[(rand(2, 3),)], exporter="draft_export", saves=False,
         shapes=lambda D: ({0: D("n")},), after=lambda api, p: p.run_decompositions())
def draft_that_is_decomposed(self: Any, x: Any) -> Any:
    return F.gelu(x).sum(0)


@program(KIND, rand(3), kwargs={"options": {"a": rand(3), "b": None, "c": [rand(3)]}},
         further=[((rand(3),), {"options": {"c": [rand(3, seed=1)], "b": None, "a": rand(3)}})])
def optional_members(self: Any, x: Any, options: Any = None) -> Any:
    total = x
    for name in sorted(options):
        value = options[name]
        if isinstance(value, list):
            total = total + sum(value)
        elif value is not None:
            total = total * value
    return total


@program(KIND, rand(3), rand(3), kwargs={"scale": 2.0}, further=[((rand(3), rand(3)), {"scale": 2.0})])
def positional_and_keyword_only(self: Any, x: Any, /, y: Any, *, scale: Any = 1.0, bias: Any = None) -> Any:
    return x * scale + y if bias is None else bias


@program(KIND, rand(2, 3), further=[(rand(2, 3, seed=1),)])
def autocast_and_no_grad_nested(self: Any, x: Any) -> Any:
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ x.T
        with torch.autocast("cpu", enabled=False), torch.enable_grad():
            z = x @ x.T
    return y, z, (x @ x.T).dtype is torch.float32


@program(KIND, rand(2, 3), further=[(rand(2, 3, seed=1),)])
def dtype_conversions(self: Any, x: Any) -> Any:
    return (x.half() + 1, x.to(torch.int32), x.type(torch.float64), x.bool(), x.to("cpu"), x.type_as(x.double()),
            torch.promote_types(torch.int8, torch.float16) == torch.float16, torch.finfo(x.dtype).max)


@program(KIND, rand(2, 200), further=[(rand(2, 200, seed=1),)])
def signal_of_a_spectrum(self: Any, x: Any) -> Any:
    window = torch.ones(32)
    return torch.istft(torch.stft(x, 32, 8, window=window, return_complex=True), 32, 8, window=window)


@program(KIND, rand(6, 2, 5), torch.tensor([[1, 2, 1], [3, 1, 2]]), torch.tensor([6, 5]), torch.tensor([3, 2]),
         further=[(rand(6, 2, 5, seed=1), torch.tensor([[2, 2, 1], [3, 4, 2]]), torch.tensor([6, 6]),
                   torch.tensor([1, 3]))])
def loss_over_sequences(self: Any, x: Any, targets: Any, steps: Any, lengths: Any) -> Any:
    return torch.nn.functional.ctc_loss(x.log_softmax(-1), targets, steps, lengths), torch.cov(x[:, 0])


@program(KIND, rand(3, 4), further=[(rand(3, 4, seed=1),)])
def histogram_of_rows(self: Any, x: Any) -> Any:
    return torch.histogram(x, 5, range=(-3.0, 3.0)).hist, torch.linalg.lstsq(x.T, x.T).solution
