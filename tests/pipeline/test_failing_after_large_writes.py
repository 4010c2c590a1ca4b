"""Graphs that raise after a write into a tensor of more than `MAX_KEPT_BYTES`: the program runs as in eager."""

import pytest
import torch

import firesteel as fs

cache = torch.zeros(600_000)
parameter = torch.nn.Parameter(torch.zeros(300_000))
events = []


class OwnError(Exception):
    pass


def raises_where_equal(x, i):
    cache.add_(1)
    if torch.equal(x, -torch.eye(2)):
        raise OwnError("equal")
    return x * 2


def handles_its_own(x, i):
    try:
        return raises_where_equal(x, i)
    except OwnError as error:
        return str(error)


def raises_where_close(x, i):
    events.append(len(events))
    cache.data.add_(1)
    if not torch.allclose(x, x.abs()):
        raise OwnError("not close")
    return x * 2


def handles_an_index(x, i):
    cache.add_(1)
    try:
        return x[i]
    except IndexError:
        return "caught"


def handles_an_operator(x, i):
    cache.add_(1)
    try:
        return torch.linalg.cholesky(x)
    except RuntimeError:
        return "caught"


def states_a_flag(x, i):
    cache.add_(1)
    if not (x >= 0).all():
        raise AssertionError("negative")
    return x * 2


def states_a_number(x, i):
    cache.add_(1)
    torch._check(int(i.sum()) < 3, lambda: "too many")
    return x * 2


def raises_by_a_number(x, i):
    cache.add_(1)
    if i.sum().item() > 3:
        raise OwnError("too many")
    return x * 2


def sizes_past_autograd(x, i):
    try:
        parameter.data.add_(1)
        n = int(i.float().max())
        return torch.zeros(6, 2)[:n] + torch.ones(n, 2)
    except RuntimeError:
        return "caught"


def sizes_without_handler(x, i):
    events.append(len(events))
    parameter.data.add_(1)
    n = int(i.float().max())
    return torch.zeros(6, 2)[:n].sum() + n


def half_done(x, i):
    cache.add_(1)
    cache.index_copy_(0, i * 100, x[0])
    if torch.equal(x, -torch.eye(2)):
        raise OwnError("equal")
    return x * 2


def overwritten_by_halves(x, i):
    cache.index_add_(0, i * 80_000, x[0])
    torch._check(not torch.equal(x, -torch.eye(2)), lambda: "equal")
    return x * 2


PROGRAMS = [raises_where_equal, handles_its_own, raises_where_close, handles_an_index, handles_an_operator,
            states_a_flag, states_a_number, raises_by_a_number, sizes_past_autograd, sizes_without_handler, half_done,
            overwritten_by_halves]


def _run(function):
    events.clear()
    outcomes = []
    with torch.no_grad():
        cache.zero_()
        parameter.zero_()
    for x, i in ((torch.eye(2) + 1, [0, 1]), (-torch.eye(2), [0, 5]), (-torch.eye(2), [0, 9]),
                 (torch.eye(2) + 2, [0, 1])):
        try:
            outcomes.append(str(function(x, torch.tensor(i))))
        except Exception as error:
            outcomes.append((type(error), str(error)))
        outcomes.append((float(cache.sum()), float(parameter.detach().sum()), list(events)))
    return outcomes


@pytest.mark.parametrize("backend", ["native", "aot_eager", "eager", lambda module, examples: module.forward],
                         ids=["native", "aot_eager", "eager", "own"])
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_as_in_eager(program, backend):
    assert _run(fs.compile(program, backend=backend)) == _run(program)
