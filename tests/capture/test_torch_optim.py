"""Optimizers stepping inside compiled functions."""

import copy

import pytest
import torch
from tests.torch_differential import check, compile_observed

import firesteel as fs

OPTIMIZERS = {
    "SGD": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, weight_decay=0.01, nesterov=True),
    "SGD plain": lambda p: torch.optim.SGD(p, 0.1),
    "Adam": lambda p: torch.optim.Adam(p, 0.1),
    "Adam single": lambda p: torch.optim.Adam(p, 0.1, foreach=False, amsgrad=True),
    "AdamW": lambda p: torch.optim.AdamW(p, 0.1),
    "NAdam": lambda p: torch.optim.NAdam(p, 0.1),
    "RAdam": lambda p: torch.optim.RAdam(p, 0.1),
    "Adamax": lambda p: torch.optim.Adamax(p, 0.1),
    "Adadelta": lambda p: torch.optim.Adadelta(p),
    "Adagrad": lambda p: torch.optim.Adagrad(p),
    "RMSprop": lambda p: torch.optim.RMSprop(p, momentum=0.5, centered=True),
    "Rprop": lambda p: torch.optim.Rprop(p),
    "ASGD": lambda p: torch.optim.ASGD(p),
    "Adafactor": lambda p: torch.optim.Adafactor(p),
    "foreach": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, foreach=True),
    "tensor lr": lambda p: torch.optim.Adam(p, torch.tensor(0.1)),
    "Adam foreach": lambda p: torch.optim.Adam(p, 0.1, foreach=True),
    "Adamax foreach": lambda p: torch.optim.Adamax(p, 0.1, foreach=True),
    "NAdam foreach": lambda p: torch.optim.NAdam(p, 0.1, foreach=True, decoupled_weight_decay=True),
    "RAdam foreach": lambda p: torch.optim.RAdam(p, 0.1, foreach=True),
    "ASGD foreach": lambda p: torch.optim.ASGD(p, foreach=True),
    "Adam fused": lambda p: torch.optim.Adam(p, 0.1, fused=True, amsgrad=True, weight_decay=0.1),
    "AdamW fused": lambda p: torch.optim.AdamW(p, torch.tensor(0.1), fused=True, maximize=True),
    "SGD fused": lambda p: torch.optim.SGD(p, 0.1, momentum=0.9, nesterov=True, weight_decay=0.1, fused=True),
    "Adagrad fused": lambda p: torch.optim.Adagrad(p, lr_decay=0.1, weight_decay=0.1, fused=True),
    "groups": lambda p: torch.optim.SGD([{"params": p[:1], "lr": 0.5}, {"params": p[1:]}], 0.1, momentum=0.9),
}


def train(step, make, model, batches):
    optimizer = make(list(model.parameters()))
    losses = [step(model, optimizer, batch) for batch in batches]
    return optimizer, losses


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizer(name):
    def step(model, optimizer, x):
        optimizer.zero_grad()
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    torch.manual_seed(0)
    plain = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    other = copy.deepcopy(plain)
    batches = [torch.randn(3, 4) for _ in range(5)]
    optimizer, losses = train(step, OPTIMIZERS[name], plain, batches)
    compiled, events = compile_observed(step, fullgraph=False)
    compiled_optimizer, compiled_losses = train(compiled, OPTIMIZERS[name], other, batches)
    for a, b in zip(losses, compiled_losses):
        torch.testing.assert_close(a, b)  # steps are counted in tensors when compiling, in floats otherwise
    for a, b in zip(plain.parameters(), other.parameters()):
        torch.testing.assert_close(a, b)
    want, got = optimizer.state_dict(), compiled_optimizer.state_dict()
    torch.testing.assert_close(want["state"], got["state"])
    assert str(want["param_groups"]) == str(got["param_groups"])
    # the first steps create the state; after that nothing changes any more
    per_unit = {}
    for unit, _ in events.entries:
        per_unit[unit] = per_unit.get(unit, 0) + 1
    assert not events.break_reasons, [reason.reason for reason in events.break_reasons]
    assert max(per_unit.values()) <= 2, [why for _, why in events.recompiles]


KERNELS = ["Adam", "Adam foreach", "RAdam", "Adam fused", "AdamW fused", "SGD fused", "Adagrad fused"]


@pytest.mark.parametrize("name", KERNELS)
def test_optimizer_in_kernels(name):
    """The step alone, compiled to machine code, for tensors of several shapes, one without dimensions."""

    def run(compiled):
        torch.manual_seed(0)
        parameters = [torch.randn(shape, requires_grad=True) for shape in ((3, 4), (7,), ())]
        optimizer = OPTIMIZERS[name](parameters)
        step = fs.compile(optimizer.step, backend="native", fullgraph=True) if compiled else optimizer.step
        for _ in range(7):
            for parameter in parameters:
                parameter.grad = torch.randn_like(parameter)
            step()
        return parameters, optimizer.state_dict()["state"]

    torch.testing.assert_close(run(True), run(False))


SCHEDULERS = {
    "step": lambda o: torch.optim.lr_scheduler.StepLR(o, 2),
    "lambda": lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda epoch: 0.95**epoch),
    "exponential": lambda o: torch.optim.lr_scheduler.ExponentialLR(o, 0.9),
    "cosine": lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 20),
    "milestones": lambda o: torch.optim.lr_scheduler.MultiStepLR(o, [4]),
}


@pytest.mark.parametrize("name", SCHEDULERS)
def test_schedulers_do_not_recompile(name):
    """A learning rate that changes is a number that the graph is given."""

    def run(compiled, inside):
        torch.manual_seed(0)
        weight = torch.randn(3, 4, requires_grad=True)
        optimizer = torch.optim.AdamW([weight], 0.1, foreach=not inside, fused=inside)
        scheduler = SCHEDULERS[name](optimizer)

        def step(x):
            optimizer.zero_grad()
            (weight * x).pow(2).mean().backward()
            optimizer.step()
            if inside:
                scheduler.step()

        events = None
        if compiled:
            step, events = compile_observed(step, fullgraph=True)
        for _ in range(7):
            step(torch.randn(3, 4))
            if not inside:
                scheduler.step()
        return weight, optimizer.param_groups[0]["lr"], events

    for inside in (False, True):
        want, got = run(False, inside), run(True, inside)
        torch.testing.assert_close(got[:2], want[:2])
        # without state, with state, a learning rate that has changed; and the steps that are special in some schedules
        assert len(got[2].entries) <= (5 if inside and name in ("step", "milestones") else 3)


def test_lbfgs():
    def run(step_of):
        torch.manual_seed(0)
        x = torch.randn(3, requires_grad=True)
        optimizer = torch.optim.LBFGS([x], max_iter=3)

        def closure():
            optimizer.zero_grad()
            loss = ((x - 1) ** 2).sum()
            loss.backward()
            return loss

        return [step_of(optimizer, closure).item() for _ in range(2)], x

    plain = run(lambda o, c: o.step(c))
    compiled, _ = compile_observed(lambda o, c: o.step(c), fullgraph=False)
    other = run(compiled)
    torch.testing.assert_close(other, plain)


def test_schedulers_clipping_and_scaling():
    def step(model, optimizer, scheduler, x):
        optimizer.zero_grad(set_to_none=False)
        loss = model(x).pow(2).mean()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        torch.nn.utils.clip_grad_value_(model.parameters(), 0.05)
        optimizer.step()
        scheduler.step()
        return loss.detach(), norm

    def run(step):
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 2)
        optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
        results = [step(model, optimizer, scheduler, torch.randn(3, 4)) for _ in range(5)]
        return results, list(model.parameters()), optimizer.param_groups[0]["lr"]

    compiled, _ = compile_observed(step, fullgraph=False)
    plain, other = run(step), run(compiled)
    assert str(plain) == str(other)


def test_clipping_in_one_graph():
    def with_gradients():
        xs = [torch.randn(3, requires_grad=True), torch.randn(2, requires_grad=True)]
        (xs[0].sum() * 3 + xs[1].sum()).backward()
        return (xs,)

    check(lambda xs: (torch.nn.utils.clip_grad_norm_(xs, 0.1), [x.grad * 1 for x in xs]), with_gradients)
    check(lambda xs: torch.nn.utils.clip_grad_norm_(xs, 0.1, norm_type=float("inf"), foreach=False), with_gradients)
    check(lambda xs: (torch.nn.utils.clip_grad_value_(xs, 0.1), xs[0].grad * 1), with_gradients)
    check(lambda xs: torch.nn.utils.get_total_norm([x.grad for x in xs]), with_gradients)


def test_average_of_weights():
    def step(average, model, x):
        with torch.no_grad():
            for p, q in zip(average.parameters(), model.parameters()):
                p.lerp_(q, 0.1)
        return average(x)

    def run(step):
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 2)
        average = copy.deepcopy(model)
        with torch.no_grad():
            model.weight.add_(1)
        return [step(average, model, torch.ones(1, 4)) for _ in range(3)], average.weight

    compiled, events = compile_observed(step, fullgraph=True)
    assert str(run(step)) == str(run(compiled))
    assert len(events.entries) == 1
