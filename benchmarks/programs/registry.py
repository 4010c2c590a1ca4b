"""All files with programs, imported."""

from __future__ import annotations

import importlib

FILES = (
    "tests.whole_programs.training_steps",
    "benchmarks.programs.language",
    "benchmarks.programs.generating",
    "benchmarks.programs.learning_by_reward",
    "benchmarks.programs.images",
    "benchmarks.programs.structures",
    "benchmarks.programs.speech",
)


def load_all() -> None:
    """Fill the list of programs."""
    for name in FILES:
        importlib.import_module(name)
