"""Guards on tensors, modules and PyTorch's global state: change them, see the right result and a recompilation."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from capture.guard_probe import Probe, same

X = torch.arange(6.0).reshape(2, 3)


def inference_tensor() -> torch.Tensor:
    with torch.inference_mode():
        return torch.ones(2, 3)


class Marked(torch.Tensor):
    """A subclass that changes nothing."""


TENSORS: dict[str, Callable[[], torch.Tensor]] = {
    "dtype": lambda: torch.ones(2, 3, dtype=torch.float64),
    "integers": lambda: torch.ones(2, 3, dtype=torch.int64),
    "device": lambda: torch.ones(2, 3, device="meta"),
    "shape": lambda: torch.ones(3, 3),
    "dimensions": lambda: torch.ones(2, 3, 1),
    "stride": lambda: torch.ones(3, 2).t(),
    "expanded": lambda: torch.ones(3).expand(2, 3),
    "requires grad": lambda: torch.ones(2, 3, requires_grad=True),
    "not a leaf": lambda: torch.ones(2, 3, requires_grad=True) * 1,
    "parameter": lambda: nn.Parameter(torch.ones(2, 3)),
    "inference": inference_tensor,
    "subclass": lambda: torch.ones(2, 3).as_subclass(Marked),
    "negative view": lambda: torch.imag(torch.conj(torch.ones(2, 3, dtype=torch.complex64))),
    "sparse": lambda: torch.ones(2, 3).to_sparse(),
}


@pytest.mark.parametrize("kind", TENSORS)
def test_tensor_properties(kind: str) -> None:
    def f(x: torch.Tensor) -> Any:
        y = x * 2
        return y, x.shape, x.dtype, x.requires_grad, type(x).__name__, x.is_leaf

    def run(function: Any, x: torch.Tensor) -> Any:
        y, *rest = function(x)
        plain = y if y.device.type == "meta" or y.is_sparse else y.detach().clone().as_subclass(torch.Tensor)
        return [plain, y.requires_grad, type(y), *rest]

    def equal(left: list[Any], right: list[Any]) -> bool:
        if left[0].is_sparse or left[0].device.type == "meta":
            return repr(left) == repr(right)
        return same(left, right)

    probe = Probe(f)
    changed = TENSORS[kind]()
    for tensor in (X, changed, X, changed):
        before = probe.entries
        expected, actual = run(f, tensor), run(probe.compiled, tensor)
        assert equal(expected, actual), (expected, actual)
        if tensor is changed and before == 1:
            assert probe.entries > 1
    assert before == probe.entries


def test_conjugate_view() -> None:
    def f(x: torch.Tensor) -> Any:
        return x * 2j

    probe = Probe(f)
    x = torch.ones(3, dtype=torch.complex64) * 1j
    assert probe(x) == 1
    assert probe(x.conj()) >= 1
    assert probe(x) == 0
    other = Probe(f)
    other(x.conj())
    assert other(x) >= 1


def test_equal_tensors_share_an_entry() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> Any:
        return x @ y.t()

    probe = Probe(f)
    assert probe(X, X + 1) == 1
    for _ in range(3):
        assert probe(torch.rand(2, 3), torch.rand(2, 3)) == 0


def test_same_tensor_twice() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> Any:
        x.add_(1)
        return x * y, x is y

    probe = Probe(f, copies=True)
    x = torch.ones(3)
    assert probe(x, torch.ones(3)) == 1
    assert probe(x, x) == 1
    assert probe(x, torch.ones(3)) == 0
    assert probe(x, x) == 0


def test_metadata_changed_through_the_other_name() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> Any:
        x.unsqueeze_(0)
        return y.shape, y + 1

    probe = Probe(f, copies=True)
    x = torch.ones(3)
    probe(x, torch.ones(3))
    probe(x, x)


def test_tensors_that_share_memory() -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> Any:
        x.mul_(3)
        return y + 1

    def disjoint() -> Any:
        return torch.ones(4), torch.ones(4)

    def shared() -> Any:
        base = torch.ones(5)
        return base[:4], base[1:]

    probe = Probe(f)
    counts = []
    for make in (disjoint, shared, disjoint, shared):
        (a, b), (c, d) = make(), make()
        expected, before = f(a, b), probe.entries
        assert same(expected, probe.compiled(c, d))
        assert same([a, b], [c, d])
        counts.append(probe.entries - before)
    assert counts == [1, 1, 0, 0]


def test_tensor_attributes() -> None:
    def f(x: torch.Tensor) -> Any:
        return x + getattr(x, "scale", 1), hasattr(x, "other")

    probe, x = Probe(f), torch.ones(3)
    assert probe(x) == 1
    x.scale = 5  # type: ignore[attr-defined]
    assert probe(x) == 1
    x.other = 5  # type: ignore[attr-defined]
    assert probe(x) == 1


def test_grad_present_or_not() -> None:
    def f(x: torch.Tensor) -> Any:
        return x.detach() * 2 if x.grad is None else x.detach() + x.grad

    probe, x = Probe(f), torch.ones(3, requires_grad=True)
    assert probe(x) == 1
    (x * 3).sum().backward()
    assert probe(x) == 1


# Global state


@contextlib.contextmanager
def setting(get: Callable[[], Any], put: Callable[[Any], Any], value: Any) -> Iterator[None]:
    before = get()
    put(value)
    try:
        yield
    finally:
        put(before)


class Doubling(TorchFunctionMode):
    """Doubles the result of every addition."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        return result * 2 if func in (torch.add, torch.Tensor.add, torch.Tensor.__add__) else result


STATES: dict[str, Callable[[], Any]] = {
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu"),
    "autocast float16": lambda: torch.autocast("cpu", dtype=torch.float16),
    "default dtype": lambda: setting(torch.get_default_dtype, torch.set_default_dtype, torch.float64),
    "deterministic": lambda: setting(torch.are_deterministic_algorithms_enabled, torch.use_deterministic_algorithms,
                                     True),
    "num threads": lambda: setting(torch.get_num_threads, torch.set_num_threads, 2),
    "function mode": Doubling,
    "device": lambda: torch.device("meta"),
    "matmul precision": lambda: setting(torch.get_float32_matmul_precision, torch.set_float32_matmul_precision,
                                        "medium"),
}


@pytest.mark.parametrize("state", STATES)
def test_global_state(state: str) -> None:
    def f(x: torch.Tensor, w: torch.Tensor) -> Any:
        facts = (torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu"),
                 torch.get_default_dtype(), torch.are_deterministic_algorithms_enabled(), torch.get_num_threads(),
                 torch.get_float32_matmul_precision())
        return x @ w, torch.ones(2).dtype, torch.ones(2).device.type, x + 1.5, facts

    probe = Probe(f)
    w = torch.ones(3, 2, requires_grad=True)
    assert probe(X, w) == 1
    assert probe(X, w) == 0
    with STATES[state]():
        changes = probe(X, w)
        assert changes >= 1 or state == "function mode"
        assert probe(X, w) == 0
    assert probe(X, w) == 0


def test_two_devices_and_two_autocast_types() -> None:
    def f(x: torch.Tensor) -> Any:
        return torch.ones(2).device.type, x @ x.t(), torch.get_default_device().type

    probe = Probe(f)
    with torch.device("cpu"):
        probe(X)
    with torch.device("meta"):
        probe(X)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        probe(X)
    with torch.autocast("cpu", dtype=torch.float16):
        probe(X)
    with torch.autocast("cpu", enabled=False):
        probe(X)


def test_default_device() -> None:
    def f(x: torch.Tensor) -> Any:
        return torch.ones(2).device.type, x + 1

    probe = Probe(f)
    probe(X)
    try:
        torch.set_default_device("meta")
        probe(X)
        torch.set_default_device("cpu")
        probe(X)
    finally:
        torch.set_default_device(None)
    assert probe(X) == 0


def test_functorch_transforms() -> None:
    def f(x: torch.Tensor) -> Any:
        return (x * 2).sum()

    probe = Probe(f)
    assert probe(X) == 1
    assert same(torch.vmap(f)(X), torch.vmap(probe.compiled)(X))
    assert same(torch.func.grad(f)(X), torch.func.grad(probe.compiled)(X))
    assert probe(X) == 0


def test_warn_only_deterministic() -> None:
    def f(x: torch.Tensor) -> Any:
        return x + 1, torch.is_deterministic_algorithms_warn_only_enabled()

    probe = Probe(f)
    try:
        torch.use_deterministic_algorithms(True)
        assert probe(X) == 1
        torch.use_deterministic_algorithms(True, warn_only=True)
        assert probe(X) == 1
    finally:
        torch.use_deterministic_algorithms(False)


# Modules


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.norm = nn.BatchNorm1d(3)
        self.drop = nn.Dropout(0.5)
        self.scale = 2.0
        self.register_buffer("shift", torch.zeros(3))
        self.layers = nn.ModuleList([nn.Linear(3, 3), nn.ReLU()])
        self.extra: nn.Module | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.linear(x) * self.scale + self.shift
        for layer in self.layers:
            x = layer(x)
        if self.extra is not None:
            x = self.extra(x)
        return x


def replace_linear(net: Net) -> None:
    net.linear = nn.Linear(3, 3, bias=False)


def hook(module: nn.Module, args: Any, result: torch.Tensor) -> torch.Tensor:
    return result + 100


def pre_hook(module: nn.Module, args: Any) -> Any:
    return (args[0] * 2,)


CHANGES: dict[str, Callable[[Net], Any]] = {
    "attribute": lambda net: setattr(net, "scale", 3.0),
    "submodule replaced": replace_linear,
    "submodule added": lambda net: setattr(net, "extra", nn.Tanh()),
    "layer appended": lambda net: net.layers.append(nn.Tanh()),
    "layer replaced": lambda net: net.layers.__setitem__(1, nn.Tanh()),
    "parameter frozen": lambda net: net.linear.weight.requires_grad_(False),
    "parameter replaced": lambda net: setattr(net.linear, "weight", nn.Parameter(torch.ones(3, 3).t())),
    "bias removed": lambda net: setattr(net.linear, "bias", None),
    "buffer dtype": lambda net: setattr(net, "shift", torch.ones(3, dtype=torch.int64)),
    "forward hook": lambda net: net.linear.register_forward_hook(hook),
    "forward pre-hook": lambda net: net.register_forward_pre_hook(pre_hook),
    "forward hook on a list's layer": lambda net: net.layers[0].register_forward_hook(hook),
    "forward replaced": lambda net: setattr(net.linear, "forward", lambda x: x * 7),
}


@pytest.mark.parametrize("change", CHANGES)
def test_module_changes(change: str) -> None:
    net = Net()

    def f(net: Net, x: torch.Tensor) -> Any:
        return net(x)

    probe = Probe(f)
    assert probe(net, X) == 1
    assert probe(net, X) == 0
    CHANGES[change](net)
    assert probe(net, X) >= 1
    assert probe(net, X) == 0


@pytest.mark.parametrize("change", CHANGES)
def test_compiled_module_changes(change: str) -> None:
    import firesteel as fs

    net = Net()
    compiled = fs.compile(net, backend="eager")
    assert same(net(X), compiled(X))
    CHANGES[change](net)
    assert same(net(X), compiled(X))


def test_new_parameter_values_do_not_recompile() -> None:
    net = Net()

    def f(net: Net, x: torch.Tensor) -> Any:
        return net(x)

    probe = Probe(f)
    assert probe(net, X) == 1
    with torch.no_grad():
        net.linear.weight.mul_(2)
    net.linear.bias = nn.Parameter(torch.ones(3))
    net.unrelated = 5  # type: ignore[assignment]
    assert probe(net, X) == 0
    assert probe(Net(), X) == 0


def test_training_flag() -> None:
    net = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))

    def f(net: nn.Module, x: torch.Tensor) -> Any:
        return net(x)

    probe = Probe(f, copies=True)
    assert probe(net, X) == 1
    net.eval()
    assert probe(net, X) == 1
    net[1].train()
    assert probe(net, X) == 0  # nothing reads the outer module's flag
    net.train()
    assert probe(net, X) == 0


def test_dropout_follows_training() -> None:
    drop = nn.Dropout(0.5)

    def f(x: torch.Tensor) -> torch.Tensor:
        return drop(x)

    probe = Probe(f)
    x = torch.ones(100)
    torch.manual_seed(0)
    expected = f(x)
    torch.manual_seed(0)
    assert same(expected, probe.compiled(x))
    drop.eval()
    assert probe(x) == 1
    drop.p = 0.9
    drop.train()
    torch.manual_seed(0)
    expected = f(x)
    torch.manual_seed(0)
    assert same(expected, probe.compiled(x))


def test_hooks_removed_and_global_hooks() -> None:
    net = nn.Linear(3, 3)

    def f(x: torch.Tensor) -> Any:
        return net(x)

    probe = Probe(f)
    handle = net.register_forward_hook(hook)
    assert probe(X) >= 1
    handle.remove()
    assert probe(X) >= 1
    everywhere = nn.modules.module.register_module_forward_hook(hook)
    try:
        assert probe(X) >= 1
    finally:
        everywhere.remove()
    assert probe(X) == 0
    everywhere = nn.modules.module.register_module_forward_pre_hook(pre_hook)
    try:
        probe(X)
    finally:
        everywhere.remove()


def test_second_hook_and_replaced_hook() -> None:
    net = nn.Linear(3, 3)

    def f(x: torch.Tensor) -> Any:
        return net(x)

    probe = Probe(f)
    first = net.register_forward_hook(hook)
    assert probe(X) >= 1
    net.register_forward_hook(lambda module, args, result: result * 3)
    assert probe(X) >= 1
    first.remove()
    assert probe(X) >= 1


def test_shared_and_separate_submodules() -> None:
    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            return x + self.calls

    class Pair(nn.Module):
        def __init__(self, left: nn.Module, right: nn.Module) -> None:
            super().__init__()
            self.left, self.right = left, right

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.left(x) * self.right(x)

    def f(net: Pair, x: torch.Tensor) -> Any:
        return net(x)

    probe = Probe(f, copies=True)
    shared = Counter()
    assert probe(Pair(Counter(), Counter()), X) == 1
    assert probe(Pair(shared, shared), X) == 1
    assert probe(Pair(Counter(), Counter()), X) == 0


def test_module_class_changes() -> None:
    class Small(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.helper(x)

        def helper(self, x: torch.Tensor) -> torch.Tensor:
            return x + 1

    net = Small()

    def f(x: torch.Tensor) -> Any:
        return net(x)

    probe = Probe(f)
    assert probe(X) == 1
    Small.helper = lambda self, x: x - 1  # type: ignore[method-assign]
    assert probe(X) == 1
    Small.forward = lambda self, x: x * 5  # type: ignore[method-assign]
    assert probe(X) == 1
    Small.__call__ = lambda self, x: x * 9  # type: ignore[method-assign]
    assert probe(X) == 1
