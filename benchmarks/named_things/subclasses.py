"""Tensor subclasses, modes, wrappers, fake tensors, parameters and buffers of classes."""

import torch
from tests.capture.subclass_classes import Labelled, Plain, Quantised, Scaling, Two
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from .registry import leaf, rand, thing


class Doubling(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        return result * 2 if func is torch.sin else result


class Seeing(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.seen.append(str(func))
        return func(*args, **(kwargs or {}))


class Shifting(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        return result + 1 if func is torch.ops.aten.sin.default else result


class OwnParameter(nn.Parameter):
    pass


class OwnBuffer(nn.Buffer):
    pass


class Holder(nn.Module):
    def __init__(self, weight):
        super().__init__()
        self.weight = weight

    def forward(self, x):
        return x * self.weight, type(self.weight).__name__


def plain(grad=False, seed=0):
    return rand(seed=seed).as_subclass(Plain).requires_grad_(grad)


def two(grad=False):
    return Two(rand(), rand(seed=1)).requires_grad_(grad)


@thing(lambda: (plain(),))
def a_class_with_nothing(x):
    return x.sin() + 1


def labelled():
    x = rand().as_subclass(Labelled)
    x.label = "a"
    return (x,)


@thing(labelled)
def torch_function_of_a_class(x):
    y = x.sin()
    return y, y.label


@thing(lambda: (rand().as_subclass(Scaling) if False else rand(),))
def made_by_as_subclass(x):
    return x.as_subclass(Plain).sin()


@thing(lambda: (plain(True),), train=True)
def gradients_of_a_class(x):
    return x.sin() * 2


@thing()
def a_function_mode_inside(x):
    with Doubling():
        return torch.sin(x)


@thing()
def a_dispatch_mode_inside(x):
    with Shifting():
        return torch.sin(x) * 2


@thing()
def a_dispatch_mode_with_a_log(x):
    with Seeing() as mode:
        y = torch.sin(x) * 2
    return y, len(mode.seen)


@thing(lambda: (rand(), Shifting()))
def a_dispatch_mode_from_outside(x, mode):
    with mode:
        y = torch.sin(x)
    return y * 2


@thing(leaf, train=True)
def a_dispatch_mode_and_gradients(x):
    with Shifting():
        y = torch.sin(x)
    return y * 2


@thing(lambda: (two(),))
def a_wrapper(x):
    return (x * 2).sin()


@thing(lambda: (two(True),), train=True)
def gradients_of_a_wrapper(x):
    return (x * 2).sin()


@thing(lambda: (rand(),))
def a_wrapper_made_inside(x):
    return Two(x, x + 1) * 2


@thing(leaf, train=True)
def a_wrapper_made_inside_of_leaves(x):
    return Two(x, x * 2).a * 2


@thing(lambda: (rand(2, 8), Quantised(torch.randint(-127, 128, (4, 8), dtype=torch.int8), torch.rand(4, 1), torch.float32)))
def a_quantised_weight(x, weight):
    return torch.mm(x, weight.t()).relu()


@thing(lambda: (rand(), Holder(OwnParameter(rand(seed=1)))))
def a_parameter_subclass(x, module):
    return module(x)


@thing(lambda: (rand(), Holder(OwnBuffer(rand(seed=1)))))
def a_buffer_subclass(x, module):
    return module(x)


@thing()
def a_parameter_made_inside(x):
    p = nn.Parameter(x * 2)
    return p.detach() + 1, isinstance(p, nn.Parameter), p.requires_grad


@thing()
def a_fake_mode_inside(x):
    with FakeTensorMode():
        y = torch.empty(3, 4) @ torch.empty(4, 5)
    return x + y.shape[1]


@thing(lambda: (plain(), rand(seed=1)))
def a_list_of_a_class(x, y):
    return list(x), [a + b for a, b in zip(x, y, strict=True)]


@thing()
def device_context(x):
    with torch.device("cpu"):
        return torch.ones(6) + x


@thing()
def disabled_functions(x):
    with torch._C.DisableTorchFunctionSubclass():
        return x.sin()


def sparse():
    return (torch.eye(4).to_sparse(), rand())


@thing(sparse)
def a_sparse_product(s, x):
    return torch.sparse.mm(s, x)


@thing(sparse)
def a_sparse_operator(s, x):
    return s @ x + 1


@thing(sparse)
def a_sparse_result(s, x):
    return s * 2


@thing(sparse)
def made_dense(s, x):
    return s.to_dense() @ x


@thing(sparse)
def parts_of_sparse(s, x):
    s = s.coalesce()
    return s.values() * 2, s.indices(), s.shape


@thing()
def made_sparse(x):
    return (x.relu().to_sparse() * 2).to_dense()


@thing(lambda: (torch.tensor([[0, 1], [1, 2]]), rand(2)))
def sparse_from_parts(i, v):
    return torch.sparse_coo_tensor(i, v, (3, 4)).to_dense()


@thing(lambda: (torch.tensor([[0, 1], [1, 2]]), rand(2, grad=True), rand(4, 3)), train=True)
def gradients_through_sparse(i, v, x):
    return torch.sparse.mm(torch.sparse_coo_tensor(i, v, (3, 4)), x)


@thing(lambda: (torch.eye(4).to_sparse_csr(), rand()))
def a_csr_product(s, x):
    return s @ x


@thing(lambda: (torch.tensor([1, 2, 1]), nn.Embedding(4, 3, sparse=True)))
def a_sparse_embedding(i, layer):
    return layer(i)


@thing(lambda: (torch.tensor([1, 2, 1]), nn.EmbeddingBag(4, 3)))
def a_bag(i, layer):
    return layer(i, torch.tensor([0, 2]))


@thing()
def masked(x):
    m = torch.masked.masked_tensor(x, x > 0)
    return (m * 2).to_tensor(0.0)


@thing()
def masked_reduction(x):
    return torch.masked.sum(x, 1, mask=x > 0), torch.masked.mean(x, 1, mask=x > 0)


@thing(lambda: (torch.quantize_per_tensor(rand(), 0.1, 0, torch.qint8),))
def torch_quantised(x):
    return x.dequantize() * 2


@thing(lambda: (rand().to_mkldnn(),))
def mkldnn(x):
    return x.to_dense() + 1


@thing(lambda: (torch.complex(rand(), rand(seed=1)),))
def complex_numbers(x):
    return (x * x.conj()).real, torch.view_as_real(x)
