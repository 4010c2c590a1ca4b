"""What a shared object offers to programs: load, run and free a model, ask for names, change weights.

`firesteel_model.h` describes these functions for C and C++. Weights are mapped from their file into memory that a model
may write to; the file never changes.

A model is a record: the mapping and its length, the number of its GPU and the record of its kernels there, the handles
of the weights, and those of tensors that are computed from weights once, when the model is loaded and when weights have
changed. Weights of a program for a GPU are copied to its memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from ...native.templates import filled
from ...torch_compat import c_interface, native_calls
from .. import huge_pages
from ..cpu.target import Target
from .checked_code import PackageModule
from .gpu import DEVICE_AT, GpuKernels, add_gpu
from .operators import constant_of
from .program import HANDLES_AT, VALUE

INTERFACE_VERSION = 1

# Where a CPU says that it has a feature: leaf and subleaf of cpuid, the register (0 to 3), the bit.
_CPU_BITS: dict[str, tuple[int, int, int, int]] = {
    "sse4.1": (1, 0, 2, 19), "sse4.2": (1, 0, 2, 20), "fma": (1, 0, 2, 12), "movbe": (1, 0, 2, 22),
    "popcnt": (1, 0, 2, 23), "avx": (1, 0, 2, 28), "f16c": (1, 0, 2, 29),
    "bmi": (7, 0, 1, 3), "avx2": (7, 0, 1, 5), "bmi2": (7, 0, 1, 8), "avx512f": (7, 0, 1, 16),
    "avx512dq": (7, 0, 1, 17), "avx512ifma": (7, 0, 1, 21), "avx512cd": (7, 0, 1, 28), "avx512bw": (7, 0, 1, 30),
    "avx512vl": (7, 0, 1, 31), "avx512vbmi": (7, 0, 2, 1), "avx512vbmi2": (7, 0, 2, 6), "gfni": (7, 0, 2, 8),
    "vaes": (7, 0, 2, 9), "vpclmulqdq": (7, 0, 2, 10), "avx512vnni": (7, 0, 2, 11), "avx512bitalg": (7, 0, 2, 12),
    "avx512vpopcntdq": (7, 0, 2, 14), "avx512fp16": (7, 0, 3, 23), "avxvnni": (7, 1, 0, 4),
    "avx512bf16": (7, 1, 0, 5),
}  # fmt: skip
_GENERATIONS = {"x86-64-v3": ("sse4.2", "popcnt", "movbe", "fma", "f16c", "avx", "avx2", "bmi", "bmi2")}


@dataclass(frozen=True)
class Weight:
    """A tensor that lies in the file of weights, contiguous, ``offset`` bytes from where its data begins."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    """The strides that the program was compiled for."""
    offset: int
    on_gpu: bool = False


@dataclass(frozen=True)
class WeightsFile:
    """How the file of weights looks: a head that names all tensors, then their data."""

    head: bytes
    length: int
    """Of the whole file."""


def needed_features(target: Target) -> list[str]:
    """The features of a CPU that code for a target counts on, as far as they can be asked for."""
    given = [word[1:] for word in target.features.split(",") if word.startswith("+")]
    return sorted({name for name in (*given, *_GENERATIONS.get(target.cpu, ())) if name in _CPU_BITS})


def add_interface(module: PackageModule, inputs: Sequence[str], outputs: Sequence[str], weights: Sequence[Weight],
                  file: WeightsFile, target: Target, description: str, kept: int = 0,
                  on_gpu: GpuKernels | None = None) -> None:
    """Add the functions of a model whose program is ``fs.run``.

    ``kept``: how many tensors ``fs.prepare`` computes from the weights, to lie behind them in the record.
    """
    for name, result, parameters in (
        ("snprintf", "i32", "ptr, i64, ptr, ..."), ("strcmp", "i32", "ptr, ptr"), ("memcmp", "i32", "ptr, ptr, i64"),
        ("open", "i32", "ptr, i32, ..."), ("close", "i32", "i32"), ("lseek", "i64", "i32, i64, i32"),
        ("mmap", "ptr", "ptr, i64, i32, i32, i32, i64"), ("munmap", "i32", "ptr, i64"),
        ("madvise", "i32", "ptr, i64, i32"), ("free", "void", "ptr"), ("calloc", "ptr", "i64, i64"),
        ("llvm.memset.p0.i64", "void", "ptr, i8, i64, i1"),
    ):  # fmt: skip
        module.declare(name, result, parameters)
    for name in ("grad_mode_is_enabled", "grad_mode_set_enabled", "create_tensor_from_blob_v2", "get_dtype", "get_dim",
                 "get_sizes", "copy_", "new_tensor_handle"):
        module.declare_torch(name)
    module.declare("torch_exception_get_what_without_backtrace", "ptr", "", weak=True)
    text = filled("kernels/shared_object/interface.ll", {
        "torch": c_interface.PREFIX,
        "INPUTS": len(inputs), "OUTPUTS": len(outputs), "WEIGHTS": len(weights), "VERSION": INTERFACE_VERSION,
        "INPUT_NAMES": module.strings(inputs), "OUTPUT_NAMES": module.strings(outputs),
        "WEIGHT_NAMES": module.strings([weight.name for weight in weights]),
        "DESCRIPTION": module.string(description), "LENGTH": file.length, "HEAD_BYTES": len(file.head),
        "HEAD": module.string(file.head), "DATA": len(file.head),
        "RECORD": 8 * (HANDLES_AT + len(weights) + kept), "HANDLES_AT": HANDLES_AT, "HANDLES": len(weights) + kept,
        "OFFSETS": module.integers([weight.offset for weight in weights]),
        "DIMENSIONS": module.integers([len(weight.shape) for weight in weights]),
        "DTYPES": module.integers([native_calls.dtype_number(weight.dtype) for weight in weights]),
        "SIZES": module.pointers([module.integers(weight.shape) for weight in weights]),
        "STORED": module.pointers([module.integers(_stored(weight)) for weight in weights]),
        "STRIDES": module.pointers([module.integers(weight.strides) for weight in weights]),
        "CPU": constant_of("device_type_cpu"), "GPU": constant_of("device_type_cuda"), "DEVICE_AT": DEVICE_AT,
        "HAS_GPU": "true" if on_gpu is not None else "false",
        "STRIDED": constant_of("layout_strided"), "MOVED": module.integers(_moved(weights)),
        **{key: text if on_gpu is not None else "" for key, text in _ON_GPU.items()},
        **huge_pages.VALUES, **{f"MESSAGE_{key}": module.string(message) for key, message in _MESSAGES.items()},
    })
    if on_gpu is not None:
        add_gpu(module, on_gpu)
    module.functions.append(_refresh(len(weights), kept, on_gpu is not None))
    module.functions += ["@fs.error = internal thread_local global [1024 x i8] zeroinitializer", text,
                         _cpu_check(module, target)]


def _moved(weights: Sequence[Weight]) -> list[int]:
    """For each weight, how it comes to the GPU: -2 if it does not, -1 by a copy, or with which one before it."""
    first: dict[tuple[object, ...], int] = {}
    moved = []
    for number, weight in enumerate(weights):
        key = weight.offset, weight.dtype, weight.shape, weight.strides
        if not weight.on_gpu:
            moved.append(-2)
        else:
            moved.append(first[key] if key in first and 0 not in weight.shape else -1)
            first.setdefault(key, number)
    return moved


def _refresh(weights: int, kept: int, on_gpu: bool) -> str:
    """A function that computes anew what is kept."""
    if not kept:
        return "define i32 @firesteel_model_refresh(ptr %model) {\nret i32 0\n}"
    set_grad_mode = c_interface.symbol("grad_mode_set_enabled")
    lines = ["define i32 @firesteel_model_refresh(ptr %model) {", f"%made = alloca [{kept} x {VALUE}], align 8",
             *([_ON_GPU["ENTER"]] if on_gpu else []),
             f"%graded = call zeroext i1 @{c_interface.symbol('grad_mode_is_enabled')}()",
             f"call void @{set_grad_mode}(i1 zeroext false)",
             "%error = call i32 @fs.prepare(ptr %model, ptr null, ptr %made)",
             f"call void @{set_grad_mode}(i1 zeroext %graded)",
             *([_ON_GPU["LEAVE"]] if on_gpu else []),
             "%fine = icmp eq i32 %error, 0", "br i1 %fine, label %take, label %failed", "take:"]
    for number in range(kept):
        lines += [f"%slot{number} = getelementptr ptr, ptr %model, i64 {HANDLES_AT + weights + number}",
                  f"call void @fs.drop(ptr %slot{number})",
                  f"%at{number} = getelementptr {VALUE}, ptr %made, i64 {number}, i32 2",
                  f"%new{number} = load ptr, ptr %at{number}, align 8",
                  f"store ptr %new{number}, ptr %slot{number}, align 8"]
    return "\n".join([*lines, "ret i32 0", "failed:", "ret i32 1", "}"])


def _stored(weight: Weight) -> Sequence[int]:
    """The strides of a weight in its file. Those of dimensions of size 1 are free: ATen chooses layouts by them."""
    strides, step = [], 1
    for size in reversed(weight.shape):
        strides.append(step)
        step *= max(size, 1)
    strides.reverse()
    same = all(size == 1 or a == b for size, a, b in zip(weight.shape, weight.strides, strides, strict=True))
    return weight.strides if same else strides


def _cpu_check(module: PackageModule, target: Target) -> str:
    """A function that says whether the CPU has what the code needs."""
    lines = ["define internal i1 @fs.cpu_is_fit() {"]
    if "x86" not in target.cpu and not needed_features(target):
        return "\n".join([*lines, "ret i1 true", "}"])
    wanted: dict[tuple[int, int], list[int]] = {}
    for name in needed_features(target):
        leaf, subleaf, register, bit = _CPU_BITS[name]
        wanted.setdefault((leaf, subleaf), [0, 0, 0, 0])[register] |= 1 << bit
    result = "true"
    for number, ((leaf, subleaf), masks) in enumerate(wanted.items()):
        lines.append(f'%a{number} = call {{ i32, i32, i32, i32 }} asm sideeffect "cpuid", '
                     f'"={{ax}},={{bx}},={{cx}},={{dx}},{{ax}},{{cx}},~{{dirflag}},~{{fpsr}},~{{flags}}"'
                     f"(i32 {leaf}, i32 {subleaf})")
        for register, mask in enumerate(masks):
            if mask:
                signed = mask - (1 << 32) if mask >> 31 else mask
                name = f"{number}.{register}"
                lines += [f"%r{name} = extractvalue {{ i32, i32, i32, i32 }} %a{number}, {register}",
                          f"%m{name} = and i32 %r{name}, {signed}", f"%e{name} = icmp eq i32 %m{name}, {signed}",
                          f"%f{name} = and i1 {result}, %e{name}"]
                result = f"%f{name}"
    return "\n".join([*lines, f"ret i1 {result}", "}"])


_ON_GPU = {
    "LOAD": """
  %on_gpu = call i32 @fs.gpu_load(ptr %model, i32 %device)
  %there = icmp eq i32 %on_gpu, 0
  br i1 %there, label %ready_for_weights, label %give_up
ready_for_weights:""",
    "ENTER": """
  %guard = alloca ptr, align 8
  %entered = call i32 @fs.gpu_enter(ptr %model, ptr %guard)
  %inside = icmp eq i32 %entered, 0
  br i1 %inside, label %on_device, label %outside
outside:
  ret i32 1
on_device:""",
    "LEAVE": "  call void @fs.gpu_leave(ptr %guard)",
    "FREE": "  call void @fs.gpu_free(ptr %model)",
}
"""What models on a GPU do besides, by the place in the text below."""

_MESSAGES = {
    "TORCH": "%s: %s",
    "UNSAID": "libtorch reported an error on the standard error stream",
    "CPU": "this model was compiled for another CPU, with instructions that this one does not have",
    "OPEN": "the file of weights %s cannot be opened",
    "MAP": "the file of weights %s cannot be mapped into memory",
    "SHORT": "the file of weights %s is too short",
    "FOREIGN": "the file of weights %s does not belong to this model",
    "MEMORY": "there is not enough memory",
    "INPUTS": "the model takes %lld inputs, %lld were given",
    "OUTPUTS": "the model has %lld outputs, there is room for %lld",
    "NAME": "the model has no weight %s",
    "SHAPE": "the weight %s has another shape or dtype than the tensor that was given",
    "WEIGHT": "a weight",
}
