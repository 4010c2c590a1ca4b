"""Random training in several processes, each of which is disturbed on its own: late, with breaks, recompiled, killed.

    processes.call("process_soak", "train", seed, None)     # whether parameters are those of plain training
    processes.call("process_soak", "train", seed, 1)        # the second process dies on the way

What is trained, and how it is compiled, follows from the seed and is the same in all processes. Each of them draws for
itself when it is late, where its graphs break, when its batches have another size, and when it forgets all that it has
compiled. None of that may change what is computed, nor have a process wait for ever.
"""

from __future__ import annotations

import os
import random
import signal
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from tests.runtime.parallel_programs import GPT, difference, loss, shard, whole
from tests.runtime.tensor_parallel_programs import mesh, spread, spread_sequence
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import firesteel as fs
import process_group

STEPS = 5
PATIENCE = 300.0
LAYERS = 2


@dataclass
class Disturbance:
    """What happens to one process in one step."""

    pause: float = 0.0
    pause_at: int = -1
    break_at: int = -1
    rows: int = 2
    forget: bool = False
    die_at: int = -1


@dataclass
class Plan:
    """A program: what is trained, how it is compiled, and what happens to this process."""

    kind: str
    style: str
    options: dict[str, Any]
    steps: list[Disturbance] = field(default_factory=list)


KINDS: dict[str, tuple[str, ...]] = {
    "ddp": ("outside", "inside", "no_sync"), "fsdp": ("blocks", "whole"), "tp": ("blocks", "whole"),
    "sequence": ("whole",), "collectives": ("whole",),
}


def draw(seed: int, rank: int, world: int, dying: int | None) -> Plan:
    """The program of a seed, as one process sees it."""
    shared, own = random.Random(seed), random.Random(f"{seed} of {rank}")
    kind = shared.choice(sorted(KINDS))
    options: dict[str, Any] = shared.choice([{}, {"tier": "wait"}, {"dynamic": True}, {"backend": "aot_eager"}])
    plan = Plan(kind, shared.choice(KINDS[kind]), options)
    last = shared.randrange(STEPS)
    for step in range(STEPS):
        here = Disturbance()
        if own.random() < 0.4:
            here.pause, here.pause_at = own.choice([0.005, 0.03, 0.1]), own.randrange(LAYERS)
        if own.random() < 0.4:
            here.break_at = own.randrange(LAYERS)
        if kind in ("ddp", "fsdp") and own.random() < 0.3:
            here.rows = own.choice([1, 3, 4])
        here.forget = own.random() < 0.1
        if dying == rank and step == last:
            here.die_at = own.randrange(LAYERS)
        plan.steps.append(here)
    return plan


class Disturbed(GPT):
    """A model that is disturbed between its layers."""

    now = Disturbance()

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """The logits of the next token."""
        x = self.tokens(tokens)
        for at, block in enumerate(self.blocks):
            if self.now.break_at == at:
                fs.graph_break()
            if self.now.pause_at == at or self.now.die_at == at:
                stop(self.now)
            x = block(x)
        return self.head(self.norm(x))


class Summed(Disturbed):
    """A model whose layers' results are averaged over all processes."""

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """The logits of the next token."""
        import torch.distributed._functional_collectives as collectives

        logits = super().forward(tokens)
        x = collectives.all_reduce(logits.sin(), "sum", dist.group.WORLD) / dist.get_world_size()
        return logits + collectives.all_gather_tensor(x, 0, dist.group.WORLD).sum(0)


@fs.disable
def stop(now: Disturbance) -> None:
    """Be late, or never come back."""
    if now.die_at >= 0:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(now.pause)


def make(plan: Plan, compiled: bool) -> tuple[nn.Module, Callable[..., Any]]:
    """A model, and what is called to train it."""
    torch.manual_seed(0)
    model: Any = (Summed if plan.kind == "collectives" else Disturbed)(LAYERS)
    for block in model.blocks:
        block.size = model.tokens.embedding_dim // 4  # heads for up to four processes

    def way(module: Any) -> Any:
        return fs.compile(module, **plan.options) if compiled else module

    if plan.kind in ("tp", "sequence"):
        for block in model.blocks:
            (spread if plan.kind == "tp" else _spread_sequence)(block, mesh())
    if plan.kind == "ddp":
        inside = plan.style == "inside"
        wrapper = DistributedDataParallel(way(model) if inside else model, bucket_cap_mb=0.01)
        return model, wrapper if inside else way(wrapper)
    if plan.kind == "fsdp":
        shard(model)
    if plan.style == "blocks":
        for at, block in enumerate(model.blocks):
            model.blocks[at] = way(block)
        return model, model
    return model, way(model)


def _spread_sequence(block: Any, where: Any) -> None:
    """Layers along the sequence, with plain tensors around the block."""
    from torch.distributed.tensor import Replicate, Shard
    from torch.distributed.tensor.parallel import PrepareModuleInput, PrepareModuleOutput, parallelize_module

    spread_sequence(block, where)
    parallelize_module(block, where, PrepareModuleInput(
        input_layouts=(Replicate(),), desired_input_layouts=(Shard(1),)))
    parallelize_module(block, where, PrepareModuleOutput(
        output_layouts=(Shard(1),), desired_output_layouts=(Replicate(),)))


def _train(plan: Plan, compiled: bool, rank: int, seed: int) -> list[torch.Tensor]:
    model, step = make(plan, compiled)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, foreach=False)
    for number, now in enumerate(plan.steps):
        if compiled and now.forget:
            fs.reset()
        model.now = now if compiled else Disturbance()
        own = 0 if plan.kind in ("tp", "sequence") else 1000 * rank
        generator = torch.Generator().manual_seed(97 * seed + number + own)
        tokens = torch.randint(0, 32, (now.rows, 8), generator=generator)
        if plan.style == "no_sync" and number % 2 == 0 and number + 1 < STEPS:
            with step.no_sync():  # type: ignore[attr-defined]
                loss(step, tokens).backward()
            continue
        loss(step, tokens).backward()
        optimizer.step()
        optimizer.zero_grad()
    return whole(model)


def train(rank: int, seed: int, dying: int | None) -> str:
    """Train plain, then compiled and disturbed. What went wrong, "" for nothing."""
    warnings.simplefilter("ignore")
    plan = draw(seed, rank, dist.get_world_size(), dying)
    fs.reset()
    expected = [] if dying is not None else _train(plan, False, rank, seed)
    try:
        result = _train(plan, True, rank, seed)
    except Exception as error:
        if dying is None:
            raise
        return f"{type(error).__name__}: {str(error).splitlines()[0]}"
    if dying is not None:
        return ""
    apart = difference(result, expected)
    return "" if apart <= 1 else f"{plan.kind} {plan.style} {plan.options}: {apart:.3g} of what is allowed"


def killed(seed: int, count: int, rank: int) -> str:
    """A run in which one process dies: "" if all others raise an error in time."""
    processes = process_group.Processes(count)
    try:
        for connection in processes.connections:
            connection.send(("process_soak", "train", (seed, rank)))
        for other, connection in enumerate(processes.connections):
            if not connection.poll(PATIENCE):
                return f"process {other} waits for ever"
            try:
                fine, answer = process_group.read(connection)
            except EOFError:
                if other != rank:
                    return f"process {other} ended"
                continue
            if not fine or not answer:
                return f"process {other}: {answer or 'went on as if nothing had happened'}"
        return ""
    finally:
        processes.kill()
