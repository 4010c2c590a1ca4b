"""The passes over graphs for a GPU and its libraries, in the order in which they run."""

from __future__ import annotations

from ...passes.collectives import collectives
from ...passes.convolution_bias import convolution_bias
from ...passes.identities import identities
from ...passes.image_layouts import image_layouts
from ...passes.log_softmax_parts import log_softmax_parts
from ...passes.random_numbers import random_numbers
from ...passes.settings import Pass
from ...passes.written_slices import written_slices
from ..products.pad_products import pad_products
from ..products.relu_products import relu_products
from ..products.tile_products import tile_products

PASSES: tuple[Pass, ...] = (
    identities,
    random_numbers,
    written_slices,
    image_layouts,
    convolution_bias,
    tile_products,
    relu_products,
    pad_products,
    collectives,
)  # fmt: skip
JOINT_PASSES: tuple[Pass, ...] = (
    random_numbers,
    image_layouts,
    convolution_bias,
    log_softmax_parts,
    pad_products,
)  # fmt: skip
"""What holds on both sides of training: a layout that forward gives to what it keeps is the one that backward reads."""
