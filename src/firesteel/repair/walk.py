"""Goes through the stages with real inputs and finds the first that differs from eager, and the operator.

    eager → captured → traced or differentiated, parted → each pass → lowered → scheduled → machine code → host program

Each stage's graph is run in the plainest way there is: captured and functional graphs operator by operator with ATen,
computations all points at once with torch's operators, kernels point by point in Python, then as machine code one after
the other. What differs from eager beyond what the referee allows is the fault of the stage that made it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
import torch.fx

from .. import config
from ..autodiff.joint import trace_training
from ..autodiff.joint_graph import JointGraph
from ..backends.aot_eager import interpreted_half, needs_gradients
from ..backends.as_captured import as_captured
from ..backends.registry import lookup_backend
from ..compiling import compile
from ..control import reset
from ..devices import kind_of
from ..functional import FunctionalGraph, SpentResults, Unsupported, is_refusal, trace
from ..functional.graph import FreshTensor, Input, Number
from ..functional.running import compute
from ..functional.size_nodes import hints_of
from ..kernels.options import Options
from ..kernels.plan import Launch
from ..kernels.targets import target_for, target_of
from ..passes.settings import Settings
from ..pipeline.compile import compile_bodies, compile_functional
from ..pipeline.joint_passes import run_joint_passes
from ..pipeline.training import TrainingUnit
from ..runtime.compiler import backend_arguments
from .checking import SETTINGS, Check, Outcome, compare, copied, outcome, same_random_numbers, widened
from .failure import Failure
from .lowered_run import Evaluation
from .operators import check_rules
from .plan_run import PlanRun
from .probe import line_of, operator_name
from .referee import Difference, first_difference, in_double

MOST_POINTS = 60_000
"""Elements of the buffers of a plan that is run point by point."""
Report = Callable[[Any], None]


@dataclass
class GraphCall:
    """A captured graph with what it was called with."""

    module: torch.fx.GraphModule
    examples: Sequence[Any]
    inputs: tuple[Any, ...]


@dataclass
class Found(Exception):
    """The stage at fault."""

    failure: Failure
    call: GraphCall | None = None


@dataclass
class Walk:
    """One walk through all stages. ``report`` hears which one is looked at."""

    report: Report
    options: dict[str, Any] = field(default_factory=dict)
    machine_code: bool = True
    """Whether code is run that may crash."""
    calls: list[GraphCall] = field(default_factory=list)

    def say(self, stage: str, operators: Sequence[str] = ()) -> None:
        """Say what comes next."""
        self.report(("stage", stage, tuple(operators)))

    def differs(self, stage: str, difference: Difference | None, nodes: Sequence[Any] = ()) -> None:
        """End the walk where there is a difference."""
        if difference is not None:
            operators, line = names_of(nodes)
            raise Found(Failure("difference", stage, difference.sort, str(difference), "", operators, line))

    # The function

    def function(self, function: Any, args: Any, kwargs: Any, again: bool) -> None:
        """Walk for a call of a function. ``again``: it is not the first of the compiled function; raises `Found`."""
        with config.patch(SETTINGS), same_random_numbers() as start:
            self.say("eager")
            start()
            mine = copied((function, args, kwargs))
            expected = outcome(mine[0], mine[1], mine[2], True)
            start()
            wide = widened((function, args, kwargs))
            truth = None if wide is None else outcome(wide[0], wide[1], wide[2], True)
            if again:
                self.say("guards")
                start()
                if self._fresh_is_right(copied((function, args, kwargs))):
                    raise Found(Failure("difference", "guards", "stale result", "compiled again for this call the "
                                        "result is right: a guard is missing"))
            self.say("capture")
            start()
            mine = copied((function, args, kwargs))
            with config.patch(capture_branches=config.capture_branches):
                captured = compile(mine[0], backend=self.recorder(start), **self._capture_options())
            here = outcome(captured, mine[1], mine[2], True, mine[0])
            difference = compare(here, expected, truth)
            self._rules(function, args, kwargs, start)
            if here.error is not None and expected.error is None:
                raise Found(_raised("capture", here.error))
            self.differs("capture", difference)
            for call in self.calls:
                try:
                    self.graph(call) if self.backend is None else self.foreign(call, self.backend)
                except Found as found:
                    found.call = call
                    raise

    def _capture_options(self) -> dict[str, Any]:
        known = ("dynamic", "fullgraph", "dynamic_shapes")
        return {name: value for name, value in self.options.items() if name in known}

    def _fresh_is_right(self, given: Any) -> bool:
        reset()  # compile calls take over what others have compiled
        try:
            Check(given[0], dict(self.options))(*given[1], **given[2])
        except Exception:
            return False
        return True

    def _rules(self, function: Any, args: Any, kwargs: Any, start: Callable[[], None]) -> None:
        """Rules for fake tensors, operator by operator."""
        self.say("fake tensors")
        start()
        mine = copied((function, args, kwargs))
        check = check_rules(lambda: outcome(mine[0], mine[1], mine[2], True))
        if check.found:
            wrong = check.found[0]
            raise Found(Failure("difference", "fake tensors", "rule", f"{wrong.operator}: {wrong.text}", "",
                                (wrong.operator,), wrong.line))

    def recorder(self, start: Callable[[], None]) -> Callable[..., Any]:
        """A backend that runs graphs as they were captured, and keeps them with their inputs."""
        def backend(module: torch.fx.GraphModule, examples: Sequence[Any]) -> Callable[..., Any]:
            run = as_captured(module)
            examples = list(examples)

            def called(*inputs: Any) -> Any:
                self.calls.append(GraphCall(module, examples, copied(inputs)))
                return run(*inputs)

            return called

        return backend

    @property
    def backend(self) -> Callable[..., Any] | None:
        """The backend, where it is none of firesteel's own: there are no stages in it to look at."""
        backend = lookup_backend(self.options.get("backend") or "native")
        return None if (getattr(backend, "__module__", None) or "").startswith("firesteel.") else backend

    def foreign(self, call: GraphCall, backend: Callable[..., Any]) -> None:
        """Walk for one captured graph of somebody else's backend; raises `Found`."""
        self.say("backend")
        with same_random_numbers() as start:
            start()
            expected = self.run_graph(as_captured(call.module), call.inputs)
            start()
            wide = in_double(copied(call.inputs))
            truth = self.run_graph(as_captured(call.module), wide)
            if expected.error is not None:
                return  # the program's own
            start()
            given = backend_arguments(backend, self.options.get("mode"), self.options.get("options"))
            found = self.run_graph(backend(call.module, call.examples, **given), call.inputs)
            if found.error is not None:
                raise Found(_raised("backend", found.error))
            self.differs("backend", compare(found, expected, truth), _calls(call.module.graph))

    # A captured graph

    def graph(self, call: GraphCall) -> None:
        """Walk for one captured graph; raises `Found`."""
        module, examples = call.module, call.examples
        nodes = _calls(module.graph)
        run = as_captured(module)
        with same_random_numbers() as start:
            start()
            expected = self.run_graph(run, call.inputs)
            start()
            wide = in_double(copied(call.inputs))
            truth = self.run_graph(run, wide) if not any(isinstance(i, torch.nn.Module) for i in wide) else None
            if expected.error is not None:
                return  # the program's own
            training = needs_gradients(examples)
            self.say("differentiate" if training else "trace")
            try:
                traced = trace_training(module, examples) if training else trace(module, examples)
            except Exception as error:
                if isinstance(error, (Unsupported, SpentResults)) or is_refusal(error):
                    return  # it runs as captured
                raise Found(_raised("differentiate" if training else "trace", error)) from None
            start()
            if isinstance(traced, FunctionalGraph):
                found = self.run_graph(lambda *given: compute(traced, given), call.inputs)
                self.differs("trace", compare(found, expected, truth), nodes)
                start()
                self.functional(traced, copied(call.inputs), None)
                return
            self.training(call, traced, expected, truth, start)

    def training(self, call: GraphCall, joint: JointGraph, expected: Outcome, truth: Outcome | None,
                 start: Callable[[], None]) -> None:
        """Walk for a graph with its backward."""
        nodes = _calls(call.module.graph)
        with torch.no_grad():
            self.traced(call, expected, truth, start)
        looked_at, difference = self.joint(joint, call, expected, truth)
        if difference is not None:
            stage = "trace" if difference.place.startswith(("result", "argument")) else "differentiate"
            self.differs(stage, difference, nodes)
        parting = "partition" if looked_at else "differentiate"
        again = trace_training(call.module, call.examples)
        assert isinstance(again, JointGraph)
        self.say("partition")
        start()
        self.unit(call, again, None, parting, expected, truth, lambda half, _, takes: interpreted_half(half, takes))
        target = target_for(torch.device("cpu"))
        for count in range(1, len(target.joint_passes()) + 1):
            name = target.joint_passes()[count - 1].__name__
            self.say(f"pass {name}")
            start()
            again = trace_training(call.module, call.examples)
            assert isinstance(again, JointGraph)
            self.unit(call, again, count, f"pass {name}", expected, truth,
                      lambda half, _, takes: interpreted_half(half, takes))
        last = trace_training(call.module, call.examples)
        assert isinstance(last, JointGraph)

        def through(half: FunctionalGraph, name: str, takes_list: bool) -> Callable[..., Any]:
            def run(*inputs: Any) -> Any:
                given = list(inputs[0]) if takes_list else list(inputs)
                self.functional(half, [one.detach() if isinstance(one, torch.Tensor) else one for one in given],
                                "backward" if takes_list else "forward")
                return again_half(*given)

            again_half = interpreted_half(half, False)
            return run

        start()
        self.unit(call, last, -1, "run", expected, truth, through)

    def unit(self, call: GraphCall, joint: JointGraph, passes: int | None, stage: str, expected: Outcome,
             truth: Outcome | None, halves: Callable[..., Any]) -> None:
        """Forward and backward as autograd calls them. ``passes``: how many joint passes run, -1 for all."""
        def prepare(joint: JointGraph) -> JointGraph:
            target = type(target_for(torch.device("cpu")))
            before = target.joint_passes
            if passes is not None and passes >= 0:
                target.joint_passes = lambda own: before(own)[:passes]  # type: ignore
            try:
                return run_joint_passes(joint)
            finally:
                target.joint_passes = before  # type: ignore[method-assign]

        try:
            unit = TrainingUnit(call.module, call.examples, joint, halves, 1.0, None if passes is None else prepare,
                                as_captured=as_captured)
        except Unsupported:
            return
        except Exception as error:
            raise Found(_raised(stage, error)) from None
        found = self.run_graph(unit, call.inputs)
        if isinstance(found.error, Found):
            raise found.error
        if found.error is not None:
            raise Found(_raised(stage, found.error))
        self.differs(stage, compare(found, expected, truth), _calls(call.module.graph))

    def traced(self, call: GraphCall, expected: Outcome, truth: Outcome | None, start: Callable[[], None]) -> None:
        """The results of the graph as it is traced without gradients."""
        self.say("trace")
        try:
            functional = trace(call.module, call.examples)
        except Exception:
            return  # what matters is the trace with gradients
        start()
        inputs = [one.detach() if isinstance(one, torch.Tensor) else one for one in copied(call.inputs)]
        found = _guarded(lambda: compute(functional, inputs))
        if found is not None:
            judge = None if truth is None or truth.error is not None else truth.result
            self.differs("trace", first_difference(found, expected.result, judge), _calls(call.module.graph))

    def joint(self, joint: JointGraph, call: GraphCall, expected: Outcome,
              truth: Outcome | None) -> tuple[bool, Difference | None]:
        """Where results or gradients of the joint graph, run as it is, are not eager's; whether that can be told."""
        from .checking import _tangent

        results = [item for item in joint.differentiable if item.tangent is not None]
        tangents = [Input(item.tangent.name, item.tangent, item.tangent.meta["val"]) for item in results
                    if item.tangent is not None]
        kept = [output for output in joint.outputs if isinstance(output, (FreshTensor, Number))]
        gradients = [output for output in joint.gradients if isinstance(output, FreshTensor)]
        whole = FunctionalGraph(joint.graph, [*joint.inputs, *tangents], [*kept, *gradients], [],
                                joint.constants)
        inputs = [one.detach() if isinstance(one, torch.Tensor) else one for one in copied(call.inputs)]
        listed = expected.result if isinstance(expected.result, (tuple, list)) else [expected.result]
        if len(expected.gradients) != len([one for one in call.inputs if isinstance(one, torch.Tensor)
                                           and one.requires_grad and one.is_leaf]) or len(kept) != len(listed) \
                or len(results) != len(listed) or joint.mutated:
            return False, None  # results and inputs that share memory: the unit below tells
        given = [_tangent(one, number) for number, one in enumerate(listed)]
        try:
            values = compute(whole, [*inputs, *given])
        except Exception as error:
            raise Found(_raised("differentiate", error)) from None
        truths = truth if truth is not None and truth.error is None else Outcome()
        found = first_difference(list(values[:len(kept)]), list(listed), truths.result and list(truths.result))
        if found is not None:
            return True, found
        wanted = [gradient for gradient in expected.gradients if gradient is not None]
        judge = [gradient for gradient in truths.gradients if gradient is not None] if truths.gradients else None
        if len(wanted) != len(gradients):
            return False, None
        return True, first_difference(list(values[len(kept):]), wanted, judge, "gradient", strides=False)

    def run_graph(self, run: Callable[..., Any], inputs: Sequence[Any]) -> Outcome:
        """Results, changed inputs and gradients of a graph's function."""
        given = copied(tuple(inputs))
        found = _graph_outcome(run, given)
        if isinstance(found.error, Found):
            raise found.error
        return found

    # A functional graph

    def functional(self, functional: FunctionalGraph, inputs: Sequence[Any], half: str | None) -> None:
        """Walk for a functional graph: passes, kernels, host program; raises `Found`."""
        nodes = _calls(functional.graph)
        expected = _values(functional, inputs)
        truth = None
        try:
            truth = _values(functional, in_double(copied(list(inputs))))
        except Exception:
            pass  # dtypes are stated in the graph
        rules = _wrong_meta(functional, inputs)
        if rules is not None:
            node, text = rules
            names, line = names_of([node])
            raise Found(Failure("difference", "fake tensors", "rule", f"{names[0]}: {text}", "", names, line))
        target = target_of(functional.graph)
        settings = Settings(device=target.device)
        for each in target.passes():
            name = f"pass {each.__name__}"
            self.say(name)
            known = {node: (node.target, node.args) for node in functional.graph.nodes}
            before = _calls(functional.graph)
            try:
                functional = each(functional, settings)
            except Exception as error:
                raise Found(_raised(name, error)) from None
            if {node: (node.target, node.args) for node in functional.graph.nodes} == known:
                continue
            gone = [node for node in before if node not in set(functional.graph.nodes)] or before
            try:
                values = _values(functional, inputs)
            except Exception as error:
                raise Found(replace(_raised(name, error), operators=names_of(gone)[0])) from None
            self.differs(name, first_difference(values, expected, truth, "result", strides=False), gone)
        compile_bodies(functional, Options())
        self.kernels(functional, target, inputs, expected, truth)
        self.host(functional, inputs, nodes, half)

    def kernels(self, functional: FunctionalGraph, target: Any, inputs: Sequence[Any], expected: Any,
                truth: Any) -> None:
        """Loops: lowered, scheduled, as machine code."""
        from ..kernels.lowering import lower
        from ..kernels.scheduling import schedule

        nodes, hints = _calls(functional.graph), hints_of(functional)
        self.say("lower")
        try:
            lowered = lower(functional.module, device=target.device)
        except Unsupported:
            return
        except Exception as error:
            raise Found(_raised("lower", error)) from None
        on_host = kind_of(target.device).is_host
        if not on_host:  # the plain ways to run loops are for memory of the host
            inputs, expected, truth = _on_host(inputs), _on_host(expected), truth and _on_host(truth)
        evaluation = Evaluation(lowered, inputs)
        values = _guarded(evaluation.run)
        if values is not None:
            difference = first_difference(_tensors(values), _tensors(expected), truth and _tensors(truth), "result",
                                          strides=False)
            guilty = self._wrong_computations(evaluation, functional, inputs) if on_host else []
            self.differs("lower", difference, guilty or nodes)
        self.say("schedule")
        try:
            plan = schedule(lowered, target.machine, (), hints)
        except Exception as error:
            raise Found(_raised("schedule", error)) from None
        points = sum(one.numel() for one in (*_tensors(inputs), *_tensors(expected)))
        run = PlanRun(plan, inputs)
        if points <= MOST_POINTS:
            values = _guarded(run.run)
            if values is not None:
                self.differs("schedule", first_difference(_tensors(values), _tensors(expected),
                                                          truth and _tensors(truth), "result", strides=False), nodes)
        if self.machine_code and on_host:
            self.native(plan, target, hints, inputs, points <= MOST_POINTS)

    def _wrong_computations(self, evaluation: Evaluation, functional: FunctionalGraph,
                            inputs: Sequence[Any]) -> list[Any]:
        """The first node whose own buffer is wrong."""
        values = _all_values(functional, inputs)
        for operation in evaluation.graph.operations:
            origins = [node for node in operation.origins if isinstance(node, torch.fx.Node)]
            for node in origins[-1:]:
                name = getattr(operation, "buffer", None)
                mine, real = evaluation.tensors.get(name or ""), values.get(node)
                if isinstance(mine, torch.Tensor) and isinstance(real, torch.Tensor) and mine.shape == real.shape \
                        and mine.dtype is real.dtype and first_difference(mine, real, strides=False) is not None:
                    return origins
        return []

    def native(self, plan: Any, target: Any, hints: Any, inputs: Sequence[Any], compared: bool) -> None:
        """Kernels as machine code, one after the other, each beside the same kernel point by point."""
        from ..kernels.device_target import Refused
        from ..kernels.plan import kernels_of

        kernels = kernels_of(plan)
        self.say("generate", names_of([node for kernel in kernels for node in kernel.origins])[0])
        try:
            compiled = target.generate(plan, kernels, hints, None).kernels
        except (Refused, Unsupported):
            return
        except Exception as error:
            raise Found(_raised("generate", error)) from None
        code = {id(kernel): one for kernel, one in zip(kernels, compiled, strict=True)}

        def launch(step: Launch, tensors: list[torch.Tensor], sizes: list[Any], numbers: list[Any]) -> None:
            names, _ = names_of(step.kernel.origins)
            self.say(f"generate ({step.kernel.name})", names)
            address = getattr(code[id(step.kernel)], "address", None)
            if address is None:
                raise Unsupported("a kernel of several programs")
            slow = [tensor.clone() if _is_plain(tensor) else None for tensor in tensors]
            call_kernel(address, tensors, sizes, numbers)
            if not compared or any(tensor is None for tensor in slow):
                return
            alone = PlanRun(plan, inputs)
            alone.tensors = dict(zip(step.buffers, slow, strict=True))
            alone.sizes = run.sizes
            try:
                alone.launch(step)
            except Exception:
                return  # an operation that is not known there
            written = [at for at, buffer in enumerate(step.kernel.buffers) if buffer.name in step.kernel.writes]
            found = first_difference([tensors[at] for at in written],
                                     [alone.tensors[step.buffers[at]] for at in written], None, "result", strides=False)
            self.differs("generate", found, step.kernel.origins)

        run = PlanRun(plan, copied(list(inputs)), launch)
        try:
            run.run()
        except Found:
            raise
        except Exception:
            return  # what cannot be launched alone

    def host(self, functional: FunctionalGraph, inputs: Sequence[Any], nodes: Sequence[Any], half: str | None) -> None:
        """The host program around the kernels."""
        if not self.machine_code:
            return
        # kernels for other devices are not launched one by one: what they do wrong shows here
        stage = "host" if kind_of(target_of(functional.graph).device).is_host else "generate"
        self.say(stage, names_of(nodes)[0])
        try:
            expected = compute(functional, copied(list(inputs)))
            run = compile_functional(functional, Options(), "checked").run
            results = run(*copied(list(inputs)))
        except (Unsupported, SpentResults):
            return
        except Exception as error:
            raise Found(_raised(stage, error)) from None
        self.differs(stage, first_difference(list(results), list(expected) if isinstance(expected, tuple) else
                                              [expected], None, "result", strides=False), nodes)


def call_kernel(address: int, tensors: Sequence[torch.Tensor], sizes: Sequence[int], numbers: Sequence[float]) -> None:
    """Launch a kernel for CPUs on memory as it is."""
    function = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)(address)
    buffers = (ctypes.c_void_p * max(len(tensors), 1))(*[tensor.data_ptr() for tensor in tensors])
    integers = (ctypes.c_int64 * max(len(sizes), 1))(*[int(size) for size in sizes])
    floats = (ctypes.c_double * max(len(numbers), 1))(*[float(number) for number in numbers])
    function(buffers, integers, floats)


def names_of(nodes: Sequence[Any]) -> tuple[tuple[str, ...], str]:
    """The names of operators, each once, and the user's line of the first that has one."""
    listed = [node for node in nodes if isinstance(node, torch.fx.Node) and node.op in ("call_function", "call_method")]
    names = [operator_name(node.target) for node in listed]
    lines = [line for node in listed if (line := line_of(node))]
    return tuple(dict.fromkeys(name for name in names if name != "getitem")), lines[0] if lines else ""


def _graph_outcome(run: Callable[..., Any], inputs: tuple[Any, ...]) -> Outcome:
    try:
        result = run(*inputs)
        from .checking import gradients

        return Outcome(result, inputs, gradients(None, inputs, {}, result))
    except Exception as error:
        return Outcome(error=error)


def _calls(graph: torch.fx.Graph) -> list[torch.fx.Node]:
    return [node for node in graph.nodes if node.op in ("call_function", "call_method")]


def _all_values(functional: FunctionalGraph, inputs: Sequence[Any]) -> dict[torch.fx.Node, Any]:
    from ..functional.running import _compute

    values: dict[torch.fx.Node, Any] = {}
    with torch.no_grad():
        _compute(functional, copied(list(inputs)), values)
    return values


def _values(functional: FunctionalGraph, inputs: Sequence[Any]) -> list[Any]:
    """The values of the output node."""
    values = _all_values(functional, inputs)
    returned: list[Any] = []
    output = next(iter(reversed(functional.graph.nodes)))
    torch.fx.map_arg(output.args, lambda node: returned.append(values[node]))
    return returned


def _wrong_meta(functional: FunctionalGraph, inputs: Sequence[Any]) -> tuple[torch.fx.Node, str] | None:
    """The first node that has another size or dtype than is said of it."""
    try:
        values = _all_values(functional, inputs)
    except Exception:
        return None
    for node, value in values.items():
        said = node.meta.get("val")
        if isinstance(value, torch.Tensor) and isinstance(said, torch.Tensor) and node.op == "call_function":
            if said.dtype is not value.dtype:
                return node, f"its rule says {said.dtype}, and it gives {value.dtype}"
            if all(type(size) is int for size in said.shape) and tuple(said.shape) != tuple(value.shape):
                return node, f"its rule says the size {list(said.shape)}, and it gives {list(value.shape)}"
    return None


def _on_host(values: Sequence[Any]) -> list[Any]:
    return [value.cpu() if isinstance(value, torch.Tensor) else value for value in values]


def _tensors(values: Any) -> list[torch.Tensor]:
    return [value for value in values if isinstance(value, torch.Tensor)]


def _is_plain(tensor: torch.Tensor) -> bool:
    return tensor.storage_offset() == 0 and tensor.is_contiguous()


def _guarded(run: Callable[[], Any]) -> Any:
    """A result of the slow ways to run something; None for what they cannot do."""
    try:
        return run()
    except Exception:
        return None


def _raised(stage: str, error: BaseException) -> Failure:
    from .probe import Stages, raised

    failure = raised(error, Stages(lambda _: None))
    return replace(failure, stage=failure.stage if failure.stage.startswith("pass ") else stage)
