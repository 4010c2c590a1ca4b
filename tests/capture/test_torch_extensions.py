"""Beyond plain dense tensors: subclasses, function protocol, custom operators, sparse, complex, quantized, nested."""

import numpy
import pytest
import torch
from tests.torch_differential import check

import firesteel as fs


@torch.library.custom_op("firesteel_tests::twice", mutates_args=())
def twice(x: torch.Tensor, times: int = 2) -> torch.Tensor:
    return torch.from_numpy(x.detach().numpy() * times)


@twice.register_fake
def _(x, times=2):
    return torch.empty_like(x)


twice.register_autograd(lambda ctx, grad: (grad * 2, None))


@torch.library.custom_op("firesteel_tests::fill", mutates_args={"x"})
def fill(x: torch.Tensor, value: float) -> None:
    x.fill_(value)


@torch.library.custom_op("firesteel_tests::unknown", mutates_args=())
def unknown(x: torch.Tensor) -> torch.Tensor:
    return x[x > 0].clone()


library = torch.library.Library("firesteel_tests", "FRAGMENT")
library.define("plus(Tensor x, Tensor y) -> Tensor")
library.impl("plus", lambda x, y: x + y, "CompositeExplicitAutograd")
library.define("pair(Tensor x) -> (Tensor, Tensor)")
library.impl("pair", lambda x: (x + 1, x - 1), "CompositeImplicitAutograd")


def leaf():
    return (torch.randn(3, 4, requires_grad=True),)


CUSTOM = {
    "definition": lambda x: twice(x) + 1,
    "keyword": lambda x: twice(x, times=3) + 1,
    "packet": lambda x: torch.ops.firesteel_tests.twice(x, 4),
    "overload": lambda x: torch.ops.firesteel_tests.twice.default(x),
    "library": lambda x: torch.ops.firesteel_tests.plus(x.detach(), x.detach()),
    "pair": lambda x: torch.ops.firesteel_tests.pair(x),
    "aten": lambda x: (torch.ops.aten.add(x, 1), torch.ops.aten.add.Tensor(x, x), torch.ops.aten.mul.Scalar(x, 2)),
}


@pytest.mark.parametrize("name", CUSTOM)
def test_custom_operator(name):
    check(CUSTOM[name], leaf, backward=name != "library")


def test_custom_operator_that_mutates():
    def f(x):
        y = x.detach().clone()
        fill(y, 2.0)
        return y + x

    check(f, leaf, backward=True)


def test_custom_operator_without_fake():
    check(lambda x: unknown(x.detach()) * 2, leaf, fullgraph=False)


class Tagged(torch.Tensor):
    """Inherits torch's own function protocol."""


class Logged(torch.Tensor):
    calls = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.calls.append(getattr(func, "__name__", str(func)))
        return super().__torch_function__(func, types, args, kwargs or {})


class Diagonal:
    """No tensor, but takes part in torch functions."""

    def __init__(self, n, value):
        self.n, self.value = n, value

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is torch.mean:
            return args[0].value / args[0].n
        if func is torch.add:
            return "added"
        return NotImplemented


@pytest.mark.parametrize("kind", [Tagged, Logged])
def test_subclass_as_input(kind):
    def make():
        return torch.randn(3).as_subclass(kind), torch.randn(3)

    outcome = check(lambda x, y: (torch.sin(x) + y, x * 2, y + x, type(x).__name__), make)
    assert type(outcome.result[0]) is kind
    assert not outcome.breaks


def test_subclass_is_not_asked_by_capture():
    asked = []

    class Noticing(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            asked.append(func)
            return super().__torch_function__(func, types, args, kwargs or {})

    def f(x, t):
        return x + 1, [t]

    compiled = fs.compile(f, dynamic=True)
    for size in (2, 3):
        compiled(torch.randn(size), torch.randn(size).as_subclass(Noticing))
    assert asked == []


def test_subclass_made_inside():
    check(lambda x: torch.sin(x.detach().as_subclass(Tagged)), leaf, fullgraph=False)
    check(lambda x: (x.as_subclass(torch.Tensor) + 1, x.type(torch.DoubleTensor)), leaf, fullgraph=False, backward=True)
    check(lambda x: (torch.Tensor._make_subclass(Tagged, x.detach()), x + 1), leaf, fullgraph=False)


def test_function_protocol_of_objects():
    check(
        lambda d, x: (torch.mean(d), torch.add(d, x), x + 1),
        lambda: (Diagonal(2, 3.0), torch.randn(2)),
        fullgraph=False,
    )


def test_wrapper_subclass():
    class Wrapped(torch.Tensor):
        @staticmethod
        def __new__(cls, inner):
            return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

        def __init__(self, inner):
            self.inner = inner

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            plain = [a.inner if isinstance(a, cls) else a for a in args]
            return cls(func(*plain, **(kwargs or {})) + 100)

    import firesteel as fs

    compiled = fs.compile(lambda x: torch.sin(x), backend="eager")
    inner = torch.randn(3)
    for _ in range(2):
        assert torch.equal(compiled(Wrapped(inner)).inner, torch.sin(inner) + 100)


SPARSE = {
    "coo": lambda x: x.to_sparse().to_dense(),
    "csr": lambda x: x.to_sparse_csr() @ x.T,
    "mm": lambda x: torch.sparse.mm(x.to_sparse(), x.T),
    "construct": lambda x: torch.sparse_coo_tensor(torch.tensor([[0, 1], [1, 2]]), x[0, :2], (3, 4)).to_dense(),
    "attributes": lambda x: (x.to_sparse().is_sparse, x.to_sparse().layout, x.to_sparse().values()),
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SPARSE)
def test_sparse(name):
    check(lambda x: SPARSE[name](x.detach()), leaf, fullgraph=False)


@pytest.mark.filterwarnings("ignore")
def test_unusual_inputs():
    check(
        lambda s, y: (s @ y, (s * 2).to_dense()), lambda: (torch.eye(3).to_sparse(), torch.randn(3, 3)), fullgraph=False
    )
    check(
        lambda q: q.dequantize() + 1,
        lambda: (torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8),),
        fullgraph=False,
    )
    check(
        lambda n: (n * 2).to_padded_tensor(0.0),
        lambda: (torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),),
        fullgraph=False,
    )
    check(lambda c: c * 2, lambda: (torch.randn(3, dtype=torch.complex64).conj(),), fullgraph=False)
    check(lambda m: (m * 2).shape, lambda: (torch.empty(3, device="meta"),), fullgraph=False)
    check(lambda x: x * 2, lambda: (torch.randn(()),))
    check(lambda x: (x * 2, x.sum()), lambda: (torch.randn(0, 3),))


COMPLEX = {
    "arithmetic": lambda z: (z * 2, z + 1j, z / z, z**2, z.abs(), z.angle()),
    "parts": lambda z: (z.real, z.imag, torch.view_as_real(z)),
    "conjugate": lambda z: (z.conj() * z, z.conj().resolve_conj(), z.conj_physical(), z.H, z.mH),
    "fft": lambda z: (
        torch.fft.fft(z),
        torch.fft.ifft(z).real,
        torch.fft.rfft(z.real.contiguous()),
        torch.fft.fftshift(z),
    ),
    "linear algebra": lambda z: (z @ z.T, torch.linalg.norm(z), z.sum()),
}


@pytest.mark.parametrize("name", COMPLEX)
def test_complex(name):
    check(
        COMPLEX[name],
        lambda: (torch.randn(3, 4, dtype=torch.complex64, requires_grad=True),),
        fullgraph=name not in {"conjugate"},
        backward=True,
    )


@pytest.mark.parametrize(
    "dtype",
    [
        torch.float16,
        torch.bfloat16,
        torch.float64,
        torch.int8,
        torch.uint8,
        torch.int16,
        torch.int32,
        torch.int64,
        torch.bool,
        torch.complex64,
        torch.float8_e4m3fn,
        torch.uint16,
    ],
)
def test_dtypes(dtype):
    def f(x):
        y = x.to(torch.float32)
        return (
            y * 2,
            x.clone(),
            x.to(torch.int32) if not dtype.is_complex else x.real,
            x.dtype,
            torch.zeros_like(x),
            x.view(-1),
        )

    check(f, lambda: (torch.randint(0, 2, (3, 4)).to(dtype),))
    if dtype not in (torch.float8_e4m3fn, torch.uint16, torch.bool):
        check(
            lambda x: (x + x, x * 2, x + 1.5, x.sum(), (x != 0).any()), lambda: (torch.randint(0, 2, (3, 4)).to(dtype),)
        )


def test_numpy_meets_torch():
    check(lambda x: torch.from_numpy(numpy.ones(3)) + x, lambda: (torch.randn(3),), fullgraph=False)
    check(lambda x: x * numpy.float32(2) + numpy.pi, lambda: (torch.randn(3),), fullgraph=False)
    check(lambda x: numpy.sin(x.numpy()), lambda: (torch.randn(3),), fullgraph=False)
    check(lambda a, x: torch.as_tensor(a) + x, lambda: (numpy.ones(3), torch.randn(3)), fullgraph=False)


def test_foreach_and_pytrees():
    from torch.utils import _pytree as pytree

    check(
        lambda xs: (torch._foreach_add(xs, 1), torch._foreach_mul(xs, xs), torch._foreach_norm(xs)),
        lambda: ([torch.randn(3), torch.randn(2)],),
    )

    def in_place(xs):
        torch._foreach_mul_(xs, 2.0)
        torch._foreach_add_(xs, xs)
        return xs[0] + 1

    check(in_place, lambda: ([torch.randn(3), torch.randn(2)],))
    check(
        lambda tree: pytree.tree_map(lambda t: t * 2, tree),
        lambda: ({"a": [torch.randn(2)], "b": (torch.randn(1), 3)},),
        fullgraph=False,
    )
    check(
        lambda tree: pytree.tree_flatten(tree)[0],
        lambda: ({"a": [torch.randn(2)], "b": (torch.randn(1), 3)},),
        fullgraph=False,
    )


def test_distributions():
    from torch import distributions

    def f(loc):
        d = distributions.Normal(loc, 1.0)
        sample = d.rsample()
        return sample, d.log_prob(sample), d.entropy()

    check(f, leaf, fullgraph=False, backward=True)
    check(lambda x: distributions.Categorical(logits=x).sample(), leaf, fullgraph=False)


def test_checks_and_compiler_questions():
    def f(x):
        torch._check(x.shape[0] == 3)
        torch._assert(x.shape[0] == 3, "three")
        assert x.dim() == 2, "two dimensions"
        return x * 2

    check(f, leaf, backward=True)
    check(lambda x: (x * 2, torch.jit.is_scripting(), torch.jit.is_tracing()), leaf, backward=True)

    def failing(x):
        torch._check(x.shape[0] == 4, lambda: "wanted four")
        return x * 2

    check(failing, leaf, fullgraph=False, raises=RuntimeError)


def test_a_class_that_says_it_equals_tensors():
    class Same(type):
        def __eq__(cls, other):
            return True

        __hash__ = type.__hash__

    class Odd(metaclass=Same):
        pass

    check(lambda o, x: (o, x + 1), lambda: (Odd(), torch.randn(2)), fullgraph=False)
