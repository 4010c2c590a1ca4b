"""Shared objects for a GPU without one: libraries of this test stand in for CUDA's driver and libtorch's part for it.

The tensors stay on the CPU, and the driver that is not there runs the kernels' Triton source by the tests' stand-in.
"""

from __future__ import annotations

import ctypes

import pytest
import torch
from torch import nn

import firesteel as fs
from firesteel.export import Dim, PackageError, export
from firesteel.kernels.cpu import object_emitter
from firesteel.kernels.cpu.target import host
from firesteel.kernels.gpu import driver, triton_compiler
from firesteel.kernels.gpu.device import CudaTarget
from firesteel.kernels.gpu.triton_compiler import Binary
from firesteel.kernels.shared_object import gpu, linking
from firesteel.pipeline import package_plans as planning
from kernels.gpu.stand_in_triton import run

DTYPES = {"*fp32": torch.float32, "*i64": torch.int64, "*fp64": torch.float64, "*bf16": torch.bfloat16}


class PretendedGpu:
    """What a driver knows and does, noted down."""

    def __init__(self, folder):
        self.folder = folder
        self.capability = (9, 0)
        self.kernels = []
        self.loaded, self.unloaded, self.launches, self.shared = [], [], [], []
        self.guards, self.context, self.entered = [], 0, []
        self.status = 0
        self.hooks = []

    def compile_all(self, requests):
        found = []
        for request in requests:
            if request not in self.kernels:
                self.kernels.append(request)
            number = self.kernels.index(request)
            found.append(Binary(b"code %d\0" % number, request.kernel.name, 100_000 if number == 0 else 16))
        return found

    # The driver's functions, by name. Handles are numbers from 1 on.

    def cuInit(self, flags):
        return 0

    def cuDeviceGet(self, out, number):
        write(out, ctypes.c_int32, number + 40)
        return 0 if number < 2 else 101

    def cuDeviceGetAttribute(self, out, which, device):
        assert device in (40, 41)
        write(out, ctypes.c_int32, self.capability[{75: 0, 76: 1}[which]])
        return 0

    def cuDevicePrimaryCtxRetain(self, out, device):
        write(out, ctypes.c_void_p, 500 + device)
        return 0

    def cuCtxGetCurrent(self, out):
        write(out, ctypes.c_void_p, self.context)
        return 0

    def cuCtxSetCurrent(self, context):
        self.context = context
        self.entered.append(context)
        return 0

    def cuCtxSynchronize(self):
        return 0

    def cuModuleLoadData(self, out, image):
        self.loaded.append(ctypes.string_at(image).decode())
        write(out, ctypes.c_void_p, len(self.loaded))
        return self.status

    def cuModuleGetFunction(self, out, module, name):
        number = int(self.loaded[module - 1].split()[1])
        assert ctypes.string_at(name).decode() == self.kernels[number].kernel.name
        write(out, ctypes.c_void_p, 1000 + number)
        return 0

    def cuModuleUnload(self, module):
        self.unloaded.append(module)
        return 0

    def cuFuncSetAttribute(self, function, attribute, value):
        self.shared.append((function, attribute, value))
        return 0

    def cuGetErrorString(self, status, out):
        write(out, ctypes.c_void_p, ctypes.cast(b"illegal something", ctypes.c_void_p).value)
        return 0

    def cuLaunchKernel(self, function, x, y, z, threads, ty, tz, shared, stream, parameters, extra):
        kernel = self.kernels[function - 1000].kernel
        places = (ctypes.c_void_p * (len(kernel.types) + 2)).from_address(parameters)
        words = [ctypes.c_int64.from_address(place).value for place in places]
        assert words[-2:] == [0, 0] and (y, z, ty, tz) == (1, 1, 1, 1) and threads == 32 * kernel.warps
        self.launches.append((function - 1000, x, shared, stream))
        tensors = [torch.frombuffer((ctypes.c_char * 65536).from_address(word), dtype=DTYPES[kind])
                   for kind, word in zip(kernel.types, words, strict=False) if kind.startswith("*")]
        assert all(word % gpu.ALIGNMENT == 0 for word in words[: len(tensors)])
        symbols = sorted(kernel.programs.free_symbols, key=str)
        assert len(symbols) <= 1
        sizes = [(symbols[0] if symbols else None, word) for word in words[len(tensors) : -2]]
        run(kernel, tensors, sizes)
        return self.status

    def aoti_torch_create_cuda_guard(self, device, out):
        self.guards.append(device)
        write(out, ctypes.c_void_p, 7)
        return 0

    def aoti_torch_delete_cuda_guard(self, guard):
        assert guard == 7
        self.guards.append("left")
        return 0

    def aoti_torch_get_current_cuda_stream(self, device, out):
        write(out, ctypes.c_void_p, 600 + device)
        return 0

    # The libraries

    def library(self, name, functions):
        """A shared object whose functions call this object's."""
        words = f"@hooks = global [{len(functions)} x ptr] zeroinitializer\n"
        for number, one in enumerate(functions):
            count = getattr(self, one).__code__.co_argcount - 1
            given = ", ".join(f"i64 %a{position}" for position in range(count))
            words += (f"define i32 @{one}({given}) {{\n%at = getelementptr ptr, ptr @hooks, i64 {number}\n"
                      f"%hook = load ptr, ptr %at, align 8\n%result = call i32 %hook({given})\nret i32 %result\n}}\n")
        (self.folder / f"{name}.o").write_bytes(object_emitter.object_code(words, host()))
        linking._run(linking.find_linker(), name, [], str(self.folder / name), [str(self.folder / f"{name}.o")])
        handle = ctypes.CDLL(str(self.folder / name))
        table = (ctypes.c_void_p * len(functions)).in_dll(handle, "hooks")
        for number, one in enumerate(functions):
            method = getattr(self, one)
            kinds = [ctypes.c_int32 if word in INTEGERS else ctypes.c_void_p
                     for word in method.__code__.co_varnames[1 : method.__code__.co_argcount]]
            hook = ctypes.CFUNCTYPE(ctypes.c_int, *kinds)(method)
            self.hooks.append((handle, hook))
            table[number] = ctypes.cast(hook, ctypes.c_void_p).value
        return str(self.folder / name)


INTEGERS = {"flags", "number", "which", "device", "status", "value", "attribute", "x", "y", "z", "threads", "ty", "tz",
            "shared"}


def write(place, kind, value):
    kind.from_address(place).value = value


@pytest.fixture
def pretended(tmp_path, monkeypatch):
    machine = PretendedGpu(tmp_path)
    monkeypatch.setattr(planning, "target_of", lambda graph: CudaTarget(torch.device("cpu")))
    monkeypatch.setattr(driver, "architecture", lambda device: 90)
    monkeypatch.setattr(triton_compiler, "compile_all", machine.compile_all)
    monkeypatch.setattr(triton_compiler, "triton_version", lambda: "0")
    monkeypatch.setattr(gpu, "DRIVER_LIBRARY", machine.library("libdriver.so", gpu._DRIVER))
    monkeypatch.setattr(gpu, "TORCH_LIBRARY", machine.library("libtorch_gpu.so", gpu._TORCH))
    return machine


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(6, 4)

    def forward(self, x):
        return torch.relu(self.linear(x)) * 2 + x[:, :4]


def test_kernels_are_loaded_launched_and_let_go(pretended, tmp_path, monkeypatch):
    monkeypatch.setattr(gpu, "LIMIT", 100)
    net = Net()
    program = export(net, (torch.randn(3, 6),), dynamic_shapes=({0: Dim("batch", min=1, max=64)},))
    path = fs.export.package(program, tmp_path / "net.fsp")
    assert len(pretended.kernels) == 2 and not pretended.loaded, "one for indices of 32 bits, and one of 64"
    package = fs.export.load_package(path)
    count = len(pretended.kernels)
    assert pretended.loaded == [f"code {number}" for number in range(count)]
    assert pretended.shared == [(1000, 8, 100_000)] and pretended.context == 540
    with torch.no_grad():
        for batch in (3, 1, 20):
            x = torch.randn(batch, 6)
            torch.testing.assert_close(package(x), net(x))
        base = torch.randn(25)  # what does not begin where kernels want it is copied
        torch.testing.assert_close(package(base[1:].view(4, 6)), net(base[1:].view(4, 6)))
    assert [launch[0] for launch in pretended.launches] == [0, 0, 1, 0], "the third batch has many elements"
    assert {launch[3] for launch in pretended.launches} == {600}
    assert pretended.guards.count(0) == pretended.guards.count("left") == 5
    with torch.no_grad():
        net.linear.weight.mul_(2)
    package.update_weights(net.state_dict())
    torch.testing.assert_close(package(x), net(x).detach())
    del package
    assert sorted(pretended.unloaded) == list(range(1, count + 1))


def test_errors_of_the_driver(pretended, tmp_path):
    path = fs.export.package(export(Net(), (torch.randn(3, 6),)), tmp_path / "net.fsp")
    pretended.capability = (8, 6)
    with pytest.raises(PackageError, match=r"compiled for GPUs of compute capability 9\.0, and GPU number 0 has 8\.6"):
        fs.export.load_package(path)
    pretended.capability = (9, 0)
    package = fs.export.load_package(path)
    pretended.status = 700
    with pytest.raises(PackageError, match=r"cuLaunchKernel failed \(illegal something\)"):
        package(torch.randn(3, 6))
    with pytest.raises(PackageError, match=r"cuModuleLoadData failed \(illegal something\)"):
        fs.export.load_package(path)
    pretended.status = 0
    assert package(torch.randn(3, 6)).shape == (3, 4)


def test_without_a_driver(pretended, tmp_path, monkeypatch):
    program = export(Net(), (torch.randn(3, 6),))
    for name, library in (("DRIVER_LIBRARY", "libnowhere.so.1"), ("TORCH_LIBRARY", "libtorch_nowhere.so")):
        with monkeypatch.context() as patch:
            patch.setattr(gpu, name, library)
            path = fs.export.package(program, tmp_path / "net.fsp")
        with pytest.raises(PackageError, match=f"runs on a GPU, and what that takes cannot be loaded: .*{library}"):
            fs.export.load_package(path)
    monkeypatch.setattr(gpu, "_DRIVER", (*gpu._DRIVER, "cuDoesNotExist"))
    path = fs.export.package(program, tmp_path / "net.fsp")
    with pytest.raises(PackageError, match="libdriver.so has no function cuDoesNotExist"):
        fs.export.load_package(path)


def test_the_device_is_chosen_when_a_model_is_loaded(pretended, tmp_path):
    path = fs.export.package(export(Net(), (torch.randn(3, 6),)), tmp_path / "net.fsp")
    library = fs.export.load_package(path)["model"]._library.handle
    library.firesteel_model_load_on.argtypes = [ctypes.c_char_p, ctypes.c_int64, ctypes.c_int32, ctypes.c_void_p]
    made = ctypes.c_void_p()
    pretended.guards.clear()
    archive = fs.export.packages.archive.ArchiveReader(path)
    offset = archive.parts["weights.safetensors"].offset
    assert library.firesteel_model_load_on(path.encode(), offset, 1, ctypes.byref(made)) == 0
    assert pretended.guards == [1, "left"]
    library.firesteel_model_free(made)
    assert library.firesteel_model_load_on(path.encode(), offset, 2, ctypes.byref(made)) == 1
    assert library.firesteel_last_error() == b"this model runs on a GPU, and there is no GPU with the number 2"
