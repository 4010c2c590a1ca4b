"""Gradients computed inside compiled functions: backward(), torch.autograd.grad, whole training steps."""

import copy

import pytest
import torch
from tests.torch_differential import check, compile_observed

import firesteel as fs


def leaves():
    return torch.randn(3, 4, requires_grad=True), torch.randn(3, 4, requires_grad=True)


def with_gradients():
    x, y = leaves()
    x.grad = torch.randn(3, 4)
    return x, y


def transposed():
    return torch.randn(4, 3).t().requires_grad_(), torch.randn(3, 8)[:, ::2].requires_grad_()


def plain(x, y):
    loss = (x.sin() * y).sum()
    loss.backward()
    return loss.detach()


def read(x, y):
    (x * y).sum().backward()
    return x.grad * 2, y.grad + 1


def twice(x, y):
    loss = (x * y).sum()
    loss.backward(retain_graph=True)
    loss.backward()


def shared(x, y):
    (x + y).backward(torch.ones(3, 4))
    x.grad.add_(1)
    return x.grad, y.grad


def joined(x, y):
    torch.cat([x, y]).pow(2).sum().backward()


def chosen(x, y):
    (x * y).sum().backward(inputs=[x])
    return y.grad


def several(x, y):
    torch.autograd.backward([x.sum() * 2, y * 3], [None, torch.ones(3, 4)])


def unused(x, y):
    (x * x).sum().backward()
    return y.grad


def made_inside(x, y):
    z = (x * y).detach().requires_grad_()
    (z * z).sum().backward()
    return z, z.grad * 2


def loop(x, y):
    for _ in range(2):
        loss = ((x - y.detach()) ** 2).mean()
        loss.backward()
        with torch.no_grad():
            x -= 0.1 * x.grad
            x.grad = None
    return x, loss.detach()


def kept(x, y):
    x.grad = torch.zeros(3, 4)
    (x * y).sum().backward()
    x.grad *= 2


FUNCTIONS = (plain, read, twice, shared, joined, chosen, several, unused, made_inside, loop, kept)
BACKWARD = {f.__name__: f for f in FUNCTIONS}


@pytest.mark.parametrize("name", BACKWARD)
@pytest.mark.parametrize("make", [leaves, with_gradients, transposed], ids=lambda make: make.__name__)
def test_backward(name, make):
    check(BACKWARD[name], make)


def penalty(x, y):
    (g,) = torch.autograd.grad((x**3 * y).sum(), x, create_graph=True)
    return (g**2).sum()


GRAD = {
    "grad": lambda x, y: torch.autograd.grad((x * y).sum(), [x, y]),
    "weights": lambda x, y: torch.autograd.grad(x * y, x, torch.full((3, 4), 2.0)),
    "unused": lambda x, y: torch.autograd.grad((x * x).sum(), [x, y], allow_unused=True),
    "zeros": lambda x, y: torch.autograd.grad((x * x).sum(), [x, y], materialize_grads=True),
    "intermediate": lambda x, y: (lambda h: torch.autograd.grad((h * h).sum(), h))(x * y),
    "the same": lambda x, y: torch.autograd.grad(x + y, [x, y], torch.ones(3, 4)),
    "penalty": penalty,
}


@pytest.mark.parametrize("name", GRAD)
def test_grad(name):
    check(GRAD[name], leaves, backward=True)


def test_grad_of_an_argument_that_is_no_leaf():
    check(lambda h: torch.autograd.grad((h * h).sum(), h)[0], lambda: (leaves()[0] * 2,))
    outcome = check(lambda h: (h * h).sum().backward(), lambda: (leaves()[0] * 2,), fullgraph=False)
    assert "outside of the compiled function" in outcome.breaks[0]


def test_errors_of_autograd_are_raised():
    def twice(x, y):
        loss = (x * y).sum()
        loss.backward()
        loss.backward()

    check(twice, leaves, fullgraph=False, raises=RuntimeError)
    check(lambda x, y: (x * y).backward(), leaves, fullgraph=False, raises=RuntimeError)


def test_hooks_are_called():
    def hooked():
        x, y = leaves()
        x.register_hook(lambda grad: grad * 10)
        return x, y

    outcome = check(plain, hooked, fullgraph=False)
    assert outcome.breaks == ["backward() calls a hook of a tensor"]
    compiled = fs.compile(plain, backend="eager")
    for make, factor in ((leaves, 1), (hooked, 10), (leaves, 1)):
        x, y = make()
        compiled(x, y)
        torch.testing.assert_close(x.grad, factor * x.detach().cos() * y.detach())


def convnet():
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Flatten(),
        torch.nn.Dropout(0.2), torch.nn.Linear(36, 5),
    )


def train(make_step, model, optimizer, steps=4):
    def step(x, y):
        optimizer.zero_grad(True)
        loss = torch.nn.CrossEntropyLoss()(model(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    step = make_step(step)
    torch.manual_seed(1)
    return [step(torch.randn(6, 3, 8, 8), torch.randint(5, (6,))) for _ in range(steps)]


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_training_step(backend):
    """One graph for everything; the first step finds no gradients and no state of the optimizer."""
    model, other = convnet(), convnet()
    want = train(lambda step: step, model, torch.optim.SGD(model.parameters(), 0.1, momentum=0.9))
    found = []

    def compiled(step):
        found.append(fs.compile(step, backend=backend, fullgraph=True))
        return found[0]

    got = train(compiled, other, torch.optim.SGD(other.parameters(), 0.1, momentum=0.9))
    torch.testing.assert_close(got, want)
    torch.testing.assert_close(list(other.parameters()), list(model.parameters()))
    torch.testing.assert_close([p.grad for p in other.parameters()], [p.grad for p in model.parameters()])
    torch.testing.assert_close(list(other.buffers()), list(model.buffers()))
    assert len(found[0]._firesteel_unit.entries) == 2


def accumulating(model, optimizer, x):
    optimizer.zero_grad(set_to_none=False)
    total = torch.zeros(())
    for part in x.chunk(2):
        loss = model(part).pow(2).mean() / 2
        loss.backward()
        total += loss.detach()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    optimizer.step()
    return total


def autocast(model, optimizer, x):
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = model(x).float().pow(2).mean()
    loss.backward()
    optimizer.step()
    return loss.detach()


@pytest.mark.parametrize("step", [accumulating, autocast])
def test_other_steps(step):
    def run(step):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
        optimizer = torch.optim.AdamW(model.parameters(), 0.1)
        return [step(model, optimizer, torch.randn(4, 4)) for _ in range(3)], list(model.parameters())

    compiled, events = compile_observed(step, fullgraph=True)
    torch.testing.assert_close(run(compiled), run(step))
    assert len(events.entries) == 2


def test_scaled_gradients():
    def run(compiled):
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 2)
        optimizer = torch.optim.SGD(model.parameters(), 0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=4.0, growth_interval=2)

        def step(x):
            optimizer.zero_grad()
            scaler.scale(model(x).pow(2).mean()).backward()
            scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()

        step = fs.compile(step, backend="eager") if compiled else step
        for x in (torch.randn(3, 4), torch.full((3, 4), torch.inf), torch.randn(3, 4), torch.randn(3, 4)):
            step(x)
        return list(model.parameters()), scaler.get_scale()

    torch.testing.assert_close(run(True), run(False))


def test_modules_are_left_alone():
    """Compiled and plain steps can alternate: .grad and state are the program's own objects."""
    model, other = convnet(), convnet()
    optimizers = [torch.optim.Adam(m.parameters(), 0.01) for m in (model, other)]
    want = train(lambda step: step, model, optimizers[0], 4)
    mixed = []

    def alternating(step):
        compiled = fs.compile(step, backend="eager", fullgraph=True)

        def run(*args):
            mixed.append(1)
            return (compiled if len(mixed) % 2 else step)(*args)

        return run

    torch.testing.assert_close(train(alternating, other, optimizers[1], 4), want)
    torch.testing.assert_close(copy.deepcopy(optimizers[1].state_dict()), optimizers[0].state_dict())
