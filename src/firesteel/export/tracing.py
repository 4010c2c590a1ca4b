"""Strict tracing: capture of the bytecode as one torch-level graph, then the ATen operators that this graph calls.

The entry that capture makes of forward runs once, with a graph function that computes nothing and returns the fake
results: what comes out is the user's own structure of results with fakes as leaves, which says where each result goes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import getitem, setitem
from types import CodeType
from typing import Any

import torch
import torch.fx

from .. import torch_compat
from ..capture.argument_sizes import ArgumentSizes, Place
from ..capture.graph import CapturedGraph
from ..capture.source import LocalSource
from ..capture.values.base import LazyValue
from ..capture.values.constants import ConstantValue
from ..control_flow import operators
from ..errors import GraphBreakError, UserFrame, warn
from ..events import Events
from ..fake import FakeError, FakeTensor
from ..fake.positions import has_positions, selected
from ..fake.resampling import any_factor
from ..function_marks import is_disabled
from ..functional.graph import Unsupported
from ..functional.state import GlobalState
from ..functional.tracing import Tracing, environment_of
from ..runtime.compiler import Compiler
from ..shapes import ContradictionError, Provenance, ShapeEnv, Symbol, UndecidableError, symbol
from ..torch_compat.below_autograd import below_autograd, set_grad_mode
from ..torch_compat.pytrees import tree_flatten, tree_map
from .assembly import Traced, module_stack_of
from .attributes import AttributeWatch
from .errors import GRADIENTS, GRADIENTS_HINT, LOOP_HINT, STRICT_BRANCH_HINT, ExportError
from .lifting import Arguments, Lifting, UserInput, modules_by_id
from .nesting import unflatten
from .pre_dispatch import PreDispatchRecorder, origin_of
from .source_functions import described, following
from .subgraphs import record_control_flow

_STATE_FUNCTIONS = frozenset({"enter_inference_mode", "leave_mode", "enter_mode"})


class ExportCompiler(Compiler):
    """Captures whole programs; the graphs remember their modules, and side effects are errors."""

    exports = True
    keeps_modules = True
    keeps_symbols = True

    def __init__(self, backend: Any, events: Events, capture_branches: bool, numbers: Iterable[Place]) -> None:
        super().__init__(backend, fullgraph=True, dynamic=False, events=events,
                         options={"capture_branches": capture_branches})
        self.numbers = ArgumentSizes({}, {place: symbol(place.source.name) for place in numbers}, {})
        """The integers among the arguments that vary."""
        self.symbols: dict[str, Symbol] = {}
        """The symbols that the capture has made for them, by the names of their sources."""

    def declared_sizes(self, unit: Any) -> ArgumentSizes | None:
        return self.numbers if self.numbers.numbers else None

    def before_effects(self, tx: Any) -> None:
        """Take out what Python does to objects from outside: the exported program has no Python.

        An attribute that forward sets is only warned about, for most of them are scratch space. A container from
        outside that it changes is an error: it may be an input or a result.
        """
        self._return_numbers_as_symbols(tx)
        kept: dict[Any, Any] = {}
        made_for_call = _rest_arguments(tx.frames[0].code)
        for key, (kind, what) in tx.effects.events.items():
            if kind == "replay":
                continue  # print and its like, which are for the author of the program
            value, name = (what, None) if kind == "contents" else what
            owner = getattr(value, "real", None)
            if kind == "attribute" and isinstance(owner, torch.nn.Module) and name in vars(owner).get("_buffers", ()):
                kept[key] = (kind, what)  # a buffer gets a new value: that is a change of the program's state
                continue
            where = value.source.name if value.source is not None else "an object"
            if name is None and (isinstance(value.source, LocalSource) and where in made_for_call
                                 or _holds_what_it_held(value)):
                continue
            if name is None:
                raise ExportError(
                    f"forward changes {where}, which exists outside of the program",
                    "An exported program has tensors as its only state. Register a buffer (self.register_buffer) and "
                    "change it in place, or return the value and keep it outside.", tx.user_frames())
            if name == "grad":
                raise ExportError(GRADIENTS, GRADIENTS_HINT, tx.user_frames())
            if _is_read(tx, value.source, name):
                raise ExportError(
                    f"forward reads {where}.{name} and sets it for the next call",
                    "An exported program has tensors as its only state. Register a buffer (self.register_buffer) and "
                    "change it in place, or pass the value in and return it.", tx.user_frames())
            if not _ends_as_it_began(value, name):
                warn(f"forward sets {where}.{name}; the exported program does not do that ({tx.user_frames()[-1]})")
        tx.effects.events = kept


    def _return_numbers_as_symbols(self, tx: Any) -> None:
        """A number that varies is a symbol where the program returns it, not what the example has."""
        for place in self.numbers.numbers:
            value = tx.frames[0].locals.get(place.parameter)
            if not isinstance(value, LazyValue) or value.source != LocalSource(place.parameter):
                continue
            for kind, key in place.steps:
                value = value.realize()
                value = value.get_item(tx, ConstantValue(key)) if kind == "item" else value.get_attr(tx, key)
            value.realize()
        self.symbols = {source.name: value.expr for source, value in tx.symbols.number_inputs.items()}
        for value in tx.symbols.number_inputs.values():
            value.source = None


def _ends_as_it_began(value: Any, name: str) -> bool:
    """Whether an attribute that was set has in the end the constant again that it had before the call."""
    before = getattr(getattr(value, "real", None), "__dict__", {})
    after = getattr(value, "attrs", {}).get(name)
    if name not in before or after is None or not after.is_constant():
        return False
    last = after.as_constant()
    return last is before[name] or type(last) in (bool, int, float, str) and type(last) is type(before[name]) \
        and last == before[name]


def _holds_what_it_held(value: Any) -> bool:
    """Whether a dict that was changed has its own items again in the end: ``functional_call`` puts weights back."""
    items, found, real = (getattr(value, name, None) for name in ("items", "found", "real"))
    if not isinstance(items, dict) or not isinstance(found, dict) or not isinstance(real, dict):
        return False
    return len(items) == len(real) and list(items) == list(found) and all(
        items[key][1] is found[key][1] for key in items)


def _is_read(tx: Any, owner: Any, name: str) -> bool:
    """Whether the program depends on what an attribute was when it began, or on whether it was there."""
    if owner is None:
        return False
    target = f"{owner.name}.{name}"
    for guard in tx.guards.guards:
        read = "" if guard.source is None else guard.source.name
        if read == target or read.startswith((f"{target}.", f"{target}[")):
            return True
        if read == owner.name and f"{name!r}" in guard.template and "hasattr" in guard.template:
            return True
    return False


def _rest_arguments(code: CodeType) -> tuple[str, ...]:
    """The names of ``*args`` and ``**kwargs``: containers that Python makes for every call."""
    first = code.co_argcount + code.co_kwonlyargcount
    count = bool(code.co_flags & 0x04) + bool(code.co_flags & 0x08)
    return code.co_varnames[first:first + count]


class CapturedProgram:
    """The backend of a capture: keeps the graph and what it is called with."""

    def __init__(self) -> None:
        self.events = Events()
        self.real_inputs: tuple[Any, ...] = ()
        self.outputs: list[Any] = []

    def __call__(self, module: torch.fx.GraphModule, examples: list[Any]) -> Any:
        output = next(node for node in reversed(module.graph.nodes) if node.op == "output")
        self.outputs = [node.meta.get("example_value") for node in output.args[0]]

        def graph(*args: Any) -> tuple[Any, ...]:
            self.real_inputs = args
            return tuple(self.outputs)

        return graph

    @property
    def graph(self) -> CapturedGraph | None:
        """None for programs without tensor operations."""
        return self.events.graphs[0] if self.events.graphs else None


def trace_strict(module: torch.nn.Module, arguments: Arguments, declared: Any, capture_branches: bool = True) -> Traced:
    """The pre-dispatch graph of a module by way of its bytecode."""
    from ..compiled_functions import compile_with

    program = CapturedProgram()
    places = declared.places(module, arguments)
    compiler = ExportCompiler(program, program.events, capture_branches, places.values())
    if is_disabled(module):
        raise ExportError(f"{type(module).__qualname__} is marked with fs.disable", "Take the mark away.")
    watch = AttributeWatch(module)
    try:
        with watch, declared.marking(), any_factor():
            result = compile_with(compiler, module)(*arguments.args, **arguments.kwargs)
    except GraphBreakError as error:
        raise ExportError(error.reason, _advice(error), error.frames) from None
    if len(program.events.graphs) > 1:
        raise ExportError("it needs more than one graph")
    if program.graph is None and not program.events.entries:
        skipped = "; ".join(reason for _, reason in program.events.skipped)
        raise ExportError(skipped or "its forward is no Python function that can be captured")
    with any_factor():
        numbers = {position: compiler.symbols[place.source.name] for position, place in places.items()
                   if place.source.name in compiler.symbols}
        return _Replay(module, arguments, declared, program, watch, numbers).run(result)


def _advice(error: GraphBreakError) -> str | None:
    """What to do about a break where there is no Python to go on with."""
    if error.reason.startswith("a loop depends on"):
        return LOOP_HINT
    if error.reason.startswith("a branch depends on"):
        more = "" if "torch.where" in (error.hint or "torch.where") else f"{error.hint}\n"
        return more + STRICT_BRANCH_HINT
    return None if error.hint == GraphBreakError.default_hint else error.hint


class _Replay(Tracing):
    """Runs the torch-level graph below autograd on the fakes of the capture, while the operators are written down."""

    def __init__(self, module: torch.nn.Module, arguments: Arguments, declared: Any, program: CapturedProgram,
                 watch: AttributeWatch, numbers: Mapping[int, Symbol]) -> None:
        captured = program.graph
        graph = torch.fx.GraphModule(torch.nn.Module(), _empty()) if captured is None else captured.module
        self.program_recorder = PreDispatchRecorder()
        super().__init__(graph, [] if captured is None else captured.example_inputs, self.program_recorder)
        self.program = program
        self.declared = declared
        self.numbers = numbers
        self.watch = watch
        self.arguments = arguments
        self.lifting = Lifting(module, arguments, self.program_recorder)
        self.module_names = modules_by_id(module)
        self.root = module
        self.frames: dict[int, list[Any]] = {}
        """For modules by their ids: the frames of their calls that left operations."""
        self._grad_modes: list[bool] = []

    def run(self, result: Any) -> Traced:  # type: ignore[override]
        recorder = self.program_recorder
        env = recorder.shape_env = self._environment(result)
        env.closed = False  # what is decided from now on becomes part of the contract, not a guard
        examples = self._fakes_of_inputs(env)
        recorder.asserted = len(env.checks)  # they are in the captured graph
        state = GlobalState.current()
        here: tuple[UserFrame, ...] = ()
        torch.clear_autocast_cache()  # it may hold parameters that were cast by the capture
        try:
            with below_autograd():
                torch_compat.push_dispatch_mode(recorder)
                try:
                    computed = self.interpret()
                finally:
                    torch_compat.pop_dispatch_mode()
        except (FakeError, UndecidableError, ContradictionError, Unsupported) as error:
            here = recorder.origin.get("user_frames", ())
            raise ExportError(str(error), None, here) from error
        except RuntimeError as error:
            here = recorder.origin.get("user_frames", ())
            if "does not require grad" not in str(error):
                raise
            raise ExportError(GRADIENTS, GRADIENTS_HINT, here) from error
        finally:
            self.modes.leave()
            state.restore()
        markers = {id(marker): value for marker, value in zip(self.program.outputs, computed, strict=True)}
        markers.update(examples)
        mutated = [(name, markers.get(id(value), value)) for name, value in self.watch.assigned]
        return Traced(recorder, self.lifting, env, self._with_numbers(result), markers, mutated)

    def _with_numbers(self, result: Any) -> Any:
        """The result with symbols for the numbers in containers that the program was given and returns whole."""
        varying = {position for position, item in enumerate(self.arguments.inputs)
                   if isinstance(item.fake, (torch.SymInt, torch.SymFloat))}
        if not varying:
            return result
        given = (self.arguments.args, self.arguments.kwargs)
        symbolic = unflatten([item.fake if position in varying else item.value
                              for position, item in enumerate(self.arguments.inputs)], self.arguments.spec)
        known: dict[int, Any] = {}
        _pair_containers(given, symbolic, known)
        return tree_map(lambda leaf: known.get(id(leaf), leaf), result, is_leaf=lambda node: id(node) in known)

    def _environment(self, result: Any) -> ShapeEnv:
        """The environment of the capture: that of the declared sizes, or of the first symbol in it."""
        if self.declared.env is not None:  # guards on sizes may be there without any size in the graph
            env: ShapeEnv = self.declared.env
            env.current_provenance = lambda: Provenance(
                self.program_recorder.origin.get("user_frames", ()), "", "an operator")
            return env
        values = [node.meta.get("example_value") for node in self.module.graph.nodes]
        return environment_of([*values, *tree_flatten(result)[0]])

    def _fakes_of_inputs(self, env: ShapeEnv) -> dict[int, Any]:
        """Make the placeholders; from the ids of real tensors to the fakes that stand for them."""
        recorder, captured = self.program_recorder, self.program.graph
        fakes: dict[int, Any] = {}
        entries = [] if captured is None else captured.inputs
        for entry, real, example in zip(entries, self.program.real_inputs, self.examples, strict=True):
            self.values[entry.node] = example
            if isinstance(real, torch.Tensor):
                fakes[id(real)] = example

        def fake_of(tensor: torch.Tensor, item: UserInput | None) -> FakeTensor:
            known = fakes.get(id(tensor))
            if known is None:
                layout = None if item is None else self.declared.layout(tensor, env)
                known = fakes[id(tensor)] = recorder.from_real(tensor, layout)
            return known

        self.lifting.add_inputs(fake_of, self.declared.numbers(env, self.numbers))
        for real in self.program.real_inputs:
            fake = fakes.get(id(real))
            if isinstance(fake, FakeTensor) and not recorder.knows_tensor(fake):
                recorder.bind(fake, self.lifting.lift(real, fake))
        return fakes

    # -----------------------------------------------------------------------------------------------------------------
    # operations

    def interpret(self) -> Any:
        for node in self.module.graph.nodes:
            frames = node.meta.get("user_frames", ())
            if frames:
                node.meta["stack_trace"] = origin_of(frames)["stack_trace"]
            if "module_stack" in node.meta:
                calls = [(module, self._number(module, frame)) for module, frame in node.meta["module_stack"]]
                node.meta["nn_module_stack"] = module_stack_of(calls, self.module_names)
        with following(list(self.module.graph.nodes), self.program_recorder.graph) as origins:
            results = super().interpret()
        for node, origin in origins.items():
            modules = [module for module, _ in origin.meta.get("module_stack", ())]
            node.meta.update(described(origin.name, origin.target, modules))
        return results

    def _number(self, module: torch.nn.Module, frame: Any) -> int:
        """Which call of a module it is that runs in a frame."""
        frames = self.frames.setdefault(id(module), [])
        if not any(other is frame for other in frames):
            frames.append(frame)
        return next(number for number, other in enumerate(frames) if other is frame)

    def call(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if target is set_grad_mode:
            frames = self.program_recorder.origin.get("user_frames", ())
            return self._set_grad(bool(args[0]), any(frame.function == "__exit__" for frame in frames[-3:]))
        if target in (getitem, setitem) and isinstance(args[0], torch.Tensor) and has_positions(args[1]):
            view, rest = selected(self.program_recorder.select_at, args[0], args[1])
            if target is getitem:
                return view[rest] if rest else view
            view[rest or ...] = args[2]
            return None
        if target in operators.OPERATORS:
            return record_control_flow(self.program_recorder, target, args, self._run_body)
        name = getattr(target, "__name__", "")
        if name in _STATE_FUNCTIONS and self.modes.concerns(target):
            return self._enter_or_leave(name, target, args)
        return super().call(target, args, kwargs)

    def _run_body(self, recorder: PreDispatchRecorder, graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
        return _Body(graph, inputs, recorder, self.module_names, self.frames).run_body()

    def rule_of(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[..., Any] | None:
        """The recorder has operators in one piece and knows the rules of those itself."""
        return self.program_recorder.to_list if name == "tolist" else None

    def attribute(self, name: str) -> Any:
        value: Any = self.module
        for part in name.split("."):
            value = getattr(value, part)
        return self.program_recorder.outside(value) if isinstance(value, torch.Tensor) else value

    def _set_grad(self, enabled: bool, ends_region: bool) -> None:
        before = torch.is_grad_enabled()
        if before != enabled:
            set_grad_mode(enabled)
            self.program_recorder.grad_mode_changed(before, enabled, ends_region)

    def _enter_or_leave(self, name: str, target: Any, args: tuple[Any, ...]) -> Any:
        """Inference mode is a region without gradients; a default device is entered, its effect is in the operators."""
        if name == "enter_inference_mode":
            self._grad_modes.append(torch.is_grad_enabled())
            self._set_grad(torch.is_grad_enabled() and not args[0], False)
            return _INFERENCE
        if name == "leave_mode" and args[0] is _INFERENCE:
            self._set_grad(self._grad_modes.pop(), True)
            return None
        return super().call(target, args, {})


class _Body(_Replay):
    """Runs the graph of a control flow operator's function."""

    def __init__(self, graph: torch.fx.GraphModule, inputs: Sequence[Any], recorder: PreDispatchRecorder,
                 module_names: Mapping[int, str], frames: dict[int, list[Any]]) -> None:
        Tracing.__init__(self, graph, inputs, recorder)
        self.frames = frames
        self.program_recorder = recorder
        self.module_names = module_names
        self._grad_modes = []

    def run_body(self) -> Any:
        """The results of the graph."""
        for node, value in zip([node for node in self.module.graph.nodes if node.op == "placeholder"], self.examples,
                               strict=True):
            self.values[node] = value
        try:
            return self.interpret()
        finally:
            self.modes.leave()


def _pair_containers(given: Any, other: Any, known: dict[int, Any]) -> None:
    """Note for each container in a value the one in its place in another of the same structure."""
    items, spec = tree_flatten(given, is_leaf=lambda node: node is not given)
    if not spec.is_leaf():
        known[id(given)] = other
        others = tree_flatten(other, is_leaf=lambda node: node is not other)[0]
        for item, counterpart in zip(items, others, strict=True):
            _pair_containers(item, counterpart, known)


_INFERENCE = object()


def _empty() -> torch.fx.Graph:
    graph = torch.fx.Graph()
    graph.output(())
    return graph
