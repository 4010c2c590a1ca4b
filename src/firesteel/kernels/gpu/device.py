"""A GPU of CUDA's as a target: kernels are printed for Triton, compiled by it and loaded by the driver."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from typing import TYPE_CHECKING, Any

import torch.fx

from ..device_target import DeviceTarget, Generated
from ..scheduling import machines

if TYPE_CHECKING:
    from ...functional.graph import FunctionalGraph
    from ...passes.settings import Pass
    from ...shapes import Expr, Symbol
    from ..ir import Kernel
    from ..plan import KernelPlan
    from ..shared_object.planned import Planned
    from ..tuning import Tuner


class CudaTarget(DeviceTarget):
    """One of the GPUs."""

    machine = machines.GPU

    def check_available(self) -> None:
        from . import engine

        engine.check_available()

    def expect(self, operators: int) -> None:
        from . import workers
        from .triton_compiler import is_cold

        if is_cold():
            workers.expect(operators)

    def passes(self) -> Sequence[Pass]:
        from .passes import PASSES

        return PASSES

    def joint_passes(self) -> Sequence[Pass]:
        from .passes import JOINT_PASSES

        return JOINT_PASSES

    def tuner(self, compile: Callable[[FunctionalGraph], Callable[..., Any]]) -> Tuner:
        from .measuring import GpuTuner

        return GpuTuner(device=self.device, compile=compile)

    def generate(self, plan: KernelPlan, kernels: Sequence[Kernel], hints: Mapping[Symbol, int],
                 tuner: Tuner | None) -> Generated:
        from . import engine
        from .versions import even_sizes, print_versions

        even = even_sizes(plan, hints)
        compiled = engine.compile_for_gpu(kernels, self.device, even)
        if tuner is not None:
            from .tuning import tuned_blocks

            blocks = tuned_blocks(plan, kernels, hints, even, tuner, self.device)
            compiled = engine.compile_for_gpu(kernels, self.device, even, blocks)
        return Generated(compiled, lambda: {
            "kernels.py": "\n\n".join(print_versions(kernel).source for kernel in kernels)})

    def description(self) -> str:
        from . import engine

        return f"{self.device} {engine.machine_text(self.device)}"

    def load(self, keys: Sequence[str], programs: Sequence[tuple[Expr, Expr | None]]) -> Sequence[Any] | None:
        from . import engine

        return engine.load_for_gpu(keys, programs, self.device) if len(programs) == len(keys) else None

    def around(self, run: Callable[..., Any]) -> Callable[..., Any]:
        from .devices import on_device

        return on_device(run, self.device)

    def complete(self, planned: Planned, tuner: Tuner | None,
                 without: Set[torch.fx.Node]) -> Set[torch.fx.Node]:
        from .packaging import add_machine_code

        return add_machine_code(planned, self.device, without)
