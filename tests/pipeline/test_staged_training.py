"""Backwards in stages: equal to eager's in all that autograd does, and gradients come as early as they can."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import firesteel as fs
from firesteel import torch_compat
from firesteel.pipeline import staged_training
from firesteel.pipeline.staged_training import StagedBackward


class Block(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.up, self.down = torch.nn.Linear(width, 2 * width), torch.nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


def blocks(count=4, width=8):
    torch.manual_seed(0)
    return torch.nn.Sequential(*[Block(width) for _ in range(count)]).double()


def inputs(rows=3):
    return torch.linspace(-1, 1, 8 * rows, dtype=torch.float64).reshape(rows, 8)


@pytest.fixture
def staged(monkeypatch):
    """Every backward is taken apart where 1,400 bytes of gradients are complete; counts the stages that ran."""
    monkeypatch.setattr(torch_compat, "bucket_limits", lambda: (1400,))
    ran = []
    make = staged_training.staged_backward

    def counted(*args):
        backward = make(*args)
        assert backward is not None
        backward.stages = [(stage, lambda given, run=run, number=number: (ran.append(number), run(given))[1])
                           for number, (stage, run) in enumerate(backward.stages, 1)]
        return backward

    monkeypatch.setattr("firesteel.pipeline.training.staged_backward", counted)
    return ran


def gradients(module, x):
    return [None if p.grad is None else p.grad.clone() for p in (*module.parameters(), x)]


def both(run, *, make=blocks):
    """What a step gives plain and compiled."""
    outcomes = []
    for compiled in (False, True):
        module = make()
        x = inputs().requires_grad_()
        outcome = run(fs.compile(module, tier="wait") if compiled else module, x)
        outcomes.append([outcome, gradients(module, x)])
    torch.testing.assert_close(outcomes[1], outcomes[0])


@pytest.mark.parametrize("backend", ["native", "aot_eager"])
def test_gradients_are_the_same_and_come_between_the_stages(staged, backend):
    module, plain = blocks(), blocks()
    x = inputs()
    plain(x).square().sum().backward()
    seen = {}
    for name, parameter in module.named_parameters():
        parameter.register_post_accumulate_grad_hook(lambda p, name=name: seen.update({name: len(staged)}))
    fs.compile(module, backend=backend, tier="wait")(x).square().sum().backward()
    torch.testing.assert_close([p.grad for p in module.parameters()], [p.grad for p in plain.parameters()])
    assert staged == [1, 2, 3, 4, 5]
    assert seen["3.down.weight"] == 1 and seen["0.norm.weight"] == 5
    assert [name for name in seen if "down.weight" in name] == [f"{at}.down.weight" for at in (3, 2, 1, 0)]


def test_an_optimizer_may_change_what_has_its_gradient(staged):
    def step(module, x):
        handles = []
        for parameter in module.parameters():
            def update(p):
                with torch.no_grad():
                    p.sub_(p.grad * 10).mul_(-3)

            handles.append(parameter.register_post_accumulate_grad_hook(update))
        module(x).square().sum().backward()
        for handle in handles:
            handle.remove()
        return [p.detach().clone() for p in module.parameters()]

    both(step)
    assert staged == [1, 2, 3, 4, 5]


def test_all_that_autograd_does(staged):
    def again(module, x):
        loss = module(x).square().sum()
        loss.backward(retain_graph=True)
        loss.backward()
        with pytest.raises(RuntimeError, match="second time"):
            loss.backward()

    def twice_differentiated(module, x):
        (g,) = torch.autograd.grad(module(x).square().sum(), x, create_graph=True)
        g.square().sum().backward()

    def some(module, x):
        result = module(x)
        return torch.autograd.grad(result.sum(), [x, module[1].up.weight], retain_graph=True), \
            torch.autograd.grad(result.sum(), module[3].down.bias)

    def hooked(module, x):
        handle = module[2].up.weight.register_hook(lambda g: g * 2)
        module(x).sum().backward()
        handle.remove()

    def accumulated(module, x):
        for _ in range(3):
            module(x).mean().backward()

    for step in (again, twice_differentiated, some, hooked, accumulated):
        both(step)
    assert len(staged) > 20


def test_what_is_shared(staged):
    class Tied(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.body, self.embed = blocks(2), torch.nn.Embedding(5, 8, dtype=torch.float64)
            self.bias = torch.nn.Parameter(torch.zeros(8))

        def forward(self, x):
            y = self.body(self.embed(torch.arange(3)) + x + self.bias)
            return y @ self.embed.weight.t(), y

    def step(module, x):
        logits, y = module(x)
        (logits.logsumexp(-1).sum() + y.sum()).backward()

    both(step, make=Tied)
    both(lambda module, x: module(x)[0].sum().backward(), make=Tied)
    assert staged


def test_varying_sizes_and_exceptions(staged):
    module, plain = blocks(), blocks()
    compiled = fs.compile(module, tier="wait", dynamic=True)
    for rows in (3, 5, 2):
        for each in (compiled, plain):
            each(inputs(rows)).square().sum().backward()
    torch.testing.assert_close([p.grad for p in module.parameters()], [p.grad for p in plain.parameters()])
    assert staged == [1, 2, 3, 4, 5] * 3

    def refuse(gradient):
        raise KeyError("mine")

    handle = module[2].down.weight.register_hook(refuse)
    before = module[0].up.weight.grad.clone()
    with pytest.raises(KeyError, match="mine"):
        compiled(inputs()).square().sum().backward()
    handle.remove()
    assert torch.equal(module[0].up.weight.grad, before)
    compiled(inputs()).square().sum().backward()
    assert not torch.equal(module[0].up.weight.grad, before)


def test_one_bucket_is_one_stage(monkeypatch):
    monkeypatch.setattr(torch_compat, "bucket_limits", lambda: (1 << 20,))
    compiled = fs.compile(blocks(), tier="wait")
    result = compiled(inputs())
    result.sum().backward()
    assert not any(isinstance(each, StagedBackward) for each in result.grad_fn.unit.backwards.values())


@pytest.fixture
def process_group():
    if not dist.is_available() or not dist.is_gloo_available():
        pytest.skip("torch is built without gloo")
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.parametrize("how", ["inside", "around"])
@pytest.mark.parametrize("option", ["", "find_unused_parameters", "static_graph", "gradient_as_bucket_view"])
def test_buckets_are_reduced_between_the_stages(process_group, how, option):
    options = {option: True} if option else {}
    stages, reduced = [], []
    make = staged_training.take_apart
    module, plain = blocks(), DistributedDataParallel(blocks(), bucket_cap_mb=0.002, **options)
    if how == "inside":
        wrapper = step = DistributedDataParallel(fs.compile(module, tier="wait"), bucket_cap_mb=0.002, **options)
    else:
        wrapper = DistributedDataParallel(module, bucket_cap_mb=0.002, **options)
        step = fs.compile(wrapper, tier="wait")

    def noted(*args):
        stages.append(make(*args))
        return stages[-1]

    def reduce(state, bucket):
        reduced.append(bucket.index())
        done = torch.futures.Future()
        done.set_result(bucket.buffer())
        return done

    wrapper.register_comm_hook(None, reduce)
    x = inputs()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(staged_training, "take_apart", noted)
        for _ in range(3):
            del reduced[:]
            for each in (step, plain):
                each(x).square().sum().backward()
        with wrapper.no_sync(), plain.no_sync():
            count = len(reduced)
            for each in (step, plain):
                each(x).square().sum().backward()
            assert len(reduced) == count
    torch.testing.assert_close([p.grad for p in module.parameters()], [p.grad for p in plain.parameters()])
    assert len(stages) == 1 and len(stages[0]) == len(reduced) > 3
    if how == "around":
        explanation = fs.explain(wrapper)(x)
        assert explanation.graph_count == 1 and not explanation.break_reasons
