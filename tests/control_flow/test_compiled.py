"""Control flow operators in compiled code, against the same operators run eagerly."""

from __future__ import annotations

import copy
import subprocess
import sys
import textwrap

import pytest
import torch
from torch.utils import _pytree as pytree

import firesteel as fs
from firesteel import config
from firesteel.errors import GraphBreakError

BACKENDS = ["eager", "aot_eager", "native"]
W = torch.randn(4, 4)


@pytest.fixture(autouse=True)
def strict():
    with config.patch(raise_on_internal_error=True):
        yield


def compare(f, *calls, backend="native", dynamic=None, fullgraph=True, gradients=True):
    """Values, dtypes, strides, gradients and random numbers of compiled code are those of eager."""
    compiled = fs.compile(f, backend=backend, fullgraph=fullgraph, dynamic=dynamic)
    for args in calls:
        torch.manual_seed(0)
        expected = f(*args)
        torch.manual_seed(0)
        found = compiled(*args)
        torch.testing.assert_close(found, expected)
        for one, other in zip(pytree.tree_leaves(found), pytree.tree_leaves(expected), strict=True):
            if isinstance(one, torch.Tensor):
                assert one.stride() == other.stride() and one.requires_grad == other.requires_grad
        leaves = [arg for arg in args if isinstance(arg, torch.Tensor) and arg.requires_grad]
        if leaves and gradients:
            for one, other in zip(_gradients(found, leaves), _gradients(expected, leaves), strict=True):
                # what the other branch would have used gets zeros in compiled code
                torch.testing.assert_close(one, torch.zeros_like(one) if other is None and one is not None else other)


def _gradients(results, leaves):
    loss = sum(part.double().sin().sum() for part in pytree.tree_leaves(results)
               if isinstance(part, torch.Tensor) and part.requires_grad)
    return torch.autograd.grad(loss, leaves, allow_unused=True)


def both(*shape, **how):
    """Inputs for which sums are positive and negative, with and without gradients."""
    return [(torch.rand(*shape, **how) * sign, ) for sign in (1, -1)] + [
        ((torch.rand(*shape, **how) * sign).requires_grad_(),) for sign in (1, -1)]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("operator", [fs.cond, torch.cond])
def test_cond_with_closures_and_containers(backend, operator):
    def f(x):
        def other(x):
            return {"a": x.cos() * 2, "b": (x - W, None)}

        made = operator((x.sum() > 0).reshape(1), lambda x: {"a": (x @ W).sin(), "b": (x + 1, None)}, other, (x,))
        return made["a"] + 1, made["b"][0]

    if operator is fs.cond:
        compare(f, *both(4, 4), backend=backend)
    else:
        ours = fs.compile(f, backend=backend, fullgraph=True)
        for (x,) in both(4, 4)[:2]:
            a, b = ((x @ W).sin() + 1, x + 1) if x.sum() > 0 else (x.cos() * 2 + 1, x - W)
            torch.testing.assert_close(ours(x), (a, b))


@pytest.mark.parametrize("backend", BACKENDS)
def test_loops(backend):
    def loop(x):
        return fs.while_loop(lambda i, x: i < 4, lambda i, x: (i + 1, (x @ W).tanh() + x), (torch.tensor(0), x))

    def scan(x):
        return fs.scan(lambda c, x: ((c + x @ W).tanh(), {"y": c * x}), torch.zeros(4), x, reverse=True)

    def scan_columns(x):
        return fs.scan(lambda c, x: (c["a"] + x[0], c["a"] * x[1]) and ({"a": c["a"] + x[0]}, c["a"] * x[1]),
                       {"a": x[:, 0].sin()}, (x, x + 1), dim=1)

    def mapped(x):
        return fs.map(lambda x, y: (x @ W + y, x.sum()), x, x[0] * 2)

    for f in (loop, scan, scan_columns, mapped):
        compare(f, *both(4, 4)[1:3], backend=backend)


@pytest.mark.parametrize("mode", ["pointwise", "generic"])
def test_associative_scan(mode):
    def f(x):
        return fs.associative_scan(lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]), (x, x + 1), 0, combine_mode=mode)

    compare(f, *both(7, 3)[1:3])


def test_recognised_names_of_torch():
    from functorch.experimental import control_flow
    from torch._higher_order_ops import associative_scan, scan, while_loop

    def f(x):
        a = control_flow.map(lambda x: x * 2, x)
        _, b = while_loop(lambda i, x: i < 2, lambda i, x: (i + 1, x * 2), (torch.tensor(0), a))
        c, _ = scan(lambda c, x: (c + x, c.clone()), torch.zeros(3), b)
        d = associative_scan(lambda a, b: a + b, x, 0, combine_mode="generic")
        return control_flow.cond(x.sum() > 0, lambda: c + d, lambda: c - d)

    x = torch.rand(4, 3)
    found = fs.compile(f, fullgraph=True)(x)
    torch.testing.assert_close(found, (x * 8).sum(0) + x.cumsum(0))


@pytest.mark.parametrize("backend", ["aot_eager", "native"])
def test_nested(backend):
    def f(x):
        def body(c, x):
            c = fs.cond(c.sum() > 0, lambda c: c - x, lambda c: c * x + 1, (c,))
            _, z = fs.while_loop(lambda i, z: i < 2, lambda i, z: (i + 1, z * 0.5), (torch.tensor(0), c))
            return z, fs.map(lambda a: a * x.sum(), z)

        return fs.scan(body, torch.ones(4), x)

    compare(f, *both(5, 4), backend=backend)


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_dynamic_sizes(backend):
    def f(x):
        y = torch.cat([x, x])
        a = fs.cond(y.sum() > 0, lambda: (y @ W).sin().view(-1), lambda: y.cos().view(-1) / y.shape[0])
        _, b = fs.scan(lambda c, x: ((c + x).tanh(), c * x), torch.zeros(4), x)
        return a, b, fs.map(lambda x: x.outer(x).sum(0), x)

    for needs in (False, True):
        compare(f, *[(torch.randn(rows, 4, requires_grad=needs),) for rows in (2, 5, 7)], backend=backend,
                dynamic=True)


def test_symbolic_predicates_stay_in_the_graph():
    def f(x):
        return fs.cond(x.shape[0] > 4, lambda x: x.sin(), lambda x: x.cos(), (x,))

    graphs = []

    def backend(gm, inputs):
        graphs.append(gm)
        return gm.forward

    compiled = fs.compile(f, backend=backend, dynamic=True, fullgraph=True)
    for rows in (3, 5, 9):
        x = torch.randn(rows, 2)
        torch.testing.assert_close(compiled(x), f(x))
    assert len(graphs) == 1
    assert {"true_graph_0", "false_graph_0"} <= {node.target for node in graphs[0].graph.nodes}


def test_known_predicates_leave_no_node():
    def f(x, flag):
        return fs.cond(flag, lambda x: x + 1, lambda x: x[:1] - 1, (x,))

    captured = fs.capture_graph(f)(torch.ones(2), True)
    assert not any(node.op == "get_attr" for node in captured.graph_module.graph.nodes)
    compare(f, (torch.ones(2), True), (torch.ones(2), False))


def test_random_numbers_and_order():
    def f(x):
        a = torch.rand(3)
        b = fs.cond(x.sum() > 0, lambda x: torch.nn.functional.dropout(x, 0.5), lambda x: torch.rand_like(x), (x,))
        return a, b, torch.rand(3)

    compare(f, *both(3)[:2])
    compare(f, *both(3)[2:], gradients=False)


def test_layouts():
    def carried(x):
        return fs.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x.t().contiguous().t() + 1), (torch.tensor(0), x))

    def sliced(x):
        return fs.cond(x.sum() > 0, lambda x: (x + 1)[:, 1:3], lambda x: (x * 2)[:, :2], (x,))

    compare(carried, (torch.randn(3, 4),), (torch.randn(4, 3).t(),), (torch.randn(3, 1).expand(3, 4),))
    compare(sliced, *both(3, 4))


def test_no_turn_at_all():
    def f(x):
        return fs.while_loop(lambda i, x: i < 0, lambda i, x: (i + 1, x * 2), (torch.tensor(0), x))

    compare(f, *both(3)[1:3])
    x = torch.ones(3)
    assert fs.compile(f)(x)[1] is not x


def test_modules_as_branches():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = torch.nn.Linear(4, 4), torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())

        def forward(self, x):
            return fs.cond(x.sum() > 0, self.a, self.b, (x,))

    model = Model()
    compiled = fs.compile(model, fullgraph=True)
    for (x,) in both(2, 4)[:2]:
        gradients = []
        for run in (model, compiled):
            model.zero_grad()
            run(x).sum().backward()
            gradients.append([torch.zeros_like(p) if p.grad is None else p.grad for p in model.parameters()])
        torch.testing.assert_close(*gradients)


def test_whole_training_steps():
    def step(x, w):
        loss = fs.cond(x.sum() > 0, lambda x: (x @ w).sin(), lambda x: x @ w, (x,)).sum()
        loss.backward()
        return loss.detach()

    x, w = torch.rand(2, 4), torch.nn.Parameter(torch.randn(4, 4))
    expected = step(x, w), w.grad
    w.grad = None
    torch.testing.assert_close((fs.compile(step)(x, w), w.grad), expected)


def test_checkpointed():
    from torch.utils.checkpoint import checkpoint

    def f(x):
        return checkpoint(lambda x: fs.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,)) * 2, x,
                          use_reentrant=False)

    for backend in BACKENDS:
        compare(f, *both(3)[2:], backend=backend)


def _grow(x):
    x.add_(1)
    return x * 2


SEEN: list[int] = []


def _note(x):
    SEEN.append(1)
    return x * 2


@pytest.mark.parametrize(("f", "words"), [
    (lambda x: fs.cond(x.sum() > 0, lambda x: x[:2] + 1, lambda x: x - 1, (x,)), r"shapes \[2\] and \[3\]"),
    (lambda x: fs.cond(x.sum() > 0, lambda x: x.double() + 1, lambda x: x - 1, (x,)), "dtypes"),
    (lambda x: fs.cond(x.sum() > 0, lambda x: (x + 1,), lambda x: x - 1, (x,)), "false_fn a tensor"),
    (lambda x: fs.cond(x.sum() > 0, lambda x: x, lambda x: x - 1, (x,)), "did not make"),
    (lambda x: fs.cond(x.sum() > 0, lambda x: (x + 1)[None].expand(2, 3), lambda x: x.new_ones(2, 3), (x,)), "strides"),
    (lambda x: fs.cond(x.sum() > 0, _grow, lambda x: x - 1, (x,)), "in place"),
    (lambda x: fs.cond(x.sum() > 0, _note, lambda x: x - 1, (x,)), "changes list"),
    (lambda x: fs.cond(x.sum(), lambda x: x * 2, lambda x: x - 1, (x,)), "not of bools"),
    (lambda x: fs.while_loop(lambda x: x.sum() < 5, lambda x: (x[:2] + 1,), (x,)), "shapes"),
    (lambda x: fs.while_loop(lambda x: x.sum(), lambda x: (x + 1,), (x,)), "not of bools"),
    (lambda x: fs.scan(lambda c, x: (c, x + 1), x.sum(), x), "did not make"),
    (lambda x: fs.map(lambda x: x, x), "did not make"),
])
def test_rules_are_checked_with_the_users_line(f, words):
    with pytest.raises(GraphBreakError, match=words) as caught:
        fs.compile(f, fullgraph=True)(torch.ones(3))
    assert __file__ in str(caught.value)
    assert not SEEN


def test_what_cannot_be_captured_runs_eagerly_without_torchs_own():
    program = textwrap.dedent("""
        import sys, torch, firesteel as fs
        def f(x):
            return torch.cond(x.sum() > 0, lambda x: x + 1, lambda x: x.t() + 2, (x,)) * 2
        x = torch.rand(3, 3)
        g = fs.compile(f)
        torch.testing.assert_close(g(x), (x + 1) * 2)
        torch.testing.assert_close(g(-x), (-x).t() * 2 + 4)
        def h(x):
            return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,)).sum()
        fs.compile(h)(x.requires_grad_()).backward()
        torch.testing.assert_close(x.grad, x.detach().cos())
        assert "torch._dynamo" not in sys.modules
    """)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def sine_or_cosine(x):
    return fs.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))


def test_graphs_are_ordinary_fx():
    module = copy.deepcopy(fs.capture_graph(sine_or_cosine)(torch.ones(2)).graph_module)
    module.graph.lint()
    assert "control_flow_operators_cond" in module.code
    torch.testing.assert_close(module(torch.ones(2))[0], torch.ones(2).sin())
    # a graph that owns graphs can be captured again, as exported programs are
    again = fs.compile(module, fullgraph=True)
    torch.testing.assert_close(again(-torch.ones(2))[0], torch.ones(2).cos())


def test_functional_graphs_print_their_bodies():
    from firesteel.functional import trace

    text = str(trace(fs.capture_graph(sine_or_cosine)(torch.ones(2)).graph_module, [torch.ones(2)]))
    assert text.splitlines()[3:9] == [
        "cond: (f32[2]) = control_flow.cond(gt, x)",
        "    true:",
        "        input x: f32[2]",
        "        sin: f32[2] = aten.sin.default(x)",
        "        return sin",
        "    false:",
    ]


@pytest.mark.parametrize("dynamic", [True, None])
@pytest.mark.parametrize("program", [
    lambda x: fs.associative_scan(lambda a, b: a * b, x, 1, combine_mode="generic"),
    lambda x: fs.map(lambda row: row.sin() * row, x.transpose(0, 1)),
    lambda x: fs.scan(lambda carry, row: (carry + row, carry * row), x.sum(1), x, dim=1)[1],
], ids=["associative_scan", "map", "scan"])
def test_slices_whose_strides_depend_on_the_length_that_is_cut(program, dynamic):
    compiled = fs.compile(program, dynamic=dynamic)
    with config.patch(raise_on_internal_error=True):
        for length in (7, 10, 3):
            x = torch.randn(2, length, 4, requires_grad=True)
            expected, found = program(x), compiled(x)
            torch.testing.assert_close(found, expected)
            weight = torch.randn_like(expected)
            torch.testing.assert_close(torch.autograd.grad(found, x, weight), torch.autograd.grad(expected, x, weight))
