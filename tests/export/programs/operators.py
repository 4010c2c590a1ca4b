"""Custom operators, decompositions, drafts, and what is done to programs after exporting."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from .record import program, rand


@torch.library.custom_op("fs_programs::scale", mutates_args=())
def scale(x: torch.Tensor, factor: float) -> torch.Tensor:
    """A functional operator."""
    return x * factor


@scale.register_fake
def _(x: torch.Tensor, factor: float) -> torch.Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("fs_programs::add_into", mutates_args={"out"})
def add_into(x: torch.Tensor, out: torch.Tensor) -> None:
    """Changes an argument and returns nothing."""
    out.add_(x)


@torch.library.custom_op("fs_programs::add_and_count", mutates_args={"out", "count"})
def add_and_count(x: torch.Tensor, out: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
    """Changes two arguments and returns a tensor."""
    out.add_(x)
    count.add_(1)
    return x * 2


@add_and_count.register_fake
def _(x: torch.Tensor, out: torch.Tensor, count: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


@torch.library.custom_op("fs_programs::positive", mutates_args=())
def positive(x: torch.Tensor) -> torch.Tensor:
    """As many as data decide."""
    return x[x > 0].clone()


@positive.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return x.new_empty(torch.library.get_ctx().new_dynamic_size())


@torch.library.custom_op("fs_programs::split_two", mutates_args=())
def split_two(x: torch.Tensor, at: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Two results."""
    return x[:at].clone(), x[at:].clone()


@split_two.register_fake
def _(x: torch.Tensor, at: int) -> tuple[torch.Tensor, torch.Tensor]:
    return torch.empty_like(x[:at]), torch.empty_like(x[at:])


@torch.library.custom_op("fs_programs::sum_list", mutates_args=())
def sum_list(xs: list[torch.Tensor], weights: list[float], name: str,
             offset: torch.Tensor | None = None) -> torch.Tensor:
    """Lists, strings and what may be missing."""
    total = sum(weight * x for weight, x in zip(weights, xs, strict=True))
    return total if offset is None else total + offset  # type: ignore[return-value]


@sum_list.register_fake
def _(xs: Any, weights: Any, name: str, offset: Any = None) -> torch.Tensor:
    return torch.empty_like(xs[0])


@torch.library.custom_op("fs_programs::no_fake", mutates_args=())
def no_fake(x: torch.Tensor, n: int) -> torch.Tensor:
    """Nothing says what its result looks like."""
    return x.sin() + n


@torch.library.custom_op("fs_programs::no_fake_pair", mutates_args=())
def no_fake_pair(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The same with two results of other shapes."""
    return x.sum(0), x.to(torch.float64) * 2


@torch.library.custom_op("fs_programs::trained", mutates_args=())
def trained(x: torch.Tensor) -> torch.Tensor:
    """Has a backward."""
    return x ** 3


@trained.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


trained.register_autograd(lambda ctx, grad: grad * 3 * ctx.saved_tensors[0] ** 2,
                          setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0]))

_LIBRARY = torch.library.Library("fs_programs", "FRAGMENT")
_LIBRARY.define("composed(Tensor x, float a=2.0) -> Tensor")
_LIBRARY.impl("composed", lambda x, a=2.0: x.sin() * a + x.cos(), "CompositeImplicitAutograd")
_LIBRARY.define("twice_(Tensor(a!) x) -> Tensor(a!)")
_LIBRARY.impl("twice_", lambda x: x.mul_(2), "CompositeExplicitAutograd")
_LIBRARY.impl("twice_", lambda x: x, "Meta")

OPS = torch.ops.fs_programs
ATEN = torch.ops.aten
KIND = "custom operators"


@program(KIND, rand(4, 3), shapes=lambda D: ({0: D("n")},), further=[(rand(2, 3),)])
def custom_operator(self: Any, x: Any) -> Any:
    return OPS.scale(x + 1, 2.0).relu()


@program(KIND, rand(4, 3), shapes=lambda D: ({0: D("n")},), further=[(rand(2, 3),)],
         after=lambda api, p: p.run_decompositions())
def custom_operator_decomposed(self: Any, x: Any) -> Any:
    return torch.nn.functional.gelu(OPS.scale(x + 1, 2.0))


@program(KIND, rand(4, 3), further=[(rand(4, 3, seed=1),)],
         after=lambda api, p: p.run_decompositions({OPS.scale.default: lambda x, factor: x * factor}))
def custom_operator_in_table(self: Any, x: Any) -> Any:
    return OPS.scale(x + 1, 2.0).relu()


@program(KIND, rand(4, 3), further=[(rand(4, 3, seed=1),)],
         after=lambda api, p: p.run_decompositions({**api.default_decompositions(),
                                                    OPS.composed.default: lambda x, a=2.0: x + a}) and None)
def composition_in_table(self: Any, x: Any) -> Any:
    return OPS.composed(x) + OPS.composed(x, 3.0)


@program(KIND, rand(4, 3), further=[(rand(4, 3, seed=1),)], after=lambda api, p: p.run_decompositions())
def composition_decomposed(self: Any, x: Any) -> Any:
    return OPS.composed(x) + OPS.composed(x, a=3.0)


@program(KIND, rand(4, 3), further=[(rand(4, 3, seed=1),)])
def composition_kept(self: Any, x: Any) -> Any:
    return OPS.composed(x) + OPS.composed(x, a=3.0)


@program(KIND, rand(4), rand(4), further=[(rand(4, seed=1), rand(4))])
def mutating_operator(self: Any, x: Any, y: Any) -> Any:
    OPS.add_into(x, y)
    return y * 2


@program(KIND, rand(4), rand(4), further=[(rand(4, seed=1), rand(4))], after=lambda api, p: p.run_decompositions({}))
def mutating_operator_functional(self: Any, x: Any, y: Any) -> Any:
    OPS.add_into(x, y)
    return y * 2


@program(KIND, rand(4), further=[(rand(4, seed=1),)], after=lambda api, p: p.run_decompositions())
def mutating_operator_on_a_copy(self: Any, x: Any) -> Any:
    y = x.clone()
    OPS.add_into(x, y)
    OPS.add_into(y, y[:4])
    return y


@program(KIND, rand(4), further=[(rand(4, seed=1),)], after=lambda api, p: p.run_decompositions())
class MutatingOperatorOnBuffers(nn.Module):
    """Two buffers are changed by one operator."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(4))
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x: Any) -> Any:
        return OPS.add_and_count(x, self.total, self.count) + self.total


@program(KIND, rand(6), further=[(rand(6, seed=1),)], after=lambda api, p: p.run_decompositions())
def mutating_operator_on_a_view(self: Any, x: Any) -> Any:
    y = torch.zeros(8)
    OPS.add_into(x[:4], y[2:6])
    return y


@program(KIND, rand(4), further=[(rand(4, seed=1),)])
def in_place_operator_that_returns(self: Any, x: Any) -> Any:
    y = x + 1
    return OPS.twice_(y) + y


@program(KIND, rand(4), further=[(rand(4, seed=1),)], after=lambda api, p: p.run_decompositions())
def in_place_operator_decomposed(self: Any, x: Any) -> Any:
    y = x + 1
    return OPS.twice_(y) + y


@program(KIND, rand(6), further=[(rand(6, seed=1),), (-rand(6).abs(),)])
def operator_with_size_from_data(self: Any, x: Any) -> Any:
    return OPS.positive(x) * 2


@program(KIND, rand(6), further=[(rand(6, seed=1),)])
def operator_with_two_results(self: Any, x: Any) -> Any:
    a, b = OPS.split_two(x, 2)
    return b, a * 2


@program(KIND, rand(4), rand(4), further=[(rand(4, seed=1), rand(4))])
def operator_with_lists(self: Any, x: Any, y: Any) -> Any:
    return OPS.sum_list([x, y], [1.0, 2.0], "name") + OPS.sum_list([y], [0.5], "other", x)


@program(KIND, rand(4).requires_grad_(), further=[(rand(4, seed=1).requires_grad_(),)], gradients=True)
def operator_with_backward(self: Any, x: Any) -> Any:
    return trained(x) + 1


@program(KIND, rand(2, 3), further=[(rand(2, 3, seed=1),)],
         after=lambda api, p: p.run_decompositions({ATEN.linear.default: lambda x, w, b=None: x @ w.t() + b}))
class LinearInTable(nn.Module):
    """One's own decomposition of linear."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 4)

    def forward(self, x: Any) -> Any:
        return self.layer(x).relu()


@program(KIND, rand(2, 3), further=[(rand(2, 3, seed=1),)], after=lambda api, p: p.run_decompositions({}))
class NormFunctional(nn.Module):
    """Batch norm in training mode, without mutation."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(3)
        self.train()

    def forward(self, x: Any) -> Any:
        return self.norm(x)


def _without(api: Any, p: Any, *operators: Any) -> Any:
    table = api.default_decompositions()
    for operator in operators:
        del table[operator]
    decomposed = p.run_decompositions(table)
    targets = {node.target for node in decomposed.graph.nodes}
    assert targets & set(operators), targets
    return decomposed


@program(KIND, rand(2, 3), further=[(rand(2, 3, seed=1),)],
         after=lambda api, p: _without(api, p, ATEN.linear.default))
class LinearKept(nn.Module):
    """A table from which an operator was taken."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 4)

    def forward(self, x: Any) -> Any:
        return torch.nn.functional.silu(self.layer(x))


# Drafts -----------------------------------------------------------------------------------------------------------

DRAFTS = "drafts"


@program(DRAFTS, rand(4), exporter="draft_export", further=[(rand(4, seed=1),)], saves=False)
def draft_without_fake_kernel(self: Any, x: Any) -> Any:
    return no_fake(x, 3) * 2


@program(DRAFTS, rand(4, 3), exporter="draft_export", further=[(rand(4, 3, seed=1),)], saves=False)
def draft_without_fake_kernel_of_two_results(self: Any, x: Any) -> Any:
    a, b = no_fake_pair(x)
    return a + b, b.dtype


@program(DRAFTS, rand(4, 3), exporter="draft_export", shapes=lambda D: ({0: D("n")},), further=[(rand(4, 3, seed=1),)],
         saves=False)
def draft_without_fake_kernel_of_dynamic_size(self: Any, x: Any) -> Any:
    return no_fake(x, 3) * 2


@program(DRAFTS, rand(4), torch.tensor(5), exporter="draft_export", further=[(rand(4, seed=1), torch.tensor(7))],
         saves=False)
def draft_of_a_data_decision(self: Any, x: Any, n: Any) -> Any:
    return x + 1 if n.item() > 3 else x - 1


@program(DRAFTS, rand(6), rand(6), exporter="draft_export", shapes=lambda D: ({0: D("n")}, {0: D("m")}),
         further=[(rand(6, seed=1), rand(6))], saves=False)
def draft_of_a_wrong_declaration(self: Any, x: Any, y: Any) -> Any:
    return x + y


@program(DRAFTS, rand(6), exporter="draft_export", further=[(rand(6, seed=1),)], saves=False)
def draft_of_what_is_fine(self: Any, x: Any) -> Any:
    return x.cumsum(0)


# What is done with programs ---------------------------------------------------------------------------------------

AFTER = "modules and passes"


@program(AFTER, rand(4, 3), shapes=lambda D: ({0: D("n", max=8)},), further=[(rand(5, 3),)], check_guards=False)
def without_guards(self: Any, x: Any) -> Any:
    return x * 2


@program(AFTER, rand(4, 3), shapes=lambda D: ({0: D("n", max=8)},), further=[(rand(5, 3),), (rand(20, 3),)],
         check_guards=False)
def outside_of_the_contract(self: Any, x: Any) -> Any:
    return x.sum(0) * x.shape[0]


def _examples(api: Any, p: Any) -> None:
    args, kwargs = p.example_inputs
    assert isinstance(args, tuple) and list(kwargs) == ["y"], p.example_inputs
    assert args[0].shape == (4, 3)
    p.module()(*args, **kwargs)


@program(AFTER, rand(4, 3), kwargs={"y": rand(3)}, further=[((rand(4, 3),), {"y": rand(3, seed=1)})], after=_examples)
def example_inputs(self: Any, x: Any, y: Any) -> Any:
    return x + y


def _examples_set(api: Any, p: Any) -> None:
    p.example_inputs = ((torch.ones(2, 3),), {})
    assert p.example_inputs[0][0].shape == (2, 3)
    p.example_inputs = None
    assert p.example_inputs is None


@program(AFTER, rand(4, 3), shapes=lambda D: ({0: D("n")},), further=[(rand(2, 3),)], after=_examples_set)
def example_inputs_changed(self: Any, x: Any) -> Any:
    return x + 1


def _moved(api: Any, p: Any) -> Any:
    from importlib import import_module

    moved = import_module(api.__name__ + ".passes").move_to_device_pass(p, "meta")
    assert all(tensor.device.type == "meta" for tensor in moved.state_dict.values())
    result = moved.module()(torch.empty(2, 3, device="meta"))
    assert result.device.type == "meta" and result.shape == (2, 4)


class _Devices(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 4)
        self.register_buffer("shift", torch.randn(4))

    def forward(self, x: Any) -> Any:
        return self.layer(x) + self.shift + torch.arange(4, device=x.device) + torch.zeros(4, device="cpu")


@program(AFTER, rand(2, 3), after=_moved, saves=False)
class MovedToDevice(_Devices):
    """A program with its own devices, moved. It is not run on the CPU afterwards."""


@program(AFTER, rand(2, 3), further=[(rand(2, 3, seed=1),)],
         after=lambda api, p: __import__("importlib").import_module(api.__name__ + ".passes").move_to_device_pass(
             p, {"cuda": "cpu"}))
class MovedByTable(_Devices):
    """A table in which the device is not."""


def _unflattened(api: Any, p: Any) -> None:
    module = api.unflatten(p)
    x = rand(2, 3)
    torch.testing.assert_close(module(x), p.module()(x))
    assert {name for name, _ in module.named_children()} >= {"a", "b"}


@program(AFTER, rand(2, 3), further=[(rand(2, 3, seed=1),)], after=_unflattened)
class Unflattened(nn.Module):
    """Modules inside of modules."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
        self.b = nn.Linear(4, 2)

    def forward(self, x: Any) -> Any:
        return self.b(self.a(x))




@program(AFTER, rand(2, 3), further=[(rand(2, 3, seed=1),)],
         after=lambda api, p: p.run_decompositions().run_decompositions({}))
class DecomposedTwice(nn.Module):
    """Decomposing what was decomposed."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(3)
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x: Any) -> Any:
        self.count.add_(1)
        return self.norm(x) * self.count


@program(AFTER, rand(2, 3), further=[(rand(2, 3, seed=1),)], gradients=True)
class TrainedAfterwards(nn.Module):
    """Gradients of the exported module's parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(3, 4), nn.Linear(4, 2)

    def forward(self, x: Any) -> Any:
        return self.b(torch.tanh(self.a(x)))


# What tools read of nodes -----------------------------------------------------------------------------------------

METADATA = "metadata of nodes"


class _Nested(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
        self.head = nn.Linear(4, 2)

    def forward(self, x: Any) -> Any:
        return self.head(self.block(x)) + 1


def _calls(p: Any, operator: Any) -> list[torch.fx.Node]:
    found = [node for node in p.graph.nodes if node.target is operator]
    assert found, p.graph
    return found


def _module_stack(api: Any, p: Any) -> None:
    first, second = _calls(p, ATEN.linear.default)
    paths = [path for path, _ in first.meta["nn_module_stack"].values()]
    assert paths == ["", "block", "block.0"], paths
    kinds = [kind if isinstance(kind, str) else f"{kind.__module__}.{kind.__qualname__}"
             for _, kind in second.meta["nn_module_stack"].values()]
    assert kinds[-1] == "torch.nn.modules.linear.Linear", kinds


@program(METADATA, rand(2, 3), after=_module_stack)
class ModuleStack(_Nested):
    """``nn_module_stack``: the modules around an operation."""


def _stack_trace(api: Any, p: Any) -> None:
    for node in p.graph.nodes:
        if node.op == "call_function":
            assert "operators.py" in node.meta["stack_trace"], node.meta["stack_trace"]
            assert "return self.head(self.block(x)) + 1" in node.meta["stack_trace"]


@program(METADATA, rand(2, 3), after=_stack_trace)
class StackTrace(_Nested):
    """``stack_trace``: the user's line."""


def _source_functions(api: Any, p: Any) -> None:
    first, second = _calls(p, ATEN.linear.default)
    name, source = first.meta["source_fn_stack"][-1]
    assert isinstance(name, str)
    assert source in (nn.Linear, torch.nn.functional.linear, torch._C._nn.linear), source
    assert first.meta["source_fn_stack"][-1] != second.meta["source_fn_stack"][-1]
    relu = _calls(p, ATEN.relu.default)[0].meta["source_fn_stack"][-1][1]
    assert relu in (nn.ReLU, torch.nn.functional.relu, torch.relu), relu
    from torch.fx.passes.utils.source_matcher_utils import get_source_partitions

    found = get_source_partitions(p.graph, [nn.Linear, torch.nn.functional.linear])
    assert sum(map(len, found.values())) == 2, found


@program(METADATA, rand(2, 3), after=_source_functions)
class SourceFunctions(_Nested):
    """``source_fn_stack``: the function that was called, as quantisers look for it."""


def _torch_functions(api: Any, p: Any) -> None:
    for node in p.graph.nodes:
        if node.op == "call_function":
            assert isinstance(node.meta["torch_fn"], tuple) and all(isinstance(part, str)
                                                                     for part in node.meta["torch_fn"]), node.meta
    name = _calls(p, ATEN.linear.default)[0].meta["torch_fn"]
    assert name[1].endswith("linear"), name


@program(METADATA, rand(2, 3), after=_torch_functions)
class TorchFunctions(_Nested):
    """``torch_fn``: the function by name."""


def _origins(api: Any, p: Any) -> None:
    decomposed = p.run_decompositions()
    for node in decomposed.graph.nodes:
        if node.op == "call_function":
            origin = node.meta["from_node"][-1]
            assert origin.name in {one.name for one in p.graph.nodes}, origin
            assert hasattr(origin, "graph_id") and hasattr(origin, "from_node")
            assert "nn_module_stack" in node.meta and "stack_trace" in node.meta
    for node in p.module().graph.nodes:
        if node.op == "call_function":
            assert node.meta["from_node"][-1].name == node.name, node.meta["from_node"]


@program(METADATA, rand(2, 3), after=_origins)
class Origins(_Nested):
    """``from_node``: the node of the program before."""


def _values(api: Any, p: Any) -> None:
    for node in p.graph.nodes:
        if node.op in ("placeholder", "call_function"):
            value = node.meta["val"]
            assert isinstance(value, torch.Tensor), node
            assert all(isinstance(size, (int, torch.SymInt)) for size in value.shape)
    batch = next(node for node in p.graph.nodes if node.name == "x").meta["val"].shape[0]
    assert isinstance(batch, torch.SymInt), batch


@program(METADATA, rand(2, 3), shapes=lambda D: ({0: D("n")},), after=_values, further=[(rand(5, 3),)])
class Values(_Nested):
    """``val``: what the result looks like."""


def _decomposed_stack(api: Any, p: Any) -> None:
    decomposed = p.run_decompositions()
    for node in decomposed.graph.nodes:
        if node.op == "call_function":
            paths = [path for path, _ in node.meta["nn_module_stack"].values()]
            assert paths[0] == "", paths
    first = _calls(decomposed, ATEN.addmm.default)[0]
    assert [path for path, _ in first.meta["nn_module_stack"].values()] == ["", "block", "block.0"]


@program(METADATA, rand(2, 3), after=_decomposed_stack)
class DecomposedStack(_Nested):
    """``nn_module_stack`` after decomposing."""


def _signature(api: Any, p: Any) -> None:
    signature = p.graph_signature
    assert list(signature.parameters) == ["block.0.weight", "block.0.bias", "head.weight", "head.bias"]
    assert list(signature.user_inputs) == ["x"]
    assert signature.inputs_to_parameters["p_head_bias"] == "head.bias"
    assert [name for name, _ in p.named_parameters()] == list(signature.parameters)
    assert list(p.state_dict) == list(signature.parameters)


@program(METADATA, rand(2, 3), after=_signature)
class Signature(_Nested):
    """What converters read of the signature."""


def _replaced(api: Any, p: Any) -> None:
    module = p.module()
    relu = next(node for node in module.graph.nodes if node.target is ATEN.relu.default)
    with module.graph.inserting_after(relu):
        sigmoid = module.graph.call_function(ATEN.sigmoid.default, (relu.args[0],))
    relu.replace_all_uses_with(sigmoid)
    module.graph.erase_node(relu)
    module.recompile()
    module(rand(2, 3))
    again = api.export(module, (rand(2, 3),), strict=False)
    again.module()(rand(2, 3))


@program(METADATA, rand(2, 3), after=_replaced)
class Edited(_Nested):
    """The module's graph is edited and exported again, as quantisers do."""
