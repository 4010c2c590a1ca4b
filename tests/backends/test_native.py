"""The native backend through compile: results, strides, mutation, fallbacks, options, logs and the debug folder."""

from __future__ import annotations

import gc
import threading
import warnings
import weakref

import pytest
import torch
import torch.nn.functional as F

import firesteel as fs
from firesteel import config
from firesteel.backends import list_backends, native
from firesteel.errors import BackendError, FiresteelWarning, UserCodeError
from firesteel.kernels.options import MODES, make_options

pytestmark = pytest.mark.usefixtures("quick_collections")


@pytest.fixture(autouse=True)
def strict():
    with config.patch(raise_on_internal_error=True), torch.no_grad():
        torch.manual_seed(0)
        yield


def check(f, *args, dynamic=None, calls=2):
    """Compiled and eager agree in values, dtypes, strides, and in what they do to their arguments."""
    compiled = fs.compile(f, backend="native", fullgraph=True, dynamic=dynamic)
    for _ in range(calls):
        mine, theirs = [[a.clone() if isinstance(a, torch.Tensor) else a for a in args] for _ in range(2)]
        result, expected = compiled(*mine), f(*theirs)
        torch.testing.assert_close(result, expected)
        torch.testing.assert_close(mine, theirs)
        for one, other in zip(tensors(result), tensors(expected), strict=True):
            assert one.dtype is other.dtype and one.stride() == other.stride()
            assert type(one) is type(other) and one.is_inference() == other.is_inference()
    return compiled


def tensors(value):
    if isinstance(value, torch.Tensor):
        return [value]
    return [t for part in value for t in tensors(part)] if isinstance(value, (tuple, list)) else []


def layered(x):
    hidden = F.layer_norm(x, (8,))
    return F.softmax(F.gelu(hidden) @ hidden.t(), dim=-1)


def changing(x, y):
    x.add_(1)
    y[1:].mul_(x.sum())
    return x * 2, x, y[1:]


def swapping(x, y):
    old = x.clone()
    x.copy_(y)
    y.copy_(old)


PROGRAMS = {
    "pointwise": (lambda x, y: torch.sin(x) + y * 2, (torch.randn(4), torch.randn(4))),
    "broadcast": (lambda x, y: (x + y).relu(), (torch.randn(4, 1), torch.randn(3))),
    "layered": (layered, (torch.randn(6, 8),)),
    "matmul": (lambda x, y: (x @ y).tanh(), (torch.randn(4, 3), torch.randn(3, 5))),
    "transposed result": (lambda x: x.t() + 1, (torch.randn(4, 3),)),
    "views of an input": (lambda x: (x.t(), x[1], x), (torch.randn(4, 3),)),
    "views of one result": (lambda x: (lambda y: (y, y.t(), y[0]))(x.exp()), (torch.randn(4, 3),)),
    "one result twice": (lambda x: (lambda y: (y, y))(x.exp()), (torch.randn(4, 3),)),
    "mutation": (changing, (torch.randn(4), torch.randn(5))),
    "swap": (swapping, (torch.randn(4), torch.randn(4))),
    "nothing to compute": (lambda x: (x.view(2, 2), None, 3), (torch.randn(4),)),
    "sort": (lambda x: torch.sort(x * 2, -1), (torch.randn(4, 3),)),
    "sizes": (lambda x: x * x.shape[0] + x.shape[1], (torch.randn(4, 3),)),
    "sizes that data decides": (
        lambda x: torch.unique_consecutive(x, return_counts=True, return_inverse=True),
        (torch.tensor([1, 1, 2, 3, 3]),),
    ),
    "no elements": (lambda x: x.exp() + 1, (torch.randn(0, 3),)),
    "a scalar": (lambda x: x.exp().sum(), (torch.randn(()),)),
    "integers": (lambda x: (x // 2 + 1, x > 3), (torch.arange(8),)),
    "bfloat16": (lambda x: F.silu(x) * 2, (torch.randn(8).bfloat16(),)),
    "channels last": (
        lambda x, w: F.conv2d(x, w).relu(),
        (torch.randn(2, 3, 6, 6).to(memory_format=torch.channels_last), torch.randn(4, 3, 3, 3)),
    ),
    "complex": (lambda x: (x * 2).abs() + 1, (torch.randn(4, dtype=torch.complex64),)),
    "random": (lambda x: (x + 1, torch.zeros(3).index_fill(0, torch.tensor([1]), 2.0)), (torch.randn(4),)),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("dynamic", [None, True], ids=["static", "dynamic"])
def test_results_equal_eager(name, dynamic):
    f, args = PROGRAMS[name]
    check(f, *args, dynamic=dynamic)


def test_one_compilation_serves_many_sizes():
    compiled = fs.compile(layered, backend="native", dynamic=True)
    for rows in (2, 3, 17, 64):
        x = torch.randn(rows, 8)
        torch.testing.assert_close(compiled(x), layered(x))
    assert len(compiled._firesteel_unit.entries) == 1


def test_numbers_are_inputs():
    def f(x, n, factor):
        return x * factor + n

    compiled = fs.compile(f, backend="native")
    for n, factor in ((1, 0.5), (2, 1.5), (7, -2.0), (8, 3.25)):
        x = torch.randn(5)
        torch.testing.assert_close(compiled(x, n, factor), f(x, n, factor))


def test_random_numbers_are_those_of_eager():
    def f(x):
        return F.dropout(x, 0.5, training=True) + torch.rand(4)

    torch.manual_seed(7)
    expected = f(torch.ones(4))
    torch.manual_seed(7)
    assert torch.equal(fs.compile(f, backend="native")(torch.ones(4)), expected)


def test_modules_and_their_buffers():
    class Counting(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(8, 4)
            self.register_buffer("calls", torch.zeros(()))

        def forward(self, x):
            self.calls.add_(1)
            return F.gelu(self.linear(x))

    module = Counting().eval()
    compiled = fs.compile(module, backend="native")
    for count in (1, 2, 3):
        x = torch.randn(count, 8)
        torch.testing.assert_close(compiled(x), F.gelu(module.linear(x)))
        assert float(module.calls) == count


def test_inference_mode():
    with torch.inference_mode():
        check(lambda x, w: (x @ w).relu() + 1, torch.randn(3, 3), torch.randn(3, 3))


def test_autocast():
    with torch.autocast("cpu", dtype=torch.bfloat16):
        check(lambda x, w: (x @ w).relu() + 1, torch.randn(3, 3), torch.randn(3, 3))


def test_storage_offsets_and_strides_of_inputs():
    base = torch.randn(6, 8)
    f = fs.compile(lambda x: x.exp() + 1, backend="native")
    for x in (base[1:], base[:, 3:5], base.t()[1::2], base[::2, ::3]):
        result, expected = f(x), x.exp() + 1
        torch.testing.assert_close(result, expected)
        assert result.stride() == expected.stride()


# What it does not compile


def fallbacks(capfd, f, *args):
    fs.set_logs("fallbacks")
    try:
        result = fs.compile(f, backend="native")(*args)
    finally:
        fs.set_logs()
    return result, capfd.readouterr().err


def test_training_is_compiled(capfd):
    x = torch.randn(3, requires_grad=True)
    with torch.enable_grad():
        result, log = fallbacks(capfd, lambda x: (x * 2).sum(), x)
        result.backward()
    assert torch.equal(x.grad, torch.full((3,), 2.0))
    assert "operator by operator" not in log


def test_other_devices_run_operator_by_operator(capfd):
    result, log = fallbacks(capfd, lambda x: x + 1, torch.ones(3, device="meta"))
    assert result.device.type == "meta" and "is on the device meta" in log


@pytest.mark.parametrize("make", [
    lambda x: torch.full_like(x, 2.0, device="meta"), lambda x: x.new_full((2,), 1.0, device="meta"),
    lambda x: torch.ones_like(x + 1, device="meta") * 2, lambda x: torch.arange(3, device="meta"),
    lambda x: (x + 1).to("meta"), lambda x: torch.empty_strided((2, 3), (1, 2), device="meta"),
])  # fmt: skip
def test_what_is_made_on_another_device_is_there(make):
    x = torch.randn(4)
    results, expected = fs.compile(lambda x: (make(x), x.exp()), backend="native")(x), make(x)
    assert results[0].device == expected.device and results[0].shape == expected.shape
    assert results[0].stride() == expected.stride() and results[0].dtype is expected.dtype
    torch.testing.assert_close(results[1], x.exp())


def test_lazily_negated_inputs_run_operator_by_operator():
    x = torch.randn(3, dtype=torch.complex64).conj().imag
    assert "lazily" in native.unsupported_reason([x])
    assert torch.equal(fs.compile(lambda x: x + 1, backend="native")(x), x + 1)


def test_kernels_that_the_printer_refuses_run_operator_by_operator(monkeypatch, capfd):
    from firesteel.functional import Unsupported
    from firesteel.kernels.cpu import engine

    def refuse(*_):
        raise Unsupported("the function zeta")

    monkeypatch.setattr(engine, "compile_kernels", refuse)
    result, log = fallbacks(capfd, lambda x: x + 1, torch.ones(2))
    assert result.tolist() == [2.0, 2.0] and "operator by operator: the function zeta" in log


def test_stages_can_be_loaded_beforehand():
    from firesteel.pipeline.compile import load_stages

    load_stages()


def test_an_internal_failure_is_one_warning_and_eager(monkeypatch):
    from firesteel.pipeline import compile as road

    def broken(*_):
        raise ValueError("out of order")

    monkeypatch.setattr(road, "compile_graph", broken)
    with pytest.raises(BackendError, match="out of order"):
        fs.compile(lambda x: x + 1, backend="native")(torch.ones(2))
    with config.patch(raise_on_internal_error=False), warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        f = fs.compile(lambda x: x + 1, backend="native")
        assert f(torch.ones(2)).tolist() == [2.0, 2.0] and f(torch.ones(2)).tolist() == [2.0, 2.0]
    assert len(seen) == 1 and seen[0].category is FiresteelWarning and "out of order" in str(seen[0].message)


def test_a_backward_that_cannot_be_compiled_runs_operator_by_operator(monkeypatch):
    from firesteel.pipeline import compile as road

    whole = road.compile_functional

    def broken(half, options, name, **others):
        if "backward" in name:
            raise ValueError("out of order")
        return whole(half, options, name, **others)

    def gradients(f):
        x = torch.linspace(-1, 1, 12).reshape(3, 4).requires_grad_()
        with torch.enable_grad():
            return [torch.autograd.grad(f(x), x)[0] for _ in range(2)]

    def program(x):
        return (torch.softmax(x, -1) * x).square().sum()

    monkeypatch.setattr(road, "compile_functional", broken)
    with pytest.raises(ValueError, match="out of order"):
        gradients(fs.compile(program, backend="native"))
    with config.patch(raise_on_internal_error=False), warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        torch.testing.assert_close(gradients(fs.compile(program, backend="native")), gradients(program))
    assert len(seen) == 1 and seen[0].category is FiresteelWarning and "out of order" in str(seen[0].message)


# Options, logs, the debug folder


def test_it_is_listed():
    assert "native" in list_backends()


def test_options_are_checked():
    assert make_options().max_autotune is False
    assert make_options({"max_autotune": True}) == make_options(mode="max-autotune-no-cudagraphs")
    assert make_options({"max_autotune": True, "cuda_graphs": True}) == make_options(mode="max-autotune")
    assert all(make_options(mode=mode) for mode in MODES)
    with pytest.raises(UserCodeError, match="did you mean 'max_autotune'"):
        make_options({"max_autotne": True})
    with pytest.raises(UserCodeError, match="the options are"):
        make_options({"zzz": True})
    with pytest.raises(UserCodeError, match="of type bool"):
        make_options({"max_autotune": 1})


def test_the_host_program_can_be_plain_python():
    def backend(gm, example_inputs):
        return native.native(gm, example_inputs, options={"native_host": False})

    x, w = torch.randn(4, 3), torch.randn(3, 3)
    f = fs.compile(lambda x, w: (x.exp() @ w).relu() + x, backend=backend)
    torch.testing.assert_close(f(x, w), (x.exp() @ w).relu() + x)


def test_the_log_shows_kernels_and_the_host_program(capfd):
    fs.set_logs("kernels")
    try:
        fs.compile(lambda x: x.exp() + 1, backend="native")(torch.randn(5))
    finally:
        fs.set_logs()
    log = capfd.readouterr().err
    assert "kernel k0(" in log and "def run(x):" in log and "k0(x, buf" in log


def test_the_debug_folder_shows_every_stage(tmp_path):
    with config.patch(debug_dir=str(tmp_path)):
        fs.compile(lambda x, w: (x @ w).exp() + 1, backend="native")(torch.randn(3, 3), torch.randn(3, 3))
    (folder,) = tmp_path.iterdir()
    text = {path.name: path.read_text() for path in folder.iterdir()}
    assert "x @ w" in text["captured.py"] or "matmul" in text["captured.py"]
    assert "aten.mm.default" in text["functional.txt"]
    assert "exp(" in text["lowered.txt"] and "exp(" in text["kernels.txt"]
    assert "define " in text["kernels.ll"] and "mm(x, w)" in text["host.py"]
    assert {"plan.txt", "kernels.s", "times.txt"} <= set(text)


# Lifetimes and threads


def test_results_and_compiled_code_are_let_go():
    def f(x, w):
        return (x @ w).exp() + 1

    compiled = fs.compile(f, backend="native")
    x = torch.randn(3, 3)
    result = compiled(x, x)
    dead = [weakref.ref(result), weakref.ref(x)]
    del result, x
    gc.collect()
    assert [ref() for ref in dead] == [None, None]


def test_threads():
    f = fs.compile(lambda x, w: (x @ w).exp().sum(1), backend="native")
    inputs = [(torch.randn(64, 64) / 8, torch.randn(64, 64) / 8) for _ in range(4)]
    expected = [(x @ w).exp().sum(1) for x, w in inputs]
    wrong: list[int] = []

    def work(number):
        with torch.no_grad():
            for _ in range(50):
                if not torch.allclose(f(*inputs[number]), expected[number], rtol=1e-4):
                    wrong.append(number)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_running_means_of_short_floats_are_not_rounded(dtype):
    def means(compiled):
        torch.manual_seed(0)
        norm = torch.nn.BatchNorm1d(2)
        (fs.compile(norm) if compiled else norm)(torch.randn(7, 2).to(dtype))
        return norm.running_mean

    torch.testing.assert_close(means(True), means(False), rtol=0, atol=1e-7)
