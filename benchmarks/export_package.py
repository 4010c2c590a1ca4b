"""Packages: seconds to make one, to start a C++ program that runs it, and for a call, beside torch's AOTInductor.

    python -m benchmarks.export_package                         # ResNet-18 and a block of GPT-2, both sides
    python -m benchmarks.export_package --only resnet18 --side firesteel
    python -m benchmarks.export_package --json package.json

Each package is made in a fresh process with empty caches, from an exported program with a dynamic batch; making it
includes the export. The programs are built here with the C++ compiler of the system. "Start" is the time of a process
that loads the package, "first" that of one that also runs it once on a batch of one, both less the time of a process
that only links libtorch and does nothing. "Processor" is the time of processors that making the package took.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from benchmarks import report

ROOT = Path(__file__).resolve().parent.parent
TORCH = Path(torch.__file__).parent
SIDES = ("firesteel", "torch")
MOST_SECONDS, MOST_START = 5.0, 0.1
EMPTY = "int main() { return 0; }\n"
AOT_INDUCTOR = r"""
#include <torch/csrc/inductor/aoti_package/model_package_loader.h>
#include <ATen/ops/empty.h>
#include <chrono>
#include <fstream>
#include <iostream>
#include <sstream>
int main(int count, char **words) {
  torch::inductor::AOTIModelPackageLoader loader(words[1], "model", true);
  std::string text = words[4];
  std::vector<int64_t> shape;
  std::stringstream sizes(text.substr(0, text.find(':')));
  for (std::string size; std::getline(sizes, size, 'x');) shape.push_back(std::atoll(size.c_str()));
  std::vector<at::Tensor> inputs{at::empty(shape, at::kFloat)};
  std::ifstream file(text.substr(text.find(':') + 1), std::ios::binary);
  file.read(static_cast<char *>(inputs[0].data_ptr()), static_cast<std::streamsize>(inputs[0].nbytes()));
  double best = 1e9, spent = 0, seconds = words[3][0] == '@' ? std::atof(words[3] + 1) : 0;
  if (words[3][0] != '@') loader.run(inputs);
  while (spent < seconds) {
    const auto start = std::chrono::steady_clock::now();
    loader.run(inputs);
    const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    best = std::min(best, took);
    spent += took;
  }
  if (seconds > 0) std::cout << best * 1e3 << " ms\n";
}
"""


def resnet18() -> tuple[torch.nn.Module, tuple[int, ...]]:
    """The model and the shape of its input."""
    sys.path.insert(0, str(ROOT / "tests"))
    from torchvision_on_cpu import load

    return load("torchvision").models.resnet18().eval(), (4, 3, 224, 224)


def gpt2_block() -> tuple[torch.nn.Module, tuple[int, ...]]:
    """A block of the smallest GPT-2."""
    sys.path.insert(0, str(ROOT / "tests"))
    from torchvision_on_cpu import prepare

    prepare()
    import transformers
    from transformers.models.gpt2.modeling_gpt2 import GPT2Block

    class Block(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.block = GPT2Block(transformers.GPT2Config(attn_implementation="sdpa"), layer_idx=0)

        def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
            result = self.block(hidden_states)
            return result[0] if isinstance(result, tuple) else result

    return Block().eval(), (4, 128, 768)


MODELS: dict[str, Callable[[], tuple[torch.nn.Module, tuple[int, ...]]]] = {
    "resnet18": resnet18, "gpt2_block": gpt2_block}


def make(name: str, side: str, path: str) -> None:
    """Make a package in this process, which must be fresh, and print how long it took."""
    model, shape = MODELS[name]()
    x = torch.randn(shape)
    with torch.no_grad():
        model(x)
        used = _processor_seconds()
        if side == "firesteel":
            import firesteel as fs
            from firesteel.export import Dim, export

            started = time.perf_counter()
            program = export(model, (x,), dynamic_shapes=({0: Dim("batch", min=1, max=64)},))
            exported = time.perf_counter()
            fs.export.package(program, path)
        else:
            from torch._inductor import aoti_compile_and_package
            from torch.export import Dim as TorchDim
            from torch.export import export as torch_export

            started = time.perf_counter()
            batch = TorchDim("batch", min=1, max=64)
            torch_program = torch_export(model, (x,), dynamic_shapes=({0: batch},))
            exported = time.perf_counter()
            aoti_compile_and_package(torch_program, package_path=path)
    done = time.perf_counter()
    print(json.dumps({"export": exported - started, "package": done - exported, "both": done - started,
                      "processor": _processor_seconds() - used}))


def _processor_seconds() -> float:
    """What this process and those it waited for have used."""
    own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


def build(source: Path, program: Path) -> Path:
    """Compile a C++ program against libtorch."""
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None:
        raise SystemExit("there is no C++ compiler")
    include = ROOT / "src" / "firesteel" / "export" / "packages"
    subprocess.run(
        [compiler, "-std=c++20", "-O2", "-w", f"-I{include}", f"-I{TORCH / 'include'}",
         f"-I{TORCH / 'include' / 'torch' / 'csrc' / 'api' / 'include'}", str(source), "-o", str(program),
         f"-L{TORCH / 'lib'}", f"-Wl,-rpath,{TORCH / 'lib'},--no-as-needed", "-ltorch_cpu", "-ltorch", "-lc10", "-ldl"],
        check=True)  # fmt: skip
    return program


def start(program: Path, *words: str) -> float:
    """The fastest of some starts."""
    best = 1e9
    for _ in range(9):
        started = time.perf_counter()
        subprocess.run([str(program), *words], check=True, capture_output=True)
        best = min(best, time.perf_counter() - started)
    return best


def measure(name: str, side: str, programs: dict[str, Path], folder: Path) -> dict[str, Any]:
    """All figures of a model and a side."""
    path = folder / f"{name}.{'fsp' if side == 'firesteel' else 'pt2'}"
    with tempfile.TemporaryDirectory() as caches:
        environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": caches, "FIRESTEEL_CACHE_DIR": caches}
        done = subprocess.run([sys.executable, "-m", "benchmarks.export_package", "--make", name, side, str(path)],
                              cwd=ROOT, env=environment, capture_output=True, text=True)
    if done.returncode:
        return {"model": name, "side": side, "error": done.stderr[-2000:]}
    figures: dict[str, Any] = {"model": name, "side": side, **json.loads(done.stdout.splitlines()[-1])}
    figures["megabytes"] = path.stat().st_size / 1e6
    _, shape = MODELS[name]()
    torch.randn(shape).numpy().tofile(folder / "x.bin")
    once = (1, *shape[1:])
    given = [f"{'x'.join(map(str, sizes))}:{folder / 'x.bin'}" for sizes in (once, shape)]
    program, model = programs[side], "-" if side == "firesteel" else "model"
    nothing = start(programs["empty"])
    figures["start"] = start(program, str(path), model, "@0", given[0]) - nothing
    figures["first"] = start(program, str(path), model, str(folder / "y"), given[0]) - nothing
    printed = subprocess.run([str(program), str(path), model, "@3", given[1]], check=True, capture_output=True,
                             text=True)
    figures["call_ms"] = float(printed.stdout.split()[0])
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="models, separated by commas")
    parser.add_argument("--side", choices=SIDES)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--threads", type=int, default=1, help="of the C++ programs")
    parser.add_argument("--make", nargs=3, metavar=("MODEL", "SIDE", "PATH"), help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.make:
        make(*chosen.make)
        return
    os.environ["OMP_NUM_THREADS"] = str(chosen.threads)
    sides = [chosen.side] if chosen.side else list(SIDES)
    names = chosen.only.split(",") if chosen.only else list(MODELS)
    rows = []
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        (folder / "empty.cpp").write_text(EMPTY)
        (folder / "aot_inductor.cpp").write_text(AOT_INDUCTOR)
        programs = {"empty": build(folder / "empty.cpp", folder / "empty")}
        if "firesteel" in sides:
            programs["firesteel"] = build(ROOT / "examples" / "cpp_package" / "run_package.cpp", folder / "run_package")
        if "torch" in sides:
            programs["torch"] = build(folder / "aot_inductor.cpp", folder / "aot_inductor")
        for name in names:
            for side in sides:
                rows.append(measure(name, side, programs, folder))
                print(json.dumps(rows[-1]), flush=True)
    columns = ("export", "package", "both", "processor", "start", "first", "call_ms", "megabytes")
    report.print_table("packages: seconds to make, start and call", ("model", "side", *columns),
                       [(row["model"], row["side"], *(row.get(column) for column in columns)) for row in rows])
    for row in rows:
        if row["side"] == "firesteel" and "error" not in row:
            verdict = row["both"] < MOST_SECONDS and row["start"] < MOST_START
            print(f"{row['model']}: {'reached' if verdict else 'MISSED'} "
                  f"(made in {row['both']:.2f} of {MOST_SECONDS} s, starts in {1e3 * row['start']:.0f} of "
                  f"{1e3 * MOST_START:.0f} ms)")
    if chosen.json:
        chosen.json.write_text(json.dumps({"versions": report.versions(), "rows": rows}, indent=1))


if __name__ == "__main__":
    main()
