"""What forward functions of models and training steps call besides layers: state, copies, packed sequences, hints."""

import collections
import copy
import random

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.utils.rnn import pack_padded_sequence, pack_sequence, pad_packed_sequence, pad_sequence
from tqdm import tqdm, trange

from . import given

torch.manual_seed(0)
_LAYER = nn.Linear(3, 3)
_OTHER = nn.Linear(3, 3)
_LSTM = nn.LSTM(3, 2, batch_first=True)


class _Names(list):
    pass


class _Marks(set):
    pass


class _Recent(collections.deque):
    pass


def state_by_name(x):
    state = _LAYER.state_dict()
    return nn.functional.linear(x, state["weight"], state["bias"]).detach(), list(state)


def state_with_prefix(x):
    return {name: value.shape for name, value in nn.Sequential(nn.Linear(3, 3)).state_dict(prefix="m.").items()}, x + 1


def loaded_state(x):
    layer = nn.Linear(3, 3)
    layer.load_state_dict(_LAYER.state_dict())
    return layer(x).detach()


def averaged_weights(x):
    target = copy.deepcopy(_OTHER)
    with torch.no_grad():
        for theirs, ours in zip(_LAYER.parameters(), target.parameters(), strict=True):
            ours.mul_(0.9).add_(theirs, alpha=0.1)
    return target(x).detach()


def copied_module(x):
    layer = copy.deepcopy(_LAYER)
    layer.weight.data.zero_()
    return layer(x).detach(), _LAYER.weight.abs().sum().detach() > 0


def copied_tensors(x):
    y = x * 2
    first, second = copy.deepcopy([y, y])
    first.add_(1)
    return first, first is second, y, copy.copy(y) is y


def replaced_data(x):
    x.data = x * 2
    x.add_(1)
    return x + 1


def replaced_memory(x):
    y = torch.empty(0)
    y.set_(x * 2)
    return y + 1


def copied_number(x):
    return torch.empty(2).copy_(3), x.clone().copy_(0.5)


def addresses(x):
    return x.data_ptr() == x.view(-1).data_ptr(), (x + 1).data_ptr() == x.data_ptr(), len({x.data_ptr(), x.data_ptr()})


def storages(x):
    y = x + 1
    return y.untyped_storage().nbytes(), y.untyped_storage().data_ptr() == y[1:].untyped_storage().data_ptr(), y


def buffers(x):
    buffer = nn.Buffer(x + 1)
    return isinstance(buffer, nn.Buffer), buffer * 2


def default_dtype(x):
    torch.set_default_dtype(torch.float64)
    y = torch.ones(2)
    torch.set_default_dtype(torch.float32)
    return y, torch.ones(2), x + 1


def attention_kernels(x):
    q = x.view(1, 1, 2, 3)
    with sdpa_kernel(SDPBackend.MATH):
        return nn.functional.scaled_dot_product_attention(q, q, q)


@given(lambda: (torch.tensor([2, 1]),))
def packed(x, lengths):
    sequences = pack_padded_sequence(x.view(2, 3, 1), lengths, batch_first=True)
    return sequences.data * 2, sequences.batch_sizes


@given(lambda: (torch.tensor([1, 3]),))
def packed_network(x, lengths):
    sequences = pack_padded_sequence(x.view(2, 1, 3).expand(2, 3, 3), lengths, batch_first=True, enforce_sorted=False)
    result, _ = _LSTM(sequences)
    padded, counts = pad_packed_sequence(result, batch_first=True)
    return padded.detach(), counts


def packed_list(x):
    padded, counts = pad_packed_sequence(pack_sequence([x, x[:1]]))
    return padded, counts, pad_sequence([x, x[:1]])


def progress(x):
    for step in tqdm(range(3), disable=True):
        x = x + step
    return x, [row.sum() for row in tqdm(x, disable=True)]


def progress_by_hand(x):
    with tqdm(total=3, disable=True) as bar:
        for step in trange(3, disable=True):
            x = x * step
            bar.update(1)
    return x


@given(lambda: (torch.tensor(2),))
def stated_sizes(x, n):
    count = n.item()
    torch._check(count >= 1)
    torch._check(count <= x.shape[1])
    torch.sym_constrain_range_for_size(count, min=1, max=3)
    return x[:, :count] * 2, torch.arange(count)


def stated_selection(x):
    chosen = x[x > 0]
    torch._check(chosen.shape[0] > 0)
    if chosen.numel() == 0:
        return x
    return chosen * 2, chosen.mean()


def constants_of_shapes(x):
    flags = torch.full((2,), x.shape[0] == 2)
    return x + 1 if flags.all() else x, x * 2 if (torch.zeros(3) >= 0).all() else x


def places_inside(x):
    return x + 1 if x.argmax() < 6 else x


def sums_over_windows(x):
    signal = x.flatten().repeat(8)
    spectrum = torch.stft(signal, 16, 4, window=torch.ones(16), return_complex=True)
    return torch.istft(spectrum, 16, 4, window=torch.ones(16)).shape, spectrum.abs().sum() > 0


def loss_over_sequences(x):
    scores = x.view(3, 1, 2).log_softmax(-1)
    return nn.functional.ctc_loss(scores, torch.tensor([[1]]), torch.tensor([3]), torch.tensor([1]))


def counts_in_bins(x):
    return torch.histogram(x, 4), torch.histogramdd(x, bins=[2, 2, 2])


def covariances(x):
    return torch.cov(x), torch.corrcoef(x)


def text_of_subclasses(x):
    return str(_Names([1, 2])), repr(_Marks([1])), f"{_Recent([1], maxlen=3)}", repr(_Marks()), x + 1


def drawn_numbers(x):
    random.seed(3)
    return x + 1, random.gauss(0, 1) < 9, type(random.normalvariate(0, 1))


@given(lambda: ({"a": 2, "b": 3}.values(), {"a": 2}.items(), {"c": 4}.keys()))
def views_from_outside(x, values, items, keys):
    return [x * value for value in values], list(items), "c" in keys, len(values)


def attributes_of_dictionaries(x):
    table = collections.OrderedDict(a=x)
    table.note = [x]
    return table["a"] + 1, table.note[0] is x, hasattr(table, "other")
