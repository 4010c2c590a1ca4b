"""Runs programs twice under ``firesteel run``, compiled and plain, and prints what differs: ``both_ways.py name``."""

import json
import runpy
import sys
import time
from pathlib import Path

SCRIPTS = Path(__file__).parent / "scripts"


def differences(a, b, at=""):
    """Where two results differ by more than rounding."""
    if isinstance(a, dict) and isinstance(b, dict) and a.keys() == b.keys():
        return [line for key in a for line in differences(a[key], b[key], f"{at}.{key}")]
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)) and len(a) == len(b):
        return [line for i, (x, y) in enumerate(zip(a, b)) for line in differences(x, y, f"{at}[{i}]")]
    if isinstance(a, float) and isinstance(b, float):
        return [] if abs(a - b) <= 1e-4 + 1e-3 * abs(b) else [f"{at}: {a} and {b}"]
    return [] if a == b else [f"{at}: {a!r} and {b!r}"]


def main(names):
    import torch

    sys.path.insert(0, str(Path(__file__).parent.parent))
    import torchvision_on_cpu

    torchvision_on_cpu.prepare()
    report = {}
    for name in names:
        began = time.perf_counter()
        compiled = runpy.run_path(str(SCRIPTS / f"{name}.py"), run_name="program")["main"]()
        seconds = time.perf_counter() - began
        torch.compiler.reset()
        with torch.compiler.set_stance("force_eager"):
            plain = runpy.run_path(str(SCRIPTS / f"{name}.py"), run_name="program")["main"]()
        told = compiled.pop("compiler", {})  # about the compiler: another answer where nothing is compiled
        plain.pop("compiler", None)
        report[name] = {"differences": differences(compiled, plain), "seconds": round(seconds, 1), "told": told}
    parts = ("_dynamo.symbolic_convert", "_dynamo.convert_frame", "_dynamo.output_graph", "_inductor.compile_fx",
             "_inductor.scheduler", "_functorch.aot_autograd")
    print(json.dumps({"programs": report, "loaded": [part for part in parts if f"torch.{part}" in sys.modules],
                      "dynamo": type(sys.modules.get("torch._dynamo")).__name__}))


if __name__ == "__main__":
    main(sys.argv[1:] or sorted(path.stem for path in SCRIPTS.glob("*.py")))
