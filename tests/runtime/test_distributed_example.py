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


def launch(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "FIRESTEEL_COMPILE_AFTER": "0",
                   "FIRESTEEL_CACHE_DIR": str(folder / "cache"), "FIRESTEEL_LOGS": "cache",
                   "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=0",
               str(ROOT / "examples" / "distributed" / "train.py"), "--layers=1", "--width=16", "--steps=4", *options]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240, check=False)


def final_loss(result: subprocess.CompletedProcess[str]) -> float:
    assert result.returncode == 0, result.stderr
    found = re.search(r"step \d+, loss ([\d.]+), first step [\d.]+ s, restarts 0", result.stdout)
    assert found is not None, result.stdout
    return float(found[1])


def test_a_run_that_fails_ends_where_one_that_does_not_does(tmp_path):
    """Started again by hand: where torchrun does it, gloo may fail to connect the processes anew on a busy machine."""
    loss = final_loss(launch(tmp_path))
    saved = tmp_path / "saved"
    options = "--every=2", "--parallel=fsdp2", f"--checkpoint={saved}"
    assert launch(tmp_path, *options, "--fail-at=3").returncode != 0
    assert [path.name for path in saved.iterdir()] == ["step000002"]
    assert abs(final_loss(launch(tmp_path, *options)) - loss) < 1e-3
    assert sorted(path.name for path in saved.iterdir()) == ["step000002", "step000004"]
