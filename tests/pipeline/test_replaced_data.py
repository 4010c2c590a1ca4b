"""``tensor.data = ...`` between forward and backward: gradients are eager's, or there is an error."""

import pytest
import torch

import firesteel as fs
from firesteel.pipeline.replaced_data import FREED, REPLACED

BACKENDS = pytest.mark.parametrize("backend", ["native", "aot_eager"])


def _gradients(compiled, function, change, *shapes):
    torch.manual_seed(0)
    tensors = [torch.randn(shape).requires_grad_() for shape in shapes]
    result = compiled(function)(*tensors)
    tensors[0].data = change(tensors[0].data)
    result.sum().backward()
    return [tensor.grad for tensor in tensors]


LINEAR = [
    lambda w, x: torch.nn.functional.linear(x, w),
    lambda w, x, b: torch.nn.functional.linear(x, w, b).tanh(),
    lambda w, x: torch.nn.functional.linear(torch.nn.functional.linear(x.relu(), w).sin(), w),
]


@BACKENDS
@pytest.mark.parametrize("function", LINEAR)
@pytest.mark.parametrize("dynamic", [None, True])
@pytest.mark.parametrize("batch", [(3,), (2, 3)])
def test_linear_layers_use_what_forward_saw(backend, function, dynamic, batch):
    shapes = [(4, 4), (*batch, 4), (4,)][:function.__code__.co_argcount]
    plain = _gradients(lambda f: f, function, lambda w: w * 2, *shapes)
    compiled = _gradients(lambda f: fs.compile(f, backend=backend, dynamic=dynamic), function, lambda w: w * 2, *shapes)
    torch.testing.assert_close(compiled, plain)


@BACKENDS
def test_modules(backend):
    def run(compiled):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3))
        x = torch.randn(2, 4, requires_grad=True)
        loss = compiled(model)(x).sum()
        for parameter in model.parameters():
            parameter.data = torch.zeros_like(parameter)
        loss.backward()
        return x.grad, [parameter.grad for parameter in model.parameters()]

    torch.testing.assert_close(run(lambda model: fs.compile(model, backend=backend)), run(lambda model: model))


@BACKENDS
@pytest.mark.parametrize("function", [
    lambda w, x: x * w, lambda w, x: (x * w).sum(), lambda w, x: w * x * w, lambda w, x: (w * x).sin(),
    lambda w, x: w.t() @ x, lambda w, x: x.exp() @ w, lambda w, x: w.sin() * x,
    lambda w, x: torch.einsum("ij,ik", w, x),
    lambda w, x: x / w, lambda w, x: w.T * x, lambda w, x: w.view(-1) * x.view(-1), lambda w, x: w * w * x,
    lambda w, x: torch.nn.functional.linear(x, w) * w, lambda w, x: torch.nn.functional.linear(w, x),
    lambda w, x: torch.nn.functional.linear(x, w.t()), lambda w, x: torch.softmax(x * w, 0)])
def test_others_are_eager_s_or_an_error(backend, function):
    def compiled(f):
        return fs.compile(f, backend=backend)

    plain = _gradients(lambda f: f, function, lambda w: w * 2, (4, 4), (4, 4))
    try:
        gradients = _gradients(compiled, function, lambda w: w * 2, (4, 4), (4, 4))
    except RuntimeError as error:
        assert str(error) == REPLACED
    else:
        torch.testing.assert_close(gradients, plain)
    same = _gradients(lambda f: f, function, torch.clone, (4, 4), (4, 4))
    torch.testing.assert_close(_gradients(compiled, function, torch.clone, (4, 4), (4, 4)), same)


@BACKENDS
def test_convolutions_use_what_is_there_now(backend):
    shapes = (5, 3, 3, 3), (2, 3, 8, 8)
    plain = _gradients(lambda f: f, lambda w, x: torch.conv2d(x, w), lambda w: w * 2, *shapes)
    compiled = _gradients(lambda f: fs.compile(f, backend=backend), lambda w, x: torch.conv2d(x, w), lambda w: w * 2,
                          *shapes)
    torch.testing.assert_close(compiled, plain, rtol=1e-4, atol=1e-4)


def _reallocated(tensor, between=None):
    """Free the memory of a tensor and allocate it elsewhere, as sharded parameters do."""
    values, storage = tensor.detach().clone(), tensor.untyped_storage()
    size = storage.size()
    storage.resize_(0)
    if between is not None:
        between()
    taken = torch.empty(size, dtype=torch.uint8)  # so that it comes to lie elsewhere
    storage.resize_(size)
    with torch.autograd._unsafe_preserve_version_counter(tensor), torch.no_grad():
        tensor.copy_(values)
    return taken


@BACKENDS
@pytest.mark.parametrize("function", [*LINEAR, lambda w, x: (x @ w).sin() @ w, lambda w, x: x * w[:3]])
def test_memory_that_was_freed_and_filled_again_is_read_as_it_is_now(backend, function):
    def run(compiled):
        torch.manual_seed(0)
        shapes = [(4, 4), (3, 4), (4,)][:function.__code__.co_argcount]
        w, *others = [torch.randn(shape).requires_grad_() for shape in shapes]
        result = compiled(function)(w, *others)
        taken = _reallocated(w)
        result.sum().backward()
        del taken
        return [one.grad for one in (w, *others)]

    torch.testing.assert_close(run(lambda f: fs.compile(f, backend=backend)), run(lambda f: f))


@BACKENDS
def test_memory_that_is_not_there_is_never_read(backend):
    w, x = torch.randn(4, 4, requires_grad=True), torch.randn(3, 4, requires_grad=True)
    result = fs.compile(LINEAR[0], backend=backend)(w, x)

    def between():
        with pytest.raises(RuntimeError) as error:
            result.sum().backward()
        assert str(error.value) == FREED

    _reallocated(w, between)
