"""Operators that ATen's libraries do better than kernels made of their parts would."""

from __future__ import annotations

LIBRARY: frozenset[str] = frozenset({
    # matrix products
    "aten.mm.default", "aten.bmm.default", "aten.addmm.default", "aten.baddbmm.default", "aten.addbmm.default",
    "aten.mv.default", "aten.dot.default", "aten.vdot.default", "aten.addmv.default", "aten._int_mm.default",
    # convolutions
    "aten.convolution.default", "aten._convolution.default", "aten.convolution_backward.default",
    # attention
    "aten._scaled_dot_product_flash_attention_for_cpu.default", "aten._scaled_dot_product_flash_attention.default",
    "aten._scaled_dot_product_efficient_attention.default", "aten._scaled_dot_product_cudnn_attention.default",
    # recurrent layers
    "aten._thnn_fused_lstm_cell.default", "aten._thnn_fused_gru_cell.default",
    # sorting and searching
    "aten.sort.default", "aten.sort.stable", "aten.topk.default", "aten.kthvalue.default", "aten.median.dim",
    "aten.searchsorted.Tensor", "aten.bucketize.Tensor", "aten.multinomial.default", "aten.nonzero.default",
})
