"""Training loops with recorded halves against eager: a stand-in for CUDA graphs, on the CPU."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F

import firesteel as fs
from firesteel.autodiff.joint import trace_training
from firesteel.functional.graph import FunctionalGraph
from firesteel.kernels.options import Options
from firesteel.pipeline.compile import compile_functional
from firesteel.pipeline.cuda_graphs import GraphedFunction
from firesteel.pipeline.training import TrainingUnit
from pipeline.test_cuda_graphs import record_on_cpu

CPU = torch.device("cpu")


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.norm = torch.nn.Linear(16, 16), torch.nn.Linear(16, 16), torch.nn.LayerNorm(16)

    def forward(self, x):
        return self.norm(F.gelu(self.second(torch.tanh(self.first(x)))) * x)


class Halves:
    """A backend whose forward and backward are recorded."""

    def __init__(self):
        self.made = []

    def __call__(self, module, examples):
        traced = trace_training(module, examples)
        if isinstance(traced, FunctionalGraph):
            return self.half(traced, "without_gradients", False)
        return TrainingUnit(module, examples, traced, self.half)

    def half(self, functional, name, takes_list):
        compiled = compile_functional(functional, Options(), name, takes_list=takes_list)
        self.made.append(GraphedFunction(compiled.run, compiled.functional, CPU, name, takes_list, 1e6))
        return self.made[-1]

    def recordings(self):
        return [len(half.sizes[None].recordings) for half in self.made]

    def share(self):
        """Whether all halves share a stack."""
        return len({id(half.stacks[0]) for half in self.made}) == 1


@pytest.fixture
def recorded(monkeypatch):
    fs.reset()
    torch.manual_seed(0)
    return record_on_cpu(monkeypatch)


@pytest.fixture
def trained(recorded):
    model, backend = Net(), Halves()
    return model, fs.compile(model, backend=backend, fullgraph=True), copy.deepcopy(model), backend


def compare(model, eager):
    for p, q in zip(model.parameters(), eager.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad)


@pytest.mark.parametrize("to_none", [True, False])
@pytest.mark.parametrize("accumulate", [1, 3])
def test_loops(trained, to_none, accumulate):
    model, compiled, eager, backend = trained
    optimizers = [torch.optim.SGD(each.parameters(), 0.1) for each in (model, eager)]
    losses = []
    for number in range(9):
        x = torch.randn(8, 16)
        pair = [run(x).square().mean() for run in (compiled, eager)]
        for loss in pair:
            loss.backward()
        losses.append(pair)
        compare(model, eager)
        if number % accumulate == accumulate - 1:
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad(set_to_none=to_none)
    for ours, theirs in losses:
        torch.testing.assert_close(ours, theirs)
    forward, backward = backend.recordings()
    assert forward == 1 and backward == (2 if to_none and accumulate > 1 else 1)
    assert backend.share() == (not to_none or accumulate == 1)


def test_results_that_are_kept(trained):
    model, compiled, eager, backend = trained
    kept = []
    for _ in range(8):
        x = torch.randn(8, 16)
        kept.append((compiled(x), eager(x)))
        for result in kept[-1]:
            result.square().mean().backward()
        compare(model, eager)
        model.zero_grad(), eager.zero_grad()
    for ours, theirs in kept:
        torch.testing.assert_close(ours, theirs)
    assert backend.recordings()[0] <= 2  # results are copied rather than all that is saved


def test_two_calls_before_backward(trained):
    model, compiled, eager, backend = trained
    for _ in range(6):
        x, y = torch.randn(8, 16), torch.randn(8, 16)
        for run in (compiled, eager):
            (run(x) * run(y)).mean().backward()
        compare(model, eager)
        model.zero_grad(), eager.zero_grad()
    assert backend.recordings() == [2, 2] and backend.share()


def test_backward_never_or_twice_and_exceptions(trained):
    model, compiled, eager, backend = trained
    for number in range(10):
        x = torch.randn(8, 16)
        for run in (compiled, eager):
            loss = run(x).square().mean()
            if number % 3 == 1:
                loss.register_hook(lambda gradient: 1 / 0)
                with pytest.raises(ZeroDivisionError):
                    loss.backward()
            elif number % 3 == 2:
                loss.backward(retain_graph=True)
                loss.backward()
        if number % 3 == 2:
            compare(model, eager)
            model.zero_grad(), eager.zero_grad()
    assert max(backend.recordings()) <= 2


def test_hooks_that_pack_what_is_saved(trained):
    model, compiled, eager, backend = trained
    for _ in range(5):
        x = torch.randn(8, 16)
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t.clone(), lambda t: t):
            losses = [compiled(x).square().mean(), eager(x).square().mean()]
        compiled(torch.randn(8, 16))  # what was saved has been packed, so this may overwrite it
        for loss in losses:
            loss.backward()
        compare(model, eager)
        model.zero_grad(), eager.zero_grad()


def test_saved_tensors_that_the_user_holds(trained):
    model, compiled, _, _ = trained
    held = []
    for _ in range(5):
        x = torch.randn(8, 16)
        result = compiled(x)
        saved = [t for t in result.grad_fn.saved_tensors if t is not None]
        held.append((saved, [t.clone() for t in saved]))
        result.sum().backward()
        model.zero_grad()
    for saved, copies in held:
        for t, c in zip(saved, copies, strict=True):
            assert torch.equal(t, c)


# Forward and backward share memory until something is held that one of them would overwrite.


def reset(*models):
    for each in models:
        each.zero_grad()


def gradients_between(run, model, x):
    loss = run(x).square().mean()
    reset(model)
    loss.backward()


def gradients_kept_for_two_steps(run, model, x):
    run(x).square().mean().backward()
    model.count = getattr(model, "count", 0) + 1
    if model.count % 2:
        reset(model)


def gradients_in_a_list(run, model, x):
    model.found = torch.autograd.grad(run(x).square().mean(), list(model.parameters()))  # held until the next are there
    for p, gradient in zip(model.parameters(), model.found, strict=True):
        p.grad = gradient.clone()


def two_steps_at_once(run, model, x):
    reset(model)
    first, second = run(x), run(x * 2)
    first.square().mean().backward()
    second.square().mean().backward()


def overlapping(run, model, x):
    now = run(x).square().mean()
    before, model.pending = getattr(model, "pending", None), now
    if before is not None:
        reset(model)
        before.backward()


def checkpointed(run, model, x):
    reset(model)
    run(torch.utils.checkpoint.checkpoint(run, x, use_reentrant=False)).square().mean().backward()


def reentrant(run, model, x):
    reset(model)
    start = x.clone().requires_grad_()
    torch.utils.checkpoint.checkpoint(run, torch.utils.checkpoint.checkpoint(run, start, use_reentrant=True),
                                      use_reentrant=True).square().mean().backward()


def never_backward_in_every_third(run, model, x):
    reset(model)
    loss = run(x).square().mean()
    model.count = getattr(model, "count", 0) + 1
    if model.count % 3:
        loss.backward()


def one_backward_then_two(run, model, x):
    model.count = getattr(model, "count", 0) + 1
    (two_steps_at_once if model.count > 5 else gradients_between)(run, model, x)


LOOPS = {gradients_between: False, gradients_kept_for_two_steps: False, gradients_in_a_list: False,
         two_steps_at_once: True, overlapping: None, checkpointed: None, reentrant: None,
         never_backward_in_every_third: True, one_backward_then_two: False}
"""Training steps, and whether halves share memory in the end (None: either is right)."""


@pytest.mark.parametrize("step", LOOPS, ids=lambda step: step.__name__)
def test_other_loops(trained, recorded, step):
    model, compiled, eager, backend = trained
    made = []
    for _ in range(16):
        x = torch.randn(8, 16)
        step(compiled, model, x), step(eager, eager, x)
        for p, q in zip(model.parameters(), eager.parameters(), strict=True):
            assert (p.grad is None) == (q.grad is None)
            if p.grad is not None:
                torch.testing.assert_close(p.grad, q.grad)
        made.append(len(recorded))
    assert made[-1] == made[9] <= 12  # nobody records for ever
    assert LOOPS[step] in (None, backend.share())
    replayed = [half for half in backend.made if half.sizes[None].recordings]
    assert len(replayed) >= 2 and not any(half.sizes[None].off for half in backend.made)


class Two(Net):
    def forward(self, x):
        y = super().forward(x)
        return y.square().mean(), (y * x).sum()


@pytest.mark.parametrize("turns", [False, True])
def test_gradients_of_other_results(recorded, turns):
    """There is a backward for each set of results that get gradients."""
    model, backend = Two(), Halves()
    compiled, eager = fs.compile(model, backend=backend, fullgraph=True), copy.deepcopy(model)
    made = []
    for number in range(16):
        x = torch.randn(8, 16)
        for run in (compiled, eager):
            first, second = run(x)
            if number % 4 == 0 or number == 15:
                (first + second).backward()
            else:
                if turns and number % 2:
                    first, second = second, first
                first.backward(retain_graph=True)
                second.backward()
        compare(model, eager)
        reset(model, eager)
        made.append(len(recorded))
    assert made[-1] == made[-4] <= 20 and len(backend.made) == 4
    assert all(half.sizes[None].recordings for half in backend.made)
    assert turns or backend.share()


def test_sizes_in_turn(recorded):
    model, backend = Net(), Halves()
    compiled, eager = fs.compile(model, backend=backend, fullgraph=True, dynamic=True), copy.deepcopy(model)
    for number in range(18):
        x = torch.randn((8, 5, 12)[number % 3], 16)
        for run, net in ((compiled, model), (eager, eager)):
            if number < 12:
                reset(net)
            loss = run(x).square().mean()
            reset(net)  # from the twelfth step on gradients are held while forward runs
            loss.backward()
        compare(model, eager)
        if number == 11:
            assert backend.share() and len(recorded) == 6
    assert not backend.share() and len(recorded) == 12
    for half in backend.made:
        assert [len(seen.recordings) for seen in half.sizes.values()] == [1, 1, 1]


def test_results_that_have_nothing_to_do_with_each_other(recorded):
    """Each has a backward of its own, and both read what one recording of forward saved."""
    class Pair(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = Net(), Net()

        def forward(self, x, y):
            return self.first(x), self.second(y)

    model, backend = Pair(), Halves()
    compiled, eager = fs.compile(model, backend=backend, fullgraph=True), copy.deepcopy(model)
    for number in range(6):
        x, y = torch.randn(8, 16), torch.randn(8, 16)
        for run in (compiled, eager):
            results = run(x, y)
            for result in results if number % 2 else results[::-1]:
                result.square().mean().backward()
            del result, results
        compare(model, eager)
        reset(model, eager)
    assert len(backend.made) == 3 and backend.recordings()[0] == 1
