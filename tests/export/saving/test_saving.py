"""Saving exported programs and loading them: the same program again, and nothing but that."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import json
import zipfile
from collections import OrderedDict, namedtuple
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import firesteel as fs
from firesteel.export import Dim, ExportedProgram, SavedProgramError

Pair = namedtuple("Pair", ["first", "second"])  # noqa: PYI024
torch.manual_seed(0)


@dataclasses.dataclass
class Scored:
    """A result that users have registered as a container."""

    value: Any
    extra: Any = None


torch.utils._pytree.register_dataclass(Scored)


class Norms(nn.Module):
    """Tied weights, buffers that share memory, a buffer that changes, one that is not saved."""

    def __init__(self) -> None:
        super().__init__()
        self.lin = nn.Linear(6, 4)
        self.again = self.lin
        self.bn = nn.BatchNorm1d(4)
        self.register_buffer("table", torch.arange(8.0).view(2, 4).t())
        self.register_buffer("row", self.table[1])
        self.register_buffer("hidden", torch.ones(4), persistent=False)

    def forward(self, x: torch.Tensor) -> Any:
        y = self.bn(self.lin(x)).relu_()
        return {"y": y, "more": (y.sum() + self.again(x).sum(), self.table + 1, self.row * self.hidden.sum())}


class Images(nn.Module):
    """Weights with strides of their own, and sizes that follow from others."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3).to(memory_format=torch.channels_last)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.conv(x)
        return y.flatten(1)[:, : y.shape[2]] * y.shape[0]


class Containers(nn.Module):
    """Many containers, constants and a region without gradients."""

    def forward(self, x: torch.Tensor, *, named: Any, scale: float = 1.5) -> Any:
        with torch.no_grad():
            z = x * torch.tensor([1.0, 2.0])
        kept = OrderedDict(b=z, a=named.first)
        return Scored(value=[x * scale, None, "text"], extra=Pair(kept, (named.second["k"].to(torch.complex128) * 1j,)))


class Data(nn.Module):
    """A size that data decides."""

    def forward(self, x: torch.Tensor, n: torch.Tensor) -> torch.Tensor:
        size = n.item()
        torch._check(size >= 2)
        torch._check(size <= x.shape[0])
        return x[:size] * float("inf")


def _containers_input(rows: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return (torch.randn(rows, 2),), {"named": Pair(torch.randn(3), {"k": torch.randn(2)})}


CASES: dict[str, Any] = {
    "norms": (Norms, lambda n: ((torch.randn(n, 6),), {}), {"x": {0: Dim("batch", min=2, max=50)}}),
    "images": (Images, lambda n: ((torch.randn(n, 3, 2 * n, 9),), {}), {"x": {0: Dim.AUTO, 2: Dim.AUTO}}),
    "containers": (Containers, _containers_input, None),
    "data": (Data, lambda n: ((torch.randn(9, 3), torch.tensor(n)), {}), None),
}


def export_case(name: str) -> tuple[nn.Module, ExportedProgram]:
    """A module and its program."""
    kind, inputs, dynamic = CASES[name]
    module = kind()
    args, kwargs = inputs(4)
    return module, fs.export.export(module, args, kwargs, dynamic_shapes=dynamic)


def assert_equal(got: Any, want: Any) -> None:
    """The same results in the same containers."""
    (left, left_spec), (right, right_spec) = map(torch.utils._pytree.tree_flatten, (got, want))
    assert left_spec == right_spec
    for one, other in zip(left, right, strict=True):
        if isinstance(one, torch.Tensor):
            torch.testing.assert_close(one, other, rtol=0, atol=0, equal_nan=True, check_stride=True)
        else:
            assert one == other


@pytest.mark.parametrize("name", sorted(CASES))
def test_loaded_programs_are_the_saved_ones(name: str, tmp_path: Path) -> None:
    module, program = export_case(name)
    path = tmp_path / "program.firesteel"
    fs.export.save(program, path)
    loaded = fs.export.load(path)
    assert str(loaded) == str(program)
    assert loaded.in_spec == program.in_spec and loaded.out_spec == program.out_spec
    assert list(loaded.state_dict) == list(program.state_dict)
    for key, tensor in program.state_dict.items():
        other = loaded.state_dict[key]
        torch.testing.assert_close(other, tensor, rtol=0, atol=0, check_stride=True)
        assert type(other) is type(tensor) and other.requires_grad == tensor.requires_grad
    _, inputs, dynamic = CASES[name]
    want, got = program.module(), loaded.module()
    for rows in (3, 5) if dynamic else (4,):
        args, kwargs = inputs(rows)
        assert_equal(got(*args, **kwargs), want(*copy.deepcopy(args), **kwargs))
    if name == "norms":
        torch.testing.assert_close(got(torch.ones(5, 6)), module(torch.ones(5, 6)), rtol=1.3e-6, atol=1.0)


def test_loaded_programs_train_save_and_decompose(tmp_path: Path) -> None:
    _, program = export_case("norms")
    fs.export.save(program, tmp_path / "a")
    loaded = fs.export.load(tmp_path / "a")
    x = torch.randn(5, 6)
    results = []
    for each in (program, loaded):
        module = each.module()
        module(x)["more"][0].backward()
        results.append([parameter.grad for parameter in module.parameters()])
    torch.testing.assert_close(results[1], results[0], rtol=0, atol=0)
    fs.export.save(loaded, tmp_path / "b")
    assert (tmp_path / "a").read_bytes()[:100] == (tmp_path / "b").read_bytes()[:100]
    assert str(fs.export.load(tmp_path / "b")) == str(program)
    functional = loaded.run_decompositions({})
    assert str(functional.graph) == str(program.run_decompositions({}).graph)
    fs.export.save(functional, tmp_path / "c")
    assert str(fs.export.load(tmp_path / "c")) == str(functional)


def test_shared_memory_is_shared_again(tmp_path: Path) -> None:
    _, program = export_case("norms")
    fs.export.save(program, tmp_path / "a")
    state = fs.export.load(tmp_path / "a").state_dict
    assert state["again.weight"] is state["lin.weight"]
    state["table"][1, 1] = 77
    assert state["row"][1] == 77


def test_containers_of_unknown_classes_become_dictionaries(tmp_path: Path) -> None:
    _, program = export_case("containers")
    fs.export.save(program, tmp_path / "a")
    rewrite(tmp_path / "a", lambda saved, head: _rename_class(saved["calls"][0]["signature"]["out_tree"]))
    with pytest.warns(fs.errors.FiresteelWarning, match="elsewhere.Scored"):
        module = fs.export.load(tmp_path / "a").module()
    args, kwargs = _containers_input(4)
    want, got = program.module()(*args, **kwargs), module(*args, **kwargs)
    assert list(got) == ["value", "extra"]
    assert_equal(got["value"], want.value)
    assert_equal(got["extra"], want.extra)


def _rename_class(tree: Any) -> None:
    assert tree["type"].endswith("Scored")
    tree["type"] = "elsewhere.Scored"


def test_contract_is_checked_after_loading(tmp_path: Path) -> None:
    _, program = export_case("norms")
    fs.export.save(program, tmp_path / "a")
    module = fs.export.load(tmp_path / "a").module()
    with pytest.raises(fs.export.InputMismatchError, match="batch must be <= 50, but is 51"):
        module(torch.randn(51, 6))


def test_parts_are_readable_and_extra_files_kept(tmp_path: Path) -> None:
    _, program = export_case("images")
    fs.export.save(program, tmp_path / "a", extra_files={"notes.txt": "trained on Monday"})
    with zipfile.ZipFile(tmp_path / "a") as archive:
        assert set(archive.namelist()) == {"manifest.json", "program.json", "program.txt", "weights.safetensors",
                                           "examples.safetensors", "extra/notes.txt"}  # fmt: skip
        assert json.loads(archive.read("program.json"))["graph"]["nodes"][-1]["op"] == "output"
        assert "conv2d" in archive.read("program.txt").decode()
        (tmp_path / "w.safetensors").write_bytes(archive.read("weights.safetensors"))
    extra = {"notes.txt": b""}
    fs.export.load(tmp_path / "a", extra_files=extra)
    assert extra["notes.txt"] == b"trained on Monday"


def test_saving_something_else_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SavedProgramError, match="takes an ExportedProgram"):
        fs.export.save(nn.Linear(2, 2), tmp_path / "a")  # type: ignore[arg-type]
    assert not list(tmp_path.iterdir())


# ---------------------------------------------------------------------------------------------------------------------
# files that are not what they should be


def rewrite(path: Path, change: Any) -> None:
    """Change a saved program's JSON, with checksums that fit."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    saved, manifest = json.loads(parts["program.json"]), json.loads(parts["manifest.json"])
    change(saved, manifest)
    parts["program.json"] = json.dumps(saved).encode()
    digest = hashlib.sha256(parts["program.json"]).hexdigest()
    manifest["files"]["program.json"] = {"bytes": len(parts["program.json"]), "sha256": digest}
    parts["manifest.json"] = json.dumps(manifest).encode()
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in parts.items():
            archive.writestr(name, data)


def node_of(saved: Any, op: str) -> Any:
    return next(node for node in saved["graph"]["nodes"] if node["op"] == op)


def call_of(saved: Any) -> Any:
    return node_of(saved, "call_function")


def tensor_of(saved: Any) -> Any:
    return next(entry for entry in saved["state"] if entry["name"] == "lin.weight")


def _set(holder: Any, key: str, value: Any) -> None:
    holder[key] = value


CODE = "x): __import__('os').system('touch hacked')\n    return (x"
LIST_AS_KEY = {"tuple": [{"tuple": [None]}, {"dict": [None], "context": [["k"]]}]}
CHANGES: dict[str, tuple[Any, str]] = {
    "a newer version": (lambda s, h: _set(h, "version", 99), "99"),
    "another format": (lambda s, h: _set(h, "format", "tar"), "not a firesteel program"),
    "a function": (lambda s, h: _set(call_of(s), "target", "os.system"), "not a function"),
    "an import": (lambda s, h: _set(call_of(s), "target", "builtins.eval"), "not a function"),
    "an unknown operator": (lambda s, h: _set(call_of(s), "target", "mine::op.default"), "no operator"),
    "a file operator": (lambda s, h: _set(call_of(s), "target", "aten::from_file.default"), "not a func"),
    "code as a name": (lambda s, h: _set(node_of(s, "placeholder"), "name", CODE), "is no name"),
    "code as an argument": (lambda s, h: _set(node_of(s, "placeholder"), "target", CODE), "is no name"),
    "code as a keyword": (lambda s, h: _set(call_of(s), "kwargs", {CODE: 1}), "is no name"),
    "a missing field": (lambda s, h: s.pop("graph"), "there is no graph"),
    "a wrong field": (lambda s, h: _set(s, "symbols", 3), "expected a list"),
    "a wrong expression": (lambda s, h: _set(s, "ranges", [{"expr": "f(", "lower": 1, "upper": 2}]), "expression"),
    "a node that is not there": (lambda s, h: _set(call_of(s), "args", [{"node": "q"}]), "used before"),
    "no data": (lambda s, h: _set(tensor_of(s), "key", "q"), "data is missing"),
    "another shape": (lambda s, h: _set(tensor_of(s), "shape", [10**9, 10**9]), "another shape"),
    "a list as a key": (lambda s, h: _set(s["calls"][0]["signature"], "in_tree", LIST_AS_KEY), "a dict with the keys"),
    "a call of nothing": (lambda s, h: _set(s["calls"][0]["signature"], "in_tree", {"list": []}), "without a tuple"),
    "a class": (lambda s, h: _set(s["calls"][0]["signature"], "in_tree", {"registered": [], "type": "os.X"}), "os.X"),
}


@pytest.mark.parametrize("what", sorted(CHANGES))
def test_changed_files_give_clear_errors(what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    _, program = export_case("norms")
    fs.export.save(program, tmp_path / "a")
    change, message = CHANGES[what]
    rewrite(tmp_path / "a", change)
    with pytest.raises(SavedProgramError, match=message):
        fs.export.load(tmp_path / "a").module()(torch.randn(4, 6))
    assert not (tmp_path / "hacked").exists()


def test_no_file_and_no_archive(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="none"):
        fs.export.load(tmp_path / "none")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(SavedProgramError, match="damaged"):
        fs.export.load(tmp_path / "text")


def test_damaged_files_are_errors_or_equal(tmp_path: Path) -> None:
    from tests.export.saving.damage import damage_all

    _, program = export_case("norms")
    found = damage_all(program, (torch.randn(4, 6),), tmp_path, count=60, seed=3)
    assert found["wrong"] == 0 and found["crash"] == 0, found
    assert found["error"] > 30 and found["error"] + found["equal"] == 60


def test_files_of_torch_and_files_that_are_not_there(tmp_path):
    path, module = tmp_path / "model.pt2", torch.nn.Linear(2, 2)
    with pytest.raises(FileNotFoundError, match="model.pt2"):
        fs.export.load(path)
    fs.export.save(fs.export.export(module, (torch.ones(1, 2),)), path)  # in torch's format, as its name says
    with pytest.raises(fs.export.PackageError, match="(?s)written by torch.export.save.*read it with torch.export"):
        fs.export.load_package(path)
    torch.save(module.state_dict(), path)
    with pytest.raises(SavedProgramError, match="(?s)written by torch.save.*read it with torch.load"):
        fs.export.load(path)
    fs.export.package(fs.export.export(module, (torch.ones(1, 2),)), path)
    with pytest.raises(SavedProgramError, match="(?s)not a firesteel program.*load_package what fs"):
        fs.export.load(path)
