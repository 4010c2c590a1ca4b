"""What quantisers, converters and users of torch.export do, and corners of Python in programs."""

from __future__ import annotations

import collections
import copy
import functools
import io
import itertools
import operator
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

from .inputs import Batch, Pair, Scaled
from .operators import ATEN, OPS
from .record import ints, program, rand

KIND = "tools and corners"


# Sizes that are related --------------------------------------------------------------------------------------------


@program(KIND, rand(4, 6), shapes=lambda D: ({0: D.AUTO, 1: D.AUTO},), further=[(rand(2, 12),)],
         refuses=[(rand(3, 5),)])
def product_must_be_divisible(self: Any, x: Any) -> Any:
    return x.reshape(-1, 8)


@program(KIND, rand(3, 9), shapes=lambda D: ({0: D.AUTO, 1: D.AUTO},), further=[(rand(2, 4),), (rand(5, 25),)],
         refuses=[(rand(3, 8),)])
def one_is_the_square_of_the_other(self: Any, x: Any) -> Any:
    torch._check(x.shape[1] == x.shape[0] * x.shape[0])
    return x.view(x.shape[0], x.shape[0], x.shape[0]).sum(1)


@program(KIND, rand(4), rand(6), rand(10), shapes=lambda D: ({0: D.AUTO}, {0: D.AUTO}, {0: D.AUTO}),
         further=[(rand(2), rand(3), rand(5))], refuses=[(rand(2), rand(3), rand(6))])
def sum_of_sizes(self: Any, x: Any, y: Any, z: Any) -> Any:
    return torch.cat([x, y]) + z


@program(KIND, rand(7), rand(3), shapes=lambda D: ({0: D.AUTO}, {0: D.AUTO}), further=[(rand(9), rand(4))])
def floor_division(self: Any, x: Any, y: Any) -> Any:
    return x[:x.shape[0] // 2] * y


@program(KIND, rand(6), shapes=lambda D: {"x": {0: D("n", min=4, max=10)}}, further=[(rand(4),), (rand(10),)],
         refuses=[(rand(11),)])
def range_is_checked(self: Any, x: Any) -> Any:
    return x * 2 if x.shape[0] < 20 else x


@program(KIND, rand(6, 2), shapes=lambda D: ({0: D.AUTO},), further=[(rand(8, 2),)], refuses=[(rand(3, 2),)])
def decision_becomes_a_guard(self: Any, x: Any) -> Any:
    return x.sum(0) if x.shape[0] > 5 else x.mean(0)


@program(KIND, rand(6, 2), shapes=lambda D: ({0: D.AUTO, 1: D.AUTO},), further=[(rand(6, 2),)],
         refuses=[(rand(7, 2),)])
def auto_becomes_constant(self: Any, x: Any) -> Any:
    return x + torch.ones(6, 1)


@program(KIND, rand(2, 3, 8, 8), shapes=lambda D: ({0: D("b"), 2: 4 * D("h"), 3: 4 * D("w")},),
         further=[(rand(3, 3, 12, 16),)])
def image_patches(self: Any, x: Any) -> Any:
    b, c, h, w = x.shape
    return x.view(b, c, h // 4, 4, w // 4, 4).permute(0, 2, 4, 1, 3, 5).reshape(b, (h // 4) * (w // 4), -1)


@program(KIND, rand(4, 5), shapes=lambda D: ({0: D("b"), 1: D("t")},), further=[(rand(2, 9),)])
def sizes_in_arange_and_masks(self: Any, x: Any) -> Any:
    b, t = x.shape
    mask = torch.ones(t, t, dtype=torch.bool).tril()
    positions = torch.arange(t).unsqueeze(0).expand(b, t)
    return mask, positions, x.masked_fill(positions % 2 == 0, 0.0)


@program(KIND, rand(4, 5), shapes=lambda D: ({0: D("b"), 1: D.AUTO},), further=[(rand(2, 5),)])
def linspace_of_a_size(self: Any, x: Any) -> Any:
    return x + torch.linspace(0, 1, x.shape[1])


@program(KIND, rand(5, 4), shapes=lambda D: ({0: D("n")},), further=[(rand(3, 4),)], refuses=[(rand(3, 5),)])
def static_beside_dynamic(self: Any, x: Any) -> Any:
    return x @ torch.ones(4, 2)


@program(KIND, rand(5, 4), shapes=lambda D: ({0: D.DYNAMIC, 1: D.STATIC},), further=[(rand(3, 4),)])
def hints_beside_each_other(self: Any, x: Any) -> Any:
    return x.softmax(0)


@program(KIND, rand(5, 1), shapes=lambda D: ({0: D("n"), 1: D.AUTO},), further=[(rand(3, 1),)])
def one_beside_dynamic(self: Any, x: Any) -> Any:
    return x + torch.ones(1, 4)


# Data ---------------------------------------------------------------------------------------------------------------


@program(KIND, torch.tensor([4, 2]), further=[(torch.tensor([3, 5]),)])
def tensor_of_data_sizes(self: Any, sizes: Any) -> Any:
    a, b = sizes[0].item(), sizes[1].item()
    torch._check(a >= 1)
    torch._check(b >= 1)
    return torch.zeros(a, b).add(1).sum(0)


@program(KIND, torch.tensor(6), rand(12), further=[(torch.tensor(3), rand(12))])
def view_with_data_size(self: Any, n: Any, x: Any) -> Any:
    k = n.item()
    torch._check(k > 0)
    torch._check(12 % k == 0)
    return x.view(k, 12 // k).sum(0)


@program(KIND, rand(6), torch.tensor(True), further=[(rand(6), torch.tensor(False))])
def bool_item_in_where(self: Any, x: Any, flag: Any) -> Any:
    return torch.where(flag, x, -x)


@program(KIND, rand(4, 4), further=[(rand(4, 4, seed=1),)])
def nonzero_rows(self: Any, x: Any) -> Any:
    at = torch.nonzero(x > 0)
    return at, x[at[:, 0], at[:, 1]], at.shape[0]


@program(KIND, rand(6), torch.tensor([True, False, True, True, False, False]),
         further=[(rand(6), torch.tensor([True] * 6)), (rand(6), torch.tensor([False] * 6))])
def masked_assignment(self: Any, x: Any, mask: Any) -> Any:
    y = x.clone()
    y[mask] = 0.0
    y[~mask] *= 2
    return y


@program(KIND, ints(5, high=3), further=[(ints(5, high=2),)])
def sorted_unique(self: Any, x: Any) -> Any:
    values, inverse = torch.unique(x, return_inverse=True)
    return values, inverse, values[inverse]


# Python -------------------------------------------------------------------------------------------------------------


@program(KIND, rand(3), further=[(rand(3, seed=1),)])
def python_library(self: Any, x: Any) -> Any:
    parts = [a * b for a, b in itertools.product((1, 2), (3, 4))]
    counter = collections.Counter("abca")
    total = functools.reduce(operator.add, (x * p for p in parts))
    groups = collections.defaultdict(list)
    for i, part in enumerate(parts):
        groups[i % 2].append(part)
    return total * counter["a"], dict(groups), sorted(parts, reverse=True), f"{len(parts)} parts"


@program(KIND, rand(3), further=[(rand(3, seed=1),)])
def closures_and_partial(self: Any, x: Any) -> Any:
    def scaled(k: Any, y: Any = x) -> Any:
        return y * k

    return functools.partial(scaled, 3)(), [f(2) for f in (scaled, lambda k: x - k)]


class _Helper:
    def __init__(self, x: Any) -> None:
        self.x, self.log = x, []

    @property
    def twice(self) -> Any:
        return self.x * 2

    def __call__(self, y: Any) -> Any:
        self.log.append(y)
        return self.twice + y

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *error: Any) -> None:
        self.x = self.x + 1


@program(KIND, rand(3), further=[(rand(3, seed=1),)])
def objects_inside(self: Any, x: Any) -> Any:
    helper = _Helper(x)
    with helper as h:
        y = h(x + 1)
    return y, helper.x, len(helper.log)


@program(KIND, rand(3), further=[(rand(3, seed=1),)])
class Inheritance(nn.Module):
    """super(), class attributes, static methods, properties."""

    factor = 3

    @staticmethod
    def shifted(x: Any) -> Any:
        return x + 1

    @property
    def doubled(self) -> int:
        return self.factor * 2

    def forward(self, x: Any) -> Any:
        return self.shifted(x) * self.doubled + getattr(self, "missing", 0)


@program(KIND, rand(3), further=[(rand(3, seed=1),)])
class LazyLists(nn.Module):
    """Lists of modules, indexed and cut; a Sequential in which a layer is None."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(3, 3) for _ in range(4)])
        self.extra: nn.Module | None = None

    def forward(self, x: Any) -> Any:
        for layer in self.layers[1:3]:
            x = layer(x).relu()
        if self.extra is not None:
            x = self.extra(x)
        return self.layers[-1](x), len(self.layers)


@program(KIND, rand(3), further=[(rand(3, seed=1),)])
def prints_and_warns(self: Any, x: Any) -> Any:
    import warnings

    warnings.warn("a warning", stacklevel=2)
    return x + 1


@program(KIND, rand(2, 3), further=[(rand(2, 3, seed=1),)])
def unusual_operators(self: Any, x: Any) -> Any:
    return (x.mT, x.abs().pow(0.5), x // 1, x % 2, -x, abs(x), x > 0, ~(x > 0), x.round(decimals=1), x.frac(),
            x.clamp(min=0, max=1), x.sign(), torch.fmod(x, 0.7), x ** 2, 2 ** x, x.float_power(2), x.trunc().int() << 1)


@program(KIND, rand(2, 3), further=[(rand(2, 3, seed=1),)])
def out_arguments(self: Any, x: Any) -> Any:
    y = torch.empty_like(x)
    torch.add(x, 1, out=y)
    torch.mul(y, 2, out=y)
    return y


@program(KIND, rand(2, 3), further=[(rand(2, 3, seed=1),)], after=lambda api, p: p.run_decompositions())
def out_arguments_decomposed(self: Any, x: Any) -> Any:
    y = torch.empty_like(x)
    torch.add(x, 1, out=y)
    y.t_()
    return y.contiguous(), y.unsqueeze_(0)


@program(KIND, rand(2, 3), further=[(rand(2, 3, seed=1),)])
def foreach_functions(self: Any, x: Any) -> Any:
    ys = torch._foreach_add([x, x * 2], 1.0)
    torch._foreach_mul_(ys, 2.0)
    return ys


@program(KIND, rand(3), rand(3), further=[(rand(3), rand(3, seed=1))])
def two_inputs_changed(self: Any, x: Any, y: Any) -> Any:
    x += y
    y *= x
    return x, y.sum()


@program(KIND, rand(3), rand(3), further=[(rand(3), rand(3, seed=1))], after=lambda api, p: p.run_decompositions())
def two_inputs_changed_functional(self: Any, x: Any, y: Any) -> Any:
    x += y
    y *= x
    return x, y.sum(), x


@program(KIND, Batch(rand(3)), further=[(Batch(rand(3, seed=1)),)], after=lambda api, p: p.run_decompositions())
def dataclass_member_changed(self: Any, batch: Any) -> Any:
    batch.x.mul_(3)
    return Pair(batch.x.sum(), None)


@program(KIND, rand(3), further=[(rand(3, seed=1),), (rand(3),)])
class ParameterChanged(nn.Module):
    """A parameter is changed under no_grad, as moving averages do."""

    def __init__(self) -> None:
        super().__init__()
        self.average = nn.Parameter(torch.zeros(3), requires_grad=False)

    def forward(self, x: Any) -> Any:
        with torch.no_grad():
            self.average.mul_(0.9).add_(x, alpha=0.1)
        return x - self.average


@program(KIND, rand(3), further=[(rand(3, seed=1),), (rand(3),)], after=lambda api, p: p.run_decompositions())
class RingBuffer(nn.Module):
    """A buffer that is rolled, and a position that is a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("ring", torch.zeros(4, 3))
        self.register_buffer("at", torch.zeros(1, dtype=torch.long))

    def forward(self, x: Any) -> Any:
        self.ring.index_copy_(0, self.at, x[None])
        self.at.add_(1).remainder_(4)
        return self.ring.mean(0)


@program(KIND, rand(2, 3), further=[(rand(2, 3, seed=1),)])
class SharedBuffer(nn.Module):
    """One buffer under two names, changed under one of them."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("a", torch.zeros(3))
        self.register_buffer("b", self.a)

    def forward(self, x: Any) -> Any:
        self.a += x.sum(0)
        return x + self.b


# Tools --------------------------------------------------------------------------------------------------------------


def _quantised(api: Any, p: Any) -> None:
    """Observers around linear layers, as quantisers put them in."""
    module = copy.deepcopy(p.module())
    seen = []
    for node in list(module.graph.nodes):
        if node.target in (ATEN.linear.default, ATEN.conv2d.default):
            assert node.meta["nn_module_stack"] and node.meta["val"].dtype is torch.float32
            with module.graph.inserting_before(node):
                fake = module.graph.call_function(
                    ATEN.fake_quantize_per_tensor_affine.default, (node.args[0], 0.01, 0, -128, 127))
            node.replace_input_with(node.args[0], fake)
            seen.append(node.name)
    module.graph.lint()
    module.recompile()
    assert len(seen) == 2
    result = module(rand(2, 3))
    torch.testing.assert_close(result, p.module()(rand(2, 3)), rtol=0.3, atol=0.3)
    api.export(module, (rand(2, 3),), strict=False).run_decompositions()


class _Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(3, 4), nn.Linear(4, 2)

    def forward(self, x: Any) -> Any:
        return self.b(F.relu(self.a(x)))


@program(KIND, rand(2, 3), after=_quantised)
class Quantised(_Two):
    """A graph that is annotated and changed."""


def _interpreted(api: Any, p: Any) -> None:
    class Counting(torch.fx.Interpreter):
        count = 0

        def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
            Counting.count += 1
            return super().call_function(target, args, kwargs)

    x = rand(2, 3)
    state = [*p.state_dict.values()]
    result = Counting(p.graph_module).run(*state, x)
    torch.testing.assert_close(result[0], p.module()(x))
    assert Counting.count == 3


@program(KIND, rand(2, 3), after=_interpreted)
class Interpreted(_Two):
    """The graph is run by an fx.Interpreter, with weights as inputs."""


def _saved_as_object(api: Any, p: Any) -> None:
    file = io.BytesIO()
    api.save(p, file)
    file.seek(0)
    loaded = api.load(file)
    assert [str(node.target) for node in loaded.graph.nodes] == [str(node.target) for node in p.graph.nodes]
    for one, other in zip(loaded.graph.nodes, p.graph.nodes, strict=True):
        if one.op == "call_function":
            assert [path for path, _ in one.meta["nn_module_stack"].values()] == \
                [path for path, _ in other.meta["nn_module_stack"].values()]
            assert one.meta["stack_trace"] == other.meta["stack_trace"]
    args, _ = loaded.example_inputs
    torch.testing.assert_close(loaded.module()(*args), p.module()(*args))


@program(KIND, rand(2, 3), after=_saved_as_object)
class SavedMetadata(_Two):
    """What is read of nodes is in the file too."""


def _source_after_loading(api: Any, p: Any) -> None:
    from torch.fx.passes.utils.source_matcher_utils import get_source_partitions

    found = get_source_partitions(p.module().graph, [nn.Linear, torch.nn.functional.linear, "linear"])
    assert sum(map(len, found.values())) == 2, found


@program(KIND, rand(2, 3), after=_source_after_loading)
class PartitionsOfModule(_Two):
    """Quantisers look for layers in the module's graph."""


def _replaced_state(api: Any, p: Any) -> None:
    module = copy.deepcopy(p.module())
    module.load_state_dict({name: torch.ones_like(value) for name, value in module.state_dict().items()})
    torch.testing.assert_close(module(torch.ones(2, 3)), torch.full((2, 2), 17.0))


@program(KIND, rand(2, 3), after=_replaced_state, saves=False)
class WeightsLoaded(_Two):
    """The module takes other weights."""


@program(KIND, rand(2, 3), further=[(rand(2, 3, seed=1),)],
         after=lambda api, p: api.export(p.module(), (rand(2, 3),), strict=False))
class ExportedAgain(_Two):
    """A program's module is exported again, by running."""


@program(KIND, rand(2, 3), further=[(rand(2, 3, seed=1),)],
         after=lambda api, p: api.export(p.run_decompositions().module(), (rand(2, 3),), strict=True))
class DecomposedExportedAgain(_Two):
    """A decomposed program's module is exported again, strictly."""


@program(KIND, rand(2, 3), shapes=lambda D: ({0: D("n")},), further=[(rand(5, 3),)],
         after=lambda api, p: api.export(api.unflatten(p), (rand(2, 3),), dynamic_shapes=({0: api.Dim("n")},),
                                         strict=False))
class UnflattenedExportedAgain(_Two):
    """The unflattened module is exported again."""


@program(KIND, rand(2, 3), further=[(rand(2, 3, seed=1),)], after=lambda api, p: p.run_decompositions(
    {**api.default_decompositions(), OPS.scale.default: lambda x, factor: torch.mul(x, factor)}))
def custom_operator_in_default_table(self: Any, x: Any) -> Any:
    return OPS.scale(F.layer_norm(x, (3,)), 0.5)


def _only_table(api: Any, p: Any) -> Any:
    decomposed = p.run_decompositions({OPS.scale.default: lambda x, factor: x * factor})
    targets = [node.target for node in decomposed.graph.nodes if node.op == "call_function"]
    assert OPS.scale.default not in targets and ATEN.linear.default in targets, targets
    return decomposed


@program(KIND, rand(2, 3), further=[(rand(2, 3, seed=1),)], after=_only_table)
class OnlyWhatTheTableSays(nn.Module):
    """A table of one custom operator leaves everything else."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x: Any) -> Any:
        return OPS.scale(self.layer(x), 2.0)


@program(KIND, Scaled(rand(2, 3), 2.0), Scaled(rand(2, 3), 3.0), saves=False,
         further=[(Scaled(rand(2, 3, seed=1), 2.0), Scaled(rand(2, 3), 3.0))])
def two_wrapped_inputs(self: Any, x: Any, y: Any) -> Any:
    return torch.cat([x, y]).relu() @ torch.ones(3, 2)


@program(KIND, rand(4, 3), further=[(rand(4, 3, seed=1),)], saves=False, after=lambda api, p: p.run_decompositions())
class WrappedWeightDecomposed(nn.Module):
    """A program with a wrapper as a weight is decomposed."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.layer.weight = nn.Parameter(Scaled(torch.randn(2, 3), 0.5))

    def forward(self, x: Any) -> Any:
        return F.gelu(self.layer(x))


# Functions of torch.func and NumPy ----------------------------------------------------------------------------------


@program(KIND, rand(4, 3), rand(4), further=[(rand(4, 3, seed=1), rand(4))])
class PerSampleGradients(nn.Module):
    """vmap of grad of a functional call."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(3))

    def forward(self, xs: Any, ys: Any) -> Any:
        def loss(w: Any, x: Any, y: Any) -> Any:
            return ((x * w).sum() - y) ** 2

        return torch.vmap(torch.func.grad(loss), (None, 0, 0))(self.weight.detach(), xs, ys)


@program(KIND, rand(4), further=[(rand(4, seed=1),)])
def hessian_inside(self: Any, x: Any) -> Any:
    return torch.func.hessian(lambda x: (x ** 3).sum())(x)


@program(KIND, rand(3, 4), further=[(rand(3, 4, seed=1),)])
def vmap_over_columns(self: Any, x: Any) -> Any:
    return torch.vmap(torch.outer, in_dims=(1, None), out_dims=2)(x, torch.arange(2.0))


@program(KIND, ints(5), further=[(ints(5, high=3),)])
def numpy_types(self: Any, x: Any) -> Any:
    return x * np.int64(3) + torch.tensor(np.arange(5)), torch.tensor(np.float32(1.5)), x.to(torch.float32) / np.e


@program(KIND, rand(2, 4, 4), further=[(rand(2, 4, 4, seed=1),)])
def attention_with_mask(self: Any, q: Any) -> Any:
    mask = torch.ones(4, 4, dtype=torch.bool).tril()
    return F.scaled_dot_product_attention(q[:, None], q[:, None], q[:, None], attn_mask=mask, scale=0.3)


@program(KIND, rand(2, 6), further=[(rand(2, 6, seed=1),)])
def quantised_arithmetic(self: Any, x: Any) -> Any:
    scale = x.abs().amax(1, keepdim=True) / 127
    q = torch.round(x / scale).clamp(-128, 127).to(torch.int8)
    return q, q.to(torch.float32) * scale, torch.bitwise_and(q, 15), (q.to(torch.int32) @ q.to(torch.int32).T)
