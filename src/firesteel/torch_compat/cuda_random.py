"""How torch draws random numbers on a GPU, and operators that draw the same ones without torch's kernels.

A generator is a seed and an offset. An operator runs a number of threads that depends on its elements and on the
device. Thread ``t`` draws groups of four numbers: Philox 4x32-10 under the key ``seed``, at the counters
``offset / 4``, ``offset / 4 + 1`` and so on beside ``t``. The offset moves on by what one thread has drawn. With
``width`` 1 the numbers of a group are for elements that are ``threads`` apart, otherwise a thread has ``width``
elements side by side:

    width 1:  element e = (4*k + part) * threads + t
    width w:  element e = (k * threads + t) * w + lane    of the group (k * w + lane) / 4, part lane % 4

Elements are counted in the order of memory.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch

CHECKED = ("2.11.",)
"""Releases of torch whose numbers have been compared with these."""
DROPOUT_WIDTHS = {torch.float32: 4, torch.float16: 8, torch.bfloat16: 8}
"""How many elements a thread of dropout has side by side, where their number is a multiple of that."""
_BLOCK = 256
_LOW = 0xFFFFFFFF


def threads_for(count: int, device: torch.device) -> int:
    """How many threads draw the numbers of a tensor."""
    processors, resident = _machine(device)
    return _BLOCK * min(processors * (resident // _BLOCK), -(-count // _BLOCK))


def increment_for(count: int, device: torch.device) -> int:
    """How far the offset of the generator moves on."""
    return 4 * ((count - 1) // (4 * threads_for(count, device)) + 1)


@functools.cache
def _machine(device: torch.device) -> tuple[int, int]:
    properties = torch.cuda.get_device_properties(device)
    return properties.multi_processor_count, properties.max_threads_per_multi_processor


@functools.cache
def follows_rules(device: torch.device) -> bool:
    """Whether torch draws as it is said here. Releases that are not known are asked for a few thousand numbers."""
    if torch.__version__.startswith(CHECKED):
        return True
    generator = torch.cuda.default_generators[device.index or 0]
    state = generator.get_state()
    try:
        generator.manual_seed(5)
        return all(_draws_alike(generator, count, dtype, device)
                   for dtype in DROPOUT_WIDTHS for count in (1001, 4000, 8 * threads_for(1 << 30, device) + 8))
    finally:
        generator.set_state(state)


def _draws_alike(generator: torch.Generator, count: int, dtype: torch.dtype, device: torch.device) -> bool:
    width, threads = DROPOUT_WIDTHS[dtype], threads_for(count, device)
    while count % width:
        width //= 2
    start, step = generator.get_offset(), increment_for(count, device)
    _, mask = torch.native_dropout(torch.ones(count, dtype=dtype, device=device), 0.5, True)
    drawn = torch.rand(count, dtype=dtype, device=device)
    wanted = uniform_numbers(5, start + step, count, threads, 1, device).to(dtype)
    return generator.get_offset() == start + 2 * step \
        and torch.equal(mask, uniform_numbers(5, start, count, threads, width, device) < 0.5) \
        and torch.equal(drawn, torch.where(wanted == 1, 0, wanted))


@functools.cache
def reserve_random() -> Any:
    """``(increment, device)``: the seed and the offset of the device's generator, which moves on."""
    library = torch.library.Library("firesteel", "FRAGMENT")
    library.define("reserve_random(int increment, *, Device device) -> (Tensor, Tensor)",
                   tags=(torch.Tag.nondeterministic_seeded,))
    library.impl("reserve_random", reserve, "CompositeExplicitAutograd")
    _libraries.append(library)
    return torch.ops.firesteel.reserve_random.default


def reserve(increment: int, *, device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """The function behind `reserve_random`. In a recording of launches the numbers would be the same in each replay."""
    if torch.cuda.is_current_stream_capturing():
        raise RuntimeError(
            "a function that draws random numbers was compiled without CUDA graphs and is called inside of "
            "torch.cuda.graph: compile it with mode='reduce-overhead', or record the function that is not compiled")
    generator = torch.cuda.default_generators[device.index or 0]
    offset = generator.get_offset()
    generator.set_offset(offset + increment)
    seed = generator.initial_seed()
    return torch.tensor(seed - (1 << 64) if seed >> 63 else seed), torch.tensor(offset)


reserve.returns_several = True  # type: ignore[attr-defined]
reserve.tags = (torch.Tag.nondeterministic_seeded,)  # type: ignore[attr-defined]


@functools.cache
def uniform_from() -> Any:
    """``(seed, offset, shift, size, stride, threads, width, *, device)``: the numbers as floats in (0, 1].

    They begin at ``offset + shift``, so that several operators can share what was reserved.
    """
    return _pure_operator("uniform_from", functools.partial(_filled, torch.float32))


@functools.cache
def words_from() -> Any:
    """The same numbers as integers of 32 bits, in int64."""
    return _pure_operator("words_from", functools.partial(_filled, torch.int64))


def _pure_operator(name: str, function: Any) -> Any:
    library = torch.library.Library("firesteel", "FRAGMENT")
    library.define(
        f"{name}(Tensor seed, Tensor offset, int shift, int[] size, int[] stride, int threads, int width, *, "
        "Device device) -> Tensor", tags=(torch.Tag.pointwise,))
    library.impl(name, function, "CompositeExplicitAutograd")
    _libraries.append(library)
    return getattr(torch.ops.firesteel, name).default


def _filled(dtype: torch.dtype, seed: torch.Tensor, offset: torch.Tensor, shift: int, size: Sequence[int],
            stride: Sequence[int], threads: int, width: int, *, device: torch.device) -> torch.Tensor:
    out = torch.empty_strided(size, stride, dtype=dtype, device=device)
    numbers = words if dtype is torch.int64 else uniform_numbers
    flat = torch.as_strided(out, (out.numel(),), (1,))
    flat.copy_(numbers(int(seed), int(offset) + shift, out.numel(), threads, width, device))
    return out


def uniform_numbers(seed: int, offset: int, count: int, threads: int, width: int,
                    device: torch.device) -> torch.Tensor:
    """The first ``count`` numbers as floats, in the order of memory: the middle of the interval that 32 bits name."""
    step = 2.0**-32
    integers = words(seed, offset, count, threads, width, device)
    return (integers.to(torch.float32).to(torch.float64) * step + step / 2).to(torch.float32)


def words(seed: int, offset: int, count: int, threads: int, width: int, device: torch.device) -> torch.Tensor:
    """The first ``count`` numbers, in the order of memory."""
    element = torch.arange(count, device=device)
    if width == 1:
        thread, turn = element % threads, element // threads
        group, part = turn // 4, turn % 4
    else:
        thread, turn = element // width % threads, element // (width * threads)
        drawn = turn * width + element % width
        group, part = drawn // 4, drawn % 4
    counter = offset // 4 + group
    parts = _philox(seed, [counter & _LOW, counter >> 32, thread & _LOW, thread >> 32])
    return torch.stack(parts, -1).gather(-1, part[:, None])[:, 0]


def _philox(seed: int, counter: list[torch.Tensor]) -> list[torch.Tensor]:
    keys = [seed & _LOW, seed >> 32 & _LOW]
    a, b, c, d = counter
    for _ in range(10):
        (high, low), (far, near) = _product(0xD2511F53, a), _product(0xCD9E8D57, c)
        a, b, c, d = far ^ b ^ keys[0], near, high ^ d ^ keys[1], low
        keys = [(keys[0] + 0x9E3779B9) & _LOW, (keys[1] + 0xBB67AE85) & _LOW]
    return [a, b, c, d]


def _product(factor: int, word: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The high and the low half of a product of 32 bits with 32 bits."""
    low, high = word * (factor & 0xFFFF), word * (factor >> 16)
    total = low + ((high & 0xFFFF) << 16)
    return (total >> 32) + (high >> 16), total & _LOW


_libraries: list[torch.library.Library] = []
"""An operator exists as long as its library."""
