"""Whether eager's own kernel takes a call at all, found by calling it once on a few numbers.

Eager has no kernel for some pairs of operator and dtype (``abs`` of bools), and refuses numbers that do not fit into a
dtype (``torch.where(c, bytes, 300)``) and dtypes that do not go together (a loss of float32 and float64). Our kernels
would compute something there. Such calls stay what they are, calls of ATen, which raises the error when the program
runs. Answers are remembered for the process; the calls of most programs, floats of 32 or 64 bits with ordinary numbers,
are not even looked up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

import torch

from .. import torch_compat
from ..devices import kind_of
from ..fake import FakeTensor
from ..fake.dims import layout_of
from ..fake.rules.strides import suggests_channels_last
from ..records import dataclass
from ..shapes.symnode import hint_of
from .operators import Operator

_USUAL = (torch.float32, torch.float64)
# Operators without kernels for floats.
_WHOLE = ("bitwise", "__and__", "__or__", "__xor__", "__lshift__", "__rshift__", "gcd", "lcm")
# Operators that fill a tensor with a number, and which argument that is.
_FILLS = {
    "aten.full.default": 1, "aten.full_like.default": 1, "aten.new_full.default": 2, "aten.scalar_tensor.default": 0,
    "aten.fill.Scalar": 1, "aten.constant_pad_nd.default": 2, "aten.index_fill.int_Scalar": 3, "aten.scatter.value": 3,
}  # fmt: skip
# Operators that take tensors of one dtype, and which arguments these are.
_ONE_DTYPE = {
    "aten.put.default": (0, 2), "aten.index_put.default": (0, 2), "aten._unsafe_index_put.default": (0, 2),
    "aten.index_copy.default": (0, 3), "aten.index_add.default": (0, 3), "aten.index_reduce.default": (0, 3),
    "aten.linalg_cross.default": (0, 1), "aten.binary_cross_entropy.default": (0, 1),
    "aten.nll_loss_forward.default": (0, 2), "aten.nll_loss2d_forward.default": (0, 2),
    "aten.multi_margin_loss.default": (0, 4),
    "aten.native_layer_norm.default": (0, 2, 3), "aten.native_group_norm.default": (0, 1, 2),
}  # fmt: skip
_LARGEST = 3.4e38
"""No finite number up to this is refused by any operator on floats of 32 bits and more."""
# Operators of what a forward operator left for them, or of libraries: nothing to try with made-up tensors. Steps of
# optimizers in one kernel take every tensor to be as large and of the same dtype as its parameter, without looking.
_TRUSTING = ("backward", "segment", "rnn", "lstm", "gru", "attention", "conv", "mkldnn", "quant", "unique", "_fused_")
_MOST_ELEMENTS = 4096
_MOST_AT_HAND = 1 << 20
_LONGEST = 8
_FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
_INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)
# The dtypes that operators mostly take: of the same kinds, masks as indices, floats but for indices, and floats only.
_OTHERS: tuple[Mapping[torch.dtype, torch.dtype], ...] = (
    {**dict.fromkeys(_FLOATS, torch.float32), **dict.fromkeys(_INTEGERS, torch.int64)},
    {**dict.fromkeys(_FLOATS, torch.float32), **dict.fromkeys((*_INTEGERS, torch.bool), torch.int64)},
    dict.fromkeys((*_FLOATS, *_INTEGERS[1:], torch.bool), torch.float32),
    dict.fromkeys((*_FLOATS, *_INTEGERS, torch.bool), torch.float32),
)
_VARYING = 4
"""For sizes that vary: eager has other kernels for images of few channels."""

_known: dict[Any, bool] = {}


class _Unknown(Exception):
    """An argument that cannot be stood in for."""


def is_refused(operator: Operator, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether eager raises an error for a call on tensors of these dtypes with these numbers."""
    if operator.random:
        return False
    fill = _FILLS.get(operator.name)
    if fill is not None and _does_not_fit(fill, args, kwargs):
        return True
    alike = _ONE_DTYPE.get(operator.name)
    if alike is not None and _are_mixed(args, alike, "_norm" in operator.name):
        return True
    tensors: list[FakeTensor] = []
    if not _looks_unusual((*args, *kwargs.values()), tensors) and not _is_for_integers(operator):
        return False
    if not tensors or any(not _can_run(x) for x in tensors):
        return False
    pointwise = torch.Tag.pointwise in operator.func.tags
    key: Any
    if pointwise:
        try:
            key = (id(operator.func), *[_key(arg) for arg in args], *[(k, _key(v)) for k, v in kwargs.items()])
        except _Unknown:
            return False
    else:
        if any(word in operator.name for word in _TRUSTING):
            return False
        large = [number for value in (*args, *kwargs.values()) if _is_large(number := _number(value))]
        # Without elements no kernel is asked for: what eager says to those tells nothing of others.
        key = (id(operator.func), *[(x.dtype, x.dim(), x.device.type, _is_channels_last(x), _elements(x) == 0)
                                    for x in tensors], *large)
    refused = _known.get(key)
    if refused is None:
        refused = _raises(operator.func, args, kwargs) if pointwise \
            else _refuses_dtype(operator.func, args, kwargs, tensors)
        if refused is None:
            return False
        _known[key] = refused
    return refused


def _is_for_integers(operator: Operator) -> bool:
    return operator.name.removeprefix("aten.").startswith(_WHOLE)


def _looks_unusual(values: Sequence[Any], tensors: list[FakeTensor]) -> bool:
    """Whether there is anything in a call that eager might refuse; collects its tensors."""
    unusual = False
    for value in values:
        kind = type(value)
        if kind is FakeTensor:
            tensors.append(value)
            unusual = unusual or value.dtype not in _USUAL or value.dtype is not tensors[0].dtype
        elif kind is list or kind is tuple:
            unusual = _looks_unusual(value, tensors) or unusual
        elif kind is int or kind is float:
            unusual = unusual or _is_large(value)
        elif kind in (torch.SymInt, torch.SymFloat, str, complex):
            unusual = True
    return unusual


def _is_large(value: Any) -> bool:
    return type(value) in (int, float) and _LARGEST < abs(value) < float("inf")


def _can_run(x: FakeTensor) -> bool:
    return kind_of(x).is_there()


def _are_mixed(args: Sequence[Any], positions: Sequence[int], norm: bool) -> bool:
    """Whether arguments differ in dtype. Norms of floats of 16 bits may have larger parameters."""
    first, *others = [args[at].dtype if len(args) > at and type(args[at]) is FakeTensor else None for at in positions]
    return (first in _USUAL or not norm) and any(dtype is not None and dtype is not first for dtype in others)


def _does_not_fit(position: int, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether a number cannot be an element of the tensor that it fills."""
    number = _number(args[position] if len(args) > position else kwargs.get("fill_value", kwargs.get("value")))
    if isinstance(number, bool | complex) or not isinstance(number, int | float):
        return False
    own = args[0].dtype if args and isinstance(args[0], torch.Tensor) else None
    dtype = kwargs.get("dtype") or own or (torch.get_default_dtype() if isinstance(number, float) else torch.int64)
    if dtype is torch.int64 and isinstance(number, int) and -1 << 63 <= number < 1 << 63:
        return False
    if dtype in _USUAL and (-_LARGEST < number < _LARGEST or number - number != 0):
        return False
    # Eager makes tensors of one element of numbers that do not fit into float16 too.
    fill: tuple[Any, ...] = ((2,), number) if position else (number,)
    key = (fill if number == number else ("nan", position), dtype, type(number))
    refused = _known.get(key)
    if refused is None:
        operator = torch.ops.aten.full.default if position else torch.ops.aten.scalar_tensor.default
        refused = _known[key] = _raises(operator, fill, {"dtype": dtype})
    return refused


def _refuses_dtype(
    func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], tensors: Sequence[FakeTensor]
) -> bool | None:
    """Whether an operator says that it has no kernel for a dtype, or takes tensors of these shapes in other dtypes or
    with smaller numbers; None where it takes none at all.

    What else it says to tensors that are smaller than they really are does not count. Where it takes no others of that
    size either (padding that is wider than the image), those of the call at hand are tried."""
    longest = _MOST_ELEMENTS if sum(_elements(x) for x in tensors) <= _MOST_ELEMENTS else _LONGEST
    several = len(tensors) > 1
    sizes = [(longest, several)]
    if sum(_elements(x, hints=True) for x in tensors) <= _MOST_AT_HAND:
        sizes.append((_MOST_AT_HAND, True))
    for size in sizes:
        error = _error(func, args, kwargs, _StandIns(*size))
        if error is None or isinstance(error, NotImplementedError):
            return error is not None
        others = [_StandIns(*size, dtypes) for dtypes in _OTHERS]
        others.append(_StandIns(*size, small=True))
        if any(_error(func, args, kwargs, stand_ins) is None for stand_ins in others):
            return True
    return None


def _raises(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether a call with tensors of one element, 1, raises an error."""
    return _error(func, args, kwargs, _StandIns()) is not None


def _error(func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], stand_ins: _StandIns) -> Exception | None:
    """What a call with small real tensors raises."""
    try:
        with torch_compat.below_python_key(), torch_compat.without_torch_function(), torch.no_grad():
            given = [stand_ins.of(arg) for arg in args]
            func(*given, **{key: stand_ins.of(value) for key, value in kwargs.items()})
    except _Unknown:
        return None
    except Exception as error:
        return error
    return None


def _elements(x: FakeTensor, hints: bool = False) -> int:
    count = 1
    for size in x.shape:
        count *= size if isinstance(size, int) else (hint_of(size) if hints else None) or _VARYING
    return count


def _is_channels_last(x: FakeTensor) -> bool:
    """Whether eager may take the kernel for images whose channels are innermost, which few dtypes have."""
    return suggests_channels_last(*layout_of(x))


@dataclass(frozen=True)
class _StandIns:
    """Small real arguments in the place of fake ones; without ``longest`` tensors are of a single element."""

    longest: int | None = None
    hints: bool = False
    """Whether sizes that vary are those of the call at hand: several operands have to fit together."""
    dtypes: Mapping[torch.dtype, torch.dtype] = field(default_factory=dict)
    """Dtypes in the place of others."""
    small: bool = False
    """Whether 1 takes the place of numbers that may be too large."""

    def of(self, value: Any) -> Any:
        """What stands for an argument."""
        longest = self.longest
        if type(value) is FakeTensor:
            dtype = self.dtypes.get(value.dtype, value.dtype)
            if longest is None:
                return torch.ones((1,) * value.dim(), dtype=dtype, device=value.device)
            zeros = torch.zeros([self._size(size, longest) for size in value.shape], dtype=dtype, device=value.device)
            if not _is_channels_last(value):
                return zeros
            return zeros.to(memory_format=torch.channels_last if zeros.dim() == 4 else torch.channels_last_3d)
        if type(value) in (list, tuple):
            return [self.of(item) for item in value]
        if isinstance(value, torch.Tensor):
            raise _Unknown
        if longest is not None and isinstance(value, torch.SymInt):
            hint = hint_of(value) if self.hints else None
            return 2 * _VARYING if hint is None else hint  # a size more likely than not
        number = _number(value)
        return type(number)(1) if self.small and _is_large(number) else number

    def _size(self, size: Any, longest: int) -> int:
        if isinstance(size, int):
            return min(size, longest)
        hint = hint_of(size) if self.hints else None
        return _VARYING if hint is None else min(hint, _LONGEST if longest < _MOST_AT_HAND else longest)


def _number(value: Any) -> Any:
    """Numbers that vary may become as large as these."""
    if isinstance(value, torch.SymInt):
        return 2**62
    if isinstance(value, torch.SymFloat):
        return 1e300
    return bool(value) if isinstance(value, torch.SymBool) else value


def _key(value: Any) -> Any:
    if type(value) is FakeTensor:
        return value.dtype, value.dim() == 0, value.device.type
    if type(value) in (list, tuple):
        return tuple([_key(item) for item in value])
    if isinstance(value, torch.Tensor):
        raise _Unknown
    number = _number(value)
    return ("nan" if number != number else number), type(number)
