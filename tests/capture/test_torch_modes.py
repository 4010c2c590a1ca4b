"""Grad mode, inference mode, autocast and function modes: as context managers, decorators, nested, around breaks."""

import contextlib

import pytest
import torch
from tests.torch_differential import check

import firesteel as fs


def leaf():
    return (torch.randn(3, 4, requires_grad=True),)


def test_no_grad():
    def f(x):
        a = x * 2
        with torch.no_grad():
            b = a * 3
            inside = torch.is_grad_enabled()
        return a, b, b * x, inside, torch.is_grad_enabled()

    check(f, leaf, backward=True)


def test_nested_modes():
    def f(x):
        with torch.no_grad():
            a = x * 2
            with torch.enable_grad():
                b = x * 3
                with torch.set_grad_enabled(False):
                    c = b * 2
            d = b * 2
        return a, b, c, d, x * 4

    check(f, leaf, backward=True)


def test_set_grad_enabled_as_function():
    def f(x):
        a = x * 2
        torch.set_grad_enabled(False)
        b = a * 2
        torch.set_grad_enabled(True)
        return a, b, a * b

    check(f, leaf, backward=True)


def test_set_grad_enabled_with_a_flag():
    def f(x, flag):
        with torch.set_grad_enabled(flag):
            return x * 2

    check(f, lambda: (*leaf(), True), backward=True)
    check(f, lambda: (*leaf(), False))


def test_grad_mode_left_changed():
    def f(x):
        torch.set_grad_enabled(False)
        return x * 2

    try:
        expected = f(*leaf()).requires_grad
    finally:
        torch.set_grad_enabled(True)
    import firesteel as fs

    compiled = fs.compile(f, backend="eager", fullgraph=True)
    for _ in range(2):
        try:
            assert compiled(*leaf()).requires_grad == expected
            assert not torch.is_grad_enabled()
        finally:
            torch.set_grad_enabled(True)


def test_decorators():
    @torch.no_grad()
    def quiet(x):
        return x * 2

    @torch.enable_grad()
    def loud(x):
        return x * 3

    @torch.inference_mode()
    def still(x):
        return x * 4

    @torch.set_grad_enabled(False)
    def off(x):
        return x * 5

    check(lambda x: (quiet(x), loud(x), off(x), x * 2), leaf, backward=True)
    check(lambda x: (still(x), x * 2), leaf)
    check(quiet, leaf)
    check(torch.no_grad()(lambda x: (loud(x), x * 2)), leaf)
    with torch.no_grad():
        check(lambda x: (quiet(x), loud(x), x * 2), leaf)


def test_called_under_a_mode():
    with torch.no_grad():
        check(lambda x: x * 2, leaf)
    with torch.inference_mode():
        check(lambda x: x * 2, leaf)
        check(lambda x: (x.is_inference(), (x * 2).is_inference(), x.add(1).mul_(2)), lambda: (torch.randn(3),))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        check(lambda x: x @ x.T, leaf)


def test_inference_mode():
    def f(x):
        with torch.inference_mode():
            y = x * 2
            inside = torch.is_inference_mode_enabled()
            z = y.view(-1)[1:].add_(1)
        return y, z, inside, y.is_inference(), y.requires_grad

    check(f, leaf)

    def off(x):
        with torch.inference_mode(False):
            return x * 2

    check(off, leaf, backward=True)

    def nested(x):
        with torch.inference_mode():
            with torch.inference_mode(mode=False):
                y = x * 2
            z = x * 3
        return y, z, x * 4

    check(nested, leaf)


def test_inference_tensors_as_inputs():
    def make():
        with torch.inference_mode():
            return (torch.randn(3),)

    check(lambda x: x * 2, make)
    check(lambda x: (x.is_inference(), x.view(-1)), make)


def test_modes_around_breaks():
    def f(x):
        with torch.no_grad():
            y = x * 2
            print(y.sum().item() * 0, end="")
            z = y * 3
        return y, z, x * 4

    check(f, leaf, fullgraph=False, backward=True)

    def inference(x):
        with torch.inference_mode():
            y = x * 2
            n = int(y.sum().item() * 0) + 1
            z = y * n
        return y, z, x * 4

    check(inference, leaf, fullgraph=False, backward=True)

    def autocast(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = x @ x.T
            n = int(y.sum().item() * 0) + 1
            z = y @ y * n
        return y, z, x @ x.T

    check(autocast, leaf, fullgraph=False, backward=True)


def test_mode_left_by_exception():
    def f(x):
        try:
            with torch.no_grad():
                y = x * 2
                raise ValueError("no")
        except ValueError:
            pass
        return y, x * 3

    check(f, leaf, backward=True)

    def out(x):
        with torch.no_grad():
            x = x * 2
            raise ValueError("no")

    check(out, leaf, raises=ValueError)


def test_autocast():
    def f(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = x @ x.T
            with torch.autocast("cpu", enabled=False):
                z = x @ x.T
            w = torch.nn.functional.softmax(y, -1)
            on = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")
        return y, z, w, on, x @ x.T

    check(f, leaf, backward=True)

    @torch.autocast("cpu", dtype=torch.float16)
    def decorated(x):
        return x @ x.T

    check(lambda x: (decorated(x), x @ x.T), leaf)

    @torch.amp.autocast(device_type="cpu")
    def default(x):
        return torch.nn.functional.linear(x, x)

    check(lambda x: default(x), leaf, backward=True)


def test_autocast_with_module_weights():
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.LayerNorm(4), torch.nn.Linear(4, 2))

    def f(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return model(x)

    def fresh():
        model.zero_grad()
        return leaf()

    check(f, fresh, backward=True)


def test_other_contexts():
    def f(x):
        with contextlib.nullcontext(), torch.autograd.profiler.record_function("part"):
            return x * 2

    check(f, leaf, fullgraph=False, backward=True)

    def anomaly(x):
        with torch.autograd.set_detect_anomaly(True):
            return x * 2

    check(anomaly, leaf, fullgraph=False, backward=True)

    def sdpa(x):
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            return torch.nn.functional.scaled_dot_product_attention(x[None], x[None], x[None])

    check(sdpa, leaf, fullgraph=False, backward=True)

    def threads(x):
        return torch.get_num_threads(), torch.are_deterministic_algorithms_enabled(), x * 2

    check(threads, leaf, backward=True)

    def saved(x):
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t * 2, lambda t: t):
            return x * x

    check(saved, leaf, fullgraph=False, backward=True)


def test_function_mode_active():
    class Doubling(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            return result * 2 if func is torch.sin else result

    import firesteel as fs

    compiled = fs.compile(lambda x: torch.sin(x), backend="eager")
    x = torch.randn(3)
    for _ in range(2):
        with Doubling():
            assert torch.equal(compiled(x), torch.sin(x))
        assert torch.equal(compiled(x), torch.sin(x))

    def inside(x):
        with Doubling():
            return torch.sin(x)

    check(inside, leaf, fullgraph=False, backward=True)


def test_dispatch_mode_active():
    from torch.utils._python_dispatch import TorchDispatchMode

    class Counting(TorchDispatchMode):
        calls = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            Counting.calls += 1
            return func(*args, **(kwargs or {}))

    import firesteel as fs

    compiled = fs.compile(lambda x: x.sin() + 1, backend="eager")
    for _ in range(2):
        Counting.calls = 0
        with Counting():
            result = compiled(torch.ones(3))
        assert Counting.calls == 3  # one of them makes the argument
        assert torch.equal(result, torch.ones(3).sin() + 1)


@pytest.mark.parametrize("manager", [torch.no_grad, torch.enable_grad, torch.inference_mode])
def test_managers_made_outside(manager):
    made = manager()

    def f(x):
        with made:
            y = x * 2
        return y, x * 3

    check(f, leaf, backward=manager is not torch.inference_mode)


def test_inference_mode_left_by_an_exception():
    def caught(x):
        try:
            with torch.inference_mode():
                y = x * 2
                z = y.view(7)
        except RuntimeError:
            z = x + 1
        return z, torch.is_inference_mode_enabled()

    check(caught, leaf, fullgraph=False, backward=True)

    def while_the_graph_runs(x):
        with torch.inference_mode(), torch.no_grad():
            y = x * 2
            torch.linalg.cholesky(-torch.eye(3))
        return y

    check(while_the_graph_runs, leaf, raises=torch.linalg.LinAlgError)


def test_inference_mode_in_a_loop():
    def f(x):
        for i in range(2):
            with torch.inference_mode(i == 0):
                y = x * 2
        return y

    check(f, leaf, backward=True)


def test_modes_in_generators():
    def inside(x):
        with torch.no_grad():
            yield x * 2
            yield x * 3

    @torch.no_grad()
    def decorated(x):
        yield x * 2
        yield x * 3

    check(lambda x: [*inside(x), x * 4], leaf, backward=True)
    check(lambda x: [*decorated(x), x * 4], leaf, backward=True)


class Decorated(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    @torch.no_grad()
    def encode(self, x):
        return self.linear(x)

    @torch.autocast("cpu", dtype=torch.bfloat16)
    def forward(self, x):
        return self.linear(x) + self.encode(x)


def test_decorated_methods():
    check(lambda m, x: m(x), lambda: (Decorated(), *leaf()), backward=True)


def test_profiler_regions():
    def f(x):
        with torch.profiler.record_function("ours"):
            return x.sin() + 1

    check(f, leaf, backward=True)

    def broken(x):
        with torch.profiler.record_function("ours"):
            return x.sin() + x.sum().item()

    check(broken, leaf, fullgraph=False, backward=True)
    import firesteel as fs

    compiled = fs.compile(f, backend="eager")
    compiled(*leaf())
    with torch.profiler.profile() as profile:
        compiled(*leaf())
    events = {event.key: event for event in profile.key_averages()}
    assert events["ours"].cpu_time_total >= events["aten::sin"].cpu_time_total


def _left(x, way, steps):
    for _ in range(steps):
        with torch.autocast("cpu", torch.bfloat16):
            y = x @ x
            fs.graph_break()
            if way == "raise":
                raise ValueError
            if way == "return":
                return y
            if way == "break":
                break
            if way == "continue":
                continue
            if way == "fail":
                torch.cat([y, torch.ones(3, 3)])
            y = y @ x
    return y


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "native"])
@pytest.mark.parametrize("way", ["end", "raise", "return", "break", "continue", "fail"])
def test_autocast_left_behind_a_break_is_over(backend, way):
    compiled = fs.compile(_left, backend=backend)
    for requires_grad in (False, True):
        for _ in range(2):
            with contextlib.suppress(ValueError, RuntimeError):
                compiled(torch.ones(2, 2, requires_grad=requires_grad), way, 2)
            assert not torch.is_autocast_enabled("cpu")
            torch.autocast_increment_nesting()
            assert torch.autocast_decrement_nesting() == 0


def test_the_outermost_autocast_block_is_found_in_each_call():
    def f(x, w):
        with torch.autocast("cpu", torch.bfloat16):
            return x @ w

    compiled = fs.compile(f, backend="eager")
    x, w = torch.ones(1, 2), torch.ones(2, 2, requires_grad=True)
    with torch.autocast("cpu", enabled=False):  # here the block is not the outermost, and its cache stays
        assert compiled(x, w).sum().item() == 4
    results = []
    for _ in range(2):
        results.append(compiled(x, w).sum().item())
        with torch.no_grad():
            w.add_(1)
    assert results == [4, 8]


@pytest.fixture
def flags_may_be_set(monkeypatch):
    """torch's own tests, which other tests here import, forbid it for the rest of the process."""
    monkeypatch.setitem(torch.backends.flags_frozen.__globals__, "__allow_nonbracketed_mutation_flag", True)


@pytest.mark.parametrize("backend", ["eager", "native"])
def test_flags_of_backends_are_read_and_set(backend, flags_may_be_set):
    def f(x):
        before = torch.backends.cudnn.benchmark
        torch.backends.cudnn.benchmark = True
        inside = torch.backends.cudnn.benchmark
        x = x * 2
        torch.backends.cudnn.benchmark = before
        return x, before, inside, torch.backends.cudnn.benchmark

    def stays(x):
        torch.backends.cudnn.benchmark = not torch.backends.cudnn.benchmark
        return x + 1

    compiled, changing = (fs.compile(function, backend=backend, fullgraph=True) for function in (f, stays))
    earlier = torch.backends.cudnn.benchmark
    try:
        for flag in (False, True, False):
            torch.backends.cudnn.benchmark = flag
            assert compiled(torch.ones(2))[1:] == (flag, True, flag)
            assert torch.backends.cudnn.benchmark is flag
            changing(torch.ones(2))
            assert torch.backends.cudnn.benchmark is not flag
    finally:
        torch.backends.cudnn.benchmark = earlier
