"""Ten programs of others' style, each in a process of its own: under ``firesteel run`` and as plain Python.

    python -m benchmarks.unchanged_scripts               firesteel against firesteel's stance "force_eager"
    python -m benchmarks.unchanged_scripts --torch       torch.compile beside them (minutes)

The table says whether results agree, whether torch's own compiler was loaded, and how long the process took.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from tabulate import tabulate

ROOT = Path(__file__).resolve().parent.parent
SCRIPTS = ROOT / "tests" / "unchanged" / "scripts"
sys.path.insert(0, str(ROOT / "tests" / "unchanged"))

from both_ways import differences  # noqa: E402

RUN = """
import sys
sys.path.insert(0, {tests!r})
import torchvision_on_cpu
torchvision_on_cpu.prepare()
{before}
{run}
print("loaded" if "torch._dynamo.symbolic_convert" in sys.modules else "not loaded")
"""
UNDER = "from firesteel.cli import main\ncode = main(['run', {script!r}])\nassert code == 0, code"
PLAIN = "import runpy\nrunpy.run_path({script!r}, run_name='__main__')"
EAGER = "import firesteel as fs\nfs.install()\nfs.set_stance('force_eager')"


def run(script: Path, way: str) -> tuple[object, str, float]:
    """What a program printed, whether torch's compiler was loaded, and the seconds of the process."""
    code = RUN.format(tests=str(ROOT / "tests"), before=EAGER if way == "eager" else "",
                      run=(UNDER if way == "firesteel" else PLAIN).format(script=str(script)))
    began = time.perf_counter()
    environment = {**os.environ, "FIRESTEEL_COMPILE_AFTER": "0"}
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", code], capture_output=True, text=True,
                          env=environment, check=False)
    seconds = time.perf_counter() - began
    if done.returncode:
        return done.stderr.strip().splitlines()[-1][:60], "", seconds
    *_, result, loaded = done.stdout.splitlines()
    found = json.loads(result)
    found.pop("compiler", None)
    return found, loaded, seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch", action="store_true", help="run with torch.compile too")
    parser.add_argument("--only", nargs="*", help="names of programs")
    arguments = parser.parse_args()
    rows, failures = [], 0
    for script in sorted(SCRIPTS.glob("*.py")):
        if arguments.only and script.stem not in arguments.only:
            continue
        plain, _, plain_seconds = run(script, "eager")
        ours, loaded, seconds = run(script, "firesteel")
        wrong = differences(ours, plain)
        failures += bool(wrong) or loaded != "not loaded"
        row = [script.stem, "equal" if not wrong else wrong[0][:60], loaded, f"{plain_seconds:.1f}", f"{seconds:.1f}"]
        if arguments.torch:
            theirs, _, torch_seconds = run(script, "torch")
            row += [f"{torch_seconds:.1f}", (differences(ours, theirs) or ["equal"])[0][:60]]
        rows.append(row)
    heads = ["program", "results", "torch's compiler", "plain (s)", "firesteel (s)"]
    print(tabulate(rows, [*heads, "torch.compile (s)", "its results"] if arguments.torch else heads))
    return int(failures > 0)


if __name__ == "__main__":
    sys.exit(main())
