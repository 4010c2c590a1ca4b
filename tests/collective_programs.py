"""Programs with collectives, and how they are compared with eager in each of several processes."""

from __future__ import annotations

import datetime
import functools
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed._functional_collectives as fc
import torch.nn.functional as F
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

import firesteel as fs
from firesteel.torch_compat.dynamo_imports import neutralise_dynamo_imports

neutralise_dynamo_imports()  # the first compilation is too late: what runs plain before it may import torch's compiler
PROGRAMS: dict[str, Callable[..., Any]] = {}
"""Programs of two matrices with eight rows and columns, which differ from process to process."""
WITHOUT_GRADIENTS: set[str] = set()
"""Those that write past autograd."""


def program(function: Callable[..., Any]) -> Callable[..., Any]:
    """Registers a program."""
    PROGRAMS[function.__name__] = function
    return function


def writes(function: Callable[..., Any]) -> Callable[..., Any]:
    """Registers a program that writes to what it is given or has made."""
    WITHOUT_GRADIENTS.add(function.__name__)
    return program(function)


@functools.cache
def everybody() -> Any:
    """A group beside the default one."""
    return dist.new_group(list(range(dist.get_world_size())))


@functools.cache
def mesh() -> DeviceMesh:
    """A mesh of two dimensions."""
    return init_device_mesh("cpu", (1, dist.get_world_size()), mesh_dim_names=("outer", "inner"))


# collectives that write to what they are given


@writes
def all_reduce(x, y):
    z = x * 2
    dist.all_reduce(z)
    return z + y


@writes
def all_reduce_argument(x, y):
    dist.all_reduce(x, op=dist.ReduceOp.MAX)
    return x.exp() + y


@writes
def all_reduce_in_steps(x, y):
    for step in range(3):
        dist.all_reduce(x)
        x /= dist.get_world_size() + step
    return x - y


@writes
def all_reduce_async(x, y):
    work = dist.all_reduce(x, async_op=True)
    z = (y @ y).relu()
    work.wait()
    return x + z


@writes
def several_in_flight(x, y):
    parts = [x[:4].clone(), x[4:].clone(), y * 2]
    works = [dist.all_reduce(part, async_op=True) for part in parts]
    z = (x @ y).softmax(-1)
    for work in works:
        work.wait()
    return [part.sin() for part in parts], z


@writes
def gather(x, y):
    whole = x.new_empty(8 * dist.get_world_size(), 8)
    dist.all_gather_into_tensor(whole, x)
    return whole.sum(0) * y


@writes
def gather_async(x, y):
    whole = y.new_zeros(dist.get_world_size() * 8, 8)
    work = dist.all_gather_into_tensor(whole, x + 1, async_op=True)
    z = y.tanh()
    assert work.wait()
    return whole, z


@writes
def gather_list(x, y):
    parts = [torch.empty_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, x.relu())
    return torch.cat(parts) @ y


@writes
def reduce_scatter(x, y):
    part = x.new_empty(8 // dist.get_world_size(), 8)
    dist.reduce_scatter_tensor(part, x @ y)
    return part.cos(), y


@writes
def all_to_all(x, y):
    given = torch.empty_like(x)
    dist.all_to_all_single(given, x)
    return given - y


@writes
def all_to_all_uneven(x, y):
    rank, count = dist.get_rank(), dist.get_world_size()
    to_give = [2 + position for position in range(count)]
    to_get = [2 + rank] * count
    given = x.new_empty(sum(to_get), 8)
    dist.all_to_all_single(given, x[:sum(to_give)].contiguous(), to_get, to_give)
    return given.sum(0) + y


@writes
def broadcast(x, y):
    with torch.no_grad():
        dist.broadcast(x, 1)
        dist.broadcast(y, group_src=0)
    return x * y


@writes
def through_half_precision(x, y):
    short = x.to(torch.bfloat16)
    dist.all_reduce(short)
    return short.float() / dist.get_world_size() + y


@writes
def groups(x, y):
    group = everybody()
    dist.all_reduce(x, group=group)
    dist.all_reduce(y, group=dist.group.WORLD)
    return x * dist.get_rank(group) + y * dist.get_world_size(group)


@writes
def over_a_mesh(x, y):
    group = mesh().get_group("inner")
    dist.all_reduce(x, group=group)
    return x / mesh().size(1) + y * mesh().get_local_rank("inner")


@writes
def rank_decides(x, y):
    if dist.is_initialized() and dist.get_rank() == 0:
        x = x * 3
    else:
        y = y.exp()
    z = x + y
    dist.all_reduce(z, op=dist.ReduceOp.MIN)
    return z


@writes
def gradients_reduced_by_hand(x, y):
    weight = y.detach().requires_grad_()
    with torch.enable_grad():
        loss = (x @ weight).square().mean()
    (gradient,) = torch.autograd.grad(loss, weight)
    dist.all_reduce(gradient)
    return gradient / dist.get_world_size()


@writes
def statistics(x, y):
    total = torch.stack([x.sum(), x.square().sum(), x.new_tensor(float(x.numel()))])
    dist.all_reduce(total)
    mean = total[0] / total[2]
    return (x - mean) * torch.rsqrt(total[1] / total[2] - mean * mean + 1e-5) + y


# functional collectives, which autograd knows


@program
def functional_all_reduce(x, y):
    return fc.all_reduce(x.sin(), "sum", dist.group.WORLD) * y


@program
def functional_group_name(x, y):
    return fc.all_reduce(x, "sum", dist.group.WORLD.group_name).relu() + fc.all_reduce(y, "sum", everybody())


@program
def functional_mesh(x, y):
    return fc.all_reduce(x * y, "sum", (mesh(), 1)) - y


@program
def functional_gather(x, y):
    return fc.all_gather_tensor(x * 2, 0, dist.group.WORLD).sum(0) * y


@program
def functional_gather_columns(x, y):
    return fc.all_gather_tensor(x @ y, 1, dist.group.WORLD).softmax(-1)


@program
def functional_reduce_scatter(x, y):
    return fc.reduce_scatter_tensor(x.tanh(), "sum", 0, dist.group.WORLD).square(), y


@program
def functional_reduce_scatter_columns(x, y):
    return fc.reduce_scatter_tensor(x.tanh() @ y, "sum", 1, dist.group.WORLD)


@program
def functional_all_to_all(x, y):
    return fc.all_to_all_single(x.exp(), None, None, dist.group.WORLD) * y


@program
def functional_permute(x, y):
    count = dist.get_world_size()
    moved = fc.permute_tensor(x.cos().flatten(), [(rank + 1) % count for rank in range(count)], dist.group.WORLD)
    return moved.view(8, 8) * y


@writes
def functional_broadcast(x, y):
    return fc.broadcast(x * 2, 1, dist.group.WORLD) - y


@program
def functional_wait(x, y):
    z = fc.all_reduce(x, "sum", dist.group.WORLD)
    hidden = (y @ y).relu()
    return fc.wait_tensor(z) + hidden


@program
def column_and_row_parallel(x, y):
    hidden = F.gelu(x @ y)
    out = fc.all_reduce(hidden @ y.t(), "sum", dist.group.WORLD)
    again = F.layer_norm(out, (8,))
    return fc.all_reduce(F.gelu(again @ y) @ y.t(), "sum", dist.group.WORLD) + out


# ---------------------------------------------------------------------------------------------------------------------


def inputs(rank: int, gradients: bool) -> list[torch.Tensor]:
    """What programs get."""
    generator = torch.Generator().manual_seed(rank)
    made = [torch.randn(8, 8, generator=generator, dtype=torch.float64) for _ in range(2)]
    return [x.requires_grad_(gradients) for x in made]


def plain(value: Any) -> Any:
    """Results of eager, waited for."""
    if isinstance(value, torch.Tensor):
        return (value.trigger_wait() if isinstance(value, fc.AsyncCollectiveTensor) else value).detach().clone()
    return type(value)(map(plain, value)) if isinstance(value, (list, tuple)) else value


def observe(function: Callable[..., Any], rank: int, gradients: bool) -> Any:
    """Results, what the arguments are afterwards, and gradients."""
    given = inputs(rank, gradients)
    outcome = function(*given)
    found: list[Any] = []
    if gradients:
        results = [part for part in (outcome if isinstance(outcome, (list, tuple)) else [outcome])
                   if part.requires_grad]
        loss = sum((part * part).sum() for part in results)
        found = list(torch.autograd.grad(loss, given, allow_unused=True))
    return plain(outcome), plain(given), plain(found)


def compare(rank: int, name: str, gradients: bool, options: dict[str, Any]) -> tuple[int, int, list[str]]:
    """Compare some calls of a program with eager's; returns the number of graphs and of breaks, with their reasons."""
    warnings.simplefilter("ignore")
    fs.reset()
    function = PROGRAMS[name]
    expected = observe(function, rank, gradients)
    compiled = fs.compile(function, **options)
    for _ in range(3):
        torch.testing.assert_close(observe(compiled, rank, gradients), expected)
    explained = fs.explain(function)(*inputs(rank, gradients))
    return explained.graph_count, explained.graph_break_count, [str(reason) for reason in explained.break_reasons]


def compare_torch(rank: int, name: str, gradients: bool, options: dict[str, Any]) -> tuple[int, int, list[str]]:
    """The same with torch.compile."""
    import torch._dynamo

    warnings.simplefilter("ignore")
    torch._dynamo.reset()
    function = PROGRAMS[name]
    expected = observe(function, rank, gradients)
    compiled = torch.compile(function, backend="aot_eager", **options)
    for _ in range(3):
        torch.testing.assert_close(observe(compiled, rank, gradients), expected)
    torch._dynamo.reset()
    explained = torch._dynamo.explain(function)(*inputs(rank, gradients))
    return explained.graph_count, explained.graph_break_count, [str(reason) for reason in explained.break_reasons]


def compare_mixed(rank: int, name: str, gradients: bool) -> None:
    """One process runs a program compiled, the others plain, in turn."""
    warnings.simplefilter("ignore")
    fs.reset()
    function = PROGRAMS[name]
    expected = observe(function, rank, gradients)
    compiled = fs.compile(function, tier="wait")
    for turn in range(2):
        now = compiled if rank == turn else function
        torch.testing.assert_close(observe(now, rank, gradients), expected)


def replaced_modules(rank: int) -> list[str]:
    """What stands behind torch.compile, as far as it is imported."""
    return [name for name in sys.modules if name.startswith(("torch._dynamo", "torch._inductor"))
            or name in ("torch._functorch.aot_autograd", "torch._functorch.partitioners")]


# ---------------------------------------------------------------------------------------------------------------------
# one process does otherwise than the others

SPECIAL: dict[str, Callable[[int], tuple[Any, Any]]] = {}
"""What is expected and what is found, in each process."""


def special(function: Callable[[int], tuple[Any, Any]]) -> Callable[[int], tuple[Any, Any]]:
    """Registers one."""
    SPECIAL[function.__name__] = function
    return function


def run_special(rank: int, name: str) -> tuple[Any, Any]:
    """Run one, and see that the processes still understand each other."""
    warnings.simplefilter("ignore")
    fs.reset()
    answer = SPECIAL[name](rank)
    total = torch.full((), float(rank + 1))
    dist.all_reduce(total)
    assert total == sum(range(1, dist.get_world_size() + 1))
    return answer


@special
def one_raises_behind_a_collective(rank):
    def step(x, index):
        dist.all_reduce(x)
        return x[index]

    compiled = fs.compile(step, tier="wait")
    found = []
    for last in (1, 1, 1 if rank else 9, 1):
        try:
            found.append(compiled(torch.ones(4), torch.tensor([0, last])).tolist())
        except IndexError:
            found.append("IndexError")
    return [[2.0, 2.0]] * 2 + [[2.0, 2.0] if rank else "IndexError"] + [[2.0, 2.0]], found


@special
def one_raises_before_a_collective(rank):
    def step(x, index, y):
        try:
            z = x[index]
        except IndexError:
            z = y
        dist.all_reduce(z)
        return z

    compiled = fs.compile(step, tier="wait")
    found = []
    for last in (1, 1, 1 if rank else 9, 1):
        found.append(compiled(torch.ones(4), torch.tensor([0, last]), torch.full((2,), 5.0)).tolist())
    return [[2.0, 2.0]] * 2 + [[6.0, 6.0], [2.0, 2.0]], found


@special
def one_breaks(rank):
    def step(x):
        y = x * 2
        if rank == 0:
            fs.graph_break()
        dist.all_reduce(y)
        if rank == 1:
            fs.graph_break()
        return y + 1

    compiled = fs.compile(step)
    return [[5.0, 5.0]] * 20, [compiled(torch.ones(2)).tolist() for _ in range(20)]


@special
def one_recompiles(rank):
    def step(x, y):
        dist.all_reduce(x)
        return x + y.sum()

    compiled = fs.compile(step)
    found, expected = [], []
    for call in range(12):
        size = 3 + call if rank else 3
        found.append(compiled(torch.ones(2), torch.ones(size)).tolist())
        expected.append([2.0 + size] * 2)
    return expected, found


@special
def all_sizes_vary(rank):
    def step(x):
        whole = x.new_empty(x.shape[0] * dist.get_world_size(), 2)
        dist.all_gather_into_tensor(whole, x * 2)
        parts = fc.reduce_scatter_tensor(whole, "sum", 0, dist.group.WORLD)
        return fc.all_reduce(parts + x, "sum", dist.group.WORLD)

    compiled = fs.compile(step)
    expected = [plain(step(torch.full((size, 2), float(rank)))).tolist() for size in (2, 3, 5, 8)]
    found = [compiled(torch.full((size, 2), float(rank))).tolist() for size in (2, 3, 5, 8)]
    return expected, found


@special
def a_break_before_the_wait(rank):
    def step(x):
        y = x * (rank + 1)
        work = dist.all_reduce(y, async_op=True)
        fs.graph_break()
        done = work.wait(), isinstance(work, dist.Work)
        return y + 1, done

    result, done = fs.compile(step)(torch.ones(2))
    return ([4.0, 4.0], (True, True)), (result.tolist(), done)


@special
def in_a_try_block(rank):
    def step(x):
        try:
            dist.all_reduce(x)
        except RuntimeError:
            return x
        return x + 1

    explained = fs.explain(step)(torch.ones(2))
    return ([3.0, 3.0], 1), (explained.result.tolist(), explained.graph_break_count)


@special
def data_decides_behind_a_collective(rank):
    def step(x):
        dist.all_reduce(x)
        n = int(x.sum().item())
        return torch.ones(8)[:n].sum()

    compiled = fs.compile(step)
    return [4.0, 4.0, 8.0], [compiled(torch.full((2,), value)).item() for value in (1.0, 1.0, 3.0)]


@special
def plain_python_is_faster(rank):
    def step(x):
        y = x + 1
        fs.graph_break()
        dist.all_reduce(y)
        fs.graph_break()
        return fc.all_reduce(y, "sum", dist.group.WORLD)

    compiled = fs.compile(step)  # runs in turn compiled and plain, and then as it was faster in this process
    results = []
    for _ in range(60):
        if rank:
            time.sleep(0.001)
        results.append(plain(compiled(torch.ones(2))).tolist())
    return [[8.0, 8.0]] * 60, results


@special
def nobody_answers(rank):
    """Errors say which function waits for whom, of forward and of backward."""
    groups = [dist.new_group([0, 1], timeout=datetime.timedelta(seconds=1)) for _ in range(2)]

    class Reduced(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return fc.all_reduce(gradient, "sum", groups[1])

    def forward(x):
        return fc.all_reduce(x, "sum", groups[0]) + 1

    def backward(x):
        return Reduced.apply(x).sum()

    def fail(call):
        try:
            call()
        except RuntimeError as error:
            return error.__notes__
        return ["no error"]

    found = []
    if rank == 0:
        total = fs.compile(backward, tier="wait")(torch.ones(2, requires_grad=True))
        found = [*fail(lambda: fs.compile(forward)(torch.ones(2))), *fail(total.backward)]
    names = (f"compiled forward ({__file__}", "compiled backward of") if rank == 0 else ()
    return [True] * len(names), [name in note and "another process may be gone" in note
                                 for name, note in zip(names, found, strict=True)]


@special
def modules_and_backward(rank):
    def make():
        torch.manual_seed(0)
        return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), Reduced(16, 8)).double()

    losses = []
    for compiled in (False, True):
        module = make()
        run = fs.compile(module, tier="wait") if compiled else module
        optimizer = torch.optim.SGD(module.parameters(), 0.01)
        seen = []
        for step in range(6):
            x = torch.linspace(-1, 1, 32, dtype=torch.float64).view(4, 8) * (rank + step + 1)
            loss = run(x).square().mean()
            optimizer.zero_grad()
            loss.backward()
            for parameter in module.parameters():
                dist.all_reduce(parameter.grad)
            optimizer.step()
            seen.append(round(loss.item(), 9))
        losses.append(seen)
    return tuple(losses)


class Reduced(torch.nn.Linear):
    """A linear layer whose results are added up over all processes."""

    def forward(self, x):
        return fc.all_reduce(super().forward(x), "sum", dist.group.WORLD)
