"""Runs a random program plain or compiled, records everything Python can observe of it, and compares two records."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import io
import linecache
import math
import random
import re
import sys
import traceback
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from .guarded import guarded
from .program import Program
from .rounding import RUNS, OtherRounding, is_rounding
from .snapshot import Facts, Snapshot, TensorFact, drain, members, requires_grad

Function = Callable[..., Any]
Transform = Callable[[Function], Function]
Use = Callable[[Function, tuple[Any, ...], dict[str, Any]], Any]
SEED = 1234
MAX_DIFFERENCES = 30
# part of autograd's message about a tensor that backward needs
CHANGED_IN_PLACE = "modified by an inplace operation"


def identity(function: Function) -> Function:
    """The transform of a plain run."""
    return function


READING_NUMBERS = (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.is_nonzero.default,
                   torch.ops.aten.item.default)
"""How Python reads a number, mostly between graphs: not counted."""


class OperatorCount(TorchDispatchMode):
    """Counts the ATen calls made while it is active."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False  # otherwise torch wraps the method in something that imports torch._dynamo

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func not in READING_NUMBERS:
            self.count += 1  # an operator that raises has not run
        if (name := func._schema.name).startswith("aten::_foreach_") and name.endswith("_"):
            # Autograd counts these changes of tensors, but not under a mode.
            torch.autograd.graph.increment_version([tensor for tensor in args[0] if not tensor.is_inference()])
        return result


VALUES_UNCHECKED_BELOW_MODES = frozenset({"quantile", "nanquantile"})
"""Functions that eager lets pass values which it refuses otherwise, as long as a dispatch mode is active."""


class CountingBackend:
    """A backend that runs each graph as it is and counts its ATen calls.

    The mode is active inside graphs only: around the whole call it would be part of what capture sees. Without
    `counts` there is none.
    """

    def __init__(self, counts: bool = True) -> None:
        self.counts = counts
        self.operators = OperatorCount()
        self.graphs = 0

    def __call__(self, gm: torch.fx.GraphModule, example_inputs: Any) -> Function:
        self.graphs += 1
        looks_at_modes = any(getattr(node.target, "__name__", node.target) in VALUES_UNCHECKED_BELOW_MODES
                             for node in gm.graph.nodes)

        from firesteel.backends.checkpoint_regions import outline_regions

        forward = outline_regions(gm).forward  # hooks on saved tensors see what checkpoint saves
        nodes = sum(node.op.startswith("call_") for node in gm.graph.nodes)

        def run(*args: Any) -> Any:
            # Views of tensors that require grad do not below a mode in inference mode.
            if torch.is_inference_mode_enabled() or looks_at_modes or not self.counts:
                self.operators.count += nodes
                return forward(*args)
            with self.operators:
                return forward(*args)

        return run


@dataclass
class CallRecord:
    """What one call did."""

    facts: Facts
    stdout: str
    random_state: tuple[str, str]
    # Function and line of each frame of the program that an uncaught exception passed through.
    trace: tuple[tuple[str, int], ...] = ()
    raised: str = ""


@dataclass
class Outcome:
    """What a run of a program did, call by call."""

    calls: list[CallRecord] = field(default_factory=list)
    operators: int = 0

    @property
    def raised(self) -> list[str]:
        return [call.raised for call in self.calls if call.raised]


def run_program(
    program: Program,
    transform: Transform = identity,
    count: bool = False,
    making: contextlib.AbstractContextManager[Any] | None = None,
) -> Outcome:
    """Run the program from scratch with its function replaced by `transform(function)`.

    `count` counts the ATen calls of the program's own calls, for plain runs. The program's arguments and state are made
    inside of `making`.
    """
    outcome = Outcome()
    operators = OperatorCount()
    with _loaded(program) as namespace, _quiet(), _restored_global_state():
        torch.default_generator.manual_seed(SEED)  # programs draw on the CPU alone
        random.seed(SEED)
        namespace["compiled"] = transform  # for what programs compile themselves
        with making or contextlib.nullcontext():
            function, calls, before, observe, *more = namespace["make"]()
        use = more[0] if more else _call
        transformed = transform(function)
        for index, (args, kwargs) in enumerate(calls):
            before(index)
            mode = operators if count else contextlib.nullcontext()
            outcome.calls.append(_record(program, transformed, args, kwargs, observe, namespace, mode, use))
    outcome.operators = operators.count
    return outcome


def _call(function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    return function(*args, **kwargs)


def _record(
    program: Program,
    function: Function,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    observe: Callable[[], dict[str, Any]],
    namespace: dict[str, Any],
    mode: contextlib.AbstractContextManager[Any],
    use: Use,
) -> CallRecord:
    stdout = io.StringIO()
    snapshot = Snapshot()
    result: Any = None
    error: Exception | None = None
    with contextlib.redirect_stdout(stdout):
        try:
            with mode:
                result = use(function, args, kwargs)
        except Exception as caught:
            error = caught
        result = drain(result)
    snapshot.add("args", args)
    snapshot.add("kwargs", kwargs)
    snapshot.add("state", observe())
    snapshot.add("globals", {name: value for name, value in namespace.items() if _is_state(name, value)})
    snapshot.add("grad_mode", torch.is_grad_enabled())
    snapshot.add("autocast", _autocast())
    snapshot.add("result", result)
    snapshot.add("exception", error)
    if error is None:
        snapshot.add("backward", _backward(result, snapshot))
        snapshot.add("args after backward", args)
    trace = traceback.extract_tb(error.__traceback__) if error else []
    return CallRecord(
        snapshot.facts,
        stdout.getvalue(),
        (_digest(bytes(torch.get_rng_state().numpy())), _digest(repr(random.getstate()).encode())),
        tuple((frame.name, frame.lineno or 0) for frame in trace if frame.filename == program.filename),
        type(error).__name__ if error else "",
    )


def _is_state(name: str, value: Any) -> bool:
    """Classes are state too: programs assign their attributes."""
    return not name.startswith("__") and not isinstance(value, (types.ModuleType, types.FunctionType))


def _backward(result: Any, snapshot: Snapshot) -> Any:
    """Differentiate the result's first differentiable tensor: the gradients of the leaves that the program holds, by
    where they are found, or the error's type.

    A leaf that nothing but autograd's graph refers to is out of reach, and how many of those there are is the affair of
    whoever makes the graph. So is whether a leaf without gradient is part of it, which may require none any more.
    """
    found = [value for value in _tensors(result) if requires_grad(value) and value.is_floating_point()]
    if not found:
        return None
    leaves = {path: leaf for leaf in _leaves(found[0]) if leaf.requires_grad and
              (path := snapshot.path_of(leaf)) is not None}
    if not leaves:
        return None
    try:
        # Not the same everywhere: what comes of a normalisation would be rounding errors only.
        ramp = torch.linspace(0.5, 1.5, found[0].numel()).reshape(found[0].shape)
        dense = _gradients(found[0], leaves, torch.empty_like(found[0]).copy_(ramp))
        # Strides of what comes of an expanded tensor depend on which operators see it expanded.
        row = torch.linspace(0.5, 1.5, (*found[0].shape, 1)[found[0].dim() - 1], dtype=found[0].dtype)
        expanded = _gradients(found[0], leaves, row.expand(found[0].shape) if found[0].dim() else row.squeeze())
    except RuntimeError as error:
        return CHANGED_IN_PLACE if CHANGED_IN_PLACE in str(error) else type(error).__name__
    if not dense:
        return None
    return dense, {path: gradient.clone(memory_format=torch.contiguous_format) for path, gradient in expanded.items()}


def _gradients(value: torch.Tensor, leaves: dict[str, torch.Tensor], start: torch.Tensor) -> dict[str, torch.Tensor]:
    found = torch.autograd.grad(value, list(leaves.values()), start, allow_unused=True, retain_graph=True)
    by_path = {path: gradient for path, gradient in zip(leaves, found, strict=True) if gradient is not None}
    return {path: by_path[path] for path in sorted(by_path)}


def _leaves(value: torch.Tensor) -> list[torch.Tensor]:
    """The leaf tensors a tensor was computed from, in a fixed order."""
    leaves: list[torch.Tensor] = [value] if value.grad_fn is None else []
    stack, seen = [value.grad_fn], set()
    while stack:
        node = stack.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        if hasattr(node, "variable"):
            leaves.append(node.variable)
        stack += [following for following, _ in node.next_functions]
    return leaves


def _tensors(value: Any, around: frozenset[int] = frozenset()) -> Iterator[torch.Tensor]:
    """The tensors in lists, tuples and dictionaries; `around` are those that the value lies in, perhaps its own."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, (list, tuple, dict)) and id(value) not in around:
        # a class of the program's may iterate in a way of its own
        for item in dict.values(value) if isinstance(value, dict) else members(value):
            yield from _tensors(item, around | {id(value)})


def _autocast() -> tuple[bool, int]:
    """Whether autocast is on, and how deep its blocks are nested, on which emptying its cache depends."""
    torch.autocast_increment_nesting()
    return torch.is_autocast_enabled("cpu"), torch.autocast_decrement_nesting()


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


@contextlib.contextmanager
def _loaded(program: Program) -> Iterator[dict[str, Any]]:
    """Execute the source as a module of its own, with source lines for tracebacks."""
    module = types.ModuleType(f"fuzz_program_{program.seed}")
    module.__file__ = program.filename
    lines = program.source.splitlines(keepends=True)
    linecache.cache[program.filename] = (len(program.source), None, lines, program.filename)
    sys.modules[module.__name__] = module
    try:
        exec(compile(program.source, program.filename, "exec"), module.__dict__)
        yield module.__dict__
    finally:
        # Modules that the program made go with it: `inspect` asks every module for its file.
        for name in [name for name in sys.modules if name.startswith("fuzz_")]:
            del sys.modules[name]
        linecache.cache.pop(program.filename, None)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextlib.contextmanager
def _restored_global_state() -> Iterator[None]:
    """A program (or a wrong compilation) that leaves the grad mode changed must not disturb the next."""
    grad, state, numbers = torch.is_grad_enabled(), torch.get_rng_state(), random.getstate()
    cast, nesting = _autocast()
    try:
        yield
    finally:
        torch.set_grad_enabled(grad)
        torch.set_autocast_enabled("cpu", cast)
        while _autocast()[1] > nesting:
            torch.autocast_decrement_nesting()
        while _autocast()[1] < nesting:
            torch.autocast_increment_nesting()
        torch.set_rng_state(state)
        random.setstate(numbers)


# Comparison


def compare(expected: Outcome, actual: Outcome, traces: bool = False, others: Sequence[Outcome] = ()) -> list[str]:
    """The differences between two runs, the most telling ones first, none when they are equal.

    Everything is compared exactly, except floating point numbers, which have to be close, or as close as those of the
    `others` are to the first run's. `traces` also compares which lines of the program an uncaught exception passed
    through.
    """
    differences = []
    if len(expected.calls) != len(actual.calls):
        return [f"{len(expected.calls)} calls, then {len(actual.calls)}"]
    for index, (left, right) in enumerate(zip(expected.calls, actual.calls, strict=True)):
        rounded = [dict(other.calls[index].facts) for other in others if len(other.calls) > index]
        for difference in compare_calls(left, right, traces, rounded):
            differences.append(f"call {index}: {difference}")
    if len(differences) > MAX_DIFFERENCES:
        differences[MAX_DIFFERENCES:] = [f"and {len(differences) - MAX_DIFFERENCES} more"]
    return differences


def compare_calls(
    left: CallRecord, right: CallRecord, traces: bool, others: Sequence[dict[str, Any]] = ()
) -> Iterator[str]:
    """The differences between two calls; see `compare`."""
    if left.raised != right.raised:
        yield f"exception: {left.raised or 'none'} != {right.raised or 'none'} {_message(right)}"
    if left.stdout != right.stdout:
        yield f"stdout: {left.stdout!r} != {right.stdout!r}"
    for name, first, second in zip(("torch", "random"), left.random_state, right.random_state, strict=True):
        if first != second:
            yield f"state of {name}'s generator differs"
    if traces and left.trace != right.trace:
        yield f"traceback: {left.trace} != {right.trace}"
    expected, actual = dict(left.facts), dict(right.facts)
    for path, fact in expected.items():
        if path not in actual:
            yield f"{path}: {fact} is missing"
        elif not _same(fact, actual[path]) and not _is_rounding(
                fact, actual[path], [other.get(path) for other in others]):
            yield f"{path}: {fact} != {actual[path]}"
    for path, fact in actual.items():
        if path not in expected:
            yield f"{path}: {fact} is new"
    if list(expected) != list(actual) and expected.keys() == actual.keys():
        yield "the order of attributes or members differs"


def _message(call: CallRecord) -> str:
    return str(dict(call.facts).get("exception.args[0]", ""))


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, TensorFact) and isinstance(right, TensorFact):
        fields = [name for name in TensorFact.__dataclass_fields__ if name != "values"]
        if any(getattr(left, name) != getattr(right, name) for name in fields):
            return False
        if not (left.dtype.is_floating_point or left.dtype.is_complex):
            return torch.equal(left.values, right.values)
        if left.dtype is torch.complex32:  # which torch cannot compare
            left, right = (replace(fact, values=fact.values.to(torch.complex64)) for fact in (left, right))
        if torch.equal(left.values, right.values):  # much quicker than what follows
            return True
        try:
            torch.testing.assert_close(left.values, right.values, equal_nan=True)
        except AssertionError:
            return False
        return True
    if isinstance(left, TensorFact) or isinstance(right, TensorFact):
        return False
    if left[0] == right[0] == "float":
        return _close(left[1], right[1])
    if left[0] == right[0] == "complex":
        return _close(left[1].real, right[1].real) and _close(left[1].imag, right[1].imag)
    return bool(left == right)


def _is_rounding(left: Any, right: Any, others: list[Any]) -> bool:
    facts = (left, right, *others)
    if others and all(isinstance(fact, tuple) and fact[0] == "float" for fact in facts):  # such as a tensor's item()
        first, second, *more = (torch.tensor(fact[1], dtype=torch.float64) for fact in facts)
        return is_rounding(first, second, more)
    return others != [] and all(isinstance(fact, TensorFact) for fact in (left, right, *others)) \
        and left.dtype.is_floating_point and _same(replace(left, values=right.values), right) \
        and is_rounding(left.values, right.values, [other.values for other in others])


def _close(left: float, right: float) -> bool:
    return math.isclose(left, right, rel_tol=1e-6, abs_tol=1e-6) or (math.isnan(left) and math.isnan(right))


# Compilers

Compiler = Callable[[CountingBackend], contextlib.AbstractContextManager[Transform]]


def _firesteel(backend: str | None, dynamic: bool | None, tier: str = "wait", **settings: Any) -> Compiler:
    """firesteel with the backend of this name, or with the one that counts. Internal errors are raised, so that they
    count as differences. Operators inside of kernels are not counted. `settings`: more of `firesteel.config`."""

    @contextlib.contextmanager
    def compiler(counting: CountingBackend) -> Iterator[Transform]:
        import firesteel as fs

        fs.reset()
        try:
            with fs.config.patch(raise_on_internal_error=True, disk_cache=False, **settings):
                yield lambda function: fs.compile(function, backend=backend or counting, dynamic=dynamic, tier=tier)
        finally:
            fs.reset()

    return compiler


def _whole(dynamic: bool | None) -> Compiler:
    """firesteel with ``fullgraph=True``. Calls that it refuses run plain: it has done nothing for them."""

    @contextlib.contextmanager
    def compiler(counting: CountingBackend) -> Iterator[Transform]:
        import firesteel as fs
        from firesteel.errors import GraphBreakError, RecompileLimitError

        def transform(function: Any) -> Any:
            if not isinstance(function, types.FunctionType):
                return fs.compile(function, backend=counting, dynamic=dynamic)
            compiled = fs.compile(function, backend=counting, dynamic=dynamic, fullgraph=True)

            @functools.wraps(function)
            def call(*args: Any, **kwargs: Any) -> Any:
                try:
                    return compiled(*args, **kwargs)
                except (GraphBreakError, RecompileLimitError) as error:
                    if "and not when it runs" in str(error):  # it has an entry for another program than this one
                        raise
                return function(*args, **kwargs)

            return call

        with _firesteel(None, dynamic)(counting):
            yield transform

    return compiler


@contextlib.contextmanager
def staged_compiler(counting: CountingBackend) -> Iterator[Transform]:
    """Every backward is taken apart as far as it can be, as under `DistributedDataParallel` with tiny buckets."""
    from firesteel import torch_compat

    limits = torch_compat.bucket_limits
    torch_compat.bucket_limits = lambda: (1,)
    try:
        with COMPILERS["native"](counting) as transform:
            yield transform
    finally:
        torch_compat.bucket_limits = limits


def compile_as_torch(target: Any) -> Any:
    """What torch's compiler makes of a function, or a module that calls of it compile from now on."""
    if isinstance(target, torch.nn.Module):
        target.compile()
        return target
    return torch.compile(target)


@contextlib.contextmanager
def _installed(counting: CountingBackend) -> Iterator[Transform]:
    """``torch.compile`` and ``Module.compile`` of programs written for torch's compiler, answered by firesteel. States
    of modules that ``torch.compile`` returns have other names, as torch has them: modules are compiled in place."""
    from firesteel.unchanged.installing import installed

    with _firesteel("native", None, compile_after=0)(counting), installed():
        yield compile_as_torch


@contextlib.contextmanager
def torch_compiler(backend: CountingBackend) -> Iterator[Transform]:
    """torch's own front end, to see where it stands on the same programs."""
    import torch._dynamo

    torch._dynamo.reset()
    yield lambda function: torch.compile(function, backend=backend)


@contextlib.contextmanager
def no_compiler(backend: CountingBackend) -> Iterator[Transform]:
    """Two plain runs: any difference is the harness's own."""
    yield identity


COMPILERS: dict[str, Compiler] = {
    "firesteel": _firesteel(None, None),
    "firesteel-dynamic": _firesteel(None, True),
    "aot_eager": _firesteel("aot_eager", None),
    "native": _firesteel("native", None),
    "native-dynamic": _firesteel("native", True),
    # Kernels that check every access, and tensors whose memory ends where another access is a crash.
    "native-checked": _firesteel("native", None, check_bounds=True),
    "native-waiting": _firesteel("native", None, "auto", compile_after=1e-9),  # first calls run uncompiled
    "installed": _installed,
    "native-dynamic-checked": _firesteel("native", True, check_bounds=True),
    "native-staged": staged_compiler,
    "firesteel-whole": _whole(None),
    "firesteel-dynamic-whole": _whole(True),
    "native-guarded": _firesteel("native", None),
    "native-dynamic-guarded": _firesteel("native", True),
    "torch": torch_compiler,
    "none": no_compiler,
}
# Those whose graphs the counting backend runs.
COUNTED = ("firesteel", "firesteel-dynamic", "firesteel-whole", "firesteel-dynamic-whole", "torch", "none")
# Those that make graphs functional: a result may lie in other memory than the plain program's.
FUNCTIONAL = ("aot_eager", "installed", *(name for name in COMPILERS if name.startswith("native")))


def _placing(compiler: str, program: Program) -> contextlib.AbstractContextManager[Any] | None:
    """Where the tensors of a program lie, if that is the compiler's affair."""
    if not compiler.endswith("guarded"):
        return None
    return guarded("begin" if program.seed % 2 else "end")


def without_offsets(outcome: Outcome) -> Outcome:
    """A run with nothing said about where in its memory a tensor begins: kernels store no more of a new tensor than the
    part that is a result. Which tensors share memory is compared all the same."""
    for call in outcome.calls:
        call.facts = [(path, replace(fact, offset=0) if isinstance(fact, TensorFact) else fact)
                      for path, fact in call.facts]
    return outcome


# How programs read numbers from tensors; the last is how those of `parts/selections.py` begin.
READS_NUMBERS = re.compile(r"\.item\(\)|\.tolist\(\)|\bint\(t\[|\bdef fn\(x, y, m, z, w\)")


def without_layouts_of_data(outcome: Outcome) -> Outcome:
    """A run in which tensors without elements lie by rows, and so do gradients along dimensions of one element, and
    where they are expanded. Padding that only cuts and a slice of everything lie otherwise in eager than other padding
    and slices, also their gradients. Where data decides which it is, graphs do not ask unless elements lie otherwise.
    """

    def by_rows(fact: TensorFact, gradient: bool) -> TensorFact:
        rows = torch.empty(fact.shape, device="meta").stride()
        if fact.values.numel() == 0 or gradient and any(
                size > 1 and not step for size, step in zip(fact.shape, fact.stride, strict=True)):
            return replace(fact, stride=rows)
        return replace(fact, stride=tuple([row if size == 1 and gradient else step for size, step, row
                                           in zip(fact.shape, fact.stride, rows, strict=True)]))

    for call in outcome.calls:
        call.facts = [(path, by_rows(fact, path.startswith("backward")) if isinstance(fact, TensorFact) else fact)
                      for path, fact in call.facts]
    return outcome


def without_refusals(plain: Outcome, compiled: Outcome) -> None:
    """Forget the gradients of calls where autograd refuses to compute them in the plain run, because a tensor that it
    saved has been changed: a compiled backward may well not need that tensor."""
    for left, right in zip(plain.calls, compiled.calls, strict=True):
        if ("backward", ("str", CHANGED_IN_PLACE)) in [fact for fact in left.facts if fact[0] == "backward"]:
            for call in (left, right):
                call.facts = [fact for fact in call.facts if not fact[0].startswith("backward")]


@dataclass(frozen=True)
class Report:
    """A program's plain run against its compiled run; `inside` of `total` ATen calls ran in graphs, of compilers in
    `COUNTED`."""

    program: Program
    differences: list[str]
    inside: int
    total: int
    graphs: int
    raised: list[str]


def check(
    program: Program,
    compiler: str = "firesteel",
    traces: bool = False,
    after_plain: Callable[[Outcome | None], None] | None = None,
    counts: bool = True,
) -> Report:
    """Compare the program plain and compiled; `after_plain` is told of the plain run before the other begins, and of
    None before the plain program runs again. Without `counts` it is not known what ran inside graphs."""
    plain = run_program(program)
    if after_plain is not None:
        after_plain(plain)
    counts = counts and compiler in COUNTED
    backend = CountingBackend(counts)
    with COMPILERS[compiler](backend) as transform:
        compiled = run_program(program, transform, making=_placing(compiler, program))
    plain, compiled = _promised(plain, program, compiler), _promised(compiled, program, compiler)
    if compiler in FUNCTIONAL:
        without_refusals(plain, compiled)
    if after_plain is not None:
        after_plain(None)
    # Counted in a run of its own: autograd itself does not do the same under a mode that sees its operators.
    total = run_program(program, count=True).operators if counts else 0
    # Work done twice must not make up for work left outside.
    inside = min(backend.operators.count, total)
    differences = compare(plain, compiled, traces)
    if differences and counts:
        # Below a mode, torch writes into no tensor that it makes itself: linear layers add their bias into a new one.
        with COMPILERS[compiler](CountingBackend(counts=False)) as transform:
            compiled = _promised(run_program(program, transform), program, compiler)
        differences = compare(plain, compiled, traces)
    # A program that does not repeat itself says nothing about rounding.
    if any("TensorFact" in difference or "('float'" in difference for difference in differences) and not any(
            compare(plain, _promised(run_program(program), program, compiler)) for _ in range(2)):
        others = [_promised(_rounded(program, seed), program, compiler) for seed in range(RUNS)]
        differences = compare(plain, compiled, traces, others)
    return Report(program, differences, inside, total, backend.graphs, plain.raised)


def _promised(outcome: Outcome, program: Program, compiler: str) -> Outcome:
    """What the compiler promises to keep of an outcome."""
    if compiler in FUNCTIONAL:
        outcome = without_offsets(outcome)
        if READS_NUMBERS.search(program.source):
            outcome = without_layouts_of_data(outcome)
    return outcome


def _rounded(program: Program, seed: int) -> Outcome:
    with OtherRounding(seed):
        return run_program(program)


def coverage(program: Program) -> tuple[int, int]:
    """How many of the ATen calls that the plain program makes ran inside graphs, and how many there are."""
    report = check(program)
    return report.inside, report.total
