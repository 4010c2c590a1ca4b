"""Kernels for GPUs: the loop IR as Triton source. Printing needs no Triton; only running does."""
