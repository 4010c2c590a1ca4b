"""The code blocks of PyTorch's export tutorial with `fs.export` in the place of `torch.export`, one test for each.

Blocks that fail there and export here: `Bad1` and the `if` on ``a // 2 >= 5`` (both branches are kept as a cond), and
``y[a]`` without checks (the index is checked when the program runs).
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import firesteel as fs
from firesteel.errors import ConstraintViolationError
from firesteel.export import Dim, ExportedProgram, ExportError, InputMismatchError, export
from seeds import export_tutorial_programs as programs

ROOT = Path(__file__).resolve().parent.parent.parent


def names(program):
    return [node.name for node in program.graph.nodes if node.op == "call_function"]


# Basic usage


def test_basic_usage():
    mod = programs.MyModule()
    exported_mod = export(mod, (torch.randn(8, 100), torch.randn(8, 100)))
    assert type(exported_mod) is ExportedProgram
    x, y = torch.randn(8, 100), torch.randn(8, 100)
    result = exported_mod.module()(x, y)
    torch.testing.assert_close(result, mod(x, y))
    assert type(result.grad_fn).__name__ == "ReluBackward0"


def test_print_exported_program():
    text = str(export(programs.MyModule(), (torch.randn(8, 100), torch.randn(8, 100))))
    line = "return torch.nn.functional.relu(self.lin(x + y), inplace=True)"
    for part in (
        "ExportedProgram:\n    class GraphModule(torch.nn.Module):\n",
        'def forward(self, p_lin_weight: "f32[10, 100]", p_lin_bias: "f32[10]", x: "f32[8, 100]", y: "f32[8, 100]"):',
        f"export_tutorial_programs.py:21 in forward, code: {line}\n",
        'add: "f32[8, 100]" = torch.ops.aten.add.Tensor(x, y);  x = y = None\n',
        'linear: "f32[8, 10]" = torch.ops.aten.linear.default(add, p_lin_weight, p_lin_bias)',
        'relu_: "f32[8, 10]" = torch.ops.aten.relu_.default(linear);  linear = None\n',
        "return (relu_,)\n",
        "Graph signature: ExportGraphSignature(input_specs=[InputSpec(kind=<InputKind.PARAMETER: 2>, "
        "arg=TensorArgument(name='p_lin_weight'), target='lin.weight', persistent=None), ",
        "InputSpec(kind=<InputKind.USER_INPUT: 1>, arg=TensorArgument(name='x'), target=None, persistent=None), ",
        "output_specs=[OutputSpec(kind=<OutputKind.USER_OUTPUT: 1>, arg=TensorArgument(name='relu_'), target=None)])\n",
        "Range constraints: {}\n",
    ):
        assert part in text, part


# Graph breaks


def test_data_dependent_control_flow_without_branches():
    with pytest.raises(ExportError, match="capture_branches") as caught:
        export(programs.Bad1(), (torch.randn(3, 3),), strict=False)
    assert caught.value.frames[-1].source == "if x.sum() > 0:"


def test_data_dependent_control_flow():
    program = export(programs.Bad1(), (torch.randn(3, 3),))
    torch.testing.assert_close(program.module()(torch.ones(3, 3)), torch.ones(3, 3).sin())
    torch.testing.assert_close(program.module()(-torch.ones(3, 3)), torch.ones(3, 3).cos())
    with pytest.raises(ExportError, match="fs.cond") as caught:
        export(programs.Bad1(), (torch.randn(3, 3),), capture_branches=False)
    assert caught.value.frames[-1].source == "if x.sum() > 0:"


def test_accessing_data():
    program = export(programs.Bad2(), (torch.randn(3, 3),))
    x, y = torch.randn(3, 3), torch.randn(3, 3)
    y.copy_(x)
    torch.testing.assert_close(program.module()(x), programs.Bad2()(y))
    assert x[0, 0] == 3


def test_unsupported_function():
    with pytest.raises(ExportError) as caught:
        export(programs.Bad3(), (torch.randn(3, 3),))
    assert caught.value.frames[-1].source == "return x + id(x)"
    assert caught.value.reason and "strict=False" in caught.value.hint


# Non-strict export


def test_non_strict():
    program = export(programs.Bad3(), (torch.randn(3, 3),), strict=False)
    assert names(program) == ["add", "add_1"]
    number = next(node for node in program.graph.nodes if node.name == "add_1").args[1]
    assert isinstance(number, int)
    torch.testing.assert_close(program.module()(torch.ones(3, 3)), torch.full((3, 3), 2.0) + number)


# Control flow operators


def test_cond():
    program = export(programs.Bad1Fixed(), (torch.randn(3, 3),))
    text = str(program)
    for part in ("true_graph_0 = self.true_graph_0", "class true_graph_0(torch.nn.Module):",
                 'def forward(self, x: "f32[3, 3]"):', 'sin: "f32[3, 3]" = torch.ops.aten.sin.default(x)',
                 'cos: "f32[3, 3]" = torch.ops.aten.cos.default(x)'):
        assert part in text, part
    torch.testing.assert_close(program.module()(torch.ones(3, 3)), torch.ones(3, 3).sin())
    torch.testing.assert_close(program.module()(-torch.ones(3, 3)), torch.ones(3, 3).cos())


def test_map():
    inps = (torch.ones(6, 4), torch.tensor(5), torch.tensor(4))
    program = export(programs.MapModule(), inps)
    assert 'add: "f32[4]" = torch.ops.aten.add.Tensor(xs, y)' in str(program)
    torch.testing.assert_close(program.module()(*inps), torch.full((6, 4), 10.0))


# Dynamic shapes


def test_static_program_refuses_other_shapes():
    w, x, y, z = programs.dynamic_inputs()
    model = programs.DynamicModel()
    program = export(model, (w, x, y, z))
    model(w, x, torch.randn(3, 4), torch.randn(12))
    with pytest.raises(InputMismatchError) as caught:
        program.module()(w, x, torch.randn(3, 4), torch.randn(12))
    assert "the input y.shape[0] must be 8, but is 3" in str(caught.value)


def test_auto():
    inputs = programs.dynamic_inputs()
    model = programs.DynamicModel()
    program = export(model, inputs, dynamic_shapes=programs.all_auto(Dim))
    text = str(program)
    assert 'w: "f32[s0, 5]", x: "f32[s2]", y: "f32[s3, s2]", z: "f32[s2*s3]"' in text
    assert "Range constraints: {s0: VR[2, int_oo], s2: VR[2, int_oo], s3: VR[2, int_oo], s2*s3: VR[4, int_oo]}" in text
    others = torch.randn(3, 5), torch.randn(7), torch.randn(2, 7), torch.randn(14)
    torch.testing.assert_close(program.module()(*others), model(*others))
    with pytest.raises(InputMismatchError, match=r"the input z.shape\[0\] must be s2\*s3, which is 14, but is 15"):
        program.module()(*others[:3], torch.randn(15))


def test_logs_of_shapes(capsys):
    fs.set_logs("shapes")
    try:
        export(programs.DynamicModel(), programs.dynamic_inputs(), dynamic_shapes=programs.all_auto(Dim))
    finally:
        fs.set_logs("")
    captured = capsys.readouterr()
    text = captured.out + captured.err
    assert "s0" in text and "w.size(0)" in text
    assert "x0 = x + y  # [8, 4]" in text, "the line that a guard comes from"


def test_dynamic_but_specialised():
    shapes = programs.all_auto(Dim)
    shapes["w"] = (Dim.AUTO, Dim.DYNAMIC)
    with pytest.raises(ConstraintViolationError) as caught:
        export(programs.DynamicModel(), programs.dynamic_inputs(), dynamic_shapes=shapes)
    assert "w.shape[1]" in str(caught.value) and "5" in str(caught.value)


def test_dynamic_equal_to_static():
    shapes = programs.all_auto(Dim)
    shapes["x"] = (Dim.STATIC,)
    shapes["y"] = (Dim.AUTO, Dim.DYNAMIC)
    with pytest.raises(ConstraintViolationError) as caught:
        export(programs.DynamicModel(), programs.dynamic_inputs(), dynamic_shapes=shapes)
    assert "y.shape[1]" in str(caught.value) and "4" in str(caught.value)


def test_guards_of_statements():
    program = export(programs.GuardedModel(), programs.dynamic_inputs(), dynamic_shapes=programs.all_auto(Dim))
    assert 'w: "f32[s2 + 2, 5]"' in str(program)
    ranges = {str(expr): repr(bounds) for expr, bounds in program.range_constraints.items()}
    assert ranges["s2"] == "VR[4, 510]"
    with pytest.raises(InputMismatchError):
        program.module()(torch.randn(5, 5), torch.randn(3), torch.randn(8, 3), torch.randn(24))


def test_zero_one_specialisation():
    program = export(torch.nn.Linear(4, 3), (torch.randn(1, 4),), dynamic_shapes={"input": (Dim.AUTO, Dim.STATIC)})
    with pytest.raises(InputMismatchError, match=r"the input input.shape\[0\] must be 1, but is 2"):
        program.module()(torch.randn(2, 4))


class Pair(torch.nn.Module):
    def forward(self, x, y):
        return x.sum(), y.sum()


def test_named_dims():
    dx, dh = Dim("dx", min=4, max=256), Dim("dh", max=512)
    program = export(Pair(), (torch.randn(5, 3), torch.randn(10, 6)),
                     dynamic_shapes={"x": (dx, None), "y": (2 * dx, dh)})
    assert 'x: "f32[dx, 3]", y: "f32[2*dx, dh]"' in str(program)
    module = program.module()
    module(torch.randn(4, 3), torch.randn(8, 512))
    for x, y in (((3, 3), (6, 6)), ((5, 3), (9, 6)), ((5, 3), (10, 513)), ((5, 4), (10, 6))):
        with pytest.raises(InputMismatchError):
            module(torch.randn(x), torch.randn(y))


def test_divisible_dims():
    dx = Dim("dx", min=4, max=512)
    program = export(Pair(), (torch.randn(20, 3), torch.randn(1)), dynamic_shapes={"x": (4 * dx, None), "y": None})
    module = program.module()
    module(torch.randn(16, 3), torch.randn(1))
    for size in (18, 12, 2052):
        with pytest.raises(InputMismatchError):
            module(torch.randn(size, 3), torch.randn(1))


def test_constraint_violations_and_fixes():
    dx, dy, d1 = fs.export.dims("dx", "dy", "d1")
    with pytest.raises(ConstraintViolationError) as caught:
        export(programs.AddOnes(), (torch.randn(6, 4), torch.randn(6, 4)),
               dynamic_shapes={"x": (dx, d1), "y": (dy, d1)})
    text = str(caught.value)
    assert "Suggested fixes:" in text and "d1 = 4" in text and "dy = dx" in text
    program = export(programs.AddOnes(), (torch.randn(6, 4), torch.randn(6, 4)),
                     dynamic_shapes={"x": (dx, 4), "y": (dx, 4)})
    x, y = torch.randn(9, 4), torch.randn(9, 4)
    torch.testing.assert_close(program.module()(x, y), programs.AddOnes()(x, y))


class Mixed(torch.nn.Module):
    def forward(self, tensor_0, tensor_1, int_val, bool_val):
        return tensor_0 * int_val + tensor_1.sum() if bool_val else tensor_0 - int_val + tensor_1.sum()


def test_static_inputs_and_numbers():
    inputs = torch.randn(4, 4), torch.randn(3, 3), 16, False
    program = export(Mixed(), inputs, dynamic_shapes={
        "tensor_0": (Dim.AUTO, None), "tensor_1": None, "int_val": None, "bool_val": None})
    others = torch.randn(7, 4), *inputs[1:]
    torch.testing.assert_close(program.module()(*others), Mixed()(*others))
    for at, name, value in ((2, "int_val", 17), (3, "bool_val", True)):
        wrong = list(inputs)
        wrong[at] = value
        with pytest.raises(InputMismatchError, match=f"the input {name} must be {inputs[at]}"):
            program.module()(*wrong)


# Data-dependent values


def test_numbers_from_data():
    inps = torch.tensor(1), torch.tensor([2, 3])
    program = export(programs.Numbers(), inps)
    assert [type(spec.arg).__name__ for spec in program.graph_signature.output_specs] == ["SymIntArgument"] * 3
    assert program.module()(torch.tensor(7), torch.tensor([8, 9])) == [8, 9, 7]
    assert all(repr(bounds) == "VR[-int_oo, int_oo]" for bounds in program.range_constraints.values())


def test_undecided_condition():
    y = torch.randn(4)
    module = export(programs.Undecided(), (torch.tensor(32), torch.randn(4))).module()
    torch.testing.assert_close(module(torch.tensor(10), y), y + 2)
    torch.testing.assert_close(module(torch.tensor(9), y), y * 5)
    with pytest.raises(ExportError) as caught:
        export(programs.Undecided(), (torch.tensor(32), torch.randn(4)), strict=False)
    text = str(caught.value)
    assert "u0" in text and "torch._check(" in text
    assert caught.value.frames[-1].source == "if a // 2 >= 5:"


def test_checks_settle_it():
    program = export(programs.Checked(), (torch.tensor(32), torch.randn(4)))
    assert [repr(bounds) for bounds in program.range_constraints.values()] == ["VR[10, 60]"]
    module, y = program.module(), torch.randn(4)
    torch.testing.assert_close(module(torch.tensor(11), y), y + 2)
    for number in (9, 61):
        with pytest.raises(RuntimeError, match="does not hold"):
            module(torch.tensor(number), y)


def test_index_from_data():
    program = export(programs.Indexed(), (torch.tensor(32), torch.randn(60)))
    y = torch.randn(60)
    for number in (5, -60):
        torch.testing.assert_close(program.module()(torch.tensor(number), y), y[number])
    with pytest.raises(IndexError):
        program.module()(torch.tensor(60), y)


def test_checked_index_from_data():
    program = export(programs.IndexChecked(), (torch.tensor(32), torch.randn(60)))
    assert [repr(bounds) for bounds in program.range_constraints.values()] == ["VR[0, 59]"]
    y = torch.randn(60)
    torch.testing.assert_close(program.module()(torch.tensor(59), y), y[59])
    for number in (-1, 60):
        with pytest.raises(RuntimeError, match="does not hold"):
            program.module()(torch.tensor(number), y)


def test_specialised_value():
    with pytest.raises(ExportError) as caught:
        export(programs.RangeOfItem(), (torch.tensor(32), torch.randn(60)), strict=False)
    assert "u0" in caught.value.reason
    assert caught.value.frames[-1].source == "b = torch.cat([y for y in range(a)], dim=0)"


def test_rewritten_with_repeat():
    program = export(programs.Repeated(), (torch.tensor(32), torch.randn(60)), strict=False)
    text = str(program)
    assert 'repeat: "f32[u0, 60]" = torch.ops.aten.repeat.default(unsqueeze, [item, 1])' in text
    assert [repr(bounds) for bounds in program.range_constraints.values()] == ["VR[0, int_oo]"]
    y = torch.randn(60)
    torch.testing.assert_close(program.module()(torch.tensor(3), y), y.repeat(3, 1) + 3)


# Custom operators, decompositions


def test_custom_operator(capsys):
    program = export(programs.CustomOpExample(), (torch.randn(3, 3),))
    assert 'custom_op: "f32[3, 3]" = torch.ops.export_tutorial.custom_op.default(sin)' in str(program)
    assert capsys.readouterr().out == ""
    x = torch.randn(3, 3)
    torch.testing.assert_close(program.module()(x), x.sin().relu().cos())
    assert capsys.readouterr().out == "custom_op called!\n"


def test_decompositions():
    training = fs.export.export_for_training(programs.DecompExample(), (torch.randn(1, 1, 3, 3),))
    assert names(training) == ["conv2d", "add_", "batch_norm"]
    inference = training.run_decompositions(decomp_table={})
    assert names(inference) == [
        "conv2d", "add", "_native_batch_norm_legit_functional", "getitem", "getitem_3", "getitem_4"]
    output = next(node for node in inference.graph.nodes if node.op == "output")
    assert [node.name for node in output.args[0]] == ["getitem_3", "getitem_4", "add", "getitem"]
    table = fs.export.default_decompositions()
    core = training.run_decompositions(decomp_table=table)
    assert names(core)[0] == "convolution"
    table[torch.ops.aten.conv2d.default] = programs.doubled_conv2d
    own = training.run_decompositions(table)
    assert names(own)[:3] == ["convolution", "mul", "add"]
    x = torch.randn(1, 1, 3, 3)
    torch.testing.assert_close(core.module()(x), training.module()(x))


# Running


ON_GPU = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=ON_GPU)])
def test_running_eagerly_compiled_and_packaged(device, tmp_path):
    m, inp = programs.M().to(device=device), torch.randn(2, 3, device=device)
    program = export(m, (inp,))
    result = program.module()(inp)
    torch.testing.assert_close(result, m(inp))
    assert type(result.grad_fn).__name__ == "AddmmBackward0"
    result = fs.compile(program.module(), fullgraph=True)(inp)
    torch.testing.assert_close(result, m(inp))
    assert result.grad_fn is not None and result.device.type == device
    with torch.no_grad():
        path = fs.export.package(program, tmp_path / "program.fsp")
    torch.testing.assert_close(fs.export.load_package(path)(inp), m(inp).detach())


def test_agreement_with_torch():
    done = subprocess.run([sys.executable, "-W", "ignore", programs.__file__], cwd=ROOT, capture_output=True, text=True,
                          check=False)
    line = next((line for line in done.stdout.splitlines() if line.startswith("RESULT ")), None)
    assert line is not None, done.stderr[-3000:]
    wanted = json.loads(line.removeprefix("RESULT "))
    for name, program in programs.exported(export, Dim):
        assert json.loads(json.dumps(programs.described(program))) == wanted[name], name
