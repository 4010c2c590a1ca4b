"""Benchmarks: firesteel beside torch.compile and eager, each script printing one of the project's bars."""

import os

# What an earlier run has learned about sizes would make a compilation that is being counted unnecessary.
os.environ.setdefault("FIRESTEEL_DISK_CACHE", "0")
# What is compiled is measured, not what runs before it: `programs` sets this back.
os.environ.setdefault("FIRESTEEL_COMPILE_AFTER", "0")
