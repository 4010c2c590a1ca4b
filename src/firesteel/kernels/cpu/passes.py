"""The passes over graphs for the CPU, in the order in which they run."""

from __future__ import annotations

from ...passes.attention import attention
from ...passes.channels_last import channels_last
from ...passes.collectives import collectives
from ...passes.complex_parts import complex_parts
from ...passes.convolution_gradients import convolution_gradients
from ...passes.convolution_parts import convolution_parts
from ...passes.embedding_gradients import embedding_gradients
from ...passes.exponential_numbers import exponential_numbers
from ...passes.fold_batch_norm import fold_batch_norm
from ...passes.fuse_activations import fuse_activations
from ...passes.identities import identities
from ...passes.joined_products import joined_products
from ...passes.narrow_convolutions import narrow_convolutions
from ...passes.pointwise_gradients import pointwise_gradients
from ...passes.settings import Pass
from ...passes.short_recurrences import short_recurrences
from ...passes.written_slices import written_slices
from ..products.linear_library import linear_library
from ..products.own_products import own_products
from ..products.row_products import row_products
from ..products.small_products import small_products
from ..products.thin_products import thin_products

PASSES: tuple[Pass, ...] = (
    identities,
    complex_parts,
    exponential_numbers,
    short_recurrences,
    written_slices,
    attention,
    fold_batch_norm,
    embedding_gradients,
    convolution_parts,
    channels_last,
    narrow_convolutions,
    joined_products,
    thin_products,
    small_products,
    row_products,
    own_products,
    linear_library,
    fuse_activations,
    pointwise_gradients,
    convolution_gradients,
    collectives,
)  # fmt: skip
"""`freezing` runs behind them: it takes nodes out of the graph."""
