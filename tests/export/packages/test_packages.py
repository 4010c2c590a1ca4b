"""Packages in Python: the same results as eager, with sizes that vary, changes of state, and clear errors."""

from __future__ import annotations

import json
import subprocess
import zipfile
from collections import namedtuple

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils import _pytree as pytree

import firesteel as fs
from firesteel.export import Dim, InputMismatchError, PackageError, export
from firesteel.export.packages.weights import read_head
from firesteel.kernels.shared_object import linking
from firesteel.kernels.shared_object.planned import NotPackageable

Pair = namedtuple("Pair", ["left", "right"])


class Function(nn.Module):
    """A module of a function and what it uses."""

    def __init__(self, function, **state):
        super().__init__()
        self.function = function
        for name, value in state.items():
            if isinstance(value, torch.Tensor) and not isinstance(value, nn.Parameter):
                self.register_buffer(name, value)
            else:
                setattr(self, name, value)

    def forward(self, *args, **kwargs):
        return self.function(self, *args, **kwargs)


def packed(module, args, path, *, dynamic_shapes=None, strict=False, **options):
    with torch.no_grad():
        program = export(module, args, dynamic_shapes=dynamic_shapes, strict=strict)
    return fs.export.load_package(fs.export.package(program, path / "model.fsp", **options))


def check(package, module, args):
    """A call gives and changes what eager does."""
    own, eager = (pytree.tree_map(lambda leaf: leaf.clone() if isinstance(leaf, torch.Tensor) else leaf, args)
                  for _ in range(2))
    torch.manual_seed(1)
    with torch.no_grad():
        expected = module(*eager)
    torch.manual_seed(1)
    got = package(*own)
    torch.testing.assert_close(got, expected)
    for left, right in zip(pytree.tree_leaves(got), pytree.tree_leaves(expected), strict=True):
        if isinstance(right, torch.Tensor):
            assert left.stride() == right.stride() and left.dtype is right.dtype
    torch.testing.assert_close(own, eager, rtol=0, atol=0)


def randn(*shape):
    return torch.randn(shape, device="cpu", generator=torch.Generator("cpu").manual_seed(sum(shape)))


OPERATORS = {
    # calls of ATen with all kinds of arguments and results: numbers, Scalars, lists, texts, optional things
    "sorted": (lambda m, x: (torch.topk(x, 3), torch.sort(x, descending=True), x.cumsum(1), x.median(1)),
               (randn(4, 10),)),
    "products": (lambda m, x, y: (torch.addmm(x, x, y, beta=0.5, alpha=2.0), torch.einsum("ij,kj->ik", x, y),
                                  torch.linalg.inv(x @ x.mT + torch.eye(4))), (randn(4, 4), randn(4, 4) + 1)),
    "complex": (lambda m, x: (torch.fft.rfft(x).abs(), torch.view_as_real(torch.polar(x.abs(), x) + 0.5 - 2j),
                             torch.view_as_real(torch.polar(x.abs(), x) / 2)), (randn(4, 16),)),
    "complex numbers": (lambda m, x: [torch.view_as_real(y) if y.is_complex() else y for z in [torch.polar(x.abs(), x)]
                                      for y in (z * 1j + 2, 3 - z, z.var(0), z.std(0, correction=0, keepdim=True),
                                                torch.full((2,), 0j), F.pad(z, (1, 1)),
                                                z.index_add(1, torch.tensor([0, 2]), z[:, :2]))], (randn(4, 3),)),
    "attention": (lambda m, q, k, mask: (F.scaled_dot_product_attention(q, k, k, is_causal=True),
                                         F.scaled_dot_product_attention(q, k, k, attn_mask=mask)),
                  (randn(2, 2, 8, 4), randn(2, 2, 8, 4) * 2, torch.ones(8, 8).tril().bool())),
    "indices": (lambda m, x, i: (x[i, :2], x.scatter(1, i[:, None], 2.0), F.one_hot(i, 5), torch.searchsorted(i, i)),
                (randn(3, 4), torch.tensor([0, 2, 1]))),
    "data": (lambda m, x: (torch.nonzero(x > 0), x[x > 0] * 2, torch.unique(x > 0)), (randn(5, 4),)),
    "item": (lambda m, x: x * x.sum().item() + x.shape[0], (randn(5, 4),)),
    "views": (lambda m, x: (x, x.t(), x[1:], x.split(2, 1)), (randn(5, 4),)),
    "same": (lambda m, x: [(y, y, y.t()) for y in [x * 2]][0], (randn(5, 4),)),
    "random": (lambda m, x: (F.dropout(x, 0.5), torch.rand(3) + x.sum(), torch.randint(0, 9, (3,))), (randn(50, 4),)),
    "writes": (lambda m, x: x.mul_(2).sum(), (randn(5, 4),)),
    "reinterpreted": (lambda m, x: x.view(torch.int32), (randn(5, 4),)),
    "large": (lambda m, x, y: (torch.relu(x @ y), x.sin() * x.exp()), (randn(512, 256), randn(256, 128))),
    "bfloat16": (lambda m, x: F.gelu(m.linear(x.bfloat16())), (randn(4, 16),),
                 {"linear": nn.Linear(16, 8).bfloat16()}),
    "recurrent": (lambda m, x: m.lstm(x)[0] + m.gru(x)[0], (randn(5, 2, 3),),
                  {"lstm": nn.LSTM(3, 4), "gru": nn.GRU(3, 4)}),
    "convolutions": (lambda m, x: (m.plain(x), m.turned(x), m.spread(x)), (randn(2, 3, 8, 8),), {
        "plain": nn.Conv2d(3, 4, 3, padding=1), "turned": nn.ConvTranspose2d(3, 4, 3, stride=2, output_padding=1),
        "spread": nn.Conv2d(3, 6, 3, groups=3).to(memory_format=torch.channels_last)}),
    "state": (lambda m, x: (m.scale, x + m.scale.t(), x + torch.tensor([1.0, 2.0, 3.0])), (randn(3, 3),),
              {"scale": randn(3, 3).t()}),
}  # fmt: skip


@pytest.mark.parametrize("name", OPERATORS)
def test_operators(name, tmp_path):
    function, args, *state = OPERATORS[name]
    module = Function(function, **(state[0] if state else {})).eval()
    check(packed(module, args, tmp_path), module, args)


BATCH = Dim("batch", min=2, max=32)
AUTO = Dim.AUTO
SIZES = {
    "batch": (lambda m, x: m.linear(x).softmax(-1), {0: BATCH}, (3, 4), [(2, 4), (32, 4)], {"linear": nn.Linear(4, 5)}),
    "all": (lambda m, x: (x.flatten().cumsum(0), x.t() @ x, x.shape[0] * x.shape[1]), {0: AUTO, 1: AUTO}, (3, 4),
            [(7, 2), (2, 9)]),
    "derived": (lambda m, x: x.reshape(2, -1).sum(0), {0: 2 * BATCH}, (8,), [(12,), (4,)]),
    "convolution": (lambda m, x: m.conv(x).relu(), {0: BATCH, 2: AUTO, 3: AUTO}, (2, 3, 9, 9), [(4, 3, 12, 7)],
                    {"conv": nn.Conv2d(3, 4, 3, stride=2)}),
    "recurrent": (lambda m, x: m.lstm(x)[0] * 2, {0: AUTO}, (5, 2, 3), [(9, 2, 3)], {"lstm": nn.LSTM(3, 4)}),
    "data": (lambda m, x: x[x > 0].sum() + torch.nonzero(x > 0).shape[0], {0: BATCH}, (8,), [(12,)]),
}  # fmt: skip


@pytest.mark.parametrize("name", SIZES)
def test_sizes(name, tmp_path):
    function, dynamic, shape, others, *state = SIZES[name]
    module = Function(function, **(state[0] if state else {})).eval()
    package = packed(module, (randn(*shape),), tmp_path, dynamic_shapes=((dynamic,),), strict=True)
    for other in (shape, *others):
        check(package, module, (randn(*other),))


def nested_branches(m, x):
    if x.sum() > 0:
        if x.max() > 2:
            return m.linear(x).relu()
        return x * 2
    return x - 1


CONTROL_FLOW = {
    "branches": (nested_branches, {"linear": nn.Linear(3, 3)}),
    "while_loop": (lambda m, x: fs.while_loop(lambda a: a.abs().sum() < 30, lambda a: (a * 2 + 0.1,), (x,)), {}),
    "scan": (lambda m, x: fs.scan(lambda c, row: (torch.tanh(m.linear(row) + c), c * 2), torch.zeros(3), x),
             {"linear": nn.Linear(3, 3)}),
    "map": (lambda m, x: fs.map(lambda row: row.sin() + row.sum(), x), {}),
}  # fmt: skip


@pytest.mark.parametrize("name", CONTROL_FLOW)
def test_control_flow(name, tmp_path):
    function, state = CONTROL_FLOW[name]
    module = Function(function, **state).eval()
    package = packed(module, (randn(4, 3),), tmp_path, dynamic_shapes=(({0: BATCH},),), strict=True)
    for x in (randn(4, 3), randn(4, 3).abs() * 9, -randn(5, 3).abs(), randn(6, 3).abs() / 9, randn(3, 7).t()):
        with torch.no_grad():
            torch.testing.assert_close(package(x), module(x))


def test_nested_inputs_and_outputs(tmp_path):
    class Nested(nn.Module):
        def forward(self, pair, *, options, flag=True, text="add"):
            total = pair.left + pair.right + options["shift"]
            return {"total": total, "parts": [pair.left * 2, None, 3, 1.5, flag]}, Pair(total.sum(), text)

    pair, options = Pair(randn(2, 3), randn(2, 3)), {"shift": randn(3)}
    program = export(Nested(), (pair,), {"options": options, "flag": False, "text": "add"})
    package = fs.export.load_package(fs.export.package(program, tmp_path / "nested.fsp"))
    expected = Nested()(pair, options=options, flag=False)
    assert str(package(pair, options=options, flag=False, text="add")) == str(expected)
    with pytest.raises(InputMismatchError, match=r"the input flag is True, but was False"):
        package(pair, options=options, flag=True, text="add")
    with pytest.raises(InputMismatchError, match=r"nested"):
        package([pair], options=options, flag=False, text="add")


def test_inputs_are_checked(tmp_path):
    module = Function(lambda m, x, y: x + y)
    package = packed(module, (randn(3, 4), randn(3, 1)), tmp_path,
                     dynamic_shapes=(({0: BATCH}, {0: BATCH}),), strict=True)
    names = [entry["name"] for entry in package["model"].inputs]
    for args, message in [
        ((randn(3, 5), randn(3, 1)), f"the input {names[0]} has size 5 in dimension 1, expected 4"),
        ((randn(3, 4), randn(4, 1)), f"the input {names[1]} has size 4 in dimension 0, expected 3"),
        ((randn(3, 4, 1), randn(3, 1)), f"the input {names[0]} has 3 dimensions, expected 2"),
        ((randn(33, 4), randn(33, 1)), f"the input {names[0]} has size 33 in dimension 0, expected at most 32"),
        ((randn(1, 4), randn(1, 1)), f"the input {names[0]} has size 1 in dimension 0, expected at least 2"),
        ((randn(3, 4).double(), randn(3, 1)), f"the input {names[0]} is not of dtype float32"),
        ((randn(3, 4), 2.0), f"the input {names[1]} is not a tensor"),
    ]:  # fmt: skip
        with pytest.raises(InputMismatchError, match=message):
            package(*args)
    turned = randn(4, 3).t()  # other strides than in the example
    torch.testing.assert_close(package(turned, randn(3, 1)), turned + randn(3, 1))
    needs_grad = randn(3, 4).requires_grad_()
    assert not package(needs_grad, randn(3, 1)).requires_grad


def test_failures_in_a_program_are_reported(tmp_path):
    package = packed(Function(lambda m, i: m.table(i), table=nn.Embedding(5, 2)), (torch.tensor([1]),), tmp_path)
    with pytest.raises(PackageError, match="index out of range in self"):
        package(torch.tensor([5]))
    package = packed(Function(lambda m, x: torch.linalg.cholesky(x)), (torch.eye(2),), tmp_path)
    with pytest.raises(PackageError, match="linalg.cholesky|_linalg_check_errors"):
        package(-torch.eye(2))
    torch.testing.assert_close(package(torch.eye(2)), torch.eye(2))


def test_nothing_is_leaked(tmp_path):
    def function(m, x):
        y = m.linear(x).relu()
        first, = fs.while_loop(lambda a: a.abs().sum() < 1e4, lambda a: (a * 2 + 0.1,), (y,))
        last, rows = fs.scan(lambda c, row: (c + row, c * row), torch.zeros(64), y)
        return torch.topk(y, 5), first, last, rows, y[1:].cumsum(0), torch.cat(y.split(16, 1)), y[y > 0]

    package = packed(Function(function, linear=nn.Linear(64, 64)), (randn(32, 64),), tmp_path, strict=True)

    def pages():
        return int(open("/proc/self/statm").read().split()[1])

    def use(times):
        for _ in range(times):
            package(randn(32, 64))
            with pytest.raises(InputMismatchError):
                package(randn(33, 64))

    use(50)
    before = pages()
    use(300)
    assert (pages() - before) * 4096 < 300 * 4096, "the results of a call take 40 KiB"


def test_buffers_change_from_call_to_call(tmp_path):
    module = Function(lambda m, x: m.norm(x) + m.calls.add_(1), norm=nn.BatchNorm1d(3), calls=torch.zeros(()))
    module.train()
    package = packed(module, (randn(4, 3),), tmp_path, strict=True)
    fresh = fs.export.load_package(package.path)
    for step in range(3):
        check(package, module, (randn(4, 3) + step,))
    assert module.calls.item() == 3
    assert fresh(randn(4, 3))[0, 0] != package(randn(4, 3))[0, 0], "the file has kept what was packed"


def test_weights_can_be_updated(tmp_path):
    linear = nn.Linear(3, 3)
    module = Function(lambda m, x: m.first(x) + m.second(x), first=linear, second=nn.Linear(3, 3, bias=False))
    module.second.weight = linear.weight
    package = packed(module, (randn(2, 3),), tmp_path)
    assert len(read_weights(package.path)) == 2, "the shared weight is stored once"
    assert set(package["model"].weight_names) == {"first.weight", "first.bias", "second.weight"}
    with torch.no_grad():
        linear.weight.copy_(randn(3, 3))
        linear.bias.fill_(2.0)
    package.update_weights(module.state_dict())
    check(package, module, (randn(2, 3),))
    with pytest.raises(PackageError, match="has a weight 'third'"):
        package.update_weights({"third": randn(3)})
    with pytest.raises(PackageError, match="first.bias has another shape or dtype"):
        package.update_weights({"first.bias": randn(1)})


def read_weights(path):
    with zipfile.ZipFile(path) as archive:
        return read_head(archive.read("weights.safetensors"))[0]


def test_several_models_share_weights(tmp_path):
    linear = nn.Linear(3, 3)
    once, twice = Function(lambda m, x: m.linear(x), linear=linear), Function(lambda m, x: m.linear(m.linear(x)),
                                                                             linear=linear)
    other = Function(lambda m, x: m.linear(x), linear=nn.Linear(3, 3))
    models = {"once": once, "twice": twice, "other-1.0": other}
    path = fs.export.package({name: export(model, (randn(2, 3),)) for name, model in models.items()},
                             tmp_path / "models.fsp")
    package = fs.export.load_package(path)
    assert list(package) == list(models) and len(read_weights(path)) == 4
    for name, model in models.items():
        check(package[name], model, (randn(2, 3),))
    with pytest.raises(PackageError, match="this package has 3 models"):
        package(randn(2, 3))


def test_weights_are_a_safetensors_file_in_place(tmp_path):
    module = Function(lambda m, x: m.linear(x) * m.flag, linear=nn.Linear(5, 7), flag=torch.tensor([True]))
    package = packed(module, (randn(2, 5),), tmp_path)
    with zipfile.ZipFile(package.path) as archive:
        data = archive.read("weights.safetensors")
        names = set(archive.namelist())
    assert {"manifest.json", "models/model/model.so", "weights.safetensors", "firesteel_model.h"} == names
    entries, start = read_head(data)
    assert start % 64 == 0
    for name, (dtype, shape, offset) in entries.items():
        expected = module.state_dict()[name]
        flat = torch.frombuffer(bytearray(data[start + offset :]), dtype=dtype, count=expected.numel())
        torch.testing.assert_close(flat.reshape(shape), expected)
    assert (open(package.path, "rb").read().index(data)) % 4096 == 0


def test_damaged_and_foreign_files(tmp_path):
    package = packed(Function(lambda m, x: m.linear(x), linear=nn.Linear(3, 3)), (randn(2, 3),), tmp_path)
    data = open(package.path, "rb").read()
    damaged = tmp_path / "damaged.fsp"
    for position in range(10, len(data), max(len(data) // 40, 1)):
        damaged.write_bytes(data[:position] + bytes([data[position] ^ 0x41]) + data[position + 1 :])
        try:
            result = fs.export.load_package(damaged)(torch.ones(2, 3))
        except PackageError:
            continue
        torch.testing.assert_close(result, package(torch.ones(2, 3)), rtol=0, atol=0)
    for content in (b"", b"text", data[:-30], data[: len(data) // 2]):
        damaged.write_bytes(content)
        with pytest.raises(PackageError, match="damaged or not a firesteel package"):
            fs.export.load_package(damaged)
    with pytest.raises(FileNotFoundError, match="missing.fsp"):
        fs.export.load_package(tmp_path / "missing.fsp")
    for change, message in (({"version": 99}, "version 99"), ({"format": "other"}, "not a firesteel package"),
                            ({"cpu": {"features": ["avx1024"]}}, "compiled for a CPU with avx1024")):
        rewritten(package.path, damaged, change)
        with pytest.raises(PackageError, match=message):
            fs.export.load_package(damaged)


def test_a_package_for_a_gpu_on_a_machine_without_one(tmp_path, monkeypatch):
    package = packed(Function(lambda m, x: x + 1), (randn(2, 3),), tmp_path)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    rewritten(package.path, tmp_path / "gpu.fsp", {"devices": ["cuda"]})
    with pytest.raises(PackageError, match="was compiled for a GPU, and"):
        fs.export.load_package(tmp_path / "gpu.fsp")
    with pytest.raises(PackageError, match="a package cannot be moved to cpu"):
        fs.export.load_package(package.path, device="cpu")


def test_constants_of_torch(tmp_path):
    class Casts(nn.Module):
        def forward(self, x, dtype, *, device=None):
            return x.to(dtype)

    program = export(Casts(), (randn(2), torch.float64), {"device": torch.device("cpu")})
    package = fs.export.load_package(fs.export.package(program, tmp_path / "casts.fsp"))
    assert package(randn(2), torch.float64, device=torch.device("cpu")).dtype is torch.float64
    with pytest.raises(InputMismatchError, match="the input dtype is torch.float32, but was torch.float64"):
        package(randn(2), torch.float32, device=torch.device("cpu"))


def rewritten(source, target, change):
    """A copy of a package with another manifest."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            content = old.read(name)
            if name == "manifest.json":
                content = json.dumps({**json.loads(content), **change}).encode()
            new.writestr(name, content)


class Overlapping(nn.Module):
    """A buffer that is a part of another one, which forward changes."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros(3))
        self.register_buffer("last", self.count[1:])

    def forward(self, x):
        self.count.add_(x.sum())
        return self.last


def test_weights_that_share_changed_memory_are_refused(tmp_path):
    program = fs.export.export(Overlapping(), (torch.zeros(2),))
    with pytest.raises(NotPackageable, match="count is changed and shares memory with last"):
        fs.export.package(program, tmp_path / "model.fsp")


def test_what_cannot_be_packed(tmp_path, monkeypatch):
    program = export(Function(lambda m, x: x * 2), (randn(2),))
    with pytest.raises(fs.errors.UserCodeError, match="package takes an ExportedProgram"):
        fs.export.package(lambda x: x, tmp_path / "x.fsp")
    with pytest.raises(fs.errors.UserCodeError, match="cpu is 'z80'"):
        fs.export.package(program, tmp_path / "x.fsp", cpu="z80")
    with pytest.raises(fs.errors.UserCodeError, match="no option 'fast'"):
        fs.export.package(program, tmp_path / "x.fsp", fast=True)
    with pytest.raises(fs.errors.UserCodeError, match="cannot be the name of a model"):
        fs.export.package({"../x": program}, tmp_path / "x.fsp")
    scaled = export(Function(lambda m, x: torch.addcmul(torch.polar(x, x), torch.polar(x, x), x)), (randn(2),))
    with pytest.raises(NotPackageable, match="takes a Scalar"):
        fs.export.package(scaled, tmp_path / "x.fsp")
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(linking.LinkError, match="none of ld, .* is on the path"):
        fs.export.package(program, tmp_path / "x.fsp")
    assert not list(tmp_path.iterdir()), "nothing is left behind"


def test_measured_choices(tmp_path):
    module = Function(lambda m, x: F.gelu(m.linear(x)).sum(-1), linear=nn.Linear(64, 64))
    package = packed(module, (randn(50, 64),), tmp_path, max_autotune=True)
    check(package, module, (randn(50, 64),))
    with pytest.raises(fs.errors.UserCodeError, match="max_autotune measures on this CPU"):
        packed(module, (randn(50, 64),), tmp_path, max_autotune=True, cpu="avx2")


def test_what_is_computed_from_weights_is_kept(tmp_path):
    module = Function(lambda m, x: m.linear(m.norm(m.conv(x)).mean((2, 3)).bfloat16()), conv=nn.Conv2d(3, 8, 3),
                      norm=nn.BatchNorm2d(8), linear=nn.Linear(8, 4).bfloat16()).eval()
    x = randn(2, 3, 8, 8)
    package = packed(module, (x,), tmp_path, freeze=True, relaxed_libraries=True)
    torch.testing.assert_close(package(x), module(x))
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.mul_(1.5)
    package.update_weights(module.state_dict())
    torch.testing.assert_close(package(x), module(x))


@pytest.mark.parametrize("linker", ["cc", "ld"])
def test_code_for_other_cpus_and_other_linkers(linker, tmp_path, monkeypatch):
    monkeypatch.setenv("CC", linker)
    module = Function(lambda m, x: m.linear(x).gelu() if hasattr(x, "gelu") else F.gelu(m.linear(x)).sin(),
                      linear=nn.Linear(64, 64))
    package = packed(module, (randn(50, 64),), tmp_path, cpu="avx2")
    assert "avx512f" not in package.manifest["cpu"]["features"] and "avx2" in package.manifest["cpu"]["features"]
    check(package, module, (randn(50, 64),))
    with zipfile.ZipFile(package.path) as archive:
        archive.extract("models/model/model.so", tmp_path)
    listed = subprocess.run(["nm", "-D", "--defined-only", str(tmp_path / "models/model/model.so")],
                            capture_output=True, text=True)
    if listed.returncode == 0:
        names = {line.split()[-1] for line in listed.stdout.splitlines()}
        assert "firesteel_model_run" in names and all(name.startswith("firesteel_") for name in names)


def test_complex_numbers(tmp_path):
    """Parts of complex numbers are read and written by kernels, in memory that calls of operators share."""
    def function(self, x, y):
        z = x * y + torch.exp(1j * x.real)
        w = y.real.clone()
        w[::2] *= 2
        return (z, z.abs(), torch.where(z.abs() < 1, z, x), torch.roll(w, 3), torch.sort(z.imag)[0],
                torch.searchsorted(self.table, w), torch.fft.fft(z) * 2)

    module = Function(function, table=torch.tensor([-1.0, 0.0, 1.5], dtype=torch.float64))
    args = tuple(torch.randn(37, dtype=torch.complex128) for _ in range(2))
    check(packed(module, args, tmp_path), module, args)
