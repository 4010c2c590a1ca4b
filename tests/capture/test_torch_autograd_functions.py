"""Functions of autograd: results that are inputs or views of them, written inputs, objects, custom operators."""

from __future__ import annotations

import pytest
import torch
import torch.autograd.forward_ad as forward_ad

import firesteel as fs

BACKENDS = pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])


class Reversed(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def backward(ctx, grad):
        return -grad


class ReversedView(Reversed):
    @staticmethod
    def forward(ctx, x):
        return x[1:]

    @staticmethod
    def backward(ctx, grad):
        return torch.cat([torch.zeros_like(grad[:1]), -grad])


class ReversedContiguous(Reversed):
    @staticmethod
    def forward(ctx, x):
        return x.contiguous()


class ReversedTo(Reversed):
    @staticmethod
    def forward(ctx, x):
        return x.to(torch.float32)


class Dirty(Reversed):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x.mul_(2))
        return x


class Writing(Reversed):
    @staticmethod
    def forward(ctx, x, other):
        other.mul_(2)
        return x * other

    @staticmethod
    def backward(ctx, grad):
        return -grad, None


class WritingOut(Writing):
    @staticmethod
    def forward(ctx, x, other):
        torch.mul(x, 2, out=other)
        return x * 1


class Holder:
    def __init__(self, tensor):
        self.tensor = tensor


class ReturningObject(Reversed):
    @staticmethod
    def forward(ctx, x):
        return Holder(x * 2), x * 3

    @staticmethod
    def backward(ctx, _, grad):
        return -grad


class OnlyReverses(torch.nn.Module):
    def forward(self, x):
        return Reversed.apply(x)


OTHER = torch.ones(2, 3)


def with_its_double(x):
    doubled = x * 2
    return doubled, Reversed.apply(doubled)


def dirty_inside(x):
    doubled = x * 2
    result = Dirty.apply(doubled)
    return result * 1, doubled + 0, result is doubled


def holder_opened(x):
    holder, result = ReturningObject.apply(x)
    return result, holder.tensor, type(holder.tensor).__name__


FUNCTIONS = {
    "identity": Reversed.apply,
    "before a slice": lambda x: Reversed.apply(x)[1:],
    "behind a slice": lambda x: Reversed.apply(x[1:]),
    "one of two results": lambda x: (x * 2, Reversed.apply(x)),
    "beside what it was made of": with_its_double,
    "a view": ReversedView.apply,
    "in a module": OnlyReverses(),
    "contiguous": ReversedContiguous.apply,
    "to": ReversedTo.apply,
    "dirty": dirty_inside,
    "writes an input": lambda x: Writing.apply(x, OTHER),
    "writes with out": lambda x: WritingOut.apply(x, OTHER),
    "an object": holder_opened,
}


def outcome(function, x):
    """The results, the gradients of the results' tensors, and what OTHER holds then."""
    OTHER.fill_(1)
    results = function(x)
    results = results if isinstance(results, tuple) else (results,)
    starts = [result.sum() for result in results if isinstance(result, torch.Tensor) and result.requires_grad]
    tensors, others = ([r for r in results if isinstance(r, torch.Tensor) is wanted] for wanted in (True, False))
    return (tensors, torch.autograd.grad(starts, x), OTHER.clone()), others


@BACKENDS
@pytest.mark.parametrize("name", FUNCTIONS)
def test_backward_is_the_functions_own(name, backend):
    function = FUNCTIONS[name]
    compiled = fs.compile(lambda x: function(x), backend=backend)
    for _ in range(2):
        x = torch.randn(2, 3, requires_grad=True)
        (found, others), (expected, same) = outcome(compiled, x), outcome(function, x)
        torch.testing.assert_close(found, expected)
        assert others == same


@BACKENDS
def test_dirty_argument(backend):
    def run(function):
        x = torch.ones(3, requires_grad=True)
        doubled = x * 2
        result = function(doubled)
        return result, doubled, torch.autograd.grad((result + doubled).sum(), x)

    def dirty(doubled):
        return Dirty.apply(doubled) * 1

    torch.testing.assert_close(run(fs.compile(dirty, backend=backend)), run(dirty))


@torch.library.custom_op("firesteel_tests::tripling_what_it_saved", mutates_args=())
def tripling(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@tripling.register_fake
def _(x):
    return torch.empty_like(x)


def _save(ctx, inputs, output):
    ctx.save_for_backward(inputs[0])


def _triple(ctx, grad):
    (x,) = ctx.saved_tensors
    x.data.mul_(3)
    return grad * x


tripling.register_autograd(_triple, setup_context=_save)


@BACKENDS
def test_backward_that_changes_a_saved_tensor(backend):
    def run(function):
        x = torch.ones(3, requires_grad=True)
        (gradient,) = torch.autograd.grad(function(x).sum(), x)
        return gradient, x

    torch.testing.assert_close(run(fs.compile(lambda x: tripling(x), backend=backend)), run(tripling))


@BACKENDS
def test_weight_norm_with_backward_inside(backend):
    def run(compiler):
        torch.manual_seed(0)
        with pytest.warns(FutureWarning):
            model = torch.nn.utils.weight_norm(torch.nn.Linear(3, 3))

        def step(x):
            model(x).sum().backward()
            return model.weight_g.grad

        return compiler(step)(torch.ones(2, 3)), [parameter.grad for parameter in model.parameters()]

    torch.testing.assert_close(run(lambda step: fs.compile(step, backend=backend)), run(lambda step: step))


@BACKENDS
def test_view_that_is_told_to_require_grad(backend):
    def views(x, w):
        view = x[0]
        view.requires_grad_()
        return view * 2, view, w * 3

    for needs in (False, True):  # something else needs gradients, or nothing does
        x, w = torch.ones(2, 3), torch.ones(3, requires_grad=needs)
        doubled, view, _ = fs.compile(views, backend=backend)(x, w)
        assert doubled.requires_grad and view.requires_grad and view.is_leaf and not x.requires_grad
        assert torch.equal(torch.autograd.grad(doubled.sum(), view)[0], torch.full((3,), 2.0))


@BACKENDS
def test_enable_grad_in_a_call_without(backend):
    def partly(x):
        with torch.enable_grad():
            doubled = x * 2
        return doubled, x * 3

    x = torch.ones(3, requires_grad=True)
    with torch.no_grad():
        doubled, tripled = fs.compile(partly, backend=backend)(x)
    assert not tripled.requires_grad
    assert torch.equal(torch.autograd.grad(doubled.sum(), x)[0], torch.full((3,), 2.0))


@BACKENDS
def test_forward_mode_tangents(backend):
    weight = torch.full((3,), 0.5)
    compiled = fs.compile(lambda x: (x * weight).sin(), backend=backend)
    x, tangent = torch.ones(3), torch.full((3,), 2.0)
    for _ in range(40):  # guards become machine code after some calls
        compiled(x)
        with forward_ad.dual_level():
            result = forward_ad.unpack_dual(compiled(forward_ad.make_dual(x, tangent)))
            torch.testing.assert_close(result.tangent, 0.5 * x.mul(0.5).cos() * tangent)
    assert len(compiled._firesteel_unit.entries) == 1
