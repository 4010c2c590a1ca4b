"""One compiled backward: what it takes in which layout, and how its results become the gradients of inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.fx

from .. import torch_compat
from ..autodiff.independent import tangents_behind
from ..autodiff.partition import Partition, base_of
from ..autodiff.passed_gradients import PassedGradient
from ..fake.dims import contiguous_strides, layout_of
from ..fake.rules.strides import memory_order
from ..functional.graph import FreshTensor, SameAs
from ..records import dataclass
from ..shapes import Symbol


class CompiledBackward:
    """One compiled backward."""

    def __init__(self, parted: Partition, run: Callable[..., Any], fill: bool, numbers: list[Symbol]) -> None:
        self.run = run
        self.fill = fill
        self.gradients = parted.gradients
        self.kept_at = parted.kept_at
        kept = [entry.node for entry in parted.backward.inputs[len(parted.numbers):]]
        self.nodes: dict[int, torch.fx.Node] = dict(zip(
            range(len(parted.kept)) if parted.kept_at is None else parted.kept_at, kept, strict=False))
        """What stands in the graph for those saved tensors that it takes."""
        self.numbers_at = [numbers.index(symbol) for symbol in parted.numbers]
        self.tangents = {number: item.tangent.meta["val"] for number, item in enumerate(parted.joint.differentiable)
                         if item.tangent is not None}
        inputs = parted.backward.inputs[len(parted.backward.inputs) - len(self.tangents):]
        self.layouts = [TangentLayout.of(entry.example) if entry.node.users else None for entry in inputs]
        self.behind = tangents_behind(parted.joint) if fill else []
        self.order = None if any(isinstance(how, (PassedGradient, SameAs)) for how in parted.gradients) else [
            sum(map(bool, parted.gradients[:at])) if how else -1 for at, how in enumerate(parted.gradients)]
        """For each input where its gradient is among those computed, -1 for none; None where there is more to do."""
        self.twins: list[int] | None = None
        """Gradients for which machine code returns the object of another: in eager they are two in one memory."""
        bases: dict[torch.fx.Node, set[torch.fx.Node]] = {}
        nodes = [output.node if isinstance(output, FreshTensor) else None for output in parted.joint.gradients]
        for node in nodes:
            if node is not None:
                bases.setdefault(base_of(node), set()).add(node)
        self.shared = [at for at, node in enumerate(nodes) if node is not None and len(bases[base_of(node)]) > 1]
        """Gradients in one memory with others."""

    def __call__(self, numbers: Sequence[Any], saved: list[torch.Tensor], tangents: Sequence[Any],
                 shapes: Sequence[Any]) -> list[Any]:
        """The gradients of all inputs. The list of saved tensors is emptied."""
        given, tangents, missing = self.given(numbers, saved, tangents, shapes)
        results = list(self.run(given))
        if self.twins is None:
            self.twins = [at for at, result in enumerate(results) if any(result is other for other in results[:at])]
        for at in self.twins:
            results[at] = results[at].detach()
        if self.order is not None:
            results.append(None)
            gradients: list[Any] = [results[at] for at in self.order]
        else:
            computed, gradients = iter(results), []
            for how in self.gradients:
                gradients.append(how(tangents) if isinstance(how, PassedGradient) else gradients[how.index]
                                 if isinstance(how, SameAs) else next(computed) if how else None)
        if missing:
            # What only a missing tangent could reach has no gradient, as in eager, rather than zeros.
            gradients = [None if behind <= missing else gradient
                         for gradient, behind in zip(gradients, self.behind, strict=True)]
        if self.shared:
            keep_apart([gradients[at] for at in self.shared])
        return gradients

    def given(self, numbers: Sequence[Any], saved: list[torch.Tensor], tangents: Sequence[Any],
              shapes: Sequence[Any]) -> tuple[list[Any], Sequence[Any], set[int]]:
        """What the backward takes, the tangents that are there, and those that zeros stand for.

        The list of saved tensors is emptied.
        """
        missing: set[int] = set()
        if self.fill:
            missing = {number for number in self.tangents if tangents[number] is None}
            tangents = [torch.zeros(shapes[number], dtype=example.dtype, device=example.device) if number in missing
                        else tangents[number] for number, example in self.tangents.items()]
        else:
            tangents = [tangent for tangent in tangents if tangent is not None]
        laid_out = [tangent if layout is None else layout.lay_out(tangent)
                    for layout, tangent in zip(self.layouts, tangents, strict=True)]
        wanted = saved if self.kept_at is None else [saved[at] for at in self.kept_at]
        given = [*[numbers[at] for at in self.numbers_at], *wanted, *laid_out]
        saved.clear()
        return given, tangents, missing


def keep_apart(gradients: Sequence[Any]) -> None:
    """Have autograd copy gradients that lie in one memory into ``.grad`` of leaves, as it does in eager.

    It takes those as they are that nobody else refers to, whatever else lies in their memory: two parts of it are
    gradients of two leaves.
    """
    there = [gradient for gradient in gradients if gradient is not None]
    held = [gradient for at, gradient in enumerate(there) if any(
        gradient is not other and _meet(gradient, other) for other in there[at + 1:])]
    if held and not torch.is_grad_enabled():
        torch_compat.after_backward(held.clear)


def _meet(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether the stretches of memory that two tensors lie in meet: those of parts of a concatenation do not."""
    starts = [tensor.storage_offset() for tensor in (one, other)]
    lengths = [1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
               if tensor.numel() else 0 for tensor in (one, other)]
    return starts[0] < starts[1] + lengths[1] and starts[1] < starts[0] + lengths[0]


def order_of(tensor: torch.Tensor) -> tuple[int, ...] | None:
    """The order of a dense tensor's dimensions in memory; None for others, and where a size of 1 leaves it open."""
    numbers: list[list[Any]] = [list(tensor.shape), list(tensor.stride())]
    shape, steps = [[number if type(number) is int else number.node.hint for number in each] for each in numbers]
    if None in shape or None in steps or 1 in shape:
        return None
    order = sorted(range(len(steps)), key=lambda dim: -steps[dim])
    return tuple(order) if [steps[dim] for dim in order] == list(contiguous_strides([shape[dim] for dim in order])) \
        else None


@dataclass(frozen=True)
class TangentLayout:
    """The strides that a tangent must have: numbers, or where they depend on symbols the order of the dimensions."""

    stride: tuple[int, ...] | None
    order: tuple[int, ...]

    @staticmethod
    def of(example: torch.Tensor) -> TangentLayout:
        stride: tuple[Any, ...] = example.stride()
        if all(type(step) is int for step in stride):
            return TangentLayout(tuple(stride), ())
        hints = [step if type(step) is int else step.node.hint for step in stride]
        if None in hints:  # data decides how large it is, but not in which order its dimensions lie
            shape, steps = layout_of(example)
            return TangentLayout(None, tuple(reversed(memory_order(shape, [steps]))))
        return TangentLayout(None, tuple(sorted(range(len(hints)), key=lambda dim: (-hints[dim], dim))))

    def lay_out(self, tangent: torch.Tensor) -> torch.Tensor:
        """The tangent, copied if it lies in memory otherwise."""
        stride = self.stride
        if stride is None:
            back = sorted(range(len(self.order)), key=self.order.__getitem__)
            return tangent.permute(self.order).contiguous().permute(back)
        if tangent.stride() == stride:
            return tangent
        if all(size == 1 or a == b for size, a, b in zip(tangent.shape, tangent.stride(), stride, strict=True)):
            return tangent.as_strided(tangent.shape, stride)
        return torch.empty_strided(tangent.shape, stride, dtype=tangent.dtype, device=tangent.device).copy_(tangent)
