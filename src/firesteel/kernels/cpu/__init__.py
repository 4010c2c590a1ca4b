"""Kernels for CPUs: loop IR printed as LLVM IR with explicit vectors, compiled to machine code in this process."""
