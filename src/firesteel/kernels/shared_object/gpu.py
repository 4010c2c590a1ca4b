"""GPU kernels in a shared object: machine code that goes to the device with the model, launched on torch's stream.

CUDA's driver and the part of libtorch that is for CUDA are looked for when a model is loaded, so that a machine without
them gets an error that says so, and a program for the CPU never asks.

The record of a model has the number of its device and a pointer to a record of its own for the kernels: the device's
context, then a module and a function for each kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...native.templates import filled
from ...shapes import ge
from ...torch_compat import c_interface
from ..gpu.triton_compiler import PLAIN_SHARED, Binary, Request
from ..gpu.versions import LIMIT
from .checked_code import PackageModule

if TYPE_CHECKING:
    from ..plan import Launch
    from .program import ProgramPrinter

DRIVER_LIBRARY = "libcuda.so.1"
TORCH_LIBRARY = "libtorch_cuda.so"
DEVICE_AT, KERNELS_AT = 2, 3
"""Words of a model: the number of its device, the record of its kernels."""
ALIGNMENT = 16
"""Kernels are compiled for buffers that begin at multiples of this."""

_DRIVER = ("cuInit", "cuDeviceGet", "cuDeviceGetAttribute", "cuDevicePrimaryCtxRetain", "cuCtxGetCurrent",
           "cuCtxSetCurrent", "cuCtxSynchronize", "cuModuleLoadData", "cuModuleGetFunction", "cuModuleUnload",
           "cuFuncSetAttribute", "cuGetErrorString", "cuLaunchKernel")
_TORCH = tuple(map(c_interface.symbol, c_interface.CUDA_FUNCTIONS))


class GpuKernels:
    """The kernels of a model, each once."""

    def __init__(self, arch: int, index: int = 0) -> None:
        self.arch = arch
        self.index = index
        """The number of the GPU on which the program was exported; it may run on others."""
        self.numbers: dict[str, int] = {}
        self.binaries: list[tuple[Request, Binary]] = []
        self.wide: dict[int, int] = {}
        """The number of the version with indices of 64 bits, by that of the one with 32."""

    def add(self, usual: tuple[Request, Binary], wide: tuple[Request, Binary] | None = None) -> int:
        """The number of a kernel."""
        number = self._add(*usual)
        if wide is not None:
            self.wide[number] = self._add(*wide)
        return number

    def _add(self, request: Request, binary: Binary) -> int:
        number = self.numbers.setdefault(request.key, len(self.binaries))
        if number == len(self.binaries):
            self.binaries.append((request, binary))
        return number


def launch(program: ProgramPrinter, step: Launch, kernels: GpuKernels, number: int) -> None:
    """Write a launch: the arguments as words, then how many programs run."""
    code = program.code
    typed = [*(("ptr", program.address(name)) for name in step.buffers),
             *(("i64", program.numbers.integer(size)) for size in step.sizes),
             *(("double", program.numbers.double(value)) for value in step.numbers)]
    words = code.alloca(f"[{max(len(typed), 1)} x i64]")
    for position, (type_, value) in enumerate(typed):
        code.line(f"store {type_} {value}, ptr {code.element('i64', words, position)}, align 8")
    chosen = _how(program, step, kernels, number)
    if number in kernels.wide:
        extent = kernels.binaries[number][0].kernel.extent
        assert extent is not None
        is_wide = program.numbers.truth(ge(step.in_plan(extent), LIMIT))
        others = _how(program, step, kernels, kernels.wide[number])
        chosen = [(type_, code.value(f"select i1 {is_wide}, {type_} {other}, {type_} {usual}"))
                  for (type_, usual), (_, other) in zip(chosen, others, strict=True)]
    (_, which), (_, programs), (_, threads), (_, shared) = chosen
    error = code.value(f"call i32 @fs.gpu_launch(ptr %model, i64 {which}, ptr {words}, i64 {len(typed)}, "
                       f"i64 {programs}, i32 {threads}, i32 {shared})")
    code.leave_unless(code.value(f"icmp eq i32 {error}, 0"), "failed")


def _how(program: ProgramPrinter, step: Launch, kernels: GpuKernels, number: int) -> list[tuple[str, str]]:
    """A version of a kernel: its number, how many programs it has, its threads, its shared memory."""
    request, binary = kernels.binaries[number]
    programs = program.numbers.integer(step.in_plan(request.kernel.programs))
    return [("i64", str(number)), ("i64", programs), ("i32", str(32 * request.kernel.warps)),
            ("i32", str(binary.shared))]


def add_gpu(module: PackageModule, kernels: GpuKernels) -> None:
    """Add the functions that load kernels, launch them and let them go; all programs are printed before."""
    for name, result, parameters in (
        ("dlopen", "ptr", "ptr, i32"), ("dlsym", "ptr", "ptr, ptr"), ("dlerror", "ptr", ""),
        ("dladdr", "i32", "ptr, ptr"), ("strrchr", "ptr", "ptr, i32"), ("calloc", "ptr", "i64, i64"),
    ):  # fmt: skip
        module.declare(name, result, parameters)
    module.declare_torch("get_current_device_index")
    torch_functions = [*_TORCH, *(name for name in module.gpu_functions if name not in _TORCH)]
    for name in (*_DRIVER, *torch_functions):
        module.functions.append(f"@fs.gpu.{name} = internal global ptr null")
    major, minor = divmod(kernels.arch, 10)
    module.functions.append(filled("kernels/shared_object/gpu.ll", {
        "torch": c_interface.PREFIX, "DRIVER": module.string(DRIVER_LIBRARY), "DRIVER_COUNT": len(_DRIVER),
        "DRIVER_NAMES": module.strings(_DRIVER),
        "DRIVER_PLACES": module.pointers([f"@fs.gpu.{name}" for name in _DRIVER]),
        "TORCH": module.string(TORCH_LIBRARY), "TORCH_COUNT": len(torch_functions),
        "TORCH_NAMES": module.strings(torch_functions),
        "TORCH_PLACES": module.pointers([f"@fs.gpu.{name}" for name in torch_functions]),
        "BESIDE": module.string(f"%.*s/{TORCH_LIBRARY}"), "MAJOR": major, "MINOR": minor,
        # Code for one generation runs on its later members, up to the generation whose code is for one member only.
        "FITS": "sge" if kernels.arch < 90 else "eq",
        "KERNELS": len(kernels.binaries), "RECORD": 8 * (1 + 2 * len(kernels.binaries)), "DEVICE_AT": DEVICE_AT,
        "KERNELS_AT": KERNELS_AT, "LIMIT": PLAIN_SHARED, "LAUNCH_WORDS": filled("kernels/gpu/launch_words.ll", {}),
        "IMAGES": module.pointers([module.binary(binary.code) for _, binary in kernels.binaries]),
        "FUNCTIONS": module.strings([binary.name for _, binary in kernels.binaries]),
        "SHARED": module.integers([binary.shared for _, binary in kernels.binaries]),
        **{f"MESSAGE_{key}": module.string(message) for key, message in _MESSAGES.items()},
    }))


_MESSAGES = {
    "LIBRARY": "this model runs on a GPU, and what that takes cannot be loaded: %s",
    "MISSING": "this model runs on a GPU, and this machine's %s has no function %s",
    "DRIVER": "this model runs on a GPU: %s failed (%s)",
    "NO_DEVICE": "this model runs on a GPU, and there is no GPU with the number %lld",
    "ARCH": "this model was compiled for GPUs of compute capability %lld.%lld, and GPU number %lld has %lld.%lld",
    "MEMORY": "there is not enough memory",
    "GUARD": "choosing a GPU",
    "CURRENT": "asking for the current GPU",
    "cuInit": "cuInit", "cuDevicePrimaryCtxRetain": "cuDevicePrimaryCtxRetain", "cuCtxSetCurrent": "cuCtxSetCurrent",
    "cuModuleLoadData": "cuModuleLoadData", "cuModuleGetFunction": "cuModuleGetFunction",
    "cuFuncSetAttribute": "cuFuncSetAttribute", "cuLaunchKernel": "cuLaunchKernel", "UNKNOWN": "unknown error",
}  # fmt: skip
