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


def _units(compiled):
    return [unit for units in compiled._firesteel_unit.compiler.units.values() for whole in units
            for unit in (whole, *whole.continuations.values())]


def test_a_list_that_grows_ends_the_graph_where_it_is_read():
    def run(transform):
        history = []

        def step(x):
            x = x.sin() * 2 + 1
            history.append(x.sum())
            if len(history) % 10 == 0:
                x = x + len(history)
            return x + history[-1], sum(history[-3:])

        function = transform(step)
        return [function(torch.full((3,), float(number))) for number in range(25)], history, function

    expected, plain_history, _ = run(lambda step: step)
    graphs = []

    def counting(gm, example_inputs):
        graphs.append(gm)
        return gm.forward

    results, history, compiled = run(fs.compile(backend=counting))
    torch.testing.assert_close(results, expected)
    torch.testing.assert_close(history, plain_history)
    assert all(unit.given_up is None for unit in _units(compiled))
    assert len(compiled._firesteel_unit.entries) <= 4


def test_lists_of_tensors_of_any_length():
    def total(parts, scale):
        return torch.stack(parts).sum(0) * scale.exp()

    compiled = fs.compile(total)
    for length in (2, 5, 3, 7, 4, 9, 6, 8, 11, 10, 12):
        parts = [torch.full((3,), float(number)) for number in range(length)]
        torch.testing.assert_close(compiled(parts, torch.ones(3)), total(parts, torch.ones(3)))
    assert all(unit.given_up is None for unit in _units(compiled))


def test_two_lengths_have_a_graph_each():
    def total(parts):
        return torch.stack(parts).sum(0) * 2

    compiled = fs.compile(total)
    for length in (2, 3, 2, 3, 2, 3, 2, 3):
        parts = [torch.full((3,), float(number)) for number in range(length)]
        torch.testing.assert_close(compiled(parts), total(parts))
    entries = compiled._firesteel_unit.entries
    assert len(entries) == 2 and all(entry.break_reason is None for entry in entries)


def test_one_graph_is_made_for_each_length_where_somebody_insists():
    compiled = fs.compile(lambda parts: torch.stack(parts) * 2, fullgraph=True)
    for length in (2, 3, 4, 5, 6):
        assert compiled([torch.ones(2)] * length).shape == (length, 2)
    assert len(compiled._firesteel_unit.entries) == 5


def test_texts_that_change_end_the_graph_where_they_are_read():
    table = {"a": 1.0, "b": 2.0}

    def speak(text, x):
        y = x * 2 + 1
        if text.startswith("h") and text:
            y = y + len(text)
        codes = torch.tensor([ord(letter) for letter in text[:3]])
        return y.sin() + codes.sum(), f"{text}!", table.get(text[-1], 0.0) + (text == "hello 3")

    compiled = fs.compile(speak)
    for text in ("hello 1", "hello 2", "hello 3", "jello b", "ha", "hello 3", "hello 5", "ya", "hb", "hey", "hello 9"):
        x = torch.full((3,), float(len(text)))
        result, expected = compiled(text, x), speak(text, x)
        torch.testing.assert_close(result[0], expected[0])
        assert result[1:] == expected[1:]
    assert all(unit.given_up is None for unit in _units(compiled))


def test_words_that_choose_a_way_have_a_graph_each():
    def reduced(x, reduction="mean"):
        return x.mean() if reduction == "mean" else x.sum()

    compiled = fs.compile(reduced)
    for word in ("mean", "sum", "none", "mean", "sum"):
        torch.testing.assert_close(compiled(torch.ones(3), word), reduced(torch.ones(3), word))
    entries = compiled._firesteel_unit.entries
    assert len(entries) == 3 and all(entry.break_reason is None for entry in entries)
