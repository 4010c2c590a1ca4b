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
