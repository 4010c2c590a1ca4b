"""The CPU as a target: kernels are functions of machine code, made by LLVM in this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import torch.fx

from ... import config
from ..device_target import DeviceTarget, Generated
from ..scheduling import machines
from . import engine
from .target import host

if TYPE_CHECKING:
    from ...functional.graph import FunctionalGraph
    from ...passes.settings import Pass
    from ...shapes import Expr, Symbol
    from ..ir import Kernel
    from ..plan import KernelPlan
    from ..shared_object.planned import Planned
    from ..tuning import Tuner
    from .target import Target


class CpuTarget(DeviceTarget):
    """The processor that this runs on."""

    machine = machines.CPU

    def passes(self) -> Sequence[Pass]:
        from .passes import PASSES

        return PASSES

    def tuner(self, compile: Callable[[FunctionalGraph], Callable[..., Any]]) -> Tuner:
        from ..tuning import Tuner

        return Tuner(compile=compile)

    def generate(self, plan: KernelPlan, kernels: Sequence[Kernel], hints: Mapping[Symbol, int],
                 tuner: Tuner | None) -> Generated:
        targets: Sequence[Target | None]
        if tuner is None:
            target = replace(host(), checked=True) if config.check_bounds else None
            targets = [target] * len(kernels)
            compiled = engine.compile_kernels(kernels, target)
        else:
            from ..tuning import tuned_targets

            targets = tuned_targets(plan, kernels, hints, tuner)
            compiled = [engine.compile_kernels([one], target)[0] for one, target in zip(kernels, targets, strict=True)]
        return Generated(compiled, lambda: {
            "kernels.ll": "\n\n".join(map(engine.llvm_text, kernels, targets, [one.name for one in kernels])),
            "kernels.s": "\n\n".join(map(engine.assembly, kernels, targets))})

    def description(self) -> str:
        return engine.machine_text()

    def load(self, keys: Sequence[str], programs: Sequence[tuple[Expr, Expr | None]]) -> Sequence[Any] | None:
        return engine.load_kernels(keys)

    def complete(self, planned: Planned, tuner: Tuner | None,
                 without: Set[torch.fx.Node]) -> Set[torch.fx.Node]:
        if tuner is not None:
            from ...functional.size_nodes import hints_of
            from ..tuning import tuned_targets

            planned.tuned = tuned_targets(planned.plan, planned.kernels, hints_of(planned.functional), tuner)
        return frozenset()
