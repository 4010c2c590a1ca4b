"""Programs that mix kinds: what tools and models do together."""

from __future__ import annotations

import copy
import dataclasses
import math
from typing import Any

import torch
import torch.nn.functional as F
import torch.utils._pytree as pytree
from torch import nn

from .inputs import Batch, Counter, Mode, Pair, Scaled, Settings
from .operators import ATEN, OPS
from .record import ints, program, rand

KIND = "mixed"


# Numbers ------------------------------------------------------------------------------------------------------------


@program(KIND, rand(4), 3, shapes=lambda D: (None, D.DYNAMIC), further=[(rand(4), 6)],
         after=lambda api, p: p.run_decompositions())
def int_decomposed(self: Any, x: Any, n: Any) -> Any:
    return F.gelu(x) * n + torch.arange(n).sum()


@program(KIND, rand(6, 4), 3, shapes=lambda D: ({0: D("b")}, D.DYNAMIC), further=[(rand(8, 4), 2), (rand(3, 4), 5)])
def int_repeats(self: Any, x: Any, n: Any) -> Any:
    return x.repeat_interleave(n, dim=0), x.unsqueeze(1).expand(-1, n, -1)


@program(KIND, rand(12), 3, 4, shapes=lambda D: (None, D.AUTO, D.AUTO), further=[(rand(12), 3, 4), (rand(12), 2, 6)],
         refuses=[(rand(12), 5, 2)])
def ints_related_to_size(self: Any, x: Any, a: Any, b: Any) -> Any:
    return x.view(a, b) + 1


@program(KIND, rand(5), {"k": [2, 3]}, shapes=lambda D: (None, {"k": [D.DYNAMIC, None]}),
         further=[(rand(5), {"k": [4, 3]})], refuses=[(rand(5), {"k": [4, 4]})])
def int_in_list_in_dict(self: Any, x: Any, d: Any) -> Any:
    return x * d["k"][0] + d["k"][1]


@program(KIND, Pair(rand(3), 4), shapes=lambda D: {"p": Pair(None, D.DYNAMIC)}, further=[(Pair(rand(3), 7),)])
def int_in_named_tuple(self: Any, p: Any) -> Any:
    return p.left * p.right, p.right + 1


@program(KIND, rand(3), 4, shapes=lambda D: (None, D.DYNAMIC), further=[(rand(3), 8)])
def int_in_results(self: Any, x: Any, n: Any) -> Any:
    return {"n": n, "twice": [2 * n, n], "half": n / 2, "x": x}


@program(KIND, rand(3), [4, 5], shapes=lambda D: (None, [D.DYNAMIC, D.DYNAMIC]), further=[(rand(3), [8, 9])])
def container_of_ints_returned(self: Any, x: Any, numbers: Any) -> Any:
    return x + 1, numbers


@program(KIND, rand(3), [4, 5], {"a": 6}, (7, [8]),
         shapes=lambda D: (None, [D.DYNAMIC, D.DYNAMIC], {"a": D.DYNAMIC}, (D.DYNAMIC, [D.DYNAMIC])),
         further=[(rand(3), [18, 19], {"a": 3}, (17, [9]))])
def copies_of_containers_of_ints_returned(self: Any, x: Any, numbers: Any, d: Any, nested: Any) -> Any:
    return x + 1, list(numbers), [*numbers], {**d}, nested[1], [nested, d.copy()], numbers[0]


@program(KIND, 4, shapes=lambda D: (D.DYNAMIC,), further=[(9,)])
def only_an_int(self: Any, n: Any) -> Any:
    return torch.ones(n, n).tril().sum(0)


@program(KIND, rand(4), 7, shapes=lambda D: (None, D.DYNAMIC(min=2, max=10)), further=[(rand(4), 2), (rand(4), 10)])
def bounded_int(self: Any, x: Any, n: Any) -> Any:
    return x * n


@program(KIND, rand(3), 5, shapes=lambda D: (None, D.DYNAMIC), further=[(rand(3), 9)])
def int_to_functions_of_math(self: Any, x: Any, n: Any) -> Any:
    return x * math.sqrt(n) + max(n, 3) + min(n, 100) + abs(n) + int(n)


@program(KIND, rand(8, 2), 2, shapes=lambda D: (None, D.AUTO), further=[(rand(8, 2), 2), (rand(8, 2), 4)])
def int_as_index(self: Any, x: Any, n: Any) -> Any:
    return x[n], x[n:], x.select(0, n)


@program(KIND, rand(3, 4), 1, shapes=lambda D: (None, D.AUTO), further=[(rand(3, 4), 1)])
def int_as_dim(self: Any, x: Any, dim: Any) -> Any:
    return x.sum(dim)


@program(KIND, rand(4, 4), 3, shapes=lambda D: ({0: D.AUTO, 1: D.AUTO}, D.AUTO), further=[(rand(4, 4), 3)])
def int_loop(self: Any, x: Any, n: Any) -> Any:
    for _ in range(n):
        x = x * 2
    return x


@program(KIND, rand(4, 6), 2.5, shapes=lambda D: ({0: D("n")}, None), further=[(rand(7, 6), 2.5)],
         refuses=[(rand(4, 6), 1.5)])
def float_beside_dynamic(self: Any, x: Any, f: Any) -> Any:
    return F.leaky_relu(x, f) if f > 1 else x


@program(KIND, rand(4), 2.5, shapes=lambda D: (None, D.DYNAMIC), further=[(rand(4), 1.5), (rand(4), -3.25)])
def dynamic_float(self: Any, x: Any, f: Any) -> Any:
    return x * f + f / 2, f


@program(KIND, rand(4), 2.5, shapes=lambda D: (None, D.AUTO), further=[(rand(4, seed=1), 2.5)])
def dynamic_float_as_argument(self: Any, x: Any, f: Any) -> Any:
    return F.leaky_relu(x, f), torch.full((2,), f), x.clamp(max=f), torch.add(x, x, alpha=f), x ** f


@program(KIND, rand(4), {"lr": 0.5, "n": 3}, shapes=lambda D: (None, {"lr": D.DYNAMIC, "n": D.DYNAMIC}),
         further=[(rand(4), {"lr": 0.25, "n": 5}), (rand(4), {"n": 2, "lr": 1.5})],
         after=lambda api, p: p.run_decompositions())
def dynamic_float_and_int(self: Any, x: Any, d: Any) -> Any:
    return x - d["lr"] * x.sum() * d["n"], d["lr"] * d["n"], [d["n"], d["lr"]]


@program(KIND, rand(4), 2.5, shapes=lambda D: (None, D.AUTO), further=[(rand(4), 1.5)], refuses=[(rand(4), 0.5)])
def dynamic_float_decides(self: Any, x: Any, f: Any) -> Any:
    return x * f if f > 1 else x


# Sizes --------------------------------------------------------------------------------------------------------------


@program(KIND, rand(8, 3), shapes=lambda D: ({0: 4 * D("k")},), further=[(rand(12, 3),)], refuses=[(rand(10, 3),)])
def divisible_by_four(self: Any, x: Any) -> Any:
    return x.view(4, -1, 3).mean(0)


@program(KIND, rand(2, 6, 4), shapes=lambda D: ({0: D("b"), 1: D("t", min=2, max=32)},), further=[(rand(3, 9, 4),)])
class RotaryEmbedding(nn.Module):
    """Tables that are cut to the length of the sequence."""

    def __init__(self) -> None:
        super().__init__()
        angles = torch.outer(torch.arange(32.0), torch.tensor([1.0, 0.1]))
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, x: Any) -> Any:
        t = x.shape[1]
        a, b = x.chunk(2, -1)
        cos, sin = self.cos[:t], self.sin[:t]
        return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)


@program(KIND, rand(3, 10), shapes=lambda D: ({0: D("n"), 1: D.AUTO},), further=[(rand(5, 10),)])
def windows(self: Any, x: Any) -> Any:
    return x.unfold(1, 4, 2).mean(-1), F.avg_pool1d(x[:, None], 2)[:, 0]


@program(KIND, rand(3, 4), rand(5, 4), shapes=lambda D: ({0: D("a")}, {0: D("b")}),
         further=[(rand(2, 4), rand(7, 4))])
def padded_together(self: Any, x: Any, y: Any) -> Any:
    return torch.block_diag(x @ x.T, y @ y.T), torch.cartesian_prod(x[:, 0], y[:, 0])


@program(KIND, [rand(2, 3), rand(4, 3)], shapes=lambda D: ([{0: D("a")}, {0: D("b")}],),
         further=[([rand(5, 3), rand(3, 3)],)])
def padded_sequences(self: Any, xs: Any) -> Any:
    return torch.cat(xs).cumsum(0), [x.shape[0] for x in xs]


@program(KIND, rand(4, 3), shapes=lambda D: ({0: D("n")},), further=[(rand(6, 3),)],
         after=lambda api, p: p.run_decompositions())
def decomposed_with_sizes(self: Any, x: Any) -> Any:
    return F.pad(x, (1, 1, 0, 2)), x.flip(0), x.roll(1, 0), x.tile(2, 1), F.one_hot(x.argmax(1), 3)


@program(KIND, rand(4, 3), shapes=lambda D: {"x": {0: D.DYNAMIC, 1: D.DYNAMIC}}, further=[(rand(6, 5),)])
def statistics(self: Any, x: Any) -> Any:
    return x.var(0), x.std(), x.norm(), torch.logsumexp(x, 1), x.median(), x.cov() if x.dim() == 2 else x


@program(KIND, rand(6, 6), shapes=lambda D: (lambda n: ({0: n, 1: n},))(D("n", min=3)), further=[(rand(4, 4),)])
def square_matrices(self: Any, x: Any) -> Any:
    return torch.linalg.solve(x + 10 * torch.eye(x.shape[0]), x), torch.trace(x), x.matrix_power(2)


@program(KIND, rand(5, 3), shapes=lambda D: ({0: D("n")},), further=[(rand(3, 3),)])
def written_slices(self: Any, x: Any) -> Any:
    y = torch.zeros(x.shape[0] + 1, 3)
    y[1:] = x
    y[:-1] += x
    y[-1] = 0
    return y


# Inputs and results -------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Inner:
    """A registered dataclass inside of another."""

    a: Any
    n: int = 3


@dataclasses.dataclass
class Outer:
    """With defaults, None and numbers."""

    inner: Inner
    items: dict[str, Any]
    name: str = "outer"


pytree.register_dataclass(Inner, serialized_type_name="tests.export.Inner")
pytree.register_dataclass(Outer, serialized_type_name="tests.export.Outer")


@program(KIND, Outer(Inner(rand(3)), {"x": rand(3), "y": None}),
         further=[(Outer(Inner(rand(3, seed=1)), {"y": None, "x": rand(3)}),)])
def nested_dataclasses(self: Any, o: Any) -> Any:
    return Outer(Inner(o.inner.a * o.inner.n, 4), {"z": o.items["x"]}, o.name + "!")


@program(KIND, rand(3), kwargs={"batch": Batch(rand(3), rand(3) > 0), "mode": Mode.EXACT},
         further=[((rand(3, seed=1),), {"mode": Mode.EXACT, "batch": Batch(rand(3), rand(3) < 0)})], saves=False)
def keywords_of_all_kinds(self: Any, x: Any, *, batch: Any, mode: Any) -> Any:
    return torch.where(batch.mask, x, batch.x) * mode.value


@program(KIND, rand(3), kwargs={"c": rand(3), "a": rand(3), "b": rand(3)},
         further=[((rand(3),), {"b": rand(3), "c": rand(3, seed=2), "a": rand(3, seed=1)})])
def keywords_shuffled(self: Any, x: Any, a: Any, b: Any, c: Any) -> Any:
    return x + a - 2 * b + 3 * c


@program(KIND, {"z": {"b": rand(2), "a": rand(3)}, "y": [rand(4)]},
         further=[({"y": [rand(4, seed=1)], "z": {"a": rand(3, seed=1), "b": rand(2)}},)],
         refuses=[({"y": [rand(4)], "z": {"a": rand(3)}},), ({"y": [rand(4), rand(4)], "z": {"b": rand(2),
                                                                                              "a": rand(3)}},)])
def dicts_in_dicts(self: Any, d: Any) -> Any:
    return {"s": d["z"]["b"].sum() + d["z"]["a"].sum(), "t": d["y"][0]}


@program(KIND, rand(3), Settings(2.0), Counter(5), further=[(rand(3, seed=1), Settings(2.0), Counter(5))],
         refuses=[(rand(3), Settings(3.0), Counter(5))], saves=False)
def opaque_objects(self: Any, x: Any, settings: Any, counter: Any) -> Any:
    return x * settings.scale


@program(KIND, rand(2, 3), nn.Linear(3, 4), saves=False)
def module_with_weights_called(self: Any, x: Any, layer: Any) -> Any:
    return layer(x).relu()


@program(KIND, rand(4), range(3), slice(None, 2), further=[(rand(4, seed=1), range(3), slice(None, 2))], saves=False)
def ranges_and_slices(self: Any, x: Any, r: Any, s: Any) -> Any:
    return sum(x[i] for i in r) + x[s].sum()


@program(KIND, rand(3), further=[(rand(3, seed=1),)])
def views_as_results(self: Any, x: Any) -> Any:
    y = x * 2
    return y, y[1:], y.view(1, 3), x[0]


@program(KIND, rand(3), torch.Size([3]), ("a", 1, None), further=[(rand(3), torch.Size([3]), ("a", 1, None))])
def tuples_of_constants(self: Any, x: Any, size: Any, rest: Any) -> Any:
    return x.expand(size), rest, size


@program(KIND, rand(2, 3, 4), further=[(rand(2, 3, 4, seed=1),)])
def shapes_in_containers(self: Any, x: Any) -> Any:
    return {"shape": x.shape, "rest": [x.shape[1:], list(x.shape), tuple(x.stride())]}, x.sum()


_COUNTER = f"{Counter.__module__}.{Counter.__qualname__}"
_LIBRARY = torch.library.Library("fs_programs", "FRAGMENT")
_LIBRARY.define(f"add_start({_COUNTER} counter, Tensor x) -> Tensor")
_LIBRARY.impl("add_start", lambda counter, x: x + counter.start, "CompositeExplicitAutograd")
torch.library.register_fake("fs_programs::add_start", lambda counter, x: torch.empty_like(x), lib=_LIBRARY)


@program(KIND, rand(3), Counter(5), further=[(rand(3, seed=1), Counter(7))], saves=False,
         refuses=[(rand(3), Settings(2.0))])
def opaque_operand(self: Any, x: Any, counter: Any) -> Any:
    return OPS.add_start(counter, x) * 2


@program(KIND, rand(3), further=[(rand(3, seed=1),)], saves=False, after=lambda api, p: p.run_decompositions())
class OpaqueAttribute(nn.Module):
    """An operator takes an object of the module."""

    def __init__(self) -> None:
        super().__init__()
        self.counter = Counter(4)

    def forward(self, x: Any) -> Any:
        return OPS.add_start(self.counter, x) * 2


# Weights ------------------------------------------------------------------------------------------------------------


@program(KIND, rand(2, 3), further=[(rand(2, 3, seed=1),)], saves=False)
class SeveralWrappedWeights(nn.Module):
    """Wrapper subclasses in nested modules, tied, beside plain ones."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)
        self.a.weight = nn.Parameter(Scaled(torch.randn(3, 3), 0.5))
        self.b.weight = self.a.weight

    def forward(self, x: Any) -> Any:
        return self.b(self.a(x).relu())


@program(KIND, rand(2, 3), shapes=lambda D: ({0: D("n")},), further=[(rand(4, 3),)], saves=False)
class WrappedBuffer(nn.Module):
    """A wrapper as a buffer, and a batch that varies."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", Scaled(torch.randn(3), 3.0))

    def forward(self, x: Any) -> Any:
        return x * self.scale + 1


def _fake_weights(api: Any, p: Any) -> Any:
    from torch._subclasses.fake_tensor import FakeTensorMode

    torch.manual_seed(3)
    real = nn.Sequential(nn.Linear(3, 4), nn.ReLU()).eval()
    with FakeTensorMode():
        model = nn.Sequential(nn.Linear(3, 4), nn.ReLU()).eval()
        example = torch.empty(2, 3)
    exported = api.export(model, (example,), strict=False)
    module = exported.module()
    module.load_state_dict(real.state_dict(), assign=True)
    torch.testing.assert_close(module(rand(2, 3)), real(rand(2, 3)))


@program(KIND, rand(2, 3), after=_fake_weights)
def fake_weights(self: Any, x: Any) -> Any:
    return x + 1


@program(KIND, rand(2, 3), further=[(rand(2, 3, seed=1),)])
class MetaTensorsInside(nn.Module):
    """A tensor on the meta device is only asked for its shape."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 4)

    def forward(self, x: Any) -> Any:
        shape = torch.empty(2, 4, device="meta").shape
        return self.layer(x).view(shape)


# Operators ----------------------------------------------------------------------------------------------------------


@torch.library.custom_op("fs_programs::fill_all", mutates_args={"outs"})
def fill_all(outs: list[torch.Tensor], value: float) -> None:
    """Writes to a list of tensors."""
    for out in outs:
        out.fill_(value)


@torch.library.custom_op("fs_programs::maybe_add", mutates_args={"out"})
def maybe_add(x: torch.Tensor, out: torch.Tensor | None = None, *, scale: float = 1.0) -> torch.Tensor:
    """What it writes to may be missing."""
    if out is not None:
        out.add_(x * scale)
    return x * scale


@maybe_add.register_fake
def _(x: torch.Tensor, out: torch.Tensor | None = None, *, scale: float = 1.0) -> torch.Tensor:
    return torch.empty_like(x)


@program(KIND, rand(3), rand(2), further=[(rand(3, seed=1), rand(2))], after=lambda api, p: p.run_decompositions())
def operator_that_writes_to_lists(self: Any, x: Any, y: Any) -> Any:
    OPS.fill_all([x, y], 2.0)
    return x.sum() + y


@program(KIND, rand(3), rand(3), further=[(rand(3, seed=1), rand(3))], after=lambda api, p: p.run_decompositions())
def operator_that_may_write(self: Any, x: Any, y: Any) -> Any:
    a = OPS.maybe_add(x, scale=2.0)
    b = OPS.maybe_add(x, y, scale=3.0)
    return a + b + y


@program(KIND, rand(4, 3), shapes=lambda D: ({0: D("n")},), further=[(rand(6, 3),)],
         after=lambda api, p: p.run_decompositions({}))
class MutatingOperatorWithDynamicSize(nn.Module):
    """A custom operator that writes, sizes that vary, a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x: Any) -> Any:
        OPS.add_into(x.sum(0), self.total)
        y = torch.zeros_like(x)
        OPS.add_into(x, y)
        return y * self.total


@program(KIND, rand(4), further=[(rand(4, seed=1),)],
         after=lambda api, p: p.run_decompositions({OPS.scale.default: lambda x, f: OPS.composed(x, f)}))
def table_leads_to_custom_operators(self: Any, x: Any) -> Any:
    # a decomposition that is another function only shows that the table is asked: scale(x, 0) = composed(x, 0) - cos
    return OPS.scale(x, 0.0) * 0 + x


def _preserved(api: Any, p: Any) -> Any:
    decomposed = p.run_decompositions(
        {op: function for op, function in api.default_decompositions().items() if op is not ATEN.silu.default})
    assert any(node.target is ATEN.silu.default for node in decomposed.graph.nodes), decomposed.graph
    return decomposed


@program(KIND, rand(4), further=[(rand(4, seed=1),)], after=_preserved)
def operator_preserved(self: Any, x: Any) -> Any:
    return F.silu(x) + F.gelu(x)


def _serialized_after(api: Any, p: Any) -> Any:
    import io

    file = io.BytesIO()
    api.save(p.run_decompositions(), file, extra_files={"notes.txt": "text"})
    file.seek(0)
    extra = {"notes.txt": ""}
    loaded = api.load(file, extra_files=extra)
    assert extra["notes.txt"] in ("text", b"text")
    return loaded


@program(KIND, rand(2, 3), shapes=lambda D: ({0: D("n")},), further=[(rand(4, 3),)], after=_serialized_after)
class DecomposedSavedLoaded(nn.Module):
    """A program that is decomposed, saved and loaded, with a buffer that changes."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)
        self.register_buffer("seen", torch.zeros((), dtype=torch.long))

    def forward(self, x: Any) -> Any:
        self.seen += x.shape[0]
        return self.layer(x) / self.seen


@program(KIND, rand(4), rand(4), further=[(rand(4, seed=1), rand(4))], after=_serialized_after)
def mutating_operator_saved(self: Any, x: Any, y: Any) -> Any:
    OPS.add_into(x, y)
    return y * 2


def _shapes_collection(api: Any, p: Any) -> Any:
    class Two(nn.Module):
        def forward(self, x: Any, ys: Any) -> Any:
            return x.sum() + sum(y.sum() for y in ys)

    x, ys = rand(4, 3), [rand(5, 2)]
    sizes = api.ShapesCollection()
    sizes[x] = {0: api.Dim("n")}
    sizes[ys[0]] = (api.Dim.DYNAMIC, None)
    exported = api.export(Two(), (x, ys), dynamic_shapes=sizes, strict=False)
    exported.module()(rand(6, 3), [rand(8, 2)])


@program(KIND, rand(2), after=_shapes_collection)
def shapes_collection(self: Any, x: Any) -> Any:
    return x + 1


def _additional_inputs(api: Any, p: Any) -> Any:
    class Two(nn.Module):
        def forward(self, x: Any, n: Any) -> Any:
            return x * n

    more = api.AdditionalInputs()
    more.add((rand(7, 3), 9))
    exported = api.export(Two(), (rand(4, 3), 5), dynamic_shapes=more, strict=False)
    more.verify(exported)
    torch.testing.assert_close(exported.module()(rand(6, 3), 11), rand(6, 3) * 11)


@program(KIND, rand(2), after=_additional_inputs)
def additional_inputs(self: Any, x: Any) -> Any:
    return x + 1


def _deferred(api: Any, p: Any) -> Any:
    class Deferred(nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            return x.view(-1) + y

    exported = api.export(Deferred(), (rand(3, 4), rand(12)), strict=False,
                          dynamic_shapes=({0: api.Dim("a", min=2), 1: api.Dim("b", min=2)}, {0: api.Dim("c", min=4)}),
                          prefer_deferred_runtime_asserts_over_guards=True)
    torch.testing.assert_close(exported.module()(rand(2, 5), rand(10)), rand(2, 5).view(-1) + rand(10))
    try:
        exported.module()(rand(2, 5), rand(11))
    except Exception:
        return
    raise AssertionError("sizes that do not fit are taken")


@program(KIND, rand(2), after=_deferred)
def deferred_assertions(self: Any, x: Any) -> Any:
    return x + 1


def _preserved_calls(api: Any, p: Any) -> Any:
    class Inner(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 3)

        def forward(self, x: Any, *, scale: Any) -> Any:
            return {"y": self.layer(x) * scale}

    class Whole(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = Inner()

        def forward(self, x: Any) -> Any:
            return self.inner(x, scale=x.sum())["y"] + 1

    model = Whole()
    exported = api.export(model, (rand(2, 3),), strict=False, preserve_module_call_signature=("inner",))
    module = api.unflatten(exported)
    torch.testing.assert_close(module(rand(2, 3)), model(rand(2, 3)))


@program(KIND, rand(2), after=_preserved_calls)
def preserved_calls(self: Any, x: Any) -> Any:
    return x + 1


def _trained(api: Any, p: Any) -> Any:
    module = copy.deepcopy(p.module())
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = module(rand(4, 3), ints(4, high=2))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0], losses


@program(KIND, rand(4, 3), ints(4, high=2), after=_trained)
class TrainedWithOptimizer(nn.Module):
    """A loss inside of the program; a copy of the exported module is trained."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x: Any, y: Any) -> Any:
        loss = F.cross_entropy(self.layer(x), y)
        return loss if self.layer.weight.requires_grad else loss.detach()


# Drafts -------------------------------------------------------------------------------------------------------------


@program(KIND, rand(4), exporter="draft_export", further=[(rand(4, seed=1),)], saves=False)
class DraftWithWeights(nn.Module):
    """An operator without a fake kernel between layers."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        return self.layer(OPS.no_fake(self.layer(x), 2)).relu()


@program(KIND, rand(4), torch.tensor([1.0, -1.0]), exporter="draft_export",
         further=[(rand(4, seed=1), torch.tensor([2.0, -3.0]))], saves=False)
def draft_of_several_decisions(self: Any, x: Any, y: Any) -> Any:
    if y[0] > 0:
        x = x + 1
    if y[1] > 0:
        x = x - 1
    return OPS.no_fake(x, 1)


@program(KIND, rand(6), exporter="draft_export", further=[(rand(6),)], saves=False)
def draft_with_data_sizes(self: Any, x: Any) -> Any:
    y = x[x > 0]
    return y.sum() if y.shape[0] > 0 else x.sum()


# Control flow and data ----------------------------------------------------------------------------------------------


@program(KIND, rand(3), torch.tensor(2), further=[(rand(3), torch.tensor(0)), (rand(3), torch.tensor(5))])
class CondWithBuffersRead(nn.Module):
    """Branches that read buffers, parameters and sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("shift", torch.randn(3))
        self.layer = nn.Linear(3, 3)

    def forward(self, x: Any, n: Any) -> Any:
        return torch.cond(n > 1, lambda x: self.layer(x) + self.shift, lambda x: x - self.shift * x.shape[0], (x,))


@program(KIND, rand(4, 3), shapes=lambda D: ({0: D("n")},), further=[(rand(6, 3),)],
         after=lambda api, p: p.run_decompositions())
def cond_decomposed(self: Any, x: Any) -> Any:
    return torch.cond(x.sum() > 0, lambda x: F.gelu(x), lambda x: F.silu(x), (x,))


@program(KIND, rand(3), further=[(rand(3, seed=1),), (-rand(3).abs(),)])
def cond_on_size_and_data(self: Any, x: Any) -> Any:
    y = torch.cond(x.max() > 0.5, lambda x: x / x.max(), lambda x: x.clone(), (x,))
    return y if x.shape[0] == 3 else y + 1


@program(KIND, ints(6, high=4), rand(4, 2), further=[(ints(6, high=3), rand(4, 2))])
def lookup_and_scatter(self: Any, at: Any, table: Any) -> Any:
    rows = F.embedding(at, table)
    return rows, torch.zeros(4, 2).index_add(0, at, rows), torch.zeros(4).scatter_reduce(
        0, at, torch.ones(6), "sum", include_self=True)


@program(KIND, rand(8), torch.tensor(3), further=[(rand(8), torch.tensor(5))])
def two_parts_by_data(self: Any, x: Any, n: Any) -> Any:
    k = n.item()
    torch._check(k > 0)
    torch._check(k < 8)
    return x[:k].sum(), x[k:].sum()


@program(KIND, rand(5, 2), further=[(rand(5, 2, seed=1),)])
def data_sized_chain(self: Any, x: Any) -> Any:
    at = x[:, 0].gt(0).nonzero().squeeze(1)
    rows = x.index_select(0, at)
    return rows, rows.mean() if rows.numel() else rows.sum(), torch.cat([rows, rows]).shape


@program(KIND, torch.tensor([3, 1, 2]), further=[(torch.tensor([1, 1, 1]),)])
def lengths_to_mask(self: Any, lengths: Any) -> Any:
    longest = lengths.max().item()
    torch._check(longest >= 0)
    return torch.arange(longest)[None, :] < lengths[:, None]


@program(KIND, rand(2, 3), further=[(rand(2, 3, seed=1),)], train=True, gradients=True)
class TrainingRegions(nn.Module):
    """Dropout, batch norm, no_grad, autocast and a detached branch, with gradients."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.norm = nn.Linear(3, 3), nn.LayerNorm(3)

    def forward(self, x: Any) -> Any:
        y = F.dropout(self.norm(self.layer(x)), 0.2, self.training)
        with torch.no_grad():
            z = self.layer(x).sigmoid()
        return y * z + y.detach().mean()


@program(KIND, rand(2, 3), further=[(rand(2, 3, seed=1),)], train=True)
def random_numbers_of_all_kinds(self: Any, x: Any) -> Any:
    return (torch.rand(2), torch.randint(5, (3,)), torch.normal(0.0, 1.0, (2,)), torch.empty(3).uniform_(),
            torch.multinomial(x.abs(), 2), F.gumbel_softmax(x, dim=1), torch.randn_like(x).exponential_())
