"""Finished plans on disk: a graph that an earlier process compiled is not lowered and scheduled again.

The key of a plan says everything that lowering and scheduling look at: the functional graph behind its passes, with the
layouts of all values, what is known about symbols, the default dtype, the machine, torch, and the sources of this
package. A plan is of use only together with the code of all its kernels.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch
import torch.fx

from .. import config, disk_cache, torch_compat
from ..devices import kind_of
from ..events import somebody_asks
from ..functional.graph import FunctionalGraph
from ..logs import enabled, log
from ..shapes.symnode import SymNode
from . import titles
from .cpu.engine import CompiledKernel
from .device_target import DeviceTarget
from .ir import Kernel
from .plan import KernelPlan
from .plan_text import NotStorable, plan_text, read_plan

if TYPE_CHECKING:
    from .gpu.driver import GpuKernel

KIND = "plan"
_SYMBOLIC = (torch.SymInt, torch.SymFloat, torch.SymBool)
_OWN_OPERATORS = ("aten.", "prims.", "prim.", "mkldnn.", "mkl.")


def plan_key(functional: FunctionalGraph, target: DeviceTarget, recorded: bool = False) -> str | None:
    """The key of a graph's plan; None where plans are not kept. ``recorded``: whether its launches will be recorded.

    People who want to see what happens in a compilation see it whether or not it has happened before.
    """
    if disk_cache.directory() is None or somebody_asks() or any(map(enabled, ("kernels", "fallbacks", "code"))):
        return None
    described = _Description()
    lines = [described.node(node) for node in functional.graph.nodes]
    if described.unknown:
        return None
    return disk_cache.digest(
        _sources(), torch.__version__, target.description(), config.check_bounds, str(torch.get_default_dtype()),
        torch.are_deterministic_algorithms_enabled(), recorded, _numbers(functional), _told_lines(functional, target),
        "\n".join(lines),
        repr([entry.name for entry in functional.inputs]), repr(functional.outputs), repr(functional.mutated),
        described.facts())


def _numbers(functional: FunctionalGraph) -> dict[str, str]:
    """Constants without dimensions, which kernels of a GPU have as numbers in their code."""
    return {name: repr(value.item()) for name, value in functional.constants.items()
            if value.dim() == 0 and kind_of(value).is_host}


def _told_lines(functional: FunctionalGraph, target: DeviceTarget) -> Sequence[str]:
    """The lines of the program that kernels may name when they stop it at an index that is out of range."""
    if target.kind.raises_for_values or not config.check_indices:
        return ()
    return [titles.place(node) for node in functional.graph.nodes if any(map(_is_index, node.all_input_nodes))]


def _is_index(node: torch.fx.Node) -> bool:
    value = node.meta.get("val")
    return isinstance(value, torch.Tensor) and not (value.is_floating_point() or value.is_complex())


def load_plan(key: str, functional: FunctionalGraph, target: DeviceTarget,
              ) -> tuple[KernelPlan, list[Kernel], Sequence[Any]] | None:
    """The plan of that key with the code of its kernels; None unless all of it is there and in order."""
    text = disk_cache.get(KIND, key)
    if text is None:
        return None
    try:
        plan, kernels, keys, programs = read_plan(text, functional.constants,
                                                  {node.name: node for node in functional.graph.nodes})
    except Exception as error:
        log("cache", "the plan %s cannot be read: %s: %s", key, type(error).__name__, error)
        return None
    compiled = target.load(keys, programs)
    return None if compiled is None else (plan, kernels, compiled)


@contextmanager
def recalled_plan(key: str | None, functional: FunctionalGraph, target: DeviceTarget,
                  ) -> Iterator[tuple[KernelPlan, list[Kernel], Sequence[Any]] | None]:
    """`load_plan`, but where another process makes that plan just now, it is waited for. Where nobody does, others wait
    for this one: until the end of the block, in which it makes and stores the plan."""
    stored: list[tuple[KernelPlan, list[Kernel], Sequence[Any]]] = []

    def take() -> bool:
        plan = load_plan(key, functional, target) if key is not None else None
        if plan is not None:
            stored.append(plan)
        return plan is not None

    with disk_cache.making(KIND, key, take):
        yield stored[0] if stored else None


def store_plan(key: str, plan: KernelPlan, kernels: Sequence[Kernel], compiled: Sequence[CompiledKernel | GpuKernel],
               functional: FunctionalGraph) -> bool:
    """Keep a plan; returns whether it could be kept."""
    programs = [(code.programs, code.extent) for code in compiled if not isinstance(code, CompiledKernel)]
    try:
        text = plan_text(plan, kernels, [code.key for code in compiled], functional.constants, programs)
    except NotStorable as reason:
        log("cache", "a plan is not kept: it has %s", reason)
        return False
    return disk_cache.put(KIND, key, text)


class _Description:
    """Nodes as text, the same in every process."""

    def __init__(self) -> None:
        self.unknown = False
        self.symbolic: SymNode | None = None
        self.targets: dict[Any, str] = {}

    def node(self, node: torch.fx.Node) -> str:
        target = node.target if isinstance(node.target, str) else self.target(node.target)
        return f"{node.name} {node.op} {target} {node.args} {node.kwargs} {self.value(node.meta.get('val'))}"

    def target(self, target: Any) -> str:
        text = self.targets.get(target)
        if text is None:
            if isinstance(target, torch_compat.OpOverload):
                text = torch_compat.operator_name(target)
                if not text.startswith(_OWN_OPERATORS):  # the program's own, which may be another one next time
                    text = f"{torch_compat.schema_of(target)} {sorted(map(str, target.tags))}"
            else:
                text = f"{getattr(target, '__module__', None)}.{getattr(target, '__qualname__', None)}"
                # a control flow operator is known by its bodies only, which have plans of their own
                self.unknown |= "None" in text or hasattr(target, "bodies")
            self.targets[target] = text
        return text

    def value(self, value: Any) -> str:
        if isinstance(value, torch.Tensor):
            if value.layout is not torch.strided:
                return f"{value.layout} {value.dtype} {tuple(value.shape)}"
            shape, stride = tuple(value.shape), value.stride()
            offset = value.storage_offset()
            if self.symbolic is None:
                for number in (*shape, *stride, offset):
                    self.note(number)
            return f"{value.dtype} {shape} {stride} {offset} {value.device}"
        if isinstance(value, (tuple, list)):
            return f"({', '.join(map(self.value, value))})"
        self.note(value)
        if value is None or isinstance(value, (bool, int, float, str, *_SYMBOLIC)):
            return repr(value)
        self.unknown = True
        return ""

    def note(self, number: Any) -> None:
        if isinstance(number, _SYMBOLIC):
            if isinstance(number.node, SymNode):
                self.symbolic = number.node
            else:
                self.unknown = True

    def facts(self) -> str:
        """What is known about the symbols, and the values that they have now."""
        if self.symbolic is None:
            return ""
        env = self.symbolic.shape_env.env
        hints = sorted(f"{info.symbol} {info.symbol.kind} {info.hint}" for info in env.symbols.values())
        return "\n".join([env.facts.text(), *hints])


@functools.cache
def _sources() -> str:
    """What makes plans: the contents of these files, so that plans are of use on other machines too.

    Reading them all takes longer than the rest of a recall: with unchanged sizes and times the contents are known.
    """
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    files = [os.path.join(root, "devices.py")]
    for part in ("kernels", "shapes", "torch_compat"):
        for folder, _, names in os.walk(os.path.join(root, part)):
            files += [os.path.join(folder, name) for name in names if name.endswith(".py")]
    files.sort()
    described = [(path, status.st_size, status.st_mtime_ns) for path in files for status in [os.stat(path)]]
    key = disk_cache.digest("sources", described)
    known = disk_cache.get("sources", key)
    if known is not None:
        return known.decode()
    contents: list[object] = []
    for path in files:
        with open(path, "rb") as file:
            contents += [path[len(root):], file.read()]
    text = disk_cache.digest(*contents)
    disk_cache.put("sources", key, text.encode(), shared=False)
    return text
