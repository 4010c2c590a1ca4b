"""Operator samples with special values put into their tensors, eager against compiled by the native backend."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from tests.conformance.comparing import AMBIGUOUS, UNDEFINED, Pair, accuracy, copied, differences, run
from tests.fuzz.values import Dice
from torch.utils import _pytree as pytree

import firesteel as fs

KNOWN = Path(__file__).parent / "special_values.txt"
DTYPES = (
    "float32", "float64", "int64", "bool", "uint8", "float16", "bfloat16", "int32", "int8", "int16", "complex64",
    "complex128",
)  # fmt: skip
SAMPLES = 5
# Quotients of the smallest integer by -1 are undefined, and remainders.
_QUOTIENTS = ("div", "floor_divide", "remainder", "fmod", "gcd", "lcm", "true_divide", "__rdiv__", "__rmod__",
              "__rpow__", "pow", "float_power", "abs", "sgn", "neg", "unfold")
# Conversions to integers of what they cannot hold.
_CONVERTING = ("byte", "char", "int", "long", "short", "to", "type_as", "histc", "histogram", "bincount", "nearest",
               "interpolate", "upsample", "grid_sample", "quantize", "multinomial", "searchsorted", "bucketize",
               "round", "masked_scatter", "view_as", "logspace", "linspace", "arange", "kthvalue", "combinations")
# Operators whose zeros have the sign that the instruction at hand gives them: eager's vectors and remainders differ,
# and the order of sums decides.
_SIGNLESS = ("max", "min", "amax", "amin", "aminmax", "clamp", "clip", "clamp_min", "clamp_max", "nn.functional.relu",
             "nn.functional.relu6", "nn.functional.hardtanh", "nn.functional.softshrink", "nn.functional.hardshrink",
             "nn.functional.threshold", "maximum", "minimum", "cummax", "cummin", "msort", "sort", "topk", "unique")


def specials(dtype: torch.dtype, kind: int, moderate: bool) -> list[Any]:
    """Special values of one kind; ``moderate`` leaves out those whose sums depend on the order of addition."""
    if dtype is torch.bool:
        return [True, False]
    if not (dtype.is_floating_point or dtype.is_complex):
        limits = torch.iinfo(dtype)
        found = [[0, 1, 2], [limits.max, limits.max - 1], [-1, -2, 3], [limits.min + 1, limits.max // 2], [0, 1, 127]]
        return [min(max(value, limits.min), limits.max) for value in found[kind]]
    limits = torch.finfo(dtype)
    inf, nan = float("inf"), float("nan")
    found = [
        [0.0, -0.0, 1.0, -1.0, nan],
        [inf, -inf, nan],
        [limits.smallest_normal, -limits.smallest_normal, limits.smallest_normal / 2, -0.0],
        [limits.max, limits.min, limits.max / 2] if not moderate else [min(limits.max**0.25, 1e3), 0.0, -64.0],
        [0.5, 1.5, 2.5, -0.5, -2.5, *(() if moderate else (float(min(2**53, limits.max / 4)),))],
    ]
    return found[kind]


def with_specials(value: Any, dtype: torch.dtype, values: Sequence[Any], dice: Dice) -> Any:
    """A copy of a tensor with a share of its elements replaced."""
    flat = value.detach().clone().contiguous().view(-1)
    for place in range(min(flat.numel(), 64)):
        if dice.chance(0.4):
            flat[place] = dice.choice(values)
    made = value.detach().clone()
    made.copy_(flat.view(value.shape))
    return made


def is_elementwise(op: Any) -> bool:
    """Whether each element of the result comes of one element of each argument."""
    kinds = {cls.__name__ for cls in type(op).__mro__}
    return bool(kinds & {"UnaryUfuncInfo", "BinaryUfuncInfo", "ShapeFuncInfo"}) or op.name in (
        "where", "addcmul", "addcdiv", "lerp", "clamp", "masked_fill", "cat", "stack", "nn.functional.pad", "clone",
        "nan_to_num", "gather", "index_select", "transpose", "permute", "flip", "roll", "tril", "triu")


def drawn_samples(op: Any, dtype: torch.dtype, count: int) -> Iterator[tuple[int, Any]]:
    """Samples with special values in them, always the same ones."""
    torch.manual_seed(7)
    found = []
    try:
        for number, sample in enumerate(op.sample_inputs("cpu", dtype, requires_grad=False)):
            found.append((number, sample))
            if number > 60:
                break
    except Exception:  # some sample functions need packages that are not here
        return
    chosen = found if len(found) <= count else [found[round(k * (len(found) - 1) / (count - 1))] for k in range(count)]
    if not chosen:
        return
    chosen = [chosen[k % len(chosen)] for k in range(count)]
    converts = any(word == op.name or word in op.name.split(".") for word in _CONVERTING) or any(
        word in op.name for word in ("quant", "grid", "upsample", "interpolate", "hist", "nearest"))
    divides = any(word in op.name for word in _QUOTIENTS)
    moderate = not is_elementwise(op)
    for kind, (number, sample) in enumerate(chosen):
        dice = Dice(number * 1000 + kind)
        values = specials(dtype, kind % 5, moderate)
        if converts and dtype.is_floating_point:
            values = [0.0, -0.0, 1.0, 0.5, 1.5]
        if op.name == "bincount":  # as many bins as the largest number says
            values = [min(value, 1000) for value in values]
        if divides and dtype.is_signed and not dtype.is_floating_point and not dtype.is_complex:
            values = [value for value in values if value != torch.iinfo(dtype).min]

        def replaced(value: Any, first: bool, values: Any = values, dice: Dice = dice) -> Any:
            if not isinstance(value, torch.Tensor) or value.dtype is not dtype or value.layout is not torch.strided:
                return value
            if value.is_meta or not (first or dtype.is_floating_point or dtype.is_complex):
                return value  # integers may be places
            return with_specials(value, dtype, values, dice)

        given = pytree.tree_map(lambda value: replaced(value, True), sample.input)  # noqa: B023
        args = pytree.tree_map(lambda value: replaced(value, False), sample.args)  # noqa: B023
        kwargs = pytree.tree_map(lambda value: replaced(value, False), sample.kwargs)  # noqa: B023
        yield number * 10 + kind, ((given, *args), kwargs)


def zero_differences(want: Any, got: Any) -> list[str]:
    """Zeros of another sign."""
    found = []
    for left, right in zip(pytree.tree_leaves(want), pytree.tree_leaves(got), strict=True):
        if isinstance(left, torch.Tensor) and left.is_floating_point() and left.layout is torch.strided \
                and not left.is_meta:
            zero = left == 0
            if not torch.equal(left.signbit()[zero], right.signbit()[zero]):
                found.append(f"signs of zeros: {right[zero].tolist()[:8]}, eager {left[zero].tolist()[:8]}")
    return found


def _is_as_accurate(function: Any, given: Any, want: Any, got: Any, found: Sequence[str]) -> bool:
    """Whether results differ by roundings only and ours lie no further than twice as far from those in float64."""
    if not all(line.startswith("values:") for line in found):
        return False
    for left, right in zip(pytree.tree_leaves(want), pytree.tree_leaves(got), strict=True):
        if isinstance(left, torch.Tensor):
            if not left.is_floating_point() or left.dtype is torch.float64:
                if not torch.equal(left, right):
                    return False
            elif not torch.equal(left.isfinite(), right.isfinite()) or not torch.equal(left.isnan(), right.isnan()):
                return False
    return accuracy(function, *copied(given), want, got) is None


def run_pair(op: Any, dtype: torch.dtype, count: int) -> Pair:
    """Compare an operator's samples in one dtype."""
    pair = Pair(op.formatted_name, str(dtype).removeprefix("torch."))
    values = op.name not in UNDEFINED
    function = op.op

    def program(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    signs = is_elementwise(op) and op.name not in _SIGNLESS
    for number, given in drawn_samples(op, dtype, count):
        try:
            first, second = copied(given), copied(given)
        except Exception:
            continue
        if os.environ.get("FIRESTEEL_SPECIAL_EAGER"):
            run(function, *first)
            continue
        fs.reset()
        want = run(function, *first)
        with fs.config.patch(raise_on_internal_error=True, disk_cache=False):
            got = run(fs.compile(program), *second)
        pair.samples += 1
        found = differences(want, got, values and op.name not in AMBIGUOUS)
        if not found and signs and values and not isinstance(want, Exception):
            found = zero_differences(want, got)
        if found and values and not isinstance(want, Exception) and _is_as_accurate(function, given, want, got, found):
            found = []
        if found and not isinstance(want, Exception):
            again = run(function, *copied(given))  # what eager does not repeat cannot be compared
            if differences(want, again, values):
                continue
        pair.failures += [f"sample {number}: {line}" for line in found]
    return pair


def known_differences() -> dict[tuple[str, str], str]:
    """Pairs that are known to differ, with the reason."""
    if not KNOWN.exists():
        return {}
    lines = [line.split(": ", 1) for line in KNOWN.read_text().splitlines() if line and not line.startswith("#")]
    return {(name.split()[0], name.split()[1]): reason for name, reason in lines}
