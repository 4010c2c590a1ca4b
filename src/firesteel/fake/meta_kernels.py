"""Torch's own meta kernels, for operators without a rule of ours: called with meta tensors in the place of fakes."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import torch

from .. import torch_compat
from .tensor import DataDependentError, FakeTensor, FakeUnsupported, new_fake, update_metadata, view_of

_CPU, _META = torch.device("cpu"), torch.device("meta")


@contextmanager
def _silence() -> Iterator[None]:
    """No warnings: that a given result was resized is said when the program runs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _without_fake_kernel(func: Any) -> FakeUnsupported:
    name = torch_compat.operator_name(func).rpartition(".")[0].replace(".", "::")
    hint = "" if name.startswith("aten::") else \
        f"give it one: torch.library.register_fake({name!r}, function), which makes empty results of the right shape"
    return FakeUnsupported(func, "it has no fake kernel, which says what its results look like", hint)


def _first_sentence(error: Exception) -> str:
    return str(error).splitlines()[0].partition(". ")[0]


class MetaRun:
    """One call of torch's meta kernel, with meta tensors in the place of fakes."""

    def __init__(self, func: Any, symbolic: bool) -> None:
        self.func = func
        self.symbolic = symbolic
        self.aliases = False  # whether a result is an argument or a view of one
        self._metas: dict[int, tuple[FakeTensor, torch.Tensor]] = {}

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        device = kwargs.get("device")
        meta_args = [self._to_meta(value) for value in args]
        meta_kwargs = {name: self._to_meta(value) for name, value in kwargs.items()}
        if device is not None:
            meta_kwargs["device"] = _META
        if meta_kwargs.get("pin_memory"):
            meta_kwargs["pin_memory"] = False
        out_device = device if device is not None else self._common_device()
        takes_device = not self._metas and any(a.name == "device" for a in torch_compat.schema_of(self.func).arguments)
        if takes_device:
            meta_kwargs["device"] = _META
        try:
            # Kernels in C++ want plain sizes and are faster; the Python dispatcher prefers those that take symbols.
            with torch_compat.python_dispatcher() if self.symbolic else nullcontext(), \
                    _silence() if "out" in kwargs else nullcontext():
                result = self.func(*meta_args, **meta_kwargs)
        except NotImplementedError as error:
            raise _without_fake_kernel(self.func) from error
        except AssertionError as error:
            raise FakeUnsupported(self.func, f"the meta kernel failed ({error})") from error
        except RuntimeError as error:
            if "no fake impl" in str(error):
                raise _without_fake_kernel(self.func) from error
            if "data-dependent shape" in str(error):  # said by kernels that ask for a size without a value
                raise DataDependentError(self.func, "the size of its result depends on the values in a tensor") \
                    from error
            if "meta" in str(error).lower():
                raise FakeUnsupported(self.func, f"the meta kernel failed ({_first_sentence(error)})") from error
            raise
        for fake, meta in self._metas.values():
            self._take_over_changes(fake, meta)
        from .rules.creation import indexed

        return self._to_fake(result, indexed(out_device))

    def _to_meta(self, value: Any) -> Any:
        if type(value) is FakeTensor:
            known = self._metas.get(id(value))
            if known is None:
                meta = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=_META)
                offset = value.storage_offset()
                if offset != 0:
                    room = torch.empty(
                        (value.untyped_storage().nbytes() // value.dtype.itemsize,), dtype=value.dtype, device=_META
                    )
                    meta = room.as_strided(value.shape, value.stride(), offset)
                known = self._metas[id(value)] = (value, meta)
            return known[1]
        if isinstance(value, (list, tuple)):
            return type(value)(self._to_meta(item) for item in value)
        if isinstance(value, torch.Generator):
            return None  # its state must not move
        if isinstance(value, torch.device):
            return _META
        return value

    def _common_device(self) -> torch.device:
        """Where the result is: all tensors agree, but for CPU tensors without dimensions or used as indices."""
        device: torch.device | None = None
        with_dims = False
        indices_anywhere = "index" in torch_compat.operator_name(self.func)
        for fake, _ in self._metas.values():
            own, dims = fake.device, fake.ndim > 0
            if device is None or own == device:
                device, with_dims = own, with_dims or dims
            elif own == _CPU and (not dims or (indices_anywhere and fake.dtype in (torch.int64, torch.bool))):
                continue
            elif device == _CPU and not with_dims:
                device, with_dims = own, dims
            else:
                devices = f"found at least two devices, {device} and {own}!"
                raise RuntimeError(f"Expected all tensors to be on the same device, but {devices}")
        return device or _CPU

    def _take_over_changes(self, fake: FakeTensor, meta: torch.Tensor) -> None:
        if meta.dtype != fake.dtype:
            raise FakeUnsupported(self.func, "changes the dtype of an argument")
        if meta.shape == fake.shape and meta.stride() == fake.stride():
            return
        update_metadata(fake, meta.shape, meta.stride(), meta.storage_offset())

    def _to_fake(self, value: Any, device: torch.device) -> Any:
        if isinstance(value, torch.Tensor):
            if value.layout is not torch.strided:
                raise FakeUnsupported(self.func, f"a result of layout {value.layout}")
            storage = torch_compat.storage_address(value)
            for fake, meta in self._metas.values():
                if meta is value:
                    self.aliases = True
                    return fake
            for fake, meta in self._metas.values():
                if torch_compat.storage_address(meta) == storage:
                    self.aliases = True
                    return view_of(fake, value.shape, value.stride(), value.storage_offset(), value.dtype)
            if value.is_conj() or value.is_neg():
                raise FakeUnsupported(self.func, "a lazily conjugated or negated result")
            return new_fake(value.shape, value.stride(), value.dtype, device)
        if isinstance(value, (list, tuple)):
            return type(value)([self._to_fake(item, device) for item in value])
        return value
