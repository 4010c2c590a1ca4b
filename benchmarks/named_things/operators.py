"""Operators without a fake rule."""

import torch
import torch.nn.functional as F
from tests import torchvision_on_cpu
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from .registry import rand, thing

torchvision_on_cpu.prepare()

LSTM = nn.LSTM(6, 3, batch_first=True)


@torch.library.custom_op("named_things::without_rule", mutates_args=())
def without_rule(x: torch.Tensor) -> torch.Tensor:
    return x.clone() * 2


@torch.library.custom_op("named_things::with_rule", mutates_args=())
def with_rule(x: torch.Tensor) -> torch.Tensor:
    return x.clone() * 2


@with_rule.register_fake
def _(x):
    return torch.empty_like(x)


@torch.library.custom_op("named_things::positives", mutates_args=())
def positives(x: torch.Tensor) -> torch.Tensor:
    return x[x > 0]


@positives.register_fake
def _(x):
    return x.new_empty(torch.library.get_ctx().new_dynamic_size())


@torch.library.custom_op("named_things::bounded_positives", mutates_args=())
def bounded_positives(x: torch.Tensor) -> torch.Tensor:
    return x[x > 0]


@bounded_positives.register_fake
def _(x):
    return x.new_empty(torch.library.get_ctx().new_dynamic_size(min=1, max=100))


@torch.library.custom_op("named_things::in_place", mutates_args={"x"})
def in_place(x: torch.Tensor) -> None:
    x.mul_(2)


@torch.library.custom_op("named_things::several", mutates_args=())
def several(x: torch.Tensor, n: int) -> tuple[torch.Tensor, torch.Tensor]:
    return x[:n].clone(), x[n:].clone()


@torch.library.triton_op("named_things::own_triton", mutates_args=())
def own_triton(x: torch.Tensor) -> torch.Tensor:
    return x.sin() * 2


@thing(lambda: (rand(1, 2, 8, 8), torch.tensor([[0.0, 0, 0, 4, 4]])))
def roi_align(x, boxes):
    import torchvision
    return torchvision.ops.roi_align(x, boxes, 2)


@thing()
def a_custom_operator_without_a_rule(x):
    return without_rule(x) + 1


@thing()
def a_custom_operator_with_a_rule(x):
    return with_rule(x) + 1


@thing()
def a_new_dynamic_size(x):
    return positives(x) * 2


@thing()
def a_new_dynamic_size_with_bounds(x):
    y = bounded_positives(x)
    return y * 2, y.shape[0]


@thing()
def a_custom_operator_in_place(x):
    y = x + 1
    in_place(y)
    return y * 2


@thing()
def several_results_of_a_custom_operator(x):
    a, b = several(x, 1)
    return a + 1, b * 2


@thing()
def a_triton_op(x):
    return own_triton(x) + 1


@thing(lambda: (rand(5, 2, 4).log_softmax(-1), torch.tensor([[1, 2], [2, 3]]), torch.tensor([5, 5]), torch.tensor([2, 2])))
def ctc_loss(p, t, n, m):
    return F.ctc_loss(p, t, n, m)


@thing(lambda: (torch.stft(rand(64), 16, return_complex=True, window=torch.ones(16)),))
def istft(x):
    return torch.istft(x, 16, window=torch.ones(16))


@thing(lambda: (rand(64),))
def stft(x):
    return torch.view_as_real(torch.stft(x, 16, return_complex=True, window=torch.hann_window(16)))


@thing()
def histogramdd(x):
    return torch.histogramdd(x[:, :2], bins=[2, 2]).hist, torch.histc(x, 4), torch.histogram(x, 3).hist


@thing()
def fake_quantize(x):
    return torch.fake_quantize_per_tensor_affine(x, 0.1, 0, -128, 127)


@thing()
def fake_quantize_by_channel(x):
    return torch.fake_quantize_per_channel_affine(x, torch.full((4,), 0.1), torch.zeros(4, dtype=torch.int32), 0, -128, 127)


@thing(lambda: (rand(3, 4, 6), torch.tensor([4, 3, 2])))
def packed_and_padded(x, lengths):
    y, _ = LSTM(pack_padded_sequence(x, lengths, batch_first=True))
    return pad_packed_sequence(y, batch_first=True)


@thing()
def copy_of_a_number(x):
    return x.clone().copy_(2), torch.empty(2).fill_(x[0, 0])


@thing()
def set_(x):
    y = torch.empty(0)
    y.set_(x + 1)
    return y * 2


@thing()
def resize_(x):
    y = torch.empty(0)
    y.resize_(3, 2)
    return y.zero_() + 1


@thing(lambda: (rand(5), torch.tensor(2.0)))
def numbers_as_tensors(x, s):
    return torch.arange(s.item() if False else 3), x.index_put((torch.tensor([0, 1]),), torch.ones(2)), x.put(torch.tensor([1]), s)


@thing(lambda: (rand(6, 6),))
def linear_algebra(x):
    return torch.linalg.eigh(x @ x.T)[0], torch.linalg.svdvals(x), torch.linalg.det(x), torch.linalg.solve(x, x)


@thing(lambda: (torch.randint(0, 5, (10,)),))
def counted(x):
    return torch.bincount(x), torch.unique(x, return_counts=True), torch.unique_consecutive(x)


@thing(lambda: (torch.tensor([1.0, 2.0]),))
def drawn(p):
    return torch.multinomial(p, 3, replacement=True), torch.bernoulli(p / 4), torch.poisson(p), torch.normal(p, p)


@thing(lambda: (rand(1, 3, 4, 4),))
def pooled(x):
    return F.fractional_max_pool2d(x, 2, output_size=2), F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2), \
        F.adaptive_avg_pool2d(x, 3)


@thing(lambda: (rand(8),))
def as_strided_and_unfold(x):
    return x.as_strided((3, 2), (2, 1)), x.unfold(0, 3, 2)
