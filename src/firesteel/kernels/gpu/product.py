"""Matrix products as kernels of their own on a GPU: the operator that stands for them in graphs.

Its lowering makes it a reduction of the loop IR (`lowering/tile_products.py`), which takes in what is computed from its
result, and `product_printer.py` prints that with the GPU's matrix units. Where that kernel cannot be made, the operator
is called, and then it is the library's product.
"""

from __future__ import annotations

import torch


class TileProduct:
    """``tile_product(x, w)`` or ``tile_product(x, w, bias, tiles)``: the product of matrices or of batches of them.

    ``tiles`` are `Tiles` as text, where they were measured.
    """

    def __init__(self) -> None:
        self.__name__ = self.__qualname__ = "tile_product"

    def __str__(self) -> str:
        return "firesteel.tile_product"

    __repr__ = __str__

    def __call__(self, x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor | None = None,
                 tiles: str | None = None) -> torch.Tensor:
        if bias is not None:
            return torch.addmm(bias, x, w)
        return torch.mm(x, w) if x.ndim == 2 else torch.bmm(x, w)


tile_product = TileProduct()
