"""Programs and their signatures: what becomes of inputs, results, state and side effects, strict and non-strict."""

from __future__ import annotations

import copy
import subprocess
import sys
import warnings
from dataclasses import dataclass

import pytest
import torch
from torch.utils import _pytree as pytree

import firesteel as fs
from firesteel.errors import UserCodeError
from firesteel.export import Dim, ExportError, InputKind, InputMismatchError, export

BOTH = pytest.mark.parametrize("strict", [True, False], ids=["strict", "nonstrict"])


def leaves(value):
    return pytree.tree_leaves(value)


def check(model, args, kwargs=None, *, strict=True, others=(), **options):
    """Export, and hold the program against eager on the example and other calls: results, inputs, buffers."""
    kwargs = kwargs or {}
    original = copy.deepcopy(model)
    program = export(model, copy.deepcopy(args), copy.deepcopy(kwargs), strict=strict, **options)
    for one, other in zip(leaves(dict(model.state_dict())), leaves(dict(original.state_dict())), strict=True):
        torch.testing.assert_close(one, other, msg="exporting changed the module")
    for run, module in enumerate((program.module(), program.run_decompositions({}).module())):
        if run:
            module.load_state_dict(original.state_dict())
        eager = copy.deepcopy(original)
        for given, named in ((args, kwargs), *others):
            mine, theirs = copy.deepcopy((given, named)), copy.deepcopy((given, named))
            torch.manual_seed(0)
            got = module(*mine[0], **mine[1])
            torch.manual_seed(0)
            wanted = eager(*theirs[0], **theirs[1])
            compare(got, wanted)
            compare(mine, theirs)
        compare(dict(module.state_dict()), dict(eager.state_dict()))
    return program


def compare(got, wanted):
    got_leaves, got_spec = pytree.tree_flatten(got)
    wanted_leaves, wanted_spec = pytree.tree_flatten(wanted)
    assert got_spec == wanted_spec
    for one, other in zip(got_leaves, wanted_leaves, strict=True):
        if isinstance(other, torch.Tensor):
            torch.testing.assert_close(one, other)
            assert one.requires_grad == other.requires_grad
        else:
            assert type(one) is type(other) and one == other


class Everything(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(4, 3)
        self.unused = torch.nn.Linear(2, 2)
        self.register_buffer("seen", torch.zeros(3))
        self.register_buffer("scratch", torch.ones(3), persistent=False)
        self.scale = torch.full((3,), 2.0)

    def forward(self, x, y, *, k=None, d=None):
        z = torch.nn.functional.relu(self.lin(x + y), inplace=True)
        with torch.no_grad():
            w = z * 2
        self.seen.add_(1)
        t = torch.tensor([1.0, 2.0])
        y.mul_(2)
        return {"a": z * self.scale + self.scratch, "b": (w[:, 0], k, x.shape[0], t, d["u"] + 1, x)}


@BOTH
def test_everything(strict):
    args = torch.randn(5, 4), torch.randn(5, 4)
    kwargs = {"k": 3, "d": {"u": torch.ones(3)}}
    program = check(Everything(), args, kwargs, strict=strict,
                    dynamic_shapes={"x": {0: Dim("n")}, "y": {0: Dim("n")}, "k": None, "d": {"u": None}},
                    others=[((torch.randn(7, 4), torch.randn(7, 4)), kwargs)])
    signature = program.graph_signature
    assert signature.parameters == ("lin.weight", "lin.bias", "unused.weight", "unused.bias")
    assert signature.buffers == ("seen", "scratch")
    assert signature.non_persistent_buffers == ("scratch",)
    assert set(signature.lifted_tensor_constants) == {"scale", "lifted_tensor_0"}
    assert signature.user_inputs == ("x", "y", 3, "d_u")
    assert list(program.state_dict) == list(Everything().state_dict())
    functional = program.run_decompositions({}).graph_signature
    assert list(functional.buffers_to_mutate.values()) == ["seen"]
    assert list(functional.user_inputs_to_mutate.values()) == ["y"]
    linear = next(node for node in program.graph.nodes if node.name == "linear")
    assert [name for name, _ in linear.meta["nn_module_stack"].values()] == ["", "lin"]


@dataclass
class Pair:
    first: torch.Tensor
    rest: list


pytree.register_dataclass(Pair) if hasattr(pytree, "register_dataclass") else pytree.register_pytree_node(
    Pair, lambda pair: ([pair.first, pair.rest], None), lambda items, _: Pair(*items))


class OfPairs(torch.nn.Module):
    def forward(self, pair, names, *more, flag=True, **others):
        total = pair.first + sum(pair.rest)
        for value in more:
            total = total + value
        if flag:
            total = total * others["factor"]
        return Pair(total, [names["a"] * 2, None, "text", 1.5])


@BOTH
def test_containers(strict):
    pair = Pair(torch.ones(3), [torch.ones(3), torch.ones(3)])
    args = pair, {"a": torch.ones(2)}, torch.ones(3), torch.full((3,), 2.0)
    program = check(OfPairs(), args, {"flag": True, "factor": torch.tensor(3.0)}, strict=strict)
    assert [spec.arg.name for spec in program.graph_signature.input_specs] == [
        "pair_first", "pair_rest_0", "pair_rest_1", "names_a", "more_0", "more_1", "flag", "factor"]
    with pytest.raises(InputMismatchError, match="nested"):
        program.module()(Pair(torch.ones(3), [torch.ones(3)]), *args[1:], flag=True, factor=torch.tensor(3.0))


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(7, 4)
        self.head = torch.nn.Linear(4, 7, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, x):
        return self.head(self.embedding(x))


@BOTH
def test_shared_parameters(strict):
    model = Tied()
    program = check(model, (torch.tensor([1, 2]),), strict=strict)
    module = program.module()
    assert list(module.state_dict()) == list(model.state_dict())
    assert module.head.weight is module.embedding.weight
    assert len(list(module.parameters())) == 1


class Assigning(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("last", torch.zeros(3))

    def forward(self, x):
        before = self.last
        self.last = x * 2
        return before + self.last


@BOTH
def test_assigned_buffer(strict):
    check(Assigning(), (torch.ones(3),), strict=strict, others=[((torch.full((3,), 5.0),), {})])


class Views(torch.nn.Module):
    def forward(self, x):
        row = x[0]
        row.add_(1)
        x.t().mul_(2)
        y = x.clone()
        y[1:, 0] = 7
        y.t_()
        return x, row, y, y.view(-1)[1:3] if y.is_contiguous() else y[0]


@BOTH
def test_views_and_writes(strict):
    check(Views(), (torch.randn(3, 4),), strict=strict)


class Detached(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(3, 3)

    def forward(self, x):
        with torch.no_grad():
            a = self.lin(x)
            with torch.enable_grad():
                b = self.lin(x)
        c = self.lin(x).detach()
        return a, b, c, self.lin(x)


@BOTH
def test_grad_mode(strict):
    program = check(Detached(), (torch.randn(2, 3),), strict=strict)
    module, x = program.module(), torch.randn(2, 3)
    with torch.no_grad():
        needs = [value.requires_grad for value in module(x)]
        # running Python does not tell where a region of enable_grad begins inside of one of no_grad
        assert needs == [False, strict, False, False]
        assert not torch.is_grad_enabled()
    with pytest.raises(InputMismatchError):
        module(torch.randn(2, 4))
    assert torch.is_grad_enabled()


class Mixed(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(4, 4)

    def forward(self, x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = self.lin(x)
            z = self.lin(y)
        return y, z, self.lin(x)


@BOTH
def test_autocast(strict):
    check(Mixed(), (torch.randn(2, 4),), strict=strict)


@BOTH
def test_autocast_that_keeps_its_cache(strict):
    torch.autocast_increment_nesting()  # as inside of another region: what was cast is kept at the end of this one
    try:
        check(Mixed(), (torch.randn(2, 4),), strict=strict)
    finally:
        torch.autocast_decrement_nesting()
        torch.clear_autocast_cache()


class Random(torch.nn.Module):
    def forward(self, x):
        return torch.nn.functional.dropout(x, 0.5) + torch.rand(4) + torch.rand_like(x)


@BOTH
def test_random_numbers(strict):
    check(Random(), (torch.randn(4),), strict=strict)


class Trained(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(
            torch.nn.Conv2d(1, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Flatten(),
            torch.nn.Linear(16, 2))

    def forward(self, x):
        return self.net(x)


@BOTH
def test_training(strict):
    torch.manual_seed(0)
    model = Trained()
    eager = copy.deepcopy(model)
    module = export(model, (torch.randn(3, 1, 4, 4),), strict=strict, dynamic_shapes={"x": {0: Dim("n")}}).module()
    ours, theirs = (torch.optim.SGD(m.parameters(), lr=0.1, momentum=0.9) for m in (module, eager))
    for step in range(4):
        x = torch.randn(step + 2, 1, 4, 4)
        for m, optimizer in ((module, ours), (eager, theirs)):
            optimizer.zero_grad()
            m(x).square().sum().backward()
            optimizer.step()
    compare(dict(module.state_dict()), dict(eager.state_dict()))
    assert model.net[0].weight is module.net.get_submodule("0").weight, "parameters are shared"


def test_compiled_module():
    model = Trained().eval()
    program = export(model, (torch.randn(3, 1, 4, 4),), dynamic_shapes={"x": {0: Dim("n")}})
    compiled = fs.compile(program.module(), fullgraph=True)
    for size in (3, 5, 8):
        x = torch.randn(size, 1, 4, 4)
        torch.testing.assert_close(compiled(x), model(x))


class Outside(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.calls = []

    def forward(self, x):
        self.calls.append(1)
        return x + len(self.calls)


def test_changed_container_is_an_error():
    model = Outside()
    with pytest.raises(ExportError, match="self.calls") as caught:
        export(model, (torch.ones(2),))
    assert "register_buffer" in caught.value.hint
    assert model.calls == []


class Counts(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.count = 0

    def forward(self, x):
        self.count += 1
        return x * self.count


def test_state_that_is_no_tensor_is_an_error():
    with pytest.raises(ExportError, match="reads self.count and sets it"):
        export(Counts(), (torch.ones(2),))


class DefaultCounter(torch.nn.Module):
    def forward(self, x):
        self.count = getattr(self, "count", 0) + 1
        return x * self.count


class CachedOnce(torch.nn.Module):
    def forward(self, x):
        if hasattr(self, "cache"):
            return x + self.cache
        self.cache = x * 2
        return x


class TriedCounter(torch.nn.Module):
    def forward(self, x):
        try:
            count = self.count
        except AttributeError:
            count = 0
        self.count = count + 1
        return x * self.count


@pytest.mark.parametrize("module", [DefaultCounter, CachedOnce, TriedCounter])
def test_attributes_that_forward_looks_for_and_sets(module):
    with pytest.raises(ExportError, match=r"reads self\.(count|cache) and sets it"):
        export(module(), (torch.ones(2),), strict=True)


class GradientsInside(torch.nn.Module):
    def forward(self, x):
        x = x.detach().requires_grad_()
        return torch.autograd.grad((x * x).sum(), x)[0]


@BOTH
def test_gradients_inside(strict):
    with pytest.raises(ExportError, match="gradients are computed inside of forward"):
        export(GradientsInside(), (torch.ones(2),), strict=strict)


class SetsAttribute(torch.nn.Module):
    def forward(self, x):
        self.last_shape = x.shape
        return x * 2


def test_set_attribute_is_a_warning():
    model = SetsAttribute()
    with pytest.warns(fs.errors.FiresteelWarning, match="self.last_shape"):
        program = export(model, (torch.ones(2),))
    assert not hasattr(model, "last_shape")
    compare(program.module()(torch.ones(2)), torch.full((2,), 2.0))


class Prints(torch.nn.Module):
    def forward(self, x):
        import os

        os.getpid()
        return x.numpy().sum()


def test_what_cannot_be_captured():
    with pytest.raises(ExportError) as caught:
        export(Prints(), (torch.ones(2),))
    assert caught.value.frames[-1].filename == __file__


@pytest.mark.parametrize("wrong", [lambda: export(lambda x: x, (1,)), lambda: export(Trained(), [torch.ones(1)]),
                                   lambda: export(Trained(), (torch.ones(1),), [1])])
def test_wrong_arguments(wrong):
    with pytest.raises(UserCodeError):
        wrong()


@BOTH
def test_objects_are_no_inputs(strict):
    with pytest.raises(ExportError, match="the input pair is an object"):
        export(OfPairs(), (object(), {}), strict=strict)


class Difference(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(3))

    def forward(self, x, y, z):
        return x - y * 2 + z * self.weight


@BOTH
def test_inputs_are_independent(strict):
    model, x = Difference(), torch.ones(3)
    program = export(model, (x, x, model.weight), strict=strict)
    others = torch.randn(3), torch.randn(3), torch.randn(3)
    compare(program.module()(*others), model(*others))


class Rounding(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round() + x

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class UsesFunction(torch.nn.Module):
    def forward(self, x):
        return Rounding.apply(x) * 2 + torch.zeros(3)


@BOTH
def test_autograd_function(strict):
    program = check(UsesFunction(), (torch.randn(3, requires_grad=True),), strict=strict)
    assert [node.name for node in program.graph.nodes if node.op == "call_function"] == [
        "round_1", "add", "mul", "zeros", "add_1"]


def test_copied_module():
    model = Detached()
    module = copy.deepcopy(export(model, (torch.randn(2, 3),)).module())
    assert module.lin.weight is not model.lin.weight
    x = torch.randn(2, 3)
    compare(module(x), model(x))
    with pytest.raises(InputMismatchError):
        module(torch.randn(3, 3))


class Inner(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(3, 3)

    def forward(self, pair, *, factor):
        return {"sum": self.lin(pair[0]) + pair[1] * factor, "first": pair[0]}


class Outer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()

    def forward(self, x):
        made = self.inner((x, x * 2), factor=3)
        return made["sum"] - made["first"]


@BOTH
def test_preserved_calls(strict):
    program = export(Outer(), (torch.randn(2, 3),), strict=strict, preserve_module_call_signature=("inner",))
    calls = {entry.fqn: entry.signature for entry in program.module_call_graph}
    assert calls["inner.lin"] is None
    inner = calls["inner"]
    assert [getattr(arg, "value", arg.name) for arg in inner.inputs] == ["x", "mul", 3]
    assert [arg.name for arg in inner.outputs] == ["add", "x"]
    args, kwargs = pytree.tree_unflatten(["x", "mul", 3], inner.in_spec)
    assert (args, kwargs) == ((("x", "mul"),), {"factor": 3})
    assert pytree.tree_unflatten([1, 2], inner.out_spec) == {"sum": 1, "first": 2}
    with pytest.raises(UserCodeError, match="no such submodule"):
        export(Outer(), (torch.randn(2, 3),), strict=strict, preserve_module_call_signature=("other",))


class Asks(torch.nn.Module):
    def forward(self, x):
        return x + 1 if torch.compiler.is_compiling() and torch.compiler.is_exporting() else x - 1


@BOTH
def test_exporting_is_noticed(strict):
    compare(export(Asks(), (torch.zeros(2),), strict=strict).module()(torch.zeros(2)), torch.ones(2))
    assert not torch.compiler.is_exporting()
    compare(fs.compile(Asks(), backend="eager")(torch.zeros(2)), -torch.ones(2))


class Passes(torch.nn.Module):
    def forward(self, x, n):
        return x, n, 5, None, tuple(x.shape)


@BOTH
def test_no_operations(strict):
    program = check(Passes(), (torch.ones(2, 3), 4), strict=strict, dynamic_shapes={"x": {0: Dim("n")}, "n": None},
                    others=[((torch.ones(9, 3), 4), {})])
    assert program.graph_signature.user_outputs[:4] == ("x", 4, 5, None)
    assert program.graph_signature.input_specs[0].kind is InputKind.USER_INPUT


@BOTH
def test_inputs_are_checked(strict):
    program = export(Everything(), (torch.randn(5, 4), torch.randn(5, 4)), {"k": 3, "d": {"u": torch.ones(3)}},
                     strict=strict, dynamic_shapes={"x": {0: Dim("n", max=9)}, "y": {0: Dim("n", max=9)}, "k": None,
                                                    "d": {"u": None}})
    module = program.module()
    good = torch.randn(5, 4)
    for x, y, k, u, words in (
        (torch.randn(5, 5), good, 3, torch.ones(3), r"the input x\.shape\[1\] must be 4, but is 5"),
        (good, torch.randn(6, 4), 3, torch.ones(3), r"the input y\.shape\[0\] must be n, which is 5, but is 6"),
        (torch.randn(10, 4), torch.randn(10, 4), 3, torch.ones(3), r"n must be <= 9, but is 10"),
        (good, good.double(), 3, torch.ones(3), r"the input y must be of dtype torch.float32, but is of torch.float64"),
        (good, good, 4, torch.ones(3), r"the input k must be 3"),
        (good, good, 3, torch.ones(3, 1), r"the input d\['u'\] must have 1 dimension, but has 2"),
        (good, good, 3, 1.0, r"the input d\['u'\] must be a tensor, but is a float"),
    ):
        with pytest.raises(InputMismatchError, match=words):
            module(x, y, k=k, d={"u": u})


class Vectorised(torch.nn.Module):
    """vmap with parameters and tensors from around, other dimensions, nested, and results in containers."""

    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(4, 4)

    def forward(self, x, y):
        scale = y.sum()
        a = torch.vmap(lambda row: self.lin(row) * row.sum() + scale)(x)
        b = torch.vmap(lambda column, z: (column * 2, z.sum() + column), in_dims=(1, None), out_dims=(1, 0))(x, y)
        c = torch.func.vmap(torch.vmap(lambda u, v: u * v), in_dims=(None, 0))(y[0], x)

        @torch.vmap
        def dot(p, q):
            return {"dot": torch.dot(p["row"], q), "same": q}

        return a, b, c, dot({"row": x}, x)


@BOTH
def test_vmap(strict):
    model, x, y = Vectorised(), torch.randn(5, 4), torch.randn(3, 4)
    program = export(model, (x, y), dynamic_shapes={"x": {0: Dim("n", min=2, max=50)}, "y": None}, strict=strict)
    for count in (5, 9):
        x = torch.randn(count, 4)
        torch.testing.assert_close(program.module()(x, y), model(x, y))


FIRST_COMPILED = """
import torch
import firesteel as fs

def f(x):
    return x.sin() + 1

class Net(torch.nn.Module):
    def forward(self, x):
        return (compiled or fs.compile(f))(x) * 2

compiled, net, x = None, Net(), torch.ones(3)
for _ in range(2):
    program = fs.export.export(net, (x,), strict=False)
    assert [str(node.target) for node in program.graph.nodes if node.op == "call_function"] == [
        "aten.sin.default", "aten.add.Tensor", "aten.mul.Tensor"]
    compiled = fs.compile(f)
    for _ in range(60):  # until its guards are machine code
        assert torch.allclose(program.module()(x), compiled(x) * 2)
"""


def test_the_first_compilation_of_a_process_inside_of_an_export() -> None:
    done = subprocess.run([sys.executable, "-c", FIRST_COMPILED], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


COLLECTIVES = """
import torch, torch.distributed as dist
import firesteel as fs

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)

class Reduce(torch.nn.Module):
    def forward(self, x):
        y = x + 1
        dist.all_reduce(y)
        return y

try:
    fs.export.export(Reduce(), (torch.ones(3),), strict=False)
except fs.export.ExportError as error:
    print(error)
"""


def test_collectives_with_a_process_group_are_refused() -> None:
    done = subprocess.run([sys.executable, "-c", COLLECTIVES], capture_output=True, text=True)
    assert "such as a process group" in done.stdout, done.stderr


class Collector:
    current = None
    depth = 0


COLLECTOR = Collector()
COLLECTOR.current, COLLECTOR.depth = None, 3


class Remembers(torch.nn.Module):
    def __init__(self, restores):
        super().__init__()
        self.restores = restores

    def forward(self, x):
        COLLECTOR.current, COLLECTOR.depth = [x], 4
        result = x * 2
        if self.restores:
            COLLECTOR.current, COLLECTOR.depth = None, 3
        return result


def test_warnings_about_attributes_that_forward_sets():
    """At the call of export, and only where the program leaves something behind."""
    for restores in (True, False):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            fs.export.export(Remembers(restores), (torch.ones(2),))
        said = [str(warning.message) for warning in caught if warning.category is fs.errors.FiresteelWarning]
        assert len(said) == (0 if restores else 2) and all("forward sets COLLECTOR." in text for text in said)
        assert {warning.filename for warning in caught} <= {__file__}


class DynamicCache:
    __module__ = "transformers.cache_utils"


class ReturnsCache(torch.nn.Module):
    def forward(self, x):
        return x, DynamicCache()


def test_caches_of_transformers_are_named():
    with pytest.raises(ExportError, match="(?s)an object of type DynamicCache.*use_cache=False"):
        export(ReturnsCache(), (torch.ones(2),))
