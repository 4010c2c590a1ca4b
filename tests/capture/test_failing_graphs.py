"""What is put back when a graph raises: tensors that it has changed, kept one by one or together."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional

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


REFUSALS = {
    "masked_scatter": lambda bad: torch.zeros(3).masked_scatter(bad.expand(3) > 0.5, torch.ones(1)),
    "max of nothing": lambda bad: torch.ones(3)[bad.expand(3) < 0.5].max(),
    "index_reduce": lambda bad: torch.zeros(3).index_reduce(0, bad.long()[None] * 9, torch.ones(1), "mean"),
    "histc": lambda bad: torch.histc(torch.ones(2) / (1 - bad)),
    "one_hot": lambda bad: functional.one_hot(-bad.long(), 3),
    "no probability": lambda bad: functional.binary_cross_entropy(torch.full((1,), 0.5), 0.5 - bad[None]),
    "multi_margin_loss": lambda bad: functional.multi_margin_loss(torch.zeros(1, 3), bad.long()[None] * 9),
    "multilabel_margin_loss": lambda bad: functional.multilabel_margin_loss(
        torch.zeros(1, 3), bad.long().expand(1, 3) * 9),
}


@pytest.mark.filterwarnings("ignore:index_reduce")
@pytest.mark.parametrize("fails", REFUSALS.values(), ids=REFUSALS)
def test_operator_whose_result_nobody_uses_raises(fails):
    """And what came before it has happened, once, also where the graph runs operator by operator."""
    def program(x, bad, names):
        names.append("before")
        x.add_(1)
        fails(bad)
        names.append("after")

    def seen(function):
        found = []
        for number in (0.0, 1.0):
            x, names = torch.zeros(2), []
            try:
                function(x, torch.tensor(number), names)
            except (RuntimeError, IndexError) as error:
                names.append(str(error))
            found.append((x.tolist(), names))
        return found

    expected = seen(program)
    assert expected[1][1][1:] != ["after"]
    for backend in ("eager", "native"):
        assert seen(fs.compile(program, backend=backend)) == expected


def test_silent_and_counted_changes_in_one_memory():
    """A change that autograd does not count comes before the operator that raises, a counted one behind it."""
    def program(first, second, bad, names):
        torch._foreach_add_([first], 1)
        try:
            torch.ones(3)[bad.long() * 9]
        except IndexError:
            names.append("caught")
        second.add_(2)

    def seen(function):
        base, names = torch.arange(6.0), []
        function(base[:3], base[3:], torch.tensor(1.0), names)
        return base.tolist(), names

    for backend in ("eager", "native"):
        assert seen(fs.compile(program, backend=backend)) == seen(program)


def test_layout_that_is_changed_back():
    """Sizes and strides are put back where the graph leaves them as they were, but an operator raises in between."""
    def program(x, bad):
        x.t_()
        try:
            torch.ones(3)[bad.long() * 9]
        finally:
            x.t_()

    x = torch.ones(2, 3)
    for backend in ("eager", "native"):
        with pytest.raises(IndexError):
            fs.compile(program, backend=backend)(x, torch.tensor(1.0))
        assert x.shape == (2, 3)


LARGE = 1 << 19


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
@pytest.mark.parametrize("prepare", ["nothing", "effect", "handler"])
def test_large_tensor_that_an_operation_changes_half_way_is_changed_once(backend, prepare):
    def plain(x, index, source, said):
        if prepare == "effect":
            said.append("before")
        if prepare == "handler":
            try:
                return x.index_add_(0, index, source).sum()
            except IndexError:
                return x.sum() * 2
        return x.index_add_(0, index, source).sum()

    def outcome(function, index):
        said, x = [], torch.ones(LARGE, dtype=torch.float64)
        try:
            result = function(x, torch.tensor(index), torch.ones(3, dtype=torch.float64), said)
        except IndexError as error:
            result = str(error)
        return result, x.sum(), said

    compiled = fs.compile(plain, backend=backend)
    for index in ([1, 2, 3], [1, LARGE, 2], [1, 2, LARGE]):
        assert outcome(compiled, index) == outcome(plain, index)


def test_large_tensor_is_part_of_one_graph_where_nothing_comes_before_an_operation_that_raises_half_way():
    def program(x, index):
        return x.index_add_(0, index, torch.ones(3)) * 2

    fs.compile(program, fullgraph=True)(torch.ones(LARGE), torch.tensor([1, 2, 3]))
