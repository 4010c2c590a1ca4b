"""Tensors that are made of other tensors: classes with ``__tensor_flatten__`` and a ``__torch_dispatch__``.

Graphs take and return the plain tensors inside, their *parts*. Between, they make the wrapper and call torch on it:

    def f(two, x):                  two = make_TwoTensor(two_a, two_b)
        return two * x              mul = two * x
                                    mul_a, mul_b = parts_of_TwoTensor(mul)

Run on fake tensors, ``two * x`` ends in the class's own ``__torch_dispatch__``, and what that calls is recorded.

Autograd works on the wrapper, not on its parts. So a wrapper that requires grad comes with *carriers*: tensors without
memory of their own, in the shapes of its parts and of itself, whose gradients are those of the wrapper, taken apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..fake import FakeTensor
from ..torch_compat import distributed_tensors, subclasses
from .graph import Unsupported


@dataclass(frozen=True, eq=False, repr=False)
class KeptObject:
    """What a class names among its parts and is no tensor, such as the mesh of a DTensor."""

    value: Any
    count: int = 0


@dataclass(frozen=True, eq=False, repr=False)
class WrapperSpec:
    """All of a wrapper but its parts. Its text leaves out what the program would be asked to write."""

    cls: Any
    names: tuple[str, ...]
    context: Any
    size: tuple[int, ...]
    stride: tuple[int, ...]
    inner: tuple[WrapperSpec | KeptObject | None, ...]
    """For each name the spec of what is there, None for a plain tensor."""

    def __repr__(self) -> str:
        return f"WrapperSpec({self.cls.__name__}, {', '.join(self.names)})"

    @property
    def count(self) -> int:
        """How many parts there are."""
        return sum(1 if spec is None else spec.count for spec in self.inner)


def spec_of(tensor: torch.Tensor) -> WrapperSpec:
    """What is needed to make a tensor again from its parts."""
    names, context = tensor.__tensor_flatten__()  # type: ignore[attr-defined]
    inner = [distributed_tensors.waited(getattr(tensor, name)) for name in names]
    with subclasses.DisableSubclasses():
        size, stride = tensor.shape, tensor.stride()
    return WrapperSpec(type(tensor), tuple(names), context, size, stride,
                       tuple(KeptObject(part) if not isinstance(part, torch.Tensor) else
                             spec_of(part) if is_wrapper(part) else None for part in inner))


def is_wrapper(tensor: Any) -> bool:
    """Whether a tensor is made of others."""
    return is_wrapper_class(type(tensor))


def is_wrapper_class(cls: type) -> bool:
    """Whether tensors of a class are made of others and can be made again from them."""
    return cls is not FakeTensor and issubclass(cls, torch.Tensor) and subclasses.has_own_dispatch(cls) \
        and hasattr(cls, "__tensor_flatten__") and hasattr(cls, "__tensor_unflatten__")


def parts_of(tensor: torch.Tensor) -> list[torch.Tensor]:
    """The plain tensors inside."""
    if not isinstance(tensor, torch.Tensor):
        return []
    if not is_wrapper(tensor):
        return [tensor]
    names, _ = tensor.__tensor_flatten__()  # type: ignore[attr-defined]
    return [part for name in names for part in parts_of(distributed_tensors.waited(getattr(tensor, name)))]


def rebuild(spec: WrapperSpec, parts: Sequence[torch.Tensor]) -> torch.Tensor:
    """A wrapper around parts."""
    rest = list(parts)
    inner = {}
    for name, part in zip(spec.names, spec.inner, strict=True):
        if part is None:
            inner[name] = rest.pop(0)
        elif isinstance(part, KeptObject):
            inner[name] = part.value
        else:
            count = part.count
            inner[name] = rebuild(part, rest[:count])
            del rest[:count]
    return spec.cls.__tensor_unflatten__(inner, spec.context, spec.size, spec.stride)  # type: ignore[no-any-return]


def same_context(one: Any, other: Any) -> bool:
    """Whether two contexts are equal, as far as their classes say so."""
    if one is other:
        return True
    if type(one) is not type(other):
        return False
    try:
        return bool(one == other)
    except Exception:  # code of the program's
        return False


def is_made_like(tensor: torch.Tensor, spec: WrapperSpec) -> bool:
    """Whether a tensor is a wrapper with this spec but for sizes, which are checked otherwise."""
    if type(tensor) is not spec.cls:
        return False
    names, context = tensor.__tensor_flatten__()  # type: ignore[attr-defined]
    if tuple(names) != spec.names:
        return False
    guard = getattr(spec.cls, "__metadata_guard__", None)
    same = guard(context, spec.context) if guard is not None else same_context(context, spec.context)
    return bool(same) and all(_is_like(getattr(tensor, name), part)
                              for name, part in zip(names, spec.inner, strict=True))


def _is_like(value: Any, part: WrapperSpec | KeptObject | None) -> bool:
    """Whether what is inside of a wrapper is as one part of its spec says."""
    value = distributed_tensors.waited(value)
    if part is None:
        return isinstance(value, torch.Tensor) and not is_wrapper(value)
    if isinstance(part, KeptObject):
        same = distributed_tensors.same_mesh if distributed_tensors.is_mesh(part.value) else same_context
        return same(value, part.value)
    return is_made_like(value, part)


def other_members(tensor: torch.Tensor) -> dict[str, Any]:
    """The attributes of a wrapper that are no parts. A class may keep what it does not flatten there.

    Not the mark of a parameter, which torch sets. Classes of torch's own keep nothing else.
    """
    if type(tensor).__module__.partition(".")[0] == "torch":
        return {}
    names, _ = tensor.__tensor_flatten__()  # type: ignore[attr-defined]
    return {name: value for name, value in vars(tensor).items() if name not in names and name != "_is_param"}


def has_members(tensor: torch.Tensor, members: dict[str, Any]) -> bool:
    """Whether the attributes of a wrapper that are no parts equal these."""
    own = other_members(tensor)
    return own.keys() == members.keys() and all(same_context(value, members[name]) for name, value in own.items())


def can_have_gradient(part: torch.Tensor) -> bool:
    """Whether autograd has gradients for tensors of this kind."""
    return part.dtype.is_floating_point or part.dtype.is_complex


# ---------------------------------------------------------------------------------------------------------------------
# into the graph


class Carriers:
    """Makes the carriers of a wrapper that requires grad, and its gradient of theirs."""

    def __init__(self) -> None:
        # how a gradient is made of those of the parts; known when backward has been traced
        self.spec: WrapperSpec | None = None
        # whether its only part comes through the carrier of the whole, being as large: a part of the wrapper is not
        self.is_whole = False
        self.__name__ = "carriers"

    def __call__(self, tensor: torch.Tensor) -> tuple[torch.Tensor, ...]:
        subclasses.hooks_for_gradients(tensor)
        with torch.enable_grad():
            return _Carry.apply(tensor, self)  # type: ignore[no-any-return, no-untyped-call]

    def gradient(self, parts: Sequence[torch.Tensor | None], whole: torch.Tensor | None) -> torch.Tensor | None:
        """The gradient of the wrapper."""
        if all(part is None for part in parts):
            by_whole = self.is_whole and self.spec is not None and whole is not None
            return rebuild(self.spec, [whole]) if by_whole else whole  # type: ignore[arg-type,list-item]
        spec = self.spec
        assert spec is not None and len(parts) == spec.count
        own = rebuild(spec, parts)  # type: ignore[arg-type]
        return own if whole is None else own + whole


class _Carry(torch.autograd.Function):
    """From a wrapper to carriers, one for each part that can have a gradient and one for the whole."""

    @staticmethod
    def forward(ctx: Any, tensor: Any, carriers: Any) -> Any:
        ctx.carriers = carriers
        ctx.set_materialize_grads(False)
        with subclasses.DisableSubclasses():
            whole = torch.zeros((), dtype=tensor.dtype, device=tensor.device).expand(tensor.shape)
        return (*[torch.zeros((), dtype=part.dtype, device=part.device).expand(part.shape)
                  for part in parts_of(tensor)], whole)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return ctx.carriers.gradient(gradients[:-1], gradients[-1]), None


class MakeWrapper:
    """The graph operation that makes a wrapper of parts and, if it requires grad, of carriers."""

    def __init__(self, spec: WrapperSpec, carriers: Carriers | None) -> None:
        self.spec = spec
        self.carriers = carriers
        self.__name__ = self.__qualname__ = f"make_{spec.cls.__name__}"
        self.__module__ = __name__

    def __call__(self, *tensors: Any) -> Any:
        count = self.spec.count
        if self.carriers is None:
            with torch.no_grad():
                return rebuild(self.spec, tensors)
        with torch.enable_grad():
            return _Make.apply(self, count, *tensors)  # type: ignore[no-untyped-call]


class _Make(torch.autograd.Function):
    """From parts and carriers to a wrapper."""

    @staticmethod
    def forward(ctx: Any, make: Any, count: int, *tensors: Any) -> Any:
        ctx.make, ctx.count = make, count
        ctx.traced = any(isinstance(tensor, FakeTensor) for tensor in tensors)
        ctx.set_materialize_grads(False)
        ctx.shapes = [tensor.shape for tensor in tensors[count:]]
        return rebuild(make.spec, [tensor.detach() for tensor in tensors[:count]])

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        none = (None,) * ctx.count
        if gradient is None or not ctx.traced or isinstance(gradient, FakeTensor):
            return None, None, *none, *none, gradient
        parts = parts_of(gradient) if is_wrapper(gradient) else []
        if len(parts) != ctx.count or not all(map(can_have_gradient, parts)):
            raise Unsupported(f"a gradient of class {type(gradient).__name__} with other parts than the tensor's")
        carriers = ctx.make.carriers
        carriers.spec, carriers.is_whole = spec_of(gradient), False
        if len(parts) == 1 and parts[0].shape != ctx.shapes[0] and parts[0].shape == ctx.shapes[-1]:
            carriers.is_whole = True
            return None, None, *none, None, parts[0]
        return None, None, *none, *parts, None


def idle_carriers(module: torch.fx.GraphModule, gradients: Sequence[Any]) -> list[int]:
    """The inputs of a captured graph that are carriers without a gradient, beside others that have the wrapper's."""
    places = {node: at for at, node in enumerate(node for node in module.graph.nodes if node.op == "placeholder")}
    idle: list[int] = []
    for node in module.graph.nodes:
        if node.op == "call_function" and isinstance(node.target, MakeWrapper) and node.target.carriers is not None:
            carriers = [places[arg] for arg in node.args[node.target.spec.count:]]
            without = [at for at in carriers if gradients[at] is None]
            idle += without if len(without) < len(carriers) else []
    return idle


# ---------------------------------------------------------------------------------------------------------------------
# out of the graph


class PartsOfWrapper:
    """The graph operation that takes a wrapper apart."""

    def __init__(self, spec: WrapperSpec, differentiable: bool) -> None:
        self.spec = spec
        self.differentiable = differentiable
        self.__name__ = self.__qualname__ = f"parts_of_{spec.cls.__name__}"
        self.__module__ = __name__

    def __call__(self, tensor: Any) -> Any:
        if not self.differentiable:
            return tuple(parts_of(tensor))
        return _TakeApart.apply(tensor, self.spec)  # type: ignore[no-untyped-call]


class _TakeApart(torch.autograd.Function):
    """From a wrapper that requires grad to its parts."""

    @staticmethod
    def forward(ctx: Any, tensor: Any, spec: Any) -> Any:
        ctx.spec = spec
        return tuple([part.detach() for part in parts_of(tensor)])

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return rebuild(ctx.spec, gradients), None


class Rebuild:
    """Makes the wrapper that a program returns of the parts that its graph returns."""

    def __init__(self, spec: WrapperSpec, differentiable: bool) -> None:
        self.spec = spec
        self.differentiable = differentiable

    def __call__(self, *parts: torch.Tensor) -> torch.Tensor:
        if not self.differentiable:
            with torch.no_grad():
                return rebuild(self.spec, parts)
        with torch.enable_grad():
            return _Rebuild.apply(self.spec, *parts)  # type: ignore[no-any-return, no-untyped-call]


class _Rebuild(torch.autograd.Function):
    """From parts that require grad to a wrapper."""

    @staticmethod
    def forward(ctx: Any, spec: Any, *parts: Any) -> Any:
        ctx.spec = spec
        ctx.set_materialize_grads(False)
        return rebuild(spec, [part.detach() for part in parts])

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        if gradient is None:
            return None, *[None] * ctx.spec.count
        return None, *parts_of(_like(gradient, ctx.spec))


def _like(gradient: torch.Tensor, spec: WrapperSpec) -> torch.Tensor:
    """A gradient in the class of the result it belongs to: the graph of backward is for that."""
    if is_made_like(gradient, spec):
        return gradient
    coerce = getattr(gradient, "__coerce_same_metadata_as_tangent__", None)
    if coerce is not None:
        coerced = coerce(spec.context) if type(gradient) is spec.cls else coerce(spec.context, spec.cls)
        if type(coerced) is spec.cls and spec_of(coerced).count == spec.count:
            return coerced  # type: ignore[no-any-return]
    raise RuntimeError(
        f"the gradient of a {spec.cls.__name__} that compiled code has returned is a {type(gradient).__name__}, "
        "or one with another context; backward was compiled for gradients of the result's own kind. Compute the "
        "loss inside of the compiled function, or pass a gradient of that kind")
