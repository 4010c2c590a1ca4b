"""The module hierarchy of exported programs."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

import firesteel as fs


class Block(nn.Module):
    """Two layers and a residual."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.lin = nn.Linear(size, size)
        self.norm = nn.LayerNorm(size)
        self.act = nn.GELU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.act(self.lin(self.norm(x)))


class Net(nn.Module):
    """Blocks in a list, a module called twice, one called in two ways, tied weights and a buffer that changes."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block(6) for _ in range(2)])
        self.twice = nn.Linear(6, 6)
        self.bn = nn.BatchNorm1d(6)
        self.head = nn.Linear(6, 6, bias=False)
        self.head.weight = self.twice.weight
        self.unused = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        for block in self.blocks:
            x = block(x)
        y = self.twice(x).relu()
        y = self.twice(y)
        y = self.blocks[0](y.unsqueeze(0))[0]
        return {"out": self.head(self.bn(y)), "mean": x.mean()}


@pytest.mark.parametrize("strict", [True, False])
def test_hierarchy_comes_back(strict: bool) -> None:
    torch.manual_seed(0)
    net = Net()
    x = torch.randn(4, 6)
    program = fs.export.export(net, (x,), dynamic_shapes={"x": {0: fs.export.Dim.AUTO}}, strict=strict)
    again = fs.export.unflatten(program)
    assert set(again.state_dict()) == set(net.state_dict())
    names = {name for name, _ in again.named_modules()}
    assert {"blocks.0.lin", "blocks.1.norm", "blocks.1.act", "twice", "bn", "head"} <= names
    assert [node.target for node in again.graph.nodes if node.op == "call_module"].count("twice") == 2
    kinds = {node.target for node in again.get_submodule("blocks.1.lin").graph.nodes if node.op == "call_function"}
    assert kinds == {torch.ops.aten.linear.default}
    for rows in (4, 7):
        data = torch.randn(rows, 6)
        torch.testing.assert_close(again(data), net(data))
        torch.testing.assert_close(again.state_dict(), net.state_dict())
    again(x)["out"].sum().backward()
    assert again.get_submodule("blocks.0.lin").weight.grad is not None


def test_submodules_can_be_replaced() -> None:
    net = nn.Sequential(Block(6), nn.Linear(6, 3))
    again = fs.export.unflatten(fs.export.export(net, (torch.randn(2, 6),)))
    x = torch.randn(2, 6)
    again.get_submodule("0").add_module("act", nn.Identity())
    net[0].act = nn.Identity()
    torch.testing.assert_close(again(x), net(x))


class Counter(nn.Module):
    """Changes a buffer, gives another a new value, takes a constant."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("n", torch.zeros(()))
        self.register_buffer("last", torch.zeros(3))
        self.lin = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor, k: int = 2) -> torch.Tensor:
        self.n.add_(1)
        self.last = x.sum(0)
        return self.lin(x) * k + self.n


class Other(nn.Module):
    """In the place of a Counter."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("n", torch.full((), 5.0))
        self.register_buffer("last", torch.full((3,), 9.0))

    def forward(self, x: torch.Tensor, k: int = 2) -> torch.Tensor:
        return x * 10 - k


class Counting(nn.Module):
    """Calls a Counter in two ways and reads its buffers."""

    def __init__(self) -> None:
        super().__init__()
        self.c = Counter()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.c(x, 3) + self.c.n
        return self.c(y, 3) * self.c.last


@pytest.mark.parametrize("strict", [True, False])
def test_preserved_modules_are_called_as_they_were(strict: bool) -> None:
    torch.manual_seed(0)
    net, x = Counting(), torch.randn(2, 3)
    program = fs.export.export(net, (x,), strict=strict, preserve_module_call_signature=("c",))
    again = fs.export.unflatten(program)
    for _ in range(3):
        torch.testing.assert_close(again(x), net(x))
        torch.testing.assert_close(again.c.state_dict(), net.c.state_dict())
    torch.testing.assert_close(again.c(x, 3), net.c(x, 3))
    net.c = again.c = Other()
    torch.testing.assert_close(again(x), net(x))


def test_calls_of_a_preserved_module_that_differ() -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.c = Counter()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.c(self.c(x), k=5)

    net, x = Net(), torch.randn(2, 3)
    again = fs.export.unflatten(fs.export.export(net, (x,), preserve_module_call_signature=("c",)))
    torch.testing.assert_close(again(x), net(x))
    net.c = again.c = Other()
    torch.testing.assert_close(again(x), net(x))


@pytest.mark.parametrize("strict", [True, False])
def test_submodules_by_longer_paths_and_control_flow_inside(strict: bool) -> None:
    class Inner(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lin = nn.Linear(3, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return fs.cond(x.sum() > 0, lambda x: self.lin(x), lambda x: x - 1, (x,))

    class Deep(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Module()
            self.a.b = nn.Sequential(Inner(), nn.ReLU())
            self.shared = self.a.b[0]

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.a.b[0](x) + self.a.b(self.shared(x)) + self.a.b[1](x)

    net, x = Deep(), torch.randn(2, 3)
    again = fs.export.unflatten(fs.export.export(net, (x,), strict=strict))
    for data in (x, -x, x.abs(), -x.abs()):
        torch.testing.assert_close(again(data), net(data))


def test_an_unflattened_module_has_tensors_of_its_own() -> None:
    net, x = Counting(), torch.randn(2, 3)
    program = fs.export.export(net, (x,))
    again, module = fs.export.unflatten(program), program.module()
    again(x)
    with torch.no_grad():
        again.c.lin.weight.zero_()
    assert program.state_dict["c.n"] == module.c.n == net.c.n == 0
    assert net.c.lin.weight.any()
    module(x)
    assert again.c.n == 2


def test_buffers_get_their_values_whichever_module_ran_last() -> None:
    class Keep(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("n", torch.zeros(3))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.n = self.n + x.mean()
            return x - self.n

    class Pair(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.keep, self.last = Keep(), nn.Linear(3, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.last(self.last(self.keep(x)))

    net, x = Pair(), torch.randn(2, 3)
    again = fs.export.unflatten(fs.export.export(net, (x,), preserve_module_call_signature=("last",)))
    net.last = again.last = nn.Identity()
    for _ in range(2):
        torch.testing.assert_close(again(x), net(x))
        torch.testing.assert_close(again.keep.n, net.keep.n)


def test_equal_calls_with_control_flow_are_one_module_after_loading(tmp_path: Path) -> None:
    class Choose(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return fs.cond(x.sum() > 0, lambda x: x * 2, lambda x: x - 1, (x,))

    net, x = nn.Module(), torch.randn(2, 3)
    for _ in range(3):  # each calls the one below three times
        net = nn.Sequential(*[Choose() if not len(list(net.children())) else net] * 3)
    fs.export.save(fs.export.export(net, (x,)), tmp_path / "program.fs")
    again = fs.export.unflatten(fs.export.load(tmp_path / "program.fs"))
    assert not [name for name, _ in again.named_modules() if "@" in name]
    inner = again.get_submodule("0.0.0")
    assert sorted(inner._modules) == ["false_graph_0", "true_graph_0"]
    torch.testing.assert_close(again(x), net(x))


class Overlapping(nn.Module):
    """A buffer that is a part of another one, which forward changes."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(3))
        self.register_buffer("last", self.count[1:])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count.add_(1)
        return x + self.last


def test_buffers_that_share_memory_share_the_copys_memory():
    program = fs.export.export(Overlapping(), (torch.zeros(2),))
    for _ in range(2):
        made = fs.export.unflatten(program)
        assert made(torch.zeros(2)).tolist() == [1, 1]
        assert made(torch.zeros(2)).tolist() == [2, 2]


class Outer(nn.Module):
    """Calls its parts in two ways each, in a module below it and by a longer path."""

    def __init__(self) -> None:
        super().__init__()
        self.d = nn.Sequential(nn.Linear(3, 3), Counter())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.d(x) + self.d[1](x + self.d[1].n, k=5)


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("preserved", [("d.1",), ("d", "d.1")])
def test_preserved_modules_inside_of_others(preserved: tuple[str, ...], strict: bool) -> None:
    torch.manual_seed(0)
    net, x = Outer(), torch.randn(2, 3)
    again = fs.export.unflatten(fs.export.export(net, (x,), strict=strict, preserve_module_call_signature=preserved))
    for _ in range(2):
        torch.testing.assert_close(again(x), net(x))
        torch.testing.assert_close(again.get_submodule("d.1").state_dict(), net.d[1].state_dict())
    other = Other()
    net.d[1] = other
    again.get_submodule("d").add_module("1", other)
    torch.testing.assert_close(again(x), net(x))


def test_parts_are_replaced_for_all_calls_of_what_they_are_in() -> None:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.act = nn.ReLU()

        def forward(self, x: torch.Tensor, k: int = 2) -> torch.Tensor:
            return self.act(x) * k

    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.block = Block()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.block(self.block(x - 1), 3)

    net, x = Twice(), torch.randn(2, 3)
    again = fs.export.unflatten(fs.export.export(net, (x,)))
    torch.testing.assert_close(again(x), net(x))
    net.block.act = nn.Tanh()
    again.block.act = nn.Tanh()
    torch.testing.assert_close(again(x), net(x))
