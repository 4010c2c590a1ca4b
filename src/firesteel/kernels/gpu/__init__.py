"""Kernels for GPUs: the loop IR as Triton source. Printing needs no Triton; only running does."""

from .triton_printer import TritonKernel, print_triton
from .values import Unsupported

__all__ = ["TritonKernel", "Unsupported", "print_triton"]
