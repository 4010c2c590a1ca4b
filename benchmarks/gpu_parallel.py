"""What DistributedDataParallel and `fully_shard` add to a training step on one GPU, with nccl and one process.

    python -m benchmarks.gpu_parallel                       # eager, torch.compile and firesteel, below a minute
    python -m benchmarks.gpu_parallel --compilers fs --models small
    python -m benchmarks.gpu_parallel --device cpu --models tiny    # with gloo, to see that it runs

Nothing is sent anywhere in a group of one process: what is measured is what the wrapper itself costs, and what a
compiler loses where the wrapper takes a program apart. Each way is a process of its own. They all compile at once; then
they are measured in turns, several times, while the others wait. A step is forward and backward; beside it stands that
step with AdamW. The gradients of compiled steps are compared with float32, and their error with eager's.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import json
import os
import queue
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import nn

from benchmarks import report
from benchmarks.data_parallel import Block

COMPILERS = ("eager", "torch", "fs")
WRAPPERS = ("plain", "ddp", "fsdp")
VOCABULARY = 32768
MODELS = {"gpt": (768, 12, 12, 16, 1024), "small": (256, 4, 4, 8, 256), "tiny": (32, 2, 2, 2, 16)}
"""Width, heads, layers, rows and tokens in a row."""
ALLOWED = 1.03
"""A step with a wrapper over one without it."""


class GPT(nn.Module):
    """A language model that returns its loss."""

    def __init__(self, width: int, heads: int, layers: int, words: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(words, width)
        self.blocks = nn.ModuleList([Block(width, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Of predicting the next token."""
        x = self.tokens(tokens)
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.norm(x))
        return nn.functional.cross_entropy(logits.flatten(0, 1).float(), tokens.roll(-1, 1).flatten())


# In a process


def wrapped(wrapper: str, model: nn.Module) -> nn.Module:
    """The model under a wrapper, which uses the group of this process alone."""
    if wrapper == "ddp":
        from torch.nn.parallel import DistributedDataParallel

        return DistributedDataParallel(model)
    if wrapper == "fsdp":
        from torch.distributed.fsdp import fully_shard

        for block in model.blocks:  # type: ignore[union-attr]
            fully_shard(block)
        fully_shard(model)
    return model


def compiled(compiler: str, model: nn.Module) -> Any:
    """The model as one of the sides runs it."""
    if compiler == "eager":
        return model
    if compiler == "torch":
        return torch.compile(model)
    import firesteel as fs

    return fs.compile(model, tier="wait")


def gradients(run: Any, tokens: torch.Tensor, parameters: list[nn.Parameter], parts: int = 1) -> list[torch.Tensor]:
    """Of one step, whole; taken in so many parts it needs less memory."""
    for parameter in parameters:
        parameter.grad = None
    for part in tokens.chunk(parts):
        (run(part) / parts).backward()
    found = [parameter.grad for parameter in parameters]
    return [getattr(gradient, "full_tensor", gradient.clone)().detach() for gradient in found if gradient is not None]


def error(values: list[torch.Tensor], exact: list[torch.Tensor]) -> float:
    """The mean error of gradients."""
    if len(values) != len(exact):
        return float("inf")
    return statistics.fmean(float((a.float() - b.float()).norm() / (b.float().norm() + 1e-30))
                            for a, b in zip(values, exact, strict=True))


def reference(model: GPT, tokens: torch.Tensor) -> tuple[list[torch.Tensor], float]:
    """The gradients of a step in float32, and how far compiled ones may be from them."""
    narrow, wide = copy.deepcopy(model), copy.deepcopy(model).float()
    exact = gradients(wide, tokens, list(wide.parameters()), parts=tokens.shape[0])
    return exact, 2 * error(gradients(narrow, tokens, list(narrow.parameters())), exact) + 1e-5


def measure(call: Callable[[], Any], cuda: bool, seconds: float) -> float:
    """The median time of a call in milliseconds."""
    if cuda:
        from benchmarks.gpu import device_ms

        return device_ms(lambda _: call(), 1, seconds)
    times = []
    until = time.perf_counter() + seconds
    while time.perf_counter() < until or len(times) < 3:
        began = time.perf_counter()
        call()
        times.append(1000 * (time.perf_counter() - began))
    return statistics.median(times)


def serve(options: argparse.Namespace, compiler: str, wrapper: str) -> None:
    """Compile, check, and measure whenever a line is read."""
    import torch.distributed as dist

    cuda = options.device == "cuda"
    if cuda:
        torch.cuda.set_device(0)
    dist.init_process_group("nccl" if cuda else "gloo", store=dist.HashStore(), rank=0, world_size=1)
    width, heads, layers, rows, length = MODELS[options.models]
    torch.manual_seed(0)
    words = VOCABULARY if cuda else 256
    model = GPT(width, heads, layers, words).to(options.device, torch.bfloat16)
    tokens = torch.randint(0, words, (rows, length), device=options.device)
    exact, allowed = reference(model, tokens) if compiler == "fs" else ([], 0.0)
    step = compiled(compiler, wrapped(wrapper, model))
    parameters = list(model.parameters())
    began = time.perf_counter()
    off = gradients(step, tokens, parameters)
    answer = {"first": time.perf_counter() - began, "wrong": ""}
    if exact and not (distance := error(off, exact)) <= allowed:
        answer["wrong"] = f"error {distance:.3g}, {allowed:.3g} allowed"
    del exact, off
    optimizer = torch.optim.AdamW(parameters, lr=1e-6, foreach=True)

    def forward_backward() -> None:
        for parameter in parameters:
            parameter.grad = None
        step(tokens).backward()

    def whole_step() -> None:
        forward_backward()
        optimizer.step()

    whole_step()
    if cuda:
        torch.cuda.empty_cache()  # others run on this GPU as well
        torch.cuda.reset_peak_memory_stats()
    print("ANSWER " + json.dumps(answer), flush=True)
    for _ in sys.stdin:
        forward_backward()
        alone, whole = measure(forward_backward, cuda, options.slice), measure(whole_step, cuda, options.slice)
        peak = torch.cuda.max_memory_allocated() / 1e9 if cuda else 0.0
        print("ANSWER " + json.dumps({"step": alone, "whole": whole, "peak": peak}), flush=True)
    dist.destroy_process_group()


# All processes


class Side:
    """A process that runs one way."""

    def __init__(self, options: argparse.Namespace, compiler: str, wrapper: str, caches: str) -> None:
        self.compiler, self.wrapper = compiler, wrapper
        self.first: dict[str, Any] = {}
        self.turns: list[dict[str, float]] = []
        self.failure = ""
        environment = {
            **os.environ, "TORCHINDUCTOR_CACHE_DIR": f"{caches}/inductor", "TRITON_CACHE_DIR": f"{caches}/triton",
            "FIRESTEEL_CACHE_DIR": f"{caches}/firesteel", "TORCHINDUCTOR_COMPILE_THREADS": "4"}
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.gpu_parallel", "--side", f"{compiler},{wrapper}", "--models",
             options.models, "--device", options.device, "--slice", str(options.slice)],
            env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True)
        self.said: queue.Queue[dict[str, Any] | None] = queue.Queue()
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.startswith("ANSWER "):
                self.said.put(json.loads(line.removeprefix("ANSWER ")))
        self.said.put(None)

    def answer(self, until: float) -> dict[str, Any]:
        """What the process says next; {} and a reason in ``failure`` if it says nothing until then."""
        if self.failure:
            return {}
        try:
            found = self.said.get(timeout=max(0.01, until - time.perf_counter()))
        except queue.Empty:
            self.process.kill()
            self.failure = "not done in time"
            return {}
        if found is None:
            self.errors.seek(0)
            self.failure = (self.errors.read().strip().splitlines() or ["no output"])[-1][:300]
        return found or {}

    def turn(self, until: float) -> None:
        """Measure once."""
        if not self.failure:
            assert self.process.stdin is not None
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.write("go\n")
                self.process.stdin.flush()
            if found := self.answer(until):
                self.turns.append(found)

    def close(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()
        self.reader.join()
        for stream in (self.process.stdin, self.process.stdout, self.errors):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()

    def median(self, what: str) -> float:
        """Of all turns; nan if there was none."""
        return statistics.median([turn[what] for turn in self.turns]) if self.turns else float("nan")


def run_sides(options: argparse.Namespace) -> list[Side]:
    """Compile all at once, then measure in turns."""
    began = time.perf_counter()
    end = began + options.seconds
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as caches:
        sides = [Side(options, compiler, wrapper, caches) for compiler in options.compilers for wrapper in WRAPPERS]
        try:
            a_turn = 2.5 * options.slice * len(sides)
            for side in sides:
                side.first = side.answer(end - a_turn)
            for _ in range(options.turns):
                if time.perf_counter() + a_turn < end or not any(side.turns for side in sides):
                    for side in sides:
                        side.turn(end + 5)
        finally:
            for side in sides:
                side.close()
    return sides


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 1 if a result was wrong, or a compiled step with a wrapper too slow."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--compilers", type=lambda text: text.split(","), default=list(COMPILERS))
    parser.add_argument("--models", choices=MODELS, default="gpt")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--seconds", type=float, default=56, help="for all of it")
    parser.add_argument("--slice", type=float, default=0.25, help="seconds of one measurement")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--json", help="a file for the figures")
    parser.add_argument("--side", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.side:
        serve(options, *options.side.split(","))
        return 0
    sides = run_sides(options)
    plain = {side.compiler: side for side in sides if side.wrapper == "plain"}
    rows = []
    failed = False
    for side in sides:
        base = plain[side.compiler]
        ratio, whole = (side.median(what) / base.median(what) for what in ("step", "whole"))
        failed |= side.compiler == "fs" and (not ratio <= ALLOWED or bool(side.first.get("wrong")))
        rows.append([side.compiler, side.wrapper, side.median("step"), ratio, side.median("whole"), whole,
                     side.median("peak"), side.first.get("first")])
    report.print_table(f"{options.models} on {options.device}", [
        "compiler", "wrapper", "step ms", "of plain", "with AdamW ms", "of plain", "GB", "first call s"], rows)
    for side in sides:
        if text := side.failure or (side.first.get("wrong") if side.compiler == "fs" else ""):
            print(f"{side.compiler}, {side.wrapper}: {text}")
    if options.json:
        with open(options.json, "w") as file:
            json.dump([{"compiler": side.compiler, "wrapper": side.wrapper, **side.first, "failure": side.failure,
                        "turns": side.turns} for side in sides], file)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
