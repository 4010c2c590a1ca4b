"""The rules of layers, losses, gradients and indexing against eager, on contiguous and on awkward layouts."""

import itertools

import pytest
import torch
import torch.nn.functional as F

from fake.rules.rule_checks import RuleRecorder, assert_same, layouts

aten = torch.ops.aten
recorder = RuleRecorder(__file__)
record_rules = recorder.fixture()


def full_layouts():
    """Those of shape (2, 3, 4, 5)."""
    return {name: x for name, x in layouts().items() if x.shape == (2, 3, 4, 5)}


@pytest.mark.parametrize("name", "tanh sigmoid silu hardswish hardsigmoid".split())
def test_gradients_of_activations(name):
    op = getattr(aten, f"{name}_backward").default
    for grad, x in itertools.product(layouts().values(), full_layouts().values()):
        assert_same(op, grad, x)
    assert_same(op, torch.ones(3), torch.ones(3, dtype=torch.float64))
    assert_same(op, torch.ones(3, dtype=torch.int64), torch.ones(3, dtype=torch.int64))


def test_gradients_of_activations_with_parameters():
    for grad, x in itertools.product(full_layouts().values(), repeat=2):
        assert_same(aten.gelu_backward, grad, x)
        assert_same(aten.gelu_backward, grad, x, approximate="tanh")
        assert_same(aten.threshold_backward, grad, x, 0)
        assert_same(aten.leaky_relu_backward, grad, x, 0.1, False)
        assert_same(aten.elu_backward, grad, 1.0, 1.0, 1.0, False, x)
        assert_same(aten.hardtanh_backward, grad, x, -1.0, 1.0)
        assert_same(aten.softplus_backward, grad, x, 1.0, 20.0)
        assert_same(aten.hardshrink_backward, grad, x, 0.5)
        assert_same(aten.softshrink_backward, grad, x, 0.5)
        assert_same(aten.native_dropout_backward, grad, x > 0, 2.0)


def test_gradients_of_views():
    for x in full_layouts().values():
        assert_same(aten.slice_backward, x[:, :2], (2, 3, 4, 5), 1, 0, 2, 1)
        assert_same(aten.select_backward, x[:, 1], (2, 3, 4, 5), 1, 1)
        assert_same(aten.diagonal_backward, x.diagonal(0, 0, 1), (2, 3, 4, 5), 0, 0, 1)


def test_gradients_of_layers():
    for grad, x in itertools.product(full_layouts().values(), repeat=2):
        for op in (aten._softmax_backward_data, aten._log_softmax_backward_data):
            assert_same(op, grad, x, 1, torch.float32)
            assert_same(op, grad, x, 5, torch.float32)
        statistics, weight = torch.ones(2, 3, 4, 1), torch.ones(5)
        for mask in ([True, True, True], [True, False, True], [False, True, False]):
            assert_same(
                lambda g, x, s, w: aten.native_layer_norm_backward(g, x, [5], s, s, w, w, mask),
                grad, x, statistics, weight,
            )  # fmt: skip
        channels = torch.ones(3)
        for train, mask in itertools.product((True, False), ([True, True, True], [True, False, False])):
            assert_same(
                lambda g, x, c: aten.native_batch_norm_backward(g, x, c, c, c, c, c, train, 1e-5, mask),
                grad, x, channels,
            )  # fmt: skip
        assert_same(
            lambda g, x, s, w: aten.native_group_norm_backward(g, x, s, s, w, 2, 3, 20, 3, [True, True, True]),
            grad, x, torch.ones(2, 3), channels,
        )  # fmt: skip
        assert_same(lambda g, i: aten.embedding_dense_backward(g, i, 10, -1, False), grad, x.long()[..., 0])


def test_batch_norm_of_what_lies_in_two_formats():
    """Of images of one channel or one pixel both memory formats are the same; which one eager takes can be seen."""
    images, pixels = [
        [torch.rand(480).as_strided(shape, strides) for strides in layouts]
        for shape, layouts in (((2, 1, 3, 4), ((12, 1, 4, 1), (12, 12, 4, 1), (24, 1, 4, 1))),
                               ((2, 3, 1, 1), ((3, 1, 3, 3), (3, 1, 1, 1), (6, 2, 2, 2))))
    ]  # fmt: skip
    for alike in (images, pixels):
        channels = alike[0].shape[1]
        gaps = torch.ones(2 * channels)[::2], None
        for grad, x in itertools.product(alike, repeat=2):
            for weight in (torch.ones(channels), *gaps):
                assert_same(lambda x, c, w: F.batch_norm(x, c, c * 1, w, w), x, torch.ones(channels), weight)
            assert_same(
                lambda g, x, c: aten.native_batch_norm_backward(g, x, c, c, c, c, c, True, 1e-5, [True] * 3),
                grad, x, torch.ones(channels),
            )  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_norms_with_larger_parameters(dtype):
    x, statistics, single = torch.rand(3, 4, 5).to(dtype), torch.rand(3, 2), torch.ones(4)
    for weight, bias in itertools.product((None, single, single.to(dtype), single.double()), (None, single)):
        assert_same(lambda x, w, b: aten.native_group_norm(x, w, b, 3, 4, 5, 2, 1e-5), x, weight, bias)
        for training in (True, False):
            assert_same(lambda x, w, b, m: F.batch_norm(x, m * 1, m * 2, w, b, training), x, weight, bias, single)
            assert_same(lambda x, w, b, m: aten.native_batch_norm(x, w, b, m * 1, m * 2, training, 0.1, 1e-5),
                        x, weight, bias, single)
    for weight in (None, single):
        mask = [True, weight is not None, weight is not None]
        assert_same(lambda g, x, s, w: aten.native_group_norm_backward(g, x, s, s, w, 3, 4, 5, 2, mask),
                    x, x, statistics, weight)
        assert_same(lambda g, x, s, w, b: aten.native_layer_norm_backward(g, x, [5], s, s, w, b, [True, False, True]),
                    x, x, torch.rand(3, 4, 1), None if weight is None else torch.ones(5), torch.ones(5))


def test_binary_cross_entropy():
    dtypes = torch.float32, torch.float64, torch.int64, torch.complex64
    weights = [torch.ones(3, 4, 5, dtype=dtype) for dtype in dtypes]
    for x, weight, reduction in itertools.product(full_layouts().values(), (None, *weights), (0, 1)):
        assert_same(lambda x, t, w: aten.binary_cross_entropy(x, t, w, reduction), x, torch.rand(2, 3, 4, 5), weight)
        assert_same(
            lambda g, x, t, w: aten.binary_cross_entropy_backward(g, x, t, w, reduction),
            x if reduction == 0 else torch.ones(()), x, torch.rand(2, 3, 4, 5), weight,
        )  # fmt: skip


def test_losses():
    for x in (torch.rand(4, 3), torch.rand(3, 4).t(), torch.rand(3)):
        target = torch.ones(x.shape[:-1], dtype=torch.int64)
        for reduction, weight in itertools.product((0, 1, 2), (None, torch.ones(3))):
            assert_same(lambda x, t, w: aten.nll_loss_forward(x, t, w, reduction, -100), x, target, weight)
        assert_same(
            lambda x, t, w: aten.nll_loss_backward(torch.ones_like(w), x, t, None, 1, -100, w),
            x, target, torch.ones(()),
        )  # fmt: skip
        assert_same(F.cross_entropy, x, target)
    assert_same(F.nll_loss, torch.rand(4, 3), torch.ones(5, dtype=torch.int64))
    assert_same(F.nll_loss, torch.rand(4, 3), torch.ones(4, dtype=torch.int64), torch.ones(2))
    for x in full_layouts().values():
        target = torch.ones(2, 4, 5, dtype=torch.int64)
        for reduction in (0, 1, 2):
            assert_same(lambda x, t: aten.nll_loss2d_forward(x, t, None, reduction, -100), x, target)
            assert_same(
                lambda x, t, w, g: aten.nll_loss2d_backward(g, x, t, None, reduction, -100, w),
                x, target, torch.ones(()), torch.ones(2, 4, 5) if reduction == 0 else torch.ones(()),
            )  # fmt: skip
        for y, reduction in itertools.product(layouts().values(), (0, 1)):
            assert_same(lambda x, y: aten.mse_loss(x, y, reduction), x, y)
            logits = aten.binary_cross_entropy_with_logits
            assert_same(lambda x, y: logits(x, y.double(), None, None, reduction), x, y)
            if x.shape == y.shape:
                assert_same(lambda x, y: aten.mse_loss_backward(torch.ones_like(x[0, 0, 0, 0]), x, y, 1), x, y)


def test_attention():
    flash = aten._scaled_dot_product_flash_attention_for_cpu
    for query in full_layouts().values():
        assert_same(flash, query, query, query)
        assert_same(flash, query, query, query, is_causal=True)
        longer = torch.rand(2, 3, 7, 5)
        assert_same(flash, query, longer, longer)
        assert_same(flash, query, longer, longer, attn_mask=torch.rand(4, 7))

        def gradients(grad, query, key, value):
            out, rows = flash(query, key, value)
            return flash_backward(grad, query, key, value, out, rows, 0.0, False)

        flash_backward = aten._scaled_dot_product_flash_attention_for_cpu_backward
        assert_same(gradients, torch.rand(2, 3, 4, 5), query, longer, longer)
        assert_same(gradients, query, query, query, query)
    for dtype in (torch.float64, torch.bfloat16):
        assert_same(flash, *[torch.rand(2, 3, 4, 5).to(dtype)] * 3)
    assert_same(flash, *[torch.rand(3, 4, 5)] * 3)


CONVOLUTIONS = [
    ((1, 1), (1, 1), (1, 1), False, (0, 0), 1),
    ((2, 1), (0, 1), (1, 1), False, (0, 0), 1),
    ((1, 1), (2, 2), (2, 2), False, (0, 0), 1),
    ((2, 2), (1, 1), (1, 1), True, (1, 1), 1),
    ((1, 1), (1, 1), (1, 1), False, (0, 0), 3),
]


@pytest.mark.parametrize("number", range(len(CONVOLUTIONS)))
def test_gradients_of_convolutions(number):
    arguments = CONVOLUTIONS[number]
    groups, transposed = arguments[-1], arguments[3]
    for dtype, last in itertools.product((torch.float32, torch.float64), (False, True)):
        if dtype is torch.float64 and groups > 1:
            continue  # computed one group at a time, in layouts of which torch's meta kernel knows nothing
        weight = torch.rand((3, 6, 3, 3) if transposed else (6, 3 // groups, 3, 3)).to(dtype)
        if last:
            weight = weight.to(memory_format=torch.channels_last)
        for x in full_layouts().values():
            x = x.to(dtype)
            grad = aten.convolution(x, weight, None, *arguments)
            turned = grad.transpose(2, 3).contiguous().transpose(2, 3)
            for g, mask in itertools.product((grad, turned), ([True] * 3, [False, True, False], [True, False, False])):
                assert_same(lambda g, x, w: aten.convolution_backward(g, x, w, [6], *arguments, mask), g, x, weight)
    x, weight = torch.rand(2, 3, 9), torch.rand(6, 3, 3)
    one = ([1], [0], [1], False, [0], 1, [True, True, True])
    for x in (x, torch.rand(2, 9, 3).mT):
        for w in (weight, torch.rand(6, 3, 3).mT):
            assert_same(lambda g, x, w: aten.convolution_backward(g, x, w, [6], *one), torch.rand(2, 6, 7), x, w)


POOLS = [
    {"kernel_size": 2},
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": (2, 3), "stride": (1, 2), "ceil_mode": True},
    {"kernel_size": 2, "stride": 3, "padding": 1, "ceil_mode": True},
    {"kernel_size": 7},
    {"kernel_size": 2, "padding": 2},
]


def test_pooling():
    images = [*full_layouts().values(), torch.rand(3, 4, 5), torch.rand(2, 0, 4, 5), torch.rand(0, 3, 4, 5)]
    for x in (*images, torch.rand(2, 3, 4, 5).double()):
        for options in POOLS:
            assert_same(lambda x: aten.max_pool2d_with_indices(x, **as_lists(options)), x)
            assert_same(lambda x: aten.avg_pool2d(x, **as_lists(options)), x)
        assert_same(lambda x: aten.max_pool2d_with_indices(x, [2], [1], [0], [2]), x)
        assert_same(lambda x: aten._adaptive_avg_pool2d(x, [2, 3]), x)
        assert_same(lambda x: aten._adaptive_avg_pool2d(x, [0, 3]), x)
        assert_same(lambda x: F.adaptive_avg_pool2d(x, 1), x)


def as_lists(options):
    return {k: [v] if type(v) is int else list(v) if isinstance(v, tuple) else v for k, v in options.items()}


def test_gradients_of_pooling():
    for x in full_layouts().values():
        grad, places = torch.rand(2, 3, 2, 2), torch.zeros(2, 3, 2, 2, dtype=torch.int64)
        assert_same(
            lambda g, x, i: aten.max_pool2d_with_indices_backward(g, x, [2], [2], [0], [1], False, i), grad, x, places
        )
        assert_same(lambda g, x: aten.avg_pool2d_backward(g, x, [2], [2], [0], False, True, None), grad, x)
        assert_same(lambda g, x: aten._adaptive_avg_pool2d_backward(g, x), grad, x)


@pytest.mark.parametrize("name", "nearest bilinear bicubic".split())
def test_resampling(name):
    up, down = getattr(aten, f"upsample_{name}2d").default, getattr(aten, f"upsample_{name}2d_backward").default
    corners = () if name == "nearest" else (False,)
    for x in (*full_layouts().values(), torch.rand(3, 4, 5), torch.rand(2, 0, 4, 5), torch.rand(2, 1, 4, 5)):
        assert_same(lambda x: up(x, [8, 7], *corners), x)
        assert_same(lambda x: up(x, [0, 7], *corners), x)
        if x.shape == (2, 3, 4, 5):
            assert_same(lambda x: down(x, [4, 5], [2, 3, 2, 2], *corners), x)


def test_gather_and_scatter():
    for x, y in itertools.product(full_layouts().values(), repeat=2):
        places = (y > 2).long()
        assert_same(torch.gather, x, 1, places)
        assert_same(torch.scatter, x, 1, places, 1.0)
        assert_same(torch.scatter, x, 1, places, y)
        assert_same(torch.scatter_add, x, 1, places, y)
    x = torch.rand(2, 3)
    for shape in ((2, 3), (2, 7), (3, 1), (2,), (1, 1), (0, 0)):
        places = torch.zeros(shape, dtype=torch.int64)
        assert_same(torch.gather, x, 1, places)
        assert_same(torch.scatter, x, 1, places, 2.0)
        assert_same(torch.scatter, x, 1, places, torch.rand(2, 3))
        assert_same(torch.scatter_add, x, 0, places, torch.rand(2, 3))
    assert_same(torch.gather, x, 5, torch.zeros(2, 3, dtype=torch.int64))
    assert_same(torch.gather, x, 0, torch.zeros(2, 3))
    assert_same(torch.gather, torch.ones(()), 0, torch.zeros((), dtype=torch.int64))


PAIR, COLUMN, GRID = torch.tensor([0, 1]), torch.tensor([[0], [1]]), torch.tensor([[0, 1], [1, 0], [0, 0]])
INDICES = [
    (PAIR,),
    (None, PAIR),
    (None, None, GRID),
    (PAIR, COLUMN),
    (PAIR, None, PAIR),
    (None, PAIR, None, COLUMN),
    (None, None, PAIR, COLUMN),
    (None, GRID.t(), PAIR),
    (GRID, PAIR, PAIR, PAIR),
    (torch.tensor(1), None, PAIR.int()),
    (PAIR, torch.tensor([0, 1, 0])),
    (None, torch.tensor([], dtype=torch.int64)),
    (PAIR, None, None, None, PAIR),
]


@pytest.mark.parametrize("number", range(len(INDICES)))
def test_indexing(number):
    for x in (*full_layouts().values(), torch.rand(2, 0, 4, 5)):
        assert_same(lambda x, *i: aten.index(x, list(i)), x, *INDICES[number])
        if number != 8:
            assert_same(lambda x, v, *i: aten.index_put(x, list(i), v), x, torch.ones(()), *INDICES[number])


def test_what_is_added_at_places():
    rows = torch.rand(3, 4)
    for x in (rows, torch.rand(4, 3).t(), torch.rand(3, 1).expand(3, 4), rows[:, ::2]):
        for places in (torch.tensor([2, 0]), torch.tensor([0, 0], dtype=torch.int32)):
            assert_same(torch.index_add, x, 0, places, x[:2])
            assert_same(torch.index_copy, x, 0, places, x[:2])
            assert_same(torch.index_reduce, x, 0, places, x[:2], "prod")


def test_indexing_beside_sizes_of_one():
    """The iterator takes indices with a size of 1 for each other dimension, whose stride counts where that is 1."""
    nothing = torch.zeros(0, dtype=torch.int64)
    row = torch.zeros(3, dtype=torch.int64).as_strided((1, 3), (1, 1))
    for x in (torch.rand(6, 3, 1), torch.rand(1, 3, 1), torch.rand(6, 1, 1), torch.rand(2, 3, 4)):
        for places in (nothing, nothing.reshape(0, 1), nothing.reshape(1, 0), row, GRID.t() * 0):
            for indices in ((places,), (None, places), (None, None, places), (places, None, places)):
                assert_same(lambda x, *i: aten.index(x, list(i)), x, *indices)


def test_selection_and_order():
    for x in layouts().values():
        for places in (PAIR * 0, PAIR.int() * 0, COLUMN):
            assert_same(torch.index_select, x, 0, places)
        assert_same(lambda x: torch.nonzero_static(x, size=3), x)
        assert_same(lambda x, i: x.index_fill(0, i, 1.0), x, PAIR * 0)
        assert_same(lambda x, i: x.index_fill(0, i, x.new_ones(())), x, PAIR * 0)
        for k, dim in ((1, -1), (2, 0), (9, 1), (0, 1)):
            assert_same(lambda x: tuple(torch.topk(x, k, dim)), x)
        for dim in (0, -1, 7):
            assert_same(lambda x: tuple(torch.sort(x, dim)), x)
            assert_same(lambda x: tuple(torch.sort(x, dim=dim, stable=True, descending=True)), x)
            assert_same(torch.argsort, x, dim)


def test_roll_of_nothing():
    for x in (torch.ones(3, 4)[3:, 0], torch.ones(3, 0, 2), torch.ones(4, 3).t()[:, 4:], torch.ones(5)[::2]):
        assert_same(torch.roll, x, 1)
        assert_same(torch.roll, x, 1, 0)
    assert_same(torch.roll, torch.ones(3, 4, 2).transpose(0, 2)[:, 4:], (1, 2), (0, 1))


def test_windows_as_columns():
    settings = ((4, 1, 0, 1), (2, 1, 0, 1), ((1, 2), 2, 1, 2), (9, 1, 0, 1), (2, 0, 0, 1))
    turned = torch.rand(2, 3, 5, 4).transpose(2, 3)
    for x in (torch.rand(1, 3, 4, 4), turned, torch.rand(3, 4, 6), torch.rand(0, 3, 4, 4)):
        for setting in settings:  # kernel, dilation, padding, stride
            assert_same(torch.nn.functional.unfold, x, *setting)


def test_convolution():
    assert_same(F.conv2d, torch.rand(2, 3, 4, 5), torch.rand(6, 3, 3, 3))


@pytest.mark.parametrize("mode", ["reflect", "replicate"])
def test_padding_of_channels_last(mode):
    image = torch.rand(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    video = torch.rand(2, 3, 4, 5, 6).contiguous(memory_format=torch.channels_last_3d)
    assert_same(lambda x: F.pad(x, (1, 2, -1, 1), mode=mode), image)
    for x in full_layouts().values():
        assert_same(lambda x: F.interpolate(x, scale_factor=2, mode="nearest-exact"), x)
        assert_same(lambda g: aten._upsample_nearest_exact2d_backward(g, [4, 5], [2, 3, 2, 3]), x)
    assert_same(lambda x: F.pixel_unshuffle(x, 2), torch.rand(0, 3, 5, 4))
    for plain in (torch.rand(2, 0, 4, 4, 2)[..., 0], torch.rand(0, 3, 4, 4), torch.rand(2, 3, 4, 4)):
        assert_same(lambda x: F.pixel_unshuffle(x, 2), plain)
    assert_same(lambda x: F.pixel_shuffle(x[:, :1].expand(-1, 4, -1, -1).contiguous(
        memory_format=torch.channels_last), 2), plain)
    assert_same(lambda x: F.pad(x, (1, 2, 0, 1, 2, 2), mode=mode), video)
    backward = {"reflect": "reflection", "replicate": "replication"}[mode] + "_pad{}d_backward"
    for x, padding in ((image, [1, 2, 0, 1]), (video, [1, 2, 0, 1, 2, 2]), (image, [1, 2, 0, 1, 1, 0])):
        count = len(padding) // 2  # the images as a volume, too
        for grad in (torch.rand(F.pad(x, padding, mode=mode).shape), F.pad(x, padding, mode=mode)):
            assert_same(getattr(aten, backward.format(count)), grad, x, padding)


def test_shuffled_channels():
    for memory_format in (torch.contiguous_format, torch.channels_last):
        image = torch.rand(2, 4, 3, 5).contiguous(memory_format=memory_format)
        assert_same(torch.ops.aten.channel_shuffle.default, image, 2)
        assert_same(torch.ops.aten.native_channel_shuffle.default, image, 2)
    nothing = torch.rand(900).as_strided((6, 4, 2, 0), (4, 24, 360, 360))
    for shuffle, groups in itertools.product((aten.channel_shuffle, aten.native_channel_shuffle), (2, 3)):
        assert_same(lambda x: shuffle(x, groups).clone(), nothing)


@pytest.mark.parametrize("shape", [(0, 3, 2, 0), (2, 3, 0, 4), (2, 0, 4, 4), (0, 3, 4, 4), (3, 0, 4), (0, 3, 4)])
def test_means_of_windows_of_nothing(shape):
    for size in (1, 2), (2, 2), (1, 1), (0, 2):
        assert_same(aten._adaptive_avg_pool2d, torch.rand(shape), size)
        assert_same(F.adaptive_avg_pool2d, torch.rand(shape), size)
        assert_same(aten._adaptive_avg_pool3d, torch.rand(*shape, 1), (*size, 1))
        assert_same(F.adaptive_avg_pool3d, torch.rand(*shape, 1), (*size, 1))


def test_losses_over_sequences():
    scores = torch.randn(6, 2, 5).log_softmax(-1)
    for log_probs in (scores, torch.randn(2, 6, 5).log_softmax(-1).transpose(0, 1)):
        for targets in (torch.randint(1, 5, (2, 4)), torch.randint(1, 5, (5,))):
            lengths = [6, 5], [3, 2]
            assert_same(torch.ops.aten._ctc_loss.default, log_probs, targets, *lengths)
            loss, alpha = torch.ops.aten._ctc_loss.default(log_probs, targets, *lengths)
            assert_same(torch.ops.aten._ctc_loss_backward.default, torch.ones(2), log_probs, targets, *lengths, loss,
                        alpha, 0)
            assert_same(torch.ops.aten._ctc_loss_backward.Tensor, torch.ones(2), log_probs, targets,
                        *map(torch.tensor, lengths), loss, alpha, 0)


def test_every_rule_is_used_by_these_tests(request):
    assert recorder.untested(request, "attention backward convolution images indexing losses".split()) == set()
