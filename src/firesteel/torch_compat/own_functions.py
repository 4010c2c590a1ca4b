"""Functions of torch as C++ defines them, for our own calls.

A program may replace ``torch.nn.functional.linear`` and means its own calls by that, which capture has seen already.
"""

from __future__ import annotations

import torch

linear = torch._C._nn.linear
matmul = torch._C._VariableFunctions.matmul
one_hot = torch._C._nn.one_hot
scaled_dot_product_attention = torch._C._nn.scaled_dot_product_attention
unsafe_view = torch.ops.aten._unsafe_view.default
