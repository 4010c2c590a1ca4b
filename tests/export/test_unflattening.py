"""The module hierarchy of exported programs."""

from __future__ import annotations

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
        before = {key: value.clone() for key, value in net.state_dict().items()}
        want = net(data)
        counted = net.bn.num_batches_tracked.clone()
        net.load_state_dict(before)
        got = again(data)
        torch.testing.assert_close(got, want)
        assert again.bn.num_batches_tracked == counted
    again(x)["out"].sum().backward()
    assert again.get_submodule("blocks.0.lin").weight.grad is not None


def test_submodules_can_be_replaced() -> None:
    net = nn.Sequential(Block(6), nn.Linear(6, 3))
    again = fs.export.unflatten(fs.export.export(net, (torch.randn(2, 6),)))
    x = torch.randn(2, 6)
    again.get_submodule("0").add_module("act", nn.Identity())
    net[0].act = nn.Identity()
    torch.testing.assert_close(again(x), net(x))
