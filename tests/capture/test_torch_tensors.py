"""Tensors in compiled functions: attributes, constructors, sizes, indexing, views, in-place operations, out=."""

import math

import pytest
import torch
from tests.torch_differential import check


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


# Indexing


INDICES = {
    "int": lambda x, i, m: x[1],
    "negative": lambda x, i, m: x[-1],
    "ints": lambda x, i, m: x[1, 2],
    "slice": lambda x, i, m: x[1:],
    "steps": lambda x, i, m: x[::2, 1::2],
    "empty slice": lambda x, i, m: x[3:1],
    "none": lambda x, i, m: x[None, :, None],
    "ellipsis": lambda x, i, m: x[..., 0],
    "mixed": lambda x, i, m: x[..., None, 1:3],
    "list": lambda x, i, m: x[[0, 2]],
    "nested list": lambda x, i, m: x[[[0, 1], [2, 0]]],
    "two lists": lambda x, i, m: x[[0, 1], [1, 2]],
    "tuple of lists": lambda x, i, m: x[([0, 1], slice(None))],
    "tensor": lambda x, i, m: x[i],
    "tensor column": lambda x, i, m: x[:, i],
    "tensor both": lambda x, i, m: x[i, i],
    "tensor none": lambda x, i, m: x[i, None],
    "separated": lambda x, i, m: x[None, i, :, None][:, :, 0],
    "bool": lambda x, i, m: x[True],
    "zero-dim": lambda x, i, m: x[torch.tensor(1)],
    "range": lambda x, i, m: x[range(2)],
    "where": lambda x, i, m: torch.where(m, x, x * 2),
    "take": lambda x, i, m: (
        x.take(i),
        x.gather(0, i[None, :3]),
        x.index_select(0, i),
        torch.take_along_dim(x, i[:, None], 1),
    ),
    "iterate": lambda x, i, m: [row.sum() for row in x],
    "unpack": lambda x, i, m: (lambda a, b, c: a + b * c)(*x),
    "mask": lambda x, i, m: x[m],
    "mask rows": lambda x, i, m: x[m[:, 0]],
    "mask column": lambda x, i, m: x[:, m[0]],
    "list of bools": lambda x, i, m: x[[True, False, True]],
    "nonzero": lambda x, i, m: torch.nonzero(m),
}
DATA_DEPENDENT = {"mask", "mask rows", "mask column", "list of bools", "nonzero", "zero-dim", "bool"}


def indexed():
    return torch.randn(3, 4, requires_grad=True), torch.tensor([0, 2, 1]), torch.rand(3, 4) > 0.5


@pytest.mark.parametrize("name", INDICES)
def test_index(name):
    check(INDICES[name], indexed, fullgraph=name not in DATA_DEPENDENT, backward=True)


def assign(f):
    def run(x, i, m, v):
        y = x.clone()
        z = f(y, i, m, v)
        return y, z

    return run


def _set(y, key, value):
    y[key] = value
    return y


ASSIGNMENTS = {
    "int": lambda y, i, m, v: _set(y, 1, 5.0),
    "slice": lambda y, i, m, v: _set(y, slice(1, None), v[0]),
    "tuple": lambda y, i, m, v: _set(y, (slice(None), 1), v[:, 0]),
    "none": lambda y, i, m, v: _set(y, (None, 0), 1),
    "ellipsis": lambda y, i, m, v: _set(y, (..., 0), 0),
    "all": lambda y, i, m, v: _set(y, slice(None), v),
    "list": lambda y, i, m, v: _set(y, [0, 2], v[:2]),
    "tensor": lambda y, i, m, v: _set(y, i, v),
    "tensors": lambda y, i, m, v: _set(y, (i, i), v[:, 0]),
    "mask number": lambda y, i, m, v: _set(y, m, 2.0),
    "mask tensor": lambda y, i, m, v: _set(y, m, v[0, 0]),
    "augmented": lambda y, i, m, v: y[0].add_(v[0]),
    "bool": lambda y, i, m, v: _set(y, True, 3.0),
    "index_put": lambda y, i, m, v: y.index_put_((i,), v, accumulate=True),
    "scatter": lambda y, i, m, v: (
        y.scatter_(0, i[None, :3], v[:1, :3]),
        y.index_fill_(0, i, 1.0),
        y.index_add_(0, i, v),
    ),
}


@pytest.mark.parametrize("name", ASSIGNMENTS)
def test_assignment(name):
    check(
        assign(ASSIGNMENTS[name]),
        lambda: (*indexed(), torch.randn(3, 4, requires_grad=True)),
        backward=True,
        fullgraph=name not in {"bool"},
    )


def test_augmented_assignment_statement():
    def f(x, v):
        y = x.clone()
        y[1:] += v[1:]
        y[0, 0] *= 3
        y[..., -1] -= 1
        y -= v
        y **= 2
        return y

    check(f, lambda: (torch.randn(3, 4), torch.randn(3, 4, requires_grad=True)), backward=True)


def test_wrong_index_raises():
    check(lambda x: x[5], lambda: (torch.randn(3),), raises=IndexError, fullgraph=False)
    check(lambda x: x[0, 0], lambda: (torch.randn(3),), raises=IndexError, fullgraph=False)
    check(lambda x: x["a"], lambda: (torch.randn(3),), raises=TypeError, fullgraph=False)
    check(lambda x: x.nothing, lambda: (torch.randn(3),), raises=AttributeError)
    check(lambda x: x.view(7), lambda: (torch.randn(3),), raises=RuntimeError, fullgraph=False)


# Views, in-place operations, out=


VIEWS = {
    "view": lambda x: x.view(4, 3),
    "view dtype": lambda x: x.view(torch.int32),
    "reshape": lambda x: x.reshape(-1),
    "reshape copy": lambda x: x.T.reshape(-1),
    "transpose": lambda x: x.transpose(0, 1),
    "permute": lambda x: x.permute(1, 0),
    "T": lambda x: x.T,
    "narrow": lambda x: x.narrow(0, 1, 2),
    "slice": lambda x: x[1:, ::2],
    "row": lambda x: x[1],
    "whole": lambda x: x[:],
    "split": lambda x: x.split(2, 1),
    "chunk": lambda x: x.chunk(2, 1),
    "unbind": lambda x: x.unbind(),
    "expand": lambda x: x[None].expand(2, 3, 4),
    "unfold": lambda x: x.unfold(1, 2, 1),
    "diagonal": lambda x: x.diagonal(),
    "as_strided": lambda x: x.as_strided((2, 2), (1, 2), 1),
    "squeeze": lambda x: (x.unsqueeze(0).squeeze(0), x.squeeze()),
    "flatten": lambda x: x.flatten(),
    "detach": lambda x: x.detach(),
    "alias": lambda x: x.view_as(x),
    "identity": lambda x: x,
    "contiguous": lambda x: (x.contiguous(), x.contiguous() is x),
    "to": lambda x: (x.to(x.dtype), x.to(x.dtype) is x, x.float() is x, x.cpu() is x),
    "chain": lambda x: x.T[1:].unsqueeze(0).view(3, 3)[0],
    "tuple": lambda x: (x, x[0], x[0][1:], [x]),
    "movedim": lambda x: (x.movedim(0, 1), x.swapaxes(0, 1), x.unflatten(1, (2, 2))),
    "real": lambda x: (x.real, x.real is x),
    "clone": lambda x: x.clone(),
    "dropout eval": lambda x: torch.nn.functional.dropout(x, 0.5, False),
}


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("grad", [False, True])
def test_view(name, grad):
    if name == "view dtype" and grad:
        pytest.skip("integers have no gradient")
    check(VIEWS[name], lambda: (torch.randn(3, 4, requires_grad=grad),), backward=grad)


def test_in_place_of_input_through_views():
    def f(x):
        y = x[1]
        y.mul_(2)
        x.add_(1)
        z = x.T
        z[0] = 5
        return y, z, x.add_(1) is x

    check(f, lambda: (torch.randn(3, 4),))


def test_in_place_result_is_the_input():
    check(lambda x: x.add_(1), lambda: (torch.randn(3),))
    check(lambda x: (x.add_(1) is x, x.mul_(2).sub_(1) is x, x), lambda: (torch.randn(3),))

    def operator(x):
        before = x
        x += 1
        x *= 2
        return before is x, x

    check(operator, lambda: (torch.randn(3),))


def test_in_place_on_intermediate_and_leaf():
    check(lambda x: (x * 2).add_(1).relu_(), leaf, backward=True)
    check(lambda x: x.add_(1), leaf, fullgraph=False, raises=RuntimeError)

    def detached(x):
        x.detach().mul_(2)
        return x * 3

    check(detached, leaf, backward=True)

    def no_grad(x):
        with torch.no_grad():
            x.mul_(2)
        return x * 3

    check(no_grad, leaf, backward=True)


def test_in_place_metadata():
    check(lambda x: (x.t_(), x.shape, x.stride()), lambda: (torch.randn(3, 4),))
    check(lambda x: (x.unsqueeze_(0), x.shape), lambda: (torch.randn(3, 4),))
    check(lambda x: (x.squeeze_(), x.shape, x + 1), lambda: (torch.randn(1, 4),))
    check(lambda x: x.clone().transpose_(0, 1) + 1, lambda: (torch.randn(3, 4),))
    check(lambda x: x.resize_(2, 2), lambda: (torch.randn(4, 4),), fullgraph=False)
    check(lambda x, y: x.set_(y), two, fullgraph=False)
    check(lambda x, y: (x.copy_(y), x.swapaxes_(0, 1)), two)


def test_inputs_that_alias():
    def make():
        base = torch.randn(4, 4)
        return base, base[1], base.T

    def f(a, b, c):
        b.add_(1)
        c.mul_(2)
        return a.sum(), b + 1, a

    check(f, make)

    def same():
        x = torch.randn(3)
        return x, x

    check(lambda a, b: (a.add_(1), b, a is b), same)


OUT = {
    "add": lambda x, y: torch.add(x, y, out=x),
    "new": lambda x, y: torch.mul(x, y, out=torch.empty(3, 4)),
    "resized": lambda x, y: torch.sum(x, 0, out=y.new_empty(4)),
    "is": lambda x, y: torch.add(x, 1, out=y) is y,
    "mm": lambda x, y: torch.mm(x, y.T, out=torch.zeros(3, 3)),
    "view": lambda x, y: (torch.sin(x[0], out=y[1]), y),
    "max": lambda x, y: torch.max(x, 1, out=(torch.empty(3), torch.empty(3, dtype=torch.long))),
    "cat": lambda x, y: torch.cat([x, y], out=torch.empty(6, 4)),
}


@pytest.mark.parametrize("name", OUT)
def test_out(name):
    check(OUT[name], two)


def test_out_that_must_grow():
    check(lambda x, y: torch.add(x, y, out=torch.empty(0)), two, fullgraph=False)


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
