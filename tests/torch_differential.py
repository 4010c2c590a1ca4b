"""Runs a PyTorch program plainly and compiled, on equal arguments, and compares everything that can be observed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from tests.fuzz.snapshot import Facts, Snapshot, TensorFact

import firesteel as fs
from firesteel.events import Events
from firesteel.runtime.compiler import COMPILERS


@dataclass
class Outcome:
    """How the compiled runs went."""

    graphs: int
    breaks: list[str]
    recompilations: list[str]
    result: Any
    graph_modules: list[torch.fx.GraphModule] = field(default_factory=list)


class TorchSnapshot(Snapshot):
    """Also knows tensors without strides, and which operation autograd thinks a tensor comes from."""

    def _tensor(self, path: str, value: torch.Tensor) -> None:
        if value.layout is torch.strided and not value.is_nested:
            super()._tensor(path, value)
            if value.requires_grad:
                self.facts.append((path + ".grad_fn", type(value.grad_fn).__name__))
            return
        self.facts.append((path, (value.layout, value.dtype, value.requires_grad, repr(value.detach()))))
        if value.is_leaf and value.grad is not None:
            self.add(path + ".grad", value.grad)


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """The tensors of nested containers."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item)
    elif isinstance(value, dict):
        yield from tensors_in(list(value.values()))


def backpropagate(result: Any) -> None:
    """Backward from the sum of everything differentiable in a result, with weights that tell elements apart."""
    total: Any = None
    for tensor in tensors_in(result):
        if tensor.requires_grad and (tensor.is_floating_point() or tensor.is_complex()):
            part = torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor
            weight = torch.linspace(0.5, 1.5, part.numel(), dtype=part.dtype).reshape(part.shape)
            total = (part * weight).sum() if total is None else total + (part * weight).sum()
    if total is not None:
        total.backward()


def observe(f: Callable[..., Any], make_args: Callable[[], tuple[Any, ...]], backward: bool) -> tuple[Facts, Any]:
    """Run once and collect the facts: result or exception, arguments afterwards, gradients, random and grad state."""
    torch.manual_seed(17)
    torch.utils.hooks.RemovableHandle.next_id = 0  # hooks are kept under numbers that count up
    args = make_args()
    torch.manual_seed(29)
    snapshot = TorchSnapshot()
    result = None
    try:
        result = f(*args)
    except Exception as error:
        snapshot.facts.append(("raised", (type(error), str(error))))
    else:
        if backward:
            backpropagate(result)
        snapshot.add("args", list(args))
        snapshot.add("result", result)
    snapshot.add("random state", torch.get_rng_state())
    snapshot.facts.append(
        (
            "state",
            (
                torch.is_grad_enabled(),
                torch.is_inference_mode_enabled(),
                torch.is_autocast_enabled("cpu"),
                torch.get_default_dtype(),
            ),
        )
    )
    return snapshot.facts, result


def differences(expected: Facts, actual: Facts, exact: bool = True) -> list[str]:
    """What two runs disagree on. Captured graphs call the same kernels, so floats are compared bit by bit; not `exact`
    is for kernels whose last bits depend on where memory happens to lie."""
    found = []
    if [path for path, _ in expected] != [path for path, _ in actual]:
        missing = [f"{path}: {fact}" for path, fact in expected if path not in {p for p, _ in actual}]
        extra = [f"{path}: {fact}" for path, fact in actual if path not in {p for p, _ in expected}]
        return [f"other things exist: missing {missing[:3]}, extra {extra[:3]}"]
    for (path, want), (_, got) in zip(expected, actual, strict=True):
        if isinstance(want, TensorFact) and isinstance(got, TensorFact):
            for name in ("type", "dtype", "shape", "stride", "offset", "requires_grad", "is_leaf", "storage"):
                if getattr(want, name) != getattr(got, name):
                    found.append(f"{path}: {name} is {getattr(got, name)} instead of {getattr(want, name)}")
            if want.shape == got.shape and not _same_values(want.values, got.values, exact):
                found.append(f"{path}: values are {got.values} instead of {want.values}")
        elif not _same(want, got):
            found.append(f"{path}: {got} instead of {want}")
    return found


def _same(want: Any, got: Any) -> bool:
    return want == got or repr(want) == repr(got) == "('float', nan)"


def _same_values(want: torch.Tensor, got: torch.Tensor, exact: bool) -> bool:
    if want.is_meta and got.is_meta:
        return True
    if want.is_quantized:
        want, got = want.int_repr(), got.int_repr()
    if want.dtype != got.dtype:
        return False
    if want.is_floating_point() or want.is_complex():
        if not exact:
            return torch.allclose(want, got, rtol=1e-5, atol=1e-5, equal_nan=True)
        wide = torch.complex128 if want.is_complex() else torch.float64
        return torch.allclose(want.to(wide), got.to(wide), rtol=0, atol=0, equal_nan=True)
    return torch.equal(want, got)


def compile_observed(f: Callable[..., Any], fullgraph: bool) -> tuple[Callable[..., Any], Events]:
    """Compile with the backend "eager" and collect what the compiler does."""
    before = set(COMPILERS)
    compiled = fs.compile(f, backend="eager", fullgraph=fullgraph)
    (compiler,) = set(COMPILERS) - before
    compiler.events = Events()
    return compiled, compiler.events


def check(
    f: Callable[..., Any],
    make_args: Callable[[], tuple[Any, ...]] = tuple,
    *,
    fullgraph: bool = True,
    backward: bool = False,
    calls: int = 2,
    raises: type[Exception] | None = None,
) -> Outcome:
    """Assert that compiled calls behave as plain ones, that later calls do not recompile and, with `fullgraph`, that
    nothing breaks."""
    expected, _ = observe(f, make_args, backward)
    raised = [fact for path, fact in expected if path == "raised"]
    assert [kind for kind, _ in raised] == ([raises] if raises is not None else []), (
        f"the plain program raises {raised}"
    )
    compiled, events = compile_observed(f, fullgraph)
    entries = 0
    result = None
    for call in range(calls):
        actual, result = observe(compiled, make_args, backward)
        unexpected = [fact for path, fact in actual if path == "raised" and not raised]
        assert not unexpected, f"call {call + 1} raises {unexpected[0][0].__name__}: {unexpected[0][1]}"
        found = differences(expected, actual)
        assert not found, f"call {call + 1}: " + "\n".join(found)
        if call == 0:
            entries = len(events.entries)
            assert entries, "nothing was compiled"
    assert len(events.entries) == entries, f"recompiled: {[why for _, why in events.recompiles]}"
    reasons = [reason.reason for reason in events.break_reasons]
    return Outcome(
        len(events.graphs),
        reasons,
        [why for _, why in events.recompiles],
        result,
        [graph.module for graph in events.graphs],
    )
