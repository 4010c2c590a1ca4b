"""What `dynamic_shapes` may look like, and what is said of it when it is wrong."""

from dataclasses import dataclass

import pytest
import torch
from torch.utils import _pytree as pytree

from firesteel.errors import UserCodeError
from firesteel.export import InputMismatchError, export
from firesteel.export.dynamic_shapes import AdditionalInputs, ShapesCollection, contract_of
from firesteel.shapes.dims import Dim

A, N = Dim.AUTO, Dim("n")


class Two(torch.nn.Module):
    def forward(self, x, y):
        return x, y


class Nested(torch.nn.Module):
    def forward(self, x, d, *rest, scale=None, **more):
        return x


@dataclass
class Point:
    x: torch.Tensor
    y: torch.Tensor


pytree.register_dataclass(Point)
X, Y = torch.ones(4, 3), torch.ones(8)


def test_forms_for_a_tensor():
    for spec in ({"x": {0: N}, "y": None}, {"x": (N, None), "y": (None,)}, ({0: N}, None), [(N, Dim.STATIC), {}],
                 {"x": {-2: N}, "y": [8]}):
        assert str(contract_of(Two(), (X, Y), None, spec)) == "x: [n, 3]\ny: [8]"
    assert contract_of(Two(), (X, Y)).is_static
    assert contract_of(Two(), (X, Y), {}, {"x": (Dim.STATIC, 3), "y": None}).is_static
    assert contract_of(Two(), (X,), {"y": Y}, {"x": None, "y": (2 * N,)}).inputs[1].dims == (2 * N,)


def test_nested_inputs_and_variable_arguments():
    args = (X, {"k": [Y, Y], "j": (X, None, 3)}, Y, X)
    kwargs = {"scale": X, "other": Y}
    spec = {"x": None, "d": {"k": [{0: N}, None], "j": ({0: A}, None, None)}, "rest": (None, (A, None)),
            "scale": None, "more": {"other": {0: N}}}
    contract = contract_of(Nested(), args, kwargs, spec)
    assert [sizes.name for sizes in contract.inputs] == [
        "x", "d['k'][0]", "d['k'][1]", "d['j'][0]", "d['j'][1]", "d['j'][2]", "rest[0]", "rest[1]", "scale", "other"]
    flat = pytree.tree_flatten((args, kwargs))[0]
    assert len(flat) == len(contract.inputs)
    for sizes, leaf in zip(contract.inputs, flat, strict=True):
        assert sizes.tensor is (leaf if isinstance(leaf, torch.Tensor) else None)
    assert contract.uses["n"][1][2] is N and contract.examples == {"n": 8}
    by_own_name = {**spec, "other": {0: N}}
    del by_own_name["more"]
    assert str(contract_of(Nested(), args, kwargs, by_own_name)) == str(contract)


def test_dataclasses():
    point = Point(X, Y)
    for spec in ([{0: A}, None], {"x": {0: A}, "y": None}, Point({0: A}, None)):  # type: ignore[arg-type]
        contract = contract_of(Two(), (point, X), None, {"x": spec, "y": None})
        assert [sizes.dims for sizes in contract.inputs] == [(A, None), (None,), (None, None)]
        assert contract.inputs[0].name == "x.x"


@pytest.mark.parametrize("spec, says", [
    ({"x": None}, "nothing about the input 'y'"),
    ({"x": None, "z": None, "y": None}, "'z', which is none of the inputs (x, y)"),
    (({0: N},), "1 entries for 2 inputs"),
    ("x", "dynamic_shapes is a str"),
    ({"x": {2: N}, "y": None}, "dimension 2 of x, which has 2 dimensions"),
    ({"x": {"0": N}, "y": None}, "dimension '0' of x"),
    ({"x": (N,), "y": None}, "1 entries for x, which has 2 dimensions"),
    ({"x": N, "y": None}, "gives n for the tensor x"),
    ({"x": {0: "n"}, "y": None}, "gives 'n' for x.shape[0]"),
    ({"x": {0: 5}, "y": None}, "declared to be 5, but the example has 4"),
    ({"x": {0: Dim("n", max=3)}, "y": None}, "is 4, outside of the declared range"),
    ({"x": {0: Dim("n", min=5)}, "y": None}, "is 4, outside of the declared range"),
    ({"x": {0: A(max=3)}, "y": None}, "is 4, outside of the declared range"),
    ({"x": {0: N}, "y": {0: N}}, "but the example has 8"),
    ({"x": {1: 2 * N}, "y": None}, "there is no n"),
    ({"x": {0: N}, "y": {0: Dim("n", max=9)}}, "two dims are called n"),
])
def test_malformed_declarations(spec, says):
    with pytest.raises(UserCodeError) as caught:
        contract_of(Two(), (X, Y), None, spec)
    assert says in str(caught.value)


@pytest.mark.parametrize("d, spec, says", [
    ({"k": X}, {"j": None}, "the keys ['j'] for d, which has ['k']"),
    ([X, Y], [None], "1 entries for d, which has 2 items"),
    ([X, Y], N, "a list with 2 items"),
    (3, {0: N}, "which is a number"),
    (3.5, N, "which is a number"),
    (0.0, Dim.DYNAMIC, "finite and not 0"),
    (1 << 70, Dim.DYNAMIC, "less than 61 bits"),
    (5, Dim.AUTO(max=4), "outside of the range"),
    ("text", N, "a str and no tensor"),
])
def test_malformed_declarations_of_nested_inputs(d, spec, says):
    with pytest.raises(UserCodeError) as caught:
        contract_of(Nested(), (X, d), None, {"x": None, "d": spec})
    assert says in str(caught.value)


def test_wrong_arguments():
    with pytest.raises(UserCodeError, match="does not take these arguments"):
        contract_of(Two(), (X,), None, None)


def test_declarations_by_tensor():
    first, second = torch.ones(4, 3), torch.ones(8)
    sizes = ShapesCollection()
    sizes[first] = {0: N}
    sizes[second][0] = 2 * N
    contract = contract_of(Nested(), (first, {"a": [second]}), None, sizes)
    assert str(contract) == "x: [n, 3]\nd['a'][0]: [2*n]"
    with pytest.raises(UserCodeError, match="two declarations"):
        sizes[first] = {0: A}
    with pytest.raises(UserCodeError, match="not among the inputs"):
        contract_of(Nested(), (first, {"a": []}), None, sizes)
    with pytest.raises(UserCodeError, match="as a key"):
        sizes[3] = None


def test_declarations_by_examples():
    more = AdditionalInputs()
    more.add((torch.ones(7, 3), {"a": [torch.ones(8)]}))
    more.add((torch.ones(4, 3), {"a": [torch.ones(9)]}), {})
    contract = contract_of(Nested(), (X, {"a": [Y]}), None, more)
    assert [sizes.dims for sizes in contract.inputs] == [(Dim.DYNAMIC, None), (Dim.DYNAMIC,)]
    more.add((torch.ones(4, 3), {"b": [torch.ones(9)]}))
    with pytest.raises(UserCodeError, match="another structure"):
        contract_of(Nested(), (X, {"a": [Y]}), None, more)


# ShapesSpec of torch


@pytest.fixture
def spec():
    return pytest.importorskip("torch.fx.experimental.dynamic_spec", reason="this torch has no dynamic_spec")


class Join(torch.nn.Module):
    def forward(self, x, pair, *rest, scale=1, **named):
        return torch.cat([x, pair[0], pair[1]["a"], *rest]) * scale + named["bias"]


@pytest.mark.parametrize("strict", [True, False])
def test_shapes_spec(spec, strict):
    n, m = spec.ShapeVar("n", min=2, max=64), spec.ShapeVar("n")  # two that only have the same name
    declared = spec.ShapesSpec(spec.ParamsSpec({
        "x": spec.TensorSpec([n]), "pair": spec.SeqSpec([spec.TensorSpec([2 * n + 1])]),
        "*args": [spec.TensorSpec([m])]}))
    args = (torch.ones(3), (torch.ones(7), {"a": torch.ones(4)}), torch.ones(5))
    program = export(Join(), args, {"bias": torch.ones(1)}, dynamic_shapes=declared, strict=strict)
    module = program.module()
    right = (torch.ones(10), (torch.ones(21), {"a": torch.ones(4)}), torch.ones(6))
    assert module(*right, bias=torch.ones(1)).shape == (41,)
    for wrong in (torch.ones(10), (torch.ones(22), {"a": torch.ones(4)}), torch.ones(6)), \
            (torch.ones(10), (torch.ones(21), {"a": torch.ones(5)}), torch.ones(6)):
        with pytest.raises(InputMismatchError):
            module(*wrong, bias=torch.ones(1))


def test_what_a_shapes_spec_cannot_say_of_exports(spec):
    n, m = spec.ShapeVar("n"), spec.ShapeVar("m")
    for params, message in ({"x": spec.TensorSpec([n * m])}, "declares a size as"), ({"y": None}, "speaks of 'y'"):
        with pytest.raises(UserCodeError, match=message):
            export(Add1(), (torch.ones(4),), dynamic_shapes=spec.ShapesSpec(spec.ParamsSpec(params)))


class Add1(torch.nn.Module):
    def forward(self, x):
        return x + 1
