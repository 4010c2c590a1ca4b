"""From a plan to the bytes of a shared object."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from ... import disk_cache
from ...functional.graph import Unsupported
from ..cpu import engine, gemm, object_emitter
from ..cpu.product import product, product_into
from ..cpu.signature import signature
from ..cpu.target import Target, host, llvm_binding
from ..ir import ExternCall
from . import helpers, interface, linking, numbers
from .checked_code import PackageModule
from .gpu import GpuKernels
from .interface import Weight, WeightsFile
from .numbers import NotPrintable
from .operators import NotCallable
from .planned import NotPackageable, Planned
from .program import Contract, ProgramPrinter


def build(planned: Planned, inputs: Sequence[str], outputs: Sequence[str], weights: Sequence[Weight],
          places: Mapping[str, int], file: WeightsFile, contract: Contract, description: str,
          target: Target | None = None) -> bytes:
    """A shared object. ``places``: for each input and constant of the plans that is a weight, which one it is; what is
    kept comes behind all weights."""
    target = target or host()
    programs = list(planned.all())
    bodies = {key: f"fs.body{number}" for number, key in enumerate(key for one in programs for key in one.bodies)}
    on_gpu = _gpu_kernels(planned)
    kernels = [kernel for one in programs for kernel in one.kernels] if on_gpu is None else []
    targets = [made_for for one in programs for made_for in one.tuned or [target] * len(one.kernels)]
    keys = [disk_cache.digest(engine.maker(), made_for.description, signature(kernel))
            for kernel, made_for in zip(kernels, targets, strict=False)]
    names: dict[int, str | int] = {id(kernel): _function(key) for kernel, key in zip(kernels, keys, strict=True)}
    if on_gpu is not None:
        names = {id(kernel): on_gpu.add(usual, wide) for one in programs
                 for kernel, usual, wide in zip(one.kernels, one.binaries, one.wide, strict=True)}
    wants_product = any(isinstance(step, ExternCall) and step.target in (product, product_into)
                        for one in programs for step in one.plan.steps)
    product_key = disk_cache.digest(engine.maker(), target.description, "matrix product")
    own = wants_product and target.vector_bytes >= 32
    module = PackageModule()
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
                                     bodies, on_gpu)
            module.functions.append(printer.print(function))
    except (NotCallable, NotPrintable) as error:
        raise NotPackageable(str(error)) from error
    kept = len(planned.kept.plan.outputs) if planned.kept is not None else 0
    interface.add_interface(module, inputs, outputs, weights, file, target, description, kept, on_gpu)
    wanted = {key: partial(engine.llvm_text, kernel, made_for, _function(key))
              for key, kernel, made_for in zip(keys, kernels, targets, strict=False)}
    if own:
        wanted[product_key] = partial(gemm.module_text, target, _function(product_key))
    try:
        objects = [_host_object(module.text(), target), *_objects(wanted, target)]
    except Unsupported as error:
        raise NotPackageable(str(error), "give the size that it asks for as a number") from error
    return linking.link(objects, "model.so", object_emitter.object_code("", target))


def _gpu_kernels(planned: Planned) -> GpuKernels | None:
    """A place for the kernels of a program for a GPU."""
    if not planned.target.machine.in_blocks:
        return None
    arch = next((request.arch for one in planned.all() for request, _ in one.binaries), None)
    if arch is None:
        from ..gpu.driver import architecture

        arch = architecture(planned.target.device)
    return GpuKernels(arch, planned.target.device.index or 0)


def _function(key: str) -> str:
    return f"firesteel_{key[:24]}"


def _objects(wanted: Mapping[str, Callable[[], str]], target: Target) -> list[bytes]:
    """The object files of functions by their keys: those that are in the cache already, and new ones."""
    objects = {key: disk_cache.get(engine.KIND, key) for key in wanted}
    missing = [key for key, data in objects.items() if data is None]
    emitted = object_emitter.object_codes((wanted[key]() for key in missing), len(missing), target)
    for key, data in zip(missing, emitted, strict=True):
        objects[key] = data
        disk_cache.put(engine.KIND, key, data)
    return [data for data in objects.values() if data is not None]


def _host_object(text: str, target: Target) -> bytes:
    llvm_binding().initialize_native_asmparser()  # for the question what the CPU can do
    return object_emitter.object_code(text, target)
