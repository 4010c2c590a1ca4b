"""The programs of the export tutorial, and what an exported program looks like, for both exporters.

Run as a script it prints what torch.export makes of them as JSON; it imports nothing of firesteel then.
"""

from __future__ import annotations

import json
import re
import sys

import torch


class MyModule(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(100, 10)

    def forward(self, x, y):
        return torch.nn.functional.relu(self.lin(x + y), inplace=True)


class Bad1(torch.nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return torch.sin(x)
        return torch.cos(x)


class Bad2(torch.nn.Module):
    def forward(self, x):
        x.data[0, 0] = 3
        return x


class Bad3(torch.nn.Module):
    def forward(self, x):
        x = x + 1
        return x + id(x)


class Bad1Fixed(torch.nn.Module):
    def forward(self, x):
        def true_fn(x):
            return torch.sin(x)

        def false_fn(x):
            return torch.cos(x)

        return torch.cond(x.sum() > 0, true_fn, false_fn, [x])


class MapModule(torch.nn.Module):
    def forward(self, xs, y, z):
        from torch._higher_order_ops.map import map as torch_map

        def body(x, y, z):
            return x + y + z

        return torch_map(body, xs, y, z)


class DynamicModel(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.l = torch.nn.Linear(5, 3)

    def forward(
        self,
        w: torch.Tensor,  # [6, 5]
        x: torch.Tensor,  # [4]
        y: torch.Tensor,  # [8, 4]
        z: torch.Tensor,  # [32]
    ):
        x0 = x + y  # [8, 4]
        x1 = self.l(w)  # [6, 3]
        x2 = x0.flatten()  # [32]
        x3 = x2 + z  # [32]
        return x1, x3


class GuardedModel(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.l = torch.nn.Linear(5, 3)

    def forward(self, w, x, y, z):
        assert w.shape[0] <= 512
        torch._check(x.shape[0] >= 4)
        if w.shape[0] == x.shape[0] + 2:
            x0 = x + y
            x1 = self.l(w)
            x2 = x0.flatten()
            x3 = x2 + z
            return x1, x3
        else:
            return w


class AddOnes(torch.nn.Module):
    def forward(self, x, y):
        w = x + y
        return w + torch.ones(4)


class Numbers(torch.nn.Module):
    def forward(self, x, y):
        a = x.item()
        b = y.tolist()
        return b + [a]


class Undecided(torch.nn.Module):
    def forward(self, x, y):
        a = x.item()
        if a // 2 >= 5:
            return y + 2
        else:
            return y * 5


class Checked(torch.nn.Module):
    def forward(self, x, y):
        a = x.item()
        torch._check(a >= 10)
        torch._check(a <= 60)
        if a // 2 >= 5:
            return y + 2
        else:
            return y * 5


class Indexed(torch.nn.Module):
    def forward(self, x, y):
        a = x.item()
        return y[a]


class IndexChecked(torch.nn.Module):
    def forward(self, x, y):
        a = x.item()
        torch._check(a >= 0)
        torch._check(a < y.shape[0])
        return y[a]


class RangeOfItem(torch.nn.Module):
    def forward(self, x, y):
        a = x.item()
        b = torch.cat([y for y in range(a)], dim=0)
        return b + int(a)


class Repeated(torch.nn.Module):
    def forward(self, x, y):
        a = x.item()
        b = y.unsqueeze(0).repeat(a, 1)
        return b + a


@torch.library.custom_op("export_tutorial::custom_op", mutates_args={})
def custom_op(x: torch.Tensor) -> torch.Tensor:
    print("custom_op called!")
    return torch.relu(x)


@custom_op.register_fake
def custom_op_meta(x):
    return torch.empty_like(x)


class CustomOpExample(torch.nn.Module):
    def forward(self, x):
        x = torch.sin(x)
        x = torch.ops.export_tutorial.custom_op(x)
        x = torch.cos(x)
        return x


class DecompExample(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = torch.nn.Conv2d(1, 3, 1, 1)
        self.bn = torch.nn.BatchNorm2d(3)

    def forward(self, x):
        x = self.conv(x)
        x = self.bn(x)
        return (x,)


class M(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 3)

    def forward(self, x):
        x = self.linear(x)
        return x


def doubled_conv2d(x, weight, bias, stride=[1, 1], padding=[0, 0], dilation=[1, 1], groups=1):  # noqa: B006
    return 2 * torch.ops.aten.convolution(x, weight, bias, stride, padding, dilation, False, [0, 0], groups)


def dynamic_inputs():
    return torch.randn(6, 5), torch.randn(4), torch.randn(8, 4), torch.randn(32)


def all_auto(dim):
    return {"w": (dim.AUTO, dim.AUTO), "x": (dim.AUTO,), "y": (dim.AUTO, dim.AUTO), "z": (dim.AUTO,)}


# ---------------------------------------------------------------------------------------------------------------------
# what is compared


def operators(graph):
    """The operators of a graph in order, with those of the graphs that it owns; arithmetic on sizes is left out."""
    found = []
    for node in graph.nodes:
        if node.op == "call_function":
            name = str(node.target) if isinstance(node.target, torch._ops.OpOverload) else node.target.__name__
            if name not in SIZE_ARITHMETIC and not name.startswith("aten.sym_"):
                found.append(name.removesuffix("_impl"))
        elif node.op == "get_attr":
            part = getattr(graph.owning_module, node.target, None)
            if isinstance(part, torch.fx.GraphModule):
                found.append(operators(part.graph))
    return found


SIZE_ARITHMETIC = {"getitem", "ge", "le", "lt", "gt", "eq", "mul", "add", "sub", "aten._assert_scalar.default"}


def signature(program):
    """Kinds, names and targets of inputs and outputs; outputs that are numbers have names of their own choice."""
    of = program.graph_signature
    return [[[spec.kind.name, spec.arg.name, spec.target] for spec in of.input_specs],
            [[spec.kind.name, type(spec.arg).__name__, spec.target] for spec in of.output_specs]]


def ranges(program):
    """Ranges of constraints, whatever the symbols are called."""
    texts = [re.sub(r"[A-Za-z_]*\.?VR|ValueRanges", "VR", str(bounds)) for bounds in program.range_constraints.values()]
    return sorted(texts)


def described(program):
    """All of it."""
    return {"operators": operators(program.graph), "signature": signature(program), "ranges": ranges(program)}


def exported(export, dim):
    """The programs on which both exporters should agree, by name."""
    torch.manual_seed(0)
    yield "MyModule", export(MyModule(), (torch.randn(8, 100), torch.randn(8, 100)))
    yield "Bad3", export(Bad3(), (torch.randn(3, 3),), strict=False)
    yield "Bad1Fixed", export(Bad1Fixed(), (torch.randn(3, 3),))
    yield "MapModule", export(MapModule(), (torch.ones(6, 4), torch.tensor(5), torch.tensor(4)))
    yield "DynamicModel", export(DynamicModel(), dynamic_inputs(), dynamic_shapes=all_auto(dim))
    yield "GuardedModel", export(GuardedModel(), dynamic_inputs(), dynamic_shapes=all_auto(dim))
    yield "static", export(DynamicModel(), dynamic_inputs())
    yield "Checked", export(Checked(), (torch.tensor(32), torch.randn(4)))
    yield "IndexChecked", export(IndexChecked(), (torch.tensor(32), torch.randn(60)))
    yield "Repeated", export(Repeated(), (torch.tensor(32), torch.randn(60)), strict=False)
    yield "CustomOpExample", export(CustomOpExample(), (torch.randn(3, 3),))
    training = export(DecompExample(), (torch.randn(1, 1, 3, 3),))
    yield "training", training
    yield "inference", training.run_decompositions(decomp_table={})
    yield "core", training.run_decompositions()
    yield "M", export(M(), (torch.randn(2, 3),))


if __name__ == "__main__":
    import torch.export

    wanted = {}
    for name, program in exported(torch.export.export, torch.export.Dim):
        wanted[name] = described(program)
    print("RESULT " + json.dumps(wanted))
    sys.exit(0)
