"""Tensors without memory, storages, and what autograd and functorch know of a tensor."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch

from ..locks import new_lock
from .dispatch import below_python_key, dispatch_keys

TensorType = TypeVar("TensorType", bound=torch.Tensor)
_META = torch._C.DispatchKey.Meta
_make_wrapper_subclass = torch.Tensor._make_wrapper_subclass


def make_wrapper(
    cls: type[TensorType],
    size: Sequence[Any],
    stride: Sequence[Any] | None,
    storage_offset: Any,
    dtype: torch.dtype,
    device: torch.device,
    storage_size: Any = None,
) -> TensorType:
    """A tensor of class ``cls`` with the given metadata and no memory behind it. No stride means contiguous."""
    if storage_size is None:
        return _make_wrapper_subclass(cls, size, stride, storage_offset, None, dtype, torch.strided, device)
    return _make_wrapper_subclass(
        cls, size, stride, storage_offset, dtype=dtype, device=device, storage_size=storage_size
    )


#: Whether a tensor has a symbolic size or stride: ``has_symbolic_layout(t)``. Torch's own getter, for it is asked of
#: every argument of every operator.
_symbolic: Any = torch.Tensor._has_symbolic_sizes_strides
has_symbolic_layout: Callable[[torch.Tensor], bool] = _symbolic.__get__


#: How often a tensor or what shares its memory was written to. Inference tensors are not counted: an error.
_version: Any = torch.Tensor._version
version_of: Callable[[torch.Tensor], int] = _version.__get__

#: The hooks that autograd calls with a tensor's gradient; None or empty without any.
_hooks: Any = torch.Tensor._backward_hooks
gradient_hooks: Callable[[torch.Tensor], Any] = _hooks.__get__


def shares_version(t: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether changes in place of one tensor count as changes of the other. This counts one.

    >>> x = torch.ones(2)
    >>> shares_version(x, x.detach()), shares_version(x, x.data)
    (True, False)
    """
    before = version_of(other)
    torch.autograd.graph.increment_version(t)
    return version_of(other) != before


def asks_for_plain_sizes(file: object) -> bool:
    """Whether a size is wanted as a number because C++ calls ``sizes()`` of a tensor with symbolic sizes.

    ``file`` is where in C++ the number is asked for. Until torch 2.13 such a call is an error and asks for nothing.
    """
    return isinstance(file, str) and file.endswith("SymbolicShapeMeta.cpp")


@functools.cache
def group_norm_takes_gaps() -> bool:
    """Whether normalisation by groups takes tensors with gaps in memory, as it does since torch 2.15."""
    with below_python_key():
        sample = torch.zeros(1, 4, 2, device="cpu")[:, ::2]
        try:
            torch.ops.aten.native_group_norm.default(sample, None, None, 1, 2, 2, 1, 1e-5)
        except RuntimeError:
            return False
    return True


_unsafe_set = torch._functionalize_unsafe_set


def share_storage(t: torch.Tensor, other: torch.Tensor) -> None:
    """Make ``t`` use the storage of ``other``; sizes, strides and offset of ``t`` stay."""
    if t.is_inference():
        # Inference tensors have no version counter, which the faster way would set.
        _set_storage(t, other.untyped_storage(), t.storage_offset(), t.shape, t.stride())
    else:
        _unsafe_set(t, other)


def _set_storage(t: torch.Tensor, storage: Any, offset: Any, size: Any, stride: Any) -> None:
    with below_python_key():
        # The kernel for meta tensors: the others take no symbolic sizes.
        torch.ops.aten.set_.source_Storage_storage_offset._op_dk(_META, t, storage, offset, size, stride)


def storage_address(t: torch.Tensor) -> int:
    """Equal for two living tensors exactly when they share storage; cheaper than :func:`storage_serial`."""
    return t.untyped_storage()._cdata


def lies_in(t: torch.Tensor, storage: torch.UntypedStorage) -> bool:
    """Whether a tensor's elements are in a storage, wherever that has its memory now."""
    return bool(t.untyped_storage()._cdata == storage._cdata)


def has_storage(t: torch.Tensor) -> bool:
    """Whether a tensor's elements lie in one storage, as those of sparse tensors do not."""
    return torch._C._has_storage(t)


def share_no_memory(
    written: tuple[torch.Tensor, ...], others: tuple[torch.Tensor, ...], allocated: tuple[torch.Tensor, ...] = ()
) -> bool:
    """Whether each of the first has a storage of its own, which none of the others has, and torch has allocated those
    of the last.

    >>> x = torch.ones(4)
    >>> share_no_memory((x,), (torch.ones(4),)), share_no_memory((x,), (x[2:],)), share_no_memory((), (x, x))
    (True, False, True)
    >>> y = torch.from_numpy(x.numpy())
    >>> share_no_memory((x,), (y,)), share_no_memory((x,), (y,), (x, y))
    (True, False)
    """
    storages = {t.untyped_storage()._cdata for t in written}
    return len(storages) == len(written) and storages.isdisjoint([t.untyped_storage()._cdata for t in others]) \
        and all([is_allocated(t) for t in allocated])


def is_allocated(t: torch.Tensor) -> bool:
    """Whether torch has allocated the memory of a tensor: it lies in no other storage then, unless somebody reads it
    through NumPy or the like."""
    return t.untyped_storage().resizable()


def lie_apart(written: tuple[torch.Tensor, ...], others: tuple[torch.Tensor, ...]) -> bool:
    """`share_no_memory` where storages may lie in one memory, as those do that are made of one array of NumPy.

    >>> memory = torch.ones(4).numpy()
    >>> x, y, z = (torch.from_numpy(part) for part in (memory[:2], memory[1:], memory[2:]))
    >>> lie_apart((x,), (y,)), lie_apart((x,), (z,)), share_no_memory((x,), (y,))
    (False, True, True)
    """
    if not share_no_memory(written, others):
        return False
    storages = [t.untyped_storage() for t in (*written, *others)]
    places = [(storage.data_ptr(), storage.data_ptr() + storage.nbytes()) for storage in storages]
    return not any(first < end and begin < last and at != position
                   for at, (first, last) in enumerate(places[:len(written)])
                   for position, (begin, end) in enumerate(places) if first < last and begin < end)


users_of_storage: Callable[[int], int] = torch._C._storage_Use_Count
"""How many tensors and other C++ owners the storage has that `storage_address` names."""

users_of_tensor: Callable[[torch.Tensor], int] = torch.Tensor._use_count  # type: ignore[attr-defined]
"""How many own the C++ part of a tensor; all of Python counts as one."""


def copy_all(targets: list[torch.Tensor], sources: list[torch.Tensor]) -> None:
    """Copy many tensors with few launches."""
    torch._foreach_copy_(targets, sources)


def current_stream_number(device: torch.device) -> int:
    """The current stream of a GPU, as CUDA numbers it."""
    return torch._C._cuda_getCurrentRawStream(device.index or 0)


def clear_cublas_workspaces() -> None:
    """Free the memory that cuBLAS works in; it is allocated anew when it is next needed."""
    torch._C._cuda_clearCublasWorkspaces()


def allocate_cublas_workspace(pool: Any, device: torch.device) -> None:
    """Allocate the memory that cuBLAS works in on the current thread and stream, from a pool that is kept for good."""
    index = device.index or 0
    torch._C._cuda_beginAllocateCurrentThreadToPool(index, pool)
    try:
        torch.cuda.current_blas_handle()
    finally:
        torch._C._cuda_endAllocateToPool(index, pool)


def stop_allocating_from(pool: Any, device: torch.device) -> None:
    """After a recording that failed: end the use of its pool, if torch has not."""
    index = device.index or 0
    try:
        torch._C._cuda_endAllocateToPool(index, pool)
    except RuntimeError:
        return  # it has
    torch._C._cuda_releasePool(index, pool)


def mark_as_parameter(t: torch.Tensor) -> None:
    """Make ``isinstance(t, torch.nn.Parameter)`` true for a tensor of another class."""
    t._is_param = True


_serial_lock = new_lock()
_next_serial = 0


def storage_serial(t: torch.Tensor) -> int:
    """A number that is equal for two tensors exactly when they share storage, and is never used again.

    >>> x = torch.zeros(4); y = torch.zeros(4)
    >>> storage_serial(x) == storage_serial(x[1:]), storage_serial(x) == storage_serial(y)
    (True, False)
    """
    global _next_serial
    storage: Any = t.untyped_storage()  # one Python object for as long as the storage lives, so it can carry the number
    serial = getattr(storage, "_firesteel_serial", None)
    if serial is None:
        with _serial_lock:
            serial = getattr(storage, "_firesteel_serial", None)
            if serial is None:
                _next_serial += 1
                serial = storage._firesteel_serial = _next_serial
    return serial


_data = torch.Tensor.data


def replace_metadata(t: torch.Tensor, source: torch.Tensor) -> None:
    """Give ``t`` the sizes, strides, offset, dtype and storage of ``source``, keeping its autograd identity."""
    if t.is_inference():
        # Inference tensors have no version counter for the setter to keep.
        _set_storage(t, source.untyped_storage(), source.storage_offset(), source.shape, source.stride())
    else:
        _data.__set__(t, source)  # type: ignore[attr-defined]


def view_base(t: torch.Tensor) -> torch.Tensor | None:
    """The tensor that ``t`` is a view of, as autograd tracks it."""
    return t._base if t._is_view() else None


def set_versions(tensors: Sequence[torch.Tensor], versions: Sequence[int]) -> None:
    """Let autograd count that many changes in place."""
    torch._C._autograd._unsafe_set_version_counter(tuple(tensors), tuple(versions))


def creation_of(t: torch.Tensor) -> Any:
    """How a view came about for autograd: with or without grad mode, as one of several, ...; None for no view."""
    return torch._C._autograd._get_creation_meta(t) if not t.is_inference() and t._is_view() else None


def created_as(t: torch.Tensor, creation: Any) -> torch.Tensor:
    """``t``, or an alias of it, as a view that came about in the way of ``creation``; no view at all where that is
    None. What is none becomes one of itself where its kind must not be changed, being one of several."""
    if t.is_inference():
        return t
    if is_one_of_several(creation) and not t._is_view():
        t = torch.ops.aten.alias.default(t)  # a view of the same shape has strides of its own for dimensions of size 1
    if t._is_view():
        if creation is not None:
            torch._C._autograd._set_creation_meta(t, creation)
        elif not t.requires_grad:
            return t.detach()
    return t


def is_view(t: torch.Tensor) -> bool:
    """Whether a tensor is a view of another for autograd."""
    return t._is_view()


def is_one_of_several(creation: Any) -> bool:
    """Whether a view that came about in this way is one of several that an operator made, which must not be changed."""
    kinds = torch._C._autograd.CreationMeta
    return bool(creation == kinds.MULTI_OUTPUT_NODE)


def comes_of_torchs_function(t: torch.Tensor) -> bool:
    """Whether a tensor is a result of a `torch.autograd.Function` that is part of torch."""
    forward: Any = getattr(type(t.grad_fn), "_forward_cls", None)
    return forward is not None and forward.__module__.partition(".")[0] == "torch"


def made_in_function(creation: Any) -> bool:
    """Whether a view that came about in this way is the result of a `torch.autograd.Function`."""
    kinds = torch._C._autograd.CreationMeta
    return bool(creation == kinds.IN_CUSTOM_FUNCTION)


def usual_creation(grad_enabled: bool) -> Any:
    """How a view comes about that an operator makes."""
    kinds = torch._C._autograd.CreationMeta
    return kinds.DEFAULT if grad_enabled else kinds.NO_GRAD_MODE


def alias_with_history(t: torch.Tensor) -> torch.Tensor:
    """The same elements and the history that ``t`` has now, without a reference to ``t`` as a view would have it."""
    if t.dim():
        return torch.unsafe_chunk(t, 1)[0]
    alias: torch.Tensor = torch.ops.aten._unsafe_view.default(t, ())  # slower
    return alias


def alive(reference: weakref.ref[torch.Tensor]) -> torch.Tensor | None:
    """The tensor of a weak reference. It may be one that only C++ refers to."""
    tensor = reference()
    if tensor is not None:
        tensor._fix_weakref()  # type: ignore[attr-defined]
    return tensor


def is_functional_tensor(t: torch.Tensor) -> bool:
    """Whether ``t`` is a wrapper of C++ functionalisation."""
    return torch._is_functional_tensor(t)


def is_functorch_tensor(t: torch.Tensor) -> bool:
    """Whether ``t`` is a wrapper of a ``torch.func`` transform."""
    return torch._C._functorch.is_functorch_wrapped_tensor(t)


#: Whether a tensor stands for many at once, as those do that ``torch.autograd.grad(is_grads_batched=True)`` hands over.
is_batched: Callable[[torch.Tensor], bool] = torch._C._functorch.is_legacy_batchedtensor


def is_zero_tensor(t: torch.Tensor) -> bool:
    """Whether ``t`` is one of autograd's zeros without memory."""
    return t._is_zerotensor()


_plain_keys: set[int] = set()


def is_plain_memory(t: torch.Tensor) -> bool:
    """Whether a tensor is its elements in memory, as they are: no wrapper, and none that is sparse, negated or zeros
    without memory, or stands for many.

    >>> is_plain_memory(torch.ones(2)), is_plain_memory(torch.ones(2).to_sparse())
    (True, False)
    """
    keys = dispatch_keys(t).raw_repr()
    if keys in _plain_keys:
        return True
    if (t.layout is not torch.strided or t.is_neg() or t.is_conj() or t.is_meta or is_zero_tensor(t) or is_batched(t)
            or is_functorch_tensor(t) or is_functional_tensor(t)
            or type(t).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__):
        return False
    _plain_keys.add(keys)
    return True


def convolution_memory_format(x: torch.Tensor, weight: torch.Tensor, *arguments: Any) -> torch.memory_format:
    """The memory format of a convolution's result; ``arguments`` are the rest of ``aten.convolution``'s."""
    backend = torch._C._select_conv_backend(x, weight, *arguments)
    return torch._C._conv_determine_backend_memory_format(x, weight, backend)
