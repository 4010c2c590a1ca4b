"""Stores that combine at computed places: which loops may be parallel, and that results do not depend on threads."""

import pytest
import torch

from firesteel.kernels.options import make_options
from firesteel.kernels.plan import Launch
from firesteel.pipeline.compile import compile_graph


def compiled(function, *args):
    graph = torch.fx.Graph()
    graph.output((graph.call_function(function, tuple([graph.placeholder(f"x{k}") for k in range(len(args))])),))
    made = compile_graph(torch.fx.GraphModule({}, graph), list(args), make_options())
    kernels = [str(step.kernel) for step in made.plan.steps if isinstance(step, Launch)]
    return made.run, next(text for text in reversed(kernels) if "+=" in text)


def overlapping(x, v):
    return x.index_put((torch.arange(400)[:, None] + torch.arange(8),), v, accumulate=True)


INDEX = torch.randint(0, 50, (200, 300), generator=torch.Generator().manual_seed(0))
CASES = {
    "scatter_add": (lambda x, v, i: x.scatter_add(1, i, v), torch.zeros(200, 50), INDEX, "parallel for i0 < 200"),
    "index_put": (lambda x, v, i: x.index_put((torch.arange(200)[:, None], i), v, accumulate=True),
                  torch.zeros(200, 50), INDEX, "parallel for i0 < 200"),
    "index_add": (lambda x, v, i: x.index_add(0, i, v), torch.zeros(50, 300), INDEX[:, 0], "parallel for i0 < 3"),
    "narrow": (lambda x, v, i: x.index_add(0, i, v[:, :5]), torch.zeros(50, 5), INDEX[:, 0], None),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_parallel_axes(name):
    function, x, index, loop = CASES[name]
    values = torch.randn(200, 300)
    run, kernel = compiled(function, x, values, index)
    assert (loop in kernel) if loop else "parallel" not in kernel, kernel
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(2)
        results = [run(x, values, index)[0] for _ in range(3)]
    finally:
        torch.set_num_threads(threads)
    torch.testing.assert_close(results[0], function(x, values, index), rtol=1e-4, atol=1e-4)
    assert all(torch.equal(results[0], other) for other in results)


def test_axes_that_meet_in_one_dimension_are_not_parallel():
    x, values = torch.zeros(407), torch.randn(400, 8)
    run, kernel = compiled(overlapping, x, values)
    assert "parallel" not in kernel
    torch.testing.assert_close(run(x, values)[0], overlapping(x, values))
