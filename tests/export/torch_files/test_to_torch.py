"""`to_torch`: torch's ExportedProgram of a program passes torch's verifier, runs, is saved and loaded by torch."""

from __future__ import annotations

import io
from typing import Any

import pytest
import torch
import torch.export
from tests.export.torch_files.models import MODELS, Inputs, Model
from tests.export.torch_files.test_reading import same

import firesteel as fs


def exported(model: Model) -> fs.export.ExportedProgram:
    """firesteel's program of a model."""
    shapes = None if model.shapes is None else model.shapes(fs.export.Dim)
    program = fs.export.export(model.module(), model.args(), model.kwargs(), dynamic_shapes=shapes)
    return program.run_decompositions() if model.decomposed else program


def runs(program: Any, model: Model) -> None:
    """Equal to eager on all inputs; what is outside of the contract raises.

    In torch's programs results of cond always have gradients, and a None as input is not looked at.
    """
    own = isinstance(program, fs.export.ExportedProgram)
    eager, module = model.eager(), program.module()
    for make in (model.args, *model.further):
        given = make()
        same(module(*given, **model.kwargs()), eager(*given, **model.kwargs()), own or model.plain is None)
    for make in model.refuses if own or model.make is not Inputs else ():
        with pytest.raises((RuntimeError, AssertionError)):
            module(*make(), **model.kwargs())


@pytest.mark.parametrize("name", MODELS)
def test_there_and_back(name: str) -> None:
    model = MODELS[name]
    program = exported(model)
    theirs = fs.export.to_torch(program)
    theirs.validate()
    assert [spec.kind.name for spec in theirs.graph_signature.input_specs] == [
        spec.kind.name for spec in program.graph_signature.input_specs]
    assert theirs.graph_signature.user_inputs == program.graph_signature.user_inputs
    assert list(theirs.state_dict) == list(program.state_dict)
    assert all(theirs.state_dict[key] is tensor for key, tensor in program.state_dict.items())
    assert sorted(map(str, theirs.range_constraints.values())) == sorted(map(str, program.range_constraints.values()))
    file = io.BytesIO()
    torch.export.save(theirs, file)
    file.seek(0)
    back = fs.export.load(file)
    back.validate()
    runs(theirs, model)
    runs(back, model)


def test_further_conditions_are_checked() -> None:
    class Halves(torch.nn.Module):
        def forward(self, x, y):
            return x.reshape(-1, 4), y[1:] + x

    dim = fs.export.Dim("n", min=4, max=64)
    program = fs.export.export(Halves(), (torch.ones(8), torch.ones(9)),
                               dynamic_shapes={"x": {0: fs.export.Dim.AUTO}, "y": {0: fs.export.Dim.AUTO}})
    module = fs.export.to_torch(program).module()
    same(module(torch.ones(12), torch.ones(13)), Halves()(torch.ones(12), torch.ones(13)))
    for wrong in ((torch.ones(6), torch.ones(7)), (torch.ones(8), torch.ones(10))):
        with pytest.raises((RuntimeError, AssertionError)):
            module(*wrong)
    ranged = fs.export.to_torch(fs.export.export(torch.nn.ReLU(), (torch.ones(8),), dynamic_shapes=({0: dim},)))
    with pytest.raises((RuntimeError, AssertionError)):
        ranged.module()(torch.ones(65))


def test_tools_of_torch_take_it() -> None:
    model = MODELS["sizes"]
    theirs = fs.export.to_torch(exported(model))
    for make in (lambda: torch.export.unflatten(theirs), lambda: theirs.run_decompositions({}).module()):
        given = model.args()
        same(make()(*given), model.eager()(*given))


def test_the_name_decides_the_format(tmp_path) -> None:
    program = exported(MODELS["state"])
    fs.export.save(program, tmp_path / "state.pt2", extra_files={"notes.txt": "here"})
    fs.export.save(program, tmp_path / "state.firesteel")
    runs(torch.export.load(tmp_path / "state.pt2"), MODELS["state"])
    extra = {"notes.txt": b""}
    runs(fs.export.load(tmp_path / "state.pt2", extra_files=extra), MODELS["state"])
    assert extra["notes.txt"] == b"here"
    runs(fs.export.load(tmp_path / "state.firesteel"), MODELS["state"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["state.firesteel", "state.pt2"]


def test_what_torch_has_no_form_for(tmp_path) -> None:
    class Text(torch.nn.Module):
        def forward(self, x):
            return x, "text"

    program = fs.export.export(Text(), (torch.ones(2),))
    with pytest.raises(fs.export.SavedProgramError, match="text"):
        fs.export.to_torch(program)
    with pytest.raises(fs.export.SavedProgramError, match=r"\.firesteel"):
        fs.export.save(program, tmp_path / "text.pt2")
    assert not list(tmp_path.iterdir())
    fs.export.save(program, tmp_path / "text.firesteel")


def test_custom_operators_that_write() -> None:
    @torch.library.custom_op("interop_test::add_into", mutates_args=("out",))
    def add_into(x: torch.Tensor, out: torch.Tensor) -> None:
        out.add_(x)

    class Into(torch.nn.Module):
        def forward(self, x):
            out = torch.zeros_like(x)
            add_into(x, out)
            return out * 2

    for program in (fs.export.export(Into(), (torch.ones(3),)),
                    fs.export.export(Into(), (torch.ones(3),)).run_decompositions()):
        theirs = fs.export.to_torch(program)
        file = io.BytesIO()
        torch.export.save(theirs, file)
        file.seek(0)
        for module in (theirs.module(), fs.export.load(file).module()):
            same(module(torch.arange(3.0)), torch.arange(3.0) * 2)
