"""From a functional graph to the bytes of a shared object."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from ...autodiff.graph import FreshTensor, FunctionalGraph, Input, Output
from ...autodiff.subprograms import Subprogram
from ...errors import FiresteelError
from ...runtime import disk_cache
from ..compile import kernels_of
from ..cpu import coding, engine, gemm
from ..cpu.product import product, product_into
from ..cpu.signature import signature
from ..cpu.target import Target, host, llvm_binding
from ..ir import ExternCall, Kernel
from ..options import Options
from ..plan import KernelPlan
from . import helpers, interface, linking, numbers
from .code import ModuleText
from .interface import Weight, WeightsFile
from .numbers import NotPrintable
from .operators import NotCallable
from .program import Contract, ProgramPrinter

if TYPE_CHECKING:
    from ...passes import Kept


class NotPackageable(FiresteelError):
    """A program needs Python while it runs."""

    headline = "This program cannot run without Python."
    default_hint = "replace the operator, or keep this part of the model in Python"


@dataclass
class Planned:
    """A graph with its plan and the kernels in it."""

    functional: FunctionalGraph
    plan: KernelPlan
    kernels: list[Kernel]
    kept: Planned | None = None
    """What computes the last inputs of the plan from others, once: the results in order."""
    bodies: dict[int, Planned] = field(default_factory=dict)
    """Those of branches and loops, by the identity of their description."""

    def all(self) -> Iterator[Planned]:
        """This one, what is kept, and all bodies in them."""
        yield self
        for other in (*([self.kept] if self.kept is not None else []), *self.bodies.values()):
            yield from other.all()


def plan_graph(functional: FunctionalGraph, options: Options, weights: int) -> Planned:
    """The plan of a functional graph whose first inputs are weights."""
    from ...passes import Settings, run_passes

    if functional.state_changes:
        raise NotPackageable("it changes global state of torch")
    nodes = [entry.node for entry in functional.inputs[:weights]] if options.freeze else []
    passed = run_passes(functional, Settings(options.relaxed_libraries, frozenset(nodes), None))
    planned = _plan(passed.functional, options)
    if passed.kept is not None:
        planned.kept = _plan(_kept_graph(passed.functional, passed.kept), options)
    return planned


def _plan(functional: FunctionalGraph, options: Options) -> Planned:
    """A plan with results and changes of inputs as steps of their own."""
    from ...passes import Settings, run_passes
    from ..host.results import with_results
    from ..lowering import lower
    from ..scheduling import schedule

    plan = with_results(schedule(lower(functional.module)), functional, in_place=False)
    planned = Planned(functional, plan, kernels_of(plan))
    for step in plan.steps:
        if isinstance(step, ExternCall) and isinstance(step.target, Subprogram):
            for body in step.target.bodies:
                passed = run_passes(body.graph, Settings(options.relaxed_libraries, frozenset(), None))
                planned.bodies[id(body)] = _plan(passed.functional, options)
    return planned


def _kept_graph(functional: FunctionalGraph, kept: Kept) -> FunctionalGraph:
    """The graph that computes what is kept."""
    inputs = []
    for node, position in zip(kept.sources, kept.positions, strict=True):
        node.meta["val"] = functional.inputs[position].example
        inputs.append(Input(node.name, node, functional.inputs[position].example))
    graph = kept.sources[0].graph
    graph.output(tuple(kept.results))
    outputs: list[Output] = [FreshTensor(node, None, number) for number, node in enumerate(kept.results)]
    return FunctionalGraph(graph, inputs, outputs, constants=kept.constants)


def build(planned: Planned, inputs: Sequence[str], outputs: Sequence[str], weights: Sequence[Weight],
          places: Mapping[str, int], file: WeightsFile, contract: Contract, description: str,
          target: Target | None = None) -> bytes:
    """A shared object. ``places``: for each input and constant of the plans that is a weight, which one it is; what is
    kept comes behind all weights."""
    target = target or host()
    programs = list(planned.all())
    bodies = {key: f"fs.body{number}" for number, key in enumerate(key for one in programs for key in one.bodies)}
    kernels = [kernel for one in programs for kernel in one.kernels]
    keys = [disk_cache.digest(engine.maker(), target.description, signature(kernel)) for kernel in kernels]
    names = {id(kernel): _function(key) for kernel, key in zip(kernels, keys, strict=True)}
    wants_product = any(isinstance(step, ExternCall) and step.target in (product, product_into)
                        for one in programs for step in one.plan.steps)
    product_key = disk_cache.digest(engine.maker(), target.description, "matrix product")
    own = wants_product and target.vector_bytes >= 32
    module = ModuleText()
    numbers.add_helpers(module)
    helpers.add_helpers(module)
    try:
        for one in programs:
            function, asked, known = "fs.run", contract, places
            if one is planned.kept:
                function, asked = "fs.prepare", Contract([])
            elif one is not planned:
                function = next(bodies[key] for each in programs for key, body in each.bodies.items() if body is one)
                asked, known = Contract([str(getattr(item, "name", item)) for item in one.plan.inputs]), {}
            printer = ProgramPrinter(one.plan, module, known, names, asked, _function(product_key) if own else None,
                                     bodies)
            module.functions.append(printer.print(function))
    except (NotCallable, NotPrintable) as error:
        raise NotPackageable(str(error)) from error
    kept = len(planned.kept.plan.outputs) if planned.kept is not None else 0
    interface.add_interface(module, inputs, outputs, weights, file, target, description, kept)
    wanted = {key: partial(engine.llvm_text, kernel, target, _function(key))
              for key, kernel in zip(keys, kernels, strict=True)}
    if own:
        wanted[product_key] = partial(gemm.module_text, target, _function(product_key))
    objects = [_host_object(module.text(), target), *_objects(wanted, target)]
    return linking.link(objects, "model.so", coding.object_code("", target))


def _function(key: str) -> str:
    return f"firesteel_{key[:24]}"


def _objects(wanted: Mapping[str, Callable[[], str]], target: Target) -> list[bytes]:
    """The object files of functions by their keys: those that are in the cache already, and new ones."""
    found = {key: disk_cache.get(engine.KIND, key) for key in wanted}
    missing = [key for key, data in found.items() if data is None]
    made = coding.object_codes((wanted[key]() for key in missing), len(missing), target)
    for key, data in zip(missing, made, strict=True):
        found[key] = data
        disk_cache.put(engine.KIND, key, data)
    return [data for data in found.values() if data is not None]


def _host_object(text: str, target: Target) -> bytes:
    llvm_binding().initialize_native_asmparser()  # for the question what the CPU can do
    return coding.object_code(text, target)
