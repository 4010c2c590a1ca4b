"""Scheduling: computations become kernels, and kernels and calls become a program with memory.

    LoweredGraph → split_reductions → fuse → recipe_of, NestBuilder → place_buffers → KernelPlan
"""

from .schedule import schedule
