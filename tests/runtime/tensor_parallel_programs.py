"""Training with parameters and activations spread over processes (`parallelize_module`), see `parallel_programs`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
import torch.distributed as dist
from tests.runtime.parallel_programs import GPT, WIDTH, Block, Run, loss, program
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
    loss_parallel,
    parallelize_module,
)


def mesh() -> DeviceMesh:
    """All processes in a row."""
    return init_device_mesh("cpu", (dist.get_world_size(),))


def spread(block: Block, where: DeviceMesh) -> None:
    """The linear layers of a block, by columns and by rows."""
    parallelize_module(block, where, {
        **{name: ColwiseParallel() for name in ("q", "k", "v", "up")},
        **{name: RowwiseParallel() for name in ("out", "down")}})


def spread_sequence(block: Block, where: DeviceMesh) -> None:
    """The same, and between them each process has a part of the sequence."""
    parallelize_module(block, where, {
        "before": SequenceParallel(), "behind": SequenceParallel(),
        **{name: ColwiseParallel(input_layouts=Shard(1)) for name in ("q", "k", "v", "up")},
        **{name: RowwiseParallel(output_layouts=Shard(1), use_local_output=False) for name in ("out", "down")}})


def spread_gpt(run: Run, whole_logits: bool = True) -> GPT:
    """A model with everything spread: tokens by rows of the table, blocks along the sequence, logits by columns."""
    model, where = run.gpt(), mesh()
    for block in model.blocks:
        spread_sequence(block, where)
    parallelize_module(model, where, {
        "tokens": RowwiseParallel(input_layouts=Replicate(), output_layouts=Shard(1), use_local_output=False),
        "norm": SequenceParallel(),
        "head": ColwiseParallel(input_layouts=Shard(1), output_layouts=Replicate() if whole_logits else Shard(-1),
                                use_local_output=whole_logits)})
    return model


@program
def tp_blocks(run: Run) -> Any:
    model, where = run.gpt(), mesh()
    for block in model.blocks:
        spread(block, where)
    run.compile_blocks(model, fullgraph=True)
    return run.train(model, shared=True)


@program
def tp_compiled_before(run: Run) -> Any:
    model, where = run.gpt(), mesh()
    run.compile_blocks(model, fullgraph=True)
    for block in model.blocks:
        spread(block, where)
    return run.train(model, shared=True)


@program
def tp_sequence(run: Run) -> Any:
    return run.train(run.compile(spread_gpt(run), fullgraph=True), shared=True)


@program
def tp_loss_parallel(run: Run) -> Any:
    where = mesh()

    def loss_of(model: Any, tokens: torch.Tensor) -> torch.Tensor:
        aim = DTensor.from_local(tokens.roll(-1, 1).flatten(), where, [Replicate()])
        return nn.functional.cross_entropy(model(tokens).flatten(0, 1), aim)

    @contextlib.contextmanager
    def before(at: int) -> Iterator[None]:
        with loss_parallel():
            yield

    return run.train(run.compile(spread_gpt(run, False), fullgraph=True), shared=True, loss_of=loss_of, before=before)


@program
def tp_whole_step(run: Run) -> Any:
    """The loss is computed inside."""
    return run.train(spread_gpt(run), shared=True, loss_of=run.compile(loss, fullgraph=True) if run.compiled else loss)


@program
def tp_checkpointing(run: Run) -> Any:
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

    model, where = run.gpt(), mesh()
    for at, block in enumerate(model.blocks):
        spread(block, where)
        model.blocks[at] = run.compile(checkpoint_wrapper(block))
    return run.train(model, shared=True)


@program
def tp_mixed_precision(run: Run) -> Any:
    model, where = run.gpt(), mesh()
    for block in model.blocks:
        spread(block, where)
    step = run.compile(model)

    def loss_of(model: Any, tokens: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return loss(step, tokens)

    run.allowed = 300  # sums are rounded to bfloat16: eager is as far from itself when it begins 1e-6 apart
    return run.train(model, shared=True, loss_of=loss_of)


@program
def tp_one_is_plain(run: Run) -> Any:
    """The first process compiles, the others do not."""
    model = spread_gpt(run)
    return run.train(run.compile(model) if run.rank == 0 else model, shared=True)


@program
def tp_accumulation(run: Run) -> Any:
    model = spread_gpt(run)
    return run.train(run.compile(model), shared=True, update=lambda at: at % 2 == 1)


class _Uneven(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 7), nn.Linear(7, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(self.up(x).relu())


@program
def tp_uneven(run: Run) -> Any:
    """Seven columns for two processes."""
    torch.manual_seed(0)
    module = parallelize_module(_Uneven(), mesh(), {
        "up": ColwiseParallel(use_local_output=False), "down": RowwiseParallel()})
    step = run.compile(module, fullgraph=True)
    optimizer = torch.optim.AdamW(module.parameters(), lr=0.01)
    for at in range(run.steps):
        torch.manual_seed(at)
        step(torch.randn(4, WIDTH)).square().mean().backward()
        run.noted.append([(p.grad.placements, p.grad.to_local().clone()) for p in module.parameters()])
        optimizer.step()
        optimizer.zero_grad()
    return [parameter.full_tensor().detach() for parameter in module.parameters()]


class _Layouts(nn.Module):
    """What parameters get as gradients lies otherwise than they do."""

    def __init__(self, where: DeviceMesh) -> None:
        super().__init__()
        self.rows = nn.Parameter(distribute_tensor(torch.randn(WIDTH, WIDTH), where, [Shard(0)]))
        self.columns = nn.Parameter(distribute_tensor(torch.randn(WIDTH, WIDTH), where, [Shard(1)]))
        self.whole = nn.Parameter(distribute_tensor(torch.randn(WIDTH), where, [Replicate()]))

    def forward(self, x: torch.Tensor) -> Any:
        where = self.rows.device_mesh
        spread = DTensor.from_local(x, where, [Replicate()])
        y = (spread @ self.rows + self.whole).relu() @ self.columns
        again = y.redistribute(placements=[Shard(0)])
        assert again.placements == (Shard(0),) and again.placements[0].dim == 0 and y.placements[0].is_shard(1)
        pending = DTensor.from_local(again.to_local().sum(0, keepdim=True), where, (Partial(),))
        return y.to_local().sum() / dist.get_world_size(), again.to_local(), pending.full_tensor(), y * 2


@program
def tp_layouts(run: Run) -> Any:
    torch.manual_seed(0)
    module = _Layouts(mesh())
    step = run.compile(module, fullgraph=True)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.0001)
    for at in range(run.steps):
        torch.manual_seed(at)
        x = torch.randn(4, WIDTH, requires_grad=True)
        one, part, whole, last = step(x)
        run.noted.append([type(last) is DTensor, last.placements, last.to_local().detach().clone(), last.device_mesh])
        total = last.redistribute(placements=[Replicate()]).to_local().sum()
        (one + part.square().sum() + whole.mean() + total).backward()
        run.noted.append([x.grad, *[(p.grad.placements, p.grad.to_local().clone()) for p in module.parameters()]])
        optimizer.step()
        optimizer.zero_grad()
    return [parameter.full_tensor().detach() for parameter in module.parameters()]


@program
def tp_in_flight(run: Run) -> Any:
    """What eager code hands over has not arrived, alone or inside of a tensor that is spread."""
    import torch.distributed._functional_collectives as collectives

    def given(x: torch.Tensor, spread: Any, weight: torch.Tensor) -> Any:
        x.mul_(2)
        return x @ weight, (spread.to_local() * 2) @ weight

    step = run.compile(given, fullgraph=True)
    for at in range(run.steps):
        torch.manual_seed(at)
        weight = torch.randn(WIDTH, WIDTH, requires_grad=True)
        x = collectives.all_reduce(torch.randn(4, WIDTH), "sum", dist.group.WORLD)
        part = DTensor.from_local(torch.randn(4, WIDTH), mesh(), [Partial()])
        results = step(x, part.redistribute(placements=[Replicate()], async_op=True), weight)
        sum(result.sum() for result in results).backward()
        run.noted.append([x + 0, weight.grad, *[result.detach() for result in results]])
        y = collectives.all_reduce(weight * at, "sum", dist.group.WORLD)
        moved = run.compile(torch.sin)(y)
        moved.sum().backward()
        run.noted.append([weight.grad, moved.detach()])
    return []


@program
def tp_rows_to_mask(run: Run) -> Any:
    """A table's rows of other processes are masked behind the graph; eager calls come between."""
    where = mesh()
    torch.manual_seed(0)
    module = nn.Embedding(8, WIDTH)
    module.weight = nn.Parameter(distribute_tensor(module.weight.detach(), where, [Shard(0)]))
    look_up = run.compile(module)
    for at in range(run.steps):
        tokens = DTensor.from_local(torch.arange(at, at + 4), where, [Replicate()])
        for way in (look_up, module, look_up):
            found = way(tokens).redistribute(placements=[Replicate()]).to_local()
            run.noted.append(found.detach() + 0)
            found.sum().backward()
            run.noted.append(module.weight.grad.full_tensor().clone())
    return []


@program
def tp_views_stay_as_they_are(run: Run) -> Any:
    """Eager refuses to change what `to_local` returns, since it is a view that autograd did not make."""
    where = mesh()

    def local(x: torch.Tensor) -> torch.Tensor:
        return DTensor.from_local(x, where, [Replicate()]).redistribute(placements=[Shard(0)]).to_local()

    part = run.compile(local, fullgraph=True)(torch.randn(4, WIDTH, requires_grad=True))
    try:
        part.add_(1)
    except RuntimeError as error:
        run.noted.append("is a view and is being modified inplace" in str(error))
    return part.detach().shape


@program
def tp_an_index_out_of_range(run: Run) -> Any:
    """The collective has begun: nothing runs a second time, in the one process where that fails."""
    where, table = mesh(), torch.arange(6.0)

    def look_up(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        whole = DTensor.from_local(x, where, [Shard(0)]).redistribute(placements=[Replicate()]).to_local()
        return whole + table[index]

    def handled(x: torch.Tensor) -> torch.Tensor:
        spread = DTensor.from_local(x, where, [Shard(0)])
        try:
            return (spread @ spread.t()).redistribute(placements=[Replicate()]).to_local()
        except RuntimeError:
            return x

    step, careful = run.compile(look_up), run.compile(handled)
    for at in range(run.steps + 2):
        try:
            last = 9 if at % 2 and run.rank == 0 else 3
            run.noted.append(step(torch.ones(2), torch.tensor([*[0, 1, 2] * run.world, last][-2 * run.world:])) + 0)
        except IndexError:
            run.noted.append("refused")
        run.noted.append(careful(torch.ones(2, 2)) + 0)
    return []


@program
def tp_module_layouts(run: Run) -> Any:
    """Layouts of whole modules' arguments and results."""
    torch.manual_seed(0)
    where, module = mesh(), nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh())
    parallelize_module(module, where, {"0": ColwiseParallel(use_local_output=False)})
    parallelize_module(module, where, PrepareModuleInput(
        input_layouts=(Shard(0),), desired_input_layouts=(Replicate(),), use_local_output=True))
    parallelize_module(module, where, PrepareModuleOutput(output_layouts=Shard(-1), desired_output_layouts=Shard(0)))
    step = run.compile(module)
    for at in range(run.steps):
        torch.manual_seed(10 * at + run.rank)
        result = step(torch.randn(2, WIDTH))
        result.square().sum().backward()
        run.noted += [result.detach(), *[p.grad.to_local().clone() for p in module.parameters()]]
    return []


@program
def tp_checkpoint(run: Run) -> Any:
    """What a compiled model saves is loaded into one that is not, with the same names."""
    import tempfile

    import torch.distributed.checkpoint as checkpoints

    model = spread_gpt(run)
    step = run.compile(model)
    run.train(step, shared=True)
    names: list[Any] = [tempfile.mkdtemp() if run.rank == 0 else ""]
    dist.broadcast_object_list(names, 0)
    saved = step.state_dict()
    checkpoints.save(saved, checkpoint_id=names[0])
    other = spread_gpt(run)
    state = other.state_dict()
    checkpoints.load(state, checkpoint_id=names[0])
    other.load_state_dict(state)
    run.noted.append(sorted(saved))
    return [parameter.full_tensor().detach() for parameter in other.parameters()]


class _Stage(nn.Module):
    """A part of a model, for one process of a pipeline."""

    def __init__(self, model: GPT, number: int) -> None:
        super().__init__()
        self.tokens = model.tokens if number == 0 else None
        self.block = model.blocks[number]
        self.norm, self.head = (model.norm, model.head) if number == 1 else (None, None)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.block(x if self.tokens is None else self.tokens(x))
        return x if self.head is None or self.norm is None else self.head(self.norm(x))


def _pipeline(run: Run, schedule_of: str) -> Any:
    from torch.distributed import pipelining

    module = _Stage(run.gpt(), run.rank)
    stage = pipelining.PipelineStage(run.compile(module), run.rank, run.world, torch.device("cpu"))

    def loss_of(logits: torch.Tensor, aim: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(logits.flatten(0, 1), aim.flatten())

    schedule = getattr(pipelining, schedule_of)(stage, n_microbatches=2, loss_fn=loss_of)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1, foreach=False)
    for at in range(run.steps):
        tokens = run.tokens(at, rows=4, shared=True)
        losses: list[Any] = []
        if run.rank == 0:
            schedule.step(tokens)
        else:
            schedule.step(target=tokens.roll(-1, 1), losses=losses)
        run.noted.append([value.detach() for value in losses])
        optimizer.step()
        optimizer.zero_grad()
    return [parameter.detach().clone() for parameter in module.parameters()]


@program
def pipeline_gpipe(run: Run) -> Any:
    return _pipeline(run, "ScheduleGPipe")


@program
def pipeline_1f1b(run: Run) -> Any:
    return _pipeline(run, "Schedule1F1B")
