"""Nested tensors of the jagged layout."""

import torch
import torch.nn.functional as F
from torch import nn

from .registry import rand, thing

LAYER = nn.Linear(6, 6)


def jagged(grad=False, lengths=(2, 3, 4), width=6):
    values = rand(sum(lengths), width)
    offsets = torch.tensor([0, *lengths]).cumsum(0)
    return torch.nested.nested_tensor_from_jagged(values, offsets).requires_grad_(grad)


def nested(grad=False):
    return torch.nested.nested_tensor([rand(n, 6, seed=n) for n in (2, 3, 4)], layout=torch.jagged,
                                      requires_grad=grad)


@thing(lambda: (jagged(),), again=lambda: (jagged(lengths=(1, 5, 2)),))
def pointwise(x):
    return x.sin() * 2 + 1


@thing(lambda: (nested(),))
def made_from_a_list_outside(x):
    return x.relu()


@thing(lambda: (jagged(),))
def two_of_one_shape(x):
    return x.sin() + x


@thing(lambda: (jagged(),))
def its_parts(x):
    return x.values() * 2, x.offsets(), x.lengths()


@thing(lambda: (jagged(),))
def linear_layer(x):
    return LAYER(x)


@thing(lambda: (jagged(), rand(6, 3)))
def products_with_a_matrix(x, y):
    return x @ y


@thing(lambda: (jagged(),))
def normalised(x):
    return F.layer_norm(x, (6,))


@thing(lambda: (jagged(),))
def softmax_of_features(x):
    return F.softmax(x, -1)


@thing(lambda: (jagged(),))
def sum_of_features(x):
    return x.sum(-1), x.mean(-1, keepdim=True)


@thing(lambda: (jagged(),))
def sum_of_sequences(x):
    return x.sum(1), x.mean(1)


@thing(lambda: (jagged(),))
def to_padded(x):
    return torch.nested.to_padded_tensor(x, 0.0)


@thing(lambda: (jagged(),))
def unbound(x):
    return [part.sum() for part in x.unbind()]


@thing(lambda: (jagged(),))
def its_shape(x):
    return x.size(0), x.size(2), x.dim(), x.is_nested, x.dtype, x.layout


@thing(lambda: (jagged(True),), train=True)
def gradients(x):
    return (x.sin() * 2).values()


@thing(lambda: (jagged(True),), train=True)
def gradients_as_a_nested_result(x):
    return x.sin() * 2


@thing(lambda: (rand(9, 6, grad=True), torch.tensor([0, 2, 5, 9])), train=True)
def made_inside(values, offsets):
    x = torch.nested.nested_tensor_from_jagged(values, offsets)
    return (x * 2).values()


@thing(lambda: (rand(9, 6), torch.tensor([0, 2, 5, 9])),
       again=lambda: (rand(7, 6), torch.tensor([0, 3, 5, 7])))
def made_inside_and_returned(values, offsets):
    return torch.nested.nested_tensor_from_jagged(values, offsets).cos()


@thing(lambda: (rand(9, 6), torch.tensor([0, 2, 5, 9])))
def made_inside_with_bounds(values, offsets):
    x = torch.nested.nested_tensor_from_jagged(values, offsets, min_seqlen=2, max_seqlen=4)
    return x.to_padded_tensor(0.0)


@thing(lambda: (rand(2, 6), rand(3, 6, seed=1)))
def from_a_list_inside(a, b):
    return torch.nested.as_nested_tensor([a, b], layout=torch.jagged).sin()


@thing(lambda: (rand(2, 6), rand(3, 6, seed=1)))
def a_nested_tensor_inside(a, b):
    return torch.nested.nested_tensor([a, b], layout=torch.jagged).values()


@thing(lambda: (jagged(width=8),))
def attention(x):
    q = x.unflatten(-1, (2, 4)).transpose(1, 2)
    return F.scaled_dot_product_attention(q, q, q).transpose(1, 2)


@thing(lambda: (jagged(width=8, grad=True),), train=True)
def attention_with_gradients(x):
    q = x.unflatten(-1, (2, 4)).transpose(1, 2)
    return F.scaled_dot_product_attention(q, q, q).transpose(1, 2).flatten(-2).values()


@thing(lambda: (jagged(),))
def unsqueezed_and_back(x):
    return x.unsqueeze(-1).squeeze(-1), x.transpose(1, 2).transpose(1, 2)


@thing(lambda: (jagged(),))
def cast(x):
    return x.to(torch.float64), x.half().float()


@thing(lambda: (jagged(),))
def cloned_and_detached(x):
    return x.clone(), x.detach(), torch.zeros_like(x), torch.empty_like(x).is_nested


@thing(lambda: (jagged(),))
def joined(x):
    return torch.cat([x, x.sin()], -1)


@thing(lambda: (jagged(),))
def in_chunks(x):
    a, b = x.chunk(2, -1)
    return a * b


@thing(lambda: (jagged(),))
def dropout_in_eval(x):
    return F.dropout(x, 0.5, training=False)


@thing(lambda: (jagged(), rand(6), rand(3, 1, 6)))
def with_a_dense_tensor(x, y, z):
    return x * y, x + z


@thing(lambda: (jagged(),))
def narrowed(x):
    return x.narrow(2, 0, 3)


@thing(lambda: (jagged(),))
def rows_of_a_batch(x):
    return x[0] * 2, x[1].sum()


@thing(lambda: (jagged(),))
def selected_by_mask(x):
    return torch.where(x > 0, x, x * 0.1)


@thing(lambda: (torch.nested.nested_tensor_from_jagged(torch.tensor([1, 2, 3, 0]), torch.tensor([0, 1, 4])), rand(4, 6)))
def embedded(x, table):
    return F.embedding(x, table)


@thing(lambda: (rand(3, 4, 6), torch.tensor([2, 3, 4])))
def masked_to_jagged(x, lengths):
    return torch.nested.narrow(x, 1, torch.zeros(3, dtype=torch.int64), lengths, layout=torch.jagged).sum(-1).values()


@thing(lambda: (rand(3, 2, 6),))
def copied_from_dense(x):
    return torch.nested.as_nested_tensor(x, layout=torch.jagged).sin()


@thing(lambda: (jagged(), nn.TransformerEncoderLayer(6, 2, 8, batch_first=True, dropout=0.0).norm1))
def a_module_of_norms(x, module):
    return module(x)


@thing(lambda: (torch.nested.nested_tensor([rand(2, 6), rand(3, 6)]),))
def the_strided_layout(x):
    return x * 2


@thing(lambda: (jagged(),), again=lambda: (jagged(lengths=(1, 5, 2)),))
def softmax_of_sequences(x):
    return F.softmax(x, 1)


@thing(lambda: (jagged(),))
def its_sizes_for_another(x):
    return x.reshape(x.size(0), x.size(1), 2, 3).sum(-1), x.expand(*x.shape)


@thing(lambda: (jagged(), jagged(lengths=(1, 5, 2))))
def two_of_other_lengths(x, y):
    return x.sin(), y.cos(), x.sum() + y.sum()


@thing(lambda: (jagged(),))
def changed_in_place(x):
    x.mul_(2)
    return x + 1


@thing(lambda: (jagged(True), LAYER), train=True)
def trained_with_a_module(x, layer):
    return layer(x).relu().sum(1)


@thing(lambda: (rand(9, 6, grad=True), torch.tensor([0, 2, 5, 9]), LAYER), train=True)
def made_inside_and_trained(values, offsets, layer):
    return layer(torch.nested.nested_tensor_from_jagged(values, offsets)).softmax(-1)
