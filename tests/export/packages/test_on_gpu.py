"""Packages for a GPU, in Python and in C++, where there is one."""

from __future__ import annotations

import copy
import threading

import numpy
import pytest
import torch
from torch import nn
from torch.utils import _pytree as pytree

import firesteel as fs
from export.packages.test_cpp import COMPILER, ROOT, Block, build
from export.packages.test_cpp import run as run_program
from export.packages.test_packages import CONTROL_FLOW, OPERATORS, SIZES, Function, check, packed, randn
from firesteel.export import Dim, InputMismatchError, PackageError, export
from firesteel.kernels.shared_object.planned import NotPackageable

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def on_gpu(tree):
    return pytree.tree_map(lambda leaf: leaf.cuda() if isinstance(leaf, torch.Tensor) else leaf, tree)


@pytest.fixture(autouse=True)
def new_tensors_are_on_the_gpu():
    with torch.device("cuda"):
        yield


@pytest.mark.parametrize("name", OPERATORS)
def test_operators(name, tmp_path):
    function, args, *state = OPERATORS[name]
    module = Function(function, **copy.deepcopy(on_gpu(state[0]) if state else {})).eval().cuda()
    args = on_gpu(args)
    check(packed(module, args, tmp_path), module, args)


@pytest.mark.parametrize("name", SIZES)
def test_sizes(name, tmp_path):
    function, dynamic, shape, others, *state = SIZES[name]
    module = Function(function, **copy.deepcopy(state[0] if state else {})).eval().cuda()
    package = packed(module, (randn(*shape).cuda(),), tmp_path, dynamic_shapes=((dynamic,),), strict=True)
    for other in (shape, *others):
        check(package, module, (randn(*other).cuda(),))


@pytest.mark.parametrize("name", CONTROL_FLOW)
def test_control_flow(name, tmp_path):
    function, state = CONTROL_FLOW[name]
    module = Function(function, **copy.deepcopy(state)).eval().cuda()
    batch = Dim("batch", min=2, max=32)
    package = packed(module, (randn(4, 3).cuda(),), tmp_path, dynamic_shapes=(({0: batch},),), strict=True)
    for x in (randn(4, 3), randn(4, 3).abs() * 9, -randn(5, 3).abs(), randn(6, 3).abs() / 9, randn(3, 7).t()):
        with torch.no_grad():
            torch.testing.assert_close(package(x.cuda()), module(x.cuda()))


def net():
    return nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.LayerNorm(128), nn.Linear(128, 10), nn.Softmax(-1)).cuda()


def test_inputs_streams_threads_and_autocast(tmp_path):
    module = net()
    package = packed(module, (torch.randn(8, 64),), tmp_path, dynamic_shapes=({0: Dim("batch", max=512)},))
    assert package["model"].device == "cuda:0"
    with pytest.raises(InputMismatchError, match="the input input_1 is not on a GPU"):
        package(torch.randn(8, 64, device="cpu"))
    with pytest.raises(InputMismatchError, match="has size 63 in dimension 1, expected 64"):
        package(torch.randn(8, 63))
    base = torch.randn(8 * 64 + 1)
    check(package, module, (torch.randn(64, 9).t(),))
    with torch.no_grad():
        torch.testing.assert_close(package(base[1:].view(8, 64)), module(base[1:].view(8, 64)))
        side = torch.cuda.Stream()
        for _ in range(20):
            x = torch.randn(512, 64)
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                got = package(x * 2)
            torch.cuda.current_stream().wait_stream(side)
            torch.testing.assert_close(got, module(x * 2))
        with torch.autocast("cuda", torch.bfloat16):
            assert package(x).dtype is torch.float32
        recorded = torch.cuda.CUDAGraph()
        with torch.cuda.graph(recorded):
            got = package(x)
        x.normal_()
        recorded.replay()
        torch.testing.assert_close(got, module(x))
        found, want = [], module(x)
        thread = threading.Thread(target=lambda: found.append(package(x)))
        thread.start()
        thread.join()
        torch.testing.assert_close(found[0], want)


def test_weights_are_on_the_gpu_and_change(tmp_path):
    linear = nn.Linear(3, 3)
    module = Function(lambda m, x: m.first(x) + m.second(x) + m.calls.add_(1), first=linear,
                      second=nn.Linear(3, 3, bias=False), calls=torch.zeros(())).cuda()
    module.second.weight = linear.weight
    package = packed(module, (torch.randn(2, 3),), tmp_path)
    for _ in range(3):
        check(package, module, (torch.randn(2, 3),))
    with torch.no_grad():
        linear.weight.normal_()
    package.update_weights({"first.weight": linear.weight.cpu()})  # from anywhere; the other name is the same memory
    check(package, module, (torch.randn(2, 3),))
    before = torch.cuda.memory_allocated()
    for _ in range(3):
        again = fs.export.load_package(package.path, device=0)
        again(torch.randn(2, 3))
    del again
    assert torch.cuda.memory_allocated() == before
    with pytest.raises(PackageError, match="there is no GPU with the number 77"):
        fs.export.load_package(package.path, device="cuda:77")
    with pytest.raises(PackageError, match="cannot be moved to cpu"):
        fs.export.load_package(package.path, device="cpu")


def test_frozen_weights_and_training_state(tmp_path):
    module = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU()).cuda()
    module(torch.randn(4, 3, 8, 8))
    module.eval()
    package = packed(module, (torch.randn(2, 3, 8, 8),), tmp_path, freeze=True)
    check(package, module, (torch.randn(2, 3, 8, 8),))
    package.update_weights({name: value * 1.5 for name, value in module.state_dict().items() if value.ndim})
    module.load_state_dict({name: value * 1.5 if value.ndim else value for name, value in module.state_dict().items()})
    check(package, module, (torch.randn(2, 3, 8, 8),))
    package = packed(module, (torch.randn(2, 3, 8, 8),), tmp_path, max_autotune=True)
    check(package, module, (torch.randn(2, 3, 8, 8),))
    module.train()
    package = packed(module, (torch.randn(4, 3, 8, 8),), tmp_path, strict=True)
    for _ in range(2):
        check(package, module, (torch.randn(4, 3, 8, 8),))


def test_on_both_devices(tmp_path):
    module = Function(lambda m, x, y: ((x.cpu() + y).cuda() * m.scale, y * 2), scale=torch.tensor(2.0))
    args = torch.randn(5), torch.randn(5, device="cpu")
    check(packed(module, args, tmp_path), module, args)


def test_a_cpp_program(tmp_path):
    if COMPILER is None:
        pytest.skip("there is no C++ compiler")
    program = build(ROOT / "examples" / "cpp_package" / "run_package.cpp", tmp_path / "run_package")
    block = Block().eval().cuda()
    with torch.no_grad():
        exported = export(block, (torch.randn(2, 16, 192),), dynamic_shapes=({0: Dim("batch", min=1, max=64)},))
    path = fs.export.package(exported, tmp_path / "block.fsp")
    loaded = fs.export.load_package(path)
    for batch in (1, 5):
        x = torch.randn(batch, 16, 192)
        x.cpu().numpy().tofile(tmp_path / "x.bin")
        done = run_program(program, path, "-", tmp_path / "y", f"{batch}x16x192:{tmp_path / 'x.bin'}")
        assert done.returncode == 0, done.stderr
        got = torch.from_numpy(numpy.fromfile(tmp_path / "y.0", dtype=numpy.float32)).reshape(x.shape)
        with torch.no_grad():
            want = block(x).cpu()
            exact = copy.deepcopy(block).double()(x.double()).cpu()
        torch.testing.assert_close(got, want)
        assert (got - exact).abs().max() <= 2 * (want - exact).abs().max()
        torch.testing.assert_close(got, loaded(x).cpu(), rtol=0, atol=0)


def test_what_needs_python_is_said(tmp_path):
    scaled = Function(lambda m, x: torch.addcmul(torch.polar(x, x), torch.polar(x, x), x))
    with pytest.raises(NotPackageable, match="takes a Scalar"):
        packed(scaled, (torch.randn(2),), tmp_path)
