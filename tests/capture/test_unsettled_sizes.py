"""Operations that take no symbolic sizes, and sizes that are other ones in every call."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

import firesteel as fs


def test_packed_sequences_of_many_lengths_settle():
    torch.manual_seed(0)
    lstm = nn.LSTM(8, 16, batch_first=True)

    def states(x, lengths):
        packed = pack_padded_sequence(x * 2, lengths, batch_first=True, enforce_sorted=False)
        result, _ = pad_packed_sequence(lstm(packed)[0], batch_first=True)
        return result.mean(1) + 1

    graphs = []

    def counting(gm, example_inputs):
        graphs.append(gm)
        return gm.forward

    compiled = fs.compile(states, backend=counting)
    made_by = []
    with torch.no_grad():
        for number in range(24):
            lengths = torch.randint(3, 20, (6,))
            x = torch.randn(6, int(lengths.max()), 8)
            torch.testing.assert_close(compiled(x, lengths), states(x, lengths))
            made_by.append(len(graphs))
    assert made_by[-1] == made_by[11], "still compiling"
    assert all(unit.given_up is None for units in compiled._firesteel_unit.compiler.units.values() for unit in units)
