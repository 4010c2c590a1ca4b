"""Random programs that train in several processes: what is trained, how it is spread, compiled and stepped.

    processes.call("random_training", "compare", seed)      # what differs from plain training, in each process

The model, the wrapper and the loop follow from the seed and are the same in all processes. Data, the number of rows of
a batch and, where that changes nothing, how a process compiles follow from its rank too. A program runs plain, and then
compiled; losses, gradients, parameters, buffers, random numbers drawn and errors have to be the same.
"""

from __future__ import annotations

import contextlib
import random
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import firesteel as fs
from random_models import WIDTH, Model, draw_model

Step = Callable[..., Any]
_ADDRESS = re.compile(r"0x[0-9a-f]+")


@dataclass
class Program:
    """What is drawn once for all processes."""

    seed: int
    kind: str
    parts: list[tuple[str, dict[str, Any]]]
    wrapper: dict[str, Any] = field(default_factory=dict)
    style: str = "outside"
    compiling: dict[str, Any] = field(default_factory=dict)
    rows: list[list[int]] = field(default_factory=list)
    """Of each step, for each rank."""
    loop: dict[str, Any] = field(default_factory=dict)
    alone: int | None = None
    """The process that compiles while the others do not."""

    def __str__(self) -> str:
        parts = " ".join(name + (str(options) if options else "") for name, options in self.parts)
        return (f"{self.kind}({self.wrapper}) {self.style} {self.compiling} alone={self.alone}\n  {parts}\n"
                f"  {self.loop} rows={self.rows}")


KINDS = {"ddp": 5, "fsdp": 4, "tp": 2, "plain": 1, "both": 2}


def draw(seed: int, world: int) -> Program:
    """The program of a seed."""
    dice = random.Random(f"training {seed}")
    kind = dice.choices(list(KINDS), list(KINDS.values()))[0]
    program = Program(seed, kind, draw_model(dice, kind))
    if kind == "ddp":
        program.style = dice.choice(["outside", "inside", "loss", "blocks", "step"])
        if dice.random() < 0.7:
            program.wrapper["bucket_cap_mb"] = dice.choice([0.001, 0.003, 0.01])
        unused = any(name == "sometimes" for name, _ in program.parts)
        for name, chance in (("find_unused_parameters", 0.9 if unused else 0.2), ("gradient_as_bucket_view", 0.4),
                             ("static_graph", 0.0 if unused else 0.15), ("hook", 0.25)):
            if dice.random() < chance:
                program.wrapper[name] = True
    elif kind in ("fsdp", "both"):
        program.style = dice.choice(["outside", "blocks", "before", "loss"])
        program.wrapper["reshard_after_forward"] = dice.choice([True, False])
        if kind == "fsdp" and dice.random() < 0.25:
            program.wrapper["precision"] = dice.choice(["bfloat16", "cast"])
        if dice.random() < 0.2:
            program.wrapper["offload"] = True
    else:
        program.style = dice.choice(["outside", "blocks", "loss"])
    program.compiling = dict(dice.choice([
        {"tier": "wait"}, {}, {"dynamic": True, "tier": "wait"}, {"dynamic": False}, {"backend": "aot_eager"},
        {"mode": "reduce-overhead"}, {"recompile_limit": 2}]))
    if dice.random() < 0.2:
        program.alone = dice.randrange(world)
    _draw_loop(program, dice, world)
    return program


def _draw_loop(program: Program, dice: random.Random, world: int) -> None:
    steps, rows = dice.randrange(3, 6), dice.choice([2, 3, 4])
    for _ in range(steps):
        program.rows.append([rows] * world)
    if dice.random() < 0.4 and program.kind in ("ddp", "fsdp", "plain"):
        program.rows[-1] = [dice.choice([1, rows, rows + 1]) for _ in range(world)]  # the last batch
    if dice.random() < 0.3 and program.kind in ("ddp", "fsdp", "plain"):
        program.rows[dice.randrange(steps)][dice.randrange(world)] = dice.choice([2, 5])
    loop = program.loop
    loop["gives"] = dice.choice(["tensor", "tensor", "pair", "dict"])
    loop["optimizer"] = dice.choice(["SGD", "momentum", "AdamW", "foreach", "fused"])
    accumulates = program.kind in ("ddp", "fsdp") and not program.wrapper.get("static_graph")
    for name, chance in (("accumulate", 0.3 if accumulates else 0), ("clip", 0.25), ("autocast", 0.15),
                         ("evaluate", 0.3), ("keep_gradients", 0.2), ("twice", 0.1), ("compiled_optimizer", 0.2),
                         ("hooks", 0.2), ("reload", 0.1), ("checkpoint_around", 0.1), ("retain", 0.1),
                         ("sums", 0.1), ("agree", 0.25)):
        if dice.random() < chance:
            loop[name] = True


def compare(rank: int, seed: int) -> str:
    """What differs between plain and compiled training, "" for nothing."""
    warnings.simplefilter("ignore")
    program = draw(seed, dist.get_world_size())
    fs.reset()
    fs.config.raise_on_internal_error = True
    expected = Run(program, rank, False).all()
    with fs.config.patch(agree_across_ranks=bool(program.loop.get("agree")), agree_wait=1.0):
        result = Run(program, rank, True).all()
    allowed = 1.0
    if program.loop.get("autocast") or program.wrapper.get("precision"):
        allowed = 3000.0  # sums are rounded to bfloat16
    for (name, one), (other_name, other) in zip(expected, result, strict=False):
        if name != other_name:
            return f"{name} {one!r} became {other_name} {other!r}"[:3000]
        problem = differs(one, other, allowed)
        if problem:
            return f"{name}: {problem}"[:3000]
    if len(expected) != len(result):
        return f"{len(expected)} notes became {len(result)}: {[*expected, *result][-1][0]}"
    return ""


def differs(one: Any, other: Any, allowed: float) -> str:
    """How two values of equal structures differ, "" for not."""
    if type(one) is not type(other):
        return f"{one!r} became {other!r}"
    if isinstance(one, torch.Tensor):
        if (one.shape, one.dtype, one.stride(), one.requires_grad) != \
                (other.shape, other.dtype, other.stride(), other.requires_grad):
            return f"{_layout(one)} became {_layout(other)}"
        if not one.numel():
            return ""
        if not one.is_floating_point():
            return "" if torch.equal(one, other) else f"{one} became {other}"
        error = (one.double() - other.double()).abs() / (allowed * (1e-5 + 1e-4 * one.double().abs()))
        error = error.masked_fill(one.isnan() & other.isnan(), 0)
        return "" if bool((error <= 1).all()) else f"apart by {float(error.max()):.3g} of what is allowed"
    if isinstance(one, (list, tuple)):
        if len(one) != len(other):
            return f"{one!r} became {other!r}"
        return next((f"{at}: {problem}" for at, (a, b) in enumerate(zip(one, other, strict=True))
                     if (problem := differs(a, b, allowed))), "")
    return "" if one == other else f"{one!r} became {other!r}"


def _layout(tensor: torch.Tensor) -> str:
    grad = " with grad" if tensor.requires_grad else ""
    return f"{tensor.dtype} {tuple(tensor.shape)} strided {tensor.stride()}{grad}"


def _local(tensor: Any) -> Any:
    """A copy of the part of a tensor that this process has, with the same strides."""
    if tensor is None:
        return None
    tensor = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    tensor = tensor.detach()
    return tensor.clone(memory_format=torch.preserve_format)


class Run:
    """One run of a program in one process, and what it notes."""

    def __init__(self, program: Program, rank: int, compiled: bool) -> None:
        self.program, self.rank = program, rank
        self.compiled = compiled and program.alone in (None, rank)
        self.notes: list[tuple[str, Any]] = []

    def all(self) -> list[tuple[str, Any]]:
        """The notes. An error is the last one."""
        try:
            self.train()
        except Exception as error:
            text = _ADDRESS.sub("0x", str(error)).partition("\nfiresteel: ")[0]
            self.notes.append(("error", f"{type(error).__name__}: {text}"))
        return self.notes

    def way(self, target: Any, **options: Any) -> Any:
        """The target, compiled in the compiled run."""
        return fs.compile(target, **{**self.program.compiling, **options}) if self.compiled else target

    def make(self) -> tuple[Model, Any]:
        """The model itself, and what is called to train it."""
        program = self.program
        torch.manual_seed(program.seed)
        model = Model(program.parts, program.loop["gives"])
        if program.style == "before":
            self._compile_blocks(model)
        if program.kind in ("tp", "both"):
            self._spread(model)
        if program.kind in ("fsdp", "both"):
            self._shard(model)
        if program.style == "blocks":
            self._compile_blocks(model)
        target: Any = model
        if program.kind == "ddp":
            options = {name: value for name, value in program.wrapper.items() if name != "hook"}
            target = DistributedDataParallel(self.way(model) if program.style == "inside" else model, **options)
            if program.wrapper.get("hook"):
                from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

                target.register_comm_hook(None, allreduce_hook)
        if program.style == "outside":
            target = self.way(target)
        return model, target

    def _compile_blocks(self, model: Model) -> None:
        for at, block in enumerate(model.blocks):
            model.blocks[at] = self.way(block)

    def _spread(self, model: Model) -> None:
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor.parallel import parallelize_module

        self.mesh = init_device_mesh("cpu", _shape(dist.get_world_size()) if self.program.kind == "both" else
                                     (dist.get_world_size(),), mesh_dim_names=("outer", "inner")
                                     if self.program.kind == "both" else ("inner",))
        for block in model.blocks:
            plan = block.parallel_plan()
            if plan:
                parallelize_module(block, self.mesh["inner"], plan)

    def _shard(self, model: Model) -> None:
        from torch.distributed.fsdp import CPUOffloadPolicy, MixedPrecisionPolicy, fully_shard

        wrapper = self.program.wrapper
        options: dict[str, Any] = {"reshard_after_forward": wrapper["reshard_after_forward"]}
        if "precision" in wrapper:
            options["mp_policy"] = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32,
                                                        output_dtype=torch.float32) \
                if wrapper["precision"] == "cast" else MixedPrecisionPolicy(param_dtype=torch.bfloat16)
        if wrapper.get("offload"):
            options["offload_policy"] = CPUOffloadPolicy(pin_memory=False)
        if self.program.kind == "both":
            options["mesh"] = self.mesh["outer"]
        for block in model.blocks:
            if any(True for _ in block.parameters()):
                fully_shard(block, **options)
        fully_shard(model, **options)

    def optimizer(self, model: nn.Module) -> torch.optim.Optimizer:
        """The optimizer of the program."""
        parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
        name = self.program.loop["optimizer"]
        if name == "AdamW":
            return torch.optim.AdamW(parameters, lr=0.01, eps=0.01)  # some gradients are nothing but noise
        if name == "momentum":
            return torch.optim.SGD(parameters, lr=0.05, momentum=0.9)
        options = {"foreach": True} if name == "foreach" else {"foreach": False}
        if name == "fused" and self.program.kind in ("ddp", "plain"):
            options = {"fused": True}
        return torch.optim.SGD(parameters, lr=0.05, **options)

    def batch(self, number: int) -> tuple[torch.Tensor, torch.Tensor]:
        """What this process trains on in a step."""
        program = self.program
        own = 0 if program.kind in ("tp", "both") else self.rank
        generator = torch.Generator().manual_seed(1000 * program.seed + 10 * number + own)
        rows = program.rows[number][self.rank]
        return (torch.randn(rows, 6, WIDTH, generator=generator), torch.randn(rows, 6, WIDTH, generator=generator))

    def train(self) -> None:
        """Train as the loop of the program says."""
        loop = self.program.loop
        model, target = self.make()
        optimizer = self.optimizer(model)
        update: Step = optimizer.step
        if loop.get("compiled_optimizer"):
            update = self.way(lambda: optimizer.step())
        if loop.get("hooks"):
            self._hook(model)
        loss_of = self.way(_loss) if self.program.style == "loss" else _loss
        if self.program.style == "step":
            loss_of = self.way(_forward_and_backward)
        last = len(self.program.rows) - 1
        for number in range(len(self.program.rows)):
            model.number = number
            x, aim = self.batch(number)
            synchronises = not loop.get("accumulate") or number % 2 == 1 or number == last
            with self._synchronising(target, model, synchronises):
                self._step(loss_of, target, x, aim)
            if not synchronises:
                continue
            if loop.get("clip"):
                total = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
                self.notes.append((f"norm {number}", _local(getattr(total, "full_tensor", lambda: total)())))
            self.notes.append((f"gradients {number}", [_local(parameter.grad) for parameter in model.parameters()]))
            update()
            optimizer.zero_grad(set_to_none=not loop.get("keep_gradients"))
            self.notes.append((f"parameters {number}", [_local(p) for p in model.parameters()]))
            self.notes.append((f"buffers {number}", [_local(buffer) for buffer in model.buffers()]))
            if loop.get("evaluate") and number % 2 == 0:
                self._evaluate(model, target, x)
            if loop.get("reload") and number == 1:
                model.load_state_dict(model.state_dict())
            self.notes.append((f"random numbers {number}", torch.rand(2)))
        self.notes.append(("counters", [block.noted for block in model.blocks]))

    def _step(self, loss_of: Step, target: Any, x: torch.Tensor, aim: torch.Tensor) -> None:
        loop = self.program.loop
        with torch.autocast("cpu", torch.bfloat16) if loop.get("autocast") else contextlib.nullcontext():
            if loop.get("checkpoint_around"):
                from torch.utils.checkpoint import checkpoint

                x.requires_grad_()
                loss = checkpoint(loss_of, target, x, aim, use_reentrant=False)
            else:
                loss = loss_of(target, x, aim)
            if loop.get("twice") and self.program.kind != "ddp":
                loss = loss + loss_of(target, x.flip(0), aim)
        self.notes.append(("loss", _local(loss)))
        if self.program.style == "step":
            return
        if loop.get("retain") and self.program.kind == "plain":
            loss.backward(retain_graph=True)
        if loop.get("sums"):
            dist.all_reduce(loss.detach())
            self.notes.append(("sum", _local(loss)))
        loss.backward()

    def _evaluate(self, model: Model, target: Any, x: torch.Tensor) -> None:
        model.eval()
        with torch.no_grad():
            result = target(x)
            result = [result["result"], *result["more"]] if isinstance(result, dict) else result
            self.notes.append(("evaluated", [_local(item) for item in result] if isinstance(result, (list, tuple))
                               else _local(result)))
        model.train()

    def _hook(self, model: Model) -> None:
        def noting(name: str) -> Callable[..., None]:
            def note(parameter: torch.Tensor) -> None:
                self.notes.append((f"gradient of {name} is there", None if parameter.grad is None else
                                   tuple(parameter.grad.shape)))
            return note

        # the order of other gradients differs between stages of backward: one is looked at
        for name, parameter in list(model.named_parameters())[:1]:
            parameter.register_post_accumulate_grad_hook(noting(name))

    @contextlib.contextmanager
    def _synchronising(self, target: Any, model: Model, synchronises: bool) -> Iterator[None]:
        if self.program.kind == "fsdp":
            model.set_requires_gradient_sync(synchronises)  # type: ignore[operator]
            yield
        elif synchronises or self.program.kind != "ddp":
            yield
        else:
            with target.no_sync():
                yield


def _shape(world: int) -> tuple[int, int]:
    """A mesh of two dimensions."""
    return (2, world // 2) if world > 3 else (1, world)


def _loss(model: Any, x: torch.Tensor, aim: torch.Tensor) -> torch.Tensor:
    y = model(x)
    y = y["result"] if isinstance(y, dict) else y[0] if isinstance(y, tuple) else y
    return nn.functional.mse_loss(y.float(), aim)


def _forward_and_backward(model: Any, x: torch.Tensor, aim: torch.Tensor) -> torch.Tensor:
    loss = _loss(model, x, aim)
    loss.backward()
    return loss.detach()
