"""Kernels for CPUs: loop IR printed as LLVM IR with explicit vectors, compiled to machine code in this process."""

from .engine import CompiledKernel, compile_kernels
from .operands import Unsupported

__all__ = ["CompiledKernel", "Unsupported", "compile_kernels"]
