"""Training on several processes, compiled by firesteel, that goes on where it was after a failure.

    torchrun --nproc-per-node 2 examples/distributed/train.py                      # DistributedDataParallel
    torchrun --nproc-per-node 2 examples/distributed/train.py --parallel fsdp2     # fully_shard
    torchrun --nproc-per-node 2 --max-restarts 1 examples/distributed/train.py --checkpoint saved --fail-at 6

With GPUs it trains there, over NCCL; without, on the CPU over gloo. With --checkpoint it saves its state every few
steps and begins with what was saved last. What was compiled lies in the cache that all processes share
(FIRESTEEL_CACHE_DIR): one of them compiles a kernel, the others wait for it, and a restart finds all of them.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoints
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import firesteel as fs

TOKENS = 64


class Block(nn.Module):
    """One layer of a transformer."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.behind = nn.LayerNorm(width), nn.LayerNorm(width)
        self.projections, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.feed = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Attention, then two linear layers."""
        q, k, v = self.projections(self.before(x)).unflatten(-1, (3, self.heads, -1)).transpose(1, 3).unbind(2)
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.feed(self.behind(x))


class Model(nn.Module):
    """A small language model."""

    def __init__(self, layers: int, width: int) -> None:
        super().__init__()
        self.tokens = nn.Embedding(TOKENS, width)
        self.blocks = nn.ModuleList([Block(width, 4) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, TOKENS)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """The logits of the next token."""
        x = self.tokens(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class State:
    """What a checkpoint holds: the names in it are those of the model that was compiled, on any number of processes."""

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        self.model, self.optimizer, self.step = model, optimizer, 0

    def state_dict(self) -> dict[str, Any]:
        """All there is, in pieces that each process writes for itself."""
        model, optimizer = get_state_dict(self.model, self.optimizer)
        return {"model": model, "optimizer": optimizer, "step": self.step}

    def load_state_dict(self, saved: dict[str, Any]) -> None:
        """Go on with what was saved."""
        set_state_dict(self.model, self.optimizer, model_state_dict=saved["model"],
                       optim_state_dict=saved["optimizer"])
        self.step = saved["step"]


def parallel(model: Model, how: str, device: torch.device) -> tuple[nn.Module, Any]:
    """The module whose state is saved, and what is called in each step."""
    if how == "ddp":
        wrapper = DistributedDataParallel(model, device_ids=[device.index] if device.type == "cuda" else None)
        return model, fs.compile(wrapper)
    for at, block in enumerate(model.blocks):  # blocks of one kind share what is compiled
        model.blocks[at] = fully_shard(fs.compile(block))
    return model, fully_shard(model)


def last_saved(folder: Path | None) -> Path | None:
    """The last checkpoint that is whole: its description is written when all processes have written their parts."""
    return max((path.parent for path in folder.glob("step*/.metadata")), default=None) if folder is not None else None


def main() -> int:
    """Train, as one of the processes that torchrun has started."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--parallel", choices=["ddp", "fsdp2"], default="ddp")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--checkpoint", type=Path, help="a directory for the state, every --every steps")
    parser.add_argument("--every", type=int, default=4)
    parser.add_argument("--fail-at", type=int, help="the last process dies once, in this step")
    options = parser.parse_args()

    local = int(os.environ.get("LOCAL_RANK", 0))
    device = torch.device("cuda", local) if torch.cuda.is_available() else torch.device("cpu")
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    restarts = int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0))

    torch.manual_seed(0)
    model, step = parallel(Model(options.layers, options.width).to(device), options.parallel, device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    state = State(model, optimizer)
    saved = last_saved(options.checkpoint)
    if saved is not None:
        checkpoints.load({"state": state}, checkpoint_id=saved)

    began = time.perf_counter()
    first = 0.0
    loss = torch.zeros(())
    for number in range(state.step, options.steps):
        if number == options.fail_at and rank == world - 1 and not restarts:
            os._exit(13)
        generator = torch.Generator().manual_seed(world * number + rank)
        tokens = torch.randint(TOKENS, (4, 33), generator=generator).to(device)
        logits = step(tokens[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        first = first or time.perf_counter() - began
        state.step = number + 1
        if options.checkpoint is not None and state.step % options.every == 0:
            checkpoints.save({"state": state}, checkpoint_id=options.checkpoint / f"step{state.step:06}")

    total = loss.detach().clone()
    dist.all_reduce(total)
    if rank == 0:
        print(f"{options.parallel} on {world} processes: step {state.step}, loss {total.item() / world:.4f}, "
              f"first step {first:.1f} s, restarts {restarts}", flush=True)
    dist.destroy_process_group()
    return 0


if __name__ == "__main__":
    sys.exit(main())
