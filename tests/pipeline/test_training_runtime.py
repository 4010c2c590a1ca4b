"""Compiled functions in autograd: hooks, saved tensors, retained graphs, anomaly mode."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
import torch.utils.checkpoint

import firesteel as fs
from firesteel import config, torch_compat

BACKENDS = pytest.mark.parametrize("backend", ["aot_eager", "native"])


@pytest.fixture(autouse=True)
def strict():
    with config.patch(raise_on_internal_error=True):
        yield


def leaf(*shape):
    torch.manual_seed(0)
    return torch.randn(*shape, requires_grad=True)


def mlp(x, w, v):
    return torch.tanh(F.gelu(x @ w) @ v)


def arguments():
    return leaf(3, 4), leaf(4, 5), leaf(5, 2)


@BACKENDS
def test_gradients_add_up_and_hooks_run(backend):
    compiled = fs.compile(mlp, backend=backend)
    found = []
    for function in (mlp, compiled):
        args, seen = arguments(), ([], [], [])
        args[1].register_hook(lambda g, seen=seen: (seen[0].append(g.clone()), g * 2)[1])
        args[2].register_post_accumulate_grad_hook(lambda p, seen=seen: seen[1].append(p.grad.clone()))
        for _ in range(2):
            result = function(*args)
            result.register_hook(lambda g, seen=seen: seen[2].append(g.clone()))
            result.sum().backward()
        found.append((seen, [t.grad for t in args]))
    torch.testing.assert_close(found[1], found[0])


@BACKENDS
def test_messages_name_hooks(backend):
    def program(x):
        hidden = x.exp()
        hidden.register_hook(summed)
        return hidden * 2

    def summed(gradient):
        return gradient.sum()

    for function in (program, fs.compile(program, backend=backend)):
        with pytest.raises(RuntimeError, match="hook 'summed' has changed the size"):
            function(leaf(3)).sum().backward()


@BACKENDS
@pytest.mark.parametrize("function", [
    lambda x, y: (y.view(-1).view(2, 3) + x).sin()[1:], lambda x, y: y.view(-1).view(2, 3) + x,
    lambda x, y: (y.t().t() + x) * 2, lambda x, y: (y.reshape(3, 2).reshape(2, 3) + x + x).exp()])
def test_gradients_of_leaves_have_memory_of_their_own(function, backend):
    def gradients(called):
        x, y = leaf(2, 3), leaf(2, 3)
        result = called(x, y)
        first, second = torch.autograd.grad((result * 3).sum(), [x, y], retain_graph=True)
        (result * 3).sum().backward()
        x.grad.zero_()
        return first is second, y.grad

    expected = gradients(function)
    found = gradients(fs.compile(function, backend=backend))
    assert found[0] == expected[0]
    torch.testing.assert_close(found[1], expected[1])


@BACKENDS
def test_gradients_of_leaves_have_memory_of_their_own_where_the_graph_runs_again(backend):
    def program(x, y):
        return (y.view(-1).view(2, 3) + x).sin(), y.view(-1).view(2, 3) + x

    for called in (program, fs.compile(program, backend=backend)):
        x, y = leaf(2, 3), leaf(2, 3)
        sine, summed = called(x, y)
        sine.sum().backward()
        x.grad = y.grad = None
        (summed * 2).sum().backward()  # what the first has freed is not needed
        x.grad.zero_()
        assert y.grad.sum() == 12


@BACKENDS
def test_a_subset_of_gradients(backend):
    args = arguments()
    result = fs.compile(mlp, backend=backend)(*args)
    found = torch.autograd.grad(result.sum(), [args[1]], retain_graph=True)
    again = torch.autograd.grad(result.sum(), [args[1], args[0]])
    expected = torch.autograd.grad(mlp(*args).sum(), [args[1], args[0]])
    torch.testing.assert_close((found[0], *again), (expected[0], *expected))
    with pytest.raises(RuntimeError, match="second time"):
        torch.autograd.grad(result.sum(), args[0])


@BACKENDS
def test_tensors_are_saved_with_autograd(backend):
    args = arguments()
    compiled = fs.compile(mlp, backend=backend)
    compiled(*args)
    packed, unpacked = [], []

    def pack(t):
        packed.append(t.nbytes)
        return t.detach().clone()

    def unpack(t):
        unpacked.append(t.nbytes)
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, unpack):
        result = compiled(*args)
    assert packed and not unpacked
    result.sum().backward()
    assert sorted(unpacked) == sorted(packed)
    expected = torch.autograd.grad(mlp(*args).sum(), args)
    torch.testing.assert_close([t.grad for t in args], list(expected))


@BACKENDS
def test_hooks_that_change_what_is_saved_see_what_eager_saves(backend):
    def program(x):
        return x.exp() * x

    def inside(x):
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t * 3, lambda t: t + 1):
            return program(x)

    def gradient(function, hooks):
        x, seen = leaf(3), []
        with torch.autograd.graph.saved_tensors_hooks(*hooks(seen)):
            result = function(x)
        result.sum().backward()
        return x.grad, seen

    def with_checkpoint(x):
        return torch.utils.checkpoint.checkpoint(lambda t: t.sin() * t, x.exp(), use_reentrant=False)

    changing = lambda seen: (lambda t: seen.append(1) or t * 3, lambda t: seen.append(2) or t)
    for function, hooks in ((program, changing), (inside, lambda seen: (lambda t: t, lambda t: t)),
                            (with_checkpoint, changing)):
        compiled = fs.compile(function, backend=backend)
        expected = gradient(function, hooks)
        for _ in range(2):
            torch.testing.assert_close(gradient(compiled, hooks), expected)


@BACKENDS
@pytest.mark.parametrize("dynamic", [False, True])
def test_saved_tensors_come_back_with_other_strides(backend, dynamic):
    def program(x, w):
        return (x.exp() * w.t()).sin()

    def gradients(function):
        x, w = leaf(3, 4), leaf(4, 3)
        with torch.autograd.graph.save_on_cpu(pin_memory=True):  # by rows, whatever they were
            result = function(x.t().contiguous().t(), w)
        (result * torch.arange(12).view(3, 4)).sum().backward()
        return x.grad, w.grad

    torch.testing.assert_close(gradients(fs.compile(program, backend=backend, dynamic=dynamic)), gradients(program))


@BACKENDS
@pytest.mark.parametrize("dynamic", [False, True])
def test_parts_that_are_copied_to_be_kept_come_back_as_they_were_kept(backend, dynamic):
    def program(x, cell):
        return cell(x[:, 0])

    def gradients(function):
        torch.manual_seed(0)
        cell, x = torch.nn.GRUCell(8, 8), leaf(5, 6, 8)
        if dynamic:
            fs.mark_dynamic(x, 0)  # kept are copies of columns, with strides of their own
        torch.utils.checkpoint.checkpoint(function, x, cell, use_reentrant=False).square().mean().backward()
        return [x.grad, *[parameter.grad for parameter in cell.parameters()]]

    torch.testing.assert_close(gradients(fs.compile(program, backend=backend)), gradients(program))


@BACKENDS
@pytest.mark.parametrize("dynamic", [False, True])
def test_data_that_has_become_smaller_before_backward(backend, dynamic):
    def program(x, p):
        return (x * p).sin()

    for function in (program, fs.compile(program, backend=backend, dynamic=dynamic)):
        x, p = leaf(1 << 22), leaf(1 << 22)
        result = function(x, p)
        p.data = torch.ones(3)  # without a check, machine code reads far behind its end
        with pytest.raises(RuntimeError, match="must match|invalid gradient"):
            result.sum().backward()
        x, p = leaf(8), leaf(8)
        result = function(x, p)
        p.data = p.data.clone()
        result.sum().backward()
        assert x.grad is not None


@BACKENDS
def test_changes_before_backward_are_noticed_as_in_eager(backend):
    for function in (mlp, fs.compile(mlp, backend=backend)):
        x, w, v = arguments()
        result = function(x, w, v)
        with torch.no_grad():
            w.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            result.sum().backward()


@BACKENDS
@pytest.mark.parametrize("function", [
    lambda x: (x * 1).sigmoid(), lambda x: (x * 1).tanh().view(1, 2), lambda x: (x + 0).exp()[1:]])
def test_changes_of_results_are_noticed_whatever_becomes_of_the_operators_before(function, backend):
    for called in (function, fs.compile(function, backend=backend)):
        result = called(leaf(2))
        result.mul_(2)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            result.sum().backward()


@BACKENDS
def test_changes_of_results_are_counted_as_in_eager(backend):
    def twice(y):
        y.mul_(2)
        y.add_(1)
        return y.sin()

    def versions(first, second):
        result = first(leaf(3))
        second(result)
        part = first(leaf(3))[1:]
        second(part)
        return result._version, part._version

    expected = versions(torch.exp, twice)
    assert versions(fs.compile(torch.exp, backend=backend), fs.compile(twice, backend=backend)) == expected == (2, 2)


@BACKENDS
def test_changes_that_eager_allows_are_allowed(backend):
    def program(x, w):
        h = x + w
        y = h + 1
        return y, y.sin() * 2

    for function in (program, fs.compile(program, backend=backend)):
        x, w = leaf(3), torch.ones(3)
        first, second = function(x, w)
        w.add_(5)  # eager keeps h + 1, neither x nor w
        second.add_(1)
        second.sum().backward()
        expected = torch.cos(x.detach() + 2) * 2
        torch.testing.assert_close(x.grad, expected)


@BACKENDS
def test_anomaly_mode(backend):
    compiled = fs.compile(lambda x: torch.sqrt(x * 0), backend=backend)
    with torch.autograd.set_detect_anomaly(True), pytest.warns(UserWarning), \
            pytest.raises(RuntimeError, match="returned nan"):
        compiled(leaf(3)).sum().backward()


def test_no_zeros_for_results_that_get_no_gradient():
    def program(x, w):
        logits = x @ w
        return logits, F.cross_entropy(logits, torch.arange(3)), w.sum()

    compiled = fs.compile(program, backend="aot_eager")
    x, w = leaf(3, 4), leaf(4, 5)
    compiled(x, w)[1].backward()
    expected = torch.autograd.grad(program(x, w)[1], [x, w])
    torch.testing.assert_close([x.grad, w.grad], list(expected))


def test_views_of_inputs_are_views_for_autograd():
    compiled = fs.compile(lambda x, w: (x[0], x * w), backend="aot_eager")
    x = leaf(3, 4) * 1
    row, _ = compiled(x, leaf(3, 4))
    assert row._base is x
    row.mul_(2)
    assert type(x.grad_fn).__name__ == "AsStridedBackward0" or type(x.grad_fn).__name__ == "CopySlices"


def test_dropout_draws_the_numbers_of_eager():
    model = torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.Dropout(0.5), torch.nn.ReLU(), torch.nn.Dropout(0.1))
    compiled = fs.compile(model, backend="native")
    x = torch.randn(4, 6)
    for seed in range(3):
        found = []
        for function in (model, compiled):
            model.zero_grad()
            torch.manual_seed(seed)
            function(x).sum().backward()
            found.append([p.grad.clone() for p in model.parameters()] + [torch.rand(2)])
        torch.testing.assert_close(found[1], found[0])


def test_grad_scaler_and_autocast():
    model = torch.nn.Linear(4, 4)
    compiled = fs.compile(model, backend="native")
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    x, found = torch.randn(3, 4), []
    for function in (model, compiled):
        model.zero_grad()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = function(x).float().square().mean()
        scaler.scale(loss).backward()
        found.append([p.grad.clone() for p in model.parameters()])
    torch.testing.assert_close(found[1], found[0])


def test_saved_tensors_are_freed_while_backward_runs():
    """The list of inputs that a compiled backward takes is empty when it returns, and autograd holds them no longer."""
    compiled = fs.compile(lambda x, w: torch.cos(torch.cos(x @ w) @ w) @ w, backend="native")
    x, w = leaf(8, 8), leaf(8, 8)
    result = compiled(x, w)
    node = result.grad_fn
    result.sum().backward()
    with pytest.raises(RuntimeError, match="second time"):
        _ = node.saved_tensors
    (run,) = node.unit.backwards.values()
    given = [torch.randn(8, 8) for _ in range(len(node.unit.parted.backward.inputs))]
    run.run(given)
    assert given == []


@BACKENDS
def test_a_mask_chooses_what_is_changed_in_place(backend):
    def masked(x, mask, value):
        x[mask] = value
        return x * 2

    found = []
    for function in (masked, fs.compile(masked, backend=backend)):
        x, value = leaf(4, 3), leaf(3)
        result = function(x * 1, torch.tensor([True, False, True, False]), value)
        result.square().sum().backward()
        found.append((result.detach(), x.grad, value.grad))
    torch.testing.assert_close(found[1], found[0])


@pytest.mark.parametrize("dynamic", [False, True])
def test_gradients_have_the_strides_of_eagers(dynamic):
    """Those of a tangent that lies by rows, whatever the order of the result is."""
    def program(x):
        return x.sin() * 2

    compiled = fs.compile(program, backend="native", dynamic=dynamic, fullgraph=True)
    x = leaf(3, 4, 5).detach().permute(2, 1, 0).requires_grad_()
    for tangent in (torch.randn(x.shape), torch.randn_like(x)):
        found, expected = (torch.autograd.grad(function(x), x, tangent)[0] for function in (compiled, program))
        torch.testing.assert_close(found, expected)
        assert found.stride() == expected.stride()


def test_deviations_of_equal_elements():
    """They are exactly 0, where eager's gradient is 0 too."""
    def program(x):
        return x.std(0)

    compiled = fs.compile(program, backend="native", fullgraph=True)
    x = (torch.randn(7) * 30).expand(100, 7).clone().requires_grad_()
    assert not compiled(x).any() and not program(x).any()
    found, expected = (torch.autograd.grad(function(x).sum(), x)[0] for function in (compiled, program))
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("expanded", [True, False])
def test_views_of_inputs_of_all_sizes(expanded):
    """Made again by the operators of the program: places in memory would give another gradient where rows are one."""
    def program(x):
        return x[1:].view(-1, x.shape[1]).transpose(0, 1), x * 2

    compiled = fs.compile(program, backend="native", dynamic=True, fullgraph=True)
    for rows in (4, 7):
        x = (leaf(3).detach().expand(rows, 3) if expanded else leaf(rows, 3).detach()).requires_grad_()
        tangents = [torch.randn(result.shape) for result in program(x)]
        found, expected = (torch.autograd.grad(function(x), x, tangents)[0] for function in (compiled, program))
        torch.testing.assert_close(found, expected)
        assert type(compiled(x)[0].grad_fn) is type(program(x)[0].grad_fn)


@pytest.mark.parametrize("part", [
    lambda y: y.unbind(1)[2], lambda y: y.split(1)[0], lambda y: y.split([1, 1, 1], 1)[2], lambda y: y.chunk(2)[1],
    lambda y: y.unbind()[1].view(3, 1), lambda y: y[:1].unbind()[0], lambda y: y.split(2)[0]])
@BACKENDS
def test_one_of_several_views_is_not_changed_behind_a_graph(part, backend):
    """It is the only result that has to do with its memory, which is no longer than it is."""
    x = torch.linspace(0.5, 1, 6).view(2, 3).requires_grad_()
    plain, found = part(x.exp()), fs.compile(lambda x: part(x.exp()), backend=backend)(x)
    weights = torch.linspace(1, 2, plain.numel()).view(plain.shape)
    expected, = torch.autograd.grad((plain * weights).sum(), x, retain_graph=True)
    gradient, = torch.autograd.grad((found * weights).sum(), x, retain_graph=True)
    torch.testing.assert_close(gradient, expected)
    assert found.stride() == plain.stride()
    for result in (plain, found):
        with pytest.raises(RuntimeError, match="is a view and is being modified inplace"):
            result.add_(1)


@pytest.mark.parametrize("backend", ["aot_eager", "native"])
@pytest.mark.parametrize("one_by_one", [True, False], ids=["one by one", "all or none"])
def test_a_changed_result_is_missed_by_its_own_gradients_only(backend, one_by_one, monkeypatch):
    """Also where torch gives out what a function has saved all or not at all, as it does before 2.13."""
    if not one_by_one:
        monkeypatch.setattr(torch_compat, "SAVED_ONE_BY_ONE", False)
        monkeypatch.setattr(torch_compat.saved_tensors, "SAVED_ONE_BY_ONE", False)

    def function(x):
        y, z = x.exp(), x.sin()
        return y, z * 3, y * z

    def gradients(called):
        x = torch.ones(3, requires_grad=True)
        y, z, both = called(x)
        y.detach().add_(1)
        found = []
        for result in (z, both, z, y, both):
            try:
                found.append(torch.autograd.grad(result.sum(), x, retain_graph=True)[0])
            except RuntimeError as error:
                assert "modified by an inplace operation" in str(error)
                found.append(None)
        return found

    expected = gradients(function)
    assert [gradient is None for gradient in expected] == [False, True, False, True, True]
    torch.testing.assert_close(gradients(fs.compile(function, backend=backend)), expected)
