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

from ...torch_compat import c_interface, native_calls
from ..cpu.target import Target
from .code import ModuleText
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
    """Those that the program was compiled for."""
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


def add_interface(module: ModuleText, inputs: Sequence[str], outputs: Sequence[str], weights: Sequence[Weight],
                  file: WeightsFile, target: Target, description: str, kept: int = 0,
                  on_gpu: GpuKernels | None = None) -> None:
    """Add the functions of a model whose program is ``fs.run``.

    ``kept``: how many tensors ``fs.prepare`` computes from the weights, to lie behind them in the record.
    """
    for name, result, parameters in (
        ("snprintf", "i32", ["ptr", "i64", "ptr", "..."]), ("strcmp", "i32", ["ptr", "ptr"]),
        ("memcmp", "i32", ["ptr", "ptr", "i64"]), ("open", "i32", ["ptr", "i32", "..."]), ("close", "i32", ["i32"]),
        ("lseek", "i64", ["i32", "i64", "i32"]), ("mmap", "ptr", ["ptr", "i64", "i32", "i32", "i32", "i64"]),
        ("munmap", "i32", ["ptr", "i64"]), ("madvise", "i32", ["ptr", "i64", "i32"]), ("free", "void", ["ptr"]),
        ("calloc", "ptr", ["i64", "i64"]), ("llvm.memset.p0.i64", "void", ["ptr", "i8", "i64", "i1"]),
    ):  # fmt: skip
        module.declare(name, result, parameters)
    for name in ("grad_mode_is_enabled", "grad_mode_set_enabled", "create_tensor_from_blob_v2", "get_dtype", "get_dim",
                 "get_sizes", "copy_", "new_tensor_handle"):
        module.declare_torch(name)
    module.declare("torch_exception_get_what_without_backtrace", "ptr", [], weak=True)
    text = _TEXT
    for key, value in {
        "torch": c_interface.PREFIX,
        "INPUTS": len(inputs), "OUTPUTS": len(outputs), "WEIGHTS": len(weights), "VERSION": INTERFACE_VERSION,
        "INPUT_NAMES": _names(module, inputs), "OUTPUT_NAMES": _names(module, outputs),
        "WEIGHT_NAMES": _names(module, [weight.name for weight in weights]),
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
        **{f"MESSAGE_{key}": module.string(message) for key, message in _MESSAGES.items()},
    }.items():
        text = text.replace(f"<{key}>", str(value))
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


def _names(module: ModuleText, names: Sequence[str]) -> str:
    return module.pointers([module.string(name) for name in names])


def _stored(weight: Weight) -> Sequence[int]:
    """The strides of a weight in its file. Those of dimensions of size 1 are free: ATen chooses layouts by them."""
    strides, step = [], 1
    for size in reversed(weight.shape):
        strides.append(step)
        step *= max(size, 1)
    strides.reverse()
    same = all(size == 1 or a == b for size, a, b in zip(weight.shape, weight.strides, strides, strict=True))
    return weight.strides if same else strides


def _cpu_check(module: ModuleText, target: Target) -> str:
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

_TEXT = """
define internal void @fs.torch_failed(ptr %where) {
  %known = icmp ne ptr @torch_exception_get_what_without_backtrace, null
  br i1 %known, label %ask, label %guess
ask:
  %said = call ptr @torch_exception_get_what_without_backtrace()
  br label %tell
guess:
  br label %tell
tell:
  %what = phi ptr [ %said, %ask ], [ <MESSAGE_UNSAID>, %guess ]
  %n = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @fs.error, i64 1024, ptr <MESSAGE_TORCH>, ptr %where, ptr %what)
  ret void
}
define internal void @fs.advise(ptr %memory, i64 %size) {
  %large = icmp uge i64 %size, 4194304
  br i1 %large, label %ask, label %done
ask:
  %start = ptrtoint ptr %memory to i64
  %up = add i64 %start, 4095
  %first = and i64 %up, -4096
  %end = add i64 %start, %size
  %length = sub i64 %end, %first
  %whole = and i64 %length, -4096
  %page = inttoptr i64 %first to ptr
  %ignored = call i32 @madvise(ptr %page, i64 %whole, i32 14)
  br label %done
done:
  ret void
}
define ptr @firesteel_last_error() {
  ret ptr @fs.error
}
define i32 @firesteel_interface_version() {
  ret i32 <VERSION>
}
define ptr @firesteel_model_description() {
  ret ptr <DESCRIPTION>
}
define internal ptr @fs.name(ptr %names, i64 %count, i64 %index) {
  %inside = icmp ult i64 %index, %count
  br i1 %inside, label %found, label %none
found:
  %at = getelementptr ptr, ptr %names, i64 %index
  %name = load ptr, ptr %at, align 8
  ret ptr %name
none:
  ret ptr null
}
define i32 @firesteel_model_device(ptr %model) {
  %at = getelementptr i64, ptr %model, i64 <DEVICE_AT>
  %word = load i64, ptr %at, align 8
  %number = trunc i64 %word to i32
  %device = select i1 <HAS_GPU>, i32 %number, i32 -1
  ret i32 %device
}
define i64 @firesteel_model_num_inputs() {
  ret i64 <INPUTS>
}
define i64 @firesteel_model_num_outputs() {
  ret i64 <OUTPUTS>
}
define i64 @firesteel_model_num_weights() {
  ret i64 <WEIGHTS>
}
define ptr @firesteel_model_input_name(i64 %index) {
  %name = call ptr @fs.name(ptr <INPUT_NAMES>, i64 <INPUTS>, i64 %index)
  ret ptr %name
}
define ptr @firesteel_model_output_name(i64 %index) {
  %name = call ptr @fs.name(ptr <OUTPUT_NAMES>, i64 <OUTPUTS>, i64 %index)
  ret ptr %name
}
define ptr @firesteel_model_weight_name(i64 %index) {
  %name = call ptr @fs.name(ptr <WEIGHT_NAMES>, i64 <WEIGHTS>, i64 %index)
  ret ptr %name
}
define i32 @firesteel_model_load(ptr %path, i64 %offset, ptr %result) {
  %error = call i32 @firesteel_model_load_on(ptr %path, i64 %offset, i32 -1, ptr %result)
  ret i32 %error
}
define i32 @firesteel_model_load_on(ptr %path, i64 %offset, i32 %device, ptr %result) {
entry:
  %stored = alloca ptr, align 8
  %laid = alloca ptr, align 8
  store ptr null, ptr %stored, align 8
  store ptr null, ptr %result, align 8
  %fit = call i1 @fs.cpu_is_fit()
  br i1 %fit, label %begin, label %unfit
begin:
  %model = call ptr @calloc(i64 1, i64 <RECORD>)
  %got = icmp ne ptr %model, null
  br i1 %got, label %have, label %no_memory
have:<LOAD>
  %any = icmp ne i64 <WEIGHTS>, 0
  br i1 %any, label %opening, label %done
opening:
  %file = call i32 (ptr, i32, ...) @open(ptr %path, i32 524288)
  %opened = icmp sge i32 %file, 0
  br i1 %opened, label %measure, label %not_opened
measure:
  %size = call i64 @lseek(i32 %file, i64 0, i32 2)
  %needed = add i64 %offset, <LENGTH>
  %long = icmp sge i64 %size, %needed
  br i1 %long, label %map, label %short
map:
  %page = and i64 %offset, -4096
  %before = sub i64 %offset, %page
  %length = add i64 %before, <LENGTH>
  %base = call ptr @mmap(ptr null, i64 %length, i32 3, i32 2, i32 %file, i64 %page)
  %closed = call i32 @close(i32 %file)
  %number = ptrtoint ptr %base to i64
  %mapped = icmp ne i64 %number, -1
  br i1 %mapped, label %remember, label %not_mapped
remember:
  store ptr %base, ptr %model, align 8
  %length_at = getelementptr i64, ptr %model, i64 1
  store i64 %length, ptr %length_at, align 8
  %head = getelementptr i8, ptr %base, i64 %before
  %differs = call i32 @memcmp(ptr %head, ptr <HEAD>, i64 <HEAD_BYTES>)
  %same = icmp eq i32 %differs, 0
  br i1 %same, label %loop, label %foreign
loop:
  %i = phi i64 [ 0, %remember ], [ %next, %keep ]
  %going = icmp ult i64 %i, <WEIGHTS>
  br i1 %going, label %body, label %done
body:
  %offset_at = getelementptr i64, ptr <OFFSETS>, i64 %i
  %place = load i64, ptr %offset_at, align 8
  %behind = add i64 %place, <DATA>
  %data = getelementptr i8, ptr %head, i64 %behind
  %ndim_at = getelementptr i64, ptr <DIMENSIONS>, i64 %i
  %ndim = load i64, ptr %ndim_at, align 8
  %dtype_at = getelementptr i64, ptr <DTYPES>, i64 %i
  %dtype_word = load i64, ptr %dtype_at, align 8
  %dtype = trunc i64 %dtype_word to i32
  %sizes_at = getelementptr ptr, ptr <SIZES>, i64 %i
  %sizes = load ptr, ptr %sizes_at, align 8
  %stored_at = getelementptr ptr, ptr <STORED>, i64 %i
  %stored_strides = load ptr, ptr %stored_at, align 8
  %strides_at = getelementptr ptr, ptr <STRIDES>, i64 %i
  %strides = load ptr, ptr %strides_at, align 8
  %error = call i32 @<torch>create_tensor_from_blob_v2(ptr %data, i64 %ndim, ptr %sizes, ptr %stored_strides,
      i64 0, i32 %dtype, i32 <CPU>, i32 0, ptr %stored, i32 <STRIDED>, ptr null, i64 0)
  %created = icmp eq i32 %error, 0
  br i1 %created, label %place_it, label %failed
place_it:
  %tensor = load ptr, ptr %stored, align 8
  %shifted = add i64 %i, <HANDLES_AT>
  %slot = getelementptr ptr, ptr %model, i64 %shifted
  %moved_at = getelementptr i64, ptr <MOVED>, i64 %i
  %moved = load i64, ptr %moved_at, align 8
  %stays = icmp eq i64 %moved, -2
  br i1 %stays, label %lay, label %move
move:
  %copies = icmp eq i64 %moved, -1
  br i1 %copies, label %send, label %share
send:
  %number_at = getelementptr i64, ptr %model, i64 <DEVICE_AT>
  %number64 = load i64, ptr %number_at, align 8
  %number32 = trunc i64 %number64 to i32
  %unsent = call i32 @fs.copy_to(ptr %tensor, i64 %ndim, ptr %sizes, ptr %strides, i32 %dtype, i32 <GPU>,
      i32 %number32, ptr %slot)
  %sent = icmp eq i32 %unsent, 0
  br i1 %sent, label %leave, label %failed
share:
  %other = add i64 %moved, <HANDLES_AT>
  %other_at = getelementptr ptr, ptr %model, i64 %other
  %same_tensor = load ptr, ptr %other_at, align 8
  %unshared = call i32 @<torch>new_tensor_handle(ptr %same_tensor, ptr %slot)
  %shared = icmp eq i32 %unshared, 0
  br i1 %shared, label %leave, label %failed
lay:
  %problem = call i32 @fs.lay_out(ptr %tensor, i64 %ndim, ptr %sizes, ptr %strides, i32 %dtype, i32 <CPU>, i32 0, i64 0,
      ptr %slot, ptr %laid)
  %copied = icmp eq i32 %problem, 0
  br i1 %copied, label %which, label %failed
which:
  %used = load ptr, ptr %laid, align 8
  %own = icmp eq ptr %used, %tensor
  br i1 %own, label %take, label %leave
take:
  store ptr %tensor, ptr %slot, align 8
  store ptr null, ptr %stored, align 8
  br label %keep
leave:
  call void @fs.drop(ptr %stored)
  br label %keep
keep:
  %next = add i64 %i, 1
  br label %loop
done:
  %refreshed = call i32 @firesteel_model_refresh(ptr %model)
  %ready = icmp eq i32 %refreshed, 0
  br i1 %ready, label %loaded, label %give_up
loaded:
  store ptr %model, ptr %result, align 8
  ret i32 0
unfit:
  %e0 = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @fs.error, i64 1024, ptr <MESSAGE_CPU>)
  ret i32 1
no_memory:
  %e1 = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @fs.error, i64 1024, ptr <MESSAGE_MEMORY>)
  ret i32 1
not_opened:
  %e2 = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @fs.error, i64 1024, ptr <MESSAGE_OPEN>, ptr %path)
  br label %give_up
short:
  %closed_short = call i32 @close(i32 %file)
  %e3 = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @fs.error, i64 1024, ptr <MESSAGE_SHORT>, ptr %path)
  br label %give_up
not_mapped:
  %e4 = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @fs.error, i64 1024, ptr <MESSAGE_MAP>, ptr %path)
  br label %give_up
foreign:
  %e5 = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @fs.error, i64 1024, ptr <MESSAGE_FOREIGN>, ptr %path)
  br label %give_up
failed:
  call void @fs.torch_failed(ptr <MESSAGE_WEIGHT>)
  call void @fs.drop(ptr %stored)
  br label %give_up
give_up:
  call void @firesteel_model_free(ptr %model)
  ret i32 1
}
define void @firesteel_model_free(ptr %model) {
entry:
  %none = icmp eq ptr %model, null
  br i1 %none, label %end, label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  %going = icmp ult i64 %i, <HANDLES>
  br i1 %going, label %body, label %unmap
body:
  %shifted = add i64 %i, <HANDLES_AT>
  %slot = getelementptr ptr, ptr %model, i64 %shifted
  call void @fs.drop(ptr %slot)
  %next = add i64 %i, 1
  br label %loop
unmap:
<FREE>
  %base = load ptr, ptr %model, align 8
  %length_at = getelementptr i64, ptr %model, i64 1
  %length = load i64, ptr %length_at, align 8
  %has = icmp ne ptr %base, null
  br i1 %has, label %mapped, label %last
mapped:
  %ignored = call i32 @munmap(ptr %base, i64 %length)
  br label %last
last:
  call void @free(ptr %model)
  br label %end
end:
  ret void
}
define i32 @firesteel_model_update_weight(ptr %model, ptr %name, ptr %tensor) {
entry:
  %word = alloca i64, align 8
  %half = alloca i32, align 4
  %list = alloca ptr, align 8
  br label %loop
loop:
  %i = phi i64 [ 0, %entry ], [ %next, %other ]
  %going = icmp ult i64 %i, <WEIGHTS>
  br i1 %going, label %body, label %unknown
body:
  %name_at = getelementptr ptr, ptr <WEIGHT_NAMES>, i64 %i
  %own = load ptr, ptr %name_at, align 8
  %differs = call i32 @strcmp(ptr %own, ptr %name)
  %same = icmp eq i32 %differs, 0
  br i1 %same, label %found, label %other
other:
  %next = add i64 %i, 1
  br label %loop
found:
  %e0 = call i32 @<torch>get_dtype(ptr %tensor, ptr %half)
  %e1 = call i32 @<torch>get_dim(ptr %tensor, ptr %word)
  %e2 = call i32 @<torch>get_sizes(ptr %tensor, ptr %list)
  %e3 = or i32 %e0, %e1
  %e4 = or i32 %e3, %e2
  %known = icmp eq i32 %e4, 0
  br i1 %known, label %compare, label %failed
compare:
  %dtype = load i32, ptr %half, align 4
  %dtype_at = getelementptr i64, ptr <DTYPES>, i64 %i
  %dtype_word = load i64, ptr %dtype_at, align 8
  %wanted_dtype = trunc i64 %dtype_word to i32
  %same_dtype = icmp eq i32 %dtype, %wanted_dtype
  %ndim = load i64, ptr %word, align 8
  %ndim_at = getelementptr i64, ptr <DIMENSIONS>, i64 %i
  %wanted_ndim = load i64, ptr %ndim_at, align 8
  %same_ndim = icmp eq i64 %ndim, %wanted_ndim
  %alike = and i1 %same_dtype, %same_ndim
  %sizes = load ptr, ptr %list, align 8
  %sizes_at = getelementptr ptr, ptr <SIZES>, i64 %i
  %wanted = load ptr, ptr %sizes_at, align 8
  br i1 %alike, label %sizes_loop, label %another
sizes_loop:
  %d = phi i64 [ 0, %compare ], [ %after, %equal ]
  %more = icmp slt i64 %d, %ndim
  br i1 %more, label %look, label %copy
look:
  %a_at = getelementptr i64, ptr %sizes, i64 %d
  %a = load i64, ptr %a_at, align 8
  %b_at = getelementptr i64, ptr %wanted, i64 %d
  %b = load i64, ptr %b_at, align 8
  %agree = icmp eq i64 %a, %b
  br i1 %agree, label %equal, label %another
equal:
  %after = add i64 %d, 1
  br label %sizes_loop
copy:
  %shifted = add i64 %i, <HANDLES_AT>
  %slot = getelementptr ptr, ptr %model, i64 %shifted
  %weight = load ptr, ptr %slot, align 8
  %graded = call zeroext i1 @<torch>grad_mode_is_enabled()
  call void @<torch>grad_mode_set_enabled(i1 zeroext false)
  %error = call i32 @<torch>copy_(ptr %weight, ptr %tensor, i32 0)
  call void @<torch>grad_mode_set_enabled(i1 zeroext %graded)
  %copied = icmp eq i32 %error, 0
  br i1 %copied, label %done, label %failed
done:
  ret i32 0
unknown:
  %m0 = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @fs.error, i64 1024, ptr <MESSAGE_NAME>, ptr %name)
  ret i32 1
another:
  %m1 = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @fs.error, i64 1024, ptr <MESSAGE_SHAPE>, ptr %name)
  ret i32 1
failed:
  call void @fs.torch_failed(ptr <MESSAGE_WEIGHT>)
  ret i32 1
}
define i32 @firesteel_model_run(ptr %model, ptr %inputs, i64 %given, ptr %outputs, i64 %room) {
  %enough = icmp eq i64 %given, <INPUTS>
  br i1 %enough, label %first, label %inputs_differ
first:
  %fits = icmp eq i64 %room, <OUTPUTS>
  br i1 %fits, label %go, label %outputs_differ
go:
  %bytes = mul i64 %room, 16
  call void @llvm.memset.p0.i64(ptr %outputs, i8 0, i64 %bytes, i1 false)<ENTER>
  %graded = call zeroext i1 @<torch>grad_mode_is_enabled()
  call void @<torch>grad_mode_set_enabled(i1 zeroext false)
  %error = call i32 @fs.run(ptr %model, ptr %inputs, ptr %outputs)
  call void @<torch>grad_mode_set_enabled(i1 zeroext %graded)
<LEAVE>
  ret i32 %error
inputs_differ:
  %m0 = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @fs.error, i64 1024, ptr <MESSAGE_INPUTS>, i64 <INPUTS>, i64 %given)
  ret i32 1
outputs_differ:
  %m1 = call i32 (ptr, i64, ptr, ...) @snprintf(ptr @fs.error, i64 1024, ptr <MESSAGE_OUTPUTS>, i64 <OUTPUTS>,
      i64 %room)
  ret i32 1
}
"""
