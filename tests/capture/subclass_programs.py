"""Sixty programs with tensor subclasses, function modes and wrappers, each with fresh arguments for every run."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from tests.capture.subclass_classes import (
    CosineForSine,
    Counting,
    Derived,
    Handled,
    Inherited,
    Labelled,
    Logged,
    Masked,
    Negated,
    Operators,
    Other,
    Plain,
    Quantised,
    Rounded,
    Scaled,
    Scaling,
    Sized,
    TaggedParameter,
    Transparent,
    Two,
)
from torch import nn
from torch.overrides import TorchFunctionMode


@dataclass(frozen=True)
class Program:
    """A function, what makes its arguments, and whether gradients are compared."""

    name: str
    function: Callable[..., Any]
    arguments: Callable[[], tuple[Any, ...]]
    train: bool = False
    seen: Callable[[], Any] | None = None
    """State of classes that the program changes, to be compared as well."""


PROGRAMS: dict[str, Program] = {}


def program(arguments: Callable[[], tuple[Any, ...]], train: bool = False,
            seen: Callable[[], Any] | None = None) -> Callable[[Any], Any]:
    def register(function: Any) -> Any:
        PROGRAMS[function.__name__] = Program(function.__name__, function, arguments, train, seen)
        return function
    return register


def rand(*shape: int, grad: bool = False, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape or (4, 6), generator=torch.Generator().manual_seed(seed)).requires_grad_(grad)


def sub(cls: Any, *shape: int, grad: bool = False, seed: int = 0, **attributes: Any) -> torch.Tensor:
    tensor = rand(*shape, seed=seed).as_subclass(cls)
    for name, value in attributes.items():
        setattr(tensor, name, value)
    with torch._C.DisableTorchFunctionSubclass():
        tensor.requires_grad_(grad)
    return tensor


def two(*shape: int, grad: bool = False, seed: int = 0) -> Two:
    return Two(rand(*shape, seed=seed), rand(*shape, seed=seed + 1)).requires_grad_(grad)


# ---------------------------------------------------------------------------------------------------------------------
# __torch_function__


@program(lambda: (sub(Plain), rand()))
def results_are_of_the_class(x, y):
    return (x * 2 + y).relu(), y * x, torch.stack([y, x]), x.sum(0)


@program(lambda: (sub(Plain),))
def several_results(x):
    values, indices = x.max(1)
    return values, indices, x.split(2), torch.topk(x, 2)


@program(lambda: (sub(Plain),))
def facts_of_a_subclass(x):
    y = x.reshape(-1)
    return y * len(x), tuple(x.shape), x.dtype, x.size(0), x.dim(), type(y) is Plain, isinstance(y, torch.Tensor)


@program(lambda: (sub(Plain, grad=True), rand(grad=True, seed=1)), train=True)
def gradients_of_a_subclass(x, y):
    return torch.tanh(x * y).sum(1)


@program(lambda: (sub(Plain, 6, 6), rand(6, 6)))
def functional_layers(x, y):
    return F.layer_norm(F.linear(x, y), (6,)), F.softmax(x, -1), torch.einsum("ij,jk->ik", x, y)


@program(lambda: (sub(Plain),))
def in_place_on_a_subclass(x):
    x.add_(1)
    x[0] = 5
    return x * 2


@program(lambda: (sub(Plain), sub(Derived, seed=1)))
def a_derived_class_goes_first(x, y):
    return x + y, y - x, torch.cat([x, y])


@program(lambda: (sub(Labelled, label="a"), rand(seed=1)))
def attributes_are_passed_on(x, y):
    z = torch.exp(x) * y
    return z, z.label, x.described()


@program(lambda: (sub(Labelled, label="a"),))
def methods_and_properties(x):
    return x.doubled + 1, x.unit, x.described().upper()


@program(lambda: (sub(Labelled, label="q"),))
def attributes_set_inside(x):
    y = x * 2
    y.label = "mine"
    y.more = [1, 2]
    return y


@program(lambda: (sub(Handled), sub(Handled, 3, 6)))
def a_table_of_functions(x, w):
    return torch.mean(x), x.mean(), F.linear(x, w), x + 1


@program(lambda: (sub(Handled, 2, 6), nn.Linear(6, 3)))
def a_module_with_a_subclass_argument(x, module):
    with torch.no_grad():
        return module(x)


@program(lambda: (sub(Negated), rand(seed=1)))
def other_results_for_some_functions(x, y):
    return torch.sin(x) + x.sin() * y, x.shape, x.cos()


@program(lambda: (sub(Counting),), seen=lambda: Counting.calls)
def calls_are_counted(x):
    return torch.sin(x) + 1


@program(lambda: (sub(Transparent), rand()))
def a_transparent_class(x, y):
    return x + y, x.twice(), torch.cat([x, y])


@program(lambda: (sub(Operators), rand(seed=1)))
def special_methods(x, y):
    return x + y, 3 + x, x[0], x.relu(), len(x), x * 2


@program(lambda: (rand(),))
def made_with_as_subclass(x):
    y = x.as_subclass(Plain)
    z = torch.sigmoid(y)
    return z, x + 1, type(z) is Plain


@program(lambda: (rand(),))
def made_by_its_constructor(x):
    y = Sized(x * 2, 3)
    return y, y.scale, torch.tanh(y)


@program(lambda: (Sized(rand(), 2), Sized(rand(seed=1), 5)))
def attributes_from_a_constructor(x, y):
    z = torch.maximum(x, y) + 1
    return z, z.scale


@program(lambda: (sub(Plain), rand()))
def disabled_inside(x, y):
    with torch._C.DisableTorchFunctionSubclass():
        plain = x * y
    return plain, x * y


@program(lambda: (sub(Plain), True))
def back_to_a_plain_tensor(x, flag):
    y = x.as_subclass(torch.Tensor) if flag else x
    return y * 2


@program(lambda: (sub(Plain), [sub(Labelled, label="l"), rand()]))
def in_containers(x, others):
    first, second = others
    return {"sum": x + second, "same": others[0], "label": (first * 2).label}


@program(lambda: (sub(Plain, 5),))
def iteration(x):
    total = 0
    for item in x:
        total = total + item * 2
    return total


@program(lambda: (sub(Plain, 4, 6, grad=True), nn.Sequential(nn.Linear(6, 6), nn.GELU(), nn.LayerNorm(6))), train=True)
def a_model_trained_on_a_subclass(x, model):
    return model(x).square().mean()


@program(lambda: (sub(Plain), sub(Other, seed=1)))
def classes_that_do_not_know_each_other(x, y):
    try:
        return x + y
    except TypeError as error:
        return type(error).__name__


# ---------------------------------------------------------------------------------------------------------------------
# parameters


def tagged() -> nn.Module:
    module = nn.Linear(6, 3)
    module.weight = TaggedParameter(rand(3, 6, seed=3))
    module.bias = TaggedParameter(rand(3, seed=4))
    return module


@program(lambda: (rand(), tagged()), train=True)
def a_parameter_subclass(x, module):
    return module(x) / module.weight.norm_of_rows().sum()


def with_plain_parameter() -> nn.Module:
    module = nn.Linear(6, 3)
    module.weight = nn.Parameter(rand(3, 6, seed=3).as_subclass(Plain))
    return module


@program(lambda: (rand(), with_plain_parameter()), train=True)
def a_parameter_of_a_subclass(x, module):
    return module(x).relu()


def with_buffer() -> nn.Module:
    module = nn.BatchNorm1d(6)
    module.register_buffer("running_mean", rand(6, seed=5).as_subclass(Transparent))
    return module


@program(lambda: (rand(), with_buffer()))
def a_buffer_of_a_subclass(x, module):
    return module(x), module.running_mean


# ---------------------------------------------------------------------------------------------------------------------
# function modes


@program(lambda: (rand(),))
def a_mode_inside(x):
    with CosineForSine():
        y = torch.sin(x)
    return y + torch.sin(x)


@program(lambda: (rand(),))
def a_mode_with_state(x):
    with Scaling(3.0) as mode:
        y = torch.relu(x) + torch.ones(6)
    return y, mode.seen


@program(lambda: (rand(),))
def nested_modes(x):
    with Scaling(2.0), CosineForSine():
        y = torch.relu(torch.sin(x))
    return y


@program(lambda: (sub(Labelled, label="m"),))
def a_mode_and_a_subclass(x):
    with CosineForSine():
        y = torch.sin(x)
    return y, y.label


@program(lambda: (rand(grad=True), nn.Linear(6, 6)), train=True)
def a_model_inside_of_a_mode(x, model):
    with CosineForSine():
        return torch.sin(model(x))


@program(lambda: (rand(),))
def a_device_inside(x):
    with torch.device("cpu"):
        return x + torch.ones(6), torch.arange(3)


@program(lambda: (rand(), CosineForSine()))
def a_mode_as_an_argument(x, mode):
    with mode:
        return torch.sin(x)


@program(lambda: (rand(), Scaling(2.0)))
def methods_inside_of_a_mode(x, mode):
    with mode:
        y = x.relu() + x.shape[0]
    return y, mode.seen


# ---------------------------------------------------------------------------------------------------------------------
# wrappers


@program(lambda: (two(), rand()))
def a_wrapper(x, y):
    return (x * y + 1).relu(), x.sum(0), x.t()


@program(lambda: (two(grad=True),), train=True)
def a_wrapper_trained(x):
    return torch.tanh(x * 2).sum(1)


@program(lambda: (two(grad=True), two(6, 3, seed=5, grad=True)), train=True)
def products_of_wrappers(x, w):
    return (x @ w).softmax(-1)


@program(lambda: (two(grad=True), rand(seed=3, grad=True)), train=True)
def a_wrapper_and_a_plain_tensor_trained(x, y):
    return (x * y).sin()


@program(lambda: (two(),))
def parts_of_a_wrapper(x):
    y = x * 3
    return x.difference(), y.a + y.b, y.difference()


@program(lambda: (rand(), rand(seed=1)))
def a_wrapper_made_inside(x, y):
    z = Two(x * 2, y + 1)
    return z.exp(), z.a


@program(lambda: (rand(grad=True), rand(seed=1, grad=True)), train=True)
def a_wrapper_made_inside_of_tensors_that_require_grad(x, y):
    z = Two(x, y * 2)
    w = z.sin() * 3
    return z.a * 2, z.difference(), w.a, w.a.requires_grad, z.is_leaf, w + x


@program(lambda: (two(),))
def in_place_on_a_wrapper(x):
    x.mul_(2)
    return x + 1


@program(lambda: (two(),))
def views_of_a_wrapper(x):
    return x.view(-1)[3:] * 2, x.transpose(0, 1).contiguous(), x.reshape(2, -1)


@program(lambda: (two(), two(seed=4)))
def wrappers_in_containers(x, y):
    return {"cat": torch.cat([x, y]), "pair": (x, y - x)}


@program(lambda: (Two(two(), two(seed=7)), rand()))
def wrappers_of_wrappers(x, y):
    return x * y


@program(lambda: (Scaled(rand(), 3.0), rand(seed=1)))
def a_context(x, y):
    z = x * 2.0
    return x + y, z, z.scale, x.value()


@program(lambda: (Scaled(rand(3, 6, seed=2), 0.5), rand(grad=True)), train=True)
def a_scaled_weight(w, x):
    return F.linear(x, w)


@program(lambda: (Rounded(rand()).requires_grad_(),), train=True)
def autograd_above_dispatch(x):
    return (x * 0.3 + x).sum()


@program(lambda: (Rounded(rand()).requires_grad_(), Rounded(rand(6, 5, seed=1)).requires_grad_()), train=True)
def a_product_that_rounds(x, w):
    return torch.mm(x, w).pow(2).mean()


@program(lambda: (Masked(rand(), rand(seed=1) > 0), Masked(rand(seed=2), rand(seed=3) > 0)))
def masked_tensors(x, y):
    z = x * y + 1
    return z, z.sum(), z.filled(0.0)


def quantised_module(training: bool = False) -> nn.Module:
    module = nn.Linear(6, 3)
    module.weight = nn.Parameter(Quantised.from_float(rand(3, 6, seed=3)), requires_grad=False)
    module.bias.requires_grad_(training)
    return module


@program(lambda: (rand(), quantised_module()))
def a_quantised_linear(x, module):
    return module(x).relu()


@program(lambda: (rand(grad=True), quantised_module(True)), train=True)
def training_past_a_quantised_linear(x, module):
    return module(x).tanh()


@program(lambda: (Quantised.from_float(rand(3, 6)), rand(seed=1)))
def a_quantised_weight_by_hand(w, x):
    return x @ w.t(), w.dequantize().sum(), w.int_data.float().mean()


@program(lambda: (rand(3, 6),))
def quantised_inside(w):
    q = Quantised.from_float(w)
    return q.dequantize() - w, F.linear(w, q)


def two_module() -> nn.Module:
    module = nn.Linear(6, 3)
    module.weight = nn.Parameter(two(3, 6, seed=3))
    module.bias = nn.Parameter(two(3, seed=5))
    return module


@program(lambda: (two(), two_module()), train=True)
def a_module_of_wrappers(x, module):
    return F.gelu(module(x))


@program(lambda: (two(grad=True),), train=True)
def a_loss_inside(x):
    y = x.exp().mean()
    return y * 2


@program(lambda: (Logged(rand(), rand(seed=1)),), seen=lambda: list(Logged.log))
def a_wrapper_that_logs(x):
    return x * 2


@program(lambda: (Inherited(rand(), rand(seed=1)),))
def a_wrapper_that_is_not_made_again(x):
    return x * 2


@program(lambda: (copy.deepcopy(distributed()), rand(4, 6, seed=9)), train=True)
def distributed_tensors(weights, x):
    from torch.distributed.tensor import DTensor, Replicate

    y = DTensor.from_local(x, weights.device_mesh, [Replicate()], run_check=False)
    return F.linear(y, weights).relu()


@program(lambda: (distributed(),))
def distributed_elementwise(weights):
    return (weights * 2 + 1).sum()


def distributed() -> Any:
    """A DTensor on the only process of a group of one."""
    import tempfile

    import torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, distribute_tensor

    if not dist.is_initialized():
        dist.init_process_group("gloo", rank=0, world_size=1, store=dist.FileStore(tempfile.mkstemp()[1], 1))
    mesh = init_device_mesh("cpu", (1,))
    return nn.Parameter(distribute_tensor(rand(3, 6), mesh, [Replicate()]))


# ---------------------------------------------------------------------------------------------------------------------
# comparison


def facts(value: Any) -> Any:
    """All that is compared of a result."""
    if isinstance(value, torch.Tensor):
        with torch._C.DisableTorchFunctionSubclass():
            about: list[Any] = [type(value).__name__, tuple(value.shape), value.stride(), value.dtype,
                                value.requires_grad]
            if hasattr(value, "__tensor_flatten__"):
                names, context = value.__tensor_flatten__()
                return [*about, str(context), [facts(getattr(value, name)) for name in names]]
            kept = {name: facts(item) for name, item in vars(value).items() if not name.startswith("_")}
            return [*about, kept, torch.Tensor.as_subclass(value.detach(), torch.Tensor)]
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, *[facts(item) for item in value]]
    if isinstance(value, dict):
        return {key: facts(item) for key, item in value.items()}
    if isinstance(value, TorchFunctionMode):
        return [type(value).__name__, facts({name: item for name, item in vars(value).items() if name != "inner"})]
    return value


def agree(one: Any, other: Any) -> bool:
    """Whether two results of `facts` are the same, numbers within what kernels may differ by."""
    if isinstance(one, torch.Tensor):
        return isinstance(other, torch.Tensor) and torch.allclose(one, other, rtol=1e-4, atol=1e-5, equal_nan=True)
    if isinstance(one, list):
        return isinstance(other, list) and len(one) == len(other) and all(map(agree, one, other))
    if isinstance(one, dict):
        return isinstance(other, dict) and list(one) == list(other) and all(agree(one[key], other[key]) for key in one)
    return bool(one == other)


def tensors_in(value: Any) -> list[torch.Tensor]:
    if isinstance(value, torch.Tensor):
        return [value]
    if isinstance(value, (list, tuple)):
        return [tensor for item in value for tensor in tensors_in(item)]
    if isinstance(value, dict):
        return tensors_in(list(value.values()))
    return []


def run(chosen: Program, function: Callable[..., Any]) -> Any:
    """What a function does with fresh arguments: results, arguments afterwards, gradients, state of classes."""
    Counting.calls = 0
    Logged.log.clear()
    torch.manual_seed(0)
    args = chosen.arguments()
    result = function(*args)
    about = [facts(result), facts([arg for arg in args if not isinstance(arg, nn.Module)])]
    if chosen.train:
        total = sum(tensor.sum() for tensor in tensors_in(result) if tensor.requires_grad)
        total.backward()
        leaves = [leaf for arg in args
                  for leaf in (arg.parameters() if isinstance(arg, nn.Module) else tensors_in(arg))]
        about.append([facts(leaf.grad) for leaf in leaves])
    if chosen.seen is not None:
        about.append(chosen.seen())
    return about
