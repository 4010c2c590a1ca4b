"""Programs that others could have written run under ``firesteel run``: the same results, and torch's compiler is not
loaded."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent


def test_programs_of_others_run_unchanged():
    """In one process, for starting one takes longer than running them; ``benchmarks/unchanged_scripts.py`` gives each
    one of its own, and has the slowest too."""
    names = sorted({path.stem for path in (HERE / "scripts").glob("*.py")} - {"generate_static_cache"})
    done = subprocess.run(
        [sys.executable, "-m", "firesteel", "run", str(HERE / "both_ways.py"), *names], capture_output=True, text=True,
        env={**os.environ, "FIRESTEEL_COMPILE_AFTER": "0", "FIRESTEEL_RAISE_ON_INTERNAL_ERROR": "1"}, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert list(report["programs"]) == names and len(names) == 9
    assert not {name: found["differences"] for name, found in report["programs"].items() if found["differences"]}
    assert report["programs"]["dynamo_settings"]["told"] == {"breaks": True, "fullgraph": True}
    assert report["loaded"] == [] and report["dynamo"] == "StandIn"
    assert "epilogue_fusion" in done.stderr and "Traceback" not in done.stderr
