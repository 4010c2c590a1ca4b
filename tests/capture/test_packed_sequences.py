"""Packed sequences, and recurrent networks over them, in one graph."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pack_sequence, pad_packed_sequence

import firesteel as fs

LENGTHS = ([5, 3, 2], [5, 5, 1], [4, 4, 4], [2, 5, 3])


def _networks():
    torch.manual_seed(0)
    return {"lstm": nn.LSTM(4, 3, batch_first=True), "rnn": nn.RNN(4, 3, batch_first=True),
            "gru": nn.GRU(4, 3, batch_first=True, bidirectional=True, num_layers=2)}


@pytest.mark.parametrize("learns", [False, True])
@pytest.mark.parametrize("kind", ["lstm", "gru", "rnn"])
def test_networks(kind, learns):
    network = _networks()[kind]

    def states(x, lengths):
        packed = pack_padded_sequence(x * 2, lengths, batch_first=True, enforce_sorted=False)
        result, state = network(packed)
        padded, counts = pad_packed_sequence(result, batch_first=True, total_length=6)
        return padded.sin(), counts, state

    compiled = fs.compile(states, fullgraph=True)
    for lengths in LENGTHS:
        seen = []
        for function in (states, compiled):
            network.zero_grad()
            x = torch.linspace(-1, 1, 60).view(3, 5, 4).requires_grad_(learns)
            with torch.set_grad_enabled(learns):
                result, counts, state = function(x, torch.tensor(lengths))
            if learns:
                result.sum().backward()
            seen.append((result, counts, state, x.grad, network.weight_hh_l0.grad))
        torch.testing.assert_close(seen[1], seen[0])
        assert seen[1][0].stride() == seen[0][0].stride()


def test_padding_of_sequences_from_outside():
    def padded(packed):
        return pad_packed_sequence(PackedSequence(packed.data * 2, packed.batch_sizes), padding_value=-1.0)

    compiled = fs.compile(padded, fullgraph=True)
    for lengths in LENGTHS[:3]:
        packed = pack_padded_sequence(torch.randn(3, 5, 2), torch.tensor(lengths), batch_first=True)
        for ours, eagers in zip(compiled(packed), padded(packed)):
            assert torch.equal(ours, eagers) and ours.stride() == eagers.stride()


def test_a_total_length_that_is_too_short_raises_what_eager_raises():
    def padded(x, lengths):
        return pad_packed_sequence(pack_padded_sequence(x, lengths), total_length=4)[0]

    compiled = fs.compile(padded, fullgraph=True)
    for lengths in ([4, 3], [5, 3], [3, 3]):
        outcomes = []
        for function in (padded, compiled):
            try:
                outcomes.append(function(torch.ones(5, 2, 1), torch.tensor(lengths)).shape)
            except (RuntimeError, ValueError) as error:
                outcomes.append(str(error))
        assert outcomes[0] == outcomes[1]


def test_lists_of_sequences():
    def packed(parts):
        return pad_packed_sequence(pack_sequence(parts, enforce_sorted=False))

    compiled = fs.compile(packed, fullgraph=True)
    for sizes in ((3, 2, 1), (1, 4, 2)):
        parts = [torch.randn(size, 2) for size in sizes]
        torch.testing.assert_close(compiled(parts), packed(parts))


def test_the_number_of_sequences_is_known():
    def states(x, lengths):
        packed = pack_padded_sequence(x, lengths, batch_first=True)
        return x.new_zeros(int(packed.batch_sizes[0])).shape, packed.data

    explanation = fs.explain(states)(torch.randn(3, 5, 2), torch.tensor([5, 3, 2]))
    assert explanation.graph_break_count == 0
    assert not any(node.target == "item" for node in explanation.graphs[0].graph.nodes)
