"""Backward operators in kernels: values, layouts and accuracy against eager, and that ATen is not called for them."""

import pytest
import torch
from tests.conformance.gradients import joint_module
from torch.nn import functional as F
from torch.utils import _pytree as pytree

from firesteel.kernels.ir import ExternCall
from firesteel.kernels.options import make_options
from firesteel.pipeline.compile import compile_graph


def leaf(*size, dtype=torch.float32, scale=1.0, shift=0.0):
    return (torch.randn(*size, dtype=dtype) * scale + shift).requires_grad_()


def compiled_gradients(function, *args):
    """Gradients from kernels and from eager, and the ATen operators that the compiled program calls."""
    module, inputs = joint_module(function, (args, {}))
    made = compile_graph(module, inputs, make_options())
    calls = {str(step.target) for step in made.plan.steps if isinstance(step, ExternCall)
             and isinstance(step.target, torch._ops.OpOverload)}
    got = made.run(*[x.detach() for x in inputs])
    return list(got), list(module(*inputs)), calls


def check(function, *args, called=()):
    torch.manual_seed(1)
    got, want, calls = compiled_gradients(function, *args)
    assert calls <= set(called), calls
    exact = joint_module(function, (pytree.tree_map(_double, args), {}))
    exact = exact[0](*exact[1])
    for ours, eager, true in zip(got, want, exact, strict=True):
        torch.testing.assert_close(ours, eager)
        assert ours.stride() == eager.stride()
        errors = [(part.double() - true).abs().max().item() for part in (ours, eager)]
        assert errors[0] <= 2 * errors[1] + 2 * torch.finfo(ours.dtype).eps * true.abs().max().item()


def _double(x):
    if isinstance(x, torch.Tensor) and x.is_floating_point():
        return x.detach().double().requires_grad_(x.requires_grad)
    return x


# ---------------------------------------------------------------------------------------------------------------------
# norms


@pytest.mark.parametrize("affine", [True, False])
def test_layer_norm(affine):
    torch.manual_seed(0)
    parameters = (leaf(3, 40, shift=1.0), leaf(3, 40)) if affine else (None, None)
    check(lambda x, w, b: F.layer_norm(x, (3, 40), w, b), leaf(6, 5, 3, 40, shift=3.0), *parameters)


def test_rms_norm():
    torch.manual_seed(0)
    check(lambda x, w: F.rms_norm(x, (33,), w), leaf(4, 7, 33), leaf(33))


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("last", [False, True])
def test_batch_norm(training, last):
    torch.manual_seed(0)
    x = torch.randn(4, 6, 7, 5)
    x = (x.contiguous(memory_format=torch.channels_last) if last else x).requires_grad_()
    mean, var = torch.randn(6), torch.rand(6) + 0.5
    grad = torch.randn_like(x)

    def function(x, w, b, mean, var, grad):
        return (F.batch_norm(x, mean, var, w, b, training) * grad).sum()

    check(function, x, leaf(6), leaf(6), mean, var, grad)


def test_batch_norm_without_parameters_or_statistics():
    torch.manual_seed(0)
    check(lambda x: F.batch_norm(x, None, None, training=True), leaf(8, 3, 11))


@pytest.mark.parametrize("affine", [True, False])
def test_group_norm(affine):
    torch.manual_seed(0)
    parameters = (leaf(6), leaf(6)) if affine else (None, None)
    check(lambda x, w, b: F.group_norm(x, 3, w, b), leaf(2, 6, 5, 4), *parameters)


# ---------------------------------------------------------------------------------------------------------------------
# softmax and losses


@pytest.mark.parametrize("dim", [0, -1])
def test_softmax(dim):
    torch.manual_seed(0)
    check(lambda x: F.softmax(x, dim), leaf(9, 33, scale=3.0))
    check(lambda x: F.log_softmax(x, dim), leaf(9, 33, scale=3.0))


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("shape", [(7, 11), (2, 5, 3, 4), (4,)])
def test_cross_entropy(reduction, shape):
    torch.manual_seed(0)
    classes = shape[0] if len(shape) == 1 else shape[1]
    target = torch.randint(0, classes, (shape[0], *shape[2:]) if len(shape) > 1 else ())
    check(lambda x, t, w: F.cross_entropy(x, t, w, reduction=reduction), leaf(*shape), target, torch.rand(classes))
    if len(shape) > 1:
        target.flatten()[1] = 2
        check(lambda x, t: F.cross_entropy(x, t, reduction=reduction, ignore_index=2), leaf(*shape), target)


def test_targets_that_are_all_ignored():
    got, want, _ = compiled_gradients(lambda x, t: F.cross_entropy(x, t, ignore_index=0), leaf(3, 4),
                                      torch.zeros(3, dtype=torch.int64))
    assert torch.equal(got[0], want[0])


@pytest.mark.parametrize("loss", [
    F.mse_loss, F.smooth_l1_loss, F.huber_loss, F.binary_cross_entropy_with_logits, F.l1_loss,
    lambda x, y, reduction: F.soft_margin_loss(x, y.detach().sign(), reduction=reduction) + y,
    lambda x, y, reduction: F.binary_cross_entropy(x.sigmoid(), y.sigmoid(), reduction=reduction),
    lambda x, y, reduction: F.kl_div(x, y, reduction=reduction, log_target=True),
])  # fmt: skip
@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_elementwise_losses(loss, reduction):
    torch.manual_seed(0)
    check(lambda x, y: loss(x, y, reduction=reduction), leaf(6, 9), leaf(6, 9))


@pytest.mark.parametrize("function", [
    F.logsigmoid, F.mish, F.hardshrink, F.softshrink, F.glu, lambda x: F.prelu(x, x.mean(0).mean().reshape(1)),
    lambda x: F.rrelu(x, training=False), F.selu, F.hardswish, lambda x: x.sigmoid().logit(0.3),
])  # fmt: skip
def test_activations(function):
    torch.manual_seed(0)
    check(function, leaf(6, 10, scale=3.0), called={"aten.rrelu_with_noise_functional.default"})


# ---------------------------------------------------------------------------------------------------------------------
# pooling and resampling


@pytest.mark.parametrize("pool", [
    lambda x: F.max_pool2d(x, 3, 2, 1), lambda x: F.max_pool2d(x, 2), lambda x: F.max_pool2d(x, 3, 1, 1, 2),
    lambda x: F.avg_pool2d(x, 3, 2, 1), lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True, count_include_pad=False),
    lambda x: F.avg_pool2d(x, 2, divisor_override=3), lambda x: F.adaptive_avg_pool2d(x, (3, 4)),
    lambda x: F.adaptive_avg_pool2d(x, (11, 2)), lambda x: F.adaptive_max_pool2d(x, (3, 4)),
    lambda x: F.max_pool3d(x.contiguous(), 2), lambda x: F.avg_pool3d(x.contiguous(), 2),
    lambda x: F.adaptive_avg_pool3d(x, (2, 3, 3)),
])  # fmt: skip
@pytest.mark.parametrize("last", [False, True])
def test_pooling(pool, last):
    torch.manual_seed(0)
    x = torch.randn(2, 3, 10, 9)
    check(pool, (x.contiguous(memory_format=torch.channels_last) if last else x).requires_grad_())


@pytest.mark.parametrize("settings", [
    dict(scale_factor=2, mode="nearest"), dict(size=(7, 13), mode="nearest"), dict(size=(7, 13), mode="nearest-exact"),
    dict(scale_factor=2, mode="bilinear"), dict(size=(7, 13), mode="bilinear", align_corners=True),
    dict(size=(7, 13), mode="bicubic"),
])  # fmt: skip
def test_resampling(settings):
    torch.manual_seed(0)
    check(lambda x: F.interpolate(x, **settings), leaf(2, 3, 5, 6))


# ---------------------------------------------------------------------------------------------------------------------
# places


@pytest.mark.parametrize("settings", [{}, {"padding_idx": 2}, {"scale_grad_by_freq": True}])
def test_embedding(settings):
    torch.manual_seed(0)
    indices = torch.randint(0, 6, (5, 40))
    check(lambda w, i: F.embedding(i, w, **settings), leaf(6, 300), indices)


def test_embedding_in_bfloat16_adds_up_in_float():
    indices = torch.zeros(300, dtype=torch.int64)
    got, _, _ = compiled_gradients(lambda w, i: F.embedding(i, w), leaf(3, 4, dtype=torch.bfloat16), indices)
    grads = torch.arange(1200, dtype=torch.float64).reshape(300, 4) % 7
    exact = ((grads - 3) / 4 + 0.1).to(torch.bfloat16).double().sum(0)
    assert torch.equal(got[0][0], exact.to(torch.bfloat16))


@pytest.mark.parametrize("function", [
    lambda x: x[1:7:2, ..., -3:], lambda x: x.select(1, -1), lambda x: x.diagonal(1, 0, 2), lambda x: x.unfold(0, 4, 2),
    lambda x: F.pad(x, (2, 1, 1, 3), mode="reflect"), lambda x: F.pad(x, (2, 1), mode="replicate"),
    lambda x: x.gather(0, torch.arange(24).reshape(2, 4, 3) % 8), lambda x: x[torch.tensor([3, 0, 3, -1])],
    lambda x: x.index_select(1, torch.tensor([2, 2, 0])), lambda x: x.cumsum(1), lambda x: x.std(1),
    lambda x: x.amax(0), lambda x: x.logsumexp(-1),
])  # fmt: skip
def test_views_and_indices(function):
    torch.manual_seed(0)
    check(function, leaf(8, 5, 6), called={"aten.clone.default"})


def test_gradients_of_equal_places_add_up_in_the_same_order_every_time():
    torch.manual_seed(0)
    module, inputs = joint_module(lambda w, i: F.embedding(i, w), ((leaf(3, 512), torch.randint(0, 3, (4000,))), {}))
    run = compile_graph(module, inputs, make_options()).run
    first = run(*[x.detach() for x in inputs])[0]
    assert all(torch.equal(first, run(*[x.detach() for x in inputs])[0]) for _ in range(3))


# ---------------------------------------------------------------------------------------------------------------------
# lists of tensors and optimizer steps


@pytest.mark.parametrize("fused", [torch._fused_adam_, torch._fused_adamw_])
@pytest.mark.parametrize("overflow", [None, 0.0, 1.0])
def test_fused_steps(fused, overflow):
    def step(*tensors):
        columns = [list(tensors[k::2]) for k in range(2)]
        params, grads, means, squares, largest, counts = zip(*columns, strict=True)
        scaler = {}
        if overflow is not None:
            scaler = {"grad_scale": torch.full((), 2.0), "found_inf": torch.full((), overflow)}
        fused(params, grads, means, squares, largest, counts, lr=0.1, beta1=0.9, beta2=0.99, weight_decay=0.1,
              eps=1e-8, amsgrad=True, maximize=True, **scaler)  # fmt: skip
        return ()

    torch.manual_seed(0)
    tensors = [torch.rand(size) for _ in range(5) for size in ((3, 4), (5,))] + [torch.tensor(4.0), torch.tensor(2.0)]
    expected = [x.clone() for x in tensors]
    graph = torch.fx.Graph()
    graph.output(graph.call_function(step, tuple([graph.placeholder(f"x{k}") for k in range(len(tensors))])))
    made = compile_graph(torch.fx.GraphModule({}, graph), tensors, make_options())
    made.run(*tensors)
    step(*expected)
    torch.testing.assert_close(tensors, expected)
    assert not made.lowered.fallbacks
