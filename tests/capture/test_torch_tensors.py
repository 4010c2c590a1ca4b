"""Tensors in compiled functions: attributes, constructors, sizes, operators."""

import math
import warnings

import numpy
import pytest
import torch
from tests.torch_differential import check

import firesteel as fs


def two():
    return torch.randn(3, 4), torch.randn(3, 4)


def leaf():
    return (torch.randn(3, 4, requires_grad=True),)


def leaf_and_plain():
    return torch.randn(3, 4, requires_grad=True), torch.randn(3, 4)


# Attributes


ATTRIBUTES = [
    "T",
    "mT",
    "H",
    "mH",
    "data",
    "shape",
    "dtype",
    "device",
    "layout",
    "ndim",
    "requires_grad",
    "is_leaf",
    "is_cuda",
    "is_cpu",
    "is_meta",
    "is_sparse",
    "is_quantized",
    "itemsize",
    "nbytes",
    "real",
    "grad",
    "output_nr",
    "retains_grad",
    "is_nested",
    "is_mkldnn",
]


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_attribute_of_input(name):
    check(lambda x: (getattr(x, name), x + 1), leaf)


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_attribute_of_result(name):
    check(lambda x: (getattr((x * 2).detach(), name), x + 1), leaf)


METADATA_CALLS = {
    "size": lambda x: (x.size(), x.size(0), x.size(-1), x.size(dim=1)),
    "dim": lambda x: (x.dim(), x.ndimension(), x.numel(), x.nelement(), len(x)),
    "stride": lambda x: (x.stride(), x.stride(0), x.storage_offset(), x.T.stride()),
    "contiguous": lambda x: (x.is_contiguous(), x.T.is_contiguous(), x.T.contiguous().is_contiguous()),
    "types": lambda x: (
        x.is_floating_point(),
        x.is_complex(),
        x.is_signed(),
        x.type(),
        x.element_size(),
        x.dtype.is_complex,
    ),
    "device": lambda x: (x.get_device(), x.device.type, x.device.index, x.is_pinned()),
    "conj": lambda x: (x.is_conj(), x.is_neg(), x.is_inference()),
    "functions": lambda x: (torch.is_tensor(x), torch.is_floating_point(x), torch.numel(x), torch.is_complex(x)),
    "info": lambda x: (
        torch.finfo(x.dtype).eps,
        torch.finfo(x.dtype).max,
        torch.iinfo(torch.int8).min,
        torch.finfo(x.dtype).bits,
    ),
    "promotion": lambda x: (
        torch.result_type(x, 1),
        torch.promote_types(x.dtype, torch.int64),
        torch.can_cast(x.dtype, torch.int32),
    ),
    "isinstance": lambda x: (
        isinstance(x, torch.Tensor),
        isinstance(x, torch.nn.Parameter),
        isinstance(x, torch.FloatTensor),
        type(x) is torch.Tensor,
    ),
    "broadcast": lambda x: (torch.broadcast_shapes((3, 1), (1, 4)), x.shape == torch.Size([3, 4]), x.shape == (3, 4)),
}


@pytest.mark.parametrize("name", METADATA_CALLS)
def test_metadata_call(name):
    check(lambda x: (METADATA_CALLS[name](x), x + 1), leaf)


def test_grad_of_input():
    def make():
        x = torch.randn(3, requires_grad=True)
        x.grad = torch.ones(3)
        return x, torch.randn(3)

    check(lambda x, y: (x.grad * y, x.grad, x.grad is None), make)
    check(lambda x, y: (y.grad is None, y + x), make)


def test_grad_assigned():
    def f(x, y):
        x.grad = y * 2
        return x.grad + 1

    check(f, leaf_and_plain)

    def clear(x, y):
        x.grad = None
        return x + 1, x.grad is None

    check(clear, leaf_and_plain)


def test_requires_grad_set():
    def f(x):
        y = x * 2
        y.requires_grad = True
        return y, y.requires_grad, y * 3

    check(f, lambda: (torch.randn(3),), backward=True)
    check(lambda x: (x.requires_grad_(), x * 2), lambda: (torch.randn(3),), backward=True)
    check(lambda x: x.clone().requires_grad_() * 2, lambda: (torch.randn(3),), backward=True)
    check(lambda x: x.detach().requires_grad_(True) * x, leaf, backward=True)


def test_attributes_of_users():
    def f(x):
        x.note = "seen"
        x.table = {"a": x * 2}
        return x.note, x.table["a"], hasattr(x, "note"), hasattr(x, "other"), getattr(x, "other", 5)

    check(f, lambda: (torch.randn(3),))


def test_data_assigned_and_grad_fn():
    def f(x):
        x.data = x.data * 2
        return x + 1

    check(f, leaf, fullgraph=False, backward=True)
    check(lambda x: (x * 2).grad_fn is None, leaf, fullgraph=False)
    check(lambda x: (x.grad_fn is None, x * 2), leaf)
    check(lambda x: type((x * 2).grad_fn).__name__, leaf, fullgraph=False)
    check(lambda x: (x.detach() * 2).grad_fn, leaf)
    check(lambda x: (x._version, x.add_(1)._version, x._version), lambda: (torch.randn(3),), fullgraph=False)


# Constructors


CONSTRUCTORS = {
    "tensor int": lambda x: torch.tensor(3),
    "tensor float": lambda x: torch.tensor(2.5),
    "tensor bool": lambda x: torch.tensor([True, False]),
    "tensor complex": lambda x: torch.tensor([1j, 2]),
    "tensor nested": lambda x: torch.tensor([[1, 2], [3, 4.5]]),
    "tensor dtype": lambda x: torch.tensor([1, 2], dtype=torch.float16),
    "tensor grad": lambda x: torch.tensor([1.0, 2.0], requires_grad=True) * x[0, 0],
    "tensor empty": lambda x: torch.tensor([]),
    "tensor of sizes": lambda x: torch.tensor(x.shape),
    "tensor of range": lambda x: torch.tensor(range(4)),
    "tensor of tuple": lambda x: torch.tensor((1, (2, 3)[0])),
    "as_tensor list": lambda x: torch.as_tensor([1, 2.0]),
    "as_tensor tensor": lambda x: torch.as_tensor(x),
    "as_tensor other dtype": lambda x: torch.as_tensor(x, dtype=torch.float64),
    "asarray": lambda x: torch.asarray([1, 2]),
    "scalar_tensor": lambda x: torch.scalar_tensor(2),
    "arange": lambda x: (torch.arange(5), torch.arange(1, 7, 2), torch.arange(0.0, 1.0, 0.25), torch.arange(x.size(0))),
    "linspace": lambda x: (torch.linspace(0, 1, 5), torch.logspace(0, 2, 3), torch.range(0, 3)),
    "zeros": lambda x: (
        torch.zeros(2),
        torch.zeros(2, 3),
        torch.zeros((2, 3)),
        torch.zeros([2], dtype=torch.int8),
        torch.zeros(x.shape),
    ),
    "ones": lambda x: (torch.ones(2), torch.ones(*x.shape), torch.ones(x.size(), dtype=x.dtype, device=x.device)),
    "full": lambda x: (
        torch.full((2,), 3),
        torch.full((2,), 3.0),
        torch.full((2,), True),
        torch.full(x.shape, math.inf),
    ),
    "eye": lambda x: (torch.eye(3), torch.eye(2, 3)),
    "likes": lambda x: (
        torch.zeros_like(x),
        torch.ones_like(x, dtype=torch.int32),
        torch.full_like(x, 2),
        torch.empty_like(x).fill_(1),
    ),
    "news": lambda x: (
        x.new_zeros(2),
        x.new_ones((2, 3)),
        x.new_full((2,), 5),
        x.new_tensor([1, 2]),
        x.new_empty(3).zero_(),
    ),
    "empty": lambda x: (torch.empty(2, 3).zero_(), torch.empty_strided((2, 3), (1, 2)).fill_(0), torch.empty(0)),
    "grids": lambda x: (
        torch.meshgrid(torch.arange(2), torch.arange(3), indexing="ij"),
        torch.tril_indices(3, 3),
        torch.cartesian_prod(torch.arange(2), torch.arange(2)),
    ),
    "windows": lambda x: (torch.hann_window(5), torch.hamming_window(4), torch.kaiser_window(4)),
    "complex": lambda x: (torch.complex(x, x), torch.polar(x.abs(), x), torch.view_as_complex(torch.stack([x, x], -1))),
    "casts": lambda x: (
        x.to(torch.float64),
        x.double(),
        x.half(),
        x.to(x.dtype),
        x.long(),
        x.bool(),
        x.to("cpu"),
        x.type(torch.int32),
        x.type_as(x.double()),
        x.cpu(),
        x.bfloat16(),
        x.to(device="cpu", dtype=torch.float16, copy=True),
    ),
    "classes": lambda x: (torch.FloatTensor([1, 2]), torch.LongTensor([1]), torch.Tensor([1.5])),
    "parameter": lambda x: torch.nn.Parameter(x.detach() * 2),
    "from tensors": lambda x: torch.tensor([x.size(0), x.size(1)]) + 1,
    "block": lambda x: (torch.block_diag(x, x), torch.vander(x[0]), torch.diag(x[0])),
}


@pytest.mark.parametrize("name", CONSTRUCTORS)
def test_constructor(name):
    broken = {"classes", "tensor of range"}
    check(lambda x: (CONSTRUCTORS[name](x), x + 1), lambda: (torch.randn(3, 4),), fullgraph=name not in broken)


def test_tensor_from_tensors():
    check(lambda x: (torch.tensor([x[0, 0], x[0, 1]]), x + 1), lambda: (torch.randn(3, 4),), fullgraph=False)
    check(lambda x: torch.stack([x[0], x[1]]), leaf, backward=True)
    check(lambda x: (torch.tensor(x), x + 1), lambda: (torch.randn(3, 4),), fullgraph=False)


def test_default_dtype_and_device():
    def f(x):
        torch.set_default_dtype(torch.float64)
        try:
            return torch.ones(2), x + 1
        finally:
            torch.set_default_dtype(torch.float32)

    check(f, lambda: (torch.randn(3),), fullgraph=False)
    compiled_args = lambda: (torch.randn(3),)
    torch.set_default_dtype(torch.float64)
    try:
        check(lambda x: (torch.ones(2), x + 1.5, torch.tensor(1.5), torch.arange(3) / 2), compiled_args)
    finally:
        torch.set_default_dtype(torch.float32)
    check(lambda x: (torch.get_default_dtype(), torch.get_default_device(), x + 1), compiled_args)


def test_device_contexts():
    def f(x):
        with torch.device("cpu"):
            y = torch.ones(3)
        return x + y

    check(f, lambda: (torch.randn(3),))

    def meta(x):
        with torch.device("meta"):
            y = torch.ones(3)
            with torch.device("cpu"):
                z = torch.ones(3)
        return y, y.device, z, torch.ones(2), x + 1

    check(meta, lambda: (torch.randn(3),))

    def broken(x):
        with torch.device("meta"):
            y = torch.ones(3)
            n = x.sum().item()
            z = torch.ones(2)
        return y, z, n, torch.ones(2)

    check(broken, lambda: (torch.randn(3),), fullgraph=False)

    def raising(x):
        with torch.device("meta"):
            y = torch.ones(3)
            torch.linalg.cholesky(-torch.eye(2, device="cpu"))
        return y

    check(raising, lambda: (torch.randn(3),), raises=torch.linalg.LinAlgError)

    def linear(x):
        with torch.device("meta"):
            layer = torch.nn.Linear(4, 4)
        return layer.weight.device, x + 1

    check(linear, lambda: (torch.randn(3),), fullgraph=False)
    with torch.device("cpu"):
        check(lambda x: x + torch.ones(3), lambda: (torch.randn(3),), fullgraph=False)
    assert torch.ones(1).device.type == "cpu"


# Sizes


SIZES = {
    "concatenation": lambda s: (s + (5,), s + torch.Size([5]), (1,) + s, s[:1] + s[1:], s * 2),
    "items": lambda s: (s[0], s[-1], s[0:1], s[::-1], s[:-1] + (7,)),
    "methods": lambda s: (s.numel(), len(s), s.count(3), s.index(4), list(s), tuple(s), 3 in s),
    "unpacking": lambda s: [a * b for a, b in [s]],
    "types": lambda s: (
        type(s),
        isinstance(s, tuple),
        isinstance(s, torch.Size),
        s == [3, 4],
        s == (3, 4),
        s != (3, 4),
    ),
    "making": lambda s: (torch.Size([1, 2]), torch.Size(s), torch.Size((s[0], 2)), torch.Size()),
    "arithmetic": lambda s: (
        s[0] * s[1] // 2,
        s[0] % 2,
        -s[0],
        s[0] / 2,
        s[0] ** 2,
        math.sqrt(s[0]),
        max(s),
        min(s),
        sum(s),
        math.prod(s),
    ),
    "text": lambda s: (str(s), f"{s[0]}x{s[1]}", repr(s)),
    "hash": lambda s: ({s: 1}[s], hash(s) == hash((3, 4))),
}


@pytest.mark.parametrize("name", SIZES)
def test_size(name):
    check(lambda x: (SIZES[name](x.shape), x + 1), lambda: (torch.randn(3, 4),))


def test_size_as_argument():
    check(lambda x, s: (x.view(s), x.new_zeros(s + (2,)), s.numel()), lambda: (torch.randn(12), torch.Size([3, 4])))


# Operators


OPERATORS = {
    "arithmetic": lambda x, y: (x + y, x - y, x * y, x / y, x // y, x % y, x**2, 2**x, -x, +x, abs(x)),
    "numbers": lambda x, y: (1 + x, 1 - x, 2 * x, 2 / x, 7 // y, 7 % y, 1.5 + x, True + x, x + 1j),
    "matmul": lambda x, y: (x @ y.T, x.T @ y),
    "compare": lambda x, y: (x < y, x <= y, x == y, x != y, x > 0, 0 >= x),
    "bits": lambda x, y: ((x > 0) & (y > 0), (x > 0) | (y > 0), (x > 0) ^ (y > 0), ~(x > 0)),
    "shifts": lambda x, y: (x.int() << 1, x.int() >> 1, 2 << x.abs().int(), x.int() & 3, x.int() | 1, x.int() ^ 5),
    "functions": lambda x, y: (pow(x, 2), x.round(), sum([x, y]), sum((x, y), x)),
    "not implemented": lambda x, y: (
        x.__add__(y),
        x.__radd__(1),
        x.__eq__(y),
        x.__matmul__(y.T),
        x.__rsub__(1),
        x.__rpow__(2),
        x.__len__(),
    ),
    "equality with others": lambda x, y: (x is None, x is not y, x in [x], [x, y].index(x)),
    "chained": lambda x, y: torch.where((x < y) & (y < 2), x, y).clamp(0, 1).sum(dim=[0, 1], keepdim=True),
    "reductions": lambda x, y: (
        x.sum(),
        x.mean(0),
        x.max(),
        x.max(1),
        x.min(0).values,
        x.argmax(),
        x.std(),
        x.norm(),
        x.all(),
        x.any(),
        torch.max(x, y),
        x.topk(2),
        x.sort(),
        x.median(),
        torch.var_mean(x),
    ),
    "sequences": lambda x, y: (
        torch.cat([x, y]),
        torch.cat((x, y), dim=1),
        torch.stack([x] * 3),
        torch.hstack([x, y]),
        torch.einsum("ij,kj->ik", x, y),
        torch.broadcast_tensors(x, y[0]),
    ),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operator(name):
    check(OPERATORS[name], two, fullgraph=name != "equality with others")


def test_result_types():
    def f(x):
        top = x.topk(2)
        values, indices = x.sort(descending=True)
        return top.values, top[1], type(top).__name__, len(top), values, indices, x.max(0), torch.svd(x).S

    check(f, lambda: (torch.randn(3, 4),))


def test_values_of_tensors_break_and_are_right():
    check(lambda x: x.sum().item() + 1, lambda: (torch.arange(3),), fullgraph=False)
    check(lambda x: (x.tolist(), int(x[0]), float(x[1]), bool(x[2])), lambda: (torch.arange(3),), fullgraph=False)
    check(lambda x: "yes" if x.sum() > 2 else "no", lambda: (torch.arange(3),), fullgraph=False)
    check(lambda x: [0, 1, 2][x[1]], lambda: (torch.arange(3),), fullgraph=False)
    check(lambda x: (str(x), f"{x[0]}", repr(x)), lambda: (torch.arange(3),), fullgraph=False)
    check(lambda x: x.numpy().sum(), lambda: (torch.arange(3),), fullgraph=False)
    check(lambda x: list(range(x[2])), lambda: (torch.arange(3),), fullgraph=False)
    check(lambda x: torch.zeros(int(x[2])) + x[0], lambda: (torch.arange(3),), fullgraph=False)


def test_steps_between_graphs_can_import():
    import pickle

    check(lambda x: pickle.loads(pickle.dumps(x * 2)) + 1, lambda: (torch.randn(3),), fullgraph=False)


def test_parameter_made_inside():
    def f(x):
        w = torch.nn.Parameter(torch.ones(4))
        with torch.no_grad():
            v = torch.nn.Parameter(x.detach()[0], requires_grad=False)
        return isinstance(w, torch.nn.Parameter), type(w), w.requires_grad, x * w + v, w, v

    check(f, leaf, backward=True)


def test_errors_of_operations_are_caught():
    def f(x):
        try:
            torch.nn.functional.linear(x, torch.ones(2, 2))
        except RuntimeError:
            x = x * 2
        else:
            x = x * 3
        finally:
            x = x + 1
        return x

    check(f, leaf, fullgraph=False, backward=True)


@pytest.mark.parametrize("scalar", [numpy.float64(1.5), numpy.float16(1.5), numpy.int8(3), numpy.complex128(2j)])
def test_tensors_of_numpy_scalars_have_their_dtype(scalar):
    def f(x, scalar, scalars):
        return (torch.tensor(scalar), torch.as_tensor(scalar * 2), torch.asarray(scalar), torch.tensor(data=[[scalar]]),
                torch.tensor(scalars), torch.tensor([scalar, len(x)]), torch.tensor((2.0, scalar)),
                torch.tensor(scalar, dtype=torch.complex64), torch.tensor(numpy.sqrt(2)))

    check(f, lambda: (torch.ones(2), scalar, [scalar, scalar]))


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_warnings_of_functions_come_in_each_call(backend):
    def messages(function):
        found = []
        for size in (3, 4, 5):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                function(torch.ones(size, 2), torch.ones(1, 2))
            found.append([(str(warning.message), warning.lineno) for warning in caught])
        return found

    def f(a, b):
        return torch.nn.functional.mse_loss(a, b)

    assert messages(fs.compile(f, backend=backend)) == messages(f)


def test_the_warning_of_a_resized_result_comes_once():
    def fn(x):
        result = torch.empty(3)
        torch.add(x, x, out=result)
        return result

    for function in (fn, fs.compile(fn, backend="eager")):
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            function(torch.ones(4))
        assert [warning.filename for warning in seen] == [__file__]
