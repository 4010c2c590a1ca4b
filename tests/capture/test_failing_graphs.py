"""What is put back when a graph raises: tensors that it has changed, kept one by one or together."""

from __future__ import annotations

import pytest
import torch

import firesteel as fs
from firesteel.pipeline.failing_graphs import keep, put_back


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


def fused(parameters):
    return torch.optim.Adam(parameters, fused=True)


def foreach(parameters):
    return torch.optim.SGD(parameters, lr=0.1, momentum=0.9, foreach=True)


def optimizing(make):
    weight = torch.ones(3, requires_grad=True)
    optimizer = make([weight])

    def change(x):
        optimizer.zero_grad()
        (weight * x.sum()).sum().backward()
        optimizer.step()

    return change, lambda: [weight.detach(), *optimizer.state[weight].values()]


def normalizing(x_requires_grad=False):
    norm = torch.nn.BatchNorm1d(3)

    def change(x):
        if x_requires_grad:
            x.requires_grad_()  # the graph runs as it was captured
        norm(x)

    return change, lambda: [norm.running_mean, norm.running_var, norm.num_batches_tracked]


def writing(write):
    state = torch.arange(6.0).reshape(2, 3)
    return lambda x: write(state), lambda: [state]


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native", "custom"])
@pytest.mark.parametrize("make", [
    lambda: optimizing(fused), lambda: optimizing(foreach), normalizing, lambda: normalizing(True),
    lambda: writing(lambda state: state.data.add_(1)), lambda: writing(lambda state: state.t_()),
    lambda: writing(lambda state: state.unsqueeze_(0).add_(1)),
    lambda: writing(lambda state: state.as_strided_((2,), (1,))),
], ids=["fused", "foreach", "norm", "norm as captured", "data", "t_", "unsqueeze_", "as_strided_"])  # fmt: skip
def test_changes_are_made_once_when_a_later_operator_raises(make, backend):
    """Whether autograd counts them or not, and where sizes and strides change."""
    def seen(compiler):
        change, state = make()

        def program(x, sign):
            change(x)
            return torch.linalg.cholesky(sign * torch.eye(2))

        function, found = compiler(program), []
        for sign in (1.0, -1.0, 1.0):
            raised = False
            try:
                function(torch.arange(6.0).reshape(2, 3), torch.tensor(sign))
            except torch.linalg.LinAlgError:
                raised = True
            found.append([raised, *[(tensor.clone(), tensor.stride()) for tensor in state()]])
        return found

    chosen = (lambda gm, examples: gm.forward) if backend == "custom" else backend
    torch.testing.assert_close(seen(lambda f: fs.compile(f, backend=chosen)), seen(lambda f: f))


def refused_factor(sign):
    return torch.linalg.cholesky(sign * torch.eye(2))


def index_outside(sign):
    return torch.ones(3)[(1 - sign).long() * 25]


def size_of_selection(sign):
    return torch.ones(3)[sign * torch.ones(3) > 0] + torch.ones(3)


def size_from_data(sign):
    return torch.ones(1).expand(int(2 + sign.item()))


def division_by_zero(sign):
    return 1 / (1 + sign.item())


@pytest.mark.parametrize("backend", ["eager", "native"])
@pytest.mark.parametrize("fails, views", [
    (refused_factor, lambda base: (base[:4], base[2:])),
    (index_outside, lambda base: (base[:3], base[3:])),
    (size_of_selection, lambda base: (base, base.detach())),
    (size_from_data, lambda base: (base, base.view(torch.int32))),
    (division_by_zero, lambda base: (base[::2], base[1::2])),
], ids=["overlapping", "apart", "detached", "other dtype", "interleaved"])  # fmt: skip
def test_arguments_in_one_memory_are_put_back(fails, views, backend):
    """They have one count of changes: whether the second was written to does not show when an operator raises."""
    def program(first, second, sign, names):
        names.append("start")
        first.add_(1)
        try:
            fails(sign)
        except (ArithmeticError, IndexError, RuntimeError) as error:
            names.append(type(error).__name__)
            second.mul_(3)
        second.sub_(1)
        return first + 0

    def seen(function):
        found = []
        for sign in (1.0, -1.0, 1.0):
            base, names = torch.arange(6.0), []
            found.append((function(*views(base), torch.tensor(sign), names), base, names))
        return found

    assert str(seen(fs.compile(program, backend=backend))) == str(seen(program))
