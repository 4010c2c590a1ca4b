"""Classes of tensors as programs write them: with ``__torch_function__``, and wrappers with ``__torch_dispatch__``."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import return_and_correct_aliasing
from torch.utils._pytree import tree_map, tree_map_only

ATEN = torch.ops.aten


class Plain(torch.Tensor):
    """Defines nothing: results are of the class."""


class Derived(Plain):
    """Goes before its base."""


class Other(torch.Tensor):
    """Knows nothing of Plain."""


class Labelled(torch.Tensor):
    """Passes a label on to results."""

    unit = "m"

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        result = super().__torch_function__(func, types, args, kwargs or {})
        if isinstance(result, Labelled) and not hasattr(result, "label"):
            result.label = next((arg.label for arg in args if isinstance(arg, Labelled)), "none") + "'"
        return result

    def described(self) -> str:
        return f"{self.label} in {self.unit}"

    @property
    def doubled(self):
        return self * 2


HANDLED: dict[Any, Any] = {}


def implements(*functions):
    def register(implementation):
        for function in functions:
            HANDLED[function] = implementation
        return implementation
    return register


class Handled(torch.Tensor):
    """Looks functions up in a table, as torch's documentation shows."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func in HANDLED and all(issubclass(kind, (torch.Tensor, Handled)) for kind in types):
            return HANDLED[func](*args, **kwargs)
        return super().__torch_function__(func, types, args, kwargs)


@implements(torch.mean, torch.Tensor.mean)
def handled_mean(x, *args, **kwargs):
    with torch._C.DisableTorchFunctionSubclass():
        return torch.sum(x) / x.numel() + 1


@implements(F.linear)
def handled_linear(x, weight, bias=None):
    return torch.matmul(x, weight.t()) * 2


class Negated(torch.Tensor):
    """Answers some functions with other results, of plain class."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        if func is torch.sin or func == torch.Tensor.sin:
            with torch._C.DisableTorchFunctionSubclass():
                return -torch.cos(args[0])
        if func == torch.Tensor.shape.__get__:
            return "no shape"
        return super().__torch_function__(func, types, args, kwargs or {})


class Counting(torch.Tensor):
    """Counts calls in a class attribute."""

    calls = 0

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        Counting.calls += 1
        return super().__torch_function__(func, types, args, kwargs or {})


class Transparent(torch.Tensor):
    """Treated as a plain tensor by torch functions."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    def twice(self):
        return self * 2


class Operators(torch.Tensor):
    """Has special methods of its own."""

    def __add__(self, other):
        return torch.sub(self, other)

    def __radd__(self, other):
        return torch.mul(self, other)

    def __getitem__(self, key):
        return super().__getitem__(key) + 0.5

    def __len__(self):
        return 7

    def relu(self):
        return super().relu() - 1


class Sized(torch.Tensor):
    """Is made with arguments of its own."""

    @staticmethod
    def __new__(cls, data, scale):
        return torch.Tensor._make_subclass(cls, data)

    def __init__(self, data, scale):
        self.scale = scale

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        with torch._C.DisableTorchFunctionSubclass():
            result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor) and not isinstance(result, Sized) and result.dim():
            return Sized(result, max(arg.scale for arg in args if isinstance(arg, Sized)))
        return result


class TaggedParameter(torch.nn.Parameter):
    """A parameter with a method."""

    def norm_of_rows(self):
        return self.pow(2).sum(-1, keepdim=True).sqrt()


class CosineForSine(TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func is torch.sin:
            func = torch.cos
        return func(*args, **(kwargs or {}))


class Scaling(TorchFunctionMode):
    """Has state, and takes part in the construction of tensors."""

    def __init__(self, factor):
        super().__init__()
        self.factor = factor
        self.seen = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen.append(func.__name__)
        result = func(*args, **(kwargs or {}))
        return result * self.factor if func in (torch.ones, torch.relu) else result


# ---------------------------------------------------------------------------------------------------------------------
# wrappers


class Two(torch.Tensor):
    """Two tensors that everything is done to."""

    @staticmethod
    def __new__(cls, a, b):
        return torch.Tensor._make_wrapper_subclass(
            cls, a.size(), strides=a.stride(), storage_offset=a.storage_offset(), dtype=a.dtype, device=a.device,
            requires_grad=a.requires_grad)

    def __init__(self, a, b):
        self.a, self.b = a, b

    __torch_function__ = torch._C._disabled_torch_function_impl

    def __repr__(self):
        return f"Two({self.a}, {self.b})"

    def __tensor_flatten__(self):
        return ["a", "b"], None

    @staticmethod
    def __tensor_unflatten__(inner, context, size, stride):
        return Two(inner["a"], inner["b"])

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        first = func(*tree_map_only(Two, lambda x: x.a, args), **tree_map_only(Two, lambda x: x.a, kwargs))
        second = func(*tree_map_only(Two, lambda x: x.b, args), **tree_map_only(Two, lambda x: x.b, kwargs))
        if isinstance(first, torch.Tensor):
            return return_and_correct_aliasing(func, args, kwargs, Two(first, second))
        if isinstance(first, (tuple, list)):
            return type(first)(Two(x, y) if isinstance(x, torch.Tensor) else x
                               for x, y in zip(first, second, strict=True))
        return first

    def difference(self):
        return self.a - self.b


class Scaled(torch.Tensor):
    """A tensor kept divided by a number that is part of the context."""

    @staticmethod
    def __new__(cls, data, scale, title="scaled"):
        return torch.Tensor._make_wrapper_subclass(cls, data.size(), strides=data.stride(), dtype=data.dtype,
                                                   device=data.device, requires_grad=data.requires_grad)

    def __init__(self, data, scale, title="scaled"):
        self.data_inside, self.scale, self.title = data, scale, title

    __torch_function__ = torch._C._disabled_torch_function_impl

    def __tensor_flatten__(self):
        return ["data_inside"], (self.scale, self.title)

    @staticmethod
    def __tensor_unflatten__(inner, context, size, stride):
        return Scaled(inner["data_inside"], *context)

    def value(self):
        return self.data_inside * self.scale

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func in (ATEN.detach.default, ATEN.t.default, ATEN.view.default, ATEN.alias.default):
            inner = func(args[0].data_inside, *args[1:], **kwargs)
            return return_and_correct_aliasing(func, args, kwargs, Scaled(inner, args[0].scale, args[0].title))
        plain = tree_map_only(Scaled, lambda x: x.data_inside * x.scale, args)
        result = func(*plain, **tree_map_only(Scaled, lambda x: x.data_inside * x.scale, kwargs))
        if func is ATEN.mul.Tensor and isinstance(args[1], (int, float)):
            return Scaled(args[0].data_inside, args[0].scale * args[1], args[0].title)
        return result


class Quantised(torch.Tensor):
    """A weight of eight bits, as torchao has them: a table of functions above, a table of operators below."""

    @staticmethod
    def __new__(cls, data, scale, dtype):
        return torch.Tensor._make_wrapper_subclass(cls, data.size(), strides=data.stride(), dtype=dtype,
                                                   device=data.device)

    def __init__(self, data, scale, dtype):
        self.int_data, self.scale = data, scale

    @classmethod
    def from_float(cls, weight):
        scale = weight.abs().amax(1, keepdim=True) / 127
        return cls(torch.round(weight / scale).to(torch.int8), scale, weight.dtype)

    def dequantize(self):
        return self.int_data.to(self.dtype) * self.scale

    def __tensor_flatten__(self):
        return ["int_data", "scale"], (self.dtype,)

    @staticmethod
    def __tensor_unflatten__(inner, context, size, stride):
        return Quantised(inner["int_data"], inner["scale"], *context)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is F.linear:
            return quantised_linear(*args, **kwargs)
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **kwargs)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func in (ATEN.detach.default, ATEN.clone.default, ATEN.alias.default):
            made = Quantised(func(args[0].int_data), func(args[0].scale), args[0].dtype)
            return return_and_correct_aliasing(func, args, kwargs, made)
        if func is ATEN.t.default:
            return func(args[0].dequantize())
        if func is ATEN._to_copy.default:
            return func(args[0].dequantize(), **kwargs)
        return func(*tree_map_only(Quantised, lambda x: x.dequantize(), args),
                    **tree_map_only(Quantised, lambda x: x.dequantize(), kwargs))


def quantised_linear(x, weight, bias=None):
    """The product with whole numbers first, the scale behind it."""
    result = torch.matmul(x, weight.int_data.to(x.dtype).t()) * weight.scale.t()
    return result if bias is None else result + bias


class Rounded(torch.Tensor):
    """Rounds what is computed, below autograd: gradients go through as if it did not."""

    @staticmethod
    def __new__(cls, inside):
        return torch.Tensor._make_wrapper_subclass(cls, inside.size(), strides=inside.stride(), dtype=inside.dtype,
                                                   device=inside.device, requires_grad=inside.requires_grad)

    def __init__(self, inside):
        self.inside = inside

    __torch_function__ = torch._C._disabled_torch_function_impl

    def __tensor_flatten__(self):
        return ["inside"], None

    @staticmethod
    def __tensor_unflatten__(inner, context, size, stride):
        return Rounded(inner["inside"])

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        inner = func(*tree_map_only(Rounded, lambda x: x.inside, args),
                     **tree_map_only(Rounded, lambda x: x.inside, kwargs))
        if func in (ATEN.mul.Tensor, ATEN.add.Tensor, ATEN.mm.default):
            inner = torch.round(inner * 4) / 4
        made = tree_map(lambda x: Rounded(x) if isinstance(x, torch.Tensor) else x, inner)
        return return_and_correct_aliasing(func, args, kwargs, made)


class Masked(torch.Tensor):
    """Values of which some do not count."""

    @staticmethod
    def __new__(cls, values, mask):
        return torch.Tensor._make_wrapper_subclass(cls, values.size(), strides=values.stride(), dtype=values.dtype,
                                                   device=values.device)

    def __init__(self, values, mask):
        self.values_inside, self.mask = values, mask

    __torch_function__ = torch._C._disabled_torch_function_impl

    def __tensor_flatten__(self):
        return ["values_inside", "mask"], ()

    @staticmethod
    def __tensor_unflatten__(inner, context, size, stride):
        return Masked(inner["values_inside"], inner["mask"])

    def filled(self, value):
        return torch.where(self.mask, self.values_inside, torch.full_like(self.values_inside, value))

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func in (ATEN.sum.default, ATEN.sum.dim_IntList):
            return func(args[0].filled(0), *args[1:], **kwargs)
        masks = [arg.mask for arg in args if isinstance(arg, Masked)]
        mask = masks[0]
        for other in masks[1:]:
            mask = mask & other
        return Masked(func(*tree_map_only(Masked, lambda x: x.values_inside, args), **kwargs), mask)


class Inherited(Two):
    """Is not made again by what it inherits."""


class Logged(Two):
    """Writes down every operator: an effect that must not be lost."""

    log: list[str] = []

    @staticmethod
    def __tensor_unflatten__(inner, context, size, stride):
        return Logged(inner["a"], inner["b"])

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        Logged.log.append(str(func))
        return super().__torch_dispatch__(func, types, args, kwargs)
