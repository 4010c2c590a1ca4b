"""``tensor.data = ...``, ``set_``, addresses and storages in one graph."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import firesteel as fs
from capture.differential import check, x


def _pair(learns):
    torch.manual_seed(0)
    first, second = nn.Linear(3, 3), nn.Linear(3, 3)
    second.requires_grad_(learns)
    return first, second


@pytest.mark.parametrize("backend", ["native", "eager"])
@pytest.mark.parametrize("learns", [False, True])
def test_a_momentum_encoder(learns, backend):
    def step(query, key, x):
        with torch.no_grad():
            for theirs, ours in zip(query.parameters(), key.parameters(), strict=True):
                ours.data = ours.data * 0.9 + theirs.data * 0.1
            return key(x)

    plain, ours = _pair(learns), _pair(learns)
    compiled = fs.compile(step, fullgraph=True, backend=backend)
    for _ in range(3):
        torch.testing.assert_close(compiled(*ours, x()), step(*plain, x()))
    torch.testing.assert_close(ours[1].state_dict(), plain[1].state_dict())
    assert ours[1].weight.requires_grad is learns


def test_gradients_of_replaced_data_are_left_to_eager():
    def step(first, second, x):
        first.weight.data = second.weight.data * 2
        return first(x).sum()

    plain, ours = _pair(True), _pair(True)
    step(*plain, x()).backward()
    fs.compile(step)(*ours, x()).backward()
    torch.testing.assert_close(ours[0].weight.grad, plain[0].weight.grad)
    with pytest.raises(fs.errors.GraphBreakError, match="whose data was replaced"):
        fs.compile(step, fullgraph=True)(*ours, x())


def test_tensors_that_are_replaced_again():
    def function(x):
        before = x.view(-1)
        x.data = x * 2
        x.add_(1)
        part = x.data
        part.mul_(2)
        x.data = torch.cat([x, x])
        x[0] = 5
        made = torch.empty(0)
        made.set_(before * 3)
        made.add_(1)
        return x + 1, before, part, x.shape[0], x, made

    check(function)


def test_addresses():
    def function(x, y):
        part = x[1:]
        seen = {x.data_ptr(), y.data_ptr(), x.view(-1).data_ptr()}
        return (x.data_ptr() == y.data_ptr(), part.data_ptr() == x.data_ptr(), len(seen), y.data_ptr() in seen,
                part.untyped_storage().data_ptr() == x.untyped_storage().data_ptr(), (x + 1).data_ptr() != x.data_ptr(),
                x.data_ptr() != 0, x.untyped_storage().nbytes(), (x * 2).untyped_storage().nbytes())

    compiled = fs.compile(function, fullgraph=True, backend="eager")
    whole = torch.ones(4, 2)
    for arguments in ((whole, whole), (whole, torch.ones(4, 2)), (whole[:2], whole[1:]), (whole[1:3], whole[1:]),
                      (torch.ones(2, 2), whole)):
        assert compiled(*arguments) == function(*arguments)


@pytest.mark.parametrize("dynamic", [False, True])
def test_which_inputs_share_memory_is_guarded(dynamic):
    def function(x, y):
        return x.data_ptr() == y.data_ptr(), len({x.data_ptr(), y[1:].data_ptr()}), x.untyped_storage().nbytes(), x + 1

    compiled = fs.compile(function, backend="eager", dynamic=dynamic)
    whole, array = torch.ones(9), torch.ones(9).numpy()
    for arguments in ((torch.ones(3), torch.ones(3)), (whole[:3], whole[:3]), (whole[1:4], whole[:3]),
                      (whole[:3], torch.ones(3)), (torch.from_numpy(array)[:3], torch.from_numpy(array)[:3]),
                      (torch.from_numpy(array[1:4]), torch.from_numpy(array)[:3]), (torch.ones(3), whole[:3])):
        assert compiled(*arguments)[:3] == function(*arguments)[:3]


def test_an_address_that_is_returned_is_the_real_one():
    tensor = torch.ones(2)
    assert fs.compile(lambda x: (x.data_ptr(), x + 1), fullgraph=True)(tensor)[0] == tensor.data_ptr()


def test_buffers_made_inside():
    def function(x):
        buffer = nn.Buffer(x + 1, persistent=False)
        return buffer, isinstance(buffer, nn.Buffer), buffer.persistent, type(buffer)

    assert fs.compile(function, fullgraph=True)(x())[1:] == function(x())[1:]
    module = nn.Module()
    module.table = fs.compile(function, fullgraph=True)(x())[0]
    assert [name for name, _ in module.named_buffers()] == ["table"]
