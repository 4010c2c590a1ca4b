"""`examples/distributed`: its script trains under torchrun, and goes on after a failure with what was saved."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch.distributed as dist

ROOT = Path(__file__).resolve().parent.parent.parent

if not dist.is_available() or not dist.is_gloo_available():
    pytest.skip("this torch is built without gloo", allow_module_level=True)


def train(folder: Path, *options: str) -> tuple[float, int, str]:
    """The loss that two processes end with, how often they were started again, and what they wrote."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "FIRESTEEL_COMPILE_AFTER": "0",
                   "FIRESTEEL_CACHE_DIR": str(folder / "cache"), "FIRESTEEL_LOGS": "cache",
                   "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])}
    # more restarts than one: gloo itself may fail to connect processes anew on a busy machine
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=4",
               str(ROOT / "examples" / "distributed" / "train.py"), "--layers=1", "--width=16", *options]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240)
    assert result.returncode == 0, result.stderr
    found = re.search(r"step \d+, loss ([\d.]+), first step [\d.]+ s, restarts (\d+)", result.stdout)
    assert found is not None, result.stdout
    return float(found[1]), int(found[2]), result.stdout + result.stderr


def test_a_run_that_fails_ends_where_one_that_does_not_does(tmp_path):
    loss, restarts, _ = train(tmp_path, "--steps=4")
    assert restarts == 0
    sharded, restarts, _ = train(tmp_path, "--steps=4", "--every=2", "--parallel=fsdp2", "--fail-at=3",
                                 f"--checkpoint={tmp_path / 'saved'}")
    assert restarts >= 1
    assert abs(sharded - loss) < 1e-3
    assert sorted(path.name for path in (tmp_path / "saved").iterdir()) == ["step000002", "step000004"]
