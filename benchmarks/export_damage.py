"""Saved programs that were damaged: every one must give a clear error when it is loaded, or the same result.

    python -m benchmarks.export_damage                # 1,000 damaged files of a small network
    python -m benchmarks.export_damage --count 5000 --seed 7

A file is damaged by flipped bits, bytes set to others, truncation, bytes cut out or put in, parts of the archive
swapped for each other, taken away or doubled.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import torch
from tests.export.saving.damage import damage_all
from torch import nn

import firesteel as fs


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.manual_seed(0)
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(144, 5))
    inputs = (torch.randn(2, 3, 8, 8),)
    program = fs.export.export(module, inputs)
    with tempfile.TemporaryDirectory() as folder:
        found = damage_all(program, inputs, Path(folder), options.count, options.seed)
    for problem in found.pop("problems"):
        print(problem)
    print(f"{options.count} damaged files: " + ", ".join(f"{number} {what}" for what, number in found.items()))
    return 0 if not found["wrong"] and not found["crash"] else 1


if __name__ == "__main__":
    sys.exit(main())
