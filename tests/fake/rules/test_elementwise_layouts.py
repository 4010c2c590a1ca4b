"""Strides of elementwise results, where torch's meta kernels say something else than eager does."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from firesteel.fake import FakeMode

LAYOUTS: dict[str, Callable[[torch.dtype], torch.Tensor]] = {
    "a row": lambda dtype: torch.ones(20, 1, dtype=dtype).t(),
    "a column": lambda dtype: torch.ones(1, 20, dtype=dtype).t(),
    "one channel": lambda dtype: torch.ones(16, dtype=dtype).as_strided((1, 1, 4, 4), (16, 1, 4, 1)),
    "channels last": lambda dtype: torch.ones(1, 4, 3, 2, dtype=dtype).contiguous(memory_format=torch.channels_last),
    "steps": lambda dtype: torch.ones(3, 8, dtype=dtype)[:, ::2],
    "a hole": lambda dtype: torch.ones(4, 6, 3, dtype=dtype).transpose(0, 1)[:, :2],
    "one first": lambda dtype: torch.ones(2, 3, 1, dtype=dtype).permute(2, 0, 1),
}
FUNCTIONS: list[tuple[str, Callable[[torch.Tensor], torch.Tensor], torch.dtype]] = [
    ("xor", lambda x: x ^ 2, torch.int64), ("shift", lambda x: 2 << x, torch.int64),
    ("isinf", torch.isinf, torch.int64), ("lcm", lambda x: torch.lcm(x, torch.tensor(2)), torch.int64),
    ("clamp", lambda x: x.clamp_max(1.5), torch.int64), ("floor", lambda x: torch.div(x, 2, rounding_mode="floor"),
                                                          torch.int64),
    ("deg2rad", torch.deg2rad, torch.float32), ("copysign", lambda x: torch.copysign(x, 2.0), torch.float32),
    ("nan_to_num", torch.nan_to_num, torch.float32), ("remainder", lambda x: torch.remainder(2, x), torch.float32),
    ("i1", torch.special.i1, torch.float32), ("pow", lambda x: 2**x, torch.float32),
    ("zeta", lambda x: torch.special.zeta(x, 2), torch.float32), ("frac", torch.frac, torch.float32),
    ("xlogy", lambda x: torch.xlogy(2, x), torch.float32),
    ("nextafter", lambda x: torch.nextafter(x, x), torch.float32),
    ("fill", lambda x: torch.fill(x, 2), torch.float32), ("relu6", torch.nn.functional.relu6, torch.float32),
    ("ldexp", lambda x: torch.ldexp(x, x), torch.float32), ("polar", lambda x: torch.polar(x, x), torch.float32),
    ("mvlgamma", lambda x: torch.mvlgamma(x + 1, 2), torch.float32),
]  # fmt: skip


@pytest.mark.parametrize("layout", LAYOUTS)
def test_strides_are_eagers(layout: str) -> None:
    mode, wrong = FakeMode(), []
    for name, function, dtype in FUNCTIONS:
        x = LAYOUTS[layout](dtype)
        fake = mode.from_real(x)
        with mode:
            got = function(fake)
        want = function(x)
        if (got.shape, got.stride(), got.dtype) != (want.shape, want.stride(), want.dtype):
            wrong.append(f"{name}: {got.stride()}, eager {want.stride()}")
    assert not wrong


@pytest.mark.parametrize("function", [
    lambda x: torch.nn.functional.glu(x, -1), lambda x: torch.nn.functional.channel_shuffle(x, 2),
    lambda x: torch.nn.functional.glu(x, 1), lambda x: torch.normal(x, x),
])  # fmt: skip
def test_images_with_the_channels_innermost(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    mode, x = FakeMode(), torch.ones(1, 4, 1, 2).contiguous(memory_format=torch.channels_last)
    fake = mode.from_real(x)
    with mode:
        got = function(fake)
    assert (got.shape, got.stride()) == (function(x).shape, function(x).stride())
