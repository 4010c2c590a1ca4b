"""A sample of printed kernels in Triton's own interpreter, against eager. It is slow where a row is reduced."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton")

PROGRAMS = [
    "sin_cos", "sin_cos:dynamic", "doubles", "bf16_chain", "int8_dequantise", "cat", "cat:dynamic", "transposed_add",
    "transposed_add:dynamic", "gradient_of_edges", "embedding_add", "layer_norm", "layer_norm:dynamic", "softmax",
    "softmax_of_channels", "middle_sum:dynamic", "column_sum", "arg_max", "any_all",
    "cumsum:scan", "cumsum_of_columns:scan", "cumprod:scan", "cummax:scan", "cumsum_bfloat16:scan",
]  # fmt: skip


def test_kernels_in_the_interpreter():
    script = Path(__file__).with_name("interpreted.py")
    tests, root = script.parents[2], script.parents[3]
    code = f"import sys; sys.path[:0] = {[str(root / 'src'), str(tests), str(root), *sys.path]!r}; " \
        f"sys.argv = {[str(script), *PROGRAMS]!r}; import runpy; runpy.run_path({str(script)!r}, run_name='__main__')"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=300,
                          check=False)
    found = dict(line.split(" ", 1) for line in done.stdout.splitlines() if " " in line)
    assert done.returncode == 0, done.stderr
    assert {name: found.get(name) for name in PROGRAMS if found.get(name) != "assembly"} == dict.fromkeys(
        [name for name in PROGRAMS if found.get(name) != "assembly"], "equal")
    assert sum(outcome == "equal" for outcome in found.values()) >= len(PROGRAMS) // 2
