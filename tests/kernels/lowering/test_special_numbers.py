"""Compiled programs give eager's results for numbers at the edges, and raise where eager has no kernel."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import firesteel as fs

INF, NAN = float("inf"), float("nan")
FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def outcome(function, args):
    torch.manual_seed(0)
    try:
        return function(*args)
    except Exception as error:
        return error


def tensors_of(value):
    return [value] if isinstance(value, torch.Tensor) else list(value)


def assert_as_eager(function, *args, raises=None):
    """Equal in every bit that matters: values, signs of zeros, NaN, dtypes, strides, or the type of the error."""
    fs.reset()
    want, got = outcome(function, args), outcome(fs.compile(function), args)
    if raises is not None or isinstance(want, Exception):
        assert type(want) is raises, want
        assert type(got) is raises, got
        return
    assert not isinstance(got, Exception), got
    for left, right in zip(tensors_of(want), tensors_of(got), strict=True):
        assert (left.dtype, left.shape, left.stride()) == (right.dtype, right.shape, right.stride())
        torch.testing.assert_close(right, left, equal_nan=True)
        if left.is_floating_point():
            zero = left == 0
            assert torch.equal(left.signbit()[zero], right.signbit()[zero])


def numbers(*values, dtype=torch.float32):
    return torch.tensor(values, dtype=dtype)


@pytest.mark.parametrize("classes", [[0, 5], [0, -1]])
def test_one_hot_refuses_other_classes(classes):
    assert_as_eager(lambda x: F.one_hot(x, 3), torch.tensor(classes), raises=RuntimeError)
    assert_as_eager(lambda x: F.one_hot(x, 6).float() * 2, torch.tensor(classes).abs())


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_grid_sample_at_places_that_are_no_numbers(mode, padding):
    places = numbers(NAN, 0, INF, 0, -INF, 0, 0, NAN, 0, INF, 1e30, -1e30, 0.1, 0.2, NAN, NAN).reshape(1, 2, 4, 2)
    assert_as_eager(lambda x, g: F.grid_sample(x, g, mode, padding, False), torch.arange(12.0).reshape(1, 1, 3, 4),
                    places)


@pytest.mark.parametrize("number", [-1, -3, 255, 256])
def test_bytes_divided_by_numbers_outside_of_their_range(number):
    x = numbers(0, 1, 7, 255, dtype=torch.uint8)
    for function in (lambda x: x // number, lambda x: x % number, lambda x: torch.fmod(x, number)):
        assert_as_eager(function, x, raises=RuntimeError if number == 256 else None)


@pytest.mark.parametrize(("function", "dtype"), [
    (lambda x: torch.where(x > 3, x, 300), torch.uint8),
    (lambda x: torch.where(x > 3, x, -300), torch.int8),
    (lambda x: torch.where(x > 3, x, 1e60), torch.float32),
    (lambda x: x ** 300, torch.uint8),
    (lambda x: x ** 1e6, torch.float16),
    (lambda x: x.clamp(min=300), torch.uint8),
    (lambda x: x.masked_fill(x > 3, 256), torch.uint8),
    (lambda x: torch.full_like(x, 2**40), torch.int32),
    (lambda x: (x * 2, torch.full_like(x, 300))[0], torch.uint8),
])  # fmt: skip
def test_numbers_that_do_not_fit_are_refused(function, dtype):
    assert_as_eager(function, numbers(0, 4, dtype=dtype), raises=RuntimeError)


@pytest.mark.parametrize("function", [
    lambda x, y: x.put(torch.tensor([0, 1]), y[0, :2]),
    lambda x, y: x.clone().index_put_((torch.tensor([0, 1]),), y),
    lambda x, y: x.index_copy(0, torch.tensor([0, 1]), y),
    lambda x, y: x.index_add(0, torch.tensor([0, 1]), y),
    lambda x, y: F.layer_norm(x, (3,), y[0]),
    lambda x, y: F.binary_cross_entropy(x.sigmoid(), y.sigmoid()),
    lambda x, y: F.nll_loss(x, torch.tensor([0, 1]), y[0]),
])  # fmt: skip
def test_tensors_of_two_dtypes_are_refused(function):
    assert_as_eager(function, torch.ones(2, 3), torch.ones(2, 3, dtype=torch.float64), raises=RuntimeError)


def test_huber_loss_has_the_dtype_of_its_input():
    assert_as_eager(F.huber_loss, torch.ones(2, 3), torch.ones(2, 3, dtype=torch.float64))


def test_a_number_that_varies_is_refused_when_it_does_not_fit():
    x = numbers(0, 4, dtype=torch.uint8)
    compiled = fs.compile(lambda x, n: torch.where(x > 3, x, n) + 1, dynamic=True)
    assert torch.equal(compiled(x, 7), numbers(8, 5, dtype=torch.uint8))
    assert torch.equal(compiled(x, 9), numbers(10, 5, dtype=torch.uint8))
    with pytest.raises(RuntimeError, match="without overflow"):
        compiled(x, 300)


@pytest.mark.parametrize("dtype", FLOATS)
def test_signs_of_zeros(dtype):
    a, b = numbers(-0.0, 0, NAN, 1, NAN, -0.0, 0, dtype=dtype), numbers(0, -0.0, 1, NAN, NAN, -0.0, 0, dtype=dtype)
    assert_as_eager(lambda a, b: (torch.fmax(a, b), torch.fmin(a, b), torch.tanh(a), F.softshrink(b[:5])), a, b)


def test_nan_becomes_a_zero_of_either_sign():
    assert_as_eager(lambda x: (torch.nan_to_num(x, nan=-0.0), torch.nan_to_num(x, nan=0.0)), numbers(NAN, 1.0))


@pytest.mark.parametrize("exponent", [0.5, -0.5, 2, 3, -1, -2])
def test_powers_of_infinities(exponent):
    assert_as_eager(lambda x: x ** exponent, numbers(-0.0, 0, -INF, INF, NAN, -1, 2, dtype=torch.float16))


def test_norms_of_rows_whose_squares_overflow():
    x = torch.stack([torch.full((64,), 1e20), torch.linspace(-1e19, 1e20, 64), torch.linspace(-1, 1, 64)])
    assert_as_eager(lambda x: F.layer_norm(x, (64,)), x)
    assert_as_eager(lambda x: torch.group_norm(x[:, None], 1), x)


def test_bools_of_numpy_are_floats_in_arithmetic():
    assert_as_eager(lambda x: (x * np.bool_(True), x + np.bool_(True)), numbers(0, 4, dtype=torch.int64))


@pytest.mark.parametrize(("function", "dtype"), [
    *[(function, torch.bool) for function in (torch.abs, torch.ceil, torch.floor, torch.round, torch.trunc)],
    *[(function, torch.int64) for function in (torch.frac, F.hardshrink)],
    (F.softsign, torch.bool),
    (lambda x: F.adaptive_max_pool1d(x[None], 2), torch.int64),
    (lambda x: (torch.frac(x), x + 1)[1], torch.uint8),
])  # fmt: skip
def test_dtypes_without_a_kernel_are_refused(function, dtype):
    assert_as_eager(lambda x: function(x), numbers(0, 1, 1, 0, dtype=dtype), raises=NotImplementedError)


@pytest.mark.parametrize("order", [20.0, 2, 3, -2.0, 0])
def test_norm_of_one_element_is_its_size(order):
    assert_as_eager(lambda x: torch.linalg.vector_norm(x, order, dim=1), torch.full((2, 1), -1e30))


@pytest.mark.parametrize("mode", ["reflect", "replicate", "constant"])
def test_padding_keeps_channels_last(mode):
    image = torch.arange(24.0).reshape(1, 2, 3, 4).contiguous(memory_format=torch.channels_last)
    assert_as_eager(lambda x: F.pad(x, (1, 1, 2, 1), mode=mode), image)
    video = torch.arange(48.0).reshape(1, 2, 2, 3, 4).contiguous(memory_format=torch.channels_last_3d)
    assert_as_eager(lambda x: F.pad(x, (1, 1, 1, 1, 1, 0), mode=mode), video)


def test_pixel_shuffle_keeps_channels_last():
    image = torch.arange(128.0).reshape(1, 8, 4, 4).contiguous(memory_format=torch.channels_last)
    assert_as_eager(lambda x: F.pixel_shuffle(x, 2), image)


@pytest.mark.parametrize("function", [
    lambda x: F.max_pool3d(x, 4, return_indices=True), lambda x: F.adaptive_max_pool3d(x, 1, return_indices=True),
    lambda x: F.max_pool2d(x[0], 2, return_indices=True), lambda x: F.max_pool2d(x[0], (4, 5), return_indices=True),
])  # fmt: skip
def test_of_several_nan_pooling_takes_the_last(function):
    x = torch.arange(80.0).reshape(1, 1, 4, 4, 5)
    x[..., 1, 1, 2] = x[..., 2, 0, 1] = x[..., 2, 2, 3] = x[..., 3, 2, 0] = NAN
    assert_as_eager(function, x)


def test_a_tensor_reshaped_in_place_after_a_write():
    assert_as_eager(lambda x: torch.quantile(x, 0.5, dim=0), torch.arange(15.0).reshape(3, 5) % 4)


def test_norms_of_infinities_have_no_mean():
    x = numbers(INF, 1, 2, 3, -INF, 1, INF, 2).reshape(2, 4)
    assert_as_eager(lambda x: torch.native_layer_norm(x, (4,), None, None, 1e-5), x)


@pytest.mark.parametrize("backend", ["native", "aot_eager"])
def test_gradients_of_a_shared_convolution_keep_their_strides(backend):
    layer = torch.nn.Conv2d(8, 8, 3, padding=1, groups=8)
    x = torch.randn(2, 25, 8).transpose(1, 2).view(2, 8, 5, 5)

    def gradient(function):
        (found,) = torch.autograd.grad(function(x).sum(), layer.weight)
        return found

    want = gradient(lambda x: layer(layer(x)))
    got = gradient(fs.compile(lambda x: layer(layer(x)), backend=backend))
    assert want.stride() == got.stride() == (9, 1, 3, 1)


def test_unpooling_to_nothing_checks_nothing():
    assert_as_eager(lambda x, at: torch.ops.aten.max_unpool2d(x, at, (0, 0)), torch.ones(1, 1, 2, 2),
                    torch.zeros(1, 1, 2, 2, dtype=torch.int64))


@pytest.mark.parametrize("rows", [2, 0])
@pytest.mark.parametrize("dtype", [torch.int64, torch.bool])
def test_gradient_of_windows_of_integers(dtype, rows):
    assert_as_eager(lambda g: torch.ops.aten.unfold_backward(g, [rows, 5], 1, 2, 1),
                    torch.arange(8 * rows).reshape(rows, 4, 2).to(dtype))


def test_zeta_of_large_and_missing_numbers():
    values = numbers(INF, 1e30, NAN, 2, 1.5, -1, dtype=torch.float64)
    places = numbers(INF, -INF, 1, 0.5, 2, -1, 0, NAN, dtype=torch.float64)
    assert_as_eager(torch.special.zeta, values[:, None].expand(6, 8), places.expand(6, 8))


def test_no_generator_is_the_default_one():
    assert_as_eager(lambda x: (x + torch.randn(3, generator=None), torch.rand(2, generator=None),
                               torch.randint(0, 9, (3,), generator=None)), torch.zeros(3))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("exponent", [1e-8, 2.0001, 0.5001, 1 / 3, 1e10])
def test_exponents_are_rounded_to_short_floats(exponent, dtype):
    x = torch.tensor([-1.5, 0.0, 1.0, 2.0, -2.0, 3.3, 0.7, torch.inf] * 9).to(dtype)
    raises = RuntimeError if dtype is torch.float16 and exponent > torch.finfo(dtype).max else None
    assert_as_eager(lambda x: x**exponent, x, raises=raises)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_running_means_are_rounded_as_eagers(dtype):
    def fn(x, mean, variance):
        return F.batch_norm(x, mean, variance, training=True)

    torch.manual_seed(0)
    x, means = torch.rand(8, 100).to(dtype), (torch.rand(100) * 4).to(dtype)
    found = []
    for function in (fn, fs.compile(fn)):
        mean = means.clone()
        function(x, mean, torch.ones(100, dtype=dtype))
        found.append(mean)
    assert torch.equal(*found)
