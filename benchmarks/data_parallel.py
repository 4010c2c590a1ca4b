"""Training steps under DistributedDataParallel on a slow link: how much of reducing gradients hides behind backward.

    python -m benchmarks.data_parallel
    python -m benchmarks.data_parallel --processes 4 --delays 5 --torch

Processes reduce their gradients with gloo; a communication hook lets each bucket occupy a link for so many
milliseconds, one after the other. A step cannot be shorter than the longer of computing and sending, and the last
bucket, which is complete when backward is, has nothing to hide behind: `bound` is max(computing, sending) + one bucket.
Computing is the same step under `no_sync`, in the same processes. The norms of gradients are compared with eager's. It
needs a quiet machine with a core for each process.
"""

from __future__ import annotations

import argparse
import os
import queue
import socket
import statistics
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch.nn.parallel import DistributedDataParallel

from benchmarks import report

WARM_UP = 4
Made = tuple[torch.nn.Module, torch.Tensor]


class Block(torch.nn.Module):
    """One layer of a transformer with causal attention."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.behind = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.qkv, self.out = torch.nn.Linear(width, 3 * width), torch.nn.Linear(width, width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Attention, then two linear layers."""
        batch, length, width = x.shape
        parts = self.qkv(self.before(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.down(torch.nn.functional.gelu(self.up(self.behind(x))))


def gpt() -> Made:
    """Twelve layers."""
    torch.manual_seed(0)
    return torch.nn.Sequential(*[Block(256, 4) for _ in range(12)]), torch.randn(4, 64, 256)


def resnet() -> Made:
    """ResNet-18."""
    from transformers import ResNetConfig, ResNetModel

    torch.manual_seed(0)
    config = ResNetConfig(depths=[2, 2, 2, 2], layer_type="basic", hidden_sizes=[64, 128, 256, 512])
    return ResNetModel(config), torch.randn(4, 3, 64, 64)


MODELS: dict[str, Callable[[], Made]] = {"gpt": gpt, "resnet": resnet}


class Link:
    """Buckets that are sent one after the other."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.sent = 0
        self.waiting: queue.Queue[Any] = queue.Queue()
        threading.Thread(target=self._send, daemon=True).start()

    def _send(self) -> None:
        while True:
            work, bucket, done = self.waiting.get()
            work.wait()
            time.sleep(self.seconds)
            done.set_result(bucket)

    def hook(self, world: int, bucket: Any) -> torch.futures.Future[torch.Tensor]:
        """The communication hook."""
        done: torch.futures.Future[torch.Tensor] = torch.futures.Future()
        tensor = bucket.buffer().div_(world)
        self.sent += 1
        self.waiting.put((dist.all_reduce(tensor, async_op=True), tensor, done))
        return done


def compiled(way: str, wrapper: torch.nn.Module) -> Any:
    """The wrapper, compiled in this way."""
    if way == "eager":
        return wrapper
    if way == "torch":
        return torch.compile(wrapper)
    import firesteel as fs

    return fs.compile(wrapper, tier="wait")


def measure(rank: int, options: argparse.Namespace, name: str, way: str, port: int, results: Any) -> None:
    """One process of one way."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=options.processes)
    module, x = MODELS[name]()
    wrapper = DistributedDataParallel(module, bucket_cap_mb=options.bucket_mb)
    link = Link(0)
    wrapper.register_comm_hook(options.processes, lambda world, bucket: link.hook(world, bucket))
    step = compiled(way, wrapper)
    x = x + rank

    def once() -> float:
        began = time.perf_counter()
        result = step(x)
        result = result if isinstance(result, torch.Tensor) else result[0]
        result.square().mean().backward()
        return time.perf_counter() - began

    def typical(reducing: bool) -> float:
        times = []
        for _ in range(options.steps):
            dist.barrier()
            if reducing:
                times.append(once())
            else:
                with wrapper.no_sync():
                    times.append(once())
        return statistics.median(times)

    for _ in range(WARM_UP):
        wrapper.zero_grad()
        link.sent = 0
        once()
    buckets = link.sent
    checksum = [float(one.grad.double().norm()) for one in module.parameters() if one.grad is not None]
    with wrapper.no_sync():
        once()
    computing = typical(reducing=False)
    steps = []
    for delay in options.delays:
        link.seconds = delay / 1000
        steps.append(typical(reducing=True))
        computing = min(computing, typical(reducing=False))
    if rank == 0:
        results.put((buckets, computing, steps, checksum))
    dist.barrier()
    dist.destroy_process_group()


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def run(options: argparse.Namespace, name: str, way: str) -> tuple[int, float, list[float], list[float]]:
    """All processes of one way."""
    results = mp.get_context("spawn").SimpleQueue()
    mp.spawn(measure, (options, name, way, free_port(), results), nprocs=options.processes)
    result: tuple[int, float, list[float], list[float]] = results.get()
    return result


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table for each model."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--delays", nargs="+", type=float, default=[1, 5, 20], help="milliseconds a bucket")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--steps", type=int, default=15)
    parser.add_argument("--bucket-mb", type=float, default=4)
    parser.add_argument("--torch", action="store_true", help="torch.compile as well")
    options = parser.parse_args(arguments)
    wrong = 0
    for name in options.models:
        rows: list[list[object]] = []
        eager: list[float] = []
        expected: list[float] = []
        for way in ["eager", "firesteel", *(["torch"] if options.torch else [])]:
            buckets, computing, steps, norms = run(options, name, way)
            if way == "eager":
                eager, expected = steps, norms
            elif any(abs(a - b) > 1e-3 * max(abs(b), 1e-6) for a, b in zip(norms, expected, strict=True)):
                print(f"{name}, {way}: gradients differ")
                wrong += 1
            for at, (delay, step) in enumerate(zip(options.delays, steps, strict=True)):
                bound = max(computing, buckets * delay / 1000) + delay / 1000
                rows.append([way, delay, buckets, 1000 * computing, 1000 * step, 1000 * bound, step / bound,
                             step / eager[at]])
        report.print_table(f"{name}: {options.processes} processes, buckets of {options.bucket_mb} MB", [
            "way", "delay ms", "buckets", "computing ms", "step ms", "bound ms", "of bound", "of eager"], rows)
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
