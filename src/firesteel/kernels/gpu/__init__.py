"""Kernels for GPUs: the loop IR as Triton source. Printing needs no Triton; only running does."""

from .triton_printer import TritonKernel, print_triton

__all__ = ["TritonKernel", "print_triton"]
