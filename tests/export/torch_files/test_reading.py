"""Files of `torch.export.save` are read: what comes out equals eager, and what is damaged or unsafe is refused."""

from __future__ import annotations

import io
import json
import random
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.export.torch_files.models import DATA, MODELS
from torch.utils._pytree import tree_flatten, tree_map

import firesteel as fs
from firesteel.export.torch_files.expressions import read_expression, write_expression
from firesteel.shapes.expr import symbol


def same(got: Any, want: Any, gradients: bool = True) -> None:
    """Equal in values, dtypes and structure, and ``gradients`` in whether there are any."""
    (mine, spec), (wanted, other) = tree_flatten(got), tree_flatten(want)
    assert spec == other
    for one, two in zip(mine, wanted, strict=True):
        assert type(one) is type(two)
        if isinstance(two, torch.Tensor):
            torch.testing.assert_close(one, two, equal_nan=True)
            assert one.requires_grad == two.requires_grad or not gradients
        else:
            assert one == two


@pytest.mark.parametrize("name", MODELS)
def test_equal_to_eager(name: str) -> None:
    model, extra = MODELS[name], {"notes.txt": b""}
    program = fs.export.load(DATA / f"{name}.pt2", extra_files=extra)
    assert extra["notes.txt"] == f"of {name}".encode()
    eager, module = model.eager(), program.module()
    for make in (model.args, *model.further):
        given = make(), model.kwargs()
        copies = tree_map(lambda leaf: leaf.clone() if isinstance(leaf, torch.Tensor) else leaf, given)
        same(module(*given[0], **given[1]), eager(*copies[0], **copies[1]))
        same(given, copies)
    for name_, buffer in eager.named_buffers():
        same(dict(module.named_buffers())[name_], buffer)
    for make in model.refuses:
        with pytest.raises((RuntimeError, fs.export.InputMismatchError)):
            module(*make(), **model.kwargs())


def test_what_the_file_says_is_kept() -> None:
    program = fs.export.load(DATA / "state.pt2")
    signature = program.graph_signature
    assert set(signature.parameters) == {"lin.weight", "lin.bias", "tied"}
    assert signature.non_persistent_buffers == ("offset",)
    assert program.state_dict["tied"] is program.state_dict["lin.weight"]
    assert program.example_inputs is not None and program.example_inputs[0][0].shape == (2, 4)
    assert "in forward, code: self.count.add_(1)" in str(program)
    sizes = fs.export.load(DATA / "sizes.pt2")
    assert sorted(map(str, sizes.range_constraints.values())) == ["VR[2, 16]", "VR[2, int_oo]"]
    assert any("% 2 == 0" in str(guard.expr) for guard in sizes.guards)
    decomposed = fs.export.load(DATA / "state_decomposed.pt2")
    assert list(decomposed.graph_signature.buffers_to_mutate.values()) == ["count"]


def test_loaded_programs_go_on() -> None:
    """They are decomposed, compiled, trained and saved again."""
    program = fs.export.load(DATA / "modes.pt2")
    x = torch.rand(2, 3)
    want = program.module()(x)
    same(program.run_decompositions().module()(x), want)
    file = io.BytesIO()
    fs.export.save(program, file)
    file.seek(0)
    same(fs.export.load(file).module()(x), want)
    module = program.module()
    module(x)[1].sum().backward()
    assert module.lin.weight.grad is not None
    same(fs.compile(program.module(), backend="eager")(x), want)


def test_devices_and_open_files() -> None:
    with open(DATA / "state.pt2", "rb") as file:
        program = fs.export.load(file, device="cpu")
    assert program.state_dict["lin.bias"].device.type == "cpu"
    with pytest.raises(FileNotFoundError):
        fs.export.load("nothing_here.pt2")


def changed(name: str, tmp_path: Path, part: str, change: Callable[[Any], Any]) -> Path:
    """A copy of a file of which one part of JSON is another."""
    path = tmp_path / "changed.pt2"
    with zipfile.ZipFile(DATA / f"{name}.pt2") as old, zipfile.ZipFile(path, "w") as new:
        for info in old.infolist():
            data = old.read(info)
            if info.filename.endswith(part):
                loaded = json.loads(data)
                data = json.dumps(change(loaded) or loaded).encode()
            new.writestr(info.filename, data)
    return path


def _node(data: Any, number: int = 0) -> Any:
    return data["graph_module"]["graph"]["nodes"][number]


DAMAGE: dict[str, tuple[str, Callable[[Any], Any], str]] = {
    "another version": ("model.json", lambda data: data["schema_version"].update(major=9), "version 9"),
    "no operator": ("model.json", lambda data: _node(data).update(target="torch.ops.aten.nothing.Tensor"),
                    "no operator"),
    "a file is read": ("model.json", lambda data: _node(data).update(target="torch.ops.aten.from_file.default"),
                       "not a function that programs call"),
    "a function of Python": ("model.json", lambda data: _node(data).update(target="os.system"), "os.system"),
    "an operator with graphs": ("model.json",
                                lambda data: _node(data).update(target="torch.ops.higher_order.unknown"), "unknown"),
    "casts that are not written": (
        "model.json", lambda data: _node(data).update(target="torch.ops.higher_order.wrap_with_autocast"),
        "run_decompositions"),
    "code as a name": ("model.json", lambda data: data["graph_module"]["graph"]["inputs"][0].update(
        as_tensor={"name": "x; import os"}), "cannot|name|missing|inputs"),
    "code as a size": ("model.json", lambda data: data["range_constraints"].update(
        {"__import__('os').getcwd()": {"min_val": 0, "max_val": 1}}), "expression"),
    "code as a condition": ("model.json", lambda data: data.update(guards_code=["open('x')"]), "expression"),
    "a condition that cannot be read": ("model.json", lambda data: data.update(guards_code=["L['z'].size()[0] == 2"]),
                                        "expression"),
    "a factory": ("model.json", lambda data: data["graph_module"]["module_call_graph"][0]["signature"].update(
        out_spec=json.dumps([1, {"type": "collections.defaultdict", "context": {
            "default_factory_module": "os", "default_factory_name": "getcwd", "dict_context": ["a", "b"]},
            "children_spec": [{"type": None, "context": None, "children_spec": []}] * 2}])), "defaultdict"),
    "a number as the name of an argument": ("model.json", lambda data: data["graph_module"]["module_call_graph"][0][
        "signature"].update(forward_arg_names=[3]), "argument_names"),
    "no signature": ("model.json", lambda data: data["graph_module"].pop("signature") and None, "signature"),
    "a pickled weight": ("weights_config.json",
                         lambda data: data["config"]["lin.bias"].update(use_pickle=True), "torch.export.load"),
    "a weight that is not there": ("weights_config.json",
                                   lambda data: data["config"]["lin.bias"].update(path_name="weight_99"), "missing"),
    "a weight outside of its memory": ("weights_config.json", lambda data: data["config"]["lin.bias"][
        "tensor_meta"].update(sizes=[{"as_int": 4}], storage_offset={"as_int": 100}), "out of bounds"),
    "a dtype": ("weights_config.json", lambda data: data["config"]["lin.bias"]["tensor_meta"].update(dtype=99),
                "dtype"),
}


@pytest.mark.parametrize("what", DAMAGE)
def test_what_is_refused(what: str, tmp_path: Path) -> None:
    part, change, said = DAMAGE[what]
    with pytest.raises(fs.export.SavedProgramError, match=said):
        fs.export.load(changed("state", tmp_path, part, change))


def test_damaged_archives(tmp_path: Path) -> None:
    whole = (DATA / "state.pt2").read_bytes()
    path = tmp_path / "cut.pt2"
    path.write_bytes(whole[:len(whole) // 2])
    with pytest.raises(fs.export.SavedProgramError):
        fs.export.load(path)
    middle = whole.index(b"graph_module")
    path.write_bytes(whole[:middle] + b"X" + whole[middle + 1:])
    with pytest.raises(fs.export.SavedProgramError, match="damaged"):
        fs.export.load(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("m/archive_format", "pt2")
        archive.writestr("m/data/aotinductor/model/model.so", "")
    with pytest.raises(fs.export.SavedProgramError, match="machine code"):
        fs.export.load(path)


def _paths(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The ways to everything in parsed JSON."""
    if path:
        yield path
    for key, item in data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ():
        yield from _paths(item, (*path, key))


def test_random_changes_are_errors_or_programs(tmp_path: Path) -> None:
    outcomes: Counter[str] = Counter()
    for seed in range(60):
        dice = random.Random(seed)

        def change(data: Any, dice: random.Random = dice) -> None:
            *way, last = dice.choice(list(_paths(data)))
            place = data
            for key in way:
                place = place[key]
            place[last] = dice.choice([None, 0, -1, 2**70, "x", "", [], {}, True, 1.5, {"as_int": 3}, {"name": "x"}])

        part = dice.choice(["model.json", "weights_config.json"])
        path = changed(dice.choice(["state", "sizes", "branches", "modes"]), tmp_path, part, change) \
            if part == "model.json" else changed("state", tmp_path, part, change)
        try:
            fs.export.load(path).module()
            outcomes["loaded"] += 1
        except fs.export.SavedProgramError:
            outcomes["refused"] += 1
    assert outcomes["refused"] > 30 and sum(outcomes.values()) == 60


@pytest.mark.parametrize("text", [
    "s0 + 1", "s0*s1 // 3", "(s0 + 2*s1) % 4 == 0", "max(s0, 4) >= s1", "min(s0, s1) - 3*s0**2", "s0 != s1 + 1",
    "float(s0) / 2.0", "not (s0 < 3 and s1 < 5)", "s0 if s1 > 2 else 3", "-(-s0 // 8)",
])  # fmt: skip
def test_expressions_come_back(text: str) -> None:
    from firesteel.shapes.parsing import parse

    expr = parse(text, [symbol("s0"), symbol("s1")])
    assert read_expression(write_expression(expr)) is expr
