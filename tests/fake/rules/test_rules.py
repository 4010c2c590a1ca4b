"""Every rule against eager: shapes, strides, dtypes, on contiguous and on awkward layouts."""

import itertools

import pytest
import torch
import torch.nn.functional as F

from fake.rules.rule_checks import RuleRecorder, assert_same, layouts
from firesteel.torch_compat.random_operators import bernoulli_strided

aten = torch.ops.aten
recorder = RuleRecorder(__file__)
record_rules = recorder.fixture()


UNARY = (
    "abs sgn sign floor ceil round trunc relu neg sin cos tan asin acos atan sinh cosh tanh asinh acosh atanh "
    "exp exp2 expm1 log log2 log10 log1p sqrt rsqrt reciprocal sigmoid erf erfc erfinv lgamma digamma gelu silu mish "
    "hardswish hardsigmoid leaky_relu elu softplus bitwise_not logical_not isinf isnan isposinf isneginf signbit"
).split()


@pytest.mark.parametrize("name", UNARY)
def test_unary(name):
    op = getattr(aten, name).default
    for x in layouts().values():
        assert_same(op, x)
    for dtype in (torch.int32, torch.bool, torch.float64, torch.bfloat16, torch.complex64):
        assert_same(op, torch.ones(3, 2).to(dtype).t())


BINARY = (
    "add.Tensor sub.Tensor mul.Tensor div.Tensor rsub.Tensor remainder.Tensor fmod.Tensor pow.Tensor_Tensor "
    "atan2.default xlogy.Tensor maximum.default minimum.default fmax.default fmin.default bitwise_and.Tensor "
    "bitwise_or.Tensor bitwise_xor.Tensor eq.Tensor ne.Tensor lt.Tensor le.Tensor gt.Tensor ge.Tensor "
    "logical_and.default logical_or.default logical_xor.default copysign.Tensor floor_divide.default heaviside.default "
    "hypot.default logaddexp.default logaddexp2.default special_xlog1py.default"
).split()


def overload(name):
    packet, which = name.split(".")
    return getattr(getattr(aten, packet), which)


@pytest.mark.parametrize("name", BINARY)
def test_binary_dtypes(name):
    dtypes = (torch.float32, torch.int64, torch.int16, torch.bool, torch.bfloat16, torch.complex64)
    for a, b in itertools.product(dtypes, dtypes):
        assert_same(overload(name), torch.ones(2, 3).to(a), torch.ones(3).to(b))
        assert_same(overload(name), torch.ones(2, 3).to(a), torch.ones(()).to(b))


@pytest.mark.parametrize("name", ["add.Tensor", "gt.Tensor", "rsub.Tensor", "copysign.Tensor", "logaddexp.default"])
def test_binary_layouts(name):
    for a, b in itertools.product(layouts().values(), layouts().values()):
        assert_same(overload(name), a, b)


AWKWARD = [(4, 1), (1, 3), (0, 1), (1, 0), (8, 2), (2, 6)]


@pytest.mark.parametrize("name", ["mul.Tensor", "xlogy.Tensor", "eq.Tensor", "pow.Tensor_Tensor"])
def test_layouts_of_operands_that_eager_converts(name):
    numbers = torch.ones(40)
    for a, b in itertools.product(AWKWARD, AWKWARD):
        for x, y in ((torch.uint8, torch.float32), (torch.float64, torch.int64), (torch.uint8, torch.uint8)):
            assert_same(overload(name), numbers.to(x).as_strided((3, 4), a), numbers.to(y).as_strided((3, 4), b))


def test_layouts_of_arguments_that_eager_converts():
    for sizes, stride in itertools.product([(3, 4), (3, 1)], AWKWARD):
        x = torch.ones(40).as_strided(sizes, stride)
        assert_same(aten.tanh.default, torch.ones(40, dtype=torch.int64).as_strided(sizes, stride))
        assert_same(aten.pow.Tensor_Scalar, torch.ones(40, dtype=torch.uint8).as_strided(sizes, stride), 2.5)
        assert_same(aten.isinf.default, torch.ones(40, dtype=torch.complex64).as_strided(sizes, stride))
        assert_same(aten.where.self, x > 0, torch.ones(40, dtype=torch.uint8).as_strided(sizes, stride), x)


SCALAR = (
    "add.Scalar sub.Scalar mul.Scalar div.Scalar rsub.Scalar remainder.Scalar fmod.Scalar pow.Tensor_Scalar eq.Scalar "
    "ne.Scalar lt.Scalar le.Scalar gt.Scalar ge.Scalar clamp_min.default clamp_max.default add.Tensor mul.Tensor "
    "div.Tensor sub.Tensor floor_divide.Scalar"
).split()


@pytest.mark.parametrize("name", SCALAR)
def test_with_number(name):
    for x in layouts().values():
        assert_same(overload(name), x, 2)
    for dtype, number in itertools.product(
        (torch.float32, torch.int64, torch.uint8, torch.bool, torch.bfloat16), (True, 2, 2.5, 1j)
    ):
        assert_same(overload(name), torch.ones(2, 3).to(dtype), number)
        assert_same(overload(name), torch.ones(()).to(dtype), number)


def test_number_with_other_default_dtype():
    with_double = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        assert_same(torch.add, torch.ones(2, dtype=torch.int64), 2.5)
        assert_same(torch.sin, torch.ones(2, dtype=torch.int64))
        assert_same(torch.roll, torch.ones(2, dtype=torch.int64), 1)
    finally:
        torch.set_default_dtype(with_double)


@pytest.mark.parametrize("alpha", [1, 2, 0.5, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64, torch.bool])
def test_alpha(alpha, dtype):
    x = torch.ones(2, 3).to(dtype)
    assert_same(torch.add, x, x, alpha=alpha)
    assert_same(torch.sub, x, x, alpha=alpha)


def test_losses_and_their_like():
    for x, y in itertools.product(layouts().values(), layouts().values()):
        for reduction in ("none", "mean") if x.shape == y.shape else ():
            assert_same(F.smooth_l1_loss, x, y, reduction=reduction)
            assert_same(F.huber_loss, x, y, reduction=reduction)
    for x in layouts().values():
        assert_same(aten.log_sigmoid_forward.default, x)
        assert_same(F.logsigmoid, x.bfloat16())
        for dim in range(x.dim()):
            assert_same(F.glu, torch.cat([x, x], dim), dim)


def test_ternary():
    tensors = list(layouts().values())
    for a, b, c in zip(tensors, tensors[1:] + tensors[:1], tensors[3:] + tensors[:3]):
        assert_same(torch.where, a > 0, b, c)
        assert_same(torch.addcmul, a, b, c)
        assert_same(torch.addcdiv, a, b, c, value=2)
        assert_same(torch.lerp, a, b, c)
        assert_same(torch.lerp, a, b, 0.5)
    assert_same(torch.where, torch.ones(3) > 0, torch.ones(3), torch.ones((), dtype=torch.float64))
    assert_same(torch.where, torch.ones(3) > 0, torch.ones(3, dtype=torch.int64), 2.5)
    assert_same(torch.addcmul, torch.ones(3), torch.ones(3, dtype=torch.int64), torch.ones(3))
    for x in tensors:
        assert_same(torch.clamp, x, 0, 1)
        assert_same(torch.clamp, x, min=0.5)
        assert_same(torch.masked_fill, x, x > 0, 2.0)
        assert_same(torch.masked_fill, x, torch.ones(5) > 0, torch.tensor(2.0))
    assert_same(torch.clamp, torch.ones(3, dtype=torch.int64), 0, 1.5)


VIEWS = {
    "view": [lambda x: x.view(6, 20), lambda x: x.view(-1), lambda x: x.view(2, 3, -1), lambda x: x.view(7, -1)],
    "view ones": [lambda x: x.view(*x.shape, 1), lambda x: x.view(1, *x.shape)],
    "reshape": [lambda x: x.reshape(6, -1), lambda x: x.reshape(-1), lambda x: x.reshape(3, 40)],
    "transpose": [lambda x: x.transpose(0, -1), lambda x: x.transpose(1, 9), lambda x: x.mT],
    "t": [lambda x: x.t(), lambda x: x.flatten(0, 2).t() if x.ndim == 4 else x],
    "permute": [lambda x: x.permute(3, 1, 0, 2), lambda x: x.permute(0, 0, 1, 2), lambda x: x.permute(-1, 0, 1, 2)],
    "expand": [
        lambda x: x.expand(7, *x.shape),
        lambda x: x.expand(1, 1, *x.shape),
        lambda x: x[:, :1].expand(-1, 9, -1, -1),
        lambda x: x.expand(9, 9, 9, 9),
    ],
    "unsqueeze": [
        lambda x: x.unsqueeze(0),
        lambda x: x.unsqueeze(-1),
        lambda x: x.unsqueeze(2),
        lambda x: x.unsqueeze(9),
    ],
    "squeeze": [
        lambda x: x.squeeze(),
        lambda x: x.squeeze(0),
        lambda x: x.squeeze((0, 2)),
        lambda x: x.squeeze((0, 0)),
        lambda x: torch.view_copy(x, (-1,)),
        lambda x: torch.squeeze_copy(x),
        lambda x: torch.squeeze_copy(x, 0),
        lambda x: torch.squeeze_copy(x, (0, 2)),
    ],
    "select": [lambda x: x[1], lambda x: x[-1], lambda x: x.select(2, 3), lambda x: x[..., 2], lambda x: x[99]],
    "slice": [
        lambda x: x[1:],
        lambda x: x[:, 1:-1],
        lambda x: x[..., ::2],
        lambda x: x[5:],
        lambda x: x[3:1],
        lambda x: x[-100:100],
    ],
    "split": [
        lambda x: x.split(2, -1),
        lambda x: x.split([1, 1], 0),
        lambda x: x.split([1, 2], 0),
        lambda x: x.chunk(3, 1),
        lambda x: x.split(0, 1),
        lambda x: x[:, :0].split(0, 1),
        lambda x: x[:, :0].split(-1, 1),
    ],
    "unbind": [lambda x: x.unbind(1), lambda x: x.unbind(-1)],
    "as_strided": [
        lambda x: x.as_strided((2, 2), (1, 2)),
        lambda x: x.as_strided((999,), (9,)),
        lambda x: x.as_strided((0,), (1,), 3),
    ],
    "alias": [lambda x: x.detach(), lambda x: aten.alias(x), lambda x: x.data, lambda x: x.view_as(x)],
    "meta views": [lambda x: x.diagonal(), lambda x: x.unfold(-1, 2, 1), lambda x: x.movedim(0, -1)],
    "copies": [
        lambda x: x.clone(),
        lambda x: x.contiguous(),
        lambda x: x.clone(memory_format=torch.contiguous_format),
        lambda x: x.to(memory_format=torch.channels_last),
        lambda x: x.double(),
        lambda x: x.to(torch.int32, memory_format=torch.contiguous_format),
        lambda x: torch.empty_like(x),
        lambda x: torch.zeros_like(x, dtype=torch.int64),
        lambda x: torch.full_like(x, 3),
        lambda x: torch.ones_like(x, memory_format=torch.contiguous_format),
        lambda x: x.new_zeros(3, 4),
        lambda x: x.new_empty(3, 4),
        lambda x: x.new_ones(3, dtype=torch.int64),
        lambda x: torch.rand_like(x),
        lambda x: torch.randn_like(x),
        lambda x: x.new_full((2,), 3, dtype=torch.int32),
        lambda x: x.new_empty_strided((2, 3), (1, 2)),
    ],
}


@pytest.mark.parametrize("name", VIEWS)
def test_views_and_copies(name):
    for x, fn in itertools.product(layouts().values(), VIEWS[name]):
        assert_same(fn, x)


def test_copies_that_are_written_to_keep_their_gaps():
    for name, x in layouts().items():
        if name != "offset":  # of the whole storage, where eager copies that
            assert_same(lambda x: torch.select_scatter(x, x.select(-1, 0) * 2, -1, 0), x)
            assert_same(lambda x: torch.slice_scatter(x, x[..., 1:] * 2, -1, 1), x)
            assert_same(lambda x: torch.diagonal_scatter(x, x.diagonal() * 2), x)
            assert_same(lambda x: torch.as_strided_scatter(x, x.new_ones(2), (2,), (1,)), x)


IN_PLACE = [
    lambda x: x.add_(1),
    lambda x: x.add_(x),
    lambda x: x.mul_(torch.ones(5)),
    lambda x: x.add_(torch.ones(9, *x.shape)),
    lambda x: x.sub_(1, alpha=2),
    lambda x: x.div_(2),
    lambda x: x.exp_(),
    lambda x: x.relu_(),
    lambda x: x.zero_(),
    lambda x: x.fill_(2),
    lambda x: x.copy_(torch.ones(5)),
    lambda x: x.copy_(torch.ones(7)),
    lambda x: x.masked_fill_(torch.ones(5) > 0, 2.0),
    lambda x: x.addcmul_(torch.ones(5), torch.ones(5)),
    lambda x: x.uniform_(),
    lambda x: x.normal_(),
    lambda x: x.bernoulli_(0.5),
    lambda x: x.clamp_(0, 1),
    lambda x: x.transpose_(0, -1),
    lambda x: x.unsqueeze_(1),
    lambda x: x.squeeze_(),
    lambda x: x.squeeze_(0),
    lambda x: x.as_strided_((2, 2), (1, 1)),
    lambda x: x.swapaxes_(0, 1),
    lambda x: x.detach_(),
]


@pytest.mark.parametrize("number", range(len(IN_PLACE)))
@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_in_place(number, dtype):
    change = IN_PLACE[number]

    def fn(x):
        result = change(x)
        assert result is x
        return x

    for key in layouts(dtype):
        assert_same(fn, layouts(dtype)[key])


@pytest.mark.parametrize(
    "name",
    "exp sqrt rsqrt tanh sigmoid sin cos log reciprocal gelu silu leaky_relu elu hardswish hardsigmoid hardtanh relu "
    "neg abs floor ceil round".split(),
)
def test_unary_in_place(name):
    op = getattr(aten, name + "_").default
    for key in layouts():
        assert_same(op, layouts()[key])
    for dtype in (torch.int64, torch.bool, torch.bfloat16, torch.complex64):
        assert_same(op, torch.ones(2, 3).to(dtype))


def test_more_in_place():
    x = torch.ones(2, 3)
    for op in (aten.add_.Scalar, aten.sub_.Scalar, aten.mul_.Scalar, aten.div_.Scalar):
        assert_same(op, x.clone(), 2)
        assert_same(op, torch.ones(3, dtype=torch.int64), 2.5)
    for op in (aten.addcmul_.default, aten.addcdiv_.default):
        assert_same(op, x.clone(), x, torch.ones(3))
        assert_same(op, x.clone(), x, torch.ones(4))
    assert_same(lambda x: x.fill_(torch.tensor(3)), x.clone())
    assert_same(lambda x: x.fill_(torch.ones(3)), x.clone())
    assert_same(lambda x: x.t_(), x.clone())
    assert_same(lambda x: x.t_(), torch.ones(3))
    assert_same(lambda x: x.squeeze_((0, 2)), torch.ones(1, 3, 1))
    assert_same(lambda x: x.exponential_(), x.clone())
    assert_same(lambda x: x.index_fill_(0, torch.tensor([0]), 1.0), x.clone())


def test_added_at_places():
    rows = torch.ones(3, 4)
    for x in (rows, torch.ones(4, 3).t(), torch.ones(3, 1).expand(3, 4), rows[:, :0], torch.ones(())):
        for at in (torch.tensor([0, 0]), torch.tensor([0], dtype=torch.int32), torch.tensor(0), torch.ones(1)):
            for source in (x, x[:1] if x.ndim else x, x.double()):
                assert_same(torch.index_add, x, 0, at, source)
                assert_same(torch.index_copy, x, 0, at, source)
                assert_same(torch.index_reduce, x, 0, at, source, "prod")


def test_resize():
    assert_same(lambda: torch.empty(0).resize_(2, 3))
    assert_same(lambda: torch.empty(6).resize_(2, 3))
    assert_same(lambda: torch.empty(2, 3).t().resize_(2, 2))
    assert_same(lambda: torch.empty(9)[2:].resize_(2, 3))
    assert_same(lambda: torch.empty(9)[2:].resize_(7))


def test_matrix_products():
    a, b, batch = torch.ones(3, 4), torch.ones(4, 5), torch.ones(2, 3, 4)
    for fn in (torch.mm, torch.matmul, torch.mv, torch.dot, torch.bmm):
        for x, y in itertools.product((a, b, a.t(), batch, torch.ones(4), torch.ones(4, 0)), repeat=2):
            assert_same(fn, x, y)
        assert_same(fn, a, b.double())
    for bias in (torch.ones(5), torch.ones(3, 5), torch.ones(3, 1), torch.ones(()), torch.ones(6), torch.ones(2, 3, 5)):
        assert_same(torch.addmm, bias, a, b)
        assert_same(torch.baddbmm, bias, batch, torch.ones(2, 4, 5))
        assert_same(F.linear, batch, b.t(), bias)
        assert_same(F.linear, a, b.t(), bias)
    grouped = torch.ones(2, 4, 8).transpose(1, 2).contiguous().transpose(1, 2)
    offsets = torch.tensor([1, 3], dtype=torch.int32)
    assert_same(torch._grouped_mm, torch.ones(3, 4), grouped, offs=offsets)
    assert_same(torch._grouped_mm, batch, torch.ones(2, 6, 4).transpose(1, 2))


def test_reductions():
    for x in layouts().values():
        for kwargs in ({}, {"dim": 1}, {"dim": (0, -1), "keepdim": True}, {"dim": (), "keepdim": True}, {"dim": 9}):
            assert_same(torch.sum, x, **kwargs)
            assert_same(torch.mean, x, **kwargs)
            if "dim" in kwargs:
                assert_same(torch.amax, x, **kwargs)
                assert_same(torch.amin, x, **kwargs)
        assert_same(torch.sum, x, dtype=torch.float64)
    for dtype in (torch.int32, torch.bool, torch.bfloat16):
        assert_same(torch.sum, torch.ones(2, 3).to(dtype), 0)
        assert_same(torch.mean, torch.ones(2, 3).to(dtype), 0)


def test_more_reductions():
    for x in layouts().values():
        for kwargs in ({}, {"dim": 1}, {"dim": -1, "keepdim": True}, {"dim": 9}):
            for fn in (torch.argmax, torch.argmin, torch.max, torch.min, torch.any, torch.all):
                assert_same(lambda x: tuple(r) if isinstance(r := fn(x, **kwargs), tuple) else r, x)
            for fn in (torch.var, torch.std, torch.var_mean, torch.std_mean):
                assert_same(fn, x, **kwargs)
            if "dim" in kwargs:
                assert_same(torch.logsumexp, x, **kwargs)
                assert_same(torch.prod, x, **kwargs)
                assert_same(torch.cumsum, x, kwargs["dim"])
                assert_same(torch.cumprod, x, kwargs["dim"])
            for order in (2, 0, float("inf"), -1):
                assert_same(torch.linalg.vector_norm, x, order, **kwargs)
        assert_same(lambda x: torch.any(x, dim=(0, 1)), x)
        assert_same(lambda x: torch.all(x, dim=(0, 1), keepdim=True), x)
        assert_same(lambda x: torch.cumsum(x, 0, dtype=torch.float64), x)
        assert_same(lambda x: torch.prod(x, 0, dtype=torch.float64), x)
    for dtype in (torch.int32, torch.bool, torch.uint8, torch.bfloat16, torch.complex64):
        x = torch.ones(2, 3).to(dtype)
        for fn in (torch.any, torch.all, torch.argmax, torch.cumsum, torch.prod, torch.logsumexp, torch.var, torch.max):
            assert_same(lambda x: tuple(r) if isinstance(r := fn(x, 0), tuple) else r, x)
        for fn in (torch.any, torch.all, torch.argmax, torch.max, torch.min):
            assert_same(fn, x)


def test_turns():
    for x in (torch.rand(2, 3), torch.rand(3, 2).t(), torch.rand(1, 3), torch.rand(2, 1, 4)):
        for k in (-1, 0, 1, 2, 3, 4):
            assert_same(torch.rot90, x, k, [0, 1])
            assert_same(torch.rot90, x, k, [1, 0])


def test_copies_in_other_shapes():
    for x in layouts().values():
        assert_same(torch.triu, x)
        assert_same(torch.tril, x, 1)
        for dims in ((0,), (0, -1), (0, 0), ()):
            assert_same(torch.flip, x, dims)
        for repeats in ((2, 1, 1, 3), (2, 1, 1, 1, 1), (0, 1, 1, 1), (2,), (-1, 1, 1, 1)):
            assert_same(lambda x: x.repeat(*repeats), x)
        for padding in ((1, 2), (0, 0, 1, 1), (0, 0), (-1, 1), (1,)):
            assert_same(F.pad, x, padding)


def test_joins():
    for x in layouts().values():
        assert_same(lambda x: torch.cat([x, x], -1), x)
        assert_same(lambda x: torch.cat([torch.ones(0), x], 1), x)
        assert_same(lambda x: torch.cat([x, x.double()], 0), x)
        assert_same(lambda x: torch.cat([x, x.contiguous()], 1), x)
        assert_same(lambda x: torch.stack([x, x], 1), x)
        assert_same(lambda x: torch.stack([x, x], 9), x)
    assert_same(lambda x, y: torch.cat([x, y]), torch.ones(2, 3), torch.ones(3, 2))
    assert_same(lambda x: torch.cat([x, x]), torch.ones(0))


def separate(p):
    """Mean, variance, weight and bias of a batch norm, which eager does not want to be one tensor."""
    return p, p + 1, p + 2, p + 3


def test_layers():
    weight, table = torch.ones(5), torch.ones(10, 5)
    for x in layouts().values():
        assert_same(lambda x: F.layer_norm(x, (5,)), x)
        assert_same(lambda x, w: aten.native_layer_norm(x, [5], w, w, 1e-5), x, weight)
        assert_same(lambda x: F.layer_norm(x, (4, 5)), x)
        assert_same(lambda x: F.softmax(x, -1), x)
        assert_same(lambda x: F.log_softmax(x, 1), x)
        assert_same(lambda x: F.softmax(x, 1, dtype=torch.float64), x)
        assert_same(lambda i, t: F.embedding(i, t), x.long(), table)
        assert_same(lambda x: F.dropout(x, 0.5), x)
        if x.numel():
            assert_same(lambda x: torch.native_dropout(x, 0.5, True), x)
        assert_same(lambda x: F.dropout(x, 0.0), x)
        if x.ndim != 4 or x.shape[1] != 3:
            continue  # eager does not check the parameters of some batch norms
        assert_same(lambda x, p: F.batch_norm(x, p, p + 1), x, torch.ones(3))
        assert_same(lambda x, p: F.batch_norm(x, p, p + 1, training=True), x, torch.ones(3))
        assert_same(lambda x, p: aten._native_batch_norm_legit(x, *separate(p), False, 0.1, 1e-5), x, torch.ones(3))
    assert_same(F.softmax, torch.ones(2, 3, dtype=torch.int64), -1)
    for dtype in (torch.bfloat16, torch.float64):
        x, p = torch.ones(2, 3, 4, 5).to(dtype), torch.ones(3).to(dtype)
        assert_same(lambda x: aten.native_layer_norm(x, [5], None, None, 1e-5), x)
        assert_same(lambda x, w: aten.native_layer_norm(x, [5], w, w, 1e-5), x, torch.ones(5).to(dtype))
        assert_same(lambda x, p: aten.native_batch_norm(x, *separate(p), True, 0.1, 1e-5), x, p)
        assert_same(lambda x, p: aten.native_batch_norm(x, None, None, p, p + 1, False, 0.1, 1e-5), x, p)
        assert_same(lambda x: aten.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5), x)
        assert_same(lambda x: aten._native_batch_norm_legit.no_stats(x, None, None, True, 0.1, 1e-5), x)
        assert_same(lambda x, p: aten._native_batch_norm_legit_no_training(x, *separate(p), 0.1, 1e-5), x, p)
        for train in (True, False):
            assert_same(lambda x, p: aten._native_batch_norm_legit_functional(x, *separate(p), train, 0.1, 1e-5), x, p)
        assert_same(lambda x, p: aten.native_batch_norm(x, *separate(p), True, 0.1, 1e-5), x, torch.ones(3))
    q = torch.ones(2, 4, 6, 8)
    assert_same(F.scaled_dot_product_attention, q, q, q)
    assert_same(F.scaled_dot_product_attention, q.transpose(1, 2), q.transpose(1, 2), q.transpose(1, 2), is_causal=True)
    assert_same(F.scaled_dot_product_attention, q, q, q, torch.ones(6, 6))


def test_normalisation_of_groups():
    for key, x in layouts().items():
        if x.ndim != 4 or x.shape[1] != 3:
            continue
        assert_same(lambda x, p: F.group_norm(x, 3, p, p), x, torch.ones(3))
        assert_same(lambda x: aten.native_group_norm(x, None, None, x.shape[0], 3, x.shape[2] * x.shape[3], 1, 1e-5), x)
        assert_same(lambda x: aten._safe_softmax(x, 1), x)
        assert_same(lambda x: aten._safe_softmax(x, 7), x)
    assert_same(lambda x: aten._safe_softmax(x, 1), torch.ones(2, 3, dtype=torch.int64))


def test_convolutions():
    channels_last = torch.ones(2, 4, 9, 9).to(memory_format=torch.channels_last)
    for x, dtype in itertools.product(
        (torch.ones(2, 4, 9, 9), channels_last, torch.ones(2, 4, 9, 9).mT, torch.ones(4, 9, 9), torch.ones(2, 3, 9, 9)),
        (torch.float32, torch.float64),
    ):
        x = x.to(dtype)
        for weight in (torch.ones(6, 4, 3, 3), torch.ones(4, 1, 3, 3), torch.ones(4, 6, 3, 3)):
            weight = weight.to(dtype)
            for kwargs in ({}, {"stride": 2, "padding": 1}, {"dilation": 2}, {"groups": 4}, {"padding": "same"}):
                assert_same(F.conv2d, x, weight, **kwargs)
            assert_same(F.conv_transpose2d, x, weight, stride=2, output_padding=1)
    grouped = torch.ones(2, 4, 1, 1, dtype=torch.float64).to(memory_format=torch.channels_last)
    assert_same(F.conv2d, grouped, torch.ones(4, 1, 1, 1, dtype=torch.float64), groups=4)
    assert_same(F.conv1d, torch.ones(2, 4, 9), torch.ones(6, 4, 3), torch.ones(6))
    signals, weights = (torch.ones(2, 4, 9), torch.ones(2, 9, 4).mT), (torch.ones(6, 4, 3), torch.ones(6, 3, 4).mT)
    for x, weight in itertools.product(signals, weights):
        assert_same(F.conv1d, x, weight)
        assert_same(F.conv1d, x, weight, padding="same")
        assert_same(F.conv_transpose1d, x, torch.ones(4, 3, 6).mT, stride=2)
    integers = torch.ones(2, 3, 4, 5, dtype=torch.int64).to(memory_format=torch.channels_last)
    assert_same(F.conv2d, integers, torch.ones(2, 3, 2, 2, dtype=torch.int64))
    assert_same(F.conv2d, torch.ones(1, 4, 5, 5).to(memory_format=torch.channels_last), torch.ones(1, 4, 2, 3),
                stride=2, padding="valid")
    assert_same(F.conv3d, torch.ones(2, 4, 5, 5, 5), torch.ones(6, 4, 3, 3, 3))
    assert_same(F.conv2d, torch.ones(1, 4, 2, 2), torch.ones(6, 4, 3, 3))


def test_decompositions():
    for shape in ((3, 2), (2, 3), (5, 3, 4), (0, 3)):
        x = torch.rand(*shape)
        assert_same(lambda x: tuple(torch.linalg.svd(x, full_matrices=False)), x)
        assert_same(lambda x: tuple(torch.linalg.svd(x)), x)
        assert_same(lambda x: tuple(torch.linalg.qr(x)), x)
    for dtype in (torch.float64, torch.complex64):
        assert_same(lambda x: tuple(torch.linalg.eig(x)), torch.rand(2, 3, 3, dtype=dtype))
        assert_same(lambda x: tuple(torch.linalg.svd(x)), torch.rand(2, 3, 4, dtype=dtype))
    assert_same(lambda x: tuple(torch.linalg.eigh(x)), torch.eye(3))


def test_fake_quantisation():
    scale, zero = torch.tensor([0.1, 0.2, 0.3]), torch.zeros(3, dtype=torch.int32)
    for x in (torch.randn(3, 4), torch.randn(4, 3).t(), torch.randn(3, 8)[:, ::2], torch.randn(3, 1).expand(3, 4)):
        assert_same(lambda x: tuple(aten.fake_quantize_per_tensor_affine_cachemask.default(x, 0.1, 0, -128, 127)), x)
        assert_same(lambda x, s, z: tuple(aten.fake_quantize_per_channel_affine_cachemask.default(x, s, z, 0, -9, 9)),
                    x, scale, zero)
        assert_same(lambda x, s, z, on: tuple(aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default(
            x, s, z, on, -9, 9)), x, scale[:1], zero[:1], torch.ones(1, dtype=torch.int64))


def test_tangents():
    parts = (torch.ones(3), torch.ones(4, 3)[1], torch.ones(3, 4).t()[0], torch.ones(()).expand(3), torch.ones(7)[2:5])
    for x, y in itertools.product(parts, parts):
        assert_same(aten._new_zeros_with_same_feature_meta.default, x, y)
        assert_same(lambda x, y: torch.empty(int(aten._has_same_storage_numel.default(x, y))), x, y)
        assert_same(lambda x, y: torch.empty(
            aten._new_zeros_with_same_feature_meta.default(x, y).untyped_storage().nbytes()), x, y)
    assert_same(lambda x, y: aten._new_zeros_with_same_feature_meta.default(x, y, self_num_batch_dims=2),
                torch.ones(2, 4, 3, dtype=torch.float64), torch.ones(4, 3)[:, 1])


CONSTRUCTORS = [
    lambda: torch.empty(2, 3),
    lambda: torch.empty(2, 3, 4, 5, memory_format=torch.channels_last),
    lambda: torch.zeros(2, 0),
    lambda: torch.ones(2, dtype=torch.int16),
    lambda: torch.full((2,), 3),
    lambda: torch.full((2,), 3.0),
    lambda: torch.full((2,), True),
    lambda: torch.full((), 1j),
    lambda: torch.scalar_tensor(3),
    lambda: torch.rand(2),
    lambda: torch.randn(2, dtype=torch.float64),
    lambda: torch.randint(5, (2,)),
    lambda: torch.randint(2, 5, (2,), dtype=torch.int32),
    lambda: torch.arange(5),
    lambda: torch.arange(2, 9),
    lambda: aten.arange.start(2, 9),
    lambda: torch.arange(2, 9, 3),
    lambda: torch.arange(9, 2, -3),
    lambda: torch.arange(0, 1, 0.3),
    lambda: torch.arange(5, dtype=torch.float32),
    lambda: torch.arange(5.0),
    lambda: torch.arange(5, 2),
    lambda: torch.empty_strided((2, 3), (1, 2)),
    lambda: bernoulli_strided()((2, 3), (1, 2), 0.5, dtype=torch.float32, device=torch.device("cpu")),
    lambda: torch.eye(3),
    lambda: torch.linspace(0, 1, 5),
    lambda: torch.tensor([1, 2]),
    lambda: torch.tensor(3.5),
    lambda: torch.tensor([[1.0], [2.0]], dtype=torch.float64),
    lambda: torch.randperm(4),
    lambda: torch.zeros(2, -3),
    lambda: torch.zeros(2, device="meta"),
    lambda: torch.tril_indices(3, 3),
]


@pytest.mark.parametrize("number", range(len(CONSTRUCTORS)))
def test_constructors(number):
    assert_same(CONSTRUCTORS[number])


@pytest.mark.parametrize("driver", [None, "gelsy", "gels"])
def test_least_squares(driver):
    for shape in ((4, 4), (5, 3), (3, 5), (2, 5, 3)):
        x = torch.randn(shape)
        assert_same(lambda x, b: aten.linalg_lstsq(x, b, driver=driver), x, torch.randn(*shape[:-1], 2))
        assert_same(lambda x, b: aten.linalg_lstsq(x, b, driver=driver), x.mT.clone().mT, torch.randn(*shape[:-1], 2))
        sides = torch.randn(*shape[:-1], 2, dtype=torch.float64)
        assert_same(lambda x, b: aten.linalg_lstsq(x, b, driver=driver), x.double(), sides)
    assert_same(lambda x, b: aten.linalg_lstsq(x, b, driver=driver), torch.randn(2, 5, 3), torch.randn(2, 5))


def test_histograms():
    for x in layouts().values():
        assert_same(lambda x: aten.histogram.bin_ct(x, 5), x)
        assert_same(lambda x, edges: aten.histogram.bins_tensor(x, edges), x, torch.arange(4.0))
    table = torch.rand(9, 2, 3)[..., :2]
    assert_same(lambda x: aten._histogramdd_bin_edges(x, [3, 4]), table)
    assert_same(lambda x: aten._histogramdd_from_bin_cts(x, [3, 4]), table)
    assert_same(lambda x, a, b: aten._histogramdd_from_bin_tensors(x, [a, b]), table, torch.arange(3.0),
                torch.arange(4.0))


def test_distributions():
    for x in (torch.rand(4, 5), torch.rand(4, 5).t(), torch.rand(2, 3, 4).permute(2, 0, 1), torch.rand(3).double()):
        assert_same(aten._sample_dirichlet.default, x)
        assert_same(aten._dirichlet_grad.default, x, x, x)
        assert_same(aten.binomial.default, torch.ones_like(x) * 3, x)


def test_every_rule_is_used_by_these_tests(request):
    files = ("creation distributions histograms in_place linalg matmul nn pointwise quantisation reduction tangents "
             "views").split()
    # Reached only in inference mode or from other files' tests.
    assert recorder.untested(request, files) == {"aten._reshape_alias.default"}
