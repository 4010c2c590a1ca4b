"""Processes that start at once with one cache: what each compiles, how soon they train, and what damage does.

    python -m benchmarks.shared_cache                     # four processes, an empty cache and then a full one
    python -m benchmarks.shared_cache --damaged 1000      # and 1,000 damaged entries

Every process makes the same first training step of a small transformer. An entry that two of them have stored was
compiled twice. As where firesteel is installed, modules are there as bytecode: compiling them from source costs a
process as much as all that it does with a full cache. Entries are damaged one by one (bytes changed, cut off, added,
another entry's, another machine's), and asked for; with all of them damaged, a process trains once more and has to get
the same loss. The exit status is 1 where anything was compiled twice, a damaged entry was used, or a process failed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from . import report


def train_once(layers: int) -> dict[str, Any]:
    """One training step in this process, and what it has stored in the cache."""
    import torch
    from torch import nn

    import firesteel as fs
    from firesteel import disk_cache

    torch.set_num_threads(1)
    stored: list[str] = []
    put = disk_cache.put

    def noting(kind: str, key: str, data: bytes, shared: bool = True) -> bool:
        kept = put(kind, key, data, shared)
        stored.extend([f"{kind}/{key}"] if kept else [])
        return kept

    disk_cache.put = noting
    torch.manual_seed(0)
    model = nn.Sequential(*[nn.TransformerEncoderLayer(64, 4, 128 * (at + 1), 0.0, batch_first=True)
                            for at in range(layers)], nn.LayerNorm(64), nn.Linear(64, 10))
    x = torch.randn(4, 16, 64)
    step = fs.compile(model, tier="wait")
    began, used = time.perf_counter(), time.process_time()
    loss = step(x).square().mean()
    loss.backward()
    return {"loss": loss.item(), "seconds": time.perf_counter() - began, "cpu": time.process_time() - used,
            "stored": stored}


def start(count: int, folder: Path, layers: int, bytecode: str) -> list[dict[str, Any]]:
    """The answers of processes that begin at once with a cache."""
    environment = {**os.environ, "FIRESTEEL_CACHE_DIR": str(folder), "FIRESTEEL_DISK_CACHE": "1",
                   "OMP_NUM_THREADS": "1", "PYTHONPYCACHEPREFIX": bytecode}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    command = [sys.executable, "-W", "ignore", "-m", "benchmarks.shared_cache", "--worker", "--layers", str(layers)]
    running = [subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(count)]
    answers = []
    for process in running:
        output, _ = process.communicate(timeout=600)
        if process.returncode:
            raise SystemExit(f"a process ended with {process.returncode}")
        answers.append(json.loads(output.splitlines()[-1]))
    return answers


def damage(content: bytes, other: bytes, chance: random.Random) -> bytes:
    """An entry that is no longer what was stored."""
    kind = chance.randrange(6)
    place = chance.randrange(len(content))
    if kind == 0:
        return content[:place] + bytes([content[place] ^ 1 << chance.randrange(8)]) + content[place + 1:]
    if kind == 1:
        return content[:place]
    if kind == 2:
        return content + chance.randbytes(1 + chance.randrange(64))
    if kind == 3:
        return other
    if kind == 4:
        return chance.randbytes(len(content))
    return content[:place] + chance.randbytes(16) + content[place + 16:]


def use_damaged(folder: Path, count: int, seed: int) -> int:
    """How many damaged entries were used."""
    from firesteel import config, disk_cache

    chance, used = random.Random(seed), 0
    entries = sorted(folder.glob("*/*/*.entry"))
    whole = {path: path.read_bytes() for path in entries}
    with config.patch(cache_dir=str(folder), disk_cache=True):
        for _ in range(count):
            path, other = chance.choice(entries), chance.choice(entries)
            bad = damage(whole[path], whole[other], chance)
            path.write_bytes(bad)
            found = disk_cache.get(path.parent.parent.name, path.stem)
            used += bad != whole[path] and found is not None
            path.write_bytes(whole[path])
    for path in entries:
        bad = damage(whole[path], whole[chance.choice(entries)], chance)
        path.write_bytes(bad)
    return used


def main(arguments: Sequence[str] | None = None) -> int:
    """Print what was compiled and how long it took."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--damaged", type=int, default=100)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.worker:
        print(json.dumps(train_once(options.layers)))
        return 0
    with tempfile.TemporaryDirectory() as name, tempfile.TemporaryDirectory() as bytecode:
        folder = Path(name)
        with tempfile.TemporaryDirectory() as other:
            start(1, Path(other), options.layers, bytecode)
        runs = {when: start(options.processes, folder, options.layers, bytecode) for when in ("empty", "full")}
        rows = []
        twice = 0
        for when, answers in runs.items():
            stored = Counter(entry for answer in answers for entry in answer["stored"]
                             if not entry.startswith(("learned/", "sources/")))  # notes, nothing compiled
            again = sum(count - 1 for count in stored.values())
            for entry, count in stored.items():
                if count > 1:
                    print(f"{when} cache: {count} processes made {entry}")
            twice += again
            rows.append([when, len(stored), again, *[sum(answer[key] for answer in answers) / len(answers)
                                                     for key in ("seconds", "cpu")]])
        report.print_table(f"{options.processes} processes that begin at once", [
            "cache", "entries made", "made twice", "first step s", "of which CPU s"], rows)
        print(f"with a full cache the first step comes {rows[0][3] / rows[1][3]:.1f} times as soon "
              f"({rows[0][4] / rows[1][4]:.1f} times in CPU seconds)")
        used = use_damaged(folder, options.damaged, options.seed)
        (last,) = start(1, folder, options.layers, bytecode)
        same = abs(last["loss"] - runs["empty"][0]["loss"]) < 1e-6
        print(f"{options.damaged} damaged entries: {used} used; with all damaged the loss is "
              f"{'the same' if same else 'another'}")
    return min(1, twice + used + (not same))


if __name__ == "__main__":
    sys.exit(main())
