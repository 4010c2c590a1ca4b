"""oneDNN's LSTM layer as an operator that keeps what its gradient needs, whatever the state of autograd.

ATen's operator writes the workspace that its backward reads only where grad mode is on. Compiled forwards run without
it, so they call an operator of our own that turns grad mode on below autograd.
"""

from __future__ import annotations

import functools
from typing import Any

import torch

_SCHEMA = (
    "recurrent_layer(Tensor input, Tensor weight0, Tensor weight1, Tensor weight2, Tensor weight3, Tensor hx_, "
    "Tensor cx_, bool reverse, int[] batch_sizes, int mode, int hidden_size, int num_layers, bool has_biases, "
    "bool bidirectional, bool batch_first, bool train) -> (Tensor, Tensor, Tensor, Tensor)"
)


@functools.cache
def recurrent_layer() -> Any:
    """``aten.mkldnn_rnn_layer`` with the same arguments; the last of its four results is always there."""
    library = torch.library.Library("firesteel", "FRAGMENT")
    library.define(_SCHEMA)
    library.impl("recurrent_layer", _recurrent_layer, "CompositeExplicitAutograd")
    _libraries.append(library)
    return torch.ops.firesteel.recurrent_layer.default


def _recurrent_layer(*args: Any) -> tuple[torch.Tensor, ...]:
    with torch._C._AutoDispatchBelowAutograd(), torch.enable_grad():
        results: tuple[torch.Tensor, ...] = torch.ops.aten.mkldnn_rnn_layer.default(*args)
        return results


@functools.cache
def workspace_bytes(steps: int, batch: int, width: int, hidden: int, dtype: torch.dtype) -> int:
    """How many bytes one layer writes down for its gradient, which only oneDNN knows."""
    with torch._C._DisableTorchDispatch():
        data, state, w_ih, w_hh, bias = (
            torch.zeros(size, dtype=dtype, device="cpu")
            for size in ((steps, batch, width), (1, batch, hidden), (4 * hidden, width), (4 * hidden, hidden),
                         (4 * hidden,)))
        tensors = data, w_ih, w_hh, bias, bias, state, state
        return _recurrent_layer(*tensors, False, [], 2, hidden, 1, True, False, False, True)[3].numel()


_libraries: list[torch.library.Library] = []
"""An operator exists as long as its library."""
