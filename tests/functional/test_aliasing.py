"""Results: fresh tensors, inputs, views of inputs and of each other, numbers."""

from __future__ import annotations

import pytest
import torch

from firesteel.functional import Constant, FreshTensor, InputAlias, SameAs, Unsupported, trace
from functional.programs import assert_same


def x():
    return torch.arange(24.0).reshape(4, 6)


PROGRAMS = {
    "input": lambda a: a,
    "input and more": lambda a: (a, a + 1, a),
    "view of input": lambda a: (a.t(), a[1], a.view(-1)[2:5], a + 1),
    "view of view": lambda a: a[1:].t()[2:].unsqueeze(0) if a.sin() is not None else a,
    "detached": lambda a: (a.detach(), a[1].detach(), a * 1),
    "expanded": lambda a: (a[:1].expand(3, 6), a.sin()),
    "same result twice": lambda a: (lambda y: (y, y))(a + 1),
    "equal results": lambda a: (a + 1, a + 1),
    "views of one result": lambda a: (lambda y: (y[0], y[1:], y.t(), y))(a + 1),
    "views without their base": lambda a: (lambda y: (y[0], y[1:]))(a + 1),
    "transposed result": lambda a: (a + 1).t(),
    "slice of a result": lambda a: (a + 1)[:, 1:3],
    "row of a result": lambda a: (a + 1)[2],
    "expanded result": lambda a: (a[0] + 1).expand(4, 6),
    "no-op clone": lambda a: a.clone(),
    "two clones": lambda a: (a.clone(), a.clone()),
    "contiguous of contiguous": lambda a: (a.contiguous(), a * 2),
    "contiguous of transposed": lambda a: a.t().contiguous(),
    "to the same dtype": lambda a: (a.to(torch.float32), a * 2),
    "another dtype": lambda a: a.to(torch.float64),
    "viewed as integers": lambda a: ((a + 1).view(torch.int32), a * 1),
    "input viewed as integers": lambda a: (a.view(torch.int32), a * 1),
    "none": lambda a: (None, a + 1, 3),
    "reshape copies": lambda a: a.t().reshape(-1),
    "reshape views": lambda a: (a.reshape(-1), a * 1),
    "chunks": lambda a: (a + 1).chunk(3, 1),
    "flatten": lambda a: (a + 1).flatten(),
    "constant": lambda a: (torch.tensor([1.0, 2.0]), a + 1),
    "constants": lambda a: a[0, :2] + torch.tensor([1.0, 2.0]),
    "dropout of evaluation": lambda a: (torch.nn.functional.dropout(a, 0.5, False), a + 1),
    "diagonal": lambda a: ((a + 1).diagonal(), a.diagonal()),
    "unfolded": lambda a: ((a + 1).unfold(1, 3, 2), a * 2),
    "complex": lambda a: torch.view_as_complex((a + 1).view(4, 3, 2)).abs(),
    "channels last": lambda a: a.view(1, 2, 2, 6).to(memory_format=torch.channels_last) + 1,
    "zero elements": lambda a: (a[4:] + 1, a[:, :0]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_results(name):
    assert_same(PROGRAMS[name], x())


NEED_ROWS = (
    "view of input", "channels last", "viewed as integers", "input viewed as integers", "complex", "zero elements")


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name not in NEED_ROWS])
def test_results_of_a_transposed_input(name):
    assert_same(PROGRAMS[name], torch.arange(24.0).reshape(6, 4).t())


def test_kinds_of_results():
    def program(a):
        y = a + 1
        return a, a[0], y, y, y[0], None

    outputs = trace(torch.fx.symbolic_trace(program), [x()]).outputs
    assert [type(output) for output in outputs] == \
        [InputAlias, InputAlias, FreshTensor, SameAs, FreshTensor, Constant]
    assert outputs[1].view.stride == (1,) and outputs[4].node is outputs[2].node


def test_parameters_under_no_grad():
    weight = torch.randn(3, 6, requires_grad=True)

    def program(a, w):
        with torch.no_grad():
            y = a @ w.t()
        return y, w

    assert_same(program, x(), weight)


def test_training_is_refused():
    weight = torch.randn(3, 6, requires_grad=True)
    with pytest.raises(Unsupported, match="training"):
        trace(torch.fx.symbolic_trace(lambda a, w: a @ w.t()), [x(), weight])


def test_real_tensors_with_a_base():
    base = torch.arange(24.0).reshape(4, 6)
    graph = trace(torch.fx.symbolic_trace(lambda a: a * 2), [base[1:, 2:]])
    assert graph.inputs[0].example.stride() == (6, 1)


def test_inference_mode():
    def program(a):
        b = torch.nn.functional.linear(a, a, a[:, 0])
        return torch.nn.functional.layer_norm(b, (4,)), b.reshape(-1), torch.nn.functional.dropout(b, 0.5, False)

    with torch.inference_mode():
        assert_same(program, x())
