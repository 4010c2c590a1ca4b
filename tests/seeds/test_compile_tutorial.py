"""The code blocks of PyTorch's torch.compile tutorial, under firesteel and on the CPU.

Each test is one section of the tutorial. Graphs are compared with the tables it prints; where torch changed a spelling
since (`explain(f)(*args)`), today's is used.
"""

from __future__ import annotations

import copy
import io
import traceback
from contextlib import redirect_stdout

import numpy as np
import pytest
import scipy
import torch
from torch import nn

import firesteel as fs
from firesteel.errors import GraphBreakError
from seeds.recording import Recorder


def foo(x, y):
    a = torch.sin(x)
    b = torch.cos(x)
    return a + b


class MyModule(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(100, 10)

    def forward(self, x):
        return torch.nn.functional.relu(self.lin(x))


def bar(a, b):
    x = a / (torch.abs(a) + 1)
    if b.sum() < 0:
        b = b * -1
    return x * b


def generate_data(b):
    return torch.randn(b, 3, 64, 64), torch.randint(1000, (b,))


def init_model():
    from torchvision.models import resnet18

    return resnet18()


# Basic usage


def test_function():
    opt_foo1 = fs.compile(foo)
    x, y = torch.randn(10, 10), torch.randn(10, 10)
    torch.testing.assert_close(opt_foo1(x, y), foo(x, y))


def test_decorator():
    @fs.compile
    def opt_foo2(x, y):
        a = torch.sin(x)
        b = torch.cos(x)
        return a + b

    x, y = torch.randn(10, 10), torch.randn(10, 10)
    torch.testing.assert_close(opt_foo2(x, y), foo(x, y))


def test_module():
    recorder = Recorder()
    mod = MyModule()
    opt_mod = fs.compile(mod, backend=recorder)
    x = torch.randn(10, 100)
    out = opt_mod(x)
    assert torch.equal(out, mod(x)) and out.grad_fn is not None
    assert len(recorder.graphs) == 1


# Demonstrating speedups


def evaluate(mod, inp):
    return mod(inp)


def test_evaluate_with_a_mode():
    model = init_model().eval()
    fs.reset()
    recorder = Recorder()
    evaluate_opt = fs.compile(evaluate, mode="reduce-overhead", backend=recorder)
    for _ in range(3):
        inp = generate_data(2)[0]
        torch.testing.assert_close(evaluate_opt(model, inp), evaluate(model, inp), rtol=0, atol=0)
    assert len(recorder.graphs) == 1


def training(model):
    opt = torch.optim.Adam(model.parameters())

    def train(mod, data):
        opt.zero_grad(True)
        pred = mod(data[0])
        loss = torch.nn.CrossEntropyLoss()(pred, data[1])
        loss.backward()
        opt.step()

    return opt, train


def test_train_resnet():
    # In double precision, so that rounding does not hide mistakes.
    model = init_model().double()
    twin = copy.deepcopy(model)
    opt, train = training(model)
    twin_opt, twin_train = training(twin)
    recorder = Recorder()
    train_opt = fs.compile(twin_train, mode="reduce-overhead", backend=recorder)
    for step in range(3):
        images, labels = generate_data(2)
        data = images.double(), labels
        train(model, data)
        train_opt(twin, data)
        if step == 1:
            after_two = len(recorder.graphs)
    for (name, value), other in zip(model.state_dict().items(), twin.state_dict().values(), strict=True):
        torch.testing.assert_close(other, value, msg=lambda text, name=name: f"{name}: {text}")
    for state, other in zip(opt.state.values(), twin_opt.state.values(), strict=True):
        assert set(state) == set(other) and torch.equal(state["step"], other["step"])
    # The forward pass and the loss are in a graph, and training settles: later steps compile nothing.
    assert any(node.name.startswith("conv2d") for gm in recorder.graphs for node in gm.graph.nodes)
    assert len(recorder.graphs) == after_two


def test_train_is_exact():
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    twin = copy.deepcopy(model)
    _, train = training(model)
    _, twin_train = training(twin)
    train_opt = fs.compile(twin_train, backend="eager")
    for _ in range(5):
        data = torch.randn(4, 6), torch.randint(3, (4,))
        train(model, data)
        train_opt(twin, data)
    for (name, value), other in zip(model.state_dict().items(), twin.state_dict().values(), strict=True):
        assert torch.equal(value, other), name


# Comparison to TorchScript and FX tracing


def f1(x, y):
    if x.sum() < 0:
        return -y
    return y


def f2(x, y):
    return x + y


def f3(x):
    x = x * 2
    x = scipy.fft.dct(x.numpy())
    x = torch.from_numpy(x)
    x = x * 2
    return x


def same(fn1, fn2, args):
    return torch.allclose(fn1(*args), fn2(*args))


def test_data_dependent_control_flow():
    compile_f1 = fs.compile(f1)
    inp1, inp2 = torch.randn(5, 5), torch.randn(5, 5)
    assert same(f1, compile_f1, (inp1, inp2))
    assert same(f1, compile_f1, (-inp1, inp2))


def test_number_instead_of_a_tensor():
    recorder = Recorder()
    compile_f2 = fs.compile(f2, backend=recorder)
    assert same(f2, compile_f2, (torch.randn(5, 5), 3))
    assert len(recorder.graphs) == 1


def test_function_outside_of_pytorch():
    recorder = Recorder()
    compile_f3 = fs.compile(f3, backend=recorder)
    assert same(f3, compile_f3, (torch.randn(5, 5),))
    assert same(f3, compile_f3, (torch.randn(5, 5),))
    assert len(recorder.graphs) == 2  # the multiplications before and after the transform


# TorchDynamo and FX graphs


def custom_backend(gm, example_inputs):
    print("custom backend called with FX graph:")
    gm.graph.print_tabular()
    return gm.forward


def tables(text):
    """The printed tables, each as a list of (opcode, name); inputs, which come first, in alphabetical order."""
    found: list[list[tuple[str, ...]]] = []
    for line in text.splitlines():
        if line.startswith("custom backend"):
            found.append([])
        elif line.split()[0] in ("placeholder", "call_function", "call_method", "call_module", "get_attr", "output"):
            found[-1].append(tuple(line.split()[:2]))
    for table in found:
        inputs = [row for row in table if row[0] == "placeholder"]
        assert table[: len(inputs)] == inputs
        table[: len(inputs)] = sorted(inputs)
    return found


def test_printed_graph_of_resnet():
    model = init_model().eval()
    opt_model = fs.compile(model, backend=custom_backend)
    inp = generate_data(2)[0]
    with redirect_stdout(io.StringIO()) as printed:
        out = opt_model(inp)
    assert torch.equal(out, model(inp))
    (table,) = tables(printed.getvalue())
    names = [name for _, name in table]
    assert {"x", "self_conv1_weight", "flatten", "iadd", "iadd_7"} <= set(names)
    operations = [name for op, name in table if op.startswith("call")]
    assert sum(name.startswith("conv2d") for name in operations) == 20
    assert sum(name.startswith("batch_norm") for name in operations) == 20
    # As many operations as the tutorial's table has module calls and function calls.
    assert len(operations) == 69


def test_printed_graphs_of_bar():
    opt_bar = fs.compile(bar, backend=custom_backend)
    inp1, inp2 = torch.randn(10), torch.randn(10).abs()
    with redirect_stdout(io.StringIO()) as printed:
        results = [opt_bar(inp1, -inp2), opt_bar(inp1, inp2), opt_bar(inp1, -inp2), opt_bar(inp1, inp2)]
    assert all(torch.equal(out, bar(inp1, b)) for out, b in zip(results, [-inp2, inp2, -inp2, inp2], strict=True))
    assert tables(printed.getvalue()) == [
        [("placeholder", "a"), ("placeholder", "b"), ("call_function", "abs_1"), ("call_function", "add"),
         ("call_function", "truediv"), ("call_method", "sum_1"), ("call_function", "lt"), ("output", "output")],
        [("placeholder", "b"), ("placeholder", "x"), ("call_function", "mul"), ("call_function", "mul_1"),
         ("output", "output")],
        [("placeholder", "b"), ("placeholder", "x"), ("call_function", "mul"), ("output", "output")],
    ]


def test_arguments_in_the_graphs_of_bar():
    recorder = Recorder()
    opt_bar = fs.compile(bar, backend=recorder)
    opt_bar(torch.randn(10), -torch.ones(10))
    first, second = recorder.graphs
    by_name = {node.name: node for node in first.graph.nodes}
    assert str(by_name["abs_1"].args) == "(a,)" and str(by_name["add"].args) == "(abs_1, 1)"
    assert str(by_name["truediv"].args) == "(a, add)" and by_name["sum_1"].target == "sum"
    assert str(by_name["lt"].args) == "(sum_1, 0)"
    assert {str(arg) for arg in by_name["output"].args[0]} == {"truediv", "lt"}
    by_name = {node.name: node for node in second.graph.nodes}
    assert str(by_name["mul"].args) == "(b, -1)" and str(by_name["mul_1"].args) == "(x, mul)"
    assert str(by_name["output"].args) == "((mul_1,),)"


def test_explain():
    explanation = fs.explain(bar)(torch.randn(10), torch.randn(10).abs())
    # The tutorial's "5 ops" leave out the comparison that the first graph ends with; its tables show it.
    assert (explanation.graph_count, explanation.graph_break_count, explanation.op_count) == (2, 1, 6)
    assert [len(ops) for ops in explanation.ops_per_graph] == [5, 1]
    (reason,) = explanation.break_reasons
    assert reason.frames[-1].source == "if b.sum() < 0:" and reason.frames[-1].function == "bar"
    text = str(explanation)
    assert text.startswith("firesteel produced 2 graphs with 1 graph break and 6 ops")
    assert "if b.sum() < 0:" in text and "Compile times" in text


def test_fullgraph_raises_on_bar():
    opt_bar = fs.compile(bar, fullgraph=True)
    with pytest.raises(GraphBreakError) as caught:
        opt_bar(torch.randn(10), torch.randn(10))
    text = "".join(traceback.format_exception(caught.value))
    assert "if b.sum() < 0:" in text and "in bar" in text and "What to do" in text


def test_fullgraph_resnet():
    recorder = Recorder()
    model = init_model()
    twin = copy.deepcopy(model)
    opt_model = fs.compile(model, fullgraph=True, backend=recorder)
    inp = generate_data(2)[0]
    out = opt_model(inp)
    assert torch.equal(out, twin(inp)) and out.grad_fn is not None
    assert len(recorder.graphs) == 1
    for (name, value), other in zip(model.named_buffers(), twin.buffers(), strict=True):
        assert torch.equal(value, other), name


def test_capture_graph():
    with pytest.raises(GraphBreakError, match="a branch depends on|tensor"):
        fs.capture_graph(bar)(torch.randn(10), torch.randn(10))
    model = init_model().eval()
    inp = generate_data(2)[0]
    graph, guards = fs.capture_graph(model)(inp)
    assert isinstance(graph, torch.fx.GraphModule) and guards
    placeholders = [node.name for node in graph.graph.nodes if node.op == "placeholder"]
    assert "x" in placeholders


def test_timing_helpers_of_the_tutorial():
    """The tutorial times both versions and takes medians with NumPy; the numbers are its own business."""
    model = nn.Linear(4, 4)
    evaluate_opt = fs.compile(evaluate)
    times = []
    for _ in range(3):
        inp = torch.randn(2, 4)
        assert torch.equal(evaluate_opt(model, inp), evaluate(model, inp))
        times.append(0.1)
    assert np.median(times) == 0.1
