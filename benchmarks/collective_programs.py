"""Programs with collectives in two gloo processes: equal to eager, in one graph, and what torch.compile does with them.

    python -m benchmarks.collective_programs
    python -m benchmarks.collective_programs --torch

The programs are those of the tests (`tests/collective_programs.py`), each with and without gradients where autograd
knows it. `--torch` runs them under `torch.compile(backend="aot_eager")` as well, which needs no C++ compiler.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))

import collective_programs as programs
import process_group


def main() -> None:
    """Print one line for each program, and the sums."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--torch", action="store_true", help="torch.compile too")
    compilers = ["compare", "compare_torch"] if parser.parse_args().torch else ["compare"]
    processes = process_group.Processes(2)
    right, whole, count = [0] * len(compilers), [0] * len(compilers), 0
    for name in programs.PROGRAMS:
        for gradients in (False,) if name in programs.WITHOUT_GRADIENTS else (False, True):
            count += 1
            cells = []
            for at, compare in enumerate(compilers):
                options = {"tier": "wait"} if compare == "compare" else {}
                try:
                    answers = processes.call("collective_programs", compare, name, gradients, options)
                except process_group.Failed as failure:
                    cells.append(str(failure).strip().rpartition("\n")[2][:60])
                    if not processes.alive:
                        processes = process_group.Processes(2)
                    continue
                one_graph = all(answer[:2] == (1, 0) for answer in answers)
                right[at], whole[at] = right[at] + 1, whole[at] + one_graph
                cells.append("one graph" if one_graph else f"{answers[0][0]} graphs, {answers[0][1]} breaks")
            title = f"{name} with gradients" if gradients else name
            print(f"{title:48}", *[f"{cell:20}" for cell in cells], flush=True)
    processes.close()
    for compiler, fine, single in zip(("firesteel", "torch.compile"), right, whole, strict=False):
        print(f"{compiler}: {count} programs, {fine} right, {single} in one graph")


if __name__ == "__main__":
    main()
