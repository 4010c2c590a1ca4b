"""The verifier: programs that a pass has damaged."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from firesteel.export import Dim, OutputKind, TensorArgument, ValueRanges, VerificationError, export

ATEN = torch.ops.aten


class Small(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(3, 2)
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x):
        self.count.add_(1)
        return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (self.lin(x),))


@pytest.fixture
def program():
    return export(Small(), (torch.randn(4, 3),), dynamic_shapes={"x": {0: Dim("n")}})


def node(program, name):
    return next(node for node in program.graph.nodes if node.name == name)


def refused(program, words):
    with pytest.raises(VerificationError, match=words):
        program.validate()


def test_good_program(program):
    program.validate()
    program.run_decompositions({}).validate()


def test_renamed_input(program):
    program.graph_signature.input_specs[0].arg = TensorArgument("p_other")
    refused(program, "those of the signature")


def test_missing_weight(program):
    del program.state_dict["lin.weight"]
    refused(program, "lin.weight, which p_lin_weight stands for, is missing")


def test_weight_of_another_shape(program):
    program.state_dict["lin.bias"] = torch.nn.Parameter(torch.zeros(5))
    refused(program, r"lin.bias is torch.float32\[5\], but p_lin_bias is torch.float32\[2\]")


def test_output_of_another_name(program):
    program.graph_signature.output_specs[0].arg = TensorArgument("linear")
    refused(program, "output 0 is getitem in the graph and linear in the signature")


def test_missing_output(program):
    program.graph_signature.output_specs.clear()
    refused(program, "the graph has 1 outputs, the signature 0")


def test_no_operator(program):
    node(program, "linear").target = torch.nn.functional.linear
    refused(program, "linear calls .*, which is neither an operator nor arithmetic on sizes")


def test_wrong_arguments(program):
    linear = node(program, "linear")
    linear.args = linear.args[:1]
    refused(program, "linear does not pass weight to aten.linear.default")
    linear.args = (*linear.args, *linear.args, *linear.args, *linear.args)
    refused(program, "passes 4 arguments to aten.linear.default, which takes 3")


def test_tensor_as_argument(program):
    linear = node(program, "linear")
    linear.args = (linear.args[0], torch.zeros(2, 3), linear.args[2])
    refused(program, "linear has a Tensor as an argument; it must be a node")


def test_node_without_value(program):
    del node(program, "linear").meta["val"]
    refused(program, r"linear has no meta\['val'\]")


def test_inside_of_a_subgraph(program):
    inner = program.graph_module.true_graph_0
    next(node for node in inner.graph.nodes if node.name == "sin").target = torch.sin
    refused(program, "true_graph_0 of the graph: sin calls")


def test_write_in_a_functional_program(program):
    functional = program.run_decompositions({})
    add = next(node for node in functional.graph.nodes if node.target is ATEN.add.Tensor)
    add.target = ATEN.add_.Tensor
    refused(functional, "writes to its arguments in a program that returns what it changes")


def test_mutation_of_nothing(program):
    functional = program.run_decompositions({})
    at = functional.graph_signature.output_specs
    assert at[0].kind is OutputKind.BUFFER_MUTATION
    at[0] = dataclasses.replace(at[0], target="other")
    refused(functional, "output 0 is the new value of other, which is no input")


def test_empty_range(program):
    symbol = next(iter(program.range_constraints))
    program.range_constraints[symbol] = ValueRanges(5, 4)
    refused(program, "the range of n is empty")


def test_call_graph(program):
    program.module_call_graph.pop(0)
    refused(program, "module call graph")


def test_input_behind_operations(program):
    with program.graph.inserting_after(node(program, "linear")):
        extra = program.graph.placeholder("late")
    extra.meta["val"] = torch.zeros(1)
    refused(program, "the input late stands behind operations")
