"""What is put back when a graph raises: tensors that it has changed, kept one by one or together."""

from __future__ import annotations

import pytest
import torch

import firesteel as fs
from firesteel.capture.failing_graphs import keep, put_back


@pytest.mark.parametrize("tensors", [
    [torch.tensor(number) for number in range(4)],
    [torch.tensor(1), torch.ones(2), torch.zeros(3)],
    [torch.ones(2, requires_grad=True), torch.ones(2), torch.ones(2)],
    [torch.ones(2)],
], ids=["counters", "others", "parameters", "one"])  # fmt: skip
def test_kept_and_put_back(tensors):
    before = [tensor.detach().clone() for tensor in tensors]
    kept = keep(*tensors)
    with torch.no_grad():
        for tensor in tensors[::2]:
            tensor.add_(5)
    put_back(kept, *tensors)
    assert all(torch.equal(tensor, old) for tensor, old in zip(tensors, before, strict=True))


def test_counters_count_once_when_a_graph_raises():
    counters = [torch.tensor(0) for _ in range(4)]

    def program(x, index):
        for counter in counters:
            counter.add_(1)
        return x[index] * 2

    compiled = fs.compile(program, backend="native")
    compiled(torch.ones(3), torch.tensor([1]))
    with pytest.raises(IndexError):
        compiled(torch.ones(3), torch.tensor([7]))
    assert [counter.item() for counter in counters] == [2] * 4


def test_what_is_printed_before_memory_that_overlaps_itself(capsys):
    """Eager refuses to read what it changes in another order; what came before has happened."""
    def program(x):
        print("before")
        x[0] = 0.25
        x += x.t()

    for function in (program, fs.compile(program, backend="native")):
        x = torch.ones(3, 3)
        with pytest.raises(RuntimeError, match="memory location"):
            function(x)
        assert capsys.readouterr().out == "before\n"
        assert x[0, 0] == 0.25
