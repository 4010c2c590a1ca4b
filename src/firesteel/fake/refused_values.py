"""Operators whose kernels refuse some values: indices out of range, singular matrices, divisions by zero.

Fake tensors have no values, so such an operator raises when the graph runs. What it has been preceded by is put back
then, and it is called even if nobody reads its result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from ..shapes.symnode import hint_of
from .dims import shape_of

Refuses = Callable[[Sequence[Any], Mapping[str, Any]], bool]
"""Whether an operator may refuse values in a call of these arguments."""

# Without the underscore at the end of those that write to their first argument.
_SOME_VALUES = frozenset({
    # indices
    "index", "_unsafe_index", "index_put", "_index_put_impl", "_unsafe_index_put", "index_select", "index_add",
    "index_copy", "index_fill", "index_reduce", "gather", "scatter", "scatter_add", "scatter_reduce", "take", "put",
    "embedding", "embedding_bag", "_embedding_bag", "_embedding_bag_forward_only", "embedding_renorm", "max_unpool2d",
    "max_unpool3d", "searchsorted", "lu_unpack", "linalg_lu_solve",
    # counts and lengths
    "masked_scatter", "repeat_interleave", "bincount", "segment_reduce", "_pack_padded_sequence",
    "_pad_packed_sequence",
    # losses
    "nll_loss_forward", "nll_loss2d_forward", "binary_cross_entropy", "multi_margin_loss",
    "multilabel_margin_loss_forward", "_ctc_loss", "_cudnn_ctc_loss",
    # matrices
    "cholesky", "_linalg_check_errors", "_linalg_eigh", "_linalg_eigvals", "_linalg_svd", "linalg_eig",
    "linalg_eigvals", "linalg_lstsq", "linalg_pinv",
    # ranges
    "histc", "histogram", "_histogramdd_bin_edges", "_histogramdd_from_bin_cts", "_histogramdd_from_bin_tensors",
    "fake_quantize_per_channel_affine_cachemask",
    # probabilities
    "bernoulli", "binomial", "multinomial", "normal", "poisson",
    # what programs state
    "_assert_async", "_assert_scalar",
})
_INTEGER_DIVISORS = frozenset({"div", "floor_divide", "remainder", "fmod", "pow", "gcd", "__rshift__", "__lshift__"})
_NO_ELEMENTS = frozenset({"max", "min", "argmax", "argmin", "amax", "amin", "aminmax", "median", "nanmedian", "mode",
                          "kthvalue"})
_ENDS = frozenset({"linspace", "logspace"})
FUNCTIONS = frozenset({"one_hot", "quantile", "nanquantile", "istft"})
"""Functions made of other operators that look at values first, but not at those of tensors which have none."""


def refused_values(base: str) -> Refuses | None:
    """For the operator ``aten::base``, whether it may raise because of values; None if it never does.

    >>> refused_values("sin"), refused_values("gather")([], {}), refused_values("floor_divide")([torch.ones(1), 2], {})
    (None, True, False)
    """
    functional = base[:-1] if base.endswith("_") and not base.endswith("__") else base
    if functional in _SOME_VALUES:
        return _always
    if functional in _INTEGER_DIVISORS:
        return _rounded_division if functional == "div" else _of_integers
    if functional in _ENDS:
        return _of_tensors
    return _of_unknown_size if functional in _NO_ELEMENTS else None


def _always(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    return True


def _of_integers(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    if len(args) > 1 and isinstance(args[1], (int, float)) and args[1]:
        return False
    return not any(isinstance(x, torch.Tensor) and (x.is_floating_point() or x.is_complex()) for x in args)


def _rounded_division(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    return kwargs.get("rounding_mode") is not None and _of_integers(args, kwargs)


def _of_tensors(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    return any(isinstance(x, torch.Tensor) for x in args)


def _of_unknown_size(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether data decides on a size, which may be 0."""
    return any(hint_of(size) is None for size in shape_of(args[0]))
