"""Programs that reach memory in every way there is: small and odd sizes, views of views, steps, overlaps, gathers and
scatters, reductions and scans along any dimension, images, random numbers, of any dtype; for runs with checked or
guarded memory above all."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F

from ..program import Program
from ..values import Dice

SAMPLE = 21
SIZES = (0, 1, 1, 2, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 20, 31, 33, 40, 65)
DTYPES = ("float32",) * 6 + ("float64", "int64", "int32", "int8", "uint8", "bool", "bfloat16")
MOST_ELEMENTS = 6000
# Numbers that are rounded: how, is nobody's promise. What tells the smallest differences between them apart would show
# it, or make it large.
ROUNDED = re.compile(r"_norm|softmax|logsumexp|var\(|mean\(|sin\(|sigmoid|conv2d|linear|avg_pool|interpolate")
TELLING = re.compile(r" > 0|!= 0|argmax|\[1\]|any\(|int16|layer_norm|var\(")

HEADER = """
import torch
import torch.nn.functional as F


def filled(count, dtype):
    numbers = (torch.arange(count) * 7 % 11 - 5)
    if dtype is torch.bool:
        return numbers > 0
    return numbers.to(dtype) / 4 if dtype.is_floating_point else numbers.to(dtype)

"""


def generate(seed: int) -> Program:
    """The program of a seed."""
    return Program(seed, _Writer(Dice(seed)).source())


@dataclass
class _Layout:
    """How a tensor lies in its storage, whatever its sizes are."""

    dtype: str
    order: list[int]
    step: int
    gaps: list[int]
    expanded: int | None
    offset: int
    behind: int

    def text(self, shape: tuple[int, ...]) -> str:
        strides, step = [0] * len(shape), self.step
        for dim in reversed(self.order):
            strides[dim] = step
            step = max(step * max(shape[dim], 1) + self.gaps[dim], 1)
        if self.expanded is not None:
            strides[self.expanded] = 0
        reach = 1 + sum((max(size, 1) - 1) * stride for size, stride in zip(shape, strides, strict=True))
        return (f"filled({self.offset + reach + self.behind}, {self.dtype}).as_strided({shape}, {tuple(strides)}, "
                f"{self.offset})")


class _Writer:
    """Writes one program; which sizes it has at each point is found by running it on tensors without data."""

    def __init__(self, dice: Dice) -> None:
        self.dice = dice
        self.values: dict[str, torch.Tensor] = {"idx": torch.empty(5, dtype=torch.int64, device="meta")}
        self.body: list[str] = []
        self.rounded: set[str] = set()

    def source(self) -> str:
        dice = self.dice
        names = ["x", "y", "z"][: dice.between(1, 3)]
        shape = self.shape()
        inputs: dict[str, tuple[tuple[int, ...], _Layout]] = {}
        for name in names:
            inputs[name] = shape, self.layout(len(shape))
            self.values[name] = self.evaluate(inputs[name][1].text(shape))
            if dice.chance(0.5):
                shape = self.shape()
        wanted = dice.between(2, 6)
        for _ in range(60):
            if len(self.body) < wanted:
                self.statement()
        results = [name for name in self.values if name not in ("idx", *names)] or names
        kept = [name for name in results[:-1] if dice.chance(0.5)] + results[-1:]
        # In a later call all sizes that were equal are another size, still equal to each other.
        old = dice.choice([size for shape, _ in inputs.values() for size in shape])
        new = dice.choice(SIZES) if dice.chance(0.4) else old
        # Of an input without elements eager may return the input itself as its gradient.
        grads = [name for name in names if self.values[name].is_floating_point() and dice.chance(0.4)
                 and self.values[name].numel() and new]
        calls = []
        for number, size in enumerate((old, old, new)):
            made = []
            for name, (sizes, layout) in inputs.items():
                text = layout.text(tuple(size if one == old else one for one in sizes))
                made.append(f"{text}.requires_grad_()" if name in grads else text)
            calls.append(f"        (({', '.join(made)}, torch.tensor([0, 3, 1, {number}, 2])), {{}}),")
        body = "\n".join(f"    {line}" for line in self.body)
        return (f"{HEADER}\ndef fn({', '.join(inputs)}, idx):\n{body}\n    return {', '.join(kept)}\n\n\n"
                "def make():\n    calls = [\n" + "\n".join(calls) + "\n    ]\n\n"
                "    def before(index):\n        pass\n\n    def observe():\n        return {}\n\n"
                "    return fn, calls, before, observe\n")

    def shape(self) -> tuple[int, ...]:
        dice = self.dice
        shape = tuple(dice.choice(SIZES) for _ in range(dice.weighted(((2, 1), (2, 2), (2, 3), (1, 4)))))
        elements = 1
        for size in shape:
            elements *= max(size, 1)
        return shape if elements <= MOST_ELEMENTS // 4 else tuple(min(size, 9) for size in shape)

    def layout(self, rank: int) -> _Layout:
        dice = self.dice
        order = dice.sample(range(rank), rank) if dice.chance(0.3) else list(range(rank))
        if rank == 4 and dice.chance(0.4):
            order = [0, 2, 3, 1]  # channels last
        gaps = [dice.between(-3 if dice.chance(0.1) else 1, 5) if dice.chance(0.15) else 0 for _ in range(rank)]
        return _Layout(f"torch.{dice.choice(DTYPES)}", order, dice.choice((1, 1, 1, 1, 2, 3, 4)), gaps,
                       dice.below(rank) if dice.chance(0.15) else None, dice.choice((0, 0, 1, 5)),
                       dice.choice((0, 0, 0, 3)))

    def evaluate(self, text: str) -> torch.Tensor:
        """What an expression gives, without data."""
        scope = {"torch": torch, "F": F, "filled": lambda count, dtype: torch.empty(count, dtype=dtype, device="meta"),
                 **self.values}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result: torch.Tensor = eval(text, scope)
        return result

    def statement(self) -> None:
        dice = self.dice
        name = dice.choice([name for name in self.values if name != "idx"])
        text = dice.weighted(KINDS)(self, name)
        if text is None:
            return
        try:
            result = self.evaluate(text)
        except Exception:  # not for these sizes or dtypes
            return
        if not isinstance(result, torch.Tensor) or result.numel() > MOST_ELEMENTS or result.dim() > 5:
            return
        rounded = not self.rounded.isdisjoint(re.findall(r"\w+", text))
        if rounded and TELLING.search(text):
            return
        made = f"v{len(self.values)}"
        if rounded or ROUNDED.search(text):
            self.rounded.add(made)
        self.values[made] = result
        self.body.append(f"{made} = {text}")

    # pieces

    def dim(self, name: str) -> int:
        count = max(self.values[name].dim(), 1)
        return self.dice.below(count) - (count if self.dice.chance(0.3) else 0)

    def size(self, name: str, dim: int) -> int:
        value = self.values[name]
        return value.shape[dim] if value.dim() else 1

    def other(self) -> str:
        return self.dice.choice([name for name in self.values if name != "idx"])


def _unary(w: _Writer, v: str) -> str:
    return w.dice.choice((f"{v} * 2", f"{v} + 1", f"-{v}", f"{v}.abs()", f"{v}.sin()", f"{v}.relu()", f"{v} > 0",
                          f"{v}.float()", f"{v}.to(torch.float64)", f"{v}.to(torch.int16)", f"{v}.to(torch.bfloat16)",
                          f"{v}.contiguous()", f"{v}.clone()", f"{v}.sigmoid()", f"{v} != 0"))


def _binary(w: _Writer, v: str) -> str:
    o = w.other()
    return w.dice.choice((f"{v} + {o}", f"{v} * {o}", f"torch.where({v} > 0, {v}, {o})", f"torch.maximum({v}, {o})",
                          f"torch.add({v}, {o}, alpha=3)", f"{v} @ {o}"))


def _view(w: _Writer, v: str) -> str:
    dice, d = w.dice, w.dim(v)
    size = w.size(v, d)
    step = dice.choice((1, 2, 2, 3, 4, 4, 5))
    at = dice.between(0, size)
    shape = list(w.values[v].shape)
    strides = tuple(dice.choice((0, 1, 2, 3, 4)) for _ in range(2))
    # The view begins anywhere as long as it ends before the storage does; eager raises for others.
    room = w.values[v].numel()
    sizes = tuple(dice.choice((1, 2, 3, 5)) for _ in range(2))
    reach = sum((one - 1) * stride for one, stride in zip(sizes, strides, strict=True))
    return dice.choice((
        f"{v}.transpose({w.dim(v)}, {w.dim(v)})", f"{v}.flip({d})", f"{v}.unsqueeze({d})", f"{v}.flatten()",
        f"{v}[..., ::{step}]", f"{v}[{dice.below(3)}::{step}]", f"{v}[..., {at}:]", f"{v}[..., :-{dice.between(1, 3)}]",
        f"{v}.narrow({d}, {dice.between(0, size)}, {dice.between(0, size)})", f"{v}.select({d}, {dice.between(-1, 2)})",
        f"{v}.unfold({d}, {dice.between(1, 5)}, {dice.between(1, 4)})", f"{v}.diagonal()",
        f"{v}.permute({dice.sample(range(len(shape)), len(shape))})", f"{v}.reshape({shape[::-1]})",
        f"{v}.unsqueeze(0).expand({[dice.choice((2, 4)), *shape]})", f"{v}.movedim(0, -1)",
        f"{v}.contiguous().as_strided({sizes}, {strides}, {dice.between(0, max(room - reach - 1, 0))})",
    ))


def _reduction(w: _Writer, v: str) -> str:
    dice, d = w.dice, w.dim(v)
    keep = dice.choice((", keepdim=True", ""))
    return dice.choice((f"{v}.sum({d}{keep})", f"{v}.sum()", f"{v}.amax({d}{keep})", f"{v}.amin({d}{keep})",
                        f"{v}.mean({d}{keep})", f"{v}.argmax({d}{keep})", f"{v}.any({d}{keep})", f"{v}.cumsum({d})",
                        f"{v}.softmax({d})", f"{v}.logsumexp({d})", f"{v}.var({d}, correction=0)",
                        f"F.layer_norm({v}, {v}.shape[-1:])", f"{v}.cummax({d})[0]", f"{v}.min({d})[1]"))


def _moved(w: _Writer, v: str) -> str:
    dice, d, o = w.dice, w.dim(v), w.other()
    pads = [dice.between(-2, 4) for _ in range(2 * dice.between(1, 2))]
    mode = dice.choice(("", "", ", mode='reflect'", ", mode='replicate'"))
    return dice.choice((f"torch.cat([{v}, {o}], {d})", f"torch.stack([{v}, {v} + 1], {d})", f"F.pad({v}, {pads}{mode})",
                        f"torch.sort({v}, {d})[{dice.between(0, 1)}]", f"{v}.t().sort()[0] * 2",
                        f"{v}.index_fill({d}, torch.tensor([0]), torch.ones((), dtype={v}.dtype))",
                        f"torch.roll({v}, {dice.between(-5, 9)}, {d})", f"{v}.repeat({dice.choice((2, (2, 1)))})",
                        f"torch.tril({v}, {dice.between(-2, 2)})", f"{v}.repeat_interleave({dice.between(1, 3)}, {d})",
                        f"torch.cat([{v}, {v}.flip({d}), {o}], {d})", f"{v}.split({dice.between(1, 4)}, {d})[-1]",
                        f"F.avg_pool1d({v}.float().reshape(1, 1, -1), {dice.between(1, 4)}, {dice.between(1, 3)})",
                        f"F.max_pool1d({v}.float().reshape(1, 1, -1), {dice.between(1, 4)}, {dice.between(1, 3)})",
                        f"F.max_pool1d({v}.float().unsqueeze(0), {dice.between(1, 3)}, {dice.between(1, 2)})",
                        f"F.interpolate({v}.float().reshape(1, 1, -1), scale_factor={dice.between(1, 3)})"))


def _indexed(w: _Writer, v: str) -> str | None:
    dice, d = w.dice, w.dim(v)
    size = w.size(v, d)
    if not size or not w.values[v].dim():
        return None
    at = f"idx % {size}"
    first = f"idx % {max(w.size(v, 0), 1)}"
    rows = f"{v}.narrow({d}, 0, 1)"
    return dice.choice((f"{v}.index_select({d}, {at})", f"{v}[{first}]", f"{v}.index_add({d}, {at}[:1], {rows})",
                        f"{v}.scatter_add({d}, torch.zeros_like({rows}, dtype=torch.int64) + {size - 1}, {rows})",
                        f"{v}.gather({d}, ({rows} > 0).long() * {size - 1})", f"{v}.index_copy({d}, {at}[:1], {rows})",
                        f"{v}.index_fill({d}, {at}, 1)", f"F.embedding({first}, {v})",
                        f"{v}.scatter({d}, torch.zeros_like({rows}, dtype=torch.int64), 1)"))


def _in_place(w: _Writer, v: str) -> str | None:
    """A change of a part of a copy, or of the value itself."""
    dice = w.dice
    value = w.values[v]
    if not value.dim() or not value.numel():
        return None
    copy = f"v{len(w.values)}"
    part = dice.choice(("[..., 1::2]", "[::3]", "[..., -1]", "[:2]", "", "[..., ::4]"))
    act = dice.choice(("add_(1)", "mul_(2)", "fill_(3)", "copy_(0 * {part} + 1)", "zero_()"))
    target = f"{copy}{part}"
    w.values[copy] = torch.empty_like(value)
    if v in w.rounded:
        w.rounded.add(copy)
    w.body.append(f"{copy} = {v}{dice.choice(('.clone()', '.clone()', '.clone()', ''))}")
    w.body.append(f"{target}.{act.format(part=target)}")
    return None


Kind = Callable[[_Writer, str], str | None]
def _image(w: _Writer, v: str) -> str | None:
    """Convolutions, which have layouts that they like, and what lies between them."""
    if w.values[v].dim() != 4:
        return f"{v}.float().reshape(1, {v}.shape[0], {v}.shape[1], -1)" if w.values[v].dim() > 1 else None
    if w.dice.chance(0.5):
        return _resized(w, v)
    more = f"torch.ones({v}.shape[1], 1, 3, 3) / 8, padding=1, groups={v}.shape[1]"
    return w.dice.choice((f"F.conv2d({v}, {more})", f"F.conv2d(F.conv2d({v}, {more}).relu(), {more})",
                          f"F.conv2d(torch.rand_like(F.conv2d({v}, {more})), {more})", f"F.max_pool2d({v}, 2)"))


def _resized(w: _Writer, v: str) -> str:
    """What makes images of another size."""
    dice = w.dice
    pads = tuple(dice.between(0, 2) for _ in range(4))
    sizes = dice.between(1, 5), dice.between(1, 5)
    mode = dice.choice(("nearest", "bilinear", "nearest-exact"))
    return dice.choice((
        f"F.pad({v}, {pads}, mode={dice.choice(('reflect', 'replicate', 'constant'))!r})",
        f"F.pad({v}, {pads}, mode={dice.choice(('reflect', 'replicate'))!r})",
        f"F.interpolate({v}.float(), size={sizes}, mode={mode!r})", f"F.adaptive_avg_pool2d({v}.float(), {sizes})",
        f"F.avg_pool2d({v}.float(), {dice.between(1, 3)}, {dice.between(1, 3)})", f"F.pixel_unshuffle({v}, 2)",
        f"F.adaptive_max_pool2d({v}.float(), {sizes})", f"F.max_pool2d({v}.float(), {dice.between(1, 3)}, 1)",
        f"F.pixel_shuffle({v}.repeat(1, 4, 1, 1), 2)", f"F.channel_shuffle({v}, 1)", f"F.unfold({v}.float(), 2)",
        f"F.batch_norm({v}.float(), None, None, training=True)", f"F.instance_norm({v}.float())",
        f"F.local_response_norm({v}.float(), 2)", f"F.group_norm({v}.float(), 1)",
    ))  # fmt: skip


def _layer(w: _Writer, v: str) -> str | None:
    """Layers with a bias that lies in memory in any way."""
    dim = w.values[v].dim()
    if not dim:
        return None
    image = dim == 4 and w.dice.chance(0.6)
    dtype = "float32" if image else w.dice.choice(("float32", "bfloat16"))
    bias = w.dice.choice(("torch.arange(8, dtype={})[::2]", "torch.ones(1, dtype={}).expand(4)",
                          "torch.arange(4, dtype={})", "torch.arange(12, dtype={}).reshape(4, 3)[:, 1]"))
    bias = bias.format(f"torch.{dtype}")
    if image:
        layout = w.dice.choice(("", ".contiguous(memory_format=torch.channels_last)"))
        return f"F.conv2d({v}.float(){layout}, torch.ones(4, {v}.shape[1], 1, 1) / 4, {bias})"
    weight = f"torch.ones(4, {v}.shape[-1], dtype=torch.{dtype}) / 4"
    return f"F.linear({v}.to(torch.{dtype}).contiguous(), {weight}, {bias})"


def _random(w: _Writer, v: str) -> str:
    return w.dice.choice((f"{v} + torch.rand_like({v})", f"F.dropout({v}, 0.5)", f"torch.randn_like({v})"))


KINDS: list[tuple[float, Kind]] = [(3, _unary), (3, _binary), (4, _view), (3, _reduction), (3, _moved), (2, _indexed),
                                   (1, _in_place), (2, _image), (2, _layer), (0.5, _random)]
