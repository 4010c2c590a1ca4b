"""Results of operators that eager lays out in its own way, of arguments that do not lie by rows: torch's meta kernels
and decompositions told other strides, which programs read."""

import torch
import torch.nn.functional as F


def fn(x, labels, weight, signal, volume):
    return [
        F.one_hot(labels, 5),
        torch.nonzero_static(x, size=3),
        F.binary_cross_entropy(x, x.contiguous(), reduction="none"),
        torch.view_copy(x, (2, 6)),
        torch.ops.aten.native_dropout_backward(x, x > 0.5, 2.0),
        F.conv1d(signal, weight),
        F.pad(volume, (1, 1, 1, 1, 1, 1), "reflect"),
        [y.is_contiguous() for y in (F.one_hot(labels, 5), torch.nonzero_static(x, size=3), F.conv1d(signal, weight))],
    ]


def make():
    x, labels = torch.rand(3, 4).t(), torch.arange(12).view(3, 4).t() % 5
    weight, signal = torch.rand(3, 3, 2).transpose(1, 2), torch.rand(2, 2, 5)
    volume = torch.rand(3, 3, 5, 5).to(memory_format=torch.channels_last)
    return fn, [((x, labels, weight, signal, volume), {})], lambda index: None, lambda: {}
