"""What goes in and out: containers, keywords, objects that are no tensors, subclasses, constants."""

from __future__ import annotations

import enum
from collections import OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
import torch.utils._pytree as pytree
from torch import nn
from torch._library.opaque_object import register_opaque_type
from torch._opaque_base import OpaqueBase

from .record import program, rand

KIND = "containers"


class Pair(NamedTuple):
    """A named tuple."""

    left: Any
    right: Any


Point = namedtuple("Point", ["x", "y"])


@dataclass
class Batch:
    """A registered dataclass."""

    x: Any
    mask: Any = None
    extra: list[Any] = field(default_factory=list)


class Box:
    """A registered class."""

    def __init__(self, value: Any, label: str) -> None:
        self.value, self.label = value, label

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Box) and self.label == other.label

    __hash__ = None  # type: ignore[assignment]


pytree.register_dataclass(Batch, serialized_type_name="tests.export.Batch")
pytree._register_namedtuple(Pair, serialized_type_name="tests.export.Pair")
pytree._register_namedtuple(Point, serialized_type_name="tests.export.Point")
pytree.register_pytree_node(
    Box, lambda box: ([box.value], box.label), lambda children, label: Box(next(iter(children)), label),
    serialized_type_name="tests.export.Box", to_dumpable_context=lambda label: label,
    from_dumpable_context=lambda label: label)


@program(KIND, {"a": rand(3), "b": rand(3)}, further=[({"a": rand(3, seed=1), "b": rand(3)},),
                                                      ({"b": rand(3, seed=1), "a": rand(3)},)])
def dict_in_another_order(self: Any, d: Any) -> Any:
    return d["a"] - 2 * d["b"]


@program(KIND, kwargs={"a": rand(3), "b": rand(3)}, further=[{"b": rand(3, seed=1), "a": rand(3, seed=2)}])
def keywords_in_another_order(self: Any, *, a: Any, b: Any) -> Any:
    return a - 2 * b


@program(KIND, kwargs={"b": rand(3), "a": rand(3)}, further=[{"a": rand(3, seed=1), "b": rand(3, seed=2)}])
def keywords_against_signature(self: Any, a: Any, b: Any) -> Any:
    return a - 2 * b


@program(KIND, rand(3), kwargs={"b": rand(3), "a": rand(3)}, shapes=lambda D: {"x": None, "kw": {"b": None, "a": None}},
         further=[((rand(3),), {"a": rand(3, seed=1), "b": rand(3, seed=2)})])
def rest_keywords(self: Any, x: Any, **kw: Any) -> Any:
    return x + kw["a"] - 2 * kw["b"]


@program(KIND, rand(3), kwargs={"d": {"u": rand(3), "v": rand(3)}},
         further=[((rand(3),), {"d": {"v": rand(3, seed=1), "u": rand(3, seed=2)}})])
def nested_dict_keyword(self: Any, x: Any, d: Any) -> Any:
    return {"sum": x + d["u"], "both": (d["v"], d["u"])}


@program(KIND, rand(4, 3), kwargs={"b": rand(5, 3), "a": rand(4, 3)},
         shapes=lambda D: (lambda n: {"x": {0: n}, "a": {0: n}, "b": {0: D("m")}})(D("n")),
         further=[((rand(6, 3),), {"a": rand(6, 3), "b": rand(2, 3)})])
def dynamic_keywords_in_another_order(self: Any, x: Any, a: Any, b: Any) -> Any:
    return x + a, b.sum(0)


@program(KIND, rand(3), kwargs={"y": rand(3)}, further=[((rand(3),), {"y": rand(3, seed=1)})])
def default_arguments(self: Any, x: Any, y: Any = None, scale: Any = 2.0) -> Any:
    return x * scale if y is None else x * scale + y


@program(KIND, rand(3), rand(3), rand(3), further=[(rand(3), rand(3), rand(3, seed=1))])
def rest_arguments(self: Any, x: Any, *rest: Any) -> Any:
    return x + sum(rest)


@program(KIND, [rand(2), [rand(3), (rand(4),)]], further=[([rand(2), [rand(3), (rand(4, seed=1),)]],)])
def nested_lists(self: Any, x: Any) -> Any:
    return [x[0] + 1, (x[1][0], [x[1][1][0] * 2])]


@program(KIND, Pair(rand(3), rand(3)), further=[(Pair(rand(3, seed=1), rand(3)),)])
def named_tuple(self: Any, p: Any) -> Any:
    return Pair(p.left + p.right, p.left)


@program(KIND, Point(rand(3), 2), shapes=lambda D: {"p": Point({0: D("n")}, None)}, further=[(Point(rand(5), 2),)])
def named_tuple_with_number(self: Any, p: Any) -> Any:
    return Point(p.x * p.y, p.y)


@program(KIND, OrderedDict(b=rand(3), a=rand(3)), further=[(OrderedDict(b=rand(3, seed=1), a=rand(3)),)])
def ordered_dict(self: Any, d: Any) -> Any:
    return OrderedDict((key, value * 2) for key, value in d.items())


@program(KIND, defaultdict(list, {"a": [rand(3)]}), further=[(defaultdict(list, {"a": [rand(3, seed=1)]}),)],
         saves=False)
def default_dict(self: Any, d: Any) -> Any:
    return d["a"][0] + 1


@program(KIND, deque([rand(3), rand(3, seed=1)]), further=[(deque([rand(3, seed=1), rand(3)]),)])
def deque_of_tensors(self: Any, d: Any) -> Any:
    return deque([d[0] - d[1]])


@program(KIND, Batch(rand(3), rand(3) > 0, [rand(2)]), further=[(Batch(rand(3, seed=1), rand(3) < 0, [rand(2)]),)])
def registered_dataclass(self: Any, batch: Any) -> Any:
    return Batch(batch.x.masked_fill(batch.mask, 0.0), batch.mask, [batch.extra[0] * 2])


@program(KIND, Batch(rand(3)), shapes=lambda D: {"batch": Batch({0: D("n")}, None, [])}, further=[(Batch(rand(7)),)])
def dataclass_with_dynamic_size(self: Any, batch: Any) -> Any:
    return Batch(batch.x * 2, extra=[batch.x.sum()])


@program(KIND, Box(rand(3), "metres"), further=[(Box(rand(3, seed=1), "metres"),)], refuses=[(Box(rand(3), "feet"),)])
def registered_class(self: Any, box: Any) -> Any:
    return Box(box.value * (3 if box.label == "metres" else 1), box.label)


@program(KIND, rand(3), further=[(rand(3, seed=1),)])
def dataclass_made_inside(self: Any, x: Any) -> Any:
    return {"out": Batch(x + 1, x > 0)}, Pair(x, None)


@program(KIND, (), rand(3), [], {}, further=[((), rand(3, seed=1), [], {})])
def empty_containers(self: Any, a: Any, x: Any, b: Any, c: Any) -> Any:
    return (), x + len(a) + len(b) + len(c), [], {}


@program(KIND, {1: rand(3), 2: rand(3)}, further=[({2: rand(3, seed=1), 1: rand(3)},)])
def dict_with_numbers_as_keys(self: Any, d: Any) -> Any:
    return {3: d[1] * 2, 4: d[2]}


@program(KIND, rand(3), None, further=[(rand(3, seed=1), None)], refuses=[(rand(3), rand(3))])
def none_as_input(self: Any, x: Any, y: Any) -> Any:
    return (x if y is None else x + y), None


@program(KIND, rand(3), "mean", further=[(rand(3, seed=1), "mean")], refuses=[(rand(3), "sum")])
def string_as_input(self: Any, x: Any, how: Any) -> Any:
    return (x.mean() if how == "mean" else x.sum()), how


@program(KIND, rand(3), torch.float64, torch.device("cpu"), further=[(rand(3, seed=1), torch.float64,
                                                                       torch.device("cpu"))])
def dtype_and_device_as_inputs(self: Any, x: Any, dtype: Any, device: Any) -> Any:
    return x.to(device=device, dtype=dtype)


@program(KIND, rand(2, 3), further=[(rand(2, 3, seed=1),)])
def results_of_all_kinds(self: Any, x: Any) -> Any:
    return x, 3, 2.5, "text", None, True, {"shape": tuple(x.shape)}, [x * 2]


@program(KIND, rand(3), further=[(rand(3, seed=1),)])
def one_result_twice(self: Any, x: Any) -> Any:
    y = x + 1
    return y, y, {"again": y}, x


@program(KIND, *(lambda t: (t, t))(rand(3)), further=[(rand(3), rand(3, seed=1))])
def one_input_twice(self: Any, x: Any, y: Any) -> Any:
    return x - 2 * y


# Objects that are no containers of tensors ----------------------------------------------------------------------

OBJECTS = "objects as inputs"


class Mode(enum.Enum):
    """A choice."""

    FAST = 1
    EXACT = 2


class Settings(OpaqueBase):
    """An opaque value."""

    def __init__(self, scale: float) -> None:
        self.scale = scale

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Settings) and self.scale == other.scale

    def __hash__(self) -> int:
        return hash(self.scale)

    def __fx_repr__(self) -> tuple[str, dict[str, type]]:
        return f"Settings({self.scale})", {"Settings": Settings}


class Counter(OpaqueBase):
    """An opaque reference."""

    def __init__(self, start: int) -> None:
        self.start = start


@dataclass(frozen=True)
class Options:
    """A registered constant."""

    power: int


register_opaque_type(Settings, typ="value")
register_opaque_type(Counter, typ="reference")
pytree.register_constant(Options)


@program(OBJECTS, rand(6), torch.Size([2, 3]), further=[(rand(6, seed=1), torch.Size([2, 3]))],
         refuses=[(rand(6), torch.Size([3, 2]))])
def size_as_input(self: Any, x: Any, size: Any) -> Any:
    return x.view(size)


@program(OBJECTS, rand(6), torch.Size([2, 3]), shapes=lambda D: (None, (D.DYNAMIC, D.DYNAMIC)),
         further=[(rand(6, seed=1), torch.Size([3, 2]))])
def dynamic_size_as_input(self: Any, x: Any, size: Any) -> Any:
    return x.sum() * torch.ones(size[0], size[1])


@program(OBJECTS, rand(2, 3), further=[(rand(2, 3, seed=1),)])
def size_as_result(self: Any, x: Any) -> Any:
    return x.shape, x.t().size()


@program(OBJECTS, rand(3), Mode.FAST, further=[(rand(3, seed=1), Mode.FAST)], saves=False)
def enum_as_input(self: Any, x: Any, mode: Any) -> Any:
    return x * 2 if mode is Mode.FAST else x * 3


@program(OBJECTS, rand(3), Settings(2.0), further=[(rand(3, seed=1), Settings(2.0))], saves=False)
def opaque_value_unused(self: Any, x: Any, settings: Any) -> Any:
    return x * 2


@program(OBJECTS, rand(3), Settings(2.0), further=[(rand(3, seed=1), Settings(2.0))], saves=False)
def opaque_value_read(self: Any, x: Any, settings: Any) -> Any:
    return x * settings.scale


@program(OBJECTS, rand(3), Counter(2), further=[(rand(3, seed=1), Counter(2))], saves=False)
def opaque_reference_read(self: Any, x: Any, counter: Any) -> Any:
    return x * 2


@program(OBJECTS, rand(3), Options(3), further=[(rand(3, seed=1), Options(3))], saves=False)
def registered_constant(self: Any, x: Any, options: Any) -> Any:
    return x ** options.power


@program(OBJECTS, rand(2, 3), nn.Linear(3, 4), further=[], saves=False)
def module_as_input_unused(self: Any, x: Any, layer: Any) -> Any:
    return x * 2


@program(OBJECTS, rand(2, 3), nn.ReLU(), further=[(rand(2, 3, seed=1), nn.ReLU())], saves=False)
def module_as_input_called(self: Any, x: Any, layer: Any) -> Any:
    return layer(x) + 1


@program(OBJECTS, rand(3), 2 + 1j, further=[(rand(3, seed=1), 2 + 1j)])
def complex_number(self: Any, x: Any, z: Any) -> Any:
    return x * z


@program(OBJECTS, rand(3), torch.channels_last, torch.strided, further=[])
def layouts_as_inputs(self: Any, x: Any, memory: Any, layout: Any) -> Any:
    return x + (1 if memory is torch.channels_last else 2)


@program(OBJECTS, rand(6), slice(1, 4), further=[(rand(6, seed=1), slice(1, 4))], saves=False)
def slice_as_input(self: Any, x: Any, part: Any) -> Any:
    return x[1:4]


# Subclasses, constants and weights ------------------------------------------------------------------------------

SUBCLASSES = "subclasses and weights"


class Scaled(torch.Tensor):
    """A tensor and a factor, as a wrapper of one tensor."""

    @staticmethod
    def __new__(cls, inner: torch.Tensor, factor: float) -> Any:
        return torch.Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls, inner.shape, strides=inner.stride(), dtype=inner.dtype, device=inner.device,
            requires_grad=inner.requires_grad)

    def __init__(self, inner: torch.Tensor, factor: float) -> None:
        self.inner, self.factor = inner, factor

    def __tensor_flatten__(self) -> Any:
        return ["inner"], self.factor

    @staticmethod
    def __tensor_unflatten__(inner: Any, factor: Any, size: Any, stride: Any) -> Any:
        return Scaled(inner["inner"], factor)

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        def plain(value: Any) -> Any:
            return value.inner * value.factor if isinstance(value, Scaled) else value

        if func is torch.ops.aten.detach.default or func is torch.ops.aten.clone.default:
            return Scaled(func(args[0].inner), args[0].factor)
        return func(*pytree.tree_map(plain, args), **pytree.tree_map(plain, kwargs or {}))


class Named(torch.Tensor):
    """A subclass without behaviour."""


@program(SUBCLASSES, rand(2, 3), further=[(rand(2, 3, seed=1),)], saves=False)
class SubclassWeight(nn.Module):
    """A parameter that is a wrapper subclass."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(Scaled(torch.randn(4, 3), 2.0))

    def forward(self, x: Any) -> Any:
        return torch.nn.functional.linear(x, self.weight)


@program(SUBCLASSES, Scaled(rand(2, 3), 3.0), further=[(Scaled(rand(2, 3, seed=1), 3.0),)], saves=False)
def subclass_input(self: Any, x: Any) -> Any:
    return x + 1


@program(SUBCLASSES, rand(2, 3).as_subclass(Named), further=[(rand(2, 3, seed=1).as_subclass(Named),)], saves=False)
def plain_subclass_input(self: Any, x: Any) -> Any:
    return (x + 1).as_subclass(torch.Tensor)


@program(SUBCLASSES, rand(2, 3), further=[(rand(2, 3, seed=1),)])
class TiedWeights(nn.Module):
    """One parameter under two names."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Linear(3, 3, bias=False)
        self.head = nn.Linear(3, 3, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, x: Any) -> Any:
        return self.head(self.embed(x).relu())


@program(SUBCLASSES, rand(2, 3), further=[(rand(2, 3, seed=1),)])
class SharedModule(nn.Module):
    """One module under two names."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Linear(3, 3)
        self.b = self.a

    def forward(self, x: Any) -> Any:
        return self.b(self.a(x))


@program(SUBCLASSES, rand(2, 3), further=[(rand(2, 3, seed=1),)])
class ConstantTensors(nn.Module):
    """Tensors that are no buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = torch.randn(3)
        self.table = {"shift": torch.randn(3)}
        self.both = [torch.ones(3), self.scale]

    def forward(self, x: Any) -> Any:
        return x * self.scale + self.table["shift"] - self.both[0] + torch.tensor([1.0, 2.0, 3.0]) + self.both[1]


OUTSIDE = torch.arange(3.0)


@program(SUBCLASSES, rand(2, 3), further=[(rand(2, 3, seed=1),)])
def global_tensor(self: Any, x: Any) -> Any:
    return x + OUTSIDE, OUTSIDE


@program(SUBCLASSES, rand(2, 3), further=[(rand(2, 3, seed=1),)])
class BufferKinds(nn.Module):
    """Buffers that are saved and buffers that are not."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("kept", torch.randn(3))
        self.register_buffer("temporary", torch.randn(3), persistent=False)
        self.register_buffer("missing", None)

    def forward(self, x: Any) -> Any:
        return x * self.kept + self.temporary if self.missing is None else x


@program(SUBCLASSES, rand(2, 3), further=[(rand(2, 3, seed=1),)])
class ParameterContainers(nn.Module):
    """Lists and dicts of parameters and modules."""

    def __init__(self) -> None:
        super().__init__()
        self.items = nn.ParameterList([torch.randn(3), torch.randn(3)])
        self.named = nn.ParameterDict({"a": torch.randn(3)})
        self.layers = nn.ModuleDict({"first": nn.Linear(3, 3), "second": nn.ModuleList([nn.ReLU(), nn.Tanh()])})

    def forward(self, x: Any) -> Any:
        for item in self.items:
            x = x + item
        for layer in self.layers["second"]:
            x = layer(self.layers["first"](x))
        return x * self.named["a"]


@program(SUBCLASSES, rand(2, 3), further=[(rand(2, 3, seed=1),)])
class ReturnsWeight(nn.Module):
    """A parameter as a result."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3))

    def forward(self, x: Any) -> Any:
        return x * self.weight, self.weight


@program(SUBCLASSES, rand(2, 3), further=[(rand(2, 3, seed=1),)])
class FrozenWeight(nn.Module):
    """Parameters without gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.layer.requires_grad_(False)

    def forward(self, x: Any) -> Any:
        return self.layer(x), self.layer.weight.requires_grad


@program(SUBCLASSES, rand(2, 3).double(), further=[(rand(2, 3, seed=1).double(),)])
class WeightNorm(nn.Module):
    """A parametrised weight."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.utils.parametrizations.weight_norm(nn.Linear(3, 4)).double()

    def forward(self, x: Any) -> Any:
        return self.layer(x)


@program(SUBCLASSES, rand(3), further=[(rand(3, seed=1),)])
def complex_tensors(self: Any, x: Any) -> Any:
    z = torch.complex(x, x + 1)
    return z * z.conj(), torch.fft.fft(x).abs(), torch.view_as_real(z)


@program(SUBCLASSES, rand(3).half(), rand(3).bfloat16(), torch.arange(3, dtype=torch.uint8),
         further=[(rand(3, seed=1).half(), rand(3).bfloat16(), torch.arange(3, dtype=torch.uint8))])
def narrow_types(self: Any, x: Any, y: Any, z: Any) -> Any:
    return x + y, y * z, z + 250, x.float() + y.double()
