"""Functions of torch as C++ defines them, for our own calls.

A program may replace ``torch.nn.functional.linear`` and means its own calls by that, which capture has seen already.
"""

from __future__ import annotations

import torch

linear = torch._C._nn.linear
matmul = torch._C._VariableFunctions.matmul
max_pool1d = torch._C._VariableFunctions.max_pool1d
one_hot = torch._C._nn.one_hot
scaled_dot_product_attention = torch._C._nn.scaled_dot_product_attention
unsafe_view = torch.ops.aten._unsafe_view.default
istft = torch._C._VariableFunctions.istft
cov = torch._C._VariableFunctions.cov
corrcoef = torch._C._VariableFunctions.corrcoef
unfold_backward = torch.ops.aten.unfold_backward.default
ctc_loss = torch._C._VariableFunctions.ctc_loss
pack_padded_sequence = torch._C._VariableFunctions._pack_padded_sequence
pad_packed_sequence = torch._C._VariableFunctions._pad_packed_sequence
check = torch._check
