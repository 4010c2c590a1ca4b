"""From a plan to the function that runs it: Python source around native segments.

    def run(x, weight):
        # buf0 = empty_strided((4, 8), (8, 1), dtype=torch.float32)
        # k0(x, buf0)
        buf0 = segment0(x)
        buf1 = mm(buf0, weight)
        del buf0
        return (buf1,)

The comments say what a segment does. Where native code cannot be had they are the program. A plan that is one segment
needs no Python at all: its builtin is the function.

What ATen returns is checked once, on the first call: a tensor whose strides are not those that the kernels were
compiled for is copied, then and in all later calls.
"""

from __future__ import annotations

import builtins
import collections
import keyword
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

import torch

from ...devices import kind_of
from ...errors import WrongFakeKernel
from ...functional.graph import Unsupported
from ...native.objects import NativeUnavailable
from ...records import dataclass
from ...shapes import Const, Expr, Symbol, print_python
from ...torch_compat import OpOverload
from ...torch_compat.fake_kernels import fake_function, fake_kernel
from ..ir import Buffer, BufferRef, ExternCall, Kernel
from ..plan import Allocate, KernelPlan, Launch, Step, WriteBack
from . import bounds, launch_ranges, machine, native_segment
from .extern_calls import function_of, literal, returns_several
from .launching import Launchable, blocks_launcher, portable_launcher, view
from .lifetimes import Part, lifetimes
from .plan_emitter import PlanEmitter
from .program import TooManyRegisters

LONGEST_SEGMENT = 1024
"""Steps of a native segment; it is made of fewer where these take too many registers."""


@dataclass
class HostFunction:
    """A plan as a function, with its source."""

    run: Callable[..., tuple[Any, ...]]
    source: str
    native: bool
    """Whether a single native segment is all there is."""


@dataclass
class _Layouts:
    """What the first call found out about the results of ATen: which do not have the strides they should."""

    wrong: set[int] = field(default_factory=set)

    targets: dict[int, Any] = field(default_factory=dict)
    """The operators, by the number of the call."""

    def check(self, number: int, t: Any, shape: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype,
              stated: bool = False) -> Any:
        if t.dtype is not dtype or tuple(t.shape) != shape:
            if stated:
                return t  # an assertion about its size follows
            raise _other_result(self.targets[number], f"{t.dtype} {tuple(t.shape)}", f"{dtype} {shape}")
        if any(size != 1 and a != b for size, a, b in zip(shape, t.stride(), strides, strict=True)) and t.numel():
            self.wrong.add(number)
            return restride(t, shape, strides)
        return t


def _other_result(target: Any, result: str, promised: str) -> AssertionError:
    """The error about a result that is not as kernels were compiled for it."""
    if not isinstance(target, OpOverload) or fake_kernel(target) is None:
        return AssertionError(f"{target} returned {result} instead of {promised}")
    kernel = fake_function(target)
    code = getattr(kernel, "__code__", None)
    where = f" ({code.co_filename}:{code.co_firstlineno})" if code is not None else ""
    return WrongFakeKernel(f"{target} returned {result}, and its fake kernel says {promised}", str(target),
                           f"the fake kernel {getattr(kernel, '__qualname__', kernel)}{where}")


class SymbolPlaces(dict[Symbol, tuple[str, str, int] | str]):
    """Where symbols are read: a size or stride of a buffer, or the Python variable of a number."""

    def __missing__(self, symbol: Symbol) -> tuple[str, str, int] | str:
        raise Unsupported(f"no input says what the size {symbol} is")


def restride(t: torch.Tensor, shape: tuple[int, ...], strides: tuple[int, ...]) -> torch.Tensor:
    """A copy of a tensor with given strides.

    One without elements stays as it is where data has decided on another shape than the graph is for: an assertion that
    is still to come says so.
    """
    if t.shape != shape and not t.numel() and 0 in shape:
        return t
    return torch.empty_strided(shape, strides, dtype=t.dtype, device=t.device).copy_(t)


def host_function(
    plan: KernelPlan, addresses: Mapping[int, Launchable], native: bool = True, keep: Any = None,
    takes_list: bool = False, checked: bool = False, results_as_planned: bool = False,
) -> HostFunction:
    """The function that runs a plan. ``addresses``: of compiled kernels, by the identity of their description.

    ``keep`` is what has to stay alive as long as the function, such as the kernels' code. With ``takes_list`` the
    function takes one list, which it empties, and lets go of inputs as soon as it has done with them. ``checked``:
    the kernels check their accesses, and are told what they need for it. ``results_as_planned``: results have the
    strides of the plan even where no kernel of this plan reads them, since those of another one do.
    """
    host_machine: machine.HostMachine | None = None
    if native:
        try:
            host_machine = machine.machine()
        except NativeUnavailable:
            host_machine = None
    longest = LONGEST_SEGMENT
    while True:
        printer = _HostPrinter(plan, addresses, host_machine, keep, takes_list, checked, longest)
        if results_as_planned:
            printer.lifetimes.layouts.update(ref.buffer for ref in plan.outputs if isinstance(ref, BufferRef))
        try:
            return printer.print()
        except TooManyRegisters:
            if longest == 1:
                raise
            longest //= 2


@dataclass(frozen=True)
class _Check:
    """The line behind a call of ATen that looks at a result's layout, and the one that copies a result."""

    number: int
    check: str
    copy: str


class _HostPrinter(PlanEmitter[str]):
    """Prints one plan. Tensors are Python variables."""

    def __init__(self, plan: KernelPlan, kernels: Mapping[int, Launchable], host_machine: machine.HostMachine | None,
                 keep: Any, takes_list: bool, checked: bool, longest: int) -> None:
        known = lifetimes(plan, reuse=host_machine is not None, longest=longest)
        super().__init__(known, known.tensors)
        self.plan = plan
        self.checked = checked
        self.takes_list = takes_list
        self.keep = keep
        self.kernels = kernels
        self.machine = host_machine
        self.layouts = _Layouts()
        self.namespace: dict[str, Any] = {"torch": torch, "math": math, "empty_strided": torch.empty_strided,
                                          "kept": keep, "start_of": bounds.start_of, "end_of": bounds.end_of}
        self.lines: list[str | _Check] = []
        self.names: set[str] = {*keyword.kwlist, *vars(builtins), *self.namespace, "run"}
        self.parameters: list[str] = []
        self.symbols = SymbolPlaces()
        self.python_symbols: dict[Symbol, str] = {}
        self.bound: dict[int, str] = {}
        self.view_names: dict[BufferRef, str] = {}
        self.result_views = self.find_result_views()
        self.members: dict[str, list[str]] = {}
        self.grouped = False
        self.alive: set[str] = set()
        self.quiet = False
        """Whether what is printed is a comment, for which no variables have to be there."""
        self.calls = 0
        self.own_calls: dict[str, str] = {}
        """Functions that are no operators of torch: where they are bound, and what they are called."""
        self.segments = 0

    # Names

    def fresh(self, wanted: str) -> str:
        """A name that nothing else has."""
        name = "".join(c if c.isalnum() or c == "_" else "_" for c in wanted) or "v"
        name = "_" + name if name[0].isdigit() else name
        base, number = name, 0
        while name in self.names:
            name, number = f"{base}_{number}", number + 1
        self.names.add(name)
        return name

    def bind(self, wanted: str, value: Any) -> str:
        """A global of the function that holds a value."""
        name = self.bound.get(id(value))
        if name is None:
            name = self.bound[id(value)] = self.fresh(wanted)
            self.namespace[name] = value
        return name

    def find_tensor(self, buffer: str) -> str:
        """A variable for the tensor of a buffer, whoever makes it."""
        name = self.fresh(buffer)
        constant = self.plan.constants.get(buffer)
        if constant is not None:
            self.namespace[name] = constant
        return name

    # Numbers

    def python(self, expr: Expr) -> str:
        """An expression as Python source."""
        if self.quiet:
            return str(expr)
        return print_python(expr, {symbol: self.python_symbol(symbol) for symbol in expr.free_symbols})

    def python_symbol(self, symbol: Symbol) -> str:
        where = self.symbols[symbol]
        if isinstance(where, str):
            return where
        name = self.python_symbols.get(symbol)
        if name is None:
            name = self.python_symbols[symbol] = self.fresh(str(symbol))
        return name

    def numbers(self, exprs: Sequence[Expr]) -> str:
        inner = ", ".join(map(self.python, exprs))
        return f"({inner},)" if len(exprs) == 1 else f"({inner})"

    # The program

    def print(self) -> HostFunction:
        for entry in self.plan.inputs:
            if isinstance(entry, Buffer):
                self.parameters.append(self.tensor(entry.name))
            else:
                name = self.fresh(str(entry))
                self.parameters.append(name)
                self.symbols[entry] = name
        inputs = {entry.name for entry in self.plan.inputs if isinstance(entry, Buffer)}
        for symbol, (buffer, kind, dim) in self.plan.symbols.items():
            if symbol not in self.symbols:
                self.symbols[symbol] = (buffer, kind, dim) if buffer in inputs else self.fresh(str(symbol))
        whole = self.whole(self.lifetimes.parts)
        if whole is not None:
            return whole
        if self.takes_list and all(isinstance(where, str) for where in self.symbols.values()):
            for name in inputs:
                self.members[name] = [name]
                self.alive.add(self.tensor(name))
        for part, views in self.with_views():
            if isinstance(part, list):
                self.segment(part, views)
            else:
                self.walk([part])
        outputs = "".join(f"{self.output(output)}, " for output in self.plan.outputs)
        self.lines.append(f"return ({outputs.removesuffix(' ')})")
        if not self.calls:
            source, run = self.finish()
            return HostFunction(run, source, native=False)
        source, checked = self.finish(check=True)
        holder: list[Callable[..., tuple[Any, ...]]] = []

        def run_checked(*inputs: Any) -> tuple[Any, ...]:
            if holder:
                return holder[0](*inputs)
            results = checked(*inputs)
            host.source, host.run = self.finish()
            holder.append(host.run)
            return results

        host = HostFunction(run_checked, source, native=False)
        return host

    def finish(self, check: bool = False) -> tuple[str, Callable[..., Any]]:
        """The source and the function, with or without a look at the layouts of what ATen returns."""
        lines = [f"{name} = {self.size_source(symbol)}" for symbol, name in self.python_symbols.items()]
        for line in self.lines:
            if isinstance(line, str):
                lines.append(line)
            elif check:
                lines.append(line.check)
            elif line.number in self.layouts.wrong:
                lines.append(line.copy)
        body = "\n".join(f"    {line}" for line in lines)
        head = f"def run({', '.join(self.parameters)}):"
        if self.takes_list:
            names = "".join(f"{name}, " for name in self.parameters).removesuffix(" ")
            head = f"def run(inputs):\n    {f'{names} = inputs' if names else 'pass'}\n    inputs.clear()"
        source = f"{head}\n{body}\n"
        exec(compile(source, "<firesteel host program>", "exec", dont_inherit=True), self.namespace)
        run = self.namespace["run"]
        launch_ranges.follow_calls(run, self.own_calls)
        return source, run

    def size_source(self, symbol: Symbol) -> str:
        where = self.symbols[symbol]
        assert not isinstance(where, str)
        buffer, kind, dim = where
        return f"{self.tensor(buffer)}.{'shape[%d]' if kind == 'size' else 'stride(%d)'}" % dim

    def with_views(self) -> Iterator[tuple[Part, list[BufferRef]]]:
        """The parts of the plan, segments with the views that they make natively for the call that follows.

        Where a call needs views and no segment is in front of it, there is one without steps.
        """
        segment: Part | None = None
        for part in self.lifetimes.parts:
            views = [] if isinstance(part, list) else self.views_of(part[1])
            if segment is not None or views:
                yield segment if segment is not None else [], views
            segment = part if isinstance(part, list) else None
            if segment is None:
                yield part, []
        if segment is not None or self.result_views:
            yield segment if segment is not None else [], self.result_views

    def find_result_views(self) -> list[BufferRef]:
        """Results that native code can make at the end: those of buffers which are returned once, and not as views."""
        if self.machine is None:
            return []
        returned = collections.Counter(ref.buffer for ref in self.plan.outputs if isinstance(ref, BufferRef))
        inputs = {entry.name for entry in self.plan.inputs if isinstance(entry, Buffer)}
        views = []
        for index, ref in enumerate(self.plan.outputs):
            if index in self.plan.new_results and isinstance(ref, BufferRef) and ref.shape is not None \
                    and returned[ref.buffer] == 1 and ref.buffer not in inputs \
                    and ref.buffer not in self.plan.constants and (buffer := self.plan.buffers.get(ref.buffer)) \
                    and ref.dtype in (None, buffer.dtype):
                views.append(ref)
        return views

    # Native segments

    def whole(self, parts: Sequence[Part]) -> HostFunction | None:
        """The whole plan as one builtin, where its outputs are all new buffers."""
        if self.machine is None or len(parts) != 1 or not isinstance(parts[0], list):
            return None
        results = []
        for output in self.plan.outputs:
            if not isinstance(output, BufferRef) or output.buffer not in self.lifetimes.objects or \
                    output.shape is not None or output.buffer in self.plan.constants:
                return None
            results.append(output.buffer)
        self.quiet = True
        text = "\n".join(f"    {line}" for line in self.describe(parts[0]))
        self.quiet = False
        try:
            segment = native_segment.build(parts[0], [], results, self.builder, True, self.parameters)
        except native_segment.NeedsPython:
            return None
        returned = "".join(f"{self.tensor(name)}, " for name in results).removesuffix(" ")
        source = f"# native\ndef run({', '.join(self.parameters)}):\n{text}\n    return ({returned})\n"
        function = self.native(segment)
        if self.takes_list:
            return HostFunction(lambda inputs: function(*inputs), source, native=True)
        return HostFunction(function, source, native=True)

    def native(self, segment: native_segment.NativeSegment) -> Callable[..., Any]:
        """The builtin that runs a segment."""
        assert self.machine is not None
        function = self.machine.function(segment.table)
        return bounds.watched(function) if self.checked else function

    def builder(self, arguments: Sequence[str]) -> native_segment.SegmentBuilder:
        builder = native_segment.SegmentBuilder(self.lifetimes, self.kernels, self.tensor, self.symbols, self.python,
                                                arguments, self.checked)
        builder.program.keep(self.keep)
        return builder

    def segment(self, steps: Sequence[tuple[int, Step]], views: Sequence[BufferRef]) -> None:
        """Print a segment, and with it views that the following call needs."""
        own = {position for position, _ in steps}
        allocated = [step.buffer.name for _, step in steps if isinstance(step, Allocate)]
        ending = [root for position, _ in steps for root in self.lifetimes.ending(position)]
        named = [(self.view_name(ref), ref) for ref in views]
        if self.machine is None:
            self.lines.extend(self.describe(steps))
            self.lines.extend(f"{name} = {self.view_source(ref)}" for name, ref in named)
            self.alive.update([*map(self.tensor, allocated), *(name for name, _ in named)])
            self.release(ending)
            return
        results = [name for name in allocated if self.lifetimes.last[self.lifetimes.group(name)] not in own
                   and self.lifetimes.is_new_tensor(name)]
        native = native_segment.build(steps, named, results, self.builder, False)
        filled = [*map(self.tensor, results), *(name for name, _ in named)]
        function = f"segment{self.segments}"
        self.segments += 1
        self.namespace[function] = self.native(native)
        self.names.add(function)
        self.quiet = True
        self.lines.extend(f"# {line}" for line in self.describe(steps))
        self.lines.extend(f"# {name} = {self.view_source(ref)}" for name, ref in named)
        self.quiet = False
        call = f"{function}({', '.join(native.arguments)})"
        self.lines.append(f"{', '.join(filled)} = {call}" if filled else call)
        self.alive.update(filled)
        self.release(ending)

    def describe(self, steps: Sequence[tuple[int, Step]]) -> list[str]:
        """The Python that does the same as a segment."""
        before, self.lines = self.lines, []
        for _, step in steps:
            self.emit(step)
        described, self.lines = [str(line) for line in self.lines], before
        return described

    def allocate(self, buffer: Buffer) -> None:
        """Every buffer is a tensor here."""
        if self.lifetimes.is_same_tensor(buffer.name):
            return
        layout = f"{self.numbers(buffer.shape)}, {self.numbers(buffer.strides)}"
        root = self.lifetimes.group(buffer.name)
        how = "empty_strided(" if root == buffer.name else f"reuse({self.tensor(root)}, "
        where = f", device={str(buffer.device)!r}" if not kind_of(buffer.device).is_host else ""
        self.lines.append(f"{self.tensor(buffer.name)} = {how}{layout}, dtype={buffer.dtype}{where})")

    def launch(self, step: Launch) -> None:
        arguments = [self.tensor(name) for name in step.buffers]
        kernel = self.kernels[id(step.kernel)]
        if not isinstance(kernel, int):
            arguments.insert(0, self.python(step.in_plan(kernel.programs)))
        arguments.extend(self.python(expr) for expr in (*step.sizes, *step.numbers))
        if not isinstance(kernel, int) and kernel.extent is not None:
            arguments.append(self.python(step.in_plan(kernel.extent)))
        self.lines.append(f"{self.kernel(step.kernel)}({', '.join(arguments)})")

    def kernel(self, kernel: Kernel) -> str:
        if self.machine is not None:
            return kernel.name
        known = self.bound.get(id(kernel))
        if known is None:
            known = self.bound[id(kernel)] = self.fresh(kernel.name)
            compiled = self.kernels[id(kernel)]
            counts = len(kernel.buffers), len(kernel.sizes), len(kernel.numbers)
            if not isinstance(compiled, int):
                launcher = blocks_launcher(compiled.address, *counts, compiled.extent is not None)
            elif self.checked:
                launcher = bounds.checked_launcher(compiled, kernel)
            else:
                launcher = portable_launcher(compiled, *counts)
            self.namespace[known] = launcher
        return known

    def release(self, roots: Sequence[str]) -> None:
        if not self.grouped:
            self.grouped = True
            for name, root in self.lifetimes.root.items():
                self.members.setdefault(root, []).append(name)
        gone = [name for root in roots for name in self.members.get(root, ())]
        names = dict.fromkeys(self.handles[name] for name in gone if name in self.handles)
        dead = [name for name in names if name in self.alive]
        if dead:
            self.lines.append(f"del {', '.join(dead)}")
            self.alive.difference_update(dead)

    # Views

    def is_view(self, reference: BufferRef) -> bool:
        """Whether a reference is more than the buffer itself."""
        buffer = self.plan.buffers.get(reference.buffer)
        return buffer is not None and not reference.is_whole(buffer)

    def views_of(self, step: Any) -> list[BufferRef]:
        """The views among the arguments of a call that native code can make."""
        if not isinstance(step, ExternCall):
            return []
        views: dict[BufferRef, None] = {}

        def collect(value: Any) -> None:
            if isinstance(value, BufferRef):
                dtype = self.plan.buffers[value.buffer].dtype if value.buffer in self.plan.buffers else None
                if self.is_view(value) and value.dtype in (None, dtype):
                    views[value] = None
            elif isinstance(value, (list, tuple)):
                for item in value:
                    collect(item)

        collect((step.args, tuple(step.kwargs.values())))
        return list(views)

    def view_name(self, reference: BufferRef) -> str:
        name = self.view_names.get(reference)
        if name is None:
            name = self.view_names[reference] = self.fresh(f"{reference.buffer}_view")
        return name

    def view_source(self, reference: BufferRef) -> str:
        self.namespace["view"] = view
        offset = self.python(reference.offset) if reference.offset is not None else "0"
        dtype = f", {reference.dtype}" if reference.dtype is not None else ""
        assert reference.shape is not None and reference.strides is not None
        return (f"view({self.tensor(reference.buffer)}, {self.numbers(reference.shape)}, "
                f"{self.numbers(reference.strides)}, {offset}{dtype})")

    # Calls of ATen

    def argument(self, value: Any, views: Sequence[BufferRef]) -> str:
        if isinstance(value, BufferRef):
            if value in views:
                return self.view_name(value)
            return self.view_source(value) if self.is_view(value) else self.tensor(value.buffer)
        if isinstance(value, Expr):
            return self.python(value)
        if isinstance(value, (list, tuple)):
            inner = ", ".join(self.argument(item, views) for item in value)
            return f"[{inner}]" if isinstance(value, list) else f"({inner}{',' if len(value) == 1 else ''})"
        if isinstance(value, slice):
            parts = (self.argument(part, views) for part in (value.start, value.stop, value.step))
            return f"slice({', '.join(parts)})"
        text = literal(value)
        return text if text is not None else self.bind("constant", value)

    def call(self, step: ExternCall) -> None:
        views = self.views_of(step)
        name, function = function_of(step.target)
        known = self.bind(name, function)
        if not isinstance(step.target, OpOverload):  # those of torch are ranges anyway
            self.own_calls.setdefault(known, name)
        arguments = [self.argument(value, views) for value in step.args]
        arguments.extend(f"{key}={self.argument(value, views)}" for key, value in step.kwargs.items())
        call = f"{known}({', '.join(arguments)})"
        outputs = [name for name in step.outputs if name is not None]
        if step.out or not outputs:
            self.lines.append(call)
        elif len(step.outputs) == 1 and not returns_several(step.target):
            self.lines.append(f"{self.tensor(outputs[0])} = {call}")
        else:
            targets = [self.tensor(name) if name is not None else "_" for name in step.outputs]
            self.lines.append(f"{', '.join(targets)}{',' if len(targets) == 1 else ''} = {call}")
            if None in step.outputs:
                self.lines.append("del _")
        self.alive.update(self.tensor(name) for name in outputs)
        self.alive.update(self.view_name(ref) for ref in views)
        self.bind_symbols(outputs)
        if not step.out:
            for name in outputs:
                self.check_layout(name, step.target)
        dead = [self.view_name(ref) for ref in views]
        if dead:
            self.lines.append(f"del {', '.join(dead)}")
            self.alive.difference_update(dead)

    def check_layout(self, name: str, target: Any) -> None:
        """Make sure that a result of ATen has the strides that kernels were compiled for."""
        buffer = self.plan.buffers.get(name)
        number = self.calls
        self.calls += 1
        empty = buffer is not None and any(isinstance(size, Const) and size.value == 0 for size in buffer.shape)
        if buffer is None or (name not in self.lifetimes.layouts and not empty):
            return
        variable = self.tensor(name)
        layout = f"{self.numbers(buffer.shape)}, {self.numbers(buffer.strides)}"
        self.namespace["check_layout"], self.namespace["restride"] = self.layouts.check, restride
        copy = f"{variable} = restride({variable}, {layout})"
        stated = any(of == name and kind == "size" and buffer.shape[dim] is not symbol
                     for symbol, (of, kind, dim) in self.plan.symbols.items())
        if empty:
            # Its strides are all that there is to see. Some operators have results for their own backward alone, of
            # which nobody promises a size.
            self.lines.append(f"{copy} if not {variable}.numel() else {variable}")
            return
        if stated:
            copy += f" if {variable}.shape == {self.numbers(buffer.shape)} else {variable}"
        self.layouts.targets[number] = target
        self.lines.append(_Check(number, f"{variable} = check_layout({number}, {variable}, {layout}, {buffer.dtype}"
                                         f"{', True' if stated else ''})", copy))

    def bind_symbols(self, outputs: Sequence[str]) -> None:
        """Numbers that a call brought forth."""
        for symbol, (buffer, kind, dim) in self.plan.symbols.items():
            if buffer in outputs and isinstance(name := self.symbols[symbol], str):
                value = self.tensor(buffer)
                how = {"size": f"{value}.shape[{dim}]", "stride": f"{value}.stride({dim})"}.get(kind, value)
                self.lines.append(f"{name} = {how}")

    def write_back(self, step: WriteBack) -> None:
        self.lines.append(f"{self.tensor(step.target)}.copy_({self.argument(step.source, ())})")

    # Results

    def output(self, output: Any) -> str:
        """A view is an object of its own, even one with the layout of the whole."""
        if isinstance(output, BufferRef) and output.shape is not None:
            return self.view_name(output) if output in self.result_views else self.view_source(output)
        return self.argument(output, ())
