"""Training programs for several processes, each run with modules as they are and with compiled ones.

A program is a function of `Run`: it makes a model, trains it for some steps, and returns what is to be equal in both
runs. What it compiles goes through `Run.compile`.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.nn.parallel import DistributedDataParallel

VOCABULARY = 32
WIDTH = 16
Body = Callable[["Run"], Any]


class Block(nn.Module):
    """One layer of a transformer with causal attention."""

    def __init__(self, width: int = WIDTH, heads: int = 2) -> None:
        super().__init__()
        self.size = width // heads
        self.before, self.behind = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q, self.k, self.v = (nn.Linear(width, width) for _ in range(3))
        self.out = nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Attention, then two linear layers."""
        y = self.before(x)
        q, k, v = (part(y).unflatten(-1, (-1, self.size)).transpose(1, 2) for part in (self.q, self.k, self.v))
        y = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.down(nn.functional.gelu(self.up(self.behind(x))))


class GPT(nn.Module):
    """A small language model."""

    def __init__(self, layers: int, width: int = WIDTH) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.blocks = nn.ModuleList([Block(width) for _ in range(layers)])
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, VOCABULARY, bias=False)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """The logits of the next token."""
        x = self.tokens(tokens)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


@dataclass
class Run:
    """One run of a program in one process."""

    compiled: bool
    steps: int
    rank: int = field(default_factory=dist.get_rank)
    world: int = field(default_factory=dist.get_world_size)
    noted: list[Any] = field(default_factory=list)
    """What is to be equal besides what the program returns."""
    allowed: float = 1.0
    """How much more may differ than is allowed for float32."""

    def compile(self, module: Any, **options: Any) -> Any:
        """The module, compiled in the compiled run."""
        if not self.compiled:
            return module
        import firesteel as fs

        return fs.compile(module, tier="wait", **options)

    def compile_blocks(self, model: GPT, **options: Any) -> None:
        """Compile each block for itself."""
        for at, block in enumerate(model.blocks):
            model.blocks[at] = self.compile(block, **options)

    def gpt(self, layers: int = 2, **where: Any) -> GPT:
        """The same model in all processes."""
        torch.manual_seed(0)
        with torch.device(where.get("device", "cpu")):
            model = GPT(layers)
        for block in model.blocks:
            block.size = WIDTH // max(2, self.world)  # each process has a head at least
        return model

    def tokens(self, step: int, rows: int = 2, shared: bool = False) -> torch.Tensor:
        """What this process trains on in a step; `shared`: all processes get the same."""
        generator = torch.Generator().manual_seed(1000 * step + (0 if shared else self.rank))
        return torch.randint(0, VOCABULARY, (rows, 8), generator=generator)

    def train(self, model: Any, *, shared: bool = False, loss_of: Any = None, before: Any = None,
              update: Callable[[int], bool] = lambda step: True) -> list[torch.Tensor]:
        """Train; the parameters then, whole."""
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, foreach=False)
        for step in range(self.steps):
            tokens = self.tokens(step, shared=shared)
            with before(step) if before is not None else contextlib.nullcontext():
                (loss_of or loss)(model, tokens).backward()
            if update(step):
                optimizer.step()
                optimizer.zero_grad()
        return whole(model)


def loss(model: Any, tokens: torch.Tensor) -> torch.Tensor:
    """Of predicting the next token."""
    logits = model(tokens)
    return nn.functional.cross_entropy(logits.flatten(0, 1).float(), tokens.roll(-1, 1).flatten())


def whole(model: nn.Module) -> list[torch.Tensor]:
    """All parameters, gathered."""
    return [getattr(parameter, "full_tensor", parameter.clone)().detach().cpu().clone()
            for parameter in model.parameters()]


@dataclass
class Outcome:
    """What came of a program in one process."""

    error: str = ""
    difference: float = 0.0
    entries: list[tuple[str, str]] = field(default_factory=list)
    """What was compiled: the function's name, and why its graph ends early."""
    recompiled: list[str] = field(default_factory=list)
    uncompiled: list[str] = field(default_factory=list)
    """Why graphs run operator by operator."""
    graph_runs: int = 0


def difference(one: Any, other: Any) -> float:
    """The largest difference of tensors in equal structures, in units of what is allowed for float32."""
    if isinstance(one, torch.Tensor):
        if not isinstance(other, torch.Tensor) or one.shape != other.shape or one.dtype is not other.dtype:
            return float("inf")
        if not one.numel():
            return 0.0
        error = (one.double() - other.double()).abs() / (1e-5 + 1e-4 * other.double().abs())
        return float(error.max())
    if isinstance(one, (list, tuple)):
        if len(one) != len(other):
            return float("inf")
        return max((difference(a, b) for a, b in zip(one, other, strict=True)), default=0.0)
    return 0.0 if one == other else float("inf")


@contextlib.contextmanager
def watched(outcome: Outcome) -> Iterator[None]:
    """Write down what is compiled."""
    from firesteel import events

    def listen(kind: str, unit: Any, what: Any) -> None:
        if kind == "compiled":
            outcome.entries.append((unit.name, "" if what.break_reason is None else what.break_reason.reason))
        elif kind == "recompiled":
            outcome.recompiled.append(f"{unit.name}: {what}")

    class Observer(events.Observer):
        def note(self, kind: str, /, **what: Any) -> None:
            if kind == "operator by operator":
                outcome.uncompiled.append(what["reason"])

    observer = Observer()
    events.LISTENERS.append(listen)
    events.OBSERVERS.append(observer)
    try:
        yield
    finally:
        events.LISTENERS.remove(listen)
        events.OBSERVERS.remove(observer)


def outcome_of(body: Body, steps: int) -> Outcome:
    """Run a program plain and compiled."""
    import firesteel as fs

    outcome = Outcome()
    try:
        plain = Run(False, steps)
        expected = body(plain)
        fs.reset()
        compiled = Run(True, steps)
        with watched(outcome):
            result = body(compiled)
        outcome.difference = difference([result, compiled.noted], [expected, plain.noted]) / compiled.allowed
        if not outcome.difference <= 1:
            outcome.error = f"differs by {outcome.difference:.3g} of what is allowed"
    except Exception:
        outcome.error = traceback.format_exc()
    return outcome


def _process(rank: int, world: int, port: int, names: Sequence[str], steps: int, results: Any) -> None:
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    import datetime

    dist.init_process_group("gloo", rank=rank, world_size=world, timeout=datetime.timedelta(seconds=60))
    import tests.runtime.tensor_parallel_programs  # noqa: F401 (more programs)

    import firesteel as fs

    fs.config.raise_on_internal_error = True
    for name in names:
        outcome = outcome_of(PROGRAMS[name], steps)
        results.put((rank, name, outcome))
        if outcome.error:
            print(name, outcome.error, file=sys.stderr)
            break  # the processes may have come apart
    else:
        dist.barrier()
    dist.destroy_process_group()


def run_processes(names: Sequence[str], world: int = 2, steps: int = 3) -> dict[str, list[Outcome]]:
    """What came of the programs in each process."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    results = mp.get_context("spawn").Queue()
    processes = mp.spawn(_process, (world, port, list(names), steps, results), nprocs=world, join=False)
    outcomes: dict[str, list[Outcome]] = {name: [] for name in names}
    try:
        while not processes.join(0.05):
            _collect(results, outcomes)
    finally:
        _collect(results, outcomes)
    return outcomes


def _collect(results: Any, outcomes: dict[str, list[Outcome]]) -> None:
    while not results.empty():
        _, name, outcome = results.get()
        outcomes[name].append(outcome)


PROGRAMS: dict[str, Body] = {}


def program(body: Body) -> Body:
    """Put a program into the table."""
    PROGRAMS[body.__name__] = body
    return body


def cpu_mesh() -> DeviceMesh:
    """The processes, each with its CPU; without it, what is sharded moves to GPUs where there are any."""
    return init_device_mesh("cpu", (dist.get_world_size(),))


def shard(model: GPT, **options: Any) -> GPT:
    """Shard each block, and the rest together."""
    from torch.distributed.fsdp import fully_shard

    where = cpu_mesh()
    for block in model.blocks:
        fully_shard(block, mesh=where, **options)
    return fully_shard(model, mesh=where, **options)


# DistributedDataParallel

@program
def ddp(run: Run) -> Any:
    return run.train(run.compile(DistributedDataParallel(run.gpt(), bucket_cap_mb=0.01)))


@program
def ddp_no_sync(run: Run) -> Any:
    model = DistributedDataParallel(run.gpt(), bucket_cap_mb=0.01)
    step = run.compile(model)
    return run.train(step, before=lambda at: model.no_sync() if at % 2 == 0 else contextlib.nullcontext(),
                     update=lambda at: at % 2 == 1)


class _Sometimes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.parts = nn.ModuleList([nn.Linear(WIDTH, WIDTH) for _ in range(3)])
        self.step = 0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.parts[0](x) + self.parts[1 + self.step % 2](x)


@program
def ddp_unused(run: Run) -> Any:
    torch.manual_seed(0)
    module = _Sometimes()
    model = run.compile(DistributedDataParallel(module, find_unused_parameters=True))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(run.steps):
        module.step = step
        torch.manual_seed(10 * step + run.rank)
        model(torch.randn(4, WIDTH)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return whole(model)


# fully_shard

@program
def fsdp_compiled_before(run: Run) -> Any:
    model = run.gpt()
    run.compile_blocks(model)
    return run.train(shard(model))


@program
def fsdp_compiled_behind(run: Run) -> Any:
    model = shard(run.gpt())
    run.compile_blocks(model, fullgraph=True)
    return run.train(model)


@program
def fsdp_compiled_behind_order(run: Run) -> Any:
    """Blocks that are compiled once they are sharded are no roots of their own."""
    model = shard(run.gpt())
    run.compile_blocks(model)
    return _noting_order(run, model, names=False)


@program
def fsdp_module_compile(run: Run) -> Any:
    import firesteel as fs

    model = run.gpt()
    fs.config.compile_after, before = 0.0, fs.config.compile_after
    try:
        if run.compiled:
            fs.install()
            for block in model.blocks:
                block.compile()
        return run.train(shard(model))
    finally:
        fs.config.compile_after = before
        if run.compiled:
            fs.uninstall()


@program
def fsdp_whole(run: Run) -> Any:
    return run.train(run.compile(shard(run.gpt())))


@program
def fsdp_no_reshard(run: Run) -> Any:
    model = shard(run.gpt(), reshard_after_forward=False)
    run.compile_blocks(model)
    return run.train(model)


@program
def fsdp_mixed_precision(run: Run) -> Any:
    from torch.distributed.fsdp import MixedPrecisionPolicy

    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    model = shard(run.gpt(), mp_policy=policy)
    run.compile_blocks(model)
    run.allowed = 300  # sums are rounded to bfloat16: eager is as far from itself when it begins 1e-6 apart
    return run.train(model)


@program
def fsdp_offload(run: Run) -> Any:
    from torch.distributed.fsdp import CPUOffloadPolicy

    model = shard(run.gpt(), offload_policy=CPUOffloadPolicy(pin_memory=False))
    run.compile_blocks(model)
    return run.train(model)


@program
def fsdp_meta(run: Run) -> Any:
    source = run.gpt().state_dict()
    model = shard(run.gpt(device="meta"))
    run.compile_blocks(model)
    model.to_empty(device="cpu")
    from torch.distributed.checkpoint.state_dict import StateDictOptions, set_model_state_dict

    set_model_state_dict(model, source, options=StateDictOptions(full_state_dict=True))
    return run.train(model)


@program
def fsdp_accumulation(run: Run) -> Any:
    model = shard(run.gpt())
    step = run.compile(model)

    @contextlib.contextmanager
    def before(at: int) -> Iterator[None]:
        model.set_requires_gradient_sync(at % 2 == 1)
        yield

    return run.train(step, before=before, update=lambda at: at % 2 == 1)


def _checkpointed(run: Run, wrap_first: bool, reentrant: bool = False) -> Any:
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import CheckpointImpl, checkpoint_wrapper

    model = run.gpt()
    how = CheckpointImpl.REENTRANT if reentrant else CheckpointImpl.NO_REENTRANT
    for at, block in enumerate(model.blocks):
        model.blocks[at] = checkpoint_wrapper(block, checkpoint_impl=how)
        if not wrap_first:
            model.blocks[at] = run.compile(model.blocks[at])
    shard(model)
    return run.train(run.compile(model) if wrap_first else model)


@program
def fsdp_checkpointing(run: Run) -> Any:
    return _checkpointed(run, True)


@program
def fsdp_checkpointing_compiled_blocks(run: Run) -> Any:
    return _checkpointed(run, False)


@program
def fsdp_checkpointing_reentrant(run: Run) -> Any:
    return _checkpointed(run, True, True)


@program
def fsdp_checkpoint_around(run: Run) -> Any:
    """torch.utils.checkpoint of the call of a sharded block."""
    from torch.utils.checkpoint import checkpoint

    class Around(GPT):
        def forward(self, tokens: torch.Tensor) -> torch.Tensor:
            x = self.tokens(tokens)
            for block in self.blocks:
                x = checkpoint(block, x, use_reentrant=False)
            return self.head(self.norm(x))

    torch.manual_seed(0)
    return run.train(run.compile(shard(Around(2))))


@program
def fsdp_prefetch(run: Run) -> Any:
    model = shard(run.gpt(3))
    model.set_modules_to_forward_prefetch([model.blocks[0]])
    model.blocks[0].set_modules_to_forward_prefetch([model.blocks[1]])
    model.blocks[2].set_modules_to_backward_prefetch([model.blocks[1], model.blocks[0]])
    return run.train(run.compile(model))


@program
def fsdp_group(run: Run) -> Any:
    """Several modules that are gathered together."""
    from torch.distributed.fsdp import fully_shard

    model = run.gpt()
    fully_shard([model.norm, model.head], mesh=cpu_mesh())
    return run.train(run.compile(shard(model)))


@program
def fsdp_frozen(run: Run) -> Any:
    model = run.gpt()
    model.tokens.requires_grad_(False)
    for parameter in model.blocks[0].parameters():
        parameter.requires_grad_(False)
    shard(model)
    run.compile_blocks(model)
    return run.train(model)


@program
def fsdp_evaluation(run: Run) -> Any:
    """Evaluated between steps, and run twice before backward."""
    model = shard(run.gpt())
    step = run.compile(model)
    with torch.no_grad():
        run.noted.append(step(run.tokens(7)).clone())
    result = run.train(step, loss_of=lambda model, tokens: loss(model, tokens) + loss(model, tokens.flip(1)))
    with torch.no_grad():
        run.noted.append(step(run.tokens(8)).clone())
    return result


@program
def fsdp_state_dict(run: Run) -> Any:
    model = shard(run.gpt())
    step = run.compile(model)
    run.train(step)
    state = step.state_dict()
    run.noted.append(sorted(state))
    run.noted.append([type(value).__name__ for value in state.values()])
    again = shard(run.gpt())
    other = run.compile(again)
    other.load_state_dict(state)
    return run.train(other)


@program
def fsdp_hooks(run: Run) -> Any:
    """Hooks of the program's own beside those of `fully_shard`."""
    model = run.gpt()
    seen: list[str] = []
    block = model.blocks[0]
    block.register_forward_pre_hook(lambda module, args: (args[0] * 2,))
    shard(model)
    block.register_forward_hook(lambda module, args, result: result + 1)
    block.register_full_backward_hook(lambda module, inputs, outputs: seen.append("backward"))
    run.compile_blocks(model)
    result = run.train(model)
    run.noted.append(seen)
    return result


def _noting_order(run: Run, model: Any, names: bool = True) -> Any:
    from torch.distributed.fsdp._fully_shard._fsdp_param_group import FSDPParamGroup

    kept = {}

    def noting(name: str, method: Any) -> Any:
        def noted(group: Any, *args: Any, **kwargs: Any) -> Any:
            result = method(group, *args, **kwargs)
            sizes = [tensor.untyped_storage().nbytes() for parameter in group.fsdp_params
                     for tensor in parameter.all_gather_outputs]
            run.noted.append((name, group._module_fqn if names else "", sizes))
            return result
        return noted

    for name in ("unshard", "wait_for_unshard", "reshard", "pre_backward", "post_backward"):
        kept[name] = getattr(FSDPParamGroup, name)
        setattr(FSDPParamGroup, name, noting(name, kept[name]))
    try:
        return run.train(model)
    finally:
        for name, method in kept.items():
            setattr(FSDPParamGroup, name, method)


@program
def fsdp_order(run: Run) -> Any:
    """What FSDP does, in which order, and how large its parameters are then."""
    return _noting_order(run, run.compile(shard(run.gpt(3))))


@program
def fsdp1(run: Run) -> Any:
    from torch.distributed.fsdp import FullyShardedDataParallel

    model = run.gpt()
    for at, block in enumerate(model.blocks):
        model.blocks[at] = FullyShardedDataParallel(block, use_orig_params=True, device_id=torch.device("cpu"))
    sharded = FullyShardedDataParallel(model, use_orig_params=True, device_id=torch.device("cpu"))
    step = run.compile(sharded)
    optimizer = torch.optim.SGD(sharded.parameters(), lr=0.1)
    losses = []
    for at in range(run.steps):
        result = loss(step, run.tokens(at))
        result.backward()
        losses.append(result.detach())
        optimizer.step()
        optimizer.zero_grad()
    return losses
