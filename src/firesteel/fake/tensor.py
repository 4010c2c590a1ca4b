"""The fake tensor: a tensor with true metadata and no data, and the errors of running programs on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NoReturn

import torch

from .. import torch_compat
from .dims import contiguous_strides, dim_of, dims, known_equal, storage_size

# A size, stride or offset: an int or a torch.SymInt, in rules a `Dim`.
Size = Any


class FakeError(Exception):
    """A program cannot be followed on tensors without data. Capture breaks the graph at the operator."""

    def __init__(self, op: object, reason: str, hint: str = "") -> None:
        self.op = str(op)
        self.reason = reason
        self.hint = hint
        super().__init__(f"{self.op}: {reason}")


class FakeUnsupported(FakeError):
    """An operator or tensor that has no fake version."""


class DataDependentError(FakeError):
    """An operator whose result, or the shape of its result, depends on the values inside a tensor."""

    def __init__(self, op: object, reason: str = "the result depends on the values in a tensor") -> None:
        super().__init__(op, reason)


class FakeTensor(torch.Tensor):
    """A tensor that knows its sizes, strides, dtype, device and autograd state, and holds no memory.

    C++ autograd and autocast treat it like any tensor; below them every operator ends in ``__torch_dispatch__``, which
    computes the metadata of the result. Sizes and the like live in C++ only, so that nothing can get out of step when
    an operator, or ``t.data = other``, changes them.
    """

    #: Set by ``FakeMode.from_real`` on the fake version of an ``nn.Parameter``.
    is_parameter: bool = False
    #: Runs an operator on fake tensors: (mode or None, operator, args, kwargs). The mode, built on this class, sets it.
    run_operator: ClassVar[Callable[..., Any]]
    #: Set while a view with symbolic sizes is made of it: how much memory it has is not known then.
    unbounded: bool = False

    __torch_function__ = torch_compat.disabled_torch_function  # type: ignore[assignment]

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if has_wrappers(types):
            return NotImplemented
        # Reached when no mode is entered.
        return cls.run_operator(None, func, args, kwargs or {})

    @property
    def storage_key(self) -> int:
        """Equal for two fake tensors exactly when they share storage; never used twice in a process."""
        return torch_compat.storage_serial(self)

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        grad = ", requires_grad=True" if self.requires_grad else ""
        return f"FakeTensor({tuple(self.shape)}, {self.dtype}, device='{self.device}'{grad})"

    # What torch would answer with a null pointer.
    def data_ptr(self) -> NoReturn:
        raise DataDependentError("Tensor.data_ptr", "a fake tensor has no memory")

    def __dlpack__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise DataDependentError("Tensor.__dlpack__", "a fake tensor has no memory")

    def tolist(self) -> Any:
        read = getattr(torch_compat.top_dispatch_mode(), "to_list", None)
        if read is None:
            raise DataDependentError("Tensor.tolist")
        return read(self)

    def numpy(self, *, force: bool = False) -> NoReturn:
        raise DataDependentError("Tensor.numpy")

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        raise FakeUnsupported("copy or pickle", "a fake tensor has no memory")


def has_wrappers(types: Sequence[type]) -> bool:
    """Whether tensors of a class with a ``__torch_dispatch__`` of its own are among an operator's arguments: it is
    asked first, and calls operators on the fake tensors inside."""
    for kind in types:  # noqa: SIM110 (as below)
        if kind is not FakeTensor:
            return True
    return False


def _all_plain(numbers: Sequence[Size]) -> bool:
    for number in numbers:  # noqa: SIM110 (this is asked of every result, and a generator costs as much as the rest)
        if type(number) is not int:
            return False
    return True


def new_fake(
    shape: Sequence[Size], stride: Sequence[Size] | None, dtype: torch.dtype, device: torch.device
) -> FakeTensor:
    """A fake tensor with storage of its own. ``stride=None`` means contiguous."""
    if _all_plain(shape) and (stride is None or _all_plain(stride)):
        return torch_compat.make_wrapper(FakeTensor, shape, stride, None, dtype, device)
    shape = dims(shape)
    stride = contiguous_strides(shape) if stride is None else dims(stride)
    # torch would compute the size of the storage with many small questions.
    room = storage_size(shape, stride) * dtype.itemsize
    return torch_compat.make_wrapper(FakeTensor, shape, stride, 0, dtype, device, room)


def view_of(
    base: FakeTensor,
    shape: Sequence[Size],
    stride: Sequence[Size],
    offset: Size,
    dtype: torch.dtype | None = None,
) -> FakeTensor:
    """A fake tensor on the storage of ``base``; making it a view for autograd is left to the C++ layers above."""
    view = _wrapper_like(base, shape, stride, offset, dtype)
    torch_compat.share_storage(view, base)
    return view


def _wrapper_like(
    base: FakeTensor, shape: Sequence[Size], stride: Sequence[Size], offset: Size, dtype: torch.dtype | None
) -> FakeTensor:
    # The storage will be replaced, so its size need not be worked out where that costs something.
    plain = type(offset) is int and _all_plain(shape) and _all_plain(stride)
    room = None if plain else 0
    # A view is an inference tensor exactly when its base is, whatever mode it is made in.
    inference = base.is_inference()
    if inference == torch.is_inference_mode_enabled():
        return torch_compat.make_wrapper(FakeTensor, shape, stride, offset, dtype or base.dtype, base.device, room)
    with torch_compat.inference_mode_guard(inference):
        return torch_compat.make_wrapper(FakeTensor, shape, stride, offset, dtype or base.dtype, base.device, room)


def update_metadata(
    t: FakeTensor, shape: Sequence[Size], stride: Sequence[Size], offset: Size, dtype: torch.dtype | None = None
) -> FakeTensor:
    """Change sizes, strides and offset of ``t`` in place (``t_``, ``unsqueeze_``, ``out=`` that resizes)."""
    new = _wrapper_like(t, shape, stride, offset, dtype)
    elements = storage_size(dims(shape), dims(stride))
    needed = 0 if known_equal(elements, 0) else (dim_of(offset) + elements) * new.dtype.itemsize
    present = dim_of(t.untyped_storage().nbytes())
    if known_equal(needed, present) or needed <= present:
        torch_compat.share_storage(new, t)
    elif present == 0:
        torch_compat.share_storage(new, new_fake((needed,), None, torch.uint8, t.device))
    else:
        # Views of t would grow with it in eager. Nobody can hold a view with elements of an empty storage.
        raise FakeUnsupported("resize_", "a tensor with elements cannot grow while capturing")
    torch_compat.replace_metadata(t, new)
    return t
