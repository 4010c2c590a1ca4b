"""Calls under a checkpoint run again in backward: they go the way of forward, whatever is decided since."""

import pytest
import torch
from torch.utils.checkpoint import checkpoint

import firesteel as fs
from firesteel import config
from firesteel.runtime import retiring

BACKENDS = ["native", "aot_eager", "eager"]


def _branching():
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 2))

    def block(x):
        if (x > 5).any():
            return model(x) * 2
        return model(x).sin()

    return block


def _input(flag):
    x = torch.full((3, 4), 0.1)
    x[0, 0] = 9.0 * flag
    return x.requires_grad_()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("flags", [(0, 1, 1, 0, 1, 0), (1, 0, 0, 0, 1), (0, 1, 1, 1)])
def test_step_by_step(backend, flags):
    def run(function):
        gradients = []
        for flag in flags:
            x = _input(flag)
            checkpoint(function, x, use_reentrant=False).sum().backward()
            gradients.append(x.grad)
        return gradients

    torch.testing.assert_close(run(fs.compile(_branching(), backend=backend)), run(_branching()))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("order", [1, -1])
def test_several_before_backward(backend, order):
    def run(function):
        inputs = [_input(flag) for flag in (0, 1, 0, 1, 0, 1)]
        losses = [checkpoint(function, x, use_reentrant=False).sum() for x in inputs]
        for loss in losses[::order]:
            loss.backward()
        return [x.grad for x in inputs]

    torch.testing.assert_close(run(fs.compile(_branching(), backend=backend)), run(_branching()))


def test_twice_and_behind_a_break():
    def run(compiled):
        branch = _branching()

        def block(x):
            y = x.sin()
            if y.sum() > 100:
                y = y + 1
            return branch(y + x)

        function = compiled(block)
        gradients = []
        for flag in (0, 1, 1, 0, 1):
            x = _input(flag)
            loss = checkpoint(function, x, use_reentrant=False).sum()
            loss.backward(retain_graph=True)
            loss.backward()
            gradients.append(x.grad)
        return gradients

    torch.testing.assert_close(run(fs.compile), run(lambda function: function))


def test_failures_outside_of_the_checkpoint():
    def run(function):
        x = _input(0)
        loss = checkpoint(function, x, use_reentrant=False).sum()
        for flag in (1, 1, 1):
            function(_input(flag)).sum().backward()
        loss.backward()
        return x.grad

    torch.testing.assert_close(run(fs.compile(_branching())), run(_branching()))


def test_nested_checkpoints():
    def run(compiled):
        function = compiled(_branching())

        def outer(x):
            return checkpoint(function, x * 1, use_reentrant=False).tanh() * x.sum()

        gradients = []
        for flag in (0, 1, 1, 0, 1):
            x = _input(flag)
            checkpoint(outer, x, use_reentrant=False).sum().backward()
            gradients.append(x.grad)
        return gradients

    torch.testing.assert_close(run(fs.compile), run(lambda function: function))


def test_calls_that_are_measured(monkeypatch):
    """The race between compiled and plain Python begins without gradients; training comes in the middle of it."""
    monkeypatch.setattr(config, "retire_slow", True)

    def block(x):
        y = x.sin().exp()
        if y.sum() > 3:
            y = y * 2
        return y.cos() * y.tanh() * y

    for before in range(retiring.CALLS_BEFORE, retiring.CALLS_BEFORE + 2 * retiring.SAMPLES + 4):
        function = fs.compile(block)
        with torch.no_grad():
            for _ in range(before):
                function(torch.ones(3))
        x, plain = torch.full((3,), 0.5, requires_grad=True), torch.full((3,), 0.5, requires_grad=True)
        for _ in range(2):
            checkpoint(function, x, use_reentrant=False).sum().backward()
            checkpoint(block, plain, use_reentrant=False).sum().backward()
        torch.testing.assert_close(x.grad, plain.grad)


def test_retired_between_forward_and_backward(monkeypatch):
    monkeypatch.setattr(config, "retire_slow", True)
    monkeypatch.setattr(retiring.Race, "plain_wins", True)
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)  # nothing is measured beside a GPU

    def block(x):
        y = x.sin().exp()
        if y.sum() > 3:
            y = y * 2
        return y.cos() * y.tanh() * y

    function = fs.compile(block)
    x, plain = torch.full((3,), 0.5, requires_grad=True), torch.full((3,), 0.5, requires_grad=True)
    loss = checkpoint(function, x, use_reentrant=False).sum()
    for _ in range(retiring.CALLS_BEFORE + 2 * retiring.SAMPLES + 4):
        function(torch.ones(3))
    assert "faster uncompiled" in function._firesteel_unit.given_up
    loss.backward()
    block(plain).sum().backward()
    torch.testing.assert_close(x.grad, plain.grad)


def test_first_calls_that_run_uncompiled(monkeypatch):
    def block(x):
        y = x.sin().exp()
        return y.cos() * y.tanh() * y

    def check():
        function = fs.compile(block)
        x, plain = torch.full((3,), 0.5, requires_grad=True), torch.full((3,), 0.5, requires_grad=True)
        loss = checkpoint(function, x, use_reentrant=False).sum()
        function(torch.ones(3, requires_grad=True))
        loss.backward()
        block(plain).sum().backward()
        torch.testing.assert_close(x.grad, plain.grad)

    with fs.set_stance("eager_then_compile"):
        check()
    monkeypatch.setattr(config, "compile_after", 1e-9)
    check()


class Visible(torch.nn.Module):
    """What it does to itself is seen outside."""

    def __init__(self):
        super().__init__()
        self.layer, self.norm = torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4)
        self.register_buffer("total", torch.zeros(()))
        self.calls, self.sizes = 0, []

    def counts(self, x):
        self.calls += 1
        return self.layer(x).sin()

    def notes(self, x):
        y = self.layer(x).sin()
        self.sizes.append(len(y))
        return y.cos()

    def writes_first(self, x):
        self.total.add_(1)
        return self.layer(x).sin()

    def writes_last(self, x):
        y = self.layer(x).sin()
        self.total.add_(1)
        return y

    def normalises(self, x):
        return self.norm(self.layer(x).sin())

    def breaks(self, x):
        y = self.norm(self.layer(x).sin())
        fs.graph_break()
        self.calls += 1
        self.total.add_(1)
        return y.cos()

    def seen(self):
        return self.calls, list(self.sizes), self.total.clone(), self.norm.running_mean.clone(), \
            self.norm.num_batches_tracked.clone()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("inside", [False, True])
@pytest.mark.parametrize("name", ["counts", "notes", "writes_first", "writes_last", "normalises", "breaks"])
def test_what_runs_twice_and_shows(name, inside, backend):
    """Inside of what is compiled, or around it: what backward repeats is seen twice, up to where it is stopped."""
    def run(compiled):
        torch.manual_seed(0)
        module = Visible()
        method = getattr(module, name)
        region = method if inside else compiled(method)
        function = (compiled if inside else lambda f: f)(lambda x: checkpoint(region, x, use_reentrant=False) * 1)
        found = []
        for size in (3, 3, 5):
            x = torch.linspace(-1, 1, 4 * size).reshape(size, 4).requires_grad_()
            loss = function(x).square().sum()
            found.append(module.seen())
            loss.backward()
            found.append((module.seen(), x.grad))
        return found

    torch.testing.assert_close(run(lambda f: fs.compile(f, backend=backend)), run(lambda f: f))


def test_a_break_in_a_checkpoint_ends_no_other_graph():
    """What is around the break runs in graphs, in forward and again in backward."""
    graphs = []

    def backend(graph, inputs):
        graphs.append([node.target for node in graph.graph.nodes if node.op not in ("placeholder", "output")])
        return graph.forward

    def region(x):
        y = x.sin().exp()
        fs.graph_break()
        return y.cos() * y.tanh()

    def f(x):
        return checkpoint(region, x * 2, use_reentrant=False).tanh()

    compiled = fs.compile(f, backend=backend)
    for _ in range(2):
        x = torch.linspace(-1, 1, 5).requires_grad_()
        y = x.detach().requires_grad_()
        for function, start in ((compiled, x), (f, y)):
            function(start).sum().backward()
        torch.testing.assert_close(x.grad, y.grad)
    assert [len(graph) for graph in graphs] == [1, 2, 3, 1]


def test_what_one_run_makes_for_itself_does_not_show():
    """A comprehension's dictionary and a variable that it reads: both runs have their own, so graphs are kept."""
    def region(x):
        scale = x.detach().abs().sum()

        def scaled(y):
            fs.graph_break()
            return (y * scale).sin()

        parts = {name: scaled(x + name) for name in (1, 2)}
        scale = scale + 1
        return sum(parts.values()) * scale

    compiled = fs.compile(lambda x: checkpoint(region, x, use_reentrant=False).tanh(), backend="aot_eager")
    for _ in range(2):
        x, plain = (torch.linspace(-1, 1, 5).requires_grad_() for _ in range(2))
        compiled(x).sum().backward()
        checkpoint(region, plain, use_reentrant=False).tanh().sum().backward()
        torch.testing.assert_close(x.grad, plain.grad)
    explained = fs.explain(compiled)(torch.ones(5, requires_grad=True))
    assert "plain Python" not in str(explained)
